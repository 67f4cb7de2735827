"""One sealed message over a TCP socket that never blocks: the smallest part of the channel.

A message is a head of fixed size, a short header and a payload. The head holds the SHA-256 of what follows, and a seal:
the HMAC-SHA256 of the head and of the message's number on this connection, under a key that only its two ends know. So
a worker trusts no size and reads no contents before the head has proved its origin; no relay can change, drop, repeat
or reorder messages unnoticed; and an answer to a thousand workers is hashed once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import hmac
import math
import os
import select
import socket
import struct
import sys
import termios
import time
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple, Sequence, Tuple

import numpy as np

from fleetmetrics.comm.letters import HEADER_LIMIT
from fleetmetrics.serial.descriptions import Buffer
from fleetmetrics.support.logs import Attendance

__all__ = [
    "ANSWER",
    "ARRIVAL",
    "CLOSED",
    "ENDS",
    "ERROR",
    "GAVE_UP",
    "LEFT",
    "LETTERS",
    "STATUS",
    "TROUBLE",
    "Connection",
    "Garbled",
    "Key",
    "Keys",
    "Lost",
    "Message",
    "Place",
    "Poll",
    "Silent",
    "silence",
]

#: From a worker: its letter of an exchange; with an error instead of a letter; its deadline is near, so it asks for the
#: verdict; it has left the call with an error.
ARRIVAL, TROUBLE, GAVE_UP, LEFT = 1, 2, 3, 4
#: From the first rank of a group, or from rank 0: the answer. From rank 0: an error; the letters, for the first rank.
ANSWER, ERROR, LETTERS = 5, 6, 7
#: From a worker, a question: who is missing? From rank 0, the reply.
STATUS = 8
#: From either: this channel, or with channel 0 the connection, is closed intentionally.
CLOSED = 9
#: The header of the last one of a process that ends.
ENDS = b"ends"
_KINDS = range(1, 10)

# Magic, kind, whether the digest covers the payload, number of threads that call, whether there are others, channel,
# number of the call and of the exchange in it, seconds until the sender's deadline, seconds it began with, header and
# payload bytes, their SHA-256.
_HEAD = struct.Struct("!4sB?B?QQIddQQ32s")
_NUMBER = struct.Struct("!Q")
_SEAL = 32
_MAGIC = b"flt4"
_PAYLOAD_LIMIT = 2**40
# A larger buffer grows as its bytes arrive: the head alone reserves no memory.
_AT_ONCE = 2**26
_ALIGNMENT = 16
_TURN_BYTES = 2**24
_LONG_SECONDS = 1e6  # poll takes no more
_NOTHING = memoryview(b"")
_OF_NOTHING = hashlib.sha256().digest()
_JOINED = 2**12  # copying up to this number of bytes is quicker than sending pieces
_PARTS_AT_ONCE = 64  # Linux takes up to 1,024
#: Seconds without a sign of life until the system asks whether the other end lives, and between such questions; and
#: the number of unanswered questions that end a connection. Firewalls forget idle connections after five minutes.
_KEEPALIVE = (60, 10, 6)
#: What the system says of a connection whose other end's machine cannot be reached any more.
_UNREACHABLE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH)
# Of Linux's tcp_info: the packets that are not confirmed, and the milliseconds since the last confirmation.
_TCP_INFO = struct.Struct("=24xI28xI")

#: An exchange: its channel, the number of its call there, and its number in that call.
Place = Tuple[int, int, int]


class Lost(ConnectionResetError):
    """The connection is lost."""

    #: Where the other end has gone, for people.
    why = "its process ended, or it closed the channel"


class Silent(Lost):
    """The other end's machine does not answer any more."""

    why = "its machine has not answered for two minutes, or a firewall has forgotten the connection"


class Garbled(Lost):
    """The bytes that arrived are not a message of this connection."""


class Key(bytes):
    """Bytes that no repr shows, and hence no traceback with local variables."""

    def __repr__(self) -> str:
        return "<key>"

    __str__ = __repr__


class Keys(NamedTuple):
    """The keys that the two ends of a connection share."""

    sending: Key  #: seals what this end sends
    receiving: Key  #: seals what the other end sends
    whole: bool = True  #: whether digests cover payloads, too


