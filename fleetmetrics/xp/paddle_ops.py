"""The array namespace on Paddle: dynamic tensors, variables of the legacy graph, values of PIR.

Only public functions that behave alike on 2.6 and 3.x are used. Operands of different dtypes are cast (in 2.6,
``int64 * float64`` is silently int64), Python floats are not combined with float64 (in static programs they would pass
through float32), and variables are combined by functions, not operators (which warn in 2.6).
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any, Callable

import paddle

# isort: off
from paddle import (
    add,
    bitwise_xor,
    cumsum,
    divide,
    exp,
    full_like,
    isfinite,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
)
from paddle import minimum, multiply, ones_like, sinh, square, subtract, where, zeros_like
# isort: on

from fleetmetrics.numbers.moments import WIDTHS, merged
from fleetmetrics.numbers.reductions import Directed, Scattered
from fleetmetrics.support.tensors import is_eager_tensor
from fleetmetrics.xp import numpy_ops
from fleetmetrics.xp.paddle_values import *
from fleetmetrics.xp.score_buckets import lowest_scores

#: Paddle does not warn of an overflow.
quiet = contextlib.nullcontext
#: Static programs fix shapes: samples that do not count are zeroed and left out of sums.
FILTERS = False
#: Done by `fleetmetrics.batch.lanes.Whole`.
moments = None

absolute: Callable[..., Any] = paddle.abs
moveaxis: Callable[..., Any] = paddle.moveaxis
concat: Callable[..., Any] = paddle.concat  # joins tensors along an axis
first_zero: Callable[..., Any] = paddle.argmin  # the position among an int64's zeros and ones; 0 without a zero
take: Callable[..., Any] = paddle.gather  # the entries at these positions of the first axis; valid ones only
all_rows: Callable[..., Any] = functools.partial(paddle.all, axis=1)  # whether all flags of a row of a matrix are true
largest_of_rows: Callable[..., Any] = functools.partial(paddle.max, axis=1)
sum_of_rows: Callable[..., Any] = functools.partial(paddle.sum, axis=1)
sum_of_columns: Callable[..., Any] = functools.partial(paddle.sum, axis=0)


def _by_number(function: Any) -> Any:
    """A function of a tensor and one number of its dtype, which as a Python number would pass through float32."""

    def by_number(tensor: Any, number: float) -> Any:
        return function(tensor, paddle.full([], number, tensor.dtype))

    return by_number


greater: Callable[..., Any] = _by_number(paddle.greater_than)  # flags of the entries above the number
at_least: Callable[..., Any] = _by_number(paddle.maximum)  # ``clip`` on 2.6 also cuts off at the largest float32
bitwise_and: Callable[..., Any] = _by_number(paddle.bitwise_and)  # takes int64
quotient: Callable[..., Any] = _by_number(paddle.floor_divide)  # rounds down; of integers of at least 0, or multiples
remainder: Callable[..., Any] = _by_number(paddle.remainder)  # takes integers of at least 0
power: Callable[..., Any] = _by_number(paddle.pow)  # takes float64
scale: Callable[..., Any] = _by_number(paddle.multiply)  # takes float64


def equal(one: Any, other: Any) -> Any:
    """Flags of the equal entries, of any dtypes; for `paddle.equal`, 1e-9 equals 0."""
    if one.dtype != other.dtype:
        one, other = _common(one, other)
    if kind(one) != "f":
        return paddle.equal(one, other)
    return paddle.logical_and(paddle.greater_equal(one, other), paddle.less_equal(one, other))


def within(tensor: Any, low: float, high: float) -> bool:
    """Whether all entries are known to be in this range: always False, because a check would wait for the device."""
    return False


def known_finite(tensor: Any) -> bool:
    """Whether all entries are known to be finite, without waiting for the device."""
    return kind(tensor) != "f"


def known_zero(tensor: Any) -> bool:
    """Whether a number is known to be 0, without waiting for the device."""
    return False


def known_exact(tensor: Any) -> bool:
    """Whether all float64 entries are known to be below 2**53, without waiting for the device."""
    return is_eager(tensor) and numpy_ops.known_exact(tensor.numpy())


def squares(tensor: Any, weight: Any) -> Any:
    """Squares times weights, if any; NumPy's are never 0 merely because they are too small."""
    squared = paddle.square(tensor)
    return squared if weight is None else paddle.multiply(squared, weight)


def is_probability(tensor: Any) -> Any:
    """Flags of the entries in [0, 1]; false for nan."""
    if kind(tensor) != "f":
        return is_class(tensor, 2)
    # Negative outside, for every bit, with one operation fewer than two comparisons.
    product = paddle.multiply(tensor, 1.0 - tensor)
    return paddle.greater_equal(product, paddle.full([], 0.0, tensor.dtype))


def is_weight(tensor: Any) -> Any:
    """Flags of the finite entries that are at least 0."""
    return paddle.isfinite(paddle.sqrt(cast(tensor, "float64")))


