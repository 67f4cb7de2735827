"""Histograms of the scores of a class and of the other samples, from which areas, curves and points are read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fleetmetrics.arguments import MOST_ENTRIES, choice_of, flag_of, whole_number_of
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metric import Settings, Undefinable
from fleetmetrics.metrics.classification import task as tasks
from fleetmetrics.metrics.classification.losses import DISTRIBUTION, check_scores
from fleetmetrics.metrics.classification.task import Task
from fleetmetrics.state import Lanes
from fleetmetrics.xp.score_buckets import LOG_ODDS_MAX, lowest_scores

if TYPE_CHECKING:
    from typing_extensions import Unpack


BUCKETS = 4096
_SPACINGS = ("log_odds", "linear")


@statistic
def _by_class_and_bucket(batch: Batch, buckets: int, spacing: str, from_logits: bool) -> Any:
    score = batch.probability(True) if from_logits else batch.scores
    return batch.histogram(batch.xp.cast(batch.labels, "int64"), _bucket(batch.xp, score, buckets, spacing))


def _bucket(xp: Any, score: Any, buckets: int, spacing: str) -> Any:
    return xp.bucket(score, buckets - 1) if spacing == "linear" else xp.log_odds_bucket(score, buckets)


@statistic
def _by_task(batch: Batch, task: Task, buckets: int, spacing: str) -> Any:
    """Each class against all others, or each label; or one class, whose labels may be ignored."""
    xp, flags, score = batch.xp, tasks.counted(batch, task), _probabilities(batch, task)
    which: tuple[Any, ...] = ()
    if task.kind == "multiclass":
        batch = batch.one_vs_rest()
        flags = None if flags is None else xp.repeat(flags, task.size)
        label = batch.labels
    else:
        label = tasks.label_classes(batch, task)
    if task.kind != "binary":
        which = (batch.label_index,)
    return batch.histogram(*which, xp.cast(label, "int64"), _bucket(xp, score, buckets, spacing), amount=flags)


def _probabilities(batch: Batch, task: Task) -> Any:
    """Probabilities of each label, or of each class of each sample, flat; arbitrary where the label is ignored."""
    xp = batch.xp
    if task.from_logits:
        if task.kind != "multiclass":
            return xp.sigmoid(tasks.logits(batch, task))
        table = tasks.scores(batch, task)
        odds = xp.exp(xp.subtract(table, xp.reshape(xp.largest_of_rows(table), [-1, 1])))
        return xp.reshape(xp.divide(odds, xp.reshape(xp.sum_of_rows(odds), [-1, 1])), [-1])
    flags = tasks.counted(batch, task)
    if task.kind != "multiclass":
        return tasks.zero_unless(batch, flags, batch.scores)
    rows = flags if flags is None else xp.reshape(flags, [-1, 1])
    return xp.reshape(tasks.zero_unless(batch, rows, batch.prediction), [-1])


class LogitSettings(Settings, total=False):
    """Arguments of every metric of probabilities or logits."""

    from_logits: bool


def probability_rules(from_logits: bool) -> tuple[str | Requirement, ...]:
    """The requirements of a metric that takes probabilities of class 1, or logits, and labels 0 or 1."""
    return ("finite_prediction" if from_logits else "probability", "class_label")


class OfProbabilities(Undefinable):
    """A metric of the probabilities, or logits, of class 1."""

    def __init__(self, *, from_logits: bool = False, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self.from_logits = flag_of("from_logits", from_logits)
        self.requirements = probability_rules(self.from_logits)


class BucketHistogram(OfProbabilities):
    """A histogram of the scores of each class; in a collection, shared by all metrics with the same buckets."""

    def declare_buckets(self, buckets: int, spacing: str) -> None:
        """Declare the histogram: row 0 holds the samples labelled 0, row 1 those labelled 1."""
        self.buckets, self.spacing = buckets, spacing
        self.declare("histogram", (2, buckets), key=("scores by class", spacing, buckets, self.from_logits))

    @property
    def cells(self) -> tuple[str, ...]:
        """See `Metric.cells`; several classes or labels have several histograms of the same samples."""
        return ("histogram",) if len(self.states["histogram"].shape) == 2 else ()

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {"histogram": _by_class_and_bucket(batch, self.buckets, self.spacing, self.from_logits)}


class HistogramSettings(LogitSettings, total=False):
    """Arguments of every `ScoreHistogram`."""

    buckets: int | None
    spacing: Literal["log_odds", "linear"] | None
    num_thresholds: int | None


class ScoreHistogram(BucketHistogram):
    """A metric of a histogram of scores; arguments as for `fleetmetrics.ROCCurve`."""

    def __init__(
        self,
        *,
        buckets: int | None = None,
        spacing: Literal["log_odds", "linear"] | None = None,
        num_thresholds: int | None = None,
        **settings: Unpack[LogitSettings],
    ) -> None:
        super().__init__(**settings)
        self.declare_buckets(*_layout(buckets, spacing, num_thresholds))

    @property
    def lowest_scores(self) -> np.ndarray:
        """The lowest probability of each bucket: the thresholds of curves, float64 ``[buckets]``."""
        return lowest_scores(self.buckets, self.spacing)


class ClassSettings(HistogramSettings, total=False):
    """Arguments of all `ClassHistograms`."""

    task: Literal["binary", "multiclass", "multilabel"] | None
    num_classes: int | None
    num_labels: int | None
    average: Literal["macro", "weighted", "micro", "none"] | None
    ignore_index: int | None


class ClassHistograms(ScoreHistogram):
    """A histogram of scores, or one for each of several classes or labels; arguments as for `fleetmetrics.AUC`.

    In a `fleetmetrics.MetricCollection` metrics with the same task and buckets share them.
    """

    def __init__(
        self,
        *,
        task: Literal["binary", "multiclass", "multilabel"] | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: Literal["macro", "weighted", "micro", "none"] | None = "macro",
        ignore_index: int | None = None,
        **settings: Unpack[HistogramSettings],
    ) -> None:
        super().__init__(**settings)
        from_logits = self.from_logits
        self.task = tasks.task_of(task, num_classes, num_labels, 0.5, from_logits, ignore_index)
        choice_of("average", average, ("macro", "weighted", "micro", "none", None))
        kind = self.task.kind
        if average != "macro" and kind == "binary":
            raise InvalidInputError(
                f"average belongs to task='multiclass' and 'multilabel', not {average!r} to task='binary', of which "
                "there is one area"
            )
        self.average = average
        self._plain = kind == "binary" and ignore_index is None
        if self._plain:
            return
        rule: Requirement | str = self.requirements[0]
        if kind == "multiclass" and not from_logits:
            rule = DISTRIBUTION
        self.requirements = (tasks.unless_ignored(rule, self.task.ignore_index), self.task.label_rule)
        shape = (2, self.buckets) if kind == "binary" else (self.task.size, 2, self.buckets)
        if math.prod(shape) > MOST_ENTRIES:
            argument = "num_classes" if kind == "multiclass" else "num_labels"
            fits = MOST_ENTRIES // (2 * self.task.size)
            raise InvalidInputError(
                f"{argument}={self.task.size} with buckets={self.buckets} would be {math.prod(shape)} numbers; at most "
                f"{MOST_ENTRIES} (8 GiB) are allowed: give "
                + (f"buckets={fits} or fewer" if fits > 1 else f"fewer {argument[4:]}")
            )
        self.declare("histogram", shape, key=("scores by class", self.spacing, self.buckets, self.task))

    def declare(
        self, name: str, shape: tuple[int, ...] = (), dtype: str = "int64", reduction: str = "sum", key: Any = None
    ) -> None:
        super().declare(name, shape, dtype, reduction, key)
        if len(shape) > 2:  # for a thousand classes 64 MiB, of which a batch touches few entries
            self.states[name] = Lanes(f"{self.name}.{name}", shape, dtype, reduction, key)

    @property
    def entry(self) -> str:
        """What each histogram is of."""
        return "label" if self.task.kind == "multilabel" else "class"

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        if not self._plain or batch.classes > 2:
            check_scores(self.task, batch)
        return self.requirements

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        if self._plain:
            return super().batch_statistics(batch)
        return {"histogram": _by_task(batch, self.task, self.buckets, self.spacing)}


def _layout(buckets: int | None, spacing: str | None, num_thresholds: int | None) -> tuple[int, str]:
    """The number of buckets and their spacing."""
    if spacing is not None:
        choice_of("spacing", spacing, _SPACINGS)
    if num_thresholds is None:
        spacing = spacing or "log_odds"
        number = BUCKETS if buckets is None else whole_number_of("buckets", buckets, 2, MOST_ENTRIES // 2)
        if spacing == "log_odds" and number > LOG_ODDS_MAX:
            raise InvalidInputError(f"buckets must be at most 2**24 with spacing='log_odds', not {number}")
        return number, spacing
    number = whole_number_of("num_thresholds", num_thresholds, 1, MOST_ENTRIES // 2 - 1) + 1
    if spacing == "log_odds":
        raise InvalidInputError(
            "num_thresholds means Paddle's buckets, spacing='linear'; give buckets= instead for spacing='log_odds'"
        )
    if buckets not in (None, number):
        raise InvalidInputError(
            f"num_thresholds={num_thresholds} means {number} buckets, and buckets is {buckets!r}; give one of them"
        )
    return number, "linear"
