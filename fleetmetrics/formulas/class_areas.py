"""Areas of several classes, each against all others, and their averages, from a histogram of the scores of each."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.auc import (
    BoundedArea,
    area_fraction,
    auc_bounds,
    auc_from_histogram,
    average_precision_bounds,
    average_precision_from_histogram,
)
from fleetmetrics.formulas.given import are_counts, exact_total
from fleetmetrics.formulas.ratio import left_out, stand_in, undefined

__all__ = ["auc_of_classes", "average_precision_of_classes"]

_AVERAGES = ("macro", "weighted", "micro", "none")


def auc_of_classes(
    histogram: Any,
    average: str | None = "macro",
    max_fpr: float | None = None,
    zero_division: float = math.nan,
    *,
    bounds: bool = False,
    of: str = "class",
) -> Any:
    """Areas under the ROC curves of several classes, each against all others, or their average.

    Formula: `auc_from_histogram` of each class; ``"macro"``: their mean; ``"weighted"``: the mean weighted by the
    samples of the class; ``"micro"``: the area from the sum of all histograms.

    Source: Provost and Domingos, "Well-trained PETs: improving probability estimation trees", CeDER working paper
    IS-00-04, New York University (2000), for the weighted mean.

    Args:
        histogram: ``[classes, 2, buckets]``, weight by class, by whether the sample belongs to it (0 or 1), and by
            bucket, rising scores; int64 or float64. Another shape raises `InvalidInputError`.
        average: ``"macro"``, ``"weighted"`` or ``"micro"``; None (or ``"none"``): a value per class.
        max_fpr: see `auc_from_histogram`.
        zero_division: the value of a class that no sample, or every sample, belongs to; nan leaves it out of the
            average, with an `UndefinedMetricWarning` that names it.
        bounds: whether to add the bounds, of each class or averaged.
        of: what an entry stands for, for the warning.

    Returns:
        A fraction in [0, 1], or float64 ``[classes]``; with ``bounds`` a `BoundedArea` of three of them.

    Examples:
        >>> auc_of_classes([[[1, 1, 0], [0, 0, 2]], [[0, 1, 0], [1, 1, 1]]], average=None).tolist()
        [1.0, 0.5]
        >>> auc_of_classes([[[1, 1, 0], [0, 0, 2]], [[0, 1, 0], [1, 1, 1]]], "weighted")
        0.7
    """
    area_fraction(max_fpr)  # also where there is no area to take
    area = partial(auc_bounds if bounds else auc_from_histogram, max_fpr=max_fpr, zero_division=zero_division)
    table = _table(histogram, average)
    some = (table != 0).any(axis=2)
    return _averaged("auc", "never true, or always", area, table, some.all(axis=1), average, zero_division, bounds, of)


def average_precision_of_classes(
    histogram: Any,
    average: str | None = "macro",
    zero_division: float = math.nan,
    *,
    bounds: bool = False,
    of: str = "class",
) -> Any:
    """Average precisions of several classes, each against all others, or their average.

    Formula: `average_precision_from_histogram` of each class; arguments and result as for `auc_of_classes`. Undefined
    for a class that no sample belongs to.

    Examples:
        >>> average_precision_of_classes([[[1, 1, 0], [0, 0, 2]], [[0, 1, 0], [1, 0, 1]]])
        0.9166666666666666
    """
    make = average_precision_bounds if bounds else average_precision_from_histogram
    area, table = partial(make, zero_division=zero_division), _table(histogram, average)
    true = (table[:, 1] != 0).any(axis=1)
    return _averaged("average_precision", "never true", area, table, true, average, zero_division, bounds, of)


def _averaged(
    name: str,
    reason: str,
    area: Callable[[Any, Any], Any],
    table: np.ndarray,
    defined: np.ndarray,
    average: str | None,
    zero_division: float,
    bounds: bool,
    of: str,
) -> Any:
    """The areas of the classes or their average; ``reason`` is what a class without an area is, for the warning."""
    if average == "micro":
        negative, positive = _pooled(table)
        return area(positive, negative)
    values = np.full((3 if bounds else 1, len(table)), zero_division, np.float64)
    for place in np.flatnonzero(defined):
        values[:, place] = area(table[place, 1], table[place, 0])
    each, warns = average in (None, "none"), math.isnan(zero_division)
    weights = [_total(row) for row in table[:, 1]] if average == "weighted" else [1.0] * len(table)
    if not table.any():
        stand_in(name, "there are no samples", zero_division)
    elif warns and not each and not defined.any():
        undefined(name, f"every {of} is {reason}")
    elif warns:
        left_out(name, reason, of, ~defined & (np.array(weights) != 0), None if each else average)
    found = list(values) if each else [_mean(row, weights) for row in values]
    return BoundedArea(*found) if bounds else found[0]


def _table(histogram: Any, average: Any) -> np.ndarray:
    """The histogram as an array; raises if it, or the average, is not valid."""
    if average is not None and not (isinstance(average, str) and average in _AVERAGES):
        raise InvalidInputError(f"average must be one of {', '.join(map(repr, _AVERAGES))}, None, not {average!r}")
    try:
        table = np.asarray(histogram)
    except ValueError as error:  # ragged lists
        raise InvalidInputError(f"histogram has no rectangular array form: {error}") from None
    if table.ndim != 3 or table.shape[1] != 2 or not (table.dtype.kind == "f" or are_counts(table)):
        raise InvalidInputError(
            f"histogram must hold numbers in the shape [classes, 2, buckets]; it is {table.dtype} {list(table.shape)}"
        )
    return table


def _pooled(table: np.ndarray) -> np.ndarray:
    """The sum over the classes; counts too large for int64 become Python's."""
    if table.dtype.kind in "iu" and table.size and int(table.max()) > (2**63 - 1) // len(table):
        table = table.astype(object)
    return np.sum(table, axis=0)


def _total(weights: np.ndarray) -> float:
    """The sum; for floats the same bits whatever the machine's vector width."""
    return math.fsum(weights) if weights.dtype.kind == "f" else float(exact_total(weights))


def _mean(values: np.ndarray, weights: list[float]) -> float:
    """The weighted mean of the defined values; if they all weigh 0, the plain mean."""
    pairs = [(value, weight) for value, weight in zip(values.tolist(), weights) if not math.isnan(value)]
    total = math.fsum(weight for _, weight in pairs)
    if not total:
        return math.fsum(value for value, _ in pairs) / len(pairs) if pairs else math.nan
    return math.fsum(value * weight for value, weight in pairs) / total