def is_class(tensor: Any, classes: int) -> Any:
    """Flags of the whole numbers from 0 to ``classes - 1``; None if all are, being bools."""
    if kind(tensor) == "b":
        return None
    whole = paddle.floor(tensor) if kind(tensor) == "f" else tensor
    return equal(tensor, paddle.clip(whole, 0, classes - 1))


def zero_unless(flags: Any, tensor: Any) -> Any:
    """The tensor where the flags are true, and 0 (or False) elsewhere."""
    if kind(tensor) == "b":
        return paddle.logical_and(flags, tensor)
    return paddle.where(flags, tensor, paddle.zeros_like(tensor))  # a product would keep nan


def count(tensor: Any) -> Any:
    """The number of entries, an int64; known for a dynamic tensor, where `numel` would copy it to the device."""
    return number(tensor.size) if is_eager_tensor(tensor) else cast(paddle.numel(tensor), "int64")


def sum(tensor: Any) -> Any:
    """The sum: of bools and integers an int64, of floats a float64.

    Norms and dot products need one operation fewer, but on 3.x they add sequentially, and lose digits.
    """
    return paddle.sum(tensor, dtype="float64" if kind(tensor) == "f" else "int64")


def sum_of_logs(tensor: Any) -> Any:
    """The sum of the logarithms of float64 numbers from 2**-52 to 1; NumPy takes the logarithms of their products."""
    return sum(log(tensor))


def or_one(tensor: Any) -> Any:
    """The tensor with 1 for 0, to divide by."""
    return paddle.add(tensor, paddle.cast(paddle.logical_not(paddle.cast(tensor, "bool")), tensor.dtype))


def stack_last(tensors: Any) -> Any:
    """Tensors of equal shape, stacked along a new last axis."""
    return paddle.stack(tensors, axis=-1)


def sigmoid(tensor: Any) -> Any:
    """The logistic function, float64, without overflow."""
    return paddle.nn.functional.sigmoid(cast(tensor, "float64"))


def position(edges: Any, tensor: Any, right: bool = False) -> Any:
    """The number of rising edges below (with ``right``: or equal to) each finite float64 entry: int64."""
    return paddle.searchsorted(edges, tensor, right=right)


def highest_of_rows(tensor: Any) -> Any:
    """The place of the largest entry of each row of a matrix, the first one of equals: int64."""
    return paddle.argmax(cast(tensor, "int64") if kind(tensor) == "b" else tensor, axis=1)


def sum_by(index: Any, amount: Any, size: int) -> Any:
    """``result[k] = sum of amount where index == k``, float64, of length ``size``."""
    return _scatter(paddle.zeros([size], "float64"), Scattered((index,), cast(amount, "float64")))


def counts_of_rows(index: Any, size: int) -> Any:
    """How often each row of an int64 ``[rows, n]`` has each number below ``size``, its largest entry: int64."""
    counts = [sum_of_rows(cast(equal(index, paddle.full_like(index, number)), "int64")) for number in range(size)]
    return paddle.stack(counts, axis=1)


def matvec(matrix: Any, vector: Any) -> Any:
    """``matrix.T @ vector``, float64."""
    return paddle.matmul(vector, matrix)


def extreme(tensor: Any, keep: Any, reduction: str, axis: int | None = None) -> Any:
    """The largest (``"max"``) or smallest of the kept entries (None: all); the reduction's identity without any."""
    if keep is not None:
        nothing = identity([], "float64" if kind(tensor) == "f" else "int64", reduction)
        tensor = paddle.where(keep, tensor, paddle.expand_as(nothing, tensor))
    return (paddle.max if reduction == "max" else paddle.min)(tensor, axis=axis)


def extreme_by_column(tensor: Any, keep: Any, reduction: str) -> Any:
    """The extreme of the ``[n, 1]`` entries that flags ``[n, m]`` keep in each column: ``[m]``."""
    tensor = paddle.add(tensor, paddle.zeros_like(paddle.cast(keep, tensor.dtype)))
    return extreme(tensor, keep, reduction, axis=0)


def extreme_by(index: Any, tensor: Any, keep: Any, size: int, reduction: str) -> Any:
    """The extreme of the kept entries (None: all) where ``index == k``, for each k below ``size``: ``[size]``."""
    members = paddle.equal(paddle.reshape(index, [-1, 1]), arange(size))
    if keep is not None:
        members = paddle.logical_and(members, paddle.reshape(keep, [-1, 1]))
    return extreme_by_column(paddle.reshape(tensor, [-1, 1]), members, reduction)


def dot(one: Any, other: Any) -> Any:
    """The sum of the products of two float64 tensors ``[n]``."""
    return paddle.sum(paddle.multiply(one, other))


def dot_of_columns(weight: Any, tensor: Any) -> Any:
    """The sum over the rows of the product of two float64 matrices, of which either may have one column."""
    return paddle.sum(paddle.multiply(weight, tensor), axis=0)


