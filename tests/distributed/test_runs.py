"""Which run a worker belongs to, and which process is the worker.

Programs, environments and places are part of what is tested. Workers that start other processes, or that a program of
their own starts, are new processes, as a launcher or a shell starts them; the others are forked.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

from tests.cover import thorough
from tests.distributed.cluster import AT_ONCE, free_ports
from tests.distributed.forks import SECRET
from tests.distributed.programs import WORKER, Runs, Worker, places
from tests.distributed.proxy import Proxy

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    with Runs(tmp_path) as found:
        yield found


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Runs]:
    """Runs whose workers are new processes."""
    with Runs(tmp_path, forked=False) as found:
        yield found


def said_by(workers: list[Worker]) -> list[list[str]]:
    return [worker.said() for worker in workers]


# -- two runs with the same addresses


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("collective", 2),
        pytest.param("servers", 3, marks=pytest.mark.thorough),
        pytest.param("endpoint", 3, marks=pytest.mark.thorough),
    ],
)
def test_rank_0_warns_once_that_nothing_names_its_run(runs: Runs, kind: str, size: int) -> None:
    """Two runs with the same addresses start at once: their numbers may be of both, or all have errors in time."""
    same = places(size, kind)
    first = [runs.start(100 + rank, **place, PYTHONWARNINGS="") for rank, place in enumerate(same)]
    second = [runs.start(200 + rank, **place, PYTHONWARNINGS="") for rank, place in enumerate(same)]
    start = time.monotonic()
    said = said_by([*first, *second])
    assert time.monotonic() - start < 20 + AT_ONCE
    for lines in (said[0], said[size]):
        [warned] = [line for line in lines if "UnnamedRunWarning: nothing names this run" in line]
        assert "Set FLEETMETRICS_RUN to a new name for each run" in warned
    assert all(lines[-1].startswith("value") or "Error: " in lines[-1] for lines in said), said


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("collective", "FLEETMETRICS_RUN"),
        pytest.param("servers", "PADDLE_JOB_ID", marks=pytest.mark.thorough),
        pytest.param("collective", "PADDLE_JOB_ID", marks=pytest.mark.thorough),
        pytest.param("endpoint", "PADDLE_JOB_ID", marks=pytest.mark.thorough),
        pytest.param("collective", "POD_NAME", marks=pytest.mark.thorough),
    ],
)
def test_the_name_of_a_run_keeps_it_apart(runs: Runs, kind: str, name: str) -> None:
    same = places(2, kind)
    left = runs.start(901, **same[1], **{name: "dead"}, WHEN_IMPORTED="touch('left')", SECONDS="6")
    runs.wait_for("left")
    named = {
        run: [runs.start(own + rank, **place, **{name: run}) for rank, place in enumerate(same)]
        for run, own in (("one", 100), ("two", 200))
    }
    found = {run: said_by(workers) for run, workers in named.items()}
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


def test_a_secret_for_each_run_keeps_it_apart(runs: Runs) -> None:
    """Two runs with one endpoint: only one can have it, and no worker changes sides."""
    same = places(2, "endpoint")
    named = [
        [runs.start(own + rank, **{**place, "FLEETMETRICS_SECRET": f"of {own}"}) for rank, place in enumerate(same)]
        for own in (100, 200)
    ]
    found = [said_by(workers) for workers in named]
    for said, value in zip(found, ("value 201.0", "value 401.0")):
        assert said == [[value]] * 2 or all("Error: " in line for lines in said for line in lines), found
    assert any("value" in said[0][0] for said in found), found


@pytest.mark.thorough
def test_two_runs_of_two_shells_without_an_address_never_mix(new: Runs) -> None:
    shell = 'for rank in 0 1; do OWN=$((OWN + rank)) RANK=$rank "$PYTHON" "$TRAIN" & done; wait'
    torch = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "PYTHON": sys.executable, "TRAIN": new.script("train.py")}
    shells = [new.start(own, ["/bin/bash", "-c", shell], **torch) for own in (100, 200)]
    assert said_by(shells) == [["value 201.0"] * 2, ["value 401.0"] * 2]


@pytest.mark.parametrize("named", [True, False])
def test_a_worker_that_was_left_over_changes_no_named_run_and_an_unnamed_one_says_what_may_happen(
    runs: Runs, named: bool
) -> None:
    same = places(2, "endpoint")
    old, new = ({"FLEETMETRICS_RUN": name} if named else {} for name in ("old", "new"))
    left = runs.start(101, **same[1], **old, WHEN_IMPORTED="touch('left')")
    runs.wait_for("left")
    stays = "wait_for('told')" if named else ""
    first = runs.start(200, **same[0], **new, PYTHONWARNINGS="", AT_END=stays)
    second = runs.start(201, **same[1], **new, BEFORE_EACH="" if named else "wait_for('go')")
    if named:
        [line] = left.said()
        runs.touch("told")
        assert [first.said(), second.said()] == [["value 401.0"]] * 2
        assert "another run" in line and "FLEETMETRICS_RUN=old" in line and "FLEETMETRICS_RUN=new" in line, line
        return
    warned = [line for line in first.said() if "nothing names this run" in line]
    assert warned and "such as one that is left over" in warned[0]
    runs.touch("go")
    assert "Error: " in second.said()[0]


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
        [first], [astray], [other] = said_by(workers)
        assert "DeadlineError" in first and "DeadlineError" in other, (first, other)
        assert "another run" in other and "rank 1" in other
        assert "CommunicatorError" in astray and "127.0.0.3" in astray and "127.0.0.4" in astray, astray


# -- a second process of a rank


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.thorough
def test_a_second_process_of_a_rank_is_an_error_on_all_before_they_have_met(runs: Runs, who: int) -> None:
    same = places(3, "endpoint")
    late = {"BEFORE_EACH": "wait_for('go')"}
    workers = [runs.start(rank, **place, **(late if rank == 2 else {})) for rank, place in enumerate(same)]
    time.sleep(0.5)  # the others wait for rank 2
    [line] = runs.start(500, **same[who]).said()
    runs.touch("go")
    claimed = f"two processes say that they are rank {who}"
    assert "CommunicatorError" in line and claimed in line and "FLEETMETRICS_RUN" in line, line
    for lines in said_by(workers):
        assert len(lines) == 1 and "CommunicatorError" in lines[0] and claimed in lines[0], lines


@pytest.mark.parametrize("who", [0, 1, *thorough(2)])
@pytest.mark.thorough
def test_a_second_process_that_does_not_call_harms_no_job(runs: Runs, who: int) -> None:
    """It has a metric of its own, and only the local value of it."""
    same = places(3, "endpoint")
    late = {"BEFORE_EACH": "wait_for('go')"}
    workers = [runs.start(rank, **place, **late) for rank, place in enumerate(same)]
    bystander = runs.start(500, **same[who], CALLS="0", AT_END="print(metric.compute_local(), flush=True)")
    assert bystander.said() == ["500.0"]
    runs.touch("go")
    assert said_by(workers) == [["value 3.0"]] * 3


@pytest.mark.parametrize("program", ["train.py", "debug.py", *thorough("python -c")])
@pytest.mark.parametrize("who", [0, 1])
def test_a_second_process_of_a_rank_is_refused_when_the_workers_have_met(runs: Runs, who: int, program: str) -> None:
    """As a debug shell with a worker's environment beside a job that computes again and again."""
    same = places(3, "collective")
    options = {"CALLS": "60", "BEFORE_EACH": "touch(f'{call}'); time.sleep(0.02); call == 40 and wait_for('refused')"}
    workers = [runs.start(rank, **place, **options) for rank, place in enumerate(same)]
    runs.wait_for("3")
    commands = {"python -c": [sys.executable, "-c", WORKER], "debug.py": [sys.executable, runs.script("debug.py")]}
    shell = runs.start(500, commands.get(program), **same[who], SECONDS="2" if program == "debug.py" else "20")
    [line] = shell.said()
    runs.touch("refused")
    if program != "debug.py":
        assert f"another process is rank {who} of this run, and has met the others" in line, line
    elif who:  # it may be an evaluation, whose rank 0 is late
        assert "rank 0 of this run runs train.py, but this process" in line and "runs debug.py" in line, line
    else:
        assert "ranks 1, 2 did not connect" in line, line
    assert said_by(workers) == [["value 3.0"] * 60] * 3


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("kind", ["collective", "endpoint"])
@pytest.mark.thorough
def test_a_worker_that_is_started_again_while_the_others_go_on_is_told_at_once_and_so_are_they(
    runs: Runs, kind: str, who: int
) -> None:
    same = places(3, kind)
    options = {"CALLS": "30", "BEFORE_EACH": "call and (wait_for('go'), time.sleep(0.1))"}
    workers = [runs.start(rank, **place, **options) for rank, place in enumerate(same)]
    assert [worker.line() for worker in workers] == ["value 3.0"] * 3
    workers[who].kill()
    start = time.monotonic()
    again = runs.start(500, **same[who], SECONDS="60", WHEN_MADE="touch('made')")
    runs.wait_for("made")
    if who:  # otherwise the others tell it
        [line] = again.said()
        assert "A restarted rank 1 cannot join the others: start all workers again" in line, line
        assert "rank 1 has gone away" in line, line
    runs.touch("go")
    for rank in {0, 1, 2} - {who}:
        first, *rest = workers[rank].said()
        assert first.startswith(f"CommunicatorError: rank {who} has gone away"), first
        assert len(rest) == 28 and all("CommunicatorError" in line for line in rest), rest
    if not who:
        [line] = again.said()
        assert "CommunicatorError" in line and "start all workers again" in line, line
    assert time.monotonic() - start < AT_ONCE


