"""Metrics of files, of any size and on all cores: Parquet, CSV, JSON Lines, NPZ, Arrow IPC; see docs/guide/files.md."""

from __future__ import annotations

import contextlib
import copy
import functools
import glob
import os
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from fleetmetrics.arguments import whole_number_of
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.files.formats import rows_of
from fleetmetrics.files.one_file import ROW, Evaluated, Read, Share, evaluate_file, together
from fleetmetrics.files.processes import results_of
from fleetmetrics.logs import progress as shown

__all__ = ["ROW", "DataError", "Evaluated", "Read", "evaluate", "evaluate_file", "find", "together"]

#: Another process is worth its start, a second or so, if it reads so many bytes.
_WORTH = 1 << 28
#: So many results are put together at once; more would have to be in memory.
_AT_ONCE = 32
#: The bytes of a process without records, and of a row in each table of records while it is folded; measured.
_BASE, _PER_ROW = 1 << 28, 80
#: So many passes at a time where one process makes all: NumPy sorts the records of one while the next one is read.
_PASSES = 2


def find(files: Any) -> list[str]:
    """The files that are meant, sorted.

    Args:
        files: a file, a folder, a pattern such as ``"preds/*.parquet"`` (``**`` for folders of any depth), or several.
            A folder stands for all files in it and below, but for those whose names, or folders', begin with ``_`` or
            ``.``. ``"-"`` is the standard input.

    Raises:
        DataError: nothing is there, or a file would come twice.
    """
    found: dict[str, str] = {}
    for each in [files] if isinstance(files, (str, os.PathLike)) else files:
        entry = os.fspath(each)
        matched = [entry]
        if os.path.isdir(entry):
            matched = _inside(entry)
        elif entry != "-" and not os.path.isfile(entry):
            matched = sorted(filter(os.path.isfile, glob.glob(entry, recursive=True)))
        if not matched:
            raise DataError(f"{entry!r} is no file, no folder with files, and no pattern that one matches")
        for path in matched:
            if path in found:
                raise DataError(f"{path} would count twice, by {found[path]!r} and {entry!r}; name it once")
            found[path] = entry
    if not found:
        raise DataError("files is empty; name at least one file, folder or pattern")
    return sorted(found)


def _inside(folder: str) -> list[str]:
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each[0] not in "._"]
        found += [os.path.join(where, name) for name in names if name[0] not in "._"]
    return found


