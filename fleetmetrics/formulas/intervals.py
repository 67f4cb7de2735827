"""Intervals without resampling: from a value and its variance to two ends."""

from __future__ import annotations

import math
import sys
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.formulas.spreads import LEAST, Spread
from fleetmetrics.support.warning import part_now, warn

__all__ = ["IntervalResult", "interval"]


class IntervalResult(NamedTuple):
    """A value and its uncertainty, without resampling.

    Args:
        value: over all samples.
        std: its standard error; nan if there are too few samples.
        low: lower end of the interval.
        high: its upper end.
        confidence: the share of such intervals that should contain the true value.
        groups: with ids, the contribution of each group of ids to the value, float64 ``[groups]``: the sum of the
            squares is the variance. None without ids.
        drawn: with ids, the number of samples in each group, int64 ``[groups]``, a fingerprint of the samples.
    """

    value: Any
    std: float
    low: float
    high: float
    confidence: float
    groups: np.ndarray | None
    drawn: np.ndarray | None


def interval(
    value: Any, spread: Spread, lowest: float, highest: float, confidence: float, metric: str
) -> IntervalResult:
    """Make an interval of a value and its spread.

    A share of too few samples for the formula has an exact interval, without a standard error: the lowest and the
    highest probability at which this number of samples or more, or fewer, has a probability of at least ``(1 -
    confidence) / 2`` each. Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the
    case of the binomial", Biometrika 26 (1934).

    Formula: a quantile of Student's distribution times the standard error; the interval is symmetric on the scale of
    ``log((x - lowest) / (highest - x))`` between two bounds, and of ``log(x - lowest)`` above a lower one, so that the
    interval stays there.

    Args:
        value: the metric's value.
        spread: its spread.
        lowest: the lowest value that the metric can have.
        highest: the largest.
        confidence: between 0 and 1.
        metric: name of the metric, for the warning.

    Returns:
        The result; nan if there are too few samples, with a warning that gives the number that is needed.
    """
    value = float(value)
    none = IntervalResult(value, math.nan, math.nan, math.nan, confidence, spread.groups, None)
    if math.isnan(value):  # the metric has warned of it
        return none
    if spread.short or not spread.variance >= sys.float_info.min or not lowest < value < highest:
        if spread.share is not None and (lowest, highest) == (0, 1):
            low, high = exact_ends(*spread.share, confidence)
            return none._replace(low=low, high=high)
        _warn(metric, spread)
        return none
    std = math.sqrt(spread.variance)
    half = quantile((1 + confidence) / 2, spread.freedom) * std
    low, high = _ends(value, half, lowest, highest)
    return none._replace(std=std, low=low, high=high)


def exact_ends(number: int, samples: int, confidence: float) -> tuple[float, float]:
    """The ends of Clopper and Pearson's interval for a share.

    Args:
        number: of the samples with the property.
        samples: of all of them, at least 1.
        confidence: between 0 and 1.

    Examples:
        >>> [round(end, 4) for end in exact_ends(3, 4, 0.95)]
        [0.1941, 0.9937]
    """
    if 2 * number > samples:
        low, high = exact_ends(samples - number, samples, confidence)
        return 1 - high, 1 - low
    tail = (1 - confidence) / 2
    low = _probability(number - 1, samples, 1 - tail) if number else 0.0
    return low, _probability(number, samples, tail)


def _probability(number: int, samples: int, cases: float) -> float:
    """The probability of a property that at most this number of the samples have in this share of cases."""
    fewer = np.arange(number + 1.0)
    ways = np.append(0.0, np.cumsum(np.log((samples - fewer[:-1]) / fewer[1:])))  # logarithms of binomials
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        logs = ways + fewer * math.log(middle) + (samples - fewer) * math.log1p(-middle)
        low, high = (middle, high) if np.exp(logs).sum() > cases else (low, middle)
        if high - low <= 1e-14 * high:
            break
    return middle


def _warn(metric: str, spread: Spread) -> None:
    shortages = [
        f"{math.floor(have):,} {name}, but it needs {math.ceil(need):,}"
        for name, (have, need) in spread.short.items()
        if have < LEAST or need > have + 1 or spread.variance > 0
    ]
    constant = "they do not vary, or only by numbers whose cubes are beyond float64, such as 1e-110"
    warn(
        f"{metric}{part_now()} has too few samples for a reliable interval: {'; '.join(shortages) or constant}. "
        "std, low and high are nan",
        UndefinedMetricWarning,
    )


def _ends(value: float, half: float, lowest: float, highest: float) -> tuple[float, float]:
    above, below = value - lowest, highest - value
    if math.isinf(above):
        return value - half, value + half
    if math.isinf(below):
        factor = math.exp(min(half / above, 700.0))
        return lowest + above / factor, lowest + above * factor
    width = highest - lowest
    factor = math.exp(min(half * width / (above * below), 700.0))
    low, high = (lowest + width * above / (above + below * odds) for odds in (factor, 1 / factor))
    return low, high


def quantile(share: float, freedom: float) -> float:
    """A quantile of Student's distribution, by Wallace's transformation to a normal variable."""
    normal = NormalDist().inv_cdf(share)
    if math.isinf(freedom):
        return normal
    normal *= (8 * freedom + 3) / (8 * freedom + 1)
    return math.copysign(math.sqrt(freedom * math.expm1(min(normal**2 / freedom, 700.0))), normal)


def two_sided(distance: float, freedom: float) -> float:
    """The share of Student's distribution beyond a distance from 0 on either side, by the same transformation."""
    normal = distance
    if math.isfinite(freedom):
        normal = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(distance**2 / freedom))
    return math.erfc(normal / math.sqrt(2))
