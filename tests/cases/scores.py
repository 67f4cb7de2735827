"""Areas, curves and points of them: what scikit-learn computes from scores that are rounded to their buckets."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

import fleetmetrics as fm
from fleetmetrics.formulas import ROC, BoundedArea, OperatingPoint, PrecisionRecall, Sweep
from fleetmetrics.metrics.curves import Shares
from fleetmetrics.xp.score_buckets import lowest_scores
from tests.cases.base import Case, labels, linear_bucket, log_odds_bucket, probabilities, sklearn, two_columns
from tests.cases.classification import many_labels, with_ignored
from tests.cases.click_through import from_logits, logits

SHAPES = ("[n]", "[n, 1]", "[n, m]")
NAN = np.array([np.nan])
THRESHOLDS = [0.125, 0.3, 0.5, 0.51]
FRACTIONS = [0.1, 1 / 3, 0.5, 1]


def rounded(p: Any, buckets: int = 4096) -> Any:
    """Each score as the lowest one of its log-odds bucket."""
    score = p[:, 1] if p.ndim == 2 else p
    return lowest_scores(buckets, "log_odds")[log_odds_bucket(score, buckets) - 1]


def of_buckets(reference: Callable[..., Any], buckets: int = 4096) -> Callable[..., Any]:
    return lambda p, y, w: reference(rounded(p, buckets), y, w)


def curve(p: Any, y: Any, w: Any) -> ROC:
    from sklearn.metrics import roc_curve

    return ROC(*roc_curve(y.astype(float), p, sample_weight=w, drop_intermediate=False))


def precision_recall(p: Any, y: Any, w: Any) -> PrecisionRecall:
    from sklearn.metrics import precision_recall_curve

    return PrecisionRecall(*precision_recall_curve(y.astype(float), p, sample_weight=w, drop_intermediate=False))


def ks(p: Any, y: Any, w: Any) -> float:
    fpr, tpr, _ = curve(p, y, w)
    return float(np.abs(tpr - fpr).max())


def best(points: Callable[..., Any], least: float) -> Callable[..., OperatingPoint]:
    """The largest (value, other rate, threshold) whose other rate is large enough."""

    def reference(p: Any, y: Any, w: Any) -> OperatingPoint:
        # A rate that equals the least one except for rounding may be allowed or not; these data have no such rate.
        allowed = [point for point in zip(*points(p, y, w)) if point[1] >= least]
        value, _, threshold = max(allowed)
        return OperatingPoint(float(value), float(threshold))

    return reference


def recalls(p: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
    precision, recall, thresholds = precision_recall(p, y, w)
    return recall, precision, np.append(thresholds, np.inf)


def precisions(p: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
    recall, precision, thresholds = recalls(p, y, w)
    return precision, recall, thresholds


def sensitivities(p: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
    fpr, tpr, thresholds = curve(p, y, w)
    return tpr, 1 - fpr, thresholds


def specificities(p: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
    tpr, specificity, thresholds = sensitivities(p, y, w)
    return specificity, tpr, thresholds


def at_false_alarms(p: Any, y: Any, w: Any) -> tuple[Any, Any, Any]:
    fpr, tpr, thresholds = curve(p, y, w)
    return tpr, -fpr, thresholds


def equal_error_rate(p: Any, y: Any, w: Any) -> float:
    """Where the curve meets its falling diagonal."""
    from scipy.optimize import brentq

    fpr, tpr, _ = curve(p, y, w)
    along = np.arange(len(fpr))
    at = brentq(lambda place: np.interp(place, along, fpr + tpr) - 1, 0, len(fpr) - 1, xtol=1e-15)
    return float(np.interp(at, along, fpr))


def sweep(p: Any, y: Any, w: Any) -> Sweep:
    """scikit-learn's metrics of the classes that each threshold predicts."""
    from sklearn import metrics

    p, y = (p[:, 1] if p.ndim == 2 else p).astype(float), y.astype(bool)
    rows = []
    for threshold in THRESHOLDS:
        classes = p >= threshold
        with_weight = {"sample_weight": w, "zero_division": np.nan}
        rows.append(
            [
                metrics.precision_score(y, classes, **with_weight),
                metrics.recall_score(y, classes, **with_weight),
                metrics.fbeta_score(y, classes, beta=2, **with_weight),
                metrics.accuracy_score(y, classes, sample_weight=w),
                metrics.recall_score(~y, ~classes, **with_weight),
            ]
        )
    columns = [np.array(column) for column in zip(*rows)]
    place = int(np.nanargmax(columns[2]))
    return Sweep(np.array(THRESHOLDS), *columns, THRESHOLDS[place], float(columns[2][place]))


