"""A worker that cannot make its states takes part in the exchange with its error."""

from __future__ import annotations

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm import Block
from tests.fakes import Listener


def blocks():
    return [Block("b", "sum", np.array([1, 2])), Block("a", "max", np.array([0.5]))]


def test_all_states_go_in_one_call_and_come_back_in_their_order():
    listener = Listener()
    with listener.call("call", 3) as call:
        arrays = call.reduce(blocks())
    assert [array.tolist() for array in arrays] == [[1, 2], [0.5]]
    assert listener.calls == ["call"] and listener.timeouts == [3]
    assert [block.name for block in listener.blocks[0]] == ["b", "a"]


@pytest.mark.parametrize("error", [fm.StateNotFoundError("no such state"), KeyError("a"), MemoryError(), OSError(5)])
def test_a_worker_that_cannot_read_its_states_takes_part_with_its_error(error):
    def collect():
        raise error

    listener = Listener()
    with pytest.raises(type(error)), listener.call("call") as call:
        call.reduce(collect())
    assert listener.troubles == [error] and listener.blocks == []


def test_the_communicator_comes_before_util_and_util_before_the_one_that_is_set():
    first, second, third = Listener(), Listener(), Listener()
    metric = fm.Count(name="samples")
    with fm.set_communicator(third):
        metric.compute(communicator=first, util=second)
        metric.compute(util=second)
        metric.compute()
    assert [each.calls for each in (first, second, third)] == [["Count samples"]] * 3


def test_a_util_that_cannot_reduce_is_an_error_that_names_the_allowed_ones():
    with pytest.raises(fm.InvalidInputError, match=r"util is 3, which has no all_reduce\(input, mode\)"):
        fm.Count().compute(util=3)
