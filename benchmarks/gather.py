"""Bring the records of two workers together: fleetmetrics, `paddle.distributed.all_gather_object`, and bare Gloo.

    python benchmarks/gather.py [--only PART] [--rounds FACTOR] [--write benchmarks/README.md]

Four parts. "exchange": two workers call each variant in turn, round after round, in the same processes; before a call
they are lined up, and its time runs from the moment when the last worker enters to the moment when the last one
leaves. "memory": two fresh workers for every case. "add": one process, loop after loop. "engine": workers that mpirun
starts fold records over the star and over MPI in turn; processor time is that of the busiest. Ratios are of one round.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Mapping, Sequence

import numpy as np
from _job import ROOT, Gate, Place, free_ports, place, report, run
from _records import (
    BATCH_SIZE,
    DICTS,
    LISTS,
    Count,
    Lists,
    append,
    batches,
    by_name,
    by_position,
    clicks,
    floats,
    tensor,
)
from _report import Target, arguments, machine, quotient, seconds, table, write

import fleetmetrics

WORKERS = 2
COLUMNS, LIST, TENSORS = 1_000_000, 100_000, 10_000
"""Records of both workers."""
FOLDED = 4_000_000
"""Records of all workers together that are folded."""
MEMORY = 200_000_000
"""Bytes of a worker's records."""
ADDS = 1000
"""Calls of `add` in a loop."""
ROUNDS = {"exchange": 20, "memory": 3, "add": 300, "engine": 7}
WARM_UP = 2
STEP = 499
"""Every such record of a result is compared."""
CLICKS = "score and label, as columns"
HEADER = ["fleetmetrics", "against", "time", "rounds", "ratio", "to reach", "reached"]
Call = Callable[[], "tuple[float, float, Any]"]
"""Returns when it was done, when rank 0 had all records in a list, and that list, or a tuple of columns."""


# The exchange


def exchange(here: Place, factor: float) -> None:
    """Time what lies in lists, then what lies in columns; rank 0 checks that the records are the same."""
    gate = Gate(here.rank, here.workers)
    group, store = gloo(here)
    random = np.random.RandomState(here.rank)
    findings: dict[str, Any] = {}
    for name in [*LISTS, CLICKS]:
        variants = column_variants(random, group) if name == CLICKS else list_variants(LISTS[name], random, group)
        samples, findings[name] = measure(variants, gate, rounds_of("exchange", factor))
        if here.rank == 0 and samples["ours"] != samples["theirs"]:
            raise AssertionError(f"{name}: ours are {samples['ours']:.500}, theirs {samples['theirs']:.500}")
    del store  # which must live as long as the group
    report(findings)


def gloo(here: Place) -> tuple[Any, Any]:
    """A group of Paddle's over Gloo, and the store that it meets on."""
    from paddle.base import core
    from paddle.distributed.communication.group import Group

    port = fleetmetrics.get_communicator().broadcast(np.array(free_ports(1))).item()
    store = core.TCPStore("127.0.0.1", port, here.rank == 0, here.workers, 30)
    processes = core.ProcessGroupGloo.create(store, here.rank, here.workers, 4242)
    return Group(here.rank, 4242, list(range(here.workers)), processes, "gloo"), store


