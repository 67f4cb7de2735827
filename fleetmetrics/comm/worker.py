"""The mark of a worker: a variable that the processes which it starts inherit, so that they are not taken for it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os

from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import has_ended
from fleetmetrics.support.environment import setting

__all__ = ["MARK", "begin", "is_script_of_worker", "leave_mark", "started_by_worker"]

#: The mark: a digest of the rank and the run, the number of the process, and its program. And what overrides it.
MARK, _SETTING = "_FLEETMETRICS_WORKER", "FLEETMETRICS_WORKER"
_marked = 0  # the process that this one was when it left the mark: another one in a forked child


def leave_mark(job: Job) -> None:
    """Mark this process as the worker that its environment names, unless such a worker has started it."""
    global _marked
    if job.claimed and not started_by_worker(job):
        _marked = os.getpid()
        os.environ[MARK] = f"{_digest(job)} {_marked} {job.program}"


def started_by_worker(job: Job) -> str:
    """Return why this process is not the worker that its environment names: that worker has started it; or ""."""
    process, program = _starter(job)
    if not process or _differ(program, job.program):
        return ""
    return (
        f"this process, {os.getpid()}, was started by process {process}, which is rank {job.rank} of {job.title}"
        f". Compute in the worker itself, give this process its own rank ({job.variables[1]}), or call "
        f"compute_local(). If it is the worker after all, set {_SETTING}=this in its environment"
    )


def is_script_of_worker(job: Job) -> bool:
    """Whether the worker has started this process, with another program: an evaluation, if each worker has done so."""
    process, program = _starter(job)
    return bool(process) and _differ(program, job.program)


def _starter(job: Job) -> tuple[str, str]:
    """The process of the worker that has started this one, and its program; empty without one."""
    digest, process, program = [*os.environ.get(MARK, "").split(" ", 2), "", "", ""][:3]
    if not job.claimed or digest != _digest(job) or process == str(os.getpid()) or setting(_SETTING) == "this":
        return "", ""
    if process == str(_marked) and has_ended(_marked):  # the worker forks, and goes on as its child
        return "", ""
    return process, program


def _differ(one: str, other: str) -> bool:
    return bool(one and other) and one != other


def begin() -> None:
    """In a worker that its environment places, leave the mark, and connect in the background."""
    with contextlib.suppress(Exception):  # a call will raise it
        job = Job.from_environment()
        leave_mark(job)
        if job.claimed and not started_by_worker(job):
            # The thread imports nothing: a child forked in the meantime would never see the end of that import.
            importlib.import_module("fleetmetrics.comm.choose").connect(job)


def _digest(job: Job) -> str:
    return hashlib.sha256(b"%d %b" % (job.rank, job.name)).hexdigest()[:16]