def gain(p: Any, y: Any, w: Any) -> Shares:
    """Group by group of equal scores, from the highest."""
    w = np.ones(len(p)) if w is None else w
    values = []
    for fraction in FRACTIONS:
        left, found = fraction * w.sum(), 0.0
        for score in np.unique(p)[::-1]:
            group = w[p == score].sum()
            taken = min(left, group)
            found += (w * y)[p == score].sum() * (taken / group)
            left -= taken
        values.append(found / (w * y).sum())
    return Shares(np.array(FRACTIONS), np.array(values))


def lift(p: Any, y: Any, w: Any) -> Shares:
    fractions, values = gain(p, y, w)
    return Shares(fractions, values / fractions)


def bounds(area: Callable[..., float], narrow: Callable[[Any], Any]) -> Callable[..., BoundedArea]:
    """The area of the rounded scores; and of scores that are ordered inside the buckets, the worst and the best way."""

    def reference(p: Any, y: Any, w: Any) -> BoundedArea:
        place = narrow(p)
        value = area(place, y, w)
        return BoundedArea(value, *(area(place + sign * y.astype(float) / 4, y, w) for sign in (-1, 1)))

    return reference


def of(kind: Any, **settings: Any) -> Callable[..., Any]:
    return lambda *names, **more: kind(*names, **settings, **more)


