"""Which bucket a probability falls into: the rules that both array namespaces follow, and the buckets' lowest scores.

"linear" buckets are Paddle's, ``int(p * (buckets - 1))``. "log_odds" buckets are evenly spaced in the logarithm of the
odds ``p / (1 - p)``, but without a logarithm, whose last bit differs from library to library: each doubling of the odds
is split into ``2**r`` buckets of equal width. The bucket is then the exponent and the first r bits of the mantissa of
the odds, and its bounds are numbers that a float32 holds exactly.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from fleetmetrics.errors import InvalidInputError

__all__ = ["LOG_ODDS_MAX", "LogOdds", "log_odds", "lowest_scores", "odds_bounds"]

LOG_ODDS_MAX = 2**24
_MANTISSA = 52
_BIAS = 1023
#: Below odds of 1, and the same number above; at most 48 keep the bounds within float32.
_DOUBLINGS = 48


class LogOdds(NamedTuple):
    """The log-odds buckets: bucket k holds the odds whose bits, shifted right, are ``first + k``."""

    shift: int
    first: int
    low: float  # a probability in the lowest bucket; lower ones are raised to it
    high: float  # one in the highest bucket; higher ones are lowered to it


@functools.lru_cache(maxsize=64)
def log_odds(buckets: int) -> LogOdds:
    """The layout of 2 to ``2**24`` log-odds buckets, ``buckets // 2`` of them below a probability of 1/2.

    With 4,096 buckets r is 6, and the buckets reach from odds of ``2**-32`` to ``2**32``.
    """
    if not 2 <= buckets <= LOG_ODDS_MAX:
        raise InvalidInputError(f"buckets must be from 2 to 2**24 with spacing 'log_odds', not {buckets}")
    below = buckets // 2
    r = 0
    while below > _DOUBLINGS << r:
        r += 1
    shift, first = _MANTISSA - r, (_BIAS << r) - below
    half = np.int64(1) << (shift - 1)
    middles = ((np.array([first, first + buckets - 1]) << shift) + half).view(np.float64)
    low, high = (middles / (1 + middles)).tolist()
    return LogOdds(shift, first, low, high)


def odds_bounds(buckets: int) -> np.ndarray:
    """The odds at which each log-odds bucket but the lowest begins, float64 ``[buckets - 1]``; exact in float32."""
    layout = log_odds(buckets)
    return ((layout.first + np.arange(1, buckets)) << layout.shift).view(np.float64)


def lowest_scores(buckets: int, spacing: str) -> np.ndarray:
    """The lowest float64 probability of each "log_odds" or "linear" bucket: ``[buckets]``, beginning with 0.

    As in Paddle, float32 scores are placed in linear buckets in float32, up to a rounding error from these bounds.
    """
    if spacing == "linear":
        bounds = np.arange(1, buckets, dtype=np.float64)
        guess, place = bounds / (buckets - 1), lambda p: p * (buckets - 1)
    else:
        bounds = odds_bounds(buckets)
        guess, place = bounds / (1 + bounds), lambda p: p / (1 - p)
    with np.errstate(divide="ignore"):
        for _ in range(4):  # the guess is exact up to rounding
            below = np.nextafter(guess, 0)
            guess = np.where(place(below) >= bounds, below, guess)
        for _ in range(4):
            guess = np.where(place(guess) < bounds, np.nextafter(guess, 1), guess)
    return np.concatenate([[0.0], guess])
