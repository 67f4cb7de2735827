"""Large arrays, chunk by chunk over rank 0, after a meeting in which all workers agreed.

Paddle's Gloo was measured beside this and left out. With 2 and 4 workers on one machine it was slower at almost every
size from 64 KB to 64 MB, it takes three seconds to start, gives up after 30 s whatever the deadline, and an exact sum
of floats needs everybody's values in one place anyway.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from fleetmetrics.comm.base import Deadline
from fleetmetrics.comm.meeting import Meeting
from fleetmetrics.comm.member import Answer
from fleetmetrics.comm.wire import Buffer, Frame
from fleetmetrics.numbers import combine

__all__ = ["CHUNK_BYTES", "gather_large", "reduce_large"]

# Measured: larger chunks outgrow the sockets' buffers and the cache, and take longer per byte.
CHUNK_BYTES = 2**19


def reduce_large(meeting: Meeting, array: np.ndarray, reduction: str, label: str, deadline: Deadline) -> np.ndarray:
    """Reduce a flat array that is of the same length and dtype on every worker.

    Args:
        meeting: the workers' meeting.
        array: int64 or float64.
        reduction: "sum", "max" or "min".
        label: what the workers do, for errors.
        deadline: until when to wait.
    """

    def reduced(frames: Sequence[Frame]) -> Answer:
        parts = [_widened(frame.payload, frame.header, array.dtype) for frame in frames]
        return Answer(*_narrowed(combine(reduction, parts)))

    result = np.empty_like(array)
    step = CHUNK_BYTES // array.itemsize
    for start in range(0, len(array), step):
        header, payload = _narrowed(array[start : start + step])
        answer = meeting.exchange(label, reduced, deadline, header=header, payload=payload)
        result[start : start + step] = _widened(answer.payload, answer.header, array.dtype)
    return result


def _narrowed(array: np.ndarray) -> tuple[bytes, memoryview]:
    """The array's bytes, integers in the narrowest type that holds them, and its name: counts are mostly small."""
    if array.dtype == np.int64:
        low, high = array.min(), array.max()
        for narrow in (np.int16, np.int32):
            if np.iinfo(narrow).min <= low and high <= np.iinfo(narrow).max:
                array = array.astype(narrow)
                break
    return array.dtype.str.encode(), array.data.cast("B")


def _widened(payload: Buffer, name: bytes, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(payload, np.dtype(name.decode())).astype(dtype, copy=False)


def gather_large(
    meeting: Meeting, data: bytes, sizes: Sequence[int], label: str, deadline: Deadline
) -> list[np.ndarray]:
    """Return every worker's bytes.

    Args:
        meeting: the workers' meeting.
        data: this worker's.
        sizes: how many bytes each rank has.
        label: what the workers do, for errors.
        deadline: until when to wait.

    Returns:
        uint8 arrays by rank.
    """
    results = [np.empty(size, np.uint8) for size in sizes]
    for start in range(0, max(sizes), CHUNK_BYTES):
        chunk = memoryview(data)[start : start + CHUNK_BYTES]
        joined = np.frombuffer(meeting.exchange(label, joined_payloads, deadline, payload=chunk).payload, np.uint8)
        for result in results:
            part = result[start : start + CHUNK_BYTES]
            part[:], joined = joined[: len(part)], joined[len(part) :]
    return results


def joined_payloads(frames: Sequence[Frame]) -> Answer:
    """Put the payloads one after the other."""
    return Answer(b"", b"".join(frame.payload for frame in frames))