@dataclass
class Message:
    """One message: its meaning depends on the kind."""

    kind: int  #: one of the constants of this module
    channel: int = 0
    call: int = 0  #: number of the call on its channel
    step: int = 1  #: number of the exchange in its call
    header: bytes = b""  #: a short text or JSON
    payload: Any = b""  #: one buffer; what has arrived is aligned for NumPy
    end: float = 0.0  #: the sender's deadline, by the clock of this process
    timeout: float = 0.0  #: the sender's whole timeout in seconds
    threads: tuple[int, bool] = (1, False)  #: how many of the sender have called and live; whether others live
    attendance: Attendance | None = field(default=None, init=False, repr=False, compare=False)
    _ready: tuple[bool, bytes, list[Buffer]] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def place(self) -> Place:
        """Its exchange."""
        return self.channel, self.call, self.step

    def ready(self, whole: bool) -> tuple[bytes, list[Buffer]]:
        """Return the head without its seal, and the buffers that follow; made once for all workers."""
        if self._ready is None or self._ready[0] != whole:
            body: list[Buffer] = [self.header] if self.header else []
            size = len(self.payload)
            if size:
                if len(self.header) % _ALIGNMENT:
                    body = [self.header + bytes(-len(self.header) % _ALIGNMENT)]
                body.append(self.payload)
            covered = body if whole else body[: bool(self.header)]
            remaining = max(0.0, self.end - time.monotonic()) if self.end else 0.0
            head = _HEAD.pack(
                _MAGIC, self.kind, whole, *self.threads, self.channel, self.call, self.step, remaining, self.timeout,
                len(self.header), size, _digest(covered),
            )  # fmt: skip
            self._ready = whole, head, [b"".join(body)] if 0 < size <= _JOINED else body
        return self._ready[1:]


def _digest(parts: Sequence[Buffer]) -> bytes:
    """The SHA-256 of all bytes."""
    if not parts:
        return _OF_NOTHING
    digest = hashlib.sha256(parts[0])
    for part in parts[1:]:
        digest.update(part)
    return digest.digest()


class Connection:
    """A connected socket with a message half read, and bytes not yet sent; only one thread uses it."""

    def __init__(self, sock: socket.socket, keys: Keys) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(sock)
        self.sock = sock
        self._whole = keys.whole
        self._seals = _keyed(keys.sending), _keyed(keys.receiving)
        self._sent = self._received = 0  # numbers of messages
        self._unsent: list[Buffer] = []
        self._begin = memoryview(bytearray(_HEAD.size + _SEAL))
        self._expect(None, self._begin, len(self._begin))

    def fileno(self) -> int:
        """Return the socket's descriptor, so that a poll takes the connection itself."""
        return self.sock.fileno()

    @property
    def sending(self) -> bool:
        """True while bytes wait to be sent."""
        return bool(self._unsent)

    @property
    def on_its_way(self) -> bool:
        """Whether the other end has not confirmed all bytes: the system drops them if a process ends too soon."""
        with contextlib.suppress(OSError, ValueError):
            unconfirmed = fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4))
            return self.sending or int.from_bytes(unconfirmed, sys.byteorder) > 0
        return False

    @property
    def silent(self) -> bool:
        """Whether the other end's machine has confirmed none of what was sent for two minutes.

        The system itself asks for signs of life only while nothing is on its way, and sends again for a quarter of an
        hour. A machine whose process has stopped still confirms.
        """
        with contextlib.suppress(OSError, AttributeError, struct.error):  # another system knows less
            info = self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
            unconfirmed, milliseconds = _TCP_INFO.unpack(info)
            return bool(unconfirmed) and milliseconds > 1000 * silence()
        return False

    @property
    def waiting(self) -> int:
        """The number of buffers that wait to be sent."""
        return len(self._unsent)

    @property
    def heard(self) -> bool:
        """True once a message has arrived."""
        return self._received > 0

    def send(self, message: Message) -> None:
        """Queue a message and send as much as the socket accepts."""
        head, parts = message.ready(self._whole)
        self._unsent += [head + _seal(self._seals[0], self._sent, head), *parts]
        self._sent += 1
        self.flush()

    def flush(self) -> None:
        """Send as much of the queue as the socket accepts."""
        while self._unsent:
            try:
                sent = self.sock.sendmsg(self._unsent[:_PARTS_AT_ONCE])
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise _lost(error) from None
            complete = 0
            while complete < len(self._unsent) and sent >= len(self._unsent[complete]):
                sent -= len(self._unsent[complete])
                complete += 1
            self._unsent = self._unsent[complete:]
            if sent:
                self._unsent[0] = memoryview(self._unsent[0])[sent:]

    def receive(self) -> Message | None:
        """Read the available bytes, up to the end of a message, or enough for one turn."""
        budget = _TURN_BYTES
        while True:
            while self._filled < self._size:
                if budget <= 0:  # other workers wait, too
                    return None
                if self._filled == len(self._target):
                    self._grow()
                try:
                    count = self.sock.recv_into(self._target[self._filled :] if self._filled else self._target)
                except (BlockingIOError, InterruptedError):
                    return None
                except OSError as error:
                    raise _lost(error) from None
                if not count:
                    raise Lost("end of file")
                self._filled += count
                budget -= count
            if self._head is not None:
                return self._complete(self._head)
            self._read_head(bytes(self._target))

    def _expect(self, head: tuple[Any, ...] | None, target: memoryview, size: int) -> None:
        self._head, self._target, self._size, self._filled = head, target, size, 0

    def _read_head(self, data: bytes) -> None:
        if not hmac.compare_digest(data[_HEAD.size :], _seal(self._seals[1], self._received, data[: _HEAD.size])):
            raise Garbled("the message is not sealed with this connection's key")
        head = _HEAD.unpack_from(data)
        magic, kind, whole, *_, remaining, timeout, header, payload, _ = head
        if magic != _MAGIC or kind not in _KINDS or header > HEADER_LIMIT or payload > _PAYLOAD_LIMIT:
            raise Garbled("the message's head is malformed")
        if not (0 <= remaining < math.inf and 0 <= timeout < math.inf) or (self._whole and not whole):
            raise Garbled("the message's head is malformed")
        size, target = header, _NOTHING
        if payload:
            size += -header % _ALIGNMENT + payload
            target = _room(min(size, _AT_ONCE), size)
        elif header:
            target = memoryview(bytearray(header))
        self._received += 1
        self._expect(head, target, size)

    def _grow(self) -> None:
        """Continue in a larger buffer."""
        larger = _room(min(self._size, 2 * self._filled), self._size)
        larger[: self._filled] = self._target
        self._target = larger

    def _complete(self, head: tuple[Any, ...]) -> Message:
        _, kind, whole, callers, others, channel, call, step, remaining, timeout, header, payload, digest = head
        body, size = self._target, self._size
        start = size - payload
        sealed = body if whole else body[:start]
        if (hashlib.sha256(sealed).digest() if size else _OF_NOTHING) != digest:
            raise Garbled("the message's contents do not match its head")
        self._expect(None, self._begin, len(self._begin))
        end = time.monotonic() + remaining
        return Message(kind, channel, call, step, bytes(body[:header]), body[start:], end, timeout, (callers, others))

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self.sock.close()


