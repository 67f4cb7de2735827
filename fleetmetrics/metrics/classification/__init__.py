"""Classification metrics: binary, of several classes, and of several labels at once."""

from fleetmetrics.metrics.classification.accuracy import Accuracy, ExactMatch
from fleetmetrics.metrics.classification.agreement import (
    BalancedAccuracy,
    CohenKappa,
    ConfusionMatrix,
    HammingLoss,
    MatthewsCorrelation,
)
from fleetmetrics.metrics.classification.averaged import (
    F1,
    FBeta,
    Jaccard,
    Precision,
    Recall,
    Specificity,
    StatScores,
)
from fleetmetrics.metrics.classification.losses import HingeLoss, LogLoss

__all__ = [
    "F1",
    "Accuracy",
    "BalancedAccuracy",
    "CohenKappa",
    "ConfusionMatrix",
    "ExactMatch",
    "FBeta",
    "HammingLoss",
    "HingeLoss",
    "Jaccard",
    "LogLoss",
    "MatthewsCorrelation",
    "Precision",
    "Recall",
    "Specificity",
    "StatScores",
]
