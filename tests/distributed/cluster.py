"""Real worker processes for the tests: start them, collect what each reports, leave nothing behind.

In a test::

    reports = run(Path(__file__).with_name("channel_worker.py"), workers=2, launch="bare")

In the worker script::

    from cluster import arguments, report
    report(value=0.5)

Floats survive exactly: they cross as ``repr``, arrays as bytes. A worker that is missing, that exits with an error
or is not ready in time fails the test with the ends of all logs.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import numpy as np

from tests.nursery import NUMBER, OF_WORKERS, Nursery, common

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LAUNCHES = ("bare", "ps", "ps_gloo", "collective", "mpi")
_DIRECTORY, _ARGUMENTS, _MARK = "CLUSTER_DIRECTORY", "CLUSTER_ARGUMENTS", "CLUSTER_MARK"
_TEST = "CLUSTER_TEST_PROCESS"

#: Seconds that a busy machine may take more than a deadline, and for what is to happen at once: they tell a hang, and
#: the texts of the errors tell what happened.
SLACK = AT_ONCE = 100.0
#: Seconds that a test waits for its workers: only where something is wrong are they used up.
PATIENCE = 240.0


def arguments() -> dict[str, Any]:
    """Return, in a worker, the ``args`` of :func:`run`."""
    loaded: dict[str, Any] = json.loads(os.environ[_ARGUMENTS])
    return loaded


def report(**values: Any) -> None:
    """Write, in a worker, what the test must see; later calls add to it.

    Args:
        values: numbers, text, lists, dicts, NumPy arrays.
    """
    rank = os.environ.get("PADDLE_TRAINER_ID") or os.environ.get("PMI_RANK", "0")
    path = Path(os.environ[_DIRECTORY]) / f"{rank}.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    half = path.with_suffix(".half")
    half.write_text(json.dumps({**earlier, **{name: _encode(value) for name, value in values.items()}}))
    half.replace(path)


def error_text(call: Any) -> str:
    """Run a function that must raise, and return "ClassName: message".

    Args:
        call: without arguments.
    """
    try:
        value = call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"no error, but {value!r}"


def wait_for_file(name: str, seconds: float = PATIENCE) -> None:
    """Wait, in a worker, until another has called :func:`touch`.

    Args:
        name: what it touched.
        seconds: how long.
    """
    end = time.monotonic() + seconds
    while not (Path(os.environ[_DIRECTORY]) / name).exists():
        if time.monotonic() > end:
            raise TimeoutError(f"no process touched {name}")
        time.sleep(0.005)


def touch(name: str) -> None:
    """Let the others' :func:`wait_for_file` go on."""
    (Path(os.environ[_DIRECTORY]) / name).touch()


