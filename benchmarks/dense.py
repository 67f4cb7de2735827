"""Time and weigh metrics of pixels and tokens beside argmax, counts and log-softmax by hand.

    python benchmarks/dense.py [--rounds FACTOR] [--write benchmarks/README.md]

The variants of a line take turns, round after round, each round beginning with another one, in the same process; torch
has one thread. The last table is of one pass over large logits each: its peak memory is what the process held at most,
beyond the logits and labels.
"""

from __future__ import annotations

import ctypes
import gc
import time
from pathlib import Path
from typing import Any

import numpy as np
from _report import HEADER, Target, arguments, in_turn, machine, row, table, write

IMAGES, SIDE, CLASSES = 100, 512, 19
AT_ONCE = 10  # images of a batch
TEXTS, TOKENS, WORDS = 64, 512, 32_000
FEW = 1  # texts of which the losses are timed in turn
ROUNDS = {"pixels": 5, "tokens": 5}
UNIT = 2**20


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=TEXTS, help=f"of the pass over large logits ({TEXTS}: 4 GiB)")
    options = parser.parse_args()
    import scipy
    import torch

    torch.set_num_threads(1)
    versions = {"NumPy": np.__version__, "SciPy": scipy.__version__, "torch": torch.__version__}
    rows = [of_pixels(options.rounds), of_masks(options.rounds), *of_tokens(options.rounds)]
    header = ["one pass", "time", "peak memory beside the logits", "of the logits"]
    text = f"{machine(versions)}\n\n{table(HEADER, rows)}\n\n{table(header, one_pass(options.texts))}"
    print(text)
    if options.write:
        write(options.write, "dense", text)


# Pixels


def of_pixels(factor: float) -> list[str]:
    """The pixel accuracy of images, their classes on the first axis of each."""
    import fleetmetrics

    rng = np.random.default_rng(0)
    logits = rng.random((AT_ONCE, CLASSES, SIDE, SIDE), np.float32)
    label = rng.integers(0, CLASSES, (AT_ONCE, SIDE, SIDE))
    batches = IMAGES // AT_ONCE

    def ours() -> float:
        metric = fleetmetrics.Accuracy(num_classes=CLASSES, class_axis=1)
        for _ in range(batches):
            metric.add(logits, label)
        return float(metric.compute())

    def by_hand() -> float:
        counts = np.zeros(CLASSES * CLASSES, np.int64)
        for _ in range(batches):
            place = label * CLASSES + logits.argmax(axis=1)
            counts += np.bincount(place.ravel(), minlength=CLASSES * CLASSES)
        return float(np.trace(counts.reshape(CLASSES, CLASSES)) / counts.sum())

    assert ours() == by_hand()
    times = in_turn({"ours": ours, "by hand": by_hand}, round(factor * ROUNDS["pixels"]))
    what = f"`Accuracy`, {IMAGES} images of {SIDE} x {SIDE}, {CLASSES} classes"
    return row(what, "`argmax` and `numpy.bincount` by hand", times["ours"], times["by hand"], Target("<=", 1.3))


def of_masks(factor: float) -> list[str]:
    """The mean intersection over union of predicted classes, of which some pixels are ignored."""
    import fleetmetrics

    rng = np.random.default_rng(0)
    predicted, label = rng.integers(0, CLASSES, (2, AT_ONCE, SIDE, SIDE))
    batches = IMAGES // AT_ONCE

    def ours() -> float:
        metric = fleetmetrics.MeanIoU(num_classes=CLASSES, ignore_index=255)
        for _ in range(batches):
            metric.add(predicted, label)
        return float(metric.compute())

    def by_hand() -> float:
        counts = np.zeros(CLASSES * CLASSES, np.int64)
        for _ in range(batches):
            counts += np.bincount((label * CLASSES + predicted).ravel(), minlength=CLASSES * CLASSES)
        matrix = counts.reshape(CLASSES, CLASSES)
        both = matrix.diagonal()
        return float((both / (matrix.sum(axis=0) + matrix.sum(axis=1) - both)).mean())

    np.testing.assert_allclose(ours(), by_hand(), rtol=1e-14)
    times = in_turn({"ours": ours, "by hand": by_hand}, round(factor * ROUNDS["pixels"]))
    what = f"`MeanIoU`, {IMAGES} masks of {SIDE} x {SIDE}, {CLASSES} classes"
    return row(what, "`numpy.bincount` of the joint index", times["ours"], times["by hand"], Target("<=", 1.3))


# Tokens


def drawn(texts: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels, made in place: no other memory is needed."""
    rng = np.random.default_rng(0)
    logits = np.empty((texts, TOKENS, WORDS), np.float32)
    for each in logits:
        rng.standard_normal(out=each, dtype=np.float32)
    return logits, rng.integers(0, WORDS, (texts, TOKENS))


def losses(logits: np.ndarray, label: np.ndarray) -> dict[str, Any]:
    """Ways to the mean loss of all tokens."""
    import torch
    from scipy.special import log_softmax

    import fleetmetrics

    def ours() -> float:
        metric = fleetmetrics.MetricCollection([fleetmetrics.TokenLoss(name="a"), fleetmetrics.Perplexity(name="b")])
        metric.add(logits, label)
        return float(metric.compute()["a"])

    def scipys() -> float:
        chosen = np.take_along_axis(log_softmax(logits, axis=-1), label[..., None], -1)
        return float(-chosen.mean(dtype=np.float64))

    def torchs() -> float:
        flat = torch.from_numpy(logits).reshape(-1, WORDS), torch.from_numpy(label).reshape(-1)
        return float(torch.nn.functional.cross_entropy(*flat))

    return {"`TokenLoss` and `Perplexity`": ours, "torch `cross_entropy`": torchs, "SciPy `log_softmax`": scipys}


def of_tokens(factor: float) -> list[list[str]]:
    """The loss of a few texts, in turn."""
    variants = losses(*drawn(FEW))
    ours, *others = variants
    for each in others:
        np.testing.assert_allclose(variants[ours](), variants[each](), rtol=1e-5)
    times = in_turn(variants, round(factor * ROUNDS["tokens"]))
    what = f"{ours}, [{FEW}, {TOKENS}, {WORDS:,}] float32"
    lines = [row(what, each, times[ours], times[each], Target("<=", 1)) for each in others]
    return [[*line[:-2], "", ""] for line in lines]


def one_pass(texts: int) -> list[list[str]]:
    """Time, and the most that the process held, of one pass over all texts."""
    logits, label = drawn(texts)
    rows = []
    for name, function in losses(logits, label).items():
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the most from now on
        if needs(name) * logits.nbytes > available():
            rows.append([f"{name}, [{texts}, {TOKENS}, {WORDS:,}] float32", "", "more than the machine has", ""])
            continue
        start = time.perf_counter()
        function()
        took, peak = time.perf_counter() - start, resident("VmHWM") - before
        share = f"{100 * peak / logits.nbytes:,.1f} %"
        what = f"{name}, [{texts}, {TOKENS}, {WORDS:,}] float32"
        rows.append([what, f"{took:.1f} s", f"{peak / UNIT:,.0f} MiB", share])
    return rows


def needs(name: str) -> float:
    """How many times the logits' memory a variant takes beside them, at least."""
    return 4 if "SciPy" in name else 1.5 if "torch" in name else 0


def available() -> int:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return 1024 * int(lines["MemAvailable"].split()[0])


def resident(field: str) -> int:
    """Bytes, from /proc/self/status; what was freed has been given back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[field].split()[0])


if __name__ == "__main__":
    main()
