"""Metrics that relate errors, or common variation, to the variation of the labels.

Moments are those of `fleetmetrics.formulas.variance`, ``[3]`` or ``[4]``; weight and squares are at least 0, else
`InvalidInputError`. Undefined without samples, if all labels are equal, and for a correlation if all predictions are:
the value is then ``zero_division``; nan, the default, comes with `UndefinedMetricWarning`. A value of squared
deviations below 2.2e-308, where float64 has few digits, also comes with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.formulas.aggregation import spread
from fleetmetrics.formulas.arrays import moments, numbers, weights
from fleetmetrics.formulas.quotients import NO_SAMPLES, stand_in, warn_if_small
from fleetmetrics.formulas.sums import as_number, root, sums_before
from fleetmetrics.support.checks import amount, at_least, checked, optional, stand_in_value, text, whole
from fleetmetrics.support.vocabulary import agreeing, counted

__all__ = ["explained_variance", "pearson_correlation", "r2_score", "rank_comoments", "spearman_correlation"]


#: Samples that are compared: numbers without nan, and their weights.
SCORES = numbers("samples", flat=True, infinite=True)
WEIGHTS = weights("samples", flat=True)


def _trouble(name: str, what: str, weight: float, mean: float, squares: float, two_words: bool) -> str:
    """Why a variance cannot be divided by; empty if it can."""
    if not weight:
        return NO_SAMPLES
    squares = spread(weight, mean, squares, two_words)
    warn_if_small(name, what, weight, mean, squares)
    return "" if squares else f"all {what} are equal"


@checked(squared_error=amount, label=moments(3, 4), number=whole, adjusted=at_least(0), zero_division=stand_in_value)
def r2_score(
    squared_error: Any, label: Any, number: Any = 0, adjusted: int = 0, zero_division: float = math.nan
) -> float:
    """Coefficient of determination, at most 1: the share of the labels' variance that the predictions account for.

    Formula: ``R2 = 1 - sum(w * (y - p)**2) / sum(w * (y - mean(y))**2)``; adjusted for k regressors ``1 - (1 - R2) * (n
    - 1) / (n - k - 1)``, undefined unless n > k + 1.

    Args:
        squared_error: the (weighted) sum of squared errors.
        label: the moments of the labels.
        number: n, the number of samples, without their weights; used only if ``adjusted`` is not 0.
        adjusted: k, the number of independent regressors, at least 0.
        zero_division: see the module.

    Examples:
        >>> r2_score(1.0, [4.0, 2.5, 5.0])
        0.8
        >>> r2_score(1.0, [4.0, 2.5, 5.0], number=4, adjusted=1)
        0.7
    """
    weight, mean, squares, *rest = label.tolist()
    reason = _trouble("r2_score", "labels", weight, mean, squares, bool(rest))
    count = as_number(number)
    if adjusted and not reason and count <= adjusted + 1:
        needed = counted(adjusted + 1, "samples")
        reason = f"adjusted={adjusted} needs more than {needed}, and there {agreeing(count, 'are')} {count}"
    if reason:
        return stand_in("r2_score", reason, zero_division)
    unexplained = as_number(squared_error) / squares
    if adjusted:
        unexplained *= (count - 1) / (count - adjusted - 1)
    return 1.0 - unexplained


@checked(error=moments(3, 4), label=moments(3, 4), zero_division=stand_in_value)
def explained_variance(error: Any, label: Any, zero_division: float = math.nan) -> float:
    """An `r2_score` that ignores a constant bias, at most 1; takes the moments of the errors and of the labels.

    Formula: ``1 - var(y - p) / var(y)``, weighted variances.

    Examples:
        >>> explained_variance([4.0, 1.0, 1.0], [4.0, 2.5, 5.0])
        0.8
    """
    weight, mean, squares, *rest = label.tolist()
    reason = _trouble("explained_variance", "labels", weight, mean, squares, bool(rest))
    if reason:
        return stand_in("explained_variance", reason, zero_division)
    return 1.0 - error.tolist()[2] / squares


@checked(comoments=moments(6, 8), zero_division=stand_in_value, name=text)
def pearson_correlation(comoments: Any, zero_division: float = math.nan, name: str = "pearson_correlation") -> float:
    """Pearson's coefficient of the linear correlation of predictions and labels, in [-1, 1].

    Formula: ``cov(p, y) / sqrt(var(p) * var(y))``, all weighted.

    Args:
        comoments: ``[6]``: weight, mean of the predictions, mean of the labels, and the sums of the products of the
            deviations from them: pp, py, yy. Or ``[8]``, with the low words of means kept in two float64.
        zero_division: see the module.
        name: the name in the warning.

    Examples:
        >>> pearson_correlation([4.0, 2.0, 0.0, 8.0, 3.0, 2.0])
        0.75
    """
    weight, of_p, of_y, pp, py, yy, *rest = comoments.tolist()
    reason = _trouble(name, "labels", weight, of_y, yy, bool(rest))
    reason = reason or _trouble(name, "predictions", weight, of_p, pp, bool(rest))
    if reason:
        return stand_in(name, reason, zero_division)
    return min(max(py / root_of_product(pp, yy), -1.0), 1.0)  # in this order, nan stays nan


def root_of_product(one: float, other: float) -> float:
    """The square root of a product that may leave the range of a float."""
    product = one * other
    # The root of the product rounds once; two roots do not overflow.
    return math.sqrt(product) if 1e-280 < product < 1e300 else root(one) * root(other)


@checked(
    prediction=SCORES,
    label=SCORES,
    weight=optional(WEIGHTS),
    zero_division=stand_in_value,
)
def spearman_correlation(prediction: Any, label: Any, weight: Any = None, zero_division: float = math.nan) -> float:
    """Spearman's rank correlation in [-1, 1]: Pearson's coefficient of the ranks; equal values share their mean rank.

    Formula: ``cov(r, s) / sqrt(var(r) * var(s))`` with the ranks r of the predictions and s of the labels. A sample of
    weight w counts as w samples of weight 1: its rank is the weight below it plus half the weight tied with it, its own
    included.

    Args:
        prediction: ``[n]`` numbers, without nan.
        label: ``[n]`` numbers, without nan.
        weight: ``[n]`` numbers above 0; None: 1 each.
        zero_division: see the module.

    Examples:
        >>> spearman_correlation([1.0, 2.0, 3.0, 4.0], [10.0, 100.0, 1000.0, 500.0])
        0.8
    """
    return pearson_correlation.bare(
        rank_comoments.bare(prediction, label, weight), zero_division, "spearman_correlation"
    )


@checked(prediction=SCORES, label=SCORES, weight=optional(WEIGHTS))
def rank_comoments(prediction: Any, label: Any, weight: Any = None) -> np.ndarray:
    """The argument of `pearson_correlation` for the ranks of `spearman_correlation`, which has the same arguments.

    Returns:
        ``[6]``, the means 0: ranks count from their mean. Weights are scaled by a power of two to at most 1.

    Examples:
        >>> rank_comoments([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]).tolist()
        [3.0, 0.0, 0.0, 2.0, 1.0, 2.0]
    """
    count = np.ones(len(label)) if weight is None else weight
    if weight is not None and count.size:  # the products below have three weights, and might leave the range of a float
        count = np.ldexp(count.astype(np.float64, copy=False), -np.frexp(count.max())[1])
    r, s = (_ranks(values, count) for values in (prediction, label))
    products = [math.fsum(count * one * other) for one, other in ((r, r), (r, s), (s, s))]
    return np.array([math.fsum(count), 0.0, 0.0, *products])


def _ranks(values: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The ranks less their mean: half the weight below each value less half that above."""
    _, group = np.unique(values, return_inverse=True)
    level = np.bincount(group.ravel(), count)
    return ((sums_before(level) - sums_before(level[::-1])[::-1]) / 2)[group.ravel()]
