"""The exact area under a curve, from the scores themselves: sort once, then count in one pass.

Sorting takes most of the time. Without weights, score and label are put into one unsigned integer, which
sorts faster than scores whose labels must follow: the bits of a float that is not negative are in the order of its
values, and its sign bit is free for the label. Negative scores are sorted apart.
"""

from __future__ import annotations

import math
from typing import Any, Iterator

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.arrays import flags, weights
from fleetmetrics.formulas.auc import area_fraction, fraction
from fleetmetrics.formulas.quotients import one_class, stand_in
from fleetmetrics.formulas.sums import sums_before
from fleetmetrics.support.checks import array_of, checked, one_of, optional, stand_in_value

__all__ = ["exact_auc"]

#: The number of samples to count together: their arrays stay in the processor's cache, and a sum of 255 flags fits a
#: byte.
_BLOCK = 255**2


def _scores(argument: str, value: Any, sizes: Any) -> np.ndarray:
    """Numbers of any shape, flat; sorting finds nan."""
    array = array_of(argument, value).reshape(-1)
    if array.dtype == object:
        raise InvalidInputError(f"{argument} must hold numbers of at most 64 bits, not {max(array, key=abs)!r:.60}")
    sizes["samples"] = array.size, argument
    return array


@checked(
    score=_scores,
    label=flags("samples", flat=True),
    weight=optional(weights("samples", flat=True)),
    curve=one_of("ROC", "PR"),
    max_fpr=fraction,
    zero_division=stand_in_value,
)
def exact_auc(
    score: Any,
    label: Any,
    weight: Any = None,
    curve: str = "ROC",
    max_fpr: float | None = None,
    zero_division: float = math.nan,
) -> float:
    """The area under the ROC or the precision-recall curve of scores, with ties.

    Formula: for "ROC" the share of pairs of a positive and a negative sample in which the positive one scores higher,
    where pairs of equal scores count half; with ``max_fpr`` as in `auc_from_histogram`. For "PR" the average precision
    ``sum_t (R_t - R_{t-1}) * P_t`` over the distinct scores t from the highest.

    Source: Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic
    (ROC) curve", Radiology 143 (1982).

    Args:
        score: ``[n]`` numbers without nan, not only probabilities; integers are compared as integers.
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
    weight = None if weight is None else weight.astype(np.float64, copy=False)
    if weight is None and score.dtype.kind == "f" and curve == "ROC" and area_fraction(max_fpr) == 1:
        return exact_auc_of(**count_keys(*_both_sorted(score, label)), zero_division=zero_division)
    label = label.astype(bool, copy=False)
    positive = int(np.count_nonzero(label))
    totals: Any = len(label) - positive, positive
    if weight is not None:
        totals = math.fsum(weight[~label]), math.fsum(weight[label])
    score, label, weight = sort_by_score(score, label, weight)
    folded = fold_exact_auc(start_exact_auc(), score, label, weight, totals, curve, max_fpr)
    return exact_auc_of(**folded, curve=curve, max_fpr=max_fpr, zero_division=zero_division)


def sort_by_score(
    score: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Samples by falling score, in new arrays, float32 or else float64; nan is an `InvalidInputError`."""
    if weight is None and score.dtype.kind == "f":
        return (*unpacked(*_both_sorted(score, label)), None)
    if score.dtype.kind == "f":
        order = -_float(score)
    elif score.dtype == np.uint64:
        order = ~score
    else:
        order = score.astype(np.int64)
        if order.size and order.min() == -(2**63):
            raise InvalidInputError("score must hold integers above -2**63, but it holds -2**63; add 1 to all scores")
        np.negative(order, out=order)
    place = np.argsort(order)
    order, label, weight = order[place], label[place], None if weight is None else weight[place]
    if weight is not None:
        _sort_ties(order, label, weight)
    if order.dtype.kind == "f" and order.size:
        _raise_if_nan(order[-1])
    return order, label, weight


def _sort_ties(order: np.ndarray, label: np.ndarray, weight: np.ndarray) -> None:
    """Sort samples of equal scores by label and weight: then the order of the samples changes no bit of a sum."""
    equal = order[1:] == order[:-1]
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    if len(tied):
        place = tied[np.lexsort((weight[tied], label[tied], order[tied]))]
        label[tied], weight[tied] = label[place], weight[place]


def _float(score: np.ndarray) -> np.ndarray:
    return score if score.dtype == np.float32 else score.astype(np.float64, copy=False)


def _raise_if_nan(last: Any) -> None:
    if math.isnan(last):
        raise InvalidInputError("score must hold numbers, but some are nan")


# -- score and label as one integer ------------------------------------------------------------------------


