"""Slices, windows and intervals among real workers: what one process has, the same bits on every rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm.states import CHUNK_BYTES
from tests.contract import plain, same
from tests.cover import quick_on, thorough
from tests.distributed.cluster import run

pytestmark = [pytest.mark.distributed, quick_on(paddle=2)]
WORKER = Path(__file__).parent / "workers" / "wrappers.py"
SAMPLES = 600


def samples() -> dict[str, Any]:
    """All samples, in the order of their slots: workers that have a part each meet different ones."""
    rng = np.random.default_rng(21)
    slot = np.sort(rng.integers(0, 40, SAMPLES))
    score = rng.integers(0, 256, SAMPLES) / 256
    return {
        "prediction": score,
        "label": (rng.random(SAMPLES) < score).astype(int),
        "weight": rng.integers(1, 9, SAMPLES) / 8,
        "slot": slot,
        "country": np.array(["fr", "de", "it", "日本"])[(slot + rng.integers(0, 2, SAMPLES)) // 11 % 4],
        "request": rng.permutation(SAMPLES) + 10**12,
        "user": slot * 10 + rng.integers(0, 2, SAMPLES),
    }


def collection() -> fm.MetricCollection:
    """Metrics with and without slices, whose keys differ by worker."""
    return fm.MetricCollection(
        {
            "auc": fm.AUC(buckets=64),
            "by slot": fm.Sliced(fm.AUC(buckets=64), "slot"),
            "error by slot": fm.Sliced(fm.MeanSquaredError(), "slot"),
            "by few slots": fm.Sliced(fm.Accuracy(), "slot", max_keys=5),
            "by country": fm.Sliced(fm.Max(), "country"),
            "given slots": fm.Sliced(fm.Accuracy(), "slot", keys=[3, 17, 77]),
            "spread": fm.Sliced(fm.Variance(), "country"),
            "recent": fm.Windowed(fm.MeanSquaredError(), 1000),
            "sure": fm.Bootstrap(fm.Accuracy(), 60, ids="request"),
            "sure by country": fm.Sliced(fm.Bootstrap(fm.Accuracy(), 20, ids="request"), "country"),
        },
        name="all",
    )


def by_user() -> fm.MetricCollection:
    """Metrics whose intervals come from drawing users."""
    return fm.MetricCollection(
        {
            "gauc": fm.Bootstrap(fm.GAUC(), 60),
            "by country": fm.Sliced(fm.Bootstrap(fm.NDCG(k=3, by="user"), 20), "country"),
        },
        name="users",
    )


def fed(metric: Any, share: dict[str, Any], size: int = 37) -> Any:
    for start in range(0, len(share["label"]), size):
        metric.add(**{name: column[start : start + size] for name, column in share.items()})
    return metric


@pytest.fixture(scope="module", params=[3, *thorough(1, 2)])
def reports(request: Any) -> list[dict[str, Any]]:
    return run(WORKER, request.param)


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    data = {name: column for name, column in samples().items() if name != "user"}
    with pytest.warns(UserWarning, match="more than 5 keys|slot 77 is undefined") as told:
        value = fed(collection(), data).compute()
    assert len([each for each in told if each.category is not fm.BucketWarning]) == 2
    return value


def test_every_worker_reports_the_same_bits(reports: list[dict[str, Any]]) -> None:
    assert [report["rank"] for report in reports] == list(range(len(reports)))
    for part in ("values", "records", "by user", "by user, closed", "without ids", "troubles", "warnings"):
        assert all(repr(report[part]) == repr(reports[0][part]) for report in reports), part


def test_every_value_is_that_of_one_process(reports: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    for values in reports[0]["values"].values():
        assert list(values) == list(alone)
        for name, value in values.items():
            assert same(value, plain(alone[name]), False, 1e-11), (name, value, alone[name])


def test_all_of_them_are_one_exchange(reports: list[dict[str, Any]]) -> None:
    assert all(report["exchanges"] == 1 for report in reports)


def test_rank_0_holds_a_chunk_of_each_worker_and_not_all_slices_of_all(reports: list[dict[str, Any]]) -> None:
    assert all(report["memory"]["slots"] == 12 * len(reports) for report in reports)
    peaks = [report["memory"]["peak"] for report in reports]
    assert peaks[0] < min(peaks) + 6 * len(reports) * CHUNK_BYTES
    assert reports[0]["memory"]["held"] / 10 > CHUNK_BYTES


def test_the_interval_has_the_same_bits_on_any_number_of_workers(
    reports: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    assert repr(reports[0]["values"]["weighted"]["sure"]) == repr(plain(alone["sure"]))


def test_every_worker_is_warned(reports: list[dict[str, Any]]) -> None:
    beyond = int((samples()["slot"] >= 5).sum())
    told = f"slot has more than 5 keys; the 5 smallest are kept, and {beyond} of {SAMPLES} samples"
    for report in reports:
        beyond_limit, no_samples = report["warnings"]
        assert told in beyond_limit and no_samples.startswith("accuracy of slot 77 is undefined")


def test_records_are_folded_by_slice(reports: list[dict[str, Any]]) -> None:
    data = samples()
    metric = fed(fm.Sliced(fm.GAUC(), "country"), {n: data[n] for n in ("prediction", "label", "country", "user")})
    assert same(reports[0]["records"], plain(metric.compute()), False)


@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
def test_intervals_by_user_have_the_same_bits_on_any_number_of_workers(reports: list[dict[str, Any]]) -> None:
    data = samples()
    wanted = fed(by_user(), {name: data[name] for name in ("prediction", "label", "country", "user")}).compute()
    for how in ("by user", "by user, closed"):
        assert repr(reports[0][how]) == repr(plain(wanted))


def test_without_ids_the_interval_is_that_of_one_process(reports: list[dict[str, Any]]) -> None:
    data = samples()
    metric = fed(fm.Bootstrap(fm.AUC(buckets=64), 200), {name: data[name] for name in ("prediction", "label")})
    assert repr(reports[0]["without ids"]) == repr(plain(metric.compute()))


TROUBLES = {
    "kinds of keys": "AgreementError: Sliced it, it.keys: the workers' keys differ: integers on rank",
    "number of keys": "AgreementError: the workers disagree at exchange",
    "given or not": "AgreementError: the workers disagree at exchange",
    "one cannot read": "CommunicatorError: on rank ",
}


@pytest.mark.parametrize("case", TROUBLES)
def test_trouble_of_one_worker_is_an_error_on_all(reports: list[dict[str, Any]], case: str) -> None:
    text = reports[0]["troubles"][case]
    if len(reports) > 1:
        assert text.startswith(TROUBLES[case]), text
    assert all(report["after"] == len(reports) for report in reports)
