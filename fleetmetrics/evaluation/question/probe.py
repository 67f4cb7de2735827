"""The shape of a result: it holds metrics first, and then their values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, Mapping, TypeVar

from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.evaluation.question.tasks import OfRows, OfTasks

__all__ = ["Probe", "Slices"]

T = TypeVar("T")


@dataclass
class Slices(Generic[T]):
    """The metrics of the slices of one column; each computes a dict by slice.

    Args:
        rows: the number of rows.
        values: the requested metrics.
        sizes: the numbers of positives, users or queries.
        evidence: the evidence for the test of the first metric.
        compared: the states for its difference from a baseline.
    """

    rows: T
    values: dict[str, T]
    sizes: dict[str, T]
    evidence: T | None = None
    compared: T | None = None


@dataclass
class Probe(Generic[T]):
    """The metrics of all rows of one side.

    Args:
        rows: the number of rows that count.
        values: the requested metrics.
        intervals: the metrics with an interval.
        sizes: the numbers of positives, users or queries.
        slices: by requested column, in this order.
        evidence: the evidence of all rows for the test of slices.
        at_k: metrics of ranked answers, at several places.
        errors: the errors of predictions, by size.
        actual: the mean label, by prediction.
        joined: a fingerprint of the ids with their labels.
        tasks: of several tasks, the metrics of each; ``rows`` are then those of any task, and nothing else is here.
    """

    rows: T
    values: dict[str, T]
    intervals: dict[str, T] = field(default_factory=dict)
    sizes: dict[str, T] = field(default_factory=dict)
    slices: list[Slices[T]] = field(default_factory=list)
    evidence: T | None = None
    at_k: dict[str, T] = field(default_factory=dict)
    errors: T | None = None
    actual: T | None = None
    joined: T | None = None
    tasks: list[Probe[T]] = field(default_factory=list)

    def collection(self) -> MetricCollection:
        """The metrics as one collection that takes rows; its keys are the paths to them."""
        metrics: dict[str, Any] = {}
        _rebuilt(self, metrics.setdefault)
        return (OfTasks if self.tasks else OfRows)(metrics, name="metrics")

    def of(self, entries: Mapping[str, Any]) -> Probe[Any]:
        """The same shape with the entries of `collection`, or with its values."""
        rebuilt: Probe[Any] = _rebuilt(self, lambda path, _: entries[path])
        return rebuilt


def _rebuilt(shape: Any, fill: Callable[[str, Any], Any], path: str = "") -> Any:
    """A shape with each leaf replaced by ``fill(path, leaf)``."""
    start = f"{path} " if path else ""
    if isinstance(shape, (Probe, Slices)):
        parts = {part.name: getattr(shape, part.name) for part in dataclasses.fields(shape)}
        return dataclasses.replace(shape, **_rebuilt(parts, fill, path))
    if isinstance(shape, dict):
        return {key: _rebuilt(part, fill, f"{start}{key}") for key, part in shape.items()}
    if isinstance(shape, list):
        return [_rebuilt(part, fill, f"{start}{place}") for place, part in enumerate(shape)]
    return None if shape is None else fill(path, shape)
