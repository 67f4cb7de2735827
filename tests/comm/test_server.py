"""Rank 0's end of the channel, which decides alone: the test plays the other workers, over real connections."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import signal
import socket
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Callable, Iterator, Sequence

import pytest

from fleetmetrics.comm import SocketCommunicator, channel, client, handshake, letters, past, server
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.comm.folds import FOLDS
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.letters import header_of
from fleetmetrics.comm.message import (
    ANSWER,
    ARRIVAL,
    CLOSED,
    ERROR,
    GAVE_UP,
    LEFT,
    LETTERS,
    STATUS,
    TROUBLE,
    Connection,
    Lost,
    Message,
)
from fleetmetrics.errors import (
    AgreementError,
    AuthenticationError,
    CommunicatorError,
    DeadlineError,
    InvalidInputError,
)
from tests.comm.test_message import heard
from tests.distributed.cluster import AT_ONCE, PATIENCE, SLACK
from tests.distributed.forks import wait_until

pytestmark = pytest.mark.numpy_only


def notes_of(letters: Sequence[Letter]) -> Letter:
    return Letter([letter.note for letter in letters])


class Hall:
    """Rank 0, whose calls run in threads."""

    def __init__(self, world_size: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
        settings: Any = {"named": True, "program": "evaluate.py", "variables": ("WORLD_SIZE", "RANK")}
        job = Job(0, world_size, endpoint=endpoint, secret="of the test", **settings)
        self.rank_0 = SocketCommunicator(job, channel="test")
        self.server: Any = self.rank_0._end
        self.rank_0.listen()
        self.threads = ThreadPoolExecutor(4)
        self.guests = [Guest(self, rank) for rank in range(1, world_size)]

    def begin(self, decide: Callable[..., Letter] = notes_of, timeout: float = 5.0) -> Future[Any]:
        return self.threads.submit(lambda: self.rank_0.consult("auc", decide, "of rank 0", timeout=timeout).note)

    def meet(self) -> None:
        """Bring the next exchange to a good end."""
        call = self.begin()
        for guest in self.guests:
            guest.arrive()
        for guest in self.guests:
            assert guest.hear().kind == ANSWER
        call.result(PATIENCE)

    def waits(self, *ranks: int) -> None:
        """Wait until these ranks have arrived."""
        wait_until(lambda: any(set(ranks) <= set(each.arrivals) for each in list(self.server._meetings.values())))

    def close(self) -> None:
        self.rank_0.close()
        self.threads.shutdown()
        for guest in self.guests:
            guest.leave()


class Guest:
    """The words of one worker."""

    def __init__(self, hall: Hall, rank: int) -> None:
        self.hall, self.rank, self.session, self.calls = hall, rank, bytes([rank]) * 16, 0
        self.connection: Connection | None = None

    def connect(self, calls: bool = True, session: bytes = b"", **changed: Any) -> Connection:
        job = replace(self.hall.rank_0._job, **{"rank": self.rank, **changed})
        host, port = job.endpoint.split(":")
        key = self.hall.server.secret.key
        return handshake.greet(
            job, key, session or self.session, handshake.NONE, calls, (host, int(port)), 5.0
        ).connection

    def say(self, kind: int, call: int, header: bytes = b"", **settings: Any) -> None:
        if self.connection is None:
            self.connection = self.connect()
        settings = {"channel": self.hall.rank_0._number, "end": time.monotonic() + 60, "timeout": 60.0, **settings}
        self.connection.send(Message(kind, call=call, header=header, **settings))

    def arrive(self, call: int = 0, ranks: Sequence[int] = (), twice: bool = False, **settings: Any) -> None:
        self.calls = call or self.calls + 1
        header = header_of("", ranks, "channel 'test'", "auc", f"of rank {self.rank}")
        for _ in range(1 + twice):
            self.say(ARRIVAL, self.calls, header, **settings)

    def hear(self, *skipping: int) -> Message:
        assert self.connection is not None
        while True:
            message = heard(self.connection)
            if message.kind not in skipping:
                return message

    def leave(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


@pytest.fixture
def two() -> Iterator[Hall]:
    made = Hall(2)
    yield made
    made.close()


@pytest.fixture
def three() -> Iterator[Hall]:
    made = Hall(3)
    yield made
    made.close()


def error_in(message: Message) -> str:
    assert message.kind == ERROR
    name, text, _ = json.loads(message.header)
    return f"{name}: {text}"


# An exchange


def test_letters_are_in_the_order_of_ranks(three: Hall) -> None:
    call = three.begin()
    for guest in reversed(three.guests):
        guest.arrive()
    assert call.result(PATIENCE) == ["of rank 0", "of rank 1", "of rank 2"]
    assert {guest.hear().header for guest in three.guests} == {b'json ["of rank 0", "of rank 1", "of rank 2"]'}


def test_the_first_rank_of_a_group_decides_and_rank_0_passes_its_answer_on(three: Hall) -> None:
    first, second = three.guests
    second.arrive(1, ranks=[2, 1], channel=7)
    first.arrive(1, ranks=[2, 1], channel=7)
    assert second.hear().kind == LETTERS
    first.say(ANSWER, 1, b"text not its place", channel=7)
    second.say(ANSWER, 1, b"text a number", channel=7)
    assert [guest.hear().header for guest in three.guests] == [b"text a number"] * 2


def test_a_worker_that_does_not_come_is_named_in_time_with_its_state(three: Hall) -> None:
    call = three.begin(timeout=0.5)
    three.guests[0].connection = three.guests[0].connect(calls=False)
    with pytest.raises(DeadlineError, match=r"ranks 1, 2 did not .* within 0.5 s at exchange 1 \(auc\)") as caught:
        call.result(PATIENCE)
    assert "rank 1 connected, but called nothing yet, rank 2 never connected; rank 0 listens at 127" in str(
        caught.value
    )


def test_the_first_deadline_of_all_workers_counts(three: Hall) -> None:
    start = time.monotonic()
    call = three.begin(timeout=60)
    three.guests[0].arrive(end=time.monotonic() + 0.4, timeout=0.4)
    with pytest.raises(DeadlineError, match=r"rank 2 did not connect within 0\.4 s"):
        call.result(15)
    assert "rank 2 did not connect within 0.4 s" in error_in(three.guests[0].hear())
    assert time.monotonic() - start < 0.4 + SLACK


def test_an_answer_that_would_be_too_late_for_a_worker_is_an_error_on_all(two: Hall) -> None:
    def decide(letters: Sequence[Letter]) -> Letter:
        time.sleep(0.6)
        return Letter("a number")

    call = two.begin(decide, timeout=60)
    two.guests[0].arrive(end=time.monotonic() + 0.4, timeout=0.4)
    text = r"rank 0 needed more than the 0\.4 s that it has at exchange 1"
    assert re.search(text, error_in(two.guests[0].hear()))
    with pytest.raises(DeadlineError, match=text):
        call.result(15)


def test_an_answer_that_rank_0_itself_has_too_late_is_an_error_on_all(
    two: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(letters: Sequence[Letter]) -> Letter:
        time.sleep(0.6)
        return Letter("a number")

    monkeypatch.setitem(FOLDS, "barrier", slow)
    call = two.threads.submit(lambda: two.rank_0.barrier(timeout=60))
    two.guests[0].say(
        ARRIVAL, 1, header_of("barrier", (), "channel 'test'", "barrier", None), end=time.monotonic() + 0.4, timeout=0.4
    )
    text = r"rank 0 needed more than the 0\.4 s that it has at exchange 1"
    assert re.search(text, error_in(two.guests[0].hear()))
    with pytest.raises(DeadlineError, match=text):
        call.result(15)


def test_the_way_of_a_message_counts_among_the_seconds_of_its_worker(two: Hall) -> None:
    [guest] = two.guests
    guest.connection = guest.connect(calls=False)
    wait_until(lambda: 1 in two.server._roster.workers)
    two.server._roster.workers[1].round_trip = 8.0
    end = time.monotonic() + 30
    guest.arrive(end=end, timeout=30.0)
    two.waits(1)
    [meeting] = two.server._meetings.values()
    assert meeting.arrivals[1].message.end < end - 3


def test_a_worker_that_gives_up_before_the_verdict_makes_it_an_error(two: Hall) -> None:
    over = threading.Event()

    def decide(letters: Sequence[Letter]) -> Letter:
        over.wait(10)
        return Letter("a number")

    call = two.begin(decide)
    two.guests[0].arrive()
    two.guests[0].say(GAVE_UP, 1, b"rank 0 did not answer")
    assert error_in(two.guests[0].hear()) == "DeadlineError: rank 0 did not answer"
    over.set()
    with pytest.raises(DeadlineError, match=r"^rank 0 did not answer$"):
        call.result(PATIENCE)


def test_rank_0_that_was_stopped_reads_that_a_worker_gave_up_before_it_decides(
    two: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.meet()
    [guest], stopped, goes_on = two.guests, threading.Event(), threading.Event()
    wait = two.server._poll.wait

    def wait_late(until: float) -> Any:
        stopped.set()
        goes_on.wait(10)
        return wait(until)

    monkeypatch.setattr(two.server._poll, "wait", wait_late)
    monkeypatch.setattr(server, "_AWAKE_SECONDS", -1.0)  # any wait counts as one in which the process was stopped
    two.server._wake()
    assert stopped.wait(10)
    guest.say(ARRIVAL, 2, header_of("barrier", (), "channel 'test'", "auc", None))
    guest.say(GAVE_UP, 2, b"rank 0 did not answer")
    call = two.begin(FOLDS["barrier"])
    wait_until(lambda: bool(two.server._asked))
    goes_on.set()
    assert error_in(guest.hear()) == "DeadlineError: rank 0 did not answer"
    with pytest.raises(DeadlineError, match=r"^rank 0 did not answer$"):
        call.result(PATIENCE)


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_worker_that_leaves_a_call_ends_it_for_all_at_once(three: Hall, when: str) -> None:
    left = json.dumps(["CommunicatorError", "rank 1 was interrupted (KeyboardInterrupt) at exchange 1 (auc)."]).encode()
    if when == "before":
        three.guests[0].say(LEFT, 1, left)
        wait_until(lambda: bool(three.server._past.failed))
    start = time.monotonic()
    call = three.begin(timeout=60)
    if when == "while":
        three.guests[1].arrive()
        three.waits(0, 2)
        three.guests[0].say(LEFT, 1, left)
        assert "rank 1 was interrupted" in error_in(three.guests[1].hear())
    with pytest.raises(CommunicatorError, match="rank 1 was interrupted"):
        call.result(PATIENCE)
    assert time.monotonic() - start < AT_ONCE


def test_a_worker_that_leaves_after_the_answer_parts_the_workers_and_the_next_exchange_tells_them(two: Hall) -> None:
    two.meet()
    [guest] = two.guests
    guest.say(LEFT, 1, json.dumps(["CommunicatorError", "interrupted", False]).encode())
    assert guest.hear().kind == LEFT
    call = two.begin()
    guest.arrive()
    with pytest.raises(
        AgreementError, match=r"diverged at exchange 1 .*a result on rank 0, and with an error on rank 1"
    ):
        call.result(PATIENCE)
    assert "diverged" in error_in(guest.hear())
    two.meet()


def test_a_worker_that_comes_after_the_error_gets_it_too_even_if_it_connects_later(three: Hall) -> None:
    with pytest.raises(DeadlineError):
        three.begin(timeout=0.3).result(PATIENCE)
    late = three.guests[0]
    late.connection = late.connect(calls=False)
    assert "ranks 1, 2 did not connect within 0.3 s" in error_in(late.hear())
    late.arrive()
    assert "ranks 1, 2 did not connect within 0.3 s" in error_in(late.hear())


def test_a_worker_that_has_not_come_hears_the_error_at_once(three: Hall) -> None:
    late = three.guests[0]
    late.connection = late.connect(calls=False)
    wait_until(lambda: 1 in three.server._roster.workers)
    with pytest.raises(DeadlineError):
        three.begin(timeout=0.3).result(PATIENCE)
    assert "ranks 1, 2 did not arrive within 0.3 s" in error_in(late.hear())


def test_rank_0_ends_once_late_workers_have_the_error(three: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_SEE_OFF_SECONDS", 30.0)
    with pytest.raises(DeadlineError):
        three.begin(timeout=0.3).result(PATIENCE)
    ending = threading.Thread(target=three.server.see_off)
    ending.start()
    for guest in three.guests:
        ending.join(0.2)
        assert ending.is_alive()
        guest.connection = guest.connect(calls=False)
        assert "ranks 1, 2 did not connect within 0.3 s" in error_in(guest.hear())
    ending.join(PATIENCE)
    assert not ending.is_alive()


def test_rank_0_does_not_end_between_the_coming_of_a_late_worker_and_the_error_for_it(
    two: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_SEE_OFF_SECONDS", 30.0)
    with pytest.raises(DeadlineError):
        two.begin(timeout=0.3).result(10)
    say, comes, held = two.server._say, threading.Event(), threading.Event()

    def says(rank: int, message: Message) -> None:
        comes.set()
        assert held.wait(10)
        say(rank, message)

    monkeypatch.setattr(two.server, "_say", says)
    ending = threading.Thread(target=two.server.see_off)
    ending.start()
    (guest,) = two.guests
    guest.connection = guest.connect(calls=False)
    assert comes.wait(10)
    ending.join(0.2)
    assert ending.is_alive()
    held.set()
    assert "rank 1 did not connect within 0.3 s" in error_in(guest.hear())
    ending.join(10)
    assert not ending.is_alive()


def test_rank_0_ends_once_the_error_of_its_decision_is_on_its_way(two: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program has the error before its thread has sent it to the others, who would hear that rank 0 has gone."""
    hear, held = two.server._hear, threading.Event()

    def hears(rank: int, message: Message) -> None:
        assert message.kind != LEFT or held.wait(10)
        hear(rank, message)

    def fail(_: Sequence[Letter]) -> Letter:
        raise InvalidInputError("ids of both kinds")

    monkeypatch.setattr(two.server, "_hear", hears)
    monkeypatch.setattr(server, "_SEE_OFF_SECONDS", 30.0)
    call = two.begin(fail)
    two.guests[0].arrive()
    with pytest.raises(InvalidInputError):
        call.result(PATIENCE)
    ending = threading.Thread(target=two.server.see_off)
    ending.start()
    ending.join(0.2)
    assert ending.is_alive()
    held.set()
    assert "ids of both kinds" in error_in(two.guests[0].hear())
    ending.join(PATIENCE)
    assert not ending.is_alive()


