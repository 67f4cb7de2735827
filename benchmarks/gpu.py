"""See on a CUDA device what the tests show with a stand-in: `add` does not wait for it, `compute` copies once.

    python benchmarks/gpu.py [--device cpu] [--rounds FACTOR] [--steps STEPS] [--write docs/howto/dynamic.md]

Every case of the contract is added to under Paddle's profiler, which counts what the device was waited for, and behind
work that keeps the device busy, which `add` must not wait for; its value is compared with NumPy's. Then what an `add`
costs, beside updates by hand that look at each batch, and beside the CPU. Then the network of `examples/wide_and_deep`
is trained in collective mode on two devices, and evaluated against scikit-learn.

`--device cpu` is a rehearsal without a device: the stand-in of `tests/device.py` counts in the profiler's place, and
Gloo stands for NCCL. Exit status: 0, all is as promised; 1, something is not; 3, no device, and it says what lacks.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
import zlib  # noqa: F401, SciPy may crash if this comes after Paddle 2.6
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "wide_and_deep")]

PROMISED, BROKEN, NO_DEVICE = 0, 1, 3
"""Exit statuses."""
BATCH_SIZE, BUCKETS = 4096, 4096
ROUNDS, ADDS = 30, 20
"""Rounds of the timing, and adds in each."""
BUSY_SECONDS = 0.1
"""How long the device is kept busy behind which `add` must not wait."""
DISTANCE = 1e-9
"""How far a value may be from NumPy's, relative to it: a device adds floats in another order."""


# What there is


def missing(with_paddle: bool = True) -> str:
    """What lacks for a run on a device, in words; empty if nothing does.

    Args:
        with_paddle: False asks for a driver and a device only, and imports nothing.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver: libcuda.so.1 cannot be loaded"
    number = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(number)) or not number.value:
        return "no CUDA device: the NVIDIA driver is here and finds none (nvidia-smi -L, CUDA_VISIBLE_DEVICES)"
    if not with_paddle:
        return ""
    import paddle

    if not paddle.is_compiled_with_cuda():
        return f"no Paddle for CUDA: paddlepaddle {paddle.__version__} is a CPU wheel; pip install '.[gpu]'"
    if not paddle.device.cuda.device_count():
        return f"no device that paddlepaddle {paddle.__version__} can use, though the driver has {number.value}"
    return ""


# What the device was waited for

WAITS = re.compile(r"memcpy[ _]*(dtoh|device\w*host)|cuda\w*synchronize$|cudamemcpy(?!\w*async)", re.IGNORECASE)
"""Events of a trace that wait for the device: copies to the host, synchronizations, synchronous copies."""


def waits_in(trace: dict[str, Any]) -> Counter[str]:
    """The events of a trace that wait for the device, by name."""
    names = (re.sub(r"\[.*", "", event.get("name", "")).strip() for event in trace["traceEvents"])
    return Counter(name for name in names if WAITS.search(name))


def profiled(function: Callable[[], Any]) -> Counter[str]:
    """What a function waits for on the device, as Paddle's profiler sees it."""
    import paddle
    from paddle import profiler

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.json"
        targets = [profiler.ProfilerTarget.CPU]
        if paddle.get_device() != "cpu":
            targets.append(profiler.ProfilerTarget.GPU)
        recorder = profiler.Profiler(targets=targets, on_trace_ready=lambda each: each.export(str(path), "json"))
        settle()
        recorder.start()
        with profiler.RecordEvent("add"):  # a trace without any event would be none
            function()
        recorder.stop()
        return waits_in(json.loads(path.read_text()))


def watched(function: Callable[[], Any]) -> Counter[str]:
    """The same on the CPU, as the stand-in sees it."""
    from tests.device import Device

    with Device() as device:
        function()
    return device.waits


def settle() -> None:
    """Wait for the device."""
    import paddle

    if paddle.get_device() != "cpu":
        paddle.device.cuda.synchronize()


