"""Formulas over samples in groups, such as the samples of each user, for all groups at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics.formulas.arrays import flags, keys, numbers, weights
from fleetmetrics.support.checks import checked, optional

__all__ = ["auc_by_group"]


def starts_of(group: np.ndarray) -> np.ndarray:
    """Whether a new group begins at each sample; the groups are sorted."""
    first = np.ones(len(group), np.bool_)
    first[1:] = group[1:] != group[:-1]
    return first


def best_first(values: np.ndarray, start: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The places of the finite values, group by group, the highest first: int64 ``[n]``."""
    values = _told_apart(values)
    longest = int(sizes.max(initial=0))
    if values.dtype == np.float32:
        free = longest.bit_length()
        if (len(sizes) + 1) << free <= 2**31:  # no argsort: the key also holds the place in the group
            before = np.repeat(start, sizes)
            keys = _keys(values, sizes, free) + (np.arange(len(values)) - before)
            keys.sort()
            return before + (keys & ((1 << free) - 1))
        return np.argsort(_keys(values, sizes, 0))
    values = _falling(values)
    if longest * len(sizes) > 2 * len(values):
        return np.lexsort((values, np.repeat(np.arange(len(sizes)), sizes)))
    # Groups of about equal size are the rows of a matrix: many short sorts are several times faster than one long sort.
    inside = np.arange(longest) < sizes[:, None]
    table = np.full(inside.shape, np.inf)
    table[inside] = values
    return (np.argsort(table, axis=1) + start[:, None])[inside]


def _told_apart(values: np.ndarray) -> np.ndarray:
    """The values as float32 if that is exact; otherwise unchanged, or numbers in their order."""
    if values.dtype.kind in "iu" and values.size and max(-int(values.min()), int(values.max())) > 2**53:
        values = np.unique(values, return_inverse=True)[1]  # a float32 or float64 cannot tell them apart
    with np.errstate(over="ignore", invalid="ignore"):
        short = values.astype(np.float32, copy=False)
    return short if short is values or (short == values).all() else values


def _falling(values: np.ndarray) -> np.ndarray:
    """Floats that rise as the values fall, and no -0.0 among them."""
    # unchecked nan and the lowest infinity come last; below, nothing comes after the padding of a row
    kind = np.float32 if values.dtype == np.float32 else np.float64
    return np.fmin(np.subtract(0, values, dtype=kind), np.finfo(kind).max)


def _keys(values: np.ndarray, sizes: np.ndarray, free: int) -> np.ndarray:
    """Integers above 0 in the order of the groups and of the falling values, float32, in each; the last bits are 0."""
    bits = _falling(values).view(np.int32)
    bits ^= (bits >> 31) & 0x7FFFFFFF
    keys = bits.astype(np.int64) << free
    keys += np.repeat(np.arange(1, len(sizes) + 1) << (32 + free), sizes)
    return keys


