"""Until when a call may wait."""

from __future__ import annotations

import math
import os
import threading
import time
from concurrent import futures
from typing import Any, Callable

from fleetmetrics.errors import DeadlineError, InvalidInputError

__all__ = ["DEFAULT_TIMEOUT", "Deadline", "began", "begun", "margin", "resolve_timeout", "run_until"]

# As long as torch.distributed waits by default: longer than any evaluation skew, shorter than a night.
DEFAULT_TIMEOUT = 1800.0
#: Seconds; nobody waits 31 years, and Python's locks and polls take no number that is much larger.
_LONGEST = 1e9
#: What a worker waits that was given no valid timeout, until the others have heard of it.
_SECONDS_FOR_TROUBLE = 10.0


class Deadline:
    """A moment until which a call may wait: a number of seconds from now."""

    end: float
    timeout: float

    __slots__ = ("end", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.end = time.monotonic() + timeout

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.end - time.monotonic())

    @property
    def left(self) -> float:
        """Seconds left for one more exchange, which goes on with this deadline: positive, as any timeout."""
        return _Left(self)


class _Left(float):
    """Seconds left of a deadline that several exchanges have in common: their errors tell the whole timeout."""

    __slots__ = ("deadline",)
    deadline: Deadline

    def __new__(cls, deadline: Deadline) -> _Left:
        found = super().__new__(cls, max(deadline.remaining, 1e-3))
        found.deadline = deadline
        return found


def resolve_timeout(timeout: float | None = None) -> float:
    """The seconds to wait: the argument, else FLEETMETRICS_TIMEOUT, else half an hour; positive, and 1e9 at most."""
    source, value = "timeout", timeout
    if timeout is None:
        text = os.environ.get("FLEETMETRICS_TIMEOUT", "").strip()
        if not text:
            return DEFAULT_TIMEOUT
        source, value = "the environment variable FLEETMETRICS_TIMEOUT", text  # type: ignore[assignment]
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if isinstance(value, bool) or not 0 < seconds < math.inf:
        raise InvalidInputError(f"{source} is {value!r}; it must be a finite number of seconds greater than 0.")
    return min(seconds, _LONGEST)


def began(timeout: float | None, trouble: BaseException | None = None) -> tuple[Deadline, BaseException | None]:
    """The deadline of a call that begins now, or of the one that it is part of, and its trouble.

    Even a wrong timeout must reach the others, who are waiting: it is a trouble like one from before.
    """
    if isinstance(timeout, _Left):
        return timeout.deadline, trouble
    try:
        return Deadline(resolve_timeout(timeout)), trouble
    except InvalidInputError as error:
        return Deadline(_SECONDS_FOR_TROUBLE), trouble or error


def margin(timeout: float, round_trip: float = 0.0) -> float:
    """The seconds that a verdict needs to reach everybody, of a timeout and the round trips that were seen."""
    return min(max(min(1.0, 0.1 * timeout), 2 * round_trip), 0.2 * timeout)


def begun(work: Callable[[], Any]) -> futures.Future[Any]:
    """Run a function in a thread of its own, which the process does not wait for at its end."""
    outcome: futures.Future[Any] = futures.Future()

    def target() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=target, daemon=True, name="fleetmetrics").start()
    return outcome


def run_until(work: Callable[[], Any], seconds: float, label: str) -> Any:
    """Run a function that knows no deadline in a thread of its own; at the deadline it is left behind.

    Raises `DeadlineError`, which says what it does by its label, or what the function raises.
    """
    outcome = begun(work)
    if not futures.wait([outcome], max(0.0, seconds)).done:
        raise DeadlineError(f"the workers' collective was not ready within {seconds:.3g} s at {label}.")
    return outcome.result()
