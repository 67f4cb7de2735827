"""Groups of a job's workers, in real processes: each group has the number of one process, even if others fail."""

from __future__ import annotations

import os
import signal
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
from tests.distributed.cluster import AT_ONCE, SLACK, free_ports
from tests.distributed.forks import crew, member, outcome, run, timed, wait_for
from tests.distributed.test_threads import side_by_side

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


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
        return [total(comm, group, rank) for group in groups if rank in group]

    assert run(4, work) == [[], [110, 1110], [1100, 110, 1110], [1100, 1110, 1000]]


@pytest.mark.parametrize("world", [3, 4])
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
        return metrics.compute(communicator=comm, group=mine), again.compute(communicator=comm, group=mine)

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
        with fm.set_communicator(member(rank, 3, port)):
            if rank not in group:
                return None
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
            return [*found, records.compute(group=group), evaluator.evaluate(group=group)]

    outside, *found = run(3, work)
    values = [[3], 2, 0.75, 1.0, [1], 1.5, 1.5, 1.5**0.5, [1, 2, 10, 20], {"joins/all": [1, 2], "asks/all": [1, 2]}]
    assert outside is None and found == [values, values]


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
        if rank in (0, 2):
            return []
        group = member(rank, 5, port).among([1, 3, 4])
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

    _, *rest = run(5, work)
    one, three, four = rest[0], rest[2], rest[3]
    assert one[:4] == three[:4] == four[:4]
    assert one[0].startswith("InvalidInputError: on rank 3: ")
    assert "array: 'sum'" in one[1] or "sum on ranks 1, 3, max on rank 4" in one[1]
    assert "on rank 1, shape" in one[2] and "ranks 3, 4" in one[2]
    assert one[3].startswith("InvalidInputError: on rank 4: timeout is 'soon'")
    assert one[4] == three[4]
    assert "rank 4 did not arrive within 1 s at exchange 5 (all_reduce) in the group of ranks 1, 3, 4." in one[4]


@pytest.mark.parametrize("gone", [1, 3])
def test_a_member_that_dies_is_named_by_its_rank_in_the_job(port: int, tmp_path: Path, gone: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 4, port)
        if rank == 0:
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
            assert "in the group of ranks 1, 2, 3" in text
            assert seconds < AT_ONCE and alone == (100 if rank == 2 else 0)


