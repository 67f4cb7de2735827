"""CSV: values of a row between separators, perhaps in quotes."""

from __future__ import annotations

import itertools
from typing import Any, Callable, ClassVar, Iterator, Mapping, NamedTuple, Sequence

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.frames import Columns
from fleetmetrics.errors import DataError
from fleetmetrics.files.cells import beyond_floats, integer_type, not_text, nulls_of_numbers, typed
from fleetmetrics.files.dialect import Dialect
from fleetmetrics.files.lines import blocks_of, head_of, is_all_head
from fleetmetrics.files.quotes import Quotes, lines_in, stays_open, unclosed_in_header
from fleetmetrics.files.row_pieces import Bad, Format, Piece, Source
from fleetmetrics.support.vocabulary import argument, counted

__all__ = ["CSV"]

#: The most bytes of a row that spans lines.
_SPAN = 1 << 23


class CSV(Format):
    """CSV with any separator, and a header unless the reading gives the names."""

    name: ClassVar[str] = "csv"
    title: ClassVar[str] = "CSV"
    about: ClassVar[str] = "CSV: commas, tabs, semicolons, pipes, ^A, or `separator`; a header, or `columns`"
    is_text: ClassVar[bool] = True
    streams: ClassVar[str] = "gzip, zstd, bz2, xz, any `encoding`, standard input"

    def begins(self, first: bytes) -> bool:  # noqa: D102
        return True  # anything in no other format

    def pieces(self, source: Source, columns: Columns, bad: Bad) -> Iterator[Piece]:  # noqa: D102
        yield from _Table(source.stream, columns, bad).pieces()


class _Found(NamedTuple):
    """Rows of a block."""

    block: bytes
    table: Any  #: None: no rows
    bad: Sequence[tuple[int, str]] = ()  #: the numbers of lines at fault, and their defects
    spans: Sequence[tuple[int, int]] = ()  #: the first and the last line of each row that spans lines
    left: bytes = b""  #: the lines of a row that may end in the next block


