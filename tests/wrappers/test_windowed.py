"""Windows: the last batches of each worker, beside all of them."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.xp import paddle_ops
from tests.contract import MODES, Data, StaticFeed, batches, draw, feed, plain, same
from tests.fakes import Listener, Together, together

pytestmark = pytest.mark.halved

#: Sums, histograms, extremes, moments.
METRICS = {
    "auc": fm.AUC,
    "mean squared error": fm.MeanSquaredError,
    "max": fm.Max,
    "variance": fm.Variance,
    "accuracy of scores": fm.Accuracy,
}


def value_of(make: Any, parts: Any) -> Any:
    metric = make()
    feed(metric, parts, "numpy")
    return metric.compute()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", METRICS)
def test_the_window_is_the_last_batches_and_the_lifetime_all(name: str, mode: str) -> None:
    make = METRICS[name]
    parts = batches(draw(name, ("float64", "int64"), "eighths", mask=True), 9)
    assert len(parts) == 6
    for last in (1, 4) if mode == "static" else (1, 2, 5, 6, 7):
        metric = fm.Windowed(make(), last)
        more = StaticFeed(metric, parts[0]).run if mode == "static" else lambda each, m=metric: feed(m, each, mode)
        for end in (1, 2, 5, 6):
            scope = more(parts[0 if end == 1 else (1 if end == 2 else 2 if end == 5 else 5) : end])
            value = metric.compute(scope)
            assert isinstance(value, fm.WindowedValue)
            assert same(value.window, value_of(make, parts[max(0, end - last) : end]), False), (last, end)
            assert same(value.lifetime, value_of(make, parts[:end]), False), (last, end)


def test_without_lifetime_the_window_is_the_value_and_nothing_else_is_kept() -> None:
    metric = fm.Windowed(fm.Sum(), 2, lifetime=False, name="mine")
    for part in ([1], [2], [4]):
        metric.add(part)
    assert metric.compute() == 6
    assert all(state.name == "mine.turn" or state.name.endswith("_window") for state in metric.own_states())
    assert not metric.metric.holds_samples()


def test_the_window_does_not_drift() -> None:
    metric = fm.Windowed(fm.Sum(), 2)
    for part in ([1e300], [0.1], [0.2]):
        metric.add(part)
    assert metric.compute() == (0.1 + 0.2, 1e300)


def test_what_is_not_finite_leaves_the_window_with_its_batch() -> None:
    for mode in MODES:
        metric = fm.Windowed(fm.MeanSquaredError(validate=False), 2)
        data = draw("mean squared error", ("float64", "float64"), samples=4)
        data.prediction[0] = np.nan
        parts = batches(data, 1)
        scope = feed(metric, parts, mode)
        value = metric.compute(scope)
        assert np.isnan(value.lifetime) and value.window == value_of(fm.MeanSquaredError, parts[2:])


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "unseen"])
@pytest.mark.parametrize("mode", MODES)
def test_a_batch_of_which_nothing_counts_takes_no_place(mode: str, seen: bool, monkeypatch: Any) -> None:
    if not seen:  # as on a device, whose values are not awaited
        monkeypatch.setattr(paddle_ops, "is_eager", lambda tensor: False)
    data = draw("mean squared error", ("float64", "float64"), samples=6)._replace(mask=np.ones(6, bool))
    parts = batches(data, 2)
    nothing = parts[0]._replace(mask=np.zeros(2, bool))
    metric = fm.Windowed(fm.MeanSquaredError(), 2)
    scope = feed(metric, [nothing, parts[0], nothing, parts[1], nothing, nothing, parts[2], nothing], mode)
    assert same(metric.compute(scope).window, value_of(fm.MeanSquaredError, parts[1:]), False)
    assert metric.states[f"{metric.name}.turn"].read(scope) == 3


def test_an_empty_batch_takes_no_place() -> None:
    metric = fm.Windowed(fm.Sum(), 1)
    metric.add([3])
    metric.add(np.zeros(0, int))
    assert metric.compute() == (3, 3)


def test_the_windows_of_all_workers_go_together_in_one_exchange() -> None:
    batches_of = [[1, 2, 4], [8, 16, 32, 64, 128], []]

    def work(channel: Together) -> Any:
        metric = fm.Windowed(fm.Sum(), 2, name="mine")
        for value in batches_of[channel.rank]:
            metric.add([value])
        found = metric.compute(communicator=channel)
        assert len(channel.calls) == 1
        return found

    assert together([work] * 3) == [(2 + 4 + 64 + 128, 255)] * 3


@pytest.mark.parametrize("lifetime", [True, False])
def test_a_worker_without_batches_adds_no_0_to_the_windows_of_the_others(lifetime: bool) -> None:
    def work(channel: Together) -> Any:
        kinds = {"max": fm.Max, "min": fm.Min, "variance": fm.Variance}
        windows = {key: fm.Windowed(kind(), 2, lifetime=lifetime) for key, kind in kinds.items()}
        metrics = fm.MetricCollection(windows, name="all")
        for number in (-9.0, -5.0, -7.0)[: 3 * channel.rank]:
            metrics.add([number])
        value = metrics.compute(communicator=channel)
        return {key: each.window if lifetime else each for key, each in value.items()}

    assert together([work] * 2) == [{"max": -5.0, "min": -7.0, "variance": 1.0}] * 2


@pytest.mark.parametrize("first", ["alone", "window"])
def test_a_window_does_not_share_states_with_an_equal_metric(first: str) -> None:
    both = {"alone": fm.Sum(), "window": fm.Windowed(fm.Sum(), 2, lifetime=False)}
    metrics = fm.MetricCollection({key: both[key] for key in sorted(both, reverse=first == "window")})
    for number in (1, 2, 4):
        metrics.add([number])
    assert metrics.compute() == {"alone": 7, "window": 6}
    assert all(".alone." in state.name for state in metrics.metrics["alone"].own_states())  # as errors call them
    again = metrics.fresh()
    again.set_state_dict(metrics.state_dict())
    again.merge(metrics)
    assert again.compute() == {"alone": 14, "window": 12}
    metrics.reset()
    metrics.add([8])
    assert metrics.compute() == {"alone": 8, "window": 8}


def test_what_is_exchanged_does_not_grow_with_the_window() -> None:
    shapes = []
    for last in (1, 1000):
        metric, listener = fm.Windowed(fm.AUC(buckets=8), last, name="mine"), Listener()
        metric.add([0.5, 0.25], [1, 0])
        metric.compute(communicator=listener)
        shapes.append({block.name: block.array.shape for block in listener.blocks[0]})
    assert shapes[0] == shapes[1] and shapes[0]["mine.histogram_window"] == (2, 8)


def test_merged_windows_are_those_of_two_workers_side_by_side() -> None:
    one, other = fm.Windowed(fm.Sum(), 2), fm.Windowed(fm.Sum(), 2)
    for value in (1, 2, 4):
        one.add([value])
    for value in (8, 16, 32, 64):
        other.add([value])
    one.merge(other)
    assert one.compute() == (2 + 4 + 32 + 64, 127)
    one.add([128])
    assert one.compute() == (4 + 64 + 128, 255)
    empty = fm.Windowed(fm.Sum(), 2)
    empty.merge(one)
    empty.add([256])
    assert empty.compute().window == 128 + 256


class Model:
    """What a window holds: batches by age, the latest first; of several that were merged, those of one age together."""

    def __init__(self, last: int) -> None:
        self.last, self.window, self.lifetime = last, [], []  # type: ignore[var-annotated]

    def add(self, batch: Any) -> None:
        self.window = [[batch], *self.window][: self.last]
        self.lifetime.append(batch)

    def merge(self, others: Any) -> None:
        longest = max([len(each.window) for each in (self, *others)])
        ages = [[each.window[age] for each in (self, *others) if age < len(each.window)] for age in range(longest)]
        self.window = [[batch for batches in same_age for batch in batches] for same_age in ages]
        self.lifetime = [batch for each in (self, *others) for batch in each.lifetime]


def carried(metric: Any, make: Any, how: int) -> Any:
    """The metric, or its copy, its pickle or its checkpoint."""
    if how == 3:
        again = make()
        again.set_state_dict(metric.state_dict())
        return again
    return (lambda it: it, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it)))[how](metric)


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
@pytest.mark.parametrize("name", ["sum", "variance", "max", "slices", "interval"])
def test_windows_that_are_merged_in_any_way_hold_what_a_list_of_batches_holds(name: str) -> None:
    makes: dict[str, Any] = {
        "sum": fm.Sum,
        "variance": fm.Variance,
        "max": fm.Max,
        "slices": lambda: fm.Sliced(fm.Sum(), keys=[1, 2]),
        "interval": lambda: fm.Bootstrap(fm.Mean(), 5, ids="id"),
    }
    columns = {"slices": "slot", "interval": "id"}
    for seed in range(5 if name == "interval" else 10):
        rng = np.random.default_rng([seed, len(name)])
        last = int(rng.integers(1, 6))
        make = lambda last=last: fm.Windowed(makes[name](), last)  # noqa: E731
        pairs = [(make(), Model(last)) for _ in range(3)]
        for _ in range(40):
            at = rng.integers(3)
            metric, model = pairs[at]
            if rng.random() < 0.75:
                values = rng.integers(-50, 50, rng.integers(1, 4)) / 8
                more = {columns[name]: rng.integers(1, 4, len(values))} if name in columns else {}
                metric.add(values, **more)
                model.add((values, more))
            elif rng.random() < 0.1:
                metric.reset()
                model.__init__(last)  # type: ignore[misc]
            elif sum(len(model.lifetime) for _, model in pairs) < 80:
                others = [pairs[place] for place in range(3) if place != at][: rng.integers(1, 3)]
                metric = carried(metric, make, rng.integers(4))
                metric.merge([each for each, _ in others])
                model.merge([each for _, each in others])
                pairs[at] = metric, model
        for metric, model in pairs:
            if not model.lifetime:
                continue
            for found, batches_of in zip(metric.compute(), ([b for age in model.window for b in age], model.lifetime)):
                alone = makes[name]()
                for values, more in batches_of:
                    alone.add(values, **more)
                wanted = alone.compute()
                if name == "interval":
                    found, wanted = found._asdict(), wanted._asdict()
                assert same(plain(found), plain(wanted), False, 1e-11), (seed, last)


@pytest.mark.numpy_only
def test_what_rounding_took_of_a_batch_leaves_the_window_with_it() -> None:
    """Else 1.001 would be left of 0.001: what 2**53 + 1 is more than the float64 next to it."""
    for last in (1, 2, 3):
        one, other = fm.Windowed(fm.Sum(), last), fm.Windowed(fm.Sum(), last)
        one.add([2.0**53])
        other.add([1.0])
        one.merge(other)
        for number in range(last):
            assert one.compute().window == math.fsum([2.0**53, 1.0, *[0.001] * number])
            one.add([0.001])
        assert one.compute().window == math.fsum([0.001] * last)


@pytest.mark.numpy_only
def test_a_batch_without_samples_that_count_leaves_what_rounding_took_of_those_before() -> None:
    one, other = fm.Windowed(fm.Sum(), 1), fm.Windowed(fm.Sum(), 1)
    one.add([2.0**53])
    other.add([1.0])
    one.merge(other)
    one.add([5.0], mask=[False])
    other.reset()
    other.add([1.0])
    one.merge(other)
    assert one.compute().window == 2.0**53 + 2.0


@pytest.mark.numpy_only
def test_windows_of_any_lengths_that_are_merged_in_any_tree_are_rounded_once() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pairs = [(fm.Windowed(fm.Sum(), 4), Model(4)) for _ in range(5)]
        for pair in pairs:
            for number in rng.choice([1e16, 1.0, 1e-16, -1e16], rng.integers(1, 7)) * rng.integers(1, 9):
                for each in pair:
                    each.add([number.item()])
        while len(pairs) > 1:
            pairs = [pairs[place] for place in rng.permutation(len(pairs))]
            for one, other in zip(pairs[0], pairs.pop()):
                one.merge([other])
        [(metric, model)] = pairs
        for number in range(4):
            wanted = math.fsum(number for age in model.window for batch in age for number in batch)
            assert metric.compute().window == wanted, seed
            for each in (metric, model):
                each.add([0.1 * number])


@pytest.mark.numpy_only
def test_an_add_that_fails_leaves_the_window_and_what_rounding_took_of_it() -> None:
    counts = fm.Windowed(fm.Sum(), 2)
    for number in (2**63 - 9, 3, 5):
        counts.add([number])
    with pytest.raises(fm.IntegerOverflowError):
        counts.add([1000])
    assert counts.compute() == (8, 2**63 - 1)
    counts.add([-2])
    assert counts.compute().window == 3
    sums, one = fm.Windowed(fm.Sum(), 1), fm.Windowed(fm.Sum(), 1)
    sums.add([2.0**53])
    one.add([1.0])
    sums.merge(one)
    with pytest.raises(fm.InvalidInputError, match="would no longer be finite"):
        sums.add([1.7e308])
    sums.merge(one)
    assert sums.compute().window == 2.0**53 + 2


def test_a_batch_on_a_device_that_may_not_count_leaves_what_rounding_took(monkeypatch: Any) -> None:
    monkeypatch.setattr(paddle_ops, "is_eager", lambda tensor: False)  # whose values are not awaited
    sums, one = fm.Windowed(fm.Sum(), 1), fm.Windowed(fm.Sum(), 1)
    sums.add([2.0**53])
    one.add([1.0])
    sums.merge(one)
    sums.add(paddle.to_tensor([5.0], "float64"), mask=paddle.to_tensor([False]))
    sums.merge(one)
    assert sums.compute().window == 2.0**53 + 2


def test_a_collection_shares_the_lifetime_with_the_metric_itself() -> None:
    metrics = fm.MetricCollection(
        {"auc": fm.AUC(), "recent": fm.Windowed(fm.AUC(), 3), "recent bounds": fm.Windowed(fm.AUC(bounds=True), 3)},
        name="m",
    )
    for _ in range(5):
        metrics.add([0.5, 0.75, 0.25], [1, 1, 0])
    names = [state.name for state in metrics._states()][3:]
    assert names == ["m.auc.histogram", "m.recent.turn", "m.recent.histogram_window"]
    value = metrics.compute()
    assert value["auc"] == value["recent"].window == value["recent bounds"].lifetime.value == 1.0
    metrics.reset()
    assert not metrics.holds_samples()


def test_an_undefined_window_is_named() -> None:
    metric = fm.Windowed(fm.AUC(tolerance=None), 1)
    metric.add([0.5, 0.75], [0, 1])
    metric.add([0.5], [1])
    with pytest.warns(fm.UndefinedMetricWarning, match="^auc of the last 1 batches is undefined") as told:
        value = metric.compute()
    assert np.isnan(value.window) and value.lifetime == 0.75 and len(told) == 1


@pytest.mark.parametrize("mode", MODES)
def test_slices_in_a_window(mode: str) -> None:
    metric = fm.Windowed(fm.Sliced(fm.MeanSquaredError(), keys=[1, 2]), 2)
    data = draw("mean squared error", ("float64", "float64"), samples=40)
    slot = np.random.default_rng(0).integers(1, 4, 40)
    parts = batches(data._replace(columns={"slot": slot}), 10)
    value = metric.compute(feed(metric, parts, mode))
    for found, start in ((value.window, 20), (value.lifetime, 0)):
        assert list(found) == [1, 2, "other"]
        for key, each in found.items():
            own = np.flatnonzero((slot == (3 if key == "other" else key)) & (np.arange(40) >= start))
            alone = fm.MeanSquaredError()
            alone.add(data.prediction[own], data.label[own])
            assert same(each, alone.compute(), False)


def test_an_interval_in_a_window() -> None:
    metric = fm.Windowed(fm.Bootstrap(fm.Accuracy(), 10, ids="uid"), 1)
    alone = fm.Bootstrap(fm.Accuracy(), 10, ids="uid")
    rng = np.random.default_rng(0)
    for start in (0, 50):
        batch = rng.random(50), rng.integers(0, 2, 50)
        metric.add(*batch, uid=np.arange(start, start + 50))
    alone.add(*batch, uid=np.arange(50, 100))
    assert same(metric.compute().window, alone.compute(), True)


@pytest.mark.parametrize("last", [0, 1.5, True, None])
def test_a_window_has_a_whole_number_of_batches(last: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match=f"last must be an integer of at least 1, not {last}"):
        fm.Windowed(fm.Sum(), last)


def test_a_metric_without_a_window_says_what_to_do() -> None:
    cases = {
        r"keeps every sample; compute it at the end of each window": lambda: fm.Windowed(fm.GAUC(), 3),
        r"states have a fixed size; give Sliced keys=\[...\]": lambda: fm.Windowed(fm.Sliced(fm.Count()), 3),
        "one window is enough": lambda: fm.Windowed(fm.Windowed(fm.Count(), 2), 3),
    }
    for told, make in cases.items():
        with pytest.raises(fm.InvalidInputError, match=told):
            make()


def test_metrics_of_different_windows_do_not_merge() -> None:
    with pytest.raises(fm.InvalidInputError, match="other must be a Windowed with the settings"):
        fm.Windowed(fm.Sum(), 2).merge(fm.Windowed(fm.Sum(), 3))


def test_tensors_follow_arrays_and_arrays_tensors() -> None:
    metric = fm.Windowed(fm.MeanSquaredError(), 2)
    metric.add([1.0], [0.0])
    metric.add(paddle.to_tensor([2.0]), paddle.to_tensor([0.0]))
    metric.add([3.0], [0.0])
    assert metric.compute() == (6.5, 14 / 3)


@pytest.mark.parametrize("mode", MODES)
def test_windows_of_several_lengths_stand_side_by_side(mode: str) -> None:
    metrics = fm.MetricCollection({str(last): fm.Windowed(fm.Accuracy() * 2 + fm.Accuracy(), last) for last in (1, 2)})
    names = [state.name for state in metrics._states()]
    assert len(set(names)) == len(names)
    parts = batches(Data(np.full(12, 0.75), np.array([1] * 6 + [0] * 6), None, None, {}), 4)  # all right, half, none
    value = metrics.compute(feed(metrics, parts, mode))
    assert [value[str(last)].window for last in (1, 2)] == [0.0, 0.75]


def test_a_window_that_is_too_large_is_named_before_anything_is_allocated() -> None:
    with pytest.raises(
        fm.InvalidInputError, match=r"last=1000000000 is too large: the window of 'mine\.\w+' would have"
    ):
        fm.Windowed(fm.AUC(), 10**9, name="mine")
