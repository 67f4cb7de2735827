"""The metrics that every combination of dtypes, shapes, weights and modes is tried on."""

from __future__ import annotations

import numpy as np

import fleetmetrics as fm
from tests.cases.base import (
    Case,
    accuracy,
    area,
    classes,
    count,
    extreme,
    linear_bucket,
    log_loss,
    log_odds_bucket,
    numbers,
    probabilities,
    scores,
    sklearn,
    total,
    two_columns,
    values,
)

CASES = {
    "accuracy of probabilities": Case(fm.Accuracy, probabilities, accuracy(lambda p: p > 0.5), True, kinds="f"),
    "accuracy of classes": Case(fm.Accuracy, classes, accuracy(lambda p: p), True, kinds="ib"),
    "accuracy of scores": Case(
        fm.Accuracy, scores, accuracy(lambda p: p.argmax(axis=1)), True, ("[n]", "[n, 1]"), kinds="fi"
    ),
    "accuracy among three": Case(
        lambda *a, **k: fm.Accuracy(*a, top_k=3, **k),
        scores,
        sklearn("top_k_accuracy_score", k=3, labels=range(6)),
        True,
        ("[n]", "[n, 1]"),
        kinds="fi",
    ),
    "auc": Case(fm.AUC, probabilities, area(log_odds_bucket), True),
    "auc of few buckets": Case(
        lambda *a, **k: fm.AUC(*a, num_thresholds=7, **k), probabilities, area(linear_bucket(7)), True
    ),
    "auc of two columns": Case(fm.AUC, two_columns, area(log_odds_bucket), True, ("[n]", "[n, 1]")),
    "log loss": Case(fm.LogLoss, probabilities, log_loss, False),
    "log loss of two columns": Case(fm.LogLoss, two_columns, log_loss, False, ("[n]", "[n, 1]"), kinds="f"),
    "mean absolute error": Case(fm.MeanAbsoluteError, numbers, sklearn("mean_absolute_error"), False),
    "mean squared error": Case(fm.MeanSquaredError, numbers, sklearn("mean_squared_error"), False),
    "root mean squared error": Case(fm.RootMeanSquaredError, numbers, sklearn("root_mean_squared_error"), False),
    "sum": Case(fm.Sum, values, total, False, undefined=0, warnings=0),
    "max": Case(fm.Max, values, extreme(np.max), True),
    "min": Case(fm.Min, values, extreme(np.min), True),
    "count": Case(fm.Count, numbers, count, True, undefined=0, warnings=0),
}
CASES = {name: case._replace(brief=False) for name, case in CASES.items()}
