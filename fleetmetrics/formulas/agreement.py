"""Formulas on a whole confusion matrix: how far prediction and label agree, by chance and beyond.

All take ``[classes, classes]``, rows true and columns predicted, or where it says so one matrix per label,
``[labels, 2, 2]``; both as scikit-learn has them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fleetmetrics.arguments import choice_of
from fleetmetrics.formulas.confusion import averaged, counts_of
from fleetmetrics.formulas.given import as_integers, exact_total, matrix_given
from fleetmetrics.formulas.ratio import ratio, stand_in

__all__ = ["balanced_accuracy", "cohen_kappa", "confusion_accuracy", "hamming_loss", "matthews_correlation"]


def confusion_accuracy(confusion: Any, average: str | None = "micro", zero_division: float = math.nan) -> Any:
    """Share of what was predicted right.

    Formula: ``sum_k n[k, k] / n`` of classes, and ``(tp + tn) / n`` of labels. ``"micro"`` counts every sample (and
    label) once. The accuracy of one class is its recall, that of one label its share of right samples: their mean
    is ``"macro"``, or ``"weighted"`` by how often each is true; None (or ``"none"``) gives each.

    Source: Stehman, "Selecting and interpreting measures of thematic classification accuracy", Remote Sensing of
    Environment 62 (1997), section 3.

    Args:
        confusion: ``[classes, classes]`` or ``[labels, 2, 2]``.
        average: one of those above.
        zero_division: the value where there are no samples; of a class that is never true, see
            `fleetmetrics.formulas.recall`.

    Returns:
        A float in [0, 1], or for None an array.

    Examples:
        >>> confusion_accuracy([[3, 1], [1, 5]])
        0.8
    """
    matrix = matrix_given(confusion)
    counts = counts_of(matrix)
    if counts.entry == "label":
        right, whole = counts.tp + counts.tn, matrix.sum(axis=(1, 2))
        return averaged("accuracy", "without samples", counts, right, whole, average, zero_division)
    if average != "micro":
        return averaged("accuracy", "never true", counts, counts.tp, counts.support, average, zero_division)
    return ratio(counts.tp.sum(), matrix.sum(), "accuracy", zero_division)


def hamming_loss(confusion: Any, zero_division: float = math.nan) -> float:
    """Share of what was predicted wrong, by sample and label.

    Formula: ``1 - sum_k n[k, k] / n``, over all labels together where there are several.

    Source: Schapire and Singer, "BoosTexter: a boosting-based system for text categorization", Machine Learning 39
    (2000), section 2.

    Args:
        confusion: ``[classes, classes]`` or ``[labels, 2, 2]``.
        zero_division: the value where there are no samples.

    Returns:
        A fraction in [0, 1].

    Examples:
        >>> hamming_loss([[3, 1], [0, 4]])
        0.125
    """
    counts = counts_of(confusion)
    wrong = counts.fp.sum() + (counts.fn.sum() if counts.entry == "label" else 0)
    return ratio(wrong, np.sum(confusion), "hamming_loss", zero_division)


def balanced_accuracy(confusion: Any, adjusted: bool = False, zero_division: float = math.nan) -> float:
    """Mean recall of the classes: accuracy with every class of the same weight.

    Formula: ``b = mean_k(n[k, k] / sum_j n[k, j])`` over the K classes that are true at least once; adjusted for
    chance ``(b - 1/K) / (1 - 1/K)``. Of labels the mean of ``b`` over those labels that have a sample.

    Source: Brodersen et al., "The balanced accuracy and its posterior distribution", ICPR 2010; Mosley, "A balanced
    approach to the multi-class imbalance problem" (2013).

    Args:
        confusion: ``[classes, classes]`` or ``[labels, 2, 2]``.
        adjusted: 0 for chance instead of 1 / K, and 1 still for a perfect prediction.
        zero_division: the value where there are no samples, and of one class alone, adjusted.

    Returns:
        A fraction in [0, 1]; adjusted in [-1 / (K - 1), 1].

    Examples:
        >>> balanced_accuracy([[3, 1], [0, 8]])
        0.875
    """
    matrices = matrix_given(confusion)
    matrices = matrices if matrices.ndim == 3 else matrices[None]
    matrices = matrices[matrices.any(axis=(1, 2))]
    if not len(matrices):
        return stand_in("balanced_accuracy", "there are no samples", zero_division)
    values = []
    for matrix in matrices:
        support = matrix.sum(axis=1)
        shares = matrix.diagonal()[support != 0] / support[support != 0]
        if adjusted and len(shares) == 1:
            return stand_in("balanced_accuracy", "one class only is true, which leaves no chance", zero_division)
        chance = 1 / len(shares) if adjusted else 0.0
        values.append((shares.mean() - chance) / (1 - chance))
    return float(np.mean(values))


def cohen_kappa(confusion: Any, weights: str | None = None, zero_division: float = math.nan) -> float:
    """Agreement of prediction and label beyond chance.

    Formula: ``1 - sum_ij(d[i, j] * n[i, j]) / sum_ij(d[i, j] * t[i] * p[j] / n)``, where t and p are the sums of rows
    and columns, and ``d[i, j]`` how far apart two classes count: 1 for any two different ones, ``|i - j|``
    (``"linear"``) or ``(i - j)**2`` (``"quadratic"``), where i and j are the classes' numbers, whether all the
    classes in between occur or not.

    Source: Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20
    (1960); "Weighted kappa", Psychological Bulletin 70 (1968).

    Args:
        confusion: ``[classes, classes]``.
        weights: None, ``"linear"`` or ``"quadratic"``.
        zero_division: the value where there are no samples, or one class only is both true and predicted.

    Returns:
        A number in [-1, 1]; 0 is chance.

    Examples:
        >>> cohen_kappa([[3, 1], [1, 3]])
        0.5
    """
    matrix = as_integers(matrix_given(confusion, labels=False))
    choice_of("weights", weights, (None, "linear", "quadratic"))
    total = exact_total(matrix)
    if not total:
        return stand_in("cohen_kappa", "there are no samples", zero_division)
    place = np.arange(len(matrix))
    apart = np.abs(place[:, None] - place).astype(object)
    apart = {None: np.minimum(apart, 1), "linear": apart, "quadratic": apart * apart}[weights]
    observed, expected = np.sum(apart * matrix), matrix.sum(axis=1).dot(apart).dot(matrix.sum(axis=0))
    if not expected:
        return stand_in("cohen_kappa", "one class only is both true and predicted", zero_division)
    return float((expected - total * observed) / expected)


def matthews_correlation(confusion: Any, zero_division: float = math.nan) -> float:
    """Correlation of prediction and label (the phi coefficient; of several classes Gorodkin's R_K).

    Formula: ``(c * n - t.p) / sqrt((n**2 - p.p) * (n**2 - t.t))``, where c is the number of right samples, t and p
    are the sums of rows and columns, and n is that of all samples. The matrices of several labels are added up
    first, as in torchmetrics. All sums are exact, of weights too.

    Source: Matthews, "Comparison of the predicted and observed secondary structure of T4 phage lysozyme", Biochimica
    et Biophysica Acta 405 (1975); Gorodkin, "Comparing two K-category assignments by a K-category correlation
    coefficient", Computational Biology and Chemistry 28 (2004).

    Args:
        confusion: ``[classes, classes]`` or ``[labels, 2, 2]``.
        zero_division: the value where there are no samples, one class only is true, or one only predicted;
            scikit-learn has 0 there.

    Returns:
        A number in [-1, 1].

    Examples:
        >>> matthews_correlation([[3, 1], [1, 3]])
        0.5
    """
    matrix = as_integers(matrix_given(confusion))
    matrix = matrix.sum(axis=0) if matrix.ndim == 3 else matrix
    t, p = matrix.sum(axis=1).tolist(), matrix.sum(axis=0).tolist()
    total = sum(t)
    if not total:
        return stand_in("matthews_correlation", "there are no samples", zero_division)
    for name, sums in (("true", t), ("predicted", p)):
        if np.count_nonzero(sums) == 1:
            return stand_in("matthews_correlation", f"one class only is {name}", zero_division)
    covariance = sum(matrix.diagonal().tolist()) * total - sum(a * b for a, b in zip(t, p))
    product = math.prod(total * total - sum(a * a for a in sums) for sums in (t, p))
    return max(-1.0, min(1.0, (covariance << 64) / math.isqrt(product << 128)))  # of integers: rounded once
