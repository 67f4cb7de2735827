"""Means of errors relative to the size of labels or predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics.base.metric import TOTAL, Declared, Quotient
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.metrics.regression.differences import ABSOLUTE_ERROR, OfNumbers, absolute_errors

__all__ = ["MeanAbsolutePercentageError", "SymmetricMeanAbsolutePercentageError", "WeightedMeanAbsolutePercentageError"]

#: The smallest size of a label, as in scikit-learn for float64.
_LEAST = float(np.finfo(np.float64).eps)


@per_sample
def relative_errors(batch: Batch) -> Any:
    """The size of the error of each prediction, divided by that of the label."""
    size = batch.xp.at_least(batch.xp.absolute(batch.targets), _LEAST)
    return batch.xp.divide(absolute_errors(batch), size)


@statistic
def _percentage_error(batch: Batch) -> Any:
    return batch.weighted_sum(relative_errors(batch), zero_at_zero=True)


@statistic
def _symmetric_error(batch: Batch) -> Any:
    xp = batch.xp
    size = xp.add(xp.absolute(batch.values), xp.absolute(batch.targets))
    return batch.weighted_sum(2.0 * xp.divide(absolute_errors(batch), xp.or_one(size)), zero_at_zero=True)


@statistic
def _absolute_label(batch: Batch) -> Any:
    return batch.weighted_sum(batch.xp.absolute(batch.targets), zero_at_zero=True)


class MeanAbsolutePercentageError(OfNumbers[float]):
    """Mean absolute percentage error, as a fraction: 0.1 for ten percent.

    Formula: ``sum(w * |p - y| / max(|y|, 2**-52)) / sum(w)``: as in scikit-learn, a label of 0 makes it huge rather
    than undefined. Inputs as for `MeanAbsoluteError`.

    Examples:
        >>> metric = MeanAbsolutePercentageError()
        >>> metric.add([3.0, -1.0], [4.0, -2.0])
        >>> metric.compute()
        0.375
    """

    better = "lower"
    quotient: Quotient | None = Quotient({"absolute_percentage_error": 1})
    declared: tuple[Declared, ...] = (
        Declared("absolute_percentage_error", dtype="float64", statistic=_percentage_error),
        TOTAL,
    )


class SymmetricMeanAbsolutePercentageError(OfNumbers[float]):
    """Symmetric mean absolute percentage error, as a fraction in [0, 2].

    Formula: ``sum(w * 2 * |p - y| / (|p| + |y|)) / sum(w)``, where 0 / 0 is 0. Inputs as for
    `MeanAbsolutePercentageError`.

    Examples:
        >>> metric = SymmetricMeanAbsolutePercentageError()
        >>> metric.add([3.0, 0.0], [5.0, 0.0])
        >>> metric.compute()
        0.25
    """

    better = "lower"
    quotient: Quotient | None = Quotient({"symmetric_error": 1})
    declared: tuple[Declared, ...] = (Declared("symmetric_error", dtype="float64", statistic=_symmetric_error), TOTAL)


class WeightedMeanAbsolutePercentageError(OfNumbers[float]):
    """Weighted mean absolute percentage error: the weight of each label is its absolute value.

    Formula: ``sum(w * |p - y|) / sum(w * |y|)``, a fraction. Inputs as for `MeanAbsoluteError`. Undefined if all labels
    are 0, or without samples.

    Examples:
        >>> metric = WeightedMeanAbsolutePercentageError()
        >>> metric.add([3.0, -1.0], [4.0, -4.0])
        >>> metric.compute()
        0.5
    """

    better = "lower"
    quotient: Quotient | None = Quotient({"absolute_error": 1}, {"absolute_label": 1}, reason="all labels are 0")
    declared: tuple[Declared, ...] = (
        ABSOLUTE_ERROR,
        Declared("absolute_label", dtype="float64", statistic=_absolute_label),
        TOTAL,
    )
