"""Areas from two histograms: correctly rounded for counts of any size, scikit-learn's for weights, and their bounds."""

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from fleetmetrics import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.formulas import (
    auc_bounds,
    auc_from_histogram,
    average_precision_bounds,
    average_precision_from_histogram,
)
from fleetmetrics.formulas.auc import areas_of_many
from tests.cover import thorough


def exact_auc(positive, negative):
    """The definition, in rational numbers: pairs ordered right, and half of the tied ones."""
    positive, negative = [list(map(int, np.ravel(counts))) for counts in (positive, negative)]
    right = tied = below = 0
    for p, n in zip(positive, negative):
        right += p * below
        tied += p * n
        below += n
    return Fraction(2 * right + tied, 2 * sum(positive) * sum(negative))


@pytest.mark.parametrize("largest", [1, 3, 2**20, 2**30, 2**31, 2**40, 2**53 + 1, 2**62, 2**63 - 1])
@pytest.mark.parametrize("buckets", [1, 2, 3, 200, 4096])
def test_auc_of_counts_is_correctly_rounded(buckets, largest):
    rng = np.random.default_rng(largest % 1000 + buckets)
    for _ in range(3):
        positive, negative = rng.integers(0, largest, (2, buckets), dtype=np.int64, endpoint=True)
        positive[rng.integers(buckets)] += positive.sum(dtype=object) == 0
        negative[rng.integers(buckets)] += negative.sum(dtype=object) == 0
        assert auc_from_histogram(positive, negative) == float(exact_auc(positive, negative))


def test_one_sample_beside_2_to_53_changes_the_auc_and_not_its_exactness():
    positive, negative = [0, 2**53 + 1, 2], [2**53, 1, 0]
    assert auc_from_histogram(positive, negative) == float(exact_auc(positive, negative))
    assert auc_from_histogram([0, 2**53, 2], negative) == float(exact_auc([0, 2**53, 2], negative))


def test_auc_of_every_small_histogram_is_that_of_scikit_learn_over_the_samples():
    for counts in itertools.product(range(3), repeat=6):
        positive, negative = np.array(counts[:3]), np.array(counts[3:])
        if positive.sum() and negative.sum():
            score = np.concatenate([np.repeat(np.arange(3), positive), np.repeat(np.arange(3), negative)])
            label = np.repeat([1, 0], [positive.sum(), negative.sum()])
            assert auc_from_histogram(positive, negative) == pytest.approx(roc_auc_score(label, score), rel=1e-15)


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_auc_of_weights_is_scikit_learns(scale):
    rng = np.random.default_rng(5)
    label, bucket, weight = rng.integers(0, 2, 3000), rng.integers(0, 100, 3000), rng.random(3000) * scale
    positive, negative = (np.bincount(bucket[label == c], weight[label == c], 100) for c in (1, 0))
    expected = roc_auc_score(label, bucket, sample_weight=weight)
    assert auc_from_histogram(positive, negative) == pytest.approx(expected, rel=1e-12, abs=0)


def test_integer_weights_as_floats_give_the_auc_of_counts():
    rng = np.random.default_rng(6)
    positive, negative = rng.integers(0, 50, (2, 64))
    expected = auc_from_histogram(positive, negative)
    for kinds in [(float, float), (int, float), (float, int)]:
        mixed = auc_from_histogram(positive.astype(kinds[0]), negative.astype(kinds[1]))
        assert mixed == pytest.approx(expected, rel=1e-14, abs=0)


def test_weighted_auc_never_leaves_0_to_1():
    rng = np.random.default_rng(7)
    for _ in range(300):
        low, high = rng.random((2, 10)) * 10.0 ** rng.integers(-8, 8, (2, 10))
        positive, negative = np.append(np.zeros(10), high), np.append(low, np.zeros(10))
        assert 0.99999999 < auc_from_histogram(positive, negative) <= 1.0
        assert auc_from_histogram(negative, positive) == 0.0


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int32, np.int64])
def test_narrow_counts_do_not_overflow(dtype):
    largest = 1 if dtype is bool else min(int(np.iinfo(dtype).max), 2**50)
    positive, negative = np.full((2, 300), largest, dtype)
    assert auc_from_histogram(positive, negative) == 0.5


