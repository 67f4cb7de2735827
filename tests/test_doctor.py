"""What the doctor says of a process, of a job, and of broken environments."""

from __future__ import annotations

import gc
import importlib
import re
import sys
import types
from pathlib import Path
from typing import Any, Iterator

import pytest

import fleetmetrics as fm
from fleetmetrics import errors
from fleetmetrics.support.environment import SETTINGS
from tests.cover import quick_on
from tests.distributed.cluster import free_ports
from tests.nursery import Ended, common
from tests.pages import both

ROOT = Path(__file__).resolve().parent.parent


def seen(capsys: Any, **options: Any) -> tuple[bool, list[str]]:
    fine = fm.doctor(**options)
    return fine, capsys.readouterr().out.splitlines()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No channel, and no metric or sampler that another test has left: `gc.get_objects` leaves out what is frozen."""
    from fleetmetrics.comm import choose

    monkeypatch.setattr(choose, "_automatic", None)
    gc.freeze()
    yield


def test_one_process_with_paddle_has_nothing_to_fix(capsys: Any) -> None:
    import paddle

    fine, lines = seen(capsys)
    assert fine and lines[-1] == "nothing to fix"
    assert lines[0].startswith(f"fleetmetrics {fm.__version__}, Python ")
    assert lines[0].endswith(f"Paddle {paddle.__version__} in dynamic mode")
    assert "environment: no launcher" in lines
    assert "channel: LocalCommunicator, rank 0 of 1: the environment names one worker" in lines
    paddle.enable_static()
    try:
        kind = "PIR" if paddle.__version__.startswith("3") else "legacy graph"
        assert seen(capsys)[1][0].endswith(f"in static mode, {kind}")
    finally:
        paddle.disable_static()
    with fm.set_communicator(fm.LocalCommunicator()):
        assert seen(capsys)[1][2].endswith("the program has called set_communicator")


def test_metrics_without_the_sampler_that_repeats_samples_are_named(capsys: Any) -> None:
    from paddle.io import DistributedBatchSampler

    def told(name: str) -> list[str]:
        return [line for line in seen(capsys)[1] if line.startswith("padding:") and name in line]

    sampler = DistributedBatchSampler(range(47), 4, num_replicas=3, rank=0)
    untold, idle = fm.Count(name="untold"), fm.Count(name="idle")
    aware = fm.MetricCollection({"n": fm.Count(name="member")}, name="aware", sampler=sampler)
    untold.add([1.0] * 16)
    aware.add([1.0] * 16)
    (line,) = told("untold (Count)")
    assert line.startswith(
        "padding: DistributedBatchSampler assigns 48 samples to 3 workers, of which 47 are distinct."
    )
    assert line.endswith("unless a mask removes them; create it with sampler=")
    assert not any(map(told, ("idle", "aware", "member"))) and idle.sampler is None
    good, lines = seen(capsys)
    assert not good and "nothing to fix" not in lines
    assert "to fix: create untold (Count) with sampler=: it counts repeated samples again" in lines
    untold.reset()
    assert not told("untold")
    untold.add([1.0])
    assert not any(line.startswith("to fix: create") for line in seen(capsys)[1])  # a part of a pass, or of another
    sampler.dataset = range(48)
    assert not [line for line in told("untold") if "48 samples to 3" in line]


@pytest.mark.parametrize(
    ("environment", "kind", "words"),
    [
        ({"PADDLE_TRAINERS_NUM": "two"}, "InvalidInputError", "PADDLE_TRAINERS_NUM holds 'two'"),
        ({"PADDLE_TRAINERS_NUM": "2"}, "NoChannelError", "PADDLE_TRAINER_ID is not set. Set it to the number of each"),
        ({"PADDLE_TRAINER_ENDPOINTS": "a:1,b:2"}, "NoChannelError", "set PADDLE_TRAINERS_NUM"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "NoChannelError", "set FLEETMETRICS_ENGINE=mpi"),
        ({"FLEETMETRICS_ENGINE": "ucx"}, "InvalidInputError", "FLEETMETRICS_ENGINE holds 'ucx'"),
        ({"FLEETMETRICS_TIMEOUT": "abc"}, "InvalidInputError", "FLEETMETRICS_TIMEOUT is 'abc'"),
        ({"FLEETMETRICS_LOG": "debugg"}, "InvalidInputError", "FLEETMETRICS_LOG holds 'debugg'"),  # codespell:ignore
        ({"FLEETMETRICS_DIGESTS": "some"}, "InvalidInputError", "FLEETMETRICS_DIGESTS holds 'some'"),
        ({"FLEETMETRICS_ENDPOINT": "here:1"}, "NoChannelError", "the number of workers is unknown"),
        ({"WORLD_SIZE": "3"}, "NoChannelError", "RANK is not set"),
        ({"SLURM_STEP_NUM_TASKS": "3"}, "NoChannelError", "SLURM_PROCID is not set"),
    ],
)
def test_a_broken_environment_is_shown_with_what_to_fix(
    environment: dict[str, str], kind: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    fine, lines = seen(capsys)
    [(name, value)] = environment.items()
    assert not fine and f"environment: {name}={value}" in lines
    [line] = [line for line in lines if line.startswith("to fix: ")]
    assert line.startswith(f"to fix: {kind}: ") and words in line and hasattr(errors, kind)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("FLEETMETRICS_TIMEOT", "FLEETMETRICS_TIMEOUT"),
        ("FLEETMETRICS_SECRT", "FLEETMETRICS_SECRET"),
        ("FleetMetrics_Log", "FLEETMETRICS_LOG"),
        ("FLEETMETRICS", "FLEETMETRICS_"),
    ],
)
def test_a_setting_that_there_is_not_is_named_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, name: str, near: str
) -> None:
    monkeypatch.setenv(name, "3")
    fine, lines = seen(capsys)
    assert not fine and f"to fix: there is no setting {name}; did you mean {near}" in lines[-1]


def test_every_setting_that_the_package_reads_is_known() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "fleetmetrics").rglob("*.py"))
    read = set(re.findall(r"(?:environ|env|setting)[^\n]{0,8}[\[(]\"(FLEETMETRICS_[A-Z]+)", text))
    assert len(read) > 5 and read <= set(SETTINGS)
    for page in both("reference/environment"):
        assert all(f"`{name}`" in page.read_text("utf-8") for name in SETTINGS)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"TRAINING_ROLE": "PSERVER"}, "a parameter server"),
        ({"PADDLE_ROLE": "PSERVER"}, "a parameter server"),
        ({"TRAINING_ROLE": "COORDINATOR"}, "a coordinator of federated learning"),
    ],
)
def test_the_doctor_recognises_a_process_that_is_not_a_worker_with_nothing_to_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, settings: dict[str, str], words: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    fine, lines = seen(capsys)
    assert fine and lines[-1] == f"this is {words}; nothing to fix"
    monkeypatch.setenv("FLEETMETRICS_TIMEOUT", "soon")
    fine, lines = seen(capsys)
    assert not fine and lines[-1].startswith("to fix: InvalidInputError: ")


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_host_that_cannot_be_resolved_is_named_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, rank: str
) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("PADDLE_TRAINER_ID", rank)
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "no.such.host.invalid:80,127.0.0.1:81")
    monkeypatch.setenv("FLEETMETRICS_SECRET", "x")
    fine, lines = seen(capsys)
    assert not fine and "to fix: the host of rank 0 is 'no.such.host.invalid', which cannot be resolved" in lines[-1]
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:80,127.0.0.1:81")
    monkeypatch.setenv("FLEETMETRICS_BIND", "nor.this.invalid:80")
    from fleetmetrics.comm import choose

    monkeypatch.setattr(choose, "_automatic", None)
    fine, lines = seen(capsys, timeout=0.5)
    assert not fine and ("FLEETMETRICS_BIND is 'nor.this.invalid:80', which" in lines[-1]) == (rank == "0")


def test_a_worker_whose_peers_are_missing_gets_an_error_by_the_deadline(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    monkeypatch.setenv("FLEETMETRICS_ENDPOINT", f"127.0.0.1:{free_ports(1)[0]}")
    fine, lines = seen(capsys, timeout=2)
    assert not fine and lines[-1].startswith("to fix: call doctor() on every worker")
    assert lines[-2].startswith("to fix: DeadlineError: rank 1 did not connect within 2 s")


def test_a_run_that_nothing_names_is_to_be_fixed(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    place = {"PADDLE_TRAINERS_NUM": "2", "PADDLE_TRAINER_ID": "0", "PADDLE_TRAINER_ENDPOINTS": "no.such.invalid:80,a:1"}
    for name, text in {**place, "FLEETMETRICS_SECRET": "x"}.items():
        monkeypatch.setenv(name, text)
    _, lines = seen(capsys)
    assert "; nothing names the run; " in lines[2]
    assert any(line.startswith("to fix: nothing names this run: ") and "FLEETMETRICS_RUN" in line for line in lines)
    monkeypatch.setenv("FLEETMETRICS_RUN", "nightly")
    _, lines = seen(capsys)
    assert "; the run is FLEETMETRICS_RUN=nightly; " in lines[2] and not any("nothing names" in line for line in lines)


def test_no_secret_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    for name in ("FLEETMETRICS_SECRET", "PADDLE_JOB_TOKEN", "POD_PASSWORD"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("PADDLE_ELASTIC_SERVER", "http://somebody:hunter2@etcd:2379")
    monkeypatch.setenv("AWS_ACCESS_KEY", "hunter2")
    _, lines = seen(capsys)
    said = "\n".join(lines)
    assert "hunter2" not in said and "AWS" not in said
    assert "FLEETMETRICS_SECRET=(hidden)" in said and "PADDLE_ELASTIC_SERVER=http://(hidden)@etcd:2379" in said


def test_packages_that_conflict_with_paddle_are_named_without_importing_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    module = importlib.import_module("fleetmetrics.doctor")
    versions = {"paddlepaddle": "2.6.2", "numpy": "2.1.0", "protobuf": "7.0"}
    monkeypatch.setattr(module, "_installed", lambda name: versions.get(name, ""))
    monkeypatch.delitem(sys.modules, "paddle", raising=False)
    (tmp_path / "paddle.py").write_text("import os\nos.write(2, b'no device\\n')\nos.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fine, lines = seen(capsys)
    assert not fine and lines[0].endswith("Paddle 2.6.2, not imported here")
    assert [line for line in lines if line.startswith("to fix")] == [
        "to fix: Paddle 2.6.2 with NumPy 2.1.0 and protobuf 7.0: pip install 'numpy<2' 'protobuf<5'",
        "to fix: `import paddle` fails: no device",
    ]
    versions.clear()
    fine, lines = seen(capsys)
    assert fine and lines[0].endswith("Paddle is not installed")


def test_the_module_can_be_called_where_it_hides_the_function(capsys: Any) -> None:
    module = importlib.import_module("fleetmetrics.doctor")
    assert isinstance(module, types.ModuleType) and module() and "nothing to fix" in capsys.readouterr().out


@quick_on(paddle=3)
def test_as_a_program_it_ends_with_1_where_something_is_to_be_fixed(tmp_path: Path) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    env = {"PYTHONPATH": str(ROOT), "PADDLE_TRAINERS_NUM": "2", "PATH": ""}
    status = common().start(["-m", "fleetmetrics.doctor"], tmp_path, out, err, env).wait(60)
    assert status == 1 and "to fix: NoChannelError" in out.read_text() and err.read_text() == ""


@pytest.mark.distributed
def test_the_doctor_tells_three_workers_about_the_channel_and_their_differences(tmp_path: Path) -> None:
    ports = free_ports(3)
    code = "import fleetmetrics.doctor as d, os\n"
    code += "d.__version__ = '0.0.1' if os.environ['PADDLE_TRAINER_ID'] == '2' else d.__version__\nd.doctor()\n"
    workers = []
    for rank in range(3):
        env = {
            "PADDLE_TRAINERS_NUM": "3",
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(f"127.0.0.1:{port}" for port in ports),
            "PYTHONPATH": str(ROOT),
            "FLEETMETRICS_SECRET": "hunter2",
            "POD_NAME": "qkxvcb",
        }
        out = tmp_path / f"{rank}.out"
        workers.append((common().start(["-c", code], tmp_path, out, out, env), out))
    ended = [Ended(child.wait(60), out.read_text(), "") for child, out in workers]
    for rank, each in enumerate(ended):
        assert each.status == 0 and "hunter2" not in each.out, each.out
        assert (
            f"channel: SocketCommunicator, rank {rank} of 3: several workers in the environment, of Paddle's launcher;"
            " the run is POD_NAME=qkxvcb; engine: sockets" in each.out
        )
        assert "all prove that they know the job's secret" in each.out and "exchange: 3 workers, " in each.out
        shown = [re.sub(r"[\d.]+", "0", line.partition(", Paddle")[0]) for line in each.out.splitlines()]
        for page in both("howto/logs"):
            text = page.read_text("utf-8").partition("<!-- doctor -->\n```text\n")[2]
            lines = [re.sub(r"[\d.]+", "0", line.partition(", Paddle")[0]) for line in text.splitlines()[:4]]
            assert lines[2:] == shown[2:4] and (rank == 2 or lines[0] == shown[0])
        differ = f"to fix: the workers differ in fleetmetrics: {fm.__version__} on ranks 0, 1, 0.0.1 on rank 2"
        assert each.out.splitlines()[-1] == differ
