"""Several tasks in the same rows, such as click and like: one collection, which adds to each task its own rows."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Mapping, Sequence

import numpy as np

from fleetmetrics.base.collection import ByTask, MetricCollection
from fleetmetrics.batch import Batch
from fleetmetrics.batch.one_hot import LABELS, Meaning, meaning_for_all
from fleetmetrics.batch.task_batches import TaskBatches
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.vocabulary import argument

__all__ = ["OfRows", "OfTasks", "task_and_rest"]


class OfRows(MetricCollection):
    """The metrics of an evaluation, whose errors name a metric as the request does, and not by its path."""

    def name_in_errors(self, of: Any = None) -> str:  # noqa: D102
        keys = (key for key, metric in self.metrics.items() if of is metric or of in metric.leaf_metrics())
        return next(keys, "").rpartition(" ")[2] or argument("metrics")

    @functools.cached_property
    def meaning(self) -> Meaning:
        """What rows of labels mean: several labels, unless classes were requested."""
        meanings = [leaf.one_hot for leaf in self.leaf_metrics()]
        return meaning_for_all(meanings) if any(meaning.several for meaning in meanings) else Meaning(LABELS)


class OfTasks(OfRows, ByTask):
    """The metrics of several tasks over the same rows, in one pass and one exchange.

    A row without a task's label, nan, leaves that task alone. Keys that begin with ``tasks 0 `` belong to the first
    task; metrics under other keys get all rows, without labels.

    Args:
        metrics: by key; see `fleetmetrics.evaluation.question.probe.Probe.collection`.
        **common: as for `MetricCollection`.
    """

    labels_apart: ClassVar[bool] = True

    def task_of(self, key: str) -> int | None:
        """The place of the task that a key of `Probe.collection` belongs to; None: all rows."""
        name, _, rest = key.partition(" ")
        return int(rest.partition(" ")[0]) if name == "tasks" else None

    def _batch_of(self, prediction: Any, label: Any, weight: Any, mask: Any, columns: Mapping[str, Any]) -> Any:
        """The rows of each task.

        Args:
            prediction: ``[n, tasks]``.
            label: ``[n, tasks]``; nan: the row has no label of that task.
            weight: ``[n]``, for all tasks.
            mask: ``[n]``, for all tasks.
            columns: as for `Metric.add`.
        """
        batches: dict[int | None, Batch] = {}
        for task in self.leaves_of_tasks():
            if task is None:
                batches[task] = Batch(prediction[:, 0], None, weight, mask, {})
                continue
            own, known = label[:, task], mask
            if own.dtype.kind == "f" and np.isnan(own).any():
                known = ~np.isnan(own) if mask is None else ~np.isnan(own) & mask
            batches[task] = Batch(prediction[:, task], own, weight, known, columns)
        return _Rows(batches)


class _Rows(TaskBatches):
    def check(self, leaves_of_tasks: Mapping[Any, Sequence[Any]], validate: bool) -> None:
        """As for any tasks; of an error, the flags of the broken entries get the axis of the tasks."""
        try:
            super().check(leaves_of_tasks, validate)
        except InvalidInputError as error:
            if error.broken is not None and self.checking is not None and error.broken[0] in ("prediction", "label"):
                argument, allowed, flags = error.broken
                tasks = sum(task is not None for task in self.by_task)
                error.broken = argument, allowed, flags[:, None] & (np.arange(tasks) == self.checking)
            raise


def task_and_rest(path: str, tasks: Mapping[str, Any]) -> tuple[str, str]:
    """The task that a name begins with, and the rest of the name; no task: "" and the name.

    Args:
        path: such as "click.auc" or "any click.slices.slot.auc".
        tasks: by name.
    """
    any_, rest = ("any ", path[4:].lstrip()) if path.startswith("any ") else ("", path)
    beginnings = [task for task in tasks if rest.startswith(f"{task}.")]
    if not beginnings:
        return "", path
    task = max(beginnings, key=len)
    return task, any_ + rest[len(task) + 1 :]
