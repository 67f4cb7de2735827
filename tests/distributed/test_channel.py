"""The channel among real worker processes, without a launcher."""

from __future__ import annotations

import contextlib
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cover import thorough
from tests.distributed.cluster import AT_ONCE, SLACK, Job, run, run_at_once

WORKER = Path(__file__).parent / "workers" / "channel.py"

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]


def start(case: str, workers: int = 2, **options: Any) -> list[dict[str, Any]]:
    names = ("missing", "env", "timeout")
    rest = {name: options.pop(name) for name in names if name in options}
    return run(WORKER, workers, args={"case": case, **options}, **rest)


def the_same(reports: list[dict[str, Any]], name: str) -> Any:
    values = [report[name] for report in reports if name in report]
    assert len({repr(value) for value in values}) == 1, values
    return values[0]


@pytest.mark.parametrize("workers", [3, *thorough(1, 2, 4)])
def test_every_worker_gets_what_one_process_would(workers: int) -> None:
    reports = start("everything", workers)
    ranks = range(workers)
    hits, loss, mixed, top, low, scalar, empty, other = the_same(reports, "blocks")
    assert hits.tolist() == [sum(ranks) + workers, (2**24 + 1) * workers, 3 - 5 * (workers - 1)]
    assert loss.tolist() == [
        16777217.0 * workers,
        math.fsum(0.1 * (rank + 1) for rank in ranks),
        1e100 * (workers % 2),
    ]
    assert mixed.tolist() == [sum(rank if rank % 2 else 0.5 for rank in ranks)]
    assert other.tolist() == [sum(0.5 if rank % 2 else rank for rank in ranks)]
    assert mixed.dtype == np.float64 and other.dtype == (np.float64 if workers > 1 else np.int64)
    assert top.tolist() == [workers - 1, 0]
    assert math.copysign(1, low[0, 0]) == (-1 if workers > 1 else 1)
    assert scalar.shape == () and scalar == 2 * workers
    assert empty.shape == (3, 0)
    assert all(report["unchanged"] for report in reports)


@pytest.mark.parametrize("workers", [3, *thorough(2)])
def test_large_and_uneven_arrays_arrive_whole(workers: int) -> None:
    reports = start("everything", workers, large=300_000)
    ranks = range(workers)
    extra = sum(ranks)
    assert the_same(reports, "large_int").tolist() == [extra, workers + extra, 299_999 * workers + extra]
    columns = zip(*[report["own_floats"] for report in reports])
    assert the_same(reports, "large_float").tolist() == [math.fsum(column) for column in columns]
    assert the_same(reports, "large_mixed").tolist() == [workers - 1.0, 299_999 + workers - 1.0]
    assert [part.tolist() for part in the_same(reports, "gathered")] == [
        [1.5 * i for i in range(rank)] for rank in ranks
    ]
    assert [part.tolist() for part in the_same(reports, "texts")] == [["a" * rank] for rank in ranks]
    assert {part.dtype for part in the_same(reports, "halves")} == {np.dtype(np.float64)}
    assert [part.tolist() for part in the_same(reports, "scalars")] == list(ranks)
    assert [part.tolist() for part in the_same(reports, "large_gathered")] == [[rank] if rank else [] for rank in ranks]
    assert [part.tolist() for part in the_same(reports, "sent")] == [[f"from {rank}"] for rank in ranks]
    assert the_same(reports, "large_sent") == 299_999
    assert not the_same(reports, "paddle")


def test_an_invalid_communicator_on_one_rank_is_an_error_on_all_at_once(tmp_path: Path) -> None:
    reports = start("no_communicator", folder=str(tmp_path))
    of_communicator = r"InvalidInputError: on rank 1: communicator is (5|'auto'|<class .*>); it must be a fleetmetrics"
    of_util = r"InvalidInputError: on rank 1: util is 5, which has no all_reduce\(input, mode\); give paddle"
    of_others = r"NoChannelError: on rank 1: util has 3 workers by its role maker, but this job has 2: leave util"
    texts = the_same(reports, "texts")
    assert len(texts) == 20
    for text, expected in zip(texts, [of_communicator] * 12 + [of_util] * 4 + [of_others] * 4):
        assert re.match(expected, text), text
    assert max(report["seconds"] for report in reports) < AT_ONCE


