"""One rule for the task: num_classes says multiclass, num_labels multilabel, neither binary or what the scores say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as sk

import fleetmetrics as fm

RNG = np.random.default_rng(8)
TABLE = RNG.dirichlet([1, 1, 1], 200)
CLASSES = RNG.integers(0, 3, 200)
LABELS = RNG.integers(0, 2, (200, 3))
P, Y = RNG.random(200), RNG.integers(0, 2, 200)

PER_CLASS = [
    fm.F1,
    fm.Precision,
    fm.StatScores,
    fm.ConfusionMatrix,
    fm.CohenKappa,
    fm.BalancedAccuracy,
    fm.AUC,
    fm.AveragePrecision,
]
BY_SHAPE = [fm.Accuracy, fm.LogLoss, fm.HingeLoss, fm.ExpectedCalibrationError]
MULTILABEL = [fm.F1, fm.Precision, fm.StatScores, fm.ConfusionMatrix, fm.Accuracy, fm.LogLoss, fm.AUC, fm.ExactMatch]


def value(kind, prediction, label, **settings):
    metric = kind(**settings)
    metric.add(prediction, label)
    return metric.compute()


@pytest.mark.parametrize("kind", [*PER_CLASS, *BY_SHAPE])
def test_the_number_of_classes_says_multiclass_and_none_says_binary(kind):
    several = value(kind, TABLE, CLASSES, num_classes=3)
    assert np.array_equal(several, value(kind, TABLE, CLASSES, task="multiclass", num_classes=3))
    assert np.array_equal(value(kind, P, Y), value(kind, P, Y, task="binary"))


@pytest.mark.parametrize("kind", MULTILABEL)
def test_the_number_of_labels_says_multilabel(kind):
    prediction = TABLE
    told = value(kind, prediction, LABELS, task="multilabel", num_labels=3)
    assert np.array_equal(value(kind, prediction, LABELS, num_labels=3), told)


@pytest.mark.parametrize("kind", PER_CLASS)
def test_what_keeps_something_per_class_asks_for_their_number(kind):
    with pytest.raises(fm.InvalidInputError, match=r"prediction has shape \[n, 3\].*for 3 classes give num_classes=3"):
        value(kind, TABLE, CLASSES)
    with pytest.raises(fm.InvalidInputError, match="num_classes must be an integer of at least 2"):
        kind(task="multiclass")


@pytest.mark.parametrize("kind", BY_SHAPE)
def test_what_keeps_nothing_per_class_reads_their_number_from_the_scores(kind):
    told = value(kind, TABLE, CLASSES, num_classes=3)
    assert value(kind, TABLE, CLASSES) == told
    assert value(kind, TABLE, CLASSES, task="multiclass") == told
    with pytest.raises(fm.InvalidInputError, match=r"prediction has shape \[n, 3\]"):
        value(kind, TABLE, CLASSES, task="binary")
    with pytest.raises(fm.InvalidInputError, match=r"prediction has shape \[n, 3\]"):
        value(kind, TABLE, CLASSES, num_classes=4)


def test_both_numbers_contradict_each_other():
    for kind in (fm.F1, fm.AUC, fm.LogLoss, fm.Accuracy):
        with pytest.raises(fm.InvalidInputError, match="num_labels belongs to task='multilabel'"):
            kind(num_classes=3, num_labels=3)
    with pytest.raises(fm.InvalidInputError, match="num_classes belongs to task='multiclass'"):
        fm.F1(task="binary", num_classes=3)


def test_values_of_several_classes_are_those_of_scikit_learn():
    assert value(fm.LogLoss, TABLE, CLASSES) == pytest.approx(sk.log_loss(CLASSES, TABLE), rel=1e-12)
    assert value(fm.HingeLoss, TABLE, CLASSES) == pytest.approx(sk.hinge_loss(CLASSES, TABLE), rel=1e-12)
    assert value(fm.Accuracy, TABLE, CLASSES) == sk.accuracy_score(CLASSES, TABLE.argmax(1))


def test_two_metrics_of_one_loss_stand_in_one_collection():
    metrics = fm.MetricCollection({"a": fm.LogLoss(num_classes=3), "b": fm.LogLoss(num_classes=3), "c": fm.LogLoss()})
    metrics.add(TABLE, CLASSES)
    assert len(set(metrics.compute().values())) == 1


# -- numbers at the edges --------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 50])
def test_binary_hinge_loss_of_two_columns_is_that_of_their_difference(rows):
    table, label = RNG.normal(size=(rows, 2)) * 3, RNG.integers(0, 2, rows)
    told = np.maximum(0, 1 - (table[:, 1] - table[:, 0]) * (2 * label - 1)).mean()
    for settings in ({}, {"task": "binary"}, {"num_classes": 2}):
        assert value(fm.HingeLoss, table, label, **settings) == pytest.approx(told, rel=1e-12)


@pytest.mark.parametrize("kind", [fm.LogLoss, fm.ExpectedCalibrationError, fm.CalibrationCurve, fm.BrierDecomposition])
@pytest.mark.parametrize("row", [[0.5, 0.9], [0.2, 0.79], [0.0, 0.0]])
def test_probabilities_of_two_classes_must_add_up_to_one(kind, row):
    with pytest.raises(
        fm.InvalidInputError, match=r"which add up to 1.*1 of 2 samples is not, the first at position 1"
    ):
        value(kind, [[0.25, 0.75], row], [0, 1])


@pytest.mark.parametrize("kind", [fm.LogLoss, fm.ExpectedCalibrationError])
def test_probabilities_of_several_classes_must_add_up_to_one(kind):
    with pytest.raises(fm.InvalidInputError, match="which add up to 1"):
        value(kind, [[0.2, 0.3, 0.4]], [0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rounded_probabilities_add_up_well_enough(dtype):
    for table in (TABLE.astype(dtype), TABLE.astype(dtype).astype(float), TABLE.astype(dtype).tolist()):
        if dtype != "float16" or np.asarray(table).dtype == np.float16:  # of 64 bits are asked for what 32 have
            assert value(fm.LogLoss, table, CLASSES) == pytest.approx(sk.log_loss(CLASSES, TABLE), rel=1e-2)


@pytest.mark.parametrize(
    "kind", [fm.Accuracy, fm.F1, fm.Precision, fm.ConfusionMatrix, fm.CohenKappa, fm.MatthewsCorrelation]
)
@pytest.mark.parametrize("threshold", [-1, 1.5, math.nan, math.inf, "0.5", True])
def test_a_threshold_is_a_probability(kind, threshold):
    for settings in ({}, {"from_logits": True}):
        with pytest.raises(fm.InvalidInputError, match="threshold must be a number from 0 to 1, not"):
            kind(threshold=threshold, **settings)


def test_accuracy_of_logits_compares_their_probabilities():
    logits = np.array([-3.0, 0.2, 0.5, 3.0])
    assert value(fm.Accuracy, logits, [0, 0, 1, 1], from_logits=True, threshold=0.6) == 1.0
    assert value(fm.Accuracy, logits, [0, 0, 1, 1], from_logits=True) == 0.75


TORCHMETRICS = {"l1": 0.2716090977191925, "l2": 0.30583125352859497, "max": 0.5347479581832886}


# -- the calibration of the most probable class ----------------------------------------------------------


def test_top_label_calibration_by_hand():
    """Bins (0, 0.5], (0.5, 1]: confidence 0.4 with 1 of 2 right, 0.8 with 1 of 1 and 0.6 with 0 of 1."""
    table = [[0.4, 0.3, 0.3], [0.4, 0.35, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]
    label = [0, 1, 1, 0]
    by_hand = (2 * abs(0.5 - 0.4) + 2 * abs(0.5 - 0.7)) / 4
    for settings in ({"num_classes": 3}, {"task": "multiclass"}, {"task": "multiclass", "num_classes": 3}, {}):
        assert value(fm.ExpectedCalibrationError, table, label, bins=2, **settings) == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_top_label_calibration_is_that_of_torchmetrics(norm):
    """Printed by torchmetrics 1.9.0, MulticlassCalibrationError(num_classes=3, n_bins=15, norm=norm), in float32."""
    told = TORCHMETRICS[norm]
    assert value(fm.ExpectedCalibrationError, TABLE, CLASSES, num_classes=3, norm=norm) == pytest.approx(told, rel=1e-6)
