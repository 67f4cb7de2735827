"""How long a call may wait."""

from __future__ import annotations

import math
import time
from numbers import Number
from typing import Any

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.environment import setting

__all__ = [
    "DEFAULT_TIMEOUT",
    "FIRST_TIMEOUT",
    "INTERACTIVE_TIMEOUT",
    "LONGEST",
    "SCRIPT_TIMEOUT",
    "Deadline",
    "began",
    "margin",
    "resolve_timeout",
]

#: Seconds that a call waits by default: once all workers have met, the default of torch.distributed, longer than any
#: skew of evaluations and shorter than a night; at their first meeting; in an interactive session; and at the
#: first meeting of scripts that workers have started: if only one has, it waits in vain.
DEFAULT_TIMEOUT, FIRST_TIMEOUT, INTERACTIVE_TIMEOUT, SCRIPT_TIMEOUT = 1800.0, 300.0, 60.0, 60.0
#: Seconds, 31 years; Python's locks and polls accept no number that is much larger.
LONGEST = 1e9
#: Seconds that a worker without a valid timeout waits until the others have its error.
_SECONDS_FOR_TROUBLE = 10.0


class Deadline:
    """The moment at which a call gives up: a number of seconds after its start.

    Args:
        timeout: this number of seconds, which errors name.
        remaining: the seconds that are left; None: all of them.
    """

    end: float
    timeout: float

    __slots__ = ("end", "timeout")

    def __init__(self, timeout: float, remaining: float | None = None) -> None:
        self.timeout = timeout
        self.end = time.monotonic() + (timeout if remaining is None else remaining)

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.end - time.monotonic())

    @property
    def left(self) -> float:
        """Seconds left for one more exchange; positive, like every timeout."""
        return max(self.remaining, 1e-3)


def resolve_timeout(timeout: float | None = None, default: float = DEFAULT_TIMEOUT) -> float:
    """The seconds to wait, up to 1e9: the argument, otherwise FLEETMETRICS_TIMEOUT, otherwise the default."""
    if timeout is not None:
        return _seconds("timeout", timeout, _number_in(timeout))
    text = setting("FLEETMETRICS_TIMEOUT")
    return _seconds("the environment variable FLEETMETRICS_TIMEOUT", text, text) if text else default


def _number_in(timeout: Any) -> Any:
    """A number, also one in an array without axes; nan for anything else, such as a text, a flag or a duration."""
    number = timeout[()] if isinstance(timeout, np.ndarray) and not timeout.ndim else timeout
    return number if isinstance(number, Number) and not isinstance(number, (bool, np.timedelta64)) else math.nan


def _seconds(source: str, value: Any, number: Any) -> float:
    """The seconds in a number; an error names where it comes from, and the value there."""
    try:
        seconds = float(number)
    except Exception:  # no number, one beyond float64, and whatever an object's __float__ raises
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InvalidInputError(f"{source} is {value!r:.80}; it must be a finite number of seconds greater than 0")
    return min(seconds, LONGEST)


def began(
    timeout: float | Deadline | None, trouble: BaseException | None = None, default: float = DEFAULT_TIMEOUT
) -> tuple[Deadline, BaseException | None]:
    """The deadline of a call that begins now, or of the call around it, and its trouble.

    Even an invalid timeout must reach the waiting workers, so it becomes the call's trouble like any earlier error.
    """
    if isinstance(timeout, Deadline):
        return timeout, trouble
    try:
        return Deadline(resolve_timeout(timeout, default)), trouble
    except InvalidInputError as error:
        return Deadline(_SECONDS_FOR_TROUBLE), trouble or error


def margin(timeout: float, round_trip: float = 0.0) -> float:
    """The seconds that a verdict needs to reach every worker, from the timeout and the measured round trips."""
    return min(max(min(1.0, 0.1 * timeout), 2 * round_trip), 0.2 * timeout)
