"""Several threads of a worker on one communicator: a call has its number, and none ever gets another's result."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm import Block, SocketCommunicator
from tests.cover import thorough
from tests.distributed.cluster import AT_ONCE, free_ports
from tests.distributed.forks import member, outcome, run, wait_for

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def side_by_side(*works: Callable[[], Any]) -> list[Any]:
    """Run each in a thread of its own; return what each returned."""
    found: list[Any] = [None] * len(works)

    def run_one(place: int) -> None:
        found[place] = works[place]()

    threads = [threading.Thread(target=run_one, args=(place,)) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def in_exchange(comm: SocketCommunicator, number: int, over: Callable[[], bool] = lambda: False) -> None:
    """Wait until this number of threads are in an exchange, or what they do is over."""
    end = time.monotonic() + AT_ONCE
    while len(comm._end._replies) < number and not over():
        assert time.monotonic() < end
        time.sleep(0.001)


def metric(kind: Any, name: str, rank: int, times: int) -> Any:
    """A metric whose value over the workers is easy to tell."""
    found = kind(name=name)
    found.add(np.full(rank + 1, float(times)))
    return found


@pytest.mark.parametrize("world", [3, *thorough(2)])
def test_a_thread_never_gets_the_number_of_another(port: int, world: int) -> None:
    """In whatever order they come on each worker: the number is the right one, or all hear that the calls differ."""

    def work(rank: int) -> Any:
        sys.setswitchinterval(1e-5)
        comm = member(rank, world, port)
        metrics = [metric(fm.Sum, name, rank, times) for name, times in (("a", 1), ("b", 10))]

        def calls(one: Any) -> list[Any]:
            return [outcome(lambda: one.compute(communicator=comm, timeout=20)) for _ in range(60)]

        return side_by_side(*[lambda one=one: calls(one) for one in metrics]), next(comm._calls)

    right = world * (world + 1) // 2
    found = run(world, work)
    for (first, second), calls in found:
        for outcomes, value in ((first, right), (second, 10 * right)):
            for each in outcomes:
                assert each == value or str(each).startswith("AgreementError: the workers disagree at exchange"), each
        assert calls == 121


def test_calls_that_come_in_one_order_on_all_workers_are_right(port: int) -> None:
    """The first has two exchanges, one of states and one of records."""

    def work(rank: int) -> Any:
        sys.setswitchinterval(1e-5)
        comm = member(rank, 2, port)
        both = fm.MetricCollection({"count": fm.Count(), "exact": fm.ExactAUC()})
        both.add([0.1, 0.9, 0.4], [0, 1, rank])
        other = metric(fm.Sum, "other", rank, 1)
        found = []
        for _ in range(20):
            over = threading.Event()

            def first(over: threading.Event = over) -> Any:
                try:
                    return outcome(lambda: both.compute(communicator=comm, timeout=20))
                finally:
                    over.set()

            def second(over: threading.Event = over) -> Any:
                in_exchange(comm, 1, over.is_set)
                return outcome(lambda: other.compute(communicator=comm, timeout=20))

            found.append(side_by_side(first, second))
            comm.barrier(timeout=20)
        return found

    for found in run(2, work):
        for values, sums in found:
            assert values == {"count": 6, "exact": pytest.approx(17 / 18)} and sums == 3, found


@pytest.mark.parametrize("what", ["large states", "a large gather"])
def test_the_pieces_of_a_large_call_stay_together(port: int, what: str) -> None:
    """Two calls of one name and shape: in mixed order their pieces would be joined, unnoticed."""
    size = 300_000

    def work(rank: int) -> Any:
        sys.setswitchinterval(1e-5)
        comm = member(rank, 2, port)

        def call(number: int) -> Any:
            array = np.full(size, number * 2**40)
            if what == "large states":
                return outcome(lambda: comm.all_reduce(array, timeout=20)[[0, -1]].tolist())
            return outcome(lambda: [part[[0, -1]].tolist() for part in comm.all_gather(array, timeout=20)])

        def both() -> list[Any]:
            over = threading.Event()

            def first() -> Any:
                found = call(1)
                over.set()
                return found

            def second() -> Any:
                in_exchange(comm, 1, over.is_set)  # the first may be over before this thread has looked
                return call(5)

            return side_by_side(first, second)

        return [both() for _ in range(3)]

    once = {1: [2 * 2**40] * 2, 5: [10 * 2**40] * 2}
    if what != "large states":
        once = {number: [[number * 2**40] * 2] * 2 for number in (1, 5)}  # type: ignore[misc]
    for found in run(2, work):
        assert found == [[once[1], once[5]]] * 3


def test_a_call_does_not_wait_for_that_of_another_thread(port: int, tmp_path: Path) -> None:
    """Nor does one that gives up harm the other."""

    def work(rank: int) -> Any:
        comm, begun = member(rank, 2, port), threading.Event()

        def slow() -> Any:
            with comm.call("slow", 20) as call:
                begun.set()
                if rank == 0:
                    wait_for(tmp_path / "given up")
                return call.reduce([Block("array", "sum", np.array([1]))])[0].tolist()

        def quick() -> Any:
            assert begun.wait(AT_ONCE)
            found = [outcome(lambda: comm.all_reduce([10], timeout=20).tolist())]
            if rank == 1:
                found.append(outcome(lambda: comm.barrier(timeout=0.3)))
                (tmp_path / "given up").touch()
            return found

        return side_by_side(lambda: outcome(slow), quick)

    zero, one = run(2, work)
    assert zero == [[2], [[20]]] and one[0] == [2] and one[1][0] == [20]
    assert one[1][1].startswith("DeadlineError: rank 0 did not arrive within 0.3 s at exchange 3 (barrier)")


def test_no_call_of_another_thread_comes_between_the_exchanges_of_a_save(port: int, tmp_path: Path) -> None:
    """On rank 0 the other thread is in line while the first exchange goes on, on rank 1 it comes after the save."""
    saved = tmp_path / "saved"

    def work(rank: int) -> Any:
        comm = member(rank, 2, port)
        count, other = (metric(fm.Sum, name, rank, times) for name, times in (("saved", 1), ("other", 10)))
        over = threading.Event()

        def save() -> Any:
            if rank == 1:
                wait_for(tmp_path / "in exchange")
            try:
                return outcome(lambda: fm.save(saved, count, communicator=comm, timeout=20))
            finally:
                over.set()

        def call() -> Any:
            if rank == 1:
                assert over.wait(AT_ONCE)
            else:
                in_exchange(comm, 1)
            return outcome(lambda: other.compute(communicator=comm, timeout=20))

        def look() -> None:
            if rank == 0:
                in_exchange(comm, 2)
                (tmp_path / "in exchange").touch()

        results = side_by_side(save, call, look)
        again = metric(fm.Sum, "saved", rank, 7)
        fm.load(saved, again, communicator=comm, timeout=20)
        return results, again.compute(communicator=comm, timeout=20)

    assert run(2, work) == [([None, 30.0, None], 3.0)] * 2


def test_a_thread_computes_while_the_formula_of_another_runs(port: int) -> None:
    def work(rank: int) -> Any:
        comm = member(rank, 2, port)
        begun, over = threading.Event(), threading.Event()

        class Slow(fm.Sum):
            def formula(self, **states: Any) -> Any:
                begun.set()
                assert over.wait(AT_ONCE)
                return super().formula(**states)

        slow, other = metric(Slow, "slow", rank, 1), metric(fm.Sum, "other", rank, 10)

        def second() -> Any:
            assert begun.wait(AT_ONCE)
            try:
                return outcome(lambda: other.compute(communicator=comm, timeout=3))
            finally:
                over.set()

        return side_by_side(lambda: outcome(lambda: slow.compute(communicator=comm, timeout=20)), second)

    assert run(2, work) == [[3.0, 30.0]] * 2
