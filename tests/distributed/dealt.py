"""Metrics over records, and the samples that mpirun's workers deal among themselves; it does not import pytest."""

from __future__ import annotations

from typing import Any

import numpy as np

import fleetmetrics as fm

RECORD_METRICS: dict[str, Any] = {
    "gauc": fm.GAUC,
    "exact auc": fm.ExactAUC,
    "average precision": lambda **given: fm.ExactAUC(curve="PR", **given),
    "ndcg": lambda **given: fm.NDCG(by="user", k=[1, 3], **given),
    "kendall": fm.KendallCorrelation,
    "sliced": lambda **given: fm.Sliced(fm.GAUC(), **given),
}


def dealt(metric: Any, rank: int, workers: int) -> Any:
    """Give a metric the samples of a worker, of which the last one of several has none."""
    rng = np.random.default_rng(5)
    n = 3000
    user, slot, score = rng.integers(0, 200, n), rng.integers(0, 3, n), rng.integers(0, 500, n) / 512
    given = {"prediction": score, "label": (rng.random(n) < score).astype(np.int64)}
    mine = np.arange(n) % max(1, workers - 1) == rank
    of_user = {"user": user, "slot": slot}
    columns = {name: of_user[name][mine] for name in metric.columns}
    metric.add(**{name: column[mine] for name, column in given.items()}, **columns)
    return metric
