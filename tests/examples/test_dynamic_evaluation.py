"""evaluate.py of the dynamic evaluation example: the global values are those of one process, under the launcher too.

Every run is in a directory of its own, where the launcher's logs go.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cover import quick_on
from tests.distributed.cluster import PATIENCE, ROOT, Job
from tests.nursery import common

pytestmark = [pytest.mark.distributed, quick_on(paddle=3)]

EXAMPLE = ROOT / "examples" / "dynamic_evaluation"
EVALUATE = EXAMPLE / "evaluate.py"
HELD_OUT = 457
METRICS = [
    "accuracy",
    "log loss",
    "AUC",
    "accuracy/top1",
    "accuracy/top5",
    "single-label/precision",
    "single-label/recall",
    "single-label/f1-score",
]
PASSES = ("in order", "shuffled")


class Pass(NamedTuple):
    """What is printed of one pass."""

    local: dict[str, list[str]]
    one_process: dict[str, str]
    overall: dict[str, str]
    overall_off: dict[str, str]
    interleaved_off: dict[str, str]
    shares: list[tuple[int, int, str]]  # samples, padding and verdict, by rank
    counted: str
    interleaved: str


def printed(log: str) -> str:
    """The script's own lines, without what Paddle and the launcher say."""
    found = re.search(r"^workers: .*^interleaved: [^\n]*\n", log, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def read(text: str, workers: int) -> dict[str, Pass]:
    """The passes by name."""
    head, *parts = text.split("\n\n")
    assert head == f"workers: {workers}, samples: {HELD_OUT}, in batches of 16"
    passes = {}
    for part in parts:
        name, header, *lines = part.splitlines()
        columns = [f"worker {rank}" for rank in range(workers)]
        assert re.split(" {2,}", header.strip()) == [
            *columns,
            "one process",
            "global",
            "off by",
            "interleaved",
            "off by",
        ]
        cells = {key: values for key, *values in (re.split(" {2,}", line) for line in lines[: len(METRICS)])}
        assert list(cells) == METRICS
        assert {len(line) for line in [header, *lines[: len(METRICS)]]} == {len(header)}, "the table is not aligned"
        shares = []
        for rank, line in enumerate(lines[len(METRICS) : -2]):
            found = re.fullmatch(rf"worker {rank}: (\d+) samples, (\d+) of them padding; (.*)", line)
            assert found, line
            shares.append((int(found[1]), int(found[2]), found[3]))
        assert len(shares) == workers
        counted, interleaved = (line.partition(": ")[2].strip() for line in lines[-2:])
        column = [{name: values[i] for name, values in cells.items()} for i in range(workers, workers + 5)]
        local = {name: values[:workers] for name, values in cells.items()}
        passes[name] = Pass(local, *column[:3], column[4], shares, counted, interleaved)
    assert tuple(passes) == PASSES
    return passes


class Run(NamedTuple):
    """What worker 0 printed, and what that says."""

    text: str
    passes: dict[str, Pass]


@pytest.fixture(scope="module")
def forked() -> dict[str, str]:
    """The environment in which the launcher and its workers are forked where their imports are done already."""
    return common().environment("evaluate.py", "paddle.distributed.launch")


def launch(workers: int, environment: dict[str, str]) -> Run:
    """Run it under Paddle's launcher."""
    with Job(EVALUATE, workers, "collective", env=environment) as job:
        try:
            status = job.processes[0].wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not ready within {PATIENCE} s\n{job.logs()}") from None
        assert status == 0, job.logs()
        logs = [path.read_text() for path in sorted((job.directory / "log").glob("workerlog.*"))]
        assert len(logs) == workers
        assert not any("Traceback" in log for log in logs), job.logs()
        assert not any(map(printed, logs[1:])), "only worker 0 prints"
        text = printed(logs[0])
        return Run(text, read(text, workers))


@pytest.fixture(scope="module")
def alone(forked: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One process, without the launcher."""
    directory = tmp_path_factory.mktemp("alone")
    foreign = ("PADDLE_", "FLEETMETRICS_", "TRAINING_", "FLAGS_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    done = subprocess.run(
        [sys.executable, str(EVALUATE)],
        cwd=directory,
        env={**environment, **forked},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert not list(directory.iterdir())
    return Run(done.stdout, read(done.stdout, 1))


@pytest.fixture(scope="module")
def two(forked: dict[str, str]) -> Run:
    return launch(2, forked)


@pytest.fixture(scope="module")
def three(forked: dict[str, str]) -> Run:
    return launch(3, forked)


def check_exact(run: Run) -> None:
    for each in run.passes.values():
        assert each.overall == each.one_process
        assert set(each.overall_off.values()) == {"0.0e+00"}
        assert {verdict for *_, verdict in each.shares} == {"the global values of one process"}
        assert sum(dealt - padded for dealt, padded, _ in each.shares) == HELD_OUT
        assert each.counted == "counted twice: none, never: none"


@pytest.mark.thorough
def test_one_process_says_that_it_is_the_only_worker_and_has_nothing_to_put_right(alone: Run) -> None:
    check_exact(alone)
    for each in alone.passes.values():
        assert each.shares == [(HELD_OUT, 0, "the global values of one process")]
        assert {name: [value] for name, value in each.one_process.items()} == each.local
        assert set(each.interleaved_off.values()) == {"0.0e+00"}


def test_on_three_workers_the_global_values_are_those_of_one_process(three: Run, alone: Run) -> None:
    check_exact(three)
    for name, each in three.passes.items():
        assert each.overall == alone.passes[name].overall
        assert all(len(set(values)) > 1 for values in each.local.values())


def test_on_three_workers_interleaving_counts_other_samples_and_gives_other_values(three: Run) -> None:
    in_order, shuffled = (three.passes[name] for name in PASSES)
    assert [padded for _, padded, _ in in_order.shares] == [0, 0, 2]
    assert in_order.interleaved == "counted twice: [0], never: [449]"
    assert re.fullmatch(r"counted twice: \[0, 1\], never: \[\d+, \d+\]", shuffled.interleaved)
    for each in three.passes.values():
        assert float(each.interleaved_off["log loss"]) > 1e-4
        assert float(each.interleaved_off["AUC"]) > 1e-6


@pytest.mark.thorough
def test_on_two_workers_interleaving_is_right_as_long_as_nothing_is_shuffled(two: Run, alone: Run) -> None:
    check_exact(two)
    in_order, shuffled = (two.passes[name] for name in PASSES)
    assert in_order.overall == shuffled.overall == alone.passes["in order"].overall
    assert set(in_order.interleaved_off.values()) == {"0.0e+00"}
    assert in_order.interleaved == "counted twice: none, never: none"
    assert float(shuffled.interleaved_off["log loss"]) > 1e-6
    assert re.fullmatch(r"counted twice: \[0\], never: \[\d+\]", shuffled.interleaved)


def test_the_readme_quotes_it(three: Run) -> None:
    assert f"```text\n{three.text}```\n" in (EXAMPLE / "README.md").read_text()


@pytest.mark.thorough
def test_values_that_are_not_those_of_one_process_fail_the_job(tmp_path: Path, forked: dict[str, str]) -> None:
    script = tmp_path / "evaluate.py"
    exact = EVALUATE.read_text()
    script.write_text(
        exact.replace("Digits(sampler=sampler), Evaluator(METRICS, sampler=sampler)", "Digits(), Evaluator(METRICS)")
    )
    assert script.read_text() != exact
    with Job(script, 2, env={**forked, "PADDLE_DISTRI_BACKEND": "gloo"}) as job:
        assert [process.wait(PATIENCE) for process in job.processes] == [1, 0], job.logs()
        text = (job.directory / "worker 0.log").read_text()
        assert text.count("OTHER GLOBAL VALUES THAN ONE PROCESS") == 2 * 2
