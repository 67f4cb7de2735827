"""The weights of the bootstrap: the same in every mode, Poisson of mean 1, and independent of each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paddle
import pytest

from fleetmetrics.batch.hashing import integer_ids, poisson, salts, thresholds, words
from fleetmetrics.xp import numpy_ops, paddle_ops
from tests.contract import new_programs

EDGES = [0, 1, -1, 2**31, 2**32 - 1, 2**32, -(2**32), 2**53 + 1, -(2**63), 2**63 - 1]
IDS = np.array([*EDGES, *range(2, 300), *np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 300)])
#: What some ids have drawn ever since.
FROZEN = [
    [1, 0, 1, 1, 3, 0, 4, 2],
    [1, 0, 2, 2, 2, 0, 2, 0],
    [1, 2, 1, 0, 2, 1, 1, 0],
    [0, 1, 0, 0, 1, 1, 2, 2],
    [0, 2, 1, 1, 2, 1, 1, 0],
]
TEXTS = [-5426141060434712860, 3405396810240292928, 4223062404410717160]
#: Ids as they come: counted up, in steps, random, user ids with a common part.
SEQUENCES = {
    "counted": np.arange(100_000),
    "in steps": np.arange(100_000) * 4096,
    "upper bits": np.arange(100_000) << 32,
    "negative": -np.arange(100_000),
    "random": np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 100_000),
    "rank and number": (np.arange(100_000) % 4 << 40) + np.arange(100_000) // 4,
}


def drawn(ids: Any, replicates: int = 20, seed: int = 0) -> np.ndarray:
    return poisson(numpy_ops, *words(numpy_ops, ids, seed), salts(seed, replicates))


@pytest.mark.parametrize("seed", [0, 1, -5, 2**80])
def test_arrays_tensors_and_programs_draw_the_same(seed: int) -> None:
    wanted = drawn(IDS, 50, seed)
    assert wanted.dtype == np.uint8 and wanted.shape == (len(IDS), 50)
    tensor = paddle.to_tensor(IDS)
    salt = paddle_ops.integers(salts(seed, 50))
    np.testing.assert_array_equal(poisson(paddle_ops, *words(paddle_ops, tensor, seed), salt).numpy(), wanted)
    with new_programs() as (main, _):
        ids = paddle.static.data("ids", [-1], "int64")
        times = poisson(paddle_ops, *words(paddle_ops, ids, seed), paddle_ops.integers(salts(seed, 50)))
        executor = paddle.static.Executor(paddle.CPUPlace())
        (found,) = executor.run(main, feed={"ids": IDS}, fetch_list=[times])
    np.testing.assert_array_equal(found, wanted)


def test_the_draws_do_not_change() -> None:
    # Weights of a stored id must not change from release to release.
    assert drawn(np.array([0, 1, 2, -7, 2**62]), 8, 3).tolist() == FROZEN
    assert integer_ids(np.array(["", "a", "日本"])).tolist() == TEXTS


def test_thresholds_are_those_of_poisson() -> None:
    found = thresholds()
    for k in range(9):
        exact = sum(math.exp(-1) / math.factorial(i) for i in range(k + 1))
        assert abs(found[k] / 2**32 - exact) < 2**-31
    assert (np.diff(found) > 0).all() and found[-1] < 2**32


def chi_square(table: np.ndarray, expected: np.ndarray) -> float:
    """How far counts are from what is expected, in standard deviations of the statistic."""
    statistic, freedom = float(((table - expected) ** 2 / expected).sum()), table.size - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("name", SEQUENCES)
def test_draws_are_poisson_of_mean_one(name: str) -> None:
    times = drawn(SEQUENCES[name])
    n = len(times)
    assert abs(times.mean() - 1) < 5 / math.sqrt(times.size)
    assert abs(times.var() - 1) < 5 * math.sqrt(3 / times.size)  # the fourth central moment is 4
    share = np.array([math.exp(-1) / math.factorial(k) for k in range(8)])
    share = np.append(share, 1 - share.sum())
    counts = np.bincount(np.minimum(times.reshape(-1), 8), minlength=9)
    assert abs(chi_square(counts, share * times.size)) < 5
    deviations = (times.mean(axis=0) - 1) * math.sqrt(n)
    assert np.abs(deviations).max() < 4.5 and 0.6 < deviations.std() < 1.5


@pytest.mark.parametrize("name", SEQUENCES)
def test_replicates_and_neighbors_are_independent(name: str) -> None:
    times = drawn(SEQUENCES[name]) - 1.0
    n = len(times)
    between = (times.T @ times / math.sqrt(n))[np.triu_indices(times.shape[1], 1)]
    assert 0.85 < between.std() < 1.15 and np.abs(between).max() < 5
    for lag in (1, 2, 3, 256, 65536):
        products = (times[:-lag] * times[lag:]).sum(axis=0) / math.sqrt(n - lag)
        assert np.abs(products).max() < 4.5, lag
        across = (times[:-lag, :-1] * times[lag:, 1:]).sum(axis=0) / math.sqrt(n - lag)
        assert np.abs(across).max() < 4.5, lag
    pairs = np.zeros((3, 3))
    np.add.at(pairs, tuple(np.minimum(times[:, :2].astype(int) + 1, 2).T), 1)
    share = np.array([math.exp(-1), math.exp(-1), 1 - 2 * math.exp(-1)])
    assert abs(chi_square(pairs, np.outer(share, share) * n)) < 5


def test_seeds_are_independent() -> None:
    one, other = (drawn(np.arange(100_000), 10, seed) - 1.0 for seed in (0, 1))
    products = (one * other).sum(axis=0) / math.sqrt(len(one))
    assert np.abs(products).max() < 4.5
    assert len(np.unique(salts(0, 100_000))) == 100_000


def test_every_bit_of_an_id_matters() -> None:
    rng = np.random.default_rng(2)
    ids = rng.integers(-(2**63), 2**63 - 1, 2000)
    same = math.exp(-2) * sum(1 / math.factorial(k) ** 2 for k in range(20))
    for bit in range(64):
        flipped = ids ^ (np.int64(1) << np.int64(bit))
        equal = (drawn(ids, 10) == drawn(flipped, 10)).mean()
        assert abs(equal - same) < 5 * math.sqrt(same * (1 - same) / 20_000), bit


def test_the_hash_of_a_text_does_not_depend_on_its_neighbors() -> None:
    texts = np.array(["a", "long text", "a", "日本"])
    ids = integer_ids(texts)
    assert ids[0] == ids[2] and len(set(ids.tolist())) == 3
    assert ids[:1].tolist() == integer_ids(np.array(["a"], "U50")).tolist()
    assert len(np.unique(integer_ids(np.arange(100_000).astype(str)))) == 100_000


def test_large_ids_are_not_the_negative_ones_of_the_same_bits() -> None:
    large = np.array([2**64 - 1, 2**63, 5], np.uint64)
    assert len({*integer_ids(large).tolist(), *integer_ids(large.astype(np.int64)).tolist()}) == 5
