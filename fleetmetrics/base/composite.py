"""Collections and expressions: objects that consist of several metrics."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from fleetmetrics.base.accumulator import Accumulator, Value
from fleetmetrics.batch import Batch
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.folding import Folding
from fleetmetrics.state.state import State

__all__ = ["Composite", "about", "axis_taken", "label_taken", "statistics_of"]


class Composite(Accumulator[Value]):
    """An object of several metrics, which delegates to them."""

    def _leaves(self) -> Sequence[Accumulator]:
        """The metrics inside it, each once."""
        return list(dict.fromkeys(leaf for part in self.parts() for leaf in part._leaves()))

    def parts(self) -> Iterable[Accumulator]:
        """The metrics that it was given."""
        raise NotImplementedError

    def _called(self, of: Any = None) -> str:
        return super()._called() if of is None else of._called()

    def _added_through(self) -> Iterable[Accumulator]:
        for part in self.parts():
            yield part
            yield from part._added_through()

    def _own_states(self) -> Iterable[State]:
        """Those of the metrics, each once."""
        return dict.fromkeys(state for leaf in self._leaves() for state in leaf._own_states())

    def _record_metrics(self) -> Iterable[Folding]:
        """Those of the metrics, each once."""
        return dict.fromkeys(metric for leaf in self._leaves() for metric in leaf._record_metrics())

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        """Those of the metrics, each once."""
        rules: dict[str | Requirement, None] = {}
        for leaf in self._leaves():
            try:
                rules.update(dict.fromkeys(leaf.requirements_of(batch)))
            except InvalidInputError as error:
                raise about(error, leaf) from None
        return tuple(rules)

    def _statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """The increment of each state and table from a batch; see `statistics_of`."""
        return statistics_of(self._leaves(), batch)


def statistics_of(leaves: Iterable[Accumulator], batch: Batch) -> Iterable[tuple[Any, Any]]:
    """The increment of each state and table of several metrics from a batch.

    Raises:
        InvalidInputError: two metrics share a state or table, and fill it differently.
    """
    found: dict[Any, tuple[Any, Accumulator]] = {}
    for leaf in leaves:
        try:
            increments = dict(leaf._statistics(batch))
        except InvalidInputError as error:
            raise about(error, leaf) from None
        for target in {**dict.fromkeys(leaf._own_states()), **increments}:
            increment = increments.get(target)
            before, by = found.setdefault(target, (increment, leaf))
            if before is not increment and not _identical(before, increment):
                raise InvalidInputError(
                    f"{by.name} ({type(by).__name__}) and {leaf.name} ({type(leaf).__name__}) share "
                    f"{target.name!r}, which both declare under the key {target.key!r}, but fill it with "
                    "different statistics; give one of them a different key, or compute both with one function "
                    "of the batch that is decorated with fleetmetrics.batch.statistic"
                )
    return [(target, increment) for target, (increment, _) in found.items() if increment is not None]


def about(error: InvalidInputError, metric: Accumulator) -> InvalidInputError:
    """The error, with the name of its metric."""
    error.about = metric
    return error


def axis_taken(by: Iterable[Accumulator]) -> int | None:
    """The `Accumulator.class_axis` of an object that adds the same scores to several others.

    Raises:
        InvalidInputError: the objects have the classes on different axes.
    """
    said = {each.class_axis: each for each in by if each.class_axis is not None}
    if len(said) > 1:
        told = ", ".join(f"{each.name} has class_axis={axis}" for axis, each in said.items())
        raise InvalidInputError(f"all metrics get the same scores, but {told}; give each the same class_axis")
    return next(iter(said), None)


def label_taken(by: Iterable[Accumulator]) -> bool | None:
    """The `Accumulator.takes_label` of an object that adds to several others.

    Args:
        by: those others.
    """
    asked = {each.takes_label for each in by}
    return True if True in asked or not asked else False if False in asked else None


def _identical(one: Any, other: Any) -> bool:
    """Whether two increments hold the same array objects."""
    if one is not other and type(one) is type(other) and isinstance(one, (tuple, dict)) and len(one) == len(other):
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(_identical(one[key], other[key]) for key in one)
        return all(map(_identical, one, other))
    return one is other
