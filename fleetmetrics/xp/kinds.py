"""Kinds of values: Paddle's tensors and variables, and increments that touch few entries of a state."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.errors import InvalidInputError

__all__ = ["Directed", "Scattered", "is_eager_tensor", "is_paddle", "is_static", "of_torch", "without_strays"]


def is_eager_tensor(value: Any) -> bool:
    """Whether a value is a tensor of dynamic mode."""
    paddle = sys.modules.get("paddle")
    # Check the class: isinstance(tensor, paddle.static.Variable) is true for eager tensors as well.
    return hasattr(paddle, "Tensor") and issubclass(type(value), paddle.Tensor)  # type: ignore[union-attr]


def is_static(value: Any) -> bool:
    """Whether a value is a variable of a legacy static program or a value of a PIR program."""
    paddle = sys.modules.get("paddle")
    if not hasattr(paddle, "static") or is_eager_tensor(value):
        return False
    kinds = (paddle.static.Variable, getattr(getattr(paddle, "pir", None), "Value", ()))  # type: ignore[union-attr]
    return isinstance(value, kinds)


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


def of_torch(tensor: Any, argument: str) -> np.ndarray:
    """A torch tensor on the CPU, even with a gradient; bfloat16 as float32. An error on any other device."""
    if str(getattr(tensor, "device", "cpu")) != "cpu":
        raise InvalidInputError(
            f"{argument} is a torch tensor on device {str(tensor.device)!r}; give {argument}.cpu() to add"
        )
    tensor = tensor.detach()
    return (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
