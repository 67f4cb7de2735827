"""The arguments of an evaluation, and the metrics that it needs."""

from __future__ import annotations

import dataclasses
import functools
import re
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from fleetmetrics.base.metric import Metric
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.columns.joining import CommonIds
from fleetmetrics.columns.reading import ON_FILES, JoinedReading, Reading
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluation.counted import Actual, Errors, Joined, Positives, Rows
from fleetmetrics.evaluation.evidence import Evidence, GroupCount, evidence_of
from fleetmetrics.evaluation.named import TASKS, Named, named, separated
from fleetmetrics.evaluation.probe import Probe, Slices
from fleetmetrics.evaluation.versus import compared_metric, overall_metric
from fleetmetrics.files import ROW
from fleetmetrics.files.formats import FORMATS
from fleetmetrics.support.checks import MOST_EDGES, choice_of, flag_of, number_of, whole_number_of
from fleetmetrics.support.vocabulary import argument, counted, described, names_in
from fleetmetrics.wrappers.bootstrap import Bootstrap
from fleetmetrics.wrappers.sliced import Sliced

__all__ = ["OTHER", "Asked", "check_always_valid"]

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
class Asked:
    """The arguments for each side, which JSON and a saved state hold.

    Args:
        task: "binary", "multiclass", "multilabel", "regression" or "ranking".
        columns: the columns of the data by role: "prediction", "label", "weight", "user", "id".
        metrics: as strings; see `fleetmetrics.evaluation.named`.
        classes: the number of classes of a multiclass task.
        by: the columns of slices; a star between columns crosses them.
        ci: the confidence of intervals; None: no intervals.
        max_slices: the number of slices to keep of each column, the largest.
        min_positives: a slice with fewer positives gets no verdict.
        rank_by: the name of the metric that ranks and tests the slices; None: the first one.
        draws: the number of resamples for intervals of metrics without a formula for one.
        positive, class_names, logits, scale, where, text, header, quote, separator, encoding, null, format: of
            `fleetmetrics.files.Reading`.
        compared: whether to keep the states that a comparison of slices needs.
        same_rows: whether the other side's scores are in the same rows.
        join: "inner": only rows with ids of both sides count; None: both have the same ids.
        tasks: the names of several tasks, those of the label columns; empty: there is one task.
        common: these ids, once they are known; no saved state has them.
    """

    task: str
    columns: Mapping[str, Any]
    metrics: Sequence[str]
    classes: int | None = None
    by: Sequence[str] = ()
    ci: float | None = None
    max_slices: int = 1000
    min_positives: int = 0
    rank_by: str | None = None
    draws: int = 1000
    positive: str | None = None
    class_names: Sequence[str] | None = None
    logits: bool = False
    scale: float = 1.0
    where: str | None = None
    text: Sequence[str] = ()
    header: Sequence[str] | None = None
    quote: str | None = None
    separator: str | None = None
    encoding: str | None = None
    null: Sequence[str] = ()
    format: str | None = None
    compared: bool = False
    same_rows: bool = False
    join: str | None = None
    tasks: Sequence[str] = ()
    common: CommonIds | None = dataclasses.field(default=None, compare=False, repr=False)

    @staticmethod
    def of(
        *,
        label: Any,
        score: Any,
        task: str = "binary",
        classes: int | Sequence[str] | None = None,
        weight: str | None = None,
        user: str | None = None,
        by: str | Sequence[str] = (),
        metrics: str | Sequence[str] | None = None,
        ci: float | None = None,
        join_on: str | None = None,
        join: str | None = None,
        max_slices: int = 1000,
        min_positives: int = 0,
        rank_by: str | None = None,
        draws: int = 1000,
        positive: str | None = None,
        logits: bool = False,
        scale: float = 1.0,
        where: str | None = None,
        text: str | Sequence[str] = (),
        header: Sequence[str] | None = None,
        quote: str | None = None,
        separator: str | None = None,
        encoding: str | None = None,
        null: str | Sequence[str] = (),
        format: str | None = None,
        compared: bool = False,
        same_rows: bool = False,
        always_valid: int | None = None,
    ) -> Asked:
        """The checked form of these arguments of `fleetmetrics.evaluate`.

        ``compared``: whether there is a baseline; ``same_rows``: whether it is a column of the same rows.

        Raises:
            InvalidInputError: an argument is invalid, or contradicts another argument.
        """
        score, label = _one_or_several(score), _one_or_several(label)
        columns = {"prediction": score, "label": label, "weight": weight, "user": user, "id": join_on}
        for name, column in zip(("score", "label", "weight", "user", "join_on"), columns.values()):
            _check_columns(name, column, name in ("score", "label"))
        choice_of(argument("task"), task, tuple(TASKS))
        flag_of(argument("logits"), logits)
        min_positives = whole_number_of(argument("min_positives"), min_positives, 0)
        names = list(classes) if isinstance(classes, (list, tuple)) else None
        _check_scores(task, label, score, names)
        if positive is not None and task not in ("binary", "multilabel"):
            raise InvalidInputError(f"{argument('positive')} belongs to {argument('task', 'binary')}, not {task}")
        if logits and task not in ("binary", "multiclass", "multilabel"):
            raise InvalidInputError(f"{argument('logits')} is for probabilities, not {argument('task', task)}")
        reading = Reading(
            header=header,
            text=_texts("text", text),
            where=where,
            positive=positive,
            classes=names,
            logits=logits,
            scale=scale,
            quote=quote,
            separator=separator,
            encoding=encoding,
            null=null,
            format=choice_of(argument("format"), format, (None, *FORMATS)),
        )
        _check_comparison(compared, join_on, join, always_valid)
        if ci is not None:
            ci = number_of(argument("ci"), ci, 5e-324, 1 - 2**-53, "a number between 0 and 1, such as 0.95")
        elif join_on or same_rows or always_valid:
            ci = 0.95
        if metrics is None:
            metrics = TASKS[task]
            if task == "binary" and user:
                metrics += ",gauc"
            if task == "multiclass" and isinstance(score, (list, tuple)):
                metrics += ",log_loss"
        slices = _texts("by", by)
        if not all(all(_crossed(each)) for each in slices):
            raise InvalidInputError(f"{argument('by')}: write crossed columns as {argument('by', 'country*day')}")
        if min_positives and task != "binary":
            raise InvalidInputError(
                f"{argument('min_positives')} needs labels of 0 and 1, {argument('task', 'binary')}"
            )
        _check_slices(slices, rank_by)
        reading.check_texts([*filter(None, (user, join_on)), *(name for each in slices for name in _crossed(each))])
        given = {name: _one_or_several(column) for name, column in columns.items()}
        tasks = _tasks(task, given["label"])
        listed = separated(metrics) if isinstance(metrics, str) else _texts("metrics", metrics)
        if tasks:
            _check_of_one_label(listed)
        return Asked(
            task=task,
            columns={name: column for name, column in given.items() if column},
            metrics=listed,
            classes=_number_of_classes(task, score, len(names) if names is not None else classes),
            by=slices,
            ci=ci,
            max_slices=whole_number_of(argument("max_slices"), max_slices, 1),
            min_positives=min_positives,
            rank_by=rank_by,
            draws=whole_number_of(argument("draws"), draws, 10, MOST_EDGES),
            positive=positive,
            class_names=names,
            logits=logits,
            scale=float(scale),
            where=where,
            text=reading.text,
            header=None if header is None else list(header),
            quote=quote,
            separator=separator,
            encoding=encoding,
            null=list(reading.null),
            format=format,
            compared=bool(slices) and (compared or ci is not None),
            same_rows=same_rows,
            join=join,
            tasks=tasks,
        )

    @functools.cached_property
    def reading(self) -> Reading:
        """How the data are read."""
        names = ("header", "text", "where", "positive", "logits", "scale", *ON_FILES)
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        given["classes"] = self.class_names
        return JoinedReading(**given, id=self.columns["id"], common=self.common) if self.common else Reading(**given)

    def of_baseline(self, score: Any = None, names: Mapping[str, str] | None = None) -> Asked:
        """The same for a baseline whose columns have other names.

        Args:
            score: the column of its prediction; None: that of the other side, or from ``names``.
            names: the baseline's names of other columns, by their names on this side.

        Raises:
            InvalidInputError: no requested column has such a name.
        """
        names = names_by_names(names)
        condition = self.reading.condition
        here = dict.fromkeys([*self.names(), *(condition.names if condition else ())])
        for name in names:
            if name not in here:
                known = ", ".join(here)
                raise InvalidInputError(
                    f"{argument('baseline_columns')}: there is no column {name!r} here; there are {known}"
                )

        def there(column: Any) -> Any:
            return names.get(column, column) if isinstance(column, str) else [names.get(each, each) for each in column]

        columns = {name: there(column) for name, column in self.columns.items()}
        if score is not None:
            _check_columns("baseline_score", score, True)
            columns["prediction"] = _one_or_several(score)
            if self.tasks:
                _check_pairs(self.columns["label"], columns["prediction"], "baseline_score")
        by = ["*".join(map(_quoted, map(there, _crossed(each)))) if "*" in each else there(each) for each in self.by]
        where = condition.renamed(names) if condition else None
        return dataclasses.replace(self, columns=columns, by=by, where=where, text=there(list(self.text)))

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        found = dataclasses.asdict(dataclasses.replace(self, common=None))
        del found["common"]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}

    @staticmethod
    def of_plain(plain: Mapping[str, Any]) -> Asked:
        """The arguments that `plain` made, perhaps in an earlier version, in which several labels were one metric.

        Raises:
            InvalidInputError: this version has no such evaluation.
        """
        given = dict(plain)
        if "tasks" not in given and isinstance(given["columns"].get("label"), list):
            if given["task"] == "binary":
                given["task"] = "multilabel"
            elif given["task"] != "multiclass":
                raise InvalidInputError(
                    f"its labels, {', '.join(given['columns']['label'])}, are pooled in one {given['task']} metric, as "
                    "earlier versions did; evaluate the data again: each label then has its own values"
                )
        return Asked(**given)

    @functools.cached_property
    def parts(self) -> list[Asked]:
        """The arguments of each task."""
        score, label = self.columns["prediction"], self.columns["label"]
        one = [{**self.columns, "prediction": score[at], "label": label[at]} for at in range(len(self.tasks))]
        return [dataclasses.replace(self, columns=columns, tasks=()) for columns in one]

    @functools.cached_property
    def named(self) -> dict[str, Named]:
        """The metrics, by their keys in the result."""
        return named(self.metrics)

    def _made(self, metric: Named, **more: Any) -> Any:
        return metric.made(self.task, self.classes, **more)

    def made(self, key: str) -> Metric:
        """A new metric, without samples, by its key in the result."""
        found: Metric = self._made(self.named[key])
        return found

    @functools.cached_property
    def ranking(self) -> str:
        """The name of the metric that ranks the slices; if none was chosen, the first metric that is a number."""
        if self.rank_by is None:
            numbers = (key for key, each in self.named.items() if self._made(each).gives == "number")
            return next(numbers, next(iter(self.named)))
        if self.rank_by not in self.named:
            known = ", ".join(self.named)
            raise InvalidInputError(f"{argument('rank_by')} must be one of the metrics, {known}, not {self.rank_by!r}")
        return self.rank_by

    @functools.cached_property
    def first(self) -> Metric:
        """The metric that ranks the slices, without samples."""
        metric: Metric = self._made(self.named[self.ranking])
        if self.rank_by is not None and metric.gives != "number":
            raise InvalidInputError(
                f"{argument('rank_by', self.rank_by)} is not a single number, and cannot rank slices"
            )
        return metric

    def about(self) -> dict[str, dict[str, str]]:
        """The definition of each metric, and which values are better."""
        if self.tasks:
            about = self.parts[0].about()
            return {f"{task}.{key}": each for task in self.tasks for key, each in about.items()}
        return {key: described(self._made(each)) for key, each in self.named.items()}

    @functools.cached_property
    def evidence(self) -> Evidence | None:
        """The test of the metric that ranks the slices; None if it has none, or without slices."""
        if not self.by:
            return None
        return evidence_of(self.first, "weight" in self.columns, "user" in self.columns, self.task == "ranking")

    def counts(self, key: str) -> str:
        """The name of the independent units of a metric: "rows", "users" or "queries"."""
        if isinstance(self.made(key), GroupedMetric) or self.unit == "user":
            return "queries" if self.task == "ranking" else "users"
        return "rows"

    @property
    def unit(self) -> str | None:
        """The argument of ``add`` that groups dependent rows; None: each row is independent."""
        own = next((each for each in ("user", "id") if each in self.columns), None)
        return own or ("row" if self.same_rows else None)

    # -- the metrics ------------------------------------------------------------------------------

    def probe(self) -> Probe[Metric]:
        """New metrics; InvalidInputError for an invalid metric or setting. Only the keys of ``columns`` are used."""
        keys = self.named
        if self.tasks:
            return Probe(self._rows(), {}, tasks=[part.probe() for part in self.parts])
        intervals = {key: self.interval(each) for key, each in keys.items()} if self.ci else {}
        at_k = {
            key.partition("@")[0]: self._made(each, k=_PLACES)
            for key, each in keys.items()
            if self.task == "ranking" and each.k and each.name in _AT_PLACES
        }
        return Probe(
            self._rows(),
            {key: self._made(each) for key, each in keys.items()},
            {key: each for key, each in intervals.items() if each is not None},
            {name: make() for name, make in self._sizes().items()},
            [self._slices(by) for by in self._arguments()],
            self.evidence.of_whole() if self.evidence else None,
            at_k,
            Errors() if self.task == "regression" else None,
            Actual() if self.task == "regression" else None,
            Joined() if "id" in self.columns else None,
        )

    def _rows(self) -> Rows:
        return Rows(several=self.task in ("multilabel", "multiclass"))

    def _slices(self, by: str) -> Slices[Metric]:
        def sliced(metric: Metric) -> Metric:
            return Sliced(metric, by, max_keys=None, other=OTHER)

        compared = compared_metric(self.first, self.unit) if self._is_compared else None
        return Slices(
            sliced(self._rows()),
            {key: sliced(self._made(each)) for key, each in self.named.items()},
            {name: sliced(make()) for name, make in self._sizes().items()},
            sliced(self.evidence.of_slice()) if self.evidence else None,
            sliced(compared) if compared else None,
        )

    @property
    def _is_compared(self) -> bool:
        """Whether slices are compared; rows of several labels only if a column groups dependent rows."""
        return self.compared and (self.unit is not None or self.task != "multilabel")

    def interval(self, metric: Named) -> Metric | None:
        """The metric in a form that gives its interval; None if it has no interval.

        The independent units are users, otherwise the ids that join the baseline, otherwise rows. A metric without a
        formula is resampled; its interval is moved to its value.
        """
        made = self._made(metric)
        if made.gives != "number" or made.biased:
            return None
        found = overall_metric(made, self.unit or ("row" if self.task == "multilabel" else None))
        if found is not None:
            return found
        alone = made.cell_states and "weight" not in self.columns and self.task != "multilabel"
        ids = self.unit or (None if alone else "row")
        if any(made.record_metrics()):  # of all samples at once: it has no per-sample sums to reweight
            return None
        if ids is not None:
            made = self._made(metric, **_COARSE)
        assert self.ci is not None
        return _Resampled(made, self.draws, confidence=self.ci, ids=ids, name=made.name)

    def _sizes(self) -> dict[str, Callable[[], Metric]]:
        """The further counts besides rows, with functions that make their metrics: positives, and users if kept."""
        metrics = [self._made(each) for each in self.named.values()]
        binary = self.task == "binary" and (
            bool(self.positive) or self.min_positives > 0 or any("class_label" in each.requirements for each in metrics)
        )
        found: dict[str, Callable[[], Metric]] = {"positives": Positives} if binary else {}
        for metric in metrics:
            if isinstance(metric, GroupedMetric) and metric.table.order == "user":
                found["queries" if self.task == "ranking" else "users"] = functools.partial(GroupCount, metric)
                break
        return found

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
        given = [*self.columns.values(), *map(_crossed, self.by)]
        return list(dict.fromkeys(name for each in given for name in ([each] if isinstance(each, str) else each)))

    def columns_of(self, metrics: Any) -> dict[str, Any]:
        """The column of each argument of ``add`` that the metrics need; InvalidInputError if one was not named."""
        slices = [_crossed(each) if len(_crossed(each)) > 1 else _crossed(each)[0] for each in self.by]
        given = {**self.columns, "row": ROW, **dict(zip(self._arguments(), slices))}
        needed = {name: metric for metric in metrics.leaf_metrics() for name in metric.columns}
        for name, metric in needed.items():
            if given.get(name) is None:
                asked = (key for key, each in self.named.items() if name in self._made(each).columns)
                raise InvalidInputError(
                    f"{next(asked, metric.name)} needs the column of the {name}; give {argument('user', 'COLUMN')}"
                )
        label = [] if metrics.takes_label is False else ["label"]
        used = ["prediction", *label, "weight", *needed]
        return {name: given[name] for name in used if name in given}


