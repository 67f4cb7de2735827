"""Which run a worker belongs to: runs that have names never mix, and what a worker starts is not that worker.

All are new processes, as a launcher or a shell starts them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, Iterator

import pytest

from tests.distributed.cluster import ROOT, free_ports
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
#: A script beside the worker's, which inherits its environment, and computes over all workers.
HELPER = """
import os
import fleetmetrics as fm
metric = fm.Sum()
metric.add([1000.0])
try:
    print("value", metric.compute(timeout=float(os.environ.get("HELPER_SECONDS", "3"))), flush=True)
except fm.FleetMetricsError as error:
    print(f"{type(error).__name__}: {error}", flush=True)
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
        self.train = self.script("train.py", WORKER)
        self.workers: list[Worker] = []
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(("PADDLE_", "FLEETMETRICS_"))},
            "PYTHONPATH": str(ROOT),
            "PLACE": str(place),
            "TMPDIR": str(place),
            # Rank 0 warns of runs without a name, which most of these tests are about.
            "PYTHONWARNINGS": "ignore::UserWarning",
            # Unbuffered, print() writes a line and its end apart, and the lines of two processes on one pipe mix.
            "PYTHONUNBUFFERED": "",
        }

    def start(self, own: float, command: list[str] | None = None, **environment: str) -> Worker:
        """Start a worker that brings a value of its own."""
        said = {**self.environment, "OWN": str(own), **environment}
        self.workers.append(Worker(command or [sys.executable, str(self.train)], said))
        return self.workers[-1]

    def script(self, name: str, code: str) -> Path:
        """Write a script beside those of the other workers."""
        path = self.place / name
        path.write_text(code)
        return path

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


def test_rank_0_warns_once_that_nothing_names_its_run(runs: Runs) -> None:
    same = places(2, "collective")
    for name in ("", "mine"):
        options = {"PYTHONWARNINGS": "", "FLEETMETRICS_RUN": name, "CALLS": "2"}
        said = [worker.said() for worker in [runs.start(1, **place, **options) for place in same]]
        warned = [[line for line in lines if "UnnamedRunWarning" in line] for lines in said]
        assert [line for line in said[1] if "UserWarning" not in line] == ["value 2.0"] * 2, said
        assert [len(lines) for lines in warned] == ([0, 0] if name else [1, 0])
        assert all("Set FLEETMETRICS_RUN to a new name for each run" in line for line in warned[0])


def test_two_runs_of_two_shells_without_an_address_never_mix(runs: Runs) -> None:
    """Each shell's is its own."""
    shell = 'for rank in 0 1; do OWN=$((OWN + rank)) RANK=$rank "$PYTHON" -c "$WORKER" & done; wait'
    torch = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "PYTHON": sys.executable, "WORKER": WORKER}
    shells = [runs.start(own, ["/bin/bash", "-c", shell], **torch) for own in (100, 200)]
    assert [worker.said() for worker in shells] == [["value 201.0"] * 2, ["value 401.0"] * 2]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("servers", "PADDLE_JOB_ID"),
        ("collective", "FLEETMETRICS_RUN"),
        ("endpoint", "FLEETMETRICS_RUN"),
        ("collective", "POD_NAME"),
    ],
)
def test_the_name_of_a_run_keeps_it_apart(runs: Runs, kind: str, name: str) -> None:
    same = places(2, kind)
    left = runs.start(901, **same[1], **{name: "dead"}, WHEN_IMPORTED="touch('left')", SECONDS="4")
    wait_for(runs.place / "left")
    named = {
        run: [runs.start(own + rank, **place, **{name: run}, SECONDS="8") for rank, place in enumerate(same)]
        for run, own in (("one", 100), ("two", 200))
    }
    found = {run: [worker.said() for worker in workers] for run, workers in named.items()}
    right = {"one": [["value 201.0"]] * 2, "two": [["value 401.0"]] * 2}
    if kind != "endpoint":  # there rank 0 has other places to listen at
        assert found == right
    for run, said in found.items():
        if said != right[run]:
            assert all("Error: " in line for lines in said for line in lines), said
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


def test_a_second_process_of_a_rank_is_an_error_on_all_before_they_have_met(runs: Runs) -> None:
    same = places(3, "endpoint")
    workers = [runs.start(rank, **same[rank]) for rank in (0, 1)]
    workers.append(runs.start(500, **same[1]))
    said = [worker.said() for worker in workers]
    assert [len(lines) for lines in said] == [1, 1, 1], said
    for [line] in said:
        assert line.startswith("CommunicatorError: two processes say that they are rank 1, in two runs"), said
        assert "FLEETMETRICS_RUN" in line


@pytest.mark.parametrize("who", [0, 1])
def test_a_second_process_of_a_rank_is_refused_when_the_workers_have_met(runs: Runs, who: int) -> None:
    same = places(3, "endpoint")
    each = "touch(f'{call}'); call == 1 and wait_for('refused')"
    workers = [runs.start(rank, **place, CALLS="3", BEFORE_EACH=each) for rank, place in enumerate(same)]
    wait_for(runs.place / "1")
    [line] = runs.start(500, **same[who], SECONDS="3").said()
    (runs.place / "refused").touch()
    assert f"another process is rank {who} of this run, and has met the others; this one is a second" in line, line
    assert [worker.said() for worker in workers] == [["value 3.0"] * 3] * 3


