"""Formulas of click-through metrics: rates, calibration, normalized entropy, bucket error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.formulas.given import histograms_given, number_given
from fleetmetrics.formulas.ratio import ratio, stand_in

__all__ = [
    "bucket_error",
    "calibration_ratio",
    "click_through_rate",
    "copc",
    "normalized_entropy",
    "predicted_click_through_rate",
]

_NO_SAMPLES = "there are no samples (their total weight is 0)"


def click_through_rate(clicks: Any, total: Any, zero_division: float = math.nan) -> float:
    """Share of the samples that are clicks: the actual click-through rate.

    Formula: ``sum(w * y) / sum(w)``.

    Source: McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013.

    Args:
        clicks: number (or weight) of the samples labelled 1.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A fraction in [0, 1]; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> click_through_rate(1, 4)
        0.25
    """
    return ratio(clicks, total, "click_through_rate", zero_division)


def predicted_click_through_rate(predicted: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean predicted probability of a click.

    Formula: ``sum(w * p) / sum(w)``.

    Source: McMahan et al., "Ad click prediction: a view from the trenches", KDD 2013.

    Args:
        predicted: the (weighted) sum of the predicted probabilities.
        total: number (or weight) of all samples.
        zero_division: the value if there are no samples, without a warning; nan: nan, with one.

    Returns:
        A fraction in [0, 1]; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> predicted_click_through_rate(0.5, 4)
        0.125
    """
    return ratio(predicted, total, "predicted_click_through_rate", zero_division)


def calibration_ratio(predicted: Any, clicks: Any, total: Any, zero_division: float = math.nan) -> float:
    """Predicted clicks per actual click: above 1 where the model promises too many.

    Formula: ``sum(w * p) / sum(w * y)``.

    Source: He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014, section 3.

    Args:
        predicted: the (weighted) sum of the predicted probabilities.
        clicks: number (or weight) of the samples labelled 1.
        total: number (or weight) of all samples.
        zero_division: what to return where it is undefined; nan warns.

    Returns:
        A number of at least 0. Undefined if no sample is labelled 1: ``zero_division``, with
        `UndefinedMetricWarning` if that is nan.

    Examples:
        >>> calibration_ratio(1.5, 1, 4)
        1.5
    """
    reason = "no sample is labelled 1" if np.any(total) else _NO_SAMPLES
    return ratio(predicted, clicks, "calibration", zero_division, reason)


def copc(clicks: Any, predicted: Any, total: Any, zero_division: float = math.nan) -> float:
    """Clicks over predicted clicks, the inverse of `calibration_ratio`: below 1 where the model promises too many.

    Formula: ``sum(w * y) / sum(w * p)``.

    Source: He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014, section 3, which has
    the inverse.

    Args:
        clicks: number (or weight) of the samples labelled 1.
        predicted: the (weighted) sum of the predicted probabilities.
        total: number (or weight) of all samples.
        zero_division: what to return where it is undefined; nan warns.

    Returns:
        A number of at least 0. Undefined if the predictions add up to 0: ``zero_division``, with
        `UndefinedMetricWarning` if that is nan.

    Examples:
        >>> copc(1, 2.0, 4)
        0.5
    """
    reason = "all predictions are 0" if np.any(total) else _NO_SAMPLES
    return ratio(clicks, predicted, "copc", zero_division, reason)


