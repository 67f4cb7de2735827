"""Messages: sealed, numbered, and not believed before they are proved."""

from __future__ import annotations

import errno
import hashlib
import hmac
import select
import socket
import struct
import time
import tracemalloc
from types import SimpleNamespace
from typing import Any, Iterator

import numpy as np
import pytest

from fleetmetrics.comm import message
from fleetmetrics.comm.message import (
    ANSWER,
    ARRIVAL,
    Connection,
    Garbled,
    Key,
    Keys,
    Lost,
    Message,
    Poll,
    Silent,
)
from tests.distributed.cluster import SLACK

pytestmark = pytest.mark.numpy_only

KEYS = Keys(Key(b"there"), Key(b"back"))


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Connection]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = socket.create_connection(listener.getsockname())
        here = Connection(listener.accept()[0], Keys(KEYS.receiving, KEYS.sending))
    yield there, here
    there.close()
    here.close()


def sealed(head: bytes, number: int = 0, key: bytes = KEYS.sending) -> bytes:
    return head + hmac.digest(key, struct.pack("!Q", number) + head, "sha256")


def head_of(header: int = 0, payload: int = 0, whole: bool = True, **changed: Any) -> bytes:
    values = {"magic": b"flt4", "kind": ARRIVAL, "seconds": 1.0, "digest": hashlib.sha256(b"").digest(), **changed}
    numbers = 1, False, 1, 2, 1, values["seconds"], 5.0, header, payload
    return message._HEAD.pack(values["magic"], values["kind"], whole, *numbers, values["digest"])


