"""Formulas of aggregates."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.formulas.given import array_given, moments_given, number_given, weights_given
from fleetmetrics.formulas.ratio import ratio, stand_in, undefined

__all__ = ["HistogramCounts", "histogram_counts", "mean", "standard_deviation", "throughput", "variance"]


class HistogramCounts(NamedTuple):
    """How many values lie where.

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


def mean(value_sum: Any, total: Any, zero_division: float = math.nan) -> float:
    """Arithmetic mean.

    Formula: ``sum(w * x) / sum(w)``.

    Source: Bland and Kerry, "Weighted comparison of means", BMJ 316 (1998).

    Args:
        value_sum: the (weighted) sum of the values.
        total: number (or weight) of all values.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number in the unit of the values; nan with `UndefinedMetricWarning` if there are no values.

    Examples:
        >>> mean(6.0, 4)
        1.5
    """
    return ratio(value_sum, total, "mean", zero_division)


def spread(weight: float, mean: float, squares: float, two_words: bool) -> float:
    """The sum of squared deviations; 0.0 where it is rounding and no variation.

    Args:
        weight: of the samples.
        mean: of the samples.
        squares: the sum of their squared deviations from it.
        two_words: whether these were taken from a mean of two words: values that differ in one last bit are then told
            from equal ones.
    """
    rounding = 2.0**-78 if two_words else 2.0**-49  # of a standard deviation, relative to the mean
    return squares if squares > weight * (rounding * mean) ** 2 else 0.0


def variance(moments: Any, ddof: float = 0, name: str = "variance", zero_division: float = math.nan) -> float:
    """Variance.

    Formula: ``sum(w * (x - mean(x))**2) / (sum(w) - ddof)``: a weight counts as so many equal values.

    Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37
    (1983).

    Args:
        moments: ``[3]``: weight, mean, sum of squared deviations from it. Or ``[4]``, with what the mean is more than
            that float64, as the deviations of a metric's states are taken from a mean of two words.
        ddof: what is subtracted from the weight: 0 for the variance of these values, 1 for an unbiased estimate of
            the variance of what they are a sample of.
        name: what the warning calls it.
        zero_division: the value if the weight is not above ``ddof``, without a warning; nan: nan, with one.

    Returns:
        A number of at least 0 in the squared unit of the values; nan with `UndefinedMetricWarning` if the weight is
        not above ``ddof``.

    Examples:
        >>> variance([4.0, 2.5, 5.0])
        1.25
        >>> variance([5.0, 2.5, 5.0], ddof=1)
        1.25
    """
    weight, mean, squares, *rest = moments_given("moments", moments)
    if weight > ddof:
        return (spread(weight, mean, squares, True) if rest else squares) / (weight - ddof)
    reason = "there are no samples" if weight == 0 else f"the total weight is {weight:g}, and ddof is {ddof:g}"
    return stand_in(name, reason, zero_division)


def standard_deviation(moments: Any, ddof: float = 0, zero_division: float = math.nan) -> float:
    """Standard deviation: the square root of the `variance`.

    Formula: ``sqrt(sum(w * (x - mean(x))**2) / (sum(w) - ddof))``.

    Source: as for `variance`.

    Args:
        moments: as for `variance`.
        ddof: as for `variance`.
        zero_division: as for `variance`; the value, not its square.

    Returns:
        A number of at least 0 in the unit of the values; nan with `UndefinedMetricWarning` if the weight is not above
        ``ddof``.

    Examples:
        >>> standard_deviation([4.0, 2.5, 16.0])
        2.0
    """
    value = variance(moments, ddof, "standard_deviation", zero_division)
    return math.sqrt(value) if np.ravel(moments)[0] > ddof else value


def histogram_counts(cells: Any, edges: Any) -> HistogramCounts:
    """Put a name to the cells of a histogram.

    Source: Scott, Multivariate Density Estimation (1992), chapter 3.

    Args:
        cells: ``[bins + 2]``: what lies below the first edge, in each bin, and above the last edge.
        edges: ``[bins + 1]``, increasing.

    Returns:
        The same by name; all zeros without values.

    Examples:
        >>> histogram_counts([0, 3, 4, 1], [0.0, 0.5, 1.0]).counts.tolist()
        [3, 4]
    """
    edges = array_given("edges", edges, [None]).astype(np.float64)
    cells = weights_given("cells", cells, [len(edges) + 1])
    return HistogramCounts(cells[1:-1], edges, cells[0].item(), cells[-1].item())


def throughput(number: Any, seconds: Any) -> float:
    """Samples per second over all workers, which work side by side.

    Formula: ``sum over workers of n / max over workers of t``: the slowest worker holds up the others.

    Source: Jain, The Art of Computer Systems Performance Analysis (1991), chapter 3.

    Args:
        number: how many samples all workers have processed.
        seconds: how long the slowest of them took.

    Returns:
        Samples per second; nan with `UndefinedMetricWarning` if no time has passed.

    Examples:
        >>> throughput(64, 2.0)
        32.0
    """
    elapsed = float(number_given("seconds", seconds))
    if elapsed <= 0:
        return undefined("throughput", "no time has passed")
    return float(number_given("number", number)) / elapsed