class _Table:
    """The rows of a file of CSV.

    Args:
        stream: the file.
        columns: the requested columns.
        bad: receives each line or row at fault.
    """

    def __init__(self, stream: Any, columns: Columns, bad: Bad) -> None:
        self.stream, self.columns, self.bad, reading = stream, columns, bad, columns.reading
        head = head_of(stream)
        line = head.lstrip(b"\r\n").split(b"\n", 1)[0]
        self.dialect = Dialect.of(line, reading)
        self.dialect.understood(columns)
        head = self.dialect.prepared(head)
        #: The names that a block lacks; those of the first one are in it, unless they were given.
        self._header: Sequence[str] = list(reading.header or ())
        self._expected = f"{argument('columns')} names" if self._header else "the header has"
        self._wrong: list[Any] = []
        self.names = list(self._header) or self._names(head)
        self.quotes: Quotes | None = None
        if self.dialect.quote:
            mark, between = self.dialect.quote, self.dialect.separator
            self.quotes = Quotes(mark, between, self.names, reading.quote is not None, head, _SPAN)
        self._spans = False  #: whether a row of the last block spans lines
        lines = head.count(b"\n")
        rows = self._rows(head, 0, lines, is_all_head(stream), self._parsed)
        if 2 * len(rows.left) > len(head):  # most of it is after a quote that may never be closed
            rows = self._rows(head, 0, lines, True, self._parsed)
        first = self._parsed(head) if rows.table is None else rows.table
        if self._header and not len(first) and self._wrong:
            row, number = self._wrong[0], _line_of(self._wrong[0].number, _lines_of_rows(head, ()))
            hint = self.dialect.hint(line, (), len(self._header))
            raise DataError(f"line {number} has {_values(row)}; {self._expected} {row.expected_columns}{hint}")
        self.kinds = self._kinds(rows.block, first, line)
        self._loose = [name for name in columns.looked_at if name not in columns.keys]

    def pieces(self) -> Iterator[Piece]:
        """The rows, a block at a time."""
        start, left, lines = 0, b"", 0
        for block in itertools.chain(blocks_of(self.stream, self.bad), [None]):
            if block is None and not left:
                break
            held = left.count(b"\n")
            text, before, ends = left, lines - held, held
            if block is not None:
                text, before = left + self.dialect.prepared(block.text), block.before - held
                ends, lines = held + block.ends, block.before + block.ends
            rows = self._rows(text, before, ends, block is None, self._read)
            left = rows.left
            self._tell(rows, before)
            if rows.table is not None:
                yield self._typed(Piece(rows.table, start, multiline=len(rows.spans)))
                self._header, start = self.names, start + len(rows.table)

    def _names(self, head: bytes) -> list[str]:
        """The names in the header; DataError if they cannot be read."""
        head = head.lstrip(b"\r\n")
        line = head.split(b"\n", 1)[0] + b"\n"
        if self.dialect.quote:
            strict = self.columns.reading.quote is not None
            unclosed = unclosed_in_header(head, self.dialect.quote, self.dialect.separator, strict)
            if unclosed:
                shown = unclosed.decode("utf-8", "replace")
                how = f"if quotes are characters of names: {argument('quote', 'none')}"
                raise DataError(f"the header has a quote that is never closed: {shown!r:.60}; {how}")
            line = head if stays_open(line, self.dialect.quote, self.dialect.separator) else line
        try:
            return list(self._parsed(line).schema.names)
        except UnicodeDecodeError:
            raise DataError(f"the header {not_text(head.splitlines()[0])}") from None

    def _kinds(self, head: bytes, first: Any, line: bytes) -> dict[str, Any]:
        """The type to read each requested column as, by the first rows."""
        pa, kinds = arrow(), {}
        try:
            chosen = self.columns.chosen(self.names)
        except DataError as error:
            wanted = [*self.columns.names, *self.columns.looked_at]
            raise DataError(f"{error}{self.dialect.hint(line, wanted) if len(self.names) == 1 else ''}") from None
        floats = [name for name in chosen if first.schema.field(name).type == pa.float64()]
        floats = [name for name in floats if name in self.columns.coded and _are_whole(first.column(name))]
        texts = self._parsed(head, dict.fromkeys(floats, pa.string())) if floats else None
        for name in chosen:
            kind, whole = first.schema.field(name).type, name in floats
            integers = integer_type(texts.column(name)) if whole and texts is not None else None
            if integers is not None:  # beyond int64: Arrow takes them for floats
                kind, whole = integers, False
            kinds[name] = self.columns.kind(name, kind, whole)
        return kinds

    def _parsed(self, block: bytes, kinds: Mapping[str, Any] | None = None) -> Any:
        """Lines as a table; those with another number of values are in `_wrong`."""
        pa, csv = arrow(), arrow("csv")
        self._wrong.clear()
        if not self._header and not block.endswith((b"\n", b"\r")):
            block += b"\n"  # Arrow takes a header without an end of line for no header

        def skip(row: Any) -> str:
            self._wrong.append(row)
            return "skip"

        parse = csv.ParseOptions(
            delimiter=self.dialect.separator, quote_char=self.dialect.quote or False, invalid_row_handler=skip
        )
        read = csv.ReadOptions(block_size=len(block) + 1, use_threads=False, column_names=self._header)
        nothing = nulls_of_numbers(self.columns.reading.null)
        convert = csv.ConvertOptions(include_columns=list(kinds or ()), column_types=kinds, null_values=nothing)
        return csv.read_csv(pa.BufferReader(block), read, parse, convert)

    def _read(self, block: bytes) -> Any:
        """Lines as a table of the types, or of bytes if a value does not fit its type."""
        pa = arrow()
        try:
            table = self._parsed(block, self.kinds)
        except pa.ArrowInvalid:
            table = self._parsed(block, dict.fromkeys(self.kinds, pa.binary()))
        return self.dialect.restored(table)

    def _rows(self, block: bytes, before: int, ends: int, at_end: bool, read: Callable[[bytes], Any]) -> _Found:
        """Lines as rows.

        Only if there are fewer rows than lines, or the last line has an open quote, may a value span lines.

        Args:
            block: the lines.
            before: the number of lines before them.
            ends: the number of line feeds in them.
            at_end: whether nothing follows.
            read: makes a table.
        """
        quote, separator = self.dialect.quote, self.dialect.separator
        if self.quotes is None or quote.encode() not in block:
            return _Found(block, read(block))
        table = None
        if not self._spans:
            table = read(block)
            rows = len(table) + len(self._wrong) + (not self._header)
            last = block.rstrip(b"\r\n").rsplit(b"\n", 1)[-1]
            if rows == lines_in(block, ends) and not stays_open(last, quote, separator):
                return _Found(block, table)
        for quick in (True, False):
            settled = self.quotes.settled(block, before, at_end, quick)
            self._spans = bool(settled.spans)
            if table is None or settled.block != block or self._spans:
                table = read(settled.block) if settled.block.strip() else None
            parsed = _Found(settled.block, table, settled.bad, settled.spans, settled.left)
            if not (quick and self._wrong and self._spans):
                break
        return parsed

    def _tell(self, rows: _Found, before: int) -> None:
        """Report the lines at fault, in order."""
        bad = list(rows.bad)
        if rows.table is not None and self._wrong:
            starts = _lines_of_rows(rows.block, rows.spans)
            bad += [(before + _line_of(row.number, starts), self._told(row)) for row in self._wrong]
        for line, text in sorted(bad):
            self.bad(f"line {line}{text}")

    def _told(self, row: Any) -> str:
        """The defect of a row with another number of values."""
        quote, hint = self.dialect.quote, ""
        if quote and quote in row.text:
            hint = f"; if quotes are characters of values: {argument('quote', 'none')}"
        return f": {_values(row)}; {self._expected} {row.expected_columns}: {row.text!r}{hint}"

    def _typed(self, piece: Piece) -> Piece:
        """A piece with the types of its columns."""
        if arrow().binary() not in piece.table.schema.types:
            return piece
        columns = self.columns
        piece, kinds = typed(
            piece, self.kinds, self.bad, columns.reading.null, self._loose, columns.numeric_labels, columns.texts
        )
        for name, kind in kinds.items():
            if kind == arrow().uint64():  # the next block may hold such numbers, too
                self.kinds[name] = kind
            elif kind == arrow().float64() != self.kinds[name] and beyond_floats(piece.table.column(name)):
                self.columns.check_large(name)
        return piece


def _values(row: Any) -> str:
    """The number of values in a row of CSV, in words."""
    return f"{counted(row.actual_columns, 'values')}"


def _lines_of_rows(block: bytes, spans: Sequence[tuple[int, int]]) -> list[int]:
    """The line on which each row of a block begins, from 1: empty lines, and lines within a row, begin none."""
    within = {line for first, last in spans for line in range(first + 1, last + 1)}
    lines = enumerate(block.split(b"\n"))
    return [place + 1 for place, line in lines if line not in (b"", b"\r") and place not in within]


def _line_of(row: int, starts: Sequence[int]) -> int:
    """The line on which a row begins, both from 1; the row's own number if carriage returns hide its line."""
    return starts[row - 1] if row <= len(starts) else row


def _are_whole(column: Any) -> bool:
    """Whether floats are all whole numbers."""
    pc = arrow("compute")
    return bool(pc.all(pc.equal(column, pc.floor(column))).as_py()) and not pc.any(pc.is_inf(column)).as_py()
