"""demo.py of the wide and deep example: it exits 0 only after the whole job, says who failed, and leaves nothing.

Every run is one of a copy of the example, so that its logs are the test's own. Who is hurt, and when, is decided by
what can be seen: a line of a log, a process in /proc.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

from tests.cover import thorough
from tests.distributed.cluster import PATIENCE
from tests.nursery import Nursery, common
from tests.paddle_version import on_legacy_graph

pytestmark = pytest.mark.distributed

#: Parameter servers are in Paddle's wheels of 2.6, not in those of 3.x.
with_servers = on_legacy_graph

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "wide_and_deep"
#: By default.
PASSES = 20
TAIL = 30
"""Lines that demo.py shows of a log."""
EXACT = ("AUC", "accuracy", "samples")
MARK = "WIDE_AND_DEEP_TEST"
"""The environment variable that the processes of a run inherit."""


def copied(directory: Path) -> Path:
    """A copy of the example."""
    return shutil.copytree(EXAMPLE, directory / "example", ignore=shutil.ignore_patterns("log", "__pycache__"))


@pytest.fixture(scope="module")
def nursery() -> Nursery:
    """A process that has imported what the launcher, the workers and the servers need."""
    return common()


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy of the example in the test's directory."""
    return copied(tmp_path)


class Demo:
    """demo.py, running; it has ended, and all its processes with it, when the `with` block is left.

    Args:
        example: where it is.
        arguments: what it is given.
        nursery: forks the launcher, the workers and the servers; None: they are processes of their own. Who is killed
            in its place ends it a moment later: the test must not look at anything that changes meanwhile.
        environment: further variables.
    """

    def __init__(self, example: Path, *arguments: str, nursery: Nursery | None = None, **environment: str) -> None:
        self.example = example
        self.mark = uuid.uuid4().hex
        self._out, self._err = example.with_name("stdout"), example.with_name("stderr")
        foreign = ("PADDLE_", "FLEETMETRICS_", "TRAINING_", "FLAGS_", "GLOG_")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(example / "demo.py"), *arguments],
                cwd=example.parent,
                env={
                    **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
                    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                    "COLUMNS": "100",
                    **(nursery.environment("fleetrun", "train.py") if nursery else {}),
                    MARK: self.mark,
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + 60
        while living := self.processes():
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
            assert time.monotonic() < deadline, f"some processes cannot be ended: {sorted(living)}"
            time.sleep(0.05)
        self.process.wait()

    def processes(self) -> dict[int, dict[str, str]]:
        """The environments of all processes of the run, demo.py's included, by process id."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                pairs = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
                if environment.get(MARK) == self.mark:
                    found[int(entry.name)] = environment
        return found

    def member(self, role: str, index: int) -> tuple[int, dict[str, str]] | None:
        """The process id and the environment of a worker or a server, once it lives."""
        for pid, environment in self.processes().items():
            if role == "worker" and environment.get("TRAINING_ROLE") == "TRAINER":
                found = environment["PADDLE_TRAINER_ID"]
            elif role == "server" and environment.get("TRAINING_ROLE") == "PSERVER":
                ports = [place.rpartition(":")[2] for place in environment["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")]
                found = str(ports.index(environment["PADDLE_PORT"]))
            else:
                continue
            if found == str(index):
                return pid, environment
        return None

    def await_member(self, role: str, index: int) -> tuple[int, dict[str, str]]:
        """Wait until a worker or a server lives."""
        return self._await(f"{role} {index}", lambda: self.member(role, index))

    def await_line(self, start: str) -> str:
        """Wait for a line of worker 0's that demo.py has passed on."""
        return self._await(
            f"a line that starts with {start!r}",
            lambda: next((line for line in self.out.split("\n")[:-1] if line.startswith(start)), None),
        )

    def await_launcher(self) -> None:
        """Wait until demo.py has started the launcher."""
        self._await("the launcher", lambda: len(self.processes()) > 1 or None)

    def await_complaints(self, workers: int) -> None:
        """Wait until every worker has said what is wrong and ended."""

        def said() -> bool | None:
            logs = [list(self.example.glob(f"log/*/workerlog.{rank}")) for rank in range(workers)]
            return all(found and b"error: " in found[0].read_bytes() for found in logs) or None

        self._await("the workers' complaints", said)
        self._await("the end of the workers", lambda: None if self._workers_live() else True)

    def _await(self, what: str, look: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            ended = self.process.poll() is not None
            found = look()
            if found is not None:
                return found
            assert not ended, f"demo.py ended with {self.process.returncode} during the wait for {what}\n{self.err}"
            assert time.monotonic() < deadline, f"waited in vain for {what}\n{self.out}\n{self.err}"
            time.sleep(0.05)

    def _workers_live(self) -> bool:
        return any(environment.get("TRAINING_ROLE") == "TRAINER" for environment in self.processes().values())

    def hurt(self, role: str, index: int, number: signal.Signals) -> None:
        """Send a signal to a worker or a server."""
        pid, _ = self.await_member(role, index)
        os.kill(pid, number)

    def end(self) -> int:
        """Wait for the end of demo.py, see that nothing else is left, and return the exit status."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"demo.py goes on\n{self.out}\n{self.err}") from None
        left = [environment.get("TRAINING_ROLE", "launcher") for environment in self.processes().values()]
        assert not left, f"left behind: {left}"
        return status

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    def log(self, name: str) -> str:
        """What a process printed, as a terminal would show it."""
        (path,) = self.example.glob(f"log/*/{name}")
        return "\n".join(line.rpartition("\r")[2] for line in path.read_bytes().decode(errors="replace").split("\n"))

    def reason(self) -> str:
        """Why the run has failed, in demo.py's words."""
        (reason,) = re.findall("^The run failed: (.*)$", self.err, re.MULTILINE)
        return reason

    def shown(self) -> dict[str, str]:
        """The logs whose ends demo.py has shown, by name."""
        _, *parts = re.split("^--- the end of (.*)\n", self.err, flags=re.MULTILINE)
        return {Path(path).name: text.rstrip("\n") for path, text in zip(parts[::2], parts[1::2])}

    def end_of(self, name: str) -> str:
        """What demo.py has to show of a log."""
        return "\n".join(self.log(name).rstrip("\n").split("\n")[-TAIL:])


def table(text: str) -> dict[str, list[str]]:
    """The rows of the table by their names."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if "scikit-learn" in line)
    cells = [re.split(" {2,}", line.strip()) for line in lines[start : start + 8]]
    return {"": cells[0], **{name: values for name, *values in cells[1:]}}


def check_table(text: str, workers: int) -> dict[str, list[str]]:
    """See that every global value is scikit-learn's."""
    rows = table(text)
    assert rows.pop("") == [*(f"worker {rank}" for rank in range(workers)), "global", "scikit-learn", "difference"]
    assert list(rows) == ["AUC", "accuracy", "MAE", "MSE", "RMSE", "log loss", "samples"]
    for name, values in rows.items():
        assert len(values) == workers + 3, name
        overall, reference, difference = map(float, values[workers:])
        assert overall == reference, name
        assert difference == 0 if name in EXACT else difference < 1e-9, name
    assert sum(map(int, rows["samples"][:workers])) == int(rows["samples"][workers])
    return rows


def impressions(path: Path, rows: int) -> Path:
    """Write Criteo's format: clicks depend on the first integer, any field may be empty."""
    draw = random.Random(path.name)
    lines = []
    for _ in range(rows):
        integers = [draw.choice([0, 1, 2, 5, 17, 100, -1, 99999]) for _ in range(13)]
        click = draw.random() < (0.7 if integers[0] > 5 else 0.2)
        fields = [*map(str, integers), *(f"{draw.randrange(40):08x}" for _ in range(26))]
        lines.append("\t".join([str(int(click)), *(field if draw.random() > 0.15 else "" for field in fields)]))
    path.write_text("\n".join(lines) + "\n")
    return path


# A run that succeeds


@pytest.fixture(scope="module")
def stopped(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A run with a worker that is stopped: nothing happens in it until the time is over, so that others may go on."""
    settings = ["--servers", "1", "--passes", "1000000", "--timeout", "40"]
    with Demo(copied(tmp_path_factory.mktemp("stopped")), *settings, nursery=nursery) as demo:
        demo.hurt("worker", 1, signal.SIGSTOP)
        yield demo


@pytest.fixture(scope="module", params=[2, *thorough(PASSES)])
def default(
    request: pytest.FixtureRequest, stopped: Demo, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Demo]:
    """`make demo`, ended, or with fewer passes; the run that only waits has begun before."""
    passes = [] if request.param == PASSES else ["--passes", str(request.param)]
    with Demo(copied(tmp_path_factory.mktemp("default")), *passes, nursery=nursery) as demo:
        assert demo.end() == 0, demo.err
        yield demo


@with_servers
def test_by_default_global_values_are_scikit_learn_s(default: Demo) -> None:
    rows = check_table(default.out, workers=2)
    assert rows["samples"][:3] == ["1967", "1966", "3933"]


@with_servers
@pytest.mark.parametrize("default", thorough(PASSES), indirect=True)
def test_by_default_the_model_has_learned(default: Demo) -> None:
    assert float(table(default.out)["AUC"][2]) >= 0.66


@with_servers
@pytest.mark.parametrize("default", thorough(PASSES), indirect=True)
def test_by_default_every_pass_has_one_line_without_a_terminal(default: Demo) -> None:
    lines = [line for line in default.out.splitlines() if line.startswith("pass")]
    assert len(lines) == PASSES
    for number, line in enumerate(lines, 1):
        assert re.match(rf"pass {number:2}/20 100%\|.*\| 8129 rows \d\d:\d\d, held out: AUC 0\.\d{{4}}, log loss", line)


@with_servers
def test_by_default_every_worker_says_that_it_is_done_without_warnings(default: Demo) -> None:
    for rank in range(2):
        assert f"\nworker {rank} of 2: done\n" in default.log(f"workerlog.{rank}")
    assert default.err == ""


@with_servers
@pytest.mark.thorough
def test_beside_paddle_s_own_gloo_other_numbers_of_processes_and_other_data_do_as_well(
    example: Path, nursery: Nursery, tmp_path: Path
) -> None:
    files = [str(impressions(tmp_path / f"day{day}.tsv", 400)) for day in (1, 2)]
    sizes = ["--servers", "1", "--workers", "3", "--passes", "3", "--batch-size", "32"]
    with Demo(example, *sizes, "--data", *files, nursery=nursery, PADDLE_WITH_GLOO="1") as demo:
        _, environment = demo.await_member("worker", 2)
        assert environment["PADDLE_WITH_GLOO"] == "1"
        assert demo.end() == 0, demo.err
        check_table(demo.out, workers=3)
        for rank in range(3):
            assert f"\nworker {rank} of 3: done\n" in demo.log(f"workerlog.{rank}")


# Runs that fail


@with_servers
@pytest.mark.thorough
def test_a_worker_that_is_killed_while_it_trains_is_named_with_the_end_of_its_log(
    example: Path, tmp_path: Path
) -> None:
    data = str(impressions(tmp_path / "day.tsv", 60))
    with Demo(example, "--servers", "1", "--workers", "1", "--passes", "1000000", "--data", data) as demo:
        demo.await_line(f"pass {' ' * 5}{TAIL + 1}/")  # a log of more lines than are shown
        demo.hurt("worker", 0, signal.SIGKILL)
        assert demo.end() == 1
        assert re.fullmatch("worker 0(, .*)? ended before the job was done", demo.reason())
        assert demo.shown()["workerlog.0"] == demo.end_of("workerlog.0")
        end = demo.end_of("workerlog.0")
        assert end.count("\n") == TAIL - 1
        assert end.count("\npass ") >= TAIL - 2  # the kill may cut the bar of the last one


@with_servers
def test_a_server_that_is_killed_while_the_workers_train_is_named(
    example: Path, nursery: Nursery, tmp_path: Path
) -> None:
    data = str(impressions(tmp_path / "day.tsv", 60))
    with Demo(example, "--workers", "1", "--passes", "1000000", "--data", data, nursery=nursery) as demo:
        demo.await_line("pass       2/")
        demo.hurt("server", 1, signal.SIGKILL)
        assert demo.end() == 1
        assert re.fullmatch("(.*, )?server 1(, .*)? ended before the job was done", demo.reason())
        assert demo.shown()["serverlog.1"] == demo.end_of("serverlog.1")
        assert "server 1 of 2: ready" in demo.shown()["serverlog.1"]


@with_servers
@pytest.mark.thorough
def test_every_worker_names_the_fault_in_a_bad_data_file_and_what_is_allowed(
    example: Path, nursery: Nursery, tmp_path: Path
) -> None:
    good, bad = (impressions(tmp_path / name, 100) for name in ("good.tsv", "bad.tsv"))
    lines = bad.read_text().split("\n")
    lines[41] = re.sub("^([01])\t[^\t]*\t", "\\1\tseven\t", lines[41])
    bad.write_text("\n".join(lines))
    with Demo(example, "--passes", "1", "--data", str(good), str(bad), nursery=nursery) as demo:
        demo.await_launcher()
        # It would end the others as soon as it sees one fail; now they can say why they fail.
        demo.process.send_signal(signal.SIGSTOP)
        demo.await_complaints(2)
        demo.process.send_signal(signal.SIGCONT)
        assert demo.end() == 1
        assert demo.reason() == "worker 0, worker 1 ended before the job was done"
        allowed = "an integer of at most 18 digits, or nothing"
        complaint = f"error: {bad}, line 42, field 2 (I1): 'seven'; allowed: {allowed}"
        assert [text.split("\n")[-1] for text in demo.shown().values()] == [complaint, complaint]


@with_servers
def test_a_value_that_is_not_scikit_learn_s_fails_the_job(example: Path, nursery: Nursery, tmp_path: Path) -> None:
    comparison = example / "comparison.py"
    exact = comparison.read_text()
    comparison.write_text(exact.replace('"samples": float(len(label))', '"samples": float(len(label)) + 1'))
    assert comparison.read_text() != exact
    data = str(impressions(tmp_path / "day.tsv", 200))
    small = ["--servers", "1", "--workers", "1", "--passes", "1"]
    with Demo(example, *small, "--data", data, nursery=nursery) as demo:
        assert demo.end() == 1
        held_out = int(table(demo.out)["samples"][1])
        assert demo.shown()
        for text in demo.shown().values():
            assert text.split("\n")[-1] == f"error: samples: {held_out} against scikit-learn's {held_out + 1}.0"


@with_servers
def test_a_signal_ends_everything_and_no_temporary_file_stays(example: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with Demo(example, "--servers", "1", "--passes", "1000000", TMPDIR=str(temporary)) as demo:
        demo.await_member("worker", 1)
        demo.process.send_signal(signal.SIGTERM)
        assert demo.end() == 128 + signal.SIGTERM
        assert demo.err == "\nInterrupted by SIGTERM.\n"
        assert not list(temporary.iterdir())


@with_servers
def test_a_worker_that_is_stopped_is_named_when_the_time_is_over(stopped: Demo) -> None:
    assert stopped.end() == 1
    assert stopped.reason() == "not done after 40 s: worker 1"
    assert list(stopped.shown()) == ["workerlog.1"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--workers", "0"], "argument --workers: '0'; allowed: an integer of at least 1"),
        (["--servers", "two"], "argument --servers: 'two'; allowed: an integer of at least 1"),
        (["--timeout", "inf"], "argument --timeout: 'inf'; allowed: a number above 0"),
        (["--passes", "1.5"], "argument --passes: '1.5'; allowed: an integer of at least 1"),
        (["--learning-rate", "nan"], "argument --learning-rate: 'nan'; allowed: a number above 0"),
        (["--data", "day.tsv"], "argument --data: day.tsv: there is no such file"),
        (["--pass", "3"], "unrecognized arguments: --pass 3"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_starts(arguments: list[str], complaint: str, example: Path) -> None:
    with Demo(example, *arguments) as demo:
        assert demo.end() == 2
        assert demo.err.splitlines()[-1] == f"demo.py: error: {complaint}"
        assert not (demo.example / "log").exists()
