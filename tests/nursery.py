"""A process that has imported what takes long, and forks a child for each program that a test gives it.

A child is as good as a new process: nothing of a program's names, modes or communicators is left for the next. Paddle
alone takes one to two seconds to import.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Ended(NamedTuple):
    """How a program ended, and what it printed."""

    status: int
    out: str
    err: str


class Nursery:
    """A process that forks others; a context manager.

    Args:
        modules: what it imports beforehand.
    """

    def __init__(self, *modules: str) -> None:
        foreign = ("PADDLE_", "FLEETMETRICS_", "TRAINING_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment["OMP_NUM_THREADS"] = "1"
        command = [sys.executable, "-W", "ignore", __file__, *modules]
        # A session of its own: a child that hangs is ended with it.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        self._statuses: dict[int, int] = {}
        self._rest = b""

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def run(self, code: str, directory: Path, timeout: float = 120) -> Ended:
        """Run a program as `python -c` would.

        Args:
            code: the program.
            directory: where it runs; nothing else is in there.
            timeout: seconds that it may take.
        """
        out, err = (directory.with_name(f"{directory.name}.{name}") for name in ("out", "err"))
        child = self.start(["-c"], code, directory, out, err)
        try:
            status = child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {timeout} s\n{err.read_text(errors='replace')}") from None
        return Ended(status, out.read_text(), err.read_text(errors="replace"))

    def start(
        self, arguments: list[str], code: str, directory: Path, out: Path, err: Path, env: dict[str, str] | None = None
    ) -> Child:
        """Start a program in a process group of its own.

        Args:
            arguments: what `sys.argv` shall be; the first is the script's path, or "-c".
            code: the program.
            directory: where it runs.
            out: the file that gets what it prints.
            err: the same for errors; may be the same file.
            env: the environment; None: that of the nursery.
        """
        order = {"argv": arguments, "code": code, "directory": str(directory), "out": str(out), "err": str(err)}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({**order, "env": env}).encode() + b"\n")
        self.process.stdin.flush()
        pid: int | None = None
        while pid is None:
            pid = self._listen(60)
        return Child(self, pid)

    def status_of(self, pid: int, timeout: float) -> int | None:
        """The status that a child ended with; None if it has not after so many seconds."""
        end = time.monotonic() + timeout
        while pid not in self._statuses and (left := end - time.monotonic()) > 0:
            self._listen(left)
        return self._statuses.get(pid)

    def _listen(self, timeout: float) -> int | None:
        """Take in what the process tells next; the number of a child that it has started."""
        assert self.process.stdout is not None
        if b"\n" not in self._rest:
            readable, _, _ = select.select([self.process.stdout], [], [], timeout)
            if not readable:
                return None
            data = os.read(self.process.stdout.fileno(), 4096)
            assert data, "the nursery has ended"
            self._rest += data
            if b"\n" not in self._rest:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        pid, status = json.loads(line)
        if status is None:
            return int(pid)
        self._statuses[pid] = status
        return None


class Child:
    """A program that a nursery runs; has of `subprocess.Popen` what the tests need.

    Args:
        nursery: its parent.
        pid: its number, and that of its process group.
    """

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery, self.pid = nursery, pid

    def wait(self, timeout: float = 60) -> int:
        """The status that it ends with; negative: by which signal."""
        status = self._nursery.status_of(self.pid, timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return status

    def poll(self) -> int | None:
        """The status that it has ended with; None: it runs."""
        return self._nursery.status_of(self.pid, 0.001)

    def kill(self) -> None:
        """End it, and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def serve() -> None:
    """Fork, and tell who was started and who has ended how.

    A child runs its program and returns, so that Python ends as it always does.
    """
    signalled, signals = os.pipe()
    os.set_blocking(signals, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(signals)
    orders, children = b"", set()
    while True:
        readable, _, _ = select.select([0, signalled], [], [])
        if signalled in readable:
            os.read(signalled, 4096)
            while children:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                children.discard(pid)
                tell(pid, -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
        if 0 in readable:
            data = os.read(0, 1 << 20)
            if not data:
                return
            *lines, orders = (orders + data).split(b"\n")
            for line in lines:
                child = os.fork()
                if child == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os.close(signalled)
                    os.close(signals)
                    become(json.loads(line))
                    return
                children.add(child)
                tell(child, None)


def tell(pid: int, status: int | None) -> None:
    os.write(1, json.dumps([pid, status]).encode() + b"\n")


def become(order: dict[str, Any]) -> None:
    """In the child: run the program as the main module, with its own standard streams."""
    os.setsid()
    os.chdir(order["directory"])
    for number, path in ((0, os.devnull), (1, order["out"]), (2, order["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    if order["env"] is not None:
        os.environ.clear()
        os.environ.update(order["env"])
        sys.path[1:1] = [path for path in order["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    main = types.ModuleType("__main__")
    sys.modules["__main__"], sys.argv = main, order["argv"]
    script = order["argv"][0]
    if script == "-c":
        sys.path[0] = ""
        script = "<string>"
    else:
        sys.path[0] = os.path.dirname(script)
        main.__file__ = script
        sys.stdout.reconfigure(line_buffering=True)
    exec(compile(order["code"], script, "exec"), main.__dict__)


if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
    serve()
