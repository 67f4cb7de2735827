"""Who is who: the workers of the job as rank 0 knows them, and the processes that it refuses."""

from __future__ import annotations

import secrets
from typing import NamedTuple, Sequence

from fleetmetrics.comm.failures import in_words, since_earlier
from fleetmetrics.comm.handshake import NONE, OTHER_RUN, REFUSED, Guest
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import Connection
from fleetmetrics.comm.past import Ended
from fleetmetrics.errors import CommunicatorError
from fleetmetrics.support.logs import say

__all__ = ["Refusal", "Roster", "Worker"]


class Worker:
    """A connected worker."""

    connection: Connection
    rank: int
    round_trip: float
    session: bytes

    def __init__(self, connection: Connection, rank: int, session: bytes, round_trip: float) -> None:
        self.connection, self.rank, self.session, self.round_trip = connection, rank, session, round_trip
        self.called = False  # whether it has arrived anywhere
        self.ended: Ended | None = None  # the last exchange that ended with a result, if nothing has come since


class Refusal(NamedTuple):
    """Why a process is no worker of this job."""

    text: str
    code: bytes = REFUSED
    for_all: bool = False  #: whether the workers fail with this text, too, unless they have met


class Roster:
    """The workers of the job as rank 0 knows them.

    Args:
        job: the place of rank 0's process.
    """

    number: bytes

    def __init__(self, job: Job) -> None:
        self.job = job
        self.number = secrets.token_bytes(16)  # other workers tell by it whether rank 0 was restarted
        self.workers: dict[int, Worker] = {}  # the connected ones, by rank
        self.seen: set[int] = set()  # the ranks that have connected, once they have the errors of failed calls
        self.rank_0_called = False  # whether rank 0's program has called
        self.gone: dict[int, str] = {}  # by rank: why it can never come back
        self.informed: set[int] = set()  # the ranks that have had the error of a worker that is gone
        self.ended: dict[int, float] = {}  # by rank: until when a worker may come back that ended before it called
        self.other_runs: set[int] = set()  # ranks of workers of other runs that were here
        self.other_programs: dict[int, str] = {}  # by rank: what a process that was refused for it runs
        self._reported: set[bytes] = set()  # sessions of second processes

    def enter(self, worker: Worker) -> None:
        """A worker has come in."""
        self.workers[worker.rank] = worker
        self.ended.pop(worker.rank, None)

    def leave(self, worker: Worker) -> None:
        """A worker's connection has ended."""
        if self.workers.get(worker.rank) is worker:
            del self.workers[worker.rank]

    def has_called(self, rank: int) -> bool:
        """Whether a connected worker, or rank 0's program, has arrived anywhere."""
        return self.workers[rank].called if rank else self.rank_0_called

    # Those that are gone

    def is_broken(self, ranks: Sequence[int]) -> bool:
        """Whether an exchange of these ranks can never succeed, because a worker is gone."""
        return any(gone == 0 or gone in ranks for gone in self.gone)

    def error_of_gone(self, ranks: Sequence[int]) -> CommunicatorError:
        """The error of an exchange of these ranks; see `is_broken`."""
        return CommunicatorError(next(text for rank, text in self.gone.items() if rank in ranks or rank == 0))

    def later_error_of_gone(self, ranks: Sequence[int]) -> CommunicatorError:
        """`error_of_gone`, at an exchange that begins after the loss: all may know of it."""
        error = self.error_of_gone(ranks)
        unaware = set(ranks).difference(self.informed, self.gone)
        return error if unaware else CommunicatorError(since_earlier(str(error)))

    # Those that may not come in

    def is_in_the_way_of(self, guest: Guest) -> bool:
        """Whether a process calls as rank 0, and this one only has a metric: no worker has called it, nor its program.

        It is of the same job.
        """
        same = guest.rank == 0 and guest.run == self.job.name and guest.world_size == self.job.world_size
        idle = not self.rank_0_called and not any(worker.called for worker in self.workers.values())
        return same and guest.calls and idle

    def refusal(self, guest: Guest, met: bool) -> Refusal | None:
        """Why a process that has proved itself may not come in; None: it may.

        Args:
            guest: the process.
            met: whether the workers have met.
        """
        rank, job = guest.rank, self.job
        if guest.run != job.name:
            self.other_runs.add(rank)
            return Refusal(job.title, OTHER_RUN)
        if guest.world_size != job.world_size or rank >= job.world_size:
            text = (
                f"a worker says that it is rank {rank} of {guest.world_size}, but rank 0 has different values; "
                f"{job.variables[0]} must be the same on all workers"
            )
            return Refusal(text, for_all=True)
        if guest.program and guest.program != job.program:  # perhaps a run of its own, such as an evaluation
            self.other_programs[rank] = guest.program
            return Refusal(_other_program_text(rank, guest.program, job.program), OTHER_RUN)
        if self._is_restarted(guest) or self._is_taken(guest):
            return self._refusal_of_second(guest, met)
        if guest.program != job.program:
            return Refusal(_other_program_text(rank, "", job.program))
        return None

    def _is_restarted(self, guest: Guest) -> bool:
        """Whether rank 0 was restarted after it had met this worker."""
        return guest.rank_0 not in (NONE, self.number)

    def _is_taken(self, guest: Guest) -> bool:
        earlier = self.workers.get(guest.rank)
        taken = guest.rank == 0 or (earlier is not None and earlier.session != guest.session)
        return taken or guest.rank in self.gone or 0 in self.gone

    def _refusal_of_second(self, guest: Guest, met: bool) -> Refusal:
        """A second process of a rank may not come in; before the workers have met, which one belongs is unknown."""
        rank, who = guest.rank, in_words([guest.rank])
        if self._is_restarted(guest):
            text = (
                "rank 0 was restarted, and this worker has met the one before; a restarted process cannot join the "
                "others: start all workers again"
            )
            return Refusal(text, for_all=guest.calls)
        if 0 in self.gone:
            return Refusal(self.gone[0])
        if rank in self.gone:
            return Refusal(f"{self.gone[rank]}. A restarted {who} cannot join the others: start all workers again")
        apart = (
            f"Each worker needs its own {self.job.variables[1]}, and each run needs its own name, FLEETMETRICS_RUN, or "
            "its own endpoints"
        )
        if not met:
            text = f"two processes say that they are {who}, in two runs with the same endpoints or in one run. {apart}"
            return Refusal(text, for_all=guest.calls)
        if guest.calls and guest.session not in self._reported:
            self._reported.add(guest.session)
            say(
                f"a second process of {who} was refused. If it is the worker, and the process that came first a "
                "helper of it, the numbers so far include the helper's data instead of the worker's"
            )
        text = (
            f"another process is {who} of this run, and has met the others; this one is a second process, or was "
            f"restarted. {apart}"
        )
        return Refusal(text)


def _other_program_text(rank: int, theirs: str, ours: str) -> str:
    ours, theirs = ours or "no script", theirs or "no script"
    return (
        f"rank 0 of this run runs {ours}, but this process, which says that it is rank {rank}, runs {theirs}. If it is "
        "a helper of the worker, compute in the worker itself, or call compute_local(); if it is the worker, give both "
        "programs the same run, FLEETMETRICS_RUN"
    )
