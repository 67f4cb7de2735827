"""Errors relative to the variance of the labels, and the correlation of predictions and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.metric import Declared, Settings, formula_of
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.metrics.regression.differences import EXACT, SQUARED_ERROR, OfNumbers, signed_error
from fleetmetrics.support.checks import whole_number_of
from fleetmetrics.support.typed import Unpack

__all__ = ["ExplainedVariance", "PearsonCorrelation", "R2Score"]


def _number(batch: Batch) -> Any:
    return batch.number


@statistic
def _label_moments(batch: Batch) -> Any:
    return batch.moments(batch.targets)


@statistic
def _error_moments(batch: Batch) -> Any:
    return batch.moments(signed_error(batch))


@statistic
def _comoments(batch: Batch) -> Any:
    return batch.moments(batch.values, batch.targets)


_LABEL_MOMENTS = Declared("label_moments", (4,), "float64", "moments", statistic=_label_moments)


class R2Score(OfNumbers[float]):
    """R2, the coefficient of determination: the share of the labels' variance that the predictions account for.

    Formula: ``R2 = 1 - sum(w * (y - p)**2) / sum(w * (y - mean(y))**2)``; adjusted for k regressors ``1 - (1 - R2) * (n
    - 1) / (n - k - 1)``, where n is the number of samples, without their weights. It is computed in float64 and merged
    by pairwise formulas, and stays accurate if labels are large compared with their spread. Integers beyond 2**53 are
    an error.

    Inputs as for `MeanAbsoluteError`. Undefined if all labels are equal (up to rounding), without samples, or with at
    most ``adjusted + 1`` samples. Squared deviations below 2.2e-308, where float64 has few digits, raise
    `UndefinedMetricWarning`.

    Args:
        adjusted: the number of independent regressors to adjust for, at least 0; 0: no adjustment.

    Examples:
        >>> metric = R2Score()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -1.0, 2.0, 8.0])
        >>> round(metric.compute(), 12)
        0.970238095238
    """

    adjusted: int

    better = "higher"
    requirements: tuple[str | Requirement, ...] = EXACT
    declared: tuple[Declared, ...] = (SQUARED_ERROR, _LABEL_MOMENTS)

    def __init__(self, *, adjusted: int = 0, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self.adjusted = whole_number_of("adjusted", adjusted, 0)
        if self.adjusted:
            self.declare("number", statistic=_number)

    def formula(self, squared_error: np.ndarray, label_moments: np.ndarray, number: Any = 0) -> float:
        return formulas.r2_score.bare(squared_error, label_moments, number, self.adjusted, self.zero_division)


class ExplainedVariance(OfNumbers[float]):
    """Share of the labels' variance that is not variance of the errors: an `R2Score` that ignores a constant bias.

    Formula: ``1 - var(y - p) / var(y)`` with weighted variances. Inputs and precision as for `R2Score`. Undefined if
    all labels are equal (up to rounding), or without samples.

    Examples:
        >>> metric = ExplainedVariance()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
        >>> round(metric.compute(), 12)
        0.957173447537
    """

    better = "higher"
    requirements: tuple[str | Requirement, ...] = EXACT
    declared: tuple[Declared, ...] = (
        Declared("error_moments", (4,), "float64", "moments", statistic=_error_moments),
        _LABEL_MOMENTS,
    )

    def formula(self, error_moments: np.ndarray, label_moments: np.ndarray) -> float:
        return formulas.explained_variance.bare(error_moments, label_moments, self.zero_division)


class PearsonCorrelation(OfNumbers[float]):
    """Pearson's coefficient of the linear correlation of predictions and labels, in [-1, 1].

    Formula: ``cov(p, y) / sqrt(var(p) * var(y))``, all weighted. Inputs and precision as for `R2Score`. Undefined if
    all predictions, or all labels, are equal (up to rounding), or without samples.

    Examples:
        >>> metric = PearsonCorrelation()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
        >>> round(metric.compute(), 12)
        0.984869618448
    """

    better = "higher"
    requirements: tuple[str | Requirement, ...] = EXACT
    declared: tuple[Declared, ...] = (Declared("comoments", (8,), "float64", "comoments", statistic=_comoments),)
    formula: Any = formula_of(formulas.pearson_correlation, "zero_division")
