"""The communicator of a launched job: a star of sockets around rank 0."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import threading
import weakref
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Callable, Sequence, TypeVar

from fleetmetrics.comm.blocks import answered, read_each
from fleetmetrics.comm.communicator import Communicator, Decide, Letter
from fleetmetrics.comm.deadline import Deadline, began
from fleetmetrics.comm.failures import by_a_handler, called_now, calling, described, ranks_text
from fleetmetrics.comm.frames import ANSWER, ARRIVAL, TROUBLE, Frame, joined
from fleetmetrics.comm.hub import Hub
from fleetmetrics.comm.job import Hidden, Job, job_of, split_endpoint
from fleetmetrics.comm.star import TRIES, Member, Spoke
from fleetmetrics.comm.turns import Turn
from fleetmetrics.errors import CommunicatorError, FleetMetricsError, InvalidInputError

__all__ = ["SocketCommunicator"]

#: Seconds to wait for the calls of other threads before leaving an interrupted call.
_SECONDS_TO_LEAVE = 10.0
_LINE_BREAKS = re.compile(r"[\r\n]")
_T = TypeVar("_T")
_Found = TypeVar("_Found")
#: Rank 0's stars with a running formula in this thread: a formula may compute over another star, such as a group's.
_computing: ContextVar[tuple[Member, ...]] = ContextVar("computing", default=())
#: The attribute of errors with which a worker has left a call.
_MARK = "_fleetmetrics_left"
#: The header of an answer without a note.
_NO_NOTE = b"\n"


class SocketCommunicator(Communicator):
    """The workers of one job, connected by sockets, with or without Paddle.

    It connects at the first call. All communicators of a process that belong to one job share its port and its
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
        if any(each is not None for each in (rank, world_size, endpoint)):
            job = _job_of(rank, world_size, endpoint)
        job = Job.from_environment() if job is None else job_of(job)
        self._job = job if secret is None else replace(job, secret=secret)
        self.rank, self.world_size = job.rank, job.world_size
        with making:
            self._star = _star_of(self._job)
            self._channel = self._star.open(channel)
        self.authenticated = self._star.secret.known
        self._groups: dict[tuple[int, ...], SocketCommunicator] = {}

    def evaluated(
        self,
        call: str,
        exchanges: Callable[[Deadline, BaseException | None], _Found],
        formula: Callable[[_Found], _T],
        timeout: float | Deadline | None = None,
        trouble: BaseException | None = None,
    ) -> _T:
        """Run exchanges and a formula of their outcome; see `Communicator.evaluated`.

        Rank 0 computes while the answer reaches the others, unless another thread could wait for its turn.
        """
        star, channel = self._star, self._channel

        def work(deadline: Deadline, trouble: BaseException | None) -> tuple[_Found, int, list[_T]]:
            found = exchanges(deadline, trouble)
            if self.rank or threading.active_count() > 1:
                star.settle()
                return found, channel.made, []
            token = _computing.set((*_computing.get(), star))
            try:
                return found, 0, [formula(found)]
            finally:
                _computing.reset(token)

        found, made, value = self.together(call, work, timeout, trouble)
        try:
            return value[0] if value else formula(found)
        except BaseException as error:
            _mark(error)
            star.take_back(made)
            raise

    def together(
        self,
        call: str,
        work: Callable[[Deadline, BaseException | None], _T],
        timeout: float | Deadline | None = None,
        trouble: BaseException | None = None,
    ) -> _T:
        """Run a whole call in this thread's turn; see `Communicator.together`."""
        star, channel = self._star, self._channel
        turn: Turn | None = None
        try:
            if star.within(channel):
                return work(*began(timeout, trouble))
            self._check()
            if star.turns.inside:
                return star.call(channel, call, lambda: work(*began(timeout, trouble)))
            deadline, trouble = began(timeout, trouble)
            turn = Turn(lambda error: star.skip(channel, call, error))
            return self._in_turn(
                turn, lambda: star.call(channel, call, lambda: work(deadline, trouble)), deadline, call
            )
        except FleetMetricsError:
            raise
        except BaseException as error:
            last = self._leave(call, turn, error)
            if turn is not None:
                star.take_back(turn.made)
            if last is error:
                raise
            raise last from error

    def left(self, call: str, error: BaseException) -> None:
        """Count a call that an error ended before it began; see `Communicator.left`."""
        if not hasattr(error, _MARK) and self._star.process == os.getpid() and not self._channel.closed:
            self._leave(call, None, error)

    def _leave(self, call: str, turn: Turn | None, error: BaseException) -> BaseException:
        """Leave a call with an error, unless it was left; return the last error if interruptions follow each other."""
        star, channel, last = self._star, self._channel, error

        def interrupted() -> None:
            raise error

        for _ in TRIES:
            try:
                if star.turns.inside or (turn is not None and (turn.begun or turn.gone is not None)):
                    break
                turn = Turn(lambda error: star.skip(channel, call, error))
                self._in_turn(turn, lambda: star.call(channel, call, interrupted), Deadline(_SECONDS_TO_LEAVE), call)
            except BaseException as again:
                last = again
        _mark(last)
        return last

    def _in_turn(self, turn: Turn, work: Callable[[], _T], deadline: Deadline, call: str) -> _T:
        if called_now() == self._job.ranks:
            return self._star.turns.take(turn, work, deadline, call)
        with calling(self._job.ranks):
            return self._star.turns.take(turn, work, deadline, call)

    def _consult(
        self, call: str, decide: Decide, mine: Letter, deadline: Deadline, trouble: BaseException | None
    ) -> Letter:
        """Take part in one exchange, alone among the threads of this process."""
        star, channel = self._star, self._channel
        self._settle_others()
        star.settle()
        channel.place = number, step = channel.next
        label = star.label_of(number, call)
        if trouble is None:
            frame = Frame(ARRIVAL, number, _header(call, mine.note), mine.payload)
        else:
            frame = Frame(TROUBLE, number, json.dumps(described(trouble)).encode())
        frame.channel, frame.step, frame.made = channel.number, step, star.made
        frame.remaining, frame.timeout = deadline.remaining, deadline.timeout

        def combine(frames: Sequence[Frame]) -> Frame:
            frames[0].payload = joined(frames[0].payload)  # the others' letters have arrived, each in one buffer
            calls, notes = zip(*_read_all([frame.header for frame in frames]))
            letters = [Letter(note, each.payload) for note, each in zip(notes, frames)]
            answer = answered(decide, number, calls, letters)
            return Frame(ANSWER, number, _header("", answer.note), joined(answer.payload), channel.number, step=step)

        answer = None
        try:
            star.inside = threading.get_ident(), label
            answer = star.exchange(channel, frame, label, combine, deadline)
        except FleetMetricsError as error:
            if by_a_handler(trouble):  # the others get it as this worker's error
                assert trouble is not None
                raise trouble from None
            raise error from trouble
        finally:
            star.inside = 0, ""
            if star.watch is not None:
                told = None if answer is None else answer.payload
                star.watch.over(label, frame.payload, told, deadline.timeout - deadline.remaining)
        told = None if answer.header == _NO_NOTE else read_each([answer.header], _read)[0][1]
        return Letter(told, joined(answer.payload))

    def _settle_others(self) -> None:
        """Settle the last exchange of a different star, if its formula computes over this one."""
        for star in _computing.get():
            if star is not self._star:
                star.settle()

    def listen(self) -> None:
        """Let rank 0 listen now, before the first call; raises `NoChannelError` if it cannot."""
        assert isinstance(self._star, Hub)
        self._star.listen()

    def miss(self, call: str, error: BaseException) -> None:
        """Count an exchange that this worker gave up before it found rank 0; the others get the reason."""
        self._star.skip(self._channel, call, error)

    def among(self, group: Any) -> Communicator:
        """The channel of some of the job's workers; see `Communicator.among`."""
        if group is not None and self._job.ranks:
            raise InvalidInputError(
                f"communicator already belongs to {self._job.group}; leave group out, or give the communicator of the "
                "whole job."
            )
        self._star.grouped |= group is not None
        return super().among(group)

    def _among(self, ranks: tuple[int, ...]) -> Communicator:
        with making:
            found = self._groups.get(ranks)
            if found is None or found._channel.closed:
                found = SocketCommunicator(self._job.among(ranks), channel=self._channel.name)
                self._groups[ranks] = found
            return found

    def close(self) -> None:
        """Close the channel and those of its groups; a second call, or one in a forked child, does nothing."""
        for group in self._groups.values():
            group.close()
        if not self._channel.closed and self._star.process == os.getpid():
            self._star.shut(self._channel)

    def _check(self) -> None:
        if self._star.process != os.getpid():
            raise CommunicatorError(
                f"the workers' channel belongs to process {self._star.process}, and this is its forked child"
                f" {os.getpid()}; compute global metrics in the worker's main process only."
            )
        if self._star.inside[0] == threading.get_ident():
            raise CommunicatorError(
                f"{self._star.inside[1]} is not over: code that runs inside it, such as compute_metric, runs only on "
                f"{ranks_text([0])} and cannot call the other workers."
            )
        if self._channel.closed:
            raise CommunicatorError("the workers' channel is closed; make a new communicator on every worker.")
        self._star.check_place()
        if self._star.broken:
            raise CommunicatorError(f"the workers' channel is broken since an earlier call: {self._star.broken}")


