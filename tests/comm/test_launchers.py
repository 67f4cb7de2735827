"""The table of launchers: what each says, and what cannot be used is never one worker."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Mapping

import pytest

from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import (
    VARIABLES,
    Place,
    paddles_place,
    parts_of,
    place_of,
    rank_told,
    starter,
)
from fleetmetrics.errors import FleetMetricsError, InvalidInputError, NoChannelError
from fleetmetrics.support.launcher import LAUNCHERS, OTHERS, Launcher, launch_of, other_role
from fleetmetrics.support.launcher import PADDLE as PADDLE_ROW

pytestmark = pytest.mark.numpy_only

PADDLE = {"PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ID": "2", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2,c:3"}
TORCH = {"WORLD_SIZE": "3", "RANK": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "29500", "LOCAL_WORLD_SIZE": "1"}
OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}
MPICH = {"PMI_SIZE": "3", "PMI_RANK": "2", "MPI_LOCALNRANKS": "3", "PMI_FD": "11"}
SRUN = {
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_NTASKS": "3",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NODELIST": "node[01-03]",
}
TF_CONFIG = '{"cluster": {"worker": [%s], "ps": ["s:1", "t:1"]}, "task": {"type": "worker", "index": 0}}'
ONE_MACHINE = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.1:2", "POD_NAME": "abc"}
#: What a worker's launcher says beside its number and rank, where no row needs more to be heard.
HINTS = sorted({name for row in (*LAUNCHERS, OTHERS) if row.started({}) for name in row.hints})
SBATCH = {"SLURM_JOB_ID": "17", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_NODELIST": "node[01-04]"}


def without(environment: dict[str, str], *names: str) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name not in names}


@pytest.mark.parametrize(
    ("environment", "host"),
    [
        (TORCH, "node1"),
        ({**TORCH, "LOCAL_WORLD_SIZE": "3"}, "127.0.0.1"),
        (OPEN_MPI, "127.0.0.1"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "MASTER_ADDR": "node7"}, "node7"),
        (MPICH, "127.0.0.1"),
        (SRUN, "node01"),
        ({**SRUN, "SLURM_STEP_NODELIST": "node7"}, "127.0.0.1"),
        ({**without(MPICH, "MPI_LOCALNRANKS"), **SRUN}, "node01"),
        ({**without(MPICH, "MPI_LOCALNRANKS"), **SRUN, "MASTER_ADDR": "node3"}, "node3"),
    ],
)
def test_the_place_of_a_worker_is_read(environment: dict[str, str], host: str) -> None:
    place = place_of(environment)
    assert (place.rank, place.size, place.host) == (2, 3, host)
    job = Job.from_environment(environment)
    assert (job.rank, job.world_size, job.collective) == (2, 3, True)
    assert {where for where, _ in job.candidates()} == {host}
    assert all(20000 <= port < 32000 and str(port) != "29500" for _, port in job.candidates())


def test_paddles_workers_that_all_are_on_one_machine_need_no_endpoints() -> None:
    said = {"PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ID": "2", "PADDLE_LOCAL_SIZE": "3"}
    assert place_of(said)[:2] == (2, 3) and place_of(said).host == "127.0.0.1"
    with pytest.raises(NoChannelError, match="rank 0 cannot be found"):
        Job.from_environment({**said, "PADDLE_LOCAL_SIZE": "2"})


def test_a_rank_that_no_batch_script_has_is_that_of_a_task_of_srun() -> None:
    assert place_of({**SBATCH, "SLURM_PROCID": "1"})[:2] == (1, 4)


def test_the_row_nearest_to_the_worker_counts() -> None:
    assert Job.from_environment({**SRUN, **PADDLE}).endpoints == "a:1,b:2,c:3"
    under_srun = {**TORCH, "WORLD_SIZE": "24", "RANK": "17", "LOCAL_WORLD_SIZE": "8"}
    place = place_of({**SRUN, **under_srun})
    assert (place.rank, place.size, place.host) == (17, 24, "node1")
    assert place.launcher is not None and place.launcher.name == "torchrun"


def test_all_workers_conclude_the_same_where_srun_and_torchrun_number_them_in_another_order() -> None:
    tasks = [(0, 0), (2, 1), (1, 2)]
    jobs = [
        Job.from_environment({**SRUN, **TORCH, "SLURM_PROCID": str(task), "RANK": str(rank)}) for rank, task in tasks
    ]
    assert [job.rank for job in jobs] == [0, 2, 1]
    assert len({job.name for job in jobs}) == 1 and {job.host for job in jobs} == {"node1"}


def test_where_paddle_says_where_rank_0_is_nothing_else_counts() -> None:
    jobs = [Job.from_environment({**PADDLE, "MASTER_ADDR": host}) for host in ("node1", "node2")]
    assert jobs[0].name == jobs[1].name and jobs[0].candidates()[0][0] == "a"


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node[01-04,7],gpu3", "node01"),
        ("gpu3,node[01-04]", "gpu3"),
        ("rack[2-3]n[5,7]", "rack2n5"),
        ("a-1,b-2", "a-1"),
        ("node[5,7]", "node5"),
        ("node[7]", "127.0.0.1"),
        ("node-7", "127.0.0.1"),
    ],
)
def test_rank_0_is_on_the_first_machine_of_the_list(nodes: str, first: str) -> None:
    assert place_of({**SRUN, "SLURM_STEP_NODELIST": nodes}).host == first


@pytest.mark.parametrize("nodes", ["node[01-04", "node]", "a,,b", ",", "node[]"])
def test_a_malformed_list_of_machines_is_named(nodes: str) -> None:
    with pytest.raises(InvalidInputError, match="SLURM_STEP_NODELIST holds"):
        place_of({**SRUN, "SLURM_STEP_NODELIST": nodes})


@pytest.mark.parametrize(
    "environment",
    [
        SBATCH,
        without(SBATCH, "SLURM_PROCID"),
        {**SBATCH, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"},
        {"MASTER_ADDR": "node1", "MASTER_PORT": "1"},
        {"WORLD_SIZE": "1", "RANK": "0", "MASTER_ADDR": "node1"},
        {"OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_RANK": "0", "PMIX_RANK": "0"},
        {"PADDLE_TRAINERS_NUM": "1", "PADDLE_GLOBAL_SIZE": "1", "PADDLE_NNODES": "1", "PADDLE_MASTER": "a:1"},
        {"PADDLE_TRAINERS_NUM": "1", "PADDLE_PSERVERS_IP_PORT_LIST": "a:1", "PADDLE_NNODES": "2"},
        {"PADDLE_TRAINERS_NUM": "", "WORLD_SIZE": "", "OMPI_COMM_WORLD_SIZE": " ", "FLEETMETRICS_ENDPOINT": ""},
        {"FLEETMETRICS_SECRET": "s"},
        {"LOCAL_RANK": "-1", "PADDLE_LOCAL_RANK": "-1"},
        {"TF_CONFIG": TF_CONFIG % '"a:1"'},
        {"SM_HOSTS": '[{"name": "algo-1", "port": 1}]'},
        {"SM_HOSTS": '["algo-1"]', "PET_NNODES": "1", "AZUREML_NODE_COUNT": "1"},
        {"FLUX_JOB_SIZE": "1", "FLUX_TASK_RANK": "0"},
        {"PADDLE_NPROC_PER_NODE": "1", "PADDLE_IPS": "127.0.0.1", "PADDLE_NNODES": "1"},
        {"PADDLE_NNODES": "1:"},
        {"PADDLE_NNODES": "1:3", "PADDLE_TRAINERS_NUM": "1"},  # of an elastic job, one came
        {**SBATCH, "SLURM_LOCALID": "0"},
        {**SBATCH, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1", "SLURM_LOCALID": "0"},
        {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
        {"NNODES": "1", "NODE_RANK": "0"},
        {"SKYPILOT_NUM_NODES": "1", "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NODE_IPS": "10.0.0.1"},
        {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"},
        {"BYTEPS_LOCAL_SIZE": "1", "BYTEPS_LOCAL_RANK": "0", "DMLC_NUM_WORKER": "1"},
        {"JOB_COMPLETION_INDEX": "2"},  # of a job of Kubernetes, whose tasks may be unrelated
        {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_JOB_ID": "17"},
        {"PADDLE_TRAINERS_NUM": "1", "PADDLE_LOCAL_RANK": "0", "PADDLE_GLOBAL_RANK": "0", "PADDLE_LOCAL_SIZE": "1"},
    ],
)
def test_one_process_is_one_worker(environment: dict[str, str]) -> None:
    assert Job.from_environment(environment).world_size == 1


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"FLEETMETRICS_ENDPOINT": "a:1"}, "FLEETMETRICS_ENDPOINT is 'a:1', but the number of workers is unknown"),
        ({"FLEETMETRICS_ENDPOINT": "a:1", "PADDLE_TRAINER_ID": "0"}, "PADDLE_TRAINER_ID is '0', but the number"),
        (
            {**OPEN_MPI, "PADDLE_TRAINERS_NUM": "1"},
            "OMPI_COMM_WORLD_SIZE names 3 workers, but PADDLE_TRAINERS_NUM is 1",
        ),
        ({**TORCH, "PADDLE_TRAINERS_NUM": "1"}, "WORLD_SIZE names 3 workers, but PADDLE_TRAINERS_NUM is 1"),
        ({**TORCH, "PADDLE_TRAINERS_NUM": "2"}, "the number would be that of 2"),
        ({**SRUN, "WORLD_SIZE": "1", "RANK": "0"}, "SLURM_STEP_NUM_TASKS names 3 workers, but WORLD_SIZE is 1"),
        (without(TORCH, "MASTER_ADDR"), "torchrun started 3 processes, but MASTER_ADDR is not set"),
        (without(TORCH, "RANK"), "WORLD_SIZE says that torchrun started 3 processes, but RANK is not set"),
        (without(TORCH, "WORLD_SIZE"), "RANK is '2', but the number of workers is unknown"),
        ({"PMIX_RANK": "0", "PMIX_NAMESPACE": "x"}, "PMIX_RANK is '0', but the number of workers is unknown"),
        ({"PALS_RANKID": "0", "PALS_APID": "x"}, "PALS_RANKID is '0', but the number of workers"),
        (
            {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            "LOCAL_SIZE is 2, but the machine of rank 0 is unknown.*=mpi",
        ),
        (without(SRUN, "SLURM_STEP_NODELIST"), "srun started 3 processes, but SLURM_STEP_NODELIST is not set"),
        ({"SLURM_NTASKS": "3", "SLURM_PROCID": "0"}, "srun started 3 processes"),
        ({"JSM_NAMESPACE_SIZE": "3", "JSM_NAMESPACE_RANK": "1"}, "jsrun started 3 processes"),
        ({"PADDLE_GLOBAL_SIZE": "2"}, "PADDLE_GLOBAL_SIZE names 2 workers, but PADDLE_TRAINERS_NUM is not set"),
        ({"PADDLE_NNODES": "2:4", "PADDLE_MASTER": "a:1"}, "PADDLE_NNODES names 2 workers"),
        ({"PADDLE_TRAINERS": "h1 h2"}, "PADDLE_TRAINERS names 2 workers"),
        ({"PADDLE_TRAINER_ENDPOINTS": "a:1;b:1;c:1"}, "PADDLE_TRAINER_ENDPOINTS names 3 workers"),
        ({"PADDLE_TRAINERS_ENDPOINTS": "a:1,b:1,c:1"}, "PADDLE_TRAINERS_ENDPOINTS names 3 workers"),
        ({"PADDLE_WORKERS_IP_PORT_LIST": "a:1,b:1"}, "PADDLE_WORKERS_IP_PORT_LIST names 2 workers"),
        ({"PADDLE_IPS": "10.0.0.1,10.0.0.2"}, "PADDLE_IPS names 2 workers"),
        *(({name: "2"}, f"{name} names 2 workers, but PADDLE_TRAINERS_NUM is not set") for name in PADDLE_ROW.least),
        (without(PADDLE, "PADDLE_TRAINER_ID"), "started 3 processes, but PADDLE_TRAINER_ID is not set"),
        ({"PADDLE_TRAINERS_NUM": "3", "PADDLE_LOCAL_SIZE": "3"}, "PADDLE_TRAINER_ID is not set"),
        (
            {"PADDLE_NNODES": "1:3", "PADDLE_MASTER": "a:1"},
            "PADDLE_NNODES is '1:3', but the number of workers is unknown",
        ),
        ({"PADDLE_ELASTIC_NP": "1:2"}, "PADDLE_ELASTIC_NP is '1:2', but the number of workers is unknown"),
        ({"SLURM_LOCALID": "0", "SLURM_NTASKS_PER_NODE": "3"}, "SLURM_LOCALID is '0', but the number of workers"),
        ({**without(SBATCH, "SLURM_PROCID"), "SLURM_LOCALID": "1"}, "SLURM_PROCID is not set"),
        ({"NNODES": "1", "NODE_RANK": "2"}, "NODE_RANK is '2', but the number of workers is unknown"),
        ({"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "localhost"}, "TPU_WORKER_ID is '1', but the number"),
        ({"SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}, "SKYPILOT_NODE_IPS names 2 workers"),
        ({"TRAINING_ROLE": "TRAINER", "PADDLE_PSERVERS_IP_PORT_LIST": "a:1"}, "PADDLE_PSERVERS_IP_PORT_LIST is 'a:1'"),
        *(({name: "0"}, f"{name} is '0', but the number of workers is unknown") for name in HINTS),
        *(({name: "3"}, f"{name} is '3', but the number of workers is unknown") for name in HINTS),
        *(({name: "2"}, f"{name} names 2 workers, but PADDLE_TRAINERS_NUM is not set") for name in OTHERS.least),
        *(({name: '["a", "b"]'}, f"{name} names 2 workers, but PADDLE_TRAINERS_NUM is not") for name in OTHERS.lists),
        ({"TF_CONFIG": TF_CONFIG % '"a:1", "b:1"'}, "TF_CONFIG names 2 workers, but PADDLE_TRAINERS_NUM is not set"),
        ({"TF_CONFIG": TF_CONFIG[:-9] % '"a:1", "b:1"'}, "TF_CONFIG names [0-9]+ workers, but PADDLE_TRAINERS_NUM"),
        (
            {"PADDLE_TRAINERS_NUM": "1", "SM_HOSTS": '["a", "b"]'},
            "SM_HOSTS names 2 workers, but PADDLE_TRAINERS_NUM is 1",
        ),
        (
            {**PADDLE, "PADDLE_GLOBAL_RANK": "3"},
            "PADDLE_GLOBAL_RANK is 3, so there are 4 .*, but PADDLE_TRAINERS_NUM is 3",
        ),
        ({**TORCH, "LOCAL_RANK": "7"}, "LOCAL_RANK is 7, so there are 8 workers or more, but WORLD_SIZE is 3"),
        (  # servers are no processes of another launcher
            {**TORCH, "PADDLE_PSERVERS_IP_PORT_LIST": "a:1", "SM_HOSTS": '["a", "b", "c", "d"]'},
            "SM_HOSTS names 4 workers, but WORLD_SIZE is 3",
        ),
        ({"PADDLE_ELASTIC_NP": "2:4"}, "PADDLE_ELASTIC_NP names 2 workers, but PADDLE_TRAINERS_NUM is not set"),
        ({"GROUP_WORLD_SIZE": "2"}, "GROUP_WORLD_SIZE names 2 workers, but WORLD_SIZE is not set"),
        ({"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}, "SLURM_STEP_NUM_NODES names 2 workers"),
        ({"PADDLE_TRAINERS_NUM": "2", "PADDLE_LOCAL_SIZE": "3"}, "PADDLE_LOCAL_SIZE names 3 workers, but .* is 2"),
    ],
)
def test_variables_of_several_workers_that_cannot_be_used_are_named(environment: dict[str, str], words: str) -> None:
    with pytest.raises(NoChannelError, match=words) as caught:
        Job.from_environment(environment)
    assert "for a single process, unset " in str(caught.value) and "compute_local()" in str(caught.value)


@pytest.mark.parametrize("text", ["three", "0", "-3", "3.0", "３"])
@pytest.mark.parametrize("name", sorted({row.size[0] for row in LAUNCHERS} | {"PADDLE_NNODES", "LOCAL_WORLD_SIZE"}))
def test_a_malformed_number_is_named_with_its_value(name: str, text: str) -> None:
    started = {"PALS_RANKID": "0"} if name.startswith("PALS") else {}
    with pytest.raises(InvalidInputError, match=f"{name} holds '{text}'; it must be a whole number from 1"):
        place_of({name: text, **started})


MISTAKES = [
    ({**TORCH, "RANK": "3"}, "torchrun, or set WORLD_SIZE and RANK"),
    ({**TORCH, "RANK": "2", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": ""}, "torchrun, or set WORLD_SIZE and RANK"),
    ({"RANK": "1"}, "torchrun, or set WORLD_SIZE, RANK and FLEETMETRICS_ENDPOINT=host:port"),
    ({"LOCAL_RANK": "1"}, "torchrun, or set WORLD_SIZE, RANK and FLEETMETRICS_ENDPOINT=host:port"),
    ({"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "1"}, "agree, or set WORLD_SIZE, RANK and FLEETMETRICS_ENDPOINT"),
    ({**TORCH, "LOCAL_WORLD_SIZE": "4"}, "agree, or set WORLD_SIZE, RANK and FLEETMETRICS_ENDPOINT"),
    (without(TORCH, "RANK"), "from 0 to 2, or start them through torchrun"),
    (without(TORCH, "MASTER_ADDR"), "or start them through torchrun"),
    ({**TORCH, "PADDLE_TRAINER_ENDPOINTS": "a:1,b:2"}, "PADDLE_TRAINER_ENDPOINTS names 2 workers, but WORLD_SIZE is 3"),
    ({**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "3"}, "mpirun of Open MPI, or set OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_"),
    (without(SRUN, "SLURM_PROCID"), "or start them through srun"),
    ({"GROUP_WORLD_SIZE": "2"}, "Start the workers through torchrun, or set WORLD_SIZE and RANK"),
]


@pytest.mark.parametrize(("environment", "advice"), MISTAKES)
def test_advice_names_the_launcher_whose_variables_are_set(environment: dict[str, str], advice: str) -> None:
    with pytest.raises(FleetMetricsError) as caught:
        Job.from_environment(environment)
    assert advice in str(caught.value) and "fleetrun" not in str(caught.value)
    if "PADDLE_TRAINER_ENDPOINTS" not in environment:
        assert "PADDLE" not in str(caught.value)


@pytest.mark.parametrize("digits", [10, 5000])  # Python raises a ValueError for more than 4,300
@pytest.mark.parametrize("name", ["PADDLE_TRAINERS_NUM", "PADDLE_TRAINER_ID", "PADDLE_NNODES"])
def test_a_number_that_no_job_has_is_named_and_cut(name: str, digits: int) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} holds '99.*of fewer digits") as caught:
        Job.from_environment({**PADDLE, name: "9" * digits})
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("environment", [TORCH, OPEN_MPI, MPICH, SRUN, PADDLE])
def test_a_rank_beyond_the_number_is_an_error(environment: dict[str, str]) -> None:
    [row] = [row for row in LAUNCHERS if row.size[0] in environment and row.rank[0] in environment]
    with pytest.raises(InvalidInputError, match=f"{row.rank[0]} is 3, but {row.size[0]} is 3: ranks run from 0 to 2"):
        Job.from_environment({**environment, row.rank[0]: "3"})


@pytest.mark.parametrize("text", ["a:1|b:1", "a:1/b:1", "a:1\N{FULLWIDTH COMMA}b:1", "[]", "a"])
@pytest.mark.parametrize("number", [{}, {"PADDLE_TRAINERS_NUM": "1"}, {"PADDLE_TRAINERS_NUM": "2"}], ids=str)
def test_endpoints_that_cannot_be_read_are_named_even_if_they_look_like_one(text: str, number: dict[str, str]) -> None:
    """Of three endpoints with another separator, each worker would see one worker."""
    environment = {**number, "PADDLE_TRAINER_ID": "0"} if number else number
    with pytest.raises(InvalidInputError, match=r"PADDLE_TRAINER_ENDPOINTS holds '.*'; it must be host:port of each"):
        Job.from_environment({**environment, "PADDLE_TRAINER_ENDPOINTS": text})


@pytest.mark.parametrize("text", ["127.0.0.1:5000", "tcp://127.0.0.1", "a b c", "a,b", "[::1]:5000", "::1::", "[]"])
@pytest.mark.parametrize("environment", [without(TORCH, "MASTER_ADDR"), OPEN_MPI, without(SRUN, "SLURM_STEP_NODELIST")])
def test_an_address_of_rank_0_that_is_none_is_named(environment: dict[str, str], text: str) -> None:
    several = {**environment, "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "MASTER_ADDR": text}
    with pytest.raises(
        InvalidInputError, match=r"MASTER_ADDR holds '.*'; it must be a host name or an address of rank"
    ):
        Job.from_environment(several)


def test_an_address_of_rank_0_may_be_in_brackets() -> None:
    jobs = [Job.from_environment({**TORCH, "MASTER_ADDR": text}) for text in ("::1", "[::1]")]
    assert {host for job in jobs for host, _ in job.candidates()} == {"::1"} and jobs[0].name == jobs[1].name


def test_an_empty_variable_counts_as_not_set() -> None:
    assert Job.from_environment({**TORCH, "PADDLE_TRAINERS_NUM": "", "PADDLE_TRAINER_ID": " "}).world_size == 3


@pytest.mark.parametrize("separated", ["a:1;b:2;c:3", "a:1 b:2 c:3", "a:1, b:2, c:3", "a:1\nb:2\nc:3\n"])
def test_endpoints_are_read_with_any_separator(separated: str) -> None:
    job = Job.from_environment({**PADDLE, "PADDLE_TRAINER_ENDPOINTS": separated})
    assert job.candidates() == Job.from_environment(PADDLE).candidates()
    assert parts_of(separated) == ["a:1", "b:2", "c:3"]


@pytest.mark.parametrize(
    "change",
    [
        (TORCH, "MASTER_PORT"),
        (TORCH, "TORCHELASTIC_RUN_ID"),
        (SRUN, "SLURM_STEP_ID"),
        (SRUN, "SLURM_JOB_ID"),
        (OPEN_MPI, "PMIX_NAMESPACE"),
        ({**MPICH, **SRUN}, "SLURM_JOB_ID"),  # which started MPICH's
    ],
)
def test_two_runs_on_the_same_machines_take_other_ports(change: tuple[dict[str, str], str]) -> None:
    environment, name = change
    one, other = (Job.from_environment({**environment, name: text}) for text in ("101", "102"))
    assert one.candidates() != other.candidates()
    assert one.candidates() == Job.from_environment({**environment, name: "101", "HOME": "/elsewhere"}).candidates()


def test_a_run_without_a_name_on_several_machines_is_named_alike_on_each() -> None:
    """What started the workers is another process on each machine."""
    environment = {**without(MPICH, "MPI_LOCALNRANKS"), "MASTER_ADDR": "node3"}
    assert place_of(environment).run == "mpirun of MPICH or Intel MPI"


def test_an_endpoint_says_where_rank_0_is_if_the_launcher_does_not() -> None:
    environment = {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "FLEETMETRICS_ENDPOINT": "node5:7000"}
    assert Job.from_environment(environment).candidates() == [("node5", 7000)]


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
    job = Job.from_environment({**ONE_MACHINE, **changed, "PADDLE_TRAINER_ID": "0"})
    assert job.run == "|".join(filter(None, ["Paddle's launcher", found])) and job.named == bool(found)


def test_workers_whose_agents_of_torchrun_have_restarted_them_unequally_are_one_run() -> None:
    one, other = (Job.from_environment({**TORCH, "TORCHELASTIC_RESTART_COUNT": count}) for count in "01")
    assert one.name == other.name


#: Prints the name of the run of a worker of MPICH.
NAME_OF_RUN = """
from fleetmetrics.comm.launchers import place_of; import os
place = place_of(os.environ)
print((place.run, place.named))
"""


def runs_of(program: str, commands: str) -> list[str]:
    """The names of the runs of the workers that a shell starts, which is called by another name."""
    env = {**MPICH, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHON": sys.executable, "CODE": NAME_OF_RUN}
    found = subprocess.run([program, "-c", commands], env=env, capture_output=True, text=True, check=True)
    return found.stdout.splitlines()


def test_without_a_name_the_run_is_that_of_the_launchers_process_on_the_machine(tmp_path: Path) -> None:
    """Workers behind shells find the same one, and those of another launch do not."""
    daemon = tmp_path / "hydra_pmi_proxy"
    daemon.symlink_to("/bin/sh")
    workers = '"$PYTHON" -c "$CODE"; /bin/sh -c \'"$PYTHON" -c "$CODE"; true\'; true'
    found = [runs_of(str(daemon), f"echo $$; {workers}") for _ in range(2)]
    for process, *names in found:
        [name] = set(names)
        assert name.startswith(f"('mpirun of MPICH or Intel MPI|started by hydra_pmi_proxy {process} at ")
        assert name.endswith(" True)")  # it names the run
    assert found[0][1] != found[1][1]


def test_without_a_launcher_the_run_is_that_of_the_parent_which_may_start_others() -> None:
    process, name = runs_of("/bin/sh", 'echo $$; "$PYTHON" -c "$CODE"; true')
    assert f"|started by {process} at " in name and name.endswith(" False)")


def test_without_the_table_of_processes_the_run_is_that_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path, **options: str) -> str:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr(Path, "read_text", missing)
    assert starter() == (f"started by {os.getppid()}", False)


def test_nobody_reads_the_environment_of_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_bytes", None)
    assert place_of(MPICH).run.startswith("mpirun of MPICH or Intel MPI|started by ")


def test_a_name_of_the_users_own_stands_in_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    place = place_of({**MPICH, "FLEETMETRICS_RUN": "mine"})
    assert place.run == "mpirun of MPICH or Intel MPI|FLEETMETRICS_RUN=mine" and place.named


def test_the_name_of_a_process_may_have_brackets() -> None:
    code = """
