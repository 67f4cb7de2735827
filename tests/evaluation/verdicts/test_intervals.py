"""Intervals of values over all rows and of their deltas: by a formula, or by draws; and when there is too little."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.formulas.spreads import LEAST

pytestmark = [pytest.mark.numpy_only, pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning")]

ROWS, USERS = 3000, 400
ASKED: dict[str, Any] = {"label": "y", "score": "p", "ci": 0.95}


def drawn(rows: int = ROWS, users: int = USERS, rate: float = 0.3) -> dict[str, np.ndarray]:
    """Rows of users of one size, of which each is a little like the others of its user."""
    rng = np.random.default_rng(rows)
    user = np.arange(rows) % users
    logit = rng.normal(math.log(rate / (1 - rate)), 1.2, rows)
    label = rng.random(rows) < 1 / (1 + np.exp(-logit - rng.normal(0, 0.7, users)[user]))
    p = 1 / (1 + np.exp(-logit))
    old = 1 / (1 + np.exp(-logit - rng.normal(0, 0.8, rows)))
    return {"y": label.astype(np.int64), "p": p, "old": old, "uid": user, "id": np.arange(rows)}


DATA = drawn()


def width(interval: Any) -> float:
    """How wide it is."""
    return float(interval.high - interval.low)


# -- scores that lie close together --------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{"user": "uid"}, {"join_on": "id", "baseline_score": "old"}])
def test_the_interval_of_an_area_is_as_wide_for_scores_that_lie_close_together(more: dict[str, Any]) -> None:
    close = {**DATA, "p": 0.4 + 0.01 * DATA["p"], "old": 0.4 + 0.01 * DATA["old"]}
    one, other = (fm.evaluate(each, metrics="auc", **ASKED, **more) for each in (DATA, close))
    assert width(other.intervals["auc"]) == pytest.approx(width(one.intervals["auc"]), rel=0.1)
    for key, delta in one.deltas.items():  # ties make the sides less alike
        assert 0.9 < width(other.deltas[key].interval) / width(delta.interval) < 1.4


def test_an_area_that_few_buckets_give_otherwise_has_no_interval_and_says_why() -> None:
    close = {**DATA, "p": 0.4 + 0.008 * DATA["p"], "old": 0.4 + 0.008 * DATA["old"]}
    name = "auc:max_fpr=0.1"
    asked = {**ASKED, "user": "uid", "metrics": name, "baseline_score": "old"}
    found = fm.evaluate(close, **asked)
    assert name not in found.intervals and math.isnan(found.deltas[name].interval.low)
    assert any(f"{name} has no interval" in each and "close together" in each for each in found.warnings)
    wide = fm.evaluate(DATA, **asked)
    assert width(wide.intervals[name]) > 0 and not any("no interval" in each for each in wide.warnings)


@pytest.mark.parametrize("more", [{}, {"user": "uid"}, {"weight": "w"}])
def test_the_interval_of_average_precision_is_that_of_resampling(more: dict[str, Any]) -> None:
    data = {**DATA, "w": np.random.default_rng(0).integers(1, 4, ROWS)}
    asked = {**ASKED, "metrics": "average_precision", **more}
    found = fm.evaluate(data, **asked).intervals["average_precision"]
    metric = fm.Bootstrap(fm.AveragePrecision(), 400, ids="user")
    weight = {"weight": data["w"]} if "weight" in more else {}
    metric.add(data["p"], data["y"], user=data["uid"] if "user" in more else np.arange(ROWS), **weight)
    wanted = metric.compute()
    assert width(found) == pytest.approx(wanted.high - wanted.low, rel=0.15)
    assert found.low < wanted.value < found.high


# -- too few ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "more", "metric", "unit"),
    [
        (100, {}, "auc", "positives"),
        (40, {}, "accuracy", "rows"),
        (300, {"user": "uid"}, "log_loss", "users"),
        (300, {"user": "uid"}, "gauc", "users"),
        (100, {}, "average_precision", "positives"),
        (300, {"user": "uid"}, "matthews_correlation", "rows"),  # draws do not tell the number of users
        (40, {}, "matthews_correlation", "rows"),
    ],
)
def test_too_few_rows_or_users_have_no_interval_and_say_how_many_would_do(
    rows: int, more: dict[str, Any], metric: str, unit: str
) -> None:
    data = drawn(rows, users=20)
    found = fm.evaluate(data, metrics=metric, baseline_score="old", **ASKED, **more)
    interval, delta = found.intervals[metric], found.deltas[metric].interval
    for each in (interval, delta):
        assert math.isnan(each.low) and math.isnan(each.high) and each.needs[unit] >= LEAST
    entry = found.to_dict()[f"{metric}_interval"]
    assert {**entry, "because": {}} == {"low": None, "high": None, "needs": dict(interval.needs), "because": {}}
    said = f"too few: needs {interval.needs[unit]:,} {unit}"
    assert said in str(found)


def test_enough_rows_need_nothing() -> None:
    found = fm.evaluate(DATA, metrics="auc,average_precision", user="uid", **ASKED)
    for each in found.intervals.values():
        assert not each.needs and each.low < each.high
    assert list(found.to_dict()["auc_interval"]) == ["low", "high"]


def test_one_user_with_most_rows_is_few_users() -> None:
    user = np.where(np.arange(ROWS) < 2000, 0, DATA["uid"])
    found = fm.evaluate({**DATA, "uid": user}, metrics="matthews_correlation,click_through_rate", user="uid", **ASKED)
    assert all("users" in each.needs for each in found.intervals.values())


def test_a_condition_on_an_interval_that_is_not_there_says_what_it_needs(tmp_path: Any, capsys: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "few.parquet"
    pyarrow.parquet.write_table(pa.table(drawn(100)), path)
    asked = [str(path), "--label", "y", "--score", "p", "--ci", "0.95", "--metrics", "auc"]
    assert main(["evaluate", *asked, "--fail-if", "auc_interval.low<0.7"]) == 1
    needs = fm.evaluate(drawn(100), metrics="auc", **ASKED).intervals["auc"].needs
    told = f"auc_interval.low is undefined: too few to tell, needs {needs['positives']:,} positives"
    assert told in capsys.readouterr().err
    assert main(["evaluate", *asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["auc_interval"]["needs"] == dict(needs)


# -- metrics of which few samples make too much ----------------------------------------------------------------------


def test_metrics_that_few_rows_make_too_large_have_no_interval() -> None:
    names = "kolmogorov_smirnov,expected_calibration_error,bucket_error,log_loss"
    found = fm.evaluate(DATA, metrics=names, baseline_score="old", **ASKED)
    assert list(found.intervals) == ["log_loss"]
    assert [key for key, each in found.deltas.items() if each.known_interval] == ["log_loss"]
    assert repr(found.deltas["log_loss"]).partition(", ")[2].startswith("interval=Interval(low=")
    numbers = fm.evaluate(DATA, task="regression", metrics="max_error,mean_absolute_error", **ASKED)
    assert list(numbers.intervals) == ["mean_absolute_error"]


# -- deltas ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["auc", "log_loss"])
def test_the_delta_of_the_same_rows_is_paired_and_that_of_other_rows_is_not(metric: str) -> None:
    asked = {"metrics": metric, **ASKED}
    paired = fm.evaluate(DATA, baseline_score="old", **asked).deltas[metric]
    joined = fm.evaluate(DATA, baseline={**DATA, "p": DATA["old"]}, join_on="id", **asked).deltas[metric]
    apart = fm.evaluate(DATA, baseline={**DATA, "p": DATA["old"]}, **asked)
    assert paired.value == pytest.approx(apart.deltas[metric].value)
    assert width(joined.interval) == pytest.approx(width(paired.interval), rel=0.15)  # other groups of rows
    assert width(apart.deltas[metric].interval) > 1.5 * width(paired.interval)
    sides = [fm.Interval({"auc": fm.AUC, "log_loss": fm.LogLoss}[metric]()) for _ in range(2)]
    for side, score in zip(sides, ("p", "old")):
        side.add(DATA[score], DATA["y"])
    wanted = fm.unpaired_difference(*(side.compute() for side in sides))
    assert width(apart.deltas[metric].interval) == pytest.approx(wanted.high - wanted.low, rel=2e-3)