class Busy:
    """Keeps the device busy for a while."""

    def __init__(self) -> None:
        import paddle

        self.matrix = paddle.rand([2048, 2048])
        self._work(3)
        settle()
        start = time.perf_counter()
        self._work(10)
        settle()
        self.times = max(1, min(500, round(BUSY_SECONDS * 10 / (time.perf_counter() - start))))

    def _work(self, times: int) -> None:
        import paddle

        for _ in range(times):
            paddle.matmul(self.matrix, self.matrix)

    def behind(self, function: Callable[[], Any]) -> bool:
        """Whether a function returns while the device is still at the work that it was given before."""
        import paddle

        settle()
        self._work(self.times)
        done = paddle.device.cuda.Event()
        done.record()
        function()
        return not done.query()


# The cases of the contract


class Finding(NamedTuple):
    """What was seen of a case."""

    name: str
    add: Counter[str]  # what `add` waited for
    behind: bool | None  # whether it returned while the device was busy; None: there is no device
    copies: int  # of `compute`
    exchanges: int
    distance: float  # of the value from NumPy's, relative to it


def examined(name: str, count: Callable[..., Counter[str]], busy: Busy | None) -> Finding:
    """Add to a case's metric, compute it, and compare."""
    from tests.contract import CASES, arguments, batches, draw, first_dtypes
    from tests.device import on_device

    data = draw(name, first_dtypes(name), "eighths", mask=True)
    parts = batches(data)
    here, there = CASES[name].make(), CASES[name].make()
    for part in parts:
        here.add(**arguments(here, part))
    given = [arguments(there, on_device(part)) for part in parts]
    other = CASES[name].make()
    count(lambda: other.add(**given[0]))  # the first of a kind brings constants and kernels to the device
    seen = count(lambda: [there.add(**each) for each in given])
    values: list[Any] = []
    copies = count(lambda: values.append(there.compute()))
    behind = None if busy is None else busy.behind(lambda: other.add(**given[0]))
    distance = far(values[0], here.compute())
    return Finding(name, seen, behind, sum(copies.values()), 1 + len(there.record_folds()), distance)


def far(value: Any, reference: Any) -> float:
    """How far two values are apart, relative to the second; numbers, or arrays, tuples, dicts of them."""
    import numpy as np

    if isinstance(reference, dict):
        return max((far(value[key], reference[key]) for key in reference), default=0.0)
    if isinstance(reference, (tuple, list)):
        return max(map(far, value, reference), default=0.0)
    if reference is None:
        return 0.0
    one, other = np.asarray(value, float), np.asarray(reference, float)
    if one.shape != other.shape or (np.isnan(one) != np.isnan(other)).any():
        return float("inf")
    same = np.isnan(one) | (one == other)
    scale = np.abs(other).max(initial=0, where=np.isfinite(other)) or 1.0
    return float((np.abs(one[~same] - other[~same]) / scale).max(initial=0.0))


def controls(count: Callable[..., Counter[str]], busy: Busy | None) -> list[str]:
    """The cases in which the check misses a wait that is there: then its silence proves nothing."""
    import paddle

    def waiting() -> None:
        (paddle.ones([4]) + 1).numpy()

    blind = [] if count(waiting) else ["a copy to the host is not counted: is CUPTI missing? The counts mean nothing"]
    if busy is not None and busy.behind(waiting):
        blind.append("a copy to the host returns while the device is busy: so it was not busy")
    return blind


