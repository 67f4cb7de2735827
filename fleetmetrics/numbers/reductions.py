"""Merge the values of workers and of batches: exact sums, extremes, and moments.

>>> import numpy as np
>>> combine("sum", [np.array([1e100, 1.0]), np.array([1.0, 1.0]), np.array([-1e100, 1.0])])
array([1., 3.])
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import IntegerOverflowError, InvalidInputError
from fleetmetrics.numbers.exact_sums import sign_zeros, sum_floats, sum_in_words, sum_integers
from fleetmetrics.numbers.moments import RESTS, WIDTHS, merged_exactly
from fleetmetrics.support.checks import choice_of, shape_of
from fleetmetrics.support.tensors import as_array, refuse_masked
from fleetmetrics.support.vocabulary import entries_in_words, kind_in_words, with_article

__all__ = [
    "FEW",
    "FEW_LOGARITHMS",
    "OF_BATCHES",
    "REDUCTIONS",
    "REST",
    "Directed",
    "Scattered",
    "check_rest",
    "combine",
    "combine_alike",
    "combine_exactly",
    "declared_shape",
    "distinct_of",
    "held_of",
    "identity",
    "position_dtype",
    "sum_of_numbers",
    "widen",
]


REDUCTIONS = ("sum", "max", "min", *WIDTHS)
#: The name, in saved states, of the exact total minus the value.
REST = ":rest"
#: Up to this number of entries, a dot product takes half the time of a sum, and is as exact.
FEW = 128
#: Up to this number, logarithms are summed one by one; of more, those of products.
FEW_LOGARITHMS = 16 * FEW
#: The subject of errors about one worker's sums.
OF_BATCHES = "the batches of this worker"
_LEAST, _MOST = -(2**63), 2**63 - 1
_WIDE = frozenset([np.dtype(np.int64), np.dtype(np.float64)])
#: How many arrays are summed at a time.
_AT_ONCE = 64
_LOW_32_BITS = np.int64(0xFFFFFFFF)


class Scattered(NamedTuple):
    """An increment that touches few entries of a state: ``state[indices[0][i], ...] += amount[i]`` for every i.

    ``indices`` has one int64 array ``[n]`` per axis of the state, as in NumPy's indexing; ``amount`` is an int64 or
    float64 array ``[n]``, or None for 1. In lanes, on the host, they are arrays that broadcast to a common shape.
    """

    indices: tuple[Any, ...]
    amount: Any


class Directed(NamedTuple):
    """An increment for part of a state: the rows of some keys, or a place in a ring."""

    to: Any
    increment: Any


def identity(reduction: str, dtype: Any) -> Any:
    """The NumPy scalar, int64 or float64, that changes nothing when it is reduced with another one.

    Examples:
        >>> int(identity("sum", "int64")), float(identity("max", "float64"))
        (0, -inf)
    """
    _check_reduction(reduction)
    try:
        kind = np.dtype(dtype)
    except Exception:  # which depends on the object
        raise InvalidInputError(f"dtype must be int64 or float64, not {dtype!r:.60}") from None
    if kind == np.int64:
        return np.int64({"max": _LEAST, "min": _MOST}.get(reduction, 0))
    if kind == np.float64:
        return np.float64({"max": -np.inf, "min": np.inf}.get(reduction, 0.0))
    raise InvalidInputError(f"dtype is {kind}; a state is int64 or float64. Convert the array first")


def widen(value: Any, argument: str) -> np.ndarray:
    """Widen bools, integers or floats to int64 or float64, the only dtypes that are accumulated and exchanged.

    Other or ragged values raise an `InvalidInputError` that names the ``argument``; an unsigned integer above
    2**63 - 1 raises an `IntegerOverflowError`. An array that has the dtype already is not copied.

    Examples:
        >>> widen([True, False], "flags")
        array([1, 0])
    """
    if type(value) is np.ndarray and value.dtype in _WIDE:
        return value
    refuse_masked(argument, value)
    try:
        array = as_array(value, argument)
    except InvalidInputError:
        raise
    except Exception as error:  # ragged lists, and whatever an object's __array__ raises
        raise InvalidInputError(f"{argument} has no rectangular array form: {error}") from None
    if array.dtype.kind == "u" and array.size and int(array.max()) > _MOST:
        raise IntegerOverflowError(f"{argument} holds {array.max()}; the largest integer allowed is 2**63 - 1")
    if array.dtype.kind in "biu":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "f":
        return array.astype(np.float64, copy=False)
    raise InvalidInputError(
        f"{argument} must hold bools, integers or floats, not {entries_in_words(array)} "
        f"(given {with_article(type(value).__name__)})"
    )


def combine(reduction: str, arrays: Sequence[np.ndarray], over: str = "") -> np.ndarray:
    """Reduce the workers' arrays element by element, with the same bits in any order.

    Integers are summed as integers; an `IntegerOverflowError` names ``over``, or if that is empty the number of
    workers. Floats are summed to the correctly rounded value of the exact sum. Not a number wins over everything, and
    0.0 counts as larger than -0.0. Moments are those of all samples, rounded once. Arrays of different dtypes become
    float64.

    Examples:
        >>> combine("max", [np.array([1, 5]), np.array([3, 2])])
        array([3, 5])
    """
    _check_reduction(reduction)
    return combine_alike(reduction, _as_same_dtype(arrays), over)


def combine_alike(reduction: str, same: Sequence[np.ndarray], over: str = "") -> np.ndarray:
    """`combine` for arrays known to have one shape, and to be all int64 or all float64."""
    if len(same) == 1 or same[0].size == 0:
        return same[0].copy()
    if reduction in WIDTHS:
        return merged_exactly(reduction, same, [None] * len(same), keep=False)[0]
    if same[0].dtype == np.int64:
        return sum_integers(same, over) if reduction == "sum" else _extreme(reduction, same)
    if reduction == "sum":
        result = sum_floats(same)
    else:
        result = _extreme(reduction, same)
        sign_zeros(result, same, np.logical_and if reduction == "max" else np.logical_or)
    # The bits of a nan that IEEE leaves open would otherwise tell the order of the ranks.
    np.copyto(result, np.nan, where=np.isnan(result))
    return result


def combine_exactly(
    reduction: str, values: Sequence[np.ndarray], rests: Sequence[np.ndarray | None], over: str = ""
) -> tuple[np.ndarray, np.ndarray | None]:
    """Reduce parts as `combine` does, and keep the rounding rests, so that parts merge in any order and any tree.

    Args:
        reduction: one of `REDUCTIONS`.
        values: the parts' values.
        rests: each part's exact total minus its value, float64 ``[words, ...]``: for moments in terms that
            can be summed, see `fleetmetrics.numbers.moments.RESTS`; None: zero.
        over: as for `combine`.

    Returns:
        The value, and its rest: each word is the rounded remainder of those before; exact within float64's range.

    Examples:
        >>> value, rest = combine_exactly("sum", [np.array(1e100), np.array(1.0)], [None, None])
        >>> value.item(), combine_exactly("sum", [value, np.array(-1e100)], [rest, None])[0].item()
        (1e+100, 1.0)
    """
    _check_reduction(reduction)
    _check_parts(values, rests)
    floats = any(value.dtype == np.float64 for value in values)
    if reduction in WIDTHS and (len(values) > 1 or rests[0] is not None):
        return merged_exactly(reduction, values, rests)
    if reduction != "sum" or not floats or values[0].size == 0:
        return combine(reduction, values, over), None
    terms: list[np.ndarray] = []
    for value, rest in zip(values, rests):
        exact = value.dtype == np.float64  # of 64 bits, an integer may not be a float's
        terms += [value] if exact else [(value >> 32) * 2.0**32, (value & _LOW_32_BITS).astype(np.float64)]
        terms += () if rest is None else [*rest]
    flat = [term.reshape(-1) for term in terms]
    words = [flat[0].copy()]
    for start in range(1, len(flat), _AT_ONCE):
        words = sum_in_words([*words, *flat[start : start + _AT_ONCE]])
    result, *rest_words = [word.reshape(values[0].shape) for word in words]
    sign_zeros(result, values, np.logical_and)
    return result, np.stack(rest_words) if rest_words else None


def held_of(value: np.ndarray, rest: np.ndarray | None) -> dict[str, np.ndarray]:
    """A value and any rest, as saved."""
    return {"": value} if rest is None else {"": value, REST: rest.copy()}


def check_rest(name: str, reduction: str, value: np.ndarray, rest: np.ndarray | None) -> None:
    """Raise InvalidInputError if this cannot be the rest of a value; see `combine_exactly`."""
    if rest is not None:
        shape = (*value.shape[:-1], RESTS[reduction]) if reduction in RESTS else value.shape
        fits = reduction not in ("max", "min") and rest.ndim > 0 and rest.shape[1:] == shape
        if not fits or not rest.dtype == value.dtype == np.float64 or not np.isfinite(rest).all():
            raise InvalidInputError(f"{name} has an invalid rest: {rest.dtype} {list(rest.shape)}")


def sum_of_numbers(one: Any, other: Any) -> Any:
    """Add two of Python's numbers as `combine` does, in a tenth of the time.

    Examples:
        >>> sum_of_numbers(2, 3)
        5
    """
    try:
        total = one + other
    except (TypeError, OverflowError):
        total = None
    if type(total) is float or (type(total) is int and -(2**63) <= total < 2**63):
        return total
    if type(total) is not int:
        raise InvalidInputError(f"one and other must be ints or floats, not {one!r:.60} and {other!r:.60}")
    return combine("sum", [np.array(one), np.array(other)], OF_BATCHES).item()  # which raises


def declared_shape(name: Any, shape: Any, dtype: Any, reduction: Any) -> tuple[int, ...]:
    """The shape of a state, as a tuple; InvalidInputError if it, the name, dtype or reduction is invalid."""
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"name must be a non-empty string, not {name!r:.80}")
    choice_of("dtype", dtype, ("int64", "float64"))
    choice_of("reduction", reduction, REDUCTIONS)
    return shape_of("shape", shape)


def _check_reduction(reduction: str) -> None:
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        raise InvalidInputError(f"reduction is {reduction!r}; it must be one of {', '.join(REDUCTIONS)}")


def _as_same_dtype(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    if not isinstance(arrays, (list, tuple)):
        raise InvalidInputError(f"arrays must be a list of one array per worker, not {arrays!r:.60}")
    if len(arrays) == 0:
        raise InvalidInputError("arrays is empty; give one array per worker")
    states = [array if type(array) is np.ndarray else widen(array, "an array of arrays") for array in arrays]
    dtypes = {array.dtype for array in states}
    if not dtypes <= {np.dtype(np.int64), np.dtype(np.float64)}:
        kinds = ", ".join(sorted(map(kind_in_words, dtypes)))
        raise InvalidInputError(f"arrays are of {kinds}; a state is int64 or float64")
    shapes = {array.shape for array in states}
    if len(shapes) > 1:
        raise InvalidInputError(f"arrays have the shapes {sorted(shapes)}; all workers must have the same shape")
    if len(dtypes) > 1:
        return [array.astype(np.float64) for array in states]
    return states


def _check_parts(values: Any, rests: Any) -> None:
    if not isinstance(values, (list, tuple)) or not values:
        raise InvalidInputError(f"values must be a list of one array per part, not {values!r:.60}")
    if not isinstance(rests, (list, tuple)) or len(rests) != len(values):
        raise InvalidInputError(f"rests must be a list of one array or None per part, not {rests!r:.60}")
    for place, value in enumerate(values):
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype not in (np.int64, np.float64):
            raise InvalidInputError(f"values[{place}] must be an int64 or float64 array, not {value!r:.60}")
        if value.shape != values[0].shape:
            raise InvalidInputError(f"values have the shapes {values[0].shape} and {value.shape}; they must be equal")
    for place, rest in enumerate(rests):
        if rest is not None and (not isinstance(rest, np.ndarray) or rest.dtype != np.float64):
            raise InvalidInputError(f"rests[{place}] must be a float64 array or None, not {rest!r:.60}")


def _extreme(reduction: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    function = np.maximum if reduction == "max" else np.minimum
    result = arrays[0].copy()
    for array in arrays[1:]:
        function(result, array, out=result)
    return result


def position_dtype(total: int) -> np.dtype:
    """The integers that hold positions among ``total`` records."""
    return np.dtype(np.int32 if total < 2**31 else np.int64)


def distinct_of(values: np.ndarray) -> np.ndarray:
    """Integers or strings, each once, rising: `np.unique` of NumPy 2.3 and later hashes integers, 80 times as slow."""
    values = np.sort(values)
    return values[np.append(True, values[1:] != values[:-1])[: len(values)]]
