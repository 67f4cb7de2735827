"""A metric of an `Evaluator`, and the batches that it was fed."""

from __future__ import annotations

from typing import Any, Sequence

from fleetmetrics.comm import LocalCommunicator, set_communicator
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluator.engine_metric import BaseMetric
from fleetmetrics.records.share import Share
from fleetmetrics.sampling import Dealing

__all__ = ["FedMetric"]


class FedMetric:
    """Knows how many records each batch has left in a metric.

    Args:
        metric: with ``process`` and ``evaluate``.

    Raises:
        InvalidInputError: if it has neither.
    """

    def __init__(self, metric: Any) -> None:
        if not callable(getattr(metric, "process", None)) or not callable(getattr(metric, "evaluate", None)):
            raise InvalidInputError(
                f"metrics holds a {type(metric).__module__}.{type(metric).__qualname__}, which has no process and"
                " evaluate; give metrics of fleetmetrics.evaluator, or configurations such as dict(type='Accuracy')"
            )
        self.metric = metric
        self._blocks: list[int] = []

    @property
    def joins(self) -> bool:
        """Whether it takes part in the exchange of all: one with an ``evaluate`` of its own is asked for its value."""
        return getattr(type(self.metric), "evaluate", None) is BaseMetric.evaluate

    @property
    def records(self) -> int:
        """How many records it has."""
        return len(getattr(self.metric, "results", ()))

    def process(self, data_batch: Any, samples: Sequence[Any]) -> None:
        """Feed it a batch."""
        before = self.records
        if before < sum(self._blocks):  # somebody has emptied it
            self._blocks.clear()
        self.metric.process(data_batch, samples)
        self._blocks.append(self.records - before)

    def share(self, size: int | None, mode: str, dealing: Dealing | None) -> Share:
        """What it brings to the exchange of all.

        Args:
            size: of the data set, or None.
            mode: the Evaluator's collect mode.
            dealing: how a sampler dealt the samples, or None.
        """
        share: Share = self.metric.share(size, **self._arrangement(mode, dealing))
        return share

    def ask(self, size: int | None, mode: str, dealing: Dealing | None) -> dict[str, Any]:
        """What its own ``evaluate`` returns; arguments as for `share`."""
        if not isinstance(self.metric, BaseMetric):
            return dict(self.metric.evaluate(size))
        self.metric.arrangement = self._arrangement(mode, dealing)
        try:
            return dict(self.metric.evaluate(size))
        finally:
            self.metric.arrangement = {}

    def ask_alone(self) -> dict[str, Any]:
        """What its own ``evaluate`` returns on this worker alone; its records are there again afterwards."""
        kept = list(getattr(self.metric, "results", ()))
        try:
            with set_communicator(LocalCommunicator()):
                return self.ask(None, "cat", None)
        finally:
            if hasattr(self.metric, "results"):
                self.metric.results[:] = kept

    def cut(self, records: int, blocks: int) -> None:
        """Forget what came last.

        Args:
            records: how many stay.
            blocks: how many batches stay.
        """
        if hasattr(self.metric, "results"):
            del self.metric.results[records:]
        del self._blocks[blocks:]

    def mark(self) -> tuple[int, int]:
        """What `cut` needs to come back to this point."""
        return self.records, len(self._blocks)

    def _arrangement(self, mode: str, dealing: Dealing | None) -> dict[str, Any]:
        if dealing is not None or mode not in ("auto", "batch"):
            return {"mode": None if mode == "auto" else mode, "dealing": dealing}
        if sum(self._blocks) == self.records:
            return {"mode": "batch", "blocks": self._blocks}
        if mode == "auto" and not any(self._blocks):
            return {}
        raise InvalidInputError(
            f"{type(self.metric).__name__} has {self.records} results, and {sum(self._blocks)} of them came from"
            " Evaluator.process, so the batches are not known; process all samples through the Evaluator, or give it"
            " collect_mode='unzip' or 'cat'"
        )
