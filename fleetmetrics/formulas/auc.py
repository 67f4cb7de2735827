"""Areas under the ROC and the precision-recall curve, from the histograms of the scores of both classes.

A histogram does not say how the samples of one bucket are ordered. The values count them as tied; the bounds are those
of the worst and the best order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.arrays import weights
from fleetmetrics.formulas.quotients import one_class, stand_in, undefined
from fleetmetrics.formulas.sums import are_counts, as_integers, exact_sum, partial_sums, sums_before
from fleetmetrics.support.checks import checked, optional, stand_in_value

__all__ = [
    "BoundedArea",
    "auc_bounds",
    "auc_from_histogram",
    "average_precision_bounds",
    "average_precision_from_histogram",
]


class BoundedArea(NamedTuple):
    """An area, with the lowest and the highest area over all orders inside the buckets.

    Args:
        value: the area with the samples of a bucket tied; an array if there is one for each class.
        low: at most the area of the raw scores.
        high: at least the area of the raw scores.
    """

    value: Any
    low: Any
    high: Any


#: The number of histograms that a processor's cache holds.
_TOGETHER = 32
#: A histogram of the scores of a class.
HISTOGRAM = weights("buckets", flat=True)


def area_fraction(max_fpr: Any) -> float:
    """The argument ``max_fpr``, a number above 0 and at most 1, or None for 1; else `InvalidInputError`."""
    if max_fpr is None:
        return 1.0
    if isinstance(max_fpr, (int, float, np.number)) and not isinstance(max_fpr, bool) and 0 < max_fpr <= 1:
        return float(max_fpr)
    raise InvalidInputError(f"max_fpr must be None or a number above 0 and at most 1, not {max_fpr!r}")


def fraction(argument: str, value: Any, _: Any = None) -> Any:
    """The argument ``max_fpr``, as it is."""
    return area_fraction(value) and value


@checked(positive=HISTOGRAM, negative=HISTOGRAM, max_fpr=fraction, zero_division=optional(stand_in_value))
def auc_from_histogram(
    positive: Any, negative: Any, max_fpr: float | None = None, zero_division: float | None = None
) -> float:
    """Area under the ROC curve from the histograms of the scores of both classes, in [0, 1].

    The probability that a positive sample scores higher than a negative one. Samples of one bucket count as tied: the
    curve is a straight line inside a bucket (trapezoidal rule).

    Formula:
        sum_b negative[b] * (sum_{c > b} positive[c] + positive[b] / 2) / (sum(positive) * sum(negative))

    With ``max_fpr`` the area A of the curve up to that false positive rate f, standardized so that guessing gives 0.5
    and a perfect order 1: ``(1 + (A - f**2 / 2) / (f - f**2 / 2)) / 2``.

    Args:
        positive: weight of the samples with label 1 by bucket, rising scores; any shape, int64 or float64. The whole
            area of integers is correctly rounded.
        negative: the same for label 0, of the same length.
        max_fpr: in (0, 1]; None: 1, the whole area.
        zero_division: the value if a class has no samples, without a warning; nan: nan, with `UndefinedMetricWarning`;
            None: 0.5 with that warning, as in Paddle.

    Raises:
        InvalidInputError: shapes differ, a weight is negative or not finite, or ``max_fpr`` is out of range.

    Examples:
        >>> auc_from_histogram([0, 1, 1], [2, 0, 0])
        1.0
    """
    areas = _areas(positive, negative, area_fraction(max_fpr))
    return _one_class(positive, negative, "auc", zero_division) if areas is None else areas.value


@checked(positive=HISTOGRAM, negative=HISTOGRAM, max_fpr=fraction, zero_division=stand_in_value)
def auc_bounds(
    positive: Any, negative: Any, max_fpr: float | None = None, zero_division: float = math.nan
) -> BoundedArea:
    """Area under the ROC curve and its bounds over all orders of the samples inside their buckets.

    Formula: the lowest area has all negative samples of a bucket above its positive ones, the highest all below:

        low, high = value -+ sum_b positive[b] * negative[b] / (2 * sum(positive) * sum(negative))

    With ``max_fpr`` the standardized areas under these two staircases. Some order reaches each bound, so no narrower
    bounds exist. For integers, the bounds of the whole area are correctly rounded; others are accurate to a relative
    1e-12. Arguments: `auc_from_histogram`.

    Source: Fawcett, "An introduction to ROC analysis", Pattern Recognition Letters 27 (2006), section 5.1 (the
    optimistic and the pessimistic order of ties).

    Examples:
        >>> auc_bounds([0, 1, 1], [1, 1, 0])
        BoundedArea(value=0.875, low=0.75, high=1.0)
    """
    areas = _areas(positive, negative, area_fraction(max_fpr))
    return BoundedArea(*[_one_class(positive, negative, "auc", zero_division)] * 3) if areas is None else areas


def _areas(positive: np.ndarray, negative: np.ndarray, max_fpr: float) -> BoundedArea | None:
    """The three areas; None if a class has no samples."""
    if not are_counts(positive) or not are_counts(negative):
        used = (positive != 0) | (negative != 0)
        positive, negative = positive[used].astype(np.float64), negative[used].astype(np.float64)
        return _areas_of_weights(positive, negative, max_fpr)
    positive, negative = as_integers(positive), as_integers(negative)
    if max_fpr == 1:
        return _areas_of_counts(positive, negative)
    return _areas_of_weights(positive.astype(np.float64), negative.astype(np.float64), max_fpr)


def _areas_of_counts(positive: np.ndarray, negative: np.ndarray) -> BoundedArea | None:
    if not positive.size:
        return None
    below = negative.cumsum()
    pairs = int(np.add.reduce(positive)) * int(below[-1])
    if not pairs:
        return None
    if 2 * pairs < 2**63:
        right_or_tied, tied = int(below.dot(positive)), int(negative.dot(positive))
    else:
        used = np.flatnonzero(positive)
        rows = zip(positive[used].tolist(), negative[used].tolist(), np.cumsum(negative.astype(object))[used])
        right_or_tied, tied = map(sum, zip(*[(p * b, p * n) for p, n, b in rows]))
    return _of_pairs(right_or_tied, tied, pairs)


def _in_order(positive: np.ndarray, negative: np.ndarray) -> tuple[Any, Any]:
    """The numbers of pairs in the right order or tied, and of tied pairs, by histogram ``[..., buckets]``: exact."""
    below = negative.cumsum(-1)
    return np.einsum("...b,...b", below, positive), np.einsum("...b,...b", negative, positive)


def _of_pairs(right_or_tied: Any, tied: Any, pairs: Any) -> BoundedArea:
    twice, pairs = 2 * right_or_tied - tied, 2 * pairs
    return BoundedArea(twice / pairs, (twice - tied) / pairs, (twice + tied) / pairs)


def areas_of_many(
    positive: np.ndarray | Sequence[np.ndarray], negative: np.ndarray | Sequence[np.ndarray]
) -> BoundedArea:
    """The areas of several histograms of counts, each ``[buckets]``; nan where a class has no samples."""
    areas = np.full((3, len(positive)), np.nan)
    for start in range(0, len(positive), _TOGETHER):
        block = slice(start, start + _TOGETHER)
        p, n = np.asarray(positive[block]), np.asarray(negative[block])
        used = np.flatnonzero((p + n).any(axis=0))
        p, n = p[:, used], n[:, used]
        pairs = p.sum(axis=1) * n.sum(axis=1).astype(np.float64)
        areas[:, block] = _of_pairs(*_in_order(p, n), np.where(pairs > 0, pairs, np.nan))
        for place in np.flatnonzero(pairs >= 2**51).tolist():  # more than a float counts exactly
            areas[:, start + place] = _areas(positive[start + place], negative[start + place], 1.0)
    return BoundedArea(*areas)


def _areas_of_weights(positive: np.ndarray, negative: np.ndarray, max_fpr: float) -> BoundedArea | None:
    # Powers of two keep products in the range of a float; fsum gives the same bits for any vector width.
    positive, negative = (np.ldexp(counts, -np.frexp(counts.max(initial=0.0))[1]) for counts in (positive, negative))
    positives, negatives = exact_sum(positive), exact_sum(negative)
    if not positives or not negatives:
        return None
    if max_fpr == 1:
        below, pairs = sums_before(negative), positives * negatives
        areas = [exact_sum((below + negative * d) * positive) / pairs for d in (0.5, 0, 1)]
        return BoundedArea(*[min(area, 1.0) for area in areas])
    # From the highest bucket: how much of its negatives lies below the limit, and the positives above.
    p, n = positive[::-1], negative[::-1]
    false_positive, true_positive = sums_before(n), sums_before(p)
    width = np.clip(max_fpr * negatives - false_positive, 0, n)
    steepest = p * np.divide(width, n, out=np.zeros_like(p), where=n > 0)  # positives, if they are spread evenly
    heights = true_positive + steepest / 2, true_positive, true_positive + p
    low, high = max_fpr * max_fpr / 2, max_fpr
    areas = [exact_sum(width / negatives * (height / positives)) for height in heights]
    return BoundedArea(*[min((1 + (area - low) / (high - low)) / 2, 1.0) for area in areas])


def _one_class(positive: np.ndarray, negative: np.ndarray, metric: str, zero_division: float | None) -> float:
    reason = one_class(positive.any(), negative.any())
    return undefined(metric, reason, 0.5) if zero_division is None else stand_in(metric, reason, zero_division)


# -- average precision -----------------------------------------------------------------------------------


@checked(positive=HISTOGRAM, negative=HISTOGRAM, zero_division=stand_in_value)
def average_precision_from_histogram(positive: Any, negative: Any, zero_division: float = math.nan) -> float:
    """Average precision in [0, 1]: the area under the steps of the precision-recall curve, from histograms.

    Formula: ``sum_b (R_b - R_{b+1}) * P_b`` over the buckets, where ``P_b`` and ``R_b`` are precision and recall of the
    samples in bucket b and above: the samples of a bucket enter together. Undefined without positive samples; for the
    histograms see `auc_from_histogram`.

    Examples:
        >>> average_precision_from_histogram([0, 1, 1], [1, 1, 0])
        0.8333333333333333
    """
    top = _from_the_top(positive, negative)
    return _mean(top.p, top.last, top.total) if top.total else _no_positive(zero_division)


@checked(positive=HISTOGRAM, negative=HISTOGRAM, zero_division=stand_in_value)
def average_precision_bounds(positive: Any, negative: Any, zero_division: float = math.nan) -> BoundedArea:
    """Average precision and its bounds over all orders of the samples inside their buckets; to a relative 1e-12.

    Formula: for the highest value the positive samples of a bucket are tied and score above its negative ones:
    ``precision = TP / (TP + FP')``, with the positives down to and including this bucket and the negatives before it.
    For the lowest value they score below its negative ones, one after the other: for counts, the i-th has the precision
    ``(TP' + i) / (TP' + i + FP)``. A histogram of weights does not say how the weight is split among the samples of a
    bucket; the lowest value is then that of infinitely many light samples, the integral over i.

    Some order, ties allowed, reaches both bounds of counts and the highest bound of weights; no samples give less than
    the lowest bound. Arguments: `average_precision_from_histogram`; integers are taken for numbers of samples.

    Source: McSherry and Najork, "Computing information retrieval performance measures efficiently in the presence of
    tied scores", ECIR 2008.

    Examples:
        >>> average_precision_bounds([0, 1, 1], [1, 1, 0])
        BoundedArea(value=0.8333333333333333, low=0.8333333333333333, high=1.0)
    """
    top = _from_the_top(positive, negative)
    if not top.total:
        return BoundedArea(*[_no_positive(zero_division)] * 3)
    used = np.flatnonzero(top.p)
    p, true_positive, below = (row[used] for row in (top.p, top.true_positive[:-1], top.false_positive[:-1] + top.n))
    lowest = _lowest_precision(true_positive, below, p, top.counts)
    value = _mean(top.p, top.last, top.total)
    low, high = _mean(p, lowest, top.total), _mean(top.p, top.highest, top.total)
    return BoundedArea(value, min(low, value), max(high, value))


def average_precision_near(positive: np.ndarray, negative: np.ndarray, zero_division: float = math.nan) -> BoundedArea:
    """Like `average_precision_bounds`, in a tenth of the time; the bounds may be wider."""
    top = _from_the_top(positive, negative)
    if not top.total:
        return BoundedArea(*[_no_positive(zero_division)] * 3)
    value = _mean(top.p, top.last, top.total)
    # The lowest precisions of a bucket's positives rise ever more slowly: their mean is above that of both ends.
    first = top.true_positive[:-1] + top.counts
    first = _rising_shares(first, first + top.false_positive[1:])
    low, high = top.p.dot(first + top.last).item() / 2 / top.total, top.p.dot(top.highest).item() / top.total
    return BoundedArea(value, min(low, value), max(high, value))


class _Top(NamedTuple):
    """The buckets with samples, the highest first: float64 ``[used]``, and the sums above each, ``[used + 1]``."""

    p: np.ndarray  #: positive samples in the bucket
    n: np.ndarray  #: negative samples in the bucket
    true_positive: np.ndarray
    false_positive: np.ndarray
    highest: np.ndarray  #: the precision of a bucket's positives, if they score above its negatives
    last: np.ndarray  #: that of the last positive, if it scores below all negatives; arbitrary without one
    total: float  #: the sum of all positives, correctly rounded
    counts: bool  #: whether the numbers count samples


def _from_the_top(positive: np.ndarray, negative: np.ndarray) -> _Top:
    used = np.flatnonzero((positive != 0) | (negative != 0))[::-1]
    classes = (positive, negative)
    rows = [as_integers(counts[used]) if are_counts(counts) else counts[used] for counts in classes]
    p, n = (row.astype(np.float64, copy=False) for row in rows)
    true_positive, false_positive = (partial_sums(row).astype(np.float64, copy=False) for row in rows)
    true_positive_after = true_positive[1:]
    above = true_positive_after + false_positive[:-1]
    total, counts = true_positive[-1].item(), are_counts(positive)
    total = total if counts and total < 2**53 else exact_sum(p)
    last, highest = _rising_shares(true_positive_after, above + n), _rising_shares(true_positive_after, above)
    return _Top(p, n, true_positive, false_positive, highest, last, total, counts and are_counts(negative))


def _rising_shares(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The quotients, 0 for 0 / 0; the wholes must rise, and their zeros are overwritten."""
    whole[: whole.searchsorted(0.0, side="right")] = 1.0
    shares: np.ndarray = part / whole
    return shares


def _lowest_precision(true_positive: np.ndarray, false_positive: np.ndarray, p: np.ndarray, counts: bool) -> np.ndarray:
    """The mean of ``(TP' + i) / (TP' + i + FP)`` over the p positives of each bucket."""
    before = true_positive + false_positive
    some = np.where(before > 0, before, 1.0)
    # log(1 + p / some), where the quotient may be larger than any float
    logs = np.log1p(np.minimum(p, some) / np.maximum(p, some)) + np.maximum(np.log(p) - np.log(some), 0)
    lost = _sum_of_reciprocals(before, p) if counts else logs
    # If p is small, that is a difference of nearly equal numbers: use a series around the middle.
    middle = before + (p + counts) / 2
    x, u = (p / middle) ** 2, counts / middle / middle
    spread = (x - u) * (1 / 12 + (3 * x - 7 * u) / 240 + (3 * x * x - 18 * x * u + 31 * u * u) / 1344)
    of_few = (true_positive + (p + counts) / 2) / middle - false_positive / middle * spread
    return np.where(false_positive > 0, np.where(x < 1e-4, of_few, 1 - false_positive * lost / p), 1.0)


def _mean(weight: np.ndarray, value: np.ndarray, total: float) -> float:
    return min(exact_sum(weight * value) / total, 1.0)


def _sum_of_reciprocals(start: np.ndarray, number: np.ndarray) -> np.ndarray:
    """``1 / (start + 1) + ... + 1 / (start + number)``, by Stirling's series for the digamma function."""
    low, high = start + 1.0, start + number + 1.0
    total = np.zeros_like(low)
    for _ in range(20):  # psi(x + 1) = psi(x) + 1 / x, until the series is exact to the last bit
        small = low < np.minimum(high, 20)
        total += np.where(small, 1 / low, 0.0)
        low = low + small
    return total + np.log1p((high - low) / low) + (_stirling(high) - _stirling(low))


def _stirling(x: np.ndarray) -> np.ndarray:
    """``psi(x) - ln(x)`` for x of at least 20 (Abramowitz and Stegun, 6.3.18)."""
    square = 1 / (x * x)
    return -1 / (2 * x) - square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))


def _no_positive(zero_division: float) -> float:
    return stand_in("average_precision", "no sample is labeled 1", zero_division)
