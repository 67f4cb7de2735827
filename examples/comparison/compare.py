"""Print what `paddle.distributed.fleet.metrics` and fleetmetrics answer to the same questions, on real workers.

    python examples/comparison/compare.py

Each job has two workers. On Paddle 2.6 there are also jobs with a parameter server, started by `fleetrun`. The
column "one process" is what one process computes over the samples of both workers. Takes about a minute.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Callable, Iterator

from data import BIG_BATCH, BIG_BATCHES, PATIENCE, SMALL_BATCHES, TIMEOUT, WORKERS, one_process

HERE = Path(__file__).resolve().parent
MARK = "COMPARISON_RUN"
LIMIT = 120
"""Seconds until a job is given up."""
SERVERS = f"fleetrun --server_num=1 --worker_num={WORKERS} worker.py"
COLLECTIVE = f"python -m paddle.distributed.launch --backend=gloo --nproc_per_node={WORKERS} worker.py"
SIDES = ("fleet.metrics", "fleetmetrics")
Answers = dict[str, dict[str, str]]
"""A worker's, by question and side."""


@dataclass(frozen=True)
class Job:
    """A function of worker.py, its questions in their order, and how the job is started."""

    name: str
    major: int  # of Paddle
    command: str
    what: str
    questions: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    patience: float = LIMIT


GLOO = (("PADDLE_WITH_GLOO", "1"),)
JOBS = [
    Job(
        "gloo_on",
        2,
        SERVERS,
        f"Parameter servers with Gloo; each worker has {BIG_BATCHES} batches of {BIG_BATCH} and {SMALL_BATCHES} of 1",
        (
            "number of samples",
            "their MAE",
            "sum of 16777217.0 and 16777217.0",
            "sum of -5 and 3",
            "MSE of no samples",
            "sum of 3 and 2.5",
        ),
        GLOO,
    ),
    Job(
        "late_worker",
        2,
        SERVERS,
        "Parameter servers with Gloo, and a worker that does not come",
        ("accuracy, worker 1 never asks",),
        (*GLOO, ("FLEETMETRICS_TIMEOUT", str(TIMEOUT))),
        PATIENCE,
    ),
    Job("gloo_off", 2, SERVERS, "Parameter servers without Gloo, as fleetrun starts them", ("AUC", "MAE")),
    Job("pir", 3, COLLECTIVE, "Static mode", ("AUC from the program", "AUC from fetched arrays")),
    Job("dynamic", 0, COLLECTIVE, "Dynamic mode", ("accuracy from tensors", "accuracy from arrays")),
]


class Run:
    """A running job. Its processes carry a mark in their environment, since the launcher can leave some behind."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.mark = uuid.uuid4().hex
        self.directory = Path(tempfile.mkdtemp(prefix="comparison-"))
        python = Path(sys.executable)
        command = job.command.replace("worker.py", str(HERE / "worker.py")).split()
        command[0] = str(python.with_name(command[0])) if command[0] != "python" else str(python)
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PADDLE_", "FLEETMETRICS_", "FLAGS_"))}
        environment = {
            **clean,
            MARK: self.mark,
            "COMPARISON_DIRECTORY": str(self.directory),
            "COMPARISON_JOB": job.name,
            "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]),
            **dict(job.environment),
        }
        with (self.directory / "launcher.log").open("wb") as log:
            self.launcher = subprocess.Popen(command, env=environment, cwd=self.directory, stdout=log, stderr=log)

    def answers(self) -> list[Answers]:
        """What the workers have written down so far."""
        files = [self.directory / f"{rank}.json" for rank in range(WORKERS)]
        return [json.loads(file.read_text()) if file.exists() else {} for file in files]

    def processes(self) -> Iterator[tuple[int, dict[str, str]]]:
        """The living processes and their environments."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                pairs = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
                if environment.get(MARK) == self.mark:
                    yield int(entry.name), environment

    def workers(self) -> set[int]:
        """The ranks of the living workers."""
        found = [environment for _, environment in self.processes() if environment.get("TRAINING_ROLE") != "PSERVER"]
        return {int(environment["PADDLE_TRAINER_ID"]) for environment in found if "PADDLE_TRAINER_ID" in environment}

    def wait(self) -> list[Answers]:
        """The workers' answers; where one is missing, how that worker ended."""
        started, first, dead = time.monotonic(), 0.0, 0
        while time.monotonic() < started + LIMIT:
            found, living = self.answers(), self.workers()
            missing = [rank for rank in range(WORKERS) if not self._complete(found[rank])]
            first = first or (time.monotonic() if any(found) else 0.0)
            dead = dead + 1 if first and not set(missing) <= living else 0
            # A worker that waits for a dead one gets a few more looks; one that waits for a late one gets the full
            # timeout.
            if not missing or dead > 10 or (first and time.monotonic() > first + self.job.patience):
                break
            time.sleep(0.2)
        waited = f"none in {time.monotonic() - (first or started):.0f} s"
        silence = {rank: waited if rank in living else "died" for rank in missing}
        return [
            {q: {side: found[rank].get(q, {}).get(side) or silence[rank] for side in SIDES} for q in self.job.questions}
            for rank in range(WORKERS)
        ]

    def _complete(self, found: Answers) -> bool:
        return all(len(found.get(question, {})) == len(SIDES) for question in self.job.questions)

    def end(self) -> None:
        """Leave no process behind."""
        deadline = time.monotonic() + 10
        while (left := [pid for pid, _ in self.processes()]) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.launcher.poll()
            time.sleep(0.1)
        self.launcher.wait()
        shutil.rmtree(self.directory)


def table(job: Job, found: list[Answers], right: dict[str, str]) -> str:
    """One question a line; of errors the class, and below the table their messages."""
    rows = [["", "one process", "fleet.metrics", "", "fleetmetrics"], ["", "", "worker 0", "worker 1", "both workers"]]
    texts: list[str] = []
    for question in job.questions:
        theirs = [worker[question]["fleet.metrics"] for worker in found]
        ours = [worker[question]["fleetmetrics"] for worker in found]
        if job.name == "late_worker":
            theirs[1], ours[1] = "-", ours[0]
        texts += [text for text in [*theirs, *ours] if ": " in text]
        cells = [*theirs, " and ".join(dict.fromkeys(ours))]
        rows.append([question, right[question], *(cell.split(": ")[0] for cell in cells)])
    widths = [max(map(len, column)) for column in zip(*rows)]
    align: list[Callable[[str, int], str]] = [str.ljust, *[str.rjust] * 4]
    lines = ["  ".join(put(cell, width) for put, cell, width in zip(align, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *dict.fromkeys(texts)])


def main() -> None:
    paddle = version("paddlepaddle")
    right = one_process()
    print(f"paddlepaddle {paddle}, {WORKERS} workers")
    for job in JOBS:
        if job.major not in (0, int(paddle.split(".")[0])):
            continue
        run = Run(job)
        try:
            found = run.wait()
        finally:
            run.end()
        settings = " ".join(f"{name}={value}" for name, value in job.environment)
        print(f"\n{job.what}\n$ {settings} {job.command}".replace("$  ", "$ "))
        print(table(job, found, right), flush=True)


if __name__ == "__main__":
    main()
