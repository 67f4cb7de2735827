"""Which worker a process claims to be, and the marks that it leaves."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Iterator

import pytest

from fleetmetrics import identity
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import VARIABLES
from fleetmetrics.identity import MARK, claim_of, launch_of

pytestmark = pytest.mark.numpy_only

PLACE = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2"}
ONE_MACHINE = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.1:2", "POD_NAME": "abc"}


def maps() -> bytes:
    return Path("/proc/self/maps").read_bytes()


@pytest.fixture
def unmarked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*VARIABLES, "POD_NAME", MARK):
        monkeypatch.delenv(name, raising=False)
    identity.withdraw()  # what a test before has left
    yield
    identity.withdraw()


def test_a_process_without_a_rank_claims_nothing() -> None:
    assert claim_of({}) is None is claim_of({"PADDLE_TRAINERS_NUM": "1", "PADDLE_TRAINER_ID": ""})
    assert claim_of({"WORLD_SIZE": "2", "MASTER_ADDR": "a"}) is None
    first = claim_of({**PLACE, "PADDLE_TRAINER_ID": ""})  # Paddle's first worker may go without
    assert first is not None and first == claim_of({**PLACE, "PADDLE_TRAINER_ID": "0"})


@pytest.mark.parametrize("variable", ["TRAINING_ROLE", "PADDLE_ROLE"])
@pytest.mark.parametrize("rank", ["", "0"])
@pytest.mark.parametrize("role", ["PSERVER", "COORDINATOR", "HETER_TRAINER"])
def test_a_process_that_is_not_a_worker_claims_no_workers_rank(variable: str, rank: str, role: str) -> None:
    """Rank 0 would wait for it, or refuse it: it has the variables of the first worker."""
    assert claim_of({**PLACE, "PADDLE_TRAINER_ID": rank, variable: "TRAINER"}) is not None
    assert claim_of({**PLACE, "PADDLE_TRAINER_ID": rank, variable: role}) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"HOME": "/"},
        {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "c", "MASTER_PORT": "29501"},
        {"MASTER_ADDR": "c", "MASTER_PORT": "29501"},
        {"WORLD_SIZE": "2", "RANK": "0"},
        {"SLURM_JOB_ID": "17", "SLURM_PROCID": "1", "SLURM_NTASKS": "1"},
        {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "n"},
        {"PADDLE_TRAINERS": "a,b"},
        {"PADDLE_NNODES": "1"},
        {"PADDLE_TRAINER_ID": " 01 "},
        {"PADDLE_TRAINERS_NUM": "2 "},
        {"PADDLE_TRAINER_ENDPOINTS": "a:1; b:2"},
        {"PADDLE_TRAINER_ENDPOINTS": " a:1 b:2,"},
    ],
    ids=repr,
)
def test_a_helper_with_other_variables_claims_to_be_the_worker(changed: dict[str, str]) -> None:
    """And it would be: `comm.job` has the same rank and name for both."""
    assert claim_of({**PLACE, **changed}) == claim_of(PLACE)
    jobs = [Job.from_environment({**PLACE, **each}) for each in ({}, changed)]
    assert jobs[0].rank == jobs[1].rank and jobs[0].name == jobs[1].name


@pytest.mark.parametrize(
    "changed",
    [
        {"PADDLE_TRAINER_ID": "0"},
        {"PADDLE_JOB_ID": "j"},
        {"PADDLE_MASTER": "c:1"},
        {"PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2,c:3"},
        {"PADDLE_TRAINER_ENDPOINTS": "a:1,b:3"},
        {"FLEETMETRICS_ENDPOINT": "c:1"},
        {"WORLD_SIZE": "2", "RANK": "1", "MASTER_PORT": "29501"},
        {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_STEP_ID": "0"},
    ],
    ids=repr,
)
def test_another_place_or_run_is_another_claim(changed: dict[str, str]) -> None:
    claim, other = claim_of(PLACE), claim_of({**PLACE, **changed})
    assert claim is not None and other is not None and claim != other and claim.digest != other.digest
    jobs = [Job.from_environment({**PLACE, **each}) for each in ({}, changed)]
    assert (jobs[0].rank, jobs[0].name) != (jobs[1].rank, jobs[1].name)
    assert (other.run == claim.run) == (set(changed) == {"PADDLE_TRAINER_ID"})


def test_bytes_that_are_not_text_can_be_claimed() -> None:
    claim = claim_of({**PLACE, "PADDLE_JOB_ID": os.fsdecode(b"\xff")})
    assert claim is not None and len(claim.digest) == 16


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, "POD_NAME=abc"),
        ({"POD_NAME": ""}, ""),
        ({"PADDLE_TRAINER_ENDPOINTS": "localhost:1,localhost:2"}, "POD_NAME=abc"),
        ({"PADDLE_TRAINER_ENDPOINTS": "[::1]:1,[::1]:2"}, "POD_NAME=abc"),
        ({"PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.2:2"}, ""),  # two launchers may play two machines
        ({"PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:1,10.0.0.1:2"}, ""),  # two launchers on one machine
        ({"PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:1,10.0.0.1:2", "PADDLE_LOCAL_SIZE": "2"}, "POD_NAME=abc"),
        ({"PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:1,10.0.0.1:2", "PADDLE_LOCAL_SIZE": "1"}, ""),
        ({"PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,localhost:2"}, ""),
        ({"PADDLE_NNODES": "1"}, "POD_NAME=abc"),
        ({"PADDLE_NNODES": "1:4"}, "POD_NAME=abc"),
        ({"PADDLE_NNODES": "2"}, ""),
        (
            {"PADDLE_GLOO_RENDEZVOUS": "3", "PADDLE_GLOO_FS_PATH": "/tmp/x"},
            "POD_NAME=abc|PADDLE_GLOO_FS_PATH=/tmp/x",
        ),
        ({"PADDLE_GLOO_RENDEZVOUS": "2", "PADDLE_GLOO_FS_PATH": "/tmp/x"}, "POD_NAME=abc"),
        (
            {
                "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:1,10.0.0.1:2",
                "PADDLE_GLOO_RENDEZVOUS": "3",
                "PADDLE_GLOO_FS_PATH": "/tmp/x",
            },
            "PADDLE_GLOO_FS_PATH=/tmp/x",
        ),
    ],
)
def test_the_launchers_name_of_a_run_counts_if_it_has_started_all_workers(changed: dict[str, str], found: str) -> None:
    assert launch_of({**ONE_MACHINE, **changed}) == found
    claim = claim_of({**ONE_MACHINE, **changed, "PADDLE_TRAINER_ID": "0"})
    assert claim is not None and claim.run[-1] == found


def test_a_worker_leaves_its_marks_until_it_has_met_the_others(unmarked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    identity.stake()
    assert MARK not in os.environ and not identity.is_here(maps())  # it claims nothing
    for name, text in PLACE.items():
        monkeypatch.setenv(name, text)
    claim = claim_of(PLACE)
    assert claim is not None
    identity.join()
    assert not identity.has_joined(maps())  # it never was a worker
    identity.stake()
    assert os.environ[MARK] == f"{claim.digest} {os.getpid()} {identity.status('self')[19]}"
    assert identity.is_here(maps()) and not identity.has_joined(maps())
    identity.join()
    assert identity.has_joined(maps()) and not identity.is_here(maps())
    identity.withdraw()
    assert MARK not in os.environ and not identity.has_joined(maps())


def test_the_mark_of_the_worker_that_has_started_this_process_stays(
    unmarked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in PLACE.items():
        monkeypatch.setenv(name, text)
    claim = claim_of(PLACE)
    assert claim is not None
    monkeypatch.setenv(MARK, f"{claim.digest} 17 4")
    identity.stake()
    assert os.environ[MARK] == f"{claim.digest} 17 4" and not identity.is_here(maps())
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")  # a place of its own
    identity.stake()
    assert os.environ[MARK].split()[1] == str(os.getpid()) and identity.is_here(maps())


def test_a_process_with_any_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a) S 1 (b"
    shutil.copy2("/bin/sleep", path)
    with subprocess.Popen([str(path), "60"]) as process:
        try:
            assert identity.status(process.pid)[1] == str(os.getpid())
        finally:
            process.kill()
    assert identity.status("self")[1] == str(os.getppid())
