"""Hybrid jobs: data, sharding and tensor parallelism, by Paddle's own topology and groups, on real workers.

Paddle cannot reliably connect a dozen process groups of Gloo on one machine, so the tests imitate
``fleet.init`` as far as process groups go; ranks, axes and coordinates are Paddle's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from tests.cover import thorough
from tests.distributed.cluster import run

pytestmark = pytest.mark.distributed
WORKER = Path(__file__).parent / "workers" / "hybrid.py"
SAMPLES = 42


@pytest.fixture(
    scope="module", params=[(2, 1, 1, 1, 2), *thorough((2, 1, 2, 1, 2))], ids=["dp 2, mp 2", "dp 2, sharding 2, mp 2"]
)
def job(request: Any) -> tuple[tuple[int, ...], list[dict[str, Any]]]:
    workers = int(np.prod(request.param))
    return request.param, run(WORKER, workers, args={"dims": request.param, "samples": SAMPLES, "odd": 3})


def test_each_sample_counts_once_with_several_copies_of_the_model(job: Any) -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.random(SAMPLES), rng.integers(0, 2, SAMPLES)
    alone = fm.MetricCollection({"auc": fm.AUC(), "exact": fm.ExactAUC(), "n": fm.Count()})
    alone.add(scores, labels)
    for report in job[1]:
        assert report["value"] == alone.compute_local()
        assert report["value"]["n"] == SAMPLES


def test_a_group_of_paddles_is_for_its_members(job: Any) -> None:
    _, reports = job
    members = [rank for rank in range(len(reports)) if rank % 2 == 0]
    for rank, report in enumerate(reports):
        if rank in members:
            assert report["by_group"] == report["value"]
        else:
            assert f"this worker is rank {rank}, which is not in it" in report["outside"]


def test_copies_that_differ_are_an_error_on_their_workers_with_the_ranks_in_the_job(job: Any) -> None:
    for rank, report in enumerate(job[1]):
        if rank in (2, 3):
            assert report["apart"].startswith("AgreementError: the copies differ in 'eval.3.histogram'")
            assert " on rank 2, " in report["apart"] and " on rank 3. Workers that see the same" in report["apart"]
            assert report["apart"] == job[1][2]["apart"]
        else:
            assert report["apart"] == "no error, but None"


def test_a_group_argument_that_names_no_workers_is_refused(job: Any) -> None:
    for report in job[1]:
        assert report["copies"].startswith("InvalidInputError: group is None; it must say which workers hold copies")
        assert "group is a topology of 2 workers, but the job has" in report["wrong"]
