"""Increments that touch few entries of a state."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Scattered"]


class Scattered(NamedTuple):
    """An increment that touches few entries of a state: ``state[index[i]] += amount[i]`` for every i.

    ``index`` is an int64 array ``[n]`` into a state of one axis; ``amount`` an int64 or float64 array ``[n]``; None
    stands for 1.
    """

    index: Any
    amount: Any
