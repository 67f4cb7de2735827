"""Tests of slices: a random sample of the whole is called different as rarely as promised, whatever its size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fleetmetrics.formulas.slices import (
    areas_against_whole,
    false_discovery_rates,
    inflation_of_sizes,
    quotients_against_whole,
    residuals_of_slices,
    residuals_of_whole,
)
from fleetmetrics.formulas.spreads import inflation_of_areas, products

pytestmark = pytest.mark.numpy_only


def histograms(random, rows, rate, slices, buckets=200):
    """Scores of random slices, positives and negatives by slice and bucket."""
    label = random.random(rows) < rate
    score = random.normal(size=rows) + 1.2 * label
    bucket = np.clip((score * 20 + buckets / 2).astype(int), 0, buckets - 1)
    place = random.integers(0, slices, rows) * buckets + bucket
    return [np.bincount(place[each], minlength=slices * buckets).reshape(slices, buckets) for each in (label, ~label)]


@pytest.mark.parametrize(("rate", "rows"), [(0.0003, 100_000), (0.003, 100_000), (0.3, 5_000), (0.98, 20_000)])
def test_of_random_slices_no_more_areas_than_promised_differ_at_any_number_of_positives(rate, rows):
    random = np.random.default_rng(5)
    found = []
    for _ in range(12):
        positive, negative = histograms(random, rows, rate, 60)
        tests = areas_against_whole(positive, negative)
        found.append(np.stack([np.minimum(positive.sum(1), negative.sum(1)), tests.p_value, tests.low, tests.high]))
    fewest, p, low, high = np.concatenate(found, axis=1)
    known = ~np.isnan(p)
    assert not known[fewest < 5].any() and known[fewest >= 10].all()
    for least, most in ((5, 9), (10, 19), (20, 1e9)):
        some = known & (fewest >= least) & (fewest <= most)
        if some.sum() >= 60:
            deviation = math.sqrt(0.05 * 0.95 / some.sum())
            assert np.mean(p[some] <= 0.05) <= 0.05 + 3 * deviation
            assert np.mean(p[some] <= 0.001) <= 0.001 + 3 * math.sqrt(0.001 / some.sum())
    assert (low[known] >= 0).all() and (high[known] <= 1).all() and (low[known] < high[known]).all()


@pytest.mark.parametrize("rate", [0.003, 0.03, 0.3])
@pytest.mark.parametrize("size", [2, 30, 400])
def test_of_random_slices_no_more_quotients_than_promised_differ_at_any_size(rate, size):
    random = np.random.default_rng(6)
    rows, slices, p = size * 200, 200, []
    for _ in range(6):
        slot = random.integers(0, slices, rows)
        d = random.gamma(4, 1, rows)
        n = d * (random.random(rows) < rate)
        rest = n - n.sum() / d.sum() * d
        sums = [np.bincount(slot, each, slices) for each in (n, d, np.ones(rows))]
        p.append(quotients_against_whole(*sums, (rest**2).sum(), (rest**3).sum(), highest=1).p_value)
    known = np.concatenate(p)
    known = known[~np.isnan(known)]
    assert len(known) == 0 if (size, rate) == (2, 0.003) else True
    assert len(known) > 1000 if size * rate > 10 else True
    if len(known):
        assert np.mean(known <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(known))


@pytest.mark.parametrize("slices, rows, rates", [(300, 28_200, (0.0045, 0.0666)), (1000, 35_000, (0.0135, 0.231))])
def test_a_denominator_that_rises_with_hits_does_not_choose_the_slices_to_test(slices, rows, rates):
    """At the limit of what is too few: of F1's slices with few rows, those with many hits would be tested."""
    random = np.random.default_rng(3)
    hits, others = rates  # a hit adds 2 to numerator and denominator, a miss or a false alarm 1 to the denominator
    found = []
    for _ in range(150):
        table = random.multinomial(rows // slices, [hits, others, 1 - hits - others], slices)
        n, d = 2 * table[:, 0], 2 * table[:, 0] + table[:, 1]
        whole, units = n.sum() / d.sum(), table[:, :2].sum()
        of_hit, of_other = 2 - 2 * whole, -whole
        square, cube = (table[:, 0].sum() * of_hit**power + table[:, 1].sum() * of_other**power for power in (2, 3))
        mixed = table[:, 0].sum() * of_hit * 2 + table[:, 1].sum() * of_other
        tests = quotients_against_whole(n, d, units, square, cube, 1.0, mixed=mixed)
        assert tests.units == pytest.approx(table[:, :2].sum(axis=1))  # hits, misses and false alarms
        found.append(tests.p_value)
    p = np.concatenate(found)
    tested = p[~np.isnan(p)]
    assert 200 < len(tested) < 0.2 * len(p)  # these are at the limit
    assert np.mean(tested <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(tested))


def test_what_is_too_little_says_how_much_would_do_and_that_does():
    random = np.random.default_rng(0)
    rows = 20_000
    slot, n = np.minimum(random.geometric(0.02, rows), 199), (random.random(rows) < 0.02).astype(float)
    rest = n - n.mean()
    sums = [np.bincount(slot, each, 200) for each in (n, np.ones(rows), np.ones(rows))]
    tests = quotients_against_whole(*sums, (rest**2).sum(), (rest**3).sum(), highest=1)
    few = np.isnan(tests.score)
    assert few.any() and not few.all()
    assert (sums[2][few] < tests.needed[few]).all() and (sums[2][~few] >= tests.needed[~few]).all()


def test_a_slice_that_differs_is_found_and_its_p_value_is_that_of_its_score():
    random = np.random.default_rng(1)
    positive, negative = histograms(random, 60_000, 0.05, 20)
    positive[7] = positive[7][::-1]
    tests = areas_against_whole(positive, negative)
    assert np.nanargmin(tests.p_value) == 7 and tests.p_value[7] < 1e-6
    assert tests.p_value[3] == pytest.approx(math.erfc(abs(tests.score[3]) / math.sqrt(2)))


def test_the_p_value_of_nine_clicks_where_two_are_expected_is_about_that_of_poisson():
    clicks = np.array([9.0, *[2.0] * 199])
    rows, rate = np.full(200, 1000.0), clicks.sum() / 200_000
    moments = [clicks.sum() * (1 - rate) ** power + (200_000 - clicks.sum()) * (-rate) ** power for power in (2, 3)]
    p = quotients_against_whole(clicks, rows, rows, *moments, highest=1).p_value[0]
    assert 2.4e-4 < p < 9.5e-4  # twice P(X >= 9) is 4.7e-4; of a normal variable it is 1e-6


@pytest.mark.parametrize("total", [28.0, 40.0, 60.0])
def test_the_score_of_forty_exponential_gains_is_that_of_their_gamma_distribution(total):
    units = 10**8
    found = quotients_against_whole([total, units - total], [40, units - 40], units, units, 2 * units)
    assert found.score[0] == pytest.approx(stats.norm.ppf(stats.gamma.cdf(total, 40)), abs=4e-3)


def test_intervals_of_percentages_are_a_hundred_times_those_of_shares():
    numerator, denominator = np.array([30.0, 50.0, 400.0]), np.array([100.0, 200.0, 1700.0])
    shares = quotients_against_whole(numerator, denominator, denominator, 400, 100, highest=1)
    percentages = quotients_against_whole(100 * numerator, denominator, denominator, 400e4, 100e6, highest=100)
    assert np.isfinite(shares.low).all()
    np.testing.assert_allclose([percentages.low, percentages.high], 100 * np.array([shares.low, shares.high]), 1e-12)


def test_groups_of_rows_that_are_alike_inflate_the_variance_of_an_area():
    random = np.random.default_rng(2)
    positive, negative = histograms(random, 20_000, 0.3, 1)
    each = np.repeat(np.arange(200), positive[0]), np.repeat(np.arange(200), negative[0])
    for copies in (1, 4):
        tables = [np.zeros((500, 200)) for _ in each]
        for table, bucket in zip(tables, each):
            np.add.at(table, (random.integers(0, 500, len(bucket)), bucket), copies)
        assert inflation_of_areas(*tables) == pytest.approx(copies, rel=0.25)
    single = areas_against_whole(*histograms(np.random.default_rng(3), 5_000, 0.3, 10))
    inflated = areas_against_whole(*histograms(np.random.default_rng(3), 5_000, 0.3, 10), inflation=4.0)
    assert inflated.error == pytest.approx(2 * single.error)


def test_intervals_hold_what_slices_are_samples_of():
    random = np.random.default_rng(4)
    held = []
    for _ in range(20):
        positive, negative = histograms(random, 20_000, 0.1, 40)
        tests = areas_against_whole(positive, negative)
        below = np.cumsum(negative.sum(0)) - negative.sum(0) / 2
        area = positive.sum(0).dot(below) / positive.sum() / negative.sum()
        held += ((tests.low <= area) & (area <= tests.high)).tolist()
    assert 0.93 <= np.mean(held) <= 0.98


def test_a_slice_that_is_all_there_is_gets_no_verdict():
    tests = areas_against_whole(np.full((1, 4), 10), np.full((1, 4), 10))
    assert np.isnan(tests.score).all() and np.isnan(quotients_against_whole([4], [10], [10], 2.4, 0.48).score).all()


def test_a_slice_most_of_whose_rows_are_of_one_user_has_few_users_however_many_the_others_are():
    n, d = np.array([40.0, 30.0, 900.0]), np.array([100.0, 100.0, 3000.0])
    units = np.array([20.0, 20.0, 600.0])
    squares = np.array([20 * 25.0, 19 * 1.0 + 81.0**2, 600 * 25.0])
    alike, uneven = (
        quotients_against_whole(n, d, units, 4000.0, 1000.0, squares=each) for each in (units * 25.0, squares)
    )
    assert np.isfinite(alike.score).all() and np.isfinite(uneven.score).tolist() == [True, False, True]
    assert uneven.needed[0] == alike.needed[0] and uneven.needed[1] > 5 * 20 * squares[1] / 100.0**2 - 1


def test_a_slice_of_large_users_varies_as_they_do():
    sums = np.array([[40.0, 30.0], [100.0, 100.0], [40.0, 40.0]])
    even, uneven = (quotients_against_whole(*sums, 50.0, 10.0, squares=each) for each in ([250, 250], [400, 100]))
    assert uneven.error == pytest.approx(even.error * np.sqrt([1.6, 1.0]))


def users_of_unequal_size(random, slices=100, users=5_000, rows=30_000):
    """The clicks and the rows of users, of whom some have hundreds of rows and an own click rate, in random slices."""
    share = np.arange(1, users + 1) ** -0.7
    d = random.multinomial(rows, share / share.sum()).astype(float)
    d, slot = d[d > 0], random.integers(0, slices, np.count_nonzero(d))
    return random.binomial(d.astype(int), random.beta(1, 9, len(d))).astype(float), d, slot


def test_of_random_slices_no_more_quotients_than_promised_differ_where_users_differ_in_size():
    """The slice of the largest user varies as this user does, and not as its share of all rows says."""
    random, p = np.random.default_rng(7), []
    for _ in range(20):
        n, d, slot = users_of_unequal_size(random)
        rest = n - n.sum() / d.sum() * d
        sums = [np.bincount(slot, each, 100) for each in (n, d, np.ones(len(d)))]
        squares = np.bincount(slot, d**2, 100)
        inflation = inflation_of_sizes(squares, sums[1])
        assert inflation.min() == 1 and inflation.max() > 1.5
        p.append(quotients_against_whole(*sums, (rest**2).sum(), (rest**3).sum(), squares=squares).p_value)
    known = np.concatenate(p)[~np.isnan(np.concatenate(p))]
    assert len(known) > 500 and np.mean(known <= 0.05) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(known))
    assert np.mean(known <= 0.001) <= 0.001 + 3 * math.sqrt(0.001 / len(known))


