"""How a worker finds rank 0, and what they agree on."""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
import threading
import time
from dataclasses import replace
from typing import Any, Iterator

import pytest

from fleetmetrics.comm import SocketCommunicator, handshake
from fleetmetrics.comm.frames import Key, Poll
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AuthenticationError, CommunicatorError, DeadlineError, InvalidInputError, NoChannelError
from tests.distributed.cluster import AT_ONCE, SLACK, free_ports

pytestmark = pytest.mark.numpy_only


def test_a_machine_without_ipv6_is_an_error_that_names_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for such a machine: its system makes no socket of that family."""

    def refused(*_: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(handshake.socket, "socket", refused)
    with pytest.raises(NoChannelError, match=r"cannot listen .* ::1:8500 \(Address family not supported by protocol\)"):
        handshake.listen(Job(0, 2, endpoint="[::1]:8500"))


def test_a_refused_worker_does_not_wait_for_a_rank_0_that_has_ended_since() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        job = Job(1, 2, endpoint=f"127.0.0.1:{listener.getsockname()[1]}")

        def refuse() -> None:
            for _ in range(handshake._UNPROVEN):
                sock, _ = listener.accept()
                with sock:
                    guest = handshake.Guest(sock, b"of another secret", job.mark)
                    while not guest.read():
                        pass
                    guest.answer(handshake.UNPROVEN)
            listener.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        start = time.monotonic()
        with pytest.raises(AuthenticationError, match="rank 1 could not prove"):
            handshake.connect(job, b"of this one", start + 60)
        assert time.monotonic() - start < AT_ONCE
        thread.join()


def test_rank_0_listens_on_its_own_address_from_the_first_call_on() -> None:
    endpoint = "127.0.0.1", free_ports(1)[0]
    comm = SocketCommunicator(rank=0, world_size=2, endpoint=f"{endpoint[0]}:{endpoint[1]}", secret="of the test")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(endpoint, 5).close()
    comm.close()
    for bind, listens_on in (("", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("0.0.0.0", "0.0.0.0")):
        with handshake.listen(Job(0, 2, endpoint=f"{endpoint[0]}:{endpoint[1]}", bind=bind)) as listener:
            assert listener.getsockname() == (listens_on, endpoint[1])


@pytest.mark.parametrize(("value", "whole"), [("heads", False), ("all", True)])
def test_rank_0_says_what_digests_cover(value: str, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        job, found = Job(1, 2, endpoint=f"127.0.0.1:{listener.getsockname()[1]}"), []

        def welcome() -> None:
            sock, _ = listener.accept()
            monkeypatch.setenv("FLEETMETRICS_DIGESTS", value)
            guest = handshake.Guest(sock, b"known to both", job.mark, handshake.whole_digests())
            monkeypatch.setenv("FLEETMETRICS_DIGESTS", "all" if value == "heads" else "heads")  # a worker's own
            while not guest.read():
                pass
            found.append(guest.answer(handshake.WELCOME))

        thread = threading.Thread(target=welcome)
        thread.start()
        found.append(handshake.connect(job, b"known to both", time.monotonic() + 20)[0])
        thread.join()
    assert [stream._whole for stream in found] == [whole, whole]
    for stream in found:
        stream.close()


@pytest.fixture
def dead_name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Names are looked up for as long as the test lasts."""
    over, look_up = threading.Event(), socket.getaddrinfo

    def waits(host: Any, *rest: Any, **options: Any) -> Any:
        if host == "rank-0.invalid":
            over.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return look_up(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", waits)
    yield
    over.set()


@pytest.mark.parametrize(("rank", "text"), [(0, "rank 0 did not listen"), (1, "rank 0 did not connect")])
def test_a_dead_name_server_holds_no_rank_beyond_its_deadline(dead_name_server: None, rank: int, text: str) -> None:
    comm = SocketCommunicator(rank=rank, world_size=2, endpoint="rank-0.invalid:8500", secret="of the test")
    for call in (1, 2):
        start = time.monotonic()
        with pytest.raises(
            DeadlineError, match=rf"{text} within 0.5 s at exchange {call} .*'rank-0.invalid'.*looked up"
        ):
            comm.barrier(timeout=0.5)
        assert time.monotonic() - start < 0.5 + SLACK
    assert sum(thread.name == "fleetmetrics" for thread in threading.enumerate()) == 1
    comm.close()


def test_a_name_that_is_not_known_yet_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[float] = []

    def addresses(host: str, end: float) -> list[str]:
        known.append(end)
        if len(known) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ["127.0.0.1"]

    monkeypatch.setattr(handshake, "addresses_of", addresses)
    job = Job(1, 2, endpoint="rank-0.invalid:1")
    with pytest.raises(handshake.NotFound):
        handshake.connect(job, Key(b"k"), time.monotonic() + 0.5)
    assert len(known) == 3  # and no more, once it is known


def test_a_host_with_many_ports_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(handshake, "addresses_of", lambda host, end: asked.append(host) or ["127.0.0.1"])
    job = Job(1, 2, endpoints="rank-0.invalid:8500,rank-1.invalid:8500")
    places, why = handshake._places(job, time.monotonic() + 5)
    assert places == [("127.0.0.1", port) for _, port in job.candidates()] and len(places) > 1 and not why
    assert asked == ["rank-0.invalid"]


def test_who_ends_or_drips_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            other, _ = listener.accept()
            other.close()
            start = time.monotonic()
            with pytest.raises(ConnectionRefusedError):
                handshake._received(client, 9, start + 60)
            assert time.monotonic() - start < SLACK
        with socket.create_connection(listener.getsockname()) as client:
            other, _ = listener.accept()

            def drip() -> None:
                with other, contextlib.suppress(OSError):
                    for _ in range(50):
                        other.send(b"x")
                        time.sleep(0.02)

            thread = threading.Thread(target=drip)
            thread.start()
            for seconds in (0.3, -1.0):
                with pytest.raises((TimeoutError, socket.timeout)):  # two classes before Python 3.10
                    handshake._received(client, 1000, time.monotonic() + seconds)
        thread.join()


def test_a_socket_that_is_connected_to_itself_is_not_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be, where nobody listens at a port from which connections begin."""

    def itself(address: Any, timeout: float) -> socket.socket:
        sock = socket.socket()
        sock.bind(address)
        sock.connect(address)
        return sock

    monkeypatch.setattr(socket, "create_connection", itself)
    place, now = ("127.0.0.1", free_ports(1)[0]), time.monotonic()
    with pytest.raises(ConnectionRefusedError, match="to itself"):
        handshake.greet(Job(1, 2), Key(b"k"), *place, 1.0, now + 1)


def test_every_address_of_a_name_has_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four that are silent do not keep a worker from the fifth, and all of them together not beyond the deadline."""
    hosts = [f"127.0.0.{last}" for last in range(2, 7)]
    monkeypatch.setattr(handshake, "addresses_of", lambda host, end: hosts)
    port, found = free_ports(1)[0], []
    job = Job(1, 2, endpoint=f"rank-0.invalid:{port}")
    with contextlib.ExitStack() as stack:
        *_, last = [stack.enter_context(socket.create_server((host, port))) for host in hosts]

        def greeted() -> None:
            found.append(last.accept())

        thread = threading.Thread(target=greeted)
        thread.start()
        start = time.monotonic()
        with pytest.raises(handshake.NotFound):
            handshake.connect(job, Key(b"k"), start + 1.5)
        assert 1.4 < time.monotonic() - start < 1.5 + SLACK
        thread.join(10)
        assert found
        found[0][0].close()


def test_a_host_is_looked_up_once_for_each_of_its_addresses_and_a_number_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in ("10.0.0.1", "10.0.0.2", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    end = time.monotonic() + 10
    assert handshake.addresses_of("10.1.2.3", end) == ["10.1.2.3"]
    assert handshake.addresses_of("::1", end) == ["::1"]
    assert asked == []
    assert [handshake.addresses_of("rank-0.twice", end) for _ in range(2)] == [["10.0.0.1", "10.0.0.2"]] * 2
    assert asked == ["rank-0.twice"] * 2  # it may have moved


def test_a_worker_gives_up_at_once_where_two_runs_were_noted_and_does_not_spin_until_then() -> None:
    rounds: list[float] = []

    def noted() -> str:
        rounds.append(time.monotonic())
        return "two runs" if len(rounds) == 8 else ""

    job, start = Job(1, 2, endpoint=f"127.0.0.1:{free_ports(1)[0]}"), time.monotonic()
    with pytest.raises(CommunicatorError, match="two runs"):
        handshake.connect(job, Key(b"k"), start + 60, noted)
    pauses = [later - earlier for earlier, later in zip(rounds, rounds[1:])]
    assert pauses[0] >= 0.005 and pauses[-1] >= 0.1  # the first are short, since rank 0 may be about to listen
    assert time.monotonic() - start < SLACK


class Entry:
    """Rank 0's door, and those who come to it."""

    def __init__(self, size: int = 3, **settings: Any) -> None:
        self.job = Job(0, size, endpoint=f"127.0.0.1:{free_ports(1)[0]}", **settings)
        self.poll = Poll(many=True, workers=size)
        self.door = handshake.Door(self.job, Key(b"k"), self.poll)
        self.door.open(time.monotonic() + 10)
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
            self.door.look(end)
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
                stream, _ = handshake.greet(job, Key(key), *self.place, 5.0, time.monotonic() + 5)
                stream.close()
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
    """Whether a client has been told no more than a greeting, and then the end."""
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


def test_who_does_not_begin_as_a_worker_does_is_sent_away_at_its_first_byte(entry: Entry) -> None:
    silent, web, almost = entry.knock(), entry.knock(b"G"), entry.knock(handshake._MAGIC[:-1])
    entry.turns()
    assert [is_sent_away(each) for each in (silent, web, almost)] == [False, True, False]
    assert len(entry.door.guests) == 2


def test_who_says_nothing_is_sent_away_after_its_time_and_those_after_it_are_not(entry: Entry) -> None:
    clients = [entry.knock() for _ in range(3)]
    entry.turns()
    first, second, third = entry.door.guests.values()
    first.came, second.came = (each.came - handshake._GUEST_SECONDS for each in (first, second))
    third.came -= handshake._GUEST_SECONDS - 5
    entry.door.look(time.monotonic())
    assert [is_sent_away(each) for each in clients] == [True, True, False]


def test_of_too_many_guests_the_oldest_is_sent_away_for_another(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "_GUESTS", 2)
    clients = []
    for _ in range(7):
        clients.append(entry.knock())
        entry.turns(0.05)
    assert [is_sent_away(each) for each in clients] == [True] * 2 + [False] * 5  # as many as workers, and two


def test_those_who_have_just_knocked_are_new_for_a_moment(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "_LOOK_SECONDS", 0.4)
    assert not entry.door.has_new_guests()
    entry.knock()
    entry.turns(0.05)
    assert entry.door.has_new_guests()
    entry.turns(0.5)
    assert entry.door.guests and not entry.door.has_new_guests()
    entry.knock()
    entry.turns(0.05)
    assert entry.door.has_new_guests()


def test_only_workers_of_this_run_that_cannot_prove_themselves_are_counted(entry: Entry) -> None:
    assert entry.meet(b"another secret", rank=0) == entry.meet(b"another secret", rank=3) == []
    assert entry.meet(b"another secret", run="of yesterday") == [] and entry.door.unproven == {}
    for number in (1, 2):
        assert entry.meet(b"another secret") == []
        assert {rank: times for rank, (_, _, times) in entry.door.unproven.items()} == {1: number}
        assert isinstance(entry.errors[-1], handshake._Refused)  # it is told by who knows this run
    first, last, _ = entry.door.unproven[1]
    assert 0.1 < last - first < SLACK
    (guest,) = entry.meet(rank=2)
    assert (guest.rank, guest.world_size, guest.run) == (2, 3, entry.job.name)


def test_who_has_proved_itself_at_last_is_no_longer_counted(entry: Entry) -> None:
    entry.meet(b"another secret")
    thread = threading.Thread(
        target=lambda: handshake.greet(replace(entry.job, rank=1), Key(b"k"), *entry.place, 5.0, time.monotonic() + 5)
    )
    thread.start()
    (guest,) = entry.turns(0.3)
    stream = entry.door.admit(guest)
    thread.join()
    assert entry.door.unproven == entry.door.guests == {}
    stream.close()


@pytest.mark.parametrize(
    ("times", "refused"),
    [
        ({1: (4.0, 0.1, 5), 2: (4.0, 0.1, 9)}, True),
        ({1: (4.0, 0.1, 5)}, False),  # rank 2 may be about to come
        ({1: (4.0, 0.1, 5), 2: (4.0, 0.1, 4)}, False),  # too seldom
        ({1: (4.0, 0.1, 5), 2: (2.9, 0.1, 9)}, False),  # not for long enough
        ({1: (4.0, 0.1, 5), 2: (90.0, 80.0, 9)}, True),  # it has had its error, and has ended
    ],
)
def test_workers_with_another_secret_are_an_error_where_all_that_are_missing_have_one(
    entry: Entry, times: dict[int, tuple[float, float, int]], refused: bool
) -> None:
    now = time.monotonic()
    entry.door.unproven = {rank: (now - first, now - last, number) for rank, (first, last, number) in times.items()}
    if refused:
        with pytest.raises(AuthenticationError, match=r"^ranks 1, 2 could not prove to rank 0 that they know"):
            entry.door.check_unproven([1, 2])
        left = {rank: (round(last - first, 6), number) for rank, (first, last, number) in entry.door.unproven.items()}
        assert left == {rank: (round(f - t - 3.0, 6), number - 5) for rank, (f, t, number) in times.items()}
    else:
        entry.door.check_unproven([1, 2])
        assert len(entry.door.unproven) == len(times)


def test_two_calls_of_a_worker_with_another_secret_are_enough_for_two_of_rank_0(entry: Entry) -> None:
    entry.door.unproven = {1: (0.0, 6.6, 10)}
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="rank 1"):
            entry.door.check_unproven([1])
    entry.door.check_unproven([1])


def test_a_worker_goes_on_where_another_run_listens_if_there_are_other_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "REFUSAL_SECONDS", 0.2)

    def other(*_: Any) -> Any:
        raise handshake.OtherRun("at host:1 listens rank 0 of another run")

    monkeypatch.setattr(handshake, "greet", other)
    start = time.monotonic()
    with pytest.raises(CommunicatorError, match="of another run"):
        handshake.connect(Job(1, 2, endpoint="127.0.0.1:1"), Key(b"k"), start + 60)
    assert 0.2 < time.monotonic() - start < SLACK  # it may be about to end
    several = Job(1, 2, endpoints="127.0.0.1:1,127.0.0.1:2")
    with pytest.raises(handshake.NotFound, match="of another run"):
        handshake.connect(several, Key(b"k"), time.monotonic() + 0.6)


