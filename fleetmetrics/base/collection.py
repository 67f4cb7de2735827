"""``MetricCollection``: several metrics over the same batches, or over those of several tasks."""

from __future__ import annotations

import copy
import itertools
from collections import defaultdict
from collections.abc import Callable, Hashable, ItemsView, Iterable, KeysView, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, Dict, NamedTuple, overload

import numpy as np

import fleetmetrics
from fleetmetrics.base.adding import unnamed
from fleetmetrics.base.composite import Composite, about, axis_taken, label_taken, samples_taken, statistics_of
from fleetmetrics.base.metric import Common, Metric, not_a_metric
from fleetmetrics.base.nesting import Nestable
from fleetmetrics.base.shared import Shared
from fleetmetrics.base.task_columns import ARGUMENTS, arguments_of_tasks, checked_tasks
from fleetmetrics.batch import Batch
from fleetmetrics.batch.one_hot import Earlier, Meaning
from fleetmetrics.batch.task_batches import AlikeBatches
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.state.state import State
from fleetmetrics.state.state_dicts import Holder
from fleetmetrics.support.checks import listed
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.vocabulary import snake_case

if TYPE_CHECKING:
    import fleetmetrics.records.folding
    from fleetmetrics.records.table import Table

__all__ = ["MetricCollection"]


