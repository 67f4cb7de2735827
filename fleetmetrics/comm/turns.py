"""Threads of one process take turns on the star, in the order of their arrival."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import Callable, TypeVar

from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.errors import DeadlineError

__all__ = ["Turn", "Turns"]

#: Seconds between a waiting thread's own checks of its turn.
_LOOK_SECONDS = 0.2
_T = TypeVar("_T")


class Turn:
    """A thread in the queue.

    Args:
        skip: called with the error in this thread's turn, if the thread has left the queue before.
    """

    bell: threading.Lock
    thread: int

    def __init__(self, skip: Callable[[BaseException], None]) -> None:
        self.thread = threading.get_ident()
        self.skip = skip
        self.begun = False  # whether its call counts as begun
        self.made = 0  # the last result of its call, once the call is over; see `Member.made`
        self.gone: BaseException | None = None  # why it left the queue before its turn
        self.bell = threading.Lock()
        self.bell.acquire()


class Turns:
    """The queue of threads; the first one is in a call."""

    def __init__(self) -> None:
        self.line: deque[Turn] = deque()
        self._mutex = threading.Lock()

    @property
    def first(self) -> Turn:
        """The current turn; call this only during one."""
        return self.line[0]

    @property
    def inside(self) -> bool:
        """Whether the current turn is this thread's."""
        try:
            return self.line[0].thread == threading.get_ident()
        except IndexError:
            return False

    def take(self, turn: Turn, work: Callable[[], _T], deadline: Deadline, call: str) -> _T:
        """Run a function as soon as it is this thread's turn; do not call this inside a turn.

        Args:
            turn: a new one.
            work: the function; no other thread runs one meanwhile.
            deadline: limits the wait for the others.
            call: the name of the call, for errors.

        Raises:
            DeadlineError: the other threads are not ready in time.
        """
        try:
            self.line.append(turn)
            if self.line[0] is not turn:
                self._wait(turn, deadline, call)
            return work()
        finally:
            # remove it first: a signal handler may raise after any call
            if turn.gone is None and turn in self.line:
                self.line.remove(turn)
            if self.line:
                self._next()

    def _wait(self, turn: Turn, deadline: Deadline, call: str) -> None:
        try:
            while self.line[0] is not turn:
                if not deadline.remaining:
                    raise DeadlineError(
                        f"another thread's calls did not end within {deadline.timeout:g} s at {call}; the threads of "
                        "a worker take turns."
                    )
                turn.bell.acquire(timeout=min(_LOOK_SECONDS, deadline.left))
        except BaseException as error:
            turn.gone = error
            raise

    def _next(self) -> None:
        """Wake the first thread of the queue; a thread that has left it has had its turn."""
        with self._mutex, contextlib.suppress(IndexError):  # another thread may have left in the meantime
            while True:
                first = self.line[0]
                if first.gone is None:
                    with contextlib.suppress(RuntimeError):  # it is awake
                        first.bell.release()
                    return
                first.skip(first.gone)
                self.line.popleft()
