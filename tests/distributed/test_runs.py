"""Which run a worker belongs to: runs with the same endpoints never mix, and what a worker starts is not that worker.

All are new processes, as a launcher or a shell starts them: what others see of a process is part of what is tested.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

from tests.distributed.cluster import AT_ONCE, ROOT, free_ports
from tests.distributed.forks import SECRET, wait_for
from tests.distributed.proxy import Proxy

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]

#: A worker: what it does before it imports the package, and before each compute, is given by the test.
WORKER = """
import os, sys, time
from pathlib import Path
def touch(name): Path(os.environ["PLACE"], name).touch()
def wait_for(name):
    end = time.monotonic() + 60
    while not Path(os.environ["PLACE"], name).exists():
        assert time.monotonic() < end, name
        time.sleep(0.005)
exec(os.environ.get("AT_START", ""))
import fleetmetrics as fm
exec(os.environ.get("WHEN_IMPORTED", ""))
metric = fm.Sum()
metric.add([float(os.environ["OWN"])])
for call in range(int(os.environ.get("CALLS", "1"))):
    exec(os.environ.get("BEFORE_EACH", ""))
    try:
        print("value", metric.compute(timeout=float(os.environ.get("SECONDS", "20"))), flush=True)
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

    def said(self) -> list[str]:
        """The lines that it printed until its end."""
        return self.process.communicate(timeout=90)[0].splitlines()


class Runs:
    """Starts workers, and ends those that are left."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.workers: list[Worker] = []
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(("PADDLE_", "FLEETMETRICS_"))},
            "PYTHONPATH": str(ROOT),
            "PLACE": str(place),
            "TMPDIR": str(place),
            # Unbuffered, print() writes a line and its end apart, and the lines of two processes on one pipe mix.
            "PYTHONUNBUFFERED": "",
        }

    def start(self, own: float, command: list[str] | None = None, **environment: str) -> Worker:
        """Start a worker that brings a value of its own."""
        said = {**self.environment, "OWN": str(own), **environment}
        self.workers.append(Worker(command or [sys.executable, "-c", WORKER], said))
        return self.workers[-1]

    def end(self) -> None:
        """End what is left, and what they have started."""
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
            if worker.process.stdout is not None:
                worker.process.stdout.close()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    found = Runs(tmp_path)
    try:
        yield found
    finally:
        found.end()


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


def check_never_mixed(said: list[list[str]], truth: str) -> None:
    """All of a run's workers print its number, or all raise an error that names the two runs."""
    lines = [line for worker in said for line in worker]
    assert all(lines), said
    if truth in lines:
        assert {line for line in lines} == {truth}, said
        return
    for line in lines:
        assert line.startswith("CommunicatorError: ") and ("two processes" in line or "another run" in line), said


@pytest.mark.parametrize(("kind", "size"), [("servers", 3), ("collective", 2), ("endpoint", 3)])
def test_two_runs_with_the_same_endpoints_never_mix(runs: Runs, kind: str, size: int) -> None:
    same = places(size, kind)
    first = [runs.start(100 + rank, **place) for rank, place in enumerate(same)]
    second = [runs.start(200 + rank, **place) for rank, place in enumerate(same)]
    start = time.monotonic()
    found = [[worker.said() for worker in run] for run in (first, second)]
    assert time.monotonic() - start < 20 + AT_ONCE
    for values, said in zip((range(100, 100 + size), range(200, 200 + size)), found):
        check_never_mixed(said, f"value {float(sum(values))}")