def free_ports(count: int) -> list[int]:
    """Return ports that stay free until a worker listens there: each is given once.

    They are below those that the system gives to a socket that connects or binds to port 0, and below those that the
    package derives.

    Args:
        count: how many.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = 10_000 + next(_ports()) % 10_000
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("", port))
            ports.append(port)
    return ports


#: Test runs that go on at the same time begin at different ones, and so do the processes that share one.
@functools.lru_cache(maxsize=None)
def _ports() -> Iterator[int]:
    shared = os.environ.get(NUMBER)
    run = os.getpid() if shared is None else os.getppid()
    return itertools.count(run * 211 + 1000 * int(shared or 0))


def run(
    script: Path,
    workers: int = 2,
    launch: str = "bare",
    servers: int = 1,
    args: dict[str, Any] | None = None,
    timeout: float = PATIENCE,
    env: dict[str, str] | None = None,
    missing: tuple[int, ...] = (),
) -> list[dict[str, Any]]:
    """Run a script on several workers.

    Args:
        script: what each process runs; it calls :func:`report`.
        workers: how many.
        launch: "bare": without a launcher; "ps" (Paddle's, Gloo off as by default), "ps_gloo", "collective" or "mpi"
            (mpirun). With a nursery (:func:`nursery_for`) workers and their launcher are forked, and hash texts alike.
        servers: how many parameter servers, for the two of that kind.
        args: what :func:`arguments` returns there.
        timeout: seconds for the whole job.
        env: further environment variables.
        missing: ranks that are expected to be killed, and to report nothing more.

    Returns:
        The reports in the order of the ranks.

    Raises:
        AssertionError: if a report is missing, a process failed, or the time is over.
    """
    return attempt(lambda: Job(script, workers, launch, servers, args, env), lambda job: job.wait(timeout, missing))


def run_page(page: Path, name: str, directory: Path, workers: int = 3) -> tuple[str, list[str]]:
    """Run the first script of a page under Paddle's launcher.

    Args:
        page: of the documentation.
        name: of the script, as the page saves it.
        directory: where it is written.
        workers: how many.

    Returns:
        The line that its last print has in a comment, and what each worker has printed.
    """
    code = re.search(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None, page
    script = directory / name
    script.write_text(code[1])
    expected = re.findall(r"print\(.*\)  # (.*)", code[1])[-1]
    environment = common().environment(name, "paddle.distributed.launch")
    with Job(script, workers, "collective", env=environment) as job:
        assert job.processes[0].wait(200) == 0, job.logs()
        return expected, [path.read_text() for path in sorted((job.directory / "log").glob("workerlog.*"))]


def attempt(make: Callable[[], Job], use: Callable[[Job], Any]) -> Any:
    """Start a job and use it; once more with another one if it failed through Paddle's own fault.

    Args:
        make: starts a job.
        use: waits for it, and returns its outcome.
    """

    def once() -> Any:
        with make() as job:
            return use(job)

    return unless_paddles_own(once)


def unless_paddles_own(work: Callable[[], Any]) -> Any:
    """What the work returns; it is done again, twice at most, if it failed through Paddle's own fault."""
    for _ in range(2):
        try:
            return work()
        except AssertionError as error:
            if not is_paddles_own(error):
                raise
    return work()


def is_paddles_own(error: AssertionError) -> bool:
    """Whether a job has failed since Paddle could not connect its own process group, as happens on a busy machine.

    Paddle 2.6 does not try again when a worker does not listen yet, or its store drops a connection. The package
    takes no part in that.
    """
    where = r"ProcessGroupGloo\.create\(.*(gloo/transport/tcp/pair\.cc|distributed/store/tcp_utils\.h)"
    return re.search(where, str(error), re.DOTALL) is not None


def run_at_once(script: Path, jobs: dict[Any, dict[str, Any]], workers: int = 3) -> dict[Any, list[dict[str, Any]]]:
    """Run several jobs that do little but wait, each without a launcher.

    Args:
        script: what each process runs.
        jobs: the ``args`` of each; of them ``workers`` is how many it has, ``missing`` as for :func:`run`.
        workers: of the jobs that do not say.

    Returns:
        The reports of each job.
    """
    with contextlib.ExitStack() as stack:
        running = {
            name: stack.enter_context(Job(script, args.get("workers", workers), args=args))
            for name, args in jobs.items()
        }
        return {name: job.wait(missing=tuple(jobs[name].get("missing", ()))) for name, job in running.items()}


class Job:
    """A job that runs while the test does something else; see :func:`run` for the arguments."""

    def __init__(
        self,
        script: Path,
        workers: int = 2,
        launch: str = "bare",
        servers: int = 1,
        args: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        assert launch in LAUNCHES, f"launch is {launch!r}; allowed are {LAUNCHES}"
        self.workers = workers
        self.directory = Path(tempfile.mkdtemp(prefix="fleetmetrics-test-"))
        self.mark = uuid.uuid4().hex
        self._launch = launch
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PADDLE_", "FLEETMETRICS_", "TRAINING_"))},
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")]),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "FLEETMETRICS_TIMEOUT": "60",
            _DIRECTORY: str(self.directory),
            _ARGUMENTS: json.dumps(args or {}),
            _MARK: self.mark,
            _TEST: str(os.getpid()),
            **(env or {}),
        }
        if (nursery := nursery_for(script)) is not None:
            self._environment.update(nursery.environment(script.name, "paddle.distributed.launch"))
            self._environment["PYTHONPATH"] += os.pathsep + str(HERE)
        self.processes: list[subprocess.Popen[bytes]] = []
        if launch == "bare":
            self._start_bare(script)
        elif launch == "mpi":
            mpirun = Path(sys.executable).with_name("mpirun")
            self._start([str(mpirun), "-n", str(workers), sys.executable, str(script)], self._environment, "mpirun.log")
        else:
            self._start_launcher(script, servers)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop()
        if kind is None:  # otherwise the logs may still be of use
            shutil.rmtree(self.directory, ignore_errors=True)

    def _start_bare(self, script: Path) -> None:
        endpoints = ",".join(f"127.0.0.1:{port}" for port in free_ports(self.workers))
        for rank in range(self.workers):
            place = {
                "PADDLE_TRAINERS_NUM": str(self.workers),
                "PADDLE_TRAINER_ID": str(rank),
                "PADDLE_TRAINER_ENDPOINTS": endpoints,
                "PADDLE_CURRENT_ENDPOINT": endpoints.split(",")[rank],
                "FLEETMETRICS_RUN": self.directory.name,
            }
            self._start([sys.executable, str(script)], {**place, **self._environment}, f"worker {rank}.log")

    def _start_launcher(self, script: Path, servers: int) -> None:
        python = [sys.executable, "-m", "paddle.distributed.launch", "--log_dir", str(self.directory / "log")]
        if self._launch == "collective":
            command = [*python, "--nproc_per_node", str(self.workers), "--backend", "gloo", str(script)]
        else:
            ports = [f"127.0.0.1:{port}" for port in free_ports(self.workers + servers)]
            places = ["--servers", ",".join(ports[:servers]), "--workers", ",".join(ports[servers:])]
            command = [*python, *places, str(script)]
        gloo = {"PADDLE_WITH_GLOO": "1"} if self._launch == "ps_gloo" else {}
        self._start(command, {**self._environment, **gloo}, "launcher.log")

    def _start(self, command: list[str], env: dict[str, str], log: str) -> None:
        with open(self.directory / log, "wb") as output:
            self.processes.append(
                subprocess.Popen(
                    command, env=env, cwd=self.directory, stdout=output, stderr=output, start_new_session=True
                )
            )

    def wait(self, timeout: float = PATIENCE, missing: tuple[int, ...] = ()) -> list[dict[str, Any]]:
        """Wait for the job's end and return the reports; see :func:`run`."""
        end = time.monotonic() + timeout
        for rank, process in enumerate(self.processes):
            try:
                code = process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"not ready within {timeout} s\n{self.logs()}") from None
            if code != 0 and not (self._launch == "bare" and rank in missing):
                raise AssertionError(f"process {rank} ended with {code}\n{self.logs()}")
        reports = [self.report_of(rank) for rank in range(self.workers)]
        absent = [rank for rank, found in enumerate(reports) if found is None and rank not in missing]
        if absent:
            raise AssertionError(f"no report of ranks {absent}\n{self.logs()}")
        return [found or {} for found in reports]

    def report_of(self, rank: int) -> dict[str, Any] | None:
        """Return what a worker has reported so far, or None."""
        path = self.directory / f"{rank}.json"
        if not path.exists():
            return None
        return {name: _decode(value) for name, value in json.loads(path.read_text()).items()}

    def logs(self) -> str:
        """Return the ends of all logs."""
        paths = sorted([*self.directory.glob("*.log"), *self.directory.glob("log/*")])
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in paths if path.is_file()
        )

    def stop(self) -> None:
        """Kill what is left: the processes that carry this job's mark, orphans of a launcher included."""
        marker = f"{_MARK}={self.mark}".encode()
        for _ in range(3):
            for path in Path("/proc").glob("[0-9]*/environ"):
                with contextlib.suppress(OSError):
                    if marker in path.read_bytes().split(b"\0"):
                        os.kill(int(path.parent.name), signal.SIGKILL)
        for process in self.processes:
            process.wait()


