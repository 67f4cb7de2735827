"""Formulas of classification metrics against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score
from sklearn.metrics import log_loss as sklearn_log_loss

from fleetmetrics.formulas import accuracy, log_loss


def test_accuracy_of_counts_equals_scikit_learn_bit_for_bit():
    rng = np.random.default_rng(0)
    for samples in (1, 2, 3, 7, 1000, 4097):
        label, prediction = rng.integers(0, 2, (2, samples))
        assert accuracy((label == prediction).sum(), samples) == accuracy_score(label, prediction)


def test_weighted_accuracy_equals_scikit_learn():
    rng = np.random.default_rng(1)
    label, prediction = rng.integers(0, 4, (2, 1000))
    weight = rng.random(1000)
    expected = accuracy_score(label, prediction, sample_weight=weight)
    assert accuracy(weight[label == prediction].sum(), weight.sum()) == pytest.approx(expected, rel=1e-12, abs=0)


def test_log_loss_equals_scikit_learn():
    rng = np.random.default_rng(2)
    label, probability, weight = rng.integers(0, 2, 1000), rng.random(1000), rng.random(1000)
    likelihood = np.sum(weight * np.log(np.where(label == 1, probability, 1 - probability)))
    expected = sklearn_log_loss(label, probability, sample_weight=weight)
    assert log_loss(likelihood, weight.sum()) == pytest.approx(expected, rel=1e-12, abs=0)


def test_log_loss_of_certainty_is_positive_zero():
    assert str(log_loss(0.0, 3)) == str(log_loss(-0.0, 3)) == "0.0"
