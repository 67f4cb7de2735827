"""Binary formats: Parquet, Arrow IPC, NPZ."""

from __future__ import annotations

import contextlib
import io
import math
import zipfile
from typing import Any, ClassVar, Iterator

import numpy as np

from fleetmetrics.columns.arrow_values import array_of, arrow
from fleetmetrics.columns.frames import Columns
from fleetmetrics.columns.nested import is_nested
from fleetmetrics.errors import DataError
from fleetmetrics.files.places import is_remote, opened
from fleetmetrics.files.row_pieces import FEW, Bad, Format, Piece, Source, gathered, rows_at_once

__all__ = ["NPZ", "Arrow", "Parquet"]

#: Up to this number of columns, one thread decodes Parquet sooner than it hands columns to others.
_FEW_COLUMNS = 4


class Parquet(Format):
    """Parquet."""

    name: ClassVar[str] = "parquet"
    title: ClassVar[str] = "Parquet"
    about: ClassVar[str] = "Parquet"

    def begins(self, first: bytes) -> bool:  # noqa: D102
        return first.startswith(b"PAR1")

    def pieces(self, source: Source, columns: Columns, bad: Bad) -> Iterator[Piece]:  # noqa: D102
        with contextlib.ExitStack() as stack:
            yield from gathered(self._batches(self._opened(source.path, stack), columns, stack))

    @staticmethod
    def _opened(path: str, stack: contextlib.ExitStack) -> Any:
        return stack.enter_context(opened(path)) if is_remote(path) else path

    @staticmethod
    def _batches(file: Any, columns: Columns, stack: contextlib.ExitStack) -> Iterator[Any]:
        pq, types = arrow("parquet"), arrow().types
        reader = stack.enter_context(pq.ParquetFile(file))
        metadata, schema = reader.metadata, reader.schema_arrow
        names = columns.chosen(schema.names)
        kinds = {name: schema.field(name).type for name in names}
        texts = [
            name
            for name, kind in kinds.items()
            if name in columns.as_dictionary and (types.is_string(kind) or types.is_large_string(kind))
        ]
        if texts:
            reader = stack.enter_context(pq.ParquetFile(file, metadata=metadata, read_dictionary=texts))
        rows = FEW if any(map(is_nested, kinds.values())) else rows_at_once(len(names))
        # A batch across row groups takes twice the time, because each group has its own dictionary.
        groups = (metadata.row_group(place).num_rows for place in range(metadata.num_row_groups))
        size = min(rows, max(groups, default=rows) or 1)
        yield from reader.iter_batches(size, columns=names, use_threads=len(names) > _FEW_COLUMNS)


class Arrow(Format):
    """Arrow IPC: a file, or a stream."""

    name: ClassVar[str] = "arrow"
    title: ClassVar[str] = "Arrow IPC"
    about: ClassVar[str] = "Arrow IPC, Feather"
    streams: ClassVar[str] = "a stream: gzip, zstd, bz2, xz, standard input"

    def begins(self, first: bytes) -> bool:  # noqa: D102
        return first.startswith((b"ARROW1", b"\xff\xff\xff\xff"))

    def pieces(self, source: Source, columns: Columns, bad: Bad) -> Iterator[Piece]:  # noqa: D102
        yield from gathered(self._batches(source, columns))

    @staticmethod
    def _batches(source: Source, columns: Columns) -> Iterator[Any]:
        ipc, whole = arrow("ipc"), source.stream.peek(6)[:6] == b"ARROW1"
        if whole and not source.plain:
            raise DataError("an Arrow file cannot be read from a pipe or a compressed stream; write an Arrow stream")
        with contextlib.ExitStack() as stack:
            if whole:
                remote = is_remote(source.path)
                file = stack.enter_context(opened(source.path) if remote else arrow().memory_map(source.path))
            reader = stack.enter_context(ipc.open_file(file) if whole else ipc.open_stream(source.stream))
            names = columns.chosen(reader.schema.names)
            for batch in map(reader.get_batch, range(reader.num_record_batches)) if whole else reader:
                yield batch.select(names)


class NPZ(Format):
    """NumPy's archive of arrays."""

    name: ClassVar[str] = "npz"
    title: ClassVar[str] = "NPZ"
    about: ClassVar[str] = "NumPy's archive of arrays of equal length"

    def begins(self, first: bytes) -> bool:  # noqa: D102
        return first.startswith((b"PK\x03\x04", b"PK\x05\x06"))  # a header of CSV may begin with PK

    def pieces(self, source: Source, columns: Columns, bad: Bad) -> Iterator[Piece]:  # noqa: D102
        yield from gathered(self._tables(source, columns))

    @staticmethod
    def _tables(source: Source, columns: Columns) -> Iterator[Any]:
        """Arrays in an archive are streams, read side by side; only arrays stored by columns are whole in memory."""
        with contextlib.ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(opened(source.path))))
            names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
            if not names and archive.namelist():
                if "[Content_Types].xml" in archive.namelist():
                    what = "write Parquet with pandas.read_excel(...).to_parquet(...)"
                    raise DataError(f"it is a workbook of Excel, or another document of Office; {what}")
                raise DataError("it is a ZIP archive without arrays; unpack it, or write NPZ with numpy.savez")
            streams = {name: _array_in(archive, name, stack) for name in columns.chosen(names)}
            lengths = {name: shape[0] for name, (_, _, shape) in streams.items()}
            if len(set(lengths.values())) > 1:
                raise DataError(f"the arrays differ in length: {lengths}")
            total = max(lengths.values(), default=0)
            for start in range(0, total, FEW):
                table = {}
                for name, (stream, dtype, shape) in streams.items():
                    part = (min(FEW, total - start), *shape[1:])
                    data = np.frombuffer(stream.read(math.prod(part) * dtype.itemsize), dtype)
                    if len(data) < math.prod(part):
                        raise EOFError("an array ends too early")
                    table[name] = array_of(data.reshape(part).astype(dtype.newbyteorder("="), copy=False))
                yield arrow().table(table)
            for name, (stream, _, shape) in streams.items():
                if stream.read(1):  # the CRC-32 is checked at its end: a header may announce too few rows
                    raise DataError(f"column {name!r} continues after its {shape[0]} rows")


def _array_in(archive: zipfile.ZipFile, name: str, stack: contextlib.ExitStack) -> tuple[Any, Any, tuple[int, ...]]:
    """An array of an archive: its stream after the header, its dtype and its shape."""
    form: Any = np.lib.format
    if archive.getinfo(f"{name}.npy").compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"column {name!r} is not packed as numpy.savez does")
    stream: Any = stack.enter_context(archive.open(f"{name}.npy"))
    first = form.read_magic(stream) == (1, 0)
    shape, by_columns, dtype = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(stream)
    if dtype.hasobject or not shape or min(shape) < 0:
        raise DataError(f"column {name!r} must be an array [n], or [n, k], not {list(shape)} of {dtype}")
    if by_columns:
        stream = io.BytesIO(np.frombuffer(stream.read(), dtype).reshape(shape, order="F").tobytes())
    return stream, dtype, shape
