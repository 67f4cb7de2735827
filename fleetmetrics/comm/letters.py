"""Letters as bytes: in a message, inside letters, and those of other workers, which are read with care."""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Callable, Iterable, Sequence, TypeVar

import numpy as np

from fleetmetrics.comm.failures import by_a_handler, fit_cause, in_words, ranks_text, readable
from fleetmetrics.errors import CommunicatorError, FleetMetricsError, RecordError
from fleetmetrics.serial.descriptions import Buffer, Letter, joined

__all__ = [
    "HEADER_LIMIT",
    "LETTER_UNIT",
    "body_of",
    "check_size",
    "divided",
    "header_of",
    "label_of",
    "letter_in",
    "note_in",
    "read_each",
    "split",
    "written",
]

#: The most bytes of a message's header.
HEADER_LIMIT = 2**26
#: The size of a letter outside a message is a multiple of this number of bytes.
LETTER_UNIT = 16
_LINE_BREAKS = re.compile(r"[\r\n]")
_Read = TypeVar("_Read")
_Given = TypeVar("_Given")


def read_each(all_letters: Iterable[_Given], read: Callable[[_Given], _Read], first: int = 0) -> list[_Read]:
    """Read the letters of the workers, from this rank on, and name the worker whose letter cannot be read."""
    letters = []
    for rank, one in enumerate(all_letters, first):
        try:
            letters.append(read(one))
        except RecordError as error:
            text = f"the message from {ranks_text([rank])} cannot be read: {readable(str(error))}"
            raise RecordError(text) from fit_cause(error)
        except FleetMetricsError:
            raise
        except Exception as error:
            if by_a_handler(error):
                raise
            why = readable(f"{type(error).__name__}: {error}")
            raise CommunicatorError(
                f"the message from {ranks_text([rank])} cannot be read ({why}); do all workers run the same version "
                "of fleetmetrics?"
            ) from fit_cause(error)
    return letters


def split(data: Buffer, sizes: Sequence[int]) -> list[np.ndarray]:
    """Cut a buffer into parts of these sizes, in bytes; ValueError if it is not as long."""
    if any(size < 0 for size in sizes) or sum(sizes) != len(data):
        raise ValueError(f"{len(data)} bytes, but there are {sum(sizes)}")
    return np.split(np.frombuffer(data, np.uint8), np.cumsum(sizes)[:-1])


def divided(letter: Letter, number: int) -> list[Letter]:
    """The letters inside a letter whose note has their notes and sizes; otherwise ValueError."""
    notes, sizes = zip(*letter.note)
    if len(notes) != number:
        raise ValueError(f"{len(notes)} parts, but there are {number}")
    return [Letter(note, part.data) for note, part in zip(notes, split(joined(letter.payload), sizes))]


def written(letter: Letter) -> list[Buffer]:
    """A letter as bytes, a multiple of `LETTER_UNIT`; `letter_in` reads it."""
    note, payload = json.dumps(letter.note).encode(), letter.payload
    buffers = list(payload) if isinstance(payload, (list, tuple)) else [payload]
    size = sum(map(len, buffers))
    head = np.array([len(note), size]).tobytes()
    return [head, note, bytes(-len(note) % LETTER_UNIT), *buffers, bytes(-size % LETTER_UNIT)]


def letter_in(data: Buffer) -> Letter:
    """The letter in these bytes, with a writable view as payload; ValueError for anything else."""
    parcel = np.frombuffer(data if isinstance(data, memoryview) else bytearray(data), np.uint8)
    note, payload = parcel[:LETTER_UNIT].view(np.int64).tolist()
    start = LETTER_UNIT + note + -note % LETTER_UNIT
    if min(note, payload) < 0 or start + payload + -payload % LETTER_UNIT != len(parcel):
        raise ValueError(f"{len(parcel)} bytes, but a letter has {start + payload}")
    return Letter(json.loads(parcel[LETTER_UNIT : LETTER_UNIT + note].tobytes()), parcel[start : start + payload].data)


# The header of a message with a letter


def header_of(fold: str, ranks: Sequence[int], title: str, call: str, note: Any) -> bytes:
    """The header of a message with a letter: four lines, then the note as JSON, or unchanged if it is a string."""
    return _lines(fold, tuple(ranks), title, call) + body_of(note)


@functools.lru_cache(maxsize=256)
def _lines(fold: str, ranks: tuple[int, ...], title: str, call: str) -> bytes:
    lines = fold, json.dumps(ranks), title, call
    return "".join(f"{_LINE_BREAKS.sub(' ', line)}\n" for line in lines).encode("utf-8", "surrogatepass")


def body_of(note: Any) -> bytes:
    """The note as `note_in` reads it."""
    if note is None:
        return b""
    body = f"text {note}" if isinstance(note, str) else f"json {json.dumps(note)}"
    return body.encode("utf-8", "surrogatepass")


def note_in(body: str) -> Any:
    """The note, as `header_of` has written it."""
    if not body:
        return None
    return body[5:] if body.startswith("text ") else json.loads(body[5:])


def check_size(header: bytes) -> None:
    """Raise if the other workers would refuse such a header."""
    if len(header) > HEADER_LIMIT:
        raise CommunicatorError(
            f"what describes the call's data has {len(header):,} bytes, and may have {HEADER_LIMIT:,}; pass large data "
            "as arrays, or in several calls"
        )


def label_of(number: int, call: str, group: tuple[int, ...]) -> str:
    """The name of an exchange in errors."""
    return f"exchange {number} ({call})" + (f" in the group of {in_words(group)}" if group else "")
