"""The communicator of a launched job: a meeting around rank 0."""

from __future__ import annotations

import itertools
import json
from typing import Any, Sequence

import numpy as np

from fleetmetrics.comm.base import Block, Deadline
from fleetmetrics.comm.bulk import CHUNK_BYTES, gather_large, joined_payloads, reduce_large
from fleetmetrics.comm.columns import as_column, by_rank, decode, encode, join, ordinal
from fleetmetrics.comm.job import JobCommunicator
from fleetmetrics.comm.launch import Job
from fleetmetrics.comm.meeting import Meeting
from fleetmetrics.comm.member import Answer
from fleetmetrics.comm.packing import Layout, agree, combine_packed, describe, layout_of, pack, unpack
from fleetmetrics.comm.wire import Frame
from fleetmetrics.errors import AgreementError, IntegerOverflowError, InvalidInputError

__all__ = ["SocketCommunicator"]

# A frame's note: the payload comes in chunks, after the agreement; the header is that of a gather.
_DEFERRED, _GATHERS = 1, 2
_channels = itertools.count(1)


class SocketCommunicator(JobCommunicator):
    """The workers of one launched job, with or without Paddle.

    Everything goes over sockets of its own around rank 0: in one round trip if it fits into one chunk, else one
    for the agreement and then chunk by chunk. It connects at the first call.

    Args:
        job: where this process stands; None to read the launcher's environment.
        channel: sets several communicators of one job apart; None if every worker makes them in the same order.

    Raises:
        InvalidInputError, NoChannelError, ServerProcessError: as `Job.from_environment`.
    """

    _meeting: Meeting

    def __init__(self, job: Job | None = None, *, channel: str | None = None) -> None:
        self._job = job if job is not None else Job.from_environment()
        self.rank = self._job.rank
        self.world_size = self._job.world_size
        super().__init__(Meeting(self._job, channel or f"own {next(_channels)}"))

    def reduce(
        self,
        call: str,
        blocks: Sequence[Block],
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[np.ndarray]:
        """Reduce many states in one exchange; see `Communicator`."""
        deadline, trouble = self._begin(timeout, trouble)
        label = self._label(call)
        layout, arrays = describe(call, ()), []
        try:
            layout, arrays = describe(call, blocks), [block.array for block in blocks]
        except Exception as error:  # the others must hear of it, whatever it is
            trouble = trouble or error
        large = 8 * layout.size > CHUNK_BYTES
        answer = self._meeting.exchange(
            label,
            self._combine,
            deadline,
            header=layout.header,
            payload=b"" if large else _bytes(pack(layout, arrays)),
            note=_DEFERRED if large else 0,
            trouble=trouble,
        )
        if answer.header:  # the dtypes differ by rank, or the data are still to come
            layout = layout_of(answer.header)
        if not large:
            return unpack(layout, _words(answer.payload))
        promoted = [array.astype(dtype, copy=False) for array, dtype in zip(arrays, layout.dtypes)]
        return self._reduce_large(layout, promoted, label, deadline)

    def close(self) -> None:
        """Close the sockets; a second call does nothing."""
        self._meeting.close()

    def _combine(self, frames: Sequence[Frame]) -> Answer:
        self._check_kind(frames)
        layouts = [layout_of(frame.header) for frame in frames]
        agreed = agree(layouts, self._number)
        header = b"" if all(layout is agreed for layout in layouts) else agreed.header
        if frames[0].note & _DEFERRED:  # the shapes agree, so all or none of the frames are deferred
            return Answer(header, b"")
        words = [_words(frame.payload) for frame in frames]
        return Answer(header, _bytes(combine_packed(layouts, agreed, words)))

    def _check_kind(self, frames: Sequence[Frame]) -> None:
        if len({frame.note & ~_DEFERRED for frame in frames}) > 1:
            calls = by_rank(json.loads(frame.header)[0] for frame in frames)
            raise AgreementError(f"the workers disagree at their {ordinal(self._number)} exchange: {calls}.")

    def _reduce_large(
        self, layout: Layout, arrays: Sequence[np.ndarray], label: str, deadline: Deadline
    ) -> list[np.ndarray]:
        results = []
        for name, reduction, array in zip(layout.names, layout.reductions, arrays):
            try:
                flat = reduce_large(self._meeting, array.reshape(-1), reduction, label, deadline)
            except IntegerOverflowError as error:
                raise IntegerOverflowError(f"{layout.call}, state {name!r}: {error}") from None
            results.append(flat.reshape(array.shape))
        return results

    def _gather(self, call: str, array: Any, source: int | None, timeout: float | None) -> list[np.ndarray]:
        deadline, trouble = self._begin(timeout, None)
        label = self._label(call)
        column = np.empty(0)
        try:
            if source is not None and source not in range(self.world_size):
                raise InvalidInputError(f"source is {source!r}; it must be a rank from 0 to {self.world_size - 1}.")
            if source in (None, self.rank):
                column = as_column(array)
        except Exception as error:  # the others must hear of it, whatever it is
            trouble = trouble or error
        header, data = encode(call, source, column)
        large = len(data) > CHUNK_BYTES
        answer = self._meeting.exchange(
            label,
            self._join,
            deadline,
            header=header,
            payload=b"" if large else data,
            note=_GATHERS | (_DEFERRED if large else 0),
            trouble=trouble,
        )
        verdict = json.loads(answer.header)
        if verdict["large"]:
            parts = gather_large(self._meeting, data, verdict["sizes"], label, deadline)
        else:
            parts = np.split(np.frombuffer(answer.payload, np.uint8), np.cumsum(verdict["sizes"])[:-1])
        return decode(verdict, parts)

    def _join(self, frames: Sequence[Frame]) -> Answer:
        self._check_kind(frames)
        verdict = join([frame.header for frame in frames], self._number)
        large = any(frame.note & _DEFERRED for frame in frames)
        payload = b"" if large else joined_payloads(frames).payload
        return Answer(json.dumps({**verdict, "large": large}).encode(), payload)


def _bytes(array: np.ndarray) -> Any:
    return array.data.cast("B") if array.size else b""


def _words(payload: Any) -> np.ndarray:
    return np.frombuffer(payload, np.int64) if len(payload) else np.empty(0, np.int64)
