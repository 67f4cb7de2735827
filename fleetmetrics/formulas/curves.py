"""Curves over all thresholds, from the histograms of the scores of both classes.

``positive`` and ``negative`` are the weights of the samples labeled 1 and 0 by bucket, rising scores, ``[buckets]``,
int64 or float64, finite and at least 0; ``thresholds`` is the lowest score of each bucket, ``[buckets]``. Other shapes
raise `InvalidInputError`. A sample is predicted positive if its score is at least the threshold. A share of a class
without samples is ``zero_division``; nan, the default, comes with `UndefinedMetricWarning`.
"""

from __future__ import annotations

import bisect
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.arrays import numbers, weights
from fleetmetrics.formulas.auc import HISTOGRAM
from fleetmetrics.formulas.quotients import one_class, stand_in
from fleetmetrics.formulas.sums import are_counts, as_integers, partial_sums, sums_before, unknown
from fleetmetrics.support.checks import checked, stand_in_value

__all__ = [
    "ROC",
    "PrecisionRecall",
    "cumulative_gain",
    "kolmogorov_smirnov",
    "lift",
    "precision_recall_curve",
    "roc_curve",
]


#: The lowest score of each bucket.
THRESHOLDS = numbers("buckets", rising=True, infinite=True)


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


@checked(positive=HISTOGRAM, negative=HISTOGRAM, thresholds=THRESHOLDS, zero_division=stand_in_value)
def roc_curve(positive: Any, negative: Any, thresholds: Any, zero_division: float = math.nan) -> ROC:
    """The ROC curve over the thresholds that separate samples.

    Formula: ``fpr[i] = FP_i / N`` and ``tpr[i] = TP_i / P`` are the shares of the negative and of the positive samples
    whose score is at least ``thresholds[i]``. Empty buckets have no point, as in `sklearn.metrics.roc_curve` with
    ``drop_intermediate=False``.

    Examples:
        >>> curve = roc_curve([0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75])
        >>> curve.fpr.tolist(), curve.tpr.tolist(), curve.thresholds.tolist()
        ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0], [inf, 0.75, 0.25, 0.0])
    """
    at = points(positive, negative, thresholds)
    if not at.tp[-1] and not at.fp[-1]:
        nothing = np.array([stand_in("roc_curve", "there are no samples", zero_division)])
        return ROC(nothing, nothing.copy(), at.thresholds)
    fpr = _share_of_all(at.fp, "roc_curve", "no sample is labeled 0", zero_division)
    tpr = _share_of_all(at.tp, "roc_curve", "no sample is labeled 1", zero_division)
    return ROC(fpr, tpr, at.thresholds)


@checked(positive=HISTOGRAM, negative=HISTOGRAM, thresholds=THRESHOLDS, zero_division=stand_in_value)
def precision_recall_curve(
    positive: Any, negative: Any, thresholds: Any, zero_division: float = math.nan
) -> PrecisionRecall:
    """The precision-recall curve over the thresholds that separate samples.

    Formula: ``precision[i] = TP_i / (TP_i + FP_i)`` is the share of positive samples among those whose score is at
    least ``thresholds[i]``, ``recall[i] = TP_i / P`` the share of the positive samples among them. Empty buckets have
    no point, as in `sklearn.metrics.precision_recall_curve` with ``drop_intermediate=False``.

    Examples:
        >>> curve = precision_recall_curve([0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75])
        >>> curve.recall.tolist(), curve.thresholds.tolist()
        ([1.0, 1.0, 0.5, 0.0], [0.0, 0.25, 0.75])
    """
    at = points(positive, negative, thresholds)
    recall = _share_of_all(at.tp, "precision_recall_curve", "no sample is labeled 1", zero_division)
    return PrecisionRecall(at.precision[::-1], recall[::-1], at.thresholds[:0:-1])


@checked(positive=HISTOGRAM, negative=HISTOGRAM, zero_division=stand_in_value)
def kolmogorov_smirnov(positive: Any, negative: Any, zero_division: float = math.nan) -> float:
    """The largest distance between the distributions of the scores of the two classes, in [0, 1].

    Formula: ``max_t |TPR(t) - FPR(t)|``: the two-sample Kolmogorov-Smirnov statistic of the scores; for integers it is
    correctly rounded.

    Examples:
        >>> kolmogorov_smirnov([0, 1, 1], [1, 1, 0])
        0.5
    """
    if are_counts(positive) and are_counts(negative):
        p, n = as_integers(positive), as_integers(negative)
        positives, negatives = int(p.sum()), int(n.sum())
        pairs = positives * negatives
        if pairs:
            p, n = (p, n) if pairs < 2**63 else (p.astype(object), n.astype(object))
            apart = p.cumsum() * negatives - n.cumsum() * positives
            return max(int(apart.max()), -int(apart.min())) / pairs
        return stand_in("kolmogorov_smirnov", one_class(positives, negatives), zero_division)
    p, n = positive.astype(np.float64), negative.astype(np.float64)
    tp, fp = partial_sums(p[::-1]), partial_sums(n[::-1])
    reason = one_class(tp[-1], fp[-1])
    if reason:
        return stand_in("kolmogorov_smirnov", reason, zero_division)
    fn, tn = partial_sums(p)[::-1], partial_sums(n)[::-1]  # a difference of weights cancels
    above, below = tp / tp[-1] - fp / fp[-1], tn / tn[0] - fn / fn[0]
    return float(np.minimum(np.abs(above), np.abs(below)).max())  # they are equal, but smaller terms cancel less