@pytest.mark.parametrize("workers", [3, *thorough(2)])
def test_an_error_is_the_same_on_every_rank_and_the_next_call_works(workers: int) -> None:
    texts = the_same(start("errors", workers), "texts")
    last = workers - 1
    others = "rank 0" if workers == 2 else "ranks 0, 1"
    expected = [
        f"state 'stat_pos': shape [1, 3] on {others}, [1, 4] on rank {last}",
        f"auc(stat_pos int64[1, 4]) on {others}, acc(total int64[1, 4]) on rank {last}",
        f"reduction sum on {others}, max on rank {last}",
        f"CommunicatorError: on rank {last}: KeyError: 'stat_neg'",
        f"IntegerOverflowError: auc, state 'stat_pos': the sum over {workers} workers",
        f"IntegerOverflowError: auc, state 'stat_pos': the sum over {workers} workers",
        f"InvalidInputError: on rank {last}: array must hold bools, integers or floats, not strings such as",
        f"InvalidInputError: on rank {last}: timeout is -3",
        f"AgreementError: the workers gather arrays that cannot be joined: int64 on {others}, strings on rank {last}",
        f"shape [1, 3] on {others}, shape [1, 2] on rank {last}",
        f"broadcast from rank 1 on {others}, broadcast from rank 0 on rank {last}",
        f"source is {workers}; it must be a rank from 0 to {last}",
        "AgreementError: the workers disagree",
    ]
    assert len(texts) == len(expected)
    for text, part in zip(texts, expected):
        assert part in text


LATE = [(2, 1), (3, 2), (2, 0), (3, 0)]


@pytest.fixture(scope="module")
def late() -> dict[Any, list[dict[str, Any]]]:
    jobs = {(workers, who): {"case": "late", "workers": workers, "who": who} for workers, who in LATE}
    return run_at_once(WORKER, jobs)


@pytest.mark.parametrize(("workers", "who"), LATE)
def test_a_late_worker_is_named_by_all_and_the_next_call_works(
    late: dict[Any, list[dict[str, Any]]], workers: int, who: int
) -> None:
    reports = late[workers, who]
    assert the_same(reports, "in_time").tolist() == [workers]
    text = the_same(reports, "late")
    assert text.startswith(f"DeadlineError: rank {who} did not arrive within 2 s at exchange 2 (all_reduce)")
    assert the_same(reports, "after").tolist() == [workers]
    for rank, report in enumerate(reports):  # who is late has another 30 s
        assert report["seconds"] < (AT_ONCE if rank == who else 2 + SLACK)


@pytest.mark.parametrize("workers", [3, *thorough(2)])
def test_a_worker_that_never_connected_is_named(workers: int) -> None:
    reports = start("late_to_connect", workers, who=workers - 1)
    text = the_same(reports, "late")
    assert text.startswith(f"DeadlineError: rank {workers - 1} did not connect within 1 s at exchange 1 (all_reduce)")
    assert the_same(reports, "after").tolist() == [workers]


def test_a_worker_that_lags_gets_at_once_the_error_of_the_others() -> None:
    """In whatever call it reads the verdicts on later ones, and also when rank 0 has ended since."""
    first, second = start("lagging")
    assert second["texts"] == first["texts"]
    for call, (how, seconds) in enumerate(
        [("connect", 5), ("connect", 1), ("arrive", 3), ("arrive", 1), ("arrive", 1)]
    ):
        said = f"DeadlineError: rank 1 did not {how} within {seconds:g} s at exchange {call + 1} (all_reduce)"
        assert first["texts"][call].startswith(said)
    assert second["seconds"] < 3 + AT_ONCE


