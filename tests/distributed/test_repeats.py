"""A metric that is not told of the sampler warns, on every worker, if that repeated samples; and only then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cover import quick_on, thorough
from tests.distributed.cluster import run

pytestmark = [pytest.mark.distributed, quick_on(paddle=3)]
WORKER = Path(__file__).parent / "workers" / "repeats.py"
RECORDS = {"records": ("InOrder", "compute"), "an evaluator": ("Seen", "evaluate")}
RECORDS["an evaluator's metric"] = RECORDS["an evaluator"]


@pytest.fixture(scope="module", params=[3, *thorough(1, 2)])
def reports(request: Any) -> list[dict[str, Any]]:
    return run(WORKER, request.param, args={})


def test_every_worker_warns_once_with_the_line_to_write(reports: list[dict[str, Any]]) -> None:
    workers = len(reports)
    for case, texts in reports[0]["counting"].items():
        assert [report["counting"][case] for report in reports] == [texts] * workers
    found = reports[0]["counting"]
    assert found.pop("kept")
    for case, texts in found.items():
        if workers == 1 or case.startswith("dropped"):
            assert texts == [], case
            continue
        assert len(texts) == 1, (case, texts)
        (text,) = texts
        assert "but the data set has 53: those that it repeats" in text
        if case in RECORDS:
            name, call = RECORDS[case]
            made = "Evaluator" if call == "evaluate" else name
            assert text.startswith(f"{name}: ")
            assert text.endswith(f"Create {made}(..., sampler=sampler), or call {call}(size=53)")
        else:
            assert text.startswith("it (") and "(..., sampler=sampler), or " in text
    if workers == 3:
        assert found["in order"] == [
            "it (Accuracy): each worker added the 18 samples that DistributedBatchSampler assigns to it, 54 in all, "
            "but the data set has 53: those that it repeats, so that all workers get the same number, count again. "
            "Create Accuracy(..., sampler=sampler), or Accuracy(..., size=53) to check"
        ]


def test_nothing_is_said_where_no_repeat_counts_or_where_nobody_knows(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert {case: texts for case, texts in report["not_counting"].items() if texts} == {
            "kept": report["not_counting"]["kept"]
        }


def test_a_size_has_a_warning_of_its_own(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert len(report["of_size"]) == (len(reports) > 1)
        assert all("were counted, but the data set has 53 (size=)" in text for text in report["of_size"])