def _quoted(name: str) -> str:
    """A name to use between stars."""
    return f'"{name}"' if "*" in name else name


def check_always_valid(rows: Any) -> None:
    """Raise InvalidInputError unless this is a number of rows, or None."""
    if rows is not None:
        whole_number_of(argument("always_valid"), rows, 1, 2**63 - 1)


def names_by_names(given: Any) -> Mapping[str, str]:
    """The baseline's names of columns; None: no other names. InvalidInputError for anything else."""
    names = {} if given is None else given
    if not isinstance(names, Mapping) or not all(isinstance(each, str) for both in names.items() for each in both):
        raise InvalidInputError(f"{argument('baseline_columns')} must be a dict of column names, not {given!r:.80}")
    return names


def _crossed(by: str) -> list[str]:
    """The columns that make the slices together; a name in double quotes may hold a star."""
    return names_in(by, "*")


def _one_or_several(column: Any) -> Any:
    """A column's name, or a list of several; a list of one is that one."""
    if isinstance(column, (list, tuple)):
        return column[0] if len(column) == 1 else list(column)
    return column


def _check_scores(task: str, label: Any, score: Any, names: Sequence[str] | None) -> None:
    """Raise InvalidInputError unless the number of score columns fits the task, labels and classes."""
    number = len(score) if isinstance(score, list) else 1
    if names is not None and (task != "multiclass" or (isinstance(score, list) and number != len(names))):
        raise InvalidInputError(
            f"{argument('classes')} must name the classes of {argument('task', 'multiclass')}, one per column of "
            f"{argument('score')} if there are several columns; there are {len(names)} names, "
            f"{argument('task', task)} and {number} column(s)"
        )
    if task == "multiclass" and isinstance(label, list):
        raise InvalidInputError(
            f"{argument('task', 'multiclass')} takes one column of labels, not {', '.join(label)}; evaluate one label "
            "at a time"
        )
    if task != "multiclass":
        _check_pairs(label, score)