#: How the worker of rank 1 starts a process that runs a helper.
HELPERS = {
    "a script": "import subprocess; subprocess.run([sys.executable, os.environ['HELPER']])",
    "a shell around it": "import subprocess; subprocess.run(sys.executable + ' $HELPER; true', shell=True)",
    "a forked process": "import multiprocessing as mp; context = mp.get_context('fork');"
    " child = context.Process(target=exec, args=(Path(os.environ['HELPER']).read_text(), {}));"
    " child.start(); child.join()",
    "a script with the environment of torch's only worker": "import subprocess;"
    " told = {'WORLD_SIZE': '1', 'RANK': '0', 'MASTER_ADDR': 'a', 'MASTER_PORT': '1'};"
    " subprocess.run([sys.executable, os.environ['HELPER']], env={**os.environ, **told})",
    "a process that outlives the one between": "import subprocess;"
    " subprocess.run(sys.executable + ' $HELPER > $PLACE/out; mv $PLACE/out $PLACE/helped &', shell=True);"
    " wait_for('helped'); print(Path(os.environ['PLACE'], 'helped').read_text(), end='', flush=True)",
}


@pytest.mark.parametrize(
    ("how", "when"),
    [
        *((how, "BEFORE_EACH") for how in HELPERS),
        ("a script", "AT_START"),
        ("a script", "WHEN_IMPORTED"),
        ("a process that outlives the one between", "AT_START"),
    ],
)
def test_a_process_that_a_worker_has_started_is_not_that_worker(runs: Runs, how: str, when: str) -> None:
    """Before the worker imports anything, when it has, and when it has made a metric."""
    helper = str(runs.script("helper.py", HELPER))
    helps = [{when: HELPERS[how]} if rank == 1 else {} for rank in range(3)]
    same = places(3, "collective")
    workers = [runs.start(rank, **same[rank], **helps[rank], HELPER=helper) for rank in range(3)]
    said = [worker.said() for worker in workers]
    assert said[0] == said[2] == ["value 3.0"] and said[1][1:] == ["value 3.0"], said
    assert "Error: " in said[1][0] and ("was started by process" in said[1][0] or "helper.py" in said[1][0]), said


@pytest.mark.parametrize("when", ["AT_START", "WHEN_IMPORTED"])
def test_a_script_that_every_rank_starts_computes_over_all_of_them(runs: Runs, when: str) -> None:
    helper = str(runs.script("helper.py", HELPER))
    options = {when: HELPERS["a script"], "HELPER": helper, "HELPER_SECONDS": "20"}
    workers = [runs.start(rank, **place, **options) for rank, place in enumerate(places(3, "collective"))]
    assert [worker.said() for worker in workers] == [["value 3000.0", "value 3.0"]] * 3


#: Programs that set the place of each worker, and start it.
STARTERS = {
    "fork": "import multiprocessing as mp; context = mp.get_context('fork')",
    "spawn": "import multiprocessing as mp; context = mp.get_context('spawn')",
}


@pytest.mark.parametrize("how", STARTERS)
@pytest.mark.parametrize("imported", [False, True])
def test_a_program_that_places_and_starts_one_worker_after_another_is_none_of_them(
    runs: Runs, how: str, imported: bool
) -> None:
    code = f"{'import fleetmetrics' if imported else 'import os'}\n{STARTERS[how]}\n"
    code += (
        f"import os; started = []\nfor place in {places(3, 'collective')!r}:\n"
        "    os.environ.update(place, OWN=place['PADDLE_TRAINER_ID'])\n"
        "    started.append(context.Process(target=exec, args=(os.environ['WORKER'], {})))\n"
        "    started[-1].start()\n"
        "[each.join() for each in started]"
    )
    worker = runs.start(0, [sys.executable, "-c", code], WORKER=WORKER)
    assert worker.said() == ["value 3.0"] * 3


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


@pytest.mark.parametrize("how", ["subprocess", *STARTERS])
def test_a_worker_that_starts_the_others_is_another_one(runs: Runs, how: str) -> None:
    """It sets their places, or passes them on, and then its own."""
    first, second = places(2, "collective")
    if how == "subprocess":
        starts = (
            f"import subprocess; told = {{**os.environ, **{second!r}, 'OWN': '1', 'WHEN_IMPORTED': ''}}\n"
            "other = subprocess.Popen([sys.executable, '-c', os.environ['WORKER']], env=told)\n"
        )
    else:
        starts = (
            f"{STARTERS[how]}; own = dict(os.environ); os.environ.update({second!r}, OWN='1', WHEN_IMPORTED='')\n"
            "other = context.Process(target=exec, args=(os.environ['WORKER'], {})); other.start()\n"
            "os.environ.update(OWN='0')\n"
        )
    begin = f"{starts}os.environ.update({first!r})"
    worker = runs.start(0, [sys.executable, "-c", WORKER], WHEN_IMPORTED=begin, WORKER=WORKER)
    assert worker.said() == ["value 1.0"] * 2


@pytest.mark.parametrize("named", [True, False])
def test_a_run_that_begins_while_rank_0_of_the_last_goes_on_needs_a_name(runs: Runs, named: bool) -> None:
    """As in a shell's loop that waits for one of the two."""
    names: list[dict[str, str]] = [{"FLEETMETRICS_RUN": run} if named else {} for run in ("one", "two")]
    same = places(2, "servers")
    lasting = runs.start(100, **same[0], **names[0], AT_END="touch('done'); wait_for('over')")
    assert runs.start(101, **same[1], **names[0]).said() == ["value 201.0"]
    wait_for(runs.place / "done")
    second = [runs.start(200 + rank, **place, **names[1], SECONDS="10") for rank, place in enumerate(same)]
    said = [worker.said() for worker in second]
    if named:
        assert said == [["value 401.0"]] * 2
    else:
        assert all(line.startswith("CommunicatorError: ") for [line] in said) and "FLEETMETRICS_RUN" in said[0][0], said
    (runs.place / "over").touch()
    assert lasting.said() == ["value 201.0"]
