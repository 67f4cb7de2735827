"""Run the job under `fleetrun` and answer for it: show worker 0, watch everybody, leave nothing behind.

    python demo.py [--servers 2] [--workers 2] [--timeout 300] [options of train.py]

The launcher exits 0 whatever happens to the processes that it starts, waits forever when a server is gone, and can
leave servers behind. So every process of a run carries a mark in its environment, by which it is found in /proc. A
worker has done its part when its log says so, and a server when it has lived until all workers were done.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import options

HERE = Path(__file__).resolve().parent
MARK = "WIDE_AND_DEEP_RUN"
PERIOD = 0.2
"""Seconds between two looks at the processes."""
PATIENCE = 10
"""Seconds that killed processes have to disappear."""
TAIL = 30
"""Lines of a log that are shown when its process has failed."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Member:
    """A process of the run: the launcher, a worker or a server."""

    role: str
    index: int
    log: Path

    def __str__(self) -> str:
        return f"{self.role} {self.index}"

    def text(self) -> str:
        """What it has printed, as a terminal would show it."""
        return overwritten(self.log.read_bytes()).decode(errors="replace") if self.log.exists() else ""


class Failure(Exception):
    """The run has failed; the logs of `members` say why."""

    def __init__(self, reason: str, members: list[Member]) -> None:
        super().__init__(reason)
        self.members = members


class Run:
    """The launcher and all its descendants."""

    def __init__(self, servers: int, workers: int, arguments: list[str]) -> None:
        self.mark = uuid.uuid4().hex
        self.logs = HERE / "log" / time.strftime(f"%Y%m%d-%H%M%S-{os.getpid()}")
        self.logs.mkdir(parents=True)
        # Not in there: with Gloo on, Paddle has a socket in it, whose path may have 107 bytes at most.
        self.scratch = Path(tempfile.mkdtemp(prefix="wide_and_deep-"))
        self.launcher = Member("launcher", 0, self.logs / "launcherlog.0")
        self.workers = [Member("worker", i, self.logs / f"workerlog.{i}") for i in range(workers)]
        self.servers = [Member("server", i, self.logs / f"serverlog.{i}") for i in range(servers)]
        self.command = [
            str(Path(sys.executable).with_name("fleetrun")),
            f"--log_dir={self.logs}",
            f"--server_num={servers}",
            f"--worker_num={workers}",
            str(HERE / "train.py"),
            *arguments,
        ]

    def start(self) -> subprocess.Popen[bytes]:
        """Start the launcher, in a session of its own: a Ctrl-C is for this program only."""
        environment = {
            **os.environ,
            MARK: self.mark,
            # The launcher leaves its temporary directory behind when it is killed.
            "TMPDIR": str(self.scratch),
            # The progress bar goes to a file and cannot ask the terminal.
            "COLUMNS": str(shutil.get_terminal_size().columns),
        }
        # With this variable the launcher would take fixed ports instead of free ones.
        environment.pop("FLAGS_START_PORT", None)
        try:
            with self.launcher.log.open("wb") as log:
                return subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
        except FileNotFoundError:
            raise Failure(f"there is no {self.command[0]}: install paddlepaddle 2.6.2 beside this Python", []) from None

    def processes(self) -> dict[int, dict[str, str]]:
        """The environments of the run's living processes, by process id."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit():
                    pairs = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                    environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
                    if environment.get(MARK) == self.mark:
                        found[int(entry.name)] = environment
        return found

    def living(self) -> dict[Member, int]:
        """The workers and servers that live, with their process ids."""
        members = {}
        for pid, environment in self.processes().items():
            role = environment.get("TRAINING_ROLE")
            if role == "TRAINER":
                members[self.workers[int(environment["PADDLE_TRAINER_ID"])]] = pid
            elif role == "PSERVER":
                endpoints = environment["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
                members[self.servers[endpoints.index(f"{environment['POD_IP']}:{environment['PADDLE_PORT']}")]] = pid
        return members

    def unfinished(self) -> list[Member]:
        """The workers that have not said that they are done, or have crashed after that."""
        members = []
        for worker in self.workers:
            _, done, rest = f"\n{worker.text()}".partition(f"\n{worker} of {len(self.workers)}: done\n")
            if not done or "FatalError" in rest:
                members.append(worker)
        return members

    def lost(self) -> list[Member]:
        """The workers and servers that have ended without having done their part."""
        # In this order: a worker that is gone at the second look and done at the third has ended well.
        started = [member for member in [*self.workers, *self.servers] if member.log.exists()]
        living = self.living()
        needed = self.unfinished()
        if any(worker in living for worker in needed):
            # Once all workers have ended, the launcher ends the servers.
            needed = [*needed, *self.servers]
        return [member for member in started if member in needed and member not in living]

    def late(self) -> list[Member]:
        """Those who keep the run from ending: members that a signal has stopped, else workers that are not done."""
        living = self.living()
        return [member for member, pid in living.items() if is_stopped(pid)] or self.unfinished() or [self.launcher]

    def end(self) -> None:
        """End every process of the run and make sure that none is left."""
        deadline = time.monotonic() + PATIENCE
        while True:
            living = self.processes()
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not has_children() and not living:
                break
            if time.monotonic() > deadline:
                raise Failure(f"some processes cannot be ended: {sorted(living) or 'without a mark'}", [])
            time.sleep(PERIOD / 4)
        shutil.rmtree(self.scratch, ignore_errors=True)


def watch(run: Run, launcher: subprocess.Popen[bytes], timeout: float) -> None:
    """Follow the run until it has succeeded; raise `Failure` once it cannot any more."""
    deadline = time.monotonic() + timeout
    suspects: list[Member] = []
    with Screen(run.workers[0].log) as screen:
        while True:
            status = launcher.poll()
            screen.update()
            lost = run.lost()
            # Seen twice, since the launcher opens a log a moment before it starts the process.
            if lost and (status is not None or set(lost) & set(suspects)):
                raise Failure(f"{names(lost)} ended before the job was done", lost)
            suspects = lost
            if status is not None:
                unfinished = run.unfinished()
                if status or unfinished:
                    reason = f"the launcher ended with status {status}; not done: {names(unfinished) or 'none'}"
                    raise Failure(reason, [run.launcher, *unfinished])
                return
            if time.monotonic() > deadline:
                late = run.late()
                raise Failure(f"not done after {timeout:g} s: {names(late)}", late)
            time.sleep(PERIOD)


class Screen:
    """Copies to the terminal what is added to a log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.position = 0
        self.live = sys.stdout.isatty()

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *exception: object) -> None:
        self.update()

    def update(self) -> None:
        """Copy what is new."""
        with contextlib.suppress(FileNotFoundError), self.log.open("rb") as file:
            file.seek(self.position)
            new = file.read()
            if not self.live:
                # Where nothing can be overwritten, a progress bar is shown once, when its line is complete.
                new = new[: new.rfind(b"\n") + 1]
            self.position += len(new)
            sys.stdout.buffer.write(new if self.live else overwritten(new))
            sys.stdout.flush()


