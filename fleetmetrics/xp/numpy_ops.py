"""The array namespace on NumPy; `fleetmetrics.xp.paddle_ops` documents each of its functions."""

from __future__ import annotations

import functools
import math
import operator
import sys
from typing import Any, Callable

import numpy as np

# isort: off
from numpy import absolute, add, arange, bitwise_and, bitwise_xor, divide, equal, exp, full_like, greater, isfinite
from numpy import log, log1p, logical_and, logical_not, logical_or, minimum, multiply, ones_like, power, remainder
from numpy import sinh, square, subtract, where, zeros_like
# isort: on

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers.moments import WIDTHS, merged, merged_floats, two_sum
from fleetmetrics.numbers.reductions import FEW as _FEW
from fleetmetrics.numbers.reductions import FEW_LOGARITHMS as _FEW_LOGARITHMS
from fleetmetrics.numbers.reductions import OF_BATCHES as _OF_BATCHES
from fleetmetrics.numbers.reductions import Scattered, combine, identity, sum_of_numbers, widen
from fleetmetrics.support.tensors import as_array
from fleetmetrics.xp.score_buckets import log_odds

#: Overflow is checked afterwards.
quiet: Callable[..., Any] = functools.partial(np.errstate, all="ignore")
#: Samples that do not count are filtered out: shapes need not be fixed.
FILTERS = True

#: The smallest number above 0.
_LEAST = 5e-324
#: The product of 16 numbers from 2**-52 to 1 is a normal number, and takes a tenth of the time of their logarithms.
_FACTORS = 16
_ONES = [np.ones(size) for size in range(_FEW + 1)]
_DTYPES = {name: np.dtype(name) for name in ("bool", "int64", "float32", "float64")}
_FLOAT64 = _DTYPES["float64"]
_KEPT = frozenset(_DTYPES.values())

at_least: Callable[..., Any] = np.maximum
concat: Callable[..., Any] = np.concatenate
count: Callable[..., Any] = operator.attrgetter("size")
moveaxis: Callable[..., Any] = np.moveaxis
first_zero: Callable[..., Any] = np.argmin
kind: Callable[..., Any] = operator.attrgetter("dtype.kind")
number = np.int64
quotient: Callable[..., Any] = np.floor_divide
scale: Callable[..., Any] = np.multiply
shape: Callable[..., Any] = operator.attrgetter("shape")
sum_by: Callable[..., Any] = np.bincount
take: Callable[..., Any] = operator.getitem
all_rows: Callable[..., Any] = functools.partial(np.all, axis=1)
largest_of_rows: Callable[..., Any] = functools.partial(np.max, axis=1)
sum_of_rows: Callable[..., Any] = functools.partial(np.sum, axis=1)
repeat: Callable[..., Any] = functools.partial(np.repeat, axis=0)


def asarray(value: Any, argument: str) -> np.ndarray:
    if type(value) is np.ndarray and value.dtype in _KEPT:
        return value
    return widened(unwidened(value, argument), argument)


def widened(array: np.ndarray, argument: str) -> np.ndarray:
    if array.dtype in _KEPT:
        return array
    return array.astype(np.float32) if array.dtype == np.float16 else widen(array, argument)


def unwidened(value: Any, argument: str) -> np.ndarray:
    if type(value) is np.ndarray and value.dtype.kind not in "OV":
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidInputError(f"{argument} is a masked array; give its data, and mask=~array.mask, to add")
    try:
        return as_array(value, argument)
    except InvalidInputError:
        raise
    except Exception:  # ragged lists, and whatever an object's __array__ raises: widen raises the error
        return widen(value, argument)


def host(array: np.ndarray) -> np.ndarray:
    return array


constant: Callable[..., Any] = host
integers: Callable[..., Any] = host


#: In bytes: arrays between these are filled with zeros at once, for Linux then gives huge pages; what is larger may
#: stay empty for the most part, and below the first add touches few pages.
_HUGE_PAGES = 2**22, 2**27


def filled(shape: tuple[int, ...], value: Any) -> np.ndarray:
    """An array of one NumPy scalar."""
    size = math.prod(shape) * value.dtype.itemsize
    if value or _HUGE_PAGES[0] <= size <= _HUGE_PAGES[1]:
        return np.full(shape, value)
    return np.zeros(shape, value.dtype)


def is_eager(array: np.ndarray) -> bool:
    return True


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    return array if array.dtype == _DTYPES[dtype] else array.astype(_DTYPES[dtype])


def reshape(array: np.ndarray, shape: list[int]) -> np.ndarray:
    return array.reshape(shape)


def within(array: np.ndarray, low: float, high: float) -> bool:
    """Whether all entries of a non-empty array are known to be in this range; False for nan."""
    if array.size <= _FEW:  # nan is found as an extreme
        return low <= array.item(array.argmin()) and array.item(array.argmax()) <= high
    if low == 0:  # one pass: as unsigned integers, non-negative numbers keep their order, and all others are larger
        kind, limit = _unsigned(array.dtype, high)
        return np.maximum.reduce(array.view(kind), None).item() <= limit
    return low <= np.minimum.reduce(array, None).item() and np.maximum.reduce(array, None).item() <= high


