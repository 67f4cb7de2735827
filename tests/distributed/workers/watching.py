"""What the workers of the tests of records share: metrics, and communicators that listen or know little."""

from __future__ import annotations

import time
from typing import Any, Callable

from cluster import error_text

import fleetmetrics as fm


class Gathered(fm.BaseMetric):
    """What ``compute_metric`` gets is the value."""

    def compute_metric(self, results: Any) -> Any:
        return results


class Box:
    """Something that only pickle can carry."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __repr__(self) -> str:
        return f"Box({self.content!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and other.content == self.content


class Plain(fm.Communicator):
    """A user's own, which has no more than it must.

    Args:
        channel: what it goes through.
    """

    def __init__(self, channel: fm.Communicator) -> None:
        self.channel = channel
        self.rank, self.world_size = channel.rank, channel.world_size

    def consult(self, call: str, decide: Any, note: Any = None, payload: Any = b"", **options: Any) -> Any:
        return self.channel.consult(call, decide, note, payload, **options)


class Watch(Plain):
    """A channel whose consultations are counted: how many, how many bytes of records out and of answers in."""

    consults = sent = heard = 0

    def consult(self, call: str, decide: Any, note: Any = None, payload: Any = b"", **options: Any) -> Any:
        self.consults += 1
        self.sent += sum(len(part) for part in (payload if isinstance(payload, (list, tuple)) else [payload]))
        answer = super().consult(call, decide, note, payload, **options)
        self.heard += len(answer.payload) + len(repr(answer.note))
        return answer


def attempt(call: Callable[[], Any]) -> Any:
    """What a call returns, or its error as text, so that the cases after it run all the same."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def timed(call: Callable[[], Any]) -> tuple[str, float]:
    """The error of a call, as text, and the seconds that it took."""
    start = time.monotonic()
    return error_text(call), time.monotonic() - start
