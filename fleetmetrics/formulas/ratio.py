"""The quotient that most metrics end with."""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any

from fleetmetrics.errors import UndefinedMetricWarning

__all__ = ["ratio", "undefined"]

_PACKAGE = __name__.partition(".")[0]


def undefined(metric: str, reason: str, value: float = math.nan) -> float:
    """Warn that a metric is undefined and return the value that stands in for it.

    Args:
        metric: name of the metric, for the warning.
        reason: why it is undefined, for the warning.
        value: what to return.

    Returns:
        ``value``.
    """
    text = f"{metric} is undefined: {reason}; the value is {value}"
    warnings.warn(text, UndefinedMetricWarning, stacklevel=_callers_level())
    return value


def _callers_level() -> int:
    """How far up the stack the first line outside this package is: there the warning shall point."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    return level


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
