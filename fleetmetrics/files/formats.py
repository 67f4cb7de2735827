"""The formats of files: each is read piece by piece, as Arrow tables of the columns that are asked for."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import zipfile
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.dataframes import Columns, arrow, is_list
from fleetmetrics.errors import DataError, FleetMetricsError

__all__ = ["FORMATS", "PIECE", "Piece", "pieces_of"]

#: The rows of a piece: where `add` is fastest. The bytes of one, if its rows are wide; and of a block of text.
PIECE, _BYTES, _BLOCK = 1_000_000, 1 << 27, 1 << 24
_HEAD = 1 << 20
FORMATS = ("parquet", "csv", "jsonl", "npz", "arrow")

#: Called with the fault of a row, which it names; raises, or counts the row as left out.
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
        return Piece(self.table.filter(arrow().array(keep)), self.start, kept)


def pieces_of(path: str, format: str | None, columns: Columns, loose: bool, bad: Bad) -> Iterator[Piece]:
    """The rows of a file, about a million at a time.

    Args:
        path: the file; "-": the standard input.
        format: one of `FORMATS`; None: the first bytes tell.
        columns: what is asked for.
        loose: whether there may be lines and values that are none; slower for CSV.
        bad: is told of each of them.

    Raises:
        DataError: it lacks a column, or cannot be read.
    """
    pa = arrow()
    kind = format
    try:
        with contextlib.ExitStack() as stack:
            stdin = path == "-"
            source = pa.PythonFile(sys.stdin.buffer, "r") if stdin else stack.enter_context(pa.OSFile(path))
            first = source.read(_HEAD)
            packed = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}.get(first[:2])
            if packed:
                source = pa.CompressedInputStream(pa.PythonFile(_Stream(first, source), "r"), packed)
                first = source.read(_HEAD)
            if not first:
                raise DataError(f"{path} is empty")
            kind = format or _format(first)
            stream = pa.PythonFile(_Stream(first, source), "r")
            if kind in ("csv", "jsonl"):
                read = _csv if kind == "csv" else _json
                yield from read(stream, first, columns, path, loose, bad)
                return
            streamed = kind == "arrow" and not first.startswith(b"ARROW1")
            if (stdin or packed) and not streamed:
                raise DataError(f"{path}: {kind} cannot be read from a pipe or a compressed stream; give a plain file")
            if kind == "npz":
                yield from _npz(path, columns)
                return
            batches = (
                _parquet(path, columns) if kind == "parquet" else _ipc(stream if streamed else path, columns, path)
            )
            yield from _gathered(batches)
    except (pa.ArrowException, OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, FleetMetricsError):
            raise
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(f"{path} cannot be read{f' as {kind}' if kind else ''}: {told[0]}") from None


class _Stream(io.RawIOBase):
    """A stream of which the first bytes were read already."""

    def __init__(self, first: bytes, rest: Any) -> None:
        self._first, self._rest = first, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._first:
            return self._rest.read(size if size >= 0 else None)
        data = self._first if size < 0 else self._first[:size]
        self._first = self._first[len(data) :]
        return data + self.read(size - len(data) if size >= 0 else -1) if len(data) != size else data


def _format(first: bytes) -> str:
    """The format of data that begins so."""
    for magic, kind in ((b"PAR1", "parquet"), (b"PK", "npz"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow")):
        if first.startswith(magic):
            return kind
    if first.lstrip()[:1] == b"{":
        return "jsonl"
    if b"\0" in first:
        raise ValueError(f"it begins with {first[:8]!r}; known are Parquet, CSV, JSON Lines, NPZ and Arrow IPC")
    return "csv"


def _gathered(batches: Iterable[Any]) -> Iterator[Piece]:
    """Pieces of about `PIECE` rows from batches of any size."""
    pa = arrow()
    held: list[Any] = []
    start = rows = 0
    for batch in batches:
        for first in range(0, batch.num_rows, PIECE):
            part = batch.slice(first, PIECE)
            if held and rows + part.num_rows > PIECE:
                yield Piece(pa.Table.from_batches(held), start)
                held, start, rows = [], start + rows, 0
            held.append(part)
            rows += part.num_rows
    if held:
        yield Piece(pa.Table.from_batches(held), start)


def _parquet(path: str, columns: Columns) -> Iterator[Any]:
    pq, types = arrow("parquet"), arrow().types
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        columns.check(schema.names, path)
        texts = [name for name in columns.keys if _is_text(schema.field(name).type)]
        wide = any(types.is_nested(schema.field(name).type) for name in columns.names)
        rows = PIECE
        if wide and file.metadata.num_row_groups:
            group = file.metadata.row_group(0)
            rows = max(1000, min(PIECE, _BYTES * group.num_rows // max(1, group.total_byte_size)))
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns.names)


def _is_text(kind: Any) -> bool:
    types = arrow().types
    return types.is_string(kind) or types.is_large_string(kind)


def _ipc(source: Any, columns: Columns, path: str) -> Iterator[Any]:
    ipc = arrow("ipc")
    if isinstance(source, str):
        with arrow().memory_map(source) as file, ipc.open_file(file) as reader:
            columns.check(reader.schema.names, path)
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place).select(columns.names)
        return
    with ipc.open_stream(source) as reader:
        columns.check(reader.schema.names, path)
        for batch in reader:
            yield batch.select(columns.names)


def _npz(path: str, columns: Columns) -> Iterator[Piece]:
    """Arrays in an archive are streams: read side by side, none is ever whole in memory."""
    pa, form = arrow(), np.lib.format
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(path))
        columns.check([name[:-4] for name in archive.namelist() if name.endswith(".npy")], path)
        streams, rows, width = {}, {}, 1
        for name in columns.names:
            stream = stack.enter_context(archive.open(f"{name}.npy"))
            read = form.read_array_header_1_0 if form.read_magic(stream) == (1, 0) else form.read_array_header_2_0
            shape, fortran, dtype = read(stream)
            if dtype.hasobject or not 1 <= len(shape) <= 2 or (fortran and len(shape) > 1):
                what = "objects" if dtype.hasobject else f"{list(shape)}{' by columns' if fortran else ''}"
                raise DataError(f"{path}, column {name!r}: allowed are arrays [n], or [n, k] by rows, not {what}")
            streams[name], rows[name] = (stream, dtype, shape[1:]), shape[0]
            width = max(width, dtype.itemsize * int(np.prod(shape[1:])))
        if len(set(rows.values())) > 1:
            raise DataError(f"{path}: the arrays differ in length: {rows}")
        total = next(iter(rows.values()))
        step = max(1000, min(PIECE, _BYTES // width))
        for start in range(0, total, step):
            arrays = []
            for stream, dtype, shape in streams.values():
                size = min(step, total - start) * dtype.itemsize * int(np.prod(shape))
                data = stream.read(size)
                if len(data) < size:
                    raise EOFError("an array ends too early")
                flat = pa.array(np.frombuffer(data, dtype).astype(dtype.newbyteorder("="), copy=False))
                arrays.append(pa.FixedSizeListArray.from_arrays(flat, shape[0]) if shape else flat)
            yield Piece(pa.Table.from_arrays(arrays, names=list(streams)), start)


# -- text: CSV and JSON Lines --------------------------------------------------------------------------------


def _whole_lines(first: bytes) -> bytes:
    """The head of a file without a line that it cuts."""
    return first[: first.rindex(b"\n") + 1] if len(first) == _HEAD and b"\n" in first else first


def _csv(stream: Any, first: bytes, columns: Columns, path: str, loose: bool, bad: Bad) -> Iterator[Piece]:
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
    columns.check(schema.names, path)
    wrong.clear()
    kinds = {name: _kind(schema.field(name).type, name in columns.keys) for name in columns.names}
    texts = dict.fromkeys(columns.names, pa.string())
    reader = csv.open_csv(
        stream,
        csv.ReadOptions(block_size=_BLOCK, use_threads=False),
        parse,
        csv.ConvertOptions(include_columns=columns.names, column_types=texts if loose else kinds),
    )
    start = 0
    with reader:
        while True:
            batch = next(reader, None)
            for row in wrong:
                told = f"{row.actual_columns} values, where the header has {row.expected_columns}: {row.text!r}"
                bad(f"{path}, line {row.number}: {told}")
            wrong.clear()
            if batch is None:
                return
            piece = Piece(pa.Table.from_batches([batch]), start)
            start += batch.num_rows
            yield _typed(piece, kinds, path, bad) if loose else _without_empty(piece)


def _kind(inferred: Any, key: bool) -> Any:
    """The type that a column of text is read as, from that of its first values."""
    pa = arrow()
    if key:
        return pa.int64() if pa.types.is_integer(inferred) else pa.string()
    if is_list(inferred):
        return pa.list_(pa.float64())
    return pa.bool_() if pa.types.is_boolean(inferred) else pa.float64()


def _without_empty(piece: Piece) -> Piece:
    """Empty texts are nulls: nothing was between the commas."""
    pa, pc, table = arrow(), arrow("compute"), piece.table
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(place)
            empty = pc.equal(column, "")
            if pc.any(empty).as_py():
                table = table.set_column(place, field.name, pc.if_else(empty, None, column))
    return piece._replace(table=table)


def _typed(piece: Piece, kinds: Mapping[str, Any], path: str, bad: Bad) -> Piece:
    """Texts of CSV as what they must be, without the rows in which one is not."""
    pa, pc = arrow(), arrow("compute")
    piece = _without_empty(piece)
    fine = np.ones(piece.table.num_rows, bool)
    for name, kind in kinds.items():
        column = piece.table.column(name)
        try:
            column.cast(kind)
        except pa.ArrowInvalid:
            values = pc.fill_null(column, "0").to_pylist()
            for place, value in enumerate(values):
                if fine[place] and not _is(value, kind):
                    fine[place] = False
                    bad(f"{path}, row {piece.row(place)}, column {name!r}: {value!r} is no {_NAMES[str(kind)]}")
    piece = piece if fine.all() else piece.taken(fine)
    columns = [piece.table.column(name).cast(kind) for name, kind in kinds.items()]
    return piece._replace(table=pa.table(columns, names=list(kinds)))


_NAMES = {"int64": "integer", "double": "number", "bool": "bool", "string": "text"}


def _is(text: str, kind: Any) -> bool:
    """Whether a text is a value of a type for Arrow, too."""
    try:
        arrow().array([text]).cast(kind)
    except arrow().ArrowInvalid:
        return False
    return True


def _json(stream: Any, first: bytes, columns: Columns, path: str, loose: bool, bad: Bad) -> Iterator[Piece]:
    pa, reader = arrow(), arrow("json")
    head = _whole_lines(first)
    known = _objects(head)
    columns.check(list(dict.fromkeys(name for each in known for name in each)), path)
    schema = pa.schema([(name, _json_kind(known, name, name in columns.keys)) for name in columns.names])
    options = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    start, rest = 0, b""
    while True:
        data = stream.read(_BLOCK)
        block, rest = (rest + data, b"") if not data else _split(rest + data)
        if block.strip():
            try:
                table = reader.read_json(
                    io.BytesIO(block), reader.ReadOptions(use_threads=False, block_size=len(block) + 1), options
                )
                piece = Piece(table.select(columns.names), start)
                rows = table.num_rows
            except pa.ArrowInvalid:
                piece, rows = _by_line(block, schema, start, path, bad)
            start += rows
            yield piece
        if not data:
            return


def _split(data: bytes) -> tuple[bytes, bytes]:
    """The lines that are complete, and the rest."""
    end = data.rfind(b"\n") + 1
    return data[:end], data[end:]


def _objects(head: bytes) -> list[dict[str, Any]]:
    """The objects in the first lines."""
    found = []
    for line in head.splitlines()[:1000]:
        with contextlib.suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                found.append(value)
    return found


def _json_kind(known: Sequence[Mapping[str, Any]], name: str, key: bool) -> Any:
    pa = arrow()
    values = [each[name] for each in known if each.get(name) is not None]
    if key:
        return pa.int64() if values and all(type(each) is int for each in values) else pa.string()
    if values and isinstance(values[0], list):
        return pa.list_(pa.float64())
    return pa.bool_() if values and isinstance(values[0], bool) else pa.float64()


def _by_line(block: bytes, schema: Any, start: int, path: str, bad: Bad) -> tuple[Piece, int]:
    """The lines of a block in which some are no rows."""
    pa = arrow()
    good, kept, number = [], [], 0
    for line in block.splitlines():
        if not line.strip():
            continue
        try:
            value = json.loads(line)
            row = {name: value.get(name) for name in schema.names} if isinstance(value, dict) else None
            if row is None:
                raise ValueError(f"{line[:80]!r} is no object")
            pa.Table.from_pylist([row], schema=schema)
            good.append(row)
            kept.append(number)
        except (ValueError, TypeError, pa.ArrowException) as error:
            bad(f"{path}, row {start + number}: {str(error).splitlines()[0]}")
        number += 1
    return Piece(pa.Table.from_pylist(good, schema=schema), start, np.array(kept, np.int64)), number
