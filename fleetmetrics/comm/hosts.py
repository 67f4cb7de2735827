"""A second level by host: the arrivals of the workers of one machine reach rank 0 as one frame.

The star of all workers around rank 0 does not change: every worker stays connected to rank 0, and
everything except a plain reduction of equal layouts uses that connection. The second level is a shortcut, only for
arrivals and answers::

    follower        leader            rank 0
        |  arrival    |                  |
        | ----------> |     bundle       |     the leader, the first worker of a host, folds all arrivals of its host:
        |             | ---------------> |     exact sums with their rests, so that the result has the same bits
        |             |     answer       |
        |   answer    | <--------------- |
        | <---------- |     relayed      |
        |             | ---------------> |     rank 0 returns once every worker of the host has been sent the answer

1. Rank 0 introduces the workers of a host to each other in its first answer, when all have proved their identity. Its
   random number is part of the name under which they meet, so they never accept a worker of another run, or of a
   restarted one.
2. A leader folds only equal arrivals: of one call, with one description, after the same exchange and without trouble,
   and only if no overflow and no number that is not finite would lose information. Otherwise, or if a worker of its
   host is late, it asks each worker to send directly (``APART``). So does rank 0 if bundles differ from other arrivals.
   The exchange then continues as with one level, with the errors of one level.
3. A follower without an answer after a moment also sends its arrival directly. A rank counts once: rank 0 ignores an
   arrival of a rank in a bundle, and a bundle with a rank that has arrived.
4. Rank 0 sends its answer directly to the workers of a host that the leader does not report at once. So every
   worker gets the answer even if its leader is killed, stopped or interrupted. Everything else, such as errors, goes
   directly between rank 0 and each worker, as with one level.
5. Any failure between a leader and a follower only ends their connection: that follower sends directly from then on.

It is used if FLEETMETRICS_LEVELS asks for it, or if the job is large and the endpoints name several hosts. The host of
rank 0 has no leader: rank 0 reads its workers itself.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Callable, NamedTuple, Sequence

from fleetmetrics.comm.door import Door
from fleetmetrics.comm.finding import NotFound, connect
from fleetmetrics.comm.frames import (
    ANSWER,
    APART,
    ARRIVAL,
    BUNDLE,
    NEVER,
    Frame,
    Key,
    Lost,
    Place,
    Poll,
    Stream,
    raised_by_a_socket,
)
from fleetmetrics.comm.handshake import OTHER_RUN, TAKEN, Guest
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import parts_of
from fleetmetrics.errors import CommunicatorError, FleetMetricsError, InvalidInputError, NoChannelError

__all__ = [
    "SETTING",
    "Apart",
    "Fold",
    "Follower",
    "Host",
    "Leader",
    "hosts_of",
    "introduced",
    "levels_asked",
    "opened",
    "ranks_in",
    "relay_patience",
]

SETTING = "FLEETMETRICS_LEVELS"
#: From this number of workers on, a second level is used by default.
WORKERS = 128
#: Seconds to wait for the shortcut; once, for its connections; and for the report that a whole host has the answer.
_PATIENCE, _FIRST_PATIENCE, _RELAY_PATIENCE = 10.0, 5.0, 1.0
#: Seconds between a follower's attempts to reach its leader.
_TRIES = 2
#: The number of later exchanges whose early frames are kept.
_EARLY_KEPT = 256
#: Seconds that a leader waits for its followers to accept the answer.
_RELAY_SECONDS = 0.2

#: Folds the frames of a host's workers into one; None if that would lose information.
Fold = Callable[[Sequence[Frame]], "Frame | None"]


class Apart(Exception):
    """The bundles cannot be merged: every worker must send its own arrival."""


def relay_patience(timeout: float) -> float:
    """Seconds until rank 0 sends its answer directly to a host's workers, in a call with this timeout."""
    return min(_RELAY_PATIENCE, 0.1 * timeout)


