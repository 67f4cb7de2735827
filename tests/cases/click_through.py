"""Click-through and calibration."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import fleetmetrics as fm
from fleetmetrics.formulas import BrierParts, CalibrationPoints, KuiperParts
from tests.cases.base import Case, probabilities, sklearn, two_columns

Rng = np.random.Generator
OF_SCORES = ("[n]", "[n, 1]")
SEVERAL = ("[n]", "[n, 1]", "[n, m]")
EDGES = [0.0, 0.125, 0.1 * 3, 0.875, 1.0]
BUCKETS = 9


def logits(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    return (rng.normal(size=samples) * 3).astype(dtype), rng.integers(0, 2, samples).astype(label_dtype)


def softmax(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Of four classes; no two of a sample are equal."""
    table = rng.permuted(np.tile([1, 2, 4, 9], (samples, 1)), axis=1) / 16
    return table.astype(dtype), rng.integers(0, 2 if label_dtype == "bool" else 4, samples).astype(label_dtype)


def logits_of_four(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    _, label = softmax(rng, samples, dtype, label_dtype)
    return (rng.normal(size=(samples, 4)) * 3).astype(dtype), label


# -- references ------------------------------------------------------------------------------------------


def ones(w: Any, like: Any) -> Any:
    return np.ones(len(like)) if w is None else w


def of_class_1(p: Any) -> Any:
    return (p[:, 1] if p.ndim == 2 else p).astype(float)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x.astype(float)))


def from_logits(reference: Any) -> Any:
    return lambda x, y, w: reference(sigmoid(x), y, w)


def rate(p: Any, y: Any, w: Any) -> float:
    return float(np.average(y.astype(float), weights=w))


def predicted_rate(p: Any, y: Any, w: Any) -> float:
    return float(np.average(of_class_1(p), weights=w))


def calibration(p: Any, y: Any, w: Any) -> float:
    w = ones(w, y)
    return float(np.sum(w * of_class_1(p)) / np.sum(w * y.astype(float)))


def entropy(coefficient: float = 1.0) -> Any:
    """Normalized entropy as TorchRec writes it, sample by sample, with scikit-learn's bound."""

    def reference(p: Any, y: Any, w: Any) -> float:
        p, y, w = of_class_1(p), y.astype(float), ones(w, y)
        p = p / (p + (1 - p) / coefficient)
        base = np.average(y, weights=w)
        least = np.finfo(float).eps
        loss = w * (y * np.log(np.maximum(p, least)) + (1 - y) * np.log(np.maximum(1 - p, least)))
        return float(np.sum(loss) / np.sum(w * (y * math.log(base) + (1 - y) * math.log(1 - base))))

    return reference


def bucket_error(p: Any, y: Any, w: Any) -> float:
    """Over eight buckets, each of which is a group of its own where it holds enough."""
    w = ones(w, y)
    precision = np.float32 if p.dtype in (np.float16, np.float32) else np.float64
    bucket = np.minimum((p.astype(precision) * precision(BUCKETS - 1)).astype(int), BUCKETS - 2)
    error = weight = 0.0
    for number in range(1, BUCKETS - 1):
        n, c = w[bucket == number].sum(), number / (BUCKETS - 1)
        if n and math.sqrt((1 - c) / (c * n)) < 0.7:
            error += n * abs(np.average(y[bucket == number], weights=w[bucket == number]) / c - 1)
            weight += n
    return float(error / weight)


def bins(p: Any, edges: Any) -> list[Any]:
    """Flags of the samples in each bin that is not empty, with its edges."""
    found = [(p > low) & (p <= high) | (p == 0) & (low == 0) for low, high in zip(edges, edges[1:])]
    return [(flags, *pair) for flags, *pair in zip(found, edges, edges[1:]) if flags.any()]


def curve(edges: Any) -> Any:
    def reference(p: Any, y: Any, w: Any) -> CalibrationPoints:
        p, weight = of_class_1(p), ones(w, y)
        rows = [
            (np.average(p[f], weights=weight[f]), np.average(y[f], weights=weight[f]), weight[f].sum(), low, high)
            for f, low, high in bins(p, edges)
        ]
        columns = [np.array(column) for column in zip(*rows)]
        columns[2] = columns[2].astype(np.int64) if w is None else columns[2]
        return CalibrationPoints(*columns)

    return reference


