"""Formulas of classification metrics."""

from __future__ import annotations

from typing import Any

from fleetmetrics.formulas.ratio import ratio

__all__ = ["accuracy", "log_loss"]


def accuracy(correct: Any, total: Any) -> float:
    """Share of samples that were predicted right.

    Formula: ``correct / total``, both weighted if weights were given.

    Args:
        correct: number (or weight) of the samples that were right.
        total: number (or weight) of all samples.

    Returns:
        A fraction in [0, 1]; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> accuracy(3, 4)
        0.75
    """
    return ratio(correct, total, "accuracy")


def log_loss(log_likelihood: Any, total: Any) -> float:
    """Mean negative log-likelihood of the labels.

    Formula: ``-sum(w * ln(q)) / sum(w)``, where ``q`` is the probability that was given to the true label.

    Args:
        log_likelihood: the weighted sum of ``ln(q)``, at most 0.
        total: number (or weight) of all samples.

    Returns:
        A number of nats, at least 0; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> log_loss(-1.0, 4)
        0.25
    """
    return 0.0 - ratio(log_likelihood, total, "log_loss")  # 0.0 and not -0.0 where all is certain
