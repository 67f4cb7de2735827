"""The handshake in which rank 0 and a worker prove to each other that they belong to the job.

The side that accepts speaks first::

    rank 0   magic, which digests frames carry, a nonce
    worker   magic, rank, world size, a nonce, the name of its run, HMAC(key, "worker", all of it)
    rank 0   a code, HMAC(key, "rank 0", code, all of it), and the reason of a refusal

To a worker that does not know the secret, rank 0 only proves, with the mark of the run, that it belongs to that run:
workers ignore refusals by unrelated processes. The key follows from the secret, which is never sent. A process that
relays these messages learns nothing: later frames are sealed under two keys that depend on all earlier messages, the
name of the run and both nonces included. So if a relay connects a worker to rank 0 of another run, the worker raises an
error that says so, and no run accepts a frame of another.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
import time

from fleetmetrics.comm.failures import ranks_text, readable
from fleetmetrics.comm.frames import Key, Keys, Stream, raised_by_a_socket
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.secret import secret_path
from fleetmetrics.errors import CommunicatorError, InvalidInputError

__all__ = [
    "ENOUGH_REFUSALS",
    "GUEST_SECONDS",
    "OTHER_RUN",
    "OTHER_WORLD",
    "REFUSAL_SECONDS",
    "TAKEN",
    "UNPROVEN",
    "WELCOME",
    "Guest",
    "OtherRun",
    "Refused",
    "Stranger",
    "Unwelcome",
    "greet",
    "refusal_text",
    "unproven_text",
    "whole_digests",
]

#: Failed proofs become an error after this number of seconds, and this number of failures.
REFUSAL_SECONDS, ENOUGH_REFUSALS = 3.0, 5
#: Seconds until a guest without a proof is dropped; links with a delay of one second each way need seven.
GUEST_SECONDS = 12.0

_MAGIC = b"fleetmetrics 3\r\n"
_GREETING = struct.Struct("!16sB32s")
_HELLO = struct.Struct("!16sII32s32s32s")
_WELCOME = struct.Struct("!cH32s")
#: Codes: welcome; unknown secret; invalid rank or world size; rank already taken; another run.
WELCOME, UNPROVEN, OTHER_WORLD, TAKEN, OTHER_RUN = b"w", b"s", b"n", b"t", b"r"
_PROOF_BYTES = 32
_TEXT_BYTES = 1000


def unproven_text(ranks: list[int]) -> str:
    """The error for ranks that could not prove themselves."""
    return (
        f"{ranks_text(ranks)} could not prove to {ranks_text([0])} that "
        f"{'they know' if len(ranks) > 1 else 'it knows'} the job's secret. Set FLEETMETRICS_SECRET to the same "
        "string on all workers; without it, workers of one user on one machine share the file "
        f"{secret_path('<uid>')}."
    )


def whole_digests() -> bool:
    """Whether FLEETMETRICS_DIGESTS lets digests cover payloads, too; raises `InvalidInputError`."""
    value = os.environ.get("FLEETMETRICS_DIGESTS", "").strip() or "all"
    if value not in ("all", "heads"):
        raise InvalidInputError(
            f"the environment variable FLEETMETRICS_DIGESTS holds {value!r}; allowed are 'all' and 'heads'."
        )
    return value == "all"


class _Talk:
    """The messages of both sides so far, and the keys derived from them."""

    def __init__(self, key: Key, greeting: bytes, hello: bytes) -> None:
        self._key, self._said = key, greeting + hello
        self._whole = bool(_GREETING.unpack(greeting)[1])

    def prove(self, role: bytes, key: bytes = b"") -> bytes:
        return hmac.digest(key or self._key, role + self._said, "sha256")

    def keys(self, at_rank_0: bool) -> Keys:
        to, back = Key(self.prove(b"key to rank 0")), Key(self.prove(b"key from rank 0"))
        return Keys(back, to, self._whole) if at_rank_0 else Keys(to, back, self._whole)


class Guest:
    """A connection to rank 0 that has proved nothing yet."""

    came: float
    proven: bool
    rank: int
    run: bytes
    world_size: int

    def __init__(self, sock: socket.socket, key: Key, mark: bytes, whole: bool = True) -> None:
        self.sock = sock
        self.came = time.monotonic()
        self.rank = self.world_size = -1
        self.run = b""
        self._key, self._mark = key, mark
        self._bytes = b""
        self._greeting = _GREETING.pack(_MAGIC, whole, secrets.token_bytes(32))
        sock.send(self._greeting)  # an empty socket always accepts these few bytes

    def read(self) -> bool:
        """Read as far as there are bytes."""
        try:
            data = self.sock.recv(_HELLO.size - len(self._bytes))
        except (BlockingIOError, InterruptedError) as error:
            if not raised_by_a_socket(error):
                raise
            return False
        if not data:
            raise ConnectionResetError("end of file")
        self._bytes += data
        if not _MAGIC.startswith(self._bytes[: len(_MAGIC)]):
            raise ConnectionRefusedError("not a worker")
        if len(self._bytes) < _HELLO.size:
            return False
        _, self.rank, self.world_size, _, self.run, proof = _HELLO.unpack(self._bytes)
        self._talk = _Talk(self._key, self._greeting, self._bytes[:-_PROOF_BYTES])
        self.proven = hmac.compare_digest(proof, self._talk.prove(b"worker"))
        return True

    def answer(self, code: bytes, why: str = "") -> Stream:
        """Send a code, and the reason to a guest that has proved itself; return the stream of frames that follows."""
        text = why.encode(errors="replace")[:_TEXT_BYTES] if self.proven else b""
        proof = self._talk.prove(b"rank 0" + code + text, b"" if self.proven else self._mark)
        self.sock.send(_WELCOME.pack(code, len(text), proof) + text)
        return Stream(self.sock, self._talk.keys(at_rank_0=True))


class Unwelcome(Exception):
    """Rank 0 of this run, or of another, has proved itself, and rejects this worker."""


class Refused(Unwelcome):
    """Rank 0 of this run does not know this worker: their secrets differ."""


class Stranger(ConnectionRefusedError):
    """A listener refuses without proof that it is rank 0 of this run."""


class OtherRun(Unwelcome):
    """Rank 0 of another run has proved itself; the text names both runs."""


def greet(job: Job, key: Key, host: str, port: int, step: float, deadline: float) -> tuple[Stream, float]:
    """Connect and exchange greetings, within the deadline even if the other side sends slowly."""
    sock = socket.create_connection((host, port), max(1e-3, min(step, deadline - time.monotonic())))
    try:
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError("TCP connected the socket to itself")
        greeting = _received(sock, _GREETING.size, min(time.monotonic() + step, deadline), _MAGIC)
        hello = _HELLO.pack(_MAGIC, job.rank, job.world_size, secrets.token_bytes(32), job.name, bytes(_PROOF_BYTES))
        talk = _Talk(key, greeting, hello[:-_PROOF_BYTES])
        said = time.monotonic()
        sock.sendall(hello[:-_PROOF_BYTES] + talk.prove(b"worker"))
        code, size, proof = _WELCOME.unpack(_received(sock, _WELCOME.size, min(said + step, deadline)))
        if code == UNPROVEN:
            known = hmac.compare_digest(proof, talk.prove(b"rank 0" + code, job.mark))
            raise Refused if known else Stranger
        why = _received(sock, min(size, _TEXT_BYTES), min(said + step, deadline))
        if not hmac.compare_digest(proof, talk.prove(b"rank 0" + code + why)):
            raise ConnectionRefusedError("not rank 0 of this job")
        if code == OTHER_RUN:
            raise OtherRun(other_run_text(f"{host}:{port}", readable(why.decode(errors="replace")), job.title))
        if code != WELCOME:
            raise CommunicatorError(refusal_text(code, job.rank, job.world_size))
        return Stream(sock, talk.keys(at_rank_0=False)), time.monotonic() - said
    except BaseException:
        sock.close()
        raise


def refusal_text(code: bytes, rank: int, world_size: int) -> str:
    """The reason to reject a worker that has proved itself; the same on both sides."""
    if code == TAKEN:
        return (
            f"two processes say that they are {ranks_text([rank])}, in two runs with the same endpoints or in one "
            "run. Each worker needs its own PADDLE_TRAINER_ID, and each run needs its own endpoints or "
            "PADDLE_JOB_ID."
        )
    what = f"a worker says that it is {ranks_text([rank])} of {world_size}"
    return f"{what}, but {ranks_text([0])} has different values; PADDLE_TRAINERS_NUM must be the same on all workers."


def other_run_text(where: str, theirs: str, ours: str) -> str:
    """The error that names the other run which a worker, or rank 0, has met."""
    return (
        f"{ranks_text([0])} of another run ({theirs}) listens at {where}, but this worker belongs to {ours}. The "
        "variables that identify a run must be the same on all its workers, and concurrent runs must have different "
        "endpoints."
    )


def _received(sock: socket.socket, size: int, end: float, beginning: bytes = b"") -> bytes:
    """Receive this number of bytes; an error if they are late, or as soon as their beginning is wrong."""
    received = b""
    while len(received) < size:
        if time.monotonic() >= end:
            raise TimeoutError
        sock.settimeout(end - time.monotonic() + 1e-3)  # 0 would not wait at all
        data = sock.recv(size - len(received))
        received += data
        if not data or not beginning.startswith(received[: len(beginning)]):
            raise ConnectionRefusedError("not rank 0 of this job")
    return received
