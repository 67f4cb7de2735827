"""Curves, points of them and sweeps: one histogram in a collection, exact thresholds, arguments."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

import fleetmetrics as fm
from tests.contract import MODES, Data, feed, same

OF_ONE_HISTOGRAM = {
    "auc": fm.AUC,
    "partial": lambda **k: fm.AUC(max_fpr=0.1, **k),
    "bounded": lambda **k: fm.AUC(bounds=True, **k),
    "pr": lambda **k: fm.AUC(curve="PR", **k),
    "ap": fm.AveragePrecision,
    "roc": fm.ROCCurve,
    "prc": fm.PrecisionRecallCurve,
    "ks": fm.KolmogorovSmirnov,
    "r@p": lambda **k: fm.RecallAtFixedPrecision(min_precision=0.5, **k),
    "p@r": lambda **k: fm.PrecisionAtFixedRecall(min_recall=0.5, **k),
    "sens": lambda **k: fm.SensitivityAtSpecificity(min_specificity=0.5, **k),
    "spec": lambda **k: fm.SpecificityAtSensitivity(min_sensitivity=0.5, **k),
    "tpr@fpr": lambda **k: fm.TPRAtFPR(max_fpr=0.5, **k),
    "eer": fm.EqualErrorRate,
    "lift": fm.Lift,
    "gain": fm.CumulativeGain,
}


def samples(size: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    score = rng.random(size)
    return score, (rng.random(size) < score).astype(np.int64)


@pytest.mark.parametrize("settings", [{}, {"buckets": 100, "spacing": "linear"}, {"from_logits": True}])
def test_all_metrics_on_a_histogram_of_scores_keep_one_in_a_collection(settings):
    together = fm.MetricCollection({name: make(**settings) for name, make in OF_ONE_HISTOGRAM.items()})
    states = {id(metric.states["histogram"]) for metric in together.metrics.values()}
    assert len(states) == 1
    score, label = samples()
    together.add(score, label)
    values = together.compute()
    for name, make in OF_ONE_HISTOGRAM.items():
        alone = make(**settings)
        alone.add(score, label)
        assert same(values[name], alone.compute(), exact=True)


def test_histograms_of_other_buckets_or_of_logits_are_kept_apart():
    each = [
        fm.AUC(name="a"),
        fm.ROCCurve(name="b", buckets=100),
        fm.AUC(name="c", buckets=100, spacing="linear"),
        fm.AUC(name="d", from_logits=True),
        fm.ThresholdSweep(name="e"),
    ]
    together = fm.MetricCollection(each)
    assert len({id(state) for metric in together.metrics.values() for state in metric.states.values()}) == 5


def test_areas_under_the_arrays_are_the_areas():
    score, label = samples()
    together = fm.MetricCollection({name: OF_ONE_HISTOGRAM[name]() for name in ("auc", "roc", "ap", "prc", "ks")})
    together.add(score, label)
    values = together.compute()
    assert sk.auc(values["roc"].fpr, values["roc"].tpr) == pytest.approx(values["auc"], rel=1e-12)
    precision, recall, _ = values["prc"]
    assert np.sum(-np.diff(recall) * precision[:-1]) == pytest.approx(values["ap"], rel=1e-12)
    assert np.max(values["roc"].tpr - values["roc"].fpr) == pytest.approx(values["ks"], rel=1e-12)


def test_a_threshold_of_a_curve_gives_the_rates_of_its_point():
    score, label = samples()
    for settings in ({"buckets": 64}, {"buckets": 64, "spacing": "linear"}):
        metric = fm.ROCCurve(**settings)
        metric.add(score, label)
        for fpr, tpr, threshold in zip(*metric.compute()):
            assert fpr == pytest.approx((score[label == 0] >= threshold).mean(), rel=1e-12)
            assert tpr == pytest.approx((score[label == 1] >= threshold).mean(), rel=1e-12)


# -- threshold sweep -------------------------------------------------------------------------------------

AWKWARD = [0.0, 1e-300, 0.1, float(np.float32(0.1)), 1 / 3, 0.5, np.nextafter(0.5, 1), 1 - 2.0**-53, 1.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", MODES)
def test_a_sweep_counts_at_exactly_the_thresholds_that_were_given(mode, dtype):
    thresholds = sorted(AWKWARD)
    edges = np.array(thresholds).astype(dtype)
    score = np.concatenate([edges, np.nextafter(edges, 0).clip(0), np.nextafter(edges, 2).clip(0, 1)])
    score = score.astype(dtype)
    label = np.random.default_rng(1).integers(0, 2, len(score))
    metric = fm.ThresholdSweep(thresholds=thresholds)
    scope = feed(metric, [Data(score, label)], mode)
    counts = metric.states["counts"].read(scope)
    wide = score.astype(np.float64)
    for number, threshold in enumerate(thresholds):
        for c in (0, 1):
            assert counts[c, number + 1 :].sum() == np.count_nonzero((wide >= threshold) & (label == c))


def test_a_number_of_thresholds_spaces_them_evenly_from_0_to_1():
    assert fm.ThresholdSweep(thresholds=3).thresholds == (0.0, 0.5, 1.0)
    assert len(fm.ThresholdSweep().thresholds) == 101


@pytest.mark.parametrize(
    "thresholds", [1, 0.5, [], [0.5, 0.5], [0.5, 0.25], [-0.1], [1.5], [[0.5]], ["a"], [np.nan], None, "all"]
)
def test_thresholds_that_cannot_be_are_an_error(thresholds):
    with pytest.raises(fm.InvalidInputError, match="thresholds must be an integer of at least 2"):
        fm.ThresholdSweep(thresholds=thresholds)


@pytest.mark.parametrize("beta", [0, -1, np.inf, np.nan, "1"])
def test_beta_must_be_above_0(beta):
    with pytest.raises(fm.InvalidInputError, match="beta must be a finite number above 0, not "):
        fm.ThresholdSweep(beta=beta)


# -- other arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, "0.5", None, True])
@pytest.mark.parametrize(
    "make, argument",
    [
        (fm.RecallAtFixedPrecision, "min_precision"),
        (fm.PrecisionAtFixedRecall, "min_recall"),
        (fm.SensitivityAtSpecificity, "min_specificity"),
        (fm.SpecificityAtSensitivity, "min_sensitivity"),
        (fm.TPRAtFPR, "max_fpr"),
    ],
)
def test_the_rate_that_is_fixed_must_be_one(make, argument, value):
    with pytest.raises(fm.InvalidInputError, match=f"{argument} must be a number from 0 to 1, not "):
        make(**{argument: value})


def test_a_number_of_fractions_divides_the_population_evenly():
    metric = fm.Lift(fractions=4)
    score, label = samples()
    metric.add(score, label)
    value = metric.compute()
    assert value.fractions.tolist() == [0.25, 0.5, 0.75, 1.0] and value.values[-1] == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("fractions", [0, 1.5, [], [0.0, 0.5], [1.01], [[0.5]], ["a"], [np.nan], None])
def test_fractions_that_cannot_be_are_an_error(fractions):
    with pytest.raises(fm.InvalidInputError, match="fractions must be an integer of at least 1"):
        fm.CumulativeGain(fractions=fractions)
