"""Means and the maximum of errors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import TOTAL, Declared, Quotient, Undefinable, WithoutColumns
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import CLASS_LABEL, REQUIREMENTS, Requirement, beyond_floats
from fleetmetrics.formulas.quotients import stand_in
from fleetmetrics.formulas.sums import as_number, root

__all__ = [
    "LogCoshError",
    "MaxError",
    "MeanAbsoluteError",
    "MeanBias",
    "MeanSquaredError",
    "MeanSquaredLogError",
    "RootMeanSquaredError",
    "RootMeanSquaredLogError",
]


def floats(batch: Batch, argument: str) -> Any:
    """Predictions or labels as float64, masked samples included, for a requirement."""
    if batch.classes and argument == "prediction":
        return batch.values  # raises the error that says what is allowed
    return batch.xp.cast(getattr(batch, argument), "float64")


class _Above(NamedTuple):
    """Which samples have a finite argument above a bound."""

    argument: str
    bound: float

    def __call__(self, batch: Batch) -> Any:
        array = floats(batch, self.argument)
        return batch.xp.logical_and(batch.xp.greater(array, self.bound), batch.xp.isfinite(array))


def number_above(argument: str, bound: float) -> Requirement:
    """The requirement that ``"prediction"`` or ``"label"`` be finite and above a bound."""
    holds: Any = _Above(argument, bound)
    return Requirement(argument, f"a finite number above {bound:g}", holds)


def _slope_of_root(square: float) -> float:
    return 0.5 / math.sqrt(square) if square else math.nan


@per_sample
def signed_error(batch: Batch) -> Any:
    """The error of each prediction, float64."""
    xp, prediction, label = batch.xp, batch.values, batch.targets
    kind = xp.kind
    label_is_exact = kind(batch.label) != "i" or CLASS_LABEL in batch.rules or xp.known_exact(label)
    if label_is_exact and (kind(batch.prediction) != "i" or xp.known_exact(prediction)):
        return xp.subtract(prediction, label)
    return difference(xp, batch.prediction, batch.label, prediction, label)


def difference(xp: Any, one: Any, other: Any, one_float: Any, other_float: Any) -> Any:
    """``one - other``, float64: of integers beyond 2**53 the difference is rounded, not the integers themselves."""
    one_float, low = _split(xp, one, one_float)
    other_float, other_low = _split(xp, other, other_float)
    differences = xp.subtract(one_float, other_float)
    if low is None and other_low is None:
        return differences
    zero = xp.zeros_like(differences)
    return xp.add(differences, xp.subtract(zero if low is None else low, zero if other_low is None else other_low))


def _split(xp: Any, values: Any, floats: Any) -> tuple[Any, Any]:
    """Numbers as the sum of two float64 arrays, exactly; the second is None if the first has them all."""
    if xp.kind(values) != "i" or xp.known_exact(floats):
        return floats, None
    low = xp.where(beyond_floats(xp, values), xp.bitwise_and(values, 2**11 - 1), xp.zeros_like(values))
    return xp.cast(xp.subtract(values, low), "float64"), xp.cast(low, "float64")


@per_sample
def absolute_errors(batch: Batch) -> Any:
    """The size of the error of each prediction."""
    return batch.xp.absolute(signed_error(batch))


@statistic
def _sum_of_errors(batch: Batch) -> Any:
    return batch.weighted_sum(signed_error(batch), zero_at_zero=True)


@statistic
def _absolute_error(batch: Batch) -> Any:
    return batch.weighted_sum(absolute_errors(batch), zero_at_zero=True)


@statistic
def _squared_error(batch: Batch) -> Any:
    return batch.sum_of_squares(signed_error(batch))


@statistic
def _squared_log_error(batch: Batch) -> Any:
    xp = batch.xp
    return batch.sum_of_squares(xp.subtract(xp.log1p(batch.values), xp.log1p(batch.targets)))


@statistic
def _log_cosh(batch: Batch) -> Any:
    xp, error = batch.xp, absolute_errors(batch)
    large = xp.greater(error, 1.0)
    # Each form where it neither cancels nor overflows: cosh(x) is 1 + 2 sinh(x / 2)**2 and exp(x) (1 + exp(-2x)) / 2.
    near = xp.where(large, xp.zeros_like(error), error)
    of_small = xp.log1p(2.0 * xp.square(xp.sinh(0.5 * near)))
    of_large = xp.add(error, xp.log(0.5 * (1.0 + xp.exp(-2.0 * error))))
    return batch.weighted_sum(xp.where(large, of_large, of_small), zero_at_zero=True)


@statistic
def _largest(batch: Batch) -> Any:
    return batch.extreme(absolute_errors(batch), "max")


class OfNumbers(WithoutColumns[Value], Undefinable[Value]):
    """A metric of predictions and labels that are numbers."""

    requirements: tuple[str | Requirement, ...] = ("finite_prediction", "finite_label")


#: Of a metric that squares or compares the numbers themselves, not only their differences.
EXACT = ("exact_prediction", "exact_label")
#: The same, after the requirements of a domain.
EXACT_IN_DOMAIN: tuple[Requirement, ...] = tuple(REQUIREMENTS[name] for name in EXACT)


ABSOLUTE_ERROR = Declared("absolute_error", dtype="float64", statistic=_absolute_error)
SQUARED_ERROR = Declared("squared_error", dtype="float64", statistic=_squared_error)


class MeanAbsoluteError(OfNumbers[float]):
    """Mean absolute error.

    Formula: ``sum(w * |p - y|) / sum(w)``, in float64 for inputs of any dtype. Of integers beyond 2**53 the difference
    is rounded, not the integers themselves.

    ``add(prediction, label)`` takes numbers of equal shape (``[n, 1]`` equals ``[n]``); every element of a matrix
    counts. Undefined without samples.

    Examples:
        >>> metric = MeanAbsoluteError()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
        >>> metric.compute()
        0.5
    """

    better = "lower"
    quotient: Quotient | None = Quotient({"absolute_error": 1})
    declared: tuple[Declared, ...] = (ABSOLUTE_ERROR, TOTAL)


class MeanSquaredError(OfNumbers[float]):
    """Mean squared error.

    Formula: ``sum(w * (p - y)**2) / sum(w)``. Inputs as for `MeanAbsoluteError`. Squares below 2.2e-308, where float64
    has few digits, cause an `UndefinedMetricWarning`.

    Examples:
        >>> metric = MeanSquaredError()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
        >>> metric.compute()
        0.375
    """

    better = "lower"
    quotient: Quotient | None = Quotient({"squared_error": 1}, squared="errors")
    declared: tuple[Declared, ...] = (SQUARED_ERROR, TOTAL)


class RootMeanSquaredError(MeanSquaredError):
    """Root mean squared error: the square root of `MeanSquaredError`, in the unit of the label.

    Formula: ``sqrt(sum(w * (p - y)**2) / sum(w))``: the root of the global mean, not a mean of roots. Inputs as for
    `MeanSquaredError`.

    Examples:
        >>> metric = RootMeanSquaredError()
        >>> metric.add([3.0, 0.0], [0.0, 4.0], weight=[1.0, 1.0])
        >>> metric.compute()
        3.5355339059327378
    """

    quotient: Quotient = Quotient({"squared_error": 1}, squared="errors", value=root, slope=_slope_of_root)


class MeanSquaredLogError(OfNumbers[float]):
    """Mean squared logarithmic error: for labels that span orders of magnitude.

    Formula: ``sum(w * (ln(1 + p) - ln(1 + y))**2) / sum(w)``. Inputs as for `MeanAbsoluteError`, all above -1.

    Examples:
        >>> metric = MeanSquaredLogError()
        >>> metric.add([1.0, 3.0], [0.0, 3.0])
        >>> round(metric.compute(), 12)
        0.240226506959
    """

    better = "lower"
    quotient: Quotient | None = Quotient({"squared_log_error": 1}, squared="logarithms")
    requirements: tuple[str | Requirement, ...] = (
        number_above("prediction", -1),
        number_above("label", -1),
        *EXACT_IN_DOMAIN,
    )
    declared: tuple[Declared, ...] = (
        Declared("squared_log_error", dtype="float64", statistic=_squared_log_error),
        TOTAL,
    )


class RootMeanSquaredLogError(MeanSquaredLogError):
    """Root mean squared logarithmic error: the square root of `MeanSquaredLogError`.

    Formula: ``sqrt(sum(w * (ln(1 + p) - ln(1 + y))**2) / sum(w))``: the root of the global mean, not a mean of roots.
    Inputs as for `MeanSquaredLogError`.

    Examples:
        >>> metric = RootMeanSquaredLogError()
        >>> metric.add([1.0, 3.0], [0.0, 3.0])
        >>> round(metric.compute(), 12)
        0.490129071734
    """

    quotient: Quotient = Quotient({"squared_log_error": 1}, squared="logarithms", value=root, slope=_slope_of_root)


class MeanBias(OfNumbers[float]):
    """Mean signed error: above 0 if predictions are too high.

    Formula: ``sum(w * (p - y)) / sum(w)``. Inputs as for `MeanAbsoluteError`.

    Examples:
        >>> metric = MeanBias()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
        >>> metric.compute()
        0.25
    """

    quotient: Quotient | None = Quotient({"error": 1}, lowest=-math.inf)
    declared: tuple[Declared, ...] = (Declared("error", dtype="float64", statistic=_sum_of_errors), TOTAL)


class LogCoshError(OfNumbers[float]):
    """Mean logarithm of the hyperbolic cosine of the error: quadratic for small errors, linear for large ones.

    Formula: ``sum(w * ln(cosh(p - y))) / sum(w)``, without overflow. Inputs as for `MeanAbsoluteError`.

    Examples:
        >>> metric = LogCoshError()
        >>> metric.add([1.0, 1000.0], [0.0, 0.0])
        >>> round(metric.compute(), 9)
        499.870316825
    """

    better = "lower"
    quotient: Quotient | None = Quotient({"log_cosh": 1})
    declared: tuple[Declared, ...] = (Declared("log_cosh", dtype="float64", statistic=_log_cosh), TOTAL)


class MaxError(OfNumbers[float]):
    """The largest absolute error.

    Formula: ``max(|p - y|)`` over the samples of positive weight; the size of a weight does not matter. Inputs as for
    `MeanAbsoluteError`.

    Examples:
        >>> metric = MaxError()
        >>> metric.add([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0])
        >>> metric.compute()
        1.0
    """

    biased = True
    better = "lower"
    declared: tuple[Declared, ...] = (Declared("largest_error", dtype="float64", reduction="max", statistic=_largest),)

    def formula(self, largest_error: Any) -> float:
        largest = as_number(largest_error)
        return stand_in(self._title, "there are no samples", self.zero_division) if largest == -math.inf else largest
