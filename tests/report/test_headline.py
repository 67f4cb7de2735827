"""The first lines of a report, from the result's dict alone: no page is drawn."""

from __future__ import annotations

from typing import Any

import pytest

from fleetmetrics.report.gate import condition_of
from fleetmetrics.report.headline import Headline, change_of, headline, worst_slice
from fleetmetrics.words import Words

pytestmark = pytest.mark.numpy_only

ABOUT = {
    "auc": {"better": "higher", "kind": "AUC"},
    "loss": {"better": "lower", "kind": "LogLoss"},
    "ctr": {"better": "", "kind": "ClickThroughRate"},
    "calibration": {"better": "", "kind": "Calibration"},
}


def lines(lang: str = "en", **given: Any) -> Headline:
    result = {"about": ABOUT, "asked": {}, "slices": {}, "baseline": {"auc": 0.7}, **given}
    return headline(result, Words(lang))


def delta(value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high}


BETTER = {"auc": 0.75, "auc_delta": delta(0.05, 0.04, 0.06)}


@pytest.mark.parametrize(
    "value, low, high, better, said",
    [
        (0.05, 0.0, 0.1, "higher", "chance"),  # an interval that ends at zero holds it
        (-0.05, -0.1, 0.0, "higher", "chance"),
        (0.05, 1e-9, 0.1, "higher", "better"),
        (0.05, 1e-9, 0.1, "lower", "worse"),
        (-0.05, -0.1, -1e-9, "lower", "better"),
        (0.0, 0.0, 0.0, "higher", "chance"),
        (0.0, None, None, "higher", "same"),
        (0.05, None, 0.1, "higher", "seems better"),
        (-0.05, -0.1, None, "", "seems lower"),
        (None, None, None, "higher", ""),
    ],
)
def test_a_change_is_called_by_its_interval_and_the_better_direction(
    value: Any, low: Any, high: Any, better: str, said: str
) -> None:
    assert change_of(delta(value, low, high), better) == said


@pytest.mark.parametrize("new, old, said", [(1.1, 1.25, "nearer"), (0.8, 1.1, "farther"), (0.9, 1.1, "lower")])
def test_calibration_is_nearer_1_or_farther(new: float, old: float, said: str) -> None:
    change = delta(new - old, new - old - 0.01, new - old + 0.01)
    assert change_of(change, "", (new, old), 1.0) == said
    assert change_of(delta(new - old), "", (new, old), 1.0) == f"seems {said}"


def test_a_better_calibration_is_good_and_a_worse_one_is_named() -> None:
    nearer = {"calibration": 1.1, "baseline": {"calibration": 1.25}, "calibration_delta": delta(-0.15, -0.2, -0.1)}
    found = lines(**nearer)
    assert found.verdict.startswith("Better calibrated than the baseline: calibration −0.15") and found.tone == "good"
    farther = {"calibration": 1.4, "baseline": {"auc": 0.7, "calibration": 1.25}}
    assert lines(**BETTER, **farther, calibration_delta=delta(0.15, 0.1, 0.2)).lead == "Worse in calibration."


def test_the_first_metric_asked_for_that_is_a_number_is_the_one_named() -> None:
    given = {"auc": 0.75, "loss": 0.5, "baseline": None}
    assert lines(**given, asked={"metrics": ["loss", "auc"]}).verdict.startswith("The model has loss 0.5")
    asked = {"metrics": ["loss", "auc", "curve"]}
    found = lines(**{**given, "loss": None}, curve=[1], asked=asked)
    assert found == Headline("The model has AUC 0.75000", "Undefined: loss.", "")
    assert lines(rows=3, data={}, baseline=None) == Headline("")


def test_a_metric_that_is_undefined_is_said_to_be_and_why() -> None:
    def said(rows: int, positives: int | None, lang: str = "en", **more: Any) -> str:
        data = {"rows": rows} if positives is None else {"rows": rows, "positives": positives}
        return lines(lang, baseline=None, auc=None, data=data, **more).verdict

    assert said(4, 0) == "AUC is undefined: no row is positive"
    assert said(4, 4) == "AUC is undefined: all rows are positive"
    assert said(0, 0) == "AUC is undefined: there are no rows"
    assert said(4, 2) == said(4, None) == "AUC is undefined"
    held = {"conditions": [{"condition": "auc<0.99", "value": None, "fails": True}]}
    assert said(4, 0, **held) == "Do not release: AUC is undefined"
    assert said(4, 0, "zh", **held) == "不可上线：AUC 无定义"


def test_an_interval_that_is_not_there_says_what_it_needs_in_its_place() -> None:
    few = {"low": None, "high": None, "needs": {"positives": 1200, "negatives": 60}}
    assert lines(auc=0.75, auc_interval=few, baseline=None).verdict == (
        "The model has AUC 0.75000 (too few: needs 1,200 positives and 60 negatives)"
    )
    found = {"auc": 0.75, "auc_delta": {"value": 0.05, **few}}
    assert change_of(found["auc_delta"], "higher") == "few"
    assert lines(**found).verdict.startswith("Too few to tell from the baseline: AUC +0.05")
    assert "needs 1,200 positives" in lines(**found).verdict and "数据太少，需 1,200" in lines("zh", **found).verdict
    held = {"conditions": [{"condition": "auc_delta.low<0", "value": None, "fails": True}]}
    assert lines(**found, **held).verdict == (
        "Do not release: the lower end of the change of AUC cannot be judged: needs 1,200 positives and 60 negatives"
    )


