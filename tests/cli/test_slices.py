"""Verdicts on slices: what is bad is found, what chance has made is not called so, and what is too little says so."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.evaluation.evidence import evidence_of
from fleetmetrics.evaluation.named import kinds

pytestmark = [pytest.mark.numpy_only, pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning")]
pa = pytest.importorskip("pyarrow")
SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "scripts" / "slices.py"


@pytest.fixture(scope="module")
def script():
    """The script that prints the table of the page."""
    return SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.fixture
def evaluate(tmp_path, capsys):
    def call(table, *args, status=0):
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.table(table), tmp_path / "data.parquet")
        got = main(["evaluate", str(tmp_path / "data.parquet"), "--label", "y", "--score", "p", *args])
        out, err = capsys.readouterr()
        assert got == status, err
        return json.loads(out) if "--json" in args else out + err

    return call


def criteo_like(rows, rate, planted, seed=0):
    """Scores of clicks that are good, but for those of one site that say nothing; sites and slots are of many sizes."""
    random = np.random.default_rng(seed)
    logit = random.normal(math.log(rate) - 0.8, 1.3, rows)
    p = 1 / (1 + np.exp(-logit))
    site = np.minimum(random.geometric(0.08, rows), 60)
    slot = random.integers(0, 50, rows)
    bad = site == planted
    shown = np.where(bad, random.permutation(p), p)
    label = (random.random(rows) < p).astype(np.int8)
    return {"y": label, "p": shown, "site": np.array([f"s{each:02d}" for each in range(61)])[site], "slot": slot}


@pytest.mark.parametrize(("rows", "rate", "planted"), [(300_000, 0.03, 9), (1_500_000, 0.0002, 2)])
def test_a_planted_bad_slice_is_the_first_line_and_no_other_is_called(evaluate, rows, rate, planted):
    found = evaluate(criteo_like(rows, rate, planted), "--by", "slot,site", "--metrics", "auc", "--json")
    assert list(found["slices"]) == ["site", "slot"]  # the column that explains more comes first
    first, *others = found["slices"]["site"]
    assert (first["key"], first["verdict"]) == (f"s{planted:02d}", "worse") and first["q"] < 0.01 and first["harm"] > 0
    assert {each["verdict"] for each in [*others, *found["slices"]["slot"]]} <= {"within chance", "too few"}
    assert found["explained"]["site"] > found["explained"]["slot"]
    assert (found["verdicts"]["worse"], found["verdicts"]["least_q"]) == (1, first["q"])
    for each in others:
        assert each["low"] is None or 0 <= each["low"] <= each["value"] <= each["high"] <= 1
        assert (each["verdict"] == "too few") == (each["positives"] < 5) == bool(each["needs"])


@pytest.mark.parametrize(
    "name", ["auc", "calibration", "log_loss", "f1", "auc/within", "log_loss/within", "log_loss/across"]
)
def test_of_slices_at_random_no_more_than_promised_are_beyond_chance(script, name):
    name, _, users = name.partition("/")
    case = next(each for each in script.CASES if (each.name, each.users, each.rate) == (name, users, 0.3))
    found = script.simulated(case, 60, 100, 8, np.random.default_rng(1))
    known = found.p[~np.isnan(found.p)]
    assert len(known) > 300
    assert np.mean(known <= 0.05) <= 0.05 + 3.2 * math.sqrt(0.05 * 0.95 / len(known))
    assert found.holds.mean() >= 0.93


@pytest.mark.parametrize("name", ["gauc/within", "gauc/across", "ndcg/within"])
def test_of_small_slices_by_user_or_query_no_more_than_promised_are_beyond_chance(script, name):
    name, _, users = name.partition("/")
    case = next(each for each in script.CASES if (each.name, each.users) == (name, users))
    found = script.simulated(case, 240, 40, 10, np.random.default_rng(2))
    known = found.p[~np.isnan(found.p)]
    assert len(known) > 200 and np.mean(known <= 0.05) <= 0.05 + 3.2 * math.sqrt(0.05 * 0.95 / len(known))


@pytest.mark.parametrize("kind", [fm.AUC, fm.LogLoss, fm.ClickThroughRate])
def test_four_equal_rows_of_a_user_say_no_more_than_one(kind):
    random = np.random.default_rng(0)
    p, slot, user = random.beta(1, 3, 5000), random.integers(0, 10, 5000), np.arange(5000)
    label = (random.random(5000) < p).astype(int)
    errors = []
    for times, by_user in ((1, False), (4, True)):
        evidence = evidence_of(kind(), False, by_user, False)
        inside, whole = fm.Sliced(evidence.of_slice(), "slot"), evidence.of_whole()
        for metric in (each for each in (inside, whole) if each is not None):
            columns = {name: {"slot": slot, "user": user}[name].repeat(times) for name in metric.columns}
            metric.add(p.repeat(times), label.repeat(times), **columns)
        found = evidence.tested(list(inside.compute().values()), whole and whole.compute(), 0.95)
        errors.append(found.tests.error)
    assert errors[1].mean() == pytest.approx(errors[0].mean(), rel=0.15)


@pytest.fixture
def table():
    random = np.random.default_rng(3)
    p, slot = random.beta(2, 5, 20_000), random.integers(0, 5, 20_000)
    bad = np.where(slot == 2, random.permutation(p), p)
    slot[:3] = 9
    user = random.integers(0, 500, 20_000)
    return {"y": (random.random(20_000) < bad).astype(int), "p": p, "slot": slot, "u": user, "w": random.random(20_000)}


def test_harm_is_done_by_what_is_worse_and_better_is_said_to_be_better(evaluate, table):
    for metric in ("auc", "log_loss", "f1:threshold=0.3"):
        found = evaluate(table, "--by", "slot", "--metrics", metric, "--json")
        first, *others = found["slices"]["slot"]
        assert (first["key"], first["verdict"]) == (2, "worse")
        assert first["harm"] == pytest.approx(first["share"] * abs(first["difference"]))
        better = [each for each in others if each["verdict"] == "better"]
        assert better and all(each["harm"] == 0 and each["within_chance"] is False for each in better)
        assert all(each["harm"] is None for each in others if each["verdict"] in ("within chance", "too few"))
    text = evaluate(table, "--by", "slot", "--metrics", "auc")
    assert "1 worse, " in text and " better, 1 too few to tell; beyond chance: q of at most 0.05" in text
    assert "too few: needs 5 positives and 5 negatives" in text


def test_a_metric_without_a_good_direction_does_no_harm(evaluate, table):
    table["y"][table["slot"] == 1] = 1
    found = evaluate(table, "--by", "slot", "--metrics", "ctr,auc", "--json")
    first = found["slices"]["slot"][0]
    assert (first["key"], first["verdict"], first["harm"]) == (1, "different", None)
    found = evaluate(table, "--by", "slot", "--metrics", "count", "--json")
    assert {each["verdict"] for each in found["slices"]["slot"]} == {None}
    assert {each["harm"] for each in found["slices"]["slot"]} == {None}


def test_positives_and_users_are_counted_beside_rows(evaluate, table):
    found = evaluate(table, "--by", "slot", "--user", "u", "--metrics", "auc,gauc", "--json")
    assert (found["data"]["positives"], found["data"]["users"]) == (table["y"].sum(), 500)
    for each in found["slices"]["slot"]:
        rows = table["slot"] == each["key"]
        assert each["positives"] == table["y"][rows].sum() and each["users"] == len({*table["u"][rows].tolist()})
    found = evaluate(table, "--task", "ranking", "--query", "u", "--metrics", "ndcg@10", "--json", "--weight", "w")
    assert found["data"]["queries"] == 500 and "positives" not in found["data"]


def test_conditions_may_name_what_slices_are_worth(evaluate, table):
    args = ["--by", "slot", "--metrics", "auc"]
    held = evaluate(table, *args, "--fail-if", "verdicts.worse>0", "--fail-if", "slices.slot.0.q<0.01", status=1)
    assert "verdicts.worse is 1" in held and "slices.slot.0.q is" in held
    args[-1] = "calibration"
    evaluate(table, *args, "--fail-if", "verdicts.worse>0", "--fail-if", "verdicts.least_q<0")


def test_what_has_no_test_has_no_verdict_and_says_so(evaluate, table):
    for args in (["ap"], ["auc", "--weight", "w"], ["matthews_correlation"], ["exact_auc"]):
        text = evaluate(table, "--by", "slot", "--metrics", *args)
        assert "no verdicts: there is no test for" in text and "1 worse" not in text
    found = evaluate(table, "--by", "slot", "--metrics", "log_loss", "--weight", "w", "--json")
    assert found["slices"]["slot"][0]["verdict"] == "worse"


def test_a_saved_state_gives_the_same_verdicts(evaluate, table, tmp_path, capsys):
    state = str(tmp_path / "day.fms")
    for args in (["auc"], ["log_loss", "--user", "u"], ["auc", "--user", "u"], ["gauc", "--user", "u"]):
        found = evaluate(table, "--by", "slot", "--metrics", *args, "--json", "--save-state", state)
        assert main(["merge", state, "--json"]) == 0
        merged = json.loads(capsys.readouterr().out)
        assert merged["slices"] == found["slices"] and merged["verdicts"] == found["verdicts"]


def test_the_value_of_a_metric_is_that_of_the_quotient_that_it_names():
    random = np.random.default_rng(0)
    p, user = random.random(400), random.integers(0, 20, 400)
    label = (random.random(400) < p).astype(int)
    tried = []
    for name, kind in kinds().items():
        parameters = getattr(fm, kind).__signature__.parameters.values()
        if any(each.default is each.empty for each in parameters) or name == "exact_match":
            continue
        metric = getattr(fm, kind)(**{each.name: "user" for each in parameters if each.name == "by"})
        evidence = evidence_of(metric, False, False, False)
        if metric.quotient is None or evidence is None:
            continue
        inside = evidence.of_slice()
        for each in (metric, inside):
            each.add(p, label, **{column: user for column in each.columns})
        n, d, *_ = inside.compute()
        assert metric.quotient.value(n / d) == pytest.approx(metric.compute(), rel=1e-12), name
        tried.append(name)
    assert len(tried) >= 30


def test_every_metric_says_which_values_are_better_or_that_none_are():
    without = {name for name, kind in kinds().items() if not getattr(fm, kind).better}
    several = {"brier_decomposition", "calibration_curve", "confusion_matrix", "cumulative_gain", "histogram", "lift"}
    several |= {"precision_recall_curve", "roc_curve", "stat_scores", "threshold_sweep"}
    neither = {"calibration", "click_through_rate", "copc", "count", "max", "mean", "mean_bias", "min"}
    neither |= {"predicted_click_through_rate", "standard_deviation", "sum", "variance"}
    assert without == several | neither
    assert {getattr(fm, kind).better for kind in kinds().values()} == {"", "higher", "lower"}
