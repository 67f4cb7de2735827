"""Conditions on a result as JSON has it: which number each one means, and what it says of it."""

from __future__ import annotations

import copy

import pytest

from fleetmetrics.evaluation.output.conditions import ConditionError, checked, failed

pytestmark = pytest.mark.numpy_only


def a_slice(key, value, verdict="worse", **more):
    """A slice of a result."""
    entry = {"key": key, "rows": 100, "positives": 40, "share": 0.25, "metric": "auc", "verdict": verdict, "needs": {}}
    entry.update(low=value - 0.1, high=value + 0.1, p=0.01, q=0.02, difference=-0.1, harm=0.025)
    return {**entry, "metrics": {"auc": value, "log_loss": 0.5}, **more}


def a_pair(key, value, verdict="worse", **more):
    """A slice of a comparison."""
    entry = {"key": key, "rows": 100, "baseline_rows": 90, "metric": "auc", "verdict": verdict, "needs": {}}
    entry.update(value=value, low=value - 0.1, high=value + 0.1, p=0.03, q=0.04, mix=0.5, within=-0.5, added=0.25)
    return {**entry, "deltas": {"auc": value, "log_loss": 0.75}, **more}


FEW = {"verdict": "too few", "needs": {"positives": 5, "rows": 12_000}}
RESULT = {
    "auc": 0.75,
    "ece": None,
    "matrix": [[1, 2], [3, 4]],
    "auc_delta": {"value": -0.25, "low": -0.5, "high": 0.125},
    "data": {"rows": 300},
    "asked": {"metrics": ["auc", "log_loss"], "rank_by": "auc", "replicates": 1000, "ci": 0.95},
    "about": {"auc": {"better": "higher"}},
    "baseline": {"auc": 1.0},
    "slices": {
        "day": [a_slice("mon", 0.5), a_slice(None, 0.75), a_slice("a].b", 0.25), a_slice("tue", 0.9, **FEW)],
        "day.part": [a_slice(1, 0.625)],
        "few": [a_slice("x", 0.5, **FEW), a_slice("y", 0.5, **FEW)],
    },
    "versus": {"day": {"slices": [a_pair("mon", -0.125), a_pair("tue", -0.75, **FEW)]}},
}


def one(text, result=None):
    """What one condition gives."""
    (found,) = checked([text], RESULT if result is None else result)
    return found


def without(*names):
    """The result without some entries."""
    found = copy.deepcopy(RESULT)
    for name in names:
        del found[name]
    return found


@pytest.mark.parametrize(
    ("sign", "below", "same", "above"),
    [
        ("<", False, False, True),
        ("<=", False, True, True),
        (">", True, False, False),
        (">=", True, True, False),
        ("==", False, True, False),
        ("!=", True, False, True),
    ],
)
def test_a_condition_holds_as_its_sign_says(sign, below, same, above):
    assert [one(f" auc {sign} {number} ").fails for number in (0.5, 0.75, 1)] == [below, same, above]
    assert [one(f"slices.day[mon].auc{sign}{number}").fails for number in (0.25, 0.5, 1)] == [below, same, above]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("auc<0", 0.75),
        ("auc_delta<-1", -0.25),
        ("auc_delta.low<-1", -0.5),
        ("baseline.auc<0", 1.0),
        ("data.rows<0", 300),
        ("matrix.1.0<0", 3),
        ("slices.day.1.metrics.auc<0", 0.75),
        ("slices.day[mon].auc<0", 0.5),
        ("slices.day[mon].log_loss<0", 0.5),
        ("slices.day[(null)].auc<0", 0.75),
        ("slices.day[a].b].auc<0", 0.25),
        ("slices.day.part[1].auc<0", 0.625),
        ("any slices.day.part.auc<0", 0.625),
        ("slices.day[mon].auc_interval.low<0", 0.4),
        ("slices.day[mon].auc_interval.high<0", 0.6),
        ("slices.day[mon].rows<0", 100),
        ("slices.day[mon].positives<0", 40),
        ("slices.day[mon].p<0", 0.01),
        ("slices.day[mon].q<0", 0.02),
        ("slices.day[mon].harm<0", 0.025),
        ("slices.day[mon].auc_delta<-1", -0.125),
        ("slices.day[mon].auc_delta.high<-1", -0.025),
        ("slices.day[mon].auc_delta.q<0", 0.04),
        ("slices.day[mon].log_loss_delta<0", 0.75),
        ("slices.day[mon].baseline_rows<0", 90),
        ("slices.day[mon].within<-1", -0.5),
    ],
)
def test_a_path_names_one_number(text, value):
    found = one(text)
    assert found.value == pytest.approx(value) and not found.fails and found.path == text.split("<")[0]


