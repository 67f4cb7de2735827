"""Metrics of pairs of samples, which compare the order of predictions and labels. n samples take O(n log n).

Without samples, or pairs to compare, a value is ``zero_division``; nan, the default, comes with
`UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.formulas.correlation import SCORES, WEIGHTS, root_of_product
from fleetmetrics.formulas.groups import starts_of, sums_of
from fleetmetrics.formulas.quotients import NO_SAMPLES, stand_in
from fleetmetrics.formulas.sums import sums_before
from fleetmetrics.support.checks import amount, checked, made_by, optional, stand_in_value

__all__ = ["PairCounts", "kendall_correlation", "pair_counts", "xauc"]


class PairCounts(NamedTuple):
    """The number of pairs of samples of each kind, or the sum of their weights; made by `pair_counts`.

    Args:
        concordant: pairs in which one sample has both the higher prediction and the higher label.
        discordant: pairs in which one has the higher prediction and the other the higher label.
        by_prediction: pairs of different predictions.
        by_label: pairs of different labels.
        samples: the number of samples, or their weight.
    """

    concordant: float = 0
    discordant: float = 0
    by_prediction: float = 0
    by_label: float = 0
    samples: float = 0


@checked(prediction=SCORES, label=SCORES, weight=optional(WEIGHTS))
def pair_counts(prediction: Any, label: Any, weight: Any = None) -> PairCounts:
    """Count the concordant and the discordant pairs of samples.

    Formula: sums of ``w_i * w_j`` over the pairs i < j; without weights their exact numbers.

    Source: Knight, "A computer method for calculating Kendall's tau with ungrouped data", Journal of the American
    Statistical Association 61 (1966).

    Args:
        prediction: ``[n]`` numbers, without nan; integers are compared as integers.
        label: likewise; another length raises `InvalidInputError`.
        weight: ``[n]`` numbers above 0; None: 1 each. They are scaled by a power of two to at most 1.

    Examples:
        >>> pair_counts([1.0, 2.0, 2.0, 3.0], [1.0, 3.0, 2.0, 2.0])
        PairCounts(concordant=3, discordant=1, by_prediction=5, by_label=5, samples=4)
    """
    if not prediction.size:
        return PairCounts()
    # Weights are scaled: the product of two may leave the range of a float.
    one_each = np.ones(prediction.size, np.int64)
    count = one_each if weight is None else np.ldexp(weight.astype(np.float64, copy=False), -np.frexp(weight.max())[1])
    by_label = np.lexsort((prediction, label))
    by_prediction = np.argsort(prediction[by_label], kind="stable")
    discordant = _inversions(by_prediction, count[by_label])
    labels_apart = _apart(label[by_label], count[by_label])
    order = by_label[by_prediction]
    in_order = prediction[order]
    predictions_apart = _apart(in_order, count[order])
    # In reverse order, the other pairs are inverted. Subtraction would cost digits of weighted sums.
    place = np.empty(prediction.size, np.int64)
    place[order] = -np.cumsum(starts_of(in_order))
    by_label = np.lexsort((place, label))
    concordant = _inversions(np.argsort(place[by_label], kind="stable"), count[by_label])
    return PairCounts(concordant, discordant, predictions_apart, labels_apart, count.sum().item())


def _apart(values: np.ndarray, count: np.ndarray) -> float:
    """Pairs of different values; the values are sorted."""
    level = sums_of(count, np.flatnonzero(starts_of(values)))
    return np.sum(level * sums_before(level)).item()


def _inversions(permutation: np.ndarray, count: np.ndarray) -> float:
    """Pairs that a permutation of 0, 1, ..., n - 1 has in falling order, weighted by ``count``.

    Digit by digit from the highest, as in a binary radix sort: a pair is inverted if, in the first digit in which the
    two differ, the 1 comes before the 0.
    """
    n = len(permutation)
    size = 1 << (n - 1).bit_length()
    numbers = np.concatenate([permutation, np.arange(n, size)])  # larger ones at the end invert nothing
    counts = np.concatenate([count[permutation], np.zeros(size - n, count.dtype)])
    place = np.arange(size // 2)
    total = count.dtype.type(0)
    half = size // 2
    while half:
        # In each run of 2 * half values, half have the digit 0 and half have 1; they share the higher digits.
        digit = (numbers & half) != 0
        zeros, ones = np.flatnonzero(~digit), np.flatnonzero(digit)
        of_zeros, of_ones = counts[zeros].reshape(-1, half), counts[ones].reshape(-1, half)
        before = np.zeros((len(of_ones), half + 1), counts.dtype)
        np.cumsum(of_ones, axis=1, out=before[:, 1:])
        # The number of ones before a zero is its place in the row minus its place among the zeros.
        number = (zeros & (2 * half - 1)) - (place & (half - 1))
        number += place // half * (half + 1)
        total += np.sum(before.ravel()[number] * of_zeros.ravel())
        numbers, counts = (
            np.concatenate([array[zeros].reshape(-1, half), array[ones].reshape(-1, half)], axis=1).ravel()
            for array in (numbers, counts)
        )
        half //= 2
    return total.item()


def _pairs(argument: str, value: Any, _: Any) -> PairCounts:
    counts = made_by("pair_counts", PairCounts)(argument, value, _)
    return PairCounts(*[amount(f"{argument}.{name}", count) for name, count in zip(PairCounts._fields, counts)])


@checked(pairs=_pairs, zero_division=stand_in_value)
def kendall_correlation(pairs: PairCounts, zero_division: float = math.nan) -> float:
    """Kendall's rank correlation tau-b in [-1, 1]: pairs in order against pairs out of order.

    Formula: ``(C - D) / sqrt(P * Y)`` of C concordant and D discordant pairs, P with different predictions and Y with
    different labels; undefined if P or Y is 0.

    Examples:
        >>> kendall_correlation(pair_counts([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0]))
        0.6666666666666666
    """
    reason = _trouble(pairs) or ("" if pairs.by_prediction else "all predictions are equal")
    if reason:
        return stand_in("kendall_correlation", reason, zero_division)
    value = (pairs.concordant - pairs.discordant) / root_of_product(pairs.by_prediction, pairs.by_label)
    return min(max(value, -1.0), 1.0)


@checked(pairs=_pairs, zero_division=stand_in_value)
def xauc(pairs: PairCounts, zero_division: float = math.nan) -> float:
    """Share of the pairs with different labels whose predictions are in the same order; equal predictions count half.

    Formula: ``(C + T / 2) / (C + D + T)`` of C concordant and D discordant pairs, and T with different labels and equal
    predictions; undefined if all labels are equal. With labels 0 and 1 it is the area under the ROC curve.

    Examples:
        >>> xauc(pair_counts([0.5, 0.25, 0.5, 1.0], [10.0, 20.0, 30.0, 30.0]))
        0.7
    """
    reason = _trouble(pairs)
    if reason:
        return stand_in("xauc", reason, zero_division)
    value = (pairs.by_label + pairs.concordant - pairs.discordant) / (2 * pairs.by_label)
    return min(max(value, 0.0), 1.0)


def _trouble(pairs: PairCounts) -> str:
    if not pairs.samples:
        return NO_SAMPLES
    return "" if pairs.by_label else "all labels are equal"
