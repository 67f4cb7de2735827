"""Curves and points of them from two histograms: scikit-learn's and SciPy's over the samples."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import ks_2samp
from sklearn import metrics

from fleetmetrics import UndefinedMetricWarning
from fleetmetrics.formulas import (
    cumulative_gain,
    equal_error_rate,
    kolmogorov_smirnov,
    lift,
    precision_at_fixed_recall,
    precision_recall_curve,
    recall_at_fixed_precision,
    roc_curve,
    sensitivity_at_specificity,
    specificity_at_sensitivity,
    threshold_sweep,
    tpr_at_fpr,
)

BUCKETS = 12
THRESHOLDS = np.arange(BUCKETS) / 16
RNG = np.random.default_rng(0)


def draws(number=40):
    """Buckets, labels and weights (of every other one) of a few samples, and their histograms."""
    for place in range(number):
        size = int(RNG.integers(2, 50))
        bucket, label = RNG.integers(0, BUCKETS, size), RNG.random(size) < RNG.choice([0.2, 0.5, 0.9])
        label[:2] = True, False
        weight = RNG.random(size) if place % 2 else None
        by_class = [
            np.bincount(bucket[label == c], None if weight is None else weight[label == c], BUCKETS) for c in (1, 0)
        ]
        yield bucket, label, weight, by_class


def same(mine, theirs):
    assert mine._fields[-1] == "thresholds" and len(mine) == len(theirs)
    for one, other in zip(mine, theirs):
        assert one.dtype == np.float64 and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_roc_curve_is_scikit_learns():
    for bucket, label, weight, by_class in draws():
        theirs = metrics.roc_curve(label, THRESHOLDS[bucket], sample_weight=weight, drop_intermediate=False)
        same(roc_curve(*by_class, THRESHOLDS), theirs)


def test_precision_recall_curve_is_scikit_learns():
    for bucket, label, weight, by_class in draws():
        theirs = metrics.precision_recall_curve(
            label, THRESHOLDS[bucket], sample_weight=weight, drop_intermediate=False
        )
        same(precision_recall_curve(*by_class, THRESHOLDS), theirs)


def test_kolmogorov_smirnov_is_scipys_two_sample_statistic():
    for bucket, label, weight, by_class in draws():
        if weight is None:
            theirs = ks_2samp(bucket[label], bucket[~label]).statistic
            assert kolmogorov_smirnov(*by_class) == pytest.approx(theirs, rel=1e-12)


def test_kolmogorov_smirnov_counts_scores_that_rank_the_wrong_way():
    assert kolmogorov_smirnov([3, 0], [0, 3]) == kolmogorov_smirnov([0, 3], [3, 0]) == 1.0


def test_kolmogorov_smirnov_of_counts_of_any_size_is_correctly_rounded():
    for scale in (1, 2**20, 2**40):
        for positive, negative in scale * RNG.integers(0, 1000, (20, 2, 50)) + RNG.integers(0, 2, (20, 2, 50)):
            tp, fp = (list(itertools.accumulate(each.tolist())) for each in (positive, negative))
            distances = [abs(Fraction(a, tp[-1]) - Fraction(b, fp[-1])) for a, b in zip(tp, fp)]
            assert kolmogorov_smirnov(positive, negative) == float(max(distances))


POINTS = {
    "recall at fixed precision": (recall_at_fixed_precision, "recall", "precision"),
    "precision at fixed recall": (precision_at_fixed_recall, "precision", "recall"),
    "sensitivity at specificity": (sensitivity_at_specificity, "recall", "specificity"),
    "specificity at sensitivity": (specificity_at_sensitivity, "specificity", "recall"),
}


def rates(bucket, label, weight, threshold):
    """The rates with samples from a threshold on predicted positive, by brute force."""
    weight = np.ones(len(label)) if weight is None else weight
    chosen = THRESHOLDS[bucket] >= threshold
    hits = weight[chosen & label].sum()
    return {
        "recall": hits / weight[label].sum(),
        "precision": hits / weight[chosen].sum() if chosen.any() else 1.0,
        "specificity": 1 - weight[chosen & ~label].sum() / weight[~label].sum(),
    }


@pytest.mark.parametrize("name", POINTS)
def test_a_point_is_the_best_of_all_thresholds(name):
    formula, wanted, bounded = POINTS[name]
    for (bucket, label, weight, by_class), least in itertools.product(draws(20), [0, 0.41, 0.77, 1 - 1e-12]):
        found = formula(*by_class, THRESHOLDS, least)
        at = rates(bucket, label, weight, found.threshold)
        assert found.value == pytest.approx(at[wanted], rel=1e-12) and at[bounded] >= least - 1e-12
        every = [rates(bucket, label, weight, threshold) for threshold in [*THRESHOLDS, math.inf]]
        best = max(each[wanted] for each in every if each[bounded] >= least + 1e-12 or least == 0)
        assert found.value >= best - 1e-12


def test_of_equal_values_the_threshold_with_the_better_other_rate_is_taken():
    positive, negative = [0, 1, 0, 1, 0], [1, 1, 1, 0, 1]
    thresholds = [0, 0.2, 0.4, 0.6, 0.8]
    assert recall_at_fixed_precision(positive, negative, thresholds, 0.3) == (1.0, 0.2)
    assert sensitivity_at_specificity(positive, negative, thresholds, 0) == (1.0, 0.2)
    assert precision_at_fixed_recall(positive, negative, thresholds, 0.5) == (0.5, 0.6)
    assert specificity_at_sensitivity([0, 1, 1], [2, 0, 0], [0, 0.5, 0.75], 0.5) == (1.0, 0.5)


def test_a_precision_that_no_threshold_reaches_means_predicting_nothing():
    assert recall_at_fixed_precision([1, 0], [0, 1], [0.0, 0.5], 0.9) == (0.0, math.inf)


def test_threshold_sweep_is_scikit_learns_at_every_threshold():
    for bucket, label, weight, _ in draws(20):
        edges = np.array([1.0, 4.0, 5.0, 9.0])
        place = np.searchsorted(edges, bucket, "right")
        by_class = [np.bincount(place[label == c], None if weight is None else weight[label == c], 5) for c in (1, 0)]
        mine = threshold_sweep(*by_class, edges, beta=0.5, zero_division=0.0)
        settings = {"sample_weight": weight, "zero_division": 0.0}
        for number, edge in enumerate(edges):
            predicted = bucket >= edge
            theirs = [
                metrics.precision_score(label, predicted, **settings),
                metrics.recall_score(label, predicted, **settings),
                metrics.fbeta_score(label, predicted, beta=0.5, **settings),
                metrics.accuracy_score(label, predicted, sample_weight=weight),
                metrics.recall_score(~label, ~predicted, **settings),
            ]
            assert [part[number] for part in mine[1:6]] == pytest.approx(theirs, rel=1e-12, abs=1e-15)
        assert mine.best_f_beta == mine.f_beta.max() and mine.f_beta[edges == mine.best_threshold] == mine.best_f_beta


def test_threshold_sweep_names_all_that_is_undefined_in_one_warning():
    with pytest.warns(UndefinedMetricWarning) as told:
        sweep = threshold_sweep([0, 0, 0], [3, 1, 0], [0.25, 0.5])
    assert len(told) == 1
    assert "nothing to divide by for precision at 1, recall at 2, f_beta at 1 of 2 thresholds" in str(told[0].message)
    assert sweep.f_beta[0] == 0 and math.isnan(sweep.f_beta[1]) and sweep.best_threshold == 0.25


def test_gain_and_lift_are_the_expectation_over_orders_of_the_ties():
    """Of six samples, in all orders that agree with the buckets."""
    bucket, label = np.array([2, 2, 2, 1, 1, 0]), np.array([1, 0, 0, 1, 1, 0])
    by_class = [np.bincount(bucket[label == c], minlength=3) for c in (1, 0)]
    orders = [order for order in itertools.permutations(range(6)) if (np.diff(bucket[list(order)]) <= 0).all()]
    for top in range(1, 7):
        expected = np.mean([label[list(order[:top])].sum() for order in orders]) / 3
        assert cumulative_gain(*by_class, [top / 6]) == pytest.approx([expected], rel=1e-12)
        assert lift(*by_class, [top / 6]) == pytest.approx([expected * 6 / top], rel=1e-12)
    assert cumulative_gain([1, 1, 0], [1, 0, 0], [0.0]) == [0]  # the highest bucket is empty


@pytest.mark.parametrize("value", [math.nan, 0.25])
@pytest.mark.parametrize("positive, negative", [([0, 0], [0, 0]), ([0, 0], [1, 2]), ([1, 2], [0, 0])])
def test_a_missing_class_is_nan_with_a_warning_or_what_was_asked_for_without(positive, negative, value):
    thresholds = [0.0, 0.5]
    by_class = positive, negative
    needs_positive = [
        lambda: precision_recall_curve(*by_class, thresholds, value).recall,
        lambda: recall_at_fixed_precision(*by_class, thresholds, 0.5, value).value,
        lambda: precision_at_fixed_recall(*by_class, thresholds, 0.5, value).value,
        lambda: cumulative_gain(*by_class, [0.5], value),
        lambda: lift(*by_class, [0.5], value),
        lambda: roc_curve(*by_class, thresholds, value).tpr,
    ]
    needs_both = [
        lambda: kolmogorov_smirnov(*by_class, value),
        lambda: sensitivity_at_specificity(*by_class, thresholds, 0.5, value).value,
        lambda: specificity_at_sensitivity(*by_class, thresholds, 0.5, value).value,
        lambda: tpr_at_fpr(*by_class, thresholds, 0.5, value).value,
        lambda: equal_error_rate(*by_class, value),
    ]
    needs_negative = [lambda: roc_curve(*by_class, thresholds, value).fpr]
    undefined = [
        *needs_both,
        *(needs_positive if not any(positive) else []),
        *(needs_negative if not any(negative) else []),
    ]
    for call in undefined:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            result = np.asarray(call())
        assert np.isnan(result).all() if math.isnan(value) else (result == value).all()
        assert bool(told) == math.isnan(value) and all(each.category is UndefinedMetricWarning for each in told)