def test_a_worker_that_is_started_again_before_it_called_is_that_worker(runs: Runs) -> None:
    same = places(3, "collective")
    late = {"BEFORE_EACH": "touch('late'); wait_for('go')"}
    workers = [runs.start(rank, **place, **(late if rank == 1 else {})) for rank, place in enumerate(same)]
    runs.wait_for("late")
    workers[1].kill()
    again = runs.start(1, **same[1])
    assert [worker.said() for worker in (workers[0], again, workers[2])] == [["value 3.0"]] * 3


# -- what a worker starts, and what is beside it

HELPERS: dict[str, str] = {
    "a subprocess": "import subprocess; subprocess.run([sys.executable, '-c', os.environ['HELPER']])",
    "a shell around it": "import subprocess; subprocess.run([sys.executable + ' -c \"$HELPER\"; true'], shell=True)",
    "a spawned process": (
        "import multiprocessing as mp; context = mp.get_context('spawn')\n"
        "child = context.Process(target=exec, args=(os.environ['HELPER'], {})); child.start(); child.join()"
    ),
    "a forked process": (
        "import multiprocessing as mp; context = mp.get_context('fork')\n"
        "child = context.Process(target=exec, args=(os.environ['HELPER'], {})); child.start(); child.join()"
    ),
    "a subprocess with the environment of torch's only worker": (
        "import subprocess; told = {'WORLD_SIZE': '1', 'RANK': '0', 'MASTER_ADDR': 'a', 'MASTER_PORT': '1'};"
        " subprocess.run([sys.executable, '-c', os.environ['HELPER']], env={**os.environ, **told})"
    ),
    "a process that outlives the one between": (
        "import subprocess; subprocess.run([sys.executable + ' -c \"$HELPER\" & true'], shell=True); wait_for('helped')"
    ),
}
#: A helper with a thousand of its own, which runs none of the worker's hooks.
HELPER = WORKER.replace('os.environ["OWN"]', '"1000"').replace("exec(os.environ.get(", "str(os.environ.get(")
HELPER += "touch('helped')\n"


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("how", [*[*HELPERS][:1], *thorough(*[*HELPERS][1:])])
def test_a_process_that_a_worker_has_started_is_not_that_worker(new: Runs, how: str, placed: bool) -> None:
    """Also if the program has set the place, as `paddle.distributed.spawn` does."""
    workers = []
    for rank, place in enumerate(places(3, "collective")):
        given = {"AT_START": f"os.environ.update({place!r})"} if placed else place
        helps = HELPERS[how] if rank == 1 else ""
        # a spawned process runs the script of its parent again
        command = [sys.executable, "-c", WORKER] if "spawn" in how else None
        workers.append(new.start(rank, command, **given, WHEN_MADE=helps, HELPER=HELPER))
    said = said_by(workers)
    assert said[0] == said[2] == ["value 3.0"], said
    assert said[1][-1] == "value 3.0" and len(said[1]) == 2, said
    assert "CommunicatorError" in said[1][0] and f"was started by process {workers[1].process.pid}" in said[1][0], said


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.thorough
def test_a_helper_that_computes_before_its_worker_has_a_metric_is_a_named_disagreement(new: Runs, who: int) -> None:
    """Another program than the others'; the number is that of the workers."""
    helps = "import subprocess; subprocess.run([sys.executable, os.environ['HELPER']], env={**os.environ, **TOLD})"
    told = "TOLD = {'OWN': '1000', 'SECONDS': '3', 'AT_START': ''}\n"
    helper = new.script("helper.py")
    workers = [
        new.start(rank, **place, AT_START=told + helps if rank == who else "", HELPER=helper)
        for rank, place in enumerate(places(3, "collective"))
    ]
    said = said_by(workers)
    assert said[1 - who] == said[2] == ["value 3.0"], said
    assert said[who][-1] == "value 3.0" and len(said[who]) == 2, said
    if who:
        assert "rank 0 of this run runs train.py, but this process" in said[1][0], said
        assert "which says that it is rank 1, runs helper.py" in said[1][0] and "compute_local()" in said[1][0], said
    else:
        assert "DeadlineError: ranks 1, 2 did not connect" in said[0][0], said


