"""Logits instead of probabilities, and logits of -inf: one rule for every metric."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import fleetmetrics as fm
from tests.contract import MODES, Data, feed, same

RNG = np.random.default_rng(1)
LABEL = (RNG.random(64) < 0.4).astype(np.int64)
LOGITS = RNG.normal(2.5 * LABEL - 1.2, 1.5)
#: What metrics take that is no probability of a label.
TAKE_SOMETHING_ELSE = {
    "fleetmetrics.metrics.counterfactual": "two probabilities of the logged action",
    "fleetmetrics.metrics.segmentation.": "classes of pixels, or a score for each class",
    "fleetmetrics.metrics.text.": "texts",
}
#: Metrics of scores that need not be probabilities: of values, of order, of decision values, of numbers.
TAKE_ANY_SCORE = {
    *fm.metrics.aggregation.__all__,
    *fm.metrics.ranking.at_k.__all__,
    *fm.metrics.ranking.order.__all__,
    *(name for name, module in fm._modules.items() if module.startswith("fleetmetrics.metrics.regression.")),
    *(name for name, module in fm._modules.items() if module.startswith(tuple(TAKE_SOMETHING_ELSE))),
    "ClickThroughRate", "Count", "ExactAUC", "GAUC", "HingeLoss", "Histogram", "Mean", "StandardDeviation", "UAUC",
    "Variance", "WuAUC", "Throughput",
}  # fmt: skip
REQUIRED = {"PrecisionAtFixedRecall": "min_recall", "RecallAtFixedPrecision": "min_precision"}
REQUIRED.update(SensitivityAtSpecificity="min_specificity", SpecificityAtSensitivity="min_sensitivity")
REQUIRED.update(TPRAtFPR="max_fpr")
REQUIRED.update(ExactMatch="num_labels")


def made(name: str, **settings: object) -> fm.Metric:
    required = {REQUIRED[name]: 2 if name == "ExactMatch" else 0.5} if name in REQUIRED else {}
    return getattr(fm, name)(**required, **settings)


@pytest.mark.numpy_only
@pytest.mark.parametrize("name", sorted(set(fm.metrics.__all__) - TAKE_ANY_SCORE))
def test_a_metric_that_needs_probabilities_refuses_logits_and_says_how_to_give_them(name):
    settings = inspect.signature(getattr(fm, name)).parameters
    data = (np.stack([LOGITS] * 2, 1), np.stack([LABEL] * 2, 1)) if name == "ExactMatch" else (LOGITS, LABEL)
    metric = made(name)
    with pytest.raises(fm.InvalidInputError) as raised:
        metric.add(*data)
    if metric.kind_name() not in ("TokenLoss", "Perplexity", "BitsPerByte"):  # which take scores of several classes
        assert "a probability in [0, 1]" in str(raised.value)
        assert "from_logits=True" in str(raised.value)
        told = made(name, from_logits=True)
        told.add(*data)
        assert told.holds_samples()
    assert not metric.holds_samples()
    assert "from_logits" in settings or name in ("TokenLoss", "Perplexity", "BitsPerByte")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1), (-1, 8)])
def test_accuracy_refuses_logits_of_the_labels_shape(shape, dtype, mode):
    data = Data(LOGITS.astype(dtype).reshape(shape), LABEL.reshape(shape))
    metric = fm.Accuracy()
    with pytest.raises(fm.InvalidInputError, match=r"a probability in \[0, 1\].*(?s:.*)logits give from_logits=True"):
        metric.compute(feed(metric, [data], mode))
    metric = fm.Accuracy(from_logits=True)
    assert metric.compute(feed(metric, [data], mode)) == np.mean((LOGITS > 0) == LABEL)


@pytest.mark.parametrize("mode", MODES)
def test_accuracy_takes_probabilities_above_1_by_rounding(mode):
    data = Data(np.array([1 + 2.0**-21, -(2.0**-21), 0.5]), np.array([1, 0, 1]))
    metric = fm.Accuracy()
    assert metric.compute(feed(metric, [data], mode)) == 2 / 3


SCORES = np.where(RNG.random((64, 5)) < 0.3, -math.inf, RNG.normal(size=(64, 5)))
CLASS = RNG.integers(0, 5, 64)
SCORES[np.arange(64), CLASS] = RNG.normal(size=64)
FINITE = np.where(np.isinf(SCORES), -1e30, SCORES)
OF_CLASSES = {
    "accuracy": fm.Accuracy,
    "accuracy of 5": lambda: fm.Accuracy(num_classes=5),
    "top 2": lambda: fm.Accuracy(top_k=2),
    "f1": lambda: fm.F1(num_classes=5),
    "confusion": lambda: fm.ConfusionMatrix(num_classes=5),
    "log loss": lambda: fm.LogLoss(from_logits=True),
    "log loss of 5": lambda: fm.LogLoss(from_logits=True, num_classes=5),
    "calibration error": lambda: fm.ExpectedCalibrationError(from_logits=True),
    "auc": lambda: fm.AUC(num_classes=5, from_logits=True, tolerance=None),
    "hinge": fm.HingeLoss,
    "tokens": fm.TokenLoss,
    "perplexity": fm.Perplexity,
}


@pytest.mark.parametrize("mode", MODES)
def test_logits_of_classes_that_are_masked_by_inf_count_in_every_metric_of_one_collection(mode):
    of_masked, of_finite = (fm.MetricCollection({key: make() for key, make in OF_CLASSES.items()}) for _ in range(2))
    values = of_masked.compute(feed(of_masked, [Data(SCORES, CLASS)], mode))
    expected = of_finite.compute(feed(of_finite, [Data(FINITE, CLASS)], mode))
    assert all(same(values[key], expected[key], False, 1e-12) for key in OF_CLASSES)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bad", ["own", "all", "inf", "nan"])
@pytest.mark.parametrize("key", ["accuracy", "f1", "log loss", "hinge", "tokens"])
def test_inf_of_the_labels_own_class_is_an_error_and_so_are_inf_and_nan(key, bad, mode):
    scores, other = SCORES.copy(), (CLASS[3] + 1) % 5
    place = {"own": (3, CLASS[3]), "all": 3, "inf": (3, other), "nan": (3, other)}[bad]
    scores[place] = {"inf": math.inf, "nan": math.nan}.get(bad, -math.inf)
    metric = OF_CLASSES[key]()
    with pytest.raises(fm.InvalidInputError, match="other than the label's"):
        metric.compute(feed(metric, [Data(scores, CLASS)], mode))


@pytest.mark.parametrize("mode", MODES)
def test_two_logits_of_which_one_is_inf_give_certain_probabilities(mode):
    scores, label = np.array([[0.5, -np.inf], [-np.inf, 1.0], [0.0, 0.0]]), np.array([0, 1, 1])
    for metric, expected in [
        (fm.LogLoss(from_logits=True), math.log(2) / 3),
        (fm.BrierScore(from_logits=True), 0.25 / 3),
        (fm.Accuracy(), 2 / 3),
    ]:
        assert same(metric.compute(feed(metric, [Data(scores, label)], mode)), expected, False, 1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_an_ignored_label_may_have_any_logits(mode):
    scores = np.array([[0.5, -np.inf, 0.0], [np.nan, -np.inf, np.inf]])
    metric = fm.MetricCollection({"loss": fm.TokenLoss(ignore_index=-100), "accuracy": fm.Accuracy(ignore_index=-100)})
    values = metric.compute(feed(metric, [Data(scores, np.array([0, -100]))], mode))
    assert values["accuracy"] == 1.0
    assert same(values["loss"], math.log(1 + math.exp(-0.5)), False, 1e-12)
