"""Formulas of regression metrics."""

from __future__ import annotations

import math
from typing import Any

from fleetmetrics.formulas.ratio import ratio

__all__ = ["mean_absolute_error", "mean_squared_error", "root_mean_squared_error"]


def mean_absolute_error(absolute_error: Any, total: Any) -> float:
    """Mean of the absolute errors.

    Formula: ``sum(w * |p - y|) / sum(w)``.

    Args:
        absolute_error: the (weighted) sum of absolute errors.
        total: number (or weight) of all samples.

    Returns:
        A number in the unit of the label; nan with `UndefinedMetricWarning` if there
        are no samples.

    Examples:
        >>> mean_absolute_error(6.0, 4)
        1.5
    """
    return ratio(absolute_error, total, "mean_absolute_error")


def mean_squared_error(squared_error: Any, total: Any) -> float:
    """Mean of the squared errors.

    Formula: ``sum(w * (p - y)**2) / sum(w)``.

    Args:
        squared_error: the (weighted) sum of squared errors.
        total: number (or weight) of all samples.

    Returns:
        A number in the squared unit of the label; nan with `UndefinedMetricWarning` if
        there are no samples.

    Examples:
        >>> mean_squared_error(16.0, 4)
        4.0
    """
    return ratio(squared_error, total, "mean_squared_error")


def root_mean_squared_error(squared_error: Any, total: Any) -> float:
    """Square root of the mean of the squared errors.

    Formula: ``sqrt(sum(w * (p - y)**2) / sum(w))``.

    Args:
        squared_error: the (weighted) sum of squared errors, at least 0.
        total: number (or weight) of all samples.

    Returns:
        A number in the unit of the label; nan with `UndefinedMetricWarning` if there
        are no samples.

    Examples:
        >>> root_mean_squared_error(16.0, 4)
        2.0
    """
    return math.sqrt(ratio(squared_error, total, "root_mean_squared_error"))
