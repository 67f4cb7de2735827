"""A worker's end of the channel: how it finds rank 0, and how it takes rank 0's words, which the test says."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Iterator

import pytest

from fleetmetrics.comm import SocketCommunicator, client, handshake
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import ANSWER, ARRIVAL, CLOSED, ERROR, GAVE_UP, Connection, Key, Message
from fleetmetrics.errors import AuthenticationError, CommunicatorError, DeadlineError, FleetMetricsError
from tests.comm.test_message import heard
from tests.distributed.cluster import AT_ONCE, PATIENCE, SLACK
from tests.distributed.forks import wait_until

pytestmark = pytest.mark.numpy_only

RANK_0 = b"number of rank 0"
LATE = json.dumps(["DeadlineError", "rank 1 did not arrive", False]).encode()


class Rank0:
    """A listener on which the test plays rank 0 for one worker, whose calls run in a thread."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)
        self.worker = member(self.listener.getsockname()[1])
        self.threads = ThreadPoolExecutor(2)
        self.connection: Connection | None = None

    def begin(self, timeout: float = 5.0) -> Future[Any]:
        return self.threads.submit(lambda: self.worker.consult("auc", _never, "mine", timeout=timeout).note)

    def welcome(self, code: bytes = handshake.WELCOME, text: bytes = RANK_0) -> handshake.Guest:
        """Answer the worker's next connection."""
        sock, _ = self.listener.accept()
        sock.settimeout(PATIENCE)
        guest = handshake.Guest(sock, self.worker._end.secret.key, self.worker._job.mark)
        while not guest.read():
            pass
        self.connection = guest.answer(code, text)
        return guest

    def hear(self, kind: int = ARRIVAL) -> Message:
        """What the worker says, up to a message of this kind."""
        assert self.connection is not None
        while True:
            message = heard(self.connection)
            if message.kind == kind:
                return message

    def say(self, kind: int, call: int, header: bytes = b"text a number", **settings: Any) -> None:
        assert self.connection is not None
        self.connection.send(Message(kind, self.worker._number, call, header=header, **settings))

    def close(self) -> None:
        self.listener.close()
        if self.connection is not None:
            self.connection.close()
        self.threads.shutdown()
        self.worker.close()


def _never(letters: object) -> Any:
    raise AssertionError("only the first rank decides")


def member(port: int = 1, **settings: Any) -> SocketCommunicator:
    settings = {"endpoint": f"127.0.0.1:{port}", "secret": "of the test", **settings}
    return SocketCommunicator(Job(1, 2, **settings))


@pytest.fixture
def rank_0() -> Iterator[Rank0]:
    made = Rank0()
    yield made
    made.close()


# Finding rank 0


def refusing(rank_0: Rank0, times: int) -> threading.Thread:
    """Let somebody with another secret answer so often."""

    def serve() -> None:
        for _ in range(times):
            sock, _ = rank_0.listener.accept()
            with sock, contextlib.suppress(OSError):
                guest = handshake.Guest(sock, Key(b"of another secret"), rank_0.worker._job.mark)
                while not guest.read():
                    pass
                guest.answer(handshake.UNPROVEN)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_worker_with_another_secret_does_not_wait_for_a_rank_0_that_has_ended_since(rank_0: Rank0) -> None:
    thread = refusing(rank_0, client.ENOUGH_REFUSALS)
    start = time.monotonic()
    call = rank_0.begin(timeout=60)
    thread.join()
    rank_0.listener.close()
    with pytest.raises(AuthenticationError, match="rank 1 could not prove to rank 0 that it knows the job's secret"):
        call.result(PATIENCE)
    assert time.monotonic() - start < AT_ONCE


def test_a_name_that_is_not_known_yet_is_looked_up_again_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def look_up(host: str) -> list[str]:
        asked.append(host)
        if len(asked) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ["127.0.0.1"]

    monkeypatch.setattr(client, "addresses_of", look_up)
    with member(endpoint="", endpoints="rank-0.invalid:1,rank-1.invalid:1") as worker:
        with pytest.raises(DeadlineError, match=r"rank 0 did not connect .* Tried: .*127\.0\.0\.1:\d+ \("):
            worker.barrier(timeout=1)
        assert set(asked) == {"rank-0.invalid"}
        assert len({port for _, port in worker._job.candidates()}) > 1


