"""Every metric of the catalogue in every wrapper; and batches that are added whole or not at all."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.batch.hashing import poisson, salts, words
from fleetmetrics.xp import numpy_ops
from tests.contract import CASES, Data, batches, counts, draw, feed, first_dtypes, same
from tests.kinds import kinds_of

pytestmark = [pytest.mark.halved, pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")]
WRAPPERS = ("Sliced", "Windowed", "Bootstrap", "Interval")
NAMES = [name for name, case in CASES.items() if type(case.make()).__name__ not in WRAPPERS]
SUMS = [name for name in NAMES if not list(CASES[name].make().record_metrics())]
#: Values whose shape depends on the samples: an array of them has no percentiles.
CURVES = ("calibration curve", "roc curve", "precision-recall curve")


def samples_of(name: str, weight: str | None = "real") -> Data:
    return draw(name, first_dtypes(name), weight, mask=True)


def chosen(data: Data, own: np.ndarray, **columns: Any) -> Data:
    parts = data.map(lambda part: part[own])
    return parts._replace(columns={key: column[own] for key, column in {**data.columns, **columns}.items()})


def value_of(name: str, data: Data) -> Any:
    metric = CASES[name].make()
    feed(metric, batches(data), "numpy")
    return metric.compute()


@pytest.mark.parametrize("weight", ["real", None])
@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
@pytest.mark.parametrize("names", kinds_of(NAMES))
def test_slices_have_the_values_of_their_samples(names: list[str], mode: str, weight: str | None) -> None:
    wrong = []
    for name in names:
        data = samples_of(name, weight)
        slot = np.random.default_rng(0).integers(0, 3, len(data.prediction))
        wanted = {key: value_of(name, chosen(data, slot == key)) for key in np.unique(slot[counts(data)]).tolist()}
        for keys in (None, list(wanted)) if mode == "numpy" else (None,):
            metric = fm.Sliced(CASES[name].make(), keys=keys)
            feed(metric, batches(chosen(data, np.arange(len(slot)), slot=slot), 30), mode)
            if not same(metric.compute(), wanted, False, max(CASES[name].tolerance, 1e-11)):
                wrong.append((name, keys))
    assert wrong == []


@pytest.mark.numpy_only
@pytest.mark.parametrize("weight", ["real", None])
@pytest.mark.parametrize("names", kinds_of(SUMS))
def test_windows_have_the_values_of_the_last_batches(names: list[str], weight: str | None) -> None:
    wrong = []
    for name in names:
        parts = batches(samples_of(name, weight))
        metric = fm.Windowed(CASES[name].make(), 2)
        feed(metric, parts, "numpy")
        alone = CASES[name].make(), CASES[name].make()
        for each, own in zip(alone, (parts[-2:], parts)):
            feed(each, own, "numpy")
        wanted = tuple(each.compute() for each in alone)
        if not same(metric.compute(), wanted, False, max(CASES[name].tolerance, 1e-11)):
            wrong.append(name)
    assert wrong == []


@pytest.mark.numpy_only
@pytest.mark.parametrize("names", kinds_of(SUMS))
def test_a_metric_that_comes_twice_in_a_collection_shares_its_states(names: list[str]) -> None:
    wrong = []
    for name in names:
        data = samples_of(name)
        keyed = chosen(data, np.arange(len(data.prediction)), uid=np.arange(len(data.prediction)) % 3)
        for wrap, columns in (
            (lambda metric: metric, False),
            (lambda metric: fm.Bootstrap(metric, 3, ids="uid"), True),
            (lambda metric: fm.Sliced(metric, "uid"), True),
        ):
            metrics = fm.MetricCollection([wrap(CASES[name].make()) for _ in range(2)])
            try:
                feed(metrics, batches(keyed if columns else data, 30), "numpy")
            except fm.InvalidInputError as error:
                wrong.append((name, str(error)))
    assert wrong == []


@pytest.mark.numpy_only
@pytest.mark.parametrize("label", ["bool", "int32"])
def test_a_metric_that_comes_twice_in_a_collection_keeps_its_records_once(label: str) -> None:
    wrong = []
    for name in sorted(set(NAMES) - set(SUMS)):
        prediction, _ = first_dtypes(name)
        data = draw(name, (prediction, label), samples=30)
        metrics = fm.MetricCollection([CASES[name].make() for _ in range(2)])
        try:
            feed(metrics, [data], "numpy")
        except fm.InvalidInputError as error:
            if " share " in str(error):  # some take no labels of this dtype
                wrong.append((name, str(error)))
    assert wrong == []


def of_replicate(value: Any, replicate: int) -> Any:
    if isinstance(value, fm.BootstrapResult):
        return value.replicates[replicate]
    if isinstance(value, dict):
        return {key: of_replicate(each, replicate) for key, each in value.items()}
    return tuple(of_replicate(each, replicate) for each in value)


@pytest.mark.numpy_only
@pytest.mark.parametrize("weight", ["real", pytest.param(None, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("names", kinds_of(SUMS))
def test_replicates_have_the_values_of_what_they_draw(names: list[str], weight: str | None) -> None:
    wrong = []
    for name in names:
        data = samples_of(name, weight)
        ids = np.arange(len(data.prediction))
        metric = fm.Bootstrap(CASES[name].make(), 2, ids="uid")
        feed(metric, batches(chosen(data, ids, uid=ids)), "numpy")
        if name in CURVES:
            with pytest.raises(fm.InvalidInputError, match="an array of the same shape for all samples"):
                metric.compute()
            continue
        value = metric.compute()
        times = poisson(numpy_ops, *words(numpy_ops, ids, 0), salts(0, 2))
        for replicate in range(2):
            wanted = value_of(name, chosen(data, np.repeat(ids, times[:, replicate])))
            if not same(of_replicate(value, replicate), wanted, False, 1e-9):
                wrong.append((name, replicate))
    assert wrong == []


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_a_batch_that_fails_leaves_every_wrapper_as_it_was(mode: str, monkeypatch: Any) -> None:
    members = {
        "few": fm.Sliced(fm.MeanSquaredError(), "slot", max_keys=3),
        "grown": fm.Sliced(fm.AUC(buckets=1024), "slot", max_keys=50),
        "most": fm.Sliced(fm.Max(), "slot", max_keys=3),
        "given": fm.Sliced(fm.AUC(buckets=1024), "slot", keys=[1, 2]),
        "recent": fm.Windowed(fm.MeanSquaredError(), 3),
        "sure": fm.Bootstrap(fm.AUC(buckets=1024), 20, ids="uid"),
        "both": fm.Sliced(fm.Bootstrap(fm.Accuracy(), 20, ids="uid"), "slot"),
        "kept": fm.Sliced(fm.GAUC(), "slot"),
        "fails": fm.MaxError(name="fails"),
    }
    metrics = fm.MetricCollection(members, name="it")
    rng = np.random.default_rng(3)
    put = paddle.to_tensor if mode == "dynamic" else np.asarray
    (last,) = members["fails"].states.values()

    def batch(slot: int) -> dict[str, Any]:
        label = rng.integers(0, 2, 8)
        return {
            "prediction": put(rng.random(8)),
            "label": put(label),
            "slot": rng.integers(slot, slot + 6, 8),
            "uid": rng.integers(0, 99, 8),
            "user": label * 0 + 1,
        }

    sound = [batch(20), batch(10), batch(0)]
    one = fm.MetricCollection({key: metric.fresh() for key, metric in members.items()}, name="it")
    for part in sound:
        one.add(**part)
        metrics.add(**part)
        before = snapshot(metrics)
        with monkeypatch.context() as patch:
            patch.setattr(last, "accumulate", lambda increment: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                metrics.add(**batch(-9))
        assert snapshot(metrics) == before
    with pytest.warns(UserWarning, match="more than 3 keys"):
        assert same(metrics.compute(), one.compute(), True)


def mixed() -> dict[str, Any]:
    """Wrappers of every kind, the keys of some more than they keep."""
    return {
        "grown": fm.Sliced(fm.MeanSquaredError(), "slot", max_keys=3),
        "counts": fm.Sliced(fm.AUC(buckets=64), "slot", max_keys=3),
        "most": fm.Sliced(fm.Max(), "slot", max_keys=3),
        "given": fm.Sliced(fm.AUC(buckets=64), "slot", keys=[1, 2]),
        "recent": fm.Windowed(fm.MeanSquaredError(), 2),
        "sure": fm.Bootstrap(fm.Variance(), 5, ids="uid"),
        "both": fm.Sliced(fm.Bootstrap(fm.Accuracy(), 5, ids="uid"), "slot", max_keys=3),
        "kept": fm.Sliced(fm.GAUC(), "slot", max_keys=3),
    }


def mixed_batch(rng: np.random.Generator) -> dict[str, Any]:
    slot = rng.integers(0, 9, 12)
    return {"prediction": rng.random(12), "label": slot % 2, "slot": 9 - slot, "uid": slot, "user": slot * 0 + 1}


@pytest.mark.parametrize("form", ["numpy", "dynamic", "static"])
def test_the_increments_of_a_batch_can_be_merged_in_any_order(form: str, monkeypatch: Any) -> None:
    dynamic = {"grown", "counts", "most", "kept", "both"} if form == "static" else set()
    found = []
    for seed in range(4):
        order, rng = np.random.default_rng(seed), np.random.default_rng(0)
        metrics = fm.MetricCollection({k: m for k, m in mixed().items() if k not in dynamic}, name=f"{form} {seed}")
        statistics = metrics.increments_of

        def shuffled(batch: Any, statistics: Any = statistics, order: Any = order, seed: int = seed) -> Any:
            pairs = list(statistics(batch))
            return [pairs[i] for i in order.permutation(len(pairs))] if seed else pairs

        monkeypatch.setattr(metrics, "increments_of", shuffled)
        parts = []
        for _ in range(5):
            batch = mixed_batch(rng)
            columns = {key: batch[key] for key in ("slot", "uid", "user") if not (dynamic and key == "user")}
            parts.append(Data(batch["prediction"], batch["label"], None, None, columns))
        scope = feed(metrics, parts, form)
        found.append([state.read(scope).tobytes() for state in metrics._states()])
    assert all(each == found[0] for each in found)


def test_several_metrics_are_merged_at_once_in_any_order() -> None:
    found = []
    for seed in range(4):
        rng = np.random.default_rng(0)
        one, *others = (fm.MetricCollection(mixed(), name="it") for _ in range(4))
        for metrics in (one, *others, *others):
            metrics.add(**mixed_batch(rng))
        order = np.random.default_rng(seed).permutation(3)
        one.merge([others[place] for place in order])
        found.append(snapshot(one))
    assert all(each == found[0] for each in found)


def test_a_merge_that_fails_changes_nothing() -> None:
    one, other = (fm.MetricCollection({"n": fm.Sum(), "by": fm.Sliced(fm.Sum(), "slot")}) for _ in range(2))
    for metrics in (one, other):
        metrics.add(np.array([2**62]), slot=[1])
    before = snapshot(one)
    with pytest.raises(fm.IntegerOverflowError):
        one.merge(other)
    with pytest.raises(fm.InvalidInputError, match="other must be a MetricCollection"):
        one.merge([one, fm.AUC()])
    assert snapshot(one) == before


def test_marks_are_not_pickled() -> None:
    metric = fm.Sliced(fm.AUC(), "slot")
    metric.add(np.linspace(0, 1, 50_000), np.arange(50_000) % 2, slot=np.arange(50_000) % 50)
    held = sum(state.read().nbytes for state in metric._states())
    before = len(pickle.dumps(metric))
    metric.add(np.linspace(0, 1, 50_000), np.arange(50_000) % 2, slot=np.arange(50_000) % 50)
    assert len(pickle.dumps(metric)) <= before + 1000 and before < 1.5 * held


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))])
def test_wrappers_can_be_copied_with_what_they_hold(copied: Any) -> None:
    for metric in (
        fm.Sliced(fm.ExactAUC(), "slot"),
        fm.Sliced(fm.AUC(buckets=9), "slot", keys=[1]),
        fm.Windowed(fm.Accuracy(), 2),
        fm.Bootstrap(fm.Accuracy(), 5),
    ):
        columns = {"slot": np.arange(8) % 2} if "slot" in metric.columns else {}
        metric.add(np.arange(8) / 8, np.arange(8) % 3 % 2, **columns)
        again = copied(metric)
        assert same(again.compute(), metric.compute(), True)
        again.add(np.arange(8) / 8, np.arange(8) % 3 % 2, **columns)
        assert snapshot(again) != snapshot(metric)


def snapshot(metrics: Any) -> list[Any]:
    return [(state.name, state.read().tobytes()) for state in metrics._states()] + [
        len(folds.table) for folds in metrics.record_folds()
    ]
