"""Rank 0's door: its listening socket, and those who have come to it and have yet to prove that they are workers."""

from __future__ import annotations

import errno
import socket
import time

from fleetmetrics.comm.finding import listen
from fleetmetrics.comm.frames import Key, Poll, Stream, raised_by_a_socket
from fleetmetrics.comm.handshake import (
    ENOUGH_REFUSALS,
    GUEST_SECONDS,
    REFUSAL_SECONDS,
    UNPROVEN,
    WELCOME,
    Guest,
    unproven_text,
    whole_digests,
)
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AuthenticationError

__all__ = ["Door"]

#: Guests beyond the workers; the oldest is sent away for another.
_GUESTS = 64
#: How often rank 0 looks at its guests, and how long it does not accept any when it has no file descriptor.
_LOOK_SECONDS = 0.05


class Door:
    """Rank 0's listening socket, and those who have come to it and have proved nothing yet."""

    deaf_until: float

    def __init__(self, job: Job, key: Key, poll: Poll) -> None:
        self._job, self._key, self._poll = job, key, poll
        self._whole = whole_digests()
        self._listener: socket.socket | None = None
        self.guests: dict[int, Guest] = {}  # by descriptor
        #: Until when rank 0 accepts nobody, for it has no file descriptor; 0 if it has.
        self.deaf_until = 0.0
        #: By the rank that somebody said to be: when that was first and last, and how often.
        self.unproven: dict[int, tuple[float, float, int]] = {}

    def open(self, end: float) -> None:
        """Listen, if it does not yet; see `listen`."""
        if self._listener is None:
            listener = listen(self._job, self._key, end)
            try:
                self._poll.register(listener)
                self._listener = listener
            except BaseException:  # Ctrl-C: the next call listens
                listener.close()
                raise

    @property
    def is_open(self) -> bool:
        """Whether rank 0 listens."""
        return self._listener is not None

    def look(self, end: float) -> float:
        """Send away who has stayed too long; return until when rank 0 may sleep at most."""
        now = time.monotonic()
        # they are in the order of coming
        while self.guests and next(iter(self.guests.values())).came < now - GUEST_SECONDS:
            self.drop(next(iter(self.guests.values())))
        if self.deaf_until and now >= self.deaf_until and self._listener is not None:
            self.deaf_until = 0.0
            self._poll.register(self._listener)
        return min(end, now + _LOOK_SECONDS)

    def has_new_guests(self) -> bool:
        """Whether somebody has knocked a moment ago."""
        return bool(self.guests) and next(reversed(self.guests.values())).came > time.monotonic() - _LOOK_SECONDS

    def handle(self, descriptor: int) -> Guest | None:
        """Do what an event asks for; return a guest that has proved itself."""
        guest = self.guests.get(descriptor)
        if guest is None:
            if self._listener is not None and descriptor == self._listener.fileno():
                self._accept(self._listener)
            return None
        try:
            if not guest.read():
                return None
            if guest.proven:
                return guest
            if guest.run == self._job.name and 0 < guest.rank < self._job.world_size:
                now = time.monotonic()
                first, _, number = self.unproven.get(guest.rank, (now, now, 0))
                self.unproven[guest.rank] = first, now, number + 1
            guest.answer(UNPROVEN)
        except OSError as error:
            if not raised_by_a_socket(error):
                raise
        self.drop(guest)
        return None

    def admit(self, guest: Guest) -> Stream:
        """Let a guest in; return the stream of frames that follows."""
        stream = guest.answer(WELCOME)
        del self.guests[stream.fileno()]
        self.unproven.pop(guest.rank, None)
        return stream

    def refuse(self, guest: Guest, code: bytes, why: str = "") -> None:
        """Tell a guest that has proved itself why it cannot come in."""
        try:
            guest.answer(code, why)
        except OSError as error:
            if not raised_by_a_socket(error):
                raise
        self.drop(guest)

    def drop(self, guest: Guest) -> None:
        """Send a guest away."""
        self.guests.pop(guest.sock.fileno(), None)
        self._poll.unregister(guest.sock)
        guest.sock.close()

    def check_unproven(self, missing: list[int]) -> None:
        """Raise if all whom rank 0 waits for have failed to prove themselves, again and again.

        A worker that has had enough raises, and tries no more: what was seen of it counts until the others are here.
        Each error of rank 0 takes as much of it as one call of a worker leaves, so that their later calls match.
        """
        seen = {rank: self.unproven[rank] for rank in missing if rank in self.unproven}
        if len(seen) < len(missing):
            return
        if any(number < ENOUGH_REFUSALS or last - first < REFUSAL_SECONDS for first, last, number in seen.values()):
            return
        for rank, (first, last, number) in seen.items():
            self.unproven[rank] = first + REFUSAL_SECONDS, last, number - ENOUGH_REFUSALS
        raise AuthenticationError(unproven_text(missing))

    def close(self) -> None:
        """Close all sockets."""
        for guest in list(self.guests.values()):
            self.drop(guest)
        if self._listener is not None:
            self._poll.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        if len(self.guests) >= self._job.world_size + _GUESTS:
            self.drop(next(iter(self.guests.values())))
        try:
            sock, _ = listener.accept()
        except OSError as error:
            if not raised_by_a_socket(error):
                raise
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._poll.unregister(listener)  # or the poll returns at once, again and again
                self.deaf_until = time.monotonic() + _LOOK_SECONDS
            return
        try:
            sock.setblocking(False)
            self.guests[sock.fileno()] = Guest(sock, self._key, self._job.mark, self._whole)
            self._poll.register(sock)
        except OSError as error:
            sock.close()
            if not raised_by_a_socket(error):
                raise
