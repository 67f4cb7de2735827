"""Rank 0 alone decides; the test plays worker 1, over a real connection."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Callable, Iterator, Sequence

import pytest

from fleetmetrics.comm import SocketCommunicator, peers
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.comm.finding import connect
from fleetmetrics.comm.frames import ACK, ANSWER, ARRIVAL, CLOSED, ERROR, GAVE_UP, LEFT, TROUBLE, Frame, Stream
from fleetmetrics.comm.handshake import OtherRun
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.rivals import Finding
from fleetmetrics.errors import AgreementError, CommunicatorError, DeadlineError, InvalidInputError, NoChannelError
from tests.distributed.cluster import SLACK


def notes_of(letters: Sequence[Letter]) -> Letter:
    return Letter([letter.note for letter in letters])


class Play:
    """Rank 0 in a thread, and the stream of a worker."""

    def __init__(self, size: int = 2) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            job = Job(0, size, endpoint=f"127.0.0.1:{listener.getsockname()[1]}", secret="of the test")
        self.hub = SocketCommunicator(job, channel="test")
        self.worker = replace(job, rank=1)
        self.threads = ThreadPoolExecutor(1)
        self.stream: Stream | None = None

    def begin(self, decide: Callable[..., Letter] = notes_of, timeout: float = 5.0) -> Future[Any]:
        return self.threads.submit(lambda: self.hub.consult("auc", decide, "of rank 0", timeout=timeout).note)

    def say(self, kind: int, call: int, header: bytes = b"auc\ntext of rank 1", **options: Any) -> None:
        if self.stream is None:
            self.stream, _ = connect(self.worker, self.hub._star.secret.key, time.monotonic() + 5)
        options = {"remaining": 5.0, "timeout": 5.0, **options}
        self.stream.send(Frame(kind, call, header, **{"channel": self.hub._channel.number, **options}))

    def meet(self) -> None:
        """Bring the first exchange to a good end."""
        found = self.begin()
        self.say(ARRIVAL, 1)
        self.hear()
        self.say(ACK, 1, b"")
        found.result(10)

    def hear(self) -> Frame:
        assert self.stream is not None
        self.stream.sock.settimeout(10)
        frame = self.stream.receive()
        self.stream.sock.setblocking(False)
        assert frame is not None
        return frame


class Another(Play):
    """One more worker of the same rank 0."""

    def __init__(self, first: Play, rank: int) -> None:
        self.hub, self.worker = first.hub, replace(first.worker, rank=rank)
        self.stream = None


@pytest.fixture
def play() -> Iterator[Play]:
    made = Play()
    yield made
    made.threads.shutdown()
    made.hub.close()
    if made.stream is not None:
        made.stream.close()


@pytest.fixture
def three() -> Iterator[list[Play]]:
    """Rank 0 with the first worker, and the second one."""
    first = Play(3)
    both = [first, Another(first, 2)]
    yield both
    first.threads.shutdown()
    first.hub.close()
    for each in both:
        if each.stream is not None:
            each.stream.close()


def test_letters_are_in_the_order_of_ranks(play: Play) -> None:
    found = play.begin()
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    play.say(ACK, 1, b"")
    assert found.result(10) == ["of rank 0", "of rank 1"]


def test_a_worker_that_does_not_come_is_named_in_time(play: Play) -> None:
    with pytest.raises(DeadlineError, match=r"rank 1 did not connect within 0.3 s at exchange 1"):
        play.begin(timeout=0.3).result(10)


def test_strangers_in_the_name_of_a_worker_that_is_connected_change_nothing(three: list[Play]) -> None:
    first, second = three
    found = first.begin(timeout=1.0)
    first.say(ARRIVAL, 1)
    second.say(ARRIVAL, 1)
    first.hear()
    first.say(ACK, 1, b"")
    found.result(10)
    now = time.monotonic()
    first.hub._star._peers.door.unproven = {1: (now - 90, now, 99), 2: (now - 90, now, 99)}
    found = first.begin(timeout=0.6)
    first.say(ARRIVAL, 2)
    with pytest.raises(DeadlineError, match="rank 2 did not arrive"):
        found.result(10)


def test_the_trouble_of_a_worker_is_an_error_on_all(play: Play) -> None:
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


def test_an_unconfirmed_answer_is_taken_back(play: Play) -> None:
    found = play.begin(timeout=1.0)
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    with pytest.raises(DeadlineError, match="rank 1 did not confirm the result"):
        found.result(10)
    assert play.hear().kind == ERROR


class Formulas:
    """Rank 0 computes with the answer of an exchange, and of a second one; see `Communicator.together`."""

    def __init__(
        self, play: Play, timeout: float = 5.0, error: BaseException | None = None, exchanges: int = 1
    ) -> None:
        self.computed = threading.Event()
        deadline = Deadline(timeout)

        def work() -> Any:
            for _ in range(exchanges):
                note = play.hub.consult("auc", notes_of, "of rank 0", timeout=deadline.left).note
            self.computed.set()
            if error is not None:
                raise error
            return note

        self.found = play.threads.submit(lambda: play.hub.together("auc", lambda deadline, _: work(), deadline))


def test_rank_0_computes_before_a_worker_confirms_and_returns_after_it(play: Play) -> None:
    formulas = Formulas(play)
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    assert formulas.computed.wait(10)
    time.sleep(0.1)
    assert not formulas.found.done()
    play.say(ACK, 1, b"")
    assert formulas.found.result(10) == ["of rank 0", "of rank 1"]


@pytest.mark.parametrize("error", [None, InvalidInputError("of the formulas")])
def test_what_rank_0_has_computed_is_taken_back_if_nobody_confirms(play: Play, error: BaseException | None) -> None:
    formulas = Formulas(play, 1.0, error)
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    with pytest.raises(DeadlineError, match="rank 1 did not confirm the result"):
        formulas.found.result(10)
    assert formulas.computed.is_set() and play.hear().kind == ERROR


@pytest.mark.parametrize("on_both", [True, False])
def test_an_error_of_the_formulas_is_raised_once_a_worker_has_confirmed(play: Play, on_both: bool) -> None:
    formulas = Formulas(play, error=InvalidInputError("of the formulas"))
    play.say(ARRIVAL, 1)
    made = play.hear().made
    play.say(ACK, 1, b"")
    with pytest.raises(InvalidInputError, match="of the formulas"):
        formulas.found.result(10)
    told = play.hear()  # if the worker made another exchange in this call
    assert (told.kind, told.place) == (ERROR, (1, 2)) and b"of the formulas" in told.header
    found = play.begin()
    play.say(ARRIVAL, 2, made=made - on_both)
    if on_both:
        assert play.hear().kind == ANSWER
        play.say(ACK, 2, b"")
        found.result(10)
    else:
        with pytest.raises(AgreementError, match="with a result on rank 1, and with an error on rank 0"):
            found.result(10)


def test_the_next_exchange_begins_once_the_one_before_is_confirmed(play: Play) -> None:
    formulas = Formulas(play, exchanges=2)
    play.say(ARRIVAL, 1)
    play.say(ARRIVAL, 1, made=play.hear().made, step=2)  # it confirms
    assert play.hear().kind == ANSWER
    play.say(ACK, 1, b"", step=2)
    assert formulas.found.result(10) == ["of rank 0", "of rank 1"]


def test_a_late_confirmation_of_the_exchange_before_does_not_confirm_the_next_one(three: list[Play]) -> None:
    first, second = three

    def two(deadline: Deadline, trouble: Any) -> None:
        for _ in range(2):
            first.hub.consult("auc", notes_of, "of rank 0", timeout=deadline.left)

    found = first.threads.submit(lambda: first.hub.together("auc", two, 1.0))
    made = 0
    for step in (1, 2):
        for each in three:
            each.say(ARRIVAL, 1, step=step, made=made)
        made, _ = [each.hear().made for each in three]
        if step == 1:
            first.say(ACK, 1, b"")
    second.say(ACK, 1, b"")
    with pytest.raises(DeadlineError, match="ranks 1, 2 did not confirm the result within 1 s"):
        found.result(10)


@pytest.mark.parametrize("confirmed", [True, False])
def test_an_interruption_of_the_formulas_waits_for_no_worker(play: Play, confirmed: bool) -> None:
    goes_on = threading.Event()
    deadline = Deadline(20)

    def work() -> None:
        play.hub.consult("auc", notes_of, "of rank 0", timeout=deadline.left)
        goes_on.wait(10)
        raise KeyboardInterrupt

    start = time.monotonic()
    found = play.threads.submit(lambda: play.hub.together("auc", lambda deadline, _: work(), deadline))
    play.say(ARRIVAL, 1)
    made = play.hear().made
    if confirmed:
        play.say(ACK, 1, b"")
        time.sleep(0.1)
    goes_on.set()
    with pytest.raises(KeyboardInterrupt):
        found.result(15)
    told = play.hear()
    assert told.place == (1, 1 + confirmed)
    assert b"rank 0 was interrupted (KeyboardInterrupt) at exchange 1 (auc)." in told.header
    again = play.begin(timeout=20)
    play.say(ARRIVAL, 2, made=made)
    with pytest.raises(AgreementError, match="with a result on rank 1, and with an error on rank 0"):
        again.result(15)
    assert time.monotonic() - start < SLACK


def test_a_worker_that_gives_up_before_the_verdict_makes_it_an_error(play: Play) -> None:
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


def test_workers_that_parted_get_the_error_at_the_next_exchanges_until_all_have_it(play: Play) -> None:
    play.meet()
    parted = r"diverged at exchange 1 \(auc\) on channel 'test': .* on rank 0, and with an error on rank 1"
    for call in (2, 3):  # the worker has not received the first notice
        found = play.begin()
        play.say(ARRIVAL, call, made=0)
        with pytest.raises(AgreementError, match=parted):
            found.result(10)
    told = play.hear(), play.hear()
    found = play.begin()
    play.say(ARRIVAL, 4, made=told[1].made)
    assert play.hear().kind == ANSWER
    play.say(ACK, 4, b"")
    found.result(10)


def test_who_has_not_heard_who_parted_hears_what_the_others_heard(three: list[Play]) -> None:
    found = three[0].begin()
    for each in three:
        each.say(ARRIVAL, 1)
    assert [each.hear().kind for each in three] == [ANSWER] * 2
    three[1].say(ACK, 1, b"")
    found.result(10)
    # rank 1 has an error of the first exchange; then rank 2 does not receive who has parted
    for call, made in ((2, (0, 1)), (3, (2, 1))):
        found = three[0].begin()
        for each, last in zip(three, made):
            each.say(ARRIVAL, call, made=last)
        with pytest.raises(AgreementError, match="with a result on ranks 0, 2, and with an error on rank 1"):
            found.result(10)


def test_a_worker_that_connects_again_has_not_parted_from_the_others(play: Play) -> None:
    play.meet()
    play.say(CLOSED, 0, channel=0)
    assert play.stream is not None
    play.stream.close()
    play.stream = None
    found = play.begin()
    play.say(ARRIVAL, 2, made=0)
    assert play.hear().kind == ANSWER
    play.say(ACK, 2, b"")
    assert found.result(10) == ["of rank 0", "of rank 1"]


def test_a_worker_that_goes_on_in_another_channel_confirms_the_answer(play: Play) -> None:
    found = play.begin()
    play.say(ARRIVAL, 1)
    play.say(ARRIVAL, 1, channel=5, made=play.hear().made)
    found.result(10)


def test_workers_that_parted_agree_again_after_the_error(play: Play) -> None:
    play.meet()
    found = play.begin()
    play.say(ARRIVAL, 2, made=0)
    told = play.hear()
    assert (told.kind, told.made) == (ERROR, 2)  # from now on this is the worker's last one, too
    with pytest.raises(AgreementError):
        found.result(10)
    found = play.begin()
    play.say(ARRIVAL, 3, made=told.made)
    assert play.hear().kind == ANSWER
    play.say(ACK, 3, b"")
    assert found.result(10) == ["of rank 0", "of rank 1"]


def test_the_first_deadline_of_all_workers_ends_the_wait_of_rank_0(three: list[Play]) -> None:
    start = time.monotonic()
    found = three[0].begin(timeout=20)
    three[0].say(ARRIVAL, 1, remaining=0.4, timeout=0.4)
    with pytest.raises(DeadlineError, match=r"rank 2 did not connect within 0\.4 s"):
        found.result(15)
    assert time.monotonic() - start < 0.4 + SLACK


def test_an_answer_that_would_be_too_late_for_a_worker_is_an_error_on_all(play: Play) -> None:
    def decide(letters: Sequence[Letter]) -> Letter:
        time.sleep(0.6)
        return Letter("a number")

    found = play.begin(decide, timeout=20)
    play.say(ARRIVAL, 1, remaining=0.4, timeout=0.4)
    assert play.hear().kind == ERROR
    with pytest.raises(DeadlineError, match=r"rank 0 needed more than the 0\.4 s that it has at exchange 1"):
        found.result(15)


def test_a_worker_lost_after_the_answer_breaks_the_next_exchange_and_not_this_one(three: list[Play]) -> None:
    found = three[0].begin(timeout=20)
    for each in three:
        each.say(ARRIVAL, 1)
    for each in three:
        assert each.hear().kind == ANSWER
    assert three[1].stream is not None
    three[1].stream.close()
    time.sleep(0.2)  # rank 0 sees it
    three[0].say(ACK, 1, b"")
    assert found.result(10) == ["of rank 0", "of rank 1", "of rank 1"]
    told = three[0].hear()
    assert (told.kind, told.place) == (ERROR, (1, 2))
    text = "ended with a result on ranks 0, 1; rank 2 may have an error instead"
    assert b"rank 2 has gone away" in told.header and text in told.header.decode()
    with pytest.raises(CommunicatorError, match=text):
        three[0].begin().result(10)
    host, port = three[0].worker.endpoint.split(":")
    with pytest.raises(ConnectionRefusedError):  # there is nothing to come for
        socket.create_connection((host, int(port)), 5)


def test_rank_0_does_not_wait_later_for_a_worker_lost_during_the_report_of_an_error(three: list[Play]) -> None:
    found = three[0].begin(timeout=20)
    three[0].say(GAVE_UP, 1, b"rank 1 has had enough")
    assert three[0].hear().kind == ERROR
    assert three[0].stream is not None
    three[0].stream.close()  # while rank 0 waits for rank 2, which has not connected, to tell it
    with pytest.raises(DeadlineError):
        found.result(10)
    start = time.monotonic()
    with pytest.raises(CommunicatorError, match="rank 1 has gone away"):
        three[0].begin(timeout=20).result(15)
    assert time.monotonic() - start < SLACK


def test_a_worker_that_connects_late_learns_which_exchanges_rank_0_has_given_up(three: list[Play]) -> None:
    found = three[0].begin(timeout=20)
    three[0].say(GAVE_UP, 1, b"rank 1 has had enough")
    with pytest.raises(DeadlineError):
        found.result(10)
    found = three[0].begin(timeout=20)
    three[1].say(ARRIVAL, 2)
    told = three[1].hear()
    assert (told.kind, told.call) == (ERROR, 1) and b"rank 1 has had enough" in told.header
    three[0].say(ARRIVAL, 2)
    assert [three[0].hear().call for _ in range(2)] == [1, 2]
    three[0].say(ACK, 2, b"")
    assert len(found.result(10)) == 3


def test_a_worker_that_connects_at_once_gets_an_error_before_rank_0_goes_on(three: list[Play]) -> None:
    """Rank 0's process may end after the error: it lets those in who are about to connect."""
    found = three[0].begin(timeout=20)
    three[0].say(GAVE_UP, 1, b"rank 1 has had enough")
    assert three[0].hear().kind == ERROR
    three[1].say(ARRIVAL, 1)
    assert b"rank 1 has had enough" in three[1].hear().header
    with pytest.raises(DeadlineError):
        found.result(10)


