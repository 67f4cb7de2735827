"""Where rank 0 listens."""

from __future__ import annotations

import errno
import resource
import socket
import threading
import time
from dataclasses import replace
from typing import Any, Iterator

import pytest

from fleetmetrics.comm import SocketCommunicator, addresses
from fleetmetrics.comm.addresses import listen
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import Key
from fleetmetrics.errors import CommunicatorError, DeadlineError, InvalidInputError, NoChannelError
from tests.distributed.cluster import AT_ONCE, SLACK, free_ports
from tests.distributed.forks import outcome, wait_until

pytestmark = pytest.mark.numpy_only

KEY = Key(b"of the test")


def test_a_machine_without_ipv6_is_an_error_that_names_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for such a machine: its system makes no socket of that family."""

    def refused(*_: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(addresses.socket, "socket", refused)
    with pytest.raises(NoChannelError, match=r"cannot listen .* ::1:8500 \(Address family not supported by protocol\)"):
        listen(Job(0, 2, endpoint="[::1]:8500"), KEY)


@pytest.mark.parametrize(("bind", "where"), [("", "127.0.0.1"), ("127.0.0.2", "127.0.0.2"), ("0.0.0.0", "0.0.0.0")])
def test_rank_0_listens_on_its_own_address(bind: str, where: str) -> None:
    port = free_ports(1)[0]
    with listen(Job(0, 2, endpoint=f"127.0.0.1:{port}", bind=bind), KEY) as listener:
        assert listener.getsockname() == (where, port)


def unknown_names(monkeypatch: pytest.MonkeyPatch, wait: Any) -> None:
    look_up = socket.getaddrinfo

    def asked(host: Any, *rest: Any, **options: Any) -> Any:
        if not str(host).endswith(".invalid"):
            return look_up(host, *rest, **options)
        wait()
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", asked)


@pytest.fixture
def dead_name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Names are looked up for as long as the test lasts."""
    over = threading.Event()
    unknown_names(monkeypatch, lambda: over.wait(60))
    yield
    over.set()


@pytest.mark.parametrize(
    ("rank", "text"),
    [(0, "rank 0 did not listen .* rank-0.invalid:"), (1, "rank 0 did not connect .*'rank-0.invalid'")],
)
def test_a_dead_name_server_holds_no_rank_beyond_its_deadline(dead_name_server: None, rank: int, text: str) -> None:
    comm = SocketCommunicator(rank=rank, world_size=2, endpoint="rank-0.invalid:8500", secret="of the test")
    for call in (1, 2):
        start = time.monotonic()
        with pytest.raises(DeadlineError, match=rf"{text}.*looked up") as caught:
            comm.barrier(timeout=0.5)
        assert f"within 0.5 s at exchange {call} " in str(caught.value)
        assert time.monotonic() - start < 0.5 + SLACK


def test_rank_0_whose_name_is_not_known_says_so_once_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown_names(monkeypatch, lambda: None)
    for job in (Job(0, 3, endpoint="rank-0.invalid:8500"), Job(0, 3, endpoints="rank-0.invalid:1,a:1,b:1")):
        start = time.monotonic()
        with pytest.raises(NoChannelError) as caught:
            SocketCommunicator(replace(job, secret="of the test", named=True)).barrier(timeout=60)
        text = str(caught.value)
        assert text.count("rank-0.invalid") == 1 and "is not known on this machine (Temporary failure" in text
        assert "set FLEETMETRICS_BIND" in text and "FLEETMETRICS_ENDPOINT=host:port on all" in text
        assert time.monotonic() - start < AT_ONCE


@pytest.mark.parametrize("host", ["a" * 70, "rank-0..example"])
def test_what_cannot_be_a_name_is_an_unknown_name(host: str) -> None:
    with pytest.raises(NoChannelError, match="is not known on this machine"):
        listen(Job(0, 2, endpoint=f"{host}:8500"), KEY)


