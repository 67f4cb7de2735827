"""UtilCommunicator over imitations of fleet.util: workers are threads that meet in a fake all_reduce."""

from __future__ import annotations

import math
import threading
import warnings
from typing import Any, Callable

import numpy as np
import pytest

from fleetmetrics.comm import Block, UtilCommunicator, communicator_for
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import (
    AgreementError,
    CommunicatorError,
    DeadlineError,
    IntegerOverflowError,
    InvalidInputError,
    NoChannelError,
)
from fleetmetrics.numbers import combine


class Doubling:
    """Two workers that always bring the same."""

    def all_reduce(self, input: list[int], mode: str) -> np.ndarray:
        return np.array(input) * 2


class Threaded:
    """One of several workers; insists on what Paddle's own reduces exactly."""

    def __init__(self, shared: dict[str, Any], rank: int, knows_rank: bool) -> None:
        self.shared, self.rank, self.calls = shared, rank, 0
        if knows_rank:
            self.role_maker = self

    def _worker_index(self) -> int:
        return self.rank

    def all_reduce(self, input: list[int], mode: str) -> list[int]:
        self.calls += 1
        assert all(type(number) is int and 0 <= number < 2**53 for number in input)
        self.shared["inputs"][self.rank] = list(input)
        self.shared["barrier"].wait(10)
        columns = list(zip(*self.shared["inputs"]))
        assert len({len(given) for given in self.shared["inputs"]}) == 1
        self.shared["barrier"].wait(10)
        result = [{"sum": sum, "max": max, "min": min}[mode](column) for column in columns]
        assert all(number < 2**53 for number in result)
        return result


