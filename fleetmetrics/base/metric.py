"""Metrics with states: accumulate batch by batch, exchange once, evaluate a formula.

Metrics of the catalogue derive from ``Metric``. A class defines three things, and inherits the rest:

    class MeanAbsoluteError(Undefinable):
        requirements = ("finite_prediction", "finite_label")

        # its states, each with a function that computes its increment from a batch
        declared = (Declared("absolute_error", dtype="float64", statistic=absolute_error), TOTAL)

        quotient = Quotient({"absolute_error": 1})                     # over the total

A metric that is not the quotient of two sums defines ``formula`` instead: global states in, number out. To fill several
states from one pass over a batch, define ``batch_statistics``.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Iterable, Mapping, NamedTuple, Sequence, TypedDict

import numpy as np

import fleetmetrics
from fleetmetrics.base.accumulator import Accumulator, Value
from fleetmetrics.batch import Batch
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.quotients import NO_SAMPLES, ratio, warn_if_small
from fleetmetrics.numbers.reductions import declared_shape
from fleetmetrics.state.state import State
from fleetmetrics.support.checks import bare, raise_if_too_large, zero_division_of
from fleetmetrics.support.typed import Axes, Unpack
from fleetmetrics.support.vocabulary import snake_case

if TYPE_CHECKING:
    import fleetmetrics.base.shared

__all__ = [
    "TOTAL",
    "Common",
    "Declared",
    "Linear",
    "Metric",
    "NoColumns",
    "Quotient",
    "Settings",
    "Undefinable",
    "WithoutColumns",
    "formula_of",
    "not_a_metric",
]

_divide = ratio.bare
_Operator = Callable[["Metric", Any], "Metric[Any]"]


class Common(TypedDict, total=False):
    """The settings of every metric; see `Metric`."""

    name: str | None
    validate: bool
    share: bool
    sampler: Any
    size: int | None


class Settings(Common, total=False):
    """The settings of every `Undefinable` metric."""

    zero_division: float


class NoColumns(TypedDict):
    """The further arguments of an ``add`` that takes none: type checkers then find the misspelt ones."""


class Declared(NamedTuple):
    """A state that all metrics of a class have; see `Metric.declare`."""

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "int64"
    reduction: str = "sum"
    key: Any = None
    statistic: Callable[..., Any] | None = None
    settings: tuple[str, ...] = ()


class Linear(NamedTuple):
    """The change of a metric's value with its sums, for the delta method of `Interval`.

    Args:
        terms: for each sum, the factors of its entries, by the name of a state or of a sum over groups.
        slopes: a function of the sums: the derivative of the value by each. Doubling all sums must not change the
            value.
        lowest: the lowest value.
        highest: the highest value.
    """

    terms: Sequence[Mapping[str, Any]]
    slopes: Callable[..., Sequence[float]]
    lowest: float = 0.0
    highest: float = math.inf


def _one(_: float) -> float:
    return 1.0


class Quotient(NamedTuple):
    """Two sums: a metric's value is their quotient, or a function of it; see `Undefinable.formula`.

    Args:
        numerator: the factors of the entries, by the name of a state or of a sum over groups.
        denominator: the same; never negative, and a measure of the evidence.
        highest: the highest quotient.
        lowest: 0; or negative if the quotient has no bounds.
        value: the metric's value as a function of the quotient, rising or falling.
        slope: its derivative.
        reason: why the denominator may be 0 although there are samples, for the warning.
        squared: "errors" or "logarithms" if the numerator is a sum of their squares: too small ones are warned of.
    """

    numerator: Mapping[str, Any]
    denominator: Mapping[str, Any] = {"total": 1}
    highest: float = math.inf
    lowest: float = 0.0
    value: Callable[[float], float] = float
    slope: Callable[[float], float] = _one
    reason: str = ""
    squared: str = ""

    @property
    def linear(self) -> Linear:
        """The change of the metric's value with the two sums."""
        highest = self.highest if self.value is float else math.inf
        return Linear((self.numerator, self.denominator), self._slopes, self.lowest, highest)

    @property
    def counts_samples(self) -> bool:
        """Whether the denominator is the number, or weight, of all samples."""
        return self.denominator == {"total": 1}

    def _slopes(self, numerator: float, denominator: float) -> tuple[float, float]:
        quotient = numerator / denominator
        slope = self.slope(quotient) / denominator
        return slope, -slope * quotient


