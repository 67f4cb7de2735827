"""Processes share files, and are gone however the call ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.files import processes
from fleetmetrics.files.processes import processes_kept, results_of

pytestmark = pytest.mark.numpy_only
pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = {"prediction": "p", "label": "y"}


def start(code, *args, **more):
    """A program that is a file, as a user's is, without a guard around its calls."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)], env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, **more
    )


def test_answers_of_processes_are_those_of_one():
    assert sorted(results_of(divmod, [(7, 2), (9, 2), (11, 2)], 2)) == [(3, 1), (4, 1), (5, 1)]
    assert list(results_of(print, [("not an answer",), ("neither",)], 2)) == [None, None]


def test_processes_that_are_kept_work_for_the_next_call_and_are_gone_behind_it(monkeypatch):
    started = []
    start_one = processes._start
    monkeypatch.setattr(processes, "_start", lambda: started.append(start_one()) or started[-1])

    def answers(*tasks):
        found = results_of(int, tasks, 2, join=_listed)
        return sorted(number for part in found for number in part)

    with processes_kept():
        assert answers(("1",), ("2",), ("3",)) == [1, 2, 3]
        assert answers(("4",), ("5",)) == [4, 5] and len(started) == 2  # and no answer of the call before
        assert [each.poll() for each in started] == [None, None]
        with pytest.raises(ValueError, match="invalid literal"):
            answers(("one",), ("two",))
        assert answers(("6",), ("7",)) == [6, 7] and len(started) > 2  # not by one that was stopped
    assert [each.wait(30) is None for each in started] == [False] * len(started)
    assert answers(("8",), ("9",)) == [8, 9] and all(each.wait(30) is not None for each in started)


def test_a_function_of_the_main_program_works_in_this_process_with_a_warning(monkeypatch):
    def doubled(number):
        return 2 * number

    doubled.__module__, doubled.__qualname__ = "__main__", "doubled"
    monkeypatch.setattr(sys.modules["__main__"], "doubled", doubled, raising=False)
    with pytest.warns(UserWarning, match="one process reads everything, because .* is defined in the main program"):
        assert list(results_of(doubled, [(1,), (2,)], 2)) == [2, 4]


def test_ctrl_c_comes_to_the_program_alone():
    """Processes are in sessions of their own: the terminal would interrupt all of its session."""
    sessions = list(results_of(os.getsid, [(0,), (0,)], 2))
    assert os.getsid(0) not in sessions and len(sessions) == 2


def _listed(parts):
    """Results in one list."""
    return [each for part in parts for each in (part if isinstance(part, list) else [part]) if each is not None]


def test_the_error_of_a_task_is_raised_and_a_dead_process_is_named():
    with pytest.raises(ValueError, match="invalid literal"):
        list(results_of(int, [("1",), ("one",)], 2))
    with pytest.raises(RuntimeError, match="a process that read files ended with status 3"):
        list(results_of(os._exit, [(3,), (3,)], 2))


class HeldError(Exception):
    """No pickle holds it."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class TwoPartError(Exception):
    """A pickle holds it, but does not give it back."""

    def __init__(self, text, number):
        super().__init__(text)


def raise_(kind, *given):
    raise {"held": HeldError, "two": TwoPartError}[kind](*given)


@pytest.mark.parametrize("task", [("held", "no room"), ("two", "no room", 2)])
def test_an_error_that_cannot_be_pickled_is_passed_on_as_text(task):
    with pytest.raises(RuntimeError, match=r"^(Held|TwoPart)Error: no room$"):
        list(results_of(raise_, [task, task], 2))


def test_no_thread_works_for_a_call_that_has_raised():
    under_way, raised, ended = threading.Event(), threading.Event(), []

    def fail():
        under_way.wait(60)
        raise ValueError("not this one")

    def work():
        under_way.set()
        ended.append(raised.wait(0.3))

    with pytest.raises(ValueError, match="not this one"):
        list(results_of(lambda task: task(), [(fail,), (work,), (work,)], 1, threads=2))
    raised.set()
    assert ended == [False]  # it ended before the error came; the third never began


SCRIPT = """
import sys
import fleetmetrics
from fleetmetrics import files
found = files.evaluate(
    sys.argv[1], lambda: fleetmetrics.MetricCollection([fleetmetrics.Count(name="n")]),
    {"prediction": "p", "label": "y"}, processes=2)
print(found.metrics.compute(), found.read.rows)
"""


def test_a_program_needs_no_guard_and_may_make_its_metrics_by_a_lambda(tmp_path):
    for place in range(3):
        pq.write_table(pa.table({"p": [0.5] * 10, "y": [1] * 10}), tmp_path / f"{place}.parquet")
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, tmp_path / "script" / "script.py", tmp_path / "*.parquet"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("{'n': 30} 30\n", "")


def test_metrics_that_other_processes_cannot_make_are_made_here_with_a_warning(tmp_path):
    for place in range(2):
        pq.write_table(pa.table({"p": [0.5], "y": [1]}), tmp_path / f"{place}.parquet")

    class Own(fm.Count):
        pass

    with pytest.warns(UserWarning, match="one process reads everything, because the metrics cannot be sent"):
        assert files.evaluate(tmp_path, Own, COLUMNS, processes=2).read.rows == 2


WAIT = """
import time
from fleetmetrics.files import processes
from fleetmetrics.files.processes import processes_kept, results_of
print("ready", flush=True)
try:
    list(results_of(time.sleep, [(60,), (60,)], 2))
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def children(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except (OSError, ValueError):
            continue
    return found


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_stays_when_the_program_is_stopped(how):
    program = start(WAIT, stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 30
        while len(children(program.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        others = children(program.pid)
        assert len(others) == 2
        time.sleep(0.5)
        program.send_signal(how)
        assert program.stdout.read() == ("stopped\n" if how == signal.SIGINT else "")
        program.wait()
        while not all(map(gone, others)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert all(map(gone, others))
    finally:
        program.kill()
        program.stdout.close()
        program.wait()
