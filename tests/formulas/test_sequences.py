"""Intervals that hold at all looks together."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from fleetmetrics import InvalidInputError
from fleetmetrics.formulas.sequences import always_valid

pytestmark = pytest.mark.numpy_only


def test_zero_is_outside_of_the_interval_if_and_only_if_the_p_value_is_small():
    for value in np.linspace(0.001, 0.02, 60):
        found = always_valid(value, 0.003, samples=700, tightest=2000, confidence=0.9)
        assert (found.low > 0) == (found.p_value < 0.1)
        assert found.value - found.low == pytest.approx(found.high - found.value)


def test_a_mixture_of_likelihood_ratios_is_one_over_alpha_at_the_ends():
    found = always_valid(0.0, 1.0, samples=300, tightest=300)
    rest = -2 * math.log(0.05)
    ratio = rest + math.log(rest + 1)
    # the ratio of the densities of z: normal of variance 1 + r against 1
    z = found.high
    alike = NormalDist(0, math.sqrt(1 + ratio)).pdf(z) / NormalDist().pdf(z)
    assert alike == pytest.approx(20, rel=1e-9)


def test_it_is_narrowest_about_where_it_was_asked_to_be():
    """Against other choices at the same number of samples."""
    half = {t: always_valid(0.0, 1.0, samples=5000, tightest=t).high for t in (50, 500, 5000, 50_000, 500_000)}
    assert min(half, key=half.get) == 5000 and half[50] < 1.2 * half[5000]


@pytest.mark.parametrize("parts", [20, 200])
def test_looks_at_sums_that_grow_are_wrong_in_less_than_their_share(parts):
    random, runs = np.random.default_rng(5), 4000
    sums = np.cumsum(random.normal(size=(runs, parts)), axis=1)
    rows = np.arange(1, parts + 1)
    fixed = (np.abs(sums) / np.sqrt(rows) > 1.96).any(axis=1).mean()
    ends = np.array([always_valid(0.0, 1 / math.sqrt(n), samples=n, tightest=parts / 4).high for n in rows])
    found = (np.abs(sums) / rows > ends).any(axis=1).mean()
    assert fixed > 0.2 and found <= 0.05


def test_what_does_not_vary_or_is_not_known_has_no_width_or_no_interval():
    assert always_valid(0.0, 0.0, 10, 10)[:4] == (0.0, 0.0, 0.0, 1.0)
    assert always_valid(1.0, 0.0, 10, 10).p_value == 0
    assert math.isnan(always_valid(1.0, math.nan, 10, 10).low)
    with pytest.raises(InvalidInputError, match="tightest must be a number from 1"):
        always_valid(1.0, 1.0, 10, 0)
