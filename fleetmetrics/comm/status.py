"""Who is missing at an exchange, and why, in words."""

from __future__ import annotations

from typing import Iterable, Sequence

from fleetmetrics.comm.door import Door
from fleetmetrics.comm.failures import calling, in_words, late_text, ranks_text
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.meeting import Meeting
from fleetmetrics.comm.message import Lost
from fleetmetrics.comm.roster import Roster

__all__ = ["ended_text", "gone_text", "late_status", "slow_text", "source_of", "status_of", "way_out"]


def status_of(meeting: Meeting, meetings: Iterable[Meeting], roster: Roster, door: Door) -> str:
    """Who is missing at an exchange, where rank 0 listens, and whom it refused.

    Args:
        meeting: the exchange.
        meetings: all exchanges that wait.
        roster: rank 0's.
        door: rank 0's.
    """
    ranks_by_state: dict[str, list[int]] = {}
    for rank in meeting.missing:
        ranks_by_state.setdefault(_state_of(rank, meetings, roster), []).append(rank)
    states = ", ".join(f"{in_words(ranks)} {state}" for state, ranks in ranks_by_state.items())
    where = f"rank 0 listens at {door.address}" if door.address else "rank 0 does not listen"
    text = f"Of the job's {roster.job.world_size} workers ({source_of(roster.job)}), {states}; {where}"
    return text + _refusals(meeting.missing, roster, door)


def _state_of(rank: int, meetings: Iterable[Meeting], roster: Roster) -> str:
    if rank in roster.ended:
        return "ended"
    if rank and rank not in roster.workers:
        other = roster.other_programs.get(rank)
        return f"only tried to connect from {other}, not {roster.job.program}" if other else "never connected"
    labels = [meeting.label for meeting in meetings if rank in meeting.arrivals]
    if labels:
        return f"came to {labels[-1]} instead"
    if roster.has_called(rank):
        return "connected, but did not come to this call yet"
    return "connected, but called nothing yet"


def _refusals(missing: Sequence[int], roster: Roster, door: Door) -> str:
    text, strangers = "", roster.other_runs.intersection(missing)
    unproven = door.ranks_unproven().intersection(missing).difference(roster.workers)
    if strangers:
        text += f". Rank 0 refused {in_words(strangers)} of another run; this run is {roster.job.title}"
    if unproven:
        text += f". A process that says that it is {in_words(unproven)} does not know the job's secret"
    if door.deaf_until:
        text += ". Rank 0 has no file descriptor left to accept a worker: close files, or raise ulimit -n"
    if door.other_versions:
        text += f". A process that tried to connect cannot: {door.other_versions}"
    return text


def late_status(meeting: Meeting, roster: Roster) -> str:
    """Who has not come to an exchange in time."""
    missing = meeting.missing
    connected = [rank for rank in missing if rank in roster.workers or rank == 0]
    return late_text(missing, "arrive" if connected else "connect", meeting.timeout, meeting.label)


def slow_text(meeting: Meeting) -> str:
    """The first rank has had the letters for too long."""
    with calling(meeting.group):
        first = ranks_text([0])
    return f"{first} needed more than the {meeting.timeout:g} s that it has at {meeting.label}"


def ended_text(ranks: Sequence[int], meeting: Meeting) -> str:
    """Workers have ended without coming to an exchange."""
    return (
        f"{in_words(ranks)} has ended without calling {meeting.label}: every worker must make the same calls. Look at "
        "its log; or does only some ranks' code call this, as in `if rank == 0:`?"
    )


def gone_text(rank: int, why: str = Lost.why) -> str:
    """A worker's connection has ended."""
    return f"{in_words([rank])} has gone away: {why}. Look at its log"


def source_of(job: Job) -> str:
    """Where the number of workers comes from."""
    return f"their number is that of {job.variables[0]}"


def way_out(job: Job) -> str:
    """What to do if there is no such job, as where a shell or a notebook still has the variables of an earlier one."""
    if not job.claimed:
        return ""
    names = " and ".join(dict.fromkeys(job.variables))
    return f". If this process belongs to no job of {job.world_size} workers, unset {names}, or call compute_local()"
