"""A side from data: files, the share of files of one of several workers, or a data frame."""

from __future__ import annotations

import os
from typing import Any, Sequence

from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.columns.frames import Columns, table_of
from fleetmetrics.columns.partitions import FilePath, with_types
from fleetmetrics.comm import Communicator
from fleetmetrics.errors import ConditionError, DataError, InvalidInputError
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.evaluation.sides.side import Side
from fleetmetrics.files import ROW, Read, evaluate, together
from fleetmetrics.files.found import Found, find, look
from fleetmetrics.files.largest import choose_largest
from fleetmetrics.files.one_file import of_tables
from fleetmetrics.support.vocabulary import argument

__all__ = ["are_files", "framed", "of_files", "of_frame", "of_share", "shared_files"]


def of_files(
    paths: Sequence[str],
    asked: Question,
    *,
    everybodys: Sequence[str] = (),
    bad: Sequence[str] = (),
    baseline: bool = False,
    close: bool = False,
    **settings: Any,
) -> Side:
    """Evaluate files; there may be none.

    Args:
        paths: of the files.
        everybodys: the paths of all workers, which keep the same slices; none: the same files.
        bad: further files that cannot be read.
        asked: the arguments.
        baseline: whether they are the other side.
        close: whether the users of these data have no samples elsewhere.
        **settings: of `fleetmetrics.files.evaluate`.
    """
    shape = asked.probe()
    metrics = shape.collection()
    read, text = Read(), ""
    columns = asked.columns_of(metrics)
    if close and "-" not in paths and _is_closed_by_user(metrics, asked):
        settings["complete_by"] = "user"
    try:
        if set(everybodys) > set(paths) and "-" not in everybodys:
            choose_largest(metrics, everybodys, columns, asked.max_slices, reading=asked.reading)
        elif paths and "-" not in paths:
            settings["max_slices"] = asked.max_slices
        if paths:
            metrics, read = evaluate(paths, lambda: metrics, columns, reading=asked.reading, **settings)
    except ConditionError:
        raise
    except DataError as error:
        metrics, read = error.evaluated or (metrics, read)
        text = str(error)
    return Side(asked, shape, metrics, together([read, Read(bad_files=tuple(bad))]), text, baseline)


def _is_closed_by_user(metrics: MetricCollection, asked: Question) -> bool:
    """Whether the value of a user is known once its samples are."""
    placed = asked.compared and asked.first.ranked and asked.unit  # a row has its place among all rows
    return not placed and {metric.table.columns[0] for metric in metrics.record_metrics()} == {"user"}


def of_share(
    files: Found,
    asked: Question,
    channel: Communicator,
    *,
    skip_bad_files: bool = False,
    processes: int | None = None,
    close: bool = False,
    **settings: Any,
) -> tuple[list[str], Side]:
    """Evaluate this worker's share of files; return the paths of all, with the versions of tables, and the side.

    Args:
        files: of all workers.
        asked: the arguments.
        channel: the channel of the workers that share them.
        skip_bad_files: whether to skip and count unreadable files.
        processes: the number of processes that share them, if this worker is alone.
        close: whether a single worker's users have no samples elsewhere.
        **settings: further settings of `of_files`.
    """
    alone = channel.world_size == 1
    paths, bad = files
    side = of_files(
        paths[channel.rank :: channel.world_size],
        asked,
        everybodys=paths,
        bad=bad if channel.rank == 0 else (),
        skip_bad_files=skip_bad_files,
        processes=processes if alone else 1,
        close=alone and close,
        **settings,
    )
    return [path.identity if isinstance(path, FilePath) else path for path in paths], side


def shared_files(data: Sequence[Any], channel: Communicator, skip_bad_files: bool) -> list[Found]:
    """The files that workers share, of each side, and those left out; values in folders' names have one type.

    Args:
        data: of each side, as `fleetmetrics.files.find` takes files; or a data frame, which has no files.
        channel: of the workers.
        skip_bad_files: whether to leave out unreadable files.
    """
    sides = [_files_of(side, skip_bad_files) if are_files(side) else Found([], []) for side in data]
    if channel.world_size > 1 and any("-" in side.paths for side in sides):
        raise InvalidInputError("several workers cannot share the standard input; give files")
    paths = iter(with_types([path for side in sides for path in side.paths]))
    return [side._replace(paths=[next(paths) for _ in side.paths]) for side in sides]


def _files_of(data: Any, skip_bad_files: bool) -> Found:
    return look(data) if skip_bad_files else Found(find(data), [])


def are_files(data: Any) -> bool:
    """Whether these are paths instead of a data frame."""
    return isinstance(data, (str, os.PathLike, list, tuple, set))


def framed(frame: Any, wanted: Columns, baseline: bool) -> Any:
    """A data frame as an Arrow table.

    Args:
        frame: the data.
        wanted: the requested columns.
        baseline: whether these are the other side.
    """
    return table_of(frame, [*wanted.names, *wanted.looked_at], argument("baseline") if baseline else "data")


def of_frame(
    frame: Any, asked: Question, *, baseline: bool = False, whole: bool = True, skip_bad_rows: bool = False
) -> Side:
    """Evaluate a data frame, or a dict of arrays; DataError if one cannot be used.

    Args:
        frame: the data.
        asked: the arguments.
        baseline: whether they are the other side.
        whole: whether this is all of the side; otherwise the largest slices are chosen later.
        skip_bad_rows: whether to skip and count rows with nulls or invalid values.
    """
    shape = asked.probe()
    metrics = shape.collection()
    columns = asked.columns_of(metrics)
    slices = {name: column for name, column in columns.items() if column != ROW}
    wanted = Columns(metrics, slices, asked.reading)
    name = argument("baseline") if baseline else "data"
    table = framed(frame, wanted, baseline)
    if whole:
        choose_largest(metrics, [table], slices, asked.max_slices, reading=asked.reading)
    # Rows have different numbers on each side: without ids, the sides are drawn independently.
    first = 1 << 62 if baseline and not asked.same_rows else 0
    metrics, read = of_tables([table], metrics, columns, skip_bad_rows, name, first, asked.reading)
    return Side(asked, shape, metrics, read, "", baseline)
