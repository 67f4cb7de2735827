"""Who comes to rank 0, and whom it sends away."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import socket
import threading
import time
from dataclasses import replace
from typing import Any, Iterator

import pytest

from fleetmetrics.comm import addresses, door, handshake
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import Key, Poll
from fleetmetrics.errors import NoChannelError
from tests.distributed.cluster import SLACK, free_ports

pytestmark = pytest.mark.numpy_only


KEY = Key(b"k")


def greeted(job: Job, where: tuple[str, int], key: Key = KEY) -> handshake.Found:
    return handshake.greet(job, key, bytes(16), handshake.NONE, True, where, 5.0)


class Entry:
    """Rank 0's door, and those who come to it."""

    def __init__(self, size: int = 3, **settings: Any) -> None:
        self.job = Job(0, size, endpoint=f"127.0.0.1:{free_ports(1)[0]}", **settings)
        self.poll = Poll()
        self.door = door.Door(self.job, KEY, self.poll)
        self.door.open(calls=True)
        self.clients: list[socket.socket] = []
        self.errors: list[Exception] = []

    def knock(self, said: bytes = b"") -> socket.socket:
        """Connect, and say something."""
        host, port = self.job.endpoint.split(":")
        self.clients.append(socket.create_connection((host, int(port)), 10))
        self.clients[-1].sendall(said)
        return self.clients[-1]

    def turns(self, seconds: float = 0.1) -> list[handshake.Guest]:
        """Do what there is to do; return who has proved itself."""
        found, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            self.door.look(time.monotonic())
            for descriptor, _ in self.poll.wait(time.monotonic() + 0.01):
                guest = self.door.handle(descriptor)
                if guest is not None:
                    found.append(guest)
                    self.poll.unregister(guest.sock)
        return found

    def meet(self, key: bytes = b"k", **changed: Any) -> list[handshake.Guest]:
        """Have a worker connect once."""

        def come() -> None:
            job = replace(self.job, **{"rank": 1, **changed})
            try:
                greeted(job, self.place, Key(key)).connection.close()
            except Exception as error:
                self.errors.append(error)

        thread = threading.Thread(target=come)
        thread.start()
        found = self.turns(0.3)
        for guest in found:
            self.door.drop(guest)
        thread.join()
        return found

    @property
    def place(self) -> tuple[str, int]:
        host, port = self.job.endpoint.split(":")
        return host, int(port)


@pytest.fixture
def entry() -> Iterator[Entry]:
    made = Entry()
    yield made
    made.door.close()
    made.poll.close()
    for each in made.clients:
        each.close()


def is_sent_away(client: socket.socket) -> bool:
    """Whether a client has received no more than a greeting, and then the end."""
    client.settimeout(0.2)
    said = b""
    with contextlib.suppress(socket.timeout):
        while True:
            data = client.recv(1000)
            if not data:
                assert len(said) in (0, handshake._GREETING.size)  # 0: it was read before
                return True
            said += data
    return False


def test_a_guest_with_a_wrong_first_byte_is_sent_away_at_once(entry: Entry) -> None:
    silent, web, almost = entry.knock(), entry.knock(b"G"), entry.knock(handshake._MAGIC[:-1])
    entry.turns()
    assert [is_sent_away(each) for each in (silent, web, almost)] == [False, True, False]
    assert len(entry.door.guests) == 2


def test_a_silent_guest_is_sent_away_after_its_time_and_later_guests_are_not(entry: Entry) -> None:
    clients = [entry.knock() for _ in range(3)]
    entry.turns()
    first, second, third = entry.door.guests.values()
    first.since, second.since = (each.since - handshake.GUEST_SECONDS for each in (first, second))
    third.since -= handshake.GUEST_SECONDS - 5
    entry.door.look(time.monotonic())
    assert [is_sent_away(each) for each in clients] == [True, True, False]


