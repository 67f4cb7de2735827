"""Kinds of values: Paddle's tensors and variables, and increments that touch few entries of a state."""

from __future__ import annotations

from typing import Any, NamedTuple

from fleetmetrics.support.tensors import is_eager_tensor, is_static

__all__ = ["Directed", "Scattered", "is_eager_tensor", "is_paddle", "is_static", "without_strays"]


def is_paddle(value: Any) -> bool:
    """Whether a value is Paddle's; False where Paddle was never imported."""
    return is_eager_tensor(value) or is_static(value)


class Scattered(NamedTuple):
    """An increment that touches few entries of a state: ``state[indices[0][i], ...] += amount[i]`` for every i.

    ``indices`` has one int64 array ``[n]`` per axis of the state, as in NumPy's indexing; ``amount`` is an int64 or
    float64 array ``[n]``, or None for 1. In lanes, on the host, they are arrays that broadcast to a common shape.
    """

    indices: tuple[Any, ...]
    amount: Any


class Directed(NamedTuple):
    """An increment for part of a state: the rows of some keys, or a place in a ring."""

    to: Any
    increment: Any


def without_strays(xp: Any, increment: Any, state: Any) -> Any:
    """An increment without entries outside of its state, for batches that were not validated.

    Such entries would raise an error, change another row, or crash a device. Lanes in front, which only the increment
    has, are always valid.
    """
    if isinstance(increment, Directed):
        return increment._replace(increment=without_strays(xp, increment.increment, state))
    if not isinstance(increment, Scattered):
        return increment
    indices, inside = list(increment.indices), None
    for place, size in zip(range(len(indices))[::-1], state.shape[::-1]):
        index = indices[place]
        fits = xp.is_class(index, size)
        indices[place] = xp.where(fits, index, xp.zeros_like(index))
        inside = fits if inside is None else xp.logical_and(inside, fits)
    if inside is None or (xp.is_eager(inside) and xp.all_true(inside)):
        return increment
    amount = increment.amount
    if amount is None:
        return Scattered(tuple(indices), xp.cast(inside, "int64"))
    return Scattered(tuple(indices), xp.where(inside, amount, xp.zeros_like(amount)))