def list_variants(make: Callable[[Any], Any], random: Any, group: Any) -> dict[str, Call]:
    metric = Count(allow_pickle=True)
    for _ in range((TENSORS if make is tensor else LIST) // WORKERS):
        metric._results.append(make(random))
    return {"theirs": theirs(metric._results, group), "ours": ours(metric)}


def column_variants(random: Any, group: Any) -> dict[str, Call]:
    columns = clicks(random, COLUMNS // WORKERS)
    metric = Count()
    by_position(metric, batches(*columns))
    return {
        "theirs": theirs(list(zip(*(column.tolist() for column in columns))), group),
        "two tensors": bare(columns, group),
        "one tensor": bare([np.concatenate([column.view(np.uint8) for column in columns])], group),
        "ours": ours(metric),
    }


def ours(metric: Count) -> Call:
    def call() -> tuple[float, float, Any]:
        metric.compute()
        end = time.perf_counter()
        results, metric.results = metric.results, ()
        return end, metric.ready, results

    return call


def theirs(records: list[Any], group: Any) -> Call:
    """Tensors go as arrays, since in Paddle 2.6 they cannot be pickled."""
    import paddle

    are_tensors = isinstance(records[0], paddle.Tensor)

    def call() -> tuple[float, float, Any]:
        gathered: list[list[Any]] = []
        given = [record.numpy() for record in records] if are_tensors else records
        paddle.distributed.all_gather_object(gathered, given, group)
        end = time.perf_counter()
        results = [record for turn in zip(*gathered) for record in turn] if group.rank == 0 else []
        results = list(map(paddle.to_tensor, results)) if are_tensors else results
        return end, time.perf_counter(), results

    return call


def bare(columns: Sequence[np.ndarray], group: Any) -> Call:
    """The bytes lie in tensors already, and come as tensors."""
    import paddle

    tensors = [paddle.to_tensor(column) for column in columns]

    def call() -> tuple[float, float, Any]:
        for each in tensors:
            paddle.distributed.all_gather([], each, group)
        end = time.perf_counter()
        return end, end, ()

    return call


def measure(variants: Mapping[str, Call], gate: Gate, rounds: int) -> tuple[dict[str, str], dict[str, Any]]:
    """Call the variants in turn, each round beginning with another one; return some records of each, and its times."""
    names = list(variants)
    samples: dict[str, str] = {}
    times: dict[str, Any] = {name: {"starts": [], "ends": [], "lists": []} for name in names}
    for number in range(-WARM_UP, rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect()
            gate.wait()
            start = time.perf_counter()
            end, ready, results = variants[name]()
            if isinstance(results, tuple):  # columns: the tuples that they stand for
                results = list(zip(*(column.tolist() for column in results)))
            samples[name], results = repr(results[::STEP]), None
            if number >= 0:
                for key, moment in zip(times[name], (start, end, ready)):
                    times[name][key].append(moment)
    gate.wait()
    return samples, times


def exchange_tables(factor: float) -> str:
    """What it takes until every worker is done, and until rank 0 has a list."""
    findings = run(__file__, WORKERS, arguments=["--only", "exchange", "--rounds", str(factor)])
    rows, lists = [], []
    for name in findings[0]:
        found = [worker[name] for worker in findings]
        start = {each: np.max([worker[each]["starts"] for worker in found], axis=0) for each in found[0]}
        times = {each: np.max([worker[each]["ends"] for worker in found], axis=0) - start[each] for each in start}
        ready = {each: np.array(found[0][each]["lists"]) - start[each] for each in ("ours", "theirs")}
        target = Target(">=", {CLICKS: 10, DICTS: 2}.get(name, 1))
        rows.append(row(name, times["ours"], "`all_gather_object`", times["theirs"], target))
        if name == CLICKS:
            fastest = min(["one tensor", "two tensors"], key=lambda each: float(np.median(times[each])))
            rows.append(row(name, times["ours"], f"bare all-gather of {fastest}", times[fastest], Target("<=", 1.5)))
        lists.append([name, *map(seconds, ready.values()), f"{quotient(ready['theirs'] / ready['ours'])} x faster"])
    header = ["until rank 0 has a list", "fleetmetrics", "`all_gather_object`", "ratio"]
    return table(["until all are done", *HEADER], rows) + "\n\n" + table(header, lists)


# Memory


MATRIX, ARRAYS = "1,000 floats, as a column", "arrays of 1,000 floats, in a list"
MODES = {"unzip": "unzip", "cat": "cat", "sampler": None, "size": "unzip"}


def weigh(here: Place, records: str, mode: str) -> None:
    """How much this process grows with its records, and how much at most while they are exchanged."""
    fleetmetrics.get_communicator().barrier()
    random, size = np.random.RandomState(0), MEMORY // (12 if records == CLICKS else 4000)
    settings = {"batch_size": BATCH_SIZE, "shuffle": False, "drop_last": False, "epoch": 0}
    dealt = SimpleNamespace(dataset=range(WORKERS * size - 1), nranks=WORKERS, local_rank=here.rank, **settings)
    before = resident("VmRSS")
    metric = Count(dist_collect_mode=MODES[mode], sampler=dealt if mode == "sampler" else None)
    if records == ARRAYS:
        metric._results.extend(floats(random, 1000) for _ in range(size))
    for start in range(0, size if records != ARRAYS else 0, BATCH_SIZE):
        length = min(BATCH_SIZE, size - start)
        metric.add(*clicks(random, length) if records == CLICKS else [random.rand(length, 1000).astype(np.float32)])
    held = resident("VmRSS") - before
    Path("/proc/self/clear_refs").write_text("5")  # the most from now on
    metric.compute(round(0.9 * WORKERS * size) if mode == "size" else None)
    report({"held": held, "peak": resident("VmHWM") - before})


def resident(field: str) -> int:
    """Bytes, from /proc/self/status; what was freed has been given back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[field].split()[0])


def memory_table(factor: float) -> str:
    rows = []
    for records in (MATRIX, CLICKS, ARRAYS):
        for mode in MODES:
            given = ["--case", records, mode]
            rounds = [run(__file__, WORKERS, arguments=given) for _ in range(rounds_of("memory", factor))]
            held, peak = (np.array([[worker[key] for worker in found] for found in rounds]) for key in ("held", "peak"))
            first, other = peak[:, 0] / held.sum(axis=1), peak[:, 1] / held[:, 1]
            verdicts = [quotient(first, 2), *verdict(first, Target("<=", 2.5))]
            rows.append([f"{records}; {mode}", *verdicts, quotient(other, 2), *verdict(other, Target("<=", 1.3))])
    reach = HEADER[-2:]
    return table(["peak memory", "rank 0, of all records", *reach, "rank 1, of its own records", *reach], rows)


# Adding a batch


def add_table(factor: float) -> str:
    given = batches(*clicks(np.random.RandomState(0), ADDS * BATCH_SIZE))
    loops = [(append, Lists), *((loop, kind) for loop in (by_position, by_name) for kind in (Count, Lists))]
    times = {each: np.zeros(rounds_of("add", factor)) for each in loops}
    for number in range(-WARM_UP, rounds_of("add", factor)):
        shift = number % len(loops)
        for loop, kind in loops[shift:] + loops[:shift]:
            metric = kind()
            start = time.perf_counter()
            loop(metric, given)
            if number >= 0:
                times[loop, kind][number] = (time.perf_counter() - start) / ADDS
    rows = []
    for loop, how in ((by_position, "by position"), (by_name, "by name")):
        for other, against in (((append, Lists), "two bare `append`"), ((loop, Lists), "`add` by hand")):
            rows.append(row(f"`add`, {how}", times[loop, Count], against, times[other], Target("<=", 3)))
    return table(["a batch", *HEADER], rows)


# Folding


def fold(factor: float) -> None:
    """Compute metrics that keep every sample over both ways, on a worker of mpirun; rank 0 prints the times."""
    channel = fleetmetrics.get_communicator()
    random, size = np.random.RandomState(channel.rank), FOLDED // channel.world_size
    score = random.rand(size)
    given = {"prediction": score, "label": (random.rand(size) < score).astype(np.int64)}
    user = random.randint(0, FOLDED // 100, size)
    found = {}
    for make in (fleetmetrics.GAUC, fleetmetrics.NDCG, fleetmetrics.ExactAUC):
        metric = make(by="user") if "by" in vars(make()) else make()
        metric.add(**given, **({"user": user} if metric.columns else {}))
        times: Any = {way: [] for way in (False, True)}
        for number in range(-1, rounds_of("engine", factor)):
            for way in times:
                channel.spreads = way
                channel.barrier()
                start, used = time.perf_counter(), time.process_time()
                value = metric.compute()
                took = time.perf_counter() - start, time.process_time() - used
                most = channel.all_reduce(np.array(took), "max").tolist()
                if number >= 0:
                    times[way].append([*most, value])
        if {value for way in times.values() for *_, value in way} != {value}:
            raise AssertionError(f"{make.__name__}: {times}")
        found[make.__name__] = [[each[:2] for each in times[way]] for way in times]
    if channel.rank == 0:
        print(json.dumps(found))


def engine_table(factor: float) -> str:
    """The seconds of a compute, and the processor time of its busiest worker."""
    rows = []
    for workers in (2, 4):
        command = [Path(sys.executable).with_name("mpirun"), "-n", str(workers), sys.executable, __file__]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [*map(str, command), "--rounds", str(factor), "--case", "fold", ""],
            env={**os.environ, "FLEETMETRICS_ENGINE": "mpi", "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            check=True,
        )
        for name, ways in json.loads(done.stdout).items():
            (star, star_used), (mpi, mpi_used) = (np.array(way).T for way in ways)
            what, less = f"{name}, {workers} workers", f"{quotient(star_used / mpi_used, 2)} x less"
            times = [seconds(star), seconds(mpi), str(len(star)), f"{quotient(star / mpi, 2)} x faster"]
            rows.append([what, *times, seconds(star_used), seconds(mpi_used), less])
    header = [
        "folding 4,000,000 records",
        "star",
        "MPI",
        "rounds",
        "ratio",
        "processor: star",
        "processor: MPI",
        "ratio",
    ]
    return table(header, rows)


# All of it


PARTS = {"exchange": exchange_tables, "memory": memory_table, "add": add_table, "engine": engine_table}


def rounds_of(part: str, factor: float) -> int:
    return max(1, round(factor * ROUNDS[part]))


def row(what: str, ours: np.ndarray, against: str, theirs: np.ndarray, target: Target) -> list[str]:
    ratios = theirs / ours if target.sign == ">=" else ours / theirs
    ratio = f"{quotient(ratios, 2)} x {'faster' if target.sign == '>=' else 'as long'}"
    return [what, seconds(ours), against, seconds(theirs), str(len(ours)), ratio, *verdict(ratios, target)]


def verdict(ratios: np.ndarray, target: Target) -> list[str]:
    return [str(target), "yes" if target.reached(float(np.median(ratios))) else "no"]


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, help="only this part")
    parser.add_argument("--case", nargs=2, metavar=("RECORDS", "MODE"), help="for the workers: what is weighed")
    options = parser.parse_args()
    here = place()
    if options.case and options.case[0] == "fold":
        fold(options.rounds)
        return
    if here is not None:
        weigh(here, *options.case) if options.case else exchange(here, options.rounds)
        return
    import paddle

    parts = [machine({"Paddle": paddle.__version__, "NumPy": np.__version__})]
    print(parts[0])
    for part in [options.only] if options.only else PARTS:
        parts.append(PARTS[part](options.rounds))
        print(f"\n{parts[-1]}", flush=True)
    if options.write:
        write(options.write, "gather", "\n\n".join(parts))


if __name__ == "__main__":
    main()
