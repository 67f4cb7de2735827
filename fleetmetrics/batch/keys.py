"""Keys of samples: users, queries, slices and ids."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.xp import is_paddle, to_host
from fleetmetrics.xp.kinds import of_torch

__all__ = ["joined_arrays", "keys_of"]

_HOW = {
    "S": "; decode it: numpy.char.decode({0}, 'utf-8')",
    "b": "; make integers of it: numpy.asarray({0}, int)",
    "f": "; fill in what is missing, and make integers of it: numpy.asarray({0}, int)",
}


def keys_of(values: Any, argument: str) -> np.ndarray:
    r"""Keys, in any form, as int64 (uint64 if necessary) or as texts; an error for anything else, or for both.

    Different keys stay different. NumPy unifies ``True`` and ``1``, ``"a"`` and ``b"a"``, ``"1"`` and ``1``, ``"a"``
    and ``"a\0"``.
    """
    torch = hasattr(values, "detach") and hasattr(values, "cpu") and not is_paddle(values)
    array = of_torch(values, argument) if torch else to_host(values)
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise InvalidInputError(f"{argument} is a masked array; give its data, and mask=~array.mask, to add")
    if not isinstance(array, np.ndarray) or array.dtype == object:
        array = _of_objects(array, argument)
    if array.dtype.kind in "iu":
        unsigned = array.dtype == np.uint64 and array.size and array.max() >= 2**63
        return array if unsigned else array.astype(np.int64, copy=False)
    if array.dtype.kind == "U":
        return array
    if not array.size:
        return array.astype(np.int64)
    raise InvalidInputError(
        f"{argument} must hold integers or texts, one per sample, not {array.dtype} (given a {type(values).__name__})"
        + _HOW.get(array.dtype.kind, "").format(argument)
    )


def _of_objects(values: Any, argument: str) -> np.ndarray:
    """A sequence or an array of objects as an array of one kind."""
    try:
        objects = np.asarray(values, object)
    except ValueError as error:  # arrays of different shapes
        raise InvalidInputError(f"{argument} has no rectangular array form: {error}") from None
    flat = objects.ravel().tolist()
    types = set(map(type, flat))
    texts = {each for each in types if issubclass(each, str)}
    integers = {each for each in types if issubclass(each, (int, np.integer)) and each is not bool}
    for kind, what in (
        (texts, "integers or texts, not both; among texts"),
        (integers, "integers or texts; among integers"),
    ):
        if kind and kind != types:
            other = next(each for each in flat if type(each) not in kind)
            raise InvalidInputError(f"{argument} must hold {what} it holds {other!r} of type {type(other).__name__}")
    if texts:
        flat = flat if texts == {str} else list(map(str.__str__, flat))  # an enum's own text is its name
        lost = next((each for each in flat if each.endswith("\0")), None) if "\0" in "".join(flat) else None
        if lost is not None:
            raise InvalidInputError(
                f"{argument} holds {lost!r}; arrays of texts lose NULs at the end: strip them, text.rstrip('\\0')"
            )
        return np.array(flat).reshape(objects.shape)
    if integers:
        return np.array(flat, _common(min(flat), max(flat), argument)).reshape(objects.shape)
    if types & {list, tuple, np.ndarray}:
        raise InvalidInputError(f"{argument} has no rectangular array form; give one entry per sample")
    return np.array(flat).reshape(objects.shape)


def joined_arrays(arrays: Sequence[np.ndarray], argument: str) -> np.ndarray:
    """Concatenate arrays of one axis, all of texts or all of numbers; NumPy joins int64 and uint64 to floats."""
    if np.result_type(*arrays).kind == "f" and all(array.dtype.kind in "iu" for array in arrays):
        filled = [array for array in arrays if array.size] or arrays[:1]
        low, high = min(int(array.min()) for array in filled), max(int(array.max()) for array in filled)
        arrays = [array.astype(_common(low, high, argument)) for array in filled]
    return np.concatenate(arrays)


def _common(low: int, high: int, argument: str) -> Any:
    """The dtype for integers in this range."""
    if low < -(2**63) or high >= (2**64 if low >= 0 else 2**63):
        raise InvalidInputError(
            f"{argument} must hold integers below 2**63 (below 2**64 if none is negative), not {low} and {high}"
        )
    return np.int64 if high < 2**63 else np.uint64
