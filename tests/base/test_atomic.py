"""A batch is added whole or not at all, and what no float64 can hold is an error that says so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fleetmetrics as fm
from tests.contract import Data, feed, state_bytes
from tests.fakes import together


def test_a_sum_that_overflows_leaves_the_other_members_as_they_were():
    metrics = fm.MetricCollection([fm.Count(name="n"), fm.Max(name="max"), fm.MeanAbsoluteError(name="mae")], name="it")
    metrics.add([1.0, 2.0], [0.0, 0.0])
    before = state_bytes(metrics)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(fm.InvalidInputError, match=r"it\.mae\.absolute_error would no longer be finite"):
            metrics.add([1.7e308, 1.7e308], [0.0, 0.0])
    assert state_bytes(metrics) == before
    assert metrics.compute() == {"n": 2, "max": 2.0, "mae": 1.5}


@pytest.mark.numpy_only
@pytest.mark.parametrize("kept", [False, True])
def test_a_sum_that_overflows_leaves_the_samples_that_others_keep_as_they_were(kept):
    metrics = fm.MetricCollection({"gauc": fm.GAUC(), "exact": fm.ExactAUC(), "mae": fm.MeanAbsoluteError()})
    if kept:
        metrics.add([0.25, 0.5, 0.75], [1, 0, 1], user=[1, 1, 1])
    before, value = metrics.state_dict(), metrics.compute() if kept else None
    with pytest.raises(fm.InvalidInputError, match=r"mae\.absolute_error would no longer be finite"):
        metrics.add([1.7e308, 1.7e308], [0, 1], user=[1, 1])
    after = metrics.state_dict()
    assert {key: array.tobytes() for key, array in after.items()} == {k: array.tobytes() for k, array in before.items()}
    assert not kept or metrics.compute() == value


def test_a_sum_of_integers_that_overflows_leaves_what_was_there():
    metric = fm.Sum(name="it")
    metric.add([2**63 - 1])
    before = state_bytes(metric)
    with pytest.raises(fm.IntegerOverflowError):
        metric.add([2**63 - 1])
    assert state_bytes(metric) == before and metric.compute() == 2**63 - 1


def test_an_overflow_in_a_collection_names_its_key():
    def overflown(act):
        with pytest.raises(fm.FleetMetricsError) as caught:
            act()
        assert isinstance(caught.value, (fm.IntegerOverflowError, fm.InvalidInputError))
        assert "all.its" in str(caught.value), caught.value

    def collection(**members):
        return fm.MetricCollection({"n": fm.Count(), **members, "least": fm.Min()}, name="all")

    metrics = collection(its=fm.Sum())
    overflown(lambda: metrics.add([2**63 - 1, 2**63 - 1]))
    metrics.add([2**63 - 1])
    before = state_bytes(metrics)
    overflown(lambda: metrics.add([2**63 - 1]))
    overflown(lambda: metrics.add([1.7e308, 1.7e308]))
    overflown(lambda: metrics.merge(metrics))
    overflown(lambda: fm.merge_all([metrics, metrics]))
    found = together([lambda channel: metrics.compute(communicator=channel)] * 2)
    assert all(isinstance(error, fm.IntegerOverflowError) and "all.its" in str(error) for error in found)
    assert state_bytes(metrics) == before
    for wrapped in (
        fm.Windowed(fm.Sum(), last=2),
        fm.Sliced(fm.Sum(), by="slot"),
        fm.Bootstrap(fm.Sum(), 5, ids="slot"),
    ):
        around = collection(its=wrapped)
        more = {"slot": [1]} if "slot" in wrapped.columns else {}
        around.add([2**63 - 1], **more)

        def act(around=around, more=more):
            around.add([2**63 - 1], **more)
            around.compute()  # which checks what add does not check

        overflown(act)


@pytest.mark.parametrize("kind", [fm.MeanSquaredError, fm.Variance, fm.R2Score, fm.PearsonCorrelation])
def test_values_too_large_to_square_are_an_error_and_not_a_wrong_number(kind):
    metric = kind(name="it")
    value, other = np.array([1e200, -1e200, 3.0]), np.array([1.0, 2.0, 3.0])
    given = (value,) if kind is fm.Variance else (value, other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(fm.InvalidInputError, match=r"^it\.\w+ would no longer be finite"):
            metric.add(*given)
    assert not metric.holds_samples()


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_compute_reports_the_overflow_of_an_unchecked_batch(mode):
    metric = fm.MeanSquaredError(name="it")
    scope = feed(metric, [Data(np.array([1e200, 1.0]), np.array([0.0, 0.0]))], mode)
    with pytest.raises(fm.InvalidInputError, match=r"^it\.squared_error would no longer be finite"):
        metric.compute(scope)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_what_numpy_calls_an_array_is_one():
    import pandas

    score, label = np.array([0.2, 0.7, 0.4], np.float32), np.array([0, 1, 1])
    one = fm.AUC(num_thresholds=50)
    one.add(score, label)
    for given in (np.matrix(score), pandas.Series(score), list(score), np.ma.masked_array(score), score[:, None, None]):
        other = fm.AUC(num_thresholds=50)
        other.add(given if given is not None and np.ndim(given) != 2 else np.asarray(given).ravel(), label)
        assert state_bytes(other) == state_bytes(one)
    with pytest.raises(fm.InvalidInputError, match="prediction is a masked array; give its data, and mask="):
        one.add(np.ma.masked_array(score, [True, False, False]), label)
    with pytest.raises(fm.InvalidInputError, match=r"prediction has shape \[3, 0\], which has no score for any class"):
        one.add(np.zeros((3, 0)), label)
