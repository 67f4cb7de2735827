"""Aggregates: variances, histograms.

Where a value is undefined it is ``zero_division``; nan, the default, comes with `UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.formulas.arrays import moments, numbers, weights
from fleetmetrics.formulas.quotients import stand_in, warn_if_small
from fleetmetrics.formulas.sums import root
from fleetmetrics.support.checks import checked, not_negative, stand_in_value, text

__all__ = ["HistogramCounts", "histogram_counts", "standard_deviation", "variance"]


class HistogramCounts(NamedTuple):
    """The number of values below, in and above the bins.

    Args:
        counts: ``[bins]``, the number (int64) or weight (float64) of the values in each bin.
        edges: ``[bins + 1]``, float64: bin k holds ``edges[k] <= x < edges[k + 1]``, the last one its upper edge too.
        below: number or weight of the values below the first edge.
        above: number or weight of the values above the last edge.
    """

    counts: np.ndarray
    edges: np.ndarray
    below: float
    above: float


def spread(weight: float, mean: float, squares: float, two_words: bool) -> float:
    """The sum of squared deviations; 0.0 where it is rounding error, far smaller for a mean kept in ``two_words``."""
    rounding = 2.0**-78 if two_words else 2.0**-49  # the rounding of a standard deviation, relative to the mean
    return 0.0 if squares <= weight * (rounding * mean) ** 2 else squares  # nan stays nan


@checked(moments=moments(3, 4), ddof=not_negative, name=text, zero_division=stand_in_value)
def variance(moments: Any, ddof: float = 0, name: str = "variance", zero_division: float = math.nan) -> float:
    """Variance, in the squared unit of the values; undefined unless the weight exceeds ``ddof``.

    Formula: ``sum(w * (x - mean(x))**2) / (sum(w) - ddof)``: a weight of n counts as n equal values.

    Args:
        moments: ``[3]``: weight, mean, sum of squared deviations from it. Or ``[4]``, with the low word of a mean kept
            in two float64, as in a metric's states.
        ddof: subtracted from the weight: 0 for the variance of these values, 1 for an unbiased estimate of the variance
            of the population they were drawn from.
        name: its name in the warning.
        zero_division: see the module.

    Examples:
        >>> variance([4.0, 2.5, 5.0])
        1.25
        >>> variance([5.0, 2.5, 5.0], ddof=1)
        1.25
    """
    weight, mean, squares, *rest = moments.tolist()
    if weight > ddof:
        squares = spread(weight, mean, squares, True) if rest else squares
        warn_if_small(name, "values", weight, mean, squares)
        return squares / (weight - ddof)
    reason = "there are no samples" if weight == 0 else f"the total weight is {weight:g}, and ddof is {ddof:g}"
    return stand_in(name, reason, zero_division)


@checked(moments=moments(3, 4), ddof=not_negative, zero_division=stand_in_value)
def standard_deviation(moments: Any, ddof: float = 0, zero_division: float = math.nan) -> float:
    """Standard deviation, the square root of the `variance`; ``zero_division`` is returned as it is.

    Examples:
        >>> standard_deviation([4.0, 2.5, 16.0])
        2.0
    """
    value = variance.bare(moments, ddof, "standard_deviation", zero_division)
    return root(value) if moments[0] > ddof else value


@checked(edges=numbers("bins+1", rising=True), cells=weights("bins+2"))
def histogram_counts(cells: Any, edges: Any) -> HistogramCounts:
    """Name the cells of a histogram.

    Args:
        cells: ``[bins + 2]``: the count below the first edge, in each bin, and above the last edge.
        edges: ``[bins + 1]``, increasing.

    Examples:
        >>> histogram_counts([0, 3, 4, 1], [0.0, 0.5, 1.0]).counts.tolist()
        [3, 4]
    """
    return HistogramCounts(cells[1:-1], np.array(edges, np.float64), cells[0].item(), cells[-1].item())
