"""``MetricCollection.of_tasks``: the same metrics for several tasks over the same rows, such as click and purchase."""

from __future__ import annotations

import contextlib
import copy
import functools
from typing import Any, Callable, Hashable, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.collection import MetricCollection
from fleetmetrics.base.composite import statistics_of
from fleetmetrics.base.metric import Common, Metric
from fleetmetrics.base.nesting import Nestable
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.one_hot import Earlier, Meaning
from fleetmetrics.batch.rules import applicable
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.checks import listed
from fleetmetrics.support.hints import did_you_mean, near
from fleetmetrics.support.typed import Unpack
from fleetmetrics.xp import Scattered

__all__ = ["ByTask", "TaskBatches", "TaskCollection"]

_ARGUMENTS = ("prediction", "label", "weight", "mask")


class Together(Batch):
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
    def of(cls, batches: Sequence[Batch]) -> Together | None:
        """The batches as one; None if they are not alike and plain."""
        kinds = {(batch.prediction.dtype, getattr(batch.label, "dtype", None)) for batch in batches if _is_plain(batch)}
        return cls(batches) if len(kinds) == 1 and all(map(_is_plain, batches)) else None

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


class TaskBatches:
    """The batches of several tasks over the same rows, in place of one `Batch`; a task may have its own mask.

    Args:
        by_task: at least one batch, all with the same number of rows.
        leaves: the metrics of each task.
        earlier: what rows of labels were taken as, by task; None: unknown.
        alike: whether the tasks have the same metrics.
    """

    alike: bool
    by_task: Mapping[Any, Batch]
    each: Any
    earlier: Any
    empty: bool
    leaves: Mapping[Any, Sequence[Nestable]]
    rows: int
    xp: Any

    #: The batches as one, once they are checked, if that is possible.
    whole: Together | None = None
    #: The task whose batch is being checked.
    checking: Any = None

    def __init__(
        self,
        by_task: Mapping[Any, Batch],
        leaves: Mapping[Any, Sequence[Nestable]],
        earlier: Any = None,
        alike: bool = False,
    ) -> None:
        self.by_task, self.leaves, self.earlier, self.alike = by_task, leaves, earlier, alike
        first = self._first = next(iter(by_task.values()))
        self.xp, self.rows, self.each, self.empty = first.xp, first.rows, first.each, first.empty
        for task, batch in by_task.items():
            if batch.rows != self.rows:
                raise InvalidInputError(
                    f"{task!r} has {batch.rows} rows, and {next(iter(by_task))!r} has {self.rows}; give all tasks the "
                    "same rows, with a mask where a task lacks some"
                )
            if batch.xp is not self.xp:
                raise InvalidInputError(
                    f"{task!r} has {type(batch.each).__name__}, and {next(iter(by_task))!r} has "
                    f"{type(self.each).__name__}; give all tasks arrays, or all tensors"
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

    def check(self, requirements: Any, validate: bool) -> None:
        """Check the batch of each task; an error names the metric of the task."""
        if self.alike:
            whole = Together.of([*self.by_task.values()])
            leaves = next(iter(self.leaves.values()))
            with contextlib.suppress(InvalidInputError):  # which does not say in which task
                if whole is not None:
                    whole.check({rule: None for leaf in leaves for rule in leaf.requirements_of(whole)}, validate)
                    self.whole = whole
                    return
        for task, batch in self.by_task.items():
            self.checking, leaves = task, self.leaves[task]
            try:
                batch.check({rule: None for leaf in leaves for rule in leaf.requirements_of(batch)}, validate)
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


class ByTask(MetricCollection):
    """A collection with metrics of several tasks. Those of one task share states, and none with another task."""

    def task_of(self, key: str) -> Hashable:
        """The task of a metric."""
        raise NotImplementedError

    def _take(self, key: str, metric: Metric, shared: Shared) -> None:
        if not hasattr(self, "_shared"):
            self._shared: dict[Any, Shared] = {}
        super()._take(key, metric, self._shared.setdefault(self.task_of(key), Shared()))

    def leaves_of_tasks(self) -> Mapping[Any, list[Nestable]]:
        """The metrics of each task."""
        if "leaves of tasks" not in self._known:
            of_tasks: dict[Any, dict[Nestable, None]] = {}
            for key, metric in self.metrics.items():
                of_tasks.setdefault(self.task_of(key), {}).update(dict.fromkeys(metric.leaf_metrics()))
            self._known["leaves of tasks"] = {task: [*leaves] for task, leaves in of_tasks.items()}
        leaves: dict[Any, list[Nestable]] = self._known["leaves of tasks"]
        return leaves

    def requirements_of(self, batch: Any) -> tuple[Any, ...]:
        """None of its own: see `TaskBatches.check`."""
        return ()

    def increments_of(self, batch: Any) -> Iterable[tuple[Any, Any]]:
        """Those of each task from its own batch."""
        return [pair for task, own in batch.by_task.items() for pair in statistics_of(batch.leaves[task], own)]


class TaskCollection(ByTask):
    """The same metrics for several tasks; see `MetricCollection.of_tasks`.

    Args:
        tasks: as for `MetricCollection.of_tasks`.
        metrics: as for `MetricCollection.of_tasks`.
        prefix: of the keys in the result.
        postfix: of the keys in the result.
        **common: as for `MetricCollection`.
    """

    columns: tuple[str, ...]
    tasks: dict[str, dict[str, str]]

    def __init__(
        self,
        tasks: Mapping[str, Mapping[str, str]],
        metrics: Mapping[str, Metric] | Iterable[Metric],
        *,
        prefix: str = "",
        postfix: str = "",
        **common: Unpack[Common],
    ) -> None:
        templates = _templates(metrics)
        self._replace(metrics, templates)
        if not isinstance(tasks, Mapping) or not tasks or not all(isinstance(task, str) and task for task in tasks):
            raise InvalidInputError(f"tasks must be a dict of columns by the name of a task, not {tasks!r:.80}")
        self._task_by_key = {f"{task}/{key}": task for task in tasks for key in templates}
        fresh = {f"{task}/{key}": metric.fresh() for task in tasks for key, metric in templates.items()}
        super().__init__(fresh, prefix=prefix, postfix=postfix, **common)
        further, self.columns = self.columns, ()  # each task names them among its columns
        self.tasks = {task: self._columns_of(task, columns, further) for task, columns in tasks.items()}

    def _columns_of(self, task: str, columns: Any, further: Sequence[str]) -> dict[str, str]:
        """The columns of a task by argument, checked."""
        where, allowed = f"tasks[{task!r}]", (*_ARGUMENTS, *further)
        if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns.values()):
            raise InvalidInputError(
                f"{where} is {columns!r:.80}; it must be the names of its columns by argument, such as "
                '{"prediction": "score", "label": "click"}'
            )
        for argument in columns:
            if argument not in allowed:
                raise InvalidInputError(f"{where} has no argument {argument!r}; allowed are {', '.join(allowed)}")
        needed = ["prediction", *(["label"] if self.takes_label else []), *further]
        for argument in needed:
            if argument not in columns:
                raise InvalidInputError(f"{where} lacks {argument!r}; name its column: {{{argument!r}: ...}}")
        if "label" in columns and self.takes_label is False:
            raise InvalidInputError(f"{where} has a label, but the metrics take only values; leave it out")
        return dict(columns)

    def task_of(self, key: str) -> Hashable:
        """See `ByTask.task_of`."""
        return self._task_by_key[key]

    def increments_of(self, batch: Any) -> Iterable[tuple[Any, Any]]:
        """Those of each task; of plain batches from all samples at once, for the metrics that leave sums to a batch."""
        whole = batch.whole
        if whole is None:
            return super().increments_of(batch)
        quick, states, slow = self._once("ways", self._ways)
        pairs: list[tuple[Any, Any]] = []
        for state, increment in statistics_of(quick, whole):
            pairs += [(own, whole.for_task(increment, task)) for task, own in enumerate(states[state])]
        for own, leaves in zip(batch.by_task.values(), slow):
            own.checked = whole.checked
            pairs += statistics_of(leaves, own)
        return pairs

    def _ways(self) -> Iterable[Any]:
        """The first task's metrics that leave sums to a batch; each of their states in all tasks; the other metrics."""
        rows = list(zip(*self.leaves_of_tasks().values()))  # a metric in all tasks
        quick = [row for row in rows if _leaves_sums(row[0])]
        states = {its[0]: its for row in quick for its in zip(*[leaf.states.values() for leaf in row])}
        slow = [row for row in rows if row not in quick]
        return [row[0] for row in quick], states, list(zip(*slow))

    def rename(self, keys: Mapping[str, str]) -> MetricCollection:
        """See `MetricCollection.rename`."""
        self._known.pop("leaves of tasks", None)
        of_tasks = {keys.get(key, key): task for key, task in self._task_by_key.items()}
        renamed = super().rename(keys)
        self._task_by_key = of_tasks
        return renamed

    def add(self, columns: Any = None, *others: Any, **named: Any) -> None:  # type: ignore[override]
        """Accumulate one batch in all tasks, or in none; in a static program, at every run.

        Args:
            columns: the columns of the tasks by name, of the same length; other columns are ignored. Arrays, tensors
                or static variables, as for `Metric.add`.
            *others: none.
            **named: none.

        Raises:
            InvalidInputError: a column is missing, or as for `Metric.add`; the error names the task.
            StaticProgramError: as for `Metric.add`.
        """
        if others or named or not isinstance(columns, Mapping):
            raise InvalidInputError(
                f"{self.name} has several tasks, so add takes one dict of columns by name, such as model outputs and "
                f"labels: add({{{', '.join(f'{name!r}: ...' for name in self._names)}}})"
            )
        for task, its in self.tasks.items():
            for argument, name in its.items():
                if columns.get(name) is None:
                    hint = did_you_mean(map(repr, near(name, list(map(str, columns))))) or ";"
                    raise InvalidInputError(
                        f"{self.name}: no column {name!r} for {argument} of {task!r}{hint} there are "
                        f"{', '.join(map(repr, columns)) or 'none'}"
                    )
        self._add_arguments({task: {a: columns[name] for a, name in its.items()} for task, its in self.tasks.items()})

    def add_frame(self, frame: Any, **columns: Any) -> None:
        """Accumulate a data frame with the columns of the tasks, as one batch.

        Args:
            frame: as for `Metric.add_frame`.
            **columns: none.

        Raises:
            InvalidInputError: as for `Metric.add_frame`.
        """
        if columns:
            raise InvalidInputError(f"{self.name}: tasks name the columns already; leave out {', '.join(columns)}")
        from fleetmetrics.columns.frames import arguments_of

        self._add_arguments({task: arguments_of(self, frame, its) for task, its in self.tasks.items()})

    @property
    def _names(self) -> list[str]:
        """The columns of all tasks, each once."""
        return list(dict.fromkeys(name for its in self.tasks.values() for name in its.values()))

    def _add_arguments(self, by_task: Mapping[str, Mapping[str, Any]]) -> None:
        """Accumulate a batch, from the arguments of each task."""
        masks = (its[name] for its in by_task.values() for name in ("mask", "weight") if name in its)
        super().add(by_task, mask=next(masks, None))  # only whether there is one matters

    def _batch_of(self, by_task: Any, *_: Any) -> Any:
        earlier: dict[str, Earlier] = self.earlier if isinstance(self.earlier, dict) else {}
        batches = {}
        for task, arguments in by_task.items():
            own = dict(arguments)
            prediction, label, weight, mask = [own.pop(name, None) for name in _ARGUMENTS]
            reader = _Reader(self.meaning, earlier.get(task, _NOTHING))
            try:
                batch = batches[task] = Batch(prediction, label, weight, mask, own or None, self.class_axis, reader)
            except InvalidInputError as error:
                raise InvalidInputError(f"{task!r}: {error}") from None
            if batch.earlier is not None:
                earlier = {**earlier, task: batch.earlier}
        return TaskBatches(batches, self.leaves_of_tasks(), earlier, alike=True)


