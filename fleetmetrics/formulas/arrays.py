"""Kinds of arrays that formulas take, for `fleetmetrics.support.checks.checked`.

>>> from fleetmetrics.support.checks import amount, checked
>>> @checked(number=amount, shares=weights("n"))
... def scaled(number, shares):
...     return (number * shares).tolist()
>>> scaled(2, [0.25, 0.5])
[0.5, 1.0]
"""

from __future__ import annotations

import math
import sys
from typing import Any, Sequence, Union

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.checks import Kind, Sizes, array_of
from fleetmetrics.support.tensors import as_array
from fleetmetrics.support.vocabulary import counted

__all__ = ["flags", "keys", "matrix", "moments", "numbers", "weights"]

#: Sizes of an array: a number, a name that several arguments share, as in ``"bins"`` and ``"bins+1"``; None: any.
Shape = Sequence[Union[int, str, None]]


def numbers(
    *shape: int | str | None,
    flat: bool = False,
    rising: bool = False,
    infinite: bool = False,
    most: float = math.inf,
) -> Kind:
    """An array of finite numbers; no shape: any.

    Args:
        *shape: the sizes of its axes.
        flat: flattens an array of any shape with that number of entries.
        rising: no entry may be below the one before it.
        infinite: infinity is allowed.
        most: the largest number allowed.
    """

    def kind(argument: str, value: Any, sizes: Sizes) -> np.ndarray:
        array = _shaped(argument, value, shape, flat, sizes)
        low, high = _extremes(array)
        finite = low >= -sys.float_info.max and high <= sys.float_info.max
        if not finite and not (infinite and array.dtype.kind == "f" and low == low):
            some = "infinite" if low == low else "nan"
            raise InvalidInputError(f"{argument} must hold {'' if infinite else 'finite '}numbers, but some are {some}")
        if high > most:
            raise InvalidInputError(f"{argument} must hold numbers of at most {most:g}, not {high!r:.60}")
        if rising:
            _raise_unless_rising(argument, array, "not decrease")
        return array

    return kind


def weights(*shape: int | str | None, flat: bool = False, most: float = sys.float_info.max) -> Kind:
    """An array of counts or weights: finite numbers of at least 0, and at most ``most``; for the rest see `numbers`."""

    def kind(argument: str, value: Any, sizes: Sizes) -> np.ndarray:
        array = _shaped(argument, value, shape, flat, sizes)
        low, high = _extremes(array)
        if not (low >= 0 and high <= most):
            wrong = high if low >= 0 else low
            allowed = "hold counts or weights, finite and at least 0" if most > 1 else "be shares, in [0, 1]"
            raise InvalidInputError(f"{argument} must {allowed}, not {wrong!r:.60}")
        return array

    return kind


def flags(*shape: int | str | None, flat: bool = False) -> Kind:
    """An array of bools, or of 0 and 1, as bools."""

    def kind(argument: str, value: Any, sizes: Sizes) -> np.ndarray:
        array = _shaped(argument, value, shape, flat, sizes)
        low, high = _extremes(array)
        wrong = [end for end, allowed in ((low, low >= 0), (high, high <= 1)) if not allowed]
        if array.dtype.kind == "f":
            wrong += array[array != np.floor(array)][:1].tolist()
        if wrong:
            raise InvalidInputError(f"{argument} must hold 0 and 1, or False and True, not {wrong[0]!r:.60}")
        return array.astype(np.bool_, copy=False)

    return kind


def keys(size: str) -> Kind:
    """Which group each sample is in: integers or strings ``[n]``, sorted."""

    def kind(argument: str, value: Any, sizes: Sizes) -> np.ndarray:
        try:
            array = as_array(value, argument)
        except InvalidInputError:
            raise
        except Exception:  # ragged lists, and whatever an object's __array__ raises
            array = np.empty(0, object)
        known = array.dtype.kind in "biufSU" and not (array.dtype.kind == "f" and np.isnan(array).any())
        if array.ndim != 1 or not (known or not array.size) or np.ma.is_masked(value):
            raise InvalidInputError(f"{argument} must be integers or strings [n], sorted, not {_shown(array, value)}")
        sizes[size] = len(array), argument
        _raise_unless_rising(argument, array, "be sorted")
        return array

    return kind


