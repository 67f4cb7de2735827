"""Weights for resampling: hashes of a seed, a replicate and a sample's id, the same bits in every mode.

The bootstrap draws n of n samples with replacement; how often one is drawn is very nearly Poisson of mean 1, and
independent of the others. So each worker can weigh its own samples without knowing n. The hash uses operations on
integers below ``2**63`` that NumPy, dynamic tensors and static programs all have: multiplication, xor, and division for
shifts.

Source: Chamandy, Muralidharan, Najmi and Naidu, "Estimating uncertainty for massive data streams", Google (2012).
The two rounds of shift and multiply are "16 21f0aaad 15 735a2d97 15" of C. Wellons, hash-prospector (2018).
"""

from __future__ import annotations

import functools
import hashlib
import math
from typing import Any, Callable

import numpy as np

from fleetmetrics.batch.keys import Coded, keys_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.xp import is_paddle, is_static, namespace, numpy_ops

__all__ = ["integer_ids", "poisson", "salts", "thresholds", "word", "words", "words_of_column"]

_MASK = 2**32 - 1
_CACHED = 2**15  # hashes at a time
_BEYOND = np.int64(0x2545F4914F6CDD1D)  # so that ids from 2**63 on differ from negative ones of the same bits
_FIRST, _SECOND = 0x21F0AAAD, 0x735A2D97  # below 2**31: the product with a number below 2**32 fits into an int64


@functools.lru_cache(maxsize=1)
def thresholds() -> np.ndarray:
    """``2**32 P(X <= k)`` for k = 0, 1, ..., of Poisson's distribution of mean 1, rounded down: int64.

    The number of thresholds that a hash of 32 bits reaches is a Poisson variable.
    """
    from fractions import Fraction  # every metric imports this module, and few resample

    over_e = sum((Fraction((-1) ** k, math.factorial(k)) for k in range(40)), Fraction(0))
    total, edges = Fraction(0), []
    for k in range(20):
        total += over_e / math.factorial(k)
        edges.append(math.floor(total * 2**32))
    return np.unique(edges)


def integer_ids(ids: Any) -> Any:
    """Ids, or `Coded`, as int64: integers below 2**63 unchanged; strings and larger integers hashed to 64 bits."""
    if ids.dtype.kind == "U":
        coded = Coded.of(ids)
        return np.array([_of_text(text) for text in coded.values.tolist()], np.int64)[coded.codes]
    bits = ids.astype(np.int64, copy=False)
    return np.where(bits < 0, bits ^ _BEYOND, bits) if ids.dtype == np.uint64 else bits


