"""The log of exchanges and of long work, and who gets it."""

from __future__ import annotations

import io
import logging
import re
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from fleetmetrics.support import logs
from tests.distributed.cluster import free_ports
from tests.distributed.forks import crew, member, outcome, results, wait_for
from tests.pages import both

pytestmark = pytest.mark.numpy_only

ROOT = Path(__file__).resolve().parents[2]
LINE = re.compile(
    r"fleetmetrics: rank 0, exchange \d+ \((?P<call>[^)]+)\): (?P<bytes>\d+) bytes in, "
    r"(?P<told>\d+ bytes|an error) to each, "
    r"(?P<ms>[\d.]+) ms(?:; rank (?P<last>\d) came last(?:, (?P<behind>[\d.]+) ms after the middle one)?)?"
)


def said(work: Any, level: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a forked worker's logger prints; call it in the worker."""
    monkeypatch.setenv("FLEETMETRICS_LOG", level)
    logs.logger.handlers.clear()
    logs.logger.propagate = False
    sys.stderr = io.StringIO()
    work()
    return sys.stderr.getvalue().splitlines()


def test_each_exchange_logs_its_call_size_time_and_last_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_ports(1)[0]

    def tell_when_two_wait(server: Any) -> None:
        while not any(len(meeting.arrivals) == 2 for meeting in list(server._meetings.values())):
            time.sleep(0.001)
        (tmp_path / "the others wait").touch()

    def work(rank: int) -> Any:
        def calls() -> None:
            channel = member(rank, 3, port)
            channel.barrier(timeout=30)
            if rank == 2:
                wait_for(tmp_path / "the others wait")
                time.sleep(0.1)
            elif rank == 0:
                threading.Thread(target=tell_when_two_wait, args=(channel._end,)).start()
            channel.all_reduce([1.0] * 1000, timeout=30)
            outcome(lambda: channel.broadcast([1], source=rank, timeout=30))

        return said(calls, "info", monkeypatch)

    with crew(3, work) as workers:
        first, second, third = results(workers)
    assert [len(lines) for lines in (first, second, third)] == [3, 3, 3]
    barrier, reduce, wrong = (LINE.search(line) for line in first)
    assert (barrier["call"], reduce["call"]) == ("barrier", "all_reduce")
    out = re.search(rf"(\d+) bytes out, {reduce['told']} in", second[1])
    assert int(out[1]) * 2 == int(reduce["bytes"]) >= 16000
    assert reduce["last"] == "2" and float(reduce["behind"]) > 50
    assert "INFO fleetmetrics: rank 0" in first[0]
    assert float(re.search(r"([\d.]+) ms", second[1])[1]) > 50
    assert wrong["told"] == "an error" and ", an error in, " in third[2]


def test_a_letter_that_comes_before_an_exchange_is_logged_is_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        def calls() -> None:
            channel = member(rank, 2, port)
            if rank == 0:
                end, reply = channel._end, channel._end.reply

                def slow(*arguments: Any) -> Any:
                    """The program's thread gets the answer when rank 1 has already come to the next exchange."""
                    message = reply(*arguments)
                    while message.call == 1 and not any(place[1] == 2 for place in end._meetings):
                        time.sleep(0.001)
                    return message

                end.reply = slow
            channel.barrier(timeout=30)
            channel.all_reduce([1.0] * 1000, timeout=30)

        return said(calls, "info", monkeypatch)

    with crew(2, work) as workers:
        (barrier, reduce), (_, sent) = results(workers)
    assert " 0 bytes in," in barrier
    assert LINE.search(reduce)["bytes"] == re.search(r"(\d+) bytes out", sent)[1]


def test_exchanges_of_a_group_are_logged_by_the_ranks_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_ports(1)[0]

    def work(rank: int) -> Any:
        def calls() -> None:
            channel = member(rank, 4, port)
            channel.barrier(timeout=30)
            channel.among([0, 2] if rank % 2 == 0 else [1, 3]).all_reduce([1], timeout=30)
            channel.barrier(timeout=30)  # rank 0's process stays so long

        return said(calls, "info", monkeypatch)

    with crew(4, work) as workers:
        lines = [lines[1] for lines in results(workers)]
    assert [re.search(r"rank \d, .*in the group of ranks \d, \d", line)[0] for line in lines] == [
        f"rank {rank}, exchange 1 (all_reduce) in the group of ranks {rank % 2}, {rank % 2 + 2}" for rank in range(4)
    ]
    assert re.search("rank [02] came last", lines[0])
    assert not re.search("came last", "".join(lines[1:]))


def test_without_a_reader_of_the_log_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEETMETRICS_LOG", raising=False)
    assert logs.watch(0) is None and member(0, 2, free_ports(1)[0])._watch is None
    monkeypatch.setattr(logging.root, "level", logging.INFO)  # as Paddle does
    assert logs.watch(0) is None
    monkeypatch.setattr(logs.logger, "level", logging.INFO)
    assert logs.watch(0) is not None


def test_an_invalid_level_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETMETRICS_LOG", "loud")
    with pytest.raises(fm.InvalidInputError, match="FLEETMETRICS_LOG holds 'loud'; it must be info, warning"):
        member(0, 2, free_ports(1)[0])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    now = types.SimpleNamespace(time=1000.0)
    monkeypatch.setattr(logs, "time", types.SimpleNamespace(monotonic=lambda: now.time))
    return now


def meet(watch: logs.Watch, clock: Any, delays: dict[int, float]) -> None:
    start, attendance = clock.time, logs.Attendance()
    for rank, delay in sorted({0: 0.0, **delays}.items(), key=lambda each: each[1]):
        clock.time = start + delay
        attendance.note(rank, b"12345678")
    watch.over("exchange 1 (AUC auc)", b"", b"1234", clock.time - start, attendance)
    clock.time += 1


def test_a_rank_that_keeps_the_others_waiting_regularly_is_named_once_in_a_while(clock: Any, caplog: Any) -> None:
    watch = logs.Watch(0)
    with caplog.at_level(logging.WARNING, "fleetmetrics"):
        for number in range(20):
            meet(watch, clock, {1: 0.01, 2: 0.02, 3: 0.5 if number % 10 else 0.01, 4: 0.03 if number % 10 else 0.4})
            meet(watch, clock, {1: 0.001, 2: 0.002, 3: 0.001, 4: 0.002})  # the later rounds of one compute
    text = "fleetmetrics: rank 3 came last at 9 of the last 10 exchanges at which a worker was late, by"
    assert [record.getMessage()[: len(text)] for record in caplog.records] == [text, text]
    assert "by 4.3 s in all" in caplog.text


def test_ranks_that_take_turns_in_being_late_are_not_named(clock: Any, caplog: Any) -> None:
    watch = logs.Watch(0)
    with caplog.at_level(logging.WARNING, "fleetmetrics"):
        for number in range(40):
            meet(watch, clock, {rank: 0.5 if number % 4 == rank else 0.01 for rank in range(1, 5)})
    assert not caplog.records


def test_rank_0_is_called_last_where_all_waited_for_it(clock: Any, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "fleetmetrics"):
        meet(logs.Watch(0), clock, {1: 0.0, 2: 0.0, 0: 0.25})
        meet(logs.Watch(0), clock, {1: 0.25, 2: 0.5})
    late, early = (LINE.fullmatch(record.getMessage()) for record in caplog.records)
    assert (late["last"], late["behind"]) == ("0", None) and (early["last"], early["behind"]) == ("2", "250.0")


def test_the_page_shows_lines_as_they_are(clock: Any, caplog: Any) -> None:
    for page in both("howto/logs"):
        text = page.read_text("utf-8")
        exchanges = re.findall(r"<!-- exchange -->\n```text\n(.*)\n```", text)
        assert LINE.fullmatch(exchanges[0]) and re.fullmatch(
            r"fleetmetrics: rank 1, exchange 3 \(.*\): \d+ bytes out, \d+ bytes in, [\d.]+ ms", exchanges[1]
        )
        [warning] = re.findall(r"<!-- warning -->\n```text\n(.*)\n```", text)
        watch = logs.Watch(0)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "fleetmetrics"):
            for late in [3] * 9 + [1]:
                meet(watch, clock, {1: 0.0, 2: 0.0, 3: 0.0, late: 4.3 / 9})
        assert [record.getMessage() for record in caplog.records] == [warning]


