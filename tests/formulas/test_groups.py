"""Sorting within groups, whatever the numbers are."""

from __future__ import annotations

import numpy as np
import pytest

from fleetmetrics.formulas.groups import best_first
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_no_number_comes_last(dtype):
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
