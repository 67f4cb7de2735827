"""What plots take from a metric: its states, and its histograms of scores."""

from __future__ import annotations

import copy
from typing import Any, Iterator

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.plot.canvas import check, worded
from fleetmetrics.xp.score_buckets import lowest_scores

__all__ = ["has", "held", "ratio", "refused", "scores"]

#: More classes than this are drawn only in combination.
_MOST = 6


def has(metric: Any, *pictures: str) -> bool:
    """Whether this is a metric that declares one of these plots."""
    return any(picture in pictures for picture in getattr(metric, "pictures", ()))


def refused(drawn: str, metric: Any) -> InvalidInputError:
    """The error for what a plot does not show."""
    return InvalidInputError(f"this plot shows {drawn}; metric is {type(metric).__name__} {metric!r:.80}")


def held(metric: Any) -> Any:
    """The states of a metric, over all workers."""
    view = copy.copy(metric)
    view.formula = lambda **states: states
    return view.compute()


def scores(metric: Any, label: str, value: str = "", together: bool = False) -> Iterator[tuple[str, Any, Any, Any]]:
    """For each class, or all: name, weights of positive and negative scores by bucket, and lowest scores."""
    if not has(metric, "gain"):
        raise refused(f"a metric of a histogram of scores, such as AUC{value}", metric)
    table, names = held(metric)["histogram"], [label]
    check(None, label)
    if table.ndim == 3 and (together or len(table) > _MOST):
        names, table = [f"{label} {worded('all {}').format(len(table))}"], table.sum(axis=0)
    elif table.ndim == 3:
        names = [f"{label} {worded(metric._entry)} {place}" for place in range(len(table))]
    lowest = lowest_scores(metric.buckets, metric.spacing)
    for name, (negative, positive) in zip(names, table.reshape(-1, 2, len(lowest))):
        yield name.strip(), positive, negative, lowest


def ratio(part: np.ndarray, whole: Any) -> np.ndarray:
    """Quotients; nan where there is nothing to divide by."""
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=np.not_equal(whole, 0))
