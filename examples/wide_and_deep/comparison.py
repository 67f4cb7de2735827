"""The table at the end: what each worker has, what all of them have, and what scikit-learn says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

BUCKETS = 4095
"""`num_thresholds` of the AUC: a prediction p falls into bucket int(p * BUCKETS)."""

LIMITS = {
    "auc": 0.0,
    "accuracy": 0.0,
    "mae": 1e-9,
    "mse": 1e-9,
    "rmse": 1e-9,
    "log_loss": 1e-9,
    "samples": 0.0,
}
"""The metrics in the order of the table, and how far each may be from scikit-learn's value."""

TITLES = {"auc": "AUC", "mae": "MAE", "mse": "MSE", "rmse": "RMSE", "log_loss": "log loss"}


def references(prediction: np.ndarray, label: np.ndarray) -> dict[str, float]:
    """scikit-learn's values over all the predictions, float32 as the network made them."""
    from sklearn import metrics as sklearn  # which servers do not need

    p = prediction.astype(np.float64)
    return {
        "auc": auc((prediction.astype(np.float32) * np.float32(BUCKETS)).astype(np.int64), label),
        "accuracy": sklearn.accuracy_score(label, p > 0.5),
        "mae": sklearn.mean_absolute_error(label, p),
        "mse": sklearn.mean_squared_error(label, p),
        "rmse": math.sqrt(sklearn.mean_squared_error(label, p)),
        "log_loss": sklearn.log_loss(label, p, labels=[0, 1]),
        "samples": float(len(label)),
    }


def auc(score: np.ndarray, label: np.ndarray) -> float:
    """scikit-learn's AUC; nan where only one class is present.

    Of the curve in whole samples instead of rates, so that no rounding hides a difference of one sample.
    """
    from sklearn import metrics as sklearn

    positives, negatives = np.count_nonzero(label), np.count_nonzero(label == 0)
    if not positives or not negatives:
        return math.nan
    false_rate, true_rate, _ = sklearn.roc_curve(label, score, drop_intermediate=False)
    return sklearn.auc(np.rint(false_rate * negatives), np.rint(true_rate * positives)) / (positives * negatives)


def table(local: Sequence[dict[str, float]], overall: dict[str, float], reference: dict[str, float]) -> str:
    """The values side by side, one metric a line."""
    header = ["", *(f"worker {rank}" for rank in range(len(local))), "global", "scikit-learn", "difference"]
    lines = [header]
    for name in LIMITS:
        values = [*(worker[name] for worker in local), overall[name], reference[name]]
        digits = 0 if name == "samples" else 6
        cells = [f"{value:.{digits}f}" for value in values]
        lines.append([TITLES.get(name, name), *cells, f"{abs(overall[name] - reference[name]):.1e}"])
    widths = [max(map(len, column)) for column in zip(*lines)]
    rows = [[cell.rjust(width) for cell, width in zip(line, widths)] for line in lines]
    return "\n".join("  ".join([line[0].ljust(widths[0]), *row[1:]]) for line, row in zip(lines, rows))


def failures(overall: dict[str, float], reference: dict[str, float]) -> list[str]:
    """The metrics that are further from scikit-learn than their limit, where scikit-learn has a value."""
    return [
        f"{name}: {overall[name]!r} against scikit-learn's {reference[name]!r}"
        for name, limit in LIMITS.items()
        if not math.isnan(reference[name]) and not abs(overall[name] - reference[name]) <= limit
    ]
