"""Tensors of Paddle and torch, alone and in containers, and NumPy's newer dtypes, as plain arrays of the same values.

By itself, NumPy truncates a list of Paddle's bfloat16 tensors to integers, or reads their bits; it cannot read those of
torch, and a sparse tensor of Paddle ends the process.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import chain
from typing import Any, Callable, Iterator

import numpy as np

from fleetmetrics.errors import InvalidInputError

__all__ = [
    "as_array",
    "check_dense",
    "is_eager_tensor",
    "is_paddle",
    "is_static",
    "is_torch",
    "native",
    "of_paddle",
    "of_torch",
    "refuse_masked",
    "without_tensors",
]

#: Scalars and plain arrays hold no tensors; a lookup is faster than asking what a class is.
_PLAIN = frozenset(
    [bool, int, float, complex, str, bytes, type(None), np.ndarray]
    + [np.dtype(char).type for char in "?bhilqBHILQefdgFDGSUmM"]
)
#: These have a length and entries, but NumPy reads them as they are.
_NO_LISTS = (str, bytes, bytearray, memoryview, range, Mapping)
#: NumPy's arrays have at most this number of axes.
_MOST_AXES = 64


def is_eager_tensor(value: Any) -> bool:
    """Whether a value is a tensor of Paddle's dynamic mode."""
    return _is_eager(type(value))


def _is_eager(kind: type) -> bool:
    paddle = sys.modules.get("paddle")
    # Check the class: isinstance(tensor, paddle.static.Variable) is true for eager tensors as well.
    return hasattr(paddle, "Tensor") and issubclass(kind, paddle.Tensor)  # type: ignore[union-attr]


def is_static(value: Any) -> bool:
    """Whether a value is a variable of a legacy static program or a value of a PIR program."""
    paddle = sys.modules.get("paddle")
    if not hasattr(paddle, "static") or is_eager_tensor(value):
        return False
    kinds = (paddle.static.Variable, getattr(getattr(paddle, "pir", None), "Value", ()))  # type: ignore[union-attr]
    return isinstance(value, kinds)


def is_paddle(value: Any) -> bool:
    """Whether a value is Paddle's; False where Paddle was never imported."""
    return type(value) not in _PLAIN and (is_eager_tensor(value) or is_static(value))


def is_torch(kind: type) -> bool:
    """Whether a class is of torch's tensors."""
    return hasattr(kind, "detach") and hasattr(kind, "cpu") and not _is_eager(kind)


def of_torch(tensor: Any, argument: str) -> np.ndarray:
    """A torch tensor on the CPU, even with a gradient; bfloat16 and float8 as float32.

    Raises:
        InvalidInputError: it is on another device, or has no array form.
    """
    if str(getattr(tensor, "device", "cpu")) != "cpu":
        raise InvalidInputError(
            f"{argument} is a torch tensor on device {str(tensor.device)!r}; give {argument}.cpu() to add"
        )
    tensor = tensor.detach()
    try:
        short = any(name in str(tensor.dtype) for name in ("bfloat16", "float8", "float4"))
        array: np.ndarray = (tensor.float() if short else tensor).numpy()
    except Exception as error:  # sparse, quantized and nested ones
        text = str(error).partition("\n")[0]
        raise InvalidInputError(f"{argument} is a torch tensor without an array form: {text}") from None
    return array


def of_paddle(tensor: Any, argument: str) -> np.ndarray:
    """A tensor of Paddle's dynamic mode on the host; bfloat16 and float8 as float32.

    Raises:
        InvalidInputError: it is sparse or distributed.
    """
    check_dense(tensor, argument)
    import paddle

    # NumPy lacks these dtypes: Paddle would return their bits.
    short = any(name in str(tensor.dtype) for name in ("bfloat16", "float8"))
    array: np.ndarray = (paddle.cast(tensor, "float32") if short else tensor).numpy()
    return array


def check_dense(tensor: Any, argument: str) -> None:
    """Raise unless a tensor of Paddle is dense, and all of it is on this worker."""
    if not tensor.is_dense():
        raise InvalidInputError(
            f"{argument} is a sparse or distributed tensor of Paddle; give a dense one of this worker's values, such "
            f"as {argument}.to_dense()"
        )


def _of_static(variable: Any, argument: str) -> np.ndarray:
    raise InvalidInputError(
        f"{argument} is a list with a variable of a static program; join them to one, as paddle.concat({argument}) does"
    )


def _reader_of(value: Any) -> Callable[[Any, str], np.ndarray] | None:
    """What reads a tensor; None for other values."""
    if is_eager_tensor(value):
        return of_paddle
    if is_static(value):
        return _of_static
    return of_torch if is_torch(type(value)) else None


