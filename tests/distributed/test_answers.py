"""``compute_async``: the answer is that over the samples added before the call, or the error of every worker."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm import LocalCommunicator, UtilCommunicator
from tests.distributed.cluster import AT_ONCE, free_ports
from tests.distributed.forks import crew, member, outcome, results, run, wait_for

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def filled(rank: int) -> fm.MetricCollection:
    """Sums, a large histogram, records, and rows by key."""
    metrics = fm.MetricCollection(
        {
            "sum": fm.Sum(),
            "auc": fm.AUC(),
            "exact": fm.ExactAUC(),
            "sliced": fm.Sliced(fm.Mean(), by="slot"),
        },
        name="all",
    )
    add(metrics, rank)
    return metrics


def add(metrics: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    metrics.add(rng.random(50), rng.integers(0, 2, 50), slot=rng.integers(0, 5, 50))


def test_neither_add_nor_reset_nor_other_calls_change_an_answer(port: int) -> None:
    """Each worker does something else before it asks, also begins and ends other calls."""

    def work(rank: int) -> Any:
        comm, metrics, other = member(rank, 3, port), filled(rank), fm.Sum(name="other")
        expected = metrics.compute(communicator=comm, timeout=30)
        answer = metrics.compute_async(communicator=comm, timeout=30)
        if rank == 1:
            metrics.reset()
        elif rank == 2:
            add(metrics, 9)
            assert comm.rank == 2
        other.add([1.0])
        between = other.compute(communicator=comm, timeout=30)
        changed = metrics.compute(communicator=comm, timeout=30)
        answers = [metrics.compute_async(communicator=comm, timeout=30) for _ in range(3)]
        later = [each.result() for each in reversed(answers)]
        return expected == answer.result() == answer.result(), between, later == [changed] * 3, changed != expected

    assert run(3, work) == [(True, 3.0, True, True)] * 3


def test_it_returns_before_the_others_come_and_tells_when_it_is_done(port: int, tmp_path: Path) -> None:
    """Rank 0 has begun two calls, and none is done, when rank 1 begins the first of its own."""
    begun = tmp_path / "begun"

    def work(rank: int) -> Any:
        comm = member(rank, 2, port)
        one, two = fm.Sum(name="one"), fm.Sum(name="two")
        one.add([1.0 + rank])
        two.add([10.0 + rank])
        if rank == 1:
            wait_for(begun)
        answers = [metric.compute_async(communicator=comm, timeout=60) for metric in (one, two)]
        waits = None
        if rank == 0:
            waits = [answer.done() for answer in answers], outcome(lambda: answers[1].result(timeout=0))
            begun.touch()
        values = answers[1].result(timeout=1e20), answers[0].result()  # more seconds than any clock has
        assert all(answer.done() for answer in answers) and "done" in repr(answers[0])
        return waits, values

    (waits, values), (_, others) = run(2, work)
    assert values == others == (21.0, 3.0)
    done, early = waits
    assert done == [False, False]
    assert early.startswith("NotReadyError: Sum two has no answer after 0 s") and "Ask again" in early


def test_a_missing_worker_is_named_in_every_result_by_the_deadline(port: int, tmp_path: Path) -> None:
    asked = tmp_path / "asked"

    def work(rank: int) -> Any:
        comm, metric = member(rank, 3, port), fm.Sum(name="total")
        metric.add([1.0])
        comm.barrier(timeout=30)
        if rank == 2:
            wait_for(asked)
            return metric.compute(communicator=comm, timeout=30)
        found = outcome(metric.compute_async(communicator=comm, timeout=3).result)
        if rank == 0:
            asked.touch()
        return found

    first, second, late = results_of(3, work)
    assert first == second and first.startswith("DeadlineError: rank 2 did not arrive within 3 s"), first
    assert "DeadlineError: rank 2" in late


def results_of(world: int, work: Any) -> list[Any]:
    with crew(world, lambda rank: outcome(lambda: work(rank))) as workers:
        found: list[Any] = results(workers)
    return found


def test_workers_that_differ_get_the_same_error(port: int) -> None:
    """In metric, in settings, in the order of calls; the next call works."""

    def work(rank: int) -> Any:
        comm = member(rank, 2, port)
        metrics = [fm.Sum(name="one"), fm.Mean(name="two"), fm.Accuracy(name="three", threshold=0.5 + rank / 10)]
        for metric in metrics[:2]:
            metric.add([1.0])
        metrics[2].add([0.9], [1])
        order = metrics[:2] if rank else metrics[1::-1]
        answers = [metric.compute_async(communicator=comm, timeout=30) for metric in [*order, metrics[2]]]
        errors = [outcome(answer.result) for answer in answers]
        return errors, metrics[0].compute(communicator=comm, timeout=30)

    (errors, value), others = run(2, work)
    assert (errors, value) == others and value == 2.0
    assert all(error.startswith("AgreementError: ") for error in errors), errors
    assert "threshold" in errors[2]


def test_an_error_of_one_worker_before_the_exchange_is_that_of_all(port: int) -> None:
    """Such as an unfinished pass: the worker's own call returns at once, too."""

    def work(rank: int) -> Any:
        comm, metric = member(rank, 2, port), fm.Sum(name="total")
        metric.add([1.0])
        answer = metric.compute_async(communicator=comm, timeout=30, partial=2 if rank else False)
        return outcome(answer.result)

    first, second = run(2, work)
    assert first == second and "partial" in first


