"""Folds: a table with everything that folds it is closed, merged, saved and loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.folding import Folds, _packed
from fleetmetrics.records.table import Closed, Table
from tests.records.test_table import filled, kept, lists, table

pytestmark = pytest.mark.numpy_only


def holding(of: Table) -> Folds:
    return Folds(of, [])


def test_two_of_one_table_are_one_holder() -> None:
    one, other = table(), table()
    assert holding(one) == holding(one) != holding(other) and len({holding(one), holding(one), holding(other)}) == 2


# -- saved and loaded ---------------------------------------------------------------------------------------------


def test_what_is_saved_is_loaded_and_is_not_what_the_table_holds() -> None:
    for batch in (([1, 2], [0.1, 0.2]), ([1, 2], [0.1, 0.2], [0.5, 2.0])):
        one, other = holding(filled(batch)), holding(table())
        saved = one.saved()
        assert set(saved) == {"user", "score", *(["weight"] if len(batch) > 2 else [])}
        other.check({other: saved})
        other.load(saved)
        assert lists(other.table.records()) == lists(one.table.records())
        saved["score"][:] = 9
        assert lists(one.table.records())["score"] == [0.1, 0.2]
    assert holding(table()).saved() == holding(filled(([], []))).saved() == {}


def test_a_table_that_has_loaded_nothing_is_empty() -> None:
    found = holding(filled(([1], [0.1])))
    found.load({})
    assert len(found.table) == 0 and found.table.records() == {}
    assert lists(found.with_others([holding(filled(([2], [0.2])))])[0][0].records)["user"] == [2]


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
    mine = holding(table())
    with pytest.raises(InvalidInputError, match=r"mine must hold user, score, weight of equal length, not user \["):
        mine.check({mine: held})


# -- closed -------------------------------------------------------------------------------------------------------


def closed(users: Any) -> tuple[Any, Folds]:
    metric = fm.GAUC(name="it")
    if len(users):
        metric.add(np.arange(len(users)) / 7, np.arange(len(users)) % 2, user=users)
    metric.close(complete_by="user")
    (mine,) = metric.record_folds()
    return metric, mine


def test_a_closed_table_holds_something_and_folds_no_more() -> None:
    metric, mine = closed([4, 4, 5])
    assert len(mine.table) == 1 and mine.close({}, None) is mine.table.closed
    metric.reset()
    assert len(mine.table) == 0 and mine.table.closed is None


@pytest.mark.parametrize(("one", "other"), [([1, 9], [3, 1]), ([5, 9], [1, 9]), ([1, 2], [2, 3])])
def test_a_user_in_two_parts_is_found_wherever_it_is_among_the_others(one: list[int], other: list[int]) -> None:
    first, second = closed(one)[0], closed(other)[0]
    (twice,) = {*one} & {*other}
    with pytest.raises(InvalidInputError, match=f"'user' {twice} .* is in two parts that are both"):
        first.merge(second)


def test_a_closed_table_takes_no_samples_and_is_not_joined_with_an_open_one() -> None:
    metric, mine = closed([4, 4, 5])
    with pytest.raises(
        InvalidInputError, match="is closed, and takes no more samples; reset it, or add to a new metric"
    ):
        mine.table.accumulate(kept([1], [0.1]))
    open_ = fm.GAUC(name="it")
    open_.add([0.1, 0.2], [0, 1], user=[1, 1])
    for one, other in ((metric, open_), (open_, metric)):
        before = repr(one.state_dict())
        with pytest.raises(InvalidInputError, match="some parts are closed and others are not; close all of them, or"):
            one.merge(other)
        assert repr(one.state_dict()) == before
    empty = [holding(mine.table.fresh()) for _ in range(2)]
    batches, joined = mine.with_others(empty)  # those without samples are neither
    assert batches == [] and joined is not None and joined.members.tolist() == [4, 5]


def test_tables_together_hold_the_samples_of_all() -> None:
    tables = [holding(each) for each in (filled(([1], [0.1])), table(), filled(([2], [0.2]), ([3], [0.3])))]
    mine = holding(table())
    mine.table.hold(*mine.with_others(tables))
    assert lists(mine.table.records())["user"] == [1, 2, 3] and mine.table.closed is None
    found = mine.together([{mine: each.saved()} for each in tables])
    assert {name: column.tolist() for name, column in found.items()} == {"user": [1, 2, 3], "score": [0.1, 0.2, 0.3]}
    (_, one), (_, other) = closed([4, 4]), closed([5])
    both = Folds(one.table.fresh(), one.metrics)
    both.load(one.together([{one: one.saved()}, {one: other.saved()}]))
    assert both.table.closed is not None and both.table.closed.members.tolist() == [4, 5]
    assert len(both.table.closed.carries) == 1


def test_the_users_of_joined_parts_are_sorted() -> None:
    metric = closed([5, 9, 5])[0]
    metric.merge(closed([7, 1, 7])[0])
    (mine,) = metric.record_folds()
    assert mine.table.closed.members.tolist() == [1, 5, 7, 9]


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
    assert mine.table.closed is not None
    other = closed([])[1]
    other.check({other: _packed(mine.table.closed)})  # as it is
    with pytest.raises(InvalidInputError, match="closed in the checkpoint, but its folded values are malformed"):
        other.check({other: _packed(mine.table.closed._replace(**change))})


def test_what_was_closed_in_a_collection_is_computed_there() -> None:
    _, mine = closed([1, 1, 2])
    assert mine.table.closed is not None
    twice = Closed(mine.table.closed.carries * 2, mine.table.closed.members)
    with pytest.raises(InvalidInputError, match="was closed in a collection; compute the collection"):
        mine.opened(twice, [{}, {}])
