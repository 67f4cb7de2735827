"""The report's plots by slice, and its list of what is significant, from the result's dict alone."""

from __future__ import annotations

from typing import Any

import pytest

from fleetmetrics.report.by_slice import _ticks, ends_of, plots, significant
from fleetmetrics.words import Words

pytestmark = pytest.mark.numpy_only

ABOUT = {"auc": {"kind": "AUC", "better": "higher"}, "calibration": {"kind": "Calibration", "better": ""}}
WORDS = Words("en")


def row(
    key: str, value: float, verdict: str = "within chance", calibration: float = 1.0, **more: Any
) -> dict[str, Any]:
    values = {"auc": value, "calibration": calibration}
    numbers = {"difference": value - 0.75, "share": 0.1, "rows": 100}
    return {"key": key, "metric": "auc", "value": value, "verdict": verdict, "metrics": values, **numbers, **more}


def delta(key: str, old: float, new: float, verdict: str, **more: Any) -> dict[str, Any]:
    numbers = {"value": new, "baseline": old, "delta": new - old, "low": new - old - 0.01, "high": new - old + 0.01}
    return {
        "key": key,
        "metric": "auc",
        "rows": 100,
        "verdict": verdict,
        "deltas": {"calibration": 0.25},
        **numbers,
        **more,
    }


def result(rows: list[dict[str, Any]], deltas: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    versus = {"slot": {"metric": "auc", "slices": deltas}} if deltas else {}
    made = {"about": ABOUT, "asked": {}, "auc": 0.75, "rows": 1000, "slices": {"slot": rows}, "baseline": None}
    return {**made, "versus": versus, **more}


def test_each_slice_has_its_old_and_its_new_value_on_one_axis_and_the_worse_one_comes_first() -> None:
    rows = [row("a", 0.8), row("b", 0.7)]
    area, calibration = plots(result(rows, [delta("a", 0.7, 0.8, "better"), delta("b", 0.8, 0.7, "worse")]), WORDS)
    assert area.title == "AUC by slot, new against baseline" and area.paired and area.reference == "all rows"
    assert [(line.key, line.kind) for line in area.lines] == [("b", "worse"), ("a", "better")]
    assert [(line.new < line.old) for line in area.lines] == [True, False]  # type: ignore[operator]
    assert area.whole == pytest.approx(0.5) and area.lines[0].text == "0.8000 → 0.7000"
    assert calibration.reference == "1: calibrated" and calibration.lines[0].text == "0.750 → 1.000"


def test_without_a_baseline_a_slice_has_its_interval_and_one_that_is_too_small_is_faint() -> None:
    few = row("few", 0.5, "too few", low=0.1, high=0.9)
    area, _ = plots(result([row("a", 0.8, "better", low=0.78, high=0.82), few]), WORDS)
    assert not area.paired and area.title == "AUC by slot"
    assert [line.kind for line in area.lines] == ["better", "few"]
    assert area.lines[0].low < area.lines[0].new < area.lines[0].high  # type: ignore[operator]


def test_one_outlier_leaves_the_axis_with_a_mark_and_its_number_and_squeezes_no_other() -> None:
    near = [row(str(place), 0.75 + place / 1000) for place in range(10)]
    area, _ = plots(result([row("out", 0.1, "worse"), *near]), WORDS)
    out, *others = area.lines
    assert (out.key, out.new, out.beyond) == ("out", 0.0, "low") and out.text.startswith("0.1")
    places = [line.new for line in others if line.new is not None]
    assert not any(line.beyond for line in others) and max(places) - min(places) > 0.7
    assert ends_of([0.1, 0.2], None) == (0.1, 0.2)  # two are no crowd
    assert ends_of([*range(10), 12], 0) == (0, 12)  # not far
    assert ends_of([*range(10), 1000], 0) == (0, 9) and ends_of([*range(10), 1000], 1000) == (0, 1000)


@pytest.mark.parametrize(
    "low, high", [(0.0, 1.0), (0.68, 0.81), (-3e-5, 2e-5), (99.0, 1234.0), (1.0, 1.1), (-1e9, 1e9)]
)
def test_an_axis_has_two_to_six_round_numbers_within_it(low: float, high: float) -> None:
    ticks = list(_ticks(low, high))
    assert 2 <= len(ticks) <= 6 and all(low - 1e-9 <= place <= high for place, _ in ticks)
    assert all(round(place, decimals) == pytest.approx(place) for place, decimals in ticks)


def test_a_plot_has_at_most_twenty_slices_and_says_how_many_are_left_out() -> None:
    area, calibration = plots(result([row(str(place), 0.75 + place / 1000) for place in range(25)]), WORDS)
    assert len(area.lines) == len(calibration.lines) == 20 and area.left_out == calibration.left_out == 5


def test_an_undefined_value_has_no_mark_and_slices_without_any_no_plot() -> None:
    none = row("none", 0.5)
    none.update(value=None, metrics={"auc": None, "calibration": None}, difference=None)
    area, _ = plots(result([row("a", 0.8), none]), WORDS)
    assert [line.new for line in area.lines if line.key == "none"] == [None]
    assert list(plots(result([none]), WORDS)) == []
    assert list(plots(result([]), WORDS)) == []


def test_what_is_significant_is_listed_by_what_it_is_compared_with() -> None:
    rows = [row("a", 0.8, "better"), row("b", 0.7, "worse"), row("c", 0.75)]
    deltas = [delta("a", 0.7, 0.8, "within chance"), delta("slot_b", 0.8, 0.7, "worse")]
    values = {"calibration": 1.1, "baseline": {"auc": 0.7, "calibration": 1.25}}
    ends = {
        "calibration_delta": {"value": -0.15, "low": -0.2, "high": -0.1},
        "auc_delta": {"value": 0.05, "low": -1, "high": 1},
    }
    groups = {
        title: (entries, more) for title, entries, more in significant(result(rows, deltas, **values, **ends), WORDS)
    }
    assert list(groups) == [
        "Metrics against the baseline",
        "Worse than the baseline: 1 slice",
        "Worse than all rows: 1 slice",
        "Better than all rows: 1 slice",
    ]
    assert groups["Metrics against the baseline"][0] == [("calibration", "better", "1.2500 → 1.1000, nearer 1")]
    [(key, kind, text)] = groups["Worse than the baseline: 1 slice"][0]
    assert (key, kind) == ("slot_b", "worse")
    assert text == "AUC 0.800 → 0.700, −0.100 (95%: −0.110 to −0.090); 10% of the rows"
    many = significant(result([row(str(place), 0.7, "worse") for place in range(11)]), WORDS)
    [(title, entries, more)] = many
    assert title == "Worse than all rows: 11 slices" and (len(entries), more) == (8, 3)
    assert list(significant(result([row("c", 0.75)]), WORDS)) == []
