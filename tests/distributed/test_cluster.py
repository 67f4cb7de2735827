"""The harness itself: a worker that is missing, fails or hangs fails the test, and leaves nothing behind."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.distributed import forks
from tests.distributed.cluster import Job, run

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]
ROOT = Path(__file__).resolve().parents[2]
REPORT = "import os, time\nfrom cluster import arguments, report\nrank = int(os.environ['PADDLE_TRAINER_ID'])\n"


def script(directory: Path, code: str) -> Path:
    path = directory / "worker.py"
    path.write_text(REPORT + code)
    return path


def test_reports_come_back_in_the_order_of_the_ranks_with_every_bit(tmp_path: Path) -> None:
    code = "import numpy as np\nreport(x=0.1 * rank, a=np.array([rank, 2**63 - 1]), given=arguments()['n'])"
    reports = run(script(tmp_path, code), 3, args={"n": 5})
    assert [report["x"] for report in reports] == [0.0, 0.1, 0.2]
    assert [report["a"].tolist() for report in reports] == [[rank, 2**63 - 1] for rank in range(3)]
    assert reports[0]["a"].dtype == np.int64 and all(report["given"] == 5 for report in reports)


def test_a_worker_that_does_not_report_fails_the_test(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"no report of ranks \[1\]"):
        run(script(tmp_path, "if rank == 0: report(x=1)"), 2)


def test_a_worker_that_ends_with_an_error_fails_the_test_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"(?s)process 1 ended with 1\n.*ZeroDivisionError"):
        run(script(tmp_path, "report(x=1 / (1 - rank))"), 2)


def test_a_worker_that_hangs_fails_the_test_in_time_and_is_ended(tmp_path: Path) -> None:
    with Job(script(tmp_path, "report(x=1)\ntime.sleep(600 * rank)"), 2) as job:
        with pytest.raises(AssertionError, match=r"not ready within 1 s"):
            job.wait(1)
        hanging = job.processes[1]
        assert hanging.poll() is None
    assert hanging.poll() is not None


def test_the_imports_of_a_first_connection_precede_the_fork_of_a_worker() -> None:
    # A child that is forked while a thread of the test imports this waits for the import forever.
    code = "import sys, tests.distributed.forks; before = set(sys.modules); import socket\n"
    code += "listener = socket.create_server(('127.0.0.1', 0)); socket.create_connection(listener.getsockname())\n"
    code += "print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_leftovers_of_a_test_close_nothing_of_a_forked_worker() -> None:
    """A socket in a cycle of the test's is collected in its own time; a worker may have another one of its number."""
    left: list[object] = [socket.socket()]
    left.append(left)
    number = left[0].fileno()  # type: ignore[attr-defined]
    gc.disable()
    try:
        del left

        def work() -> bool:
            mine = [socket.socket() for _ in range(number)]
            gc.collect()
            return all(os.fstat(each.fileno()) for each in mine)

        worker = forks.Fork(work)
        assert worker.result() is True
    finally:
        gc.enable()
