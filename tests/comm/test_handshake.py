"""How rank 0 and a worker prove themselves to each other."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

import pytest

from fleetmetrics.comm import finding, handshake
from fleetmetrics.comm.frames import Key
from fleetmetrics.comm.job import Job
from tests.distributed.cluster import SLACK, free_ports

pytestmark = pytest.mark.numpy_only


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
        found.append(finding.connect(job, b"known to both", time.monotonic() + 20)[0])
        thread.join()
    assert [stream._whole for stream in found] == [whole, whole]
    for stream in found:
        stream.close()


def test_a_listener_that_ends_or_sends_slowly_is_left_in_time() -> None:
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
    """This happens if no process listens at a port from which connections begin."""

    def itself(address: Any, timeout: float) -> socket.socket:
        sock = socket.socket()
        sock.bind(address)
        sock.connect(address)
        return sock

    monkeypatch.setattr(socket, "create_connection", itself)
    place, now = ("127.0.0.1", free_ports(1)[0]), time.monotonic()
    with pytest.raises(ConnectionRefusedError, match="to itself"):
        handshake.greet(Job(1, 2), Key(b"k"), *place, 1.0, now + 1)
