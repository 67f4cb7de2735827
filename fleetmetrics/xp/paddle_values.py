"""Paddle's values for the array namespace: conversion, dtypes, shapes, and constants."""

from __future__ import annotations

import functools
from typing import Any, Sequence

import numpy as np
import paddle

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers import reductions
from fleetmetrics.support.tensors import check_dense, is_eager_tensor, is_static
from fleetmetrics.xp import numpy_ops

_KINDS = {
    paddle.bool: "b",
    **{getattr(paddle, name): "i" for name in ("uint8", "int8", "int16", "int32", "int64")},
    **{getattr(paddle, name): "f" for name in ("float16", "bfloat16", "float32", "float64")},
}
#: The dtypes that NumPy lacks; 2.6 has only the first.
_FOREIGN = {getattr(paddle, name) for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2") if hasattr(paddle, name)}
_KINDS.update(dict.fromkeys(_FOREIGN, "f"))


def asarray(value: Any, argument: str) -> Any:
    """A tensor, variable or value: bool, int64, float32 or float64; an error, naming the argument, for anything else.

    Other dtypes are widened to these without loss: few of Paddle's functions take them all.
    """
    return widened(unwidened(value, argument), argument)


def unwidened(value: Any, argument: str) -> Any:
    """A tensor, variable or value of any dtype that can be widened."""
    if is_eager_tensor(value):
        check_dense(value, argument)
        value = value.detach()
    elif not is_static(value):
        array = numpy_ops.asarray(value, argument)
        if array.ndim == 0:
            value = filled([], array[()])
        elif paddle.in_dynamic_mode():
            value = paddle.to_tensor(array)
        else:
            raise InvalidInputError(
                f"{argument} must be a variable of the static program or one number, not an array of shape "
                f"{list(array.shape)}"
            )
    if value.dtype not in _KINDS:
        raise InvalidInputError(f"{argument} must hold numbers or bools, not {value.dtype}")
    return value


def widened(value: Any, argument: str) -> Any:
    """Widen a value to bool, int64, float32 or float64."""
    if kind(value) == "i":
        if value.dtype == paddle.int8 and is_static(value) and isinstance(value, paddle.static.Variable):
            raise InvalidInputError(
                f"{argument} is int8, which no static program of Paddle 2.6 can cast; feed it as int32"
            )
        return cast(value, "int64")
    return cast(value, "float32") if value.dtype == paddle.float16 or value.dtype in _FOREIGN else value


def host(tensor: Any) -> np.ndarray:
    """A tensor as a NumPy array; NumPy lacks bfloat16 and float8, whose bits Paddle would return as integers."""
    return cast(tensor, "float32").numpy() if tensor.dtype in _FOREIGN else tensor.numpy()


def hosts(tensors: Sequence[Any], at_once: int = 2**28) -> list[np.ndarray]:
    """Tensors of one device as NumPy arrays, with one copy for each 256 MiB; these need twice the memory meanwhile."""
    tensors = [cast(tensor, "float32") if tensor.dtype in _FOREIGN else tensor for tensor in tensors]
    parts = [paddle.view(paddle.reshape(tensor, [-1]), "uint8") for tensor in tensors]
    ends = np.cumsum([part.shape[0] for part in parts])
    half = len(parts) // 2
    if half and ends[-1] > at_once:
        return hosts(tensors[:half], at_once) + hosts(tensors[half:], at_once)
    arrays = np.split(paddle.concat(parts).numpy(), ends[:-1])
    return [array.view(str(tensor.dtype)[7:]).reshape(tensor.shape) for array, tensor in zip(arrays, tensors)]


def is_eager(tensor: Any) -> bool:
    """Whether its values can be read now, without waiting for a device."""
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
    """The tensor in another shape, where one size may be -1; no operation if nothing would change."""
    if len(shape) == len(tensor.shape) == 1 and shape[0] in (-1, tensor.shape[0]):
        return tensor
    return tensor if list(tensor.shape) == shape == [] else paddle.reshape(tensor, shape)


def identity(shape: Any, dtype: str, reduction: str) -> Any:
    """A tensor of the reduction's identity."""
    return filled(shape, reductions.identity(reduction, dtype))


def filled(shape: Any, value: Any) -> Any:
    """A tensor of one NumPy scalar, made on its device: a copy to it would wait for the device."""
    dtype, number = str(value.dtype), value.item()
    if dtype != "int64" or abs(number) < 2**53:
        return paddle.full(shape, number, dtype)
    # Paddle makes int64 constants from doubles: split the number, so that both parts are exact.
    high = (number >> 11) << 11
    return paddle.add(paddle.full(shape, high, dtype), paddle.full(shape, number - high, dtype))


def arange(size: int) -> Any:
    """The numbers from 0 to ``size - 1``, int64."""
    return paddle.arange(size, dtype="int64")


#: The most numbers in the legacy graph's operation for a constant array: 1 MiB of 8 bytes each.
_ASSIGNED = 2**17


def constant(values: np.ndarray) -> Any:
    """A float64 constant of the program, to the last bit.

    The legacy graph stores float64 arrays as float32: there it is made from integers and powers of two.
    """
    if paddle.in_dynamic_mode():
        return _on_device(values.tobytes(), values.dtype.str, paddle.get_device())
    if getattr(paddle.framework, "in_pir_mode", bool)():
        return paddle.assign(values)
    if values.size > _ASSIGNED:
        return paddle.concat([constant(values[i : i + _ASSIGNED]) for i in range(0, values.size, _ASSIGNED)])
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    if (short == values).all():
        return paddle.cast(paddle.assign(short), "float64")
    fraction, exponent = np.frexp(values)
    tensor = paddle.cast(paddle.assign((fraction * 2.0**53).astype(np.int64)), "float64")
    exponent = exponent - 53
    while exponent.any():
        step = np.clip(exponent, -100, 100)
        tensor = paddle.multiply(tensor, paddle.cast(paddle.assign(np.ldexp(1.0, step).astype(np.float32)), "float64"))
        exponent = exponent - step
    return tensor


def number(value: int) -> Any:
    """An int64 constant of the program, of less than 53 bits."""
    return paddle.full([], value, "int64")


def integers(values: np.ndarray) -> Any:
    """An int64 constant of the program, to the last bit: made from two, since PIR makes each from doubles."""
    if paddle.in_dynamic_mode():
        return _on_device(values.tobytes(), values.dtype.str, paddle.get_device())
    high = values >> 32
    low = paddle.assign(values - (high << 32))
    return paddle.add(paddle.multiply(paddle.assign(high), paddle.full([], 2**32, "int64")), low)


@functools.lru_cache(maxsize=64)
def _on_device(values: bytes, dtype: str, device: str) -> Any:
    """A constant on the current device: copied there once, since each copy waits for the device."""
    return paddle.to_tensor(np.frombuffer(values, dtype).copy())
