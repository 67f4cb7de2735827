"""Points of the curves: the best of one rate at a given other rate, and metrics at given thresholds."""

from __future__ import annotations

from typing import Any, ClassVar, Sequence

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics.buckets import (
    BoundedHistogram,
    BoundedSettings,
    LogitSettings,
    OfProbabilities,
    largest_share,
    of_classes,
    split_buckets,
)
from fleetmetrics.support.checks import MOST_EDGES, array_or_empty, number_of, positive_of, whole_number_of
from fleetmetrics.support.typed import Unpack

__all__ = [
    "EqualErrorRate",
    "PrecisionAtFixedRecall",
    "RecallAtFixedPrecision",
    "SensitivityAtSpecificity",
    "SpecificityAtSensitivity",
    "TPRAtFPR",
    "ThresholdSweep",
]


class _Point(BoundedHistogram[formulas.OperatingPoint]):
    """The best value at the thresholds between buckets; thresholds inside them may have a better one."""

    gives = "point"
    better = "higher"
    #: The function of histograms, and its setting.
    best: ClassVar[tuple[Any, str]]

    def value_of(
        self, positive: np.ndarray, negative: np.ndarray, thresholds: np.ndarray | None = None
    ) -> formulas.OperatingPoint:
        function, setting = self.best
        thresholds = self._lowest_scores if thresholds is None else thresholds
        point: formulas.OperatingPoint = function(
            positive, negative, thresholds, getattr(self, setting), self.zero_division
        )
        return point

    def bounds_of(self, value: Any, positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, ...]:
        """No threshold inside a bucket is better than one below all of its positive and above all of its negative."""
        split = split_buckets(positive, negative, above=True)
        high = self.value_of(*split, np.repeat(self._lowest_scores, 2)).value
        return np.array([value.value]), np.array([value.value]), np.array([max(value.value, high)])


class _RatePoint(_Point):
    """The best rate of one class at a rate of the other class."""

    def may_be_wide(self, positive: np.ndarray, negative: np.ndarray) -> bool:
        """The rate at the same limit moves by a bucket's share of its class at most."""
        return max(largest_share(positive), largest_share(negative)) > self.tolerance


class RecallAtFixedPrecision(_Point):
    """The highest recall at which the precision is at least the given one, from a histogram of the scores.

    Formula: see `fleetmetrics.formulas.recall_at_fixed_precision`; thresholds are the lowest scores of the buckets.
    A threshold inside a bucket may be better; if it may be by more than ``tolerance``, ``compute`` warns, and names the
    bounds. Inputs as for `fleetmetrics.ROCCurve`. ``compute`` returns ``OperatingPoint(value, threshold)``; the
    threshold is inf if only an empty set of predictions is precise enough. Undefined if no sample is positive.

    Args:
        min_precision: in [0, 1].
        **settings: ``tolerance``, ``buckets``, ``spacing``, ``num_thresholds`` and ``from_logits``, as for
            `fleetmetrics.KolmogorovSmirnov`.

    Examples:
        >>> metric = RecallAtFixedPrecision(min_precision=0.6, buckets=9, spacing="linear")
        >>> metric.add([0.125, 0.5, 0.375, 0.75], [0, 0, 1, 1])
        >>> metric.compute()
        OperatingPoint(value=1.0, threshold=0.375)
    """

    pictures: tuple[str, ...] = ("precision_recall",)

    min_precision: float

    best: ClassVar[tuple[Any, str]] = formulas.recall_at_fixed_precision.bare, "min_precision"

    def __init__(self, *, min_precision: float, **settings: Unpack[BoundedSettings]) -> None:
        super().__init__(**settings)
        self.min_precision = number_of("min_precision", min_precision, 0, 1)


class PrecisionAtFixedRecall(_Point):
    """The highest precision at which the recall is at least the given one, from a histogram of the scores.

    Formula: see `fleetmetrics.formulas.precision_at_fixed_recall`. Otherwise like `RecallAtFixedPrecision`.

    Args:
        min_recall: in [0, 1].
        **settings: as for `RecallAtFixedPrecision`.

    Examples:
        >>> metric = PrecisionAtFixedRecall(min_recall=0.5)
        >>> metric.add([0.125, 0.5, 0.375, 0.75], [0, 0, 1, 1])
        >>> metric.compute()
        OperatingPoint(value=1.0, threshold=0.75)
    """

    pictures: tuple[str, ...] = ("precision_recall",)

    min_recall: float

    best: ClassVar[tuple[Any, str]] = formulas.precision_at_fixed_recall.bare, "min_recall"

    def __init__(self, *, min_recall: float, **settings: Unpack[BoundedSettings]) -> None:
        super().__init__(**settings)
        self.min_recall = number_of("min_recall", min_recall, 0, 1)


