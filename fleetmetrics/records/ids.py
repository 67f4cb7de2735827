"""One record per sample id, and the conflicts between them."""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError

__all__ = ["RELATIVE_TOLERANCE", "one_per_id"]

#: Two workers that see one sample in different batches get scores that differ in the last bits.
RELATIVE_TOLERANCE = 1e-3
_ABSOLUTE_TOLERANCE = 1e-6
_SHOWN = 5


def one_per_id(columns: list[Any], ids: Any) -> list[Any]:
    """Keep the first record of every id, in the order of the ids.

    Args:
        columns: arrays or lists; taken out of the list one after the other, so that no more than one is held twice.
        ids: an array or a list of integers or texts [n], one per record.

    Returns:
        The columns, one record per id.

    Raises:
        InvalidInputError: if the records of an id differ by more than rounding.
    """
    if not isinstance(ids, np.ndarray):  # of kinds that no array holds together
        ids = np.array(ids, object)
    order = np.argsort(ids, kind="stable")
    is_first = np.ones(len(ids), bool)
    ranked = ids[order]
    is_first[1:] = ranked[1:] != ranked[:-1]
    if not is_first.all():
        _check_repeated(columns, order, is_first, ranked)
        order = order[is_first]
    del ranked
    return [_taken(columns.pop(0), order) for _ in range(len(columns))]


def _check_repeated(columns: Sequence[Any], order: np.ndarray, is_first: np.ndarray, ranked: np.ndarray) -> None:
    """Compare the repeated records with the first ones of their ids."""
    starts, again = np.flatnonzero(is_first), np.flatnonzero(~is_first)
    first, repeated = order[starts[np.searchsorted(starts, again) - 1]], order[again]
    agrees = np.ones(again.size, bool)
    for column in columns:
        agrees &= _agreement(column, repeated, first)
    if not agrees.all():
        wrong = np.unique(ranked[again[~agrees]])
        shown = ", ".join(map(repr, wrong[:_SHOWN].tolist())) + (", ..." if wrong.size > _SHOWN else "")
        raise InvalidInputError(
            f"ids: {wrong.size} of {starts.size} ids came with records that differ: {shown}. A sample that is"
            " evaluated twice must give the same record, up to rounding; do two samples have one id?"
        )


def _taken(column: Any, order: np.ndarray) -> Any:
    return column[order] if isinstance(column, np.ndarray) else [column[i] for i in order.tolist()]


def _agreement(column: Any, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether the records at these positions are equal, up to rounding; one flag per pair."""
    if not isinstance(column, np.ndarray):
        return np.array([_alike(column[i], column[j]) for i, j in zip(one.tolist(), other.tolist())], bool)
    a, b = column[one], column[other]
    return np.asarray(_close(a, b).reshape(len(one), -1).all(axis=1))


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "fc" or b.dtype.kind in "fc":
        return np.asarray(np.isclose(a, b, RELATIVE_TOLERANCE, _ABSOLUTE_TOLERANCE, equal_nan=True))
    return np.asarray(a == b)


def _alike(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, float):
        return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=_ABSOLUTE_TOLERANCE) or (a != a and b != b)
    if hasattr(a, "numpy"):
        a, b = a.numpy(), b.numpy()
    if isinstance(a, np.ndarray):
        return bool(a.shape == b.shape and _close(a, b).all())
    return bool(a == b)
