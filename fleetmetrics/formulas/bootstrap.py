"""Results of resampling: an interval for a metric."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas.arrays import numbers, weights
from fleetmetrics.support.checks import array_of, between, checked, is_whole, optional, text
from fleetmetrics.support.warning import warn

__all__ = ["CONFIDENCE", "BootstrapResult", "bootstrap_result", "summary"]


class BootstrapResult(NamedTuple):
    """A value and its uncertainty.

    Args:
        value: over the original samples.
        mean: the mean of the replicates.
        std: their standard deviation, an estimate of the value's standard error.
        low: lower end of the interval.
        high: its upper end.
        confidence: the share of such intervals that should contain the true value.
        replicates: the value in each replicate, float64 ``[replicates]`` (for arrays ``[replicates, ...]``); nan if
            undefined.
        seed: of the resampling.
        drawn: the number of samples drawn by each replicate, int64 ``[replicates]``, a fingerprint of the samples; None
            without ids, which tell samples apart.
    """

    value: Any
    mean: Any
    std: Any
    low: Any
    high: Any
    confidence: float
    replicates: np.ndarray
    seed: int
    drawn: np.ndarray | None


def _measured(argument: str, value: Any, _: Any = None) -> np.ndarray:
    array = array_of(argument, value)
    array = numbers()(argument, array, {}) if array.dtype == object else array
    return array.astype(np.float64, copy=False)


def _value(argument: str, value: Any, sizes: Any) -> Any:
    sizes["value"] = _measured(argument, value).shape
    return value


def _replicates(argument: str, value: Any, sizes: Any) -> np.ndarray:
    table = _measured(argument, value)
    if not table.size or not table.ndim or table.shape[1:] != sizes["value"]:
        wanted = ", ".join(map(str, ["n", *sizes["value"]]))
        raise InvalidInputError(f"{argument} must be numbers of shape [{wanted}], not {list(table.shape)}")
    sizes["replicates"] = len(table), argument
    return table


def _seed(argument: str, value: Any, _: Any) -> int:
    if not is_whole(value):
        raise InvalidInputError(f"{argument} must be an integer, not {value!r:.60}")
    return int(value)


#: What `confidence` must be.
CONFIDENCE = between(0, 1, ends=False)


@checked(
    value=_value,
    replicates=_replicates,
    seed=_seed,
    drawn=optional(weights("replicates")),
    confidence=CONFIDENCE,
    metric=text,
)
def bootstrap_result(
    value: Any, replicates: Any, seed: int, drawn: Any, confidence: float = 0.95, metric: str = "bootstrap"
) -> BootstrapResult:
    """Make an interval from the values of the replicates.

    Formula: the percentiles ``(1 - confidence) / 2`` and ``(1 + confidence) / 2`` of the replicates, with linear
    interpolation between order statistics; ``std`` divides by the number of replicates minus one. Replicates with an
    undefined value are left out, with a warning.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 6 and 13.

    Args:
        value: over the original samples, a number or an array.
        replicates: the values of the replicates, float64 of one more axis, in front; at least 1.
        seed: of the resampling.
        drawn: the number of samples drawn by each replicate, int64 ``[replicates]``; None if samples have no ids.
        confidence: between 0 and 1.
        metric: name of the metric, for the warning.

    Returns:
        The result; nan if no replicate is defined, and ``std`` is also nan if only one is.

    Examples:
        >>> result = bootstrap_result(2.0, [1.0, 2.0, 3.0], seed=0, drawn=[9, 10, 12], confidence=0.5)
        >>> result.mean, result.std, result.low, result.high
        (2.0, 1.0, 1.5, 2.5)
    """
    table = replicates
    undefined = np.isnan(table)
    if undefined.any() and not np.isnan(np.asarray(value, np.float64)).all():
        rows = undefined.reshape(len(table), -1).any(axis=1)
        warn(
            f"{metric} is undefined in {np.count_nonzero(rows)} of {len(table)} replicates; the interval leaves them "
            "out",
            UndefinedMetricWarning,
        )
    mean, std, low, high = summary(table, confidence)
    drawn = None if drawn is None else np.asarray(drawn)
    return BootstrapResult(value, mean, std, low, high, confidence, table, seed, drawn)


def summary(table: np.ndarray, confidence: float) -> tuple[Any, Any, Any, Any]:
    """Mean, standard deviation and percentiles over the first axis, without undefined values."""
    columns = table.reshape(len(table), -1)
    rows = np.full((4, columns.shape[1]), np.nan)
    for place, column in enumerate(columns.T):
        column = np.sort(column[~np.isnan(column)])
        if len(column):
            ends = _between(column, (1 - confidence) / 2), _between(column, (1 + confidence) / 2)
            exponent = np.frexp(np.abs(column).max())[1]  # squares of large numbers would overflow
            with np.errstate(invalid="ignore"):  # some values are infinite
                std = np.ldexp(column, -exponent).std(ddof=1) if len(column) > 1 else np.nan
                rows[:, place] = column.mean(), np.ldexp(std, exponent), *ends
    parts = rows.reshape(4, *table.shape[1:])
    mean, std, low, high = (part.item() if part.ndim == 0 else part for part in parts)
    return mean, std, low, high


def _between(column: np.ndarray, share: float) -> float:
    """A percentile of rising numbers by linear interpolation; between equal ones, infinite ones too, that number."""
    place = share * (len(column) - 1)
    below, above = column[math.floor(place)], column[math.ceil(place)]
    return float(below if below == above else below + (place - math.floor(place)) * (above - below))
