"""Formats of lines of text: CSV and JSON Lines."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from typing import Any, Callable, ClassVar, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.nested import pruned, type_inside
from fleetmetrics.errors import DataError
from fleetmetrics.files.cells import beside_fractions, integer_type, misfit, not_text, nulls_of_numbers, typed
from fleetmetrics.files.dialect import Dialect
from fleetmetrics.files.quotes import Quotes, lines_in, stays_open, unclosed_in_header
from fleetmetrics.files.row_pieces import Bad, Format, Piece, Source
from fleetmetrics.support.vocabulary import argument, counted

__all__ = ["CSV", "HEAD", "JSONLines", "blocks_of", "head_of"]

#: The bytes of text to read at once; the first bytes, or lines of JSON, that decide the format and types.
_BLOCK, HEAD, _LINES = 1 << 24, 1 << 20, 1000
#: The most bytes of a row of CSV that spans lines.
_SPAN = 1 << 23
#: The bytes of JSON that one thread parses at a time.
_CHUNK = 1 << 21
#: The rows of JSON at fault that are described; describing one takes longer than parsing ten.
_DESCRIBED = 16


class _Block(NamedTuple):
    """Whole lines."""

    text: bytes
    before: int  #: the number of lines before them
    ends: int  #: the number of line feeds


def head_of(stream: Any) -> bytes:
    """The head of a file without its last, incomplete line, and without lines with NUL bytes."""
    first: bytes = stream.peek()[:HEAD]
    first = first[: first.rindex(b"\n") + 1] if len(first) >= HEAD and b"\n" in first else first
    return _without_nul(first, 0, lambda text: None)


def blocks_of(stream: Any, bad: Bad) -> Iterator[_Block]:
    """Blocks of whole lines, without empty blocks; lines with NUL bytes are bad, and empty here."""
    lines = 0
    for block in iter(lambda: stream.read(_BLOCK) + stream.readline(), b""):
        text, ends = _without_nul(block, lines, bad), block.count(b"\n")
        if text and not text.isspace():
            yield _Block(text, lines, ends)
        lines += ends


def _without_nul(block: bytes, before: int, bad: Bad) -> bytes:
    """Lines, of which those with NUL bytes, as a crash leaves them, are empty."""
    if b"\0" not in block:
        return block
    lines = block.split(b"\n")
    for place, line in enumerate(lines):
        if b"\0" in line:
            bad(f"line {before + place + 1}: it holds {counted(line.count(0), 'NUL bytes')}")
            lines[place] = b""
    return b"\n".join(lines)


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
        rows = self._rows(head, 0, lines, len(stream.peek()) < HEAD, self._parsed)
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
            elif kind == arrow().float64() != self.kinds[name] and _beyond_floats(piece.table.column(name)):
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


def _beyond_floats(column: Any) -> bool:
    """Whether a column of floats has numbers that may have been other integers."""
    largest = arrow("compute").max(arrow("compute").abs(column)).as_py()
    return largest is not None and largest >= 2**53


class JSONLines(Format):
    """JSON Lines: an object in each line."""

    name: ClassVar[str] = "jsonl"
    title: ClassVar[str] = "JSON Lines"
    about: ClassVar[str] = "JSON Lines, one object per line"
    is_text: ClassVar[bool] = True
    streams: ClassVar[str] = CSV.streams

    def begins(self, first: bytes) -> bool:  # noqa: D102
        return first.lstrip()[:1] == b"{"

    def pieces(self, source: Source, columns: Columns, bad: Bad) -> Iterator[Piece]:  # noqa: D102
        pa, reader, start = arrow(), arrow("json"), 0
        known = _objects(head_of(source.stream))
        names = columns.chosen(list(dict.fromkeys(itertools.chain(*known))))
        kinds = {name: _kind_in_json(columns, name, [row.get(name) for row in known]) for name in names}
        floats = [name for name in columns.reading.text if kinds.get(name) == pa.float64()]
        parse = reader.ParseOptions(
            explicit_schema=pa.schema(list(kinds.items())), unexpected_field_behavior=columns.unexpected
        )

        def read(data: bytes, chunk: int = _CHUNK) -> Any:
            table = reader.read_json(pa.BufferReader(data), reader.ReadOptions(chunk < len(data), chunk), parse)
            for name, kind in kinds.items():
                if pa.types.is_string(kind):
                    table.column(name).validate(full=True)  # of UTF-8
                if name in floats and _beyond_floats(table.column(name)):
                    raise pa.ArrowInvalid(f"column {name!r} holds integers that floats skip")
            return table

        def keyed(piece: Piece) -> Piece:
            table = piece.table
            for name, kind in kinds.items():
                if kind == pa.uint64() and columns.kind(name, kind) == pa.string():
                    table = table.set_column(names.index(name), name, table.column(name).cast(pa.string()))
            return piece._replace(table=table)

        slow = _Objects(kinds, columns, read)
        for block in blocks_of(source.stream, bad):
            try:
                piece = Piece(read(block.text), start)
            except pa.ArrowInvalid:
                piece = slow.piece(block.text, start, bad)
            start += len(piece.table) if piece.kept is None else slow.rows
            yield keyed(piece)


def _objects(head: bytes) -> list[dict[str, Any]]:
    """The objects in the first lines."""
    known: list[dict[str, Any]] = []
    for line in head.splitlines()[:_LINES]:
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            known += [row] if isinstance(row, dict) else []
    return known


def _kind_in_json(columns: Columns, name: str, values: Sequence[Any]) -> Any:
    """The Arrow type to read a field as; numbers and bools become strings later, if requested."""
    first = _type_of(values)
    values_in_it = {path: its.steps for path, its in columns.inside.items() if its.column == name}
    if not values_in_it or name in columns.names:
        return first if arrow().types.is_struct(first) else _kind_by_first(columns, name, first)
    kinds = [(steps, _kind_by_first(columns, path, type_inside(first, steps))) for path, steps in values_in_it.items()]
    return pruned(first, kinds)


def _kind_by_first(columns: Columns, name: str, first: Any) -> Any:
    pa, kind = arrow(), columns.kind(name, first)
    return first if kind == pa.string() and first in (pa.int64(), pa.uint64(), pa.float64(), pa.bool_()) else kind


def _type_of(values: Sequence[Any]) -> Any:
    """The common Arrow type of JSON values; without one, the type of the first value."""
    pa = arrow()
    present = [value for value in values if value is not None]
    for some in (present, present[:1]):
        with contextlib.suppress(pa.ArrowException, OverflowError):
            return pa.array(some).type
        if all(type(number) is int and 0 <= number < 2**64 for number in some):
            return pa.uint64()
    return pa.string()


class _Objects:
    """Rows of blocks with a line that Arrow refuses: the rows at fault are found in one pass over the lines.

    Args:
        kinds: the type of each field.
        columns: the requested columns.
        read: Arrow's parser.
    """

    def __init__(self, kinds: Mapping[str, Any], columns: Columns, read: Callable[[bytes], Any]) -> None:
        self.columns, self._read, self._described = columns, read, 0
        self.fields = {name: _Field(name, kind, columns) for name, kind in kinds.items()}
        self.rows = 0  #: the number of rows of the last block, with those at fault

    def piece(self, block: bytes, start: int, bad: Bad) -> Piece:
        """The rows that fit.

        Args:
            block: whole lines.
            start: the number of the first row.
            bad: receives the defect of each other row.
        """
        kept: list[int] = []
        values: dict[str, list[Any]] = {name: [] for name in self.fields}
        self.rows = 0
        for row in itertools.chain.from_iterable(map(self._in_line, filter(bytes.strip, block.splitlines()))):
            defect = row if isinstance(row, str) else self._defect(row)
            if defect:
                bad(f"row {start + self.rows}{defect}")
            else:
                kept.append(self.rows)
                for name, column in values.items():
                    column.append(row.get(name))  # type: ignore[union-attr]
            self.rows += 1
        table = arrow().table({name: field.array(values[name]) for name, field in self.fields.items()})
        return Piece(table, start, np.array(kept, np.int64))

    def _in_line(self, line: bytes) -> list[dict[str, Any] | str]:
        """The objects in a line, or its defect."""
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return [f": {not_text(line)}"]
        rows: list[dict[str, Any] | str] = []
        text, place = text.strip(), 0
        try:
            while place < len(text):
                row, place = _DECODER.raw_decode(text, place)
                place = _BLANKS.match(text, place).end()  # type: ignore[union-attr]
                rows.append(row if isinstance(row, dict) else f": {text!r:.60} is no object of JSON")
        except (ValueError, RecursionError) as error:
            return [f": {self._told(line, error)}"]
        return rows

    def _told(self, line: bytes, error: Exception) -> str:
        """What is wrong with a line that is no JSON."""
        self._described += 1
        if not line.lstrip().startswith(b"{"):
            return f"{line.decode()!r:.60} is no object of JSON"
        if self._described <= _DESCRIBED:
            try:
                self._read(line)
            except arrow().ArrowInvalid as other:
                return str(other).split(" in row ")[0]
        return f"JSON parse error: {error}"

    def _defect(self, row: dict[str, Any]) -> str:
        """How a row differs from the fields, if it does."""
        for name, field in self.fields.items():
            value = row.get(name)
            if value is not None and not field.fits(value):
                self._described += 1
                return f", column {name!r}" + (
                    f": {misfit(value, field.kind, name)}" if self._described <= _DESCRIBED else ""
                )
        late = next((name for name in row if name not in self.fields), "") if self.columns.unexpected == "error" else ""
        return f": JSON parse error: unexpected field {late!r}" if late else ""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, whose names differ."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a field comes twice")
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)
_BLANKS = re.compile(r"\s*")
#: Larger integers are no floats.
_LARGEST = 1 << 1023


class _Field:
    """A field of JSON: which values fit, and a column of them.

    Args:
        name: of the column.
        kind: its type.
        columns: the requested columns.
    """

    def __init__(self, name: str, kind: Any, columns: Columns) -> None:
        types = arrow().types
        self._name, self.kind, self._null = name, kind, frozenset(columns.reading.null)
        self._is_text = name in columns.reading.text
        self._is_integer, self._is_number = types.is_integer(kind), types.is_floating(kind)
        if name in columns.looked_at and name not in columns.keys:
            self._is_number = self._is_number or self._is_integer  # what a condition compares need not be whole

    def fits(self, value: Any) -> bool:
        """Whether a value has the type, or stands for none."""
        types = arrow().types
        if isinstance(value, str):
            known = self._is_text or types.is_string(self.kind) or value in self._null
            return known and value.encode(errors="replace").decode() == value
        if self._is_text:  # numbers become strings
            return isinstance(value, (int, float))
        if self._is_number and type(value) in (int, float):
            return type(value) is float or abs(value) < _LARGEST
        if self._is_integer or self._is_number:
            return type(value) is int and self._is_integer and -(2**63) <= value < 2**64
        try:
            return arrow().scalar(value, self.kind) is not None
        except (arrow().ArrowException, OverflowError, TypeError, ValueError):
            return False

    def array(self, values: list[Any]) -> Any:
        """A column of values that fit; DataError if they fit together in no type."""
        pa = arrow()
        if self._is_text:
            return pa.array([value if value is None else _text(value) for value in values], pa.string())
        if self._null and not pa.types.is_string(self.kind):
            values = [None if isinstance(value, str) else value for value in values]
        if not self._is_integer:
            if pa.types.is_floating(self.kind):
                values = [value if value is None else float(value) for value in values]
            return pa.array(values, self.kind)
        if float in set(map(type, values)):
            if any(type(value) is int and abs(value) >= 2**53 for value in values):
                raise beside_fractions(self._name)
            return pa.array([value if value is None else float(value) for value in values])
        for kind in (pa.int64(), pa.uint64()):
            with contextlib.suppress(OverflowError, pa.ArrowException):
                return pa.array(values, kind)
        known = [value for value in values if value is not None]
        reason = (
            f"column {self._name!r} holds {min(known)} and {max(known)}, which fit together in no integer of 64 bits"
        )
        raise DataError(f"{reason}; {argument('text', self._name)} reads strings")


def _text(value: Any) -> str:
    """A value as a string, as Arrow writes it."""
    if type(value) in (str, int):
        return str(value)
    return str(arrow().array([value]).cast(arrow().string())[0])
