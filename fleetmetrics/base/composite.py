"""Collections and expressions: objects that consist of several metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Sequence

import fleetmetrics
from fleetmetrics.base.accumulator import Accumulator, Value
from fleetmetrics.base.nesting import Nestable
from fleetmetrics.batch import Batch
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.state.state import State

if TYPE_CHECKING:
    import fleetmetrics.records.folding

__all__ = ["Composite", "about", "axis_taken", "label_taken", "samples_taken", "statistics_of"]


class Composite(Accumulator[Value]):
    """An object of several metrics, which delegates to them."""

    def leaf_metrics(self) -> Sequence[Nestable]:
        """The metrics inside it, each once."""
        return list(dict.fromkeys(leaf for part in self.parts() for leaf in part.leaf_metrics()))

    def parts(self) -> Iterable[Nestable]:
        """The metrics of which it consists."""
        raise NotImplementedError

    def name_in_errors(self, of: Any = None) -> str:
        """See `Nestable.name_in_errors`."""
        return super().name_in_errors() if of is None else of.name_in_errors()

    def fed_metrics(self) -> Iterable[Nestable]:
        """The metrics of which it consists, and those to which they pass its batches."""
        for part in self.parts():
            yield part
            yield from part.fed_metrics()

    def own_states(self) -> Iterable[State]:
        """Those of the metrics, each once."""
        return dict.fromkeys(state for leaf in self.leaf_metrics() for state in leaf.own_states())

    def record_metrics(self) -> Iterable[fleetmetrics.records.folding.Folding]:
        """Those of the metrics, each once."""
        return dict.fromkeys(metric for leaf in self.leaf_metrics() for metric in leaf.record_metrics())

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        """Those of the metrics, each once."""
        rules: dict[str | Requirement, None] = {}
        for leaf in self.leaf_metrics():
            try:
                rules.update(dict.fromkeys(leaf.requirements_of(batch)))
            except InvalidInputError as error:
                raise about(error, leaf) from None
        return tuple(rules)

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """The increment of each state and table from a batch; see `statistics_of`."""
        return statistics_of(self.leaf_metrics(), batch)


def statistics_of(leaves: Iterable[Nestable], batch: Batch) -> Iterable[tuple[Any, Any]]:
    """The increment of each state and table of several metrics from a batch.

    Raises:
        InvalidInputError: two metrics share a state or table, and fill it differently.
    """
    filled: dict[Any, tuple[Any, Nestable]] = {}
    for leaf in leaves:
        try:
            increments = dict(leaf.increments_of(batch))
        except InvalidInputError as error:
            raise about(error, leaf) from None
        for target in leaf.own_states():
            increments.setdefault(target, None)
        for target, increment in increments.items():
            before, by = filled.setdefault(target, (increment, leaf))
            if before is not increment and not _identical(before, increment):
                raise InvalidInputError(
                    f"{by.name} ({type(by).__name__}) and {leaf.name} ({type(leaf).__name__}) share "
                    f"{target.name!r}, which both declare under the key {target.key!r}, but fill it with "
                    "different statistics; give one of them a different key, or compute both with one function "
                    "of the batch that is decorated with fleetmetrics.batch.statistic"
                )
    return [(target, increment) for target, (increment, _) in filled.items() if increment is not None]


def about(error: InvalidInputError, metric: Nestable) -> InvalidInputError:
    """The error, with the name of its metric."""
    error.about = metric
    return error


def axis_taken(metrics: Iterable[Nestable]) -> int | None:
    """The `Nestable.class_axis` of an object that adds the same scores to several others.

    Raises:
        InvalidInputError: the objects have the classes on different axes.
    """
    by_axis = {metric.class_axis: metric for metric in metrics if metric.class_axis is not None}
    if len(by_axis) > 1:
        axes = ", ".join(f"{metric.name} has class_axis={axis}" for axis, metric in by_axis.items())
        raise InvalidInputError(f"all metrics get the same scores, but {axes}; give each the same class_axis")
    return next(iter(by_axis), None)


def samples_taken(metrics: Iterable[Nestable]) -> str:
    """The `Nestable.samples` of an object that adds the same samples to several others.

    Raises:
        InvalidInputError: they take different samples.
    """
    by_kind = {metric.samples: metric for metric in metrics if metric.samples != "any"}
    if len(by_kind) > 1:
        takes = ", ".join(f"{metric.name} takes {samples}" for samples, metric in by_kind.items())
        raise InvalidInputError(f"all metrics get the same samples, but {takes}; put them into separate collections")
    return next(iter(by_kind), "any")


def label_taken(metrics: Iterable[Nestable]) -> bool | None:
    """The `Nestable.takes_label` of an object that adds to several others.

    Args:
        metrics: those others.
    """
    takes = {metric.takes_label for metric in metrics}
    if True in takes or not takes:
        return True
    return False if False in takes else None


def _identical(one: Any, other: Any) -> bool:
    """Whether two increments hold the same array objects."""
    if one is not other and type(one) is type(other) and isinstance(one, (tuple, dict)) and len(one) == len(other):
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(_identical(one[key], other[key]) for key in one)
        return all(map(_identical, one, other))
    return one is other
