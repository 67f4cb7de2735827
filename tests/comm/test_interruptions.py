"""A signal handler's error inside a call stays that rank's own; the others are informed, and the next call works.

A handler may run after each call and where a function begins: in each of these places it raises once.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np
import pytest

import fleetmetrics
from fleetmetrics.comm import SocketCommunicator
from fleetmetrics.comm.folds import barrier
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import LEFT, Message
from fleetmetrics.errors import FleetMetricsError, InvalidInputError
from tests.distributed.cluster import AT_ONCE, PATIENCE, free_ports

pytestmark = pytest.mark.numpy_only

COMM = Path(fleetmetrics.__file__).parent / "comm"
#: Where a call makes what it brings, or rank 0 the answer: any exception there is that worker's trouble, told to all.
MAKING, READING = ("communicator", "failures", "rows", "states"), ("read_each", "_decided")
#: The functions of a call that has begun.
BEGUN = ("consult", "reduce", "__exit__")


class Interrupts:
    """A profiler, which Python calls where it would call a handler of signals: raises in one place of the package."""

    def __init__(self, error: BaseException, place: int, entry: Sequence[str] = BEGUN) -> None:
        self.error, self.place, self.seen, self.where = error, place, 0, ""
        self.entry = entry  # the functions in which the call has begun

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        parents = Path(code.co_filename).parents
        if event not in ("call", "c_return") or COMM not in (parents[0], parents[0] / "comm"):
            return
        if parents[0] != COMM and self.entry == BEGUN:
            return
        if not _inside(frame.f_back, self.entry):
            return
        if isinstance(self.error, Exception) and (Path(code.co_filename).stem in MAKING or _inside(frame, READING)):
            return
        self.seen += 1
        if self.seen == self.place:
            sys.setprofile(None)
            self.where = f"{event} in {frame.f_code.co_name}, {frame.f_code.co_filename}:{frame.f_lineno}"
            raise self.error


def _inside(frame: Any, names: tuple[str, ...]) -> bool:
    while frame is not None and frame.f_code.co_name not in names:
        frame = frame.f_back
    return frame is not None


def _run(comms: Sequence[SocketCommunicator], work: Callable[[int], None]) -> None:
    """Let each rank work in a thread, and close the communicators."""
    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(len(comms))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for each in comms[::-1]:
        each.close()


#: What is raised, in every which place.
CONNECTED = [(KeyboardInterrupt, 1), (TimeoutError, 3), (InterruptedError, 7), (ConnectionResetError, 7)]
AT_THE_FIRST_CALL = [(KeyboardInterrupt, 11), (TimeoutError, 5)]
EVERYWHERE = [(True, *each) for each in CONNECTED] + [(False, *each) for each in AT_THE_FIRST_CALL]
#: How many calls each worker makes, of which the first is interrupted on one.
CALLS = 4


@pytest.mark.parametrize(("connected", "kind", "step"), EVERYWHERE)
@pytest.mark.parametrize("who", [0, 1])
def test_an_interruption_at_any_point_is_reported_as_one_and_the_next_calls_are_together(
    who: int, connected: bool, kind: type[BaseException], step: int
) -> None:
    place = 1
    while _interrupted_at(place, who, kind, connected):
        place += step
    assert place > 30


@pytest.mark.parametrize("who", [0, 1])
def test_an_interruption_between_the_exchanges_of_one_call_is_reported_at_once(who: int) -> None:
    place = 1
    while _interrupted_at(place, who, KeyboardInterrupt, connected=True, size=300_000):
        place += 13
    assert place > 200


@pytest.mark.parametrize("who", [0, 1])
def test_an_interruption_during_the_report_of_an_error_delays_no_worker(who: int) -> None:
    place = 1
    while _interrupted_at(place, who, KeyboardInterrupt, connected=True, brings="a text"):
        place += 2
    assert place > 30


@pytest.mark.parametrize("who", [0, 1])
def test_an_interruption_before_the_first_exchange_of_a_call_counts_as_one(
    who: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETMETRICS_TIMEOUT", "4")
    place = 1
    while _interrupted_at(place, who, KeyboardInterrupt, connected=True, entry=("call_of",)):
        place += 1
    assert place > 5


@pytest.mark.parametrize("who", [0, 1])
def test_an_error_between_two_exchanges_of_a_call_reaches_the_others_at_once(who: int) -> None:
    port = free_ports(1)[0]
    ranks = [SocketCommunicator(Job(rank, 2, endpoint=f"127.0.0.1:{port}", secret="of the test")) for rank in range(2)]
    seen: list[list[Any]] = [[], []]

    def work(rank: int) -> None:
        start = time.monotonic()
        try:
            with ranks[rank].call("two", 20) as call:
                call.consult(barrier)
                if rank == who:
                    raise InvalidInputError("found between the exchanges")
                call.consult(barrier)
        except InvalidInputError as error:
            seen[rank].append(str(error).rpartition(": ")[2])
        assert time.monotonic() - start < AT_ONCE
        seen[rank].append(ranks[rank].all_reduce([rank], timeout=20).item())

    _run(ranks, work)
    assert seen == [["found between the exchanges", 1]] * 2


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("who", [0, 1])
def test_an_interruption_of_the_report_of_an_interruption_keeps_it_from_no_worker(who: int, times: int) -> None:
    port = free_ports(1)[0]
    ranks = [SocketCommunicator(Job(rank, 2, endpoint=f"127.0.0.1:{port}", secret="of the test")) for rank in range(2)]
    end = ranks[who]._end
    ask, tries, seen = end.ask, iter([KeyboardInterrupt("again")] * times), [[], []]  # type: Any, Any, list[list[Any]]

    def reports(message: Message) -> None:
        for error in tries if message.kind == LEFT else ():
            raise error
        ask(message)

    def work(rank: int) -> None:
        ranks[rank].barrier(timeout=20)
        start = time.monotonic()
        try:
            with ranks[rank].call("echo", 20) as call:
                if rank == who:
                    raise KeyboardInterrupt
                call.consult(barrier)
        except (KeyboardInterrupt, FleetMetricsError) as error:
            seen[rank].append(f"{type(error).__name__}: {error}")
        assert time.monotonic() - start < AT_ONCE
        seen[rank].append(ranks[rank].all_reduce([rank], timeout=20).item())

    end.ask = reports  # type: ignore[method-assign]
    _run(ranks, work)
    assert seen[who] == ["KeyboardInterrupt: again", 1], seen
    assert seen[1 - who] == [
        f"CommunicatorError: rank {who} was interrupted (KeyboardInterrupt) at exchange 2 (echo)",
        1,
    ]


@pytest.mark.parametrize("seed", range(12))
def test_interruptions_of_several_calls_in_a_row_leave_no_worker_behind(seed: int) -> None:
    port, who = free_ports(1)[0], seed % 2 * 2
    ranks = [SocketCommunicator(Job(rank, 3, endpoint=f"127.0.0.1:{port}", secret="of the test")) for rank in range(3)]
    seen: list[list[Any]] = [[], [], []]
    draws = random.Random(seed)
    most = draws.choice([30, 100, 300])
    interrupts = [Interrupts(KeyboardInterrupt("again"), draws.randrange(1, most)) for _ in range(5)]

    def work(rank: int) -> None:
        ranks[rank].barrier(timeout=20)
        for call in range(8):
            try:
                sys.setprofile(interrupts[call] if rank == who and call < 5 else None)
                found = ranks[rank].all_reduce(np.full([1, 300_000][seed % 3 == 0], 1000 * call + rank), timeout=20)
                sys.setprofile(None)
                seen[rank].append(int(found[0]))
            except (KeyboardInterrupt, FleetMetricsError) as error:
                sys.setprofile(None)
                seen[rank].append(f"{type(error).__name__}: {error}")

    _run(ranks, work)
    for mine in seen:
        assert len(mine) == 8, seen
        for call, found in enumerate(mine):
            told = ("interrupted", "diverged", "KeyboardInterrupt: again")
            assert found == 3000 * call + 3 or any(word in str(found) for word in told), seen
    assert [mine[7] for mine in seen] == [21_003] * 3, seen


def _interrupted_at(
    place: int,
    who: int,
    kind: type[BaseException],
    connected: bool,
    size: int = 1,
    brings: Any = None,
    entry: Sequence[str] = BEGUN,
) -> bool:
    """Interrupt the first of several calls of two workers in one place.

    Args:
        place: which one.
        who: the rank to interrupt.
        kind: the error of the handler.
        connected: whether the workers have met before.
        size: how many numbers each worker brings, which differ by call.
        brings: what the other worker brings to the first call instead: trouble.
        entry: the functions in which the call has begun.

    Returns:
        Whether the call has that many places.
    """
    port = free_ports(1)[0]
    ranks = [SocketCommunicator(Job(rank, 2, endpoint=f"127.0.0.1:{port}", secret="of the test")) for rank in range(2)]
    seen: list[list[Any]] = [[], []]
    interrupts = Interrupts(kind("by a handler"), place, entry)

    def summed(rank: int, mine: Any) -> Any:
        if entry == BEGUN:
            return ranks[rank].all_reduce(mine, timeout=4)
        return fleetmetrics.sum(mine, util=ranks[rank])  # waits for FLEETMETRICS_TIMEOUT

    def work(rank: int) -> None:
        if connected:
            ranks[rank].barrier(timeout=4)
        for call in range(CALLS):
            mine: Any = np.full(size, 2**40 * call + rank)
            if rank != who and call == 0 and brings is not None:
                mine = brings
            try:
                sys.setprofile(interrupts if rank == who and call == 0 else None)
                found: Any = summed(rank, mine)
                sys.setprofile(None)
                assert (found == found[0]).all()
                seen[rank].append(int(found[0]))
            except (kind, FleetMetricsError) as error:  # type: ignore[misc]
                sys.setprofile(None)
                seen[rank].append(f"{type(error).__name__}: {error}")

    _run(ranks, work)
    _check(seen, who, kind, brings is not None, interrupts.where)
    return bool(interrupts.where)


def _check(seen: list[list[Any]], who: int, kind: type[BaseException], trouble: bool, where: str) -> None:
    """Each worker has the numbers of the same call, or all know why not."""
    whole = [2**41 * call + 1 for call in range(CALLS)]
    told = seen, where
    mine, others = seen[who][0], seen[1 - who][0]
    assert list(map(len, seen)) == [CALLS, CALLS], told
    assert seen[0][2:] == seen[1][2:] == whole[2:], told
    raised = mine == f"{kind.__name__}: by a handler"
    if trouble:
        assert raised or "InvalidInputError" in mine, told
        assert "InvalidInputError" in others or f"rank {who} was interrupted ({kind.__name__}) at exchange" in others, (
            told
        )
    elif not raised:
        assert mine == others == whole[0], told
    elif others != whole[0]:
        assert others.startswith(f"CommunicatorError: rank {who} was interrupted ({kind.__name__}) at exchange"), told
    if raised and others == whole[0] and "call in _leave" not in where:  # it had been on its way
        for each in seen:
            assert "AgreementError: the workers diverged at exchange" in str(each[1]), told
    else:
        assert seen[0][1] == seen[1][1] and (seen[0][1] == whole[1] or "the workers diverged" in seen[0][1]), told


class Interrupted(fleetmetrics.Count):
    """Ctrl-C comes while its states are read."""

    def state_dict(self, *given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt


class InterruptedFrame:
    """Ctrl-C comes while it is read."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise KeyboardInterrupt


