"""Median absolute error."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics.base.record_metric import OfAllSamples
from fleetmetrics.batch import Batch
from fleetmetrics.metrics.regression.differences import OfNumbers, absolute_errors
from fleetmetrics.records.table import Records

__all__ = ["MedianAbsoluteError"]


def weighted_median(values: np.ndarray, weight: np.ndarray | None) -> float:
    """The median, in which a value of weight w counts as w equal values; the mean of the two in the middle."""
    order = np.argsort(values)
    weight = np.ones(len(values)) if weight is None else weight / weight.max()
    below = weight[order].cumsum()
    half = below[-1] / 2
    # Up to rounding: the weights 0.1 and 0.2 are half of 0.1, 0.2 and 0.3.
    low, high = values[order[np.searchsorted(below, [half * (1 - 2**-40), half * (1 + 2**-40)])]].tolist()
    return low if low == high else low + (high - low) / 2


class MedianAbsoluteError(OfNumbers[float], OfAllSamples):
    """Median absolute error: half of the errors are smaller, so that a few large ones do not count.

    Formula: ``median(|p - y|)`` over the samples of all workers. A sample of weight w counts as w samples of weight 1.

    Inputs as for `MeanAbsoluteError`, storage as for `SpearmanCorrelation`. Undefined without samples.

    Examples:
        >>> metric = MedianAbsoluteError()
        >>> metric.add([2.5, 0.0, 2.0, 80.0], [3.0, -0.5, 2.0, 7.0])
        >>> metric.compute()
        0.5
    """

    better = "lower"
    record: tuple[str, ...] = ("absolute error", "weight")

    def batch_records(self, batch: Batch) -> dict[str, Any]:
        return {"absolute error": absolute_errors(batch), "weight": batch.weight}

    def value(self, records: Records) -> float:
        return weighted_median(records["absolute error"], records["weight"])