def sums_of(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The sum from each start to the next."""
    return np.add.reduceat(values, start) if len(start) else values[:0]


def scaled(weight: np.ndarray | None) -> tuple[np.ndarray | None, int]:
    """Weights times a power of two that makes all of them at most 1, so that their sums are finite; small ones stay.

    It also returns the exponent of the power of two that would undo it.
    """
    if weight is None:
        return None, 0
    weight = np.asarray(weight, np.float64)
    exponent = max(0, int(np.frexp(weight.max(initial=0.0))[1]))
    return (np.ldexp(weight, -exponent), exponent) if exponent else (weight, 0)


def exact_parts(values: np.ndarray, most: int) -> np.ndarray:
    """Arrays ``[parts, ...]`` that add up to the values, and whose sums BLAS does not round in any order of addition.

    Each holds whole numbers of some unit, so small that ``most`` times the largest is below 2**53 units.
    """
    parts, rest = [], np.asarray(values, np.float64)
    if not np.isfinite(rest).all():
        return rest[None]
    while rest.any():
        lowest = np.frexp(np.abs(rest).max())[1] - (53 - most.bit_length())
        unit = np.ldexp(1.0, max(lowest, -1074))
        parts.append(np.trunc(rest / unit) * unit)
        rest = rest - parts[-1]
    return np.stack(parts) if parts else rest[None]


def _sums_before(values: np.ndarray, start: np.ndarray) -> np.ndarray:
    """For each float of at least 0, the sum of those before it in its group."""
    sizes = np.diff(np.append(start, len(values)))
    sums = np.empty_like(values)  # a difference of large sums would lose the small ones
    lengths = np.frexp(sizes)[1]
    for length in np.unique(lengths):  # groups of about equal size are the rows of a matrix
        some = lengths == length
        inside = np.arange(sizes[some].max()) < sizes[some][:, None]
        place = (start[some][:, None] + np.arange(inside.shape[1]))[inside]
        table = np.zeros((len(inside), inside.shape[1] + 1))
        table[:, 1:][inside] = values[place]
        sums[place] = np.cumsum(table, axis=1)[:, :-1][inside]
    return sums


@checked(group=keys("samples"), score=numbers("samples"), label=flags("samples"), weight=optional(weights("samples")))
def auc_by_group(group: Any, score: Any, label: Any, weight: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Area under the ROC curve of each group's samples; equal scores count half.

    Formula: ``sum_ij w_i w_j ([s_i > s_j] + [s_i = s_j] / 2) / sum_ij w_i w_j`` over the positive samples i and the
    negative samples j of the group.

    Args:
        group: ``[n]`` integers or strings, sorted.
        score: ``[n]`` finite numbers.
        label: ``[n]``, 0 or 1.
        weight: ``[n]`` numbers of at least 0, or None.

    Returns:
        Area (float64; nan for a group of one class), weight of the positive and of the negative samples: ``[groups]``.

    Examples:
        >>> area, positive, negative = auc_by_group([1, 1, 1, 2], [0.1, 0.4, 0.35, 0.8], [0, 1, 0, 1])
        >>> area.tolist(), positive.tolist(), negative.tolist()
        ([1.0, nan], [1, 1], [2, 0])
    """
    label = label.astype(np.bool_, copy=False)
    first = starts_of(group)
    start = np.flatnonzero(first)
    sizes = np.diff(np.append(start, len(group)))
    if weight is None:
        twice, positives = _twice_the_pairs(score, label, first, sizes)
        negatives = sizes - positives
        area, pairs = twice / 2, positives * negatives
        both = pairs > 0
    else:
        area, positives, negatives = _weighted_areas(score, label, np.asarray(weight, np.float64), first, sizes)
        both = (positives > 0) & (negatives > 0)
        pairs = both
    return np.where(both, area / np.where(both, pairs, 1), np.nan), positives, negatives


def _twice_the_pairs(
    score: np.ndarray, label: np.ndarray, first: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each group, twice the number of pairs in the right order (ties count once), and that of positive samples."""
    start, new_tie, score = np.flatnonzero(first), first.copy(), _told_apart(score)
    if score.dtype == np.float32 and len(sizes) < 2**30:  # no argsort: score and label share one integer
        keys = _keys(score, sizes, 1)
        keys += label
        keys.sort()
        new_tie[1:] |= (keys[1:] ^ keys[:-1]) > 1
        hits = np.cumsum(keys & 1)
    else:
        order = best_first(score, start, sizes)
        score = score[order]
        new_tie[1:] |= score[1:] != score[:-1]
        hits = np.cumsum(label[order])
    ties = np.flatnonzero(new_tie)
    begins = np.flatnonzero(first[ties])  # the first tie of each group
    so_far = np.append(0, hits)[np.append(ties, len(hits))]  # the positive samples before each tie
    tied, of_group = np.diff(so_far), so_far[begins]
    below = np.diff(ties, append=len(hits)) - tied
    above = so_far[:-1] - np.repeat(of_group, np.diff(begins, append=len(ties)))
    return sums_of(below * (2 * above + tied), begins), np.diff(of_group, append=so_far[-1:])


def _weighted_areas(
    score: np.ndarray, label: np.ndarray, weight: np.ndarray, first: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The area of each group, if it has both classes, and the weights of these."""
    start = np.flatnonzero(first)
    order = best_first(score, start, sizes)
    score, label, weight = score[order], label[order], weight[order]
    positive, negative = weight * label, weight * ~label
    positives, negatives = sums_of(positive, start), sums_of(negative, start)
    # shares of the group's weight: a product of weights may be too large or too small
    positive = positive / np.repeat(np.where(positives > 0, positives, 1), sizes)
    negative = negative / np.repeat(np.where(negatives > 0, negatives, 1), sizes)
    new_tie = first.copy()
    new_tie[1:] |= score[1:] != score[:-1]
    ties = np.flatnonzero(new_tie)
    begins = np.flatnonzero(first[ties])
    tied, below = sums_of(positive, ties), sums_of(negative, ties)
    above = _sums_before(tied, begins)  # in the group's higher ties
    return sums_of(below * (2 * above + tied), begins) / 2, positives, negatives
