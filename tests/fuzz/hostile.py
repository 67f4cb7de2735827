"""What a stranger or a faulty peer may send, made of any bytes: each function here lets only the channel's errors out.

`test_channel.py` calls them with bytes of hypothesis, `atheris_frames.py` with those of a fuzzer that sees which lines
they reach.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import hmac
import json
import socket
import struct
from typing import Any, Iterator, Sequence
from unittest import mock

import numpy as np

from fleetmetrics.comm import Block, RowKeys, arrivals, channel, folds, handshake, letters, message
from fleetmetrics.comm.communicator import Communicator, Decide, Letter
from fleetmetrics.comm.failures import error_in
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.message import Connection, Garbled, Keys, Message
from fleetmetrics.comm.roster import Worker
from fleetmetrics.comm.server import Server
from fleetmetrics.errors import CommunicatorError, FleetMetricsError
from fleetmetrics.serial.descriptions import joined

KEY, NONCE = b"k" * 32, b"n" * 32
WORDS: list[Any] = [
    None, True, -1, 0, 1, 7, 2**31, 2**40, 2**60, 2**63, 10**30, 1.5, float("nan"), "", "a", "int64", "float64", "keys",
    "O", "V8", "S2147483647", "<U536870911", "<f8", "g", "i4,i4", "(1000000000,)f8", "<M8[s]", "S0", "2", "8", "d",
    [], {}, [[]], [2**40], [0], [2**32, 2**32], ["none"], [1, ["none"]],
]  # fmt: skip


class Choices:
    """Any bytes, as a row of decisions; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def taken(self, size: int) -> bytes:
        found, self.data = self.data[:size], self.data[size:]
        return found

    def below(self, number: int) -> int:
        return int.from_bytes(self.taken(1 + (number > 256)), "big") % number


class Wire:
    """A socket on which these bytes arrive, a few at a time, and then the end."""

    def __init__(self, data: bytes, step: int = 1 << 20) -> None:
        self.data, self.step = memoryview(data), step

    def recv(self, size: int) -> bytes:
        part = bytes(self.data[: min(size, self.step)])
        self.data = self.data[len(part) :]
        return part

    def recv_into(self, target: memoryview) -> int:
        part = self.recv(len(target))
        target[: len(part)] = part
        return len(part)

    def send(self, data: bytes) -> int:
        return len(data)

    def getsockname(self) -> str:
        return "here"

    def getpeername(self) -> str:
        return "there"

    def nothing(self, *arguments: Any) -> None:
        pass

    setblocking = setsockopt = settimeout = sendall = close = nothing


def _sealed(choices: Choices) -> bytes:
    """Messages with heads of any content: sealed with the right key, most of them with the right digest."""
    found = []
    for number in range(1 + choices.below(3)):
        kinds, wrong = choices.below(10), choices.below(8)
        header = choices.taken(choices.below(100))
        sizes = [len(header), choices.below(64)]
        body = header + bytes(-len(header) % 16 if sizes[1] else 0) + choices.taken(sizes[1]).ljust(sizes[1], b"\0")
        if wrong == 1:
            sizes[choices.below(2)] = int.from_bytes(choices.taken(8), "big")
        if wrong == 2:
            sizes[choices.below(2)] = 2 ** choices.below(64)
        seconds = struct.unpack("!dd", choices.taken(16).ljust(16, b"\0")) if wrong == 3 else (1.0, 2.0)
        digest = hashlib.sha256(body).digest() if wrong != 4 else choices.taken(32)
        magic, whole = (message._MAGIC, True) if wrong != 5 else (choices.taken(4), False)
        numbers = [int.from_bytes(choices.taken(2), "big") for _ in range(3)]
        head = message._HEAD.pack(magic, kinds, whole, 1, False, *numbers, *seconds, *sizes, digest)
        found += [head, hmac.digest(KEY, struct.pack("!Q", number) + head, "sha256"), body]
    return b"".join(found)


def messages_of_a_peer(data: bytes) -> None:
    """Any bytes, or sealed messages of any content, are read as messages, and their headers as what they may be."""
    choices = Choices(data)
    known, step = choices.below(4), 1 + choices.below(300)
    sent = _sealed(choices) if known else choices.data
    if known == 1 and sent:
        place = choices.below(len(sent))
        sent = sent[:place] + bytes([sent[place] ^ (1 + choices.below(255))]) + sent[place + 1 :]
    connection = Connection(Wire(sent, step), Keys(b"", KEY))  # type: ignore[arg-type]
    with contextlib.suppress(OSError):
        for _ in range(5):
            one = connection.receive()
            assert known and one is not None
            headers_of_a_peer(one.header)