# -- long work ---------------------------------------------------------------------------------------------


def work_through(clock: Any, seconds: float, rank: int = 0, total: int | None = 100, workers: int = 3) -> None:
    channel = types.SimpleNamespace(rank=rank, world_size=workers)
    for _ in logs.progress(range(100), "GAUC gauc, records", channel, total):
        clock.time += seconds


def test_long_work_says_now_and_then_how_far_it_is(clock: Any, capsys: Any) -> None:
    work_through(clock, 1.0)
    assert capsys.readouterr().err.splitlines() == [
        f"fleetmetrics: rank 0, GAUC gauc, records: {done} of 100 done after {done} s, {100 - done} s left"
        for done in (10, 30, 70)
    ]
    work_through(clock, 1.0, workers=1)
    assert capsys.readouterr().err.startswith(
        "fleetmetrics: GAUC gauc, records: 10 of 100 done after 10 s, 90 s left\n"
    )
    work_through(clock, 0.09)
    work_through(clock, 1.0, rank=1)
    assert capsys.readouterr().err == ""


def test_other_ranks_log_it(clock: Any, caplog: Any) -> None:
    with caplog.at_level(logging.INFO, "fleetmetrics"):
        work_through(clock, 1.0, rank=2, total=None)
    assert caplog.records[0].getMessage() == "fleetmetrics: rank 2, GAUC gauc, records: 10 done after 10 s"


