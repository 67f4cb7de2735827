"""Where rank 0 listens, and how a worker finds it."""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
import threading
import time
from concurrent import futures
from dataclasses import replace
from typing import Any, Iterator

import pytest

from fleetmetrics.comm import SocketCommunicator, finding, handshake
from fleetmetrics.comm.frames import Key
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AuthenticationError, CommunicatorError, DeadlineError, InvalidInputError, NoChannelError
from tests.distributed.cluster import AT_ONCE, SLACK, free_ports

pytestmark = pytest.mark.numpy_only


def test_a_machine_without_ipv6_is_an_error_that_names_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for such a machine: its system makes no socket of that family."""

    def refused(*_: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(finding.socket, "socket", refused)
    with pytest.raises(NoChannelError, match=r"cannot listen .* ::1:8500 \(Address family not supported by protocol\)"):
        finding.listen(Job(0, 2, endpoint="[::1]:8500"))


def test_a_refused_worker_does_not_wait_for_a_rank_0_that_has_ended_since() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        job = Job(1, 2, endpoint=f"127.0.0.1:{listener.getsockname()[1]}")

        def refuse() -> None:
            for _ in range(handshake.ENOUGH_REFUSALS):
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
            finding.connect(job, b"of this one", start + 60)
        assert time.monotonic() - start < AT_ONCE
        thread.join()


def test_rank_0_listens_on_its_own_address_from_the_first_call_on() -> None:
    endpoint = "127.0.0.1", free_ports(1)[0]
    comm = SocketCommunicator(rank=0, world_size=2, endpoint=f"{endpoint[0]}:{endpoint[1]}", secret="of the test")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(endpoint, 5).close()
    comm.close()
    for bind, listens_on in (("", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("0.0.0.0", "0.0.0.0")):
        with finding.listen(Job(0, 2, endpoint=f"{endpoint[0]}:{endpoint[1]}", bind=bind)) as listener:
            assert listener.getsockname() == (listens_on, endpoint[1])


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
    monkeypatch.setattr(finding, "_unknown", {})
    yield
    over.set()
    futures.wait(list(finding._lookups.values()))  # what they find belongs to this test


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


@pytest.fixture
def slow_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look-up takes a part of the deadline, and finds nothing."""
    look_up = socket.getaddrinfo

    def unknown(host: Any, *rest: Any, **options: Any) -> Any:
        if not str(host).endswith(".invalid"):
            return look_up(host, *rest, **options)
        time.sleep(0.3)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)


def test_a_worker_says_that_the_name_is_not_known_while_it_is_looked_up_again(slow_name_server: None) -> None:
    with SocketCommunicator(rank=1, world_size=2, endpoint="rank-0.slow.invalid:8500", secret="of the test") as comm:
        for seconds in (0.7, 0.1, 0.1):  # the last two are over before their look-up is
            with pytest.raises(
                DeadlineError, match=r"rank 0 did not connect.*'rank-0.slow.invalid' .* is not known \(T"
            ):
                comm.barrier(timeout=seconds)
            time.sleep(0.4 if seconds < 0.5 else 0)


def test_rank_0_whose_name_is_not_known_says_so_once_and_at_once(slow_name_server: None) -> None:
    for job in (Job(0, 3, endpoint="rank-0.invalid:8500"), Job(0, 3, endpoints="rank-0.invalid:1,a:1,b:1")):
        with pytest.raises(NoChannelError) as told:
            finding.listen(job)
        said = str(told.value)
        assert said.count("rank-0.invalid") == 1 and "is not known on this machine (Temporary failure" in said
        assert "set FLEETMETRICS_BIND" in said and "FLEETMETRICS_ENDPOINT=host:port on all" in said