def levels_asked() -> str:
    """The value of FLEETMETRICS_LEVELS, "" without one; raises `InvalidInputError` if it is neither 1 nor 2."""
    levels = os.environ.get(SETTING, "").strip()
    if levels in ("", "1", "2"):
        return levels
    raise InvalidInputError(
        f"the environment variable {SETTING} holds {levels!r}; it must be 1, 2, or unset: there are then two levels "
        f"from {WORKERS} workers on, if PADDLE_TRAINER_ENDPOINTS names two or more hosts."
    )


def hosts_of(job: Job, levels: str) -> list[tuple[int, ...]]:
    """The workers of each host that gets a leader; empty with one level."""
    parts = parts_of(job.endpoints)
    if job.ranks or len(parts) != job.world_size or levels == "1" or (not levels and job.world_size < WORKERS):
        return []
    hosts: dict[str, list[int]] = {}
    for rank, part in enumerate(parts):
        hosts.setdefault(part.rpartition(":")[0], []).append(rank)
    return [tuple(ranks) for ranks in hosts.values() if len(ranks) > 1 and ranks[0]] if len(hosts) > 1 else []


def introduced(job: Job, key: Key, poll: Poll, frame: Frame) -> Host | None:
    """This worker's part in its host, from rank 0's frame; None if the frame is invalid."""
    try:
        number, ranks = json.loads(frame.header)
        here = replace(
            job,
            rank=ranks.index(job.rank),
            world_size=len(ranks),
            bind="",
            claimed=False,
            ranks=tuple(ranks),
            run=f"{job.run}|{number}",
        )
        here.candidates()
    except (ValueError, TypeError, AttributeError, NoChannelError):
        return None
    return (Follower if here.rank else Leader)(here, key, poll)


def opened(frame: Frame) -> tuple[bytes, Any, Any]:
    """The call in an arrival or a bundle, the note of `Divisible.fold`, and its bytes."""
    if frame.kind != BUNDLE:
        return frame.header, None, frame.payload
    head, _, header = frame.header.partition(b"\n")
    return header, json.loads(head)[1], frame.payload


def ranks_in(frame: Frame, known: Sequence[int]) -> tuple[int, ...]:
    """The ranks of a host that a leader names, with its own; () if they are invalid."""
    try:
        said = json.loads(frame.header.partition(b"\n")[0])
        places = set(said[0] if frame.kind == BUNDLE else said)
        return tuple(known[place] for place in sorted({0, *places}) if place >= 0)
    except (ValueError, TypeError, LookupError):
        return ()


class Host(ABC):
    """A worker's part in the shortcut of its host."""

    directly: bool
    until: float

    def __init__(self, job: Job, key: Key, poll: Poll) -> None:
        self._job, self._key, self._poll = job, key, poll
        self._asked: Frame | None = None  # frames that may still take the shortcut, or have taken it
        #: The time until which this worker waits for the shortcut.
        self.until = math.inf
        #: Whether to send the frame directly now.
        self.directly = False

    @abstractmethod
    def begin(self, frame: Frame, fold: Fold | None, deadline: float, stream: Stream) -> None:
        """Begin an exchange, through the shortcut if possible.

        Args:
            frame: this worker's arrival.
            fold: folds frames on a leader; None: the exchange has no shortcut.
            deadline: of the exchange.
            stream: the connection to rank 0; it has priority.
        """

    @abstractmethod
    def turn(self) -> Frame | None:
        """Take the next step; return a leader's bundle for rank 0, or a follower's answer."""

    @abstractmethod
    def end(self, answer: Frame) -> list[int]:
        """End an exchange with rank 0's answer; return the places to which this leader has sent it."""

    @abstractmethod
    def keep_unsent(self) -> None:
        """Copy the queue; see `Stream.keep_unsent`."""

    @abstractmethod
    def close(self) -> None:
        """Close all sockets."""

    def part(self) -> None:
        """Forget the shortcut of this exchange: rank 0 asks each worker for its own frame."""
        self._asked, self.until, self.directly = None, math.inf, False

    def _go_directly(self) -> None:
        self.until, self.directly = math.inf, True


