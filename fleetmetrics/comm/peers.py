"""The workers connected to rank 0: it lets them in, keeps their early frames, and sends them frames."""

from __future__ import annotations

import contextlib
import select
import time
from typing import Iterable, NoReturn

from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.comm.door import Door
from fleetmetrics.comm.failures import ranks_text
from fleetmetrics.comm.frames import Frame, Key, Lost, Poll, Stream, raised_by_a_socket
from fleetmetrics.comm.handshake import OTHER_RUN, OTHER_WORLD, TAKEN, Guest, refusal_text
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.rivals import leave_note

__all__ = ["Broken", "Peer", "Peers", "gone"]

#: The number of frames kept for a worker that is ahead, the last ones of each channel, and the number of channels.
_EARLY_KEPT, _EARLY_CHANNELS = 64, 1024


class Broken(Exception):
    """The star cannot continue; the text gives the reason."""


class Peer:
    """A connected worker."""

    rank: int
    round_trip: float
    stream: Stream

    def __init__(self, rank: int, stream: Stream, round_trip: float, since: int) -> None:
        self.rank, self.stream, self.round_trip = rank, stream, round_trip
        self.since = since  # rank 0's last exchange with a result when it connected
        self.lost = False


class Peers:
    """The connected workers, and the door through which they come."""

    door: Door
    lost: str
    poll: Poll

    def __init__(self, job: Job, key: Key) -> None:
        self._job = job
        self.poll = Poll(many=True, workers=job.world_size)
        self.door = Door(job, key, self.poll)
        self.by_descriptor: dict[int, Peer] = {}
        self.by_rank: dict[int, Peer] = {}
        #: By channel and rank, the last frames of later exchanges.
        self.early: dict[int, dict[int, list[Frame]]] = {}
        self.sent_away: set[int] = set()  # ranks of workers of other runs
        self.lost = ""  # why the star cannot continue

    @property
    def all_here(self) -> bool:
        """Whether all workers are connected."""
        return len(self.by_rank) == self._job.world_size - 1

    def admit(self, guest: Guest, made: int) -> Peer | None:
        """Let in a worker that has proved itself, if its rank is free; ``made``: rank 0's last result."""
        earlier = self.by_rank.get(guest.rank)
        if guest.run != self._job.name:
            self.sent_away.add(guest.rank)
            self.door.refuse(guest, OTHER_RUN, self._job.title)
            return None
        if guest.world_size != self._job.world_size or guest.rank >= self._job.world_size:
            self.door.refuse(guest, OTHER_WORLD)
            raise Broken(refusal_text(OTHER_WORLD, guest.rank, guest.world_size))
        if guest.rank == 0 or (earlier is not None and earlier.stream.heard):
            self.door.refuse(guest, TAKEN)
            leave_note(self._job.claim, refusal_text(TAKEN, guest.rank, guest.world_size))
            raise Broken(refusal_text(TAKEN, guest.rank, guest.world_size))
        if earlier is not None:  # its first connection was lost
            self.dismiss(earlier)
        descriptor = guest.sock.fileno()
        try:
            peer = Peer(guest.rank, self.door.admit(guest), time.monotonic() - guest.came, made)
            self.by_descriptor[descriptor] = self.by_rank[guest.rank] = peer
        except BaseException as error:  # it connects again
            self.door.drop(guest)
            if isinstance(error, OSError) and raised_by_a_socket(error):
                return None
            raise
        return peer

    def keep(self, peer: Peer, frame: Frame) -> None:
        """Keep a worker's frame of an exchange that rank 0 has not begun."""
        frames = self.early.get(frame.channel)
        if frames is None:
            frames = self.early[frame.channel] = {}
            if len(self.early) > _EARLY_CHANNELS:
                self.early.pop(next(iter(self.early)))
        if peer.rank not in frames:
            frames[peer.rank] = [frame]
            return
        frames[peer.rank].append(frame)
        del frames[peer.rank][:-_EARLY_KEPT]

    def kept(self, channel: int) -> list[tuple[Peer, Frame]]:
        """Return the kept frames of a channel's exchanges, and forget them."""
        early = self.early.pop(channel, {})
        return [(self.by_rank[rank], frame) for rank, frames in early.items() for frame in frames]

    def tell(self, peer: Peer, verdict: Frame) -> None:
        """Send a frame to one worker; the next exchange finds out if it has gone."""
        with contextlib.suppress(Lost):
            peer.stream.send(verdict)
            self.watch(peer)

    def watch(self, peer: Peer) -> None:
        """Wait for a worker's frames, and for room while frames to it are queued."""
        if not peer.lost:
            self.poll.modify(peer.stream)

    def send_all(self, frame: Frame, deadline: Deadline, peers: Iterable[Peer], lost: dict[int, str]) -> None:
        """Send a frame until the deadline; ``lost`` gets the reason for each worker that could not receive it."""
        waiting: dict[int, Peer] = {}
        for peer in peers:
            try:
                peer.stream.send(frame)
                if peer.stream.sending:
                    waiting[peer.stream.fileno()] = peer
            except Lost:
                lost[peer.rank] = gone(peer)
        if waiting:
            self._send_rest(waiting, deadline, lost)

    def _send_rest(self, waiting: dict[int, Peer], deadline: Deadline, lost: dict[int, str]) -> None:
        """Send the bytes that the sockets did not accept at once."""
        unsent = Poll()
        for peer in waiting.values():
            unsent.register(peer.stream, select.POLLOUT)
        while waiting and deadline.remaining:
            for descriptor, _ in unsent.wait(deadline.end):
                peer = waiting[descriptor]
                try:
                    peer.stream.flush()
                except Lost:
                    lost[peer.rank] = gone(peer)
                if not peer.stream.sending or peer.rank in lost:
                    unsent.unregister(descriptor)
                    del waiting[descriptor]
        for peer in waiting.values():
            lost[peer.rank] = f"{ranks_text([peer.rank])} stopped in the middle of an answer."

    def lose(self, peer: Peer, why: str) -> NoReturn:
        """Record that a worker is lost for good."""
        peer.lost, self.lost = True, why
        self.poll.unregister(peer.stream)
        raise Broken(why) from None

    def dismiss(self, peer: Peer) -> None:
        """Drop a worker that may come back."""
        self.poll.unregister(peer.stream)
        self.by_descriptor.pop(peer.stream.fileno(), None)
        self.by_rank.pop(peer.rank, None)
        for frames in self.early.values():  # it has closed everything since
            frames.pop(peer.rank, None)
        peer.stream.close()

    def close(self) -> None:
        """Close all sockets."""
        self.poll.close()
        for peer in self.by_descriptor.values():
            peer.stream.close()
        self.door.close()


def gone(peer: Peer) -> str:
    """The error for a worker that is lost."""
    return f"{ranks_text([peer.rank])} has gone away: its process ended, or it closed the channel. Look at its log."
