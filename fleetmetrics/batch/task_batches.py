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
    earlier: Any
    empty: bool
    rows: int
    xp: Any

    #: The task whose batch is being checked.
    checking: Any = None

    def __init__(self, by_task: Mapping[Any, Batch], earlier: Any = None) -> None:
        self.by_task, self.earlier = by_task, earlier
        name, first = next(iter(by_task.items()))
        self._first = first
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
        whole = copy.copy(self._first)
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
    """Those of tasks with the same metrics: plain ones are checked at once, and can be summed at once."""

    #: The batches as one, once they are checked, if that is possible.
    whole: _Together | None = None

    def check(self, leaves_of_tasks: Mapping[Any, Sequence[Any]], validate: bool) -> None:
        """As for any tasks, which are asked one by one only if some sample is invalid."""
        whole = _Together.of([*self.by_task.values()])
        with contextlib.suppress(InvalidInputError):  # which does not say in which task
            if whole is not None:
                whole.check(_rules(next(iter(leaves_of_tasks.values())), whole), validate)
                self.whole = whole
                return
        super().check(leaves_of_tasks, validate)


class _Together(Batch):
    """The samples of several tasks, one after the other: arrays without weights; each sum has an entry per task.

    The functions of each sample run once for all tasks, and the sums are made task by task: they have the bits that
    they would have for the task alone.
    """

    places: list[slice]  #: of the tasks

    def __init__(self, batches: Sequence[Batch]) -> None:
        label = None if batches[0].label is None else np.concatenate([batch.label for batch in batches])
        super().__init__(np.concatenate([batch.prediction for batch in batches]), label)
        rows = batches[0].rows
        self.places = [slice(start, start + rows) for start in range(0, self.rows, rows)]

    @classmethod
    def of(cls, batches: Sequence[Batch]) -> _Together | None:
        """The batches as one; None if they are not alike and plain."""
        if not all(map(_is_plain, batches)):
            return None
        kinds = {(batch.prediction.dtype, getattr(batch.label, "dtype", None)) for batch in batches}
        return cls(batches) if len(kinds) == 1 else None

    def of_each(self, function: Callable[..., Any], *arrays: Any) -> np.ndarray:
        """The results of a function of the samples of each task."""
        return np.array([function(*[array[place] for array in arrays]) for place in self.places])

    @property
    @statistic
    def number(self) -> Any:
        return np.full(len(self.places), self.rows // len(self.places))

    def weighted_sum(self, values: Any, *, zero_at_zero: bool = False) -> Any:
        return self.of_each(super().weighted_sum, values)

    def sum_of_squares(self, values: Any) -> Any:
        return self.of_each(super().sum_of_squares, values)

    def sum_of_logs(self, factors: Any) -> Any:
        return self.of_each(super().sum_of_logs, factors)

    def extreme(self, values: Any, reduction: str) -> Any:
        return self.of_each(functools.partial(super().extreme, reduction=reduction), values)

    def moments(self, x: Any, y: Any = None) -> Any:
        return self.of_each(super().moments, *([x] if y is None else [x, y]))

    def for_task(self, increment: Any, task: int) -> Any:
        """The part of one task of an increment."""
        if isinstance(increment, Scattered):
            place = self.places[task]
            amount = None if increment.amount is None else increment.amount[place]
            return Scattered(tuple(index[place] for index in increment.indices), amount)
        return increment[task] if increment.ndim == 1 else increment[task].tolist()


def _is_plain(batch: Batch) -> bool:
    """Whether a batch holds arrays of one float for each sample, all of which count."""
    return (
        type(batch.prediction) is np.ndarray
        and batch.prediction.dtype.kind == "f"
        and batch.weight is batch.mask is batch.dealt is batch.full is batch.alike is batch.table is None
        and not batch.classes
        and not batch.columns
    )
