"""Formulas of ranking metrics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.formulas.ratio import undefined

__all__ = ["auc_from_histogram"]


def auc_from_histogram(positive: Any, negative: Any) -> float:
    """Area under the ROC curve from the histograms of the scores of both classes.

    The probability that a positive sample scores higher than a negative one; samples of one bucket count as
    tied, so the curve is a straight line inside a bucket (trapezoidal rule):

        sum_b negative[b] * (sum_{c > b} positive[c] + positive[b] / 2) / (sum(positive) * sum(negative))

    Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic
    (ROC) curve", Radiology 143 (1982).

    Args:
        positive: weight of the samples with label 1 by bucket, rising scores; any shape, int64 or float64.
        negative: the same for label 0, equally long.

    Returns:
        A fraction in [0, 1]: the correctly rounded value for integer counts of any size. 0.5 with
        `UndefinedMetricWarning` if a class has no samples, as Paddle has it.

    Examples:
        >>> auc_from_histogram([0, 1, 1], [2, 0, 0])
        1.0
    """
    positive, negative = np.ravel(positive), np.ravel(negative)
    if positive.dtype.kind in "iub" and negative.dtype.kind in "iub":
        return _auc_of_counts(positive.astype(np.int64, copy=False), negative.astype(np.int64, copy=False))
    used = (positive != 0) | (negative != 0)
    return _auc_of_weights(positive[used].astype(np.float64), negative[used].astype(np.float64))


def _auc_of_counts(positive: np.ndarray, negative: np.ndarray) -> float:
    positives, negatives = _exact_total(positive), _exact_total(negative)
    if not positives or not negatives:
        return _one_class(positives, negatives)
    if 2 * positives * negatives < 2**63:
        below = np.cumsum(negative)
        twice_area = 2 * int(np.dot(below, positive)) - int(np.dot(negative, positive))  # integers: exact
    else:
        used = np.flatnonzero(positive)
        below = np.cumsum(negative.astype(object))[used]
        twice_area = sum(p * (2 * b - n) for p, n, b in zip(positive[used].tolist(), negative[used].tolist(), below))
    return twice_area / (2 * positives * negatives)


def _exact_total(counts: np.ndarray) -> int:
    if counts.size and int(counts.max()) > (2**63 - 1) // counts.size:
        return sum(counts.tolist())
    return int(counts.sum())


def _auc_of_weights(positive: np.ndarray, negative: np.ndarray) -> float:
    # fsum: the same bits whatever the machine's vector width
    positives, negatives = math.fsum(positive), math.fsum(negative)
    if not positives or not negatives:
        return _one_class(positives, negatives)
    below = np.cumsum(negative) - negative / 2
    area = math.fsum(below / negatives * (positive / positives))
    return min(area, 1.0)


def _one_class(positives: float, negatives: float) -> float:
    reason = f"the weight of the samples labelled 1 is {positives}, of those labelled 0 {negatives}"
    return undefined("auc", reason, 0.5)
