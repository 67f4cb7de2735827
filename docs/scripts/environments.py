"""Run jobs in launchers' environments, complete, partial and contradictory, and print each outcome.

    python docs/scripts/environments.py              # the counts
    python docs/scripts/environments.py --each       # and a line for each environment
    python docs/scripts/environments.py --every 8    # of every eighth

Each environment is that of three processes, or of one where it names one; they are forked, without Paddle, by a process
that stands for the launcher. The variables are set by hand: what srun, jsrun or PALS set is taken from their manuals.
Each process sums its rank plus one over the workers.
"""

from __future__ import annotations

import importlib
import os
import select
import shlex
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from _ports import free_ports  # noqa: E402

import fleetmetrics  # noqa: E402

for name in ("functional", "comm"):  # once for all
    importlib.import_module(f"fleetmetrics.{name}")

WORKERS, SECONDS = 3, 60
RIGHT, ERROR, LOCAL = "right", "clear error", "rightly local"
SILENT, MIXED = "silently local", "mixed"


class Environment(NamedTuple):
    """An environment, and what it must come to."""

    expected: str
    name: str
    #: NAME=value; {rank} is the process's, {a}, {b}, {c} and {d} are free ports.
    variables: str


PADDLES = "PADDLE_TRAINERS_NUM=3 PADDLE_TRAINER_ID={rank}"
ENDPOINTS = "127.0.0.1:{a},127.0.0.1:{b},127.0.0.1:{c}"
COLLECTIVE = f"{PADDLES} PADDLE_TRAINER_ENDPOINTS={ENDPOINTS}"
LAUNCHED = (
    f"{COLLECTIVE} PADDLE_MASTER=127.0.0.1:{{d}} PADDLE_GLOBAL_SIZE=3 PADDLE_LOCAL_SIZE=3 PADDLE_GLOBAL_RANK={{rank}}"
    " PADDLE_LOCAL_RANK={rank} PADDLE_RANK_IN_NODE={rank} PADDLE_NNODES=1 PADDLE_JOB_ID=default"
)
SERVERS = "TRAINING_ROLE=TRAINER PADDLE_PSERVERS_IP_PORT_LIST=127.0.0.1:{d}"
HAND_MADE = "FLEETMETRICS_ENDPOINT=127.0.0.1:{a}"
TORCH = "WORLD_SIZE=3 RANK={rank} MASTER_ADDR=127.0.0.1 MASTER_PORT={a}"
TORCHRUN = (
    f"{TORCH} LOCAL_WORLD_SIZE=3 LOCAL_RANK={{rank}} GROUP_RANK=0 GROUP_WORLD_SIZE=1 ROLE_RANK={{rank}}"
    " ROLE_WORLD_SIZE=3 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_MAX_RESTARTS=0"
)
OPEN_MPI = "OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK={rank} PMIX_RANK={rank} PMIX_NAMESPACE=prterun-{a}@1"
ONE_HOST = f"{OPEN_MPI} OMPI_COMM_WORLD_LOCAL_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK={{rank}}"
MPICH = "PMI_SIZE=3 PMI_RANK={rank} PMI_FD=9 MPI_LOCALNRANKS=3 MPI_LOCALRANKID={rank}"
MVAPICH = "MV2_COMM_WORLD_SIZE=3 MV2_COMM_WORLD_RANK={rank} MV2_COMM_WORLD_LOCAL_SIZE=3"
JSRUN = "JSM_NAMESPACE_SIZE=3 JSM_NAMESPACE_RANK={rank} JSM_NAMESPACE_LOCAL_SIZE=3 LSB_JOBID={a} PMIX_RANK={rank}"
PALS = "PALS_RANKID={rank} PALS_APID={a} PALS_NODEID=0 PALS_LOCAL_SIZE=3 PMI_SIZE=3 PMI_RANK={rank}"
HOROVOD = "HOROVOD_SIZE=3 HOROVOD_RANK={rank} HOROVOD_LOCAL_SIZE=3 HOROVOD_GLOO_RENDEZVOUS_PORT={a}"
TASK = "SLURM_JOB_ID={a} SLURM_STEP_ID=0 SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID={rank}"
SRUN = f"{TASK} SLURM_STEP_NODELIST=node7 SLURM_STEP_NUM_NODES=1"
TF_OF_ONE = """'TF_CONFIG={{"cluster":{{"worker":["a:1"],"ps":["s:1"]}},"task":{{"index":{rank}}}}}'"""
TF_JOB = TF_OF_ONE.replace('"a:1"', '"a:1","b:1","c:1"')
BATCH = "SLURM_JOB_ID=17 SLURM_NTASKS=3 SLURM_PROCID=0 SLURM_JOB_NODELIST=node[01-03] SLURM_NNODES=3"


