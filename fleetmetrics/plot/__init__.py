"""Pictures of what metrics hold and compute, drawn by matplotlib: ``pip install 'fleetmetrics[plot]'``."""

from fleetmetrics.plot.canvas import style, svg
from fleetmetrics.plot.pictures import (
    at_k,
    by_worker,
    calibration,
    confusion_matrix,
    gain,
    histogram,
    lift,
    over_passes,
    precision_recall,
    residuals,
    roc,
    score_histogram,
    slices,
    threshold_sweep,
)

__all__ = [
    "at_k",
    "by_worker",
    "calibration",
    "confusion_matrix",
    "gain",
    "histogram",
    "lift",
    "over_passes",
    "precision_recall",
    "residuals",
    "roc",
    "score_histogram",
    "slices",
    "style",
    "svg",
    "threshold_sweep",
]
