"""Metrics with states: accumulate batch by batch, exchange once, evaluate a formula.

``Metric`` is what a metric of the catalogue derives from. It says three things, and inherits the rest:

    class MeanAbsoluteError(Metric):
        requirements = ("finite_prediction", "finite_label")

        def __init__(self, name=None, *, validate=True, share=False):
            super().__init__(name, validate=validate, share=share)
            self.declare("absolute_error", key="absolute_error")       # its states
            self.declare("total", key="total")

        def batch_statistics(self, batch):                             # what a batch adds to them
            return {"absolute_error": absolute_error(batch), "total": batch.total}

        def formula(self, absolute_error, total):                      # global states in, number out
            return mean_absolute_error(absolute_error, total)
"""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping

import numpy as np

from fleetmetrics.accumulator import Accumulator, kind_of, label_taken
from fleetmetrics.arguments import raise_if_too_large
from fleetmetrics.batch import Batch
from fleetmetrics.batch.rules import Check, Requirement
from fleetmetrics.comm import Communicator
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.ratio import undefined
from fleetmetrics.state import State

if TYPE_CHECKING:
    from fleetmetrics.record_metric import RecordMetric

__all__ = ["Expression", "Metric"]


class Metric(Accumulator):
    """A metric with states; the catalogue derives from it, and so can yours.

    Args:
        name: prefix of the states' names; see `Accumulator`.
        validate: False skips the check of the inputs.
        share: in a static program, share the variables of an earlier metric of this name.
    """

    #: Keys of `fleetmetrics.batch.rules.REQUIREMENTS` that every sample must meet, or requirements of its own.
    requirements: tuple[str | Requirement, ...] = ()
    #: Names of the further arguments that `add` takes, one value per sample.
    columns: tuple[str, ...] = ()

    def __init__(self, name: str | None = None, *, validate: bool = True, share: bool = False) -> None:
        super().__init__(name, validate=validate, share=share)
        self.states: dict[str, State] = {}
        self.collection: str | None = None  # the name of the collection that has taken this metric over

    def declare(
        self, name: str, shape: tuple[int, ...] = (), dtype: str = "int64", reduction: str = "sum", key: Any = None
    ) -> None:
        """Declare a state; merge, reset, exchange and the identity element follow from it.

        Args:
            name: keyword under which `formula` gets it.
            shape: its shape.
            dtype: ``"int64"`` (becomes float64 when floats, such as weighted counts, are added) or ``"float64"``.
            reduction: ``"sum"``, ``"max"`` or ``"min"``; or ``"moments"`` of shape ``[..., 3]`` and ``"comoments"`` of
                shape ``[..., 6]``, float64, see `fleetmetrics.numbers`.
            key: what it counts, if metrics of one collection may share it; None: never shared.
        """
        raise_if_too_large(f"{self.name}: one of the settings", shape, f"the state {name!r}")
        self.states[name] = State(f"{self.name}.{name}", shape, dtype, reduction, key)

    def _members(self) -> Mapping[str, Metric]:
        return {self.name: self}

    def _check_is_free(self) -> None:
        if self.collection is not None:
            raise InvalidInputError(
                f"{self.name} belongs to {self.collection}, whose members share states; add to the collection"
            )

    def rename(self, name: str) -> Metric:
        """Give the metric, and its states, another name; possible while it holds nothing.

        Args:
            name: the same on every worker.

        Returns:
            The metric.

        Raises:
            InvalidInputError: if it holds samples, belongs to a collection or a static program, or the name is none.
        """
        self._check_is_free()
        if self.program is not None or self.holds_samples():
            raise InvalidInputError(f"{self.name} holds samples already; rename a metric before the first add")
        self._set_name(name)
        self.adopt(self.name, {})
        return self

    def fresh(self, name: str | None = None) -> Metric:
        """A metric of the same settings that holds nothing.

        Args:
            name: of the new metric; None: made up, in the order of creation.
        """
        copy_ = copy.copy(self)
        Accumulator.__init__(copy_, name, validate=self.validate, share=self.share)
        copy_.collection = None
        copy_.states = {}
        for key, state in self.states.items():
            copy_.declare(key, state.shape, state.declared_dtype, state.reduction, state.key)
        return copy_

    # -- what an accumulator asks of its members; metrics that are made of others answer for them ------------

    def own_states(self) -> Iterable[State]:
        """The states, in the order of their declaration."""
        return self.states.values()

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """What a batch adds to each state."""
        return [(self.states[name], increment) for name, increment in self.batch_statistics(batch).items()]

    def record_metrics(self) -> Iterable[RecordMetric]:
        """Those that keep something of every sample."""
        return ()

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """The value, from the global states and what was made of all records."""
        return self.formula(**{name: values[state] for name, state in self.states.items()})

    def adopt(self, prefix: str, shared: dict[Any, Any]) -> None:
        """Become part of a collection: take its names, and share the states that are there already.

        Args:
            prefix: what the states' names begin with.
            shared: states and tables by what they count.
        """
        for name, state in self.states.items():
            state.name = f"{prefix}.{name}"
            if state.key is not None:
                self.states[name] = shared.setdefault(kind_of(state), state)

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        """The requirements for this batch, where they depend on its shapes."""
        return self.requirements

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        """What a batch adds to each state; written with ``batch.xp``, for all three modes.

        Args:
            batch: flat, checked, without masked samples.

        Returns:
            For each declared state an array of its shape, or `Scattered`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define batch_statistics")

    def formula(self, **states: np.ndarray) -> Any:
        """The value, from the global states; pure NumPy."""
        raise NotImplementedError(f"{type(self).__name__} must define formula")

    def compute(
        self,
        scope: Any = None,
        *,
        util: Any = None,
        communicator: Communicator | None = None,
        timeout: float | None = None,
    ) -> Any:
        """The value over the samples of all workers: the same number on every worker.

        Every worker must call it; nothing that was accumulated changes.

        Args:
            scope: where a static program's variables live; None: the global scope.
            util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: fleetmetrics' channel.
            communicator: None: the one that was set or is chosen automatically.
            timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800.

        Returns:
            A float (an int for sums and extremes of integers).

        Raises:
            FleetMetricsError: the same error on every worker, by the deadline.
        """
        return self._compute(scope, util, communicator, timeout)[self.name]

    def compute_local(self, scope: Any = None) -> Any:
        """The value over this worker's samples only; no communication.

        Args:
            scope: where a static program's variables live; None: the global scope.
        """
        return self._compute_local(scope)[self.name]

    # -- arithmetic: a formula that waits for the values -----------------------------------------------------

    __array_ufunc__ = None  # or an array times a metric would be an array of objects

    def __add__(self, other: Any) -> Expression:
        return Expression("+", operator.add, self, other)

    def __radd__(self, other: Any) -> Expression:
        return Expression("+", operator.add, other, self)

    def __sub__(self, other: Any) -> Expression:
        return Expression("-", operator.sub, self, other)

    def __rsub__(self, other: Any) -> Expression:
        return Expression("-", operator.sub, other, self)

    def __mul__(self, other: Any) -> Expression:
        return Expression("*", operator.mul, self, other)

    def __rmul__(self, other: Any) -> Expression:
        return Expression("*", operator.mul, other, self)

    def __truediv__(self, other: Any) -> Expression:
        return Expression("/", _quotient, self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return Expression("/", _quotient, other, self)

    def __pow__(self, other: Any) -> Expression:
        return Expression("**", _power, self, other)

    def __rpow__(self, other: Any) -> Expression:
        return Expression("**", _power, other, self)

    def __neg__(self) -> Expression:
        return Expression("-", operator.neg, self)

    def __abs__(self) -> Expression:
        return Expression("abs", operator.abs, self)


class Expression(Metric):
    """What arithmetic on metrics makes: a metric whose value is computed from theirs.

    ``2 * p * r / (p + r)`` is an expression; it stands on the states of ``p`` and ``r``, and one exchange brings
    all of them. ``add`` to the expression adds to its metrics: add to it or to them, not to both. In a
    `MetricCollection` an expression may stand beside its metrics, and they share states as others do.

    Formula: ``function(values of the operands)``, in float64. A quotient by 0, and a power that is no finite number,
    are undefined: nan with `UndefinedMetricWarning`.

    Args:
        symbol: how it is written.
        function: of the operands' values.
        *operands: metrics whose values are numbers or arrays; or numbers.

    Raises:
        InvalidInputError: if an operand is something else.

    Examples:
        >>> from fleetmetrics import MeanAbsoluteError, MeanSquaredError
        >>> spread = MeanSquaredError() - MeanAbsoluteError() ** 2
        >>> spread.add([1.0, 3.0], [0.0, 0.0])
        >>> spread.compute()
        1.0
    """

    def __init__(self, symbol: str, function: Callable[..., Any], *operands: Any) -> None:
        for operand in operands:
            number = isinstance(operand, (int, float, np.number)) and not isinstance(operand, bool)
            if not number and not isinstance(operand, Metric):
                raise InvalidInputError(f"{symbol} takes metrics and numbers, not {type(operand).__name__} {operand!r}")
        self.symbol, self.function, self.operands = symbol, function, operands
        self._metrics = [operand for operand in operands if isinstance(operand, Metric)]
        self.takes_label = label_taken(self._metrics)
        super().__init__()
        self.requirements = tuple(dict.fromkeys(rule for each in self._metrics for rule in each.requirements))
        self.columns = tuple(dict.fromkeys(name for each in self._metrics for name in each.columns))

    def __str__(self) -> str:
        texts = [
            str(each) if isinstance(each, Expression) else getattr(each, "name", repr(each)) for each in self.operands
        ]
        return f"{self.symbol}({texts[0]})" if len(texts) == 1 else f"({f' {self.symbol} '.join(texts)})"

    # Its operands answer for it.

    def own_states(self) -> Iterable[State]:  # noqa: D102
        return list(dict.fromkeys(state for each in self._metrics for state in each.own_states()))

    def checks(self) -> list[Check]:  # noqa: D102
        return list(dict.fromkeys([*super().checks(), *[check for each in self._metrics for check in each.checks()]]))

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:  # noqa: D102
        return tuple(dict.fromkeys(rule for each in self._metrics for rule in each.requirements_of(batch)))

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:  # noqa: D102
        return [pair for each in self._metrics for pair in each.statistics(batch)]

    def record_metrics(self) -> Iterable[RecordMetric]:  # noqa: D102
        return list(dict.fromkeys(metric for each in self._metrics for metric in each.record_metrics()))

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:  # noqa: D102
        operands = []
        for each in self.operands:
            value = each.evaluate(values, carries) if isinstance(each, Metric) else each
            if isinstance(value, (dict, tuple)):
                raise InvalidInputError(
                    f"{self}: the value of {each.name} is a {type(value).__name__}; arithmetic takes numbers and arrays"
                )
            operands.append(value)
        return self.function(*operands)

    def adopt(self, prefix: str, shared: dict[Any, Any]) -> None:  # noqa: D102
        for place, each in enumerate(self.operands):
            if isinstance(each, Metric) and each.collection is None:
                each.collection = self.collection
                each.adopt(f"{prefix}.{place}", shared)

    def fresh(self, name: str | None = None) -> Metric:  # noqa: D102
        made = {each: each.fresh() for each in self._metrics}
        new = Expression(self.symbol, self.function, *[made.get(each, each) for each in self.operands])
        new.validate = self.validate
        return new if name is None else new.rename(name)


def _quotient(one: Any, other: Any) -> Any:
    if np.ndim(one) == np.ndim(other) == 0:
        return one / other if other else undefined("a quotient of metrics", "the divisor is 0")
    below = np.asarray(other)
    if (below == 0).any():
        undefined("a quotient of metrics", f"{np.count_nonzero(below == 0)} of {below.size} divisors are 0")
    return np.where(below == 0, np.nan, one / np.where(below == 0, 1, below))


def _power(one: Any, other: Any) -> Any:
    base, exponent = np.asarray(one, np.float64), np.asarray(other, np.float64)
    with np.errstate(all="ignore"):
        value = np.power(base, exponent)
    none = ~np.isfinite(value) & ~np.isnan(base) & ~np.isnan(exponent)
    if none.any():
        undefined("a power of metrics", f"{np.count_nonzero(none)} of {none.size} are no finite number")
        value = np.where(none, np.nan, value)
    return value if value.ndim else value.item()
