"""Parts of the difference of two values: the contribution of each slice, by its share and by its own change.

The contributions add up to the difference of the values over all slices, except for rounding.
"""

from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

__all__ = ["Contributions", "of_areas", "of_quotients", "of_sums"]

#: Places between 0 and 1 at which slopes are evaluated, and their weights: exact for polynomials of degree 39.
_PLACES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


class Contributions(NamedTuple):
    """The contribution of each slice to new minus old: arrays ``[slices]``.

    Args:
        mix: from the change of its share, if it is better or worse than the whole.
        within: from the change of its own value.
    """

    mix: np.ndarray
    within: np.ndarray


def of_quotients(
    new: Sequence[Any],
    old: Sequence[Any],
    value: Callable[[float], float] = float,
    slope: Callable[[float], float] = lambda _: 1.0,
) -> Contributions:
    """Contributions to a value that is a quotient of two sums over slices, or a function of such a quotient.

    Formula: with the share ``w`` of a slice in the denominator, its quotient r, the quotient R of the whole, and d for
    new minus old, ``mix = dw (mean(r) - mean(R))`` and ``within = mean(w) dr``, where the mean is that of new and old.
    Both add up to dR. For a function of R, they are multiplied by its secant. A slice on one side only has the same
    quotient on the other side, with the share 0.

    Source: Kitagawa, "Components of a difference between two rates", Journal of the American Statistical Association 50
    (1955).

    Args:
        new: the numerators and the denominators, ``[slices]`` each.
        old: the same for the same slices.
        value: the metric's value as a function of the quotient.
        slope: its derivative.

    Examples:
        >>> found = of_quotients(([30, 10], [100, 100]), ([30, 5], [100, 100]))
        >>> found.mix.tolist(), found.within.tolist()
        ([0.0, 0.0], [0.0, 0.025])
    """
    (one, one_whole, one_share), (other, other_whole, other_share) = _quotients(*new), _quotients(*old)
    one, other = np.where(np.isnan(one), other, one), np.where(np.isnan(other), one, other)
    away = np.nan_to_num((one + other) / 2 - (one_whole + other_whole) / 2)
    apart = one_whole - other_whole
    secant = (value(one_whole) - value(other_whole)) / apart if apart else slope(one_whole)
    secant = secant if math.isfinite(secant) else math.nan  # an infinite value has no parts
    mix = (one_share - other_share) * away
    within = (one_share + other_share) / 2 * np.nan_to_num(one - other)
    return Contributions(mix * secant + 0.0, within * secant + 0.0)  # no -0.0


def _quotients(numerator: Any, denominator: Any) -> tuple[np.ndarray, float, np.ndarray]:
    """The quotients, nan if undefined; that of the whole; and the shares."""
    n, d = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(d != 0, n / d, np.nan), float(n.sum() / d.sum()), d / d.sum()


def of_areas(new: Any, old: Any) -> Contributions:
    """Contributions to the area under the ROC curve, by the moves of a slice's positives and negatives.

    Formula: scores are replaced by their ranks among all rows of their side, which leaves both areas as they are. With
    p and n the distributions of the ranks of positives and of negatives, the area is ``B(p, n)``, the share of pairs in
    the right order, linear in each, and so ``dA = B(dp, mean(n)) + B(mean(p), dn)``, where the mean is that of new and
    old. Both parts are quotients of sums over slices, and `of_quotients` gives the contribution of each slice:
    ``within`` is how far the slice's positives have risen, and its negatives fallen, among all rows of both sides. A
    pair of two slices counts for the slice whose row has moved.

    Args:
        new: by slice the numbers, or weights, of samples labeled 0 and 1 by bucket of their scores,
            ``[slices, 2, buckets]``.
        old: the same of the same slices.
    """
    sides = [np.asarray(counts, np.float64) for counts in (new, old)]
    ranks, wholes = [_ranks(side.sum(axis=(0, 1))) for side in sides], [side.sum(axis=0) for side in sides]
    positive: list[tuple[Any, Any]] = []
    negative: list[tuple[Any, Any]] = []
    for side, rank in zip(sides, ranks):
        others = list(zip(wholes, ranks))
        above = np.mean([_share_below(rank, whole[0], its) for whole, its in others], axis=0)
        below = 1 - np.mean([_share_below(rank, whole[1], its) for whole, its in others], axis=0)
        positive.append((side[:, 1] @ above, side[:, 1].sum(axis=1)))
        negative.append((side[:, 0] @ below, side[:, 0].sum(axis=1)))
    one, other = (of_quotients(new, old) for new, old in (positive, negative))
    return Contributions(one.mix + other.mix, one.within + other.within)


def _ranks(rows: np.ndarray) -> np.ndarray:
    """The share of rows below the middle of each bucket."""
    return (np.cumsum(rows) - rows / 2) / rows.sum()


def _share_below(rank: np.ndarray, rows: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """The share of some rows, by bucket, with ranks below each of these; equal ranks count half."""
    some = np.flatnonzero(rows)
    sums = np.append(0.0, np.cumsum(rows[some]))
    left, right = (sums[np.searchsorted(ranks[some], rank, side)] for side in ("left", "right"))
    below: np.ndarray = (left + right) / (2 * sums[-1])
    return below


def of_sums(new: Any, old: Any, new_rows: Any, old_rows: Any, slopes: Callable[..., Sequence[float]]) -> Contributions:
    """Contributions to a value that is another function of sums over slices, unchanged if all sums are doubled.

    Formula: with S the sums per row of the whole, the difference is ``g . dS``, where g is the mean of the function's
    gradient on the straight way from old to new. S is the mean of the slices' sums per row x by their share w of rows,
    so that ``mix = dw g . (mean(x) - mean(S))`` and ``within = mean(w) g . dx``.

    Source: Aumann and Shapley, Values of Non-Atomic Games (1974); Kitagawa, as for `of_quotients`.

    Args:
        new: the sums, ``[slices, sums]``.
        old: the same of the same slices.
        new_rows: the number of rows of each slice.
        old_rows: the same for old.
        slopes: from the sums, the derivative of the value by each.
    """
    (one, one_whole, one_share), (other, other_whole, other_share) = _per_row(new, new_rows), _per_row(old, old_rows)
    one, other = np.where(np.isnan(one), other, one), np.where(np.isnan(other), one, other)
    gradient = np.zeros(len(one_whole))
    for place, weight in zip(_PLACES, _WEIGHTS):
        at = other_whole + (one_whole - other_whole) * (place + 1) / 2
        gradient += np.asarray(slopes(*at.tolist())) * weight / 2
    away = np.nan_to_num((one + other) / 2 - (one_whole + other_whole) / 2)
    mix = (one_share - other_share) * (away @ gradient)
    return Contributions(mix, (one_share + other_share) / 2 * (np.nan_to_num(one - other) @ gradient))


def _per_row(sums: Any, rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sums per row by slice, nan without rows; those of the whole; and the shares of rows."""
    sums, rows = np.asarray(sums, np.float64), np.asarray(rows, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums / rows[:, None], sums.sum(axis=0) / rows.sum(), rows / rows.sum()
