"""Means of errors relative to the size of labels or predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.metric import Declared, Undefinable
from fleetmetrics.metrics.regression.differences import MeanError, absolute_error

__all__ = ["MeanAbsolutePercentageError", "SymmetricMeanAbsolutePercentageError", "WeightedMeanAbsolutePercentageError"]

#: The smallest size of a label, as in scikit-learn for float64.
_LEAST = float(np.finfo(np.float64).eps)


@statistic
def _percentage_error(batch: Batch) -> Any:
    xp = batch.xp
    error = xp.absolute(xp.subtract(batch.values, batch.targets))
    size = xp.at_least(xp.absolute(batch.targets), _LEAST)
    return batch.weighted_sum(xp.divide(error, size), zero_at_zero=True)


@statistic
def _symmetric_error(batch: Batch) -> Any:
    xp = batch.xp
    error = xp.absolute(xp.subtract(batch.values, batch.targets))
    size = xp.add(xp.absolute(batch.values), xp.absolute(batch.targets))
    return batch.weighted_sum(2.0 * xp.divide(error, xp.or_one(size)), zero_at_zero=True)


@statistic
def _absolute_label(batch: Batch) -> Any:
    return batch.weighted_sum(batch.xp.absolute(batch.targets), zero_at_zero=True)


class MeanAbsolutePercentageError(MeanError):
    """Mean absolute percentage error, as a fraction: 0.1 for ten percent.

    Formula: ``sum(w * |p - y| / max(|y|, 2**-52)) / sum(w)``: as in scikit-learn, a label of 0 makes it huge rather
    than undefined. Inputs as for `MeanAbsoluteError`.

    Source: Hyndman and Koehler, "Another look at measures of forecast accuracy", International Journal of Forecasting
    22 (2006), section 2.2.

    Elsewhere: `mean_absolute_percentage_error`, `MAPE`.

    Examples:
        >>> metric = MeanAbsolutePercentageError()
        >>> metric.add([3.0, -1.0], [4.0, -2.0])
        >>> metric.compute()
        0.375
    """

    error = "absolute_percentage_error"
    sum_of_errors = staticmethod(_percentage_error)
    mean = staticmethod(formulas.mean_absolute_percentage_error)


class SymmetricMeanAbsolutePercentageError(MeanError):
    """Symmetric mean absolute percentage error, as a fraction in [0, 2].

    Formula: ``sum(w * 2 * |p - y| / (|p| + |y|)) / sum(w)``, where 0 / 0 is 0. Inputs and source as for
    `MeanAbsolutePercentageError`.

    Elsewhere: `SMAPE`.

    Examples:
        >>> metric = SymmetricMeanAbsolutePercentageError()
        >>> metric.add([3.0, 0.0], [5.0, 0.0])
        >>> metric.compute()
        0.25
    """

    error = "symmetric_error"
    sum_of_errors = staticmethod(_symmetric_error)
    mean = staticmethod(formulas.symmetric_mean_absolute_percentage_error)


class WeightedMeanAbsolutePercentageError(Undefinable):
    """Weighted mean absolute percentage error: each label weighs as much as it is large.

    Formula: ``sum(w * |p - y|) / sum(w * |y|)``, a fraction. Inputs as for `MeanAbsoluteError`. Undefined if all labels
    are 0, or without samples.

    Source: Kolassa and Schuetz, "Advantages of the MAD/Mean ratio over the MAPE", Foresight 6 (2007).

    Elsewhere: `WMAPE`.

    Examples:
        >>> metric = WeightedMeanAbsolutePercentageError()
        >>> metric.add([3.0, -1.0], [4.0, -4.0])
        >>> metric.compute()
        0.5
    """

    requirements = ("finite_prediction", "finite_label")
    declared = (
        Declared("absolute_error", dtype="float64", key="absolute_error"),
        Declared("absolute_label", dtype="float64", key="absolute_label"),
        Declared("total", key="total"),
    )

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        sums = {"absolute_error": absolute_error(batch), "absolute_label": _absolute_label(batch)}
        return {**sums, "total": batch.total}

    def formula(self, absolute_error: np.ndarray, absolute_label: np.ndarray, total: np.ndarray) -> float:
        return formulas.weighted_mean_absolute_percentage_error(
            absolute_error, absolute_label, total, self.zero_division
        )
