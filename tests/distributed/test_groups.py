"""Groups of a job's workers, in real processes: each group has the number of one process, even if others fail."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.comm import SocketCommunicator
from tests import contract
from tests.contract import CASES
from tests.cover import thorough
from tests.distributed import forks
from tests.distributed.cluster import AT_ONCE, SLACK, free_ports
from tests.distributed.forks import crew, outcome, run, timed, wait_for
from tests.distributed.programs import WORKER, Runs, places
from tests.distributed.test_threads import side_by_side

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


def member(rank: int, world: int, port: int) -> SocketCommunicator:
    """A worker's communicator, which connects in the background, as at its first metric."""
    comm = forks.member(rank, world, port)
    comm.connect()
    return comm


def rest(comm: SocketCommunicator) -> list[Any]:
    """What rank 0 does while groups without it meet in its process."""
    outcome(lambda: comm.barrier(timeout=30))
    return []


def total(comm: SocketCommunicator, group: Any, rank: int, seconds: float = 20.0) -> Any:
    """The sum over a group of powers of ten: which ranks took part can be read off it."""
    return outcome(lambda: int(comm.among(group).all_reduce([10**rank], timeout=seconds)[0]))


def test_groups_that_part_the_job_have_their_numbers_and_the_whole_job_has_its_own(port: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 4, port)
        mine = [rank % 2, rank % 2 + 2]
        found = [total(comm, mine, rank) for _ in range(3)]
        return [*found, total(comm, None, rank), total(comm, mine, rank)]

    assert run(4, work) == [[101, 101, 101, 1111, 101], [1010, 1010, 1010, 1111, 1010]] * 2


def test_groups_overlap_and_need_not_have_rank_0(port: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 4, port)
        groups = [[2, 3], [1, 2], [1, 2, 3], [3]]
        found = [total(comm, group, rank) for group in groups if rank in group]
        return [*found, *rest(comm)]

    assert run(4, work) == [[], [110, 1110], [1100, 110, 1110], [1100, 1110, 1000]]


@pytest.mark.parametrize("world", [3, *thorough(4)])
def test_groups_at_the_same_time_come_to_their_numbers_in_any_order(port: int, world: int) -> None:
    """Threads of each worker call two groups and the whole job, each worker in another order."""
    groups = [[0, 1], list(range(1, world)), None]

    def work(rank: int) -> list[Any]:
        comm = member(rank, world, port)
        order = [(place + rank) % 3 for place in range(3)]
        mine = [place for place in order if groups[place] is None or rank in groups[place]]  # type: ignore[operator]

        def one(place: int) -> Callable[[], Any]:
            return lambda: [total(comm, groups[place], rank, 30) for _ in range(5)]

        started = side_by_side(*map(one, mine))
        rest(comm)
        return [started[mine.index(place)] if place in mine else None for place in range(3)]

    of = [11, sum(10**rank for rank in range(1, world)), sum(10**rank for rank in range(world))]
    for rank, found in enumerate(run(world, work)):
        for place, each in enumerate(found):
            taken = groups[place] is None or rank in groups[place]  # type: ignore[operator]
            assert each == ([of[place]] * 5 if taken else None)


