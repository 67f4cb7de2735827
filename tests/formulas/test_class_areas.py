"""Areas of several classes: averages of those of each, and which are left out."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from fleetmetrics import InvalidInputError, UndefinedMetricWarning, formulas

RNG = np.random.default_rng(0)
COUNTS = RNG.integers(0, 9, (4, 2, 30))
NAMES = ("auc", "average_precision")


def of_classes(name, *args, **settings):
    return getattr(formulas, f"{name}_of_classes")(*args, **settings)


def alone(name, bounds=False):
    """The area of one class."""
    return getattr(formulas, f"{name}_bounds" if bounds else f"{name}_from_histogram")


@pytest.mark.parametrize("table", [COUNTS, COUNTS / 3], ids=["counts", "weights"])
@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_an_average_is_that_of_the_areas_of_the_classes(name, bounds, table):
    parts = np.array([alone(name, bounds)(positive, negative) for negative, positive in table])
    support = table[:, 1].sum(axis=1)
    for average, expected in (
        (None, parts.T),
        ("none", parts.T),
        ("macro", parts.mean(axis=0)),
        ("weighted", np.average(parts, axis=0, weights=support)),
        ("micro", alone(name, bounds)(table[:, 1].sum(axis=0), table[:, 0].sum(axis=0))),
    ):
        np.testing.assert_allclose(of_classes(name, table, average, bounds=bounds), expected, rtol=1e-14)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro", None])
def test_a_part_of_the_curve_is_that_of_each_class(average):
    whole, part = (formulas.auc_of_classes(COUNTS, average, max_fpr) for max_fpr in (1, 0.2))
    assert np.array_equal(whole, formulas.auc_of_classes(COUNTS, average))
    if average is None:
        expected = [formulas.auc_from_histogram(positive, negative, 0.2) for negative, positive in COUNTS]
        assert part.tolist() == expected
    assert not np.array_equal(part, whole)


def test_one_class_gives_its_own_area_with_any_average():
    for name in NAMES:
        expected = alone(name)(COUNTS[0, 1], COUNTS[0, 0])
        assert {of_classes(name, COUNTS[:1], average) for average in ("macro", "weighted", "micro")} == {expected}


@pytest.mark.parametrize("name", NAMES)
def test_a_class_without_an_area_is_left_out_and_named_or_counts_as_asked(name):
    table = COUNTS.copy()
    table[[0, 2], 1] = 0
    rest = of_classes(name, table[[1, 3]])
    with pytest.warns(UndefinedMetricWarning, match=f"^{name} of label 0, 2 is undefined: never true") as told:
        assert of_classes(name, table, of="label") == rest
    assert len(told) == 1 and "the macro average leaves it out" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert of_classes(name, table, zero_division=1.0) == pytest.approx((2 * rest + 2) / 4, rel=1e-15)
        assert of_classes(name, table, "weighted") == of_classes(name, table[[1, 3]], "weighted")
        assert of_classes(name, table, None, zero_division=1.0)[[0, 2]].tolist() == [1, 1]


@pytest.mark.parametrize("average", ["macro", "weighted", "micro", None])
@pytest.mark.parametrize("name", NAMES)
def test_no_area_at_all_is_one_warning_or_what_was_asked_for(name, average):
    nobody = COUNTS.copy()
    nobody[:, 1] = 0
    for table in (nobody, np.zeros((4, 2, 30), np.int64)):
        for bounds in (False, True):
            with pytest.warns(UndefinedMetricWarning) as told:
                assert np.isnan(of_classes(name, table, average, bounds=bounds)).all()
            assert len(told) == 1
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = of_classes(name, table, average, zero_division=0.25, bounds=bounds)
            assert (np.array(found) == 0.25).all()


def test_more_than_five_classes_are_counted_and_a_large_table_is_averaged_without_rounding():
    table = np.zeros((12, 2, 3))
    table[:4] = 0.1
    with pytest.warns(UndefinedMetricWarning, match="auc of class 4, 5, 6, 7, 8 and 3 more is undefined"):
        assert formulas.auc_of_classes(table) == formulas.auc_from_histogram(table[0, 1], table[0, 0])
    assert formulas.auc_of_classes(np.full((7, 2, 9), 0.1), "weighted") == 0.5
    assert math.isclose(formulas.average_precision_of_classes(np.full((7, 2, 9), 2**61), "weighted"), 0.5)


@pytest.mark.parametrize("bounds", [False, True])
@pytest.mark.parametrize("average", ["macro", "weighted", "micro", None])
@pytest.mark.parametrize("name", NAMES)
def test_counts_may_be_as_large_as_integers_get(name, average, bounds):
    small = of_classes(name, COUNTS.astype(float), average, bounds=bounds)
    for scale in (2**59, 2**70):  # the second one makes Python's integers
        found = of_classes(name, (COUNTS.astype(object) * scale).tolist(), average, bounds=bounds)
        if name == "auc" or not bounds:
            np.testing.assert_allclose(found, small, rtol=1e-12)
        else:  # the lowest order of this many samples is that of weights
            np.testing.assert_allclose(found, small, rtol=1e-6)
        whole = of_classes(name, COUNTS * 2**59, average, bounds=bounds)
        np.testing.assert_allclose(whole, found, rtol=1e-12)


def test_the_area_of_all_together_is_the_correctly_rounded_quotient():
    table = np.array([[[2**62, 3], [1, 2**62]], [[2**62, 5], [7, 2**62 - 1]], [[2**62, 1], [0, 2**62]]])
    negative, positive = [[sum(column) for column in zip(*rows)] for rows in zip(*table.tolist())]
    right = negative[0] * (2 * positive[1] + positive[0]) + negative[1] * positive[1]
    assert formulas.auc_of_classes(table, "micro") == right / (2 * sum(negative) * sum(positive))
    assert formulas.auc_from_histogram(positive, negative) == right / (2 * sum(negative) * sum(positive))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        areas = formulas.auc_of_classes(table, None)
        assert formulas.auc_of_classes(table, "weighted") == pytest.approx(np.mean(areas), rel=1e-15)
    with pytest.warns(UndefinedMetricWarning, match="no sample is labeled 1"):
        formulas.auc_of_classes([[[2**62, 2**62, 2**62], [0, 0, 0]]], "micro")


@pytest.mark.parametrize("name", NAMES)
def test_an_invalid_histogram_of_classes_or_average_is_an_error(name):
    for average in ("foo", "auto", 1, ["macro"]):
        with pytest.raises(
            InvalidInputError, match="average must be one of 'macro', 'weighted', 'micro', 'none', None"
        ):
            of_classes(name, COUNTS, average)
    for table in (COUNTS[0], COUNTS[:, :1], COUNTS[:, [0, 1, 1]], [], 1.0):
        with pytest.raises(
            InvalidInputError, match=r"histogram must be an array of numbers of shape \[classes, 2, buckets\]"
        ):
            of_classes(name, table)
    for table in (COUNTS.astype(str), [[[None], [1]]], [[[1, 2], [1]], [[1, 2], [1, 2]]]):
        with pytest.raises(InvalidInputError, match="histogram must be an array of numbers, not"):
            of_classes(name, table)