def test_of_too_many_guests_the_oldest_is_sent_away_for_another(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_GUESTS", 2)
    clients = []
    for _ in range(7):
        clients.append(entry.knock())
        entry.turns(0.05)
    assert [is_sent_away(each) for each in clients] == [True] * 2 + [False] * 5  # as many as workers, and two


def test_only_workers_of_this_run_that_cannot_prove_themselves_are_counted(entry: Entry) -> None:
    assert entry.meet(b"another secret", rank=0) == entry.meet(b"another secret", rank=3) == []
    assert entry.meet(b"another secret", run="of yesterday") == [] and entry.door._unproven == {}
    for number in (1, 2):
        assert entry.meet(b"another secret") == []
        assert {rank: times for rank, (_, _, times) in entry.door._unproven.items()} == {1: number}
        assert isinstance(entry.errors[-1], handshake.Unproven)  # the error comes from a process that knows this run
    first, last, _ = entry.door._unproven[1]
    assert 0.1 < last - first < SLACK
    (guest,) = entry.meet(rank=2)
    assert (guest.rank, guest.world_size, guest.run) == (2, 3, entry.job.name)


def test_a_worker_that_proves_itself_late_is_no_longer_counted(entry: Entry) -> None:
    entry.meet(b"another secret")
    thread = threading.Thread(target=lambda: greeted(replace(entry.job, rank=1), entry.place))
    thread.start()
    (guest,) = entry.turns(0.3)
    connection = entry.door.admit(guest, bytes(16))
    thread.join()
    assert entry.door._unproven == entry.door.guests == {}
    connection.close()


def test_a_rank_counts_as_refused_once_it_failed_often_enough_for_long_enough(entry: Entry) -> None:
    entry.door._unproven = {1: (0.0, 4.0, 5), 2: (0.0, 4.0, 4), 3: (0.0, 2.9, 9), 4: (0.0, 90.0, 9)}
    assert entry.door.ranks_unproven() == {1, 4}


def test_two_calls_of_a_worker_with_another_secret_are_enough_for_two_of_rank_0(entry: Entry) -> None:
    entry.door._unproven = {1: (0.0, 6.6, 10)}
    for _ in range(2):
        assert entry.door.ranks_unproven() == {1}
        entry.door.forgive([1])
    assert not entry.door.ranks_unproven()


def test_without_a_descriptor_rank_0_waits_and_then_accepts_again(entry: Entry) -> None:
    def without_and_with() -> None:
        client = entry.knock()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        next_one = os.dup(0)
        os.close(next_one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, hard))
        entry.turns(0.3)
        assert entry.door.deaf_until and not entry.door.guests
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        entry.turns(0.2)
        assert len(entry.door.guests) == 1 and not entry.door.deaf_until and not is_sent_away(client)

    process = multiprocessing.get_context("fork").Process(target=without_and_with)  # without other threads
    process.start()
    process.join()
    assert process.exitcode == 0


def test_a_guest_with_another_version_is_named_later(entry: Entry) -> None:
    entry.knock(b"fleetmetrics 3\r\n")
    entry.turns()
    assert "speaks version 3" in entry.door.other_versions and not entry.door.guests


def test_what_rank_0_says_of_another_run_is_escaped_and_cut(entry: Entry) -> None:
    found: list[str] = []

    def come() -> None:
        try:
            greeted(replace(entry.job, rank=1, run="b"), entry.place)
        except handshake.OtherRun as error:
            found.append(str(error))

    thread = threading.Thread(target=come)
    thread.start()
    (guest,) = entry.turns(0.3)
    entry.door.refuse(guest, "\n\u202e" + "o" * 5000, handshake.OTHER_RUN)
    thread.join()
    assert found and found[0].startswith(r"\n\u202eooo") and found[0].isprintable()
    assert found[0].count("ooo") < handshake._TEXT_BYTES / 3 and not entry.door.guests


def test_rank_0_names_the_run_that_listens_in_its_place() -> None:
    entry = Entry(run="one")
    found: list[str] = []

    def come() -> None:
        try:
            addresses.listen(replace(entry.job, run="two"), KEY)
        except NoChannelError as error:
            found.append(str(error))

    thread = threading.Thread(target=come)
    thread.start()
    for guest in entry.turns(0.3):
        entry.door.refuse(guest, entry.job.title, handshake.OTHER_RUN)
    thread.join()
    entry.door.close()
    entry.poll.close()
    assert found and f"rank 0 of another run ({entry.job.title}) listens" in found[0]
