"""AUC: Paddle's buckets, bit for bit, in every mode; log-odds buckets; guaranteed bounds; arguments."""

from __future__ import annotations

import math
import pickle
import warnings

import numpy as np
import paddle
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import fleetmetrics as fm
from tests.contract import MODES, Data, feed, static_mode
from tests.paddle_version import on_legacy_graph


def edges(thresholds: int, dtype: str) -> np.ndarray:
    """Every bucket's edge and its neighbors, and numbers between them."""
    edge = (np.arange(thresholds + 1) / thresholds).astype(dtype)
    zero, one = np.zeros(1, dtype), np.ones(1, dtype)
    around = [np.nextafter(edge, zero), edge, np.minimum(np.nextafter(edge, one), one)]
    tiny = np.array([np.finfo(dtype).tiny, np.finfo(dtype).eps, 0.5, -0.0], dtype)
    return np.concatenate([*around, tiny, np.random.default_rng(0).random(4000).astype(dtype)])


def histogram(score: np.ndarray, label: np.ndarray, thresholds: int, mode: str) -> np.ndarray:
    """The histograms of both classes that the metric accumulates over two batches."""
    metric = fm.AUC(num_thresholds=thresholds)
    half = len(score) // 2
    parts = [Data(score[:half], label[:half]), Data(score[half:], label[half:])]
    scope = feed(metric, parts, mode)
    return metric.states["histogram"].read(scope).reshape(2, -1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("thresholds", [1, 3, 200, 4095, 10_000])
def test_a_score_falls_into_the_same_bucket_in_every_mode(thresholds, dtype):
    score = edges(thresholds, dtype)
    label = np.random.default_rng(1).integers(0, 2, len(score))
    precision = np.float64 if dtype == "float64" else np.float32
    bucket = (score.astype(precision) * precision(thresholds)).astype(int)
    expected = [np.bincount(bucket[label == c], minlength=thresholds + 1) for c in (0, 1)]
    for mode in MODES:
        np.testing.assert_array_equal(histogram(score, label, thresholds, mode), expected)


@on_legacy_graph
@pytest.mark.parametrize("thresholds", [7, 200, 4095])
def test_histograms_are_those_of_paddle_static_auc_bit_for_bit(thresholds):
    score = edges(thresholds, "float32")
    label = np.random.default_rng(1).integers(0, 2, len(score))
    main, startup, scope = paddle.static.Program(), paddle.static.Program(), paddle.static.Scope()
    executor = paddle.static.Executor(paddle.CPUPlace())
    with static_mode(), paddle.static.program_guard(main, startup), paddle.static.scope_guard(scope):
        table = paddle.static.data("table", [-1, 2], "float32")
        truth = paddle.static.data("truth", [-1, 1], "int64")
        states = paddle.static.auc(table, truth, num_thresholds=thresholds)[2]
        executor.run(startup)
        for part in np.array_split(np.arange(len(score)), 3):
            feeds = {"table": np.stack([1 - score, score], 1)[part], "truth": label[part, None]}
            executor.run(main, feed=feeds)
    positive, negative = (np.array(scope.find_var(state.name).get_tensor()).reshape(-1) for state in states[2:])
    for mode in MODES:
        np.testing.assert_array_equal(histogram(score, label, thresholds, mode), [negative, positive])
    assert fm.auc(states[2], states[3], scope) == fm.formulas.auc_from_histogram(positive, negative)


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "4095", np.float64(3)])
def test_num_thresholds_must_be_a_whole_number_of_at_least_1(value):
    with pytest.raises(fm.InvalidInputError, match="num_thresholds must be an integer of at least 1, not ") as error:
        fm.AUC(num_thresholds=value)
    assert repr(value) in str(error.value)


def test_more_than_two_columns_are_an_error_that_says_what_is_allowed():
    metric = fm.AUC()
    with pytest.raises(fm.InvalidInputError, match=r"prediction has shape \[n, 3\]; allowed are \[n\], \[n, 1\]"):
        metric.add(np.full([4, 3], 1 / 3), [0, 1, 2, 0])


# -- log-odds buckets and bounds -------------------------------------------------------------------------


