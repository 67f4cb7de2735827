"""Pure functions from global statistics to the value: NumPy only, no Paddle, no communication."""

from fleetmetrics.formulas.classification import accuracy, log_loss
from fleetmetrics.formulas.confusion import precision_recall_f1
from fleetmetrics.formulas.ranking import auc_from_histogram
from fleetmetrics.formulas.ratio import ratio
from fleetmetrics.formulas.regression import (
    mean_absolute_error,
    mean_squared_error,
    root_mean_squared_error,
)
from fleetmetrics.formulas.retrieval import average_precision, average_precision_of_ranking

__all__ = [
    "accuracy",
    "auc_from_histogram",
    "average_precision",
    "average_precision_of_ranking",
    "log_loss",
    "mean_absolute_error",
    "mean_squared_error",
    "precision_recall_f1",
    "ratio",
    "root_mean_squared_error",
]
