"""One exchange at rank 0: who has arrived, with what, and until when the others may."""

from __future__ import annotations

from fleetmetrics.comm.deadline import margin
from fleetmetrics.comm.failures import readable
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.letters import Arrival, label_of
from fleetmetrics.comm.message import Message, Place
from fleetmetrics.support.logs import Attendance

__all__ = ["Meeting", "source_of", "way_out"]


class Meeting:
    """One exchange at rank 0.

    Args:
        place: its channel and numbers.
        first: the letter that has arrived first.
        world_size: the number of workers of the job.
    """

    end: float
    group: tuple[int, ...]
    label: str
    last_moment: float
    place: Place
    timeout: float
    title: str

    def __init__(self, place: Place, first: Arrival, world_size: int) -> None:
        self.place, self.group, self.title = place, first.ranks, readable(first.title)
        self.ranks: tuple[int, ...] = first.ranks or tuple(range(world_size))
        self.label = label_of(place[1], readable(first.call), first.ranks)
        self.arrivals: dict[int, Arrival] = {}
        self.attendance = Attendance()
        #: The time until which rank 0 waits for the others, and the time by which the answer must be sent.
        self.end = self.last_moment = float("inf")
        self.timeout = 0.0
        self.failed = False  # whether the workers have an error
        self.deciding = False  # whether the first rank's program has the letters
        self.answer: Message | None = None  # for rank 0's own program, once it is sent to all others

    def arrive(self, rank: int, arrival: Arrival, round_trip: float) -> None:
        """Record a worker's arrival; the earliest deadline decides how long rank 0 waits."""
        self.arrivals[rank] = arrival
        message = arrival.message
        self.attendance.note(rank, message.payload)
        spare = margin(message.timeout, round_trip)
        if message.end - 2 * spare < self.end:
            self.end, self.timeout = message.end - 2 * spare, message.timeout
        self.last_moment = min(self.last_moment, message.end - spare)

    @property
    def complete(self) -> bool:
        """Whether all have arrived."""
        return len(self.arrivals) == len(self.ranks)

    @property
    def missing(self) -> list[int]:
        """The ranks that have not arrived."""
        return [rank for rank in self.ranks if rank not in self.arrivals]

    @property
    def in_order(self) -> list[Arrival]:
        """The letters by rank."""
        return [self.arrivals[rank] for rank in self.ranks]

    @property
    def next_moment(self) -> float:
        """When to look at it again if nothing happens."""
        return self.last_moment if self.deciding else self.end


def source_of(job: Job) -> str:
    """Where the number of workers comes from."""
    return f"their number is that of {job.variables[0]}"


def way_out(job: Job) -> str:
    """What to do if there is no such job, as where a shell or a notebook still has the variables of an earlier one."""
    if not job.claimed:
        return ""
    names = " and ".join(dict.fromkeys(job.variables))
    return f" If this process belongs to no job of {job.world_size} workers, unset {names}, or call compute_local()."
