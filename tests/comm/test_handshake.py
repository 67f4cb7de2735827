"""How a worker finds rank 0, and what they agree on."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from typing import Any, Iterator

import pytest

from fleetmetrics.comm import SocketCommunicator, handshake
from fleetmetrics.comm.frames import Key
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AuthenticationError, DeadlineError, NoChannelError
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
            guest = handshake.Guest(sock, b"known to both", job.mark, handshake._whole_digests())
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

    monkeypatch.setattr(handshake, "_addresses", addresses)
    job = Job(1, 2, endpoint="rank-0.invalid:1")
    with pytest.raises(handshake.NotFound):
        handshake.connect(job, Key(b"k"), time.monotonic() + 0.5)
    assert len(known) == 3  # and no more, once it is known


def test_every_address_of_a_name_has_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four that are silent do not keep a worker from the fifth, and all of them together not beyond the deadline."""
    hosts = [f"127.0.0.{last}" for last in range(2, 7)]
    monkeypatch.setattr(handshake, "_addresses", lambda host, end: hosts)
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
