"""Weight, mean and squared deviations, merged by the pairwise formulas: variances that do not cancel.

The moments of one variable are ``[w, m, s]``: the weight of the samples, their mean, and the sum of their squared
deviations from it. The comoments of two are ``[w, mx, my, sxx, sxy, syy]``. Sums of squares would lose every digit
where the mean is large against the spread.

Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37 (1983).
"""

from __future__ import annotations

from typing import Any, Sequence

__all__ = ["WIDTHS", "gathered", "merged"]

#: How many numbers each reduction keeps, in the last axis of a state.
WIDTHS = {"moments": 3, "comoments": 6}


def _pairs(variables: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(variables) for j in range(i, variables)]


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
    variables = 1 if xp.shape(one)[-1] == WIDTHS["moments"] else 2
    mine, theirs = ([array[..., i] for i in range(xp.shape(array)[-1])] for array in (one, other))
    total = xp.add(mine[0], theirs[0])
    share = xp.divide(theirs[0], xp.or_one(total))
    means, products = [], []
    deltas = [xp.subtract(theirs[1 + i], mine[1 + i]) for i in range(variables)]
    for i, delta in enumerate(deltas):
        means.append(xp.add(mine[1 + i], xp.multiply(delta, share)))
    lever = xp.multiply(mine[0], share)
    for place, (i, j) in enumerate(_pairs(variables), 1 + variables):
        between = xp.multiply(xp.multiply(deltas[i], deltas[j]), lever)
        products.append(xp.add(xp.add(mine[place], theirs[place]), between))
    return gathered(xp, total, means, products)
