"""A process that has imported what takes long, and forks a child for each program that a test gives it.

A child is as good as a new process: no name, mode or communicator of a program is left for the next. Paddle
alone takes two seconds of processor time to import.

A process that asks for a child, at the nursery's address, holds the connection as long as the child must live. So a
process can stand in for it: in an environment of `Nursery.environment` Python, instead of importing what a script
needs, has the script forked, waits, and ends as it does. Launchers, and programs that watch or end their workers, see
no difference.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import gc
import importlib
import importlib.util
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import uuid
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from tests.standing_in import ADDRESS, SCRIPTS, asked

ROOT = Path(__file__).resolve().parent.parent
_COMMON = "NURSERY_COMMON"
#: Of the processes that share the tests, each has its number in this variable.
NUMBER = "TESTS_PROCESS"

#: What workers import at their first metric and their first exchange; a fork finds its own place among them.
OF_WORKERS = (
    "numpy.ma",
    *[f"fleetmetrics.{name}" for name in ("metrics.aggregation", "metrics.auc", "evaluator")],
    *[f"fleetmetrics.comm.{name}" for name in ("channel", "client", "server", "util", "worker")],
)
#: What the common nursery imports: whatever takes long, and what most programs begin with.
MODULES = (
    "sklearn.datasets",
    "sklearn.metrics",
    "paddle",
    "paddle.distributed.fleet",
    "paddle.jit.sot",  # the first metric would import it
    *[f"fleetmetrics.{name}" for name in ("metrics", "wrappers", "base.collection", "comm", "evaluator", "evaluation")],
    *[f"fleetmetrics.{name}" for name in ("static", "integrations.hapi", "doctor", "cli")],
    *OF_WORKERS,
    "tests.contract",  # with which static programs are built in less time
)


#: What makes the end of Python, with its destructors, dearer than most programs; see also `leave`.
LARGE = {"paddle", "pandas"}


class Ended(NamedTuple):
    """How a program ended, and what it printed."""

    status: int
    out: str
    err: str


class Nursery:
    """A process that forks others; a context manager.

    Args:
        modules: what it imports beforehand, in this order.
        variables: of its environment, for what is read at the import.
    """

    def __init__(self, *modules: str, **variables: str) -> None:
        foreign = ("PADDLE_", "FLEETMETRICS_", "TRAINING_", "FLAGS_", "GLOG_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        environment.update(variables)
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment["OMP_NUM_THREADS"] = "1"
        self.address = f"nursery-{uuid.uuid4().hex}"
        self.process: subprocess.Popen[bytes] | None = None
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(f"\0{self.address}")
            listener.listen(100)
            command = [sys.executable, "-W", "ignore", __file__, str(listener.fileno()), *modules]
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=environment,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.communicate()

    @classmethod
    def at(cls, address: str) -> Nursery:
        """One that another process has started, and ends."""
        nursery = cls.__new__(cls)
        nursery.address, nursery.process = address, None
        return nursery

    def run(self, code: str, directory: Path, timeout: float = 240) -> Ended:
        """Run a program as `python -c` would.

        Args:
            code: the program.
            directory: where it runs; nothing else is in there.
            timeout: seconds that it may take.
        """
        out, err = (directory.with_name(f"{directory.name}.{name}") for name in ("out", "err"))
        child = self.start(["-c", code], directory, out, err)
        try:
            status = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            raise AssertionError(f"no end within {timeout} s\n{err.read_text(errors='replace')}") from None
        return Ended(status, out.read_text(), err.read_text(errors="replace"))

    def environment(self, *scripts: str) -> dict[str, str]:
        """Variables with which Python lets some scripts be forked; among them PYTHONPATH.

        Args:
            scripts: their names without directories, or those of modules that are run.
        """
        path = [str(ROOT / "tests" / "forked"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        return {ADDRESS: self.address, SCRIPTS: os.pathsep.join(scripts), "PYTHONPATH": os.pathsep.join(path)}

    def start(
        self, command: list[str], directory: Path, out: Path, err: Path, env: dict[str, str] | None = None
    ) -> Child:
        """Start a program in a process group of its own.

        Args:
            command: what would follow `python`: a script, `-m` and a module, or `-c` and a program.
            directory: where it runs.
            out: the file that gets what it prints.
            err: the same for errors; may be the same file.
            env: the environment; None: that of the nursery.
        """
        with open(os.devnull) as nothing, open(out, "ab") as printed, open(err, "ab") as complained:
            files = [nothing.fileno(), printed.fileno(), complained.fileno()]
            return Child(self.address, command, str(directory), files, env)


@functools.lru_cache(maxsize=None)
def common() -> Nursery:
    """The nursery with Paddle that all tests of this process share, and every process that runs its tests."""
    if _COMMON in os.environ:
        return Nursery.at(os.environ[_COMMON])
    nursery = Nursery(*modules(), GLOG_minloglevel="2")
    atexit.register(nursery.__exit__)
    return nursery


def share() -> str:
    """Let the processes that this one starts from here on share its common nursery, and return its address."""
    os.environ[_COMMON] = common().address
    return common().address


def modules() -> list[str]:
    """Those of `MODULES` that are installed."""
    return [module for module in MODULES if is_here(module)]


def is_here(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is not None


class Child:
    """A program that a nursery runs; has of `subprocess.Popen` what the tests need.

    Args:
        address: the nursery's.
        command: see `Nursery.start`.
        directory: where it runs.
        files: the numbers of its standard streams.
        env: its environment.
    """

    def __init__(
        self, address: str, command: list[str], directory: str, files: list[int], env: dict[str, str] | None
    ) -> None:
        self._nursery = asked(address, command, directory, files, env)
        self._told = self._nursery.makefile("rb")
        self._status: int | None = None
        self.pid = self._listen()

    def wait(self, timeout: float | None = None) -> int:
        """The status that it ends with; negative: by which signal."""
        if self._status is None:
            if not select.select([self._nursery], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self._status = self._listen()
            self._told.close()
            self._nursery.close()
        return self._status

    def poll(self) -> int | None:
        """The status that it has ended with; None: it runs."""
        try:
            return self.wait(0.001)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it, and what it has started."""
        if self._status is None:
            end(self.pid)

    def _listen(self) -> int:
        line = self._told.readline()
        assert line, "the nursery has ended"
        return int(line)


