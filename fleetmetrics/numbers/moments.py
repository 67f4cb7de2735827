"""Moments of samples, merged from two parts or many: fast for a batch, and exact for parts of a data set.

The moments of one variable are ``[w, m, s, r]``: the weight of the samples, their mean, the sum of their squared
deviations from it, and the exact mean minus the float64 m. The comoments of two are ``[w, mx, my, sxx, sxy, syy,
rx, ry]``. A mean of two words keeps the deviations of timestamps as exact as those of small numbers.

The exact merge adds terms that need no mean: the weight, the sums of w x, and those of w x x.

Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37 (1983),
for the merge of a batch.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from typing import Any, Iterable, Sequence

import numpy as np

__all__ = [
    "RESTS",
    "WIDTHS",
    "merged",
    "merged_exactly",
    "merged_floats",
    "two_sum",
    "words_of",
]

#: How many numbers each reduction keeps, in the last axis of a state.
WIDTHS = {"moments": 4, "comoments": 8}
#: How many numbers each word of their rest has: of the weight, the sums of w x, and those of w x x (w x y, w y y).
RESTS = {"moments": 3, "comoments": 6}


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Knuth's TwoSum: a + b is exactly the rounded sum plus the error."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def merged(xp: Any, groups: Any) -> Any:
    """The moments, or comoments, of groups of samples together.

    Args:
        xp: the array namespace.
        groups: float64, ``[groups, ..., 4]`` or ``[groups, ..., 8]``.
    """
    total_of = xp.sum_of_columns
    variables = xp.shape(groups)[-1] // 4
    weight, mean = groups[..., :1], groups[..., 1 : 1 + variables]
    total = total_of(weight)
    share = weight / xp.or_one(total)
    middle = total_of(share * mean)
    near = (mean - middle) + groups[..., -variables:]
    step = total_of(share * near)  # what rounding has left of the mean
    near = near - step
    one, other = near, near
    if variables == 2:  # xx, xy, yy
        one, other = xp.concat([near[..., :1], near], -1), xp.concat([near, near[..., 1:]], -1)
    products = total_of(xp.concat([groups[..., 1 + variables : -variables], weight * one * other], 0))
    mean, rest = two_sum(middle, step)
    return xp.concat([total, mean, products, rest], -1)


def merged_floats(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """The same for the numbers of two groups: as Python's, several times faster than as arrays."""
    if one[0] < other[0]:
        one, other = other, one  # from the mean of more weight the step to that of all is short, and rounded little
    total = one[0] + other[0]
    share = other[0] / (total or 1.0)
    lever = one[0] * share
    if len(one) == 4:
        _, x, xx, r = one
        dx = (other[1] - x) + (other[3] - r)
        x, r = two_sum(x, dx * share + r)
        return [total, x, xx + other[2] + dx * dx * lever, r]
    _, x, y, xx, xy, yy, r, s = one
    dx, dy = (other[1] - x) + (other[6] - r), (other[2] - y) + (other[7] - s)
    x, r = two_sum(x, dx * share + r)
    y, s = two_sum(y, dy * share + s)
    xx, xy, yy = xx + other[3] + dx * dx * lever, xy + other[4] + dx * dy * lever, yy + other[5] + dy * dy * lever
    return [total, x, y, xx, xy, yy, r, s]