def _of_text(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


def _constants(seed: int) -> tuple[int, int, int]:
    digest = hashlib.blake2b(str(seed).encode(), digest_size=12).digest()
    one, two, three = (int.from_bytes(digest[i : i + 4], "little") for i in (0, 4, 8))
    return one, two, three


def salts(seed: int, replicates: int) -> np.ndarray:
    """Different numbers below ``2**32`` for the replicates: int64 ``[replicates]``."""
    number = np.arange(replicates, dtype=np.uint32) ^ np.uint32(_constants(seed)[2])
    return _mixed(numpy_ops, number).astype(np.int64)


def words(xp: Any, ids: Any, seed: int) -> tuple[Any, Any]:
    """Two numbers of 32 bits for each int64 id: ``[n]`` each, uint32 in NumPy, else int64."""
    halves, (one, two, _) = _halves(xp, ids), _constants(seed)
    return _word(xp, *halves, one), _word(xp, *halves, two)


def word(xp: Any, ids: Any, seed: int) -> Any:
    """The first of `words`."""
    return _word(xp, *_halves(xp, ids), _constants(seed)[0])


def _word(xp: Any, low: Any, high: Any, constant: int) -> Any:
    return _mixed(xp, xp.bitwise_xor(_mixed(xp, xp.bitwise_xor(low, _number(xp, constant))), high))


def _halves(xp: Any, ids: Any) -> tuple[Any, Any]:
    """The lower and the upper 32 bits of ids."""
    if xp is numpy_ops:
        bits = ids.view(np.uint64)
        return (bits & np.uint64(_MASK)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    low = xp.bitwise_and(ids, _MASK)
    return low, xp.bitwise_and(xp.quotient(xp.subtract(ids, low), 2**32), _MASK)


def words_of_column(batch: Any, name: str, seed: int, hashed: Callable[..., Any] = words) -> Any:
    """The `words` of a batch's ids, on the host unless that would wait for a device.

    Args:
        batch: a `fleetmetrics.batch.Batch`.
        name: of the column.
        seed: of the hash.
        hashed: `words`, or `word`.

    Raises:
        InvalidInputError: the ids are an array beside the variables of a static program.
    """
    ids = batch.columns[name]
    if is_paddle(ids) and not namespace(ids).is_eager(ids):
        xp = namespace(ids)
        return hashed(xp, xp.cast(xp.asarray(ids, name), "int64"), seed)
    if is_static(batch.each):
        raise InvalidInputError(
            f"{name} must be an integer variable of the static program, not an array; static programs do not support "
            "strings: fetch the inputs of add, and pass it the arrays after each run"
        )
    return hashed(numpy_ops, integer_ids(keys_of(ids, name)), seed)


def poisson(xp: Any, one: Any, two: Any, salt: Any) -> Any:
    """The number of times that each replicate draws each sample: ``[n, replicates]``, uint8 in NumPy, else int64.

    Poisson of mean 1, from both `words` and the `salts`, a constant of the program.
    """
    if xp is numpy_ops:
        return _poisson(one, two, salt.astype(np.uint32))
    value = _mixed(xp, xp.bitwise_xor(xp.reshape(one, [-1, 1]), salt), xp.reshape(two, [-1, 1]))
    return xp.position(xp.integers(thresholds()), value, True)


def _poisson(one: np.ndarray, two: np.ndarray, salt: np.ndarray) -> np.ndarray:
    """`poisson` in NumPy, in blocks that fit into the processor's cache."""
    times = np.empty((len(salt), len(one)), np.uint8)
    usual, rare = np.split(thresholds().astype(np.uint32), [5])
    lanes = max(1, _CACHED // max(1, len(one)))
    for start in range(0, len(one), _CACHED):
        part = slice(start, start + _CACHED)
        for lane in range(0, len(salt), lanes):
            row = times[lane : lane + lanes, part].reshape(-1)  # no copy: a part of one row, or whole rows
            value = _mixed(numpy_ops, one[part] ^ salt[lane : lane + lanes, None], two[part]).reshape(-1)
            np.greater_equal(value, usual[0], out=row.view(bool))
            for bound in usual[1:]:
                more = value >= bound
                row += more.view(np.uint8)
            several = np.flatnonzero(more)
            row[several] += np.searchsorted(rare, value[several], side="right").astype(np.uint8)
    return times.T


def _mixed(xp: Any, value: Any, more: Any = None) -> Any:
    """A 32-bit hash of 32-bit numbers, with ``more`` mixed in halfway."""
    if xp is numpy_ops:
        value = value ^ (value >> np.uint32(16))
        value *= np.uint32(_FIRST)
        if more is not None:
            value ^= more
        value ^= value >> np.uint32(15)
        value *= np.uint32(_SECOND)
        value ^= value >> np.uint32(15)
        return value
    value = _multiplied(xp, xp.bitwise_xor(value, xp.quotient(value, 2**16)), _FIRST)
    if more is not None:
        value = xp.bitwise_xor(value, more)
    value = _multiplied(xp, xp.bitwise_xor(value, xp.quotient(value, 2**15)), _SECOND)
    return xp.bitwise_xor(value, xp.quotient(value, 2**15))


def _multiplied(xp: Any, value: Any, factor: int) -> Any:
    return xp.bitwise_and(xp.multiply(value, xp.number(factor)), _MASK)


def _number(xp: Any, value: int) -> Any:
    return np.uint32(value) if xp is numpy_ops else xp.number(value)
