"""Confidence sequences: intervals whose confidence holds for any number of looks at the data."""

from __future__ import annotations

import math

from fleetmetrics.formulas.bootstrap import CONFIDENCE
from fleetmetrics.formulas.differences import Difference
from fleetmetrics.support.checks import anything, between, checked

__all__ = ["always_valid"]


@checked(value=anything, std=anything, samples=anything, tightest=between(1, math.inf), confidence=CONFIDENCE)
def always_valid(value: float, std: float, samples: float, tightest: float, confidence: float = 0.95) -> Difference:
    """An interval of a difference that is valid at every look as the data grow, for example every day.

    Formula: with z = value / std, ``r = k samples / tightest`` and ``k = c + log(c + 1)``, where ``c = -2 log(1 -
    confidence)``, the half width is ``std sqrt((1 + 1 / r) (c + log(1 + r)))``, and ``p = min(1, sqrt(1 + r)
    exp(-z**2 / 2 r / (1 + r)))``: the mixture of normal likelihood ratios.

    It holds in the limit of many samples, if new rows are independent of earlier ones and have the same distribution.
    Choose ``tightest`` before the first look and keep it. Every choice is valid; the interval is narrowest when
    ``samples`` is about as large.

    Source: Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of Mathematical
    Statistics 41 (1970); Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence
    sequences", Annals of Statistics 49 (2021); Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central
    limit theory and asymptotic confidence sequences", Annals of Statistics 52 (2024).

    Args:
        value: the difference, over all samples so far.
        std: its standard error.
        samples: the number of samples so far.
        tightest: the number of samples at which the interval is narrowest.
        confidence: the probability that the intervals of all looks contain the true value.

    Returns:
        The difference; its p-value is valid at every look, too.

    Examples:
        >>> found = always_valid(0.01, 0.002, samples=50_000, tightest=100_000)
        >>> round(found.low, 4), round(found.high, 4), round(found.p_value, 6)
        (0.0038, 0.0162, 0.000103)
    """
    if not std >= 0:
        return Difference(value, math.nan, math.nan, math.nan, math.nan)
    rest = -2 * math.log(1 - confidence)
    ratio = (rest + math.log(rest + 1)) * samples / tightest
    half = std * math.sqrt((1 + 1 / ratio) * (rest + math.log1p(ratio))) if std else 0.0
    if not std:
        return Difference(value, value, value, float(value == 0), std)
    exponent = 0.5 * math.log1p(ratio) - 0.5 * (value / std) ** 2 * ratio / (1 + ratio)
    return Difference(value, value - half, value + half, math.exp(min(exponent, 0.0)), std)
