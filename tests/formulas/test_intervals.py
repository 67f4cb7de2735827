"""Ends of intervals from a value and its spread: even on the scale of its range, and exact for shares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from fleetmetrics import UndefinedMetricWarning
from fleetmetrics.formulas import intervals
from fleetmetrics.formulas.spreads import Spread, of_area, of_samples

RNG = np.random.default_rng(11)


def ends(value: float, std: float, lowest: float, highest: float, freedom: float = 1e9, **settings: Any) -> Any:
    spread = Spread(std**2, freedom, {})
    return intervals.interval(value, spread, lowest, highest, settings.get("confidence", 0.95), "mine")[2:4]


def test_ends_are_even_on_the_scale_of_the_range() -> None:
    low, high = ends(0.9, 0.05, 0.0, 1.0)
    odds = [math.log(x / (1 - x)) for x in (low, 0.9, high)]
    half = 1.959964 * 0.05 / 0.09
    assert odds[1] - odds[0] == pytest.approx(half, rel=1e-6) and odds[2] - odds[1] == pytest.approx(half, rel=1e-6)
    low, high = ends(3.0, 1.0, 0.0, math.inf)
    assert low * high == pytest.approx(9.0) and high / 3 == pytest.approx(math.exp(1.959964 / 3), rel=1e-6)
    assert ends(-3.0, 1.0, -math.inf, math.inf) == pytest.approx((-4.959964, -1.040036))
    assert ends(-3.0, 1.0, -math.inf, math.inf, confidence=0.9) == pytest.approx((-4.644854, -1.355146))


def test_ends_stay_in_the_range_with_large_errors() -> None:
    for highest in (1.0, math.inf):
        low, high = ends(0.5, 1e150, 0.0, highest)
        assert 0 <= low < 0.5 < high <= highest


@pytest.mark.parametrize("freedom", [10.0, 49.0, 1000.0])
def test_the_quantile_is_students_and_its_inverse_is_the_p_value(freedom: float) -> None:
    # scipy.stats.t.ppf([0.95, 0.975, 0.995], freedom)
    wanted = {10.0: (1.81246, 2.22814, 3.16927), 49.0: (1.67655, 2.00958, 2.67995), 1000.0: (1.64638, 1.96234, 2.58075)}
    for share, each in zip((0.95, 0.975, 0.995), wanted[freedom]):
        found = intervals.quantile(share, freedom)
        assert found == pytest.approx(each, rel=2e-3)
        assert intervals.two_sided(found, freedom) == pytest.approx(2 * (1 - share))


def test_too_few_are_nan_with_the_number_that_would_do_and_the_value_stays() -> None:
    classes = [
        np.bincount(np.minimum(RNG.poisson(mean, number), 19), minlength=20) for mean, number in ((7, 20), (5, 400))
    ]
    with pytest.warns(UndefinedMetricWarning, match=r"mine has too few samples .*: 20 positives, but it needs \d+\."):
        found = intervals.interval(0.8, of_area(*classes, *classes), 0.0, 1.0, 0.95, "mine")
    assert found.value == 0.8 and all(map(math.isnan, found[1:4])) and found.confidence == 0.95


@pytest.mark.parametrize("samples", [1, 2, 3, 5, 8, 13, 21, 34, 48, 60, 150, 400])
def test_the_interval_of_a_share_holds_it_as_often_as_promised_for_any_number_of_samples(samples: int) -> None:
    """Exactly, over all numbers of hits; from 50 samples on, the delta method may miss half a percent."""
    rates, hits = np.arange(0.005, 1, 0.005)[:, None], np.arange(samples + 1)
    ways = np.array([math.comb(samples, int(each)) for each in hits], float)
    chance = np.exp(np.log(ways) + hits * np.log(rates) + (samples - hits) * np.log1p(-rates))
    ends = []
    for each in hits.tolist():
        products = [each, each, samples, each, each, each, samples]
        spread = of_samples(products, [each, samples], [1 / samples, -each / samples**2], samples)
        assert spread.share == (each, samples)
        found = intervals.interval(each / samples, spread, 0.0, 1.0, 0.95, "share")
        assert 0 <= found.low <= each / samples <= found.high <= 1
        ends.append((found.low, found.high))
    low, high = np.array(ends).T
    holds = (chance * ((low <= rates) & (rates <= high))).sum(axis=1)
    assert holds.min() >= (0.95 if samples < 50 else 0.94)
    assert holds.mean() <= (1 if samples < 5 else 0.95 + 0.1 / math.sqrt(samples) + 0.01)


def test_exact_ends_are_those_of_scipy_for_rare_hits_among_many_samples() -> None:
    for number, samples, confidence in ((0, 10**6, 0.95), (5, 10**7, 0.9), (39, 10**9, 0.99), (10**6 - 3, 10**6, 0.5)):
        tail = (1 - confidence) / 2
        wanted = [beta.ppf(tail, number, samples - number + 1) if number else 0.0]
        wanted.append(beta.ppf(1 - tail, number + 1, samples - number))
        assert intervals.exact_ends(number, samples, confidence) == pytest.approx(wanted, rel=1e-9)
