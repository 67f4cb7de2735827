"""Probabilities and outcomes over fixed bins, and the curve that they make."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Common, WithoutColumns, formula_of
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics.buckets import probability_rules
from fleetmetrics.metrics.task import DISTRIBUTION
from fleetmetrics.support.checks import edges_of, flag_of
from fleetmetrics.support.typed import Unpack

__all__ = ["CalibrationCurve"]


@per_sample
def confidence(batch: Batch, from_logits: bool, top_label: bool) -> Any:
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
def outcome(batch: Batch, top_label: bool) -> Any:
    """The label, or with ``top_label`` whether the most probable class is the label: int64."""
    xp = batch.xp
    if not top_label:
        return xp.cast(batch.positive, "int64")
    before = batch.of_rows(xp.rank_of_label, batch.labels)
    return xp.cast(xp.logical_not(xp.cast(before, "bool")), "int64")


def position(xp: Any, edges: tuple[float, ...], probability: Any) -> Any:
    """The bin of each probability: ``(lower, upper]``, the first one with its lower edge."""
    if len(edges) == 2:
        return xp.cast(xp.zeros_like(probability), "int64")
    return xp.position(xp.constant(np.array(edges[1:-1])), probability)


@per_sample
def bins_of(batch: Batch, edges: tuple[float, ...], from_logits: bool, top_label: bool) -> Any:
    """The bin of each sample."""
    return position(batch.xp, edges, confidence(batch, from_logits, top_label))


def is_top_label(batch: Batch, top_label: bool | None) -> bool:
    """Whether to look at the most probable class; None: if there are scores of three or more."""
    return batch.classes > 2 if top_label is None else top_label


@statistic
def _numbers(batch: Batch, edges: tuple[float, ...], from_logits: bool, top_label: bool | None) -> Any:
    top_label = is_top_label(batch, top_label)
    return batch.histogram(outcome(batch, top_label), bins_of(batch, edges, from_logits, top_label))


@statistic
def _probabilities(batch: Batch, edges: tuple[float, ...], from_logits: bool, top_label: bool | None) -> Any:
    top_label = is_top_label(batch, top_label)
    place = outcome(batch, top_label), bins_of(batch, edges, from_logits, top_label)
    return batch.histogram(*place, amount=confidence(batch, from_logits, top_label))


def edges_of_probabilities(bins: Any) -> tuple[float, ...]:
    """The argument ``bins``: the edges, from 0 to 1."""
    edges = edges_of(bins, 0.0, 1.0)
    if edges[0] != 0 or edges[-1] != 1:
        raise InvalidInputError(f"bins must begin with 0 and end with 1, as probabilities do; not {bins!r}")
    return edges


def declare_bins(metric: Any) -> None:
    """Declare the number and the summed probability by outcome and bin of a metric."""
    shape, settings = (2, len(metric.edges) - 1), ("edges", "from_logits", "top_label")
    key = metric.edges, metric.from_logits, bool(metric.top_label)
    metric.declare("number", shape, key=("number", key), statistic=_numbers, settings=settings)
    metric.declare(
        "probability", shape, "float64", key=("probability", key), statistic=_probabilities, settings=settings
    )


class Binned(WithoutColumns[Value]):
    """Keeps the number and the summed probability of each bin; arguments as for `CalibrationCurve`."""

    top_label: bool = False
    edges: tuple[float, ...]
    from_logits: bool
    requirements: tuple[str | Requirement, ...]

    def __init__(
        self, *, bins: int | Sequence[float] = 10, from_logits: bool = False, **common: Unpack[Common]
    ) -> None:
        super().__init__(**common)
        self.edges, self.from_logits = edges_of_probabilities(bins), flag_of("from_logits", from_logits)
        self.settle(bins=self.edges)
        self.requirements = probability_rules(self.from_logits)
        declare_bins(self)

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
        return (DISTRIBUTION, "class_label") if batch.classes == 2 and not self.from_logits else self.requirements


class CalibrationCurve(Binned[formulas.CalibrationPoints]):
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
