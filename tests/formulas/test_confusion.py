"""Precision, recall and F1 of counts against scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.formulas import precision_recall_f1


def counts(label, pred, classes):
    right = np.bincount(label[label == pred], minlength=classes)
    return right, np.bincount(pred, minlength=classes), np.bincount(label, minlength=classes), len(label)


@pytest.mark.parametrize("average", ["micro", "macro", None])
@pytest.mark.parametrize("seed", range(4))
def test_shares_equal_scikit_learn(seed, average):
    rng, classes = np.random.default_rng(seed), [2, 5, 40, 3][seed]
    label, pred = rng.integers(0, classes, (2, 60))
    *expected, support = precision_recall_fscore_support(
        label, pred, labels=range(classes), average=average, zero_division=0
    )
    *found, count = precision_recall_f1(*counts(label, pred, classes), average)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert count.tolist() == (60 if average else support.tolist())


def test_percent_of_integers_is_correctly_rounded():
    precision, recall, f1, _ = precision_recall_f1([2900], [100], [100], 100)
    assert (precision, recall, f1) == (29.0, 29.0, 29.0)  # 100 * 0.29 is 28.999999999999996


@pytest.mark.parametrize("average", ["micro", "macro", None])
def test_weights_below_1_have_the_shares_of_their_multiples(average):
    small = precision_recall_f1([0.25, 0.0, 0.0], [0.5, 0.25, 0.0], [0.25, 0.5, 0.0], 0.75, average)
    large = precision_recall_f1([1, 0, 0], [2, 1, 0], [1, 2, 0], 3, average)
    assert [share.tolist() for share in small[:3]] == [share.tolist() for share in large[:3]]


@pytest.mark.parametrize("average", ["micro", "macro", None])
def test_no_samples_are_nan(average):
    zeros = np.zeros(3, np.int64)
    with pytest.warns(
        UndefinedMetricWarning, match="precision, recall and f1-score is undefined: there are no samples"
    ):
        *shares, support = precision_recall_f1(zeros, zeros, zeros, 0, average)
    assert np.isnan(shares).all() and np.shape(shares) == ((3,) if average else (3, 3))
    assert support.sum() == 0


def test_no_classes_are_nan():
    with pytest.warns(UndefinedMetricWarning):
        assert math.isnan(precision_recall_f1([], [], [], 0)[0])


def test_classes_without_samples_are_zero_with_a_warning():
    with pytest.warns(UndefinedMetricWarning, match="precision is undefined: no class is predicted"):
        assert [x.tolist() for x in precision_recall_f1([0, 0], [0, 0], [1, 2], 3)] == [0.0, 0.0, 0.0, 3]
    with pytest.warns(UndefinedMetricWarning, match="recall is undefined: no class is true"):
        assert [x.tolist() for x in precision_recall_f1([0, 0], [1, 2], [0, 0], 3)] == [0.0, 0.0, 0.0, 0]
