"""PaddleRec's training loop as it is shipped: 16 threads, parameter servers, its own sum over `fleet.util`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cover import thorough
from tests.distributed.cluster import run
from tests.paddle_version import on_legacy_graph

pytestmark = pytest.mark.distributed
WORKER = Path(__file__).parent / "workers" / "rec_loop.py"
SAMPLES = 32 * 40


@on_legacy_graph
@pytest.mark.parametrize("workers", [3, *thorough(1)])
def test_every_epoch_counts_each_sample_once_on_any_number_of_workers(workers):
    reports = run(WORKER, workers, "ps", args={"theirs": False})
    for report in reports:
        assert report["epochs"] == reports[0]["epochs"]
        assert [numbers[:2] for numbers in report["epochs"]] == [[SAMPLES, SAMPLES]] * 2
        assert all(0.4 < area < 0.6 for _, _, area in report["epochs"])


@on_legacy_graph
@pytest.mark.thorough
def test_paddles_own_counts_are_too_large_there():
    """By 2**15, less what threads have lost: the reason for the lock."""
    for count in run(WORKER, 1, "ps", args={"theirs": True})[0]["epochs"]:
        assert 0.9 < count / (SAMPLES * 2**15) <= 1
