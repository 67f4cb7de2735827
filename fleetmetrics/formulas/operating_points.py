"""Operating points of the curves, and metrics at given thresholds.

``positive``, ``negative`` and ``thresholds`` are those of `fleetmetrics.formulas.roc_curve`: the weights of both
classes by bucket, rising scores, and the lowest score of each bucket. A sample is predicted positive if its score is at
least the threshold. Where a value is undefined it is ``zero_division``; nan, the default, comes with
`UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.formulas.arrays import numbers, weights
from fleetmetrics.formulas.auc import HISTOGRAM
from fleetmetrics.formulas.curves import THRESHOLDS, Points, points
from fleetmetrics.formulas.quotients import stand_in, undefined
from fleetmetrics.support.checks import above_0, between, checked, stand_in_value

__all__ = [
    "OperatingPoint",
    "Sweep",
    "equal_error_rate",
    "precision_at_fixed_recall",
    "recall_at_fixed_precision",
    "sensitivity_at_specificity",
    "specificity_at_sensitivity",
    "threshold_sweep",
    "tpr_at_fpr",
]


#: The limit of a precision or a rate.
_SHARE = between(0, 1)
#: By how much of itself a limit, or the best, may be missed: of ten weights 0.1, rounding makes seven less than 0.7.
_ROUNDING = 2**-40


class OperatingPoint(NamedTuple):
    """The best value that the condition allows, and its threshold.

    Args:
        value: a fraction in [0, 1].
        threshold: the lowest score predicted positive; inf if no score is.
    """

    value: float
    threshold: float


@checked(
    positive=HISTOGRAM, negative=HISTOGRAM, thresholds=THRESHOLDS, min_precision=_SHARE, zero_division=stand_in_value
)
def recall_at_fixed_precision(
    positive: Any, negative: Any, thresholds: Any, min_precision: float, zero_division: float = math.nan
) -> OperatingPoint:
    """The highest recall with a precision of at least ``min_precision``, in [0, 1]; undefined without positive samples.

    Formula: ``max { recall(t) : precision(t) >= min_precision }`` over the thresholds t; of equal recalls the one at
    the highest threshold, where precision is higher. Predicting nothing (recall 0 at threshold inf) is always allowed.

    Examples:
        >>> recall_at_fixed_precision([0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75], min_precision=0.6)
        OperatingPoint(value=1.0, threshold=0.25)
    """
    at = points(positive, negative, thresholds)
    if not at.tp[-1]:
        return OperatingPoint(stand_in("recall_at_fixed_precision", "no sample is labeled 1", zero_division), math.nan)
    return _best(at, at.tp / at.tp[-1], at.precision >= min_precision * (1 - _ROUNDING))


@checked(positive=HISTOGRAM, negative=HISTOGRAM, thresholds=THRESHOLDS, min_recall=_SHARE, zero_division=stand_in_value)
def precision_at_fixed_recall(
    positive: Any, negative: Any, thresholds: Any, min_recall: float, zero_division: float = math.nan
) -> OperatingPoint:
    """The highest precision with a recall of at least ``min_recall``, in [0, 1]; undefined without positive samples.

    Formula: ``max { precision(t) : recall(t) >= min_recall }`` over the thresholds t; of equal precisions the one at
    the lowest threshold, where recall is higher. Predicting nothing counts as precision 1 and recall 0.

    Examples:
        >>> precision_at_fixed_recall([0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75], min_recall=0.5)
        OperatingPoint(value=1.0, threshold=0.75)
    """
    at = points(positive, negative, thresholds)
    if not at.tp[-1]:
        return OperatingPoint(stand_in("precision_at_fixed_recall", "no sample is labeled 1", zero_division), math.nan)
    return _best(at, at.precision, at.tp / at.tp[-1] >= min_recall * (1 - _ROUNDING), lowest=True)


@checked(
    positive=HISTOGRAM, negative=HISTOGRAM, thresholds=THRESHOLDS, min_specificity=_SHARE, zero_division=stand_in_value
)
def sensitivity_at_specificity(
    positive: Any, negative: Any, thresholds: Any, min_specificity: float, zero_division: float = math.nan
) -> OperatingPoint:
    """The highest sensitivity with a specificity of at least ``min_specificity``; undefined for one class alone.

    Formula: ``max { TPR(t) : 1 - FPR(t) >= min_specificity }`` over the thresholds t; of equal values the one at the
    highest threshold, where specificity is higher.

    Examples:
        >>> sensitivity_at_specificity([0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75], min_specificity=0.5)
        OperatingPoint(value=1.0, threshold=0.25)
    """
    at = points(positive, negative, thresholds)
    if at.one_class:
        return OperatingPoint(stand_in("sensitivity_at_specificity", at.one_class, zero_division), math.nan)
    best = _best(at, at.tp, at.tn / at.tn[0] >= min_specificity * (1 - _ROUNDING))
    return best._replace(value=best.value / float(at.tp[-1]))


@checked(
    positive=HISTOGRAM, negative=HISTOGRAM, thresholds=THRESHOLDS, min_sensitivity=_SHARE, zero_division=stand_in_value
)
def specificity_at_sensitivity(
    positive: Any, negative: Any, thresholds: Any, min_sensitivity: float, zero_division: float = math.nan
) -> OperatingPoint:
    """The highest specificity with a sensitivity of at least ``min_sensitivity``; undefined for one class alone.

    Formula: ``max { 1 - FPR(t) : TPR(t) >= min_sensitivity }`` over the thresholds t; of equal values the one at the
    lowest threshold, where sensitivity is higher.

    Examples:
        >>> specificity_at_sensitivity([0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75], min_sensitivity=0.75)
        OperatingPoint(value=0.5, threshold=0.25)
    """
    at = points(positive, negative, thresholds)
    if at.one_class:
        return OperatingPoint(stand_in("specificity_at_sensitivity", at.one_class, zero_division), math.nan)
    return _best(at, at.tn / at.tn[0], at.tp / at.tp[-1] >= min_sensitivity * (1 - _ROUNDING), lowest=True)


@checked(positive=HISTOGRAM, negative=HISTOGRAM, thresholds=THRESHOLDS, max_fpr=_SHARE, zero_division=stand_in_value)
def tpr_at_fpr(
    positive: Any, negative: Any, thresholds: Any, max_fpr: float, zero_division: float = math.nan
) -> OperatingPoint:
    """The highest true positive rate with a false positive rate of at most ``max_fpr``; undefined for one class alone.

    Formula: ``max { TPR(t) : FPR(t) <= max_fpr }`` over the thresholds t; of equal values the one at the highest
    threshold, where the false positive rate is lower.

    Examples:
        >>> tpr_at_fpr([0, 1, 0, 1], [1, 1, 0, 0], [0.0, 0.25, 0.5, 0.75], max_fpr=0.5)
        OperatingPoint(value=1.0, threshold=0.25)
    """
    at = points(positive, negative, thresholds)
    if at.one_class:
        return OperatingPoint(stand_in("tpr_at_fpr", at.one_class, zero_division), math.nan)
    return _best(at, at.tp / at.tp[-1], at.fp / at.fp[-1] <= max_fpr * (1 + _ROUNDING))


@checked(positive=HISTOGRAM, negative=HISTOGRAM, zero_division=stand_in_value)
def equal_error_rate(positive: Any, negative: Any, zero_division: float = math.nan) -> float:
    """The rate at which false positives and false negatives are equally frequent, in [0, 1].

    Formula: ``FPR = 1 - TPR`` on the ROC curve, whose points are joined by straight lines. Undefined for one class
    alone.

    Source: Martin et al., "The DET curve in assessment of detection task performance", Eurospeech 1997.

    Examples:
        >>> equal_error_rate([0, 1, 3], [3, 1, 0])
        0.125
    """
    at = points(positive, negative)
    if at.one_class:
        return stand_in("equal_error_rate", at.one_class, zero_division)
    fpr = at.fp / at.fp[-1]
    return float(np.interp(0.0, fpr - at.fn / at.fn[0], fpr))


def _best(at: Points, values: np.ndarray, allowed: np.ndarray, *, lowest: bool = False) -> OperatingPoint:
    """The highest of the allowed values; of equal ones that at the highest threshold, or at the lowest."""
    if math.isnan(at.tp[-1] + at.fp[-1]):  # unchecked weights may be nan
        return OperatingPoint(math.nan, math.nan)
    kept = np.where(allowed, values, -1.0)
    highest = kept.max()
    equal = (kept == highest) | (kept >= highest * (1 - _ROUNDING))  # unchecked weights may give values below 0
    best = int(np.flatnonzero(equal)[-1 if lowest else 0])
    return OperatingPoint(float(values[best]), float(at.thresholds[best]))


class Sweep(NamedTuple):
    """Metrics at given thresholds: arrays of equal length, and the best of them.

    Args:
        thresholds: as they were given.
        precision: of the samples predicted positive, the share that is positive.
        recall: of the positive samples, the share predicted positive.
        f_beta: the weighted harmonic mean of the two.
        accuracy: share of the samples predicted right.
        specificity: of the negative samples, the share predicted negative.
        best_threshold: where F-beta is highest, the lowest of several.
        best_f_beta: the highest F-beta.
    """

    thresholds: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    f_beta: np.ndarray
    accuracy: np.ndarray
    specificity: np.ndarray
    best_threshold: float
    best_f_beta: float


@checked(
    thresholds=numbers("thresholds", rising=True, infinite=True),
    positive=weights("thresholds+1", flat=True),
    negative=weights("thresholds+1", flat=True),
    beta=above_0,
    zero_division=stand_in_value,
)
def threshold_sweep(
    positive: Any, negative: Any, thresholds: Any, beta: float = 1.0, zero_division: float = math.nan
) -> Sweep:
    """Precision, recall, F-beta, accuracy and specificity (float64 arrays) at each of the given thresholds.

    Formula: with the samples whose score is at least t predicted positive, ``precision = TP / (TP + FP)``, ``recall =
    TP / (TP + FN)``, ``F = (1 + beta**2) TP / ((1 + beta**2) TP + beta**2 FN + FP)``, ``accuracy = (TP + TN) / all``,
    ``specificity = TN / (TN + FP)``.

    Args:
        positive: weight of the samples with label 1 between two thresholds, ``[thresholds + 1]``, the first entry below
            all thresholds; int64 or float64.
        negative: the same for label 0.
        thresholds: rising, ``[thresholds]``.
        beta: the importance of recall relative to precision, above 0.
        zero_division: see the module.

    Examples:
        >>> sweep = threshold_sweep([0, 1, 1], [2, 1, 0], [0.25, 0.5])
        >>> sweep.recall.tolist(), sweep.specificity.tolist(), sweep.best_threshold
        ([1.0, 0.5], [0.6666666666666666, 1.0], 0.25)
    """
    at, p, n = (np.asarray(array, np.float64) for array in (thresholds, positive, negative))
    tp, fp = (np.cumsum(weights[::-1])[::-1][1:] for weights in (p, n))
    fn, tn = (np.cumsum(weights)[:-1] for weights in (p, n))
    square = min(beta, 1e100) ** 2  # a larger one changes no digit
    parts = {
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "f_beta": ((1 + square) * tp, (1 + square) * tp + square * fn + fp),
        "accuracy": (tp + tn, tp + fn + fp + tn),
        "specificity": (tn, tn + fp),
    }
    values, undefined_at = {}, []
    for name, (above, below) in parts.items():
        empty = below == 0
        values[name] = np.where(empty, zero_division, above / np.where(empty, 1, below))
        if empty.any():
            undefined_at.append(f"{name} at {np.count_nonzero(empty)}")
    if undefined_at and math.isnan(zero_division):
        undefined("threshold_sweep", f"nothing to divide by for {', '.join(undefined_at)} of {len(tp)} thresholds")
    f_beta = values["f_beta"]
    best = int(np.argmax(np.where(np.isnan(f_beta), -1.0, f_beta)))
    where = (math.nan, math.nan) if np.isnan(f_beta).all() else (float(at[best]), float(f_beta[best]))
    return Sweep(at.copy(), **values, best_threshold=where[0], best_f_beta=where[1])
