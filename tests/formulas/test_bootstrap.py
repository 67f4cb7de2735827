"""Intervals from replicates, and the difference of two results."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from fleetmetrics import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas.bootstrap import BootstrapResult, bootstrap_result, paired_difference

RNG = np.random.default_rng(5)
R = 400
DRAWN = RNG.poisson(1000, R)


def result(values: Any, value: Any = 0.5, **settings: Any) -> BootstrapResult:
    return bootstrap_result(value, values, 0, DRAWN[: len(values)], **settings)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95])
def test_summary_is_numpys(confidence: float) -> None:
    values = RNG.normal(size=R)
    found = result(values, confidence=confidence)
    assert (found.mean, found.std) == pytest.approx((values.mean(), values.std(ddof=1)), rel=1e-14)
    low, high = np.percentile(values, [50 - 50 * confidence, 50 + 50 * confidence])
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)
    assert type(found.mean) is type(found.low) is float


def test_arrays_are_summed_up_entry_by_entry() -> None:
    values = RNG.normal(size=(R, 2, 3))
    found = result(values, np.zeros((2, 3)))
    alone = result(values[:, 1, 2])
    for name in ("mean", "std", "low", "high"):
        assert getattr(found, name).shape == (2, 3) and getattr(found, name)[1, 2] == getattr(alone, name)


def test_undefined_replicates_are_left_out_with_a_warning() -> None:
    values = RNG.normal(size=R)
    values[:3] = np.nan
    with pytest.warns(UndefinedMetricWarning, match="^auc is undefined in 3 of 400 replicates: they are left out"):
        found = result(values, metric="auc")
    assert found.mean == pytest.approx(values[3:].mean()) and len(found.replicates) == R


def test_where_nothing_is_defined_all_is_nan_and_the_value_has_warned_already() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = result(np.full(4, np.nan), math.nan)
    assert all(math.isnan(each) for each in found[:5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(result([1.0]).std)


def test_infinite_replicates_have_percentiles_too() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = result([1.0, 2.0, 3.0, math.inf, math.inf], confidence=0.5)
    assert (found.low, found.high, found.mean) == (2.0, math.inf, math.inf) and math.isnan(found.std)


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
        ({"seed": 1}, "must have one seed, not 0 and 1"),
        ({"replicates": np.zeros(R - 1)}, r"replicates of one shape, not \[400\] and \[399\]"),
        ({"drawn": DRAWN + 1}, "have drawn different samples: they must be of the same samples, with the same ids"),
    ],
)
def test_results_that_do_not_belong_together_are_an_error(change: dict[str, Any], told: str) -> None:
    one = result(np.zeros(R))
    with pytest.raises(InvalidInputError, match=told):
        paired_difference(one, one._replace(**change))


def test_bad_arguments_are_an_error_that_names_them() -> None:
    one = result(np.zeros(R))
    for arguments, told in [
        ((one, 0.5), "other must be a BootstrapResult, not float"),
        ((0.5, one), "one must be a BootstrapResult, not float"),
        ((one, one, 1.0), "confidence must be a number between 0 and 1, not 1.0"),
        ((one, one, "much"), "not 'much'"),
        (({"a": one}, {"b": one}), "same keys; only one of them has 'a'"),
        (({"a": one}, one), "one must be a BootstrapResult, not dict"),
    ]:
        with pytest.raises(InvalidInputError, match=told):
            paired_difference(*arguments)
