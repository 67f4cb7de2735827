"""Which machine, and which run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

from fleetmetrics.comm import SocketCommunicator
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import InvalidInputError, UnnamedRunWarning

FAR = "10.0.0.1:8500,10.0.0.2:8500"
SECOND = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2"}


@pytest.mark.parametrize(
    ("job", "same"),
    [
        (Job(0, 2, endpoint="127.0.0.3:8500"), True),
        (Job(0, 2, endpoint="localhost:8500"), True),
        (Job(0, 2, endpoint="[::1]:8500"), True),
        (Job(0, 2, endpoint="10.0.0.1:8500"), False),
        (Job(0, 2, endpoints="10.0.0.1:8500,10.0.0.1:8501"), True),
        (Job(0, 2, endpoints=FAR), False),
    ],
)
def test_workers_on_one_machine(job: Job, same: bool) -> None:
    assert job.on_one_machine == same


def test_the_name_of_a_run_has_every_variable_that_distinguishes_it() -> None:
    jobs = [
        Job(0, 2, endpoints=FAR),
        Job(0, 2, endpoints=FAR, run="Paddle's launcher|PADDLE_JOB_ID=a"),
        Job(0, 2, endpoints=FAR, run="Paddle's launcher|PADDLE_JOB_ID=b"),
        Job(0, 2, endpoints=FAR, master="10.0.0.1:9"),
        *(Job(0, 2, endpoints, endpoint=endpoint) for endpoints in ("", FAR) for endpoint in ("a:8500", "b:8500")),
    ]
    assert len({job.name for job in jobs}) == len({job.title for job in jobs}) == len(jobs)
    assert jobs[0].name == Job(1, 2, endpoints=FAR, secret="of another").name


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
def test_variables_that_do_not_place_a_worker_change_neither_its_rank_nor_its_run(changed: dict[str, str]) -> None:
    """So a helper that gets them for its own purpose is still known as what its worker has started."""
    jobs = [Job.from_environment({**SECOND, **each}) for each in ({}, changed)]
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
def test_another_place_or_run_has_another_rank_or_name(changed: dict[str, str]) -> None:
    jobs = [Job.from_environment({**SECOND, **each}) for each in ({}, changed)]
    assert (jobs[0].rank, jobs[0].name) != (jobs[1].rank, jobs[1].name)
    assert (jobs[0].name == jobs[1].name) == (set(changed) == {"PADDLE_TRAINER_ID"})


def test_a_name_of_a_run_may_be_bytes_that_are_not_text() -> None:
    assert len(Job.from_environment({**SECOND, "PADDLE_JOB_ID": os.fsdecode(b"\xff")}).name) == 32


def test_no_repr_shows_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Error reporters write the local variables and the attributes of what they find there."""
    monkeypatch.setenv("FLEETMETRICS_SECRET", "of the environment")
    endpoint = "127.0.0.1:8500"
    environment = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "0", "FLEETMETRICS_ENDPOINT": endpoint}
    for job in (
        Job(0, 2, endpoint=endpoint, secret="of the job"),
        Job.from_environment({**environment, "FLEETMETRICS_SECRET": "of the environment"}),
        SocketCommunicator(rank=0, world_size=2, endpoint=endpoint)._job,
        SocketCommunicator(rank=0, world_size=2, endpoint=endpoint, secret="of the arguments")._job,
    ):
        assert job.secret.startswith("of the")
        assert "of the" not in f"{job!r} {vars(job)!r}"


PLACE = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "0", "PADDLE_TRAINER_ENDPOINTS": FAR}
TORCH = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
#: What Paddle's launcher gives the workers of two machines, for which it draws ports.
LAUNCHED = {**PLACE, "PADDLE_GLOBAL_RANK": "0", "PADDLE_MASTER": "10.0.0.1:40001"}


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        (PLACE, False),
        ({**PLACE, "FLEETMETRICS_SECRET": "of the team"}, False),
        ({**PLACE, "FLEETMETRICS_ENDPOINT": "10.0.0.1:9000"}, False),
        ({**PLACE, "FLEETMETRICS_RUN": " "}, False),
        ({**PLACE, "FLEETMETRICS_RUN": "nightly 17"}, True),
        ({**PLACE, "PADDLE_JOB_ID": "17"}, True),
        ({**PLACE, "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.1:2", "POD_NAME": "abc"}, True),
        (LAUNCHED, True),
        ({**LAUNCHED, "PADDLE_MASTER": "10.0.0.1:8500"}, False),
        ({**LAUNCHED, "FLAGS_FIXED_PORT": "40000"}, False),
        (TORCH, False),
        ({**TORCH, "TORCHELASTIC_RUN_ID": "none"}, True),  # torchrun listens on the port of its run
        ({**TORCH, "WORLD_SIZE": "2", "SLURM_JOB_ID": "1", "SLURM_NTASKS": "2", "SLURM_PROCID": "1"}, True),
    ],
    ids=repr,
)
def test_a_run_has_a_name_if_a_launcher_or_the_setting_gives_one(environment: dict[str, str], named: bool) -> None:
    assert Job.from_environment(environment).named == named
    assert Job.from_environment({**environment, "FLEETMETRICS_RUN": "mine"}).named


