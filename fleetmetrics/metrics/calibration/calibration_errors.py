"""Calibration errors: the distance between predicted probabilities and observed rates, over bins."""

from __future__ import annotations

from typing import Any, Literal, Mapping, Sequence, overload

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Settings
from fleetmetrics.base.record_metric import RecordMetric
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics.buckets import OfProbabilities, class_probabilities
from fleetmetrics.metrics.calibration.binned import (
    confidence,
    declare_bins,
    edges_of_probabilities,
    is_top_label,
    outcome,
    position,
)
from fleetmetrics.metrics.classification.losses import probability_rules_of
from fleetmetrics.metrics.task import Task, check_scores, class_axis_of, label_classes, task_of
from fleetmetrics.records.table import Records
from fleetmetrics.support.checks import MOST_EDGES, choice_of, flag_of, whole_number_of
from fleetmetrics.support.typed import Unpack

__all__ = ["AdaptiveCalibrationError", "ExpectedCalibrationError"]


class ErrorSettings(Settings, total=False):
    """Arguments of every calibration error, without ``bins`` and ``average``."""

    norm: Literal["l1", "l2", "max"]
    classwise: bool
    task: Literal["binary", "multiclass"] | None
    num_classes: int | None
    class_axis: int | None
    from_logits: bool


