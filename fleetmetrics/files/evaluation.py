"""Many files through metrics: found, shared among processes, and put together."""

from __future__ import annotations

import functools
import glob
import os
import pickle
from typing import Any, Callable, Iterable, Mapping

from fleetmetrics.errors import DataError, FleetMetricsError
from fleetmetrics.files.one_file import Evaluated, evaluate_file, together
from fleetmetrics.files.processes import results_of
from fleetmetrics.partial import merge_all

__all__ = ["evaluate", "find"]

#: Another process is worth its start, a second or so, if it reads so many bytes.
_WORTH = 1 << 25
#: So many results are put together at once; more would have to be in memory.
_AT_ONCE = 32


def find(files: Any) -> list[str]:
    """The files that are meant, sorted.

    Args:
        files: a file, a folder, a pattern such as ``"preds/*.parquet"`` (``**`` for folders of any depth), or several.
            A folder stands for all files in it and below, but for those whose names, or folders, begin with ``_`` or
            ``.``. ``"-"`` is the standard input.

    Returns:
        Their paths; each is there.

    Raises:
        DataError: nothing is there, or a file would come twice.
    """
    found: dict[str, str] = {}
    for each in [files] if isinstance(files, (str, os.PathLike)) else files:
        entry = os.fspath(each)
        if entry == "-" or os.path.isfile(entry):
            matched: Iterable[str] = [entry]
        elif os.path.isdir(entry):
            matched = _inside(entry)
        else:
            matched = sorted(filter(os.path.isfile, glob.glob(entry, recursive=True)))
        if not matched:
            raise DataError(f"{entry!r} is no file, no folder with files, and matches none")
        for path in matched:
            if path in found:
                raise DataError(f"{path} comes twice, by {found[path]!r} and {entry!r}; each file counts once")
            found[path] = entry
    if not found:
        raise DataError("files is empty")
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

    Reads Parquet, CSV (also with tabs, semicolons), JSON Lines, NPZ and Arrow IPC, the texts also in gzip and zstd, and
    of these the columns that are asked for. The result does not depend on how many processes read, nor on the order of
    the files.

    Args:
        files: a file, a folder, a pattern such as ``"preds/*.parquet"``, or several; see `find`.
        make_metrics: makes new metrics, without arguments: a metric or a `MetricCollection`.
        columns: the column of the files for each argument of ``add``, ``{"prediction": "p", "label": "y"}``; a list of
            columns gives several predictions, or labels, per sample.
        processes: how many share the files; None: one for each core, for few data fewer.
        skip_bad_rows: whether to leave out rows with a null, or with a value that is not allowed, and count them.
            False: the first is an error.
        complete_by: not yet.
        memory: not yet.
        progress: whether to show a bar; None: on a terminal.
        format: "parquet", "csv", "jsonl", "npz" or "arrow"; None: the first bytes of each file tell.

    Returns:
        The metrics, and what was read.

    Raises:
        DataError: a file cannot be used; its ``evaluated`` is what was made of all others.

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
    paths = find(files)
    total, reads, errors, parts = make_metrics(), [], [], []
    empty = pickle.dumps(total)
    tasks = [(path, empty, dict(columns), skip_bad_rows, format) for path in paths]
    if processes is None:
        size = sum(os.path.getsize(path) for path in paths if path != "-")
        processes = max(1, min(cores(), size // _WORTH))
    for _, result in results_of(_of_file, tasks, processes):
        if isinstance(result, FleetMetricsError):
            errors.append(result)
            continue
        parts.append(result.metrics)
        reads.append(result.read)
        if len(parts) == _AT_ONCE:
            total, parts = merge_all([total, *parts]), []
    evaluated = Evaluated(merge_all([total, *parts]) if parts else total, together(reads))
    if errors:
        first = min(errors, key=str)
        more = f" ({len(errors)} of {len(paths)} files cannot be used)" if errors[1:] else ""
        error = DataError(f"{first}{more}")
        error.evaluated = evaluated
        raise error
    return evaluated


def _of_file(path: str, empty: bytes, columns: Mapping[str, Any], skip: bool, format: str | None) -> Evaluated:
    return evaluate_file(path, functools.partial(pickle.loads, empty), columns, skip_bad_rows=skip, format=format)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
