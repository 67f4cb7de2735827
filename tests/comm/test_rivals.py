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
from types import SimpleNamespace
from typing import Any, Iterator

import pytest

from fleetmetrics import identity
from fleetmetrics.comm import rivals
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.launchers import VARIABLES
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.identity import JOINED, MARK, SETTING, STARTING, WAITING, Claim, claim_of

pytestmark = pytest.mark.numpy_only

PLACE = {"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ENDPOINTS": "a.invalid:1,b.invalid:2"}
NOWHERE = dict.fromkeys([*PLACE, "PADDLE_JOB_ID"], "")
#: What others see of a worker, except for its badge: the libraries that it maps. It ends with what it reads.
LOOKS = """
import mmap, os, sys
files = [open(path, "rb") for path in sys.argv[1:]]
held = [mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for file in files]
print(os.getpid(), flush=True)
sys.stdin.read()
"""
#: A Python around workers: it starts one for each environment in its arguments.
STARTS = """
import json, subprocess, sys
code, *told = sys.argv[1:]
command = [sys.executable, "-I", "-S", "-c", code]
children = [subprocess.Popen(command, env=json.loads(each), stdout=subprocess.PIPE) for each in told]
for child in children: child.stdout.readline()
print(*(child.pid for child in children), flush=True)
sys.stdin.read()
"""


class Processes:
    """Starts processes that look like workers, and ends them."""

    def __init__(self, place: dict[str, str], folder: Path) -> None:
        self.place, self.folder = place, folder
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, state: str = "", shell: str = "", maps: str = "", **environment: str) -> int:
        """Start one with this badge, if any, that maps this library, if any, perhaps in a shell."""
        command = [sys.executable, "-I", "-S", "-c", LOOKS]
        if maps:
            (self.folder / maps).write_bytes(b"a library")
            command.append(str(self.folder / maps))
        process, [inner] = self.run(["/bin/sh", "-c", shell, *command] if shell else command, **environment)
        self.show(inner, state, **environment)
        return process

    def start_around(self, *others: tuple[str, dict[str, str]], **environment: str) -> int:
        """Start a Python that starts others, each with a badge, if any, and changes of its own."""
        told = [{**self.place, **changed} for _, changed in others]
        command = [sys.executable, "-I", "-S", "-c", STARTS, LOOKS, *map(json.dumps, told)]
        process, children = self.run(command, **environment)
        for child, (state, changed) in zip(children, others):
            self.show(child, state, **changed)
        return process

    def show(self, process: int, state: str, **environment: str) -> None:
        """Leave a badge for a process, as it would have done itself."""
        claim = claim_of({**self.place, **environment})
        if state and claim is not None:
            self.leave(claim, process, state)

    def leave(self, claim: Claim, process: int, state: str) -> None:
        """Let a process have this badge and no other."""
        for path in self.folder.glob(f"fleetmetrics-*/* {process} *"):
            path.unlink()
        Path(identity._path(claim, process, identity.status(process)[19], state)).touch()

    def run(self, command: list[str], **environment: str) -> tuple[int, list[int]]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen(command, env={**self.place, **environment}, **pipes)  # type: ignore[call-overload]
        self.started.append(process)
        assert process.stdout is not None
        return process.pid, [int(word) for word in process.stdout.readline().split()]

    def all(self) -> list[int]:
        """This process, those that it has started, and those that they have started."""
        found = [os.getpid()]
        for process in found:
            found += self.below(process)
        return found

    def below(self, process: int) -> list[int]:
        """Those that a process has started."""
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]

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
    monkeypatch.setattr(identity, "_FOLDERS", (str(tmp_path),))
    identity.folder.cache_clear()
    found = Processes(place, tmp_path)
    yield found
    found.end()
    identity.folder.cache_clear()


def mine() -> Claim:
    """This process's claim."""
    found = claim_of(os.environ)
    assert found is not None
    return found


# -- two that claim one rank --------------------------------------------------------------------------------------


