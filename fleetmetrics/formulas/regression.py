"""Formulas of regression metrics: means of errors. Those that set errors against variances are in `correlation`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.arguments import number_of
from fleetmetrics.formulas.given import number_given
from fleetmetrics.formulas.ratio import ratio, root_of_ratio, stand_in

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


def mean_absolute_error(absolute_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean of the absolute errors.

    Formula: ``sum(w * |p - y|) / sum(w)``.

    Source: Willmott and Matsuura, "Advantages of the mean absolute error (MAE) over the root mean square error
    (RMSE)", Climate Research 30 (2005).

    Args:
        absolute_error: the (weighted) sum of absolute errors.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number in the unit of the label; nan with `UndefinedMetricWarning` if there
        are no samples.

    Examples:
        >>> mean_absolute_error(6.0, 4)
        1.5
    """
    return ratio(absolute_error, total, "mean_absolute_error", zero_division)


def mean_squared_error(squared_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean of the squared errors.

    Formula: ``sum(w * (p - y)**2) / sum(w)``.

    Source: Gneiting, "Making and evaluating point forecasts", Journal of the American Statistical Association 106
    (2011).

    Args:
        squared_error: the (weighted) sum of squared errors.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number in the squared unit of the label; nan with `UndefinedMetricWarning` if
        there are no samples.

    Examples:
        >>> mean_squared_error(16.0, 4)
        4.0
    """
    return ratio(squared_error, total, "mean_squared_error", zero_division)


def root_mean_squared_error(squared_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Square root of the mean of the squared errors.

    Formula: ``sqrt(sum(w * (p - y)**2) / sum(w))``.

    Source: as for `mean_squared_error`.

    Args:
        squared_error: the (weighted) sum of squared errors, at least 0.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number in the unit of the label; nan with `UndefinedMetricWarning` if there
        are no samples.

    Examples:
        >>> root_mean_squared_error(16.0, 4)
        2.0
    """
    return root_of_ratio(squared_error, total, "root_mean_squared_error", zero_division)


def mean_absolute_percentage_error(
    absolute_percentage_error: Any, total: Any, zero_division: float = math.nan
) -> float:
    """Mean of the absolute errors, each relative to its label.

    Formula: ``sum(w * |p - y| / max(|y|, 2**-52)) / sum(w)``.

    Source: Hyndman and Koehler, "Another look at measures of forecast accuracy", International Journal of Forecasting
    22 (2006), section 2.2.

    Args:
        absolute_percentage_error: the (weighted) sum of ``|p - y| / max(|y|, 2**-52)``.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A fraction, 0.1 for ten percent; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> mean_absolute_percentage_error(0.5, 4)
        0.125
    """
    return ratio(absolute_percentage_error, total, "mean_absolute_percentage_error", zero_division)


def symmetric_mean_absolute_percentage_error(
    symmetric_error: Any, total: Any, zero_division: float = math.nan
) -> float:
    """Mean of the absolute errors, each relative to the mean size of prediction and label.

    Formula: ``sum(w * 2 * |p - y| / (|p| + |y|)) / sum(w)``, where 0 / 0 is 0.

    Source: Hyndman and Koehler, "Another look at measures of forecast accuracy", International Journal of Forecasting
    22 (2006), section 2.2.

    Args:
        symmetric_error: the (weighted) sum of ``2 * |p - y| / (|p| + |y|)``.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A fraction in [0, 2]; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> symmetric_mean_absolute_percentage_error(0.5, 4)
        0.125
    """
    return ratio(symmetric_error, total, "symmetric_mean_absolute_percentage_error", zero_division)


def weighted_mean_absolute_percentage_error(
    absolute_error: Any, absolute_label: Any, total: Any, zero_division: float = math.nan
) -> float:
    """Sum of the absolute errors, relative to the sum of the absolute labels.

    Formula: ``sum(w * |p - y|) / sum(w * |y|)``.

    Source: Kolassa and Schuetz, "Advantages of the MAD/Mean ratio over the MAPE", Foresight 6 (2007).

    Args:
        absolute_error: the (weighted) sum of absolute errors.
        absolute_label: the (weighted) sum of the absolute values of the labels.
        total: number (or weight) of all samples.
        zero_division: what to return where it is undefined; nan warns.

    Returns:
        A fraction of at least 0; undefined if all labels are 0, or there are no samples: ``zero_division``, with
        `UndefinedMetricWarning` if that is nan.

    Examples:
        >>> weighted_mean_absolute_percentage_error(1.0, 8.0, 4)
        0.125
    """
    reason = "all labels are 0" if np.any(total) else "there are no samples (their total weight is 0)"
    return ratio(absolute_error, absolute_label, "weighted_mean_absolute_percentage_error", zero_division, reason)


def mean_squared_log_error(squared_log_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean of the squared differences of the logarithms.

    Formula: ``sum(w * (ln(1 + p) - ln(1 + y))**2) / sum(w)``.

    Source: Tofallis, "A better measure of relative prediction accuracy for model selection and model estimation",
    Journal of the Operational Research Society 66 (2015), which has it without the shift by 1.

    Args:
        squared_log_error: the (weighted) sum of ``(ln(1 + p) - ln(1 + y))**2``.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number of at least 0; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> mean_squared_log_error(0.5, 4)
        0.125
    """
    return ratio(squared_log_error, total, "mean_squared_log_error", zero_division)


def root_mean_squared_log_error(squared_log_error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Square root of `mean_squared_log_error`.

    Formula: ``sqrt(sum(w * (ln(1 + p) - ln(1 + y))**2) / sum(w))``.

    Source: as for `mean_squared_log_error`.

    Args:
        squared_log_error: the (weighted) sum of ``(ln(1 + p) - ln(1 + y))**2``, at least 0.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number of at least 0; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> root_mean_squared_log_error(1.0, 4)
        0.5
    """
    return root_of_ratio(squared_log_error, total, "root_mean_squared_log_error", zero_division)


def mean_bias(error: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean of the signed errors: above 0 where predictions are too high.

    Formula: ``sum(w * (p - y)) / sum(w)``.

    Source: Willmott, "Some comments on the evaluation of model performance", Bulletin of the American Meteorological
    Society 63 (1982).

    Args:
        error: the (weighted) sum of ``p - y``.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number in the unit of the label; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> mean_bias(-2.0, 4)
        -0.5
    """
    return ratio(error, total, "mean_bias", zero_division)


def max_error(largest: Any, zero_division: float = math.nan) -> float:
    """The largest absolute error.

    Formula: ``max(|p - y|)``.

    Source: Cheney, Introduction to Approximation Theory (1966), chapter 1: the uniform norm.

    Args:
        largest: the largest absolute error, minus infinity if there are no samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number in the unit of the label; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> max_error(1.5)
        1.5
    """
    value = float(np.max(largest))
    return stand_in("max_error", "there are no samples", zero_division) if value == -math.inf else value


def quantile_loss(under: Any, over: Any, total: Any, quantile: float = 0.5, zero_division: float = math.nan) -> float:
    """Mean pinball loss.

    Formula: ``(q * sum(w * max(y - p, 0)) + (1 - q) * sum(w * max(p - y, 0))) / sum(w)`` for the quantile q; at 0.5
    half of `mean_absolute_error`.

    Source: Koenker and Bassett, "Regression quantiles", Econometrica 46 (1978).

    Args:
        under: the (weighted) sum of ``max(y - p, 0)``.
        over: the (weighted) sum of ``max(p - y, 0)``.
        total: number (or weight) of all samples.
        quantile: in [0, 1].
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number of at least 0 in the unit of the label; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> quantile_loss(8.0, 4.0, total=4, quantile=0.75)
        1.75
    """
    quantile = number_of("quantile", quantile, 0, 1)
    loss = quantile * number_given("under", under) + (1 - quantile) * number_given("over", over)
    return ratio(loss, total, "quantile_loss", zero_division)


def tweedie_deviance(deviance: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean Tweedie deviance.

    Formula: ``sum(w * d(y, p)) / sum(w)``, where the unit deviance of power k is

        k = 0: (y - p)**2
        k = 1: 2 * (y * ln(y / p) - y + p)
        k = 2: 2 * (ln(p / y) + y / p - 1)
        else:  2 * (max(y, 0)**(2 - k) / ((1 - k) * (2 - k)) - y * p**(1 - k) / (1 - k) + p**(2 - k) / (2 - k))

    Source: Jorgensen, The Theory of Dispersion Models (1997), chapter 4.

    Args:
        deviance: the (weighted) sum of the unit deviances.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number of at least 0; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> tweedie_deviance(2.0, 4)
        0.5
    """
    return ratio(deviance, total, "tweedie_deviance", zero_division)


def log_cosh_error(log_cosh: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean logarithm of the hyperbolic cosine of the error: squared where it is small, absolute where it is large.

    Formula: ``sum(w * ln(cosh(p - y))) / sum(w)``.

    Source: Saleh and Saleh, "Statistical properties of the log-cosh loss function used in machine learning" (2022),
    arXiv:2208.04564.

    Args:
        log_cosh: the (weighted) sum of ``ln(cosh(p - y))``.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A number of at least 0; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> log_cosh_error(2.0, 4)
        0.5
    """
    return ratio(log_cosh, total, "log_cosh_error", zero_division)