def _room(size: int, of: int) -> memoryview:
    """Memory for the first bytes of a message; aligned for any dtype, and not filled with zeros first."""
    try:
        return np.empty(size, np.uint8).data
    except MemoryError:
        raise Garbled(f"this end has no memory for a message of {of} bytes") from None


def _keep_alive(sock: socket.socket) -> None:
    """Let the system find out that the other end is gone, and remind firewalls of an idle connection."""
    with contextlib.suppress(OSError, AttributeError):  # another system has other names
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in zip((socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT), _KEEPALIVE):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def silence() -> float:
    """Seconds without any answer of the other end's machine after which a connection is lost."""
    idle, between, questions = _KEEPALIVE
    return idle + between * questions


def _lost(error: OSError) -> Lost:
    return (Silent if error.errno in _UNREACHABLE else Lost)(str(error))


def _keyed(key: bytes) -> Any:
    """An HMAC that has begun with a key."""
    keyed = hmac.new(key, digestmod="sha256")
    return getattr(keyed, "_hmac", None) or keyed  # that of OpenSSL: its copy takes half of the time


def _seal(keyed: Any, number: int, head: bytes) -> bytes:
    copied = keyed.copy()
    copied.update(_NUMBER.pack(number) + head)
    seal: bytes = copied.digest()
    return seal


class Poll:
    """Waits for sockets: with epoll where available, which returns only those with an event."""

    def __init__(self) -> None:
        self._writing: set[int] = set()
        self._poll: Any = select.poll()
        self._unit = 1000  # milliseconds
        with contextlib.suppress(AttributeError, OSError):  # another system, or no descriptor is left for it
            self._poll, self._unit = select.epoll(), 1
        self.wait_for: Callable[[float], list[tuple[int, int]]] = self._poll.poll

    def register(self, sock: Any) -> None:
        """Also wait for this socket."""
        self._poll.register(sock, select.POLLIN)

    def follow(self, connection: Connection) -> None:
        """Wait for data of a connection, and for room to send while it has bytes to send."""
        descriptor, sending = connection.fileno(), connection.sending
        if sending != (descriptor in self._writing):
            self._poll.modify(connection, select.POLLIN | select.POLLOUT if sending else select.POLLIN)
            self._writing ^= {descriptor}

    def unregister(self, sock: Any) -> None:
        """Stop waiting for it; nothing happens if it is not registered, or already closed."""
        with contextlib.suppress(KeyError, OSError, ValueError):
            self._writing.discard(sock.fileno())
            self._poll.unregister(sock)

    def wait(self, end: float = 0.0) -> list[tuple[int, int]]:
        """Return descriptors and events as soon as there are any, at ``end`` at the latest; by default at once."""
        seconds = min(max(end - time.monotonic(), 0.0), _LONG_SECONDS) if end else 0
        return self.wait_for(seconds * self._unit)

    def close(self) -> None:
        """Stop waiting. A forked child must not unregister: it would take the sockets from its parent, too."""
        if self._unit == 1:
            self._poll.close()


def pipe() -> tuple[int, int]:
    """The two ends of a pipe that never blocks, to wake a thread that polls."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends
