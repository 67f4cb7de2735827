"""How an `Evaluator` feeds its metrics with batches of samples, and computes them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Iterable, Iterator

from fleetmetrics.comm import LocalCommunicator, get_communicator, set_communicator
from fleetmetrics.errors import AssertedInputError, InvalidInputError
from fleetmetrics.evaluator.engine_metric import Arrangement, BaseMetric, arrangement, as_dicts
from fleetmetrics.records.batches import Columns
from fleetmetrics.support.vocabulary import with_article
from fleetmetrics.xp import together_to_host

__all__ = ["FedMetric", "paired_chunks", "pseudo_collate", "rows", "swap_noticed"]


def rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Turn a batch's columns into a dict for each sample."""
    batch = Columns()
    batch.append((), columns)
    (entries,) = together_to_host(batch.batches)
    return [dict(zip(columns, row)) for row in zip(*entries)]


def paired_chunks(
    data_samples: Iterable[Any], data: Iterable[Any] | None, chunk_size: int
) -> Iterator[tuple[list[Any], list[Any] | None]]:
    """Cut samples and their data into chunks."""
    if data is not None and isinstance(data, Sequence) and isinstance(data_samples, Sequence):
        _check_lengths(len(data_samples), len(data))
    samples, others = iter(data_samples), None if data is None else iter(data)
    count = 0
    while True:
        chunk = list(islice(samples, chunk_size))
        other = None if others is None else list(islice(others, chunk_size))
        if other is not None:
            _check_lengths(count + len(chunk), count + len(other))
        if not chunk:
            return
        count += len(chunk)
        yield chunk, other


def _check_lengths(samples: int, data: int) -> None:
    if samples != data:
        raise AssertedInputError(
            f"data_samples and data should have the same length, but got data_samples length: {samples} data length:"
            f" {data}"
        )


@contextlib.contextmanager
def swap_noticed(samples: Sequence[Any], data: Sequence[Any] | None) -> Iterator[None]:
    """Process a chunk inside; of an error, say that samples and data are swapped if only the data have predictions."""
    try:
        yield
    except Exception as error:
        if data is None or _predicted(samples[0]) or not _predicted(data[0]):
            raise
        raise InvalidInputError(
            f"data_samples and data look swapped: data[0] has {_predicted(data[0])!r}, and data_samples[0], "
            f"{with_article(type(samples[0]).__name__)}, has no prediction; data_samples comes first: "
            "offline_evaluate(data_samples, data), or name both"
        ) from error


def _predicted(sample: Any) -> str:
    """The field of a sample that holds a prediction; "" without one."""
    (fields,) = as_dicts([sample])
    names = [name for name in fields if isinstance(name, str)] if isinstance(fields, Mapping) else []
    return next((name for name in names if name.startswith("pred")), "")


def pseudo_collate(data_batch: Sequence[Any]) -> Any:
    """Turn a list of samples into a batch of the same structure, without stacking anything.

    Examples:
        >>> pseudo_collate([dict(image=[1, 2], name="a"), dict(image=[3, 4], name="b")])
        {'image': [(1, 3), (2, 4)], 'name': ['a', 'b']}
    """
    first = data_batch[0]
    kind: Any = type(first)
    if isinstance(first, Mapping):
        return kind({key: pseudo_collate([sample[key] for sample in data_batch]) for key in first})
    if isinstance(first, (str, bytes)) or not isinstance(first, Sequence):
        return data_batch
    if len({len(sample) for sample in data_batch}) > 1:
        raise RuntimeError("each data_itement in list of batch should be of equal size")
    columns = [pseudo_collate(column) for column in zip(*data_batch)]
    if hasattr(first, "_fields"):
        return kind(*columns)
    if isinstance(first, tuple):
        return columns
    try:
        return kind(columns)
    except TypeError:  # such as range
        return columns


class FedMetric:
    """A metric, or anything else with ``process`` and ``evaluate``."""

    def __init__(self, metric: Any) -> None:
        if not callable(getattr(metric, "process", None)) or not callable(getattr(metric, "evaluate", None)):
            kind = with_article(f"{type(metric).__module__}.{type(metric).__qualname__}")
            raise InvalidInputError(
                f"metrics holds {kind}, which has no process and evaluate;"
                " give metrics of fleetmetrics.evaluator, or configurations such as dict(type='Accuracy')"
            )
        self.metric = metric

    @property
    def joins(self) -> bool:
        """Whether it takes part in the common exchange; it does unless it overrides ``evaluate``."""
        return getattr(type(self.metric), "evaluate", None) is BaseMetric.evaluate

    @property
    def results(self) -> list[Any]:
        """Its records, to be changed in place; an empty list if it keeps none."""
        return getattr(self.metric, "results", [])

    def ask(self, size: int | None, asked: Arrangement) -> dict[str, Any]:
        """Call its own ``evaluate``."""
        peers = [kind.__module__ for kind in type(self.metric).__mro__ if kind.__name__ == "BaseMetric"]
        if any(peer.startswith("mmengine.") for peer in peers) and get_communicator().world_size > 1:
            raise InvalidInputError(
                f"{type(self.metric).__name__} is MMEngine's class: each worker would compute a different value; "
                "python -m fleetmetrics.migrate changes the import"
            )
        token = arrangement.set(asked)
        try:
            return dict(self.metric.evaluate(size))
        finally:
            arrangement.reset(token)

    def ask_alone(self) -> dict[str, Any]:
        """Call its own ``evaluate`` for this worker alone; restore its records afterwards."""
        kept = list(self.results)
        try:
            with set_communicator(LocalCommunicator()):
                return self.ask(None, Arrangement("cat", keep=True))
        finally:
            self.results[:] = kept

    def cut(self, records: int, calls: int) -> None:
        """Keep only this many records and batches."""
        del self.results[records:]
        if isinstance(self.metric, BaseMetric):
            self.metric._ledger.cut(calls)

    def mark(self) -> tuple[int, int]:
        """The arguments with which `cut` returns to this point."""
        return len(self.results), len(self.metric._ledger.calls) if isinstance(self.metric, BaseMetric) else 0