def separated(by: str) -> str:
    """Three workers of Paddle's, their endpoints separated by something else than a comma."""
    return f"{PADDLES} 'PADDLE_TRAINER_ENDPOINTS={ENDPOINTS.replace(',', by)}'"


ENVIRONMENTS = [
    Environment(*entry)
    for entry in (
        # -- Paddle's own launchers
        (RIGHT, "Paddle, collective", COLLECTIVE),
        (RIGHT, "Paddle, collective, everything that launch sets", LAUNCHED),
        (RIGHT, "Paddle, collective, no endpoints", f"{PADDLES} PADDLE_MASTER=127.0.0.1:{{a}}"),
        (RIGHT, "Paddle, parameter servers", f"{COLLECTIVE} {SERVERS}"),
        (RIGHT, "Paddle, servers, PADDLE_ROLE", f"{COLLECTIVE} {SERVERS} PADDLE_ROLE=TRAINER PADDLE_PORT=1"),
        (RIGHT, "operator, with launch", f"{LAUNCHED} PADDLE_NNODES=3 PADDLE_TRAINERS=a,b,c POD_NAME=w-{{rank}}"),
        (RIGHT, "endpoints separated by semicolons", separated(";")),
        (RIGHT, "endpoints separated by blanks", separated(" ")),
        (RIGHT, "endpoints separated by commas and blanks", separated(", ")),
        (RIGHT, "FLEETMETRICS_ENDPOINT", f"{PADDLES} {HAND_MADE}"),
        (RIGHT, "FLEETMETRICS_ENDPOINT, SECRET", f"{PADDLES} {HAND_MADE} FLEETMETRICS_SECRET=x"),
        (RIGHT, "Paddle under srun", f"{SRUN} {COLLECTIVE}"),
        (RIGHT, "Paddle under srun, a task a machine", f"{COLLECTIVE} {SRUN} SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0"),
        (RIGHT, "Paddle's number and rank under srun", f"{SRUN} {PADDLES}"),
        (RIGHT, "Paddle under mpirun", f"{ONE_HOST} {COLLECTIVE}"),
        (RIGHT, "servers under mpirun", f"{COLLECTIVE} {SERVERS} OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK={{rank}}"),
        (ERROR, "number alone", "PADDLE_TRAINERS_NUM=3"),
        (ERROR, "number and rank", PADDLES),
        (ERROR, "rank alone", "PADDLE_TRAINER_ID={rank}"),
        (ERROR, "number no number", f"{COLLECTIVE} PADDLE_TRAINERS_NUM=three"),
        (ERROR, "number 0", f"{COLLECTIVE} PADDLE_TRAINERS_NUM=0"),
        (ERROR, "number -3", f"{COLLECTIVE} PADDLE_TRAINERS_NUM=-3"),
        (ERROR, "number 3.0", f"{COLLECTIVE} PADDLE_TRAINERS_NUM=3.0"),
        (ERROR, "rank no number", f"{COLLECTIVE} PADDLE_TRAINER_ID=x"),
        (ERROR, "rank beyond", f"{COLLECTIVE} PADDLE_TRAINER_ID=3"),
        (ERROR, "endpoints, no number", f"PADDLE_TRAINER_ENDPOINTS={ENDPOINTS} PADDLE_TRAINER_ID={{rank}}"),
        (ERROR, "endpoints, number empty", f"{COLLECTIVE} PADDLE_TRAINERS_NUM="),
        (ERROR, "endpoints, number 1", f"{COLLECTIVE} PADDLE_TRAINERS_NUM=1 PADDLE_TRAINER_ID=0"),
        (ERROR, "endpoints of two, number 3", f"{PADDLES} PADDLE_TRAINER_ENDPOINTS=127.0.0.1:{{a}},127.0.0.1:{{b}}"),
        (ERROR, "endpoints without ports", f"{PADDLES} PADDLE_TRAINER_ENDPOINTS=a,b,c"),
        (ERROR, "semicolons, no number", "'PADDLE_TRAINER_ENDPOINTS=a:1;b:1;c:1'"),
        (ERROR, "blanks, no number", "'PADDLE_TRAINER_ENDPOINTS=a:1 b:1 c:1'"),
        (ERROR, "master without a port", f"{PADDLES} PADDLE_MASTER=127.0.0.1"),
        (ERROR, "PADDLE_GLOBAL_SIZE", "PADDLE_GLOBAL_SIZE=3"),
        (ERROR, "PADDLE_GLOBAL_SIZE, _RANK", "PADDLE_GLOBAL_SIZE=3 PADDLE_GLOBAL_RANK={rank} PADDLE_MASTER=a:1"),
        (ERROR, "PADDLE_GLOBAL_SIZE, number 1", "PADDLE_GLOBAL_SIZE=3 PADDLE_TRAINERS_NUM=1"),
        (ERROR, "PADDLE_GLOBAL_SIZE, number 2", f"{COLLECTIVE} PADDLE_GLOBAL_SIZE=4"),
        (ERROR, "operator, not under launch", "PADDLE_NNODES=3 PADDLE_MASTER=a:1 PADDLE_JOB_ID=j POD_NAME=w-{rank}"),
        (ERROR, "operator, a range of machines", "PADDLE_NNODES=2:4 PADDLE_MASTER=127.0.0.1:{a}"),
        (ERROR, "operator, machines no number", "PADDLE_NNODES=many PADDLE_MASTER=127.0.0.1:{a}"),
        (ERROR, "machines 3, number 1", "PADDLE_NNODES=3 PADDLE_TRAINERS_NUM=1 PADDLE_TRAINER_ID=0"),
        (ERROR, "PADDLE_TRAINERS", "PADDLE_TRAINERS=h1,h2,h3"),
        (ERROR, "PADDLE_GLOBAL_RANK alone", "PADDLE_GLOBAL_RANK={rank}"),
        (ERROR, "PADDLE_LOCAL_RANK alone", "PADDLE_LOCAL_RANK={rank}"),
        (ERROR, "PADDLE_LOCAL_SIZE alone", "PADDLE_LOCAL_SIZE=3"),
        (ERROR, "PADDLE_RANK_IN_NODE alone", "PADDLE_RANK_IN_NODE={rank}"),
        (RIGHT, "PADDLE_LOCAL_SIZE, all on one machine", f"{PADDLES} PADDLE_LOCAL_SIZE=3 PADDLE_JOB_ID=j{{a}}"),
        (ERROR, "PADDLE_LOCAL_SIZE, others elsewhere", f"{PADDLES} PADDLE_LOCAL_SIZE=2"),
        (ERROR, "PADDLE_GLOBAL_RANK beyond", f"{COLLECTIVE} PADDLE_GLOBAL_RANK=3"),
        (ERROR, "elastic, not under launch", "PADDLE_ELASTIC_NP=3 PADDLE_ELASTIC_JOB_ID=j"),
        (ERROR, "elastic, a range", "PADDLE_ELASTIC_NP=2:4"),
        (RIGHT, "elastic, all came", f"{COLLECTIVE} PADDLE_ELASTIC_NP=2:4"),
        (ERROR, "PaddleCloud, endpoints alone", f"DISTRIBUTED_TRAINER_ENDPOINTS={ENDPOINTS}"),
        (ERROR, "servers by their other name, no number", "PADDLE_PSERVER_ENDPOINTS=127.0.0.1:{d}"),
        (ERROR, "endpoints are URLs", f"{PADDLES} PADDLE_TRAINER_ENDPOINTS=http://a:1,http://b:1,http://c:1"),
        (ERROR, "endpoints are addresses alone", f"{PADDLES} PADDLE_TRAINER_ENDPOINTS=::1,::2,::3"),
        (ERROR, "number of 5,000 digits", f"{COLLECTIVE} PADDLE_TRAINERS_NUM={'3' * 5000}"),
        (ERROR, "number of 12 digits", f"{PADDLES} PADDLE_MASTER=127.0.0.1:{{a}} PADDLE_TRAINERS_NUM=333333333333"),
        (ERROR, "no rank anywhere", f"{COLLECTIVE} PADDLE_TRAINER_ID="),
        (ERROR, "no rank, one machine", "PADDLE_TRAINERS_NUM=3 PADDLE_LOCAL_SIZE=3"),
        (ERROR, "endpoints separated by bars, no number", f"'PADDLE_TRAINER_ENDPOINTS={ENDPOINTS.replace(',', '|')}'"),
        (ERROR, "endpoints separated by bars", separated("|")),
        (ERROR, "endpoints in JSON, no number", "'PADDLE_TRAINER_ENDPOINTS=[\"a:1\",\"b:1\"]'"),
        (ERROR, "the launcher's number, not under launch", "PADDLE_TRAINER_NUM=3 PADDLE_SERVER_NUM=1"),
        (ERROR, "the launcher's endpoints, not under launch", f"PADDLE_TRAINERS_ENDPOINTS={ENDPOINTS}"),
        (ERROR, "the launcher's number on a machine, not under launch", "PADDLE_NPROC_PER_NODE=3"),
        (ERROR, "the launcher's addresses, not under launch", "PADDLE_IPS=10.0.0.1,10.0.0.2"),
        (ERROR, "PaddleCloud, endpoints by their other name", f"PADDLE_WORKERS_IP_PORT_LIST={ENDPOINTS}"),
        (ERROR, "a range of machines from one on", "PADDLE_NNODES=1:3 PADDLE_MASTER=127.0.0.1:{a}"),
        (RIGHT, "the launcher's own variables, under launch", f"{LAUNCHED} PADDLE_NPROC_PER_NODE=3 PADDLE_NNODES=1:3"),
        (ERROR, "servers, no number", SERVERS),
        (ERROR, "servers and rank, no number", f"{SERVERS} PADDLE_TRAINER_ID={{rank}}"),
        (ERROR, "a parameter server", f"{COLLECTIVE} {SERVERS} TRAINING_ROLE=PSERVER"),
        (ERROR, "a parameter server by PADDLE_ROLE", "PADDLE_ROLE=PSERVER PADDLE_PSERVER_ENDPOINTS=127.0.0.1:{a}"),
        (ERROR, "FLEETMETRICS_ENDPOINT alone", HAND_MADE),
        (ERROR, "FLEETMETRICS_ENDPOINT, SECRET alone", f"{HAND_MADE} FLEETMETRICS_SECRET=x"),
        (ERROR, "FLEETMETRICS_ENDPOINT, rank", f"{HAND_MADE} PADDLE_TRAINER_ID={{rank}}"),
        (ERROR, "FLEETMETRICS_ENDPOINT without a port", f"{PADDLES} FLEETMETRICS_ENDPOINT=127.0.0.1"),
        (ERROR, "FLEETMETRICS_ENDPOINT, a list", f"{PADDLES} FLEETMETRICS_ENDPOINT={ENDPOINTS}"),
        (ERROR, "FLEETMETRICS_ENDPOINT, a URL", f"{PADDLES} FLEETMETRICS_ENDPOINT=tcp://127.0.0.1:{{a}}"),
        (ERROR, "FLEETMETRICS_ENGINE unknown", f"{COLLECTIVE} FLEETMETRICS_ENGINE=ucx"),
        (ERROR, "FLEETMETRICS_ENGINE=mpi, no mpirun", "FLEETMETRICS_ENGINE=mpi"),
        (LOCAL, "nothing", ""),
        (LOCAL, "Paddle, one worker", "PADDLE_TRAINERS_NUM=1 PADDLE_TRAINER_ID=0 PADDLE_TRAINER_ENDPOINTS=a:1"),
        (LOCAL, "all is empty", "PADDLE_TRAINERS_NUM= WORLD_SIZE= FLEETMETRICS_ENDPOINT= FLEETMETRICS_ENGINE="),
        (LOCAL, "FLEETMETRICS_SECRET", "FLEETMETRICS_SECRET=x"),
        (LOCAL, "elastic, one came", "PADDLE_TRAINERS_NUM=1 PADDLE_TRAINER_ID=0 PADDLE_NNODES=1:3"),
        (LOCAL, "FLEETMETRICS_ENDPOINT of one", f"{HAND_MADE} PADDLE_TRAINERS_NUM=1"),
        # -- torchrun, and what sets the same
        (RIGHT, "torchrun", TORCHRUN),
        (RIGHT, "torch's variables by hand", TORCH),
        (RIGHT, "torchrun, a process a machine", f"{TORCHRUN} LOCAL_WORLD_SIZE=1 MASTER_ADDR=localhost"),
        (RIGHT, "torchrun under srun, a task a machine", f"{SRUN} SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 {TORCHRUN}"),
        (RIGHT, "torchrun, Paddle's number empty", f"{TORCHRUN} PADDLE_TRAINERS_NUM= PADDLE_TRAINER_ID="),
        (RIGHT, "torchrun, FLEETMETRICS_ENDPOINT", f"{TORCHRUN} FLEETMETRICS_ENDPOINT=127.0.0.1:{{b}}"),
        (ERROR, "torch, no MASTER_ADDR", "WORLD_SIZE=3 RANK={rank}"),
        (RIGHT, "torch, an address in brackets", "WORLD_SIZE=3 RANK={rank} MASTER_ADDR=[::1] MASTER_PORT={a}"),
        (ERROR, "torch, MASTER_ADDR with a port", "WORLD_SIZE=3 RANK={rank} MASTER_ADDR=127.0.0.1:{a}"),
        (ERROR, "torch, MASTER_ADDR a URL", "WORLD_SIZE=3 RANK={rank} MASTER_ADDR=tcp://127.0.0.1"),
        (ERROR, "torch, MASTER_ADDR with blanks", "WORLD_SIZE=3 RANK={rank} 'MASTER_ADDR=a b c'"),
        (ERROR, "torch, no RANK", "WORLD_SIZE=3 MASTER_ADDR=127.0.0.1"),
        (ERROR, "torch, no WORLD_SIZE", "RANK={rank} MASTER_ADDR=127.0.0.1"),
        (ERROR, "WORLD_SIZE alone", "WORLD_SIZE=3"),
        (ERROR, "WORLD_SIZE no number", f"{TORCH} WORLD_SIZE=auto"),
        (ERROR, "RANK beyond", f"{TORCH} RANK=3"),
        (ERROR, "torchrun, Paddle's number 1", f"{TORCHRUN} PADDLE_TRAINERS_NUM=1"),
        (ERROR, "torchrun, Paddle's number 2", f"{TORCHRUN} PADDLE_TRAINERS_NUM=2 PADDLE_TRAINER_ID={{rank}}"),
        (ERROR, "LOCAL_WORLD_SIZE, no WORLD_SIZE", "LOCAL_WORLD_SIZE=3 LOCAL_RANK={rank}"),
        (ERROR, "LOCAL_RANK alone", "LOCAL_RANK={rank}"),
        (ERROR, "GROUP_WORLD_SIZE alone", "GROUP_WORLD_SIZE=3 GROUP_RANK={rank}"),
        (LOCAL, "LOCAL_RANK is -1", "LOCAL_RANK=-1"),
        (LOCAL, "torchrun, one process", "WORLD_SIZE=1 RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1"),
        (LOCAL, "MASTER_ADDR alone", "MASTER_ADDR=node1 MASTER_PORT=29500"),
        # -- mpirun of several kinds
        (RIGHT, "Open MPI, one machine", ONE_HOST),
        (RIGHT, "Open MPI, Paddle's number empty", f"{ONE_HOST} PADDLE_TRAINERS_NUM="),
        (RIGHT, "Open MPI, MASTER_ADDR", f"{OPEN_MPI} OMPI_COMM_WORLD_LOCAL_SIZE=1 MASTER_ADDR=127.0.0.1"),
        (RIGHT, "Open MPI, FLEETMETRICS_ENDPOINT", f"{OPEN_MPI} FLEETMETRICS_ENDPOINT=127.0.0.1:{{a}}"),
        (RIGHT, "MPICH, one machine", MPICH),
        (RIGHT, "Intel MPI, one machine", f"{MPICH} I_MPI_ROOT=/opt/intel I_MPI_HYDRA_HOST_FILE=hosts"),
        (RIGHT, "MVAPICH, one machine", MVAPICH),
        (RIGHT, "jsrun, one machine", JSRUN),
        (RIGHT, "Cray PALS, one machine", PALS),
        (RIGHT, "Horovod, one machine", HOROVOD),
        (ERROR, "Open MPI, several machines", f"{OPEN_MPI} OMPI_COMM_WORLD_LOCAL_SIZE=1"),
        (ERROR, "Open MPI, number alone", "OMPI_COMM_WORLD_SIZE=3"),
        (ERROR, "Open MPI, rank alone", "OMPI_COMM_WORLD_RANK={rank}"),
        (ERROR, "Open MPI, Paddle's number 1", f"{ONE_HOST} PADDLE_TRAINERS_NUM=1"),
        (ERROR, "Open MPI, number no number", f"{ONE_HOST} OMPI_COMM_WORLD_SIZE=x"),
        (ERROR, "MPICH, several machines", f"{MPICH} MPI_LOCALNRANKS=1"),
        (ERROR, "PMI, number alone", "PMI_SIZE=3"),
        (ERROR, "PMI, rank alone", "PMI_RANK={rank}"),
        (ERROR, "MPICH, Paddle's number 1", f"{MPICH} PADDLE_TRAINERS_NUM=1"),
        (ERROR, "MVAPICH, several machines", f"{MVAPICH} MV2_COMM_WORLD_LOCAL_SIZE=2"),
        (RIGHT, "PMIx, its number by hand", "PMIX_SIZE=3 PMIX_RANK={rank} PMIX_NAMESPACE=n{a} MASTER_ADDR=127.0.0.1"),
        (ERROR, "PMIx, rank alone", "PMIX_RANK={rank} PMIX_NAMESPACE=n"),
        (ERROR, "jsrun, several machines", f"{JSRUN} JSM_NAMESPACE_LOCAL_SIZE=1"),
        (ERROR, "jsrun, number alone", "JSM_NAMESPACE_SIZE=3"),
        (ERROR, "Cray PALS, no number", "PALS_RANKID={rank} PALS_APID=x"),
        (ERROR, "Cray PALS, several machines", f"{PALS} PALS_LOCAL_SIZE=1"),
        (ERROR, "Horovod, several machines", f"{HOROVOD} HOROVOD_LOCAL_SIZE=1"),
        (ERROR, "Horovod, number alone", "HOROVOD_SIZE=3"),
        (RIGHT, "MVAPICH 3, one machine", MVAPICH.replace("MV2_", "MVP_")),
        (ERROR, "mpirun_rsh, several machines", "MPIRUN_NPROCS=3 MPIRUN_RANK={rank} MPIRUN_ID={a}"),
        (ERROR, "Open MPI, a rank on its machine alone", "OMPI_COMM_WORLD_LOCAL_RANK={rank}"),
        (ERROR, "PMI, its other rank alone", "PMI_ID={rank}"),
        (ERROR, "Horovod, machines alone", "HOROVOD_CROSS_SIZE=3 HOROVOD_CROSS_RANK={rank}"),
        (LOCAL, "mpirun -n 1", "OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0"),
        # -- Slurm
        (RIGHT, "srun, one machine", SRUN),
        (RIGHT, "srun, several machines", f"{TASK} SLURM_STEP_NODELIST=localhost,node[02-03]"),
        (RIGHT, "srun, machines in brackets", f"{TASK} SLURM_STEP_NODELIST=127.0.0.[1-3]"),
        (RIGHT, "srun, MASTER_ADDR", f"{TASK} SLURM_STEP_NODELIST=node[01-03] MASTER_ADDR=127.0.0.1"),
        (RIGHT, "srun --mpi=pmi2", f"{SRUN} PMI_SIZE=3 PMI_RANK={{rank}} PMI_FD=9"),
        (RIGHT, "srun --mpi=pmix", f"{SRUN} PMIX_RANK={{rank}} PMIX_NAMESPACE=slurm.pmix.17.0"),
        (ERROR, "srun, no list of machines", TASK),
        (ERROR, "srun, a list cut off", f"{TASK} 'SLURM_STEP_NODELIST=node[01-'"),
        (ERROR, "srun, no rank", "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NODELIST=node7"),
        (ERROR, "srun, Paddle's number 1", f"{SRUN} PADDLE_TRAINERS_NUM=1"),
        (ERROR, "srun, torch's number 1", f"{SRUN} WORLD_SIZE=1 RANK=0"),
        (ERROR, "SLURM_NTASKS and _PROCID alone", "SLURM_NTASKS=3 SLURM_PROCID={rank}"),
        (ERROR, "srun, machines alone", "SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=3"),
        (ERROR, "srun, the rank on its machine alone", "SLURM_LOCALID={rank} SLURM_NTASKS_PER_NODE=3"),
        (LOCAL, "the script of sbatch", BATCH),
        (LOCAL, "srun, one task", "SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_NTASKS=1 SLURM_PROCID=0 SLURM_LOCALID=0"),
        (LOCAL, "a task of an array of jobs", "SLURM_JOB_ID=17 SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=3"),
        (LOCAL, "the shell of salloc", BATCH.replace("SLURM_PROCID=0 ", "")),
        # -- launchers that place no worker here
        (ERROR, "Kubeflow, TF_CONFIG", TF_JOB),
        (RIGHT, "Kubeflow, TF_CONFIG and Paddle's", f"{TF_JOB} {COLLECTIVE}"),
        (ERROR, "Kubeflow, TF_CONFIG, Paddle's number 1", f"{TF_JOB} PADDLE_TRAINERS_NUM=1"),
        (ERROR, "SageMaker", "'SM_HOSTS=[\"algo-1\",\"algo-2\"]' SM_CURRENT_HOST=algo-1"),
        (ERROR, "AzureML", "AZUREML_NODE_COUNT=3"),
        (ERROR, "Vertex AI", "'CLUSTER_SPEC={{\"cluster\":{{\"workerpool0\":[\"a:1\"],\"workerpool1\":[\"b:1\"]}}}}'"),
        (ERROR, "Volcano", "VC_WORKER_NUM=3 VC_TASK_INDEX={rank} VC_WORKER_HOSTS=a,b,c"),
        (ERROR, "a pod of PyTorchJob, not under torchrun", "PET_NNODES=3 PET_NODE_RANK={rank}"),
        (ERROR, "Flux", "FLUX_JOB_SIZE=3 FLUX_TASK_RANK={rank} FLUX_JOB_ID=f1"),
        (ERROR, "DMLC", "DMLC_ROLE=worker DMLC_NUM_WORKER=3 DMLC_WORKER_ID={rank}"),
        (ERROR, "Ascend", "RANK_SIZE=3 RANK_ID={rank}"),
        (ERROR, "JAX", "JAX_NUM_PROCESSES=3 JAX_PROCESS_ID={rank}"),
        (ERROR, "aprun, rank alone", "ALPS_APP_PE={rank}"),
        (ERROR, "machines by NNODES", "NNODES=3 NODE_RANK={rank}"),
        (ERROR, "NODE_RANK alone", "NODE_RANK={rank}"),
        (ERROR, "SkyPilot", "SKYPILOT_NUM_NODES=3 SKYPILOT_NODE_RANK={rank}"),
        (ERROR, "TPUs", "TPU_WORKER_HOSTNAMES=a,b,c TPU_WORKER_ID={rank}"),
        (ERROR, "TPUs, slices", "MEGASCALE_NUM_SLICES=3 MEGASCALE_SLICE_ID={rank}"),
        (ERROR, "BytePS", "DMLC_NUM_WORKER=1 BYTEPS_LOCAL_SIZE=3 BYTEPS_LOCAL_RANK={rank}"),
        (LOCAL, "SkyPilot, one machine", "SKYPILOT_NUM_NODES=1 SKYPILOT_NODE_RANK=0 SKYPILOT_NODE_IPS=10.0.0.1"),
        (LOCAL, "TPUs, one machine", "TPU_WORKER_HOSTNAMES=localhost TPU_WORKER_ID=0"),
        (LOCAL, "NNODES, one machine", "NNODES=1 NODE_RANK=0"),
        (LOCAL, "a task of an indexed job of Kubernetes", "JOB_COMPLETION_INDEX=2"),
        (LOCAL, "Kubeflow, one worker and its server", TF_OF_ONE),
        (LOCAL, "Flux, one process", "FLUX_JOB_SIZE=1 FLUX_TASK_RANK=0 FLUX_JOB_ID=f1"),
        (LOCAL, "SageMaker, one machine", "'SM_HOSTS=[\"algo-1\"]' SM_CURRENT_HOST=algo-1"),
        (LOCAL, "an interactive step", f"{BATCH} SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=1"),
    )
]  # fmt: skip


