"""Warnings of the package: at the caller's line, with the name of the part, and once if many parts give the same one.

>>> with gathered(UserWarning) as said:
...     with part_named("slot 3"):
...         warn(f"the value{part_now()} is undefined")
>>> said[UserWarning]
['the value of slot 3 is undefined']
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import warnings
from typing import Any, Callable, ContextManager, Iterator

__all__ = ["gathered", "muted", "muted_now", "part_named", "part_now", "warn"]

_PACKAGE = __name__.partition(".")[0]
_muted: contextvars.ContextVar[tuple[type[Warning], ...]] = contextvars.ContextVar("_muted", default=())
_gathered: contextvars.ContextVar[dict[type[Warning], list[str]] | None] = contextvars.ContextVar(
    "_gathered", default=None
)
#: The categories of warnings that `muted` suppresses here.
muted_now: Callable[[], tuple[type[Warning], ...]] = _muted.get
_part: contextvars.ContextVar[str] = contextvars.ContextVar("_part", default="")
#: The part of the samples that is named, such as " of slot 3"; or nothing.
part_now: Callable[[], str] = _part.get


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn the caller of this package: the warning points at the first line outside of it."""
    if issubclass(category, muted_now()):
        return
    gathering = _gathered.get()
    if gathering is not None and category in gathering:
        gathering[category].append(text)
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def muted(*categories: type[Warning]) -> ContextManager[Any]:
    """Suppress warnings of these categories inside."""
    return _holding(_muted, (*_muted.get(), *categories))


def gathered(*categories: type[Warning]) -> ContextManager[dict[type[Warning], list[str]]]:
    """Collect the warnings of these categories inside, to give them in one sentence afterwards."""
    return _holding(_gathered, {category: [] for category in categories})


def part_named(text: str) -> ContextManager[Any]:
    """Name the part of the samples, such as "slot 3", in the warnings raised inside."""
    return _holding(_part, f"{_part.get()} of {text}")


@contextlib.contextmanager
def _holding(variable: contextvars.ContextVar[Any], value: Any) -> Iterator[Any]:
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
