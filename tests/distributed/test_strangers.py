"""Who may come in: a stranger without the job's secret does no harm, and a faulty peer little."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import re
import resource
import select
import socket
import struct
import threading
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import pytest

from fleetmetrics.comm import SocketCommunicator, addresses, client, door, handshake, message
from fleetmetrics.comm.addresses import listen
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import ANSWER, ARRIVAL, CLOSED, ERROR, GAVE_UP, LEFT, LETTERS, TROUBLE, Connection, Key
from fleetmetrics.errors import InvalidInputError, UnauthenticatedWarning
from tests.distributed import attacks
from tests.distributed.cluster import AT_ONCE, PATIENCE, free_ports
from tests.distributed.forks import SECRET, crew, member, outcome, results, run, timed, wait_for, wait_until
from tests.distributed.proxy import Edit, Message, Proxy

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]

HTTP = b"GET / HTTP/1.1\r\nHost: rank-0\r\n\r\n"
MAGIC = handshake._MAGIC


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 waits less for those who listen in its place."""
    monkeypatch.setattr(addresses, "_NEIGHBOUR_SECONDS", 0.3)


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def total(comm: SocketCommunicator, timeout: float = 20.0) -> Any:
    """The sum of rank + 1 over the workers, or an error's text."""
    return outcome(lambda: comm.all_reduce([comm.rank + 1], timeout=timeout).tolist())


def hello(rank: int, world: int = 3, proof: bytes = b"\x01" * 32) -> bytes:
    names = b"\x02" * 32, b"\x03" * 32, b"\x04" * 16, b"\x05" * 16, b"evaluate.py"
    return handshake._HELLO.pack(MAGIC, rank, world, True, *names, proof)


def knock(port: int, data: bytes = b"") -> socket.socket:
    """Connect to where rank 0 listens, or will listen, and send."""
    end = time.monotonic() + AT_ONCE
    while True:
        try:
            sock = socket.create_connection(("127.0.0.1", port), 5)
            break
        except OSError:
            assert time.monotonic() < end, "no process listens"
            time.sleep(0.002)
    sock.settimeout(PATIENCE)
    sock.sendall(data)
    return sock


def heard(sock: socket.socket) -> bytes:
    """What somebody says until it hangs up."""
    said = b""
    with sock, contextlib.suppress(ConnectionError):
        while True:
            data = sock.recv(4096)
            if not data:
                break
            said += data
    return said


def recorded() -> list[Message]:
    """What rank 1 and rank 0 of another job said, who know the same secret."""
    port, seen = free_ports(1)[0], []

    def edit(message: Message) -> Sequence[bytes]:
        seen.append(message)
        return [message.data]

    with Proxy(("127.0.0.2", port), ("127.0.0.1", port), edit=edit):
        found = run(2, lambda rank: total(member(rank, 2, port, "127.0.0.2" if rank else "127.0.0.1")))
    assert found == [[3]] * 2
    return seen


# Strangers at rank 0's door


def test_strangers_before_during_and_after_the_handshake_do_no_harm(port: int, tmp_path: Path) -> None:
    greeting, replayed, _, arrival = (message.data for message in recorded()[:4])
    bad = [
        HTTP, os.urandom(4096), MAGIC[:7], MAGIC, hello(1)[:50], hello(1), hello(1), hello(999), hello(0),
        hello(2, world=999), hello(2**32 - 1), replayed, replayed + arrival, greeting, hello(1) + arrival, b"\0" * 120,
    ]  # fmt: skip

    def work(rank: int) -> Any:
        comm = member(rank, 3, port)
        found = []
        for step in range(3):
            if rank == 2 or (step and rank == 0):
                wait_for(tmp_path / f"step {step}")
            found.append(total(comm))
        return found

    with crew(3, work) as workers:
        for step in range(3):  # before the last one is there, before and while the next exchanges go on
            guests = [knock(port, data) for data in bad]
            (tmp_path / f"step {step}").touch()
        found = results(workers)
        for guest in guests:
            guest.close()
    assert found == [[[6]] * 3] * 3


def test_a_stranger_gets_no_more_than_a_greeting_and_is_sent_away(port: int, tmp_path: Path) -> None:
    replayed = recorded()[1].data

    def work(rank: int) -> Any:
        if rank == 2:
            wait_for(tmp_path / "knocked")
        return total(member(rank, 3, port))

    with crew(3, work) as workers:
        for data in (HTTP, hello(1), hello(999), replayed):
            said = heard(knock(port, data))
            assert said.startswith(MAGIC) and len(said) in (49, 49 + 35), said
            assert said[49:52] in (b"", handshake.UNPROVEN + bytes(2))
        (tmp_path / "knocked").touch()
        assert results(workers) == [[6]] * 3


