"""Formulas of pairs of samples: what looking at every pair gives, and SciPy."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from fleetmetrics import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas import PairCounts, kendall_correlation, pair_counts, xauc

RNG = np.random.default_rng(11)


def every_pair(prediction, label, weight):
    i, j = np.triu_indices(len(prediction), 1)
    product = weight[i] * weight[j]
    order = np.sign(prediction[i] - prediction[j]) * np.sign(label[i] - label[j])
    kinds = (order > 0, order < 0, prediction[i] != prediction[j], label[i] != label[j])
    return [product[kind].sum() for kind in kinds] + [weight.sum()]


@pytest.mark.parametrize("samples", [1, 2, 3, 4, 5, 8, 9, 100, 257])
def test_pairs_are_counted_as_in_a_loop_over_all(samples):
    for values in (1, 2, 5, 1000):
        prediction, label = RNG.integers(0, values, (2, samples)) / 4
        found = pair_counts(prediction, label)
        assert list(found) == every_pair(prediction, label, np.ones(samples, int))
        assert all(type(each) is int for each in found)
        eighths, real = RNG.integers(1, 8, samples) / 8, RNG.random(samples)
        scale = 2.0 ** -np.frexp(eighths.max())[1]
        assert list(pair_counts(prediction, label, eighths)) == every_pair(prediction, label, eighths * scale)
        scale = 2.0 ** -np.frexp(real.max())[1]
        np.testing.assert_allclose(
            pair_counts(prediction, label, real), every_pair(prediction, label, real * scale), rtol=1e-12
        )


def test_pairs_of_the_orders_that_have_extremes():
    rising = np.arange(1000)
    pairs = 1000 * 999 // 2
    assert pair_counts(rising, rising) == (pairs, 0, pairs, pairs, 1000)
    assert pair_counts(rising, -rising) == (0, pairs, pairs, pairs, 1000)
    assert pair_counts(rising, rising // 1000) == (0, 0, pairs, 0, 1000)
    assert pair_counts([], []) == PairCounts()
    for weight in (None, rising + 0.1):
        right, wrong = pair_counts(rising, rising, weight), pair_counts(rising, -rising, weight)
        assert kendall_correlation(right) == pytest.approx(1, rel=1e-15) and xauc(right) == pytest.approx(1, rel=1e-15)
        assert kendall_correlation(wrong) == pytest.approx(-1, rel=1e-15) and xauc(wrong) == pytest.approx(0, abs=1e-15)


def test_integers_that_no_float_tells_apart_are_told_apart():
    """Beyond 2**53, and one that has no opposite."""
    small = RNG.integers(0, 30, (2, 200))
    for dtype, offset in ((np.int64, 2**62), (np.int64, -(2**63)), (np.uint64, 2**63), (np.int8, -128)):
        prediction, label = (values.astype(dtype) + np.array(offset, dtype) for values in small)
        assert pair_counts(prediction, label) == pair_counts(*small)
    flags = small > 15
    assert pair_counts(*flags) == pair_counts(*flags.astype(float))


def test_samples_that_are_not_equally_many_are_an_error():
    with pytest.raises(InvalidInputError, match="label has 1 entry and prediction 2"):
        pair_counts([1, 2], [1])
    with pytest.raises(InvalidInputError, match="weight has 3 entries and prediction 2"):
        pair_counts([1, 2], [1, 2], [1, 1, 1])


@pytest.mark.parametrize("digits", [0, 1, 9])
def test_kendall_correlation_equals_scipy_with_and_without_ties(digits):
    prediction, label = np.round(RNG.normal(size=(2, 500)), digits)
    expected = stats.kendalltau(prediction, label).statistic
    assert kendall_correlation(pair_counts(prediction, label)) == pytest.approx(expected, rel=1e-12)


def test_a_weight_of_n_in_kendall_correlation_counts_as_n_samples():
    times, prediction, label = RNG.integers(1, 5, 300), *RNG.integers(0, 9, (2, 300))
    expected = stats.kendalltau(np.repeat(prediction, times), np.repeat(label, times)).statistic
    for weight in (times, times / 7, times * 1e-300, times * 1e300):
        assert kendall_correlation(pair_counts(prediction, label, weight)) == pytest.approx(expected, rel=1e-12)


def test_xauc_of_two_classes_is_the_area_under_the_curve():
    prediction, label, weight = RNG.integers(0, 30, 300) / 4, RNG.integers(0, 2, 300), RNG.random(300)
    assert xauc(pair_counts(prediction, label)) == pytest.approx(roc_auc_score(label, prediction), rel=1e-12)
    expected = roc_auc_score(label, prediction, sample_weight=weight)
    assert xauc(pair_counts(prediction, label, weight)) == pytest.approx(expected, rel=1e-12)


def test_few_pairs_among_many_of_great_weight_keep_their_digits():
    """One sample of another label: its pairs are a trillionth of all, and must not be what a difference leaves."""
    prediction, weight = RNG.random(200), np.append(RNG.random(199), 1e-12)
    label = np.append(np.zeros(199), 1)
    below = weight[:199][prediction[:199] < prediction[199]].sum()
    expected = 2 * below / weight[:199].sum() - 1
    i, j = np.triu_indices(200, 1)
    apart = (weight[i] * weight[j]).sum()
    found = kendall_correlation(pair_counts(prediction, label, weight))
    product = 1e-12 * weight[:199].sum()
    assert found == pytest.approx(expected * product / math.sqrt(product * apart), rel=1e-12)


@pytest.mark.parametrize(
    "formula, pairs, reason",
    [
        (kendall_correlation, pair_counts([1, 2], [3, 3]), "all labels are equal"),
        (kendall_correlation, pair_counts([1, 1], [3, 4]), "all predictions are equal"),
        (kendall_correlation, PairCounts(), "there are no samples"),
        (xauc, pair_counts([1, 2], [3, 3], [0.5, 1]), "all labels are equal"),
        (xauc, PairCounts(), "there are no samples"),
    ],
)
def test_an_undefined_value_says_why_or_is_zero_division(formula, pairs, reason):
    with pytest.warns(UndefinedMetricWarning, match=f"^{formula.__name__} is undefined: {reason}"):
        assert math.isnan(formula(pairs))
    assert formula(pairs, 0.25) == 0.25


def test_a_hundred_thousand_samples_are_fast():
    prediction = RNG.normal(size=100_000)
    label = prediction + RNG.normal(size=100_000)
    start = time.process_time()
    found = kendall_correlation(pair_counts(prediction, label))
    assert time.process_time() - start < 10  # in a second; every pair would take minutes
    assert found == pytest.approx(stats.kendalltau(prediction, label).statistic, rel=1e-12)
