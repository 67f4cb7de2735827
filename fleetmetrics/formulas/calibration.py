"""Calibration: the parts of the Brier score, the calibration error, the calibration curve.

``number`` is the number (or weight) of the samples by outcome and bin, ``[2, bins]``: row 0 those labeled 0 (or
predicted wrong), row 1 those labeled 1 (or predicted right). ``probability`` is the (weighted) sum of their predicted
probabilities, of the same shape. Other shapes and negative counts raise `InvalidInputError`. Without samples a value is
nan with `UndefinedMetricWarning`, or ``zero_division`` if that is not nan.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.formulas.arrays import numbers, weights
from fleetmetrics.formulas.quotients import ratio, stand_in, undefined
from fleetmetrics.formulas.sums import root
from fleetmetrics.support.checks import amount, checked, one_of, stand_in_value

__all__ = [
    "BrierParts",
    "CalibrationPoints",
    "KuiperParts",
    "brier_decomposition",
    "calibration_curve",
    "expected_calibration_error",
    "kuiper_calibration",
]


class BrierParts(NamedTuple):
    """The Brier score and its parts over bins.

    ``score = reliability - resolution + uncertainty + within_bin_variance - within_bin_covariance``, up to rounding.

    Args:
        score: the mean of ``(p - y)**2``.
        reliability: squared distance of the bins' mean predictions from their rates; 0 is perfect.
        resolution: squared distance of the bins' rates from the overall rate; more is better.
        uncertainty: the variance of the labels, which no model can change.
        within_bin_variance: the variance of the predictions inside the bins.
        within_bin_covariance: twice the covariance of predictions and labels inside the bins.
    """

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    within_bin_variance: float
    within_bin_covariance: float


class CalibrationPoints(NamedTuple):
    """The calibration curve: a point for each bin with samples.

    Args:
        predicted: mean predicted probability of the bin.
        actual: share of its samples labeled 1.
        weight: their number (int64) or weight (float64).
        lower: the bin's lower edge.
        upper: its upper edge.
    """

    predicted: np.ndarray
    actual: np.ndarray
    weight: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class KuiperParts(NamedTuple):
    """Kuiper's statistic of calibration, and the range of scores in which it arises.

    Args:
        statistic: the largest absolute difference of actual and predicted positives in any range of scores, as a share
            of all samples.
        normalized: the same, divided by its standard deviation under perfect calibration, ``sum(p * (1 - p))**0.5``.
        p_value: the probability of at least that for perfectly calibrated predictions, of many samples.
        lower: the lower end of that range of scores.
        upper: its upper end.
        difference: actual less predicted positives there, as a share of all samples.
    """

    statistic: float
    normalized: float
    p_value: float
    lower: float
    upper: float
    difference: float


@checked(
    number=weights(2, "bins"),
    probability=weights(2, "bins"),
    squared_deviation=weights("bins"),
    centers=numbers("bins"),
)
def brier_decomposition(number: Any, probability: Any, squared_deviation: Any, centers: Any) -> BrierParts:
    """Reliability, resolution and uncertainty of the Brier score, and the parts due to different predictions in a bin.

    Formula: with weight n_k, mean prediction p_k and rate y_k of bin k, and the rate y of all n samples,

        reliability = sum_k n_k * (p_k - y_k)**2 / n        resolution = sum_k n_k * (y_k - y)**2 / n
        uncertainty = y * (1 - y)                           within_bin_variance = sum_ki w_ki * (p_ki - p_k)**2 / n
        within_bin_covariance = 2 * sum_ki w_ki * (y_ki - y_k) * (p_ki - p_k) / n

    Args:
        number: see the module.
        probability: see the module.
        squared_deviation: ``[bins]``, the (weighted) sum of the squared distances from the bin's center.
        centers: ``[bins]``, a number in each bin.

    Examples:
        >>> parts = brier_decomposition([[1, 1], [0, 2]], [[0.25, 0.75], [0.0, 1.5]], [0.0, 0.0], [0.25, 0.75])
        >>> [round(part, 6) for part in parts]
        [0.1875, 0.020833, 0.083333, 0.25, 0.0, 0.0]
    """
    used = number.sum(axis=0) != 0
    if not used.any():
        return BrierParts(*[undefined("brier_decomposition", "there are no samples")] * 6)
    number = number.astype(np.float64)[:, used]
    weight, total = number.sum(axis=0), float(number.sum())
    predicted = probability.astype(np.float64, copy=False)[:, used]
    actual, rate = number[1] / weight, float(number[1].sum()) / total
    mean = predicted.sum(axis=0) / weight
    # By label: the covariance is that of two groups, and does not cancel.
    by_label = predicted / np.where(number > 0, number, 1)
    covariance = np.where(number.min(axis=0) > 0, actual * (number[0] / weight) * (by_label[1] - by_label[0]), 0.0)
    center = centers.astype(np.float64)[used]
    spread = squared_deviation[used] / weight
    variance = np.maximum(spread - (mean - center) ** 2, 0.0)

    def mean_of(values: Any) -> float:
        return float(np.sum(weight * values) / total)

    reliability, resolution = mean_of((mean - actual) ** 2), mean_of((actual - rate) ** 2)
    # Compute the rate of the zeros from their own sum: 1 - rate would lose the digits of a rate close to 1.
    uncertainty = rate * (float(number[0].sum()) / total)
    within = mean_of(variance), 2 * mean_of(covariance)
    parts = [reliability, -resolution, uncertainty, within[0], -within[1]]
    score = math.fsum(parts) if all(map(math.isfinite, parts)) else math.nan
    return BrierParts(score, reliability, resolution, uncertainty, *within)


@checked(
    number=weights(2, "bins"),
    probability=weights(2, "bins"),
    norm=one_of("l1", "l2", "max"),
    zero_division=stand_in_value,
)
def expected_calibration_error(
    number: Any, probability: Any, norm: str = "l1", zero_division: float = math.nan
) -> float:
    """Distance of predicted probabilities from rates over bins, in [0, 1].

    Formula: with weight n_k, mean prediction p_k and rate y_k of bin k, the ``norm`` ``"l1"`` is ``sum_k n_k * |p_k -
    y_k| / sum_k n_k``, ``"l2"`` the root of ``sum_k n_k * (p_k - y_k)**2 / sum_k n_k``, and ``"max"`` is ``max_k |p_k -
    y_k|`` over the bins with samples.

    Examples:
        >>> expected_calibration_error([[2, 1], [0, 1]], [[0.5, 0.75], [0.0, 0.75]])
        0.25
    """
    _, weight, predicted, actual = _of_bins(number, probability)
    if not weight.size:
        return stand_in("expected_calibration_error", "there are no samples", zero_division)
    gap = np.abs(predicted - actual)
    if norm == "max":
        return float(gap.max())
    distance = np.sum(weight * (gap if norm == "l1" else gap**2))
    mean = ratio.bare(distance, weight.sum(), "expected_calibration_error", zero_division)
    return mean if norm == "l1" else root(mean)


@checked(number=weights(2, "bins"), probability=weights(2, "bins"), edges=numbers("bins+1", rising=True))
def calibration_curve(number: Any, probability: Any, edges: Any) -> CalibrationPoints:
    """Mean prediction and actual rate of each bin with samples, rising; ``edges`` are ``[bins + 1]``, increasing.

    Examples:
        >>> curve = calibration_curve([[1, 0, 1], [0, 0, 3]], [[0.25, 0, 0.75], [0, 0, 2.25]], [0, 0.5, 0.6, 1])
        >>> curve.predicted.tolist(), curve.actual.tolist(), curve.weight.tolist()
        ([0.25, 0.75], [0.0, 0.75], [1, 4])
    """
    used, weight, predicted, actual = _of_bins(number, probability)
    if not weight.size:
        undefined("calibration_curve", "there are no samples")
    edges = np.asarray(edges)
    return CalibrationPoints(predicted, actual, weight, edges[:-1][used], edges[1:][used])


def _of_bins(number: np.ndarray, probability: np.ndarray) -> tuple[np.ndarray, ...]:
    """Which bins have samples; and the weight, the mean prediction and the rate of these bins."""
    weight = number.sum(axis=0)
    used = weight != 0
    weight = weight[used]
    return used, weight, probability.sum(axis=0)[used] / weight, number[1][used] / weight


@checked(
    number=weights(2, "bins"),
    probability=weights(2, "bins"),
    variance=amount,
    edges=numbers("bins+1", rising=True),
)
def kuiper_calibration(number: Any, probability: Any, variance: Any, edges: Any) -> KuiperParts:
    """Calibration without bins of a chosen width: the largest miscalibration of any range of scores.

    Formula: ``max_k F_k - min_k F_k``, where ``F_k = sum_{i <= k}(y_i - p_i) / n`` over the samples of the first k
    bins, and ``F_0 = 0``. With narrow bins it is that of the sorted samples. Under perfect calibration ``n * F`` is a
    random walk of variance ``sum(p * (1 - p))``, whose range is distributed as that of a Brownian motion (Feller,
    "The asymptotic distribution of the range of sums of independent random variables", 1951).

    Source: Arrieta-Ibarra et al., "Metrics of calibration for probabilistic predictions", Journal of Machine Learning
    Research 23 (2022); for segments Guy et al., "Measuring multi-calibration", arXiv 2506.11251 (2025).

    Args:
        number: see the module.
        probability: see the module.
        variance: the sum of ``w**2 * p * (1 - p)`` over all samples.
        edges: ``[bins + 1]``, increasing.

    Examples:
        >>> parts = kuiper_calibration([[4, 1], [0, 3]], [[1.0, 0.75], [0.0, 2.25]], 1.5, [0, 0.5, 1])
        >>> parts.statistic, parts.lower, parts.upper, parts.difference
        (0.125, 0.0, 0.5, -0.125)
    """
    total = float(number.sum())
    if not math.isfinite(total + float(probability.sum()) + float(variance)) or variance < 0:  # unchecked sums
        return KuiperParts(*[math.nan] * 6)
    if not total:
        return KuiperParts(*[undefined("kuiper_calibration", "there are no samples")] * 6)
    walk = np.append(0.0, np.cumsum(number[1] - probability.sum(axis=0))) / total
    low, high = int(walk.argmin()), int(walk.argmax())
    statistic, deviation = float(walk[high] - walk[low]), math.sqrt(float(variance))
    normalized = math.inf if statistic else 0.0
    if total < 2.0**-500:
        reason = (
            f"squares of such small weights, {total:g} in all, are below the range of float64. Multiply the weights"
        )
        normalized = undefined("kuiper_calibration's p_value", reason)
    elif deviation:
        normalized = statistic * total / deviation
    first, last = sorted((low, high))
    first = int(np.flatnonzero(walk[: last + 1] == walk[first])[-1])  # the narrowest of ranges that are alike
    ends = np.asarray(edges)[[first, last]].tolist()
    difference = statistic if high > low else -statistic
    return KuiperParts(statistic, normalized, _exceeds(normalized), ends[0], ends[1], difference)


def _exceeds(span: float) -> float:
    """The probability that the range of a Brownian motion in unit time exceeds a number; nan for nan."""
    if math.isnan(span):
        return math.nan
    if span < 0.5:  # 1 in float64
        return 1.0
    terms = (k * math.erfc(k * span / math.sqrt(2)) * (-1) ** (k - 1) for k in range(1, 100))
    return min(1.0, max(0.0, 4 * math.fsum(terms)))
