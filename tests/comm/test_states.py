"""States as bytes, their reduction, and what peers say of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fleetmetrics.comm import Block, Letter
from fleetmetrics.comm.communicator import Communicator, Decide
from fleetmetrics.comm.letters import read_each
from fleetmetrics.comm.states import describe, layout_of, pack, read_packed, reduced, unpack
from fleetmetrics.errors import (
    CommunicatorError,
    IntegerOverflowError,
)
from fleetmetrics.numbers.reductions import combine
from fleetmetrics.serial.descriptions import joined

EDGES = [
    (0, "1"),
    (2**7 - 1, "1"),
    (2**7, "2"),
    (2**15 - 1, "2"),
    (2**15, "4"),
    (2**31 - 1, "4"),
    (2**31, "8"),
    (2**63 - 1, "8"),
]
LOW = [
    (-(2**7), "1"),
    (-(2**7) - 1, "2"),
    (-(2**15), "2"),
    (-(2**15) - 1, "4"),
    (-(2**31), "4"),
    (-(2**31) - 1, "8"),
    (-(2**63), "8"),
]


@pytest.mark.parametrize(("extreme", "name"), EDGES + LOW)
def test_integers_are_sent_in_the_narrowest_type_that_holds_them(extreme: int, name: str) -> None:
    array = np.zeros(64, np.int64)
    array[5] = extreme
    data = b"".join(pack([array]))
    assert data[:1] == name.encode()
    assert len(data) == 8 + 64 * int(name)
    [again] = read_packed(((64, array.dtype),), data)
    np.testing.assert_array_equal(again, array)


def test_sums_of_narrow_integers_are_wide() -> None:
    array = np.full(64, 2**15 - 1)
    layout = describe("auc", [Block("a", "sum", array), Block("b", "max", np.array([0.5]))])
    payload = b"".join(pack([array, np.array([0.5])], layout.members))
    first, second = unpack(layout, b"".join(reduced([layout] * 3, layout, [payload] * 3)))
    assert (first.tolist(), second.tolist()) == ([3 * (2**15 - 1)] * 64, [0.5])


@pytest.mark.parametrize("largest", [100, 2**15 - 1, 2**31 - 1, 2**55])
@pytest.mark.parametrize("other", [None, 70, 199])
def test_many_workers_are_reduced_as_few_are(largest: int, other: int | None) -> None:
    random, kinds = np.random.default_rng(0), [("a", "sum", 80), ("b", "sum", 2), ("c", "max", 3), ("d", "min", 70)]
    workers = []
    for rank in range(200):
        whole = [random.integers(-largest, largest, size, endpoint=True) for _, _, size in kinds]
        whole[0][0] = largest if rank != other else 2**56  # of a type of its own
        workers.append([*whole, random.normal(size=5) * 10.0 ** random.integers(-20, 20, 5), random.normal(size=2)])
    names = [*[(name, how) for name, how, _ in kinds], ("e", "sum"), ("f", "max")]
    layout = describe("auc", [Block(*name, array) for name, array in zip(names, workers[0])])
    payloads = [b"".join(pack(arrays, layout.members)) for arrays in workers]
    found = unpack(layout, b"".join(reduced([layout] * 200, layout, payloads)))
    for (_, how), one, column in zip(names, found, zip(*workers)):
        alone = combine(how, list(column))
        np.testing.assert_array_equal(one, alone)
        assert (one.dtype, one.shape) == (alone.dtype, alone.shape)


ODD = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.5, 1e308, 5e-324, 2.0**53]


@pytest.mark.parametrize("workers", [2, 3, 5, 70])
@pytest.mark.parametrize("states", [6, 60, 300])
def test_states_of_a_few_numbers_have_the_bits_of_each_alone(workers: int, states: int) -> None:
    """Whatever lies beside them, and whether Python or NumPy reduces them."""
    random = np.random.default_rng(workers)
    hows = ["sum", "max", "min", "moments"]
    kinds = [(f"s{n}", hows[n % 4], [4, 1, 8, 3][n % 4] if n % 4 else 1 + n % 8) for n in range(states)]
    kinds = [(name, how, 4 if how == "moments" else size) for name, how, size in kinds]

    def drawn(how: str, size: int, floats: bool) -> np.ndarray:
        if how == "moments":
            return np.append(random.integers(1, 9, 1), random.random(3))
        return random.choice(ODD, size) if floats else random.integers(-(2**40), 2**40, size)

    dtypes = [how == "moments" or bool(random.integers(2)) for _, how, _ in kinds]
    held = [[drawn(how, size, floats) for (_, how, size), floats in zip(kinds, dtypes)] for _ in range(workers)]
    layout = describe("call", [Block(name, how, array) for (name, how, _), array in zip(kinds, held[0])])
    payloads = [joined(pack(arrays, layout.members)) for arrays in held]
    found = unpack(layout, joined(reduced([layout], layout, payloads)))
    for (name, how, _), array, parts in zip(kinds, found, zip(*held)):
        assert array.tobytes() == combine(how, list(parts)).tobytes(), (name, how)
    assert len(layout.groups) <= 7  # one for each reduction and dtype


@pytest.mark.parametrize("beside", [[], [("a", "sum", np.array([2, 3])), ("b", "max", np.array(0.5))]])
def test_states_without_numbers_stay_so_beside_others(beside: list[tuple[str, str, np.ndarray]]) -> None:
    states = [("none", "sum", np.empty(0, np.int64)), *beside, ("nor here", "max", np.empty((3, 0)))]
    layout = describe("call", [Block(*state) for state in states])
    payload = joined(pack([array for *_, array in states], layout.members))
    found = unpack(layout, joined(reduced([layout], layout, [payload] * 3)))
    assert [each.shape for each in found] == [array.shape for *_, array in states]
    assert [each.tolist() for each in found[1:-1]] == [[6, 9], 0.5][: len(beside)]


def test_a_sum_of_a_few_numbers_that_is_too_large_names_its_state() -> None:
    layout = describe("n", [Block("least", "min", np.array(5)), Block("total", "sum", np.array(1))])
    payload = joined(pack([np.array(5), np.array(2**62)], layout.members))
    with pytest.raises(IntegerOverflowError, match="n, state 'total': the sum over 2 workers"):
        reduced([layout], layout, [payload, payload])


def test_many_payloads_of_one_size_and_other_types_are_told_apart() -> None:
    narrow, wide = np.full(64, 100), np.full(64, 1000)
    layout = describe("auc", [Block("a", "sum", narrow), Block("b", "max", narrow)])
    workers = [[narrow, wide], [wide, narrow]] * 40
    payloads = [b"".join(pack(arrays, layout.members)) for arrays in workers]
    assert len(set(map(len, payloads))) == 1
    found = unpack(layout, b"".join(reduced([layout] * 80, layout, payloads)))
    assert [each.tolist() for each in found] == [[44000] * 64, [1000] * 64]


def test_a_sum_of_many_workers_that_is_too_large_names_the_state_and_an_unreadable_one_its_rank() -> None:
    array = np.full(2, 2**57)
    layout = describe("auc", [Block("a", "sum", array)])
    payloads = [b"".join(pack([array], layout.members))] * 64
    with pytest.raises(
        IntegerOverflowError, match=r"auc, state 'a': the sum over 64 workers .* is 9223372036854775808"
    ):
        reduced([layout] * 64, layout, payloads)
    with pytest.raises(CommunicatorError, match="the message from rank 70 cannot be read"):
        reduced([layout] * 80, layout, [*payloads, *payloads[:6], payloads[0][:-1], *payloads[:9]])


@pytest.mark.parametrize(
    "blocks",
    [
        [["a", "sum", "S2147483647", [1]]],
        [["a", "sum", "O", [1]]],
        [["a", "sum", "int64", [-1]]],
        [["a", "sum", "int64", [True]]],
        [["a", "sum", "int64", [2**32, 2**32]]],
        [["a", "sum", "int64", [10**30, 0]]],
        [["a", 1, "int64", []]],
        [["a", "sum", "int64"]],
        {},
    ],
)
def test_a_layout_that_no_worker_sends_is_refused(blocks: Any) -> None:
    with (
        pytest.raises(CommunicatorError, match="the message from rank 1 cannot be read")
        if blocks
        else pytest.raises(KeyError)
    ):
        found = read_each([json.dumps(["auc", [], ""]), json.dumps(["auc", blocks, ""])], layout_of)
        raise KeyError(found)


class Liar(Communicator):
    """Rank 0 of 2, where rank 1 tags the numbers of its payload, or of its first chunk, with another type."""

    rank, world_size = 0, 2

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def _consult(self, call: str, decide: Decide, mine: Letter, *_: Any) -> Letter:
        lie = bytearray(joined(mine.payload))
        lie[:1] = self.tag.encode()
        return decide([Letter(mine.note, joined(mine.payload)), Letter(mine.note, lie)])


@pytest.mark.parametrize("size", [1, 70_000])
@pytest.mark.parametrize("reduction", ["sum", "max"])
@pytest.mark.parametrize(("dtype", "tag"), [("int64", "d"), ("float64", "8")])
def test_numbers_of_another_type_than_their_state_are_refused_with_the_rank(
    dtype: str, tag: str, reduction: str, size: int
) -> None:
    block = Block("a", reduction, np.full(size, 2**40, dtype))
    with pytest.raises(CommunicatorError, match=f"the message from rank 1 cannot be read .*{tag!r} numbers.* {dtype}"):
        Liar(tag).reduce("auc", [block])


@pytest.mark.parametrize("tag", ["2", "4"])
def test_narrow_numbers_are_integers(tag: str) -> None:
    layout = describe("auc", [Block("a", "sum", np.array([0.5]))])
    with pytest.raises(ValueError, match=f"{tag!r} numbers, but the state is float64"):
        unpack(layout, tag.encode().ljust(16, b"\0"))