def test_rank_0_waits_for_groups_that_meet_at_it_unless_an_error_ends_its_program(
    two: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    [guest] = two.guests
    guest.connection = guest.connect()
    two.server._led.add(1)  # its group has called
    wait_until(lambda: 1 in two.server._roster.workers)
    ending = threading.Thread(target=two.server.see_off, daemon=True)
    ending.start()
    ending.join(0.2)
    assert ending.is_alive()
    monkeypatch.setattr(sys, "last_value", ValueError(), raising=False)
    ending.join(PATIENCE)
    assert not ending.is_alive()


def test_a_worker_without_a_reply_says_whether_rank_0_listens(two: Hall) -> None:
    exchange = channel._Exchange((1, 1, 1), "exchange 1 (auc)", Deadline(5.0), notes_of, b"", None)
    assert two.rank_0._late(exchange).startswith("rank 0 did not answer within 5 s at exchange 1 (auc)")
    two.server._opens = "node1", 8500
    late = two.rank_0._late(exchange)
    assert late.startswith("rank 0 did not listen within 5 s at exchange 1 (auc)") and "node1:8500" in late


@pytest.mark.parametrize("kind", [LEFT, LETTERS])
def test_what_is_no_answer_is_not_taken_for_one(kind: int) -> None:
    with pytest.raises(CommunicatorError, match=f"its kind is {kind}.; do all workers run the same version"):
        letters.read_each([Message(kind, payload=b"1")], channel._answer_in)


def test_the_trouble_of_a_worker_is_an_error_on_all(two: Hall) -> None:
    call = two.begin()
    header = header_of("", (), "channel 'test'", "auc", ["AgreementError", "no"])
    two.guests[0].say(TROUBLE, 1, header)
    with pytest.raises(AgreementError, match="on rank 1: no") as caught:
        call.result(PATIENCE)
    assert caught.value.known_to_all  # so it is not told once more


def test_the_trouble_of_rank_0_is_the_cause_of_its_error(two: Hall) -> None:
    two.guests[0].arrive()
    own = ValueError("of rank 0")
    with pytest.raises(CommunicatorError, match="on rank 0: ValueError: of rank 0") as caught:
        two.rank_0.consult("auc", notes_of, timeout=5, trouble=own)
    assert caught.value.__cause__ is own


@pytest.mark.parametrize("kind", [TROUBLE, LEFT, GAVE_UP])
def test_the_text_of_a_worker_is_escaped_and_cut(three: Hall, kind: int) -> None:
    text = "one\ntwo\r\x1b]0;owned\x07\u202e" + "x" * 2_000_000
    call, guest = three.begin(), three.guests[0]
    words = ["AgreementError", text]
    if kind == GAVE_UP:
        guest.arrive()
    elif kind == TROUBLE:
        three.guests[1].arrive()
    whole = header_of("", (), "channel 'test'", "auc", words) if kind == TROUBLE else json.dumps(words).encode()
    guest.say(kind, 1, text.encode() if kind == GAVE_UP else whole)
    with pytest.raises((AgreementError, DeadlineError)) as caught:
        call.result(PATIENCE)
    said = str(caught.value)
    assert said.isprintable() and len(said) < 11_000
    assert "one\\ntwo\\r\\x1b]0;owned\\x07\\u202e" in said and re.search(r"\(cut: \d{7} characters\)$", said)


def test_the_text_of_an_error_of_the_decision_is_escaped_and_cut(two: Hall) -> None:
    """It may quote what a worker has sent."""

    def fail(_: Sequence[Letter]) -> Letter:
        raise ValueError("one\x1b]0;owned\x07" + "x" * 2_000_000)

    call = two.begin(fail)
    two.guests[0].arrive()
    with pytest.raises(CommunicatorError, match=r"^rank 0 failed to combine: ValueError: one\\x1b\]0;owned") as caught:
        call.result(PATIENCE)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 11_000
    assert caught.value.known_to_all and "rank 0 failed to combine" in error_in(two.guests[0].hear())


@pytest.mark.parametrize("where", ["a worker", "the answer"])
def test_what_is_too_long_for_a_header_is_an_error_of_the_call_on_all(
    two: Hall, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letters, "HEADER_LIMIT", 1000)
    note = "x" * (900 if where == "the answer" else 1100)
    call = two.threads.submit(lambda: two.rank_0.consult("auc", lambda found: Letter([note] * 2), note, timeout=5))
    two.guests[0].arrive()
    text = r"what describes the call's data has 1,\d{3} bytes, and may have 1,000"
    assert re.search(text, error_in(two.guests[0].hear()))
    with pytest.raises(CommunicatorError, match=text):
        call.result(PATIENCE)
    two.meet()


# Who comes, and who goes


def test_a_worker_lost_in_an_exchange_is_an_error_for_all_who_need_it_now_and_later(three: Hall) -> None:
    first, second = three.guests
    call = three.begin(timeout=60)
    first.arrive()
    three.waits(0, 1)
    second.say(STATUS, 1)
    second.arrive()
    call.result(PATIENCE)
    second.leave()
    start = time.monotonic()
    for earlier in ("", "the workers' channel is broken since an earlier call: "):
        with pytest.raises(CommunicatorError, match=f"^{earlier}rank 2 has gone away"):
            three.begin(timeout=60).result(PATIENCE)
    first.arrive()
    assert "ended with a result on ranks 0, 1; rank 2 may have an error instead" in error_in(first.hear(ANSWER, STATUS))
    with pytest.raises(handshake.Refused, match="A restarted rank 2 cannot join the others: start all workers again"):
        second.connect(session=b"of another one  ")
    assert time.monotonic() - start < AT_ONCE


def test_a_worker_whose_first_connection_is_lost_comes_in_again(two: Hall) -> None:
    call, [guest] = two.begin(timeout=60), two.guests
    for _ in range(3):
        guest.connect().close()
    guest.arrive()
    assert call.result(PATIENCE) == ["of rank 0", "of rank 1"]


def test_a_connection_on_which_nothing_was_said_does_not_end_its_worker(two: Hall) -> None:
    [guest], roster = two.guests, two.server._roster
    guest.connection = guest.connect()
    wait_until(lambda: 1 in roster.workers)
    guest.leave()
    wait_until(lambda: 1 not in roster.workers)
    two.begin()
    two.waits(0)  # rank 0's thread takes one event after the other
    assert not roster.ended

    guest.say(CLOSED, 0, channel=7)
    guest.leave()
    wait_until(lambda: 1 in roster.ended)


def test_a_worker_that_has_ended_without_calling_is_an_error_within_seconds(two: Hall) -> None:
    call = two.begin(timeout=60)
    two.waits(0)
    connection = two.guests[0].connect(calls=False)
    connection.send(Message(STATUS))  # which says that the welcome has arrived
    connection.close()
    start = time.monotonic()
    with pytest.raises(CommunicatorError, match=r"rank 1 has ended without calling exchange 1 \(auc\)"):
        call.result(PATIENCE)
    assert time.monotonic() - start < 2 + SLACK


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_channel_that_a_worker_has_closed_is_an_error_at_once(two: Hall, when: str) -> None:
    two.meet()
    start = time.monotonic()
    if when == "before":
        two.guests[0].say(CLOSED, 0)
        wait_until(lambda: bool(two.server._past.closed))
    call = two.begin(timeout=60)
    if when == "while":
        two.waits(0)
        two.guests[0].say(CLOSED, 0)
    with pytest.raises(CommunicatorError, match="rank 1 has gone away: it closed the channel"):
        call.result(PATIENCE)
    assert time.monotonic() - start < AT_ONCE


def test_a_worker_that_has_closed_all_it_had_comes_in_again(two: Hall) -> None:
    two.meet()
    two.guests[0].say(CLOSED, 0, channel=0)
    two.guests[0].leave()
    two.meet()


def test_before_all_have_met_a_second_process_of_a_rank_is_an_error_on_all(two: Hall) -> None:
    call, [guest] = two.begin(timeout=60), two.guests
    guest.connection = guest.connect()
    with pytest.raises(handshake.Refused, match="two processes say that they are rank 1"):
        guest.connect(session=b"of another one  ")
    with pytest.raises(CommunicatorError, match="two processes say that they are rank 1"):
        call.result(PATIENCE)


def test_later_a_second_process_of_a_rank_is_refused_by_itself(two: Hall) -> None:
    two.meet()
    for session, why in ((b"of another one  ", "another process is rank 1 of this run, and has met the others"),):
        with pytest.raises(handshake.Refused, match=why):
            two.guests[0].connect(session=session)
    two.meet()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"rank": 0}, "two processes say that they are rank 0.* Each worker needs its own RANK, and"),
        ({"rank": 2}, "a worker says that it is rank 2 of 2, but rank 0 has different values"),
        ({"world_size": 3}, "is rank 1 of 3, but rank 0 has different values; WORLD_SIZE must be the same on all"),
        ({"rank": 2**32 - 1}, "a worker says that it is rank 4294967295 of 2"),
    ],
)
def test_a_place_that_there_is_not_is_an_error_on_both_sides(two: Hall, changed: dict[str, int], why: str) -> None:
    call = two.begin(timeout=60)
    with pytest.raises(handshake.Refused, match=why):
        two.guests[0].connect(**changed)
    with pytest.raises(CommunicatorError, match=why):
        call.result(PATIENCE)
    with pytest.raises(handshake.Refused, match=r"RANK|WORLD_SIZE|cannot join"):
        two.guests[0].connect(session=b"of another one  ", rank=7)
    with pytest.raises(CommunicatorError, match=why):  # the first reason stays
        two.begin().result(PATIENCE)


