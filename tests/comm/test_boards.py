"""Boards: what a worker in a group says of itself to others that wait, and what it takes from them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from fleetmetrics.comm import boards
from fleetmetrics.comm.boards import Board, Notice, Search
from fleetmetrics.comm.frames import ARRIVAL, Frame, Poll
from fleetmetrics.comm.handshake import greet
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.secret import secret_of
from fleetmetrics.errors import AgreementError
from tests.distributed.cluster import free_ports

pytestmark = pytest.mark.numpy_only

MINE = Notice(0, (0, 1), "exchange 1 (n) in the group of ranks 0, 1", 7, 1, True)
THEIRS = Notice(1, (0, 1, 2), "exchange 1 (n) in the group of ranks 0, 1, 2", 7, 1, True)


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> Job:
    for name in ("_STEP_SECONDS", "_LOOK_SECONDS"):  # on a busy machine, too
        monkeypatch.setattr(boards, name, 5.0)
    port = free_ports(1)[0]
    return Job(0, 4, endpoint=f"127.0.0.1:{port}", secret=f"of the board at {port}")


def search_of(job: Job, poll: Any = None, called: int = 0, mine: Notice = MINE) -> Search:
    search = Search(job, secret_of(job).key, mine, lambda _, channel: called, poll)
    search.next = 0.0  # look at once
    return search


def meet(whole: Job, theirs: Notice, missing: Any = (1,), called: int = 0) -> list[str]:
    """What rank 0, which has a board, and rank 1 learn about each other; "" for nothing."""
    poll, job = Poll(many=True), whole.among([0, 1])
    host = search_of(job, poll, called)
    host.missing = missing
    host.look(time.monotonic() + 5)  # listens
    texts = ["", ""]

    def ask() -> None:
        guest = search_of(replace(whole, rank=1).among([0, 1, 2]), mine=theirs)
        try:
            guest.look(time.monotonic() + 5)
            texts[1] = guest.words
        except AgreementError as error:
            texts[1] = str(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        while thread.is_alive():
            for descriptor, _ in poll.wait(time.monotonic() + 0.05):
                host.hear(descriptor)
        texts[0] = host.words
    except AgreementError as error:
        texts[0] = str(error)
    thread.join()
    host.close()
    poll.close()
    return texts


def test_two_that_wait_for_each_other_raise_the_same(whole: Job) -> None:
    one, two = meet(whole, THEIRS)
    assert one == two
    assert one.startswith(f"the workers disagree: {MINE.label} on rank 0, {THEIRS.label} on rank 1, and each waits for")


@pytest.mark.parametrize(
    ("theirs", "missing", "called"),
    [
        (THEIRS._replace(alone=False), (1,), 0),  # another thread of it may come
        (THEIRS._replace(ranks=(1, 2)), (1,), 0),  # it waits for others
        (THEIRS, (), 0),  # it has come to this group
        (THEIRS, (1,), 1),  # this worker was in that exchange, whose answer is on the way
    ],
)
def test_a_worker_that_may_still_go_on_only_gets_a_notice(
    whole: Job, theirs: Notice, missing: Any, called: int
) -> None:
    one, two = meet(whole, theirs, missing, called)
    assert f" Meanwhile rank 1 waits at {THEIRS.label}: name the same ranks on every worker" in one
    assert f" Meanwhile rank 0 waits at {MINE.label}: name the same ranks on every worker" in two


def test_those_of_one_group_say_nothing_of_each_other(whole: Job) -> None:
    assert meet(whole, THEIRS._replace(ranks=(0, 1))) == ["", ""]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{}",
        b"[]",
        b"[1, 2]",
        b'["a", [0], "b", 1, 1, 1, ""]',
        b"[Infinity, [0], 1, 1, 1, 1, 1]",
        b"[" * 100_000,
        b"\xff",
    ],
    ids=range(8),
)
def test_an_invalid_frame_of_a_guest_is_ignored(whole: Job, said: bytes) -> None:
    poll, job = Poll(many=True), whole.among([0, 1])
    key = secret_of(job).key
    board = Board(job, key, poll, MINE, lambda _: pytest.fail("it was read"))
    board.open(time.monotonic() + 5)
    place = replace(whole, rank=1).among([0, 1]).board_of(0)
    knocked = threading.Event()

    def knock() -> None:
        stream, _ = greet(place, key, *place.candidates()[0], 5.0, time.monotonic() + 5)
        stream.send(Frame(ARRIVAL, 0, said))
        while stream.sending:
            stream.flush()
        knocked.wait(5)
        stream.close()

    thread = threading.Thread(target=knock)
    thread.start()
    end, came = time.monotonic() + 10, False
    while (not came or board._streams) and time.monotonic() < end:
        for descriptor, _ in poll.wait(time.monotonic() + 0.05):
            assert board.hear(descriptor) is None
        came |= bool(board._streams)
    knocked.set()
    thread.join()
    assert came and not board._streams
    board.close()
    poll.close()


def test_the_text_of_a_worker_is_escaped(whole: Job) -> None:
    one, _ = meet(whole, THEIRS._replace(label="exchange \x1b[31m 1", alone=False))
    assert "waits at exchange \\x1b[31m 1: name" in one
