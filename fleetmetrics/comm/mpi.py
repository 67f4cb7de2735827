"""The communicator of a job that ``mpirun`` has started: the extra ``fleetmetrics[mpi]``.

MPI carries the letters of a shuffle. Its operations have no deadline, so the star around rank 0 stays: all workers
arrive there before one enters an operation, and learn its outcome there. If a worker does not leave an operation in
time, MPI may still write into its buffers, so this job no longer uses it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import secrets
import socket
from dataclasses import replace
from typing import Any, Callable, Sequence, TypeVar, cast

import numpy as np

from fleetmetrics.comm.channel import SocketCommunicator, making
from fleetmetrics.comm.communicator import Communicator, Letter
from fleetmetrics.comm.deadline import Deadline, began, margin, run_until
from fleetmetrics.comm.failures import Caught, described, late_text, named_error
from fleetmetrics.comm.folds import check_numbers
from fleetmetrics.comm.job import split_endpoint
from fleetmetrics.comm.parcels import LETTER_UNIT as UNIT
from fleetmetrics.comm.parcels import letter_in, written
from fleetmetrics.errors import CommunicatorError, DeadlineError, InvalidInputError, NoChannelError
from fleetmetrics.launcher import LAUNCHERS

__all__ = ["MPICommunicator"]

#: The size and the tag of rank 0's message at the creation of the communicator.
_SAID, _TAG = 4096, 0x666D
_ROWS = [row for row in LAUNCHERS if row.mpi]
#: Variables in which an mpirun gives the number of processes that it has started.
_SIZES = tuple(dict.fromkeys(name for row in _ROWS for name in row.size))
_T = TypeVar("_T")
#: Operations that may never end, with their buffers.
_abandoned: list[Any] = []


class MPICommunicator(SocketCommunicator):
    """The workers of an MPI communicator; its creation is a collective call.

    Args:
        comm: an mpi4py communicator; None for ``MPI.COMM_WORLD``.
        timeout: seconds to wait for the others; None for FLEETMETRICS_TIMEOUT or half an hour.

    Raises:
        ImportError: mpi4py, or MPI, is not installed.
        NoChannelError: ``mpirun`` did not start this process, or rank 0 cannot listen.
        InvalidInputError: timeout is not a positive number, or Paddle's variables give the workers different ranks.
        DeadlineError: a worker does not create its communicator in time.
    """

    spreads = True
    _broken: CommunicatorError | None

    def __init__(self, comm: Any = None, *, timeout: float | None = None) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # RuntimeError without libmpi
            raise ImportError(
                f"the engine mpi cannot import mpi4py ({error}): pip install 'fleetmetrics[mpi]', and an MPI such as"
                " mpich if MPI is missing"
            ) from error
        world = MPI.COMM_WORLD if comm is None else comm
        if comm is None and world.Get_size() == 1:
            _refuse_alone()
        deadline, trouble = began(timeout)
        start = _start_of(MPI, world)
        meeting = start.meet(deadline)
        label, trouble, self._broken = f"mpi {start.tries}", trouble or start.broken, start.broken
        note = [_place(comm), _own_address(meeting.world_size)]
        told = meeting.consult("MPICommunicator", _check_places, note, timeout=deadline.left, trouble=trouble)
        # MPI counts up to 2**31 - 1
        self._mpi, self._unit = MPI, MPI.BYTE.Create_contiguous(UNIT).Commit()
        self._machines: list[str] = told.note
        super().__init__(meeting._job, channel=label)

        def duplicate() -> Any:
            found, request = world.Idup()
            self._finish(request, found)
            return found

        try:
            self._comm = self._inside("MPICommunicator", duplicate, deadline)
        finally:
            start.broken = self._broken

    def _among(self, ranks: tuple[int, ...]) -> Communicator:
        with making:
            found = self._groups.get(ranks)
            if found is None or found._channel.closed:
                found = self._groups[ranks] = _GroupOfMPI(self, ranks)
            return found

    def _shared(self) -> Any:
        """MPI's communicator; used only after all have agreed to enter an operation."""
        return self._comm

    def shuffle(
        self,
        call: str,
        letters: Sequence[Letter],
        *,
        timeout: float | None = None,
        trouble: BaseException | None = None,
    ) -> list[Letter]:
        """Send each worker its letters from every worker directly; see `Communicator`."""
        return self.together(call, functools.partial(self._shuffled, call, letters), timeout, trouble)

    def _shuffled(
        self, call: str, letters: Sequence[Letter], deadline: Deadline, trouble: BaseException | None
    ) -> list[Letter]:
        parts: list[list[Any]] = []
        with Caught(trouble) as caught:
            parts = [written(letter) for letter in letters]

        def decide(brought: Sequence[Letter]) -> Letter:
            check_numbers([letter.note for letter in brought])
            return Letter(None)

        def exchange() -> list[Letter]:
            comm = self._shared()
            sizes = np.array([sum(map(len, part)) // UNIT for part in parts])
            given, come = np.frombuffer(b"".join(itertools.chain(*parts)), np.uint8), np.empty_like(sizes)
            self._finish(comm.Ialltoall(sizes, come), sizes, come)
            data = np.empty(UNIT * int(come.sum()), np.uint8)
            send, receive = ([each, of, np.cumsum(of) - of, self._unit] for each, of in ((given, sizes), (data, come)))
            self._finish(comm.Ialltoallv(send, receive), given, data)
            ends = UNIT * np.cumsum(come)
            return [letter_in(data[end - UNIT * size : end].data) for end, size in zip(ends.tolist(), come.tolist())]

        trouble = caught.error or self._broken
        self.consult(call, decide, len(letters), timeout=deadline.left, trouble=trouble)
        return self._inside(call, exchange, deadline)

    def _inside(self, call: str, exchange: Callable[[], _T], deadline: Deadline) -> _T:
        """Run the agreed operation, and learn its outcome on all workers."""
        self._star.settle()  # another worker enters, or rank 0 does not wait inside for one that has left
        # the star names a worker that stays inside, and needs some time for it
        self._deadline, self._spare, self._late = deadline, 4 * margin(deadline.timeout), f"completed {call}"
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
                f"this job can no longer use MPI, because {call} failed: {failure} Restart the job, or remove "
                "FLEETMETRICS_ENGINE and the backend mpi4py."
            )
            if error is not None and not isinstance(error, Exception):  # Ctrl-C, or the end of the process
                raise error from None
            raise
        return cast(_T, found)

    def _finish(self, request: Any, *buffers: Any) -> None:
        """Wait for an operation of MPI, which progresses only inside ``Test``."""
        try:
            while not request.Test():
                if self._deadline.remaining <= self._spare:
                    raise DeadlineError(
                        f"not all MPI ranks {self._late} within {self._deadline.timeout:g} s; every rank must make "
                        "the same call at the same place in the program. Look at their logs."
                    )
                os.sched_yield()
        except BaseException:
            _abandoned.append((request, buffers))
            raise


class _GroupOfMPI(MPICommunicator):
    """Some workers of an MPI communicator: they meet over their own star, and enter MPI as a group."""

    def __init__(self, whole: MPICommunicator, ranks: tuple[int, ...]) -> None:
        # the group takes only the machine from an endpoint, and derives the port
        endpoints = ",".join(f"[{machine}]:1" if ":" in machine else f"{machine}:1" for machine in whole._machines)
        SocketCommunicator.__init__(
            self, replace(whole._job, endpoints=endpoints).among(ranks), channel=whole._channel.name
        )
        self._mpi, self._unit, self._broken = whole._mpi, whole._unit, whole._broken
        self._whole, self._ranks = whole, ranks
        self._comm = None

    def _shared(self) -> Any:
        if self._comm is None:
            whole = self._whole._comm
            tag = int.from_bytes(self._job.name[:2], "big") >> 1  # each thread has its own

            def create() -> Any:
                return whole.Create_group(whole.Get_group().Incl(list(self._ranks)), tag)

            # all have arrived; this has no deadline, and MPI may forbid calls from a thread
            by_threads = self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE
            self._comm = run_until(create, self._deadline, self._spare, self._job.group) if by_threads else create()
        return self._comm


def _refuse_alone() -> None:
    """Raise if MPI has only this process, unless mpirun started one process."""
    told = {name: os.environ[name] for name in _SIZES if os.environ.get(name)}
    if not told:
        raise NoChannelError(
            f"the engine mpi needs workers that mpirun started, but none of {', '.join(_SIZES)} is set: start the "
            "program with mpirun -n <workers>, or do not select the engine"
        )
    for name, number in told.items():
        if number != "1":
            raise NoChannelError(
                f"{name} is {number}, but mpi4py's MPI sees 1 process: mpirun belongs to a different MPI from the one "
                "that mpi4py was built for. Start the workers with the matching mpirun, or do not select the engine"
            )


class _Start:
    """How the workers of one MPI communicator find rank 0, and the state of failed tries.

    Rank 0 sends the outcome of each try to every other worker separately, so that no worker waits for a third one. From
    then on they meet over the star, which names missing workers and informs late ones.
    """

    def __init__(self, world: Any, whole: bool) -> None:
        self.world, self.whole = world, whole
        self.endpoint, self.secret = "", secrets.token_hex(32)
        self.tries = 0
        self.broken: CommunicatorError | None = None
        self._failures: list[BaseException] = []  # number of tries before rank 0 was found
        self._heard = np.zeros(_SAID, np.uint8)
        self._request: Any = None  # for rank 0's next message; it outlasts a try
        self._meeting: SocketCommunicator | None = None

    def meet(self, deadline: Deadline) -> SocketCommunicator:
        """Return the star of all workers; it counts the tries since rank 0 began to listen as exchanges."""
        self.tries += 1
        if self._meeting is None:
            try:
                self._meeting = self._listen() if self.world.Get_rank() == 0 else self._hear(deadline)
            except BaseException as error:
                self._failures.append(error)
                raise
        return self._meeting

    def _listen(self) -> SocketCommunicator:
        size = self.world.Get_size()
        endpoint = os.environ.get("FLEETMETRICS_ENDPOINT", "").strip() if self.whole else ""
        try:
            self.endpoint = endpoint or f"{_own_address(size)}:{_free_port()}"
            split_endpoint(self.endpoint, "FLEETMETRICS_ENDPOINT")
            meeting = self._member()
            if size > 1:
                meeting.listen()
        except BaseException as error:  # also for Ctrl-C: the others count their tries like this one
            name, text = described(error)
            self._tell([self.tries, name, text[: _SAID // 8]])
            raise
        self._tell([self.tries, self.endpoint, self.secret])
        return meeting

    def _tell(self, told: list[Any]) -> None:
        data = np.frombuffer(json.dumps(told).encode()[:_SAID].ljust(_SAID), np.uint8)
        for rank in range(1, self.world.Get_size()):
            _abandoned.append((self.world.Isend(data, rank, _TAG), data))

    def _hear(self, deadline: Deadline) -> SocketCommunicator:
        while True:
            if self._request is None:
                self._request = self.world.Irecv(self._heard, 0, _TAG)
            while not self._request.Test():
                if not deadline.remaining:
                    raise DeadlineError(late_text([0], "connect", deadline.timeout, "MPICommunicator"))
                os.sched_yield()
            self._request = None
            number, one, two = json.loads(bytes(self._heard))
            if ":" in one:
                break
            if number == self.tries:
                raise named_error(one, two)
        self.endpoint, self.secret = one, two
        meeting = self._member()
        for error in self._failures[number - 1 :]:
            meeting.miss("MPICommunicator", error)
        return meeting

    def _member(self) -> SocketCommunicator:
        rank, size = self.world.Get_rank(), self.world.Get_size()
        return SocketCommunicator(rank=rank, world_size=size, endpoint=self.endpoint, secret=self.secret, channel="mpi")


@functools.lru_cache(maxsize=None)
def _key(mpi: Any) -> int:
    return int(mpi.Comm.Create_keyval())


def _start_of(mpi: Any, world: Any) -> _Start:
    """The start of an MPI communicator, stored on the communicator."""
    found = world.Get_attr(_key(mpi))
    if found is None:
        found = _Start(world, world == mpi.COMM_WORLD)
        world.Set_attr(_key(mpi), found)
    return cast(_Start, found)


def _place(comm: Any) -> list[str | None] | None:
    """The place of this worker in Paddle's variables; None with a user's communicator."""
    if comm is not None:
        return None
    return [os.environ.get(name) or None for name in ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM")]


def _check_places(letters: Sequence[Letter]) -> Letter:
    size = len(letters)
    places, addresses = zip(*(letter.note for letter in letters))
    for rank, place in enumerate(places):
        number, workers = place or (None, None)
        if workers is not None and (number, workers) != (str(rank), str(size)):
            raise InvalidInputError(
                f"MPI's rank {rank} of {size} has PADDLE_TRAINER_ID={number} and PADDLE_TRAINERS_NUM={workers}; they "
                "must agree. Unset them, or give MPICommunicator a communicator with those ranks"
            )
    return Letter(addresses)


def _own_address(size: int) -> str:
    """The address at which other ranks reach this machine: loopback if the launcher says that all are on it."""
    numbers = [[[os.environ.get(name) for name in names] for names in (row.size, row.local)] for row in _ROWS]
    if size == 1 or any(number and number in local for sizes, local in numbers for number in sizes):
        return "127.0.0.1"
    with contextlib.suppress(OSError):
        for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET):
            address = str(found[4][0])
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
