"""The processes of a benchmark: started with a launcher's environment, watched, and ended together.

A script starts copies of itself with `run`; a copy learns with `place` what it is, lines up with the other workers
at a `Gate` before each call that is timed, and gives its findings to `report`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "wide_and_deep"
DIRECTORY = "FLEETMETRICS_BENCHMARK"
"""The environment variable that says where the processes of a run meet."""
TAIL = 40
"""Lines of a log that are shown when its process has failed."""


class Place(NamedTuple):
    """What a process of a run is."""

    role: str  # "worker" or "server"
    rank: int
    workers: int


def place() -> Place | None:
    """What this process is; None where it is the one that a person has started."""
    if DIRECTORY not in os.environ:
        return None
    role = "worker" if os.environ["TRAINING_ROLE"] == "TRAINER" else "server"
    return Place(role, int(os.environ.get("PADDLE_TRAINER_ID", 0)), int(os.environ["PADDLE_TRAINERS_NUM"]))


def report(findings: dict[str, Any]) -> None:
    """Hand a worker's findings (numbers, text, lists, dicts) to the process that started it."""
    path = Path(os.environ[DIRECTORY]) / f"worker {os.environ['PADDLE_TRAINER_ID']}.json"
    path.write_text(json.dumps(findings))


def wait_for_servers(seconds: float = 60.0) -> None:
    """Return when every server of the run takes connections; a worker that is earlier would be aborted by Paddle."""
    end = time.monotonic() + seconds
    for address in os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(","):
        host, port = address.split(":")
        while True:
            try:
                socket.create_connection((host, int(port)), seconds).close()
                break
            except OSError:
                if time.monotonic() > end:
                    raise TimeoutError(f"the server at {address} does not take connections") from None
                time.sleep(0.05)


class Gate:
    """Lines up the workers of one machine, to within some microseconds, through none of the channels under test.

    Each worker counts in a cell of shared memory, and looks until no cell has a lower count.
    """

    def __init__(self, rank: int, workers: int) -> None:
        path = Path(os.environ[DIRECTORY]) / "gate"
        path.touch()
        if path.stat().st_size < 64 * workers:
            os.truncate(path, 64 * workers)  # a cache line for each
        self.cells = np.asarray(np.memmap(path, np.int64, "r+", shape=(8 * workers,)))[::8]
        self.rank = rank
        self.count = 0

    def wait(self, seconds: float = 120.0) -> None:
        """Return when every worker has called this equally often."""
        self.count += 1
        self.cells[self.rank] = self.count
        end = time.monotonic() + seconds
        while self.cells.min() < self.count:
            os.sched_yield()
            if time.monotonic() > end:
                raise TimeoutError(f"a worker did not come within {seconds:g} s")


def run(
    script: str,
    workers: int,
    servers: int = 0,
    gloo: bool = False,
    arguments: list[str] | None = None,
    timeout: float = 900,
    digests: str = "all",
) -> list[dict[str, Any]]:
    """Run copies of a script as workers and servers of one job and return what the workers report.

    Args:
        script: the file; `place` is not None in the copies.
        workers: how many.
        servers: how many processes serve. With none of them the environment still names one, as every
            parameter-server job does; no worker asks it for anything.
        gloo: turn Paddle's own Gloo on.
        arguments: of the command line.
        timeout: seconds for all of it.
        digests: what they cover: "all", or "heads" alone.

    Raises:
        SystemExit: a process has failed; the end of its log has been printed.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    ports = free_ports(workers + max(1, servers))
    addresses = [f"127.0.0.1:{port}" for port in ports]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleetmetrics-benchmark-")))
        common = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PADDLE_", "FLEETMETRICS_", "TRAINING_"))},
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(EXAMPLE), os.environ.get("PYTHONPATH", "")]),
            "PYTHONUNBUFFERED": "1",
            "GLOG_minloglevel": "2",
            "OMP_NUM_THREADS": "1",
            "FLEETMETRICS_TIMEOUT": "60",
            "FLEETMETRICS_DIGESTS": digests,
            DIRECTORY: str(directory),
            "PADDLE_TRAINERS_NUM": str(workers),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(addresses[:workers]),
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(addresses[workers:]),
            "PADDLE_WITH_GLOO": str(int(gloo)),
            "PADDLE_GLOO_RENDEZVOUS": "2",  # over files: no port, and no process of its own
            "PADDLE_GLOO_FS_PATH": str(directory / "gloo"),
            "POD_IP": "127.0.0.1",
        }
        names = [f"worker {i}" for i in range(workers)] + [f"server {i}" for i in range(servers)]
        processes = {}
        for name, port in zip(names, ports):
            kind, number = name.split()
            role = {"TRAINING_ROLE": {"worker": "TRAINER", "server": "PSERVER"}[kind], "PADDLE_PORT": str(port)}
            if kind == "worker":
                role["PADDLE_TRAINER_ID"] = number
            log = stack.enter_context((directory / f"{name}.log").open("wb"))
            processes[name] = stack.enter_context(
                _Ending([sys.executable, script, *(arguments or [])], {**common, **role}, log)
            )
        _wait(processes, directory, time.monotonic() + timeout)
        return [json.loads((directory / f"worker {i}.json").read_text()) for i in range(workers)]


class _Ending(subprocess.Popen):  # type: ignore[type-arg]
    """A process that is killed on leaving the context, and by the kernel should this one be killed."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Any) -> None:
        super().__init__(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent
        )

    def __exit__(self, *error: Any) -> None:
        self.kill()
        self.wait()


def _die_with_parent() -> None:
    pr_set_pdeathsig = 1  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def _wait(processes: dict[str, subprocess.Popen[bytes]], directory: Path, end: float) -> None:
    """Until all workers have ended well, and the servers with them or not at all."""
    working = {name for name in processes if name.startswith("worker")}
    while working:
        for name, process in processes.items():
            code = process.poll()
            if code is not None and (code or name in working):
                working.discard(name)
                if code or not (directory / f"{name}.json").exists():
                    _fail(f"{name} ended with {code}", directory / f"{name}.log")
        if time.monotonic() > end:
            name = min(working)
            _fail(f"{name} is not done in time", directory / f"{name}.log")
        time.sleep(0.05)


def _fail(reason: str, log: Path) -> None:
    print("\n".join(log.read_text(errors="replace").splitlines()[-TAIL:]), file=sys.stderr)
    raise SystemExit(f"error: {reason}; the end of its log is above")


def free_ports(count: int) -> list[int]:
    """Ports that are free."""
    socks = [socket.socket() for _ in range(count)]
    try:
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in socks]
    finally:
        for sock in socks:
            sock.close()
