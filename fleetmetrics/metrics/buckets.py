"""Histograms of the scores of a class and of the other samples, from which areas, curves and points are read."""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, ClassVar, Literal, Sequence, TypedDict

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Settings, Undefinable, WithoutColumns
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import BucketWarning, InvalidInputError, UndefinedMetricWarning
from fleetmetrics.metrics import task as tasks
from fleetmetrics.metrics.task import DISTRIBUTION, Task, check_scores
from fleetmetrics.state.state import Lanes, count_at
from fleetmetrics.support.checks import MOST_ENTRIES, bare, choice_of, flag_of, number_of, whole_number_of
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.vocabulary import in_shell, snake_case
from fleetmetrics.support.warning import muted, muted_now, warn
from fleetmetrics.xp import numpy_ops
from fleetmetrics.xp.score_buckets import LOG_ODDS_MAX, lowest_scores

BUCKETS = 4096
#: The task of probabilities and labels 0 and 1.
_PLAIN = Task("binary", 2)
_SCORES = frozenset([np.dtype(np.float32), np.dtype(np.float64)])
_SPACINGS = ("log_odds", "linear")
#: The plots of any histogram of scores; from this number of log-odds buckets on, calibration is also one.
_PICTURES, _NARROW = ("roc", "precision_recall", "score_histogram", "gain", "lift", "threshold_sweep"), 1024


@statistic
def _by_class_and_bucket(batch: Batch, task: Task, buckets: int, spacing: str) -> Any:
    """Samples by label and bucket; with several classes (each against all others) or labels, of each."""
    xp, flags = batch.xp, None if task.ignore_index is None else tasks.counted(batch, task)
    score = class_probabilities(batch, task, flags)
    if task.kind == "multiclass":
        batch = batch.one_vs_rest()
        flags = None if flags is None else xp.repeat(flags, task.size)
    label = xp.cast(batch.labels, "int64")
    label = label if flags is None else tasks.zero_unless(batch, flags, label)

    def found() -> Any:
        return xp.bucket(score, buckets - 1) if spacing == "linear" else xp.log_odds_bucket(score, buckets)

    plain = task.kind == "binary" and flags is None  # then all columns of slices share it
    bucket = batch.once(("bucket", task.from_logits, buckets, spacing), found) if plain else found()
    which = () if task.kind == "binary" else (batch.label_index,)
    return batch.histogram(*which, label, bucket, amount=flags)


def class_probabilities(batch: Batch, task: Task, flags: Any) -> Any:
    """Probabilities of each label, or of each class of each sample, flat; arbitrary where the label is ignored."""
    xp = batch.xp
    if task.kind != "multiclass":
        if not task.from_logits:
            return batch.scores if flags is None else tasks.zero_unless(batch, flags, batch.scores)
        return batch.probability(True) if flags is None else xp.sigmoid(tasks.logits(batch, task))
    if task.from_logits:
        table = xp.cast(batch.prediction, "float64")
        if flags is not None:
            table = xp.where(xp.reshape(flags, [-1, 1]), table, xp.zeros_like(table))
        odds = xp.exp(xp.subtract(table, xp.reshape(xp.largest_of_rows(table), [-1, 1])))
        return xp.reshape(xp.divide(odds, xp.reshape(xp.sum_of_rows(odds), [-1, 1])), [-1])
    rows = flags if flags is None else xp.reshape(flags, [-1, 1])
    return xp.reshape(tasks.zero_unless(batch, rows, batch.prediction), [-1])


class LogitSettings(Settings, total=False):
    """Arguments of every metric of probabilities or logits."""

    from_logits: bool


def probability_rules(from_logits: bool) -> tuple[str | Requirement, ...]:
    """The requirements of a metric that takes probabilities of class 1, or logits, and labels 0 or 1."""
    return ("class_scores" if from_logits else "probability_or_logits", "class_label")


