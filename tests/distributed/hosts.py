"""Run jobs on three hosts with a wide-area network between them, and say what every worker saw: `make hosts`.

Each host is a namespace of the kernel with its own address, name and hosts file; a packet takes 20 ms from one to
another, and 1 % of them are lost: `network`. Two workers run on each host. Every exchange must end with the number of
one process, or with a named error that is the same on all workers that are reached, before the deadline.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import random
import re
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Collection, Iterator, List, Mapping, Sequence, Tuple

import numpy as np

import fleetmetrics
import fleetmetrics.comm
import fleetmetrics.functional  # before the forks, and before the clock runs
from fleetmetrics.comm import message
from tests.distributed.forks import Fork, crew, results, timed, wait_for
from tests.distributed.network import Network, enter_namespaces

HOSTS = ("node1", "node2", "node3")
WORLD = 2 * len(HOSTS)
DELAY, LOSS = 0.02, 0.01
#: Seconds: of calls that end by themselves, and of those that end by the deadline; beyond them; and of what happens at
#: once, on a busy machine whose network loses packets.
PLENTY, TIMEOUT, SLACK, AT_ONCE = 300.0, 8.0, 4.0, 8.0
SAMPLES = 6_000
#: Where rank 0 of every job may listen if a firewall asks for it; and the trainers' ports.
ENDPOINT, FIRST_PORT = "node1:7700", 8500

#: What a worker saw of a call: a value, or the text of an error; and the seconds.
Seen = Tuple[Any, float]
Step = Callable[[int], Any]
Acts = Mapping[int, Callable[[List[Fork]], None]]


def host_of(rank: int) -> str:
    """The host of a worker."""
    return HOSTS[rank * len(HOSTS) // WORLD]


def variables(rank: int, **others: str) -> dict[str, str]:
    """What a launcher on three hosts gives a worker."""
    endpoints = [f"{host_of(other)}:{FIRST_PORT + other}" for other in range(WORLD)]
    return {
        "PADDLE_TRAINERS_NUM": str(WORLD),
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
        "FLEETMETRICS_RUN": "hosts",
        "FLEETMETRICS_SECRET": "known to the workers of three hosts",
        **others,
    }


@contextlib.contextmanager
def job(network: Network, work: Step, **others: str) -> Iterator[list[Fork]]:
    """Run a function on all workers; see `crew`."""

    def begin(rank: int) -> Any:
        network.enter(host_of(rank))
        os.environ.update(variables(rank, **others))
        return work(rank)

    with crew(WORLD, begin) as workers:
        yield workers


def play(
    network: Network,
    steps: Sequence[Step],
    before: Acts | None = None,
    during: Acts | None = None,
    late: Collection[int] = (),
    **others: str,
) -> list[Any]:
    """Run steps on all workers, one after the other, and something between them or in them.

    Args:
        network: of the hosts.
        steps: what every worker does, by its rank; the outcome and its seconds.
        before: by step: done when all have ended the step before.
        during: by step: done when all have begun.
        late: ranks for which no step waits: that end, or stand still.
        others: variables of the workers.

    Returns:
        What each worker saw, by step; None of one that was killed.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)

        def work(rank: int) -> list[Any]:
            seen = []
            for number, step in enumerate(steps):
                wait_for(directory / f"step {number}", PLENTY)
                seen.append(step(rank))
                (directory / f"{rank} ended {number}").touch()
            return seen

        with job(network, work, **others) as workers:
            for number in range(len(steps)):
                if before and number in before:
                    before[number](workers)
                (directory / f"step {number}").touch()
                if during and number in during:
                    during[number](workers)
                for rank in set(range(WORLD)) - set(late):
                    wait_for(directory / f"{rank} ended {number}", PLENTY + SLACK)
            return results(workers, PLENTY)


def by_call(seen: list[Any]) -> list[list[Seen]]:
    """What the workers that live saw, by step."""
    return [list(calls) for calls in zip(*(own for own in seen if own is not None))]


SUM = float(sum(range(WORLD)))


def add(rank: int, timeout: float = PLENTY) -> Seen:
    """Sum the ranks."""
    return timed(lambda: float(fleetmetrics.sum(rank, timeout=timeout).item()))


def large(rank: int, timeout: float = PLENTY) -> Seen:
    """Sum an array of 16 MB, of which every element is to become `SUM`."""
    whole = np.full(1 << 21, float(rank))
    return timed(lambda: float(np.unique(fleetmetrics.sum(whole, timeout=timeout)).item()))