def test_rare_large_errors_of_both_signs_need_more_rows_than_their_skewness_says():
    random, found = np.random.default_rng(8), []
    for _ in range(20):
        error = random.standard_t(2.5, 20_000)
        slot = random.integers(0, 400, len(error))
        sums = [np.bincount(slot, each, 400) for each in (error, *[np.ones(len(error))] * 2)]
        square, cube, fourth = (((error - error.mean()) ** power).sum().item() for power in (2, 3, 4))
        tests = quotients_against_whole(*sums, square, cube, math.nan, fourth=fourth)
        few = np.isnan(tests.score)
        assert (tests.needed[few] > sums[2][few]).all()
        found.append(tests.p_value[~few])
    known = np.concatenate(found)
    assert np.mean(known <= 0.001) <= 0.001 + 3 * math.sqrt(0.001 / len(known)) if len(known) else True


def test_a_slice_with_too_few_has_no_interval_and_one_that_is_all_there_is_has_that_of_the_whole():
    few = areas_against_whole(np.array([[0, 1], [40, 60]]), np.array([[1, 0], [60, 40]]))
    assert np.isnan([few.low[0], few.high[0]]).all() and few.low[1] < few.high[1]
    whole = areas_against_whole(np.full((1, 4), 10), np.full((1, 4), 10))
    assert whole.low[0] < 0.5 < whole.high[0] and np.isnan(whole.p_value[0])
    clicks = quotients_against_whole([4], [10], [10], 2.4, 0.48)
    assert clicks.low[0] < 0.4 < clicks.high[0] and np.isnan(clicks.p_value[0])
    assert np.isnan(quotients_against_whole([1, 3], [1, 9], [1, 9], 2.4, 0.48).low[0])  # one unit of five


