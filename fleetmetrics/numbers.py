"""How values of workers, and of batches, become one: exact sums, extremes, and moments.

>>> import numpy as np
>>> combine("sum", [np.array([1e100, 1.0]), np.array([1.0, 1.0]), np.array([-1e100, 1.0])])
array([1., 3.])

The moments of one variable are ``[w, m, s, r]``: the weight of the samples, their mean, the sum of their squared
deviations from it, and what the mean is more than the float64 m. The comoments of two are ``[w, mx, my, sxx, sxy, syy,
rx, ry]``. A mean of two words keeps the deviations of timestamps as exact as those of small numbers.

Source: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37 (1983),
for the merge; Knuth, The Art of Computer Programming 2, section 4.2.2, for sums of two words.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import IntegerOverflowError, InvalidInputError

__all__ = [
    "OF_BATCHES",
    "REDUCTIONS",
    "WIDTHS",
    "combine",
    "identity",
    "merged",
    "merged_floats",
    "sum_of_numbers",
    "two_sum",
    "widen",
]

#: How many numbers each reduction keeps, in the last axis of a state.
WIDTHS = {"moments": 4, "comoments": 8}


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Knuth's TwoSum: a + b is exactly the rounded sum plus the error."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def merged(xp: Any, groups: Any) -> Any:
    """The moments, or comoments, of groups of samples together.

    Args:
        xp: the array namespace.
        groups: float64, ``[groups, ..., 4]`` or ``[groups, ..., 8]``.
    """
    total_of = xp.sum_of_columns
    variables = xp.shape(groups)[-1] // 4
    weight, mean = groups[..., :1], groups[..., 1 : 1 + variables]
    total = total_of(weight)
    share = weight / xp.or_one(total)
    middle = total_of(share * mean)
    near = (mean - middle) + groups[..., -variables:]
    step = total_of(share * near)  # what rounding has left of the mean
    near = near - step
    one, other = near, near
    if variables == 2:  # xx, xy, yy
        one, other = xp.concat([near[..., :1], near], -1), xp.concat([near, near[..., 1:]], -1)
    products = total_of(xp.concat([groups[..., 1 + variables : -variables], weight * one * other], 0))
    mean, rest = two_sum(middle, step)
    return xp.concat([total, mean, products, rest], -1)


def merged_floats(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """The same for the numbers of two groups: as Python's, several times faster than as arrays."""
    if one[0] < other[0]:
        one, other = other, one  # from the mean of more weight the step to that of all is short, and rounded little
    total = one[0] + other[0]
    share = other[0] / (total or 1.0)
    lever = one[0] * share
    if len(one) == 4:
        _, x, xx, r = one
        dx = (other[1] - x) + (other[3] - r)
        x, r = two_sum(x, dx * share + r)
        return [total, x, xx + other[2] + dx * dx * lever, r]
    _, x, y, xx, xy, yy, r, s = one
    dx, dy = (other[1] - x) + (other[6] - r), (other[2] - y) + (other[7] - s)
    x, r = two_sum(x, dx * share + r)
    y, s = two_sum(y, dy * share + s)
    xx, xy, yy = xx + other[3] + dx * dx * lever, xy + other[4] + dx * dy * lever, yy + other[5] + dy * dy * lever
    return [total, x, y, xx, xy, yy, r, s]


REDUCTIONS = ("sum", "max", "min", *WIDTHS)
#: What is summed by the adds of one worker.
OF_BATCHES = "the batches of this worker"
_INT64 = np.iinfo(np.int64)
#: Up to so many elements, Python adds faster than NumPy.
_FEW = 32
_LOW_32_BITS = np.int64(0xFFFFFFFF)


def identity(reduction: str, dtype: Any) -> Any:
    """The NumPy scalar, int64 or float64, that changes nothing when it is reduced with another one.

    Examples:
        >>> int(identity("sum", "int64")), float(identity("max", "float64"))
        (0, -inf)
    """
    _check_reduction(reduction)
    kind = np.dtype(dtype)
    if kind == np.int64:
        return np.int64({"max": _INT64.min, "min": _INT64.max}.get(reduction, 0))
    if kind == np.float64:
        return np.float64({"max": -np.inf, "min": np.inf}.get(reduction, 0.0))
    raise InvalidInputError(f"dtype is {kind}; a state is int64 or float64. Convert the array first.")


