"""The bootstrap: replicates as a loop would make them, intervals as theory has them, on any number of workers."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.batch.hashing import integer_ids, poisson, salts, words
from fleetmetrics.wrappers import bootstrap
from fleetmetrics.xp import numpy_ops, paddle_ops
from tests.contract import MODES, Data, arguments, batches, draw, feed, new_programs, same
from tests.exactness import taken
from tests.fakes import Together, together

pytestmark = pytest.mark.halved

RNG = np.random.default_rng(17)
N = 300
P, Y, W, IDS = RNG.random(N), RNG.integers(0, 2, N), RNG.random(N), RNG.permutation(N)
DATA = Data(P, Y, W, None, {"uid": IDS})


def drawn(ids: Any, replicates: int, seed: int = 0) -> np.ndarray:
    times = poisson(numpy_ops, *words(numpy_ops, integer_ids(np.asarray(ids)), seed), salts(seed, replicates))
    return times.astype(np.int64)


def resampled(make: Any, data: Data, times: np.ndarray) -> list[Any]:
    """The value of a metric of its own for each replicate."""
    values = []
    for column in times.T:
        own = np.repeat(np.arange(len(column)), column)
        metric = make()
        part = Data(*[None if each is None else each[own] for each in data[:3]])
        metric.add(**arguments(metric, part))
        values.append(metric.compute())
    return values


METRICS = {
    "auc": fm.AUC,
    "accuracy": fm.Accuracy,
    "mean absolute error": fm.MeanAbsoluteError,
    "max": fm.Max,
    "r2": fm.R2Score,
    "stat scores": fm.ConfusionMatrix,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", METRICS)
def test_each_replicate_is_the_metric_of_the_samples_that_it_draws(name: str, mode: str) -> None:
    make = METRICS[name]
    metric = fm.Bootstrap(make(), 12, seed=3, ids="uid")
    result = metric.compute(feed(metric, batches(DATA, 64), mode))
    wanted = resampled(make, DATA, drawn(IDS, 12, 3))
    assert same(result.replicates, np.array(wanted, float), False, 1e-9)
    assert same(result.value, resampled(make, DATA, np.ones((N, 1), int))[0], False)
    assert result.drawn.tolist() == drawn(IDS, 12, 3).sum(axis=0).tolist() and result.seed == 3


SPARSE = np.isin(np.arange(1000), [3, 700]).astype(float)
NORMAL = np.random.default_rng(4).normal(size=(2, 1000))
HARD = {
    "two ones": (NORMAL[0], SPARSE),
    "outlier": (NORMAL[0], np.where(np.arange(1000) == 5, 1e10, NORMAL[1])),
    "offset": (1.7e12 + NORMAL[0], 1.7e12 + NORMAL[0] + NORMAL[1]),
}


@pytest.mark.numpy_only
@pytest.mark.parametrize("labels", HARD)
@pytest.mark.parametrize("make", [fm.R2Score, fm.ExplainedVariance, fm.PearsonCorrelation])
def test_replicates_of_hard_labels_are_right_and_the_same_for_every_split(make: Any, labels: str) -> None:
    prediction, label = HARD[labels]
    times = drawn(np.arange(1000), 100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.UndefinedMetricWarning)
        wanted = resampled(make, Data(prediction, label), times)
        constant = [len(np.unique(label[column > 0])) == 1 for column in times.T]
        assert np.isnan(wanted).tolist() == constant and any(constant) == (labels == "two ones")
        for parts in (1, 7, 50):
            metric = fm.Bootstrap(make(), 100, ids="uid")
            for part in np.array_split(RNG.permutation(1000), parts):
                metric.add(prediction[part], label[part], uid=part)
            result = metric.compute()
            np.testing.assert_allclose(result.replicates, wanted, 1e-12, 1e-14)  # of 1 minus what is almost 1


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
@pytest.mark.parametrize("shape", ["flat", "matrix", "sliced", "sliced by keys"])
@pytest.mark.thorough
def test_a_large_batch_is_taken_in_parts(shape: str, mode: str, monkeypatch: Any) -> None:
    data = DATA
    if shape == "matrix":
        data = Data(P.reshape(-1, 3), Y.reshape(-1, 3), W.reshape(-1, 3)[:, 0], None, {"uid": IDS[: N // 3]})
    makes = {"flat": fm.AUC, "matrix": fm.R2Score, "sliced": fm.Variance, "sliced by keys": fm.Variance}
    found = []
    for at_once in (2**20, 50):
        monkeypatch.setattr(bootstrap, "_AT_ONCE", at_once)
        metric: Any = fm.Bootstrap(makes[shape](), 7, ids="uid")
        more = {}
        if "sliced" in shape:
            metric, more = fm.Sliced(metric, keys=[0, 1] if "keys" in shape else None), {"slot": IDS % 3}
        for _ in range(2):
            feed(metric, [data._replace(columns={**data.columns, **more})], mode)
        found.append(metric.compute())
    assert same(found[0], found[1], False, 1e-9)


OF_LABELS = {
    "accuracy": lambda: fm.Accuracy(task="multilabel", num_labels=3),
    "f1": lambda: fm.F1(task="multilabel", num_labels=3),
    "auc": lambda: fm.AUC(task="multilabel", num_labels=3),
    "log loss": lambda: fm.LogLoss(task="multilabel", num_labels=3),
    "exact match": lambda: fm.ExactMatch(task="multilabel", num_labels=3),
}


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
@pytest.mark.parametrize("sliced", [False, True], ids=["whole", "sliced"])
@pytest.mark.parametrize("drop", ["mask", "weight"])
@pytest.mark.parametrize("name", OF_LABELS)
def test_parts_of_a_large_batch_of_several_labels_know_which_rows_were_left_out(name, drop, sliced, mode, monkeypatch):
    rng = np.random.default_rng(5)
    flags = rng.random(60) < 0.7
    given = {"mask": flags} if drop == "mask" else {"weight": flags * rng.random(60)}
    columns = {"uid": np.arange(60), **({"slot": np.arange(60) % 4} if sliced else {})}
    whole = Data(
        rng.random((60, 3)), rng.integers(0, 2, (60, 3)), **{"weight": None, "mask": None, **given}, columns=columns
    )
    found = []
    for at_once, parts in ((10**6, 20), (100, 1)):
        monkeypatch.setattr(bootstrap, "_AT_ONCE", at_once)
        metric: Any = fm.Bootstrap(OF_LABELS[name](), 7, ids="uid")
        metric = fm.Sliced(metric) if sliced else metric
        feed(metric, [taken(whole, rows) for rows in np.array_split(np.arange(60), parts)], mode)
        found.append(metric.compute())
    assert same(found[0], found[1], False, 1e-12)


def test_unknown_classes_of_a_large_batch_that_is_not_checked_count_nowhere(monkeypatch: Any) -> None:
    label, found = np.arange(60) % 5 - 1, []
    for at_once in (2**23, 64):
        monkeypatch.setattr(bootstrap, "_AT_ONCE", at_once)
        metric = fm.Bootstrap(fm.ConfusionMatrix(num_classes=3, validate=False), 5, ids="uid")
        metric.add(np.arange(60) % 3, label, uid=np.arange(60))
        found.append(metric.compute())
    assert found[0].value.sum() == np.isin(label, [0, 1, 2]).sum()
    assert np.array_equal(found[0].replicates, found[1].replicates)


def test_a_large_batch_is_shared_by_a_collection(monkeypatch: Any) -> None:
    found = []
    for at_once in (2**20, 50):
        monkeypatch.setattr(bootstrap, "_AT_ONCE", at_once)
        members = {"auc": fm.AUC(), "ks": fm.KolmogorovSmirnov(), "sum": fm.Sum(), "max": fm.Max()}
        sure = {key: fm.Bootstrap(metric, 7, ids="uid") for key, metric in members.items()}
        metrics = fm.MetricCollection({**sure, "again": fm.Bootstrap(fm.Sum(), 7, ids="uid")})
        metrics.add(P, Y, uid=IDS)
        found.append(metrics.compute())
    assert same(found[0], found[1], False, 1e-9)


@pytest.mark.numpy_only
def test_the_standard_error_is_that_of_theory() -> None:
    rng = np.random.default_rng(0)
    label = (rng.random(20_000) < 0.3).astype(int)
    metric = fm.Bootstrap(fm.Accuracy(), 400, ids="uid")
    metric.add(np.zeros(20_000), label, uid=np.arange(20_000))
    result = metric.compute()
    error = math.sqrt(result.value * (1 - result.value) / 20_000)
    assert result.std == pytest.approx(error, rel=4 / math.sqrt(2 * 400))
    assert result.mean == pytest.approx(result.value, abs=5 * error / math.sqrt(400))
    width = 2 * 1.96 * error
    assert result.high - result.low == pytest.approx(width, rel=0.2)


@pytest.mark.numpy_only
def test_the_interval_is_that_of_drawing_with_replacement() -> None:
    rng = np.random.default_rng(4)
    label = rng.integers(0, 2, 2000)
    score = np.clip(rng.normal(0.4 + 0.2 * label, 0.2), 0, 1)
    metric = fm.Bootstrap(fm.AUC(), 500, ids="uid")
    metric.add(score, label, uid=np.arange(2000))
    result = metric.compute()
    values = []
    for _ in range(500):
        own = rng.integers(0, 2000, 2000)
        alone = fm.AUC()
        alone.add(score[own], label[own])
        values.append(alone.compute())
    assert result.std == pytest.approx(np.std(values), rel=0.15)
    low, high = np.percentile(values, [2.5, 97.5])
    assert abs(result.low - low) < 0.3 * np.std(values) and abs(result.high - high) < 0.3 * np.std(values)


@pytest.mark.numpy_only
def test_the_interval_holds_the_true_value_as_often_as_it_says() -> None:
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        metric = fm.Bootstrap(fm.Mean(), 200, seed=seed, confidence=0.9, ids="uid")
        metric.add(rng.exponential(size=300), uid=np.arange(300))
        result = metric.compute()
        held += result.low <= 1 <= result.high
    assert 0.82 <= held / 200 <= 0.96


@pytest.mark.numpy_only
def test_the_interval_of_a_largest_distance_is_too_high_where_samples_are_few() -> None:
    """From the guide: KS is biased upwards, and its replicates even more."""
    rng, truth = np.random.default_rng(0), math.erf(0.5 / math.sqrt(2))  # the scores of the classes are normal, 1 apart
    results = []
    for seed in range(40):
        label = rng.random(600) < 0.3
        metric = fm.Bootstrap(fm.KolmogorovSmirnov(from_logits=True, buckets=1024), 100, seed=seed)
        metric.add(rng.normal(size=600) + label, label)
        results.append(metric.compute())
    assert np.mean([each.value for each in results]) > truth + 0.01
    assert np.mean([each.mean - each.value for each in results]) > 0.01
    assert sum(each.low > truth for each in results) > sum(each.high < truth for each in results) == 0


# -- ids ------------------------------------------------------------------------------------------------------


@pytest.mark.numpy_only
def test_the_interval_depends_neither_on_the_order_nor_on_the_workers() -> None:
    label = (P > 0.4) ^ (RNG.random(N) < 0.2)
    wanted = fm.Bootstrap(fm.Accuracy(), 50, ids="uid", name="mine")
    wanted.add(P, label, uid=IDS)

    for workers in (1, 2, 3):
        parts = np.array_split(np.random.default_rng(workers).permutation(N), workers)
        parts[-1] = np.concatenate([parts[-1], []]).astype(int)

        def work(channel: Together, parts: Any = parts) -> Any:
            metric = fm.Bootstrap(fm.Accuracy(), 50, ids="uid", name="mine")
            for own in np.array_split(parts[channel.rank], 3):
                metric.add(P[own], label[own], uid=IDS[own])
            result = metric.compute(communicator=channel)
            assert len(channel.calls) == 1
            return result

        assert all(same(each, wanted.compute(), True) for each in together([work] * workers))


def test_samples_of_one_id_are_drawn_together() -> None:
    metric = fm.Bootstrap(fm.Count(), 40, ids="user")
    metric.add(np.zeros(30), user=np.full(30, 7))
    assert metric.compute().replicates.tolist() == (30 * drawn([7], 40)[0]).tolist()


def test_a_row_of_a_matrix_is_one_sample() -> None:
    metric = fm.Bootstrap(fm.Sum(), 20, ids="uid")
    metric.add(np.array([[1.0, 2.0], [4.0, 8.0]]), uid=[3, 4])
    times = drawn([3, 4], 20)
    assert metric.compute().replicates.tolist() == (3 * times[0] + 12 * times[1]).tolist()


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_ids_may_be_texts_or_any_integers(mode: str) -> None:
    put = np.asarray if mode == "numpy" else paddle.to_tensor
    for ids in (np.array(["a", "b", "a"]), np.array([2**64 - 1, 0, 5], np.uint64), np.array([1, 2, 3], np.int8)):
        metric = fm.Bootstrap(fm.Count(), 10, ids="uid")
        metric.add(put(np.zeros(3)), uid=ids)
        assert metric.compute().drawn.tolist() == drawn(ids, 10).sum(axis=0).tolist()
    tensor = fm.Bootstrap(fm.Count(), 10, ids="uid")
    tensor.add(put(np.zeros(3)), uid=paddle.to_tensor([1, 2, 3]))
    assert tensor.compute().drawn.tolist() == drawn([1, 2, 3], 10).sum(axis=0).tolist()


@pytest.mark.parametrize("at_once", [2**20, 50], ids=["one part", "several"])
def test_tensors_that_must_not_be_waited_for_draw_the_same(at_once: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(paddle_ops, "is_eager", lambda tensor: False)
    monkeypatch.setattr(bootstrap, "_AT_ONCE", at_once)
    found, mask = [], RNG.random(N) < 0.8
    for put in (np.asarray, paddle.to_tensor):
        metric = fm.Bootstrap(fm.Accuracy(), 9, seed=4, ids="uid")
        for part in batches(DATA._replace(prediction=np.where(mask, P, np.nan), mask=mask), 50):
            uid = put(part.columns["uid"])
            metric.add(put(part.prediction), put(part.label), mask=put(part.mask), uid=uid)
        found.append(metric.compute())
    assert same(found[0], found[1], True)


# -- no ids ---------------------------------------------------------------------------------------------------


def without_ids(metric: Any, parts: Any = None, workers: int = 1, mode: str = "numpy") -> Any:
    """What every worker computes."""
    made = [fm.Bootstrap(metric.fresh(), 30, seed=-5, name="mine") for _ in range(workers)]
    parts = batches(DATA._replace(weight=None, columns={}), 50) if parts is None else parts
    if mode != "numpy":
        return made[0].compute(feed(made[0], parts, mode))
    for place, part in enumerate(parts):
        feed(made[place % workers], [part], mode)
    first, *rest = together([lambda channel, each=each: each.compute(communicator=channel) for each in made])
    assert all(same(each, first, True) for each in rest)
    return first


COUNTS = {
    "auc": fm.AUC(),
    "accuracy": fm.Accuracy(),
    "f1": fm.F1(task="binary"),
    "count": fm.Count(),
    "click-through rate": fm.ClickThroughRate(),
    "kolmogorov-smirnov": fm.KolmogorovSmirnov(),
    "an expression": 2 * fm.Precision(task="binary") - fm.Recall(task="binary"),
}


@pytest.mark.parametrize("name", COUNTS)
def test_without_ids_the_interval_depends_neither_on_the_workers_nor_on_the_batches(name: str) -> None:
    data = DATA._replace(weight=None, columns={})
    wanted = without_ids(COUNTS[name])
    assert wanted.std > 0 and wanted.drawn is None
    assert same(without_ids(COUNTS[name], batches(data, 7)[::-1], 3), wanted, True)
    for mode in ("dynamic", "static") if name == "accuracy" else ():
        assert same(without_ids(COUNTS[name], mode=mode), wanted, True)


@pytest.mark.numpy_only
@pytest.mark.parametrize("name", COUNTS)
def test_without_ids_the_replicates_spread_as_those_of_ids_do(name: str) -> None:
    rng = np.random.default_rng(1)
    score = rng.random(4000)
    data = score, (rng.random(4000) < score).astype(int)
    one, other = fm.Bootstrap(COUNTS[name].fresh(), 1000), fm.Bootstrap(COUNTS[name].fresh(), 1000, ids="uid")
    one.add(*data)
    other.add(*data, uid=np.arange(4000))
    one, other = one.compute(), other.compute()
    assert one.value == other.value and one.std == pytest.approx(other.std, rel=5 / math.sqrt(1000))
    assert one.mean == pytest.approx(other.mean, abs=5 * one.std * math.sqrt(2 / 1000))


def test_states_that_hang_together_are_drawn_together() -> None:
    metric = fm.Bootstrap(fm.Accuracy(), 300)
    metric.add([0.9] * 3, [1, 1, 0])
    with pytest.warns(fm.UndefinedMetricWarning, match="replicates"):
        result = metric.compute()
    defined = result.replicates[~np.isnan(result.replicates)]
    assert (defined <= 1).all() and (defined == 1).any() and 5 <= 300 - len(defined) <= 35  # exp(-3) of 300


@pytest.mark.numpy_only
@pytest.mark.parametrize("ids", [None, "uid"])
def test_every_seed_draws_other_samples(ids: Any) -> None:
    seen = set()
    for seed in (0, 1, 3, -3, -1, 2**63, -(2**63), 2**64 + 3, 2**32 + 3):
        metric = fm.Bootstrap(fm.Accuracy(), 20, seed=seed, ids=ids)
        metric.add(P[:200], Y[:200], **({} if ids is None else {"uid": np.arange(200)}))
        seen.add(metric.compute().replicates.tobytes())
    assert len(seen) == 9


def test_very_large_counts_are_drawn() -> None:
    metric = fm.Bootstrap(fm.Count(), 400)
    for number in (2**62, 2**63 - 1):
        metric.states[f"{metric.name}.total"].write(np.array(number))
        result = metric.compute()
        assert result.mean == pytest.approx(number, rel=1e-8) and result.std == pytest.approx(2**31.25, rel=0.5)


def test_without_ids_nothing_but_the_metrics_own_states_is_kept() -> None:
    metrics = fm.MetricCollection({"auc": fm.AUC(), "sure": fm.Bootstrap(fm.AUC())}, name="m")
    assert [state.name for state in metrics._states()][3:] == ["m.auc.histogram"]
    one, other = (fm.Bootstrap(fm.Count(), 8, seed=3) for _ in range(2))
    both = fm.Bootstrap(fm.Count(), 8, seed=3)
    for metric in (one, other, both, both):
        metric.add([0.5])
    one.merge(other)
    assert same(one.compute(), both.compute(), True)


@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
def test_without_ids_each_slice_and_window_has_its_interval() -> None:
    slot = IDS % 2
    for keys in (None, [0, 1]):
        metric = fm.Sliced(fm.Bootstrap(fm.AUC(buckets=64)), keys=keys)
        metric.add(P, Y, slot=slot)
        for key, result in metric.compute().items():
            alone = fm.Bootstrap(fm.AUC(buckets=64))
            alone.add(P[slot == key], Y[slot == key])
            assert same(result, alone.compute(), True)
    recent = fm.Windowed(fm.Bootstrap(fm.Accuracy(), 9), 1)
    recent.add(P, Y)
    recent.add(P[:50], Y[:50])
    alone = fm.Bootstrap(fm.Accuracy(), 9)
    alone.add(P[:50], Y[:50])
    assert same(recent.compute().window, alone.compute(), True)


@pytest.mark.parametrize(
    "metric",
    [
        fm.MeanAbsoluteError(),
        fm.Calibration(),
        fm.Max(),
        fm.Sum(),
        fm.AUC(task="multiclass", num_classes=3),
        fm.F1(task="multilabel", num_labels=3),
        fm.Accuracy() + fm.AUC(),
        fm.Accuracy(task="multilabel", num_labels=2),
    ],
    ids=lambda metric: type(metric).__name__,
)
def test_metrics_of_other_states_ask_for_ids(metric: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match=r"without ids takes metrics that count samples.* Give ids="):
        fm.Bootstrap(metric)
    fm.Bootstrap(metric, ids="uid")


def test_weights_and_rows_ask_for_ids() -> None:
    metric = fm.Bootstrap(fm.Accuracy(), name="mine")
    with pytest.raises(
        fm.InvalidInputError, match=r"mine \(.*\): without ids, Bootstrap counts samples.* given weights. Give"
    ):
        metric.add(P, Y, W)
    with pytest.raises(fm.InvalidInputError, match=r"it was given rows of several elements.* Give ids="):
        metric.add(P.reshape(-1, 2), Y.reshape(-1, 2))
    assert not metric.holds_samples()
    metric.add(P[:, None], Y[:, None], mask=Y > 0)
    assert metric.metric.states["total"].read() == Y.sum()


# -- two models -----------------------------------------------------------------------------------------------


def models(better: float, ids: str | None = "uid") -> tuple[Any, Any]:
    """Results of two models over the same samples, of which the first one is right more often."""
    rng = np.random.default_rng(8)
    label = rng.integers(0, 2, 3000)
    noise = rng.random(3000)
    results = []
    for right in (0.7 + better, 0.7):
        metric = fm.Bootstrap(fm.Accuracy(), 300, ids=ids)
        prediction = np.where(noise < right, label, 1 - label).astype(float)
        metric.add(prediction, label, **({"uid": np.arange(3000)} if ids else {}))
        results.append(metric.compute())
    return results[0], results[1]


def test_without_ids_results_are_no_pairs() -> None:
    with pytest.raises(fm.InvalidInputError, match=r"without ids, .* give both Bootstraps ids="):
        fm.paired_difference(*models(0.01, None))


def test_paired_replicates_see_what_intervals_apart_do_not() -> None:
    one, other = models(0.01)
    found = fm.paired_difference(one, other)
    assert found.value == pytest.approx(one.value - other.value)
    assert one.low < other.high  # the intervals overlap
    assert 0 < found.low < found.high and found.p_value < 0.02
    # The predictions differ in about 1 % of the samples, always to the better.
    assert found.std == pytest.approx(math.sqrt(found.value * (1 - found.value) / 3000), rel=0.2)


def test_equal_models_do_not_differ() -> None:
    one, other = models(0.0)
    assert fm.paired_difference(one, other)[:4] == (0.0, 0.0, 0.0, 1.0)


def test_slices_can_be_compared() -> None:
    results = []
    for shift in (0.0, 0.1):
        metric = fm.Sliced(fm.Bootstrap(fm.MeanAbsoluteError(), 50, ids="uid"))
        metric.add(P + shift, np.zeros(N), uid=IDS, slot=IDS % 2)
        results.append(metric.compute())
    found = fm.paired_difference(results[1], results[0])
    assert list(found) == [0, 1] and found[0].value == pytest.approx(0.1) and found[0].std < 1e-12


# -- kinds of values ------------------------------------------------------------------------------------------


def test_arrays_tuples_and_dicts_have_a_result_for_each_entry() -> None:
    bounds = fm.Bootstrap(fm.AUC(buckets=8, bounds=True), 5, ids="uid")
    recall = fm.Bootstrap(fm.Recall(task="multiclass", num_classes=3, average=None), 5, ids="uid")
    bounds.add(P, Y, uid=IDS)
    label = RNG.integers(0, 3, N)
    recall.add(RNG.random((N, 3)), label, uid=IDS)
    area = bounds.compute()
    assert type(area).__name__ == "BoundedArea" and area.low.value <= area.value.value <= area.high.value
    by_class = recall.compute()
    assert by_class.value.shape == by_class.low.shape == (3,) and by_class.replicates.shape == (5, 3)
    assert (by_class.low <= by_class.high).all()


@pytest.mark.parametrize("value", ["a text", None, {"a": "a text"}, np.datetime64("2020-01-01")], ids=repr)
def test_values_that_are_no_numbers_are_an_error_that_shows_one(value: Any) -> None:
    class Says(fm.Count):
        def formula(self, **states: Any) -> Any:
            return value

    metric = fm.Bootstrap(Says(), 5, name="mine")
    metric.add([0.5])
    with pytest.raises(fm.InvalidInputError, match="Bootstrap takes metrics whose value is a number, an array of"):
        metric.compute()


@pytest.mark.parametrize("ids", [None, "uid"])
def test_the_interval_is_as_wide_as_the_confidence_says(ids: Any) -> None:
    widths = []
    for confidence in (0.5, 0.95):
        metric = fm.Bootstrap(fm.Accuracy(), 100, confidence=confidence, ids=ids)
        metric.add(P, Y, **({"uid": IDS} if ids else {}))
        result = metric.compute()
        margin = 50 * (1 - confidence)
        low, high = np.percentile(result.replicates, [margin, 100 - margin])
        assert (result.low, result.high) == pytest.approx((low, high))
        widths.append(result.high - result.low)
    assert widths[0] < widths[1]


def test_values_of_changing_shapes_are_an_error() -> None:
    metric = fm.Bootstrap(fm.ROCCurve(), 5)
    metric.add(P, Y)
    with pytest.raises(fm.InvalidInputError, match=r"an array of the same shape for all samples.*arrays of the shapes"):
        metric.compute()


def test_too_coarse_buckets_warn_once_and_not_for_each_replicate() -> None:
    metric = fm.Bootstrap(fm.AUC(buckets=16), 5, ids="uid")
    metric.add(P / 1000, Y, uid=IDS)
    with pytest.warns(fm.BucketWarning) as told:
        metric.compute()
    assert len(told) == 1


def test_one_warning_counts_undefined_replicates() -> None:
    metric = fm.Bootstrap(fm.AUC(name="area", tolerance=None), 50, ids="uid")
    metric.add([0.5, 0.25, 0.75, 0.5], [1, 0, 0, 0], uid=[1, 2, 3, 4])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = metric.compute()
    missing = int(np.isnan(result.replicates).sum())
    assert missing > 5
    few, undefined = (str(each.message) for each in told)
    assert re.match(r"area has about \d independent samples: intervals of percentiles of fewer than 50 ", few)
    assert undefined == f"area is undefined in {missing} of 50 replicates; the interval leaves them out"


@pytest.mark.parametrize("ids", [None, "uid"])
@pytest.mark.parametrize("samples", [8, 49, 50, 400])
def test_percentiles_of_few_samples_are_a_warning_with_their_number(samples: int, ids: str | None) -> None:
    metric = fm.Bootstrap(fm.Accuracy(name="hits"), 200, ids=ids)
    columns = {} if ids is None else {"uid": np.arange(4 * samples) // 4}
    number = len(columns.get("uid", range(samples)))
    metric.add(np.resize([0.9, 0.8, 0.2], number), np.ones(number, int), **columns)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        metric.compute()
    texts = [str(each.message) for each in told]
    if samples in (8, 400) or ids is None:
        assert bool(texts) == (samples < 50)
    if texts and ids is None:
        assert texts[0].startswith(f"hits has {samples} independent samples: ")


def test_an_evaluation_names_what_its_replicates_lack_without_a_warning() -> None:
    pytest.importorskip("pyarrow")
    data = {"y": [0, 1] * 10, "p": np.linspace(0, 1, 20)}
    found = fm.evaluate(data, label="y", score="p", ci=0.95, metrics="matthews_correlation", replicates=50, processes=1)
    assert not [each for each in found.warnings if "independent samples" in each]
    assert found.intervals["matthews_correlation"].needs["rows"] == 50


# -- in a collection ------------------------------------------------------------------------------------------


def test_a_collection_draws_once_and_shares_the_metrics_own_states() -> None:
    metrics = fm.MetricCollection(
        {
            "auc": fm.AUC(),
            "auc ±": fm.Bootstrap(fm.AUC(), 5, ids="uid"),
            "bounds ±": fm.Bootstrap(fm.AUC(bounds=True), 5, ids="uid"),
            "seed": fm.Bootstrap(fm.AUC(), 5, seed=1, ids="uid"),
        },
        name="m",
    )
    metrics.add(P, Y, uid=IDS)
    names = [state.name for state in metrics._states()][3:]
    assert names == [
        "m.auc.histogram",
        "m.auc ±.drawn",
        "m.auc ±.histogram_replicates",
        "m.seed.drawn",
        "m.seed.histogram_replicates",
    ]
    value = metrics.compute()
    assert value["auc"] == value["auc ±"].value == value["bounds ±"].value.value
    assert not same(value["auc ±"].replicates, value["seed"].replicates, False)


def test_metrics_that_draw_by_other_ids_or_seeds_do_not_draw_alike() -> None:
    settings = [{"ids": "uid"}, {"ids": "pair"}, {"ids": "uid", "seed": 1}]
    columns = {"uid": IDS, "pair": IDS // 2}
    metrics = fm.MetricCollection([fm.Bootstrap(fm.Sum(), 5, name=f"m{i}", **each) for i, each in enumerate(settings)])
    windows = fm.MetricCollection(
        [fm.Windowed(fm.Bootstrap(fm.Sum(), 5, **each), 2, name=f"m{i}") for i, each in enumerate(settings)]
    )
    for own in np.split(np.arange(N), 3):
        batch = {name: column[own] for name, column in columns.items()}
        metrics.add(P[own], **batch)
        windows.add(P[own], **batch)
    found, last = metrics.compute(), windows.compute()
    for number, each in enumerate(settings):
        for own, result in ((np.arange(N), found[f"m{number}"]), (np.arange(100, N), last[f"m{number}"].window)):
            times = drawn(columns[each["ids"]][own], 5, each.get("seed", 0))
            np.testing.assert_allclose(result.replicates, P[own] @ times, 1e-12)


@pytest.mark.parametrize("keys", ["whole", None, [0, 1]])
@pytest.mark.parametrize("at_once", [2**20, 7 * 50, 50], ids=["one part", "several of floats", "several"])
def test_metrics_that_draw_alike_draw_once_and_have_the_bits_of_one_alone(
    keys: Any, at_once: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(bootstrap, "_AT_ONCE", at_once)
    makes = {"auc": fm.AUC, "accuracy": fm.Accuracy, "loss": fm.LogLoss, "r2": fm.R2Score, "max": fm.MaxError}

    def made(name: str) -> Any:
        sure = fm.Bootstrap(makes[name](), 7, ids="uid")
        return sure if keys == "whole" else fm.Sliced(sure, keys=keys, max_keys=5)

    columns = {"uid": IDS} if keys == "whole" else {"uid": IDS, "slot": IDS % 3}
    calls: list[int] = []
    draw_samples = bootstrap.poisson
    monkeypatch.setattr(bootstrap, "poisson", lambda *given: calls.append(1) or draw_samples(*given))
    alone, most = {}, 0
    for name in makes:
        alone[name] = made(name)
        calls.clear()
        alone[name].add(P, Y, **columns)
        most = max(most, len(calls))
    metrics = fm.MetricCollection({name: made(name) for name in makes})
    calls.clear()
    metrics.add(P, Y, **columns)
    assert len(calls) == most
    found = metrics.compute()
    for name, metric in alone.items():
        assert same(found[name], metric.compute(), True)


def test_an_error_names_the_right_metric_among_those_that_share_draws() -> None:
    every = {"count": fm.Count(), "error": fm.MeanAbsoluteError()}
    metrics = fm.MetricCollection({name: fm.Bootstrap(each, 5, ids="uid") for name, each in every.items()}, name="all")
    with pytest.raises(
        fm.InvalidInputError, match=r"all\['error'\] \(Bootstrap\(MeanAbsoluteError\)\): prediction has"
    ):
        metrics.add(RNG.random((N, 3)), Y, uid=IDS)
    assert not metrics.holds_samples()


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"replicates": 1}, "replicates must be an integer of at least 2, not 1"),
        ({"seed": 1.5}, "seed must be an integer, not 1.5"),
        ({"seed": True}, "seed must be an integer, not True"),
        ({"confidence": 1.0}, "confidence must be a number between 0 and 1, not 1.0"),
        ({"confidence": 0}, "confidence must be a number between 0 and 1, not 0"),
        ({"ids": "user id"}, "ids must be the name of an additional argument of add, or None, not 'user id'"),
        ({"ids": 3}, "not 3"),
    ],
)
def test_a_bad_argument_is_an_error_that_names_it(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(fm.InvalidInputError, match=told):
        fm.Bootstrap(fm.Count(), **settings)


def test_a_metric_that_cannot_be_resampled_says_what_to_do() -> None:
    cases = {
        "takes metrics whose states are sums, and .* keeps every sample": lambda: fm.Bootstrap(fm.ExactAUC()),
        r"cannot wrap this Sliced: reverse them: Sliced\(Bootstrap": lambda: fm.Bootstrap(fm.Sliced(fm.Count())),
        r"cannot wrap this Windowed: reverse them": lambda: fm.Bootstrap(fm.Windowed(fm.Count(), 3)),
        "cannot wrap this Bootstrap: resampling once is enough": lambda: fm.Bootstrap(fm.Bootstrap(fm.Count())),
    }
    for told, make in cases.items():
        with pytest.raises(fm.InvalidInputError, match=told):
            make()


def test_bad_ids_are_an_error() -> None:
    metric = fm.Bootstrap(fm.Count(), 5, ids="uid", name="mine")
    for columns, told in [
        ({}, r"mine \(Bootstrap\(Count\)\): uid is missing"),
        ({"uid": [0.5]}, "uid must hold integers or strings, one per sample, not float64"),
        ({"uid": paddle.to_tensor([0.5])}, "uid must hold integers or strings, one per sample, not paddle.float32"),
    ]:
        with pytest.raises(fm.InvalidInputError, match=told):
            metric.add([0.5], **columns)
    with new_programs():
        prediction = paddle.static.data("p", [-1], "float32")
        with pytest.raises(fm.InvalidInputError, match="uid must be an integer variable of the static program"):
            metric.add(prediction, uid=np.array(["a"]))
        with pytest.raises(fm.InvalidInputError, match="uid must hold integers or strings, one per sample, not"):
            metric.add(prediction, uid=prediction)
        metric.add(prediction, uid=paddle.static.data("uid", [-1], "int32"))


def test_other_settings_do_not_merge() -> None:
    base = fm.Bootstrap(fm.Count(), 5, ids="uid")
    for other in (
        fm.Bootstrap(fm.Count(), 6, ids="uid"),
        fm.Bootstrap(fm.Count(), 5, seed=1, ids="uid"),
        fm.Bootstrap(fm.Count(), 5, ids="other"),
        fm.Bootstrap(fm.Mean(), 5, ids="uid"),
    ):
        with pytest.raises(fm.InvalidInputError, match="other must be a Bootstrap with the settings"):
            base.merge(other)


def test_weights_and_masks_go_through() -> None:
    data = draw("mean absolute error", weight="real", mask=True)
    ids = np.arange(len(data.prediction))
    metric = fm.Bootstrap(fm.MeanAbsoluteError(), 5, ids="uid")
    feed(metric, batches(data._replace(columns={"uid": ids})), "numpy")
    keep = np.flatnonzero((data.weight * data.mask) > 0)
    kept = Data(*[part[keep] for part in data[:3]])
    wanted = resampled(fm.MeanAbsoluteError, kept, drawn(ids[keep], 5))
    assert same(metric.compute().replicates, np.array(wanted), False, 1e-12)
