"""Metrics that tell what they were given."""

from __future__ import annotations

from typing import Any

from fleetmetrics.evaluator import BaseMetric


class Seen(BaseMetric):
    """What it is given is the value."""

    default_prefix = "seen"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.batches: list[Any] = []

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.batches.append((data_batch, data_samples))
        self.results.extend(data_samples)

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        return {"records": list(results), "n": len(results)}


class Total(BaseMetric):
    """A sum instead of records."""

    default_prefix = "total"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend(data_samples)

    def summarize(self, results: list[Any]) -> Any:
        return {"sum": sum(results), "top": ("max", max(results))}

    def compute_from(self, states: Any) -> dict[str, Any]:
        return {name: array.item() for name, array in states.items()}


class Failing(Seen):
    error: Any = ValueError("no labels")

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return super().compute_metrics(results)
