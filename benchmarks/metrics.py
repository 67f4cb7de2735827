"""Time the area under the ROC curve, in buckets, exact and resampled, against NumPy, scikit-learn and torchmetrics.

    python benchmarks/metrics.py [--rounds FACTOR] [--write benchmarks/README.md]

The variants of a part take turns, round after round, each round beginning with another one, in the same process; ratios
are those of the same round. torch has one thread. Scores are those of a click model at a rate of 16 %, as float32
unless another dtype is named; labels are int64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _report import HEADER, Target, arguments, in_turn, machine, quotient, row, seconds, table, write

SAMPLES, BATCH, BUCKETS = 1_000_000, 4096, 4096
EXACT = 10_000_000
RESAMPLED, REPLICATES, PART = 2_000_000, 200, 20
FEW = 10
ROUNDS = {"stream": 60, "torchmetrics": 5, "exact": 5}


def main() -> None:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    import sklearn
    import torch
    import torchmetrics

    torch.set_num_threads(1)
    versions = {
        "NumPy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": torch.__version__,
        "torchmetrics": torchmetrics.__version__,
    }
    rows = [*of_stream(options.rounds), *of_torchmetrics(options.rounds), *of_exact(options.rounds), of_bootstrap()]
    text = f"{machine(versions)}\n\n{table(HEADER, rows)}"
    print(text)
    if options.write:
        write(options.write, "metrics", text)


def draw(samples: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """Calibrated scores and labels."""
    rng = np.random.default_rng(0)
    score = (1 / (1 + np.exp(-rng.normal(-2, 1.2, samples)))).astype(dtype)
    return score, (rng.random(samples) < score).astype(np.int64)


def batches(score: Any, label: Any) -> list[tuple[Any, Any]]:
    return [(score[start : start + BATCH], label[start : start + BATCH]) for start in range(0, len(score), BATCH)]


def stream(parts: list[tuple[Any, Any]]) -> float:
    """Add the batches to an `AUC`, and compute it."""
    import fleetmetrics

    metric = fleetmetrics.AUC(buckets=BUCKETS)
    for score, label in parts:
        metric.add(score, label)
    return float(metric.compute())


# In batches, against the least that NumPy can do


def of_stream(factor: float) -> list[list[str]]:
    """Against the same histogram with linear buckets by hand, without any check; and against counting alone."""
    from fleetmetrics.formulas import auc_from_histogram

    rows = []
    for dtype in ("float32", "float64"):
        parts = batches(*draw(SAMPLES, dtype))
        ready = [_place(*part) for part in parts]

        def by_hand(parts: Any = parts) -> float:
            counts = np.zeros(2 * BUCKETS, np.int64)
            for part in parts:
                counts += np.bincount(_place(*part), minlength=2 * BUCKETS)
            return auc_from_histogram(counts[BUCKETS:], counts[:BUCKETS])

        def counting(ready: Any = ready) -> None:
            counts = np.zeros(2 * BUCKETS, np.int64)
            for places in ready:
                counts += np.bincount(places, minlength=2 * BUCKETS)

        np.testing.assert_allclose(stream(parts), by_hand(), atol=1e-4)
        variants = {"ours": lambda parts=parts: stream(parts), "by hand": by_hand, "counting": counting}
        times = in_turn(variants, round(factor * ROUNDS["stream"]))
        what = f"`AUC`, {SAMPLES:,} {dtype} in batches of {BATCH:,}"
        against = "`numpy.bincount` by hand: bucket, count, add"
        rows.append(row(what, against, times["ours"], times["by hand"], Target("<=", 2.5)))
        against = "`numpy.bincount` of indices that are there, add"
        rows.append(for_comparison(what, against, times["ours"], times["counting"]))
    return rows


def _place(score: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Paddle's bucket and the label in one index."""
    return (score * (BUCKETS - 1)).astype(np.int64) + BUCKETS * label


def for_comparison(what: str, against: str, ours: np.ndarray, theirs: np.ndarray) -> list[str]:
    """A line with no target."""
    text = f"{quotient(ours / theirs)} x as long"
    return [what, seconds(ours), against, seconds(theirs), str(len(ours)), text, "", ""]