def test_the_way_out_is_for_a_process_that_has_seen_no_other_worker(two: Hall) -> None:
    two.server.job = two.server._roster.job = replace(two.rank_0._job, claimed=True)
    with pytest.raises(DeadlineError, match=r"unset WORLD_SIZE and RANK, or call compute_local\(\)"):
        two.begin(timeout=0.5).result(PATIENCE)
    [guest] = two.guests
    guest.connection = guest.connect()
    wait_until(lambda: bool(two.server._roster.seen))
    with pytest.raises(DeadlineError, match="rank 1 connected, but called nothing yet") as caught:
        two.begin(timeout=0.5).result(PATIENCE)
    assert "unset" not in str(caught.value)


def test_a_worker_of_another_run_or_program_is_sent_away_and_does_no_harm(two: Hall) -> None:
    call = two.begin(timeout=1.5)
    with pytest.raises(handshake.OtherRun, match=re.escape(two.rank_0._job.title)):
        two.guests[0].connect(run="of yesterday")
    with pytest.raises(handshake.OtherRun, match=r"rank 0 of this run runs evaluate.py, but this process.* runs other"):
        two.guests[0].connect(program="other.py")
    with pytest.raises(DeadlineError, match=r"rank 1 did not connect .* Rank 0 refused rank 1 of another run"):
        call.result(PATIENCE)
    [guest] = two.guests
    guest.connection, guest.calls = guest.connect(), 1
    assert "of another run" in error_in(guest.hear())
    two.meet()


