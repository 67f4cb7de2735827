"""One verdict: an exchange ends the same on all ranks, or the next one says on all of them who has what.

A proxy cuts or holds back the connection of rank 1, with the messages of the second exchange on the wire.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Sequence

import pytest

from fleetmetrics.comm.message import ANSWER, ARRIVAL, ERROR
from tests.cover import thorough
from tests.distributed.cluster import AT_ONCE, free_ports
from tests.distributed.forks import BEFORE, crew, member, outcome, results, run, wait_for
from tests.distributed.kills import campaign
from tests.distributed.proxy import Cut, Edit, Hold, Message, Proxy

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]

#: What rank 0 or rank 1 has just said, and whether it still passes.
MOMENTS = {
    "the arrival passed": (ARRIVAL, True),
    "the answer did not pass": (ANSWER, False),
    "the answer passed": (ANSWER, True),
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


@pytest.mark.parametrize("how", ["reset", "ended"])
@pytest.mark.parametrize("moment", ["the arrival passed", "the answer did not pass", "the answer passed"])
@pytest.mark.parametrize("world", [3, *thorough(2)])
def test_after_a_cut_whoever_has_a_number_hears_who_may_have_an_error(
    tmp_path: Path, world: int, moment: str, how: str
) -> None:
    """Nothing can exclude it: no worker can be sure that its last message arrived."""
    found = together(world, breaking(moment, how), tmp_path, calls=3)
    others = [outcomes for rank, outcomes in enumerate(found) if rank != 1]
    assert [outcomes[0] for outcomes in found] == [right(world, 1)] * world
    assert found[1][1] == right(world, 2) or found[1][1].startswith("CommunicatorError: rank 0 has gone away"), found
    assert "rank 0 has gone away" in found[1][2]
    for text in [outcomes[2] for outcomes in others]:
        assert text == others[0][2] and "rank 1 has gone away" in text
    if others[0][1] == right(world, 2):
        results_on = "ranks 0, 2" if world > 2 else "rank 0"
        assert others[0][2].endswith(
            f"The previous exchange, exchange 2 (all_reduce), ended with a result on {results_on}; rank 1 may have an "
            "error instead"
        )
    assert all(outcomes[1] == others[0][1] for outcomes in others), found


def test_a_worker_hears_that_its_number_may_be_the_only_one_if_rank_0_has_ended(tmp_path: Path) -> None:
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        comm = member(rank, 2, port)
        found = [comm.all_reduce([rank + 1, 1], timeout=20).tolist()]
        if rank:
            (tmp_path / "has it").touch()
            found += [outcome(lambda: comm.barrier(timeout=20)) for _ in range(2)]
        else:
            wait_for(tmp_path / "has it")
        return found

    _, (number, *texts) = run(2, work)
    assert number == right(2, 1)
    for text in texts:
        assert "rank 0 has gone away" in text
        assert text.endswith("Exchange 1, the last with a result on this rank, may have ended with an error on others")


@pytest.mark.parametrize("moment", ["the arrival passed", "the answer did not pass"])
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
        assert held.wait(AT_ONCE)
        time.sleep(0.3)
        proxy.heal()
        assert results(workers) == [[right(3, call) for call in range(1, 5)]] * 3


#: Who has a result if the answer to rank 1 is held back.
RESULTS_ON = {2: "rank 0", 3: "ranks 0, 2"}
PARTED = pytest.mark.parametrize("world", [3, *thorough(2)])


def diverged(results_on: str) -> str:
    return (
        f"AgreementError: the workers diverged at exchange 2 (all_reduce): it ended with a result on {results_on}, and "
        "with an error on rank 1."
    )


@PARTED
@pytest.mark.parametrize("healed_at", [3, 4])
def test_a_link_that_recovers_shows_which_workers_have_a_number_and_the_next_call_works(
    tmp_path: Path, world: int, healed_at: int
) -> None:
    """Also when a deadline comes between: the error names the parted workers, not only the deadline."""
    found = together(world, breaking("the answer did not pass", "held"), tmp_path, [healed_at], calls=healed_at + 1)
    for rank, outcomes in enumerate(found):
        if rank == 1:
            assert outcomes[1].startswith("DeadlineError: rank 0 did not answer within 1 s"), outcomes
        else:
            assert outcomes[1] == right(world, 2)
        assert healed_at == 3 or outcomes[2].startswith("DeadlineError: rank"), outcomes
        assert outcomes[healed_at - 1].startswith(diverged(RESULTS_ON[world])), outcomes
        assert outcomes[healed_at] == right(world, healed_at + 1)


@PARTED
def test_if_the_link_stalls_again_during_the_report_all_get_it_at_the_next_exchange(tmp_path: Path, world: int) -> None:
    """Rank 1 has missed its word, and so all hear it again."""
    first, again = (
        breaking("the answer did not pass", "held"),
        breaking("the error did not pass", "held", call=3),
    )

    def edit(message: Message) -> Sequence[bytes]:
        return first(message) and again(message)

    found = together(world, edit, tmp_path, [3, 4], calls=5)
    for rank, outcomes in enumerate(found):
        assert outcomes[2].startswith("DeadlineError: rank 0" if rank == 1 else diverged(RESULTS_ON[world])), outcomes
        assert outcomes[3].startswith(diverged(RESULTS_ON[world])), outcomes
        assert outcomes[4] == right(world, 5)


@PARTED
def test_a_worker_that_gives_up_before_its_message_arrives_makes_it_an_error_on_all(tmp_path: Path, world: int) -> None:
    found = together(world, breaking("the answer did not pass", "held"), tmp_path, [4], calls=5, patient=[0, 2])
    for rank, outcomes in enumerate(found):
        late = ("DeadlineError: rank 0",)  # what the link brings together, rank 0 reads before it decides
        assert outcomes[2].startswith(late if rank == 1 else (*late, diverged(RESULTS_ON[world]))), outcomes
        assert outcomes[3].startswith(diverged(RESULTS_ON[world])), outcomes
        assert outcomes[4] == right(world, 5)


@PARTED
@pytest.mark.parametrize("channels", ["aabba", "aabbab"])
def test_a_worker_that_has_parted_gets_the_error_on_the_next_channel_in_use(
    tmp_path: Path, world: int, channels: str
) -> None:
    """Also when a deadline on that channel comes between."""
    healed_at = len(channels) - 2
    edit = breaking("the answer did not pass", "held")
    found = together(world, edit, tmp_path, [healed_at], len(channels), channels)
    for rank, outcomes in enumerate(found):
        assert (outcomes[1] == right(world, 2)) is (rank != 1), outcomes
        assert healed_at == 3 or outcomes[2].startswith("DeadlineError: rank"), outcomes
        assert outcomes[healed_at - 1].startswith(diverged(RESULTS_ON[world])), outcomes
        assert outcomes[healed_at:] == [right(world, healed_at + 1), right(world, healed_at + 2)]


@pytest.mark.parametrize("how", ["reset", "ended"])
def test_a_broken_link_is_an_error_on_the_next_channel_in_use(tmp_path: Path, how: str) -> None:
    first, second, third = together(3, breaking("the answer did not pass", how), tmp_path, calls=3, channels="aab")
    assert second[1].startswith("CommunicatorError: rank 0 has gone away")
    assert first[2] == third[2]
    assert "exchange 2 (all_reduce), ended with a result on ranks 0, 2; rank 1 may have an error instead" in first[2]


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["kill", "cut"])
def test_random_kills_and_cuts_give_every_worker_a_named_error(what: str) -> None:
    """At full length: `make kills`."""
    found = campaign(what, 20, seed=9)
    assert found["cases"] == 20
    assert (found["wrong numbers"], found["raw errors"], found["too late"], found["splits not told"]) == (0, 0, 0, 0)
