"""Intervals from replicates, and the difference of two results."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from fleetmetrics import UndefinedMetricWarning
from fleetmetrics.formulas.bootstrap import BootstrapResult, bootstrap_result

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
    with pytest.warns(
        UndefinedMetricWarning, match="^auc is undefined in 3 of 400 replicates; the interval leaves them out"
    ):
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
