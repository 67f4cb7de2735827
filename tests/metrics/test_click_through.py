"""Click-through metrics: logits, bounds, shared states, Paddle's buckets, arguments."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest

import fleetmetrics as fm
from tests.contract import MODES, Data, batches, feed, new_scope
from tests.formulas.test_click_through import by_the_book

RNG = np.random.default_rng(9)
P = np.concatenate([RNG.random(200), RNG.integers(0, 2, 20)])
Y = RNG.integers(0, 2, 220)
LOGITS = RNG.normal(size=220) * 4
OF_PROBABILITIES = [
    fm.PredictedClickThroughRate,
    fm.Calibration,
    fm.COPC,
    fm.NormalizedEntropy,
    fm.RecalibratedNormalizedEntropy,
    fm.BucketError,
    fm.BrierScore,
    fm.BrierDecomposition,
    fm.ExpectedCalibrationError,
    fm.CalibrationCurve,
]


def states(collection):
    return {state.name for member in collection.metrics.values() for state in member.states.values()}


# -- logits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", OF_PROBABILITIES)
def test_logits_are_an_error_that_says_so(make):
    with pytest.raises(fm.InvalidInputError, match=r"a probability in \[0, 1\] \(apply the sigmoid or softmax"):
        make().add(LOGITS, Y)


@pytest.mark.parametrize("make", OF_PROBABILITIES)
@pytest.mark.parametrize("mode", MODES)
def test_from_logits_is_the_metric_of_the_sigmoid(make, mode):
    table = np.stack([LOGITS / 3, LOGITS * 4 / 3], axis=1)  # of which the softmax is that sigmoid
    mask = RNG.random(220) < 0.8
    plain = make(relative_error_bound=0.9, buckets=12) if make is fm.BucketError else make()
    feed(plain, [Data(1 / (1 + np.exp(-LOGITS)), Y, None, mask)], "numpy")
    for prediction in (LOGITS, table):
        metric = make(from_logits=True)
        if make is fm.BucketError:
            metric = make(from_logits=True, relative_error_bound=0.9, buckets=12)
        value = metric.compute(feed(metric, batches(Data(prediction, Y, None, mask)), mode))
        for mine, theirs in zip(np.atleast_1d(value), np.atleast_1d(plain.compute())):
            np.testing.assert_allclose(mine, theirs, rtol=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_entropy_of_logits_has_no_bound_and_that_of_probabilities_is_finite(mode):
    of_logits, of_probabilities = fm.NormalizedEntropy(from_logits=True), fm.NormalizedEntropy()
    label = np.array([1, 0])
    value = of_logits.compute(feed(of_logits, [Data(np.array([-1000.0, 0.0]), label)], mode))
    assert value == pytest.approx((1000 + math.log(2)) / (2 * math.log(2)), rel=1e-12)
    value = of_probabilities.compute(feed(of_probabilities, [Data(np.array([0.0, 0.5]), label)], mode))
    assert value == pytest.approx((52 * math.log(2) + math.log(2)) / (2 * math.log(2)), rel=1e-12)


# -- rates -------------------------------------------------------------------------------------------------


def test_the_click_through_rate_looks_at_labels_only():
    metric = fm.ClickThroughRate()
    metric.add([np.nan, 7.0, -3.0, 0.5], [1, 0, 0, 0])
    metric.add([[0.5, 0.5]], [0])
    assert metric.compute() == 0.2
    with pytest.raises(fm.InvalidInputError, match="label must be a class: 0 or 1"):
        metric.add([0.5], [2])
    with pytest.raises(fm.InvalidInputError, match="label is missing"):
        metric.add([0.5])
    with pytest.raises(fm.InvalidInputError, match=r"prediction has shape \[n, 3\]; allowed are"):
        metric.add([[0.2, 0.3, 0.5]], [1])


def test_the_predicted_rate_needs_no_labels():
    metric = fm.PredictedClickThroughRate()
    metric.add([[0.25, 0.5], [0.75, 0.5]])
    metric.add([[0.25, 0.75]], [1])
    assert metric.compute() == pytest.approx((2 + 0.75) / 5)


@pytest.mark.parametrize(
    "make, prediction, label, reason",
    [
        (fm.Calibration, [0.5, 0.25], [0, 0], "no sample is labeled 1"),
        (fm.COPC, [0.0, 0.0], [1, 0], "all predictions are 0"),
        (fm.NormalizedEntropy, [0.5, 0.25], [0, 0], "all labels are 0"),
        (fm.NormalizedEntropy, [0.5, 0.25], [1, 1], "all labels are 1"),
        (fm.RecalibratedNormalizedEntropy, [0.5, 0.25], [1, 1], "all labels are 1"),
        (fm.BucketError, [0.5, 0.25], [1, 0], "no group of buckets holds enough samples to tell its rate"),
    ],
)
@pytest.mark.parametrize("weight", [None, [0.1, 0.3]])
def test_undefined_is_nan_with_a_warning_or_what_was_asked_for(make, prediction, label, reason, weight):
    metric, asked = make(), make(zero_division=-1)
    for each in (metric, asked):
        each.add(prediction, label, weight)
    with pytest.warns(fm.UndefinedMetricWarning, match=f"{reason}; the value is nan"):
        assert math.isnan(metric.compute())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asked.compute() == -1.0


def test_copc_is_the_inverse_of_calibration():
    one, other = fm.COPC(), fm.Calibration()
    for metric in (one, other):
        metric.add(P, Y, weight=RNG.random(220) * 0 + 0.3)
    assert one.compute() * other.compute() == pytest.approx(1, rel=1e-15)


# -- recalibration -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_recalibration_undoes_the_sampling_of_negatives(mode):
    """A prediction of 1/2 on data of which one negative in 20 was kept is one of 1/21 on all data."""
    label = np.array([1] + [0] * 20)
    metric = fm.RecalibratedNormalizedEntropy(recalibration_coefficient=1 / 20)
    value = metric.compute(feed(metric, [Data(np.full(21, 0.5), label)], mode))
    assert value == pytest.approx(1, rel=1e-12)
    certain = fm.RecalibratedNormalizedEntropy(recalibration_coefficient=1 / 20)
    assert certain.compute(feed(certain, [Data(label.astype(float), label)], mode)) == 0.0


def test_a_coefficient_of_1_changes_nothing():
    plain, one = fm.NormalizedEntropy(), fm.RecalibratedNormalizedEntropy(recalibration_coefficient=1)
    for metric in (plain, one):
        metric.add(P, Y)
    assert plain.compute() == one.compute()


# -- bucket error ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_bucket_error_is_paddles_over_all_workers(mode):
    p = np.append(RNG.beta(1, 3, 30_000), [1.0] * 200)
    p = p.astype(np.float32)
    label = (RNG.random(p.size) < p * 0.9).astype(np.int64)
    table = np.zeros((2, 100))
    np.add.at(table, (label, np.minimum((p * np.float32(100)).astype(int), 99)), 1)
    data, scope, total = Data(p, label), new_scope(mode), fm.BucketError(buckets=101)
    for start, stop in itertools.pairwise([0, 20_000, 20_000, p.size]):
        worker = fm.BucketError(buckets=101)
        feed(worker, batches(data.rows(start, stop), 5000), mode, data, scope)
        total.merge(worker, scope)
    assert total.compute() == pytest.approx(by_the_book(table[1], table[0]), rel=1e-12)


def test_bucket_error_shares_its_histogram_with_linear_buckets_of_auc():
    collection = fm.MetricCollection(
        {"auc": fm.AUC(num_thresholds=4095), "error": fm.BucketError(), "rate": fm.ClickThroughRate()}
    )
    assert len(states(collection)) == 3
    collection.add(P, Y)
    alone = {"auc": fm.AUC(num_thresholds=4095), "error": fm.BucketError(), "rate": fm.ClickThroughRate()}
    for metric in alone.values():
        metric.add(P, Y)
    assert collection.compute() == {key: metric.compute() for key, metric in alone.items()}


# -- sharing and arguments ---------------------------------------------------------------------------------


def test_a_collection_keeps_one_state_of_a_kind():
    collection = fm.MetricCollection(
        {
            "loss": fm.LogLoss(),
            "ne": fm.NormalizedEntropy(),
            "ctr": fm.ClickThroughRate(),
            "predicted": fm.PredictedClickThroughRate(),
            "calibration": fm.Calibration(),
            "copc": fm.COPC(),
            "brier": fm.BrierScore(),
            "curve": fm.CalibrationCurve(),
            "ece": fm.ExpectedCalibrationError(bins=10),
            "worst": fm.ExpectedCalibrationError(bins=np.linspace(0, 1, 11), norm="max"),
            "parts": fm.BrierDecomposition(),
        }
    )
    # total, likelihood, clicks, others, predicted, squared error; by bin: number, probability, squared deviation
    assert len(states(collection)) == 9
    collection.add(P, Y)
    values = collection.compute()
    rate = values["ctr"]
    entropy = -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate))
    assert values["ne"] == pytest.approx(values["loss"] / entropy, rel=1e-12)
    assert values["calibration"] == pytest.approx(values["predicted"] / rate, rel=1e-12)
    assert values["brier"] == pytest.approx(values["parts"].score, rel=1e-12)
    gap = np.abs(values["curve"].predicted - values["curve"].actual)
    assert values["ece"] == pytest.approx(np.average(gap, weights=values["curve"].weight), rel=1e-12)
    assert values["worst"] == gap.max()


def test_states_of_logits_and_of_probabilities_are_not_shared():
    for make in OF_PROBABILITIES:
        collection = fm.MetricCollection({"one": make(), "other": make(from_logits=True)})
        names = [set(state.name for state in member.states.values()) for member in collection.metrics.values()]
        common = {name.rpartition(".")[2] for name in names[0] & names[1]}
        assert common <= {"total", "clicks", "others"}, make


@pytest.mark.parametrize(
    "make, text",
    [
        (
            lambda: fm.RecalibratedNormalizedEntropy(recalibration_coefficient=0),
            "must be a finite number above 0, not 0",
        ),
        (lambda: fm.RecalibratedNormalizedEntropy(recalibration_coefficient="1"), "above 0, not '1'"),
        (lambda: fm.BucketError(buckets=1), "buckets must be an integer of at least 2, not 1"),
        (lambda: fm.BucketError(max_span=0), "max_span must be a finite number above 0, not 0"),
        (lambda: fm.BucketError(relative_error_bound=-1), "relative_error_bound must be a finite number above 0"),
        (lambda: fm.Calibration(zero_division="nan"), "zero_division must be nan or a finite number, not 'nan'"),
    ],
)
def test_a_wrong_argument_is_named_with_its_value_and_what_is_allowed(make, text):
    with pytest.raises(fm.InvalidInputError, match=text):
        make()


@pytest.mark.parametrize(
    "make, arguments, warning",
    [
        (fm.Calibration, ([0.5], [0]), "calibration is undefined: no sample is labeled 1"),
        (fm.Calibration, ([], []), "calibration is undefined: there are no samples"),
        (fm.COPC, ([0.0], [1]), "copc is undefined: all predictions are 0"),
        (fm.COPC, ([], []), "copc is undefined: there are no samples"),
        (fm.ClickThroughRate, ([], []), "click_through_rate is undefined: there are no samples"),
    ],
)
def test_an_undefined_quotient_names_the_metric_and_the_reason_or_is_what_was_asked_for(make, arguments, warning):
    arguments = [np.array(each, kind) for each, kind in zip(arguments, (float, int))]
    metric = make()
    metric.add(*arguments)
    with pytest.warns(fm.UndefinedMetricWarning, match=f"^{warning}"):
        assert math.isnan(metric.compute())
    metric = make(zero_division=0.25)
    metric.add(*arguments)
    assert metric.compute() == 0.25
