"""What lies between two machines: a proxy in front of rank 0's port that delays, cuts, holds back, heals and changes.

It knows the format of the workers' messages, but not their secret.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections import deque
from typing import Any, Callable, NamedTuple, Sequence

from fleetmetrics.comm import handshake
from fleetmetrics.comm.message import _ALIGNMENT, _HEAD, _SEAL

#: Sizes, by whether they go to rank 0.
_HANDSHAKE = {False: (handshake._GREETING.size, handshake._WELCOME.size), True: (handshake._HELLO.size,)}


class Message(NamedTuple):
    """A part of the handshake, or a message of the channel.

    Args:
        link: number of the connection, from 0.
        rank: of the worker; -1 before its hello.
        inward: whether it goes to rank 0.
        number: counts the messages of this direction, from 0.
        kind: of the message; 0 in the handshake.
        call: its number on its channel; 0 in the handshake.
        data: all of it.
    """

    link: int
    rank: int
    inward: bool
    number: int
    kind: int
    call: int
    data: bytes


class Cut(Exception):
    """Raised by ``edit`` to cut the connection.

    Args:
        reset: with a RST, else with a FIN.
        first: what is sent on before.
    """

    def __init__(self, reset: bool = True, first: bytes = b"") -> None:
        super().__init__()
        self.reset, self.first = reset, first


class Hold(Exception):
    """Raised by ``edit`` to hold back this message and all later ones, both ways, until `Proxy.heal`.

    Args:
        first: what is sent on before; then this message is not.
    """

    def __init__(self, first: bytes = b"") -> None:
        super().__init__()
        self.first = first


#: Takes a message, returns what is sent on.
Edit = Callable[[Message], Sequence[bytes]]


class _Way:
    """One direction of a connection."""

    def __init__(self, source: socket.socket, target: socket.socket, inward: bool) -> None:
        self.source, self.target, self.inward = source, target, inward
        self.unread, self.number, self.ended = b"", 0, False
        self.queue: deque[tuple[float, bytes | None]] = deque()  # when, and what; None: the end


class _Link:
    def __init__(self, number: int, worker: socket.socket, rank_0: socket.socket) -> None:
        self.number, self.rank, self.held = number, -1, False
        self.ends = worker, rank_0
        self.ways = _Way(worker, rank_0, True), _Way(rank_0, worker, False)


class Proxy:
    """A thread that relays; a context manager.

    Args:
        listen: where.
        target: rank 0's address.
        delay: seconds each way.
        edit: looks at each message.
        patience: seconds that it waits for rank 0 to listen.
    """

    def __init__(
        self,
        listen: tuple[str, int],
        target: tuple[str, int],
        delay: float = 0.0,
        edit: Edit | None = None,
        patience: float = 0.0,
    ) -> None:
        self._listener = socket.create_server(listen, backlog=100)
        self._target, self._delay, self._edit, self._patience = target, delay, edit, patience
        self._links: dict[int, _Link] = {}  # by descriptor of either end
        self._count = 0
        self._orders: deque[Callable[[], None]] = deque()
        self._wake, self._woken = socket.socketpair()
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._order(lambda: setattr(self, "_over", True))
        self._thread.join(10)

    def cut(self, reset: bool = True) -> None:
        """Cut all connections; new ones are relayed.

        Args:
            reset: with a RST, else with a FIN.
        """
        self._order(lambda: [self._close(link, reset) for link in set(self._links.values())] and None)

    def cut_one(self, rank: int, reset: bool = True) -> None:
        """Cut one worker's connections; see `cut`."""
        self._order(
            lambda: [self._close(link, reset) for link in set(self._links.values()) if link.rank == rank] and None
        )

    def hold(self) -> None:
        """Let nothing through on the connections that there are."""
        self._order(lambda: self._hold(True))

    def heal(self) -> None:
        """Let through what was held back."""
        self._order(lambda: self._hold(False))

    def _order(self, work: Callable[[], None]) -> None:
        self._orders.append(work)
        self._wake.send(b"x")

    def _hold(self, held: bool) -> None:
        for link in self._links.values():
            link.held = held

    def _run(self) -> None:
        while not self._over:
            poll = select.poll()
            for file in (self._listener, self._woken):
                poll.register(file, select.POLLIN)
            for link in set(self._links.values()):
                for way in link.ways:
                    if not way.ended:
                        poll.register(way.source, select.POLLIN)
            due = [way.queue[0][0] for link in self._links.values() for way in link.ways if way.queue and not link.held]
            wait = max(0.0, min(due) - time.monotonic()) * 1000 + 1 if due else None
            for descriptor, _ in poll.poll(wait):
                if descriptor == self._listener.fileno():
                    self._accept()
                elif descriptor == self._woken.fileno():
                    self._woken.recv(100)
                elif descriptor in self._links:
                    self._read(self._links[descriptor], descriptor)
            while self._orders:
                self._orders.popleft()()
            for link in set(self._links.values()):
                self._forward(link)
        for link in set(self._links.values()):
            self._close(link, False)
        for each in (self._listener, self._wake, self._woken):
            each.close()

    def _accept(self) -> None:
        worker, _ = self._listener.accept()
        end = time.monotonic() + self._patience
        while True:
            try:
                rank_0 = socket.create_connection(self._target, 5)
                break
            except OSError:
                if time.monotonic() >= end:
                    _end(worker, True)
                    return
                time.sleep(0.005)
        link = _Link(self._count, worker, rank_0)
        self._count += 1
        for end in link.ends:
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._links[end.fileno()] = link

    def _read(self, link: _Link, descriptor: int) -> None:
        way = next(each for each in link.ways if each.source.fileno() == descriptor)
        try:
            data = way.source.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        way.unread += data
        due = time.monotonic() + self._delay
        try:
            while (message := self._message(link, way)) is not None:
                way.number += 1
                try:
                    parts = [message.data] if self._edit is None else self._edit(message)
                except Hold as order:  # what has come with this message is held back, too
                    if order.first:
                        way.queue.append((due, order.first))
                    self._forward(link)
                    link.held = True
                    parts = [] if order.first else [message.data]
                way.queue.extend((due, part) for part in parts)
        except Cut as order:
            way.queue.append((due, order.first))
            self._forward(link)
            self._close(link, order.reset)
        if not data:
            way.ended = True
            way.queue.append((due, None))

    def _message(self, link: _Link, way: _Way) -> Message | None:
        """The next whole message of this direction."""
        sizes, kind, call, data = _HANDSHAKE[way.inward], 0, 0, way.unread
        if way.number < len(sizes):
            size = sizes[way.number]
        elif len(data) < _HEAD.size:
            return None
        else:
            head: Any = _HEAD.unpack_from(data)
            kind, call, header, payload = head[1], head[6], head[-3], head[-2]
            size = _HEAD.size + _SEAL + header + payload
            size += -header % _ALIGNMENT if payload else 0
        if len(data) < size:
            return None
        if not way.inward and way.number == 1:  # why a worker is refused
            size += struct.unpack_from("!H", data, 1)[0]
            if len(data) < size:
                return None
        if way.inward and way.number == 0:
            link.rank = struct.unpack_from("!I", data, 16)[0]
        way.unread = data[size:]
        return Message(link.number, link.rank, way.inward, way.number, kind, call, data[:size])

    def _forward(self, link: _Link) -> None:
        now = time.monotonic()
        for way in () if link.held else link.ways:
            while way.queue and way.queue[0][0] <= now:
                _, data = way.queue.popleft()
                if data is None:
                    self._close(link, False)
                    return
                try:
                    sent = way.target.send(data)
                except BlockingIOError:
                    sent = 0
                except OSError:
                    return  # reading finds that it is gone
                if sent < len(data):
                    way.queue.appendleft((now + 0.005, data[sent:]))

    def _close(self, link: _Link, reset: bool) -> None:
        for end in link.ends:
            self._links.pop(end.fileno(), None)
            _end(end, reset)


def _end(sock: socket.socket, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            sock.shutdown(socket.SHUT_RDWR)
    sock.close()
