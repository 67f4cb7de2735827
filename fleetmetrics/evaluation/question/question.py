"""The question that an evaluation answers for each side: the checked options, and the metrics that they need."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from fleetmetrics.base.metric import Metric
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.columns.joining import CommonIds
from fleetmetrics.columns.reading import Reading, SideReading
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluation.arguments.named import Named, named
from fleetmetrics.evaluation.arguments.option_checks import (
    baseline_score_of,
    checked_options,
    columns_of_slice,
    reading_options,
    renamed_columns,
    tasks_of,
)
from fleetmetrics.evaluation.arguments.options import OF_QUESTION, Options
from fleetmetrics.evaluation.question.counted import Actual, Errors, Joined, Positives, Rows
from fleetmetrics.evaluation.question.evidence import Evidence, GroupCount, evidence_of
from fleetmetrics.evaluation.question.probe import Probe, Slices
from fleetmetrics.evaluation.question.versus import compared_metric, overall_metric
from fleetmetrics.files import ROW
from fleetmetrics.support.hints import did_you_mean, near
from fleetmetrics.support.vocabulary import argument, described
from fleetmetrics.wrappers.bootstrap import Bootstrap
from fleetmetrics.wrappers.sliced import Sliced

__all__ = ["OTHER", "Question"]

#: The role of each column in ``add``, by its argument.
_ROLES = {"score": "prediction", "label": "label", "weight": "weight", "user": "user", "join_on": "id"}
#: The arguments that name columns, and nothing else.
_OF_COLUMNS = (*_ROLES, "text")
#: The slice of all keys except the largest ones.
OTHER = "(other)"
#: An area has a histogram for each draw: this few buckets are enough for an interval's width.
_COARSE = {"buckets": 512, "tolerance": None}
#: The metrics of ranked answers that a report draws, and the numbers of places.
_AT_PLACES, _PLACES = ("ndcg", "hit_rate", "precision", "recall"), [1, 3, 10, 30, 100]


class _Resampled(Bootstrap[Any]):
    """Replicates for an interval; the result names what is too scarce for one."""

    warns = False


@dataclass(frozen=True)
class Question(Options):
    """The options for one side, checked, and the metrics that answer them.

    Args:
        compared: whether to keep the states that a comparison of slices needs.
        same_rows: whether the other side's scores are in the same rows.
        common: the ids of both sides, once they are known, if only these count; no saved state has them.
        days: the column of slices whose moments are cut to days; "": none.
        of_baseline_alone: the columns that the baseline has in place of others, with the arguments that name them.
    """

    compared: bool = False
    same_rows: bool = False
    of_baseline_alone: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)
    common: CommonIds | None = dataclasses.field(default=None, compare=False, repr=False)
    days: str = dataclasses.field(default="", compare=False, repr=False)

    @classmethod
    def of(cls, options: Options) -> Question:
        """The question about the new side; InvalidInputError if an option is invalid or contradicts another one."""
        valid = checked_options(options)
        return cls(
            **{name: getattr(valid, name) for name in OF_QUESTION},
            compared=bool(valid.by) and (options.compares or valid.ci is not None),
            same_rows=options.pairs_scores,
        )

    @functools.cached_property
    def roles(self) -> dict[str, Any]:
        """The columns of the data by role: "prediction", "label", "weight", "user", "id"."""
        return {role: getattr(self, name) for name, role in _ROLES.items() if getattr(self, name)}

    @property
    def tasks(self) -> list[str]:
        """The names of several tasks; empty: there is one task."""
        return tasks_of(self)

    @property
    def number_of_classes(self) -> int | None:
        """Of a multiclass task."""
        classes = self.classes
        return classes if classes is None or isinstance(classes, int) else len(classes)

    @functools.cached_property
    def reading(self) -> Reading:
        """How the data are read."""
        arguments = {column: "by" for slices in self.by for column in columns_of_slice(slices)}
        for name in _ROLES:
            arguments.update(dict.fromkeys(_as_names(getattr(self, name)), name))
        return SideReading(
            **reading_options(self),
            id=self.join_on or "",
            common=self.common,
            days=self.days,
            arguments={**arguments, **self.of_baseline_alone},
        )

    def of_baseline(self, score: Any = None, names: Mapping[str, str] | None = None) -> Question:
        """The same for a baseline whose columns have other names.

        Args:
            score: the column of its prediction; None: that of the other side, or from ``names``.
            names: the baseline's names of other columns, by their names on this side.

        Raises:
            InvalidInputError: no requested column has such a name.
        """
        names = renamed_columns(names)
        condition = self.reading.condition
        here = dict.fromkeys([*self.names(), *(condition.names if condition else ())])
        for name in names:
            if name not in here:
                raise InvalidInputError(
                    f"{argument('baseline_columns')}: there is no column {name!r} here; there are {', '.join(here)}"
                )

        def there(columns: Any) -> Any:
            return (
                names.get(columns, columns) if isinstance(columns, str) else [names.get(name, name) for name in columns]
            )

        def slices_there(by: str) -> str:
            return "*".join(_quoted(there(column)) for column in columns_of_slice(by)) if "*" in by else there(by)

        renamed = {name: there(getattr(self, name)) for name in _OF_COLUMNS if getattr(self, name)}
        alone = dict.fromkeys(names.values(), "baseline_columns")
        if score is not None:
            renamed["score"] = baseline_score_of(score, self)
            alone.update(dict.fromkeys(_as_names(renamed["score"]), "baseline_score"))
        by, where = [slices_there(by) for by in self.by], condition.renamed(names) if condition else None
        return dataclasses.replace(self, **renamed, by=by, where=where, of_baseline_alone=alone)

    def plain(self) -> dict[str, Any]:
        """As JSON and a saved state hold it; `of_plain` reads it."""
        plain = {
            "task": self.task,
            "columns": self.roles,
            "metrics": self.metrics,
            "classes": self.number_of_classes,
            "class_names": None if isinstance(self.classes, int) else self.classes,
            "header": self.columns,
        }
        others = (name for name in OF_QUESTION if name not in (*_ROLES, "columns", *plain))
        plain.update((name, getattr(self, name)) for name in others)
        plain.update(compared=self.compared, same_rows=self.same_rows, tasks=self.tasks)
        return {name: _as_list(value) for name, value in copy.deepcopy(plain).items()}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> Question:
        """The question that `plain` made, perhaps in an earlier version, in which several labels were one metric.

        Raises:
            InvalidInputError: this version has no such evaluation.
        """
        options = dict(plain)
        task, roles, metrics = (options.pop(name) for name in ("task", "columns", "metrics"))
        classes, names, header, tasks = (
            options.pop(name, None) for name in ("classes", "class_names", "header", "tasks")
        )
        if tasks is None and isinstance(roles.get("label"), list):
            if task == "binary":
                task = "multilabel"
            elif task != "multiclass":
                raise InvalidInputError(
                    f"its labels, {', '.join(roles['label'])}, are pooled in one {task} metric, as earlier versions "
                    "did; evaluate the data again: each label then has its own values"
                )
        columns = {name: roles.get(role) for name, role in _ROLES.items()}
        return cls(**columns, task=task, metrics=metrics, classes=names or classes, columns=header, **options)

    @functools.cached_property
    def parts(self) -> list[Question]:
        """The questions of several tasks, one for each."""
        pairs = zip(self.label, self.score) if self.tasks else ()
        return [dataclasses.replace(self, label=label, score=score) for label, score in pairs]

    # -- the metrics that were asked for ----------------------------------------------------------

    @functools.cached_property
    def named(self) -> dict[str, Named]:
        """The metrics, by their keys in the result."""
        assert self.metrics is not None
        return named(self.metrics)

    def metric(self, key: str, **settings: Any) -> Metric:
        """A new metric, without samples, by its key in the result; ``settings`` are those that it does not have."""
        names = None if isinstance(self.classes, int) else self.classes
        named_metric = self.named[key]
        metric: Metric = named_metric.metric(self.task, self.number_of_classes, target_names=names, **settings)
        return metric

    @functools.cached_property
    def ranking(self) -> str:
        """The name of the metric that ranks the slices; if none was chosen, the first metric that is a number."""
        if self.rank_by is None:
            numbers = (key for key in self.named if self.metric(key).gives == "number")
            return next(numbers, next(iter(self.named)))
        if self.rank_by not in self.named:
            known, meant = ", ".join(self.named), did_you_mean(near(self.rank_by, self.named))
            raise InvalidInputError(
                f"{argument('rank_by')} must be one of the metrics, {known}, not {self.rank_by!r}{meant}"
            )
        return self.rank_by

    @functools.cached_property
    def first(self) -> Metric:
        """The metric that ranks the slices, without samples."""
        metric = self.metric(self.ranking)
        if self.rank_by is not None and metric.gives != "number":
            raise InvalidInputError(
                f"{argument('rank_by', self.rank_by)} is not a single number, and cannot rank slices"
            )
        return metric

    def about(self) -> dict[str, dict[str, str]]:
        """The definition of each metric, and which values are better."""
        if self.tasks:
            definitions = self.parts[0].about()
            return {f"{task}.{key}": what for task in self.tasks for key, what in definitions.items()}
        return {key: described(self.metric(key)) for key in self.named}

    @functools.cached_property
    def evidence(self) -> Evidence | None:
        """The test of the metric that ranks the slices; None if it has none, or without slices."""
        if not self.by:
            return None
        return evidence_of(self.first, self.weight is not None, self.user is not None, self.task == "ranking")

    def counts(self, key: str) -> str:
        """The name of the independent units of a metric: "rows", "users" or "queries"."""
        if isinstance(self.metric(key), GroupedMetric) or self.unit == "user":
            return self._groups
        return "rows"

    @property
    def _groups(self) -> str:
        """What groups of rows are called."""
        return "queries" if self.task == "ranking" else "users"

    @property
    def unit(self) -> str | None:
        """The argument of ``add`` that groups dependent rows; None: each row is independent."""
        own = next((role for role in ("user", "id") if role in self.roles), None)
        return own or ("row" if self.same_rows else None)

    # -- all metrics that the answer needs --------------------------------------------------------

    def probe(self) -> Probe[Metric]:
        """New metrics; InvalidInputError for an invalid metric or setting."""
        if self.tasks:
            return Probe(self._rows(), {}, tasks=[part.probe() for part in self.parts])
        values = {key: self.metric(key) for key in self.named}
        intervals = {key: self.interval(key) for key in self.named} if self.ci else {}
        regression = self.task == "regression"
        return Probe(
            self._rows(),
            values,
            {key: interval for key, interval in intervals.items() if interval is not None},
            {name: new() for name, new in self._sizes().items()},
            [self._slices(by) for by in self._arguments()],
            self.evidence.of_whole() if self.evidence else None,
            self._at_k(),
            Errors() if regression else None,
            Actual() if regression else None,
            Joined() if "id" in self.roles else None,
        )

    def _rows(self) -> Rows:
        return Rows(several=self.task in ("multilabel", "multiclass"))

    def _at_k(self) -> dict[str, Metric]:
        """The metrics of ranked answers at several places, by name."""
        if self.task != "ranking":
            return {}
        ranked = (key for key, one in self.named.items() if one.k and one.name in _AT_PLACES)
        return {key.partition("@")[0]: self.metric(key, k=_PLACES) for key in ranked}

    def _slices(self, by: str) -> Slices[Metric]:
        def sliced(metric: Metric) -> Metric:
            return Sliced(metric, by, max_keys=None, other=OTHER)

        compared = compared_metric(self.first, self.unit) if self._is_compared else None
        return Slices(
            sliced(self._rows()),
            {key: sliced(self.metric(key)) for key in self.named},
            {name: sliced(new()) for name, new in self._sizes().items()},
            sliced(self.evidence.of_slice()) if self.evidence else None,
            sliced(compared) if compared else None,
        )

    @property
    def _is_compared(self) -> bool:
        """Whether slices are compared; rows of several labels only if a column groups dependent rows."""
        return self.compared and (self.unit is not None or self.task != "multilabel")

    def interval(self, key: str) -> Metric | None:
        """A metric in a form that gives its interval, by its key; None if it has no interval.

        The independent units are users, otherwise the ids that join the baseline, otherwise rows. A metric without a
        formula is resampled; its interval is moved to its value.
        """
        metric = self.metric(key)
        if metric.gives != "number" or metric.biased:
            return None
        by_formula = overall_metric(metric, self.unit or ("row" if self.task == "multilabel" else None))
        if by_formula is not None:
            return by_formula
        if any(metric.record_metrics()):  # of all samples at once: it has no per-sample sums to reweight
            return None
        counted_in_cells = metric.cell_states and self.weight is None and self.task != "multilabel"
        ids = self.unit or (None if counted_in_cells else "row")
        if ids is not None:
            metric = self.metric(key, **_COARSE)
        assert self.ci is not None
        return _Resampled(metric, self.replicates, confidence=self.ci, ids=ids, name=metric.name)

    def _sizes(self) -> dict[str, Callable[[], Metric]]:
        """The further counts besides rows, with functions that make their metrics: positives, and users if kept."""
        metrics = [self.metric(key) for key in self.named]
        binary = self.task == "binary" and (
            bool(self.positive)
            or self.min_positives > 0
            or any("class_label" in metric.requirements for metric in metrics)
        )
        sizes: dict[str, Callable[[], Metric]] = {"positives": Positives} if binary else {}
        of_users = (metric for metric in metrics if isinstance(metric, GroupedMetric) and metric.table.order == "user")
        grouped = next(of_users, None)
        if grouped is not None:
            sizes[self._groups] = functools.partial(GroupCount, grouped)
        return sizes

    # -- the columns that the metrics take --------------------------------------------------------

    def _arguments(self) -> list[str]:
        """The argument of ``add`` for each column of slices; a column may have a name that is not an argument."""
        taken = ("self", "prediction", "label", "weight", "mask", "user", "id", "row")
        return [by if by.isidentifier() and by not in taken else self._free(place) for place, by in enumerate(self.by)]

    def _free(self, place: int) -> str:
        """The argument for a column of slices, by its place, that is not the name of another column."""
        name = f"slice_{place}"
        while name in self.by:
            name += "_"
        return name

    def in_words(self, text: str) -> str:
        """A warning of a metric, with the columns of slices as they were given."""
        for name, by in zip(self._arguments(), self.by):
            text = by.join(re.split(rf"\b{name}\b", text)) if name != by else text
        return text

    def names(self) -> list[str]:
        """The columns of the data, each once."""
        several = [*self.roles.values(), *map(columns_of_slice, self.by)]
        return list(dict.fromkeys(name for names in several for name in ([names] if isinstance(names, str) else names)))

    def columns_of(self, metrics: Any) -> dict[str, Any]:
        """The column of each argument of ``add`` that the metrics need; InvalidInputError if one was not named."""
        slices = {}
        for name, by in zip(self._arguments(), self.by):
            columns = columns_of_slice(by)
            slices[name] = columns if len(columns) > 1 else columns[0]
        needed = {name: metric for metric in metrics.leaf_metrics() for name in metric.columns}
        documents = {getattr(metric, "document", "") for metric in metrics.leaf_metrics()}
        known = {**{name: name for name in documents}, **self.roles, "row": ROW, **slices}
        for name, metric in needed.items():
            if known.get(name) is None:
                keys = (key for key in self.named if name in self.metric(key).columns)
                what = f"{next(keys, metric.name)} needs the column of the {name}"
                if name != "user":
                    raise InvalidInputError(f"{what}, which only its add takes; leave it out")
                raise InvalidInputError(f"{what}; give {argument('user', 'COLUMN')}")
        label = [] if metrics.takes_label is False else ["label"]
        used = ["prediction", *label, "weight", *needed]
        return {name: known[name] for name in used if name in known}


def _as_names(columns: Any) -> list[str]:
    """The names of no, one or several columns."""
    return [columns] if isinstance(columns, str) else list(columns or ())


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _quoted(name: str) -> str:
    """A name to use between stars."""
    return f'"{name}"' if "*" in name else name
