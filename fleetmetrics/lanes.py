"""Lanes: one batch accumulated into many copies of a metric's states at once.

A state with lanes has one more axis, the first: a lane per slice, per batch of a window, or per bootstrap replicate.
Metrics do not know of them. They leave every sum over samples to their `fleetmetrics.batch.Batch`, and a batch in
lanes makes one sum per lane.
"""

from __future__ import annotations

import functools
from typing import Any

from fleetmetrics.xp import Scattered

__all__ = ["Groups", "Replicates"]


class Groups:
    """Each sample in one lane.

    Args:
        xp: the batch's namespace.
        index: the lane of each sample, int64 ``[n]``, from 0 to ``size - 1``; also for samples that do not count.
        size: how many lanes there are.
    """

    def __init__(self, xp: Any, index: Any, size: int) -> None:
        self.xp, self.index, self.size = xp, index, size

    def sum(self, amount: Any) -> Any:
        """An increment to a state ``[lanes]``: the sum of ``amount``, ``[n]``, by lane; None: of ones."""
        return Scattered((self.index,), amount)

    def scatter(self, increment: Scattered) -> Scattered:
        """An increment to ``[lanes, ...]`` from one to ``[...]`` with an entry per sample."""
        return Scattered((self.index, *increment.indices), increment.amount)

    def floats(self, amount: Any) -> Any:
        """The sums by lane themselves, float64 ``[lanes]``."""
        return self.xp.sum_by(self.index, amount, self.size)

    def of_samples(self, by_lane: Any) -> Any:
        """What a number per lane is for each sample: ``[n]``."""
        return self.xp.take(by_lane, self.index)

    def product_sum(self, weight: Any, x: Any, y: Any) -> Any:
        """``sum(weight * (x - mean of x) * (y - mean of y))`` by lane, about the weighted means of each lane."""
        xp, total = self.xp, self.xp.or_one(self.floats(weight))
        deviations = []
        for values in (x, y):
            mean = xp.divide(self.floats(xp.multiply(weight, values)), total)
            deviations.append(xp.subtract(values, self.of_samples(mean)))
        return self.floats(xp.multiply(weight, xp.multiply(*deviations)))

    @functools.cached_property
    def members(self) -> Any:
        """Which samples are in which lane: flags ``[n, lanes]``."""
        xp = self.xp
        return xp.equal(xp.reshape(self.index, [-1, 1]), xp.arange(self.size))


class Replicates:
    """Each sample in every lane, so many times.

    Args:
        xp: the batch's namespace.
        times: how many times, int64 ``[n, lanes]``.
    """

    def __init__(self, xp: Any, times: Any, size: int) -> None:
        self.xp, self.times, self.size = xp, times, size

    def sum(self, amount: Any) -> Any:
        """An increment to a state ``[lanes]``; see `Groups.sum`."""
        if amount is None:
            amount = self.xp.ones_like(self.times[:, 0])
        total = self.floats(amount)
        # Whole numbers below 2**53 are exact as floats, whose product is much the faster one.
        return total if self.xp.kind(amount) == "f" else self.xp.cast(total, "int64")

    def scatter(self, increment: Scattered) -> Scattered:
        """An increment to ``[lanes, ...]``; see `Groups.scatter`."""
        xp = self.xp
        zeros = xp.zeros_like(self.times)
        spread = [xp.reshape(xp.add(zeros, xp.reshape(index, [-1, 1])), [-1]) for index in increment.indices]
        lane = xp.reshape(xp.add(zeros, xp.arange(self.size)), [-1])
        amount = self.times
        if increment.amount is not None:
            each = xp.reshape(increment.amount, [-1, 1])
            amount = xp.multiply(xp.cast(amount, "float64" if xp.kind(each) == "f" else "int64"), each)
        return Scattered((lane, *spread), xp.reshape(amount, [-1]))

    def floats(self, amount: Any) -> Any:
        """The sums by lane themselves, float64 ``[lanes]``."""
        return self.xp.matvec(self._factors, self.xp.cast(amount, "float64"))

    def product_sum(self, weight: Any, x: Any, y: Any) -> Any:
        """See `Groups.product_sum`; about the mean of the batch first, from which those of the lanes are not far."""
        xp = self.xp
        total = xp.or_one(self.floats(weight))
        shares = xp.divide(weight, xp.or_one(xp.sum(weight)))
        near = [xp.subtract(values, xp.sum(xp.multiply(shares, values))) for values in (x, y)]
        sums = [self.floats(xp.multiply(weight, values)) for values in near]
        raw = self.floats(xp.multiply(weight, xp.multiply(*near)))
        return xp.subtract(raw, xp.divide(xp.multiply(*sums), total))

    @functools.cached_property
    def members(self) -> Any:
        """Which samples are in which lane: flags ``[n, lanes]``."""
        return self.xp.cast(self.times, "bool")

    @functools.cached_property
    def _factors(self) -> Any:
        return self.xp.cast(self.times, "float64")
