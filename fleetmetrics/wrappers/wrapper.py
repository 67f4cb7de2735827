"""The base of the wrappers: a metric built on another metric's states."""

from __future__ import annotations

from typing import Any, ClassVar, Iterable

from fleetmetrics.base.accumulator import Accumulator, Value
from fleetmetrics.base.metric import Common, Metric, not_a_metric
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.batch.one_hot import Meaning
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.folding import Folding
from fleetmetrics.state.state import State
from fleetmetrics.support.typed import Unpack

__all__ = ["Wrapper", "names_of"]


class Wrapper(Metric[Value]):
    """A metric around another metric, with its settings.

    Args:
        metric: without samples; left unchanged.
        **common: those of `Metric`; all but ``name`` are those of the metric unless given.

    Raises:
        InvalidInputError: ``metric`` is not a metric, holds samples, or cannot be wrapped in this one.
    """

    arguments: tuple[str, ...]
    class_axis: int | None
    columns: tuple[str, ...]
    nullable: tuple[str, ...]
    requirements: tuple[str | Requirement, ...]
    samples: str
    states: dict[str, State]
    takes_label: bool | None

    #: The wrappers that this one cannot wrap, each with the alternative.
    refused: ClassVar[dict[str, str]] = {}

    def __init__(self, metric: Metric, **common: Unpack[Common]) -> None:
        kind = type(self).__name__
        if not isinstance(metric, Metric):
            raise not_a_metric("metric must be a Metric", metric)
        if metric.program is not None or metric.holds_samples():
            raise InvalidInputError(f"{metric.name} already holds samples; {kind} takes new metrics")
        for inner in _all_inside(metric):
            reason = self.refused.get(type(inner).__name__) or inner.unwrappable
            if reason:
                raise InvalidInputError(f"{kind} cannot wrap this {type(inner).__name__}: {reason}")
        own: Common = {"validate": metric.validate, "share": metric.share, "sampler": metric.sampler}
        own["size"] = metric.expected_samples
        own.update(common)
        super().__init__(**own)
        self.metric: Metric = metric.fresh(metric.name)
        self.metric.sampler = None  # the wrapper has it
        self._replace(metric, self.metric)
        self.requirements = metric.requirements
        self.takes_label = metric.takes_label
        self.arguments = metric.arguments
        self.columns = metric.columns
        self.nullable = metric.nullable
        self.class_axis = metric.class_axis
        self.samples = metric.samples
        self.metric.become_part(metric.name, Shared())  # operands share equal counts, which `_fit` uses
        self._fit()
        self.become_part(self.name, Shared())

    @property
    def one_hot(self) -> Meaning:
        """See `Nestable.one_hot`; its own columns do not change it."""
        return self.metric.one_hot

    def _fit(self) -> None:
        """Check that the metric fits, and return the additional arguments of `add`; InvalidInputError if not."""
        raise NotImplementedError

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        """Adopt the metric, as `become_part` does, and return the states of both."""
        raise NotImplementedError

    def become_part(self, prefix: str, shared: Shared) -> None:
        self.metric.collection = self.collection
        self.states = {state.name: state for state in self._joined_states(prefix, shared)}

    def add(self, *args: Any, **named: Any) -> None:
        """Accumulate one batch; see `Metric.add`.

        Args:
            *args: those of the metric's own ``add``, in its order.
            **named: those of the metric's own ``add``, and any columns of this one, by name.

        Raises:
            InvalidInputError, StaticProgramError: as for `Metric.add`.
        """
        order = self.arguments
        positional = dict(zip(order, args))
        if len(args) > len(order) or positional.keys() & named.keys():
            twice = "".join(f"; {name} is given twice" for name in positional if name in named)
            raise InvalidInputError(
                f"{self.name}: add takes {', '.join(order)} by position, but {len(args)} were given{twice}"
            )
        named.update(positional)
        if order[0] in named:
            named["prediction"] = named.pop(order[0])
        super().add(**named)

    def kind_name(self) -> str:
        return f"{type(self).__name__}({self.metric.kind_name()})"

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "metric": self.metric}

    def _keeps_samples(self, metric: Folding, instead: str) -> InvalidInputError:
        """The error for a metric that keeps every sample; ``instead`` is the alternative for the caller."""
        return InvalidInputError(
            f"{type(self).__name__} takes metrics whose states are sums, and {metric.name} ({type(metric).__name__}) "
            f"keeps every sample; {instead}"
        )

    def _refuse_growing(self, instead: str) -> None:
        """Raise if a state of the metric grows; ``instead`` is the alternative for the caller."""
        if any(state.grows for state in self.metric.own_states()):
            raise InvalidInputError(f"{type(self).__name__} takes metrics whose states have a fixed size; {instead}")

    def _part_name(self, part: Accumulator, name: str | None) -> str | None:
        return part.name

    def fed_metrics(self) -> Iterable[Accumulator]:
        return (self.metric,)

    def record_metrics(self) -> Iterable[Folding]:
        """The metric's own."""
        return self.metric.record_metrics()

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        """The metric's own."""
        return self.metric.requirements_of(batch)


def names_of(prefix: str, states: Iterable[State], suffix: str) -> list[str]:
    """Unique names for a wrapper's states from those that they replace."""
    names: list[str] = []
    for state in states:
        stem = f"{prefix}.{state.name.rpartition('.')[2]}{suffix}"
        again = sum(name.rstrip("0123456789") == stem for name in names)
        names.append(f"{stem}{again + 1}" if again else stem)
    return names


def _all_inside(metric: Metric) -> Iterable[Metric]:
    """A metric and all metrics inside it."""
    yield metric
    parts = [metric.metric] if isinstance(metric, Wrapper) else getattr(metric, "operands", ())
    for part in parts:
        if isinstance(part, Metric):
            yield from _all_inside(part)