def test_shape_of_the_histograms_does_not_matter():
    for shape in [(4,), (1, 4), (4, 1), (2, 2)]:
        positive, negative = np.reshape([0, 1, 2, 3], shape), np.reshape([3, 2, 1, 0], shape)
        assert auc_from_histogram(positive, negative) == float(exact_auc([0, 1, 2, 3], [3, 2, 1, 0]))


def test_inputs_stay_as_they_are():
    positive, negative = np.array([0, 1, 2]), np.array([2, 1, 0])
    auc_from_histogram(positive, negative)
    assert positive.tolist() == [0, 1, 2] and negative.tolist() == [2, 1, 0]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("positive, negative", [([0, 0], [0, 0]), ([1, 2], [0, 0]), ([0, 0], [1, 2]), ([], [])])
def test_one_class_is_half_with_a_warning_that_says_which(positive, negative, dtype):
    positive, negative = np.array(positive, dtype), np.array(negative, dtype)
    none = not positive.any(), not negative.any()
    why = "there are no samples" if all(none) else f"no sample is labeled {int(none[0])}"
    with pytest.warns(UndefinedMetricWarning, match=why):
        assert auc_from_histogram(positive, negative) == 0.5


def test_a_defined_auc_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert auc_from_histogram([1, 0], [0, 1]) == 0.0
        assert math.isclose(auc_from_histogram([0.5, 0.0], [0.0, 0.25]), 0.0)


@pytest.mark.parametrize("value", [0.25, math.nan])
@pytest.mark.parametrize("area", [auc_from_histogram, average_precision_from_histogram])
def test_an_undefined_area_is_zero_division_without_a_warning_or_nan_with_one(area, value):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = area([0, 0], [1, 2], zero_division=value)
    assert result == value or (math.isnan(value) and math.isnan(result))
    assert len(told) == math.isnan(value)


def samples(rng, buckets):
    """Buckets, scores whose order agrees with them, ties inside and across, labels and weights."""
    size = int(rng.integers(2, 60))
    bucket = rng.integers(0, buckets, size)
    score = bucket + np.where(rng.random(size) < 0.5, rng.integers(0, 3, size) / 4, rng.random(size) / 2)
    label = rng.random(size) < rng.choice([0.1, 0.5, 0.9])
    label[:2] = True, False
    return bucket, score, label, rng.random(size) * 10.0 ** rng.integers(-3, 3, size)


def histograms(bucket, label, weight):
    weights = [None if weight is None else weight[label == c] for c in (1, 0)]
    return [np.bincount(bucket[label == c], each, 9) for c, each in zip((1, 0), weights)]


@pytest.mark.parametrize("max_fpr", [0.01, 0.3, 0.9, 1.0])
def test_partial_area_is_scikit_learns(max_fpr):
    rng = np.random.default_rng(11)
    for _ in range(30):
        bucket, _, label, weight = samples(rng, 9)
        for w in (None, weight):
            expected = roc_auc_score(label, bucket, sample_weight=w, max_fpr=max_fpr)
            assert auc_from_histogram(*histograms(bucket, label, w), max_fpr) == pytest.approx(expected, abs=1e-12)


