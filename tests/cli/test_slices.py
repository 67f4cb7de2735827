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
from fleetmetrics.evaluation.arguments.named import kinds
from fleetmetrics.evaluation.question.evidence import evidence_of
from tests.contract import CASES, DTYPES, draw

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
    """Good scores of clicks, except on one site, where they are random; sites and slots of many sizes."""
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
    assert len(known) > 250
    assert np.mean(known <= 0.05) <= 0.05 + 3.2 * math.sqrt(0.05 * 0.95 / len(known))
    assert found.holds.mean() >= 0.93


@pytest.mark.parametrize("name", ["gauc/within", "gauc/across", "ndcg/within"])
@pytest.mark.thorough
def test_of_small_slices_by_user_or_query_no_more_than_promised_are_beyond_chance(script, name):
    name, _, users = name.partition("/")
    case = next(each for each in script.CASES if (each.name, each.users) == (name, users))
    found = script.simulated(case, 240, 40, 10, np.random.default_rng(2))
    known = found.p[~np.isnan(found.p)]
    assert len(known) > 200 and np.mean(known <= 0.05) <= 0.05 + 3.2 * math.sqrt(0.05 * 0.95 / len(known))


def test_a_slice_without_a_value_has_a_verdict_but_no_interval():
    random = np.random.default_rng(0)
    slot = np.repeat(["a", "b"], 500)
    label = np.where(slot == "a", random.integers(0, 2, 1000), 0)
    data = {"y": label, "p": random.random(1000), "slot": slot}
    result = fm.evaluate(data, label="y", score="p", by="slot", metrics="calibration", ci=0.95)
    (row,) = (row for row in result.slices["slot"] if row.key == "b")
    assert math.isnan(row.value) and math.isnan(row.low) and math.isnan(row.high)  # of an observed rate of 0
    assert row.p < 1e-9


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


def test_only_worse_slices_do_harm_and_better_ones_are_called_better(evaluate, table):
    for metric in ("auc", "log_loss", "f1:threshold=0.3"):
        found = evaluate(table, "--by", "slot", "--metrics", metric, "--json")
        first, *others = found["slices"]["slot"]
        assert (first["key"], first["verdict"]) == (2, "worse")
        assert first["harm"] == pytest.approx(first["share"] * abs(first["difference"]))
        better = [each for each in others if each["verdict"] == "better"]
        assert better and all(each["harm"] == 0 and each["within_chance"] is False for each in better)
        assert all(each["harm"] is None for each in others if each["verdict"] in ("within chance", "too few"))
    text = evaluate(table, "--by", "slot", "--metrics", "auc")
    assert "1 worse, " in text and " better, 1 too few to tell; significant: q of at most 0.05" in text
    assert "too few: needs 5 positives and 5 negatives" in text


def test_a_metric_without_a_good_direction_does_no_harm(evaluate, table):
    table["y"][table["slot"] == 1] = 1
    found = evaluate(table, "--by", "slot", "--metrics", "ctr,auc", "--json")
    first = found["slices"]["slot"][0]
    assert (first["key"], first["verdict"], first["harm"]) == (1, "different", None)
    found = evaluate(table, "--by", "slot", "--metrics", "count", "--json")
    assert {each["verdict"] for each in found["slices"]["slot"]} == {None}
    assert {each["harm"] for each in found["slices"]["slot"]} == {None}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_slices_across_queries_are_compared_with_each_other_in_every_number(evaluate, tmp_path, lang):
    """NDCG of a part of each query's rows is higher than that of all: the worse slice is above the whole."""
    random = np.random.default_rng(4)
    query, label, slot = np.repeat(np.arange(2000), 20), random.random(40_000) < 0.25, random.integers(0, 4, 40_000)
    score = np.where(slot == 2, random.normal(0.25, 1.1, 40_000), label + random.normal(0, 1, 40_000))
    table = {"y": label.astype(int), "p": score, "q": query, "slot": slot}
    args = ["--task", "ranking", "--query", "q", "--metrics", "ndcg@10", "--by", "slot"]
    found = evaluate(table, *args, "--json")
    first, *others = found["slices"]["slot"]
    together = found["references"]["slot"]
    assert (first["key"], first["verdict"], {each["verdict"] for each in others}) == (2, "worse", {"better"})
    assert found["ndcg@10"] < first["value"] < together < min(each["value"] for each in others)
    assert first["difference"] == pytest.approx(first["value"] - together)
    assert first["harm"] == pytest.approx(first["share"] * (together - first["value"]))
    text = evaluate(table, *args, "--html", str(tmp_path / "page.html"), "--lang", lang)
    said = f"slices share queries, and are compared with each other: ndcg@10 {together:.6g} of all slices together"
    assert said in text and "difference of slices from all slices together, less what chance adds: " in text
    page = (tmp_path / "page.html").read_text()
    assert ("（全部切片合起来）" if lang == "zh" else "of all slices together, 25") in page.partition("</header>")[0]
    assert ("各切片有共同的用户" if lang == "zh" else "Slices share users or queries") in page
    table["slot"] = slot[query]  # a query in one slice: then they are compared with the whole
    found = evaluate(table, *args, "--json")
    assert found["references"] == {}
    for each in found["slices"]["slot"]:
        assert each["difference"] == pytest.approx(each["value"] - found["ndcg@10"])