class MetricCollection(Composite[Dict[str, Any]]):
    """Several metrics over the same batches: one add, one exchange, a dict of values.

    States that members declare under the same key (the number of samples, say) are kept once.

    ``add(prediction, label, weight=None, mask=None)`` is that of `Metric`, even if the members' own differ: `Mean` and
    similar metrics take the predictions as their values. If all members do so, a label is an error: pass weights by
    keyword, ``add(values, weight=...)``.

    Args:
        metrics: metrics by their keys in the result; or a sequence of metrics, each keyed by its
            name. They must be new, and belong to the collection from then on.
        prefix: the prefix of the keys in the result.
        postfix: their postfix.
        **common: ``name``, ``validate``, ``share``, ``sampler`` and ``size`` of `Metric`. A sample that breaks a
            requirement of one member counts for no member. Without a name, the variables of a static program begin
            with ``metric_collection`` and the keys.

    Raises:
        InvalidInputError: an entry is not a metric or already in use, or a key is repeated.

    Examples:
        >>> import fleetmetrics
        >>> metrics = fleetmetrics.MetricCollection(
        ...     {"accuracy": fleetmetrics.Accuracy(), "mae": fleetmetrics.MeanAbsoluteError()})
        >>> metrics.add([0.75, 0.5, 0.25], [1, 1, 0])
        >>> metrics.compute()
        {'accuracy': 0.6666666666666666, 'mae': 0.3333333333333333}
    """

    class_axis: int | None
    columns: tuple[str, ...]
    postfix: str
    prefix: str
    samples: str
    takes_label: bool | None

    def __init__(
        self,
        metrics: Mapping[str, Metric] | Iterable[Metric],
        *,
        prefix: str = "",
        postfix: str = "",
        **common: Unpack[Common],
    ) -> None:
        super().__init__(**common)
        for argument, text in (("prefix", prefix), ("postfix", postfix)):
            if not isinstance(text, str):
                raise InvalidInputError(f"{argument} must be a string, not {text!r}")
        self.prefix, self.postfix = prefix, postfix
        entries = _entries(metrics)
        #: The members that are keyed by the name that a counter gave them.
        self._unnamed_members = [] if isinstance(metrics, Mapping) else [m for _, m in entries if m.named_by_default]
        self.metrics: dict[str, Metric] = {}
        self._known: dict[str, Any] = {}  # these do not change after the members are set
        shared: dict[Hashable, Shared] = defaultdict(Shared)
        for key, metric in entries:
            self._take(key, metric, shared[self.task_of(key)])
        self._replace(metrics, dict(self.metrics))
        self.takes_label = label_taken(self.metrics.values())
        self.columns = tuple(dict.fromkeys(name for metric in self.metrics.values() for name in metric.columns))
        self.class_axis = axis_taken(self.metrics.values())
        self.samples = samples_taken(self.metrics.values())

    @classmethod
    def of_tasks(
        cls,
        tasks: Mapping[str, Mapping[str, str]],
        metrics: Mapping[str, Metric] | Iterable[Metric],
        *,
        prefix: str = "",
        postfix: str = "",
        **common: Unpack[Common],
    ) -> MetricCollection:
        """Return a collection of the same metrics for several tasks over the same rows, such as click and purchase.

        ``add`` takes one dict of columns by name, and adds to all tasks or to none; ``compute`` exchanges all tasks at
        once. Each value is that of the metric in a collection of the task alone, bit for bit.

        Args:
            tasks: for each task the names of its columns by argument of ``add``: ``prediction``, ``label``, and where
                there are any ``weight``, ``mask`` (the rows that have the task, such as clicked ones), and the
                metrics' further arguments, such as ``user``.
            metrics: for each task; without samples, left unchanged. The keys of the result are ``task/key``.
            prefix: the prefix of the keys in the result.
            postfix: their postfix.
            **common: as for `MetricCollection`; a sampler deals the rows of all tasks.

        Raises:
            InvalidInputError: a task lacks a column, or has an unknown argument; an entry is not a metric.

        Examples:
            >>> from fleetmetrics import AUC, LogLoss
            >>> metrics = MetricCollection.of_tasks(
            ...     {"ctr": {"prediction": "p_ctr", "label": "click"},
            ...      "cvr": {"prediction": "p_cvr", "label": "buy", "mask": "click"}},
            ...     {"auc": AUC()})
            >>> metrics.add({"p_ctr": [0.1, 0.7, 0.6], "click": [0, 1, 1], "p_cvr": [0.2, 0.3, 0.1], "buy": [0, 1, 0]})
            >>> metrics.compute()
            {'ctr/auc': 1.0, 'cvr/auc': 1.0}
        """
        return TaskCollection(tasks, metrics, prefix=prefix, postfix=postfix, **common)

    def task_of(self, key: str) -> Hashable:
        """The task of a metric, which shares states with those of the same task alone."""
        return None

    @overload
    def __getitem__(self, key: str) -> Metric: ...
    @overload
    def __getitem__(self, key: int) -> str: ...
    def __getitem__(self, key: str | int) -> Metric | str:
        """Return the metric of a key, without prefix and postfix; InvalidInputError names the keys that there are."""
        if isinstance(key, int):  # Python iterates so. With __iter__, paddle.save would refuse the collection.
            return [*self.metrics][key]
        if key not in self.metrics:
            keys = ", ".join(map(repr, self.metrics))
            raise InvalidInputError(f"the collection has no metric {key!r}; it has {keys}")
        return self.metrics[key]

    def __contains__(self, key: object) -> bool:
        return key in self.metrics

    def __len__(self) -> int:
        return len(self.metrics)

    def __bool__(self) -> bool:
        return True  # also without metrics: `metrics or default` asks whether there is a collection

    def keys(self) -> KeysView[str]:
        """Return the keys, without prefix and postfix."""
        return self.metrics.keys()

    def values(self) -> ValuesView[Metric]:
        """Return the metrics."""
        return self.metrics.values()

    def items(self) -> ItemsView[str, Metric]:
        """Return the keys with their metrics."""
        return self.metrics.items()

    def _take(self, key: str, metric: Metric, shared: Shared) -> None:
        operand = metric.collection == self.name and metric not in self.metrics.values()
        if metric.collection is not None and not operand:
            raise InvalidInputError(f"metrics[{key!r}] already belongs to {metric.collection}; create a new metric")
        _raise_unless_new(key, metric, self.metrics)
        if metric.sampler is not None:
            raise InvalidInputError(
                f"metrics[{key!r}] has a sampler; create it without one, and give the sampler to the collection: "
                "MetricCollection(..., sampler=sampler)"
            )
        if metric.expected_samples is not None:
            raise InvalidInputError(
                f"metrics[{key!r}] has a size; create it without one, and give the size to the collection: "
                "MetricCollection(..., size=size)"
            )
        self.metrics[key] = metric
        if not operand:  # of an expression that contains it
            metric.collection = self.name
            metric.become_part(f"{self.name}.{key}", shared)

    def view(self, keys: Iterable[str]) -> MetricCollection:
        """The members of some keys as a collection, which shares all else with this one."""
        view = copy.copy(self)
        view.metrics, view._known = {key: self.metrics[key] for key in keys}, {}
        return view

    def rename(self, keys: Mapping[str, str]) -> MetricCollection:
        """Give members other keys in the result; they keep their samples.

        Args:
            keys: new keys by old keys, both without prefix and postfix.

        Returns:
            The collection.

        Raises:
            InvalidInputError: if a key is unknown, or two would be equal.
        """
        for key in keys:
            if key not in self.metrics:
                raise InvalidInputError(f"keys names {key!r}; the collection has {', '.join(map(repr, self.metrics))}")
        new = [keys.get(key, key) for key in self.metrics]
        if len(set(new)) < len(new):
            raise InvalidInputError(f"keys gives two members the same key: {', '.join(map(repr, new))}")
        self.metrics = dict(zip(new, self.metrics.values()))
        return self

    def fresh(
        self, name: str | None = None, *, prefix: str | None = None, postfix: str | None = None
    ) -> MetricCollection:
        """Return an empty collection of the same metrics, for example for a different data set.

        Args:
            name: the new collection's name; None: generated in the order of creation.
            prefix: None: this collection's.
            postfix: None: this collection's.
        """
        new: MetricCollection = super().fresh(name)
        pairs = zip(new.metrics.values(), self.metrics.values())
        new._unnamed_members = [copied for copied, own in pairs if own in self._unnamed_members]
        new.prefix = self.prefix if prefix is None else prefix
        new.postfix = self.postfix if postfix is None else postfix
        return new.rename(dict(zip(new.metrics, self.metrics)))

    def _raise_if_unnamed(self) -> None:
        for metric in self._unnamed_members:
            raise unnamed(metric.name, metric.call_with_name())

    def name_in_program(self) -> str:
        """See `Accumulator.name_in_program`; without a name, its keys tell its variables apart."""
        return snake_case(type(self).__name__) if self.named_by_default else self.name

    def _named_leaves(self) -> dict[str, Nestable]:
        """The metrics with states, each once; those in an expression by its key and their places."""
        named: dict[str, Nestable] = {}
        for key, member in self.metrics.items():
            leaves = member.leaf_metrics()
            own = {key: leaves[0]} if leaves[0] is member else {f"{key}.{n}": leaf for n, leaf in enumerate(leaves)}
            named.update({name: leaf for name, leaf in own.items() if leaf not in named.values()})
        return named

    def _parts(self) -> dict[str, tuple[Any, Sequence[Holder]]]:
        folds = {table_folds.table: table_folds for table_folds in self.record_folds()}
        leaves = {name: (leaf, _holders_of(leaf, folds)) for name, leaf in self._named_leaves().items()}
        return {"": (None, [*self._check.states, *self._counted(), self._held_pass]), **leaves}

    def _apart(self, name: str) -> tuple[Sequence[Holder], Callable[[], None]]:
        leaf: Any = self._named_leaves()[name]
        if self.program is not None:
            raise InvalidInputError(
                f"{self.name_in_errors(leaf)}: the checkpoint lacks this metric, or does not share its states with the "
                "other metrics, as the static program does; put it into a separate collection"
            )
        alone, prefix = leaf.fresh(leaf.name), f"{self.name}.{name}"
        alone.become_part(prefix, Shared())
        holders = _own_holders(alone)

        def attach() -> None:
            leaf.become_part(prefix, Shared())
            self._known.clear()
            for own, loaded in zip(_own_holders(leaf), holders):
                own.load(loaded.saved())

        return holders, attach

    def parts(self) -> Iterable[Metric]:
        """The members."""
        return self.metrics.values()

    def settings(self) -> dict[str, Any]:
        """The members, the order of their keys, which is that of their states, and the size of the data set."""
        size = {} if self.expected_samples is None else {"size": self.expected_samples}
        return {"keys": ", ".join(self.metrics), "metrics": self.metrics, **size}

    def _once(self, what: str, ask: Callable[[], Iterable[Any]]) -> Any:
        if what not in self._known:
            self._known[what] = list(ask())
        return self._known[what]

    def leaf_metrics(self) -> Sequence[Nestable]:  # noqa: D102
        return self._once("leaves", super().leaf_metrics)

    def record_metrics(self) -> Iterable[fleetmetrics.records.folding.Folding]:  # noqa: D102
        return self._once("record metrics", super().record_metrics)

    def fed_metrics(self) -> Iterable[Nestable]:  # noqa: D102
        return self._once("added through", super().fed_metrics)

    def _states(self) -> list[State]:
        return self._once("states", super()._states)

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> dict[str, Any]:
        """Every member's value."""
        values_by_key = {}
        for key, metric in self.metrics.items():
            try:
                values_by_key[f"{self.prefix}{key}{self.postfix}"] = metric.value_from_states(values, carries)
            except InvalidInputError as error:
                raise about(error, metric) from None
        return values_by_key

    def name_in_errors(self, of: Any = None) -> str:
        """See `Nestable.name_in_errors`; a member is named by its key."""
        for key, metric in self.metrics.items():
            if of is metric or of in metric.leaf_metrics():
                return f"{self.name}[{key!r}] ({of.kind_name()})"
        return super().name_in_errors()


