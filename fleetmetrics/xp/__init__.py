"""The array namespace for batch statistics, in the style of the array API.

There are two implementations of the same functions: NumPy, and Paddle for dynamic mode and static programs.
A metric that uses only these functions runs in all three modes.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Iterable, Sequence

import numpy as np

from fleetmetrics.numbers.reductions import Directed, Scattered
from fleetmetrics.support.tensors import is_eager_tensor, is_paddle, is_static, is_torch, of_paddle, of_torch
from fleetmetrics.xp import numpy_ops

__all__ = [
    "Directed",
    "Scattered",
    "is_eager_tensor",
    "is_on_device",
    "is_paddle",
    "is_static",
    "namespace",
    "to_host",
    "together_to_host",
    "without_strays",
]


#: A lookup is faster than `is_paddle`.
_NEVER_PADDLE = frozenset(
    [np.ndarray, np.int64, np.float64, np.float32, np.bool_, list, tuple, int, float, bool, type(None)]
)


def namespace(*values: Any) -> ModuleType:
    """The namespace for these values: `paddle_ops` if any of them is Paddle's, else `numpy_ops`."""
    for value in values:
        if type(value) not in _NEVER_PADDLE and is_paddle(value):
            from fleetmetrics.xp import paddle_ops

            return paddle_ops
    return numpy_ops


def to_host(value: Any) -> Any:
    """A tensor of Paddle or torch as a NumPy array, bfloat16 as float32; any other value as it is."""
    if type(value) in _NEVER_PADDLE:
        return value
    if is_eager_tensor(value):
        return of_paddle(value, "value") if value.is_dense() else value
    if is_torch(type(value)) and not is_static(value):
        return of_torch(value.cpu(), "value")
    return value


def together_to_host(batches: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """`to_host` of each entry; entries on a device cross in one copy, because each copy waits for the device."""
    batches = list(batches)
    there = [value for batch in batches for value in batch if is_on_device(value)]
    arrays = iter(namespace(*there).hosts(there) if there else ())
    return [tuple([next(arrays) if is_on_device(value) else to_host(value) for value in batch]) for batch in batches]


def is_on_device(value: Any) -> bool:
    """Whether a value is a tensor whose values cannot be read without waiting."""
    if type(value) in _NEVER_PADDLE:
        return False
    return is_eager_tensor(value) and value.is_dense() and not namespace(value).is_eager(value)


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