class OfProbabilities(WithoutColumns[Value], Undefinable[Value]):
    """A metric of the probabilities, or logits, of class 1."""

    from_logits: bool
    requirements: tuple[str | Requirement, ...]

    def __init__(self, *, from_logits: bool = False, **settings: Unpack[Settings]) -> None:
        self.from_logits = flag_of("from_logits", from_logits)  # which the states depend on
        super().__init__(**settings)
        self.requirements = probability_rules(self.from_logits)

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        """Those of the class; probabilities of two classes add up to 1, as those of two tasks in one array do not."""
        two = batch.classes == 2 and not self.from_logits
        return (DISTRIBUTION, *self.requirements[1:]) if two else self.requirements


class BucketHistogram(OfProbabilities[Value]):
    """A histogram of the scores of each class; in a collection, shared by metrics of equal task and buckets."""

    buckets: int
    pictures: tuple[str, ...] = ()
    spacing: str

    task: Task = Task("binary", 2)

    def _declare_buckets(self, buckets: int, spacing: str) -> None:
        """Declare the histogram: row 0 holds the samples labeled 0, row 1 those labeled 1; of several, one each."""
        self.buckets, self.spacing = buckets, spacing
        self.settle(buckets=buckets, spacing=spacing, num_thresholds=None)
        narrow = spacing == "log_odds" and buckets >= _NARROW
        self.pictures = tuple(dict.fromkeys([*self.pictures, *_PICTURES, *["calibration"] * narrow]))
        self.task = self.task._replace(from_logits=self.from_logits)
        self.settle(**self.task.settings)
        size, several = self.task.size, self.task.kind != "binary"
        if several and size * 2 * buckets > MOST_ENTRIES:
            argument = "num_classes" if self.task.kind == "multiclass" else "num_labels"
            fits = MOST_ENTRIES // (2 * size)
            raise InvalidInputError(
                f"{argument}={size} with buckets={buckets} would be {size * 2 * buckets} numbers; at most "
                f"{MOST_ENTRIES} (8 GiB) are allowed: give "
                + (f"buckets={fits} or fewer" if fits > 1 else f"fewer {argument[4:]}")
            )
        shape = (size, 2, buckets) if several else (2, buckets)
        self.declare("histogram", shape, statistic=_by_class_and_bucket, settings=("task", "buckets", "spacing"))
        state = self.states["histogram"]  # of 8,192 entries, or for a thousand classes 64 MiB, a batch touches few
        self.states["histogram"] = Lanes(state.name, shape, state.dtype, state.reduction, state.key)

    def _add_plain(self, prediction: Any, label: Any) -> bool:
        """Count arrays of probabilities and labels, one each per sample; see `Accumulator._add_plain`."""
        if not type(prediction) is type(label) is np.ndarray or prediction.dtype not in _SCORES:
            return False
        if label.dtype != np.int64 or not prediction.shape == label.shape == (prediction.size or -1,):
            return False
        histogram = self.states["histogram"]
        if not (self.validate and self._counts_plainly) or type(histogram.value) is not np.ndarray:
            return False
        if not (numpy_ops.within(prediction, 0, 1) and numpy_ops.within(label, 0, 1)):
            return False
        if self.spacing == "linear":
            bucket = numpy_ops.bucket(prediction, self.buckets - 1)
        else:
            bucket = numpy_ops.log_odds_bucket(prediction, self.buckets)
        bucket += label * self.buckets
        count_at(histogram.value.reshape(-1), bucket)
        return True

    @functools.cached_property
    def _counts_plainly(self) -> bool:
        """Whether it requires of probabilities and labels what this class does; a user's class may require more."""
        plain = self._filled_by == {"histogram": (_by_class_and_bucket, [_PLAIN, self.buckets, self.spacing])}
        rules = self.requirements == probability_rules(False)
        return plain and rules and type(self).__module__.startswith("fleetmetrics.")

    @property
    def cell_states(self) -> tuple[str, ...]:
        """See `Metric.cell_states`; several classes or labels have several histograms of the same samples."""
        return ("histogram",) if len(self.states["histogram"].shape) == 2 else ()


