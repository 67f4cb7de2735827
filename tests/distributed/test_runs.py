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


@pytest.mark.parametrize("how", ["before the import", "after the import", "arguments"])
def test_two_runs_whose_places_the_programs_set_never_mix(runs: Runs, how: str) -> None:
    """No process sees a worker before it has its place: rank 0 waits for processes that may become one."""
    same = places(2, "endpoint")
    patient = "from fleetmetrics.comm import rivals; rivals.YOUNG_SECONDS = 60.0"  # on a busy machine

    def start(own: float, rank: int, **when: str) -> Worker:
        begin = when.get("AT_START", "")
        told = {
            "before the import": {
                "AT_START": f"{begin}\nos.environ.update({same[rank]!r})",
                "WHEN_IMPORTED": patient,
            },
            "after the import": {
                "AT_START": begin,
                "WHEN_IMPORTED": f"{patient}; os.environ.update({same[rank]!r})",
            },
            "arguments": {
                "AT_START": begin,
                "WHEN_IMPORTED": f"{patient}; fm.set_communicator(fm.SocketCommunicator(rank={rank}, world_size=2,"
                f" endpoint={same[rank]['FLEETMETRICS_ENDPOINT']!r}, secret={SECRET!r}))",
            },
        }[how]
        return runs.start(own, **told, SECONDS="60")

    late = {"AT_START": "wait_for('go')"}
    workers = [start(100, 0), start(201, 1), start(101, 1, **late), start(200, 0, **late)]
    time.sleep(2.0)
    (runs.place / "go").touch()
    said = [worker.said() for worker in workers]
    assert all(lines and all("two processes" in line for line in lines) for lines in said), said


def test_two_runs_of_two_shells_by_torchs_variables_never_mix(runs: Runs) -> None:
    """With MASTER_PORT they are one run, which has two of each rank; without it each shell's is its own."""
    shell = 'for rank in 0 1; do OWN=$((OWN + rank)) RANK=$rank "$PYTHON" -c "$WORKER" & done; wait'
    torch = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "PYTHON": sys.executable, "WORKER": WORKER}
    for port in ({"MASTER_PORT": str(free_ports(1)[0])}, {}):
        shells = [runs.start(own, ["/bin/bash", "-c", shell], **torch, **port) for own in (100, 200)]
        said = [worker.said() for worker in shells]
        if port:
            check_never_mixed([said[0]], "value 201.0")
            check_never_mixed([said[1]], "value 401.0")
        else:
            assert said == [["value 201.0"] * 2, ["value 401.0"] * 2]


def test_workers_that_import_for_long_are_waited_for(runs: Runs) -> None:
    """They are no longer young; but they run the program of the others."""
    same = places(2, "collective")
    old = {"WHEN_IMPORTED": "from fleetmetrics.comm import rivals; rivals.YOUNG_SECONDS = 0.5"}
    late = {"AT_START": "touch(os.environ['OWN']); wait_for('go')"}
    slow = [runs.start(own, **same[rank], **late) for own, rank in ((101, 1), (200, 0))]
    for own in (101, 200):
        wait_for(runs.place / str(own))
    time.sleep(0.6)
    quick = [runs.start(own, **same[rank], **old) for own, rank in ((100, 0), (201, 1))]
    for worker in quick:
        [line] = worker.said()
        assert line.startswith("CommunicatorError: ") and "two processes" in line, line
    (runs.place / "go").touch()
    for worker in slow:
        [line] = worker.said()
        assert line.startswith("CommunicatorError: ") and "two processes" in line, line


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


@pytest.mark.parametrize("how", ["a subprocess after the import", "a spawned process", "a forked process"])
@pytest.mark.parametrize("order", ["AT_START", "WHEN_IMPORTED"])
def test_what_a_worker_has_started_that_the_program_has_placed_is_not_that_worker(
    runs: Runs, how: str, order: str
) -> None:
    """As of `paddle.distributed.spawn`: the variables are not those that it was started with."""
    helper = WORKER.replace('os.environ["OWN"]', '"1000"').replace("exec(os.environ.get(", "str(os.environ.get(")
    workers = []
    for rank, place in enumerate(places(3, "collective")):
        helps = HELPERS[how][1] if rank == 1 else ""
        set_place = f"os.environ.update({place!r})"
        told = {"AT_START": set_place, "WHEN_IMPORTED": helps}
        if order == "WHEN_IMPORTED":
            told = {"WHEN_IMPORTED": f"{set_place}\n{helps}"}
        workers.append(runs.start(rank, **told, HELPER=helper))
    said = [worker.said() for worker in workers]
    assert said[0] == said[2] == ["value 3.0"], said
    assert said[1][-1] == "value 3.0" and len(said[1]) == 2, said
    assert "CommunicatorError" in said[1][0] and "which started it, is that rank" in said[1][0], said


def test_a_helper_that_computes_before_its_worker_has_imported_anything_is_not_that_worker(runs: Runs) -> None:
    """The other workers run the program of the process that has started it."""
    helper = WORKER.replace('os.environ["OWN"]', '"1000"').replace("exec(os.environ.get(", "str(os.environ.get(")
    helps = "import subprocess; subprocess.run([sys.executable, '-c', os.environ['HELPER']])"
    workers = [
        runs.start(rank, **place, AT_START=helps if rank == 1 else "", HELPER=helper)
        for rank, place in enumerate(places(3, "collective"))
    ]
    said = [worker.said() for worker in workers]
    assert said[0] == said[2] == ["value 3.0"], said
    assert said[1][-1] == "value 3.0" and len(said[1]) == 2 and "which started it, is that rank" in said[1][0], said


@pytest.mark.parametrize("imports", ["", "import fleetmetrics; "])
@pytest.mark.parametrize("how", ["subprocess", "spawn"])
def test_idle_helpers_of_a_worker_that_has_yet_to_show_itself_are_no_rivals(runs: Runs, how: str, imports: str) -> None:
    """Two loaders of one worker have its variables from their start, which it has from its program."""
    idle = f"{imports}import os, time\nopen(os.environ['PLACE'] + f'/{{os.getpid()}}', 'w')\ntime.sleep(60)"
    begin = {
        "subprocess": "import subprocess; [subprocess.Popen([sys.executable, '-c', os.environ['IDLE']])"
        " for each in range(2)]",
        "spawn": "import multiprocessing as mp; [mp.get_context('spawn').Process(target=exec,"
        " args=(os.environ['IDLE'], {}), daemon=True).start() for each in range(2)]",
    }[how]
    workers = []
    for rank, place in enumerate(places(3, "collective")):
        told = f"os.environ.update({place!r})"
        if rank == 1:  # the others look around when it has come, and it comes only then
            told += f"\n{begin}\nwhile len(os.listdir(os.environ['PLACE'])) < 2: time.sleep(0.01)\ntime.sleep(0.5)"
        workers.append(runs.start(rank, WHEN_IMPORTED=told, IDLE=idle, AT_END="os._exit(0)"))
    assert [workers[rank].said() for rank in (0, 2)] == [["value 3.0"]] * 2
    assert workers[1].process.stdout is not None and workers[1].process.stdout.readline() == "value 3.0\n"


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
    worker = runs.start(0, WHEN_IMPORTED=f"{starts}os.environ.update({first!r}); time.sleep(1.0)", WORKER=WORKER)
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
