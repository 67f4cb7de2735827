"""Print what every worker sees when something goes wrong, and after how many seconds: what the guide quotes.

    python docs/scripts/channel_errors.py            # all cases, half of them side by side
    python docs/scripts/channel_errors.py late       # one of them

Each case is a function that two workers run, forked processes without Paddle; its name says what goes wrong.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from _ports import free_ports  # noqa: E402

import fleetmetrics  # noqa: E402

for name in ("functional", "metrics", "records.base_metric", "records.gather", "comm.channel"):  # before the clock runs
    importlib.import_module(f"fleetmetrics.{name}")

#: The deadline of those cases that last until it; the others have PLENTY, and say at once what is wrong.
TIMEOUT, PLENTY = 3, 60
TO_THE_DEADLINE = (
    "never_comes", "late", "stopped", "no_descriptors", "ports_taken", "dead_name_server", "unknown_name",
    "hanging_util",
)  # fmt: skip
clock = 0.0

#: What the workers evaluate; an error must leave it as it is.
auc = fleetmetrics.AUC(name="auc")
auc.add([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])


def workers() -> fleetmetrics.Communicator:
    """The channel, after a first exchange; what is timed begins here."""
    global clock
    found = fleetmetrics.get_communicator()
    found.barrier()
    clock = time.monotonic()
    return found


def never_comes(rank: int) -> None:
    if rank == 0:
        auc.compute()


def late(rank: int) -> None:
    workers()
    if rank == 1:
        time.sleep(2 * TIMEOUT)
    auc.compute()


def killed(rank: int) -> None:
    workers()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    auc.compute()


def stopped(rank: int) -> None:
    workers()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    auc.compute()


def interrupted(rank: int) -> None:
    workers()
    if rank == 0:
        signal.signal(signal.SIGALRM, signal.default_int_handler)  # Ctrl-C inside of the call
        signal.setitimer(signal.ITIMER_REAL, 0.5)
    else:
        time.sleep(1)  # rank 0 has left the call by then
    auc.compute()


def exits(rank: int) -> None:
    workers()
    if rank == 0:
        sys.exit("this worker has seen enough")
    auc.compute()


def never_calls(rank: int) -> None:
    if rank == 0:
        auc.compute()
    fleetmetrics.AUC()  # with its first metric, a worker connects
    time.sleep(1)


def different_metrics(rank: int) -> None:
    fleetmetrics.acc(1, 2) if rank == 0 else fleetmetrics.mae(1.0, 2)


def different_shapes(rank: int) -> None:
    fleetmetrics.AUC(num_thresholds=(4095, 199)[rank], name="auc").compute()


def different_settings(rank: int) -> None:
    fleetmetrics.FBeta(beta=1 + rank, name="f").compute()


def different_secrets(rank: int) -> None:
    os.environ["FLEETMETRICS_SECRET"] = f"the secret of rank {rank}"
    auc.compute()


def bad_input(rank: int) -> None:
    fleetmetrics.sum([1.0, 2.0] if rank == 0 else ["no", "numbers"])


def overflow(rank: int) -> None:
    fleetmetrics.sum(np.array([2**62]))


class Sizes(fleetmetrics.BaseMetric):
    """A metric whose value cannot be computed."""

    def add(self, sizes: list[float]) -> None:
        self._results.extend(sizes)

    def compute_metric(self, results: list[float]) -> dict[str, float]:
        return {"ratio": results[0] / results[1]}


def in_compute_metric(rank: int) -> None:
    metric = Sizes()
    metric.add([float(1 - rank)])
    metric.compute()


def closed(rank: int) -> None:
    found = workers()
    if rank == 1:
        found.close()
    auc.compute()


def no_descriptors(rank: int) -> None:
    if rank == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        for _ in range(57 - len(os.listdir("/proc/self/fd"))):
            os.dup(0)
    auc.compute()


def ports_taken(rank: int) -> None:
    place = os.environ["PADDLE_TRAINER_ENDPOINTS"].split(",")[0]
    os.environ["FLEETMETRICS_ENDPOINT"] = place
    if rank == 0:
        host, port = place.split(":")
        with socket.create_server((host, int(port))):  # and says nothing
            auc.compute(timeout=PLENTY)  # first it asks who listens there
    auc.compute()


def dead_name_server(rank: int) -> None:
    port = os.environ["PADDLE_TRAINER_ENDPOINTS"].rpartition(":")[2]
    os.environ.update(FLEETMETRICS_ENDPOINT=f"rank-0.example:{port}", FLEETMETRICS_SECRET="known to both")
    socket.getaddrinfo = lambda *_, **__: time.sleep(PLENTY)  # type: ignore[assignment]
    auc.compute()


def unknown_name(rank: int) -> None:
    port = os.environ["PADDLE_TRAINER_ENDPOINTS"].rpartition(":")[2]
    os.environ.update(FLEETMETRICS_ENDPOINT=f"rank-0.example:{port}", FLEETMETRICS_SECRET="known to both")

    def unknown(*_: Any, **__: Any) -> Any:
        time.sleep(0.1)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    socket.getaddrinfo = unknown  # type: ignore[assignment]
    auc.compute()


def silent_address(rank: int) -> None:
    """Rank 0's name has two addresses. Behind the one listens somebody who says nothing."""
    port = os.environ["PADDLE_TRAINER_ENDPOINTS"].rpartition(":")[2]
    os.environ.update(FLEETMETRICS_ENDPOINT=f"rank-0.example:{port}", FLEETMETRICS_SECRET="known to both")
    os.environ["FLEETMETRICS_BIND"] = "127.0.0.1"
    look_up = socket.getaddrinfo

    def both(host: Any, *rest: Any, **options: Any) -> Any:
        known = ["127.0.0.2", "127.0.0.1"] if host == "rank-0.example" else [host]
        return [found for each in known for found in look_up(each, *rest, **options)]

    socket.getaddrinfo = both  # type: ignore[assignment]
    with socket.create_server(("127.0.0.2", int(port))) if rank else contextlib.nullcontext():
        auc.compute()


