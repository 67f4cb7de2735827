"""int64 and float64 as non-negative integers below 2**53, which every all-reduce adds and compares exactly.

``fleet.util.all_reduce`` turns floats into float32, and takes the type of negative numbers from each worker's own
values. So integers travel as two limbs of 32 bits, floats as a window of limbs of a fixed-point number that is
wide enough for every float64 (Kulisch, "Computer Arithmetic and Validity", 2008), and order-preserving
keys stand in for maxima and minima.
"""

from __future__ import annotations

import hashlib
from typing import Sequence

import numpy as np

from fleetmetrics.errors import IntegerOverflowError

__all__ = [
    "BYTES_PER_INTEGER",
    "INTEGER_WINDOW",
    "WINDOW",
    "WORKER_LIMIT",
    "digests",
    "float_limbs",
    "float_window",
    "floats_from_limbs",
    "has_specials",
    "integer_limbs",
    "integers_from_limbs",
    "keys",
    "special_counts",
    "split_counts",
    "to_bytes",
    "to_integers",
    "values_from_keys",
]

# Four counts share one integer, and a sum of squares of 20-bit digests stays below 2**53.
WORKER_LIMIT = 2**12 - 1
# For bytes that are to be summed with zeros.
BYTES_PER_INTEGER = 6
_DIGEST_BITS = 20

_MASK = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_TOP = np.uint64(2**63)
_NAN_KEY = np.uint64(2**64 - 1)
# Bit 0 of limb 0 stands for 2**-1152: below frexp's 53-bit mantissa of the smallest subnormal number.
_LOWEST_BIT = -1152
# Limbs up to that of the largest float64.
WINDOW = 70
# Where an int64 lies once it has been converted to a float64.
INTEGER_WINDOW = range(34, 40)
# Added to each limb, whose size is below 2**34, so that no number on the way is negative.
_OFFSET = 2**34


def integer_limbs(values: np.ndarray) -> np.ndarray:
    """Return the low limbs, then the high limbs moved up by 2**31.

    Args:
        values: int64, flat.

    Examples:
        >>> integer_limbs(np.array([-1])).tolist()
        [4294967295, 2147483647]
    """
    return np.concatenate([values & 0xFFFFFFFF, (values >> 32) + 2**31])


def integers_from_limbs(limbs: np.ndarray, workers: int) -> np.ndarray:
    """Return the sums behind the summed limbs.

    Args:
        limbs: the sum of the workers' `integer_limbs`.
        workers: how many there are.

    Raises:
        IntegerOverflowError: naming the position and the true sum.
    """
    low, high = np.split(limbs, 2)
    high = high - workers * 2**31 + (low >> 32)
    wrong = np.flatnonzero((high < -(2**31)) | (high >= 2**31))
    low = low & 0xFFFFFFFF
    if wrong.size:
        first = int(wrong[0])
        value = (int(high[first]) << 32) + int(low[first])
        raise IntegerOverflowError(
            f"the sum over {workers} workers at position {first} (flat) is {value}, which does not fit into int64"
            " (-2**63 to 2**63 - 1); use a float64 state, or count in a coarser unit."
        )
    return np.asarray((high << 32) | low)