def test_a_metric_without_a_difference_is_undecided() -> None:
    assert lines(auc=0.75).verdict == lines(auc=0.75, auc_delta=delta(None)).verdict == "Undecided: AUC is undefined"


def test_other_metrics_are_named_only_if_they_are_significantly_worse() -> None:
    given = {**BETTER, "loss": 0.6, "ctr": 0.2}
    assert lines(**given, loss_delta=delta(0.1), ctr_delta=delta(-0.1, -0.2, -0.05)).lead == ""
    assert lines(**given, loss_delta=delta(0.1, -0.1, 0.3)).lead == ""
    assert lines(**given, loss_delta=delta(0.1, 0.05, 0.2)).lead == "Worse in loss."
    given["auc_delta"] = delta(-0.05, -0.06, -0.04)
    assert lines(**given) == Headline("Worse than the baseline: AUC −0.050 (95%: −0.060 to −0.040)", "", "bad")


def slices(*rows: tuple[str, float, int], verdict: str = "worse", metric: str = "auc") -> dict[str, Any]:
    made = [{"key": k, "rows": n, "metric": metric, "delta": d, "verdict": verdict} for k, d, n in rows]
    few = {"key": "few", "rows": 1, "metric": metric, "delta": -1.0, "verdict": "too few"}
    return {"slot": {"slices": [few, *made]}}


def test_the_slice_that_lost_most_is_that_of_the_largest_loss_times_rows() -> None:
    def but(*rows: tuple[str, float, int], **more: Any) -> str:
        return lines(**BETTER, rows=1000, versus=slices(*rows, **more)).verdict.partition("; but ")[2]

    assert but(("slot_a", -0.2, 100)) == "slot_a lost 0.20 AUC; 10% of the rows"
    assert but(("a", -0.2, 10), ("b", -0.001, 900)).startswith("slot a lost 0.20 AUC; 1% of the rows; 1 more slice")
    assert but(("a", -0.2, 10), ("b", -0.05, 100)).startswith("slot b lost 0.050 AUC; 10% of the rows")
    assert but(("a", 0.2, 100), metric="loss") == "loss rose by 0.20 in slot a; 10% of the rows"
    none = slices(("a", -0.2, 10), ("b", 0.3, 5), verdict="within chance")
    assert lines(**BETTER, versus=none).lead == "No slice got significantly worse (2 tested)."
    assert lines(**BETTER, versus=slices()).lead == ""  # of no slice anything is known


def test_the_worst_slice_is_that_of_the_most_harm_or_of_the_largest_share_times_difference() -> None:
    def judged(key: str, share: float, difference: float, verdict: str, harm: float | None = None) -> dict[str, Any]:
        return {"key": key, "share": share, "difference": difference, "verdict": verdict, "harm": harm}

    def worst(*rows: dict[str, Any]) -> Any:
        found = worst_slice({"slices": {"slot": list(rows)}})
        return found and (found[0], found[1]["key"])

    assert worst(judged("a", 0.9, -0.9, "worse", 0.01), judged("b", 0.1, -0.1, "worse", 0.02)) == ("slot", "b")
    assert worst(judged("a", 0.1, 0.5, "different"), judged("b", 0.5, -0.2, "different")) == ("slot", "b")
    assert worst(judged("a", 0.9, -0.9, "within chance"), judged("b", 0.5, 0.9, "better", 0.0)) is None


def row(value: float = 0.75, difference: float = 0.25, verdict: str = "worse", **given: Any) -> dict[str, Any]:
    within = None if verdict == "too few" else False
    made = {"key": "a", "metric": "auc", "share": 0.125, "verdict": verdict, "within_chance": within}
    return {**made, "value": value, "difference": difference, **given}


def test_a_slice_stands_beside_the_value_of_the_whole_and_the_number_of_those_that_are_worse() -> None:
    def said(*rows: dict[str, Any], **more: Any) -> str:
        return lines(auc=0.75, baseline=None, slices={"slot": list(rows)}, **more).lead

    assert said(row(0.5, -0.25)) == "Worst in slot a: AUC 0.50 against 0.75, 12% of the rows."
    assert "slot a (of 2 that are worse): AUC" in said(row(0.5, -0.25), row(0.625, -0.125, key="b"))
    assert said(row(0.5, 0.25, "different")).startswith("It differs most in slot a: AUC 0.50 against 0.25")
    assert "0.75 of all slices together" in said(row(0.5, -0.25), references={"slot": 0.75})
    fine = row(verdict="within chance"), row(verdict="better"), row(verdict="too few")
    assert said(*fine) == "No slice is significantly worse than all rows (2 tested)."
    assert said(row(verdict="too few")) == ""


# -- the gate ------------------------------------------------------------------------------------------------


