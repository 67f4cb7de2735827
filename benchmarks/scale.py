"""Let the star grow: one compute, one barrier and the first call of 2 to 1,024 workers on this machine, without Paddle.

    python benchmarks/scale.py [--workers 2 8 ...] [--rounds FACTOR] [--write benchmarks/README.md]

The workers are forked children of this process, which has imported everything; each gets a `SocketCommunicator` of its
own and computes a collection of `AUC` with 4,096 buckets, `Accuracy` and `MeanAbsoluteError`. They call as fast as they
can. The time of a call is that of the slowest rank; its median over the rounds is shown. All of them share this
machine's processors, so the time grows with their number whatever rank 0 does; what rank 0 itself needs is its
processor time.
"""

from __future__ import annotations

import gc
import mmap
import os
import resource
import socket
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _report import arguments, machine, save_chart, seconds, table, write

import fleetmetrics
import fleetmetrics.comm.choose  # this and the next ones before the forks: each child would import them for itself
import fleetmetrics.formulas.class_areas
import fleetmetrics.samplers.repeats
import fleetmetrics.serial.serializer
from fleetmetrics.comm.channel import SocketCommunicator
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.states import describe, pack

WORKERS = (2, 4, 8, 32, 128, 512, 1024)
DIGESTS = ("heads", "all")
ROUNDS = (40, 400, 20_000)
"""At least, at most, and together with the workers: rounds times workers."""
WARM_UP = 3
SAMPLES, BUCKETS = 20_000, 4096
CHILD_BYTES = 12 * 2**20
"""Of memory for each worker; a run that does not fit is left out."""
CURVE = "docs/project/scale.svg"
FAR = 4096
"""Workers on many hosts, to which the model is carried."""
LINKS = {"10 Gbit/s": 1.25e9, "25 Gbit/s": 3.125e9}


class Run(NamedTuple):
    """What one run has shown: seconds, bytes and numbers."""

    workers: int
    digests: str
    compute: np.ndarray  # of the slowest rank, by round
    barrier: np.ndarray
    processor: np.ndarray  # rank 0's, of computes
    first: float
    first_processor: float
    descriptors: int
    memory: int  # of all, each page counted once
    memory_of_rank_0: int


# A worker


def collection() -> fleetmetrics.MetricCollection:
    """The metrics of a worker, with samples."""
    random = np.random.RandomState(0)
    metrics = fleetmetrics.MetricCollection(
        {
            "auc": fleetmetrics.AUC(buckets=BUCKETS),
            "accuracy": fleetmetrics.Accuracy(),
            "mae": fleetmetrics.MeanAbsoluteError(),
        }
    )
    metrics.add(random.rand(SAMPLES), random.randint(0, 2, SAMPLES))
    return metrics


def work(metrics: fleetmetrics.MetricCollection, job: Job, times: np.ndarray, own: np.ndarray) -> SocketCommunicator:
    """Take part in a run.

    Args:
        metrics: what is computed.
        job: this worker's place.
        times: seconds of this worker, by row: of computes, of barriers, and its processor's of computes.
        own: rank 0's figures: the first compute, its processor time, and the value.

    Returns:
        The communicator, still open.
    """
    channel = SocketCommunicator(job)

    def compute() -> Any:
        return metrics.compute(communicator=channel)

    start, processor = time.perf_counter(), time.process_time()
    value = compute()
    if job.rank == 0:
        own[:] = time.perf_counter() - start, time.process_time() - processor
        assert 0.45 < value["auc"] < 0.55
    for row, call in enumerate((compute, channel.barrier)):
        for i in range(-WARM_UP, times.shape[1]):
            start, processor = time.perf_counter(), time.process_time()
            again = call()
            assert again is None or again == value
            if i >= 0:
                times[row, i] = time.perf_counter() - start
            if i >= 0 and call is compute:
                times[2, i] = time.process_time() - processor
    return channel


# A run


