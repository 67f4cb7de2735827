"""The table of launchers, with the environment variables that give each worker its place.

`comm.launchers` uses it to find a process's place, `identity` to find the worker that a process claims to be. The
package imports it where a worker starts, so it imports only modules that Python has already loaded.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
from typing import Callable, Mapping, NamedTuple

__all__ = [
    "LAUNCHERS",
    "OTHERS",
    "PADDLE",
    "Environment",
    "Launcher",
    "draws_ports",
    "launch_of",
    "notice",
    "other_role",
]

#: Variables that are set, with their values.
Environment = Mapping[str, str]


class Launcher(NamedTuple):
    """The environment variables of one launcher; of alternatives, the first that is set counts.

    Args:
        name: the launcher's name.
        size: the number of workers.
        rank: this worker's rank, from 0.
        local: the number of workers on this machine: if these are all, they meet on a loopback address.
        nodes: the list of the machines, in Slurm's notation; rank 0 is on the first.
        host: the machine of rank 0.
        run: distinguishes this run from others on the same machines.
        least: lower bounds of the number of workers, such as the number of machines.
        lists: lists of workers, or of their machines.
        hints: other variables of workers: numbers of this process, from 0, or the addresses of others.
        command: the command that starts it, if that is a Python program.
        modules: its Python modules.
        mpi: whether MPI could connect its workers.
        started: decides from the set variables whether it started this process.
    """

    name: str
    size: tuple[str, ...]
    rank: tuple[str, ...]
    local: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    command: str = ""
    modules: tuple[str, ...] = ()
    mpi: bool = False
    started: Callable[[Environment], bool] = lambda env: True

    @property
    def of(self) -> tuple[str, ...]:
        """The variables that are equal in one run, and differ between runs."""
        return self.size + self.run + self.host + self.lists

    @property
    def variables(self) -> set[str]:
        """All variables."""
        groups = (self.size, self.rank, self.local, self.nodes, self.host, self.run, self.least, self.lists, self.hints)
        return {name for group in groups for name in group}


def _is_a_step(env: Environment) -> bool:
    """Whether srun started this process. The script of sbatch and the shell of salloc have variables, too."""
    if {"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"}.intersection(env):
        return True
    ranks = {"SLURM_PROCID", "SLURM_LOCALID"}.intersection(env)
    return any(env[name] != "0" or "SLURM_JOB_ID" not in env for name in ranks)


#: Each launcher is nearer to the worker than those below it, which may have started it: torchrun under srun.
LAUNCHERS = (
    Launcher(
        "Paddle's launcher",
        size=("PADDLE_TRAINERS_NUM",),
        rank=("PADDLE_TRAINER_ID",),
        local=("PADDLE_LOCAL_SIZE",),
        run=("PADDLE_JOB_ID",),
        # The last two are options of the launcher: a script that runs without it is one of several.
        least=(
            "PADDLE_GLOBAL_SIZE",
            "PADDLE_NNODES",
            "PADDLE_ELASTIC_NP",
            "PADDLE_TRAINER_NUM",
            "PADDLE_NPROC_PER_NODE",
        ),
        lists=(
            "PADDLE_TRAINER_ENDPOINTS",
            "PADDLE_TRAINERS",
            "PADDLE_TRAINERS_ENDPOINTS",
            "PADDLE_IPS",
            "PADDLE_WORKERS_IP_PORT_LIST",
        ),
        hints=(
            "PADDLE_GLOBAL_RANK",
            "PADDLE_LOCAL_RANK",
            "PADDLE_RANK",
            "PADDLE_RANK_IN_NODE",
            "DISTRIBUTED_TRAINER_ENDPOINTS",
            "TRAINER_IP_PORT_LIST",
            "PADDLE_PSERVER_ENDPOINTS",
            "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST",
            "PADDLE_COORDINATOR_ENDPOINTS",
        ),
        command="fleetrun",
        modules=("paddle.distributed.launch", "paddle.distributed.fleet.launch"),
    ),
    Launcher(
        "torchrun",
        size=("WORLD_SIZE",),
        rank=("RANK",),
        local=("LOCAL_WORLD_SIZE",),
        host=("MASTER_ADDR",),
        # Not TORCHELASTIC_RESTART_COUNT: each agent counts the restarts of its own workers.
        run=("TORCHELASTIC_RUN_ID", "MASTER_PORT"),
        least=("GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE"),
        hints=("LOCAL_RANK", "GROUP_RANK", "ROLE_RANK"),
        command="torchrun",
        modules=("torch.distributed.run", "torch.distributed.launch"),
    ),
    Launcher(
        "horovodrun",
        size=("HOROVOD_SIZE",),
        rank=("HOROVOD_RANK",),
        local=("HOROVOD_LOCAL_SIZE",),
        run=("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"),
        least=("HOROVOD_CROSS_SIZE",),
        hints=("HOROVOD_LOCAL_RANK", "HOROVOD_CROSS_RANK"),
    ),
    Launcher(
        "mpirun of Open MPI",
        size=("OMPI_COMM_WORLD_SIZE",),
        rank=("OMPI_COMM_WORLD_RANK",),
        local=("OMPI_COMM_WORLD_LOCAL_SIZE",),
        run=("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
        hints=("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK"),
        mpi=True,
    ),
    Launcher(
        "mpirun of MVAPICH",
        size=("MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE", "MPIRUN_NPROCS"),
        rank=("MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK", "MPIRUN_RANK"),
        local=("MV2_COMM_WORLD_LOCAL_SIZE", "MVP_COMM_WORLD_LOCAL_SIZE"),
        run=("MPIRUN_ID",),
        hints=("MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"),
        mpi=True,
    ),
    Launcher(
        "jsrun",
        size=("JSM_NAMESPACE_SIZE",),
        rank=("JSM_NAMESPACE_RANK",),
        local=("JSM_NAMESPACE_LOCAL_SIZE",),
        run=("LSB_JOBID", "PMIX_NAMESPACE"),
        hints=("JSM_NAMESPACE_LOCAL_RANK",),
        mpi=True,
    ),
    Launcher(
        "mpiexec of Cray PALS",
        size=("PMI_SIZE",),
        rank=("PALS_RANKID",),
        local=("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        run=("PALS_APID",),
        hints=("PALS_LOCAL_RANKID", "PALS_NODEID"),
        mpi=True,
        started=lambda env: any(name.startswith("PALS_") for name in env),
    ),
    Launcher(
        "mpirun of MPICH or Intel MPI",
        size=("PMI_SIZE",),
        rank=("PMI_RANK",),
        local=("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"),
        hints=("PMI_ID", "MPI_LOCALRANKID", "PMI_LOCAL_RANK"),
        mpi=True,
    ),
    Launcher("PMIx", size=("PMIX_SIZE",), rank=("PMIX_RANK",), run=("PMIX_NAMESPACE",), mpi=True),
    Launcher(
        "srun",
        size=("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"),
        rank=("SLURM_PROCID",),
        nodes=("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"),
        run=("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEPID"),
        least=("SLURM_STEP_NUM_NODES",),
        hints=("SLURM_LOCALID",),
        started=_is_a_step,
    ),
)
PADDLE = LAUNCHERS[0]
#: Variables of other launchers do not place a worker, but show that there are several.
OTHERS = Launcher(
    "another launcher",
    size=(),
    rank=(),
    least=(
        "AZUREML_NODE_COUNT",
        "BYTEPS_LOCAL_SIZE",
        "DMLC_NUM_WORKER",
        "FLUX_JOB_SIZE",
        "JAX_NUM_PROCESSES",
        "MEGASCALE_NUM_SLICES",
        "MP_PROCS",
        "NNODES",
        "PET_NNODES",
        "RANK_SIZE",
        "SKYPILOT_NUM_NODES",
        "VC_WORKER_NUM",
    ),
    lists=("CLUSTER_SPEC", "SKYPILOT_NODE_IPS", "SM_HOSTS", "TF_CONFIG", "TPU_WORKER_HOSTNAMES", "VC_WORKER_HOSTS"),
    hints=(
        "ALPS_APP_PE",
        "BYTEPS_LOCAL_RANK",
        "DMLC_TASK_ID",
        "DMLC_WORKER_ID",
        "FLUX_TASK_RANK",
        "JAX_PROCESS_ID",
        "MEGASCALE_SLICE_ID",
        "MP_CHILD",
        "NODE_RANK",
        "RANK_ID",
        "SKYPILOT_NODE_RANK",
        "TPU_WORKER_ID",
        "VC_TASK_INDEX",
    ),
)


#: The variables of the ranks, in Python's storage: `os.environ` would decode each.
_RANKS = frozenset(os.environ.encodekey(name) for row in LAUNCHERS for name in row.rank)

#: Paddle's roles without a rank among the workers, although Paddle's launcher gives these processes the workers'
#: variables: a coordinator is number 0, as the first worker is.
_OTHER_ROLES = {
    "PSERVER": "a parameter server",
    "COORDINATOR": "a coordinator of federated learning",
    "HETER_TRAINER": "a heterogeneous trainer",
}


def other_role(env: Environment) -> str:
    """The role in which Paddle started this process, in words, if it is not a worker; "" in a worker."""
    return _OTHER_ROLES.get((env.get("TRAINING_ROLE") or env.get("PADDLE_ROLE") or "").strip().upper(), "")


def launch_of(environment: Mapping[str, str]) -> str:
    """Return the name of a run by Paddle's launcher, if one launcher started all workers; else "".

    Each launcher draws a name and makes a folder. Several launchers, on several machines or on one,
    draw different names, so the workers of one run then have different ones.
    """
    hosts = {part.rpartition(":")[0] for part in environment.get("PADDLE_TRAINER_ENDPOINTS", "").split(",")}
    if len(hosts) != 1 or environment.get("PADDLE_NNODES", "1").partition(":")[0] != "1":
        return ""
    names = []
    size = environment.get("PADDLE_TRAINERS_NUM")
    if environment.get("PADDLE_LOCAL_SIZE") == size or hosts <= {"127.0.0.1", "localhost", "[::1]"}:
        names.append("POD_NAME")
    if environment.get("PADDLE_GLOO_RENDEZVOUS") == "3":
        names.append("PADDLE_GLOO_FS_PATH")
    return "|".join(f"{name}={environment[name]}" for name in names if environment.get(name))


def draws_ports(environment: Mapping[str, str]) -> bool:
    """Whether Paddle has drawn free ports for the workers of this run, so that no other run has its endpoints.

    `paddle.distributed.spawn` does, and so does the launcher for several machines, unless its option ``--ips`` gives
    the ports numbers, and the master the first one.
    """
    endpoints, master = environment.get("PADDLE_TRAINER_ENDPOINTS", ""), environment.get("PADDLE_MASTER", "")
    if not endpoints or "FLAGS_FIXED_PORT" in environment or "FLAGS_START_PORT" in environment:
        return False
    if "PADDLE_GLOBAL_RANK" in environment:
        return bool(master) and master not in endpoints.split(",")
    processes = sys.modules.get("multiprocessing.process")
    return "PADDLE_DISTRI_BACKEND" in environment and processes is not None and bool(processes.parent_process())


def notice() -> None:
    """Let the worker that the environment places, if any, leave its mark and connect; every new metric calls this."""
    kept = getattr(os.environ, "_data", {})
    if not kept.keys().isdisjoint(_RANKS):
        _begin(os.getpid(), len(kept), *map(kept.get, _RANKS))


@functools.lru_cache(maxsize=1)
def _begin(*place: object) -> None:
    """Begin as a worker, again only for another process or place."""
    importlib.import_module("fleetmetrics.comm.worker").begin()