def test_a_helper_without_a_script_is_refused_at_once(runs: Runs) -> None:
    helps = "import subprocess; subprocess.run([sys.executable, '-c', os.environ['HELPER']])"
    workers = [
        runs.start(rank, **place, AT_START=helps if rank == 1 else "", HELPER=HELPER)
        for rank, place in enumerate(places(3, "collective"))
    ]
    said = said_by(workers)
    assert said[0] == said[2] == ["value 3.0"] == said[1][1:], said
    assert "CommunicatorError: rank 0 of this run runs train.py" in said[1][0] and "runs no script" in said[1][0], said


def test_the_line_of_a_waiting_worker_names_the_program_that_tried_to_connect_in_place_of_the_missing_one(
    runs: Runs,
) -> None:
    same = places(2, "collective")
    [line, _] = [
        worker.said()[0]
        for worker in (
            runs.start(0, **same[0], SECONDS="3"),
            runs.start(1, [sys.executable, runs.script("helper.py")], **same[1], SECONDS="2"),
        )
    ]
    assert "rank 1 only tried to connect from helper.py, not train.py" in line, line


@pytest.mark.parametrize("when", ["WHEN_IMPORTED", "AT_END", *thorough("WHEN_MADE", "BEFORE_EACH")])
def test_a_script_that_every_rank_starts_computes_over_all_of_them(new: Runs, when: str) -> None:
    """Whether the trainer has only imported the package, has metrics, or has computed."""
    evaluate = new.script("evaluate.py")
    starts = (
        "import subprocess; subprocess.run([sys.executable, os.environ['EVALUATE']],"
        " env={**os.environ, 'OWN': '10' + os.environ['OWN'], **dict.fromkeys(HOOKS, '')})"
    )
    hooks = "HOOKS = ('WHEN_IMPORTED', 'WHEN_MADE', 'BEFORE_EACH', 'AT_END')\n"
    workers = [
        new.start(rank, **place, **{when: hooks + starts}, EVALUATE=evaluate)
        for rank, place in enumerate(places(3, "collective"))
    ]
    first, second = ("value 303.0", "value 3.0") if when != "AT_END" else ("value 3.0", "value 303.0")
    assert said_by(workers) == [[first, second]] * 3


