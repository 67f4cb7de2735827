"""Communicators that stand in for other workers, or listen to the real ones."""

from __future__ import annotations

import threading
from typing import Any, Callable, Sequence

import numpy as np

from fleetmetrics import Communicator, LocalCommunicator
from fleetmetrics.comm import Block, RowKeys
from fleetmetrics.comm.communicator import Call, Decide, Letter
from fleetmetrics.comm.deadline import resolve_timeout
from fleetmetrics.comm.failures import described, named_error, raise_trouble
from fleetmetrics.errors import FleetMetricsError
from fleetmetrics.numbers.reductions import combine
from fleetmetrics.serial.descriptions import joined


class Listener(LocalCommunicator):
    """One worker alone, who writes down every exchange."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.blocks: list[list[Block]] = []
        self.timeouts: list[float | None] = []
        self.troubles: list[BaseException | None] = []

    def _reduce(self, call: Call, blocks: Sequence[Block | RowKeys], settings: str) -> list[np.ndarray]:
        self.calls.append(call.name)
        self.blocks.append(list(blocks))
        self.timeouts.append(call.deadline.timeout)
        return super()._reduce(call, blocks, settings)

    def _consult(self, call: str, decide: Decide, mine: Letter, deadline: Any, trouble: BaseException | None) -> Letter:
        self.troubles.append(trouble)
        return super()._consult(call, decide, mine, deadline, trouble)


class Absent(LocalCommunicator):
    """Two workers, of whom the other one said already what it has.

    Args:
        others: the other worker's `Listener`, after it has computed.
    """

    def __init__(self, others: Listener) -> None:
        super().__init__()
        self.theirs = others.blocks[-1]

    def _reduce(self, call: Call, blocks: Sequence[Block | RowKeys], settings: str) -> list[np.ndarray]:
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
        self.consultations = 0

    def _reduce(self, call: Call, blocks: Sequence[Block | RowKeys], settings: str) -> list[np.ndarray]:
        self.exchanges += 1
        call.step += 1
        self.arrays = self.channel.reduce(
            call.name, blocks, settings=settings, timeout=call.deadline.left, trouble=call.trouble
        )
        return self.arrays

    def consult(self, call: str, *args: Any, **settings: Any) -> Any:
        self.consultations += 1
        return self.channel.consult(call, *args, **settings)

    def close(self) -> None:
        self.channel.close()


class Together(Communicator):
    """One of several workers that are threads of this process; `together` runs them.

    Args:
        rank: of this worker.
        slots: what each worker has brought, by rank.
        barrier: where they wait for each other.
    """

    def __init__(self, rank: int, slots: list[Any], barrier: threading.Barrier) -> None:
        self.rank, self.world_size = rank, len(slots)
        self.slots, self.all_here = slots, barrier
        self.calls: list[str] = []

    def everybodys(self, mine: Any) -> list[Any]:
        self.slots[self.rank] = mine
        self.all_here.wait(120)  # a hang
        found = list(self.slots)
        self.all_here.wait(120)  # a hang
        return found

    def consult(
        self,
        call: str,
        decide: Decide,
        note: Any = None,
        payload: Any = b"",
        *,
        timeout: Any = None,
        trouble: Any = None,
    ) -> Letter:
        resolve_timeout(timeout)
        self.calls.append(call)
        letters = self.everybodys(Letter(note, joined(payload)) if trouble is None else trouble)
        answer: Any = None
        if self.rank == 0:
            try:
                raise_trouble([described(each) if isinstance(each, BaseException) else None for each in letters])
                answer = decide(letters)
            except Exception as error:
                answer = error if isinstance(error, FleetMetricsError) else named_error(*described(error))
        answer = self.everybodys(answer)[0]
        if isinstance(answer, Exception):
            raise type(answer)(str(answer))
        return Letter(answer.note, joined(answer.payload))


def together(works: Sequence[Callable[[Together], Any]], kind: type[Together] = Together) -> list[Any]:
    """Run workers side by side.

    Args:
        works: what each does with its channel, by rank.
        kind: of the channel.

    Returns:
        What they return, or raise.
    """
    slots, barrier = [None] * len(works), threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)

    def run(rank: int) -> None:
        try:
            results[rank] = works[rank](kind(rank, slots, barrier))
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
