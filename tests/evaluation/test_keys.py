"""The names in a result: a metric, a field, a column of slices and a condition never mean two things."""

from __future__ import annotations

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.cli import main
from fleetmetrics.evaluation import merge
from fleetmetrics.evaluation.arguments.named import kinds
from fleetmetrics.evaluation.arguments.options import Options
from fleetmetrics.evaluation.history import history
from fleetmetrics.evaluation.output.conditions import ConditionError
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.evaluation.result import check_keys
from fleetmetrics.support.vocabulary import RESULT_KEYS

pytestmark = [
    pytest.mark.numpy_only,
    pytest.mark.usefixtures("few_groups"),
    pytest.mark.filterwarnings("ignore::fleetmetrics.errors.UndefinedMetricWarning"),
]
pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
ROWS = 600
DATA = {
    "y": RNG.integers(0, 2, ROWS),
    "p": RNG.random(ROWS).round(3),
    "old": RNG.random(ROWS).round(3),
    "slot": RNG.integers(0, 3, ROWS),
    "uid": RNG.integers(0, 90, ROWS),
}
ASKED = {"label": "y", "score": "p"}
FULL = {**ASKED, "by": "slot", "user": "uid", "metrics": "auc,log_loss,gauc", "ci": 0.95, "baseline_score": "old"}
#: The keys that results, slices, deltas and histories have of their own, beside those of sentences.
TAKEN = (
    "rows share p q difference harm key verdict low high needs metrics metric value within_chance users positives "
    "queries slices versus baseline baseline_rows delta deltas mix within added explained others references verdicts "
    "warnings data asked about at_k conditions state any x_interval x_delta x_change"
)


def names_in(result):
    """The keys of a result beside its metrics and what belongs to one: of itself, its sides and their slices."""
    entries = [result, result["baseline"] or {}]
    entries += [each for slices in result["slices"].values() for each in slices]
    entries += [each for column in result["versus"].values() for each in column["slices"]]
    own = set().union(*entries) - set(result["asked"]["metrics"])
    return {name for name in own if not name.endswith(("_interval", "_delta", "_change"))}


@pytest.mark.parametrize("key", TAKEN.split())
def test_the_key_of_a_metric_is_not_that_of_another_number(key, tmp_path, capsys):
    with pytest.raises(
        fm.InvalidInputError, match=rf"^metrics: '{key}' is taken .*give it another name, NAME=accuracy"
    ):
        fm.evaluate(DATA, **ASKED, metrics=f"auc,{key}=accuracy", by="slot")
    assert main(["evaluate", "no.csv", "--label", "y", "--score", "p", "--metrics", f"{key}=accuracy"]) == 2
    assert f"--metrics: '{key}' is taken" in capsys.readouterr().err


def test_every_name_of_a_full_result_is_taken(tmp_path):
    result = fm.evaluate(DATA, **FULL)
    result.save_state(tmp_path / "day.fms")
    (state,) = history([tmp_path / "day.fms"]).to_dict()["states"]
    names = names_in(result.to_dict()) | (set(state) - {*result.values, *(f"{key}_interval" for key in result.values)})
    assert len(names) > 30
    for name in names:
        with pytest.raises(fm.InvalidInputError, match=f"'{name}' is taken"):
            check_keys(Question.of(Options(**ASKED, metrics=f"{name}=auc")))
    top = {name for name in result.to_dict() if not name.startswith(tuple(result.values))}
    assert top | {"at_k", "conditions", "tasks"} == set(RESULT_KEYS)
    for name in kinds():
        check_keys(Question.of(Options(**ASKED, metrics=name)))


def test_a_key_with_a_dot_or_of_a_column_of_slices_is_refused():
    for key, told in (("a.b", "must not hold a dot"), ("slot", "is also a column of by")):
        with pytest.raises(fm.InvalidInputError, match=f"'{key}' {told}.*; give it another name, NAME=accuracy"):
            fm.evaluate(DATA, **ASKED, metrics=f"{key}=accuracy", by="slot")
    result = fm.evaluate(DATA, **ASKED, metrics="slot=accuracy,recall_at_fixed_precision:min_precision=0.5", by="uid")
    assert result.failed("any slices.uid.recall_at_fixed_precision:min_precision=0.5>=0")


def test_a_saved_state_with_such_a_key_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr("fleetmetrics.evaluation.request.check_keys", lambda asked: None)
        before.setattr("fleetmetrics.evaluation.result.check_keys", lambda asked: None)
        fm.evaluate(DATA, **ASKED, metrics="share=accuracy", by="slot").save_state(tmp_path / "old.fms")
    with pytest.raises(fm.InvalidInputError, match="'share' is taken"):
        merge([tmp_path / "old.fms"])
    assert main(["merge", str(tmp_path / "old.fms")]) == 3


#: Columns that are called as arguments, fields and metrics are, or with the signs of a condition.
ODD = (
    "self prediction label weight mask user id row key other kwargs by value rows share metric low state class slice_0 "
    "slice_1 a.b a[b] a] any q<0 0 日 __class__"
)


@pytest.mark.parametrize("by", [*ODD.split(), "x y", "x\ty"])
def test_a_column_of_any_name_slices_and_its_frame_and_conditions_have_every_number(by):
    frame = {**DATA, by: DATA["slot"]}
    result = fm.evaluate(frame, **ASKED, metrics="auc,log_loss", by=by, baseline_score="old")
    slices, table = result.slices[by], result.frame(by)
    assert table.columns.is_unique
    for name, wanted in (("rows", "rows"), ("share", "share"), ("value", "value"), ("low", "low")):
        np.testing.assert_array_equal(table[name], [getattr(each, wanted) for each in slices])
    for name in result.values:
        np.testing.assert_array_equal(table[name], [each.metrics[name] for each in slices])
    taken = by in ("value", "rows", "share", "low", "key")
    assert list(table["key" if taken else by]) == [each.key for each in slices]
    for each in slices:
        for name, value in (("auc", each.metrics["auc"]), ("share", each.share)):
            assert result.failed(f"slices.{by}[{each.key}].{name}=={value!r}")
            assert not result.failed(f"slices.{by}[{each.key}].{name}<{value!r}")


@pytest.mark.parametrize("by", [["slice_1", "user"], ["user", "slice_0"], ["row", "slice_0", "slice_0_"], ["a.b", "a"]])
def test_columns_of_odd_names_go_together(by):
    frame = {**DATA, **{name: DATA["slot"] + place for place, name in enumerate(by)}}
    result = fm.evaluate(frame, **ASKED, metrics="auc", by=by)
    for place, name in enumerate(by):
        assert sorted(each.key for each in result.slices[name]) == [place, place + 1, place + 2]


def test_a_condition_that_could_mean_two_slices_is_refused_and_any_means_all_of_them():
    keys = np.array(["(null)", "x", None], object)[DATA["slot"]]
    result = fm.evaluate({**DATA, "k": keys}, **ASKED, metrics="auc", by="k")
    with pytest.raises(ConditionError, match=r"2 slices by 'k' are called '\(null\)'; rename a key"):
        result.failed("slices.k[(null)].rows<1")
    for each in result.slices["k"]:
        assert result.failed(f"any slices.k.rows=={each.rows}")
    frame = {**DATA, "a": ["b][1"] * ROWS, "a[b]": np.ones(ROWS, int)}
    result = fm.evaluate(frame, **ASKED, metrics="auc", by=["a", "a[b]"])
    with pytest.raises(ConditionError, match=r"may mean 'auc' by 'a\[b\]' or 'auc' by 'a'; rename a column"):
        result.failed("slices.a[b][1].auc<1")