def test_silent_connections_beyond_the_limit_of_descriptors_are_bounded_in_number_and_in_time(
    port: int, tmp_path: Path
) -> None:
    def work(rank: int) -> Any:
        door.GUEST_SECONDS = 2.0
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        if rank == 2:
            wait_for(tmp_path / "knocked")
        return total(member(rank, 3, port))

    with crew(3, work) as workers:
        silent = [knock(port) for _ in range(400)]

        def opened() -> int:
            return sum(not _hung_up(sock) for sock in silent)

        wait_until(lambda: opened() <= 3 + 64)
        wait_until(lambda: opened() == 0)
        (tmp_path / "knocked").touch()
        assert results(workers) == [[6]] * 3
        for sock in silent:
            sock.close()


def _hung_up(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        while sock.recv(4096):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


# Strangers in rank 0's place


def two_on_one_machine() -> tuple[str, int, int]:
    """Endpoints of two workers, and the first two ports where rank 0 may listen."""
    while True:
        endpoints = ",".join(f"127.0.0.1:{port}" for port in free_ports(2))
        (_, first), (_, second), *_ = Job(0, 2, endpoints).candidates()
        if first != second and _free(first) and _free(second):
            return endpoints, first, second


def _free(port: int) -> bool:
    with socket.socket() as sock, contextlib.suppress(OSError):
        sock.bind(("127.0.0.1", port))
        return True
    return False


@pytest.mark.parametrize("says", ["nothing", "garbage", "a greeting", "an old greeting and welcome"])
def test_a_process_that_listens_before_rank_0_is_not_mistaken_for_it(says: str) -> None:
    endpoints, first, _ = two_on_one_machine()
    old = recorded()
    words = {
        "nothing": b"",
        "garbage": os.urandom(200),
        "a greeting": MAGIC + b"\1" + bytes(32),
        "an old greeting and welcome": old[0].data + old[2].data + old[4].data,
    }[says]

    def work(rank: int) -> Any:
        return total(SocketCommunicator(Job(rank, 2, endpoints, secret=SECRET)))

    with socket.create_server(("127.0.0.1", first)) as fake, crew(2, work) as workers:
        guest, _ = fake.accept()
        guest.sendall(words)
        with guest, fake:
            guest.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionError):
                while says != "nothing" and guest.recv(4096):
                    pass  # until the worker has had enough
            assert results(workers) == [[3]] * 2


@contextlib.contextmanager
def saying_no(ports: Sequence[int], job: Job | None = None) -> Iterator[None]:
    """A listener that says it does not know the caller; as rank 0 of a job would, if given."""
    listeners = {listener.fileno(): listener for listener in (socket.create_server(("127.0.0.1", p)) for p in ports)}
    over, poll = threading.Event(), select.poll()
    for listener in listeners.values():
        poll.register(listener, select.POLLIN)

    def serve() -> None:
        while not over.is_set():
            for descriptor, _ in poll.poll(20):
                sock, _ = listeners[descriptor].accept()
                with sock, contextlib.suppress(OSError):
                    sock.settimeout(5)
                    if job is not None:
                        guest = handshake.Guest(sock, Key(b"of another secret"), job.mark)
                        while not guest.read():
                            pass
                        guest.answer(handshake.UNPROVEN)
                    else:
                        sock.sendall(MAGIC + b"\1" + os.urandom(32))
                        sock.recv(len(hello(1)), socket.MSG_WAITALL)
                        sock.sendall(handshake.UNPROVEN + bytes(34))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for listener in listeners.values():
            listener.close()


def late_rank_0(jobs: Sequence[Job], here: Path) -> Callable[[int], Any]:
    """The work of crews whose rank 0 comes when the test says so; two exchanges."""

    def work(rank: int) -> Any:
        comm = SocketCommunicator(jobs[rank])
        if rank == 0:
            wait_for(here)
        return [timed(lambda: comm.all_reduce([rank + 1], timeout=20).tolist()) for _ in range(2)]

    return work


