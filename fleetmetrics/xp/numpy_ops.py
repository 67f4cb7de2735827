"""The array namespace on NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.reductions import combine, identity
from fleetmetrics.xp.scattered import Scattered

#: Samples that do not count are filtered out: shapes need not be fixed.
FILTERS = True

absolute = np.absolute
all_true = np.all
any_true = np.any
isfinite = np.isfinite
log = np.log
maximum = np.maximum
minimum = np.minimum
square = np.square
where = np.where
zeros_like = np.zeros_like


def asarray(value: Any, argument: str) -> np.ndarray:
    """An array of bools, integers or floats; anything else is an error that names the argument."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged lists
        raise InvalidInputError(f"{argument} has no rectangular array form: {error}") from None
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"{argument} must hold numbers or bools, not {array.dtype} (given a {type(value).__name__})"
        )
    return array


def host(array: np.ndarray) -> np.ndarray:
    """The array as NumPy's."""
    return array


def is_eager(array: np.ndarray) -> bool:
    """Whether its values can be looked at now without waiting for a device."""
    return True


def kind(array: np.ndarray) -> str:
    """``"b"``, ``"i"`` or ``"f"``: bool, integer, floating."""
    return "i" if array.dtype.kind == "u" else array.dtype.kind


def shape(array: np.ndarray) -> tuple[int, ...]:
    """The shape; -1 where a static program leaves a size open."""
    return array.shape


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array as another dtype, by its NumPy name."""
    return array.astype(dtype, copy=False)


def reshape(array: np.ndarray, shape: list[int]) -> np.ndarray:
    """The array in another shape; one size may be -1."""
    return array.reshape(shape)


def constant(value: float) -> Any:
    """A float64 that meets float64 arrays without loss."""
    return np.float64(value)


def count(array: np.ndarray) -> Any:
    """The number of entries, an int64."""
    return np.int64(array.size)


def sum(array: np.ndarray) -> Any:
    """The sum: of bools and integers an int64, of floats a float64."""
    return np.sum(array, dtype=np.float64 if array.dtype.kind == "f" else np.int64)


def extreme(array: np.ndarray, keep: np.ndarray | None, reduction: str) -> Any:
    """The largest (``"max"``) or smallest entry of those kept; the reduction's identity if there is none."""
    array = array if keep is None else array[keep]
    find = np.max if reduction == "max" else np.min
    return find(array, initial=identity(reduction, array.dtype))


def all_rows(flags: np.ndarray) -> Any:
    """Whether all flags of a row of a matrix are true."""
    return flags.all(axis=1)


def first_true(flags: np.ndarray) -> Any:
    """The position of the first true flag; 0 if there is none."""
    return flags.argmax() if flags.size else np.int64(0)


def bucket(score: np.ndarray, top: int) -> np.ndarray:
    """``int(score * top)`` in the precision of the score, but at least float32: Paddle's buckets."""
    if score.dtype != np.float32:
        score = score.astype(np.float32 if score.dtype == np.float16 else np.float64, copy=False)
    return (score * score.dtype.type(top)).astype(np.int64)


def rank_of_label(scores: np.ndarray, label: np.ndarray) -> np.ndarray:
    """How many classes come before the label's: higher scores, then equal ones of a lower class."""
    label = label.astype(np.int64, copy=False)[:, None]
    own = np.take_along_axis(scores, label, axis=1)
    lower = np.arange(scores.shape[1]) < label
    return np.sum((scores > own) | ((scores == own) & lower), axis=1)


def merge(reduction: str, state: np.ndarray, increment: Any) -> Any:
    """The state with an increment (an array or `Scattered`) merged into it."""
    if isinstance(increment, Scattered):
        return state + np.bincount(increment.index, increment.amount, state.size).reshape(state.shape)
    increment = np.asarray(increment).reshape(state.shape)
    if reduction == "sum" and increment.dtype.kind != "f" and state.dtype.kind != "f":
        return combine("sum", [state, increment])  # an error where int64 would wrap
    return {"sum": np.add, "max": np.maximum, "min": np.minimum}[reduction](state, increment)
