"""Processes of this machine that claim one rank, and who has started whom: with processes that look like workers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from fleetmetrics import identity
from fleetmetrics.comm import rivals
from fleetmetrics.comm.launchers import VARIABLES
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.identity import MARK, SETTING, claim_of

pytestmark = pytest.mark.numpy_only

PLACE = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "a.invalid:1,b.invalid:2"}
#: What others see of a worker: a file that it maps, or none yet. It ends with what it reads.
LOOKS = """
import mmap, sys
files = [open(path, "rb") for path in sys.argv[1:]]
held = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
print(flush=True)
sys.stdin.read()
"""
#: A Python around workers: it starts one for each environment in its arguments.
STARTS = """
import json, subprocess, sys
code, *told = sys.argv[1:]
children = [
    subprocess.Popen([sys.executable, "-I", "-S", "-c", code, *paths], env=environment, stdout=subprocess.PIPE)
    for paths, environment in map(json.loads, told)
]
for child in children: child.stdout.readline()
print(flush=True)
sys.stdin.read()
"""
HERE, JOINED = (str(path) for path in (identity._WAITING, identity._JOINED))


class Processes:
    """Starts processes that look like workers, and ends them."""

    def __init__(self, place: dict[str, str]) -> None:
        self.place = place
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *maps: str, shell: str = "", **environment: str) -> int:
        """Start one that maps these files, perhaps in a shell."""
        command = [sys.executable, "-I", "-S", "-c", LOOKS, *maps]
        return self.run(["/bin/sh", "-c", shell, *command] if shell else command, **environment)

    def start_around(self, *others: tuple[list[str], dict[str, str]], **environment: str) -> int:
        """Start a Python that starts others, each with what it maps, and changes of its own."""
        told = [json.dumps([maps, {**self.place, **environment, **changed}]) for maps, changed in others]
        return self.run([sys.executable, "-I", "-S", "-c", STARTS, LOOKS, *told], **environment)

    def run(self, command: list[str], **environment: str) -> int:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, env={**self.place, **environment}, **pipes)  # type: ignore[call-overload]
        self.started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    def end(self) -> None:
        for process in self.started:
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()
            process.kill()
            process.wait()
        self.started = []


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Processes]:
    for name in (*VARIABLES, MARK, SETTING):
        monkeypatch.delenv(name, raising=False)
    place = {**PLACE, "PADDLE_JOB_ID": str(tmp_path)}  # each test is a run of its own
    for name, text in place.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(rivals, "folder_of_the_user", lambda: tmp_path)
    found = Processes(place)
    yield found
    found.end()


# -- two that claim one rank --------------------------------------------------------------------------------------


def test_two_workers_that_wait_for_one_rank_are_named(processes: Processes) -> None:
    assert rivals.look() is None
    one = processes.start(HERE)
    assert rivals.look() is None
    two = processes.start(HERE)
    found = rivals.look()
    assert found is not None and found.sure
    command = re.escape(f"{sys.executable} -I -S -c import mmap, sys ")
    told = [rf"process {each} \({command}.*?\), started \d s ago" for each in sorted((one, two))]
    assert re.search(rf"say that they are rank 1 of one run: {', (and )?'.join(told)}\.", found.text)


@pytest.mark.parametrize(
    "changed",
    [{"PADDLE_TRAINER_ID": "0"}, {"PADDLE_JOB_ID": "other"}, {"PADDLE_TRAINER_ENDPOINTS": "a.invalid:1,c.invalid:2"}],
)
def test_workers_of_other_ranks_or_runs_are_no_rivals(processes: Processes, changed: dict[str, str]) -> None:
    processes.start(HERE)
    processes.start(HERE, **changed)
    assert rivals.look() is None


@pytest.mark.parametrize("name", ["PADDLE_JOB_ID", "PADDLE_MASTER", "PADDLE_TRAINER_ENDPOINTS"])
def test_rivals_of_another_run_are_not_of_this_one(processes: Processes, name: str) -> None:
    for _ in range(2):
        processes.start(HERE, **{name: "other"})
    assert rivals.look() is None


def test_rivals_of_one_launcher_are_found_by_all_that_it_says_of_its_run(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the run by two variables, and no environment holds both in one piece."""
    said = {
        "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:1,127.0.0.1:2",
        "PADDLE_GLOO_RENDEZVOUS": "3",
        "PADDLE_GLOO_FS_PATH": "/tmp/" + "a" * 200,
        "POD_NAME": "b" * 200,
    }
    for name, text in said.items():
        monkeypatch.setenv(name, text)
    processes.start(HERE, **said)
    assert rivals.look() is None
    processes.start(HERE, **{**said, "POD_NAME": "c" * 200})
    assert rivals.look() is None
    processes.start(HERE, **said)
    assert rivals.look() is not None


