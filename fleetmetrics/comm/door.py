"""Rank 0's door: its listening socket, and the guests who have not yet proved that they are workers."""

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

#: The number of guests beyond the workers; another one replaces the oldest.
_GUESTS = 64
#: Seconds between checks of the guests; also the pause without new guests when no file descriptor is free.
_LOOK_SECONDS = 0.05


class Door:
    """Rank 0's listening socket, and its guests."""

    deaf_until: float

    def __init__(self, job: Job, key: Key, poll: Poll) -> None:
        self._job, self._key, self._poll = job, key, poll
        self._whole = whole_digests()
        self._listener: socket.socket | None = None
        self.guests: dict[int, Guest] = {}  # by descriptor
        #: The time until which rank 0 accepts no connection because it has no file descriptor left; 0 if it has one.
        self.deaf_until = 0.0
        #: By claimed rank: the times of the first and the last claim, and their number.
        self.unproven: dict[int, tuple[float, float, int]] = {}

    def open(self, end: float) -> None:
        """Listen, unless it already does; see `listen`."""
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
        """Send away guests that have stayed too long; return the time until which rank 0 may sleep."""
        now = time.monotonic()
        # guests are in the order of arrival
        while self.guests and next(iter(self.guests.values())).came < now - GUEST_SECONDS:
            self.drop(next(iter(self.guests.values())))
        if self.deaf_until and now >= self.deaf_until and self._listener is not None:
            self.deaf_until = 0.0
            self._poll.register(self._listener)
        return min(end, now + _LOOK_SECONDS)

    def has_new_guests(self) -> bool:
        """Whether a guest arrived a moment ago."""
        return bool(self.guests) and next(reversed(self.guests.values())).came > time.monotonic() - _LOOK_SECONDS

    def handle(self, descriptor: int) -> Guest | None:
        """Handle an event; return a guest that has proved itself."""
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
        """Refuse a guest that has proved itself, with the reason."""
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
        """Raise if all missing workers have failed to prove themselves, again and again.

        A worker that gives up raises and stops trying, so its failures count until the others arrive. Each error of
        rank 0 uses up the failures of one call of a worker, so that their later calls match.
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