import os, pathlib
from fleetmetrics.comm import launchers
pathlib.Path("/proc/self/comm").write_text("a) R 1 (b")
name, fields = launchers._status(os.getpid())
print(fields[1], name)
"""
    environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == f"{os.getpid()} a) R 1 (b\n"


def test_a_line_of_log_has_the_rank_even_if_other_variables_are_wrong() -> None:
    for environment in (
        PADDLE,
        TORCH,
        OPEN_MPI,
        MPICH,
        SRUN,
        {"PMIX_RANK": "2"},
        {"RANK": " 2", "PADDLE_TRAINER_ID": ""},
    ):
        assert rank_told(environment) == 2
    for environment in ({}, {"RANK": "two"}, {"RANK": "²"}, SBATCH):
        assert rank_told(environment) == 0


def test_paddles_own_variables_place_its_samplers() -> None:
    assert paddles_place({}) == paddles_place(TORCH) == (0, 1)
    assert paddles_place({**TORCH, "PADDLE_TRAINERS_NUM": " 4 ", "PADDLE_TRAINER_ID": "3"}) == (3, 4)
    with pytest.raises(InvalidInputError, match="PADDLE_TRAINERS_NUM holds '0'; it must be a whole number from 1"):
        paddles_place({"PADDLE_TRAINERS_NUM": "0"})


@pytest.mark.parametrize(
    ("environment", "role"),
    [
        ({}, ""),
        ({"TRAINING_ROLE": "trainer", "PADDLE_ROLE": "PSERVER"}, ""),
        ({"TRAINING_ROLE": "pserver"}, "a parameter server"),
        ({"TRAINING_ROLE": "", "PADDLE_ROLE": " PSERVER "}, "a parameter server"),
        ({"TRAINING_ROLE": "COORDINATOR"}, "a coordinator of federated learning"),
        ({"TRAINING_ROLE": "HETER_TRAINER"}, "a heterogeneous trainer"),
    ],
)
def test_a_process_that_is_not_a_worker_says_what_it_is(environment: dict[str, str], role: str) -> None:
    assert other_role(environment) == role


def test_no_variable_is_no_launcher() -> None:
    assert place_of({"PATH": "/bin", "HOME": "/"}) == Place()


# -- a group that is in no variable ------------------------------------------------------------------------


def module(**members: Any) -> Any:
    made: Any = type(sys)("a stand-in")
    made.__dict__.update(members)
    return made


@pytest.mark.parametrize(
    ("name", "stand_in", "words"),
    [
        (
            "torch.distributed",
            module(is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: 2),
            "torch.distributed was initialized with 2 workers",
        ),
        (
            "mpi4py.MPI",
            module(Is_initialized=lambda: True, Is_finalized=lambda: False, COMM_WORLD=module(Get_size=lambda: 2)),
            "MPI.COMM_WORLD of mpi4py has 2 ranks",
        ),
        (
            "paddle.distributed",
            module(is_initialized=lambda: True, get_group=lambda: module(nranks=2)),
            "paddle.distributed was initialized with 2 workers",
        ),
        (
            "paddle.distributed.fleet",
            module(fleet=module(_role_maker=module(_worker_num=lambda: 2))),
            "fleet was initialized with 2 workers",
        ),
        (
            "paddle.distributed.rpc.rpc",
            module(_barrier_store="a store", get_all_worker_infos=lambda: ["a", "b"]),
            "paddle.distributed.rpc was initialized with 2 workers",
        ),
        (
            "torch.distributed.rpc.api",
            module(
                _is_current_rpc_agent_set=lambda: True,
                _get_current_rpc_agent=lambda: module(get_worker_infos=lambda: ["a", "b"]),
            ),
            "torch.distributed.rpc was initialized with 2 workers",
        ),
    ],
)
def test_a_process_group_of_several_in_an_environment_of_one_is_an_error(
    monkeypatch: pytest.MonkeyPatch, name: str, stand_in: Any, words: str
) -> None:
    monkeypatch.setitem(sys.modules, name, stand_in)
    with pytest.raises(NoChannelError, match=words):
        Job.from_environment()
    monkeypatch.setitem(sys.modules, name, module())  # another thread imports it
    assert Job.from_environment().world_size == 1


def not_there() -> int:
    raise RuntimeError("there is no group")


@pytest.mark.parametrize(
    ("name", "stand_in"),
    [
        (
            "torch.distributed",
            module(is_available=lambda: True, is_initialized=lambda: False, get_world_size=not_there),
        ),
        (
            "mpi4py.MPI",
            module(Is_initialized=lambda: False, Is_finalized=lambda: False, COMM_WORLD=module(Get_size=not_there)),
        ),
        (
            "mpi4py.MPI",
            module(Is_initialized=lambda: True, Is_finalized=lambda: True, COMM_WORLD=module(Get_size=not_there)),
        ),
        ("paddle.distributed", module(is_initialized=lambda: False, get_group=not_there)),
        ("paddle.distributed.fleet", module(fleet=module(_role_maker=None))),
        ("paddle.distributed.rpc.rpc", module(_barrier_store=None, get_all_worker_infos=not_there)),
        (
            "torch.distributed.rpc.api",
            module(_is_current_rpc_agent_set=lambda: False, _get_current_rpc_agent=not_there),
        ),
    ],
)
def test_a_module_without_a_group_is_not_asked_for_its_size(
    monkeypatch: pytest.MonkeyPatch, name: str, stand_in: Any
) -> None:
    monkeypatch.setitem(sys.modules, name, stand_in)
    assert Job.from_environment().world_size == 1


@pytest.mark.parametrize("row", LAUNCHERS, ids=lambda row: row.name)
def test_every_variable_of_a_run_in_the_table_sets_it_apart_and_all_but_addresses_name_it(row: Launcher) -> None:
    environment = {row.size[0]: "3", row.rank[0]: "1", "FLEETMETRICS_ENDPOINT": "a:1"}
    assert not place_of(environment).named
    for name in row.run:
        places = [place_of({**environment, name: text}) for text in "12"]
        assert places[0].run != places[1].run
        assert places[0].named == (name not in ("MASTER_PORT", "HOROVOD_GLOO_RENDEZVOUS_ADDR"))


def test_a_worker_that_imports_the_package_loads_the_names_and_nothing_else() -> None:
    code = "import sys, fleetmetrics; print(*sorted(name for name in sys.modules if name[:5] in ('fleet', 'numpy')))"
    environment = {**os.environ, "PADDLE_TRAINER_ID": "1"}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["fleetmetrics", "fleetmetrics._names"]


@pytest.mark.parametrize("told", [{}, SRUN, {"PADDLE_TRAINERS_NUM": " 1 "}, {"RANK": "1"}], ids=repr)
def test_the_environment_of_the_process_says_what_a_copy_of_it_says(
    told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {**dict.fromkeys(VARIABLES, ""), **told}.items():
        monkeypatch.setenv(name, text)

    def said(environment: Mapping[str, str]) -> Any:
        try:
            return place_of(environment)
        except FleetMetricsError as error:
            return str(error)

    assert said(os.environ) == said(dict(os.environ))
