"""Four real workers are broken off in the middle of a padded, shuffled pass; one, two, three or seven go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.distributed.cluster import run

pytestmark = pytest.mark.distributed
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


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
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
