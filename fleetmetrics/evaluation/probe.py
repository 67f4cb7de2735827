"""What a result is made of: the same shape holds metrics first, and then what they have computed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, Mapping, TypeVar

from fleetmetrics.collection import MetricCollection

__all__ = ["Probe", "Slices"]

T = TypeVar("T")


@dataclass
class Slices(Generic[T]):
    """Of the slices of one column; each computes a dict by slice.

    Args:
        rows: how many there are.
        values: of the metrics that were asked for.
        sizes: how many positives, users or queries.
        evidence: what the test of the first metric is made of.
        compared: what its difference from a baseline is made of.
    """

    rows: T
    values: dict[str, T]
    sizes: dict[str, T]
    evidence: T | None = None
    compared: T | None = None


@dataclass
class Probe(Generic[T]):
    """Of all rows of one side.

    Args:
        rows: how many count.
        values: of the metrics that were asked for.
        intervals: of those that have one.
        sizes: how many positives, users or queries.
        slices: by each column that was asked for, in this order.
        evidence: what the test of slices needs of all rows.
        at_k: metrics of ranked answers, at several places.
        errors: of predictions, by size.
        actual: what was true on average, by prediction.
        joined: which ids there are, with which labels.
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

    def collection(self) -> MetricCollection:
        """The metrics, as one that takes rows; its keys are the paths to them."""
        found: dict[str, Any] = {}
        _rebuilt(self, found.setdefault)
        return MetricCollection(found, name="metrics")

    def of(self, entries: Mapping[str, Any]) -> Probe[Any]:
        """The same shape with the entries of `collection`, or the values that it has computed."""
        rebuilt: Probe[Any] = _rebuilt(self, lambda path, _: entries[path])
        return rebuilt


def _rebuilt(shape: Any, fill: Callable[[str, Any], Any], path: str = "") -> Any:
    """A shape with its leaves replaced, each by what ``fill`` makes of its path and itself."""
    start = f"{path} " if path else ""
    if isinstance(shape, (Probe, Slices)):
        parts = {each.name: getattr(shape, each.name) for each in dataclasses.fields(shape)}
        return dataclasses.replace(shape, **_rebuilt(parts, fill, path))
    if isinstance(shape, dict):
        return {key: _rebuilt(each, fill, f"{start}{key}") for key, each in shape.items()}
    if isinstance(shape, list):
        return [_rebuilt(each, fill, f"{start}{place}") for place, each in enumerate(shape)]
    return None if shape is None else fill(path, shape)