def test_rank_0_names_another_version_of_the_protocol(two: Hall) -> None:
    call = two.begin(timeout=1.0)
    host, port = two.rank_0._job.endpoint.split(":")
    with socket.create_connection((host, int(port)), 5) as other:
        other.sendall(b"fleetmetrics 3\r\n")
        wait_until(lambda: bool(two.server._door.other_versions))
        two.guests[0].say(ARRIVAL, 1, header_of("", (), "title", "other", None), channel=7, threads=(2, False))
        two.guests[0].say(STATUS, 1, channel=7)
        assert b"it speaks version 3 of the protocol" in two.guests[0].hear().header  # also while they wait
        with pytest.raises(DeadlineError, match=r"rank 1 did not arrive .*it speaks version 3 of the protocol"):
            call.result(PATIENCE)


def test_strangers_in_the_name_of_a_worker_that_is_connected_change_nothing(two: Hall) -> None:
    two.meet()
    two.server._door._unproven = {1: (0.0, 90.0, 99)}
    with pytest.raises(DeadlineError, match="rank 1 did not arrive"):
        two.begin(timeout=0.6).result(PATIENCE)


def test_an_error_needs_every_missing_rank_to_have_another_secret(three: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    door, looks = three.server._door, []  # type: Any, list[float]
    look = door.look
    monkeypatch.setattr(door, "look", lambda now: looks.append(now) or look(now))
    call = three.begin(timeout=60)
    three.waits(0)
    three.server._door._unproven = {1: (0.0, 4.0, 9)}
    three.guests[1].say(STATUS, 1)
    assert b"A process that says that it is rank 1 does not know the job's secret" in three.guests[1].hear().header
    earlier = len(looks)
    wait_until(lambda: len(looks) > earlier + 1)
    three.guests[1].arrive()
    with pytest.raises(AuthenticationError, match="rank 1 could not prove to rank 0"):
        call.result(PATIENCE)
    assert not door.ranks_unproven()  # a later call needs new ones


# What a faulty worker that knows the secret sends


NONSENSE: dict[str, Callable[[Guest], None]] = {
    "it speaks of another group": lambda guest: guest.arrive(1, ranks=[1, 2]),
    "it speaks of a group without itself": lambda guest: guest.arrive(1, ranks=[0, 2]),
    "it speaks of ranks that there are not": lambda guest: guest.arrive(1, ranks=[0, 1, 7]),
    "it speaks of a rank twice": lambda guest: guest.arrive(1, ranks=[1, 1, 0]),
    "it speaks of a negative rank": lambda guest: guest.arrive(1, ranks=[0, 1, -1]),
    "its ranks are no list": lambda guest: guest.say(ARRIVAL, 1, b"\n5\nx\nauc\n"),
    "its letter is no UTF-8": lambda guest: guest.say(ARRIVAL, 1, b"\xff\n\xff"),
    "its note is too deep": lambda guest: guest.say(ARRIVAL, 1, b"\n[]\nx\nauc\njson " + b"[" * 200_000),
    "its trouble is none": lambda guest: guest.say(TROUBLE, 1, b"\n[]\nx\nauc\njson 5"),
    "it makes another call": lambda guest: guest.say(ARRIVAL, 1, b"\n[]\nx\nacc\ntext x"),
    "it names another fold": lambda guest: guest.say(ARRIVAL, 1, b"states\n[]\nx\nauc\ntext x"),
    "it left, in no words": lambda guest: guest.say(LEFT, 1, b"\xff"),
}  # fmt: skip


@pytest.mark.parametrize("fault", NONSENSE)
def test_nonsense_of_a_worker_is_the_same_error_on_the_others_and_names_it(three: Hall, fault: str) -> None:
    faulty, other = three.guests
    call = three.begin(timeout=2.0)
    other.arrive()
    three.waits(0, 2)
    NONSENSE[fault](faulty)
    text = error_in(other.hear())
    with pytest.raises((CommunicatorError, AgreementError, DeadlineError)) as caught:
        call.result(PATIENCE)
    assert text == f"{type(caught.value).__name__}: {caught.value}" and re.search(r"rank 1\b", text), text


def test_a_worker_that_comes_twice_is_the_same_error_on_the_others_and_is_named(three: Hall) -> None:
    faulty, other = three.guests
    call = three.begin(timeout=10.0)
    faulty.arrive(1, twice=True)
    other.arrive()
    text = error_in(other.hear())
    with pytest.raises(CommunicatorError) as caught:
        call.result(PATIENCE)
    assert text == f"CommunicatorError: {caught.value}" and "rank 1" in text and "comes twice" in text, text


def test_a_name_that_no_terminal_can_show_is_escaped_where_the_others_ask_who_is_missing(three: Hall) -> None:
    faulty, other = three.guests
    faulty.say(ARRIVAL, 1, header_of("", (), "title", "\x1b[2J\ud800", None), channel=7, threads=(2, False))
    other.arrive()
    three.waits(2)
    other.say(STATUS, 1)
    status = other.hear()
    assert status.kind == STATUS and rb"rank 1 came to exchange 1 (\x1b[2J\ud800)" in status.header


OTHERS: dict[str, Callable[[Guest], None]] = {
    "leaves": lambda guest: guest.say(LEFT, 1, json.dumps(["CommunicatorError", "it left"]).encode(), channel=7),
    "gives up": lambda guest: guest.say(GAVE_UP, 1, b"it gave up", channel=7),
    "answers": lambda guest: guest.say(ANSWER, 1, b"text wrong", channel=7),
    "closes": lambda guest: guest.say(CLOSED, 0, channel=7),
    "asks": lambda guest: guest.say(STATUS, 1, channel=7),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_a_worker_says_of_a_call_in_which_it_has_no_part_changes_nothing(what: str) -> None:
    hall = Hall(4)
    outsider, first, second = hall.guests
    first.arrive(1, ranks=[2, 3], channel=7)
    hall.waits(2)
    OTHERS[what](outsider)
    outsider.arrive(1)
    hall.waits(1)  # so rank 0 has heard both
    second.arrive(1, ranks=[2, 3], channel=7)
    assert first.hear().kind == LETTERS
    first.say(ANSWER, 1, b"text a number", channel=7)
    assert [guest.hear().header for guest in (first, second)] == [b"text a number"] * 2
    hall.close()


#: The call that a worker leaves when it has said enough.
LAST = 10**6


def flood(guest: Guest, say: Callable[[int], None]) -> threading.Thread:
    """Let a worker say thousands of things, unless it is lost, and read nothing."""

    def speak() -> None:
        assert guest.connection is not None
        guest.connection.sock.setblocking(True)
        with contextlib.suppress(Lost):
            for number in range(3 * past.KEPT):
                say(number)
            guest.say(LEFT, LAST, b'["CommunicatorError", "x"]')

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()
    return thread


#: What a worker says without end.
FLOODS: dict[str, Callable[[Guest, int], None]] = {
    "channels": lambda guest, number: guest.arrive(1, channel=number + 10, threads=(255, False)),
    "calls": lambda guest, number: guest.arrive(number + 10),
    "steps": lambda guest, number: guest.arrive(1, step=number + 1),
    "groups": lambda guest, number: guest.arrive(1, channel=number + 10, ranks=[1, 2]),
    "failed calls": lambda guest, number: guest.arrive(1),
    "questions": lambda guest, number: guest.say(STATUS, 2),
    "departures": lambda guest, number: guest.say(LEFT, number + 10, b'["CommunicatorError", "x"]'),
    "closings": lambda guest, number: guest.say(CLOSED, 0, channel=number + 10),
    "answers": lambda guest, number: guest.say(ANSWER, 2, b"text wrong"),
    "unknown calls": lambda guest, number: guest.say(GAVE_UP, number + 10),
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_worker_that_keeps_speaking_delays_nobody_and_fills_no_memory(
    three: Hall, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words go on while the others wait for another one."""
    for module in (past, server, client):  # a quarter of what is kept otherwise, for a smaller flood
        monkeypatch.setattr(module, "KEPT", 256)
    faulty, other = three.guests
    faulty.connection = faulty.connect()
    with pytest.raises(DeadlineError):
        three.begin(timeout=0.2).result(PATIENCE)  # the first call fails
    wait_until(lambda: 1 in three.server._roster.workers)
    three.server._roster.workers[1].connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**12)
    speaking = flood(faulty, lambda number: FLOODS[what](faulty, number))
    start = time.monotonic()
    call = three.begin(timeout=1.0)
    other.arrive(2)
    with pytest.raises((DeadlineError, CommunicatorError, AgreementError)):
        call.result(PATIENCE)
    assert time.monotonic() - start < 1.0 + AT_ONCE
    kept = three.server
    wait_until(lambda: (three.rank_0._number, LAST) in kept._past.failed or 1 not in kept._roster.workers, AT_ONCE)
    assert len(kept._meetings) <= past.KEPT + 2
    assert max(len(kept._past.failed), len(kept._past.closed), len(kept._past.ended)) <= past.KEPT
    assert sum(worker.connection.waiting for worker in list(kept._roster.workers.values())) <= 2 * past.KEPT + 20
    speaking.join(PATIENCE)
    assert not speaking.is_alive() and three.server._thread.is_alive()


def test_a_worker_that_stops_reading_an_answer_is_lost_by_the_deadline_and_the_others_have_it(three: Hall) -> None:
    _, other = three.guests
    call = three.begin(lambda letters: Letter("a number", bytes(2**24)), timeout=5.0)
    for guest in three.guests:
        guest.arrive()
    assert other.hear().header == b"text a number"
    start = time.monotonic()
    assert call.result(PATIENCE) == "a number"
    assert time.monotonic() - start < 5.0 + SLACK
    with pytest.raises(CommunicatorError, match="rank 1 stopped in the middle of an answer"):
        three.begin(timeout=60).result(PATIENCE)


def test_answers_are_not_kept(two: Hall) -> None:
    for _ in range(5):
        call = two.begin(lambda letters: Letter("a number", bytes(2**20)))
        two.guests[0].arrive()
        assert two.guests[0].hear().kind == ANSWER
        call.result(PATIENCE)
    server = two.server
    wait_until(lambda: not server._undelivered)
    assert not server._replies
    held = list(gc.get_objects())
    assert not any(isinstance(each, Message) and len(each.payload) == 2**20 for each in held)


# Threads


def test_a_worker_of_which_an_answer_has_just_released_a_thread_may_come_to_another_call(three: Hall) -> None:
    """Its other thread waits since before the answer; that both wait is no deadlock."""
    first, second = three.guests
    pair = {"ranks": [1, 2], "threads": (2, False)}
    first.arrive(1, channel=7, **pair)
    first.arrive(1, channel=8, **pair)
    three.waits(1)
    second.arrive(1, channel=8, **pair)
    assert first.hear().kind == LETTERS
    first.say(ANSWER, 1, b"text a number", channel=8)
    assert second.hear().kind == ANSWER and first.hear().kind == ANSWER
    second.arrive(1, channel=9, **pair)  # the other waits in channel 7, and may come
    wait_until(lambda: len(three.server._meetings) == 2)
    first.arrive(1, channel=9, **pair)
    assert first.hear().kind == LETTERS


def test_workers_that_wait_for_each_other_get_the_error_at_once(three: Hall) -> None:
    first, second = three.guests
    first.arrive(1, ranks=[1, 2], channel=7)
    second.arrive(1, ranks=[1, 2], channel=8)
    assert {error_in(guest.hear()).partition(":")[0] for guest in three.guests} == {"AgreementError"}


# Letters ahead: large states are many letters, and the next is on its way before the answer to the last has come


def test_a_call_sends_one_letter_ahead_and_gets_the_answers_in_order(two: Hall) -> None:
    def work() -> list[Any]:
        with two.rank_0.call("auc", 5.0) as call:
            return [told.note[0] for told in call.consult_each(notes_of, map(Letter, "abc"))]

    call = two.threads.submit(work)
    wait_until(lambda: len(two.server._meetings) == 2)
    for step in (1, 2, 3):
        two.guests[0].arrive(1, step=step)
    assert [two.guests[0].hear().place[2] for _ in range(3)] == [1, 2, 3]
    assert call.result(PATIENCE) == ["a", "b", "c"]


def test_after_an_error_no_thread_waits_for_the_answer_to_a_letter_ahead(two: Hall) -> None:
    def work() -> None:
        with two.rank_0.call("auc", 5.0) as call:
            list(call.consult_each(notes_of, map(Letter, "abc")))

    call = two.threads.submit(work)
    two.waits(0)
    two.guests[0].say(LEFT, 1, json.dumps(["AgreementError", "it has left", False]).encode())
    with pytest.raises(AgreementError, match="it has left"):
        call.result(PATIENCE)
    assert not two.server._replies and not two.server._meetings
    two.guests[0].hear(), two.guests[0].hear()
    two.guests[0].calls = 1
    two.meet()


@pytest.mark.parametrize("fails_at", [1, 2])
def test_an_error_ends_a_call_with_all_its_letters_where_its_workers_wait(three: Hall, fails_at: int) -> None:
    first, second = three.guests
    for step in (1, 2):
        first.arrive(1, ranks=[1, 2], channel=7, step=step)
    wait_until(lambda: len(three.server._meetings) == 2)
    second.arrive(1, ranks=[2, 1], channel=7, step=fails_at)  # its ranks are in another order
    assert [guest.hear().place for guest in three.guests] == [(7, 1, 1)] * 2
    assert not three.server._meetings
    first.arrive(2, ranks=[1, 2], channel=7)
    second.arrive(2, ranks=[1, 2], channel=7)
    assert first.hear().kind == LETTERS


def test_a_thread_waits_once_however_many_letters_it_has_sent(three: Hall) -> None:
    first, second = three.guests
    for step in (1, 2):
        first.arrive(1, ranks=[1, 2], threads=(2, False), channel=7, step=step)
    wait_until(lambda: len(three.server._meetings) == 2)
    second.arrive(1, ranks=[1, 2], channel=8)  # the other thread of the first may come there
    wait_until(lambda: len(three.server._meetings) == 3)
    first.arrive(1, ranks=[1, 2], threads=(2, False), channel=8)
    assert first.hear().kind == LETTERS


# Signals


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """With a handler of SIGUSR2 that raises."""

    def handler(*_: object) -> None:
        raise TimeoutError("too long")

    before = signal.signal(signal.SIGUSR2, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_the_error_of_a_signal_handler_in_a_decision_is_the_programs_own(two: Hall) -> None:
    def decide(_: Sequence[Letter]) -> Letter:
        signal.raise_signal(signal.SIGUSR2)
        raise AssertionError("the handler raises")

    [guest] = two.guests
    guest.arrive()
    with handled(), pytest.raises(TimeoutError, match=r"^too long$"):
        two.rank_0.consult("auc", decide, "of rank 0", timeout=5)
    assert "rank 0 was interrupted (TimeoutError) at exchange 1 (auc)" in error_in(guest.hear())


def test_the_error_of_a_signal_handler_before_an_exchange_is_the_programs_own(two: Hall) -> None:
    [guest] = two.guests
    guest.arrive()
    with handled(), pytest.raises(TimeoutError, match=r"^too long$") as caught:
        signal.raise_signal(signal.SIGUSR2)
    with handled(), pytest.raises(TimeoutError, match=r"^too long$"):
        two.rank_0.consult("auc", notes_of, timeout=5, trouble=caught.value)
    assert error_in(guest.hear()).endswith("on rank 0: TimeoutError: too long")


# The thread of this end


@pytest.mark.parametrize("where", ["_arrive", "_look_at_clock", "_wakes_at", "_admit"])
def test_a_failure_of_the_thread_is_an_error_on_all_workers_now_and_later(
    three: Hall, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = three.guests
    call = three.begin(timeout=2.0 if where == "_look_at_clock" else 60)
    first.arrive()
    three.waits(0, 1)
    do, failed = getattr(three.server, where), []

    def fails(*arguments: Any) -> Any:
        if not failed:
            failed.append(1)
            raise ZeroDivisionError("of the test")
        return do(*arguments)

    monkeypatch.setattr(three.server, where, fails)
    if where != "_look_at_clock":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(second, "connection", None)
            threading.Thread(target=lambda: _ignoring(second.arrive), daemon=True).start()
    text = "the channel of rank 0 failed (ZeroDivisionError: of the test)"
    assert text in error_in(first.hear())
    for again in (call, None):
        with pytest.raises(CommunicatorError, match=re.escape(text)):
            (again or three.begin(timeout=60)).result(PATIENCE)
    first.arrive()
    assert text in error_in(first.hear())
    assert "ZeroDivisionError" in caplog.text


def _ignoring(work: Callable[[], Any]) -> None:
    with contextlib.suppress(Exception):
        work()


def test_a_thread_that_cannot_even_say_so_leaves_nobody_waiting(two: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("of the test")

    call, [guest] = two.begin(timeout=60), two.guests
    two.waits(0)
    guest.connection = guest.connect()
    for name in ("_hear", "_fail"):
        monkeypatch.setattr(two.server, name, fails)
    guest.arrive()
    for again in (call, None):
        with pytest.raises(CommunicatorError, match=r"the channel of rank 0 failed \(ZeroDivisionError: of the test\)"):
            (again or two.begin(timeout=60)).result(PATIENCE)
    with pytest.raises(Lost):
        for _ in range(3):
            guest.hear()  # at most that it is closed


def test_a_channel_that_another_thread_closes_leaves_nobody_waiting(two: Hall) -> None:
    call = two.begin(timeout=60)
    two.waits(0)
    two.rank_0.close()
    with pytest.raises(CommunicatorError, match="closed"):
        call.result(PATIENCE)
