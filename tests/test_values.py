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
def test_a_value_is_of_the_declared_type_and_prints_plain_numbers(name):
    metric, data = CASES[name].make(), draw(name, first_dtypes(name))
    kind = declared(type(metric))
    feed(metric, [data], "numpy")
    value = metric.compute()
    assert kind in (None, typing.Any) or type(value) is (typing.get_origin(kind) or kind)
    assert "np." not in repr(value)


@pytest.mark.parametrize("kind", [fm.MeanAbsoluteError, fm.GAUC, fm.Calibration, fm.R2Score, fm.Mean], ids=str)
def test_an_undefined_value_is_of_the_declared_type(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.UndefinedMetricWarning)
        value = kind().compute()
    assert type(value) is float
    assert np.isnan(value)


def test_every_part_of_a_result_prints_plain_numbers():
    pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    score = rng.random(600)
    rows = {"y": (rng.random(600) < score).astype(int), "p": score, "q": score**2, "slot": np.arange(600) % 3}
    metrics = "auc,log_loss,precision_at_fixed_recall:min_recall=0.5,brier_decomposition"
    result = fm.evaluate(rows, label="y", score="p", baseline_score="q", by="slot", ci=0.95, metrics=metrics)
    parts = (result.values, result.intervals, result.deltas, result.slices, result.versus, result.new, result.baseline)
    assert "np." not in repr(parts)
    metric = np.float64(2) * fm.Mean() - 1
    metric.add([0.5])
    assert repr(metric.compute()) == "0.0"
