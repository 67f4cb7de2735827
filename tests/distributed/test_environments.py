"""The environments of launchers in real processes: the right number, a clear error, or one worker that is one."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetmetrics.comm.launchers import place_of
from fleetmetrics.support.launcher import LAUNCHERS
from tests.cover import quick_on
from tests.distributed.cluster import ROOT, Job, free_ports, unless_paddles_own
from tests.nursery import common
from tests.pages import both

pytestmark = pytest.mark.distributed
SCRIPT = ROOT / "docs" / "scripts" / "environments.py"
PAGES = both("howto/launchers")
WORKER = Path(__file__).parent / "workers" / "environments.py"


sys.path.insert(0, str(SCRIPT.parent))  # for what the scripts share
spec = importlib.util.spec_from_file_location("environments", SCRIPT)
script: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
sys.path.remove(str(SCRIPT.parent))


def printed(*arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of a launcher, but those that a test sets."""
    for name in [name for name in os.environ if name.startswith(("PADDLE_", "PMI_", "FLEETMETRICS_"))]:
        monkeypatch.delenv(name)


@pytest.mark.numpy_only
@pytest.mark.thorough
def test_no_environment_of_every_eighth_is_silently_local(plain: None) -> None:
    lines = printed("--every", "8")
    assert len(lines) == 1, "\n".join(lines)
    assert "0 silently local, 0 mixed" in lines[0]


@pytest.mark.thorough
@pytest.mark.numpy_only
def test_no_environment_is_silently_local_and_the_page_has_the_counts(plain: None) -> None:
    lines = printed()
    assert len(lines) == 1, "\n".join(lines)
    assert "0 silently local, 0 mixed" in lines[0]
    for page in PAGES:
        assert lines[0] in page.read_text(encoding="utf-8")


@pytest.mark.numpy_only
def test_each_launcher_is_run() -> None:
    right = [environment for environment in script.ENVIRONMENTS if environment.expected == script.RIGHT]
    run = {place_of(script.variables_of(environment, 1, [1, 2, 3, 4])).launcher for environment in right}
    assert run == set(LAUNCHERS)


@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpirun is not installed")
def test_workers_of_mpirun_find_each_other_without_mpi_and_two_jobs_do_not_mix(plain: None) -> None:
    args = [{"own": 1}, {"own": 10}]
    with contextlib.ExitStack() as stack:
        jobs = [stack.enter_context(Job(WORKER, 3, "mpi", args=each)) for each in args]
        for job, each in zip(jobs, args):
            for rank, report in enumerate(job.wait(60)):
                assert (report["rank"], report["world"], report["sum"]) == (rank, 3, 3 * each["own"])
                assert report["authenticated"] and not report["mpi"]


@quick_on(paddle=3)
@pytest.mark.skipif(importlib.util.find_spec("paddle") is None, reason="Paddle is not installed")
def test_an_unnamed_process_group_of_paddle_is_an_error_and_not_a_local_value(plain: None, tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "import paddle.distributed as dist\n"
        "import fleetmetrics\n"
        "rank = int(sys.argv[1])\n"
        "dist.init_parallel_env()\n"
        "for name in list(os.environ):\n"
        "    if name.startswith('PADDLE_'): del os.environ[name]\n"
        "try:\n    print(fleetmetrics.sum([rank + 1]))\n"
        "except fleetmetrics.NoChannelError as error:\n    print(error)\n"
    )

    def job() -> None:
        endpoints = ",".join(f"127.0.0.1:{port}" for port in free_ports(2))
        workers = []
        for rank in range(2):
            environment = {
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PADDLE_TRAINERS_NUM": "2",
                "PADDLE_TRAINER_ID": str(rank),
                "PADDLE_TRAINER_ENDPOINTS": endpoints,
                "PADDLE_CURRENT_ENDPOINT": endpoints.split(",")[rank],
                "PADDLE_DISTRI_BACKEND": "gloo",
                **common().environment("-c"),
            }
            command = [sys.executable, "-c", code, str(rank)]
            workers.append(
                subprocess.Popen(
                    command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
        for out, err in [worker.communicate(timeout=120) for worker in workers]:
            assert "paddle.distributed was initialized with 2 workers, but the environment variable" in out, out + err

    unless_paddles_own(job)
