"""The channel under Paddle's own launchers, beside Paddle's own communication."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.cluster import Job, attempt

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="Paddle is not installed"),
]
WORKER = Path(__file__).parent / "workers" / "launchers.py"


def check(values: list[Any], workers: int = 2) -> None:
    hits, loss, top = values
    assert hits.tolist() == [workers * (2**24 + 1), -sum(range(workers))]
    assert loss.tolist() == [workers * 16777217.0, sum(0.1 * (rank + 1) for rank in range(workers))]
    assert top.tolist() == [workers - 1]


def start(case: str, launch: str, **args: Any) -> tuple[list[dict[str, Any]], list[str]]:
    return attempt(
        lambda: Job(WORKER, 2, launch, args={"case": case, **args}),
        lambda job: (job.wait(), [path.read_text() for path in job.directory.glob("server*")]),
    )


def test_collective_before_and_after_paddles_own_start() -> None:
    for report in start("collective", "collective")[0]:
        for name in ("before", "after", "with_fleet", "static"):
            check(report[name])
        assert report["paddle_total"] == 2
        assert report["dynamic"] and report["same"] and report["still_static"]


def test_collective_in_static_mode() -> None:
    for report in start("static_first", "collective")[0]:
        check(report["before"])
        check(report["after"])
        assert report["still_static"]


def test_parameter_servers_with_gloo_off_as_by_default() -> None:
    reports, servers = start("parameter_server", "ps")
    for report in reports:
        check(report["before"])
        check(report["after"])
        assert report["util"].startswith("NoChannelError: util.all_reduce answers for 1 worker, but")
    assert reports[0]["util"] == reports[1]["util"]
    assert all(text.startswith("ServerProcessError") for text in servers) and len(servers) == 1


def test_parameter_servers_with_gloo_on() -> None:
    reports, _ = start("parameter_server", "ps_gloo", gloo=True)
    for rank, report in enumerate(reports):
        for name in ("before", "after", "util"):
            check(report[name])
        assert (report["rank"], report["world"]) == (rank, 2)
        assert [part.tolist() for part in report["util_gathered"]] == [[0], [0, 1]]
        assert report["util_large"] == 2.0
        assert "shape [1] on rank 0, [2] on rank 1" in report["util_error"]
        assert "rank 1 did not arrive within 1 s" in report["util_late"]
    assert reports[0]["util_error"] == reports[1]["util_error"]
    assert reports[0]["util_late"] == reports[1]["util_late"]
