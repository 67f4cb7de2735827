"""Metrics of files, of any size and on all cores: Parquet, CSV, JSON Lines, NPZ, Arrow IPC; see docs/howto/files.md."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import pickle
from typing import Any, Callable, Literal, Mapping, Sequence

import numpy as np

from fleetmetrics.base.merging import closed_by
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.reading import Reading
from fleetmetrics.errors import ConditionError, DataError, InvalidInputError
from fleetmetrics.files.formats import FORMATS, pieces_of, rows_of
from fleetmetrics.files.found import find, look
from fleetmetrics.files.largest import choose_largest, expect_any, expect_few
from fleetmetrics.files.one_file import ROW, columns_given, evaluate_file, made_by, reading_given
from fleetmetrics.files.parts import Evaluated, Made, Part, Read, as_one, together
from fleetmetrics.files.passes import Share, score_of
from fleetmetrics.files.processes import results_of
from fleetmetrics.records import folding
from fleetmetrics.support.checks import choice_of, flag_of, knows_its_arguments, whole_number_of
from fleetmetrics.support.logs import progress as shown
from fleetmetrics.support.vocabulary import as_options, in_shell
from fleetmetrics.wrappers.sliced_states import TooManyKeys

__all__ = ["ROW", "DataError", "Evaluated", "Read", "Reading", "evaluate", "evaluate_file", "find", "together"]
__dir__: Callable[[], list[str]] = functools.partial(sorted, __all__)

#: The fewest bytes that make starting a process worthwhile: a start takes about a second.
_WORTH = 1 << 28
#: The bytes of a process without records, and of a row in a table of records while it is folded; measured.
_BASE, _PER_ROW = 1 << 28, 80
#: The most files in one task of small metrics.
_GROUP = 32
#: The number of passes that one process makes at a time: NumPy sorts the records of one while it reads the next.
_PASSES = 2
#: The number of scores to sample to find ranges of about equal size.
_SAMPLE = 100_000


@knows_its_arguments
def evaluate(
    files: Any,
    make_metrics: Callable[[], Made],
    columns: Mapping[str, Any],
    *,
    processes: int | None = None,
    skip_bad_rows: bool = False,
    skip_bad_files: bool = False,
    complete_by: str | None = None,
    totals: Any = None,
    memory: int | None = None,
    progress: bool | None = None,
    format: Literal["parquet", "npz", "arrow", "jsonl", "libsvm", "csv"] | None = None,
    max_slices: int | None = None,
    reading: Reading | None = None,
) -> Evaluated[Made]:
    r"""Evaluate files; rows are read piece by piece and are never all in memory.

    Reads Parquet, CSV (also with tabs, semicolons or pipes), JSON Lines, NPZ and Arrow IPC, text also in gzip, zstd,
    bz2 and xz, and only the requested columns. The result is the same, bit for bit, for any number of processes and any
    order of the files.

    Args:
        files: a file, a folder, a pattern such as ``"preds/*.parquet"``, or several; see `find`.
        make_metrics: makes new metrics, without arguments: a metric or a `MetricCollection`.
        columns: the column of the files for each argument of ``add``, ``{"prediction": "p", "label": "y"}``; a list of
            columns, or a column of lists, gives several predictions, or labels, per sample. Keys (users, slots) may be
            integers, strings, categories, bools, dates and times.
        processes: the number of processes; None: one per core, fewer for small data.
        skip_bad_rows: whether to skip and count rows with a null or an invalid value. False: the first one is an
            error.
        skip_bad_files: whether to skip and count files that cannot be read or lack a column, broken links, and
            folders that cannot be listed. An invalid row is still an error.
        complete_by: the argument of ``add`` that names a user or query. The files must hold all samples of each. They
            are read and folded for some users at a time, so that records need not fit into memory. The returned metrics
            are closed: they merge with metrics of other users, and take no further samples. "score": for `ExactAUC`,
            a range of scores at a time.
        totals: for `ExactAUC` with ``curve="PR"`` or ``max_fpr``: an `ExactAUC` without these arguments, from an
            earlier call with ``complete_by="score"`` over the same files.
        memory: the approximate number of bytes that all processes together may use; None: half of the machine's.
        progress: whether to show a progress bar on a terminal during long runs; None: yes.
        format: "parquet", "csv", "jsonl", "npz" or "arrow"; None: recognize each file by its first bytes.
        max_slices: the number of slices that each ``Sliced(metric, by, max_keys=None)`` keeps: those with the most
            rows, which a first pass over the columns of the keys finds. All other rows are in ``other``. None: all
            slices.
        reading: further options: names of columns, a condition on rows, labels that are strings, scores that are not
            probabilities.

    Returns:
        The metrics, and a record of the data read.

    Raises:
        DataError: a file cannot be used; the error's ``evaluated`` is the result of all others.
        ConditionError: the condition of ``reading`` compares a column with a value of another kind.

    Examples:
        >>> import fleetmetrics, pathlib, tempfile
        >>> from fleetmetrics import files
        >>> path = pathlib.Path(tempfile.mkdtemp(), "scores.csv")
        >>> _ = path.write_text("score,clicked\n0.9,1\n0.2,0\n0.7,0\n")
        >>> metrics, read = files.evaluate(
        ...     path, fleetmetrics.Accuracy, {"prediction": "score", "label": "clicked"})
        >>> metrics.compute(), read.rows
        (0.6666666666666666, 3)
    """
    if complete_by is not None and not isinstance(complete_by, str):
        raise InvalidInputError(f"complete_by must be the name of an argument of add, not {complete_by!r:.80}")
    choice_of("format", format, (None, *FORMATS))
    reading = reading_given(reading)
    paths, bad = look(files) if flag_of("skip_bad_files", skip_bad_files) else (find(files), [])
    metrics = made_by(make_metrics)
    columns = columns_given(columns)
    if processes is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        size = sum(os.path.getsize(path) if os.path.exists(path) else _WORTH for path in paths if path != "-")
        processes = max(1, min(cores, size // _WORTH))
    processes = whole_number_of("processes", processes, 1)
    memory = memory if memory is None else memory_of(memory)
    if totals is not None and complete_by != "score":
        raise InvalidInputError(
            f"totals belong to a first pass by score; give complete_by='score', not {complete_by!r}"
        )
    if max_slices is not None:
        if "-" in paths:
            raise InvalidInputError("max_slices reads the files twice; the standard input can be read only once")
        expect_few(metrics, paths, columns, whole_number_of("max_slices", max_slices, 1), format, reading)
    tasks: list[tuple[Sequence[str], Share | None]] = [(group, None) for group in _groups(paths, metrics, processes)]
    if complete_by is not None:
        rows, number = _passes(paths, metrics, columns, complete_by, memory, processes, format, reading)
        bounds: Sequence[float] = ()
        if complete_by == "score":
            bounds = _bounds(paths, metrics, columns, rows, number, totals, format, reading)
            number = len(bounds) + 1
        tasks = [(paths, Share(complete_by, place, number, bounds)) for place in range(number)]
    show, several = progress is None or flag_of("progress", progress), len(tasks) > 1
    settings = {
        "skip_bad_rows": flag_of("skip_bad_rows", skip_bad_rows),
        "format": format,
        "progress": show and not several,
        "reading": reading,
    }

    join = functools.partial(as_one, alike=True)

    def make() -> Part:
        do = functools.partial(_part, in_shell(), _copies_of(metrics), columns, totals, settings)
        results = results_of(do, tasks, processes, _PASSES if complete_by and several else 1, join)
        if show and several:
            what = "files" if len(tasks) == len(paths) else "groups of files"
            if complete_by:
                what = "passes over the files"
            results = shown(results, what, None, len(tasks))
        with contextlib.closing(results):
            return join(results)

    try:
        part = make()
    except TooManyKeys:
        choose_largest(metrics, paths, columns, max_slices or 0, format, reading)
        part = make()
    reasons = sorted(set(map(str, part.errors)))
    read = together([*part.reads, Read(bad_files=(*bad, *reasons))])
    evaluated = Evaluated(metrics if part.metrics is None else part.metrics, read)
    expect_any(evaluated.metrics)
    if part.errors and (
        not skip_bad_files or not read.files or any(getattr(error, "of_row", False) for error in part.errors)
    ):
        more = (
            f" ({len(reasons)} of {len(paths)} files cannot be used)"
            if len(reasons) > 1 and complete_by is None
            else ""
        )
        error = DataError(f"{reasons[0]}{more}")
        error.evaluated = evaluated if complete_by is None else None
        raise error
    return evaluated


def _copies_of(metrics: Any) -> Callable[[], Any]:
    """A function that copies metrics: by pickle if possible, which is several times as fast as `copy.deepcopy`."""
    try:
        return functools.partial(pickle.loads, pickle.dumps(metrics))
    except (pickle.PicklingError, AttributeError, TypeError):
        return functools.partial(copy.deepcopy, metrics)


def _part(
    shell: bool,
    make: Callable[[], Any],
    columns: Any,
    totals: Any,
    settings: Any,
    paths: Sequence[str],
    share: Share | None,
) -> Part:
    """Evaluate some files in one process; its errors name arguments like those of the first process."""

    def of_file(path: str) -> Part:
        try:
            metrics, read = evaluate_file(path, make, columns, share=share, **settings)
            return Part(metrics, (read,))
        except ConditionError:
            raise
        except DataError as error:
            return Part(errors=(error,))

    with as_options() if shell else contextlib.nullcontext():
        if share is None and len(paths) > 1:
            return _of_group(make(), columns, settings, paths)
        part = as_one(map(of_file, paths), alike=True)
    if share is not None and part.metrics is not None:
        part.metrics.close(complete_by=share.by, totals=totals)
    return part


def _groups(paths: Sequence[str], metrics: Any, processes: int) -> list[list[str]]:
    """Groups of files for one task each: several files if that saves more time than the last process needs longer."""
    most = max(1, min(_GROUP, len(paths) // (4 * processes))) if metrics._is_small else 1
    return [list(paths[start : start + most]) for start in range(0, len(paths), most)]


def _of_group(metrics: Any, columns: Any, settings: Any, paths: Sequence[str]) -> Part:
    """Evaluate files with the same small metrics and merge their contents at once, because new metrics take longer."""
    held: list[Any] = []
    reads: list[Read] = []
    errors: list[DataError] = []
    for path in paths:
        try:
            reads.append(evaluate_file(path, lambda: metrics, columns, **settings).read)
            held.append(metrics._taken())
        except ConditionError:
            raise
        except DataError as error:
            errors.append(error)
            metrics.reset()
    metrics._hold_all(held)
    return Part(metrics if held else None, tuple(reads), tuple(errors))


def memory_of(memory: int | None) -> int:
    """The bytes to use: the given number, otherwise half of the machine's memory."""
    if memory is None:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return whole_number_of("memory", memory, 1)


