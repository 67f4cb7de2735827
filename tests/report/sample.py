"""A result such as `fleetmetrics evaluate` makes: a new day against an old one, fifty slots and fifty channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fleetmetrics as fm
from fleetmetrics.support.vocabulary import described

#: What data may contain and a page must only show.
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>document.title='broken'</script><!--",
    "\"><img src=x onerror=alert(1)> & 'quoted'",
    "שלום עולם",
    "\u202eevil.exe",
    "首页推荐位",
    "a_name_without_any_blank_" * 8,
]


ABOUT = {
    "auc": fm.AUC(),
    "log_loss": fm.LogLoss(),
    "gauc": fm.GAUC(),
    "calibration": fm.Calibration(),
    "expected_calibration_error": fm.ExpectedCalibrationError(),
    "f1": fm.F1(num_classes=3, average=None),
    "count": fm.Count(),
}


def slices(names: list[str], seed: int) -> list[dict[str, Any]]:
    """Slices around an AUC of 0.77, sorted by harm: what is worse first."""
    rng = np.random.default_rng(seed)
    rows = rng.multinomial(2_000_000, rng.dirichlet(np.full(len(names), 0.7)))
    found = []
    for name, count in zip(names, (rows + 50).tolist()):
        half = 0.6 / count**0.5
        value = float(np.clip(0.77 + rng.normal(0, 0.012) + rng.normal(0, half / 2), 0.5, 0.99))
        share, difference = count / 2_000_000, value - 0.77123
        within, harm = abs(difference) <= half, max(-difference, 0.0) * share
        verdict = "within chance" if within else "worse" if harm else "better"
        found.append(
            {"key": name, "rows": count, "share": share, "metric": "auc", "value": value, "low": value - half}
            | {
                "high": value + half,
                "difference": difference,
                "harm": None if within else harm,
                "positives": count // 30,
            }
            | {"verdict": verdict, "within_chance": within, "needs": {}, "p": 0.1, "q": 0.2 if within else 0.01}
            | {"metrics": {"auc": value, "calibration": 1 + difference, "ctr": 0.03 + share}}
        )
    return sorted(found, key=lambda each: math.inf if each["harm"] is None else -each["harm"])


def result() -> dict[str, Any]:
    """Everything that a result can hold."""
    files = [f"predictions/day=2026-11-21/part-{part:05d}.parquet" for part in range(14)]
    data = {"files": [*files, 'it\'s "quoted" & <b>bold</b>.parquet', HOSTILE[-1] + ".parquet"], "rows": 2_000_000}
    asked = {"task": "binary", "columns": {"label": "y", "prediction": "p", "weight": "w", "user": "uid"}}
    return {
        "auc": 0.7712345,
        "log_loss": 0.41266,
        "gauc": 0.741,
        "calibration": 1.0312,
        "expected_calibration_error": 0.0000213,
        "f1": [0.81, 0.5, None],
        "count": 2_000_000,
        "rows": 2_000_000,
        "auc_interval": {"low": 0.7701, "high": 0.7723},
        "log_loss_interval": {"low": 0.4116, "high": 0.4137},
        "gauc_interval": {"low": 0.738, "high": 0.744},
        "calibration_interval": {"low": 1.021, "high": 1.042},
        "auc_delta": {"value": 0.00203, "low": 0.00101, "high": 0.00305},
        "log_loss_delta": {"value": -0.0034, "low": -0.0051, "high": -0.0017},
        "gauc_delta": {"value": 0.0004, "low": -0.0012, "high": 0.002},
        "calibration_delta": {"value": -0.01, "low": None, "high": None},
        "data": {**data, "nulls": {"p": 0, "w": 12}, "skipped": 12, "date": "2026-11-22T18:00:00+00:00"}
        | {"examples": ["part-00003.parquet, row 17: w is null", HOSTILE[0]]},
        "asked": {**asked, "metrics": ["auc", "log_loss", "gauc", "calibration"], "by": ["slot", "channel"]}
        | {"ci": 0.95, "command": "fleetmetrics evaluate 'new/*.parquet' --label y --score p", "version": "0.1.0"},
        "about": {name: described(metric) for name, metric in ABOUT.items()},
        "slices": {
            "slot": slices([*HOSTILE, *(f"slot-{each}" for each in range(43))], 1),
            "channel": slices([f"channel {each:02d}" for each in range(50)], 2),
        },
        "baseline": {
            "auc": 0.76920,
            "log_loss": 0.41606,
            "gauc": 0.7406,
            "calibration": 1.0412,
            "data": {
                "files": ["old/1.parquet", "old/2.parquet"],
                "rows": 1_950_000,
                "date": "2026-11-21T18:00:00+08:00",
            },
        },
        "warnings": ["12 rows were skipped: w is null", f"slot {HOSTILE[0]} has 51 rows"],
    }


def collection(shift: float) -> fm.MetricCollection:
    """Metrics of scores that a model has given: the larger the shift, the better the model."""
    rng = np.random.default_rng(0)
    label = (rng.random(20_000) < 0.15).astype(np.int64)
    score = 1 / (1 + np.exp(1.5 - rng.normal(size=label.size) * 1.2 - label * shift))
    members = {"mae": fm.MeanAbsoluteError(), "auc": fm.AUC(), "calibration": fm.CalibrationCurve()}
    metrics = fm.MetricCollection(members)
    metrics.add(score, label)
    return metrics