def variables_of(environment: Environment, rank: int, ports: list[int]) -> dict[str, str]:
    """The variables of one process."""
    named = dict(zip("abcd", ports), rank=rank)
    return dict(entry.format(**named).split("=", 1) for entry in shlex.split(environment.variables))


def launch(environment: Environment, writer: int) -> None:
    """Stand for the launcher, in a process of its own: fork the workers, who write what they see."""
    workers, ports = 1 if environment.expected == LOCAL else WORKERS, free_ports(4)
    for rank in range(workers):
        if os.fork():
            continue
        os.environ.clear()
        os.environ.update({"FLEETMETRICS_TIMEOUT": str(SECONDS), **variables_of(environment, rank, ports)})
        try:
            said = str(fleetmetrics.sum(np.array([rank + 1])).item())
        except fleetmetrics.FleetMetricsError as error:
            said = f"{type(error).__name__}: {error}"
        except BaseException as error:
            said = f"RAW {type(error).__name__}: {error}"
        os.write(writer, f"{rank} {said}\n".encode())
        os._exit(0)
    for _ in range(workers):
        os.wait()
    os._exit(0)


def came_of(environment: Environment, said: list[str]) -> str:
    """The outcome of an environment, from what each process printed."""
    whole, own = str(sum(range(1, WORKERS + 1))), [str(rank + 1) for rank in range(len(said))]
    if environment.expected == LOCAL:
        return LOCAL if said == own else ERROR
    if set(said) == {whole} and len(said) == WORKERS:
        return RIGHT
    if len(said) == WORKERS and all(": " in each and not each.startswith("RAW") for each in said):
        return ERROR
    return SILENT if set(said) & set(own) else MIXED


