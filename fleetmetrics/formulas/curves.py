"""Curves over all thresholds, from the histograms of the scores of both classes.

All take the weight of the positive and of the negative samples by bucket, rising scores, and the lowest score of each
bucket as its threshold: a sample is predicted positive if its score is at least the threshold.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.formulas.ratio import stand_in

__all__ = [
    "ROC",
    "PrecisionRecall",
    "cumulative_gain",
    "kolmogorov_smirnov",
    "lift",
    "points",
    "precision_recall_curve",
    "rates",
    "roc_curve",
]


class ROC(NamedTuple):
    """A ROC curve as arrays of equal length, from the highest threshold to the lowest.

    Args:
        fpr: false positive rate, rising from 0 to 1.
        tpr: true positive rate, rising from 0 to 1.
        thresholds: falling; the first one is inf: no sample is predicted positive.
    """

    fpr: np.ndarray
    tpr: np.ndarray
    thresholds: np.ndarray


class PrecisionRecall(NamedTuple):
    """A precision-recall curve as arrays, from the lowest threshold to the highest.

    Args:
        precision: ends with a 1 that belongs to no threshold.
        recall: falling from 1; ends with a 0 that belongs to no threshold.
        thresholds: rising; one entry less.
    """

    precision: np.ndarray
    recall: np.ndarray
    thresholds: np.ndarray


def roc_curve(positive: Any, negative: Any, thresholds: Any, zero_division: float = math.nan) -> ROC:
    """The ROC curve over the thresholds that separate samples.

    Formula: ``fpr[i]`` and ``tpr[i]`` are the shares of the negative and of the positive samples whose score is at
    least ``thresholds[i]``. Empty buckets make no point.

    Source: Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27 (2006).

    Args:
        positive: weight of the samples with label 1 by bucket, rising scores; int64 or float64, ``[buckets]``.
        negative: the same for label 0.
        thresholds: the lowest score of each bucket, ``[buckets]``.
        zero_division: the rate of a class that has no samples, without a warning; nan: nan, with
            `UndefinedMetricWarning`.

    Returns:
        Arrays as `sklearn.metrics.roc_curve` returns them with ``drop_intermediate=False``, float64.

    Examples:
        >>> curve = roc_curve([0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75])
        >>> curve.fpr.tolist(), curve.tpr.tolist(), curve.thresholds.tolist()
        ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0], [inf, 0.75, 0.25, 0.0])
    """
    true_positive, false_positive, falling = points(positive, negative, thresholds)
    if not true_positive[-1] and not false_positive[-1]:
        nothing = np.array([stand_in("roc_curve", "there are no samples", zero_division)])
        return ROC(nothing, nothing.copy(), falling)
    fpr = _share(false_positive, "roc_curve", "no sample is labelled 0", zero_division)
    tpr = _share(true_positive, "roc_curve", "no sample is labelled 1", zero_division)
    return ROC(fpr, tpr, falling)


def precision_recall_curve(
    positive: Any, negative: Any, thresholds: Any, zero_division: float = math.nan
) -> PrecisionRecall:
    """The precision-recall curve over the thresholds that separate samples.

    Formula: ``precision[i]`` is the share of positive samples among those whose score is at least ``thresholds[i]``,
    ``recall[i]`` the share of the positive samples that are among them. Empty buckets make no point.

    Source: Davis and Goadrich, "The relationship between precision-recall and ROC curves", ICML 2006.

    Args:
        positive: as for `roc_curve`.
        negative: as for `roc_curve`.
        thresholds: as for `roc_curve`.
        zero_division: the recall if no sample is positive, without a warning; nan: nan, with `UndefinedMetricWarning`.

    Returns:
        Arrays as `sklearn.metrics.precision_recall_curve` returns them with ``drop_intermediate=False``, float64.

    Examples:
        >>> curve = precision_recall_curve([0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75])
        >>> curve.recall.tolist(), curve.thresholds.tolist()
        ([1.0, 1.0, 0.5, 0.0], [0.0, 0.25, 0.75])
    """
    true_positive, false_positive, falling = points(positive, negative, thresholds)
    recall = _share(true_positive, "precision_recall_curve", "no sample is labelled 1", zero_division)
    precision = np.ones_like(recall)
    precision[1:] = true_positive[1:] / (true_positive + false_positive)[1:]
    return PrecisionRecall(precision[::-1], recall[::-1], falling[:0:-1])


def kolmogorov_smirnov(positive: Any, negative: Any, zero_division: float = math.nan) -> float:
    """The largest distance between the distributions of the scores of the two classes.

    Formula: ``max_t |TPR(t) - FPR(t)|``: the two-sample Kolmogorov-Smirnov statistic of the scores.

    Source: Smirnov, "Table for estimating the goodness of fit of empirical distributions", Annals of Mathematical
    Statistics 19 (1948). Its use for scores: Thomas, Edelman and Crook, Credit Scoring and Its Applications (2002),
    section 7.4.

    Args:
        positive: as for `roc_curve`.
        negative: as for `roc_curve`.
        zero_division: the value if a class has no samples, without a warning; nan: nan, with `UndefinedMetricWarning`.

    Returns:
        A fraction in [0, 1].

    Examples:
        >>> kolmogorov_smirnov([0, 1, 1], [1, 1, 0])
        0.5
    """
    curve = rates(positive, negative, np.zeros(np.size(positive)), "kolmogorov_smirnov", zero_division)
    return float(np.max(np.abs(curve.tpr - curve.fpr))) if isinstance(curve, ROC) else curve


def points(positive: Any, negative: Any, thresholds: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The points of the curves: what lies at and above each threshold that separates samples.

    Args:
        positive: as for `roc_curve`.
        negative: as for `roc_curve`.
        thresholds: as for `roc_curve`.

    Returns:
        The positive and the negative samples predicted positive, and the thresholds, falling from inf; float64.
    """
    p, n, t = (np.ravel(array)[::-1].astype(np.float64) for array in (positive, negative, thresholds))
    used = (p > 0) | (n > 0)
    columns = np.cumsum(p[used]), np.cumsum(n[used]), t[used]
    first = 0.0, 0.0, math.inf
    tp, fp, falling = (np.concatenate([[start], column]) for start, column in zip(first, columns))
    return tp, fp, falling


