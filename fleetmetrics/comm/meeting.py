"""One exchange at rank 0: who has arrived, with what, and until when the others may; which exchanges are stuck."""

from __future__ import annotations

from collections import Counter
from typing import Mapping, Sequence

from fleetmetrics.comm.arrivals import Arrival
from fleetmetrics.comm.deadline import margin
from fleetmetrics.comm.failures import in_words, readable
from fleetmetrics.comm.letters import label_of
from fleetmetrics.comm.message import Place
from fleetmetrics.support.logs import Attendance

__all__ = ["Meeting", "stuck_in", "stuck_text"]


class Meeting:
    """One exchange at rank 0.

    Args:
        place: its channel and numbers.
        first: the letter that has arrived first.
        world_size: the number of workers of the job.
    """

    attendance: Attendance
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


def stuck_in(meetings: Mapping[Place, Meeting], threads: Mapping[int, int], world_size: int) -> list[Meeting]:
    """The exchanges that wait for each other: no missing worker can come, because all its threads wait in others.

    Args:
        meetings: the exchanges that wait, by place.
        threads: by rank: the number of threads that call.
        world_size: the number of workers of the job.
    """
    stuck = {place: meeting for place, meeting in meetings.items() if meeting.missing}
    free = list(stuck)
    while free:
        waits = Counter(rank for rank, _ in {(rank, place[:2]) for place in stuck for rank in stuck[place].arrivals})
        may_come = {rank for rank in range(world_size) if waits[rank] < threads.get(rank, 1)}
        free = [place for place, meeting in stuck.items() if may_come.intersection(meeting.missing)]
        for place in free:
            del stuck[place]
    return _circles(list(stuck.values()))


def _circles(stuck: list[Meeting]) -> list[Meeting]:
    """Without exchanges for whose workers no other one waits: they may succeed once the others have failed."""
    while True:
        missing = {rank for meeting in stuck for rank in meeting.missing}
        kept = [meeting for meeting in stuck if not missing.isdisjoint(meeting.arrivals)]
        if len(kept) == len(stuck):
            return stuck
        stuck = kept


def stuck_text(meetings: Sequence[Meeting]) -> str:
    """The error of exchanges that wait for each other."""
    label_by_rank: dict[int, str] = {}
    several = len({meeting.title for meeting in meetings}) > 1
    for meeting in meetings:
        label = f"{meeting.label} on {meeting.title}" if several and not meeting.group else meeting.label
        for rank in meeting.arrivals:
            label_by_rank.setdefault(rank, label)
    labels = dict.fromkeys(label for _, label in sorted(label_by_rank.items()))
    words = ", ".join(
        f"{label} on {in_words([rank for rank, its in label_by_rank.items() if its == label])}" for label in labels
    )
    return (
        f"the workers disagree: {words}, and these wait for each other; name the same ranks on every worker of a "
        "group, and call groups and communicators in the same order on all workers"
    )
