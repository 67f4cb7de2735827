"""Rank 0's door: its listening socket, and the guests who have not yet proved that they are workers."""

from __future__ import annotations

import contextlib
import errno
import math
import socket
import time

from fleetmetrics.comm.addresses import listen
from fleetmetrics.comm.handshake import (
    GUEST_SECONDS,
    REFUSED,
    UNPROVEN,
    WELCOME,
    Guest,
    OtherVersion,
)
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import Connection, Key, Poll
from fleetmetrics.support.environment import setting

__all__ = ["ENOUGH_REFUSALS", "REFUSAL_SECONDS", "Door"]

#: Failed proofs become an error after this number of seconds, and this number of failures.
REFUSAL_SECONDS, ENOUGH_REFUSALS = 3.0, 5
#: The number of guests beyond the workers; another one replaces the oldest.
_GUESTS = 64
#: Seconds between checks of the guests; also the pause without new guests when no file descriptor is free.
_LOOK_SECONDS = 0.05


class Door:
    """Rank 0's listening socket, and its guests.

    Args:
        job: the place of this process.
        key: derived from the secret.
        poll: waits for the sockets.
    """

    deaf_until: float
    other_versions: str

    def __init__(self, job: Job, key: Key, poll: Poll) -> None:
        self._job, self._key, self._poll = job, key, poll
        self._whole = setting("FLEETMETRICS_DIGESTS") != "heads"
        self._listener: socket.socket | None = None
        self.guests: dict[int, Guest] = {}  # by descriptor, in the order of arrival
        #: The time until which rank 0 accepts no connection because it has no file descriptor left; 0 if it has one.
        self.deaf_until = 0.0
        #: By claimed rank: the times of the first and the last failed proof, and their number.
        self._unproven: dict[int, tuple[float, float, int]] = {}
        self.other_versions = ""  # about a guest that speaks another version of the protocol

    def open(self, calls: bool) -> None:
        """Listen, unless it already does; see `listen`."""
        if self._listener is None:
            self._listener = listen(self._job, self._key, calls)
            self._poll.register(self._listener)

    @property
    def is_open(self) -> bool:
        """Whether rank 0 listens."""
        return self._listener is not None

    @property
    def address(self) -> str:
        """Where rank 0 listens, or ""."""
        if self._listener is None:
            return ""
        host, port = self._listener.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def next_look(self) -> float:
        """When to call `look` again."""
        return time.monotonic() + _LOOK_SECONDS if self.guests or self.deaf_until or self._unproven else math.inf

    def look(self, now: float) -> None:
        """Send away guests that have stayed too long, and listen again when descriptors may be free."""
        while self.guests and next(iter(self.guests.values())).since < now - GUEST_SECONDS:
            self.drop(next(iter(self.guests.values())))
        if self.deaf_until and now >= self.deaf_until and self._listener is not None:
            self.deaf_until = 0.0
            self._poll.register(self._listener)

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
                first, _, number = self._unproven.get(guest.rank, (now, now, 0))
                self._unproven[guest.rank] = first, now, number + 1
            guest.answer(UNPROVEN)
        except OtherVersion as error:
            self.other_versions = str(error)
        except OSError:
            pass
        self.drop(guest)
        return None

    def admit(self, guest: Guest, number: bytes) -> Connection:
        """Let a guest in; return the connection for the messages that follow."""
        try:
            connection = guest.answer(WELCOME, number)
        except OSError:
            self.drop(guest)
            raise
        del self.guests[connection.fileno()]
        self._unproven.pop(guest.rank, None)
        return connection

    def refuse(self, guest: Guest, why: str, code: bytes = REFUSED) -> None:
        """Refuse a guest that has proved itself, with the reason."""
        with contextlib.suppress(OSError):
            guest.answer(code, why.encode(errors="replace"))
        self.drop(guest)

    def drop(self, guest: Guest) -> None:
        """Send a guest away."""
        self.guests.pop(guest.sock.fileno(), None)
        self._poll.unregister(guest.sock)
        guest.sock.close()

    def ranks_unproven(self) -> set[int]:
        """The ranks that have failed to prove themselves, again and again."""
        return {
            rank
            for rank, (first, last, number) in self._unproven.items()
            if number >= ENOUGH_REFUSALS and last - first >= REFUSAL_SECONDS
        }

    def forgive(self, ranks: list[int]) -> None:
        """Use up the failures of one call of these ranks, so that their later calls match."""
        for rank in ranks:
            first, last, number = self._unproven[rank]
            self._unproven[rank] = first + REFUSAL_SECONDS, last, number - ENOUGH_REFUSALS

    def stop_listening(self) -> None:
        """Free the address; see `open`."""
        if self._listener is not None:
            self._poll.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def close(self) -> None:
        """Close all sockets."""
        for guest in self.guests.values():
            guest.sock.close()
        if self._listener is not None:
            self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        if len(self.guests) >= self._job.world_size + _GUESTS:
            self.drop(next(iter(self.guests.values())))
        try:
            sock, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._poll.unregister(listener)  # or the poll returns at once, again and again
                self.deaf_until = time.monotonic() + _LOOK_SECONDS
            return
        try:
            sock.setblocking(False)
            self.guests[sock.fileno()] = Guest(sock, self._key, self._job.mark, self._whole)
            self._poll.register(sock)
        except OSError:
            self.guests.pop(sock.fileno(), None)
            sock.close()
