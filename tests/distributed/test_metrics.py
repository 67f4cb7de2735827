"""Every metric, in every mode, among real workers: the number of one process, the same bits on every rank."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from tests.contract import CASES, MODES, batches, digest, draw, expected, feed, first_dtypes, is_exact, plain, same
from tests.cover import quick_on, thorough
from tests.distributed.cluster import run

pytestmark = pytest.mark.distributed
WORKER = Path(__file__).parent / "workers" / "metrics.py"
#: How the samples are dealt, and their weights. Of an "empty" split the last worker has none.
SPLITS = {"uneven": None, "empty": "real"}
OTHERS = [("ps", 4), ("ps_gloo", 1), ("ps_gloo", 3)]
#: With this one every case is computed on tensors.
EVERY_MODE = ("collective", 3)
#: A case of each class: with these in static programs, too, where the last worker has nothing.
ONE_OF_EACH = [*{type(case.make()): name for name, case in reversed(CASES.items())}.values()]
STATIC = {EVERY_MODE: ONE_OF_EACH[::4], ("ps_gloo", 3): [name for name in ONE_OF_EACH if name not in ONE_OF_EACH[::4]]}
#: With these every case is computed on arrays.
EVERY_CASE = [("ps_gloo", 1), ("ps_gloo", 3), ("ps", 2), ("ps", 4)]


def modes_of(name: str, launch: Any, split: str) -> list[str]:
    """The modes that a case is computed in. To build static programs takes most of the time."""
    modes = list(CASES[name].modes)
    if launch == EVERY_MODE:
        if CASES[name].brief and name not in STATIC[launch]:
            modes = [mode for mode in modes if mode != "static"]
        if split == "empty":
            return modes if not CASES[name].brief or modes == ["numpy"] else [mode for mode in modes if mode != "numpy"]
        return [] if CASES[name].brief else [mode for mode in modes if mode != "static"]
    if CASES[name].brief:
        computed = {"numpy": launch in EVERY_CASE, "static": name in STATIC.get(launch, ())}
        return [mode for mode in modes if computed.get(mode) and split == "empty"]
    return modes if split == "uneven" else [mode for mode in modes if mode != "static"]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("ps", 2), marks=quick_on(2)),
        pytest.param(("collective", 3), marks=quick_on(3)),
        *thorough(*OTHERS),
    ],
    ids=lambda launch: f"{launch[0]}-{launch[1]}",
)
def reports(request: Any) -> list[dict[str, Any]]:
    launch, workers = request.param
    modes = {split: {name: modes_of(name, request.param, split) for name in CASES} for split in SPLITS}
    args = {"launch": launch, "splits": list(SPLITS.items()), "modes": modes}
    return run(WORKER, workers, launch, args=args, timeout=280)


def test_every_worker_reports_the_same_bits(reports: list[dict[str, Any]]) -> None:
    assert [(report["rank"], report["world"]) for report in reports] == [(n, len(reports)) for n in range(len(reports))]
    for part in ("found", "collection", "troubles"):
        assert all(repr(report[part]) == repr(reports[0][part]) for report in reports)


def test_every_value_is_that_of_one_process(reports: list[dict[str, Any]], request: Any) -> None:
    found, launch = reports[0]["found"], request.node.callspec.params["reports"]
    assert list(found) == [
        f"{name}/{mode}/{split}" for split in SPLITS for name in CASES for mode in modes_of(name, launch, split)
    ]
    wrong = []
    for key, (value, states) in found.items():
        name, _, split = key.split("/")
        data = draw(name, first_dtypes(name), SPLITS[split], mask=True)
        if is_exact(name, data, SPLITS[split]):
            one = CASES[name].make()
            feed(one, batches(data), "numpy")
            arrays = [state.read() for state in one.states.values()]
            right = repr(value) == repr(plain(one.compute())) and states == digest(arrays)
        else:
            right = same(value, plain(expected(name, data)), False, CASES[name].tolerance)
        wrong += [] if right else [(key, value)]
    assert wrong == []


def test_a_collection_is_one_exchange_and_gives_each_metrics_value(reports: list[dict[str, Any]]) -> None:
    data = draw("auc", ("float32", "int64"), "eighths", mask=True)
    of = {"auc": "auc", "accuracy": "accuracy of probabilities", "loss": "log loss", "mse": "mean squared error"}
    for mode in MODES:
        values = ast.literal_eval(reports[0]["collection"][mode])
        assert list(values) == [*of, "n"]
        assert all(same(values[key], expected(name, data), exact=False) for key, name in of.items())
        assert values["n"] == expected("count", data)


DISAGREEMENTS = {
    "other metric": ["AUC it", "Count it"],
    "other name": ["AUC yours", "AUC mine"],
    "other settings": ["AUC it", "'it.histogram'", "[2, 10]", "[2, 8]"],
    "other order": ["AUC a", "AUC b"],
    "other members": ["MetricCollection it", "it.n.total", "it.a.histogram"],
}


@pytest.mark.parametrize("case", DISAGREEMENTS)
def test_the_error_of_workers_that_call_different_metrics_names_the_difference_and_the_ranks(
    reports: list[dict[str, Any]], case: str
) -> None:
    text, last = reports[0]["troubles"][case], len(reports) - 1
    if last:
        assert text.startswith("AgreementError: the workers disagree at exchange ")
        others = "rank 0" if last == 1 else f"ranks {', '.join(map(str, range(last)))}"
        assert all(part in text for part in [*DISAGREEMENTS[case], others, f"rank {last}"]), text
    else:
        assert text.startswith("no error")


def test_an_error_of_one_worker_is_raised_by_all(reports: list[dict[str, Any]]) -> None:
    texts, workers = reports[0]["troubles"], len(reports)
    told = f"InvalidInputError: deferred (AUC): 9 of {9 * workers} samples were invalid and left out, the first at"
    assert texts["invalid"].startswith(told), texts["invalid"]
    assert texts["never started"].startswith("StateNotFoundError: "), texts["never started"]
    assert "no variable 'never started.seen' in the scope" in texts["never started"]
    if workers > 1:
        assert texts["overflow"].startswith("IntegerOverflowError: "), texts["overflow"]
        assert "large.integers" in texts["overflow"]
        assert f"rank {workers - 1}" in texts["never started"]
    else:
        assert texts["overflow"] == f"no error, but {2**63 - 5}"


def test_without_samples_anywhere_every_worker_warns(reports: list[dict[str, Any]]) -> None:
    assert reports[0]["troubles"]["undefined"] == "no error, but (nan, ['UndefinedMetricWarning'])"


def test_the_errors_are_fleetmetrics_own(reports: list[dict[str, Any]]) -> None:
    names = {text.partition(":")[0] for text in reports[0]["troubles"].values() if not text.startswith("no error")}
    assert all(issubclass(getattr(fm, name), fm.FleetMetricsError) for name in names)