class CalibrationError(OfProbabilities[Value]):
    """Compares mean predictions with rates over bins; arguments as for `ExpectedCalibrationError`."""

    better = "lower"
    biased = True
    class_axis: int | None
    classwise: bool
    norm: Any
    requirements: tuple[str | Requirement, ...]
    task: Task

    def __init__(
        self,
        *,
        norm: Literal["l1", "l2", "max"] = "l1",
        classwise: bool = False,
        average: Literal["macro", "none"] | None = "macro",
        task: Literal["binary", "multiclass"] | None = None,
        num_classes: int | None = None,
        class_axis: int | None = None,
        from_logits: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        allowed = ("binary", "multiclass")
        self.task = task_of(task, num_classes, from_logits=from_logits, allowed=allowed, by_shape=True)
        self.classwise = flag_of("classwise", classwise)
        if classwise and not (self.task.kind == "multiclass" and self.task.size):
            raise InvalidInputError("classwise=True has bins for each of several classes; it needs num_classes=")
        choice_of("average", average, ("macro", "none", None))
        if average != "macro" and not classwise:
            raise InvalidInputError(f"average={average!r} needs classwise=True: there is one value")
        self.average = average
        super().__init__(from_logits=from_logits, **settings)
        self.settle(**self.task.settings, average=average or "none")
        self.class_axis = class_axis_of(class_axis)
        self.norm = choice_of("norm", norm, ("l1", "l2", "max"))
        self.requirements = probability_rules_of(self.task, 3 if self.task.kind == "multiclass" else 0)

    @property
    def top_label(self) -> bool | None:
        """Whether to look at the most probable class; None: if there are scores of three or more."""
        return None if self.task.kind == "any" else self.task.kind == "multiclass"

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        return probability_rules_of(check_scores(self.task, batch), batch.classes)

    def formula(self, number: np.ndarray, probability: np.ndarray) -> Any:
        """The error over all bins, with ``classwise`` those of every class together, or an array of each class's."""
        if self.average == "macro":
            return self._error(number.reshape(2, -1), probability.reshape(2, -1))
        return self.errors_by_class(number, probability)

    def errors_by_class(self, number: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """The error of each class, of states with ``classwise``."""
        if not number.any():
            return np.full(self.task.size, self._ratio(0, 0))
        return np.array([self._error(number[:, k], probability[:, k]) for k in range(self.task.size)])

    def _error(self, number: np.ndarray, probability: np.ndarray) -> float:
        return formulas.expected_calibration_error.bare(number, probability, self.norm, self.zero_division)


@statistic
def _each_class(batch: Batch, edges: tuple[float, ...], task: Task) -> tuple[Batch, Any, tuple[Any, ...]]:
    """Each class against the others: the samples, their probabilities, and their outcomes, classes and bins."""
    xp, one_vs_rest = batch.xp, batch.one_vs_rest()
    probability = xp.cast(class_probabilities(batch, task, None), "float64")
    if one_vs_rest.keep is not None:
        probability = xp.zero_unless(one_vs_rest.keep, probability)
    place = xp.cast(one_vs_rest.label, "int64"), one_vs_rest.label_index, position(xp, edges, probability)
    return one_vs_rest, probability, place


@statistic
def _numbers(batch: Batch, edges: tuple[float, ...], task: Task) -> Any:
    one_vs_rest, _, place = _each_class(batch, edges, task)
    return one_vs_rest.histogram(*place)


@statistic
def _probabilities(batch: Batch, edges: tuple[float, ...], task: Task) -> Any:
    one_vs_rest, probability, place = _each_class(batch, edges, task)
    return one_vs_rest.histogram(*place, amount=probability)


class ExpectedCalibrationError(CalibrationError[Value]):
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
        average: of all classes: ``"macro"``, the error over their bins together, which is the mean of theirs with
            ``norm="l1"``; None (or ``"none"``): an array, one for each class.
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
        >>> metric = ExpectedCalibrationError(bins=2, num_classes=3, classwise=True, average=None)
        >>> metric.add([[0.5, 0.375, 0.125], [0.5, 0.375, 0.125]], [0, 2])
        >>> metric.compute().tolist()
        [0.0, 0.375, 0.375]
    """

    pictures: tuple[str, ...] = ("calibration",)
    edges: tuple[float, ...]

    @overload
    def __init__(
        self: ExpectedCalibrationError[float],
        *,
        bins: int | Sequence[float] = 15,
        average: Literal["macro"] = "macro",
        **settings: Unpack[ErrorSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: ExpectedCalibrationError[np.ndarray],
        *,
        bins: int | Sequence[float] = 15,
        average: Literal["none"] | None,
        **settings: Unpack[ErrorSettings],
    ) -> None: ...
    def __init__(
        self,
        *,
        bins: int | Sequence[float] = 15,
        average: Literal["macro", "none"] | None = "macro",
        **settings: Unpack[ErrorSettings],
    ) -> None:
        super().__init__(average=average, **settings)
        self.edges = edges_of_probabilities(bins)
        self.settle(bins=self.edges)
        if not self.classwise:
            declare_bins(self)
            return
        shape, of = (2, self.task.size, len(self.edges) - 1), ("edges", "task")
        self.declare("number", shape, statistic=_numbers, settings=of)
        self.declare("probability", shape, "float64", statistic=_probabilities, settings=of)


def _equal_mass(values: np.ndarray, weight: np.ndarray, bins: int) -> np.ndarray:
    """The bin of each value, where all bins have about the same weight, and equal values are in one."""
    _, first, place = np.unique(values, return_index=True, return_inverse=True)
    mass = np.bincount(place.reshape(-1), weight, len(first))
    middle = mass.cumsum() - mass / 2
    # Up to rounding: the weights 0.1 and 0.2 are half of 0.1, 0.2 and 0.3.
    of_value = np.minimum(bins * middle / mass.sum() + 2.0**-40, bins - 1).astype(np.int64)
    return np.asarray(of_value[place.reshape(-1)])


@per_sample
def _columns(batch: Batch, task: Task) -> Sequence[Any]:
    """The probabilities of each class."""
    table = batch.xp.reshape(class_probabilities(batch, task, None), [-1, task.size])
    return [table[:, k] for k in range(task.size)]


class AdaptiveCalibrationError(CalibrationError[Value], RecordMetric[Value]):
    """Calibration error over bins of equal mass: each holds about the same number of samples, at any rate.

    Formula: that of `ExpectedCalibrationError`, by default ``sum_k n_k * |p_k - y_k| / sum_k n_k``, with the samples
    sorted by probability and cut into ``bins`` parts of equal weight; with ``classwise=True`` the probabilities of each
    class are (ACE of Nixon et al.). Equal probabilities are in one bin, that of the middle of their weight, so that the
    value does not depend on the order of the samples.

    Inputs as for `ExpectedCalibrationError`, storage as for `SpearmanCorrelation`. Undefined without samples.

    Args:
        bins: their number, at least 1; those without samples are left out.
        **settings: as for `ExpectedCalibrationError`.

    Examples:
        >>> metric = AdaptiveCalibrationError(bins=2)
        >>> metric.add([0.01, 0.03, 0.02, 0.96], [0, 0, 1, 1])
        >>> round(metric.compute(), 6)
        0.245
    """

    bins: int

    @overload
    def __init__(
        self: AdaptiveCalibrationError[float],
        *,
        bins: int = 15,
        average: Literal["macro"] = "macro",
        **settings: Unpack[ErrorSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AdaptiveCalibrationError[np.ndarray],
        *,
        bins: int = 15,
        average: Literal["none"] | None,
        **settings: Unpack[ErrorSettings],
    ) -> None: ...
    def __init__(
        self,
        *,
        bins: int = 15,
        average: Literal["macro", "none"] | None = "macro",
        **settings: Unpack[ErrorSettings],
    ) -> None:
        super().__init__(average=average, **settings)
        self.bins = whole_number_of("bins", bins, 1, MOST_EDGES)
        self._of_class = [f"class {k}" for k in range(self.task.size)] if self.classwise else ["probability"]
        columns = (*self._of_class, "outcome", "weight")
        self.keep_records(columns, key=("probability and outcome", self.classwise, self.task))

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        if self.classwise:
            columns = dict(zip(self._of_class, _columns(batch, self.task)))
            return {**columns, "outcome": label_classes(batch, self.task), "weight": batch.weight}
        top_label = is_top_label(batch, self.top_label)
        probability = confidence(batch, self.from_logits, top_label)
        return {"probability": probability, "outcome": outcome(batch, top_label), "weight": batch.weight}

    def start(self) -> dict[str, Any]:
        return dict.fromkeys(("number", "probability"), np.zeros((2, len(self._of_class), self.bins)))

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        if not records.length:
            return self.start()
        own, weight = records["outcome"], records["weight"]
        outcomes = [own == k for k in range(self.task.size)] if self.classwise else [own]
        cells = [self._in_bins(records[name], true, weight) for name, true in zip(self._of_class, outcomes)]
        number, probability = (np.stack(parts, axis=1) for parts in zip(*cells))
        return {"number": number, "probability": probability}

    def join(self, carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        return later  # all samples are in one piece

    def _in_bins(self, probability: np.ndarray, outcome: np.ndarray, weight: np.ndarray | None) -> list[np.ndarray]:
        """The weights and the summed probabilities by outcome and bin, ``[2, bins]`` each."""
        order = np.argsort(probability, kind="stable")  # sums round alike in any order of the samples
        probability, outcome = probability[order], outcome[order]
        weight = np.ones(len(order)) if weight is None else weight[order]
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])  # their sum is finite, and no digit changes
        place = _equal_mass(probability, weight, self.bins) + self.bins * outcome.astype(np.int64)
        return [np.bincount(place, by, 2 * self.bins).reshape(2, -1) for by in (weight, weight * probability)]