def overwritten(text: bytes) -> bytes:
    """What a terminal shows of lines in which carriage returns have started over."""
    return b"\n".join(line.rstrip(b"\r").rpartition(b"\r")[2] for line in text.split(b"\n"))


def names(members: Iterable[Member]) -> str:
    """The members in a sentence."""
    return ", ".join(map(str, members))


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped a process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    return False


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended, so that they can be waited for (Linux)."""
    pr_set_child_subreaper = 36  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def has_children() -> bool:
    """Whether this process has children that live; collect the exit statuses of the others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def interrupt(number: int, frame: object) -> None:
    """Handle a signal: leave, with the exit status that shells give it."""
    print(f"\nInterrupted by {signal.Signals(number).name}.", file=sys.stderr)
    raise SystemExit(128 + number)


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    """Check every option; return this program's, and the arguments that are left for train.py."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--servers", type=options.positive_integer, default=2, help="how many servers (%(default)s)")
    own.add_argument("--workers", type=options.positive_integer, default=2, help="how many workers (%(default)s)")
    own.add_argument("--timeout", type=options.positive_number, default=300, help="seconds at most (%(default)s)")
    description = "Run train.py under fleetrun, and answer for it."
    options.parse(argparse.ArgumentParser(description=description, parents=[own], allow_abbrev=False))
    return own.parse_known_args()


def main() -> None:
    """Run the job; exit 0 if it has succeeded, and leave no process behind in any case."""
    own, arguments = parse_arguments()
    run = Run(own.servers, own.workers, arguments)
    adopt_orphans()
    for number in SIGNALS:
        signal.signal(number, interrupt)
    try:
        try:
            watch(run, run.start(), own.timeout)
        finally:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            run.end()
    except Failure as failure:
        sys.exit(explanation(failure))


def explanation(failure: Failure) -> str:
    """Why the run has failed, and the end of the log of the process that caused it."""
    parts = [f"\nThe run failed: {failure}"]
    for member in failure.members:
        lines = member.text().splitlines()[-TAIL:] or ["(it is empty)"]
        parts.append("\n".join([f"--- the end of {member.log}", *lines]))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
