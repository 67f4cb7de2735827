"""Frames over a TCP socket that never blocks: the smallest part of the channel.

A frame is a head of fixed size, a short header and a payload. The head holds the SHA-256 of what follows, and a seal:
the HMAC-SHA256 of the head and of the frame's number on this connection, under a key that only its two ends know. So a
worker trusts no size and reads no contents before the head has proved its origin; no relay can change, drop, repeat or
reorder frames unnoticed; and an answer to a thousand workers is hashed once.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import math
import os
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

Buffer = Union[bytes, bytearray, memoryview]
# Data to send may be in pieces; data that has arrived is one buffer.
Payload = Union[Buffer, Sequence[Buffer]]

# Kinds of frames. From a worker to rank 0: here I am; with an error instead of data; I stop waiting; I was interrupted;
# I have the answer.
ARRIVAL, TROUBLE, GAVE_UP, LEFT, ACK = 1, 2, 3, 4, 5
# From rank 0 to a worker.
ANSWER, ERROR = 6, 7
# From either: this channel, or with channel 0 the connection, is closed intentionally.
CLOSED = 8
_KINDS = range(1, 9)

# Magic, kind, whether the digest covers the payload, channel, number of the call and of the exchange in it, number of
# the last exchange with a result, seconds until the sender's deadline, seconds it began with, header and payload bytes,
# their SHA-256.
_HEAD = struct.Struct("!4sB?2xQQIQddQQ32s")
_NUMBER = struct.Struct("!Q")
_SEAL = 32
_MAGIC = b"flt3"
_HEADER_LIMIT = 2**26
_PAYLOAD_LIMIT = 2**40
# A larger buffer grows as its bytes arrive: the head alone reserves no memory.
_AT_ONCE = 2**26
_ALIGNMENT = 16
_PARTS_AT_ONCE = 64  # Linux takes up to 1,024
_LONG_SECONDS = 1e6  # poll takes no more
_LOOKS = 100
#: A yield that takes longer has let another process run: polling then costs more than it saves, for a while.
_CROWDED_SECONDS, _CROWDED_FOR_SECONDS = 2e-5, 1.0
_NOTHING = memoryview(b"")
_OF_NOTHING = hashlib.sha256().digest()
JOINED = 2**12  # copying up to this number of bytes is quicker than sending pieces


#: An exchange of a channel: the number of its call, and its number in that call.
Place = Tuple[int, int]
#: Before the first exchange of a channel.
NEVER: Place = (0, 0)


class Lost(ConnectionResetError):
    """The connection is lost."""


class Garbled(Lost):
    """The bytes that arrived are not a frame of this connection."""


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
class Frame:
    """One message: its meaning depends on the kind."""

    kind: int  #: one of the constants of this module
    call: int  #: number of its call on its channel
    header: bytes = b""  #: a short text or JSON
    payload: Any = b""  #: a Payload when it is sent; a Buffer, aligned for NumPy, when it has arrived
    channel: int = 0  #: its communicator
    made: int = 0  #: number of the last exchange that ended with a result at the sender
    remaining: float = 0.0  #: seconds until the sender's deadline
    timeout: float = 0.0  #: the sender's whole timeout in seconds
    step: int = 1  #: number of the exchange in its call
    _ready: tuple[bool, bytes, list[Buffer]] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def place(self) -> Place:
        """Its exchange."""
        return self.call, self.step

    def ready(self, whole: bool) -> tuple[bytes, list[Buffer]]:
        """Return the head without its seal, and the buffers that follow; made once for all workers."""
        if self._ready is None or self._ready[0] != whole:
            body: list[Any] = [self.header] if self.header else []
            size = 0
            if len(self.payload):
                parts = self.payload if isinstance(self.payload, (list, tuple)) else [self.payload]
                payload = [memoryview(part).cast("B") for part in parts if len(part)]
                size = sum(map(len, payload))
                if size and len(self.header) % _ALIGNMENT:
                    body = [self.header + bytes(-len(self.header) % _ALIGNMENT)]
                body += payload
            covered = body if whole else body[: bool(self.header)]
            head = _HEAD.pack(
                _MAGIC, self.kind, whole, self.channel, self.call, self.step, self.made, self.remaining,
                self.timeout, len(self.header), size, _digest(covered),
            )  # fmt: skip
            self._ready = whole, head, [b"".join(body)] if 0 < size <= JOINED else body
        return self._ready[1:]


def _digest(parts: Sequence[Buffer]) -> bytes:
    """The SHA-256 of all bytes."""
    if not parts:
        return _OF_NOTHING
    found = hashlib.sha256(parts[0])
    for part in parts[1:]:
        found.update(part)
    return found.digest()


def joined(payload: Payload) -> Buffer:
    """Return a payload in one buffer."""
    return b"".join(payload) if isinstance(payload, (list, tuple)) else payload  # type: ignore[return-value]


#: The data to send, the number of the next frame, and the byte counts that the system has taken since.
_Out = Tuple[List[Buffer], int, List[int]]
#: The arriving frame: its head, once read; the buffer, its wanted and its present size; the bytes that have come since;
#: the number of the next frame; the frame that was read last, until its reader has handled it.
_In = Tuple[Optional[Tuple[Any, ...]], memoryview, int, int, List[int], int, Optional[Frame]]


class Stream:
    """A connected socket with a frame half read, and bytes not yet sent.

    A signal handler may raise after any call and before any function begins. So the call that asks the system also
    notes what the system has taken or given (``list.extend`` of a ``map``, all in C), and related values are one tuple,
    which changes in one step: an interruption finds all of the change or none, and the next call continues from there.
    """

    def __init__(self, sock: socket.socket, keys: Keys) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._whole = keys.whole
        self._seals = _keyed(keys.sending), _keyed(keys.receiving)
        self._begin = memoryview(bytearray(_HEAD.size + _SEAL))
        self._out: _Out = [], 0, []
        self._in: _In = None, self._begin, len(self._begin), 0, [], 0, None

    def fileno(self) -> int:
        """Return the socket's descriptor, so that a poll takes the stream itself."""
        return self.sock.fileno()

    @property
    def sending(self) -> bool:
        """True while bytes wait to be sent."""
        return bool(self._out[0])

    @property
    def begun(self) -> bool:
        """True if a frame has arrived, in part or whole, and waits to be handled."""
        head, _, _, filled, come, _, last = self._in
        return bool(come or filled or head or last)

    @property
    def last(self) -> Frame | None:
        """The frame that was read last, until its reader calls `seen`."""
        return self._in[6]

    def seen(self) -> None:
        """Forget the frame that was read last."""
        self._in = (*self._in[:6], None)

    @property
    def heard(self) -> bool:
        """True once a frame has arrived."""
        return self._in[5] > 0

    def send(self, frame: Frame) -> None:
        """Queue a frame and send as much as the socket accepts; the payload must not change until it is sent."""
        head, parts = frame.ready(self._whole)
        queue, number, gone = self._out
        self._out = [*queue, head + _seal(self._seals[0], number, head), *parts], number + 1, gone
        self.flush()

    def flush(self) -> None:
        """Send as much of the queue as the socket accepts."""
        while True:
            queue, number, gone = self._out
            if not queue:
                return
            if not gone:
                try:
                    gone.extend(map(self.sock.sendmsg, (queue[:_PARTS_AT_ONCE],)))
                except OSError as error:
                    if not raised_by_a_socket(error):
                        raise
                    if isinstance(error, (BlockingIOError, InterruptedError)):
                        return
                    raise Lost(str(error)) from None
            [sent] = gone
            if sent == sum(map(len, queue)):
                self._out = [], number, []
                return
            self._out = _after(queue, sent), number, []

    def keep_unsent(self) -> None:
        """Copy the queue, so that the caller may change its arrays before the frame is complete."""
        queue, number, gone = self._out
        if queue:
            self._out = [bytes(part) for part in queue], number, gone

    def receive(self) -> Frame | None:
        """Read all available bytes."""
        while True:
            head, target, size, filled, come, number, _ = self._in
            if filled < size:
                if not come:
                    if filled == len(target):
                        target = self._grow()
                        come = self._in[4]
                    try:
                        come.extend(map(self.sock.recv_into, (target[filled:] if filled else target,)))
                    except OSError as error:
                        if not raised_by_a_socket(error):
                            raise
                        if isinstance(error, (BlockingIOError, InterruptedError)):
                            return None
                        raise Lost(str(error)) from None
                [count] = come
                if not count:
                    raise Lost("end of file")
                if filled + count < size:
                    self._in = head, target, size, filled + count, [], number, None
                    continue
            if head is not None:
                return self._complete(head)
            self._read_head(bytes(target))

    def _read_head(self, data: bytes) -> None:
        number = self._in[5]
        if not hmac.compare_digest(data[_HEAD.size :], _seal(self._seals[1], number, data[: _HEAD.size])):
            raise Garbled("the frame is not sealed with this connection's key")
        head = _HEAD.unpack_from(data)
        magic, kind, whole, _, _, _, _, remaining, timeout, header, payload, _ = head
        if magic != _MAGIC or kind not in _KINDS or header > _HEADER_LIMIT or payload > _PAYLOAD_LIMIT:
            raise Garbled("the frame's head is malformed")
        if not (0 <= remaining < math.inf and 0 <= timeout < math.inf) or (self._whole and not whole):
            raise Garbled("the frame's head is malformed")
        size, target = header, _NOTHING
        if payload:
            size += -header % _ALIGNMENT + payload
            # np.empty: aligned for any dtype, and not filled with zeros first
            target = np.empty(min(size, _AT_ONCE), np.uint8).data
        elif header:
            target = memoryview(bytearray(header))
        self._in = head, target, size, 0, [], number + 1, None

    def _grow(self) -> memoryview:
        """Continue in a larger buffer; no bytes have arrived since this one was full."""
        head, target, size, filled, come, number, _ = self._in
        try:
            larger = np.empty(min(size, 2 * filled), np.uint8).data
        except MemoryError:
            raise Garbled(f"there is no memory for a frame of {size} bytes") from None
        larger[:filled] = target
        self._in = head, larger, size, filled, come, number, None
        return larger

    def _complete(self, head: tuple[Any, ...]) -> Frame:
        _, kind, whole, channel, call, step, made, remaining, timeout, header, payload, digest = head
        _, body, size, _, _, number, _ = self._in
        start = size - payload
        covered = body if whole else body[:start]
        if (hashlib.sha256(covered).digest() if size else _OF_NOTHING) != digest:
            raise Garbled("the frame's contents do not match its head")
        frame = Frame(kind, call, bytes(body[:header]), body[start:], channel, made, remaining, timeout, step)
        self._in = None, self._begin, len(self._begin), 0, [], number, frame
        return frame

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self.sock.close()