@pytest.mark.parametrize("collective", [True, False])
def test_ports_that_are_promised_to_others_are_left_alone(collective: bool) -> None:
    own, other = free_ports(2)
    job = Job(0, 2, endpoints=f"127.0.0.1:{own},127.0.0.1:{other}", collective=collective)
    first = job.candidates()[0][1]
    with listen(job, KEY) as listener:
        assert listener.getsockname()[1] == first
    with listen(replace(job, reserved=frozenset({first})), KEY) as listener:
        assert (listener.getsockname()[1] == first) == (not collective)  # beside servers the trainers' own are free
    every = frozenset(port for _, port in job.candidates())
    if collective:
        with pytest.raises(NoChannelError, match=rf":{first} \(the environment assigns it to a different process\), "):
            listen(replace(job, reserved=every), KEY)


def test_an_address_of_another_machine_says_what_to_set() -> None:
    job = Job(0, 2, endpoint="203.0.113.1:8500")
    with pytest.raises(
        NoChannelError, match=r"if the others reach this machine by that name .*, set FLEETMETRICS_BIND"
    ):
        listen(job, KEY)
    with pytest.raises(NoChannelError) as caught:
        listen(replace(job, bind="203.0.113.2"), KEY)
    assert "203.0.113.2:8500 (" in str(caught.value) and "set FLEETMETRICS_BIND" not in str(caught.value)
    with pytest.raises(InvalidInputError, match=r"FLEETMETRICS_BIND holds 'nowhere.invalid'; it must be an address of"):
        listen(replace(job, bind="nowhere.invalid"), KEY)


def test_rank_0_does_not_listen_where_no_other_machine_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's hosts file gives a machine's own name such an address."""
    monkeypatch.setattr(addresses, "addresses_of", lambda host: ["127.0.1.1"])
    job = Job(0, 2, endpoints=f"machine-0:{free_ports(1)[0]},machine-1:80")
    with pytest.raises(NoChannelError, match=r"would listen on 127\.0\.1\.1.*'machine-0'.*Set FLEETMETRICS_BIND"):
        listen(job, KEY)
    listen(replace(job, bind="127.0.0.1"), KEY).close()


def test_a_silent_listener_in_rank_0s_place_is_an_error_that_names_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "_NEIGHBOUR_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        comm = SocketCommunicator(rank=0, world_size=2, endpoint=endpoint, secret="of the test")
        with pytest.raises(NoChannelError, match=rf"rank 0 cannot listen .*{endpoint} \(Address already in use\)"):
            comm.barrier(timeout=20)
        start = time.monotonic()
        with pytest.raises((NoChannelError, DeadlineError), match=f"rank 0 (cannot|did not) listen .*{endpoint}"):
            comm.barrier(timeout=0.5)
        assert time.monotonic() - start < 0.5 + SLACK
        comm.close()


def test_another_rank_0_of_this_run_that_has_called_is_an_error_at_once() -> None:
    job = Job(0, 2, endpoint=f"127.0.0.1:{free_ports(1)[0]}", secret="of the test", named=True)
    with SocketCommunicator(job) as first:
        call = threading.Thread(target=lambda: outcome(lambda: first.barrier(timeout=60)))
        call.start()
        wait_until(lambda: first._end._roster.rank_0_called and first._end._door.is_open)
        with pytest.raises(CommunicatorError, match="two processes say that they are rank 0"):
            listen(job, first._end.secret.key)
    call.join()


def test_a_place_that_another_has_just_left_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(0, 2, endpoint=f"127.0.0.1:{free_ports(1)[0]}")
    other = listen(job, KEY)

    def ended(*_: Any) -> str:
        other.close()
        return ""

    monkeypatch.setattr(addresses, "_who_listens", ended)
    listen(job, KEY).close()


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
    monkeypatch.setattr(addresses.os, "listdir", lambda _: ["0"] * 5)
    if isinstance(then, str):
        with pytest.raises(NoChannelError) as caught:
            addresses.check_descriptors(100)
        assert then in str(caught.value) and "ulimit -Hn 113" in str(caught.value) and not limits
    else:
        addresses.check_descriptors(100)
        assert limits == ([] if then is None else [then])
