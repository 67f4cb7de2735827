"""The exact area under a curve, from the scores themselves: sort once, then count in one pass.

Sorting takes most of the time. Where there are no weights, score and label are put into one unsigned integer, which
sorts faster than scores whose labels must follow: the bits of a float that is not negative are in the order of its
values, and its sign bit is free for the label. Negative scores are sorted apart.
"""

from __future__ import annotations

import math
from typing import Any, Iterator

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.auc import area_fraction
from fleetmetrics.formulas.ratio import stand_in

__all__ = ["exact_auc", "exact_auc_of", "fold_exact_auc", "sort_by_score", "start_exact_auc"]

#: Samples that are looked at together: their arrays stay in the processor's cache.
_BLOCK = 2**16


def exact_auc(
    score: Any,
    label: Any,
    weight: Any = None,
    curve: str = "ROC",
    max_fpr: float | None = None,
    zero_division: float = math.nan,
) -> float:
    """The area under the ROC or the precision-recall curve of scores, ties counted as ties.

    Formula: for "ROC" the share of pairs of a positive and a negative sample in which the positive one scores higher,
    pairs of equal score counting half; with ``max_fpr`` as in `auc_from_histogram`. For "PR" the average precision
    ``sum_t (R_t - R_{t-1}) * P_t`` over the distinct scores t from the highest.

    Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic
    (ROC) curve", Radiology 143 (1982).

    Args:
        score: ``[n]`` numbers without nan, not only probabilities; integers up to 2**53.
        label: ``[n]``, 0 or 1.
        weight: ``[n]``, at least 0; None: 1.
        curve: "ROC" or "PR".
        max_fpr: in (0, 1], for "ROC"; None: 1, the whole area.
        zero_division: the value if a class (for "PR" class 1) has no samples, without a warning; nan: nan, with
            `UndefinedMetricWarning`.

    Returns:
        A fraction in [0, 1]. Without weights the whole area under the ROC curve is correctly rounded.

    Raises:
        InvalidInputError: the arrays differ in length, or a score is nan.

    Examples:
        >>> exact_auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        0.75
    """
    score, label = np.ravel(score), np.ravel(label) != 0
    weight = None if weight is None else np.ravel(weight).astype(np.float64, copy=False)
    lengths = [len(array) for array in (score, label, weight) if array is not None]
    if len(set(lengths)) > 1:
        raise InvalidInputError(f"score, label and weight must be equally long, not {lengths}")
    totals = _totals(label, weight)
    score, label, weight = sort_by_score(score, label, weight)
    made = fold_exact_auc(start_exact_auc(), score, label, weight, totals, curve, max_fpr)
    return exact_auc_of(**made, curve=curve, max_fpr=max_fpr, zero_division=zero_division)


def _totals(label: np.ndarray, weight: np.ndarray | None) -> tuple[Any, Any]:
    """What the negative and the positive samples weigh."""
    if weight is None:
        positives = int(np.count_nonzero(label))
        return len(label) - positives, positives
    return math.fsum(weight[~label]), math.fsum(weight[label])


