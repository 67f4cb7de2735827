"""Print how far `fleetmetrics.AUC` is from the exact AUC, by click rate and number of buckets.

    python docs/scripts/auc_buckets.py

Scores are calibrated probabilities: the sigmoid of a normal variable, shifted to the wanted rate, and the labels are
drawn with these probabilities. The exact AUC counts every pair.
"""

from __future__ import annotations

import numpy as np

import fleetmetrics

SAMPLES = 2_000_000
THRESHOLDS = (199, 4095, 65_535, 1_048_575)
SHIFTS = (-2.0, -4.5, -6.8, -9.2)
"""Of the scores' log-odds, whose standard deviation is 1.2."""


def exact_auc(score: np.ndarray, label: np.ndarray) -> float:
    """The share of pairs in the right order, ties counting half, from the ranks of the scores."""
    _, tie, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[tie]
    positives = int(label.sum())
    return float((rank[label == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(label) - positives)))


def main() -> None:
    """Print one line for each click rate."""
    random = np.random.default_rng(0)
    print(f"rate      exact AUC  {'  '.join(f'{top + 1:>9,}' for top in THRESHOLDS)}  buckets")
    for shift in SHIFTS:
        score = 1 / (1 + np.exp(-random.normal(shift, 1.2, SAMPLES)))
        label = (random.random(SAMPLES) < score).astype(np.int64)
        exact = exact_auc(score, label)
        errors = []
        for top in THRESHOLDS:
            metric = fleetmetrics.AUC(num_thresholds=top)
            metric.add(score, label)
            errors.append(f"{metric.compute() - exact:+9.6f}")
        print(f"{label.mean():7.3%}   {exact:9.6f}  {'  '.join(errors)}", flush=True)


if __name__ == "__main__":
    main()
