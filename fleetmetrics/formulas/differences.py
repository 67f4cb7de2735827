"""Differences of two results: of two metrics over the same samples, and over different ones."""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, NamedTuple, TypeVar, Union, overload

import numpy as np

from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas.bootstrap import CONFIDENCE, BootstrapResult, summary
from fleetmetrics.formulas.intervals import IntervalResult, quantile, two_sided
from fleetmetrics.formulas.spreads import Spread, of_groups
from fleetmetrics.support.checks import anything, checked
from fleetmetrics.support.warning import warn

__all__ = ["Difference", "paired_difference", "unpaired_difference"]

#: The compared result, and the key of a slice.
Result = Union[BootstrapResult, IntervalResult]
Key = TypeVar("Key")


class Difference(NamedTuple):
    """The difference of one metric from another, and its uncertainty.

    Args:
        value: the first value minus the second.
        low: lower end of the interval.
        high: its upper end.
        p_value: two-sided, for the hypothesis of no difference.
        std: the standard error of the difference: its standard deviation over the replicates, if there are any.
    """

    value: Any
    low: Any
    high: Any
    p_value: Any
    std: Any


@overload
def paired_difference(one: Result, other: Result, confidence: float = 0.95) -> Difference: ...
@overload
def paired_difference(
    one: Mapping[Key, Any], other: Mapping[Key, Any], confidence: float = 0.95
) -> dict[Key, Difference]: ...
@checked(one=anything, other=anything, confidence=CONFIDENCE)
def paired_difference(one: Any, other: Any, confidence: float = 0.95) -> Any:
    """Compare two results over the same samples, such as those of two models: the common part cancels.

    Both results are from `fleetmetrics.Bootstrap` with equal seed, replicates and ``ids``, so that each replicate has
    drawn the same samples for both; or both are from `fleetmetrics.Interval` with equal ``ids`` and ``groups``.

    Formula: for replicates ``d_r = one_r - other_r``; the percentiles of d as in `bootstrap_result`; ``p = min(1, 2 (1
    + min(#{d_r <= 0}, #{d_r >= 0})) / (1 + R))`` over the R replicates in which both are defined. For intervals ``d_k =
    c_k - c'_k``, the contribution of group k to the one value minus that to the other; the standard error is that of
    `fleetmetrics.formulas.spreads.of_groups`, and d has Student's distribution.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 15; one is added to the
    counts as by Davison and Hinkley, Bootstrap Methods and their Application (1997), chapter 4. For areas under the ROC
    curve, DeLong, DeLong and Clarke-Pearson, Biometrics 44 (1988).

    Args:
        one: a `BootstrapResult` or an `IntervalResult`; or a dict of them, such as slices.
        other: likewise, of the same samples.
        confidence: between 0 and 1.

    Returns:
        The difference; it holds arrays if the values are arrays, and is a dict for dicts.

    Raises:
        InvalidInputError: the results do not belong together, or an argument is invalid.

    Examples:
        >>> from fleetmetrics.formulas.bootstrap import bootstrap_result
        >>> one = bootstrap_result(0.75, [0.7, 0.8, 0.75, 0.72], 0, [9, 10, 12, 9])
        >>> other = bootstrap_result(0.5, [0.5, 0.5, 0.5, 0.5], 0, [9, 10, 12, 9])
        >>> difference = paired_difference(one, other)
        >>> difference.value, difference.p_value
        (0.25, 0.4)
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return _by_key(paired_difference, one, other, confidence)
    _check_kinds(one, other)
    _check_pair(one, other)
    if isinstance(one, IntervalResult):
        return _of_groups(one, other, confidence)
    table = one.replicates - other.replicates
    value: Any = np.subtract(one.value, other.value)
    _, std, low, high = summary(table, confidence)
    defined = np.count_nonzero(~np.isnan(table), axis=0)
    least = np.minimum(np.count_nonzero(table <= 0, axis=0), np.count_nonzero(table >= 0, axis=0))
    p_value = np.where(defined > 0, np.minimum(1.0, 2.0 * (1 + least) / (1 + defined)), math.nan)
    value = value if np.ndim(value) else float(value)
    return Difference(value, low, high, p_value.item() if p_value.ndim == 0 else p_value, std)


@overload
def unpaired_difference(one: Result, other: Result, confidence: float = 0.95) -> Difference: ...
@overload
def unpaired_difference(
    one: Mapping[Key, Any], other: Mapping[Key, Any], confidence: float = 0.95
) -> dict[Key, Difference]: ...
@checked(one=anything, other=anything, confidence=CONFIDENCE)
def unpaired_difference(one: Any, other: Any, confidence: float = 0.95) -> Any:
    """Compare two results over independent samples: of two days, or of two groups of users.

    For results over the same samples the interval is too wide, since it ignores their common part.

    Formula: ``one - other``, with an interval even around it, of a normal distribution of the standard error
    ``sqrt(std**2 + std'**2)``.

    Args:
        one: an `IntervalResult` or a `BootstrapResult`; or a dict of them, such as slices.
        other: likewise, of other samples.
        confidence: between 0 and 1.

    Returns:
        The difference; for dicts a dict.

    Raises:
        InvalidInputError: an argument is invalid.

    Examples:
        >>> from fleetmetrics import Accuracy, Interval
        >>> results = []
        >>> for right in (600, 500):
        ...     metric = Interval(Accuracy())
        ...     metric.add([0.9] * 1000, [1] * right + [0] * (1000 - right))
        ...     results.append(metric.compute())
        >>> difference = unpaired_difference(*results)
        >>> round(difference.value, 3), round(difference.low, 3), round(difference.high, 3)
        (0.1, 0.057, 0.143)
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return _by_key(unpaired_difference, one, other, confidence)
    _check_kinds(one, other)
    value, std = np.subtract(one.value, other.value), np.hypot(one.std, other.std)
    if value.ndim:
        raise InvalidInputError(f"one and other must be results of one number, not of shape {list(value.shape)}")
    return even_around(value.item(), std.item(), math.inf, confidence)


def _by_key(
    compare: Callable[..., Any], one: Mapping[Any, Any], other: Mapping[Any, Any], confidence: float
) -> dict[Any, Any]:
    if set(one) != set(other):
        differing = sorted(map(repr, set(one) ^ set(other)))
        raise InvalidInputError(f"one and other must have the same keys; only one of them has {differing[0]}")
    return {key: compare(one[key], other[key], confidence) for key in one}


def _check_kinds(one: Any, other: Any) -> None:
    for name, result in (("one", one), ("other", other)):
        if not isinstance(result, (BootstrapResult, IntervalResult)):
            raise InvalidInputError(
                f"{name} must be a BootstrapResult or an IntervalResult, not {type(result).__name__}"
            )


def _check_pair(one: Any, other: Any) -> None:
    if type(one) is not type(other):
        raise InvalidInputError(
            f"one and other must be of the same kind, not {type(one).__name__} and {type(other).__name__}"
        )
    if isinstance(one, BootstrapResult) and one.seed != other.seed:
        raise InvalidInputError(f"one and other must have the same seed, not {one.seed} and {other.seed}")
    if one.drawn is None or other.drawn is None:
        kind = "Bootstrap" if isinstance(one, BootstrapResult) else "Interval"
        raise InvalidInputError(
            f"one and other cannot be paired: without ids, their samples cannot be matched; give both {kind}s ids=, "
            "or compare different samples with unpaired_difference"
        )
    tables = [side.replicates if isinstance(side, BootstrapResult) else side.groups for side in (one, other)]
    if tables[0].shape != tables[1].shape:
        name = "replicates" if isinstance(one, BootstrapResult) else "groups"
        shapes = f"{list(tables[0].shape)} and {list(tables[1].shape)}"
        raise InvalidInputError(f"one and other must have {name} of the same shape, not {shapes}")
    if not np.array_equal(one.drawn, other.drawn):
        raise InvalidInputError(
            "one and other drew different samples; both must come from the same samples with the same ids"
        )


def _of_groups(one: IntervalResult, other: IntervalResult, confidence: float) -> Difference:
    value = one.value - other.value
    if math.isnan(one.std) or math.isnan(other.std):  # both have warned of it
        return even_around(value, math.nan, 1.0, confidence)
    spread = spread_apart(np.asarray(one.groups), np.asarray(other.groups))
    if spread.short:
        ((have, need),) = spread.short.values()
        warn(
            f"the difference comes from too few of {math.floor(have):,} users for a reliable interval; it needs "
            f"{math.ceil(need):,}. std, low, high and p_value are nan",
            UndefinedMetricWarning,
        )
        return even_around(value, math.nan, 1.0, confidence)
    return even_around(value, math.sqrt(spread.variance), spread.freedom, confidence)


def spread_apart(one: np.ndarray, other: np.ndarray) -> Spread:
    """The spread of a difference, from the contribution of each group of users to both values.

    A group with equal contributions to both adds nothing to the difference; if all groups do so, it does not
    vary.

    Args:
        one: as `fleetmetrics.formulas.intervals.IntervalResult` has them.
        other: likewise.
    """
    with np.errstate(all="ignore"):  # contributions that are not finite have no variance
        apart = one - other
        return of_groups(apart) if apart.any() else Spread(0.0, 1.0, {}, apart)


def spread_of_both(one: Spread, other: Spread) -> Spread:
    """The spread of a difference of independent samples; Welch's formula gives its degrees of freedom.

    Source: Welch, "The generalization of Student's problem when several different population variances are involved",
    Biometrika 34 (1947).

    Args:
        one: the spread of one value.
        other: that of the other.
    """
    variance = one.variance + other.variance
    if not variance > 0:
        return Spread(variance, math.inf, {})
    share = one.variance / variance  # the squares of the variances may be too large
    parts = share**2 / one.freedom + (1 - share) ** 2 / other.freedom
    return Spread(variance, 1 / parts if parts else math.inf, {})


def even_around(value: float, std: float, freedom: float, confidence: float) -> Difference:
    """A difference with a symmetric interval.

    Args:
        value: the difference.
        std: its standard error; nan if there are too few samples.
        freedom: the degrees of freedom of the standard error.
        confidence: of the interval.
    """
    if math.isnan(std):
        return Difference(value, math.nan, math.nan, math.nan, math.nan)
    half = quantile((1 + confidence) / 2, freedom) * std
    p_value = two_sided(abs(value) / std, freedom) if std else float(value == 0)
    return Difference(value, value - half, value + half, p_value, std)
