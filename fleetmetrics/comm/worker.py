"""The mark of a worker: a variable that the processes which it starts inherit, so that they are not taken for it."""

from __future__ import annotations

import contextlib
import hashlib
import os

from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import has_ended
from fleetmetrics.errors import FleetMetricsError, InvalidInputError

__all__ = ["MARK", "is_the_worker", "leave_mark", "mark_if_placed", "started_by_worker"]

#: The mark: a digest of the rank and the run, and the number of the process. And the setting that overrides it.
MARK, _SETTING = "_FLEETMETRICS_WORKER", "FLEETMETRICS_WORKER"
_marked = 0  # the process that this one was when it left the mark: another one in a forked child


def is_the_worker() -> bool:
    """Whether FLEETMETRICS_WORKER says that this process is the worker; raises `InvalidInputError` for other values."""
    value = os.environ.get(_SETTING, "").strip()
    if value not in ("", "this"):
        raise InvalidInputError(
            f"the environment variable {_SETTING} holds {value!r}; allowed is 'this', for a process that is the worker "
            "although a process with the same environment started it."
        )
    return bool(value)


def leave_mark(job: Job) -> None:
    """Mark this process as the worker that its environment names, unless such a worker has started it."""
    global _marked
    if job.claimed and not started_by_worker(job):
        _marked = os.getpid()
        os.environ[MARK] = f"{_digest(job)} {_marked}"


def started_by_worker(job: Job) -> str:
    """Return why this process is not the worker that its environment names: that worker has started it; or ""."""
    digest, _, process = os.environ.get(MARK, "").partition(" ")
    if not job.claimed or digest != _digest(job) or process == str(os.getpid()) or is_the_worker():
        return ""
    if process == str(_marked) and has_ended(_marked):  # the worker forks, and goes on as its child
        return ""
    return (
        f"this process, {os.getpid()}, was started by process {process}, which is rank {job.rank_in_job} of {job.title}"
        f". Compute in the worker itself, give this process its own rank ({job.variables[1]}), or call "
        f"compute_local(). If it is the worker after all, set {_SETTING}=this in its environment."
    )


def mark_if_placed() -> None:
    """Leave the mark, if a call could use the place that the environment names."""
    with contextlib.suppress(FleetMetricsError):  # which a call will raise
        leave_mark(Job.from_environment())


def _digest(job: Job) -> str:
    return hashlib.sha256(b"%d %b" % (job.rank_in_job, job.with_ranks(()).name)).hexdigest()[:16]
