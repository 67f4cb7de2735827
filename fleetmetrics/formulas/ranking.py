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
    used = (positive != 0) | (negative != 0)
    positive, negative = positive[used][::-1], negative[used][::-1]  # falling scores
    counts = positive.dtype.kind in "iub" and negative.dtype.kind in "iub"
    return _auc_of_counts(positive, negative) if counts else _auc_of_weights(positive, negative)


def _auc_of_counts(positive: np.ndarray, negative: np.ndarray) -> float:
    positives, negatives = _exact_total(positive), _exact_total(negative)
    if not positives or not negatives:
        return _one_class(positives, negatives)
    if 2 * positives * negatives < 2**63:
        above = 2 * np.cumsum(positive) - positive
        twice_area = int(np.dot(above, negative))  # integers: exact
    else:
        above = np.cumsum(positive.astype(object))
        twice_area = sum(n * (2 * a - p) for p, n, a in zip(positive.tolist(), negative.tolist(), above))
    return twice_area / (2 * positives * negatives)


def _exact_total(counts: np.ndarray) -> int:
    if counts.size and int(counts.max()) > (2**63 - 1) // counts.size:
        return sum(counts.tolist())
    return int(counts.sum())


def _auc_of_weights(positive: np.ndarray, negative: np.ndarray) -> float:
    positive, negative = positive.astype(np.float64), negative.astype(np.float64)
    # fsum: the same bits whatever the machine's vector width
    positives, negatives = math.fsum(positive), math.fsum(negative)
    if not positives or not negatives:
        return _one_class(positives, negatives)
    above = np.cumsum(positive) - positive / 2
    area = math.fsum(above / positives * (negative / negatives))
    return min(area, 1.0)


def _one_class(positives: float, negatives: float) -> float:
    reason = f"the weight of the samples labelled 1 is {positives}, of those labelled 0 {negatives}"
    return undefined("auc", reason, 0.5)
