"""Slices: each has the metric's value over its samples, whichever worker has met which key in which order."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.batch.keys import Coded
from tests.contract import Data, batches, draw, feed, new_programs, same
from tests.fakes import Listener, Together, together

pytestmark = pytest.mark.halved

RNG = np.random.default_rng(11)
N = 400
P, Y, W = RNG.random(N), RNG.integers(0, 2, N), RNG.random(N)


def table_of(make: Any, key: Any, chosen: Any = slice(None), weight: Any = None, columns: Any = None) -> dict[Any, Any]:
    """The values of a metric of its own for each key."""
    found = {}
    for each in np.unique(key[chosen]).tolist():
        own = np.flatnonzero(key == each)
        metric = make()
        more = {name: column[own] for name, column in (columns or {}).items()}
        metric.add(P[own], Y[own], None if weight is None else weight[own], **more)
        found[each] = metric.compute()
    return found


def add(metric: Any, own: Any, by: str = "slot", **columns: Any) -> Any:
    metric.add(P[own], Y[own], W[own], **{name: column[own] for name, column in columns.items()})
    return metric


# -- which keys are kept --------------------------------------------------------------------------------------

KEYS = {
    "integers": RNG.integers(-(2**62), 2**62, 60)[RNG.integers(0, 60, N)],
    "texts": np.array([f"{'äz'[i % 2]}{i}" for i in range(60)])[RNG.integers(0, 60, N)],
}


@pytest.mark.numpy_only
@pytest.mark.filterwarnings("ignore:mine. slot has more than")
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("limit", [1, 7, 59, 60, 1000])
def test_the_smallest_keys_are_complete_for_any_workers_and_order(kind: str, limit: int) -> None:
    key = KEYS[kind]
    kept = np.unique(key)[:limit]
    rest = ~np.isin(key, kept)
    wanted = {each: int((key == each).sum()) for each in kept.tolist()}
    if rest.any():
        wanted["other"] = int(rest.sum())
    for seed in range(6):
        rng = np.random.default_rng(seed)
        order = rng.permutation(N) if seed else np.argsort(key)[::-1]  # each key smaller than those before
        workers = rng.integers(1, 6)
        parts = np.array_split(order, np.sort(rng.integers(0, N, workers - 1)))

        def work(channel: Together, part: Any = None) -> Any:
            metric = fm.Sliced(fm.Count(), max_keys=limit, name="mine")
            for batch in np.array_split(part, max(1, len(part) // 9)):
                metric.add(P[batch], slot=key[batch])
            return metric.compute(communicator=channel)

        found = together([lambda channel, part=part: work(channel, part) for part in parts])
        assert all(each == wanted and list(each) == list(wanted) for each in found), found


@pytest.mark.filterwarnings("ignore:.*more than 5 keys")
def test_merging_in_any_order_keeps_the_smallest_keys() -> None:
    key = KEYS["integers"]
    make = lambda: fm.Sliced(fm.MeanSquaredError(), max_keys=5)  # noqa: E731
    one = add(make(), np.arange(N), slot=key)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        parts = [add(make(), part, slot=key) for part in np.split(rng.permutation(N), [30, 30, 200])]
        left, right = make(), make()
        for place, part in enumerate(rng.permutation(4)):
            (left if place < seed else right).merge(parts[part])
        right.merge(left)
        assert same(right.compute(), one.compute(), False)


def test_the_warning_counts_samples_beyond_the_limit() -> None:
    metric = fm.Sliced(fm.Count(), "user", max_keys=2, name="mine")
    metric.add([0.5] * 6, user=[1, 2, 3, 4, 4, 5])
    with pytest.warns(
        UserWarning, match="^mine: user has more than 2 keys; the 2 smallest are kept, and 4 of 6 samples, .* 'other'"
    ):
        assert metric.compute() == {1: 1, 2: 1, "other": 4}


def test_rows_are_taken_again_and_merged_where_they_lie() -> None:
    metric = fm.Sliced(fm.AUC(buckets=64), max_keys=4)
    for start in range(0, 40, 4):
        metric.add(P[:8], Y[:8], slot=-np.repeat(np.arange(start, start + 4), 2))
    state = metric.states[f"{metric.name}.histogram"]
    assert len(state.value) == 8  # 4 keys, the others, and room
    lies = state.value.ctypes.data
    metric.add(P[:8], Y[:8], slot=-np.repeat(np.arange(36, 40), 2))
    assert state.value.ctypes.data == lies


# -- what the values are --------------------------------------------------------------------------------------

SMALL = RNG.integers(0, 4, N)


@pytest.mark.parametrize("form", [np.asarray, paddle.to_tensor], ids=["array", "tensor"])
@pytest.mark.parametrize("keys", [None, [3, 1, 0]])
@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_keys_may_be_arrays_or_tensors_of_any_integers(mode: str, keys: Any, form: Any) -> None:
    wanted = table_of(fm.AUC, SMALL, weight=W)
    if keys:
        wanted = {key: wanted[key] for key in sorted(keys)}
        metric = fm.AUC()
        own = SMALL == 2
        metric.add(P[own], Y[own], W[own])
        wanted["other"] = metric.compute()
    for dtype in ("int64", "int32", "uint8"):
        metric = fm.Sliced(fm.AUC(), keys=keys)
        put = paddle.to_tensor if mode == "dynamic" else np.asarray
        for part in np.array_split(np.arange(N), 5):
            key = form(SMALL[part].astype(dtype))
            metric.add(put(P[part]), put(Y[part]), put(W[part]), slot=key[:, None] if dtype == "int32" else key)
        value = metric.compute()
        assert same(value, wanted, False) and list(value) == list(wanted)
        assert all(type(key) is int or key == "other" for key in value)


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_keys_beyond_the_given_ones_on_either_side_are_of_the_rest(mode: str) -> None:
    put = np.asarray if mode == "numpy" else paddle.to_tensor
    for form in (np.asarray, paddle.to_tensor):
        metric = fm.Sliced(fm.Count(), keys=[2, 4])
        metric.add(put([0.5] * 6), slot=form(np.array([4, 9, 2**40, 3, -1, 2])))
        assert metric.compute() == {2: 1, 4: 1, "other": 4}


def test_keys_in_a_tensor_of_floats_or_for_texts_are_an_error() -> None:
    for keys, slot, told in (([1, 2], [1.0], "integers or strings"), (["a"], [1], "strings, as keys does")):
        metric = fm.Sliced(fm.Count(), keys=keys)
        with pytest.raises(fm.InvalidInputError, match=f"slot must hold {told}, one per sample, not paddle"):
            metric.add(paddle.to_tensor([0.5]), slot=paddle.to_tensor(slot))


def test_texts_are_sorted_by_code_points() -> None:
    metric = fm.Sliced(fm.Count(), "country")
    metric.add([0.5] * 4, country=["z", "ä", "Z", ""])
    metric.add([0.5] * 2, country=np.array(["ä", "z"], object))
    assert list(metric.compute().items()) == [("", 1), ("Z", 1), ("z", 2), ("ä", 2)]


@pytest.mark.parametrize("mode", ["numpy", "dynamic"])
def test_a_slice_of_masked_samples_leaves_no_trace(mode: str) -> None:
    put = np.asarray if mode == "numpy" else paddle.to_tensor
    metric = fm.Sliced(fm.Accuracy(), max_keys=2)
    metric.add(put([0.9, np.nan, 0.9]), put([1, 1, 0]), mask=put([True, False, True]), slot=[7, 1, 7])
    assert metric.compute() == {7: 0.5}
    metric.add(put([0.9]), put([1]), weight=put([0.0]), slot=[3])
    assert metric.compute() == {7: 0.5}


def test_add_takes_the_arguments_of_the_metric_in_its_order() -> None:
    for wrap in (lambda metric: metric, lambda metric: fm.Windowed(metric, 3, lifetime=False)):
        mean = wrap(fm.Sliced(fm.Mean(), keys=[1, 2]))
        mean.add([1.0, 3.0, 5.0], [1.0, 3.0, 0.5], slot=[1, 1, 2])  # values and weights
        mean.add(value=[5.0], mask=[False], slot=[1])
        mean.add(prediction=[6.5], weight=[0.5], slot=[2])
        assert mean.compute() == {1: 2.5, 2: 5.75}
    with pytest.raises(fm.InvalidInputError, match="label"):
        fm.Sliced(fm.Mean()).add([1.0], label=[1], slot=[1])
    with pytest.raises(fm.InvalidInputError, match="slot is missing"):
        fm.Sliced(fm.Mean()).add([1.0])


def test_rows_of_a_matrix_have_one_key_each() -> None:
    metric = fm.Sliced(fm.Count())
    metric.add(np.zeros((3, 2)), slot=[4, 5, 4])
    assert metric.compute() == {4: 4, 5: 2}


def test_scores_of_classes_can_be_sliced() -> None:
    data = draw("accuracy of scores", ("float64", "int64"))
    slot = np.arange(len(data.prediction)) % 2
    metric = fm.Sliced(fm.Accuracy(top_k=2))
    feed(metric, batches(data._replace(columns={"slot": slot})), "dynamic")
    for each, value in metric.compute().items():
        alone = fm.Accuracy(top_k=2)
        alone.add(data.prediction[slot == each], data.label[slot == each])
        assert value == alone.compute()


@pytest.mark.parametrize("keys", [None, [0, 1]])
def test_metrics_that_keep_every_sample_are_sliced_too(keys: Any) -> None:
    user, slot = RNG.integers(0, 9, N), SMALL % 3
    columns = {"user": user}
    makes = {"gauc": fm.GAUC, "uauc": fm.UAUC, "exact": fm.ExactAUC, "spearman": fm.SpearmanCorrelation}
    metrics = fm.MetricCollection({name: fm.Sliced(make(), keys=keys) for name, make in makes.items()})
    for part in np.array_split(np.arange(N), 7):
        metrics.add(P[part], Y[part], W[part], slot=slot[part], user=user[part])
    tables = {folds.table.columns for folds in metrics.record_folds()}
    assert len(tables) == 3 and ("user", "score", "label", "weight", "slice key") in tables
    value = metrics.compute()
    for name, make in makes.items():
        wanted = table_of(make, slot, slot < 2 if keys else slice(None), W, columns if "auc" in name else None)
        if keys:
            alone = make()
            own = slot == 2
            alone.add(P[own], Y[own], W[own], **({"user": user[own]} if "auc" in name else {}))
            wanted["other"] = alone.compute()
        assert same(value[name], wanted, False), (name, value[name], wanted)


@pytest.mark.filterwarnings("ignore:.*the very same samples")
def test_keys_in_dictionaries_are_kept_as_the_same_keys_in_plain_strings() -> None:
    """Dictionaries of batches differ, repeat a text, or have more texts than the batch has samples."""
    slot, user = np.array(["b", "a", "c"])[RNG.integers(0, 3, N)], RNG.integers(0, 9, N)
    dictionaries = [["c", "a", "b"], ["a", "x", "b", "c", "a"] * 15, [*map(str, range(N)), "c", "b", "a"]]
    makes = {"gauc": fm.GAUC, "exact": fm.ExactAUC}  # the records of the second are prepared slice by slice
    coded, mixed, plain = (
        fm.MetricCollection({name: fm.Sliced(make()) for name, make in makes.items()}, name="of slices")
        for _ in range(3)
    )
    for number, part in enumerate(np.array_split(np.arange(N), 5)):
        two, three = (
            Coded(np.array([texts.index(key) for key in slot[part].tolist()], dtype), np.array(texts))
            for texts, dtype in ((dictionaries[number % 2], np.int8), (dictionaries[number % 3], np.int16))
        )
        for metric, keys in {coded: two, mixed: three if number % 2 else slot[part], plain: slot[part]}.items():
            metric.add(P[part], Y[part], slot=keys, user=user[part])
    for metric, kinds in ((coded, {Coded}), (mixed, {Coded, np.ndarray})):
        kept = [kept.records["slice key"] for folds in metric.record_folds() for kept in folds.table.batches]
        assert {type(column) for column in kept} == kinds
    wanted, loaded = plain.compute(), plain.fresh()
    for metric in (coded, mixed, pickle.loads(pickle.dumps(coded))):
        loaded.set_state_dict(metric.state_dict())
        for value in (metric.compute(), loaded.compute()):
            assert all(same(value[name], wanted[name], True) for name in makes)
    results = together(
        [lambda channel, metric=metric: metric.compute(communicator=channel) for metric in (coded, mixed, plain)]
    )
    thrice = fm.merge_all([plain, plain, plain]).compute()
    assert all(same(result[name], thrice[name], False) for result in results for name in makes)


@pytest.mark.filterwarnings("ignore:.*more than 2 keys")
def test_records_of_several_workers_are_folded_by_the_keys_that_all_keep() -> None:
    slot, user = RNG.integers(0, 4, N), np.repeat(np.arange(N // 20), 20)
    parts = np.array_split(np.random.default_rng(1).permutation(N), 3)

    def work(channel: Together) -> Any:
        metric = fm.Sliced(fm.GAUC(), max_keys=2, name="mine")
        part = parts[channel.rank]
        metric.add(P[part], Y[part], slot=slot[part], user=user[part])
        return metric.compute(communicator=channel)

    one = fm.Sliced(fm.GAUC(), max_keys=2)
    one.add(P, Y, slot=slot, user=user)
    wanted = one.compute()
    assert list(wanted) == [0, 1, "other"]
    assert all(same(value, wanted, False) for value in together([work] * 3))


# -- in a collection ------------------------------------------------------------------------------------------


def of_many(limit: int = 1000) -> fm.MetricCollection:
    members = {
        "auc": fm.AUC(buckets=16),
        "by slot": fm.Sliced(fm.AUC(buckets=16), "slot", max_keys=limit),
        "error by slot": fm.Sliced(fm.MeanSquaredError(), "slot", max_keys=limit),
        "by country": fm.Sliced(fm.Accuracy(), "country"),
        "in france": fm.Sliced(fm.Accuracy(), "country", keys=["fr"]),
    }
    return fm.MetricCollection(members, name="many")


COUNTRY = np.array(["fr", "de", "it"])[RNG.integers(0, 3, N)]


def test_a_collection_of_plain_and_sliced_metrics_is_one_exchange() -> None:
    parts = [np.arange(0, 50), np.arange(50, 50), np.arange(50, N)]
    one = of_many()
    add(one, np.arange(N), slot=SMALL, country=COUNTRY)
    wanted = one.compute()
    assert wanted["by slot"] == table_of(lambda: fm.AUC(buckets=16), SMALL, weight=W)

    def work(channel: Together) -> Any:
        mine = of_many()
        if len(parts[channel.rank]):
            add(mine, parts[channel.rank], slot=SMALL, country=COUNTRY)
        value = mine.compute(communicator=channel)
        assert channel.calls == ["MetricCollection many"]
        return value

    found = together([work] * 3)
    assert all(same(value, wanted, False) for value in found), found
    assert repr(found[0]) == repr(found[1]) == repr(found[2])


def test_equal_slicings_share_their_states_and_others_do_not() -> None:
    metrics = of_many()
    add(metrics, np.arange(N), slot=SMALL, country=COUNTRY)
    listener = Listener()
    metrics.compute(communicator=listener)
    assert len(listener.calls) == 1
    names = [block.name for block in listener.blocks[0]]
    assert [name for name in names if name.endswith("samples")] == [
        f"many.{name}.samples" for name in ("by slot", "by country", "in france")
    ]
    two = fm.MetricCollection([fm.Sliced(fm.Accuracy(), name="a"), fm.Sliced(fm.Accuracy(threshold=0.7), name="b")])
    two.add(P, Y, slot=SMALL)
    assert sum(state.name.endswith(".total") for state in two._states()) == 1
    assert sum(state.name.endswith(".correct") for state in two._states()) == 2


def test_windows_of_slices_by_other_columns_are_not_one() -> None:
    metrics = fm.MetricCollection(
        {by: fm.Windowed(fm.Sliced(fm.Count(), by, keys=[1, 2]), 2, lifetime=False) for by in ("slot", "hour")}
    )
    for _ in range(2):
        metrics.add([0.5, 0.5, 0.5], slot=[1, 1, 1], hour=[2, 2, 1])
    assert metrics.compute() == {"slot": {1: 6, 2: 0}, "hour": {1: 2, 2: 4}}
    kinds = {
        (by, limit): [*fm.Sliced(fm.Count(), by, max_keys=limit).own_states()][-1].kind
        for by in ("slot", "hour")
        for limit in (5, 6)
    }
    assert len(set(kinds.values())) == 4


class Seldom(fm.Metric):
    """Counts samples, and adds up the values of a batch only if there is one of 1."""

    declared = (fm.Declared("sum", dtype="float64"), fm.Declared("count", dtype="int64"))

    def batch_statistics(self, batch: Any) -> Any:
        return {"count": batch.total, "sum": batch.weighted_sum(batch.values) if 1 in batch.prediction else None}

    def formula(self, sum: Any, count: Any) -> Any:
        return sum.item(), count.item()


def test_a_state_without_an_increment_still_follows_the_keys() -> None:
    metric = fm.Sliced(Seldom())
    metric.add([1.0, 3.0], slot=[5, 9])
    metric.add([4.0, 5.0], slot=[1, 7])
    metric.add([1.0, 2.0], slot=[7, 0])
    assert metric.compute() == {0: (2.0, 1), 1: (0.0, 1), 5: (1.0, 1), 7: (1.0, 2), 9: (3.0, 1)}


@pytest.mark.filterwarnings("ignore::fleetmetrics.UndefinedMetricWarning")
def test_so_does_a_state_of_replicates() -> None:
    metric, parts = fm.Sliced(fm.Bootstrap(fm.Max(), 6, ids="uid")), []
    for values, slot in ([1.5, 3.5], [5, 9]), ([4, 5], [1, 7]), ([1.5, 2.5], [7, 0]):
        batch = {"uid": slot, "slot": slot}
        metric.add(values, **batch)
        parts.append((values, slot))
    found = metric.compute()
    for key in (0, 1, 5, 7, 9):
        alone = fm.Bootstrap(fm.Max(), 6, ids="uid")
        for values, slot in parts:
            alone.add([v for v, s in zip(values, slot) if s == key], uid=[s for s in slot if s == key])
        assert same(found[key], alone.compute(), True)


def test_the_order_of_the_given_keys_does_not_matter() -> None:
    one, other = fm.Sliced(fm.Count(), keys=[2, 1]), fm.Sliced(fm.Count(), keys=np.array([1, 2]), max_keys=7)
    for metric in (one, other):
        metric.add([0.5, 0.5], slot=[1, 2])
    one.merge(other)
    assert one.compute() == {1: 2, 2: 2}


def test_states_of_fixed_keys_go_through_the_normal_exchange() -> None:
    metric, listener = fm.Sliced(fm.Accuracy(), keys=[1, 2], name="mine"), Listener()
    add(metric, np.arange(N), slot=SMALL)
    metric.compute(communicator=listener)
    shapes = {block.name: block.array.shape for block in listener.blocks[0]}
    assert shapes["mine.samples"] == shapes["mine.correct"] == (3,)


# -- undefined ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: fm.AUC(buckets=16), lambda: fm.AUC(tolerance=None), fm.Count])
def test_values_of_many_slices_are_those_of_each_alone_to_the_bit(make: Any) -> None:
    slot = RNG.integers(0, 90, N)
    slot[:3], slot[3] = 100, 101  # too few for an area
    metric = fm.Sliced(make(), max_keys=None)
    metric.add(P, Y, slot=slot)
    with pytest.warns(UserWarning) if make is not fm.Count else contextlib.nullcontext():
        found, alone = metric.compute(), table_of(make, slot)
    np.testing.assert_equal(found, alone)
    assert {type(each) for each in found.values()} == {type(each) for each in alone.values()}


@pytest.mark.filterwarnings("ignore::fleetmetrics.BucketWarning")
def test_a_subclass_that_overrides_the_formula_uses_it_in_each_slice() -> None:
    class Gini(fm.AUC):
        def formula(self, histogram: np.ndarray) -> float:
            return 2 * super().formula(histogram) - 1

    slot = np.arange(N) % 3
    metrics = fm.MetricCollection({"gini": fm.Sliced(Gini()), "auc": fm.Sliced(fm.AUC())})
    metrics.add(P, Y, slot=slot)
    found = metrics.compute()
    assert found["gini"] == {key: 2 * each - 1 for key, each in found["auc"].items()}


def test_many_undefined_slices_are_told_in_one_warning_that_names_some() -> None:
    slot = np.arange(60) // 2
    metric = fm.Sliced(fm.AUC(name="auc"), by="slot")
    metric.add(np.linspace(0, 1, 60), np.where(slot < 50 / 2, 1, np.arange(60) % 2), slot=slot)
    with pytest.warns(fm.UndefinedMetricWarning) as told:
        values = metric.compute()
    assert np.isnan([values[key] for key in range(25)]).all() and all(values[key] == 1 for key in range(25, 30))
    (text,) = [str(each.message) for each in told]
    assert text.startswith("auc of slot 0 is undefined: ")
    assert text.endswith(" (25 of 30 slices by slot have such a warning: also 1, 2, 3, 4, 5 and 19 more)")
    assert told[0].filename == __file__
    long = fm.Sliced(fm.AUC(name="auc"), by="slot")  # the keys may be those of another worker
    long.add([0.5] * 2, [1, 1], slot=["\x1b[2J" + "x" * 1_000_000, "y" * 1_000_000])
    with pytest.warns(fm.UndefinedMetricWarning) as told:
        long.compute()
    (text,) = [str(each.message) for each in told]
    assert text.startswith("auc of slot '\\x1b[2Jxxx") and "also 'yyy" in text and len(text) < 400
    six = fm.Sliced(fm.Precision() + fm.Recall())
    six.add([0.1] * 6, [0] * 6, slot=range(6))
    with pytest.warns(fm.UndefinedMetricWarning) as told:
        six.compute()
    (text,) = [str(each.message) for each in told]
    assert text.startswith("precision of slot 0 is undefined") and text.endswith("also 1, 2, 3, 4, 5)")
    of_queries = fm.Sliced(fm.NDCG(), by="country")
    of_queries.add([0.1, 0.2, 0.3], [0, 0, 1], country=["fr", "de", "de"], query=[1, 2, 3])
    with pytest.warns(fm.UndefinedMetricWarning) as told:
        of_queries.compute()
    (text,) = [str(each.message) for each in told]
    assert text.startswith("country 'de': ndcg is undefined for 1 ") and text.endswith("warning: also 'fr')")
    both = fm.Windowed(fm.Sliced(fm.AUC(name="auc"), by="slot", keys=[1, 2, 3]), last=2)
    both.add([0.5, 0.5, 0.5], [1, 1, 1], slot=[1, 2, 3])
    with pytest.warns(fm.UndefinedMetricWarning) as told:
        both.compute()
    assert len(told) == 2 and "of the last 2 batches of slot 1 is undefined" in str(told[0].message)


def test_an_undefined_slice_is_nan_and_the_warning_names_it() -> None:
    metric = fm.Sliced(fm.AUC(name="area"), "country")
    metric.add([0.5, 0.7, 0.2], [1, 1, 0], country=["fr", "de", "de"])
    with pytest.warns(fm.UndefinedMetricWarning, match="^auc of country 'fr' is undefined"):
        value = metric.compute()
    assert np.isnan(value["fr"]) and value["de"] == 1.0
    fixed = fm.Sliced(fm.Accuracy(), keys=[4])
    fixed.add([0.5], [1], slot=[5])
    with pytest.warns(fm.UndefinedMetricWarning, match="^accuracy of slot 4 is undefined: there are no samples"):
        assert np.isnan(fixed.compute()[4])


def test_without_samples_there_are_no_slices() -> None:
    metric = fm.Sliced(fm.AUC(), name="mine")
    with pytest.warns(fm.UndefinedMetricWarning, match="^mine is undefined: there are no samples"):
        assert metric.compute() == {}


# -- bad input ------------------------------------------------------------------------------------------------


def count(**settings: Any) -> fm.Sliced:
    return fm.Sliced(fm.Count(), name="mine", **settings)


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"by": "label"}, "by must be the name of an additional argument of add, not 'label'"),
        ({"by": "a b"}, "by must be the name"),
        ({"keys": []}, "keys must be a sequence of integers or of strings, each once, not \\[\\]"),
        ({"keys": [1, 1]}, "each once"),
        ({"keys": [[1, 2]]}, "each once"),
        ({"keys": b"fr"}, "each once"),
        ({"keys": [1.5]}, "integers or of strings"),
        ({"keys": [1, "a"]}, "integers or of strings, each once, not \\[1, 'a'\\]"),
        ({"keys": "fr"}, "not 'fr'"),
        ({"keys": 3}, "not 3"),
        ({"keys": ["a", "other"]}, "keys holds 'other'"),
        ({"max_keys": 0}, "max_keys must be an integer of at least 1, not 0"),
        ({"other": 3}, "other must be a string, not 3"),
    ],
)
def test_a_bad_argument_is_an_error_that_names_it(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(fm.InvalidInputError, match=told):
        count(**settings)


@pytest.mark.parametrize(
    "settings, column, told",
    [
        ({}, None, r"mine \(Sliced\(Count\)\): slot is missing"),
        ({}, ["a", 1], "slot must hold integers or strings, not both; among strings it holds 1 of type int"),
        ({}, (1, "b"), "slot must hold integers or strings, not both"),
        ({}, [["b"], [1]], "slot must hold integers or strings, not both"),
        ({}, [b"b", 1], "slot must hold integers or strings; among integers it holds b'b' of type bytes"),
        ({}, [b"b", b"c"], "slot must hold integers or strings, one per sample, not bytes .* numpy.char.decode"),
        ({}, [True, 1], "slot must hold integers or strings; among integers it holds True of type bool"),
        ({}, [True, False], "slot must hold integers or strings, one per sample, not bool"),
        ({}, ["a\0", "a"], "slot holds 'a.x00'; arrays of strings lose trailing NULs"),
        ({}, [float("nan"), "b"], "not both; among strings it holds nan of type float"),
        ({}, [None, "b"], "not both; among strings it holds None of type NoneType"),
        ({}, np.array([1, "b"], object), "slot must hold integers or strings, not both"),
        ({"keys": ["a"]}, ["a", 1], "slot must hold integers or strings, not both"),
        ({}, [0.5, 1.5], "slot must hold integers or strings, one per sample, not float64"),
        ({}, [1], "slot has shape \\[1\\] but prediction has \\[2\\]"),
        ({}, ["a", "b"], "slot holds strings, but the keys so far are integers"),
        ({}, np.array([1, 2**63], np.uint64), "slot must hold integers below 2\\*\\*63 .* not 9223372036854775808"),
        ({"keys": [1]}, ["a", "b"], "slot holds strings, but the keys so far are integers"),
        ({"keys": ["a"]}, [1, 2], "slot holds integers, but the keys so far are strings"),
    ],
)
def test_bad_keys_are_an_error_and_nothing_is_added(settings: dict[str, Any], column: Any, told: str) -> None:
    metric = count(**settings)
    if not settings:
        metric.add([0.5], slot=[1])
    before = [state.read().tobytes() for state in metric._states()]
    with pytest.raises(fm.InvalidInputError, match=told):
        metric.add([0.5, 0.5], **({} if column is None else {"slot": column}))
    assert [state.read().tobytes() for state in metric._states()] == before


def test_a_failure_of_another_member_leaves_no_key_behind() -> None:
    class Broken(fm.Metric):
        def batch_statistics(self, batch: Any) -> Any:
            raise fm.InvalidInputError("broken")

    metrics = fm.MetricCollection({"sliced": fm.Sliced(fm.Count()), "broken": Broken()})
    with pytest.raises(fm.InvalidInputError, match="broken"):
        metrics.add([0.5], slot=[4])
    assert not metrics.holds_samples()


def test_the_name_of_the_rest_cannot_be_a_key() -> None:
    with pytest.raises(fm.InvalidInputError, match="slot holds 'other', which stands for all other keys"):
        count().add([0.5], slot=["other"])
    metric = count(other="the rest")
    metric.add([0.5], slot=["other"])
    assert metric.compute() == {"other": 1}


def test_a_metric_that_cannot_be_sliced_says_what_to_do() -> None:
    cases = {
        "already holds samples; Sliced takes new metrics": lambda: fm.Sliced(add_one(fm.Count())),
        "metric must be a Metric, not type": lambda: fm.Sliced(fm.Count),
        "cannot wrap this Sliced: join the two columns": lambda: fm.Sliced(fm.Sliced(fm.Count())),
        "cannot wrap this Windowed: reverse them": lambda: fm.Sliced(fm.Windowed(fm.Count(), 3)),
        "cannot wrap this Throughput: its time belongs to the whole worker": lambda: fm.Sliced(fm.Throughput()),
    }
    for told, make in cases.items():
        with pytest.raises(fm.InvalidInputError, match=told):
            make()


def add_one(metric: Any) -> Any:
    metric.add([0.5])
    return metric


def test_the_metric_that_was_given_stays_as_it_is() -> None:
    plain = fm.Count(name="plain")
    sliced = fm.Sliced(plain)
    sliced.add([0.5], slot=[1])
    plain.add([0.5, 0.5])
    assert plain.compute() == 2 and sliced.compute() == {1: 1}


def test_fresh_and_rename() -> None:
    metric = fm.Sliced(fm.Accuracy(), keys=[1, 0]).rename("new")
    assert [state.name for state in metric.own_states()] == ["new.samples", "new.correct", "new.total"]
    metric.add([0.75], [1], slot=[1])
    again = metric.fresh("again")
    again.add([0.75, 0.75], [1, 0], slot=[0, 0])
    with pytest.warns(fm.UndefinedMetricWarning, match="accuracy of slot 1"):
        assert same(again.compute(), {0: 0.5, 1: np.nan}, True)
    with pytest.warns(fm.UndefinedMetricWarning, match="accuracy of slot 0"):
        assert metric.compute_local()[1] == 1.0


def test_an_expression_can_be_sliced() -> None:
    precision, recall = fm.Precision(), fm.Recall()
    metric = fm.Sliced(2 * precision * recall / (precision + recall))
    metric.add([0.75, 0.75, 0.25, 0.75], [1, 0, 1, 1], slot=[1, 1, 1, 2])
    assert metric.compute() == {1: 0.5, 2: 1.0}


# -- static programs ------------------------------------------------------------------------------------------


def test_a_static_program_needs_the_keys() -> None:
    with new_programs():
        prediction = paddle.static.data("p", [-1], "float32")
        slot = paddle.static.data("slot", [-1], "int64")
        with pytest.raises(fm.StaticProgramError, match=r"mine: states that grow .* Sliced\(..., keys=\[...\]\)"):
            count().add(prediction, slot=slot)
        with pytest.raises(fm.InvalidInputError, match="slot must hold strings, as keys does"):
            count(keys=["a"]).add(prediction, slot=slot)
        with pytest.raises(fm.InvalidInputError, match="slot must be a variable of the static program"):
            count(keys=[1]).add(prediction, slot=np.array([1]))
        with pytest.raises(fm.InvalidInputError, match="slot must hold integers or strings"):
            count(keys=[1]).add(prediction, slot=prediction)


def test_one_key_of_a_static_program_may_be_any_integer() -> None:
    for keys in ([2**62 + 1], [-(2**63), 2**63 - 1], [0]):
        metric = count(keys=keys)
        column = np.array([-(2**63), -1, 0, 2**62, 2**62 + 1, 2**63 - 1])
        scope = feed(metric, [Data(np.zeros(6), None, columns={"slot": column})], "static")
        assert metric.compute(scope) == {**dict.fromkeys(keys, 1), "other": 6 - len(keys)}


# -- among workers --------------------------------------------------------------------------------------------


def outcome(*makes: Any) -> str:
    """The error of all workers, each of which has made its own metric."""

    def work(channel: Together) -> Any:
        metric, columns = makes[channel.rank]()
        if columns is not None:
            metric.add(P[: len(columns)], Y[: len(columns)], slot=columns)
        return metric.compute(communicator=channel)

    found = together([work] * len(makes))
    assert all(isinstance(each, fm.FleetMetricsError) for each in found), found
    texts = {f"{type(each).__name__}: {each}" for each in found}
    assert len(texts) == 1, texts
    return texts.pop()


def test_the_error_of_workers_that_differ_names_the_difference_and_the_ranks() -> None:
    told = outcome(
        lambda: (count(), [1, 2]),
        lambda: (count(), None),
        lambda: (count(), ["a"]),
    )
    assert told == (
        "AgreementError: Sliced mine, mine.keys: the workers' keys differ: integers on rank 0, none on rank 1, "
        "strings on rank 2"
    )
    told = outcome(lambda: (count(max_keys=5), [1]), lambda: (count(max_keys=6), [1]))
    assert told.startswith("AgreementError: the workers disagree: Sliced mine, state 'mine.keys': ")
    assert "[5] on rank 0, [6] on rank 1" in told
    area = lambda buckets: fm.Sliced(fm.AUC(buckets=buckets), name="mine")  # noqa: E731
    told = outcome(lambda: (area(4), [1]), lambda: (area(8), [1]))
    assert "state 'mine.histogram': shape [2, 4] on rank 0, [2, 8] on rank 1" in told


def test_trouble_of_one_worker_is_raised_on_all() -> None:
    def broken() -> Any:
        metric = count()
        metric.states["mine.samples"].block = lambda scope: 1 / 0
        return metric, [1]

    told = outcome(lambda: (count(), [1]), broken)
    assert told == "CommunicatorError: on rank 1: ZeroDivisionError: division by zero"


def test_an_overflow_names_the_state() -> None:
    def large() -> Any:
        return fm.Sliced(fm.Sum(), name="mine")

    def work(channel: Together) -> Any:
        metric = large()
        metric.add([2**63 - 5], slot=[1])
        return metric.compute(communicator=channel)

    found = together([work] * 2)
    assert all(isinstance(each, fm.IntegerOverflowError) and "'mine.integers'" in str(each) for each in found), found


def test_an_overflow_of_what_is_merged_names_the_state_and_the_metric_of_a_collection() -> None:
    parts = [fm.MetricCollection({"a": fm.Sliced(fm.Sum(), "slot"), "b": fm.Count()}) for _ in range(2)]
    for part in parts:
        part.add([2**62], slot=[1])
    said = r"^metric_collection_\d+\.a\.integers: the sum over what is merged at position \[0\] is 9223372036854775808"
    with pytest.raises(fm.IntegerOverflowError, match=said):
        fm.merge_all(parts)


def test_counts_of_one_worker_and_weights_of_another_go_together() -> None:
    def work(channel: Together) -> Any:
        metric = fm.Sliced(fm.Count(), name="mine")
        metric.add([0.5, 0.5], weight=[0.25, 0.5] if channel.rank else None, slot=[channel.rank, 1])
        return metric.compute(communicator=channel)

    assert together([work] * 2) == [{0: 1.0, 1: 1.75}] * 2


@pytest.mark.numpy_only
@pytest.mark.parametrize("keys", [None, [0, 1, 2]])
def test_clicks_of_slices_are_exact_whichever_batches_have_none_or_weights(keys: Any) -> None:
    slot, zeros = RNG.integers(0, 3, N), np.zeros(N, np.int64)
    metric = fm.Sliced(fm.Calibration(), keys=keys, name="mine")
    for label, weight in ((zeros, None), (Y, None), (zeros[:1], None), (Y, np.full(N, 0.5))):
        size = len(label)
        metric.add(np.full(size, 0.25), label, weight, slot=slot[:size])
    clicks = 1.5 * np.bincount(slot, Y)
    rows = 2.5 * np.bincount(slot) + np.bincount(slot[:1], minlength=3)
    assert metric.compute() == dict(enumerate((0.25 * rows / clicks).tolist()))


@pytest.mark.numpy_only
def test_evicted_slices_of_billions_of_samples_add_up_after_a_pickle() -> None:
    def made() -> fm.Sliced[Any]:
        return fm.Sliced(fm.Count(), max_keys=2, name="mine")

    metric, billions = made(), 1_500_000_000
    metric.add(np.zeros(3), slot=np.array([5, 6, 7]))
    state = metric.state_dict()
    counted = {name: np.full(3, billions) for name in state if name.endswith((".samples", ".total"))}
    assert len(counted) == 2
    metric = made()
    metric.set_state_dict({**state, **counted})
    metric = pickle.loads(pickle.dumps(metric))  # which packs them into 32 bits
    metric.add(np.zeros(2), slot=np.array([1, 2]))
    metric.add(np.zeros(1), slot=np.array([8]))
    with pytest.warns(UserWarning, match="max_keys"):
        assert metric.compute() == {1: 1, 2: 1, "other": 3 * billions + 1}
