"""How rank 0 and a worker prove themselves to each other."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from typing import Any, Callable, Iterator

import pytest

from fleetmetrics.comm import handshake
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import Connection, Key
from tests.distributed.cluster import PATIENCE, SLACK, free_ports

pytestmark = pytest.mark.numpy_only

KEY = Key(b"known to both")
SESSION = b"of this process "
RANK_0 = b"number of rank 0"


def greeted(job: Job, where: tuple[str, int], step: float = 10.0, key: Key = KEY) -> handshake.Found:
    return handshake.greet(job, key, SESSION, handshake.NONE, True, where, step)


def test_a_listener_that_ends_or_sends_slowly_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname()) as client:
            other, _ = listener.accept()
            other.close()
            start = time.monotonic()
            with pytest.raises(ConnectionRefusedError):
                handshake._received(client, 9, 60)
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
                    handshake._received(client, 1000, seconds)
        thread.join()


def test_a_socket_that_is_connected_to_itself_is_not_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens if no process listens at a port from which connections begin."""

    def itself(address: Any, timeout: float) -> socket.socket:
        sock = socket.socket()
        sock.bind(address)
        sock.connect(address)
        return sock

    monkeypatch.setattr(socket, "create_connection", itself)
    with pytest.raises(ConnectionRefusedError, match="to itself"):
        greeted(Job(1, 2), ("127.0.0.1", free_ports(1)[0]), 1.0)


# -- proofs and keys --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def met(whole: bool = True, delay: float = 0.0) -> Iterator[tuple[handshake.Guest, Connection, handshake.Found]]:
    """A worker and rank 0 that let it in: the guest, rank 0's connection, and what the worker has found."""
    found: list[handshake.Found] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        job = Job(1, 2, endpoint="127.0.0.1:1", program="evaluate.py")
        thread = threading.Thread(target=lambda: found.append(greeted(job, listener.getsockname())))
        thread.start()
        sock, _ = listener.accept()
        guest = handshake.Guest(sock, KEY, job.mark, whole)
        while not guest.read():
            pass
        time.sleep(delay)
        connection = guest.answer(handshake.WELCOME, RANK_0)
        thread.join()
    try:
        yield guest, connection, found[0]
    finally:
        connection.close()
        found[0].connection.close()


def test_no_two_meetings_say_or_seal_the_same() -> None:
    seen = set()
    for _ in range(2):
        with met() as (guest, ours, found):
            assert guest.proven
            sent, received = (seal.hexdigest() for seal in ours._seals)
            assert [seal.hexdigest() for seal in found.connection._seals] == [received, sent]
            seen |= {guest._greeting, guest._bytes[25:57], sent, received}  # with the nonces of both
    assert len(seen) == 8


