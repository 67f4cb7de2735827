"""The table of formats, the source of the help and the guide; files are read piece by piece, as Arrow tables."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import io
import lzma
import struct
import sys
import zipfile
import zlib
from typing import Any, Callable, Generator

from fleetmetrics.columns.arrow_values import arrow
from fleetmetrics.columns.frames import Columns
from fleetmetrics.errors import DataError, FleetMetricsError
from fleetmetrics.files.binary import NPZ, Arrow, Parquet
from fleetmetrics.files.encodings import Decoded, encoding_of
from fleetmetrics.files.foreign import check_binary, check_text
from fleetmetrics.files.json_lines import JSONLines
from fleetmetrics.files.lake_tables import TableFile
from fleetmetrics.files.libsvm import LibSVM
from fleetmetrics.files.lines import HEAD
from fleetmetrics.files.places import end_of, opened
from fleetmetrics.files.row_pieces import Bad, Format, Piece, Source, gathered
from fleetmetrics.files.separated import CSV
from fleetmetrics.support.vocabulary import argument

__all__ = ["FORMATS", "THREADS", "counted_rows_of", "known_formats", "piece_of", "pieces_of", "read_ahead", "rows_of"]

#: The number of files that a first pass reads at a time; pyarrow and NumPy work in parallel with Python.
THREADS = 2

#: In the order in which they are tried; anything else is CSV.
FORMATS: dict[str, Format] = {kind.name: kind for kind in (Parquet(), NPZ(), Arrow(), JSONLines(), LibSVM(), CSV())}
#: The errors of zipfile, zlib and lzma for broken, encrypted or unsupported data.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, KeyError, OverflowError, RuntimeError, lzma.LZMAError)


def known_formats() -> str:
    """The names of the known formats, for errors and help."""
    *titles, last = [FORMATS[name].title for name in ("parquet", "csv", "jsonl", "libsvm", "npz", "arrow")]
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
    pa, kind, columns = arrow(), format or columns.reading.format, columns.within(path)
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
            known = FORMATS[kind] if kind else _binary(first)
            if known is None or known.is_text:
                source = _in_utf8(source, columns)
                known = known or _text(source.stream.peek())
            kind = known.name
            if columns.reading.null:
                columns.understand("null", ", ".join(columns.reading.null))
            if not (known.streams or source.plain):
                raise DataError(f"{kind} cannot be read from a pipe or a compressed stream; give a plain file")
            if kind == "libsvm":
                columns.understand("format", known.title)
            if columns.reading.header is not None and kind != "csv":
                raise DataError(
                    f"{argument('columns')} names the columns of CSV without a header; this is {known.title}"
                )
            for piece in known.pieces(source, columns, bad):
                yield _ready(piece, columns)
    except (pa.ArrowException, OSError, EOFError, ValueError, *_BROKEN) as error:
        if isinstance(error, FleetMetricsError):
            raise
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        raise DataError(f"it cannot be read{f' as {kind}' if kind else ''}: {reason.splitlines()[0]}") from None


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


def counted_rows_of(path: str) -> int | None:
    """The number of rows of a file that has their count: Parquet; None: it has none, or is the standard input."""
    if path == "-":
        return None
    with opened(path) as file:
        return int(arrow("parquet").read_metadata(file).num_rows) if file.read(4) == b"PAR1" else None


def rows_of(path: str) -> int:
    """The number of rows of a file, estimated from its size if the file has no count."""
    counted = counted_rows_of(path)
    if counted is not None:
        return counted
    with opened(path) as file:
        first = file.read(6)
        return end_of(file) // (4 if _packed(first) else 16)


def _unpacked(path: str, stack: contextlib.ExitStack) -> Source:
    """A file, unpacked."""
    file: Any = sys.stdin.buffer if path == "-" else stack.enter_context(opened(path))
    stream: Any = io.BufferedReader(_Full(file), HEAD)  # this leaves the file open: it may be the standard input
    packed, plain = _packed(stream.peek(6)), path != "-"
    if packed:
        stream, plain = io.BufferedReader(_Full(packed(stream)), HEAD), False
    return Source(stream, path, plain)


def _in_utf8(source: Source, columns: Columns) -> Source:
    """A file of text as UTF-8 without a byte order mark."""
    first = source.stream.peek()
    encoding = encoding_of(first, columns.reading.encoding)
    if encoding == "utf-8-sig":
        source.stream.read(len(codecs.BOM_UTF8))
    elif encoding != "utf-8":
        columns.understand("encoding", encoding)
        return source._replace(stream=io.BufferedReader(_Full(Decoded(source.stream, encoding)), HEAD), plain=False)
    return source


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


def _binary(first: bytes) -> Format | None:
    """The format of data that begin with these bytes; None: text."""
    binary = next((format for format in FORMATS.values() if not format.is_text and format.begins(first)), None)
    if binary is None:
        check_binary(first)
    return binary


def _text(first: bytes) -> Format:
    """The format of a text that begins with these bytes."""
    check_text(first, known_formats())
    return next(format for format in FORMATS.values() if format.is_text and format.begins(first))