_stars: weakref.WeakValueDictionary[Job, Member] = weakref.WeakValueDictionary()
#: Held while a thread creates what all threads of this process share: two stars of one worker would be rivals. A
#: thread that forks holds it, so that it is free in the child.
making: threading.RLock = threading.RLock()


def _mark(error: BaseException) -> None:
    with contextlib.suppress(AttributeError, TypeError):
        setattr(error, _MARK, True)


def _forget() -> None:
    """Drop the connections in a forked child: it may outlive its parent, and they must end with the parent."""
    for star in _stars.values():
        star.close()


os.register_at_fork(before=making.acquire, after_in_parent=making.release, after_in_child=making.release)
os.register_at_fork(after_in_child=_forget)


def _star_of(job: Job) -> Member:
    star = _stars.get(job)
    if star is None or star.process != os.getpid() or star.closed:
        star = _stars[job] = Hub(job) if job.rank == 0 else Spoke(job)
    return star


def _job_of(rank: int | None, world_size: int | None, endpoint: str | None) -> Job:
    for name, value, lowest in (("world_size", world_size, 1), ("rank", rank, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
            raise InvalidInputError(
                f"{name} is {value!r}; give rank, world_size and endpoint together: whole numbers from 0 and from 1, "
                'and "host:port" of rank 0.'
            )
    assert rank is not None and world_size is not None
    if rank >= world_size:
        raise InvalidInputError(f"rank is {rank}; with world_size {world_size} it must be from 0 to {world_size - 1}.")
    if not isinstance(endpoint, str):
        raise InvalidInputError(f'endpoint is {endpoint!r}; it must be "host:port" of rank 0.')
    split_endpoint(endpoint, "endpoint")
    secret, bind = Hidden(os.environ.get("FLEETMETRICS_SECRET", "")), os.environ.get("FLEETMETRICS_BIND", "").strip()
    return Job(rank, world_size, endpoint=endpoint.strip(), secret=secret, bind=bind)


def _checked(secret: Any) -> Hidden:
    if not isinstance(secret, str) or not secret:
        raise InvalidInputError(f"secret is {type(secret).__name__}; it must be a non-empty string.")
    try:
        secret.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise InvalidInputError("secret has a lone surrogate; it must be a string that UTF-8 can hold.") from None
    return Hidden(secret)


def _header(call: str, note: Any) -> bytes:
    """The call in the first line, then the note as JSON, or unchanged if it is a string."""
    if note is None or isinstance(note, str):
        return _text_header(call, note)
    return _joined_header(call, f"json {json.dumps(note)}")


@functools.lru_cache(maxsize=256)
def _text_header(call: str, note: str | None) -> bytes:
    return _joined_header(call, "" if note is None else f"text {note}")


def _joined_header(call: str, body: str) -> bytes:
    return f"{_LINE_BREAKS.sub(' ', call)}\n{body}".encode("utf-8", "surrogatepass")


def _read_all(headers: Sequence[bytes]) -> list[tuple[str, Any]]:
    """Read the workers' headers; equal ones, the usual case, are read once."""
    if headers.count(headers[0]) == len(headers) and b"\njson " not in headers[0]:
        return read_each(headers[:1], _read) * len(headers)
    return read_each(headers, _read)


def _read(header: bytes) -> tuple[str, Any]:
    call, _, body = header.decode("utf-8", "surrogatepass").partition("\n")
    if not body:
        return call, None
    return call, body[5:] if body.startswith("text ") else json.loads(body[5:])
