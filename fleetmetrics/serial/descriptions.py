"""What travels through the channel: states and their keys, and the letters that carry them.

The channel is `fleetmetrics.comm`, which metrics import only when they compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Sequence, Tuple, Union

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers.reductions import REDUCTIONS

__all__ = ["BY", "KEYS", "STATE_DTYPES", "Block", "Buffer", "Decide", "Entry", "Letter", "Payload", "RowKeys", "joined"]

STATE_DTYPES = {np.dtype(name): name for name in ("int64", "float64")}  # NumPy takes 10 us to name a dtype
#: In a layout, the first replaces the reduction of keys, and the second joins a reduction and its keys.
KEYS, BY = "keys", " by "

Buffer = Union[bytes, bytearray, memoryview]
# Data to send may be in pieces; data that has arrived is one buffer.
Payload = Union[Buffer, Sequence[Buffer]]

#: One state in a layout: name, reduction, dtype, shape.
Entry = Tuple[str, str, str, Tuple[int, ...]]


def joined(payload: Payload) -> Buffer:
    """Return a payload in one buffer."""
    return b"".join(payload) if isinstance(payload, (list, tuple)) else payload  # type: ignore[return-value]


class Letter(NamedTuple):
    """What a worker sends to `Communicator.consult`, and what it gets back.

    Args:
        note: a description, fit for JSON; text is the cheapest.
        payload: bytes; one buffer or a list of buffers to send, one buffer on arrival.
    """

    note: Any
    payload: Any = b""


#: Takes the workers' letters by rank and returns the answer; runs on rank 0 only.
Decide = Callable[[Sequence[Letter]], Letter]


class Block:
    """One state on its way through the channel.

    Args:
        name: the name in errors.
        reduction: "sum", "max" or "min".
        array: int64 or float64, of any shape.
        keys: the name of its `RowKeys`: it has a row for each key, and a last row for all other keys; empty: it has no
            keys, and the same shape on every worker.

    Raises:
        InvalidInputError: for another reduction or dtype.

    Examples:
        >>> Block("correct", "sum", np.array([3])).name
        'correct'
    """

    array: np.ndarray
    fresh: bool
    keys: str
    name: str
    reduction: str

    __slots__ = ("array", "entry", "fresh", "keys", "name", "reduction")

    def __init__(self, name: str, reduction: str, array: np.ndarray, keys: str = "") -> None:
        if reduction not in REDUCTIONS:
            allowed = ", ".join(REDUCTIONS)
            raise InvalidInputError(f"state {name!r}: reduction is {reduction!r}; allowed are {allowed}")
        dtype = STATE_DTYPES.get(array.dtype) if isinstance(array, np.ndarray) else None
        if dtype is None:
            kind = getattr(array, "dtype", type(array).__name__)
            raise InvalidInputError(f"state {name!r} is {kind}; a state is a NumPy array, int64 or float64")
        self.name, self.reduction, self.array, self.keys = name, reduction, array, keys
        #: Whether no other object holds the array.
        self.fresh = False
        #: Its description in a layout; for rows by key, that of one row.
        self.entry: Entry = (name, reduction, dtype, array.shape)
        if keys:
            self.entry = (name, f"{reduction}{BY}{keys}", dtype, array.shape[1:])


@dataclass
class RowKeys:
    """The keys of a worker for which some blocks have rows; all workers get the union.

    Args:
        name: the name in errors.
        array: integers or strings, sorted, each once.
        limit: the number of keys to keep, the smallest.
    """

    name: str
    array: np.ndarray
    limit: int

    @property
    def entry(self) -> Entry:
        """Its description in a layout."""
        return self.name, KEYS, "int64", (self.limit,)