def _leaves_sums(leaf: Any) -> bool:
    """Whether all sums of a metric of the package are made by its declared statistics."""
    kind: Any = type(leaf)
    own = kind.__module__.startswith("fleetmetrics.") and len(leaf.states) > 0
    return own and kind.increments_of is Metric.increments_of and kind.batch_statistics is Metric.batch_statistics


class _Reader(NamedTuple):
    """What a batch asks the metric that takes it."""

    meaning: Meaning
    earlier: Earlier


_NOTHING = Earlier()


def _templates(metrics: Any) -> dict[str, Metric]:
    """The metrics of each task by key: new ones, which stay unchanged."""
    if isinstance(metrics, Mapping):
        entries = [*metrics.items()]
    else:
        entries = [(getattr(one, "name", ""), one) for one in listed("metrics", metrics, "metrics, or a dict of them")]
    templates: dict[str, Metric] = {}
    for key, metric in entries:
        if not isinstance(metric, Metric):
            raise InvalidInputError(f"metrics[{key!r}] must be a Metric, not {type(metric).__name__}")
        if key in templates:
            raise InvalidInputError(f"metrics has two entries {key!r}; give each its own key or name")
        if metric.program is not None or metric.holds_samples():
            raise InvalidInputError(f"metrics[{key!r}] already holds samples; tasks take new metrics")
        templates[key] = metric
    return templates