@pytest.mark.parametrize("does", ["import fleetmetrics; fleetmetrics.Sum()", *thorough("", "import fleetmetrics")])
@pytest.mark.parametrize("kind", ["endpoint", *thorough("collective")])
def test_a_side_process_of_the_entrypoint_delays_and_harms_nothing(new: Runs, kind: str, does: str) -> None:
    """As a log uploader: `export PADDLE_...; python side.py & python train.py`."""
    side = new.script("side.py", f"import os, time\n{does}\nopen(os.environ['READY'], 'w'); time.sleep(30)")
    shell = (
        '"$PYTHON" "$SIDE" >/dev/null 2>&1 & while [ ! -e "$READY" ]; do sleep 0.05; done; "$PYTHON" "$TRAIN"; kill %1'
    )
    names = {"PYTHON": sys.executable, "SIDE": side, "TRAIN": new.script("train.py")}
    workers = [
        new.start(rank, ["/bin/bash", "-c", shell], **place, **names, READY=str(new.place / f"side {rank}"))
        for rank, place in enumerate(places(3, kind))
    ]
    assert said_by(workers) == [["value 3.0"]] * 3


#: Programs that set the place of each worker, and start it.
STARTERS = {
    "fork": "import multiprocessing as mp; context = mp.get_context('fork')",
    "spawn": "import multiprocessing as mp; context = mp.get_context('spawn')",
}