def keys_of(score: np.ndarray, label: np.ndarray) -> np.ndarray | None:
    """Floats and labels as integers ``2 * bits + label``, in the order of the scores; None: a score is below 0."""
    score = np.ascontiguousarray(_float(score))
    kind: Any = np.uint32 if score.dtype == np.float32 else np.uint64
    bits, keys = score.view(kind), np.empty(len(score), kind)
    for block in _blocks_of(len(keys)):
        if score[block].min() < 0:
            return None
        part = keys[block]
        np.add(bits[block], bits[block], out=part)  # -0.0 loses its sign
        part |= label[block].astype(bool, copy=False)
    return keys


def sorted_keys(keys: np.ndarray) -> np.ndarray:
    """The keys, whose array is reordered, in order; nan is an `InvalidInputError`."""
    signed = keys.view(f"i{keys.itemsize}")  # they sort faster than unsigned ones on processors without AVX-512
    signed.sort()
    above = int(np.searchsorted(signed, 0))  # scores of 2 and more: their highest bit is that of negative numbers
    if above:
        keys = np.concatenate([keys[above:], keys[:above]])
    _raise_if_nan((keys[-1:] >> keys.dtype.type(1)).view(f"f{keys.itemsize}").sum())  # nan is above infinity
    return keys


def ends_of_scores(records: Any) -> tuple[Any, Any]:
    """The lowest and the highest score of records that have them as "score", or as "keys" from `keys_of`."""
    if "keys" not in records:
        return records["score"].min().item(), records["score"].max().item()
    keys = np.array([records["keys"].min(), records["keys"].max()])
    low, high = (keys >> keys.dtype.type(1)).view(f"f{keys.itemsize}").tolist()
    return low, high


def _both_sorted(score: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, ...]:
    """The sorted keys of the scores of at least 0, and of the opposites of any scores below 0."""
    keys = keys_of(score, label)
    if keys is not None:
        return (sorted_keys(keys),)
    below = score < 0
    parts: Any = keys_of(score[~below], label[~below]), keys_of(-score[below], label[below])
    return tuple(map(sorted_keys, parts))


