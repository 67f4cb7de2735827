"""``patch_fleet`` and ``python -m fleetmetrics.run``: fleetmetrics behind ``fleet.metrics``, and Paddle's own again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
from paddle.distributed import fleet
from paddle.distributed.fleet import metrics
from paddle.distributed.fleet.metrics import auc as imported_before
from paddle.distributed.fleet.metrics import metric

import fleetmetrics as fm
from fleetmetrics import functional, run
from tests.cover import quick_on

ROOT = Path(__file__).resolve().parents[2]
CALLS = {
    "sum": ([2**24 + 1, 1],),
    "max": ([-5.0, 3.0],),
    "min": ([-5, 3],),
    "acc": (np.array(3), np.array(4)),
    "auc": ([[0, 1, 1]], [[2, 0, 0]]),
    "mae": (6.0, 4),
    "mse": (16.0, 4),
    "rmse": (16.0, 4),
}


class Doubling:
    """A util of the script's own."""

    def all_reduce(self, input, mode):
        return np.asarray(input) * 2


def of_paddle() -> bool:
    """Whether Paddle's own answer: without `fleet.init` they fail."""
    try:
        metrics.acc(np.array([3]), np.array([4]))
    except AttributeError:
        return True
    return False


@pytest.mark.parametrize("name", CALLS)
def test_each_function_is_replaced_under_every_name(name):
    expected = getattr(functional, name)(*CALLS[name])
    with fm.patch_fleet():
        from paddle.distributed.fleet.metrics import metric as imported_now

        for module in (metrics, fleet.metrics, paddle.distributed.fleet.metrics, metric, imported_now):
            value = getattr(module, name)(*CALLS[name])
            assert np.array_equal(value, expected) and type(value) is type(expected)
            assert np.array_equal(getattr(module, name)(*CALLS[name], scope=None, util=None), expected)
    assert of_paddle()


def test_a_name_that_was_imported_before_follows_and_is_given_back():
    with fm.patch_fleet():
        assert imported_before([[0, 1]], [[1, 0]]) == 1.0
    with pytest.raises(AttributeError):
        imported_before([[0, 1]], [[1, 0]])


def test_undo_gives_back_what_paddle_had_and_does_nothing_twice():
    before = [(f.__code__, f.__defaults__, f.__kwdefaults__) for f in (getattr(metric, name) for name in CALLS)]
    first, second = fm.patch_fleet(), fm.patch_fleet()
    first.undo()
    first.undo()
    assert not of_paddle()
    second.undo()
    assert of_paddle()
    assert before == [(f.__code__, f.__defaults__, f.__kwdefaults__) for f in (getattr(metric, name) for name in CALLS)]


def test_an_error_inside_undoes_it():
    with pytest.raises(fm.InvalidInputError, match="stat_pos has 1 entry and stat_neg 2"), fm.patch_fleet():
        metrics.auc([1], [1, 2])
    assert of_paddle()


def test_paddles_own_util_means_the_channel_and_another_one_is_used(monkeypatch):
    monkeypatch.delenv("PADDLE_TRAINERS_NUM", raising=False)
    with fm.patch_fleet():
        assert metrics.sum(np.array([3]), util=fleet.util).tolist() == [3]
        assert metrics.sum(np.array([3]), None, Doubling()).tolist() == [6]


def test_wrong_arguments_are_named():
    with fm.patch_fleet(util=True):
        with pytest.raises(TypeError, match=r"fleet\.metrics\.auc: missing a required argument: 'stat_neg'"):
            metrics.auc([1])
        with pytest.raises(TypeError, match=r"fleet\.util\.all_reduce: got an unexpected keyword argument 'op'"):
            fleet.util.all_reduce([1], op="sum")


def test_only_rank_0_logs_it_in_one_line(monkeypatch, capsys):
    for rank, role, lines in (("0", "TRAINER", 1), ("1", "TRAINER", 0), ("0", "PSERVER", 0), ("0", "COORDINATOR", 0)):
        monkeypatch.setenv("PADDLE_TRAINER_ID", rank)
        monkeypatch.setenv("TRAINING_ROLE", role)
        with fm.patch_fleet(), fm.patch_fleet():
            pass
        out, err = capsys.readouterr()
        assert out == "" and err.count("replaces functions of paddle.distributed.fleet.metrics: acc, auc") == lines
        assert len(err.splitlines()) == lines


