"""The star around rank 0: the base of its members, and a worker's side."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import replace
from typing import Callable, Sequence, TypeVar

from fleetmetrics import identity
from fleetmetrics.comm import rivals
from fleetmetrics.comm.boards import Notice, Search
from fleetmetrics.comm.deadline import LONGEST, Deadline, margin
from fleetmetrics.comm.failures import described, late_text, named_error, ranks_text, readable
from fleetmetrics.comm.finding import NotFound, connect
from fleetmetrics.comm.frames import (
    ACK,
    ANSWER,
    CLOSED,
    ERROR,
    GAVE_UP,
    LEFT,
    NEVER,
    TROUBLE,
    Frame,
    Garbled,
    Lost,
    Place,
    Poll,
    Stream,
)
from fleetmetrics.comm.handshake import REFUSAL_SECONDS
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.secret import Secret, secret_of
from fleetmetrics.comm.turns import Turn, Turns
from fleetmetrics.errors import AgreementError, CommunicatorError, DeadlineError, FleetMetricsError
from fleetmetrics.logs import Watch, watch

__all__ = ["ACKNOWLEDGING", "TRIES", "Combine", "Member", "Spoke", "error_frame", "error_in"]

#: The number of workers, from rank 1, that confirm the answer at once; the others do so with their next frame.
ACKNOWLEDGING = 8
#: If the report of an interruption is interrupted in turn, it is tried again.
TRIES = range(20)

#: The number of frames that a worker reads before it checks the clock again.
_FRAMES_AT_ONCE = 64
_T = TypeVar("_T")
#: Computes the answer from the arrival frames by rank; runs on rank 0 only, so that all get the same bits.
Combine = Callable[[Sequence[Frame]], Frame]


class Channel:
    """One communicator's calls on the star; a call has one or more exchanges.

    Workers count calls and, in each call, its exchanges. So a worker that leaves a call between two exchanges, or
    before the first one, is in step with the others again at the next call.
    """

    before: Place
    name: str
    number: int
    over: Place
    place: Place
    title: str
    told: Place

    def __init__(self, name: str) -> None:
        self.number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") or 1
        self.name, self.title = name, f"channel {name!r}"
        self.closed = False
        #: The last exchange that began here, and the last one before the current call.
        self.place = self.before = NEVER
        #: The last exchange that ended here, and the last one whose end here the others know.
        self.over = self.told = NEVER
        self.made = 0  # the last result of the current call, in rank 0's count; 0: none yet
        self.turn: Turn | None = None  # that of the current call

    @property
    def calls(self) -> int:
        """The number of calls."""
        return self.place[0]

    @property
    def next(self) -> Place:
        """The next exchange if the current call continues."""
        calls, step = self.place
        return (calls + 1, 1) if self.place == self.before else (calls, step + 1)

    @property
    def open(self) -> Place:
        """The exchange in which the others wait if this worker leaves the current call."""
        return self.next if self.place in (self.before, self.over) else self.place


class Member(ABC):
    """One worker's side of the star, shared by all communicators of the process."""

    closed: bool
    grouped: bool
    joined: bool
    label: str
    made: int
    process: int
    turns: Turns

    def __init__(self, job: Job) -> None:
        self.job = job
        self.secret: Secret = secret_of(job)
        self.channels: dict[int, Channel] = {}
        self.grouped = bool(job.ranks)  # whether this process calls groups of the job
        self.search: Search | None = None  # for workers that wait in another group
        _members.add(self)
        self.broken = ""
        self.closed = False
        self.process = os.getpid()
        self._open = 0
        self.turns = Turns()
        #: In rank 0's count, the last exchange of any channel that ended here with a result, or with the error that the
        #: workers have parted; and its name in errors while it may have ended differently on another worker.
        self.made, self.label = 0, ""
        # whether an exchange of this run has ended with a result, or there are no other workers
        self.joined = job.world_size == 1 or (bool(job.ranks) and identity.has_joined(job.claim))
        self.inside: tuple[int, str] = (0, "")  # the thread in an exchange, and the exchange
        self.watch: Watch | None = watch(job.rank, job.ranks)  # logs each exchange, if logging is on
        self._placed = False  # whether it was checked that no other process is this worker
        self._looked = 0.0  # when it first looked for rivals
        self._show()

    def _show(self) -> None:
        """Show the other processes of this machine this worker's place; members of a group have already done so."""
        if self.job.claimed:
            identity.stake()
        if not self.joined and not self.job.ranks and (identity.has_joined(self.job.claim) or not self.job.claimed):
            identity.show(self.job.claim, identity.WAITING)

    def label_of(self, number: int, call: str) -> str:
        """The name of a channel's exchange in errors."""
        return f"exchange {number} ({call})" + (f" in {self.job.group}" if self.job.ranks else "")

    def open(self, name: str | None) -> Channel:
        """Return a channel of this name; None: the next one of this process."""
        self._open += 1
        _opened[self.job] += name is None
        channel = Channel(f"own {_opened[self.job]}" if name is None else name)
        self.channels[channel.number] = channel
        return channel

    def within(self, channel: Channel) -> bool:
        """Whether this thread is between two exchanges of a call: its calls then belong to that call."""
        return (
            channel.turn is not None
            and channel.turn.thread == threading.get_ident()
            and not self.inside[0]
            and not self.broken
            and self.process == os.getpid()
        )

    def call(self, channel: Channel, name: str, work: Callable[[], _T]) -> _T:
        """Run the exchanges of one call in this thread's turn.

        The function computes with rank 0's last answer while the others receive it.

        Args:
            channel: the channel of the call.
            name: of the call, for errors.
            work: makes the exchanges. If it raises, the others get the error that this worker has left the call.

        Returns:
            The result of the function.
        """
        turn = self.turns.first
        turn.begun = True
        channel.before, channel.made, channel.turn = channel.place, 0, turn
        try:
            found = work()
            self.settle()
            turn.made = channel.made
            return found
        except BaseException as error:
            last = error
            for _ in TRIES:
                try:
                    self._leave(channel, name, error)
                    self.take_back(channel.made)
                    break
                except FleetMetricsError:
                    raise
                except BaseException as again:  # another interruption, while the others still wait for the error
                    last = again
            if last is error:
                raise
            raise last from error
        finally:
            channel.turn = None

    def _leave(self, channel: Channel, name: str, error: BaseException) -> None:
        """Leave a call with an error, and notify the others unless they know; may run twice."""
        if channel.told == channel.place != channel.before:
            return
        channel.place = channel.open
        self._say_left(channel, name, error)
        channel.told = channel.place

    @abstractmethod
    def _say_left(self, channel: Channel, name: str, error: BaseException) -> None:
        """Notify the others that this worker has left the call at the channel's place."""

    def take_back(self, made: int) -> None:
        """Withdraw a result that did not become the call's; the next exchange names the workers that have it."""
        if made and self.made == made:
            self.made, self.label = made - 1, ""

    def searching(self, channel: Channel, call: int, label: str, poll: Poll | None = None) -> Search | None:
        """The search for workers that wait in another group, if there are groups; ``poll`` is that of rank 0."""
        if not self.grouped:
            return None
        label += "" if self.job.ranks else " of all workers"
        alone = threading.active_count() == 1
        mine = Notice(self.job.rank_in_job, self.job.ranks, label, channel.number, call, alone)
        return Search(self.job, self.secret.key, mine, _calls, poll)

    def shut(self, channel: Channel) -> None:
        """Close a channel, and the star with the last one; notify the others."""
        channel.closed = True
        self._open -= 1
        if not self.broken:
            self.tell_all(Frame(CLOSED, channel.calls, channel=channel.number, step=channel.place[1]))
        if not self._open:
            if not self.broken:
                self.tell_all(Frame(CLOSED, 0))
            self.closed = True
            self.close()
            if not self.job.claimed and not self.job.ranks:
                identity.hide(self.job.claim)

    def check_place(self) -> None:
        """Raise if this process is not a worker, or may be a worker of another run; not once it has met the others."""
        if self.joined:
            return
        if not self._placed:
            self.check_starter()
            if self.job.claimed:
                identity.stake(certain=True)
            self._placed = True
        text = self.noted()
        if text:
            raise CommunicatorError(text)

    def check_starter(self, met: bool = False) -> None:
        """Raise if another process is this worker, and has started this one; ``met``: see `rivals.worker_behind`."""
        worker = "" if self.joined else rivals.worker_behind(self.job.claim, met)
        if worker:
            identity.hide(self.job.claim)
            own = "PADDLE_TRAINER_ID and so on" if self.job.claimed else "rank="
            raise CommunicatorError(
                f"this process, {os.getpid()}, is not rank {self.job.rank} of {self.job.title}: {worker}, which "
                f"started it, is that rank. Compute in the worker itself, give this process its own rank ({own}), or "
                f"call compute_local(). If it is the worker after all, set {identity.SETTING}=this in its environment."
            )

    def noted(self) -> str:
        """The note left by a process that found two runs with these endpoints on this machine, or ""."""
        return "" if self.joined else rivals.note(self.job.claim)

    def rival(self, end: float) -> rivals.Finding | None:
        """Return two processes of this machine that claim one rank; at ``end`` even if that is uncertain."""
        if self.joined:
            return None
        now = time.monotonic()
        self._looked = self._looked or now
        found = rivals.look(self.job.claim, self.job.named_by)
        if found is None:  # half of the time is for the exchange
            patient = now - self._looked < min(rivals.YOUNG_SECONDS, end - now)
            return rivals.UNDECIDED if patient and rivals.is_undecided(self.job.claim) else None
        if found.sure or now >= end:
            rivals.leave_note(self.job.claim, found.text)
            return found._replace(sure=True)
        return found

    def join(self) -> None:
        """Record that this worker and the others have met."""
        if not self.joined:
            self.joined = True
            if not self.job.ranks:
                identity.show(self.job.claim, identity.JOINED)

    @abstractmethod
    def exchange(
        self,
        channel: Channel,
        frame: Frame,
        label: str,
        combine: Combine,
        deadline: Deadline,
    ) -> Frame:
        """Take part in the exchange at the channel's place; return rank 0's answer.

        On rank 0 the answer counts only once it is settled.
        """

    def settle(self) -> None:  # noqa: B027  # only rank 0 must
        """Wait until another worker has the last answer; raise if none gets it."""

    @abstractmethod
    def skip(self, channel: Channel, call: str, error: BaseException) -> None:
        """Count an exchange that this worker never began, and send the others the reason."""

    @abstractmethod
    def tell_all(self, frame: Frame) -> None:
        """Send a frame over every connection of this worker."""

    @abstractmethod
    def close(self) -> None:
        """Close the sockets without sending anything."""


