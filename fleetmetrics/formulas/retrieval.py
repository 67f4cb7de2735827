"""Formulas of ranked lists: average precision over samples, and of the answers to a query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.formulas.ratio import undefined

__all__ = ["average_precision", "average_precision_of_ranking"]


def average_precision(score: Any, target: Any) -> np.ndarray:
    """Average precision of each class: the area under the steps of its precision-recall curve.

    Formula: ``sum_t (R_t - R_{t-1}) * P_t`` over the distinct scores t from the highest, where ``P_t`` and ``R_t`` are
    precision and recall of the samples that score at least t. Samples of equal score enter together: the value does
    not depend on the order of the samples.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval (2008), section 8.4.

    Args:
        score: ``[n, classes]``, without nan.
        target: ``[n, classes]``: 1 where the sample is of the class, 0 where it is not, -1 where it does not count.

    Returns:
        ``[classes]`` fractions in [0, 1], float64. With `UndefinedMetricWarning`: 0.0 for a class without a positive
        sample, and nan if there are no samples at all.

    Examples:
        >>> average_precision([[0.9], [0.8], [0.7], [0.6]], [[1], [0], [1], [0]])
        array([0.83333333])
    """
    columns = np.ascontiguousarray(np.transpose(score)), np.ascontiguousarray(np.transpose(target))
    values = np.array([_area(*column) for column in zip(*columns)])
    empty = np.count_nonzero(np.isnan(values))
    if not np.size(score):
        undefined("average_precision", "there are no samples")
    elif empty:
        value = undefined("average_precision", f"{empty} of {len(values)} classes have no positive sample", 0.0)
        values[np.isnan(values)] = value
    return values


def _area(score: np.ndarray, target: np.ndarray) -> float:
    rising, hits = np.sort(score[target != -1]), np.sort(score[target == 1])
    if not hits.size:
        return math.nan
    # of each positive: how many positives, and how many samples, score at least as high
    hits_above = hits.size - np.searchsorted(hits, hits)
    all_above = rising.size - np.searchsorted(rising, hits)
    return float(np.sum(hits_above / all_above) / hits.size)


def average_precision_of_ranking(relevant: Any, total: Any, mode: str = "IR") -> np.ndarray:
    """Average precision of the answers to each query, the best answers first.

    Formula: ``sum_i p_i / total`` over the positions i = 1, 2, ... of the relevant answers, of which h come up to and
    including i. ``"IR"`` (information retrieval): ``p_i = h / i``. ``"integrate"`` (the trapezoidal rule of the Oxford
    Buildings benchmark): ``p_i`` is the mean of ``h / i`` and ``(h - 1) / (i - 1)``, and of ``h / i`` and 1 where
    ``i = 1``.

    Source: Manning, Raghavan and Schuetze (2008), section 8.4; Philbin et al., "Object retrieval with large
    vocabularies and fast spatial matching", CVPR 2007.

    Args:
        relevant: ``[queries, k]`` flags: whether the answer at this position is relevant.
        total: ``[queries]``, how many relevant answers there are, found or not.
        mode: ``"IR"`` or ``"integrate"``.

    Returns:
        ``[queries]`` fractions in [0, 1], float64; 0 for a query to which nothing is relevant.

    Examples:
        >>> average_precision_of_ranking([[True, False, True]], [2])
        array([0.83333333])
    """
    relevant, total = np.asarray(relevant, np.bool_), np.asarray(total)
    hits, position = np.cumsum(relevant, axis=1), np.arange(1, relevant.shape[1] + 1)
    precision = hits / position
    if mode == "integrate":
        before = np.where(position == 1, 1.0, (hits - 1) / np.maximum(position - 1, 1))
        precision = (precision + before) / 2
    # one after the other, and not pairwise: the same bits however many positions follow
    found = np.cumsum(precision * relevant, axis=1)[:, -1:].sum(axis=1)
    return found / np.maximum(total, 1)
