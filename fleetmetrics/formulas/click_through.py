"""Click-through metrics: normalized entropy, bucket error.

``clicks`` is the number (or weight) of the samples labeled 1, ``total`` that of all; negative counts raise
`InvalidInputError`. Where a value is undefined (without samples, always) it is ``zero_division``; nan, the default,
comes with `UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from typing import Any

from fleetmetrics.formulas.arrays import weights
from fleetmetrics.formulas.quotients import NO_SAMPLES, stand_in
from fleetmetrics.formulas.sums import as_number, unknown
from fleetmetrics.support.checks import above_0, amount, at_most_0, checked, optional, stand_in_value

__all__ = [
    "bucket_error",
    "normalized_entropy",
]


@checked(log_likelihood=at_most_0, clicks=amount, total=amount, zero_division=stand_in_value, others=optional(amount))
def normalized_entropy(
    log_likelihood: Any, clicks: Any, total: Any, zero_division: float = math.nan, *, others: Any = None
) -> float:
    """Log loss divided by that of always predicting the actual rate: below 1 if the model knows more.

    Formula: ``sum(w * ln(q)) / sum(w * (y * ln(r) + (1 - y) * ln(1 - r)))``, where q is the probability predicted for
    the true label and ``r = sum(w * y) / sum(w)``. Undefined if all labels are equal.

    Args:
        log_likelihood: ``sum(w * ln(q))``, at most 0.
        clicks: see the module, also for ``total`` and ``zero_division``.
        total: used for ``others``.
        zero_division: see the module.
        others: number (or weight) of the samples labeled 0; None: ``total - clicks``, which loses small weights.

    Examples:
        >>> round(normalized_entropy(-2.0, 2, 4), 12)
        0.721347520444
    """
    positive = as_number(clicks)
    negative = as_number(total) - positive if others is None else as_number(others)
    if positive <= 0 or negative <= 0:
        reason = f"all labels are {int(positive > 0)}" if positive or negative else NO_SAMPLES
        return stand_in("normalized_entropy", reason, zero_division)
    entropy = -positive * _log_share(positive, negative) - negative * _log_share(negative, positive)
    likelihood = float(as_number(log_likelihood))
    if not likelihood <= 0:  # the predictions are not probabilities; 0 would be the best possible value
        return math.nan
    return max(-likelihood, 0.0) / entropy


def _log_share(part: float, rest: float) -> float:
    """``ln(part / (part + rest))``, accurate also where the share is nearly 1."""
    whole = part + rest
    if part < rest:
        return math.log(part / whole) if part / whole else math.log(part) - math.log(whole)
    return math.log1p(-rest / whole)


@checked(
    positive=weights("buckets", flat=True),
    negative=weights("buckets", flat=True),
    zero_division=stand_in_value,
    max_span=above_0,
    relative_error_bound=above_0,
)
def bucket_error(
    positive: Any,
    negative: Any,
    zero_division: float = math.nan,
    *,
    max_span: float = 0.01,
    relative_error_bound: float = 0.05,
) -> float:
    """Mean relative error of the predicted rate over groups of buckets with enough samples.

    Formula: ``sum_g n_g * |y_g / c_g - 1| / sum_g n_g`` over the complete groups, with the weight ``n_g = sum(w)``, the
    actual rate ``y_g = sum(w * y) / sum(w)`` and the predicted rate ``c_g = sum(w * i / n) / sum(w)`` of group g.

    Bucket i of n represents the rate ``i / n``. Neighboring buckets are grouped from the left; a group is complete
    once its predicted rate is certain enough:

        sqrt((1 - c) / (c * sum(w))) < relative_error_bound

    A group that spans more than ``max_span`` before it is complete is dropped. Undefined without a complete group
    (Paddle returns 0).

    Args:
        positive: ``[buckets]``, number or weight of the samples with label 1 by bucket of equal width in [0, 1].
        negative: the same for label 0.
        zero_division: see the module.
        max_span: the widest span of rates in a group, above 0.
        relative_error_bound: the largest uncertainty of a complete group's rate, above 0.

    Examples:
        >>> bucket_error([0, 0, 600, 0], [0, 0, 400, 0])
        0.19999999999999996
    """
    if unknown(positive) or unknown(negative):
        return math.nan
    error = weight = shows = clicks = predicted = 0.0
    start, buckets = -math.inf, len(positive)
    pairs = zip(*(histogram.astype(float).tolist() for histogram in (positive, negative)))
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
    known = positive.any() or negative.any()
    reason = "no group of buckets holds enough samples to tell its rate" if known else NO_SAMPLES
    return stand_in("bucket_error", reason, zero_division)