@pytest.mark.parametrize(
    ("kind", "crossed"), [("servers", True), ("collective", True), ("endpoint", True), ("collective", False)]
)
def test_the_first_workers_are_not_mistaken_for_a_run_while_others_are_starting(
    runs: Runs, kind: str, crossed: bool
) -> None:
    """Rank 0 of one run and rank 1 of the other are there long before the others have imported anything."""
    same = places(2, kind)
    late = {"AT_START": "wait_for('go')"}
    orders = [(100, 0, {}), (201, 1, {}), (101, 1, late), (200, 0, late)]
    if not crossed:
        orders = [(100, 0, {}), (200, 0, late), (101, 1, late), (201, 1, {})]
    workers = {own: runs.start(own, **same[rank], **when) for own, rank, when in orders}
    time.sleep(1.0)
    (runs.place / "go").touch()
    said = {own: worker.said() for own, worker in workers.items()}
    for own, lines in said.items():
        assert all("two processes" in line for line in lines) and lines, (own, said)


def test_a_worker_that_was_left_over_is_not_let_into_the_next_run(runs: Runs) -> None:
    same = places(2, "endpoint")
    left = runs.start(101, **same[1], WHEN_IMPORTED="touch('left')", SECONDS="60")
    wait_for(runs.place / "left")
    new = [runs.start(200 + rank, **place) for rank, place in enumerate(same)]
    for worker in (left, *new):
        [line] = worker.said()
        assert line.startswith("CommunicatorError: ") and "two processes" in line, line


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("servers", "PADDLE_JOB_ID"),
        ("collective", "PADDLE_JOB_ID"),
        ("endpoint", "PADDLE_JOB_ID"),
        ("collective", "POD_NAME"),
    ],
)
def test_the_name_of_a_run_keeps_it_apart(runs: Runs, kind: str, name: str) -> None:
    same = places(2, kind)
    left = runs.start(901, **same[1], **{name: "dead"}, WHEN_IMPORTED="touch('left')", SECONDS="6")
    wait_for(runs.place / "left")
    named = {
        run: [runs.start(own + rank, **place, **{name: run}) for rank, place in enumerate(same)]
        for run, own in (("one", 100), ("two", 200))
    }
    found = {run: [worker.said() for worker in workers] for run, workers in named.items()}
    right = {"one": [["value 201.0"]] * 2, "two": [["value 401.0"]] * 2}
    if kind != "endpoint":  # there rank 0 has other places to listen at
        assert found == right
    for run, said in found.items():
        if said != right[run]:
            # Rank 0 names both runs; rank 1 does, too, unless the other run had ended when it came.
            assert all("Error: " in line for lines in said for line in lines), said
            assert all("one" in line and "two" in line for line in said[0]), said
    assert right["one"] in found.values() or right["two"] in found.values()
    [line] = left.said()
    assert ("another run" in line and f"{name}=dead" in line) or "did not connect" in line, line