def nursery_for(script: Path) -> Nursery | None:
    """What forks the workers of a script: with Paddle, without, or None: they are new processes."""
    if HERE in script.parents:
        begins_with_paddle = re.search("^(import|from) paddle", script.read_text(encoding="utf-8"), re.MULTILINE)
        if begins_with_paddle or script.name == "launchers.py":
            return common()
        if script.name in ("channel.py", "fold.py", "records_errors.py", "watching.py"):
            return of_channels()
    return None


@functools.lru_cache(maxsize=None)
def of_channels() -> Nursery:
    """A process that forks workers without Paddle, for the rest of this test run."""
    nursery = Nursery("tests.nursery", *OF_WORKERS)
    atexit.register(nursery.__exit__)
    return nursery


def _encode(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        data = base64.b64encode(array.tobytes()).decode()
        return {"array": data, "dtype": array.dtype.str, "shape": list(array.shape)}
    if isinstance(value, dict):
        return {"dict": {name: _encode(item) for name, item in value.items()}}
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    return {"float": repr(value)} if isinstance(value, float) else value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "array" in value:
        data = base64.b64decode(value["array"])
        return np.frombuffer(data, value["dtype"]).reshape(value["shape"]).copy()
    return {name: _decode(item) for name, item in value["dict"].items()}


def _end_with_the_test() -> None:
    """A test run that is killed cannot clean up: then the workers end by themselves."""
    while Path("/proc", os.environ[_TEST]).exists():
        time.sleep(1)
    os._exit(1)


if _TEST in os.environ:
    threading.Thread(target=_end_with_the_test, daemon=True).start()
