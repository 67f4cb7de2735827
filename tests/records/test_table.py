"""Tables: what is kept of every sample, joined once, and sorted."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Mapping

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.table import Closed, Kept, Records, Table, _stable_order, joined_records
from fleetmetrics.xp import numpy_ops

pytestmark = pytest.mark.numpy_only


class OnADevice:
    """A tensor that must not be waited for."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def clone(self) -> OnADevice:
        return OnADevice(self.value.copy())


class DeviceOps:
    """A namespace of such tensors."""

    @staticmethod
    def is_eager(value: Any) -> bool:
        return False


def table(order: str | None = "user", **settings: Any) -> Table:
    return Table("mine", ("user", "score", "weight"), order, None, **settings)


def kept(users: Any, scores: Any, weights: Any = None, keep: Any = None) -> Kept:
    columns = {"user": np.asarray(users), "score": np.asarray(scores, float)}
    return Kept(numpy_ops, keep, {**columns, "weight": None if weights is None else np.asarray(weights, float)})


def filled(*batches: Any, **settings: Any) -> Table:
    found = table(**settings)
    for batch in batches:
        found.accumulate(kept(*batch))
    return found


def lists(records: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if column is None else column.tolist() for name, column in records.items()}


# -- what is kept -------------------------------------------------------------------------------------------------


def test_samples_without_a_weight_count_once_next_to_weighted_ones() -> None:
    found = filled(([1, 2], [0.1, 0.2]), ([3], [0.3], [0.5]), ([4], [0.4])).records()
    assert lists(found) == {"user": [1, 2, 3, 4], "score": [0.1, 0.2, 0.3, 0.4], "weight": [1.0, 1.0, 0.5, 1.0]}
    assert filled(([1], [0.1]), ([2], [0.2])).records()["weight"] is None


def test_what_the_owner_writes_into_a_batch_later_is_not_in_the_table() -> None:
    given = kept([1, 2], [0.1, 0.2])
    found = table()
    found.accumulate(given)
    given.records["score"][:] = 7
    assert lists(found.records())["score"] == [0.1, 0.2]


def test_what_the_owner_writes_into_a_tensor_or_a_mask_later_is_not_in_the_table() -> None:
    users, score, keep = np.array([1, 2]), OnADevice(np.array([0.1, 0.2])), np.array([True, False])
    found = table()
    found.accumulate(Kept(DeviceOps, keep, {"user": users, "score": score, "weight": None}))
    users[:], score.value[:], keep[:] = 7, 7.0, True
    ((_, mask, records),) = found.batches
    assert mask.tolist() == [True, False] and records["user"].tolist() == [1, 2]
    assert records["score"].value.tolist() == [0.1, 0.2] and records["weight"] is None


def test_batches_with_tensors_are_one_piece_and_those_on_the_host_as_many_as_they_fill() -> None:
    found = filled(([1, 2], [0.1, 0.2]), ([3], [0.3]), ([4, 5], [0.4, 0.5]), ([6], [0.6]))
    assert [piece["user"].tolist() for piece in found.pieces(3)] == [[1, 2, 3], [4, 5, 6]]
    assert [piece["user"].tolist() for piece in found.pieces(1)] == [[1, 2], [3], [4, 5], [6]]
    found.batches.append(kept([7, 8], [0.7, 0.8], keep=np.array([True, False])))
    assert found.batches[-1].xp is numpy_ops
    (whole,) = found.pieces(1)
    assert whole["user"].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_a_copy_of_a_table_has_everything_on_the_host_without_what_does_not_count() -> None:
    found = table()
    found.batches.append(kept([7, 8], [0.7, 0.8], keep=np.array([True, False])))
    for other in (pickle.loads(pickle.dumps(found)), copy.copy(found)):
        assert [(each.xp, lists(each.records)["user"]) for each in other.batches] == [(None, [7])]


def test_what_does_not_count_is_not_kept_and_integers_take_few_bytes() -> None:
    found = filled(([1, 200, 3], [0.1, 0.2, 0.3], [1.0, 2.0, 3.0], np.array([True, False, True]))).records()
    assert lists(found) == {"user": [1, 3], "score": [0.1, 0.3], "weight": [1.0, 3.0]}
    assert found["user"].dtype == np.int8


def test_batches_are_joined_once() -> None:
    found = filled(([1, 2], [0.1, 0.2]), ([3], [0.3]))
    assert len(found) == 2
    found.records()
    assert len(found) == 1


def test_what_is_computed_of_records_is_computed_once() -> None:
    calls: list[Records] = []
    records = filled(([1], [0.1])).records()
    assert [records.cached("it", lambda each: calls.append(each) or 5) for _ in range(2)] == [5, 5]  # type: ignore[func-returns-value]
    assert calls == [records]


