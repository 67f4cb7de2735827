"""The channel under Paddle's own launchers, beside Paddle's own communication."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cover import quick_on
from tests.distributed.cluster import ROOT, Job, attempt, free_ports

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


@quick_on(paddle=3)
def test_collective_in_static_mode() -> None:
    for report in start("static_first", "collective")[0]:
        check(report["before"])
        check(report["after"])
        assert report["still_static"]


@quick_on(paddle=2)
def test_parameter_servers_with_gloo_off_as_by_default() -> None:
    reports, servers = start("parameter_server", "ps")
    for report in reports:
        check(report["before"])
        check(report["after"])
        check(report["util"])
        assert report["same"]
        assert report["by_gloo"].startswith("NoChannelError: util.all_reduce covers 1 worker, but there are 2")
    assert all(text.startswith("ServerProcessError") for text in servers) and len(servers) == 1


@quick_on(paddle=2)
def test_parameter_servers_with_gloo_on() -> None:
    reports, _ = start("parameter_server", "ps_gloo", gloo=True)
    for rank, report in enumerate(reports):
        for name in ("before", "after", "util", "by_gloo"):
            check(report[name])
        assert (report["rank"], report["world"]) == (rank, 2)
        assert [part.tolist() for part in report["util_gathered"]] == [[0], [0, 1]]
        assert report["util_large"] == 2.0
        assert "shape [1] on rank 0, [2] on rank 1" in report["util_error"]
    assert reports[0]["util_error"] == reports[1]["util_error"]


ONE_SUM = """
import os
import fleetmetrics as fm
if os.environ["TRAINING_ROLE"] == "TRAINER":
    metric = fm.Sum()
    metric.add([float(os.environ["OWN"]) + int(os.environ["PADDLE_TRAINER_ID"])])
    print("value", metric.compute(timeout=60), flush=True)
"""


@pytest.mark.thorough
def test_two_launches_with_the_same_ports_are_both_right(tmp_path: Path) -> None:
    """The launcher's own names keep the runs apart; the user sets nothing."""
    script = tmp_path / "one_sum.py"
    script.write_text(ONE_SUM)
    server, *workers = (f"127.0.0.1:{port}" for port in free_ports(3))
    command = [sys.executable, "-m", "paddle.distributed.launch", "--servers", server, "--workers", ",".join(workers)]
    foreign = ("PADDLE_", "FLEETMETRICS_", "TRAINING_")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    launchers = []
    try:
        for own in (100, 200):
            log = tmp_path / str(own)
            launchers.append(
                subprocess.Popen(
                    [*command, "--log_dir", str(log), str(script)],
                    cwd=tmp_path,
                    env={**environment, "OWN": str(own), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
        for launcher in launchers:
            launcher.wait(120)
    finally:
        for launcher in launchers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(launcher.pid, signal.SIGKILL)
            launcher.wait()
    for own in (100, 200):
        said = [(tmp_path / str(own) / f"workerlog.{rank}").read_text() for rank in range(2)]
        assert all(f"value {2.0 * own + 1}" in text for text in said), said
