"""How rank 0 and the others meet: where rank 0 listens, and how a worker looks for it.

Rank 0 listens on the first free candidate address of the job. The others try the candidates until a listener has proved
that it is rank 0 of this run.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import resource
import socket
import time
from concurrent import futures
from typing import Any, Callable

from fleetmetrics.comm.deadline import begun
from fleetmetrics.comm.failures import ranks_text
from fleetmetrics.comm.frames import Key, Stream, raised_by_a_socket
from fleetmetrics.comm.handshake import (
    ENOUGH_REFUSALS,
    GUEST_SECONDS,
    REFUSAL_SECONDS,
    OtherRun,
    Refused,
    Stranger,
    greet,
    unproven_text,
)
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AuthenticationError, CommunicatorError, InvalidInputError, NoChannelError

__all__ = ["NotFound", "addresses_of", "check_descriptors", "connect", "listen"]

#: A refused worker continues for this much longer, so that rank 0 sees it fail for long enough.
_LONGER_SECONDS = 0.3
#: The first wait for each step of the greeting, doubled from round to round.
_STEP_SECONDS = (1.0, GUEST_SECONDS)
_PAUSE_SECONDS = (0.005, 0.1)
#: Seconds that rank 0 waits for an answer of a process that listens at its address.
_NEIGHBOUR_SECONDS = 0.3


#: When a listener of this machine did not answer. It may be a busy rank 0, which is asked again after a while.
_silent: dict[tuple[str, int], float] = {}
_SILENT_SECONDS = 60.0


class NotFound(TimeoutError):
    """Rank 0 was not found in time."""


#: Running look-ups of names: a look-up that outlasts its call is not started again.
_lookups: dict[str, futures.Future[Any]] = {}
#: By name, the error of the last finished look-up that did not find it.
_unknown: dict[str, str] = {}


def addresses_of(host: str, end: float) -> list[str]:
    """The addresses of a host, looked up once; a slow resolver must not delay a call beyond its deadline.

    Raises:
        NotFound: if there is no answer by the end. socket.gaierror: the name does not exist.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return [host]
    lookup = _lookups.get(host)
    if lookup is None or lookup.done():
        lookup = _lookups[host] = begun(lambda: _looked_up(host))
    if not futures.wait([lookup], None if end == math.inf else max(0.0, end - time.monotonic())).done:
        slow = f"The name {host!r} of its address is still being looked up; does the name server answer?"
        raise NotFound(_unknown.get(host, slow))
    return list(dict.fromkeys(str(found[4][0]) for found in lookup.result()))


def _looked_up(host: str) -> Any:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        _unknown[host] = _unknown_text(host, error)
        raise
    _unknown.pop(host, None)
    return found


def _unknown_text(host: str, error: socket.gaierror) -> str:
    return f"The name {host!r} of its address is not known ({error.strerror})."


def listen(job: Job, key: Key | None = None, end: float = math.inf) -> socket.socket:
    """Listen on the first candidate address that is free.

    ``key``: proves to the listener at a taken port that this is a rank 0, too; None: do not contact it.
    ``end``: when to raise `NotFound` if names are not looked up by then.
    """
    check_descriptors(job.world_size)
    failures, candidates = [], job.candidates()
    # The trainer endpoint itself is in the environment: for a parameter-server job it is ours to use.
    ours = candidates[0][1] if not job.ranks and (job.endpoint or not job.collective) else 0
    for host, port in candidates:
        if port in job.reserved and port != ours:
            failures.append(f"{host}:{port} (the environment assigns it to a different process)")
            continue
        try:
            return _listen_at(job, key, job.bind or host, port, end)
        except NotFound:
            raise
        except OSError as error:
            if error.errno is None and not raised_by_a_socket(error):
                raise
            if isinstance(error, socket.gaierror):
                raise _unknown_place(job, host, error) from None
            failures.append(f"{job.bind or host}:{port} ({error.strerror})")
            if error.errno == errno.EADDRNOTAVAIL and not job.bind:
                failures[-1] += ": if the others reach this machine by that name all the same, set FLEETMETRICS_BIND"
    raise NoChannelError(
        f"{ranks_text([0])} cannot listen for the other {job.world_size - 1} workers: {', '.join(failures)}. Set "
        "FLEETMETRICS_ENDPOINT=host:port on all workers to a free address of its machine."
    )


