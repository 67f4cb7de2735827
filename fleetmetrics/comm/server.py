"""Rank 0's end of the channel: it lets the workers in, keeps who waits where, watches the clock, and answers.

Only its thread touches what is here. It answers also while rank 0's program is elsewhere: it refuses, tells and warns.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import time
from typing import NamedTuple, Sequence

from fleetmetrics.comm.arrivals import Arrival, answer_with, arrival_in, bundled, folded
from fleetmetrics.comm.deadline import DEFAULT_TIMEOUT
from fleetmetrics.comm.door import Door
from fleetmetrics.comm.failures import calling, error_header, error_in, in_words, named_error, readable
from fleetmetrics.comm.handshake import Guest, unproven_text
from fleetmetrics.comm.inbox import Inbox
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.meeting import Meeting, stuck_in, stuck_text
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
    Silent,
    silence,
)
from fleetmetrics.comm.past import KEPT, Ended, Past
from fleetmetrics.comm.roster import Roster, Worker
from fleetmetrics.comm.status import ended_text, gone_text, late_status, slow_text, status_of, way_out
from fleetmetrics.errors import (
    AgreementError,
    AuthenticationError,
    CommunicatorError,
    DeadlineError,
    FleetMetricsError,
)
from fleetmetrics.serial.descriptions import Letter

__all__ = ["Server"]

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


class Delivery(NamedTuple):
    """An answer for rank 0's program, which gets it once the system has those of all others: its process may end."""

    answer: Message
    ranks: tuple[int, ...]
    last_moment: float


