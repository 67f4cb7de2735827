"""What `make gpu` runs on a device runs here as a rehearsal on the CPU; without a device it says what is missing."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from tests.nursery import common

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu.py"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script as a module."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import gpu

    return gpu


def run(*arguments: str) -> Any:
    """The script with its launcher and its workers, forked where their imports are done already."""
    command = [sys.executable, str(SCRIPT), *arguments]
    forked = {**os.environ, **common().environment("gpu.py", "paddle.distributed.launch")}
    return subprocess.run(command, capture_output=True, text=True, timeout=280, env=forked)


class Driver:
    """NVIDIA's driver, as far as the script asks it."""

    def __init__(self, devices: int, status: int = 0) -> None:
        self.devices, self.status = devices, status

    def cuInit(self, flags: int) -> int:
        return self.status

    def cuDeviceGetCount(self, number: Any) -> int:
        number._obj.value = self.devices
        return 0


# -- what is missing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "driver, told",
    [
        (None, "no NVIDIA driver: libcuda.so.1 cannot be loaded"),
        (Driver(0), "no CUDA device: the NVIDIA driver is here and finds none"),
        (Driver(1, status=100), "no CUDA device: the NVIDIA driver is here and finds none"),
        (Driver(1), f"no Paddle for CUDA: paddlepaddle {paddle.__version__} is a CPU wheel; pip install '.[gpu]'"),
    ],
)
def test_without_a_device_it_says_what_is_missing_and_ends_with_3(gpu, driver, told, monkeypatch, capsys):
    def load(name: str) -> Any:
        if driver is None:
            raise OSError(f"{name}: cannot open shared object file")
        return driver

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    assert gpu.main() == gpu.NO_DEVICE == 3
    error = capsys.readouterr().err
    assert error.startswith(f"not run: {told}") and error.rstrip().endswith("python benchmarks/gpu.py --device cpu")
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--check"])
    assert gpu.main() == (0 if driver is not None and driver.devices and not driver.status else 3)


def test_a_paddle_for_cuda_that_sees_no_device_is_missing_one(gpu, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver(2))
    monkeypatch.setattr(paddle, "is_compiled_with_cuda", lambda: True)
    monkeypatch.setattr(paddle.device.cuda, "device_count", lambda: 0)
    assert gpu.missing() == f"no device that paddlepaddle {paddle.__version__} can use, though the driver has 2"
    monkeypatch.setattr(paddle.device.cuda, "device_count", lambda: 2)
    assert gpu.missing() == ""


def test_checking_needs_only_python():
    program = (
        "import runpy, sys; sys.modules.update(numpy=None, paddle=None, fleetmetrics=None); "
        f"sys.argv[0] = 'gpu.py'; runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"
    )
    for more, statuses in (["--device", "cpu"], [0]), ([], [0, 3]):  # 0 if there is a device
        command = [sys.executable, "-S", "-c", program, "--check", *more]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode in statuses and "Traceback" not in done.stderr, done.stderr


# -- the rehearsal ---------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_rehearsal_runs_all_of_it_and_ends_with_0(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- gpu: begin -->\n<!-- gpu: end -->\n")
    done = run("--device", "cpu", "--rounds", "0.1", "--steps", "2", "--cases", "sliced", "--write", str(page))
    assert done.returncode == 0, done.stdout + done.stderr
    title, cases, table, costs, training = done.stdout.strip().split("\n\n")
    assert title.startswith("The CPU, with a stand-in for a device. ")
    assert (
        "cases waits for nothing; no device, so none was kept busy." in cases and "values are those of NumPy" in cases
    )
    assert "| sliced auc " in table and "numpy" in table
    assert [line.split("|")[1].strip() for line in costs.splitlines()[2:]] == [
        "fleetmetrics",
        "fleetmetrics, `validate=False`",
        "by hand, looking at each batch",
        "fleetmetrics on the CPU",
    ]
    assert training.startswith("Wide and deep, 2 workers, Gloo, 2 steps, loss ")
    assert done.stdout.strip() in page.read_text()