def test_a_collection_of_tasks_and_a_static_value_are_answered_alone() -> None:
    metrics = fm.MetricCollection.of_tasks({"ctr": {"prediction": "p", "label": "y"}}, {"auc": fm.AUC()})
    metrics.add({"p": [0.1, 0.9], "y": [0, 1]})
    answer = metrics.compute_async(communicator=LocalCommunicator())
    metrics.add({"p": [0.2, 0.9], "y": [1, 0]})
    assert answer.result() == {"ctr/auc": 1.0}


def test_warnings_come_once_and_in_the_thread_that_asks() -> None:
    answer = fm.Mean(name="empty").compute_async()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert np.isnan(answer.result()) and np.isnan(answer.result())
    assert [(warning.category, warning.filename) for warning in found] == [(fm.UndefinedMetricWarning, __file__)]


def test_a_channel_without_numbered_calls_refuses() -> None:
    class Util:
        def all_reduce(self, array: Any, mode: str) -> Any:
            return np.array(array)

    metric = fm.Sum()
    with pytest.raises(fm.CommunicatorError, match=r"UtilCommunicator carries one call at a time.*use compute.*leave"):
        metric.compute_async(communicator=UtilCommunicator(Util()))


def test_an_answer_stays_in_its_process() -> None:
    metric = fm.Sum(name="total")
    metric.add([1.0])
    answer = metric.compute_async()
    answer.result()
    (found,) = results_of(1, lambda _: answer.result())
    assert found.startswith("CommunicatorError: Sum total was called in process") and "forked child" in found


def test_a_timeout_that_is_none_is_refused() -> None:
    with pytest.raises(fm.InvalidInputError, match="timeout must be a finite number of at least 0"):
        fm.Sum().compute_async().result(timeout=-1)


def test_other_threads_may_add_while_copies_are_taken() -> None:
    """An answer has whole batches only: both columns of a batch, or none."""
    metrics = fm.MetricCollection({"sum": fm.Sum(), "exact": fm.Count(), "auc": fm.AUC(buckets=64)})
    stop = threading.Event()

    def adds() -> None:
        while not stop.is_set():
            metrics.add(np.full(3, 0.5), [0, 1, 1])

    thread = threading.Thread(target=adds)
    thread.start()
    try:
        metrics.add(np.full(3, 0.5), [0, 1, 1])
        for _ in range(30):
            values = metrics.compute_async().result(timeout=AT_ONCE)
            assert values["sum"] == 0.5 * values["exact"] and values["exact"] % 3 == 0
    finally:
        stop.set()
        thread.join()
