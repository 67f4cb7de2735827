"""One process of a job that mpirun has started, for which no code asks MPI."""

from __future__ import annotations

import sys

from cluster import arguments, report

from fleetmetrics.comm import get_communicator

workers = get_communicator()
total = workers.all_reduce([arguments()["own"]])
report(
    rank=workers.rank,
    world=workers.world_size,
    sum=int(total[0]),
    authenticated=workers.authenticated,
    mpi="mpi4py" in sys.modules,
)
