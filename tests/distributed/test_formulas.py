"""A program inside a call, or in the formula after it, does what it likes: the exchange ends the same on all ranks."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Callable

import pytest

import fleetmetrics as fm
from tests.distributed.cluster import free_ports
from tests.distributed.forks import crew, member, outcome, results, run, wait_for
from tests.distributed.test_hangs import wait_until_it_sleeps

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


def test_a_formula_may_compute_on_another_channel_and_on_its_own(port: int) -> None:
    def work(rank: int) -> Any:
        comm, other = member(rank, 2, port), member(rank, 2, port)
        inner = summed(rank, "inner")
        metric = summed(
            rank, then=lambda value: [value, *(inner.compute(communicator=each, timeout=20) for each in (other, comm))]
        )
        return outcome(lambda: metric.compute(communicator=comm, timeout=20))

    assert run(2, work) == [[3.0, 3.0, 3.0]] * 2


@pytest.mark.parametrize("who", [0, 1])
def test_a_signal_handler_that_computes_inside_an_exchange_gets_an_error_and_the_exchange_goes_on(
    port: int, tmp_path: Path, who: int
) -> None:
    def work(rank: int) -> Any:
        comm, heard = member(rank, 3, port), []
        comm.barrier(timeout=20)
        other = summed(rank, "other")

        def handler(*_: object) -> None:
            heard.append(outcome(lambda: other.compute(communicator=comm, timeout=20)))
            (tmp_path / "handled").touch()

        signal.signal(signal.SIGUSR2, handler)
        (tmp_path / f"ready {rank}").touch()
        if rank == 2:  # whom the others wait for
            wait_for(tmp_path / "handled")
        metric = summed(rank)
        return [outcome(lambda: metric.compute(communicator=comm, timeout=20)) for _ in range(2)], heard

    with crew(3, work) as workers:
        wait_for(tmp_path / f"ready {who}")
        wait_until_it_sleeps(workers[who].pid)
        workers[who].kill(signal.SIGUSR2)
        found = results(workers)
    assert [numbers for numbers, _ in found] == [[6.0, 6.0]] * 3
    assert found[who][1][0].startswith("CommunicatorError: exchange 2 (Then sum) is not over"), found


def test_a_formula_may_fork_and_its_child_may_go_on(port: int) -> None:
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


def test_a_formula_may_close_the_channel(port: int) -> None:
    def work(rank: int) -> Any:
        comm = member(rank, 2, port)
        metric = summed(rank, then=lambda value: (comm.close(), value)[1])
        return [outcome(lambda: metric.compute(communicator=comm, timeout=20)) for _ in range(2)]

    for number, after in run(2, work):
        assert number == 3.0
        assert after.startswith("CommunicatorError: the workers' channel is closed"), after


@pytest.mark.parametrize("who", [0, 1])
def test_an_interruption_in_a_formula_is_an_error_of_that_worker_alone(port: int, who: int) -> None:
    """The exchange is over: the others have the number, and the next call works."""

    def work(rank: int) -> Any:
        comm, found = member(rank, 3, port), []

        def interrupted(value: Any) -> Any:
            if rank == who and not found:
                signal.raise_signal(signal.SIGINT)
            return value

        signal.signal(signal.SIGINT, signal.default_int_handler)
        metric = summed(rank, then=interrupted)
        for _ in range(2):
            try:
                found.append(metric.compute(communicator=comm, timeout=20))
            except KeyboardInterrupt:
                found.append("interrupted")
        return found

    assert run(3, work) == [["interrupted" if rank == who else 6.0, 6.0] for rank in range(3)]