def test_false_discovery_rates_are_those_of_benjamini_and_hochberg():
    p = [0.01, math.nan, 0.04, 0.03, 0.005, 0.9]
    assert false_discovery_rates(p).tolist() == pytest.approx([0.025, math.nan, 0.05, 0.05, 0.025, 0.9], nan_ok=True)
    assert false_discovery_rates([]).tolist() == [] and np.isnan(false_discovery_rates([math.nan])).all()


@pytest.mark.parametrize("degrees", [(2, 3), (2, 3, 4)])
def test_residuals_are_those_of_a_loop_over_units(degrees):
    random = np.random.default_rng(8)
    n, d = random.normal(1, 1, 300), random.random(300) + 0.5
    found = residuals_of_whole([n.sum(), d.sum()], np.sum(products([n, d], degrees), axis=1))
    rest = n - n.sum() / d.sum() * d
    wanted = [(rest**2).sum(), (rest**3).sum(), (rest**4).sum() if 4 in degrees else 0.0, rest @ d]
    assert [found.square, *found.cubes, found.fourth, found.mixed] == pytest.approx(wanted)


def test_slices_of_many_equal_units_use_their_own_quotient_and_others_that_of_the_whole():
    random = np.random.default_rng(9)
    n, d = random.normal(1, 1, (2, 200)), np.ones((2, 200))
    d[1, 0] = 1e3  # one unit has most of the second slice
    sums = np.stack([n.sum(axis=1), d.sum(axis=1)], 1)
    found = residuals_of_slices(sums, np.sum(products([n, d], (2, 3, 4)), axis=2).T)
    whole = n.sum() / d.sum()
    own, other = n[0] - n[0].mean(), n[1] - whole * d[1]
    assert found.square == pytest.approx((own**2).sum() * 200 / 199 + (other**2).sum())
    cubes = (own**3).sum(), (other**3).sum()
    fourths = (own**4).sum(), (other**4).sum()
    largest = max((math.copysign(fourth**0.75, cube) for fourth, cube in zip(fourths, cubes)), key=abs)
    assert found.cubes == pytest.approx([sum(cubes), sum(cubes) - largest]) and found.fourth == pytest.approx(
        sum(fourths)
    )
    assert found.mixed == pytest.approx(((n - whole * d) * d).sum())