def test_records_without_a_column_of_numbers_have_no_samples() -> None:
    assert Records({}).length == Records({"weight": None}).length == 0
    assert Records({"weight": None, "score": np.zeros(3)}).length == 3


def test_a_closed_table_is_not_empty_until_it_is_reset() -> None:
    mine = table()
    assert not len(mine)
    mine.hold([], Closed([], []))
    assert len(mine) == 1
    mine.reset()
    assert not len(mine) and mine.closed is None


def test_what_was_appended_after_a_mark_is_forgotten() -> None:
    found = filled(([1], [0.1]))
    mark = found.mark()
    found.accumulate(kept([2], [0.2]))
    found.accumulate(kept([3], [0.3]))
    found.back_to(mark)
    assert lists(found.records())["user"] == [1]


@pytest.mark.parametrize("users", [["a", "b"], np.empty(0, "U1")])
def test_texts_mixed_with_numbers_are_an_error_unless_one_of_them_is_empty(users: Any) -> None:
    parts = [kept([1, 2], [0.1, 0.2]).records, kept(users, [0.3] * len(users)).records]
    if len(users):
        with pytest.raises(InvalidInputError, match="mine: user holds strings in some batches and numbers in others"):
            joined_records("mine", parts)
    else:
        found = joined_records("mine", parts)
        assert found["user"].tolist() == [1, 2] and found["user"].dtype.kind == "i"


# -- sorted -------------------------------------------------------------------------------------------------------


def test_records_are_sorted_by_the_order_and_equal_keys_stay_as_they_came() -> None:
    rng = np.random.default_rng(0)
    for users in (rng.integers(0, 9, 500), rng.integers(0, 9, 500).astype(str), rng.integers(0, 9, 500) / 8):
        found = filled((users, np.arange(500))).prepared()
        order = np.argsort(users, kind="stable")
        assert found["user"].tolist() == users[order].tolist() and found["score"].tolist() == order.tolist()


def test_integers_of_any_range_are_sorted_and_equal_ones_stay_as_they_came() -> None:
    rng = np.random.default_rng(0)
    for low in (-(2**63), -(2**61), 0, 2**56 - 3, 2**63 - 2**20):
        for spread in (5, 2**20 - 1, 2**56, 2**60, 2**63 - 1, 2**64 - 1):
            high = min(low + spread, 2**63 - 1)
            keys = rng.permutation(np.repeat(np.append(rng.integers(low, high, 30, np.int64, True), [low, high]), 2))
            assert _stable_order(keys).tolist() == np.argsort(keys, kind="stable").tolist()
    keys = np.array([2**64 - 1, 0, 2**63, 2**63 - 1], np.uint64)
    assert _stable_order(keys).tolist() == [1, 3, 2, 0]


def test_large_integers_of_two_kinds_join_as_integers() -> None:
    large, small = np.array([2**53 + 1], np.uint64), np.array([-1], np.int64)
    users = joined_records("mine", [kept(large, [0.1]).records, kept(small, [0.2]).records])["user"]
    assert users.tolist() == [2**53 + 1, -1] and users.dtype == np.int64


def test_records_that_are_sorted_already_are_left_as_they_are() -> None:
    for users in ([1, 1, 2, 2, 3], [4]):
        records = filled((users, np.arange(len(users)))).records()
        assert table().sorted(records) is records
    records = filled(([2, 1], [0.1, 0.2])).records()
    assert table(order=None).sorted(records) is records


def test_a_table_that_prepares_its_records_does_not_only_sort_them() -> None:
    doubled = table(prepare=lambda records: Records({**records, "score": records["score"] * 2}))
    assert table().only_sorts and not doubled.only_sorts and not doubled.fresh().only_sorts
    doubled.accumulate(kept([2, 1], [0.1, 0.2]))
    assert lists(doubled.prepared())["score"] == [0.2, 0.4]
    assert table().prepared() == doubled.fresh().prepared() == {}


def test_tables_with_other_keys_orders_or_columns_do_not_replace_each_other() -> None:
    columns = ("user", "score")
    given = [(columns, "user", None), (columns, "user", "cut"), (columns, None, None), (("user",), "user", None)]
    assert len({Table("mine", *each).kind for each in given}) == 4


def test_pickles_and_copies_have_the_samples() -> None:
    metric = fm.GAUC()
    metric.add([0.1, 0.2], [0, 1], user=[1, 1])
    metric.compute()
    for other in (pickle.loads(pickle.dumps(metric.table)), copy.copy(metric.table)):
        assert other.records()["user"].tolist() == [1, 1]
