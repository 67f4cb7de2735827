"""Exact sums of arrays, element by element: integers as integers, floats rounded once, or kept in several words.

>>> import numpy as np
>>> sum_floats([np.array([1e100]), np.array([1.0]), np.array([-1e100])])
array([1.])

Source: Knuth, The Art of Computer Programming 2, section 4.2.2, for sums of two words; Ogita, Rump and Oishi, "Accurate
sum and dot product", SIAM Journal on Scientific Computing 26 (2005), for those of more.
"""

from __future__ import annotations

import operator
from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import IntegerOverflowError
from fleetmetrics.numbers.moments import two_sum, words_of

__all__ = ["sign_zeros", "sum_floats", "sum_in_words", "sum_integers"]

_INT64 = np.iinfo(np.int64)
#: Up to this number of elements, Python adds faster than NumPy.
_FEW, _FEW_INTEGERS = 32, 64


def sum_integers(arrays: Sequence[np.ndarray], over: str) -> np.ndarray:
    """The sums of int64 arrays; an `IntegerOverflowError` names ``over``, or the number of workers."""
    if arrays[0].size <= _FEW_INTEGERS:
        totals = [*map(sum, zip(*[array.ravel().tolist() for array in arrays]))]
        if _INT64.min <= min(totals) and max(totals) <= _INT64.max:
            return np.array(totals).reshape(arrays[0].shape)
    elif sum(max(int(array.max()), -int(array.min())) for array in arrays) <= _INT64.max:
        result = arrays[0].copy()
        for array in arrays[1:]:
            np.add(result, array, out=result)
        return result
    exact: Any = sum([array.astype(object).ravel() for array in arrays])  # Python's integers
    wrong = np.flatnonzero((exact < _INT64.min) | (exact > _INT64.max))
    if wrong.size:
        value = exact[wrong[0]]
        position = [int(axis) for axis in np.unravel_index(wrong[0], arrays[0].shape)]
        raise IntegerOverflowError(
            f"the sum over {over or f'{len(arrays)} workers'} at position {position} is {value}, which does not fit"
            " into int64 (-2**63 to 2**63 - 1); use a float64 state, or count in a coarser unit"
        )
    return np.asarray(exact.astype(np.int64).reshape(arrays[0].shape))


def sum_floats(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The exact sums of float64 arrays, each rounded once."""
    if len(arrays) == 2 and arrays[0].size <= _FEW:  # Python's own sum of two is rounded once, and never warns
        one, other = arrays[0].reshape(-1).tolist(), arrays[1].reshape(-1).tolist()
        return np.array([*map(operator.add, one, other)]).reshape(arrays[0].shape)
    with np.errstate(all="ignore"):
        if len(arrays) == 2:
            return np.asarray(arrays[0] + arrays[1])
        flat = [array.reshape(-1) for array in arrays]
        few = flat[0].size <= _FEW
        result, certain = (np.zeros_like(flat[0]), np.zeros(flat[0].size, bool)) if few else _sum_error_free(flat)
    for index in np.flatnonzero(~certain):
        result[index] = words_of([float(array[index]) for array in flat], 1)[0]
    sign_zeros(result, flat, np.logical_and)
    return result.reshape(arrays[0].shape)


def sum_in_words(terms: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The exact sum: rounded, and then word by word what is left of it."""
    with np.errstate(all="ignore"):
        head, errors = _accumulate(terms)
        tail, rests = _accumulate([np.zeros_like(head), *errors])
        head, tail = two_sum(head, tail)
    words, hard = [head, tail], ~np.isfinite(head)
    for rest in rests:
        hard |= rest != 0
    for place in np.flatnonzero(hard):
        sum_words = words_of([float(term[place]) for term in terms])
        words += [np.zeros_like(head) for _ in sum_words[len(words) :]]
        for word, value in zip(words, sum_words + [0.0] * len(words)):
            word[place] = value
    while len(words) > 1 and not words[-1].any():
        words.pop()
    return words


def sign_zeros(result: np.ndarray, arrays: Sequence[np.ndarray], both: np.ufunc) -> None:
    """Make a zero -0.0 if all of the numbers that it was made of are negative, or any, as ``both`` says; else 0.0."""
    zero = result == 0
    if zero.any():
        negative = both.reduce([np.signbit(array) for array in arrays])
        np.copyto(result, np.where(negative, -0.0, 0.0), where=zero)


def _sum_error_free(arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sum by Ogita, Rump and Oishi's cascade (2005), and tell where the rounding is proved correct.

    The exact sum is ``head + tail + rest`` with ``|rest| <= bound``: the rounding of ``head + tail`` is right
    if the rest cannot push it over the middle between two neighbors.
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
