"""UtilCommunicator over imitations of fleet.util: workers are threads that meet in a fake all_reduce."""

from __future__ import annotations

import copy
import gc
import math
import threading
import warnings
import weakref
from typing import Any, Callable

import numpy as np
import pytest

from fleetmetrics.comm import Block, Letter, UtilCommunicator, communicator_for, util
from fleetmetrics.errors import (
    AgreementError,
    CommunicatorError,
    DeadlineError,
    IntegerOverflowError,
    InvalidInputError,
    NoChannelError,
)
from fleetmetrics.numbers.reductions import combine

pytestmark = pytest.mark.numpy_only


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

    def _worker_num(self) -> int:
        return len(self.shared["inputs"])

    def all_reduce(self, input: list[int], mode: str) -> list[int]:
        self.calls += 1
        assert mode == "sum" and all(type(number) is int and 0 <= number < 2**53 for number in input)
        self.shared["inputs"][self.rank] = list(input)
        self.shared["barrier"].wait(60)
        columns = list(zip(*self.shared["inputs"]))
        assert len({len(given) for given in self.shared["inputs"]}) == 1
        self.shared["barrier"].wait(60)
        result = list(map(sum, columns))
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
            results[rank] = work(UtilCommunicator(utils[rank]), rank)
        except BaseException as error:
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
    results, _ = together(lambda comm, rank: comm.all_reduce(values(kind, rank), reduction))
    expected = combine(reduction, [values(kind, rank) for rank in range(3)])
    assert [bits(result) for result in results] == [bits(expected)] * 3


def test_many_states_take_four_sums_after_the_one_that_tells_the_workers_apart() -> None:
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
    assert calls == 1 + 4


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
    assert f"position [1] is {3 * 2**62}" in the_one_error(results, IntegerOverflowError)
    results, _ = together(lambda comm, rank: comm.all_reduce([1] if rank < 2 else ["x"]))
    assert the_one_error(results, InvalidInputError).startswith(
        "on rank 2: array must hold bools, integers or floats, not strings such as"
    )
    results, _ = together(lambda comm, rank: comm.all_reduce([1] if rank < 2 else [1, 2]))
    assert "shape [1] on ranks 0, 1, [2] on rank 2" in the_one_error(results, AgreementError)


@pytest.mark.parametrize("slots", [4, 8, util._SLOTS])
def test_workers_without_ranks_draw_lots(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "_SLOTS", slots)
    results, _ = together(lambda comm, rank: [comm.all_gather([rank]), comm.rank, comm.world_size], knows_rank=False)
    order = [int(part[0]) for part in results[0][0]]
    assert sorted(order) == [0, 1, 2]
    for rank, (gathered, drawn, world_size) in enumerate(results):
        assert [int(part[0]) for part in gathered] == order
        assert order[drawn] == rank and world_size == 3
    results, _ = together(lambda comm, rank: comm.all_reduce([1] if rank < 2 else ["x"]), knows_rank=False)
    assert "array must hold bools, integers or floats" in the_one_error(results, InvalidInputError)


@pytest.mark.parametrize("bring, take", [(0, 0), (100, 7), (10**5, 0), (0, 10**5), (10**4, 10**4), (10**5, 10**5)])
def test_letters_and_answers_of_any_length_arrive_to_the_byte(bring: int, take: int) -> None:
    def work(comm: UtilCommunicator, rank: int) -> Any:
        def decide(letters: Any) -> Letter:
            assert [letter.note for letter in letters] == [[0], [1], [2]]
            assert [bytes(letter.payload) for letter in letters] == [random_bytes(r, r * bring) for r in range(3)]
            return Letter({"n": 1}, [random_bytes(9, take), b"end"])

        return comm.consult("c", decide, [rank], random_bytes(rank, rank * bring))

    for note, payload in together(work)[0]:
        assert note == {"n": 1} and bytes(payload) == random_bytes(9, take) + b"end"


def random_bytes(seed: int, size: int) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def test_different_calls_are_the_same_error_everywhere() -> None:
    results, _ = together(lambda comm, rank: comm.barrier() if rank else comm.all_reduce([1]))
    text = the_one_error(results, AgreementError)
    assert text.startswith("the workers disagree at exchange 1: all_reduce(array int64[1]) on rank 0, barrier")


