"""Detection of workers that wait for each other in different groups.

Workers that name different ranks for one group, or call groups in different orders, would wait until the deadline, each
in a different group. So a worker that leads a group, and has waited for a while, opens a board: it listens at an
address that follows from its job and its rank alone. Other waiting workers check the boards of lower ranks, since one
of them leads every group that could wait for them. The two exchange their notices; if neither can continue, both raise.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Callable, Iterable, NamedTuple

from fleetmetrics.comm.door import Door
from fleetmetrics.comm.failures import readable
from fleetmetrics.comm.finding import NotFound, addresses_of
from fleetmetrics.comm.frames import ANSWER, ARRIVAL, Frame, Key, Lost, Poll, Stream, raised_by_a_socket
from fleetmetrics.comm.handshake import OTHER_RUN, Guest, Unwelcome, greet
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AgreementError, CommunicatorError, NoChannelError

__all__ = ["Board", "Notice", "Search"]

#: The errors for a peer that has ended, or whose message cannot be read.
_UNREADABLE = (Lost, ValueError, TypeError, OverflowError, RecursionError)
#: Seconds until a worker's first look, and at most between two looks.
_FIRST_SECONDS, _PAUSE_SECONDS = 0.5, 30.0
#: Seconds for one board, and for all boards of one look.
_STEP_SECONDS, _LOOK_SECONDS = 0.2, 0.5
#: The number of places where a board may be, and of boards to look at.
_PLACES, _BOARDS = 2, 64


class Notice(NamedTuple):
    """What a worker waits for."""

    rank: int  # in the job
    ranks: tuple[int, ...]  # of the group; (): all
    label: str  # the name of the exchange in errors
    channel: int
    call: int
    alone: bool  # whether no other thread of its process may be in an exchange now

    def written(self, kind: int, verdict: str = "") -> Frame:
        """The frame with this notice."""
        return Frame(kind, 0, json.dumps([*self, verdict]).encode())


def _read(frame: Frame) -> tuple[Notice, str]:
    """What another worker waits for, and the verdict; raises one of `_UNREADABLE` for invalid bytes."""
    rank, ranks, label, channel, call, alone, verdict = json.loads(frame.header)
    notice = Notice(int(rank), tuple(map(int, ranks)), readable(str(label)), int(channel), int(call), bool(alone))
    return notice, readable(str(verdict))


class Board(Door):
    """The place where the first rank of a group publishes what it waits for.

    Args:
        job: the group.
        key: of the job.
        poll: reports connections.
        mine: what this worker waits for.
        judge: returns the reason why this worker and a given one can never continue, or "".
    """

    def __init__(self, job: Job, key: Key, poll: Poll, mine: Notice, judge: Callable[[Notice], str]) -> None:
        super().__init__(job.board_of(mine.rank), key, poll)
        self._mine, self._judge = mine, judge
        self._streams: dict[int, Stream] = {}

    def open(self, end: float) -> None:
        """Listen at the first free place, if there is one."""
        with contextlib.suppress(NoChannelError, NotFound):
            super().open(end)

    def hear(self, descriptor: int) -> tuple[Notice, str] | None:
        """Handle an event; return what a worker has sent, and the answer to it."""
        stream = self._streams.get(descriptor)
        if stream is None:
            guest = self.handle(descriptor)
            if guest is not None:
                self._let_in(guest)
            return None
        try:
            frame = stream.receive()
            if frame is None:
                return None
            notice, _ = _read(frame)
            verdict = self._judge(notice)
            stream.send(self._mine.written(ANSWER, verdict))
        except _UNREADABLE:
            self._let_go(stream)
            return None
        self._let_go(stream)
        return notice, verdict

    def _let_in(self, guest: Guest) -> None:
        if guest.run != self._job.name:
            self.refuse(guest, OTHER_RUN, self._job.title)
            return
        try:
            stream = self.admit(guest)
        except OSError as error:
            self.drop(guest)
            if not raised_by_a_socket(error):
                raise
            return
        self._streams[stream.fileno()] = stream
        if len(self._streams) > _BOARDS:
            self._let_go(next(iter(self._streams.values())))

    def _let_go(self, stream: Stream) -> None:
        self._streams.pop(stream.fileno(), None)
        self._poll.unregister(stream)
        stream.close()

    def close(self) -> None:
        """Close all sockets."""
        for stream in list(self._streams.values()):
            self._let_go(stream)
        super().close()


class Search:
    """A waiting worker's search for workers that wait in another group.

    Args:
        job: the group.
        key: of the job.
        mine: what this worker waits for.
        called: returns the number of exchanges that this process has begun on a channel of another group of this job.
        poll: of rank 0 of the group, which has a board; None on other workers.
    """

    next: float

    def __init__(
        self, job: Job, key: Key, mine: Notice, called: Callable[[Job, int], int], poll: Poll | None = None
    ) -> None:
        self._job, self._key, self._mine, self._called, self._poll = job, key, mine, called, poll
        self._board: Board | None = None
        self._found: dict[int, Notice] = {}
        self._pause = _FIRST_SECONDS
        self.next = time.monotonic() + _FIRST_SECONDS  # look
        self.missing: Iterable[int] = ()  # ranks of the job that the first rank of the group waits for

    def look(self, end: float) -> None:
        """Look at the boards of others, if it is time.

        Raises:
            AgreementError: if two workers, one of them this one, wait for each other.
        """
        now = time.monotonic()
        if now < self.next:
            return
        if self._board is None and self._poll is not None:
            self._board = Board(self._job, self._key, self._poll, self._mine, self._judge)
        if self._board is not None:
            self._board.open(end)
        lower = sorted(range(self._mine.rank), key=lambda rank: (rank not in self._mine.ranks, -rank))
        for rank in lower[:_BOARDS]:
            if time.monotonic() > min(end, now + _LOOK_SECONDS):
                break
            said = self._ask(rank, min(end, time.monotonic() + _STEP_SECONDS))
            if said is not None:
                self._note(*said)
        self._pause = min(2 * self._pause, _PAUSE_SECONDS)
        self.next = time.monotonic() + self._pause

    def hear(self, descriptor: int) -> None:
        """Handle an event of the board; raises like `look`."""
        said = None if self._board is None else self._board.hear(descriptor)
        if said is not None:
            self._note(*said)

    def close(self) -> None:
        """Close the board."""
        if self._board is not None:
            self._board.close()

    @property
    def words(self) -> str:
        """The sentence about workers in other groups that an error adds."""
        if not self._found:
            return ""
        texts = [f"rank {each.rank} waits at {each.label}" for each in self._found.values()]
        return f" Meanwhile {', '.join(texts[:3])}: {_ADVICE}"

    def _note(self, notice: Notice, verdict: str) -> None:
        if notice.ranks != self._mine.ranks:
            self._found[notice.rank] = notice
        if verdict:
            raise AgreementError(verdict)

    def _judge(self, other: Notice) -> str:
        """The reason why this worker, which leads its group, and another one can never continue; "" if they may.

        They may continue if another thread of one of them could still join the other's group, or if this worker has
        already received the answer of the other's exchange.
        """
        mine = self._mine
        apart = other.ranks != mine.ranks and other.rank in self.missing and mine.rank in (other.ranks or (mine.rank,))
        if not (apart and mine.alone and other.alone):
            return ""
        if self._called(self._job.with_ranks(other.ranks), other.channel) >= other.call:
            return ""
        return (
            f"the workers disagree: {mine.label} on rank {mine.rank}, {other.label} on rank {other.rank}, and each"
            f" waits for the other; {_ADVICE}"
        )

    def _ask(self, rank: int, end: float) -> tuple[Notice, str] | None:
        """The notice on a worker's board, and its verdict; None if it has no board."""
        job = self._job.board_of(rank)
        try:
            places = job.candidates()[:_PLACES]
        except NoChannelError:  # its machine is not known
            return None
        for host, port in places:
            try:
                [address, *_] = addresses_of(host, end)
                stream, _ = greet(job, self._key, address, port, max(1e-3, end - time.monotonic()), end)
            except (Unwelcome, CommunicatorError):
                continue
            except OSError as error:
                if not raised_by_a_socket(error):
                    raise
                continue
            try:
                return self._told(stream, end)
            except _UNREADABLE:
                continue
            finally:
                stream.close()
        return None

    def _told(self, stream: Stream, end: float) -> tuple[Notice, str] | None:
        poll = Poll()
        poll.register(stream)
        stream.send(self._mine.written(ARRIVAL))
        while True:
            frame = stream.receive()
            if frame is not None:
                return _read(frame)
            if time.monotonic() >= end:
                return None
            poll.wait(end)


_ADVICE = "name the same ranks on every worker of a group, and call groups in the same order."