def rare(seed: int, samples: int = 300_000) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated scores and labels at a click rate of 0.02 %."""
    rng = np.random.default_rng(seed)
    score = 1 / (1 + np.exp(-rng.normal(-9.2, 1.2, samples)))
    return score, (rng.random(samples) < score).astype(np.int64)


@pytest.mark.thorough
def test_at_a_rate_of_two_in_ten_thousand_linear_buckets_are_far_off_and_log_odds_buckets_are_not():
    off: dict[str, list[float]] = {"linear": [], "log_odds": []}
    for seed in range(2):
        score, label = rare(seed)
        assert 0.0001 < label.mean() < 0.0003
        exact = roc_auc_score(label, score)
        for spacing, errors in off.items():
            metric = fm.AUC(spacing=spacing, bounds=True)
            metric.add(score, label)
            value, low, high = metric.compute()
            assert low < exact < high
            assert (high - low > 0.2) == (spacing == "linear") and (high - low < 0.002) == (spacing == "log_odds")
            errors.append(abs(value - exact))
    assert min(off["linear"]) > 0.03
    assert max(off["log_odds"]) < 2e-4


@pytest.mark.numpy_only
@pytest.mark.parametrize("spacing", ["log_odds", "linear"])
@pytest.mark.parametrize("curve", ["ROC", "PR", "part of ROC"])
def test_the_area_of_the_raw_scores_always_lies_between_the_bounds(curve, spacing):
    settings = {"curve": "PR"} if curve == "PR" else {"max_fpr": 0.2 if curve == "part of ROC" else None}
    theirs = {
        "ROC": roc_auc_score,
        "PR": average_precision_score,
        "part of ROC": lambda y, p, **w: roc_auc_score(y, p, max_fpr=0.2, **w),
    }[curve]
    rng = np.random.default_rng(2)
    for number in range(60):
        size = int(rng.integers(2, 300))
        score = 1 / (1 + np.exp(-rng.normal(rng.uniform(-8, 2), rng.uniform(0.1, 3), size)))
        if number % 3 == 0:
            score = np.round(score, 2)
        if number % 4 == 0:
            score = score.astype(np.float32)
        label = rng.random(size) < rng.choice([0.05, 0.5])
        label[:2] = True, False
        weight = rng.random(size) if number % 2 else None
        metric = fm.AUC(buckets=int(rng.integers(2, 40)), spacing=spacing, bounds=True, **settings)
        metric.add(score, label, weight)
        value, low, high = metric.compute()
        exact = theirs(label, score, sample_weight=weight)
        assert low <= value <= high and low - 1e-12 <= exact <= high + 1e-12


def test_bounds_are_a_named_tuple_and_do_not_change_the_value():
    plain, bounded = fm.AUC(buckets=6), fm.AUC(buckets=6, bounds=True)
    score, label = np.random.default_rng(3).random((2, 99))
    for metric in (plain, bounded):
        metric.add(score, label < score)
    assert bounded.compute()._fields == ("value", "low", "high")
    assert bounded.compute().value == plain.compute()


def test_no_samples_leave_the_bounds_undefined_too_with_one_warning():
    for make in (fm.AUC, fm.AveragePrecision):
        with pytest.warns(fm.UndefinedMetricWarning) as told:
            assert np.isnan(make(bounds=True).compute()).all()
        assert len(told) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert make(bounds=True, zero_division=0.5).compute() == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_is_nan_with_a_warning_or_what_was_asked_for(label):
    metric, given = fm.AUC(), fm.AUC(zero_division=0.5)
    for each in (metric, given):
        each.add([0.25, 0.5], [label, label])
    with pytest.warns(fm.UndefinedMetricWarning, match=f"auc is undefined: no sample is labeled {1 - label};"):
        assert math.isnan(metric.compute())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert given.compute() == 0.5


# -- logits ----------------------------------------------------------------------------------------------


def test_logits_are_an_error_that_says_what_to_do_and_are_taken_where_they_are_announced():
    logit = np.random.default_rng(4).normal(size=200) * 4
    label = np.random.default_rng(5).random(200) < 1 / (1 + np.exp(-logit))
    with pytest.raises(fm.InvalidInputError, match=r"a probability in \[0, 1\] \(apply the sigmoid or softmax"):
        fm.AUC().add(logit, label)
    plain, announced = fm.AUC(), fm.AUC(from_logits=True)
    plain.add(1 / (1 + np.exp(-logit)), label)
    announced.add(logit, label)
    assert announced.compute() == plain.compute()


# -- arguments -------------------------------------------------------------------------------------------


def test_num_thresholds_means_paddles_linear_buckets():
    metric = fm.AUC(num_thresholds=200)
    assert (metric.buckets, metric.spacing) == (201, "linear")
    same = fm.AUC(num_thresholds=200, buckets=201, spacing="linear")
    assert (
        same.states["histogram"].key
        == metric.states["histogram"].key
        == fm.AUC(buckets=201, spacing="linear").states["histogram"].key
    )


def test_new_code_gets_4096_log_odds_buckets():
    assert (fm.AUC().buckets, fm.AUC().spacing) == (4096, "log_odds")


@pytest.mark.parametrize("buckets", [2, 3, 5, 4097])
def test_any_number_of_buckets_from_2_on_will_do(buckets):
    for spacing in ("linear", "log_odds"):
        metric = fm.AUC(buckets=buckets, spacing=spacing)
        metric.add([0.0, 1.0, 0.5, 0.5], [0, 1, 1, 0])
        assert metric.states["histogram"].read().shape == (2, buckets)
        assert 0.5 < metric.compute() <= 1


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"num_thresholds": 200, "spacing": "log_odds"}, "num_thresholds means Paddle's buckets, spacing='linear'"),
        ({"num_thresholds": 200, "buckets": 200}, "num_thresholds=200 means 201 buckets, and buckets is 200"),
        ({"buckets": 1}, "buckets must be an integer of at least 2, not 1"),
        ({"buckets": 2.0}, "buckets must be an integer of at least 2, not 2.0"),
        ({"buckets": True}, "buckets must be an integer of at least 2, not True"),
        ({"buckets": 2**24 + 1}, r"buckets must be at most 2\*\*24 with spacing='log_odds', not 16777217"),
        ({"spacing": "log"}, "spacing must be one of 'log_odds', 'linear', not 'log'"),
        ({"curve": "roc"}, "curve must be one of 'ROC', 'PR', not 'roc'"),
        ({"curve": None}, "curve must be one of 'ROC', 'PR', not None"),
        ({"max_fpr": 0}, "max_fpr must be None or a number above 0 and at most 1, not 0"),
        ({"max_fpr": 0.1, "curve": "PR"}, "max_fpr is for curve='ROC', not for curve='PR'"),
        ({"zero_division": "warn"}, "zero_division must be nan or a finite number, not 'warn'"),
    ],
)
def test_a_wrong_argument_is_an_error_that_names_it_its_value_and_what_is_allowed(settings, told):
    with pytest.raises(fm.InvalidInputError, match=told):
        fm.AUC(**settings)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("settings", [{}, {"spacing": "linear"}, {"buckets": 7}, {"curve": "PR"}])
def test_plain_arrays_are_counted_as_any_others(settings, dtype):
    random = np.random.default_rng(0)
    edges = [0, 1, 0.5, 1e-300, 1e-30, 2.0**-32, 2.0**-33, 1 - 2.0**-20, np.nextafter(np.array(1, dtype), 0)]
    score = np.concatenate([random.random(100), edges]).astype(dtype)
    label = random.integers(0, 2, len(score))
    short, long = fm.AUC(**settings), fm.AUC(**settings)
    for _ in range(3):
        short.add(score, label)
        long.add(score, label, mask=np.ones(len(score), bool))
    found, expected = (each.states["histogram"].value for each in (short, long))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("score", [np.nan, -1e-9, 1.0 + 1e-6, np.inf])
def test_a_plain_array_with_a_wrong_score_adds_nothing_in_any_batch(score):
    metric = fm.AUC()
    for _ in range(3):
        with pytest.raises(fm.InvalidInputError, match="prediction"):
            metric.add(np.array([0.5, score]), np.array([0, 1]))
        metric.add(np.array([0.5, 0.25]), np.array([0, 1]))
    for label in (2, -1, 2**40):
        with pytest.raises(fm.InvalidInputError, match="label"):
            metric.add(np.array([0.5, 0.25]), np.array([label, 1]))
    assert metric.states["histogram"].value.sum() == 6


def test_a_metric_with_statistics_or_rules_of_its_own_keeps_them():
    class Doubled(fm.AUC):
        def batch_statistics(self, batch):
            return {name: 2 * np.ones((2, 4096), np.int64) for name in super().batch_statistics(batch)}

    class Picky(fm.AUC):
        def __init__(self):
            super().__init__()
            self.requirements = (*self.requirements, "finite_label")

        def requirements_of(self, batch):
            raise fm.InvalidInputError("too picky")

    doubled, picky = Doubled(), Picky()
    for _ in range(2):
        doubled.add(np.array([0.5]), np.array([1]))
        with pytest.raises(fm.InvalidInputError, match="too picky"):
            picky.add(np.array([0.5]), np.array([1]))
    assert doubled.states["histogram"].value.min() == 4


@pytest.mark.parametrize("make", [fm.ROCCurve, fm.PrecisionRecallCurve, lambda **given: fm.AUC(bounds=True, **given)])
def test_a_value_stays_as_it_was_when_more_is_counted_in_place(make):
    rng = np.random.default_rng(3)
    metric = make(buckets=64)
    metric.add(rng.random(30), rng.integers(0, 2, 30))
    value, state = metric.compute(), metric.state_dict()
    kept = [np.array(each) for each in (*value, *state.values())]
    other = metric.fresh()
    other.merge(metric)
    again = pickle.loads(pickle.dumps(metric))
    for _ in range(3):
        metric.add(rng.random(30), rng.integers(0, 2, 30))
    assert all(np.array_equal(*both, equal_nan=True) for both in zip(kept, (*value, *state.values())))
    for each in (other, again):
        assert all(np.array_equal(*both, equal_nan=True) for both in zip(value, each.compute()))