def gate(*conditions: tuple[str, float | None, bool], lang: str = "en", **given: Any) -> Headline:
    outcomes = [{"condition": text, "value": value, "fails": fails} for text, value, fails in conditions]
    return lines(lang, **{"auc": 0.75, "baseline": None, "conditions": outcomes, **given})


def test_a_release_is_blocked_by_the_conditions_that_are_not_met_alone() -> None:
    assert gate(("auc<0.7", 0.75, False)) == Headline(
        "Release: the condition passed", "The model has AUC 0.75000.", "good"
    )
    assert gate(("auc<0.7", 0.75, False), ("ctr>1", 0.5, False)).verdict == "Release: all 2 conditions passed"
    found = gate(("auc<0.77", 0.75, True), ("ctr>1", 0.5, False))
    assert found.verdict == "Do not release: AUC must be at least 0.77, and it is 0.7500" and found.tone == "bad"
    many = [(f"auc<0.{place}", 0.75, True) for place in range(80, 85)]
    assert gate(*many).verdict.endswith("; 2 more conditions")


def test_a_blocked_delta_says_by_how_much_the_metric_fell_and_in_which_slice() -> None:
    fell = {"auc": 0.65, "baseline": {"auc": 0.7}, "auc_delta": delta(-0.05, -0.06, -0.04)}
    assert gate(("auc_delta.low<0", -0.06, True), **fell).verdict == (
        "Do not release: AUC fell by 0.050 (95%: −0.060 to −0.040)"
    )
    unsure = {**fell, "auc_delta": delta(0.01, -0.01, 0.03)}
    assert gate(("auc_delta.low<0", -0.01, True), **unsure).verdict.startswith(
        "Do not release: AUC may be worse: +0.010"
    )
    lost = {**BETTER, "baseline": {"auc": 0.7}, "rows": 1000, "slices": {"slot": []}}
    lost["versus"] = slices(("slot_07", -0.19, 29))
    condition = ("any slices.slot.auc_delta.high<0", -0.1, True)
    assert gate(condition, **lost).verdict == "Do not release: slot_07 lost 0.19 AUC; 2.9% of the rows"
    assert gate(condition, lang="zh", **lost).verdict == "不可上线：slot_07 的 AUC 下降 0.19；占 2.9% 的行"
    passed = gate(("auc<0.5", 0.75, False), **lost)
    assert passed.verdict == "Release: the condition passed; but slot_07 lost 0.19 AUC; 2.9% of the rows"


@pytest.mark.parametrize(
    "text, english, chinese",
    [
        ("auc<0.77", "AUC must be at least 0.77", "AUC 不得小于 0.77"),
        ("auc <= 0.77", "AUC must be above 0.77", "AUC 须大于 0.77"),
        ("loss>0.5", "Loss must be at most 0.5", "Loss 不得大于 0.5"),
        ("data.skipped>=10", "data.skipped must be below 10", "data.skipped 须小于 10"),
        ("auc_delta.low<0", "AUC must not get worse, with confidence", "AUC 须有把握地未变差"),
        ("loss_delta.low>0", "Loss must not get significantly worse", "Loss 不得显著变差"),
        ("auc_delta<-0.01", "The change of AUC must be at least -0.01", "AUC 的变化 不得小于 -0.01"),
        ("auc_interval.low<0.7", "The lower end of AUC must be at least 0.7", "AUC 的下限 不得小于 0.7"),
        ("baseline.auc!=1", "AUC of the baseline must be 1", "基线的 AUC 须等于 1"),
        ("any slices.slot.auc<0.7", "In each slot, AUC must be at least 0.7", "每个 slot 中，AUC 不得小于 0.7"),
        ("slices.slot[slot_07].auc<0.7", "In slot_07, AUC must be at least 0.7", "在 slot_07 中，AUC 不得小于 0.7"),
        ("slices.slot[x].y].q<1", "In slot x].y, q must be at least 1", "在 slot x].y 中，q 不得小于 1"),
    ],
)
def test_a_condition_reads_as_a_sentence_that_must_be_true(text: str, english: str, chinese: str) -> None:
    result = {"about": ABOUT, "slices": {"slot": []}}
    assert [condition_of(text, result, Words(lang)).sentence for lang in ("en", "zh")] == [english, chinese]


def test_a_difference_has_two_digits_of_its_interval() -> None:
    assert "AUC +0.5000 (95%: +0.4992 to +0.5008)" in lines(auc=0.75, auc_delta=delta(0.5, 0.4992, 0.5008)).verdict
    asked: dict[str, Any] = {"ci": 0.9, "columns": {"prediction": "p"}}
    found = lines(auc=0.75, baseline=None, auc_interval={"low": 0.749992, "high": 0.750008}, asked=asked)
    assert found.verdict == "The model p has AUC 0.750000 (90%: 0.749992 to 0.750008)"
    asked["columns"]["prediction"] = ["p", "q"]  # of two classes
    assert lines(auc=0.75, baseline=None, asked=asked).verdict == "The model has AUC 0.75000"


def test_no_difference_has_no_sign() -> None:
    assert [Words("en").signed(value) for value in (0, 1, -1, None)] == ["0", "+1", "−1", "—"]
