"""Print how far `fleetmetrics.AUC` is from the exact AUC, by click rate, spacing and number of buckets.

    python docs/scripts/auc_buckets.py

Scores are calibrated probabilities: the sigmoid of a normal variable, shifted to the wanted rate, and the labels are
drawn with these probabilities. The last two columns are how far the guaranteed bounds lie on either side of the value,
with 4,096 buckets.
"""

from __future__ import annotations

import numpy as np

import fleetmetrics

SAMPLES = 2_000_000
LAYOUTS = (("linear", 4_096), ("linear", 65_536), ("linear", 1_048_576), ("log_odds", 4_096))
BOUNDED = (("linear", 4_096), ("log_odds", 4_096))
SHIFTS = (-2.0, -4.5, -6.8, -9.2)
"""Of the scores' log-odds, whose standard deviation is 1.2."""


def main() -> None:
    """Print one line for each click rate."""
    random = np.random.default_rng(0)
    names = [spacing.replace("_", "-") for spacing, _ in (*LAYOUTS, *BOUNDED)]
    numbers = [f"{buckets:,}" for _, buckets in LAYOUTS] + [f"+- {buckets:,}" for _, buckets in BOUNDED]
    print(f"{'':19}  {'  '.join(name.rjust(9) for name in names)}".rstrip())
    print(f"rate      exact AUC  {'  '.join(number.rjust(9) for number in numbers)}")
    for shift in SHIFTS:
        score = 1 / (1 + np.exp(-random.normal(shift, 1.2, SAMPLES)))
        label = (random.random(SAMPLES) < score).astype(np.int64)
        exact = fleetmetrics.ExactAUC()
        exact.add(score, label)
        area = exact.compute()
        found = {}
        for spacing, buckets in LAYOUTS:
            metric = fleetmetrics.AUC(spacing=spacing, buckets=buckets, bounds=True)
            metric.add(score, label)
            found[spacing, buckets] = metric.compute()
        errors = [f"{found[layout].value - area:+9.6f}" for layout in LAYOUTS]
        bounds = [f"{(found[layout].high - found[layout].low) / 2:9.6f}" for layout in BOUNDED]
        print(f"{label.mean():7.3%}   {area:9.6f}  {'  '.join([*errors, *bounds])}", flush=True)


if __name__ == "__main__":
    main()
