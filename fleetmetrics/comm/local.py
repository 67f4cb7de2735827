"""The communicator of a job with one worker."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fleetmetrics.comm.base import Block, Communicator, resolve_timeout
from fleetmetrics.comm.columns import as_column
from fleetmetrics.comm.letters import Decide, Letter, joined
from fleetmetrics.comm.wire import Payload
from fleetmetrics.errors import CommunicatorError, InvalidInputError
from fleetmetrics.numbers import combine

__all__ = ["LocalCommunicator"]


class LocalCommunicator(Communicator):
    """One process alone: checks its arguments as the others do, and gives copies back.

    Examples:
        >>> with LocalCommunicator() as comm:
        ...     comm.all_reduce([1.5, 2.0])
        array([1.5, 2. ])
    """

    rank = 0
    world_size = 1

    def __init__(self) -> None:
        self._closed = False

    def reduce(
        self,
        call: str,
        blocks: Sequence[Block],
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[np.ndarray]:
        """Return copies of the blocks' arrays; see `Communicator`."""
        self._check(timeout)
        if trouble is not None:
            raise trouble
        return [combine(block.reduction, [block.array]) for block in blocks]

    def all_gather(self, array: Any, *, timeout: float | None = None) -> list[np.ndarray]:
        """Return a copy of the array in a list; see `Communicator`."""
        self._check(timeout)
        return [as_column(array).copy()]

    def broadcast(self, array: Any, source: int = 0, *, timeout: float | None = None) -> np.ndarray:
        """Return a copy of the array; see `Communicator`."""
        self._check(timeout)
        if source != 0:
            raise InvalidInputError(f"source is {source!r}; there is one worker, so only 0 is allowed.")
        return as_column(array).copy()

    def consult(
        self,
        call: str,
        decide: Decide,
        note: Any = None,
        payload: Payload = b"",
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> Letter:
        """Return what ``decide`` makes of this worker's letter; see `Communicator`."""
        self._check(timeout)
        if trouble is not None:
            raise trouble
        answer = decide([Letter(note, joined(payload))])
        return Letter(answer.note, joined(answer.payload))

    def close(self) -> None:
        """Refuse all further calls."""
        self._closed = True

    def _check(self, timeout: float | None) -> None:
        resolve_timeout(timeout)
        if self._closed:
            raise CommunicatorError("this communicator is closed; make a new one.")
