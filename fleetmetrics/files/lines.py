"""Lines of text: the first ones of a file, and blocks of whole ones."""

from __future__ import annotations

from typing import Any, Iterator, NamedTuple

from fleetmetrics.files.row_pieces import Bad
from fleetmetrics.support.vocabulary import counted

__all__ = ["HEAD", "blocks_of", "head_of", "is_all_head"]

#: The bytes of text to read at once; the first bytes, which decide the format and types.
_BLOCK, HEAD = 1 << 24, 1 << 20


class _Block(NamedTuple):
    """Whole lines."""

    text: bytes
    before: int  #: the number of lines before them
    ends: int  #: the number of line feeds


def head_of(stream: Any) -> bytes:
    """The head of a file without its last, incomplete line, and without lines with NUL bytes."""
    first: bytes = stream.peek()[:HEAD]
    first = first[: first.rindex(b"\n") + 1] if len(first) >= HEAD and b"\n" in first else first
    return _without_nul(first, 0, lambda text: None)


def is_all_head(stream: Any) -> bool:
    """Whether a file ends within its head."""
    return len(stream.peek()) < HEAD


def blocks_of(stream: Any, bad: Bad) -> Iterator[_Block]:
    """Blocks of whole lines, without empty blocks; lines with NUL bytes are bad, and empty here."""
    lines = 0
    for block in iter(lambda: stream.read(_BLOCK) + stream.readline(), b""):
        text, ends = _without_nul(block, lines, bad), block.count(b"\n")
        if text and not text.isspace():
            yield _Block(text, lines, ends)
        lines += ends


def _without_nul(block: bytes, before: int, bad: Bad) -> bytes:
    """Lines, of which those with NUL bytes, as a crash leaves them, are empty."""
    if b"\0" not in block:
        return block
    lines = block.split(b"\n")
    for place, line in enumerate(lines):
        if b"\0" in line:
            bad(f"line {before + place + 1}: it holds {counted(line.count(0), 'NUL bytes')}")
            lines[place] = b""
    return b"\n".join(lines)