def test_what_rank_0_says_of_another_run_is_escaped_and_cut(entry: Entry) -> None:
    found: list[str] = []

    def come() -> None:
        try:
            handshake.greet(replace(entry.job, rank=1, run="b"), Key(b"k"), *entry.place, 5.0, time.monotonic() + 5)
        except handshake.OtherRun as error:
            found.append(str(error))

    thread = threading.Thread(target=come)
    thread.start()
    (guest,) = entry.turns(0.3)
    entry.door.refuse(guest, handshake.OTHER_RUN, "\n\u202e" + "o" * 5000)
    thread.join()
    assert found and r"(\n\u202eooo" in found[0] and found[0].isprintable()
    assert found[0].count("ooo") < handshake._TEXT_BYTES / 3 and not entry.door.guests


@pytest.mark.parametrize("collective", [True, False])
def test_ports_that_are_promised_to_others_are_left_alone(collective: bool) -> None:
    own, other = free_ports(2)
    job = Job(0, 2, endpoints=f"127.0.0.1:{own},127.0.0.1:{other}", collective=collective)
    first = job.candidates()[0][1]
    with handshake.listen(job) as listener:
        assert listener.getsockname()[1] == first
    with handshake.listen(replace(job, reserved=frozenset({first}))) as listener:
        assert (listener.getsockname()[1] == first) == (not collective)  # beside servers the trainers' own are free
    every = frozenset(port for _, port in job.candidates())
    if collective:
        with pytest.raises(NoChannelError, match=rf":{first} \(promised to another by the environment\), "):
            handshake.listen(replace(job, reserved=every))