@pytest.mark.parametrize("key", ["a<1", "b>=2", "c==d", "!=", "<", "x].auc<0", "1 < 2"])
def test_the_key_of_a_slice_may_hold_the_signs_of_conditions(key):
    result = {**RESULT, "slices": {"k": [a_slice("other", 0.25), a_slice(key, 0.5)]}}
    for sign, fails in (("<", True), (">=", False), (" != ", True), ("==", False)):
        found = one(f"slices.k[{key}].auc{sign}0.75", result)
        assert (found.value, found.fails, found.path) == (0.5, fails, f"slices.k[{key}].auc")


def test_of_two_columns_that_a_condition_may_name_it_means_the_one_that_has_the_slice():
    result = {**RESULT, "slices": {"a": [a_slice("x", 0.25)], "a[b]": [a_slice(1, 0.5)]}}
    assert one("slices.a[b][1].auc<0", result).value == 0.5 and one("slices.a[x].auc<0", result).value == 0.25


def test_what_holds_is_said_with_the_distance_and_on_which_side():
    assert one("auc<1").said == "'auc<1' holds: auc is 0.75, 0.25 below"
    assert one("auc>0.5").said == "'auc>0.5' holds: auc is 0.75, 0.25 above"
    assert one("auc==0.75").said == "'auc==0.75' holds: auc is 0.75"
    assert failed(["auc<0", "auc>0.5", "auc<1"], RESULT) == [one("auc>0.5").said, one("auc<1").said]
    assert failed([], {}) == []


def test_an_undefined_number_fails_every_condition():
    for text in ("ece<0", "ece>=0"):
        found = one(text)
        assert (found.fails, found.value) == (True, None) and "fails: ece is undefined" in found.said


def test_of_slices_the_first_that_holds_is_said_and_three_more_are_named():
    found = one("any slices.day.auc<0.6")
    assert (
        found.said == "'any slices.day.auc<0.6' holds: slices.day[mon].auc is 0.5, 0.1 below; it also holds in 'a].b'"
    )
    assert found.fails  # although it holds of some alone
    assert not one("any slices.day.auc<0.1").fails
    assert "slices.day[(null)].auc is 0.75, 0.05 above" in one("any slices.day.auc>0.7").said
    for number, more in ((4, "'1', '2', '3'"), (5, "'1', '2', '3' and 1 more")):
        result = {**RESULT, "slices": {"k": [a_slice(each, 0.5) for each in range(number)]}}
        assert one("any slices.k.auc<1", result).said.endswith(f"; it also holds in {more}")


