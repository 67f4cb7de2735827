"""A worker that was not scheduled acts late; what rank 0 says until it has heard of that counts all the same.

The test plays rank 0, over a real connection: to be early or late by chance is for tests/distributed/test_channel.py.
"""

from __future__ import annotations

import socket
import threading
from typing import Callable, Iterator

import pytest

from fleetmetrics.comm.base import Deadline
from fleetmetrics.comm.launch import Job
from fleetmetrics.comm.member import Answer, error_frame
from fleetmetrics.comm.spoke import Spoke
from fleetmetrics.comm.wire import ANSWER, ARRIVAL, GAVE_UP, Frame, Stream
from fleetmetrics.errors import CommunicatorError, DeadlineError

LATE = DeadlineError("rank 1 did not arrive")


class Pair:
    """A worker, and the stream on which the test speaks for rank 0."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            worker = socket.create_connection(listener.getsockname())
            self.hub = Stream(listener.accept()[0])
        self.spoke = Spoke(Job(rank=1, world_size=2), "test")
        self.spoke._stream = Stream(worker)

    def exchange(self, call: int, late: float = 0.0) -> bytes:
        """Enter an exchange of 5 s so many seconds after its beginning; return the answer's header."""
        deadline = Deadline(5)
        deadline.end -= late
        return self.spoke.exchange(Frame(ARRIVAL, call), f"exchange {call}", _never, deadline).header

    def hear(self, kind: int) -> None:
        """Read what the worker says, up to a frame of this kind."""
        self.hub.sock.setblocking(True)
        while True:
            frame = self.hub.receive()
            if frame is not None and frame.kind == kind:
                return


def _never(frames: object) -> Answer:
    raise AssertionError("only rank 0 combines")


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.spoke.close()
    made.hub.close()


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_an_answer_that_is_there_counts_however_late_the_worker_looks(pair: Pair) -> None:
    pair.hub.send(Frame(ANSWER, 1, b"{}"))
    assert pair.exchange(1, late=100) == b"{}"


def test_an_answer_that_crosses_with_the_giving_up_counts(pair: Pair) -> None:
    def answer() -> None:
        pair.hear(GAVE_UP)
        pair.hub.send(Frame(ANSWER, 1, b"{}"))

    thread = in_thread(answer)
    assert pair.exchange(1, late=100) == b"{}"
    thread.join(10)


def test_without_an_answer_it_gives_up(pair: Pair) -> None:
    with pytest.raises(DeadlineError, match="rank 0 did not arrive within 5 s at exchange 1"):
        pair.exchange(1, late=4.9)


def test_a_verdict_read_in_an_earlier_call_is_kept(pair: Pair) -> None:
    def answer() -> None:
        pair.hear(ARRIVAL)
        pair.hub.send(error_frame(2, LATE, broken=False))
        pair.hub.send(Frame(ANSWER, 1, b"{}"))

    thread = in_thread(answer)
    assert pair.exchange(1) == b"{}"
    thread.join(10)
    with pytest.raises(DeadlineError, match="rank 1 did not arrive"):
        pair.exchange(2)


def test_the_last_words_are_read_before_rank_0_is_gone(pair: Pair) -> None:
    pair.hub.send(error_frame(1, LATE, broken=False))
    pair.hub.close()
    with pytest.raises(DeadlineError, match="rank 1 did not arrive"):
        pair.exchange(1)
    with pytest.raises(CommunicatorError, match="rank 0 has gone away"):
        pair.exchange(2)