def normalized_entropy(
    log_likelihood: Any, clicks: Any, total: Any, zero_division: float = math.nan, *, others: Any = None
) -> float:
    """Log loss relative to that of the constant prediction of the actual rate: below 1 where the model knows more.

    Formula: ``sum(w * ln(q)) / sum(w * (y * ln(r) + (1 - y) * ln(1 - r)))``, where q is the probability that was given
    to the true label and ``r = sum(w * y) / sum(w)``.

    Source: He et al., "Practical lessons from predicting clicks on ads at Facebook", ADKDD 2014, equation 1.

    Args:
        log_likelihood: the (weighted) sum of ``ln(q)``, at most 0.
        clicks: number (or weight) of the samples labelled 1.
        total: number (or weight) of all samples.
        zero_division: what to return where it is undefined; nan warns.
        others: number (or weight) of the samples labelled 0; None: the difference, in which small weights are lost.

    Returns:
        A number of at least 0. Undefined if all labels are the same, or there are no samples: ``zero_division``, with
        `UndefinedMetricWarning` if that is nan.

    Examples:
        >>> round(normalized_entropy(-2.0, 2, 4), 12)
        0.721347520444
    """
    positive = number_given("clicks", clicks)
    negative = number_given("total", total) - positive if others is None else number_given("others", others)
    if positive <= 0 or negative <= 0:
        reason = f"all labels are {int(positive > 0)}" if positive or negative else _NO_SAMPLES
        return stand_in("normalized_entropy", reason, zero_division)
    entropy = -positive * _log_share(positive, negative) - negative * _log_share(negative, positive)
    return max(0.0, -float(number_given("log_likelihood", log_likelihood))) / entropy


def _log_share(part: float, rest: float) -> float:
    """``ln(part / (part + rest))``, exact too where the share is all but 1."""
    whole = part + rest
    return math.log(part / whole) if part < rest else math.log1p(-rest / whole)


def bucket_error(
    positive: Any,
    negative: Any,
    zero_division: float = math.nan,
    *,
    max_span: float = 0.01,
    relative_error_bound: float = 0.05,
) -> float:
    """Mean relative error of the predicted rate over groups of buckets that hold enough samples to tell.

    Bucket i of n stands for the rate ``i / n``. Neighbouring buckets are put into one group from the left; it is
    complete once the rate that it predicts, ``c = sum(i / n * w) / sum(w)``, is known well enough:

        sqrt((1 - c) / (c * sum(w))) < relative_error_bound

    A group that spans more than ``max_span`` before it is complete is dropped, and the next one begins. The value is
    the mean of ``|actual rate / c - 1|`` over the complete groups, each weighted by its samples.

    Source: Paddle's definition, ``BasicAucCalculator::calculate_bucket_error`` in
    ``paddle/fluid/framework/fleet/metrics.cc``; for relative errors of rates see He et al., ADKDD 2014.

    Args:
        positive: ``[buckets]``, number or weight of the samples with label 1 by bucket of equal width in [0, 1].
        negative: the same for label 0.
        zero_division: what to return where it is undefined; nan warns.
        max_span: how far the rates in a group may lie apart, above 0.
        relative_error_bound: how uncertain the rate of a complete group may be, above 0.

    Returns:
        A number of at least 0. Undefined if no group is complete: ``zero_division``, with `UndefinedMetricWarning` if
        that is nan; Paddle has 0.

    Examples:
        >>> bucket_error([0, 0, 600, 0], [0, 0, 400, 0])
        0.19999999999999996
    """
    error = weight = shows = clicks = predicted = 0.0
    histograms = histograms_given(positive, negative)
    start, buckets = -math.inf, len(histograms[0])
    pairs = zip(*(histogram.astype(float).tolist() for histogram in histograms))
    for bucket, (clicked, ignored) in enumerate(pairs):
        rate = bucket / buckets
        if rate - start > max_span:
            start, shows, clicks, predicted = rate, 0.0, 0.0, 0.0
        if not clicked + ignored and not shows:
            continue
        shows += clicked + ignored
        clicks += clicked
        predicted += rate * (clicked + ignored)
        mean = predicted / shows
        if mean > 0 and math.sqrt((1 - mean) / (mean * shows)) < relative_error_bound:
            error += abs(clicks / shows / mean - 1) * shows
            weight += shows
            start = -math.inf
    if weight:
        return error / weight
    known = np.any(positive) or np.any(negative)
    reason = "no group of buckets holds enough samples to tell its rate" if known else _NO_SAMPLES
    return stand_in("bucket_error", reason, zero_division)