# -- fleet.util --------------------------------------------------------------------------------------------

UTIL = {"all_reduce": ([2**24 + 1, -1],), "all_gather": (2.5,), "barrier": ()}


def insides():
    return [(f.__code__, f.__defaults__, f.__kwdefaults__) for f in (getattr(fleet.UtilBase, name) for name in UTIL)]


def test_fleet_util_is_left_alone_unless_it_is_asked_for():
    before = insides()
    with fm.patch_fleet():
        assert insides() == before


def test_fleet_util_answers_through_the_channel_also_by_a_name_taken_before_and_is_given_back(monkeypatch):
    monkeypatch.delenv("PADDLE_TRAINERS_NUM", raising=False)
    before, taken = insides(), fleet.util.all_reduce
    with fm.patch_fleet(util=True), fm.patch_fleet() as inner:
        for reduce in (taken, fleet.util.all_reduce, fleet.UtilBase().all_reduce):
            assert (
                reduce([2**24 + 1, -1]).tolist() == reduce(np.array([2**24 + 1, -1]), "max").tolist() == [16777217, -1]
            )
            assert reduce((0.1,), mode="min", comm_world="worker").tolist() == [0.1]
        assert (fleet.util.all_gather(2.5), fleet.util.all_gather(np.int64(3)), fleet.util.barrier()) == (
            [2.5],
            [3],
            None,
        )
        inner.undo()
        assert insides() != before and not of_paddle()
    assert insides() == before and of_paddle()


def test_of_two_patches_the_one_without_util_keeps_fleet_metrics_only(monkeypatch):
    before = insides()
    with fm.patch_fleet():
        with fm.patch_fleet(util=True):
            pass
        assert insides() == before and not of_paddle()


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: fleet.util.all_reduce([1], "mean"), "mode must be .*'sum'.*, not 'mean'"),
        (lambda: fleet.util.all_reduce([1], comm_world="workers"), "comm_world must be .*'worker'.*, not 'workers'"),
        (
            lambda: fleet.util.all_gather([1, 2]),
            "input must be one number, as Paddle's all_gather takes, not 2 of them",
        ),
        (lambda: fleet.util.all_reduce([[1, 2], [3]]), "input"),
        (lambda: fm.patch_fleet(util="yes"), "util must be"),
    ],
)
def test_what_fleet_util_cannot_do_is_named(call, told, monkeypatch):
    monkeypatch.delenv("PADDLE_TRAINERS_NUM", raising=False)
    with fm.patch_fleet(util=True), pytest.raises(fm.InvalidInputError, match=told):
        call()
    assert of_paddle()


def test_what_servers_take_part_in_stays_paddles(monkeypatch):
    """Without `fleet.init` there is no role maker, which Paddle's own methods ask."""
    monkeypatch.setattr(fleet.util, "role_maker", None)
    with fm.patch_fleet(util=True):
        for world in ("server", "all"):
            with pytest.raises(AttributeError, match="_all_reduce"):
                fleet.util.all_reduce([1], "sum", world)


# -- python -m fleetmetrics.run ----------------------------------------------------------------------------

