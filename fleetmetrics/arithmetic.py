"""Arithmetic on metrics: ``2 * p * r / (p + r)`` is a formula that waits for the values of ``p`` and ``r``."""

from __future__ import annotations

import operator
from typing import Any, Callable

import numpy as np

from fleetmetrics.formulas.ratio import undefined

__all__ = ["Arithmetic"]


class Arithmetic:
    """The operators; what derives from this says what they make."""

    __array_ufunc__ = None  # or an array times a metric would be an array of objects

    def _combined(self, symbol: str, function: Callable[..., Any], *operands: Any) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._combined("+", operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._combined("+", operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._combined("-", operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._combined("-", operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._combined("*", operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._combined("*", operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._combined("/", _quotient, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._combined("/", _quotient, other, self)

    def __pow__(self, other: Any) -> Any:
        return self._combined("**", _power, self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._combined("**", _power, other, self)

    def __neg__(self) -> Any:
        return self._combined("-", operator.neg, self)

    def __abs__(self) -> Any:
        return self._combined("abs", operator.abs, self)


def _quotient(one: Any, other: Any) -> Any:
    if np.ndim(one) == np.ndim(other) == 0:
        return one / other if other else undefined("a quotient of metrics", "the divisor is 0")
    below = np.asarray(other)
    if (below == 0).any():
        undefined("a quotient of metrics", f"{np.count_nonzero(below == 0)} of {below.size} divisors are 0")
    return np.where(below == 0, np.nan, one / np.where(below == 0, 1, below))


def _power(one: Any, other: Any) -> Any:
    base, exponent = np.asarray(one, np.float64), np.asarray(other, np.float64)
    with np.errstate(all="ignore"):
        value = np.power(base, exponent)
    none = ~np.isfinite(value) & ~np.isnan(base) & ~np.isnan(exponent)
    if none.any():
        undefined("a power of metrics", f"{np.count_nonzero(none)} of {none.size} are no finite number")
        value = np.where(none, np.nan, value)
    return value if value.ndim else value.item()
