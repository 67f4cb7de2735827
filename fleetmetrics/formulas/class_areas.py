"""Areas of several classes, each against all others, and their averages, from a histogram of the scores of each."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable

import numpy as np

from fleetmetrics.formulas.arrays import weights
from fleetmetrics.formulas.auc import (
    BoundedArea,
    auc_bounds,
    auc_from_histogram,
    average_precision_bounds,
    average_precision_from_histogram,
    average_precision_near,
    fraction,
)
from fleetmetrics.formulas.quotients import left_out, stand_in, undefined
from fleetmetrics.formulas.sums import exact_sum, exact_total
from fleetmetrics.support.checks import checked, flag, one_of, stand_in_value, text

__all__ = ["auc_of_classes", "average_precision_of_classes"]

_AVERAGES = one_of("macro", "weighted", "micro", "none", None)


@checked(
    histogram=weights("classes", 2, "buckets"),
    average=_AVERAGES,
    max_fpr=fraction,
    zero_division=stand_in_value,
    bounds=flag,
    of=text,
)
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
        average: ``"macro"``, ``"weighted"`` or ``"micro"``; None (or ``"none"``) for a value per class.
        max_fpr: see `auc_from_histogram`.
        zero_division: the value of a class that no sample, or every sample, belongs to; nan leaves it out of the
            average, with an `UndefinedMetricWarning` that names it.
        bounds: whether to add the bounds, for each class or averaged.
        of: what an entry stands for, for the warning.

    Returns:
        A fraction in [0, 1], or float64 ``[classes]``; with ``bounds`` a `BoundedArea` of three of them.

    Examples:
        >>> auc_of_classes([[[1, 1, 0], [0, 0, 2]], [[0, 1, 0], [1, 1, 1]]], average=None).tolist()
        [1.0, 0.5]
        >>> auc_of_classes([[[1, 1, 0], [0, 0, 2]], [[0, 1, 0], [1, 1, 1]]], "weighted")
        0.7
    """
    make = auc_bounds.bare if bounds else auc_from_histogram.bare
    area: Any = partial(make, max_fpr=max_fpr, zero_division=zero_division)
    some = (histogram != 0).any(axis=2).all(axis=1)
    return _averaged("auc", "never true, or always", area, histogram, some, average, zero_division, bounds, of)


@checked(
    histogram=weights("classes", 2, "buckets"), average=_AVERAGES, zero_division=stand_in_value, bounds=flag, of=text
)
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
    make = average_precision_bounds.bare if bounds else average_precision_from_histogram.bare
    return _precision_of_classes(make, histogram, average, zero_division, bounds, of)


def average_precision_of_classes_near(
    histogram: np.ndarray, average: str | None, zero_division: float, *, of: str
) -> BoundedArea:
    """Like `average_precision_of_classes` with bounds, but with those of `average_precision_near`."""
    return _precision_of_classes(average_precision_near, histogram, average, zero_division, True, of)


def _precision_of_classes(
    make: Callable[..., Any], histogram: np.ndarray, average: str | None, zero_division: float, bounds: bool, of: str
) -> Any:
    true, area = (histogram[:, 1] != 0).any(axis=1), partial(make, zero_division=zero_division)
    return _averaged("average_precision", "never true", area, histogram, true, average, zero_division, bounds, of)


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
    """The areas of the classes or their average; ``reason`` describes a class without an area, for the warning."""
    if average == "micro":
        negative, positive = _pooled(table)
        return area(positive, negative)
    values = np.full((3 if bounds else 1, len(table)), zero_division, np.float64)
    for place in np.flatnonzero(defined):
        values[:, place] = area(table[place, 1], table[place, 0])
    by_class, warns = average in (None, "none"), math.isnan(zero_division)
    weights = [_total(row) for row in table[:, 1]] if average == "weighted" else [1.0] * len(table)
    if not table.any():
        stand_in(name, "there are no samples", zero_division)
    elif warns and not by_class and not defined.any():
        undefined(name, f"every {of} is {reason}")
    elif warns:
        left_out(name, reason, of, ~defined & (np.array(weights) != 0), None if by_class else average)
    kept = np.flatnonzero(defined | (not warns))
    averages = list(values) if by_class else [_mean(row[kept], [weights[place] for place in kept]) for row in values]
    return BoundedArea(*averages) if bounds else averages[0]


def _pooled(table: np.ndarray) -> np.ndarray:
    """The sum over the classes; counts too large for int64 become Python integers."""
    if table.dtype.kind in "iu" and table.size and int(table.max()) > (2**63 - 1) // len(table):
        table = table.astype(object)
    return np.sum(table, axis=0)


def _total(weights: np.ndarray) -> float:
    """The sum; for floats, the same bits for any vector width."""
    return exact_sum(weights) if weights.dtype.kind == "f" else float(exact_total(weights))


def _mean(values: np.ndarray, weights: list[float]) -> float:
    """The weighted mean of values; if they all weigh 0, the plain mean."""
    pairs = list(zip(values.tolist(), weights))
    total = math.fsum(weight for _, weight in pairs)
    if not total:
        return math.fsum(value for value, _ in pairs) / len(pairs) if pairs else math.nan
    return math.fsum(value * weight for value, weight in pairs) / total