def _mantissas(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return whole numbers of 53 bits and the position of their lowest bit; what is not finite counts as 0."""
    fractions, exponents = np.frexp(np.where(np.isfinite(values), values, 0.0))
    positions = exponents.astype(np.int64) - 53 - _LOWEST_BIT
    mantissas = (fractions * 2.0**53).astype(np.int64)
    return mantissas, np.where(mantissas == 0, 0, positions)


def float_window(values: np.ndarray) -> np.ndarray:
    """Tell which limbs a worker's floats need.

    Args:
        values: float64, flat.

    Returns:
        Booleans, one per limb of the whole range.
    """
    used = np.zeros(WINDOW, bool)
    mantissas, positions = _mantissas(values)
    first = np.unique(positions[mantissas != 0] // 32)
    for step in range(3):
        used[first + step] = True
    return used


def float_limbs(values: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return the limbs of fixed-point numbers, moved up so that none is negative.

    Args:
        values: float64, flat.
        first: the lowest limb of the window.
        count: how many limbs it has.

    Returns:
        int64 of shape (count, number of values).
    """
    mantissas, positions = _mantissas(values)
    sizes = np.abs(mantissas).astype(np.uint64)
    shifts = (positions % 32).astype(np.uint64)
    low, high = (sizes & _MASK) << shifts, (sizes >> _32) << shifts
    parts = [low & _MASK, (low >> _32) + (high & _MASK), high >> _32]
    limbs = np.zeros((count, len(values)), np.int64)
    signs = np.sign(mantissas)
    column = np.flatnonzero(mantissas)
    row = positions[column] // 32 - first
    for step, part in enumerate(parts):
        limbs[row + step, column] = part[column].astype(np.int64) * signs[column]
    return np.asarray(limbs + _OFFSET)


def floats_from_limbs(limbs: np.ndarray, first: int, workers: int) -> np.ndarray:
    """Return the correctly rounded sums behind the summed limbs.

    Args:
        limbs: the sum of the workers' `float_limbs`.
        first: the lowest limb of the window.
        workers: how many there are.
    """
    exponent = 32 * first + _LOWEST_BIT
    numerator, denominator = 1 << max(exponent, 0), 1 << max(-exponent, 0)
    result = np.zeros(limbs.shape[1])
    for column, digits in enumerate((limbs - workers * _OFFSET).T.tolist()):
        total = 0
        for digit in reversed(digits):
            total = (total << 32) + digit
        try:
            # Python divides whole numbers to the nearest float
            result[column] = total * numerator / denominator
        except OverflowError:
            result[column] = np.inf if total > 0 else -np.inf
    return result


def has_specials(values: np.ndarray) -> bool:
    """Tell whether there are nan, infinities or negative zeros.

    Args:
        values: float64.
    """
    return bool((~np.isfinite(values) | ((values == 0) & np.signbit(values))).any())


def special_counts(values: np.ndarray) -> np.ndarray:
    """Return one integer per value: is it nan, inf, -inf, anything but a negative zero; 12 bits for each count.

    Args:
        values: float64, flat.
    """
    negative_zero = (values == 0) & np.signbit(values)
    questions = [np.isnan(values), values == np.inf, values == -np.inf, ~negative_zero]
    return np.sum([question.astype(np.int64) << (12 * i) for i, question in enumerate(questions)], axis=0)


def split_counts(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Put nan, infinities and negative zeros into the sums.

    Args:
        sums: of the finite values.
        counts: the sum of the workers' `special_counts`.
    """
    nan, positive, negative, others = [(counts >> (12 * i)) & 0xFFF for i in range(4)]
    result = np.where(others == 0, -0.0, sums)
    result = np.where(positive > 0, np.inf, result)
    result = np.where(negative > 0, -np.inf, result)
    return np.where((nan > 0) | ((positive > 0) & (negative > 0)), np.nan, result)


def keys(values: np.ndarray, reduction: str) -> np.ndarray:
    """Return uint64 whose maximum belongs to the values' maximum or minimum; nan has the largest.

    Args:
        values: int64 or float64, flat.
        reduction: "max" or "min".
    """
    bits = np.ascontiguousarray(values).view(np.uint64)
    ordered = bits ^ _TOP if values.dtype == np.int64 else np.where(bits & _TOP, ~bits, bits | _TOP)
    if reduction == "min":
        ordered = ~ordered
    return np.where(np.isnan(values), _NAN_KEY, ordered)


def values_from_keys(ordered: np.ndarray, reduction: str, dtype: str) -> np.ndarray:
    """Return the values behind `keys`.

    Args:
        ordered: uint64.
        reduction: "max" or "min".
        dtype: "int64" or "float64".
    """
    plain = ~ordered if reduction == "min" else ordered
    if dtype == "int64":
        return np.asarray((plain ^ _TOP).view(np.int64))
    bits = np.where(plain & _TOP, plain ^ _TOP, ~plain)
    return np.where(ordered == _NAN_KEY, np.nan, bits.view(np.float64))


def digests(text: str, count: int) -> list[int]:
    """Return numbers of 20 bits: the sum of the squares of 4,095 of them stays below 2**53.

    Args:
        text: what they stand for.
        count: how many.
    """
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    return [(number >> (_DIGEST_BITS * i)) & (2**_DIGEST_BITS - 1) for i in range(count)]


def to_integers(data: bytes) -> list[int]:
    """Return bytes as integers of 48 bits.

    Args:
        data: filled up with zeros.
    """
    padded = data + b"\0" * (-len(data) % BYTES_PER_INTEGER)
    table = np.zeros((len(padded) // BYTES_PER_INTEGER, 8), np.uint8)
    table[:, :BYTES_PER_INTEGER] = np.frombuffer(padded, np.uint8).reshape(-1, BYTES_PER_INTEGER)
    integers: list[int] = table.view("<i8").reshape(-1).tolist()
    return integers


def to_bytes(integers: Sequence[int]) -> bytes:
    """Return the bytes behind `to_integers`.

    Args:
        integers: of 48 bits.
    """
    table = np.array(integers, "<i8").view(np.uint8).reshape(-1, 8)
    return table[:, :BYTES_PER_INTEGER].tobytes()
