"""Weight, mean and squared deviations, merged by the pairwise formulas: variances that do not cancel.

The moments of one variable are ``[w, m, s]``: the weight of the samples, their mean, and the sum of their squared
deviations from it. The comoments of two are ``[w, mx, my, sxx, sxy, syy]``. Sums of squares would lose every digit
where the mean is large against the spread.

Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37 (1983).
"""

from __future__ import annotations

import operator
from typing import Any, Sequence

__all__ = ["WIDTHS", "gathered", "merged", "merged_floats"]

#: How many numbers each reduction keeps, in the last axis of a state.
WIDTHS = {"moments": 3, "comoments": 6}
#: Of which two variables each sum of products is, by the number of variables.
_PAIRS = {1: [(0, 0)], 2: [(0, 0), (0, 1), (1, 1)]}


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
    return xp.stack_last(_merged(xp, [one[..., i] for i in range(width)], [other[..., i] for i in range(width)]))


def merged_floats(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """The same for the three or six numbers of one group: as Python's, several times faster than as arrays."""
    return _merged(_Floats, one, other)


class _Floats:
    """Python's operators under the names of an array namespace."""

    add, subtract, multiply, divide = operator.add, operator.sub, operator.mul, operator.truediv

    @staticmethod
    def or_one(number: float) -> float:
        return number or 1.0


def _merged(xp: Any, mine: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
    variables = 1 if len(mine) == WIDTHS["moments"] else 2
    total = xp.add(mine[0], theirs[0])
    share = xp.divide(theirs[0], xp.or_one(total))
    deltas = [xp.subtract(theirs[1 + i], mine[1 + i]) for i in range(variables)]
    parts = [total, *[xp.add(mine[1 + i], xp.multiply(delta, share)) for i, delta in enumerate(deltas)]]
    lever = xp.multiply(mine[0], share)
    for place, (i, j) in enumerate(_PAIRS[variables], 1 + variables):
        between = xp.multiply(xp.multiply(deltas[i], deltas[j]), lever)
        parts.append(xp.add(xp.add(mine[place], theirs[place]), between))
    return parts