def headers_of_a_peer(data: bytes) -> None:
    """Any header is a letter's, trouble, an answer's or an error; or it is refused with the rank that sent it."""
    for kind, read in (
        (message.ARRIVAL, lambda one: arrivals.arrival_in(one, 1)),
        (message.TROUBLE, lambda one: arrivals.arrival_in(one, 1)),
        (message.ANSWER, lambda one: letters.read_each([one], channel._answer_in)),
    ):
        with contextlib.suppress(FleetMetricsError):
            read(Message(kind, header=data))
    assert isinstance(error_in(data)[0], FleetMetricsError)


def guests_of_rank_0(data: bytes) -> None:
    """A process that connects to rank 0 proves itself, or is no worker."""
    choices = Choices(data)
    knows, step = choices.below(2), 1 + choices.below(100)
    with mock.patch.object(handshake.secrets, "token_bytes", lambda size: NONCE):
        guest = handshake.Guest(Wire(b""), KEY, b"mark")  # type: ignore[arg-type]
    size = handshake._HELLO.size - handshake._PROOF_BYTES
    said = choices.taken(size) if choices.below(2) else (handshake._MAGIC + choices.taken(72)).ljust(size, b"\0")
    proof = hmac.digest(KEY, b"worker" + guest._greeting + said, "sha256")
    guest.sock = Wire(said + (proof if knows else choices.taken(32).ljust(32, b"\0")), step)  # type: ignore[assignment]
    with contextlib.suppress(OSError):
        while not guest.read():
            pass
        assert guest.proven == bool(knows)
        guest.answer(handshake.WELCOME)


def greetings_of_rank_0(data: bytes) -> None:
    """A process that accepts a worker's connection proves that it is rank 0, or is passed by."""
    choices = Choices(data)
    knows, step = choices.below(2), 1 + choices.below(100)
    greeting = choices.taken(49) if choices.below(2) else handshake._MAGIC + choices.taken(33).ljust(33, b"\0")
    job = Job(1, 2, endpoint="127.0.0.1:1")
    program = job.program.encode()[: handshake._PROGRAM_BYTES]
    said = handshake._HELLO.pack(
        handshake._MAGIC, 1, 2, True, NONCE, job.name, NONCE[:16], handshake.NONE, program, b""
    )[: -handshake._PROOF_BYTES]
    code = [b"w", b"s", b"n", b"r", b"x", choices.taken(1) or b"x"][choices.below(6)]
    why = choices.taken(choices.below(2000))
    proved = b"rank 0" + code + why + greeting + said
    proof = hmac.digest(KEY, proved, "sha256") if knows else choices.taken(32).ljust(32, b"\0")
    wire = Wire(greeting + handshake._WELCOME.pack(code, len(why), proof) + why, step)
    with mock.patch.object(handshake.secrets, "token_bytes", lambda size: NONCE), mock.patch.object(
        socket, "create_connection", lambda *arguments: wire
    ), contextlib.suppress(OSError, handshake.Refused, handshake.OtherRun, handshake.Unproven):
        handshake.greet(job, KEY, NONCE[:16], handshake.NONE, True, ("127.0.0.1", 1), 1.0)  # type: ignore[arg-type]
        assert knows


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    for place in range(len(tree)) if isinstance(tree, list) else tree if isinstance(tree, dict) else ():
        yield tree, place
        yield from _places(tree[place])


class Faulty(Communicator):
    """Worker 1 or 0 of 2, where the other one changes what it says."""

    authenticated = True

    def __init__(self, choices: Choices, rank: int) -> None:
        self.choices, self.rank, self.world_size = choices, rank, 2
        self.calls = 0

    def changed(self, letter: Letter) -> Letter:
        choices, tree = self.choices, [json.loads(json.dumps(letter.note))]
        text = isinstance(tree[0], str) and tree[0].startswith("[")
        tree = [json.loads(tree[0])] if text else tree
        for _ in range(choices.below(4)):
            places = list(_places(tree))
            parent, place = places[choices.below(len(places))]
            others = [*WORDS, *(each[at] for each, at in places)]
            parent[place] = copy.deepcopy(others[choices.below(len(others))])
        payload = bytearray(joined(letter.payload))
        for _ in range(choices.below(4)):
            place = choices.below(len(payload) + 1)
            payload[place : place + choices.below(9)] = choices.taken(choices.below(9))
        return Letter(json.dumps(tree[0]) if text else tree[0], memoryview(payload))

    def consult(
        self,
        call: str,
        decide: Decide,
        note: Any = None,
        payload: Any = b"",
        *,
        timeout: Any = None,
        trouble: Any = None,
    ) -> Letter:
        self.calls += 1
        if trouble is not None or self.calls > 5:
            raise CommunicatorError(str(trouble))
        mine = Letter(json.loads(json.dumps(note)), joined(payload))
        try:
            answer = decide([mine, self.changed(mine)] if self.rank == 0 else [mine, mine])
        except FleetMetricsError:
            raise
        except Exception as error:  # as rank 0 does
            raise CommunicatorError(f"rank 0 failed to combine: {error}") from error
        answer = Letter(json.loads(json.dumps(answer.note)), joined(answer.payload))
        return answer if self.rank == 0 else self.changed(answer)


