"""The formats of files: each is read piece by piece, as Arrow tables of the columns that are asked for."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import sys
import zipfile
from typing import Any, Callable, Generator, Iterable, Iterator, Mapping, NamedTuple

import numpy as np

from fleetmetrics.dataframes import Columns, arrow, is_list
from fleetmetrics.errors import DataError, FleetMetricsError

__all__ = ["Piece", "pieces_of", "rows_of"]

#: The rows of a piece, where `add` is fastest; the bytes of one if its rows are wide; those of a block of text.
_ROWS, _BYTES, _BLOCK = 1_000_000, 1 << 27, 1 << 24
#: So many bytes tell the format, and the types of text.
_HEAD = 1 << 20
_MAGIC = ((b"PAR1", "parquet"), (b"PK", "npz"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow"))
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}

#: Is told of a row that is none, and leaves it out or raises.
Bad = Callable[[str], None]


class Piece(NamedTuple):
    """Some rows of a file."""

    table: Any
    start: int  #: the number of the first; that of the first in the file is 0
    kept: np.ndarray | None = None  #: the places of these rows after the first; None: one after the other

    def row(self, place: int) -> int:
        """The number of a row in the file."""
        return self.start + (place if self.kept is None else int(self.kept[place]))

    def taken(self, keep: np.ndarray) -> Piece:
        """The rows that have a flag."""
        kept = np.flatnonzero(keep) if self.kept is None else self.kept[keep]
        return Piece(self.table.filter(arrow().array(keep)).combine_chunks(), self.start, kept)


def pieces_of(path: str, format: str | None, columns: Columns, loose: bool, bad: Bad) -> Generator[Piece, None, None]:
    """The rows of a file, about a million at a time, each column in one chunk.

    Args:
        path: the file; "-": the standard input.
        format: "parquet", "csv", "jsonl", "npz" or "arrow"; None: the first bytes tell.
        columns: what is asked for.
        loose: whether there may be values that are none; slower for CSV.
        bad: is told of each such row.

    Raises:
        DataError: it lacks a column, or cannot be read.
    """
    pa, kind = arrow(), format
    try:
        with contextlib.ExitStack() as stack:
            plain = path != "-"
            source = stack.enter_context(pa.OSFile(path)) if plain else pa.PythonFile(sys.stdin.buffer, "r")
            first = source.read(_HEAD)
            packed = _PACKED.get(first[:2])
            if packed:
                source = pa.CompressedInputStream(pa.PythonFile(_Stream(first, source), "r"), packed)
                first, plain = source.read(_HEAD), False
            if not first:
                raise DataError("it is empty")
            kind = kind or _format(first)
            stream = pa.PythonFile(_Stream(first, source), "r")
            if kind == "csv":
                pieces = _csv(stream, first, columns, loose, bad)
            elif kind == "jsonl":
                pieces = _json(stream, first, columns, bad)
            elif kind == "arrow" and first[:6] != b"ARROW1":
                pieces = _gathered(_ipc_stream(stream, columns))
            elif not plain:
                raise DataError(f"{kind} cannot be read from a pipe or a compressed stream; give a plain file")
            elif kind == "npz":
                pieces = _npz(path, columns)
            else:
                pieces = _gathered((_parquet if kind == "parquet" else _ipc_file)(path, columns))
            for piece in pieces:
                yield piece._replace(table=piece.table.unify_dictionaries().combine_chunks())
    except (pa.ArrowException, OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, FleetMetricsError):
            raise
        if kind == "csv" and path != "-" and not loose:
            for _ in pieces_of(path, kind, columns, True, bad):  # which says where
                pass
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"it cannot be read{f' as {kind}' if kind else ''}: {told[0]}") from None


def rows_of(path: str) -> int:
    """The number of rows of a file, guessed from its size where it does not say."""
    with open(path, "rb") as file:
        first = file.read(4)
        if first == b"PAR1":
            return arrow("parquet").read_metadata(path).num_rows
        return file.seek(0, io.SEEK_END) // (4 if first[:2] in _PACKED else 16)


class _Stream(io.RawIOBase):
    """A stream of which the first bytes were read already."""

    def __init__(self, first: bytes, rest: Any) -> None:
        self._first, self._rest = first, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        first, self._first = (self._first, b"") if size < 0 else (self._first[:size], self._first[size:])
        return first if len(first) == size else first + self._rest.read(size - len(first) if size >= 0 else None)


def _format(first: bytes) -> str:
    """The format of data that begins so."""
    for magic, kind in _MAGIC:
        if first.startswith(magic):
            return kind
    if b"\0" in first:
        raise ValueError(f"it begins with {first[:8]!r}; known are Parquet, CSV, JSON Lines, NPZ and Arrow IPC")
    return "jsonl" if first.lstrip()[:1] == b"{" else "csv"


def _gathered(batches: Iterable[Any]) -> Iterator[Piece]:
    """Pieces of about a million rows from batches of any size."""
    pa, start, rows = arrow(), 0, 0
    held: list[Any] = []
    for batch in batches:
        for first in range(0, batch.num_rows, _ROWS):
            part = batch.slice(first, _ROWS)
            if held and rows + part.num_rows > _ROWS:
                yield Piece(pa.Table.from_batches(held), start)
                held, start, rows = [], start + rows, 0
            held.append(part)
            rows += part.num_rows
    if held:
        yield Piece(pa.Table.from_batches(held), start)


def _parquet(path: str, columns: Columns) -> Iterator[Any]:
    pq, types = arrow("parquet"), arrow().types
    with pq.ParquetFile(path) as file:
        columns.check(file.schema_arrow.names)
        kinds = {name: file.schema_arrow.field(name).type for name in columns.names}
        texts = [name for name in columns.keys if types.is_string(kinds[name]) or types.is_large_string(kinds[name])]
        rows = _ROWS
        if any(map(is_list, kinds.values())) and file.metadata.num_row_groups:
            group = file.metadata.row_group(0)
            rows = max(1000, min(_ROWS, _BYTES * group.num_rows // max(1, group.total_byte_size)))
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns.names)


def _ipc_file(path: str, columns: Columns) -> Iterator[Any]:
    with arrow().memory_map(path) as source, arrow("ipc").open_file(source) as reader:
        columns.check(reader.schema.names)
        for place in range(reader.num_record_batches):
            yield reader.get_batch(place).select(columns.names)


def _ipc_stream(stream: Any, columns: Columns) -> Iterator[Any]:
    with arrow("ipc").open_stream(stream) as reader:
        columns.check(reader.schema.names)
        for batch in reader:
            yield batch.select(columns.names)


def _npz(path: str, columns: Columns) -> Iterator[Piece]:
    """Arrays in an archive are streams: read side by side, none is ever whole in memory."""
    pa, form = arrow(), np.lib.format
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(path))
        columns.check([name[:-4] for name in archive.namelist() if name.endswith(".npy")])
        streams, lengths = {}, {}
        for name in columns.names:
            stream = stack.enter_context(archive.open(f"{name}.npy"))
            first = form.read_magic(stream) == (1, 0)
            shape, by_columns, dtype = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(stream)
            if dtype.hasobject or not 1 <= len(shape) <= 2 or (by_columns and len(shape) > 1):
                what = "objects" if dtype.hasobject else f"{list(shape)}{' by columns' * by_columns}"
                raise DataError(f"column {name!r} must be an array [n], or [n, k] by rows, not {what}")
            streams[name], lengths[name] = (stream, dtype, shape[1:]), shape[0]
        if len(set(lengths.values())) > 1:
            raise DataError(f"the arrays differ in length: {lengths}")
        total = lengths[columns.names[0]]
        width = max(dtype.itemsize * int(np.prod(shape)) for _, dtype, shape in streams.values())
        step = max(1000, min(_ROWS, _BYTES // max(1, width)))
        for start in range(0, total, step):
            arrays = []
            for stream, dtype, shape in streams.values():
                size = min(step, total - start) * int(np.prod(shape))
                data = np.frombuffer(stream.read(size * dtype.itemsize), dtype)
                if len(data) < size:
                    raise EOFError("an array ends too early")
                flat = pa.array(data.astype(dtype.newbyteorder("="), copy=False))
                arrays.append(pa.FixedSizeListArray.from_arrays(flat, shape[0]) if shape else flat)
            yield Piece(pa.Table.from_arrays(arrays, names=list(streams)), start)


# -- text: CSV and JSON Lines --------------------------------------------------------------------------------


def _whole_lines(first: bytes) -> bytes:
    """The head of a file without a line that it cuts."""
    return first[: first.rindex(b"\n") + 1] if len(first) == _HEAD and b"\n" in first else first


def _kind(name: str, columns: Columns, first: str) -> Any:
    """The Arrow type for a column of text, whose first values are of a type: ``"int64"``, ``"bool"``, ``"list"``."""
    pa = arrow()
    if name in columns.keys:
        return pa.int64() if first == "int64" else pa.string()
    return {"bool": pa.bool_(), "list": pa.list_(pa.float64())}.get(first, pa.float64())


def _csv(stream: Any, first: bytes, columns: Columns, loose: bool, bad: Bad) -> Iterator[Piece]:
    pa, csv = arrow(), arrow("csv")
    line = first.split(b"\n", 1)[0]
    delimiter = max(",\t;|", key=lambda each: line.count(each.encode()))
    wrong: list[Any] = []

    def skip(row: Any) -> str:
        wrong.append(row)
        return "skip"

    parse = csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip)
    head = io.BytesIO(_whole_lines(first))
    schema = csv.read_csv(head, csv.ReadOptions(block_size=2 * _HEAD, use_threads=False), parse).schema
    columns.check(schema.names)
    wrong.clear()
    kinds = {name: _kind(name, columns, str(schema.field(name).type)) for name in columns.names}
    types = dict.fromkeys(kinds, pa.string()) if loose else kinds
    convert = csv.ConvertOptions(include_columns=columns.names, column_types=types)
    start = 0
    with csv.open_csv(stream, csv.ReadOptions(block_size=_BLOCK, use_threads=False), parse, convert) as reader:
        for batch in itertools.chain(reader, [None]):
            for row in wrong:
                told = f"{row.actual_columns} values, where the header has {row.expected_columns}: {row.text!r}"
                bad(f"line {row.number}: {told}")
            wrong.clear()
            if batch:
                yield _typed(Piece(pa.Table.from_batches([batch]), start), kinds, bad)
                start += batch.num_rows


def _typed(piece: Piece, kinds: Mapping[str, Any], bad: Bad) -> Piece:
    """Columns of CSV as what they must be, without the rows in which a text is not; empty texts are nulls."""
    pa, pc = arrow(), arrow("compute")
    table, fine = piece.table, np.ones(piece.table.num_rows, bool)
    for place, (name, kind) in enumerate(kinds.items()):
        column = table.column(name)
        if pa.types.is_string(column.type):
            nothing = [""] if pa.types.is_string(kind) else arrow("csv").ConvertOptions().null_values
            column = pc.if_else(pc.is_in(column, pa.array(nothing)), None, column)
            try:
                column = column.cast(kind)
            except pa.ArrowInvalid:
                values = column.to_pylist()
                for row, value in enumerate(values):
                    if not _is(value, kind):
                        if fine[row]:
                            bad(f"row {piece.row(row)}, column {name!r}: {value!r} is no {kind}")
                        fine[row], values[row] = False, None
                column = pa.array(values, pa.string()).cast(kind)
            table = table.set_column(place, name, column)
    piece = piece._replace(table=table)
    return piece if fine.all() else piece.taken(fine)


def _is(text: str | None, kind: Any) -> bool:
    """Whether a text is a value of a type."""
    try:
        arrow().array([text], arrow().string()).cast(kind)
    except arrow().ArrowInvalid:
        return False
    return True


def _json(stream: Any, first: bytes, columns: Columns, bad: Bad) -> Iterator[Piece]:
    pa, reader = arrow(), arrow("json")
    known: dict[str, str] = {}
    for line in _whole_lines(first).splitlines()[:1000]:
        with contextlib.suppress(ValueError, AttributeError):
            for name, value in json.loads(line).items():
                found = {int: "int64"}.get(type(value), type(value).__name__)
                known[name] = found if known.get(name) in (None, "NoneType", found) else "mixed"
    columns.check(list(known))
    schema = pa.schema([(name, _kind(name, columns, known[name])) for name in columns.names])
    options = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    start, rest, data = 0, b"", b"\n"
    while data:
        data = stream.read(_BLOCK)
        block, rest = rest + data, b""
        if data:
            end = block.rfind(b"\n") + 1
            block, rest = block[:end], block[end:]
        if block.strip():
            try:
                size = reader.ReadOptions(use_threads=False, block_size=len(block) + 1)
                piece = Piece(reader.read_json(io.BytesIO(block), size, options).select(columns.names), start)
                rows = piece.table.num_rows
            except pa.ArrowInvalid:
                piece, rows = _line_by_line(block, schema, start, bad)
            start += rows
            yield piece


def _line_by_line(block: bytes, schema: Any, start: int, bad: Bad) -> tuple[Piece, int]:
    """The lines of a block in which some are no rows, and how many there are."""
    pa, rows, kept, number = arrow(), [], [], 0
    for line in block.splitlines():
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            row = {name: value.get(name) for name in schema.names}
            pa.Table.from_pylist([row], schema=schema)
            rows.append(row)
            kept.append(number)
        except (ValueError, TypeError, AttributeError, pa.ArrowException) as error:
            bad(f"row {start + number}: {str(error).splitlines()[0]}")
        number += 1
    return Piece(pa.Table.from_pylist(rows, schema=schema), start, np.array(kept, np.int64)), number
