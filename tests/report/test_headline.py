"""The first line of a report, from the result's dict alone: no page is drawn."""

from __future__ import annotations

from typing import Any

import pytest

from fleetmetrics.report.headline import change_of, headline, worst_slice
from fleetmetrics.words import Words

pytestmark = pytest.mark.numpy_only

ABOUT = {"auc": {"better": "higher"}, "loss": {"better": "lower"}, "ctr": {"better": ""}}


def line(**given: Any) -> str:
    result = {"about": ABOUT, "asked": {}, "slices": {}, "baseline": {"auc": 0.7}, **given}
    return headline(result, Words("en"))


def delta(value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high}


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


def test_the_first_metric_asked_for_that_is_a_number_is_the_one_named() -> None:
    given = {"auc": 0.75, "loss": 0.5, "baseline": None}
    assert line(**given, asked={"metrics": ["loss", "auc"]}).startswith("The model has loss 0.5")
    asked = {"metrics": ["loss", "auc", "curve"]}
    assert line(**{**given, "loss": None}, curve=[1], asked=asked) == "The model has auc 0.75000; undefined: loss."
    assert line(rows=3, data={}, baseline=None) == ""


def test_a_metric_that_is_undefined_is_said_to_be_and_why() -> None:
    def said(rows: int, positives: int | None, lang: str = "en", **more: Any) -> str:
        data = {"rows": rows} if positives is None else {"rows": rows, "positives": positives}
        result = {"about": ABOUT, "asked": {}, "slices": {}, "baseline": None, "auc": None, "data": data, **more}
        return headline(result, Words(lang))

    assert said(4, 0) == "auc is undefined: no row is positive."
    assert said(4, 4) == "auc is undefined: all rows are positive."
    assert said(0, 0) == "auc is undefined: there are no rows."
    assert said(4, 2) == said(4, None) == "auc is undefined."
    assert said(4, 0, loss=None) == "auc is undefined: no row is positive; undefined: loss."
    assert said(4, 0, loss=0.5, ctr=None) == "The model has loss 0.50000; undefined: auc, ctr."
    held = {"conditions": [{"condition": "auc<0.99", "fails": True}]}
    assert said(4, 0, **held) == "auc is undefined: no row is positive; do not release: auc<0.99."
    assert said(4, 0, "zh", **held) == "auc 无定义：没有正样本；不可上线：auc<0.99。"
    assert said(4, 0, "zh", loss=0.5) == "模型 的 loss 为 0.50000；无定义：auc。"


def test_an_interval_that_is_not_there_says_what_it_needs_in_its_place() -> None:
    few = {"low": None, "high": None, "needs": {"positives": 1200, "negatives": 60}}
    assert line(auc=0.75, auc_interval=few, baseline=None) == (
        "The model has auc 0.75000 (too few: needs 1,200 positives and 60 negatives)."
    )
    told = {"about": ABOUT, "asked": {}, "slices": {}, "baseline": {"auc": 0.7}, "auc": 0.75}
    told["auc_delta"] = {"value": 0.05, **few}
    assert change_of(told["auc_delta"], "higher") == "few"
    assert headline(told, Words("en")).startswith("Too few to tell from the baseline: auc +0.05")
    assert "needs 1,200 positives" in headline(told, Words("en"))
    assert "数据太少，需 1,200" in headline(told, Words("zh"))


def test_a_metric_without_a_difference_is_undecided() -> None:
    assert line(auc=0.75) == line(auc=0.75, auc_delta=delta(None)) == "Undecided: auc is undefined."


def test_other_metrics_are_named_only_if_they_are_surely_worse() -> None:
    given = {"auc": 0.75, "auc_delta": delta(0.05, 0.04, 0.06), "loss": 0.6, "ctr": 0.2}
    assert "worse" not in line(**given, loss_delta=delta(0.1), ctr_delta=delta(-0.1, -0.2, -0.05))
    assert "worse" not in line(**given, loss_delta=delta(0.1, -0.1, 0.3))
    assert line(**given, loss_delta=delta(0.1, 0.05, 0.2)).endswith("; worse in loss.")
    given["auc_delta"] = delta(-0.05, -0.06, -0.04)
    assert line(**given).endswith("(95%: −0.060 to −0.040).")  # and not once more among the others


