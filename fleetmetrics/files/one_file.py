"""One file through one metric: read ahead in a thread, checked, added, and told of."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections import Counter
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

import numpy as np

from fleetmetrics.dataframes import Columns, columns_of
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.files.formats import Piece, pieces_of

__all__ = ["Evaluated", "Read", "add_file", "evaluate_file", "together"]

#: So many rows that were left out are described.
_EXAMPLES = 5


class Read(NamedTuple):
    """What was read.

    Attributes:
        files: the files that were.
        rows: how many rows they have, with those that were left out.
        nulls: how many rows have no value in a column, by column; only the columns with such rows.
        skipped: how many rows were left out.
        examples: some of these, each with its file, its place and what is wrong.
    """

    files: tuple[str, ...] = ()
    rows: int = 0
    nulls: dict[str, int] = {}  # noqa: RUF012  # never changed
    skipped: int = 0
    examples: tuple[str, ...] = ()


def together(parts: Iterable[Read]) -> Read:
    """What was read in several parts.

    Args:
        parts: in any order; the files are sorted, and the examples are those of the first files.
    """
    parts = sorted(parts, key=lambda part: part.files)
    nulls: Counter[str] = Counter()
    for part in parts:
        nulls.update(part.nulls)
    return Read(
        tuple(file for part in parts for file in part.files),
        sum(part.rows for part in parts),
        dict(sorted(nulls.items())),
        sum(part.skipped for part in parts),
        tuple(example for part in parts for example in part.examples)[:_EXAMPLES],
    )


class Evaluated(NamedTuple):
    """Metrics, and what was read for them.

    Attributes:
        metrics: what ``make_metrics`` makes, holding the samples of all files.
        read: files, rows, nulls, and rows that were left out.
    """

    metrics: Any
    read: Read


class Tally:
    """What is read of one file; refuses rows that are at fault, or leaves them out.

    Args:
        path: the file.
        skip: whether to leave them out.
    """

    def __init__(self, path: str, skip: bool) -> None:
        self.path, self.skip = path, skip
        self.rows = self.skipped = 0
        self.nulls: Counter[str] = Counter()
        self.examples: list[str] = []

    def bad(self, text: str, rows: int = 1) -> None:
        """Leave out rows, the first of which is described, or raise DataError."""
        if not self.skip:
            raise DataError(f"{text}. Mend the data, or leave such rows out and count them: skip_bad_rows=True")
        self.skipped += rows
        if len(self.examples) < _EXAMPLES:
            self.examples.append(text)

    def line(self, text: str) -> None:
        """Leave out a line that is no row."""
        self.bad(text)
        self.rows += 1

    def read(self) -> Read:
        """The result."""
        return Read((self.path,), self.rows, dict(self.nulls), self.skipped, tuple(self.examples))


def evaluate_file(
    path: Any,
    make_metrics: Callable[[], Any],
    columns: Mapping[str, Any],
    *,
    skip_bad_rows: bool = False,
    format: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Evaluated:
    """Metrics of one file, in bounded memory: what tasks of an engine call.

    Args:
        path: the file; see `evaluate` for formats, and for what else is alike.
        make_metrics: makes new metrics, without arguments: a metric or a `MetricCollection`.
        columns: the column of the file for each argument of ``add``.
        skip_bad_rows: whether to leave out rows without a value or with one that is not allowed, and count them.
        format: "parquet", "csv", "jsonl", "npz" or "arrow"; None: the first bytes tell.
        progress: called with the number of rows that have been read so far.

    Returns:
        The metrics, and what was read.

    Raises:
        DataError: the file cannot be read, has no such column, or has a row that is not allowed.
    """
    metrics = make_metrics()
    return Evaluated(metrics, add_file(metrics, os.fspath(path), columns, skip_bad_rows, format, progress))


def add_file(
    metrics: Any,
    path: str,
    columns: Mapping[str, Any],
    skip: bool = False,
    format: str | None = None,
    progress: Callable[[int], None] | None = None,
    keep: Callable[[dict[str, Any]], np.ndarray] | None = None,
) -> Read:
    """Add a file to metrics; ``keep`` flags the samples to add, of the arguments of ``add``."""
    wanted, tally = columns_of(metrics, columns), Tally(path, skip)
    before = _stamp(path)
    with _ahead(pieces_of(path, format, wanted, skip, tally.line)) as pieces:
        for piece in pieces:
            tally.rows += piece.table.num_rows
            _add(metrics, piece, wanted, tally, keep)
            if progress is not None:
                progress(tally.rows)
    if _stamp(path) != before:
        raise DataError(f"{path} changed while it was read; evaluate files that are complete")
    return tally.read()


def _stamp(path: str) -> tuple[int, ...]:
    """What changes when a file does."""
    if path == "-":
        return ()
    try:
        stat = os.stat(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _add(metrics: Any, piece: Piece, columns: Columns, tally: Tally, keep: Any) -> None:
    """Add a piece but for the rows that are at fault."""
    path = tally.path
    nulls = columns.nulls(piece.table)
    if nulls:
        rows = np.logical_or.reduce(list(nulls.values()))
        first = int(rows.argmax())
        name = next(name for name, flags in nulls.items() if flags[first])
        tally.bad(f"{path}, row {piece.row(first)}, column {name!r}: null", int(rows.sum()))
        tally.nulls.update({name: int(flags.sum()) for name, flags in nulls.items()})
        piece = piece.taken(~rows)

    def wrong(name: str, row: int, text: str) -> DataError:
        return DataError(f"{path}, row {piece.row(row)}: column {name!r} {text}")

    while piece.table.num_rows:
        given = columns.arguments(piece.table, wrong)
        try:
            if keep is not None:
                flags = keep(given)
                given = {name: array[flags] for name, array in given.items()}
            metrics.add(**given)
            return
        except InvalidInputError as error:
            if error.broken is None or keep is not None:
                raise type(error)(f"{path}: {error}") from None
            argument, allowed, broken = error.broken
            broken = broken.reshape(piece.table.num_rows, -1).any(axis=1)
            first = int(broken.argmax())
            names = columns.by_argument.get(argument, [argument])
            value = given[argument][first].tolist() if argument in given else None
            column = f"column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"
            text = f"{path}, row {piece.row(first)}, {column}: {argument} must be {allowed}, not {value!r}"
            tally.bad(text, int(broken.sum()))
            piece = piece.taken(~broken)


@contextlib.contextmanager
def _ahead(items: Iterator[Any]) -> Iterator[Iterator[Any]]:
    """The items, made by one thread that is two items ahead at most."""
    line: queue.Queue[Any] = queue.Queue(2)
    left = threading.Event()
    end: list[BaseException | None] = []

    def put(item: Any) -> bool:
        while not left.is_set():
            with contextlib.suppress(queue.Full):
                line.put(item, timeout=0.05)
                return True
        return False

    def make() -> None:
        error = None
        try:
            with contextlib.closing(items):  # type: ignore[type-var]
                for item in items:
                    if not put((item,)):
                        return
        except BaseException as caught:  # of any kind: it is raised where the items are used
            error = caught
        end.append(error)
        put(())

    def taken() -> Iterator[Any]:
        while True:
            item = line.get()
            if not item:
                break
            yield item[0]
        if end[0] is not None:
            raise end[0]

    thread = threading.Thread(target=make, name="fleetmetrics reader", daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        left.set()
        thread.join()