def test_positives_and_users_are_counted_beside_rows(evaluate, table):
    found = evaluate(table, "--by", "slot", "--user", "u", "--metrics", "auc,gauc", "--json")
    assert (found["data"]["positives"], found["data"]["users"]) == (table["y"].sum(), 500)
    for each in found["slices"]["slot"]:
        rows = table["slot"] == each["key"]
        assert each["positives"] == table["y"][rows].sum() and each["users"] == len({*table["u"][rows].tolist()})
    found = evaluate(table, "--task", "ranking", "--query", "u", "--metrics", "ndcg@10", "--json", "--weight", "w")
    assert found["data"]["queries"] == 500 and "positives" not in found["data"]


def test_conditions_can_name_the_harm_of_slices(evaluate, table):
    args = ["--by", "slot", "--metrics", "auc"]
    held = evaluate(table, *args, "--fail-if", "verdicts.worse>0", "--fail-if", "slices.slot.0.q<0.01", status=1)
    assert "verdicts.worse is 1" in held and "slices.slot.0.q is" in held
    args[-1] = "calibration"
    evaluate(table, *args, "--fail-if", "verdicts.worse>0", "--fail-if", "verdicts.least_q<0")


def test_a_metric_without_a_test_has_no_verdict_and_says_so(evaluate, table):
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
    of_catalogue = {getattr(fm, kind) for kind in kinds().values()}
    tried = set()
    for name, case in CASES.items():
        metric = case.make()
        evidence = evidence_of(metric, False, False, False) if type(metric) in of_catalogue else None
        if evidence is None or metric.quotient is None:
            continue
        inside = evidence.of_slice()
        dtypes = next(dtypes for dtypes in DTYPES if np.dtype(dtypes[0]).kind in case.kinds)
        for each in (metric, inside):
            each.add(**draw(name, dtypes).given())
        n, d, *_ = inside.compute()
        assert metric.quotient.value(n / d) == pytest.approx(metric.compute(), rel=1e-12), name
        tried.add(type(metric))
    assert len(tried) >= 30


def test_every_metric_says_which_values_are_better_or_that_none_are():
    without = {name for name, kind in kinds().items() if not getattr(fm, kind).better}
    several = {"brier_decomposition", "calibration_curve", "confusion_matrix", "cumulative_gain", "histogram", "lift"}
    several |= {"classification_report", "precision_recall_curve", "roc_curve", "stat_scores", "threshold_sweep"}
    several |= {"kuiper_calibration", "entity_report"}
    neither = {"calibration", "click_through_rate", "copc", "count", "max", "mean", "mean_bias", "min"}
    neither |= {"predicted_click_through_rate", "standard_deviation", "sum", "variance"}
    assert without == several | neither
    assert {getattr(fm, kind).better for kind in kinds().values()} == {"", "higher", "lower"}


# -- which slices there are -------------------------------------------------------------------------------


def many_ads(rows=200_000, ads=6000, seed=0):
    """One ad of many has scores that say nothing; its name is none of the smallest."""
    random = np.random.default_rng(seed)
    p = random.beta(1, 4, rows)
    ad = random.choice(ads, rows, p=(size := random.pareto(1.2, ads) + 0.2) / size.sum())
    ad[random.random(rows) < 0.01] = ads - 1
    bad = ad == ads - 1
    label = (random.random(rows) < np.where(bad, p.mean(), p)).astype(np.int8)
    return {"y": label, "p": p, "ad": np.array([f"ad-{each:05d}" for each in range(ads)])[ad]}


def test_the_largest_slices_are_kept_and_the_rest_is_reported(evaluate):
    table = many_ads()
    names, rows = np.unique(table["ad"], return_counts=True)
    found = evaluate(table, "--by", "ad", "--metrics", "auc", "--json", "--max-slices", "300")
    first = found["slices"]["ad"][0]
    assert (first["key"], first["verdict"], first["rows"]) == ("ad-05999", "worse", rows[-1])
    order = np.lexsort([names, -rows])[:300]
    kept = {each["key"]: each["rows"] for each in found["slices"]["ad"]}
    assert kept.pop("(other)") == 200_000 - rows[order].sum()
    assert kept == dict(zip(names[order].tolist(), rows[order].tolist()))
    assert found["others"] == {"ad": len(names) - 300} and not found["warnings"][3:]
    text = evaluate(table, "--by", "ad", "--metrics", "auc", "--max-slices", "300")
    rest = f"{200_000 - rows[order].sum():,}"
    assert f"(other) stands for {len(names) - 300:,} smaller slices with {rest} rows in all; see --max-slices" in text
    found = evaluate(table, "--by", "ad", "--metrics", "ctr", "--json", "--max-slices", "10000")
    assert len(found["slices"]["ad"]) == len(names) and found["others"] == {}


