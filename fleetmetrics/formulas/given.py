"""The arguments of formulas, each kind read and checked in one place."""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.arguments import array_of
from fleetmetrics.errors import InvalidInputError


def number_given(argument: str, value: Any) -> Any:
    """One number, as a Python one; or an array or list that holds one."""
    if isinstance(value, (int, float, np.integer, np.floating)):
        return value.item() if isinstance(value, np.generic) else value
    array = array_given(argument, value)
    if array.size != 1:
        raise InvalidInputError(f"{argument} must be one number, not an array of shape {list(array.shape)}")
    return array.item()


def array_given(argument: str, value: Any, shape: Sequence[int | None] | None = None) -> np.ndarray:
    """An array of numbers, of the given shape if there is one, where None is any size; else `InvalidInputError`."""
    array = value if isinstance(value, np.ndarray) else array_of(value)
    numbers = array.dtype.kind in "biuf" or (array.dtype == object and all(type(each) is int for each in array.flat))
    fits = shape is None or (
        array.ndim == len(shape) and all(size in (None, given) for size, given in zip(shape, array.shape))
    )
    ragged = array.shape == (0,) and hasattr(value, "__len__") and len(value)
    if not numbers or not fits or ragged:
        wanted = (
            "" if shape is None else f" of shape [{', '.join('n' if size is None else str(size) for size in shape)}]"
        )
        given = f"{array.dtype} {list(array.shape)}" if array.size else f"{value!r:.60}"
        raise InvalidInputError(f"{argument} must be an array of numbers{wanted}, not {given}")
    return array


def weights_given(argument: str, value: Any, shape: Sequence[int | None] | None = None) -> np.ndarray:
    """An array of counts or weights: finite numbers of at least 0; see `array_given`."""
    array = array_given(argument, value, shape)
    if array.dtype.kind not in "bu" and array.size:
        low, high = array.min(), array.max()  # nan is both
        if not (low >= 0 and high < math.inf):
            wrong = low if not low >= 0 else high
            raise InvalidInputError(f"{argument} must hold counts or weights, finite and at least 0, not {wrong}")
    return array


def matrix_given(confusion: Any, labels: bool = True) -> np.ndarray:
    """A confusion matrix ``[classes, classes]``, or where ``labels`` allows it one per label, ``[labels, 2, 2]``."""
    matrix = weights_given("confusion", confusion)
    matrix = matrix.astype(np.int64) if matrix.dtype == np.bool_ else matrix
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] > 0
    if not square and not (labels and matrix.ndim == 3 and matrix.shape[1:] == (2, 2)):
        allowed = "[classes, classes]" + (" or [labels, 2, 2]" if labels else "")
        raise InvalidInputError(f"confusion must have the shape {allowed}, not {list(matrix.shape)}")
    return matrix


def are_counts(weights: np.ndarray) -> bool:
    """Whether weights are numbers of samples: integers, bools, or Python integers as objects."""
    return weights.dtype.kind in "iub" or (weights.dtype == object and all(type(each) is int for each in weights.flat))


def exact_total(counts: np.ndarray) -> int:
    """The sum of integers, however large it is."""
    return int(as_integers(counts).sum())


def as_integers(weights: np.ndarray) -> np.ndarray:
    """Integers in the proportions of finite weights: int64 if no sum of them can overflow, else Python's.

    Their sums, differences and products are exact, and a quotient of two is rounded once.
    """
    if weights.dtype.kind == "f":
        mantissa, exponent = np.frexp(weights)
        shift = np.where(weights != 0, exponent - exponent[weights != 0].min(initial=2000), 0)
        return np.asarray(np.ldexp(mantissa, 53).astype(np.int64).astype(object) << shift.astype(object))
    large = weights.dtype == object or (weights.size and int(weights.max()) > (2**63 - 1) // weights.size)
    return weights.astype(object if large else np.int64, copy=False)


def sums_before(values: np.ndarray) -> np.ndarray:
    """For each value the sum of those before it; ``cumsum(values) - values`` would lose the small ones."""
    return np.concatenate([np.zeros_like(values[:1]), np.cumsum(values[:-1])])


def histograms_given(positive: Any, negative: Any, thresholds: Any = None) -> tuple[np.ndarray, ...]:
    """The weights of both classes by bucket, flat and of equal length; and the thresholds, if any."""
    arrays = [np.ravel(weights_given(name, each)) for name, each in (("positive", positive), ("negative", negative))]
    arrays += [] if thresholds is None else [np.ravel(array_given("thresholds", thresholds))]
    raise_unless_equally_long(dict(zip(("positive", "negative", "thresholds"), arrays)))
    return tuple(arrays)


def raise_unless_equally_long(arrays: Mapping[str, Any]) -> None:
    """Raise unless the arrays, by argument, have one length; None is skipped."""
    (first, size), *others = [(name, len(array)) for name, array in arrays.items() if array is not None]
    for name, other in others:
        if other != size:
            raise InvalidInputError(f"{name} has {other} entries and {first} {size}; give equally many")


def samples_given(weight: Any, **columns: Any) -> list[Any]:
    """Columns of numbers without nan, flat and of equal length, then their weights (float64, or None for 1 each)."""
    arrays = {name: np.ravel(array_given(name, column)) for name, column in columns.items()}
    for name, array in arrays.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise InvalidInputError(f"{name} must hold numbers, and some are nan")
    weight = None if weight is None else np.ravel(weights_given("weight", weight)).astype(np.float64, copy=False)
    raise_unless_equally_long({**arrays, "weight": weight})
    return [*arrays.values(), weight]


def moments_given(argument: str, value: Any, sizes: Sequence[int] = (3, 4)) -> list[float]:
    """Weight, means and sums of products in an array of one of the ``sizes``; weight and squares are at least 0."""
    moments = array_given(argument, value)
    if moments.shape not in [(size,) for size in sizes]:
        raise InvalidInputError(f"{argument} must have the shape [{sizes[0]}], not {list(moments.shape)}")
    least = moments[[0, 2] if sizes[0] == 3 else [0, 3, 5]].min()
    if least < 0:
        raise InvalidInputError(f"{argument} must hold a weight and sums of squares, at least 0, not {least}")
    found: list[float] = moments.tolist()
    return found
