"""States with rows by key: all workers get the rows of all keys, to the bits that one sum of them has."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm import Block, Letter, RowKeys, rows, states
from fleetmetrics.comm.rows import letter_bytes
from fleetmetrics.numbers.reductions import combine, identity
from tests.fakes import Together, together

pytestmark = pytest.mark.numpy_only
STATES = {
    "counts": ("sum", "int64", ()),
    "sums": ("sum", "float64", (3,)),
    "maxima": ("max", "float64", ()),
    "minima": ("min", "int64", (2, 2)),
    "spread": ("moments", "float64", (2, 4)),
    "histogram": ("sum", "int64", (100,)),
    "nothing": ("sum", "int64", (3, 0)),
}


class Weighed(Together):
    """Notes how many bytes each letter has, and each answer."""

    def consult(self, call: str, decide: Any, note: Any = None, payload: Any = b"", **given: Any) -> Letter:
        told = super().consult(call, decide, note, payload, **given)
        parts = payload if isinstance(payload, list) else [payload]
        self.bytes = [*getattr(self, "bytes", []), (sum(map(len, parts)), len(told.payload))]
        return told


def drawn(rng: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "int64":
        return rng.integers(-(2**20), 2**20, shape)
    return rng.normal(size=shape) * 10.0 ** rng.integers(-8, 8, shape)


def blocks_of(rng: Any, keys: np.ndarray, limit: int, given: Any = STATES) -> list[Any]:
    """A worker's states: rows by key between states without."""
    found: list[Any] = [Block("alone", "sum", drawn(rng, "float64", (5,)))]
    for name, (how, dtype, shape) in given.items():
        rows = drawn(rng, dtype, (len(keys) + 1, *shape))
        if how == "moments":
            rows = np.abs(rows)
        found.append(Block(name, how, rows, "the keys"))
    return [*found, RowKeys("the keys", keys, limit), Block("last", "max", drawn(rng, "int64", ()))]


def reference(workers: Sequence[list[Any]], limit: int) -> list[np.ndarray]:
    """What the workers have together, key by key."""
    [keys] = [
        [block.array for block in blocks if isinstance(block, RowKeys)]
        for blocks in zip(*workers)
        if isinstance(blocks[0], RowKeys)
    ]
    kept = np.unique(np.concatenate([each for each in keys if len(each)] or [np.empty(0, np.int64)]))[:limit]
    found = []
    for blocks in zip(*workers):
        if isinstance(blocks[0], RowKeys):
            found.append(kept)
        elif not blocks[0].keys:
            found.append(combine(blocks[0].reduction, [block.array for block in blocks]))
        else:
            how, nothing = (
                blocks[0].reduction,
                np.full_like(blocks[0].array[0], identity(blocks[0].reduction, blocks[0].array.dtype)),
            )
            rows = []
            for key in kept:
                place = [np.flatnonzero(each == key) for each in keys]
                rows.append(combine(how, [b.array[at[0], ...] if len(at) else nothing for b, at in zip(blocks, place)]))
            others = [
                b.array[at, ...] for b, each in zip(blocks, keys) for at in [*np.flatnonzero(~np.isin(each, kept)), -1]
            ]
            found.append(np.stack([*rows, combine(how, others)]))
    return found


def dealt(seed: int, kind: str) -> tuple[list[list[Any]], int]:
    """The blocks of some workers, and how many keys are kept."""
    rng = np.random.default_rng(seed)
    every = np.sort(rng.choice(10**6, 40, replace=False)) - 5000
    names = np.sort(np.array([f"k{each}é" for each in every]))
    limit = [100, 40, 12, 1][seed % 4]
    workers = []
    for _ in range(rng.integers(2, 6)):
        own = {"same": np.arange(40), "apart": np.arange(len(workers), 40, 5)}.get(kind)
        if own is None:
            own = np.sort(rng.choice(40, rng.integers(0, 30), replace=False))
        keys = (names if seed % 3 == 0 else every)[own][:limit]
        workers.append(blocks_of(rng, keys if len(keys) else np.empty(0, np.int64), limit))
    return workers, limit


