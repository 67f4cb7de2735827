"""The exact area under a curve, from the scores themselves: sort once, then count in one pass.

Sorting takes most of the time. Where there are no weights, score and label are put into one unsigned integer, which
sorts faster than scores whose labels must follow: the bits of a float that is not negative are in the order of its
values, and its sign bit is free for the label. Negative scores are sorted apart.
"""

from __future__ import annotations

import math
from typing import Any, Iterator

import numpy as np

from fleetmetrics.arguments import choice_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.auc import area_fraction
from fleetmetrics.formulas.given import array_given, sums_before, weights_given
from fleetmetrics.formulas.ratio import stand_in

__all__ = ["exact_auc"]

#: Samples that are looked at together: their arrays stay in the processor's cache, and a sum of 255 flags fits a byte.
_BLOCK = 255**2


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
        score: ``[n]`` numbers without nan, not only probabilities; integers are compared as such.
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
    score, label = (np.ravel(array_given(name, each)) for name, each in (("score", score), ("label", label)))
    weight = None if weight is None else np.ravel(weights_given("weight", weight)).astype(np.float64, copy=False)
    lengths = [len(array) for array in (score, label, weight) if array is not None]
    if len(set(lengths)) > 1:
        raise InvalidInputError(f"score, label and weight must be equally long, not {lengths}")
    label = label if label.dtype == np.bool_ else label != 0
    choice_of("curve", curve, ("ROC", "PR"))
    if weight is None and score.dtype.kind == "f" and curve == "ROC" and area_fraction(max_fpr) == 1:
        return exact_auc_of(**_counted(*_sorted_keys(score, label)), zero_division=zero_division)
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
    """Samples by falling score, in new arrays; scores but float32 become float64, nan is an `InvalidInputError`."""
    if weight is None and score.dtype.kind == "f":
        return (*_unpacked(*_sorted_keys(score, label)), None)
    if score.dtype.kind == "f":
        order = -_float(score)
    elif score.dtype == np.uint64:
        order = ~score
    else:
        order = score.astype(np.int64)
        if order.size and order.min() == -(2**63):
            raise InvalidInputError("score must hold integers above -2**63, and has that; add 1 to all")
        np.negative(order, out=order)
    place = np.argsort(order)
    order, label, weight = order[place], label[place], None if weight is None else weight[place]
    if order.dtype.kind == "f" and order.size:
        _raise_if_nan(order[-1])
    return order, label, weight


def _float(score: np.ndarray) -> np.ndarray:
    return score if score.dtype == np.float32 else score.astype(np.float64, copy=False)


def _raise_if_nan(last: Any) -> None:
    if math.isnan(last):
        raise InvalidInputError("score must hold numbers, and some are nan")


# -- score and label as one integer ------------------------------------------------------------------------


def _sorted_keys(score: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted integers of the scores of at least 0 and of those below: ``2 * bits + label``, the former inverted."""
    score = np.ascontiguousarray(_float(score))
    kind: Any = np.uint32 if score.dtype == np.float32 else np.uint64
    bits, flags = score.view(kind), np.ascontiguousarray(label).view(np.uint8)
    below_zero = score < 0 if score.size and not score.min() >= 0 else None
    negatives = 0 if below_zero is None else int(np.count_nonzero(below_zero))
    if negatives:
        assert below_zero is not None
        bits, flags = (np.concatenate([array[~below_zero], array[below_zero]]) for array in (bits, flags))
    keys = np.empty(len(score), kind)
    upper, lower = keys[: len(keys) - negatives], keys[len(keys) - negatives :]
    for block in _blocks_of(len(keys)):
        part = keys[block]
        np.add(bits[block], bits[block], out=part)  # without the sign
        part |= flags[block]
    for block in _blocks_of(len(upper)):
        np.invert(upper[block], out=upper[block])
    upper.sort()
    lower.sort()
    if len(upper):  # nan is above infinity
        _raise_if_nan((~upper[:1] >> kind(1)).view(score.dtype)[0])
    return upper, lower


def _unpacked(upper: np.ndarray, lower: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The opposites of the scores, and the labels."""
    kind = upper.dtype.type
    sign = kind(1) << kind(8 * upper.itemsize - 1)
    order, flags = np.empty(len(upper) + len(lower), kind), np.empty(len(upper) + len(lower), np.uint8)
    for keys, start, flip in ((upper, 0, True), (lower, len(upper), False)):
        for block in _blocks_of(len(keys)):
            part = ~keys[block] if flip else keys[block]
            where = slice(start + block.start, start + block.start + len(part))
            np.bitwise_and(part, kind(1), out=flags[where], casting="unsafe")
            np.right_shift(part, kind(1), out=order[where])
            if flip:
                order[where] |= sign
    return order.view(np.float32 if kind is np.uint32 else np.float64), flags.view(bool)


def _blocks_of(length: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, length, _BLOCK))