def letters_of_a_peer(data: bytes) -> None:
    """For any notes and payloads, every operation of a worker or rank 0 gives a result or a named error."""
    choices = Choices(data)
    comm = Faulty(choices, choices.below(2))
    large = choices.below(8) == 0
    numbers = np.arange(70_000 if large else 70)
    rows = numbers[: len(numbers) // 4 * 4].reshape(4, -1)
    table = RowKeys("keys", np.array([3, 5, 8]), 3 + choices.below(2))
    work: Sequence[Any] = [
        lambda: comm.reduce("auc", [Block("a", "sum", numbers), Block("b", "max", np.ones((2, 3)))]),
        lambda: comm.reduce("by key", [table, Block("a", "sum", rows, "keys"), Block("b", "max", np.ones(3))]),
        lambda: comm.all_gather(numbers),
        lambda: comm.all_gather(np.array(["a", "bc"])),
        lambda: comm.broadcast(np.array([b"abc"]), choices.below(2)),
        lambda: comm.shuffle("s", [Letter("for 0", b"ab"), Letter({"for": 1}, b"cde")]),
        lambda: comm.all_gather_object({"a": [1, "b", np.ones(2)]}),
        lambda: comm.barrier(),
    ]
    with contextlib.suppress(FleetMetricsError), np.errstate(all="ignore"):
        work[choices.below(len(work))]()


class Quiet(Connection):
    """A connection whose other end takes everything."""

    def __init__(self) -> None:
        self.sock, self._unsent, self._received = Wire(b""), [], 1  # type: ignore[assignment]

    def fileno(self) -> int:
        return -1

    def send(self, message: Message) -> None:
        message.ready(True)


def _said(choices: Choices) -> Message:
    """What a worker may say of a few exchanges."""
    kind = [message.ARRIVAL] * 9 + [*range(1, 10)]
    kind, place = kind[choices.below(18)], (choices.below(3), choices.below(3), 1 + choices.below(2))
    fold = [*folds.FOLDS, "", "a"][choices.below(len(folds.FOLDS) + 2)]
    ranks: Any = [[], [1, 2], [2, 1, 0]][place[0]]
    if choices.below(8) == 0:
        ranks = [[0, 1], [1, 1], [7, 1], [-1], [True], "12"][choices.below(6)]
    note = [WORDS[choices.below(len(WORDS))], ["DeadlineError", "late"], "text", choices.data.hex()][choices.below(4)]
    call = ["auc", "auc", "\x1b[2J", "\ud800"][choices.below(4)]
    header = f"{fold}\n{json.dumps(ranks)}\ntitle\n{call}\njson {json.dumps(note)}".encode("utf-8", "surrogatepass")
    if choices.below(4) == 0:
        header = [json.dumps(note).encode(), choices.taken(50), header[: choices.below(100)]][choices.below(3)]
    seconds, end = [0.0, 1.0, 1e300, 1e9][choices.below(4)], [0.0, 1e300, 1e9, 1e9, 1e9][choices.below(5)]
    payload = memoryview(choices.taken(choices.below(40)))
    return Message(kind, *place, header, payload, end, seconds, (choices.below(4), choices.below(2) > 0))


def words_of_workers(data: bytes) -> None:
    """Whatever workers say, rank 0's thread loses one of them at most, and its records stay consistent."""
    choices = Choices(data)
    server = Server(Job(0, 3, endpoint="127.0.0.1:1", secret="known", named=True))
    mine = letters.header_of("", [], "title", "auc", "mine")
    try:
        for step in range(1, 31):
            rank = choices.below(4)
            if rank == 3:
                with mock.patch.object(server, "_open_door", lambda calls: None):
                    server._arrive(0, Message(message.ARRIVAL, choices.below(3), 9, step, mine, b"", 1e9, 1e9))
            elif rank:
                if rank not in server._roster.workers:
                    server._roster.workers[rank] = Worker(Quiet(), rank, NONCE[:16], 0.0)
                with contextlib.suppress(Garbled):
                    server._hear(rank, _said(choices))
            server._flush()
            server._wakes_at()
            server._look_at_clock()
            assert all(set(meeting.arrivals) <= set(meeting.ranks) for meeting in server._meetings.values())
    finally:
        server.drop()


TARGETS = [
    messages_of_a_peer, headers_of_a_peer, guests_of_rank_0, greetings_of_rank_0, letters_of_a_peer, words_of_workers,
]  # fmt: skip