def test_where_rank_0_comes_late_the_worker_that_has_waited_for_it_says_so(three: list[Play]) -> None:
    """And not rank 0 that another one is missing: that one would have been in time."""
    found = three[0].begin()
    for each in three:
        each.say(ARRIVAL, 1)
    for each in three:
        each.hear()
    three[0].say(ACK, 1, b"")
    found.result(10)
    three[0].say(ARRIVAL, 2, made=1)
    three[0].say(GAVE_UP, 2, b"rank 0 did not arrive")
    assert three[0].stream is not None
    three[0].stream.close()  # its process has ended
    time.sleep(0.2)
    with pytest.raises(DeadlineError, match=r"^rank 0 did not arrive$"):
        three[0].begin(timeout=20).result(15)


def test_a_worker_that_never_came_and_is_ahead_is_named(play: Play) -> None:
    found = play.begin(timeout=20)
    play.say(ARRIVAL, 2)
    with pytest.raises(DeadlineError, match="rank 1 gave up before rank 0 arrived, and is already at a later call"):
        found.result(10)
    found = play.begin()  # its frame was kept
    assert [play.hear().kind for _ in range(2)] == [ERROR, ANSWER]
    play.say(ACK, 2, b"")
    assert found.result(10) == ["of rank 0", "of rank 1"]