def test_a_frame_and_the_standard_input_keep_the_same_slices_as_files(evaluate, tmp_path, monkeypatch):
    table = many_ads(20_000, 500)
    want = evaluate(table, "--by", "ad", "--metrics", "auc,log_loss", "--json", "--max-slices", "40")
    settings = {"label": "y", "score": "p", "by": "ad", "metrics": "auc,log_loss", "max_slices": 40}
    frame = fm.evaluate(pa.table(table), **settings).to_dict()
    lines = ["p,y,ad", *(f"{p!r},{y},{ad}" for p, y, ad in zip(*(table[name].tolist() for name in ("p", "y", "ad"))))]
    (tmp_path / "lines.csv").write_text("\n".join(lines))
    with open(tmp_path / "lines.csv") as file:
        monkeypatch.setattr("sys.stdin", file)
        piped = fm.evaluate("-", **settings).to_dict()
    for found in (frame, piped):
        assert found["others"] == want["others"] == {"ad": len(np.unique(table["ad"])) - 40}
        for one, other in zip(found["slices"]["ad"], want["slices"]["ad"]):
            assert one.pop("metrics") == pytest.approx(other["metrics"], rel=1e-12, nan_ok=True)
            assert (one["key"], one["rows"], one["verdict"]) == (other["key"], other["rows"], other["verdict"])


def test_states_of_days_keep_the_slices_that_all_of_them_have_whole(evaluate, tmp_path, capsys):
    table, args = many_ads(20_000, 500), ["--by", "ad", "--metrics", "ctr", "--json", "--max-slices", "50"]
    for place in range(2):
        day = {name: column[place::2] for name, column in table.items()}
        evaluate(day, *args, "--save-state", str(tmp_path / f"{place}.fms"))
    assert main(["merge", str(tmp_path / "0.fms"), str(tmp_path / "1.fms"), "--json"]) == 0
    merged = json.loads(capsys.readouterr().out)
    names, rows = np.unique(table["ad"], return_counts=True)
    found = {each["key"]: each["rows"] for each in merged["slices"]["ad"]}
    rest = found.pop("(other)")
    assert 20 < len(found) <= 50 and merged["others"] == {"ad": None}
    assert found == {key: dict(zip(names.tolist(), rows.tolist()))[key] for key in found}
    assert rest == 20_000 - sum(found.values())


def test_rows_without_a_key_are_a_slice_and_change_nothing_else(evaluate, table, tmp_path):
    want = evaluate(table, "--metrics", "auc", "--json")
    slot = [None if each == 3 else f"slot {each}" for each in table["slot"].tolist()]
    for args in ([], ["--skip-bad-rows"]):
        found = evaluate({**table, "slot": slot}, "--by", "slot", "--metrics", "auc", "--json", *args)
        assert (found["auc"], found["rows"], found["data"]["skipped"]) == (want["auc"], want["rows"], 0)
        (null,) = [each for each in found["slices"]["slot"] if each["key"] is None]
        assert null["rows"] == found["data"]["nulls"]["slot"] == slot.count(None)
    page = tmp_path / "page.html"
    text = evaluate({**table, "slot": slot}, "--by", "slot", "--metrics", "auc", "--html", str(page))
    assert "\n(null) " in text and "<bdi>(null)</bdi>" in page.read_text() and "None" not in text


def test_columns_are_crossed_by_a_star(evaluate, table):
    table["day"] = np.where(np.arange(20_000) % 2, "mon", "tue")
    found = evaluate(table, "--by", "slot*day,day", "--metrics", "auc", "--json")
    assert set(found["slices"]) == {"slot*day", "day"} and {"slot", "day"} < set(found["data"]["nulls"])
    assert {each["key"] for each in found["slices"]["slot*day"][:2]} == {"2*mon", "2*tue"}
    assert len(found["slices"]["slot*day"]) == 12
    assert "write crossed columns as --by country*day" in evaluate(table, "--by", "slot*", status=2)
    starred = {**table, "slot*day": np.where(table["day"] == "mon", "one", "two")}
    found = evaluate(starred, "--by", '"slot*day","day"', "--metrics", "auc", "--json")
    assert set(found["slices"]) == {'"slot*day"', "day"}
    assert {each["key"] for each in found["slices"]['"slot*day"']} == {"one", "two"}