@pytest.mark.parametrize("how", STARTERS)
@pytest.mark.parametrize("before", ["import fleetmetrics; fleetmetrics.Sum()", *thorough("", "import fleetmetrics")])
@pytest.mark.parametrize("prefork", [False, True])
@pytest.mark.thorough
def test_a_program_that_places_and_starts_one_worker_after_another_is_none_of_them(
    new: Runs, how: str, before: str, prefork: bool
) -> None:
    """Preforked workers have all but their numbers from the program that has started them."""
    given = places(3, "collective")
    common = {name: text for name, text in given[0].items() if name != "PADDLE_TRAINER_ID"} if prefork else {}
    code = f"import os; os.environ.update({common!r})\n{before}\n{STARTERS[how]}\n"
    code += (
        f"started = []\nfor place in {given!r}:\n"
        "    os.environ.update(place, OWN=place['PADDLE_TRAINER_ID'])\n"
        "    started.append(context.Process(target=exec, args=(os.environ['WORKER'], {})))\n"
        "    started[-1].start()\n"
        "[each.join() for each in started]"
    )
    worker = new.start(0, [sys.executable, "-c", code], WORKER=WORKER)
    assert worker.said() == ["value 3.0"] * 3


WRAPPERS: dict[str, Callable[[], list[str]]] = {
    "a shell": lambda: ["/bin/bash", "-c", '"$PYTHON" "$TRAIN"; true'],
    "a shell that goes on as it": lambda: ["/bin/bash", "-c", 'exec "$PYTHON" "$TRAIN"'],
    "env and nice": lambda: ["/bin/bash", "-c", '/usr/bin/env nice "$PYTHON" "$TRAIN"'],
    "a supervisor in Python": lambda: [
        sys.executable,
        "-c",
        "import os, subprocess, sys, fleetmetrics; subprocess.run([sys.executable, os.environ['TRAIN']])",
    ],
    "a supervisor that says so": lambda: [
        sys.executable,
        "-c",
        "import os, subprocess, sys, fleetmetrics; fleetmetrics.Sum(); os.environ['FLEETMETRICS_WORKER'] = 'this';"
        " subprocess.run([sys.executable, os.environ['TRAIN']])",
    ],
    "a worker that goes on as its child": lambda: [
        sys.executable,
        "-c",
        "import os, runpy, fleetmetrics; fleetmetrics.Sum()\nchild = os.fork()\nif child: os._exit(0)\n"
        "import time; time.sleep(0.3)\nrunpy.run_path(os.environ['TRAIN'], run_name='__main__')",
    ],
}