def _after(queue: list[Buffer], sent: int) -> list[Buffer]:
    """A queue without its first bytes."""
    gone = 0
    while sent >= len(queue[gone]):
        sent -= len(queue[gone])
        gone += 1
    return [memoryview(queue[gone])[sent:], *queue[gone + 1 :]]


def raised_by_a_socket(error: OSError) -> bool:
    """Whether the error comes from a socket's call; an error of a signal handler is the user's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = "" if trace is None else trace.tb_frame.f_globals.get("__name__", "")
    return name == "socket" or name.startswith("fleetmetrics.comm.")


def _keyed(key: bytes) -> Any:
    """An HMAC that has begun with a key."""
    made = hmac.new(key, digestmod="sha256")
    return getattr(made, "_hmac", None) or made  # that of OpenSSL: its copy takes half of the time


def _seal(keyed: Any, number: int, head: bytes) -> bytes:
    found = keyed.copy()
    found.update(_NUMBER.pack(number) + head)
    seal: bytes = found.digest()
    return seal


class Poll:
    """Waits for sockets; if there are many, with epoll where available, which returns only sockets with an event.

    Args:
        many: whether there may be many sockets.
        workers: the number of processes that run in parallel. If each has its own processor, this one polls a few
            times before it sleeps, because waking up takes 30 to 60 us on a virtual machine. If other processes need
            the processors, it sleeps at once: each poll would give them a time slice, and a sleeper wakes first.
    """

    def __init__(self, many: bool = False, workers: int = 0) -> None:
        self._looks = _LOOKS if 0 < workers <= (os.cpu_count() or 1) else 0
        self._crowded_until = 0.0
        self._masks: dict[Stream, int] = {}  # events to wait for, of sockets whose mask was changed
        self._poll: Any = select.poll()
        self._unit = 1000  # milliseconds
        with contextlib.suppress(AttributeError, OSError):  # another system, or no descriptor is left for it
            if many:
                self._poll, self._unit = select.epoll(), 1

    def register(self, sock: Any, mask: int = select.POLLIN) -> None:
        """Also wait for this socket."""
        self._poll.register(sock, mask)

    def modify(self, stream: Stream) -> None:
        """Wait for data of a stream, and for room to send while it has bytes to send."""
        mask = select.POLLIN | select.POLLOUT if stream.sending else select.POLLIN
        if self._masks.get(stream) == mask:
            return
        self._masks.pop(stream, None)  # after an interruption, the next call sets it
        try:
            self._poll.modify(stream, mask)
        except FileNotFoundError:  # an interruption came before it was registered
            self._poll.register(stream, mask)
        self._masks[stream] = mask

    def unregister(self, sock: Any) -> None:
        """Stop waiting for it; nothing happens if it is not registered, or already closed."""
        self._masks.pop(sock, None)
        with contextlib.suppress(KeyError, OSError, ValueError):
            self._poll.unregister(sock)

    def wait(self, end: float = 0.0) -> list[tuple[int, int]]:
        """Return descriptors and events as soon as there are any, at ``end`` at the latest; by default at once."""
        poll: Callable[[float], list[tuple[int, int]]] = self._poll.poll
        if not end:
            return poll(0)
        now = time.monotonic()
        for _ in range(self._looks if now > self._crowded_until else 0):
            events = poll(0)
            if events:
                return events
            before = time.monotonic()
            os.sched_yield()
            now = time.monotonic()
            if now - before > _CROWDED_SECONDS:
                self._crowded_until = now + _CROWDED_FOR_SECONDS
                break
        return poll(min(max(end - now, 0.0), _LONG_SECONDS) * self._unit)

    def close(self) -> None:
        """Stop waiting. A forked child must not unregister: it would take the sockets from its parent, too."""
        if self._unit == 1:
            self._poll.close()
