"""How the workers find rank 0 and know it: no store, no Paddle, only the launcher's environment.

Rank 0 listens on the first free candidate address, the others go through the candidates. Whoever accepts
speaks first: a worker sends nothing before it has read this job's greeting, so a stranger is not disturbed.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time

from fleetmetrics.comm.launch import Job
from fleetmetrics.errors import NoChannelError

__all__ = ["GREETING_SECONDS", "Hello", "connect", "greeting", "listen"]

GREETING_SECONDS = 2.0
_MAGIC = b"fleetmetrics 1\r\n"
_HELLO = struct.Struct("!16s16sI")
_PAUSE_SECONDS = (0.005, 0.1)


def greeting(token: bytes) -> bytes:
    """Return what rank 0 says first to whoever connects.

    Args:
        token: of the job and the channel.
    """
    return _MAGIC + token


class Hello:
    """What a worker answers to the greeting, read piece by piece.

    Args:
        token: of the job and the channel.
    """

    def __init__(self, token: bytes) -> None:
        self._token = token
        self._bytes = bytearray()
        self.expires = time.monotonic() + 3 * GREETING_SECONDS

    def read(self, sock: socket.socket) -> int | None:
        """Read as far as there are bytes.

        Args:
            sock: a non-blocking socket.

        Returns:
            The worker's rank, or None if it is not complete yet.

        Raises:
            OSError: if it is not a worker of this job, or it has gone away.
        """
        try:
            data = sock.recv(_HELLO.size - len(self._bytes))
        except (BlockingIOError, InterruptedError):
            return None
        if not data:
            raise ConnectionResetError("end of file")
        self._bytes += data
        if not greeting(self._token).startswith(bytes(self._bytes[:32])):
            raise ConnectionRefusedError("not a worker of this job")
        if len(self._bytes) < _HELLO.size:
            return None
        return int(_HELLO.unpack(self._bytes)[2])


def listen(job: Job) -> socket.socket:
    """Listen on the first candidate address that is free.

    Args:
        job: the job, of rank 0.

    Returns:
        A non-blocking listening socket.

    Raises:
        NoChannelError: if none is free.
    """
    failures = []
    for host, port in job.candidates():
        if port in job.reserved and not _is_ours(job, port):
            failures.append(f"{host}:{port} (promised to another by the environment)")
            continue
        family = _family(host)
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((_bind_host(host, family), port))
            sock.listen(max(128, job.world_size))
        except OSError as error:
            sock.close()
            failures.append(f"{host}:{port} ({error.strerror})")
            continue
        sock.setblocking(False)
        return sock
    raise NoChannelError(
        f"rank 0 cannot listen for the other {job.world_size - 1} workers: {', '.join(failures)}. Set"
        " FLEETMETRICS_ENDPOINT=host:port on all workers to an address of rank 0's machine that is free."
    )


def _is_ours(job: Job, port: int) -> bool:
    """The trainer endpoint itself is in the environment: for a parameter-server job it is ours to use."""
    return (bool(job.endpoint) or not job.collective) and job.candidates()[0][1] == port


def _family(host: str) -> socket.AddressFamily:
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    except OSError:
        return socket.AF_INET6 if ":" in host else socket.AF_INET


def _bind_host(host: str, family: int) -> str:
    if host == "localhost" or host == "::1" or host.startswith("127."):
        return host
    return "::" if family == socket.AF_INET6 else ""


def connect(job: Job, token: bytes, deadline: float) -> socket.socket:
    """Look for rank 0 until it answers or the deadline has passed.

    Args:
        job: the job, of a rank other than 0.
        token: of the job and the channel.
        deadline: a time of ``time.monotonic()``.

    Returns:
        A socket after the greeting; what follows are frames.

    Raises:
        TimeoutError: if rank 0 was not found in time.
    """
    pause = _PAUSE_SECONDS[0]
    while True:
        for host, port in job.candidates():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            with contextlib.suppress(OSError):
                return _greet(job, token, host, port, min(GREETING_SECONDS, remaining))
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(2 * pause, _PAUSE_SECONDS[1])


def _greet(job: Job, token: bytes, host: str, port: int, timeout: float) -> socket.socket:
    sock = socket.create_connection((host, port), timeout)
    try:
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError("TCP connected the socket to itself")
        expected, received = greeting(token), b""
        while received != expected:
            data = sock.recv(len(expected) - len(received))
            received += data
            if not data or not expected.startswith(received):
                raise ConnectionRefusedError("not rank 0 of this job")
        sock.sendall(_HELLO.pack(_MAGIC, token, job.rank))
        return sock
    except BaseException:
        sock.close()
        raise
