"""An exchange is as much Python as it needs: rank 0's calls of functions are counted, its seconds depend on the day."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import fleetmetrics as fm
from fleetmetrics.comm import frames
from tests.distributed.cluster import free_ports
from tests.distributed.forks import member, run

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]

#: As many as were counted, and a tenth more: versions of Python and NumPy differ a little.
MOST = {"AUC": 600, "eight metrics": 940}
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
def test_one_exchange_calls_few_functions(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_ports(1)[0]
    monkeypatch.setattr(frames, "_LOOKS", 0)  # how often rank 0 looks is a matter of time

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