class Server(Inbox):
    """Rank 0's end; see `Inbox`."""

    met: bool

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._door = Door(job, self.secret.key, self._poll)
        self._roster = Roster(job)
        self._past = Past()
        self._by_descriptor: dict[int, Worker] = {}
        self._sending: set[Worker] = set()  # those whose sockets have not taken all yet
        self._meetings: dict[Place, Meeting] = {}
        self._complete: list[Meeting] = []  # on which to decide
        self._drains = False  # whether to read what has arrived before that: the process may have been stopped
        self._undelivered: list[Delivery] = []
        self._listen_error: FleetMetricsError | None = None
        self._opens = "", 0  # the address at which it tries to listen
        self._led: set[int] = set()  # the ranks that have called in groups without rank 0
        #: Exchanges that wait for each other, and when this is an error although some threads have never called.
        self._stuck: tuple[set[Place], float] = set(), math.inf
        self._threads: dict[int, int] = {}  # by rank: how many of its threads call
        self._listens_at = time.monotonic() + silence() / 2  # when to look whose machines have not answered

    # -- the loop

    def _run(self) -> None:
        self._open_door(calls=bool(self._asked))
        while not self.closed:
            try:
                self._serve()
            except Exception as error:
                if 0 in self._roster.gone:  # it cannot even say so
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
        self._take_asked(functools.partial(self._hear, 0))
        while self._complete and not self._drains:
            meeting = self._complete.pop(0)
            if meeting.place in self._meetings and time.monotonic() < meeting.end:
                self._decide(meeting)
        self._flush()
        return bool(events)

    def _wakes_at(self) -> float:
        moments = [self._moment_of(meeting) for meeting in self._meetings.values()]
        moments += [delivery.last_moment for delivery in self._undelivered]
        return min([*moments, self._door.next_look, self._stuck[1], self._listens_at])

    def _moment_of(self, meeting: Meeting) -> float:
        """When to look at an exchange again if nothing happens."""
        return min(
            [meeting.next_moment, *(until for rank, until in self._roster.ended.items() if rank in meeting.missing)]
        )

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
            self._lose(worker, f"messages from {in_words([worker.rank])} to rank 0 cannot be trusted: {error}")
        except Lost as error:
            self._lose(worker, gone_text(worker.rank, error.why))

    def _flush(self) -> None:
        """Send what the sockets accept, and give rank 0's program the answers that all others have been sent."""
        for worker in list(self._sending):
            self._poll.follow(worker.connection)
            if not worker.connection.sending:
                self._sending.discard(worker)
        for delivery in list(self._undelivered):
            if not any(worker.rank in delivery.ranks for worker in self._sending):
                self._deliver(delivery)

    def _deliver(self, delivery: Delivery) -> None:
        self._undelivered.remove(delivery)
        self._put(delivery.answer)

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        for delivery in [delivery for delivery in self._undelivered if now >= delivery.last_moment]:
            self._deliver_late(delivery)
        for meeting in list(self._meetings.values()):
            if now >= meeting.next_moment:
                self._expire(meeting)
            elif now >= self._moment_of(meeting):
                ended = [rank for rank in meeting.missing if self._roster.ended.get(rank, now + 1) <= now]
                self._fail(meeting, CommunicatorError(ended_text(ended, meeting)))
        if now >= self._stuck[1]:
            self._fail_stuck()
            self._stuck = set(), math.inf
        if now >= self._listens_at:
            self._listens_at = now + silence() / 2
            for worker in [worker for worker in self._roster.workers.values() if worker.connection.silent]:
                self._lose(worker, gone_text(worker.rank, Silent.why))
        self._door.look(now)
        self._fail_unproven()

    def _fail_unproven(self) -> None:
        """End exchanges for which only processes come that do not know the secret."""
        refused = self._door.ranks_unproven().difference(self._roster.workers)
        for meeting in list(self._meetings.values()) if refused else ():
            missing = meeting.missing
            if missing and set(missing) <= refused:
                self._door.forgive(missing)
                self._fail(meeting, AuthenticationError(unproven_text(missing)))

    def _deliver_late(self, delivery: Delivery) -> None:
        """The answer stays: a worker that could not take it in time has stopped."""
        for worker in [worker for worker in self._sending if worker.rank in delivery.ranks]:
            self._lose(worker, f"{in_words([worker.rank])} stopped in the middle of an answer")
        self._deliver(delivery)

    def _expire(self, meeting: Meeting) -> None:
        if meeting.missing:
            self._fail(meeting, DeadlineError(f"{late_status(meeting, self._roster)}. {self._status(meeting)}"))
        else:
            self._fail(meeting, DeadlineError(slow_text(meeting)))

    # -- who is who

    def _admit(self, guest: Guest) -> None:
        """Let in a worker that has proved itself, or refuse it with the reason."""
        earlier = self._roster.workers.get(guest.rank)
        if earlier is not None and earlier.session == guest.session:  # its first connection is lost
            self._lose(earlier, gone_text(guest.rank))
        if self._roster.is_in_the_way_of(guest):
            self._give_way(guest)
            return
        refusal = self._roster.refusal(guest, self.met)
        if refusal is None:
            self._welcome(guest)
            return
        self._door.refuse(guest, refusal.text, refusal.code)
        if refusal.for_all and not self.met:  # now, and at every later exchange
            self._lose_rank(0, refusal.text)

    def _welcome(self, guest: Guest) -> None:
        try:
            connection = self._door.admit(guest, self._roster.number)
        except OSError:  # it connects again
            return
        worker = Worker(connection, guest.rank, guest.session, time.monotonic() - guest.since)
        self._roster.enter(worker)
        self._by_descriptor[connection.fileno()] = worker
        for (channel, call), header in self._past.failed.items():  # this process may end before the worker comes
            self._say(worker.rank, Message(ERROR, channel, call, header=header))
        self._roster.seen.add(worker.rank)  # not before: `see_off`, in another thread, would end without the errors

    def _give_way(self, guest: Guest) -> None:
        """Let a process that calls as rank 0 listen in place of this one, which only has a metric."""
        for worker in list(self._roster.workers.values()):
            with contextlib.suppress(Lost):
                worker.connection.send(Message(CLOSED))
            self._dismiss(worker)
        self._door.stop_listening()
        self._door.drop(guest)

    def _lose(self, worker: Worker, why: str) -> None:
        """A connection has ended."""
        self._dismiss(worker)
        if worker.called:
            if worker.ended is not None:  # nothing has come since
                others = [rank for rank in worker.ended.ranks if rank != worker.rank]
                why += (
                    f". The previous exchange, {worker.ended.label}, ended with a result on {in_words(others)}; "
                    f"{in_words([worker.rank])} may have an error instead"
                )
            self._lose_rank(worker.rank, why)
        elif worker.connection.heard:  # it has ended without calling, or its first connection was lost
            self._roster.ended[worker.rank] = time.monotonic() + _GRACE_SECONDS + 5 * worker.round_trip

    def _lose_rank(self, rank: int, why: str) -> None:
        self._roster.gone.setdefault(rank, why)
        for meeting in list(self._meetings.values()):
            if rank in meeting.ranks or rank == 0:
                self._fail(meeting, self._roster.error_of_gone(meeting.ranks))

    def _dismiss(self, worker: Worker) -> None:
        """Close a worker's connection."""
        self._sending.discard(worker)
        self._poll.unregister(worker.connection)
        self._by_descriptor.pop(worker.connection.fileno(), None)
        self._roster.leave(worker)
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
                self._fail(meeting, named_error("DeadlineError", message.header.decode(errors="replace")))
        elif kind == STATUS:
            meeting = self._meetings.get(message.place)
            if meeting is not None and meeting.missing and self._reads(rank):
                self._say(rank, Message(STATUS, *message.place, header=self._status(meeting).encode()))
        elif kind == CLOSED:
            self._close_channel(rank, message)

    def _arrive(self, rank: int, message: Message) -> None:
        if rank:
            worker = self._roster.workers[rank]
            worker.called, worker.ended = True, None
            message.end -= worker.round_trip / 2
        else:
            self._roster.rank_0_called = True
            self._open_door(calls=True)
        try:
            arrival = arrival_in(message, rank)
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
        meeting.arrive(rank, arrival, 0.0 if not rank else self._roster.workers[rank].round_trip)
        if meeting.complete:
            self._complete.append(meeting)
        elif any(place[:2] != meeting.place[:2] for place in self._meetings):
            self._fail_stuck()

    def _is_out_of_turn(self, rank: int, arrival: Arrival, meeting: Meeting) -> bool:
        """Whether a worker does what none does: it is lost, or the exchange fails; so what is kept here has bounds."""
        if rank in meeting.arrivals or arrival.message.place in self._past.ended:
            raise Garbled(f"it comes twice to {meeting.label}")
        if sum(rank in other.arrivals for other in self._meetings.values()) >= KEPT:
            raise Garbled(f"it waits at {KEPT} exchanges at once")
        if arrival.ranks == meeting.group:
            return False
        theirs, its = [in_words(ranks or range(self.job.world_size)) for ranks in (meeting.group, arrival.ranks)]
        error = AgreementError(f"the workers disagree at {meeting.label} of {theirs}: {in_words([rank])} says {its}")
        self._fail(meeting, error)
        if rank not in meeting.ranks:
            self._say_error(rank, arrival.message, error)
        return True

    def _welcomes(self, rank: int, message: Message, arrival: Arrival, meeting: Meeting) -> bool:
        """Whether an exchange may still succeed; otherwise the worker that has arrived gets the error."""
        ranks = arrival.ranks or range(self.job.world_size)
        error = self._past.failed.get(message.place[:2]) or self._why_not(rank, message, ranks, meeting)
        if error is None:
            return True
        self._past.learn(rank, message.place[:2])
        if isinstance(error, bytes) or rank not in ranks:
            self._say_error(rank, message, error)
        else:
            self._fail(meeting, error)  # the others may come when this process has ended
        return False

    def _why_not(self, rank: int, message: Message, ranks: Sequence[int], meeting: Meeting) -> FleetMetricsError | None:
        """The error of an exchange that cannot succeed."""
        if rank == 0 and self._listen_error is not None:
            return self._listen_error
        if self._roster.is_broken(ranks):
            return self._roster.later_error_of_gone(ranks)
        closed = self._past.closed.get(message.channel, ())
        closed = {other for other in closed if other in ranks and other not in meeting.arrivals}
        if closed:
            return CommunicatorError(f"{in_words(closed)} has gone away: it closed the channel")
        if isinstance(ranks, tuple) and max(ranks) >= self.job.world_size:
            return CommunicatorError(f"{in_words(ranks)} are not all among the job's {self.job.world_size} workers")
        if rank not in ranks:
            return CommunicatorError(f"{in_words([rank])} is not one of {in_words(ranks)}, whose exchange it joins")
        return None

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
        self._past.fail(call, error_header(error))
        self._past.leave(message.place, rank, with_error)
        if self._reads(rank):
            self._say(rank, Message(LEFT, *message.place))  # it waits for that before it goes on

    def _close_channel(self, rank: int, message: Message) -> None:
        if message.header == ENDS:  # rank 0's process need not stay for this one
            self._led.discard(rank)
            return
        if not message.channel:  # all channels of this worker
            if rank:
                worker = self._roster.workers[rank]
                worker.called = False
                self._dismiss(worker)
            return
        self._past.close(message.channel, rank, self.job.world_size)
        for meeting in list(self._meetings.values()):
            if meeting.place[0] == message.channel and rank in meeting.missing:
                self._fail(meeting, CommunicatorError(f"{in_words([rank])} has gone away: it closed the channel"))

    # -- the decision

    def _decide(self, meeting: Meeting) -> None:
        arrivals = meeting.in_order
        try:
            with calling(meeting.group):
                self._past.announce_split(meeting.place, meeting.ranks)
                answer = folded(arrivals, meeting.place[1])
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
            return answer_with(meeting.place, answer)
        if meeting.ranks[0] == 0:  # it needs no bytes
            return Message(LETTERS, *meeting.place, payload=arrivals)
        return bundled(meeting.place, arrivals)

    def _answer(self, meeting: Meeting, answer: Message) -> None:
        if time.monotonic() > meeting.last_moment:  # a worker has given up, so all must
            self._fail(meeting, DeadlineError(slow_text(meeting)))
            return
        answer = Message(ANSWER, *meeting.place, header=answer.header, payload=answer.payload)
        answer.attendance = meeting.attendance
        self.met = self.met or not meeting.group
        self._meetings.pop(meeting.place, None)
        ended = self._past.ended[meeting.place] = Ended(meeting.place, meeting.label, meeting.ranks)
        for rank in meeting.ranks:
            if rank in self._roster.workers:
                self._roster.workers[rank].ended = ended
                self._say(rank, answer)
        if 0 in meeting.ranks:
            self._undelivered.append(Delivery(answer, meeting.ranks, meeting.last_moment))

    def _fail(self, meeting: Meeting, error: FleetMetricsError) -> None:
        """End a call with an error: for the workers that wait, and for those that come later."""
        if meeting.failed:
            return
        broken = self._roster.is_broken(meeting.ranks)
        header = error_header(error, broken)
        call = meeting.place[:2]
        self._past.fail(call, header)
        first = meeting
        for place, other in list(self._meetings.items()):
            if place[:2] == call:
                self._meetings.pop(place).failed = True
                first = other if place < first.place else first  # the workers wait there
        if broken:
            self._roster.informed.update(meeting.ranks)
        verdict = Message(ERROR, *first.place, header=header)
        verdict.attendance = first.attendance
        for rank in sorted(meeting.ranks, reverse=True):  # late ones, too; rank 0 last, whose process may end then
            self._say(rank, verdict)

    def _say_error(self, rank: int, message: Message, error: FleetMetricsError | bytes) -> None:
        if self._roster.gone:
            self._roster.informed.add(rank)
        header = error if isinstance(error, bytes) else error_header(error, bool(self._roster.gone))
        self._say(rank, Message(ERROR, *message.place, header=header))

    def _reads(self, rank: int) -> bool:
        """Whether a worker has taken what it was sent: only then it gets replies, so they have bounds."""
        return rank not in self._roster.workers or not self._roster.workers[rank].connection.sending

    def _say(self, rank: int, message: Message) -> None:
        if rank == 0:
            self._put(message)
        elif rank in self._roster.workers:
            worker = self._roster.workers[rank]
            if message.kind == ERROR and worker.connection.waiting > KEPT:  # it does not read, and gets it if it comes
                return
            with contextlib.suppress(Lost):  # reading finds that it has gone, after its last messages
                worker.connection.send(message)
                if worker.connection.sending:
                    self._sending.add(worker)

    def _fail_stuck(self) -> None:
        """End all exchanges that wait for each other: no worker in them can come to another one."""
        stuck = stuck_in(self._meetings, self._threads, self.job.world_size)
        if stuck and not self._may_be_too_soon(stuck):
            error = AgreementError(stuck_text(stuck))
            for meeting in stuck:
                self._fail(meeting, error)

    def _may_be_too_soon(self, stuck: Sequence[Meeting]) -> bool:
        """Whether a thread that has never called may come yet, because the exchanges do not wait for long."""
        arrivals = [arrival for meeting in stuck for arrival in meeting.arrivals.values()]
        if not any(arrival.message.threads[1] for arrival in arrivals):
            return False
        now, places = time.monotonic(), {meeting.place for meeting in stuck}
        if self._stuck[0] != places:
            self._stuck = places, now + _FIRST_CALL_SECONDS
        return now < self._stuck[1]

    def _status(self, meeting: Meeting) -> str:
        text = status_of(meeting, self._meetings.values(), self._roster, self._door)
        alone = not self.met and not self._roster.seen
        return text + (way_out(self.job) if alone else "")

    # -- the beginning and the end

    def see_off(self) -> None:
        """Before this process ends, wait for the groups that meet here, and for the last messages to arrive.

        Late workers get the errors of failed calls. An error that ends the program waits for no group.
        """
        end = time.monotonic() + DEFAULT_TIMEOUT
        while (
            self._led.intersection(list(self._roster.workers))
            and time.monotonic() < end
            and not hasattr(sys, "last_value")
        ):
            time.sleep(0.01)
        end = time.monotonic() + _SEE_OFF_SECONDS
        while time.monotonic() < end and (
            self._asked or self._is_owed or any(connection.on_its_way for connection in self._all())  # in this order
        ):
            time.sleep(0.002)

    @property
    def _is_owed(self) -> bool:
        """Whether a worker that has never connected lacks the error of a failed call."""
        return bool(self._past.failed) and len(self._roster.seen) < self.job.world_size - 1

    def _all(self) -> list[Connection]:
        return [worker.connection for worker in list(self._roster.workers.values())]

    def listen(self) -> None:
        """Open the port now, in the calling thread; raises `NoChannelError` if it cannot."""
        self._door.open(calls=True)
        self.start()

    def missing(self) -> str:
        """Why it does not listen yet; see `Inbox`."""
        host, port = self._opens
        return f"It waits for {host}:{port}: the name is being looked up, or another listens there" if host else ""

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
        self._take_asked(functools.partial(self._hear, 0))
        for worker in list(self._roster.workers.values()):
            with contextlib.suppress(Lost):
                worker.connection.send(Message(CLOSED))

    def drop(self) -> None:
        """Close the descriptors; see `Inbox`."""
        for worker in list(self._roster.workers.values()):
            worker.connection.close()
        self._door.close()
        super().drop()
