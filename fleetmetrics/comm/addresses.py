"""Addresses: where rank 0 listens, and the numbers behind names. These may block: only the channel's thread calls."""

from __future__ import annotations

import encodings.idna  # noqa: F401  # here: a child forked while a thread imports it would never end its wait
import errno
import os
import resource
import secrets
import socket

from fleetmetrics.comm.failures import ranks_text
from fleetmetrics.comm.handshake import NONE, OtherRun, Refused, Unproven, greet, other_run_text
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import Key
from fleetmetrics.errors import CommunicatorError, InvalidInputError, NoChannelError

__all__ = ["addresses_of", "check_descriptors", "listen"]

#: Seconds that rank 0 waits for an answer of a process that listens at its address.
_NEIGHBOUR_SECONDS = 1.0


def addresses_of(host: str) -> list[str]:
    """The addresses of a host; socket.gaierror: the name does not exist."""
    try:
        places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError:  # such as a label of more than 63 letters
        raise socket.gaierror(socket.EAI_NONAME, "it cannot be a host's name") from None
    return list(dict.fromkeys(str(place[4][0]) for place in places))


def listen(job: Job, key: Key, calls: bool = True) -> socket.socket:
    """Listen on the first candidate address that is free.

    Args:
        job: the place of this process, rank 0.
        key: proves to the listener at a taken port that this is a rank 0, too.
        calls: whether this process has called.

    Raises:
        NoChannelError: no candidate is free, or the machine does not know the name of its address.
        InvalidInputError: FLEETMETRICS_BIND is no address of this machine.
        CommunicatorError: another process is rank 0 of this run.
    """
    check_descriptors(job.world_size)
    failures, candidates = [], job.candidates()
    # The trainer endpoint itself is in the environment: for a parameter-server job it is ours to use.
    ours = candidates[0][1] if job.endpoint or not job.collective else 0
    for host, port in candidates:
        if port in job.reserved and port != ours:
            failures.append(f"{host}:{port} (the environment assigns it to a different process)")
            continue
        try:
            return _listen_at(job, key, calls, job.bind or host, port)
        except socket.gaierror as error:
            raise _unknown_place(job, host, error) from None
        except OSError as error:
            failures.append(f"{job.bind or host}:{port} ({error.strerror})")
            if error.errno == errno.EADDRNOTAVAIL and not job.bind:
                failures[-1] += ": if the others reach this machine by that name all the same, set FLEETMETRICS_BIND"
    raise NoChannelError(
        f"{ranks_text([0])} cannot listen for the other {job.world_size - 1} workers: {', '.join(failures)}. Set "
        "FLEETMETRICS_ENDPOINT=host:port on all workers to a free address of its machine"
    )


def _unknown_place(job: Job, host: str, error: socket.gaierror) -> InvalidInputError | NoChannelError:
    """The error of rank 0 if its own name is not known."""
    if job.bind:
        return InvalidInputError(
            f"the environment variable FLEETMETRICS_BIND holds {job.bind!r}; it must be an address of"
            f" {ranks_text([0])}'s machine, without a port, such as 10.0.0.1 or 0.0.0.0 ({error.strerror})"
        )
    return NoChannelError(
        f"{ranks_text([0])} cannot listen for the other {job.world_size - 1} workers: the name {host!r} of its address"
        f" is not known on this machine ({error.strerror}). If the others reach this machine by that name, set"
        " FLEETMETRICS_BIND to an address of it, or to 0.0.0.0; otherwise set FLEETMETRICS_ENDPOINT=host:port on all"
        " workers to an address of this machine that is free"
    )


def _listen_at(job: Job, key: Key, calls: bool, host: str, port: int) -> socket.socket:
    """Listen at one address; if it is taken, the error names the run that uses it."""
    address = addresses_of(host)[0]
    if not job.bind and _is_loopback(address) and not job.on_one_machine:
        raise NoChannelError(
            f"{ranks_text([0])} would listen on {address}, which the other machines cannot reach: this machine's hosts "
            f"file gives the name {host!r} that address. Set FLEETMETRICS_BIND to an address that the others reach, or "
            "to 0.0.0.0"
        )
    family, *_, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    try:
        return _listening(family, place, max(128, job.world_size))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        other = _who_listens(job, key, calls, host, port)
        if other:
            raise OSError(error.errno, f"{error.strerror}: {other}") from None
    return _listening(family, place, max(128, job.world_size))  # the other one may have ended just now


def _who_listens(job: Job, key: Key, calls: bool, host: str, port: int) -> str:
    """Greet the process that listens at rank 0's address; raises if it is another rank 0 of this run."""
    try:
        greet(job, key, secrets.token_bytes(16), NONE, calls, (host, port), _NEIGHBOUR_SECONDS).connection.close()
    except Refused as error:
        raise CommunicatorError(str(error)) from None
    except OtherRun as error:
        return other_run_text(f"{host}:{port}", str(error), job.title)
    except Unproven:
        return "a rank 0 of this run with another secret listens there"
    except OSError:  # an unrelated process
        pass
    return ""


def _listening(family: int, address: object, backlog: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)  # OSError, too, on a machine without IPv6
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)  # type: ignore[arg-type]
        sock.listen(backlog)
        sock.setblocking(False)
        return sock
    except BaseException:
        sock.close()
        raise


def _is_loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")


def check_descriptors(world_size: int) -> None:
    """Raise the soft limit of open files if that is enough; otherwise raise an error with the missing number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        opened = len(os.listdir("/proc/self/fd"))
    except OSError:  # not on Linux, or none is left to look with
        opened = soft if os.path.isdir("/proc/self/fd") else 64
    needed = opened + world_size + 8
    if needed > soft:
        if hard != resource.RLIM_INFINITY and needed > hard:
            raise NoChannelError(
                f"{ranks_text([0])} needs {needed} file descriptors for {world_size} workers ({opened} are open), but "
                f"may have only {hard}; raise the limit: ulimit -Hn {needed}"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