def _holders_of(leaf: Nestable, folds: Mapping[Table, fleetmetrics.records.folding.Folds]) -> Sequence[Holder]:
    """The holders of a metric, except for the checks of samples."""
    return [*leaf.own_states(), *dict.fromkeys(folds[metric.table] for metric in leaf.record_metrics())]


def _own_holders(leaf: Nestable) -> Sequence[Holder]:
    """The holders of a metric that shares none of them."""
    return _holders_of(leaf, {folds.table: folds for folds in leaf.record_folds()})


def _entries(metrics: Any) -> list[tuple[str, Metric]]:
    """Metrics with their keys, which in a sequence are their names."""
    if not isinstance(metrics, Mapping):
        entries = listed("metrics", metrics, "metrics, or a dict of them by key")
        for metric in entries:
            if not isinstance(metric, Metric):
                raise not_a_metric("metrics must hold Metric objects", metric)
        return [(metric.name, metric) for metric in entries]
    for key, metric in metrics.items():
        if not isinstance(metric, Metric):
            raise not_a_metric(f"metrics[{key!r}] must be a Metric", metric)
    return list(metrics.items())


def _raise_unless_new(key: str, metric: Metric, others: Mapping[str, Metric]) -> None:
    """Raise InvalidInputError if a key is one of the others', or a metric has been used."""
    if key in others:
        raise InvalidInputError(f"metrics has two entries {key!r}; give each its own key or name")
    if metric.program is not None or metric.holds_samples():
        raise InvalidInputError(f"metrics[{key!r}] already holds samples; a collection takes new metrics")