def _counted(upper: np.ndarray, lower: np.ndarray) -> dict[str, Any]:
    """What `fold_exact_auc` makes of samples without weights, for the whole area; a block never leaves the cache."""
    made, kind = start_exact_auc(), upper.dtype.type
    for keys, flip in ((upper, True), (lower, False)):
        start, length = 0, len(keys)
        while start < length:
            end = min(start + _BLOCK, length)
            if end < length and keys[end - 1] | kind(1) == keys[end] | kind(1):  # no tie is cut
                last = keys[end - 1] | kind(1)
                end = length if last == ~kind(0) else int(np.searchsorted(keys, last, side="right"))
            part = ~keys[start:end] if flip else keys[start:end]
            score = part | kind(1)
            part &= kind(1)
            hits, places = _places(part)
            above = hits * (end - start - 1) - places - hits * (hits - 1) // 2  # negatives after each positive
            made["area"] += 2 * (made["positive"] * (end - start - hits) + above)
            changes = score[1:] != score[:-1]
            if not changes.all():
                p, n = _sizes(changes, part)
                made["area"] += int(np.dot(p, n)) * (-1 if flip else 1)  # the positives of a tie come first, or last
            made["positive"] += hits
            made["negative"] += end - start - hits
            start = end
    return made


def _places(flags: np.ndarray) -> tuple[int, int]:
    """How many of the integers 0 or 1 are 1, and the sum of their positions."""
    side = math.isqrt(len(flags))
    square, rest, place = (
        flags[: side * side].reshape(side, side),
        np.flatnonzero(flags[side * side :]),
        np.arange(side),
    )
    rows, columns = (np.add.reduce(square, axis=axis, dtype=flags.dtype).astype(np.int64) for axis in (1, 0))
    more = int(rest.sum()) + len(rest) * side * side
    return int(rows.sum()) + len(rest), int(side * rows.dot(place) + columns.dot(place)) + more