def _share(cumulated: np.ndarray, metric: str, reason: str, zero_division: float) -> np.ndarray:
    if not cumulated[-1]:
        return np.full(cumulated.shape, stand_in(metric, reason, zero_division))
    return cumulated / cumulated[-1]


def rates(positive: Any, negative: Any, thresholds: Any, metric: str, zero_division: float) -> ROC | float:
    """The ROC curve; or what stands in for a metric that needs samples of both classes.

    Args:
        positive: as for `roc_curve`.
        negative: as for `roc_curve`.
        thresholds: as for `roc_curve`.
        metric: its name, for the warning.
        zero_division: what stands in; nan: nan, with the warning.
    """
    tp, fp, falling = points(positive, negative, thresholds)
    if not tp[-1] or not fp[-1]:
        reason = f"the weight of the samples labelled 1 is {tp[-1]:g}, of those labelled 0 {fp[-1]:g}"
        return stand_in(metric, reason, zero_division)
    return ROC(fp / fp[-1], tp / tp[-1], falling)


def cumulative_gain(positive: Any, negative: Any, fractions: Any, zero_division: float = math.nan) -> np.ndarray:
    """Which share of the positive samples is among the given share of the samples with the highest scores.

    Formula: the positives in the top ``x * N`` of N samples, divided by all positives; inside a bucket the curve is a
    straight line, as if its samples came in random order.

    Source: Berry and Linoff, Data Mining Techniques (1997), chapter 5 (cumulative gains chart).

    Args:
        positive: weight of the samples with label 1 by bucket, rising scores; int64 or float64, ``[buckets]``.
        negative: the same for label 0.
        fractions: shares x of the population in [0, 1], ``[m]``.
        zero_division: the values if no sample is positive, without a warning; nan: nan, with `UndefinedMetricWarning`.

    Returns:
        Fractions in [0, 1], float64 ``[m]``.

    Examples:
        >>> cumulative_gain([0, 1, 3], [4, 1, 1], [0.25, 0.5, 1.0]).tolist()
        [0.46875, 0.875, 1.0]
    """
    fractions = np.asarray(fractions, np.float64)
    gain = _gain(positive, negative, fractions)
    return _no_gain("cumulative_gain", fractions, zero_division) if gain is None else gain


def lift(positive: Any, negative: Any, fractions: Any, zero_division: float = math.nan) -> np.ndarray:
    """How many times more positive samples the top of the ranking holds than a random choice of the same size.

    Formula: ``cumulative_gain(x) / x``, which is the rate of positives among the top ``x * N`` samples divided by that
    among all.

    Source: Berry and Linoff, Data Mining Techniques (1997), chapter 5.

    Args:
        positive: as for `cumulative_gain`.
        negative: as for `cumulative_gain`.
        fractions: shares x of the population, above 0 and at most 1, ``[m]``.
        zero_division: as for `cumulative_gain`.

    Returns:
        At least 0, float64 ``[m]``; 1 is no better than chance.

    Examples:
        >>> lift([0, 1, 3], [4, 1, 1], [0.25, 0.5, 1.0]).tolist()
        [1.875, 1.75, 1.0]
    """
    fractions = np.asarray(fractions, np.float64)
    gain = _gain(positive, negative, fractions)
    return _no_gain("lift", fractions, zero_division) if gain is None else gain / fractions


def _gain(positive: Any, negative: Any, fractions: np.ndarray) -> np.ndarray | None:
    tp, fp, _ = points(positive, negative, np.zeros(np.size(positive)))
    if not tp[-1]:
        return None
    population = tp + fp
    return np.interp(fractions * population[-1], population, tp / tp[-1])


def _no_gain(metric: str, fractions: np.ndarray, zero_division: float) -> np.ndarray:
    return np.full(fractions.shape, stand_in(metric, "no sample is labelled 1", zero_division))