def of_cases(names: Iterable[str], on_cpu: bool) -> tuple[str, list[str]]:
    """The table of what waits, and what is not as promised."""
    from tests.device import WAITS as KNOWN

    count, busy = (watched, None) if on_cpu else (profiled, Busy())
    findings = [examined(name, count, busy) for name in names]
    broken = controls(count, busy)
    for each in findings:
        if each.add and each.name not in KNOWN:
            broken.append(f"{each.name}: add waits: {dict(each.add)}")
        if each.behind is False and each.name not in KNOWN:
            broken.append(f"{each.name}: add returned only when the device was done")
        if on_cpu and each.copies > each.exchanges:
            broken.append(f"{each.name}: {each.copies} copies in compute, for {each.exchanges} exchanges")
        if each.distance > DISTANCE:
            broken.append(f"{each.name}: its value is {each.distance:.1e} from NumPy's")
    waiting = [each for each in findings if each.add or each.behind is False]
    rows = [[each.name, ", ".join(f"{n} {name}" for name, n in each.add.items())] for each in waiting]
    exact = sum(each.distance == 0 for each in findings)
    lines = [
        f"`add` of {len(findings) - len(waiting)} of {len(findings)} cases waits for nothing; "
        + ("no device, so none was kept busy." if on_cpu else "it returns while the device is busy."),
        f"`compute` of {len(findings)} cases: {sum(each.copies for each in findings)} waits for "
        f"{sum(each.exchanges for each in findings)} exchanges.",
        f"{exact} of {len(findings)} values are those of NumPy on the CPU to the last bit, the others up to "
        f"{max((each.distance for each in findings), default=0):.1e} of the value.",
    ]
    from _report import table

    return "\n".join(lines) + ("\n\n" + table(["case", "`add` waits for"], rows) if rows else ""), broken


# What an add costs


class ByHand:
    """The same statistics, written by hand: each batch is read, and its sums become Python's numbers."""

    def __init__(self) -> None:
        import numpy as np

        self.total = self.correct = 0
        self.absolute = self.squared = self.loss = 0.0
        self.histogram = np.zeros(2 * BUCKETS, np.int64)

    def add(self, prediction: Any, label: Any) -> None:
        import paddle

        if not bool(((prediction >= 0) & (prediction <= 1)).all()):
            raise ValueError("prediction must be a probability")
        if not bool(((label == 0) | (label == 1)).all()):
            raise ValueError("label must be 0 or 1")
        p, y = prediction.astype("float64"), label.astype("float64")
        self.total += len(label)
        self.correct += int(((p > 0.5).astype("int64") == label).astype("int64").sum())
        self.absolute += float((p - y).abs().sum())
        self.squared += float(((p - y) * (p - y)).sum())
        self.loss -= float((y * paddle.log(p) + (1 - y) * paddle.log1p(-p)).sum())
        place = (prediction * (BUCKETS - 1)).astype("int64") * 2 + label
        self.histogram += paddle.bincount(place, minlength=2 * BUCKETS).numpy()

    def compute(self) -> dict[str, float]:
        from fleetmetrics.formulas import auc_from_histogram

        return {
            "auc": auc_from_histogram(self.histogram[1::2], self.histogram[::2]),
            "accuracy": self.correct / self.total,
            "mae": self.absolute / self.total,
            "mse": self.squared / self.total,
            "log_loss": self.loss / self.total,
        }


def of_costs(factor: float, device: str) -> tuple[str, list[str]]:
    """The table of what an `add` costs, and what is not as promised."""
    import numpy as np
    import paddle
    from _report import seconds, table
    from step import collection

    rng = np.random.default_rng(0)
    score = (1 / (1 + np.exp(-rng.normal(-2, 1.2, BATCH_SIZE)))).astype("float32")
    label = (rng.random(BATCH_SIZE) < score).astype(np.int64)
    makers: dict[str, tuple[Callable[[], Any], str]] = {
        "fleetmetrics": (collection, device),
        "fleetmetrics, `validate=False`": (lambda: collection(validate=False), device),
        "by hand, looking at each batch": (ByHand, device),
        "fleetmetrics on the CPU": (collection, "cpu"),
    }
    calls: dict[str, list[float]] = {name: [] for name in makers}
    whole: dict[str, list[float]] = {name: [] for name in makers}
    values = {}
    for number in range(-2, max(3, round(ROUNDS * factor))):
        for name, (make, where) in makers.items():
            paddle.set_device(where)
            given, metric = (paddle.to_tensor(score), paddle.to_tensor(label)), make()
            metric.add(*given)
            settle()
            start = time.perf_counter()
            for _ in range(ADDS):
                metric.add(*given)
            returned = time.perf_counter()
            settle()
            if number >= 0:
                calls[name].append((returned - start) / ADDS)
                whole[name].append((time.perf_counter() - start) / ADDS)
            else:
                values[name] = metric.compute()
    paddle.set_device(device)
    rows = [[name, makers[name][1], seconds(calls[name]), seconds(whole[name])] for name in makers]
    reference = values["by hand, looking at each batch"]
    broken = [
        f"{name}: {value} is not what is found by hand, {reference}"
        for name, value in values.items()
        if far(value, reference) > 1e-6
    ]
    header = [
        f"AUC, accuracy, MAE, MSE, log loss; {BATCH_SIZE:,} samples",
        "device",
        "`add` returns",
        "and all is done",
    ]
    return table(header, rows), broken


