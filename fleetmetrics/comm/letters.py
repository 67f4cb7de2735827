"""What the workers bring to a consultation, and how it looks on the wire."""

from __future__ import annotations

import json
from typing import Any, Callable, NamedTuple, Sequence

from fleetmetrics.comm.columns import by_rank
from fleetmetrics.comm.wire import Buffer, Payload
from fleetmetrics.errors import AgreementError

__all__ = ["CONSULTS", "Decide", "Letter", "joined", "read_letters", "written"]


class Letter(NamedTuple):
    """What a worker brings to `Communicator.consult`, and what it is told.

    Args:
        note: a description, fit for JSON.
        payload: bytes; one buffer or a list of them when it is sent, one buffer when it has arrived.
    """

    note: Any
    payload: Any = b""


#: The note of a frame that holds a letter.
CONSULTS = 4

#: Takes the workers' letters by rank and returns the answer; runs on rank 0 only.
Decide = Callable[[Sequence[Letter]], Letter]


def written(call: str, note: Any) -> bytes:
    """Return the header of a letter.

    Args:
        call: what the workers do.
        note: fit for JSON.
    """
    return json.dumps([call, note], separators=(",", ":")).encode()


def read_letters(headers: Sequence[bytes], payloads: Sequence[Any]) -> list[Letter]:
    """Return the letters that the workers have sent for one call.

    Args:
        headers: by rank, from `written`.
        payloads: by rank.

    Raises:
        AgreementError: if the calls differ.
    """
    calls, notes = zip(*map(json.loads, headers))
    if len(set(calls)) > 1:
        raise AgreementError(f"the workers disagree: {by_rank(calls)}.")
    return [Letter(note, payload) for note, payload in zip(notes, payloads)]


def joined(payload: Payload) -> Buffer:
    """Return a payload in one buffer.

    Args:
        payload: one or several.
    """
    return b"".join(payload) if isinstance(payload, (list, tuple)) else payload  # type: ignore[return-value]