def test_a_condition_says_which_slices_count_neither_way(evaluate, table):
    asked = ("--by", "slot", "--metrics", "auc", "--min-positives", "1150")
    found = evaluate(table, *asked, "--json")["slices"]["slot"]
    few = [each for each in found if each["verdict"] == "too few"]
    said = evaluate(table, *asked, "--fail-if", "any slices.slot.auc<0")
    assert f"{len(few)} of {len(found)} slices are undefined or have too few to tell, and count neither way" in said


def test_slices_of_fewer_positives_than_asked_are_too_few(evaluate, table):
    found = evaluate(table, "--by", "slot", "--metrics", "auc", "--json", "--min-positives", "1150")
    few = [each for each in found["slices"]["slot"] if each["positives"] < 1150]
    assert 1 < len(few) < 6 and all(each["verdict"] == "too few" and each["q"] is None for each in few)
    assert {each["needs"]["positives"] for each in few} == {1150}
    many = [each for each in found["slices"]["slot"] if each["positives"] >= 1150]
    assert {each["verdict"] for each in many} <= {"worse", "better", "within chance"}
    told = evaluate(table, "--by", "slot", "--task", "regression", "--min-positives", "5", status=2)
    assert "--min-positives needs labels of 0 and 1" in told
    assert "--max-slices must be" in evaluate(table, "--by", "slot", "--max-slices", "0", status=2)


def test_metrics_that_were_asked_for_have_a_column_by_slice_or_are_named(evaluate, table):
    few = evaluate(table, "--by", "slot", "--metrics", "auc,log_loss,copc,ctr,mean_bias")
    many = evaluate(table, "--by", "slot", "--metrics", "auc,log_loss,brier_score,copc,ctr,mean_bias,mae")
    (heading,) = (line for line in few.splitlines() if line.startswith("slot "))
    assert heading.split()[-4:] == ["log_loss", "copc", "ctr", "mean_bias"]
    assert "copc, ctr, mean_bias, mae by slot: see --json" in many


def test_rank_by_chooses_the_metric_whose_slices_have_intervals_and_verdicts(evaluate, table):
    asked = ("--by", "slot", "--metrics", "auc,log_loss,confusion_matrix", "--json")
    first = evaluate(table, *asked)["slices"]["slot"][0]
    found = evaluate(table, *asked, "--rank-by", "log_loss", "--fail-if", "slices.slot[2].log_loss_interval.low>9")
    alone = evaluate(table, "--by", "slot", "--metrics", "log_loss", "--json")["slices"]["slot"]
    one = found["slices"]["slot"][0]
    assert (first["metric"], one["metric"], found["asked"]["rank_by"]) == ("auc", "log_loss", "log_loss")
    for name in ("key", "value", "low", "high", "q", "verdict", "harm"):
        assert [each[name] for each in found["slices"]["slot"]] == [each[name] for each in alone]
    said = evaluate(table, "--by", "slot", "--metrics", "auc,log_loss", "--rank-by", "log_loss")
    assert "intervals and verdicts are those of log_loss; see --rank-by" in said


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--by", "slot", "--rank-by", "ndcg"],
            "--rank-by must be one of the metrics, auc, confusion_matrix, not 'ndcg'",
        ),
        (["--by", "slot", "--rank-by", "confusion_matrix"], "--rank-by confusion_matrix is not a single number"),
        (["--rank-by", "auc"], "--rank-by ranks slices; give --by COLUMN too"),
        (["--by", "slot,slot"], "--by names 'slot' twice; name it once"),
    ],
)
def test_a_metric_that_cannot_rank_slices_is_status_2(evaluate, table, options, told):
    assert told in evaluate(table, "--metrics", "auc,confusion_matrix", *options, status=2)


def test_a_condition_on_the_interval_of_another_metric_says_which_option_gives_it(evaluate, table):
    condition = "slices.slot[2].log_loss_interval.low<0"
    told = evaluate(table, "--by", "slot", "--metrics", "auc,log_loss", "--fail-if", condition, status=2)
    assert "slices have intervals of one metric only, which --rank-by log_loss chooses" in told


def test_a_warning_names_crossed_slices_as_they_were_asked_for(evaluate, table):
    few = {name: column[:300] for name, column in table.items()}
    told = evaluate(few, "--by", "slot*u", "--metrics", "auc,gauc", "--user", "u")
    assert "slice_0" not in told and "gauc of slot*u '" in told


def test_where_the_first_metric_is_no_number_the_first_that_is_one_ranks_the_slices(evaluate, table):
    found = evaluate(table, "--by", "slot", "--metrics", "confusion_matrix,auc", "--json")
    assert found["asked"]["rank_by"] == "auc" and found["slices"]["slot"][0]["verdict"] == "worse"
