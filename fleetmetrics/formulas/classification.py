"""Agreement over a whole confusion matrix, and means over samples.

``confusion`` is ``[classes, classes]``, rows true and columns predicted, or where noted one matrix per label,
``[labels, 2, 2]``, as in scikit-learn: counts or weights, finite and at least 0, else `InvalidInputError`. Where a
value is undefined (without samples, always) it is ``zero_division``; nan, the default, comes with
`UndefinedMetricWarning`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.formulas.arrays import matrix
from fleetmetrics.formulas.confusion import AVERAGES, averaged, counts_of
from fleetmetrics.formulas.quotients import ratio, stand_in, undefined
from fleetmetrics.formulas.sums import as_integers, as_number, unknown
from fleetmetrics.support.checks import checked, flag, one_of, part, stand_in_value, text, total_of_part
from fleetmetrics.support.warning import part_now, warn

__all__ = [
    "balanced_accuracy",
    "cohen_kappa",
    "confusion_accuracy",
    "hamming_loss",
    "matthews_correlation",
    "mean_of_samples",
]


def _part_of_part(argument: str, value: Any, sizes: Any) -> Any:
    return part(argument, total_of_part(argument, value, sizes), sizes)


@checked(shares=part, defined=_part_of_part, rows=total_of_part, metric=text, reason=text, zero_division=stand_in_value)
def mean_of_samples(
    shares: Any,
    defined: Any,
    rows: Any,
    metric: str = "metric",
    reason: str = "there is nothing to divide by",
    zero_division: float = math.nan,
) -> float:
    """Mean over samples of a share of each one's labels, such as its precision: ``average="samples"``.

    Formula: ``shares / defined``; with ``zero_division`` z, ``(shares + z * (rows - defined)) / rows``.

    Args:
        shares: the sum of the samples' shares, each times the sample's weight.
        defined: the number or weight of the samples that have one.
        rows: the number or weight of all samples.
        metric: the name of the share, for the warning.
        reason: describes a sample without a share, for the warning.
        zero_division: the share of such samples; nan leaves them out, with `UndefinedMetricWarning`.

    Examples:
        >>> mean_of_samples(1.5, 2, 3, zero_division=0), mean_of_samples(1.5, 3, 3)
        (0.5, 0.5)
    """
    total, known, every = (as_number(array) for array in (shares, defined, rows))
    if every == 0:
        return stand_in(metric, "there are no samples", zero_division)
    if not math.isnan(zero_division):
        return float((total + zero_division * (every - known)) / every)
    if known == 0:
        return undefined(metric, f"of every sample, {reason}")
    if known < every:
        whole = isinstance(every, int) and isinstance(known, int)
        some = f"{every - known:,} of {every:,} samples" if whole else f"{(every - known) / every:.2%} of the samples"
        text = f"{metric}{part_now()} of {some} is undefined: {reason}; the samples average leaves them out"
        warn(text, UndefinedMetricWarning)
    return float(total / known)


@checked(confusion=matrix(labels=True), average=AVERAGES, zero_division=stand_in_value)
def confusion_accuracy(confusion: Any, average: str | None = "micro", zero_division: float = math.nan) -> Any:
    """Share of samples predicted correctly, in [0, 1].

    Formula: ``sum_k n[k, k] / n`` for classes, and ``(tp + tn) / n`` for labels.

    Args:
        confusion: ``[classes, classes]`` or ``[labels, 2, 2]``.
        average: ``"micro"`` counts every sample (and label) once; ``"macro"`` is the mean of the classes' recalls or
            the labels' accuracies, ``"weighted"`` their mean weighted by how often each is true; None or ``"none"``, an
            array.
        zero_division: see the module; for a class that is never true, `fleetmetrics.formulas.recall`.

    Examples:
        >>> confusion_accuracy([[3, 1], [1, 5]])
        0.8
    """
    counts = counts_of(confusion)
    if counts.entry == "label":
        right, whole = counts.tp + counts.tn, confusion.sum(axis=(1, 2))
        return averaged("accuracy", "without samples", counts, right, whole, average, zero_division)
    if average != "micro":
        return averaged("accuracy", "never true", counts, counts.tp, counts.support, average, zero_division)
    return ratio.bare(counts.tp.sum(), confusion.sum(), "accuracy", zero_division)


@checked(confusion=matrix(labels=True), zero_division=stand_in_value)
def hamming_loss(confusion: Any, zero_division: float = math.nan) -> float:
    """Share of wrong predictions over all samples and labels, in [0, 1].

    Formula: ``1 - sum_k n[k, k] / n``, all labels taken together; ``confusion`` may be ``[labels, 2, 2]``.

    Examples:
        >>> hamming_loss([[3, 1], [0, 4]])
        0.125
    """
    counts = counts_of(confusion)
    wrong = counts.fp.sum() + (counts.fn.sum() if counts.entry == "label" else 0)
    return ratio.bare(wrong, confusion.sum(), "hamming_loss", zero_division)


@checked(confusion=matrix(labels=True), adjusted=flag, zero_division=stand_in_value)
def balanced_accuracy(confusion: Any, adjusted: bool = False, zero_division: float = math.nan) -> float:
    """Mean recall of the classes, in [0, 1]: accuracy with equally weighted classes.

    Formula: ``b = mean_k(n[k, k] / sum_j n[k, j])`` over the K classes that occur as labels; adjusted for chance ``(b -
    1/K) / (1 - 1/K)``, in [-1 / (K - 1), 1] and undefined for K = 1. For ``[labels, 2, 2]`` the mean of b over the
    labels that have samples.

    Source: Mosley, "A balanced approach to the multi-class imbalance problem" (2013).

    Examples:
        >>> balanced_accuracy([[3, 1], [0, 8]])
        0.875
    """
    matrices = confusion if confusion.ndim == 3 else confusion[None]
    matrices = matrices[matrices.any(axis=(1, 2))]
    if not len(matrices):
        return stand_in("balanced_accuracy", "there are no samples", zero_division)
    values = []
    for one in matrices:
        support = one.sum(axis=1)
        shares = one.diagonal()[support != 0] / support[support != 0]
        if adjusted and len(shares) <= 1:
            return stand_in("balanced_accuracy", "one class only is true, so chance is undefined", zero_division)
        chance = 1 / len(shares) if adjusted else 0.0
        values.append((shares.mean() - chance) / (1 - chance))
    return float(np.mean(values))


@checked(confusion=matrix(labels=False), weights=one_of(None, "linear", "quadratic"), zero_division=stand_in_value)
def cohen_kappa(confusion: Any, weights: str | None = None, zero_division: float = math.nan) -> float:
    """Agreement of prediction and label beyond chance, in [-1, 1]; 0 is chance.

    Formula: ``1 - sum_ij(d[i, j] * n[i, j]) / sum_ij(d[i, j] * t[i] * p[j] / n)``, where t and p are the sums of rows
    and columns. Undefined if one class is both the only true and the only predicted one.

    Args:
        confusion: ``[classes, classes]``.
        weights: the distance d of two classes: None, 1 if they differ; ``"linear"``, ``|i - j|``; ``"quadratic"``, ``(i
            - j)**2``. i and j are class numbers, whether or not the classes in between occur.
        zero_division: see the module.

    Examples:
        >>> cohen_kappa([[3, 1], [1, 3]])
        0.5
    """
    if unknown(confusion):
        return math.nan
    matrix = as_integers(confusion)
    t, p = matrix.sum(axis=1), matrix.sum(axis=0)
    total = sum(t.tolist())
    if not total:
        return stand_in("cohen_kappa", "there are no samples", zero_division)
    if weights is None:
        alike = sum(a * b for a, b in zip(t.tolist(), p.tolist()))
        observed, expected = total - sum(matrix.diagonal().tolist()), total * total - alike
    else:
        place = np.arange(len(matrix))
        apart = np.abs(place[:, None] - place).astype(object) ** {"linear": 1, "quadratic": 2}[weights]
        observed, expected = np.sum(apart * matrix), t.dot(apart).dot(p)
    if not expected:
        return stand_in("cohen_kappa", "only one class is true and predicted", zero_division)
    return float((expected - total * observed) / expected)


@checked(confusion=matrix(labels=True), zero_division=stand_in_value)
def matthews_correlation(confusion: Any, zero_division: float = math.nan) -> float:
    """Correlation of prediction and label in [-1, 1]: the phi coefficient, or Gorodkin's R_K for several classes.

    Formula: ``(c * n - t.p) / sqrt((n**2 - p.p) * (n**2 - t.t))``, where c is the number of correct samples, n of all,
    and t and p are the sums of rows and columns; the sums are exact, for weights too. The matrices of ``[labels, 2,
    2]`` are added up first, as in torchmetrics. Undefined if only one class is true, or only one is predicted;
    scikit-learn returns 0.

    Examples:
        >>> matthews_correlation([[3, 1], [1, 3]])
        0.5
    """
    if unknown(confusion):
        return math.nan
    matrix = as_integers(confusion)
    matrix = matrix.sum(axis=0) if matrix.ndim == 3 else matrix
    t, p = matrix.sum(axis=1).tolist(), matrix.sum(axis=0).tolist()
    total = sum(t)
    if not total:
        return stand_in("matthews_correlation", "there are no samples", zero_division)
    for name, sums in (("true", t), ("predicted", p)):
        if len(sums) - sums.count(0) == 1:
            return stand_in("matthews_correlation", f"one class only is {name}", zero_division)
    covariance = sum(matrix.diagonal().tolist()) * total - sum(a * b for a, b in zip(t, p))
    product = math.prod(total * total - sum(a * a for a in sums) for sums in (t, p))
    if product <= 0:  # unchecked weights may be negative
        return math.nan
    return max(-1.0, min(1.0, (covariance << 64) / math.isqrt(product << 128)))  # integers: one rounding
