"""The array namespace on Paddle: dynamic tensors, variables of the legacy graph, values of PIR.

Only public functions that behave alike on 2.6 and 3.x are used. What Paddle does not do is done here once:
operands of different dtypes are cast (2.6 gives ``int64 * float64`` the dtype int64, silently), and no Python
float meets a float64 (in static programs it would pass through float32).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.xp import Scattered, is_eager_tensor, is_static, numpy_ops

#: Shapes may be fixed by a static program: samples that do not count are zeroed and left out of sums.
FILTERS = False

absolute = paddle.abs
any_true = paddle.any
log = paddle.log
maximum = paddle.maximum
minimum = paddle.minimum
square = paddle.square
where = paddle.where
zeros_like = paddle.zeros_like

_KINDS = {
    paddle.bool: "b",
    **{getattr(paddle, name): "i" for name in ("uint8", "int8", "int16", "int32", "int64")},
    **{getattr(paddle, name): "f" for name in ("float16", "bfloat16", "float32", "float64")},
}
_FLOAT32_OR_LESS = (paddle.float16, paddle.bfloat16, paddle.float32)


def asarray(value: Any, argument: str) -> Any:
    """A tensor, variable or value of numbers or bools; anything else is an error that names the argument."""
    if is_eager_tensor(value):
        value = value.detach()
    elif not is_static(value):
        array = numpy_ops.asarray(value, argument)
        if paddle.in_dynamic_mode():
            value = paddle.to_tensor(array)
        elif array.ndim == 0:
            value = paddle.full([], array.item(), str(array.dtype))
        else:
            raise InvalidInputError(
                f"{argument} must be a variable of the static program or one number, not an array of shape "
                f"{list(array.shape)}"
            )
    if value.dtype not in _KINDS:
        raise InvalidInputError(f"{argument} must hold numbers or bools, not {value.dtype}")
    return value


def host(tensor: Any) -> np.ndarray:
    """A tensor as a NumPy array; NumPy has no bfloat16, and Paddle would hand out its bits as uint16."""
    return (tensor.astype("float32") if tensor.dtype == paddle.bfloat16 else tensor).numpy()


def is_eager(tensor: Any) -> bool:
    """Whether its values can be looked at now without waiting for a device."""
    return is_eager_tensor(tensor) and bool(tensor.place.is_cpu_place())


def all_true(flags: Any) -> bool:
    """Whether all flags of an eager tensor on the CPU are true."""
    return bool(flags.numpy().all())


def kind(tensor: Any) -> str:
    """``"b"``, ``"i"`` or ``"f"``: bool, integer, floating."""
    return _KINDS[tensor.dtype]


def shape(tensor: Any) -> tuple[int, ...]:
    """The shape; -1 where a static program leaves a size open."""
    return tuple(tensor.shape)


def cast(tensor: Any, dtype: str) -> Any:
    """The tensor as another dtype, by its NumPy name."""
    return tensor if tensor.dtype == getattr(paddle, dtype) else paddle.cast(tensor, dtype)


def reshape(tensor: Any, shape: list[int]) -> Any:
    """The tensor in another shape; one size may be -1. No operation where nothing would change."""
    if len(shape) == len(tensor.shape) == 1 and shape[0] in (-1, tensor.shape[0]):
        return tensor
    return tensor if list(tensor.shape) == shape == [] else paddle.reshape(tensor, shape)


def isfinite(tensor: Any) -> Any:
    """Flags of the finite entries; bools and integers are finite."""
    return paddle.isfinite(tensor if kind(tensor) == "f" else cast(tensor, "float64"))


def constant(value: float) -> Any:
    """A float64 that meets float64 tensors without loss: a Python float would pass through float32."""
    return paddle.full([], value, "float64")


def count(tensor: Any) -> Any:
    """The number of entries, an int64."""
    return paddle.cast(paddle.numel(tensor), "int64")


def sum(tensor: Any) -> Any:
    """The sum: of bools and integers an int64, of floats a float64."""
    return paddle.sum(cast(tensor, "float64" if kind(tensor) == "f" else "int64"))


def extreme(tensor: Any, keep: Any, reduction: str) -> Any:
    """The largest (``"max"``) or smallest entry of those kept; a lowest or highest number if there is none."""
    if keep is not None:
        # For int64 half the range: 2**62 passes exactly through the double that a constant is made from.
        limit = float("inf") if kind(tensor) == "f" else 2**62
        none = paddle.full([], -limit if reduction == "max" else limit, tensor.dtype)
        tensor = paddle.where(keep, tensor, paddle.expand_as(none, tensor))
    return paddle.max(tensor) if reduction == "max" else paddle.min(tensor)


def all_rows(flags: Any) -> Any:
    """Whether all flags of a row of a matrix are true."""
    return paddle.all(flags, axis=1)


def first_true(flags: Any) -> Any:
    """The position of the first true flag; 0 if there is none."""
    return paddle.argmax(paddle.cast(flags, "int32"))


def bucket(score: Any, top: int) -> Any:
    """``int(score * top)`` in the precision of the score, but at least float32: Paddle's buckets."""
    score = cast(score, "float32" if score.dtype in _FLOAT32_OR_LESS else "float64")
    scaled = score * paddle.full([], top, score.dtype)
    return paddle.cast(scaled, "int64")


