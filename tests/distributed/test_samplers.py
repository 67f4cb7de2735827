"""``sampler=`` among real workers: what data loaders deal counts once, in every metric, collection and evaluator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contract import CASES, draw, expected, first_dtypes, is_exact_value, plain, same
from tests.cover import quick_on
from tests.distributed.cluster import run
from tests.exactness import taken
from tests.field_samplers import KINDS

pytestmark = [
    pytest.mark.distributed,
    pytest.mark.filterwarnings(r"ignore:.* undefined for \d+ .* left out:fleetmetrics.UndefinedMetricWarning"),
]
WORKER = Path(__file__).parent / "workers" / "samplers.py"
SAMPLES, WORKERS = 53, [1, 2, 3, 5]
#: Of a window of the last batches, the value depends on who had them.
NAMES = [name for name in CASES if "window" not in name]


def read(value: str) -> Any:
    return eval(value, {"nan": float("nan"), "inf": float("inf")})


def kinds_of(workers: int) -> dict[str, list[str]]:
    """The cases by kind of sampler: each of them is computed on two numbers of workers, by other kinds."""
    kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for place, name in enumerate(NAMES):
        if (place + WORKERS.index(workers)) % 2:
            kinds[list(KINDS)[(place // 2 + workers) % len(KINDS)]].append(name)
    return kinds


@pytest.fixture(scope="module", params=[pytest.param(number, marks=quick_on(number)) for number in WORKERS])
def reports(request: Any) -> list[dict[str, Any]]:
    kinds = kinds_of(request.param)
    return [{**report, "kinds": kinds} for report in run(WORKER, request.param, args={"kinds": kinds}, timeout=280)]


def test_every_metric_counts_each_sample_once(reports: list[dict[str, Any]]) -> None:
    assert all(repr(report["values"]) == repr(reports[0]["values"]) for report in reports)
    wrong = []
    for kind, names in reports[0]["kinds"].items():
        for name in names:
            data, value = draw(name, first_dtypes(name), samples=SAMPLES), read(reports[0]["values"][name])
            reference = plain(expected(name, taken(data, np.array(reports[0]["dealt"][kind]))))
            if not same(value, reference, is_exact_value(name, data, None), CASES[name].tolerance):
                wrong.append((name, kind, value, reference))
    assert len(reports[0]["values"]) in (len(NAMES) // 2, -(-len(NAMES) // 2)) and wrong == []


@pytest.mark.parametrize("kind", KINDS)
def test_collections_records_and_evaluators_do_in_every_pass(reports: list[dict[str, Any]], kind: str) -> None:
    for report in reports:
        for values, reference, in_order, seen, dealt in report["together"][kind]:
            assert same(read(values), read(reference), False) and read(values)["n"] == len(dealt)
            assert in_order == seen == dealt


def test_a_sampler_that_seeds_paddle_changes_nothing_of_the_job(reports: list[dict[str, Any]]) -> None:
    assert all(report["random_state"] for report in reports)


def test_samples_that_do_not_add_up_to_the_size_warn_on_every_worker(reports: list[dict[str, Any]]) -> None:
    workers = len(reports)
    dealt = -(-SAMPLES // workers) * workers
    for report in reports:
        for what, texts in report["sizes"].items():
            way, name = what.split(", ")
            if way != "neither" or dealt == SAMPLES:
                assert texts == [], (what, texts)
                continue
            [text] = texts
            assert text.startswith(f"{name} (")
            assert f"{dealt} samples were counted, but the data set has {SAMPLES} (size=). " in text
            assert "with sampler= each counts once" in text


def test_another_sampler_epoch_or_batch_size_on_one_worker_is_an_error_on_all(reports: list[dict[str, Any]]) -> None:
    if len(reports) == 1:
        return
    told, last = reports[0]["troubles"], len(reports) - 1
    assert all(report["troubles"] == told for report in reports)
    for name, here, there in (
        ("epoch", "epoch 3", "epoch 4"),
        ("batch size", "batch_size 4", "batch_size 3"),
        ("sampler", "shuffle False", "order"),
    ):
        assert re.match(rf"AgreementError: .*{here}.*{there}.* on rank {last}", told[name]), told[name]
    assert (
        f"InvalidInputError: on rank {last}: it (Count): the sampler is for rank {last} of {last + 2}"
        in (told["another number"])
    )
    assert re.match(rf"InvalidInputError: on rank {last}: it \(Count\): 4 of the \d+ samples", told["too few"])


def test_where_workers_share_samples_the_group_of_those_with_different_ones_counts_them() -> None:
    kinds = ["in order", "last batch", "mapping", "interleaved"]
    for report in run(WORKER, 4, args={"groups": kinds}):
        for kind, (value, told) in report["groups"].items():
            assert kind == "interleaved" or value == sum(range(SAMPLES)), kind  # which drops one that epoch 0 chose
            assert "the sampler is for rank" in told and "of 2, but this worker is rank" in told and "group=" in told
