"""The verdicts on slices after their tests: harm, order, and what slices explain."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fleetmetrics import GAUC, BrierScore, ClickThroughRate, LogLoss, Sliced
from fleetmetrics.evaluation.arguments.options import Options
from fleetmetrics.evaluation.question import evidence
from fleetmetrics.evaluation.question.probe import Probe, Slices
from fleetmetrics.evaluation.verdicts.slices import Judged, judged
from fleetmetrics.formulas.slices import SliceTests, false_discovery_rates

pytestmark = pytest.mark.numpy_only

#: What a slice has: rows, its value where the whole has 0.5, p of its test, standard error, positives, needs.
SLICE = {"rows": 100, "value": 0.5, "p": 0.9, "error": 0.0, "positives": 50, "needs": {}}


class Evidence:
    """Stands in for the test of slices; keeps the confidence that it was asked for."""

    def __init__(self, together: float | None) -> None:
        self.confidence: list[float] = []
        self.together = together

    def tested(self, slices: Any, whole: Any, confidence: float) -> evidence.Tested:
        self.confidence.append(confidence)
        of = {name: np.array([each[name] for each in slices]) for name in ("p", "error")}
        nothing = np.full(len(slices), math.nan)
        value = np.array([each["value"] for each in slices])
        tests = SliceTests(nothing, of["p"], of["error"], nothing, nothing, nothing, nothing)
        return evidence.Tested(tests, value - 0.01, value + 0.01, [each["needs"] for each in slices], self.together)


def told(
    *columns: dict[str, Any],
    better: str = "higher",
    ci: float | None = None,
    least: int = 0,
    together: float | None = None,
) -> Judged:
    """The verdicts on slices: a dict by key for each column."""
    slices = []
    for column in columns:
        made = {key: {**SLICE, **each} for key, each in column.items()}
        slices.append(
            Slices(
                {key: each["rows"] for key, each in made.items()},
                {"auc": {key: each["value"] for key, each in made.items()}},
                {"positives": {key: each["positives"] for key, each in made.items()}},
                made,
            )
        )
    asked: Any = SimpleNamespace(
        by=[f"column {place}" for place in range(len(columns))],
        first=SimpleNamespace(better=better),
        ranking="auc",
        confidence=Options("label", "score", ci=ci).confidence,
        evidence=Evidence(together),
        min_positives=least,
    )
    found = judged(Probe(1000, {"auc": 0.5}, slices=slices, evidence="whole"), asked)
    assert asked.evidence.confidence == [ci or 0.95] * len(columns)
    return found


def verdicts(found: Judged, column: str = "column 0") -> dict[Any, str | None]:
    return {each.key: each.verdict for each in found.slices[column]}


def test_what_is_beyond_chance_depends_on_the_confidence_that_was_asked_for() -> None:
    slices = {"a": {"value": 0.4, "p": 0.07}}
    assert verdicts(told(slices)) == {"a": "within chance"}
    assert verdicts(told(slices, ci=0.9)) == {"a": "worse"}
    assert verdicts(told({"a": {"value": 0.4, "p": 0.03}}, ci=0.99)) == {"a": "within chance"}


def test_a_verdict_is_worse_better_or_different_and_only_worse_slices_do_harm() -> None:
    slices = {"low": {"value": 0.4, "p": 1e-9}, "high": {"value": 0.7, "p": 1e-9}, "alike": {"value": 0.49}}
    found = told(slices)
    assert verdicts(found) == {"low": "worse", "high": "better", "alike": "within chance"}
    harm = {each.key: each.harm for each in found.slices["column 0"]}
    assert harm["low"] == pytest.approx(0.1 * 0.1) and harm["high"] == 0 and math.isnan(harm["alike"])
    assert verdicts(told(slices, better="lower")) == {"high": "worse", "low": "better", "alike": "within chance"}
    neither = told(slices, better="")
    assert verdicts(neither) == {"high": "different", "low": "different", "alike": "within chance"}
    assert all(math.isnan(each.harm) for each in neither.slices["column 0"])
    assert found.least_q == neither.least_q == pytest.approx(1.5e-9)
    assert found.verdicts == {"worse": 1, "different": 0, "better": 1, "within chance": 1, "too few": 0}
    assert told({"a": {}}).least_q == 1


def test_slices_that_share_users_are_compared_with_all_slices_together_in_every_number() -> None:
    """A slice may lie above the value of all rows, 0.5, and below what the slices have together."""
    found = told({"a": {"value": 0.6, "p": 1e-9}, "b": {"value": 0.8, "p": 1e-9}}, together=0.7)
    a, b = found.slices["column 0"]
    assert (a.verdict, b.verdict) == ("worse", "better")
    assert (a.difference, a.harm) == (pytest.approx(-0.1), pytest.approx(0.1 * 0.1))
    assert (b.difference, b.harm) == (pytest.approx(0.1), 0)
    assert found.explained["column 0"] == pytest.approx(0.1)
    assert found.references == {"column 0": 0.7}
    for same in (0.5, 0.5 + 1e-12, math.nan, None):  # of slices that share no users, up to rounding
        found = told({"a": {"value": 0.4, "p": 1e-9}}, together=same)
        assert found.references == {} and found.slices["column 0"][0].difference == pytest.approx(-0.1)


def test_slices_are_ordered_by_verdict_then_harm_then_effect_and_those_without_a_value_come_last() -> None:
    found = told(
        {
            "no value": {"value": math.nan, "p": math.nan},
            "alike": {"value": 0.45, "rows": 300},
            "a little": {"value": 0.49, "rows": 300},
            "few": {"value": 0.1, "p": math.nan, "needs": {"positives": 9}},
            "better": {"value": 0.9, "p": 1e-9, "rows": 400},
            "small and bad": {"value": 0.2, "p": 1e-9, "rows": 10},
            "large and bad": {"value": 0.4, "p": 1e-9, "rows": 200},
        }
    )
    order = ["large and bad", "small and bad", "better", "alike", "a little", "no value", "few"]
    assert list(verdicts(found)) == order


def test_a_slice_has_the_share_of_all_rows_and_not_of_those_in_slices() -> None:
    [each] = told({"a": {"rows": 100, "value": 0.4}}).slices["column 0"]
    assert (each.share, each.difference) == (0.1, pytest.approx(-0.1))
    assert (each.low, each.high) == (pytest.approx(0.39), pytest.approx(0.41))


def test_slices_explain_what_their_distance_is_beyond_chance_and_the_column_that_explains_most_comes_first() -> None:
    chance = {"a": {"value": 0.52, "error": 0.03}, "b": {"value": 0.47, "error": 0.03}}
    some = {"c": {"value": 0.6, "error": 0.06}, "d": {"value": 0.4, "error": 0.06, "rows": 300}}
    nothing = {"e": {"p": math.nan}}
    found = told(nothing, chance, some)
    assert list(found.slices) == list(found.explained) == ["column 2", "column 1", "column 0"]
    assert found.explained["column 2"] == pytest.approx(math.sqrt(0.1**2 - 0.06**2))
    assert found.explained["column 1"] == 0 and math.isnan(found.explained["column 0"])


def test_false_calls_are_counted_over_the_slices_of_all_columns_together() -> None:
    one, many = {"a": {"value": 0.4, "p": 0.03}}, {place: {"p": 0.5} for place in range(9)}
    assert verdicts(told(one)) == {"a": "worse"}
    assert verdicts(told(one, many)) == {"a": "within chance"}


def test_a_slice_of_fewer_positives_than_asked_for_has_too_few_and_says_how_many_it_needs() -> None:
    slices = {
        "enough": {"value": 0.4, "p": 0.03, "positives": 20},
        "fewer": {"value": 0.3, "p": 1e-9, "positives": 19},
        "far fewer": {"value": 0.3, "p": math.nan, "positives": 1, "needs": {"positives": 30, "negatives": 7}},
    }
    found = told(slices, least=20)
    assert verdicts(found) == {"enough": "worse", "fewer": "too few", "far fewer": "too few"}
    each = {each.key: each for each in found.slices["column 0"]}
    assert each["enough"].q == 0.03  # what is not tested is no test among others
    assert each["fewer"].needs == {"positives": 20} and math.isnan(each["fewer"].p)
    assert each["far fewer"].needs == {"positives": 30, "negatives": 7}
    assert [each[key].within_chance for key in slices] == [False, None, None]
    assert told({"a": {}}).slices["column 0"][0].within_chance is True
    assert math.isnan(each["fewer"].harm)


@pytest.mark.parametrize(("metric", "uneven", "runs"), [(ClickThroughRate, 0.7, 16), (GAUC, 0.85, 12)])
@pytest.mark.thorough
def test_the_slices_of_the_largest_users_are_called_no_more_often_than_promised(
    metric: Any, uneven: float, runs: int
) -> None:
    """A user with 2 or 5 % of all rows decides its slice, and hides how skew the others are."""
    random, called, found = np.random.default_rng(1), 0, []
    share = np.arange(1, 5_001) ** -uneven
    for _ in range(runs):
        user = random.choice(5_000, 30_000, p=share / share.sum())
        logit = random.normal(-1.7, 1, 30_000)
        rate = 1 / (1 + np.exp(-logit - random.normal(0, 1.5, 5_000)[user]))
        click, slot = (random.random(30_000) < rate).astype(int), random.integers(0, 100, 5_000)[user]
        test = evidence.evidence_of(metric(), False, True, False)
        assert test is not None
        inside = Sliced(test.of_slice(), "slot", max_keys=None)
        inside.add(1 / (1 + np.exp(-logit)), click, slot=slot, user=user)
        p = test.tested(list(inside.compute_local().values()), None, 0.95).tests.p_value
        called += (false_discovery_rates(p) <= 0.05).any()
        found.append(p[~np.isnan(p)])
    known = np.concatenate(found)
    assert len(known) > 100 and np.mean(known <= 0.05) <= 0.055 and called <= 2


@pytest.mark.parametrize("metric", [LogLoss, ClickThroughRate])
@pytest.mark.parametrize("by_user", [False, True])
def test_the_slices_of_the_largest_weights_are_called_no_more_often_than_promised(metric: Any, by_user: bool) -> None:
    """A row may weigh as much as all others of its slice."""
    random, called, found = np.random.default_rng(3), 0, []
    for _ in range(24):
        logit = random.normal(-0.85, 1, 15_000)
        label = (random.random(15_000) < 1 / (1 + np.exp(-logit))).astype(int)
        weight, slot = random.lognormal(0, 2, 15_000), random.integers(0, 50, 15_000)
        users = {"user": np.arange(15_000) // 3} if by_user else {}
        slot = slot[users["user"]] if by_user else slot
        test = evidence.evidence_of(metric(), True, by_user, False)
        assert test is not None
        inside = Sliced(test.of_slice(), "slot", max_keys=None)
        inside.add(1 / (1 + np.exp(-logit)), label, weight=weight, slot=slot, **users)
        p = test.tested(list(inside.compute_local().values()), None, 0.95).tests.p_value
        called += (false_discovery_rates(p) <= 0.05).any()
        found.append(p[~np.isnan(p)])
    known = np.concatenate(found)
    assert len(known) > 100 and np.mean(known <= 0.05) <= 0.055 and called <= 2


def test_a_slice_of_as_many_rows_as_it_needs_has_a_verdict_however_its_rows_come_in_batches() -> None:
    for seed in range(8):
        random, rows = np.random.default_rng(seed), np.arange(100)
        p, slot = random.random(100), rows // 5
        label = (random.random(100) < p).astype(int)
        known = []
        for parts in (1, 2, 7):
            test = evidence.evidence_of(BrierScore(), False, False, False)
            assert test is not None
            inside, whole = Sliced(test.of_slice(), "slot", max_keys=None), test.of_whole()
            assert whole is not None
            for part in np.array_split(rows, parts):
                inside.add(p[part], label[part], slot=slot[part])
                whole.add(p[part], label[part])
            found = test.tested(list(inside.compute_local().values()), whole.compute_local(), 0.95)
            assert not any(need == 5 for needs in found.needs for need in needs.values())
            known.append(np.isnan(found.tests.p_value).tolist())
        assert known[0] == known[1] == known[2]