@pytest.mark.parametrize("wrapper", [*[*WRAPPERS][::3], *thorough(*[*WRAPPERS][1::3], *[*WRAPPERS][2::3])])
@pytest.mark.thorough
def test_processes_between_a_launcher_and_a_worker_change_nothing(new: Runs, wrapper: str) -> None:
    names = {"PYTHON": sys.executable, "TRAIN": new.script("train.py")}
    workers = [
        new.start(rank, WRAPPERS[wrapper]() if rank else None, **place, **names)
        for rank, place in enumerate(places(3, "collective"))
    ]
    assert said_by(workers) == [["value 3.0"]] * 3


def test_children_that_say_another_place_are_workers(new: Runs) -> None:
    """As what a program of one's own starts."""
    same = places(2, "collective")
    code = (
        f"import subprocess, fleetmetrics; places = {same!r}\n"
        "children = [subprocess.Popen([sys.executable, '-c', os.environ['HELPER']], env={**os.environ, **place,"
        " 'OWN': place['PADDLE_TRAINER_ID'], 'AT_START': ''}) for place in places]\n"
        "sys.exit(max(child.wait() for child in children))"
    )
    worker = new.start(0, AT_START=code, HELPER=WORKER, **{**places(2, "collective")[0]})
    assert worker.said() == ["value 1.0"] * 2


@pytest.mark.parametrize("how", ["subprocess", "fork"])
@pytest.mark.parametrize("when", ["WHEN_IMPORTED", "WHEN_MADE"])
def test_a_worker_that_starts_the_others_is_another_one(new: Runs, how: str, when: str) -> None:
    """It sets their places, or passes them on, and then its own."""
    first, second = places(2, "collective")
    told = {"OWN": "1", when: ""}
    if how == "subprocess":
        starts = (
            f"import subprocess; told = {{**os.environ, **{second!r}, **{told!r}}}\n"
            "other = subprocess.Popen([sys.executable, os.environ['TRAIN']], env=told)\n"
        )
    else:
        starts = (
            f"{STARTERS[how]}; os.environ.update({second!r}, **{told!r})\n"
            "other = context.Process(target=exec, args=(open(os.environ['TRAIN']).read(), {})); other.start()\n"
            "os.environ.update(OWN='0')\n"
        )
    code = f"{starts}os.environ.update({first!r}); time.sleep(1.0)"
    worker = new.start(0, **{when: code}, TRAIN=new.script("train.py"))
    assert worker.said() == ["value 1.0"] * 2


@pytest.mark.thorough
def test_a_run_that_begins_while_rank_0_of_the_last_goes_on_needs_a_name(runs: Runs) -> None:
    """As in a shell's loop that waits for one of the two; without a name nothing distinguishes it from a bystander."""
    same = places(2, "servers")
    lasting = runs.start(100, **same[0], AT_END="touch('done'); wait_for('over')")
    assert runs.start(101, **same[1]).said() == ["value 201.0"]
    runs.wait_for("done")
    unnamed = [runs.start(200 + rank, **place) for rank, place in enumerate(same)]
    for lines in said_by(unnamed):
        assert "has met the others" in lines[0] or "cannot join the others" in lines[0], lines
    named = [runs.start(200 + rank, **place, FLEETMETRICS_RUN="next") for rank, place in enumerate(same)]
    assert said_by(named) == [["value 401.0"]] * 2
    runs.touch("over")
    assert lasting.said() == ["value 201.0"]
