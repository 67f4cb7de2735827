"""Sorting within groups, for any numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fleetmetrics.formulas.groups import auc_by_group, best_first
from fleetmetrics.records.table import _stable_order

pytestmark = pytest.mark.numpy_only


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool"])
@pytest.mark.parametrize("sizes", [[5, 1, 900, 3], [30, 31, 29, 30]], ids=["uneven", "even"])
def test_the_highest_of_each_group_come_first(dtype, sizes):
    rng = np.random.default_rng(2)
    values = np.concatenate([rng.normal(0, 50, sum(sizes) - 4), [0.0, -0.0, 3e4, -3e4]])[rng.permutation(sum(sizes))]
    values = values.astype(dtype)
    start = np.append(0, np.cumsum(sizes)[:-1])
    order = best_first(values, start, np.array(sizes))
    for first, size in zip(start, sizes):
        part = slice(first, first + size)
        assert sorted(order[part]) == list(range(first, first + size))
        np.testing.assert_array_equal(values[order[part]], np.sort(values[part])[::-1])


def test_a_long_group_among_many_is_sorted_too():
    sizes = np.append(np.ones(2**12, np.int64), 2**20)
    values = np.random.default_rng(2).permutation(sizes.sum()).astype(np.float32)
    order = best_first(values, np.append(0, np.cumsum(sizes)[:-1]), sizes)
    np.testing.assert_array_equal(order[: 2**12], np.arange(2**12))
    np.testing.assert_array_equal(values[order[2**12 :]], np.sort(values[2**12 :])[::-1])


SCORES = {
    "float32": lambda rng, n: rng.normal(size=n).astype(np.float32),
    "float64": lambda rng, n: rng.normal(size=n),
    "tied": lambda rng, n: np.round(rng.normal(size=n)),
    "integers": lambda rng, n: rng.integers(-3, 3, n),
    "long integers": lambda rng, n: 2**60 + rng.integers(0, 3, n),
    "zeros of both signs": lambda rng, n: rng.choice([0.0, -0.0, 1.0], n).astype(np.float32),
    "close float64": lambda rng, n: 1 + rng.integers(0, 3, n) * 2.0**-50,
}


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", SCORES)
def test_the_area_of_a_group_is_that_of_its_pairs(kind, weighted):
    rng = np.random.default_rng(3)
    group, label = np.sort(rng.integers(0, 9, 200)), rng.integers(0, 2, 200)
    score, weight = SCORES[kind](rng, 200), rng.random(200) if weighted else np.ones(200)
    area, positive, negative = auc_by_group(group, score, label, weight if weighted else None)
    for place, each in enumerate(np.unique(group)):
        p, n = ((group == each) & (label == kept) for kept in (1, 0))
        right = (score[p][:, None] > score[n]) + (score[p][:, None] == score[n]) / 2
        pairs = np.outer(weight[p], weight[n])
        np.testing.assert_allclose(area[place], (right * pairs).sum() / pairs.sum(), rtol=1e-13)
        np.testing.assert_allclose([positive[place], negative[place]], [weight[p].sum(), weight[n].sum()])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_comes_last(dtype):
    values = np.array([np.nan, 1, -np.inf, np.inf, 0, 2], dtype)
    assert best_first(values, np.array([0, 4]), np.array([4, 2])).tolist()[:2] == [3, 1]


KEYS = {
    "few": np.arange(1000) % 7 - 3,
    "short": (np.arange(1000) % 7).astype(np.int8),
    "far apart": np.array([-(2**63), 5, 2**63 - 1, 5, -(2**63)]),
    "beyond 2**52": np.arange(1000) % 3 * 2**52,
    "as far apart as fits beside four places": np.array([2**60 - 1, 0, 2**60 - 1, 0]),
    "one farther": np.array([2**60, 0, 2**60, 0]),
    "texts": np.array(["b", "a", "b", "a"]),
    "none": np.empty(0, np.int64),
}


@pytest.mark.parametrize("kind", KEYS)
def test_equal_keys_keep_their_order(kind):
    np.testing.assert_array_equal(_stable_order(KEYS[kind]), np.argsort(KEYS[kind], kind="stable"))