#: All stars in use.
_members: weakref.WeakSet[Member] = weakref.WeakSet()


def _calls(job: Job, channel: int) -> int:
    """The number of exchanges that this process has begun on channels of other jobs or groups."""
    found = [
        member.channels[channel].calls
        for member in list(_members)
        if channel in member.channels and member.job.name == job.name
    ]
    return max(found, default=0)


#: The number of unnamed channels that a job's communicators have opened in this process.
_opened: Counter[Job] = Counter()


def error_frame(channel: int, place: Place, error: FleetMetricsError, broken: bool = False, made: int = 0) -> Frame:
    """Return the frame that makes a worker raise; ``made``: the new `Member.made` of all, or 0."""
    header = json.dumps([*described(error), broken]).encode()
    return Frame(ERROR, place[0], header, channel=channel, made=made, step=place[1])


def interruption(rank: int, error: BaseException, label: str) -> str:
    """The error for a worker that left an exchange through Ctrl-C, sys.exit or similar."""
    return f"{ranks_text([rank])} was interrupted ({type(error).__name__}) at {label}."


def after(label: str, on: str, others: str) -> str:
    """Name the workers that may have parted at the last exchange with a result, if a connection is lost after it."""
    if not label:
        return ""
    return f" The previous exchange, {label}, ended with a result on {on}; {others} may have an error instead."