def test_a_name_that_is_known_after_all_is_not_called_unknown_later(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [socket.gaierror(socket.EAI_NONAME, "not known"), [(2, 1, 6, "", ("10.0.0.1", 0))], None]

    def look_up(*_: Any, **__: Any) -> Any:
        answer = answers.pop(0)
        if answer is None:
            time.sleep(0.3)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(socket.gaierror):
        finding.addresses_of("rank-0.later.invalid", time.monotonic() + 10)
    assert finding.addresses_of("rank-0.later.invalid", time.monotonic() + 10) == ["10.0.0.1"]
    with pytest.raises(finding.NotFound, match="still being looked up"):
        finding.addresses_of("rank-0.later.invalid", time.monotonic())


def test_a_name_that_is_not_known_yet_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[float] = []

    def addresses(host: str, end: float) -> list[str]:
        known.append(end)
        if len(known) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ["127.0.0.1"]

    monkeypatch.setattr(finding, "addresses_of", addresses)
    job = Job(1, 2, endpoint="rank-0.invalid:1")
    with pytest.raises(finding.NotFound):
        finding.connect(job, Key(b"k"), time.monotonic() + 0.5)
    assert len(known) == 3  # and no more, once it is known


def test_a_host_with_many_ports_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(finding, "addresses_of", lambda host, end: asked.append(host) or ["127.0.0.1"])
    job = Job(1, 2, endpoints="rank-0.invalid:8500,rank-1.invalid:8500")
    places, why = finding._places(job, time.monotonic() + 5)
    assert places == [("127.0.0.1", port) for _, port in job.candidates()] and len(places) > 1 and not why
    assert asked == ["rank-0.invalid"]


def test_every_address_of_a_name_has_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four that are silent do not keep a worker from the fifth, and all of them together not beyond the deadline."""
    hosts = [f"127.0.0.{last}" for last in range(2, 7)]
    monkeypatch.setattr(finding, "addresses_of", lambda host, end: hosts)
    port, found = free_ports(1)[0], []
    job = Job(1, 2, endpoint=f"rank-0.invalid:{port}")
    with contextlib.ExitStack() as stack:
        *_, last = [stack.enter_context(socket.create_server((host, port))) for host in hosts]

        def greeted() -> None:
            found.append(last.accept())

        thread = threading.Thread(target=greeted)
        thread.start()
        start = time.monotonic()
        with pytest.raises(finding.NotFound):
            finding.connect(job, Key(b"k"), start + 1.5)
        assert 1.4 < time.monotonic() - start < 1.5 + SLACK
        thread.join(10)
        assert found
        found[0][0].close()


def test_a_name_is_resolved_once_per_address_and_a_number_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in ("10.0.0.1", "10.0.0.2", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    end = time.monotonic() + 10
    assert finding.addresses_of("10.1.2.3", end) == ["10.1.2.3"]
    assert finding.addresses_of("::1", end) == ["::1"]
    assert asked == []
    assert [finding.addresses_of("rank-0.twice", end) for _ in range(2)] == [["10.0.0.1", "10.0.0.2"]] * 2
    assert asked == ["rank-0.twice"] * 2  # it may have moved


def test_a_worker_gives_up_at_once_where_two_runs_were_noted_and_does_not_spin_until_then() -> None:
    rounds: list[float] = []

    def noted() -> str:
        rounds.append(time.monotonic())
        return "two runs" if len(rounds) == 8 else ""

    job, start = Job(1, 2, endpoint=f"127.0.0.1:{free_ports(1)[0]}"), time.monotonic()
    with pytest.raises(CommunicatorError, match="two runs"):
        finding.connect(job, Key(b"k"), start + 60, noted)
    pauses = [later - earlier for earlier, later in zip(rounds, rounds[1:])]
    assert pauses[0] >= 0.005 and pauses[-1] >= 0.1  # the first are short, since rank 0 may be about to listen
    assert time.monotonic() - start < SLACK


def test_a_worker_goes_on_where_another_run_listens_if_there_are_other_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "REFUSAL_SECONDS", 0.2)

    def other(*_: Any) -> Any:
        raise handshake.OtherRun("at host:1 listens rank 0 of another run")

    monkeypatch.setattr(finding, "greet", other)
    start = time.monotonic()
    with pytest.raises(CommunicatorError, match="of another run"):
        finding.connect(Job(1, 2, endpoint="127.0.0.1:1"), Key(b"k"), start + 60)
    assert 0.2 < time.monotonic() - start < SLACK  # it may be about to end
    several = Job(1, 2, endpoints="127.0.0.1:1,127.0.0.1:2")
    with pytest.raises(finding.NotFound, match="of another run"):
        finding.connect(several, Key(b"k"), time.monotonic() + 0.6)


@pytest.mark.parametrize("collective", [True, False])
def test_ports_that_are_promised_to_others_are_left_alone(collective: bool) -> None:
    own, other = free_ports(2)
    job = Job(0, 2, endpoints=f"127.0.0.1:{own},127.0.0.1:{other}", collective=collective)
    first = job.candidates()[0][1]
    with finding.listen(job) as listener:
        assert listener.getsockname()[1] == first
    with finding.listen(replace(job, reserved=frozenset({first}))) as listener:
        assert (listener.getsockname()[1] == first) == (not collective)  # beside servers the trainers' own are free
    every = frozenset(port for _, port in job.candidates())
    if collective:
        with pytest.raises(NoChannelError, match=rf":{first} \(the environment assigns it to a different process\), "):
            finding.listen(replace(job, reserved=every))


def test_an_address_of_another_machine_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(0, 2, endpoint="203.0.113.1:8500")
    with pytest.raises(
        NoChannelError, match=r"if the others reach this machine by that name .*, set FLEETMETRICS_BIND"
    ):
        finding.listen(job)
    with pytest.raises(NoChannelError) as told:
        finding.listen(replace(job, bind="203.0.113.2"))
    assert "203.0.113.2:8500 (" in str(told.value) and "set FLEETMETRICS_BIND" not in str(told.value)

    def unknown(host: str, end: float) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(finding, "addresses_of", unknown)
    with pytest.raises(InvalidInputError, match=r"FLEETMETRICS_BIND holds 'nowhere'; .* \(Name or service not known\)"):
        finding.listen(replace(job, bind="nowhere"))


def test_a_silent_listener_in_rank_0s_place_delays_it_no_longer_than_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(finding, "REFUSAL_SECONDS", 30.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        comm = SocketCommunicator(
            rank=0, world_size=2, endpoint=f"127.0.0.1:{silent.getsockname()[1]}", secret="of the test"
        )
        start = time.monotonic()
        with pytest.raises(NoChannelError, match="rank 0 cannot listen"):
            comm.barrier(timeout=0.5)
        assert time.monotonic() - start < 0.5 + SLACK
        comm.close()


def test_a_silent_listener_in_rank_0s_place_delays_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "REFUSAL_SECONDS", 0.5)
    asked: list[float] = []
    greet = finding.greet
    monkeypatch.setattr(finding, "greet", lambda *given: asked.append(time.monotonic()) or greet(*given))
    job, key = Job(0, 2, endpoint=f"127.0.0.1:{free_ports(1)[0]}"), Key(b"k" * 32)
    silent = finding.listen(job)
    with pytest.raises(NoChannelError, match="rank 0 cannot listen"):
        finding.listen(job, key, time.monotonic() + 0.1)  # it may be slow: nothing is known yet
    for number in (2, 2, 2):
        with pytest.raises(NoChannelError, match="rank 0 cannot listen"):
            finding.listen(job, key, time.monotonic() + 60)
        assert len(asked) == number
    silent.close()
    silent = finding.listen(job, key)
    with pytest.raises(NoChannelError):
        finding.listen(job, key, time.monotonic() + 60)
    assert len(asked) == 3  # another may have come
    monkeypatch.setattr(finding, "_SILENT_SECONDS", 0.0)
    with pytest.raises(NoChannelError):
        finding.listen(job, key, time.monotonic() + 60)
    assert len(asked) == 4  # a rank 0 that was busy has time now
    silent.close()


def test_a_place_that_another_has_just_left_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(0, 2, endpoint=f"127.0.0.1:{free_ports(1)[0]}")
    other = finding.listen(job)

    def ended(*_: Any) -> str:
        other.close()
        return ""

    monkeypatch.setattr(finding, "_who_listens", ended)
    finding.listen(job, Key(b"k")).close()
    other = finding.listen(job)
    with pytest.raises(NoChannelError, match=f"{job.endpoint} "):
        finding.listen(job)  # without a key it asks no one
    other.close()


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [
        (113, 113, None),  # as many as are needed
        (112, 113, (113, 113)),
        (112, 4096, (113, 4096)),
        (50, resource.RLIM_INFINITY, (113, resource.RLIM_INFINITY)),
        (112, 112, "rank 0 needs 113 file descriptors for 100 workers (5 are open), but may have only 112"),
    ],
)
def test_the_limit_of_descriptors_is_raised_as_far_as_it_must(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, then: Any
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.append(both))
    monkeypatch.setattr(finding.os, "listdir", lambda _: ["0"] * 5)
    if isinstance(then, str):
        with pytest.raises(NoChannelError) as told:
            finding.check_descriptors(100)
        assert then in str(told.value) and "ulimit -Hn 113" in str(told.value) and not limits
    else:
        finding.check_descriptors(100)
        assert limits == ([] if then is None else [then])
