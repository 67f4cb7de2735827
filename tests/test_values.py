"""The value of a metric is of the type that its class declares, `Metric[float]`, and that editors show."""

from __future__ import annotations

import typing
import warnings

import numpy as np
import pytest

import fleetmetrics as fm
from tests.contract import CASES, draw, feed, first_dtypes

pytestmark = pytest.mark.numpy_only


def declared(kind):
    """The argument of the nearest base that has one; None: no class says."""
    for each in kind.__mro__:
        for base in vars(each).get("__orig_bases__", ()):
            for value in typing.get_args(base):
                if isinstance(typing.get_origin(base), type) and not isinstance(value, typing.TypeVar):
                    return value
    return None


@pytest.mark.parametrize("name", CASES)
def test_a_value_is_of_the_declared_type(name):
    metric, data = CASES[name].make(), draw(name, first_dtypes(name))
    kind = declared(type(metric))
    if kind in (None, typing.Any):
        return
    feed(metric, [data], "numpy")
    assert type(metric.compute()) is (typing.get_origin(kind) or kind)


@pytest.mark.parametrize("kind", [fm.MeanAbsoluteError, fm.GAUC, fm.Calibration, fm.R2Score, fm.Mean], ids=str)
def test_an_undefined_value_is_of_the_declared_type(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.UndefinedMetricWarning)
        value = kind().compute()
    assert type(value) is float
    assert np.isnan(value)