def of_torchmetrics(factor: float) -> list[list[str]]:
    """The first batches of the stream against the metric with the same number of thresholds: all would take minutes."""
    import torch
    from torchmetrics.classification import BinaryAUROC

    parts = batches(*draw(SAMPLES))[:FEW]
    tensors = [tuple(map(torch.from_numpy, part)) for part in parts]

    def theirs() -> float:
        metric = BinaryAUROC(thresholds=BUCKETS)
        for score, label in tensors:
            metric.update(score, label)
        return float(metric.compute())

    np.testing.assert_allclose(stream(parts), theirs(), atol=1e-4)
    times = in_turn({"ours": lambda: stream(parts), "theirs": theirs}, round(factor * ROUNDS["torchmetrics"]))
    what = f"`AUC`, {FEW * BATCH:,} float32 in batches of {BATCH:,}"
    against = f"torchmetrics `BinaryAUROC(thresholds={BUCKETS})`"
    return [row(what, against, times["ours"], times["theirs"], Target(">=", 50))]


# Exact


def of_exact(factor: float) -> list[list[str]]:
    """All samples at once, against a sort of the scores, and of the scores' bits as 64-bit keys."""
    from sklearn.metrics import roc_auc_score

    import fleetmetrics
    from fleetmetrics.formulas import exact_auc

    rows = []
    for dtype in ("float64", "float32"):
        score, label = draw(EXACT, dtype)
        keys = score.astype(np.float64).view(np.int64)

        def metric(score: Any = score, label: Any = label) -> float:
            area = fleetmetrics.ExactAUC()
            area.add(score, label)
            return float(area.compute())

        variants = {
            "formula": lambda score=score, label=label: exact_auc(score, label),
            "metric": metric,
            "sort": lambda keys=keys: np.sort(keys),
            "scores": lambda score=score: np.sort(score),
            "sklearn": lambda score=score, label=label: roc_auc_score(label, score),
        }
        np.testing.assert_allclose(variants["formula"](), variants["sklearn"](), rtol=1e-12)
        assert metric() == variants["formula"]()
        times = in_turn(variants, round(factor * ROUNDS["exact"]))
        for name, what in (("formula", "`formulas.exact_auc`"), ("metric", "`ExactAUC`, `add` and `compute`")):
            what = f"{what}, {EXACT:,} {dtype}"
            rows.append(row(what, "`numpy.sort` of 64-bit keys", times[name], times["sort"], Target("<=", 1.3)))
            if dtype == "float32":
                rows.append(for_comparison(what, "`numpy.sort` of the scores", times[name], times["scores"]))
            rows.append(row(what, "`roc_auc_score`", times[name], times["sklearn"], Target(">=", 3)))
    return rows


# Resampled


def of_bootstrap() -> list[str]:
    """Replicates by the ids of the samples, against the same weights and histograms by hand, without the ids."""
    import fleetmetrics

    score, label = draw(RESAMPLED)
    ids, rng = np.arange(RESAMPLED), np.random.default_rng(0)
    places = _place(score, label)

    def ours() -> None:
        metric = fleetmetrics.Bootstrap(fleetmetrics.AUC(buckets=BUCKETS), replicates=REPLICATES, ids="sample")
        metric.add(score, label, sample=ids)
        metric.compute()

    def by_hand() -> None:
        for _ in range(REPLICATES // PART):
            np.bincount(places, rng.poisson(1, RESAMPLED), 2 * BUCKETS)

    times = in_turn({"ours": ours, "by hand": by_hand}, 3)
    what = f"`Bootstrap(AUC())` by ids, {REPLICATES} replicates of {RESAMPLED:,}"
    against = f"`poisson` and `bincount` by hand, {PART} times {REPLICATES // PART} of them"
    line = for_comparison(what, against, times["ours"], PART * times["by hand"])
    return [*line[:-2], "at most 10 s", "yes" if np.median(times["ours"]) <= 10 else "no"]


if __name__ == "__main__":
    main()
