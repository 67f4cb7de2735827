"""What both sides of the meeting share: answers, errors on the wire, waiting."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from typing import Any, Callable, NamedTuple, Sequence

from fleetmetrics.comm.base import Deadline
from fleetmetrics.comm.columns import ranks_text
from fleetmetrics.comm.trouble import Trouble, described
from fleetmetrics.comm.wire import ERROR, TROUBLE, Frame
from fleetmetrics.errors import FleetMetricsError

__all__ = ["Answer", "Combine", "Member", "margin", "wait_for"]


class Answer(NamedTuple):
    """What rank 0 tells everybody: a header for the code, a payload for the numbers."""

    header: bytes
    payload: Any  # a Payload when it is sent, a Buffer when it has arrived


# Takes the arrival frames by rank; runs on rank 0 only, so that all get the same bits.
Combine = Callable[[Sequence[Frame]], Answer]


def margin(timeout: float) -> float:
    """Return the seconds that a verdict needs to reach everybody.

    Args:
        timeout: of the call.
    """
    return min(1.0, 0.1 * timeout)


def wait_for(poll: Any, end: float) -> list[tuple[int, int]]:
    """Poll until something happens or the moment has come.

    Args:
        poll: a ``select.poll``.
        end: a time of ``time.monotonic()``.

    Returns:
        The events.
    """
    # poll takes milliseconds: round up, or the last millisecond is spent in a busy loop
    milliseconds = max(0, min(2**30, int((end - time.monotonic()) * 1000) + 1))
    return list(poll.poll(milliseconds))


def error_frame(call: int, error: FleetMetricsError, broken: bool) -> Frame:
    """Return the frame that makes a worker raise.

    Args:
        call: number of the exchange.
        error: what to raise.
        broken: whether the channel is of no more use.
    """
    header = json.dumps({"class": type(error).__name__, "text": str(error), "broken": broken}).encode()
    return Frame(ERROR, call, header)


def trouble_frame(call: int, trouble: BaseException, deadline: Deadline) -> Frame:
    """Return the frame of a worker that arrives with an error instead of data.

    Args:
        call: number of the exchange.
        trouble: the error.
        deadline: of the call.
    """
    header = json.dumps(described(trouble)).encode()
    return Frame(TROUBLE, call, header, remaining=deadline.remaining, timeout=deadline.timeout)


def troubles_in(frames: Sequence[Frame]) -> list[Trouble | None]:
    """Return what the frames say of trouble, None for those that bring data.

    Args:
        frames: the arrivals.
    """
    return [json.loads(frame.header) if frame.kind == TROUBLE else None for frame in frames]


class Member(ABC):
    """One worker's side of the meeting."""

    broken: str = ""

    @abstractmethod
    def exchange(self, frame: Frame, label: str, combine: Combine, deadline: Deadline) -> Answer:
        """Take part in one exchange."""

    @abstractmethod
    def close(self) -> None:
        """Close the sockets."""


def late_text(ranks: Sequence[int], how: str, timeout: float, label: str) -> str:
    """Say who is missing.

    Args:
        ranks: those missing.
        how: "arrive" or "connect".
        timeout: seconds that were waited.
        label: what the others do.
    """
    return (
        f"{ranks_text(ranks)} did not {how} within {timeout:g} s at {label}. Look at the log of"
        f" {'those workers' if len(ranks) > 1 else 'that worker'}: every worker must call the same metrics in the same"
        " order. If it is only slow, give more seconds: timeout=, or FLEETMETRICS_TIMEOUT."
    )