@pytest.mark.parametrize("whole", [False, True])
def test_both_know_who_the_other_is_and_what_digests_cover(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETMETRICS_DIGESTS", "all" if not whole else "heads")  # a worker's own, which rank 0 decides
    with met(whole) as (guest, ours, found):
        assert (guest.rank, guest.world_size, guest.calls) == (1, 2, True)
        assert (guest.session, guest.rank_0, guest.program) == (SESSION, handshake.NONE, "evaluate.py")
        assert found.number == RANK_0
        assert ours._whole is found.connection._whole is whole


def refused(answer: Callable[[socket.socket, Job], Any]) -> tuple[BaseException, bytes]:
    """The error of a worker that a listener answers so, and what the listener hears last: b"" at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        job = Job(1, 2, endpoint=f"127.0.0.1:{listener.getsockname()[1]}")
        last: list[bytes] = []

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.settimeout(PATIENCE)
                answer(sock, job)
                sock.settimeout(PATIENCE)  # again: that of a connection is 0
                last.append(sock.recv(1000))

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(Exception) as caught:
            greeted(job, listener.getsockname())
        thread.join()  # while the error, which holds the socket, is there
    return caught.value, last[0]


def refuse(sock: socket.socket, job: Job, key: bytes, code: bytes, why: bytes) -> None:
    guest = handshake.Guest(sock, Key(key), job.mark)
    while not guest.read():
        pass
    guest.answer(code, why)


def test_a_worker_tells_refusals_another_run_another_secret_and_strangers_apart_and_closes_its_socket() -> None:
    error, last = refused(lambda *both: refuse(*both, KEY, handshake.OTHER_RUN, b"job \x1b[2J b"))
    assert isinstance(error, handshake.OtherRun) and last == b""
    assert re.search(r"^job .*2J b$", str(error)) and "\x1b" not in str(error)
    error, last = refused(lambda *both: refuse(*both, KEY, handshake.REFUSED, b"a second process"))
    assert isinstance(error, handshake.Refused) and str(error) == "a second process" and last == b""
    error, last = refused(lambda *both: refuse(*both, b"another secret", handshake.UNPROVEN, b""))
    assert isinstance(error, handshake.Unproven) and last == b""

    def stranger(sock: socket.socket, _: Job) -> None:
        sock.sendall(GREETING)
        sock.recv(handshake._HELLO.size, socket.MSG_WAITALL)
        sock.sendall(handshake._WELCOME.pack(handshake.UNPROVEN, 0, bytes(32)))

    error, last = refused(stranger)
    assert isinstance(error, handshake.Stranger) and last == b""


@pytest.mark.parametrize("code", [handshake.WELCOME, handshake.REFUSED, handshake.OTHER_RUN, b"?"])
def test_a_worker_believes_no_answer_without_a_proof_and_reads_no_more_of_it_than_rank_0_may_send(code: bytes) -> None:
    def verbose(sock: socket.socket, _: Job) -> None:
        sock.sendall(GREETING)
        sock.recv(handshake._HELLO.size, socket.MSG_WAITALL)
        sock.sendall(handshake._WELCOME.pack(code, 65_535, bytes(32)) + b"x" * handshake._TEXT_BYTES)

    start = time.monotonic()
    error, _ = refused(verbose)
    assert isinstance(error, ConnectionRefusedError) and "not rank 0 of this job" in str(error)
    assert time.monotonic() - start < SLACK


def test_what_follows_an_answer_in_pieces_is_left_for_the_messages() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"abc")
        later = threading.Timer(0.1, theirs.sendall, [b"defmessages"])
        later.start()
        assert handshake._received(ours, 6, 10) == b"abcdef"
        assert ours.recv(100) == b"messages"
        later.join()


def test_the_round_trip_that_a_worker_measures_is_the_time_of_the_answer() -> None:
    with met(delay=0.2) as (_, _, found):
        assert 0.15 < found.round_trip < SLACK


GREETING = handshake._GREETING.pack(handshake._MAGIC, True, bytes(32))


def test_proofs_and_keys_follow_from_the_secret_the_role_and_every_word() -> None:
    talks = [
        handshake._Talk(KEY, GREETING, b"hello"),
        handshake._Talk(Key(b"other"), GREETING, b"hello"),
        handshake._Talk(KEY, GREETING[:-1] + b"x", b"hello"),
        handshake._Talk(KEY, GREETING, b"hullo"),
    ]
    proofs = [talk.prove(role) for talk in talks for role in (b"worker", b"rank 0")]
    keys = [key for talk in talks for key in talk.keys(at_rank_0=True)[:2]]
    assert len({*proofs, *keys}) == 16


def guest_and_its_end() -> tuple[handshake.Guest, socket.socket, bytes]:
    """A guest, the socket on its side, and the greeting that it got."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname(), 10)
        ours, _ = listener.accept()
    ours.settimeout(0)  # as rank 0's are
    guest = handshake.Guest(ours, KEY, b"mark")
    return guest, theirs, theirs.recv(1000)


def read(guest: handshake.Guest) -> bool:
    """Read what was sent; a byte takes a moment from one socket to the other."""
    for _ in range(10):
        if guest.read():
            return True
        time.sleep(0.01)
    return False


def hello_to(greeting: bytes, key: bytes = KEY) -> bytes:
    names = bytes(32), bytes(32), SESSION, RANK_0, b"evaluate.py"
    said = handshake._HELLO.pack(handshake._MAGIC, 1, 2, True, *names, bytes(32))[:-32]
    return said + handshake._Talk(Key(key), greeting, said).prove(b"worker")


def test_what_proved_a_worker_in_one_meeting_proves_nobody_in_the_next() -> None:
    former, its, greeting = guest_and_its_end()
    with former.sock, its:
        its.sendall(hello_to(greeting))
        assert read(former) and former.proven
        guest, repeater, _ = guest_and_its_end()
        with guest.sock, repeater:
            repeater.sendall(hello_to(greeting))
            assert read(guest) and not guest.proven


def test_who_has_not_proved_itself_hears_no_reason() -> None:
    for key, text in ((b"other", b""), (KEY, b"why")):
        guest, its, greeting = guest_and_its_end()
        with guest.sock, its:
            its.sendall(hello_to(greeting, key))
            assert read(guest) and guest.proven == (key == KEY)
            guest.answer(handshake.OTHER_RUN, b"why")
            assert its.recv(1000)[handshake._WELCOME.size :] == text


def test_a_guest_is_read_to_the_end_of_its_hello_and_no_further() -> None:
    guest, its, greeting = guest_and_its_end()
    with guest.sock, its:
        hello = hello_to(greeting)
        assert not guest.read()
        for part in (hello[:7], hello[7:50]):
            its.sendall(part)
            assert not read(guest)
        its.sendall(hello[50:] + b"messages")
        assert read(guest) and guest.proven
        guest.sock.settimeout(PATIENCE)
        assert guest.sock.recv(1000) == b"messages"


@pytest.mark.parametrize("said", [b"fleetmetrics x\r\n", b"f\r\n", handshake._MAGIC + b" and no end"])
def test_a_guest_that_is_no_worker_or_ends_is_sent_away_at_once(said: bytes) -> None:
    guest, its, _ = guest_and_its_end()
    with guest.sock, its:
        its.sendall(said)
        if said.startswith(handshake._MAGIC):
            assert not read(guest)
            its.close()
        with pytest.raises((ConnectionRefusedError, ConnectionResetError)) as caught:
            read(guest)
        assert not isinstance(caught.value, handshake.OtherVersion)


VERSIONS = (
    "it speaks version 3 of the protocol, and this process version 4: install the same fleetmetrics on all workers"
)


def test_both_ends_name_both_versions_of_the_protocol() -> None:
    guest, its, _ = guest_and_its_end()
    with guest.sock, its:
        its.sendall(b"fleetmetrics 3\r\n and a hello")
        with pytest.raises(handshake.OtherVersion, match=VERSIONS):
            read(guest)
    error, last = refused(lambda sock, _: sock.sendall(b"fleetmetrics 3\r\n\1" + bytes(32)))
    assert isinstance(error, handshake.OtherVersion) and str(error) == VERSIONS
    assert last == handshake._MAGIC  # which names this version to the other end


@pytest.mark.parametrize("said", [b"SSH-2.0\r\n", b"", GREETING])
def test_a_listener_that_is_silent_is_left_after_a_step_and_another_service_at_once(said: bytes) -> None:
    step, error = (9.0, ConnectionRefusedError) if said.startswith(b"SSH") else (0.3, (TimeoutError, socket.timeout))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held = []

        def answer() -> None:
            held.append(listener.accept()[0])
            held[0].sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        start = time.monotonic()
        with pytest.raises(error):
            greeted(Job(1, 2), listener.getsockname(), step)
        assert time.monotonic() - start < SLACK
        thread.join()
        held[0].close()
