"""Which workers a group holds, and what is no group."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm import SocketCommunicator
from fleetmetrics.comm.finding import listen
from fleetmetrics.comm.groups import copies_of, ranks_of
from fleetmetrics.comm.job import Job
from fleetmetrics.errors import InvalidInputError, NoChannelError
from tests.distributed.cluster import free_ports

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


# -- where the workers of a group meet --------------------------------------------------------------------


def test_groups_have_names_and_ports_of_their_own_on_the_machine_of_their_first_rank() -> None:
    whole = Job(2, 4, endpoints=ALL, bind="10.0.0.1")
    groups = [whole.among(ranks) for ranks in ([2, 3], [0, 2], [1, 2], [0, 2, 3])]
    assert len({whole.name, *(group.name for group in groups)}) == 5
    assert [group.candidates()[0][0] for group in groups] == ["10.0.0.3", "10.0.0.1", "10.0.0.2", "10.0.0.1"]
    assert [(group.rank, group.world_size) for group in groups] == [(0, 2), (1, 2), (1, 2), (1, 3)]
    assert [group.bind for group in groups] == ["", "10.0.0.1", "", "10.0.0.1"]
    assert "the group of ranks 2, 3" in groups[0].title
    assert not any(group.claimed for group in groups)


def test_the_members_of_a_group_agree_where_it_meets() -> None:
    one, two = (Job(rank, 4, endpoints=ALL).among([1, 3]) for rank in (1, 3))
    assert one.name == two.name and one.candidates() == two.candidates() and one.mark == two.mark


def test_the_name_of_a_whole_job_does_not_change() -> None:
    """Workers of an earlier version meet those of this one."""
    job = Job(0, 2, endpoints="10.0.0.1:8500,10.0.0.2:8500")
    assert job.name.hex().startswith("77409735d010b18b")


@pytest.mark.parametrize("where", [{"endpoint": "10.0.0.1:9"}, {"master": "10.0.0.1:9"}, {"host": "node1"}])
def test_a_group_whose_first_rank_is_on_an_unknown_machine_says_what_to_set(where: dict[str, str]) -> None:
    job = Job(2, 4, **where)
    assert job.among([0, 2]).candidates()[0][0] == job.candidates()[0][0]
    with pytest.raises(
        NoChannelError, match=r"rank 1 is the first of the group of ranks 1, 2, .* PADDLE_TRAINER_ENDPOIN"
    ):
        job.among([1, 2])


@pytest.mark.parametrize("where", [{"endpoint": "127.0.0.1:9"}, {"master": "localhost:9"}, {"host": "127.0.0.1"}])
def test_on_one_machine_every_rank_may_come_first(where: dict[str, str]) -> None:
    job = Job(2, 4, **where)
    assert job.among([1, 2]).candidates()[0][0] == job.candidates()[0][0]


def test_a_group_takes_no_port_that_the_environment_promises_to_others() -> None:
    """Also where the whole job may: with parameter servers its first place is its own endpoint."""
    port = free_ports(1)[0]
    whole = Job(0, 3, endpoints="127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", collective=False, secret="of this test")
    group = whole.among([0, 2])
    promised = replace(whole, reserved=frozenset({group.candidates()[0][1], port})).among([0, 2])
    listener = listen(promised)
    assert listener.getsockname()[1] == group.candidates()[1][1]
    listener.close()
