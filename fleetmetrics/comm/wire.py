"""Frames over a TCP socket that never blocks: the smallest part of the channel."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any, Sequence, Union

import numpy as np

__all__ = ["ANSWER", "ARRIVAL", "ERROR", "GAVE_UP", "TROUBLE", "Buffer", "Frame", "Payload", "Stream"]

Buffer = Union[bytes, bytearray, memoryview]
# What is sent may lie in pieces; what arrives is one buffer.
Payload = Union[Buffer, Sequence[Buffer]]

# Kinds of frames. From a worker to rank 0:
ARRIVAL, TROUBLE, GAVE_UP = 1, 2, 3
# From rank 0 to a worker:
ANSWER, ERROR = 4, 5

# Magic, kind, call, note, seconds until the sender's deadline, seconds it began with, header and payload bytes.
_HEAD = struct.Struct("!4sB3xQQddQQ")
_MAGIC = b"flt1"
_HEADER_LIMIT = 2**26
_PAYLOAD_LIMIT = 2**40
_ALIGNMENT = 16
_PARTS_AT_ONCE = 64  # Linux takes up to 1,024


@dataclass
class Frame:
    """One message: its meaning depends on the kind.

    Args:
        kind: one of the constants of this module.
        call: number of the exchange that it belongs to.
        header: a short text or JSON.
        payload: the data, one buffer on arrival, aligned for NumPy.
        note: a number for the caller.
        remaining: seconds until the sender's deadline.
        timeout: seconds that the sender was ready to wait altogether.
    """

    kind: int
    call: int
    header: bytes = b""
    payload: Any = b""  # a Payload when it is sent, a Buffer when it has arrived
    note: int = 0
    remaining: float = 0.0
    timeout: float = 0.0


class Stream:
    """A connected socket with a frame half read, and bytes not yet sent.

    Args:
        sock: connected; it is made non-blocking and sends without delay.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._unsent: deque[memoryview] = deque()
        self._start_reading()

    def fileno(self) -> int:
        """Return the socket's descriptor, so that a poll takes the stream itself."""
        return self.sock.fileno()

    @property
    def sending(self) -> bool:
        """True while bytes wait to be sent."""
        return bool(self._unsent)

    def send(self, frame: Frame) -> None:
        """Queue a frame and send as much as the socket takes; the payload must not change until it is gone.

        Args:
            frame: the message.

        Raises:
            OSError: if the other side has gone away.
        """
        parts = frame.payload if isinstance(frame.payload, (list, tuple)) else [frame.payload]
        payload = [memoryview(part).cast("B") for part in parts if len(part)]
        size = sum(map(len, payload))
        head = _HEAD.pack(
            _MAGIC,
            frame.kind,
            frame.call,
            frame.note,
            frame.remaining,
            frame.timeout,
            len(frame.header),
            size,
        )
        padding = b"\0" * (-len(frame.header) % _ALIGNMENT) if size else b""
        self._unsent.append(memoryview(head + frame.header + padding))
        self._unsent.extend(payload)
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it.

        Raises:
            OSError: if the other side has gone away.
        """
        while self._unsent:
            try:
                sent = self.sock.sendmsg(list(islice(self._unsent, _PARTS_AT_ONCE)))
            except (BlockingIOError, InterruptedError):
                return
            while self._unsent and sent >= len(self._unsent[0]):
                sent -= len(self._unsent.popleft())
            if sent:
                self._unsent[0] = self._unsent[0][sent:]

    def keep_unsent(self) -> None:
        """Copy what is queued, so that the caller may change its arrays: the frame is completed later."""
        self._unsent = deque(memoryview(bytes(part)) for part in self._unsent)

    def receive(self) -> Frame | None:
        """Read as far as there are bytes.

        Returns:
            The frame, or None if it is not complete yet.

        Raises:
            OSError: if the other side has gone away, or sends no frames.
        """
        while True:
            while self._filled < len(self._target):
                try:
                    count = self.sock.recv_into(self._target[self._filled :])
                except (BlockingIOError, InterruptedError):
                    return None
                if count == 0:
                    raise ConnectionResetError("end of file")
                self._filled += count
            if self._head is not None:
                return self._complete()
            self._read_body()

    def _start_reading(self) -> None:
        self._head: tuple[int, int, int, float, float, int, int] | None = None
        self._target = memoryview(bytearray(_HEAD.size))
        self._filled = 0

    def _read_body(self) -> None:
        magic, *rest = _HEAD.unpack(self._target)
        header, payload = rest[-2:]
        if magic != _MAGIC or header > _HEADER_LIMIT or payload > _PAYLOAD_LIMIT:
            raise ConnectionAbortedError("the message is garbled")
        self._head = tuple(rest)
        size = header + (-header % _ALIGNMENT if payload else 0) + payload
        # np.empty: aligned for any dtype, and not filled with zeros first
        self._target = np.empty(size, np.uint8).data if size else memoryview(bytearray())
        self._filled = 0

    def _complete(self) -> Frame:
        assert self._head is not None
        kind, call, note, remaining, timeout, header, payload = self._head
        body = self._target
        self._start_reading()
        start = len(body) - payload
        return Frame(kind, call, bytes(body[:header]), body[start:], note, remaining, timeout)

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self.sock.close()
