"""Values over buckets other than areas: bounds hold those of the scores, and a warning gives wide ones."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.support.vocabulary import as_options

pytestmark = pytest.mark.numpy_only

FRACTIONS = [0.01, 0.1, 0.37, 0.5, 1.0]


def points(score, label, weight):
    """The true and false positive weights at each threshold, from none to all."""
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    tp, fp = (np.append(0.0, np.cumsum(np.where(label == which, weight, 0)[order])[ends]) for which in (1, 0))
    return tp, fp


def ks(tp, fp):
    return np.abs(tp / tp[-1] - fp / fp[-1]).max()


def precision(tp, fp):
    return np.divide(tp, tp + fp, out=np.ones_like(tp), where=tp + fp > 0)


def best(value, limit):
    return value[limit].max()


def gain(tp, fp):
    both = tp + fp
    return np.interp(np.array(FRACTIONS) * both[-1], both, tp) / tp[-1]


#: Each metric with its value by the definition, over all thresholds between scores.
METRICS = {
    "ks": (fm.KolmogorovSmirnov, ks),
    "recall": (
        lambda **more: fm.RecallAtFixedPrecision(min_precision=0.7, **more),
        lambda tp, fp: best(tp / tp[-1], precision(tp, fp) >= 0.7),
    ),
    "precision": (
        lambda **more: fm.PrecisionAtFixedRecall(min_recall=0.4, **more),
        lambda tp, fp: best(precision(tp, fp), tp / tp[-1] >= 0.4),
    ),
    "sensitivity": (
        lambda **more: fm.SensitivityAtSpecificity(min_specificity=0.8, **more),
        lambda tp, fp: best(tp / tp[-1], 1 - fp / fp[-1] >= 0.8),
    ),
    "specificity": (
        lambda **more: fm.SpecificityAtSensitivity(min_sensitivity=0.8, **more),
        lambda tp, fp: best(1 - fp / fp[-1], tp / tp[-1] >= 0.8),
    ),
    "tpr": (
        lambda **more: fm.TPRAtFPR(max_fpr=0.2, **more),
        lambda tp, fp: best(tp / tp[-1], fp / fp[-1] <= 0.2),
    ),
    "eer": (fm.EqualErrorRate, lambda tp, fp: np.interp(0, tp / tp[-1] + fp / fp[-1] - 1, fp / fp[-1])),
    "gain": (lambda **more: fm.CumulativeGain(fractions=FRACTIONS, **more), gain),
    "lift": (
        lambda **more: fm.Lift(fractions=FRACTIONS, **more),
        lambda tp, fp: gain(tp, fp) / FRACTIONS,
    ),
}
SCORES = {
    "in one bucket": lambda random, rows: 0.5 + 1e-5 * random.random(rows),
    "in a few": lambda random, rows: 0.3 + 0.03 * random.random(rows),
    "with ties": lambda random, rows: random.integers(0, 9, rows) / 10 + 0.001 * random.integers(0, 3, rows),
    "everywhere": lambda random, rows: random.random(rows),
    "rare": lambda random, rows: random.beta(1, 80, rows),
}


def added(make, data, **more):
    """A metric of these samples, and its histograms."""
    metric = make(**more)
    metric.add(*data[:2], **({} if data[2] is None else {"weight": data[2]}))
    negative, positive = np.asarray(metric.states["histogram"].value)
    return metric, positive, negative


def number(value):
    return np.atleast_1d(getattr(value, "values", getattr(value, "value", value)))


@pytest.mark.parametrize("weighted", [False, True], ids=["counts", "weights"])
@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("name", METRICS)
def test_the_value_of_the_scores_lies_between_the_bounds_and_the_quick_check_misses_none(name, kind, weighted):
    make, exactly = METRICS[name]
    for seed in range(12):
        random = np.random.default_rng(seed)
        rows = int(random.integers(2, 300))
        score, label = SCORES[kind](random, rows), random.integers(0, 2, rows)
        label[:2] = 0, 1
        weight = random.exponential(size=rows) if weighted else None
        settings = {"buckets": (8, 256, 4096)[seed % 3], "tolerance": (0.01, 0.1, 0.4)[seed % 4 % 3]}
        metric, positive, negative = added(make, (score, label, weight), **settings)
        value = metric.compute()
        found, low, high = metric.bounds_of(value, positive, negative)
        exact = np.atleast_1d(exactly(*points(score, label, np.ones(rows) if weight is None else weight)))
        np.testing.assert_array_equal(found, number(value))
        assert (low - 1e-9 <= exact).all() and (exact <= high + 1e-9).all(), (seed, low, exact, high)
        if not metric.may_be_wide(positive, negative):
            assert (high - low <= metric.allowed(found) + 1e-12).all(), seed


@pytest.mark.parametrize("name", METRICS)
def test_some_order_inside_the_buckets_reaches_the_highest_bound(name):
    make, exactly = METRICS[name]
    random = np.random.default_rng(4)
    bucket, label = random.integers(1, 15, 400), random.integers(0, 2, 400)
    metric, positive, negative = added(make, (bucket / 16, label, None), buckets=17, spacing="linear")
    *_, high = metric.bounds_of(metric.compute(), positive, negative)
    reached = [exactly(*points(bucket / 16 + sign * 1e-6 * label, label, np.ones(400))) for sign in (1, -1)]
    np.testing.assert_allclose(np.max(reached, axis=0), high if name in ("gain", "lift") else high[0], rtol=1e-9)


def said(metric):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = metric.compute()
    return value, [str(each.message) for each in caught if each.category is fm.BucketWarning]


CLOSE = np.linspace(0.5, 0.5001, 200), (np.arange(200) >= 100).astype(int), None


@pytest.mark.parametrize("name", METRICS)
def test_scores_of_one_bucket_are_a_warning_with_the_bounds_unless_a_tolerance_allows_them(name):
    make, exactly = METRICS[name]
    metric, *_ = added(make, CLOSE, name="mine")
    value, (text,) = said(metric)
    low, high = map(float, re.search(r"between (\S+) and (\S+), further apart", text).groups())
    exact = np.atleast_1d(exactly(*points(*CLOSE[:2], np.ones(200))))
    assert text.startswith("mine (") and "tolerance=0.01 allows. Give more buckets=, or tolerance=None" in text
    assert any(low <= each <= high for each in exact) and high - low > 0.1
    assert ("at the fraction" in text) == (name in ("gain", "lift"))
    for tolerance in (None, float("inf"), 100):
        other, silent = said(added(make, CLOSE, tolerance=tolerance)[0])
        assert not silent and np.array_equal(number(other), number(value))
    with as_options():
        (text,) = said(added(make, CLOSE, name="mine")[0])[1]
    assert text.startswith("mine: ") and "more than 0.01 apart" in text
    assert re.search(r"Ask for more buckets, [a-z_]+:buckets=65536; with few distinct scores", text)


@pytest.mark.parametrize("name", ["sensitivity", "specificity"])
def test_one_class_in_a_bucket_is_enough_for_a_warning(name):
    """Of the other class, three samples of a thousand are in it, where the limit is."""
    above, inside, below = np.linspace(0.6, 0.9, 199), 0.5 + 1e-6 * np.arange(3), np.linspace(0.1, 0.4, 798)
    spread, close = np.concatenate([above, inside, below]), np.full(100, 0.5) + 1e-7
    spread, close = (spread, close) if name == "sensitivity" else (1 - spread, 1 - close)
    label = np.array([0] * 1000 + [1] * 100) if name == "sensitivity" else np.array([1] * 1000 + [0] * 100)
    assert said(added(METRICS[name][0], (np.append(spread, close), label, None), tolerance=0.1)[0])[1]


@pytest.mark.parametrize("name", METRICS)
def test_distinct_scores_of_many_buckets_need_no_warning(name):
    random = np.random.default_rng(1)
    score = random.random(10_000)
    label = (random.random(10_000) < score).astype(int)
    assert not said(added(METRICS[name][0], (score, label, None))[0])[1]


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), "0.01", True])
def test_a_tolerance_is_a_number_of_at_least_0_or_none(tolerance):
    for make, _ in METRICS.values():
        with pytest.raises(fm.InvalidInputError, match="tolerance must be a number of at least 0, or None"):
            make(tolerance=tolerance)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
def test_one_class_alone_has_no_bounds(name):
    for label in (0, 1):
        assert not said(added(METRICS[name][0], (np.array([0.5, 0.50001]), np.array([label] * 2), None))[0])[1]