class SensitivityAtSpecificity(_RatePoint):
    """The highest sensitivity at which the specificity is at least the given one, from a histogram of the scores.

    Formula: see `fleetmetrics.formulas.sensitivity_at_specificity`. Undefined if a class has no samples. Otherwise like
    `RecallAtFixedPrecision`.

    Args:
        min_specificity: in [0, 1].
        **settings: as for `RecallAtFixedPrecision`.

    Examples:
        >>> metric = SensitivityAtSpecificity(min_specificity=0.5, buckets=9, spacing="linear")
        >>> metric.add([0.125, 0.5, 0.375, 0.75], [0, 0, 1, 1])
        >>> metric.compute()
        OperatingPoint(value=1.0, threshold=0.375)
    """

    pictures: tuple[str, ...] = ("roc",)

    min_specificity: float

    best: ClassVar[tuple[Any, str]] = formulas.sensitivity_at_specificity.bare, "min_specificity"

    def __init__(self, *, min_specificity: float, **settings: Unpack[BoundedSettings]) -> None:
        super().__init__(**settings)
        self.min_specificity = number_of("min_specificity", min_specificity, 0, 1)


class SpecificityAtSensitivity(_RatePoint):
    """The highest specificity at which the sensitivity is at least the given one, from a histogram of the scores.

    Formula: see `fleetmetrics.formulas.specificity_at_sensitivity`. Otherwise like `SensitivityAtSpecificity`.

    Args:
        min_sensitivity: in [0, 1].
        **settings: as for `RecallAtFixedPrecision`.

    Examples:
        >>> metric = SpecificityAtSensitivity(min_sensitivity=0.75, buckets=9, spacing="linear")
        >>> metric.add([0.125, 0.5, 0.375, 0.75], [0, 0, 1, 1])
        >>> metric.compute()
        OperatingPoint(value=0.5, threshold=0.375)
    """

    pictures: tuple[str, ...] = ("roc",)

    min_sensitivity: float

    best: ClassVar[tuple[Any, str]] = formulas.specificity_at_sensitivity.bare, "min_sensitivity"

    def __init__(self, *, min_sensitivity: float, **settings: Unpack[BoundedSettings]) -> None:
        super().__init__(**settings)
        self.min_sensitivity = number_of("min_sensitivity", min_sensitivity, 0, 1)


class TPRAtFPR(_RatePoint):
    """The highest true positive rate at which the false positive rate is at most the given one, from a histogram.

    Formula: see `fleetmetrics.formulas.tpr_at_fpr`; `SensitivityAtSpecificity` under the name of biometrics and of
    fraud detection. Otherwise like it.

    Args:
        max_fpr: in [0, 1].
        **settings: as for `RecallAtFixedPrecision`.

    Examples:
        >>> metric = TPRAtFPR(max_fpr=0.5, buckets=9, spacing="linear")
        >>> metric.add([0.125, 0.5, 0.375, 0.75], [0, 0, 1, 1])
        >>> metric.compute()
        OperatingPoint(value=1.0, threshold=0.375)
    """

    pictures: tuple[str, ...] = ("roc",)

    max_fpr: float

    best: ClassVar[tuple[Any, str]] = formulas.tpr_at_fpr.bare, "max_fpr"

    def __init__(self, *, max_fpr: float, **settings: Unpack[BoundedSettings]) -> None:
        super().__init__(**settings)
        self.max_fpr = number_of("max_fpr", max_fpr, 0, 1)


