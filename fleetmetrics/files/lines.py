"""Formats of lines of text: CSV and JSON Lines."""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
import re
from typing import Any, Callable, ClassVar, Iterator, Mapping, Sequence

import numpy as np

from fleetmetrics.dataframes import Columns, arrow
from fleetmetrics.errors import DataError
from fleetmetrics.files.row_pieces import Bad, Format, Piece, Source
from fleetmetrics.nested import pruned, type_inside
from fleetmetrics.vocabulary import argument

__all__ = ["CSV", "HEAD", "JSONLines"]

#: The bytes of text to read at once; the first bytes, or lines of JSON, that decide the format and types.
_BLOCK, HEAD, _LINES = 1 << 24, 1 << 20, 1000
#: The bytes of JSON that one thread parses at a time.
_CHUNK = 1 << 21


def _values(row: Any) -> str:
    """The number of values in a row of CSV, in words."""
    return f"{row.actual_columns} value{'s' * (row.actual_columns != 1)}"


def _head(stream: Any) -> bytes:
    """The head of a file without its last, incomplete line."""
    first: bytes = stream.peek()[:HEAD]
    return first[: first.rindex(b"\n") + 1] if len(first) >= HEAD and b"\n" in first else first


def _blocks(stream: Any, quoted: bool = False) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, without empty blocks; each with the number of lines before it.

    If values in quotes may contain line ends, a block ends where its quotes are closed. A quote that is never closed is
    a character of a value: the block then ends after another half block.
    """
    lines = 0
    for block in iter(lambda: stream.read(_BLOCK) + stream.readline(), b""):
        if quoted and block.count(b'"') % 2:
            block += _until_closed(stream, _BLOCK // 2)
        if not block.isspace():
            yield lines, block
        lines += block.count(b"\n")


def _until_closed(stream: Any, most: int) -> bytes:
    """The next lines, up to one that closes a quote; at most about `most` bytes."""
    found = bytearray()
    while len(found) < most and (line := stream.readline()):
        found += line
        if line.count(b'"') % 2:
            break
    return bytes(found)


def _lines_of_rows(block: bytes) -> list[int]:
    """The line on which each row of a block begins, from 1; empty lines, and line ends in quotes, begin no row."""
    found, quotes = [], 0
    for number, line in enumerate(block.split(b"\n"), 1):
        if not quotes % 2 and line not in (b"", b"\r"):
            found.append(number)
        quotes += line.count(b'"')
    return found


def _line_of(row: int, starts: Sequence[int]) -> int:
    """The line on which a row begins, both from 1; the row's own number if quotes in values hide its line."""
    return starts[row - 1] if row <= len(starts) else row


class CSV(Format):
    """CSV, with commas, tabs, semicolons or pipes, and a header unless the reading gives the names."""

    name: ClassVar[str] = "csv"
    title: ClassVar[str] = "CSV"
    about: ClassVar[str] = "CSV: commas, tabs, semicolons or pipes; a header, or `columns`"
    streams: ClassVar[str] = "gzip, zstd, bz2, xz, UTF-16, standard input"

    def begins(self, first: bytes) -> bool:  # noqa: D102
        return True  # anything in no other format

    def pieces(self, source: Source, columns: Columns, bad: Bad) -> Iterator[Piece]:  # noqa: D102
        pa, csv, head = arrow(), arrow("csv"), _head(source.stream)
        line = head.lstrip(b"\r\n").split(b"\n", 1)[0]
        delimiter = max(",\t;|", key=lambda each: line.count(each.encode()))
        header: Sequence[str] = list(columns.reading.header or ())
        expected = f"{argument('columns')} names" if header else "the header has"
        wrong: list[Any] = []

        def skip(row: Any) -> str:
            wrong.append(row)
            return "skip"

        parse = csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip)

        def read(block: bytes, kinds: Mapping[str, Any] | None = None) -> Any:
            wrong.clear()
            read = csv.ReadOptions(block_size=len(block) + 1, use_threads=False, column_names=header)
            convert = csv.ConvertOptions(include_columns=list(kinds or ()), column_types=kinds)
            return csv.read_csv(pa.BufferReader(block), read, parse, convert)

        first = read(head)
        if header and not len(first) and wrong:
            row, number = wrong[0], _line_of(wrong[0].number, _lines_of_rows(head))
            raise DataError(f"line {number} has {_values(row)}; {expected} {row.expected_columns}")
        names = first.schema.names
        kinds = {
            name: columns.kind(name, first.schema.field(name).type, _are_whole(first.column(name)))
            for name in columns.chosen(names)
        }
        start = 0
        for lines, block in _blocks(source.stream, quoted=True):
            try:
                table = read(block, kinds)
            except pa.ArrowInvalid:
                table = read(block, dict.fromkeys(kinds, pa.string()))
            starts = _lines_of_rows(block) if wrong else []
            for row in wrong:
                told = f"{_values(row)}; {expected} {row.expected_columns}: {row.text!r}"
                bad(f"line {lines + _line_of(row.number, starts)}: {told}")
            yield _typed(Piece(table, start), kinds, bad)
            header, start = names, start + len(table)


