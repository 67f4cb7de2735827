"""A deadline for what knows none."""

from __future__ import annotations

import threading
from typing import Any, Callable

from fleetmetrics.errors import DeadlineError

__all__ = ["run_until"]


def run_until(work: Callable[[], Any], seconds: float, label: str) -> Any:
    """Run a function that knows no deadline in a thread of its own, and stop waiting for it in time.

    Args:
        work: the function.
        seconds: how long to wait.
        label: what it does, for the error.

    Returns:
        What the function returns.

    Raises:
        DeadlineError: if it is not ready in time; the thread is left behind.
        Exception: what the function raises.
    """
    outcome: list[Any] = []

    def target() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=target, daemon=True, name="fleetmetrics")
    thread.start()
    thread.join(max(0.0, seconds))
    if not outcome:
        raise DeadlineError(f"the workers' collective was not ready within {seconds:.3g} s at {label}.")
    result, error = outcome[0]
    if error is not None:
        raise error
    return result