def test_two_workers_that_wait_for_one_rank_are_named(processes: Processes) -> None:
    assert rivals.look(mine()) is None
    one = processes.start(WAITING)
    assert rivals.look(mine()) is None
    two = processes.start(WAITING)
    found = rivals.look(mine())
    assert found is not None and found.sure
    command = re.escape(f"{sys.executable} -I -S -c import mmap, os, sys ")
    told = [rf"process {each} \({command}.*?\), started \d s ago" for each in sorted((one, two))]
    assert re.search(rf"say that they are rank 1 of one run: {', (and )?'.join(told)}\.", found.text)


@pytest.mark.parametrize(
    "changed",
    [{"PADDLE_TRAINER_ID": "0"}, {"PADDLE_JOB_ID": "other"}, {"PADDLE_TRAINER_ENDPOINTS": "a.invalid:1,c.invalid:2"}],
)
def test_workers_of_other_ranks_or_runs_are_no_rivals(processes: Processes, changed: dict[str, str]) -> None:
    processes.start(WAITING)
    processes.start(WAITING, **changed)
    assert rivals.look(mine()) is None


@pytest.mark.parametrize("name", ["PADDLE_JOB_ID", "PADDLE_MASTER", "PADDLE_TRAINER_ENDPOINTS"])
def test_rivals_of_another_run_are_not_of_this_one(processes: Processes, name: str) -> None:
    for _ in range(2):
        processes.start(WAITING, **{name: "other"})
    assert rivals.look(mine()) is None


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
    processes.start(WAITING, **said)
    assert rivals.look(mine()) is None
    processes.start(WAITING, **{**said, "POD_NAME": "c" * 200})
    assert rivals.look(mine()) is None
    processes.start(WAITING, **said)
    assert rivals.look(mine()) is not None


def test_rivals_of_another_rank_of_this_run_are_found_and_named_by_it(processes: Processes) -> None:
    for _ in range(2):
        processes.start(WAITING, PADDLE_TRAINER_ID="0")
    found = rivals.look(mine())
    assert found is not None and "rank 0 of one run" in found.text


def test_a_worker_that_has_met_the_others_is_not_a_rival(processes: Processes) -> None:
    processes.start(WAITING)
    processes.start(JOINED)
    assert rivals.look(mine()) is None


