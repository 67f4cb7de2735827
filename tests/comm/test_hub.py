"""Rank 0 alone decides; the test plays worker 1, over a real connection."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Iterator, Sequence

import pytest

from fleetmetrics.comm import SocketCommunicator, hub
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.comm.frames import ACK, ANSWER, ARRIVAL, ERROR, GAVE_UP, LEFT, TROUBLE, Frame, Stream
from fleetmetrics.comm.handshake import connect
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AgreementError, CommunicatorError, DeadlineError, NoChannelError
from tests.distributed.cluster import SLACK


def notes_of(letters: Sequence[Letter]) -> Letter:
    return Letter([letter.note for letter in letters])


class Play:
    """Rank 0 in a thread, and the stream of a worker."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            job = Job(0, 2, endpoint=f"127.0.0.1:{listener.getsockname()[1]}", secret="of the test")
        self.hub = SocketCommunicator(job, channel="test")
        self.worker = Job(1, 2, endpoint=job.endpoint, secret="of the test")
        self.threads = ThreadPoolExecutor(1)
        self.stream: Stream | None = None

    def begin(self, decide: Callable[..., Letter] = notes_of, timeout: float = 5.0) -> Future[Any]:
        return self.threads.submit(lambda: self.hub.consult("auc", decide, "of rank 0", timeout=timeout).note)

    def say(self, kind: int, call: int, header: bytes = b"auc\ntext of rank 1", **options: Any) -> None:
        if self.stream is None:
            self.stream, _ = connect(self.worker, self.hub._star.secret.key, time.monotonic() + 5)
        options = {"remaining": 5.0, "timeout": 5.0, **options}
        self.stream.send(Frame(kind, call, header, **{"channel": self.hub._channel.number, **options}))

    def hear(self) -> Frame:
        assert self.stream is not None
        self.stream.sock.settimeout(10)
        frame = self.stream.receive()
        self.stream.sock.setblocking(False)
        assert frame is not None
        return frame


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    yield made
    made.threads.shutdown()
    made.hub.close()
    if made.stream is not None:
        made.stream.close()


def test_letters_are_in_the_order_of_ranks(play: Play) -> None:
    found = play.begin()
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    play.say(ACK, 1, b"")
    assert found.result(10) == ["of rank 0", "of rank 1"]


def test_a_worker_that_does_not_come_is_named_in_time(play: Play) -> None:
    with pytest.raises(DeadlineError, match=r"rank 1 did not connect within 0.3 s at exchange 1"):
        play.begin(timeout=0.3).result(10)


def test_the_trouble_of_a_worker_is_everybodys(play: Play) -> None:
    found = play.begin()
    play.say(TROUBLE, 1, json.dumps(["AgreementError", "no"]).encode())
    with pytest.raises(AgreementError, match="on rank 1: no"):
        found.result(10)


@pytest.mark.parametrize("header", [b"[" * 100_000, b"\xff", b"{}", b""])
def test_trouble_that_cannot_be_read_is_trouble(play: Play, header: bytes) -> None:
    found = play.begin()
    play.say(TROUBLE, 1, header)
    with pytest.raises(CommunicatorError, match="rank 1 sent a report that cannot be read"):
        found.result(10)


def test_an_answer_that_nobody_confirms_is_taken_back(play: Play) -> None:
    found = play.begin(timeout=1.0)
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    with pytest.raises(DeadlineError, match="rank 1 did not confirm the result"):
        found.result(10)
    assert play.hear().kind == ERROR


def test_who_gives_up_before_the_verdict_makes_it_an_error(play: Play) -> None:
    said = threading.Event()

    def decide(letters: Sequence[Letter]) -> Letter:
        said.wait(5)
        play.say(GAVE_UP, 1, b"rank 0 did not arrive")
        return Letter("a number")

    found = play.begin(decide)
    play.say(ARRIVAL, 1)
    said.set()
    assert play.hear().kind == ERROR
    with pytest.raises(DeadlineError, match="rank 0 did not arrive"):
        found.result(10)


def test_workers_that_parted_are_told_at_the_next_exchange(play: Play) -> None:
    found = play.begin()
    play.say(ARRIVAL, 1)
    play.hear()
    play.say(ACK, 1, b"")
    found.result(10)
    found = play.begin()
    play.say(ARRIVAL, 2, made=0)
    with pytest.raises(AgreementError, match=r"parted at exchange 1: .* on rank 0, and with an error on rank 1"):
        found.result(10)


def test_who_keeps_sending_holds_rank_0_no_longer_than_its_deadline(play: Play) -> None:
    """Frames of other channels and later exchanges; those that are kept are bounded in number."""
    over = threading.Event()

    def flood() -> None:
        number = 0
        with contextlib.suppress(OSError):
            while not over.is_set():
                number += 1
                assert play.stream is not None
                play.stream.sock.setblocking(True)
                play.stream.send(Frame(ARRIVAL, 2 + number, b"x", channel=number % 3000))

    thread = threading.Thread(target=flood, daemon=True)
    start = time.monotonic()
    found = play.begin(timeout=1.0)
    play.say(ARRIVAL, 7, channel=5)
    thread.start()
    with pytest.raises(DeadlineError):
        found.result(10)
    assert time.monotonic() - start < 1.0 + SLACK
    over.set()
    thread.join(10)
    early = play.hub._star._early  # type: ignore[attr-defined]
    assert len(early) <= hub._EARLY_CHANNELS
    assert max(len(frames) for ranks in early.values() for frames in ranks.values()) <= hub._EARLY_KEPT


@pytest.mark.parametrize("kind", [TROUBLE, LEFT, GAVE_UP])
def test_what_a_worker_says_is_escaped_and_cut(play: Play, kind: int) -> None:
    text = "one\ntwo\r\x1b]0;owned\x07\u202e" + "x" * 2_000_000
    found = play.begin()
    play.say(kind, 1, json.dumps(["AgreementError", text]).encode() if kind == TROUBLE else text.encode())
    with pytest.raises(CommunicatorError) as caught:
        found.result(10)
    said = str(caught.value)
    assert said.isprintable() and len(said) < 11_000
    assert "one\\ntwo\\r\\x1b]0;owned\\x07\\u202e" in said and re.search(r"\(cut: \d{7} characters\)$", said)


def test_an_error_without_a_listener_costs_nothing(play: Play) -> None:
    """Nobody can come to hear of it."""
    host, port = play.worker.endpoint.split(":")
    with socket.create_server((host, int(port))):
        for _ in range(2):
            start = time.monotonic()
            with pytest.raises(NoChannelError, match="rank 0 cannot listen"):
                play.begin(timeout=20).result(10)
            assert time.monotonic() - start < 3.9  # it greets who listens there, for 3 s