def test_an_address_of_another_machine_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(0, 2, endpoint="203.0.113.1:8500")
    with pytest.raises(
        NoChannelError, match=r"if the others reach this machine by that name .*, set FLEETMETRICS_BIND"
    ):
        handshake.listen(job)
    with pytest.raises(NoChannelError) as told:
        handshake.listen(replace(job, bind="203.0.113.2"))
    assert "203.0.113.2:8500 (" in str(told.value) and "set FLEETMETRICS_BIND" not in str(told.value)

    def unknown(host: str, end: float) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(handshake, "addresses_of", unknown)
    with pytest.raises(InvalidInputError, match=r"FLEETMETRICS_BIND holds 'nowhere'; .* \(Name or service not known\)"):
        handshake.listen(replace(job, bind="nowhere"))


def test_a_place_that_another_has_just_left_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(0, 2, endpoint=f"127.0.0.1:{free_ports(1)[0]}")
    other = handshake.listen(job)

    def ended(*_: Any) -> str:
        other.close()
        return ""

    monkeypatch.setattr(handshake, "_who_listens", ended)
    handshake.listen(job, Key(b"k")).close()
    other = handshake.listen(job)
    with pytest.raises(NoChannelError, match=f"{job.endpoint} "):
        handshake.listen(job)  # without a key nobody is asked
    other.close()