def test_a_relay_to_another_job_causes_errors_and_no_number(runs: Runs) -> None:
    """Two jobs of a team with one secret and one port, and a relay without a secret."""
    port, *ports = free_ports(5)
    jobs = []
    for job, host in enumerate(("127.0.0.3", "127.0.0.4")):
        endpoints = f"{host}:{ports[2 * job]},{host}:{ports[2 * job + 1]}"
        common = {"PADDLE_TRAINERS_NUM": "2", "FLEETMETRICS_SECRET": SECRET, "SECONDS": "6"}
        common.update(PADDLE_TRAINER_ENDPOINTS=endpoints, FLEETMETRICS_ENDPOINT=f"{host}:{port}")
        common["FLEETMETRICS_BIND"] = f"127.0.0.{5 + job}"  # the process at the endpoint leads from there
        jobs.append([{**common, "PADDLE_TRAINER_ID": str(rank)} for rank in range(2)])
    with Proxy(("127.0.0.3", port), ("127.0.0.6", port), patience=10), Proxy(("127.0.0.4", port), ("127.0.0.6", port)):
        workers = [runs.start(1, **jobs[0][0]), runs.start(2, **jobs[0][1]), runs.start(10, **jobs[1][0])]
        [first], [astray], [other] = [worker.said() for worker in workers]
        assert "DeadlineError" in first and "DeadlineError" in other, (first, other)
        assert "another run" in other and "rank 1" in other
        assert "CommunicatorError" in astray and "127.0.0.3" in astray and "127.0.0.4" in astray, astray


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("when", ["before all are there", "between two calls", "during calls"])
def test_a_second_claimant_of_a_rank_is_an_error_on_all(runs: Runs, when: str, who: int) -> None:
    """Also where nothing on its machine tells of it, as if it were on another."""
    same = places(3, "endpoint")
    waits = {"before all are there": 0, "between two calls": 1}.get(when)
    each = f"touch(f'{{call}}'); call == {waits} and wait_for('go')"
    options = {"CALLS": "4" if when != "during calls" else "60", "BEFORE_EACH": each + "; time.sleep(0.05)"}
    others = {**options, "BEFORE_EACH": "time.sleep(0.05)"} if when == "before all are there" else options
    workers = [runs.start(rank, **place, **(options if rank == 2 else others)) for rank, place in enumerate(same)]
    wait_for(runs.place / str(waits if waits is not None else 1))
    # it says who it is in the program, so that it is not in the table of processes
    second = runs.start(500, AT_START=f"os.environ.update({same[who]!r})", BEFORE_EACH="touch('second')")
    wait_for(runs.place / "second")
    time.sleep(0.5)
    (runs.place / "go").touch()
    said = [worker.said() for worker in workers]
    claimed = f"two processes say that they are rank {who}"
    assert all(lines[-1].startswith("CommunicatorError") and claimed in lines[-1] for lines in said), said
    values = [[line for line in lines if line.startswith("value")] for lines in said]
    assert values[0] == values[1] == values[2] and set(values[0]) <= {"value 3.0"}, said
    assert len(values[0]) == waits or waits is None, said
    [line] = second.said()
    assert claimed in line or "cannot listen" in line, line


HELPERS: dict[str, tuple[str, str]] = {
    "a subprocess after the import": (
        "WHEN_IMPORTED",
        "import subprocess; subprocess.run([sys.executable, '-c', os.environ['HELPER']])",
    ),
    "a subprocess that computes while the worker imports": (
        "AT_START",
        "import subprocess; helper = subprocess.Popen([sys.executable, '-c', os.environ['HELPER']])",
    ),
    "a shell around it": (
        "WHEN_IMPORTED",
        "import subprocess; subprocess.run([sys.executable + ' -c \"$HELPER\"; true'], shell=True)",
    ),
    "a spawned process": (
        "WHEN_IMPORTED",
        "import multiprocessing as mp; context = mp.get_context('spawn');"
        " child = context.Process(target=exec, args=(os.environ['HELPER'], {})); child.start(); child.join()",
    ),
    "a forked process": (
        "WHEN_IMPORTED",
        "import multiprocessing as mp; context = mp.get_context('fork');"
        " child = context.Process(target=exec, args=(os.environ['HELPER'], {})); child.start(); child.join()",
    ),
    "a subprocess with the environment of torch's only worker": (
        "WHEN_IMPORTED",
        "import subprocess; told = {'WORLD_SIZE': '1', 'RANK': '0', 'MASTER_ADDR': 'a', 'MASTER_PORT': '1'};"
        " subprocess.run([sys.executable, '-c', os.environ['HELPER']], env={**os.environ, **told})",
    ),
    "a spawned process before the worker imports": (
        "AT_START",
        "import multiprocessing as mp; context = mp.get_context('spawn');"
        " child = context.Process(target=exec, args=(os.environ['HELPER'], {})); child.start(); child.join()",
    ),
    "a process that outlives the one between": (
        "WHEN_IMPORTED",
        "import subprocess;"
        " subprocess.run([sys.executable + ' -c \"$HELPER\" & true'], shell=True); wait_for('helped')",
    ),
}


