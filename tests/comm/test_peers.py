"""The workers connected to rank 0, and one exchange with them, without a launcher."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from fleetmetrics.comm.deadline import Deadline, margin
from fleetmetrics.comm.frames import ANSWER, ARRIVAL, TROUBLE, Frame, Key, Keys, Stream
from fleetmetrics.comm.meeting import Meeting
from fleetmetrics.comm.peers import Peer, Peers
from tests.distributed.cluster import SLACK

pytestmark = pytest.mark.numpy_only


def peers() -> Peers:
    """Those of rank 0, without a port."""
    found = object.__new__(Peers)
    found.early = {}
    return found


def peer(rank: int, stream: Any = None, round_trip: float = 0.0) -> Peer:
    return Peer(rank, stream, round_trip, 7)


def test_of_a_worker_that_is_ahead_the_last_frames_of_each_channel_are_kept() -> None:
    found = peers()
    found.by_rank = {rank: peer(rank) for rank in (1, 2)}
    for call in range(100):
        found.keep(found.by_rank[1], Frame(ARRIVAL, call, channel=call % 2))
    found.keep(found.by_rank[2], Frame(ARRIVAL, 3, channel=0))
    assert len(found.kept(1)) == 50 and not found.kept(1)
    for call in range(100):
        found.keep(found.by_rank[1], Frame(ARRIVAL, call))
    kept = found.kept(0)
    assert [(one.rank, frame.call) for one, frame in kept if one.rank == 2] == [(2, 3)]
    assert [frame.call for one, frame in kept if one.rank == 1] == [*range(36, 100)]


def test_a_worker_that_stops_reading_an_answer_is_lost_by_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname(), 10)
        ours, _ = listener.accept()
    with theirs:
        stream, lost = Stream(ours, Keys(Key(b"to"), Key(b"from"))), dict[int, str]()
        start = time.monotonic()
        peers().send_all(Frame(ANSWER, 1, payload=bytes(2**24)), Deadline(0.3), [peer(3, stream)], lost)
        assert lost == {3: "rank 3 stopped in the middle of an answer."}
        assert time.monotonic() - start < SLACK
        stream.close()


# -- a meeting -----------------------------------------------------------------------------------------------------


def meeting(kind: int = ARRIVAL, timeout: float = 100.0) -> Meeting:
    channel: Any = SimpleNamespace(number=0)
    return Meeting(channel, Frame(kind, 1), "compute", Deadline(timeout), 1)


def test_a_meeting_ends_in_time_for_the_worker_that_waits_least() -> None:
    found = meeting()
    alone = found.end
    found.arrive(peer(1), Frame(ARRIVAL, 1, remaining=200.0, timeout=200.0))
    assert (found.end, found.timeout) == (alone, 100.0)
    before, spare = time.monotonic(), margin(20.0, 1.0)
    found.arrive(peer(2, round_trip=1.0), Frame(ARRIVAL, 1, remaining=10.0, timeout=20.0))
    after = time.monotonic()
    assert found.timeout == 20.0
    for moment, wanted in ((found.end, 9.5 - 2 * spare), (found.last_moment, 9.5 - spare)):
        assert before + wanted <= moment <= after + wanted  # half of the round trip has gone when the frame arrives
    found.arrive(peer(3), Frame(ARRIVAL, 1, remaining=50.0, timeout=50.0))
    assert found.timeout == 20.0 and found.absent(5) == [4]


def test_a_meeting_knows_who_has_brought_an_error() -> None:
    assert meeting(TROUBLE).troubled
    found = meeting()
    found.arrive(peer(1), Frame(ARRIVAL, 1, timeout=1.0))
    assert not found.troubled
    found.arrive(peer(2), Frame(TROUBLE, 1, timeout=1.0))
    found.arrive(peer(3), Frame(ARRIVAL, 1, timeout=1.0))
    assert found.troubled
    assert {frame.made for frame in list(found.frames.values())[1:]} == {7}  # those of workers that have had none
