"""Two levels: the workers of a host bring their states by way of a leader, and nothing else changes for anybody.

Hosts are simulated: the endpoints of their workers have addresses of their own, 127.0.0.1, 127.0.0.2 and so on.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Sequence

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm import SocketCommunicator, frames, hosts, hub, star
from fleetmetrics.comm.hosts import Follower, Leader
from fleetmetrics.numbers import combine
from tests.distributed.cluster import AT_ONCE, SLACK, free_ports
from tests.distributed.forks import crew, member, outcome, results, run, timed, wait_for
from tests.distributed.kills import campaign
from tests.distributed.test_threads import side_by_side

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]

#: By rank on which host a worker is: ranks of a host are not neighbors, and one host has one worker.
MIXED = (1, 2, 3, 2, 1, 2, 4, 3)
#: Rank 0 and rank 1; a leader, rank 2, and its followers.
SMALL = (1, 1, 2, 2, 2)
LEADER, FOLLOWER = 2, 3


@pytest.fixture(autouse=True)
def two_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETMETRICS_LEVELS", "2")


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def worker(rank: int, port: int, places: Sequence[int] = SMALL, **options: Any) -> SocketCommunicator:
    endpoints = ",".join(f"127.0.0.{place}:{7000 + each}" for each, place in enumerate(places))
    return member(rank, len(places), port, endpoints=endpoints, **options)


def bundles() -> list[int]:
    """In a worker: by leader the bundles of which rank 0 makes its answers, as they come."""
    seen: list[int] = []
    take = hub.Hub._take_bundle

    def counted(self: Any, meeting: Any, peer: Any, frame: Any) -> None:
        take(self, meeting, peer, frame)
        if peer.rank in meeting.bundled:
            seen.append(peer.rank)

    hub.Hub._take_bundle = counted  # type: ignore[method-assign]
    return seen


def met(comm: SocketCommunicator) -> None:
    """Two exchanges: rank 0 introduces the workers of a host in the first one, and in the second they meet."""
    for _ in range(2):
        comm.barrier(timeout=20)


def arrays_of(rank: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rank)
    return [
        rng.integers(-5, 5, 200),
        rng.integers(-(2**59), 2**59, 3),
        rng.standard_normal(300) * 10.0 ** rng.integers(-20, 20, 300),
        np.array([1e100, 1.0, -1e100, 5e-324])[[rank % 4, (rank + 1) % 4]],
        np.array([-0.0, -0.0 if rank else 0.0, 0.1]),
        np.array([1e308, -1e308])[[rank % 2]],
        np.array([np.nan if rank == 3 else 1.0, np.inf if rank == 5 else 0.5, -np.inf if rank == 2 else 2.0]),
    ]


def test_two_levels_have_the_bits_of_one(port: int) -> None:
    def work(rank: int) -> Any:
        seen, comm = bundles(), worker(rank, port, MIXED)
        met(comm)
        found = [
            [comm.all_reduce(array, how, timeout=20) for how in ("sum", "max", "min")] for array in arrays_of(rank)
        ]
        return found, seen

    given = [arrays_of(rank) for rank in range(len(MIXED))]
    expected = [[combine(how, each) for how in ("sum", "max", "min")] for each in map(list, zip(*given))]
    answers = run(len(MIXED), work)
    for found, _ in answers:
        for theirs, ours in zip(found, expected):
            assert [one.tobytes() for one in theirs] == [one.tobytes() for one in ours]
    # in the second barrier, and in all reductions but two sums: one is not finite, and a part of the other is not
    assert answers[0][1].count(1) == 1 + 3 * 7 - 2


def test_metrics_and_records_have_the_values_of_one_level(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    scores, labels = rng.random((len(MIXED), 40)), rng.integers(0, 2, (len(MIXED), 40))

    def work(rank: int) -> Any:
        seen, comm = bundles(), worker(rank, port, MIXED)
        summed = fm.MetricCollection({"auc": fm.AUC(), "mse": fm.MeanSquaredError(), "n": fm.Count()})
        others = fm.MetricCollection({"pearson": fm.PearsonCorrelation(), "exact": fm.ExactAUC()})  # go directly
        for each in (summed, others):
            each.add(scores[rank], labels[rank])
        return [each.compute(communicator=comm) for _ in range(3) for each in (summed, others)], len(seen)

    two = run(len(MIXED), work)
    monkeypatch.setenv("FLEETMETRICS_LEVELS", "1")
    port = free_ports(1)[0]
    one = run(len(MIXED), work)
    assert [values for values, _ in two] == [values for values, _ in one] == [one[0][0]] * len(MIXED)
    assert (one[0][1], two[0][1]) == (0, 2 * 2)


def test_errors_and_what_follows_them_are_those_of_one_level(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(rank: int) -> Any:
        seen, comm = bundles(), worker(rank, port)
        met(comm)
        odd = rank == FOLLOWER
        calls: list[Callable[[], Any]] = [
            lambda: comm.all_reduce(["x"] if odd else [1]),
            lambda: comm.all_reduce([1, 2] if odd else [1]),
            lambda: comm.all_reduce([1.5] if odd else [2**60 + 1]),
            lambda: comm.all_reduce([1.5] if rank > 1 else [2**60 + 1]),
            lambda: comm.all_reduce([2**62]),
            lambda: comm.all_reduce([2**62 if rank < 3 else -(2**62)]),
            lambda: comm.barrier() if odd else comm.all_reduce([1]),
            lambda: comm.all_gather([rank]) if odd else comm.all_reduce([1]),
            lambda: comm.all_gather([rank]) if rank == LEADER else comm.barrier(),
            lambda: comm.all_gather([rank]) if rank == 0 else comm.barrier(),
            lambda: comm.all_reduce([1], timeout=-1 if rank == LEADER else 20),
            lambda: comm.all_reduce(np.full(200_000, rank)),
            lambda: comm.all_reduce(np.ones(3 if odd else 200_000)),
        ]
        found = []
        for call in calls:
            value, seconds = timed(call)
            assert seconds < AT_ONCE / 2, value
            again = outcome(lambda: comm.all_reduce([1]))
            found.append(
                [np.sum(value).tolist() if not isinstance(value, (str, type(None))) else value, again.tolist()]
            )
        return found, len(seen)

    two = run(5, work)
    monkeypatch.setenv("FLEETMETRICS_LEVELS", "1")
    port = free_ports(1)[0]
    one = run(5, work)
    assert [found for found, _ in two] == [found for found, _ in one]
    assert two[0][1] >= 13 and one[0][1] == 0


#: What a leader is just doing.
PHASES = ("connecting", "arrived", "bundled", "answered", "relaying", "relayed")


def at(phase: str, act: Callable[[], Any]) -> None:
    """In a leader: do something once, at this phase of the first exchange that has it, or of the second bundle."""
    done: list[bool] = []

    def once() -> None:
        if not done:
            done.append(True)
            act()

    begin, turn, end, sent = Leader.begin, Leader.turn, Leader.end, hosts._sent

    def began(self: Any, *args: Any) -> None:
        begin(self, *args)
        if phase == "arrived" and self._streams:
            once()
        if phase == "connecting":
            once()

    def turned(self: Any) -> Any:
        bundle = turn(self)
        if bundle is not None and phase == "bundled":
            os.environ["BUNDLED"] = "yes"
        return bundle

    def ended(self: Any, answer: Any) -> Any:
        if self._bundled and phase == "answered":
            once()
        places = end(self, answer)
        if places and phase == "relayed":
            once()
        return places

    def relaying(*args: Any) -> bool:
        found = sent(*args)
        if phase == "relaying":
            once()
        return found

    converse = hosts.Poll.wait

    def waiting(self: Any, until: float = 0.0) -> Any:
        if os.environ.pop("BUNDLED", None):
            once()
        return converse(self, until)

    Leader.begin, Leader.turn, Leader.end = began, turned, ended  # type: ignore[method-assign]
    hosts._sent, hosts.Poll.wait = relaying, waiting  # type: ignore[method-assign]


def right(found: Any, call: int) -> bool:
    return found == [15, 5 * call]


def calls_of(comm: SocketCommunicator, rank: int, number: int = 5, timeout: float = 20.0) -> list[tuple[Any, float]]:
    return [
        timed(lambda: comm.all_reduce([rank + 1, call], timeout=timeout).tolist())  # noqa: B023
        for call in range(1, number + 1)
    ]


@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_leader_is_named_and_no_worker_parts_from_the_others(port: int, phase: str) -> None:
    def work(rank: int) -> Any:
        if rank == LEADER:
            at(phase, lambda: os.kill(os.getpid(), signal.SIGKILL))
        return calls_of(worker(rank, port), rank)

    found = run(5, work)
    assert found[LEADER] is None
    alive = [outcomes for rank, outcomes in enumerate(found) if rank != LEADER]
    failed = 0
    for call, each in enumerate(zip(*alive), 1):
        values = [value for value, _ in each]
        assert all(seconds < AT_ONCE for _, seconds in each)
        assert all(right(value, call) for value in values) or len({str(value) for value in values}) == 1, values
        if not right(values[0], call):
            assert "rank 2 has gone away" in values[0]
            failed += 1
    assert failed >= 2


@pytest.mark.parametrize("phase", PHASES)
def test_a_stopped_leader_is_named_by_the_deadline_or_does_not_keep_the_others_from_the_number(
    port: int, phase: str, tmp_path: Path
) -> None:
    def work(rank: int) -> Any:
        comm = worker(rank, port)
        if rank == LEADER:
            at(phase, lambda: os.kill(os.getpid(), signal.SIGSTOP))
        found = calls_of(comm, rank, 4, timeout=2.0)
        (tmp_path / f"{rank}").touch()
        return found

    with crew(5, work) as workers:
        for rank in (0, 1, 3, 4):
            wait_for(tmp_path / f"{rank}")
        workers[LEADER].kill(signal.SIGCONT)
        found = results(workers)
    alive = [outcomes for rank, outcomes in enumerate(found) if rank != LEADER]
    for call, each in enumerate(zip(*alive), 1):
        values = [value for value, _ in each]
        assert all(seconds < 2 + SLACK for _, seconds in each)
        assert all(right(value, call) for value in values) or all("DeadlineError: rank 2 did" in v for v in values), (
            each
        )
    assert not right(alive[0][-1][0], 4)
    first_error = next(call for call in range(1, 5) if not right(alive[0][call - 1][0], call))
    assert all(right(found[LEADER][call - 1][0], call) for call in range(1, first_error))
    assert "Error: rank" in found[LEADER][first_error - 1][0]


@pytest.mark.parametrize("phase", PHASES[1:])
def test_a_leader_that_is_interrupted_is_named_at_once_and_the_next_call_works(port: int, phase: str) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    def work(rank: int) -> Any:
        if rank == LEADER:
            at(phase, interrupted)
        return calls_of(worker(rank, port), rank, 6)

    found = run(5, work)
    failed = [call for call in range(1, 7) if not right(found[LEADER][call - 1][0], call)]
    assert failed and found[LEADER][failed[0] - 1][0].startswith("KeyboardInterrupt")
    for rank, outcomes in enumerate(found):
        for call, (value, seconds) in enumerate(outcomes, 1):
            assert seconds < AT_ONCE
            if call == failed[0] and rank != LEADER:
                assert right(value, call) or "rank 2 was interrupted (KeyboardInterrupt)" in value
            elif call == failed[0] + 1 and not right(value, call):  # who has a result, and who an error
                assert value.startswith("AgreementError: the workers diverged at exchange"), value
            elif call != failed[0]:
                assert right(value, call), (rank, call, value)
    assert {str(outcomes[failed[0]][0]) for outcomes in found} == {str(found[0][failed[0]][0])}


@pytest.mark.parametrize("what", ["kill", "cut"])
def test_random_kills_with_two_levels_give_every_worker_a_named_error(what: str) -> None:
    """At full length: `make kills ARGS="--levels 2"`."""
    found = campaign(what, 8, seed=4, levels=2)
    assert found["cases"] == 8
    assert (found["wrong numbers"], found["raw errors"], found["too late"], found["splits not told"]) == (0, 0, 0, 0)


@pytest.mark.parametrize("who", [FOLLOWER, LEADER, 1, 0])
def test_a_worker_that_stops_before_it_comes_is_named_alone(port: int, who: int, tmp_path: Path) -> None:
    def work(rank: int) -> Any:
        comm = worker(rank, port)
        met(comm)
        if rank == who:
            (tmp_path / "stopped").touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        wait_for(tmp_path / "stopped")
        found = timed(lambda: comm.all_reduce([1], timeout=2).tolist())
        (tmp_path / f"{rank}").touch()
        return found, outcome(lambda: comm.all_reduce([1], timeout=20).tolist())

    with crew(5, work) as workers:
        for rank in range(5):
            if rank != who:
                wait_for(tmp_path / f"{rank}")
        workers[who].kill(signal.SIGCONT)
        for (value, seconds), after in results(workers):
            assert value.startswith(f"DeadlineError: rank {who} did not arrive within 2 s"), value
            assert seconds < 2 + SLACK
            assert after == [5]


@pytest.mark.parametrize("who", [FOLLOWER, LEADER])
def test_a_worker_that_is_killed_before_it_comes_is_an_error_at_once(port: int, who: int) -> None:
    def work(rank: int) -> Any:
        comm = worker(rank, port)
        met(comm)
        if rank == who:
            os.kill(os.getpid(), signal.SIGKILL)
        return timed(lambda: comm.all_reduce([1], timeout=60))

    found = run(5, work)
    for rank, each in enumerate(found):
        if rank != who:
            assert f"CommunicatorError: rank {who} has gone away" in each[0]
            assert each[1] < AT_ONCE


def test_a_follower_that_is_interrupted_is_named_and_the_next_call_works(port: int) -> None:
    def work(rank: int) -> Any:
        comm = worker(rank, port)
        met(comm)
        if rank == FOLLOWER:
            turn, left = Follower.turn, [KeyboardInterrupt()]

            def turned(self: Any) -> Any:
                if left:
                    raise left.pop()
                return turn(self)

            Follower.turn = turned  # type: ignore[method-assign]
        return [outcome(lambda: comm.all_reduce([1], timeout=20).tolist()) for _ in range(3)]

    found = run(5, work)
    assert found[FOLLOWER][0].startswith("KeyboardInterrupt")
    parted = found[0][0] == [5]  # the leader had taken its arrival along
    for rank, each in enumerate(found):
        if parted:
            assert rank == FOLLOWER or each[0] == [5]
            assert each[1].startswith("AgreementError: the workers diverged at exchange 3 (all_reduce)"), each[1]
            assert "with a result on ranks 0, 1, 2, 4, and with an error on rank 3." in each[1]
        else:
            assert rank == FOLLOWER or each[0].startswith("CommunicatorError: rank 3 was interrupted")
            assert each[1] == [5]
        assert each[2] == [5]


@pytest.mark.parametrize("patience", [0.0, 0.002])
def test_a_worker_whose_arrival_comes_by_both_ways_counts_once(port: int, patience: float) -> None:
    def work(rank: int) -> Any:
        comm = worker(rank, port)
        met(comm)
        if rank == FOLLOWER:  # sends its arrival directly, too, and does not tell its leader
            tell = Follower._tell

            def silent(self: Any, frame: Any = None) -> None:
                if frame is None or frame.kind != frames.APART:
                    tell(self, frame)

            Follower._tell = silent  # type: ignore[method-assign]
            hosts._patience = lambda timeout: patience
        return [comm.all_reduce([10**rank, call], timeout=20).tolist() for call in range(20)]

    assert run(5, work) == [[[11111, 5 * call] for call in range(20)]] * 5


def test_a_sum_too_large_for_two_hosts_together_comes_from_each_worker_and_waits_for_no_leader(port: int) -> None:
    places = (1, 2, 3, 4, 1, 2, 3, 4)

    def work(rank: int) -> Any:
        seen, comm = bundles(), worker(rank, port, places)
        hosts._RELAY_PATIENCE = 60.0  # rank 0 would wait as long for the leaders to pass on what it has sent
        met(comm)
        seen.clear()
        large = 0.75e308 if places[rank] < 3 else -0.75e308
        return timed(lambda: comm.all_reduce([large, rank], timeout=600).tolist()), seen

    found = run(len(places), work)
    assert sorted(found[0][1]) == [1, 2, 3]
    assert all(value == [0.0, 28.0] and seconds < AT_ONCE for (value, seconds), _ in found), found


def test_rank_0_introduces_the_workers_of_a_host_once(port: int) -> None:
    def work(rank: int) -> Any:
        told: list[int] = []
        introduce = star.Spoke._introduce

        def counted(self: Any, frame: Any) -> None:
            told.append(1)
            introduce(self, frame)

        star.Spoke._introduce = counted  # type: ignore[method-assign]
        comm = worker(rank, port)
        for _ in range(4):
            comm.barrier(timeout=20)
        return len(told)

    assert run(5, work) == [0, 0, 1, 1, 1]  # nothing is gained on the host of rank 0


def test_strangers_at_a_leaders_door_change_nothing(port: int) -> None:
    def work(rank: int) -> Any:
        seen, comm = bundles(), worker(rank, port)
        met(comm)
        knocks = []
        if rank == LEADER:
            place = comm._star._host._door._listener.getsockname()  # type: ignore[attr-defined]
            for data in (b"", b"", b"GET / HTTP/1.0\r\n\r\n", os.urandom(4096)):
                knocks.append(socket.create_connection(place))
                knocks[-1].sendall(data)
        return [comm.all_reduce([10**rank], timeout=20).tolist() for _ in range(3)], seen

    found = run(5, work)
    assert [each for each, _ in found] == [[[11111]] * 3] * 5
    assert found[0][1] == [LEADER] * 4


def test_a_leader_accepts_only_workers_that_rank_0_has_introduced(port: int) -> None:
    """Such as a worker of the same run, started once more, with the same name and the same secret."""

    def work(rank: int) -> Any:
        comm = worker(rank, port)
        if rank == FOLLOWER:
            here = hosts.introduced

            def misled(job: Any, key: Any, poll: Any, frame: Any) -> Any:
                number, ranks = json.loads(frame.header)
                right, wrong = (
                    here(job, key, poll, replace(frame, header=json.dumps([n, ranks]).encode()))
                    for n in (number, "of another")
                )
                places = right._job.candidates()
                object.__setattr__(wrong._job, "candidates", lambda: places)
                return wrong

            star.introduced = misled  # type: ignore[attr-defined]
        found = [timed(lambda: comm.all_reduce([10**rank], timeout=10).tolist()) for _ in range(3)]
        host = getattr(comm._star, "_host", None)
        return found, sorted(host._streams) if isinstance(host, Leader) else None

    for rank, (found, streams) in enumerate(run(5, work)):
        assert [value for value, _ in found] == [[11111]] * 3
        assert streams == ([2] if rank == LEADER else None)


def test_groups_across_hosts_and_the_whole_job_have_their_numbers(port: int) -> None:
    def work(rank: int) -> Any:
        comm = worker(rank, port)
        met(comm)
        mine = [1, 2, 4] if rank in (1, 2, 4) else [0, 3]
        return [comm.among(group).all_reduce([10**rank], timeout=20).tolist() for group in (mine, None, mine, None)]

    for rank, found in enumerate(run(5, work)):
        mine = [10110] if rank in (1, 2, 4) else [1001]
        assert found == [mine, [11111], mine, [11111]]


def test_a_group_and_the_whole_job_at_the_same_time_have_their_numbers(port: int) -> None:
    """Threads of each worker call them, each worker in another order."""

    def work(rank: int) -> Any:
        comm = worker(rank, port)
        met(comm)

        def one(group: Any) -> Callable[[], Any]:
            return lambda: [comm.among(group).all_reduce([10**rank], timeout=30).tolist() for _ in range(5)]

        order = [None, [1, 2, 3]] if rank % 2 else [[1, 2, 3], None]
        mine = [group for group in order if group is None or rank in group]
        found = side_by_side(*map(one, mine))
        return dict(zip(map(str, mine), found))

    for found in run(5, work):
        assert found["None"] == [[11111]] * 5
        assert found.get("[1, 2, 3]", [[1110]] * 5) == [[1110]] * 5


@pytest.mark.parametrize(("levels", "places"), [("1", SMALL), ("", SMALL), ("2", (1, 1, 1)), ("2", (1, 2, 3))])
def test_there_is_one_level_where_it_is_asked_for_or_nothing_is_gained(
    port: int, levels: str, places: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETMETRICS_LEVELS", levels)

    def work(rank: int) -> Any:
        seen, comm = bundles(), worker(rank, port, places)
        met(comm)
        return comm.all_reduce([1]).tolist(), seen, getattr(comm._star, "_host", None)

    assert run(len(places), work) == [([len(places)], [], None)] * len(places)


def test_from_many_workers_on_two_levels_need_no_asking(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEETMETRICS_LEVELS")
    monkeypatch.setattr(hosts, "WORKERS", 5)

    def work(rank: int) -> Any:
        seen, comm = bundles(), worker(rank, port)
        met(comm)
        return comm.all_reduce([1]).tolist(), seen

    found = run(5, work)
    assert found[0] == ([5], [2, 2])


def test_an_invalid_setting_is_named_on_every_worker(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETMETRICS_LEVELS", "three")
    for text in run(2, lambda rank: outcome(lambda: worker(rank, port, (1, 2)).barrier())):
        assert text.startswith("InvalidInputError: the environment variable FLEETMETRICS_LEVELS holds 'three'; it must")