@pytest.mark.parametrize("where", ["one of the places", "all places", "the only place"])
def test_the_refusal_of_a_stranger_does_not_count_while_rank_0_is_late(where: str, tmp_path: Path) -> None:
    endpoints, first, _ = two_on_one_machine()
    endpoints += f",127.0.0.1:{free_ports(1)[0]}"
    endpoint = f"127.0.0.1:{first}" if where == "the only place" else ""
    jobs = [Job(rank, 3, endpoints, endpoint=endpoint, secret=SECRET) for rank in range(3)]
    ports = [port for _, port in dict.fromkeys(jobs[0].candidates())]
    ports = ports[:1] if where == "one of the places" else ports
    with contextlib.ExitStack() as stranger:
        stranger.enter_context(saying_no(ports))
        with crew(3, late_rank_0(jobs, tmp_path / "late")) as workers:
            time.sleep(2 * door.REFUSAL_SECONDS)  # as long as an error in such a case used to take, and longer
            if where != "one of the places":
                stranger.close()  # or rank 0 has no place to listen at
            (tmp_path / "late").touch()
            found = results(workers)
    assert [[value for value, _ in calls] for calls in found] == [[[6]] * 2] * 3


def test_a_worker_that_gave_up_before_rank_0_came_reports_the_reason_later(tmp_path: Path) -> None:
    """Who knows how the run is written can make the first call fail: with the same error on all, and no other."""
    endpoints, first, _ = two_on_one_machine()
    jobs = [Job(rank, 2, endpoints, secret=SECRET) for rank in range(2)]
    with contextlib.ExitStack() as stranger:
        stranger.enter_context(saying_no([first], jobs[0]))
        with crew(2, late_rank_0(jobs, tmp_path / "late")) as workers:
            time.sleep(door.REFUSAL_SECONDS + 1)
            (tmp_path / "late").touch()
            ((zero, _), again), ((one, seconds), last) = results(workers)
    assert one.startswith("AuthenticationError: rank 1 could not prove") and 3 <= seconds < AT_ONCE
    assert zero == one
    assert again[0] == last[0] == [3]


def _changed(message: Message) -> list[bytes]:
    return [message.data[:-1] + bytes([message.data[-1] ^ 1])]


TAMPERING: dict[str, Callable[[Message], list[bytes]]] = {
    "changes a number": _changed,
    "drops it": lambda message: [],
    "repeats it": lambda message: [message.data, message.data],
    "changes the head": lambda message: [message.data[:20] + b"\7" + message.data[21:]],
    "cuts it short": lambda message: [message.data[:-3]],
    "adds a byte": lambda message: [message.data + b"\0"],
}


def relaying(what: str, inward: bool) -> Edit:
    """Relay faithfully up to the second message of this direction; swap that with the next, or do as ``what`` says."""
    kept: list[bytes] = []

    def edit(message: Message) -> Sequence[bytes]:
        target = ARRIVAL if inward else ANSWER
        if message.kind != target:
            return [message.data]
        if what == "sends the one before":
            kept.append(message.data)
            return [kept[-2] if len(kept) == 2 else message.data]
        kept.append(message.data)
        return TAMPERING[what](message) if len(kept) == 2 else [message.data]

    return edit


@pytest.mark.parametrize("inward", [True, False], ids=["to rank 0", "from rank 0"])
@pytest.mark.parametrize("what", [*TAMPERING, "sends the one before"])
def test_a_relay_between_the_workers_cannot_change_a_number(what: str, inward: bool) -> None:
    endpoints, first, second = two_on_one_machine()

    def work(rank: int) -> Any:
        comm = SocketCommunicator(Job(rank, 2, endpoints, secret=SECRET))
        return [
            outcome(lambda: comm.all_reduce([rank + 1, step], timeout=1 if step else 20).tolist())  # noqa: B023
            for step in range(4)
        ]

    with Proxy(("127.0.0.1", first), ("127.0.0.1", second), edit=relaying(what, inward), patience=3):
        found = run(2, work)
    for outcomes in found:
        assert outcomes[0] == [3, 0]
        assert str(outcomes[-1]).startswith(("CommunicatorError", "DeadlineError")), found
        for step, value in enumerate(outcomes):
            assert value == [3, 2 * step] or str(value).startswith(("CommunicatorError", "DeadlineError")), found


@pytest.mark.parametrize("what", ["stranger", "tamper", "repeat"])
def test_random_attacks_without_the_secret_change_no_number(what: str) -> None:
    counts = attacks.campaign(what, 2, 0)
    assert counts["numbers"] + counts["errors"] == 2 * attacks.WORLD * attacks.CALLS
    assert not counts["wrong numbers"] and not counts["raw errors"]


