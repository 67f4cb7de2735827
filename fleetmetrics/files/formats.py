"""The table of formats, the source of the help and the guide; files are read piece by piece, as Arrow tables."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import io
import lzma
import re
import struct
import sys
import zipfile
import zlib
from typing import Any, Callable, Generator

from fleetmetrics.dataframes import Columns, arrow
from fleetmetrics.errors import DataError, FleetMetricsError
from fleetmetrics.files.binary import NPZ, Arrow, Parquet
from fleetmetrics.files.lake_tables import TableFile
from fleetmetrics.files.lines import CSV, HEAD, JSONLines
from fleetmetrics.files.places import end_of, opened
from fleetmetrics.files.row_pieces import Bad, Format, Piece, Source, gathered
from fleetmetrics.vocabulary import argument

__all__ = ["FORMATS", "THREADS", "known_formats", "piece_of", "pieces_of", "read_ahead", "rows_of"]

#: The number of files that a first pass reads at a time; pyarrow and NumPy work in parallel with Python.
THREADS = 2

#: In the order in which they are tried; anything else is CSV.
FORMATS: dict[str, Format] = {each.name: each for each in (Parquet(), NPZ(), Arrow(), JSONLines(), CSV())}
#: The errors of zipfile, zlib and lzma for broken, encrypted or unsupported data.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, KeyError, OverflowError, RuntimeError, lzma.LZMAError)
#: The first bytes of unsupported data, and the advice for them.
_FOREIGN = (
    (b"\x93NUMPY", "it is a single array (.npy); write the columns together with numpy.savez"),
    (b"\x89HDF", "it is HDF5; write Parquet with pandas.read_hdf(...).to_parquet(...)"),
    (b"ORC", "it is ORC; write Parquet with pyarrow.orc and pyarrow.parquet"),
    (b"Obj\x01", "it is Avro; write Parquet"),
    (b"7z\xbc\xaf", "it is a 7-Zip archive; unpack it"),
)


def known_formats() -> str:
    """The names of the known formats, for errors and help."""
    *titles, last = [each.title for each in (FORMATS[name] for name in ("parquet", "csv", "jsonl", "npz", "arrow"))]
    return f"{', '.join(titles)} and {last}"


def pieces_of(path: str, format: str | None, columns: Columns, bad: Bad) -> Generator[Piece, None, None]:
    """The rows of a file, about a million at a time, each column in one chunk.

    Args:
        path: the file, or its URL; "-": the standard input.
        format: one of `FORMATS`; None: detected from the first bytes.
        columns: the requested columns.
        bad: receives each bad row.

    Raises:
        DataError: the file lacks a column, or cannot be read.
    """
    pa, kind, columns = arrow(), format, columns.within(path)
    try:
        if isinstance(path, TableFile):
            columns.understand("table", path.table.in_words())
            yield from (_ready(piece, columns) for piece in gathered(path.batches(columns.chosen)))
            return
        with contextlib.ExitStack() as stack:
            source = _unpacked(path, stack)
            first = source.stream.peek()
            if not first:
                raise DataError("it is empty")
            known = FORMATS[kind] if kind else _format(first)
            kind = known.name
            if not (known.streams or source.plain):
                raise DataError(f"{kind} cannot be read from a pipe or a compressed stream; give a plain file")
            if columns.reading.header is not None and kind != "csv":
                raise DataError(
                    f"{argument('columns')} names the columns of CSV without a header; this is {known.title}"
                )
            for piece in known.pieces(source, columns, bad):
                yield _ready(piece, columns)
    except (pa.ArrowException, OSError, EOFError, ValueError, *_BROKEN) as error:
        if isinstance(error, FleetMetricsError):
            raise
        told = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        raise DataError(f"it cannot be read{f' as {kind}' if kind else ''}: {told.splitlines()[0]}") from None


def piece_of(table: Any, columns: Columns, start: int = 0) -> Piece:
    """Rows of a data frame as a piece.

    Args:
        table: of Arrow, perhaps with more columns.
        columns: the requested columns.
        start: the number of the first row.
    """
    return _ready(Piece(table.select(columns.chosen(table.column_names)), start), columns)


def read_ahead(source: Any, format: str | None, columns: Columns) -> Generator[Piece, None, None]:
    """The rows of a file or an Arrow table for a first pass; the next pass reports bad rows.

    Args:
        source: the path of a file, or an Arrow table.
        format: of the file, or None.
        columns: the requested columns.
    """
    if not isinstance(source, str):
        yield piece_of(source, columns)
        return
    with contextlib.closing(pieces_of(source, format, columns, lambda text: None)) as pieces:
        yield from pieces


def _ready(piece: Piece, columns: Columns) -> Piece:
    """A piece with the requested columns, and without rows that the condition excludes."""
    piece = piece._replace(table=columns.ready(piece.table))
    condition = columns.reading.condition
    if condition is not None and len(piece.table):
        flags = condition.flags(piece.table)
        if not flags.all():
            piece = piece.taken(flags)._replace(left_out=int((~flags).sum()))
    common = columns.joined(piece.table)
    if common is not None and not common.all():
        piece = piece.taken(common)._replace(unmatched=int((~common).sum()))
    return piece._replace(table=piece.table.drop_columns(columns.looked_at)) if columns.looked_at else piece


def rows_of(path: str) -> int:
    """The number of rows of a file, estimated from its size if the file has no count."""
    with opened(path) as file:
        first = file.read(6)
        if first.startswith(b"PAR1"):
            return int(arrow("parquet").read_metadata(file).num_rows)
        return end_of(file) // (4 if _packed(first) else 16)


def _unpacked(path: str, stack: contextlib.ExitStack) -> Source:
    """A file, unpacked; text with a byte order mark as UTF-8 without the mark."""
    file: Any = sys.stdin.buffer if path == "-" else stack.enter_context(opened(path))
    stream: Any = io.BufferedReader(_Full(file), HEAD)  # this leaves the file open: it may be the standard input
    packed, plain = _packed(stream.peek(6)), path != "-"
    if packed:
        stream, plain = io.BufferedReader(_Full(packed(stream)), HEAD), False
    first = stream.peek()
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        recoded = arrow().transcoding_input_stream(arrow().PythonFile(stream, "r"), "utf-16", "utf-8")
        stream, plain = io.BufferedReader(_Full(recoded), HEAD), False
        first = stream.peek()
    if first.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
    return Source(stream, path, plain)


def _packed(first: bytes) -> Callable[[Any], Any] | None:
    """The unpacker for a file that begins with these bytes; None: it is not packed."""

    def by_arrow(name: str) -> Callable[[Any], Any]:
        return lambda stream: arrow().CompressedInputStream(arrow().PythonFile(stream, "r"), name)

    if first.startswith(b"BZh") and first[4:6] == b"1A":
        return bz2.BZ2File
    if first.startswith(b"\xfd7zXZ"):
        return lzma.LZMAFile
    if first.startswith(b"\x1f\x8b"):
        return by_arrow("gzip")
    return by_arrow("zstd") if first.startswith(b"\x28\xb5\x2f\xfd") else None


class _Full(io.RawIOBase):
    """Reads until it has all requested bytes or the data end, so that a head is as long as possible."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        view, size = memoryview(room).cast("B"), 0
        while size < len(view):
            data = self._file.read(len(view) - size)
            if not data:
                break
            view[size : size + len(data)] = data
            size += len(data)
        return size


def _format(first: bytes) -> Format:
    """The format of data that begin with these bytes."""
    if re.match(rb"\s*\[\s*[\[{]", first):
        raise DataError("it is a JSON array, not JSON Lines; convert it: jq -c '.[]' FILE")
    for magic, what in _FOREIGN:
        if first.startswith(magic) and b"\0" in first:
            raise DataError(what)
    found = next(each for each in FORMATS.values() if each.begins(first))
    if found.name in ("csv", "jsonl") and b"\0" in first:
        odd = first[1:200:2].count(0) > 40 or first[0:200:2].count(0) > 40
        how = "; if it is UTF-16 without a byte order mark, write UTF-8" if odd else ""
        raise DataError(f"it begins with {first[:8]!r}; known formats are {known_formats()}{how}")
    return found
