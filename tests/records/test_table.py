"""Tables: what is kept of every sample, joined once, sorted, closed, saved and loaded."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Mapping

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.table import Closed, Kept, Records, Table, _packed, joined_records
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


def test_samples_without_a_weight_count_once_beside_those_that_have_one() -> None:
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
    ((_, mask, records),) = found._batches
    assert mask.tolist() == [True, False] and records["user"].tolist() == [1, 2]
    assert records["score"].value.tolist() == [0.1, 0.2] and records["weight"] is None


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


def test_what_was_appended_after_a_mark_is_forgotten() -> None:
    found = filled(([1], [0.1]))
    mark = found.mark()
    found.accumulate(kept([2], [0.2]))
    found.accumulate(kept([3], [0.3]))
    found.back_to(mark)
    assert lists(found.records())["user"] == [1]


@pytest.mark.parametrize("users", [["a", "b"], np.empty(0, "U1")])
def test_texts_beside_numbers_are_an_error_unless_one_of_them_is_empty(users: Any) -> None:
    parts = [kept([1, 2], [0.1, 0.2]).records, kept(users, [0.3] * len(users)).records]
    if len(users):
        with pytest.raises(InvalidInputError, match="mine: user holds texts in some batches and numbers in others"):
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


# -- saved and loaded ---------------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded_and_is_not_what_the_table_holds() -> None:
    for batch in (([1, 2], [0.1, 0.2]), ([1, 2], [0.1, 0.2], [0.5, 2.0])):
        one, other = filled(batch), table()
        saved = one.saved()
        assert set(saved) == {"user", "score", *(["weight"] if len(batch) > 2 else [])}
        other.check({other: saved})
        other.load(saved)
        assert lists(other.records()) == lists(one.records())
        saved["score"][:] = 9
        assert lists(one.records())["score"] == [0.1, 0.2]
    assert table().saved() == filled(([], [])).saved() == {}


def test_a_table_that_has_loaded_nothing_is_empty() -> None:
    found = filled(([1], [0.1]))
    found.load({})
    assert len(found) == 0 and found.records() == {}
    assert lists(found.with_others([filled(([2], [0.2]))])[0][0].records)["user"] == [2]


@pytest.mark.parametrize(
    "held",
    [
        {"user": np.zeros(2), "score": np.zeros(3)},
        {"user": np.zeros((2, 1)), "score": np.zeros((2, 1))},
        {"user": np.zeros(2), "age": np.zeros(2)},
        {"user": np.array(1)},
    ],
)
def test_columns_of_a_checkpoint_that_do_not_fit_are_an_error(held: dict[str, np.ndarray]) -> None:
    mine = table()
    with pytest.raises(InvalidInputError, match=r"mine must hold user, score, weight of equal length, not user \["):
        mine.check({mine: held})


def test_pickles_and_copies_have_the_samples_and_no_metrics() -> None:
    metric = fm.GAUC()
    metric.add([0.1, 0.2], [0, 1], user=[1, 1])
    (mine,) = metric._tables()
    metric.compute()
    assert mine.metrics
    for other in (pickle.loads(pickle.dumps(mine)), copy.copy(mine)):
        assert other.metrics == () and other.records()["user"].tolist() == [1, 1]


# -- closed -------------------------------------------------------------------------------------------------------


def closed(users: Any) -> tuple[Any, Table]:
    metric = fm.GAUC(name="it")
    if len(users):
        metric.add(np.arange(len(users)) / 7, np.arange(len(users)) % 2, user=users)
    metric.close(complete_by="user")
    (mine,) = metric._tables()
    return metric, mine


def test_a_closed_table_holds_something_and_folds_no_more() -> None:
    metric, mine = closed([4, 4, 5])
    assert len(mine) == 1 and mine.folded({}, None) is mine.closed
    metric.reset()
    assert len(mine) == 0 and mine.closed is None


@pytest.mark.parametrize(("one", "other"), [([1, 9], [3, 1]), ([5, 9], [1, 9]), ([1, 2], [2, 3])])
def test_a_user_in_two_parts_is_found_wherever_it_is_among_the_others(one: list[int], other: list[int]) -> None:
    first, second = closed(one)[0], closed(other)[0]
    (twice,) = {*one} & {*other}
    with pytest.raises(InvalidInputError, match=f"1 values of 'user' are in two parts .*, such as {twice} "):
        first.merge(second)


def test_a_closed_table_takes_no_samples_and_is_not_joined_with_an_open_one() -> None:
    metric, mine = closed([4, 4, 5])
    with pytest.raises(InvalidInputError, match="is closed, and takes no more samples; reset it, or add to a new one"):
        mine.accumulate(kept([1], [0.1]))
    open_ = fm.GAUC(name="it")
    open_.add([0.1, 0.2], [0, 1], user=[1, 1])
    for one, other in ((metric, open_), (open_, metric)):
        before = repr(one.state_dict())
        with pytest.raises(InvalidInputError, match="some parts are closed and others are not; close all of them, or"):
            one.merge(other)
        assert repr(one.state_dict()) == before
    batches, joined = mine.with_others([mine.fresh(), mine.fresh()])  # those without samples are neither
    assert batches == [] and joined is not None and joined.members.tolist() == [4, 5]


def test_tables_together_hold_the_samples_of_all() -> None:
    tables = [filled(([1], [0.1])), table(), filled(([2], [0.2]), ([3], [0.3]))]
    mine = table()
    mine.hold(*mine.with_others(tables))
    assert lists(mine.records())["user"] == [1, 2, 3] and mine.closed is None
    found = mine.together([{mine: each.saved()} for each in tables])
    assert {name: column.tolist() for name, column in found.items()} == {"user": [1, 2, 3], "score": [0.1, 0.2, 0.3]}
    (_, one), (_, other) = closed([4, 4]), closed([5])
    both = one.fresh()
    both.metrics = one.metrics
    both.load(one.together([{one: one.saved()}, {one: other.saved()}]))
    assert both.closed is not None and both.closed.members.tolist() == [4, 5]
    assert len(both.closed.carries) == 1


def test_the_users_of_joined_parts_are_sorted() -> None:
    metric = closed([5, 9, 5])[0]
    metric.merge(closed([7, 1, 7])[0])
    (mine,) = metric._tables()
    assert mine.closed.members.tolist() == [1, 5, 7, 9]


@pytest.mark.parametrize(
    "change",
    [
        {"members": np.array([1.0, 2.0])},
        {"members": np.array([[1], [2]])},
        {"members": np.array([1, 2], np.int32)},
        {"members": np.array([2, 1])},
        {"members": np.array([1, 1])},
        {"carries": []},
        {"carries": [{}]},
        {"carries": [[]]},
        {"carries": [{}, {}]},
    ],
    ids=repr,
)
def test_a_closed_table_of_a_checkpoint_that_is_malformed_is_an_error(change: dict[str, Any]) -> None:
    _, mine = closed([1, 1, 2])
    assert mine.closed is not None
    other = closed([])[1]
    other.check({other: _packed(mine.closed)})  # as it is
    with pytest.raises(InvalidInputError, match="closed in the checkpoint, and what it was folded into is malformed"):
        other.check({other: _packed(mine.closed._replace(**change))})


def test_what_was_closed_in_a_collection_is_computed_there() -> None:
    _, mine = closed([1, 1, 2])
    assert mine.closed is not None
    twice = Closed(mine.closed.carries * 2, mine.closed.members)
    with pytest.raises(InvalidInputError, match="was closed in a collection; compute that"):
        mine.opened(twice, [{}, {}])