def unsafe_folders(rank: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        tempfile.tempdir = os.environ["XDG_RUNTIME_DIR"] = os.environ["HOME"] = place
        for name in (f"fleetmetrics-{os.geteuid()}", "fleetmetrics", ".cache/fleetmetrics"):
            os.makedirs(f"{place}/{name}")
            os.chmod(f"{place}/{name}", 0o755)  # open to others
        auc.compute()


def no_number(rank: int) -> None:
    os.environ["PADDLE_TRAINERS_NUM"] = "1"
    auc.compute()


def malformed(rank: int) -> None:
    if rank == 1:
        os.environ["FLEETMETRICS_TIMEOUT"] = "soon"
    auc.compute()


def no_group(rank: int) -> None:
    auc.compute(group=[0, 5])


def no_communicator(rank: int) -> None:
    auc.compute(util="fleet.util" if rank else None)


def no_array_form(rank: int) -> None:
    metric = Sizes()
    metric.add([object()])  # type: ignore[list-item]
    metric.compute()


class OtherUtil:
    """What `fleet.util` is where fleet was initialized for other workers."""

    def __init__(self, workers: int) -> None:
        self.role_maker = self
        self._worker_num = lambda: workers

    def all_reduce(self, input: list[int], mode: str) -> np.ndarray:
        return np.array(input)


def other_util(rank: int) -> None:
    auc.compute(util=OtherUtil(2 + rank))


def without_launcher() -> None:
    for name in [name for name in os.environ if name.startswith("PADDLE_")]:
        del os.environ[name]


class HangingUtil:
    """A user's own object, where a worker never comes."""

    def all_reduce(self, input: list[int], mode: str) -> np.ndarray:
        time.sleep(PLENTY)
        return np.array(input)


def hanging_util(rank: int) -> None:
    without_launcher()
    auc.compute(util=HangingUtil())


def server(rank: int) -> None:
    os.environ["TRAINING_ROLE"] = "PSERVER"
    auc.compute()


def no_endpoints(rank: int) -> None:
    del os.environ["PADDLE_TRAINER_ENDPOINTS"]
    auc.compute()


def no_trainers_num(rank: int) -> None:
    del os.environ["PADDLE_TRAINERS_NUM"], os.environ["PADDLE_TRAINER_ID"]
    auc.compute()


def mpi(rank: int) -> None:
    without_launcher()
    os.environ["OMPI_COMM_WORLD_SIZE"] = "2"
    auc.compute()


def local_util(rank: int) -> None:
    without_launcher()
    auc.compute(util=OtherUtil(2))


def forked(rank: int) -> None:
    workers()
    if os.fork() == 0:
        auc.compute()
    os.wait()
    os._exit(0)


CASES: list[Callable[[int], None]] = [
    never_comes, never_calls, late, killed, stopped, interrupted, exits, closed, different_metrics, different_shapes,
    different_settings, different_secrets, bad_input, overflow, in_compute_metric, forked, no_descriptors,
    ports_taken, dead_name_server, unknown_name, silent_address, unsafe_folders, malformed, no_group, no_communicator,
    no_array_form, other_util, local_util, hanging_util, server, no_endpoints, no_trainers_num, no_number, mpi,
]  # fmt: skip


def work(case: Callable[[int], None], rank: int, ports: list[int], writer: int) -> None:
    """What the forked worker does: write what it saw, and after how long."""
    timeout = TIMEOUT if case.__name__ in TO_THE_DEADLINE else PLENTY
    os.environ.update(
        PADDLE_TRAINERS_NUM="2",
        PADDLE_TRAINER_ID=str(rank),
        PADDLE_TRAINER_ENDPOINTS=",".join(f"127.0.0.1:{port}" for port in ports),
        FLEETMETRICS_TIMEOUT=str(timeout),
    )
    global clock
    clock = time.monotonic()
    try:
        case(rank)
        text = "no error"
    except fleetmetrics.FleetMetricsError as error:
        text = f"{type(error).__name__}: {error}"
    except (KeyboardInterrupt, SystemExit) as error:
        text = type(error).__name__
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
    if auc.compute_local() != 0.75:
        text += " What was accumulated is lost."
    os.write(writer, json.dumps([text, time.monotonic() - clock]).encode())
    os._exit(0)


def run(cases: list[Callable[[int], None]]) -> dict[str, list[tuple[str, float]]]:
    """Run cases side by side.

    Args:
        cases: some of CASES.

    Returns:
        By the case's name: what each rank saw, and the seconds that it took.
    """
    children = {}
    for case in cases:
        ports = free_ports(2)
        for rank in range(2):
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                os.close(reader)
                work(case, rank, ports, writer)
            os.close(writer)
            children[case.__name__, rank] = child, reader
    found: dict[str, list[tuple[str, float]]] = {case.__name__: [] for case in cases}
    for (name, rank), (child, reader) in children.items():
        if name == "stopped" and rank == 1:
            os.kill(child, signal.SIGCONT)  # rank 0 has said what it saw
        data: Any = b""
        while select.select([reader], [], [], 2 * PLENTY)[0]:
            piece = os.read(reader, 1 << 16)
            if not piece:
                break
            data += piece
        os.close(reader)
        os.waitpid(child, 0)
        text, seconds = json.loads(data) if data else ("it is dead", 0.0)
        found[name].append((text, seconds))
    return found


def main() -> None:
    chosen = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
    half = -(-len(chosen) // 2)  # all cases at once are too much for a small machine, whose answers must be quick
    for name, seen in {**run(chosen[:half]), **run(chosen[half:])}.items():
        print(f"-- {name}")
        same = seen[0][0] == seen[1][0]
        for rank, (text, seconds) in enumerate(seen):
            if same and rank:
                text = "the same"
            print(f"rank {rank}, after {seconds:.1f} s: {text}")


if __name__ == "__main__":
    main()