@pytest.mark.parametrize("made", [1, 0])
def test_the_next_frame_of_a_worker_says_whether_it_has_the_answer(play: Play, made: int) -> None:
    found = play.begin(timeout=1.5)
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    play.say(ARRIVAL, 2, made=made)
    if made:
        assert found.result(10) == ["of rank 0", "of rank 1"]
    else:
        with pytest.raises(DeadlineError, match="did not confirm"):
            found.result(10)


def test_rank_0_does_not_wait_for_the_confirmation_of_an_interrupted_worker(play: Play) -> None:
    start = time.monotonic()
    found = play.begin(timeout=20)
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    play.say(LEFT, 1, b"rank 1 was interrupted (KeyboardInterrupt) at exchange 1.")
    with pytest.raises(CommunicatorError, match=r"^rank 1 was interrupted \(KeyboardInterrupt\) at exchange 1\.$"):
        found.result(15)
    assert time.monotonic() - start < SLACK


@pytest.mark.parametrize("when", ["before", "while"])
def test_rank_0_does_not_wait_for_a_worker_that_has_closed_the_channel(play: Play, when: str) -> None:
    start = time.monotonic()
    if when == "before":
        play.meet()
        play.say(CLOSED, 1, b"")
    found = play.begin(timeout=20)
    if when == "while":
        play.say(CLOSED, 1, b"")
    with pytest.raises(CommunicatorError, match="rank 1 has gone away: it closed the channel"):
        found.result(15)
    assert time.monotonic() - start < SLACK