def merged_exactly(
    reduction: str, values: Sequence[np.ndarray], rests: Sequence[np.ndarray | None], keep: bool = True
) -> tuple[np.ndarray, np.ndarray | None]:
    """The moments of all samples, rounded once, see `reductions.combine_exactly`; ``keep``: and the rest."""
    width, size = WIDTHS[reduction], RESTS[reduction]
    powers = [1, *[2] * (width // 4), *[3] * (size - 1 - width // 4)]
    all_merged, left = [], []
    columns = [value.reshape(-1, width).tolist() for value in values]
    more = [[] if rest is None else rest.reshape(len(rest), -1, size).tolist() for rest in rests]
    for place, column in enumerate(zip(*columns)):
        groups = [group for group in column if any(group)] or [[0.0] * width]
        words = [word[place] for part in more for word in part]
        merged, missing = groups[0], [[0.0]] * size
        if words or len(groups) > 1:
            try:
                bits = _places_of(itertools.chain(*groups, *words))
                totals = [sum(sums) for sums in zip(*[_sums(group, bits) for group in groups])]
                for word in words:
                    totals = [total + _units_of(x, n * bits) for total, x, n in zip(totals, word, powers)]
                merged = _moments_of(totals, bits, width // 4)
                if keep:
                    finer = max(bits, _places_of(merged))
                    sums = zip(totals, _sums(merged, finer), powers)
                    missing = [_words_in((one << n * (finer - bits)) - its, n * finer) for one, its, n in sums]
            except (OverflowError, ValueError):  # not finite, or it would not be
                merged = functools.reduce(merged_floats, sorted(groups, key=repr))
        all_merged.append(merged)
        left.append(missing)
    value = np.array(all_merged).reshape(values[0].shape)  # of several states, maybe, if not their rests
    if not keep:
        return value, None
    longest = max((len(words) for places in left for words in places), default=1)
    table = np.array([[words + [0.0] * (longest - len(words)) for words in places] for places in left])
    rest = np.moveaxis(table, -1, 0).reshape(longest, *value.shape[:-1], size)
    return value, rest if rest.any() else None


def _sums(group: Sequence[float], bits: int) -> list[int]:
    """The weight, the sums of w x, and those of products w x x; in units of ``2**-bits``, its square and cube."""
    weight, *numbers = [_units_of(x, bits) for x in group]
    variables = len(group) // 4
    means = [x + rest for x, rest in zip(numbers[:variables], numbers[-variables:])]
    products = [x * y for place, x in enumerate(means) for y in means[place:]]
    squares = [(square << 2 * bits) + weight * x for square, x in zip(numbers[variables:], products)]
    return [weight, *[weight * x for x in means], *squares]


def _moments_of(totals: Sequence[int], bits: int, variables: int) -> list[float]:
    """The moments, each rounded once."""
    weight, sums, products = totals[0], totals[1 : 1 + variables], totals[1 + variables :]
    if weight <= 0:
        return [0.0] * (4 * variables)
    means = [total / (weight << bits) for total in sums]
    finer = max(bits, _places_of(means))
    left = [(total << finer - bits) - _units_of(x, finer) * weight for total, x in zip(sums, means)]
    pairs = [(i, j) for i in range(variables) for j in range(i, variables)]
    about = [total * weight - sums[i] * sums[j] for total, (i, j) in zip(products, pairs)]
    about = [max(0, total) if i == j else total for total, (i, j) in zip(about, pairs)]
    rest = [total / (weight << finer) for total in left]
    return [weight / (1 << bits), *means, *[product / (weight << 3 * bits) for product in about], *rest]


# -- numbers without rounding: integers in units of a power of two -----------------------------------------------


def _places_of(values: Iterable[float]) -> int:
    """The binary places that turn all of them into integers; OverflowError or ValueError if one is not finite."""
    return max([value.as_integer_ratio()[1] for value in values]).bit_length() - 1


def _units_of(value: float, bits: int) -> int:
    """A float of at most ``bits`` binary places, in units of ``2**-bits``."""
    number, divisor = value.as_integer_ratio()
    return number << (bits + 1 - divisor.bit_length())


def _words_in(number: int, bits: int) -> list[float]:
    """An integer in units of ``2**-bits`` as floats, each the rounded remainder; or OverflowError."""
    words: list[float] = []
    while number:
        word = number / (1 << bits)
        if not word:  # below float64's range
            break
        words.append(word)
        number -= _units_of(word, bits)
    return words or [0.0]


def words_of(values: Sequence[float], most: int | None = None) -> list[float]:
    """The exact sum as floats, each the rounded remainder; one float if it is not finite.

    Args:
        values: at least one.
        most: the most floats; None: as needed.
    """
    if not math.isfinite(sum(values)):
        odd = [value for value in values if not math.isfinite(value)]
        if odd:
            return [sum(odd) if math.isinf(sum(odd)) else math.nan]
    words: list[float] = []
    try:
        while len(words) != most and (not words or words[-1]):
            words.append(math.fsum(itertools.chain(values, map(operator.neg, words))))
        return words
    except OverflowError:  # also where only a partial sum is out of range
        bits = _places_of(values)
        total = sum([_units_of(value, bits) for value in values])
    try:
        return _words_in(total, bits)[:most]
    except OverflowError:
        return [math.inf if total > 0 else -math.inf]
