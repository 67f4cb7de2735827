"""The batches of several tasks over the same rows, such as click and purchase, in one ``add``."""

from __future__ import annotations

import contextlib
import copy
import functools
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.batch import Batch
from fleetmetrics.batch.rules import applicable
from fleetmetrics.batch.sums import statistic
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers.reductions import FEW, FEW_LOGARITHMS
from fleetmetrics.xp import Scattered

__all__ = ["AlikeBatches", "TaskBatches"]


class TaskBatches:
    """The batches of several tasks over the same rows, in place of one `Batch`; a task may have its own mask.

    Args:
        by_task: at least one batch, all with the same number of rows.
        earlier: what rows of labels were taken as, by task; None: unknown.
    """

    by_task: Mapping[Any, Batch]
    each: Any
    empty: bool
    rows: int
    xp: Any
    earlier: Any = None

    #: The task whose batch is being checked.
    checking: Any = None

    def __init__(self, by_task: Mapping[Any, Batch], earlier: Any = None) -> None:
        self.by_task, self.earlier = by_task, earlier
        name, first = next(iter(by_task.items()))
        self.xp, self.rows, self.each, self.empty = first.xp, first.rows, first.each, first.empty
        for task, batch in by_task.items():
            if batch.rows != self.rows:
                raise InvalidInputError(
                    f"{task!r} has {batch.rows} rows, and {name!r} has {self.rows}; give all tasks the same rows, with "
                    "a mask where a task lacks some"
                )
            if batch.xp is not self.xp:
                raise InvalidInputError(
                    f"{task!r} has {type(batch.each).__name__}, and {name!r} has {type(self.each).__name__}; give all "
                    "tasks arrays, or all tensors"
                )

    def leave_out(self, flags: Any) -> None:
        """Leave out rows without a flag in every task."""
        for batch in self.by_task.values():
            batch.leave_out(flags)

    @property
    def left_some_out(self) -> bool:
        """Whether a mask or a weight of zero of any task has left out samples, or may have."""
        return any(
            (batch.mask is not None or batch.weight is not None) and batch.left_some_out
            for batch in self.by_task.values()
        )

    @property
    def added(self) -> Any:
        """The number of rows that the sampler keeps: int64."""
        whole = copy.copy(next(iter(self.by_task.values())))
        whole.mask = None
        return whole.added

    def check(self, leaves_of_tasks: Mapping[Any, Sequence[Any]], validate: bool) -> None:
        """Check the batch of each task by what its metrics require; an error names the metric of the task."""
        for task, batch in self.by_task.items():
            self.checking, leaves = task, leaves_of_tasks[task]
            try:
                batch.check(_rules(leaves, batch), validate)
            except InvalidInputError as error:
                asked = ((leaf, applicable(tuple(leaf.requirements_of(batch)), batch.classes)) for leaf in leaves)
                error.about = next((leaf for leaf, rules in asked if error.about in rules), leaves[0])
                raise

    @functools.cached_property
    def valid(self) -> Any:
        """Flags of the rows that are valid in all tasks, where they cannot be checked at once; see `Batch`."""
        flags = [batch.valid for batch in self.by_task.values() if batch.valid is not None]
        return functools.reduce(self.xp.logical_and, flags) if flags else None

    def number_of(self, flags: Any) -> Any:
        """The number of true flags."""
        return self.xp.sum(flags)

    def ones_of(self, flags: Any) -> Any:
        """Flags as an int64 of zeros and ones."""
        return self.xp.cast(flags, "int64")


def _rules(leaves: Iterable[Any], batch: Batch) -> dict[Any, None]:
    """What metrics require of the samples of a batch, each once."""
    return {rule: None for leaf in leaves for rule in leaf.requirements_of(batch)}