def test_a_worker_that_has_closed_all_it_had_comes_in_again(play: Play) -> None:
    found = play.begin(timeout=20)
    play.say(ARRIVAL, 7, channel=5)  # of a channel that it closes with the others
    play.say(CLOSED, 0, b"", channel=0)
    assert play.stream is not None
    play.stream.close()
    play.stream = None
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    play.say(ACK, 1, b"")
    assert found.result(10) == ["of rank 0", "of rank 1"]
    assert not any(play.hub._star._peers.early.values())  # type: ignore[attr-defined]


def test_a_second_worker_of_a_rank_is_an_error_on_all(play: Play) -> None:
    found = play.begin(timeout=20)
    play.say(ACK, 0, b"")  # the first one has been heard
    time.sleep(0.1)
    with pytest.raises(CommunicatorError, match="two processes say that they are rank 1"):
        connect(play.worker, play.hub._star.secret.key, time.monotonic() + 5)
    assert b"two processes say that they are rank 1" in play.hear().header
    with pytest.raises(CommunicatorError, match="two processes say that they are rank 1"):
        found.result(10)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"rank": 0}, "two processes say that they are rank 0"),
        ({"rank": 2}, "a worker says that it is rank 2 of 2, but rank 0 has different values"),
        ({"world_size": 3}, "a worker says that it is rank 1 of 3, but rank 0 has different values"),
    ],
)
def test_a_place_that_there_is_not_is_an_error_on_both_sides(play: Play, changed: dict[str, int], told: str) -> None:
    found = play.begin(timeout=20)
    with pytest.raises(CommunicatorError, match=told):
        connect(replace(play.worker, **changed), play.hub._star.secret.key, time.monotonic() + 5)
    with pytest.raises(CommunicatorError, match=told):
        found.result(10)