def error_in(frame: Frame, sender: int = 0) -> tuple[str, str, bool]:
    """The name and text of the error in a frame, and whether the star is broken."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        name, text, *broken = json.loads(frame.header)
        return readable(str(name)), readable(str(text)), any(broken)
    return "CommunicatorError", f"{ranks_text([sender])} sent a report that cannot be read.", False


def _gone(label: str, before: str) -> str:
    """The error that rank 0 is lost; it names the workers that may have parted, now or at the previous exchange."""
    text = (
        f"{ranks_text([0])} has gone away at {label}: its process ended, or it closed the channel. Look at its log. "
        "Other ranks may have a result of this exchange."
    )
    return text + after(before, "this rank", "others")


def _in_trouble(frame: Frame, error: FleetMetricsError) -> Frame:
    """The frame that a worker in trouble sends, with its error."""
    return replace(frame, kind=TROUBLE, header=json.dumps(described(error)).encode(), payload=b"")


class _Closed(Exception):
    """Rank 0 has closed the connection intentionally."""


class _NotFound(Exception):
    """Rank 0 was not found in time; the text names the processes found instead."""


class Spoke(Member):
    """A worker other than rank 0."""

    broken: str
    label: str
    made: int
    search: Search | None

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._poll = Poll(workers=job.world_size)
        self._stream: Stream | None = None
        self._round_trip = 0.0
        self._missed: list[Frame] = []
        self._verdicts: dict[tuple[int, Place], Frame] = {}  # of later exchanges and other channels
        self._under_way: dict[int, Place] = {}  # the last exchange that began here, by channel
        self._closed: set[int] = set()  # channels that rank 0 has closed

    def exchange(
        self,
        channel: Channel,
        frame: Frame,
        label: str,
        combine: Combine,
        deadline: Deadline,
    ) -> Frame:
        """Send the frame and wait for rank 0's answer; see `Member.exchange`."""
        how = "connect" if self._stream is None else "arrive"
        lost, called = 0.0, f"{label} on {channel.title}"

        def late() -> Frame:
            text = late_text([0], how, deadline.timeout, label) + (self.search.words if self.search is not None else "")
            return Frame(GAVE_UP, frame.call, text.encode(errors="replace"), channel=channel.number, step=frame.step)

        self.search = self.searching(channel, frame.call, label)
        try:
            self._begin(frame)
            while True:
                fresh = self._stream is None
                stream = self._connected(min(deadline.end, lost or deadline.end))
                if fresh:
                    frame = self._unless_there_is_a_rival(frame, stream, deadline)
                    frame = replace(frame, remaining=deadline.remaining, made=0)
                try:
                    answer = self._converse(stream, frame, late, deadline)
                    # in one step: an interruption, at any call, finds all of the change or none
                    channel.over, channel.made, self.made, self.label = channel.place, answer.made, answer.made, called
                    self.join()
                    return answer
                except _Closed:  # rank 0 has a new connection for the open channels
                    self._disconnect(stream)
                except Garbled as error:
                    self._break(
                        f"messages from {ranks_text([0])} to {ranks_text([self.job.rank])} cannot be trusted: {error}."
                    )
                except Lost:
                    if stream.heard:
                        self._break(_gone(label, self.label))
                    self._disconnect(stream)  # lost before the first frame: try again, but rank 0 may have ended
                    lost = lost or time.monotonic() + REFUSAL_SECONDS + 5 * self._round_trip
                finally:
                    stream.keep_unsent()
        except _NotFound as error:
            if lost and deadline.remaining:
                self._break(_gone(label, self.label))
            verdict = late()
            self._tell(verdict)
            channel.told = frame.place
            raise DeadlineError(f"{verdict.header.decode()} {error}".strip()) from None
        except FleetMetricsError as error:
            if self._stream is None:  # rank 0 gets it when it arrives
                self._missed.append(_in_trouble(frame, error))
            channel.told = frame.place
            raise

    def _begin(self, frame: Frame) -> None:
        self._under_way[frame.channel] = frame.place
        for key in [key for key in self._verdicts if key[0] == frame.channel and key[1] < frame.place]:
            del self._verdicts[key]  # of a call that this worker has left, or ended before

    def _say_left(self, channel: Channel, name: str, error: BaseException) -> None:
        """Tell rank 0; see `Member._say_left`."""
        call, step = channel.place
        if isinstance(error, FleetMetricsError):
            frame = Frame(TROUBLE, call, b"", b"", channel.number, self.made, LONGEST, LONGEST, step)
            frame = _in_trouble(frame, error)
        else:  # Ctrl-C, sys.exit, an error of the user's formula or signal handler
            text = interruption(self.job.rank, error, self.label_of(call, name)).encode(errors="replace")
            frame = Frame(LEFT, call, text, channel=channel.number, step=step)
        self._tell(frame)

    def skip(self, channel: Channel, call: str, error: BaseException) -> None:
        """Notify rank 0 that this worker gave up before it began; see `Member.skip`."""
        channel.place = channel.calls + 1, 1
        kind, text = GAVE_UP, str(error)
        if not isinstance(error, FleetMetricsError):
            kind, text = LEFT, interruption(self.job.rank, error, self.label_of(channel.calls, call))
        self._tell(Frame(kind, channel.calls, text.encode(errors="replace"), channel=channel.number))

    def _tell(self, verdict: Frame) -> None:
        """Report to rank 0, once it is found, how an exchange ended here."""
        if self._stream is None:
            self._missed.append(verdict)
        else:
            self.tell_all(verdict)

    def tell_all(self, frame: Frame) -> None:
        """Tell rank 0."""
        try:
            if self._stream is not None:
                self._stream.send(frame)
        except Lost:
            return  # reading finds that it has gone, after its last frames

    def close(self) -> None:
        """Close the sockets."""
        if self._stream is not None:
            self._stream.close()

    def _connected(self, end: float) -> Stream:
        if self._stream is None:
            try:
                self._stream, self._round_trip = connect(
                    self.job, self.secret.key, end, lambda: self._looked_round(end)
                )
            except NotFound as error:
                raise _NotFound(error) from None
            self._poll.register(self._stream)
            self.made, self.label = 0, ""  # this rank 0 may have started a new count
        return self._stream

    def _looked_round(self, end: float) -> str:
        """The reason to give up at once, or ""."""
        if self.search is not None:
            self.search.look(end)
        return self.noted()

    def _unless_there_is_a_rival(self, frame: Frame, stream: Stream, deadline: Deadline) -> Frame:
        """The frame, or trouble if another process of this machine claims a rank. On its own machine, rank 0 checks."""
        try:
            self.check_starter(met=True)
        except CommunicatorError:  # the rank is free for the worker
            self._disconnect(stream)
            raise
        while not self.job.on_one_machine:
            found = self.rival(deadline.end)
            if found is None:
                break
            if found.sure:
                return _in_trouble(frame, CommunicatorError(found.text))
            time.sleep(min(rivals.PAUSE_SECONDS, deadline.remaining))
        return frame

    def _disconnect(self, stream: Stream) -> None:
        self._poll.unregister(stream)
        stream.close()
        self._stream = None

    def _converse(self, stream: Stream, frame: Frame, late: Callable[[], Frame], deadline: Deadline) -> Frame:
        spare = margin(deadline.timeout, self._round_trip)
        gives_up_at, leaves_at = deadline.end - spare, 0.0
        come = self._verdicts or self._closed or stream.begun or self._poll.wait()
        answer = self._answer_to(frame, stream) if come else None  # a read without data takes longer
        if answer is None:
            while self._missed:
                self.tell_all(self._missed.pop(0))
            self.tell_all(frame)
        while answer is None:
            self._poll.modify(stream)
            until = leaves_at or gives_up_at
            self._poll.wait(until if self.search is None else min(until, self.search.next))
            now = time.monotonic()  # before the check, so that an answer that has arrived by then counts
            if stream.sending:
                with contextlib.suppress(Lost):
                    stream.flush()
            answer = self._answer_to(frame, stream)
            if answer is None and self.search is not None:
                self._look_for_others(self.search, frame, until)
            if answer is None and not leaves_at and now >= gives_up_at:
                self.tell_all(late())
                # A process that was not scheduled sends this late. It must still wait for rank 0's earlier answer, or
                # rank 0 has a number and this worker an error.
                leaves_at = max(deadline.end, time.monotonic() + spare)
            elif answer is None and leaves_at and now >= leaves_at:
                # the frame for rank 0 is already on its way and must not be sent again
                raise DeadlineError(late().header.decode())
        if answer.kind == ERROR:
            if answer.made:  # all workers have compared how the last exchange ended
                self.made, self.label = answer.made, ""
            raise self._error_of(answer)
        if not deadline.remaining:  # rank 0 may have withdrawn it without an acknowledgment
            withdrawn = None
            with contextlib.suppress(Lost, _Closed, CommunicatorError):  # or may have ended
                withdrawn = self._answer_to(frame, stream)
            if withdrawn is not None:
                raise self._error_of(withdrawn)
        if self.job.rank <= ACKNOWLEDGING:
            self.tell_all(Frame(ACK, frame.call, channel=frame.channel, step=frame.step))
        return answer

    def _look_for_others(self, search: Search, frame: Frame, end: float) -> None:
        """Raise if this worker and another one wait for each other in different groups; also notify rank 0."""
        try:
            search.look(end)
        except AgreementError as error:
            self.tell_all(_in_trouble(frame, error))
            raise

    def _error_of(self, verdict: Frame) -> FleetMetricsError:
        name, text, broken = error_in(verdict)
        if broken:
            self.broken = text
        return named_error(name, text)

    def _answer_to(self, asked: Frame, stream: Stream) -> Frame | None:
        """Read up to the answer; ignore frames of an exchange that this worker has given up."""
        mine = asked.channel, asked.place
        for _ in range(_FRAMES_AT_ONCE):
            if mine in self._verdicts:
                return self._verdicts.pop(mine)
            if asked.channel in self._closed:
                raise CommunicatorError(f"{ranks_text([0])} has gone away: it closed the channel.")
            frame = stream.last or stream.receive()  # the last frame, if an interruption prevented its handling
            if frame is None:
                return None
            if frame.kind == CLOSED and not frame.channel:
                raise _Closed
            if frame.kind == CLOSED:
                self._closed.add(frame.channel)
            elif frame.kind == ERROR and error_in(frame)[2]:
                return frame
            elif frame.kind == ERROR and (frame.channel, frame.call) == (asked.channel, asked.call):
                self._verdicts[mine] = frame  # from any exchange of the call: rank 0 has left it
            elif frame.kind in (ANSWER, ERROR) and frame.place >= self._under_way.get(frame.channel, NEVER):
                # also for exchanges that rank 0 has given up and this worker has not begun
                self._verdicts[frame.channel, frame.place] = frame
            stream.seen()
        return None  # frames keep coming: check the clock

    def _break(self, reason: str) -> None:
        self.broken = reason
        self.close()
        raise CommunicatorError(reason) from None
