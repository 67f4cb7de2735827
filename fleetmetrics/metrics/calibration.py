"""Calibration: whether predicted probabilities match observed rates."""

from __future__ import annotations

import math
from typing import Any, Literal, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import TOTAL, Common, Declared, Quotient, Settings, WithoutColumns, formula_of
from fleetmetrics.base.record_metric import OfAllSamples
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics.buckets import OfProbabilities, class_probabilities, probability_rules
from fleetmetrics.metrics.classification.losses import probability_rules_of
from fleetmetrics.metrics.task import DISTRIBUTION, Task, check_scores, class_axis_of, of_scores, task_of
from fleetmetrics.records.table import Records
from fleetmetrics.support.checks import MOST_EDGES, choice_of, edges_of, flag_of, whole_number_of, zero_division_of
from fleetmetrics.support.typed import Unpack
from fleetmetrics.xp.score_buckets import lowest_scores

__all__ = [
    "AdaptiveCalibrationError",
    "BrierDecomposition",
    "BrierScore",
    "CalibrationCurve",
    "ExpectedCalibrationError",
    "KuiperCalibration",
]


#: The buckets of `KuiperCalibration`.
_BUCKETS = 4096


@per_sample
def _squared_errors(batch: Batch, from_logits: bool) -> Any:
    xp = batch.xp
    return xp.square(xp.subtract(batch.probability(from_logits), xp.cast(batch.positive, "float64")))


@statistic
def _squared_error(batch: Batch, task: Task) -> Any:
    if task.kind == "multiclass":
        return batch.weighted_sum(of_scores(batch, task, _of_classes if task.from_logits else _from_one_hot))
    return batch.weighted_sum(_squared_errors(batch, task.from_logits), zero_at_zero=not task.from_logits)


def _of_classes(xp: Any, logits: Any, label: Any) -> Any:
    """The squared distance of the softmax from the one-hot label."""
    logits = xp.cast(logits, "float64")
    odds = xp.exp(xp.subtract(logits, xp.reshape(xp.largest_of_rows(logits), [-1, 1])))
    return _from_one_hot(xp, xp.divide(odds, xp.reshape(xp.sum_of_rows(odds), [-1, 1])), label)


def _from_one_hot(xp: Any, probabilities: Any, label: Any) -> Any:
    is_label = xp.equal(xp.arange(probabilities.shape[1]), xp.reshape(label, [-1, 1]))
    error = xp.subtract(xp.cast(probabilities, "float64"), xp.cast(is_label, "float64"))
    return xp.sum_of_rows(xp.square(error))


