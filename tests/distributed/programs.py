"""Workers as programs that a shell or a launcher starts: what each does is written in the test.

In a test::

    with Runs(tmp_path) as runs:
        workers = [runs.start(rank, **place) for rank, place in enumerate(places(2, "collective"))]
        assert [worker.said() for worker in workers] == [["value 1.0"]] * 2
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.distributed.cluster import PATIENCE, ROOT, free_ports, of_channels
from tests.distributed.forks import SECRET

#: A worker: the test gives what it does before it imports the package, before and after its first metric, before each
#: compute, and at the end.
WORKER = """
import os, sys, time
from pathlib import Path
def touch(name): Path(os.environ["PLACE"], name).touch()
def wait_for(name):
    end = time.monotonic() + 240
    while not Path(os.environ["PLACE"], name).exists():
        assert time.monotonic() < end, name
        time.sleep(0.005)
exec(os.environ.get("AT_START", ""))
import fleetmetrics as fm
exec(os.environ.get("WHEN_IMPORTED", ""))
metric = fm.Sum(name="sum")
metric.add([float(os.environ["OWN"])])
exec(os.environ.get("WHEN_MADE", ""))
for call in range(int(os.environ.get("CALLS", "1"))):
    exec(os.environ.get("BEFORE_EACH", ""))
    seconds = os.environ.get("SECONDS", "20")
    try:
        print("value", metric.compute(timeout=float(seconds) if seconds else None), flush=True)
    except fm.FleetMetricsError as error:
        print(f"{type(error).__name__}: {error}", flush=True)
exec(os.environ.get("AT_END", ""))
"""


class Worker:
    """One worker's process, and what it prints."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self, seconds: float = PATIENCE) -> str | None:
        """The next line that it prints; None at its end."""
        return self._lines.get(timeout=seconds)

    def said(self, waits: bool = False) -> list[str]:
        """The lines that it prints until its end; without those that say whom it waits for, unless asked."""
        lines = list(iter(self.line, None))
        self.process.wait(60)
        return [line for line in lines if waits or not line.startswith("fleetmetrics: ")]

    def kill(self) -> None:
        """End it at once, also where it stands for a fork."""
        self.process.kill()
        self.process.wait()
        self._reader.join(60)


class Runs:
    """Starts workers, and ends those that are left.

    Args:
        place: the directory of their programs and of what they touch.
        forked: whether a nursery forks those that run a script and print no warnings, in a fraction of the time.
    """

    def __init__(self, place: Path, forked: bool = True) -> None:
        self.place, self.forked = place, forked
        self.workers: list[Worker] = []
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(("PADDLE_", "FLEETMETRICS_"))},
            "PYTHONPATH": str(ROOT),
            "PLACE": str(place),
            "TMPDIR": str(place),
            "PYTHONWARNINGS": "ignore::UserWarning",
            # Unbuffered, print() writes a line and its end apart, and the lines of two processes on one pipe mix.
            "PYTHONUNBUFFERED": "",
        }

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
            if worker.process.stdout is not None:
                worker.process.stdout.close()

    def script(self, name: str, code: str = WORKER) -> str:
        """Write a program; return its path."""
        path = self.place / name
        if not path.exists() or path.read_text() != code:  # a process that has just started may be reading it
            path.write_text(code)
        return str(path)

    def start(self, own: float, command: list[str] | None = None, **environment: str) -> Worker:
        """Start a worker that brings a value of its own; by default it runs train.py."""
        command = command or [sys.executable, self.script("train.py")]
        said = {**self.environment, "OWN": str(own), **environment}
        if self.forked and len(command) == 2 and "PYTHONWARNINGS" not in environment:
            said.update(of_channels().environment(Path(command[1]).name))
        self.workers.append(Worker(command, said))
        return self.workers[-1]

    def wait_for(self, name: str, seconds: float = PATIENCE) -> None:
        """Wait until a worker has touched a file."""
        end = time.monotonic() + seconds
        while not (self.place / name).exists():
            assert time.monotonic() < end, f"no process touched {name}"
            time.sleep(0.005)

    def touch(self, name: str) -> None:
        """Let workers that wait for a file go on."""
        (self.place / name).touch()


def places(size: int, kind: str) -> list[dict[str, str]]:
    """The environments of the workers of one run, by rank.

    Args:
        size: how many.
        kind: "servers", "collective", or "endpoint" with a secret.
    """
    ports = free_ports(size + 1)
    endpoints = ",".join(f"127.0.0.1:{port}" for port in ports[:size])
    common = {"PADDLE_TRAINERS_NUM": str(size), "PADDLE_TRAINER_ENDPOINTS": endpoints}
    if kind == "servers":
        common.update(TRAINING_ROLE="TRAINER", PADDLE_PSERVERS_IP_PORT_LIST=f"127.0.0.1:{ports[size]}")
    if kind == "endpoint":
        common.update(FLEETMETRICS_ENDPOINT=f"127.0.0.1:{ports[size]}", FLEETMETRICS_SECRET=SECRET)
    return [{**common, "PADDLE_TRAINER_ID": str(rank)} for rank in range(size)]
