"""Evaluations of one row, one positive, one class: a sound result, or an error that names what is wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.evaluation import compare
from tests import tiny

pytestmark = [
    pytest.mark.numpy_only,
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning"),
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.BucketWarning"),
]
pytest.importorskip("pyarrow")

BINARY = ("log_loss", "click_through_rate", "auc", "brier_score", "accuracy", "f1", "recall", "precision")
BINARY = (*BINARY, "specificity", "jaccard", "calibration", "copc", "normalized_entropy", "gauc")
ROWS = 200


def side(rare: int, seed: int = 0, label: int | None = None) -> dict[str, np.ndarray]:
    """Two slices with many rows, and one with few, whose labels may be all alike."""
    random = np.random.default_rng(seed)
    label_of_all, slot = random.integers(0, 2, ROWS), np.arange(ROWS) % 2 + 1
    slot[:rare] = 0
    if label is not None:
        label_of_all[:rare] = label
    user = random.integers(0, 60, ROWS)
    return {"y": label_of_all, "p": random.random(ROWS), "s": slot, "u": user, "w": random.random(ROWS)}


#: Their outcome was wrong once: an overflow in the report, an interval of an undefined value.
ONCE_WRONG = (180, 919)


def test_tiny_evaluations_hold_together(tmp_path: Path) -> None:
    seeds = [*range(8), *ONCE_WRONG]
    found = {seed: tiny.outcome(tiny.drawn(seed), tmp_path, report=seed == 180) for seed in seeds}
    wrong = {seed: each for seed, each in found.items() if each.kind not in ("result", "named")}
    assert not wrong
    assert sum(each.kind == "result" for each in found.values()) > 5


@pytest.mark.parametrize("metric", BINARY)
def test_a_slice_of_one_row_is_too_few(metric: str) -> None:
    for new, old, label in ((1, 1, 0), (5, 1, 1)):
        result = fm.evaluate(
            side(new, 0, label),
            baseline=side(old, 1, label),
            label="y",
            score="p",
            user="u" if metric == "gauc" else None,
            by="s",
            metrics=metric,
            processes=1,
        )
        (few,) = [each for each in result.versus["s"].slices if each.key == 0]
        assert few.verdict == "too few" or math.isnan(few.delta)
        assert few.needs or few.verdict is None
        assert math.isnan(few.p) and math.isnan(few.q) and math.isnan(few.low)


@pytest.mark.parametrize(
    "metric, options",
    [
        *((metric, {"user": "u"} if metric == "gauc" else {}) for metric in BINARY),
        *((metric, {"user": "u"}) for metric in ("auc", "calibration", "f1")),
        *((metric, {"weight": "w"}) for metric in ("auc", "calibration", "f1")),
        ("recalibrated_normalized_entropy", {}),
    ],
)
def test_one_class_on_a_side_or_both(metric: str, options: dict[str, str]) -> None:
    mixed, ones, zeros = (side(3, 0), *({**side(3, 1), "y": np.full(ROWS, label)} for label in (1, 0)))
    for new, old in ((ones, zeros), (zeros, mixed)):
        result = fm.evaluate(
            new, baseline=old, label="y", score="p", by="s", ci=0.95, metrics=metric, processes=1, **options
        )
        assert not list(tiny.faults(result))


@pytest.mark.parametrize("metric", ["log_loss", "precision"])
def test_saved_states_of_one_row(metric: str, tmp_path: Path) -> None:
    for rows, name in ((1, "new"), (2, "old")):
        data = {each: values[:rows] for each, values in side(1, rows).items()}
        fm.evaluate(data, label="y", score="p", by="s", ci=0.95, metrics=metric, processes=1).save_state(
            tmp_path / name
        )
    result = compare(tmp_path / "new", tmp_path / "old")
    assert not list(tiny.faults(result))
    assert {each.verdict for each in result.versus["s"].slices} <= {"too few", None}


def test_a_metric_that_is_no_number_ranks_no_slices() -> None:
    result = fm.evaluate(side(3), label="y", score="p", by="s", metrics="histogram", processes=1)
    assert [each.verdict for each in result.slices["s"]] == [None] * 3


def test_parts_of_an_infinite_delta_are_unknown() -> None:
    none = {**side(3), "y": np.zeros(ROWS, int)}
    result = fm.evaluate(none, baseline=side(3), label="y", score="p", by="s", metrics="calibration", processes=1)
    assert result.values["calibration"] == math.inf or math.isnan(result.values["calibration"])
    assert all(math.isnan(each.added) for each in result.versus["s"].slices)
