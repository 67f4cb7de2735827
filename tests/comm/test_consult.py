"""A consultation: everybody brings something, rank 0 alone sees it all, everybody hears the same."""

from __future__ import annotations

import threading
from typing import Any, Sequence

import numpy as np
import pytest

from fleetmetrics import AgreementError, Communicator, CommunicatorError, InvalidInputError, LocalCommunicator
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.errors import RecordError
from tests.fakes import Together, together


def test_one_operation_makes_a_communicator() -> None:
    def work(comm: Communicator) -> list[Any]:
        rank = comm.rank
        large = np.arange(100_000) + rank
        found: list[Any] = [comm.all_reduce([1, 2.5]).tolist(), comm.all_reduce(large, "max")[[0, -1]].tolist()]
        found.append([part.tolist() for part in comm.all_gather(np.full(rank, rank))])
        found.append([len(part) for part in comm.all_gather(np.zeros(100_000 * rank))])
        found += [comm.broadcast([rank], 1).tolist(), comm.all_gather_object({"rank": rank})]
        found.append([letter.note for letter in comm.shuffle("s", [Letter([rank, to]) for to in range(3)])])
        with pytest.raises(AgreementError, match=r"shape \[1\] on ranks 0, 1, \[2\] on rank 2"):
            comm.all_reduce([1, 2] if rank == 2 else [1])
        with pytest.raises(RecordError, match="on ranks 0, 1, 2: "):
            comm.all_gather_object(object())
        comm.barrier()
        return found

    *same, _ = zip(*together([work] * 3))
    first = [
        [3, 7.5],
        [2, 100_001],
        [[], [1], [2, 2]],
        [0, 100_000, 200_000],
        [1],
        [{"rank": rank} for rank in range(3)],
    ]
    assert [list(each) for each in zip(*same)] == [first] * 3
    assert [found[-1] for found in together([work] * 3)] == [[[rank, to] for rank in range(3)] for to in range(3)]


def echo(letters: Sequence[Letter]) -> Letter:
    return Letter([letter.note for letter in letters], [bytes(letter.payload) for letter in letters])


CHANNELS = pytest.mark.parametrize(
    "channel", [LocalCommunicator(), Together(0, [None], threading.Barrier(1))], ids=["local", "own"]
)


@CHANNELS
@pytest.mark.parametrize("payload", [b"", b"abc", [b"ab", b"", memoryview(b"c")]])
def test_rank_0_computes_the_answer_from_the_letters(channel: Communicator, payload: Any) -> None:
    answer = channel.consult("auc", echo, {"n": 3}, payload)
    assert answer.note == [{"n": 3}]
    assert bytes(answer.payload) == b"".join([payload] if isinstance(payload, bytes) else payload)


@CHANNELS
def test_trouble_is_raised(channel: Communicator) -> None:
    with pytest.raises(InvalidInputError, match="size is -1"):
        channel.consult("auc", echo, trouble=InvalidInputError("size is -1"))


@CHANNELS
def test_what_rank_0_raises_is_raised(channel: Communicator) -> None:
    def refuse(letters: Sequence[Letter]) -> Letter:
        raise InvalidInputError("no")

    with pytest.raises(InvalidInputError, match="no"):
        channel.consult("auc", refuse)


@CHANNELS
def test_a_wrong_timeout_is_an_error(channel: Communicator) -> None:
    with pytest.raises(InvalidInputError, match="timeout is 0"):
        channel.consult("auc", echo, timeout=0)


def test_a_closed_channel_is_an_error() -> None:
    channel = LocalCommunicator()
    channel.close()
    with pytest.raises(CommunicatorError, match="closed"):
        channel.consult("auc", echo)


class Noting(LocalCommunicator):
    """Notes the deadlines of its exchanges."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def _consult(self, call: str, decide: Any, mine: Letter, deadline: Any, trouble: Any) -> Letter:
        self.ends.append(deadline.end)
        return super()._consult(call, decide, mine, deadline, trouble)


def test_the_seconds_to_wait_begin_anew_after_a_long_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    channel, now = Noting(), [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    for prepared, end in ((False, 105.0), (True, 3705.0)):
        now[0] = 100.0
        with channel.call("evaluate", 5) as call:
            now[0] = 3700.0  # all files are read
            if prepared:
                call.prepared()
            call.consult(lambda letters: Letter(None))
        assert channel.ends.pop() == end


def test_evaluate_waits_for_the_others_once_this_worker_has_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from fleetmetrics.evaluation.sides import sides_of_workers

    channel, now = Noting(), [100.0]
    channel.world_size = 2
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def make() -> Any:
        now[0] = 3700.0
        return ["a file"], []

    assert sides_of_workers.of_workers(channel, make, list, timeout=5) == [] and channel.ends == [3705.0]