def without_tensors(value: Any, argument: str) -> Any:
    """A value that NumPy can read: tensors, alone or in lists and tuples, as arrays; others as they are.

    Raises:
        InvalidInputError: a tensor has no array form, or is on a device that is not the CPU and not Paddle's.
    """
    if type(value) in _PLAIN:
        return value
    read = None if is_static(value) else _reader_of(value)
    if read is not None:
        return read(value, argument)
    if not _is_list(value) or not _holds_tensors(value, argument):
        return value
    return _with_arrays(value, _arrays_of(list(_tensors_in(value, argument, frozenset([id(value)]))), argument))


def as_array(value: Any, argument: str) -> np.ndarray:
    """As ``numpy.asarray``, whose errors it raises, but by value: see the module."""
    array = np.asarray(without_tensors(value, argument))
    if array.dtype.kind == "O":
        entries = array.tolist()
        plain = without_tensors(entries, argument)
        array = array if plain is entries else np.asarray(plain)
    return native(array)


def refuse_masked(argument: str, value: Any) -> None:
    """Raise `InvalidInputError` for an array with masked entries, whose values NumPy would take for numbers."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InvalidInputError(f"{argument} is a masked array; remove its masked entries, as array.compressed() does")


def native(array: np.ndarray) -> np.ndarray:
    """An array of one of NumPy's own dtypes: bfloat16 and float8 of ml_dtypes as float32, its int4 as int64."""
    if array.dtype.kind != "V" or array.dtype.type is np.void:
        return array
    wide = next((wide for wide in (np.int64, np.float32, np.float64) if np.can_cast(array.dtype, wide)), None)
    return array if wide is None else array.astype(wide)


def _is_list(value: Any) -> bool:
    kind = type(value)
    if kind is list or kind is tuple:
        return True
    listed = hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and hasattr(kind, "__iter__")
    return listed and not hasattr(kind, "__array__") and not issubclass(kind, _NO_LISTS)


def _holds_tensors(values: Any, argument: str) -> bool:
    """Whether a list holds a tensor, or lists that do; level by level, as most lists are long, and of few classes."""
    for _ in range(_MOST_AXES):
        odd = set(map(type, values)) - _PLAIN
        if not odd:
            return False
        examples = [next(value for value in values if type(value) is kind) for kind in odd]
        if any(map(_reader_of, examples)):
            return True
        nested = {type(example) for example in examples if _is_list(example)}
        lists = {id(value): value for value in values if type(value) in nested}  # each once: some lists hold themselves
        values = list(chain.from_iterable(lists.values()))
    raise InvalidInputError(f"{argument} is a list that holds itself, or of more than {_MOST_AXES} levels")


def _tensors_in(values: Any, argument: str, around: frozenset[int] = frozenset()) -> Iterator[Any]:
    for value in values:
        if type(value) not in _PLAIN:
            if _reader_of(value):
                yield value
            elif id(value) in around:
                raise InvalidInputError(f"{argument} is a list that holds itself")
            elif _is_list(value):
                yield from _tensors_in(value, argument, around | {id(value)})


def _with_arrays(values: Any, arrays: Iterator[np.ndarray]) -> list[Any]:
    """A list with the next of these arrays in place of each tensor."""
    return [value if type(value) in _PLAIN else _with_array(value, arrays) for value in values]


def _with_array(value: Any, arrays: Iterator[np.ndarray]) -> Any:
    """A tensor's array, the next one; of a list, one with arrays."""
    if _reader_of(value):
        return next(arrays)
    return _with_arrays(value, arrays) if _is_list(value) else value


def _arrays_of(tensors: list[Any], argument: str) -> Iterator[np.ndarray]:
    """The arrays of tensors; those of Paddle cross from their device in one copy if they are alike."""
    together = _together(tensors, argument) if all(map(is_eager_tensor, tensors)) else None
    return iter(
        [(_reader_of(tensor) or of_torch)(tensor, argument) for tensor in tensors] if together is None else together
    )


def _together(tensors: list[Any], argument: str) -> np.ndarray | None:
    """The arrays of Paddle's tensors, stacked; None if they cannot be."""
    for one in tensors:
        check_dense(one, argument)
    if len(tensors) == 1 or len({(tensor.dtype, *tensor.shape) for tensor in tensors}) > 1 or 0 in tensors[0].shape:
        return None
    import paddle

    try:
        # Static mode cannot stack tensors, and automatic mixed precision could cast them.
        with paddle.base.dygraph.guard(), paddle.no_grad():
            return of_paddle(paddle.stack(tensors), argument)
    except Exception:  # not every dtype can be stacked, and they may be on several devices
        return None
