"""The communicator of a process without other workers."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from fleetmetrics.comm import folds
from fleetmetrics.comm.communicator import Call, Communicator
from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.errors import CommunicatorError
from fleetmetrics.serial.descriptions import Block, Decide, Letter, RowKeys, joined

__all__ = ["LocalCommunicator"]


class LocalCommunicator(Communicator):
    """The communicator of a job with one worker. It checks its arguments like the others, and returns copies.

    Examples:
        >>> with LocalCommunicator() as comm:
        ...     comm.all_reduce([1.5, 2.0])
        array([1.5, 2. ])
    """

    rank = 0
    world_size = 1
    authenticated = True
    overlaps = True

    def __init__(self) -> None:
        self._closed = False

    def _consult(
        self, call: str, decide: Decide, mine: Letter, deadline: Deadline, trouble: BaseException | None
    ) -> Letter:
        if self._closed:
            raise CommunicatorError("this communicator is closed; make a new one")
        if trouble is not None:
            raise trouble
        answer = decide([Letter(mine.note, joined(mine.payload))])
        return Letter(answer.note, joined(answer.payload))

    def _reduce(self, call: Call, blocks: Sequence[Block | RowKeys], settings: str) -> list[np.ndarray]:
        """Return copies of the blocks' arrays."""
        call.consult(folds.barrier)
        return [block.array if isinstance(block, Block) and block.fresh else block.array.copy() for block in blocks]

    def close(self) -> None:
        """Refuse all further calls."""
        self._closed = True