def evaluate(
    files: Any,
    make_metrics: Callable[[], Any],
    columns: Mapping[str, Any],
    *,
    processes: int | None = None,
    skip_bad_rows: bool = False,
    complete_by: str | None = None,
    memory: int | None = None,
    progress: bool | None = None,
    format: str | None = None,
) -> Evaluated:
    r"""Metrics of files, whose rows are read piece by piece and never all in memory.

    Reads Parquet, CSV (also with tabs, semicolons or bars), JSON Lines, NPZ and Arrow IPC, text also in gzip and zstd,
    and only the columns that are asked for. The result is the same, bit for bit, for any number of processes and any
    order of the files.

    Args:
        files: a file, a folder, a pattern such as ``"preds/*.parquet"``, or several; see `find`.
        make_metrics: makes new metrics, without arguments: a metric or a `MetricCollection`.
        columns: the column of the files for each argument of ``add``, ``{"prediction": "p", "label": "y"}``; a list of
            columns, or a column of lists, gives several predictions, or labels, per sample. Keys (users, slots) may be
            integers, texts, categories, bools, dates and times.
        processes: how many share the work; None: one for each core, fewer for few data.
        skip_bad_rows: whether to leave out rows with a null, or with a value that is not allowed, and count them.
            False: the first is an error.
        complete_by: the argument of ``add`` that names a user or query. The files have all samples of each; those of
            some users at a time are read and folded, so that records need not fit into memory. The metrics returned are
            closed: they merge with others of other users, and take no further samples.
        memory: how many bytes all processes together may use, about; None: half of the machine's.
        progress: whether to show a bar on a terminal where it takes long; None: yes.
        format: "parquet", "csv", "jsonl", "npz" or "arrow"; None: the first bytes of each file tell.

    Returns:
        The metrics, and what was read.

    Raises:
        DataError: a file cannot be used; ``evaluated`` of the error is what was made of all others.

    Examples:
        >>> import fleetmetrics
        >>> from fleetmetrics import files
        >>> with open("/tmp/scores.csv", "w") as file:
        ...     _ = file.write("score,clicked\n0.9,1\n0.2,0\n0.7,0\n")
        >>> metrics, read = files.evaluate(
        ...     "/tmp/scores.csv", fleetmetrics.Accuracy, {"prediction": "score", "label": "clicked"})
        >>> metrics.compute(), read.rows
        (0.6666666666666666, 3)
    """
    paths, metrics = find(files), make_metrics()
    size = sum(os.path.getsize(path) for path in paths if path != "-")
    if processes is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        processes = max(1, min(cores, size // _WORTH))
    processes = whole_number_of("processes", processes, 1)
    settings = {"skip_bad_rows": skip_bad_rows, "format": format}
    made = functools.partial(copy.deepcopy, metrics)
    show = progress is not False
    if complete_by is None:
        settings["progress"] = show and len(paths) == 1
        tasks: list[Any] = [([path], made, dict(columns), settings) for path in paths]
    else:
        shares = _shares(paths, metrics, columns, complete_by, memory, processes)
        tasks = [(paths, made, dict(columns), {**settings, "share": share}) for share in shares]
    results = results_of(_part, tasks, processes, _PASSES if complete_by and len(tasks) > 1 else 1)
    if show and len(tasks) > 1:
        results = shown(results, "passes over the files" if complete_by else "files", 0, len(tasks))
    parts: list[Any] = []
    reads: list[Read] = []
    errors: set[str] = set()
    with contextlib.closing(results):
        for part in results:
            _gather(parts, part.metrics)
            reads += part.reads
            errors.update(part.errors)
    metrics = _merged(parts)[0] if parts else metrics
    if errors:
        more = (
            f" ({len(errors)} of {len(paths)} files cannot be used)" if len(errors) > 1 and complete_by is None else ""
        )
        error = DataError(f"{min(errors)}{more}")
        error.evaluated = Evaluated(metrics, together(reads)) if complete_by is None else None
        raise error
    return Evaluated(metrics, together(reads))


class _Part(NamedTuple):
    metrics: list[Any]  # one, or none if no file could be used
    reads: list[Read]
    errors: list[str]


def _part(paths: Sequence[str], made: Callable[[], Any], columns: Mapping[str, Any], settings: dict[str, Any]) -> _Part:
    """What one process makes of some files."""
    parts: list[Any] = []
    reads, errors = [], []
    for path in paths:
        try:
            found = evaluate_file(path, made, columns, **settings)
        except DataError as error:
            errors.append(str(error))
            continue
        _gather(parts, [found.metrics])
        reads.append(found.read)
    for metrics in _merged(parts):
        if "share" in settings:
            metrics.close(complete_by=settings["share"].by)
    return _Part(parts, reads, errors)


def _gather(parts: list[Any], more: Sequence[Any]) -> None:
    """Put others to the parts, and merge them all when they are many."""
    parts += more
    if len(parts) >= _AT_ONCE:
        _merged(parts)


def _merged(parts: list[Any]) -> list[Any]:
    """The parts, merged into the first."""
    if len(parts) > 1:
        parts[0].merge(parts[1:])
        del parts[1:]
    return parts


def _shares(
    paths: Sequence[str], metrics: Any, columns: Mapping[str, Any], by: str, memory: int | None, processes: int
) -> list[Share]:
    """So many shares of the users that the records of one fit into a process's part of the memory."""
    if by not in columns:
        raise InvalidInputError(f"complete_by={by!r} is none of the arguments in columns: {', '.join(columns)}")
    if "-" in paths:
        raise InvalidInputError("complete_by reads the files several times; the standard input can be read only once")
    if memory is None:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    least = processes * 2 * _BASE
    if whole_number_of("memory", memory, 1) < least:
        raise InvalidInputError(f"memory={memory} is too little for processes={processes}; give {least} bytes or more")
    needed = sum(map(rows_of, paths)) * _PER_ROW * max(1, len(set(each.table for each in metrics.record_metrics())))
    room = memory // processes - _BASE
    if processes == 1 and needed > room:
        room = (room - _BASE // 4) // _PASSES  # the other pass reads ahead, too
    number = max(processes, -(-needed // room))
    return [Share(by, place, number) for place in range(number)]
