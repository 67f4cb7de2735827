"""Several tasks in the same rows, such as click and like: one collection, which adds to each task its own rows."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Mapping

import numpy as np

from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.base.composite import statistics_of
from fleetmetrics.base.metric import Metric
from fleetmetrics.base.nesting import Nestable
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.batch.one_hot import LABELS, Meaning, meaning_for_all
from fleetmetrics.errors import IntegerOverflowError, InvalidInputError
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


class OfTasks(OfRows):
    """The metrics of several tasks over the same rows, in one pass and one exchange.

    A row without a task's label, nan, leaves that task alone. Keys that begin with ``tasks 0 `` belong to the first
    task; metrics under other keys get all rows, without labels.

    Args:
        metrics: by key; see `fleetmetrics.evaluation.question.probe.Probe.collection`.
        **common: as for `MetricCollection`.
    """

    labels_apart: ClassVar[bool] = True

    def _take(self, key: str, metric: Metric, shared: Shared) -> None:
        """Take a metric; those of a task share states with each other, but with no other task."""
        if not hasattr(self, "_shared"):
            self._shared: dict[int | None, Shared] = {}
        super()._take(key, metric, self._shared.setdefault(_task_of(key), Shared()))

    def _leaves_of_tasks(self) -> dict[int | None, list[Nestable]]:
        """The metrics of each task; None: those of all rows."""
        if "leaves of tasks" not in self._known:
            of_tasks: dict[int | None, dict[Nestable, None]] = {}
            for key, metric in self.metrics.items():
                of_tasks.setdefault(_task_of(key), {}).update(dict.fromkeys(metric.leaf_metrics()))
            self._known["leaves of tasks"] = {task: [*leaves] for task, leaves in of_tasks.items()}
        leaves: dict[int | None, list[Nestable]] = self._known["leaves of tasks"]
        return leaves

    def add(
        self, prediction: Any = None, label: Any = None, weight: Any = None, mask: Any = None, **columns: Any
    ) -> None:
        """Accumulate rows in all tasks, or in none.

        Args:
            prediction: ``[n, tasks]``.
            label: ``[n, tasks]``; nan: the row has no label of that task.
            weight: ``[n]``, for all tasks.
            mask: ``[n]``, for all tasks.
            **columns: as for `Metric.add`.
        """
        self._check_columns(columns)
        increments: dict[Any, Any] = {}
        for task, leaves in self._leaves_of_tasks().items():
            try:
                if task is None:
                    batch = Batch(prediction[:, 0], None, weight, mask, {})
                else:
                    own, known = label[:, task], mask
                    if own.dtype.kind == "f" and np.isnan(own).any():
                        known = ~np.isnan(own) if mask is None else ~np.isnan(own) & mask
                    batch = Batch(prediction[:, task], own, weight, known, columns)
            except (InvalidInputError, IntegerOverflowError) as error:
                raise self._told(error) from None
            if batch.empty:
                return
            with batch.xp.quiet():
                try:
                    batch.check({rule for leaf in leaves for rule in leaf.requirements_of(batch)}, self.validate)
                    increments.update(statistics_of(leaves, batch))
                except InvalidInputError as error:
                    if error.broken is not None and task is not None and error.broken[0] in ("prediction", "label"):
                        argument, allowed, flags = error.broken
                        error.broken = argument, allowed, flags[:, None] & (np.arange(label.shape[1]) == task)
                    raise self._told(error, batch) from None
        self._accumulate(increments, look=self.validate)


def _task_of(key: str) -> int | None:
    """The place of the task that a key of `Probe.collection` belongs to; None: all rows."""
    name, _, rest = key.partition(" ")
    return int(rest.partition(" ")[0]) if name == "tasks" else None


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