@pytest.mark.parametrize("most", [2**19, 2048, 128], ids=["at once", "in pieces", "in small pieces"])
@pytest.mark.parametrize("kind", ["same", "apart", "any"])
def test_rows_of_all_workers_are_summed_by_key_and_rounded_once(kind: str, most: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(states, "CHUNK_BYTES", most)
    monkeypatch.setattr(rows, "LETTER_BYTES", most)
    for seed in range(12):
        workers, limit = dealt(seed, kind)
        wanted = reference(workers, limit)

        def work(channel: Weighed, workers: Any = workers) -> Any:
            found = channel.reduce("call", workers[channel.rank], timeout=20)
            return found, channel.bytes

        for found, sizes in together([work] * len(workers), Weighed):
            assert len(sizes) == 1 or most < 2**19
            for block, array, expected in zip(workers[0], found, wanted):
                assert array.dtype == expected.dtype and array.shape == expected.shape, block.name
                assert array.tobytes() == expected.tobytes(), (seed, block.name)


def test_large_rows_cross_in_letters_of_bounded_size_and_only_those_that_a_worker_has() -> None:
    """Rank 0 has two letters of each worker in memory, and no more: not all states of all workers."""
    row, workers = 80_000, 4

    def work(channel: Weighed) -> Any:
        keys = np.arange(8) + 8 * channel.rank
        rows = np.full((9, row), 2.0**channel.rank)
        keyed = [
            RowKeys("keys", keys, 100),
            Block("rows", "sum", rows, "keys"),
            Block("small", "sum", rows[:, 0], "keys"),
        ]
        found = channel.reduce("call", keyed, timeout=20)
        assert found[1][:, 5].tolist() == [1.0] * 8 + [2.0] * 8 + [4.0] * 8 + [8.0] * 8 + [15.0]
        assert found[2].tolist() == found[1][:, 0].tolist()
        return channel.bytes

    for sizes in together([work] * workers, Weighed):
        sent, told = zip(*sizes)
        assert max(sent) <= max(told) <= letter_bytes(workers) + 256
        assert sum(sent) < 1.01 * 8 * 9 * row  # and not the 33 rows of all


def test_a_thousand_workers_have_letters_that_rank_0_can_hold() -> None:
    assert [letter_bytes(workers) for workers in (1, 2, 4, 8, 16, 1024)] == [2**21, 2**21, 2**21, 2**20, 2**19, 2**19]


def test_keys_beyond_the_limit_share_the_last_place_in_letters_of_bounded_size() -> None:
    def work(channel: Weighed) -> Any:
        keys = np.arange(20) * 3 + channel.rank
        blocks = [RowKeys("keys", keys, 20), Block("rows", "sum", np.ones((21, 30_000)), "keys")]
        found = channel.reduce("call", blocks, timeout=20)
        assert found[0].tolist() == list(range(20))
        assert found[1][:, 7].tolist() == [1] * 20 + [3 + 3 * 20 - 20]
        return channel.bytes

    for sizes in together([work] * 3, Weighed):
        assert max(map(max, sizes)) <= letter_bytes(3) + 256


def test_metrics_without_slices_beside_one_with_cost_what_they_cost_alone() -> None:
    """`Sliced(Count())` must not move all other states to another way: they cross in narrow chunks as ever."""
    rng = np.random.default_rng(0)
    scores, label, slot = rng.dirichlet(np.ones(50), 300), rng.integers(0, 50, 300), rng.integers(0, 9, 300)

    def sizes(beside: bool) -> list[tuple[int, int]]:
        def work(channel: Weighed) -> Any:
            members: dict[str, Any] = {"auc": fm.AUC(task="multiclass", num_classes=50)}
            if beside:
                members["rows"] = fm.Sliced(fm.Count())
            metrics = fm.MetricCollection(members, name="it")
            metrics.add(scores, label, **({"slot": slot} if beside else {}))
            metrics.compute(communicator=channel)
            return channel.bytes

        return together([work] * 2, Weighed)[1]

    alone, beside = sizes(False), sizes(True)
    for one, two in zip(zip(*alone), zip(*beside)):
        assert sum(two) <= 1.01 * sum(one)
        assert max(two) <= states.CHUNK_BYTES + 256
    assert len(beside) <= len(alone) + 1


def test_a_large_state_adds_no_exchange_for_each_small_one() -> None:
    def work(channel: Together) -> int:
        small = [Block(f"small {n}", ("sum", "max")[n % 2], np.array(n + channel.rank)) for n in range(30)]
        found = channel.reduce("call", [*small, Block("large", "sum", np.arange(300_000))])
        assert [each.item() for each in found[:30]] == [n + 1 if n % 2 else 2 * n + 1 for n in range(30)]
        assert found[30][-1] == 2 * 299_999
        return len(channel.calls)

    assert together([work] * 2) == [3, 3]


def test_an_overflow_of_rows_names_the_state_at_once_and_in_pieces(monkeypatch: Any) -> None:
    for most in (2**19, 64):
        monkeypatch.setattr(states, "CHUNK_BYTES", most)
        monkeypatch.setattr(rows, "LETTER_BYTES", most)

        def work(channel: Together) -> Any:
            rows = np.full((3, 70), 2**62)
            return channel.reduce(
                "call", [RowKeys("k", np.array([1, 2 + channel.rank]), 9), Block("r", "sum", rows, "k")]
            )

        for error in together([work] * 2):
            assert isinstance(error, fm.IntegerOverflowError), error
            assert str(error).startswith("call, state 'r': the sum over 2 workers at position")


@pytest.mark.parametrize(
    "keys", [np.array([2, 1]), np.array([1, 1]), np.array([1.5]), np.array([[1]]), np.arange(9), np.array([True])]
)
def test_keys_that_no_worker_has_are_refused_with_the_rank(keys: Any) -> None:
    def work(channel: Together) -> Any:
        mine = keys if channel.rank else np.array([1])
        return channel.reduce("call", [RowKeys("k", mine, 8), Block("r", "sum", np.ones(len(mine) + 1), "k")])

    for error in together([work] * 2):
        assert isinstance(error, fm.CommunicatorError)
        assert str(error).startswith(
            "the message from rank 1 cannot be read (ValueError: k must hold increasing integers or strings, at most 8"
        )
