"""Kills workers and cuts connections at random moments of many exchanges, and counts the outcomes: `make kills`.

A split is an exchange that ended with a number on one surviving rank and with an error on another. It is reported if
each of them has an error at the latest at the next exchange, and by name if those with a number have one that names the
exchange.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.distributed.cluster import free_ports
from tests.distributed.forks import BEFORE, crew, member, results, timed, wait_for
from tests.distributed.proxy import Proxy

#: The most exchanges of a job.
CALLS = 200
#: Seconds: of each exchange; and beyond them for a busy machine.
TIMEOUT, SLACK = 0.5, 3.0


def campaign(what: str, cases: int, seed: int = 0, world: int = 3, timeout: float = TIMEOUT) -> Counter[str]:
    """Return how often what happened.

    Args:
        what: "kill" or "cut".
        cases: how many.
        seed: of the random moments.
        world: the number of workers.
        timeout: seconds of each exchange.
    """
    chance = random.Random(f"{what} {seed}")
    counts: Counter[str] = Counter()
    port = free_ports(1)[0]
    with Proxy((BEFORE, port), ("127.0.0.1", port)) as proxy:
        for _ in range(cases):
            with tempfile.TemporaryDirectory() as directory:
                found = _case(what, world, timeout, chance, port, proxy, Path(directory))
            counts += _count(found, world, timeout)
            counts["cases"] += 1
    return counts


def _case(
    what: str, world: int, timeout: float, chance: random.Random, port: int, proxy: Proxy, directory: Path
) -> list[Any]:
    """What each worker saw; None of one that was killed."""

    def work(rank: int) -> list[tuple[Any, float]]:
        comm = member(rank, world, port, BEFORE if rank and what == "cut" else "127.0.0.1")
        found: list[tuple[Any, float]] = []
        errors = 0
        while errors < 3 and len(found) < CALLS:
            call = len(found) + 1
            found.append(timed(lambda: comm.all_reduce([rank + 1, call], timeout=timeout).tolist()))  # noqa: B023
            errors += isinstance(found[-1][0], str)
            if call == 1 and rank == 0:
                (directory / "begun").touch()
        return found

    early = chance.random() < 0.1
    with crew(world, work) as workers:
        if not early:
            wait_for(directory / "begun")
        time.sleep(chance.random() * (0.05 if early else 0.01))
        if what == "kill":
            workers[chance.randrange(world)].kill()
        else:
            rank, how = chance.randrange(1, world), chance.choice(["reset", "end", "hold"])
            if how == "hold":
                proxy.hold()
                time.sleep(chance.choice([0.01, timeout]))
                proxy.heal()
            else:
                proxy.cut_one(rank, reset=how == "reset")
            if early:  # the cut may have hit no connection
                time.sleep(0.2)
                proxy.cut()
        return results(workers, 150 + 4 * timeout)


def _count(found: list[Any], world: int, timeout: float) -> Counter[str]:
    counts: Counter[str] = Counter()
    alive = {rank: outcomes for rank, outcomes in enumerate(found) if outcomes is not None}
    for outcomes in alive.values():
        for call, (value, seconds) in enumerate(outcomes, 1):
            counts["numbers"] += not isinstance(value, str)
            counts["wrong numbers"] += not isinstance(value, str) and value != [world * (world + 1) // 2, world * call]
            counts["raw errors"] += isinstance(value, str) and value.startswith("RAW")
            counts["too late"] += seconds > timeout + SLACK
            if seconds > timeout + SLACK:
                print(f"after {seconds:.1f} s: {value}")
    for call in range(1, CALLS):  # the last one has no next exchange
        seen = {rank: outcomes[call - 1][0] for rank, outcomes in alive.items() if len(outcomes) >= call}
        failed = {rank for rank, value in seen.items() if isinstance(value, str)}
        if not failed or len(failed) == len(seen):
            continue
        after = [[str(value) for value, _ in alive[rank][call:]] for rank in seen if rank not in failed]
        told = all(texts and "Error: " in texts[0] for texts in after)
        counts["splits"] += 1
        counts["splits told by name"] += all(
            any(re.search(rf"(?i)exchange {call}\b", text) for text in texts) for texts in after
        )
        counts["splits not told"] += not told
        if not told:
            print(call, seen, {rank: outcomes[call - 1 :] for rank, outcomes in alive.items()})
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="kills, and the same number of cuts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument(
        "--timeout", type=float, default=TIMEOUT, help="seconds of each exchange; more for many workers"
    )
    parser.add_argument("what", nargs="*", default=["kill", "cut"], help="kill, cut or both")
    options = parser.parse_args()
    names = ["cases", "numbers", "wrong numbers", "raw errors", "too late", "splits", "splits told by name"]
    names.append("splits not told")
    print("".join(f"{name:>21}" for name in ["", *names]))
    for each in options.what:
        start = time.monotonic()
        total = campaign(each, options.cases, options.seed, options.workers, options.timeout)
        print("".join(f"{text:>21}" for text in [each + "s", *(total[name] for name in names)]), end="")
        print(f"   ({time.monotonic() - start:.0f} s)", flush=True)