# -- what must be so


class Broken(AssertionError):
    """What a promise does not hold."""


def right(seen: Sequence[Seen], value: Any = SUM) -> None:
    """Every worker has this number."""
    if any(own != value for own, _ in seen):
        raise Broken(f"not {value!r} on all: {seen}")


def fine(seen: Sequence[Seen], value: Any, seconds: float) -> None:
    """Every worker has this number, or a named error in time."""
    for own, taken in seen:
        if isinstance(own, str) and (own.startswith("RAW") or taken > seconds):
            raise Broken(f"after {taken:.1f} s: {own}")
        if not isinstance(own, str) and own != value:
            raise Broken(f"a wrong number, {own!r}, in {seen}")


def failed(seen: Sequence[Seen], pattern: str, seconds: float, same: bool = True) -> None:
    """Every worker has a named error with these words, in time; and it is the same on all."""
    fine(seen, Broken, seconds)
    for own, _ in seen:
        if not re.search(pattern, own):
            raise Broken(f"an error without {pattern!r}: {own!r}")
    if same and len({own for own, _ in seen}) > 1:
        raise Broken("different errors: " + "\n  ".join(sorted({own for own, _ in seen})))


def told(seen: Sequence[Seen], following: Sequence[Seen]) -> bool:
    """Return whether only some workers have a number; then all must have an error at the next call."""
    split = len({isinstance(own, str) for own, _ in seen}) > 1
    if split and not all(isinstance(own, str) for own, _ in following):
        raise Broken(f"a split that is not told: {seen}, then {following}")
    return split


# -- operations


def data(rank: int | None) -> tuple[np.ndarray, ...]:
    """Scores, labels, users, slices: of one worker, or of all."""
    chance = np.random.RandomState(7)
    whole = (
        chance.rand(SAMPLES),
        chance.randint(0, 2, SAMPLES),
        chance.randint(0, 300, SAMPLES),
        np.array(["web", "app", "tv"])[chance.randint(0, 3, SAMPLES)],
    )
    return whole if rank is None else tuple(part[rank::WORLD] for part in whole)


def operations(rank: int | None, group: Sequence[int] | None = None) -> dict[str, Any]:
    """The value of each operation; of one process if ``rank`` is None."""
    scores, labels, users, slices = data(rank)
    if rank is None and group is not None:
        parts = [data(member) for member in group]
        scores, labels, users, slices = (np.concatenate(column) for column in zip(*parts))
    metrics = {
        "AUC": fleetmetrics.AUC(),
        "AUC of 16 MB": fleetmetrics.AUC(buckets=1 << 20),
        "ExactAUC": fleetmetrics.ExactAUC(),
        "GAUC": fleetmetrics.GAUC(),
        "Sliced": fleetmetrics.Sliced(fleetmetrics.AUC(), by="place"),
        "Accuracy": fleetmetrics.Accuracy(),
    }
    values = {}
    for name, metric in metrics.items():
        extra = {"GAUC": {"user": users}, "Sliced": {"place": slices}}.get(name, {})
        metric.add(scores, labels, **extra)
        values[name] = metric.compute(group=None if rank is None else group, timeout=PLENTY)
    return {name: repr(value) for name, value in values.items()}


def values(network: Network) -> None:
    """AUC, a state of 16 MB, records, users, slices and groups give the numbers of one process on every rank."""
    groups = [list(range(0, WORLD, 2)), list(range(1, WORLD, 2))]

    def work(rank: int) -> Any:
        return timed(lambda: operations(rank)), timed(lambda: operations(rank, groups[rank % 2]))

    alone, by_group = operations(None), [operations(None, group) for group in groups]
    with job(network, work) as workers:
        seen = results(workers, 2 * PLENTY)
    for rank, ((whole, _), (part, _)) in enumerate(seen):
        for name, value in alone.items():
            if whole[name] != value:
                raise Broken(f"{name} on rank {rank}: {whole[name]}, not {value}")
            if part[name] != by_group[rank % 2][name]:
                raise Broken(f"{name} of a group on rank {rank}: {part[name]}, not {by_group[rank % 2][name]}")
    print(f"    {max(whole[1] for whole, _ in seen):.1f} s over all, {max(part[1] for _, part in seen):.1f} in groups")


