"""How the workers find rank 0, and how both prove that they belong to the job.

Rank 0 listens on the first free candidate address, the others go through the candidates. Whoever accepts speaks first::

    rank 0   magic, which digests frames carry, a nonce
    worker   magic, rank, world size, a nonce, the name of its run, HMAC(key, "worker", all of it)
    rank 0   a code, HMAC(key, "rank 0", code, all of it), and why it refuses

To a worker that does not know the secret rank 0 proves only, under the mark of the run, that it belongs to that run: a
stranger that says no does not count. The key follows from the secret, which nobody sends. Who relays these messages
learns nothing: what follows are frames, sealed under two keys that follow from all that was said, the name of the run
and both nonces included. So a worker that somebody leads to rank 0 of another run is told so, and no frame of one run
is any of another.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import math
import os
import resource
import secrets
import socket
import struct
import time
from concurrent import futures
from typing import Any, Callable

from fleetmetrics.comm.deadline import begun
from fleetmetrics.comm.failures import ranks_text, readable
from fleetmetrics.comm.frames import Key, Keys, Poll, Stream, raised_by_a_socket
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.secret import secret_path
from fleetmetrics.errors import AuthenticationError, CommunicatorError, InvalidInputError, NoChannelError

__all__ = [
    "REFUSAL_SECONDS",
    "Door",
    "Guest",
    "NotFound",
    "Unwelcome",
    "addresses_of",
    "connect",
    "greet",
    "refusal_text",
    "whole_digests",
]

#: How long a worker and rank 0 go on failing to prove themselves to each other until that is an error.
REFUSAL_SECONDS = 3.0
#: So much longer a worker goes on, so that rank 0 sees it fail for as long as it must.
_LONGER_SECONDS = 0.3
#: A guest that has not proved itself by then is sent away; links of a second each way need seven.
_GUEST_SECONDS = 12.0
#: The first wait for each step of the greeting, doubled from round to round.
_STEP_SECONDS = (1.0, _GUEST_SECONDS)
_PAUSE_SECONDS = (0.005, 0.1)
#: How long rank 0 waits for who listens in its place to say who it is.
_NEIGHBOUR_SECONDS = 0.3
#: Guests beyond the workers; the oldest is sent away for another.
_GUESTS = 64
#: So many unproven greetings in the name of a rank, before that is taken for a worker with another secret.
_UNPROVEN = 5
#: How often rank 0 looks at its guests, and how long it does not accept any when it has no file descriptor.
_LOOK_SECONDS = 0.05

_MAGIC = b"fleetmetrics 3\r\n"
_GREETING = struct.Struct("!16sB32s")
_HELLO = struct.Struct("!16sII32s32s32s")
_WELCOME = struct.Struct("!cH32s")
#: Come in; who are you?; there is no such rank or world; this rank is taken; this is another run.
WELCOME, UNPROVEN, OTHER_WORLD, TAKEN, OTHER_RUN = b"w", b"s", b"n", b"t", b"r"
_PROOF_BYTES = 32
_TEXT_BYTES = 1000


def unproven_text(ranks: list[int]) -> str:
    """Say which ranks could not prove themselves."""
    return (
        f"{ranks_text(ranks)} could not prove to {ranks_text([0])} that {'they know' if len(ranks) > 1 else 'it knows'}"
        " the job's secret. Set FLEETMETRICS_SECRET to the same text on all workers; without it, workers of one user on"
        f" one machine share the file {secret_path('<uid>')}."
    )


def whole_digests() -> bool:
    """Whether digests cover payloads, too, as FLEETMETRICS_DIGESTS has it; raises `InvalidInputError`."""
    value = os.environ.get("FLEETMETRICS_DIGESTS", "").strip() or "all"
    if value not in ("all", "heads"):
        raise InvalidInputError(
            f"the environment variable FLEETMETRICS_DIGESTS holds {value!r}; allowed are 'all' and 'heads'."
        )
    return value == "all"


class _Talk:
    """What both sides have said so far, and what follows from it."""

    def __init__(self, key: Key, greeting: bytes, hello: bytes) -> None:
        self._key, self._said = key, greeting + hello
        self._whole = bool(_GREETING.unpack(greeting)[1])

    def prove(self, role: bytes, key: bytes = b"") -> bytes:
        return hmac.digest(key or self._key, role + self._said, "sha256")

    def keys(self, at_rank_0: bool) -> Keys:
        to, back = Key(self.prove(b"key to rank 0")), Key(self.prove(b"key from rank 0"))
        return Keys(back, to, self._whole) if at_rank_0 else Keys(to, back, self._whole)


class Guest:
    """Somebody who has connected to rank 0 and has proved nothing yet."""

    def __init__(self, sock: socket.socket, key: Key, mark: bytes, whole: bool = True) -> None:
        self.sock = sock
        self.came = time.monotonic()
        self.rank = self.world_size = -1
        self.run = b""
        self._key, self._mark = key, mark
        self._bytes = b""
        self._greeting = _GREETING.pack(_MAGIC, whole, secrets.token_bytes(32))
        sock.send(self._greeting)  # so few bytes always fit into an empty socket

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
        """Send a code, and to a guest that has proved itself why; return the stream of frames that follows."""
        text = why.encode(errors="replace")[:_TEXT_BYTES] if self.proven else b""
        proof = self._talk.prove(b"rank 0" + code + text, b"" if self.proven else self._mark)
        self.sock.send(_WELCOME.pack(code, len(text), proof) + text)
        return Stream(self.sock, self._talk.keys(at_rank_0=True))


#: Look-ups of names under way: one that outlasts its call is not begun again.
_lookups: dict[str, futures.Future[Any]] = {}


def addresses_of(host: str, end: float) -> list[str]:
    """The addresses of a host, which are looked up once; what the system's resolver waits for must not hold a call.

    Raises:
        NotFound: if there is no answer by the end.
        socket.gaierror: if there is no such name.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return [host]
    lookup = _lookups.get(host)
    if lookup is None or lookup.done():
        lookup = _lookups[host] = begun(lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    if not futures.wait([lookup], max(0.0, end - time.monotonic())).done:
        raise NotFound(f"The name {host!r} of its address is still being looked up; does the name server answer?")
    return list(dict.fromkeys(str(found[4][0]) for found in lookup.result()))


def listen(job: Job, key: Key | None = None, end: float = math.inf) -> socket.socket:
    """Listen on the first candidate address that is free.

    ``key``: proves to whoever listens on one that is taken that this is a rank 0, too; None: it is left alone.
    ``end``: `NotFound` is raised if names are not looked up by then.
    """
    check_descriptors(job.world_size)
    failures, candidates = [], job.candidates()
    # The trainer endpoint itself is in the environment: for a parameter-server job it is ours to use.
    ours = candidates[0][1] if not job.ranks and (job.endpoint or not job.collective) else 0
    for host, port in candidates:
        if port in job.reserved and port != ours:
            failures.append(f"{host}:{port} (promised to another by the environment)")
            continue
        try:
            return _listen_at(job, key, job.bind or host, port, end)
        except NotFound:
            raise
        except OSError as error:
            if error.errno is None and not raised_by_a_socket(error):
                raise
            if job.bind and isinstance(error, socket.gaierror):
                raise InvalidInputError(
                    f"the environment variable FLEETMETRICS_BIND holds {job.bind!r}; it must be an address of"
                    f" {ranks_text([0])}'s machine, without a port, such as 10.0.0.1 or 0.0.0.0 ({error.strerror})."
                ) from None
            failures.append(f"{job.bind or host}:{port} ({error.strerror})")
            if error.errno == errno.EADDRNOTAVAIL and not job.bind:
                failures[-1] += ": if the others reach this machine by that name all the same, set FLEETMETRICS_BIND"
    raise NoChannelError(
        f"{ranks_text([0])} cannot listen for the other {job.world_size - 1} workers: {', '.join(failures)}. Set"
        " FLEETMETRICS_ENDPOINT=host:port on all workers to an address of its machine that is free."
    )


def _listen_at(job: Job, key: Key | None, host: str, port: int, end: float) -> socket.socket:
    """Listen at one address; the error of one that is taken says which run has it."""
    address = addresses_of(host, end)[0]
    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    try:
        return _listening(found[0], found[4], max(128, job.world_size))
    except OSError as error:
        if key is None or error.errno != errno.EADDRINUSE:
            raise
        other = _who_listens(job, key, host, port)
        if other:
            raise OSError(error.errno, f"{error.strerror}{other}") from None
    return _listening(found[0], found[4], max(128, job.world_size))  # the other one may have ended just now


def _who_listens(job: Job, key: Key, host: str, port: int) -> str:
    """Greet who listens in rank 0's place. Another rank 0 of this run is an error on both sides."""
    try:
        # without another place to listen at it takes its time
        seconds = REFUSAL_SECONDS if job.endpoint and not job.ranks else _NEIGHBOUR_SECONDS
        stream, _ = greet(job, key, host, port, seconds, time.monotonic() + seconds)
        stream.close()  # who welcomes a rank 0 does not know what it does
    except OtherRun as other:
        return f": {other}"
    except _Refused:
        pass  # it has another secret
    except OSError as error:  # a stranger, or it is busy
        if not raised_by_a_socket(error):
            raise
    return ""


def _listening(family: int, address: Any, backlog: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)  # OSError, too, on a machine without IPv6
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(backlog)
        sock.setblocking(False)
        return sock
    except BaseException:
        sock.close()
        raise


def check_descriptors(world_size: int) -> None:
    """Raise the soft limit of open files where that is enough; else say at once what is missing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        opened = len(os.listdir("/proc/self/fd"))
    except OSError as error:  # not on Linux, or none is left to look with
        if not raised_by_a_socket(error):
            raise
        opened = soft if os.path.isdir("/proc/self/fd") else 64
    needed = opened + world_size + 8
    if needed > soft:
        if hard != resource.RLIM_INFINITY and needed > hard:
            raise NoChannelError(
                f"{ranks_text([0])} needs {needed} file descriptors for {world_size} workers ({opened} are open), and"
                f" may have {hard}; raise the limit: ulimit -Hn {needed}."
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class Door:
    """Rank 0's listening socket, and those who have come to it and have proved nothing yet."""

    def __init__(self, job: Job, key: Key, poll: Poll) -> None:
        self._job, self._key, self._poll = job, key, poll
        self._whole = whole_digests()
        self._listener: socket.socket | None = None
        self.guests: dict[int, Guest] = {}  # by descriptor
        #: Until when rank 0 accepts nobody, for it has no file descriptor; 0 if it has.
        self.deaf_until = 0.0
        #: By the rank that somebody said to be: when that was first and last, and how often.
        self.unproven: dict[int, tuple[float, float, int]] = {}

    def open(self, end: float) -> None:
        """Listen, if it does not yet; see `listen`."""
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
        """Send away who has stayed too long; return until when rank 0 may sleep at most."""
        now = time.monotonic()
        # they are in the order of coming
        while self.guests and next(iter(self.guests.values())).came < now - _GUEST_SECONDS:
            self.drop(next(iter(self.guests.values())))
        if self.deaf_until and now >= self.deaf_until and self._listener is not None:
            self.deaf_until = 0.0
            self._poll.register(self._listener)
        return min(end, now + _LOOK_SECONDS)

    def has_new_guests(self) -> bool:
        """Whether somebody has knocked a moment ago."""
        return bool(self.guests) and next(reversed(self.guests.values())).came > time.monotonic() - _LOOK_SECONDS

    def handle(self, descriptor: int) -> Guest | None:
        """Do what an event asks for; return a guest that has proved itself."""
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
        """Tell a guest that has proved itself why it cannot come in."""
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
        """Raise if all whom rank 0 waits for have failed to prove themselves, again and again.

        A worker that has had enough raises, and tries no more: what was seen of it counts until the others are here.
        Each error of rank 0 takes as much of it as one call of a worker leaves, so that their later calls match.
        """
        seen = {rank: self.unproven[rank] for rank in missing if rank in self.unproven}
        if len(seen) < len(missing):
            return
        if any(number < _UNPROVEN or last - first < REFUSAL_SECONDS for first, last, number in seen.values()):
            return
        for rank, (first, last, number) in seen.items():
            self.unproven[rank] = first + REFUSAL_SECONDS, last, number - _UNPROVEN
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


class NotFound(TimeoutError):
    """Rank 0 was not found in time."""


class Unwelcome(Exception):
    """Rank 0 of this run, or of another, has proved itself, and does not let this worker in."""


class _Refused(Unwelcome):
    """Rank 0 of this run does not know this worker: their secrets differ."""


class _Stranger(ConnectionRefusedError):
    """Somebody who says no, and does not show that it is rank 0 of this run."""


class OtherRun(Unwelcome):
    """Rank 0 of another run has proved itself; the text names both runs."""


def connect(job: Job, key: Key, deadline: float, noted: Callable[[], str] = str) -> tuple[Stream, float]:
    """Look for rank 0 until it has proved itself or the deadline has passed; a TimeoutError says who was there.

    ``noted``: says why to give up at once, or "".
    """
    pause, step = _PAUSE_SECONDS[0], _STEP_SECONDS[0]
    refusals, refused_since = 0, 0.0
    why, other_since = "", 0.0
    places: list[tuple[str, int]] = []
    while True:
        silent = False
        if not places:
            places, why = _places(job, deadline)
        addresses = len({host for host, _ in places})
        for host, port in places:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            try:  # each address has its share of the time that is left
                return greet(job, key, host, port, min(step, remaining / addresses), deadline)
            except _Refused:
                refusals, refused_since = refusals + 1, refused_since or time.monotonic()
            except OtherRun as found:
                why, other_since = str(found), other_since or time.monotonic()
                if len(places) == 1 and time.monotonic() - other_since > REFUSAL_SECONDS:
                    raise CommunicatorError(why) from None
            except _Stranger:
                why = why or (
                    f"At {host}:{port} listens somebody who does not know this worker: a stranger, or"
                    f" {ranks_text([0])} of another job."
                )
            except OSError as error:
                if not raised_by_a_socket(error):
                    raise
                silent |= isinstance(error, (TimeoutError, socket.timeout))
        if time.monotonic() >= deadline:
            raise NotFound(why)
        if silent:  # a busy rank 0, a long way, or a listener that says nothing
            step = min(2 * step, _STEP_SECONDS[1])
        if told := noted():
            raise CommunicatorError(told)
        # rank 0 may have had enough a moment before, and ended
        if refusals >= _UNPROVEN and time.monotonic() - refused_since > REFUSAL_SECONDS + _LONGER_SECONDS:
            raise AuthenticationError(unproven_text([job.rank]))
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(2 * pause, _PAUSE_SECONDS[1])


def _places(job: Job, deadline: float) -> tuple[list[tuple[str, int]], str]:
    """Where rank 0 may be, by number; or none yet, and why."""
    addresses: dict[str, list[str]] = {}
    try:
        for host, _ in job.candidates():
            addresses[host] = addresses.get(host) or addresses_of(host, deadline)
    except socket.gaierror as error:  # a name that comes with rank 0's machine may be there in a moment
        return [], f"The name {host!r} of its address is not known ({error.strerror})."
    return [(address, port) for host, port in job.candidates() for address in addresses[host]], ""


def greet(job: Job, key: Key, host: str, port: int, step: float, deadline: float) -> tuple[Stream, float]:
    """Connect and greet, in three steps; all are over at the deadline, however slowly the other side drips."""
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
            raise _Refused if known else _Stranger
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
    """Say why a worker that has proved itself cannot come in; the same on both sides."""
    if code == TAKEN:
        return (
            f"two processes say that they are {ranks_text([rank])}: of two runs with the same endpoints, or of one."
            " Each worker needs a PADDLE_TRAINER_ID of its own, and each run endpoints or a PADDLE_JOB_ID of its own."
        )
    what = f"a worker says that it is {ranks_text([rank])} of {world_size}"
    return f"{what}, and {ranks_text([0])} was told otherwise; PADDLE_TRAINERS_NUM must be the same on all workers."


def other_run_text(where: str, theirs: str, ours: str) -> str:
    """Say whom a worker, or rank 0, has met in place of its own run."""
    return (
        f"at {where} listens {ranks_text([0])} of another run ({theirs}), and this worker belongs to {ours}. What names"
        " a run must be the same on all its workers, and the endpoints of runs that go on at the same time must differ."
    )


def _received(sock: socket.socket, size: int, end: float, beginning: bytes = b"") -> bytes:
    """So many bytes; an error as soon as they do not begin as they should, or are not here in time."""
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