def run(environments: list[Environment], at_once: int = 8) -> dict[Environment, tuple[str, list[str]]]:
    """Run environments, several at once.

    Args:
        environments: some of ENVIRONMENTS.
        at_once: how many.

    Returns:
        The outcome of each environment, and what each rank printed.
    """
    found = {}
    for start in range(0, len(environments), at_once):
        readers = {}
        for environment in environments[start : start + at_once]:
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                os.setpgid(0, 0)
                launch(environment, writer)
            os.close(writer)
            readers[environment] = child, reader
        for environment, (child, reader) in readers.items():
            data: bytes = b""
            while select.select([reader], [], [], 2 * SECONDS)[0]:
                piece = os.read(reader, 1 << 16)
                if not piece:
                    break
                data += piece
            else:
                os.killpg(child, signal.SIGKILL)
            os.close(reader)
            os.waitpid(child, 0)
            said = [line.partition(" ")[2] for line in sorted(data.decode().splitlines())]
            found[environment] = came_of(environment, said), said
    return found


def counted(found: dict[Environment, tuple[str, list[str]]]) -> str:
    """How many came to what."""
    counts = Counter(outcome for outcome, _ in found.values())
    each = ", ".join(f"{counts[outcome]} {outcome}" for outcome in (RIGHT, ERROR, LOCAL, SILENT, MIXED))
    return f"{len(found)} environments: {each}"


def main() -> None:
    every = int(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else 1
    found = run(ENVIRONMENTS[::every])
    for environment, (outcome, said) in found.items():
        wrong = outcome != environment.expected
        if wrong or "--each" in sys.argv:
            print(f"{outcome:14} {environment.name}{': WRONG' * wrong}\n    " + "\n    ".join(dict.fromkeys(said)))
    print(counted(found))


if __name__ == "__main__":
    main()
