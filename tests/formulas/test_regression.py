"""Formulas of regression metrics against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

from fleetmetrics import formulas

RNG = np.random.default_rng(3)
PREDICTION, LABEL, WEIGHT = RNG.normal(size=(3, 1000))
WEIGHT = np.abs(WEIGHT)
ERROR = np.abs(PREDICTION - LABEL)


@pytest.mark.parametrize("weight", [np.ones(1000), WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("power, name", [(1, "mean_absolute_error"), (2, "mean_squared_error")])
def test_mean_error_equals_scikit_learn(name, power, weight):
    expected = getattr(metrics, name)(LABEL, PREDICTION, sample_weight=weight)
    value = getattr(formulas, name)(np.sum(weight * ERROR**power), weight.sum())
    assert value == pytest.approx(expected, rel=1e-12, abs=0)


def test_root_mean_squared_error_is_the_root_of_the_mean_and_no_mean_of_roots():
    squared = np.array([9.0, 16.0])
    assert formulas.root_mean_squared_error(squared.sum(), 2) == np.sqrt(12.5) != np.mean(np.sqrt(squared))


def test_errors_of_zero_are_zero():
    for formula in (formulas.mean_absolute_error, formulas.mean_squared_error, formulas.root_mean_squared_error):
        assert formula(np.zeros([1, 1]), np.array([3])) == 0.0
