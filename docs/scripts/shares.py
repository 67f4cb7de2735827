"""Print how often intervals of 95 % hold a share, by the number of samples: exactly, over all possible numbers of hits.

    python docs/scripts/shares.py

``least``: the smallest probability that the interval holds the true share, over shares from 0.002 to 0.998. The last
column is that of percentiles of a bootstrap, with the true quantiles of the draws.
"""

from __future__ import annotations

import math
from typing import Any, Iterable

import numpy as np

from fleetmetrics.formulas.intervals import interval
from fleetmetrics.formulas.spreads import of_samples

SIZES = (1, 2, 3, 5, 8, 10, 15, 20, 30, 40, 50, 70, 100, 200, 500)
RATES = (0.01, 0.1, 0.3, 0.5)
GRID = np.arange(0.002, 0.9985, 0.002)


def binomial(size: int, rates: Any) -> np.ndarray:
    """The probability of each number of hits, ``[rates, size + 1]``."""
    hits = np.arange(size + 1)
    ways = [math.lgamma(size + 1) - math.lgamma(k + 1) - math.lgamma(size - k + 1) for k in hits]
    rates = np.asarray(rates)[:, None]
    found: np.ndarray = np.exp(ways + hits * np.log(rates) + (size - hits) * np.log1p(-rates))
    return found


def ends(size: int) -> np.ndarray:
    """The interval of `fleetmetrics.Interval` for each number of hits, ``[size + 1, 2]``."""
    found = []
    for hits in range(size + 1):
        sums = [hits, hits, size, hits, hits, hits, size]  # of products of two, and of three, terms
        spread = of_samples(sums, [hits, size], (1 / size, -hits / size**2), size)
        found.append(interval(hits / size, spread, 0.0, 1.0, 0.95, "share")[2:4])
    return np.array(found)


def percentiles(size: int) -> np.ndarray:
    """The 2.5th and 97.5th percentile of binomial draws for each number of hits."""
    table = np.cumsum(binomial(size, np.clip(np.arange(size + 1) / size, 1e-12, 1 - 1e-12)), axis=1)
    return np.stack([(table < share).sum(axis=1) / size for share in (0.025, 0.975)], 1)


def coverage(size: int, of_hits: np.ndarray, rates: Iterable[float]) -> np.ndarray:
    """The probability that the interval holds each share."""
    rates = np.asarray(list(rates))
    holds = (of_hits[:, 0] <= rates[:, None]) & (rates[:, None] <= of_hits[:, 1])
    found: np.ndarray = (binomial(size, rates) * holds).sum(axis=1)
    return found


def main() -> None:
    """Print a line for each number of samples."""
    print(f"{'samples':>7}  " + "  ".join(f"{rate:>5.0%}" for rate in RATES) + "  least  mean   bootstrap, mean")
    for size in SIZES:
        exact = ends(size)
        of_rates, of_grid = coverage(size, exact, RATES), coverage(size, exact, GRID)
        drawn = coverage(size, percentiles(size), GRID).mean()
        cells = [*of_rates, of_grid.min(), of_grid.mean(), drawn]
        print(f"{size:>7,}  " + "  ".join(f"{100 * each:5.1f}" for each in cells))


if __name__ == "__main__":
    main()