@pytest.mark.parametrize(
    "error, trouble",
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "is not known, Name or service"),
        (OSError(errno.EMFILE, "Too many open files"), "cannot be looked up, Too many open files"),
    ],
)
def test_a_name_that_stays_unknown_is_said(monkeypatch: pytest.MonkeyPatch, error: OSError, trouble: str) -> None:
    def unknown(host: str) -> list[str]:
        raise error

    monkeypatch.setattr(client, "addresses_of", unknown)
    with member(endpoint="rank-0.invalid:80") as worker, pytest.raises(
        DeadlineError, match=rf"Tried: rank-0.invalid:80 \(the name 'rank-0.invalid' {trouble}"
    ):
        worker.barrier(timeout=0.3)


def test_silent_addresses_of_a_name_do_not_keep_a_worker_from_the_last(
    rank_0: Rank0, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_STEP_SECONDS", (0.1, 1.0))
    port = rank_0.listener.getsockname()[1]
    monkeypatch.setattr(client, "addresses_of", lambda host: ["127.0.0.2", "127.0.0.3", "127.0.0.1"])
    with socket.create_server(("127.0.0.2", port)), socket.create_server(("127.0.0.3", port)):
        call = rank_0.begin(timeout=20)
        rank_0.welcome()
        rank_0.hear()
        rank_0.say(ANSWER, 1)
        assert call.result(PATIENCE) == "a number"


@pytest.mark.parametrize("several", [False, True])
def test_a_worker_that_meets_another_run_waits_for_its_own_only_where_it_may_come(
    several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "REFUSAL_SECONDS", 0.2)

    def other(*_: Any) -> Any:
        raise handshake.OtherRun("FLEETMETRICS_RUN yesterday")

    monkeypatch.setattr(client, "greet", other)
    place = {"endpoint": "", "endpoints": "127.0.0.1:1,127.0.0.1:2"} if several else {}
    error = DeadlineError if several else CommunicatorError
    with member(**place) as worker, pytest.raises(error, match=r"rank 0 of another run \(FLEETMETRICS_RUN yesterday\)"):
        worker.barrier(timeout=0.6 if several else 60)


def test_a_worker_names_the_version_that_rank_0_speaks(rank_0: Rank0) -> None:
    call = rank_0.begin(timeout=0.5)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = rank_0.listener.accept()
                with sock:
                    sock.sendall(b"fleetmetrics 3\r\n\1" + bytes(32))
                    sock.recv(1000)

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(DeadlineError, match=r"it speaks version 3 of the protocol, and this process version 4"):
        call.result(PATIENCE)
    rank_0.listener.shutdown(socket.SHUT_RDWR)
    thread.join(PATIENCE)


def test_without_a_descriptor_a_worker_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise OSError(24, "Too many open files")

    with member() as worker, pytest.raises(DeadlineError, match="Too many open files"):
        monkeypatch.setattr(socket, "create_connection", refused)
        worker.barrier(timeout=0.3)
    monkeypatch.setattr(os, "pipe", refused)
    with pytest.raises(CommunicatorError, match=r"cannot open a pipe \(Too many open files\)"):
        member(2)


def test_without_a_thread_a_call_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise RuntimeError("can't start new thread")

    worker = member(3)
    with monkeypatch.context() as patch, pytest.raises(CommunicatorError, match="can't start new thread"):
        patch.setattr(threading.Thread, "start", refused)
        worker.barrier(timeout=5)
    worker.close()


# What rank 0 says


def test_an_answer_that_was_in_time_counts_although_it_is_read_late(rank_0: Rank0) -> None:
    """A process that was stopped reads it when it goes on."""
    call = rank_0.begin(timeout=1.0)
    rank_0.welcome()
    rank_0.hear()
    rank_0.hear(GAVE_UP)
    rank_0.say(ANSWER, 1)
    assert call.result(PATIENCE) == "a number"


def test_without_an_answer_a_worker_gives_up(rank_0: Rank0) -> None:
    call = rank_0.begin(timeout=0.5)
    rank_0.welcome()
    with pytest.raises(DeadlineError, match=r"rank 0 did not answer within 0.5 s at exchange 1 \(auc\)"):
        call.result(PATIENCE)


@pytest.mark.parametrize("when", ["before the call", "while it connects"])
def test_the_verdict_of_a_call_that_has_not_begun_is_kept(rank_0: Rank0, when: str) -> None:
    if when == "before the call":
        rank_0.worker.connect()
    else:
        rank_0.worker._end.start()
    rank_0.welcome()
    rank_0.say(ERROR, 1, LATE)
    wait_until(lambda: bool(rank_0.worker._end._verdicts))
    with pytest.raises(DeadlineError, match=r"^rank 1 did not arrive$"):
        rank_0.begin(timeout=20).result(PATIENCE)


@pytest.mark.parametrize(("kind", "header", "found"), [(ANSWER, b"text a number", "a number"), (ERROR, LATE, None)])
def test_the_last_words_of_a_rank_0_that_has_ended_count(
    rank_0: Rank0, kind: int, header: bytes, found: str | None
) -> None:
    call = rank_0.begin(timeout=20)
    rank_0.welcome()
    rank_0.hear()
    rank_0.say(kind, 1, header)
    assert rank_0.connection is not None
    rank_0.connection.close()
    with contextlib.nullcontext() if found else pytest.raises(DeadlineError, match="rank 1 did not arrive"):
        assert call.result(PATIENCE) == found
    start = time.monotonic()
    for _ in range(2):
        with pytest.raises(CommunicatorError, match="rank 0 has gone away"):
            rank_0.begin(timeout=20).result(15)
        assert time.monotonic() - start < SLACK


def test_what_a_first_connection_lost_is_said_again_on_the_next(rank_0: Rank0) -> None:
    call = rank_0.begin(timeout=20)
    for _ in range(2):
        rank_0.welcome()
        assert rank_0.hear().header.endswith(b"text mine")
        assert rank_0.connection is not None
        rank_0.connection.close()
    guest = rank_0.welcome()
    assert guest.rank_0 == RANK_0  # it tells whom it has met
    rank_0.hear()
    rank_0.say(ANSWER, 1)
    assert call.result(PATIENCE) == "a number"


def test_a_rank_0_that_ends_before_it_says_anything_is_gone_for_this_and_every_later_call(rank_0: Rank0) -> None:
    call = rank_0.begin(timeout=60)
    rank_0.welcome()
    rank_0.listener.close()
    assert rank_0.connection is not None
    rank_0.connection.close()
    start = time.monotonic()
    for again in (call, None):
        with pytest.raises(CommunicatorError, match="rank 0 has gone away"):
            (again or rank_0.begin(timeout=60)).result(PATIENCE)
    assert time.monotonic() - start < AT_ONCE


def test_a_closed_channel_of_rank_0_is_an_error_and_its_next_one_is_found(rank_0: Rank0) -> None:
    call = rank_0.begin(timeout=20)
    rank_0.welcome()
    rank_0.hear()
    assert rank_0.connection is not None
    rank_0.connection.send(Message(CLOSED, header=b"\xff"))
    with pytest.raises(CommunicatorError, match="rank 0 has gone away: it closed the channel"):
        call.result(PATIENCE)
    call = rank_0.begin(timeout=20)
    rank_0.welcome()
    rank_0.hear()
    rank_0.say(ANSWER, 2)
    assert call.result(PATIENCE) == "a number"


FAULTS: dict[str, dict[str, Any]] = {
    "an answer that is no UTF-8": {"kind": ANSWER, "header": b"text \xff\xff"},
    "an answer that is no JSON": {"kind": ANSWER, "header": b"json {"},
    "an answer with a deep note": {"kind": ANSWER, "header": b"json " + b"[" * 200_000},
    "an error that is no JSON": {"kind": ERROR, "header": b"no JSON"},
    "an error that is no error": {"kind": ERROR, "header": b'["KeyboardInterrupt", "of the test", false]'},
    "an empty error": {"kind": ERROR, "header": b"[]"},
    "an error that is no UTF-8": {"kind": ERROR, "header": b"\xff"},
    "an arrival": {"kind": ARRIVAL, "header": b"\xff"},
    "a departure": {"kind": GAVE_UP, "header": b""},
    "letters without their fields": {"kind": 7, "header": b"[[1, 2]]"},
    "letters without an end": {"kind": 7, "header": b"[" * 200_000},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nonsense_of_rank_0_is_a_named_error_at_once(rank_0: Rank0, fault: str) -> None:
    call = rank_0.begin(timeout=60)
    rank_0.welcome()
    rank_0.hear()
    start = time.monotonic()
    rank_0.say(call=1, **FAULTS[fault])
    with pytest.raises(FleetMetricsError, match=r"rank 0|^of the test$"):
        call.result(PATIENCE)
    assert time.monotonic() - start < AT_ONCE


# The thread of this end


@pytest.mark.parametrize("where", ["_find", "_receive", "_send"])
def test_a_failure_of_the_thread_is_an_error_of_this_and_every_later_call(
    rank_0: Rank0, where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("of the test")

    monkeypatch.setattr(rank_0.worker._end, where, fails)
    call = rank_0.begin(timeout=60)
    if where != "_find":
        rank_0.welcome()
        rank_0.say(ANSWER, 1)
    start = time.monotonic()
    for again in (call, None):
        with pytest.raises(CommunicatorError, match=r"the channel of rank 1 failed \(ZeroDivisionError: of the test\)"):
            (again or rank_0.begin(timeout=60)).result(PATIENCE)
    assert time.monotonic() - start < AT_ONCE
    assert "ZeroDivisionError" in caplog.text


def test_a_thread_that_cannot_even_say_so_leaves_nobody_waiting(rank_0: Rank0, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError("of the test")

    for name in ("_find", "_break"):
        monkeypatch.setattr(rank_0.worker._end, name, fails)
    start = time.monotonic()
    for _ in range(2):
        with pytest.raises(CommunicatorError, match=r"the channel of rank 1 failed \(ZeroDivisionError: of the test\)"):
            rank_0.begin(timeout=60).result(PATIENCE)
    assert time.monotonic() - start < AT_ONCE


def test_a_channel_that_another_thread_closes_leaves_nobody_waiting(rank_0: Rank0) -> None:
    call = rank_0.begin(timeout=60)
    rank_0.welcome()
    rank_0.hear()
    rank_0.worker.close()
    with pytest.raises(CommunicatorError, match="the workers' channel was closed while this call waited"):
        call.result(PATIENCE)


def test_threads_that_call_first_at_the_same_time_start_one_thread(rank_0: Rank0) -> None:
    end, gate = rank_0.worker._end, threading.Barrier(8)

    def start() -> None:
        gate.wait(10)
        end.start()

    starters = [threading.Thread(target=start) for _ in range(8)]
    before = sum(thread.name == "fleetmetrics" for thread in threading.enumerate())
    for thread in starters:
        thread.start()
    for thread in starters:
        thread.join()
    assert sum(thread.name == "fleetmetrics" for thread in threading.enumerate()) == before + 1


def test_a_process_ends_once_rank_0_has_its_last_words(rank_0: Rank0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_SEE_OFF_SECONDS", 30.0)
    rank_0.worker.connect()
    rank_0.welcome()
    worker: Any = rank_0.worker._end
    wait_until(lambda: worker._connection is not None)
    worker.ask(Message(ARRIVAL, payload=bytes(2**26)))
    wait_until(lambda: worker._connection.sending)
    ending = threading.Thread(target=worker.see_off)
    ending.start()
    ending.join(0.2)
    assert ending.is_alive()
    rank_0.hear(ARRIVAL)
    ending.join(PATIENCE)
    assert not ending.is_alive()


def test_a_closed_end_writes_to_no_descriptor_that_another_file_has_got(rank_0: Rank0) -> None:
    end = rank_0.worker._end
    numbers = {end._woken, end._wakes}
    rank_0.worker.connect()
    rank_0.welcome()
    rank_0.worker.close()
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
    try:
        assert numbers & set(files)
        end.ask(Message(GAVE_UP))
    finally:
        for file in files:
            os.close(file)
    assert end._wakes == -1


def test_what_a_thread_is_sending_is_still_left_to_send(rank_0: Rank0) -> None:
    """Or a process might end between taking its last message and sealing it: `see_off` waits until nothing is left."""
    end = rank_0.worker._end
    message, left = Message(CLOSED, 7), []
    end._asked.append(message)
    end._take_asked(lambda taken: left.append((taken is message, list(end._asked))))
    assert left == [(True, [message])] and not end._asked
