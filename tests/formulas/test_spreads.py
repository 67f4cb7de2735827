"""Variances from sums: DeLong's as its paper has it, the delta method as a sum over samples has it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fleetmetrics.formulas import average_precision_from_histogram, spreads

RNG = np.random.default_rng(11)


def monomials(terms: int) -> list[tuple[int, ...]]:
    return [*spreads.monomials(terms, 2), *spreads.monomials(terms, 3)]


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
    found = spreads.of_area(*histogram(score, label, weight))
    assert found.variance == pytest.approx(wanted, rel=1e-12) and not found.short
    if not weighted:  # as in the paper: variances of the components, over the numbers of samples
        parts = [apart[own].var(ddof=1) / own.sum() for own in (label == 1, label == 0)]
        assert found.variance == pytest.approx(sum(parts), rel=1e-12)


@pytest.mark.parametrize("scale", [2.0, 1e-3, 1e-5])
def test_weights_of_another_scale_change_nothing(scale: float) -> None:
    """Not even where the weights of a class add up to less than 1."""
    label = RNG.integers(0, 2, 300)
    score, weight = np.minimum(RNG.poisson(5 + 3 * label), 19), RNG.random(300)
    one, scaled = (histogram(score, label, weights) for weights in (weight, scale * weight))
    spread, other = spreads.of_area(*one), spreads.of_area(*scaled)
    assert other.variance == pytest.approx(spread.variance) and other.freedom == pytest.approx(spread.freedom)
    assert other.supply["negatives"] == pytest.approx(spread.supply["negatives"])
    for share, same in zip(spreads.contributions_to_area(*one[:2]), spreads.contributions_to_area(*scaled[:2])):
        assert scale * same == pytest.approx(share)


@pytest.mark.parametrize("terms", [2, 3])
def test_moments_are_the_sums_of_powers_of_what_units_add(terms: int) -> None:
    x, slopes, others = RNG.normal(size=(terms, 50)), RNG.normal(size=terms).tolist(), RNG.normal(size=terms).tolist()
    sums = np.sum(spreads.products(list(x), (2, 3, 4)), axis=1)
    apart = slopes @ x
    assert spreads.moments_of(sums, slopes, (2, 3, 4)) == pytest.approx([(apart**k).sum() for k in (2, 3, 4)])
    pairs = sums[: len(spreads.monomials(terms, 2))]
    assert spreads.covariance_of(pairs, slopes, others) == pytest.approx(apart @ (others @ x))
    assert [*map(np.ndarray.tolist, spreads.products(list(x), (1,)))] == x.tolist()


@pytest.mark.parametrize("terms", [2, 3])
def test_products_of_terms_are_what_a_sum_over_samples_would_be(terms: int) -> None:
    x = RNG.gamma(2.0, size=(terms, 400)) + 1
    sums = x.sum(axis=1)
    slopes = RNG.normal(size=terms)
    slopes -= sums * (slopes @ sums) / (sums @ sums)  # of a value that does not change when all is doubled
    products = [np.prod([x[place] for place in places], axis=0).sum() for places in monomials(terms)]
    found = spreads.of_samples(products, sums, slopes.tolist(), 400)
    apart = slopes @ x
    assert apart.sum() == pytest.approx(0, abs=1e-9)
    assert found.variance == pytest.approx(400 / 399 * (apart**2).sum())
    far = np.abs(slopes) @ x
    events, sources = ((each**2).sum() ** 3 / (each**3).sum() ** 2 for each in (apart, far))
    few = spreads.of_samples(products, sums, slopes.tolist(), 40)  # more would be needed
    need = 40 * max(spreads.EVENTS / events, spreads.SOURCES / sources)
    assert few.short["samples"] == (40, pytest.approx(max(50.0, need)))
    signed = spreads.of_samples(products, sums, slopes.tolist(), 40, signed=True)
    assert signed.short["samples"] == (40, pytest.approx(max(50.0, 40 * spreads.EVENTS / events)))


def test_the_rest_of_rounding_is_not_a_variance() -> None:
    """Samples of 1e9, all alike: the squares of what is left are a difference of sums that are 1e16 times as large."""
    n, d = np.full(100, 1e9), np.ones(100)
    products = [np.prod([(n, d)[place] for place in places], axis=0).sum() for places in monomials(2)]
    found = spreads.of_samples(products, [n.sum(), d.sum()], [1 / 100, -1e7], 100)
    assert math.isnan(found.variance) and found.short


def test_groups_vary_as_their_users_do_and_empty_ones_have_no_variance() -> None:
    users = RNG.normal(size=3000)
    users -= users.mean()
    group = RNG.integers(0, 1024, 3000)
    found = spreads.of_groups(np.bincount(group, users, 2048))
    assert 0.6 < found.freedom / len(np.unique(group)) < 1  # groups of a user or of six are not quite alike
    assert found.variance == pytest.approx((users**2).sum(), rel=0.15)  # 3 times sqrt(2 / 1024)
    assert not found.short


def test_a_value_that_a_few_users_moved_in_both_directions_gets_no_interval() -> None:
    groups = RNG.normal(size=1000) / 100
    assert not spreads.of_groups(groups).short
    groups[:12] = np.resize([1.0, -1.0], 12)
    users, needed = spreads.of_groups(groups).short["users"]
    assert needed == pytest.approx(users * 15 / 12, rel=0.05)


def test_a_variance_that_few_users_make_has_few_degrees_of_freedom() -> None:
    even = np.resize([1.0, -1.0], 200)
    assert spreads.of_groups(even).freedom == 199
    normal = np.random.default_rng(0).normal(size=4000)
    assert spreads.of_groups(normal).freedom == pytest.approx(3999, rel=0.1)
    uneven = normal[:200] * np.where(np.arange(200) < 20, 5, 1)  # 20 of 200 users make three quarters of the variance
    square = 20 * 25 + 180
    wanted = square**2 / (20 * 25**2 + 180)  # Satterthwaite's for known variances
    assert spreads.of_groups(uneven).freedom == pytest.approx(wanted, rel=0.5)


def test_users_are_few_by_their_sizes_and_not_by_what_they_happen_to_add() -> None:
    """Of sizes as uneven as these, some samples look tame: those would have intervals that are too narrow."""
    tame, size = RNG.normal(size=200), RNG.pareto(1.0, 200) + 1
    assert not spreads.of_groups(tame, np.ones(200)).short
    users, needed = spreads.of_groups(tame, size).short["users"]
    assert needed == pytest.approx(users * spreads.SOURCES * (size**3).sum() ** 2 / (size**2).sum() ** 3)
    wild = np.append(RNG.normal(size=200), np.resize([9.0, -9.0], 8))
    assert spreads.of_groups(wild).short and not spreads.of_groups(wild, np.ones(208)).short


def test_sums_of_few_clicks_are_too_little_even_if_the_value_is_not_skewed() -> None:
    n = np.zeros(1000)
    n[:10] = np.resize([1.2, 0.8], 10)
    d = np.where(n > 0, 1.0, 0.0)
    products = [np.prod([(n, d)[place] for place in places], axis=0).sum() for places in monomials(2)]
    assert spreads.of_samples(products, [10, 10], [0.1, -0.1], 1000).short["samples"][1] >= 3000


def test_samples_of_a_user_that_are_alike_ask_for_more_positives() -> None:
    label = np.repeat([0, 1], 60)
    score = np.minimum(RNG.poisson(5 + 2 * label), 19)
    classes = histogram(score, label, np.ones(120))
    alone, apart = spreads.of_area(*classes), RNG.normal(size=100)
    groups = apart * math.sqrt(4 * alone.variance / (apart**2).sum())
    short = spreads.of_area_groups(groups, *classes).short
    assert short["positives"] == (60, pytest.approx(4 * 100 / 99 * 50, rel=0.05))


def test_terms_that_are_no_counts_are_no_share() -> None:
    def share(n: Any, d: Any) -> Any:
        n, d = np.asarray(n, float), np.asarray(d, float)
        return spreads._share(np.sum(spreads.products([n, d]), axis=1), [n.sum(), d.sum()])

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
    for clicks, samples, enough in [
        (30, 10**5, False),
        (45, 10**5, True),
        (20, 50, False),
        (25, 50, True),
        (10**5 - 30, 10**5, False),
    ]:
        products = [clicks if 0 in places else samples for places in monomials(2)]
        spread = spreads.of_samples(products, [clicks, samples], [1 / samples, -clicks / samples**2], samples)
        assert (not spread.short) == enough, (clicks, spread.short)
        if samples > 50 and not enough:
            assert spread.short["samples"][1] == pytest.approx(samples * spreads.EVENTS / 30, rel=1e-3)


# -- average precision --------------------------------------------------------------------------------------------


def _histograms(seed: int, samples: int = 4000, rate: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Positives and negatives by bucket, which overlap."""
    random = np.random.default_rng(seed)
    label = random.random(samples) < rate
    bucket = np.clip(random.normal(20 + 8 * label, 7).astype(int), 0, 63)
    return np.bincount(bucket[label], minlength=64), np.bincount(bucket[~label], minlength=64)