def replaced(tensor: Any, place: Any, row: Any, wanted: Any) -> Any:
    """The tensor, perhaps changed in place, with a new entry on its first axis, unless ``wanted`` is 0."""
    tensor, row = _common(asarray(tensor, "tensor"), asarray(row, "row"))
    index = paddle.reshape(asarray(place, "place"), [1])
    row = paddle.reshape(row, [1, *tensor.shape[1:]])
    if wanted is not None:
        row = paddle.where(
            paddle.expand_as(paddle.cast(asarray(wanted, "wanted"), "bool"), row), row, paddle.gather(tensor, index)
        )
    return (paddle.scatter_ if is_eager_tensor(tensor) else paddle.scatter)(tensor, index, row)


def repeat(tensor: Any, times: int) -> Any:
    """Each entry, or row of a matrix, repeated ``times`` times."""
    row = list(tensor.shape[1:])
    return paddle.reshape(paddle.tile(paddle.reshape(tensor, [-1, 1, *row]), [1, times, *[1] * len(row)]), [-1, *row])


def bucket(score: Any, top: int) -> Any:
    """``int(score * top)`` in the precision of the score, float32 or float64: Paddle's buckets."""
    score = score if kind(score) == "f" else cast(score, "float64")
    # A Python number passes through float32, which holds whole numbers up to 2**24.
    scaled = score * top if top <= 2**24 else paddle.multiply(score, paddle.full([], top, score.dtype))
    return cast(scaled, "int64")


def log_odds_bucket(score: Any, buckets: int) -> Any:
    """The log-odds bucket of each probability, see `fleetmetrics.xp.score_buckets`; int64."""
    score = paddle.clip(cast(score, "float64"), 0.0, 1.0)  # NumPy does the same if the check is off
    # By comparison: on some processors Paddle's quotient is not correctly rounded, as NumPy's is.
    lowest = _lowest_scores if is_eager_tensor(score) else _lowest_scores.__wrapped__
    return position(lowest(buckets, paddle.get_device()), score, right=True)


@functools.lru_cache(maxsize=64)
def _lowest_scores(buckets: int, device: str) -> Any:
    """The lowest score of each bucket but the first, on the current device: copied there once."""
    values = lowest_scores(buckets, "log_odds")[1:]
    return paddle.to_tensor(values) if paddle.in_dynamic_mode() else constant(values)


def score_of_label(scores: Any, label: Any) -> Any:
    """The score of each label, an int64, in its row; of an invalid label some score.

    ``take_along_axis`` with an invalid class would crash the process on 2.6.
    """
    scores = cast(scores, "int64") if kind(scores) == "b" else scores
    place = paddle.clip(paddle.reshape(label, [-1, 1]), 0, scores.shape[1] - 1)
    return paddle.reshape(paddle.take_along_axis(scores, place, axis=1), [-1])


def log_sum_of_rows(scores: Any) -> Any:
    """The logarithm of the sum of the exponentials of each row of a matrix, float64."""
    scores = cast(scores, "float64")
    top = largest_of_rows(scores)
    return paddle.add(top, paddle.log(sum_of_rows(paddle.exp(paddle.subtract(scores, paddle.unsqueeze(top, 1))))))


def rank_of_label(scores: Any, label: Any) -> Any:
    """The number of classes before the label's: of higher scores, then of equal scores and a lower class."""
    scores = cast(scores, "int64") if kind(scores) == "b" else scores
    label = cast(label, "int64")
    own = paddle.unsqueeze(score_of_label(scores, label), 1)
    label, classes = paddle.unsqueeze(label, 1), paddle.arange(scores.shape[1], dtype="int64")
    tied_before = paddle.logical_and(paddle.greater_equal(scores, own), paddle.less_than(classes, label))
    before = paddle.logical_or(paddle.greater_than(scores, own), tied_before)
    return paddle.sum(paddle.cast(before, "int64"), axis=1)


def state_dtype(increment: Any) -> str:
    """The dtype that a state needs to take an increment."""
    if isinstance(increment, Directed):
        increment = increment.increment
    amount = increment.amount if isinstance(increment, Scattered) else increment
    return "float64" if amount is not None and kind(amount) == "f" else "int64"


def merge(reduction: str, state: Any, increment: Any) -> Any:
    """The state (a NumPy array moves to the current device) with an increment (a tensor or `Scattered`) merged."""
    state = asarray(state, "state")
    if isinstance(increment, Scattered):
        return _scatter(state, increment)
    increment = asarray(increment, "increment")
    state, increment = _common(state, increment)
    increment = reshape(increment, list(state.shape))
    if reduction in WIDTHS:
        return merged(sys.modules[__name__], paddle.stack([state, increment]))
    return {"sum": paddle.add, "max": paddle.maximum, "min": paddle.minimum}[reduction](state, increment)


def _scatter(state: Any, increment: Scattered) -> Any:
    indices = [asarray(index, "index") for index in increment.indices]
    if increment.amount is None:
        amount = paddle.ones_like(indices[0], state.dtype)
    else:
        state, amount = _common(state, asarray(increment.amount, "amount"))
    return paddle.scatter_nd_add(state, paddle.stack(indices, axis=1), amount)


def _common(state: Any, amount: Any) -> tuple[Any, Any]:
    dtype = "float64" if "f" in kind(state) + kind(amount) else "int64"
    return cast(state, dtype), cast(amount, dtype)
