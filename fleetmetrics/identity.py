"""The worker that a process claims to be, by its environment, and marks of it that the machine's others can see.

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

from fleetmetrics.launcher import LAUNCHERS, PADDLE, other_role

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

#: The mark: the worker that owns this environment. And the setting: "this" declares this process the worker.
MARK, SETTING = "_FLEETMETRICS_WORKER", "FLEETMETRICS_WORKER"
#: Where Paddle's own variables have rank 0; and where others may have it.
_WHERE, _MASTER = frozenset({"PADDLE_TRAINER_ENDPOINTS", "PADDLE_MASTER"}), "MASTER_ADDR"
_NAMES = {"FLEETMETRICS_ENDPOINT", _MASTER, *_WHERE}.union(*(row.variables for row in LAUNCHERS))
#: The files that a worker maps until its first exchange is over, and afterwards.
_WAITING, _JOINED = os.path.join(os.path.dirname(__file__), "__init__.pyi"), __file__
_map: mmap.mmap | None = None


class Claim(NamedTuple):
    """The claim in a process's environment: equal for equal ranks of one run, however they are written."""

    rank: str
    named: tuple[str, ...]  # the variables of the launcher that counts which may name its rank
    run: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The digest in its marks."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def claim_of(environment: Mapping[str, str]) -> Claim | None:
    """Return which worker a process claims to be; None if it names no rank.

    Only the variables that place a worker count, as in `comm.launchers`: a helper that is given others for a purpose
    of its own, such as torch's for one process, still claims to be the worker that has started it. A parameter server,
    a coordinator and a heterogeneous trainer have the workers' variables, and are not workers.
    """
    if other_role(environment):
        return None
    said = {name: text for name in _NAMES if (text := environment.get(name, "").strip())}
    rows = [row for row in LAUNCHERS if row.started(said)]
    sizes = {row.name: _number(_first(row.size, said)) for row in rows}
    row = next((row for row in rows if sizes[row.name]), None) or next(
        (row for row in rows if _first(row.rank, said)), None
    )
    if row is None:
        return None
    rank = _first(row.rank, said)
    if not rank and not (row is PADDLE and sizes[row.name] != "1"):  # Paddle's first worker may go without
        return None
    same = [row, *(each for each in rows if each is not row and sizes[each.name] == sizes[row.name])]
    where = ["FLEETMETRICS_ENDPOINT", "PADDLE_MASTER", *(name for each in same for name in each.run)]
    if not (row is PADDLE and _WHERE.intersection(said)):
        where += [_MASTER, *(name for each in same for name in each.nodes)]
    endpoints = ",".join(said.get("PADDLE_TRAINER_ENDPOINTS", "").replace(",", " ").replace(";", " ").split())
    run = (
        sizes[row.name],
        endpoints,
        *(f"{name}={said[name]}" for name in where if name in said),
        launch_of(environment),
    )
    return Claim(_number(rank) or "0", row.rank, run)


def _first(names: tuple[str, ...], said: Mapping[str, str]) -> str:
    return next((said[name] for name in names if name in said), "")


def _number(text: str) -> str:
    """A number as it is written without zeros in front."""
    return text.lstrip("0") or text[:1]


def launch_of(environment: Mapping[str, str]) -> str:
    """Return the name of a run by Paddle's launcher, if one launcher started all workers; else "".

    Each launcher draws a name and makes a folder. Several launchers, on several machines or on one,
    draw different names, so the workers of one run then have different ones.
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
    """Leave a worker's marks, if this process claims to be one, and no other has left them for this claim."""
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
    """Remove the marks, in a process that starts workers but is not one."""
    global _map
    os.environ.pop(MARK, None)
    _map = None


def is_here(maps: bytes) -> bool:
    """Whether a process with these maps has imported this package as a worker, and has not joined its run."""
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