@functools.lru_cache(maxsize=64)
def _unsigned(dtype: np.dtype, value: float) -> tuple[np.dtype, int]:
    """The unsigned dtype of equal size, and the bits of a number in it."""
    kind = np.dtype(f"u{dtype.itemsize}")
    return kind, np.array(value, dtype).view(kind).item()


def known_finite(array: np.ndarray) -> bool:
    """Whether all entries are known to be finite; False: some may not be."""
    if array.dtype.kind != "f":
        return True
    flat = array if array.ndim == 1 else array.ravel("K")  # in the order of the memory, without a copy
    return math.isfinite(flat.dot(flat))  # the fastest pass; after an overflow, the answer is unknown


def known_zero(number: Any) -> bool:
    return not number


def known_exact(floats: np.ndarray) -> bool:
    """Whether all entries of a float64 ``[n]`` are known to be below 2**53, to which it rounds 2**53 + 1."""
    return floats.dot(floats) < 2.0**106


def squares(array: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    weighted = square(array) if weight is None else square(array) * weight
    if weighted.all():
        return weighted
    counted = array != 0 if weight is None else (array != 0) & (weight != 0)
    return np.maximum(weighted, _LEAST * counted)  # a square that is too small must not be 0: the formula warns of it


def is_probability(array: np.ndarray) -> Any:
    return (array >= 0) & (array <= 1)


def is_weight(array: np.ndarray) -> Any:
    return (array >= 0) & np.isfinite(array)


def is_class(array: np.ndarray, classes: int) -> Any:
    if array.dtype.kind == "b":
        return None
    flags = (array >= 0) & (array < classes)
    return flags & (array == np.floor(array)) if array.dtype.kind == "f" else flags


def sum(array: np.ndarray) -> Any:
    if array.dtype == _FLOAT64 and array.size <= _FEW and array.ndim == 1:
        return array.dot(_ONES[array.size])
    if array.dtype.kind == "b":
        return np.int64(np.count_nonzero(array))  # NumPy 1 counts in Python's integers
    return np.add.reduce(array, None, np.float64 if array.dtype.kind == "f" else np.int64)


def sum_of_logs(array: np.ndarray) -> Any:
    if array.size <= _FEW_LOGARITHMS:
        return sum(np.log(array))
    whole = array.size - array.size % _FACTORS
    products = np.multiply.reduce(array[:whole].reshape(_FACTORS, -1), 0)
    return np.add.reduce(np.log(products)) + np.add.reduce(np.log(array[whole:]))


def dot(one: np.ndarray, other: np.ndarray) -> Any:
    return one.dot(other) if one.size <= _FEW else np.add.reduce(one * other)


def moments(x: np.ndarray, y: np.ndarray | None) -> list[float]:
    """Moments without weights, see `fleetmetrics.numbers.moments`: as from `Whole.moments`, but faster."""
    size = float(x.size)
    middle, step, a = _about_mean(x)
    mean, rest = two_sum(middle, step)
    xx = max(float(dot(a, a)) - size * step * step, 0.0)
    if y is None:
        return [size, mean, xx, rest]
    other, more, b = _about_mean(y)
    xy, yy = float(dot(a, b)) - size * step * more, max(float(dot(b, b)) - size * more * more, 0.0)
    other, more = two_sum(other, more)
    return [size, mean, other, xx, xy, yy, rest, more]


def _about_mean(values: np.ndarray) -> tuple[float, float, np.ndarray]:
    """The mean, its rounding error, and the deviations from the mean."""
    size = values.size or 1
    total = _ONES[values.size].dot if size <= _FEW else np.add.reduce
    middle = float(total(values)) / size
    near = values - middle
    return middle, float(total(near)) / size, near


def or_one(array: np.ndarray) -> Any:
    return np.where(array == 0, 1.0, array) if isinstance(array, np.ndarray) else array or 1.0


def stack_last(arrays: Any) -> np.ndarray:
    """Arrays of equal shape, stacked along a new last axis."""
    return np.stack(arrays, axis=-1) if np.ndim(arrays[0]) else np.array(arrays)


def sigmoid(array: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(array.astype(np.float64, copy=False)))
    return np.where(array >= 0, 1.0, small) / (1.0 + small)


def position(edges: np.ndarray, array: np.ndarray, right: bool = False) -> np.ndarray:
    return np.searchsorted(edges, array, side="right" if right else "left")


def counts_of_rows(index: np.ndarray, size: int) -> np.ndarray:
    rows = len(index)
    places = index + (size + 1) * np.arange(rows)[:, None]
    return np.bincount(places.ravel(), minlength=rows * (size + 1)).reshape(rows, size + 1)[:, :size]


def matvec(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return vector @ matrix


def extreme(array: np.ndarray, keep: np.ndarray | None, reduction: str, axis: int | None = None) -> Any:
    array = array if keep is None else array[keep]
    find = np.max if reduction == "max" else np.min
    return find(array, axis, initial=identity(reduction, array.dtype))


def extreme_by_column(array: np.ndarray, keep: np.ndarray, reduction: str) -> Any:
    array = np.where(keep, array, identity(reduction, array.dtype))
    return array.max(axis=0) if reduction == "max" else array.min(axis=0)


def extreme_by(index: np.ndarray, array: np.ndarray, keep: np.ndarray | None, size: int, reduction: str) -> Any:
    extremes = np.full(size, identity(reduction, array.dtype))
    if keep is not None:
        index, array = index[keep], array[keep]
    (np.maximum if reduction == "max" else np.minimum).at(extremes, index, array)
    return extremes


def sum_of_columns(array: np.ndarray) -> Any:
    return array.sum(axis=0, dtype=None if array.dtype.kind == "f" else np.int64)


def dot_of_columns(weight: np.ndarray, array: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", weight, array)


def replaced(array: np.ndarray, place: Any, row: Any, wanted: Any) -> np.ndarray:
    if wanted is None or wanted:
        row = np.asarray(row)
        array = array.astype(np.result_type(array, row), copy=False)
        array[place] = row
    return array


def all_true(flags: np.ndarray) -> bool:
    return bool(flags.all())


def bucket(score: np.ndarray, top: int) -> np.ndarray:
    if score.dtype != np.float32:
        score = score.astype(np.float64, copy=False)
    return (score * score.dtype.type(top)).astype(np.int64)


def log_odds_bucket(score: np.ndarray, buckets: int) -> np.ndarray:
    layout = log_odds(buckets)
    score = score.astype(np.float64, copy=False).clip(layout.low, layout.high)
    odds = np.subtract(1.0, score)
    np.divide(score, odds, out=odds)
    index = odds.view(np.int64)
    index >>= layout.shift
    index -= layout.first
    return index


def highest_of_rows(array: np.ndarray) -> np.ndarray:
    if array.shape[1] > _FEW or array.strides[0] != array.itemsize:
        return array.argmax(axis=1)
    # NumPy would copy a transposed array, such as a view of images: a class leads if it is above all before it.
    best, place = array[:, 0].copy(), np.zeros(len(array), np.int64)
    for column in range(1, array.shape[1]):
        scores = array[:, column]
        place[scores > best] = column
        np.maximum(best, scores, out=best)
    return place


def score_of_label(scores: np.ndarray, label: np.ndarray) -> np.ndarray:
    label = label.astype(np.int64, copy=False)
    rows = np.arange(len(scores))
    try:
        return scores[rows, label]
    except IndexError:  # an invalid label, which the check reports unless it is off
        return scores[rows, label.clip(0, scores.shape[1] - 1)]


def log_sum_of_rows(scores: np.ndarray) -> np.ndarray:
    top = scores.max(axis=1).astype(np.float64, copy=False)
    odds = np.subtract(scores, top[:, None], dtype=np.float64)
    np.exp(odds, out=odds)
    return top + np.log(odds.sum(axis=1))


def rank_of_label(scores: np.ndarray, label: np.ndarray) -> np.ndarray:
    own = score_of_label(scores, label)[:, None]
    label = label.astype(np.int64, copy=False)[:, None]
    lower = np.arange(scores.shape[1]) < label
    return np.sum((scores > own) | ((scores == own) & lower), axis=1)


def merge(reduction: str, state: np.ndarray, increment: Any) -> Any:
    counts: Any
    if isinstance(increment, Scattered):
        flat = increment.indices[0]
        for index, size in zip(increment.indices[1:], state.shape[1:]):
            flat = np.multiply(flat, size)
            flat += index
        if increment.amount is not None and increment.amount.dtype.kind != "f":  # whole numbers stay whole
            counts = np.zeros(state.size, np.int64)
            np.add.at(counts, flat, increment.amount)
            return state + counts.reshape(state.shape)
        counts = np.bincount(flat, increment.amount, state.size).reshape(state.shape)
        return np.add(state, counts, out=counts if counts.dtype == state.dtype else None)
    if type(increment) is not np.ndarray:
        increment = np.asarray(increment)
    if increment.shape != state.shape:
        increment = increment.reshape(state.shape)
    if reduction in WIDTHS:
        if state.ndim == 1:
            return merged_floats(state.tolist(), increment.tolist())
        return merged(sys.modules[__name__], np.stack([state, increment]))
    if reduction != "sum":
        return (np.maximum if reduction == "max" else np.minimum)(state, increment)
    if not state.ndim:
        return sum_of_numbers(state.item(), increment.item())
    if increment.dtype.kind == "f" or state.dtype.kind == "f":
        return np.add(state, increment)
    return combine("sum", [state, increment], _OF_BATCHES)  # raises an error if int64 would wrap
