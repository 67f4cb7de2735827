"""Losses with a parameter: of quantiles and of the Tweedie family."""

from __future__ import annotations

from typing import Any, Sequence, overload

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import TOTAL, Quotient, Settings
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.sums import as_number
from fleetmetrics.metrics.regression.differences import (
    EXACT_IN_DOMAIN,
    OfNumbers,
    difference,
    floats,
    number_above,
    signed_error,
)
from fleetmetrics.support.checks import array_or_empty, number_of
from fleetmetrics.support.typed import Unpack

__all__ = ["QuantileLoss", "TweedieDeviance"]


@statistic
def _shortfall(batch: Batch, column: int | None, over: bool) -> Any:
    """The sum of ``max(y - p, 0)``, or with ``over`` of ``max(p - y, 0)``, for one column of predictions."""
    xp = batch.xp
    if column is None:
        error = signed_error(batch)
    else:
        prediction = batch.prediction[:, column]
        error = difference(xp, prediction, batch.labels, xp.cast(prediction, "float64"), batch.targets)
    return batch.weighted_sum(xp.at_least(error if over else -error, 0.0), zero_at_zero=True)


class QuantileLoss(OfNumbers[Value]):
    """Quantile (pinball) loss of predictions of one or several quantiles.

    Formula: ``sum(w * max(q * (y - p), (1 - q) * (p - y))) / sum(w)`` for the quantile q, in float64 for inputs of any
    dtype.

    With one quantile, inputs are as for `MeanAbsoluteError` and the value is a number. With a sequence of k quantiles,
    ``add(prediction, label)`` takes predictions ``[n, k]``, one column per quantile, and labels ``[n]``; the value is
    an array ``[k]``. Undefined without samples.

    Args:
        quantile: a number in [0, 1], or a sequence of them.

    Examples:
        >>> metric = QuantileLoss(quantile=0.75)
        >>> metric.add([1.0, 4.0], [3.0, 3.0])
        >>> metric.compute()
        0.875
        >>> metric = QuantileLoss(quantile=[0.25, 0.75])
        >>> metric.add([[1.0, 4.0], [2.0, 8.0]], [3.0, 4.0])
        >>> metric.compute().tolist()
        [0.5, 0.625]
    """

    quantiles: list[float]

    better = "lower"

    @overload
    def __init__(self: QuantileLoss[float], quantile: float = 0.5, **settings: Unpack[Settings]) -> None: ...
    @overload
    def __init__(self: QuantileLoss[np.ndarray], quantile: Sequence[float], **settings: Unpack[Settings]) -> None: ...
    def __init__(self, quantile: float | Sequence[float] = 0.5, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self.quantile: float | None = None  # None: there are several
        quantiles: Sequence[Any] = [quantile]
        array = array_or_empty(quantile)
        if array.ndim == 1 and array.size:
            quantiles = list(quantile)  # type: ignore[arg-type]
            self.quantiles = [number_of("quantile", level, 0, 1) for level in quantiles]
        else:
            self.quantile = number_of("quantile", quantile, 0, 1, "a number in [0, 1], or a sequence of them")
            self.quantiles = [self.quantile]
        self._suffixes = [""] if self.quantile is not None else [f"_{place}" for place in range(len(self.quantiles))]
        for suffix in self._suffixes:
            for side in ("under", "over"):
                self.declare(side + suffix, dtype="float64", key=("pinball", side, suffix))
        self.declare("total", key="total")

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        columns = len(self.quantiles)
        if self.quantile is None and (columns != (batch.classes or 1) or batch.width != 1):
            raise InvalidInputError(
                f"prediction must have shape [n, {columns}], one column per quantile, with labels [n]; it has "
                f"{batch.classes or batch.width} column(s)"
            )
        statistics = {"total": batch.total}
        for place, suffix in enumerate(self._suffixes):
            column = place if batch.classes and self.quantile is None else None
            statistics[f"under{suffix}"] = _shortfall(batch, column, False)
            statistics[f"over{suffix}"] = _shortfall(batch, column, True)
        return statistics

    def formula(self, total: np.ndarray, **sums: np.ndarray) -> Any:
        if self.quantile is None and not total.item():
            return np.full(len(self.quantiles), self._ratio(0, total))
        losses = []
        for suffix, quantile in zip(self._suffixes, self.quantiles):
            under, over = as_number(sums[f"under{suffix}"]), as_number(sums[f"over{suffix}"])
            losses.append(self._ratio(quantile * under + (1 - quantile) * over, total))
        return np.array(losses) if self.quantile is None else losses[0]


def _is_not_negative(batch: Batch) -> Any:
    return batch.xp.is_weight(floats(batch, "label"))


#: The domains of the powers are made up of these, as in scikit-learn.
_POSITIVE = {argument: number_above(argument, 0) for argument in ("prediction", "label")}
_NOT_NEGATIVE = Requirement("label", "a finite number of at least 0", _is_not_negative)


def _domain(power: float) -> tuple[str | Requirement, ...]:
    if power == 0:
        return ("finite_prediction", "finite_label")
    if power < 0:
        return (_POSITIVE["prediction"], *EXACT_IN_DOMAIN)
    return (_POSITIVE["prediction"], _NOT_NEGATIVE if power < 2 else _POSITIVE["label"], *EXACT_IN_DOMAIN)


#: This close to a ratio of 1, `_TERMS` terms of the series are accurate to a bit or two; elsewhere use the definition.
_NEAR, _TERMS = 0.05, 12


@statistic
def _deviance(batch: Batch, power: float) -> Any:
    xp, p, y = batch.xp, batch.values, batch.targets
    if power == 0:
        return batch.weighted_sum(xp.square(signed_error(batch)), zero_at_zero=True)
    one = xp.ones_like(p)
    p = xp.where(xp.greater(p, 0.0), p, one)  # 0 where samples do not count
    if power >= 2:
        y = xp.where(xp.greater(y, 0.0), y, one)
    if power == 1:
        relative = xp.divide(y, p)
        half = xp.add(xp.subtract(xp.multiply(y, xp.log(xp.or_one(relative))), y), p)
    elif power == 2:
        half = xp.subtract(xp.add(xp.log(xp.divide(p, y)), xp.divide(y, p)), one)
    else:
        of_label = xp.power(xp.at_least(y, 0.0), 2 - power)
        mixed = xp.scale(xp.subtract(of_label, xp.multiply(y, xp.power(p, 1 - power))), 1 / (1 - power))
        half = xp.subtract(mixed, xp.scale(xp.subtract(of_label, xp.power(p, 2 - power)), 1 / (2 - power)))
    # Near a perfect prediction this cancels: use its Taylor series in (y - p) / p.
    error, exponent = xp.subtract(y, p), 2 - power
    near = xp.greater(xp.subtract(xp.scale(p, _NEAR / (1 + abs(exponent))), xp.absolute(error)), 0.0)
    error = xp.divide(xp.where(near, error, xp.zeros_like(p)), p)
    series = one
    for n in range(_TERMS, 1, -1):
        series = xp.add(one, xp.scale(xp.multiply(error, series), (exponent - n) / (n + 1)))
    scale = one
    if power != 2:
        scale = p if power == 1 else xp.power(p, exponent)
    series = xp.scale(xp.multiply(xp.multiply(xp.square(error), scale), series), 0.5)
    return batch.weighted_sum(2.0 * xp.where(near, series, half))


class TweedieDeviance(OfNumbers[float]):
    """Mean Tweedie deviance: for counts, amounts and claims, whose variance grows with their mean to a power.

    Formula: ``sum(w * d(y, p)) / sum(w)``, where the unit deviance of power k is

        k = 0: (y - p)**2
        k = 1: 2 * (y * ln(y / p) - y + p)
        k = 2: 2 * (ln(p / y) + y / p - 1)
        else:  2 * (max(y, 0)**(2 - k) / ((1 - k) * (2 - k)) - y * p**(1 - k) / (1 - k) + p**(2 - k) / (2 - k))

    Power 0 is the normal distribution (`MeanSquaredError`), 1 Poisson, 2 gamma, 3 inverse Gaussian.

    Inputs as for `MeanAbsoluteError`, within these ranges:

    | power | prediction | label |
    | --- | --- | --- |
    | below 0 | above 0 | any |
    | 0 | any | any |
    | from 1 to below 2 | above 0 | at least 0 |
    | at least 2 | above 0 | above 0 |

    Args:
        power: at most 0, or at least 1; no such distribution exists in between.

    Examples:
        >>> metric = TweedieDeviance(power=2)
        >>> metric.add([2.0, 1.0], [1.0, 1.0])
        >>> round(metric.compute(), 12)
        0.19314718056
    """

    power: float
    requirements: tuple[str | Requirement, ...]

    better = "lower"
    quotient: Quotient | None = Quotient({"deviance": 1})

    def __init__(self, *, power: float = 0, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        allowed = "a finite number of at most 0 or at least 1"
        self.power = number_of("power", power, allowed=allowed)
        if 0 < self.power < 1:
            raise InvalidInputError(f"power must be {allowed}, not {power!r}")
        self.requirements = _domain(self.power)
        self.declare("deviance", dtype="float64", statistic=_deviance, settings=("power",))
        self.declare(*TOTAL)
