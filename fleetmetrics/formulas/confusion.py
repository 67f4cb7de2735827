"""Formulas on counts per class: precision, recall, F1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.formulas.ratio import undefined

__all__ = ["precision_recall_f1"]


def precision_recall_f1(
    true_positive: Any, predicted: Any, actual: Any, total: Any, average: str | None = "macro"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Precision, recall and F1 from the counts of every class, and the support.

    Formula: ``precision = tp / predicted``, ``recall = tp / actual``, ``F1 = 2 * tp / (predicted + actual)``, which
    is the harmonic mean of the two; 0 / 0 is 0. ``"micro"`` sums the counts of all classes first, ``"macro"`` takes
    the mean of the classes' values, each class with the same weight.

    The first three are linear in ``true_positive``: give 100 times the counts for percent.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval (2008), sections 8.3 and 13.6.

    Args:
        true_positive: ``[classes]``, how often the class was predicted where it is true.
        predicted: ``[classes]``, how often it was predicted.
        actual: ``[classes]``, how often it is true.
        total: number of samples.
        average: ``"micro"``, ``"macro"``, or None for one value per class.

    Returns:
        Precision, recall, F1 (float64) and support, the sum of ``actual`` (int64): 0-d arrays, or ``[classes]``
        where ``average`` is None. With `UndefinedMetricWarning`: nan for the three if there are no samples; 0 for
        precision if no class was ever predicted, and for recall if no class is ever true.

    Examples:
        >>> precision_recall_f1([1, 1, 0, 1], [1, 2, 0, 1], [1, 1, 1, 1], total=4)
        (array(0.625), array(0.75), array(0.66666667), array(4))
    """
    counts = [np.asarray(count) for count in (true_positive, predicted, actual)]
    support = counts[2] if average is None else np.asarray(counts[2].sum())
    if average == "micro":
        counts = [count.sum(keepdims=True) for count in counts]
    if total == 0:
        value = undefined("precision, recall and f1-score", "there are no samples")
        shares = [np.full(counts[0].shape, value)] * 3
    else:
        for name, reason, count in (("precision", "predicted", counts[1]), ("recall", "true", counts[2])):
            if not count.any():
                undefined(name, f"no class is {reason} for any sample", 0.0)
        hits, predicted, actual = counts
        shares = [_share(hits, predicted), _share(hits, actual), _share(2 * hits, predicted + actual)]
    if average is not None:
        shares = [np.asarray(share.mean() if share.size else math.nan) for share in shares]
    precision, recall, f1 = shares
    return precision, recall, f1, support


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return part / np.maximum(whole, 1)  # without a whole there is no part