# The wide and deep network in collective mode


def of_training(device: str, steps: int) -> tuple[str, list[str]]:
    """How training on two devices went, and what is not as promised."""
    import paddle

    on_cpu = device == "cpu"
    if not on_cpu and paddle.device.cuda.device_count() < 2:
        return "Collective mode was not run: it needs two devices, and there is one.", []
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        places = ["--nproc_per_node", "2", "--backend", "gloo"] if on_cpu else ["--devices", "0,1"]
        launcher = [sys.executable, "-m", "paddle.distributed.launch", *places, "--log_dir", directory]
        own = [__file__, "--device", device, "--steps", str(steps), "--report", str(report)]
        done = subprocess.run(
            [*launcher, *own], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900
        )
        if done.returncode or not report.exists():
            logs = "\n".join(
                log.read_text(errors="replace")[-2000:] for log in sorted(Path(directory).glob("workerlog.*"))
            )
            print(done.stdout[-2000:] + logs, file=sys.stderr)
            return "Training in collective mode failed; its logs are above.", ["the wide and deep network: it failed"]
        found = json.loads(report.read_text())
    text = (
        f"Wide and deep, 2 workers, {found['backend']}, {steps} steps, loss {found['loss'][0]:.4f} to "
        f"{found['loss'][1]:.4f}; held out: AUC {found['values']['auc']:.4f} of {found['values']['samples']:.0f} "
        f"samples, scikit-learn {found['reference']['auc']:.4f}."
    )
    return text, found["failures"]


