"""A worker that was not scheduled acts late; what rank 0 says before it learns about that still counts.

The test plays rank 0, over a real connection: to be early or late by chance is for tests/distributed/test_channel.py.
"""

from __future__ import annotations

import socket
import threading
from typing import Callable, Iterator

import pytest

from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.comm.frames import ACK, ANSWER, ARRIVAL, ERROR, GAVE_UP, Frame, Keys, Stream
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.star import Spoke, error_frame
from fleetmetrics.errors import CommunicatorError, DeadlineError

LATE = DeadlineError("rank 1 did not arrive")


class Pair:
    """A worker, and the stream on which the test speaks for rank 0."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            worker = socket.create_connection(listener.getsockname())
            self.hub = Stream(listener.accept()[0], Keys(b"back", b"to"))
        self.spoke = Spoke(Job(rank=1, world_size=2, endpoint="127.0.0.1:1", secret="of the test"))
        self.channel = self.spoke.open(None)
        self.spoke._stream = Stream(worker, Keys(b"to", b"back"))
        self.spoke._poll.register(self.spoke._stream)

    def exchange(self, call: int, late: float = 0.0) -> bytes:
        """Enter an exchange of 5 s this many seconds after its beginning; return the answer's header."""
        deadline = Deadline(5)
        deadline.end -= late
        frame = Frame(ARRIVAL, call, channel=self.channel.number)
        return self.spoke.exchange(self.channel, frame, f"exchange {call}", _never, deadline).header

    def say(self, kind: int, call: int) -> None:
        """Answer, or be late, as rank 0."""
        number = self.channel.number
        if kind == ANSWER:
            self.hub.send(Frame(ANSWER, call, b"{}", channel=number))
        else:
            self.hub.send(error_frame(number, (call, 1), LATE))

    def hear(self, kind: int) -> None:
        """Read what the worker says, up to a frame of this kind."""
        self.hub.sock.setblocking(True)
        while True:
            frame = self.hub.receive()
            if frame is not None and frame.kind == kind:
                return


def _never(frames: object) -> Frame:
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


def test_an_answer_that_arrived_in_time_counts_if_read_late(pair: Pair) -> None:
    pair.say(ANSWER, 1)
    assert pair.exchange(1, late=100) == b"{}"


def test_so_does_the_last_answer_of_a_rank_0_that_has_ended_since(pair: Pair) -> None:
    pair.say(ANSWER, 1)
    pair.hub.close()
    assert pair.exchange(1, late=100) == b"{}"


def test_an_answer_that_crosses_with_the_giving_up_counts(pair: Pair) -> None:
    def answer() -> None:
        pair.hear(GAVE_UP)
        pair.say(ANSWER, 1)

    thread = in_thread(answer)
    assert pair.exchange(1, late=100) == b"{}"
    thread.join(10)


def test_without_an_answer_it_gives_up(pair: Pair) -> None:
    with pytest.raises(DeadlineError, match="rank 0 did not arrive within 5 s at exchange 1"):
        pair.exchange(1, late=4.9)


def test_a_verdict_read_in_an_earlier_call_is_kept(pair: Pair) -> None:
    def answer() -> None:
        pair.hear(ARRIVAL)
        pair.say(ERROR, 2)
        pair.say(ANSWER, 1)

    thread = in_thread(answer)
    assert pair.exchange(1) == b"{}"
    thread.join(10)
    with pytest.raises(DeadlineError, match="rank 1 did not arrive"):
        pair.exchange(2)


def test_the_last_words_are_read_before_rank_0_is_gone(pair: Pair) -> None:
    pair.say(ERROR, 1)
    pair.hub.close()
    with pytest.raises(DeadlineError, match="rank 1 did not arrive"):
        pair.exchange(1)
    with pytest.raises(CommunicatorError, match="rank 0 has gone away"):
        pair.exchange(2)


def test_a_worker_confirms_the_answer(pair: Pair) -> None:
    pair.say(ANSWER, 1)
    pair.exchange(1)
    pair.hear(ACK)


def test_a_late_worker_does_not_take_an_answer_that_rank_0_has_taken_back(pair: Pair) -> None:
    """No worker had acknowledged it, so none has a result."""
    pair.say(ANSWER, 1)
    pair.say(ERROR, 1)
    with pytest.raises(DeadlineError, match="rank 1 did not arrive"):
        pair.exchange(1, late=100)