def sort_by_score(
    score: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Samples in the order of rising scores.

    Args:
        score: ``[n]``; others than float32 become float64.
        label: flags ``[n]``.
        weight: ``[n]``, or None.

    Returns:
        New arrays.

    Raises:
        InvalidInputError: a score is nan.
    """
    if score.dtype != np.float32:
        score = score.astype(np.float64, copy=False)
    if weight is not None:
        place = np.argsort(score)
        score, label, weight = score[place], label[place], weight[place]
    else:
        score, label = _sort_as_integers(np.ascontiguousarray(score), label)
    if len(score) and math.isnan(score[-1]):
        raise InvalidInputError("score must hold numbers, and some are nan")
    return score, label, weight


def _sort_as_integers(score: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kind: Any = np.uint32 if score.dtype == np.float32 else np.uint64
    bits = score.view(kind)
    keys = np.empty(len(score), kind)
    below_zero = score < 0
    negatives = int(np.count_nonzero(below_zero))
    if negatives:
        bits, label = (np.concatenate([array[below_zero], array[~below_zero]]) for array in (bits, label))
        np.invert(bits[:negatives], out=bits[:negatives])  # the larger, the lower the score was
    flags = np.ascontiguousarray(label).view(np.uint8)
    for block in _blocks_of(len(keys)):
        part = keys[block]
        np.left_shift(bits[block], kind(1), out=part)
        part |= flags[block]
    for part in (keys[:negatives], keys[negatives:]):
        part.sort()
    flags = np.empty(len(keys), np.uint8)
    for block in _blocks_of(len(keys)):
        part = keys[block]
        np.bitwise_and(part, kind(1), out=flags[block], casting="unsafe")
        part >>= kind(1)
    np.invert(keys[:negatives], out=keys[:negatives])
    return keys.view(score.dtype), flags.view(bool)


def _blocks_of(length: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, length, _BLOCK))


# -- counting, piece by piece ----------------------------------------------------------------------------


def start_exact_auc() -> dict[str, Any]:
    """What `fold_exact_auc` is given with the first piece: nothing counted yet."""
    return {"negative": 0, "positive": 0, "area": 0}


def fold_exact_auc(
    carry: dict[str, Any],
    score: np.ndarray,
    label: np.ndarray,
    weight: np.ndarray | None,
    totals: tuple[Any, Any],
    curve: str = "ROC",
    max_fpr: float | None = None,
) -> dict[str, Any]:
    """Count one piece of the samples, all of whose scores are above those of the pieces before.

    Args:
        carry: what was made of those; see `start_exact_auc`.
        score: ``[n]``, rising.
        label: flags ``[n]``.
        weight: ``[n]`` float64, or None.
        totals: what all negative and all positive samples of all pieces weigh.
        curve: "ROC" or "PR".
        max_fpr: for "ROC"; None: the whole area.

    Returns:
        The next carry: what the negative and positive samples weigh so far; and twice the pairs in the right order (of
        counts an int), or the area so far. Weights are multiplied by a power of two that depends on the totals.
    """
    negative, positive, area = carry["negative"], carry["positive"], carry["area"]
    fraction = area_fraction(max_fpr)
    if isinstance(totals[0], float):  # products of weights might leave the range of a float: a power of two before them
        factor = 2.0 ** -max(-1000, min(1000, math.frexp(max(totals))[1]))
        totals = totals[0] * factor, totals[1] * factor
        weight = np.full(len(score), factor) if weight is None else weight * factor
    start, length = 0, len(score)
    while start < length:
        end = min(start + _BLOCK, length)
        if end < length:
            end = int(np.searchsorted(score, score[end - 1], side="right"))  # no tie is cut
        tied = score[start:end]
        p, n = _by_distinct_score(tied, label[start:end], None if weight is None else weight[start:end])
        if curve == "PR":
            area += _area_of_steps(p, n, positive, negative, totals)
        elif fraction < 1:
            area += _area_up_to(fraction, p, n, positive, negative, totals)
        else:
            area += _twice_right(p, n, negative)
        if weight is None:
            hits = int(np.count_nonzero(label[start:end]))
            positive, negative = positive + hits, negative + (end - start - hits)
        else:
            positive, negative = positive + float(p.sum()), negative + float(n.sum())
        start = end
    return {"negative": negative, "positive": positive, "area": area}


def _by_distinct_score(
    score: np.ndarray, label: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The weight of the positive and of the negative samples of each distinct score, rising; flags if none is tied."""
    changes = score[1:] != score[:-1]
    if weight is None and changes.all():
        return label, ~label
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    if weight is None:
        p = np.add.reduceat(label, starts, dtype=np.int64)
        return p, np.diff(starts, append=len(score)) - p
    p, n = (np.add.reduceat(np.where(flags, weight, 0.0), starts) for flags in (label, ~label))
    return p, n


def _twice_right(p: np.ndarray, n: np.ndarray, before: Any) -> Any:
    """Twice the weight of the pairs whose positive sample is here and scores higher; ties count once."""
    if p.dtype == bool:
        place = np.flatnonzero(p)
        hits = len(place)
        return 2 * (before * hits + int(place.sum()) - hits * (hits - 1) // 2)
    below = np.cumsum(n)
    if p.dtype.kind == "i":
        return 2 * before * int(p.sum()) + 2 * int(np.dot(below, p)) - int(np.dot(n, p))
    return float(np.sum(p * (2 * (before + below) - n)))


def _area_of_steps(p: np.ndarray, n: np.ndarray, positive: Any, negative: Any, totals: tuple[Any, Any]) -> float:
    """What the positive samples here add to the sum of precisions."""
    p, n = p.astype(np.float64), n.astype(np.float64)
    # Of weights, a difference may be rounded below what it is at least.
    true_positive = np.maximum(totals[1] - (positive + np.cumsum(p) - p), p)
    false_positive = np.maximum(totals[0] - (negative + np.cumsum(n) - n), n)
    used = p > 0
    return float(np.sum(p[used] * (true_positive[used] / (true_positive + false_positive)[used])))


def _area_up_to(
    fraction: float, p: np.ndarray, n: np.ndarray, positive: Any, negative: Any, totals: tuple[Any, Any]
) -> float:
    """What the samples here add to the area up to a false positive rate, in pairs of samples."""
    p, n = p.astype(np.float64), n.astype(np.float64)
    true_positive = np.maximum(totals[1] - (positive + np.cumsum(p)), 0.0)
    false_positive = np.maximum(totals[0] - (negative + np.cumsum(n)), 0.0)
    width = np.clip(fraction * totals[0] - false_positive, 0, n)
    rise = p * np.divide(width, n, out=np.zeros_like(p), where=n > 0)
    return float(np.sum(width * (true_positive + rise / 2)))


def exact_auc_of(
    negative: Any,
    positive: Any,
    area: Any,
    curve: str = "ROC",
    max_fpr: float | None = None,
    zero_division: float = math.nan,
) -> float:
    """The area, when all samples have been counted.

    Args:
        negative: what the samples labelled 0 weigh.
        positive: what the samples labelled 1 weigh.
        area: as `fold_exact_auc` leaves it.
        curve: "ROC" or "PR".
        max_fpr: for "ROC"; None: the whole area.
        zero_division: as for `exact_auc`.

    Returns:
        A fraction in [0, 1].
    """
    if not positive or (curve == "ROC" and not negative):
        reason = f"the weight of the samples labelled 1 is {positive}, of those labelled 0 {negative}"
        return stand_in("exact_auc", reason, zero_division)
    if curve == "PR":
        return min(float(area / positive), 1.0)
    fraction = area_fraction(max_fpr)
    if fraction == 1:
        return min(float(area / (2 * positive * negative)), 1.0)
    part, guessed = float(area / (positive * negative)), fraction * fraction / 2
    return min((1 + (part - guessed) / (fraction - guessed)) / 2, 1.0)
