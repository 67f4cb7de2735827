"""The exchange of records: every worker's in, one answer out.

Two steps. In the plan the workers tell rank 0 what they have, and hear what all have: a worker that differs, or whose
records do not fit its samples, is an error on all of them before any record is sent. Then each drops its own padding
and sends the rest, piece by piece; rank 0 puts them in order, computes, and answers everybody.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Iterator, Sequence

from fleetmetrics.comm import Communicator
from fleetmetrics.comm.base import SECONDS_FOR_TROUBLE, Deadline, resolve_timeout
from fleetmetrics.comm.letters import Letter
from fleetmetrics.records.collected import Collected, Parcel
from fleetmetrics.records.outcome import answer, outcome
from fleetmetrics.records.pieces import PIECE_BYTES
from fleetmetrics.records.plan import Plan, check_notes
from fleetmetrics.records.share import Share
from fleetmetrics.records.spool import Spool

__all__ = ["gather"]


def gather(
    call: str, describe: Callable[[], Sequence[Share]], channel: Communicator, timeout: float | None = None
) -> list[Any]:
    """Bring the records of all workers together, and compute.

    Args:
        call: what is computed, the same on every worker; errors quote it.
        describe: makes this worker's shares; what it raises is raised on every worker.
        channel: the workers' communicator.
        timeout: seconds to wait for the others, altogether; None for FLEETMETRICS_TIMEOUT or half an hour.

    Returns:
        For every share what its ``compute`` or ``compute_from`` returned on rank 0.

    Raises:
        FleetMetricsError: the same one on every worker.
        Exception: what ``compute`` raised.
    """
    shares: Sequence[Share] = []
    trouble: Exception | None = None
    deadline = Deadline(SECONDS_FOR_TROUBLE)
    try:
        deadline = Deadline(resolve_timeout(timeout))
        shares = describe()
        for share in shares:
            share.check(channel.rank, channel.world_size)
    except Exception as error:  # whatever it is: the others are waiting
        trouble = error
    with contextlib.ExitStack() as stack:
        plans = _plan(call, shares, channel, deadline, trouble, stack)
        collected = Collected(plans, channel.rank, channel.world_size)
        if channel.world_size == 1:
            collected.put_own()
            return collected.values()
        allow_pickle = all(share.allow_pickle for share in shares)
        told = _send(call, collected, channel, deadline, allow_pickle)
        return outcome(told, allow_pickle)


def _plan(
    call: str,
    shares: Sequence[Share],
    channel: Communicator,
    deadline: Deadline,
    trouble: Exception | None,
    stack: contextlib.ExitStack,
) -> list[Plan]:
    """Agree; what the plans leave on the disk is removed when the stack is closed."""

    def spools(token: str) -> list[Spool | None]:
        found = [
            None if share.directory is None else Spool(share.directory, token, channel.rank, share.shared)
            for share in shares
        ]
        for spool in filter(None, found):
            stack.callback(spool.clean)
        return found

    def decide(letters: Sequence[Letter]) -> Letter:
        notes = [letter.note for letter in letters]
        check_notes(notes)
        token = os.urandom(16).hex()
        if len(letters) > 1:
            for spool in filter(None, spools(token)):
                spool.make()
        return Letter([token, list(zip(*notes))])

    notes = [share.note() for share in shares] if trouble is None else []
    told = channel.consult(call, decide, notes, timeout=deadline.timeout, trouble=trouble)
    token, by_share = told.note
    return [Plan(share, notes, spool) for share, notes, spool in zip(shares, by_share, spools(token))]


def _send(call: str, collected: Collected, channel: Communicator, deadline: Deadline, allow_pickle: bool) -> Letter:
    def decide(letters: Sequence[Letter]) -> Letter:
        for rank, letter in enumerate(letters):
            collected.take(rank, letter)
        if any(letter.note["more"] for letter in letters):
            return Letter({"done": False})
        return answer(collected.values, allow_pickle)

    parcels = collected.parcels()
    while True:
        note, payload, trouble = _next_letter(parcels)
        # What is over is over: an exchange with no time left says so on every worker.
        timeout = max(deadline.remaining, 1e-3)
        told = channel.consult(f"{call}, records", decide, note, payload, timeout=timeout, trouble=trouble)
        del payload  # before the next letter is packed
        if told.note["done"]:
            return told


def _next_letter(parcels: Iterator[Parcel]) -> tuple[Any, list[Any], Exception | None]:
    """Fill a letter of bounded size; the error if a parcel cannot be made."""
    labels, payload, size = [], [], 0
    try:
        for parcel in parcels:
            labels.append([parcel.share, parcel.kind, parcel.layout, parcel.nbytes])
            payload += parcel.buffers
            size += parcel.nbytes
            if size >= PIECE_BYTES // 2:
                return {"parcels": labels, "more": True}, payload, None
    except Exception as error:  # whatever it is: the others are waiting
        return None, [], error
    return {"parcels": labels, "more": False}, payload, None
