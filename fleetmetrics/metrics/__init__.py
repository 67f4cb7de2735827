"""The catalogue: each metric is states, batch statistics and a formula."""

from fleetmetrics.metrics.aggregation import Count, Max, Min, Sum
from fleetmetrics.metrics.classification import Accuracy, LogLoss
from fleetmetrics.metrics.ranking import AUC
from fleetmetrics.metrics.regression import MeanAbsoluteError, MeanSquaredError, RootMeanSquaredError

__all__ = [
    "AUC",
    "Accuracy",
    "Count",
    "LogLoss",
    "Max",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Min",
    "RootMeanSquaredError",
    "Sum",
]
