"""Scalars with stable names, of everything that metrics compute."""

from __future__ import annotations

import re
import warnings
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.formulas.aggregation import HistogramCounts
from fleetmetrics.formulas.calibration import CalibrationPoints
from tests.contract import CASES, batches, draw, feed, first_dtypes

pytestmark = pytest.mark.numpy_only

#: What VisualDL, TensorBoard and MLflow all take.
ALLOWED = re.compile(r"[-\w.]+(/[-\w.]+)*")
SCORES = [0.1, 0.3, 0.35, 0.6, 0.7, 0.9]
LABELS = [0, 0, 1, 0, 1, 1]


def value_of(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = CASES[name].make()
        feed(metric, batches(draw(name, first_dtypes(name))), "numpy")
        return metric.compute()


@pytest.mark.parametrize("name", CASES)
def test_every_value_of_the_catalogue_becomes_floats_whose_names_all_dashboards_take(name: str) -> None:
    found = fm.flatten({"it": value_of(name)}, most=10**6)
    assert found and all(type(value) is float for value in found.values())
    assert all(ALLOWED.fullmatch(each) and each.split("/")[0] == "it" for each in found)
    assert all(part.strip(".") for each in found for part in each.split("/"))


def test_the_path_to_a_value_is_its_name() -> None:
    assert list(fm.flatten({"auc": {"fr": 0.5, 7: 0.25}}, "eval")) == ["eval/auc/fr", "eval/auc/7"]
    sliced = fm.Windowed(fm.Sliced(fm.AUC(bounds=True), by="country", keys=["fr", "de"]), last=2)
    sliced.add(SCORES, LABELS, country=["fr", "de"] * 3)
    bounds = [f"{key}/{bound}" for key in ("de", "fr") for bound in ("value", "low", "high")]
    assert list(fm.flatten({"auc": sliced.compute()})) == [
        f"auc/{which}/{rest}" for which in ("window", "lifetime") for rest in bounds
    ]
    assert fm.flatten([0.5, 0.25], "f1") == {"f1/0": 0.5, "f1/1": 0.25}
    assert fm.flatten(np.eye(2), "m") == {"m/0/0": 1.0, "m/0/1": 0.0, "m/1/0": 0.0, "m/1/1": 1.0}
    assert fm.flatten(0.5) == {"value": 0.5} and fm.flatten(True, "fine") == {"fine": 1.0}


def test_an_interval_gives_no_replicates_and_no_settings() -> None:
    metric = fm.Bootstrap(fm.CumulativeGain(fractions=[0.5, 1.0]), replicates=20)
    metric.add(SCORES, LABELS)
    found = fm.flatten({"gain": metric.compute()})
    assert list(found) == [f"gain/{part}/{x}" for part in ("value", "mean", "std", "low", "high") for x in (0.5, 1.0)]
    assert found["gain/value/1.0"] == 1.0


def test_a_curve_becomes_its_summary() -> None:
    curves = {"roc": fm.ROCCurve(), "pr": fm.PrecisionRecallCurve(), "lift": fm.Lift(fractions=[0.5])}
    areas = {"auc": fm.AUC(), "ap": fm.AveragePrecision()}
    metrics = fm.MetricCollection({**curves, **areas, "sweep": fm.ThresholdSweep(thresholds=[0.25, 0.5])})
    metrics.add(SCORES, LABELS)
    found = fm.flatten(metrics.compute())
    assert found["roc/area"] == pytest.approx(found["auc"], abs=1e-12)
    assert found["pr/area"] == pytest.approx(found["ap"], abs=1e-12)
    assert found["lift/0.5"] == pytest.approx(4 / 3)
    assert found["sweep/recall/0.25"] == 1.0 and "sweep/best_threshold" in found and "sweep/thresholds" not in found
    points = CalibrationPoints(*map(np.array, ([0.1, 0.9], [0.2, 0.5], [3, 1], [0.0, 0.5], [0.5, 1.0])))
    assert fm.flatten(points, "curve") == {"curve/error": pytest.approx((3 * 0.1 + 0.4) / 4)}
    counts = HistogramCounts(np.array([3, 4]), np.array([0.0, 0.5, 1.0]), 1.0, 2.0)
    assert fm.flatten(counts, "scores") == {"scores/below": 1.0, "scores/above": 2.0}


def test_names_do_not_depend_on_what_else_is_there() -> None:
    keys = ["New York", "<30", ">30", "50%", "日本", "a/b", "", ".."]
    alone = [next(iter(fm.flatten({"auc": {key: 0.5}}))) for key in keys]
    assert list(fm.flatten({"auc": dict.fromkeys(keys, 0.5)})) == alone
    assert alone[0] == "auc/New_York" and alone[4:6] == ["auc/日本", "auc/a/b"]
    assert len(set(alone)) == len(keys) and all(ALLOWED.fullmatch(each) for each in alone)
    assert re.fullmatch("auc/_30_[0-9a-f]{4}", alone[1])
    assert fm.flatten(0.5, "50 %") == {fm.flatten({"50 %": 0.5}).popitem()[0]: 0.5}


def test_equal_names_and_values_without_a_number_are_errors_that_name_them() -> None:
    with pytest.raises(fm.InvalidInputError, match="two scalars of the name 'auc/a_b'"):
        fm.flatten({"auc": {"a b": 0.5, "a_b": 0.5}})
    with pytest.raises(fm.InvalidInputError, match=r"values holds <object .*> under 'it'"):
        fm.flatten({"it": object()})
    with pytest.raises(fm.InvalidInputError, match="most"):
        fm.flatten({}, most=0)


def test_texts_and_none_give_nothing_and_large_arrays_a_warning() -> None:
    assert fm.flatten({"path": "run.json", "none": None, "names": ["a", "b"], "empty": []}) == {}
    with pytest.warns(UserWarning, match="f1 has 101 numbers, more than most=100"):
        assert fm.flatten({"f1": np.zeros(101), "auc": 0.5}) == {"auc": 0.5}
    assert len(fm.flatten(np.zeros(101), most=101)) == 101


def test_other_named_tuples_and_ragged_lists_are_walked() -> None:
    Pair = namedtuple("Pair", "one two")
    assert fm.flatten(Pair(1, Pair(2, np.float32(0.5)))) == {"one": 1.0, "two/one": 2.0, "two/two": 0.5}
    assert fm.flatten({"a": [[1], [2, 3]]}) == {"a/0/0": 1.0, "a/1/0": 2.0, "a/1/1": 3.0}
