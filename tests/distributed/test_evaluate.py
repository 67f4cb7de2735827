"""`fleetmetrics.evaluate` under Paddle's launcher: every worker gets what one process finds in all files."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from tests.cover import quick_on
from tests.distributed.cluster import run

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="Paddle is not installed"),
]
pytest.importorskip("pyarrow")
WORKER = Path(__file__).parent / "workers" / "evaluate.py"
ROWS = 3_000


def written(folder: Path) -> None:
    """Three files of each side, whose rows are not all the same and lie in other files."""
    random = np.random.default_rng(3)
    y = random.integers(0, 2, ROWS)
    data = {"y": y, "uid": random.integers(0, 60, ROWS), "id": random.permutation(ROWS) * 10**6}
    data["slot"] = random.choice(["feed", "search", "video"], ROWS)
    for name, better in (("new", 0.2), ("old", 0.1)):
        rows = random.permutation(ROWS)[: ROWS - 400]
        side = {**data, "p": random.random(ROWS) * 0.5 + y * better, "key": data["id"] + (name == "old")}
        for place in range(3):
            np.savez(folder / f"{name}{place}.npz", **{each: array[rows[place::3]] for each, array in side.items()})


def alone(**given: Any) -> dict[str, Any]:
    result = fm.evaluate(**given, processes=1).to_dict()
    for data in (result["data"], result["baseline"]["data"]):
        del data["date"]
    found: dict[str, Any] = json.loads(json.dumps(result))
    return found


@quick_on(paddle=3)
def test_every_worker_gets_the_result_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetmetrics.evaluation.question.versus._GROUPS", 64)  # as in the worker
    written(tmp_path)
    asked: dict[str, Any] = {"data": f"{tmp_path}/new*", "baseline": f"{tmp_path}/old*", "label": "y", "score": "p"}
    asked.update(by="slot", metrics="auc,log_loss", ci=0.9, replicates=50)
    reports = run(WORKER, 2, "collective", args={"asked": asked})
    users = alone(**{**asked, "user": "uid", "metrics": "auc,log_loss,gauc"})
    joined = alone(**{**asked, "join": "inner", "join_on": "id"})
    assert users["rows"] == ROWS - 400 > joined["rows"] == joined["baseline"]["rows"] > 2_000
    assert joined["data"]["unmatched"] == ROWS - 400 - joined["rows"] and users["versus"]["slot"]["slices"]
    for each in reports:
        assert each["users"] == users and each["joined"] == joined
        assert each["wrong"].startswith("DataError: ") and "join_on=key: no id is on both sides" in each["wrong"]
        assert each["disagree"].startswith("AgreementError: the workers disagree at exchange ") and each["dynamic"]
        assert "evaluate: the ids of both sides on rank 0, evaluate on rank 1" in each["disagree"]
    assert all(reports[0][name] == reports[1][name] for name in ("wrong", "disagree"))