class HistogramSettings(LogitSettings, total=False):
    """Arguments of every `ScoreHistogram`."""

    buckets: int | None
    spacing: Literal["log_odds", "linear"] | None
    num_thresholds: int | None


class ScoreHistogram(BucketHistogram[Value]):
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
        self._declare_buckets(*_layout(buckets, spacing, num_thresholds))

    @property
    def _lowest_scores(self) -> np.ndarray:
        """The lowest probability of each bucket: the thresholds of curves, float64 ``[buckets]``."""
        return lowest_scores(self.buckets, self.spacing)


def tolerance_of(tolerance: Any) -> float:
    """The largest distance of bounds that needs no warning; inf for None, which never warns."""
    never = tolerance is None or (isinstance(tolerance, float) and tolerance == math.inf)
    return math.inf if never else number_of("tolerance", tolerance, 0, allowed="a number of at least 0, or None")


class BoundedSettings(HistogramSettings, total=False):
    """Arguments of every `BoundedHistogram`."""

    tolerance: float | None


class BoundedHistogram(ScoreHistogram[Value]):
    """A value of a histogram, with a warning if that of the scores themselves may be far from it.

    The scores inside a bucket may be in any order. The two extreme orders, all positive samples of each bucket above
    its negative ones or below them, are histograms of twice the buckets, whose values are the bounds.
    """

    incidental: ClassVar[tuple[str, ...]] = (*ScoreHistogram.incidental, "tolerance")
    tolerance: float

    def __init__(self, *, tolerance: float | None = 0.01, **settings: Unpack[HistogramSettings]) -> None:
        super().__init__(**settings)
        self.tolerance = tolerance_of(tolerance)

    def value_of(self, positive: np.ndarray, negative: np.ndarray, thresholds: np.ndarray | None = None) -> Any:
        """The value of histograms; ``thresholds``: the lowest score of each bucket, None: those of the metric."""
        raise NotImplementedError

    def bounds_of(self, value: Any, positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, ...]:
        """The value of these histograms as numbers ``[n]``, and the bounds of that of the scores themselves."""
        raise NotImplementedError

    def allowed(self, value: np.ndarray) -> np.ndarray:
        """How far apart the bounds of values may be."""
        return np.full(len(value), self.tolerance)

    def may_be_wide(self, positive: np.ndarray, negative: np.ndarray) -> bool:
        """Whether the bounds can be further apart than allowed: a quick check that never misses them."""
        return True

    def place(self, at: int) -> str:
        """Which of several numbers this is, in words."""
        return ""

    def formula(self, histogram: np.ndarray) -> Any:
        negative, positive = histogram
        value = self.value_of(positive, negative)
        quiet = math.isinf(self.tolerance) or issubclass(BucketWarning, muted_now())
        if not quiet and positive.any() and negative.any() and self.may_be_wide(positive, negative):
            with muted(UndefinedMetricWarning):  # which has been said
                bounds = self.bounds_of(value, positive, negative)
            worst = too_wide(bounds, self.allowed(bounds[0]))
            if worst is not None:
                over = f"{self.place(worst)} is a value over buckets; that"
                warn_of_width(self, [bound[worst] for bound in bounds], over, self._way_out())
        return value

    def _way_out(self) -> str:
        """What to do if the bounds are too wide."""
        if not in_shell():
            return "Give more buckets=, or tolerance=None"
        name = snake_case(type(self).__name__)
        return f"Ask for more buckets, {name}:buckets=65536; with few distinct scores, the value is right"


def too_wide(bounds: Sequence[np.ndarray], allowed: Any) -> int | None:
    """The place of the value whose bounds are furthest beyond what is allowed; None: all are within it.

    Args:
        bounds: the values ``[n]``, and the lowest and the highest ones that the scores themselves may have.
        allowed: how far apart these may be.
    """
    _, low, high = bounds
    beyond = np.where(np.isnan(high), 0.0, high - low) - allowed
    worst = int(beyond.argmax())
    return worst if beyond[worst] > 0 else None


