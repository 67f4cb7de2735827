"""New against a baseline, slice by slice: verdicts, where the delta comes from, and conditions on slices."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.evaluation import compare
from fleetmetrics.evaluation.question.probe import Slices
from fleetmetrics.evaluation.question.versus import Part, Weighing, compared_metric, difference_of
from fleetmetrics.evaluation.verdicts.slices import Whole, deltas
from fleetmetrics.formulas.spreads import EVENTS, LEAST, Spread, Supply, alike, of_samples

pytestmark = [
    pytest.mark.numpy_only,
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning"),
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.BucketWarning"),
]
pa = pytest.importorskip("pyarrow")

ROWS = 12_000


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def drawn(seed=2):
    """Of the new scores those of "video" are noise; of the slice "few" there are 30 rows."""
    random = np.random.default_rng(seed)
    logit = random.normal(-1, 1.3, ROWS)
    slot = random.choice(["feed", "search", "video"], ROWS, p=[0.5, 0.3, 0.2])
    slot[:30] = "few"
    return {
        "y": (random.random(ROWS) < sigmoid(logit)).astype(np.int64),
        "p": sigmoid(np.where(slot == "video", random.normal(-1, 1.3, ROWS), logit + random.normal(0, 0.4, ROWS))),
        "old": sigmoid(logit + random.normal(0, 0.4, ROWS)),
        "slot": slot,
        "uid": random.integers(0, 1500, ROWS),
        "id": random.permutation(ROWS),
        "w": random.uniform(0.5, 2, ROWS),
    }


DATA = drawn()
OLD = {**DATA, "p": DATA["old"]}
ASKED = {"label": "y", "score": "p", "by": "slot"}


def of(result, column="slot"):
    return {each.key: each for each in result.versus[column].slices}


# -- deltas by slice -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metric, more",
    [
        ("auc", {"join_on": "id"}),
        ("auc", {"user": "uid"}),
        ("auc", {}),
        ("auc", {"weight": "w"}),
        ("log_loss", {"join_on": "id"}),
        ("log_loss", {}),
        ("normalized_entropy", {"user": "uid"}),
        ("gauc", {"user": "uid"}),
    ],
)
def test_the_slice_that_was_spoilt_is_the_first_and_the_only_worse_one(metric, more):
    result = fm.evaluate(DATA, baseline=OLD, metrics=metric, **ASKED, **more)
    column, slices = result.versus["slot"], of(result)
    assert column.slices[0].key == "video" and slices["video"].verdict == "worse"
    assert slices["video"].q < 1e-6 and all(each.q > 1e-3 for key, each in slices.items() if key in ("feed", "search"))
    assert slices["few"].verdict == "too few" and slices["few"].needs and math.isnan(slices["few"].q)
    assert slices["video"].low < slices["video"].delta < slices["video"].high
    assert slices["video"].delta == slices["video"].value - slices["video"].baseline
    parts = [column.mix, column.within, column.remainder]
    assert math.fsum(parts) == pytest.approx(column.delta, rel=1e-9)
    assert math.fsum(each.added for each in column.slices) + column.remainder == pytest.approx(column.delta, rel=1e-9)
    assert column.remainder == 0 or metric == "gauc"
    assert column.made_of == ("ranks" if metric == "auc" else "sums")


@pytest.mark.parametrize("metric, ids", [("AUC", "id"), ("LogLoss", "id"), ("AUC", "uid")])
def test_the_interval_of_a_slice_is_that_of_a_paired_difference_of_its_rows(metric, ids):
    inside = DATA["slot"] == "feed"
    found = []
    for side in (DATA, OLD):
        each = fm.Interval(getattr(fm, metric)(), ids="unit", groups=1024)
        each.add(side["p"][inside], side["y"][inside], unit=side[ids][inside])
        found.append(each.compute())
    wanted = fm.paired_difference(*found)
    more = {"join_on": "id"} if ids == "id" else {"user": "uid"}
    name = {"AUC": "auc", "LogLoss": "log_loss"}[metric]
    slice_ = of(fm.evaluate(DATA, baseline=OLD, metrics=name, **ASKED, **more))["feed"]
    assert (slice_.delta, slice_.low, slice_.high) == pytest.approx((wanted.value, wanted.low, wanted.high), rel=1e-9)
    assert slice_.p == pytest.approx(wanted.p_value, rel=1e-9)


def test_rows_that_are_not_joined_have_the_interval_of_independent_ones():
    inside = DATA["slot"] == "feed"
    found = []
    for side in (DATA, OLD):
        each = fm.Interval(fm.AUC())
        each.add(side["p"][inside], side["y"][inside])
        found.append(each.compute())
    wanted = fm.unpaired_difference(*found)
    slice_ = of(fm.evaluate(DATA, baseline=OLD, metrics="auc", **ASKED))["feed"]
    assert (slice_.low, slice_.high) == pytest.approx((wanted.low, wanted.high), rel=1e-3)  # Student's quantiles


def test_slices_that_differ_by_chance_are_seldom_called():
    called = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        new = drawn(seed)
        new["p"] = sigmoid(np.log(new["old"] / (1 - new["old"])) + random.normal(0, 0.3, ROWS))
        logit = np.log(drawn(seed)["old"] / (1 - drawn(seed)["old"]))
        old = {**new, "p": sigmoid(logit + random.normal(0, 0.3, ROWS))}
        new["slot"] = old["slot"] = random.integers(0, 20, ROWS)
        result = fm.evaluate(new, baseline=old, metrics="log_loss", join_on="id", **ASKED)
        called += any(each.verdict in ("worse", "better") for each in result.versus["slot"].slices)
    assert called <= 3  # 0.6 are expected; 4 of 12 are a chance in 300


def test_slices_that_come_and_go_have_no_test_and_are_counted_by_mix():
    new, old = ({name: each[DATA["slot"] != gone] for name, each in DATA.items()} for gone in ("search", "feed"))
    result = fm.evaluate(new, baseline=old, metrics="log_loss", **ASKED)
    slices = of(result)
    assert slices["feed"].baseline_rows == 0 and slices["search"].rows == 0
    for key in ("feed", "search"):
        assert slices[key].verdict is None and slices[key].within == 0 and slices[key].mix != 0
    assert result.versus["slot"].remainder == 0
    assert '"delta": null' in json.dumps(result.to_dict()) and "feed" in str(result)


def test_a_metric_without_a_test_has_deltas_alone():
    result = fm.evaluate(DATA, baseline=OLD, metrics="matthews_correlation,auc", join_on="id", **ASKED)
    slices = of(result)
    assert all(each.verdict is None and math.isnan(each.added) for each in slices.values())
    assert slices["video"].deltas["auc"] < -0.1 and "where the delta" not in str(result)
    assert "no verdicts" not in str(result).partition("new against")[0]


def test_the_same_scores_are_within_chance_everywhere():
    slices = of(fm.evaluate(OLD, baseline=OLD, metrics="auc", join_on="id", **ASKED))
    assert {each.verdict for each in slices.values()} == {"within chance", "too few"}
    assert slices["feed"].low == slices["feed"].high == 0 and slices["feed"].p == 1


def test_saved_states_are_compared_as_sides_are(there):
    more = {"metrics": "auc,log_loss", "user": "uid", "ci": 0.95}
    wanted = fm.evaluate("new.parquet", baseline="old.parquet", **ASKED, **more)
    for name in ("new", "old"):
        fm.evaluate(f"{name}.parquet", **ASKED, **more).save_state(f"{name}.fms")
    found = compare("new.fms", "old.fms").to_dict()
    assert found["versus"] == wanted.to_dict()["versus"] and found["versus"]["slot"]["slices"][0]["q"] < 0.01
    fm.evaluate("old.parquet", **ASKED, **{**more, "ci": None}).save_state("plain.fms")
    fm.evaluate("new.parquet", baseline="old.parquet", **ASKED, **{**more, "ci": None}).save_state("new.fms")
    found = compare("new.fms", "plain.fms").versus["slot"]  # one of them lacks what a test needs
    assert found.slices[0].verdict is None and found.delta == wanted.versus["slot"].delta


def test_text_and_page_show_both_tables():
    result = fm.evaluate(DATA, baseline=OLD, metrics="auc", join_on="id", **ASKED)
    text = str(result)
    assert "new against baseline, by slot" in text and "where the delta of auc, -" in text
    part = text.partition("new against")[2].partition("\n\nby slot")[0]
    assert max(map(len, part.splitlines())) <= 82 and "few is too few: needs" in part
    page = pytest.importorskip("jinja2") and result.to_html()
    assert 'id="versus-1"' in page and "by mix and" not in page  # rows of the same ids have the same slices
    shown = page.partition('id="versus-1"')[2]
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)', shown)[:7]
    assert heads == ["Slice", "Baseline", "auc", "Difference", "Verdict", "Adds", "Rows"]
    assert re.search(r"−[\d.]+<small>−[\d.]+ to [−+][\d.]+</small></td>\s*<td class=\"text\"[^>]*>worse", shown)
    assert "新值与基线" in result.to_html(lang="zh")
    mixed = fm.evaluate({name: column[:9000] for name, column in DATA.items()}, baseline=OLD, metrics="auc", **ASKED)
    assert ("by mix and" in mixed.to_html()) and "构成" in mixed.to_html(lang="zh")


# -- intervals of all looks ------------------------------------------------------------------------------------


def test_intervals_of_all_looks_are_wider_and_say_so(there):
    given = {**ASKED, "metrics": "auc", "join_on": "id"}
    one = fm.evaluate(DATA, baseline=OLD, **given)
    all_ = fm.evaluate(DATA, baseline=OLD, always_valid=ROWS, **given)
    for narrow, wide in [
        (one.deltas["auc"].interval, all_.deltas["auc"].interval),
        (of(one)["feed"], of(all_)["feed"]),
    ]:
        assert 1.2 < (wide.high - wide.low) / (narrow.high - narrow.low) < 2
    assert of(all_)["feed"].p > of(one)["feed"].p
    assert all_.to_dict()["asked"]["always_valid"] == ROWS and "hold at all looks" in str(all_)
    for name, side in (("new", DATA), ("old", OLD)):
        fm.evaluate(side, **ASKED, metrics="auc", user="uid", ci=0.95).save_state(f"{name}.fms")
    both = fm.evaluate(DATA, baseline=OLD, always_valid=ROWS, **ASKED, metrics="auc", user="uid")
    assert compare("new.fms", "old.fms", always_valid=ROWS).deltas == both.deltas


def test_intervals_of_all_looks_need_a_baseline_and_intervals(there):
    with pytest.raises(fm.InvalidInputError, match="always_valid is for deltas; give baseline"):
        fm.evaluate(DATA, **ASKED, always_valid=100)
    with pytest.raises(fm.InvalidInputError, match="always_valid must be"):
        fm.evaluate(DATA, baseline=OLD, **ASKED, always_valid=0)
    for name in ("new", "old"):
        fm.evaluate(DATA, **ASKED, metrics="auc").save_state(f"{name}.fms")
    with pytest.raises(fm.DataError, match=r"save them with ci=0\.95"):
        compare("new.fms", "old.fms", always_valid=100)


# -- conditions on slices --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result():
    return fm.evaluate(DATA, baseline=OLD, metrics="auc,log_loss", join_on="id", **ASKED)


def test_conditions_on_any_slice_and_on_one(result):
    (said,) = result.failed("any slices.slot.auc_delta.high<0")
    assert "slices.slot[video].auc_delta.high is -0." in said
    assert result.failed("any slices.slot.auc_delta.high<-0.9", "slices.slot[feed].auc_delta.high<0") == []
    assert result.failed("slices.slot[video].auc<0.7") and not result.failed("slices.slot[feed].auc<0.7")
    assert result.failed("slices.slot[few].rows<31") and not result.failed("any slices.slot.rows<30")
    assert result.failed("any slices.slot.log_loss_delta>0.1") and result.failed("slices.slot[video].added<-0.01")
    assert result.failed("slices.slot.0.rows>0")


def test_slices_with_too_few_rows_never_satisfy_a_condition_nor_pass_in_silence(result):
    with pytest.warns(fm.UndefinedMetricWarning, match="1 of 4 slices .* too few to tell, .*'few'"):
        assert result.failed("any slices.slot.auc_delta.low<-0.9") == []
    (said,) = result.failed("slices.slot[few].auc_delta.high<0")
    assert "too few to tell, needs" in said
    few = {name: each[:30] for name, each in DATA.items()}
    (said,) = fm.evaluate(few, baseline=few, metrics="auc", **ASKED).failed("any slices.slot.auc_delta.high<0")
    assert "fails: auc_delta.high of every slice by slot" in said


@pytest.mark.parametrize(
    "condition, message",
    [
        ("any slices.slto.auc<1", "slices are by 'slot', not by 'slto'; did you mean 'slot'?"),
        ("slices.slot[feeed].auc<1", "no slice 'feeed' by 'slot'; did you mean 'feed'"),
        ("slices.slot.auc<1", "name a slice: "),
        ("any auc<1", "'any' is for slices"),
        ("any slices.slot.gauc<1", "a slice has no 'gauc'; did you mean auc?"),
        (
            "any slices.slot.log_loss_delta.low<0",
            "'any slices.slot.log_loss_delta.low<0': a slice has no 'log_loss_delta.low'; slices have intervals of "
            "one metric only, which rank_by=log_loss chooses",
        ),
    ],
)
def test_conditions_on_unknown_names_list_the_known_ones(result, condition, message):
    with pytest.raises(fm.InvalidInputError) as caught:
        result.failed(condition)
    assert message in str(caught.value)


def test_wrong_conditions_on_slices_are_known_before_anything_is_read(there, capsys):
    asked = ["--label", "y", "--score", "p", "--metrics", "auc", "--by", "slot"]
    for condition, said in {
        "any slices.day.auc<1": "--by day",
        "any slices.slot.gauc<1": "a slice has no 'gauc'",
        "any slices.slot.auc_delta.high<0": "deltas need --baseline",
    }.items():
        assert main(["evaluate", "nothing.parquet", *asked, "--fail-if", condition]) == 2
        assert said in capsys.readouterr().err
    both = [*asked, "--baseline", "old.parquet", "--join-on", "id"]
    assert main(["evaluate", "new.parquet", *both, "--fail-if", "any slices.slot.auc_delta.high<0"]) == 1
    said = capsys.readouterr().err
    assert "holds: slices.slot[video].auc_delta.high" in said and "counts neither way: 'few'" in said
    assert main(["evaluate", "new.parquet", *both, "--fail-if", "slices.slot[feeed].auc<1"]) == 2


# -- the baseline's side ----------------------------------------------------------------------------------------


def test_two_scores_of_the_same_rows_are_compared_row_by_row(there, capsys):
    given = {**ASKED, "metrics": "auc,log_loss", "replicates": 50}
    found = fm.evaluate("new.parquet", baseline_score="old", **given)
    joined = fm.evaluate("new.parquet", baseline="old.parquet", join_on="id", **given)
    assert {name: each.value for name, each in found.deltas.items()} == {k: v.value for k, v in joined.deltas.items()}
    for one, other in ((of(found)["feed"], of(joined)["feed"]), (of(found)["video"], of(joined)["video"])):
        assert one.delta == other.delta and one.high - one.low == pytest.approx(other.high - other.low, rel=0.15)
    assert np.isfinite(found.deltas["auc"].interval.low)
    frame = fm.evaluate(DATA, baseline_score="old", **given)
    assert of(frame)["feed"].high - of(frame)["feed"].low == pytest.approx(
        of(found)["feed"].high - of(found)["feed"].low, rel=0.15
    )
    asked = ["--label", "y", "--score", "p", "--metrics", "auc", "--replicates", "50"]
    assert main(["evaluate", "new.parquet", *asked, "--baseline-score", "old", "--fail-if", "auc_delta.high<0"]) == 1
    assert main(["evaluate", "-", *asked, "--baseline-score", "old"]) == 2
    assert "standard input" in capsys.readouterr().err


def test_columns_of_the_baseline_may_have_other_names(there, capsys):
    import pyarrow.parquet

    renamed = {"label": OLD["y"], "score": OLD["p"], "pos": OLD["slot"], "key": OLD["id"]}
    pyarrow.parquet.write_table(pa.table(renamed), "renamed.parquet")
    given = {**ASKED, "metrics": "auc", "join_on": "id", "replicates": 50}
    names = {"y": "label", "slot": "pos", "id": "key"}
    found = fm.evaluate(
        "new.parquet", baseline="renamed.parquet", baseline_score="score", baseline_columns=names, **given
    )
    wanted = fm.evaluate("new.parquet", baseline="old.parquet", **given)
    assert found.deltas == wanted.deltas and found.to_dict()["versus"] == wanted.to_dict()["versus"]
    asked = [
        "--label",
        "y",
        "--score",
        "p",
        "--metrics",
        "auc",
        "--by",
        "slot",
        "--join-on",
        "id",
        "--replicates",
        "50",
    ]
    there_ = ["--baseline", "renamed.parquet", "--baseline-score", "score"]
    assert main(["evaluate", "new.parquet", *asked, *there_, "--baseline-columns", "y=label,slot=pos,id=key"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "new.parquet", *asked, *there_, "--baseline-columns", "yy=label"]) == 2
    assert "--baseline-columns: there is no column 'yy' here" in capsys.readouterr().err


def test_two_scores_beside_one_label_are_an_error_that_names_them():
    with pytest.raises(
        fm.InvalidInputError, match=r"score names 2 columns, p, old, but label names 1.*baseline_score=old"
    ):
        fm.evaluate(DATA, label="y", score=["p", "old"], metrics="auc")


# -- from numbers alone ----------------------------------------------------------------------------------------


def halves(**slices):
    """A side of these slices: rows, numerator, denominator and variance of each."""
    rows, parts, values = {}, {}, {}
    for key, (number, numerator, denominator, variance) in slices.items():
        value = numerator / denominator
        rows[key], values[key] = number, value
        parts[key] = Part(value, Spread(variance, math.inf, {}), np.array([numerator, denominator], float))
    return Slices(rows, {"m": values, "other": {key: 2 * each for key, each in values.items()}}, {}, compared=parts)


def compared(metric, new, old, whole=(0.2, 0.2), unit="rows"):
    (found,) = deltas({"slot": (new, old)}, Whole(metric, "m", *whole, unit), Weighing(0.95, 200)).values()
    return found, {each.key: each for each in found.slices}


OLD_HALF = {"a": (100, 20, 100, 1e-6), "b": (100, 20, 100, 1e-6), "c": (100, 20, 100, 1e-6)}
NEW_HALF = {"a": (100, 30, 100, 3e-6), "b": (100, 5, 100, 3e-6), "c": (100, 20, 100, 3e-6)}


@pytest.mark.parametrize(
    "metric, verdicts, order",
    [
        (fm.LogLoss, ("worse", "better"), "acb"),
        (fm.Accuracy, ("better", "worse"), "bca"),
        (fm.ClickThroughRate, ("different", "different"), "bac"),
    ],
)
def test_verdicts_and_order_follow_the_direction_of_the_metric(metric, verdicts, order):
    found, slices = compared(metric(), halves(**NEW_HALF), halves(**OLD_HALF), (55 / 300, 0.2))
    assert (slices["a"].verdict, slices["b"].verdict, slices["c"].verdict) == (*verdicts, "within chance")
    assert "".join(each.key for each in found.slices) == order and found.remainder == 0
    half = 1.959963984540054 * math.sqrt(4e-6)  # the variances of both sides add up
    assert (slices["a"].low, slices["a"].high) == pytest.approx((0.1 - half, 0.1 + half), rel=1e-12)
    assert slices["a"].deltas == pytest.approx({"m": 0.1, "other": 0.2}) and slices["a"].within > 0


def test_the_remainder_of_a_delta_is_what_slices_do_not_add_unless_it_is_rounding():
    found, _ = compared(fm.LogLoss(), halves(**NEW_HALF), halves(**OLD_HALF), (0.5, 0.2))
    assert found.delta == 0.3 and found.remainder == pytest.approx(0.3 + 0.05 / 3)
    found, _ = compared(fm.LogLoss(), halves(**NEW_HALF), halves(**OLD_HALF), (55 / 300 + 1e-7, 0.2))
    assert found.remainder == pytest.approx(1e-7, rel=1e-6)
    found, _ = compared(fm.LogLoss(), halves(**NEW_HALF), halves(**OLD_HALF), (55 / 300 + 1e-11, 0.2))
    assert found.remainder == 0


def test_a_slice_of_one_side_has_no_delta_of_any_metric():
    new, old = dict(NEW_HALF, new=(7, 1, 7, 1e-6)), dict(OLD_HALF, gone=(9, 2, 9, 1e-6))
    _, slices = compared(fm.LogLoss(), halves(**new), halves(**old))
    assert (slices["new"].rows, slices["new"].baseline_rows) == (7, 0) and slices["gone"].baseline_rows == 9
    assert math.isnan(slices["new"].delta) and math.isnan(slices["new"].deltas["other"]) and not slices["gone"].deltas
    assert slices["new"].verdict is slices["gone"].verdict is None and slices["gone"].mix != 0


@pytest.mark.parametrize("turned", [False, True])
def test_too_few_needs_the_most_that_either_side_lacks_in_the_name_of_the_unit(turned):
    sides = halves(**NEW_HALF, d=(9, 2, 9, 1e-6)), halves(**OLD_HALF, d=(9, 2, 9, 1e-6))
    short = {"users": (3, 10.2), "positives": (1, 8)}, {"users": (3, 12.5), "rows": (2, 30)}
    for side, lacking in zip(sides, reversed(short) if turned else short):
        side.compared["a"] = side.compared["a"]._replace(spread=Spread(1e-6, math.inf, lacking))
    sides[turned].compared["d"] = (
        sides[turned].compared["d"]._replace(spread=Spread(1e-6, math.inf, {"samples": (1, 6.5)}))
    )
    sides[turned].compared["b"] = sides[turned].compared["b"]._replace(spread=Spread(math.nan, math.inf, {}))
    _, slices = compared(fm.LogLoss(), *sides, unit="queries")
    assert slices["a"].verdict == slices["b"].verdict == "too few" and math.isnan(slices["a"].low)
    assert slices["a"].needs == {"queries": 13, "positives": 8, "rows": 1500}  # of the 100 rows, 2 count
    assert slices["b"].needs == {"queries": LEAST} and slices["d"].needs == {"queries": 7}
    assert slices["c"].verdict == "within chance" and slices["c"].q == 1


def test_sides_that_differ_in_the_rows_of_a_few_users_alone_are_too_few_however_many_they_share():
    groups = np.random.default_rng(0).normal(0, 0.01, 1024)
    sides = halves(**NEW_HALF), halves(**OLD_HALF)
    for side, apart in zip(sides, ((0, 3, 600), ())):
        for key, places in (("a", np.arange(1024)[::2]), ("c", np.array(apart, int))):
            its = groups.copy()
            its[places] += 0.01 * np.arange(1, len(places) + 1) * (side is sides[0])
            side.compared[key] = side.compared[key]._replace(spread=Spread(1e-6, math.inf, {}, its))
    _, slices = compared(fm.LogLoss(), *sides, unit="users")
    assert slices["a"].verdict != "too few" and not slices["a"].needs
    assert slices["c"].verdict == "too few" and set(slices["c"].needs) == {"users"} and math.isnan(slices["c"].p)


def test_a_slice_is_called_where_its_q_is_at_most_one_minus_the_confidence():
    new = dict(NEW_HALF, c=(100, 20.2, 100, 3e-6), d=(100, 20.6, 100, 3e-6))
    old = dict(OLD_HALF, d=(100, 20, 100, 1e-6))
    _, slices = compared(fm.LogLoss(), halves(**new), halves(**old))
    assert 0.05 < slices["c"].q < 0.95 and slices["c"].verdict == "within chance"
    assert 0 < slices["d"].q < 0.05 and slices["d"].verdict == "worse"


@pytest.mark.parametrize("turned", [False, True])
def test_a_side_without_what_a_test_or_a_contribution_needs_has_none(turned):
    sides = halves(**NEW_HALF), halves(**OLD_HALF)
    lacks = sides[turned]
    lacks.compared["a"] = lacks.compared["a"]._replace(spread=Spread(3e-6, math.inf, {}, np.linspace(-1, 1, 1024)))
    _, slices = compared(fm.LogLoss(), *sides)  # only one side has groups: the variances add up
    half = 1.959963984540054 * math.sqrt((4 + 2 * turned) * 1e-6)
    assert (slices["a"].low, slices["a"].high) == pytest.approx((0.1 - half, 0.1 + half), rel=1e-9)
    lacks.compared.clear()
    found, slices = compared(fm.LogLoss(), *sides)
    assert found.made_of == "" and math.isnan(found.mix) and math.isnan(found.remainder)
    assert all(math.isnan(each.added) and each.verdict is None for each in slices.values())
    assert slices["a"].delta == pytest.approx(0.1)


def test_a_delta_of_rounding_alone_is_no_remainder_where_no_slice_adds_anything():
    found, _ = compared(fm.LogLoss(), halves(**OLD_HALF), halves(**OLD_HALF), (0.2 + 1e-12, 0.2))
    assert found.delta > 0 and found.remainder == 0


def test_q_values_count_the_slices_of_all_columns():
    new, old = halves(**{**NEW_HALF, "a": (100, 20.5, 100, 3e-6)}), halves(**OLD_HALF)
    whole, weighing = Whole(fm.LogLoss(), "m", 0.2, 0.2, "rows"), Weighing(0.95, 200)
    one = deltas({"slot": (new, old)}, whole, weighing)["slot"].slices
    two = deltas({"slot": (new, old), "day": (old, old)}, whole, weighing)["slot"].slices
    (alone,), (beside,) = ([each for each in table if each.key == "a"] for table in (one, two))
    assert beside.p == alone.p and beside.q == pytest.approx(2 * alone.q)  # of six tests instead of three


def test_intervals_of_all_looks_know_the_rows_there_are_and_those_at_which_they_are_narrowest():
    value, std = 0.01, 0.004
    of_few = Weighing(0.95, 100, 4_000).of(value, std, math.inf)
    of_many = Weighing(0.95, 4_000, 100).of(value, std, math.inf)
    at_best = Weighing(0.95, 4_000, 4_000).of(value, std, math.inf)
    assert at_best.high - at_best.low < of_many.high - of_many.low < of_few.high - of_few.low


def test_slices_add_up_to_the_whole_where_the_sides_have_other_numbers_of_rows():
    new = {name: each[np.arange(ROWS) % 3 > (DATA["slot"] == "feed")] for name, each in DATA.items()}
    for metric in ("normalized_entropy", "log_loss", "calibration", "auc"):
        column = fm.evaluate(new, baseline=OLD, metrics=metric, replicates=20, **ASKED).versus["slot"]
        assert column.remainder == 0 and column.mix != 0 and column.within != 0, metric


@pytest.mark.parametrize("metric", ["normalized_entropy", "log_loss", "calibration"])
def test_slices_that_only_have_more_rows_change_the_mix_and_nothing_within(metric):
    more = np.concatenate([np.arange(ROWS), *[np.flatnonzero(OLD["slot"] == "search")] * 2])
    new = {name: each[more] for name, each in OLD.items()}
    slices = of(fm.evaluate(new, baseline=OLD, metrics=metric, replicates=20, **ASKED))
    mix = max(abs(each.mix) for each in slices.values())
    assert mix > 0 and all(abs(each.within) < 1e-9 * mix for each in slices.values())


def test_users_of_a_grouped_metric_stay_together_whatever_the_rows_are_joined_on():
    for metric, ids in (fm.GAUC(), "user"), (fm.NDCG(by="query"), "query"), (fm.LogLoss(), "request"):
        found = compared_metric(metric, "request")
        assert found is not None and found.ids == ids


def of_clicks(clicks, rows):
    """A side whose click-through rate is compared."""
    sums = [clicks, clicks, rows, clicks, clicks, clicks, rows]  # of the products of two, and of three, terms
    spread = of_samples(sums, [clicks, rows], (1 / rows, -clicks / rows**2), rows)
    return Part(clicks / rows, spread, np.array([clicks, rows], float))


@pytest.mark.parametrize("clicks, times", [(30, 10), (40, 10), (40, 1), (420, 0.1), (38, 3)])
@pytest.mark.thorough
def test_of_equal_sides_no_more_than_promised_differ_at_the_limit_of_too_few(clicks, times):
    """Not even if one side is small: it is not compared because it happens to have many clicks."""
    random, p = np.random.default_rng(5), []
    rows = [100 * clicks, round(100 * clicks * times)]
    for _ in range(3000):
        new, old = (of_clicks(int(random.binomial(each, 0.01)), each) for each in rows)
        test, scarce = difference_of(new, old, new.value - old.value, "rows", Weighing(0.95, 200))
        assert math.isnan(test.low) == bool(scarce.needs)
        p.append(test.p_value)
    tested = np.array(p)[~np.isnan(p)]
    assert len(tested) > 500 or clicks == 30
    assert np.sum(tested <= 0.05) <= 0.05 * len(tested) + 3 * math.sqrt(0.05 * 0.95 * max(len(tested), 1))


def test_both_sides_need_the_same_number_of_rows_and_pairs():
    one, other = of_clicks(30, 3000).spread, of_clicks(500, 30_000).spread
    assert "samples" in one.short and not other.short
    both = alike(one, other)
    needed = [each.supply["samples"].needed for each in both]
    assert needed[0] == needed[1] == pytest.approx(33_000 * EVENTS / 530, rel=0.05)
    assert not both[0].short and not both[1].short  # 530 clicks in 33,000 rows: 3,000 rows are expected to have 48
    area = {name: Supply(size, 400.0) for name, size in (("positives", 300), ("negatives", 1000))}
    rare = Spread(1e-4, 100.0, {"positives": (300, 400.0)}, supply=area)
    common = rare._replace(short={}, supply={name: Supply(10_000, 100.0) for name in area})
    few, _ = alike(rare, common)
    assert few.supply["positives"].needed == pytest.approx(10_300 / (300 / 400 + 100)) and not few.short
    assert alike(rare._replace(variance=math.nan), common)[0].short == rare.short
