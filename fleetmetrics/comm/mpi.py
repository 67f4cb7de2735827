"""The communicator of a job that ``mpirun`` has started: the extra ``fleetmetrics[mpi]``.

MPI says which rank this is and where rank 0 listens; the exchange itself goes over fleetmetrics' own sockets. MPI's
collectives know no deadline: a worker that stalls would hold up the others for ever.
"""

from __future__ import annotations

import itertools
import socket
import time
from typing import Any

import numpy as np

from fleetmetrics.comm.deadline import Deadline, resolve_timeout
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.sockets import SocketCommunicator
from fleetmetrics.errors import DeadlineError

__all__ = ["MPICommunicator"]

_HOST_BYTES = 256
_PAUSE_SECONDS = 0.002
_channels = itertools.count(1)


class MPICommunicator(SocketCommunicator):
    """The workers of an MPI communicator; making one is a collective call.

    Args:
        comm: an mpi4py communicator; None for ``MPI.COMM_WORLD``.
        timeout: seconds to wait for the others; None for FLEETMETRICS_TIMEOUT or half an hour.

    Raises:
        ImportError: if mpi4py is not installed.
        DeadlineError: if a worker does not make one in time.
        InvalidInputError: if timeout is no positive number.
    """

    def __init__(self, comm: Any = None, *, timeout: float | None = None) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise ImportError(
                f"the backend 'mpi4py' cannot import mpi4py ({error}): pip install 'fleetmetrics[mpi]'"
            ) from error
        world = MPI.COMM_WORLD if comm is None else comm
        rank, size = world.Get_rank(), world.Get_size()
        endpoint = _endpoint(world, rank, size, Deadline(resolve_timeout(timeout)))
        super().__init__(Job(rank=rank, world_size=size, endpoint=endpoint), channel=f"mpi {next(_channels)}")


def _endpoint(world: Any, rank: int, size: int, deadline: Deadline) -> str:
    """Where rank 0 will listen; every rank learns it, and that the others are here."""
    name = f"{socket.gethostname()}:{_free_port() if rank == 0 else 0}".encode()
    mine = np.zeros(_HOST_BYTES, np.uint8)
    mine[: len(name)] = np.frombuffer(name, np.uint8)
    everybody = np.zeros((size, _HOST_BYTES), np.uint8)
    request = world.Iallgather(mine, everybody)  # unlike Allgather it can be given up
    while not request.Test():
        if not deadline.remaining:
            raise DeadlineError(
                f"not all of the {size} MPI ranks made the communicator within {deadline.timeout:g} s; every rank must"
                " make it, or call compute, at the same place in the program. Look at their logs."
            )
        time.sleep(_PAUSE_SECONDS)
    names = [bytes(row).rstrip(b"\0").decode() for row in everybody]
    hosts = {each.rpartition(":")[0] for each in names}
    host, _, port = names[0].rpartition(":")
    return f"{'127.0.0.1' if len(hosts) == 1 else host}:{port}"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])
