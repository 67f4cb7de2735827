"""The backend "mpi4py", under a real mpirun."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.cluster import SLACK, run

pytestmark = pytest.mark.distributed
WORKER = Path(__file__).parent / "workers" / "mpi.py"


@pytest.mark.parametrize("workers", [1, 3])
def test_metrics_are_global_and_the_same_on_every_rank(workers: int) -> None:
    reports = run(WORKER, workers, "mpi", args={"case": "metrics"})
    ranks = range(workers)
    assert [(report["rank"], report["world"]) for report in reports] == [(rank, workers) for rank in ranks]
    for report in reports:
        assert report["total"] == sum(rank + 1 for rank in ranks)
        assert report["records"] == [10 * rank + i for rank in ranks for i in range(rank)]
        assert report["error"] == reports[0]["error"]
        assert report["same"]


def test_without_the_backend_a_metric_is_an_error_that_names_it() -> None:
    for report in run(WORKER, 2, "mpi", args={"case": "not_chosen"}):
        assert report["error"].startswith("NoChannelError: ")
        assert "get_dist_backend('mpi4py')" in report["error"]


def test_a_rank_that_does_not_come_is_an_error_before_the_deadline() -> None:
    first, second = run(WORKER, 2, "mpi", args={"case": "one_is_missing"})
    assert first["error"].startswith("DeadlineError: not all of the 2 MPI ranks made the communicator within 1 s")
    assert first["seconds"] < 1 + SLACK and second["done"]
