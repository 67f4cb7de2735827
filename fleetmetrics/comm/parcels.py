"""Letters as bytes, letters inside letters, and letters of other workers, which are read with care."""

from __future__ import annotations

import json
from typing import Callable, Iterable, Sequence, TypeVar

import numpy as np

from fleetmetrics.comm.descriptions import Buffer, Letter, joined
from fleetmetrics.comm.failures import by_a_handler, fit_cause, ranks_text, readable
from fleetmetrics.errors import CommunicatorError, FleetMetricsError, RecordError

__all__ = ["LETTER_UNIT", "divided", "letter_in", "read_each", "split", "written"]

#: The size of a letter outside a message is a multiple of this number of bytes.
LETTER_UNIT = 16
_Read = TypeVar("_Read")
_Given = TypeVar("_Given")


def read_each(given: Iterable[_Given], read: Callable[[_Given], _Read], first: int = 0) -> list[_Read]:
    """Read the letters of the workers, from this rank on, and name the worker whose letter cannot be read."""
    letters = []
    for rank, one in enumerate(given, first):
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
    given = np.frombuffer(data if isinstance(data, memoryview) else bytearray(data), np.uint8)
    note, payload = given[:LETTER_UNIT].view(np.int64).tolist()
    start = LETTER_UNIT + note + -note % LETTER_UNIT
    if min(note, payload) < 0 or start + payload + -payload % LETTER_UNIT != len(given):
        raise ValueError(f"{len(given)} bytes, but a letter has {start + payload}")
    return Letter(json.loads(given[LETTER_UNIT : LETTER_UNIT + note].tobytes()), given[start : start + payload].data)
