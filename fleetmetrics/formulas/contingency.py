"""Agreement of two partitions of samples, of predicted clusters and classes, whatever their numbers.

``confusion`` is ``[classes, clusters]``, square: counts or weights, finite and at least 0, else `InvalidInputError`. A
weight is a number of samples. Where a value is undefined it is ``zero_division``; nan, the default, comes with
`UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np

from fleetmetrics.formulas.arrays import matrix
from fleetmetrics.formulas.quotients import stand_in
from fleetmetrics.formulas.sums import unknown
from fleetmetrics.support.checks import checked, stand_in_value

__all__ = ["adjusted_rand", "cramers_v", "normalized_mutual_information"]

_ONE_EACH = "all samples are in one class and in one cluster"


@checked(confusion=matrix(labels=False), zero_division=stand_in_value)
def adjusted_rand(confusion: Any, zero_division: float = math.nan) -> float:
    """Adjusted Rand index: agreement on the pairs of samples that are together, beyond chance; at most 1.

    Formula: ``(s - e) / ((a + b) / 2 - e)`` with ``e = a * b / c``, where s, a, b and c sum ``n * (n - 1) / 2`` over
    the cells, the rows, the columns and the whole of the matrix. Weights count as copies of samples, so that
    larger ones are more pairs; a total below one sample has no pairs.

    Source: Hubert and Arabie, "Comparing partitions", Journal of Classification 2 (1985).

    Examples:
        >>> adjusted_rand([[3, 0], [1, 2]])
        0.32432432432432434
    """
    if unknown(confusion):
        return math.nan
    one: Any = 1
    if confusion.sum() > 2.0**200:  # whose fourth power is beyond floats
        one = math.ldexp(1.0, -math.frexp(confusion.sum())[1])
        confusion = confusion * one
    cells, rows, columns = (_whole(part) for part in (confusion, confusion.sum(axis=1), confusion.sum(axis=0)))
    total = sum(rows)
    if not total:
        return stand_in("adjusted_rand", "there are no samples", zero_division)
    if total < one:
        return stand_in("adjusted_rand", f"a total weight of {total:g} is less than one sample", zero_division)
    together, true, predicted, pairs = (sum(n * (n - one) for n in part) for part in (cells, rows, columns, [total]))
    below = (true + predicted) * pairs - 2 * true * predicted
    if not below:
        return stand_in("adjusted_rand", f"{_ONE_EACH}, or each in its own", zero_division)
    return float(2 * (together * pairs - true * predicted) / below)


def _whole(counts: np.ndarray) -> list[Any]:
    """The entries as numbers of Python, whose products do not overflow."""
    entries: list[Any] = counts.reshape(-1).tolist()
    return entries


@checked(confusion=matrix(labels=False), zero_division=stand_in_value)
def normalized_mutual_information(confusion: Any, zero_division: float = math.nan) -> float:
    """Mutual information of class and cluster over the mean of their entropies, in [0, 1].

    Formula: ``2 * I / (H_t + H_p)``, with ``I = sum(p_ij * ln(p_ij / (t_i * p_j)))`` and ``H = -sum(t * ln(t))`` of the
    shares of rows and columns.

    Source: Strehl and Ghosh, "Cluster ensembles", Journal of Machine Learning Research 3 (2002).

    Examples:
        >>> normalized_mutual_information([[2, 0], [0, 2]])
        1.0
    """
    return _of_shares("normalized_mutual_information", _mutual_information, confusion, _ONE_EACH, zero_division)


def _mutual_information(shares: np.ndarray) -> float | None:
    t, p = shares.sum(axis=1), shares.sum(axis=0)
    entropy = -sum(float((part[part > 0] * np.log(part[part > 0])).sum()) for part in (t, p))
    seen = shares > 0
    information = float((shares[seen] * np.log(shares[seen] / np.outer(t, p)[seen])).sum())
    return 2 * information / entropy if entropy > 0 else None


@checked(confusion=matrix(labels=False), zero_division=stand_in_value)
def cramers_v(confusion: Any, zero_division: float = math.nan) -> float:
    """Cramer's V: the strength of the association of class and cluster, in [0, 1]; 0 if they are independent.

    Formula: ``sqrt(chi2 / (n * (min(r, c) - 1)))``, with Pearson's chi-squared statistic of the r rows and c columns
    that have samples.

    Source: Cramer, Mathematical Methods of Statistics (1946), section 21.9.

    Examples:
        >>> cramers_v([[3, 1], [1, 3]])
        0.5
    """
    reason = "one class only is true, or one cluster only is predicted"
    return _of_shares("cramers_v", _association, confusion, reason, zero_division)


def _association(shares: np.ndarray) -> float | None:
    shares = shares[shares.any(axis=1)][:, shares.any(axis=0)]
    smaller = min(shares.shape)
    if smaller == 1:
        return None
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return math.sqrt(float(((shares - expected) ** 2 / expected).sum()) / (smaller - 1))


def _of_shares(
    metric: str, of: Callable[[np.ndarray], float | None], confusion: Any, reason: str, zero_division: float
) -> float:
    """A function of the shares of the samples, in [0, 1] except for rounding; where it is None, for this reason."""
    if unknown(confusion):
        return math.nan
    total = confusion.sum()
    value = of(confusion / total) if total else None
    if value is None:
        return stand_in(metric, reason if total else "there are no samples", zero_division)
    return min(1.0, max(0.0, value))
