"""Attacks jobs at random moments without their secret, and counts the outcomes: `make attacks`.

A stranger connects to rank 0 and says something before, between or after the exchanges. A tamperer relays for rank 1
and changes, shortens, lengthens or drops one message, of the handshake or later, in either direction; a repeater says
one twice, or an earlier one in its place. None of them may change a number, and every call must end in time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import socket
import time
from collections import Counter
from typing import Any, Sequence

from fleetmetrics.comm import handshake
from tests.distributed.cluster import free_ports
from tests.distributed.forks import BEFORE, crew, member, results, timed
from tests.distributed.proxy import Message, Proxy

WORLD, CALLS = 3, 6
#: Seconds: of each exchange, and beyond them for a busy machine.
TIMEOUT, SLACK = 2.0, 5.0


class Relay:
    """Of what one worker and rank 0 say to each other one message is not what it was."""

    def __init__(self, what: str, chance: random.Random) -> None:
        self.inward, self.target = chance.random() < 0.5, chance.randrange(8)
        self.how = chance.choice(
            ["change", "drop", "shorten", "lengthen"] if what == "tamper" else ["twice", "earlier"]
        )
        self.chance = chance
        self.seen: list[bytes] = []

    def __call__(self, message: Message) -> Sequence[bytes]:
        data = message.data
        if message.inward != self.inward or not data:
            return [data]
        self.seen.append(data)
        if len(self.seen) - 1 != self.target:
            return [data]
        place = self.chance.randrange(len(data))
        return {
            "change": [data[:place] + bytes([data[place] ^ 1 << self.chance.randrange(8)]) + data[place + 1 :]],
            "drop": [],
            "shorten": [data[:place]],
            "lengthen": [data[:place] + os.urandom(self.chance.randrange(1, 200)) + data[place:]],
            "twice": [data, data],
            "earlier": [self.chance.choice(self.seen)],
        }[self.how]


def words(chance: random.Random, heard: Sequence[bytes]) -> bytes:
    """What a stranger says."""
    rank, world = chance.choice([0, 1, 2, 3, 2**32 - 1]), chance.choice([2, 3, 999])
    sizes = 32, 32, 16, 16, 100, 32
    hello = handshake._HELLO.pack(handshake._MAGIC, rank, world, chance.random() < 0.5, *map(os.urandom, sizes))
    noise = [b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(chance.randrange(1, 4096)), bytes(120)]
    words = [handshake._MAGIC, hello, hello[:50]]
    return chance.choice(noise + words + [b"".join(heard[: chance.randrange(1, 9)])] * 3)


def campaign(what: str, cases: int, seed: int, timeout: float = TIMEOUT) -> Counter[str]:
    """Return how often what happened to jobs under attack.

    Args:
        what: "stranger", "tamper" or "repeat".
        cases: how many jobs.
        seed: of the random moments.
        timeout: seconds of each exchange.
    """
    chance = random.Random(f"{what} {seed}")
    counts: Counter[str] = Counter()
    earlier: list[bytes] = []  # what a worker of the job before has said
    for _ in range(cases):
        port = free_ports(1)[0]
        relay = Relay(what, chance)
        if what == "stranger":
            relay.target = -1
        with Proxy((BEFORE, port), ("127.0.0.1", port), edit=relay, patience=10) as _:

            def work(rank: int) -> list[tuple[Any, float]]:
                comm = member(rank, WORLD, port, BEFORE if rank == 1 else "127.0.0.1")  # noqa: B023
                found = []
                for call in range(CALLS):
                    value = timed(lambda: comm.all_reduce([rank + 1, call], timeout=timeout).tolist())  # noqa: B023
                    found.append(value)
                    time.sleep(0.002)
                return found

            with crew(WORLD, work) as workers:
                guests = [_visit(port, words(chance, earlier), chance) for _ in range(10 * (what == "stranger"))]
                found = results(workers, 60 + CALLS * timeout)
                for guest in guests:
                    guest.close()
        earlier = relay.seen if relay.inward else earlier
        counts += _count(found, timeout)
        counts["jobs"] += 1
        counts["strangers"] += len(guests)
    return counts


def _visit(port: int, data: bytes, chance: random.Random) -> socket.socket:
    """Connect to rank 0 as soon as it listens, and say so much."""
    time.sleep(chance.random() * 0.005)
    guest, end = socket.socket(), time.monotonic() + 2
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            guest = socket.create_connection(("127.0.0.1", port), 2)
            guest.sendall(data)
            break
        time.sleep(0.002)
    return guest


def _count(found: Sequence[list[tuple[Any, float]]], timeout: float) -> Counter[str]:
    counts: Counter[str] = Counter()
    for outcomes in found:
        for call, (value, seconds) in enumerate(outcomes):
            error = isinstance(value, str)
            counts["numbers"] += not error
            counts["wrong numbers"] += not error and value != [6, WORLD * call]
            counts["errors"] += error
            counts["raw errors"] += error and value.startswith("RAW")
            counts["too late"] += seconds > timeout + SLACK
    counts["jobs with an error"] += any(isinstance(value, str) for outcomes in found for value, _ in outcomes)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="jobs under attack, of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT, help="seconds of each exchange; more on a busy machine"
    )
    parser.add_argument("what", nargs="*", default=["stranger", "tamper", "repeat"])
    options = parser.parse_args()
    names = ["jobs", "strangers", "numbers", "wrong numbers", "errors", "raw errors", "too late", "jobs with an error"]
    print("".join(f"{name:>20}" for name in ["", *names]))
    for each in options.what:
        start = time.monotonic()
        total = campaign(each, options.cases, options.seed, options.timeout)
        print("".join(f"{text:>20}" for text in [each, *(total[name] for name in names)]), end="")
        print(f"   ({time.monotonic() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