SCRIPT = """
import sys
early = "paddle" in sys.modules
import multiprocessing, numpy as np
from paddle.distributed.fleet.metrics import acc
import beside
def main():
    print(acc(np.array(1), np.array(2)), early, sys.argv, __name__, sys.path[0].rpartition("/")[2], beside.VALUE)
    sys.exit(int(sys.argv[1]))
if __name__ == "__main__":
    main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "beside.py").write_text("VALUE = 7\n")
    return folder


def start(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=100
    )


@quick_on(paddle=2)
def test_a_script_runs_as_python_would_run_it_and_imports_paddle_itself(folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = start("-m", "fleetmetrics.run", "scripts/train.py", "3", "-m", cwd=folder.parent)
    assert (done.returncode, done.stdout) == (3, "0.5 False ['scripts/train.py', '3', '-m'] __main__ scripts 7\n")
    assert done.stderr.count("replaces functions of paddle") == 1


@quick_on(paddle=3)
def test_a_module_runs_and_so_does_a_script_through_the_file_itself(folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = start("-m", "fleetmetrics.run", "-m", "train", "0", cwd=folder)
    assert done.returncode == 0 and done.stdout.startswith("0.5 False [") and "'0'] __main__ scripts 7" in done.stdout
    monkeypatch.setenv("PYTHONPATH", "")  # as a launcher starts it, without the package being installed
    done = start(run.__file__, "train.py", "0", cwd=folder)
    assert done.stdout == "0.5 False ['train.py', '0'] __main__ scripts 7\n", done.stderr


@pytest.mark.thorough
def test_a_script_runs_with_fleet_util_behind_the_channel_too(folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (folder / "reduce.py").write_text(
        "import sys; from paddle.distributed import fleet; print(fleet.util.all_reduce([2**24 + 1.0]), sys.argv)"
    )
    done = start("-m", "fleetmetrics.run", "--util", "reduce.py", "--util", cwd=folder)
    assert done.stdout == "[16777217.] ['reduce.py', '--util']\n", done.stderr
    assert "replaces functions of fleet.util: all_gather, all_reduce, barrier" in done.stderr


def test_a_launcher_is_given_this_file_before_the_script(monkeypatch):
    ran = []
    monkeypatch.setattr(run.runpy, "run_module", lambda name, **_: ran.append((name, list(sys.argv))))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    run.main(["/usr/bin/fleetrun", "--server_num=2", "train.py", "--config", "other.py"])
    run.main(["-m", "paddle.distributed.launch", "--nproc_per_node", "2", "train.py"])
    run.main(["--util", "fleetrun", "train.py", "--util"])
    file = str(Path(run.__file__).resolve())
    options = ["--server_num=2", file, "train.py", "--config", "other.py"]
    assert ran == [
        ("paddle.distributed.launch", ["paddle.distributed.launch", *options]),
        ("paddle.distributed.launch", ["paddle.distributed.launch", "--nproc_per_node", "2", file, "train.py"]),
        ("paddle.distributed.launch", ["paddle.distributed.launch", file, "--util", "train.py", "--util"]),
    ]
    assert of_paddle()  # the launcher itself computes nothing


@pytest.mark.parametrize(
    "arguments, told",
    [
        ([], "python -m fleetmetrics.run train.py"),
        (["-m"], "python -m fleetmetrics.run train.py"),
        (["no.py"], "there is no script 'no.py' in "),
        (["--utill", "train.py"], "there is no option --utill; the only one of its own is --util"),
        (["fleetrun", "--server_num=2", "train"], "none of the launcher's arguments is a script that ends in .py"),
    ],
)
def test_what_cannot_run_is_named_in_one_line_with_status_2(arguments, told, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    with pytest.raises(SystemExit) as left:
        run.main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert left.value.code == 2 and line.startswith("fleetmetrics.run: ") and told in line
    assert of_paddle()


def test_help_is_no_failure(capsys):
    run.main(["--help"])
    out, err = capsys.readouterr()
    assert "python -m fleetmetrics.run train.py" in out and "`" not in out and err == ""


def test_torchrun_is_a_launcher_as_fleetrun_is(folder, monkeypatch):
    """A stand-in for torch's module; what it is given is what the real one starts."""
    package = folder.parent / "torch" / "distributed"
    package.mkdir(parents=True)
    for path in (package, package.parent):
        (path / "__init__.py").write_text("")
    (package / "run.py").write_text("import sys; print(*sys.argv[1:])")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{folder.parent}")
    for command in (["torchrun"], ["/usr/bin/torchrun"], ["-m", "torch.distributed.run"]):
        done = start("-m", "fleetmetrics.run", *command, "--nproc-per-node=2", "train.py", "3", cwd=folder)
        assert done.stdout == f"--nproc-per-node=2 {ROOT / 'fleetmetrics' / 'run.py'} train.py 3\n", done.stderr
