"""Which worker a process claims to be, by its environment, and what others of this machine can see of that.

It is imported with the package, and leaves two marks in a worker: a variable of the environment, which the processes
that it starts inherit, and a file of the package that is mapped into its memory, which Linux shows to other processes
of this user for as long as it lives.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
from typing import Mapping, NamedTuple

from fleetmetrics.launcher import LAUNCHERS

__all__ = [
    "MARK",
    "SETTING",
    "Claim",
    "claim_of",
    "has_joined",
    "is_here",
    "join",
    "launch_of",
    "stake",
    "status",
    "withdraw",
]

#: The mark: which worker's environment this is. And the setting: "this" says that this process is the worker.
MARK, SETTING = "_FLEETMETRICS_WORKER", "FLEETMETRICS_WORKER"
#: Who a worker is, by its launcher; and which workers it belongs to.
RANKS = tuple(dict.fromkeys(name for row in LAUNCHERS for name in row.rank))
RUNS = tuple(dict.fromkeys(["FLEETMETRICS_ENDPOINT", "PADDLE_MASTER", *(name for row in LAUNCHERS for name in row.of)]))
#: What a worker maps until its first exchange is over, and from then on.
_WAITING, _JOINED = os.path.join(os.path.dirname(__file__), "__init__.pyi"), __file__
_map: mmap.mmap | None = None


class Claim(NamedTuple):
    """What the environment of a process says of it, as it is written."""

    rank: tuple[str, ...]
    run: tuple[str, ...]

    @property
    def named(self) -> tuple[str, ...]:
        """The variables that name its rank."""
        return tuple(name for name, text in zip(RANKS, self.rank) if text)

    @property
    def digest(self) -> str:
        """What the marks say of it."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def claim_of(environment: Mapping[str, str]) -> Claim | None:
    """Return which worker a process claims to be; None if it names no rank."""
    rank = tuple(environment.get(name, "") for name in RANKS)
    if not any(rank):
        return None
    return Claim(rank, (*(environment.get(name, "") for name in RUNS), launch_of(environment)))


def launch_of(environment: Mapping[str, str]) -> str:
    """Return what Paddle's launcher calls its run, where one launcher has started all workers; else "".

    Each launcher draws a name for itself, and makes a folder. Of launchers on several machines, or of several that
    play this on one, each has its own, and so the workers of one run have different ones.
    """
    hosts = {part.rpartition(":")[0] for part in environment.get("PADDLE_TRAINER_ENDPOINTS", "").split(",")}
    if len(hosts) != 1 or environment.get("PADDLE_NNODES", "1").partition(":")[0] != "1":
        return ""
    names = []
    size = environment.get("PADDLE_TRAINERS_NUM")
    if environment.get("PADDLE_LOCAL_SIZE") == size or hosts <= {"127.0.0.1", "localhost", "[::1]"}:
        names.append("POD_NAME")
    if environment.get("PADDLE_GLOO_RENDEZVOUS") == "3":
        names.append("PADDLE_GLOO_FS_PATH")
    return "|".join(f"{name}={environment[name]}" for name in names if environment.get(name))


def stake() -> None:
    """Leave the marks of a worker, if this process claims to be one, and no other has left them for this claim."""
    claim = claim_of(os.environ)
    if claim is None or os.environ.get(MARK, "").startswith(claim.digest):
        return
    with contextlib.suppress(OSError, IndexError):  # there is no /proc
        os.environ[MARK] = f"{claim.digest} {os.getpid()} {status('self')[19]}"
        _show(_WAITING)


def join() -> None:
    """Show that this worker has met the others of its run."""
    if _map is not None:
        _show(_JOINED)


def withdraw() -> None:
    """Take the marks away again, in a process that starts workers and is not one itself."""
    global _map
    os.environ.pop(MARK, None)
    _map = None


def is_here(maps: bytes) -> bool:
    """Whether a process with these maps has imported this package as a worker, and has yet to join its run."""
    return b"/fleetmetrics/__init__.pyi" in maps


def has_joined(maps: bytes) -> bool:
    """Whether a process with these maps is a worker that has joined its run."""
    return b"/fleetmetrics/identity.py" in maps


def status(process: int | str) -> list[str]:
    """The fields of Linux's table of processes, behind the name: 1 is the parent, 6 flags, 19 the start in ticks."""
    with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def _show(path: str) -> None:
    global _map
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:  # such as of a package in an archive
        _map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
