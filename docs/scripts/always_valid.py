"""Count the false alarms of a gate that is asked every day: intervals of one look against those of all looks.

    python docs/scripts/always_valid.py [--runs 400]

Two models that are equally good score the same rows; each day brings new ones, and the delta of all rows so far is
checked again. An alarm is a day whose interval of 95 % has no zero in it; a run has a false one if any of its days
does. Runs whose first days have too few rows for an interval have no alarm on these. ``tightest`` is what
``--always-valid`` says, against the rows of all days.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from typing import Any

import numpy as np

import fleetmetrics as fm
from fleetmetrics.formulas.sequences import always_valid

DAYS = 20
ROWS = (100, 500, 2_000)
"""Of a day."""
TIGHTEST = (0.1, 1.0)
METRICS = {"log_loss": fm.LogLoss, "auc": lambda: fm.AUC(tolerance=None)}


def drawn(rows: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, and the scores of two models that are wrong by as much, but not alike."""
    logit = random.normal(-1, 1, rows)
    label = random.random(rows) < 1 / (1 + np.exp(-logit))
    one, other = (1 / (1 + np.exp(-logit - random.normal(0, 0.5, rows))) for _ in range(2))
    return label.astype(np.int64), one, other


def alarms(metric: Any, rows: int, random: np.random.Generator, days: int = DAYS) -> list[bool]:
    """Whether any day of a run has an alarm: of intervals of one look, and of all looks by `TIGHTEST`."""
    sides = [fm.Interval(metric(), ids="id", groups=1024) for _ in range(2)]
    found = [False] * (1 + len(TIGHTEST))
    for day in range(days):
        label, *scores = drawn(rows, random)
        for side, score in zip(sides, scores):
            side.add(score, label, id=np.arange(day * rows, (day + 1) * rows))
        delta = fm.paired_difference(*(side.compute() for side in sides))
        looks = [delta]
        for part in TIGHTEST:
            looks.append(always_valid(delta.value, delta.std, (day + 1) * rows, part * days * rows))
        found = [before or each.low > 0 or each.high < 0 for before, each in zip(found, looks)]
    return found


def main(runs: int = 400, sizes: tuple[int, ...] = ROWS, metrics: tuple[str, ...] = tuple(METRICS)) -> None:
    """Print a line for each metric and size."""
    head = ["metric", "rows a day", "ordinary interval", *(f"tightest at {part:g} of all" for part in TIGHTEST)]
    print(f"| {' | '.join(head)} |")
    print("| --- |" + " ---: |" * (len(head) - 1))
    began = time.time()
    for name in metrics:
        for rows in sizes:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", fm.UndefinedMetricWarning)
                made = [alarms(METRICS[name], rows, np.random.default_rng([rows, run])) for run in range(runs)]
            shares = [f"{share:.1%}" for share in np.mean(made, axis=0)]
            print(f"| {name} | {rows:,} | {' | '.join(shares)} |", flush=True)
    noise = 2 * math.sqrt(0.05 * 0.95 / runs)
    by_chance = f"5 % is {0.05 - noise:.1%} to {0.05 + noise:.1%} by chance"
    print(f"\n{runs:,} runs of {DAYS} days each; {by_chance}; {time.time() - began:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400)
    main(parser.parse_args().runs)