@pytest.mark.parametrize("stalled", [1, 2])
def test_a_member_that_stalls_is_named_by_the_deadline(port: int, tmp_path: Path, stalled: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        if rank == 0:
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


def test_a_group_may_be_closed_and_opened_again_with_the_job(port: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        if rank == 0:
            return []
        found = [total(comm, [1, 2], rank)]
        comm.among([1, 2]).close()
        found.append(total(comm, [1, 2], rank))
        return found

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
        return wrong

    assert run(4, work, 150) == [[]] * 4 and len(names) > 80


# -- workers that name different ranks ---------------------------------------------------------------------


def asked(port: int, groups: list[list[int]], seconds: float = 20.0, threads: int = 0) -> list[tuple[Any, float]]:
    """How one exchange ends on each worker, in the group that it names; and after how many seconds."""

    def work(rank: int) -> tuple[Any, float]:
        comm = member(rank, len(groups), port)
        over = threading.Event()
        for _ in range(threads):
            threading.Thread(target=over.wait, args=(60,), daemon=True).start()
        found = timed(lambda: int(comm.among(groups[rank]).all_reduce([10**rank], timeout=seconds)[0]))
        over.set()
        return found

    return run(len(groups), work)


#: Ranks 1 and 2 name one rank more than rank 0: of three workers that is all of them, of four a group.
ONE_MORE = {
    3: ([[0, 1], [0, 1, 2], [0, 1, 2]], "exchange 1 (all_reduce) of all workers"),
    4: ([[0, 1], [0, 1, 2], [0, 1, 2], [3]], "exchange 1 (all_reduce) in the group of ranks 0, 1, 2"),
}


@pytest.mark.parametrize("world", [3, 4])
def test_two_lists_for_one_group_are_an_error_at_once_on_both_that_names_both(port: int, world: int) -> None:
    groups, theirs = ONE_MORE[world]
    (one, soon), (two, later), *_ = asked(port, groups, 6)
    assert one == two
    assert one == (
        "AgreementError: the workers disagree: exchange 1 (all_reduce) in the group of ranks 0, 1 on rank 0, "
        f"{theirs} on rank 1, and each waits for the other; name the same ranks on every worker of a group, and call "
        "groups in the same order."
    )
    assert max(soon, later) < 5


@pytest.mark.parametrize("world", [3, 4])
def test_the_error_of_a_third_worker_names_both_lists_by_its_deadline(port: int, world: int) -> None:
    groups, _ = ONE_MORE[world]
    text, seconds = asked(port, groups, 4)[2]
    assert "DeadlineError: rank 0 did not connect within 4 s at exchange 1 (all_reduce)" in text
    assert ("in the group of ranks 0, 1, 2. Look" in text) == (world == 4)
    assert "rank 0 waits at exchange 1 (all_reduce) in the group of ranks 0, 1: name the same ranks on every" in text
    assert seconds < 4 + SLACK


def test_if_another_thread_could_still_come_the_error_names_both_lists_by_the_deadline(port: int) -> None:
    groups, theirs = ONE_MORE[4]
    (one, soon), (two, later), *_ = asked(port, groups, 4, threads=1)
    assert (
        "DeadlineError: rank 1 did not connect within 4 s at exchange 1 (all_reduce) in the group of ranks 0, 1" in one
    )
    assert f"rank 1 waits at {theirs}" in one
    assert "DeadlineError: rank 0 did not connect within 4 s" in two and "in the group of ranks 0, 1: name" in two
    assert 3 < soon < 4 + SLACK and later < 4 + SLACK


def test_lists_with_other_first_ranks_are_an_error_too(port: int) -> None:
    """Rank 0 waits for rank 1, which leads a group of its own and waits for rank 2, which waits for rank 0."""
    (one, _), (two, _), (three, _) = asked(port, [[0, 1], [1, 2], [0, 2]], 5)
    assert "rank 1 waits at exchange 1 (all_reduce) in the group of ranks 1, 2" in one
    assert "rank 0 waits at exchange 1 (all_reduce) in the group of ranks 0, 1" in two
    assert "in the group of ranks 0, 2" in three and "in the group of ranks 0, 1" in three


def test_lists_that_differ_after_a_result_are_an_error_at_once(port: int) -> None:
    """The others are connected already, and their arrivals lie in a socket that no process reads."""

    def work(rank: int) -> list[Any]:
        comm = member(rank, 4, port)
        if rank == 3:
            return [1, 1, 0]
        first = total(comm, [0, 1, 2], rank)
        together = total(comm, [0, 1], rank) if rank < 2 else 11
        return [first, together, *timed(lambda: total(comm, [0, 1] if rank == 0 else [0, 1, 2], rank, 6))]

    zero, one, two, _ = run(4, work)
    assert zero[:2] == one[:2] == two[:2] == [111, 11]
    assert zero[2] == one[2] and zero[2].startswith(
        "AgreementError: the workers disagree: exchange 2 (all_reduce) in the"
    )
    assert (
        "group of ranks 0, 1 on rank 0, exchange 2 (all_reduce) in the group of ranks 0, 1, 2 on rank 1, and" in one[2]
    )
    assert zero[3] < 5 and one[3] < 5 and "rank 0" in two[2]


def test_groups_in_another_order_on_one_worker_are_an_error_on_both(port: int) -> None:
    def work(rank: int) -> list[Any]:
        comm = member(rank, 3, port)
        groups = [[[0, 1], None, None], [None, [0, 1], None], [None, None]][rank]
        comm.among([0, 1, 2])  # this program has groups
        return [total(comm, group, rank) for group in groups]

    zero, one, two = run(3, work)
    assert zero[0] == one[0] == one[1]
    assert zero[0].startswith(
        "AgreementError: the workers disagree: exchange 1 (all_reduce) in the group of ranks 0, 1 on"
    )
    assert zero[1] == two[0] and zero[1].startswith("AgreementError: on rank 1: the workers disagree")
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
