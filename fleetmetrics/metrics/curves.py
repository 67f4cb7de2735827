"""Curves over all thresholds, from a histogram of the scores."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics.buckets import (
    BoundedHistogram,
    BoundedSettings,
    ScoreHistogram,
    largest_share,
    of_classes,
    split_buckets,
)
from fleetmetrics.support.checks import MOST_EDGES, array_or_empty, whole_number_of
from fleetmetrics.support.typed import Unpack

__all__ = ["CumulativeGain", "KolmogorovSmirnov", "Lift", "PrecisionRecallCurve", "ROCCurve"]


class ROCCurve(ScoreHistogram[formulas.ROC]):
    """The ROC curve as arrays, from a histogram of the scores.

    Formula: see `fleetmetrics.formulas.roc_curve`. One point for each bucket that is not empty; its threshold is the
    lowest score of the bucket, so that ``score >= threshold`` holds for the samples of the bucket and above.

    Inputs and buckets as for a binary `fleetmetrics.AUC`. ``compute`` returns ``ROC(fpr, tpr, thresholds)``, in the
    order of `sklearn.metrics.roc_curve`. The rate of a class without samples is undefined.

    Args:
        buckets: their number, at least 2; None: 4,096, or ``num_thresholds + 1``.
        spacing: "log_odds" or "linear"; None: "log_odds", or "linear" with ``num_thresholds``.
        num_thresholds: Paddle's name: ``num_thresholds + 1`` linear buckets.
        from_logits: predictions are logits: the sigmoid is applied, to ``[n, 2]`` the softmax.

    Examples:
        >>> metric = ROCCurve(buckets=8)
        >>> metric.add([0.125, 0.5, 0.375, 0.75], [0, 0, 1, 1])
        >>> curve = metric.compute()
        >>> curve.fpr.tolist(), curve.tpr.tolist()
        ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """

    gives = "curve"
    pictures: tuple[str, ...] = ("roc",)
    formula: Any = of_classes(formulas.roc_curve, "_lowest_scores", "zero_division")


class PrecisionRecallCurve(ScoreHistogram[formulas.PrecisionRecall]):
    """The precision-recall curve as arrays, from a histogram of the scores.

    Formula: see `fleetmetrics.formulas.precision_recall_curve`; points and thresholds, inputs and arguments as for
    `ROCCurve`. ``compute`` returns ``PrecisionRecall(precision, recall, thresholds)``, in the order of
    `sklearn.metrics.precision_recall_curve`. The recall is undefined if no sample is positive.

    Examples:
        >>> metric = PrecisionRecallCurve(buckets=8)
        >>> metric.add([0.125, 0.5, 0.375, 0.75], [0, 0, 1, 1])
        >>> curve = metric.compute()
        >>> curve.precision.tolist(), curve.recall.tolist()
        ([0.5, 0.6666666666666666, 0.5, 1.0, 1.0], [1.0, 1.0, 0.5, 0.5, 0.0])
    """

    gives = "curve"
    pictures: tuple[str, ...] = ("precision_recall",)
    formula: Any = of_classes(formulas.precision_recall_curve, "_lowest_scores", "zero_division")


class KolmogorovSmirnov(BoundedHistogram[float]):
    """Kolmogorov-Smirnov statistic (KS): the largest distance between the score distributions of the two classes.

    Formula: see `fleetmetrics.formulas.kolmogorov_smirnov`: ``max_t |TPR(t) - FPR(t)|`` over the bounds of the buckets.
    The statistic of the scores themselves may be higher; if it may be by more than ``tolerance``, ``compute`` warns,
    and names the bounds. Inputs as for `ROCCurve`. Undefined if a class has no samples.

    Args:
        tolerance: the largest distance of the bounds without a `BucketWarning`, at least 0; None: it never warns.
        **settings: ``buckets``, ``spacing``, ``num_thresholds`` and ``from_logits``, as for `ROCCurve`.

    Examples:
        >>> metric = KolmogorovSmirnov()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        0.5
    """

    pictures: tuple[str, ...] = ("score_histogram",)
    better = "higher"
    biased = True

    def value_of(self, positive: np.ndarray, negative: np.ndarray, thresholds: np.ndarray | None = None) -> float:
        return formulas.kolmogorov_smirnov.bare(positive, negative, self.zero_division)

    def bounds_of(self, value: Any, positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, ...]:
        """The rates at the bounds of buckets are those of the scores; inside, one rate may be ahead of the other."""
        ahead = [self.value_of(*split_buckets(positive, negative, above)) for above in (True, False)]
        return np.array([value]), np.array([value]), np.array([max(value, *ahead)])

    def may_be_wide(self, positive: np.ndarray, negative: np.ndarray) -> bool:
        """A rate moves by a bucket's share of its class."""
        return max(largest_share(positive), largest_share(negative)) > self.tolerance