def _passes(
    paths: Sequence[str],
    metrics: Any,
    columns: Mapping[str, Any],
    by: str,
    memory: int | None,
    processes: int,
    format: str | None,
    reading: Reading | None,
) -> tuple[int, int]:
    """The approximate number of rows, and the shares whose records fit into a process's part of the memory."""
    argument = "prediction" if by == "score" else by
    if argument not in columns:
        raise InvalidInputError(f"complete_by={by!r} is not an argument in columns: {', '.join(columns)}")
    if "-" in paths:
        raise InvalidInputError("complete_by reads the files several times; the standard input can be read only once")
    memory = memory_of(memory)
    least = processes * 2 * _BASE
    if memory < least:
        raise InvalidInputError(f"memory={memory} is too little for processes={processes}; give {least} bytes or more")
    rows, kept = sum(map(rows_of, paths)), _kept_of_row(paths, metrics, columns, by, format, reading)
    room = memory // processes - _BASE
    if kept is None:
        needed = rows * _PER_ROW * max(1, len({metric.table for metric in metrics.record_metrics()}))
    else:
        needed, room = int(rows * kept), room - folding.THREADS * folding.AT_ONCE * _PER_ROW
    if processes == 1 and needed > room:
        room = (room - _BASE // 4) // _PASSES  # the other pass also reads ahead
    return rows, max(processes, -(-needed // room))


def _kept_of_row(
    paths: Sequence[str],
    metrics: Any,
    columns: Mapping[str, Any],
    by: str,
    format: str | None,
    reading: Reading | None,
) -> float | None:
    """The bytes that a row occupies until its user's samples are folded; None: the rows of a pass are folded at once.

    Measured on the first rows; the bytes of the largest table count twice, because small batches are joined.
    """
    read_columns = {argument: column for argument, column in columns.items() if column != ROW}
    with contextlib.suppress(InvalidInputError, StopIteration):  # the passes meet it, too
        wanted = Columns(metrics, read_columns, reading)
        with contextlib.closing(pieces_of(paths[0], format, wanted, lambda text: None)) as pieces:
            table = next(pieces).table.slice(0, _SAMPLE).drop_null().combine_chunks()
        some = wanted.arguments(table)
        if by != "score" and getattr(some.get(by), "dtype", np.dtype(str)).kind in "iu" and table.num_rows:
            copies = _copies_of(metrics)()
            copies.add(**some, **{name: np.arange(table.num_rows) for name in columns if name not in read_columns})
            tables = [fold.table.records().values() for fold in copies.record_folds()]
            sizes = [sum(column.nbytes for column in columns if column is not None) for columns in tables]
            return (sum(sizes) + max(sizes)) / table.num_rows
    return None


def _bounds(
    paths: Sequence[str],
    metrics: Any,
    columns: Mapping[str, Any],
    rows: int,
    number: int,
    totals: Any,
    format: str | None,
    reading: Reading | None,
) -> list[float]:
    """The lower ends of score ranges with about the same number of samples each, without the first end."""
    if totals is not None:
        return [low for low, *_ in closed_by(totals, "score")["ranges"][1:]]
    wanted = Columns(metrics, {"prediction": columns["prediction"]}, reading)
    random = np.random.default_rng(0)
    part = _SAMPLE / max(1, rows)
    some = [np.empty(0)]
    for path in paths if number > 1 else ():
        with contextlib.suppress(DataError):  # the passes meet it, too
            for piece in pieces_of(path, format, wanted, lambda text: None):
                table = piece.taken(random.random(len(piece.table)) < part).table.drop_null().combine_chunks()
                some.append(score_of(wanted.arguments(table)))
    scores = np.concatenate(some)
    scores = np.sort(scores[np.isfinite(scores)])
    return np.unique(scores[len(scores) * np.arange(1, number) // number]).tolist()
