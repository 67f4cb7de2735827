"""The quotient that most metrics end with."""

from __future__ import annotations

import math
from typing import Any

from fleetmetrics.errors import UndefinedMetricWarning, warn

__all__ = ["ratio", "undefined"]


def undefined(metric: str, reason: str, value: float = math.nan) -> float:
    """Warn that a metric is undefined and return the value that stands in for it.

    Args:
        metric: name of the metric, for the warning.
        reason: why it is undefined, for the warning.
        value: what to return.

    Returns:
        ``value``.
    """
    warn(f"{metric} is undefined: {reason}; the value is {value}", UndefinedMetricWarning)
    return value


def ratio(numerator: Any, denominator: Any, metric: str) -> float:
    """Divide two totals; no samples is nan with a warning.

    Formula: ``numerator / denominator``. Integers are divided exactly (the quotient is correctly rounded
    even above ``2**53``).

    Args:
        numerator: a number, or an array of one element (int64 or float64).
        denominator: a number, or an array of one element, at least 0.
        metric: name of the metric, for the warning.

    Returns:
        The quotient; nan where the denominator is 0.

    Examples:
        >>> ratio(3, 4, "accuracy")
        0.75
    """
    above, below = _number(numerator), _number(denominator)
    if below == 0:
        return undefined(metric, "there are no samples (their total weight is 0)")
    return float(above / below)


def _number(value: Any) -> int | float:
    return value.item() if hasattr(value, "item") else value
