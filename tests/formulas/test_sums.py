"""Sums: correctly rounded for any numbers, in linear time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fleetmetrics.formulas import auc
from fleetmetrics.formulas.sums import exact_sum, partial_sums, sums_before


@pytest.mark.parametrize("size", [1, 1023, 1024, 5000])
@pytest.mark.parametrize("spread", [0, 30, 300, 900])
def test_a_sum_of_many_is_that_of_fsum(size: int, spread: int) -> None:
    rng = np.random.default_rng(size + spread)
    values = np.ldexp(rng.random(size) - 0.25, rng.integers(-spread, spread + 1, size))
    for each in (values, np.abs(values), np.concatenate([values, -values[1:]]), values * 1e-300, np.zeros(size)):
        assert exact_sum(each) == math.fsum(each)


@pytest.mark.parametrize("size", [3, 2000])
def test_a_sum_of_nan_is_not_an_error(size: int) -> None:
    for wrong, expected in ((math.nan, math.nan), (math.inf, math.inf), (-math.inf, -math.inf)):
        values = np.ones(size)
        values[1] = wrong
        np.testing.assert_equal(exact_sum(values), expected)
    values[0] = math.inf
    assert math.isnan(exact_sum(values)) and exact_sum(np.full(size, 1e308)) == math.inf


def test_partial_sums_begin_with_nothing() -> None:
    assert partial_sums(np.array([1, 2, 3])).tolist() == [0, 1, 3, 6]
    assert sums_before(np.array([1.0, 2.0, 3.0])).tolist() == [0.0, 1.0, 3.0]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_quick_bounds_of_the_average_precision_hold_the_narrow_ones(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    for number in range(200):
        shape = 2, int(rng.integers(1, 40))
        table = rng.integers(0, 4 if number % 2 else 400, shape)
        table = rng.random(shape) ** 8 * table if weighted else table
        if table[0].any():
            exact, quick = auc.average_precision_bounds.bare(*table), auc.average_precision_near(*table)
            assert quick.value == exact.value and quick.low <= exact.low + 1e-12 and quick.high >= exact.high - 1e-12