def work(device: str, steps: int, report: Path) -> None:
    """A worker of it."""
    import numpy as np
    import paddle
    from step import collection

    import comparison
    import fleetmetrics as fm
    import model
    import reader

    if device == "cpu":
        paddle.set_device("cpu")
    paddle.distributed.init_parallel_env()
    workers = fm.get_communicator()
    share = reader.read(reader.RandHealth(), workers.rank, workers.world_size)
    paddle.seed(0)
    network = paddle.DataParallel(network_of(model, reader.TABLE_ROWS, reader.RandHealth.layout))
    adam = paddle.optimizer.Adam(0.002, parameters=network.parameters())
    losses = []
    feeds = itertools.cycle(
        share.train.batches(256, np.random.default_rng(0).permutation(len(share.train) // 256 * 256))
    )
    for feed in itertools.islice(feeds, steps):
        given = {name: paddle.to_tensor(value) for name, value in feed.items()}
        logit = network(given["dense"], given["wide"], given["deep"])
        loss = paddle.nn.functional.binary_cross_entropy_with_logits(logit, given["label"].astype("float32"))
        loss.backward()
        adam.step()
        adam.clear_grad()
        losses.append(loss)

    held_out = fm.MetricCollection(
        {
            **{name: each.fresh() for name, each in collection().metrics.items()},
            "rmse": fm.RootMeanSquaredError(),
            "samples": fm.Count(),
        }
    )
    predictions = []
    with paddle.no_grad():
        for feed in share.held_out.batches(256):
            given = {name: paddle.to_tensor(value) for name, value in feed.items()}
            predictions.append(paddle.nn.functional.sigmoid(network(given["dense"], given["wide"], given["deep"])))
            held_out.add(predictions[-1], given["label"])
    values = held_out.compute()
    everyone = workers.all_gather(np.array([values[name] for name in comparison.LIMITS]))
    mine = np.concatenate([each.numpy().ravel() for each in predictions]).astype(np.float64)
    prediction, label = (np.concatenate(workers.all_gather(each)) for each in (mine, share.held_out.label.ravel()))
    reference = comparison.references(prediction, label)
    failures = comparison.failures(values, reference)
    if any(row.tobytes() != everyone[0].tobytes() for row in everyone):
        failures.append("the workers have different global values")
    if workers.rank == 0:
        findings = {
            "backend": "Gloo" if device == "cpu" else "NCCL",
            "loss": [losses[0].item(), losses[-1].item()],
            "values": values,
            "reference": reference,
            "failures": failures,
        }
        report.write_text(json.dumps(findings))


def network_of(model: Any, rows: int, layout: Any) -> Any:
    """The network of `examples/wide_and_deep/model.py` in dynamic mode, with whole tables."""
    import paddle
    from paddle import nn

    class Network(nn.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.LayerDict({name: nn.Embedding(rows, width) for name, width in model.TABLES.items()})
            self.wide = nn.Linear(layout.dense, 1)
            widths = [layout.dense + layout.deep * model.TABLES["deep_table"], *model.HIDDEN]
            hidden = [(nn.Linear(*pair), nn.ReLU()) for pair in zip(widths, widths[1:])]
            self.deep = nn.Sequential(*itertools.chain(*hidden), nn.Linear(widths[-1], 1))

        def forward(self, dense: Any, wide: Any, deep: Any) -> Any:
            rows = self.tables["deep_table"](deep).flatten(1)
            linear = self.tables["wide_table"](wide).sum(axis=1) + self.wide(dense)
            return linear + self.deep(paddle.concat([dense, rows], axis=1))

    return Network()


# The command line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu", help="cpu: a rehearsal, with a stand-in")
    parser.add_argument("--rounds", type=float, default=1.0, metavar="FACTOR", help="times the usual rounds (1)")
    parser.add_argument("--steps", type=int, default=200, help="of training in collective mode; 0: none (%(default)s)")
    parser.add_argument("--cases", default="", metavar="TEXT", help="only the cases whose name holds this")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the findings into this Markdown file as well")
    parser.add_argument("--check", action="store_true", help="only say whether there is a device; needs no Paddle")
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)  # of a worker
    options = parser.parse_args()
    if options.device == "gpu":
        lacks = missing(with_paddle=not options.check)
        if lacks:
            print(
                f"not run: {lacks}. A rehearsal without a device: python benchmarks/gpu.py --device cpu",
                file=sys.stderr,
            )
            return NO_DEVICE
    if options.check:
        return PROMISED
    if options.report:
        work(options.device, options.steps, options.report)
        return PROMISED
    return run(options)


def run(options: argparse.Namespace) -> int:
    """All of it, printed part by part."""
    import numpy as np
    import paddle
    from _report import machine, write

    from tests.contract import CASES

    warnings.simplefilter("ignore")  # the cases have few samples, of which much is undefined
    paddle.set_device(options.device)
    names = [name for name, case in CASES.items() if "dynamic" in case.modes and options.cases in name]
    title = "The CPU, with a stand-in for a device" if options.device == "cpu" else paddle.device.cuda.get_device_name()
    texts = [f"{title}. {machine({'Paddle': paddle.__version__, 'NumPy': np.__version__})}"]
    broken: list[str] = []
    print(texts[0], flush=True)
    parts: list[Callable[[], tuple[str, list[str]]]] = [
        lambda: of_cases(names, options.device == "cpu"),
        lambda: of_costs(options.rounds, options.device),
    ]
    if options.steps:
        parts.append(lambda: of_training(options.device, options.steps))
    for part in parts:
        text, wrong = part()
        print(f"\n{text}", flush=True)
        texts.append(text)
        broken += wrong
    for each in broken:
        print(f"NOT AS PROMISED: {each}", file=sys.stderr)
    if options.write:
        write(options.write, "gpu", "\n\n".join(texts))
    return BROKEN if broken else PROMISED


if __name__ == "__main__":
    sys.exit(main())