def widen(value: Any, argument: str) -> np.ndarray:
    """Widen bools, integers or floats to int64 or float64, the only dtypes that are accumulated and exchanged.

    What is neither, or ragged, is an `InvalidInputError` that names the ``argument``; an unsigned integer above
    2**63 - 1 an `IntegerOverflowError`. An array that has the dtype is not copied.

    Examples:
        >>> widen([True, False], "flags")
        array([1, 0])
    """
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged lists
        raise InvalidInputError(f"{argument} has no rectangular array form: {error}") from None
    if array.dtype.kind == "u" and array.size and int(array.max()) > _INT64.max:
        raise IntegerOverflowError(f"{argument} holds {array.max()}; the largest integer allowed is 2**63 - 1")
    if array.dtype.kind in "biu":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "f":
        return array.astype(np.float64, copy=False)
    raise InvalidInputError(
        f"{argument} must hold bools, integers or floats, not {array.dtype} (given a {type(value).__name__})"
    )


def combine(reduction: str, arrays: Sequence[np.ndarray], over: str = "") -> np.ndarray:
    """Reduce the workers' arrays element by element, with the same bits whatever their order.

    Integers are summed as integers; an `IntegerOverflowError` says what they are of (``over``; empty: as many workers).
    Floats are summed to the correctly rounded value of the exact sum. Not a number wins over everything, and 0.0 counts
    as larger than -0.0. Moments are merged about their common mean. Arrays that differ in dtype become float64.

    Examples:
        >>> combine("max", [np.array([1, 5]), np.array([3, 2])])
        array([3, 5])
    """
    _check_reduction(reduction)
    same = _as_same_dtype(arrays)
    if len(same) == 1 or same[0].size == 0:
        return same[0].copy()
    if reduction in WIDTHS:
        groups = np.stack([array.reshape(-1, WIDTHS[reduction]) for array in same])  # of several states, maybe
        with np.errstate(all="ignore"):
            return merged(_IN_ANY_ORDER, groups.astype(np.float64, copy=False)).reshape(same[0].shape)
    if same[0].dtype == np.int64:
        return _sum_integers(same, over) if reduction == "sum" else _extreme(reduction, same)
    result = _sum_floats(same) if reduction == "sum" else _signed_zero_extreme(reduction, same)
    # The bits of a nan that IEEE leaves open would otherwise tell the order of the ranks.
    np.copyto(result, np.nan, where=np.isnan(result))
    return result


def sum_of_numbers(one: Any, other: Any) -> Any:
    """Add two of Python's numbers as `combine` does, in a tenth of the time.

    Examples:
        >>> sum_of_numbers(2, 3)
        5
    """
    total = one + other
    if type(total) is int and not -(2**63) <= total < 2**63:
        combine("sum", [np.array(one), np.array(other)], OF_BATCHES)  # which raises
    return total


def _check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise InvalidInputError(f"reduction is {reduction!r}; it must be one of {', '.join(REDUCTIONS)}.")


