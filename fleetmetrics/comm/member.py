"""What both sides of the meeting share: answers, errors on the wire, waiting."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from typing import Any, Callable, NamedTuple, Sequence

from fleetmetrics import errors
from fleetmetrics.comm.base import Deadline
from fleetmetrics.comm.columns import ranks_text
from fleetmetrics.comm.wire import ERROR, TROUBLE, Buffer, Frame
from fleetmetrics.errors import CommunicatorError, FleetMetricsError

__all__ = ["Answer", "Combine", "Member", "margin", "wait_for"]


class Answer(NamedTuple):
    """What rank 0 tells everybody: a header for the code, a payload for the numbers."""

    header: bytes
    payload: Buffer


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


def named_error(name: str, text: str) -> FleetMetricsError:
    """Return an error of fleetmetrics by the name of its class.

    Args:
        name: of the class.
        text: the message.
    """
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, FleetMetricsError):
        return kind(text)
    return CommunicatorError(text)


def trouble_frame(call: int, trouble: BaseException, deadline: Deadline) -> Frame:
    """Return the frame of a worker that arrives with an error instead of data.

    Args:
        call: number of the exchange.
        trouble: the error.
        deadline: of the call.
    """
    name = type(trouble).__name__
    text = str(trouble) if isinstance(trouble, FleetMetricsError) else f"{name}: {trouble}"
    header = json.dumps([name, text]).encode()
    return Frame(TROUBLE, call, header, remaining=deadline.remaining, timeout=deadline.timeout)


def raise_trouble(frames: Sequence[Frame], *, ranks_known: bool = True) -> None:
    """Raise the error of the first worker in trouble, naming all that are.

    Args:
        frames: the arrivals by rank.
        ranks_known: False if they are not by rank.

    Raises:
        FleetMetricsError: if there is any trouble.
    """
    ranks: dict[str, list[int]] = {}
    first = ""
    for rank, frame in enumerate(frames):
        if frame.kind == TROUBLE:
            name, text = json.loads(frame.header)
            first = first or name
            ranks.setdefault(text, []).append(rank)
    if ranks:
        texts = [f"on {ranks_text(on) if ranks_known else 'one worker'}: {text}" for text, on in ranks.items()]
        raise named_error(first, "; ".join(texts))


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