def together(
    work: Callable[[UtilCommunicator, int], Any], workers: int = 3, knows_rank: bool = True
) -> tuple[list[Any], int]:
    """Run on all workers; return what each returned or raised, and the number of reductions."""
    shared = {"inputs": [None] * workers, "barrier": threading.Barrier(workers)}
    utils = [Threaded(shared, rank, knows_rank) for rank in range(workers)]
    results: list[Any] = [None] * workers

    def run(rank: int) -> None:
        try:
            results[rank] = work(UtilCommunicator(utils[rank], Job()), rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results, utils[0].calls


def bits(array: np.ndarray) -> list[int]:
    return array.view(np.int64).reshape(-1).tolist()


def values(kind: str, rank: int) -> np.ndarray:
    rng = np.random.default_rng(rank)
    if kind == "int":
        return rng.integers(-(2**60), 2**60, 50)
    if kind == "bits":
        return rng.integers(0, 2**64, 300, dtype=np.uint64).view(np.float64)
    if kind == "wide":
        return rng.standard_normal(100) * 10.0 ** rng.integers(-300, 300, 100)
    special = np.array([0.0, -0.0, math.nan, math.inf, -math.inf, 1.7e308, 5e-324, 1.0])
    return special if kind == "same special" else rng.permutation(special)


@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
@pytest.mark.parametrize("kind", ["int", "bits", "wide", "special", "same special"])
def test_the_same_bits_as_the_other_communicators(kind: str, reduction: str) -> None:
    results, calls = together(lambda comm, rank: comm.all_reduce(values(kind, rank), reduction))
    expected = combine(reduction, [values(kind, rank) for rank in range(3)])
    assert [bits(result) for result in results] == [bits(expected)] * 3
    assert calls == (2 if reduction == "sum" else 3)


def test_many_states_in_four_reductions() -> None:
    def work(comm: UtilCommunicator, rank: int) -> list[np.ndarray]:
        blocks = [
            Block("hits", "sum", np.array([[2**24 + 1, -rank]])),
            Block("loss", "sum", np.array(16777217.0)),
            Block("top", "max", np.array([-rank])),
            Block("low", "min", np.array([rank + 0.5])),
            Block("empty", "sum", np.empty((0, 3))),
        ]
        return comm.reduce("many", blocks)

    results, calls = together(work)
    for hits, loss, top, low, empty in results:
        assert hits.tolist() == [[3 * (2**24 + 1), -3]]
        assert (loss.shape, float(loss)) == ((), 3 * 16777217.0)
        assert (top.tolist(), low.tolist(), empty.shape) == ([0], [0.5], (0, 3))
    assert calls == 4


def test_an_integer_beside_a_float_is_promoted() -> None:
    results, _ = together(lambda comm, rank: comm.all_reduce([2**53 + 2, rank] if rank else [0.5, -0.0]))
    expected = combine("sum", [np.array([0.5, 0.0]), np.array([2.0**53 + 2, 1]), np.array([2.0**53 + 2, 2])])
    assert [result.tolist() for result in results] == [expected.tolist()] * 3


def the_one_error(results: list[Any], kind: type[Exception]) -> str:
    assert {type(result) for result in results} == {kind}, results
    texts = {str(result) for result in results}
    assert len(texts) == 1, texts
    return texts.pop()


def test_overflow_trouble_and_disagreement_reach_all() -> None:
    results, _ = together(lambda comm, rank: comm.all_reduce([1, 2**62]))
    assert f"position 1 (flat) is {3 * 2**62}" in the_one_error(results, IntegerOverflowError)
    results, _ = together(lambda comm, rank: comm.all_reduce([1] if rank < 2 else ["x"]))
    assert the_one_error(results, InvalidInputError).startswith(
        "on rank 2: array must hold bools, integers or floats, not <U1"
    )
    results, _ = together(lambda comm, rank: comm.all_reduce([1] if rank < 2 else [1, 2]))
    assert "shape [1] on ranks 0, 1, [2] on rank 2" in the_one_error(results, AgreementError)


def test_errors_are_the_same_where_no_rank_is_known() -> None:
    results, _ = together(lambda comm, rank: comm.all_reduce([1] if rank < 2 else ["x"]), knows_rank=False)
    assert the_one_error(results, InvalidInputError).startswith("on one worker: array must hold bools")
    results, _ = together(lambda comm, rank: comm.all_reduce([1] * (rank + 1)), knows_rank=False)
    assert "util does not say on which" in the_one_error(results, AgreementError)
    results, _ = together(lambda comm, rank: comm.all_gather([rank]), knows_rank=False)
    assert "does not say which of them this is" in the_one_error(results, CommunicatorError)


def test_gather_and_broadcast_with_known_ranks() -> None:
    results, _ = together(lambda comm, rank: comm.all_gather(np.arange(rank) * 1.5))
    assert [[part.tolist() for part in result] for result in results] == [[[], [0.0], [0.0, 1.5]]] * 3
    results, _ = together(lambda comm, rank: comm.broadcast([f"from {rank}"], 2))
    assert [result.tolist() for result in results] == [["from 2"]] * 3
    results, _ = together(lambda comm, rank: comm.all_gather(["x"] if rank else [1]))
    assert "cannot be joined" in the_one_error(results, AgreementError)


def test_a_mock_that_doubles() -> None:
    comm = communicator_for(Doubling())
    assert comm.world_size == 2
    assert comm.all_reduce([1, -5, 2**24 + 1]).tolist() == [2, -10, 2**25 + 2]
    assert comm.all_reduce([0.1, -1.5]).tolist() == [0.2, -3.0]


def test_one_object_one_communicator() -> None:
    util = Doubling()
    assert communicator_for(util) is communicator_for(util)


@pytest.mark.parametrize("util", [object(), 3, type("Bad", (), {"all_reduce": 1})()])
def test_a_util_without_all_reduce_is_refused(util: Any) -> None:
    with pytest.raises(InvalidInputError, match="no all_reduce"):
        UtilCommunicator(util)


def test_a_silently_local_util_is_refused_without_its_warning() -> None:
    class Local:
        def all_reduce(self, input: list[int], mode: str) -> list[int]:
            warnings.warn("Gloo is not initialized", stacklevel=1)
            return input

    comm = UtilCommunicator(Local(), Job(rank=0, world_size=1))
    assert comm.all_reduce([3]).tolist() == [3]
    comm._job = Job(rank=0, world_size=2, endpoints="127.0.0.1:1,127.0.0.1:2")
    with warnings.catch_warnings(), pytest.raises(NoChannelError, match="PADDLE_WITH_GLOO=1"):
        warnings.simplefilter("error")
        comm.all_reduce([3])


def test_a_util_that_hangs_fails_or_shortens() -> None:
    class Bad:
        def __init__(self, answer: Callable[[list[int]], Any]) -> None:
            self.answer = answer

        def all_reduce(self, input: list[int], mode: str) -> Any:
            return self.answer(input)

    gate = threading.Event()
    with pytest.raises(DeadlineError, match=r"not ready within .* s at exchange 1"):
        UtilCommunicator(Bad(lambda _: gate.wait(20))).all_reduce([1], timeout=0.3)
    gate.set()
    with pytest.raises(CommunicatorError, match=r"util.all_reduce failed: ZeroDivisionError"):
        UtilCommunicator(Bad(lambda _: 1 // 0)).all_reduce([1])
    with pytest.raises(CommunicatorError, match="gave back 1"):
        UtilCommunicator(Bad(lambda numbers: numbers[:1])).all_reduce([1])


def test_closed() -> None:
    with UtilCommunicator(Doubling()) as comm:
        pass
    with pytest.raises(CommunicatorError, match="closed"):
        comm.barrier()