def test_rivals_of_another_rank_of_this_run_are_found_and_named_by_it(processes: Processes) -> None:
    for _ in range(2):
        processes.start(HERE, PADDLE_TRAINER_ID="0")
    found = rivals.look()
    assert found is not None and "rank 0 of one run" in found.text


def test_a_worker_that_has_met_the_others_is_not_a_rival(processes: Processes) -> None:
    processes.start(HERE)
    processes.start(JOINED)
    assert rivals.look() is None


def test_a_python_that_has_just_been_started_may_become_one(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.start(HERE)
    young = processes.start()
    found = rivals.look()
    assert found is not None and not found.sure and f"process {young} " in found.text
    processes.start(HERE)  # now there are two that are sure, and those get the error
    found = rivals.look()
    assert found is not None and found.sure and f"process {young} " not in found.text
    processes.end()
    processes.start(HERE)
    processes.start()
    monkeypatch.setattr(rivals, "_YOUNG_SECONDS", 0.0)
    assert rivals.look() is None  # by now it would have imported the package


def test_rivals_are_found_with_any_spelling_of_their_environment(processes: Processes) -> None:
    processes.start(HERE)
    processes.start(HERE, PADDLE_TRAINER_ENDPOINTS="a.invalid:1; b.invalid:2", WORLD_SIZE="1", RANK="0")
    found = rivals.look()
    assert found is not None and found.sure and "rank 1 of one run" in found.text


def test_other_programs_with_a_workers_environment_are_no_rivals(processes: Processes) -> None:
    processes.start(HERE)
    with subprocess.Popen(["/bin/sleep", "60"], env=processes.place) as other:
        try:
            assert rivals.look() is None
        finally:
            other.kill()


def test_rank_0_does_not_wait_for_a_server_that_was_just_started(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    processes.start(HERE, PADDLE_TRAINER_ID="0", TRAINING_ROLE="TRAINER")
    processes.start(PADDLE_TRAINER_ID="", TRAINING_ROLE="PSERVER")
    assert rivals.look() is None
    processes.start(PADDLE_TRAINER_ID="")  # the first worker's, as a shell may start it
    assert rivals.look() is not None


@pytest.mark.parametrize("around", ['"$0" "$@"; true', '/bin/sh -c \'"$0" "$@"; true\' "$0" "$@"; true'])
def test_a_worker_and_the_shells_around_it_are_one(processes: Processes, around: str) -> None:
    processes.start(HERE, shell=around)
    assert rivals.look() is None
    processes.start(HERE)
    assert rivals.look() is not None


def test_a_worker_and_the_python_around_it_are_one(processes: Processes) -> None:
    processes.start_around(([HERE], {}), ([], {}))  # and a helper of the worker
    assert rivals.look() is None
    processes.start(HERE)
    found = rivals.look()
    assert found is not None and found.sure


def test_workers_of_one_rank_that_another_worker_has_started_are_two(processes: Processes) -> None:
    processes.start_around(([HERE], {"PADDLE_TRAINER_ID": "1"}), PADDLE_TRAINER_ID="0")
    assert rivals.look() is None
    processes.start_around(*[([HERE], {"PADDLE_TRAINER_ID": "2"})] * 2, PADDLE_TRAINER_ID="3")
    found = rivals.look()
    assert found is not None and found.sure and "rank 2 of one run" in found.text


def test_a_forked_copy_of_a_worker_is_not_a_rival(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    processes.start(HERE)
    copy = processes.start(HERE)
    is_forked = rivals._is_forked
    monkeypatch.setattr(rivals, "_is_forked", lambda process: process == copy or is_forked(process))
    assert rivals.look() is None


def test_of_other_launchers_than_paddles_only_those_with_the_same_starter_are_of_this_run(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a.invalid", "MASTER_PORT": "17"}
    environment = {**dict.fromkeys(PLACE, ""), **torch}
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    for _ in range(2):
        processes.start(HERE, **environment)
    assert rivals.look() is None  # this process has started them, and another one this process
    monkeypatch.setattr(rivals, "starter_of", lambda process, variables: f"the same of {variables}")
    found = rivals.look()
    assert found is not None and "rank 1 of one run" in found.text


# -- notes --------------------------------------------------------------------------------------------------------


def test_a_note_is_for_those_of_this_run_that_were_started_before(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rivals.note() == ""
    rivals.leave_note("two runs\nof two lines")
    assert rivals.note() == "two runs\nof two lines"
    with monkeypatch.context() as later:
        later.setattr(rivals, "_start", lambda process: time.clock_gettime(time.CLOCK_BOOTTIME))
        assert rivals.note() == ""
    with monkeypatch.context() as another:
        another.setattr(rivals, "_boot", lambda: "of another start of the machine")
        assert rivals.note() == ""
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    assert rivals.note() == "two runs\nof two lines"  # of any rank
    monkeypatch.setenv("PADDLE_JOB_ID", "other")
    assert rivals.note() == ""


def test_an_unwritable_or_unreadable_note_is_ignored(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    rivals.leave_note("two runs")
    path = rivals._path_of_note()
    assert [each for each in path.parent.iterdir()] == [path]  # no draft is left
    for text in (b"", b"a\nb\nc", b"\xff", path.read_bytes().split(b"\n")[0]):
        path.write_bytes(text)
        assert rivals.note() == ""

    def none() -> Path:
        raise PermissionError("no folder is safe")

    monkeypatch.setattr(rivals, "folder_of_the_user", none)
    rivals.leave_note("two runs")
    assert rivals.note() == ""


# -- who has started this process ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "found"), [("", False), (" this ", True), ("this", True)])
def test_a_setting_says_that_this_is_the_worker(monkeypatch: pytest.MonkeyPatch, text: str, found: bool) -> None:
    monkeypatch.setenv(SETTING, text)
    assert rivals.is_the_worker() is found
    for other in ("no", "This", "1"):
        monkeypatch.setenv(SETTING, other)
        with pytest.raises(InvalidInputError, match=f"{SETTING} holds '{other}'; allowed is 'this'"):
            rivals.is_the_worker()


def marked(monkeypatch: pytest.MonkeyPatch, process: Any, start: str) -> None:
    claim = claim_of(os.environ)
    assert claim is not None
    monkeypatch.setenv(MARK, f"{claim.digest} {process} {start}")


def test_a_process_that_bears_the_mark_of_another_worker_was_started_by_it(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "_is_forked", lambda process: False)
    assert rivals.worker_behind() == ""
    marked(monkeypatch, os.getpid(), identity.status("self")[19])
    assert rivals.worker_behind() == ""  # its own
    worker = processes.start(HERE)
    start = identity.status(worker)[19]
    marked(monkeypatch, worker, start)
    assert re.match(rf"process {worker} \(\S*python\S* -I -S -c import mmap.*\)$", rivals.worker_behind())
    assert len(rivals.worker_behind()) < 130
    with monkeypatch.context() as setting:
        setting.setenv(SETTING, "this")
        assert rivals.worker_behind() == ""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PADDLE_TRAINER_ID", "0")
        assert rivals.worker_behind() == ""  # a place of its own
    processes.end()
    assert rivals.worker_behind() == f"process {worker} (which has ended)"


def test_a_worker_that_forks_and_ends_goes_on_as_its_child(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "_is_forked", lambda process: True)
    worker = processes.start(HERE)
    start = identity.status(worker)[19]
    marked(monkeypatch, worker, start)
    assert rivals.worker_behind().startswith(f"process {worker} ")
    marked(monkeypatch, worker, f"{int(start) - 1}")  # another process with its number
    assert rivals.worker_behind() == ""
    marked(monkeypatch, worker, start)
    processes.started[0].kill()
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)  # no process has asked for its status yet
    assert identity.status(worker)[0] == "Z" and rivals.worker_behind() == ""


def test_a_process_of_multiprocessing_belongs_to_its_parent_before_that_imports_anything(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, stranger = processes.start(), processes.start(PADDLE_TRAINER_ID="0")
    for found, started in ((parent, True), (stranger, False)):
        monkeypatch.setattr(rivals.os, "getppid", lambda found=found: found)
        assert rivals.worker_behind() == ""
        with monkeypatch.context() as child:
            child.setattr("multiprocessing.process._parent_process", object())
            assert rivals.worker_behind().startswith(f"process {found} ") == started
            child.setenv(SETTING, "this")
            assert rivals.worker_behind() == ""


def test_an_ancestor_with_the_same_claim_is_the_worker_if_it_is_one(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent of this process is played by others."""
    around = processes.start(shell='"$0" "$@"; true')  # a shell, and under it a Python that has imported nothing
    worker, stranger = processes.start(HERE), processes.start(HERE, PADDLE_TRAINER_ID="0")
    ready = processes.start(JOINED)
    for parent, found in ((around, False), (worker, True), (ready, True), (stranger, False)):
        monkeypatch.setattr(rivals.os, "getppid", lambda parent=parent: parent)
        assert rivals.worker_behind().startswith(f"process {parent} ") == found
    parents = {around: str(worker)}
    status = identity.status
    monkeypatch.setattr(
        rivals, "status", lambda process: [*status(process)[:1], parents.get(process, "1"), *status(process)[2:]]
    )
    monkeypatch.setattr(rivals.os, "getppid", lambda: around)
    assert rivals.worker_behind().startswith(f"process {worker} ")  # the shell's parent
    monkeypatch.setattr(rivals, "_LAUNCHERS", {os.path.basename(sys.executable).encode()})
    assert rivals.worker_behind() == ""