def without_secret(network: Network) -> None:
    """Without a secret numbers travel with one warning."""

    def work(rank: int) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = add(rank)
        return value, [type(each.message).__name__ for each in caught]

    with job(network, work, FLEETMETRICS_SECRET="") as workers:
        seen = results(workers, PLENTY)
    right([value for value, _ in seen])
    print("    warnings:", [names for _, names in seen])


# -- workers that end or stop


def dies(network: Network, rank: int, call: Step, in_call: bool) -> None:
    """A worker is killed before or in a call: the same error on all others at once, and in every later call."""

    def kill(workers: list[Fork]) -> None:
        time.sleep(0.5)
        workers[rank].kill()

    def others(own: int) -> Any:
        time.sleep(PLENTY if own == rank and call is add else 0)
        return call(own)

    act = {"during" if in_call else "before": {1: kill}}
    seen = play(network, [add, others, add], late={rank}, **act)  # type: ignore[arg-type]
    first, second, third = by_call(seen)
    right(first)
    failed(second, f"rank {rank} has gone away", AT_ONCE)
    failed(third, f"rank {rank} has gone away", AT_ONCE)


def stops(network: Network, rank: int) -> None:
    """A worker is stopped: a deadline that names it on all; once it goes on, calls are right again."""

    def stop(workers: list[Fork]) -> None:
        time.sleep(0.3)
        workers[rank].kill(signal.SIGSTOP)

    def proceed(workers: list[Fork]) -> None:
        workers[rank].kill(signal.SIGCONT)

    def in_time(own: int) -> Any:
        time.sleep(2.0 * (own == rank))
        return add(own, TIMEOUT)

    seen = play(network, [add, in_time, add, add], before={2: proceed}, during={1: stop}, late={rank})
    first, second, third, fourth = by_call(seen)
    right(first)
    others = [own for place, own in enumerate(second) if place != rank]
    failed(others, f"rank {rank} did not", TIMEOUT + SLACK)
    failed(second, "", PLENTY)
    told(second, third)
    right(fourth)


# -- firewalls


def falls_and_recovers(network: Network, host: str) -> None:
    """A host is cut off in a large call for two seconds: the number, somewhat later."""

    def fall(workers: list[Fork]) -> None:
        time.sleep(0.3)
        network.down(host)
        time.sleep(2.0)
        network.down()

    for calls in by_call(play(network, [add, large, add], during={1: fall})):
        right(calls)


def falls(network: Network, host: str) -> None:
    """A host is cut off in a large call, and comes back after the deadline: then calls work, if no worker is lost."""

    def fall(workers: list[Fork]) -> None:
        time.sleep(0.3)
        network.down(host)

    def recover(workers: list[Fork]) -> None:
        network.down()
        time.sleep(2.0)

    steps = [add, functools.partial(large, timeout=TIMEOUT), add, add, add]
    first, second, *later = by_call(play(network, steps, during={1: fall}, before={2: recover}))
    right(first)
    fine(second, SUM, TIMEOUT + SLACK)
    if all(own == SUM for own, _ in second):
        raise Broken(f"the firewall came too late: {second}")
    told(second, later[0])
    for calls in later:
        fine(calls, SUM, AT_ONCE)
    lost = "gone away|stopped in the middle of an answer"
    if any(isinstance(own, str) and re.search(lost, own) for own, _ in later[0]):
        failed(later[-1], lost, AT_ONCE, same=False)
    else:
        right(later[-1])


def trainers_ports_alone(network: Network) -> None:
    """A firewall lets in the trainers' ports alone: every address that was tried is named; and the way out works."""
    network.let_in([FIRST_PORT + rank for rank in range(WORLD)])
    [seen] = by_call(play(network, [functools.partial(add, timeout=TIMEOUT)]))
    on_rank_0, others = seen[:1], seen[2:]
    failed(on_rank_0, r"ranks? .*did not connect", TIMEOUT + SLACK)
    failed(others, r"10.77.0.1:\d+ \(it did not answer in time.*FLEETMETRICS_ENDPOINT", TIMEOUT + SLACK, same=False)
    print("    rank 0:", on_rank_0[0][0], "\n    rank 2:", others[0][0])
    network.let_in([int(ENDPOINT.rpartition(":")[2])])
    [seen] = by_call(play(network, [add], FLEETMETRICS_ENDPOINT=ENDPOINT))
    right(seen)


