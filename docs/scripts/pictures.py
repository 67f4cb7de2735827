"""Write the pictures of the documentation, light and dark, in English and in Chinese: docs/pictures/*.svg from made-up
clicks, and those of docs/pictures/metrics from real data.

    .venv-cpu/bin/python docs/scripts/pictures.py            # all
    .venv-cpu/bin/python docs/scripts/pictures.py roc at_k   # those of these names

The tests draw these pictures again, and compare them with tests/plot/baseline. A font with Chinese characters must be
installed, such as Debian's fonts-noto-cjk: the Chinese legends would have the wrong width without it.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any, Callable, NamedTuple

import numpy as np

DOCS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(DOCS.parent))

import fleetmetrics as fm  # noqa: E402
from fleetmetrics import plot  # noqa: E402
from fleetmetrics.plot.canvas import worded  # noqa: E402
from fleetmetrics.words import Words  # noqa: E402

#: The words of the Chinese pictures: those of the report, and the names that these scripts give.
CHINESE = {
    **(Words("zh").of_charts or {}),
    "new": "新模型",
    "old": "旧模型",
    "AUC, new": "AUC，新模型",
    "AUC, old": "AUC，旧模型",
    "NDCG, new": "NDCG，新模型",
    "NDCG, old": "NDCG，旧模型",
    "none": "无",
    "click": "点击",
    "cart": "加购",
    "order": "下单",
    "three columns": "三列",
    "one column": "一列",
    "accuracy": "准确率",
    "digit": "数字",
    "batch": "batch",
    "last 8 batches": "最近 8 个 batch",
    "all so far": "至今全部",
    "progression after one year": "一年后的进展",
    "64 pixels": "64 个像素",
    "16 pixels": "16 个像素",
    "samples": "样本数",
    "perplexity": "困惑度",
}


class Clicks(NamedTuple):
    """Made-up impressions: scores of a model that is a little too sure, and of an older one; clicks; slots."""

    score: np.ndarray
    old: np.ndarray
    label: np.ndarray
    slot: np.ndarray


def clicks() -> Clicks:
    random = np.random.default_rng(7)
    slots = np.array(["banner", "cart", "feed", "home", "search", "video"])
    size = 40_000
    place = random.integers(0, len(slots), size) ** 2 // 6
    odds = random.normal(-2, 1.2, size) - 0.3 * place
    label = (random.random(size) < 1 / (1 + np.exp(-odds))).astype(np.int64)
    seen = [1 / (1 + np.exp(-(1.3 * odds + 0.5 + random.normal(0, noise, size)))) for noise in (0.5, 1.3)]
    return Clicks(seen[0], seen[1], label, slots[place])


CLICKS = clicks()


def held(metric: Any, prediction: Any = CLICKS.score, label: Any = CLICKS.label, **columns: Any) -> Any:
    metric.add(prediction, label, **columns)
    return metric


def roc() -> Any:
    ax = plot.roc(held(fm.AUC()), label=worded("new"))
    return plot.roc(held(fm.AUC(), CLICKS.old), ax, label=worded("old"))


def threshold_sweep() -> Any:
    return plot.threshold_sweep(held(fm.ThresholdSweep(thresholds=np.linspace(0.01, 0.9, 90))))


def confusion_matrix() -> Any:
    random = np.random.default_rng(7)
    label = random.integers(0, 4, 5000)
    shown = np.where(random.random(5000) < 0.7, label, random.integers(0, 4, 5000) * (label > 0))
    metric = held(fm.ConfusionMatrix(task="multiclass", num_classes=4), shown, label)
    return plot.confusion_matrix(metric, classes=[worded(each) for each in ("none", "click", "cart", "order")])


def over_passes() -> Any:
    passes = []
    for size in (2_000, 4_000, 8_000, 16_000, 40_000):
        metric = fm.Bootstrap(fm.AUC(), replicates=100)
        metric.add(CLICKS.score[:size], CLICKS.label[:size])
        passes.append(metric.compute())
    ax = plot.over_passes(passes, label="AUC")
    return plot.over_passes([each.value - 0.02 * 0.8**k for k, each in enumerate(passes)], ax, label=worded("old"))


def slices() -> Any:
    metric = held(fm.Sliced(fm.Bootstrap(fm.AUC(), replicates=100), by="slot"), slot=CLICKS.slot)
    whole = held(fm.AUC()).compute()
    rows = [
        {
            "key": key,
            "value": each.value,
            "low": each.low,
            "high": each.high,
            "rows": np.count_nonzero(key == CLICKS.slot),
            "within_chance": each.low <= whole <= each.high,
            "metric": "auc",
        }
        for key, each in metric.compute().items()
    ]
    return plot.slices(rows, whole=whole)


def by_worker() -> Any:
    parts = zip(np.split(CLICKS.score, 4), np.split(CLICKS.label, 4))
    workers = [held(fm.AUC(bounds=True), *part) for part in parts]
    return plot.by_worker([each.compute_local() for each in workers], fm.merge_all(workers).compute())


def at_k() -> Any:
    query = np.arange(len(CLICKS.label)) // 40
    new, old = (
        held(fm.NDCG(k=[1, 3, 5, 10, 20], zero_division=0), each, query=query) for each in (CLICKS.score, CLICKS.old)
    )
    return plot.at_k(old, plot.at_k(new, label=worded("NDCG, new")), label=worded("NDCG, old"))


def residuals() -> Any:
    random = np.random.default_rng(7)
    label = random.gamma(4, 1, 20_000)
    prediction = label + 0.15 + random.normal(0, 0.3 + 0.1 * label)
    metric = fm.Histogram(bins=50, range=(-3, 3))
    metric.add(prediction - label)
    return plot.residuals(metric)


def predicted_actual() -> Any:
    random = np.random.default_rng(7)
    place = np.linspace(0.5, 6, 12)
    error = 0.05 + 0.03 * place
    return plot.predicted_actual(
        {"predicted": place, "actual": 0.4 + 0.85 * place + error * random.normal(size=12), "error": error}
    )


def over_time() -> Any:
    days: dict[str, dict[str, Any]] = {"new": {}, "old": {}}
    for day in range(8):
        part = slice(5000 * day, 5000 * (day + 1))
        for name, score in (("new", CLICKS.score), ("old", CLICKS.old)):
            found = held(fm.Interval(fm.AUC()), score[part], CLICKS.label[part]).compute()
            days[name][f"11-{15 + day}"] = found
    return plot.over_time(days["old"], plot.over_time(days["new"], label=worded("AUC, new")), label=worded("AUC, old"))


PICTURES: dict[str, Callable[[], Any]] = {
    "roc": roc,
    "roc_band": lambda: plot.roc(held(fm.AUC(buckets=16, spacing="linear"))),
    "precision_recall": lambda: plot.precision_recall(held(fm.AveragePrecision())),
    "calibration": lambda: plot.calibration(held(fm.CalibrationCurve(bins=12))),
    "calibration_mass": lambda: plot.calibration(held(fm.AUC(), CLICKS.score**2)),
    "calibration_log": lambda: plot.calibration(held(fm.CalibrationCurve(bins=[0, 0.003, 0.01, 0.03, 0.1, 0.3, 1]))),
    "score_histogram": lambda: plot.score_histogram(held(fm.AUC())),
    "gain": lambda: plot.gain(held(fm.CumulativeGain())),
    "lift": lambda: plot.lift(held(fm.Lift())),
    "threshold_sweep": threshold_sweep,
    "confusion_matrix": confusion_matrix,
    "over_passes": over_passes,
    "over_time": over_time,
    "predicted_actual": predicted_actual,
    "slices": slices,
    "by_worker": by_worker,
    "at_k": at_k,
    "residuals": residuals,
}


def main(names: list[str]) -> None:
    import real_pictures

    for folder, pictures in ((DOCS / "pictures", PICTURES), (DOCS / "pictures" / "metrics", real_pictures.PICTURES)):
        folder.mkdir(exist_ok=True)
        for name in pictures.keys() & names if names else pictures:
            for dark, chinese in itertools.product((False, True), repeat=2):
                with plot.style(dark=dark, words=CHINESE if chinese else None):
                    text = plot.svg(pictures[name]().figure)
                file = f"{name}{'-dark' if dark else ''}{'.zh' if chinese else ''}.svg"
                (folder / file).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