def _as_same_dtype(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    if len(arrays) == 0:
        raise InvalidInputError("arrays is empty; give one array per worker.")
    given = [np.asarray(array) for array in arrays]
    dtypes = {array.dtype for array in given}
    if not dtypes <= {np.dtype(np.int64), np.dtype(np.float64)}:
        raise InvalidInputError(f"arrays are of {sorted(map(str, dtypes))}; a state is int64 or float64.")
    shapes = {array.shape for array in given}
    if len(shapes) > 1:
        raise InvalidInputError(f"arrays have the shapes {sorted(shapes)}; every worker's must have one shape.")
    if len(dtypes) > 1:
        return [array.astype(np.float64) for array in given]
    return given


def _sum_sorted(terms: np.ndarray) -> Any:
    """The sum over the first axis, the same bits in every order of the terms, and rounded about once."""
    total, errors = _accumulate(list(np.sort(terms, axis=0)))
    return total + sum(errors)


#: What `merged` needs of a namespace, with sums that do not depend on the order.
_IN_ANY_ORDER = SimpleNamespace(
    shape=np.shape,
    or_one=lambda array: np.where(array == 0, 1.0, array),
    concat=np.concatenate,
    sum_of_columns=_sum_sorted,
)


def _extreme(reduction: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    function = np.maximum if reduction == "max" else np.minimum
    result = arrays[0].copy()
    for array in arrays[1:]:
        function(result, array, out=result)
    return result


def _signed_zero_extreme(reduction: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
    result = _extreme(reduction, arrays)
    zero = result == 0
    if zero.any():
        merge = np.logical_and if reduction == "max" else np.logical_or
        negative = merge.reduce([np.signbit(array) for array in arrays])
        np.copyto(result, np.where(negative, -0.0, 0.0), where=zero)
    return result


def _sum_integers(arrays: Sequence[np.ndarray], over: str) -> np.ndarray:
    if arrays[0].size <= _FEW:
        totals = [sum(column) for column in zip(*[array.ravel().tolist() for array in arrays])]
        if _INT64.min <= min(totals) and max(totals) <= _INT64.max:
            return np.array(totals).reshape(arrays[0].shape)
    elif sum(max(int(array.max()), -int(array.min())) for array in arrays) <= _INT64.max:
        result = arrays[0].copy()
        for array in arrays[1:]:
            np.add(result, array, out=result)
        return result
    low = np.zeros(arrays[0].shape, np.int64)
    high = np.zeros(arrays[0].shape, np.int64)
    for array in arrays:
        low += array & _LOW_32_BITS
        high += array >> 32
    high += low >> 32
    low &= _LOW_32_BITS
    wrong = np.flatnonzero((high < -(2**31)) | (high >= 2**31))
    if wrong.size:
        first = int(wrong[0])
        value = (int(high.flat[first]) << 32) + int(low.flat[first])
        position = [int(axis) for axis in np.unravel_index(first, low.shape)]
        raise IntegerOverflowError(
            f"the sum over {over or f'{len(arrays)} workers'} at position {position} is {value}, which does not fit"
            " into int64 (-2**63 to 2**63 - 1); use a float64 state, or count in a coarser unit."
        )
    return np.asarray((high << 32) | low)


def _sum_floats(arrays: Sequence[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        if len(arrays) == 2:
            return np.asarray(arrays[0] + arrays[1])
        flat = [array.reshape(-1) for array in arrays]
        few = flat[0].size <= _FEW
        result, certain = (np.zeros_like(flat[0]), np.zeros(flat[0].size, bool)) if few else _sum_error_free(flat)
    for index in np.flatnonzero(~certain):
        result[index] = _sum_exactly([float(array[index]) for array in flat])
    zero = np.flatnonzero(result == 0)
    if zero.size:
        negative = np.logical_and.reduce([np.signbit(array[zero]) & (array[zero] == 0) for array in flat])
        result[zero] = np.where(negative, -0.0, 0.0)
    return result.reshape(arrays[0].shape)


def _sum_error_free(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sum by Ogita, Rump and Oishi's cascade (2005), and tell where the rounding is proved correct.

    The exact sum is ``head + tail + rest`` with ``|rest| <= bound``: the rounding of ``head + tail`` is right
    if the rest cannot push it over the middle between two neighbours.
    """
    head, errors = _accumulate(arrays)
    tail, rests = _accumulate(errors)
    bound = np.zeros_like(tail)
    for rest in rests:
        bound += np.abs(rest)
    result, error = two_sum(head, tail)
    size = np.abs(result)
    half_gap = 0.5 * (size - np.nextafter(size, 0.0))
    certain = (bound == 0) | ((np.abs(error) + bound) * (1 + 2.0**-50) < half_gap)
    return result, certain & np.isfinite(result) & np.isfinite(error) & np.isfinite(bound)


def _accumulate(terms: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    total, errors = terms[0], []
    for term in terms[1:]:
        total, error = two_sum(total, term)
        errors.append(error)
    return total, errors


def _sum_exactly(values: Sequence[float]) -> float:
    special = {value for value in values if math.isinf(value)}
    if len(special) == 2 or any(math.isnan(value) for value in values):
        return math.nan
    if special:
        return special.pop()
    try:
        return math.fsum(values)
    except OverflowError:  # fsum also gives up where only a partial sum is out of range
        exact = sum(map(Fraction, values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
