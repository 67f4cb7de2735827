"""Regression metrics: how far predictions are from labels."""

from fleetmetrics.metrics.regression.correlation import (
    ExplainedVariance,
    PearsonCorrelation,
    R2Score,
)
from fleetmetrics.metrics.regression.errors import (
    LogCoshError,
    MaxError,
    MeanAbsoluteError,
    MeanBias,
    MeanSquaredError,
    MeanSquaredLogError,
    RootMeanSquaredError,
    RootMeanSquaredLogError,
)
from fleetmetrics.metrics.regression.losses import QuantileLoss, TweedieDeviance
from fleetmetrics.metrics.regression.ranks import (
    XAUC,
    KendallCorrelation,
    SpearmanCorrelation,
)
from fleetmetrics.metrics.regression.relative import (
    MeanAbsolutePercentageError,
    SymmetricMeanAbsolutePercentageError,
    WeightedMeanAbsolutePercentageError,
)

__all__ = [
    "XAUC",
    "ExplainedVariance",
    "KendallCorrelation",
    "LogCoshError",
    "MaxError",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanBias",
    "MeanSquaredError",
    "MeanSquaredLogError",
    "PearsonCorrelation",
    "QuantileLoss",
    "R2Score",
    "RootMeanSquaredError",
    "RootMeanSquaredLogError",
    "SpearmanCorrelation",
    "SymmetricMeanAbsolutePercentageError",
    "TweedieDeviance",
    "WeightedMeanAbsolutePercentageError",
]
