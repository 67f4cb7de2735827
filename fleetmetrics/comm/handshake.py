"""How the workers find rank 0, and how both prove that they belong to the job.

Rank 0 listens on the first free candidate address, the others go through the candidates. Whoever accepts speaks first::

    rank 0   magic, which digests frames carry, a nonce
    worker   magic, rank, world size, a nonce, HMAC(key, "worker", all of it)
    rank 0   a code, HMAC(key, "rank 0", code, all of it)

The key follows from the job's secret, which nobody sends. Who relays these messages learns nothing: what follows are
frames, sealed under two keys that follow from both nonces.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import resource
import secrets
import socket
import stat
import struct
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from fleetmetrics.comm.failures import ranks_text
from fleetmetrics.comm.frames import Keys, Stream
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import (
    AuthenticationError,
    CommunicatorError,
    InvalidInputError,
    NoChannelError,
    UnauthenticatedWarning,
    warn,
)

__all__ = ["REFUSAL_SECONDS", "Guest", "Secret", "connect", "listen", "secret_of", "unproven_text"]

#: How long a worker and rank 0 go on failing to prove themselves to each other until that is an error.
REFUSAL_SECONDS = 3.0
#: A guest that has not proved itself by then is sent away; links of a second each way need seven.
_GUEST_SECONDS = 12.0
#: The first wait for each step of the greeting, doubled from round to round.
_STEP_SECONDS = (1.0, _GUEST_SECONDS)
_PAUSE_SECONDS = (0.005, 0.1)

_MAGIC = b"fleetmetrics 2\r\n"
_GREETING = struct.Struct("!16sB32s")
_HELLO = struct.Struct("!16sII32s32s")
_WELCOME = struct.Struct("!c32s")
#: Come in; who are you?; the world has another size; there is no such rank; this rank is taken.
WELCOME, UNPROVEN, OTHER_WORLD, NO_RANK, TAKEN = b"w", b"s", b"n", b"r", b"t"
_PROOF_BYTES = 32


class Secret(NamedTuple):
    """What the workers of a job know.

    Args:
        key: to prove it with.
        known: False if anybody can work it out: then the workers are not authenticated.
    """

    key: bytes
    known: bool


def secret_of(job: Job) -> Secret:
    """Return the job's secret: that of the environment, else on one machine this user's, else none.

    Args:
        job: where this process stands.
    """
    secret = job.secret.encode() or (_user_secret() if job.on_one_machine else b"")
    if not secret and job.rank == 0:
        warn(
            "the workers' channel is not authenticated: whoever reaches rank 0's port may pass for a worker. Set"
            " FLEETMETRICS_SECRET to the same long random text on all workers; until then only numbers are exchanged,"
            " never pickles.",
            UnauthenticatedWarning,
        )
    return Secret(hmac.digest(secret, b"fleetmetrics" + job.name, "sha256"), bool(secret))


def _user_secret() -> bytes:
    """The secret of this user on this machine, made by the first who asks; empty if there is no safe place for it."""
    folder = Path(tempfile.gettempdir(), f"fleetmetrics-{os.geteuid()}")
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(os.lstat(folder), stat.S_IFDIR):
            return b""
        path = folder / "secret"
        if not path.exists():
            draft = folder / f"draft {os.getpid()} {secrets.token_hex(4)}"
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
            with contextlib.suppress(FileExistsError):  # whole or not at all, and the first one counts
                os.link(draft, path)
            draft.unlink()
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            if _is_private(os.fstat(file.fileno()), stat.S_IFREG):
                return file.read()
    return b""


def _is_private(found: os.stat_result, kind: int) -> bool:
    return stat.S_IFMT(found.st_mode) == kind and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def unproven_text(ranks: list[int]) -> str:
    """Say which ranks could not prove themselves."""
    return (
        f"{ranks_text(ranks)} could not prove to rank 0 that {'they know' if len(ranks) > 1 else 'it knows'} the job's"
        " secret. Set FLEETMETRICS_SECRET to the same text on all workers; without it, workers of one user on one"
        f" machine share the file {Path(tempfile.gettempdir(), 'fleetmetrics-<uid>', 'secret')}."
    )


def _whole_digests() -> bool:
    value = os.environ.get("FLEETMETRICS_DIGESTS", "").strip() or "all"
    if value not in ("all", "heads"):
        raise InvalidInputError(
            f"the environment variable FLEETMETRICS_DIGESTS holds {value!r}; allowed are 'all' and 'heads'."
        )
    return value == "all"


class _Talk:
    """What both sides have said so far, and what follows from it."""

    def __init__(self, key: bytes, greeting: bytes, hello: bytes) -> None:
        self._key, self._said = key, greeting + hello
        self._whole = bool(_GREETING.unpack(greeting)[1])

    def prove(self, role: bytes) -> bytes:
        return hmac.digest(self._key, role + self._said, "sha256")

    def keys(self, at_rank_0: bool) -> Keys:
        to, back = self.prove(b"key to rank 0"), self.prove(b"key from rank 0")
        return Keys(back, to, self._whole) if at_rank_0 else Keys(to, back, self._whole)


class Guest:
    """Somebody who has connected to rank 0 and has proved nothing yet.

    Args:
        sock: non-blocking; the greeting is sent at once.
        key: of the job's secret.
    """

    def __init__(self, sock: socket.socket, key: bytes) -> None:
        self.sock = sock
        self.came = time.monotonic()
        self.expires = self.came + _GUEST_SECONDS
        self.rank = self.world_size = -1
        self._key = key
        self._bytes = b""
        self._greeting = _GREETING.pack(_MAGIC, _whole_digests(), secrets.token_bytes(32))
        sock.send(self._greeting)  # so few bytes always fit into an empty socket

    def read(self) -> bool:
        """Read as far as there are bytes.

        Returns:
            Whether the hello is complete: then ``rank`` and ``world_size`` are what it says.

        Raises:
            OSError: if it is no worker of fleetmetrics, or it has gone away.
        """
        try:
            data = self.sock.recv(_HELLO.size - len(self._bytes))
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            raise ConnectionResetError("end of file")
        self._bytes += data
        if not _MAGIC.startswith(self._bytes[: len(_MAGIC)]):
            raise ConnectionRefusedError("not a worker")
        if len(self._bytes) < _HELLO.size:
            return False
        _, self.rank, self.world_size, _, proof = _HELLO.unpack(self._bytes)
        self._talk = _Talk(self._key, self._greeting, self._bytes[:-_PROOF_BYTES])
        self.proven = hmac.compare_digest(proof, self._talk.prove(b"worker"))
        return True

    def answer(self, code: bytes) -> Stream:
        """Send a code; return the stream of frames that follows.

        Raises:
            OSError: if it has gone away.
        """
        proof = self._talk.prove(b"rank 0" + code) if self.proven else bytes(_PROOF_BYTES)
        self.sock.send(_WELCOME.pack(code, proof))
        return Stream(self.sock, self._talk.keys(at_rank_0=True))


def listen(job: Job) -> socket.socket:
    """Listen on the first candidate address that is free.

    Args:
        job: the job, of rank 0.

    Returns:
        A non-blocking listening socket.

    Raises:
        NoChannelError: if none is free, or there are too few file descriptors for the workers.
        InvalidInputError: if FLEETMETRICS_BIND is no address.
    """
    _check_descriptors(job.world_size)
    failures = []
    for host, port in job.candidates():
        if port in job.reserved and not _is_ours(job, port):
            failures.append(f"{host}:{port} (promised to another by the environment)")
            continue
        try:
            family, address = _address(job.bind or host, port)
        except OSError as error:
            if job.bind:
                raise InvalidInputError(
                    f"the environment variable FLEETMETRICS_BIND holds {job.bind!r}; it must be an address of rank 0's"
                    f" machine, without a port, such as 10.0.0.1 or 0.0.0.0 ({error.strerror})."
                ) from None
            failures.append(f"{host}:{port} ({error.strerror})")
            continue
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(address)
            sock.listen(max(128, job.world_size))
        except OSError as error:
            sock.close()
            failures.append(f"{job.bind or host}:{port} ({error.strerror})")
            if error.errno == errno.EADDRNOTAVAIL and not job.bind:
                failures[-1] += ": if the others reach this machine by that name all the same, set FLEETMETRICS_BIND"
            continue
        sock.setblocking(False)
        return sock
    raise NoChannelError(
        f"rank 0 cannot listen for the other {job.world_size - 1} workers: {', '.join(failures)}. Set"
        " FLEETMETRICS_ENDPOINT=host:port on all workers to an address of rank 0's machine that is free."
    )


def _check_descriptors(world_size: int) -> None:
    """Raise the soft limit of open files where that is enough; else say at once what is missing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        opened = len(os.listdir("/proc/self/fd"))
    except OSError:  # not on Linux, or none is left to look with
        opened = soft if os.path.isdir("/proc/self/fd") else 64
    needed = opened + world_size + 8
    if needed > soft:
        if hard != resource.RLIM_INFINITY and needed > hard:
            raise NoChannelError(
                f"rank 0 needs {needed} file descriptors for {world_size} workers ({opened} are open), and may have"
                f" {hard}; raise the limit: ulimit -Hn {needed}."
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _is_ours(job: Job, port: int) -> bool:
    """The trainer endpoint itself is in the environment: for a parameter-server job it is ours to use."""
    return (bool(job.endpoint) or not job.collective) and job.candidates()[0][1] == port


def _address(host: str, port: int) -> tuple[int, tuple[object, ...]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return found[0], found[4]


class _Refused(Exception):
    """Rank 0, or who says so, does not know this worker: their secrets differ."""


def connect(job: Job, key: bytes, deadline: float) -> tuple[Stream, float]:
    """Look for rank 0 until it has proved itself or the deadline has passed.

    Args:
        job: the job, of a rank other than 0.
        key: of the job's secret.
        deadline: a time of ``time.monotonic()``.

    Returns:
        The stream of frames that follows, and the seconds that a message there and back took.

    Raises:
        TimeoutError: if rank 0 was not found in time.
        AuthenticationError: if rank 0 and this worker could not prove themselves to each other.
        CommunicatorError: if rank 0 refuses this rank.
    """
    pause, step = _PAUSE_SECONDS[0], _STEP_SECONDS[0]
    refused_since = 0.0
    while True:
        for host, port in job.candidates():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            try:
                return _greet(job, key, host, port, min(step, remaining))
            except _Refused:
                refused_since = refused_since or time.monotonic()
                if time.monotonic() - refused_since > REFUSAL_SECONDS:
                    raise AuthenticationError(unproven_text([job.rank])) from None
            except (TimeoutError, socket.timeout):  # a busy rank 0, a long way, or a listener that is silent
                step = min(2 * step, _STEP_SECONDS[1])
            except OSError:
                pass
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(2 * pause, _PAUSE_SECONDS[1])


def _greet(job: Job, key: bytes, host: str, port: int, timeout: float) -> tuple[Stream, float]:
    sock = socket.create_connection((host, port), timeout)
    try:
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError("TCP connected the socket to itself")
        greeting = _received(sock, _GREETING.size, _MAGIC)
        hello = _HELLO.pack(_MAGIC, job.rank, job.world_size, secrets.token_bytes(32), bytes(_PROOF_BYTES))
        talk = _Talk(key, greeting, hello[:-_PROOF_BYTES])
        said = time.monotonic()
        sock.sendall(hello[:-_PROOF_BYTES] + talk.prove(b"worker"))
        code, proof = _WELCOME.unpack(_received(sock, _WELCOME.size))
        if code == UNPROVEN:
            raise _Refused
        if not hmac.compare_digest(proof, talk.prove(b"rank 0" + code)):
            raise ConnectionRefusedError("not rank 0 of this job")
        if code != WELCOME:
            raise CommunicatorError(refusal_text(code, job.rank, job.world_size))
        return Stream(sock, talk.keys(at_rank_0=False)), time.monotonic() - said
    except BaseException:
        sock.close()
        raise


def refusal_text(code: bytes, rank: int, world_size: int) -> str:
    """Say why a worker that has proved itself cannot come in; the same on both sides."""
    if code == TAKEN:
        return f"two processes say that they are rank {rank}; each worker needs a PADDLE_TRAINER_ID of its own."
    what = f"a worker says that it is rank {rank} of {world_size}"
    return f"{what}, and rank 0 was told otherwise; PADDLE_TRAINERS_NUM must be the same on all workers."


def _received(sock: socket.socket, size: int, beginning: bytes = b"") -> bytes:
    """So many bytes; an error as soon as they do not begin as they should."""
    received = b""
    while len(received) < size:
        data = sock.recv(size - len(received))
        received += data
        if not data or not beginning.startswith(received[: len(beginning)]):
            raise ConnectionRefusedError("not rank 0 of this job")
    return received