def three_classes(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Of about half of the samples in 64ths, which meet edges of buckets."""
    table = np.where(rng.random((samples, 1)) < 0.5, rng.multinomial(64, [1 / 3] * 3, samples) / 64, 0)
    table = np.where(table.any(axis=1, keepdims=True), table, rng.dirichlet([1, 1, 1], samples))
    return table.astype(dtype), labels(rng, samples, label_dtype, 3)


def logits_of_three(rng: np.random.Generator, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    return (rng.normal(size=(samples, 3)) * 3).astype(dtype), labels(rng, samples, label_dtype, 3)


def softmax(p: Any) -> Any:
    odds = np.exp(p.astype(float) - p.max(axis=1, keepdims=True).astype(float))
    return odds / odds.sum(axis=1, keepdims=True)


def by_class(curve: str, average: str | None = "macro", made: Callable[[Any], Any] = np.asarray) -> Callable[..., Any]:
    """scikit-learn's areas of scores that are rounded to their buckets, without samples labeled -1."""

    def reference(p: Any, y: Any, w: Any) -> Any:
        from sklearn import metrics

        function = metrics.roc_auc_score if curve == "roc" else metrics.average_precision_score
        p, y = made(p), y.astype(int)
        truth = y if y.ndim == 2 else (y[:, None] == np.arange(3)).astype(int)
        score = np.stack([rounded(column) for column in p.T], axis=1)
        keep = (y != -1).reshape(len(y), -1).all(axis=1)
        return function(truth[keep], score[keep], average=average, sample_weight=None if w is None else w[keep])

    return reference


def scores(make: Any, reference: Any, undefined: Any = np.nan, **more: Any) -> Case:
    return Case(make, probabilities, reference, shapes=SHAPES, undefined=undefined, **more)


def shares_of_nobody() -> Shares:
    return Shares(np.array(FRACTIONS), np.full(4, np.nan))


ROC_AREA, AVERAGE_PRECISION = sklearn("roc_auc_score"), sklearn("average_precision_score")
NO_POINT = OperatingPoint(np.nan, np.nan)
IN_MEMORY = ("numpy", "dynamic")

CASES = {
    "auc up to a rate": scores(of(fm.AUC, max_fpr=0.3), of_buckets(sklearn("roc_auc_score", max_fpr=0.3))),
    "auc of logits": Case(
        of(fm.AUC, from_logits=True), logits, from_logits(of_buckets(ROC_AREA)), shapes=SHAPES, kinds="f"
    ),
    "auc with bounds": scores(
        of(fm.AUC, bounds=True, num_thresholds=5), bounds(ROC_AREA, linear_bucket(5)), BoundedArea(*[np.nan] * 3)
    ),
    "area of precision and recall": scores(of(fm.AUC, curve="PR", buckets=20), of_buckets(AVERAGE_PRECISION, 20)),
    "average precision": scores(fm.AveragePrecision, of_buckets(AVERAGE_PRECISION)),
    "average precision of two columns": Case(
        fm.AveragePrecision, two_columns, of_buckets(AVERAGE_PRECISION), shapes=("[n]", "[n, 1]")
    ),
    "auc of classes": Case(
        of(fm.AUC, task="multiclass", num_classes=3),
        three_classes,
        by_class("roc"),
        kinds="f",
        shapes=("[n]", "[n, 1]"),
    ),
    "weighted auc of labels": Case(
        of(fm.AUC, task="multilabel", num_labels=3, average="weighted"),
        many_labels,
        by_class("roc", "weighted"),
        shapes=("[n]",),
        by_row=True,
    ),
    "average precision of classes of logits": Case(
        of(fm.AveragePrecision, task="multiclass", num_classes=3, average=None, from_logits=True, ignore_index=-1),
        with_ignored(logits_of_three, -1),
        by_class("pr", None, softmax),
        kinds="f",
        shapes=("[n]", "[n, 1]"),
        undefined=np.full(3, np.nan),
    ),
    "roc curve": scores(fm.ROCCurve, of_buckets(curve), ROC(NAN, NAN, np.array([np.inf]))),
    "precision-recall curve": scores(
        fm.PrecisionRecallCurve, of_buckets(precision_recall), PrecisionRecall(np.ones(1), NAN, np.empty(0))
    ),
    "kolmogorov-smirnov": scores(fm.KolmogorovSmirnov, of_buckets(ks)),
    "recall at fixed precision": scores(
        of(fm.RecallAtFixedPrecision, min_precision=0.51), of_buckets(best(recalls, 0.51)), NO_POINT
    ),
    "precision at fixed recall": scores(
        of(fm.PrecisionAtFixedRecall, min_recall=0.53), of_buckets(best(precisions, 0.53)), NO_POINT
    ),
    "sensitivity at specificity": scores(
        of(fm.SensitivityAtSpecificity, min_specificity=0.53), of_buckets(best(sensitivities, 0.53)), NO_POINT
    ),
    "specificity at sensitivity": scores(
        of(fm.SpecificityAtSensitivity, min_sensitivity=0.53), of_buckets(best(specificities, 0.53)), NO_POINT
    ),
    "threshold sweep": scores(
        of(fm.ThresholdSweep, thresholds=THRESHOLDS, beta=2),
        sweep,
        Sweep(np.array(THRESHOLDS), *[np.full(4, np.nan)] * 5, np.nan, np.nan),
    ),
    "cumulative gain": scores(of(fm.CumulativeGain, fractions=FRACTIONS), of_buckets(gain), shares_of_nobody()),
    "lift": scores(of(fm.Lift, fractions=FRACTIONS), of_buckets(lift), shares_of_nobody()),
    "exact auc": scores(fm.ExactAUC, ROC_AREA, modes=IN_MEMORY),
    "exact auc up to a rate": scores(
        of(fm.ExactAUC, max_fpr=0.3), sklearn("roc_auc_score", max_fpr=0.3), modes=IN_MEMORY
    ),
    "exact average precision": scores(of(fm.ExactAUC, curve="PR"), AVERAGE_PRECISION, modes=IN_MEMORY),
    "tpr at fpr": scores(of(fm.TPRAtFPR, max_fpr=0.47), of_buckets(best(at_false_alarms, -0.47)), NO_POINT),
    "equal error rate": scores(fm.EqualErrorRate, of_buckets(equal_error_rate)),
}
