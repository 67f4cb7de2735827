"""The communicator of a launched job: its calls are exchanges through rank 0."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import itertools
import json
import math
import os
import sys
import threading
import time
import weakref
from collections import Counter
from typing import Any, Callable, NamedTuple

from fleetmetrics.comm import arrivals, folds, letters
from fleetmetrics.comm.client import Client
from fleetmetrics.comm.communicator import Call, Communicator, Decide, Letter
from fleetmetrics.comm.deadline import (
    DEFAULT_TIMEOUT,
    FIRST_TIMEOUT,
    INTERACTIVE_TIMEOUT,
    SCRIPT_TIMEOUT,
    Deadline,
    margin,
)
from fleetmetrics.comm.failures import (
    by_a_handler,
    calling,
    described,
    error_header,
    error_in,
    in_words,
    late_text,
    ranks_text,
    readable,
)
from fleetmetrics.comm.inbox import Inbox
from fleetmetrics.comm.job import Hidden, Job, job_of
from fleetmetrics.comm.message import ARRIVAL, CLOSED, ERROR, GAVE_UP, LEFT, LETTERS, STATUS, TROUBLE, Message, Place
from fleetmetrics.comm.server import Server
from fleetmetrics.comm.status import source_of, way_out
from fleetmetrics.comm.worker import is_script_of_worker, leave_mark, started_by_worker
from fleetmetrics.errors import CommunicatorError, DeadlineError, FleetMetricsError, InvalidInputError
from fleetmetrics.serial.descriptions import Buffer, joined
from fleetmetrics.support.logs import say, watch

__all__ = ["SocketCommunicator", "making"]

#: Seconds after which a waiting worker says whom it waits for: the first times, and then again and again.
_LINES = (10.0, 60.0, 300.0)
#: Seconds after its deadline in which rank 0's program waits for the verdict of its own thread.
_OWN_SECONDS = 1.0
#: If the report of an interruption is interrupted in turn, it is tried again.
_TRIES = range(20)


class _Exchange(NamedTuple):
    """An exchange for which this worker has sent its letter."""

    place: Place
    label: str
    deadline: Deadline
    decide: Decide
    payload: Buffer
    trouble: BaseException | None


class SocketCommunicator(Communicator):
    """The workers of one job, connected by sockets, with or without Paddle.

    It connects in the background. All communicators of a process that belong to one job share its port and its
    connections. Without arguments it takes its place from the launcher's environment; with ``rank``,
    ``world_size`` and ``endpoint`` it works in any job, such as Spark's barrier tasks or Ray's actors.

    Args:
        job: the place of this process; None: from the environment or the arguments below.
        rank: number of this worker, from 0.
        world_size: the number of workers.
        endpoint: "host:port" of rank 0, where it listens; the same on all workers.
        secret: a string that only the workers know; None: FLEETMETRICS_SECRET; without it, see the docs on security.
        channel: the name that distinguishes several communicators of one job; None if every worker creates them in the
            same order.

    Raises:
        InvalidInputError, NoChannelError, ServerProcessError: as `Job.from_environment`; also if rank, world_size or
            endpoint is missing or invalid.

    Examples:
        >>> SocketCommunicator(rank=1, world_size=4, endpoint="127.0.0.1:8500", secret="of this job").rank
        1
    """

    overlaps = True

    authenticated: bool
    rank: int
    world_size: int

    def __init__(
        self,
        job: Job | None = None,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        endpoint: str | None = None,
        secret: str | None = None,
        channel: str | None = None,
    ) -> None:
        secret = None if secret is None else _checked(secret)
        if channel is not None and not (isinstance(channel, str) and channel.isprintable()):
            raise InvalidInputError(f"channel must be a printable string or None, not {channel!r:.80}")
        if any(argument is not None for argument in (rank, world_size, endpoint)):
            job = Job.placed(rank, world_size, endpoint)
        job = Job.from_environment() if job is None else job_of(job)
        self._job = job if secret is None else job.with_secret(secret)
        with making:
            self._end = _end_of(self._job)
            if channel is None:
                _opened[self._job] += 1
                channel = f"own {_opened[self._job]}"
            self._open(channel, ())

    def _open(self, name: str, ranks: tuple[int, ...]) -> None:
        """Begin to count calls on a channel, of the whole job or of a group."""
        if (name, ranks) in self._end.channels:
            raise InvalidInputError(f"channel is {name!r}, which is open already; close it first, or give another name")
        self._name, self._ranks = name, ranks
        self.rank = ranks.index(self._job.rank) if ranks else self._job.rank
        self.world_size = len(ranks) or self._job.world_size
        self.authenticated = self._end.secret.known
        self._title = f"channel {name!r}"
        digest = hashlib.sha256(json.dumps([name, ranks, _opened[self._job, name, ranks]]).encode()).digest()
        _opened[self._job, name, ranks] += 1  # one that was closed had another number
        self._number = int.from_bytes(digest[:8], "big") or 1
        self._calls = itertools.count(1)
        self._groups: dict[tuple[int, ...], SocketCommunicator] = {}
        self._closed = False
        self._end.channels.add((name, ranks))
        self._watch = watch(self._job.rank)

    # -- calls

    def _enter(self, call: Call) -> None:
        """Begin a call, with the next number of this channel."""
        if _exchanging.label:
            raise CommunicatorError(
                f"{_exchanging.label} is not over: code that runs inside it, such as compute_metric, runs only on "
                f"{ranks_text([0])} and cannot call the other workers"
            )
        self._check()
        self._end.callers.add(threading.get_ident())
        call.numbers.extend(itertools.islice(self._calls, 1))  # in one step: a signal finds it done, or not begun

    def follow(self, thread: threading.Thread) -> None:
        """Count the thread among those that call, so that others do not take this worker's next call for its last."""
        self._end.callers.add(thread.ident or 0)

    def _default_timeout(self) -> float:
        if hasattr(sys, "ps1") or "ipykernel" in sys.modules:
            return INTERACTIVE_TIMEOUT
        if self._end.met:
            return DEFAULT_TIMEOUT
        return SCRIPT_TIMEOUT if is_script_of_worker(self._job) else FIRST_TIMEOUT

    def _check(self) -> None:
        if self._end.process != os.getpid():
            raise CommunicatorError(
                f"the workers' channel belongs to process {self._end.process}, and this is its forked child"
                f" {os.getpid()}; compute global metrics in the worker's main process only"
            )
        if self._closed:
            raise CommunicatorError("the workers' channel is closed; make a new communicator on every worker")
        starter = "" if self._end.met else started_by_worker(self._job)
        if starter:
            raise CommunicatorError(starter)
        if not self._end.met:
            leave_mark(self._job)
            self._end.warn_once()

    def _leave(self, call: Call, error: BaseException) -> None:
        """End a call with an error, of which the others learn unless they know it."""
        for step in range(1, call.step + 1):  # some may have begun without waiting for the answer
            self._end.forget((self._number, call.number, step))
        if not (getattr(error, "known_to_all", False) or self._closed or self._end.process != os.getpid()):
            self._tell(call, error)

    def _tell(self, call: Call, error: BaseException) -> None:
        """Tell the others of the error that has ended a call."""
        if isinstance(error, FleetMetricsError):
            shared = error
        else:
            label = letters.label_of(call.number, call.name, self._ranks)
            shared = CommunicatorError(
                f"{in_words([self._job.rank])} was interrupted ({type(error).__name__}) at {label}"
            )
        place = (self._number, call.number, max(1, call.step))
        message = Message(LEFT, *place, header=error_header(shared))
        end = time.monotonic() + _OWN_SECONDS
        end = min(end, call.deadline.end) if hasattr(call, "deadline") else end
        last: BaseException | None = None
        for _ in _TRIES:
            try:
                self._end.tell(message, end)
                break
            except BaseException as again:
                last = again
        if last is not None:
            raise last from error

    def _begin(
        self, call: Call, name: str, decide: Decide, mine: Letter, trouble: BaseException | None
    ) -> Callable[[], Letter]:
        """Send the letter of the next exchange of a call; the result waits for the answer."""
        [number], deadline = call.numbers, call.deadline
        place = (self._number, number, call.step)
        header_with = functools.partial(letters.header_of, folds.NAMES.get(decide, ""), self._ranks, self._title, name)
        header = header_with(mine.note if trouble is None else list(described(trouble)))
        try:
            letters.check_size(header)
        except CommunicatorError as error:
            header, trouble = header_with(list(described(error))), error
        kind, payload = (ARRIVAL, joined(mine.payload)) if trouble is None else (TROUBLE, b"")
        self._end.expect(place)
        self._end.ask(Message(kind, *place, header, payload, deadline.end, deadline.timeout, self._end.threads))
        exchange = _Exchange(place, letters.label_of(number, name, self._ranks), deadline, decide, payload, trouble)
        return functools.partial(self._answer, exchange)

    def _answer(self, exchange: _Exchange) -> Letter:
        """Wait for the answer of an exchange."""
        place, label, deadline, _, payload, trouble = exchange
        try:
            _exchanging.label = label
            reply = self._reply(exchange)
            if reply.kind == LETTERS:
                self._decide(exchange, reply)
                reply = self._reply(exchange)
        finally:
            _exchanging.label = ""
            self._end.forget(place)
        if self._watch is not None:
            answer = None if reply.kind == ERROR else reply.payload
            self._watch.over(label, payload, answer, deadline.timeout - deadline.remaining, reply.attendance)
        if reply.kind == ERROR:
            raise self._error_in(reply, trouble)
        return letters.read_each([reply], _answer_in)[0]

    def _error_in(self, reply: Message, trouble: BaseException | None) -> BaseException:
        """The error of an exchange, which all workers get."""
        if trouble is not None and by_a_handler(trouble):  # the others get it as this worker's error
            error: BaseException = trouble
        else:
            error, _ = error_in(reply.header)
            error.__cause__ = trouble
        _mark(error)
        return error

    def _reply(self, exchange: _Exchange) -> Message:
        """Wait for rank 0's reply to the letters of all."""
        place, label, deadline, *_ = exchange
        end, began, spare = self._end, time.monotonic(), margin(deadline.timeout, self._end.round_trip)
        says_at, gives_up_at, leaves_at = began + _LINES[0], deadline.end - spare, math.inf
        while True:
            reply = end.reply(place, min(says_at, gives_up_at, leaves_at))
            now = time.monotonic()
            if reply is not None and reply.kind != STATUS:
                return reply
            if reply is not None:
                say(f"{label} waits. {readable(reply.header.decode(errors='replace'))}")
            elif now >= leaves_at:
                raise DeadlineError(self._late(exchange))
            elif now >= gives_up_at:
                end.ask(Message(GAVE_UP, *place, header=self._late(exchange).encode(errors="replace")))
                # A process that was not scheduled says so late. It must still wait for rank 0's earlier answer, or
                # rank 0 has a number and this worker an error.
                # On rank 0 only this process's own thread can be late.
                gives_up_at, leaves_at = math.inf, max(deadline.end, now + (spare if self._job.rank else _OWN_SECONDS))
            elif now >= says_at:
                waited = now - began
                says_at = began + next((line for line in _LINES if line > waited), waited + _LINES[-1])
                self._ask_who_is_missing(exchange)

    def _ask_who_is_missing(self, exchange: _Exchange) -> None:
        """Print why there is no rank 0, or ask rank 0, whose reply is printed."""
        missing = self._end.missing()
        if missing:
            rank_0 = f"rank 0 of {self._job.world_size} workers ({source_of(self._job)})"
            say(f"{exchange.label} waits: {rank_0} is not connected. {missing}{way_out(self._job)}")
        else:
            self._end.ask(Message(STATUS, *exchange.place))

    def _late(self, exchange: _Exchange) -> str:
        """The error of a worker that gets no reply."""
        missing, timeout = self._end.missing(), exchange.deadline.timeout
        if not missing:
            return late_text([0], "answer", timeout, exchange.label)
        how = "connect" if self._job.rank else "listen"
        return f"{late_text([0], how, timeout, exchange.label)}. {missing}{way_out(self._job)}"

    def _decide(self, exchange: _Exchange, reply: Message) -> None:
        """Decide on the letters of all, as the first rank, and send the answer, or the error."""
        with calling(self._ranks):
            try:
                answer = arrivals.decided(exchange.decide, arrivals.arrivals_in(reply), reply.call)
            except Exception as error:
                if by_a_handler(error) and not isinstance(error, FleetMetricsError):
                    raise
                shared = self._shared(error)
                self._end.ask(Message(LEFT, *exchange.place, header=error_header(shared)))
                _mark(shared)
                if shared is error:
                    raise
                raise shared from error
        self._end.ask(arrivals.answer_with(exchange.place, answer))

    def _shared(self, error: Exception) -> FleetMetricsError:
        """The error of a decision, as all workers get it."""
        if isinstance(error, FleetMetricsError):
            return error
        return CommunicatorError(readable(f"{ranks_text([0])} failed to combine: {type(error).__name__}: {error}"))

    # -- groups, and the end

    def listen(self) -> None:
        """Let rank 0 listen now, before the first call; raises `NoChannelError` if it cannot."""
        assert isinstance(self._end, Server)
        self._end.listen()

    @property
    def job(self) -> Job:
        """The place of this process."""
        return self._job

    def connect(self) -> None:
        """Connect in the background, before the first call."""
        self._end.start()

    def among(self, group: Any) -> Communicator:
        """The channel of some of the job's workers; see `Communicator.among`."""
        if group is not None and self._ranks:
            raise InvalidInputError(
                f"communicator already belongs to the group of {in_words(self._ranks)}; leave group out, or give the "
                "communicator of the whole job"
            )
        return super().among(group)

    def _among(self, ranks: tuple[int, ...]) -> Communicator:
        with making:
            group = self._groups.get(ranks)
            if group is None or group._closed:
                group = self._groups[ranks] = SocketCommunicator.__new__(SocketCommunicator)
                group._job, group._end = self._job, self._end
                group._open(self._name, ranks)
            return group

    def close(self) -> None:
        """Close the channel and those of its groups; a second call, or one in a forked child, does nothing."""
        for group in self._groups.values():
            group.close()
        if self._closed or self._end.process != os.getpid():
            return
        self._closed = True
        self._end.ask(Message(CLOSED, self._number))
        self._end.channels.discard((self._name, self._ranks))
        if not self._end.channels:
            self._end.close()


