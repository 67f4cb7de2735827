"""Where a process's threads meet its end of the channel: they leave messages, and wait for the replies.

The thread of that end is the only one that touches sockets, so no signal interrupts one. A signal interrupts the
program's threads only here: in an append to a deque, a write to a pipe, or a wait for a `SimpleQueue`, which all leave
what they touch whole.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import threading
import time
import weakref
from typing import Callable

from fleetmetrics.comm.failures import error_header, in_words, readable
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import ERROR, Message, Place, Poll, pipe
from fleetmetrics.comm.secret import Secret, secret_of, warn_if_unauthenticated
from fleetmetrics.errors import CommunicatorError
from fleetmetrics.support.logs import logger

__all__ = ["Inbox"]


class Inbox:
    """A process's end of the channel: the base of rank 0's, and of the others'.

    Args:
        job: the place of this process.
    """

    closed: bool
    process: int
    round_trip: float
    secret: Secret

    def __init__(self, job: Job) -> None:
        self.job = job
        self.secret = secret_of(job)
        self.process = os.getpid()
        self.closed = False
        self.channels: set[tuple[str, tuple[int, ...]]] = set()  # the open ones, by name and group
        self._has_warned = False
        self.met = False  # whether an exchange has ended with a result
        self.round_trip = 0.0  # seconds to rank 0 and back
        self._asked: collections.deque[Message] = collections.deque()
        self._replies: dict[Place, queue.SimpleQueue[Message]] = {}
        self.callers: set[int] = set()  # the threads that have called
        self._over = b""  # once the thread has ended: the error of every call
        self._poll = Poll()
        try:
            self._woken, self._wakes = pipe()
        except OSError as error:
            raise CommunicatorError(
                f"the workers' channel cannot open a pipe ({error.strerror}): close files, or raise ulimit -n"
            ) from None
        self._close_pipe = weakref.finalize(self, _close, self._woken, self._wakes)  # if no thread was ever started
        self._close_pipe.atexit = False
        self._poll.register(self._woken)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    # The program's threads

    def start(self) -> None:
        """Start the thread of this end."""
        with self._starting:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._main, daemon=True, name="fleetmetrics")
            try:
                thread.start()
            except RuntimeError as error:
                raise CommunicatorError(f"the workers' channel cannot start its thread: {error}") from None
            self._thread = thread

    def warn_once(self) -> None:
        """Warn at the first call if the run has no name, or no secret."""
        if not self._has_warned:
            self._has_warned = True
            self.job.warn_if_unnamed()
            warn_if_unauthenticated(self.job, self.secret)

    def ask(self, message: Message) -> None:
        """Leave a message for the thread of this end."""
        self._asked.append(message)
        if self._thread is None:
            self.start()
        if self._over:
            self._put(Message(ERROR, *message.place, header=self._over))
        self._wake()

    def expect(self, place: Place) -> None:
        """Begin to wait for replies about an exchange."""
        self._replies.setdefault(place, queue.SimpleQueue())

    def reply(self, place: Place, end: float) -> Message | None:
        """The next reply; None: none by then."""
        try:
            return self._replies[place].get(timeout=max(0.0, min(end - time.monotonic(), threading.TIMEOUT_MAX)))
        except queue.Empty:
            return None

    def forget(self, place: Place) -> None:
        """End waiting."""
        self._replies.pop(place, None)

    def tell(self, message: Message, end: float) -> None:
        """Leave a message, and wait until rank 0 has heard it; at most until ``end``, and only if it is connected."""
        try:
            self.expect(message.place)
            self.ask(message)
            while not self.missing():
                reply = self.reply(message.place, end)
                if reply is None or reply.kind in (message.kind, ERROR):
                    break
        finally:
            self.forget(message.place)

    @property
    def threads(self) -> tuple[int, bool]:
        """The number of threads that have called, this one included, and live; and whether others live, too."""
        own = self._thread.ident if self._thread is not None else 0
        alive = {thread.ident for thread in threading.enumerate()} - {own}
        callers = len(alive & self.callers)
        return min(callers, 255), callers < len(alive)

    def missing(self) -> str:
        """Why there is no connection to rank 0, in words; "" with one."""
        return ""

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is full, so the thread will wake; or closed
            os.write(self._wakes, b".")

    # The thread of this end

    def _main(self) -> None:
        """Run; whatever ends this thread is an error of every call that waits, and of later ones."""
        why = "the workers' channel was closed while this call waited; make a new communicator on every worker"
        try:
            self._run()
        except Exception as error:
            why = self._failed_text(error)
        finally:
            self._over = error_header(CommunicatorError(why), broken=True)
            self._put_error(self._over)
            with contextlib.suppress(Exception):
                self._shut()
            self.drop()

    def _run(self) -> None:
        raise NotImplementedError

    def _shut(self) -> None:
        """Take leave of the other ends."""

    def _failed_text(self, error: Exception) -> str:
        """The text for an error in this thread that nothing explains; its traceback is logged."""
        logger.error("fleetmetrics: the thread of the workers' channel failed", exc_info=error)
        who, what = in_words([self.job.rank]), readable(f"{type(error).__name__}: {error}")
        return f"the channel of {who} failed ({what}). Look at its log, and start all workers again"

    def _read_wake(self) -> None:
        """Forget that this thread was woken; call it before `_take_asked`."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)

    def _take_asked(self, handle: Callable[[Message], None]) -> None:
        """Handle what the program's threads have left; see `see_off`, which waits until nothing is left."""
        while self._asked:
            try:
                handle(self._asked[0])
            finally:
                self._asked.popleft()  # not before: a process may end once nothing is left

    def _put(self, message: Message) -> None:
        """Reply to the program's thread that waits at this place; nothing happens if none waits."""
        replies = self._replies.get(message.place)
        if replies is not None:
            replies.put(message)

    def _put_error(self, header: bytes) -> None:
        """Reply with an error to every waiting thread."""
        for place in list(self._replies):
            self._put(Message(ERROR, *place, header=header))

    # At the end

    def see_off(self) -> None:
        """Let the thread of this end finish, before the process ends."""

    def close(self) -> None:
        """End the channel; the others learn that it was closed."""
        self.closed = True
        self._wake()
        if self._thread is not None:
            self._thread.join(1.0)

    def drop(self) -> None:
        """Close the descriptors and send nothing, as in a forked child: connections must end with the parent."""
        self._poll.close()
        self._woken = self._wakes = -1  # another file may get the numbers
        self._close_pipe()


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
