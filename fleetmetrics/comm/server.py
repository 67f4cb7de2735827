"""Rank 0's end of the channel: it lets the workers in, keeps who waits where, watches the clock, and answers.

Only its thread touches what is here. It answers also while rank 0's program is elsewhere: it refuses, tells and warns.
"""

from __future__ import annotations

import contextlib
import math
import secrets
import sys
import time
from collections import Counter
from typing import Any, Mapping, Sequence

from fleetmetrics.comm import letters
from fleetmetrics.comm.deadline import DEFAULT_TIMEOUT
from fleetmetrics.comm.descriptions import Letter
from fleetmetrics.comm.door import Door
from fleetmetrics.comm.failures import (
    calling,
    error_header,
    error_in,
    in_words,
    late_text,
    named_error,
    ranks_text,
    readable,
    since_earlier,
)
from fleetmetrics.comm.handshake import OTHER_RUN, Guest, unproven_text
from fleetmetrics.comm.inbox import Inbox
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.letters import Arrival
from fleetmetrics.comm.meeting import Meeting, source_of, way_out
from fleetmetrics.comm.message import (
    ANSWER,
    ARRIVAL,
    CLOSED,
    ENDS,
    ERROR,
    GAVE_UP,
    LEFT,
    LETTERS,
    STATUS,
    TROUBLE,
    Connection,
    Garbled,
    Lost,
    Message,
    Place,
)
from fleetmetrics.errors import (
    AgreementError,
    AuthenticationError,
    CommunicatorError,
    DeadlineError,
    FleetMetricsError,
)
from fleetmetrics.support.logs import Attendance, say

__all__ = ["Server"]

#: The number of failed calls whose errors are kept for workers that come later, and of exchanges whose end is known.
_KEPT = 1024
#: The number of splits that are kept once all workers know them: a worker may not have waited for that error.
_KEPT_TOLD = 8
#: Seconds that a worker which has ended before it called has to come back: its launcher may restart it.
_GRACE_SECONDS = 1.0
#: Seconds in which a thread that lives and has never called may call, before waiting for it is an error.
_FIRST_CALL_SECONDS = 1.5
#: Seconds that rank 0's process, before it ends, waits for late workers to connect.
_SEE_OFF_SECONDS = 1.0
#: A wait of more than these seconds may have been one in which the process was stopped.
_AWAKE_SECONDS = 0.1
#: At the deadline, how often the server reads what has arrived before it decides.
_LAST_TURNS = 64


class Worker:
    """A connected worker."""

    connection: Connection
    rank: int
    round_trip: float
    session: bytes

    def __init__(self, connection: Connection, rank: int, session: bytes, round_trip: float) -> None:
        self.connection, self.rank, self.session, self.round_trip = connection, rank, session, round_trip
        self.called = False  # whether it has arrived anywhere
        self.answered: Meeting | None = None  # the last exchange that was answered, if nothing has come since


class Split:
    """An exchange that ended with a result on some workers, and with an error on others."""

    label: str
    told_at: Place
    untold: set[int]
    with_result: set[int]

    def __init__(self, meeting: Meeting) -> None:
        self.label = meeting.label
        self.with_result = set(meeting.ranks)
        self.with_error: set[int] = set()
        self.untold = set(meeting.ranks)
        self.told_at = meeting.place  # the exchange whose error has told of it

    @property
    def text(self) -> str:
        """The error that tells all."""
        return (
            f"the workers diverged at {self.label}: it ended with a result on {in_words(self.with_result)}, and with "
            f"an error on {in_words(self.with_error)}. Compute it again on all workers; they are in step again."
        )