def _answer_in(reply: Message) -> Letter:
    if reply.kind in (LEFT, LETTERS):  # the inbox gets no others
        raise ValueError(f"its kind is {reply.kind}")
    return Letter(letters.note_in(reply.header.decode("utf-8", "surrogatepass")), reply.payload)


class _Exchanging(threading.local):
    """The exchange that this thread is in, in words."""

    label = ""


_exchanging = _Exchanging()
_ends: weakref.WeakValueDictionary[Job, Inbox] = weakref.WeakValueDictionary()
#: Held while a thread creates what all threads of this process share: two ends of one worker would be rivals. A
#: thread that forks holds it, so that it is free in the child.
making: threading.RLock = threading.RLock()
#: How often this process has opened channels of a job: those without a name, and each of the others.
_opened: Counter[Any] = Counter()


def _end_of(job: Job) -> Inbox:
    end = _ends.get(job)
    if end is None or end.process != os.getpid() or end.closed:
        end = _ends[job] = Server(job) if job.rank == 0 else Client(job)
    return end


def _forget() -> None:
    """Drop the connections in a forked child: it may outlive its parent, and they must end with the parent."""
    for end in _ends.values():
        end.drop()
    _opened.clear()  # the child may go on as the worker


@atexit.register
def _see_off() -> None:
    for end in list(_ends.values()):
        if end.process == os.getpid() and not end.closed:
            end.see_off()


os.register_at_fork(before=making.acquire, after_in_parent=making.release, after_in_child=making.release)
os.register_at_fork(after_in_child=_forget)


def _mark(error: BaseException) -> None:
    """Note that the other workers know of this error."""
    with contextlib.suppress(AttributeError, TypeError):
        error.known_to_all = True  # type: ignore[attr-defined]


def _checked(secret: Any) -> Hidden:
    if not isinstance(secret, str) or not secret:
        raise InvalidInputError(f"secret is {type(secret).__name__}; it must be a non-empty string")
    try:
        secret.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise InvalidInputError("secret has a lone surrogate; it must be a string that UTF-8 can hold") from None
    return Hidden(secret)
