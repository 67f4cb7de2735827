"""The communicator of a job that ``mpirun`` has started: the extra ``fleetmetrics[mpi]``.

MPI carries what is large: what each worker has for each other one, and sums of large integers. Its operations know no
deadline, so the star around rank 0 stays: all arrive there before anybody enters one, and hear there how it went for
all. After an operation that some have not left in time MPI may still write into its buffers, and counts as broken.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import socket
from typing import Any, Callable, Sequence, TypeVar, cast

import numpy as np

from fleetmetrics.comm.blocks import LETTER_UNIT as UNIT
from fleetmetrics.comm.blocks import letter_in, written
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.comm.deadline import Deadline, began, margin, resolve_timeout
from fleetmetrics.comm.failures import Caught
from fleetmetrics.comm.launchers import LAUNCHERS
from fleetmetrics.comm.slabs import Slab
from fleetmetrics.comm.sockets import SocketCommunicator
from fleetmetrics.errors import CommunicatorError, DeadlineError, InvalidInputError, NoChannelError

__all__ = ["MPICommunicator"]

#: Bytes for what a worker says of itself when it makes the communicator.
_SAID = 512
#: Each says how many processes an mpirun has started.
_SIZES = tuple(dict.fromkeys(name for row in LAUNCHERS if row.mpi for name in row.size))
#: States of fewer bytes go through the star, together.
_WORTH_MPI = 2**16
_channels = itertools.count(1)
_T = TypeVar("_T")
#: Operations that never ended, with their buffers.
_abandoned: list[Any] = []


class MPICommunicator(SocketCommunicator):
    """The workers of an MPI communicator; making one is a collective call.

    Args:
        comm: an mpi4py communicator; None for ``MPI.COMM_WORLD``.
        timeout: seconds to wait for the others; None for FLEETMETRICS_TIMEOUT or half an hour.

    Raises:
        ImportError: if mpi4py, or MPI, is not installed.
        NoChannelError: if ``mpirun`` did not start this process.
        InvalidInputError: if timeout is no positive number, or Paddle's variables give the workers other ranks.
        DeadlineError: if a worker does not make one in time.
    """

    spreads = True

    def __init__(self, comm: Any = None, *, timeout: float | None = None) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # the latter where there is no libmpi
            raise ImportError(
                f"the engine mpi cannot import mpi4py ({error}): pip install 'fleetmetrics[mpi]', and an MPI such as"
                " mpich where there is none"
            ) from error
        world = MPI.COMM_WORLD if comm is None else comm
        rank, size = world.Get_rank(), world.Get_size()
        if comm is None and size == 1:
            _refuse_alone()
        self._deadline, self._spare, self._late = Deadline(resolve_timeout(timeout)), 0.0, "made the communicator"
        self._broken: CommunicatorError | None = None
        endpoint, secret = self._meet(world, rank, size, comm is None)
        self._comm, request = world.Idup()
        self._finish(request, self._comm)
        # MPI counts up to 2**31 - 1
        self._mpi, self._unit = MPI, MPI.BYTE.Create_contiguous(UNIT).Commit()
        super().__init__(rank=rank, world_size=size, endpoint=endpoint, secret=secret, channel=f"mpi {next(_channels)}")

    def _meet(self, world: Any, rank: int, size: int, whole: bool) -> tuple[str, str]:
        """Where rank 0 will listen, and the job's secret; every rank learns them, and that the others are here."""
        paddles = [os.environ.get(name) or None for name in ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM")]
        known = [_free_port(), secrets.token_hex(32)] if rank == 0 else [0, ""]
        said = json.dumps([socket.gethostname(), *known, paddles]).encode()
        mine, everybodys = np.zeros(_SAID, np.uint8), np.zeros((size, _SAID), np.uint8)
        mine[: len(said)] = np.frombuffer(said, np.uint8)
        self._finish(world.Iallgather(mine, everybodys), mine, everybodys)
        hosts, ports, made, numbers = zip(*[json.loads(bytes(row).rstrip(b"\0")) for row in everybodys])
        for each, (number, workers) in enumerate(numbers):
            if whole and workers is not None and (number, workers) != (str(each), str(size)):
                raise InvalidInputError(
                    f"MPI's rank {each} of {size} has PADDLE_TRAINER_ID={number} and PADDLE_TRAINERS_NUM={workers};"
                    " they must agree. Unset them, or give MPICommunicator a communicator whose ranks are those"
                )
        return f"{'127.0.0.1' if len(set(hosts)) == 1 else hosts[0]}:{ports[0]}", made[0]

    def shuffle(
        self,
        call: str,
        letters: Sequence[Letter],
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[Letter]:
        """Give each worker what every worker has for it, directly; see `Communicator`."""
        parts: list[list[Any]] = []
        with Caught(trouble) as caught:
            parts = [written(letter) for letter in letters]
        deadline, trouble = began(timeout, caught.error or self._broken)

        def decide(brought: Sequence[Letter]) -> Letter:
            self._check_numbers([letter.note for letter in brought])
            return Letter(None)

        def exchange() -> list[Letter]:
            sizes = np.array([sum(map(len, part)) // UNIT for part in parts])
            given, come = np.frombuffer(b"".join(itertools.chain(*parts)), np.uint8), np.empty_like(sizes)
            self._finish(self._comm.Ialltoall(sizes, come), sizes, come)
            data = np.empty(UNIT * int(come.sum()), np.uint8)
            send, receive = ([each, of, np.cumsum(of) - of, self._unit] for each, of in ((given, sizes), (data, come)))
            self._finish(self._comm.Ialltoallv(send, receive), given, data)
            ends = UNIT * np.cumsum(come)
            return [letter_in(data[end - UNIT * size : end].data) for end, size in zip(ends.tolist(), come.tolist())]

        def agreed() -> list[Letter]:
            self.consult(call, decide, len(letters), timeout=deadline.left, trouble=trouble)
            return self._inside(call, exchange, deadline)

        return self.together(agreed, deadline, call)

    def _reduce_large(self, call: str, slabs: Sequence[Slab], deadline: Deadline) -> None:
        """Reduce integers by MPI; what may overflow, and floats, which the star rounds once, go through the star."""
        able = [slab for slab in slabs if slab.found.nbytes >= _WORTH_MPI and slab.rows.dtype == np.int64]
        largest = [slab.largest if slab.reduction == "sum" else 0 for slab in able]

        def decide(letters: Sequence[Letter]) -> Letter:
            sizes, ready = zip(*[letter.note for letter in letters])
            return Letter([all(ready) and sum(each) < 2**63 for each in zip(*sizes)])

        def exchange() -> None:
            for slab in chosen:
                given, operation = np.ascontiguousarray(slab.whole()), getattr(self._mpi, slab.reduction.upper())
                self._finish(self._comm.Iallreduce(given, slab.found, operation), given, slab.found)

        chosen: list[Slab] = []
        if able:
            note = [largest, self.spreads and self._broken is None]
            told = self.consult(call, decide, note, timeout=deadline.left).note
            chosen = [slab for slab, fits in zip(able, told) if fits]
        if chosen:
            self._inside(call, exchange, deadline)
        super()._reduce_large(call, [slab for slab in slabs if slab not in chosen], deadline)

    def _inside(self, call: str, exchange: Callable[[], _T], deadline: Deadline) -> _T:
        """Do what all have agreed on, and hear how it went for all."""
        # a worker that stays inside is named by the star, which needs some time for that
        self._deadline, self._spare, self._late = deadline, 4 * margin(deadline.timeout), f"came through {call}"
        error: BaseException | None = None
        found = None
        try:
            found = exchange()
        except BaseException as failure:  # the others are waiting for the verdict
            error = failure
        try:
            self.consult(f"{call}, verdict", lambda letters: Letter(None), timeout=deadline.left, trouble=error)
        except Exception as failure:
            self._broken = CommunicatorError(
                f"MPI is of no more use to this job, since {call} failed: {failure} Start the job again, or leave"
                " FLEETMETRICS_ENGINE and the backend mpi4py out."
            )
            if error is not None and not isinstance(error, Exception):  # Ctrl-C, or the end of the process
                raise error from None
            raise
        return cast(_T, found)

    def _finish(self, request: Any, *buffers: Any) -> None:
        """Wait for an operation of MPI, which makes progress inside ``Test`` only."""
        try:
            while not request.Test():
                if self._deadline.remaining <= self._spare:
                    raise DeadlineError(
                        f"not all MPI ranks {self._late} within {self._deadline.timeout:g} s; every rank must call the"
                        " same at the same place in the program. Look at their logs."
                    )
                os.sched_yield()
        except BaseException:
            _abandoned.append((request, buffers))
            raise


def _refuse_alone() -> None:
    """Raise where MPI knows of this process only, unless mpirun says that it has started one."""
    told = {name: os.environ[name] for name in _SIZES if os.environ.get(name)}
    if not told:
        raise NoChannelError(
            f"the engine mpi needs workers that mpirun has started, and none of {', '.join(_SIZES)} is set:"
            " start the program with mpirun -n <workers>, or take the engine away"
        )
    for name, number in told.items():
        if number != "1":
            raise NoChannelError(
                f"{name} is {number}, but mpi4py's MPI knows of 1 process: mpirun is that of another MPI than mpi4py"
                " was built for. Start the workers with the mpirun of that MPI, or take the engine away"
            )


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])
