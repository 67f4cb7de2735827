"""Rank 0's side of the star: it waits for all workers, decides, and answers them."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections import defaultdict
from typing import Callable, NoReturn, Sequence, TypeVar

from fleetmetrics.comm.boards import Search
from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.comm.failures import by_a_handler, called, late_text, raise_trouble, ranks_text, readable
from fleetmetrics.comm.finding import NotFound, check_descriptors
from fleetmetrics.comm.frames import (
    ACK,
    ARRIVAL,
    CLOSED,
    GAVE_UP,
    LEFT,
    TROUBLE,
    Frame,
    Garbled,
    Lost,
    Place,
)
from fleetmetrics.comm.handshake import Guest
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.meeting import Meeting
from fleetmetrics.comm.peers import Broken, Peer, Peers, gone
from fleetmetrics.comm.rivals import PAUSE_SECONDS
from fleetmetrics.comm.star import (
    ACKNOWLEDGING,
    TRIES,
    Channel,
    Combine,
    Member,
    after,
    error_frame,
    error_in,
    interruption,
)
from fleetmetrics.errors import AgreementError, CommunicatorError, DeadlineError, FleetMetricsError, NoChannelError

__all__ = ["Hub"]

_ABANDONED_KEPT = 1024
#: How often rank 0, at the deadline, still reads frames that have arrived, without waiting for more.
_LAST_TURNS = 64
#: If a wait takes this much too long, the process was stopped; a busy machine does not explain it.
_STOPPED_SECONDS = 1.0
#: Seconds that rank 0 waits for late workers to connect, to send them an error.
_SEE_OFF_SECONDS = 1.0
#: Seconds that rank 0 gives new guests to identify themselves before it answers: two may claim one rank.
_HEAR_SECONDS = 0.1
_T = TypeVar("_T")


class Hub(Member):
    """Rank 0."""

    search: Search | None
    inside: tuple[int, str]
    made: int
    label: str
    broken: str

    def __init__(self, job: Job) -> None:
        check_descriptors(job.world_size)  # before reading the secret, which needs a descriptor
        super().__init__(job)
        self._peers = Peers(job, self.secret.key)
        self._closed: defaultdict[int, set[int]] = defaultdict(set)  # ranks by the channels that they closed
        self._abandoned: dict[tuple[int, Place], Frame] = {}  # by channel and exchange
        self._departed: dict[int, tuple[int, str]] = {}  # by channel: the last call that a worker left; why
        self._meeting: Meeting | None = None
        self._unsettled: Meeting | None = None  # its answer was sent, and no worker has confirmed it
        self._slept = 0.0  # seconds by which a wait was too long
        self._number = 0  # of the last exchange of any channel
        self._answered = ""  # the name in errors of the last answered exchange
        self._parting = 0, ""  # the last exchange whose error named who had parted; its text
        self._interrupted = False  # whether a frame may be read but not handled
        self._last_word = ""  # the last report about it that all workers got

    def exchange(
        self,
        channel: Channel,
        frame: Frame,
        label: str,
        combine: Combine,
        deadline: Deadline,
    ) -> Frame:
        """Collect the frames, decide, and answer all; see `Member.exchange`."""
        self._number += 1
        meeting = self._meeting = Meeting(channel, frame, label, deadline, self._number)
        if self.search is not None:  # after an interruption, its board may be open
            self.search.close()
        self.search = self.searching(channel, frame.call, label, self._peers.poll)

        def answered() -> Frame:
            answer = self._answer(meeting, combine, deadline)
            self._unsettled = meeting
            if self.watch is not None or self.search is not None:  # these end with the exchange
                self._settle(meeting)
            return answer

        return self._or_give_up(meeting, answered)

    def settle(self) -> None:
        """Wait until one of the others has the last answer; see `Member.settle`."""
        meeting = self._unsettled
        if meeting is not None:
            try:
                self.inside = threading.get_ident(), meeting.label  # for a signal handler that computes
                self._or_give_up(meeting, functools.partial(self._settle, meeting))
            finally:
                self.inside = 0, ""

    def _leave(self, channel: Channel, name: str, error: BaseException) -> None:
        """Settle or withdraw an answer that is not settled, and leave the call; see `Member._leave`."""
        meeting = self._unsettled
        if meeting is not None and isinstance(error, Exception):
            self.settle()  # an error of a formula, after an exchange that all have completed
        elif meeting is not None:
            self._end(meeting, error)
        super()._leave(channel, name, error)

    def _say_left(self, channel: Channel, name: str, error: BaseException) -> None:
        """Tell all; see `Member._say_left`."""
        told = _for_all(error, self.label_of(channel.calls, name))
        self._abandon(error_frame(channel.number, channel.place, told))

    def _end(self, meeting: Meeting, error: BaseException) -> None:
        """End an exchange that is not settled, without waiting: rank 0 was interrupted."""
        with contextlib.suppress(Broken, FleetMetricsError):  # the next exchange finds these
            turns = 0
            while not meeting.acknowledged and turns < _LAST_TURNS and self._receive(0, []):
                turns += 1
        if meeting.acknowledged:
            self._stands(meeting)
        else:
            self._give_up(meeting, error)
        self._unsettled = self._meeting = None

    def _stands(self, meeting: Meeting) -> None:
        """Record that another worker has the answer of an exchange."""
        channel, number = meeting.channel, meeting.number
        channel.over, channel.made, self.made, self.label = meeting.place, number, number, self._answered
        self.join()

    def _or_give_up(self, meeting: Meeting, work: Callable[[], _T]) -> _T:
        """Run a part of an exchange; if it fails, all workers get the error."""
        try:
            return work()
        except BaseException as error:
            self._unsettled = None
            last = error
            for _ in TRIES:
                try:
                    self._give_up(meeting, error)
                    break
                except BaseException as again:  # Ctrl-C, while the others still wait for the error
                    last = again
            if isinstance(last, Broken):
                raise CommunicatorError(self.broken) from None
            raise last from None
        finally:
            if self._unsettled is None:
                self._meeting = None
                if self.search is not None:
                    self.search.close()

    def _answer(self, meeting: Meeting, combine: Combine, deadline: Deadline) -> Frame:
        """Decide, and send the answer to all workers."""
        answer = self._decide(meeting, self._collect(meeting), combine)
        answer.made, self._answered = meeting.number, f"{meeting.label} on {meeting.channel.title}"
        self._look_again(meeting)
        self._peers.send_all(answer, deadline, self._peers.by_descriptor.values(), meeting.lost)
        return answer

    def _settle(self, meeting: Meeting) -> None:
        """Make the answer final once another worker has it."""
        self._confirm(meeting)
        self._stands(meeting)
        self._unsettled = None
        if meeting.lost:  # the answer is final
            call, step = meeting.place
            self._spread(meeting.channel, (call, step + 1), next(iter(meeting.lost.values())))

    def _give_up(self, meeting: Meeting, error: BaseException) -> None:
        """Send all workers the reason why there is no result, also for Ctrl-C and sys.exit; its steps may run twice."""
        channel, place = meeting.channel, meeting.place
        if isinstance(error, Broken):
            self._spread(channel, place, str(error))
            self.broken = self._last_word
        else:
            self._interrupted = True
            told = _for_all(error, meeting.label)
            self._abandon(error_frame(channel.number, place, told, made=meeting.made))
        channel.told = place

    def skip(self, channel: Channel, call: str, error: BaseException) -> None:
        """Keep the error until the others arrive; see `Member.skip`."""
        channel.place = channel.calls + 1, 1
        self._say_left(channel, call, error)

    def tell_all(self, frame: Frame) -> None:
        """Tell the connected workers; see `Member.tell_all`."""
        for peer in self._peers.by_descriptor.values():
            self._peers.tell(peer, frame)

    def shut(self, channel: Channel) -> None:
        """Close a channel, once the last answer is settled; see `Member.shut`."""
        try:
            self.settle()
        finally:
            super().shut(channel)

    def close(self) -> None:
        """Close all sockets."""
        self._unsettled = None  # in a forked child, which must not confirm
        self._peers.close()
        if self.search is not None:
            self.search.close()

    def _decide(self, meeting: Meeting, frames: Sequence[Frame], combine: Combine) -> Frame:
        made = [frame.made for frame in frames]
        last = max(made)
        if min(made) < last:
            self._look_again(meeting)  # a worker that has given up would not receive it
            self._say_who_parted(meeting, made)
        meeting.made, self.label = last, ""
        if meeting.troubled:
            raise_trouble([error_in(one, rank)[:2] if one.kind == TROUBLE else None for rank, one in enumerate(frames)])
        try:
            return combine(frames)
        except FleetMetricsError:
            raise
        except Exception as error:
            if by_a_handler(error):
                raise
            raise CommunicatorError(
                readable(f"{ranks_text([0])} failed to combine: {type(error).__name__}: {error}")
            ) from error

    def _say_who_parted(self, meeting: Meeting, made: list[int]) -> NoReturn:
        last = max(made)
        parting, text = self._parting
        if last != parting:  # otherwise only some workers would receive it
            text = (
                f"the workers diverged at {self._answered or 'an exchange'}: it ended with a result on "
                f"{ranks_text(rank for rank, one in enumerate(made) if one == last)}, and with an error on "
                f"{ranks_text(rank for rank, one in enumerate(made) if one < last)}. Compute it again on all workers; "
                "they are in step again."
            )
        self._parting = meeting.number, text
        meeting.made = self.made = meeting.number
        raise AgreementError(text)

    # Collecting

    def _collect(self, meeting: Meeting) -> list[Frame]:
        """Wait for all workers; return the frames by rank."""
        if self._peers.lost or self._last_word:
            raise Broken(self._peers.lost)
        if not self._peers.all_here:
            self._open_door(meeting)
        self._slept = 0.0
        world = self.job.world_size
        gave_up: list[str] = []
        for peer, frame in self._peers.kept(meeting.channel.number):
            self._sort(peer, frame, gave_up)
        if self._interrupted:
            for peer in [peer for peer in self._peers.by_descriptor.values() if peer.stream.last is not None]:
                self._read(peer, gave_up)
            self._interrupted = False
        self._check_present(meeting)
        just_arrived, turns = True, 0  # until no socket has data; turns since the end
        while True:
            arrived = len(meeting.frames) == world
            if arrived and not gave_up and (self.joined or self._is_alone(meeting)):
                return [meeting.frames[rank] for rank in range(world)]
            over = time.monotonic() >= meeting.end
            turns += over
            until = 0 if just_arrived or gave_up or over else self._end_of_wait(meeting)
            try:
                if self._receive(until, gave_up) and turns < _LAST_TURNS:
                    continue
            except Broken:
                if gave_up:  # its last frame comes before its end; the next exchange handles that
                    continue
                raise
            if gave_up and (arrived or just_arrived or meeting.shunned or self._slept > _STOPPED_SECONDS):
                raise DeadlineError(gave_up[0])  # rank 0 came late or was stopped, as a waiting worker reports
            if gave_up:
                raise DeadlineError(self._missing(meeting))
            just_arrived = False
            if self.search is not None and not arrived:
                self.search.missing = [called(rank) for rank in meeting.absent(self.job.world_size)]
                self.search.look(meeting.end)
            if self.watch is not None:
                self.watch.waits()
            if self._peers.door.unproven:
                self._check_unproven(meeting)
            if not arrived and time.monotonic() >= meeting.end:
                raise DeadlineError(self._missing(meeting))
            if noted := self.noted():
                raise Broken(noted)

    def _check_unproven(self, meeting: Meeting) -> None:
        """Raise if all missing workers have a different secret; a connected worker is only late."""
        absent = meeting.absent(self.job.world_size)
        if absent and not any(rank in self._peers.by_rank for rank in absent):
            self._peers.door.check_unproven(absent)

    def _is_alone(self, meeting: Meeting) -> bool:
        """Whether no other process of this machine claims a rank of this run; False while that is uncertain."""
        self.check_starter(met=True)
        found = self.rival(meeting.end)
        if found is not None and found.sure:
            raise Broken(found.text)
        return found is None

    def _end_of_wait(self, meeting: Meeting) -> float:
        """The time until which rank 0 may sleep; before it has met the others, it wakes to check for rivals."""
        if self.search is not None:
            return min(meeting.end, self.search.next)
        if self.joined:
            return meeting.end
        return min(meeting.end, time.monotonic() + PAUSE_SECONDS)

    def _look_again(self, meeting: Meeting) -> None:
        """Raise if a worker gave up in the meantime; after this check the answer is final."""
        gave_up: list[str] = []
        hears_until = time.monotonic() + _HEAR_SECONDS
        try:
            while self._receive(hears_until if self._peers.door.has_new_guests() else 0, gave_up):
                if time.monotonic() > meeting.last_moment:
                    break
        except Broken:
            if not gave_up:
                raise
        if gave_up:
            raise DeadlineError(gave_up[0])
        if time.monotonic() > meeting.last_moment:  # a worker has given up, so all must
            raise DeadlineError(
                f"{ranks_text([0])} needed more than the {meeting.timeout:g} s that it has at {meeting.label}."
            )

    def _missing(self, meeting: Meeting) -> str:
        missing = meeting.absent(self.job.world_size)
        connected = any(rank in self._peers.by_rank for rank in missing)
        text = late_text(missing, "arrive" if connected else "connect", meeting.timeout, meeting.label)
        strangers = [rank for rank in missing if rank in self._peers.sent_away]
        if strangers:
            text += f" Rank 0 refused {ranks_text(strangers)} of another run; this run is {self.job.title}."
        if self.search is not None:
            text += self.search.words
        if self._peers.door.deaf_until:
            deaf = ranks_text([0]).capitalize()
            text += f" {deaf} has no file descriptor left to accept a worker: close files, or raise ulimit -n."
        return text

    def _sort(self, peer: Peer, frame: Frame, gave_up: list[str]) -> None:
        """Take the frames of this exchange, and keep early ones; frames of earlier exchanges have their verdicts."""
        meeting = self._meeting
        if meeting is not None and frame.made == meeting.number:  # it has the answer, and has continued
            meeting.acknowledged = True
        if meeting is None or frame.channel != meeting.channel.number or frame.place > meeting.place:
            self._peers.keep(peer, frame)
        if meeting is None or frame.channel != meeting.channel.number or frame.call < meeting.call:
            return
        if frame.kind != LEFT and frame.place < meeting.place:  # a worker that leaves a call leaves all of it
            return
        if frame.place > meeting.place:
            if peer.rank not in meeting.frames:
                meeting.shunned = True
                gave_up.append(
                    f"{ranks_text([peer.rank])} gave up before {ranks_text([0])} arrived, and is already at a later "
                    "call; every worker must call the same metrics in the same order."
                )
        elif frame.kind in (ARRIVAL, TROUBLE):
            meeting.arrive(peer, frame)
            if self.watch is not None:
                self.watch.arrived(peer.rank, frame.payload)
        elif frame.kind == ACK:
            meeting.acknowledged = True
        elif frame.kind == LEFT:
            meeting.left = _words_of(peer, frame)
            meeting.away.add(peer.rank)
            self._departed[frame.channel] = frame.call, meeting.left  # also in a later exchange of the call
        elif frame.kind == GAVE_UP:
            meeting.shunned |= peer.rank not in meeting.frames
            gave_up.append(_words_of(peer, frame))

    def _check_present(self, meeting: Meeting) -> None:
        """Raise if a worker was interrupted, or has closed the channel before its arrival."""
        call, why = self._departed.get(meeting.channel.number, (0, ""))
        if call == meeting.call:
            raise CommunicatorError(why)
        for rank in self._closed.get(meeting.channel.number, ()):
            if rank not in meeting.frames:
                raise CommunicatorError(f"{ranks_text([rank])} has gone away: it closed the channel.")

    def _receive(self, end: float, gave_up: list[str]) -> bool:
        """Handle the events until then; False if there were no events."""
        door = self._peers.door
        until = door.look(end) if end and (door.guests or door.deaf_until or door.unproven) else end
        events = self._peers.poll.wait(until)
        if until:
            self._slept = max(self._slept, time.monotonic() - until)
            events = events or self._peers.poll.wait()  # after a SIGCONT, epoll only reports a timeout
        for descriptor, _ in events:
            peer = self._peers.by_descriptor.get(descriptor)
            if peer is not None:
                self._read(peer, gave_up)
                continue
            guest = self._peers.door.handle(descriptor)
            if guest is not None:
                self._admit(guest)
            elif self.search is not None:
                self.search.hear(descriptor)
        return bool(events)

    def _read(self, peer: Peer, gave_up: list[str]) -> None:
        stream = peer.stream
        if stream.sending:
            with contextlib.suppress(Lost):  # reading finds the end of the connection after its last frames
                stream.flush()
                self._peers.watch(peer)
        try:
            frame = stream.last or stream.receive()
        except Garbled as error:
            told = f"messages from {ranks_text([peer.rank])} to {ranks_text([0])} cannot be trusted: {error}."
            self._peers.lose(peer, told)
        except Lost:
            if stream.heard:
                self._peers.lose(peer, gone(peer))
            self._peers.dismiss(peer)  # lost before the first frame: the worker connects again
            return
        if frame is None:
            return
        if frame.kind == CLOSED and not frame.channel:
            self._peers.dismiss(peer)
            return
        if frame.kind == CLOSED:
            self._closed[frame.channel].add(peer.rank)
        else:
            self._sort(peer, frame, gave_up)
        stream.seen()
        if frame.kind in (CLOSED, LEFT) and self._meeting is not None:
            self._check_present(self._meeting)

    # Connecting

    def listen(self) -> None:
        """Open the port now, not at the first exchange."""
        self._peers.door.open(math.inf)

    def _open_door(self, meeting: Meeting) -> None:
        try:
            self._peers.door.open(meeting.end)
        except NotFound as error:
            raise DeadlineError(
                f"{ranks_text([0])} did not listen within {meeting.timeout:g} s at {meeting.label}: {error}"
            ) from None
        except CommunicatorError as error:
            noted = self.noted()
            if isinstance(error, NoChannelError) and not noted:
                raise
            raise Broken(noted or str(error)) from None  # it lists, or did list, another rank 0 of this run

    def _admit(self, guest: Guest) -> None:
        """Let a worker in, and send it the exchanges that rank 0 has given up."""
        peer = self._peers.admit(guest, self.made)
        if peer is not None:
            for verdict in self._abandoned.values():
                self._peers.tell(peer, verdict)

    # Answering

    def _abandon(self, verdict: Frame) -> None:
        """Send all workers the verdict; late workers get it when they arrive or connect."""
        self._abandoned[verdict.channel, verdict.place] = verdict
        if len(self._abandoned) > _ABANDONED_KEPT:
            self._abandoned.pop(next(iter(self._abandoned)))
        self.tell_all(verdict)
        meeting, self._meeting = self._meeting, None
        end = min(meeting.end, time.monotonic() + _SEE_OFF_SECONDS) if meeting is not None else 0.0
        while self._peers.door.is_open and not self._peers.all_here and time.monotonic() < end:
            with contextlib.suppress(Broken, FleetMetricsError):  # this process may end before they connect
                self._receive(end, [])

    def _confirm(self, meeting: Meeting) -> None:
        """Wait until another worker has the answer: if none has, no worker may have a result."""
        asked = [peer for rank, peer in self._peers.by_rank.items() if rank <= ACKNOWLEDGING]
        meeting.acknowledged |= self.job.world_size == 1
        why, turns = "", 0
        while not meeting.acknowledged and [peer for peer in asked if not (peer.lost or peer.rank in meeting.away)]:
            try:
                happened = self._receive(meeting.last_moment, [])
                turns += time.monotonic() >= meeting.last_moment
                if turns and (not happened or turns >= _LAST_TURNS):
                    break
            except (Broken, CommunicatorError) as reason:
                why = why or str(reason)
        for rank, peer in self._peers.by_rank.items():
            if peer.lost:
                meeting.lost.setdefault(rank, why or gone(peer))
        if not meeting.acknowledged:
            ranks = [peer.rank for peer in asked]
            if meeting.lost:
                lost = next(iter(meeting.lost.values()))
                raise Broken(f"{lost} {ranks_text(ranks)} may still have a result of {meeting.label}.")
            if meeting.away:
                raise CommunicatorError(meeting.left)
            raise DeadlineError(late_text(ranks, "confirm the result", meeting.timeout, meeting.label))

    def _spread(self, channel: Channel, place: Place, reason: str) -> None:
        """Make this and every later call raise on all workers; name those that may have parted at the last one."""
        if not self._last_word:
            lost = {rank for rank, peer in self._peers.by_rank.items() if peer.lost}
            lost.update(self._meeting.lost if self._meeting is not None else ())
            others = [rank for rank in range(self.job.world_size) if rank not in lost]
            if lost:
                reason += after(self.label, ranks_text(others), ranks_text(lost))
            self._last_word = reason
        for peer in self._peers.by_descriptor.values():
            peer.stream.keep_unsent()
        self._abandon(error_frame(channel.number, place, CommunicatorError(self._last_word), broken=True))
        self._peers.door.close()


def _for_all(error: BaseException, label: str) -> FleetMetricsError:
    """The error that all workers get after an error on rank 0: the same, or the report of an interruption."""
    if isinstance(error, FleetMetricsError):
        return error
    return CommunicatorError(interruption(0, error, label))


def _words_of(peer: Peer, frame: Frame) -> str:
    """A worker's message about leaving a call."""
    with contextlib.suppress(UnicodeDecodeError):
        return readable(frame.header.decode())
    return f"{ranks_text([peer.rank])} left, and its last message cannot be read."