def heard(connection: Connection) -> Message:
    """The next message; its bytes may still be on their way."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = connection.receive()
        if found is not None:
            return found
        select.select([connection], [], [], 1)
    raise AssertionError("no message has come")


def test_sent_messages_arrive(ends: tuple[socket.socket, Connection]) -> None:
    there, here = ends
    sender = Connection(there, KEYS)
    end = time.monotonic() + 2.5
    sender.send(Message(ANSWER, 3, 7, header=b"auc", payload=b"abc", end=end, timeout=9.0, threads=(2, True)))
    sender.send(Message(ARRIVAL, 3, 8, step=3))
    first, second = heard(here), heard(here)
    assert (first.kind, first.header, bytes(first.payload), first.threads) == (ANSWER, b"auc", b"abc", (2, True))
    assert (first.place, first.timeout, second.place, second.threads) == ((3, 7, 1), 9.0, (3, 8, 3), (1, False))
    assert end <= first.end < end + SLACK  # by the clock of who reads it


@pytest.mark.parametrize("header", [b"", b"x", b"sixteen letters!"])
def test_a_payload_is_aligned_and_arrives_in_pieces(ends: tuple[socket.socket, Connection], header: bytes) -> None:
    there, here = ends
    sender, numbers = Connection(there, KEYS), np.arange(2**20) * 0.5
    sender.send(Message(ANSWER, header=header, payload=memoryview(numbers).cast("B")))
    found = None
    while found is None:
        sender.flush()
        found = here.receive()
    assert found.header == header and np.array_equal(np.frombuffer(found.payload), numbers)
    assert np.frombuffer(found.payload, np.uint8).ctypes.data % 16 == 0


GARBLED = {
    "key": sealed(head_of(), key=b"another"),
    "number": sealed(head_of(), number=1),
    "replayed": sealed(head_of()) * 2,
    "seal": sealed(head_of())[:-1] + b"\0",
    "no-digest": sealed(head_of(payload=3, whole=False)) + b"abc",
    "digest": sealed(head_of(header=3)) + b"abc",
    "magic": sealed(head_of(magic=b"flt1")),
    "kind-0": sealed(head_of(kind=0)),
    "kind-10": sealed(head_of(kind=10)),
    "nan": sealed(head_of(seconds=float("nan"))),
    "inf": sealed(head_of(seconds=float("inf"))),
    "past": sealed(head_of(seconds=-1.0)),
    "payload": sealed(head_of(payload=2**63)),
    "larger": sealed(head_of(payload=2**40 + 1)),
    "header": sealed(head_of(header=2**26 + 1)),
}


@pytest.mark.parametrize("what", GARBLED)
def test_what_is_not_sealed_for_this_place_or_makes_no_sense_is_refused(
    ends: tuple[socket.socket, Connection], what: str
) -> None:
    ends[0].sendall(GARBLED[what])
    with pytest.raises(Garbled):
        for _ in range(2):
            heard(ends[1])


def test_what_one_end_has_said_is_not_accepted_from_the_other(ends: tuple[socket.socket, Connection]) -> None:
    """A relay may reflect it."""
    there, here = ends
    here.send(Message(ARRIVAL, 1, 1, header=b"auc"))
    there.sendall(there.recv(1000))
    with pytest.raises(Garbled):
        heard(here)


@pytest.mark.parametrize("key", [b"", b"key", bytes(range(224, 256)), b"k" * 64])
def test_a_seal_is_an_hmac_of_the_messages_number_and_head(key: bytes) -> None:
    seal = message._seal(message._keyed(key), 7, b"head")
    assert seal == hmac.digest(key, (7).to_bytes(8, "big") + b"head", "sha256")


def test_an_announced_size_reserves_no_memory(ends: tuple[socket.socket, Connection]) -> None:
    there, here = ends
    there.sendall(sealed(head_of(payload=2**39)) + bytes(1000))
    there.shutdown(socket.SHUT_WR)
    tracemalloc.start()
    try:
        with pytest.raises(Lost):
            heard(here)
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def test_an_end_without_memory_for_a_message_says_so(
    ends: tuple[socket.socket, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(message.np, "empty", refused)
    ends[0].sendall(sealed(head_of(payload=1000)))
    with pytest.raises(Garbled, match="no memory for a message of 1000 bytes"):
        heard(ends[1])


def test_a_long_message_is_read_in_turns_since_others_wait_too(
    ends: tuple[socket.socket, Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message, "_TURN_BYTES", 100)
    there, here = ends
    there.sendall(sealed(head_of(payload=4096, digest=hashlib.sha256(bytes(4096)).digest())) + bytes(4096))
    select.select([here], [], [], 5)
    assert here.receive() is None and select.select([here], [], [], 5)[0]
    assert heard(here).payload.nbytes == 4096


def test_no_repr_of_a_key_shows_it() -> None:
    assert f"{KEYS} {KEYS.sending!s} {[KEYS.sending]}".count("there") == 0


def test_a_wait_of_any_length_is_a_wait() -> None:
    one, other = socket.socketpair()
    poll = Poll()
    with one, other:
        poll.register(one)
        assert poll.wait() == poll.wait(-1e308) == []
        other.send(b"?")
        assert poll.wait(1e308) == poll.wait(float("inf")) == [(one.fileno(), select.POLLIN)]
        poll.unregister(one)
        assert poll.wait() == []
        poll.unregister(one)  # once more does nothing
    poll.close()
    poll.unregister(one)  # nor when all is closed


@pytest.mark.parametrize("epoll", [True, False])
def test_a_connection_is_waited_for_with_room_to_send_only_while_it_has_bytes_to_send(
    ends: tuple[socket.socket, Connection], epoll: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> Any:
        raise OSError("no descriptor is left")

    if not epoll:
        monkeypatch.setattr(select, "epoll", refused)
    there, here = ends
    poll = Poll()
    poll.register(here)
    size = 2**24
    for _ in range(2):
        here.send(Message(ANSWER, payload=bytes(size)))
        poll.follow(here)
        assert here.sending
        came = 0
        while came < size + message._HEAD.size + 32:
            came += len(there.recv(2**20))
            if poll.wait() == [(here.fileno(), select.POLLOUT)]:
                here.flush()
        assert not here.sending
        poll.follow(here)
        assert poll.wait() == []
    poll.close()


# -- a machine that answers no more


@pytest.mark.parametrize(
    ("unconfirmed", "seconds", "silent"),
    [(1, 121, True), (1, 119, False), (0, 500, False)],  # the last: as of a worker that trains
)
def test_a_connection_whose_other_machine_confirms_nothing_for_two_minutes_is_silent(
    ends: tuple[socket.socket, Connection], unconfirmed: int, seconds: int, silent: bool
) -> None:
    _, here = ends
    with here.sock:
        here.sock = SimpleNamespace(  # type: ignore[assignment]
            getsockopt=lambda *_: struct.pack("=24xI28xI", unconfirmed, 1000 * seconds), close=lambda: None
        )
    assert here.silent is silent


def test_the_system_itself_knows_what_the_other_machine_has_confirmed(ends: tuple[socket.socket, Connection]) -> None:
    there, here = ends
    here.send(Message(ARRIVAL, 1, 1))
    assert there.recv(1)
    info = here.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, message._TCP_INFO.size)
    unconfirmed, milliseconds = message._TCP_INFO.unpack(info)
    assert unconfirmed == 0 and milliseconds < 1000 * SLACK


@pytest.mark.parametrize(("number", "kind"), [(errno.ETIMEDOUT, Silent), (errno.ECONNRESET, Lost)])
def test_a_machine_that_does_not_answer_is_told_from_a_process_that_has_ended(
    ends: tuple[socket.socket, Connection], number: int, kind: type[Lost]
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, "it is so")

    _, here = ends
    with here.sock:
        here.sock = SimpleNamespace(recv_into=fail, sendmsg=fail, close=lambda: None)  # type: ignore[assignment]
    for call in (here.receive, lambda: here.send(Message(ARRIVAL, 1, 1))):
        with pytest.raises(Lost) as caught:
            call()
        assert type(caught.value) is kind