def test_rank_0_names_the_run_that_listens_in_its_place() -> None:
    entry = Entry(run="one")
    found: list[str] = []

    def come() -> None:
        try:
            handshake.listen(replace(entry.job, run="two"), Key(b"k"))
        except NoChannelError as error:
            found.append(str(error))

    thread = threading.Thread(target=come)
    thread.start()
    for guest in entry.turns(0.3):
        entry.door.refuse(guest, handshake.OTHER_RUN, entry.job.title)
    thread.join()
    entry.door.close()
    entry.poll.close()
    assert found and "listens rank 0 of another run" in found[0]


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [
        (113, 113, None),  # as many as are needed
        (112, 113, (113, 113)),
        (112, 4096, (113, 4096)),
        (50, resource.RLIM_INFINITY, (113, resource.RLIM_INFINITY)),
        (112, 112, "rank 0 needs 113 file descriptors for 100 workers (5 are open), and may have 112"),
    ],
)
def test_the_limit_of_descriptors_is_raised_as_far_as_it_must(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, then: Any
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.append(both))
    monkeypatch.setattr(handshake.os, "listdir", lambda _: ["0"] * 5)
    if isinstance(then, str):
        with pytest.raises(NoChannelError) as told:
            handshake.check_descriptors(100)
        assert then in str(told.value) and "ulimit -Hn 113" in str(told.value) and not limits
    else:
        handshake.check_descriptors(100)
        assert limits == ([] if then is None else [then])
