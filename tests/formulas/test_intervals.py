"""Intervals without resampling: DeLong's as its paper has it, the delta method as a sum over samples has it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from fleetmetrics import UndefinedMetricWarning
from fleetmetrics.formulas import intervals
from fleetmetrics.formulas.intervals import Spread

RNG = np.random.default_rng(11)


def delong(score: Any, label: Any, weight: Any) -> tuple[float, np.ndarray]:
    """The area, and what each sample adds to it, by every pair: of weights 1 DeLong's structural components."""
    above = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    one, zero = weight * label, weight * (1 - label)
    area = one @ above @ zero / one.sum() / zero.sum()
    return area, np.where(label == 1, above @ zero / zero.sum() - area, one @ above / one.sum() - area)


def histogram(score: Any, label: Any, weight: Any) -> list[np.ndarray]:
    """Weights and squares of weights by bucket, of positives and negatives."""
    return [np.bincount(score[label == k], weight[label == k] ** p, 20) for p in (1, 2) for k in (1, 0)]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_area_varies_as_delong_says_pair_by_pair(weighted: bool) -> None:
    label = RNG.integers(0, 2, 300)
    score = np.minimum(RNG.poisson(5 + 3 * label), 19)
    weight = RNG.random(300) if weighted else np.ones(300)
    _, apart = delong(score, label, weight)
    wanted = 0.0
    for own in (label == 1, label == 0):
        size = weight[own].sum() ** 2 / (weight[own] ** 2).sum()
        wanted += size / (size - 1) * ((weight * apart)[own] ** 2).sum() / weight[own].sum() ** 2
    found = intervals.of_area(*histogram(score, label, weight))
    assert found.variance == pytest.approx(wanted, rel=1e-12) and not found.short
    if not weighted:  # as in the paper: variances of the components, over the numbers of samples
        parts = [apart[own].var(ddof=1) / own.sum() for own in (label == 1, label == 0)]
        assert found.variance == pytest.approx(sum(parts), rel=1e-12)


def test_weights_that_are_all_doubled_change_nothing() -> None:
    label = RNG.integers(0, 2, 300)
    score, weight = np.minimum(RNG.poisson(5 + 3 * label), 19), RNG.random(300)
    one, two = (intervals.of_area(*histogram(score, label, each)) for each in (weight, 2 * weight))
    assert two.variance == pytest.approx(one.variance) and two.freedom == pytest.approx(one.freedom)


@pytest.mark.parametrize("terms", [2, 3])
def test_products_of_terms_are_what_a_sum_over_samples_would_be(terms: int) -> None:
    x = RNG.gamma(2.0, size=(terms, 400)) + 1
    sums = x.sum(axis=1)
    slopes = RNG.normal(size=terms)
    slopes -= sums * (slopes @ sums) / (sums @ sums)  # of a value that does not change when all is doubled
    pairs, triples = intervals.monomials(terms)
    products = [np.prod([x[place] for place in each], axis=0).sum() for each in (*pairs, *triples)]
    found = intervals.of_samples(products, sums, slopes.tolist(), 400)
    apart = slopes @ x
    assert apart.sum() == pytest.approx(0, abs=1e-9)
    assert found.variance == pytest.approx(400 / 399 * (apart**2).sum())
    far = np.abs(slopes) @ x
    events, sources = ((each**2).sum() ** 3 / (each**3).sum() ** 2 for each in (apart, far))
    few = intervals.of_samples(products, sums, slopes.tolist(), 40)  # more would be needed
    need = 40 * max(intervals.EVENTS / events, intervals.SOURCES / sources)
    assert few.short["samples"] == (40, pytest.approx(max(50.0, need)))
    signed = intervals.of_samples(products, sums, slopes.tolist(), 40, signed=True)
    assert signed.short["samples"] == (40, pytest.approx(max(50.0, 40 * intervals.EVENTS / events)))


def test_the_rest_of_rounding_is_not_a_variance() -> None:
    """Samples of 1e9, all alike: the squares of what is left are a difference of sums that are 1e16 times as large."""
    n, d = np.full(100, 1e9), np.ones(100)
    pairs, triples = intervals.monomials(2)
    products = [np.prod([(n, d)[place] for place in each], axis=0).sum() for each in (*pairs, *triples)]
    found = intervals.of_samples(products, [n.sum(), d.sum()], [1 / 100, -1e7], 100)
    assert math.isnan(found.variance) and found.short


def test_groups_vary_as_their_users_do_and_empty_ones_have_no_variance() -> None:
    users = RNG.normal(size=3000)
    users -= users.mean()
    group = RNG.integers(0, 1024, 3000)
    found = intervals.of_groups(np.bincount(group, users, 2048))
    assert 0.6 < found.freedom / len(np.unique(group)) < 1  # groups of a user or of six are not quite alike
    assert found.variance == pytest.approx((users**2).sum(), rel=0.15)  # 3 times sqrt(2 / 1024)
    assert not found.short