class Server(Inbox):
    """Rank 0's end; see `Inbox`."""

    met: bool
    number: bytes

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.number = secrets.token_bytes(16)  # other workers tell by it whether rank 0 was restarted
        self._door = Door(job, self.secret.key, self._poll)
        self._workers: dict[int, Worker] = {}  # by rank
        self._by_descriptor: dict[int, Worker] = {}
        self._sending: set[Worker] = set()  # those whose sockets have not taken all yet
        self._meetings: dict[Place, Meeting] = {}
        self._complete: list[Meeting] = []  # on which to decide
        self._drains = False  # whether to read what has arrived before that: the process may have been stopped
        self._undelivered: list[Meeting] = []  # whose answers are not sent to all others yet, so rank 0 waits
        self._failed: dict[tuple[int, int], bytes] = {}  # by channel and call: the error of a call that has failed
        self._answered: dict[Place, Meeting] = {}  # the last exchanges that have ended with a result
        self._splits: dict[Place, Split] = {}
        self._gone: dict[int, str] = {}  # by rank: why it can never come back
        self._told_gone: set[int] = set()  # the ranks that have had the error of a worker that is gone
        self._ended: dict[int, float] = {}  # by rank: until when a worker may come back that ended before it called
        self._closed: dict[int, set[int]] = {}  # by channel: the ranks that have closed it
        self._listen_error: FleetMetricsError | None = None
        self._opens = "", 0  # the address at which it tries to listen
        self._seen: set[int] = set()  # the ranks that have connected
        self._other_runs: set[int] = set()  # ranks of workers of other runs that were here
        self._refused: set[bytes] = set()  # second processes that were reported
        self._other_programs: dict[int, str] = {}  # by rank: what a process that was refused for it runs
        self._led: set[int] = set()  # the ranks that have called in groups without rank 0
        self._called = False  # whether rank 0's program has called
        #: Exchanges that wait for each other, and when this is an error although some threads have never called.
        self._stuck: tuple[frozenset[Place], float] = frozenset(), math.inf
        self._threads: dict[int, int] = {}  # by rank: how many of its threads call

    # -- the loop

    def _run(self) -> None:
        self._open_door(calls=bool(self._asked))
        while not self.closed:
            try:
                self._serve()
            except Exception as error:
                if 0 in self._gone:  # it cannot even say so
                    raise
                self._lose_rank(0, self._failed_text(error))

    def _serve(self) -> None:
        """Handle what comes, and look at the clock when it is due."""
        wakes_at = self._wakes_at()
        self._turn(wakes_at)
        if time.monotonic() >= wakes_at:
            # A process that was stopped, or is late, first reads what has arrived: a worker may have given up.
            for _ in range(_LAST_TURNS):
                if not self._turn(0.0):
                    break
            self._look_at_clock()

    def _turn(self, until: float) -> bool:
        """Wait for events, and handle them; False if nothing happened."""
        before = time.monotonic()
        events = self._poll.wait(0.0 if self._complete else until)
        self._drains = bool(events) and (self._drains or time.monotonic() - before > _AWAKE_SECONDS)
        for descriptor, _ in events:
            self._handle(descriptor)
        while self._asked:
            self._hear(0, self._asked.popleft())
        while self._complete and not self._drains:
            meeting = self._complete.pop(0)
            if meeting.place in self._meetings and time.monotonic() < meeting.end:
                self._decide(meeting)
        self._flush()
        return bool(events)

    def _wakes_at(self) -> float:
        moments = [self._moment_of(meeting) for meeting in self._meetings.values()]
        moments += [meeting.last_moment for meeting in self._undelivered]
        return min([*moments, self._door.next_look, self._stuck[1]])

    def _moment_of(self, meeting: Meeting) -> float:
        """When to look at an exchange again if nothing happens."""
        return min([meeting.next_moment, *(until for rank, until in self._ended.items() if rank in meeting.missing)])

    def _handle(self, descriptor: int) -> None:
        worker = self._by_descriptor.get(descriptor)
        if worker is not None:
            self._read(worker)
            return
        if descriptor == self._woken:
            self._read_wake()
            return
        guest = self._door.handle(descriptor)
        if guest is not None:
            self._admit(guest)

    def _read(self, worker: Worker) -> None:
        try:
            if worker.connection.sending:
                with contextlib.suppress(Lost):  # it may have said something before
                    worker.connection.flush()
            message = worker.connection.receive()
            if message is not None:
                self._hear(worker.rank, message)
        except Garbled as error:
            self._lose(worker, f"messages from {in_words([worker.rank])} to rank 0 cannot be trusted: {error}.")
        except Lost:
            self._lose(worker, _gone_text(worker.rank))

    def _flush(self) -> None:
        """Send what the sockets accept, and give rank 0's program the answers that all others have been sent."""
        for worker in list(self._sending):
            self._poll.follow(worker.connection)
            if not worker.connection.sending:
                self._sending.discard(worker)
        for meeting in list(self._undelivered):
            if not any(worker.rank in meeting.ranks for worker in self._sending):
                self._deliver(meeting)

    def _deliver(self, meeting: Meeting) -> None:
        """Give rank 0's program its answer: the system has all others', so the process may end."""
        assert meeting.answer is not None
        self._undelivered.remove(meeting)
        self._put(meeting.answer)
        meeting.answer = None  # it may be large, and the meeting is kept

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        for meeting in [meeting for meeting in self._undelivered if now >= meeting.last_moment]:
            self._deliver_late(meeting)
        for meeting in list(self._meetings.values()):
            if now >= meeting.next_moment:
                self._expire(meeting)
            elif now >= self._moment_of(meeting):
                ended = [rank for rank in meeting.missing if self._ended.get(rank, now + 1) <= now]
                self._fail(meeting, CommunicatorError(_ended_text(ended, meeting)))
        if now >= self._stuck[1]:
            self._fail_deadlocked()
            self._stuck = frozenset(), math.inf
        self._door.look(now)
        refused = self._door.ranks_unproven().difference(self._workers)
        for meeting in list(self._meetings.values()) if refused else ():
            missing = meeting.missing
            if missing and set(missing) <= refused:
                self._door.forgive(missing)
                self._fail(meeting, AuthenticationError(unproven_text(missing)))

    def _deliver_late(self, meeting: Meeting) -> None:
        """The answer stays: a worker that could not take it in time has stopped."""
        for worker in [worker for worker in self._sending if worker.rank in meeting.ranks]:
            self._lose(worker, f"{in_words([worker.rank])} stopped in the middle of an answer.")
        self._deliver(meeting)

    def _expire(self, meeting: Meeting) -> None:
        if meeting.missing:
            self._fail(meeting, DeadlineError(self._late(meeting)))
        else:
            self._fail(meeting, self._took_too_long(meeting))

    def _took_too_long(self, meeting: Meeting) -> DeadlineError:
        with calling(meeting.group):
            first = ranks_text([0])
        return DeadlineError(f"{first} needed more than the {meeting.timeout:g} s that it has at {meeting.label}.")

    # -- who is who

    def _admit(self, guest: Guest) -> None:
        """Let in a worker that has proved itself, or refuse it with the reason."""
        rank, job, program = guest.rank, self.job, self.job.program
        earlier = self._workers.get(rank)
        if earlier is not None and earlier.session == guest.session:  # its first connection is lost
            self._lose(earlier, _gone_text(rank))
        if guest.run != job.name:
            self._other_runs.add(rank)
            self._door.refuse(guest, job.title, OTHER_RUN)
        elif guest.world_size != job.world_size or rank >= job.world_size:
            text = (
                f"a worker says that it is rank {rank} of {guest.world_size}, but rank 0 has different values; "
                f"{job.variables[0]} must be the same on all workers."
            )
            self._door.refuse(guest, text)
            self._fail_everything(text)
        elif rank == 0 and guest.calls and self._is_idle:
            self._give_way(guest)
        elif guest.program and guest.program != program:  # perhaps a run of its own, such as an evaluation
            self._other_programs[rank] = guest.program
            self._door.refuse(guest, _other_program_text(rank, guest.program, program), OTHER_RUN)
        elif self._is_taken(guest):
            self._refuse_second(guest)
        elif guest.program != program:
            self._door.refuse(guest, _other_program_text(rank, "", program))
        else:
            with contextlib.suppress(OSError):  # it connects again
                connection = self._door.admit(guest, self.number)
                worker = Worker(connection, rank, guest.session, time.monotonic() - guest.since)
                self._workers[rank] = self._by_descriptor[connection.fileno()] = worker
                self._ended.pop(rank, None)
                self._seen.add(rank)
                for (channel, call), header in self._failed.items():  # this process may end before the worker comes
                    self._say(rank, Message(ERROR, channel, call, header=header))

    @property
    def _is_idle(self) -> bool:
        """Whether no worker has called this rank 0, its own program included."""
        return not self._called and not self.met and not any(worker.called for worker in self._workers.values())

    def _give_way(self, guest: Guest) -> None:
        """Let a process that calls as rank 0 listen in place of this one, which only has a metric."""
        for worker in list(self._workers.values()):
            with contextlib.suppress(Lost):
                worker.connection.send(Message(CLOSED))
            self._dismiss(worker)
        self._door.stop_listening()
        self._door.drop(guest)

    def _is_taken(self, guest: Guest) -> bool:
        earlier = self._workers.get(guest.rank)
        taken = guest.rank == 0 or (earlier is not None and earlier.session != guest.session)
        return taken or guest.rank in self._gone or 0 in self._gone or guest.rank_0 not in (bytes(16), self.number)

    def _refuse_second(self, guest: Guest) -> None:
        """Refuse a second process of a rank; before the workers have met, which one belongs here is unknown."""
        rank, who = guest.rank, in_words([guest.rank])
        if guest.rank_0 not in (bytes(16), self.number):
            text = (
                "rank 0 was restarted, and this worker has met the one before; a restarted process cannot join the "
                "others: start all workers again."
            )
            if guest.calls:
                self._fail_everything(text)
        elif 0 in self._gone:
            text = self._gone[0]
        elif rank in self._gone:
            text = f"{self._gone[rank]} A restarted {who} cannot join the others: start all workers again."
        elif self.met:
            text = (
                f"another process is {who} of this run, and has met the others; this one is a second process, or was "
                f"restarted. {_apart(self.job)}"
            )
            if guest.calls and guest.session not in self._refused:
                self._refused.add(guest.session)
                say(
                    f"a second process of {who} was refused. If it is the worker, and the process that came first a "
                    "helper of it, the numbers so far include the helper's data instead of the worker's."
                )
        else:
            text = f"two processes say that they are {who}, in two runs with the same endpoints or in one run. "
            text += _apart(self.job)
            if guest.calls:
                self._fail_everything(text)
        self._door.refuse(guest, text)

    def _fail_everything(self, text: str) -> None:
        """Before the workers have met: every exchange that waits, and every later one, fails."""
        if not self.met:
            self._lose_rank(0, text)

    def _lose(self, worker: Worker, why: str) -> None:
        """A connection has ended."""
        self._dismiss(worker)
        if worker.called:
            if worker.answered is not None:  # nothing has come since
                others = [rank for rank in worker.answered.ranks if rank != worker.rank]
                why += (
                    f" The previous exchange, {worker.answered.label}, ended with a result on {in_words(others)}; "
                    f"{in_words([worker.rank])} may have an error instead."
                )
            self._lose_rank(worker.rank, why)
        elif worker.connection.heard:  # it has ended without calling, or its first connection was lost
            self._ended[worker.rank] = time.monotonic() + _GRACE_SECONDS + 5 * worker.round_trip

    def _lose_rank(self, rank: int, why: str) -> None:
        self._gone.setdefault(rank, why)
        for meeting in list(self._meetings.values()):
            if rank in meeting.ranks or rank == 0:
                self._fail(meeting, self._error_of_gone(meeting.ranks))

    def _error_of_gone(self, ranks: Sequence[int]) -> CommunicatorError:
        return CommunicatorError(next(text for rank, text in self._gone.items() if rank in ranks or rank == 0))

    def _dismiss(self, worker: Worker) -> None:
        """Close a worker's connection."""
        self._sending.discard(worker)
        self._poll.unregister(worker.connection)
        self._by_descriptor.pop(worker.connection.fileno(), None)
        if self._workers.get(worker.rank) is worker:
            del self._workers[worker.rank]
        worker.connection.close()

    # -- what they say

    def _hear(self, rank: int, message: Message) -> None:
        kind = message.kind
        if kind in (ARRIVAL, TROUBLE):
            self._arrive(rank, message)
        elif kind == ANSWER:
            meeting = self._meetings.get(message.place)
            if meeting is not None and meeting.deciding and meeting.ranks[0] == rank:
                self._answer(meeting, message)
        elif kind == LEFT:
            self._leave(rank, message)
        elif kind == GAVE_UP:
            meeting = self._meetings.get(message.place)
            if meeting is not None and rank in meeting.arrivals:
                self._fail(meeting, named_error("DeadlineError", _text_in(message)))
        elif kind == STATUS:
            meeting = self._meetings.get(message.place)
            if meeting is not None and meeting.missing and self._reads(rank):
                self._say(rank, Message(STATUS, *message.place, header=self._status(meeting).encode()))
        elif kind == CLOSED:
            self._close_channel(rank, message)

    def _arrive(self, rank: int, message: Message) -> None:
        if rank:
            worker = self._workers[rank]
            worker.called, worker.answered = True, None
            message.end -= worker.round_trip / 2
        else:
            self._called = True
            self._open_door(calls=True)
        try:
            arrival = letters.read(message, rank)
        except FleetMetricsError as error:
            self._say_error(rank, message, error)
            return
        meeting = self._meetings.get(message.place)
        if meeting is None:
            meeting = Meeting(message.place, arrival, self.job.world_size)
        if self._is_out_of_turn(rank, arrival, meeting) or not self._welcomes(rank, message, arrival, meeting):
            return
        self._meetings[message.place] = meeting
        if 0 not in meeting.ranks:
            self._led.add(rank)
        self._threads[rank] = message.threads[0]
        meeting.arrive(rank, arrival, 0.0 if not rank else self._workers[rank].round_trip)
        if meeting.complete:
            self._complete.append(meeting)
        elif any(place[:2] != meeting.place[:2] for place in self._meetings):
            self._fail_deadlocked()

    def _is_out_of_turn(self, rank: int, arrival: Arrival, meeting: Meeting) -> bool:
        """Whether a worker does what none does: it is lost, or the exchange fails; so what is kept here has bounds."""
        if rank in meeting.arrivals or arrival.message.place in self._answered:
            raise Garbled(f"it comes twice to {meeting.label}")
        if sum(rank in other.arrivals for other in self._meetings.values()) >= _KEPT:
            raise Garbled(f"it waits at {_KEPT} exchanges at once")
        if arrival.ranks == meeting.group:
            return False
        theirs, its = [in_words(ranks or range(self.job.world_size)) for ranks in (meeting.group, arrival.ranks)]
        error = AgreementError(f"the workers disagree at {meeting.label} of {theirs}: {in_words([rank])} says {its}.")
        self._fail(meeting, error)
        if rank not in meeting.ranks:
            self._say_error(rank, arrival.message, error)
        return True

    def _welcomes(self, rank: int, message: Message, arrival: Arrival, meeting: Meeting) -> bool:
        """Whether an exchange may still succeed; otherwise the worker that has arrived gets the error."""
        ranks = arrival.ranks or range(self.job.world_size)
        error = self._failed.get(message.place[:2]) or self._why_not(rank, message, ranks, meeting)
        if error is None:
            return True
        for place, split in self._splits.items():  # it learns that the call has failed on others: no split for it
            if place[:2] == message.place[:2]:
                split.with_result.discard(rank)
        if isinstance(error, bytes) or rank not in ranks:
            self._say_error(rank, message, error)
        else:
            self._fail(meeting, error)  # the others may come when this process has ended
        return False

    def _why_not(self, rank: int, message: Message, ranks: Sequence[int], meeting: Meeting) -> FleetMetricsError | None:
        """The error of an exchange that cannot succeed."""
        if rank == 0 and self._listen_error is not None:
            return self._listen_error
        if self._is_broken(ranks):
            error = self._error_of_gone(ranks)
            new = set(ranks).difference(self._told_gone, self._gone)
            return error if new else CommunicatorError(since_earlier(str(error)))
        closed = {one for one in self._closed.get(message.channel, ()) if one in ranks and one not in meeting.arrivals}
        if closed:
            return CommunicatorError(f"{in_words(closed)} has gone away: it closed the channel.")
        if isinstance(ranks, tuple) and max(ranks) >= self.job.world_size:
            return CommunicatorError(f"{in_words(ranks)} are not all among the job's {self.job.world_size} workers.")
        if rank not in ranks:
            return CommunicatorError(f"{in_words([rank])} is not one of {in_words(ranks)}, whose exchange it joins.")
        return None

    def _is_broken(self, ranks: Sequence[int]) -> bool:
        return any(gone == 0 or gone in ranks for gone in self._gone)

    def _leave(self, rank: int, message: Message) -> None:
        """A worker has ended a call with an error."""
        call = message.place[:2]
        (error, _), with_error = error_in(message.header, rank), {rank}
        meetings = [meeting for place, meeting in self._meetings.items() if place[:2] == call]
        if any(rank not in meeting.ranks for meeting in meetings):
            return
        for meeting in meetings:
            with_error.update(meeting.arrivals)
            self._fail(meeting, error)
        self._keep_failed(call, error_header(error))
        answered = self._answered.get(message.place)
        if answered is not None and rank in answered.ranks:
            split = self._splits.setdefault(message.place, Split(answered))
            split.with_error.add(rank)
            split.with_result -= with_error
        for split in self._splits.values():
            if split.told_at[:2] == call:  # it has not waited for that error
                split.untold.add(rank)
        if self._reads(rank):
            self._say(rank, Message(LEFT, *message.place))  # it waits for that before it goes on

    def _close_channel(self, rank: int, message: Message) -> None:
        if message.header == ENDS:  # rank 0's process need not stay for this one
            self._led.discard(rank)
            return
        if not message.channel:  # all channels of this worker
            if rank:
                worker = self._workers[rank]
                worker.called = False
                self._dismiss(worker)
            return
        closed = self._closed.setdefault(message.channel, set())
        closed.add(rank)
        if len(closed) == self.job.world_size:
            self._forget_channel(message.channel)
        elif len(self._closed) > _KEPT:
            self._closed.pop(next(iter(self._closed)))
        for meeting in list(self._meetings.values()):
            if meeting.place[0] == message.channel and rank in meeting.missing:
                self._fail(meeting, CommunicatorError(f"{in_words([rank])} has gone away: it closed the channel."))

    def _forget_channel(self, channel: int) -> None:
        """Forget a channel that all workers have closed: they may open it again."""
        del self._closed[channel]
        everything: tuple[dict[Any, Any], ...] = self._failed, self._answered, self._splits
        for kept in everything:
            for place in [place for place in kept if place[0] == channel]:
                del kept[place]

    # -- the decision

    def _decide(self, meeting: Meeting) -> None:
        arrivals = meeting.in_order
        try:
            with calling(meeting.group):
                self._tell_of_splits(meeting)
                answer = letters.folded(arrivals, meeting.place[1])
                message = self._decided(meeting, arrivals, answer)
        except FleetMetricsError as error:
            self._fail(meeting, error)
            return
        except Exception as error:
            text = f"rank 0 failed to combine: {type(error).__name__}: {error}"
            self._fail(meeting, CommunicatorError(readable(text)))
            return
        if answer is not None:
            self._answer(meeting, message)
        else:
            meeting.deciding = True
            self._say(meeting.ranks[0], message)

    def _decided(self, meeting: Meeting, arrivals: list[Arrival], answer: Letter | None) -> Message:
        """The message with the answer, or with the letters, for the program that decides."""
        if answer is not None:
            return letters.written(meeting.place, answer)
        if meeting.ranks[0] == 0:  # it needs no bytes
            return Message(LETTERS, *meeting.place, payload=arrivals)
        return letters.bundled(meeting.place, arrivals)

    def _tell_of_splits(self, meeting: Meeting) -> None:
        """Raise if an earlier exchange ended with a result on some workers only, and these do not know it yet."""
        for place, split in list(self._splits.items()):
            if not split.with_result or len(self._splits) > (_KEPT if split.untold else _KEPT_TOLD):
                del self._splits[place]
            elif split.untold.intersection(meeting.ranks):
                split.untold.difference_update(meeting.ranks)
                split.told_at = meeting.place
                raise AgreementError(split.text)

    def _answer(self, meeting: Meeting, answer: Message) -> None:
        if time.monotonic() > meeting.last_moment:  # a worker has given up, so all must
            self._fail(meeting, self._took_too_long(meeting))
            return
        answer = Message(ANSWER, *meeting.place, header=answer.header, payload=answer.payload)
        answer.attendance = meeting.attendance
        self.met = self.met or not meeting.group
        self._keep_answered(meeting)
        self._meetings.pop(meeting.place, None)
        for rank in meeting.ranks:
            if rank in self._workers:
                self._workers[rank].answered = meeting
                self._say(rank, answer)
        if 0 in meeting.ranks:
            meeting.answer = answer
            self._undelivered.append(meeting)

    def _keep_answered(self, meeting: Meeting) -> None:
        meeting.arrivals.clear()  # their payloads may be large
        meeting.attendance = Attendance()
        self._answered[meeting.place] = meeting
        if len(self._answered) > _KEPT:
            self._answered.pop(next(iter(self._answered)))

    def _fail(self, meeting: Meeting, error: FleetMetricsError) -> None:
        """End a call with an error: for the workers that wait, and for those that come later."""
        if meeting.failed:
            return
        broken = self._is_broken(meeting.ranks)
        header = error_header(error, broken)
        self._keep_failed(meeting.place[:2], header)
        first = meeting.place
        for place in [place for place in self._meetings if place[:2] == meeting.place[:2]]:
            self._meetings.pop(place).failed = True
            first = min(first, place)  # the workers wait there
        if broken:
            self._told_gone.update(meeting.ranks)
        verdict = Message(ERROR, *first, header=header)
        verdict.attendance = meeting.attendance
        for rank in sorted(meeting.ranks, reverse=True):  # late ones, too; rank 0 last, whose process may end then
            self._say(rank, verdict)

    def _keep_failed(self, call: tuple[int, int], header: bytes) -> None:
        self._failed.setdefault(call, header)
        if len(self._failed) > _KEPT:
            self._failed.pop(next(iter(self._failed)))

    def _say_error(self, rank: int, message: Message, error: FleetMetricsError | bytes) -> None:
        if self._gone:
            self._told_gone.add(rank)
        header = error if isinstance(error, bytes) else error_header(error, bool(self._gone))
        self._say(rank, Message(ERROR, *message.place, header=header))

    def _reads(self, rank: int) -> bool:
        """Whether a worker has taken what it was sent: only then it gets replies, so they have bounds."""
        return rank not in self._workers or not self._workers[rank].connection.sending

    def _say(self, rank: int, message: Message) -> None:
        if rank == 0:
            self._put(message)
        elif rank in self._workers:
            worker = self._workers[rank]
            if message.kind == ERROR and worker.connection.waiting > _KEPT:  # it does not read, and gets it if it comes
                return
            with contextlib.suppress(Lost):  # reading finds that it has gone, after its last messages
                worker.connection.send(message)
                if worker.connection.sending:
                    self._sending.add(worker)

    def _fail_deadlocked(self) -> None:
        """End all exchanges that wait for each other: no worker in them can come to another one."""
        stuck = {place: meeting for place, meeting in self._meetings.items() if meeting.missing}
        free = list(stuck)
        while free:
            waits = Counter(
                rank for rank, _ in {(rank, place[:2]) for place in stuck for rank in stuck[place].arrivals}
            )
            may_come = {rank for rank in range(self.job.world_size) if waits[rank] < self._threads.get(rank, 1)}
            free = [place for place, meeting in stuck.items() if may_come.intersection(meeting.missing)]
            for place in free:
                del stuck[place]
        _keep_circles(stuck)
        if len(stuck) > 1 and not self._may_be_too_soon(stuck):
            error = AgreementError(_deadlock_text(list(stuck.values())))
            for meeting in stuck.values():
                self._fail(meeting, error)

    def _may_be_too_soon(self, stuck: Mapping[Place, Meeting]) -> bool:
        """Whether a thread that has never called may come yet, because the exchanges do not wait for long."""
        arrivals = [arrival for meeting in stuck.values() for arrival in meeting.arrivals.values()]
        if not any(arrival.message.threads[1] for arrival in arrivals):
            return False
        now, places = time.monotonic(), frozenset(stuck)
        if self._stuck[0] != places:
            self._stuck = places, now + _FIRST_CALL_SECONDS
        return now < self._stuck[1]

    # -- words

    def _late(self, meeting: Meeting) -> str:
        missing = meeting.missing
        connected = [rank for rank in missing if rank in self._workers or rank == 0]
        how = "arrive" if connected else "connect"
        return f"{late_text(missing, how, meeting.timeout, meeting.label)} {self._status(meeting)}"

    def _status(self, meeting: Meeting) -> str:
        """Who is missing at an exchange, where rank 0 listens, and whom it refused."""
        by_state: dict[str, list[int]] = {}
        for rank in meeting.missing:
            by_state.setdefault(self._state_of(rank), []).append(rank)
        states = ", ".join(f"{in_words(ranks)} {state}" for state, ranks in by_state.items())
        where = f"rank 0 listens at {self._door.address}" if self._door.address else "rank 0 does not listen"
        alone = not self.met and not self._seen
        text = f"Of the job's {self.job.world_size} workers ({source_of(self.job)}), {states}; {where}."
        return text + self._refusals(meeting) + (way_out(self.job) if alone else "")

    def _refusals(self, meeting: Meeting) -> str:
        text, strangers = "", self._other_runs.intersection(meeting.missing)
        unproven = self._door.ranks_unproven().intersection(meeting.missing).difference(self._workers)
        if strangers:
            text += f" Rank 0 refused {in_words(strangers)} of another run; this run is {self.job.title}."
        if unproven:
            text += f" A process that says that it is {in_words(unproven)} does not know the job's secret."
        if self._door.deaf_until:
            text += " Rank 0 has no file descriptor left to accept a worker: close files, or raise ulimit -n."
        if self._door.other_versions:
            text += f" A process that tried to connect cannot: {self._door.other_versions}."
        return text

    def _state_of(self, rank: int) -> str:
        if rank in self._ended:
            return "ended"
        if rank and rank not in self._workers:
            other = self._other_programs.get(rank)
            return f"only tried to connect from {other}, not {self.job.program}" if other else "never connected"
        where = [meeting.label for meeting in self._meetings.values() if rank in meeting.arrivals]
        if where:
            return f"came to {where[-1]} instead"
        calls = self._called if not rank else self._workers[rank].called
        return "connected, but did not come to this call yet" if calls else "connected, but called nothing yet"

    # -- the beginning and the end

    def see_off(self) -> None:
        """Before this process ends, wait for the groups that meet here, and for the last messages to arrive.

        Late workers get the errors of failed calls. An error that ends the program waits for no group.
        """
        end = time.monotonic() + DEFAULT_TIMEOUT
        while self._led.intersection(list(self._workers)) and time.monotonic() < end and not hasattr(sys, "last_value"):
            time.sleep(0.01)
        end = time.monotonic() + _SEE_OFF_SECONDS
        while time.monotonic() < end and (self._is_owed or any(connection.on_its_way for connection in self._all())):
            time.sleep(0.002)

    @property
    def _is_owed(self) -> bool:
        """Whether a worker that has never connected lacks the error of a failed call."""
        return bool(self._failed) and len(self._seen) < self.job.world_size - 1

    def _all(self) -> list[Connection]:
        return [worker.connection for worker in list(self._workers.values())]

    def listen(self) -> None:
        """Open the port now, in the calling thread; raises `NoChannelError` if it cannot."""
        self._door.open(calls=True)
        self.start()

    def missing(self) -> str:
        """Why it does not listen yet; see `Inbox`."""
        host, port = self._opens
        return f"It waits for {host}:{port}: the name is being looked up, or another listens there." if host else ""

    def _open_door(self, calls: bool) -> None:
        self._listen_error = None
        if self._door.is_open:
            return
        try:
            self._opens = self.job.candidates()[0]
            self._door.open(calls)
        except FleetMetricsError as error:  # the next call tries again
            self._listen_error = error
        finally:
            self._opens = "", 0

    def _shut(self) -> None:
        self._take_asked(lambda message: self._hear(0, message))
        for worker in list(self._workers.values()):
            with contextlib.suppress(Lost):
                worker.connection.send(Message(CLOSED))

    def drop(self) -> None:
        """Close the descriptors; see `Inbox`."""
        for worker in list(self._workers.values()):
            worker.connection.close()
        self._door.close()
        super().drop()


