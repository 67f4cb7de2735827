"""Formulas of regression metrics against scikit-learn and SciPy."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from fleetmetrics import UndefinedMetricWarning, formulas

RNG = np.random.default_rng(3)
PREDICTION, LABEL, WEIGHT = RNG.normal(size=(3, 1000))
LABEL = LABEL + PREDICTION / 2
WEIGHT = np.abs(WEIGHT)
ERROR = np.abs(PREDICTION - LABEL)
WEIGHTS = pytest.mark.parametrize("weight", [np.ones(1000), WEIGHT], ids=["plain", "weighted"])


def moments(values, weight):
    mean = np.average(values, weights=weight)
    return np.array([weight.sum(), mean, np.sum(weight * (values - mean) ** 2)])


def comoments(weight):
    p, y = moments(PREDICTION, weight), moments(LABEL, weight)
    mixed = np.sum(weight * (PREDICTION - p[1]) * (LABEL - y[1]))
    return np.array([p[0], p[1], y[1], p[2], mixed, y[2]])


@WEIGHTS
def test_r2_and_explained_variance_equal_scikit_learn(weight):
    squared_error, of_label = np.sum(weight * ERROR**2), moments(LABEL, weight)
    expected = metrics.r2_score(LABEL, PREDICTION, sample_weight=weight)
    assert formulas.r2_score(squared_error, of_label) == pytest.approx(expected, rel=1e-12, abs=0)
    expected = metrics.explained_variance_score(LABEL, PREDICTION, sample_weight=weight)
    value = formulas.explained_variance(moments(LABEL - PREDICTION, weight), of_label)
    assert value == pytest.approx(expected, rel=1e-12, abs=0)


def test_adjusted_r2_is_that_of_ordinary_least_squares():
    import statsmodels.api as sm

    table = np.random.default_rng(0).normal(size=(40, 3))
    label = table @ [1.0, 2.0, 0.0] + np.sin(np.arange(40))
    fit = sm.OLS(label, sm.add_constant(table)).fit()
    squared_error, of_label = np.sum((fit.fittedvalues - label) ** 2), moments(label, np.ones(40))
    value = formulas.r2_score(squared_error, of_label, number=40, adjusted=3)
    assert value == pytest.approx(fit.rsquared_adj, rel=1e-12)
    with pytest.warns(UndefinedMetricWarning, match="adjusted=3 needs more than 4 samples, and there are 4"):
        assert math.isnan(formulas.r2_score(squared_error, of_label, number=4, adjusted=3))


def test_pearson_correlation_equals_scipy_and_weighted_statsmodels():
    from statsmodels.stats.weightstats import DescrStatsW

    expected = stats.pearsonr(PREDICTION, LABEL).statistic
    assert formulas.pearson_correlation(comoments(np.ones(1000))) == pytest.approx(expected, rel=1e-12)
    expected = DescrStatsW(np.stack([PREDICTION, LABEL], 1), WEIGHT).corrcoef[0, 1]
    assert formulas.pearson_correlation(comoments(WEIGHT)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-160, 1e-80, 1.0, 1e80, 1e150])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_perfect_line_has_correlation_one_at_any_scale(scale, sign):
    squares = (scale**2 / 3, sign * scale**2 / 3, scale**2 / 3)
    assert formulas.pearson_correlation([3.0, 0.0, 0.0, *squares]) == pytest.approx(sign, rel=1e-15)


@pytest.mark.parametrize("digits", [0, 1, 9])
def test_spearman_correlation_equals_scipy_with_and_without_ties(digits):
    prediction, label = np.round(PREDICTION, digits), np.round(LABEL, digits)
    expected = stats.spearmanr(prediction, label).statistic
    assert formulas.spearman_correlation(prediction, label) == pytest.approx(expected, rel=1e-12)


def test_a_weight_of_n_in_spearman_correlation_counts_as_n_samples():
    times = RNG.integers(1, 5, 1000)
    prediction, label = np.round(PREDICTION, 1), np.round(LABEL, 1)
    expected = stats.spearmanr(np.repeat(prediction, times), np.repeat(label, times)).statistic
    assert formulas.spearman_correlation(prediction, label, times) == pytest.approx(expected, rel=1e-12)
    assert formulas.spearman_correlation(prediction, label, times / 7) == pytest.approx(expected, rel=1e-12)


CONSTANT = [4.0, 0.1, 4 * (1e-17) ** 2]


@pytest.mark.parametrize(
    "value, name, reason",
    [
        (lambda **k: formulas.r2_score(1.0, CONSTANT, **k), "r2_score", "all labels are equal"),
        (lambda **k: formulas.r2_score(0.0, np.zeros(3), **k), "r2_score", "there are no samples"),
        (lambda **k: formulas.explained_variance(np.ones(3), CONSTANT, **k), "explained_variance", "all labels are"),
        (lambda **k: formulas.explained_variance(np.zeros(3), np.zeros(3), **k), "explained_variance", "no samples"),
        (lambda **k: formulas.pearson_correlation([4, 0.1, 7, 0, 0, 1], **k), "pearson_correlation", "all predictions"),
        (lambda **k: formulas.pearson_correlation([4, 7, 0.1, 1, 0, 0], **k), "pearson_correlation", "all labels are"),
        (lambda **k: formulas.pearson_correlation(np.zeros(6), **k), "pearson_correlation", "there are no samples"),
        (lambda **k: formulas.spearman_correlation([1, 1], [1, 2], **k), "spearman_correlation", "all predictions are"),
        (lambda **k: formulas.spearman_correlation([], [], **k), "spearman_correlation", "there are no samples"),
    ],
)
def test_undefined_is_nan_with_a_warning_that_says_why_or_what_was_asked_for(value, name, reason, recwarn):
    with pytest.warns(UndefinedMetricWarning, match=f"^{name} is undefined: .*{reason}"):
        assert math.isnan(value())
    recwarn.clear()
    assert value(zero_division=0.25) == 0.25
    assert not recwarn.list


def test_constants_of_all_kinds_are_distinguished_from_a_small_spread():
    for constant in (0.1, 1 / 3, 1e8 + 0.1, 1e-300, 12345.678):
        for number in (2, 3, 7, 1000):
            values = np.full(number, constant)
            with pytest.warns(UndefinedMetricWarning, match="all labels are equal"):
                assert math.isnan(formulas.r2_score(0.0, moments(values, RNG.random(number))))
    assert formulas.r2_score(0.0, moments(1e8 + RNG.normal(size=100) * 1e-5, np.ones(100))) == 1.0
