"""One verdict: an exchange ends the same on all ranks, or the next one says on all of them who has what.

A proxy cuts or holds back the connection of rank 1, with the frames of the second exchange on the wire.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Sequence

import pytest

from fleetmetrics.comm.frames import ACK, ANSWER, ARRIVAL, ERROR
from tests.distributed.cluster import free_ports
from tests.distributed.forks import BEFORE, crew, member, outcome, results, wait_for
from tests.distributed.kills import campaign
from tests.distributed.proxy import Cut, Edit, Hold, Message, Proxy

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]

#: What rank 0 or rank 1 has just said, and whether it still passes.
MOMENTS = {
    "the arrival passed": (ARRIVAL, True),
    "the answer did not pass": (ANSWER, False),
    "the answer passed": (ANSWER, True),
    "the ack did not pass": (ACK, False),
    "the error did not pass": (ERROR, False),
}


def breaking(moment: str, how: str, call: int = 2) -> Edit:
    kind, passes = MOMENTS[moment]
    over = []

    def edit(message: Message) -> Sequence[bytes]:
        if over or (message.call, message.kind) != (call, kind):
            return [message.data]
        over.append(message)
        first = message.data if passes else b""
        raise Hold(first) if how == "held" else Cut(how == "reset", first)

    return edit


def together(
    world: int,
    edit: Edit,
    tmp_path: Path,
    healed_at: Sequence[int] = (),
    calls: int = 4,
    channels: str = "",
    patient: Sequence[int] = (),
) -> list[list[Any]]:
    """Outcomes of some exchanges by rank, each on a channel with a name of one letter; before some the link heals.

    Args:
        patient: ranks that are still in the third exchange when the others come to the fourth.
    """
    port = free_ports(1)[0]

    def work(rank: int) -> list[Any]:
        host = BEFORE if rank == 1 else "127.0.0.1"
        comms = {name: member(rank, world, port, host, name) for name in sorted(set(channels or "a"))}
        found = []
        for call in range(1, calls + 1):
            comm = comms[channels[call - 1] if channels else "a"]
            (tmp_path / f"{rank} at {call}").touch()
            if call in healed_at:
                wait_for(tmp_path / f"healed at {call}")
            seconds = 10.0 if call in (1, healed_at[-1] if healed_at else 3) or (call == 3 and rank in patient) else 1.0
            found.append(outcome(lambda: comm.all_reduce([rank + 1, call], timeout=seconds).tolist()))  # noqa: B023
        return found

    with Proxy((BEFORE, port), ("127.0.0.1", port), edit=edit) as proxy, crew(world, work) as workers:
        for call in healed_at:
            for rank in set(range(world)).difference(patient):
                wait_for(tmp_path / f"{rank} at {call}")
            proxy.heal()
            (tmp_path / f"healed at {call}").touch()
        return results(workers)


def right(world: int, call: int) -> list[int]:
    return [world * (world + 1) // 2, world * call]


@pytest.mark.parametrize("how", ["reset", "ended", "held"])
@pytest.mark.parametrize("moment", ["the arrival passed", "the answer did not pass"])
def test_with_two_workers_a_cut_link_leaves_no_number(tmp_path: Path, moment: str, how: str) -> None:
    for found in together(2, breaking(moment, how), tmp_path, calls=2 if how == "held" else 3):
        assert found[0] == right(2, 1)
        assert all(isinstance(text, str) and "Error: " in text and "RAW" not in text for text in found[1:]), found


@pytest.mark.parametrize("how", ["reset", "ended"])
@pytest.mark.parametrize("moment", ["the answer passed", "the ack did not pass"])
def test_with_two_workers_both_get_the_error_if_only_the_answer_arrived(tmp_path: Path, moment: str, how: str) -> None:
    """Nothing can exclude it: no worker can be sure that its last message arrived."""
    first, second = together(2, breaking(moment, how), tmp_path, calls=3)
    assert first[1].startswith("CommunicatorError: rank 1 has gone away")
    if second[1] == right(2, 2):  # else the cut was faster than its reading
        assert "rank 1 may still have a result of exchange 2 (all_reduce)" in first[1]
        assert (
            "exchange 2 (all_reduce) on channel 'a', ended with a result on this rank; others may have an error"
            in second[2]
        )
    else:
        assert second[1].startswith("CommunicatorError: rank 0 has gone away")


@pytest.mark.parametrize("how", ["reset", "ended"])
def test_with_three_workers_the_errors_name_the_ranks_with_and_without_a_number(tmp_path: Path, how: str) -> None:
    first, second, third = together(3, breaking("the answer did not pass", how), tmp_path, calls=3)
    assert first[1] == third[1] == right(3, 2)
    assert second[1].startswith("CommunicatorError: rank 0 has gone away")
    assert first[2] == third[2]
    assert first[2].startswith("CommunicatorError: rank 1 has gone away")
    assert (
        "exchange 2 (all_reduce) on channel 'a', ended with a result on ranks 0, 2; rank 1 may have an error"
        in first[2]
    )


@pytest.mark.parametrize("moment", ["the arrival passed", "the answer did not pass", "the ack did not pass"])
def test_a_link_that_heals_before_the_deadline_costs_time_and_nothing_else(moment: str) -> None:
    port, held = free_ports(1)[0], threading.Event()
    stop = breaking(moment, "held")

    def edit(message: Message) -> Sequence[bytes]:
        try:
            return stop(message)
        except Hold:
            held.set()
            raise

    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port, BEFORE if rank == 1 else "127.0.0.1")
        return [outcome(lambda: comm.all_reduce([rank + 1, call], timeout=20).tolist()) for call in range(1, 5)]  # noqa: B023

    with Proxy((BEFORE, port), ("127.0.0.1", port), edit=edit) as proxy, crew(3, work) as workers:
        assert held.wait(20)
        time.sleep(0.3)
        proxy.heal()
        assert results(workers) == [[right(3, call) for call in range(1, 5)]] * 3


#: A moment in which a link is held, and who of the workers then has a result, and who an error.
PARTED = pytest.mark.parametrize(
    ("world", "moment", "results_on", "errors_on"),
    [
        (2, "the ack did not pass", "rank 1", "rank 0"),
        (3, "the answer did not pass", "ranks 0, 2", "rank 1"),
    ],
)


@PARTED
@pytest.mark.parametrize("healed_at", [3, 4])
def test_a_link_that_recovers_shows_which_workers_have_a_number_and_the_next_call_works(
    tmp_path: Path, world: int, moment: str, results_on: str, errors_on: str, healed_at: int
) -> None:
    """Also when a deadline comes between: the error names the parted workers, not only the deadline."""
    found = together(world, breaking(moment, "held"), tmp_path, [healed_at], calls=healed_at + 1)
    with_result = [int(each) for each in results_on.split(" ", 1)[1].split(", ")]
    for rank, outcomes in enumerate(found):
        if rank in with_result:
            assert outcomes[1] == right(world, 2)
        else:
            assert outcomes[1].startswith("DeadlineError: rank"), outcomes
        assert healed_at == 3 or outcomes[2].startswith("DeadlineError: rank"), outcomes
        assert outcomes[healed_at - 1].startswith(
            "AgreementError: the workers diverged at exchange 2 (all_reduce) on channel 'a': it ended with a result "
            f"on {results_on}, and with an error on {errors_on}."
        ), outcomes
        assert outcomes[healed_at] == right(world, healed_at + 1)


@PARTED
def test_if_the_link_stalls_again_during_the_report_all_get_it_at_the_next_exchange(
    tmp_path: Path, world: int, moment: str, results_on: str, errors_on: str
) -> None:
    """Rank 1 has missed its word, and so all hear it again."""
    first, again = breaking(moment, "held"), breaking("the error did not pass", "held", call=3)

    def edit(message: Message) -> Sequence[bytes]:
        return first(message) and again(message)

    found = together(world, edit, tmp_path, [3, 4], calls=5)
    told = (
        "AgreementError: the workers diverged at exchange 2 (all_reduce) on channel 'a': it ended with a result on "
        f"{results_on}, and with an error on {errors_on}."
    )
    for rank, outcomes in enumerate(found):
        assert outcomes[2].startswith("DeadlineError: rank 0" if rank == 1 else told), outcomes
        assert outcomes[3].startswith(told), outcomes
        assert outcomes[4] == right(world, 5)


@PARTED
def test_a_worker_that_gives_up_before_its_frame_arrives_makes_it_an_error_on_all(
    tmp_path: Path, world: int, moment: str, results_on: str, errors_on: str
) -> None:
    """Else the others would hear who has parted, and rank 1 only of its deadline."""
    found = together(world, breaking(moment, "held"), tmp_path, [4], calls=5, patient=[0, 2])
    for outcomes in found:
        assert outcomes[2].startswith("DeadlineError: rank 0 did not arrive"), outcomes
        assert outcomes[3].startswith("AgreementError: the workers diverged at exchange 2"), outcomes
        assert f"a result on {results_on}, and with an error on {errors_on}." in outcomes[3]
        assert outcomes[4] == right(world, 5)


@PARTED
@pytest.mark.parametrize("channels", ["aabba", "aabbab"])
def test_a_worker_that_has_parted_gets_the_error_on_the_next_channel_in_use(
    tmp_path: Path, world: int, moment: str, results_on: str, errors_on: str, channels: str
) -> None:
    """Also when a deadline on that channel comes between."""
    healed_at = len(channels) - 2
    found = together(world, breaking(moment, "held"), tmp_path, [healed_at], len(channels), channels)
    for rank, outcomes in enumerate(found):
        assert (outcomes[1] == right(world, 2)) is (str(rank) in results_on), outcomes
        assert healed_at == 3 or outcomes[2].startswith("DeadlineError: rank"), outcomes
        assert outcomes[healed_at - 1].startswith(
            "AgreementError: the workers diverged at exchange 2 (all_reduce) on channel 'a': it ended with a result "
            f"on {results_on}, and with an error on {errors_on}."
        ), outcomes
        assert outcomes[healed_at:] == [right(world, healed_at + 1), right(world, healed_at + 2)]


@pytest.mark.parametrize("how", ["reset", "ended"])
def test_a_broken_link_is_an_error_on_the_next_channel_in_use(tmp_path: Path, how: str) -> None:
    first, second, third = together(3, breaking("the answer did not pass", how), tmp_path, calls=3, channels="aab")
    assert second[1].startswith("CommunicatorError: rank 0 has gone away")
    assert first[2] == third[2]
    assert "exchange 2 (all_reduce) on channel 'a', ended with a result on ranks 0, 2; rank 1 may" in first[2]


def test_two_workers_are_together_again_after_a_link_that_was_held(tmp_path: Path) -> None:
    for outcomes in together(2, breaking("the answer did not pass", "held"), tmp_path, [3]):
        assert outcomes[1].startswith("DeadlineError: rank"), outcomes
        assert outcomes[2:] == [right(2, 3), right(2, 4)]


@pytest.mark.parametrize("what", ["kill", "cut"])
def test_random_kills_and_cuts_give_every_worker_a_named_error(what: str) -> None:
    """At full length: `make kills`."""
    found = campaign(what, 20, seed=9)
    assert found["cases"] == 20
    assert (found["wrong numbers"], found["raw errors"], found["too late"], found["splits not told"]) == (0, 0, 0, 0)
