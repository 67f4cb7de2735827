"""Rank 0's side of the meeting."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque

from fleetmetrics.comm.base import Deadline
from fleetmetrics.comm.launch import Job
from fleetmetrics.comm.member import Answer, Combine, Member, error_frame, late_text, margin, troubles_in, wait_for
from fleetmetrics.comm.rendezvous import Hello, greeting, listen
from fleetmetrics.comm.trouble import raise_trouble
from fleetmetrics.comm.wire import ANSWER, ARRIVAL, GAVE_UP, TROUBLE, Frame, Stream
from fleetmetrics.errors import CommunicatorError, DeadlineError, FleetMetricsError

__all__ = ["Hub"]

_ABANDONED_KEPT = 1024


class _Broken(Exception):
    """The channel cannot go on; the text says why."""


class _Peer:
    """A connected worker: its stream, and the frames not looked at yet."""

    def __init__(self, rank: int, stream: Stream) -> None:
        self.rank = rank
        self.stream = stream
        self.inbox: deque[Frame] = deque()


class Hub(Member):
    """Rank 0: waits for all, decides, answers all.

    Args:
        job: where this process stands.
        channel: sets the meetings of one job apart.
    """

    def __init__(self, job: Job, channel: str) -> None:
        self._job = job
        self._token = job.token(channel)
        self._listener: socket.socket | None = None
        self._poll = select.poll()
        self._peers: dict[int, _Peer] = {}  # by descriptor
        self._strangers: dict[int, tuple[socket.socket, Hello]] = {}
        self._abandoned: dict[int, Frame] = {}

    def exchange(self, frame: Frame, label: str, combine: Combine, deadline: Deadline) -> Answer:
        """Collect the frames, decide, and answer all; see `Meeting.exchange`."""
        try:
            frames, last_moment = self._collect(frame, label, deadline)
            answer = self._decide(frames, combine)
            self._look_again(frame.call)
            if time.monotonic() > last_moment:  # somebody has given up, so all must
                raise DeadlineError(f"rank 0 needed more than the {deadline.timeout:g} s that there are at {label}.")
        except _Broken as reason:
            return self._break(frame.call, str(reason))
        except FleetMetricsError as error:
            self._abandon(error_frame(frame.call, error, broken=False))
            raise
        self._send_all(Frame(ANSWER, frame.call, answer.header, answer.payload), deadline)
        return answer

    def close(self) -> None:
        """Close all sockets."""
        for peer in self._peers.values():
            peer.stream.close()
        for sock, _ in self._strangers.values():
            sock.close()
        if self._listener is not None:
            self._listener.close()

    def _decide(self, frames: list[Frame], combine: Combine) -> Answer:
        troubles = troubles_in(frames)
        if any(troubles):
            raise_trouble(troubles)
        try:
            return combine(frames)
        except FleetMetricsError:
            raise
        except Exception as error:
            raise CommunicatorError(f"rank 0 failed to combine: {type(error).__name__}: {error}") from error

    # Collecting

    def _collect(self, own: Frame, label: str, deadline: Deadline) -> tuple[list[Frame], float]:
        """Wait for everybody; return the frames by rank, and until when the answer must be on its way."""
        self._start_listening()
        world = self._job.world_size
        frames = {0: own}
        end, timeout = deadline.end - 2 * margin(deadline.timeout), deadline.timeout
        just_arrived = True  # until what lay in the sockets is read
        while True:
            try:
                arrivals = [(peer.rank, self._sort(peer, own.call)) for peer in self._peers.values()]
            except DeadlineError:
                if just_arrived or len(frames) == world:
                    raise
                raise DeadlineError(self._missing(frames, timeout, label)) from None
            for rank, arrival in arrivals:
                if arrival is not None:
                    frames[rank] = arrival
                    theirs = time.monotonic() + arrival.remaining - 2 * margin(arrival.timeout)
                    end, timeout = min((end, timeout), (theirs, arrival.timeout))
            if self._receive(0 if just_arrived or len(frames) == world else end):
                continue
            just_arrived = False
            if len(frames) == world:
                return [frames[rank] for rank in range(world)], end + margin(timeout)
            if time.monotonic() >= end:
                raise DeadlineError(self._missing(frames, timeout, label))

    def _look_again(self, call: int) -> None:
        """Raise if somebody gave up in the meantime: after this the answer stands."""
        while self._receive(0):
            pass
        for peer in self._peers.values():
            self._sort(peer, call)

    def _start_listening(self) -> None:
        if self._listener is None and len(self._peers) < self._job.world_size - 1:
            self._listener = listen(self._job)
            self._poll.register(self._listener, select.POLLIN)

    def _missing(self, frames: dict[int, Frame], timeout: float, label: str) -> str:
        missing = [rank for rank in range(self._job.world_size) if rank not in frames]
        connected = any(peer.rank in missing for peer in self._peers.values())
        return late_text(missing, "arrive" if connected else "connect", timeout, label)

    def _sort(self, peer: _Peer, call: int) -> Frame | None:
        """Take from the inbox what belongs to this exchange; the verdict on an earlier one is on its way already."""
        arrival = None
        while peer.inbox and peer.inbox[0].call <= call:
            frame = peer.inbox.popleft()
            if frame.call == call and frame.kind == GAVE_UP:
                raise DeadlineError(frame.header.decode())
            if frame.call == call and frame.kind in (ARRIVAL, TROUBLE):
                arrival = frame
        if peer.inbox:
            raise DeadlineError(
                f"rank {peer.rank} gave up before rank 0 arrived, and is at a later call already; every worker must"
                " call the same metrics in the same order."
            )
        return arrival

    def _receive(self, end: float) -> bool:
        """Handle what happens until then; False if nothing did."""
        events = wait_for(self._poll, end) if end else self._poll.poll(0)
        for descriptor, _ in events:
            peer = self._peers.get(descriptor)
            if peer is not None:
                self._read(peer)
            elif descriptor in self._strangers:
                self._hear(descriptor)
            elif self._listener is not None:
                self._accept(self._listener)
        return bool(events)

    def _read(self, peer: _Peer) -> None:
        with contextlib.suppress(OSError):  # that it has gone away is for reading to find, after its last words
            self._flush(peer)
        try:
            frame = peer.stream.receive()
        except OSError:
            raise _Broken(_gone(peer)) from None
        if frame is not None:
            peer.inbox.append(frame)

    # Connecting

    def _accept(self, listener: socket.socket) -> None:
        for descriptor, (_, hello) in list(self._strangers.items()):
            if hello.expires < time.monotonic():
                self._drop(descriptor)
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            sock.setblocking(False)
            self._strangers[sock.fileno()] = sock, Hello(self._token)
            self._poll.register(sock, select.POLLIN)
            try:
                sock.send(greeting(self._token))  # 32 bytes always fit into an empty socket
            except OSError:
                self._drop(sock.fileno())

    def _hear(self, descriptor: int) -> None:
        sock, hello = self._strangers[descriptor]
        try:
            rank = hello.read(sock)
        except OSError:
            self._drop(descriptor)
            return
        if rank is not None:
            del self._strangers[descriptor]
            self._admit(sock, rank)

    def _drop(self, descriptor: int) -> None:
        sock, _ = self._strangers.pop(descriptor)
        self._poll.unregister(sock)
        sock.close()

    def _admit(self, sock: socket.socket, rank: int) -> None:
        world, taken = self._job.world_size, {peer.rank for peer in self._peers.values()}
        if not 0 < rank < world:
            raise _Broken(f"a worker says that it is rank {rank}, but there are {world} workers.")
        if rank in taken:
            reason = f"two processes say that they are rank {rank}; each worker needs a PADDLE_TRAINER_ID of its own."
            with contextlib.suppress(OSError):
                Stream(sock).send(error_frame(0, CommunicatorError(reason), broken=True))
            self._poll.unregister(sock)
            sock.close()
            if len(taken) < world - 1:  # otherwise all are here, and the second one is some helper of a worker
                raise _Broken(reason)
        else:
            peer = self._peers[sock.fileno()] = _Peer(rank, Stream(sock))
            for verdict in self._abandoned.values():
                self._tell(peer, verdict)

    # Answering

    def _tell(self, peer: _Peer, verdict: Frame) -> None:
        with contextlib.suppress(OSError):  # that it has gone away is for the next exchange to find
            peer.stream.send(verdict)
            self._watch(peer)

    def _flush(self, peer: _Peer) -> None:
        if peer.stream.sending:
            peer.stream.flush()
            self._watch(peer)

    def _watch(self, peer: _Peer) -> None:
        self._poll.register(peer.stream, select.POLLIN | (select.POLLOUT if peer.stream.sending else 0))

    def _abandon(self, verdict: Frame) -> None:
        """Tell everybody, the late ones too: they find the verdict when they come, or when they connect."""
        self._abandoned[verdict.call] = verdict
        self._abandoned.pop(verdict.call - _ABANDONED_KEPT, None)
        for peer in self._peers.values():
            self._tell(peer, verdict)

    def _send_all(self, frame: Frame, deadline: Deadline) -> None:
        """Answer all; whoever cannot take the answer breaks the channel, but the answer stands."""
        lost = ""
        waiting = list(self._peers.values())
        first: Frame | None = frame
        while waiting and (first or deadline.remaining):
            still = []
            for peer in waiting:
                try:
                    peer.stream.send(first) if first else peer.stream.flush()
                    still += [peer] if peer.stream.sending else []
                except OSError:
                    lost = lost or _gone(peer)
            waiting, first = still, None
            if waiting:
                select.select([], [peer.stream for peer in waiting], [], deadline.remaining)
        if waiting:
            lost = lost or f"rank {waiting[0].rank} stopped in the middle of an answer."
        if lost:
            self._spread(frame.call + 1, CommunicatorError(lost))

    def _break(self, call: int, reason: str) -> Answer:
        error = CommunicatorError(reason)
        self._spread(call, error)
        raise error from None

    def _spread(self, call: int, error: CommunicatorError) -> None:
        """Let every later call raise, here and on the others."""
        self.broken = str(error)
        for peer in self._peers.values():
            peer.stream.keep_unsent()
        self._abandon(error_frame(call, error, broken=True))
        if self._listener is not None:
            self._poll.unregister(self._listener)
            self._listener.close()
            self._listener = None


def _gone(peer: _Peer) -> str:
    return f"rank {peer.rank} has gone away: its process ended, or it closed the channel. Look at its log."