# -- in the nursery ----------------------------------------------------------------------------------------


def serve(listener: socket.socket) -> None:
    """Fork for any process that asks, until the test that has started this process ends it or is gone.

    A child runs its program and returns, so that Python ends as it always does; but with what is large, see `leave`.
    """
    signaled, signals = os.pipe()
    os.set_blocking(signals, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(signals)
    children: dict[socket.socket, int] = {}
    while True:
        readable, _, _ = select.select([0, signaled, listener, *children], [], [])
        if 0 in readable:
            for child in children.values():
                end(child)
            return
        for connection in children.keys() & set(readable):  # the process that asked for it is gone
            end(children[connection])
        if signaled in readable:
            os.read(signaled, 4096)
            bury(children)
        if listener in readable:
            connection, _ = listener.accept()
            order, files = take(connection)
            child = os.fork()
            if child == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (signaled, signals):
                    os.close(each)
                for each in (listener, connection, *children):
                    each.close()
                (leave if LARGE & sys.modules.keys() else become)(order, files)
                return
            for each in files:
                os.close(each)
            children[connection] = child
            tell(connection, child)


def take(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """An order, and the standard streams that came with it."""
    data, files, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while not data.endswith(b"\n"):
        data += connection.recv(1 << 16)
    return ast.literal_eval(data.decode()), files


def tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(b"%d\n" % number)


def end(child: int) -> None:
    for kill in (os.killpg, os.kill):  # it may not have made its group yet
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def bury(children: dict[socket.socket, int]) -> None:
    """Tell of the children that have ended how they did."""
    for connection, child in list(children.items()):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            tell(connection, os.waitstatus_to_exitcode(status))
            connection.close()
            del children[connection]


def become(order: dict[str, Any], files: list[int]) -> None:
    """In the child: run the program as the main module, with its own standard streams."""
    os.setsid()
    os.chdir(order["directory"])
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    tempfile.tempdir = None  # the environment may have another
    if order["env"] is not None:
        os.environ.clear()
        os.environ.update(order["env"])
        sys.path[1:1] = [path for path in order["env"].get("PYTHONPATH", "").split(os.pathsep) if path]
    # Those of the nursery can be sought in, and pipes cannot.
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    option, *rest = command = order["command"]
    if option == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    if option == "-c":
        sys.path[0], sys.argv = "", ["-c", *rest[1:]]
        code, file = rest[0], "<string>"
    else:
        sys.path[0], sys.argv = os.path.dirname(option), command
        code, file = Path(option).read_text(encoding="utf-8"), option
        main.__file__ = file
    exec(compile(code, file, "exec"), main.__dict__)


def leave(order: dict[str, Any], files: list[int]) -> NoReturn:
    """Run the program, and end as Python does except for destructors: in Paddle 2.6's one fork in hundreds hangs."""
    status: Any = 0
    try:
        become(order, files)
    except SystemExit as error:
        status = error.code
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if status == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status or 0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _listener:
        for _module in sys.argv[2:]:
            importlib.import_module(_module)
        gc.freeze()  # a child that looks for garbage would look at all of Paddle's objects, and copy them
        serve(_listener)
