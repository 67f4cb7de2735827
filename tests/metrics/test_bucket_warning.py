"""An area over buckets that its own bounds leave uncertain says so: once per compute."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fleetmetrics as fm

RNG = np.random.default_rng(46)
#: 400 rows of a click model whose scores are close together: of many pairs one bucket does not say the order.
SCORES, CLICKS = 0.16 + RNG.normal(size=400) * 0.005, (RNG.random(400) < 0.16).astype(int)
TABLE = 1 / 3 + RNG.uniform(-0.002, 0.002, (400, 3))
TABLE /= TABLE.sum(axis=1, keepdims=True)
CLASSES = RNG.integers(0, 3, 400)


def said(metric, *args, **columns):
    """The value, and what was warned of."""
    metric.add(*args, **columns)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = metric.compute()
    return value, [(each.category, str(each.message)) for each in caught]


def test_400_rows_get_one_warning_that_says_how_far_off_the_area_may_be():
    bounded, silent = said(fm.AUC(bounds=True, name="mine"), SCORES, CLICKS)
    value, found = said(fm.AUC(name="mine"), SCORES, CLICKS)
    assert not silent and value == bounded.value and bounded.high - bounded.low > 0.01
    [(category, text)] = found
    assert category is fm.BucketWarning and issubclass(category, UserWarning)
    assert text.startswith(
        f"mine (AUC): {value:.6g} is an area over buckets; the area of the scores themselves is between "
        f"{bounded.low:.6g} and {bounded.high:.6g}, further apart than tolerance=0.01 allows"
    )
    assert "more buckets=" in text and "ExactAUC" in text and "tolerance=None" in text


@pytest.mark.parametrize(
    ("kind", "settings", "data"),
    [
        (fm.AUC, {"max_fpr": 0.3}, (SCORES, CLICKS)),
        (fm.AUC, {"curve": "PR"}, (SCORES, CLICKS)),
        (fm.AveragePrecision, {}, (SCORES, CLICKS)),
        (fm.AUC, {"ignore_index": -1}, (SCORES, CLICKS)),
        *[(fm.AUC, {"num_classes": 3, "average": average}, (TABLE, CLASSES)) for average in ("macro", "micro", None)],
        (fm.AveragePrecision, {"num_classes": 3, "average": "weighted"}, (TABLE, CLASSES)),
    ],
)
def test_every_area_over_buckets_warns_once_and_has_the_same_value(kind, settings, data):
    value, found = said(kind(**settings), *data)
    assert [category for category, _ in found] == [fm.BucketWarning]
    for more in ({"tolerance": None}, {"tolerance": float("inf")}, {"tolerance": 1}, {"bounds": True}):
        other, silent = said(kind(**settings, **more), *data)
        assert not silent
        assert np.array_equal(other.value if more == {"bounds": True} else other, value)


def test_the_tolerance_is_how_far_apart_the_bounds_may_be():
    bounded, _ = said(fm.AUC(bounds=True), SCORES, CLICKS)
    width = bounded.high - bounded.low
    assert said(fm.AUC(tolerance=width * 0.99), SCORES, CLICKS)[1]
    assert not said(fm.AUC(tolerance=width * 1.01), SCORES, CLICKS)[1]
    assert not said(fm.AUC(buckets=2**20), SCORES, CLICKS)[1]


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), "0.01", True])
def test_a_wrong_tolerance_is_an_error(tolerance):
    with pytest.raises(fm.InvalidInputError, match="tolerance must be a number of at least 0, or None, not"):
        fm.AUC(tolerance=tolerance)


def test_samples_in_buckets_of_their_own_are_exact_and_silent():
    for metric in (fm.AUC(), fm.AUC(tolerance=0), fm.AveragePrecision(tolerance=0)):
        assert not said(metric, [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])[1]


def test_an_undefined_area_says_only_that():
    _, found = said(fm.AUC(), SCORES, np.ones(400))
    assert [category for category, _ in found] == [fm.UndefinedMetricWarning]


def test_wrappers_warn_once():
    slots = np.arange(400) % 4
    _, found = said(fm.Sliced(fm.AUC(), by="slot"), SCORES, CLICKS, slot=slots)
    [(category, text)] = found
    assert category is fm.BucketWarning and "slot 0: " in text and "4 of 4 slices by slot" in text
    assert [each for each, _ in said(fm.Bootstrap(fm.AUC(), 20), SCORES, CLICKS)[1]] == [fm.BucketWarning]
    assert [each for each, _ in said(fm.Windowed(fm.AUC(), 5, lifetime=False), SCORES, CLICKS)[1]] == [fm.BucketWarning]


def test_slices_of_both_kinds_of_warnings_get_one_of_each():
    scores, clicks = np.append(SCORES, [0.5]), np.append(CLICKS, [1])
    _, found = said(fm.Sliced(fm.AUC(), by="slot"), scores, clicks, slot=np.append(np.zeros(400, int), [1]))
    assert sorted(category.__name__ for category, _ in found) == ["BucketWarning", "UndefinedMetricWarning"]


def test_the_drop_in_function_is_paddles_and_silent():
    histogram = [[1.0, 2.0, 3.0], [2.0, 2.0, 2.0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fm.auc(np.array(histogram[0]), np.array(histogram[1]))


@pytest.mark.parametrize("near", [0, 1])
@pytest.mark.parametrize("make", [fm.AUC, fm.AveragePrecision])
def test_scores_that_no_number_of_buckets_parts_are_said_to_be_so(make, near):
    score, label = np.linspace(1e-12, 2e-10, 1000), np.arange(1000) > 500
    score = 1 - 1000 * np.finfo(float).eps * score / 2e-10 if near else score
    for buckets in (4096, 65536):
        metric = make(buckets=buckets)
        metric.add(score, label)
        with pytest.warns(fm.BucketWarning) as warned:
            metric.compute()
        text = str(warned[0].message)
        assert "no number of buckets parts: give ExactAUC" in text
        assert "more buckets=" not in text
    exact = fm.ExactAUC()
    exact.add(score, label)
    assert exact.compute() == 1 - near


def test_scores_that_more_buckets_part_get_that_advice():
    score, label = 0.5 + np.linspace(0, 1e-3, 1000), np.arange(1000) > 500
    metric = fm.AUC()
    metric.add(score, label)
    with pytest.warns(fm.BucketWarning, match="more buckets="):
        metric.compute()
    again = fm.AUC(buckets=2**22)
    again.add(score, label)
    assert again.compute() == pytest.approx(1.0, abs=0.01)