def _apart(job: Job) -> str:
    return (
        f"Each worker needs its own {job.variables[1]}, and each run needs its own name, FLEETMETRICS_RUN, or its own "
        "endpoints."
    )


def _keep_circles(stuck: dict[Place, Meeting]) -> None:
    """Remove exchanges for whose workers no other one waits: they may succeed once the others have failed."""
    while True:
        missing = {rank for meeting in stuck.values() for rank in meeting.missing}
        ends = [place for place, meeting in stuck.items() if missing.isdisjoint(meeting.arrivals)]
        for place in ends:
            del stuck[place]
        if not ends:
            return


def _ended_text(ranks: Sequence[int], meeting: Meeting) -> str:
    return (
        f"{in_words(ranks)} has ended without calling {meeting.label}: every worker must make the same calls. Look at "
        "its log; or does only some ranks' code call this, as in `if rank == 0:`?"
    )


def _gone_text(rank: int) -> str:
    return f"{in_words([rank])} has gone away: its process ended, or it closed the channel. Look at its log."


def _other_program_text(rank: int, theirs: str, ours: str) -> str:
    ours, theirs = ours or "no script", theirs or "no script"
    return (
        f"rank 0 of this run runs {ours}, but this process, which says that it is rank {rank}, runs {theirs}. If it is "
        "a helper of the worker, compute in the worker itself, or call compute_local(); if it is the worker, give both "
        "programs the same run, FLEETMETRICS_RUN."
    )


def _text_in(message: Message) -> str:
    return message.header.decode(errors="replace")


def _deadlock_text(meetings: Sequence[Meeting]) -> str:
    where: dict[int, str] = {}
    several = len({meeting.title for meeting in meetings}) > 1
    for meeting in meetings:
        label = f"{meeting.label} on {meeting.title}" if several and not meeting.group else meeting.label
        for rank in meeting.arrivals:
            where.setdefault(rank, label)
    at = dict.fromkeys(where[rank] for rank in sorted(where))
    words = ", ".join(f"{label} on {in_words([rank for rank in where if where[rank] == label])}" for label in at)
    return (
        f"the workers disagree: {words}, and these wait for each other; name the same ranks on every worker of a "
        "group, and call groups and communicators in the same order on all workers."
    )