def test_a_worker_of_another_run_is_sent_away_and_named_where_its_rank_is_missing(play: Play) -> None:
    found = play.begin(timeout=1.5)
    other = replace(play.worker, run="of yesterday")
    with pytest.raises((CommunicatorError, TimeoutError, OtherRun), match="of another run"):
        connect(other, play.hub._star.secret.key, time.monotonic() + 1)
    with pytest.raises(DeadlineError, match=r"rank 1 did not connect .* Rank 0 refused rank 1 of another run"):
        found.result(10)


@pytest.mark.parametrize("kind", [LEFT, GAVE_UP])
def test_an_early_error_for_the_next_exchange_ends_it_at_once(play: Play, kind: int) -> None:
    start = time.monotonic()
    found = play.begin()
    play.say(ARRIVAL, 1)
    play.hear()
    play.say(kind, 2, b"rank 1 has had enough")
    play.say(ACK if kind == LEFT else ARRIVAL, 1 if kind == LEFT else 2, b"", made=1)
    found.result(10)
    with pytest.raises(CommunicatorError, match="rank 1 has had enough"):
        play.begin(timeout=20).result(15)
    assert time.monotonic() - start < SLACK
    assert not any(play.hub._star._peers.early.values())  # type: ignore[attr-defined]


def test_an_exchange_that_rank_0_never_began_is_reported_and_counted(play: Play) -> None:
    play.meet()
    play.hub.miss("auc", KeyboardInterrupt())
    told = play.hear()
    assert told.call == 2 and b"rank 0 was interrupted (KeyboardInterrupt) at exchange 2 (auc)." in told.header
    found = play.begin()
    play.say(ARRIVAL, 3, made=1)
    assert play.hear().kind == ANSWER
    play.say(ACK, 3, b"")
    assert found.result(10) == ["of rank 0", "of rank 1"]