def _check_pairs(label: Any, score: Any, name: str = "score") -> None:
    """Raise InvalidInputError unless there is a score column for each label; ``name``: of the argument of scores."""
    labels, scores = (each if isinstance(each, list) else [each] for each in (label, score))
    if len(labels) == len(scores):
        return
    many, few = ("label", name) if len(labels) > len(scores) else (name, "label")
    texts = {"label": labels, name: scores}
    other = ""
    if len(labels) == 1 and name == "score":
        other = (
            f"; or, for classes, {argument('task', 'multiclass')}; to compare two models, give "
            f"{argument('score', scores[0])} and {argument('baseline_score', scores[1])}"
        )
    raise InvalidInputError(
        f"{argument(many)} names {counted(len(texts[many]), 'columns')}, {', '.join(texts[many])}, but {argument(few)} "
        f"names {len(texts[few])}, {', '.join(texts[few])}; each label is a task with its own score: give the same "
        f"number of both, in the same order{other}"
    )


def _tasks(task: str, label: Any) -> list[str]:
    """The names of several tasks; InvalidInputError if one cannot be a name of a task."""
    if not isinstance(label, list) or task in ("multilabel", "multiclass"):
        return []
    for name in label:
        if label.count(name) > 1:
            raise InvalidInputError(
                f"{argument('label')} names {name!r} {label.count(name)} times, and a task has the name of its label; "
                f"to compare two scores of one label, give {argument('baseline_score')}"
            )
    return label


