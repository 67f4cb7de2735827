"""Other processes on this machine that claim to be a worker of this run.

If no launcher names a run, only endpoints distinguish the workers of two runs, and rank 0 would accept the first rank 1
that connects. But workers show badges, and Linux shows the environment with which a user's processes were started. So
before rank 0 answers for the first time, it checks whether two of them claim one rank, and waits for processes that are
just starting. A process that finds two leaves a note for every process that was started earlier and may look later.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import defaultdict
from enum import IntEnum
from pathlib import Path
from typing import Iterable, Iterator, NamedTuple, Sequence

from fleetmetrics.comm.launchers import starter_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.identity import (
    JOINED,
    MARK,
    SETTING,
    STARTING,
    WAITING,
    Badge,
    Claim,
    Unreadable,
    badges,
    claim_of,
    folder,
    is_alive,
    shows,
    status,
)
from fleetmetrics.launcher import LAUNCHERS

__all__ = [
    "UNDECIDED",
    "YOUNG_SECONDS",
    "Finding",
    "is_the_worker",
    "is_undecided",
    "leave_note",
    "look",
    "note",
    "worker_behind",
]

#: Seconds after which a new Python process has imported everything it needs, Paddle included.
YOUNG_SECONDS = 15.0
#: Seconds between two checks of a process that is just starting.
PAUSE_SECONDS = 0.1
#: Once a process has this age, its starter may have set its own place, or started others.
_STARTS_SECONDS = 1.0
#: Arguments by which multiprocessing starts a process without a fork; and the code of its helpers.
_SPAWNED, _SERVES = b"--multiprocessing-fork", re.compile(rb"from multiprocessing\.\w+ import main")
_FORKED = 0x40  # PF_FORKNOEXEC: it is a copy of its parent
_LAUNCHERS = {row.command.encode() for row in LAUNCHERS if row.command} | {
    name.encode() for row in LAUNCHERS for name in row.modules
}


class Finding(NamedTuple):
    """Two processes that claim one rank."""

    text: str
    sure: bool  # False while one of them may still turn out not to be a worker


#: A process may still claim a rank; which one is unknown.
UNDECIDED = Finding("", False)


class _State(IntEnum):
    """The progress of a process that claims a rank; the least among a worker and its ancestors counts."""

    JOINED = 0  # it has met the others of its run
    WAITING = 1
    YOUNG = 2  # it was just started, and may become a worker
    NONE = 3


def is_the_worker() -> bool:
    """Whether the environment says that this process is the worker, independent of its parent.

    Raises:
        InvalidInputError: if the variable holds anything else.
    """
    value = os.environ.get(SETTING, "").strip()
    if value not in ("", "this"):
        raise InvalidInputError(
            f"the environment variable {SETTING} holds {value!r}; allowed is 'this', for a process that is the worker "
            "although a process with the same environment started it."
        )
    return bool(value)


def worker_behind(claim: Claim, met: bool = False) -> str:
    """Name the worker that has started this process and has the same place; "" if this process may be the worker.

    Args:
        claim: this process's.
        met: whether it has met rank 0. Earlier, a process may set the place of one worker, start it, and then set the
            place of another worker, which it starts or becomes.
    """
    if is_the_worker():
        return ""
    with Unreadable():
        while True:
            process, sure = _worker_behind(claim)
            late = met or claim.rank == "0"  # such a worker cannot wait for rank 0
            if sure or (late and _age(os.getpid()) >= _STARTS_SECONDS):
                return _described(process) if process else ""
            if not late:
                return ""
            time.sleep(PAUSE_SECONDS)
    return ""


def _worker_behind(claim: Claim) -> tuple[int, bool]:
    """The worker that has started this process, or 0, and whether the answer is final."""
    own = os.getpid()
    fields = status(own)
    forked, inherited = _is_forked(fields), _was_started_with(claim, own)
    digest, process, start = [*os.environ.get(MARK, "").split(), "", "", ""][:3]
    marked = digest == claim.digest and [process, start] != [str(own), fields[19]]
    maker = _parent_by_multiprocessing()
    # a worker that forks and ends continues as its child
    if marked and (is_alive(process, start) or not forked):
        maker, sure = int(process), inherited or not forked
    elif maker and inherited:  # the parent's environment at that moment
        sure = _is_the_worker(maker, claim)
    else:
        return _worker_around(claim, own, inherited or not forked)
    return (0, True) if _starts_workers(maker, claim) else (maker, sure)


def _worker_around(claim: Claim, own: int, sure: bool) -> tuple[int, bool]:
    """The nearest ancestor that is the worker, or 0, and whether the answer is final."""
    parent = int(status(own)[1])
    while parent > 1:
        if shows(claim, parent, status(parent)[19]):
            return parent, sure
        if not _was_started_with(claim, parent):
            break
        if b"/libpaddle" in _maps_of(parent) and not _LAUNCHERS.intersection(map(os.path.basename, _words_of(parent))):
            return parent, True
        parent = int(status(parent)[1])
    worker = _worker_without_badge(own, claim)
    return worker, not worker or _is_the_worker(worker, claim)


def _is_the_worker(process: int, claim: Claim) -> bool:
    """Whether a process shows this worker's badge, or was started with its place, or has ended."""
    with Unreadable():
        return shows(claim, process, status(process)[19]) or _was_started_with(claim, process)
    return True


