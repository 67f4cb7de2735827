"""The command line under Paddle's launcher: the workers share the files, and it prints what one process prints."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from tests.cover import quick_on
from tests.distributed.cluster import unless_paddles_own
from tests.nursery import common
from tests.test_docs_scripts import Command, run

pytestmark = pytest.mark.distributed
pytest.importorskip("paddle")

#: What pip installs as `fleetmetrics`, except for the status, which the launcher does not tell. The lines on how long
#: work takes are left out: only a busy machine has them.
SCRIPT = f"""#!{sys.executable}
import os, sys
from fleetmetrics.cli import main
from fleetmetrics.comm import channel
from fleetmetrics.evaluation.question import versus
from fleetmetrics.support import logs
channel._LINES, logs.LONG_SECONDS = (3600.0,) * 3, 3600.0
versus._GROUPS = 64  # a delta keeps a histogram for each
status = main()
print(status, file=open("status" + os.environ.get("PADDLE_TRAINER_ID", ""), "w"))
sys.exit(status)
"""
DATA = """
import numpy as np
rng = np.random.default_rng(0)
for folder in ("new", "old"):
    for part in range(3):
        p = rng.random(1000)
        y, uid = (rng.random(1000) < p).astype(int), rng.integers(0, 50, 1000)
        like = np.where(np.arange(1000) % 3 == 0, np.nan, 1 - y)
        np.savez(f"{folder}{part}.npz", p=p, y=y, uid=uid, slot=rng.integers(0, 3, 1000), like=like, q=1 - p)
"""
#: The rows of the second task, its positives and users, those without a label, and the baseline's.
TASK = ["like", "1,998", "1,025", "50", "1,002", "1,998"]
OPTIONS = (
    "--label y --score p --user uid --by slot --metrics auc,log_loss,gauc --ci 0.9 --replicates 50 --save-state day.fms"
)


def both(folder: Path, options: str) -> tuple[list[list[str]], list[str], list[str]]:
    """What one process, and each of two workers, print and leave as status; and what the saved states hold."""
    launcher = "python -m paddle.distributed.launch --nproc_per_node 2 --log_dir log ./fleetmetrics"
    text = f"./fleetmetrics evaluate {options} >alone.log 2>&1 || true\n"
    text += "mkdir alone; mv day.fms alone; mv status status.alone\n"
    text += f"{launcher} evaluate {options} >launch.log 2>&1 || true\nmv status1 status.1; mv status0 status.0\n"
    text += "./fleetmetrics merge day.fms >day.txt; cd alone; ../fleetmetrics merge day.fms >../alone.txt\n"
    run(Command(text, [], False), folder, **forked())
    logs = [(folder / name).read_text().splitlines() for name in ("alone.log", "log/workerlog.0", "log/workerlog.1")]
    merged = [(folder / name).read_text() for name in ("alone.txt", "day.txt")]
    return logs, [(folder / name).read_text().strip() for name in ("status.alone", "status.0", "status.1")], merged


def forked() -> dict[str, str]:
    """The environment in which all programs are forked where Paddle is imported already."""
    return common().environment("fleetmetrics", "data.py", "paddle.distributed.launch")


def made(tmp_path: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    (folder / "fleetmetrics").write_text(SCRIPT)
    (folder / "fleetmetrics").chmod(0o755)
    run(Command(f"cat > data.py <<'END'\n{DATA}END\npython data.py\n", [], False), folder, **forked())
    return folder


@quick_on(paddle=2)
def test_two_workers_print_once_what_one_process_prints(tmp_path: Path) -> None:
    def check() -> None:
        options = f"'new*.npz' --baseline 'old*.npz' {OPTIONS} --fail-if 'auc<0.9' "
        (alone, first, second), statuses, states = both(made(tmp_path), options)
        assert first == alone and any(
            line.startswith("3,000 rows, 1,503 positives, 50 users in 3 files") for line in alone
        ), (alone, first)
        assert second == [line for line in alone if line.startswith("fleetmetrics: ")]  # the condition that holds
        assert statuses == ["1", "1", "1"] and states[0] == states[1]

    unless_paddles_own(check)


@pytest.mark.thorough
def test_two_workers_print_what_one_process_prints_of_several_tasks(tmp_path: Path) -> None:
    def check() -> None:
        options = f"'new*.npz' --baseline 'old*.npz' {OPTIONS.replace('y --score p', 'y,like --score p,q')}"
        (alone, first, second), statuses, states = both(made(tmp_path), f"{options} --fail-if 'like.auc<0.9'")
        assert first == alone and any(line.split() == TASK for line in alone), (alone, first)
        assert second == [line for line in alone if line.startswith("fleetmetrics: ")]
        assert "'like.auc<0.9' holds: like.auc is " in second[0]
        assert statuses == ["1", "1", "1"] and states[0] == states[1]

    unless_paddles_own(check)


@quick_on(paddle=2)
def test_a_bad_file_of_one_worker_ends_all_alike_and_the_rest_is_kept(tmp_path: Path) -> None:
    def check() -> None:
        folder = made(tmp_path)
        (folder / "new1.npz").write_bytes((folder / "new1.npz").read_bytes()[:-50])
        (alone, first, second), statuses, states = both(folder, f"'new*.npz' {OPTIONS}")
        assert statuses == ["3", "3", "3"] and alone == first == second
        assert "new1.npz" in alone[0] and "usable files: 2" in alone[1] and states[0] == states[1]

    unless_paddles_own(check)
