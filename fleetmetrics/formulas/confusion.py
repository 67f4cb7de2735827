"""Metrics of one class or label at a time, from a confusion matrix: precision, recall and similar ones.

``confusion`` is ``[classes, classes]``, rows true and columns predicted, or one matrix per label, ``[labels, 2, 2]``,
each ``[[tn, fp], [fn, tp]]``, as in scikit-learn: counts or weights, finite and at least 0, else `InvalidInputError`.

A value in [0, 1] per class is averaged as in scikit-learn; ``average`` is

- ``"binary"``: class 1 of two;
- ``"micro"``: from the summed counts of all classes (or labels);
- ``"macro"``: the mean over the classes that occur as label or prediction, or over all labels;
- ``"weighted"``: the mean weighted by how often each is true;
- None or ``"none"``: an array ``[classes]`` with every class, occurring or not.

``zero_division`` is the value of a class whose denominator is 0, and of everything without samples. nan, the default,
comes with `UndefinedMetricWarning`, and leaves such a class out of ``"macro"`` and ``"weighted"``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.arrays import matrix, weights
from fleetmetrics.formulas.quotients import left_out, stand_in, undefined
from fleetmetrics.formulas.sums import as_number
from fleetmetrics.support.checks import amount, between, checked, one_of, stand_in_value
from fleetmetrics.support.vocabulary import agreeing

__all__ = [
    "f_beta",
    "jaccard",
    "normalized_confusion",
    "precision",
    "precision_recall_f1",
    "recall",
    "specificity",
    "stat_scores",
]


_NEITHER = "neither true nor predicted"
#: The argument ``average`` of several classes.
AVERAGES = one_of("binary", "micro", "macro", "weighted", "none", None)


class Counts(NamedTuple):
    """The counts of each class (or label) against all others: arrays ``[classes]``."""

    tp: np.ndarray
    fp: np.ndarray
    fn: np.ndarray
    tn: np.ndarray
    #: ``"class"`` or ``"label"``: what an entry stands for.
    entry: str

    @property
    def support(self) -> np.ndarray:
        """How often each class is true."""
        return self.tp + self.fn

    @property
    def predicted(self) -> np.ndarray:
        """How often each class was predicted."""
        return self.tp + self.fp

    @property
    def either(self) -> np.ndarray:
        """How often each class is true, or predicted, or both."""
        return self.tp + self.fp + self.fn


def counts_of(matrix: np.ndarray) -> Counts:
    """True and false positives and negatives of every class, of the matrix's dtype."""
    if matrix.ndim == 3:
        return Counts(matrix[:, 1, 1], matrix[:, 0, 1], matrix[:, 1, 0], matrix[:, 0, 0], "label")
    if len(matrix) == 2:  # there is nothing to add up
        four = matrix.reshape(4)
        return Counts(four[::3], four[2:0:-1], four[1:3], four[::-3], "class")
    tp = matrix.diagonal()
    if matrix.dtype.kind != "f":
        predicted, support = matrix.sum(axis=0), matrix.sum(axis=1)
        return Counts(tp, predicted - tp, support - tp, support.sum() - predicted - support + tp, "class")
    wrong = np.where(np.eye(len(matrix), dtype=bool), 0, matrix)  # a difference of weights would cancel
    return Counts(tp, wrong.sum(axis=0), wrong.sum(axis=1), _elsewhere(matrix), "class")