def _check_of_one_label(metrics: Sequence[str]) -> None:
    """Raise InvalidInputError if a metric takes several labels at once."""
    for each in named(metrics).values():
        if "num_labels" in each.settings or each.settings.get("task") == "multilabel":
            raise InvalidInputError(
                f"{argument('metrics')}: {each.text} is one metric of several labels, and each label is a task with its"
                f" own; leave num_labels out, or evaluate all labels together, {argument('task', 'multilabel')}"
            )


def _number_of_classes(task: str, score: Any, classes: Any) -> int | None:
    """The number of classes of a multiclass task."""
    if classes is not None and task != "multiclass":
        raise InvalidInputError(f"{argument('classes')} is for {argument('task', 'multiclass')}, not {task}")
    if classes is not None:
        classes = whole_number_of(argument("classes"), classes, 2)
    if task != "multiclass":
        return None
    if classes is None and not isinstance(score, (list, tuple)):
        each = argument("score", "p0,p1,p2")
        text = f"give {argument('classes', 'N')}, or one column per class, {each}"
        raise InvalidInputError(f"{argument('task', 'multiclass')}: {text}")
    return len(score) if classes is None else int(classes)


def _check_comparison(compared: bool, join_on: Any, join: Any, always_valid: Any) -> None:
    """Raise InvalidInputError if the arguments of a comparison are invalid, or there is no comparison."""
    if join_on and not compared:
        raise InvalidInputError(
            f"{argument('join_on')} joins the data with the data of {argument('baseline')}; give both"
        )
    choice_of(argument("join"), join, (None, "inner"))
    if join and not (join_on and compared):
        raise InvalidInputError(
            f"{argument('join', join)} joins the data with the data of {argument('baseline')} by the ids in "
            f"{argument('join_on', 'COLUMN')}; give all three"
        )
    check_always_valid(always_valid)
    if always_valid is not None and not compared:
        raise InvalidInputError(f"{argument('always_valid')} is for deltas; give {argument('baseline')} too")


