"""Records that are processed in the order of a column: right and complete, in pieces of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cover import thorough
from tests.distributed.cluster import AT_ONCE, run

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]
WORKER = Path(__file__).parent / "workers" / "fold.py"
SAMPLES = 700
#: A worker's records are cut by its sketch; 2**24 is one piece.
ROUND_BYTES = [300, 5000, 2**24]


def samples(kind: str) -> dict[str, Any]:
    """All samples: one user has a third of them."""
    rng = np.random.default_rng(5)
    user = np.where(rng.random(SAMPLES) < 0.3, 17, rng.integers(0, 90, SAMPLES))
    users = user * 10**10 - 3 if kind == "integers" else np.array([f"user {each}" for each in user])
    return {"user": users, "score": rng.integers(0, 40, SAMPLES) / 8, "label": rng.integers(0, 2, SAMPLES)}


@pytest.fixture(scope="module", params=[3, *thorough(1, 2, 4)])
def reports(request: Any) -> list[dict[str, Any]]:
    return run(WORKER, request.param, args={"round_bytes": ROUND_BYTES})


def test_every_worker_reports_the_same(reports: list[dict[str, Any]]) -> None:
    assert [report["rank"] for report in reports] == list(range(len(reports)))
    for part in ("integers", "texts", "after"):
        assert all(repr(report[part]) == repr(reports[0][part]) for report in reports)


@pytest.mark.parametrize("kind", ["integers", "texts"])
def test_each_user_comes_once_and_with_all_samples(reports: list[dict[str, Any]], kind: str) -> None:
    everything = samples(kind)
    for size in ROUND_BYTES:
        found = reports[0][kind][str(size)]
        assert found["seen"] == sorted(set(everything["user"].tolist()))
        assert sorted(found["scores"]) == sorted(everything["score"].tolist())
    assert sorted(reports[0][kind]["unordered"]["scores"]) == sorted(everything["score"].tolist())
    assert reports[0][kind]["unordered"]["pieces"] == 1


def test_pieces_are_small_but_for_one_users_samples(reports: list[dict[str, Any]]) -> None:
    _, counts = np.unique(samples("integers")["user"], return_counts=True)
    found = [reports[0]["integers"][str(size)] for size in ROUND_BYTES]
    assert found[2]["pieces"] == 1
    if len(reports) > 1:
        assert found[0]["pieces"] > found[1]["pieces"] > 1
        assert found[0]["largest"] < counts.max() + 60


def test_metrics_of_a_collection_share_what_is_kept(reports: list[dict[str, Any]]) -> None:
    for kind in ("integers", "texts"):
        every = [reports[0][kind][f"collection {size}"] for size in ROUND_BYTES]
        assert all(each["tables"] == 2 for each in every)  # of clicks by user, and of answers to queries
        values = [each["values"] for each in every]
        assert all(value == pytest.approx(values[-1], rel=1e-12) for value in values)
        assert values[0]["n"] == SAMPLES


TOLD = {
    "texts_here": "AgreementError: it: the workers' records differ: user: numbers, score: numbers",
    "mixed_on_the_last": "it: user holds strings in some batches and numbers in others",
    "failing": "KeyError: 'in fold'",
    "other_metric": "AgreementError: the workers disagree at exchange ",
}


@pytest.mark.parametrize("case", TOLD)
def test_every_worker_raises_an_error_of_the_fold_at_once(reports: list[dict[str, Any]], case: str) -> None:
    texts = {report["troubles"][case][0] for report in reports}
    assert len(texts) == 1
    (text,) = texts
    if len(reports) == 1 and case in ("texts_here", "other_metric"):
        assert text.startswith("no error")
    else:
        assert TOLD[case] in text, text
    assert all(report["troubles"][case][1] < AT_ONCE for report in reports)
