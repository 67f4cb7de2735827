"""A side in a file: saved, and read again with others of the same arguments."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from typing import Any, Callable, Iterator, Mapping, Sequence

from fleetmetrics._version import __version__
from fleetmetrics.columns.reading import ON_FILES
from fleetmetrics.errors import CorruptFileError, DataError, FleetMetricsError, InvalidInputError
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.evaluation.sides.side import Side
from fleetmetrics.files import Read, together
from fleetmetrics.files.parts import read_of
from fleetmetrics.files.places import local_path
from fleetmetrics.serial import MISFITS
from fleetmetrics.serial.container import Arrays, read_arrays, write_arrays
from fleetmetrics.support.checks import listed, path_of
from fleetmetrics.support.settings import difference

__all__ = ["load", "save", "states_of"]


def save(path: str, side: Side) -> None:
    """Write a side, whole or not at all; InvalidInputError for one of several tasks."""
    if side.task is not None:
        raise InvalidInputError("this is one of several tasks, which one state holds; save the whole result")
    arrays = {("", name): array for name, array in side.metrics.state_dict().items()}
    write_arrays(path, arrays, {"version": __version__, "asked": side.asked.plain(), "read": side.read})


def states_of(states: Any, name: str = "states") -> list[str]:
    """The paths of saved states; one path is a list of one.

    Args:
        states: as given.
        name: the argument.
    """
    paths = [states] if isinstance(states, (str, os.PathLike)) else listed(name, states, "paths")
    if not paths:
        raise InvalidInputError(f"{name} is empty; name at least one")
    return [local_path(path_of(name, path)) for path in paths]


def load(paths: Sequence[str], like: str, *, baseline: bool = False) -> tuple[Side, list[str]]:
    """Read files of `save` as one side, with warnings.

    Args:
        paths: the files.
        like: a file with the same arguments; the columns of the other side may have other names.
        baseline: whether this is the other side.

    Raises:
        CorruptFileError: a file is not a saved state.
        DataError: a file is missing, the arguments differ, a file has a different version, or some data are in two
            states.
    """
    for path in {like: None, **dict.fromkeys(paths)}:
        _check_is_there(path)
    path, (_, note) = like, _contents(like, lambda *_: False)
    reads: list[tuple[str, Read]] = []

    def states() -> Iterator[dict[str, Any]]:
        nonlocal path, note
        for path in paths:
            arrays, note = _contents(path)
            own, first = (_alike(one.plain(), baseline) for one in (Question.of_plain(note["asked"]), asked))
            differs = difference(own, first, there=f"in {like}")
            if differs:
                raise InvalidInputError(f"it cannot be combined with {like}: {differs}")
            reads.append((path, read_of(note["read"])))
            yield {name: array for (_, name), array in arrays.items()}

    try:
        asked = Question.of_plain(note["asked"])
        if baseline:  # its slices may lack the states of a comparison, or have only those
            own = _contents(paths[0], lambda *_: False)[1]["asked"]
            asked = replace(asked, compared=own.get("compared"))
        shape = asked.probe()
        metrics = shape.collection()
        metrics.hold_merged(states())
    except InvalidInputError as error:
        raise DataError(f"{path}, by fleetmetrics {note.get('version')}: {error}") from None
    except FleetMetricsError:
        raise
    except OSError as error:
        raise DataError(f"{path}: it cannot be read: {error.strerror or error}") from None
    except MISFITS as error:
        raise CorruptFileError(f"{path}: its arguments are malformed ({type(error).__name__}: {error})") from None
    notes = [f"{state} lacks {_listed(read.bad_files)}" for state, read in reads if read.bad_files]
    notes += _counted_twice(reads)
    known = (*paths, *map(os.path.abspath, paths))
    return Side(asked, shape, metrics, together(read for _, read in reads), "", baseline, known), notes


def _contents(path: str, *wanted: Callable[[str, str], bool]) -> tuple[Arrays, dict[str, Any]]:
    """The arrays and the note of a file of `save`; CorruptFileError for the file of any other function."""
    arrays, note = read_arrays(path, *wanted)
    if not isinstance(note, dict) or not {"asked", "read"} <= note.keys() or not isinstance(note["asked"], dict):
        writers = "fleetmetrics evaluate --save-state and EvaluationResult.save_state write those"
        raise CorruptFileError(f"{path} is a file of fleetmetrics, but no saved evaluation: {writers}")
    return arrays, note


def _check_is_there(path: str) -> None:
    """Raise DataError unless this is a file that can be opened."""
    try:
        with open(path, "rb"):
            return
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; name the states in it") from None
    except FileNotFoundError:
        pattern = re.search(r"[*?[]", path)
        why = "; only the shell expands patterns, if they are unquoted and match files" if pattern else ""
        raise DataError(f"there is no file {path}{why}") from None
    except OSError as error:
        raise DataError(f"{path}: it cannot be read: {error.strerror or error}") from None


def _alike(asked: Mapping[str, Any], baseline: bool) -> dict[str, Any]:
    """The arguments that two states must share: a baseline's columns may have other names."""
    alike = {name: value for name, value in asked.items() if name not in ("header", *ON_FILES)}
    if not baseline:
        return alike
    return {**alike, "columns": ", ".join(sorted(asked["columns"])), "compared": None, "join": None}


def _listed(bad: Sequence[str]) -> str:
    """Files that a state lacks, in words."""
    number = "a file that" if len(bad) == 1 else f"{len(bad)} files that"
    return f"{number} could not be used: {'; '.join(bad[:3])}{'; ...' if bad[3:] else ''}"


def _counted_twice(reads: Sequence[tuple[str, Read]]) -> list[str]:
    """The warning if rows may count twice; DataError if they do."""
    for state, number in Counter(os.path.realpath(state) for state, _ in reads).items():
        if number > 1:
            raise DataError(f"{state} is given {number} times: its rows would count {number} times; name it once")
    notes: list[str] = []
    paths: dict[str, tuple[str, Any]] = {}
    contents: dict[Any, tuple[str, str]] = {}
    for state, source in ((state, source) for state, read in reads for source in read.sources if source.rows):
        content = source.size, source.digest
        before, path = contents.setdefault(content, (state, source.path))
        if (before, path) == (state, source.path):
            earlier, other = paths.setdefault(source.path, (state, content))
            if other != content:
                notes.append(
                    f"{source.path} was read for {earlier}, and again for {state} with different contents: rows "
                    "that both readings have count twice"
                )
        elif path == source.path:
            raise DataError(
                f"{source.path} is in {before} and in {state}: its rows would count twice; merge each file once"
            )
        elif before != state:  # in one state, that was asked for
            notes.append(
                f"{path}, which is in {before}, and {source.path}, in {state}, look the same in size, "
                "beginning and end; if they are copies, their rows count twice"
            )
    return notes
