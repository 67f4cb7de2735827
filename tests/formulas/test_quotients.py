"""The quotient behind most formulas: exact for integers of any size, nan without samples."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from fleetmetrics import UndefinedMetricWarning
from fleetmetrics.formulas import ratio
from fleetmetrics.formulas.quotients import undefined

ONE_NUMBER = {
    "python": lambda number: number,
    "scalar": np.int64,
    "0-d": np.array,
    "[1]": lambda number: np.array([number]),
    "[1, 1]": lambda number: np.array([[number]]),
}


@pytest.mark.parametrize("form", ONE_NUMBER)
def test_quotient_of_integers_above_2_to_53_is_correctly_rounded(form):
    one_number = ONE_NUMBER[form]
    for above, below in [(2**53 + 1, 2**53 + 3), (2**62 + 1, 2**62 + 2**10 + 1), (3, 2**63 - 1), (2**63 - 1, 7)]:
        assert ratio(one_number(above), one_number(below), "metric") == float(Fraction(above, below))


def test_quotient_of_2_to_24_plus_1_samples_is_that_of_float64():
    assert ratio(2**24 + 1, 2**25, "metric") == (2**24 + 1) / 2**25 != 0.5


@pytest.mark.parametrize("form", ONE_NUMBER)
def test_ratio_is_a_python_float(form):
    assert type(ratio(ONE_NUMBER[form](1), ONE_NUMBER[form](1), "metric")) is float


@pytest.mark.parametrize("zero", [0, 0.0, -0.0, np.int64(0), np.zeros([1]), np.zeros([], np.int64)])
def test_no_samples_are_nan_with_a_warning_that_names_the_metric(zero):
    with pytest.warns(UndefinedMetricWarning, match="accuracy is undefined: there are no samples"):
        assert math.isnan(ratio(zero, zero, "accuracy"))


def test_a_defined_ratio_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ratio(0, 5, "metric") == 0.0


def test_undefined_returns_the_stand_in_and_says_it():
    with pytest.warns(UndefinedMetricWarning, match=r"auc is undefined: one class only; the value is 0\.5"):
        assert undefined("auc", "one class only", 0.5) == 0.5
