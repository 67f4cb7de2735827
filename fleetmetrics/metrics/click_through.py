"""Click-through metrics: rates, calibration, normalized entropy, bucket error.

Their names follow Paddle's C++ metrics (``actual_ctr``, ``predicted_ctr``, ``bucket_error``) and TorchRec's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.metric import TOTAL, Declared, Linear, Quotient, Undefinable, WithoutColumns
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.formulas.quotients import NO_SAMPLES
from fleetmetrics.metrics.buckets import BUCKETS, BucketHistogram, LogitSettings, OfProbabilities
from fleetmetrics.metrics.classification.losses import LOG_LIKELIHOOD, LOWEST, log_sigmoid
from fleetmetrics.support.checks import MOST_ENTRIES, positive_of, whole_number_of
from fleetmetrics.support.typed import Unpack

__all__ = [
    "COPC",
    "BucketError",
    "Calibration",
    "ClickThroughRate",
    "NormalizedEntropy",
    "PredictedClickThroughRate",
    "RecalibratedNormalizedEntropy",
]

#: The smallest number that a float64 holds to full precision.
_NORMAL = float(np.finfo(np.float64).tiny)


@statistic
def clicks(batch: Batch) -> Any:
    """The number or weight of the samples labeled 1, for states of key "clicks"."""
    if batch.classes > 2:
        return batch.scores  # raises the error that says what is allowed
    return batch.weighted_sum(batch.positive, zero_at_zero=True)


@statistic
def others(batch: Batch) -> Any:
    """The number or weight of the samples labeled 0."""
    if batch.weight is None and batch.lanes is None:
        return batch.xp.subtract(batch.number, clicks(batch))
    return batch.weighted_sum(batch.xp.logical_not(batch.positive))


@statistic
def _predicted(batch: Batch, from_logits: bool) -> Any:
    return batch.weighted_sum(batch.probability(from_logits), zero_at_zero=not from_logits)


@statistic
def _recalibrated_log_likelihood(batch: Batch, from_logits: bool, coefficient: float) -> Any:
    """For the probabilities ``c * p / (c * p + 1 - p)``; for logits x, those of ``x + ln(c)``."""
    xp = batch.xp
    if from_logits:
        logit = xp.cast(batch.scores, "float64")
        if batch.classes:
            logit = xp.subtract(logit, xp.cast(batch.prediction[:, 0], "float64"))
        logit = xp.add(logit, xp.scale(xp.ones_like(logit), math.log(coefficient)))
        return batch.weighted_sum(log_sigmoid(xp, xp.where(batch.positive, logit, -logit)))
    p = batch.probabilities
    click, rest = xp.scale(p, coefficient), 1.0 - p
    of_label = xp.divide(xp.where(batch.positive, click, rest), xp.add(click, rest))
    return batch.weighted_sum(xp.log(xp.at_least(of_label, LOWEST)), zero_at_zero=True)


def _inverse(quotient: float) -> float:
    return 1 / quotient if quotient else math.inf


def _slope_of_inverse(quotient: float) -> float:
    return -1 / quotient**2 if quotient else math.nan


def _slopes_of_entropy(log_likelihood: float, clicks: float, others: float) -> tuple[float, float, float]:
    """Of the log likelihood over that of the constant rate, whose derivatives are the logarithms of both shares."""
    if not (clicks and others):  # the constant rate is certain
        return math.nan, math.nan, math.nan
    of_click, of_other = math.log(clicks / (clicks + others)), math.log(others / (clicks + others))
    constant = clicks * of_click + others * of_other
    entropy = log_likelihood / constant
    return 1 / constant, -entropy * of_click / constant, -entropy * of_other / constant


CLICKS = Declared("clicks", key="clicks", statistic=clicks)
OTHERS = Declared("others", key="others", statistic=others)
_PREDICTED = Declared("predicted", dtype="float64", statistic=_predicted, settings=("from_logits",))


class ClickThroughRate(WithoutColumns[float], Undefinable[float]):
    """Actual click-through rate: the share of the samples that are labeled 1.

    Formula: ``sum(w * y) / sum(w)``. ``add(prediction, label)`` takes labels 0 or 1 and reads only the shape of the
    predictions. Undefined without samples.

    Examples:
        >>> metric = ClickThroughRate()
        >>> metric.add([0.5, 0.25, 0.25, 0.0], [1, 0, 0, 0])
        >>> metric.compute()
        0.25
    """

    quotient: Quotient | None = Quotient({"clicks": 1}, highest=1)
    requirements: tuple[str | Requirement, ...] = ("class_label",)
    declared: tuple[Declared, ...] = (CLICKS, TOTAL)
    cell_states: tuple[str, ...] = ("clicks", "total")


class PredictedClickThroughRate(OfProbabilities[float]):
    """Predicted click-through rate: the mean of the predicted probabilities.

    Formula: ``sum(w * p) / sum(w)``, in float64 for inputs of any dtype.

    ``add(prediction, label=None)`` takes probabilities of class 1 of any shape; every element counts. With labels
    ``[n]`` it also takes ``[n, 2]`` probabilities of both classes. Undefined without samples.

    Args:
        from_logits: predictions are logits: the sigmoid is applied, to ``[n, 2]`` the softmax.

    Examples:
        >>> metric = PredictedClickThroughRate()
        >>> metric.add([0.5, 0.25, 0.25, 0.0], [1, 0, 0, 0])
        >>> metric.compute()
        0.25
    """

    requirements: tuple[str | Requirement, ...]

    quotient: Quotient | None = Quotient({"predicted": 1}, highest=1)
    declared: tuple[Declared, ...] = (_PREDICTED, TOTAL)

    def __init__(self, **settings: Unpack[LogitSettings]) -> None:
        super().__init__(**settings)
        self.requirements = self.requirements[:1]


class Calibration(OfProbabilities[float]):
    """Predicted clicks per actual click: above 1 if the model predicts too many.

    Formula: ``sum(w * p) / sum(w * y)``, in float64 for inputs of any dtype; TorchRec's calibration.

    ``add(prediction, label)`` takes probabilities of class 1 of the label's shape (``[n, 1]`` equals ``[n]``), or
    ``[n, 2]`` probabilities of both classes, and labels 0 or 1. Undefined if no sample is labeled 1.

    Args:
        from_logits: predictions are logits: the sigmoid is applied, to ``[n, 2]`` the softmax.

    Examples:
        >>> metric = Calibration()
        >>> metric.add([0.75, 0.5, 0.25, 0.0], [1, 0, 0, 0])
        >>> metric.compute()
        1.5
    """

    quotient: Quotient | None = Quotient({"clicks": 1}, {"predicted": 1}, value=_inverse, slope=_slope_of_inverse)
    declared: tuple[Declared, ...] = (_PREDICTED, CLICKS, TOTAL)

    def formula(self, predicted: Any, clicks: Any, total: Any) -> float:
        return self._ratio(predicted, clicks, "no sample is labeled 1" if total else NO_SAMPLES)


class COPC(Calibration):
    """Clicks over predicted clicks, the inverse of `Calibration`: below 1 if the model predicts too many.

    Formula: ``sum(w * y) / sum(w * p)``. Undefined if all predictions are 0. Inputs and arguments as for
    `Calibration`.

    Examples:
        >>> metric = COPC()
        >>> metric.add([0.75, 0.5, 0.5, 0.25], [1, 0, 0, 0])
        >>> metric.compute()
        0.5
    """

    quotient: Quotient = Quotient({"clicks": 1}, {"predicted": 1}, reason="all predictions are 0")
    formula: Any = Undefinable.formula


class NormalizedEntropy(OfProbabilities[float]):
    """Log loss divided by that of predicting the actual rate for every sample: below 1 if the model knows more.

    Formula: ``sum(w * ln(q)) / sum(w * (y * ln(r) + (1 - y) * ln(1 - r)))``, where q is the probability given to the
    true label, at least ``2**-52`` as in `LogLoss` (unbounded for logits), and r is the click-through rate
    ``sum(w * y) / sum(w)``. Inputs and arguments as for `Calibration`. Undefined if all labels are the same, or without
    samples.

    Examples:
        >>> metric = NormalizedEntropy()
        >>> metric.add([0.5, 0.5, 0.5, 0.5], [1, 0, 0, 0])
        >>> round(metric.compute(), 12)
        1.232622906807
    """

    better = "lower"
    recalibration_coefficient: float = 1.0
    linear: Linear | None = Linear(({"log_likelihood": 1}, {"clicks": 1}, {"others": 1}), _slopes_of_entropy)

    def __init__(self, **settings: Unpack[LogitSettings]) -> None:
        super().__init__(**settings)
        if self.recalibration_coefficient == 1 and not self.from_logits:
            self.declare(*LOG_LIKELIHOOD)  # shared with `LogLoss`
        else:
            how = "from_logits", "recalibration_coefficient"
            self.declare("log_likelihood", dtype="float64", statistic=_recalibrated_log_likelihood, settings=how)
        self.declare(*CLICKS)
        self.declare(*OTHERS)

    def formula(self, log_likelihood: np.ndarray, clicks: np.ndarray, others: np.ndarray) -> float:
        return formulas.normalized_entropy.bare(
            log_likelihood, clicks, clicks + others, self.zero_division, others=others
        )


class RecalibratedNormalizedEntropy(NormalizedEntropy):
    """`NormalizedEntropy` of predictions that are corrected for the sampling of negatives.

    Formula: that of `NormalizedEntropy`, with ``p / (p + (1 - p) / c)`` for p, where c is the recalibration
    coefficient: the share of the negatives kept for training (He et al., section 6.3). Otherwise like
    `NormalizedEntropy`.

    Args:
        recalibration_coefficient: c above, a number above 0; 1 changes nothing.

    Examples:
        >>> metric = RecalibratedNormalizedEntropy(recalibration_coefficient=0.5)
        >>> metric.add([0.5, 0.5, 0.5], [1, 0, 0])
        >>> round(metric.compute(), 12)
        1.0
    """

    recalibration_coefficient: float

    def __init__(self, *, recalibration_coefficient: float = 1.0, **settings: Unpack[LogitSettings]) -> None:
        self.recalibration_coefficient = positive_of("recalibration_coefficient", recalibration_coefficient, _NORMAL)
        super().__init__(**settings)


class BucketError(BucketHistogram[float]):
    """Mean relative error of the predicted rate over groups of buckets that hold enough samples.

    Formula: see `fleetmetrics.formulas.bucket_error`; Paddle's definition, over all workers. The buckets are those of
    ``AUC(spacing="linear")``, ``int(p * (buckets - 1))`` in the precision of the scores, but a score of 1 falls into
    the bucket below. In a `fleetmetrics.MetricCollection` the two share one histogram. Inputs as for `Calibration`.
    Undefined if no group of neighboring buckets holds enough samples, or without samples; Paddle returns 0.

    Args:
        buckets: one more than Paddle's ``table_size``, at least 2.
        max_span: the largest distance between the rates in a group, above 0.
        relative_error_bound: the largest uncertainty of the rate of a complete group, relative to the rate; above 0.
        from_logits: predictions are logits: the sigmoid is applied, to ``[n, 2]`` the softmax.

    Examples:
        >>> metric = BucketError(buckets=11)
        >>> metric.add([0.5] * 1000, [1] * 600 + [0] * 400)
        >>> round(metric.compute(), 12)
        0.2
    """

    biased = True
    pictures: tuple[str, ...] = ("score_histogram",)

    max_span: float
    relative_error_bound: float

    better = "lower"

    def __init__(
        self,
        *,
        buckets: int = BUCKETS,
        max_span: float = 0.01,
        relative_error_bound: float = 0.05,
        **settings: Unpack[LogitSettings],
    ) -> None:
        super().__init__(**settings)
        self._declare_buckets(whole_number_of("buckets", buckets, 2, MOST_ENTRIES // 2), "linear")
        self.max_span = positive_of("max_span", max_span, _NORMAL)
        self.relative_error_bound = positive_of("relative_error_bound", relative_error_bound, _NORMAL)

    def formula(self, histogram: np.ndarray) -> float:
        table = histogram[:, :-1].copy()
        table[:, -1] += histogram[:, -1]
        bounds = {"max_span": self.max_span, "relative_error_bound": self.relative_error_bound}
        return formulas.bucket_error.bare(table[1], table[0], self.zero_division, **bounds)
