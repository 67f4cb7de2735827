"""Increments that touch few entries of a state."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Scattered"]


class Scattered(NamedTuple):
    """An increment that touches few entries of a state: ``state[indices[0][i], ...] += amount[i]`` for every i.

    ``indices`` has one int64 array ``[n]`` per axis of the state, as NumPy's indexing has it; ``amount`` is an int64 or
    float64 array ``[n]``, or None for 1. In lanes, on the host, they are arrays that broadcast to a common shape.
    """

    indices: tuple[Any, ...]
    amount: Any