def test_a_value_that_a_few_users_moved_in_both_directions_gets_no_interval() -> None:
    groups = RNG.normal(size=1000) / 100
    assert not intervals.of_groups(groups).short
    groups[:12] = np.resize([1.0, -1.0], 12)
    users, needed = intervals.of_groups(groups).short["users"]
    assert needed == pytest.approx(users * 15 / 12, rel=0.05)


def test_a_variance_that_few_users_make_has_few_degrees_of_freedom() -> None:
    even = np.resize([1.0, -1.0], 200)
    assert intervals.of_groups(even).freedom == 199
    normal = np.random.default_rng(0).normal(size=4000)
    assert intervals.of_groups(normal).freedom == pytest.approx(3999, rel=0.1)
    uneven = normal[:200] * np.where(np.arange(200) < 20, 5, 1)  # 20 of 200 users make three quarters of the variance
    square = 20 * 25 + 180
    wanted = square**2 / (20 * 25**2 + 180)  # Satterthwaite's for known variances
    assert intervals.of_groups(uneven).freedom == pytest.approx(wanted, rel=0.5)


def test_users_are_few_by_their_sizes_and_not_by_what_they_happen_to_add() -> None:
    """Of sizes as uneven as these, some samples look tame: those would have intervals that are too narrow."""
    tame, size = RNG.normal(size=200), RNG.pareto(1.0, 200) + 1
    assert not intervals.of_groups(tame, np.ones(200)).short
    users, needed = intervals.of_groups(tame, size).short["users"]
    assert needed == pytest.approx(users * intervals.SOURCES * (size**3).sum() ** 2 / (size**2).sum() ** 3)
    wild = np.append(RNG.normal(size=200), np.resize([9.0, -9.0], 8))
    assert intervals.of_groups(wild).short and not intervals.of_groups(wild, np.ones(208)).short


def test_sums_of_few_clicks_are_too_little_even_if_the_value_is_not_skewed() -> None:
    n = np.zeros(1000)
    n[:10] = np.resize([1.2, 0.8], 10)
    d = np.where(n > 0, 1.0, 0.0)
    pairs, triples = intervals.monomials(2)
    products = [np.prod([(n, d)[place] for place in each], axis=0).sum() for each in (*pairs, *triples)]
    assert intervals.of_samples(products, [10, 10], [0.1, -0.1], 1000).short["samples"][1] >= 3000


def test_samples_of_a_user_that_are_alike_ask_for_more_positives() -> None:
    label = np.repeat([0, 1], 60)
    score = np.minimum(RNG.poisson(5 + 2 * label), 19)
    classes = histogram(score, label, np.ones(120))
    alone, apart = intervals.of_area(*classes), RNG.normal(size=100)
    groups = apart * math.sqrt(4 * alone.variance / (apart**2).sum())
    short = intervals.of_area_groups(groups, *classes).short
    assert short["positives"] == (60, pytest.approx(4 * 100 / 99 * 50, rel=0.05))


# -- ends -----------------------------------------------------------------------------------------------------


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
    label = np.repeat([0, 1], [400, 20])
    classes = histogram(np.minimum(RNG.poisson(5 + 2 * label), 19), label, np.ones(420))
    with pytest.warns(UndefinedMetricWarning, match=r"mine has too few samples .*: 20 positives, but it needs \d+\."):
        found = intervals.interval(0.8, intervals.of_area(*classes), 0.0, 1.0, 0.95, "mine")
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
        spread = intervals.of_samples(products, [each, samples], [1 / samples, -each / samples**2], samples)
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


def test_terms_that_are_no_counts_are_no_share() -> None:
    def share(n: Any, d: Any) -> Any:
        n, d = np.asarray(n, float), np.asarray(d, float)
        return intervals._share(intervals.products([n, d]).sum(axis=1), [n.sum(), d.sum()])

    assert share([1, 0, 1, 0], [1, 1, 1, 0]) == (2, 3)
    assert share([0.1, 0, 0.1], [0.1, 0.1, 0.1]) == (2, 3) and share([2, 0], [2, 2]) == (1, 2)
    assert share([0, 0], [0, 0]) is None and share([0, 0, 0], [1, 1, 1]) == (0, 3)
    for n, d in (
        ([1, 0, 1], [1, 1, 0]),
        ([1, 0], [1, 2]),
        ([0.5, 0], [1, 1]),
        ([2, 0], [2, 1]),
        ([1, math.nan], [1, 1]),
    ):
        assert share(n, d) is None


def test_a_share_needs_enough_events_of_the_rarer_kind_for_any_number_of_samples() -> None:
    pairs, triples = intervals.monomials(2)
    for clicks, samples, enough in [
        (30, 10**5, False),
        (45, 10**5, True),
        (20, 50, False),
        (25, 50, True),
        (10**5 - 30, 10**5, False),
    ]:
        products = [clicks if 0 in each else samples for each in (*pairs, *triples)]
        spread = intervals.of_samples(products, [clicks, samples], [1 / samples, -clicks / samples**2], samples)
        assert (not spread.short) == enough, (clicks, spread.short)
        if samples > 50 and not enough:
            assert spread.short["samples"][1] == pytest.approx(samples * intervals.EVENTS / 30, rel=1e-3)
