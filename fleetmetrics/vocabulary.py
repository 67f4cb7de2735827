"""Words that several faces of an evaluation share: its result, its report, and the names of what is asked.

An error names an argument as the user has given it: ``ci`` to who calls from Python, ``--ci`` in a shell.
"""

from __future__ import annotations

import contextlib
import contextvars
import re
from typing import Any, Iterator

__all__ = [
    "RESERVED",
    "SIZES",
    "VERDICTS",
    "argument",
    "as_options",
    "counted",
    "described",
    "in_shell",
    "names_in",
    "separated",
]

#: The verdicts on a slice, the most important first.
VERDICTS = ("worse", "different", "better", "within chance", "too few")
#: What is counted of a slice, and of the whole, beside rows.
SIZES = ("positives", "users", "queries")
#: What a result has beside the values of metrics.
RESERVED = (
    "about",
    "asked",
    "at_k",
    "baseline",
    "conditions",
    "data",
    "explained",
    "others",
    "references",
    "rows",
    "slices",
    "verdicts",
    "versus",
    "warnings",
)

_OPTIONS = contextvars.ContextVar("fleetmetrics_options", default=False)


@contextlib.contextmanager
def as_options() -> Iterator[None]:
    """Arguments are called as in a shell, by this thread, until it ends."""
    token = _OPTIONS.set(True)
    try:
        yield
    finally:
        _OPTIONS.reset(token)


def in_shell() -> bool:
    """Whether arguments are called as in a shell."""
    return _OPTIONS.get()


def argument(name: str, value: str = "") -> str:
    """What an argument of `fleetmetrics.evaluate` is called in a message.

    Args:
        name: in Python.
        value: what to give it.
    """
    if in_shell():
        return f"--{name.replace('_', '-')}{' ' if value else ''}{value}"
    return f"{name}={value}" if value else name


def counted(number: int, what: str) -> str:
    """A number of things, in words.

    Args:
        number: of them.
        what: they are, in the plural.

    Examples:
        >>> counted(1, "queries"), counted(2000, "queries"), counted(1, "files")
        ('1 query', '2,000 queries', '1 file')
    """
    one = f"{what[:-3]}y" if what.endswith("ies") else what[:-1]
    return f"{number:,} {one if number == 1 else what}"


def separated(text: str, separator: str = ",") -> list[str]:
    """The parts of a text between separators that are not within double quotes; these stay."""
    return [part.strip() for part in re.split(f'{re.escape(separator)}(?=(?:[^"]*"[^"]*")*[^"]*$)', text)]


def names_in(text: str, separator: str = ",") -> list[str]:
    """Names between separators; one in double quotes may hold a separator, and a double quote twice.

    Examples:
        >>> names_in('p0,"a,b"')
        ['p0', 'a,b']
    """
    parts = separated(text, separator)
    quoted = re.compile(r'"((?:[^"]|"")*)"')
    return [found[1].replace('""', '"') if found else part for part, found in zip(parts, map(quoted.fullmatch, parts))]


def described(metric: Any) -> dict[str, str]:
    """What a result says about a metric: its class, which values are better, and what it is, in a line."""
    kind = type(metric)
    what = (kind.__doc__ or "").partition("\n")[0].replace("`", "")
    return {"kind": kind.__name__, "better": getattr(metric, "better", ""), "definition": what}
