"""Output files; a check, before writing, that they are not among the inputs."""

from __future__ import annotations

import contextlib
import fnmatch
import os
from typing import Any, Hashable, Iterable, Mapping

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.files.places import is_remote, local_path
from fleetmetrics.support.checks import path_of

__all__ = ["check_apart", "check_outputs", "output_of"]


def output_of(path: Any, inputs: Iterable[str]) -> str:
    """The argument ``path`` of a method that writes a file; InvalidInputError as for `check_outputs`.

    Args:
        path: as given.
        inputs: the paths of the inputs.
    """
    output = path_of("path", path)
    check_outputs({"path": output}, inputs)
    return output


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str]) -> None:
    """Raise InvalidInputError if a file cannot be written, is among the inputs, or would be written twice.

    Args:
        outputs: paths by their option; None: not requested.
        inputs: paths of the inputs; "-": the standard input.
    """
    taken: dict[Hashable, str] = {}
    for source in inputs:
        taken.setdefault(_identity(source), f"{source}, which is read" if source != "-" else "the standard input")
    for name, path in outputs.items():
        if path is None:
            continue
        problem = _why_not_writable(path)
        if problem:
            raise InvalidInputError(" ".join(filter(None, (name, path, problem))))
        owner = taken.setdefault(_identity(path), f"the output of {name}")
        if owner != f"the output of {name}":
            raise InvalidInputError(f"{name} {path} would overwrite {owner}; give another path")


def _why_not_writable(path: str) -> str:
    """Why no file can be written here; "" if one can."""
    if not path:
        return "is empty; give the path of a file"
    if is_remote(path):
        return "is a URL; give a path of this machine"
    if os.path.isdir(path):
        return "is a folder; give the path of a file"
    if os.path.exists(path) and not os.path.isfile(path):
        return "is not a file; give the path of a file"
    if not os.access(os.path.dirname(os.path.realpath(path)), os.W_OK):
        return "cannot be written: its folder is missing or not writable"
    return ""


def check_apart(outputs: Mapping[str, str | None], inputs: Iterable[Any]) -> None:
    """Raise InvalidInputError if a file would be read as data the next time.

    Args:
        outputs: paths by their option; None: not requested.
        inputs: the files, folders and patterns that are read.
    """
    for entry in map(os.fspath, inputs):
        for name, path in outputs.items():
            if path is not None and _takes(local_path(entry), os.path.realpath(path)):
                raise InvalidInputError(
                    f"{name} {path} is in {entry}, which is read, and would be read as data the next time; give a path "
                    "elsewhere, or a name that begins with _"
                )


def _takes(entry: str, path: str) -> bool:
    """Whether a folder or pattern has a file in it or below, unless a name begins with _ or a point."""
    if is_remote(entry) or os.path.isfile(entry):
        return False
    top = os.path.realpath(entry)
    if not os.path.isdir(entry):
        return fnmatch.fnmatchcase(path, top) and not os.path.basename(path).startswith(("_", "."))
    inside = os.path.relpath(path, top).split(os.sep)
    return not any(part.startswith(("_", ".")) for part in inside)


def _identity(path: str) -> Hashable:
    """An identity that is the same for each path, or link, to a file."""
    with contextlib.suppress(OSError, ValueError):
        stat = os.fstat(0) if path == "-" else os.stat(path)
        return stat.st_dev, stat.st_ino
    return os.path.realpath(path)
