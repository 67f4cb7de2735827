"""How a worker finds rank 0, and what they agree on."""

from __future__ import annotations

import errno
import socket
import threading
import time

import pytest

from fleetmetrics.comm import SocketCommunicator, handshake
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import AuthenticationError, NoChannelError
from tests.distributed.cluster import AT_ONCE, free_ports

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
                    guest = handshake.Guest(sock, b"of another secret")
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
            guest = handshake.Guest(sock, b"known to both", handshake._whole_digests())
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