def run(workers: int, digests: str, factor: float) -> Run:
    """Fork the workers, let them call, look at their memory, and let them end."""
    os.environ["FLEETMETRICS_DIGESTS"] = digests
    least, most, together = ROUNDS
    rounds = max(3, round(factor * min(most, max(least, together // workers))))
    times = np.frombuffer(mmap.mmap(-1, workers * 3 * rounds * 8), np.float64).reshape(workers, 3, rounds)
    own = np.frombuffer(mmap.mmap(-1, 2 * 8), np.float64)
    metrics = collection()
    gc.collect()
    gc.freeze()  # or the collector of each child writes to what they share
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    jobs = [Job(rank, workers, endpoint=endpoint, secret="of this run") for rank in range(workers)]
    done, go = os.pipe(), os.pipe()
    children = [fork(metrics, job, times[job.rank], own, done, go) for job in jobs]
    os.close(done[1])
    os.close(go[0])
    try:
        if sum(map(len, iter(lambda: os.read(done[0], 4096), b""))) < workers:
            raise SystemExit(f"error: a worker of {workers} has failed; its message is above")
        memory = [proportional(child) for child in children]
        descriptors = len(os.listdir(f"/proc/{children[0]}/fd"))
    finally:
        os.close(go[1])
        os.close(done[0])
        for child in children:
            os.waitpid(child, 0)
    compute, barrier, _ = times.max(axis=0)
    return Run(workers, digests, compute, barrier, times[0, 2], *own.tolist(), descriptors, sum(memory), memory[0])


def fork(
    metrics: fleetmetrics.MetricCollection,
    job: Job,
    times: np.ndarray,
    own: np.ndarray,
    done: tuple[int, int],
    go: tuple[int, int],
) -> int:
    """Start a worker that says when it is done, and ends when it may; return its process."""
    process = os.fork()
    if process:
        return process
    try:
        os.close(done[0])
        os.close(go[1])
        channel = work(metrics, job, times, own)
        os.write(done[1], b".")
        os.close(done[1])
        os.read(go[0], 1)
        channel.close()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def proportional(process: int) -> int:
    """Bytes of memory of a process, where a page that several share is counted in parts."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


# The model: a + N (b + 2 m / link)


class Model(NamedTuple):
    """Seconds of one compute over machines.

    Everybody's message comes in through rank 0's card, the same number of answers goes out, and rank 0's processor has
    its time for each.
    """

    a: float  # of two workers
    b: float  # rank 0's processor time for one more
    nbytes: int  # of a worker's message, and of an answer

    def star(self, workers: int, link: float) -> float:
        return self.a + (workers - 1) * (self.b + 2 * self.nbytes / link)


def model(runs: list[Run]) -> Model:
    """Fit rank 0's processor time, with equal weight for every size; the time of two workers is the constant part."""
    processor = np.array([np.median(one.processor) for one in runs])
    b, _ = np.polyfit([one.workers - 1 for one in runs], processor, 1, w=1 / processor)
    blocks = [state.block() for state in collection()._states()]
    message = pack([block.array for block in blocks], describe("", blocks).members)
    return Model(float(np.median(runs[0].compute)), float(b), sum(map(len, message)))


# The process that a person has started


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, nargs="+", metavar="N", help="the sizes")
    parser.add_argument("--curve", type=Path, metavar="FILE", help=f"draw the curve, such as {CURVE}; needs matplotlib")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    runs: list[Run] = []
    for workers in options.workers or WORKERS:
        if workers * CHILD_BYTES > available():
            print(f"{workers:,} workers: not enough memory")
            continue
        for digests in DIGESTS:
            runs.append(run(workers, digests, options.rounds))
            print(" | ".join(line(runs[-1])), flush=True)
    text = show(runs)
    print(text)
    if options.curve:
        draw(runs, options.curve)
    if options.write:
        write(options.write, "scale", text)


def available() -> int:
    found = [line.split()[1] for line in Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line]
    return int(found[0]) * 1024


HEAD = (
    "workers, digests",
    "one compute",
    "barrier",
    "rank 0's processor",
    "for each worker",
    "first compute",
    "its processor time",
    "descriptors",
    "memory, all",
    "memory, rank 0",
)


def line(one: Run) -> list[str]:
    return [
        f"{one.workers:,}, {one.digests}",
        seconds(one.compute),
        seconds(one.barrier),
        seconds(one.processor),
        f"{np.median(one.processor) / (one.workers - 1) * 1e6:.0f} us",
        f"{one.first:.2f} s",
        f"{one.first_processor:.3f} s",
        f"{one.descriptors:,}",
        f"{one.memory / 2**20:,.0f} MiB",
        f"{one.memory_of_rank_0 / 2**20:,.0f} MiB",
    ]


def show(runs: list[Run]) -> str:
    """The table, and what follows from it, as Markdown."""
    parts = [machine({"NumPy": np.__version__}), table(HEAD, [line(one) for one in runs])]
    for digests in DIGESTS:
        found = model([one for one in runs if one.digests == digests])
        text = (
            f"Digests of {digests}: t = {found.a * 1e3:.2f} ms + N ({found.b * 1e6:.0f} us + 2 x {found.nbytes:,} bytes"
            f" / link)."
        )
        for name, link in LINKS.items():
            text += f" At {name}, {FAR:,} workers take {found.star(FAR, link) * 1e3:.0f} ms."
        parts.append(text)
    return "\n\n".join(parts)


def draw(runs: list[Run], path: Path) -> None:
    """Draw the times over the number of workers, and the model up to many hosts."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "fleetmetrics"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2))
    for digests, style in zip(DIGESTS, ("-", "--")):
        chosen = [one for one in runs if one.digests == digests]
        sizes = [one.workers for one in chosen]
        for what, color in (("compute", "C0"), ("barrier", "C2"), ("processor", "C1")):
            times = [float(np.median(getattr(one, what))) * 1e3 for one in chosen]
            name = "rank 0's processor time" if what == "processor" else what
            axes.plot(sizes, times, f"o{style}{color}", markersize=3, label=f"{name}, digests of {digests}")
    found = model([one for one in runs if one.digests == DIGESTS[0]])
    sizes = [2**i for i in range(1, 13)]
    link = LINKS["10 Gbit/s"]
    axes.plot(sizes, [found.star(size, link) * 1e3 for size in sizes], ":k", label="model: many hosts, 10 Gbit/s")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="ms", xticks=sizes, xticklabels=map(str, sizes))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    save_chart(figure, path)


if __name__ == "__main__":
    main()
