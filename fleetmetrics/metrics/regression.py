"""Regression metrics: how far predictions are from labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.metric import Metric

__all__ = ["MeanAbsoluteError", "MeanSquaredError", "RootMeanSquaredError"]


@statistic
def _error(batch: Batch) -> Any:
    return batch.xp.subtract(batch.values, batch.targets)


@statistic
def _absolute_error(batch: Batch) -> Any:
    return batch.weighted_sum(batch.xp.absolute(_error(batch)), zero_at_zero=True)


@statistic
def _squared_error(batch: Batch) -> Any:
    return batch.weighted_sum(batch.xp.square(_error(batch)), zero_at_zero=True)


class MeanAbsoluteError(Metric):
    """Mean absolute error.

    Formula: ``sum(w * |p - y|) / sum(w)``, in float64 whatever the dtype of the inputs.

    ``add(prediction, label)`` takes numbers of equal shape (``[n, 1]`` equals ``[n]``); of a matrix every
    element counts. Undefined without samples: nan with `UndefinedMetricWarning`.

    Source: Willmott and Matsuura, "Advantages of the mean absolute error (MAE) over the root mean square
    error (RMSE)", Climate Research 30 (2005).

    Args:
        name: prefix of the states' names; None: made up, in the order of creation.
        validate: False skips the check that predictions and labels are finite and weights at least 0.
        share: in a static program, share the variables of an earlier metric of this name.

    Examples:
        >>> metric = MeanAbsoluteError()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
        >>> metric.compute()
        0.5
    """

    requirements = ("finite_prediction", "finite_label")

    def __init__(self, name: str | None = None, *, validate: bool = True, share: bool = False) -> None:
        super().__init__(name, validate=validate, share=share)
        self.declare("absolute_error", dtype="float64", key="absolute_error")
        self.declare("total", key="total")

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {"absolute_error": _absolute_error(batch), "total": batch.total}

    def formula(self, absolute_error: np.ndarray, total: np.ndarray) -> float:
        return formulas.mean_absolute_error(absolute_error, total)


class MeanSquaredError(Metric):
    """Mean squared error.

    Formula: ``sum(w * (p - y)**2) / sum(w)``, in float64 whatever the dtype of the inputs.

    ``add(prediction, label)`` takes numbers of equal shape (``[n, 1]`` equals ``[n]``); of a matrix every
    element counts. Undefined without samples: nan with `UndefinedMetricWarning`.

    Source: Gneiting, "Making and evaluating point forecasts", Journal of the American Statistical
    Association 106 (2011).

    Args:
        name: prefix of the states' names; None: made up, in the order of creation.
        validate: False skips the check that predictions and labels are finite and weights at least 0.
        share: in a static program, share the variables of an earlier metric of this name.

    Examples:
        >>> metric = MeanSquaredError()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
        >>> metric.compute()
        0.375
    """

    requirements = ("finite_prediction", "finite_label")

    def __init__(self, name: str | None = None, *, validate: bool = True, share: bool = False) -> None:
        super().__init__(name, validate=validate, share=share)
        self.declare("squared_error", dtype="float64", key="squared_error")
        self.declare("total", key="total")

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {"squared_error": _squared_error(batch), "total": batch.total}

    def formula(self, squared_error: np.ndarray, total: np.ndarray) -> float:
        return formulas.mean_squared_error(squared_error, total)


class RootMeanSquaredError(MeanSquaredError):
    """Root mean squared error: the square root of `MeanSquaredError`, in the unit of the label.

    Formula: ``sqrt(sum(w * (p - y)**2) / sum(w))``: the root of the global mean, not a mean of roots.

    Inputs, arguments, errors and source as for `MeanSquaredError`.

    Examples:
        >>> metric = RootMeanSquaredError()
        >>> metric.add([3.0, 0.0], [0.0, 4.0], weight=[1.0, 1.0])
        >>> metric.compute()
        3.5355339059327378
    """

    def formula(self, squared_error: np.ndarray, total: np.ndarray) -> float:
        return formulas.root_mean_squared_error(squared_error, total)