def _check_slices(by: Sequence[str], rank_by: Any) -> None:
    """Raise InvalidInputError if a column of slices is repeated, or there are no slices that a metric could rank."""
    twice = next((each for place, each in enumerate(by) if each in by[:place]), None)
    if twice is not None:
        raise InvalidInputError(f"{argument('by')} names {twice!r} twice; name it once")
    if rank_by is not None and not isinstance(rank_by, str):
        raise InvalidInputError(f"{argument('rank_by')} must be the name of a metric, or None, not {rank_by!r:.80}")
    if rank_by is not None and not by:
        raise InvalidInputError(f"{argument('rank_by')} ranks slices; give {argument('by', 'COLUMN')} too")


def _check_columns(name: str, given: Any, several: bool) -> None:
    """Raise InvalidInputError unless this is a column's name, or several or None if allowed."""
    names = given if several and isinstance(given, (list, tuple)) and given else [given]
    if not all((isinstance(each, str) and each) or (each is None and not several) for each in names):
        allowed = "the name of a column" + (", or a list of names" if several else " or None")
        raise InvalidInputError(f"{argument(name)} must be {allowed}, not {given!r:.80}")


def _texts(name: str, given: Any) -> list[str]:
    """One string or several, as a list without empty ones; None: no strings."""
    texts = [given] if isinstance(given, str) else [] if given is None else given
    if not isinstance(texts, (list, tuple)) or not all(isinstance(each, str) for each in texts):
        raise InvalidInputError(f"{argument(name)} must be a string, or a list of strings, not {given!r:.80}")
    return [each for each in texts if each]
