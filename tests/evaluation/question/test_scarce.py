"""What is needed is never below what there is, and a large user is named as the reason."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.evaluation import compare
from fleetmetrics.evaluation.question.scarce import because_of_uneven, in_full, needs_of
from fleetmetrics.formulas.spreads import Spread, largest_of, users_of

pytestmark = [
    pytest.mark.numpy_only,
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning"),
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.BucketWarning"),
]
pytest.importorskip("pyarrow")

ROWS, USERS = 30_000, 12_000
ASKED: dict[str, Any] = {"label": "y", "score": "p", "user": "u", "ci": 0.95, "processes": 1, "replicates": 50}


def side(seed: int, heavy: float = 0.25, users: int = USERS) -> dict[str, np.ndarray]:
    """Rows of many users, of which one has a large part."""
    random = np.random.default_rng(seed)
    user = 1 + np.arange(ROWS) % (users - 1)
    user[: round(heavy * ROWS)] = 0
    score = random.random(ROWS)
    label = (random.random(ROWS) < 0.02 + 0.4 * score).astype(int)
    return {"y": label, "p": score, "u": user, "s": random.integers(0, 2, ROWS), "w": np.full(ROWS, 2.0)}


def entries_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Everything in a result that needs more."""
    if isinstance(found, list):
        return [entry for each in found for entry in entries_of(each)]
    if not isinstance(found, dict):
        return []
    below = [entry for each in found.values() for entry in entries_of(each)]
    return [found, *below] if found.get("needs") else below


@pytest.mark.parametrize("metrics", ["auc,log_loss,gauc,precision,average_precision", "auc", "log_loss", "precision"])
@pytest.mark.parametrize("weight", [None, "w"])
def test_a_need_is_above_what_there_is_and_a_large_user_is_its_reason(metrics: str, weight: str | None) -> None:
    found = fm.evaluate(side(1), baseline=side(2), by="s", metrics=metrics.split(","), weight=weight, **ASKED).to_dict()
    entries = entries_of(found)
    assert entries
    for entry in entries:
        for name, need in entry["needs"].items():
            total = entry.get(name) or {"rows": ROWS, "users": USERS}.get(name, 0)
            assert need > (total if name != "users" or "gauc" in metrics else min(total, USERS))
        because = entry["because"]
        assert because["unit"] == "users" and (because.get("share", 0) > 0.2 or because["like"] < 20)


def test_the_reason_is_in_the_text_the_report_and_the_message_of_a_gate() -> None:
    result = fm.evaluate(side(1), baseline=side(2), by="s", metrics=["log_loss", "gauc"], **ASKED)
    assert "too few for log_loss: one user has 25% of the rows" in str(result)
    few = result.to_dict()["log_loss_delta"]
    assert few["because"] == {"unit": "users", "share": pytest.approx(0.25, abs=0.001), "of": "rows"}
    (said,) = result.failed("log_loss_delta.high > 0")
    wanted = f"too few to tell, needs {few['needs']['users']:,} users, as one user has 25% of the rows"
    assert said.endswith(wanted)
    (said,) = result.failed("slices.s[1].log_loss_delta.high > 0")
    assert " as one user has 25% of the rows" in said
    assert "as one user has 25% of the rows" in result.to_html()
    assert "因为一个用户占行的 25%" in result.to_html(lang="zh")
    json.dumps(result.to_dict(), allow_nan=False)


def test_saved_states_have_the_reason(tmp_path: Path) -> None:
    for seed, name in ((1, "new"), (2, "old")):
        fm.evaluate(side(seed), by="s", metrics="auc", **ASKED).save_state(tmp_path / name)
    found = compare(tmp_path / "new", tmp_path / "old").to_dict()
    live = fm.evaluate(side(1), baseline=side(2), by="s", metrics="auc", **ASKED).to_dict()
    assert found["auc_delta"] == live["auc_delta"] and found["auc_delta"]["because"]["of"] == "rows"
    assert found["versus"] == live["versus"]


def test_users_alike_in_size_are_no_reason() -> None:
    found = fm.evaluate(side(1, 0, 30), baseline=side(2, 0, 30), metrics=["log_loss", "gauc"], **ASKED)
    assert 50 <= found.deltas["log_loss"].interval.needs["users"] < 100
    assert not any(each.get("because") for each in entries_of(found.to_dict()))


def test_rows_that_do_not_count_are_needed_too() -> None:
    """If 40 of 1,000 rows are predicted positives, 50 of them come from more than 1,000 rows."""
    data = {"y": np.arange(1000) % 2, "p": np.where(np.arange(1000) < 40, 0.9, 0.1)}
    result = fm.evaluate(data, baseline=data, label="y", score="p", metrics="precision", ci=0.95, processes=1)
    assert result.deltas["precision"].interval.needs["rows"] > 1000


def test_the_number_in_full_grows_at_the_same_rate_and_is_above_the_total() -> None:
    assert in_full(200, 100, 1000) == 2000 and in_full(200.5, 100, None) == 201
    assert in_full(50, 0, 1000) == 1001 and in_full(50, 30, 20) == 50
    spread = Spread(1.0, 1.0, {"users": (8192.0, 16384.0)}, np.ones(1024))
    assert needs_of([(spread, {"users": 80_000, "rows": 10**6})], "users") == {"users": 160_000}
    assert needs_of([(spread, {"users": math.inf, "rows": 10**6})], "users") == {"rows": 2 * 10**6}
    assert needs_of([(spread, {})], "users") == {"users": 16384}


def test_the_largest_user_is_told_from_a_group_of_many() -> None:
    groups = np.full(1024, 80.0)
    assert largest_of(groups, "rows") is None and users_of(groups) == math.inf
    groups[7] += groups.sum() / 3
    assert largest_of(groups, "rows") == (pytest.approx(0.25), "rows")
    few = np.zeros(1024)
    few[:40] = 1
    assert largest_of(few, "rows") is None and users_of(few) == pytest.approx(40, rel=0.05)
    assert largest_of(np.zeros(64), "rows") is None


def test_few_equal_users_are_no_reason_and_many_unequal_ones_are() -> None:
    assert because_of_uneven(13.2, 5000, "users") == {"unit": "users", "like": 13}
    assert because_of_uneven(13.2, 14, "users") == {} == because_of_uneven(60.0, 5000, "users")