def test_on_a_terminal_it_is_a_bar_and_plain_lines_without_tqdm(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    bars: list[Any] = []

    class Bar:
        def __init__(self, **options: Any) -> None:
            self.options, self.updates, self.closed = options, 0, False
            bars.append(self)

        def update(self, step: int) -> None:
            self.updates += step

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))
    work_through(clock, 1.0)
    assert [(bar.options["initial"], bar.options["total"], bar.updates, bar.closed) for bar in bars] == [
        (10, 100, 90, True)
    ]
    with pytest.raises(ZeroDivisionError):
        for _ in logs.progress(range(100), "it", None):
            clock.time += 20
            if len(bars) > 1:
                raise ZeroDivisionError
    assert sys.stderr.getvalue() == ""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    work_through(clock, 1.0)
    assert sys.stderr.getvalue().startswith(
        "fleetmetrics: rank 0, GAUC gauc, records: 10 of 100 done after 10 s, 90 s left\n"
    )


def test_the_level_warning_keeps_it_quiet(clock: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with logs.without_progress():
        work_through(clock, 1.0)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FLEETMETRICS_LOG", "warning")
    work_through(clock, 1.0)
    assert capsys.readouterr().err == ""


def test_work_of_items_of_different_sizes_says_how_much_and_how_long_it_will_take(clock: Any, capsys: Any) -> None:
    for total, end in ((1000, " of 1,000 rows done after 20 s, 30 s left"), (None, " rows done after 20 s")):
        for size in logs.progress([400, 600], "a.parquet", None, lambda rows=total: rows, int, "rows"):
            clock.time += 20 if size == 400 else 0
        assert capsys.readouterr().err == f"fleetmetrics: a.parquet: 400{end}\n"


def test_folding_gathering_and_offline_evaluation_show_it(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    import numpy as np

    from fleetmetrics.evaluator import Evaluator
    from fleetmetrics.records import fold
    from tests.fakes import Together, together

    monkeypatch.setattr(logs, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(fold, "ROUND_BYTES", 300)

    def work(channel: Together) -> Any:
        metric = fm.GAUC(name="gauc")
        rng = np.random.default_rng(channel.rank)
        metric.add(rng.random(100), rng.integers(0, 2, 100), user=rng.integers(0, 50, 100))
        return metric.compute(communicator=channel)

    together([work] * 2)
    assert re.search(
        r"^fleetmetrics: rank 0, GAUC gauc, records: 1 of \d+ done after 0 s, \d+ s left$",
        capsys.readouterr().err,
        re.M,
    )
    samples = [dict(pred_label=1, gt_label=1)] * 5
    assert Evaluator(dict(type="Accuracy")).offline_evaluate(samples, chunk_size=2)["accuracy/top1"] == 100.0
    assert "fleetmetrics: offline_evaluate: 1 of 3 done after 0 s" in capsys.readouterr().err
