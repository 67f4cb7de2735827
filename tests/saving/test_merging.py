"""Partial results: parts of the data give what one pass over all of it gives, in any order and any tree."""

from __future__ import annotations

import copy
import json
import pickle
import re
import time
import warnings
import weakref

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.errors import InvalidInputError
from tests import contract
from tests.contract import CASES
from tests.fakes import together

pytestmark = pytest.mark.numpy_only


def test_no_parts_are_refused():
    with pytest.raises(InvalidInputError, match="parts is empty"):
        fm.merge_all([])
    with pytest.raises(InvalidInputError, match="parts must hold metrics or collections, not int"):
        fm.merge_all([3])


def test_what_is_merged_is_new_and_the_parts_stay_as_they_are():
    parts = [fm.Sum(name="mine"), fm.Sum(), fm.Sum()]
    for part, value in zip(parts, (1.0, 2.0, 4.0)):
        part.add([value])
    for several in (parts[1:], tuple(parts[1:])):
        again = copy.deepcopy(parts[0])
        again.merge(several)
        assert again.compute() == 7.0
    merged = fm.merge_all(iter(parts))
    merged.add([8.0])
    assert (merged.name, merged.compute()) == ("mine", 15.0)
    assert [part.compute() for part in parts] == [1.0, 2.0, 4.0]


def test_parts_of_other_settings_are_refused():
    with pytest.raises(InvalidInputError, match="by"):
        fm.merge_all([fm.Sliced(fm.AUC()), fm.Sliced(fm.AUC(), by="day")])
    with pytest.raises(InvalidInputError, match=r"threshold is 0\.25, here 0\.5"):  # also before a part that fits
        fm.merge_all([fm.Accuracy(), fm.Accuracy(threshold=0.25), fm.Accuracy()])


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({"max_keys": 3}, {"max_keys": 4}, "max_keys is 4, here 3"),
        ({"keys": [1, 2]}, {"keys": [1, 3]}, "keys is 3, here 2"),
        ({"keys": ["a", "b"]}, {"keys": ["a"]}, r"keys is \['a'\], here \['a', 'b'\]"),
        ({"keys": [1]}, {"max_keys": 4}, r"keys is None, here \[1\]"),
        ({"keys": range(900)}, {"keys": range(901)}, r"keys is \[0, 1, .{60,80}, here \[0, 1, [^\]]{60,80}$"),
    ],
)
def test_slices_that_differ_are_refused_with_the_setting_and_both_values(one, other, told):
    def inside(settings):
        sliced = fm.Sliced(fm.AUC(), **settings)
        return [sliced, fm.MetricCollection({"a": fm.AUC(), "b": sliced.fresh()})]

    for mine, its in zip(inside(one), inside(other)):
        with pytest.raises(InvalidInputError, match=told):
            mine.merge(its)


class Doubled(fm.Sum):
    """Has the states and the settings of its base, and another value."""

    def formula(self, *states, **named):
        return 2 * super().formula(*states, **named)


def test_a_metric_of_a_class_below_is_another_metric():
    for one, other, told in ((fm.Sum(), Doubled(), "it is a Doubled"), (Doubled(), fm.Sum(), "it is a Sum")):
        other.add([1.0])
        with pytest.raises(InvalidInputError, match=told):
            one.merge(other)
        assert one.compute() == 0.0


# -- any order, any tree: the whole catalogue -----------------------------------------------------------------

PARTS = 16


def held(metric):
    """Everything that it holds, except for records and windows, whose order is that of the merges."""
    arrays = metric.state_dict()
    return {name: array.tobytes() for name, array in arrays.items() if not re.match(r"\d+:|fleetmetrics$", name)}


