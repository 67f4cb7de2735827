"""The workers' letters of one exchange as they arrive at rank 0, and the answer to all of them."""

from __future__ import annotations

import functools
import json
from typing import Any, Callable, NamedTuple, Sequence

from fleetmetrics.comm.failures import Trouble, by_rank, raise_trouble
from fleetmetrics.comm.folds import FOLDS, answered
from fleetmetrics.comm.letters import body_of, check_size, note_in, read_each
from fleetmetrics.comm.message import ANSWER, ARRIVAL, LETTERS, TROUBLE, Message, Place
from fleetmetrics.errors import AgreementError
from fleetmetrics.serial.descriptions import Letter, joined

__all__ = ["Arrival", "answer_with", "arrival_in", "arrivals_in", "bundled", "decided", "folded"]


class Arrival(NamedTuple):
    """A worker's letter, as it has arrived."""

    message: Message
    fold: str  #: the name of the decision, if it is one of `FOLDS`
    ranks: tuple[int, ...]  #: of the group; (): the whole job
    title: str  #: the channel in words
    call: str
    note: Any
    trouble: Trouble | None


@functools.lru_cache(maxsize=256)
def _read_header(header: bytes) -> tuple[str, tuple[int, ...], str, str, str]:
    fold, ranks, title, call, body = header.decode("utf-8", "surrogatepass").split("\n", 4)
    members = tuple(json.loads(ranks))
    if len(set(members)) < len(members) or any(type(rank) is not int or rank < 0 for rank in members):
        raise ValueError(f"no ranks are {ranks}")
    return fold, members, title, call, body


def arrival_in(message: Message, rank: int) -> Arrival:
    """The letter in a message, or the trouble; an error names the worker whose message cannot be read."""

    def parsed(message: Message) -> Arrival:
        fold, ranks, title, call, body = _read_header(message.header)
        if message.kind == TROUBLE:
            name, text = json.loads(body[5:])
            return Arrival(message, fold, ranks, title, call, None, (str(name), str(text)))
        return Arrival(message, fold, ranks, title, call, note_in(body), None)

    return read_each([message], parsed, rank)[0]


def answer_with(place: Place, letter: Letter) -> Message:
    """The message with an answer."""
    header = body_of(letter.note)
    check_size(header)
    return Message(ANSWER, *place, header=header, payload=joined(letter.payload))


def folded(arrivals: Sequence[Arrival], number: int) -> Letter | None:
    """The answer, if rank 0's thread can give it by itself; None: the first rank's program must.

    Raises:
        FleetMetricsError: a worker is in trouble, or the workers disagree on the call.
    """
    raise_trouble([arrival.trouble for arrival in arrivals])
    first = arrivals[0]
    same = all(arrival.call == first.call and arrival.fold == first.fold for arrival in arrivals)
    if not same:
        return decided(lambda _: _differ(arrivals), arrivals, number)
    return decided(FOLDS[first.fold], arrivals, number) if first.fold in FOLDS else None


def _differ(arrivals: Sequence[Arrival]) -> Letter:
    kinds = by_rank(arrival.fold or "code of the program" for arrival in arrivals)
    raise AgreementError(f"the workers disagree: they decide {arrivals[0].call} by {kinds}; do all run one version?")


def decided(decide: Callable[[Sequence[Letter]], Letter], arrivals: Sequence[Arrival], number: int) -> Letter:
    """The answer of a decision to the letters."""
    letters = [Letter(arrival.note, arrival.message.payload) for arrival in arrivals]
    return answered(decide, number, [arrival.call for arrival in arrivals], letters)


def bundled(place: Place, arrivals: Sequence[Arrival]) -> Message:
    """All letters in one message, for the first rank of a group."""
    sizes = [[len(arrival.message.header), len(arrival.message.payload)] for arrival in arrivals]
    parts = [part for arrival in arrivals for part in (arrival.message.header, arrival.message.payload)]
    return Message(LETTERS, *place, header=json.dumps(sizes).encode(), payload=b"".join(parts))


def arrivals_in(message: Message) -> list[Arrival]:
    """The letters in a message of `bundled`; those for rank 0's own program are not written out."""
    if isinstance(message.payload, list):
        return message.payload
    arrivals, start, data = [], 0, memoryview(message.payload)
    for rank, (header, payload) in enumerate(json.loads(message.header)):
        middle, end = start + header, start + header + payload
        one = Message(ARRIVAL, *message.place, header=bytes(data[start:middle]), payload=data[middle:end])
        arrivals.append(arrival_in(one, rank))
        start = end
    return arrivals
