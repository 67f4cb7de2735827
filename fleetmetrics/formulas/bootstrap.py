"""Results of resampling: an interval for a metric, and for the difference of two."""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple

import numpy as np

from fleetmetrics.arguments import is_whole
from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.given import anything, array_of, between, given, numbers, optional, text, weights
from fleetmetrics.warning import warn

__all__ = ["BootstrapResult", "PairedDifference", "bootstrap_result", "paired_difference"]


class BootstrapResult(NamedTuple):
    """A value and its uncertainty.

    Args:
        value: over the samples as they are.
        mean: of the replicates.
        std: their standard deviation, an estimate of the value's standard error.
        low: lower end of the interval.
        high: its upper end.
        confidence: how often such an interval is meant to hold the true value.
        replicates: the value in each replicate, float64 ``[replicates]`` (of arrays ``[replicates, ...]``); nan where
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


class PairedDifference(NamedTuple):
    """The difference of one metric from another over the same samples, and its uncertainty.

    Args:
        value: the first one's value less the second one's.
        low: lower end of the interval.
        high: its upper end.
        p_value: of the hypothesis that there is no difference, two-sided.
        std: the standard deviation of the difference over the replicates.
    """

    value: Any
    low: Any
    high: Any
    p_value: Any
    std: Any


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


_CONFIDENCE = between(0, 1, ends=False)


@given(
    value=_value,
    replicates=_replicates,
    seed=_seed,
    drawn=optional(weights("replicates")),
    confidence=_CONFIDENCE,
    metric=text,
)
def bootstrap_result(
    value: Any, replicates: Any, seed: int, drawn: Any, confidence: float = 0.95, metric: str = "bootstrap"
) -> BootstrapResult:
    """Make an interval from the values of the replicates.

    Formula: the percentiles ``(1 - confidence) / 2`` and ``(1 + confidence) / 2`` of the replicates, between order
    statistics by linear interpolation; ``std`` divides by one less than there are. Replicates in which the value is
    undefined are left out, with a warning.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 6 and 13.

    Args:
        value: over the samples as they are, a number or an array.
        replicates: the values of the replicates, float64 of one more axis, in front; at least 1.
        seed: of the resampling.
        drawn: how many samples each replicate has drawn, int64 ``[replicates]``; None if they are not told apart.
        confidence: between 0 and 1.
        metric: name of the metric, for the warning.

    Returns:
        The result; nan where no replicate is defined, and for ``std`` also where one alone is.

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
            f"{metric} is undefined in {np.count_nonzero(rows)} of {len(table)} replicates: they are left out of the "
            "interval",
            UndefinedMetricWarning,
        )
    mean, std, low, high = _summary(table, confidence)
    drawn = None if drawn is None else np.asarray(drawn)
    return BootstrapResult(value, mean, std, low, high, confidence, table, seed, drawn)


def _summary(table: np.ndarray, confidence: float) -> tuple[Any, Any, Any, Any]:
    """Mean, standard deviation and percentiles over the first axis, without what is undefined."""
    columns = table.reshape(len(table), -1)
    found = np.full((4, columns.shape[1]), np.nan)
    for place, column in enumerate(columns.T):
        column = np.sort(column[~np.isnan(column)])
        if len(column):
            ends = _between(column, (1 - confidence) / 2), _between(column, (1 + confidence) / 2)
            exponent = np.frexp(np.abs(column).max())[1]  # squares of what is large would overflow
            with np.errstate(invalid="ignore"):  # of values that are infinite
                std = np.ldexp(column, -exponent).std(ddof=1) if len(column) > 1 else np.nan
                found[:, place] = column.mean(), np.ldexp(std, exponent), *ends
    parts = found.reshape(4, *table.shape[1:])
    mean, std, low, high = (part.item() if part.ndim == 0 else part for part in parts)
    return mean, std, low, high


def _between(column: np.ndarray, share: float) -> float:
    """A percentile of rising numbers by linear interpolation; between equal ones, infinite ones too, that number."""
    place = share * (len(column) - 1)
    below, above = column[math.floor(place)], column[math.ceil(place)]
    return float(below if below == above else below + (place - math.floor(place)) * (above - below))


@given(one=anything, other=anything, confidence=_CONFIDENCE)
def paired_difference(one: Any, other: Any, confidence: float = 0.95) -> Any:
    """Compare two results over the same samples, of two models, say.

    Both come from `fleetmetrics.Bootstrap` of equal seed, replicates and ``ids``: then each replicate has drawn the
    same samples for both, and what they have in common cancels.

    Formula: ``d_r = one_r - other_r`` in each replicate r; the percentiles of d as in `bootstrap_result`;
    ``p = min(1, 2 (1 + min(#{d_r <= 0}, #{d_r >= 0})) / (1 + R))`` over the R replicates in which both are defined.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 15; one is added to the
    counts as by Davison and Hinkley, Bootstrap Methods and their Application (1997), chapter 4.

    Args:
        one: a `BootstrapResult`; or a dict of them, such as slices.
        other: likewise, of the same samples.
        confidence: between 0 and 1.

    Returns:
        The difference, arrays where the values are arrays; for dicts a dict.

    Raises:
        InvalidInputError: if the results do not belong together, or an argument is not what it should be.

    Examples:
        >>> one = bootstrap_result(0.75, [0.7, 0.8, 0.75, 0.72], 0, [9, 10, 12, 9])
        >>> other = bootstrap_result(0.5, [0.5, 0.5, 0.5, 0.5], 0, [9, 10, 12, 9])
        >>> difference = paired_difference(one, other)
        >>> difference.value, difference.p_value
        (0.25, 0.4)
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if set(one) != set(other):
            differing = sorted(map(repr, set(one) ^ set(other)))
            raise InvalidInputError(f"one and other must have the same keys; only one of them has {differing[0]}")
        return {key: paired_difference(one[key], other[key], confidence) for key in one}
    for name, result in (("one", one), ("other", other)):
        if not isinstance(result, BootstrapResult):
            raise InvalidInputError(f"{name} must be a BootstrapResult, not {type(result).__name__}")
    _check_pair(one, other)
    table = one.replicates - other.replicates
    value: Any = np.subtract(one.value, other.value)
    _, std, low, high = _summary(table, confidence)
    defined = np.count_nonzero(~np.isnan(table), axis=0)
    least = np.minimum(np.count_nonzero(table <= 0, axis=0), np.count_nonzero(table >= 0, axis=0))
    p_value = np.where(defined > 0, np.minimum(1.0, 2.0 * (1 + least) / (1 + defined)), math.nan)
    value = value if np.ndim(value) else float(value)
    return PairedDifference(value, low, high, p_value.item() if p_value.ndim == 0 else p_value, std)


def _check_pair(one: BootstrapResult, other: BootstrapResult) -> None:
    if one.seed != other.seed:
        raise InvalidInputError(f"one and other must have one seed, not {one.seed} and {other.seed}")
    if one.replicates.shape != other.replicates.shape:
        shapes = f"{list(one.replicates.shape)} and {list(other.replicates.shape)}"
        raise InvalidInputError(f"one and other must have replicates of one shape, not {shapes}")
    if one.drawn is None or other.drawn is None:
        raise InvalidInputError(
            "one and other must be resampled by ids: without ids, the samples of two metrics are not drawn together; "
            "give both Bootstraps ids="
        )
    if not np.array_equal(one.drawn, other.drawn):
        raise InvalidInputError(
            "one and other have drawn different samples: they must be of the same samples, with the same ids"
        )