def _are_whole(column: Any) -> bool:
    """Whether these are floats and all whole numbers."""
    pc = arrow("compute")
    if column.type != arrow().float64():
        return False
    return bool(pc.all(pc.equal(column, pc.floor(column))).as_py()) and not pc.any(pc.is_inf(column)).as_py()


def _typed(piece: Piece, kinds: Mapping[str, Any], bad: Bad) -> Piece:
    """Columns of CSV converted to their types, without the rows that do not fit; empty strings are nulls."""
    pa, pc = arrow(), arrow("compute")
    table, fine = piece.table, np.ones(piece.table.num_rows, bool)
    for place, (name, kind) in enumerate(kinds.items()):
        column = table.column(name)
        if pa.types.is_string(column.type):
            nothing = [""] if pa.types.is_string(kind) else arrow("csv").ConvertOptions().null_values
            column = pc.if_else(pc.is_in(column, pa.array(nothing)), None, column)
            for row, made in _halved(column, operator.methodcaller("cast", kind)):
                if isinstance(made, Exception):
                    if fine[row]:
                        bad(f"row {piece.start + row}, column {name!r}: {_misfit(column[row].as_py(), kind)}")
                    fine[row] = False
            table = table.set_column(place, name, pc.if_else(pa.array(fine), column, None).cast(kind))
    piece = piece._replace(table=table)
    return piece if fine.all() else piece.taken(fine)


def _misfit(text: str, kind: Any) -> str:
    """How a string differs from the type of its column."""
    types = arrow().types
    if types.is_integer(kind):
        return f"{text!r} is not a whole number"
    if not types.is_floating(kind):
        return f"{text!r} is not of type {kind}"
    commas = "; numbers have no commas: 1234.5" if re.fullmatch(r"\s*[+-]?[\d,.]*,[\d,.]*\s*", text) else ""
    return f"{text!r} is not a number{commas}"


class JSONLines(Format):
    """JSON Lines: an object in each line."""

    name: ClassVar[str] = "jsonl"
    title: ClassVar[str] = "JSON Lines"
    about: ClassVar[str] = "JSON Lines, one object per line"
    streams: ClassVar[str] = CSV.streams

    def begins(self, first: bytes) -> bool:  # noqa: D102
        return first.lstrip()[:1] == b"{"

    def pieces(self, source: Source, columns: Columns, bad: Bad) -> Iterator[Piece]:  # noqa: D102
        pa, reader, start = arrow(), arrow("json"), 0
        known = _objects(_head(source.stream))
        names = columns.chosen(list(dict.fromkeys(itertools.chain(*known))))
        kinds = {name: _kind_in_json(columns, name, [row.get(name) for row in known]) for name in names}
        parse = reader.ParseOptions(
            explicit_schema=pa.schema(list(kinds.items())), unexpected_field_behavior=columns.unexpected
        )

        def read(data: bytes, chunk: int) -> Any:
            return reader.read_json(pa.BufferReader(data), reader.ReadOptions(chunk < len(data), chunk), parse)

        for _, block in _blocks(source.stream):
            try:
                piece = Piece(read(block, _CHUNK), start)
                start += len(piece.table)
            except pa.ArrowInvalid:
                lines = list(filter(bytes.strip, block.splitlines()))
                tables, rows = [parse.explicit_schema.empty_table()], [np.arange(0)]
                for place, made in _halved(lines, lambda some: read(b"\n".join(some), sum(map(len, some)) + len(some))):
                    if isinstance(made, Exception):
                        bad(f"row {start + place}: {str(made).split(' in row ')[0]}")
                    else:
                        tables.append(made)
                        rows.append(np.arange(start + place, start + place + len(made)))
                piece = Piece(pa.concat_tables(tables), 0, np.concatenate(rows))
                start += len(lines)
            yield piece


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
    values_in_it = {each: its.steps for each, its in columns.inside.items() if its.column == name}
    if not values_in_it or name in columns.names:
        return first if arrow().types.is_struct(first) else _kind_by_first(columns, name, first)
    kinds = [(steps, _kind_by_first(columns, each, type_inside(first, steps))) for each, steps in values_in_it.items()]
    return pruned(first, kinds)


def _kind_by_first(columns: Columns, name: str, first: Any) -> Any:
    pa, kind = arrow(), columns.kind(name, first)
    return first if kind == pa.string() and first in (pa.int64(), pa.float64(), pa.bool_()) else kind


def _type_of(values: Sequence[Any]) -> Any:
    """The common Arrow type of JSON values; without one, the type of the first value."""
    given = [value for value in values if value is not None]
    for some in (given, given[:1]):
        with contextlib.suppress(arrow().ArrowException, OverflowError):
            return arrow().array(some).type
    return arrow().string()


def _halved(items: Any, make: Callable[[Any], Any], start: int = 0) -> list[tuple[int, Any]]:
    """Convert all items, or after an error each half, down to single items, whose errors are kept; with places."""
    try:
        return [(start, make(items))]
    except arrow().ArrowInvalid as error:
        half = len(items) // 2
        if not half:
            return [(start, error)]
        return _halved(items[:half], make, start) + _halved(items[half:], make, start + half)