def _frame(interrupted: bool) -> Any:
    return InterruptedFrame() if interrupted else {"id": [1, 2, 3, 4], "y": [0, 0, 1, 1], "p": [0.1, 0.4, 0.35, 0.8]}


def _check_copies(comm: SocketCommunicator, interrupted: bool) -> None:
    metric = (Interrupted if interrupted else fleetmetrics.Count)(name="count")
    fleetmetrics.check_copies(metric, [0, 1], communicator=comm, timeout=20)


def _evaluate(comm: SocketCommunicator, interrupted: bool) -> None:
    given = _frame(interrupted)
    fleetmetrics.evaluate(given, label="y", score="p", metrics="auc", communicator=comm, timeout=20)


def _evaluate_joined(comm: SocketCommunicator, interrupted: bool) -> None:
    two = {"baseline": _frame(False), "join_on": "id", "join": "inner"}
    given = _frame(interrupted)
    fleetmetrics.evaluate(given, label="y", score="p", metrics="auc", communicator=comm, timeout=20, **two)


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("call", [_check_copies, _evaluate, _evaluate_joined])
def test_an_interruption_of_what_a_call_prepares_reaches_the_others_at_once(call: Any, who: int) -> None:
    pytest.importorskip("pyarrow")
    port = free_ports(1)[0]
    ranks = [SocketCommunicator(Job(rank, 2, endpoint=f"127.0.0.1:{port}", secret="of the test")) for rank in range(2)]
    seen: list[list[Any]] = [[], []]

    def work(rank: int) -> None:
        ranks[rank].barrier(timeout=20)
        start = time.monotonic()
        try:
            call(ranks[rank], rank == who)
        except (FleetMetricsError, KeyboardInterrupt) as error:
            seen[rank].append(f"{type(error).__name__}: {error}".partition(" at exchange")[0])
        seen[rank].append(time.monotonic() - start < AT_ONCE)
        seen[rank].append(ranks[rank].all_reduce([rank], timeout=20).item())

    _run(ranks, work)
    told = [f"CommunicatorError: rank {who} was interrupted (KeyboardInterrupt)", True, 1]
    assert seen[1 - who] == told
    assert seen[who] == ["KeyboardInterrupt: ", True, 1]