@pytest.mark.parametrize("how", HELPERS)
def test_a_process_that_a_worker_has_started_is_not_that_worker(runs: Runs, how: str) -> None:
    when, code = HELPERS[how]
    helper = WORKER.replace('os.environ["OWN"]', '"1000"').replace("exec(os.environ.get(", "str(os.environ.get(")
    helper = helper.replace("import fleetmetrics as fm\n", "import fleetmetrics as fm\nHELD\n").replace(
        "HELD", "wait_for('imported')" if "while" in how else ""
    )
    helper += "touch('helped')\n"
    options = {when: code, "HELPER": helper}
    if "while" in how:
        options["WHEN_IMPORTED"] = "touch('imported'); wait_for('helped')"
    same = places(3, "collective")
    workers = [runs.start(rank, **place, **(options if rank == 1 else {})) for rank, place in enumerate(same)]
    said = [worker.said() for worker in workers]
    assert said[0] == said[2] == ["value 3.0"], said
    assert said[1][-1] == "value 3.0" and len(said[1]) == 2, said
    assert "CommunicatorError" in said[1][0] and "which started it" in said[1][0], said


WRAPPERS: dict[str, Callable[[], list[str]]] = {
    "a shell": lambda: ["/bin/bash", "-c", f'{sys.executable} -c "$WORKER"; true'],
    "a shell that goes on as it": lambda: ["/bin/bash", "-c", f'exec {sys.executable} -c "$WORKER"'],
    "env and nice": lambda: ["/usr/bin/env", "nice", sys.executable, "-c", WORKER],
    "a supervisor in Python": lambda: [
        sys.executable,
        "-c",
        "import os, subprocess, sys; subprocess.run([sys.executable, '-c', os.environ['WORKER']])",
    ],
    "a supervisor that says so": lambda: [
        sys.executable,
        "-c",
        "import os, subprocess, sys, fleetmetrics; os.environ['FLEETMETRICS_WORKER'] = 'this';"
        " subprocess.run([sys.executable, '-c', os.environ['WORKER']])",
    ],
    "a worker that goes on as its child": lambda: [
        sys.executable,
        "-c",
        "import os, fleetmetrics\nchild = os.fork()\nif child: os._exit(0)\n"
        "import time; time.sleep(0.3)\nexec(os.environ['WORKER'])",
    ],
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_processes_between_a_launcher_and_a_worker_change_nothing(runs: Runs, wrapper: str) -> None:
    workers = [
        runs.start(rank, WRAPPERS[wrapper]() if rank else None, **place, WORKER=WORKER)
        for rank, place in enumerate(places(3, "collective"))
    ]
    assert [worker.said() for worker in workers] == [["value 3.0"]] * 3


def test_children_that_say_another_place_are_workers(runs: Runs) -> None:
    """As what paddle.distributed.spawn and a program of one's own start."""
    same = places(2, "collective")
    code = (
        f"import subprocess, fleetmetrics; places = {same!r}\n"
        "children = [subprocess.Popen([sys.executable, '-c', os.environ['HELPER']], env={**os.environ, **place,"
        " 'OWN': place['PADDLE_TRAINER_ID'], 'AT_START': ''}) for place in places]\n"
        "sys.exit(max(child.wait() for child in children))"
    )
    worker = runs.start(0, AT_START=code, HELPER=WORKER, **{**places(2, "collective")[0]})
    assert worker.said() == ["value 1.0"] * 2


def test_a_run_that_begins_while_rank_0_of_the_last_has_yet_to_end_is_right(runs: Runs) -> None:
    """As in a shell's loop that waits for one of the two."""
    same = places(2, "servers")
    lasting = runs.start(100, **same[0], AT_END="touch('done'); wait_for('over')")
    assert runs.start(101, **same[1]).said() == ["value 201.0"]
    wait_for(runs.place / "done")
    second = [runs.start(200 + rank, **place) for rank, place in enumerate(same)]
    assert [worker.said() for worker in second] == [["value 401.0"]] * 2
    (runs.place / "over").touch()
    assert lasting.said() == ["value 201.0"]
