"""Rank 0 computes while its answer travels: whatever a formula does meanwhile, no rank alone has a number."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest
from fleetmetrics.comm.frames import ACK

import fleetmetrics as fm
from tests.distributed.cluster import AT_ONCE, free_ports
from tests.distributed.forks import BEFORE, crew, member, outcome, results, run, timed, wait_for, wait_until
from tests.distributed.proxy import Cut, Edit, Hold, Message, Proxy

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def summed(rank: int, name: str = "sum", then: Callable[[Any], Any] = lambda value: value) -> fm.Sum:
    """A sum of rank + 1, whose formula passes the value on."""

    class Then(fm.Sum):
        def formula(self, **states: Any) -> Any:
            return then(super().formula(**states))

    found = Then(name=name)
    found.add([rank + 1.0])
    return found


def no_confirmation(stop: Exception, call: int = 2) -> Edit:
    """Rank 1's confirmation does not arrive."""
    over: list[Message] = []

    def edit(message: Message) -> Sequence[bytes]:
        if over or (message.call, message.kind) != (call, ACK):
            return [message.data]
        over.append(message)
        raise stop

    return edit


def test_a_formula_that_computes_over_another_star_leaves_no_number_on_one_rank_only(port: int) -> None:
    """Else the exchange inside it would succeed, and rank 0 would find out afterwards that it may be the only one."""

    def work(rank: int) -> Any:
        outer, inner = member(rank, 2, port, BEFORE if rank else "127.0.0.1"), member(rank, 2, ports[0])
        for each in (outer, inner):
            each.barrier(timeout=20)
        other = summed(rank, "other")
        metric = summed(rank, then=lambda value: value + other.compute(communicator=inner, timeout=20))
        found = timed(lambda: metric.compute(communicator=outer, timeout=20))
        return *found, outcome(lambda: inner.all_reduce([1], timeout=20).tolist())

    ports = free_ports(1)
    with Proxy((BEFORE, port), ("127.0.0.1", port), edit=no_confirmation(Cut())):
        found = run(2, work)
    for text, seconds, after in found:
        assert "rank 1 has gone away" in str(text) and "RAW" not in text, found
        assert seconds < AT_ONCE
        assert after == [2]


def test_a_signal_handler_that_computes_while_rank_0_waits_for_the_confirmation_gets_an_error(
    port: int, tmp_path: Path
) -> None:
    """Else it would put an exchange into the middle of the other, and the next call would say that they parted."""

    def work(rank: int) -> Any:
        comm = member(rank, 2, port, BEFORE if rank else "127.0.0.1")
        comm.barrier(timeout=20)
        other, heard = summed(rank, "other"), []

        def handler(*_: object) -> None:
            heard.append(outcome(lambda: other.compute(communicator=comm, timeout=20)))
            (tmp_path / "handled").touch()

        signal.signal(signal.SIGUSR2, handler)
        metric = summed(rank, then=lambda value: ((tmp_path / f"computed on {rank}").touch(), value)[1])
        found = [outcome(lambda: metric.compute(communicator=comm, timeout=20)) for _ in range(2)]
        return found, heard

    with Proxy((BEFORE, port), ("127.0.0.1", port), edit=no_confirmation(Hold())) as proxy, crew(2, work) as workers:
        for rank in range(2):
            wait_for(tmp_path / f"computed on {rank}")
        wait_until(lambda: "S" in Path(f"/proc/{workers[0].pid}/stat").read_text().rpartition(")")[2].split()[0])
        workers[0].kill(signal.SIGUSR2)
        wait_for(tmp_path / "handled")
        proxy.heal()
        (zero, heard), (one, _) = results(workers)
    assert zero == one == [3.0, 3.0]
    assert heard[0].startswith("CommunicatorError: exchange 2 (Then sum) is not over"), heard


def test_a_formula_may_fork_and_its_child_may_go_on(port: int) -> None:
    """The confirmation is the parent's: the child has closed the connections."""

    def work(rank: int) -> Any:
        comm = member(rank, 2, port)
        comm.barrier(timeout=20)
        reader, writer = os.pipe()
        worker = os.getpid()
        metric = summed(rank, then=lambda value: (os.fork(), value)[1])
        found = outcome(lambda: metric.compute(communicator=comm, timeout=20))
        if os.getpid() != worker:
            os.write(writer, str(found).encode())
            os._exit(0)
        return found, os.read(reader, 1000).decode(), outcome(lambda: comm.all_reduce([1], timeout=20).tolist())

    assert run(2, work) == [(3.0, "3.0", [2])] * 2


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_formula_may_close_the_channel_once_a_worker_has_confirmed(port: int, confirmed: bool) -> None:
    def work(rank: int) -> Any:
        comm = member(rank, 2, port, BEFORE if rank else "127.0.0.1")
        comm.barrier(timeout=20)
        metric = summed(rank, then=lambda value: (comm.close(), value)[1])
        return [outcome(lambda: metric.compute(communicator=comm, timeout=20)) for _ in range(2)]

    with Proxy((BEFORE, port), ("127.0.0.1", port), edit=None if confirmed else no_confirmation(Cut())):
        zero, one = run(2, work)
    if confirmed:
        assert zero[0] == one[0] == 3.0
    else:
        assert "rank 1 has gone away" in zero[0] and "may still have a result of exchange 2" in zero[0], zero
    for _, after in (zero, one):
        assert after.startswith("CommunicatorError: the workers' channel is closed"), after