def _raise_unless_rising(argument: str, array: np.ndarray, must: str) -> None:
    """Raise `InvalidInputError` for the first entry that is below the one before it."""
    below = array[1:] < array[:-1]
    if below.any():
        place = int(np.argmax(below))
        raise InvalidInputError(
            f"{argument} must {must}: entry {place + 1} ({array[place + 1]}) is below entry {place} ({array[place]})"
        )


def _extremes(array: np.ndarray) -> tuple[Any, Any]:
    """The smallest and the largest number, or nan twice; 0 without any."""
    if not array.size:
        return 0, 0
    low, high = array.min(), array.max()
    return (low, high) if array.dtype == object else (low.item(), high.item())


def matrix(labels: bool) -> Kind:
    """A confusion matrix ``[classes, classes]``, or where ``labels`` allows it one per label, ``[labels, 2, 2]``."""

    def kind(argument: str, value: Any, sizes: Sizes) -> np.ndarray:
        array = weights()(argument, value, sizes)
        array = array.astype(np.int64) if array.dtype == np.bool_ else array
        square = array.ndim == 2 and array.shape[0] == array.shape[1] > 0
        if not square and not (labels and array.ndim == 3 and array.shape[1:] == (2, 2)):
            allowed = "[classes, classes]" + (" or [labels, 2, 2]" if labels else "")
            raise InvalidInputError(f"{argument} must have the shape {allowed}, not {list(array.shape)}")
        return array

    return kind


def moments(*sizes: int) -> Kind:
    """Weight, means and sums of products in an array of one of the ``sizes``; weight and squares are at least 0."""

    def kind(argument: str, value: Any, _: Any = None) -> np.ndarray:
        array = numbers()(argument, value, {})
        if array.shape not in [(size,) for size in sizes]:
            raise InvalidInputError(f"{argument} must have the shape [{sizes[0]}], not {list(array.shape)}")
        least = array[[0, 2] if sizes[0] == 3 else [0, 3, 5]].min()
        if least < 0:
            raise InvalidInputError(f"{argument} must hold a weight and sums of squares, at least 0, not {least}")
        return array

    return kind


def _shown(array: np.ndarray, value: Any) -> str:
    return f"{array.dtype} {list(array.shape)}" if array.size else f"{value!r:.60}"


def _shaped(argument: str, value: Any, shape: Shape, flat: bool, sizes: Sizes) -> np.ndarray:
    array = array_of(argument, value)
    array = array.reshape(-1) if flat else array
    if not shape:
        return array
    wanted: list[int | str | None] = list(shape)
    fits = array.ndim == len(shape)
    for axis, (size, there) in enumerate(zip(shape, array.shape)):
        if isinstance(size, str):
            name, _, more = size.partition("+")
            known, by = sizes.setdefault(name, (there - int(more or 0), argument))
            size = known + int(more or 0)
            wanted[axis] = wanted[axis] if by == argument else size
            fits = fits and known >= 0
        fits = fits and size in (None, there)
    if fits:
        return array
    name, _, more = str(shape[0]).partition("+")
    if flat and name in sizes:
        rest = f"it must have {more} more" if more else "give the same number of both"
        known, by = sizes[name]
        raise InvalidInputError(f"{argument} has {counted(array.size, 'entries')} and {by} {known:,}; {rest}")
    written = ", ".join("n" if size is None else str(size) for size in wanted)
    raise InvalidInputError(f"{argument} must be an array of numbers of shape [{written}], not {_shown(array, value)}")
