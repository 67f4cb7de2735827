"""Count what a reader of one call meets: functions, their lines, modules, and the frames that lead to the wait.

    python benchmarks/reading.py [--tree CHECKOUT] [--follow CALL] [--write benchmarks/README.md]

Two workers, which need NumPy alone, make each call again and again. The worker that is measured enters first and the
other one 20 ms later, so that the wait is the first C call that takes long; the next time they change places. What is
counted is the program's own thread, warm: the package's Python functions that it enters, comprehensions among them
where Python makes functions of those (until 3.11). Of several rounds the most frequent way is shown. `--follow`
prints the functions of a call in order, each below its caller, and where the wait is.
"""

from __future__ import annotations

import collections
import functools
import inspect
import json
import sys
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Callable, NamedTuple

import numpy as np
from _job import ROOT, Gate, Place, place, report, run
from _report import arguments, table, write

WORKERS = 2
WARM_UP, ROUNDS = 6, 12
LATE = 0.02
"""Seconds that the other worker lets this one wait."""
BUCKETS = 4096


class Way(NamedTuple):
    """What one call meets in the package."""

    functions: int  # that are entered, each counted once
    lines: int  # of their source; those of a function in another one count for both
    modules: int
    frames: int  # nested where the wait begins, the call's own included; without a wait, where they are most
    calls: int  # of functions
    before: int  # calls of functions before the wait begins
    changes: int  # calls of a function of another module than the caller's
    deepest: int  # frames nested in each other


LIMITS: dict[str, dict[str, int]] = {
    "AUC().add(p, y)": {"functions": 6},
    "AUC().compute()": {"functions": 86, "lines": 900, "modules": 20, "frames": 8},
    "Sliced(AUC()).compute()": {"functions": 120},
    "fleetmetrics.auc(pos, neg)": {"functions": 70},
    "GAUC().compute()": {},
}
"""The most that a call may meet, by field of `Way`."""


# A worker


class Walk:
    """A profile function (see `sys.setprofile`) that notes the way of one call through a package.

    Args:
        package: its directory.
    """

    def __init__(self, package: Path) -> None:
        self._package = f"{package}/"
        self._codes: set[CodeType] = set()
        self._modules: list[str] = []  # of the frames that are nested now
        self._calls = self._changes = self._deepest = 0
        self.path: list[str] = []
        self._since = 0.0  # when a function of C was called
        self._at_wait: tuple[int, int] | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            self._since = time.perf_counter()
        elif event in ("c_return", "c_exception"):
            if self._at_wait is None and time.perf_counter() - self._since > LATE / 2:
                self._at_wait = len(self._modules), self._calls
                self.path.append("  " * len(self._modules) + f"... waits in {argument.__qualname__}")
        elif frame.f_code.co_filename.startswith(self._package):
            if event == "call":
                self._enter(frame.f_code)
            elif self._modules:
                self._modules.pop()

    def _enter(self, code: CodeType) -> None:
        if self._modules and code.co_filename != self._modules[-1]:
            self._changes += 1
        name = Path(code.co_filename).relative_to(self._package).as_posix()
        self.path.append("  " * len(self._modules) + f"{name}:{code.co_firstlineno} {code.co_name}")
        self._modules.append(code.co_filename)
        self._codes.add(code)
        self._calls += 1
        self._deepest = max(self._deepest, len(self._modules))

    def way(self) -> Way:
        """What was met, once the call is over."""
        frames, before = self._at_wait or (self._deepest, self._calls)
        modules = {code.co_filename for code in self._codes}
        lines = sum(map(_lines, self._codes))
        return Way(len(self._codes), lines, len(modules), frames, self._calls, before, self._changes, self._deepest)


@functools.lru_cache(None)
def _lines(code: CodeType) -> int:
    return len(inspect.getsourcelines(code)[0])