def warn_of_width(metric: Any, bounds: Sequence[float], over: str, way_out: str) -> None:
    """Warn that the bounds of a value over buckets are too far apart.

    Args:
        metric: whose value it is, with a ``tolerance``.
        bounds: the value, and the lowest and the highest one that the scores themselves may have.
        over: what the value is, from ``is`` to ``that``.
        way_out: what to do.
    """
    value, low, high = bounds
    owner, apart = metric.name_in_errors(), f"further apart than tolerance={metric.tolerance:g} allows"
    if in_shell():
        owner, apart = metric.name, f"more than {metric.tolerance:g} apart"
    warn(
        f"{owner}: {value:.6g}{over} of the scores themselves is between {low:.6g} and {high:.6g}, {apart}. {way_out}",
        BucketWarning,
    )


def split_buckets(positive: np.ndarray, negative: np.ndarray, above: bool) -> tuple[np.ndarray, np.ndarray]:
    """Histograms of twice the buckets: the positive samples of each bucket are above its negative ones, or below them.

    Args:
        positive: the samples labeled 1, by bucket.
        negative: the samples labeled 0, by bucket.
        above: whether the positive ones are above.
    """
    p, n = (np.zeros(2 * len(counts), counts.dtype) for counts in (positive, negative))
    p[int(above) :: 2], n[int(not above) :: 2] = positive, negative
    return p, n


def largest_share(weights: np.ndarray) -> float:
    """The largest part of all samples in one bucket."""
    return float(weights.max() / weights.sum())


def of_classes(function: Callable[..., Any], *settings: str) -> Any:
    """A metric's ``formula``: a function of the histograms of classes 1 and 0, and of these settings of the metric."""
    evaluated = bare(function)

    def formula(self: Undefinable, **states: np.ndarray) -> Any:
        ((negative, positive),) = states.values()
        return evaluated(positive, negative, *(getattr(self, name) for name in settings))

    return formula


class ClassesSettings(TypedDict, total=False):
    """Which classes there are."""

    task: Literal["binary", "multiclass", "multilabel"] | None
    num_classes: int | None
    num_labels: int | None
    ignore_index: int | Sequence[int] | None
    class_axis: int | None


class ClassSettings(HistogramSettings, ClassesSettings, total=False):
    """Arguments of all `ClassHistograms`."""

    average: Literal["macro", "weighted", "micro", "none"] | None


class ClassHistograms(ScoreHistogram[Value]):
    """A histogram of scores, or one for each of several classes or labels; arguments as for `fleetmetrics.AUC`."""

    class_axis: int | None
    requirements: tuple[str | Requirement, ...]
    task: Task

    def __init__(
        self,
        *,
        task: Literal["binary", "multiclass", "multilabel"] | None = None,
        num_classes: int | None = None,
        num_labels: int | None = None,
        average: Literal["macro", "weighted", "micro", "none"] | None = "macro",
        ignore_index: int | Sequence[int] | None = None,
        class_axis: int | None = None,
        **settings: Unpack[HistogramSettings],
    ) -> None:
        self.task = tasks.task_of(task, num_classes, num_labels, ignore_index=ignore_index)
        super().__init__(**settings)
        self.class_axis = tasks.class_axis_of(class_axis)
        choice_of("average", average, ("macro", "weighted", "micro", "none", None))
        kind = self.task.kind
        if average != "macro" and kind == "binary":
            raise InvalidInputError(
                f"average={average!r} needs task='multiclass' or 'multilabel'; task='binary' has one area"
            )
        self.average = average
        self.settle(average=average or "none")
        rule = DISTRIBUTION if kind == "multiclass" and not self.from_logits else self.requirements[0]
        self.requirements = (tasks.unless_ignored(rule, self.task.ignore_index), self.task.label_rule)

    @property
    def _entry(self) -> str:
        """What each histogram is of."""
        return "label" if self.task.kind == "multilabel" else "class"

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        if batch.classes or self.task.kind != "binary" or batch.label is None:
            check_scores(self.task, batch)
        if self.task.kind == "binary" and batch.classes and not self.from_logits:
            return self.task.distribution_rules
        return self.requirements


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