class AlikeBatches(TaskBatches):
    """Those of tasks with the same metrics: plain ones are checked and summed at once.

    Args:
        columns: the arguments of ``add`` by task.
        batch_of: makes the batch of a task, which it does only if necessary.
        earlier: as for `TaskBatches`.
    """

    #: The samples of all tasks in one batch; None if that is impossible.
    whole: _Together | None = None
    each: Any
    empty: bool
    rows: int
    xp: Any

    def __init__(
        self, columns: Mapping[Any, Mapping[str, Any]], batch_of: Callable[[Any], Batch], earlier: Any = None
    ) -> None:
        self._tasks, self._batch_of, whole = columns.keys(), batch_of, None
        if all(its.keys() <= {"prediction", "label"} for its in columns.values()):
            whole = _Together.of([(its["prediction"], its.get("label")) for its in columns.values()])
        if whole is None:
            super().__init__(self.by_task, earlier)
        else:
            self.whole, self.xp, self.each, self.empty = whole, whole.xp, whole.each, False
            self.rows = whole.places[0].stop

    @functools.cached_property
    def by_task(self) -> Mapping[Any, Batch]:  # type: ignore[override]  # it can be set
        """See `TaskBatches`; made only if some metric or check needs it."""
        return {task: self._batch_of(task) for task in self._tasks}

    def leave_out(self, flags: Any) -> None:
        """As for any tasks."""
        self.whole = None
        super().leave_out(flags)

    def check(self, leaves_of_tasks: Mapping[Any, Sequence[Any]], validate: bool) -> None:
        """As for any tasks, which are asked one by one only if some sample is invalid."""
        if self.whole is None and all(map(_is_plain, self.by_task.values())):
            self.whole = _Together.of([(batch.prediction, batch.label) for batch in self.by_task.values()])
        with contextlib.suppress(InvalidInputError):  # which does not say in which task
            if self.whole is not None:
                self.whole.check(_rules(next(iter(leaves_of_tasks.values())), self.whole), validate)
                self.valid = None
                return
        self.whole = None
        super().check(leaves_of_tasks, validate)


class _Together(Batch):
    """The samples of several tasks, one after the other: arrays without weights; each sum has an entry per task.

    The functions of each sample run once for all tasks, and the sums are made task by task: they have the bits that
    they would have for the task alone.
    """

    places: list[slice]  #: of the tasks
    few: bool  #: whether a task has so few samples that their sum is made in another way

    @classmethod
    def of(cls, columns: Sequence[tuple[Any, Any]]) -> _Together | None:
        """The predictions and labels of tasks in one batch; None if they are not alike: arrays of ``[n]`` numbers."""
        predictions, labels = zip(*columns)
        shape: Any = getattr(predictions[0], "shape", ())
        labeled = any(label is not None for label in labels)
        if len(shape) != 1 or not shape[0] or not _are_alike(predictions, shape, "f"):
            return None
        if labeled and not _are_alike(labels, shape, "bif"):
            return None
        whole = cls(np.concatenate(predictions), np.concatenate(labels) if labeled else None)
        whole.places = [slice(start, start + shape[0]) for start in range(0, whole.rows, shape[0])]
        whole.few = shape[0] <= FEW
        return whole

    def of_each(self, function: Callable[..., Any], *arrays: Any) -> np.ndarray:
        """The results of a function of the samples of each task."""
        return np.array([function(*[array[place] for array in arrays]) for place in self.places])

    @property
    @statistic
    def number(self) -> Any:
        return np.full(len(self.places), self.rows // len(self.places))

    def weighted_sum(self, values: Any, *, zero_at_zero: bool = False) -> Any:
        if self.few:
            return self.of_each(super().weighted_sum, values)
        rows = values.reshape(len(self.places), -1)
        return np.add.reduce(rows, 1, "float64" if rows.dtype.kind == "f" else "int64")

    def sum_of_squares(self, values: Any) -> Any:
        totals = None if self.few else self.weighted_sum(np.square(values))
        if totals is None or not totals.all():
            return self.of_each(super().sum_of_squares, values)
        return totals

    def sum_of_logs(self, factors: Any) -> Any:
        if len(factors) > FEW_LOGARITHMS * len(self.places):
            return self.of_each(super().sum_of_logs, factors)
        return self.weighted_sum(np.log(factors))

    def extreme(self, values: Any, reduction: str) -> Any:
        return self.of_each(functools.partial(super().extreme, reduction=reduction), values)

    def moments(self, x: Any, y: Any = None) -> Any:
        return self.of_each(super().moments, *([x] if y is None else [x, y]))

    def for_tasks(self, increment: Any) -> list[Any]:
        """The part of each task of an increment."""
        if not isinstance(increment, Scattered):
            return increment.tolist()
        indices, amount = increment
        return [
            Scattered(tuple([index[place] for index in indices]), None if amount is None else amount[place])
            for place in self.places
        ]


def _are_alike(columns: Sequence[Any], shape: Any, kinds: str) -> bool:
    """Whether columns are arrays of this shape, and of one dtype, which is of these kinds."""
    dtype: Any = getattr(columns[0], "dtype", None)
    alike = all(type(its) is np.ndarray and its.shape == shape and its.dtype == dtype for its in columns)
    return alike and dtype.kind in kinds


def _is_plain(batch: Batch) -> bool:
    """Whether all samples of a batch count, as one each."""
    return (
        batch.weight is batch.mask is batch.dealt is batch.full is batch.alike is batch.table is None
        and not batch.classes
        and not batch.columns
    )