def _sizes(changes: np.ndarray, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many of the flags of each tie are 1, and how many 0: int64."""
    last = np.append(np.flatnonzero(changes), len(changes))
    p = np.diff(np.cumsum(flags, dtype=np.int64)[last], prepend=0)
    return p, np.diff(last, prepend=-1) - p


# -- counting, piece by piece ----------------------------------------------------------------------------


def start_exact_auc() -> dict[str, Any]:
    """What `fold_exact_auc` is given with the first piece: nothing counted yet."""
    return {"negative": 0, "positive": 0, "area": 0}


def count_exact_auc(label: np.ndarray, weight: np.ndarray | None, totals: tuple[Any, Any]) -> dict[str, Any]:
    """What the samples of one piece weigh: all that `fold_exact_auc` asks about it for the pieces after it.

    Args:
        label: flags ``[n]``.
        weight: ``[n]`` float64, or None.
        totals: as for `fold_exact_auc`.
    """
    weight, _ = _in_range(len(label), weight, totals)
    if weight is None:
        positive = int(np.count_nonzero(label))
        return {"negative": len(label) - positive, "positive": positive, "area": 0}
    return {"negative": float(np.sum(weight[~label])), "positive": float(np.sum(weight[label])), "area": 0}


def join_exact_auc(carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """What was made of the pieces so far and of the one that follows, as one."""
    return {name: carry[name] + later[name] for name in carry}


def _in_range(length: int, weight: np.ndarray | None, totals: tuple[Any, Any]) -> tuple[np.ndarray | None, Any]:
    """Weights and totals times a power of two: products of them might leave the range of a float."""
    if not isinstance(totals[0], float):
        return weight, totals
    factor = 2.0 ** -max(-1000, min(1000, math.frexp(max(totals))[1]))
    return np.full(length, factor) if weight is None else weight * factor, (totals[0] * factor, totals[1] * factor)


def fold_exact_auc(
    before: dict[str, Any],
    score: np.ndarray,
    label: np.ndarray,
    weight: np.ndarray | None,
    totals: tuple[Any, Any],
    curve: str = "ROC",
    max_fpr: float | None = None,
) -> dict[str, Any]:
    """Count one piece of the samples, all of whose scores are below those of the pieces before.

    Args:
        before: the sums of what `count_exact_auc` tells of those; see `start_exact_auc`.
        score: ``[n]`` opposites of the scores, rising, from `sort_by_score`.
        label: flags ``[n]``.
        weight: ``[n]`` float64, or None.
        totals: what all negative and all positive samples of all pieces weigh.
        curve: "ROC" or "PR".
        max_fpr: for "ROC"; None: the whole area.

    Returns:
        Of this piece, to be summed over all: what the negative and positive samples weigh; and twice the pairs in the
        right order whose negative sample is here (of counts an int), or the area. Weights are multiplied by a power of
        two that depends on the totals.
    """
    made = count_exact_auc(label, weight, totals)
    negative, positive, area = before["negative"], before["positive"], made["area"]
    fraction = area_fraction(max_fpr)
    weight, totals = _in_range(len(score), weight, totals)
    start, length = 0, len(score)
    while start < length:
        end = min(start + _BLOCK, length)
        if end < length:
            end = int(np.searchsorted(score, score[end - 1], side="right"))  # no tie is cut
        tied = score[start:end]
        p, n = _by_distinct_score(tied, label[start:end], None if weight is None else weight[start:end])
        if curve == "PR":
            area += _area_of_steps(p, n, positive, negative)
        elif fraction < 1:
            area += _area_up_to(fraction, p, n, positive, negative, totals)
        else:
            area += _twice_right(n, p, positive)
        if weight is None:
            hits = int(np.count_nonzero(label[start:end]))
            positive, negative = positive + hits, negative + (end - start - hits)
        else:
            positive, negative = positive + float(p.sum()), negative + float(n.sum())
        start = end
    return {**made, "area": area}


def _by_distinct_score(
    score: np.ndarray, label: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The weight of the positive and of the negative samples of each distinct score, rising; flags if none is tied."""
    changes = score[1:] != score[:-1]
    if weight is None and changes.all():
        return label, ~label
    if weight is None:
        return _sizes(changes, label)
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    p, n = (np.add.reduceat(np.where(flags, weight, 0.0), starts) for flags in (label, ~label))
    return p, n


def _twice_right(n: np.ndarray, p: np.ndarray, before: Any) -> Any:
    """Twice the weight of the pairs whose negative sample is here and scores lower; ties count once."""
    if n.dtype == bool:
        misses, places = _places(n.view(np.uint8))
        return 2 * (before * misses + places - misses * (misses - 1) // 2)
    above = sums_before(p)
    if p.dtype.kind == "i":
        return 2 * before * int(n.sum()) + 2 * int(np.dot(above, n)) + int(np.dot(p, n))
    return float(np.sum(n * (2 * (before + above) + p)))


def _area_of_steps(p: np.ndarray, n: np.ndarray, positive: Any, negative: Any) -> float:
    """What the positive samples here add to the sum of precisions."""
    p, n = p.astype(np.float64), n.astype(np.float64)
    true_positive, false_positive = positive + np.cumsum(p), negative + np.cumsum(n)
    used = p > 0
    return float(np.sum(p[used] * (true_positive[used] / (true_positive + false_positive)[used])))


def _area_up_to(
    fraction: float, p: np.ndarray, n: np.ndarray, positive: Any, negative: Any, totals: tuple[Any, Any]
) -> float:
    """What the samples here add to the area up to a false positive rate, in pairs of samples."""
    p, n = p.astype(np.float64), n.astype(np.float64)
    true_positive, false_positive = positive + sums_before(p), negative + sums_before(n)
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