def test_a_broken_promise_is_reported_and_ends_with_1(gpu, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "of_costs", lambda *_: ("costs", []))
    real = gpu.examined
    worse = dict(add=Counter(numpy=2), copies=9, distance=1e-3, behind=False)
    for name, value in worse.items():
        monkeypatch.setattr(gpu, "examined", lambda *given, n=name, v=value: real(*given)._replace(**{n: v}))
        monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--steps", "0", "--cases", "count"])
        assert gpu.main() == gpu.BROKEN == 1
        assert "NOT AS PROMISED: count: " in capsys.readouterr().err


def test_without_a_view_of_copies_to_the_host_the_script_does_not_claim_their_absence(gpu):
    class Busy:
        behind = staticmethod(lambda function: True)

    assert gpu.controls(gpu.watched, None) == []
    told = gpu.controls(lambda function: Counter(), Busy())
    assert ["is not counted" in told[0], "was not busy" in told[1]] == [True, True]


def test_how_far_two_values_are_apart(gpu):
    assert gpu.far({"a": 1.0, "b": (2, np.nan)}, {"a": 1.0, "b": (2, np.nan)}) == 0
    assert gpu.far(np.array([1.0, 2.0]), np.array([1.0, 4.0])) == 0.5
    assert gpu.far([1.0, np.inf], [1.0, np.inf]) == 0 and gpu.far(1.0, np.nan) == np.inf
    assert gpu.far(np.ones(2), np.ones(3)) == np.inf


def test_by_hand_counts_what_the_metrics_count(gpu):
    rng = np.random.default_rng(0)
    score = rng.random(1000).astype("float32") * 0.98 + 0.01
    label = (rng.random(1000) < score).astype("int64")
    from step import collection

    hand, metrics = gpu.ByHand(), collection()
    for each in (hand, metrics):
        each.add(paddle.to_tensor(score), paddle.to_tensor(label))
    assert gpu.far(hand.compute(), metrics.compute()) < 1e-9
    with pytest.raises(ValueError, match="probability"):
        hand.add(paddle.to_tensor([1.5]), paddle.to_tensor([1]))


# -- the profiler ----------------------------------------------------------------------------------------


def test_of_a_trace_what_waits_is_counted(gpu):
    names = {
        "MEMCPY_DtoH[0.002 ms]": 1,
        "Memcpy DtoH (Device -> Pageable)": 1,
        "cudaStreamSynchronize[0.011 ms]": 1,
        "cudaDeviceSynchronize": 1,
        "cudaMemcpy[0.1 ms]": 1,
        "cudaMemcpyAsync[0.002 ms]": 0,
        "MEMCPY_HtoD[0.002 ms]": 0,
        "MEMCPY_DtoD[0.002 ms]": 0,
        "cudaLaunchKernel": 0,
        "cudaEventQuery": 0,
        "add dygraph": 0,
    }
    trace = {"traceEvents": [{"name": name} for name in names] + [{"ph": "M"}]}
    assert sum(gpu.waits_in(trace).values()) == sum(names.values())


def test_the_profiler_is_read_and_sees_no_wait_on_the_cpu(gpu):
    tensor = paddle.to_tensor([1.0, 2.0])
    assert gpu.profiled(lambda: (tensor + 1).sum().item()) == {}


def test_training_that_fails_is_not_as_promised_and_that_of_one_device_is_not_run(gpu, monkeypatch, capsys):
    monkeypatch.setattr(gpu.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, "its log"))
    text, broken = gpu.of_training("cpu", 2)
    assert text.startswith("Training in collective mode failed") and broken
    assert "its log" in capsys.readouterr().err
    monkeypatch.setattr(paddle.device.cuda, "device_count", lambda: 1)
    assert gpu.of_training("gpu", 2) == ("Collective mode was not run: it needs two devices, and there is one.", [])
