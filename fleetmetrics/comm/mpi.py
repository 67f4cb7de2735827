"""The communicator of a job that ``mpirun`` has started: the extra ``mpi``.

MPI carries the letters of a shuffle, which are most of what metrics over records exchange; all else goes through rank
0. MPI's operations have no deadline, so all workers agree to enter one, and learn afterwards whether all have left it.
If a worker does not leave it in time, MPI may still write into its buffers, so this job no longer uses it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import socket
from typing import Any, Sequence, cast

import numpy as np

from fleetmetrics.comm.channel import SocketCommunicator
from fleetmetrics.comm.communicator import Call
from fleetmetrics.comm.deadline import Deadline, began, margin
from fleetmetrics.comm.failures import described, late_text, named_error
from fleetmetrics.comm.folds import barrier, check_numbers
from fleetmetrics.comm.job import split_endpoint
from fleetmetrics.comm.letters import LETTER_UNIT as UNIT
from fleetmetrics.comm.letters import letter_in, written
from fleetmetrics.errors import CommunicatorError, DeadlineError, InvalidInputError, NoChannelError
from fleetmetrics.serial.descriptions import Letter
from fleetmetrics.support.launcher import LAUNCHERS

__all__ = ["MPICommunicator"]

#: The size and the tag of the message in which rank 0 says where it listens.
_SAID, _TAG = 4096, 0x666D
_ROWS = [row for row in LAUNCHERS if row.mpi]
#: Variables in which an mpirun gives the number of processes that it has started.
_SIZES = tuple(dict.fromkeys(name for row in _ROWS for name in row.size))
#: Operations that may never end, with their buffers.
_abandoned: list[Any] = []


class MPICommunicator(SocketCommunicator):
    """The workers of an MPI communicator; its creation is a collective call.

    Args:
        comm: an mpi4py communicator; None for ``MPI.COMM_WORLD``.
        timeout: seconds to wait for the others; None: FLEETMETRICS_TIMEOUT, else 1,800.

    Raises:
        ImportError: mpi4py, or MPI, is not installed.
        NoChannelError: ``mpirun`` did not start this process, or rank 0 cannot listen.
        InvalidInputError: timeout is not a positive number, or Paddle's variables give the workers different ranks.
        DeadlineError: a worker does not create its communicator in time.
    """

    spreads = True
    overlaps = False  # MPI's operations have no numbers: two threads could mix up their records

    def __init__(self, comm: Any = None, *, timeout: float | None = None) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # RuntimeError without libmpi
            raise ImportError(
                f"the engine mpi cannot import mpi4py ({error}): pip install mpi4py, and an MPI such as mpich if MPI "
                "is missing"
            ) from error
        self._world = MPI.COMM_WORLD if comm is None else comm
        if comm is None and self._world.Get_size() == 1:
            _refuse_alone()
        deadline, trouble = began(timeout)
        start = _start_of(MPI, self._world)
        with start.meet(deadline).call("MPICommunicator", deadline, trouble) as call:
            call.consult(_check_places, _place(comm))
        start.communicators += 1
        super().__init__(**start.place, channel=f"mpi {start.communicators}")
        self._comm: Any = None  # a duplicate of the world, whose messages no others disturb
        self._unit = MPI.BYTE.Create_contiguous(UNIT).Commit()  # MPI counts up to 2**31 - 1
        self._broken: CommunicatorError | None = None

    def _shuffle(self, call: Call, letters: Sequence[Letter], name: str, trouble: BaseException | None) -> list[Letter]:
        """Send each worker its letters directly, once all have agreed to; see `Communicator.shuffle`."""
        parts = [b"".join(written(letter)) for letter in letters]
        call.consult(_agree, len(parts), name=name, trouble=trouble or self._broken)
        error: BaseException | None = None
        received: list[Letter] = []
        try:
            received = self._exchanged_by_mpi(parts, call.deadline)
        except BaseException as failure:  # the others are waiting for the verdict
            error = failure
        try:
            call.consult(barrier, name=f"{name}, verdict", trouble=error)
        except Exception as failure:
            self._broken = CommunicatorError(
                f"this job can no longer use MPI, because {name} failed: {failure} Restart the job, or remove "
                "FLEETMETRICS_ENGINE and the backend mpi4py"
            )
            if error is not None and not isinstance(error, Exception):  # Ctrl-C, or the end of the process
                raise error from None
            raise
        return received

    def _exchanged_by_mpi(self, parts: Sequence[bytes], deadline: Deadline) -> list[Letter]:
        """The letters for this worker, by the rank of the sender."""
        if self._comm is None:
            duplicate, request = self._world.Idup()
            _finish(deadline, request, duplicate)
            self._comm = duplicate
        sent = np.array([len(part) // UNIT for part in parts])
        sizes = np.empty_like(sent)
        _finish(deadline, self._comm.Ialltoall(sent, sizes), sent, sizes)
        data, received = np.frombuffer(b"".join(parts), np.uint8), np.empty(UNIT * int(sizes.sum()), np.uint8)
        request = self._comm.Ialltoallv(
            [data, sent, np.cumsum(sent) - sent, self._unit], [received, sizes, np.cumsum(sizes) - sizes, self._unit]
        )
        _finish(deadline, request, data, received)
        return [letter_in(part.data) for part in np.split(received, UNIT * np.cumsum(sizes)[:-1])]


def _agree(letters: Sequence[Letter]) -> Letter:
    check_numbers([letter.note for letter in letters])
    return Letter(None)


def _finish(deadline: Deadline, request: Any, *buffers: Any) -> None:
    """Wait for an operation of MPI, which progresses only inside ``Test``."""
    spare = 4 * margin(deadline.timeout)  # the verdict names a worker that stays inside, and needs some time for it
    try:
        while not request.Test():
            if deadline.remaining <= spare:
                raise DeadlineError(
                    f"not all MPI ranks completed an operation within {deadline.timeout:g} s; every rank must make "
                    "the same call at the same place in the program. Look at their logs"
                )
            os.sched_yield()
    except BaseException:
        _abandoned.append((request, buffers))
        raise


def _refuse_alone() -> None:
    """Raise if MPI has only this process, unless mpirun started one process."""
    sizes = {name: os.environ[name] for name in _SIZES if os.environ.get(name)}
    if not sizes:
        raise NoChannelError(
            f"the engine mpi needs workers that mpirun started, but none of {', '.join(_SIZES)} is set: start the "
            "program with mpirun -n <workers>, or do not select the engine"
        )
    for name, number in sizes.items():
        if number != "1":
            raise NoChannelError(
                f"{name} is {number}, but mpi4py's MPI sees 1 process: mpirun belongs to a different MPI from the one "
                "that mpi4py was built for. Start the workers with the matching mpirun, or do not select the engine"
            )


class _Start:
    """How the workers of one MPI communicator find rank 0: by a message to each, so that none waits for a third one.

    It is kept from try to try: a worker that gave up goes on to wait for the same message.
    """

    def __init__(self, world: Any, whole: bool) -> None:
        self.place: dict[str, Any] = {}  # the arguments of `SocketCommunicator`, once rank 0 listens
        self.communicators = 0  # how many were made
        self._world, self._whole = world, whole
        self._channel: SocketCommunicator | None = None
        self._heard = np.zeros(_SAID, np.uint8)
        self._request: Any = None

    def meet(self, deadline: Deadline) -> SocketCommunicator:
        """The channel for the creation of communicators."""
        if self._channel is None:
            self._channel = self._listen() if self._world.Get_rank() == 0 else self._hear(deadline)
        return self._channel

    def _opened(self, endpoint: str, secret: str) -> SocketCommunicator:
        rank, size = self._world.Get_rank(), self._world.Get_size()
        self.place = {"rank": rank, "world_size": size, "endpoint": endpoint, "secret": secret}
        return SocketCommunicator(**self.place, channel="mpi")

    def _listen(self) -> SocketCommunicator:
        size = self._world.Get_size()
        endpoint = os.environ.get("FLEETMETRICS_ENDPOINT", "").strip() if self._whole else ""
        try:
            endpoint = endpoint or f"{_own_address(size)}:{_free_port()}"
            split_endpoint(endpoint, "FLEETMETRICS_ENDPOINT")
            channel = self._opened(endpoint, secrets.token_hex(32))
            if size > 1:
                channel.listen()
        except BaseException as error:  # also for Ctrl-C
            name, text = described(error)
            self._tell([name, text[: _SAID // 8]])
            raise
        self._tell([endpoint, self.place["secret"]])
        return channel

    def _tell(self, words: list[str]) -> None:
        data = np.frombuffer(json.dumps(words).encode()[:_SAID].ljust(_SAID), np.uint8)
        for rank in range(1, self._world.Get_size()):
            _abandoned.append((self._world.Isend(data, rank, _TAG), data))

    def _hear(self, deadline: Deadline) -> SocketCommunicator:
        if self._request is None:
            self._request = self._world.Irecv(self._heard, 0, _TAG)
        while not self._request.Test():
            if not deadline.remaining:
                raise DeadlineError(late_text([0], "connect", deadline.timeout, "MPICommunicator"))
            os.sched_yield()
        self._request = None
        one, two = json.loads(bytes(self._heard))
        if ":" not in one:
            raise named_error(one, two)
        return self._opened(one, two)


@functools.lru_cache(maxsize=None)
def _key(mpi: Any) -> int:
    return int(mpi.Comm.Create_keyval())


def _start_of(mpi: Any, world: Any) -> _Start:
    """The start of an MPI communicator, stored on the communicator."""
    start = world.Get_attr(_key(mpi))
    if start is None:
        start = _Start(world, world == mpi.COMM_WORLD)
        world.Set_attr(_key(mpi), start)
    return cast(_Start, start)


def _place(comm: Any) -> list[str | None] | None:
    """The place of this worker in Paddle's variables; None with a user's communicator."""
    if comm is not None:
        return None
    return [os.environ.get(name) or None for name in ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM")]


def _check_places(letters: Sequence[Letter]) -> Letter:
    size = len(letters)
    for rank, letter in enumerate(letters):
        number, workers = letter.note or (None, None)
        if workers is not None and (number, workers) != (str(rank), str(size)):
            raise InvalidInputError(
                f"MPI's rank {rank} of {size} has PADDLE_TRAINER_ID={number} and PADDLE_TRAINERS_NUM={workers}; they "
                "must agree. Unset them, or give MPICommunicator a communicator with those ranks"
            )
    return Letter(None)


def _own_address(size: int) -> str:
    """The address at which other ranks reach this machine: loopback if the launcher says that all are on it."""
    numbers = [[[os.environ.get(name) for name in names] for names in (row.size, row.local)] for row in _ROWS]
    if size == 1 or any(number and number in local for sizes, local in numbers for number in sizes):
        return "127.0.0.1"
    with contextlib.suppress(OSError):
        for *_, place in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET):
            address = str(place[0])
            if not address.startswith("127."):  # a stock Debian's name for itself
                return address
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(("192.0.2.1", 9))  # sends nothing; it only selects the outgoing interface
        return str(sock.getsockname()[0])
    return "127.0.0.1"


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])