def test_contributions_to_average_precision_are_its_derivatives() -> None:
    positive, negative = (each.astype(float) for each in _histograms(0))
    of_positive, of_negative = spreads.contributions_to_area(positive, negative, "PR")
    step = 1e-4
    for bucket in (15, 20, 31, 38):
        assert positive[bucket] and negative[bucket]
        more = np.zeros(64)
        more[bucket] = step
        up, down = (average_precision_from_histogram(positive + sign * more, negative) for sign in (1, -1))
        assert of_positive[bucket] == pytest.approx((up - down) / (2 * step), rel=1e-3, abs=1e-9)
        up, down = (average_precision_from_histogram(positive, negative + sign * more) for sign in (1, -1))
        assert of_negative[bucket] == pytest.approx((up - down) / (2 * step), rel=1e-3, abs=1e-9)
    # doubling all samples changes nothing
    assert abs(positive @ of_positive + negative @ of_negative) < 1e-12


def test_the_spread_of_average_precision_is_that_of_resampled_histograms() -> None:
    positive, negative = _histograms(1)
    random = np.random.default_rng(2)
    values = [average_precision_from_histogram(random.poisson(positive), random.poisson(negative)) for _ in range(2000)]
    spread = spreads.of_area(positive, negative, positive, negative, "PR")
    assert not spread.short and math.sqrt(spread.variance) == pytest.approx(np.std(values), rel=0.05)


def test_weights_of_one_size_change_no_spread_of_average_precision() -> None:
    positive, negative = _histograms(3)
    plain = spreads.of_area(positive, negative, positive, negative, "PR")
    weighted = spreads.of_area(3 * positive, 3 * negative, 9 * positive, 9 * negative, "PR")
    assert weighted.variance == pytest.approx(plain.variance, rel=1e-12)
    assert weighted.supply["positives"] == pytest.approx(plain.supply["positives"])


def test_few_positives_that_decide_average_precision_are_too_few() -> None:
    negative = np.bincount([0] * 5000, minlength=64)
    few = np.bincount([0] * 57 + [63] * 3, minlength=64)  # three of sixty give nearly all of the value
    spread = spreads.of_area(few, negative, few, negative, "PR")
    assert spread.short["positives"][1] > 60
    none = spreads.of_area(0 * few, negative, 0 * few, negative, "PR")
    assert math.isnan(none.variance) and "positives" in none.short