def test_average_precision_is_scikit_learns():
    rng = np.random.default_rng(12)
    for _ in range(30):
        bucket, _, label, weight = samples(rng, 9)
        for w in (None, weight):
            expected = average_precision_score(label, bucket, sample_weight=w)
            assert average_precision_from_histogram(*histograms(bucket, label, w)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("max_fpr", [0.3, *thorough(None, 0.01)])
def test_area_of_the_raw_scores_lies_between_the_bounds(max_fpr):
    rng = np.random.default_rng(13)
    for number in range(150):
        bucket, score, label, weight = samples(rng, 1 + number % 9)
        for w in (None, weight):
            value, low, high = auc_bounds(*histograms(bucket, label, w), max_fpr)
            exact = roc_auc_score(label, score, sample_weight=w, max_fpr=max_fpr)
            assert low - 1e-12 <= exact <= high + 1e-12 and low <= value <= high
            assert value == auc_from_histogram(*histograms(bucket, label, w), max_fpr)


def test_average_precision_of_the_raw_scores_lies_between_the_bounds():
    rng = np.random.default_rng(14)
    for number in range(150):
        bucket, score, label, weight = samples(rng, 1 + number % 9)
        for w in (None, weight):
            value, low, high = average_precision_bounds(*histograms(bucket, label, w))
            exact = average_precision_score(label, score, sample_weight=w)
            assert low - 1e-12 <= exact <= high + 1e-12 and low <= value <= high
            assert value == average_precision_from_histogram(*histograms(bucket, label, w))


#: Of one bucket's samples: every way to tie and order them, as scores inside the bucket.
ORDERS = {
    size: [
        np.array(order) / 8
        for order in itertools.product(range(size), repeat=size)
        if {*order} == {*range(max(order) + 1)}
    ]
    for size in range(1, 5)
}


@pytest.mark.parametrize("area", ["part of roc", *thorough("roc", "precision and recall")])
def test_bounds_of_counts_are_reached_by_an_order_inside_the_buckets(area):
    bounds, exact = {
        "roc": (auc_bounds, roc_auc_score),
        "part of roc": (lambda p, n: auc_bounds(p, n, 0.3), lambda y, s: roc_auc_score(y, s, max_fpr=0.3)),
        "precision and recall": (average_precision_bounds, average_precision_score),
    }[area]
    for positive, negative in [([1, 2], [2, 0]), ([2, 1], [1, 2]), ([0, 2], [2, 2]), ([1, 1], [0, 3])]:
        label = np.repeat([1, 0, 1, 0], [positive[0], negative[0], positive[1], negative[1]])
        sizes = [positive[0] + negative[0], positive[1] + negative[1]]
        inside = itertools.product(*(ORDERS[size] for size in sizes))
        areas = [exact(label, np.concatenate([low, 1 + high])) for low, high in inside]
        _, low, high = bounds(positive, negative)
        assert (low, high) == (pytest.approx(min(areas), abs=1e-13), pytest.approx(max(areas), abs=1e-13))


def test_bounds_meet_where_no_bucket_holds_both_classes():
    assert len(set(auc_bounds([0, 2, 0, 3], [5, 0, 1, 0]))) == 1
    assert len({round(each, 14) for each in average_precision_bounds([0, 1, 0, 1], [5, 0, 2, 0])}) == 1


def test_average_precision_bounds_of_large_counts_keep_their_digits():
    """The sum over single samples, where it is done by a series."""
    for p, n, above in [(5, 3, 0), (1000, 1, 7), (20_000, 30_000, 11), (3, 10**6, 10**6)]:
        expected = sum((above + i) / (above + i + n) for i in range(1, p + 1)) / (p + above) + above / (p + above)
        _, low, _ = average_precision_bounds([p, above], [n, 0])
        assert low == pytest.approx(expected, rel=1e-12)
    _, low, _ = average_precision_bounds([2**40], [2**41])
    assert low == pytest.approx(1 - 2 * math.log(3 / 2), rel=1e-10)  # the integral


@pytest.mark.parametrize("value", [0, -0.5, 1.5, math.nan, "0.5", True])
def test_a_false_positive_rate_that_cannot_be_is_an_error_that_says_what_is_allowed(value):
    with pytest.raises(
        InvalidInputError, match=r"max_fpr must be None or a number above 0 and at most 1, not "
    ) as error:
        auc_from_histogram([1, 0], [0, 1], max_fpr=value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("size", [1, 100, 2**24, 2**40])
def test_areas_of_many_histograms_are_those_of_each_to_the_bit(size):
    rng = np.random.default_rng(size)
    positive, negative = rng.integers(0, size, (2, 70, 30), endpoint=True)
    positive[3], negative[5], positive[7, ::2] = 0, 0, 0
    found = areas_of_many(positive, negative)
    for place, (p, n) in enumerate(zip(positive, negative)):
        if p.any() and n.any():
            assert tuple(each[place] for each in found) == auc_bounds(p, n)
            assert found.value[place] == float(exact_auc(p, n))
        else:
            assert all(math.isnan(each[place]) for each in found)
