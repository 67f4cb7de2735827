"""An exchange is as much Python as it needs: what rank 0 calls is counted, its seconds depend on the day."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from tests.distributed.cluster import free_ports
from tests.distributed.forks import member, run

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]

#: As many as were counted, and a tenth more: versions of Python and NumPy differ a little.
MOST = {"AUC": 280, "eight metrics": 550}
METRICS = {
    "AUC": lambda: fm.AUC(tolerance=None),
    "eight metrics": lambda: fm.MetricCollection(
        [
            fm.Sum(),
            fm.Max(),
            fm.Min(),
            fm.Accuracy(),
            fm.AUC(tolerance=None),
            fm.MeanAbsoluteError(),
            fm.MeanSquaredError(),
            fm.RootMeanSquaredError(),
        ]
    ),
}


@pytest.mark.parametrize("what", METRICS)
def test_one_exchange_calls_few_functions(what: str) -> None:
    port = free_ports(1)[0]

    def work(rank: int) -> list[int]:
        communicator, metric = member(rank, 2, port), METRICS[what]()
        metric.add([0.1, 0.9, 0.4], [0, 1, rank])
        counts = []
        for _ in range(20):
            calls = 0

            def count(frame: Any, event: str, argument: Any) -> None:
                nonlocal calls
                calls += event in ("call", "c_call")

            sys.setprofile(count)
            try:
                metric.compute(communicator=communicator, timeout=20)
            finally:
                sys.setprofile(None)
            counts.append(calls)
        return counts

    assert min(run(2, work)[0][5:]) <= MOST[what]


@pytest.mark.thorough
def test_a_reader_of_one_call_meets_no_more_functions_lines_and_modules_than_the_benchmark_allows() -> None:
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "reading.py"

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)

    assert not done.returncode, done.stdout + done.stderr