class BrierScore(OfProbabilities[float]):
    """Brier score: the mean squared error of predicted probabilities.

    Formula: ``sum(w * (p - y)**2) / sum(w)``, in float64 for inputs of any dtype; of several classes
    ``sum(w * sum_k (p_k - [y = k])**2) / sum(w)``, in [0, 2], as in scikit-learn: of two classes it is twice the binary
    score. Undefined without samples.

    Inputs with ``task="binary"`` as for `fleetmetrics.Calibration`; with ``"multiclass"`` probabilities
    ``[n, num_classes]`` that add up to 1, and labels ``[n]``.

    Args:
        task: ``"binary"`` or ``"multiclass"``; None: multiclass with ``num_classes``, else binary.
        num_classes: the number of classes, at least 2; with ``"multiclass"`` only.
        class_axis: as for `Precision`.
        from_logits: predictions are logits: the sigmoid or the softmax is applied.
        zero_division: the value if the metric is undefined, without a warning; nan: nan, with `UndefinedMetricWarning`.

    Examples:
        >>> metric = BrierScore()
        >>> metric.add([0.5, 0.75], [0, 1])
        >>> metric.compute()
        0.15625
        >>> metric = BrierScore(num_classes=3)
        >>> metric.add([[0.5, 0.25, 0.25]], [0])
        >>> metric.compute()
        0.375
    """

    class_axis: int | None
    requirements: tuple[str | Requirement, ...]
    task: Task

    better = "lower"
    declared: tuple[Declared, ...] = (
        Declared("squared_error", dtype="float64", statistic=_squared_error, settings=("task",)),
        TOTAL,
    )

    def __init__(
        self,
        *,
        task: Literal["binary", "multiclass"] | None = None,
        num_classes: int | None = None,
        class_axis: int | None = None,
        from_logits: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        self.task = task_of(task, num_classes, from_logits=from_logits, allowed=("binary", "multiclass"))
        super().__init__(from_logits=from_logits, **settings)
        self.settle(**self.task.settings)
        self.class_axis = class_axis_of(class_axis)
        if self.task.kind == "multiclass":
            self.requirements = probability_rules_of(self.task, self.task.size)

    @property
    def quotient(self) -> Quotient | None:
        return Quotient({"squared_error": 1}, highest=2 if self.task.kind == "multiclass" else 1)

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        if self.task.kind == "multiclass":
            check_scores(self.task, batch)
        return self.requirements


# -- over bins -------------------------------------------------------------------------------------------


@per_sample
def _confidence(batch: Batch, from_logits: bool, top_label: bool) -> Any:
    """The probability of class 1, or of the most probable class."""
    xp = batch.xp
    if not top_label:
        return batch.probability(from_logits)

    def of_best(scores: Any) -> Any:
        scores = xp.cast(scores, "float64")
        largest = xp.largest_of_rows(scores)
        if not from_logits:
            return largest
        odds = xp.sum_of_rows(xp.exp(xp.subtract(scores, xp.reshape(largest, [-1, 1]))))
        return xp.divide(xp.ones_like(odds), odds)

    return batch.of_rows(of_best)


@per_sample
def _outcome(batch: Batch, top_label: bool) -> Any:
    """The label, or with ``top_label`` whether the most probable class is the label: int64."""
    xp = batch.xp
    if not top_label:
        return xp.cast(batch.positive, "int64")
    before = batch.of_rows(xp.rank_of_label, batch.labels)
    return xp.cast(xp.logical_not(xp.cast(before, "bool")), "int64")


@per_sample
def _bin(batch: Batch, edges: tuple[float, ...], from_logits: bool, top_label: bool) -> Any:
    """The bin of each probability: ``(lower, upper]``, the first one with its lower edge."""
    xp, confidence = batch.xp, _confidence(batch, from_logits, top_label)
    if len(edges) == 2:
        return xp.cast(xp.zeros_like(confidence), "int64")
    return xp.position(xp.constant(np.array(edges[1:-1])), confidence)


@statistic
def _numbers(batch: Batch, *settings: Any) -> Any:
    return batch.histogram(_outcome(batch, settings[-1]), _bin(batch, *settings))


@statistic
def _probabilities(batch: Batch, *settings: Any) -> Any:
    confidence = _confidence(batch, *settings[1:])
    return batch.histogram(_outcome(batch, settings[-1]), _bin(batch, *settings), amount=confidence)


@statistic
def _numbers_by_class(batch: Batch, edges: tuple[float, ...], task: Task) -> Any:
    one_vs_rest, _, place = _each_class(batch, edges, task)
    return one_vs_rest.histogram(*place)


@statistic
def _probabilities_by_class(batch: Batch, edges: tuple[float, ...], task: Task) -> Any:
    one_vs_rest, probability, place = _each_class(batch, edges, task)
    return one_vs_rest.histogram(*place, amount=probability)


@statistic
def _each_class(batch: Batch, edges: tuple[float, ...], task: Task) -> tuple[Batch, Any, tuple[Any, ...]]:
    """Each class against the others: the samples, their probabilities, and their outcomes, classes and bins."""
    xp, one_vs_rest = batch.xp, batch.one_vs_rest()
    probability = xp.cast(class_probabilities(batch, task, None), "float64")
    if one_vs_rest.keep is not None:
        probability = xp.zero_unless(one_vs_rest.keep, probability)
    place = xp.position(xp.constant(np.array(edges[1:-1])), probability)
    return one_vs_rest, probability, (xp.cast(one_vs_rest.label, "int64"), one_vs_rest.label_index, place)


@per_sample
def _from_center(batch: Batch, *settings: Any) -> Any:
    """The square of the distance of each probability from the center of its bin."""
    xp = batch.xp
    center = xp.take(xp.constant(_centers(settings[0])), _bin(batch, *settings))
    return xp.square(xp.subtract(_confidence(batch, *settings[1:]), center))


@statistic
def _squared_deviations(batch: Batch, *settings: Any) -> Any:
    return batch.histogram(_bin(batch, *settings), amount=_from_center(batch, *settings))


def _centers(edges: tuple[float, ...]) -> np.ndarray:
    return (np.array(edges[:-1]) + np.array(edges[1:])) / 2


class _Binned(WithoutColumns[Value]):
    """Keeps the number and the summed probability of each bin; arguments as for `CalibrationCurve`."""

    #: Whether to look at the most probable class; None: if there are scores of three or more.
    top_label: bool | None = False
    edges: tuple[float, ...]
    from_logits: bool
    requirements: tuple[str | Requirement, ...]

    def __init__(
        self, *, bins: int | Sequence[float] = 10, from_logits: bool = False, **common: Unpack[Common]
    ) -> None:
        super().__init__(**common)
        self.edges, self.from_logits = edges_of(bins, 0.0, 1.0), flag_of("from_logits", from_logits)
        self.settle(bins=self.edges)
        if self.edges[0] != 0 or self.edges[-1] != 1:
            raise InvalidInputError(f"bins must begin with 0 and end with 1, as probabilities do; not {bins!r}")
        self.requirements = probability_rules(self.from_logits)
        self._declare()

    def _declare(self) -> None:
        shape, key = (2, len(self.edges) - 1), (self.edges, self.from_logits, bool(self.top_label))
        self.declare("number", shape, key=("number by outcome and bin", key))
        self.declare("probability", shape, "float64", key=("probability by outcome and bin", key))

    def binning(self, batch: Batch) -> tuple[Any, ...]:
        """The settings of the statistics of a batch."""
        return self.edges, self.from_logits, batch.classes > 2 if self.top_label is None else self.top_label

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        binning = self.binning(batch)
        return {"number": _numbers(batch, *binning), "probability": _probabilities(batch, *binning)}

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        return (DISTRIBUTION, "class_label") if batch.classes == 2 and not self.from_logits else self.requirements


class CalibrationCurve(_Binned[formulas.CalibrationPoints]):
    """Calibration curve (reliability diagram): mean prediction and actual rate of each bin of predictions.

    Formula: ``predicted[k] = sum(w * p) / sum(w)`` and ``actual[k] = sum(w * y) / sum(w)`` over the samples of bin k.

    Bins hold ``lower < p <= upper``, and the first one also holds 0, as in scikit-learn's ``calibration_curve``. The
    value is a `fleetmetrics.formulas.CalibrationPoints` with an entry for each bin that is not empty: ``predicted``,
    ``actual``, ``weight``, ``lower`` and ``upper``; without samples empty arrays with `UndefinedMetricWarning`. Inputs
    as for `fleetmetrics.Calibration`.

    Args:
        bins: the number of bins of equal width in [0, 1]; or all edges, rising, from 0 to 1: at low rates, edges such
            as ``[0, 1e-4, 1e-3, 1e-2, 1]`` show more.
        from_logits: predictions are logits: the sigmoid is applied, to ``[n, 2]`` the softmax.

    Examples:
        >>> metric = CalibrationCurve(bins=2)
        >>> metric.add([0.25, 0.5, 0.75, 1.0], [0, 1, 0, 1])
        >>> curve = metric.compute()
        >>> curve.predicted.tolist(), curve.actual.tolist(), curve.weight.tolist()
        ([0.375, 0.875], [0.5, 0.5], [2, 2])
    """

    gives = "curve"
    pictures: tuple[str, ...] = ("calibration",)
    formula: Any = formula_of(formulas.calibration_curve, "edges")


class ExpectedCalibrationError(_Binned[float]):
    """Expected calibration error: the distance between predicted probabilities and observed rates, over bins.

    Formula: with weight n_k, mean prediction p_k and rate y_k of bin k: ``"l1"`` is
    ``sum_k n_k * |p_k - y_k| / sum_k n_k``, ``"l2"`` the root of ``sum_k n_k * (p_k - y_k)**2 / sum_k n_k``, and
    ``"max"`` is ``max_k |p_k - y_k|``. Bins as for `CalibrationCurve`. Undefined without samples.

    Inputs with ``task="binary"`` as for `fleetmetrics.Calibration`. With ``"multiclass"``, ``add(prediction, label)``
    takes probabilities ``[n, classes]`` that add up to 1 and labels ``[n]``, and the metric is top-label: p is the
    highest probability of a sample, and y is 1 where it is the label's. It is classwise (static calibration error, SCE)
    with ``classwise=True``: the bins are those of all classes, each against the others, and count alike.

    Args:
        bins: as for `CalibrationCurve`.
        norm: ``"l1"``, ``"l2"`` or ``"max"``.
        classwise: whether to look at the probabilities of all classes; needs ``num_classes``.
        task: ``"binary"`` or ``"multiclass"``; None: multiclass with ``num_classes`` or scores of three or more
            classes, else binary.
        num_classes: the number of classes, at least 2; with ``"multiclass"`` only. None: that of the scores.
        class_axis: as for `Precision`.
        from_logits: predictions are logits: the sigmoid or the softmax is applied.
        zero_division: the value if the metric is undefined, without a warning; nan: nan, with `UndefinedMetricWarning`.

    Examples:
        >>> metric = ExpectedCalibrationError(bins=2)
        >>> metric.add([0.25, 0.5, 0.75, 1.0], [0, 1, 0, 1])
        >>> metric.compute()
        0.25
    """

    biased = True
    pictures: tuple[str, ...] = ("calibration",)

    class_axis: int | None
    classwise: bool
    norm: Any
    requirements: tuple[str | Requirement, ...]
    top_label: bool | None
    zero_division: float

    better = "lower"

    def __init__(
        self,
        *,
        bins: int | Sequence[float] = 15,
        norm: Literal["l1", "l2", "max"] = "l1",
        classwise: bool = False,
        task: Literal["binary", "multiclass"] | None = None,
        num_classes: int | None = None,
        class_axis: int | None = None,
        from_logits: bool = False,
        zero_division: float = math.nan,
        **common: Unpack[Common],
    ) -> None:
        allowed = ("binary", "multiclass")
        self.task: Task = task_of(task, num_classes, from_logits=from_logits, allowed=allowed, by_shape=True)
        self.classwise = _classwise_of(classwise, self.task)
        self.top_label = None if self.task.kind == "any" else self.task.kind == "multiclass"
        super().__init__(bins=bins, from_logits=from_logits, **common)
        self.zero_division = zero_division_of(zero_division)
        self.settle(**self.task.settings)
        self.class_axis = class_axis_of(class_axis)
        self.norm = choice_of("norm", norm, ("l1", "l2", "max"))
        self.requirements = probability_rules_of(self.task, 3 if self.top_label else 0)

    def _declare(self) -> None:
        if not self.classwise:
            return super()._declare()
        shape = (2, self.task.size, len(self.edges) - 1)
        self.pictures = ()
        self.declare("number", shape, statistic=_numbers_by_class, settings=("edges", "task"))
        self.declare("probability", shape, "float64", statistic=_probabilities_by_class, settings=("edges", "task"))

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        if not self.classwise:
            return super().batch_statistics(batch)
        binning = self.edges, self.task
        return {"number": _numbers_by_class(batch, *binning), "probability": _probabilities_by_class(batch, *binning)}

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        return probability_rules_of(check_scores(self.task, batch), batch.classes)

    def formula(self, number: np.ndarray, probability: np.ndarray) -> float:
        cells = number.reshape(2, -1), probability.reshape(2, -1)
        return formulas.expected_calibration_error.bare(*cells, self.norm, self.zero_division)


def _classwise_of(classwise: Any, task: Task) -> bool:
    """The argument ``classwise``."""
    if flag_of("classwise", classwise) and not (task.kind == "multiclass" and task.size):
        raise InvalidInputError("classwise=True has bins for each of several classes; it needs num_classes=")
    return bool(classwise)


class BrierDecomposition(_Binned[formulas.BrierParts]):
    """The parts of the Brier score over bins: reliability, resolution, uncertainty, and two parts within bins.

    Formula: see `fleetmetrics.formulas.brier_decomposition`. The parts add up to the score exactly (up to rounding):
    ``score = reliability - resolution + uncertainty + within_bin_variance - within_bin_covariance``; the last two are 0
    where a bin holds a single value of p. The value is a `fleetmetrics.formulas.BrierParts`; without samples, all nan
    with `UndefinedMetricWarning`. Inputs as for `fleetmetrics.Calibration`, bins and arguments as for
    `CalibrationCurve`.

    Examples:
        >>> metric = BrierDecomposition(bins=2)
        >>> metric.add([0.25, 0.25, 0.75, 0.75], [0, 0, 0, 1])
        >>> parts = metric.compute()
        >>> parts.score, parts.reliability, parts.resolution, parts.uncertainty
        (0.1875, 0.0625, 0.0625, 0.1875)
    """

    gives = "parts"
    pictures: tuple[str, ...] = ("calibration",)

    def _declare(self) -> None:
        super()._declare()
        key = ("squared deviation by bin", self.edges, self.from_logits)
        self.declare("squared_deviation", (len(self.edges) - 1,), "float64", key=key)

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        deviations = _squared_deviations(batch, *self.binning(batch))
        return {**super().batch_statistics(batch), "squared_deviation": deviations}

    def formula(
        self, number: np.ndarray, probability: np.ndarray, squared_deviation: np.ndarray
    ) -> formulas.BrierParts:
        return formulas.brier_decomposition.bare(number, probability, squared_deviation, _centers(self.edges))


@statistic
def _variance(batch: Batch, from_logits: bool) -> Any:
    """The variance of the number of positives, were the probabilities right: of weight w, ``w**2 * p * (1 - p)``."""
    xp, probability = batch.xp, batch.probability(from_logits)
    values = xp.multiply(probability, xp.subtract(xp.ones_like(probability), probability))
    return batch.weighted_sum(values if batch.weight is None else xp.multiply(batch.weight, values))


class KuiperCalibration(_Binned[formulas.KuiperParts]):
    """Kuiper's calibration error: the range of scores that is miscalibrated the most, and whether that is chance.

    Formula: see `fleetmetrics.formulas.kuiper_calibration`, over 4,096 buckets of scores. There is no width of bins to
    choose. The value is a `fleetmetrics.formulas.KuiperParts`: the statistic, its normalized form and p-value, and the
    range of scores with the sign of the difference; without samples, all nan with `UndefinedMetricWarning`. For
    segments, ``Sliced(KuiperCalibration(), by=...)`` has one each: the worst has the largest normalized statistic.

    Inputs as for `fleetmetrics.Calibration`.

    Args:
        bins: as for `CalibrationCurve`; None: the log-odds buckets of `fleetmetrics.AUC`.
        from_logits: as for `CalibrationCurve`.

    Examples:
        >>> metric = KuiperCalibration()
        >>> metric.add([0.25, 0.25, 0.25, 0.25, 0.75, 0.75, 0.75, 0.75], [0, 0, 0, 0, 0, 1, 1, 1])
        >>> parts = metric.compute()
        >>> parts.statistic, round(parts.p_value, 3), parts.difference
        (0.125, 0.992, -0.125)
    """

    gives = "parts"
    formula: Any = formula_of(formulas.kuiper_calibration, "edges")

    def __init__(
        self, *, bins: int | Sequence[float] | None = None, from_logits: bool = False, **common: Unpack[Common]
    ) -> None:
        buckets = [0.0, *lowest_scores(_BUCKETS, "log_odds")[1:].tolist(), 1.0]
        super().__init__(bins=buckets if bins is None else bins, from_logits=from_logits, **common)
        if bins is None:
            self.settle(bins=None)

    def _declare(self) -> None:
        super()._declare()
        self.declare("variance", dtype="float64", statistic=_variance, settings=("from_logits",))

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        return {**super().batch_statistics(batch), "variance": _variance(batch, self.from_logits)}


# -- over bins of equal mass -----------------------------------------------------------------------------------


def _equal_mass(values: np.ndarray, weight: np.ndarray, bins: int) -> np.ndarray:
    """The bin of each value, where all bins have about the same weight, and equal values are in one."""
    _, first, place = np.unique(values, return_index=True, return_inverse=True)
    mass = np.bincount(place.reshape(-1), weight, len(first))
    middle = mass.cumsum() - mass / 2
    # Up to rounding: the weights 0.1 and 0.2 are half of 0.1, 0.2 and 0.3.
    of_value = np.minimum(bins * middle / mass.sum() + 2.0**-40, bins - 1).astype(np.int64)
    return np.asarray(of_value[place.reshape(-1)])


class AdaptiveCalibrationError(OfProbabilities[float], OfAllSamples):
    """Calibration error over bins of equal mass: each holds about the same number of samples, at any rate.

    Formula: that of `ExpectedCalibrationError`, by default ``sum_k n_k * |p_k - y_k| / sum_k n_k``, with the samples
    sorted by probability and cut into ``bins`` parts of equal weight; with ``classwise=True`` the probabilities of each
    class are (ACE of Nixon et al.). Equal probabilities are in one bin, that of the middle of their weight, so that the
    value does not depend on the order of the samples.

    Inputs as for `ExpectedCalibrationError`, storage as for `SpearmanCorrelation`. Undefined without samples.

    Args:
        bins: their number, at least 1; those without samples are left out.
        norm: as for `ExpectedCalibrationError`.
        classwise: whether to look at the probabilities of all classes instead of the highest; needs ``num_classes``.
        task: as for `ExpectedCalibrationError`.
        num_classes: the number of classes, at least 2; with ``"multiclass"`` only. None: that of the scores.
        class_axis: as for `Precision`.
        from_logits: predictions are logits: the sigmoid or the softmax is applied.
        zero_division: the value if the metric is undefined, without a warning; nan: nan, with `UndefinedMetricWarning`.

    Examples:
        >>> metric = AdaptiveCalibrationError(bins=2)
        >>> metric.add([0.01, 0.03, 0.02, 0.96], [0, 0, 1, 1])
        >>> round(metric.compute(), 6)
        0.245
    """

    biased = True
    better = "lower"
    bins: int
    class_axis: int | None
    classwise: bool
    norm: Any
    requirements: tuple[str | Requirement, ...]
    task: Task

    def __init__(
        self,
        *,
        bins: int = 15,
        norm: Literal["l1", "l2", "max"] = "l1",
        classwise: bool = False,
        task: Literal["binary", "multiclass"] | None = None,
        num_classes: int | None = None,
        class_axis: int | None = None,
        from_logits: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        allowed = ("binary", "multiclass")
        self.task = task_of(task, num_classes, from_logits=from_logits, allowed=allowed, by_shape=True)
        self.classwise = _classwise_of(classwise, self.task)
        self._of_class = [f"class {k}" for k in range(self.task.size)] if self.classwise else ["probability"]
        self.record: tuple[str, ...] = (*self._of_class, "outcome", "weight")
        super().__init__(from_logits=from_logits, **settings)
        self.settle(**self.task.settings)
        self.keep_records(self.record, key=("probability and outcome", self.classwise, self.task))
        self.class_axis = class_axis_of(class_axis)
        self.bins = whole_number_of("bins", bins, 1, MOST_EDGES)
        self.norm = choice_of("norm", norm, ("l1", "l2", "max"))
        self.requirements = probability_rules_of(self.task, 3 if self.task.kind == "multiclass" else 0)

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        return probability_rules_of(check_scores(self.task, batch), batch.classes)

    def batch_records(self, batch: Batch) -> dict[str, Any]:
        if self.classwise:
            table = batch.xp.reshape(class_probabilities(batch, self.task, None), [-1, self.task.size])
            columns = {name: table[:, k] for k, name in enumerate(self._of_class)}
            return {**columns, "outcome": batch.xp.cast(batch.labels, "int64"), "weight": batch.weight}
        top_label = batch.classes > 2 if self.task.kind == "any" else self.task.kind == "multiclass"
        probability = _confidence(batch, self.from_logits, top_label)
        return {"probability": probability, "outcome": _outcome(batch, top_label), "weight": batch.weight}

    def value(self, records: Records) -> float:
        outcome, weight = records["outcome"], records["weight"]
        outcomes = [outcome == k for k in range(self.task.size)] if self.classwise else [outcome]
        cells = [self._in_bins(records[name], own, weight) for name, own in zip(self._of_class, outcomes)]
        number, total = (np.concatenate(parts, axis=1) for parts in zip(*cells))
        return float(formulas.expected_calibration_error.bare(number, total, self.norm))

    def _in_bins(self, probability: np.ndarray, outcome: np.ndarray, weight: np.ndarray | None) -> list[np.ndarray]:
        """The weights and the summed probabilities by outcome and bin, ``[2, bins]`` each."""
        order = np.argsort(probability, kind="stable")  # sums round alike in any order of the samples
        probability, outcome = probability[order], outcome[order]
        weight = np.ones(len(order)) if weight is None else weight[order]
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])  # their sum is finite, and no digit changes
        place = _equal_mass(probability, weight, self.bins) + self.bins * outcome.astype(np.int64)
        return [np.bincount(place, by, 2 * self.bins).reshape(2, -1) for by in (weight, weight * probability)]
