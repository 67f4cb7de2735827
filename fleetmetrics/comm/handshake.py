"""The handshake in which rank 0 and a worker prove to each other that they belong to the job.

The side that accepts speaks first::

    rank 0   magic, which digests messages carry, a nonce
    worker   magic, rank, world size, whether it calls, a nonce, the names of its run, process, rank 0 and program,
             HMAC(key, "worker", all of it)
    rank 0   a code, HMAC(key, "rank 0", code, all of it, text), and a text: the reason of a refusal, or its own number

To a worker that does not know the secret, rank 0 only proves, with the mark of the run, that it belongs to that run:
workers ignore refusals by unrelated processes. The key follows from the secret, which is never sent. A process that
relays these messages learns nothing: later messages are sealed under two keys that depend on all earlier ones, the
name of the run and both nonces included. So if a relay connects a worker to rank 0 of another run, the worker raises an
error that says so, and no run accepts a message of another.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket
import struct
import time
from typing import NamedTuple

from fleetmetrics.comm.failures import ranks_text, readable
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import Connection, Key, Keys
from fleetmetrics.comm.secret import secret_path

__all__ = [
    "GUEST_SECONDS",
    "NONE",
    "OTHER_RUN",
    "REFUSED",
    "UNPROVEN",
    "WELCOME",
    "Found",
    "Guest",
    "OtherRun",
    "OtherVersion",
    "Refused",
    "Stranger",
    "Unproven",
    "greet",
    "other_run_text",
    "unproven_text",
]

#: Seconds until a guest without a proof is dropped; links with a delay of one second each way need seven.
GUEST_SECONDS = 12.0

_VERSION = 4
_NAME = b"fleetmetrics "
_MAGIC = b"%s%d\r\n" % (_NAME, _VERSION)
_GREETING = struct.Struct("!16sB32s")
_HELLO = struct.Struct("!16sII?32s32s16s16s100s32s")
_WELCOME = struct.Struct("!cH32s")
#: Codes: welcome; unknown secret; refused for a reason, which the text gives; another run.
WELCOME, UNPROVEN, REFUSED, OTHER_RUN = b"w", b"s", b"n", b"r"
#: The number of a rank 0 that a worker has not met.
NONE = bytes(16)
_PROOF_BYTES = 32
_TEXT_BYTES = 1000
_PROGRAM_BYTES = 100


def unproven_text(ranks: list[int]) -> str:
    """The error for ranks that could not prove themselves."""
    return (
        f"{ranks_text(ranks)} could not prove to {ranks_text([0])} that "
        f"{'they know' if len(ranks) > 1 else 'it knows'} the job's secret. Set FLEETMETRICS_SECRET to the same "
        "string on all workers; without it, workers of one user on one machine share the file "
        f"{secret_path('<uid>')}"
    )


class _Talk:
    """The messages of both sides so far, and the keys derived from them."""

    def __init__(self, key: Key, greeting: bytes, hello: bytes) -> None:
        self._key, self._messages = key, greeting + hello
        self._whole = bool(_GREETING.unpack(greeting)[1])

    def prove(self, role: bytes, key: bytes = b"") -> bytes:
        return hmac.digest(key or self._key, role + self._messages, "sha256")

    def keys(self, at_rank_0: bool) -> Keys:
        to, back = Key(self.prove(b"key to rank 0")), Key(self.prove(b"key from rank 0"))
        return Keys(back, to, self._whole) if at_rank_0 else Keys(to, back, self._whole)


class Guest:
    """A connection to rank 0 that has proved nothing yet."""

    calls: bool
    program: str
    proven: bool
    rank: int
    rank_0: bytes
    run: bytes
    session: bytes
    since: float
    world_size: int

    def __init__(self, sock: socket.socket, key: Key, mark: bytes, whole: bool = True) -> None:
        self.sock = sock
        self.since = time.monotonic()
        self.proven = False
        self.rank = self.world_size = -1
        self.calls = False  # whether it has called: a worker also connects when it makes its first metric
        self.run = self.session = self.rank_0 = b""
        self.program = ""
        self._key, self._mark = key, mark
        self._bytes = b""
        self._greeting = _GREETING.pack(_MAGIC, whole, secrets.token_bytes(32))
        sock.send(self._greeting)  # an empty socket always accepts these few bytes

    def read(self) -> bool:
        """Read as far as there are bytes; True once the hello is complete."""
        try:
            data = self.sock.recv(_HELLO.size - len(self._bytes))
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            raise ConnectionResetError("end of file")
        self._bytes += data
        if not _MAGIC.startswith(self._bytes[: len(_MAGIC)]):
            _raise_if_other_version(self._bytes[: len(_MAGIC)])
            raise ConnectionRefusedError("not a worker")
        if len(self._bytes) < _HELLO.size:
            return False
        fields = _HELLO.unpack(self._bytes)
        _, self.rank, self.world_size, self.calls, _, self.run, self.session, self.rank_0, program, proof = fields
        self.program = readable(program.rstrip(b"\0").decode(errors="replace"))
        self._talk = _Talk(self._key, self._greeting, self._bytes[:-_PROOF_BYTES])
        self.proven = hmac.compare_digest(proof, self._talk.prove(b"worker"))
        return True

    def answer(self, code: bytes, text: bytes = b"") -> Connection:
        """Send a code, and a text to a guest that has proved itself; return the connection for what follows."""
        text = text[:_TEXT_BYTES] if self.proven else b""
        proof = self._talk.prove(b"rank 0" + code + text, b"" if self.proven else self._mark)
        self.sock.send(_WELCOME.pack(code, len(text), proof) + text)
        return Connection(self.sock, self._talk.keys(at_rank_0=True))


class Unproven(Exception):
    """Rank 0 of this run does not know this worker: their secrets differ."""


class Stranger(ConnectionRefusedError):
    """A listener refuses without proof that it is rank 0 of this run."""


class OtherVersion(ConnectionRefusedError):
    """The other end speaks another version of this protocol; the text names both."""


class Refused(Exception):
    """Rank 0 of this run has proved itself, and rejects this worker; the text gives the reason."""


class OtherRun(Exception):
    """Rank 0 of another run, or of another program, has proved itself; the text names both."""


class Found(NamedTuple):
    """Rank 0, which has welcomed this worker."""

    connection: Connection
    round_trip: float  #: seconds
    number: bytes  #: that rank 0 drew when it began to listen


def greet(
    job: Job, key: Key, session: bytes, rank_0: bytes, calls: bool, where: tuple[str, int], seconds: float
) -> Found:
    """Connect and exchange greetings, with a limit of seconds for each step, even if the other side sends slowly.

    Args:
        job: the place of this process.
        key: derived from the secret.
        session: the number of this process.
        rank_0: the number of the rank 0 that it has met; `NONE` without one.
        calls: whether it has called.
        where: host and port.
        seconds: for each step.
    """
    sock = socket.create_connection(where, seconds)
    try:
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError("TCP connected the socket to itself")
        try:
            greeting = _received(sock, _GREETING.size, seconds, _MAGIC)
        except OtherVersion:
            sock.sendall(_MAGIC)  # so that both ends can name both versions
            raise
        program = job.program.encode(errors="replace")[:_PROGRAM_BYTES]
        hello = _HELLO.pack(
            _MAGIC, job.rank, job.world_size, calls, secrets.token_bytes(32), job.name, session, rank_0, program,
            bytes(_PROOF_BYTES),
        )[:-_PROOF_BYTES]  # fmt: skip
        talk = _Talk(key, greeting, hello)
        sent = time.monotonic()
        sock.sendall(hello + talk.prove(b"worker"))
        code, size, proof = _WELCOME.unpack(_received(sock, _WELCOME.size, seconds))
        if code == UNPROVEN:
            known = hmac.compare_digest(proof, talk.prove(b"rank 0" + code, job.mark))
            raise Unproven if known else Stranger("it does not know this worker: it belongs to another job")
        text = _received(sock, min(size, _TEXT_BYTES), seconds)
        if not hmac.compare_digest(proof, talk.prove(b"rank 0" + code + text)):
            raise ConnectionRefusedError("it is not rank 0 of this job")
        if code != WELCOME:
            why = readable(text.decode(errors="replace"))
            raise OtherRun(why) if code == OTHER_RUN else Refused(why)
        return Found(Connection(sock, talk.keys(at_rank_0=False)), time.monotonic() - sent, text)
    except BaseException:
        sock.close()
        raise


def other_run_text(where: str, theirs: str, ours: str) -> str:
    """The error that names the other run, or program, which a worker, or rank 0, has met."""
    if theirs.startswith("rank 0 of this run runs "):  # another program of this run
        return theirs
    return (
        f"{ranks_text([0])} of another run ({theirs}) listens at {where}, but this worker belongs to {ours}. The "
        "variables that identify a run must be the same on all its workers, and concurrent runs must have different "
        "endpoints"
    )


def _raise_if_other_version(beginning: bytes) -> None:
    match = re.match(rb"%s(\d+)\r" % _NAME, beginning)
    if match:
        raise OtherVersion(
            f"it speaks version {int(match[1])} of the protocol, and this process version {_VERSION}: install the "
            "same fleetmetrics on all workers"
        )


def _received(sock: socket.socket, size: int, seconds: float, beginning: bytes = b"") -> bytes:
    """Receive this number of bytes; an error if they are late, or as soon as their beginning is wrong."""
    received, end = b"", time.monotonic() + seconds
    while len(received) < size:
        if time.monotonic() >= end:
            raise TimeoutError("it did not answer in time")
        sock.settimeout(end - time.monotonic() + 1e-3)  # 0 would not wait at all
        data = sock.recv(size - len(received))
        received += data
        if not data or not beginning.startswith(received[: len(beginning)]):
            _raise_if_other_version(received)
            raise ConnectionRefusedError("it is not rank 0 of this job" if data else "it closed the connection")
    return received