def _unknown_place(job: Job, host: str, error: socket.gaierror) -> InvalidInputError | NoChannelError:
    """The error of rank 0 if its own name is not known."""
    if job.bind:
        return InvalidInputError(
            f"the environment variable FLEETMETRICS_BIND holds {job.bind!r}; it must be an address of"
            f" {ranks_text([0])}'s machine, without a port, such as 10.0.0.1 or 0.0.0.0 ({error.strerror})."
        )
    return NoChannelError(
        f"{ranks_text([0])} cannot listen for the other {job.world_size - 1} workers: the name {host!r} of its address"
        f" is not known on this machine ({error.strerror}). If the others reach this machine by that name, set"
        " FLEETMETRICS_BIND to an address of it, or to 0.0.0.0; otherwise set FLEETMETRICS_ENDPOINT=host:port on all"
        " workers to an address of this machine that is free."
    )


def _listen_at(job: Job, key: Key | None, host: str, port: int, end: float) -> socket.socket:
    """Listen at one address; if it is taken, the error names the run that uses it."""
    address = addresses_of(host, end)[0]
    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    asked = _silent.pop((host, port), -math.inf)
    try:
        return _listening(found[0], found[4], max(128, job.world_size))
    except OSError as error:
        if key is None or error.errno != errno.EADDRINUSE:
            raise
        if time.monotonic() < asked + _SILENT_SECONDS:
            _silent[host, port] = asked
            raise
        other = _who_listens(job, key, host, port, end)
        if other:
            raise OSError(error.errno, f"{error.strerror}{other}") from None
    return _listening(found[0], found[4], max(128, job.world_size))  # the other one may have ended just now


def _who_listens(job: Job, key: Key, host: str, port: int, end: float) -> str:
    """Greet the process that listens at rank 0's address. A second rank 0 of this run is an error on both sides."""
    try:
        # without an alternative address, wait longer
        seconds = REFUSAL_SECONDS if job.endpoint and not job.ranks else _NEIGHBOUR_SECONDS
        stream, _ = greet(job, key, host, port, seconds, min(time.monotonic() + seconds, end))
        stream.close()  # no process of ours welcomes a rank 0
    except OtherRun as other:
        return f": {other}"
    except Refused:
        pass  # it has another secret
    except OSError as error:  # an unrelated process, or a busy rank 0
        if not raised_by_a_socket(error):
            raise
        if isinstance(error, (TimeoutError, socket.timeout)) and time.monotonic() < end:
            _silent[host, port] = time.monotonic()
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
    """Raise the soft limit of open files if that is enough; otherwise raise an error with the missing number."""
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
                f"{ranks_text([0])} needs {needed} file descriptors for {world_size} workers ({opened} are open), but "
                f"may have only {hard}; raise the limit: ulimit -Hn {needed}."
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def connect(job: Job, key: Key, deadline: float, noted: Callable[[], str] = str) -> tuple[Stream, float]:
    """Look for rank 0 until it has proved itself or the deadline has passed; a TimeoutError names the listeners.

    ``noted``: returns the reason to give up at once, or "".
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
            try:  # each address gets its share of the remaining time
                return greet(job, key, host, port, min(step, remaining / addresses), deadline)
            except Refused:
                refusals, refused_since = refusals + 1, refused_since or time.monotonic()
            except OtherRun as found:
                why, other_since = str(found), other_since or time.monotonic()
                if len(places) == 1 and time.monotonic() - other_since > REFUSAL_SECONDS:
                    raise CommunicatorError(why) from None
            except Stranger:
                why = why or (
                    f"The process that listens at {host}:{port} does not know this worker: it is unrelated, or "
                    f"{ranks_text([0])} of another job."
                )
            except OSError as error:
                if not raised_by_a_socket(error):
                    raise
                silent |= isinstance(error, (TimeoutError, socket.timeout))
        if time.monotonic() >= deadline:
            raise NotFound(why)
        if silent:  # a busy rank 0, a slow network, or a silent listener
            step = min(2 * step, _STEP_SECONDS[1])
        if told := noted():
            raise CommunicatorError(told)
        # rank 0 may have given up a moment before, and ended
        if refusals >= ENOUGH_REFUSALS and time.monotonic() - refused_since > REFUSAL_SECONDS + _LONGER_SECONDS:
            raise AuthenticationError(unproven_text([job.rank]))
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(2 * pause, _PAUSE_SECONDS[1])


def _places(job: Job, deadline: float) -> tuple[list[tuple[str, int]], str]:
    """The possible addresses of rank 0, as numbers; or an empty list, and the reason."""
    addresses: dict[str, list[str]] = {}
    try:
        for host, _ in job.candidates():
            addresses[host] = addresses.get(host) or addresses_of(host, deadline)
    except socket.gaierror as error:  # the name may appear together with rank 0's machine
        return [], _unknown_text(host, error)
    return [(address, port) for host, port in job.candidates() for address in addresses[host]], ""
