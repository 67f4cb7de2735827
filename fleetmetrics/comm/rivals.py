"""Other processes on this machine that claim to be a worker of this run.

If no launcher names a run, only their endpoints distinguish workers of two runs, and rank 0 would take the first rank 1
that comes. But Linux shows the environment with which a user's processes were started. So before rank 0 answers for the
first time, it checks whether two of them claim one rank, and waits for processes that are just starting. A process that
finds two leaves a note for every process that was started before it and may come later.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import time
from pathlib import Path
from typing import Iterator, NamedTuple

from fleetmetrics.comm.launchers import starter_of
from fleetmetrics.comm.secret import folder_of_the_user
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.identity import MARK, SETTING, Claim, claim_of, has_joined, is_here, status
from fleetmetrics.launcher import LAUNCHERS, PADDLE

__all__ = ["Finding", "is_the_worker", "leave_note", "look", "note", "worker_behind"]

#: Seconds after which a new Python process has imported everything it needs, Paddle included.
_YOUNG_SECONDS = 15.0
#: Seconds between two looks at a process that is just starting.
PAUSE_SECONDS = 0.1
_FORKED = 0x40  # PF_FORKNOEXEC: it is a copy of its parent
_LAUNCHERS = {row.command.encode() for row in LAUNCHERS if row.command} | {
    name.encode() for row in LAUNCHERS for name in row.modules
}


class Finding(NamedTuple):
    """Two processes that claim one rank."""

    text: str
    sure: bool  # False while one of them may still turn out to be no worker


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


def worker_behind() -> str:
    """Name the worker that has started this process; "" if no worker has, and it may be one."""
    claim = claim_of(os.environ)
    if claim is None or is_the_worker():
        return ""
    with contextlib.suppress(OSError, IndexError):
        digest, process, start = [*os.environ.get(MARK, "").split(), "", "", ""][:3]
        marked = digest == claim.digest and [process, start] != [str(os.getpid()), status("self")[19]]
        # a worker that forks, and ends, goes on as its child
        if marked and (_is_alive(process, start) or not _is_forked(os.getpid())):
            return _described(int(process))
        parent = os.getppid()
        if _is_of_multiprocessing() and claim_of(_environment(parent)) == claim:
            return _described(parent)
        while parent > 1 and claim_of(_environment(parent)) == claim:
            if _is_worker(parent):
                return _described(parent)
            parent = int(status(parent)[1])
    return ""


def _is_of_multiprocessing() -> bool:
    """Whether Python's multiprocessing has made this process for another one."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.parent_process() is not None


def look() -> Finding | None:
    """Look for two processes on this machine that claim one rank of this process's run."""
    claim = claim_of(os.environ)
    if claim is None:
        return None
    mine, found = _with_its_starter(claim, os.getpid()), {}
    # Each piece of what names a run is in the environment of all its workers, however they are put together.
    written = os.fsencode(max(re.split("[,|=]", ",".join(claim.run)), key=len))
    for process, data in _environments():
        other = claim_of(_parsed(data)) if written in data else None
        if other is not None and other.run == claim.run and _with_its_starter(other, process).run == mine.run:
            found[process] = other
    waiting: dict[Claim, dict[int, tuple[bool, int]]] = {}
    for process, other in found.items():
        with contextlib.suppress(OSError, IndexError, ValueError):
            sure, unsure = _state_of(process)
            if sure or unsure:
                families = waiting.setdefault(other, {})
                root = _root(process, found)
                families[root] = max(families.get(root, (False, 0)), (sure, process))
    for other, families in waiting.items():
        if len(families) > 1:
            (one_sure, one), (two_sure, two) = sorted(families.values(), reverse=True)[:2]
            return Finding(_text(one, two, other.rank), one_sure and two_sure)
    return None


def _with_its_starter(claim: Claim, process: int) -> Claim:
    """The claim with the process's starter: another mpirun makes another run.

    Several shells may start workers by Paddle's variables, one each.
    """
    if set(PADDLE.rank).intersection(claim.named):
        return claim
    return claim._replace(run=(*claim.run, starter_of(process, claim.named)))


def leave_note(text: str) -> None:
    """Leave a text for the processes of this machine with this run's endpoints that were started before now."""
    with contextlib.suppress(OSError):
        path = _path_of_note()
        draft = path.with_name(f"{path.name} {os.getpid()}")
        draft.write_text(f"{_boot()}\n{time.clock_gettime(time.CLOCK_BOOTTIME)}\n{text}", encoding="utf-8")
        draft.replace(path)


def note() -> str:
    """Return the note left since this process was started, or ""."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        boot, moment, text = _path_of_note().read_text(encoding="utf-8").split("\n", 2)
        if boot == _boot() and _start(os.getpid()) < float(moment):
            return text
    return ""


def _path_of_note() -> Path:
    claim = claim_of(os.environ)
    return folder_of_the_user() / f"mixed {hashlib.sha256(repr(claim and claim.run).encode()).hexdigest()[:32]}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start(process: int) -> float:
    """Seconds from the start of the machine to that of a process."""
    return int(status(process)[19]) / os.sysconf("SC_CLK_TCK")


def _environments() -> Iterator[tuple[int, bytes]]:
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    yield int(name), file.read()


def _parsed(data: bytes) -> dict[str, str]:
    entries = (os.fsdecode(entry).partition("=") for entry in data.split(b"\0"))
    return {name: value for name, _, value in entries}


def _environment(process: int) -> dict[str, str]:
    return _parsed(Path(f"/proc/{process}/environ").read_bytes())


def _state_of(process: int) -> tuple[bool, bool]:
    """Whether it is a worker that has not joined its run, and whether it may become one."""
    if _is_forked(process):
        return False, False
    maps = Path(f"/proc/{process}/maps").read_bytes()
    if is_here(maps):
        return True, False
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - _start(process)
    return False, not has_joined(maps) and age < _YOUNG_SECONDS and b"python" in maps


def _root(process: int, found: dict[int, Claim]) -> int:
    """The first of a process's ancestors that made this claim, such as the shell around it."""
    while (parent := int(status(process)[1])) in found and found[parent] == found[process]:
        process = parent
    return process


def _is_forked(process: int) -> bool:
    return bool(int(status(process)[6]) & _FORKED)


def _is_alive(process: str, start: str) -> bool:
    try:
        found = status(process)
    except OSError:
        return False
    return found[19] == start and found[0] not in "ZX"


def _is_worker(process: int) -> bool:
    """Whether a process has imported this package, or Paddle, and is not a launcher."""
    maps = Path(f"/proc/{process}/maps").read_bytes()
    words = {os.path.basename(word) for word in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")}
    return (is_here(maps) or has_joined(maps) or b"/libpaddle" in maps) and not words & _LAUNCHERS


def _described(process: int) -> str:
    words: list[str] = []
    with contextlib.suppress(OSError):  # it has ended
        words = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").split()
    return f"process {process} ({' '.join(words)[:100] or 'which has ended'})"


def _text(one: int, two: int, rank: str) -> str:
    named = []
    for process in sorted((one, two)):
        with contextlib.suppress(OSError, IndexError):
            age = time.clock_gettime(time.CLOCK_BOOTTIME) - _start(process)
            named.append(f"{_described(process)}, started {max(0.0, age):.0f} s ago")
    return (
        f"two processes on this machine say that they are rank {rank} of one run: {', and '.join(named)}. They belong "
        "to two runs with the same endpoints, or one is left over from an earlier run. End one of them, or give each "
        "run its own endpoints or PADDLE_JOB_ID."
    )
