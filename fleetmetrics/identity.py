"""The worker that a process claims to be, and two marks that show it to the other processes of this machine.

A variable of the environment is for the processes that a worker starts: they inherit it. A badge is for all processes
of this user: an empty file in memory, named after the claim. Linux shows the environment with which a process was
started, but not later changes by the program, so only the badge shows a place that the program sets.

The package imports this module if the environment places this process.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import stat
from typing import Any, Mapping, NamedTuple

from fleetmetrics.launcher import LAUNCHERS, PADDLE, launch_of, other_role

__all__ = [
    "GIVEN",
    "JOINED",
    "MARK",
    "SETTING",
    "STARTING",
    "WAITING",
    "Badge",
    "Claim",
    "Unreadable",
    "badges",
    "claim_of",
    "folder",
    "has_joined",
    "hide",
    "is_alive",
    "notice",
    "show",
    "shows",
    "stake",
    "status",
    "withdraw",
]

#: The mark: the worker that owns this environment. And the setting: "this" declares this process the worker.
MARK, SETTING = "_FLEETMETRICS_WORKER", "FLEETMETRICS_WORKER"
#: Paddle's own variables for the address of rank 0, and other possible ones.
_WHERE, _MASTER = frozenset({"PADDLE_TRAINER_ENDPOINTS", "PADDLE_MASTER"}), "MASTER_ADDR"
_NAMES = {"FLEETMETRICS_ENDPOINT", "FLEETMETRICS_RUN", _MASTER, *_WHERE}.union(*(row.variables for row in LAUNCHERS))
#: The ones that a worker needs, in Python's storage.
_PLACING = frozenset(os.environ.encodekey(name) for row in LAUNCHERS for name in row.rank + row.size)
#: Where the badges are: in memory, else among the temporary files. Every process of this machine finds the same place.
_FOLDERS = ("/dev/shm", "/tmp")
#: The first word of a run whose workers get their places as arguments.
GIVEN = "given"
#: The states of a badge: the worker has not met the others of its run, or has met them; or this process starts several
#: workers of the run, without being one.
WAITING, JOINED, STARTING = "waiting", "joined", "starting"
#: The number of other runs' badges that a look at one run checks, to remove those of ended processes.
_TIDIED = 16


class Unreadable:
    """Ignores failures to read or write: other processes may end or belong to another user, or /proc may be missing.

    A signal handler's error passes, such as the TimeoutError of an alarm.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        of_a_handler = isinstance(error, (TimeoutError, InterruptedError, ConnectionError))
        return isinstance(error, (OSError, IndexError, ValueError)) and not of_a_handler


class Claim(NamedTuple):
    """The worker and run that a process claims to be; equal for equal ranks of one run in any notation."""

    rank: str
    run: tuple[str, ...]

    @property
    def given(self) -> bool:
        """Whether the program gave the place to a communicator; the environment does not count."""
        return self.run[0] == GIVEN

    @property
    def digest(self) -> str:
        """The digest in the mark."""
        return _digest(self)

    @property
    def run_digest(self) -> str:
        """The digest of the run, in badges."""
        return _digest(self.run)


