"""A worker that mpirun has started."""

from __future__ import annotations

import os
import time
from typing import Any

from cluster import arguments, error_text, report, touch, wait_for_file

import fleetmetrics as fm
from fleetmetrics.comm.mpi import MPICommunicator


class Gathered(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return [int(each) for each in results["x"]] if results else []


def metrics() -> None:
    channel = fm.get_dist_backend("mpi4py")
    report(rank=channel.rank, world=channel.world_size, same=channel is fm.get_dist_backend("mpi4py"))
    fm.set_communicator(channel)
    report(total=int(fm.sum(channel.rank + 1)))
    metric = Gathered(dist_backend="mpi4py", dist_collect_mode="cat")
    metric.add(x=[10 * channel.rank + i for i in range(channel.rank)])
    report(records=metric.compute())
    report(error=error_text(lambda: metric.compute(size=channel.rank - 1)))


def not_chosen() -> None:
    report(error=error_text(lambda: fm.sum(1)))


def one_is_missing() -> None:
    from mpi4py import MPI

    start = time.monotonic()
    if MPI.COMM_WORLD.Get_rank() == 0:
        report(error=error_text(lambda: MPICommunicator(timeout=1)), seconds=time.monotonic() - start)
        touch("given up")
        wait_for_file("reported")
    else:
        wait_for_file("given up")
        report(done=True)
        touch("reported")
    # Rank 0 has an operation of MPI under way that will never end: leave without MPI's own farewell.
    os._exit(0)


if __name__ == "__main__":
    {"metrics": metrics, "not_chosen": not_chosen, "one_is_missing": one_is_missing}[arguments()["case"]]()