def test_a_setting_omits_payloads_from_digests_in_trusted_networks(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads are sealed all the same."""
    monkeypatch.setenv("FLEETMETRICS_DIGESTS", "heads")
    for what in ("changes the head", "repeats it"):
        with Proxy(("127.0.0.2", port), ("127.0.0.1", port), edit=relaying(what, True)):

            def work(rank: int) -> Any:
                comm = member(rank, 2, port, "127.0.0.2" if rank else "127.0.0.1")
                return [total(comm, 1) for _ in range(3)]

            for outcomes in run(2, work):
                assert outcomes[0] == [3]
                assert outcomes[-1].startswith(("CommunicatorError", "DeadlineError")), outcomes


# A peer that knows the secret, and is faulty


def raw(
    connection: Connection, kind: int = ARRIVAL, call: int = 1, header: bytes = b"", payload: bytes = b"", **head: Any
) -> None:
    """Send a message that is sealed as it should be, whatever it says."""
    body = header + bytes(-len(header) % 16 if payload else 0) + payload
    values = {
        "magic": b"flt4", "step": 1, "whole": True, "channel": 0, "remaining": 5.0, "timeout": 5.0,
        "header_size": len(header), "payload_size": len(payload), "digest": hashlib.sha256(body).digest(), **head,
    }  # fmt: skip
    data = message._HEAD.pack(
        values["magic"], kind, values["whole"], 1, False, values["channel"], call, values["step"], values["remaining"],
        values["timeout"], values["header_size"], values["payload_size"], values["digest"],
    )  # fmt: skip
    seal = message._seal(connection._seals[0], connection._sent, data)
    connection._sent += 1
    connection.sock.setblocking(True)
    with contextlib.suppress(OSError):
        connection.sock.sendall(data + seal + body)
    connection.sock.setblocking(False)


#: The lines above the note in the header of a call.
LINES = b"states\n[]\nchannel 'own 1'\nall_reduce\n"
FAULTS: dict[str, dict[str, Any]] = {
    "no UTF-8": {"header": b"\xff\xfe\n\xff"},
    "no JSON": {"header": LINES + b"json {"},
    "no layout": {"header": LINES + b'json {"a": [1, 2]}'},
    "no note": {"header": LINES},
    "no lines": {"header": b""},
    "a foreign call": {"header": LINES + b"text nonsense"},
    "an unknown kind": {"kind": 77},
    "an answer": {"kind": ANSWER, "header": b"x"},
    "an error": {"kind": ERROR, "header": b"no JSON"},
    "letters": {"kind": LETTERS, "header": b"no JSON"},
    "trouble without words": {"kind": TROUBLE, "header": b"\xff"},
    "trouble of a strange kind": {"kind": TROUBLE, "header": LINES + b'json ["SystemExit", 5]'},
    "trouble in a list": {"kind": TROUBLE, "header": LINES + b"json [[], {}]"},
    "it left, in no UTF-8": {"kind": LEFT, "header": b"\xff\xff"},
    "it gave up, in no UTF-8": {"kind": GAVE_UP, "header": b"\xff\xff"},
    "another magic": {"magic": b"flt9"},
    "another digest": {"header": b"x", "digest": bytes(32)},
    "1 TiB announced": {"payload_size": 2**40},
    "1 TiB and a byte announced": {"payload_size": 2**40 + 1},
    "a header of 1 TiB announced": {"header_size": 2**40},
    "everything announced": {"payload_size": 2**64 - 1, "header_size": 2**64 - 1},
    "a deadline of nan": {"remaining": math.nan, "header": None},
    "a timeout of inf": {"timeout": math.inf, "header": None},
    "a deadline of -1e300": {"remaining": -1e300, "timeout": -1e300, "header": None},
    "no digest of the payload": {"whole": False, "header": None},
    "a nan among integers": {"payload": b"d".ljust(8, b"\0") + struct.pack("d", math.nan), "header": None},
    "a half among integers": {"payload": b"d".ljust(8, b"\0") + struct.pack("d", 0.5), "header": None},
    "a payload too short": {"payload": b"\0\0\0", "header": None},
    "a payload too long": {"payload": b"\0" * 4096, "header": None},
    "a foreign text": {"header": LINES + b'text {"states": [["a", "sum", "<i8", [1000000000000]]]}'},
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_peer_ends_in_the_same_named_error_on_the_other_ranks(port: int, fault: str, tmp_path: Path) -> None:
    """Rank 0 calls last, so that its deadline is that of the faulty peer alone."""
    options, spoken = dict(FAULTS[fault]), tmp_path / "spoken"

    def work(rank: int) -> Any:
        comm = member(rank, 3, port)
        if rank == 1:
            connection = greeted(comm)
            if options.get("header", b"") is None:  # what a worker says
                options["header"] = _header_of_all_reduce()
            raw(connection, **{"channel": comm._number, **options})
            spoken.touch()
            connection.sock.settimeout(PATIENCE)
            heard(connection.sock)
            return None
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if rank == 0:
            comm.listen()
            server: Any = comm._end
            wait_for(spoken)
            wait_until(lambda: server._past.failed or any(2 in m.arrivals for m in list(server._meetings.values())))
        found, seconds = timed(lambda: comm.all_reduce([rank + 1], timeout=1 if rank == 0 else 60).tolist())
        return found, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    (first, seconds, more), _, (third, *_) = run(3, work)
    assert first == third
    assert first.startswith(("CommunicatorError", "AgreementError", "DeadlineError")), first
    assert re.search(r"ranks? (0, )?1\b", first), first
    assert ("payload" in options) <= ("the message from rank 1 cannot be read" in first), first
    assert seconds < 1 + AT_ONCE and more < 100_000  # KiB


def greeted(comm: SocketCommunicator) -> Connection:
    """A worker's connection to rank 0, on which the test speaks."""
    host, port = comm._job.endpoint.split(":")
    key, end = comm._end.secret.key, time.monotonic() + AT_ONCE
    while True:
        try:
            found = handshake.greet(comm._job, key, bytes(16), handshake.NONE, True, (host, int(port)), 5.0)
        except OSError:
            assert time.monotonic() < end, "rank 0 does not listen"
            time.sleep(0.01)
            continue
        return found.connection


def _header_of_all_reduce() -> bytes:
    """The header of all_reduce over one whole number, as this version writes it."""
    seen: list[message.Message] = []

    def ask(asked: message.Message) -> None:
        seen.append(asked)
        raise RuntimeError("it is seen")

    comm = member(0, 2, free_ports(1)[0])
    comm._end.ask = ask  # type: ignore[method-assign]
    outcome(lambda: comm.all_reduce([1], timeout=1))
    return seen[0].header


@pytest.mark.parametrize(
    "answer",
    [
        {"kind": ANSWER, "header": b"\xff\xff"},
        {"kind": ANSWER, "header": b"\njson {"},
        {"kind": ANSWER, "header": b"", "payload": b"\0\0\0"},
        {"kind": ANSWER, "header": b'\njson {"a": 1}'},
        {"kind": ANSWER, "header": b"", "payload": b"d".ljust(8, b"\0") + struct.pack("d", 0.5)},
        {"kind": ERROR, "header": b"no JSON"},
        {"kind": ERROR, "header": b'["KeyboardInterrupt", "x", false]'},
        {"kind": ERROR, "header": b"[]"},
        {"kind": ERROR, "header": b"\xff"},
        {"kind": ARRIVAL, "header": b"\xff"},
        {"kind": 77},
        {"kind": ANSWER, "payload_size": 2**40},
        {"kind": ANSWER, "payload_size": 2**63},
        {"kind": CLOSED, "header": b"\xff"},
        {"kind": LETTERS, "header": b"[[1, 2]]"},
    ],
    ids=lambda answer: " ".join(map(str, answer.values())),
)  # fmt: skip
def test_a_faulty_rank_0_ends_in_a_named_error(port: int, answer: dict[str, Any]) -> None:
    def work(rank: int) -> Any:
        comm = member(rank, 2, port)
        if rank:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            found = outcome(lambda: comm.all_reduce([1], timeout=2).tolist())
            return found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        with listen(comm._job, comm._end.secret.key) as listener:
            listener.setblocking(True)
            sock, _ = listener.accept()
            guest = handshake.Guest(sock, comm._end.secret.key, comm._job.mark)
            while not guest.read():
                pass
            connection = guest.answer(handshake.WELCOME, bytes(16))
            raw(connection, **{"channel": comm._number, **answer})
            connection.sock.settimeout(PATIENCE)
            heard(connection.sock)
        return None

    _, (found, more) = run(2, work)
    assert isinstance(found, str) and found.startswith(("CommunicatorError", "DeadlineError")), found
    assert more < 100_000  # KiB


# Secrets


@pytest.mark.parametrize(("who", "named"), [(2, "rank 2"), (0, "ranks 1, 2")])
def test_a_secret_that_differs_is_an_error_in_seconds_on_all_and_never_printed(port: int, who: int, named: str) -> None:
    def work(rank: int) -> Any:
        logging.basicConfig(level=logging.DEBUG)
        job = Job(rank, 3, endpoint=f"127.0.0.1:{port}", secret="hush-1" if rank == who else "hush-2")
        comm = SocketCommunicator(job)
        calls = [timed(lambda: comm.all_reduce([1], timeout=60)) for _ in range(2)]
        return calls, f"{job!r} {comm!r} {vars(comm)!r} {vars(comm._end)!r}"

    for rank, (calls, shown) in enumerate(run(3, work)):
        for text, seconds in calls:
            assert text.startswith("AuthenticationError: rank"), text
            assert (named in text) or (who == 0 and f"rank {rank} " in text)
            assert seconds < AT_ONCE
            assert "hush" not in text + shown


@pytest.mark.parametrize("who", [2, 0])
def test_workers_with_another_secret_get_an_error_in_seconds_even_one_after_the_other(
    port: int, who: int, tmp_path: Path
) -> None:
    """Who has had its error and has ended tries no more: what rank 0 has seen of it counts all the same."""

    def work(rank: int) -> Any:
        client.REFUSAL_SECONDS = door.REFUSAL_SECONDS = 0.5
        comm = SocketCommunicator(Job(rank, 3, endpoint=f"127.0.0.1:{port}", secret="1" if rank == who else "2"))
        late = rank == (1 if who else 2)
        if late:
            wait_for(tmp_path / "the other one has ended")
        calls = [timed(lambda: comm.all_reduce([1], timeout=40)) for _ in range(2)]
        if rank and not late:
            (tmp_path / "the other one has ended").touch()
        return calls

    for rank, calls in enumerate(run(3, work)):
        for text, seconds in calls:
            assert text.startswith("AuthenticationError: rank"), (rank, calls)
            assert seconds < AT_ONCE


@pytest.mark.parametrize(
    ("variable", "value", "rank"),
    [
        ("FLEETMETRICS_ENDPOINT", "10.0.0.1", 1),
        ("FLEETMETRICS_ENDPOINT", "10.0.0.1:port", 1),
        ("FLEETMETRICS_ENDPOINT", ":80", 1),
        ("FLEETMETRICS_ENDPOINT", "10.0.0.1:65536", 0),
        ("FLEETMETRICS_ENDPOINT", "10.0.0.1:²", 0),
        ("FLEETMETRICS_BIND", "no address", 0),
        ("FLEETMETRICS_BIND", "999.0.0.1", 0),
        ("FLEETMETRICS_DIGESTS", "none", 0),
    ],
)
def test_a_malformed_setting_is_named_with_its_value(
    port: int, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, rank: int
) -> None:
    place = {
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINER_ENDPOINTS": f"127.0.0.1:{port},127.0.0.1:{port + 1}",
        "FLEETMETRICS_SECRET": SECRET,
    }
    for name, text in {**place, variable: value}.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(InvalidInputError) as caught:
        SocketCommunicator().barrier(timeout=0.5)
    assert variable in str(caught.value) and repr(value) in str(caught.value)


def test_several_machines_without_a_secret_exchange_numbers_with_one_warning_and_no_pickle(port: int) -> None:
    def work(rank: int) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            job = Job(
                rank, 2, "10.9.9.1:9001,10.9.9.2:9002", endpoint=f"0.0.0.0:{port}", bind="" if rank else "127.0.0.1"
            )
            comm = SocketCommunicator(job)
            again = SocketCommunicator(job)
            sums = [total(comm), total(again)]
            text = outcome(lambda: comm.all_gather_object({1, 2}, allow_pickle=True, timeout=20))
            objects = outcome(lambda: comm.all_gather_object([rank, "x", None], timeout=20))
        warned = [str(each.message) for each in caught if issubclass(each.category, UnauthenticatedWarning)]
        return sums, text, objects, warned

    first, second = run(2, work)
    assert first[:3] == second[:3]
    assert first[0] == [[3], [3]]
    assert "set" in first[1] and "FLEETMETRICS_SECRET" in first[1] and "allow_pickle" in first[1], first[1]
    assert first[2] == [[0, "x", None], [1, "x", None]]
    assert len(first[3]) + len(second[3]) == 1
    assert "FLEETMETRICS_SECRET" in (first[3] + second[3])[0]
