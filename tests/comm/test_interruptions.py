"""A signal handler's error inside a call stays that rank's own; the others are informed, and the next call works.

A handler may run after each call and where a function begins: in each of these places it raises once.
"""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics
from fleetmetrics.comm import SocketCommunicator
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AgreementError, CommunicatorError, InvalidInputError
from tests.distributed.cluster import free_ports

pytestmark = pytest.mark.numpy_only

COMM = Path(fleetmetrics.__file__).parent / "comm"
#: Where a call makes what it brings, or rank 0 the answer: any exception there is that worker's trouble, told to all.
MAKING, READING = ("communicator", "blocks", "failures"), ("combine", "_read", "_decide")


class Interrupts:
    """A profiler, which Python calls where it would call a handler of signals: raises in one place of the package."""

    def __init__(self, error: BaseException, place: int) -> None:
        self.error, self.place, self.seen, self.where = error, place, 0, ""

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event not in ("call", "c_return") or Path(code.co_filename).parent != COMM:
            return
        if isinstance(self.error, Exception) and (Path(code.co_filename).stem in MAKING or _reads(frame)):
            return
        self.seen += 1
        if self.seen == self.place:
            sys.setprofile(None)
            self.where = f"{event} in {frame.f_code.co_name}, {frame.f_code.co_filename}:{frame.f_lineno}"
            raise self.error


def _reads(frame: Any) -> bool:
    while frame is not None and frame.f_code.co_name not in READING:
        frame = frame.f_back
    return frame is not None


#: What is raised, and in every which place.
CONNECTED = [(KeyboardInterrupt, 1), (TimeoutError, 1), (InterruptedError, 5), (ConnectionResetError, 5)]
AT_THE_FIRST_CALL = [(KeyboardInterrupt, 11), (TimeoutError, 5)]
EVERYWHERE = [(True, *each) for each in CONNECTED] + [(False, *each) for each in AT_THE_FIRST_CALL]


@pytest.mark.parametrize(("connected", "kind", "step"), EVERYWHERE)
@pytest.mark.parametrize("who", [0, 1])
def test_an_interruption_at_any_point_is_reported_as_one_and_the_next_call_works(
    who: int, connected: bool, kind: type[BaseException], step: int
) -> None:
    place = 1
    while _interrupted_at(place, who, kind, connected):
        place += step
    assert place > 50


@pytest.mark.parametrize("who", [0, 1])
def test_an_interruption_during_the_report_of_an_error_delays_no_worker(who: int) -> None:
    place = 1
    while _interrupted_at(place, who, KeyboardInterrupt, connected=True, brings="a text"):
        place += 1
    assert place > 50


def _interrupted_at(place: int, who: int, kind: type[BaseException], connected: bool, brings: object = 1) -> bool:
    """Interrupt an exchange in one place, to which the other worker brings a number, or trouble.

    Returns:
        Whether the exchange has that many places.
    """
    port = free_ports(1)[0]
    ranks = [SocketCommunicator(Job(rank, 2, endpoint=f"127.0.0.1:{port}", secret="of the test")) for rank in range(2)]
    told: list[str] = []

    def other() -> None:
        sums, mine = 0, brings
        while sums < 100:
            try:
                brought, mine = mine, 1
                sums = ranks[1 - who].all_reduce([brought], timeout=4).item()
                assert sums in (2, 101), sums
            except InvalidInputError:
                assert brought != 1
            except CommunicatorError as error:
                told.append(f"{type(error).__name__}: {error}")
                assert len(told) < 3, told

    thread = threading.Thread(target=other, daemon=True)
    if connected:
        both = threading.Thread(target=lambda: ranks[1 - who].barrier(timeout=4))
        both.start()
        ranks[who].barrier(timeout=4)
        both.join()
    thread.start()
    interrupts = Interrupts(kind("by a handler"), place)
    raised = False
    sys.setprofile(interrupts)
    try:
        ranks[who].all_reduce([1], timeout=4)
    except InvalidInputError:
        assert brings != 1
    except kind as error:
        assert not isinstance(error, fleetmetrics.errors.FleetMetricsError), error
        raised = True
    finally:
        sys.setprofile(None)
    for number in (1, 100):
        try:
            assert ranks[who].all_reduce([number], timeout=4).item() == number + 1
        except (AgreementError, InvalidInputError) as error:  # or it had not begun, and the trouble is for this one
            if isinstance(error, AgreementError):
                told.append(f"AgreementError: {error}")
            assert ranks[who].all_reduce([number], timeout=4).item() == number + 1
    thread.join(20)
    assert not thread.is_alive(), (interrupts.where, told)
    for each in ranks[::-1]:
        each.close()
    interruption = f"CommunicatorError: rank {who} was interrupted ({kind.__name__}) at exchange"
    for text in told:
        assert text.startswith(interruption) or re.match("AgreementError: the workers parted at exchange", text), (
            interrupts.where,
            text,
        )
    return raised


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ConnectionResetError])
@pytest.mark.parametrize("who", [1, 2], ids=["a leader", "a follower"])
def test_wherever_it_is_raised_in_the_second_level_all_are_together_again(
    who: int, kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETMETRICS_LEVELS", "2")
    place = 1
    while _interrupted_in_a_host(place, who, kind):
        place += 19
    assert place > 100


def _interrupted_in_a_host(place: int, who: int, kind: type[BaseException]) -> bool:
    """Interrupt the third exchange of four workers, of which ranks 1 to 3 are on a host of their own, in one place."""
    port, world = free_ports(1)[0], 4
    hosts = ",".join(f"127.0.0.{1 + bool(rank)}:{7000 + rank}" for rank in range(world))
    comms = [
        SocketCommunicator(Job(rank, world, hosts, endpoint=f"127.0.0.1:{port}", secret="of the test"))
        for rank in range(world)
    ]
    seen: list[list[Any]] = [[] for _ in comms]
    raised: set[int] = set()

    def one(rank: int) -> None:
        for _ in range(2):
            comms[rank].barrier(timeout=20)
        sys.setprofile(Interrupts(kind("by a handler"), place) if rank == who else None)
        while len(seen[rank]) < 6:
            try:
                seen[rank].append(comms[rank].all_reduce([10 ** len(seen[rank])], timeout=20).item())
            except (kind, fleetmetrics.errors.FleetMetricsError) as error:  # type: ignore[misc]
                raised.add(rank)
                if comms[rank]._channel.calls > 2:  # else it had not begun
                    seen[rank].append(f"{type(error).__name__}: {error}")
            sys.setprofile(None)

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for each in comms[::-1]:
        each.close()
    whole = [world * 10**call for call in range(6)]
    if seen[who][0] == whole[0]:
        assert seen == [whole] * world
        return bool(raised)
    assert seen[who][0] == f"{kind.__name__}: by a handler"
    assert {str(each[2:]) for each in seen} == {str(whole[2:])}, seen
    others = {str(each[0]) for rank, each in enumerate(seen) if rank != who}
    if others == {str(whole[0])}:  # it had been taken along, or had its own result already
        parted = ["AgreementError: the workers parted at exchange 3" in str(each[1]) for each in seen]
        assert all(parted) or [each[1] for each in seen] == [whole[1]] * world, seen
    else:
        assert others == {
            f"CommunicatorError: rank {who} was interrupted ({kind.__name__}) at exchange 3 (all_reduce)."
        }
        assert [each[1] for each in seen] == [whole[1]] * world, seen
    return True