def _apart(frame: Frame) -> Frame:
    return Frame(APART, frame.call, channel=frame.channel, step=frame.step)


def _is_for(frame: Frame, asked: Frame | None) -> bool:
    return asked is not None and (frame.channel, frame.place) == (asked.channel, asked.place)


class Follower(Host):
    """A worker that sends its arrivals through a leader."""

    until: float

    def __init__(self, job: Job, key: Key, poll: Poll) -> None:
        super().__init__(job, key, poll)
        self._stream: Stream | None = None
        self._tries = _TRIES
        self._apart: dict[int, Place] = {}  # by channel, the last exchange in which each worker sends directly

    def begin(self, frame: Frame, fold: Fold | None, deadline: float, stream: Stream) -> None:
        """Send the frame to the leader; see `Host.begin`."""
        self.part()
        short = fold is not None and frame.kind == ARRIVAL
        if self._stream is None and short:
            self._connect(deadline, frame.timeout, stream)
        self._read()
        if not short or self._stream is None or self._apart.get(frame.channel, NEVER) >= frame.place:
            self._tell(_apart(frame))
            self._go_directly()
            return
        self._asked = frame
        self.until = _within(deadline, _patience(frame.timeout))
        self._tell(frame)

    def turn(self) -> Frame | None:
        """Return the answer if the leader has sent it; see `Host.turn`."""
        if self._stream is not None and self._stream.sending:
            self._tell()
        answer, asked = self._read(), self._asked
        if answer is None and asked is not None and self.until < math.inf:
            parted = self._stream is None or self._apart.get(asked.channel, NEVER) >= asked.place
            if parted or time.monotonic() >= self.until:
                self._tell(_apart(asked))
                self._go_directly()
        return answer

    def end(self, answer: Frame) -> list[int]:
        """See `Host.end`."""
        self.part()
        return []

    def _read(self) -> Frame | None:
        """Read the leader's frames; return the answer."""
        while self._stream is not None:
            try:
                frame = self._stream.last or self._stream.receive()
            except Lost:
                self.close()
                return None
            if frame is None:
                return None
            if frame.kind == APART:
                self._apart[frame.channel] = max(frame.place, self._apart.get(frame.channel, NEVER))
            self._stream.seen()
            if frame.kind == ANSWER and _is_for(frame, self._asked):
                return frame
        return None

    def _tell(self, frame: Frame | None = None) -> None:
        if self._stream is None:
            return
        try:
            if frame is None:
                self._stream.flush()
            else:
                self._stream.send(frame)
            self._poll.modify(self._stream)
        except Lost:
            self.close()

    def _connect(self, deadline: float, timeout: float, stream: Stream) -> None:
        """Look for the leader; a frame from rank 0 ends the search."""
        if not self._tries:
            return
        self._tries -= 1
        heard = Poll()
        heard.register(stream)
        end = _within(deadline, _first_patience(timeout))
        try:
            found, _ = connect(self._job, self._key, end, lambda: "rank 0 has spoken" if heard.wait() else "")
        except (NotFound, CommunicatorError):
            return
        except OSError as error:
            if not raised_by_a_socket(error):
                raise
            return
        self._poll.register(found)
        self._stream = found

    def keep_unsent(self) -> None:
        """Copy the queue; see `Host.keep_unsent`."""
        if self._stream is not None:
            self._stream.keep_unsent()

    def close(self) -> None:
        """Close the connection to the leader."""
        stream, self._stream, self._tries = self._stream, None, 0
        if stream is not None:
            self._poll.unregister(stream)
            stream.close()


class _Seen(NamedTuple):
    """An arrival at a leader."""

    frame: Frame
    at: float

    @property
    def left(self) -> float:
        """Seconds until its deadline."""
        return max(0.0, self.at + self.frame.remaining - time.monotonic())