def test_of_many_workers_the_first_eight_are_asked_whether_they_have_the_answer() -> None:
    first = Play(11)
    crew = [first, *[Another(first, rank) for rank in range(2, 11)]]
    found = first.begin(timeout=2.0)
    for each in crew:
        each.say(ARRIVAL, 1)
    with pytest.raises(DeadlineError, match="ranks 1 to 8 did not confirm the result"):
        found.result(10)
    first.threads.shutdown()
    first.hub.close()
    for each in crew:
        assert each.stream is not None
        each.stream.close()


def test_rank_0_waits_until_a_possible_rival_is_certain(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    star, looks = play.hub._star, iter([Finding("two of them", False)] * 3)
    star.job = replace(star.job, claimed=True)
    monkeypatch.setattr(star, "rival", lambda last: next(looks, None))
    monkeypatch.setattr(star, "check_place", lambda: None)
    monkeypatch.setattr(star, "noted", lambda: "")
    start = time.monotonic()
    found = play.begin(timeout=20)
    play.say(ARRIVAL, 1)
    star._peers.door.unproven[1] = start - 90, start, 99  # a stranger in its name, who has come since
    assert play.hear().kind == ANSWER
    play.say(ACK, 1, b"")
    assert found.result(15) == ["of rank 0", "of rank 1"] and next(looks, None) is None
    assert time.monotonic() - start < SLACK


@pytest.mark.parametrize("who", ["a rival", "a note"])
def test_two_runs_that_are_found_out_are_an_error_at_once(
    play: Play, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    star = play.hub._star
    star.job = replace(star.job, claimed=True)
    monkeypatch.setattr(star, "rival", lambda last: Finding("two of them", True) if who == "a rival" else None)
    monkeypatch.setattr(star, "check_place", lambda: None)
    begun = time.monotonic()
    monkeypatch.setattr(star, "noted", lambda: "two of them" * (who == "a note" and time.monotonic() > begun + 0.3))
    found = play.begin(timeout=20)
    if who == "a rival":
        play.say(ARRIVAL, 1)
    with pytest.raises(CommunicatorError, match="two of them"):
        found.result(15)
    monkeypatch.setattr(star, "rival", lambda last: None)
    monkeypatch.setattr(star, "noted", lambda: "")
    with pytest.raises(CommunicatorError, match="two of them"):  # no worker knows which of them is the right one
        play.begin(timeout=20).result(15)
    assert time.monotonic() - begun < SLACK


def test_a_worker_that_gives_up_while_rank_0_is_not_sure_of_a_rival_says_why(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    star = play.hub._star
    star.job = replace(star.job, claimed=True)
    monkeypatch.setattr(star, "rival", lambda last: Finding("two of them", False))
    monkeypatch.setattr(star, "check_place", lambda: None)
    monkeypatch.setattr(star, "noted", lambda: "")
    found = play.begin(timeout=20)
    play.say(ARRIVAL, 1)
    time.sleep(0.2)  # all have arrived
    play.say(GAVE_UP, 1, b"rank 1 has waited long enough")
    with pytest.raises(DeadlineError, match=r"^rank 1 has waited long enough$"):
        found.result(10)


@pytest.mark.parametrize("claimed", [True, False])
def test_a_second_worker_of_a_rank_is_noted_for_later_workers(
    play: Play, monkeypatch: pytest.MonkeyPatch, claimed: bool
) -> None:
    """A place that the program gave to a communicator is told apart from the environment's."""
    star, notes = play.hub._star, []
    star.job = star._peers._job = replace(star.job, claimed=claimed)
    monkeypatch.setattr(star, "check_place", lambda: None)
    monkeypatch.setattr(star, "noted", lambda: "")
    monkeypatch.setattr(peers, "leave_note", lambda claim, text: notes.append(claim))
    for name, text in {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "a:1,b:1"}.items():
        monkeypatch.setenv(name, text)
    found = play.begin(timeout=20)
    with pytest.raises(CommunicatorError, match="two processes"):
        connect(replace(play.worker, rank=0), star.secret.key, time.monotonic() + 5)
    with pytest.raises(CommunicatorError, match="two processes"):
        found.result(15)
    [claim] = notes
    assert claim.given != claimed


def test_a_worker_that_loses_its_connection_before_its_first_message_reconnects(play: Play) -> None:
    found = play.begin(timeout=20)
    for _ in range(2):
        connect(play.worker, play.hub._star.secret.key, time.monotonic() + 5)[0].close()
        time.sleep(0.1)
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    play.say(ACK, 1, b"")
    assert found.result(10) == ["of rank 0", "of rank 1"]


def test_a_frame_that_an_interruption_kept_from_being_seen_to_counts_in_the_next_call(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    star: Any = play.hub._star
    see_to, raised = star._sort, []

    def interrupted(peer: Any, frame: Frame, gave_up: list[str]) -> None:
        if frame.call == 2 and not raised:
            raised.append(frame)
            raise KeyboardInterrupt
        see_to(peer, frame, gave_up)

    monkeypatch.setattr(star, "_sort", interrupted)
    found = play.begin(timeout=20)
    play.say(ARRIVAL, 1)
    assert play.hear().kind == ANSWER
    play.say(ARRIVAL, 2, made=0)
    with pytest.raises(KeyboardInterrupt):
        found.result(10)
    start = time.monotonic()
    found = play.begin(timeout=20)
    assert [play.hear().kind for _ in range(2)] == [ERROR, ANSWER]
    play.say(ACK, 2, b"")
    assert found.result(10) == ["of rank 0", "of rank 1"]
    assert time.monotonic() - start < SLACK


def test_a_worker_that_keeps_sending_delays_rank_0_no_longer_than_its_deadline(play: Play) -> None:
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
    early = play.hub._star._peers.early  # type: ignore[attr-defined]
    assert len(early) <= peers._EARLY_CHANNELS
    assert max(len(frames) for ranks in early.values() for frames in ranks.values()) <= peers._EARLY_KEPT


@pytest.mark.parametrize("kind", [TROUBLE, LEFT, GAVE_UP])
def test_the_text_of_a_worker_is_escaped_and_cut(play: Play, kind: int) -> None:
    text = "one\ntwo\r\x1b]0;owned\x07\u202e" + "x" * 2_000_000
    found = play.begin()
    play.say(kind, 1, json.dumps(["AgreementError", text]).encode() if kind == TROUBLE else text.encode())
    with pytest.raises(CommunicatorError) as caught:
        found.result(10)
    said = str(caught.value)
    assert said.isprintable() and len(said) < 11_000
    assert "one\\ntwo\\r\\x1b]0;owned\\x07\\u202e" in said and re.search(r"\(cut: \d{7} characters\)$", said)


def test_the_text_of_an_error_of_the_merge_is_escaped_and_cut(play: Play) -> None:
    """It may quote what a worker has sent."""

    def fail(_: Sequence[Letter]) -> Letter:
        raise ValueError("one\x1b]0;owned\x07" + "x" * 2_000_000)

    found = play.begin(fail)
    play.say(ARRIVAL, 1)
    with pytest.raises(CommunicatorError, match=r"^rank 0 failed to combine: ValueError: one\\x1b\]0;owned") as caught:
        found.result(10)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 11_000


def test_an_error_without_a_listener_costs_nothing(play: Play) -> None:
    """No worker can ever receive it."""
    host, port = play.worker.endpoint.split(":")
    with socket.create_server((host, int(port))):
        for seconds in (3.9, 2.5, 2.5):  # it greets the listener once, for 3 s
            start = time.monotonic()
            with pytest.raises(NoChannelError, match="rank 0 cannot listen"):
                play.begin(timeout=20).result(10)
            assert time.monotonic() - start < seconds
