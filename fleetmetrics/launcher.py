"""What starts workers, and the environment variables by which each launcher tells them who they are: one table.

`comm.launchers` finds a process's place by it, `identity` which worker a process claims to be. It is imported with the
package where a worker starts, and imports nothing but what Python has loaded anyway.
"""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple

__all__ = ["LAUNCHERS", "PADDLE", "Launcher", "Said"]

#: Variables that are set, with their values.
Said = Mapping[str, str]


class Launcher(NamedTuple):
    """The environment variables of one launcher; of several for one thing the first that is set counts.

    Args:
        name: of the launcher.
        size: how many workers there are.
        rank: which one this is, from 0.
        local: how many of them are on this machine: where it is all, they meet on a loopback address.
        nodes: the list of the machines, in Slurm's notation; rank 0 is on the first.
        host: the machine of rank 0.
        run: what sets this run apart from others on the same machines.
        least: further numbers that the number of workers cannot fall short of, such as that of the machines.
        lists: lists of workers, or of their machines.
        command: what is typed to start it, where that is a Python program.
        modules: the modules that are run for it.
        mpi: whether MPI could connect its workers.
        started: whether the variables are those of a process that it has started, by the variables that are set.
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
    command: str = ""
    modules: tuple[str, ...] = ()
    mpi: bool = False
    started: Callable[[Said], bool] = lambda said: True

    @property
    def of(self) -> tuple[str, ...]:
        """Those in which the workers of one run have the same, and others something else."""
        return self.size + self.run + self.host + self.lists

    @property
    def variables(self) -> set[str]:
        """All of them."""
        groups = (self.size, self.rank, self.local, self.nodes, self.host, self.run, self.least, self.lists)
        return {name for group in groups for name in group}


def _is_a_step(said: Said) -> bool:
    """Whether srun has started this process. The script of sbatch and the shell of salloc have variables, too."""
    if {"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"}.intersection(said):
        return True
    return "SLURM_PROCID" in said and (said["SLURM_PROCID"] != "0" or "SLURM_JOB_ID" not in said)


#: Each is nearer to the worker than those below it, which may have started it: torchrun under srun.
LAUNCHERS = (
    Launcher(
        "Paddle's launcher",
        size=("PADDLE_TRAINERS_NUM",),
        rank=("PADDLE_TRAINER_ID",),
        run=("PADDLE_JOB_ID",),
        least=("PADDLE_GLOBAL_SIZE", "PADDLE_NNODES"),
        lists=("PADDLE_TRAINER_ENDPOINTS", "PADDLE_TRAINERS"),
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
        command="torchrun",
        modules=("torch.distributed.run", "torch.distributed.launch"),
    ),
    Launcher(
        "horovodrun",
        size=("HOROVOD_SIZE",),
        rank=("HOROVOD_RANK",),
        local=("HOROVOD_LOCAL_SIZE",),
        run=("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"),
    ),
    Launcher(
        "mpirun of Open MPI",
        size=("OMPI_COMM_WORLD_SIZE",),
        rank=("OMPI_COMM_WORLD_RANK",),
        local=("OMPI_COMM_WORLD_LOCAL_SIZE",),
        run=("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
        mpi=True,
    ),
    Launcher(
        "mpirun of MVAPICH",
        size=("MV2_COMM_WORLD_SIZE",),
        rank=("MV2_COMM_WORLD_RANK",),
        local=("MV2_COMM_WORLD_LOCAL_SIZE",),
        run=("MPIRUN_ID",),
        mpi=True,
    ),
    Launcher(
        "jsrun",
        size=("JSM_NAMESPACE_SIZE",),
        rank=("JSM_NAMESPACE_RANK",),
        local=("JSM_NAMESPACE_LOCAL_SIZE",),
        run=("LSB_JOBID", "PMIX_NAMESPACE"),
        mpi=True,
    ),
    Launcher(
        "mpiexec of Cray PALS",
        size=("PMI_SIZE",),
        rank=("PALS_RANKID",),
        local=("PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
        run=("PALS_APID",),
        mpi=True,
        started=lambda said: any(name.startswith("PALS_") for name in said),
    ),
    Launcher(
        "mpirun of MPICH or Intel MPI",
        size=("PMI_SIZE",),
        rank=("PMI_RANK",),
        local=("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"),
        mpi=True,
    ),
    Launcher("PMIx", size=("PMIX_SIZE",), rank=("PMIX_RANK",), run=("PMIX_NAMESPACE",), mpi=True),
    Launcher(
        "srun",
        size=("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"),
        rank=("SLURM_PROCID",),
        nodes=("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"),
        run=("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEPID"),
        started=_is_a_step,
    ),
)
PADDLE = LAUNCHERS[0]