def _worker_without_badge(process: int, claim: Claim) -> int:
    """The process that is the worker although no badge or mark shows it, and has started one with this claim; else 0.

    It has not imported this package, or the program has set its place. But it runs the program of another worker of
    this run, and has started a process with a different program, and none with a different rank.
    """
    if not _was_started_with(claim, process):
        return 0
    programs = {_program(each.process) for each in _badges_of(claim)} - {_program(process), None}
    for parent in _ancestors(process) if programs else ():
        if _program(parent) in programs and not _starts_workers(parent, claim):
            return parent
        if not _was_started_with(claim, parent):
            break
    return 0


def _parent_by_multiprocessing() -> int:
    """The process for which Python's multiprocessing has started this one; or 0."""
    module = sys.modules.get("multiprocessing.process")
    parent = None if module is None else module.parent_process()
    return 0 if parent is None else parent.pid


def _starts_workers(process: int, claim: Claim) -> bool:
    """Whether a process is another worker of this run, or starts workers of several ranks."""
    shown = _badges_of(claim)
    for each in shown:
        if each.process == process:
            return each.state == STARTING or each.rank != claim.rank
    for other, rank in _claimants(claim, shown).items():
        with Unreadable():
            if rank != claim.rank and int(status(other)[1]) == process:
                return True
    return False


def look(claim: Claim, named_by: tuple[str, ...] = ()) -> Finding | None:
    """Look for two processes on this machine that claim the same rank of a run.

    Args:
        claim: this worker's.
        named_by: the variables of the rank, if the run is named after the process that has started all its workers.
    """
    shown = {each.process: each for each in _badges_of(claim)}
    found = _claimants(claim, shown.values())
    starter = starter_of(os.getpid(), named_by) if named_by else ""
    by_rank: defaultdict[str, list[int]] = defaultdict(list)
    for process, rank in found.items():
        by_rank[rank].append(process)
    findings = []
    for rank, processes in by_rank.items():
        families: dict[int, tuple[_State, int]] = {}
        for process in processes if len(processes) > 1 else ():
            with Unreadable():
                if named_by and starter_of(process, named_by) != starter:
                    continue
                if not _worker_without_badge(process, claim._replace(rank=rank)):
                    root, state = _root(process, found), _state_of(process, shown.get(process))
                    families[root] = min(families.get(root, (state, process)), (state, process))
        rivals = sorted(each for each in families.values() if each[0] in (_State.WAITING, _State.YOUNG))
        if len(rivals) > 1:
            (_, one), (state, two) = rivals[:2]
            findings.append(Finding(_text(claim, one, two, rank), state == _State.WAITING))
    return max(findings, key=lambda finding: finding.sure, default=None)


def is_undecided(claim: Claim) -> bool:
    """Whether a process that was just started may still claim a rank of a run, without a sign of it so far.

    If a program sets the places itself, a worker is visible only after that. Until then a process may become one if it
    runs the program of a worker of this run, unless one process has started all workers: it would not give two runs the
    same name.
    """
    with Unreadable():
        own = os.getpid()
        if not claim.given and _was_started_with(claim, own):
            return False
        shown = badges(claim.run_digest)
        workers = {each.process for each in shown if each.run == claim.run_digest}
        programs = {_program(process) for process in workers} - {None}
        if workers <= {own} or (len(programs) == 1 and any(isinstance(program, int) for program in programs)):
            return False
        placed = {each.process for each in shown}
        around = {own, *(parent for worker in {own, *workers} for parent in _ancestors(worker))}
        for process in set(_processes()) - placed - around:
            may = _is_young_without_place(process) and _program(process) in programs
            if may and workers.isdisjoint(_ancestors(process)):
                return True
    return False


def _badges_of(claim: Claim) -> list[Badge]:
    """The badges of this run's live processes."""
    found = [each for each in badges(claim.run_digest) if each.run == claim.run_digest]
    return [each for each in found if is_alive(each.process, each.start)]


def _claimants(claim: Claim, shown: Iterable[Badge]) -> dict[int, str]:
    """The processes that claim ranks of a run, by these badges, or else by their initial environment."""
    found = {each.process: each.rank for each in shown}
    # All parts of a run's name are in the environment of each of its workers, in any combination.
    written = os.fsencode(max(re.split("[,|=]", ",".join(claim.run[1:])), key=len))
    for process in () if claim.given else _processes():
        with Unreadable():
            if process not in found and written in (data := Path(f"/proc/{process}/environ").read_bytes()):
                other = claim_of(environment := _parsed(data))
                if other is not None and other.run == claim.run and not _is_marked(process, other, environment):
                    found[process] = other.rank
    return found


