"""Communicators that stand in for other workers, or listen to the real ones."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fleetmetrics import Communicator, LocalCommunicator
from fleetmetrics.comm import Block
from fleetmetrics.reductions import combine


class Listener(LocalCommunicator):
    """One worker alone, who writes down every exchange."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.blocks: list[list[Block]] = []
        self.timeouts: list[float | None] = []
        self.troubles: list[BaseException | None] = []

    def reduce(
        self, call: str, blocks: Sequence[Block], *, timeout: Any = None, trouble: Any = None
    ) -> list[np.ndarray]:
        self.calls.append(call)
        self.blocks.append(list(blocks))
        self.timeouts.append(timeout)
        self.troubles.append(trouble)
        return super().reduce(call, blocks, timeout=timeout, trouble=trouble)


class Absent(LocalCommunicator):
    """Two workers, of whom the other one said already what it has.

    Args:
        others: the other worker's `Listener`, after it has computed.
    """

    def __init__(self, others: Listener) -> None:
        super().__init__()
        self.theirs = others.blocks[-1]

    def reduce(
        self, call: str, blocks: Sequence[Block], *, timeout: Any = None, trouble: Any = None
    ) -> list[np.ndarray]:
        assert [(b.name, b.reduction, b.array.shape) for b in blocks] == [
            (b.name, b.reduction, b.array.shape) for b in self.theirs
        ]
        return [combine(mine.reduction, [mine.array, theirs.array]) for mine, theirs in zip(blocks, self.theirs)]


class Recorder(Communicator):
    """A real channel, and what came out of the last exchange.

    Args:
        channel: the communicator that does it.
    """

    def __init__(self, channel: Communicator) -> None:
        self.channel = channel
        self.rank, self.world_size = channel.rank, channel.world_size
        self.arrays: list[np.ndarray] = []
        self.exchanges = 0

    def reduce(
        self, call: str, blocks: Sequence[Block], *, timeout: Any = None, trouble: Any = None
    ) -> list[np.ndarray]:
        self.exchanges += 1
        self.arrays = self.channel.reduce(call, blocks, timeout=timeout, trouble=trouble)
        return self.arrays

    def all_gather(self, array: Any, *, timeout: Any = None) -> list[np.ndarray]:
        return self.channel.all_gather(array, timeout=timeout)

    def broadcast(self, array: Any, source: int = 0, *, timeout: Any = None) -> np.ndarray:
        return self.channel.broadcast(array, source, timeout=timeout)

    def close(self) -> None:
        self.channel.close()
