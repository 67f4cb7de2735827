"""Weight, mean and squared deviations, merged by the pairwise formulas: variances that do not cancel.

The moments of one variable are ``[w, m, s]``: the weight of the samples, their mean, and the sum of their squared
deviations from it. The comoments of two are ``[w, mx, my, sxx, sxy, syy]``. Sums of squares would lose every digit
where the mean is large against the spread.

Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37 (1983).
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

__all__ = ["WIDTHS", "gathered", "merged", "merged_floats"]

#: How many numbers each reduction keeps, in the last axis of a state.
WIDTHS = {"moments": 3, "comoments": 6}


def gathered(xp: Any, total: Any, means: Sequence[Any], products: Sequence[Any]) -> Any:
    """Put the parts into one array, whose last axis they become.

    Args:
        xp: the array namespace.
        total: the weight.
        means: one per variable.
        products: sums of products of deviations, in the order xx, xy, yy.
    """
    return xp.stack_last([total, *means, *products])


def merged(xp: Any, one: Any, other: Any) -> Any:
    """The moments, or comoments, of two groups of samples together.

    Args:
        xp: the array namespace of both.
        one: float64, ``[..., 3]`` or ``[..., 6]``.
        other: the same shape.
    """
    width = xp.shape(one)[-1]
    return xp.stack_last(_merged(xp.or_one, [one[..., i] for i in range(width)], [other[..., i] for i in range(width)]))


def merged_floats(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """The same for the three or six numbers of one group: as Python's, several times faster than as arrays."""
    return _merged(_or_one, one, other)


def _or_one(number: float) -> float:
    return number or 1.0


def _merged(or_one: Callable[[Any], Any], one: Sequence[Any], other: Sequence[Any]) -> list[Any]:
    weight = one[0] + other[0]
    share = other[0] / or_one(weight)
    lever = one[0] * share
    if len(one) == WIDTHS["moments"]:
        x, xx = one[1:]
        dx = other[1] - x
        return [weight, x + dx * share, xx + other[2] + dx * dx * lever]
    x, y, xx, xy, yy = one[1:]
    dx, dy = other[1] - x, other[2] - y
    return [
        weight,
        x + dx * share,
        y + dy * share,
        xx + other[3] + dx * dx * lever,
        xy + other[4] + dx * dy * lever,
        yy + other[5] + dy * dy * lever,
    ]
