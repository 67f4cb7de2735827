"""Four real workers are broken off in the middle of a padded, shuffled pass; one, two, three or seven go on."""

from __future__ import annotations

import ast
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cover import quick_on, thorough
from tests.distributed.cluster import run

pytestmark = [pytest.mark.distributed, quick_on(paddle=2)]
WORKER = Path(__file__).parent / "workers" / "resume.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("job") / "checkpoint")


@pytest.fixture(scope="module")
def whole(folder: str) -> dict[str, Any]:
    return run(WORKER, 1, args={"folder": folder, "phase": "is whole"})[0]


@pytest.fixture(scope="module")
def broken_off(folder: str) -> dict[str, Any]:
    return run(WORKER, 4, args={"folder": folder, "phase": "is broken off"})[0]


@pytest.mark.parametrize("workers", [3, *thorough(1, 2, 4, 7)])
def test_the_final_value_is_that_without_the_break(
    workers: int, folder: str, whole: dict[str, Any], broken_off: dict[str, Any]
) -> None:
    reports = run(WORKER, workers, args={"folder": folder, "phase": "goes on"})
    assert all(report["remaining"] == 61 - broken_off["count"] >= 61 - 3 * 10 for report in reports)
    assert {report["loaded"] for report in reports} == {broken_off["values"]}  # sums of floats too
    assert {report["exact"] for report in reports} == {whole["exact"]}
    assert all(report["error"] == pytest.approx(whole["error"], rel=1e-14) for report in reports)
    assert all(report["order"] == whole["order"] == list(range(61)) for report in reports)
    assert all(report["evaluated"] == whole["evaluated"] for report in reports)


@pytest.mark.parametrize("workers", [2, *thorough(4)])
def test_without_strict_workers_take_what_both_sides_have(
    workers: int, folder: str, broken_off: dict[str, Any]
) -> None:
    before = ast.literal_eval(broken_off["values"])
    reports = run(WORKER, workers, args={"folder": folder, "phase": "goes on otherwise"})
    for report in reports:
        assert report["strict"].startswith("InvalidInputError: on rank"), report["strict"]
        assert "holds 'evaluator', 'metrics', 'order', but you gave 'metrics', 'new'" in report["strict"]
        assert report["strict"] == reports[0]["strict"] and report["differing"] == reports[0]["differing"]
        assert re.match("(InvalidInput|Agreement)Error: ", report["differing"]), report["differing"]
        assert report["held"] == [False, False]
        assert ast.literal_eval(report["values"]) == {
            name: before[name] for name in ("exact", "auc", "count", "by user")
        }
        assert math.isnan(report["undefined"]) and report["new"] == 0
        assert sorted(report["missing"]) == ["metrics.mean", "new"]
        assert sorted(report["unexpected"]) == ["evaluator", "metrics.error", "metrics.gauc", "order"]
