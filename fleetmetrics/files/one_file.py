"""One file through metrics: read ahead in a thread, checked, and added."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Generator, Iterable, Literal, Mapping

import numpy as np

from fleetmetrics.base.accumulator import Accumulator
from fleetmetrics.columns.arrow_values import nulls_of
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.reading import Reading
from fleetmetrics.columns.understood import joined
from fleetmetrics.errors import ConditionError, DataError, InvalidInputError
from fleetmetrics.files.formats import FORMATS, counted_rows_of, piece_of, pieces_of
from fleetmetrics.files.found import one
from fleetmetrics.files.parts import EXAMPLES, Evaluated, Made, Read, Source, words_of
from fleetmetrics.files.passes import Share
from fleetmetrics.files.places import end_of, local_path, opened, stamp_of, whole_path
from fleetmetrics.files.row_pieces import Piece
from fleetmetrics.support.checks import choice_of, flag_of, path_of
from fleetmetrics.support.logs import progress as shown
from fleetmetrics.support.vocabulary import argument as called

__all__ = ["ROW", "columns_given", "evaluate_file", "made_by", "of_tables"]

#: Instead of a column's name: a number that is unique to the row, and independent of its file's path.
ROW = "\0row"
#: The bytes of its beginning and of its end that identify a file.
_EDGE = 1 << 16
#: Smaller files are read without a thread: starting one takes longer than reading most of one piece.
_FEW_BYTES = 1 << 23
#: The bytes of the largest block, with its header, that glibc may take from its heap.
_BLOCK = (1 << 25) - (1 << 16)


def evaluate_file(
    path: Any,
    make_metrics: Callable[[], Made],
    columns: Mapping[str, Any],
    *,
    skip_bad_rows: bool = False,
    format: Literal["parquet", "npz", "arrow", "jsonl", "libsvm", "csv"] | None = None,
    progress: bool = False,
    share: Share | None = None,
    reading: Reading | None = None,
) -> Evaluated[Made]:
    """Evaluate one file, in bounded memory: the tasks of an engine call this.

    Args:
        path: the file; see `evaluate` for formats and the other arguments.
        make_metrics: makes new metrics, without arguments: a metric or a `MetricCollection`.
        columns: the column of the file for each argument of ``add``.
        skip_bad_rows: whether to skip and count rows with a null or an invalid value.
        format: as for `evaluate`.
        progress: whether to show a progress bar on a terminal.
        share: which samples to add; None: all.
        reading: further options of reading.

    Returns:
        The metrics, and a record of the data read.

    Raises:
        DataError: the file cannot be read, lacks a column, or has an invalid row.
    """
    path, columns = one(local_path(path_of("path", path))), columns_given(columns)
    choice_of("format", format, (None, *FORMATS))
    if share is not None and not isinstance(share, Share):
        raise InvalidInputError(f"share must be a Share or None, not {share!r:.80}")
    skip, reading = flag_of("skip_bad_rows", skip_bad_rows), reading_given(reading)
    evaluation = _Evaluation(path, made_by(make_metrics), columns, skip, share, reading)
    _keep_what_is_freed()
    try:
        before = stamp_of(path)
        with contextlib.suppress(OSError):  # reading meets it, too
            evaluation.known_as(path)
        items = _with_lines(path, format, evaluation.columns)
        few = evaluation.source is not None and evaluation.source.size < _FEW_BYTES
        with contextlib.closing(items if few else _ahead(items)) as pieces:
            for lines, piece in _shown(pieces, path) if flag_of("progress", progress) else pieces:
                for text in lines:
                    evaluation.line(text)
                if piece is not None:
                    evaluation.add(piece)
        if stamp_of(path) != before:
            raise DataError("it changed while it was read; evaluate complete files")
    except InvalidInputError as error:
        named_error = _kind_of(error)(f"{path}: {words_of(error)}")
        named_error.of_row = isinstance(error, DataError) and error.of_row
        raise named_error from None
    return evaluation.result()


def _kind_of(error: InvalidInputError) -> type[DataError]:
    """The class of an error of some data, that of a condition if it is no fault of the data."""
    return ConditionError if isinstance(error, ConditionError) else DataError


def _keep_what_is_freed() -> None:
    """Let glibc keep the memory of a piece's arrays for the next piece; giving it back takes a third of the time.

    After one block of up to 32 MiB has been freed, glibc takes blocks of this size from its heap, and returns no memory
    below twice this size. The block is never written, so it costs nothing.
    """
    np.empty(_BLOCK, np.uint8)


def made_by(make_metrics: Any) -> Any:
    """Make new metrics; an error unless the argument is a function that returns metrics."""
    metrics = make_metrics() if callable(make_metrics) else None
    if not isinstance(metrics, Accumulator):
        returned = "" if metrics is None else f", which returned {metrics!r:.80}"
        raise InvalidInputError(
            "make_metrics must be a function without arguments that returns a metric or a MetricCollection; it is "
            f"{make_metrics!r:.80}{returned}"
        )
    return metrics


def columns_given(columns: Any) -> dict[str, Any]:
    """The column, or columns, by argument; an error for anything but a dict."""
    if not isinstance(columns, Mapping):
        raise InvalidInputError(
            "columns must be a dict, the column of each argument: such as {'prediction': 'p', 'label': 'y'}; not "
            f"{columns!r:.80}"
        )
    return dict(columns)


def reading_given(reading: Any) -> Reading | None:
    """The options of reading; an error for anything else."""
    if reading is not None and not isinstance(reading, Reading):
        raise InvalidInputError(f"reading must be a fleetmetrics.files.Reading or None, not {reading!r:.80}")
    choice_of(called("format"), None if reading is None else reading.format, (None, *FORMATS))
    return reading


def of_tables(
    tables: Iterable[Any],
    metrics: Any,
    columns: Mapping[str, Any],
    skip: bool,
    name: str,
    first: int = 0,
    reading: Reading | None = None,
) -> Evaluated[Any]:
    """Add Arrow tables, the parts of a data frame, to metrics; see `evaluate_file` for the rest.

    Args:
        tables: of some rows each.
        metrics: receive the rows.
        columns: the column for each argument of ``add``.
        skip: whether to skip and count rows with a missing or an invalid value.
        name: of the part, for errors.
        first: the `ROW` of the first row.
        reading: options of reading.
    """
    evaluation = _Evaluation(name, metrics, columns, skip, None, reading)
    evaluation.numbers = dict.fromkeys(evaluation.numbered, first)
    try:
        for table in tables:
            evaluation.add(
                piece_of(table, evaluation.columns, evaluation.rows + evaluation.left_out + evaluation.unmatched)
            )
    except InvalidInputError as error:
        raise _kind_of(error)(f"{name}: {error}") from None
    metrics, read = evaluation.result()
    return Evaluated(metrics, read._replace(files=()))


class _Evaluation:
    """Metrics of data read piece by piece; refuses or skips bad rows.

    Only the first share reports what every share of the samples meets.
    """

    def __init__(
        self,
        name: str,
        metrics: Any,
        columns: Mapping[str, Any],
        skip: bool,
        share: Share | None,
        reading: Reading | None,
    ) -> None:
        self.name, self.metrics, self.skip, self.share = name, metrics, skip, share
        read_columns = {argument: column for argument, column in columns.items() if column != ROW}
        self.columns = Columns(metrics, read_columns, reading)
        self.first = share is None or share.number == 0
        self.rows = self.skipped = self.left_out = self.unmatched = self.multiline = 0
        self.nulls: Counter[str] = Counter()
        self.examples: list[str] = []
        self.numbers: dict[str, int] = {}  # the number of the first row, by the argument that receives them
        self.numbered = [argument for argument, column in columns.items() if column == ROW]
        self.source: Source | None = None

    def known_as(self, path: str) -> None:
        """Identify a file by its size, beginning and end, and number its rows."""
        if path == "-":
            self.numbers = dict.fromkeys(self.numbered, 0)
            return
        size, digest = _identity(path)
        self.numbers = dict.fromkeys(self.numbered, int.from_bytes(digest, "little"))
        self.source = Source(whole_path(path), size, digest.hex(), 0)

    def bad(self, text: str, rows: int = 1) -> None:
        """Skip rows and describe the first, or raise."""
        if not self.skip:
            error = DataError(f"{text} (the first row is row 0). Fix it, or skip such rows: {called('skip_bad_rows')}")
            error.of_row = True
            raise error
        self.skipped += rows
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{self.name}: {text}")

    def line(self, text: str) -> None:
        """Skip a line that is not a row."""
        if self.first:
            self.bad(text)
            self.rows += 1

    def add(self, piece: Piece) -> None:
        """Add a piece without its bad rows."""
        self.rows += piece.table.num_rows
        self.left_out += piece.left_out
        self.unmatched += piece.unmatched
        self.multiline += piece.multiline
        nulls = nulls_of(piece.table)
        needed = self.columns.lacking(piece.table, nulls)
        if needed:
            rows = np.logical_or.reduce(list(needed.values()))
            if self.first:
                first = int(rows.argmax())
                name = next(name for name, flags in needed.items() if flags[first])
                self.bad(f"row {piece.rows[first]}, column {name!r}: no value", int(rows.sum()))
            piece = piece.taken(~rows)
        if self.first:
            self.nulls.update({name: int(flags.sum()) for name, flags in nulls.items()})
        while piece.table.num_rows:
            arguments = self.columns.arguments(piece.table)
            self.columns.understand_numbers(piece.table, arguments)
            places: Any = range(piece.table.num_rows)
            for argument, number in self.numbers.items():
                arguments[argument] = (piece.rows.astype(np.uint64) + np.uint64(number)).view(np.int64)
            if self.share is not None and self.share.of > 1:
                places = np.flatnonzero(self.share.flags(arguments))
                arguments = {name: array[places] for name, array in arguments.items()}
            try:
                self.metrics.add(**arguments)
                return
            except InvalidInputError as error:
                if error.broken is None:
                    raise
                argument, allowed, flags = error.broken
            names, by_column = self.columns.of(argument), flags.reshape(len(places), -1)
            flags = by_column.any(axis=1)
            first = int(flags.argmax())
            value = arguments[argument][first : first + 1].tolist()[0] if argument in arguments else ""
            if by_column.shape[1] == len(names) > 1:  # then it is the value of one of the columns
                at = int(by_column[first].argmax())
                names, value = names[at : at + 1], value[at]
            which = f"row {piece.rows[places[first]]}, column {', '.join(map(repr, names))}"
            reason = self.columns.told(names, argument, piece.table, int(places[first]), value, allowed)
            self.bad(f"{which}: {reason}", int(flags.sum()))
            keep = np.ones(piece.table.num_rows, bool)
            keep[np.asarray(places)[flags]] = False
            piece = piece.taken(keep)

    def result(self) -> Evaluated[Any]:
        """The metrics, and a record of the data read."""
        read = Read(
            nulls=dict(self.nulls),
            skipped=self.skipped,
            examples=tuple(self.examples),
            understood=joined([self.columns.understood]),
        )
        if self.first:
            left_out, unmatched = self.left_out, self.unmatched
            sources = (self.source._replace(rows=self.rows + left_out + unmatched),) if self.source else ()
            read = read._replace(
                files=(str(self.name),),
                rows=self.rows,
                sources=sources,
                left_out=left_out,
                unmatched=unmatched,
                multiline=self.multiline,
            )
        return Evaluated(self.metrics, read)


def _shown(pieces: Iterable[Any], path: Any) -> Iterable[Any]:
    """The pieces of a file, with the number of rows so far during long runs, and of all rows if the file has it."""

    def rows(item: tuple[Any, Piece | None]) -> int:
        piece = item[1]
        return 0 if piece is None else piece.table.num_rows + piece.left_out + piece.unmatched

    def all_rows() -> int | None:
        with contextlib.suppress(OSError, DataError):
            return counted_rows_of(path)
        return None

    return shown(pieces, str(path), None, all_rows, rows, "rows")


def _identity(path: str) -> tuple[int, bytes]:
    """A file's size, and a hash of its size, beginning and end; as a number, the hash is the `ROW` of its first row."""
    with opened(path) as file:
        size = end_of(file)
        digest = hashlib.blake2b(str(size).encode(), digest_size=8)
        for start in (0, max(_EDGE, size - _EDGE)):
            file.seek(start)
            digest.update(file.read(_EDGE))
    return size, digest.digest()


def _with_lines(
    path: str, format: str | None, columns: Columns
) -> Generator[tuple[tuple[str, ...], Piece | None], None, None]:
    """The pieces of a file, each with the defects of its lines that are not rows; None follows the last piece.

    The reader's thread only records them; the thread that adds the piece reports them in the order of the file.
    """
    lines: list[str] = []
    with contextlib.closing(pieces_of(path, format, columns, lines.append)) as pieces:
        for piece in pieces:
            yield tuple(lines), piece
            lines.clear()
    if lines:
        yield tuple(lines), None


def _ahead(items: Generator[Any, None, None]) -> Generator[Any, None, None]:
    """The items, made by a thread that is at most two items ahead."""
    with contextlib.closing(items), ThreadPoolExecutor(1, "fleetmetrics reader") as thread:
        run: Any = contextvars.copy_context().run  # errors name arguments as in a shell there, too
        waiting = deque(thread.submit(run, next, items, None) for _ in range(2))
        item = waiting.popleft().result()
        while item is not None:
            waiting.append(thread.submit(run, next, items, None))
            yield item
            item = waiting.popleft().result()