def rank_of_label(scores: Any, label: Any) -> Any:
    """How many classes come before the label's: higher scores, then equal ones of a lower class.

    The label's score is picked by comparison: ``take_along_axis`` with a class that does not exist ends the
    process on 2.6.
    """
    label = paddle.reshape(cast(label, "int64"), [-1, 1])
    classes = paddle.arange(scores.shape[1], dtype="int64")
    scores = cast(scores, "float32" if scores.dtype in _FLOAT32_OR_LESS else "float64")
    own = paddle.sum(paddle.where(classes == label, scores, paddle.zeros_like(scores)), axis=1, keepdim=True)
    before = paddle.logical_or(scores > own, paddle.logical_and(scores == own, classes < label))
    return paddle.sum(paddle.cast(before, "int64"), axis=1)


def state_dtype(increment: Any) -> str:
    """The dtype that a state needs to take an increment."""
    amount = increment.amount if isinstance(increment, Scattered) else increment
    return "float64" if amount is not None and kind(amount) == "f" else "int64"


def merge(reduction: str, state: Any, increment: Any) -> Any:
    """The state with an increment (a tensor or `Scattered`) merged into it.

    Args:
        reduction: ``"sum"``, ``"max"`` or ``"min"``.
        state: a tensor or static variable; or a NumPy array, which moves to the current device.
        increment: a tensor of the state's shape; it is cast to float64 if the state is, and the other way.
    """
    if isinstance(state, np.ndarray):
        state = paddle.to_tensor(state)
    scattered = isinstance(increment, Scattered)
    amount = increment.amount if scattered else increment
    if amount is not None and not isinstance(amount, np.ndarray) and kind(amount) == "f":
        state = cast(state, "float64")
    dtype = "float64" if state.dtype == paddle.float64 else "int64"
    if scattered:
        return _scatter(state, increment.index, amount, dtype)
    increment = paddle.reshape(cast(asarray(increment, "increment"), dtype), list(state.shape))
    return {"sum": paddle.add, "max": paddle.maximum, "min": paddle.minimum}[reduction](state, increment)


def _scatter(state: Any, index: Any, amount: Any, dtype: str) -> Any:
    amount = paddle.ones_like(index, dtype) if amount is None else cast(amount, dtype)
    flat = paddle.reshape(state, [-1]) if len(state.shape) != 1 else state
    return paddle.reshape(paddle.scatter_nd_add(flat, paddle.unsqueeze(index, 1), amount), list(state.shape))
