"""Count how often a Bootstrap's interval of 95 % holds the true value, of KolmogorovSmirnov and of AUC.

    python docs/scripts/coverage.py [--sets 200]

A data set has as many samples as its line says, 30 % of them clicks. Scores are normal, those of clicks one standard
deviation higher, so that the true values are known, except for the buckets of the metrics, which are fine.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import fleetmetrics as fm

CLICKS = 0.3
SAMPLES = (600, 6_000, 60_000)


def phi(x: float) -> float:
    """The share of a standard normal distribution below x."""
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


TRUE = {"KolmogorovSmirnov": 2.0 * phi(0.5) - 1.0, "AUC": phi(1.0 / math.sqrt(2.0))}


def intervals(samples: int, seed: int) -> dict[str, tuple[float, float]]:
    """Of one data set, by metric."""
    random = np.random.default_rng([samples, seed])
    click = random.random(samples) < CLICKS
    score = 1.0 / (1.0 + np.exp(-(random.standard_normal(samples) + click)))
    metrics = fm.MetricCollection({name: fm.Bootstrap(getattr(fm, name)(), seed=seed) for name in TRUE})
    metrics.add(score, click)
    return {name: (value.low, value.high) for name, value in metrics.compute().items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200, help="data sets of each size")
    sets = parser.parse_args().sets
    print(f"{'samples':>8}" + "".join(f"{name:>20}{'too high':>10}{'too low':>10}" for name in TRUE))
    for samples in SAMPLES:
        found = [intervals(samples, seed) for seed in range(sets)]
        line = f"{samples:8,}"
        for name, true in TRUE.items():
            high = sum(each[name][0] > true for each in found)
            low = sum(each[name][1] < true for each in found)
            line += f"{100 * (sets - high - low) / sets:18.0f} %{high:10}{low:10}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