def test_the_slice_that_lost_most_is_that_of_the_largest_loss_times_rows() -> None:
    def slices(*rows: tuple[str, float, int], verdict: str = "worse") -> dict[str, Any]:
        made = [{"key": k, "rows": n, "metric": "auc", "delta": d, "verdict": verdict} for k, d, n in rows]
        few = {"key": "few", "rows": 1, "metric": "auc", "delta": -1.0, "verdict": "too few"}
        return {"slot": {"slices": [few, *made]}}

    given = {"auc": 0.75, "auc_delta": delta(0.05, 0.04, 0.06)}
    assert "loses most in slot a" in line(**given, versus=slices(("a", -0.2, 10), ("b", -0.001, 1000)))
    assert "loses most in slot b" in line(**given, versus=slices(("a", -0.2, 10), ("b", -0.05, 100)))
    none = slices(("a", -0.2, 10), ("b", 0.3, 5), verdict="within chance")
    assert line(**given, versus=none).endswith("; no slice got worse by more than chance (2 tested).")


def test_the_worst_slice_is_that_of_the_most_harm_or_of_the_largest_share_times_difference() -> None:
    def row(key: str, share: float, difference: float, verdict: str, harm: float | None = None) -> dict[str, Any]:
        return {"key": key, "share": share, "difference": difference, "verdict": verdict, "harm": harm}

    def worst(*rows: dict[str, Any]) -> Any:
        found = worst_slice({"slices": {"slot": list(rows)}})
        return found and (found[0], found[1]["key"])

    assert worst(row("a", 0.9, -0.9, "worse", 0.01), row("b", 0.1, -0.1, "worse", 0.02)) == ("slot", "b")
    assert worst(row("a", 0.1, 0.5, "different"), row("b", 0.5, -0.2, "different")) == ("slot", "b")
    assert worst(row("a", 0.9, -0.9, "within chance"), row("b", 0.5, 0.9, "better", 0.0)) is None


def row(value: float = 0.75, difference: float = 0.25, verdict: str = "worse", **given: Any) -> dict[str, Any]:
    within = None if verdict == "too few" else False
    made = {"key": "a", "metric": "auc", "share": 0.125, "verdict": verdict, "within_chance": within}
    return {**made, "value": value, "difference": difference, **given}


def test_a_slice_stands_beside_the_value_of_the_whole_and_the_number_of_those_that_are_worse() -> None:
    def said(*rows: dict[str, Any]) -> str:
        return line(auc=0.75, baseline=None, slices={"slot": list(rows)}).partition("; ")[2]

    assert said(row(0.5, -0.25)) == "worst in slot a: auc 0.50000 against 0.75000, 12.5% of the rows."
    assert "slot a (of 2 that are worse): auc" in said(row(0.5, -0.25), row(0.625, -0.125, key="b"))
    assert said(row(0.5, 0.25, "different")).startswith("it differs most in slot a: auc 0.50000 against 0.25000")
    fine = row(verdict="within chance"), row(verdict="better"), row(verdict="too few")
    assert said(*fine) == "no slice is worse than the whole by more than chance (2 tested)."
    assert said(row(verdict="too few")) == ""


def test_a_release_is_held_by_the_conditions_that_hold_alone() -> None:
    def said(*fails: bool) -> str:
        given = [{"condition": f"c{place}", "fails": each} for place, each in enumerate(fails)]
        return line(auc=0.75, baseline=None, conditions=given).partition("; ")[2]

    assert said(False) == "ready for release: the condition does not hold."
    assert said(False, False) == "ready for release: none of 2 conditions holds."
    assert said(True, False, True) == "do not release: c0, c2."


def test_a_difference_has_two_digits_of_its_interval() -> None:
    assert "auc +0.5000 (95%: +0.4992 to +0.5008)" in line(auc=0.75, auc_delta=delta(0.5, 0.4992, 0.5008))
    asked: dict[str, Any] = {"ci": 0.9, "columns": {"prediction": "p"}}
    given = line(auc=0.75, baseline=None, auc_interval={"low": 0.749992, "high": 0.750008}, asked=asked)
    assert given == "The model p has auc 0.750000 (90%: 0.749992 to 0.750008)."
    asked["columns"]["prediction"] = ["p", "q"]  # of two classes
    assert line(auc=0.75, baseline=None, asked=asked) == "The model has auc 0.75000."


def test_no_difference_has_no_sign() -> None:
    assert [Words("en").signed(value) for value in (0, 1, -1, None)] == ["0", "+1", "−1", "—"]
