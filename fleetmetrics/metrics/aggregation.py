"""Aggregates of plain values: sum, maximum, minimum, number of samples, throughput."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import TOTAL, Declared, Metric, NoColumns, Settings, Undefinable, WithoutColumns
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import IntegerOverflowError, StaticProgramError
from fleetmetrics.formulas.quotients import stand_in, undefined
from fleetmetrics.metrics.regression.differences import number_above
from fleetmetrics.state.state import State
from fleetmetrics.support.typed import Unpack
from fleetmetrics.xp import is_static

__all__ = ["Count", "Max", "Min", "Sum", "Throughput"]


class Count(WithoutColumns[int]):
    """Number of samples; with weights, their total weight.

    Formula: ``sum(w)``; an int without weights. ``add(prediction, label=None)`` reads only shapes. Masked samples do
    not count.

    Examples:
        >>> metric = Count()
        >>> metric.add([0.5, 0.25, 0.75], mask=[True, True, False])
        >>> metric.compute()
        2
    """

    takes_label: bool | None = None
    samples: str = "any"
    declared: tuple[Declared, ...] = (TOTAL,)
    cell_states: tuple[str, ...] = ("total",)

    def formula(self, total: np.ndarray) -> float:
        return total.item()

    def values_from_rows(self, values: Mapping[State, np.ndarray]) -> Sequence[Any]:
        return values[self.states["total"]].tolist()


class Values(Metric[Value]):
    """An aggregate of values, without labels."""

    requirements: tuple[str | Requirement, ...] = ("finite_prediction",)
    takes_label: bool | None = False
    arguments: tuple[str, ...] = ("value", "weight", "mask")

    def add(  # type: ignore[override]  # the arguments have names of their own
        self, value: Any = None, weight: Any = None, mask: Any = None, **unknown: Unpack[NoColumns]
    ) -> None:
        """Accumulate one batch of values.

        Args:
            value: numbers of any shape; every element counts.
            weight: one number of at least 0 per sample, or one for all; None: 1.
            mask: one flag per sample; False leaves it out. None: all count.
            **unknown: refused, with a hint.

        Raises:
            InvalidInputError: as for `Metric.add`.
        """
        for name in unknown:
            raise self._unknown(name)
        super().add(value, None, weight, mask)


class Sum(Values[float]):
    """Sum of all values.

    Formula: ``sum(w * x)``. Integers without weights give an exact int, and an overflow of int64 is an error;
    everything else is summed in float64. The sum of nothing is 0.

    ``add(value, weight=None, mask=None)`` takes numbers of any shape; every element counts.

    Examples:
        >>> metric = Sum()
        >>> metric.add([16777216, 1])
        >>> metric.compute()
        16777217
    """

    declared: tuple[Declared, ...] = (
        Declared("integers", key="sum of integers"),
        Declared("floats", dtype="float64", key="sum of floats"),
        # The sum of the integers as floats; it differs much from the integer sum if that one has wrapped around.
        Declared("estimate", dtype="float64", key="estimate of the sum of integers"),
        Declared("number_of_floats", key="number of floats"),
    )

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        if batch.weight is not None or batch.xp.kind(batch.prediction) == "f":
            return {"floats": _sum(batch, True), "number_of_floats": batch.number, "integers": None, "estimate": None}
        integers, estimate = _sum(batch, False), _sum(batch, True)
        if batch.lanes is None and batch.xp.is_eager(integers):  # otherwise compute raises
            _raise_if_wrapped(self.states["integers"], integers, estimate)
        return {"integers": integers, "estimate": estimate, "floats": None, "number_of_floats": None}

    def formula(
        self, integers: np.ndarray, floats: np.ndarray, estimate: np.ndarray, number_of_floats: np.ndarray
    ) -> float:
        _raise_if_wrapped(self.states["integers"], integers, estimate)
        return integers.item() + floats.item() if number_of_floats.item() else integers.item()


def _raise_if_wrapped(state: State, integers: Any, estimate: Any) -> None:
    if abs(estimate.item() - integers.item()) > 2**62:
        owner, _, _ = state.name.rpartition(".")  # in a collection its key is in it
        raise IntegerOverflowError(
            f"{owner}: the integers add up to about {estimate.item():.6g}; a sum must stay below 2**63 = 9.22e18. Add "
            "them as float64"
        )


@statistic
def _sum(batch: Batch, floats: bool) -> Any:
    return batch.weighted_sum(batch.values if floats else batch.prediction)


class _Extreme(Undefinable[float], Values[float]):
    biased = True
    reduction = ""

    def __init__(self, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        for kind, dtype in (("integers", "int64"), ("floats", "float64")):
            self.declare(kind, dtype=dtype, reduction=self.reduction, key=f"{self.reduction} of {kind}")
            self.declare(f"number_of_{kind}", key=f"number of counted {kind}")

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        kind = "floats" if batch.xp.kind(batch.prediction) == "f" else "integers"
        statistics = {kind: _extreme(batch, self.reduction), f"number_of_{kind}": batch.number}
        return {**dict.fromkeys(self.states), **statistics}

    def formula(self, **states: np.ndarray) -> Any:
        pick = max if self.reduction == "max" else min
        extremes = [states[kind].item() for kind in ("integers", "floats") if states[f"number_of_{kind}"].item()]
        return pick(extremes) if extremes else stand_in(self.name, "there are no samples", self.zero_division)


@statistic
def _extreme(batch: Batch, reduction: str) -> Any:
    return batch.extreme(batch.prediction, reduction)


class Max(_Extreme):
    """Largest of all values.

    Formula: ``max(x)`` over the samples of positive weight; the size of a weight does not matter. Integers stay exact.
    Inputs as for `Sum`. Undefined without samples.

    Examples:
        >>> metric = Max()
        >>> metric.add([[1.5, 2.5], [0.5, -3.0]])
        >>> metric.compute()
        2.5
    """

    reduction = "max"


class Min(_Extreme):
    """Smallest of all values; otherwise like `Max`.

    Formula: ``min(x)`` over the samples of positive weight.

    Examples:
        >>> metric = Min()
        >>> metric.add([[1.5, 2.5], [0.5, -3.0]])
        >>> metric.compute()
        -3.0
    """

    reduction = "min"


def _is_number(batch: Batch) -> Any:
    return batch.xp.is_weight(batch.prediction)


class Throughput(Metric[float]):
    """Samples per second over all workers, which run in parallel.

    Formula: ``sum_i n_i / max_i t_i`` over the workers i, where n is the number of samples of a worker and t its time:
    the slowest worker delays the others. Merging also takes the longer time.

    ``add(number, seconds, mask=None)`` takes the number of processed samples and the seconds they took: numbers, or
    arrays of equal shape. Undefined if no time has passed. An error in a static program: measure the time around
    ``exe.run`` and add it.

    Examples:
        >>> metric = Throughput()
        >>> metric.add(64, seconds=1.5)
        >>> metric.add(64, seconds=0.5)
        >>> metric.compute()
        64.0
    """

    #: Why no wrapper takes it.
    unwrappable: str = "its time belongs to the whole worker"
    requirements: tuple[str | Requirement, ...] = (
        Requirement("prediction", "a finite number of at least 0, the number of samples", _is_number),
        number_above("label", 0)._replace(allowed="a finite number above 0, the seconds"),
    )
    declared: tuple[Declared, ...] = (
        Declared("number"),
        Declared("estimate", dtype="float64"),  # of the number, as for `Sum`
        Declared("seconds", dtype="float64", reduction="max"),
    )
    arguments: tuple[str, ...] = ("number", "seconds", "mask")

    def add(  # type: ignore[override]  # the arguments have names of their own
        self, number: Any = None, seconds: Any = None, mask: Any = None, **unknown: Unpack[NoColumns]
    ) -> None:
        """Accumulate processed samples and their time.

        Args:
            number: the number of samples, or an array of numbers.
            seconds: the seconds they took, of the same shape.
            mask: one flag per number; False leaves it out. None: all count.
            **unknown: refused, with a hint.

        Raises:
            InvalidInputError: as for `Metric.add`.
            StaticProgramError: inside a static program.
        """
        for name in unknown:
            raise self._unknown(name)
        if is_static(number) or is_static(seconds):
            raise StaticProgramError(
                f"{self.name} (Throughput) does not work in static programs, which cannot measure their time; measure "
                "it around exe.run, and pass it to add"
            )
        super().add(number, seconds, None, mask)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        xp = batch.xp
        # Seconds add up within a worker; the maximum is taken only between workers.
        so_far = xp.at_least(xp.asarray(self.states["seconds"].current(xp), "seconds"), 0.0)
        seconds = xp.add(so_far, batch.weighted_sum(batch.targets, zero_at_zero=True))
        number = batch.weighted_sum(batch.prediction, zero_at_zero=True)
        estimate = batch.weighted_sum(batch.values, zero_at_zero=True)
        if xp.is_eager(number):
            _raise_if_wrapped(self.states["number"], number, estimate)
        return {"number": number, "estimate": estimate, "seconds": seconds}

    def formula(self, number: np.ndarray, estimate: np.ndarray, seconds: np.ndarray) -> float:
        _raise_if_wrapped(self.states["number"], number, estimate)
        elapsed = seconds.item()
        return undefined("throughput", "no time has passed") if elapsed <= 0 else number.item() / elapsed
