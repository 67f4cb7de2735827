"""Formats that are not read: their names by their first bytes, and the way out."""

from __future__ import annotations

import re
import struct

from fleetmetrics.errors import DataError
from fleetmetrics.support.vocabulary import argument

__all__ = ["check_binary", "check_text"]

#: The first bytes of data, and the advice for them; only where a NUL byte is near, if the bytes can begin a text.
_MAGIC = (
    (b"\x93NUMPY", "it is a single array (.npy); write the columns together with numpy.savez"),
    (b"\x89HDF\r\n", "it is HDF5; write Parquet with pandas.read_hdf(...).to_parquet(...)"),
    (b"Obj\x01", "it is Avro; write Parquet, such as with fastavro and pyarrow"),
    (b"\xd0\xcf\x11\xe0", "it is a workbook of Excel; write Parquet with pandas.read_excel(...).to_parquet(...)"),
    (b"SQLite format 3\0", "it is a database of SQLite; write Parquet with pandas.read_sql(...).to_parquet(...)"),
    (b"SEQ\x06", "it is a SequenceFile of Hadoop; write Parquet with Spark"),
    (b"RCF\x01", "it is an RCFile of Hadoop; write Parquet with Spark"),
    (b"MATLAB 5.0 MAT", "it is a file of MATLAB; write the columns with scipy.io.loadmat and numpy.savez"),
    (b"\x04\x22\x4d\x18", "it is packed with LZ4; unpack it, or pack it with zstd or gzip"),
    (b"\xff\x06\0\0sNaPpY", "it is packed with Snappy; unpack it, or pack it with zstd or gzip"),
    (b"7z\xbc\xaf\x27\x1c", "it is a 7-Zip archive; unpack it"),
    (b"Rar!\x1a\x07", "it is a RAR archive; unpack it"),
    (b"PFA1", "it is a Puffin file of an Iceberg table; name the table's folder"),
    (b"%PDF-", "it is PDF; write CSV or Parquet"),
)
_ORC = "it is ORC; write Parquet with pyarrow.orc and pyarrow.parquet"
_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its bits in reverse


def check_binary(first: bytes) -> None:
    """Raise DataError for data that begin as those of a known format do that is not read.

    Args:
        first: the first bytes, as many as there are up to a mebibyte.
    """
    for magic, what in _MAGIC:
        if first.startswith(magic):
            raise DataError(what)
    if first.startswith(b"ORC") and b"\0" in first:
        raise DataError(_ORC)
    if first[257:262] == b"ustar":
        raise DataError("it is a tar archive; unpack it")
    if first[:1] == b"\x80" and first[1:2] in (b"\2", b"\3", b"\4", b"\5"):
        raise DataError(
            "it is a pickle, which can run any code; write Parquet with pandas.read_pickle(...).to_parquet(...)"
        )
    if _is_of_tensorflow(first):
        raise DataError("it holds TFRecords; write their predictions and labels as Parquet, CSV or JSON Lines")


def check_text(first: bytes, known: str) -> None:
    """Raise DataError for text that is no table.

    Args:
        first: the first bytes of text in UTF-8.
        known: the formats that are read, in words.
    """
    if re.match(rb"\s*\[\s*[\[{]", first):
        raise DataError("it is a JSON array, not JSON Lines; convert it: jq -c '.[]' FILE")
    if re.match(rb"\s*<(?:!doctype\s+html|html|head|body|!--)", first, re.IGNORECASE):
        raise DataError("it is HTML, perhaps an error page instead of a download; get the file itself")
    if re.match(rb"\s*<\?xml", first):
        raise DataError("it is XML; write CSV or Parquet, such as with pandas.read_xml(...).to_parquet(...)")
    if first.lstrip()[:1] == b"{" and b'"format-version"' in first and b'"table-uuid"' in first:
        raise DataError("it is the metadata of an Iceberg table; name the table's folder")
    if b"\0" in first and _is_binary(first):
        odd = first[1:200:2].count(0) > 40 or first[0:200:2].count(0) > 40
        little = first[1:200:2].count(0) > first[0:200:2].count(0)
        encoding = argument("encoding", "utf-16-le" if little else "utf-16-be")
        how = f"; if it is UTF-16 without a byte order mark, write UTF-8, or give {encoding}" if odd else ""
        raise DataError(f"it begins with {first[:8]!r}; known formats are {known}{how}")


def _is_binary(first: bytes) -> bool:
    """Whether data with NUL bytes are no text in which a crash has left some lines of them."""
    begin, *lines = first.split(b"\n")
    rest = b"".join(line for line in lines if b"\0" not in line)
    return b"\0" in begin or not rest.strip() or re.search(rb"[\x04-\x08\x0b\x0e-\x1b]", begin + rest) is not None


def _is_of_tensorflow(first: bytes) -> bool:
    """Whether data begin with the length of a record, eight bytes, and their masked CRC-32C."""
    if len(first) < 12 or first[7]:  # the highest byte of a length is 0
        return False
    register = 0xFFFFFFFF
    for byte in first[:8]:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (_POLYNOMIAL if register & 1 else 0)
    code = register ^ 0xFFFFFFFF
    masked = ((code >> 15 | code << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.unpack("<I", first[8:12])[0] == masked
