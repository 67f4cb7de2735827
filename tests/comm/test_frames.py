"""Frames: sealed, numbered, and not believed before they are proved."""

from __future__ import annotations

import hashlib
import hmac
import select
import socket
import struct
import time
import tracemalloc
from typing import Any, Iterator

import pytest

from fleetmetrics.comm import frames
from fleetmetrics.comm.frames import ANSWER, ARRIVAL, Frame, Garbled, Keys, Stream

KEYS = Keys(b"there", b"back")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Stream]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sending = socket.create_connection(listener.getsockname())
        stream = Stream(listener.accept()[0], Keys(KEYS.receiving, KEYS.sending))
    stream.sock.settimeout(5)
    yield sending, stream
    sending.close()
    stream.close()


def sealed(head: bytes, number: int = 0, key: bytes = KEYS.sending) -> bytes:
    return head + hmac.digest(key, struct.pack("!Q", number) + head, "sha256")


def head_of(header: int = 0, payload: int = 0, whole: bool = True, **changed: Any) -> bytes:
    values = {"magic": b"flt3", "kind": ARRIVAL, "seconds": 1.0, "digest": hashlib.sha256(b"").digest(), **changed}
    numbers = 1, 2, 1, 0, values["seconds"], 5.0, header, payload
    return frames._HEAD.pack(values["magic"], values["kind"], whole, *numbers, values["digest"])


def test_sent_frames_arrive(ends: tuple[socket.socket, Stream]) -> None:
    sending, stream = ends
    there = Stream(sending, KEYS)
    there.send(Frame(ANSWER, 7, b"auc", [b"ab", b"", b"c"], channel=3, made=6, timeout=2.5))
    there.send(Frame(ARRIVAL, 8, step=3))
    first, second = stream.receive(), stream.receive()
    assert first is not None and second is not None
    assert (first.kind, first.call, first.header, bytes(first.payload)) == (ANSWER, 7, b"auc", b"abc")
    assert (first.channel, first.made, first.timeout, first.step, second.place) == (3, 6, 2.5, 1, (8, 3))


@pytest.mark.parametrize(
    "sent",
    [
        sealed(head_of(), key=b"another"),
        sealed(head_of(), number=1),
        sealed(head_of()) * 2,
        sealed(head_of())[:-1] + b"\0",
        sealed(head_of(payload=3, whole=False)) + b"abc",
        sealed(head_of(header=3)) + b"abc",
        sealed(head_of(magic=b"flt1")),
        sealed(head_of(kind=13)),
        sealed(head_of(seconds=float("nan"))),
        sealed(head_of(payload=2**63)),
        sealed(head_of(header=2**30)),
    ],
    ids=["key", "number", "replayed", "seal", "no-digest", "digest", "magic", "kind", "seconds", "payload", "header"],
)
def test_what_is_not_sealed_for_this_place_or_makes_no_sense_is_refused(
    ends: tuple[socket.socket, Stream], sent: bytes
) -> None:
    ends[0].sendall(sent)
    with pytest.raises(Garbled):
        for _ in range(2):
            ends[1].receive()


@pytest.mark.parametrize("key", [b"", b"key", bytes(range(224, 256)), b"k" * 64])
def test_a_seal_is_an_hmac_of_the_frames_number_and_head(key: bytes) -> None:
    seal = frames._seal(frames._keyed(key), 7, b"head")
    assert seal == hmac.digest(key, (7).to_bytes(8, "big") + b"head", "sha256")


def test_an_announced_size_is_only_a_word(ends: tuple[socket.socket, Stream]) -> None:
    sending, stream = ends
    sending.sendall(sealed(head_of(payload=2**39)) + bytes(1000))
    sending.shutdown(socket.SHUT_WR)
    tracemalloc.start()
    try:
        with pytest.raises(ConnectionResetError):
            stream.receive()
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("many", [False, True])
def test_a_wait_of_any_length_is_a_wait(many: bool) -> None:
    one, other = socket.socketpair()
    poll = frames.Poll(many)
    with one, other:
        poll.register(one)
        assert poll.wait() == poll.wait(-1e308) == []
        other.send(b"?")
        assert poll.wait(1e308) == [(one.fileno(), select.POLLIN)]
        poll.unregister(one)
        assert poll.wait() == []
        poll.unregister(one)  # once more does nothing
    poll.close()
    poll.unregister(one)  # nor when all is closed


def test_a_wait_looks_before_it_sleeps_unless_others_want_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slice_of_time, yields = [1000.0], [0.0], []
    monkeypatch.setattr(frames.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(frames.os, "cpu_count", lambda: 2)

    def give_way() -> None:
        yields.append(now[0])
        now[0] += slice_of_time[0]

    monkeypatch.setattr(frames.os, "sched_yield", give_way)

    def looks(later: float = 0.0) -> int:
        now[0] += later
        yields.clear()
        assert poll.wait(now[0] + 1e-3) == []
        return len(yields)

    poll = frames.Poll(workers=2)
    assert looks() == looks() == frames._LOOKS
    slice_of_time[0] = 1e-3
    assert looks() == 1  # it has found out
    slice_of_time[0] = 0.0
    assert looks() == looks(0.5) == 0
    assert looks(0.6) == frames._LOOKS
    assert yields and frames.Poll(workers=3).wait(now[0] + 1e-3) == []
    poll.close()


@pytest.mark.parametrize("many", [False, True])
def test_a_stream_is_waited_for_with_room_to_send_only_while_it_has_bytes_to_send(
    ends: tuple[socket.socket, Stream], many: bool
) -> None:
    other, stream = ends
    stream.sock.setblocking(False)
    poll = frames.Poll(many)
    poll.register(stream)
    size = 2**24
    for _ in range(2):
        stream.send(Frame(ANSWER, 1, payload=bytes(size)))
        poll.modify(stream)
        assert stream.sending
        came = 0
        while came < size + frames._HEAD.size + 32:
            came += len(other.recv(2**20))
            if poll.wait() == [(stream.fileno(), select.POLLOUT)]:
                stream.flush()
        assert not stream.sending and poll.wait(time.monotonic() + 5)  # for room to send, until modify
        poll.modify(stream)
        assert poll.wait() == []
    poll.close()
