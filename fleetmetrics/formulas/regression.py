"""Regression metrics that are means of errors; `fleetmetrics.formulas.correlation` relates errors to variances.

p is a prediction, y its label, w its weight. Sums of errors are weighted, ``total`` is the number (or weight) of all
samples, at least 0, else `InvalidInputError`. Without samples a value is ``zero_division``; nan, the default, comes
with `UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from typing import Any

from fleetmetrics.formulas.aggregation import warn_if_small
from fleetmetrics.formulas.ratio import NO_SAMPLES, ratio, root_of_ratio, stand_in
from fleetmetrics.formulas.sums import as_number
from fleetmetrics.support.given import amount, between, given, highest, number, stand_in_value

__all__ = [
    "log_cosh_error",
    "max_error",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_bias",
    "mean_squared_error",
    "mean_squared_log_error",
    "quantile_loss",
    "root_mean_squared_error",
    "root_mean_squared_log_error",
    "symmetric_mean_absolute_percentage_error",
    "tweedie_deviance",
    "weighted_mean_absolute_percentage_error",
]


@given(absolute_error=amount, total=amount, zero_division=stand_in_value)
def mean_absolute_error(absolute_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean of the absolute errors in the unit of the label, ``sum(w * |p - y|) / sum(w)``.

    Examples:
        >>> mean_absolute_error(6.0, 4)
        1.5
    """
    return ratio.bare(absolute_error, total, "mean_absolute_error", zero_division)


