"""Which workers a group holds, and what is no group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm import SocketCommunicator
from fleetmetrics.comm.groups import copies_of, ranks_of
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import InvalidInputError

pytestmark = pytest.mark.numpy_only

ALL = "10.0.0.1:8500,10.0.0.2:8500,10.0.0.3:8500,10.0.0.4:8500"


class Topology:
    """Paddle's, of 2 x 2 x 2 workers: data, sharding and model, the last of which changes fastest."""

    names = ("data", "pipe", "sharding", "sep", "model")
    shape = (2, 1, 2, 1, 2)

    def topology(self) -> Topology:
        return self

    def world_size(self) -> int:
        return int(np.prod(self.shape))

    def get_hybrid_group_names(self) -> list[str]:
        return list(self.names)

    def get_fused_ranks(self, axes: list[str]) -> list[list[int]]:
        table = np.arange(self.world_size()).reshape(self.shape)
        front = [self.names.index(name) for name in axes]
        rest = [place for place in range(len(self.shape)) if place not in front]
        size = int(np.prod([self.shape[place] for place in front]))
        return table.transpose(*rest, *front).reshape(-1, size).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "group",
    [[1, 3], (3, 1), {1, 3}, range(1, 4, 2), np.array([3, 1]), SimpleNamespace(ranks=[1, 3], id=7), [np.int64(1), 3]],
)
def test_a_group_is_a_list_of_ranks_or_a_group_of_paddles(group: Any) -> None:
    assert ranks_of(group, 1, 4) == (1, 3)


def test_of_a_topology_it_is_the_workers_that_see_other_samples_in_the_order_in_which_samplers_deal() -> None:
    assert ranks_of(Topology(), 3, 8) == (1, 3, 5, 7)
    assert ranks_of(Topology(), 6, 8) == (0, 2, 4, 6)
    assert copies_of(Topology(), 6, 8) == (6, 7)
    swapped = Topology()
    swapped.names = ("sharding", "pipe", "data", "sep", "model")
    assert ranks_of(swapped, 6, 8) == (0, 4, 2, 6)


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (5, r"group is 5; it must be a Group of paddle.distributed.new_group, a list of ranks, fleet.get_hybrid"),
        ("01", "group is '01'; it must be a Group"),
        ([0, True], r"group is \[0, True\]; it must be"),
        ([0, 1.0], r"group is \[0, 1.0\]; it must be"),
        ({0: 1}, r"group is \{0: 1\}; it must be"),
        (SimpleNamespace(ranks=None), "it must be a Group"),
        ([], "group is empty; it must be .* with at least one rank"),
        ([1, 2, 2, 1, 0], r"group holds ranks 1, 2 more than once; name each rank once"),
        ([1, 4, 9], r"group holds ranks 4, 9, but this job has the ranks 0 to 3"),
        ([-1, 1], r"group holds rank -1, but this job has the ranks 0 to 3"),
        (
            [0, 2],
            r"group holds ranks 0, 2, but this worker is rank 1, which is not in it; call this on the members",
        ),
        (Topology(), "group is a topology of 8 workers, but the job has 4"),
    ],
)
def test_an_invalid_group_is_an_error_with_the_argument_the_value_and_the_allowed_groups(group: Any, text: str) -> None:
    channel = SocketCommunicator(Job(1, 4, endpoints=ALL, secret="of this test"))
    with pytest.raises(InvalidInputError, match=text):
        channel.among(group)
    channel.close()


@pytest.mark.parametrize("use", ["compute", "sum", "save", "load", "BaseMetric", "Evaluator"])
def test_every_call_with_a_group_refuses_an_invalid_one(use: str, tmp_path: Any) -> None:
    from fleetmetrics.evaluator import Evaluator

    class Records(fm.BaseMetric):
        compute_metric = None

    calls = {
        "compute": lambda: fm.Accuracy().compute(group=[0, 1]),
        "sum": lambda: fm.sum([1], group=[0, 1]),
        "save": lambda: fm.save(tmp_path / "file", fm.Accuracy(), group=[0, 1]),
        "load": lambda: fm.load(tmp_path / "file", fm.Accuracy(), group=[0, 1]),
        "BaseMetric": lambda: Records().compute(group=[0, 1]),
        "Evaluator": lambda: Evaluator([]).evaluate(group=[0, 1]),
    }
    with pytest.raises(InvalidInputError, match="group holds rank 1, but this job has rank 0 alone"):
        calls[use]()


def test_a_group_of_all_workers_is_the_whole_job() -> None:
    channel = SocketCommunicator(Job(1, 4, endpoints=ALL, secret="of this test"))
    assert channel.among([3, 1, 2, 0]) is channel is channel.among(None)
    channel.close()
    assert fm.sum([3], group=[0]) == [3]


def test_the_same_workers_have_the_same_channel_until_it_is_closed() -> None:
    channel = SocketCommunicator(Job(1, 4, endpoints=ALL, secret="of this test"))
    group = channel.among([1, 3])
    assert group is channel.among((3, 1)) and (group.rank, group.world_size) == (0, 2)
    with pytest.raises(InvalidInputError, match="communicator already belongs to the group of ranks 1, 3"):
        group.among([1])
    channel.close()
    with pytest.raises(fm.CommunicatorError, match="closed"):
        group.barrier()


def test_a_communicator_without_groups_says_so() -> None:
    class Own(fm.Communicator):
        rank, world_size = 0, 3

    class Util:
        def all_reduce(self, input: Any, mode: str) -> Any:
            raise AssertionError("nothing may be sent")

    with pytest.raises(InvalidInputError, match=r"group is \[0, 2\], and Own has no groups; leave out group"):
        Own().among([0, 2])
    with pytest.raises(InvalidInputError, match="util reaches all workers; leave one of them out"):
        fm.sum([1], util=Util(), group=[0])
