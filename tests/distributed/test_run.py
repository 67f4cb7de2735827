"""``python -m fleetmetrics.run`` in front of Paddle's launchers, old and new, with an unedited script."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.cover import quick_on
from tests.distributed.cluster import unless_paddles_own
from tests.nursery import common
from tests.test_docs_scripts import Command, run

pytestmark = pytest.mark.distributed

SCRIPT = """
import os, sys, time
import numpy as np
import paddle
from paddle.distributed import fleet
from paddle.distributed.fleet.metrics import mae
from paddle.distributed.fleet.metrics.metric import auc

if os.environ.get("TRAINING_ROLE") == "PSERVER":
    print("here is a server with", sys.argv[1:], flush=True)
    open("served", "w").close()
    sys.exit()
if os.environ.get("TRAINING_ROLE") == "COORDINATOR":
    print("here is a coordinator with rank", os.environ["PADDLE_TRAINER_ID"], flush=True)
    open("coordinated", "w").close()
    time.sleep(600)  # it stays as long as the job
others = {"collective": [], "ps": ["served"], "federated": ["served", "coordinated"]}[sys.argv[1]]
while not all(map(os.path.exists, others)):  # the launcher ends them when the workers end
    time.sleep(0.01)
rank = int(os.environ["PADDLE_TRAINER_ID"])
paddle.enable_static()
fleet.init(is_collective=sys.argv[1] == "collective")
values = [
    fleet.metrics.sum(np.array([16777217.0 + rank]), util=fleet.util).tolist(),
    fleet.metrics.max(np.array([-5, rank])).tolist(),
    fleet.metrics.acc(np.array(rank), np.array(2)),
    mae(np.array([1.0 + rank]), np.array([4])),
    auc(np.array([[0, rank]]), np.array([[1, 1 - rank]])),
]
print("here is a worker with", values, sys.argv[1:])
"""
#: The page on existing scripts has ``-m paddle.distributed.launch``.
LAUNCHES = {
    "fleetrun": "fleetrun --nproc_per_node=2 --backend=gloo",
    "servers": "fleetrun --server_num=1 --worker_num=2",
    "federated": "fleetrun --server_num=1 --worker_num=2 --coordinator_num=1",
    "old launcher": "-m paddle.distributed.fleet.launch --server_num=1 --worker_num=2",
}


@pytest.fixture(scope="module")
def forked() -> dict[str, str]:
    """The environment in which it, the launchers and the workers are forked where Paddle is imported already."""
    return common().environment("fleetmetrics.run", "run.py")


@pytest.mark.parametrize(
    "launch", [pytest.param(launch, marks=quick_on(paddle=3 if launch == "fleetrun" else 2)) for launch in LAUNCHES]
)
def test_each_launcher_lets_it_through_and_all_workers_have_the_global_numbers(
    launch: str, forked: dict[str, str], tmp_path: Path
) -> None:
    """Under the first one workers import Paddle when the script does, under the others it is there before.

    Servers and coordinators have variables of the workers, and are none of them.
    """
    variables = common().environment("fleetmetrics.run") if launch == "fleetrun" else forked
    mode = {"fleetrun": "collective", "federated": "federated"}.get(launch, "ps")
    line = f"python -m fleetmetrics.run {LAUNCHES[launch]} job.py {mode} --epochs=2 >launcher.log 2>&1\n"
    command = Command(
        f"cat > job.py <<'END'\n{SCRIPT}END\n{line}grep -h 'here is\\|replaces functions' log/*\n", [], False
    )

    def check() -> None:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        printed = run(command, folder, **variables)
        logs = "\n".join(path.read_text(errors="replace") for path in folder.glob("log/*"))
        values = [[33554435.0], [-5, 1], 0.25, 0.375, 2.5 / 3]
        worker = f"here is a worker with {values} ['{mode}', '--epochs=2']"
        assert [each for each in printed if "worker" in each] == [worker] * 2, logs
        assert len([each for each in printed if "replaces functions" in each]) == 1, logs
        servers = [f"here is a server with ['{mode}', '--epochs=2']"] * (mode != "collective")
        assert [each for each in printed if "server" in each] == servers, logs
        coordinators = ["here is a coordinator with rank 0"] * (mode == "federated")  # the first worker's rank
        assert [each for each in printed if "coordinator" in each] == coordinators, logs

    unless_paddles_own(check)


@quick_on(paddle=3)
def test_behind_the_launcher_it_is_taken_for_a_file(tmp_path: Path) -> None:
    """Why it goes in front."""
    text = "fleetrun --nproc_per_node=1 --backend=gloo -m fleetmetrics.run job.py >launcher.log 2>&1 || true\n"
    text += "cat log/*log.*\n"
    printed = run(Command(text, [], False), tmp_path, **common().environment("fleetrun"))
    assert any("can't open file" in line and "fleetmetrics.run" in line for line in printed)
