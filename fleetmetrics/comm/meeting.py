"""One exchange while rank 0 is in it: the arrivals, and the time until which it waits."""

from __future__ import annotations

import time

from fleetmetrics.comm.deadline import Deadline, margin
from fleetmetrics.comm.frames import TROUBLE, Frame, Place
from fleetmetrics.comm.peers import Peer
from fleetmetrics.comm.star import Channel

__all__ = ["Meeting"]


class Meeting:
    """One exchange while rank 0 is in it."""

    call: int
    channel: Channel
    end: float
    frames: dict[int, Frame]
    label: str
    last_moment: float
    place: Place
    timeout: float
    troubled: bool

    def __init__(self, channel: Channel, own: Frame, label: str, deadline: Deadline, number: int) -> None:
        self.channel, self.label, self.call, self.place = channel, label, own.call, own.place
        self.number = number  # among the exchanges of all channels
        self.made = 0  # the last exchange with a result that all workers are known to have
        self.timeout = deadline.timeout
        self.frames = {0: own}
        spare = margin(deadline.timeout)
        #: The time until which rank 0 waits for the others, and the time by which the answer must be sent.
        self.end, self.last_moment = deadline.end - 2 * spare, deadline.end - spare
        self.acknowledged = False
        self.lost: dict[int, str] = {}  # by rank: why a worker could not get the answer
        self.left = ""  # the interrupted worker, and the cause
        self.away: set[int] = set()  # the ranks that were interrupted
        self.troubled = own.kind == TROUBLE  # whether a worker has arrived with an error
        self.shunned = False  # whether a worker gave up without arriving; it gives the reason

    def arrive(self, peer: Peer, frame: Frame) -> None:
        """Record a worker's arrival; the earliest deadline decides how long rank 0 waits."""
        self.frames[peer.rank] = frame
        self.troubled |= frame.kind == TROUBLE
        frame.made = frame.made or peer.since
        spare = margin(frame.timeout, peer.round_trip)
        theirs = time.monotonic() + frame.remaining - peer.round_trip / 2
        if theirs - 2 * spare < self.end:
            self.end, self.timeout = theirs - 2 * spare, frame.timeout
        self.last_moment = min(self.last_moment, theirs - spare)

    def absent(self, world_size: int) -> list[int]:
        """The ranks that have not arrived."""
        return [rank for rank in range(world_size) if rank not in self.frames]
