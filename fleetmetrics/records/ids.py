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


def one_per_id(columns: Sequence[Any], ids: Any) -> list[Any]:
    """Keep the first record of every id, in the order of the ids.

    Args:
        columns: arrays or lists.
        ids: an array or a list of integers or texts [n], one per record.

    Returns:
        The columns, one record per id.

    Raises:
        InvalidInputError: if the records of an id differ by more than rounding.
    """
    if not isinstance(ids, np.ndarray):  # of kinds that no array holds together
        ids = np.array(ids, object)
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    originals = first[inverse.reshape(-1)]
    repeated = np.flatnonzero(originals != np.arange(len(ids)))
    if repeated.size:
        agrees = np.ones(repeated.size, bool)
        for column in columns:
            agrees &= _agreement(column, repeated, originals[repeated])
        if not agrees.all():
            wrong = np.unique(ids[repeated[~agrees]])
            shown = ", ".join(map(repr, wrong[:_SHOWN].tolist())) + (", ..." if wrong.size > _SHOWN else "")
            raise InvalidInputError(
                f"ids: {wrong.size} of {first.size} ids came with records that differ: {shown}. A sample that is"
                " evaluated twice must give the same record, up to rounding; do two samples have one id?"
            )
    if first.size == len(ids) and np.array_equal(first, np.arange(first.size)):
        return list(columns)
    return [column[first] if isinstance(column, np.ndarray) else [column[i] for i in first] for column in columns]


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