@given(squared_error=amount, total=amount, zero_division=stand_in_value)
def mean_squared_error(squared_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean of the squared errors in the squared unit of the label, ``sum(w * (p - y)**2) / sum(w)``.

    Examples:
        >>> mean_squared_error(16.0, 4)
        4.0
    """
    warn_if_small("mean_squared_error", "errors", total, 0.0, squared_error)
    return ratio.bare(squared_error, total, "mean_squared_error", zero_division)


@given(squared_error=amount, total=amount, zero_division=stand_in_value)
def root_mean_squared_error(squared_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Square root of `mean_squared_error`, in the unit of the label; ``zero_division`` is returned as it is.

    Examples:
        >>> root_mean_squared_error(16.0, 4)
        2.0
    """
    warn_if_small("root_mean_squared_error", "errors", total, 0.0, squared_error)
    return root_of_ratio(squared_error, total, "root_mean_squared_error", zero_division)


@given(absolute_percentage_error=amount, total=amount, zero_division=stand_in_value)
def mean_absolute_percentage_error(
    absolute_percentage_error: Any, total: Any, zero_division: float = math.nan
) -> float:
    """Mean of the absolute errors, each relative to its label: a fraction, 0.1 for ten percent.

    Formula: ``sum(w * |p - y| / max(|y|, 2**-52)) / sum(w)``.

    Examples:
        >>> mean_absolute_percentage_error(0.5, 4)
        0.125
    """
    return ratio.bare(absolute_percentage_error, total, "mean_absolute_percentage_error", zero_division)


@given(symmetric_error=amount, total=amount, zero_division=stand_in_value)
def symmetric_mean_absolute_percentage_error(
    symmetric_error: Any, total: Any, zero_division: float = math.nan
) -> float:
    """Mean of the absolute errors, each relative to the mean size of prediction and label: a fraction in [0, 2].

    Formula: ``sum(w * 2 * |p - y| / (|p| + |y|)) / sum(w)``, where 0 / 0 is 0.

    Examples:
        >>> symmetric_mean_absolute_percentage_error(0.5, 4)
        0.125
    """
    return ratio.bare(symmetric_error, total, "symmetric_mean_absolute_percentage_error", zero_division)


@given(absolute_error=amount, absolute_label=amount, total=amount, zero_division=stand_in_value)
def weighted_mean_absolute_percentage_error(
    absolute_error: Any, absolute_label: Any, total: Any, zero_division: float = math.nan
) -> float:
    """Sum of the absolute errors relative to the sum of the absolute labels; undefined if all labels are 0.

    Formula: ``sum(w * |p - y|) / sum(w * |y|)``.

    Examples:
        >>> weighted_mean_absolute_percentage_error(1.0, 8.0, 4)
        0.125
    """
    reason = "all labels are 0" if total else NO_SAMPLES
    return ratio.bare(absolute_error, absolute_label, "weighted_mean_absolute_percentage_error", zero_division, reason)


@given(squared_log_error=amount, total=amount, zero_division=stand_in_value)
def mean_squared_log_error(squared_log_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean of the squared differences of the logarithms, ``sum(w * (ln(1 + p) - ln(1 + y))**2) / sum(w)``.

    Examples:
        >>> mean_squared_log_error(0.5, 4)
        0.125
    """
    warn_if_small("mean_squared_log_error", "logarithms", total, 0.0, squared_log_error)
    return ratio.bare(squared_log_error, total, "mean_squared_log_error", zero_division)


@given(squared_log_error=amount, total=amount, zero_division=stand_in_value)
def root_mean_squared_log_error(squared_log_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Square root of `mean_squared_log_error`; ``zero_division`` is returned as it is.

    Examples:
        >>> root_mean_squared_log_error(1.0, 4)
        0.5
    """
    warn_if_small("root_mean_squared_log_error", "logarithms", total, 0.0, squared_log_error)
    return root_of_ratio(squared_log_error, total, "root_mean_squared_log_error", zero_division)


@given(error=number, total=amount, zero_division=stand_in_value)
def mean_bias(error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean of the signed errors in the unit of the label: above 0 if predictions are too high.

    Formula: ``sum(w * (p - y)) / sum(w)``.

    Examples:
        >>> mean_bias(-2.0, 4)
        -0.5
    """
    return ratio.bare(error, total, "mean_bias", zero_division)


@given(largest=highest, zero_division=stand_in_value)
def max_error(largest: Any, zero_division: float = math.nan) -> float:
    """The largest absolute error, ``max(|p - y|)``; minus infinity means no samples.

    Examples:
        >>> max_error(1.5)
        1.5
    """
    value = as_number(largest)
    return stand_in("max_error", "there are no samples", zero_division) if value == -math.inf else float(value)


@given(under=amount, over=amount, total=amount, quantile=between(0, 1), zero_division=stand_in_value)
def quantile_loss(under: Any, over: Any, total: Any, quantile: float = 0.5, zero_division: float = math.nan) -> float:
    """Mean pinball loss in the unit of the label, at least 0; at the median half of `mean_absolute_error`.

    Formula: ``(q * sum(w * max(y - p, 0)) + (1 - q) * sum(w * max(p - y, 0))) / sum(w)`` for the quantile q.

    Args:
        under: the sum of ``w * max(y - p, 0)``.
        over: the sum of ``w * max(p - y, 0)``.
        total: see the module, also for ``zero_division``.
        quantile: in [0, 1].
        zero_division: the value without samples.

    Examples:
        >>> quantile_loss(8.0, 4.0, total=4, quantile=0.75)
        1.75
    """
    loss = quantile * as_number(under) + (1 - quantile) * as_number(over)
    return ratio.bare(loss, total, "quantile_loss", zero_division)


@given(deviance=amount, total=amount, zero_division=stand_in_value)
def tweedie_deviance(deviance: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean Tweedie deviance, at least 0.

    Formula: ``sum(w * d(y, p)) / sum(w)``, where the unit deviance of power k is

        k = 0: (y - p)**2
        k = 1: 2 * (y * ln(y / p) - y + p)
        k = 2: 2 * (ln(p / y) + y / p - 1)
        else:  2 * (max(y, 0)**(2 - k) / ((1 - k) * (2 - k)) - y * p**(1 - k) / (1 - k) + p**(2 - k) / (2 - k))

    Examples:
        >>> tweedie_deviance(2.0, 4)
        0.5
    """
    return ratio.bare(deviance, total, "tweedie_deviance", zero_division)


@given(log_cosh=amount, total=amount, zero_division=stand_in_value)
def log_cosh_error(log_cosh: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean logarithm of the hyperbolic cosine of the error: quadratic for small errors, linear for large ones.

    Formula: ``sum(w * ln(cosh(p - y))) / sum(w)``.

    Examples:
        >>> log_cosh_error(2.0, 4)
        0.5
    """
    return ratio.bare(log_cosh, total, "log_cosh_error", zero_division)