def unpacked(upper: np.ndarray, lower: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The opposites of the scores, rising, and the labels, from sorted keys."""
    kind = upper.dtype.type
    one, sign = kind(1), kind(1) << kind(8 * upper.itemsize - 1)
    keys = upper[::-1] if lower is None else np.concatenate([upper[::-1], lower])
    order = keys >> one
    order[: len(upper)] |= sign
    return order.view(f"f{upper.itemsize}"), (keys & one).astype(bool)


def _blocks_of(length: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, length, _BLOCK))


def count_keys(upper: np.ndarray, lower: np.ndarray | None = None) -> dict[str, Any]:
    """The result of `fold_exact_auc` for all samples, from sorted keys, for the whole area under the ROC curve."""
    above, right, tied = _pairs_of(upper)
    below, wrong, more = (0, 0, 0) if lower is None else _pairs_of(lower)
    negatives = 0 if lower is None else len(lower) - below
    area = 2 * right - tied + 2 * above * negatives + 2 * (below * negatives - wrong) + more
    return {"negative": len(upper) - above + negatives, "positive": above + below, "area": area}


def _pairs_of(keys: np.ndarray) -> tuple[int, int, int]:
    """The numbers of sorted keys of positive samples, of pairs with a negative before a positive, and of tied pairs."""
    kind = keys.dtype.type
    positives = places = tied = 0
    long: list[Any] = []  # the last negative sample of each tie of a negative and a positive one, but the shortest
    for block in _blocks_of(len(keys)):
        part = keys[block.start : block.stop + 1]  # with the first key of the next block
        hits, place = _places(part[:_BLOCK].astype(np.uint8) & np.uint8(1))
        positives, places = positives + hits, places + place + block.start * hits
        step = part[1:] ^ part[:-1]
        tie = step <= kind(1)
        if not tie.any():
            continue
        mixed = step == kind(1)
        same = tie ^ mixed
        tied += int(np.count_nonzero(mixed))
        mixed[1:-1] &= same[:-2] | same[2:]
        long.append(np.flatnonzero(mixed) + block.start)
    if long:
        last = np.concatenate(long)
        n = last + 1 - np.searchsorted(keys, keys[last], side="left")
        p = np.searchsorted(keys, keys[last + 1], side="right") - last - 1
        tied += int(np.dot(n, p)) - len(last)
    return positives, places - positives * (positives - 1) // 2, tied


def _places(flags: np.ndarray) -> tuple[int, int]:
    """The number of bytes that are 1, not 0, and the sum of their positions."""
    side = math.isqrt(len(flags))
    square, rest = flags[: side * side].reshape(side, side), np.flatnonzero(flags[side * side :])
    place = np.arange(side)
    rows, columns = (np.add.reduce(square, axis=axis, dtype=np.uint8).astype(np.int64) for axis in (1, 0))
    more = int(rest.sum()) + len(rest) * side * side
    return int(rows.sum()) + len(rest), int(side * rows.dot(place) + columns.dot(place)) + more


def _sizes(changes: np.ndarray, flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of flags that are 1 and that are 0, for each tie: int64."""
    last = np.append(np.flatnonzero(changes), len(changes))
    p = np.diff(np.cumsum(flags, dtype=np.int64)[last], prepend=0)
    return p, np.diff(last, prepend=-1) - p


# -- counting, piece by piece ----------------------------------------------------------------------------


def start_exact_auc() -> dict[str, Any]:
    """The sums before the first piece, for `fold_exact_auc`."""
    return {"negative": 0, "positive": 0, "area": 0}


def count_exact_auc(label: np.ndarray, weight: np.ndarray | None, totals: tuple[Any, Any]) -> dict[str, Any]:
    """The weights of one piece's samples, which `fold_exact_auc` needs for the pieces after it."""
    weight, _ = _in_range(len(label), weight, totals)
    if weight is None:
        positive = int(np.count_nonzero(label))
        return {"negative": len(label) - positive, "positive": positive, "area": 0}
    return {"negative": float(np.sum(weight[~label])), "positive": float(np.sum(weight[label])), "area": 0}


def exponent_of(totals: Any) -> int:
    """Folding divides weights of these totals by two to this power, and leaves counts unchanged."""
    return max(-1000, min(1000, math.frexp(max(totals))[1])) if isinstance(totals[0], float) else 0


def _in_range(length: int, weight: np.ndarray | None, totals: tuple[Any, Any]) -> tuple[np.ndarray | None, Any]:
    """Weights and totals times a power of two: products of them might leave the range of a float."""
    if not isinstance(totals[0], float):
        return weight, totals
    factor = 2.0 ** -exponent_of(totals)
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
        before: the sums of `count_exact_auc` over the pieces before; see `start_exact_auc`.
        score: ``[n]`` opposites of the scores, rising, from `sort_by_score`.
        label: flags ``[n]``.
        weight: ``[n]`` float64, or None.
        totals: the weights of all negative and of all positive samples of all pieces.
        curve: "ROC" or "PR".
        max_fpr: for "ROC"; None: the whole area.

    Returns:
        Sums of this piece, to be added up over all pieces: the weights of its negative and positive samples; and twice
        the number of pairs in the right order whose negative sample is in this piece (an int for counts), or the area.
        Weights are multiplied by a power of two that depends on the totals.
    """
    counted = count_exact_auc(label, weight, totals)
    negative, positive, area = before["negative"], before["positive"], counted["area"]
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
    return {**counted, "area": area}


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
    """Twice the weight of the pairs whose negative sample is in this piece and scores lower; ties count once."""
    if n.dtype == bool:
        misses, places = _places(n.view(np.uint8))
        return 2 * (before * misses + places - misses * (misses - 1) // 2)
    above = sums_before(p)
    if p.dtype.kind == "i":
        return 2 * before * int(n.sum()) + 2 * int(np.dot(above, n)) + int(np.dot(p, n))
    return float(np.sum(n * (2 * (before + above) + p)))


def _area_of_steps(p: np.ndarray, n: np.ndarray, positive: Any, negative: Any) -> float:
    """The contribution of this piece's positive samples to the sum of precisions."""
    p, n = p.astype(np.float64), n.astype(np.float64)
    true_positive, false_positive = positive + np.cumsum(p), negative + np.cumsum(n)
    used = p > 0
    return float(np.sum(p[used] * (true_positive[used] / (true_positive + false_positive)[used])))


def _area_up_to(
    fraction: float, p: np.ndarray, n: np.ndarray, positive: Any, negative: Any, totals: tuple[Any, Any]
) -> float:
    """The contribution of this piece to the area up to a false positive rate, in pairs of samples."""
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
    """The area as a fraction, from the sums of `fold_exact_auc`: the weight of each class, and ``area``."""
    if not positive or (curve == "ROC" and not negative):
        return stand_in("exact_auc", one_class(positive, negative), zero_division)
    if curve == "PR":
        return min(float(area / positive), 1.0)
    fraction = area_fraction(max_fpr)
    if fraction == 1:
        return min(float(area / (2 * positive * negative)), 1.0)
    part, guessed = float(area / (positive * negative)), fraction * fraction / 2
    return min((1 + (part - guessed) / (fraction - guessed)) / 2, 1.0)
