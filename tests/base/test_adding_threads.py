"""Threads that add to one metric or collection lose nothing; copies do not share their turns."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.base import adding

pytestmark = pytest.mark.numpy_only

SCORE = np.random.default_rng(0).random(20)
LABEL = (SCORE > 0.4).astype(int)
METRICS: dict[str, Any] = {
    "numbers": lambda: fm.MetricCollection({"n": fm.Count(), "mae": fm.MeanAbsoluteError()}),
    "buckets": lambda: fm.AUC(name="auc"),
    "records": lambda: fm.ExactAUC(name="exact"),
    "slices": lambda: fm.Sliced(fm.MeanAbsoluteError(), by="slot"),
}


def add(metric: Any, times: int) -> None:
    named = {"slot": LABEL} if isinstance(metric, fm.Sliced) else {}
    for _ in range(times):
        metric.add(SCORE, LABEL, **named)


def in_threads(number: int, work: Any) -> None:
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("name", METRICS)
def test_threads_that_change_at_every_step_lose_no_batch(name: str) -> None:
    metric, alone = METRICS[name](), METRICS[name]()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        in_threads(8, lambda: add(metric, 25))
    finally:
        sys.setswitchinterval(interval)
    add(alone, 200)
    assert metric.compute() == alone.compute()


def test_two_threads_are_never_inside_of_one_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    merge, inside, both = adding.accumulate_all, [], threading.Event()

    def slowly(increments: Any, look: bool) -> None:
        inside.append(increments)
        if len(inside) > 1:
            both.set()
        both.wait(0.2)  # for the other thread, which must not come
        inside.pop()
        merge(increments, look)

    monkeypatch.setattr(adding, "accumulate_all", slowly)
    metric = METRICS["numbers"]()
    in_threads(2, lambda: add(metric, 1))
    assert not both.is_set()
    assert metric.compute()["n"] == 40


def test_copies_and_pickles_have_a_turn_of_their_own() -> None:
    metric = METRICS["numbers"]()
    add(metric, 1)
    with metric._adding:
        for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.fresh()):
            thread = threading.Thread(target=add, args=(other, 1), daemon=True)
            thread.start()
            thread.join(20)
            assert not thread.is_alive()
