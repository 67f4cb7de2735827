"""Keys and rows of a worker: which keys it keeps, where their rows are, and how it goes back."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.batch.keys import Coded
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.state.state import State
from fleetmetrics.wrappers import sliced_states
from fleetmetrics.wrappers.sliced_states import KeyTable, SlicedState, check_kind, host_keys, positions_in
from fleetmetrics.xp import Directed, Scattered, numpy_ops

pytestmark = pytest.mark.numpy_only


def step(table: KeyTable, rows: list[SlicedState], column: np.ndarray) -> None:
    """Count the samples of a batch, and keep their largest number, in the row of each key."""
    plan = table.plan(column)
    number = np.bincount(plan.lanes, minlength=len(plan.rows))
    table.accumulate(plan)
    for each in rows:
        amount = number if each.reduction == "sum" else np.where(number > 0, number * 1.0, -np.inf)
        each.accumulate(Directed(plan, amount))


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 5, 40])
def test_rows_follow_the_smallest_keys_and_the_last_has_all_others(limit: int, texts: bool) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        table = KeyTable("keys", "slot", limit, "k")
        sums, tops = [SlicedState(State(how, (), dtype, how), table, how, how) for how, dtype in TWO]
        met: dict[Any, list[int]] = {}
        for size in rng.integers(1, 12, 12):
            column: Any = rng.integers(0, 40, size) + rng.integers(0, 2) * 7
            column = np.array([f"k{each:02}" for each in column]) if texts else column
            step(table, [sums, tops], column)
            values, numbers = np.unique(column, return_counts=True)
            for key, number in zip(values.tolist(), numbers.tolist()):
                met.setdefault(key, []).append(number)
            kept = sorted(met)[:limit]
            assert table.read().tolist() == kept
            rows = table.known.rows
            assert len(set(rows.tolist())) == len(kept) and (rows > 0).all() and (rows <= limit).all()
            others = sum(sum(met[key]) for key in met if key not in kept)
            assert sums.read().tolist() == [*[sum(met[key]) for key in kept], others]
            assert tops.read()[:-1].tolist() == [max(met[key]) for key in kept]
            assert (tops.read()[-1] > 0) == (others > 0)


TWO = [("sum", "int64"), ("max", "float64")]


def test_slicings_that_are_shared_go_back_together_where_the_second_overflows_after_rows_moved() -> None:
    def made() -> fm.MetricCollection:
        both = fm.MetricCollection(
            {name: fm.Sliced(make(), max_keys=2) for name, make in (("count", fm.Count), ("sum", fm.Sum))}
        )
        both.add([1.0, 2.0, 3.0], slot=[5, 7, 9])
        return both

    for first in ([0, 1], [1, 0]):
        metrics = made()
        before = {name: array.tobytes() for name, array in metrics.state_dict().items()}
        with pytest.raises(InvalidInputError, match="no longer be finite"):
            metrics.add([1e308, 1.7e308, 1.0, 1.0], slot=[1, 1, *first])
        assert {name: array.tobytes() for name, array in metrics.state_dict().items()} == before
        with pytest.warns(UserWarning):
            assert metrics.compute()["count"] == {5: 1, 7: 1, "other": 1}


def test_rows_that_were_evicted_or_added_to_come_back() -> None:
    table = KeyTable("keys", "slot", 2, "k")
    rows = [SlicedState(State(how, (), dtype, how), table, how, how) for how, dtype in TWO]
    step(table, rows, np.array([5, 7, 9, 9]))
    for column in ([1], [1, 5, 5, 5], [3, 1, 9], [7, 9], [5, 5]):
        before = [table.read().tolist(), *[each.read().tolist() for each in rows]]
        marks = [(each, each.mark()) for each in (table, *rows)]
        step(table, rows, np.array(column))
        assert before != [table.read().tolist(), *[each.read().tolist() for each in rows]]
        for each, mark in marks:
            each.back_to(mark)
        assert before == [table.read().tolist(), *[each.read().tolist() for each in rows]]


@pytest.mark.parametrize("flat", [False, True])
def test_tables_of_few_samples_are_added_in_place_by_any_order_of_rows_and_come_back(flat: bool) -> None:
    rng = np.random.default_rng(0)
    table = KeyTable("keys", "slot", 50, "k")
    rows = SlicedState(State("h", (2, 64), "int64", "sum"), table, "h", "h")
    expected = {key: np.zeros((2, 64), np.int64) for key in (5, 6, 7, 9, 10**6)}
    for column in ([7, 9, 7], [5, 7, 9], [9, 5, 9, 9], [6, 10**6], [10**6, 5, 5, 9, 6]):
        before = rows.read().tolist()
        label, bucket = rng.integers(0, 2, len(column)), rng.integers(0, 64, len(column))
        for again in (False, True):
            marks = [(each, each.mark()) for each in (table, rows)]
            plan = table.plan(np.array(column))
            table.accumulate(plan)
            indices = (plan.lanes, label * 64 + bucket) if flat else (plan.lanes, label, bucket)
            rows.accumulate(Directed(plan, Scattered(indices, None)))
            if not again:
                for each, mark in marks:
                    each.back_to(mark)
                assert rows.read().tolist() == before
        for place in zip(column, label.tolist(), bucket.tolist()):
            expected[place[0]][place[1:]] += 1
        assert rows.read()[:-1].tolist() == [expected[key].tolist() for key in table.read().tolist()]


def test_codes_count_the_samples_of_each_lane_once() -> None:
    table = KeyTable("keys", "slot", 2, "k")
    for column in (
        Coded(np.array([2, 0, 2, 2]), np.array(["b", "?", "c"])),
        Coded(np.array([1, 0]), np.array(["a", "c"])),
    ):
        plan = table.plan(column)
        table.accumulate(plan)
        assert plan.samples is not None
        assert plan.samples.tolist() == np.bincount(plan.lanes, minlength=len(plan.rows)).tolist()


def test_nothing_added_still_makes_room_and_floats_join_integers() -> None:
    table = KeyTable("keys", "slot", 2, "k")
    rows = SlicedState(State("sum", (), "int64", "sum"), table, "sum", "sum")
    step(table, [rows], np.array([5, 7, 7]))
    plan = table.plan(np.array([1]))
    table.accumulate(plan)
    rows.accumulate(Directed(plan, None))
    assert rows.read().tolist() == [0, 1, 2] and rows.read().dtype == np.int64
    plan = table.plan(np.array([1, 5]))
    table.accumulate(plan)
    rows.accumulate(Directed(plan, np.array([0.5, 0.25])[np.argsort(plan.lanes)]))
    assert rows.read().tolist() == [0.5, 1.25, 2.0]
    step(table, [rows], np.array([1]))
    assert rows.read().tolist() == [1.5, 1.25, 2.0]


def test_what_is_saved_is_loaded_and_leaves_the_worker_as_it_was() -> None:
    table = KeyTable("keys", "slot", 3, "k")
    rows = SlicedState(State("sum", (), "int64", "sum"), table, "sum", "sum")
    assert table.saved() == rows.saved() == {}
    step(table, [rows], np.array([9, 7, 7]))
    step(table, [rows], np.array([5, 8, 8, 8]))
    held = {table: table.saved(), rows: rows.saved()}
    assert held[table][""].tolist() == [5, 7, 8] and held[rows][""].tolist() == [1, 2, 3, 1]
    held[table][""][0] = 6  # a copy
    assert table.read().tolist() == [5, 7, 8]
    held[table][""][0] = 5
    other = KeyTable("keys", "slot", 3, "k")
    its = SlicedState(State("sum", (), "int64", "sum"), other, "sum", "sum")
    step(other, [its], np.array([1, 2]))
    other.load(held[table])
    its.check({other: held[table], its: held[rows]})
    its.load(held[rows])
    step(other, [its], np.array([6, 8]))
    assert other.read().tolist() == [5, 6, 7] and its.read().tolist() == [1, 1, 2, 5]
    other.load({})
    assert not len(other.read())


@pytest.mark.parametrize(
    "keys",
    [
        np.array([2, 1]),
        np.array([1, 1]),
        np.array([1, 2, 3, 4]),
        np.array([], np.int64),
        np.array([1.0, 2.0]),
        np.array([[1, 2]]),
        np.array([1, 2], np.int32),
    ],
    ids=str,
)
def test_keys_of_a_file_must_be_ones_that_a_worker_can_have(keys: np.ndarray) -> None:
    table = KeyTable("keys", "slot", 3, "k")
    for good in (np.array([1, 2, 3]), np.array([-4]), np.array(["a", "b"])):
        table._check({"": good}, ())
    with pytest.raises(InvalidInputError, match="keys must hold increasing integers or strings, at most 3"):
        table._check({"": keys}, ())
    rows = SlicedState(State("sum", (), "int64", "sum"), table, "sum", "sum")
    with pytest.raises(InvalidInputError, match="sum has no rows for the 2 keys of keys"):
        rows.check({table: {"": np.array([1, 2])}, rows: {}})
    with pytest.raises(InvalidInputError):
        rows.check({table: {"": np.array([1, 2])}, rows: {"": np.zeros(2, np.int64)}})


def test_integers_and_texts_are_told_apart() -> None:
    integers, texts = np.array([1, 2]), np.array(["a"])
    for keys, values, said in (
        (integers, texts, "strings, but the keys so far are integers"),
        (texts, integers, "integers, but the keys so far are strings"),
    ):
        with pytest.raises(InvalidInputError, match=f"slot holds {said}"):
            check_kind(keys, values, "slot")
    check_kind(integers[:0], texts, "slot")
    check_kind(integers, texts[:0], "slot")
    with pytest.raises(InvalidInputError, match=f"slot must hold integers below .*, not {2**63}$"):
        host_keys(np.array([1, 2**63], np.uint64), "slot")
    table = KeyTable("keys", "slot", 3, "k")
    with pytest.raises(InvalidInputError, match="holds strings"):
        table.union([{"": integers}, {"": texts}])
    coded = Coded.of(np.array(["b", "a", "c", "b"]))
    assert positions_in(np.array(["a", "b"]), coded).tolist() == [1, 0, 2, 1]
    assert positions_in(np.array([3, 5]), np.array([2, 3, 4, 5, 6])).tolist() == [2, 0, 2, 1, 2]


RANDOM = np.random.default_rng(3)


def test_statistics_of_samples_are_computed_once_for_all_columns_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(numpy_ops, "log", lambda values: called.append(len(values)) or np.log(values))
    metrics = fm.MetricCollection(
        {"all": fm.LogLoss(), **{by: fm.Sliced(fm.LogLoss(), by=by, max_keys=None) for by in ("one", "other")}}
    )
    p, y = RANDOM.random(50), RANDOM.integers(0, 2, 50)
    metrics.add(p, y, mask=RANDOM.random(50) < 0.7, one=RANDOM.integers(0, 3, 50), other=RANDOM.integers(0, 4, 50))
    assert len(called) == 1


def test_an_add_keeps_no_reference_to_its_batch() -> None:
    metric = fm.MetricCollection({by: fm.Sliced(fm.AUC(), by=by, max_keys=None) for by in ("one", "other")})
    columns = {by: RANDOM.integers(0, 3, 50) for by in ("one", "other")}
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):  # of the second there were rows before
            p = RANDOM.random(50)
            metric.add(p, RANDOM.integers(0, 2, 50), **columns)
            gone = weakref.ref(p)
            del p
            assert gone() is None
    finally:
        gc.enable()
    assert not any(state._before() for state in metric.own_states() if isinstance(state, SlicedState))


def test_rows_that_are_read_in_pieces_are_in_the_order_of_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = fm.Sliced(fm.AUC(buckets=4), by="slot", max_keys=None)
    p, y, slot = RANDOM.random(90), RANDOM.integers(0, 2, 90), RANDOM.permutation(np.arange(90) ** 2 % 61)
    metric.add(p, y, slot=slot)
    wanted = {key: np.bincount(y[slot == key], minlength=2).tolist() for key in np.unique(slot)}
    for size in (1, 100, 1 << 19):  # one row of 64 bytes, one, all of them
        monkeypatch.setattr(sliced_states, "_AT_ONCE", size)
        (rows,) = (state.read() for state in metric.own_states() if isinstance(state, SlicedState) and state.shape)
        assert rows.dtype == np.int64 and not rows[-1].any()
        assert dict(zip(wanted, rows.sum(axis=2).tolist())) == wanted
