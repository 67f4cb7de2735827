"""The quotient that most metrics end with, and what stands in where there is none."""

from __future__ import annotations

import contextlib
import contextvars
import math
from typing import Any, Iterator

import numpy as np

from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning, warn
from fleetmetrics.formulas.given import array_given, number_given, weights_given

__all__ = ["left_out", "listed", "part_named", "ratio", "ratios", "root_of_ratio", "stand_in", "undefined"]

_part: contextvars.ContextVar[str] = contextvars.ContextVar("_part", default="")


@contextlib.contextmanager
def part_named(text: str) -> Iterator[None]:
    """Make the warnings inside say of which part of the samples they speak.

    Args:
        text: such as "slot 3".
    """
    token = _part.set(f"{_part.get()} of {text}")
    try:
        yield
    finally:
        _part.reset(token)


def undefined(metric: str, reason: str, value: Any = math.nan) -> Any:
    """Warn that a metric is undefined and return the value that stands in for it.

    Args:
        metric: name of the metric, for the warning.
        reason: why it is undefined, for the warning.
        value: what to return.

    Returns:
        ``value``.
    """
    warn(f"{metric}{_part.get()} is undefined: {reason}; the value is {value}", UndefinedMetricWarning)
    return value


def left_out(metric: str, reason: str, average: str) -> None:
    """Warn that something has no value, and that an average is one of the others.

    Args:
        metric: name of the metric, and of which class.
        reason: why it has none.
        average: "macro" or "weighted".
    """
    text = f"{metric}{_part.get()} is undefined: {reason}, and left out of the {average} average"
    warn(text, UndefinedMetricWarning)


def stand_in(metric: str, reason: str, zero_division: float = math.nan) -> float:
    """The value of an undefined metric: what was asked for; nan with a warning if nothing was.

    Args:
        metric: name of the metric, for the warning.
        reason: why it is undefined, for the warning.
        zero_division: what was asked for; nan: nothing.
    """
    return undefined(metric, reason) if math.isnan(zero_division) else float(zero_division)


def ratio(
    numerator: Any,
    denominator: Any,
    metric: str,
    zero_division: float = math.nan,
    reason: str = "there are no samples (their total weight is 0)",
) -> float:
    """Divide two totals; nan with a warning where there is nothing to divide by.

    Formula: ``numerator / denominator``. Integers are divided exactly (the quotient is correctly rounded
    even above ``2**53``).

    Args:
        numerator: a number, or an array of one element (int64 or float64).
        denominator: a number, or an array of one element, at least 0.
        metric: name of the metric, for the warning.
        zero_division: the value where the denominator is 0, without a warning; nan: nan, with `UndefinedMetricWarning`.
        reason: what a denominator of 0 means, for the warning.

    Returns:
        The quotient.

    Examples:
        >>> ratio(3, 4, "accuracy")
        0.75
    """
    above, below = number_given(f"the sum of {metric}", numerator), number_given(f"the total of {metric}", denominator)
    if below < 0:
        raise InvalidInputError(f"the total of {metric} must be a count or a weight, at least 0, not {below}")
    if below == 0:
        return stand_in(metric, reason, zero_division)
    return float(above / below)


def root_of_ratio(numerator: Any, denominator: Any, metric: str, zero_division: float = math.nan) -> float:
    """The square root of a quotient of two totals; see `ratio`.

    Args:
        numerator: a number, or an array of one element, at least 0.
        denominator: a number, or an array of one element, at least 0.
        metric: name of the metric, for the warning.
        zero_division: the value, not its square, where the denominator is 0.

    Returns:
        The root.

    Examples:
        >>> root_of_ratio(8, 2, "root_mean_squared_error")
        2.0
    """
    value = ratio(numerator, denominator, metric, zero_division)
    return math.sqrt(value) if np.any(denominator) else value


def ratios(
    numerator: Any, denominator: Any, metric: str, zero_division: float = math.nan, of: str = "class"
) -> np.ndarray:
    """Divide arrays of totals; nan with one warning where there is nothing to divide by.

    Formula: ``numerator / denominator``, element by element.

    Args:
        numerator: int64 or float64, any shape.
        denominator: the same shape, at least 0.
        metric: name of the metric, for the warning.
        zero_division: the value where a denominator is 0, without a warning; nan: nan, with one
            `UndefinedMetricWarning` that says where.
        of: what an element stands for, for the warning.

    Returns:
        float64, of the common shape.

    Examples:
        >>> ratios([1, 0], [2, 0], "precision", zero_division=0.0).tolist()
        [0.5, 0.0]
    """
    above = array_given(f"the sums of {metric}", numerator)
    below = weights_given(f"the totals of {metric}", denominator, above.shape)
    empty = below == 0
    quotient = np.where(empty, zero_division, above / np.where(empty, 1, below))
    if empty.any() and math.isnan(zero_division):
        undefined(metric, f"nothing to divide by for {listed(of, empty)}")
    return quotient


def listed(entry: str, flags: np.ndarray) -> str:
    """Which entries of an array are meant, in words, for a warning.

    Args:
        entry: what an entry stands for.
        flags: of the entries, bool.

    Examples:
        >>> listed("class", np.array([False, True, True]))
        'class 1, 2'
    """
    places = np.flatnonzero(flags).tolist()
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return f"{entry} {', '.join(map(str, places[:5]))}{more}"