def _elsewhere(matrix: np.ndarray) -> np.ndarray:
    """For each class the sum outside its row and column: of four corners, since a difference cancels."""
    place = np.arange(len(matrix))
    total = np.zeros(len(matrix))
    for down, right in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        corner = np.pad(matrix[::down, ::right].cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        total += corner[place[::down], place[::right]]
    return total


@checked(confusion=matrix(labels=True), average=AVERAGES, zero_division=stand_in_value)
def precision(confusion: Any, average: str | None = "macro", zero_division: float = math.nan) -> Any:
    """Share of the predictions of a class that are correct: ``tp / (tp + fp)``.

    Examples:
        >>> precision([[3, 1], [2, 4]], "binary")
        0.8
    """
    counts = counts_of(confusion)
    return averaged("precision", "never predicted", counts, counts.tp, counts.predicted, average, zero_division)


@checked(confusion=matrix(labels=True), average=AVERAGES, zero_division=stand_in_value)
def recall(confusion: Any, average: str | None = "macro", zero_division: float = math.nan) -> Any:
    """Share of the samples of a class that are predicted as it: ``tp / (tp + fn)``; sensitivity, true positive rate.

    Examples:
        >>> recall([[3, 1], [2, 6]], None).tolist()
        [0.75, 0.75]
    """
    counts = counts_of(confusion)
    return averaged("recall", "never true", counts, counts.tp, counts.support, average, zero_division)


@checked(confusion=matrix(labels=True), average=AVERAGES, zero_division=stand_in_value)
def specificity(confusion: Any, average: str | None = "macro", zero_division: float = math.nan) -> Any:
    """Share of the samples of other classes not predicted as the class: ``tn / (tn + fp)``; true negative rate.

    Examples:
        >>> specificity([[3, 1], [2, 4]], "binary")
        0.75
    """
    counts = counts_of(confusion)
    return averaged("specificity", "always true", counts, counts.tn, counts.tn + counts.fp, average, zero_division)


@checked(confusion=matrix(labels=True), average=AVERAGES, zero_division=stand_in_value)
def jaccard(confusion: Any, average: str | None = "macro", zero_division: float = math.nan) -> Any:
    """Intersection over union of the samples of a class and those predicted as it: ``tp / (tp + fp + fn)``.

    Examples:
        >>> jaccard([[3, 1], [2, 4]], None).tolist()
        [0.5, 0.5714285714285714]
    """
    counts = counts_of(confusion)
    return averaged("jaccard", _NEITHER, counts, counts.tp, counts.either, average, zero_division)


@checked(confusion=matrix(labels=True), average=AVERAGES, zero_division=stand_in_value, beta=between(0, math.inf))
def f_beta(confusion: Any, average: str | None = "macro", zero_division: float = math.nan, *, beta: float = 1.0) -> Any:
    """Weighted harmonic mean of precision and recall.

    Formula: ``(1 + beta**2) * tp / ((1 + beta**2) * tp + beta**2 * fn + fp)`` per class; precision for ``beta = 0``,
    recall for infinity.

    Args:
        confusion: see the module, and for ``average`` and ``zero_division``.
        average: one of those.
        zero_division: of a class that is neither true nor predicted.
        beta: the importance of recall relative to precision, at least 0.

    Examples:
        >>> f_beta([[3, 1], [2, 4]], "binary", beta=1)
        0.7272727272727273
    """
    name = "f1" if beta == 1 else "f_beta"
    counts = counts_of(confusion)
    square = beta * beta
    if math.isinf(square):
        return averaged(name, "never true", counts, counts.tp, counts.support, average, zero_division)
    if beta == 0:
        return averaged(name, "never predicted", counts, counts.tp, counts.predicted, average, zero_division)
    either = square * counts.support + counts.predicted
    return averaged(name, _NEITHER, counts, (1 + square) * counts.tp, either, average, zero_division)


def averaged(
    name: str,
    reason: str,
    counts: Counts,
    above: np.ndarray,
    below: np.ndarray,
    average: str | None,
    zero_division: float,
) -> Any:
    """Average the quotients of the classes' counts; ``reason`` describes a class whose denominator is 0."""
    warns, every = math.isnan(zero_division), f"every {counts.entry} is {reason}"
    average = _average(average, len(counts.tp))
    of_one = average in ("binary", "micro")
    if of_one:
        above, below = (as_number(x[1] if average == "binary" else x.sum()) for x in (above, below))
        if below:
            return float(above / below)
    if not (counts.support.any() or counts.fp.any() or counts.tn.any()):
        value = stand_in(name, "there are no samples", zero_division)
        return np.full(below.shape, zero_division, np.float64) if average is None else value
    if of_one:
        return stand_in(name, f"class 1 is {reason}" if average == "binary" else every, zero_division)
    values = np.full(below.shape, zero_division, np.float64)
    np.divide(above, below, out=values, where=below != 0)
    weights = counts.support if average == "weighted" else np.ones(len(values))
    # scikit-learn averages over the classes that occur, and over all labels
    occurs = np.ones(len(values), bool) if average is None or counts.entry == "label" else counts.either != 0
    kept = occurs & ((below != 0) | (not warns))
    if average is not None and not kept.any():
        return undefined(name, every)
    if warns:
        left_out(name, reason, counts.entry, occurs & (below == 0) & (weights != 0), average)
    return values if average is None else _mean(values[kept], weights[kept])


def _average(average: str | None, entries: int) -> str | None:
    if average == "binary" and entries != 2:
        raise InvalidInputError(f"average='binary' is of two classes, not of {entries}; give 'macro', 'micro' or None")
    return None if average == "none" else average


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    total = weights.sum()
    return float((values * weights).sum() / total if total else values.mean())


@checked(confusion=matrix(labels=True), average=AVERAGES)
def stat_scores(confusion: Any, average: str | None = None) -> np.ndarray:
    """True positives, false positives, true negatives, false negatives and support (how often a class is true).

    Formula: for class k of ``[classes, classes]``, ``tp`` is the entry (k, k), ``fp`` the rest of column k, ``fn`` the
    rest of row k, ``tn`` everything else; ``support = tp + fn``.

    Args:
        confusion: see the module.
        average: ``"binary"``: of class 1; ``"micro"``: summed over all classes; None: of each class.

    Returns:
        ``[5]``, or for None ``[classes, 5]``, of the matrix's dtype.

    Examples:
        >>> stat_scores([[3, 1], [2, 4]], "binary").tolist()
        [4, 1, 3, 2, 6]
    """
    counts = counts_of(confusion)
    average = _average(average, len(counts.tp))
    table = np.stack([counts.tp, counts.fp, counts.tn, counts.fn, counts.support], axis=-1)
    if average == "binary":
        return table[1]
    return table.sum(axis=0) if average == "micro" else table


@checked(confusion=matrix(labels=True), normalize=one_of("true", "pred", "all", None), zero_division=stand_in_value)
def normalized_confusion(confusion: Any, normalize: str | None = None, zero_division: float = math.nan) -> np.ndarray:
    """A confusion matrix as shares (float64) of its rows, its columns or all samples; each label's matrix separately.

    Args:
        confusion: see the module.
        normalize: divide by the sum of the row (``"true"``), the column (``"pred"``) or the matrix (``"all"``); None:
            do not divide.
        zero_division: entries of an empty row, column or matrix; scikit-learn uses 0.

    Examples:
        >>> normalized_confusion([[3, 1], [2, 2]], "true").tolist()
        [[0.75, 0.25], [0.5, 0.5]]
    """
    matrix: np.ndarray = confusion.copy()  # callers may change the result
    if normalize is None:
        return matrix
    axis = {"true": (-1,), "pred": (-2,), "all": (-2, -1)}[normalize]
    whole = matrix.sum(axis=axis, keepdims=True)
    values = np.full(matrix.shape, zero_division, np.float64)
    np.divide(matrix, whole, out=values, where=whole != 0)
    empty = int(np.count_nonzero(whole == 0))
    if empty and math.isnan(zero_division):
        parts = {"true": "rows", "pred": "columns", "all": "matrices"}[normalize]
        undefined("confusion_matrix", f"{empty} of {whole.size} {parts} {agreeing(empty, 'hold')} no samples")
    return values


@checked(
    true_positive=weights("classes"),
    predicted=weights("classes"),
    actual=weights("classes"),
    total=amount,
    average=one_of("micro", "macro", None),
)
def precision_recall_f1(
    true_positive: Any, predicted: Any, actual: Any, total: Any, average: str | None = "macro"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Precision, recall and F1 (float64), and support (int64), from the counts of every class.

    Formula: ``precision = tp / predicted``, ``recall = tp / actual``, ``F1 = 2 * tp / (predicted + actual)``; 0 / 0 is
    0. The first three are linear in ``true_positive``: give 100 times the counts for percent.

    Source: Manning, Raghavan and Schuetze, Introduction to Information Retrieval (2008), sections 8.3 and 13.6.

    Args:
        true_positive: ``[classes]``, how often a class was predicted correctly.
        predicted: ``[classes]``, how often it was predicted.
        actual: ``[classes]``, how often it is true.
        total: number of samples. With `UndefinedMetricWarning`: without any, the first three are nan; precision is 0 if
            nothing was predicted, recall if nothing is true.
        average: ``"micro"`` sums the counts of all classes first, ``"macro"`` takes the mean of the classes' values:
            0-d arrays; None: ``[classes]``.

    Examples:
        >>> precision_recall_f1([1, 1, 0, 1], [1, 2, 0, 1], [1, 1, 1, 1], total=4)
        (array(0.625), array(0.75), array(0.66666667), array(4))
    """
    weights = [true_positive, predicted, actual]
    support = actual if average is None else np.asarray(actual.sum())
    if average == "micro":
        weights = [weight.sum(keepdims=True) for weight in weights]
    hits, predicted, actual = weights
    if total == 0:
        shares = [np.full(hits.shape, undefined("precision, recall and f1-score", "there are no samples"))] * 3
    else:
        for name, reason, weight in (("precision", "predicted", predicted), ("recall", "true", actual)):
            if not weight.any():
                undefined(name, f"no class is {reason} for any sample", 0.0)
        quotients = (hits, predicted), (hits, actual), (2 * hits, predicted + actual)
        shares = [part / (whole + (whole == 0)) for part, whole in quotients]
    if average is not None:
        shares = [np.asarray(share.sum() / share.size if share.size else math.nan) for share in shares]
    precision, recall, f1 = shares
    return precision, recall, f1, support
