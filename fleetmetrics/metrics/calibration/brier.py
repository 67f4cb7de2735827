"""The Brier score, and its parts over bins."""

from __future__ import annotations

from typing import Any, Literal, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.metric import TOTAL, Common, Declared, Quotient, Settings
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.metrics.buckets import OfProbabilities
from fleetmetrics.metrics.calibration.binned import Binned, bins_of, confidence
from fleetmetrics.metrics.classification.losses import probability_rules_of
from fleetmetrics.metrics.task import Task, check_scores, class_axis_of, of_scores, task_of
from fleetmetrics.support.typed import Unpack

__all__ = ["BrierDecomposition", "BrierScore"]


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
        return super().requirements_of(batch)


def _centers(edges: tuple[float, ...]) -> np.ndarray:
    return (np.array(edges[:-1]) + np.array(edges[1:])) / 2


@per_sample
def _from_center(batch: Batch, edges: tuple[float, ...], from_logits: bool) -> Any:
    """The square of the distance of each probability from the center of its bin."""
    xp = batch.xp
    center = xp.take(xp.constant(_centers(edges)), bins_of(batch, edges, from_logits, False))
    return xp.square(xp.subtract(confidence(batch, from_logits, False), center))


@statistic
def _squared_deviations(batch: Batch, edges: tuple[float, ...], from_logits: bool) -> Any:
    return batch.histogram(bins_of(batch, edges, from_logits, False), amount=_from_center(batch, edges, from_logits))


class BrierDecomposition(Binned[formulas.BrierParts]):
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

    def __init__(
        self, *, bins: int | Sequence[float] = 10, from_logits: bool = False, **common: Unpack[Common]
    ) -> None:
        super().__init__(bins=bins, from_logits=from_logits, **common)
        shape, settings = (len(self.edges) - 1,), ("edges", "from_logits")
        self.declare("squared_deviation", shape, "float64", statistic=_squared_deviations, settings=settings)

    def formula(
        self, number: np.ndarray, probability: np.ndarray, squared_deviation: np.ndarray
    ) -> formulas.BrierParts:
        return formulas.brier_decomposition.bare(number, probability, squared_deviation, _centers(self.edges))
