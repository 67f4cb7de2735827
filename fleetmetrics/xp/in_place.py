"""Adding to a few entries of a large NumPy array where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics.xp.kinds import Scattered

__all__ = ["add_at", "flat_entries"]

#: So many entries are sorted, to find those that are touched more than once.
_SORTED = 2**16


def flat_entries(shape: tuple[int, ...], increment: Scattered) -> tuple[np.ndarray, np.ndarray | None]:
    """The entries that a `Scattered` touches, counted through the whole array, and the amounts; one axis each.

    Args:
        shape: of the array.
        increment: one index array for each axis; they, and the amount, may have any shapes that broadcast.
    """
    flat: Any = 0
    stride = 1
    for index, size in zip(increment.indices[::-1], shape[::-1]):
        flat = index * stride + flat if stride > 1 else index
        stride *= size
    amount = increment.amount
    if amount is None:
        return flat.reshape(-1), None
    if amount.shape != flat.shape:
        flat, amount = np.broadcast_arrays(flat, amount)
    return flat.reshape(-1), amount.reshape(-1)


def add_at(entries: np.ndarray, flat: np.ndarray, amount: np.ndarray | None) -> None:
    """Add to entries where they lie: what is not touched costs no time.

    Args:
        entries: int64, or float64 if the amount is; one axis.
        flat: which entries, any of them several times.
        amount: what is added to each; None: 1.
    """
    if amount is not None and amount.dtype.kind == "f" and flat.size <= _SORTED:
        touched, place = np.unique(flat, return_inverse=True)  # the sum of the batch first: fewer roundings
        entries[touched] += np.bincount(place, amount)
    else:
        np.add.at(entries, flat, 1 if amount is None else amount)
