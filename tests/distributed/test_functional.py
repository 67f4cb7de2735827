"""The drop-in functions among real workers, where Paddle's own are wrong, local, or end the process."""

from __future__ import annotations

import functools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest

import fleetmetrics as fm
from tests.distributed.cluster import run
from tests.paddle_version import PIR

pytestmark = pytest.mark.distributed
WORKER = Path(__file__).parent / "workers" / "functional.py"
LAUNCHES = [("ps", 3), ("ps_gloo", 2), ("collective", 2), ("bare", 1)]
Reports = List[Dict[str, Any]]


@functools.lru_cache(maxsize=None)
def start(launch: str, workers: int) -> Reports | AssertionError:
    """Run a launch once for all tests that check it."""
    try:
        return run(WORKER, workers, launch, args={"launch": launch})
    except AssertionError as error:
        return error


def reports_of(launch: str, workers: int) -> Reports:
    reports = start(launch, workers)
    if isinstance(reports, AssertionError):
        raise reports
    return reports


@pytest.fixture(params=LAUNCHES, ids=lambda launch: f"{launch[0]}-{launch[1]}")
def reports(request: Any) -> Reports:
    return reports_of(*request.param)


def bits(value: Any) -> Any:
    """A report's part as text in which every bit counts."""
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, (list, tuple)):
        return [bits(item) for item in value]
    return {key: bits(item) for key, item in value.items()} if isinstance(value, dict) else repr(value)


def numbers_of_one_process(workers: int) -> dict[str, Any]:
    """What the worker's `numbers` must give."""
    ranks, last = range(workers), workers - 1
    signs = [-5 if rank == 0 else 3 for rank in ranks]
    histogram = sum(np.arange(4 * (rank + 1)).reshape(rank + 1, 4).sum(axis=0, keepdims=True) for rank in ranks)
    area = fm.formulas.auc_from_histogram(histogram, histogram[:, ::-1])
    mixed = 2**24 + 1 + 0.5 * last if last else 2**24 + 1
    return {
        "2**24 + 1 as a float": np.array([16777217.0 * workers]),
        "2**24 + 1 as an int": np.array(16777217 * workers),
        "2**53 + 1": np.array([2**53 + 1, -(2**53) - 1]) * workers,
        "mixed signs": [np.array([sum(signs)]), np.array([max(signs)]), np.array([min(signs)])],
        "an int on one rank, a float on the others": np.array(mixed),
        "tenths": np.array([math.fsum(0.1 * (rank + 1) for rank in ranks), 1e300 * (workers % 2)]),
        "not a number on the last rank": [np.array([math.nan])] * 2,
        "0-d": float(Fraction(sum(rank + 1 for rank in ranks), 4 * workers)),
        "a tensor": np.array([sum(ranks), (2**53 + 1) * workers]),
        "a tensor 0-d": 0.5 * workers / sum(rank + 1 for rank in ranks),
        "histograms": area,
        "histograms as tensors": area,
        "no samples on the last rank": 0.75 if last else math.nan,
        "no samples anywhere": ["nan", ["UndefinedMetricWarning"]],
        "no classes anywhere": ["0.5", ["UndefinedMetricWarning"]],
    }


def test_every_number_is_that_of_one_process_on_every_rank(reports: Reports) -> None:
    expected = bits(numbers_of_one_process(len(reports)))
    for report in reports:
        assert bits(report["numbers"]) == expected
        assert bits(report.get("numbers_by_util", report["numbers"])) == expected


def test_variables_and_names_of_a_static_program_give_the_global_number(reports: Reports) -> None:
    workers = len(reports)
    accuracy = sum(2 * (rank + 1) for rank in range(workers)) / (workers * 2**25)
    for report in reports:
        assert bits(report["variables"]) == bits([accuracy, np.array([workers * 2**25]), accuracy])
        assert report.get("variables_by_util", accuracy) == accuracy


def test_statistics_of_calls_in_a_different_order_meet_their_own(reports: Reports) -> None:
    assert [report["areas"] for report in reports] == [[1.0, 0.0]] * len(reports)


def test_an_error_is_the_same_on_every_rank(reports: Reports) -> None:
    for report in reports:
        assert report["errors"] == reports[0]["errors"]
        assert report.get("errors_by_util") == reports[0].get("errors_by_util")


DISAGREEMENTS = {
    "unequal lengths": ["sum, state 'input'", "[2]", "[3]"],
    "unequal shapes": ["max, state 'input'", "[2, 1]", "[1, 2]"],
    "unequal histograms": ["auc, state 'stat_pos'", "[8]", "[4]"],
    "another function": ["acc(", "mae("],
    "another variable": ["sum of total", "sum of correct"],
    "another order": ["sum(", "max("],
}
TROUBLES = {
    "missing name on the last rank": "StateNotFoundError: .*correct: no variable 'correct' in the scope",
    "no number on the last rank": "InvalidInputError: .*sqrerr is empty; it must hold one number",
    "no numbers on the last rank": "InvalidInputError: .*input must hold bools, integers or floats, not complex",
    "a negative count on the last rank": "InvalidInputError: .*stat_pos must hold counts of at least 0; entry 1 is -2",
    **({"unnamed on the last rank": "InvalidInputError: .*input is an intermediate value of a PIR"} if PIR else {}),
}


@pytest.mark.parametrize("launch, workers", [launch for launch in LAUNCHES if launch[1] > 1])
@pytest.mark.parametrize("by", ["errors", "errors_by_util"])
def test_the_error_of_workers_that_disagree_names_the_difference_and_the_ranks(
    launch: str, workers: int, by: str
) -> None:
    texts = reports_of(launch, workers)[0][by]
    ranks = ["rank 0" if workers == 2 else "ranks 0, 1", f"rank {workers - 1}"]
    for case in DISAGREEMENTS:
        assert texts[case].startswith("AgreementError: the workers disagree"), texts[case]
        assert all(part in texts[case] for part in [*DISAGREEMENTS[case], *ranks]), texts[case]


@pytest.mark.parametrize("launch, workers", [launch for launch in LAUNCHES if launch[1] > 1])
@pytest.mark.parametrize("by", ["errors", "errors_by_util"])
def test_the_trouble_of_one_worker_is_every_workers_error(launch: str, workers: int, by: str) -> None:
    texts = reports_of(launch, workers)[0][by]
    for case, told in TROUBLES.items():
        assert re.match(told, texts[case]), texts[case]
        assert f"rank {workers - 1}" in texts[case], texts[case]
    assert re.match(r"IntegerOverflowError: .*'input'.* does not fit into int64", texts["overflow"])
    told = f"but correct is {9 * (workers - 1)} and total {4 * workers}"
    assert texts["more right than there are, in all"].endswith(told)


# -- what Paddle does there: facts to learn --------------------------------------------------------------


def test_with_gloo_off_paddle_is_silently_local() -> None:
    for report in reports_of("ps", 3):
        assert report["facts"]["sum of ones"].tolist() == [1.0]


def test_in_collective_mode_paddle_is_silently_local() -> None:
    for report in reports_of("collective", 2):
        assert report["facts"]["sum of ones"].tolist() == [1.0]


def test_with_gloo_on_paddle_rounds_to_float32_and_mixes_up_signs() -> None:
    reports = reports_of("ps_gloo", 2)
    assert [report["facts"]["sum of ones"].tolist() for report in reports] == [[2.0], [2.0]]
    assert [report["facts"]["2**24 + 1"].tolist() for report in reports] == [[33554432.0]] * 2
    assert len({report["facts"]["mixed signs"] for report in reports}) == 2