class Leader(Host):
    """The first worker of a host: it sends the others' arrivals with its own."""

    until: float

    def __init__(self, job: Job, key: Key, poll: Poll) -> None:
        super().__init__(job, key, poll)
        self._door = Door(job, key, poll)
        self._streams: dict[int, Stream] = {}  # by place at this host
        self._places: dict[int, int] = {}  # by descriptor
        self._gathers_until = 0.0  # how long to wait for workers to connect; 0: not yet set
        self._fold: Fold | None = None
        self._seen: dict[tuple[int, Place], dict[int, _Seen]] = {}  # by channel and exchange, by place in the host
        self._bundled: list[int] = []  # the places whose arrivals are on their way to rank 0
        self._under_way: dict[int, Place] = {}  # the last exchange that began here, by channel

    def begin(self, frame: Frame, fold: Fold | None, deadline: float, stream: Stream) -> None:
        """Wait for the followers' frames from now on; see `Host.begin`."""
        self.part()
        self._asked, self._fold = frame, fold
        self._under_way[frame.channel] = frame.place
        self._seen = {key: seen for key, seen in self._seen.items() if key[0] != frame.channel or key[1] >= frame.place}
        if not self._gathers_until:
            self._gathers_until = _within(deadline, _first_patience(frame.timeout))
            with contextlib.suppress(CommunicatorError, NotFound):  # without an address, no worker connects
                self._door.open(self._gathers_until)
        for place, each in list(self._streams.items()):  # after an interruption
            if each.last is not None:
                self._read(place, each)
        if fold is None or frame.kind != ARRIVAL:
            self._part_all()
            return
        self._seen.setdefault((frame.channel, frame.place), {})[0] = _Seen(frame, time.monotonic())
        self.until = _within(deadline, _patience(frame.timeout))
        if self._gathering:
            self.until = max(self.until, self._gathers_until)

    def turn(self) -> Frame | None:
        """Return the bundle, once all are here; see `Host.turn`."""
        self._pump()
        asked = self._asked
        if asked is None or self.until == math.inf:  # it is on its way
            return None
        seen = self._seen[asked.channel, asked.place]
        late = time.monotonic() >= self.until
        if not late and (self._gathering or any(place not in seen for place in self._streams)):
            return None
        bundle = None if late else self._bundle(asked, seen)
        if bundle is None:
            self._part_all()
        self.until = math.inf
        return bundle

    @property
    def _gathering(self) -> bool:
        """Whether some workers of the host may still connect."""
        missing = self._door.is_open and len(self._streams) < self._job.world_size - 1
        return missing and time.monotonic() < self._gathers_until

    def _bundle(self, asked: Frame, seen: dict[int, _Seen]) -> Frame | None:
        places = sorted(seen)
        frames = [seen[place].frame for place in places]
        if self._fold is None or len(frames) < 2 or len({(frame.header, frame.made) for frame in frames}) > 1:
            return None
        try:
            folded = self._fold(frames)
        except (
            FleetMetricsError,
            ValueError,
            TypeError,
            LookupError,
        ):  # each worker sends its own, and the error names the wrong one
            return None
        if folded is None:
            return None
        self._bundled = places
        first = min(seen.values(), key=lambda each: each.left)
        header = b"[%s, %s]\n%s" % (json.dumps(places).encode(), folded.header, asked.header)
        made, timeout = asked.made, first.frame.timeout
        return Frame(
            BUNDLE, asked.call, header, folded.payload, asked.channel, made, first.left, timeout, step=asked.step
        )

    def end(self, answer: Frame) -> list[int]:
        """Send the answer to every worker in the bundle; see `Host.end`."""
        places, asked = self._bundled, self._asked
        self.part()
        if asked is not None:
            self._seen.pop((asked.channel, asked.place), None)
        waiting = [(place, self._streams[place]) for place in places if place in self._streams]
        for _, stream in waiting:
            with contextlib.suppress(Lost):
                stream.send(answer)
        end = time.monotonic() + _RELAY_SECONDS
        for place, stream in waiting:
            if not _sent(stream, end):
                self._drop(place)
        return [place for place in places if not place or place in self._streams]

    def part(self) -> None:
        """Forget the bundle; see `Host.part`."""
        super().part()
        self._bundled = []

    def _part_all(self) -> None:
        """Ask all workers of the host to send directly."""
        assert self._asked is not None
        told = _apart(self._asked)
        for stream in self._streams.values():
            with contextlib.suppress(Lost):  # which reading finds
                stream.send(told)
                self._poll.modify(stream)
        self._go_directly()

    def _pump(self) -> None:
        """Accept followers, and read their frames."""
        for descriptor, _ in self._poll.wait():
            place = self._places.get(descriptor)
            if place is not None:
                self._read(place, self._streams[place])
                continue
            guest = self._door.handle(descriptor)
            if guest is not None:
                self._admit(guest)
        self._door.look(0.0)

    def _read(self, place: int, stream: Stream) -> None:
        try:
            if stream.sending:
                stream.flush()
                self._poll.modify(stream)
            while True:
                frame = stream.last or stream.receive()
                if frame is None:
                    return
                if frame.place >= self._under_way.get(frame.channel, NEVER):
                    self._note(place, frame)
                stream.seen()
        except Lost:
            self._drop(place)

    def _note(self, place: int, frame: Frame) -> None:
        if frame.kind == ARRIVAL:
            self._seen.setdefault((frame.channel, frame.place), {})[place] = _Seen(frame, time.monotonic())
        elif frame.kind == APART and _is_for(frame, self._asked) and self.until < math.inf:
            self.until = 0.0  # it sends directly, so all do
        if len(self._seen) > _EARLY_KEPT:
            self._seen.pop(next(key for key in self._seen if self._asked is None or key[1] != self._asked.place))

    def _admit(self, guest: Guest) -> None:
        if guest.run != self._job.name:
            self._door.refuse(guest, OTHER_RUN, self._job.title)
        elif not 0 < guest.rank < self._job.world_size or guest.rank in self._streams:
            self._door.refuse(guest, TAKEN)
        else:
            try:
                stream = self._streams[guest.rank] = self._door.admit(guest)
                self._places[stream.fileno()] = guest.rank
            except OSError as error:
                self._door.drop(guest)
                if not raised_by_a_socket(error):
                    raise

    def _drop(self, place: int) -> None:
        stream = self._streams.pop(place, None)
        if stream is not None:
            self._poll.unregister(stream)
            self._places.pop(stream.fileno(), None)
            stream.close()
        for seen in self._seen.values():
            seen.pop(place, None)

    def keep_unsent(self) -> None:
        """Copy the queue; see `Host.keep_unsent`."""
        for stream in self._streams.values():
            stream.keep_unsent()

    def close(self) -> None:
        """Close the door and all connections."""
        self._door.close()
        for place in list(self._streams):
            self._drop(place)


def _sent(stream: Stream, end: float) -> bool:
    """Whether the system accepts everything to send by then."""
    try:
        stream.flush()
        if stream.sending:
            room = Poll()
            room.register(stream, select.POLLOUT)
            while stream.sending and time.monotonic() < end:
                room.wait(end)
                stream.flush()
    except Lost:
        return False
    return not stream.sending


def _within(deadline: float, seconds: float) -> float:
    """A moment some seconds from now, but no later than half of the remaining time."""
    now = time.monotonic()
    return now + min(seconds, max(0.0, deadline - now) / 2)


def _patience(timeout: float) -> float:
    return min(_PATIENCE, 0.1 * timeout)


def _first_patience(timeout: float) -> float:
    return min(_FIRST_PATIENCE, 0.25 * timeout)
