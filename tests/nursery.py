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
        command = [sys.executable, "-W", "ignore", __file__, *modules]
        # A session of its own: a child that hangs is ended with it.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )

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
        assert self.process.stdin is not None and self.process.stdout is not None
        out, err = (directory.with_name(f"{directory.name}.{name}") for name in ("out", "err"))
        order = {"code": code, "directory": str(directory), "out": str(out), "err": str(err)}
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        readable, _, _ = select.select([self.process.stdout], [], [], timeout)
        answer = self.process.stdout.readline() if readable else b""
        told = err.read_text(errors="replace") if err.exists() else ""
        assert answer, f"no end within {timeout} s, or none that could be told\n{told}"
        return Ended(json.loads(answer), out.read_text(), told)


def serve() -> None:
    """Fork, wait, tell the status; a child runs its program and returns, so that Python ends as it always does."""
    for line in sys.stdin.buffer:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            become(order)
            return
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % (-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)))


def become(order: dict[str, Any]) -> None:
    """In the child: run the program as the main module, with its own standard streams."""
    os.chdir(order["directory"])
    for number, path in ((0, os.devnull), (1, order["out"]), (2, order["err"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    main = types.ModuleType("__main__")
    sys.modules["__main__"], sys.argv = main, ["-c"]
    sys.path[0] = ""
    exec(compile(order["code"], "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
    serve()
