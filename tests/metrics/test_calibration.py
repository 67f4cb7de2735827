"""Calibration: the bins are scikit-learn's, several classes, the parts of the Brier score, arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fleetmetrics as fm
from tests.contract import MODES, Data, batches, feed

RNG = np.random.default_rng(10)
#: Many of them edges of tenths, written in two ways.
P = np.concatenate([RNG.random(150), RNG.integers(0, 11, 60) / 10, RNG.integers(0, 11, 60) * 0.1])
P = np.minimum(P, 1.0)
Y = (RNG.random(270) < P).astype(np.int64)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("bins", [1, 5, 10])
def test_curve_has_the_numbers_of_scikit_learn(bins, dtype, mode):
    from sklearn.calibration import calibration_curve

    p = P.astype(dtype)
    actual, predicted = calibration_curve(Y, p.astype(np.float64), n_bins=bins)
    metric = fm.CalibrationCurve(bins=bins)
    curve = metric.compute(feed(metric, batches(Data(p, Y), 50), mode))
    np.testing.assert_allclose(curve.predicted, predicted, rtol=1e-12)
    np.testing.assert_allclose(curve.actual, actual, rtol=1e-15)
    assert curve.weight.sum() == 270 and curve.weight.dtype == np.int64
    assert ((curve.lower < curve.predicted) | (curve.lower == 0)).all() and (curve.predicted <= curve.upper).all()


def test_edges_of_ones_own_show_low_rates():
    p = 10.0 ** RNG.uniform(-6, -2, 1000)
    metric = fm.CalibrationCurve(bins=[0, 1e-5, 1e-4, 1e-3, 1])
    metric.add(p, RNG.random(1000) < p)
    curve = metric.compute()
    assert curve.lower.tolist() == [0, 1e-5, 1e-4, 1e-3] and curve.upper.tolist() == [1e-5, 1e-4, 1e-3, 1]
    assert curve.weight.tolist() == np.histogram(p, [0, 1e-5, 1e-4, 1e-3, 1])[0].tolist()


def test_no_samples_are_empty_arrays_with_a_warning():
    with pytest.warns(fm.UndefinedMetricWarning, match="calibration_curve is undefined: there are no samples"):
        assert [part.size for part in fm.CalibrationCurve().compute()] == [0] * 5


@pytest.mark.parametrize("mode", MODES)
def test_the_parts_add_up_to_the_score_and_are_murphys_where_bins_hold_one_value(mode):
    parts, score = fm.BrierDecomposition(), fm.BrierScore()
    found = parts.compute(feed(parts, batches(Data(P, Y), 50), mode))
    score.add(P, Y)
    total = found.reliability - found.resolution + found.uncertainty
    total += found.within_bin_variance - found.within_bin_covariance
    assert total == pytest.approx(found.score, abs=1e-16) and found.score == pytest.approx(score.compute(), rel=1e-13)
    murphy = fm.BrierDecomposition(bins=11)
    coarse = RNG.integers(0, 12, 200) / 11
    found = murphy.compute(feed(murphy, [Data(coarse, RNG.integers(0, 2, 200))], mode))
    # 0 and 1/11 share the first bin
    assert found.within_bin_variance < 2e-3 and found.score == pytest.approx(
        found.reliability
        - found.resolution
        + found.uncertainty
        + found.within_bin_variance
        - found.within_bin_covariance
    )
    single = fm.BrierDecomposition(bins=10)
    single.add([0.25, 0.25, 0.75], [0, 1, 1])
    found = single.compute()
    assert found.within_bin_variance == found.within_bin_covariance == 0.0


@pytest.mark.parametrize("mode", MODES)
def test_several_classes_are_judged_by_the_most_probable_one(mode):
    prediction = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.125, 0.125, 0.75], [0.5, 0.5, 0.0]])
    metric = fm.ExpectedCalibrationError(bins=2, task="multiclass")
    # the last one is a tie, which the lower class wins
    value = metric.compute(feed(metric, [Data(prediction, np.array([0, 0, 2, 1]))], mode))
    assert value == pytest.approx((3 * abs(0.5 - 1 / 3) + 0.25) / 4, rel=1e-12)
    two = fm.ExpectedCalibrationError(bins=2, task="multiclass")
    assert two.compute(feed(two, [Data(prediction[:2, :2] + 0.125, np.array([0, 0]))], mode)) == pytest.approx(0.125)


def test_two_columns_are_binary_unless_the_task_is_multiclass():
    table, one = np.stack([1 - P, P], axis=1), fm.ExpectedCalibrationError(norm="l2")
    other = fm.ExpectedCalibrationError(norm="l2")
    one.add(table, Y)
    other.add(P, Y)
    assert one.compute() == other.compute()


@pytest.mark.parametrize("from_logits", [False, True])
def test_several_classes_need_scores_of_each(from_logits):
    metric = fm.ExpectedCalibrationError(task="multiclass", from_logits=from_logits)
    with pytest.raises(fm.InvalidInputError, match=r"task='multiclass' it must have shape \[n, classes\]"):
        metric.add([0.5, 0.5], [0, 1])
    if not from_logits:
        with pytest.raises(fm.InvalidInputError, match=r"probabilities in \[0, 1\] of all classes"):
            metric.add([[0.5, 1.5, 0.0]], [1])
    with pytest.raises(fm.InvalidInputError, match="label must be a class"):
        metric.add([[0.5, 0.5, 0.0]], [3])


def test_huge_logits_of_several_classes_do_not_overflow():
    metric = fm.ExpectedCalibrationError(task="multiclass", from_logits=True)
    metric.add([[1e4, -1e4, 0.0]], [0])
    assert metric.compute() == 0.0


@pytest.mark.parametrize(
    "make, arguments, text",
    [
        (fm.CalibrationCurve, {"bins": 0}, "bins must be an integer of at least 1, not 0"),
        (
            fm.CalibrationCurve,
            {"bins": [0.1, 0.5, 1]},
            r"bins must begin with 0 and end with 1, .* not \[0.1, 0.5, 1\]",
        ),
        (fm.BrierDecomposition, {"bins": [0, 2]}, "bins must begin with 0 and end with 1"),
        (fm.BrierDecomposition, {"bins": [0, 0.5, 0.5, 1]}, "each larger than the one before"),
        (fm.ExpectedCalibrationError, {"norm": "l3"}, "norm must be one of 'l1', 'l2', 'max', not 'l3'"),
        (fm.ExpectedCalibrationError, {"task": "multilabel"}, "task must be one of 'binary', 'multiclass', not"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value_and_what_is_allowed(make, arguments, text):
    with pytest.raises(fm.InvalidInputError, match=text):
        make(**arguments)


def test_no_probability_is_lost_between_bins():
    p = np.linspace(0, 1, 1001)
    metric = fm.ExpectedCalibrationError(bins=7)
    metric.add(p, np.zeros(1001, int))
    assert metric.compute() == pytest.approx(0.5) and not math.isnan(metric.compute())
    assert metric.states["number"].read().sum() == 1001


@pytest.mark.parametrize("kind", [fm.ExpectedCalibrationError, fm.AdaptiveCalibrationError])
def test_classwise_looks_at_every_class_and_needs_their_number(kind):
    for settings in ({}, {"task": "multiclass"}, {"task": "binary"}):
        with pytest.raises(fm.InvalidInputError, match="of several classes; it needs num_classes="):
            kind(classwise=True, **settings)
    # the highest probability is that of class 0, and right half of the time; that of class 1 is too high, of 2 too low
    metrics = fm.MetricCollection({"top": kind(num_classes=3), "all": kind(num_classes=3, classwise=True)})
    metrics.add([[0.5, 0.375, 0.125]] * 4, [0, 0, 2, 2])
    assert metrics.compute() == {"top": 0.0, "all": pytest.approx((0 + 0.375 + 0.375) / 3)}


CLASSES = RNG.dirichlet([1, 2, 0.5, 1], 90)
OF_CLASSES = Data(CLASSES, RNG.integers(0, 3, 90), weight=RNG.random(90))  # none is of the last class


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize(
    ("kind", "mode"),
    [*((fm.ExpectedCalibrationError, mode) for mode in MODES), (fm.AdaptiveCalibrationError, "numpy")],
)
def test_a_value_for_each_class_is_that_of_its_column_against_the_others(kind, norm, mode):
    by_class = kind(bins=4, norm=norm, num_classes=4, classwise=True, average=None)
    values = by_class.compute(feed(by_class, batches(OF_CLASSES, 30), mode))
    expected = []
    for k in range(4):
        one = kind(bins=4, norm=norm)
        one.add(CLASSES[:, k], OF_CLASSES.label == k, weight=OF_CLASSES.weight)
        expected.append(one.compute())
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    together = kind(bins=4, norm=norm, num_classes=4, classwise=True)
    together.add(*OF_CLASSES[:2], weight=OF_CLASSES.weight)
    mean = {"l1": values.mean(), "l2": np.sqrt((values**2).mean()), "max": values.max()}[norm]
    assert together.compute() == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("kind", [fm.ExpectedCalibrationError, fm.AdaptiveCalibrationError])
def test_values_for_each_class_need_classwise_and_samples(kind):
    for average in (None, "none"):
        with pytest.raises(fm.InvalidInputError, match=f"average={average!r} needs classwise=True: there is one value"):
            kind(num_classes=3, average=average)
    with pytest.raises(fm.InvalidInputError, match="average must be one of 'macro', 'none', None, not 'micro'"):
        kind(num_classes=3, classwise=True, average="micro")
    by_class = kind(num_classes=3, classwise=True, average="none")
    with pytest.warns(fm.UndefinedMetricWarning, match="there are no samples") as warned:
        assert np.isnan(by_class.compute()).tolist() == [True] * 3
    assert len(warned) == 1
    assert kind(num_classes=3, classwise=True, average=None, zero_division=0).compute().tolist() == [0, 0, 0]


def test_records_of_logits_and_of_probabilities_are_kept_apart():
    metrics = fm.MetricCollection(
        {"p": fm.AdaptiveCalibrationError(), "z": fm.AdaptiveCalibrationError(from_logits=True)}
    )
    metrics.add([0.0, 1.0], [0, 1])
    assert metrics.compute() == {"p": 0.0, "z": pytest.approx((0.5 + 1 - 1 / (1 + np.exp(-1))) / 2)}