class EqualErrorRate(BoundedHistogram[float]):
    """Equal error rate (EER): the rate of errors where as many positives are missed as negatives are accepted.

    Formula: see `fleetmetrics.formulas.equal_error_rate`: the point of the ROC curve with ``FPR = 1 - TPR``. Inside a
    bucket the curve is a straight line; if the rate of the scores themselves may differ by more than ``tolerance``,
    ``compute`` warns, and names the bounds. Inputs as for `fleetmetrics.ROCCurve`. Undefined if a class has no samples.

    Args:
        **settings: ``tolerance``, ``buckets``, ``spacing``, ``num_thresholds`` and ``from_logits``, as for
            `fleetmetrics.KolmogorovSmirnov`.

    Examples:
        >>> metric = EqualErrorRate()
        >>> metric.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> metric.compute()
        0.5
    """

    pictures: tuple[str, ...] = ("roc",)
    better = "lower"

    def value_of(self, positive: np.ndarray, negative: np.ndarray, thresholds: np.ndarray | None = None) -> float:
        return formulas.equal_error_rate.bare(positive, negative, self.zero_division)

    def bounds_of(self, value: Any, positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, ...]:
        """A curve that lies above another one meets the diagonal ``FPR = 1 - TPR`` before it."""
        low, high = (self.value_of(*split_buckets(positive, negative, above)) for above in (True, False))
        return np.array([value]), np.array([min(low, value)]), np.array([max(high, value)])

    def may_be_wide(self, positive: np.ndarray, negative: np.ndarray) -> bool:
        """All orders meet the diagonal in the same bucket, whose shares of both classes limit how far apart."""
        return min(largest_share(positive), largest_share(negative)) > self.tolerance


@statistic
def _between_thresholds(batch: Batch, thresholds: tuple[float, ...], from_logits: bool) -> Any:
    xp = batch.xp
    place = xp.position(xp.constant(np.array(thresholds)), batch.probability(from_logits), right=True)
    return batch.histogram(xp.cast(batch.labels, "int64"), place)


class ThresholdSweep(OfProbabilities[formulas.Sweep]):
    """Precision, recall, F-beta, accuracy and specificity at each of the given thresholds, and the best threshold.

    Formula: see `fleetmetrics.formulas.threshold_sweep`. A sample is predicted positive where ``p >= threshold``; both
    are compared as float64, so the counts are exact at exactly these thresholds.

    Inputs as for `fleetmetrics.Calibration`. ``compute`` returns ``Sweep`` of arrays ``thresholds``, ``precision``,
    ``recall``, ``f_beta``, ``accuracy``, ``specificity``, and the numbers ``best_threshold`` and ``best_f_beta``. An
    entry is undefined where nothing is predicted positive (precision), or a class has no samples.

    Args:
        thresholds: rising numbers in [0, 1]; or their number, at least 2, evenly spaced from 0 to 1.
        beta: the importance of recall relative to precision, above 0.
        from_logits: predictions are logits: the sigmoid is applied; thresholds stay probabilities.

    Examples:
        >>> metric = ThresholdSweep(thresholds=[0.25, 0.5])
        >>> metric.add([0.125, 0.5, 0.375, 0.75], [0, 0, 1, 1])
        >>> sweep = metric.compute()
        >>> sweep.precision.tolist(), sweep.recall.tolist(), sweep.best_threshold
        ([0.6666666666666666, 0.5], [1.0, 0.5], 0.25)
    """

    gives = "curve"
    pictures: tuple[str, ...] = ("threshold_sweep",)

    beta: float
    thresholds: tuple[float, ...]

    cell_states: tuple[str, ...] = ("counts",)
    formula: Any = of_classes(formulas.threshold_sweep, "thresholds", "beta", "zero_division")

    def __init__(
        self, *, thresholds: int | Sequence[float] = 101, beta: float = 1.0, **settings: Unpack[LogitSettings]
    ) -> None:
        super().__init__(**settings)
        self.thresholds = _thresholds(thresholds)
        self.settle(thresholds=self.thresholds)
        self.beta = positive_of("beta", beta)
        shape = (2, len(self.thresholds) + 1)
        self.declare("counts", shape, statistic=_between_thresholds, settings=("thresholds", "from_logits"))


def _thresholds(thresholds: Any) -> tuple[float, ...]:
    values = array_or_empty(thresholds)
    if values.ndim == 0:
        return tuple(np.linspace(0, 1, whole_number_of("thresholds", thresholds, 2, MOST_EDGES)).tolist())
    in_range = (
        values.ndim == 1 and values.size > 0 and values.dtype.kind in "iuf" and ((values >= 0) & (values <= 1)).all()
    )
    if not in_range or not (np.diff(values.astype(np.float64)) > 0).all():
        raise InvalidInputError(
            f"thresholds must be an integer of at least 2, or increasing numbers from 0 to 1; not {thresholds!r}"
        )
    return tuple(values.astype(np.float64).tolist())