def test_an_interruption_of_rank_0_while_it_decides_interrupts_all() -> None:
    def decide(letters: Any) -> Letter:
        raise KeyboardInterrupt

    results, _ = together(lambda comm, rank: comm.consult("auc", decide))
    assert type(results[0]) is KeyboardInterrupt
    assert "rank 0 was interrupted (KeyboardInterrupt) at exchange 1 (auc)" in the_one_error(
        results[1:], CommunicatorError
    )


def test_an_exchange_within_an_exchange_is_an_error_and_the_next_one_works() -> None:
    def work(comm: UtilCommunicator, rank: int) -> Any:
        with pytest.raises(CommunicatorError, match=r"exchange 1 \(auc\) is not over"):
            comm.consult("auc", lambda letters: comm.consult("inner", lambda letters: Letter(None)))
        return comm.all_reduce([rank])

    assert [result.tolist() for result in together(work)[0]] == [[3]] * 3


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
    given = Doubling()
    assert communicator_for(given) is communicator_for(given)
    assert communicator_for(copy.copy(given)) is not communicator_for(given)


def test_an_object_without_attributes_has_a_communicator_at_every_call() -> None:
    class Slotted:
        __slots__ = ()
        all_reduce = Doubling.all_reduce

    assert communicator_for(Slotted()).all_reduce([3]).tolist() == [6]


def test_an_object_that_nobody_holds_is_freed_with_its_communicator() -> None:
    given = Doubling()
    communicator_for(given).all_reduce([1])
    held = weakref.ref(given)
    del given
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("given", [object(), 3, type("Bad", (), {"all_reduce": 1})()])
def test_a_util_without_all_reduce_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInputError, match="no all_reduce"):
        UtilCommunicator(given)


def test_a_silently_local_util_is_refused_without_its_warning() -> None:
    class Local:
        def __init__(self, workers: int) -> None:
            self.role_maker = type("RoleMaker", (), {"_worker_num": lambda _: workers, "_worker_index": lambda _: 0})()

        def all_reduce(self, input: list[int], mode: str) -> list[int]:
            warnings.warn("Gloo is not initialized", stacklevel=1)
            return input

    assert UtilCommunicator(Local(1)).all_reduce([3]).tolist() == [3]
    with warnings.catch_warnings(), pytest.raises(NoChannelError, match=r"covers 1 worker, but .*WITH_GLOO=1"):
        warnings.simplefilter("error")
        UtilCommunicator(Local(2)).all_reduce([3])


class Bad:
    def __init__(self, answer: Callable[[list[int]], Any]) -> None:
        self.answer = answer

    def all_reduce(self, input: list[int], mode: str) -> Any:
        return self.answer(input)


def test_a_util_that_hangs_is_an_error_in_time_and_is_not_used_again() -> None:
    gate = threading.Event()
    comm = UtilCommunicator(Bad(lambda _: gate.wait(20)))
    with pytest.raises(DeadlineError, match=r"not ready within 0.3 s at exchange 1 \(all_reduce\)"):
        comm.all_reduce([1], timeout=0.3)
    gate.set()
    with pytest.raises(CommunicatorError, match=r"at exchange 1 .* util is unusable"):
        comm.all_reduce([1])


@pytest.mark.parametrize(
    "answer, text",
    [
        (lambda _: 1 // 0, r"util.all_reduce failed \(ZeroDivisionError: .* at exchange 1 \(all_reduce\)"),
        (lambda _: None, "received 8193 numbers and returned 1"),
        (lambda numbers: numbers[:1], "received 8193 numbers and returned 1"),
        (lambda numbers: [0] * len(numbers), "does not add up whole numbers: .* became 0"),
        (lambda numbers: np.array(numbers, np.float32) * 2, "does not add up whole numbers"),
    ],
)
def test_a_util_that_fails_shortens_or_rounds(answer: Any, text: str) -> None:
    with pytest.raises(CommunicatorError, match=text):
        UtilCommunicator(Bad(answer)).all_reduce([1])


def test_closed() -> None:
    with UtilCommunicator(Doubling()) as comm:
        pass
    with pytest.raises(CommunicatorError, match="closed"):
        comm.barrier()