def test_slices_with_too_few_rows_count_neither_way_for_what_is_tested_and_are_named():
    found = one("any slices.day.auc>0.8")
    assert not found.fails and "1 of 4 slices is undefined or has too few to tell" in found.note
    assert found.note.endswith("counts neither way: 'tue'")
    for entry in ("auc", "auc_interval.low", "p", "q", "difference", "harm", "auc_delta", "auc_delta.low"):
        found = one(f"slices.day[tue].{entry}<-9")
        assert (found.fails, found.value, found.note) == (True, None, "")
        assert found.said.endswith("is undefined: too few to tell, needs 5 positives and 12,000 rows")
    for entry in ("rows", "share", "positives", "log_loss", "baseline_rows", "mix", "within", "added"):
        assert not one(f"slices.day[tue].{entry}<-9").fails
    assert one("slices.day[tue].log_loss_delta<-9").value == 0.75
    found = one("any slices.few.auc<-9")
    assert (found.fails, found.value, found.note) == (True, None, "")
    assert "auc of every slice by few is undefined, or there are too few to tell" in found.said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("auc", "must be a name, one of < <= > >= == !=, and a number"),
        ("auc<nan", "must be a name, one of"),
        ("auc<much", "must be a name, one of"),
        (5, "5 must be a name"),
        ("baseline<1", "there is no 'baseline'; did you mean baseline.auc?"),
        ("asked.replicates<1", "there is no 'asked.replicates'"),
        ("about.auc.better<1", "there is no 'about.auc.better'"),
        ("slices.week.auc<1", "slices are by 'day', 'day.part', 'few', not by 'week'; give by=week"),
        ("any slices.week[mon].auc<1", ", not by 'week'; give by=week"),
        ("any day.auc<1", "'any' is for slices; write 'any slices.COLUMN.NAME<0'"),
        ("any slices.day[mon].auc<1", "must be 'any slices.COLUMN.NAME<0' or"),
        ("slices.day[mon]auc<1", "must be 'any slices.COLUMN.NAME<0' or"),
        ("slices.day.auc<1", "name a slice: 'any slices.COLUMN.NAME<0'"),
        ("slices.day[mom].auc<1", "there is no slice 'mom' by 'day'; did you mean 'mon'?"),
        ("slices.few[other].auc<1", "there is no slice 'other' by 'few'; there are 'x', 'y'"),
        ("slices.day[mon].users<1", "a slice has no 'users'; there are auc, log_loss"),
        ("slices.day[mon].log_loss_interval.low<1", "which rank_by=log_loss chooses"),
    ],
)
def test_a_condition_that_means_no_number_is_refused_with_what_is_there(text, told):
    with pytest.raises(ConditionError) as caught:
        checked([text], RESULT)
    assert told in str(caught.value)


def test_what_a_condition_needs_is_named_where_it_was_not_asked_for():
    alone = without("baseline", "versus", "auc_delta")
    for text, told in (
        ("auc_delta<0", "there is no 'auc_delta'; deltas need baseline"),
        ("baseline.auc<0", "there is no 'baseline.auc'; deltas need baseline"),
        ("slices.day[mon].auc_delta<0", "a slice has no 'auc_delta'; deltas need baseline"),
        ("slices.day[mon].mix<0", "a slice has no 'mix'; there are auc"),
    ):
        with pytest.raises(ConditionError, match=f"{told}"):
            checked([text], alone)
    del alone["asked"]["ci"]
    with pytest.raises(ConditionError, match="intervals need ci, or join_on"):
        checked(["auc_interval.low<0"], alone)
    with pytest.raises(ConditionError, match=r"there is no 'acu'; did you mean auc\?$"):
        checked(["acu<0"], without("slices", "matrix", "auc_delta", "baseline"))
    with pytest.raises(ConditionError, match=r"there is no 'zz'; there are auc, ece, data\.rows$"):
        checked(["zz<0"], without("slices", "matrix", "auc_delta", "baseline"))
    with pytest.raises(ConditionError, match="there are no slices, not by 'day'; give by=day"):
        checked(["any slices.day.auc<0"], {**RESULT, "slices": {}})


def test_before_anything_is_read_only_what_can_never_be_there_is_refused():
    empty = {**RESULT, "auc": None, "slices": {"day": []}}
    assert checked(["any slices.day.auc<0", "slices.day[mon].users<0", "data.more<0"], empty, ["data", "slices"]) == []
    assert checked(["auc<0"], empty, ["data"])[0].fails
    for text in ("any slices.day.gauc<0", "slices.week[mon].auc<0", "dates.rows<0"):
        with pytest.raises(ConditionError):
            checked([text], empty, ["data", "slices"])


def test_a_name_of_two_numbers_is_refused():
    result = {"steps": {"a.b": {"rows": 1}, "a": {"b": {"rows": 2}}}}
    with pytest.raises(ConditionError, match=r"2 numbers have the name 'steps\.a\.b\.rows'; rename a column or stream"):
        checked(["steps.a.b.rows<1"], result)
