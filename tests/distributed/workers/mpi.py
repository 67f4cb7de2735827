"""A worker that mpirun has started."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Any

import cluster
import numpy as np
from cluster import arguments, error_text, touch, wait_for_file

import fleetmetrics as fm
from fleetmetrics.comm import Letter, mpi
from fleetmetrics.comm.mpi import MPICommunicator
from fleetmetrics.records import fold
from tests.distributed.dealt import RECORD_METRICS, dealt

FINISH: Any = mpi._finish
#: The case that runs now.
CASE = [""]


def report(**values: Any) -> None:
    """Write what the test must see of a case."""
    cluster.report(**{f"{CASE[0]}: {name}": value for name, value in values.items()})


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


def folding() -> None:
    """Over MPI, then over the star of the same workers."""
    channel = fm.get_communicator()
    assert isinstance(channel, MPICommunicator) and channel is fm.get_communicator() and channel.spreads
    found: dict[str, Any] = {}
    for size in arguments()["round_bytes"]:
        fold.ROUND_BYTES = size
        for name, make in RECORD_METRICS.items():
            metric = dealt(make(name="it"), channel.rank, channel.world_size)
            channel.spreads = True
            over_mpi = repr(metric.compute(timeout=20))
            channel.spreads = False
            found[f"{name}, {size}"] = [over_mpi, repr(metric.compute(timeout=20))]
    channel.spreads = True
    letters = [Letter([channel.rank, to], bytes([to]) * 5 * channel.rank) for to in range(channel.world_size)]
    shuffled = [[note, bytes(payload).hex()] for note, payload in channel.shuffle("test", letters)]
    wrong = error_text(lambda: channel.shuffle("test", [Letter(object())] if channel.rank else letters))
    report(rank=channel.rank, found=found, shuffled=shuffled, wrong=wrong, after=int(fm.sum(1)))


def groups() -> None:
    """Groups that overlap, without rank 0, before the others have come."""
    whole: Any = fm.get_communicator()
    rank, found = whole.rank, {}
    for ranks in ([1, 2], [0, 2, 3], [2, 3]):
        if rank not in ranks:
            continue
        metric = dealt(fm.GAUC(name="it"), rank, whole.world_size)
        value = repr(metric.compute(group=ranks, timeout=20))
        wrong = error_text(lambda: whole.among(ranks).all_reduce(["x"] if rank == 2 else [1]))  # noqa: B023
        found[str(ranks)] = [int(whole.among(ranks).all_reduce([rank])[0]), value, wrong]
    outside = error_text(lambda: whole.among([(rank + 1) % 4]))
    report(rank=rank, found=found, outside=outside, total=int(fm.sum(1)))


def not_chosen() -> None:
    report(total=int(fm.sum(1)), channel=type(fm.comm.get_communicator()).__name__)


def late_to_the_start() -> None:
    """The rank that the test names makes the communicator when the others have given up."""
    from mpi4py import MPI

    rank, workers = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    if rank == arguments()["late"]:
        for other in set(range(workers)) - {rank}:
            wait_for_file(f"given up by {other}")
    start = time.monotonic()
    # a late worker has time until the others come again
    text = error_text(lambda: MPICommunicator(timeout=1 if rank != arguments()["late"] else 20))
    report(error=text, seconds=time.monotonic() - start)
    touch(f"given up by {rank}")
    made = [MPICommunicator(timeout=20) for _ in range(1 if text.startswith("no error") else 2)]
    report(totals=[int(channel.all_reduce(np.array([rank + 1]), "sum")[0]) for channel in made[-1:]])


def port() -> None:
    """Rank 0's port at the moment when the communicator is made, which is unused so far."""
    from mpi4py import MPI

    if arguments().get("taken"):
        report(error=error_text(lambda: MPICommunicator(timeout=20)))
        touch(f"told {MPI.COMM_WORLD.Get_rank()}")
        wait_for_file("free")
    channel: Any = MPICommunicator(timeout=20)
    endpoint = channel._job.endpoint
    host, _, number = endpoint.rpartition(":")
    taken = ""
    if channel.rank == 0:
        with socket.socket() as sock:
            taken = error_text(lambda: sock.bind((host, int(number))))
    report(endpoint=endpoint, taken=taken, total=int(channel.all_reduce(np.array([1]), "sum")[0]))


def late() -> None:
    """Rank 2 comes to the records when the others have given up."""
    channel = fm.get_communicator()
    metric = dealt(fm.GAUC(name="it"), channel.rank, channel.world_size)
    channel.barrier()
    if channel.rank == 2:
        wait_for_file("given up by 0")
        wait_for_file("given up by 1")
    start = time.monotonic()
    report(error=error_text(lambda: metric.compute(timeout=2)), seconds=time.monotonic() - start)
    touch(f"given up by {channel.rank}")
    report(again=metric.compute(timeout=20))


def inside(signal_number: int) -> None:
    """Rank 2 gets a signal when all others are inside an operation of MPI."""
    channel = fm.get_communicator()
    metric = dealt(fm.GAUC(name="it"), channel.rank, channel.world_size)
    channel.barrier()
    if channel.rank == 2:
        mpi._finish = lambda *given: (os.kill(os.getpid(), signal_number), FINISH(*given))
    report(entered=True)
    start = time.monotonic()
    report(error=error_text(lambda: metric.compute(timeout=3)), seconds=time.monotonic() - start)
    report(after=error_text(lambda: metric.compute(timeout=20)), total=int(fm.sum(1)))


def interrupted() -> None:
    """Rank 1 is interrupted when it enters an operation of MPI."""
    channel = fm.get_communicator()
    letters = [Letter(to) for to in range(channel.world_size)]
    channel.barrier()

    def leave(*_: Any) -> None:
        raise KeyboardInterrupt

    if channel.rank == 1:
        mpi._finish = leave
    start = time.monotonic()
    try:
        report(error=error_text(lambda: channel.shuffle("test", letters, timeout=2)))
    except KeyboardInterrupt:
        report(error="KeyboardInterrupt")
    report(seconds=time.monotonic() - start)
    report(after=error_text(lambda: channel.shuffle("test", letters, timeout=20)), total=int(fm.sum(1)))


def without() -> None:
    report(error=error_text(fm.get_communicator), backend=error_text(lambda: fm.get_dist_backend("mpi4py")))


if __name__ == "__main__":
    cases: dict[str, Any] = {
        "metrics": metrics,
        "folding": folding,
        "groups": groups,
        "not_chosen": not_chosen,
        "late_to_the_start": late_to_the_start,
        "port": port,
        "late": late,
        "interrupted": interrupted,
        "stopped": lambda: inside(signal.SIGSTOP),
        "killed": lambda: inside(signal.SIGKILL),
        "without": without,
    }
    for CASE[0] in arguments()["cases"]:
        cases[CASE[0]]()
