"""Differences of results: as NumPy has them, as DeLong has them, and errors for what does not belong together."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from fleetmetrics import IntervalResult, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas.bootstrap import BootstrapResult, bootstrap_result
from fleetmetrics.formulas.differences import paired_difference, spread_of_both, unpaired_difference
from fleetmetrics.formulas.spreads import Spread

RNG = np.random.default_rng(5)
R = 400
DRAWN = RNG.poisson(1000, R)


def result(values: Any, value: Any = 0.5, **settings: Any) -> BootstrapResult:
    return bootstrap_result(value, values, 0, DRAWN[: len(values)], **settings)


def of_groups(groups: Any, value: float = 0.5) -> IntervalResult:
    """A result whose value these groups have moved."""
    groups = np.asarray(groups, np.float64)
    std = math.sqrt(len(groups) / (len(groups) - 1) * float((groups**2).sum()))
    return IntervalResult(value, std, value - 2 * std, value + 2 * std, 0.95, groups, np.ones(len(groups), np.int64))


def test_the_difference_is_that_of_each_replicate() -> None:
    one, other = RNG.normal(1.0, 1.0, R), RNG.normal(0.0, 1.0, R)
    found = paired_difference(result(one, 0.75), result(other, 0.5), 0.9)
    difference = one - other
    assert found.value == 0.25 and found.std == pytest.approx(difference.std(ddof=1))
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(difference, [5, 95])))
    least = min((difference <= 0).sum(), (difference >= 0).sum())
    assert found.p_value == pytest.approx(2 * (1 + least) / (1 + R))


def test_p_value_is_between_two_over_replicates_and_one() -> None:
    same = result(np.zeros(R))
    assert paired_difference(same, same).p_value == 1.0
    assert paired_difference(result(np.ones(R)), same).p_value == 2 / (R + 1)
    assert paired_difference(result(-np.ones(R)), same).p_value == 2 / (R + 1)
    nothing = result(np.full(R, np.nan), math.nan)
    found = paired_difference(nothing, same)
    assert math.isnan(found.p_value) and math.isnan(found.low)


def test_arrays_and_dicts_are_compared_entry_by_entry() -> None:
    one, other = RNG.normal(size=(2, R, 3))
    table = paired_difference(result(one, one[0]), result(other, other[0]))
    alone = paired_difference(result(one[:, 1], one[0, 1]), result(other[:, 1], other[0, 1]))
    assert [each[1] for each in table] == list(alone)
    slices = paired_difference({"a": result(one[:, 1], one[0, 1])}, {"a": result(other[:, 1], other[0, 1])})
    assert slices == {"a": alone}


@pytest.mark.parametrize(
    "change, told",
    [
        ({"seed": 1}, "must have the same seed, not 0 and 1"),
        ({"replicates": np.zeros(R - 1)}, r"replicates of the same shape, not \[400\] and \[399\]"),
        ({"drawn": DRAWN + 1}, "drew different samples; both must come from the same samples with the same ids"),
    ],
)
def test_results_that_do_not_belong_together_are_an_error(change: dict[str, Any], told: str) -> None:
    one = result(np.zeros(R))
    with pytest.raises(InvalidInputError, match=told):
        paired_difference(one, one._replace(**change))


def test_bad_arguments_are_an_error_that_names_them() -> None:
    one = result(np.zeros(R))
    for arguments, told in [
        ((one, 0.5), "other must be a BootstrapResult or an IntervalResult, not float"),
        ((0.5, one), "one must be a BootstrapResult or an IntervalResult, not float"),
        ((one, one, 1.0), "confidence must be a number between 0 and 1, not 1.0"),
        ((one, one, "much"), "not 'much'"),
        (({"a": one}, {"b": one}), "same keys; only one of them has 'a'"),
        (({"a": one}, one), "one must be a BootstrapResult or an IntervalResult, not dict"),
    ]:
        with pytest.raises(InvalidInputError, match=told):
            paired_difference(*arguments)


# -- of intervals without resampling --------------------------------------------------------------------------


def test_groups_with_equal_contributions_make_no_difference() -> None:
    common, own = RNG.normal(size=R), RNG.normal(size=R) / 10
    found = paired_difference(of_groups(common + own, 0.7), of_groups(common, 0.5))
    assert found.std == pytest.approx(math.sqrt(R / (R - 1) * float((own**2).sum())))
    assert found.value == pytest.approx(0.2) and (found.low + found.high) / 2 == pytest.approx(0.2)
    assert found.high - found.value == pytest.approx(1.96593 * found.std, rel=1e-3)  # Student's, of about 399 degrees


def test_the_interval_of_a_difference_ends_at_0_where_p_is_a_twentieth() -> None:
    groups = RNG.normal(size=R)
    edge = paired_difference(of_groups(groups, 0.0), of_groups(np.zeros(R), 0.0))
    found = paired_difference(of_groups(groups, edge.high), of_groups(np.zeros(R), 0.0))
    assert found.low == pytest.approx(0.0, abs=1e-12) and found.p_value == pytest.approx(0.05)
    found = unpaired_difference(of_groups(groups, 1.959963984540054), of_groups(np.zeros(R), 0.0)._replace(std=0.0))
    assert found.p_value == pytest.approx(math.erfc(1.959963984540054 / found.std / math.sqrt(2)))


def test_equal_results_do_not_differ() -> None:
    one = of_groups(RNG.normal(size=R))
    assert paired_difference(one, one) == (0.0, 0.0, 0.0, 1.0, 0.0)


def test_a_difference_of_few_users_is_nan_with_the_number_needed() -> None:
    apart = np.zeros(R)
    apart[:20] = np.resize([1.0, -1.0], 20)
    common = RNG.normal(size=R)
    with pytest.warns(UndefinedMetricWarning, match=r"from too few of 20 users .*; it needs 50"):
        found = paired_difference(of_groups(common + apart), of_groups(common))
    assert found.value == 0.0 and all(map(math.isnan, found[1:]))


def test_a_result_that_has_no_interval_has_no_difference() -> None:
    one = of_groups(RNG.normal(size=R))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the result has warned
        for compare in (paired_difference, unpaired_difference):
            found = compare(one, one._replace(std=math.nan))
            assert found.value == 0.0 and all(map(math.isnan, found[1:]))


def test_other_samples_add_their_variances() -> None:
    one, other = of_groups(RNG.normal(size=R), 0.7), result(RNG.normal(size=R))
    found = unpaired_difference(one, other, 0.9)
    assert found.std == pytest.approx(math.hypot(one.std, other.std))
    assert found.high - found.value == pytest.approx(1.6448536269514722 * found.std)
    assert unpaired_difference({"a": one}, {"a": other}, 0.9) == {"a": found}


def test_the_difference_of_few_samples_and_many_has_the_degrees_of_freedom_of_welch() -> None:
    one, other = Spread(4.0, 9.0, {}), Spread(1.0, 999.0, {})
    found = spread_of_both(one, other)
    assert found.variance == 5 and found.freedom == pytest.approx(25 / (16 / 9 + 1 / 999))
    assert spread_of_both(one, Spread(0.0, 9.0, {})).freedom == pytest.approx(9)
    assert spread_of_both(*[Spread(0.0, 9.0, {})] * 2) == Spread(0.0, math.inf, {})


def test_intervals_that_do_not_belong_together_are_an_error() -> None:
    one = of_groups(RNG.normal(size=R))
    for other, told in [
        (one._replace(drawn=None), r"without ids, .*; give both Intervals ids=, or .* with unpaired_difference"),
        (one._replace(drawn=one.drawn + 1), "drew different samples"),
        (of_groups(np.ones(R - 1)), r"groups of the same shape, not \[400\] and \[399\]"),
        (result(np.zeros(R)), "of the same kind, not IntervalResult and BootstrapResult"),
    ]:
        with pytest.raises(InvalidInputError, match=told):
            paired_difference(one, other)
    table = result(np.zeros((R, 2)), np.zeros(2))
    with pytest.raises(InvalidInputError, match=r"results of one number, not of shape \[2\]"):
        unpaired_difference(table, table)
