"""What rank 0 says of those who are missing."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fleetmetrics.comm.arrivals import Arrival
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.meeting import Meeting
from fleetmetrics.comm.message import ARRIVAL, Message
from fleetmetrics.comm.roster import Roster, Worker
from fleetmetrics.comm.status import late_status, slow_text, status_of, way_out

pytestmark = pytest.mark.numpy_only

JOB: Any = Job(0, 6, run="of today", program="train.py", variables=("WORLD_SIZE", "RANK"), claimed=True)


def meeting(call: int, *arrived: int, ranks: tuple[int, ...] = ()) -> Meeting:
    """An exchange at which these ranks have arrived."""
    message = Message(ARRIVAL, 7, call, timeout=30.0, end=1e9)
    arrival = Arrival(message, "", ranks, "a channel", "auc", None, None)
    made = Meeting(message.place, arrival, JOB.world_size)
    for rank in arrived:
        made.arrive(rank, arrival, 0.0)
    return made


def roster(*connected: int) -> Roster:
    made = Roster(JOB)
    for rank in connected:
        made.enter(Worker(SimpleNamespace(), rank, b"", 0.0))  # type: ignore[arg-type]
    return made


def door(**changed: Any) -> Any:
    """Rank 0's door; ``unproven``: the ranks in whose name strangers have come."""
    known = {"address": "10.0.0.1:8500", "deaf_until": 0.0, "other_versions": "", "unproven": set(), **changed}
    return SimpleNamespace(**known, ranks_unproven=lambda: set(known["unproven"]))


def said(waiting: Meeting, who: Roster, *others: Meeting, **changed: Any) -> str:
    return status_of(waiting, [waiting, *others], who, door(**changed))


def test_each_missing_rank_has_its_state() -> None:
    who = roster(2, 3, 4)
    who.ended[5] = 9.0
    who.workers[2].called = who.workers[3].called = True
    who.other_programs[1] = "helper.py"
    text = said(meeting(9, 0), who, meeting(2, 3), meeting(3, 3))
    assert text == (
        "Of the job's 6 workers (their number is that of WORLD_SIZE), rank 1 only tried to connect from helper.py, "
        "not train.py, rank 2 connected, but did not come to this call yet, rank 3 came to exchange 3 (auc) instead, "
        "rank 4 connected, but called nothing yet, rank 5 ended; rank 0 listens at 10.0.0.1:8500"
    )


def test_rank_0_itself_is_always_connected_and_a_rank_not_seen_never_was() -> None:
    who = roster()
    assert "rank 0 connected, but called nothing yet, ranks 2 to 5 never connected;" in said(meeting(9, 1), who)
    who.rank_0_called = True
    assert "rank 0 connected, but did not come to this call yet," in said(meeting(9, 1), who)
    assert "rank 0 does not listen" in said(meeting(9, 1), who, address="")


def test_refusals_are_said_of_the_ranks_that_are_missing() -> None:
    who, waiting = roster(2, 3), meeting(9, 0, 2, 5)
    who.other_runs = {2, 4}
    text = said(waiting, who, unproven={1, 2, 3, 5})
    assert f". Rank 0 refused rank 4 of another run; this run is {JOB.title}" in text
    assert ". A process that says that it is rank 1 does not know the job's secret" in text


def test_what_keeps_workers_from_connecting_is_said_only_if_it_does() -> None:
    full, versions = "no file descriptor left", "A process that tried to connect cannot: it speaks version 3"
    texts = [
        said(meeting(9, 0), roster()),
        said(meeting(9, 0), roster(), deaf_until=5.0, other_versions="it speaks version 3"),
    ]
    assert [full in text for text in texts] == [versions in text for text in texts] == [False, True]


@pytest.mark.parametrize(
    ("arrived", "connected", "what"), [([0], [], "connect"), ([0], [1], "arrive"), ([1], [], "arrive")]
)
def test_who_is_late_did_not_connect_or_if_one_of_them_did_not_arrive(
    arrived: list[int], connected: list[int], what: str
) -> None:
    assert f" did not {what} " in late_status(meeting(9, *arrived), roster(*connected))


def test_the_first_rank_of_a_group_is_named_by_its_rank_in_the_job() -> None:
    assert slow_text(meeting(9, 2, 4, ranks=(2, 4))).startswith("rank 2 needed more than the 30 s that it has at")


def test_the_way_out_names_each_variable_once_where_the_place_is_from_the_environment() -> None:
    assert "unset WORLD_SIZE and RANK, or call compute_local()" in way_out(JOB)
    assert "unset PADDLE, or" in way_out(replace(JOB, variables=("PADDLE", "PADDLE")))
    assert not way_out(replace(JOB, claimed=False))