class Points(NamedTuple):
    """The weights above and below each threshold that separates samples, float64; made by `points`."""

    tp: np.ndarray  #: positive samples predicted positive
    fp: np.ndarray  #: negative samples predicted positive
    fn: np.ndarray  #: positive samples predicted negative
    tn: np.ndarray  #: negative samples predicted negative
    thresholds: np.ndarray  #: falling from inf

    @property
    def precision(self) -> np.ndarray:
        """The share of positive samples among those predicted positive; 1 if none are predicted positive."""
        precision = np.ones_like(self.tp)
        precision[1:] = self.tp[1:] / (self.tp + self.fp)[1:]
        return precision

    @property
    def one_class(self) -> str:
        """Why there are no rates, if a class has no samples; else ""."""
        return one_class(self.tp[-1], self.fp[-1])


def points(positive: np.ndarray, negative: np.ndarray, thresholds: np.ndarray | None = None) -> Points:
    """The points of the curves, computed by sums alone: a difference would lose small weights."""
    used = np.flatnonzero((positive != 0) | (negative != 0))[::-1]
    p, n = np.zeros(len(used) + 1), np.zeros(len(used) + 1)
    p[:-1], n[:-1] = positive[used], negative[used]
    above, below = (sums_before(p), sums_before(n)), (np.cumsum(p[::-1])[::-1], np.cumsum(n[::-1])[::-1])
    at = np.full(len(used) + 1, math.inf)
    at[1:] = 0.0 if thresholds is None else thresholds[used]
    return Points(*above, *below, at)


def _share_of_all(cumulated: np.ndarray, metric: str, reason: str, zero_division: float) -> np.ndarray:
    """The shares of the last sum; without one the curve is undefined, and says so."""
    if not cumulated[-1]:
        return np.full(cumulated.shape, stand_in(metric, reason, zero_division))
    return cumulated / cumulated[-1]


@checked(positive=HISTOGRAM, negative=HISTOGRAM, fractions=weights(most=1), zero_division=stand_in_value)
def cumulative_gain(positive: Any, negative: Any, fractions: Any, zero_division: float = math.nan) -> np.ndarray:
    """The share of the positive samples among the given fractions of samples with the highest scores.

    Formula: ``TP(x) / P``, the positives in the top ``x * N`` of N samples, divided by all P positives; inside a bucket
    the curve is a straight line, as if its samples were in random order.

    Args:
        positive: see the module.
        negative: see the module.
        fractions: shares x of the population in [0, 1], ``[m]``.
        zero_division: see the module.

    Examples:
        >>> cumulative_gain([0, 1, 3], [4, 1, 1], [0.25, 0.5, 1.0]).tolist()
        [0.46875, 0.875, 1.0]
    """
    return _gain("cumulative_gain", positive, negative, fractions, 1.0, zero_division)


def _above_0(argument: str, value: Any, sizes: Any) -> np.ndarray:
    array: np.ndarray = weights(most=1)(argument, value, sizes)
    if not array.all():
        raise InvalidInputError(f"{argument} must be shares above 0, in (0, 1], not 0")
    return array


@checked(positive=HISTOGRAM, negative=HISTOGRAM, fractions=_above_0, zero_division=stand_in_value)
def lift(positive: Any, negative: Any, fractions: Any, zero_division: float = math.nan) -> np.ndarray:
    """How many times more positive samples the top of the ranking holds than a random choice of the same size.

    Formula: ``cumulative_gain(x) / x``, for fractions x above 0: the rate of positives among the top ``x * N`` samples
    divided by that among all; 1 is no better than chance.

    Examples:
        >>> lift([0, 1, 3], [4, 1, 1], [0.25, 0.5, 1.0]).tolist()
        [1.875, 1.75, 1.0]
    """
    return _gain("lift", positive, negative, fractions, fractions, zero_division)


def _gain(metric: str, positive: Any, negative: Any, fractions: Any, divisor: Any, zero_division: float) -> np.ndarray:
    """The cumulative gain over the divisor, of the shape of the fractions."""
    from fractions import Fraction  # every metric imports this module

    fractions, counts = np.asarray(fractions, np.float64), np.stack([positive, negative])
    if unknown(counts):
        return np.full(fractions.shape, math.nan)
    table = as_integers(counts)[:, ::-1]
    p, both = [0, *table[0].tolist()], table.sum(axis=0).tolist()
    tp, population = list(itertools.accumulate(p)), list(itertools.accumulate([0, *both]))
    if not tp[-1]:
        return np.full(fractions.shape, stand_in(metric, "no sample is labeled 1", zero_division))
    gains = []
    for fraction in fractions.ravel().tolist():
        place = Fraction(fraction) * population[-1]  # exact: a bucket may be narrower than rounding
        bucket = max(1, bisect.bisect_left(population, place))
        inside = (place - population[bucket - 1]) / (population[bucket] - population[bucket - 1] or 1)
        gains.append(float((tp[bucket - 1] + inside * p[bucket]) / tp[-1]))
    return np.array(gains).reshape(fractions.shape) / divisor
