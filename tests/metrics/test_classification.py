"""Accuracy and log loss: ties, thresholds, large classes, certainty."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

import fleetmetrics as fm
from tests.contract import MODES, Data, feed, same


def value(metric: fm.Metric, data: Data, mode: str) -> float:
    return metric.compute(feed(metric, [data], mode))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_of_equal_scores_the_lower_class_comes_first_as_in_argmax(dtype, mode):
    scores = np.random.default_rng(0).integers(0, 3, (500, 5)).astype(dtype)
    label = np.random.default_rng(1).integers(0, 5, 500)
    for k in (1, 2, 5, 9):
        best = np.argsort(-scores.astype(float), axis=1, kind="stable")[:, :k]
        expected = (best == label[:, None]).any(axis=1).mean()
        assert value(fm.Accuracy(top_k=k), Data(scores, label), mode) == expected
    assert value(fm.Accuracy(), Data(scores, label), mode) == (scores.argmax(axis=1) == label).mean()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e-30])
def test_scores_that_differ_by_little_are_no_ties(scale, dtype, mode):
    scores = (np.random.default_rng(0).random((500, 5)) * scale).astype(dtype)
    label = np.random.default_rng(1).integers(0, 5, 500)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    expected = (best == label[:, None]).any(axis=1).mean()
    assert value(fm.Accuracy(top_k=2), Data(scores, label), mode) == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threshold", [0.5, 0.1, 0.3, 0.7, 0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_score_counts_as_1_only_above_the_threshold(dtype, threshold, mode):
    at, below, above = np.array([threshold, -np.inf, np.inf], dtype)
    for score, expected in [(np.nextafter(at, below), 0), (at, 0), (np.nextafter(at, above), 1)]:
        one = Data(np.array([score], dtype), np.ones(1, np.int64))
        assert value(fm.Accuracy(threshold=threshold), one, mode) == expected


@pytest.mark.parametrize("mode", MODES)
def test_classes_above_2_to_53_are_distinguished(mode):
    data = Data(np.array([2**53, 2**53 + 1, -(2**62) - 1]), np.array([2**53 + 1, 2**53 + 1, -(2**62)]))
    assert value(fm.Accuracy(), data, mode) == 1 / 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_loss_stays_finite_for_a_wrong_certainty_as_in_scikit_learn(dtype, mode):
    data = Data(np.array([0, 1, 0, 1, 1e-30, 1e-7], dtype), np.array([0, 1, 1, 0, 1, 1]))
    expected = log_loss(data.label, data.prediction.astype(float))
    assert same(value(fm.LogLoss(), data, mode), expected, exact=False)


def test_the_probability_of_a_label_has_no_rounding_but_that_of_one_minus_it():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(200), [0.0, 1.0, 5e-324, 1 - 2**-53]])
    for label in (0, 1):
        found = []
        for each in p:
            metric = fm.LogLoss()
            metric.add(np.array([each]), np.array([label]))
            found.append(metric.compute())
        chosen = p if label else 1.0 - p
        np.testing.assert_array_equal(found, -np.log(np.maximum(chosen, np.finfo(float).eps)))


@pytest.mark.parametrize("mode", MODES)
def test_log_loss_of_right_certainties_is_zero_without_a_sign(mode):
    assert str(value(fm.LogLoss(), Data(np.array([0.0, 1.0]), np.array([0, 1])), mode)) == "0.0"


@pytest.mark.parametrize("top_k", [0, -1, 2.0, True, "1", None])
def test_top_k_must_be_a_whole_number_of_at_least_1(top_k):
    with pytest.raises(fm.InvalidInputError, match="top_k must be an integer of at least 1, not ") as error:
        fm.Accuracy(top_k=top_k)
    assert repr(top_k) in str(error.value)


def test_numpy_numbers_are_good_settings():
    metric = fm.Accuracy(top_k=np.int32(2), threshold=np.float32(0.5))
    metric.add([[0.5, 0.3, 0.2]], [1])
    assert metric.compute() == 1.0


def test_a_log_loss_of_certainty_is_positive_zero():
    for make, arguments in (
        (fm.LogLoss, ([[0.0, 0.0], [0, 0]])),
        (lambda: fm.LogLoss(num_labels=2, average="micro"), ([[[0.0, 0.0]], [[0, 0]]])),
        (lambda: fm.LogLoss(num_labels=2), ([[[0.0, 0.0]], [[0, 0]]])),
    ):
        metric = make()
        metric.add(*map(np.array, arguments))
        assert str(metric.compute()) == "0.0"
