"""Formulas of classification metrics that are means over samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.arguments import choice_of
from fleetmetrics.formulas.ratio import ratio, ratios

__all__ = ["accuracy", "exact_match", "hinge_loss", "log_loss"]


def accuracy(correct: Any, total: Any, *, zero_division: float = math.nan) -> float:
    """Share of samples that were predicted right.

    Formula: ``correct / total``, both weighted if weights were given.

    Args:
        correct: number (or weight) of the samples that were right.
        total: number (or weight) of all samples.
        zero_division: the value where there are no samples.

    Returns:
        A fraction in [0, 1]; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> accuracy(3, 4)
        0.75
    """
    return ratio(correct, total, "accuracy", zero_division)


def exact_match(correct: Any, total: Any, zero_division: float = math.nan) -> float:
    """Share of samples all of whose labels were predicted right; subset accuracy.

    Formula: ``correct / total``, both weighted if weights were given.

    Source: Ghamrawi and McCallum, "Collective multi-label classification", CIKM 2005, section 5.

    Args:
        correct: number (or weight) of the samples without any wrong label.
        total: number (or weight) of all samples.
        zero_division: the value where there are no samples.

    Returns:
        A fraction in [0, 1]; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> exact_match(1, 4)
        0.25
    """
    return ratio(correct, total, "exact_match", zero_division)


def hinge_loss(loss: Any, total: Any, zero_division: float = math.nan) -> float:
    """Mean hinge loss.

    Formula: ``sum(w * max(0, 1 - m)) / sum(w)``, where m is the margin: the decision value, of class 0 its negative;
    of several classes what the label's decision value is above the highest of the others.

    Source: Crammer and Singer, "On the algorithmic implementation of multiclass kernel-based vector machines",
    Journal of Machine Learning Research 2 (2001).

    Args:
        loss: the weighted sum of ``max(0, 1 - m)``, or of its square.
        total: number (or weight) of all samples.
        zero_division: the value where there are no samples.

    Returns:
        A number of at least 0; nan with `UndefinedMetricWarning` if there are no samples.

    Examples:
        >>> hinge_loss(1.0, 4)
        0.25
    """
    return ratio(loss, total, "hinge_loss", zero_division)


def log_loss(log_likelihood: Any, total: Any, average: str | None = "macro", zero_division: float = math.nan) -> Any:
    """Mean negative log-likelihood of the labels.

    Formula: ``-sum(w * ln(q)) / sum(w)``, where ``q`` is the probability that was given to the true label. Of several
    labels (arrays), ``"macro"`` is the mean of their losses, ``"micro"`` the quotient of the totals of all labels,
    and None (or ``"none"``) gives each.

    Source: Bishop, Pattern Recognition and Machine Learning (2006), equations 4.90 and 4.108.

    Args:
        log_likelihood: the weighted sum of ``ln(q)``, at most 0; of several labels ``[labels]``.
        total: number (or weight) of all samples, of the same shape.
        average: one of those above.
        zero_division: the value where there are no samples.

    Returns:
        A number of nats, at least 0, or for None an array; nan with `UndefinedMetricWarning` if there are no samples.
        A label without samples is left out of ``"macro"``.

    Examples:
        >>> log_loss(-1.0, 4)
        0.25
    """
    choice_of("average", average, ("macro", "micro", "none", None))
    if np.ndim(log_likelihood) == 0 or average == "micro":
        # 0.0 and not -0.0 where all is certain
        return ratio(0.0 - np.sum(log_likelihood), np.sum(total), "log_loss", zero_division)
    if not np.any(total) and average not in (None, "none"):
        return ratio(0, 0, "log_loss", zero_division)
    values = ratios(0.0 - np.asarray(log_likelihood), total, "log_loss", zero_division, "label")
    return values if average in (None, "none") else float(np.mean(values[~np.isnan(values)]))