def calls_of(rank: int) -> dict[str, Callable[[], Any]]:
    """The calls, over the data of a worker."""
    import fleetmetrics

    random = np.random.RandomState(rank)
    score, label, user = random.rand(1000), random.randint(0, 2, 1000), random.randint(0, 20, 1000)
    added, auc = fleetmetrics.AUC(name="added"), fleetmetrics.AUC()
    sliced, gauc = fleetmetrics.Sliced(fleetmetrics.AUC(), by="user"), fleetmetrics.GAUC()
    auc.add(score, label)
    sliced.add(score, label, user=user)
    gauc.add(score, label, user=user)
    positive, negative = random.randint(0, 1000, (2, BUCKETS))
    calls: list[Callable[[], Any]] = [
        lambda: added.add(score, label),
        auc.compute,
        sliced.compute,
        lambda: fleetmetrics.auc(positive, negative),
        gauc.compute,
    ]
    return dict(zip(LIMITS, calls))


def work(here: Place, tree: Path) -> None:
    """Make every call, and report the way of each."""
    sys.path.insert(0, str(tree))
    import fleetmetrics

    package = Path(fleetmetrics.__file__).parent
    assert package.parent == tree.resolve(), package
    gate = Gate(here.rank, here.workers)
    report({name: measured(call, package, here.rank, gate) for name, call in calls_of(here.rank).items()})


def measured(call: Callable[[], Any], package: Path, rank: int, gate: Gate) -> tuple[Way, list[str]]:
    """Make a call in turns, this worker early and measured, or late; return the way, and its functions in order."""
    ways = []
    for number in range(WARM_UP + ROUNDS):
        gate.wait()
        if number % WORKERS != rank:
            time.sleep(LATE)
            call()
            continue
        walk = Walk(package)
        sys.setprofile(walk)
        try:
            call()
        finally:
            sys.setprofile(None)
        if number >= WARM_UP:
            ways.append((walk.way(), tuple(walk.path)))
    way, path = collections.Counter(ways).most_common(1)[0][0]
    return way, list(path)


# The process that a person has started


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout of the package that is read (this one)")
    parser.add_argument("--follow", choices=LIMITS, metavar="CALL", help="print the functions of a call on rank 0")
    parser.add_argument("--json", action="store_true", help="print the counts of each worker, and no table")
    options = parser.parse_args()
    here = place()
    if here is not None:
        work(here, options.tree)
        return
    findings = run(__file__, WORKERS, arguments=["--tree", str(options.tree.resolve())], timeout=60)
    ways = [{name: Way(*way) for name, (way, _) in found.items()} for found in findings]
    if options.follow:
        print("\n".join(findings[0][options.follow][1]))
    elif options.json:
        print(json.dumps([{name: way._asdict() for name, way in found.items()} for found in ways]))
    else:
        print(show(ways))
    if options.write:
        write(options.write, "reading", show(ways))
    if any(exceeds(ways[0][name], limits) for name, limits in LIMITS.items()):
        raise SystemExit("error: rank 0 meets more than a limit allows")


def exceeds(way: Way, limits: dict[str, int]) -> list[str]:
    """The fields in which a way is longer than its limits."""
    return [field for field, most in limits.items() if getattr(way, field) > most]


HEADER = [
    "call",
    "rank",
    "functions",
    "lines",
    "modules",
    "frames to the wait",
    "calls",
    "before",
    "changes",
    "deepest",
]


def show(ways: list[dict[str, Way]]) -> str:
    """A table with a line for each call on each rank; where rank 0 has a limit, its count names it."""
    lines = []
    for name, limits in LIMITS.items():
        for rank, found in enumerate(ways):
            counts = found[name]._asdict()
            cells = [
                f"{count:,} of {limits[field]:,}{', too many' * (field in exceeds(found[name], limits))}"
                if rank == 0 and field in limits
                else f"{count:,}"
                for field, count in counts.items()
            ]
            lines.append([f"`{name}`", str(rank), *cells])
    return table(HEADER, lines)


if __name__ == "__main__":
    main()
