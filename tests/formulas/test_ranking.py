"""AUC from two histograms: correctly rounded for counts of any size, scikit-learn's for weights."""

import itertools
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fleetmetrics import UndefinedMetricWarning
from fleetmetrics.formulas import auc_from_histogram


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
    weights = rf"samples labelled 1 is {positive.sum()}, of those labelled 0 {negative.sum()}"
    with pytest.warns(UndefinedMetricWarning, match=weights):
        assert auc_from_histogram(positive, negative) == 0.5


def test_a_defined_auc_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert auc_from_histogram([1, 0], [0, 1]) == 0.0
        assert math.isclose(auc_from_histogram([0.5, 0.0], [0.0, 0.25]), 0.0)
