"""What a worker starts inherits its environment, and is not that worker."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Iterator

import pytest

import fleetmetrics
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import VARIABLES
from fleetmetrics.comm.worker import MARK, leave_mark, started_by_worker
from fleetmetrics.support import launcher

pytestmark = pytest.mark.numpy_only

PLACE = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2"}
#: Prints why this process is not the worker.
WHY = """
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.worker import started_by_worker
print(started_by_worker(Job.from_environment()))
"""
#: Makes a metric, as a worker does, and starts a helper.
WORKER = "import fleetmetrics, os, subprocess, sys; fleetmetrics.Sum(); "


@pytest.fixture(autouse=True)
def unmarked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*VARIABLES, "POD_NAME", "FLEETMETRICS_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(MARK, "")
    launcher._begin.cache_clear()
    yield
    launcher._begin.cache_clear()


def placed(monkeypatch: pytest.MonkeyPatch, **changed: str) -> Job:
    for name, text in {**PLACE, **changed}.items():
        monkeypatch.setenv(name, text)
    return Job.from_environment()


def said(code: str, **changed: str) -> str:
    """What a new process with a worker's environment prints."""
    env = {"PYTHONPATH": os.pathsep.join(sys.path), **PLACE, "WHY": WHY, **changed}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


HELPERS = {
    "a script": "subprocess.run([sys.executable, '-c', os.environ['WHY']])",
    "a script behind a shell": "subprocess.run(sys.executable + ' -c \"$WHY\"; true', shell=True)",
    "a spawned process": "import multiprocessing as mp; child = mp.get_context('spawn').Process(target=exec, "
    "args=(os.environ['WHY'], {})); child.start(); child.join()",
    "a helper with variables of torch": "subprocess.run([sys.executable, '-c', os.environ['WHY']], "
    "env={**os.environ, 'WORLD_SIZE': '1', 'RANK': '0', 'MASTER_ADDR': 'a', 'MASTER_PORT': '1'})",
}


@pytest.mark.parametrize("helper", HELPERS)
def test_what_a_worker_starts_is_not_that_worker(helper: str) -> None:
    text = said(f"{WORKER} print(os.getpid(), flush=True); {HELPERS[helper]}")
    process, _, why = text.partition("\n")
    assert f"was started by process {process}, which is rank 1 of" in why
    for way_out in ("its own rank (PADDLE_TRAINER_ID)", "compute_local()", "FLEETMETRICS_WORKER=this"):
        assert way_out in why


@pytest.mark.parametrize(
    "code",
    {
        "a trainer that only imports": f"import fleetmetrics, os, subprocess, sys; {HELPERS['a script']}",
        "a worker that goes on as another program": f"{WORKER} os.execv(sys.executable, ['python', '-c', WHY])",
        "a worker that starts the next rank": f"{WORKER} os.environ['PADDLE_TRAINER_ID'] = '0'; {HELPERS['a script']}",
        "another run": f"{WORKER} os.environ['PADDLE_JOB_ID'] = 'b'; {HELPERS['a script']}",
        "a supervisor that says so": f"{WORKER} os.environ['FLEETMETRICS_WORKER'] = 'this'; {HELPERS['a script']}",
    }.items(),
    ids=lambda each: each[0],
)
def test_other_processes_are_workers(code: tuple[str, str]) -> None:
    assert said(f"WHY = {WHY!r}\n{code[1]}").strip() == ""


def test_a_single_worker_marks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "1")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    fleetmetrics.Sum()
    assert not os.environ[MARK]


def test_a_worker_that_goes_on_as_its_child_is_that_worker() -> None:
    code = (
        f"{WORKER} parent = os.getpid(); child = os.fork()\n"
        "if child: os._exit(0)\n"
        "while os.getppid() == parent: pass\n"
        f"exec({WHY!r})"
    )
    assert said(code).strip() == ""


def test_a_child_beside_its_worker_is_not_that_worker() -> None:
    code = f"{WORKER} child = os.fork()\nif child: os.waitpid(child, 0)\nelse: exec({WHY!r})"
    assert "which is rank 1 of" in said(code)


@pytest.mark.parametrize("what", ["a metric", "a BaseMetric"])
def test_a_worker_marks_itself_when_it_makes(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    job = placed(monkeypatch)
    if what == "a metric":
        fleetmetrics.Sum()
    else:
        type("Own", (fleetmetrics.BaseMetric,), {"compute_metric": lambda self, results: {}})()
    assert f" {os.getpid()} " in os.environ[MARK] and not started_by_worker(job)


def test_a_place_that_the_program_sets_later_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    fleetmetrics.Sum()
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    fleetmetrics.Sum()
    assert not os.environ[MARK]
    placed(monkeypatch)
    fleetmetrics.Sum()
    assert os.environ[MARK]


@pytest.mark.parametrize(
    "changed",
    [{"PADDLE_TRAINER_ID": ""}, {"PADDLE_TRAINERS_NUM": "3"}, {"TRAINING_ROLE": "PSERVER"}],
    ids=["the parent of preforked workers", "a contradiction", "a server"],
)
def test_a_process_without_a_usable_place_leaves_no_mark(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str]
) -> None:
    for name, text in {**PLACE, **changed}.items():
        monkeypatch.setenv(name, text)
    fleetmetrics.Sum()
    assert not os.environ[MARK]


def test_a_helper_leaves_the_mark_of_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    job = placed(monkeypatch)
    leave_mark(job)
    mark = os.environ[MARK].replace(str(os.getpid()), "17")
    monkeypatch.setenv(MARK, mark)
    leave_mark(job)
    assert os.environ[MARK] == mark and "process 17," in started_by_worker(job)


def test_a_place_given_as_arguments_leaves_no_mark() -> None:
    leave_mark(Job.placed(1, 2, "127.0.0.1:8500"))
    assert not os.environ[MARK]