def _total(batch: Batch) -> Any:
    return batch.total


#: The number, or weight, of all samples.
TOTAL = Declared("total", key="total", statistic=_total)


def formula_of(function: Callable[..., Any], *settings: str) -> Any:
    """A metric's ``formula``: a function of the states and of these settings, all by name.

    It skips the formula's checks of arguments: the states come from the package.
    """
    evaluated = bare(function)

    def formula(self: Metric, **states: np.ndarray) -> Any:
        return evaluated(**states, **{name: getattr(self, name) for name in settings})

    return formula


def _expression(symbol: str, *operands: Any) -> Metric[Any]:
    expressions = importlib.import_module("fleetmetrics.base.expression")  # which imports this module
    result: Metric[Any] = expressions.expression(symbol, *operands)
    return result


def _both_ways(symbol: str) -> tuple[_Operator, _Operator]:
    """The methods for an operation with the metric on its left, and on its right."""

    def with_other(self: Metric, other: Any) -> Metric[Any]:
        return _expression(symbol, self, other)

    def to_other(self: Metric, other: Any) -> Metric[Any]:
        return _expression(symbol, other, self)

    return with_other, to_other


class Metric(Accumulator[Value]):
    """A metric with states: the base class of the catalogue, and of your metrics.

    A metric takes its settings by keyword; all metrics take those below. Its name must be the same on every worker.

    Args:
        name: the prefix of the states' names, also used in errors; None: the class name and a number, in the order of
            creation. A static program takes a metric only with a name, or inside a collection.
        validate: False skips the check of `add`'s arguments: that predictions are finite, or probabilities, labels are
            classes, and weights at least 0. The effect of an invalid sample is then undefined; states with an entry for
            each class, bucket or bin omit a sample without one.
        share: in a static program, use the existing variables of a metric with the same name, instead of raising
            `DuplicateStateError`. It has no effect outside static programs.
        sampler: the `paddle.io.DistributedBatchSampler` that assigns the samples, or a `paddle.io.DataLoader` with one:
            each sample then counts once, even if the sampler assigns it to two workers. Add every batch of a pass once,
            and `reset` before the next pass; see `fleetmetrics.padding_mask`. Not for static programs. A metric inside
            a collection, a wrapper or an expression takes no sampler: give it to the outermost object.
        size: the number of samples of the data set. If all workers together have added more or fewer unmasked samples,
            ``compute`` warns on every worker, with `SizeWarning`; ``compute(partial=True)`` does not. Give it to the
            outermost metric, like ``sampler``.

    Raises:
        InvalidInputError: a setting is invalid, unknown, or given without its keyword.
    """

    #: The states that do not depend on a setting; `declare` makes the others.
    declared: tuple[Declared, ...] = ()
    #: The better direction of the value, or of all its parts, "higher" or "lower"; "": neither, or not of all parts.
    better: ClassVar[str] = ""
    #: The kind of value that `compute` returns: a "number" (or one for each class or k), a "curve", a "point" of one,
    #: "counts", "parts" or "slices".
    gives: ClassVar[str] = "number"
    #: The functions of `fleetmetrics.plot` that draw it; `plot` takes the first.
    pictures: tuple[str, ...] = ()
    #: Whether few samples bias the value, like a maximum or a sum of absolute values. Resampling adds the same bias
    #: again, and its interval is not one of the true value.
    biased: ClassVar[bool] = False

    def __init__(self, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self.collection: str | None = None  # the name of the collection that has taken this metric over
        self._filled_by: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {}
        for declared in self.declared:
            self.declare(*declared)

    def declare(
        self,
        name: str,
        shape: tuple[int, ...] = (),
        dtype: str = "int64",
        reduction: str = "sum",
        key: Any = None,
        statistic: Callable[..., Any] | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        """Declare a state; merge, reset, exchange and the identity element follow from it.

        Args:
            name: the keyword under which `formula` gets it.
            shape: its shape.
            dtype: ``"int64"`` (becomes float64 when floats, such as weighted counts, are added) or ``"float64"``.
            reduction: ``"sum"``, ``"max"`` or ``"min"``; or ``"moments"`` of shape ``[..., 4]`` and ``"comoments"`` of
                shape ``[..., 8]``, float64, see `fleetmetrics.numbers.moments`.
            key: identifies the counted quantity, so that metrics of a collection can share the state; None: the
                statistic and its settings; a state without a statistic is then never shared.
            statistic: the batch's increment, as a function of the `Batch` and the settings; None: see
                `batch_statistics`.
            settings: names of the metric's settings that the statistic takes.
        """
        if statistic is not None:
            values = [getattr(self, setting) for setting in settings]
            self._filled_by[name] = statistic, values
            key = (statistic.__module__, statistic.__qualname__, *values) if key is None else key
        shape = declared_shape(name, shape, dtype, reduction)
        raise_if_too_large(f"{self.name}: one of the settings", shape, f"the state {name!r}")
        self.states[name] = State(f"{self.name}.{name}", shape, dtype, reduction, key)

    def _check_is_free(self) -> None:
        if self.collection is not None:
            raise InvalidInputError(
                f"{self.name} belongs to {self.collection}, whose members share states; add to the collection"
            )

    def rename(self, name: str) -> Metric:
        """Rename the metric and its states; possible while it holds nothing.

        Args:
            name: the same on every worker.

        Returns:
            The metric.

        Raises:
            InvalidInputError: the metric holds samples or belongs to a collection or a static program, or the name is
                not a string.
        """
        self._check_is_free()
        if self.program is not None or self.holds_samples():
            raise InvalidInputError(f"{self.name} already holds samples; rename a metric before the first add")
        self._set_name(name)
        self.named_by_default = False
        from fleetmetrics.base.shared import Shared

        self.become_part(self.name, Shared())
        return self

    @property
    def cell_states(self) -> tuple[str, ...]:
        """For `Bootstrap`: the state in which each sample adds 1 to one entry, if there is no other.

        A second state may count all samples, if some are in no entry of the first.
        """
        return ()

    @property
    def quotient(self) -> Quotient | None:
        """The sums whose quotient is the value; None if the value is not a quotient, or not a single number."""
        return None

    @property
    def linear(self) -> Linear | None:
        """For `Interval`: the change of the value with sums over samples or groups; None if it has no such sums."""
        return None if self.quotient is None else self.quotient.linear

    @property
    def ranked(self) -> str:
        """For `Interval`: the histogram of classes 0 and 1 whose area under ``curve`` is the value; "": none."""
        return ""

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """See `Nestable.increments_of`; InvalidInputError if `batch_statistics` does not fill the declared states."""
        states, increments = self.states, []
        if type(self).batch_statistics is Metric.batch_statistics and 0 < len(self._filled_by) == len(states):
            for name, (function, settings) in self._filled_by.items():  # as in most metrics: nothing can be left out
                increment = function(batch, *settings)
                if increment is not None:
                    increments.append((states[name], increment))
            return increments
        by_name = self.batch_statistics(batch)
        if by_name.keys() != states.keys():
            self._raise_not_declared(by_name)
        return [(states[name], increment) for name, increment in by_name.items() if increment is not None]

    def _raise_not_declared(self, increments: Mapping[str, Any]) -> None:
        missing = [name for name in self.states if name not in increments]
        unknown = [name for name in increments if name not in self.states]
        what = f"leaves out {', '.join(missing)}" if missing else f"returns {', '.join(unknown)}, not declared"
        raise InvalidInputError(
            f"batch_statistics of {type(self).__name__} {what}; it must return an increment for each "
            f"declared state: {', '.join(self.states) or 'none'}"
        )

    def become_part(self, prefix: str, shared: fleetmetrics.base.shared.Shared) -> None:
        """See `Nestable.become_part`."""
        for name, state in self.states.items():
            own = state.fresh(f"{prefix}.{name}")
            self.states[name] = own if own.key is None else shared.first(own.kind, own)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        """Return a batch's increment of each state; written with ``batch.xp``, for all three modes.

        Define it if states are declared without a statistic.

        Args:
            batch: flat, checked, without masked samples.

        Returns:
            For each declared state an array of its shape, or `Scattered`; None if the batch adds nothing to it.
        """
        if not self._filled_by:
            raise NotImplementedError(f"{type(self).__name__} must define batch_statistics")
        return {name: function(batch, *settings) for name, (function, settings) in self._filled_by.items()}

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Plot the metric over the samples of all workers; every worker must call it, like ``compute``.

        Args:
            ax: matplotlib's axes; None: a new figure, 80 mm wide.
            **options: options of the plot, such as ``label``; see `fleetmetrics.plot`.

        Returns:
            The axes; ``axes.figure.savefig("roc.png")`` writes a file.

        Raises:
            InvalidInputError: the metric has no plot; the message names the metrics that have one.
            MissingLibraryError: matplotlib is not installed.
        """
        from fleetmetrics.plot import draw

        return draw(self, ax, **options)

    # -- arithmetic: a formula over the values

    __array_ufunc__ = None  # otherwise an array times a metric would be an array of objects

    __add__: ClassVar[_Operator]
    __radd__: ClassVar[_Operator]
    __add__, __radd__ = _both_ways("+")
    __sub__: ClassVar[_Operator]
    __rsub__: ClassVar[_Operator]
    __sub__, __rsub__ = _both_ways("-")
    __mul__: ClassVar[_Operator]
    __rmul__: ClassVar[_Operator]
    __mul__, __rmul__ = _both_ways("*")
    __truediv__: ClassVar[_Operator]
    __rtruediv__: ClassVar[_Operator]
    __truediv__, __rtruediv__ = _both_ways("/")
    __pow__: ClassVar[_Operator]
    __rpow__: ClassVar[_Operator]
    __pow__, __rpow__ = _both_ways("**")

    def __neg__(self) -> Metric[Any]:
        return _expression("-", self)

    def __abs__(self) -> Metric[Any]:
        return _expression("abs", self)


class Undefinable(Metric[Value]):
    """A metric that may be undefined, for example without samples; it takes the settings of every `Metric`.

    Args:
        zero_division: the value if the metric is undefined, without a warning; nan: nan, with `UndefinedMetricWarning`.
    """

    zero_division: float
    #: Its name in warnings: "mean_absolute_error".
    _title: ClassVar[str] = ""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._title = snake_case(cls.__name__)

    def __init__(self, *, zero_division: float = math.nan, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self.zero_division = zero_division_of(zero_division)

    def formula(self, *args: Any, **states: Any) -> Any:
        """The function of the `quotient` of the global states, given by name."""
        quotient = self.quotient
        if quotient is None:
            return super().formula(*args, **states)
        numerator, denominator = _weighted(quotient.numerator, states), _weighted(quotient.denominator, states)
        if denominator:
            if quotient.squared:
                warn_if_small(self._title, quotient.squared, denominator, 0.0, numerator)
            value = _divide(numerator, denominator, self._title)
            return value if quotient.value is float else quotient.value(value)
        return self._ratio(0, 0, quotient.reason if quotient.reason and states["total"] else NO_SAMPLES)

    def _ratio(self, numerator: Any, denominator: Any, reason: str = NO_SAMPLES) -> float:
        """The quotient of two numbers, or ``zero_division``, where the warning tells the ``reason``."""
        return _divide(numerator, denominator, self._title, self.zero_division, reason)


def _weighted(factors: Mapping[str, Any], states: Mapping[str, np.ndarray]) -> Any:
    """The sum of the states' entries times their factors; exact for a state that is one number."""
    if len(factors) == 1:
        [(name, factor)] = factors.items()
        if type(factor) is int and states[name].ndim == 0:  # as in most metrics
            number = states[name].item()
            return number if factor == 1 else 0 + factor * number  # never -0.0
    return 0 + sum(np.sum(states[name] * factor).item() for name, factor in factors.items())


def not_a_metric(what: str, value: Any) -> InvalidInputError:
    """The error about a value in place of a metric; ``what`` must be one."""
    keeps_records = hasattr(value, "compute_metric")
    advice = "; it keeps records, and stands alone: call its own add and compute" if keeps_records else ""
    return InvalidInputError(f"{what}, not {type(value).__name__}{advice}")


class WithoutColumns(Metric[Value]):
    """A metric whose ``add`` takes what it says here: type checkers find a misspelt argument before ``add`` does.

    `Metric` itself takes any column, since it stands for metrics that need one.
    """

    if TYPE_CHECKING:

        def add(  # type: ignore[override]  # noqa: D102  # it takes less than `Metric`
            self, prediction: Any = None, label: Any = None, weight: Any = None, mask: Any = None
        ) -> None: ...
