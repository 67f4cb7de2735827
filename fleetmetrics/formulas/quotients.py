"""The quotient that most metrics end with, and its replacement if there is nothing to divide by.

``metric`` and ``reason`` go into the warning. ``zero_division`` replaces an undefined value; nan, the default, comes
with `UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.formulas.sums import as_number
from fleetmetrics.support.checks import amount, checked, number, stand_in_value, text
from fleetmetrics.support.warning import part_now, warn

__all__ = ["ratio"]

#: Below it float64 has few digits.
SMALLEST = 2.0**-1022
#: The total of weights so small that their products with values may be below `SMALLEST`.
LIGHT = 2.0**-100
NO_SAMPLES = "there are no samples (their total weight is 0)"


def one_class(positive: Any, negative: Any) -> str:
    """Why a metric of two classes is undefined, from their weights; "" if both have samples."""
    if positive and negative:
        return ""
    if not positive and not negative:
        return NO_SAMPLES
    return f"no sample is labeled {0 if positive else 1}"


def undefined(metric: str, reason: str, value: Any = math.nan) -> Any:
    """Warn that a metric is undefined and return the value that replaces it."""
    warn(f"{metric}{part_now()} is undefined: {reason}; the value is {value}", UndefinedMetricWarning)
    return value


def left_out(metric: str, reason: str, entry: str, flags: np.ndarray, average: str | None) -> None:
    """Warn of undefined entries: in an array (None), or omitted from the ``average``."""
    if flags.any():
        those = f"{metric} of {listed(entry, flags)}"
        if average is None:
            undefined(those, reason)
        else:
            text = f"{those}{part_now()} is undefined: {reason}; the {average} average leaves it out"
            warn(text, UndefinedMetricWarning)


def stand_in(metric: str, reason: str, zero_division: float = math.nan) -> float:
    """The value of an undefined metric: ``zero_division``, or nan with a warning."""
    return undefined(metric, reason) if math.isnan(zero_division) else float(zero_division)


@checked(numerator=number, denominator=amount, metric=text, zero_division=stand_in_value, reason=text)
def ratio(
    numerator: Any, denominator: Any, metric: str, zero_division: float = math.nan, reason: str = NO_SAMPLES
) -> float:
    """Divide two totals.

    Formula: ``numerator / denominator``, correctly rounded; integers are divided exactly, above ``2**53`` too. If the
    numerator is 0, or has lost digits, and the denominator is below 1e-30, `UndefinedMetricWarning` says so: products
    of such weights may have been rounded to 0.

    Args:
        numerator: a number, or an array of one element (int64 or float64).
        denominator: likewise, at least 0; if 0, the ratio is undefined.
        metric: the metric's name, for the warning.
        zero_division: see the module.
        reason: the meaning of a denominator of 0, for the warning.

    Raises:
        InvalidInputError: an argument is not one number, or the denominator is negative.

    Examples:
        >>> ratio(3, 4, "accuracy")
        0.75
    """
    above, below = as_number(numerator), as_number(denominator)
    if below == 0:
        return stand_in(metric, reason, zero_division)
    if below < LIGHT and type(above) is float and abs(above) < SMALLEST:
        warn(
            f"{metric}{part_now()} is inexact: its sums are below 2.2e-308, where float64 has few digits. Multiply the "
            "weights, by 1e160 or so",
            UndefinedMetricWarning,
        )
    return float(above / below)


def warn_if_small(name: str, what: str, weight: float, mean: float, squares: float) -> None:
    """Warn of squares below the range in which float64 keeps all digits, or that may have been there.

    Args:
        name: of the value.
        what: whose deviations from their mean are squared; or "errors" or "logarithms", whose errors are squared.
        weight: of all samples.
        mean: theirs; 0.0 for errors.
        squares: their sum.
    """
    weight, squares = as_number(weight), as_number(squares)
    if not squares < SMALLEST * max(1.0, weight):  # nan, too
        return
    lost = squares > 0 or (mean != 0 and min(weight, 1.0) * mean * mean < SMALLEST)
    of_errors = what in ("errors", "logarithms")
    warned = of_errors and weight < LIGHT  # `ratio` warns of it
    if lost and not warned:
        inexact, squared, do = "inexact", "squared errors", "Multiply predictions and labels, by 1e160 or so"
        if what == "logarithms":
            squared = "squared errors of the logarithms"
            do = "For such numbers, ln(1 + x) is x: use the squared errors of predictions and labels times 1e160 or so"
        elif not of_errors:
            inexact += ", and depends on how the samples were split"
            squared, do = f"squared deviations of the {what}", f"Multiply the {what}, by 1e160 or so"
        warn(
            f"{name}{part_now()} is {inexact}: the {squared} are below 2.2e-308, where float64 has few digits. {do}",
            UndefinedMetricWarning,
        )


def ratios(
    numerator: np.ndarray, denominator: np.ndarray, metric: str, zero_division: float = math.nan, of: str = "class"
) -> np.ndarray:
    """Divide arrays of totals element by element; one warning names the undefined ones, each ``of`` this kind."""
    empty = denominator == 0
    quotient = np.where(empty, zero_division, numerator / np.where(empty, 1, denominator))
    if empty.any() and math.isnan(zero_division):
        undefined(metric, f"nothing to divide by for {listed(of, empty)}")
    return quotient


def listed(entry: str, flags: np.ndarray) -> str:
    """The places of the True entries in words, for a warning."""
    places = np.flatnonzero(flags).tolist()
    more = f" and {len(places) - 5} more" if len(places) > 5 else ""
    return f"{entry} {', '.join(map(str, places[:5]))}{more}"
