"""Files that are to be written: known, before anything is read, to be none of those that are."""

from __future__ import annotations

import contextlib
import os
from typing import Hashable, Iterable, Mapping

from fleetmetrics.errors import InvalidInputError

__all__ = ["check_outputs"]


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str]) -> None:
    """Raise InvalidInputError if a file cannot be written, is one of those that are read, or would be written twice.

    Args:
        outputs: paths by what asks for them; None: nothing does.
        inputs: paths of what is read; "-": the standard input.
    """
    taken: dict[Hashable, str] = {}
    for source in inputs if any(outputs.values()) else ():
        taken.setdefault(_identity(source), f"{source}, which is read" if source != "-" else "the standard input")
    for name, path in outputs.items():
        if not path:
            continue
        if os.path.isdir(path) or not os.access(os.path.dirname(path) or ".", os.W_OK):
            raise InvalidInputError(
                f"{name} {path} cannot be written: it lies in no folder in which you may write a file"
            )
        same = taken.setdefault(_identity(path), f"what {name} writes")
        if same != f"what {name} writes":
            raise InvalidInputError(f"{name} {path} would overwrite {same}; give another path")


def _identity(path: str) -> Hashable:
    """What is the same for each path, or link, to a file."""
    with contextlib.suppress(OSError, ValueError):
        stat = os.fstat(0) if path == "-" else os.stat(path)
        return stat.st_dev, stat.st_ino
    return os.path.realpath(path)