def forgets(network: Network, idle: float) -> None:
    """A firewall forgets flows that were idle, for two minutes (here 4 s): an error in this time, never a hang."""
    message._KEEPALIVE = (2, 1, 2)

    def forget(workers: list[Fork]) -> None:
        network.forget()
        time.sleep(idle)

    first, second, third = by_call(play(network, [add] * 3, before={1: forget}))
    right(first)
    for calls in (second[2:], third[2:]):
        failed(calls, "rank 0 has gone away: its machine has not answered", 2 * message.silence() + SLACK)
    for calls in (second[:2], third[:2]):
        failed(calls, "ranks? [2-5].* gone away: its machine has not answered", 2 * message.silence() + SLACK)


def loopback_name(_: Network) -> None:
    """Debian's hosts file gives a host's own name a loopback address: rank 0 says so at once, and the way out."""
    with Network(HOSTS, DELAY, LOSS, names={"node1": "127.0.1.1 node1"}) as network:
        [seen] = by_call(play(network, [functools.partial(add, timeout=TIMEOUT)]))
        failed(seen[:1], r"NoChannelError.*127\.0\.1\.1.*FLEETMETRICS_BIND", AT_ONCE)
        failed(seen[1:], "rank 0 .*did not connect|cannot reach rank 0|FLEETMETRICS", TIMEOUT + SLACK, same=False)
        print("    rank 1:", seen[1][0], "\n    rank 2:", seen[2][0])
        [seen] = by_call(play(network, [add], FLEETMETRICS_BIND="0.0.0.0"))
        right(seen)


# -- a random firewall


def chances(network: Network, cases: int, seed: int) -> None:
    """At a random moment a host is cut off, for a random time: no wrong number, no split that is not told."""
    chance = random.Random(seed)
    splits = 0
    for _ in range(cases):
        host, after, seconds = chance.choice(HOSTS), chance.random() * 0.3, chance.choice([0.05, 0.5, 3.0])

        def fall(workers: list[Fork]) -> None:
            time.sleep(after)  # noqa: B023
            network.down(host)  # noqa: B023
            time.sleep(seconds)  # noqa: B023
            network.down()

        short = functools.partial(add, timeout=2.0)
        seen = by_call(play(network, [add, *[short] * 4, add, add], during={1: fall}))
        right(seen[0])
        for calls, following in zip(seen[1:], seen[2:]):
            fine(calls, SUM, 2.0 + SLACK)
            splits += told(calls, following)
        fine(seen[-1], SUM, AT_ONCE)
        network.down()
    print(f"    {cases} jobs, {splits} splits")


SITUATIONS: dict[str, Callable[[Network], None]] = {
    "values": values,
    "no secret": without_secret,
    "a worker is killed before a call": lambda network: dies(network, 3, add, False),
    "a worker is killed in a call": lambda network: dies(network, 3, add, True),
    "a worker is killed in a large call": lambda network: dies(network, 4, large, True),
    "rank 0 is killed before a call": lambda network: dies(network, 0, add, False),
    "rank 0 is killed in a call": lambda network: dies(network, 0, add, True),
    "a worker is stopped": lambda network: stops(network, 5),
    "rank 0 is stopped": lambda network: stops(network, 0),
    "a firewall in a call, for a while": lambda network: falls_and_recovers(network, "node3"),
    "a firewall in a call": lambda network: falls(network, "node3"),
    "a firewall in a call, before rank 0": lambda network: falls(network, "node1"),
    "a firewall lets in the trainers' ports alone": trainers_ports_alone,
    "flows are forgotten before a call": lambda network: forgets(network, 0.0),
    "flows are forgotten between calls": lambda network: forgets(network, 8.0),
    "rank 0's name is 127.0.1.1": loopback_name,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="some situations, by a part of their names; all without")
    parser.add_argument("--cases", type=int, default=20, help="jobs with a firewall at a random moment")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    enter_namespaces("tests.distributed.hosts")
    situations = {**SITUATIONS, "chances": lambda network: chances(network, options.cases, options.seed)}
    broken = 0
    for name, situation in situations.items():
        if options.names and not any(part in name for part in options.names):
            continue
        start = time.monotonic()
        with Network(HOSTS, DELAY, LOSS) as network:
            try:
                situation(network)
                outcome = "as promised"
            except AssertionError as error:
                outcome, broken = f"BROKEN: {error}", broken + 1
        print(f"{name:45} {outcome} ({time.monotonic() - start:.0f} s)", flush=True)
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
