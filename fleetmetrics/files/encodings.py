"""Text in any encoding as a stream in UTF-8."""

from __future__ import annotations

import codecs
import io
from typing import Any

from fleetmetrics.errors import DataError
from fleetmetrics.support.vocabulary import argument

__all__ = ["Decoded", "encoding_of", "likely_encoding"]

_CHUNK = 1 << 20
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def encoding_of(first: bytes, asked: str | None) -> str:
    """The encoding of a text that begins with these bytes: that of its byte order mark, the requested one, or UTF-8."""
    marked = next((name for mark, name in _MARKS if first.startswith(mark)), None)
    return marked or codecs.lookup(asked or "utf-8").name


def likely_encoding(data: bytes) -> str:
    """A likely encoding of bytes that are not UTF-8."""
    try:
        data.decode("gb18030")
        return "gb18030"
    except UnicodeDecodeError:
        return "latin-1"


class Decoded(io.RawIOBase):
    """A stream in UTF-8 of a text in another encoding; invalid bytes stay as they are.

    These are no UTF-8, so their row is at fault if a requested column holds them.

    Args:
        stream: the text.
        encoding: its encoding.
    """

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream, self._encoding, self._lines = stream, encoding, 0
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
        self._left, self._ended = b"", False

    def readable(self) -> bool:  # noqa: D102
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes; none at the end."""
        while not self._left and not self._ended:
            data = self._stream.read(_CHUNK)
            self._ended = not data
            self._left = self._recoded(data)
        wanted, self._left = self._left[:size], self._left[size:]
        return wanted

    def _recoded(self, data: bytes) -> bytes:
        """The next bytes in UTF-8."""
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            line = self._lines + error.object[: error.start].count(b"\n") + 1
            wrong = error.object[error.start : error.start + 8]
            what = f"line {line} holds {wrong!r}, which is no text in {self._encoding}"
            raise DataError(f"{what}; name the file's encoding: {argument('encoding', 'NAME')}") from None
        self._lines += text.count("\n")
        return text.encode("utf-8", "surrogateescape")