def quiet(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def by_tree(rng, parts):
    """Merge any two or three parts at a time until one is left."""
    parts = list(parts)
    while len(parts) > 1:
        rng.shuffle(parts)
        some, parts = parts[:3], parts[3:]
        first = copy.deepcopy(some[0])
        how = rng.integers(4)
        if how == 0:
            first.merge(some[1:])
        elif how == 1:
            first = fm.merge_all(some)
        elif how == 2 and first._is_small:  # one metric for all of them, as of small files
            taken = [first._taken()]
            for each in some[1:]:
                first.merge(each)
                taken.append(first._taken())
            first._hold_all(taken)
        else:
            first.hold_merged(each.state_dict() for each in some)
        parts.append(first)
    return parts[0]


def parts_of(name, weight):
    """The metric of a case over 16 parts of its data, one of which is empty, and over all of it."""
    data = contract.draw(name, contract.first_dtypes(name), weight, samples=8 * PARTS)
    cuts = [0, *np.sort(np.random.default_rng(7).integers(0, 8 * PARTS, PARTS - 2)), 8 * PARTS, 8 * PARTS]
    metrics = [CASES[name].make() for _ in range(PARTS + 1)]
    for metric, start, stop in zip(metrics, [*cuts[:-1], 0], [*cuts[1:], 8 * PARTS]):
        contract.feed(metric, contract.batches(data.rows(start, stop)), "numpy")
    return metrics[:-1], metrics[-1]


@pytest.mark.kinds
@pytest.mark.parametrize("weight, times", [(None, 1), ("real", 2)])
@pytest.mark.parametrize("name", CASES)
def test_any_order_and_any_tree_of_merges_gives_the_same_bits(name, weight, times):
    parts, whole = parts_of(name, weight)
    rng = np.random.default_rng(0)
    merged = [fm.merge_all([parts[place] for place in rng.permutation(PARTS)]) for _ in range(times + 1)]
    merged += [by_tree(rng, parts) for _ in range(times)]
    values = [quiet(each.compute) for each in merged]
    if "window" in name:  # whose batches stand side by side with those of the first part
        assert len({repr(contract.plain(value)) for value in values}) == 1
        return
    assert all(held(each) == held(merged[0]) for each in merged)
    for mine, its in zip(merged[0]._states(), whole._states()):
        assert mine.read().dtype != np.int64 or mine.read().tobytes() == its.read().tobytes()
    assert all(contract.same(value, quiet(whole.compute), False, 1e-13) for value in values)
    if weight is None or not any(whole.record_metrics()):  # the weights of a user are summed in the records' order
        assert len({repr(contract.plain(value)) for value in values}) == 1


@pytest.mark.thorough
def test_thirty_orders_and_trees_of_sixteen_parts_give_the_same_bits():
    rng = np.random.default_rng(1)
    parts = []
    for size in [0, *rng.integers(1, 99, PARTS - 1)]:
        members = {"loss": fm.LogLoss(), "copc": fm.COPC(), "r2": fm.R2Score(), "by": fm.Sliced(fm.COPC(), max_keys=9)}
        parts.append(fm.MetricCollection(members))
        for rows in np.array_split(np.arange(size), 3):
            score, weight = rng.random(len(rows)), np.exp(4 * rng.normal(size=len(rows)))
            parts[-1].add(score, rng.random(len(rows)) < score, weight=weight, slot=rng.integers(0, 20, len(rows)))
    found = [fm.merge_all([parts[place] for place in rng.permutation(PARTS)]) for _ in range(30)]
    found += [by_tree(rng, parts) for _ in range(15)]
    assert len({str(held(each)) for each in found}) == len({str(quiet(each.compute)) for each in found}) == 1
    rests = {name: array for name, array in found[0].state_dict().items() if name.endswith(":rest")}
    assert len(rests) > 5 and all(array.any() for array in rests.values())


def test_a_few_numbers_are_small_and_records_slices_and_many_numbers_are_not():
    for small in (fm.AUC(), fm.LogLoss(), fm.Windowed(fm.AUC(), 3), fm.Sliced(fm.LogLoss(), keys=[1, 2, 3])):
        assert small._is_small and fm.MetricCollection([fm.COPC(), small])._is_small
    for large in (fm.GAUC(), fm.Sliced(fm.LogLoss()), fm.AUC(buckets=1 << 17), fm.Windowed(fm.AUC(), 100)):
        assert not large._is_small and not fm.MetricCollection([fm.COPC(), large])._is_small


class Parsed(dict):
    """A dict that can be watched."""


@pytest.mark.parametrize("name, number", [("sliced variance by text", PARTS), ("gauc", 4), ("gauc", PARTS)])
def test_many_state_dicts_become_one_a_few_at_a_time(monkeypatch, name, number):
    monkeypatch.setattr("fleetmetrics.base.merging._AT_ONCE", 3)
    parts = quiet(lambda: parts_of(name, "real")[0])[:number]
    whole = copy.deepcopy(parts[0])
    parse, seen, most = whole._parsed, [], 0

    def parsed(state, plan):
        nonlocal most
        found = Parsed(parse(state, plan))
        seen.append(weakref.ref(found))
        most = max(most, sum(each() is not None for each in seen))
        return found

    monkeypatch.setattr(whole, "_parsed", parsed, raising=False)
    quiet(lambda: whole.hold_merged(part.state_dict() for part in parts))
    assert len(seen) == number and most <= 4
    merged = quiet(lambda: fm.merge_all(parts))
    assert held(whole) == held(merged)
    assert contract.same(quiet(whole.compute), quiet(merged.compute), False, 1e-13)
    with pytest.raises(InvalidInputError, match="different metric"):
        whole.hold_merged([parts[0].state_dict(), fm.AUC().state_dict()])
    assert held(whole) == held(merged)


def test_a_state_dict_of_other_settings_or_shapes_among_many_is_refused_and_nothing_is_held():
    whole, other = fm.Accuracy(), fm.Accuracy(threshold=0.7)
    for metric in (whole, other):
        metric.add([0.6, 0.9], [1, 1])
    good, bad = whole.state_dict(), other.state_dict()
    with pytest.raises(
        InvalidInputError, match="a part comes from a different metric, or from different settings, than the first"
    ):
        whole.hold_merged([good, bad])
    about = json.loads(good["fleetmetrics"].tobytes())
    key = [*about["arrays"]][-1]
    about["arrays"][key][1] = [2]
    said = np.frombuffer(bytearray(json.dumps(about).encode()), np.uint8)
    wrong = {**good, "fleetmetrics": said, key: np.zeros(2, good[key].dtype)}
    for parts in ([good, wrong], [wrong, good], [wrong]):
        with pytest.raises(InvalidInputError, match=r"\[2\]"):
            whole.hold_merged(parts)
    assert whole.compute() == 1.0


class Growing(fm.Metric):
    """Has states that depend on more than its settings."""

    size = 2

    def __init__(self, **common):
        self.declared = (fm.Declared("cells", (self.size,)),)
        super().__init__(**common)

    def batch_statistics(self, batch):
        return {"cells": batch.histogram(batch.xp.cast(batch.prediction, "int64"))}

    def formula(self, cells):
        return cells


def test_states_that_differ_where_the_settings_do_not_are_neither_merged_nor_loaded(monkeypatch):
    one = Growing(name="one")
    saved = one.state_dict()
    monkeypatch.setattr(Growing, "size", 3)
    other = Growing()
    with pytest.raises(InvalidInputError, match=r"it is 'one' \(Growing\): its states differ"):
        other.merge(one)
    with pytest.raises(InvalidInputError, match="its states differ"):
        other.set_state_dict(saved)


def test_a_sum_keeps_what_rounding_takes_until_it_is_needed():
    parts = [fm.Sum() for _ in range(4)]
    for part, value in zip(parts, (1.0, 1e100, 1e-30, -1e100)):
        part.add([value])
    total = fm.Sum()
    for part in parts:
        total.merge(part)
    assert total.compute() == 1.0
    total.add([-1.0])
    assert fm.merge_all([total]).compute() == 1e-30


@pytest.mark.parametrize("how", ["pickle", "state dict", "file", "another number"])
def test_the_rests_of_rounding_are_saved_too(how, tmp_path):
    def part(values, **columns):
        metrics = fm.MetricCollection({"sum": fm.Sum(), "by": fm.Sliced(fm.Sum()), "r": fm.StandardDeviation()})
        metrics.add(values, slot=np.arange(len(values)))
        return metrics

    total = fm.merge_all([part([1.0, 1.0, 3.0]), part([1e100, 2**-80]), part([2.5])])
    again = total.fresh()
    if how == "pickle":
        again = pickle.loads(pickle.dumps(total))
    elif how == "state dict":
        again.set_state_dict(total.state_dict())
    elif how == "file":
        fm.save(tmp_path / "state.fms", total)
        fm.load(tmp_path / "state.fms", again)
    else:
        together(
            [lambda channel: fm.save(tmp_path, total if channel.rank else total.fresh(), communicator=channel)] * 2
        )
        fm.load(tmp_path, again)
    assert held(again) == held(total)
    again.merge(part([-1e100]))
    assert again.compute()["sum"] == 7.5 and again.compute()["by"] == {0: 3.5, 1: 1.0, 2: 3.0}
    again.reset()
    assert list(again.state_dict()) == ["fleetmetrics"]


def test_a_rest_that_does_not_fit_is_refused():
    one, other = fm.Sum(), fm.Sum()
    one.add([1.0])
    other.add([1e-20])
    one.merge(other)
    good = one.state_dict()
    (name,) = [name for name in good if name.endswith(":rest")]
    for wrong in (np.full(1, np.nan), np.zeros(1, np.int64), np.zeros((1, 2)), np.zeros(())):
        about = json.loads(good["fleetmetrics"].tobytes())
        about["arrays"][name] = [wrong.dtype.str, list(wrong.shape)]
        bad = {**good, name: wrong, "fleetmetrics": np.frombuffer(json.dumps(about).encode(), np.uint8)}
        with pytest.raises(InvalidInputError, match="has an invalid rest"):
            fm.Sum().set_state_dict(bad)


def test_slices_that_are_evicted_after_a_merge_take_their_rest_along():
    def part(value, slot):
        metric = fm.Sliced(fm.Sum(), max_keys=2)
        metric.add([value], slot=[slot])
        return metric

    total = fm.merge_all([part(1.0, 7), part(2**-80, 7), part(1.0, 5), part(2**-80, 5)])
    with pytest.raises(InvalidInputError, match="no longer be finite"):
        total.add([1e308, 1.7e308], slot=[1, 1])
    before = held(total)
    total.add([4.0], slot=[1])  # instead of 7
    assert held(total) != before
    total.merge([part(-1.0, 5), part(-4.0, 1), part(0.0, 1)])
    with pytest.warns(UserWarning):
        assert total.compute() == {1: 0.0, 5: 2**-80, "other": 1.0}


# -- small ----------------------------------------------------------------------------------------------------


def test_fifty_slices_of_an_area_are_a_few_hundred_kib_in_a_pickle_and_a_file(tmp_path):
    rng = np.random.default_rng(0)
    metric = fm.Sliced(fm.AUC())
    for _ in range(3):
        metric.add(rng.random(10**5), rng.integers(0, 2, 10**5), slot=rng.integers(0, 50, 10**5))
    held_in_memory = sum(array.nbytes for array in metric.state_dict().values())
    fm.save(tmp_path / "state.fms", metric)
    assert len(pickle.dumps(metric)) < 450 * 1024 and (tmp_path / "state.fms").stat().st_size < 450 * 1024
    assert held_in_memory > 3 * 10**6
    again, from_file = pickle.loads(pickle.dumps(metric)), metric.fresh()
    fm.load(tmp_path / "state.fms", from_file)
    for other in (again, from_file):
        other.add([0.5] * 300, [1] * 300, slot=[7] * 300)  # more than a byte holds
        assert all(state.read().dtype == np.int64 for state in other._states())
    metric.add([0.5] * 300, [1] * 300, slot=[7] * 300)
    assert metric.compute() == again.compute() == from_file.compute()


def test_a_thousand_parts_are_merged_in_a_moment():
    part = fm.MetricCollection([fm.AUC(), fm.LogLoss(), fm.COPC(), fm.MeanAbsoluteError(), fm.Count()])
    part.add(np.random.default_rng(0).random(1000), np.arange(1000) % 2)
    parts = [pickle.loads(pickle.dumps(part)) for _ in range(1000)]
    start = time.process_time()
    assert fm.merge_all(parts).compute()[part.metrics[list(part.metrics)[-1]].name] == 10**6
    assert time.process_time() - start < 2