class Shares(NamedTuple):
    """Values by share of the population.

    Args:
        fractions: shares of the samples, by descending score.
        values: one for each.
    """

    fractions: np.ndarray
    values: np.ndarray


class CumulativeGain(BoundedHistogram[Shares]):
    """Share of the positive samples that are among the highest scores, by share of the population.

    Formula: see `fleetmetrics.formulas.cumulative_gain`; a straight line within a bucket, as if its samples were in
    random order. If that of the scores themselves may differ by more than ``tolerance``, ``compute`` warns, and names
    the bounds. Inputs as for `ROCCurve`. ``compute`` returns ``Shares(fractions, values)``. Undefined if no sample is
    positive.

    Args:
        fractions: shares of the population, above 0 and at most 1; or their number: 10 means deciles.
        **settings: ``tolerance``, ``buckets``, ``spacing``, ``num_thresholds`` and ``from_logits``, as for
            `KolmogorovSmirnov`.

    Examples:
        >>> metric = CumulativeGain(fractions=[0.25, 0.5])
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute().values.tolist()
        [0.5, 0.5]
    """

    gives = "curve"
    pictures: tuple[str, ...] = ("gain",)
    fractions: np.ndarray
    values: Any = staticmethod(formulas.cumulative_gain.bare)

    def __init__(self, *, fractions: int | Sequence[float] = 10, **settings: Unpack[BoundedSettings]) -> None:
        super().__init__(**settings)
        self.fractions = _fractions(fractions)
        self.settle(fractions=self.fractions)

    def value_of(self, positive: np.ndarray, negative: np.ndarray, thresholds: np.ndarray | None = None) -> Shares:
        return Shares(self.fractions.copy(), self.values(positive, negative, self.fractions, self.zero_division))

    def bounds_of(self, value: Any, positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, ...]:
        """The first samples of a bucket may all be negative, or all be positive."""
        low, high = (self.value_of(*split_buckets(positive, negative, above)).values for above in (False, True))
        return value.values, np.minimum(low, value.values), np.maximum(high, value.values)

    def may_be_wide(self, positive: np.ndarray, negative: np.ndarray) -> bool:
        """Only samples of both classes where a fraction ends change places; rounding may name the bucket beside it."""
        mixed, population = np.minimum(positive, negative)[::-1], (positive + negative)[::-1].cumsum(dtype=np.float64)
        at = np.searchsorted(population, self.fractions * population[-1])
        around = [mixed[(at + step).clip(0, len(mixed) - 1)] for step in (-1, 0, 1)]
        widths = np.max(around, axis=0) / positive.sum() / self.divisor
        return bool((widths > self.tolerance).any())

    @property
    def divisor(self) -> Any:
        """What the share of the positive samples is divided by."""
        return 1.0

    def place(self, at: int) -> str:
        return f" at the fraction {self.fractions[at]:g}"


class Lift(CumulativeGain):
    """How many times more positive samples are among the highest scores than in a random choice of the same size.

    Formula: see `fleetmetrics.formulas.lift`: the cumulative gain divided by the share of the population. Inputs and
    arguments as for `CumulativeGain`; of values above 1, ``tolerance`` is relative.

    Examples:
        >>> metric = Lift(fractions=[0.25, 0.5])
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute().values.tolist()
        [2.0, 1.0]
    """

    pictures: tuple[str, ...] = ("lift",)
    values: Any = staticmethod(formulas.lift.bare)

    @property
    def divisor(self) -> Any:
        return self.fractions

    def allowed(self, value: np.ndarray) -> np.ndarray:
        return self.tolerance * np.maximum(value, 1.0)


def _fractions(fractions: Any) -> np.ndarray:
    values = array_or_empty(fractions)
    if values.ndim == 0:
        number = whole_number_of("fractions", fractions, 1, MOST_EDGES)
        return np.arange(1, number + 1) / number
    numbers = values.ndim == 1 and values.size > 0 and values.dtype.kind in "iuf"
    if not numbers or not ((values > 0) & (values <= 1)).all():
        raise InvalidInputError(
            f"fractions must be an integer of at least 1, or numbers above 0 and at most 1; not {fractions!r}"
        )
    return values.astype(np.float64)
