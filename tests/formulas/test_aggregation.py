"""Formulas of aggregates against NumPy and statsmodels."""

import math

import numpy as np
import pytest

from fleetmetrics import UndefinedMetricWarning, formulas

RNG = np.random.default_rng(4)
VALUES, WEIGHT = RNG.normal(size=500), RNG.random(500)


def moments(weight):
    mean = np.average(VALUES, weights=weight)
    return np.array([weight.sum(), mean, np.sum(weight * (VALUES - mean) ** 2)])


@pytest.mark.parametrize("ddof", [0, 1, 2.5])
def test_variance_and_standard_deviation_equal_numpy_and_weighted_statsmodels(ddof):
    from statsmodels.stats.weightstats import DescrStatsW

    plain = moments(np.ones(500))
    assert formulas.variance(plain, ddof) == pytest.approx(np.var(VALUES, ddof=ddof), rel=1e-12)
    assert formulas.standard_deviation(plain, ddof) == pytest.approx(np.std(VALUES, ddof=ddof), rel=1e-12)
    weighted = DescrStatsW(VALUES, WEIGHT, ddof=ddof)
    assert formulas.variance(moments(WEIGHT), ddof) == pytest.approx(weighted.var, rel=1e-12)
    assert formulas.standard_deviation(moments(WEIGHT), ddof) == pytest.approx(weighted.std, rel=1e-12)


@pytest.mark.parametrize("weight, ddof, reason", [(0, 0, "no samples"), (1, 1, "weight is 1, and ddof is 1")])
def test_variance_needs_more_weight_than_ddof(weight, ddof, reason):
    for formula in (formulas.variance, formulas.standard_deviation):
        with pytest.warns(UndefinedMetricWarning, match=f"{formula.__name__} is undefined: .*{reason}"):
            assert math.isnan(formula(np.array([weight, 0.5, 0.0]), ddof))


def test_histogram_counts_keep_integers():
    value = formulas.histogram_counts(np.array([1, 2, 3, 4]), (0.0, 0.5, 1.0))
    assert value.counts.dtype == np.int64 and value.edges.dtype == np.float64
    assert (value.counts.tolist(), value.below, value.above) == ([2, 3], 1, 4)
    assert type(value.below) is int
