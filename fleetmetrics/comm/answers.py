"""An answer of the other workers that the program does not wait for: a thread takes part in the call."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from typing import Any, Callable, Generic, TypeVar

from fleetmetrics.comm.communicator import Call
from fleetmetrics.errors import CommunicatorError, NotReadyError
from fleetmetrics.support.checks import number_of

__all__ = ["Answer"]

Value = TypeVar("Value", covariant=True)
_UNKNOWN = object()


class Answer(Generic[Value]):
    """The result of `fleetmetrics.Metric.compute_async`: the value, once the other workers have answered.

    The call has its number among the calls of the channel from the beginning, so later calls do not disturb it.

    Args:
        call: the call, which begins here.
        begin: copies what this worker sends, in this thread.
        exchange: exchanges the copy with the others, in a thread of its own.
        evaluate: the value from the exchanged, in the thread that asks for the result.

    Raises:
        CommunicatorError: the channel carries one call at a time; or as `Metric.compute` before it waits.
    """

    def __init__(
        self, call: Call, begin: Callable[[], None], exchange: Callable[[], Any], evaluate: Callable[[Any], Value]
    ) -> None:
        if not call.channel.overlaps:
            raise CommunicatorError(
                f"{call.name}: {type(call.channel).__name__} carries one call at a time, so no call can wait in the "
                "background; use compute, or the job's own channel: leave out util=, communicator=, "
                "set_communicator and FLEETMETRICS_ENGINE"
            )
        self._name, self._evaluate, self._process = call.name, evaluate, os.getpid()
        self._over, self._asking = threading.Event(), threading.Lock()
        self._error: BaseException | None = None
        self._exchanged: Any = None
        self._value: Any = _UNKNOWN
        call.__enter__()
        with contextlib.ExitStack() as ending:
            ending.push(call)  # until the thread takes over, an error ends the call here
            trouble = None
            try:
                begin()
            except Exception as error:  # the others must get it, which takes until they come
                trouble = error

            def wait() -> None:
                try:
                    with contextlib.ExitStack() as ending:
                        ending.push(call)
                        if trouble is not None:
                            raise trouble
                        self._exchanged = exchange()
                except BaseException as error:
                    self._error = error
                finally:
                    self._over.set()

            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(wait,), daemon=True, name="fleetmetrics answer")
            thread.start()
            ending.pop_all()
            call.channel.follow(thread)

    def done(self) -> bool:
        """Whether `result` returns, or raises, without waiting for other workers."""
        return self._over.is_set()

    def result(self, timeout: float | None = None) -> Value:
        """Return the value, waiting for it if necessary; again at each further call.

        Args:
            timeout: seconds to wait for it here; None: until the call's own deadline.

        Raises:
            FleetMetricsError: the error of the call, the same on every worker.
            NotReadyError: the answer has not come within ``timeout``; ask again.
            CommunicatorError: this is a forked child of the process that called.
        """
        seconds = None if timeout is None else min(number_of("timeout", timeout, 0.0), threading.TIMEOUT_MAX)
        if os.getpid() != self._process:
            raise CommunicatorError(
                f"{self._name} was called in process {self._process}, and this is its forked child {os.getpid()}; ask "
                "for the result in the process that called"
            )
        if not self._over.wait(seconds):
            raise NotReadyError(
                f"{self._name} has no answer after {seconds:g} s: some workers have not called it yet. Ask again; "
                "the call itself ends by its deadline"
            )
        if self._error is not None:
            raise self._error
        with self._asking:  # the value, and its warnings, come once
            if self._value is _UNKNOWN:
                self._value = self._evaluate(self._exchanged)
        value: Value = self._value
        return value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._name}, {'done' if self.done() else 'waiting'}>"
