"""The formats of files: each is read piece by piece, as Arrow tables of the columns that are asked for."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import operator
import struct
import sys
import zipfile
import zlib
from typing import Any, Callable, Generator, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.dataframes import Columns, array_of, arrow, decoded, is_list
from fleetmetrics.errors import DataError, FleetMetricsError

__all__ = ["FORMATS", "Piece", "gathered", "pieces_of", "rows_of"]

#: The rows of a piece, where `add` is fastest; those of a batch that may be wide; the bytes of a piece of such rows.
_ROWS, _FEW, _BYTES = 1_000_000, 1 << 14, 1 << 27
#: How many bytes of text are read together; how many at the beginning, or lines of JSON, show the format and types.
_BLOCK, _HEAD, _LINES = 1 << 24, 1 << 20, 1000
_MAGIC = ((b"PAR1", "parquet"), (b"PK", "npz"), (b"ARROW1", "arrow"), (b"\xff\xff\xff\xff", "arrow"))
FORMATS = ("parquet", "csv", "jsonl", "npz", "arrow")
#: What zipfile raises of archives that are broken, encrypted, or packed as it cannot.
_BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, struct.error, KeyError, OverflowError, RuntimeError)
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}

#: Receives a line that is no row, and leaves it out or raises.
Bad = Callable[[str], None]


class Piece(NamedTuple):
    """Some rows of a file."""

    table: Any
    start: int  #: the number of the first; that of the first in the file is 0
    kept: np.ndarray | None = None  #: how far after that each row is; None: one after the other

    @property
    def rows(self) -> np.ndarray:
        """The numbers of the rows in the file."""
        return self.start + (np.arange(self.table.num_rows) if self.kept is None else self.kept)

    def taken(self, keep: np.ndarray) -> Piece:
        """The rows that have a flag."""
        return Piece(self.table.filter(arrow().array(keep)).combine_chunks(), 0, self.rows[keep])


def pieces_of(path: str, format: str | None, columns: Columns, bad: Bad) -> Generator[Piece, None, None]:
    """The rows of a file, about a million at a time, each column in one chunk.

    Args:
        path: the file; "-": the standard input.
        format: "parquet", "csv", "jsonl", "npz" or "arrow"; None: the first bytes tell.
        columns: what is asked for.
        bad: receives each such row.

    Raises:
        DataError: it lacks a column, or cannot be read.
    """
    pa, kind, columns = arrow(), format, columns.within(path)
    try:
        with contextlib.ExitStack() as stack:
            source: Any = sys.stdin.buffer if path == "-" else stack.enter_context(open(path, "rb"))
            stream = io.BufferedReader(source, _HEAD)
            stack.callback(stream.detach)  # or the standard input would be closed with it
            packed = _PACKED.get(stream.peek()[:2])
            if packed:
                stream = io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(stream, "r"), packed), _HEAD)
            first = stream.peek()
            if not first:
                raise DataError("it is empty")
            kind = kind or _format(first)
            if kind in ("csv", "jsonl"):
                pieces = (_csv if kind == "csv" else _json)(stream, columns, bad)
            elif kind == "arrow" and not first.startswith(b"ARROW1"):
                pieces = gathered(_ipc(stream, columns))
            elif packed or path == "-":
                raise DataError(f"{kind} cannot be read from a pipe or a compressed stream; give a plain file")
            else:
                pieces = gathered({"parquet": _parquet, "npz": _npz, "arrow": _ipc}[kind](path, columns))
            for piece in pieces:
                yield piece._replace(table=columns.with_folders(decoded(piece.table)))
    except (pa.ArrowException, OSError, EOFError, ValueError, *_BROKEN_ARCHIVE) as error:
        if isinstance(error, FleetMetricsError):
            raise
        told = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        raise DataError(f"it cannot be read{f' as {kind}' if kind else ''}: {told.splitlines()[0]}") from None


def rows_of(path: str) -> int:
    """The number of rows of a file, guessed from its size where it does not say."""
    with open(path, "rb") as file:
        first = file.read(4)
        if first == b"PAR1":
            return arrow("parquet").read_metadata(path).num_rows
        return file.seek(0, io.SEEK_END) // (4 if first[:2] in _PACKED else 16)


def _format(first: bytes) -> str:
    """The format of data that begins so."""
    for magic, kind in _MAGIC:
        if first.startswith(magic):
            return kind
    if b"\0" in first:
        raise ValueError(f"it begins with {first[:8]!r}; known are Parquet, CSV, JSON Lines, NPZ and Arrow IPC")
    return "jsonl" if first.lstrip()[:1] == b"{" else "csv"


def gathered(batches: Iterable[Any]) -> Iterator[Piece]:
    """About a million rows at a time, fewer if these are wide, of batches or tables of any size."""
    pa, start, rows, size = arrow(), 0, 0, 0
    held: list[Any] = []
    for batch in batches:
        table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        most = _rows_at_once(table.num_columns)
        for first in range(0, table.num_rows, most):
            part = table.slice(first, most)
            if held and (rows + part.num_rows > most or size > _BYTES):
                yield Piece(pa.concat_tables(held), start)
                held, start, rows, size = [], start + rows, 0, 0
            held.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
    if held:
        yield Piece(pa.concat_tables(held), start)


def _rows_at_once(columns: int) -> int:
    """The rows of a piece: a million, fewer of more than eight columns, whose codes, places and lanes take memory."""
    return min(_ROWS, max(_FEW, _BYTES // (16 * max(1, columns))))


def _parquet(path: str, columns: Columns) -> Iterator[Any]:
    pq, types = arrow("parquet"), arrow().types
    with pq.ParquetFile(path) as file:
        schema, groups = file.schema_arrow, file.metadata
        largest = max((groups.row_group(place).num_rows for place in range(groups.num_row_groups)), default=_ROWS)
    names = columns.chosen(schema.names)
    kinds = {name: schema.field(name).type for name in names}
    keys = columns.keys.intersection(names)
    texts = [name for name in keys if types.is_string(kinds[name]) or types.is_large_string(kinds[name])]
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        rows = _FEW if any(map(is_list, kinds.values())) else _rows_at_once(len(names))
        # A batch across groups of rows takes twice the time, for each group has a dictionary of its own.
        yield from file.iter_batches(min(rows, max(1, largest)), columns=names)


def _ipc(source: Any, columns: Columns) -> Iterator[Any]:
    """The batches of a file, by its path, or of a stream."""
    ipc, whole = arrow("ipc"), isinstance(source, str)
    with ipc.open_file(arrow().memory_map(source)) if whole else ipc.open_stream(source) as reader:
        names = columns.chosen(reader.schema.names)
        for batch in map(reader.get_batch, range(reader.num_record_batches)) if whole else reader:
            yield batch.select(names)


def _npz(path: str, columns: Columns) -> Iterator[Any]:
    """Arrays in an archive are streams: read side by side, none is ever whole in memory, but for those by columns."""
    form = np.lib.format
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(path))
        streams = {}
        for name in columns.chosen([name[:-4] for name in archive.namelist() if name.endswith(".npy")]):
            if archive.getinfo(f"{name}.npy").compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(f"column {name!r} is packed as numpy.savez packs nothing")
            stream: Any = stack.enter_context(archive.open(f"{name}.npy"))
            first = form.read_magic(stream) == (1, 0)
            shape, by_columns, dtype = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(stream)
            if dtype.hasobject or not shape or min(shape) < 0:
                raise DataError(f"column {name!r} must be an array [n], or [n, k], not {list(shape)} of {dtype}")
            if by_columns:
                stream = io.BytesIO(np.frombuffer(stream.read(), dtype).reshape(shape, order="F").tobytes())
            streams[name] = stream, dtype, shape
        lengths = {name: shape[0] for name, (_, _, shape) in streams.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"the arrays differ in length: {lengths}")
        total = max(lengths.values(), default=0)
        for start in range(0, total, _FEW):
            table = {}
            for name, (stream, dtype, shape) in streams.items():
                part = (min(_FEW, total - start), *shape[1:])
                data = np.frombuffer(stream.read(math.prod(part) * dtype.itemsize), dtype)
                if len(data) < math.prod(part):
                    raise EOFError("an array ends too early")
                table[name] = array_of(data.reshape(part).astype(dtype.newbyteorder("="), copy=False))
            yield arrow().table(table)
        for name, (stream, _, shape) in streams.items():
            if stream.read(1):  # its end is where the CRC-32 is checked: a header may say fewer rows than there are
                raise DataError(f"column {name!r} goes on after its {shape[0]} rows")


# -- text: CSV and JSON Lines --------------------------------------------------------------------------------


def _head(stream: Any) -> bytes:
    """The head of a file without a line that it cuts."""
    first = stream.peek()
    return first[: first.rindex(b"\n") + 1] if len(first) == _HEAD and b"\n" in first else first


def _blocks(stream: Any) -> Iterator[bytes]:
    return itertools.filterfalse(bytes.isspace, iter(lambda: stream.read(_BLOCK) + stream.readline(), b""))


def _csv(stream: Any, columns: Columns, bad: Bad) -> Iterator[Piece]:
    pa, csv, head = arrow(), arrow("csv"), _head(stream)
    line = head.split(b"\n", 1)[0]
    delimiter = max(",\t;|", key=lambda each: line.count(each.encode()))
    wrong: list[Any] = []

    def skip(row: Any) -> str:
        wrong.append(row)
        return "skip"

    parse = csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip)

    def read(block: bytes, header: Sequence[str] = (), kinds: Mapping[str, Any] | None = None) -> Any:
        wrong.clear()
        read = csv.ReadOptions(block_size=2 * _BLOCK, use_threads=False, column_names=header)
        convert = csv.ConvertOptions(include_columns=list(kinds or ()), column_types=kinds)
        return csv.read_csv(pa.BufferReader(block), read, parse, convert)

    schema = read(head).schema
    kinds = {name: columns.kind(name, schema.field(name).type) for name in columns.chosen(schema.names)}
    header: Sequence[str] = ()
    start = lines = 0
    for block in _blocks(stream):
        try:
            table = read(block, header, kinds)
        except pa.ArrowInvalid:
            table = read(block, header, dict.fromkeys(kinds, pa.string()))
        for row in wrong:
            told = f"{row.actual_columns} values, where the header has {row.expected_columns}: {row.text!r}"
            bad(f"line {lines + row.number}: {told}")
        yield _typed(Piece(table, start), kinds, bad)
        header, start, lines = schema.names, start + len(table), lines + block.count(b"\n")


def _typed(piece: Piece, kinds: Mapping[str, Any], bad: Bad) -> Piece:
    """Columns of CSV as what they must be, without the rows in which a text is not; empty texts are nulls."""
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
                        bad(f"row {piece.start + row}, column {name!r}: {column[row].as_py()!r} is no {kind}")
                    fine[row] = False
            table = table.set_column(place, name, pc.if_else(pa.array(fine), column, None).cast(kind))
    piece = piece._replace(table=table)
    return piece if fine.all() else piece.taken(fine)


def _json(stream: Any, columns: Columns, bad: Bad) -> Iterator[Piece]:
    pa, reader, start = arrow(), arrow("json"), 0

    known: list[dict[str, Any]] = []
    for line in _head(stream).splitlines()[:_LINES]:
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            known += [row] if isinstance(row, dict) else []
    names = columns.chosen(list(dict.fromkeys(itertools.chain(*known))))
    schema = pa.schema([(name, columns.kind(name, _type_of([row.get(name) for row in known]))) for name in names])
    parse = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior=columns.unexpected)

    def read(lines: Sequence[bytes]) -> Any:
        data = b"\n".join(lines)
        return reader.read_json(pa.BufferReader(data), reader.ReadOptions(False, len(data) + 1), parse)

    for block in _blocks(stream):
        try:
            piece = Piece(read([block]), start)
            start += len(piece.table)
        except pa.ArrowInvalid:
            lines = list(filter(bytes.strip, block.splitlines()))
            tables, rows = [schema.empty_table()], [np.arange(0)]
            for place, made in _halved(lines, read):
                if isinstance(made, Exception):
                    bad(f"row {start + place}: {str(made).split(' in row ')[0]}")
                else:
                    tables.append(made)
                    rows.append(np.arange(start + place, start + place + len(made)))
            piece = Piece(pa.concat_tables(tables), 0, np.concatenate(rows))
            start += len(lines)
        yield piece


def _type_of(values: list[Any]) -> Any:
    """The Arrow type of values of JSON; that of the first, if they have none in common."""
    given = [value for value in values if value is not None]
    for some in (given, given[:1]):
        with contextlib.suppress(arrow().ArrowException, OverflowError):
            return arrow().array(some).type
    return arrow().string()


def _halved(items: Any, make: Callable[[Any], Any], start: int = 0) -> list[tuple[int, Any]]:
    """What is made of all items, or of each half of them, and so on; of one alone perhaps an error: with the places."""
    try:
        return [(start, make(items))]
    except arrow().ArrowInvalid as error:
        half = len(items) // 2
        if not half:
            return [(start, error)]
        return _halved(items[:half], make, start) + _halved(items[half:], make, start + half)