def test_a_metric_of_half_the_workers_has_the_bits_of_one_process(port: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    scores, labels = rng.random((4, 50)), rng.integers(0, 2, (4, 50))

    def made() -> Any:
        return fm.MetricCollection(
            {"auc": fm.AUC(), "mse": fm.MeanSquaredError(), "exact": fm.ExactAUC(), "n": fm.Count()}
        )

    def work(rank: int) -> Any:
        comm = member(rank, 4, port)
        mine = [1, 3] if rank % 2 else [0, 2]
        metrics, again = made(), made()
        metrics.add(scores[rank], labels[rank])
        path = tmp_path / f"of {mine}"
        fm.save(path, metrics, communicator=comm, group=mine)
        resumed = fm.load(path, again, communicator=comm, group=mine)
        assert resumed.workers == 2
        values = metrics.compute(communicator=comm, group=mine), again.compute(communicator=comm, group=mine)
        rest(comm)
        return values

    found = run(4, work)
    for rank, each in enumerate(found):
        alone = made()
        for other in (rank % 2, rank % 2 + 2):
            alone.add(scores[other], labels[other])
        assert each[0] == each[1] == alone.compute_local()


def test_the_functions_and_the_metrics_of_records_take_a_group(port: int) -> None:
    from fleetmetrics.evaluator import BaseMetric as EngineMetric
    from fleetmetrics.evaluator import Evaluator

    class Share(fm.BaseMetric):
        def compute_metric(self, results: Any) -> Any:
            return sorted(results["x"].tolist())

    class Joins(EngineMetric):
        default_prefix = "joins"

        def process(self, data_batch: Any, data_samples: Any) -> None:
            self.results += [sample["x"] for sample in data_samples]

        def compute_metrics(self, results: Any) -> Any:
            return {"all": sorted(results)}

    class Asks(Joins):
        default_prefix = "asks"

        def evaluate(self, size: int | None = None) -> Any:
            return super().evaluate(size)

    def work(rank: int) -> Any:
        group = [1, 2]
        with fm.set_communicator(member(rank, 3, port)) as comm:
            if rank not in group:
                return rest(comm)
            found = [
                fm.sum([rank], group=group).tolist(),
                fm.max(rank, group=group).tolist(),
                fm.acc(rank, 2, group=group),
            ]
            found += [fm.auc([0, rank], [1, 0], group=group), fm.min([rank], group=group).tolist()]
            found += [call(rank, 1, group=group) for call in (fm.mae, fm.mse, fm.rmse)]
            records, evaluator = Share(), Evaluator([Joins(), Asks()])
            records.add(x=np.array([rank, 10 * rank]))
            evaluator.process([{"x": rank}])
            found += [records.compute(group=group), evaluator.evaluate(group=group)]
            return [*found, *rest(comm)]

    outside, *found = run(3, work)
    values = [[3], 2, 0.75, 1.0, [1], 1.5, 1.5, 1.5**0.5, [1, 2, 10, 20], {"joins/all": [1, 2], "asks/all": [1, 2]}]
    assert outside == [] and found == [values, values]


def test_a_process_outside_of_a_group_raises_before_anything_is_sent(port: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        if rank == 2:
            return [*timed(lambda: comm.among([0, 1]).barrier()), comm._groups]
        return [total(comm, [0, 1], rank), total(comm, [0, 1], rank)]

    *inside, (text, seconds, groups) = run(3, work)
    assert inside == [[11, 11]] * 2
    assert "group holds ranks 0, 1, but this worker is rank 2, which is not in it" in text
    assert seconds < AT_ONCE and not groups


def test_errors_name_the_ranks_that_the_job_knows(port: int, tmp_path: Path) -> None:
    """Ranks 1, 3 and 4 of 5: the place in the group is never shown."""

    def work(rank: int) -> list[Any]:
        comm = member(rank, 5, port)
        if rank in (0, 2):
            wait_for(tmp_path / "1 has it")
            wait_for(tmp_path / "3 has it")
            return []
        group = comm.among([1, 3, 4])
        number = fm.Count(name="n")
        calls: list[Callable[[], Any]] = [
            lambda: group.all_reduce(["x"] if rank == 3 else [1], timeout=20),
            lambda: group.all_reduce([1], "max" if rank == 4 else "sum", timeout=20),
            lambda: group.all_gather(np.ones((1, 1 + (rank == 1)))),
            lambda: number.compute(communicator=group, timeout="soon" if rank == 4 else 20),  # type: ignore[arg-type]
        ]
        found = [outcome(call) for call in calls]
        if rank == 1:
            found.append(outcome(lambda: group.all_reduce([1], timeout=1)))
        else:
            found.append(outcome(lambda: group.all_reduce([1], timeout=2)) if rank == 3 else None)
        (tmp_path / f"{rank} has it").touch()
        for other in (1, 3):
            wait_for(tmp_path / f"{other} has it")
        return found

    _, one, _, three, four = run(5, work)
    assert one[:4] == three[:4] == four[:4]
    assert one[0].startswith("InvalidInputError: on rank 3: ")
    assert "array: 'sum'" in one[1] or "sum on ranks 1, 3, max on rank 4" in one[1]
    assert "on rank 1, shape" in one[2] and "ranks 3, 4" in one[2]
    assert one[3].startswith("InvalidInputError: on rank 4: timeout is 'soon'")
    assert one[4] == three[4]
    assert "rank 4 did not arrive within 1 s at exchange 5 (all_reduce) in the group of ranks 1, 3, 4" in one[4]


@pytest.mark.parametrize("gone", [1, 3])
def test_a_member_that_dies_is_named_by_its_rank_in_the_job(port: int, tmp_path: Path, gone: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 4, port)
        if rank == 0:
            wait_for(tmp_path / "over")
            return []
        first = total(comm, [1, 2, 3], rank)
        if rank == gone:
            (tmp_path / "met").touch()
            time.sleep(60)
        wait_for(tmp_path / "dead")
        return [
            first,
            *timed(lambda: comm.among([1, 2, 3]).barrier(timeout=20)),
            total(comm, [2], rank) if rank == 2 else 0,
        ]

    with crew(4, work) as workers:
        wait_for(tmp_path / "met")
        workers[gone].kill()
        workers[gone].bury()
        (tmp_path / "dead").touch()
        for rank in {1, 2, 3} - {gone}:
            first, text, seconds, alone = workers[rank].result()
            assert first == 1110 and f"CommunicatorError: rank {gone} has gone away" in text
            assert seconds < AT_ONCE and alone == (100 if rank == 2 else 0)
        (tmp_path / "over").touch()


@pytest.mark.parametrize("stalled", [1, 2])
def test_a_member_that_stalls_is_named_by_the_deadline(port: int, tmp_path: Path, stalled: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        if rank == 0:
            wait_for(tmp_path / "over")
            return []
        first = total(comm, [1, 2], rank)
        if rank == stalled:
            (tmp_path / "met").touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        return [first, *timed(lambda: comm.among([1, 2]).barrier(timeout=3))]

    with crew(3, work) as workers:
        wait_for(tmp_path / "met")
        first, text, seconds = workers[3 - stalled].result()
        assert first == 110 and seconds < 3 + SLACK
        assert f"DeadlineError: rank {stalled} did not arrive within 3 s at exchange 2 (barrier) in the group" in text
        workers[stalled].kill(signal.SIGCONT)
        (tmp_path / "over").touch()


def test_a_group_may_be_closed_and_opened_again_with_the_job(port: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        if rank == 0:
            return rest(comm)
        found = [total(comm, [1, 2], rank)]
        comm.among([1, 2]).close()
        found.append(total(comm, [1, 2], rank))
        return [*found, *rest(comm)]

    assert run(3, work) == [[], [110, 110], [110, 110]]


def test_threads_of_a_worker_may_be_in_two_groups_when_it_ends(port: int) -> None:
    """A group that no other worker joins holds up no other group."""

    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        waits = threading.Thread(
            target=lambda: outcome(lambda: comm.among([0, 1, 2][:2]).barrier(timeout=30)), daemon=True
        )
        if rank == 0:
            waits.start()
        return [total(comm, [0, 2], rank) if rank != 1 else None]

    assert run(3, work) == [[101], [None], [101]]


@pytest.mark.thorough
def test_every_metric_of_the_contract_is_that_of_one_process_over_the_group(port: int) -> None:
    """Workers 0 and 2 deal a data set among them, and 1 and 3 another one; both groups compute at the same time."""
    names = list(CASES)
    group = {0: [0, 2], 1: [1, 3]}

    def of(name: str, which: int) -> contract.Data:
        return contract.draw(name, contract.first_dtypes(name), "eighths", mask=True, seed=which)

    def work(rank: int) -> list[str]:
        comm, wrong = member(rank, 4, port), []
        for name in names:
            data, case = of(name, rank % 2), CASES[name]
            metric, alone = case.make(), case.make()
            contract.feed(
                metric, contract.batches(data.rows(*((0, 20) if rank < 2 else (20, contract.SAMPLES)))), "numpy"
            )
            contract.feed(alone, contract.batches(data), "numpy")
            found = outcome(lambda: metric.compute(communicator=comm, group=group[rank % 2], timeout=30))  # noqa: B023
            exact = contract.is_exact(name, data, "eighths")
            if isinstance(found, str) or not contract.same(found, alone.compute_local(), exact, case.tolerance):
                wrong.append(f"{name}: {found!r:.200}")
        return [*wrong, *rest(comm)]

    assert run(4, work) == [[]] * 4 and len(names) > 80


# -- workers that name different ranks


def asked(port: int, groups: list[list[int]], seconds: float = 30.0, threads: int = 0) -> list[tuple[Any, float]]:
    """How one exchange ends on each worker, in the group that it names; and after how many seconds."""

    def work(rank: int) -> tuple[Any, float]:
        comm = member(rank, len(groups), port)
        over = threading.Event()
        for _ in range(threads):  # such as tqdm's monitor
            threading.Thread(target=over.wait, args=(60,), daemon=True).start()
        found = timed(lambda: int(comm.among(groups[rank]).all_reduce([10**rank], timeout=seconds)[0]))
        over.set()
        return found

    return run(len(groups), work)


#: Ranks 1 and 2 name one rank more than rank 0: of three workers that is all of them, of four a group.
ONE_MORE = {
    3: ([[0, 1], [0, 1, 2], [0, 1, 2]], "exchange 1 (all_reduce) on ranks 1, 2"),
    4: ([[0, 1], [0, 1, 2], [0, 1, 2], [3]], "exchange 1 (all_reduce) in the group of ranks 0, 1, 2"),
}


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("world", [3, *thorough(4)])
def test_two_lists_for_one_group_are_an_error_at_once_that_names_both(port: int, world: int, threads: int) -> None:
    """Whatever other threads live, as long as they have called nothing."""
    groups, theirs = ONE_MORE[world]
    (one, soon), (two, later), (three, last), *_ = asked(port, groups, threads=threads)
    assert one == two == three
    assert one.startswith("AgreementError: the workers disagree: ")
    assert "exchange 1 (all_reduce) in the group of ranks 0, 1 on rank 0" in one and theirs in one
    assert "these wait for each other; name the same ranks on every worker of a group" in one
    assert max(soon, later, last) < AT_ONCE


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize(
    "groups",
    [
        [[0, 1], [1, 2], [0, 2]],
        [[0, 1], [1, 2], [2, 3], [0, 3]],
        [[0], [1, 2], [2, 3], [1, 3]],
        [[0, 1, 2, 3, 4], [1, 2], [0, 2], [3, 4], [0, 4], [5]],
    ],
)
def test_circles_of_groups_are_an_error_at_once_on_all_of_their_workers(
    port: int, groups: list[list[int]], threads: int
) -> None:
    alone = [rank for rank, group in enumerate(groups) if group == [rank]]

    def work(rank: int) -> Any:
        comm = member(rank, len(groups), port)
        over = threading.Event()
        for _ in range(threads):
            threading.Thread(target=over.wait, args=(60,), daemon=True).start()
        found = timed(lambda: total(comm, groups[rank], rank, 30))
        over.set()
        return (*found, outcome(lambda: comm.barrier(timeout=30)))

    found = run(len(groups), work)
    texts = {text for rank, (text, *_) in enumerate(found) if rank not in alone}
    assert len(texts) == 1 and texts.pop().startswith("AgreementError: the workers disagree: exchange 1"), found
    assert max(seconds for _, seconds, _ in found) < AT_ONCE
    assert [last for *_, last in found] == [None] * len(groups)  # a rank outside of the circle still waits


def test_a_program_whose_other_thread_comes_is_no_false_alarm(port: int) -> None:
    """One of rank 1's two threads calls first, and the other one for its first time soon after."""

    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        if rank == 0:
            return [total(comm, [0, 2], rank), total(comm, [0, 1], rank)]
        if rank == 2:
            return [total(comm, [1, 2], rank), total(comm, [0, 2], rank)]
        begun = threading.Event()

        def other() -> Any:
            begun.wait(AT_ONCE)
            time.sleep(0.5)
            return total(comm, [1, 2], rank)

        def this() -> Any:
            begun.set()
            return total(comm, [0, 1], rank)

        return side_by_side(other, this)

    assert run(3, work) == [[101, 11], [110, 11], [110, 101]]


def test_lists_that_differ_after_a_result_are_an_error_at_once(port: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 4, port)
        if rank == 3:
            return [1, 1, 0]
        first = total(comm, [0, 1, 2], rank)
        together = total(comm, [0, 1], rank) if rank < 2 else 11
        return [first, together, *timed(lambda: total(comm, [0, 1] if rank == 0 else [0, 1, 2], rank, 30))]

    zero, one, two, _ = run(4, work)
    assert zero[:2] == one[:2] == two[:2] == [111, 11]
    assert zero[2] == one[2] == two[2]
    assert zero[2].startswith(
        "AgreementError: the workers disagree: exchange 2 (all_reduce) in the group of ranks 0, 1"
    )
    assert max(zero[3], one[3], two[3]) < AT_ONCE


def test_groups_in_another_order_on_one_worker_are_an_error_and_then_the_right_number(port: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        groups = [[[0, 1], None, None], [None, [0, 1], None], [None, None]][rank]
        return [total(comm, group, rank) for group in groups]

    zero, one, two = run(3, work)
    assert zero[0] == one[0] == one[1] == zero[1] == two[0]
    assert zero[0].startswith("AgreementError: the workers disagree: exchange 1 (all_reduce)")
    assert zero[2] == one[2] == two[1] == 111


def test_a_worker_late_from_another_group_disagrees_with_no_worker(port: int) -> None:
    """Rank 0 waits for rank 1, which waits in a group without rank 0: it comes when that one is over."""

    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        if rank == 2:
            time.sleep(3)
        groups = {0: [[0, 1]], 1: [[1, 2], [0, 1]], 2: [[1, 2]]}[rank]
        return [total(comm, group, rank) for group in groups]

    assert run(3, work) == [[11], [110, 11], [110]]


def test_rank_0_ends_only_when_the_groups_without_it_have_ended(tmp_path: Path) -> None:
    """They meet in its process, although its program is over; an error of its own ends it at once."""
    with Runs(tmp_path) as runs:
        code = WORKER.replace("metric.compute(timeout=", "metric.compute(group=[1, 2], timeout=")
        command = [sys.executable, runs.script("in_groups.py", code)]
        same = places(3, "collective")
        slow = {"CALLS": "2", "BEFORE_EACH": "call and (touch('met'), wait_for('over'), time.sleep(0.5))"}
        members = [runs.start(rank, command, **same[rank], **slow) for rank in (1, 2)]
        first = runs.start(0, command, **same[0], CALLS="0", AT_END="wait_for('met'); touch('over')")
        assert [worker.said() for worker in members] == [["value 3.0"] * 2] * 2
        assert first.said() == []