# -- several tasks ------------------------------------------------------------------------------------------


class ByTask(MetricCollection):
    """A collection with metrics of several tasks, each of which has a batch of its own: see `TaskBatches`."""

    def leaves_of_tasks(self) -> Mapping[Any, Sequence[Nestable]]:
        """The metrics of each task."""
        return dict(self._once("leaves of tasks", self._leaves_of_tasks))

    def _leaves_of_tasks(self) -> Iterable[tuple[Any, Sequence[Nestable]]]:
        leaves: dict[Any, dict[Nestable, None]] = {}
        for key, metric in self.metrics.items():
            leaves.setdefault(self.task_of(key), {}).update(dict.fromkeys(metric.leaf_metrics()))
        return [(task, [*its]) for task, its in leaves.items()]

    def requirements_of(self, batch: Any) -> Any:
        """The metrics of each task, which the batch asks for their requirements: see `TaskBatches.check`."""
        return self.leaves_of_tasks()

    def increments_of(self, batch: Any) -> Iterable[tuple[Any, Any]]:
        """Those of each task from its own batch."""
        leaves = self.leaves_of_tasks()
        return [pair for task, own in batch.by_task.items() for pair in statistics_of(leaves[task], own)]


class TaskCollection(ByTask):
    """The same metrics for several tasks; see `MetricCollection.of_tasks`, also for the arguments."""

    columns: tuple[str, ...]
    tasks: dict[str, dict[str, str]]

    def __init__(
        self,
        tasks: Mapping[str, Mapping[str, str]],
        metrics: Mapping[str, Metric] | Iterable[Metric],
        **settings: Any,
    ) -> None:
        templates: dict[str, Metric] = {}
        for key, metric in _entries(metrics):
            _raise_unless_new(key, metric, templates)
            if metric.samples not in ("numbers", "any"):
                raise InvalidInputError(
                    f"metrics[{key!r}] takes {metric.samples}, but tasks are columns of numbers; make a "
                    "MetricCollection for each task, and add its texts to it"
                )
            templates[key] = metric
        if not templates:
            raise InvalidInputError(f"metrics must hold a metric for the tasks, not {metrics!r}")
        self._replace(metrics, templates)
        further = dict.fromkeys(name for metric in templates.values() for name in metric.columns)
        self.tasks = checked_tasks(tasks, label_taken(templates.values()), [*further])
        self._task_by_key: dict[str, str] = {}
        for task, key in itertools.product(tasks, templates):
            other = self._task_by_key.setdefault(f"{task}/{key}", task)
            if other != task:
                raise InvalidInputError(f"tasks {other!r} and {task!r} both have a metric {task}/{key}; rename a task")
        fresh = {f"{task}/{key}": metric.fresh() for task in tasks for key, metric in templates.items()}
        super().__init__(fresh, **settings)
        self.columns: tuple[str, ...] = ()  # which are among those of each task

    def task_of(self, key: str) -> Hashable:
        """See `MetricCollection.task_of`."""
        return self._task_by_key[key]

    def rename(self, keys: Mapping[str, str]) -> MetricCollection:
        """See `MetricCollection.rename`."""
        renamed = super().rename(keys)
        self._task_by_key = {keys.get(key, key): task for key, task in self._task_by_key.items()}
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
            names = dict.fromkeys(name for its in self.tasks.values() for name in its.values())
            raise InvalidInputError(
                f"{self.name} has several tasks, so add takes one dict of columns by name, such as model outputs and "
                f"labels: add({{{', '.join(f'{name!r}: ...' for name in names)}}})"
            )
        self._add_arguments(arguments_of_tasks(self.tasks, columns, self.name))

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

    def _add_arguments(self, by_task: Mapping[str, Mapping[str, Any]]) -> None:
        """Accumulate a batch, from the arguments of each task."""
        masks = (its[name] for its in by_task.values() for name in ("mask", "weight") if name in its)
        super().add(by_task, mask=next(masks, None))  # only whether there is one matters

    def _batch_of(self, by_task: Any, *_: Any) -> Any:
        earlier: dict[str, Earlier] = {**self.earlier} if isinstance(self.earlier, dict) else {}

        def batch_of(task: str) -> Batch:
            own = dict(by_task[task])
            prediction, label, weight, mask = [own.pop(name, None) for name in ARGUMENTS]
            reader = _Reader(self.meaning, earlier.get(task, MetricCollection.earlier))
            try:
                batch = Batch(prediction, label, weight, mask, own or None, self.class_axis, reader)
            except InvalidInputError as error:
                raise InvalidInputError(f"{task!r}: {error}") from None
            if batch.earlier is not None:
                earlier[task] = batch.earlier
            return batch

        return AlikeBatches(by_task, batch_of, earlier)

    def increments_of(self, batch: Any) -> Iterable[tuple[Any, Any]]:
        """Those of each task; of plain batches from all samples at once, for the metrics that leave sums to a batch."""
        whole = batch.whole
        if whole is None:
            return super().increments_of(batch)
        quick, states, slow = self._once("ways", self._ways)
        pairs: list[tuple[Any, Any]] = []
        for state, increment in statistics_of(quick, whole):
            pairs += zip(states[state], whole.for_tasks(increment))
        for task, leaves in slow:
            own = batch.by_task[task]
            own.checked = whole.checked
            pairs += statistics_of(leaves, own)
        return pairs

    def _ways(self) -> Iterable[Any]:
        """The first task's metrics that leave sums to a batch; each of their states in all tasks; the other metrics."""
        tasks, leaves = zip(*self.leaves_of_tasks().items())
        rows = list(zip(*leaves))  # a metric in all tasks
        quick = [row for row in rows if _leaves_sums(row[0])]
        states = {its[0]: its for row in quick for its in zip(*[leaf.states.values() for leaf in row])}
        slow = [row for row in rows if row not in quick]
        return [row[0] for row in quick], states, [*zip(tasks, zip(*slow))]


class _Reader(NamedTuple):
    """What a batch asks the metric that takes it."""

    meaning: Meaning
    earlier: Earlier


def _leaves_sums(leaf: Any) -> bool:
    """Whether all sums of a metric of the package are made by its declared statistics."""
    kind: Any = type(leaf)
    own = kind.__module__.startswith("fleetmetrics.") and len(leaf.states) > 0
    return own and kind.increments_of is Metric.increments_of and kind.batch_statistics is Metric.batch_statistics