class Badge(NamedTuple):
    """The file that a process shows to other processes of its user."""

    run: str  # its digest
    rank: str
    process: int
    start: str  # of the process, in ticks: a process that was forked from it is another one
    state: str


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def claim_of(environment: Mapping[str, str]) -> Claim | None:
    """Return which worker a process claims to be; None if it names no rank.

    Only the variables that place a worker count, as in `comm.launchers`: a helper that gets other variables for its own
    purpose, such as torch's for one process, still claims to be the worker that has started it. A parameter server,
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
    if not rank and not (row is PADDLE and sizes[row.name] != "1"):  # Paddle's first worker may lack it
        return None
    same = [row, *(each for each in rows if each is not row and sizes[each.name] == sizes[row.name])]
    where = [
        "FLEETMETRICS_ENDPOINT",
        "FLEETMETRICS_RUN",
        "PADDLE_MASTER",
        *(name for each in same for name in each.run),
    ]
    if not (row is PADDLE and _WHERE.intersection(said)):
        where += [_MASTER, *(name for each in same for name in each.nodes)]
    endpoints = ",".join(said.get("PADDLE_TRAINER_ENDPOINTS", "").replace(",", " ").replace(";", " ").split())
    run = (
        row.name,
        sizes[row.name],
        endpoints,
        *(f"{name}={said[name]}" for name in where if name in said),
        launch_of(environment),
    )
    return Claim(_number(rank) or "0", run)


def _first(names: tuple[str, ...], said: Mapping[str, str]) -> str:
    return next((said[name] for name in names if name in said), "")


def _number(text: str) -> str:
    """A number without leading zeros."""
    return text.lstrip("0") or text[:1]


_staked: Claim | None = None  # of this process, by the environment
_withdrawn = False
_shown: dict[Claim, str] = {}  # the files of this process's badges


def stake(*, certain: bool = False) -> None:
    """Leave a worker's marks, if the environment places this process.

    Args:
        certain: False: do nothing if there is a mark of another process, which may have started this one.
    """
    global _staked
    claim = None if _withdrawn else claim_of(os.environ)
    digest, *owner = os.environ.get(MARK, "").split() or [""]
    if claim is None or (digest == claim.digest and not certain):
        return
    with Unreadable():  # there is no /proc
        mine = [str(os.getpid()), status("self")[19]]
        if digest == claim.digest and owner == mine:
            return
        os.environ[MARK] = " ".join([claim.digest, *mine])
        starts = _staked is not None and _staked.rank != claim.rank and _staked.run == claim.run
        if _staked is not None:
            hide(_staked)
        _staked = claim
        show(claim, STARTING if starts else WAITING)


def notice() -> None:
    """Leave the marks if the program has placed this process since its start; every new metric calls this."""
    if _staked is None and not _PLACING.isdisjoint(getattr(os.environ, "_data", os.environ)):
        stake()


def withdraw() -> None:
    """Remove the marks for good, in a process that starts workers but is not one."""
    global _withdrawn
    _withdrawn = True
    os.environ.pop(MARK, None)
    for claim in list(_shown):
        hide(claim)


def show(claim: Claim, state: str) -> None:
    """Show a claim of this process to the others, or a change of its state."""
    with Unreadable():
        path = _path(claim, os.getpid(), status("self")[19], state)
        if claim in _shown:
            os.rename(_shown[claim], path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        _shown[claim] = path


def has_joined(claim: Claim) -> bool:
    """Whether this process shows that it has met the others of its run."""
    return _shown.get(claim, "").endswith(JOINED)


def hide(claim: Claim) -> None:
    """Stop showing a claim of this process."""
    with Unreadable():
        os.unlink(_shown.pop(claim, ""))


def shows(claim: Claim, process: int, start: str) -> bool:
    """Whether a process shows that it is this worker."""
    with Unreadable():
        return any(os.path.exists(_path(claim, process, start, state)) for state in (WAITING, JOINED))
    return False


def badges(run: str) -> list[Badge]:
    """Return the badges of this user's processes, ended ones included; remove some stale ones of other runs."""
    found: list[Badge] = []
    with Unreadable():
        place = folder()
        for name in os.listdir(place):
            with Unreadable():
                digest, rank, process, start, state = name.split(" ")
                found.append(Badge(digest, rank, int(process), start, state))
        for each in [each for each in found if each.run != run][:_TIDIED]:
            if not is_alive(each.process, each.start):
                os.unlink(f"{place}/{' '.join(map(str, each))}")
    return found


def is_alive(process: int | str, start: str) -> bool:
    """Whether the process that was started at this tick still runs: its number may have been reused."""
    with Unreadable():
        found = status(process)
        return found[19] == start and found[0] not in "ZX"
    return False


def status(process: int | str) -> list[str]:
    """The fields of a process in Linux's table, after its name: 1 is the parent, 6 flags, 19 the start in ticks."""
    with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def _path(claim: Claim, process: int, start: str, state: str) -> str:
    return f"{folder()}/{claim.run_digest} {int(claim.rank)} {process} {start} {state}"


@functools.lru_cache(maxsize=1)
def folder() -> str:
    """Return the folder of this user's badges, in this namespace of process numbers.

    Raises:
        OSError: others can write into every candidate, or /proc is missing.
    """
    name = f"fleetmetrics-{os.geteuid()}-{os.stat('/proc/self/ns/pid').st_ino}"
    for path in (f"{place}/{name}" for place in _FOLDERS):
        with Unreadable():
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077:
                return path
    raise PermissionError("no folder is safe")


def _begin_anew() -> None:
    """Reset the badges in a forked child: its parent's are not its own."""
    global _staked, _withdrawn
    _staked, _withdrawn = None, False
    _shown.clear()
    folder.cache_clear()  # it may be the first process of another namespace


os.register_at_fork(after_in_child=_begin_anew)
atexit.register(withdraw)