def calibration_error(norm: str, edges: Any) -> Any:
    def reference(p: Any, y: Any, w: Any) -> float:
        points = curve(edges)(p, y, w)
        gap = np.abs(points.predicted - points.actual)
        if norm == "max":
            return float(gap.max())
        mean = np.average(gap ** (2 if norm == "l2" else 1), weights=points.weight)
        return float(mean if norm == "l1" else math.sqrt(mean))

    return reference


def of_each_class(reference: Any) -> Any:
    """The mean over classes of a reference of one class against the others."""

    def of_table(p: Any, y: Any, w: Any) -> float:
        return float(np.mean([reference(p[:, k].astype(float), y == k, w) for k in range(p.shape[1])]))

    return of_table


def of_top_label(reference: Any, logits: bool = False) -> Any:
    def of_table(p: Any, y: Any, w: Any) -> float:
        p = p.astype(float)
        if logits:
            p = np.exp(p - p.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
        return reference(p.max(axis=1), p.argmax(axis=1) == y, w)

    return of_table


def brier_of_classes(p: Any, y: Any, w: Any) -> float:
    """The mean squared distance from one-hot labels: scikit-learn's, which has it from 1.7 on."""
    error = p.astype(float) - np.eye(4)[y.astype(int)]
    return float(np.average((error**2).sum(axis=1), weights=w))


def brier_parts(p: Any, y: Any, w: Any) -> BrierParts:
    score = sklearn("brier_score_loss")(of_class_1(p), y, w)
    p, y, w = of_class_1(p), y.astype(float), ones(w, y)
    base, parts = np.average(y, weights=w), np.zeros(4)
    for flags, *_ in bins(p, EDGES):
        f, o, of = p[flags], y[flags], w[flags]
        mean, actual = np.average(f, weights=of), np.average(o, weights=of)
        spread = [(mean - actual) ** 2, (actual - base) ** 2]
        within = [np.average((f - mean) ** 2, weights=of), 2 * np.average((f - mean) * (o - actual), weights=of)]
        parts += of.sum() / w.sum() * np.array([*spread, *within])
    return BrierParts(score, parts[0], parts[1], base * (1 - base), parts[2], parts[3])


def mean_square_of_equal_mass(p: Any, y: Any, w: Any) -> float:
    """The mean squared difference over five bins of equal weight, equal probabilities in one."""
    p, y, w = of_class_1(p), y.astype(float), ones(w, y)
    middle = np.array([w[p < each].sum() + w[p == each].sum() / 2 for each in p])
    place = np.floor(5 * middle / w.sum() + 1e-9)
    parts = [(w[place == k], p[place == k], y[place == k]) for k in np.unique(place)]
    squares = [(np.average(of, weights=by) - np.average(true, weights=by)) ** 2 for by, of, true in parts]
    return float(np.average(squares, weights=[by.sum() for by, *_ in parts]))


def rooted(reference: Any) -> Any:
    return lambda p, y, w: math.sqrt(reference(p, y, w))


def kuiper(p: Any, y: Any, w: Any) -> KuiperParts:
    """The largest difference of any two sums up to an edge, bins by bins."""
    p, y, w = of_class_1(p), y.astype(float), ones(w, y)
    below = [np.sum((w * (y - p))[p <= edge]) / w.sum() if edge else 0.0 for edge in EDGES]
    found = max(((abs(there - here), i, j) for i, here in enumerate(below) for j, there in enumerate(below[:i])))
    statistic, last, first = found
    normalized = statistic * w.sum() / np.sqrt(np.sum(w**2 * p * (1 - p)))
    p_value = 4 * sum((-1) ** (k - 1) * k * math.erfc(k * normalized / math.sqrt(2)) for k in range(1, 200))
    difference = below[last] - below[first]
    return KuiperParts(statistic, normalized, p_value, EDGES[first], EDGES[last], difference)


UNIFORM = np.linspace(0, 1, 16)
CASES = {
    "click-through rate": Case(fm.ClickThroughRate, probabilities, rate),
    "predicted click-through rate": Case(fm.PredictedClickThroughRate, probabilities, predicted_rate),
    "calibration": Case(fm.Calibration, probabilities, calibration, shapes=SEVERAL),
    "copc": Case(fm.COPC, probabilities, lambda p, y, w: 1 / calibration(p, y, w), shapes=SEVERAL),
    "normalized entropy": Case(fm.NormalizedEntropy, probabilities, entropy(), shapes=SEVERAL),
    "recalibrated normalized entropy": Case(
        functools.partial(fm.RecalibratedNormalizedEntropy, recalibration_coefficient=0.1),
        probabilities,
        entropy(0.1),
        shapes=SEVERAL,
    ),
    "recalibrated normalized entropy of logits": Case(
        functools.partial(fm.RecalibratedNormalizedEntropy, recalibration_coefficient=0.1, from_logits=True),
        logits,
        from_logits(entropy(0.1)),
        shapes=SEVERAL,
    ),
    "bucket error": Case(
        functools.partial(fm.BucketError, buckets=BUCKETS, relative_error_bound=0.7),
        probabilities,
        bucket_error,
        shapes=SEVERAL,
        kinds="f",
    ),
    "brier score": Case(fm.BrierScore, probabilities, sklearn("brier_score_loss")),
    "brier score of logits": Case(
        functools.partial(fm.BrierScore, from_logits=True), logits, from_logits(sklearn("brier_score_loss"))
    ),
    "brier score of classes": Case(
        functools.partial(fm.BrierScore, num_classes=4), softmax, brier_of_classes, shapes=OF_SCORES, kinds="f"
    ),
    "brier score of logits of classes": Case(
        functools.partial(fm.BrierScore, num_classes=4, from_logits=True),
        logits_of_four,
        lambda p, y, w: brier_of_classes(np.exp(p.astype(float)) / np.exp(p.astype(float)).sum(1, keepdims=True), y, w),
        shapes=OF_SCORES,
        kinds="f",
    ),
    "brier decomposition": Case(
        functools.partial(fm.BrierDecomposition, bins=EDGES),
        probabilities,
        brier_parts,
        shapes=SEVERAL,
        undefined=BrierParts(*[np.nan] * 6),
        tolerance=1e-11,
        kinds="f",
    ),
    "adaptive calibration error": Case(
        functools.partial(fm.AdaptiveCalibrationError, bins=5, norm="l2"),
        probabilities,
        rooted(mean_square_of_equal_mass),
        shapes=SEVERAL,
        modes=("numpy", "dynamic"),
        kinds="f",
    ),
    "classwise adaptive calibration error": Case(
        functools.partial(fm.AdaptiveCalibrationError, bins=5, norm="l2", classwise=True, num_classes=4),
        softmax,
        rooted(of_each_class(mean_square_of_equal_mass)),
        shapes=OF_SCORES,
        modes=("numpy", "dynamic"),
        kinds="f",
    ),
    "classwise calibration error": Case(
        functools.partial(fm.ExpectedCalibrationError, classwise=True, num_classes=4),
        softmax,
        of_each_class(calibration_error("l1", UNIFORM)),
        shapes=OF_SCORES,
        kinds="f",
    ),
    "kuiper calibration": Case(
        functools.partial(fm.KuiperCalibration, bins=EDGES),
        probabilities,
        kuiper,
        shapes=SEVERAL,
        undefined=KuiperParts(*[np.nan] * 6),
        tolerance=1e-10,
        kinds="f",
    ),
    "expected calibration error": Case(
        fm.ExpectedCalibrationError, probabilities, calibration_error("l1", UNIFORM), kinds="f"
    ),
    "maximum calibration error of logits": Case(
        functools.partial(fm.ExpectedCalibrationError, bins=EDGES, norm="max", from_logits=True),
        logits,
        from_logits(calibration_error("max", EDGES)),
    ),
    "expected calibration error of several classes": Case(
        functools.partial(fm.ExpectedCalibrationError, task="multiclass"),
        softmax,
        of_top_label(calibration_error("l1", UNIFORM)),
        shapes=OF_SCORES,
        kinds="f",
    ),
    "expected calibration error of logits of several classes": Case(
        functools.partial(fm.ExpectedCalibrationError, bins=1, task="multiclass", from_logits=True),
        logits_of_four,
        of_top_label(calibration_error("l1", [0.0, 1.0]), logits=True),
        shapes=OF_SCORES,
        kinds="f",
    ),
    "calibration curve": Case(
        functools.partial(fm.CalibrationCurve, bins=15),
        probabilities,
        curve(UNIFORM),
        undefined=CalibrationPoints(*[np.empty(0)] * 5),
        kinds="f",
    ),
    "calibration curve of edges": Case(
        functools.partial(fm.CalibrationCurve, bins=EDGES),
        two_columns,
        curve(EDGES),
        shapes=OF_SCORES,
        undefined=CalibrationPoints(*[np.empty(0)] * 5),
        kinds="f",
    ),
}
