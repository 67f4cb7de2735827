"""Arithmetic on metrics: a formula over their values."""

from __future__ import annotations

import operator
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from fleetmetrics.base.accumulator import Accumulator
from fleetmetrics.base.composite import Composite, axis_taken, label_taken, samples_taken
from fleetmetrics.base.metric import Metric
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch.rules import Check, Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.state.state import State
from fleetmetrics.support.vocabulary import agreeing, with_article

__all__ = ["Expression", "expression"]


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
        number = int(np.count_nonzero(none))
        undefined("a power of metrics", f"{number} of {none.size} {agreeing(number, 'are')} not finite")
        value = np.where(none, np.nan, value)
    return value if value.ndim else value.item()


#: The operation on the values of the operands, by its symbol and their number.
_OPERATIONS: dict[tuple[str, int], Callable[..., Any]] = {
    ("+", 2): operator.add,
    ("-", 2): operator.sub,
    ("*", 2): operator.mul,
    ("/", 2): _quotient,
    ("**", 2): _power,
    ("-", 1): operator.neg,
    ("abs", 1): operator.abs,
}


def expression(symbol: str, *operands: Any) -> Expression:
    """The expression of an operator of Python, such as ``+``."""
    return Expression(symbol, _OPERATIONS[symbol, len(operands)], *operands)


class Expression(Composite[Any], Metric[Any]):
    """The result of arithmetic on metrics: a metric whose value is computed from theirs.

    ``2 * p * r / (p + r)`` is an expression; it uses the states of ``p`` and ``r``, and exchanges all of them at once.
    Adding to the expression adds to its metrics: add to the expression or to them, not to both. In a `MetricCollection`
    an expression may be a member like any metric, and shares states with the others.

    Formula: ``function(values of the operands)``, in float64. A quotient by 0, and a power that is not finite,
    are undefined: nan with `UndefinedMetricWarning`.

    Args:
        symbol: the operation's symbol.
        function: the operation on the operands' values.
        *operands: metrics whose values are numbers or arrays; or numbers.

    Raises:
        InvalidInputError: an operand is something else.

    Examples:
        >>> from fleetmetrics import MeanAbsoluteError, MeanSquaredError
        >>> spread = MeanSquaredError() - MeanAbsoluteError() ** 2
        >>> spread.add([1.0, 3.0], [0.0, 0.0])
        >>> spread.compute()
        1.0
    """

    requirements: tuple[str | Requirement, ...]

    class_axis: int | None
    columns: tuple[str, ...]
    operands: tuple[Any, ...]
    samples: str
    symbol: str
    takes_label: bool | None

    def __init__(self, symbol: str, function: Callable[..., Any], *operands: Any) -> None:
        for operand in operands:
            number = isinstance(operand, (int, float, np.number)) and not isinstance(operand, bool)
            if not number and not isinstance(operand, Metric):
                raise InvalidInputError(f"{symbol} takes metrics and numbers, not {type(operand).__name__} {operand!r}")
            if not number and operand.sampler is not None:
                raise InvalidInputError(
                    f"{symbol} takes metrics without a sampler, but {operand.name} has one; create them without one, "
                    "and set expression.sampler = sampler, or give the sampler to a MetricCollection"
                )
            if not number and operand.expected_samples is not None:
                raise InvalidInputError(
                    f"{symbol} takes metrics without a size, but {operand.name} has one; create them without one, and "
                    "give the size to a collection: MetricCollection({...: expression}, size=size)"
                )
        self.function: Callable[..., Any]
        self.symbol, self.function, self.operands = symbol, function, operands
        self._metrics = [operand for operand in operands if isinstance(operand, Metric)]
        self.takes_label = label_taken(self._metrics)
        self.class_axis = axis_taken(self._metrics)
        self.samples = samples_taken(self._metrics)
        super().__init__()
        self.requirements = tuple(dict.fromkeys(rule for metric in self._metrics for rule in metric.requirements))
        self.columns = tuple(dict.fromkeys(name for metric in self._metrics for name in metric.columns))

    def __str__(self) -> str:
        texts = [
            str(operand) if isinstance(operand, Expression) else getattr(operand, "name", repr(operand))
            for operand in self.operands
        ]
        return f"{self.symbol}({texts[0]})" if len(texts) == 1 else f"({f' {self.symbol} '.join(texts)})"

    def __repr__(self) -> str:
        texts = [repr(operand) for operand in self.operands]
        return f"{self.symbol}({texts[0]})" if len(texts) == 1 else f"({f' {self.symbol} '.join(texts)})"

    def parts(self) -> Iterable[Metric]:
        """The operands that are metrics."""
        return self._metrics

    def batch_checks(self) -> list[Check]:  # noqa: D102
        return list(
            dict.fromkeys(
                [*super().batch_checks(), *[check for metric in self._metrics for check in metric.batch_checks()]]
            )
        )

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:  # noqa: D102
        values_of_operands = []
        for operand in self.operands:
            value = operand.value_from_states(values, carries) if isinstance(operand, Metric) else operand
            if isinstance(value, (dict, tuple)):
                raise InvalidInputError(
                    f"{self}: the value of {operand.name} is {with_article(type(value).__name__)}; "
                    "arithmetic takes numbers and arrays"
                )
            values_of_operands.append(value)
        with np.errstate(over="ignore"):
            result = self.function(*values_of_operands)
        if np.isinf(result).any() and not any(np.isinf(value).any() for value in values_of_operands):
            return undefined(f"{self}", "the result is beyond float64, whose largest number is 1.8e308")
        return result.item() if isinstance(result, np.generic) else result

    def become_part(self, prefix: str, shared: Shared) -> None:  # noqa: D102
        for number, operand in enumerate(self.operands):
            if isinstance(operand, Metric) and operand.collection is None:
                operand.collection = self.collection
                operand.become_part(f"{prefix}.{number}", shared)

    def call_with_name(self) -> str:  # noqa: D102
        return f'MetricCollection({{"value": {self}}})'

    def _part_name(self, part: Accumulator, name: str | None) -> str | None:
        return None if name is None else f"{name}.{self.operands.index(part)}"