def test_the_ports_that_paddles_spawn_draws_name_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    spawned = {**PLACE, "PADDLE_DISTRI_BACKEND": "gloo"}
    assert not Job.from_environment(spawned).named
    monkeypatch.setattr("multiprocessing.process.parent_process", lambda: "the one that spawned this")
    assert Job.from_environment(spawned).named and not Job.from_environment(PLACE).named
    assert not Job.from_environment({**spawned, "FLAGS_START_PORT": "6170"}).named


def test_a_secret_of_its_own_names_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETMETRICS_SECRET", "of the team")
    monkeypatch.delenv("FLEETMETRICS_RUN", raising=False)
    job = Job.placed(0, 2, "10.0.0.1:8500")
    assert not job.named and job.secret == "of the team"
    assert job.with_secret("of this run").named
    own = Job.placed(0, 2, "10.0.0.1:8500", "of this run")
    assert own.named and own.secret == "of this run" and own.program == ""


def test_the_setting_is_part_of_the_name_of_a_run_and_of_its_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Job.from_environment({**PLACE, "FLEETMETRICS_RUN": run}) for run in ("", "a", " a", "b")]
    jobs.append(Job.from_environment({**PLACE, "PADDLE_JOB_ID": "j", "FLEETMETRICS_RUN": "a"}))
    assert jobs[1].name == jobs[2].name and len({job.name for job in jobs}) == len(jobs) - 1
    assert jobs[1].candidates() != jobs[3].candidates()
    assert jobs[1].title.startswith("FLEETMETRICS_RUN=a, ")
    assert jobs[4].title.startswith("PADDLE_JOB_ID=j, FLEETMETRICS_RUN=a, ")
    monkeypatch.setenv("FLEETMETRICS_RUN", "a")
    given = Job.placed(1, 2, "10.0.0.1:8500")
    assert given.named and given.title.startswith("FLEETMETRICS_RUN=a, ")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((None, 2, "a:1"), "rank is None; give rank, world_size and endpoint together"),
        ((0, True, "a:1"), "world_size is True; give rank, world_size"),
        ((2, 2, "a:1"), "rank is 2; with world_size 2 it must be from 0 to 1"),
        ((0, 2, None), "endpoint is None; it must be"),
        ((0, 2, "a"), "the environment variable endpoint holds 'a'; it must be host:port"),
    ],
)
def test_a_wrong_place_in_the_arguments_is_named(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        Job.placed(*arguments)


def test_rank_0_warns_that_nothing_names_the_run(recwarn: pytest.WarningsRecorder) -> None:
    for job in (Job(1, 2, endpoints=FAR), Job(0, 2, endpoints=FAR, named=True), Job()):
        job.warn_if_unnamed()
    assert not recwarn.list
    with pytest.warns(
        UnnamedRunWarning,
        match=r"run \(PADDLE_TRAINER_ENDPOINTS 10.*\)\. Until .* Set FLEETMETRICS_RUN to a new name for each run",
    ):
        Job(0, 2, endpoints=FAR).warn_if_unnamed()


#: Prints the name of the program that this process runs, and in the children that a process spawns.
PROGRAM = """
import multiprocessing as mp, os
from fleetmetrics.comm.job import Job
def show(): print(repr(Job.from_environment().program))
if __name__ == "__main__":
    show()
    if "SPAWNS" in os.environ:
        child = mp.get_context("spawn").Process(target=show)
        child.start()
        child.join()
"""


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., set[str]]:
    """The names that a program says, by the arguments of Python."""
    package = tmp_path / "package"
    package.mkdir()
    for path in (tmp_path / "train.py", package / "train.py", package / "__main__.py", package / "__init__.py"):
        path.write_text(PROGRAM if path.stem != "__init__" else "")

    def said(*arguments: str, **changed: str) -> set[str]:
        path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
        env = {**PLACE, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **changed}
        command = [sys.executable, *arguments]
        found = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        return {line[1:-1] for line in found.splitlines() if line.startswith("'")}

    return said


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("train.py --epochs 2", "train.py"),
        ("./package/train.py", "train.py"),
        ("-m package.train", "package.train"),
        ("-m package", "package"),
        ("package", "package"),
        ("-m cProfile -o profile train.py", "train.py"),
        ("-m fleetmetrics.run train.py", "train.py"),
        ("-m fleetmetrics.run -m package.train", "package.train"),
    ],
)
def test_a_worker_names_its_program_without_arguments(
    program: Callable[..., set[str]], arguments: str, name: str
) -> None:
    assert program(*arguments.split()) == {name}


def test_code_without_a_file_is_no_program(program: Callable[..., set[str]]) -> None:
    assert program("-c", PROGRAM) == {""}


def test_a_spawned_worker_has_the_program_of_its_parent(program: Callable[..., set[str]]) -> None:
    assert program("train.py", SPAWNS="1") == {"train.py"}
    assert program("-m", "package.train", SPAWNS="1") == {"package.train"}


def test_a_run_that_the_user_names_may_have_several_programs(program: Callable[..., set[str]]) -> None:
    assert program("train.py", FLEETMETRICS_RUN="mine") == {""}


def test_the_name_of_a_whole_job_does_not_change() -> None:
    """Workers of an earlier version meet those of this one."""
    job = Job(0, 2, endpoints="10.0.0.1:8500,10.0.0.2:8500")
    assert job.name.hex().startswith("77409735d010b18b")
