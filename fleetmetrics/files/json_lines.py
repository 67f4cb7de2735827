"""JSON Lines: an object in each line."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from typing import Any, Callable, ClassVar, Iterator, Mapping, Sequence

import numpy as np

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.nested import pruned, type_inside
from fleetmetrics.errors import DataError
from fleetmetrics.files.cells import beside_fractions, beyond_floats, misfit, not_text
from fleetmetrics.files.lines import blocks_of, head_of
from fleetmetrics.files.row_pieces import Bad, Format, Piece, Source
from fleetmetrics.files.separated import CSV
from fleetmetrics.support.vocabulary import argument

__all__ = ["JSONLines"]

#: The first lines, which decide the types.
_LINES = 1000
#: The bytes that one thread parses at a time.
_CHUNK = 1 << 21
#: The rows at fault that are described; describing one takes longer than parsing ten.
_DESCRIBED = 16


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
                if name in floats and beyond_floats(table.column(name)):
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