def leave_note(claim: Claim, text: str) -> None:
    """Leave a note for the processes of this machine with this run's endpoints that were started before now."""
    with Unreadable():
        path = _path_of_note(claim)
        draft = path.with_name(f"{path.name} {os.getpid()}")
        draft.write_text(f"{_boot()}\n{time.clock_gettime(time.CLOCK_BOOTTIME)}\n{text}", encoding="utf-8")
        draft.replace(path)


def note(claim: Claim) -> str:
    """Return the note left for the workers of a run since this process was started, or ""."""
    with Unreadable():
        boot, moment, text = _path_of_note(claim).read_text(encoding="utf-8").split("\n", 2)
        if boot == _boot() and _start(os.getpid()) < float(moment):
            return text
    return ""


def _path_of_note(claim: Claim) -> Path:
    return Path(folder(), f"mixed {claim.run_digest}")


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _age(process: int) -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - _start(process)


def _start(process: int) -> float:
    """Seconds from the start of the machine to that of a process."""
    return int(status(process)[19]) / os.sysconf("SC_CLK_TCK")


def _processes() -> list[int]:
    with Unreadable():
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _parsed(data: bytes) -> dict[str, str]:
    entries = (os.fsdecode(entry).partition("=") for entry in data.split(b"\0"))
    return {name: value for name, _, value in entries}


def _was_started_with(claim: Claim, process: int) -> bool:
    """Whether the initial environment of a process makes this claim."""
    return not claim.given and claim_of(_parsed(Path(f"/proc/{process}/environ").read_bytes())) == claim


def _is_marked(process: int, claim: Claim, environment: dict[str, str]) -> bool:
    """Whether a process was started by the worker whose place it claims."""
    digest, *owner = environment.get(MARK, "").split() or [""]
    return (
        digest == claim.digest
        and environment.get(SETTING, "").strip() != "this"
        and owner != [str(process), status(process)[19]]
    )


def _state_of(process: int, badge: Badge | None) -> _State:
    """The progress of a process that claims a rank."""
    if badge is not None:
        states = {WAITING: _State.WAITING, JOINED: _State.JOINED}
        return states.get(badge.state, _State.NONE)
    if _is_forked(status(process)) or b"python" not in _maps_of(process) or any(map(_SERVES.match, _words_of(process))):
        return _State.NONE
    if _program(process) == _program(os.getpid()):  # at any age: it may take long to import, or read data
        return _State.WAITING
    return _State.YOUNG if _age(process) < YOUNG_SECONDS else _State.NONE


def _is_young_without_place(process: int) -> bool:
    """Whether it is a Python process that was just started, without the place of a worker."""
    with Unreadable():
        if "python" in os.readlink(f"/proc/{process}/exe") and _age(process) < YOUNG_SECONDS:
            return claim_of(_parsed(Path(f"/proc/{process}/environ").read_bytes())) is None
    return False


def _program(process: int) -> object:
    """A process's program; for a copy of a process, such as multiprocessing's, the original process; None: ended."""
    with Unreadable():
        fields = status(process)
        if _is_forked(fields) or _SPAWNED in (words := _words_of(process)):
            return int(fields[1])
        options = next((place for place, word in enumerate(words[1:], 1) if not word.startswith(b"-")), len(words))
        return tuple(words[: options + 1])
    return None


def _ancestors(process: int) -> Iterator[int]:
    with Unreadable():
        while (process := int(status(process)[1])) > 1:
            yield process


def _root(process: int, found: dict[int, str]) -> int:
    """The outermost ancestor with the same claim, such as the shell around a process."""
    while (parent := int(status(process)[1])) in found and found[parent] == found[process]:
        process = parent
    return process


def _is_forked(fields: Sequence[str]) -> bool:
    """Whether a process, by its `status`, is a copy of another one."""
    return bool(int(fields[6]) & _FORKED)


def _maps_of(process: int) -> bytes:
    return Path(f"/proc/{process}/maps").read_bytes()


def _words_of(process: int) -> list[bytes]:
    return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")


def _described(process: int) -> str:
    words: list[str] = []
    with Unreadable():  # it has ended
        words = b" ".join(_words_of(process)).decode(errors="replace").split()
    return f"process {process} ({' '.join(words)[:100] or 'which has ended'})"


def _text(claim: Claim, one: int, two: int, rank: str) -> str:
    named = []
    for process in sorted((one, two)):
        with Unreadable():
            named.append(f"{_described(process)}, started {max(0.0, _age(process)):.0f} s ago")
    apart = "secret or endpoint" if claim.given else "endpoints or PADDLE_JOB_ID"
    return (
        f"two processes on this machine say that they are rank {rank} of one run: {', and '.join(named)}. They belong "
        "to two runs with the same endpoints, or one is left over from an earlier run, or has a worker's variables "
        f"without being one. End one of them, start it without these variables, or give each run its own {apart}."
    )