def test_random_lateness_never_gives_a_number_to_one_and_an_error_to_another() -> None:
    columns = list(zip(*[report["outcomes"] for report in start("random_lateness", 3, seed=1)]))
    late = 0
    for call, texts in enumerate(columns):
        if any(text.startswith("DeadlineError") for text in texts):
            assert all(text.startswith("DeadlineError") for text in texts), texts
            late += 1
        else:
            assert set(texts) == {f"no error, but [{3 * call}]"}
    assert late and not columns[-1][0].startswith("DeadlineError")  # for the last call all have time


KILLED = [(2, 1), (3, 1), (3, 0)]


@pytest.fixture(scope="module")
def killed() -> dict[Any, list[dict[str, Any]]]:
    jobs = {
        (workers, who): {"case": "killed", "workers": workers, "who": who, "missing": [who]} for workers, who in KILLED
    }
    return run_at_once(WORKER, jobs)


@pytest.mark.parametrize(("workers", "who"), KILLED)
def test_a_killed_worker_is_an_error_at_once(killed: dict[Any, list[dict[str, Any]]], workers: int, who: int) -> None:
    reports = killed[workers, who]
    text = the_same(reports, "first")
    assert f"CommunicatorError: rank {who} has gone away" in text
    assert "broken since an earlier call" in the_same(reports, "second")
    assert all(report["seconds"] < AT_ONCE for report in reports if report)


STOPPED = [(0, 10), (0, 400_000), (2, 10), (2, 400_000)]


@pytest.fixture(scope="module")
def stopped() -> dict[Any, list[dict[str, Any]]]:
    """What the others report; the jobs wait at the same time."""
    found = {}
    with contextlib.ExitStack() as stack:
        jobs = {
            (who, size): stack.enter_context(Job(WORKER, 3, args={"case": "stopped", "who": who, "size": size}))
            for who, size in STOPPED
        }
        end = time.monotonic() + 90
        for (who, size), job in jobs.items():
            others = [rank for rank in range(3) if rank != who]
            while not all((job.directory / f"done {rank}").exists() for rank in others):
                assert time.monotonic() < end, job.logs()
                time.sleep(0.02)
            found[who, size] = [job.report_of(rank) or {} for rank in others]
    return found


@pytest.mark.parametrize(("who", "size"), STOPPED)
def test_a_stopped_worker_is_an_error_by_the_deadline(
    stopped: dict[Any, list[dict[str, Any]]], who: int, size: int
) -> None:
    reports, how = stopped[who, size], "arrive" if who else "answer"
    assert f"DeadlineError: rank {who} did not {how} within 2 s" in the_same(reports, "text")
    assert all(report["seconds"] < 2 + SLACK for report in reports)


def test_strangers_do_no_harm() -> None:
    reports = start("strangers", 3)
    assert reports[1]["heard"] == ["fleetmetrics 4\r\n"] * 3
    assert the_same(reports, "total").tolist() == [3]


def test_a_forked_child_is_refused() -> None:
    reports = start("forks")
    assert all("forked child" in report["child"] for report in reports)
    assert the_same(reports, "total").tolist() == [2]


def test_a_closed_channel_says_so() -> None:
    reports = start("closes")
    assert the_same(reports, "other").tolist() == [4]
    assert "is closed" in the_same(reports, "closed")
    assert the_same(reports, "total").tolist() == [2]
    assert "rank 1 has gone away" in reports[0]["gone"]
    assert "is closed" in reports[1]["gone"]


def test_two_jobs_at_once_do_not_mix() -> None:
    with Job(WORKER, 2, args={"case": "everything"}) as first, Job(WORKER, 3, args={"case": "everything"}) as second:
        assert the_same(first.wait(), "blocks")[5] == 4
        assert the_same(second.wait(), "blocks")[5] == 6


def test_two_processes_with_one_rank_are_refused() -> None:
    text = the_same(start("same_rank", 4), "text")
    assert text.startswith("CommunicatorError: two processes say that they are rank 1")