def test_a_python_that_has_just_been_started_may_become_one(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.start(WAITING)
    young = processes.start()
    found = rivals.look(mine())
    assert found is not None and not found.sure and f"process {young} " in found.text
    processes.start(WAITING)  # now there are two that are sure, and those get the error
    found = rivals.look(mine())
    assert found is not None and found.sure and f"process {young} " not in found.text
    processes.end()
    processes.start(WAITING)
    processes.start()
    monkeypatch.setattr(rivals, "YOUNG_SECONDS", 0.0)
    assert rivals.look(mine()) is None  # by now it would have imported the package


def test_a_python_with_a_workers_variables_that_runs_the_program_of_this_one_is_a_worker_at_any_age(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "YOUNG_SECONDS", 0.0)
    for _ in range(2):
        processes.start()
    assert rivals.look(mine()) is None
    monkeypatch.setattr(rivals, "_program", lambda process: (b"python", b"train.py"))
    found = rivals.look(mine())
    assert found is not None and found.sure and "start it without these variables" in found.text


def test_a_place_that_is_set_in_the_program_is_seen_by_the_badge(processes: Processes) -> None:
    for _ in range(2):
        processes.show(processes.start(**NOWHERE), WAITING, PADDLE_TRAINER_ID="0")
    found = rivals.look(mine())
    assert found is not None and found.sure and "rank 0 of one run" in found.text


def test_helpers_of_a_worker_that_was_placed_in_the_program_are_no_rivals(processes: Processes) -> None:
    """It has started them with its environment as it is now; and two of them are not of one family without it."""
    worker = processes.start_around(("", {}), (WAITING, {}), **NOWHERE)
    found = rivals.look(mine())
    assert found is not None and not found.sure
    other = processes.start_around(**NOWHERE)
    processes.show(other, WAITING, PADDLE_TRAINER_ID="0")  # the first worker, of the same program
    assert rivals.look(mine()) is None
    processes.show(worker, WAITING)
    assert rivals.look(mine()) is None


def test_a_process_that_bears_the_mark_of_the_worker_is_no_rival(processes: Processes) -> None:
    worker = processes.start(WAITING)
    mark = f"{mine().digest} {worker} {identity.status(worker)[19]}"
    processes.start(**{MARK: mark})
    assert rivals.look(mine()) is None
    processes.start(**{MARK: mark, SETTING: "this"})  # its own word counts for more
    assert rivals.look(mine()) is not None


def test_a_worker_that_has_met_the_others_has_no_rival_among_its_helpers(processes: Processes) -> None:
    around = processes.start_around(("", {}), PADDLE_TRAINER_ID="1")
    processes.show(around, JOINED)
    processes.start(WAITING)  # of the next run
    assert rivals.look(mine()) is None


def test_badges_of_processes_that_have_ended_do_not_count_and_are_removed_in_the_end(processes: Processes) -> None:
    for _ in range(2):
        processes.start(WAITING)
    processes.end()
    assert rivals.look(mine()) is None
    assert len(identity.badges(mine().run_digest)) == 2
    assert len(identity.badges("another run")) == 2
    assert identity.badges("another run") == []


def test_communicators_with_one_place_and_secret_are_rivals_whatever_the_environment_says(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their places are arguments, of which the environment says nothing."""
    jobs = [Job(rank, 2, endpoint="a.invalid:1", secret=secret) for rank, secret in ((0, "a"), (0, "b"), (1, "a"))]
    first = jobs[0].claim
    assert first.given and len({job.claim for job in jobs}) == 3 and jobs[0].among([0]).claim == first

    for job in jobs:
        processes.leave(job.claim, processes.start(), WAITING)
    assert rivals.look(first) is None
    processes.leave(first, processes.start(), WAITING)
    found = rivals.look(jobs[2].claim)
    assert found is not None and found.sure and "give each run its own secret or endpoint" in found.text


def test_rivals_are_found_with_any_spelling_of_their_environment(processes: Processes) -> None:
    processes.start(WAITING)
    processes.start(WAITING, PADDLE_TRAINER_ENDPOINTS="a.invalid:1; b.invalid:2", WORLD_SIZE="1", RANK="0")
    found = rivals.look(mine())
    assert found is not None and found.sure and "rank 1 of one run" in found.text


def test_other_programs_with_a_workers_environment_are_no_rivals(processes: Processes) -> None:
    processes.start(WAITING)
    with subprocess.Popen(["/bin/sleep", "60"], env=processes.place) as other:
        try:
            assert rivals.look(mine()) is None
        finally:
            other.kill()


def test_rank_0_does_not_wait_for_the_processes_that_serve_multiprocessing(processes: Processes) -> None:
    """A program that spawns workers has started them with the place that it has set for the first worker."""
    processes.start(WAITING)
    tracker = [sys.executable, "-I", "-S", "-c", "from multiprocessing.resource_tracker import main;0\n" + LOOKS]
    processes.run(tracker)
    assert rivals.look(mine()) is None
    processes.run([*tracker[:-1], LOOKS])
    assert rivals.look(mine()) is not None


def test_rank_0_does_not_wait_for_a_server_that_was_just_started(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    processes.start(WAITING, PADDLE_TRAINER_ID="0", TRAINING_ROLE="TRAINER")
    processes.start(PADDLE_TRAINER_ID="", TRAINING_ROLE="PSERVER")
    assert rivals.look(mine()) is None
    processes.start(PADDLE_TRAINER_ID="")  # the first worker's, as a shell may start it
    assert rivals.look(mine()) is not None


@pytest.mark.parametrize("around", ['"$0" "$@"; true', '/bin/sh -c \'"$0" "$@"; true\' "$0" "$@"; true'])
def test_a_worker_and_the_shells_around_it_are_one(processes: Processes, around: str) -> None:
    processes.start(WAITING, shell=around)
    assert rivals.look(mine()) is None
    processes.start(WAITING)
    assert rivals.look(mine()) is not None


def test_a_worker_and_the_python_around_it_are_one(processes: Processes) -> None:
    processes.start_around((WAITING, {}), ("", {}))  # and a helper of the worker
    assert rivals.look(mine()) is None
    processes.start(WAITING)
    found = rivals.look(mine())
    assert found is not None and found.sure


def test_workers_of_one_rank_that_another_worker_has_started_are_two(processes: Processes) -> None:
    processes.start_around((WAITING, {"PADDLE_TRAINER_ID": "1"}), PADDLE_TRAINER_ID="0")
    assert rivals.look(mine()) is None
    processes.start_around(*[(WAITING, {"PADDLE_TRAINER_ID": "2"})] * 2, PADDLE_TRAINER_ID="3")
    found = rivals.look(mine())
    assert found is not None and found.sure and "rank 2 of one run" in found.text


def test_a_forked_copy_of_a_worker_is_not_a_rival(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, copy = processes.start(WAITING), processes.start()
    while (started := identity.status(copy)[19]) == identity.status(worker)[19]:  # in the same hundredth of a second
        copy = processes.start()
    is_forked = rivals._is_forked
    monkeypatch.setattr(rivals, "_is_forked", lambda fields: fields[19] == started or is_forked(fields))
    assert rivals.look(mine()) is None
    processes.show(copy, WAITING)  # it says itself that it is this worker
    assert rivals.look(mine()) is not None


def test_of_other_launchers_than_paddles_only_those_with_the_same_starter_are_of_this_run(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a.invalid", "MASTER_PORT": "17"}
    environment = {**dict.fromkeys(PLACE, ""), **torch}
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    for _ in range(2):
        processes.start(WAITING, **environment)
    assert rivals.look(mine(), ("RANK",)) is None  # this process has started them, and another one this process
    with monkeypatch.context() as same:
        same.setattr(rivals, "starter_of", lambda process, variables: f"the same of {variables}")
        assert rivals.look(mine(), ("RANK",)) is not None
    found = rivals.look(mine())  # their addresses and ports name the run
    assert found is not None and "rank 1 of one run" in found.text


# -- notes --------------------------------------------------------------------------------------------------------


def test_a_note_is_for_those_of_this_run_that_were_started_before(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rivals.note(mine()) == ""
    rivals.leave_note(mine(), "two runs\nof two lines")
    assert rivals.note(mine()) == "two runs\nof two lines"
    with monkeypatch.context() as later:
        later.setattr(rivals, "_start", lambda process: time.clock_gettime(time.CLOCK_BOOTTIME))
        assert rivals.note(mine()) == ""
    with monkeypatch.context() as another:
        another.setattr(rivals, "_boot", lambda: "of another start of the machine")
        assert rivals.note(mine()) == ""
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    assert rivals.note(mine()) == "two runs\nof two lines"  # of any rank
    monkeypatch.setenv("PADDLE_JOB_ID", "other")
    assert rivals.note(mine()) == ""


def test_an_unwritable_or_unreadable_note_is_ignored(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    rivals.leave_note(mine(), "two runs")
    path = rivals._path_of_note(mine())
    assert [each for each in path.parent.iterdir()] == [path]  # no draft is left
    for text in (b"", b"a\nb\nc", b"\xff", path.read_bytes().split(b"\n")[0]):
        path.write_bytes(text)
        assert rivals.note(mine()) == ""

    def none() -> str:
        raise PermissionError("no folder is safe")

    monkeypatch.setattr(rivals, "folder", none)
    rivals.leave_note(mine(), "two runs")
    assert rivals.note(mine()) == ""


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
    monkeypatch.setattr(rivals, "_is_forked", lambda fields: False)
    assert rivals.worker_behind(mine()) == ""
    marked(monkeypatch, os.getpid(), identity.status("self")[19])
    assert rivals.worker_behind(mine()) == ""  # its own
    worker = processes.start()
    start = identity.status(worker)[19]
    marked(monkeypatch, worker, start)
    assert re.match(rf"process {worker} \(\S*python\S* -I -S -c import mmap.*\)$", rivals.worker_behind(mine()))
    assert len(rivals.worker_behind(mine())) < 130
    with monkeypatch.context() as setting:
        setting.setenv(SETTING, "this")
        assert rivals.worker_behind(mine()) == ""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("PADDLE_TRAINER_ID", "0")
        assert rivals.worker_behind(mine()) == ""  # a place of its own
    processes.show(worker, STARTING, PADDLE_TRAINER_ID="0")  # it has set this place for this process, then another one
    assert rivals.worker_behind(mine()) == ""
    processes.end()
    assert rivals.worker_behind(mine()) == f"process {worker} (which has ended)"


def test_a_worker_that_forks_and_ends_goes_on_as_its_child(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "_is_forked", lambda fields: True)
    worker = processes.start(WAITING)
    start = identity.status(worker)[19]
    marked(monkeypatch, worker, start)
    assert rivals.worker_behind(mine(), met=True).startswith(f"process {worker} ")
    marked(monkeypatch, worker, f"{int(start) - 1}")  # another process with its number
    assert rivals.worker_behind(mine(), met=True) == ""
    marked(monkeypatch, worker, start)
    processes.started[0].kill()
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)  # no process has asked for its status yet
    assert identity.status(worker)[0] == "Z" and rivals.worker_behind(mine(), met=True) == ""


def test_a_process_of_multiprocessing_belongs_to_its_parent_if_that_had_this_place(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even before the parent imports anything: multiprocessing passes its environment on as it is."""
    monkeypatch.setattr(rivals, "_was_started_with", lambda claim, process: process == os.getpid() and started)
    parent = processes.start()
    for started in (True, False):
        assert rivals.worker_behind(mine(), met=True) == ""
        with monkeypatch.context() as child:
            child.setattr("multiprocessing.process._parent_process", SimpleNamespace(pid=parent))
            assert rivals.worker_behind(mine(), met=True).startswith(f"process {parent} ") == started
            child.setenv(SETTING, "this")
            assert rivals.worker_behind(mine(), met=True) == ""


def test_a_process_that_starts_several_ranks_is_none_of_them(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that sets the place of each worker, and starts it."""
    monkeypatch.setattr(rivals, "_was_started_with", lambda claim, process: process == os.getpid())
    parent = processes.start_around(("", {"PADDLE_TRAINER_ID": "1"}), PADDLE_TRAINER_ID="")
    monkeypatch.setattr("multiprocessing.process._parent_process", SimpleNamespace(pid=parent))
    assert rivals.worker_behind(mine(), met=True).startswith(f"process {parent} ")
    parent = processes.start_around(("", {"PADDLE_TRAINER_ID": "1"}), ("", {"PADDLE_TRAINER_ID": "0"}))
    monkeypatch.setattr("multiprocessing.process._parent_process", SimpleNamespace(pid=parent))
    assert rivals.worker_behind(mine(), met=True) == ""
    processes.show(parent, WAITING)  # it is this worker, and starts others
    assert rivals.worker_behind(mine(), met=True).startswith(f"process {parent} ")
    processes.show(parent, WAITING, PADDLE_TRAINER_ID="0")  # it is another worker, and starts the others
    assert rivals.worker_behind(mine(), met=True) == ""


@pytest.mark.parametrize("rank", ["0", "1"])
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_process_whose_maker_may_yet_be_another_worker_waits_for_rank_0(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, how: str, rank: str
) -> None:
    """A program sets the place of a worker, starts it, then sets its own; rank 0 cannot wait for itself."""
    monkeypatch.setenv("PADDLE_TRAINER_ID", rank)
    monkeypatch.setattr(rivals, "_is_forked", lambda fields: how == "fork")
    monkeypatch.setattr(rivals, "_was_started_with", lambda claim, process: how == "spawn" and process == os.getpid())
    maker = processes.start(**NOWHERE)
    if how == "fork":
        marked(monkeypatch, maker, identity.status(maker)[19])
        processes.show(maker, WAITING, PADDLE_TRAINER_ID=rank)
    else:
        monkeypatch.setattr("multiprocessing.process._parent_process", SimpleNamespace(pid=maker))
    assert rivals.worker_behind(mine()).startswith(f"process {maker} ") == (rank == "0")
    assert rivals.worker_behind(mine(), met=True).startswith(f"process {maker} ")

    ages = [0.0, 0.9 * rivals._STARTS_SECONDS, rivals._STARTS_SECONDS]
    monkeypatch.setattr(rivals, "_age", lambda process: ages.pop(0))
    monkeypatch.setattr(rivals.time, "sleep", lambda seconds: None)
    assert rivals.worker_behind(mine(), met=True).startswith(f"process {maker} ") and not ages
    with monkeypatch.context() as at_once:
        at_once.setattr(rivals, "_was_started_with", lambda claim, process: True)  # by a launcher
        assert rivals.worker_behind(mine()).startswith(f"process {maker} ")

    def show(seconds: float) -> None:
        processes.show(maker, WAITING, PADDLE_TRAINER_ID="2")

    monkeypatch.setattr(rivals.time, "sleep", show)
    ages.append(0.0)
    assert rivals.worker_behind(mine(), met=True) == "" and not ages


def test_an_ancestor_with_the_same_claim_is_the_worker_if_it_is_one(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent of this process is played by others."""
    around = processes.start(shell='"$0" "$@"; true')  # a shell, and under it a Python that has imported nothing
    worker, stranger = processes.start(WAITING), processes.start(WAITING, PADDLE_TRAINER_ID="0")
    ready, computing = processes.start(JOINED), processes.start(maps="libpaddle.so")
    placed = processes.start(**dict.fromkeys([*PLACE, "PADDLE_JOB_ID"], ""))
    processes.show(placed, WAITING)
    parents, own = {}, os.getpid()
    status = identity.status

    def status_of(process: Any) -> list[str]:
        found = status(process)
        return [found[0], str(parents.get(own if process == "self" else process, 1)), *found[2:]]

    monkeypatch.setattr(rivals, "status", status_of)
    expected = {around: False, worker: True, ready: True, computing: True, placed: True, stranger: False}
    for parent, found in expected.items():
        parents[own] = parent
        assert rivals.worker_behind(mine()).startswith(f"process {parent} ") == found
    parents.update({own: around, around: worker})
    assert rivals.worker_behind(mine()).startswith(f"process {worker} ")  # the shell's parent
    parents[around] = computing
    assert rivals.worker_behind(mine()).startswith(f"process {computing} ")
    monkeypatch.setattr(rivals, "_LAUNCHERS", {os.path.basename(sys.executable).encode()})
    assert rivals.worker_behind(mine()) == ""


@pytest.mark.parametrize("placed", [NOWHERE, PLACE], ids=["told its place later", "yet to import the package"])
def test_a_worker_that_shows_nothing_is_known_by_the_program_of_the_others(
    processes: Processes, placed: dict[str, str]
) -> None:
    """It has started a process with another program, and its place."""
    worker = processes.start_around((WAITING, {}), **{**processes.place, **placed})
    [helper] = processes.below(worker)
    assert rivals._worker_without_badge(helper, mine()) == 0
    first = processes.start_around(**NOWHERE)
    processes.show(first, WAITING, PADDLE_TRAINER_ID="0")
    assert rivals._worker_without_badge(helper, mine()) == worker
    assert rivals._worker_without_badge(first, mine()) == 0  # it has its place from its program
    processes.show(worker, WAITING, PADDLE_TRAINER_ID="0")  # it is another worker, and has started this one
    assert rivals._worker_without_badge(helper, mine()) == 0


def test_a_launcher_or_a_supervisor_that_runs_the_program_of_a_worker_is_none(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.show(processes.start_around(**NOWHERE), WAITING, PADDLE_TRAINER_ID="0")
    launcher = processes.start_around(("", {}), ("", {"PADDLE_TRAINER_ID": "0"}), **NOWHERE)
    assert not any(rivals._worker_without_badge(child, mine()) for child in processes.below(launcher))
    supervisor = processes.start_around(("", {}), **NOWHERE)
    [child] = processes.below(supervisor)
    assert rivals._worker_without_badge(child, mine()) == supervisor
    monkeypatch.setattr(rivals, "_program", lambda process: "python train.py")  # which has started itself once more
    assert rivals._worker_without_badge(child, mine()) == 0


# -- who may yet come ---------------------------------------------------------------------------------------------


@pytest.fixture
def first(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> Claim:
    """Of rank 0, by arguments; rank 1 is a process of the tests' program."""
    monkeypatch.setattr(rivals, "_processes", processes.all)  # other tests start processes of this program
    jobs = [Job(rank, 2, endpoint="a.invalid:1", secret=str(processes.folder)) for rank in range(2)]
    worker = processes.start(**NOWHERE)
    processes.leave(jobs[1].claim, worker, WAITING)
    return jobs[0].claim


def test_a_young_process_of_a_workers_program_may_yet_claim_a_rank(
    processes: Processes, first: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not rivals.is_undecided(first)
    processes.start_around(**NOWHERE)  # another program
    processes.start()  # it has a place elsewhere
    assert not rivals.is_undecided(first)
    young = processes.start(**NOWHERE)
    assert rivals.is_undecided(first)
    with monkeypatch.context() as later:
        later.setattr(rivals, "YOUNG_SECONDS", 0.0)
        assert not rivals.is_undecided(first)
    processes.leave(first, young, WAITING)
    assert not rivals.is_undecided(first)


def test_a_process_around_a_worker_or_below_one_does_not(processes: Processes, first: Claim) -> None:
    below = processes.start_around(("", NOWHERE), **NOWHERE)
    processes.leave(first, below, WAITING)  # and so the program of `around` is that of a worker
    around = processes.start_around(("", NOWHERE), **NOWHERE)
    assert rivals.is_undecided(first)
    [child] = processes.below(around)
    processes.leave(first, child, WAITING)
    assert not rivals.is_undecided(first)


def test_if_one_process_has_made_all_workers_nobody_is_missed(
    processes: Processes, first: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """multiprocessing has, or a fork: what else the maker makes is no worker of another run of this name."""
    processes.start(**NOWHERE)
    assert rivals.is_undecided(first)
    makers = {}
    monkeypatch.setattr(rivals, "_is_forked", lambda fields: True)
    monkeypatch.setattr(rivals, "_is_young_without_place", lambda process: process in young)
    young = {processes.start(**NOWHERE)}
    assert not rivals.is_undecided(first)
    status = identity.status

    def status_of(process: Any) -> list[str]:
        found = status(process)
        return [found[0], makers.get(process, found[1]), *found[2:]]

    other = processes.start(**NOWHERE)
    processes.leave(first, other, WAITING)
    makers[other] = "1"
    monkeypatch.setattr(rivals, "status", status_of)
    assert rivals.is_undecided(first)


def test_a_worker_that_was_started_with_its_place_waits_for_no_others(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.start(WAITING, PADDLE_TRAINER_ID="0")
    processes.start(**NOWHERE)
    assert rivals.is_undecided(mine())
    monkeypatch.setattr(rivals, "_was_started_with", lambda claim, process: True)
    assert not rivals.is_undecided(mine())
