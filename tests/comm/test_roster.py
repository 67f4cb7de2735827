"""Who is who at rank 0: which processes come in, which are refused with which reason, and whom a loss concerns."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from fleetmetrics.comm.handshake import NONE, OTHER_RUN, REFUSED
from fleetmetrics.comm.job import Job
from fleetmetrics.comm.roster import Refusal, Roster, Worker

pytestmark = pytest.mark.numpy_only

JOB: Any = Job(0, 4, run="of today", program="train.py", variables=("WORLD_SIZE", "RANK"))


def guest(**changed: Any) -> Any:
    """A process that has proved itself as rank 1."""
    known = {"rank": 1, "world_size": 4, "run": JOB.name, "program": "train.py", "calls": True, "rank_0": NONE}
    return SimpleNamespace(**{**known, "session": b"of rank 1", **changed})


def worker(rank: int = 1, session: bytes = b"of rank 1") -> Worker:
    return Worker(SimpleNamespace(), rank, session, 0.0)  # type: ignore[arg-type]


def refusal(roster: Roster, met: bool = False, **changed: Any) -> Refusal:
    refused = roster.refusal(guest(**changed), met)
    assert refused is not None
    return refused


def test_a_worker_that_comes_in_again_has_not_ended_and_its_earlier_connection_leaves_alone() -> None:
    roster, first, second = Roster(JOB), worker(), worker()
    roster.enter(first)
    roster.ended[1] = 5.0
    roster.enter(second)
    assert not roster.ended
    roster.leave(first)
    assert roster.workers == {1: second}
    roster.leave(second)
    assert not roster.workers


def test_rank_0_has_called_once_its_program_has() -> None:
    roster = Roster(JOB)
    roster.enter(worker())
    assert not roster.has_called(0) and not roster.has_called(1)
    roster.rank_0_called = True
    assert roster.has_called(0) and not roster.has_called(1)


def test_the_loss_of_a_worker_concerns_those_who_need_it_and_that_of_rank_0_all() -> None:
    roster = Roster(JOB)
    roster.gone[2] = "rank 2 has gone away"
    assert roster.is_broken([1, 2]) and not roster.is_broken([1, 3])
    roster.gone[0] = "rank 0 failed"
    assert roster.is_broken([1, 3])
    assert [str(roster.error_of_gone(ranks)) for ranks in ([1, 2], [1, 3])] == ["rank 2 has gone away", "rank 0 failed"]


def test_a_loss_is_an_earlier_one_for_those_who_all_know_of_it() -> None:
    roster = Roster(JOB)
    roster.gone[2] = "rank 2 has gone away: look at its log"
    roster.informed.add(0)
    assert str(roster.later_error_of_gone([0, 1, 2])) == roster.gone[2]
    roster.informed.add(1)
    assert "earlier" in str(roster.later_error_of_gone([0, 1, 2]))  # the lost one needs no word


@pytest.mark.parametrize(
    ("changed", "who", "gives_way"),
    [
        ({}, "no one", True),
        ({"calls": False}, "no one", False),
        ({"rank": 1}, "no one", False),
        ({"run": b"of yesterday"}, "no one", False),
        ({"world_size": 3}, "no one", False),
        ({}, "rank 0", False),
        ({}, "a worker", False),
    ],
)
def test_rank_0_gives_way_to_one_that_calls_in_the_same_job_while_no_other_has(
    changed: dict[str, Any], who: str, gives_way: bool
) -> None:
    roster = Roster(JOB)
    roster.enter(worker())
    roster.rank_0_called, roster.workers[1].called = who == "rank 0", who == "a worker"
    assert roster.is_in_the_way_of(guest(**{"rank": 0, **changed})) is gives_way


def test_a_worker_of_the_job_comes_in_and_comes_in_again() -> None:
    roster = Roster(JOB)
    assert roster.refusal(guest(), met=False) is None
    roster.enter(worker())
    assert roster.refusal(guest(rank_0=roster.number), met=True) is None


def test_one_of_another_run_or_program_is_sent_to_look_elsewhere_and_is_remembered() -> None:
    roster = Roster(JOB)
    assert refusal(roster, run=b"of yesterday") == Refusal(JOB.title, OTHER_RUN)
    assert refusal(roster, rank=3, program="helper.py").code == OTHER_RUN
    assert roster.other_runs == {1} and roster.other_programs == {3: "helper.py"}


@pytest.mark.parametrize("changed", [{"world_size": 3}, {"rank": 4}])
def test_a_place_that_there_is_not_fails_all(changed: dict[str, int]) -> None:
    refused = refusal(Roster(JOB), **changed)
    assert "WORLD_SIZE must be the same on all workers" in refused.text and refused.for_all


def test_one_whose_program_is_unknown_is_refused_where_rank_0_runs_a_script() -> None:
    refused = refusal(Roster(JOB), program="")
    assert "rank 0 of this run runs train.py" in refused.text and "runs no script" in refused.text
    assert refused.code == REFUSED and not refused.for_all


@pytest.mark.parametrize("calls", [True, False])
def test_a_worker_that_has_met_another_rank_0_is_told_that_it_was_restarted(calls: bool) -> None:
    refused = refusal(Roster(JOB), rank_0=b"the one before", calls=calls)
    assert "rank 0 was restarted, and this worker has met the one before" in refused.text and refused.for_all is calls


@pytest.mark.parametrize("calls", [True, False])
def test_before_all_have_met_a_second_process_of_a_rank_fails_all_if_it_calls(calls: bool) -> None:
    roster = Roster(JOB)
    roster.enter(worker())
    refused = refusal(roster, session=b"another", calls=calls)
    assert "two processes say that they are rank 1" in refused.text and refused.for_all is calls
    assert "two processes say that they are rank 0" in refusal(roster, rank=0).text


def test_later_a_second_process_is_refused_by_itself_and_reported_once_if_it_calls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    roster = Roster(JOB)
    roster.enter(worker())
    with caplog.at_level(logging.INFO, "fleetmetrics"):
        assert not refusal(roster, met=True, session=b"another", calls=False).for_all
        assert not caplog.records
        for _ in range(2):
            refused = refusal(roster, met=True, session=b"another")
            assert "another process is rank 1 of this run" in refused.text and not refused.for_all
    assert len(caplog.records) == 1 and "a second process of rank 1 was refused" in caplog.text


def test_after_a_loss_no_one_comes_in_for_the_lost_one_and_without_rank_0_no_one_at_all() -> None:
    roster = Roster(JOB)
    roster.gone[1] = "rank 1 has gone away"
    refused = refusal(roster, met=True)
    assert refused.text.startswith("rank 1 has gone away. A restarted rank 1 cannot join the others")
    assert roster.refusal(guest(rank=2), met=True) is None
    roster.gone[0] = "rank 0 failed"
    assert refusal(roster, met=True, rank=2).text == "rank 0 failed"
