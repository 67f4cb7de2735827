"""Lanes: one batch accumulated into many copies of a metric's states at once.

A state with lanes has one more axis, the first: a lane per slice, or per bootstrap replicate. Metrics do not know of
them. They leave every sum over samples to their `fleetmetrics.batch.Batch`, and a batch in lanes makes one sum per
lane.
"""

from __future__ import annotations

import functools
from typing import Any

from fleetmetrics.xp import Scattered

__all__ = ["Groups", "Nested", "Replicates"]


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
        xp = self.xp
        return self.floats(xp.multiply(weight, xp.multiply(*[self.centred(weight, values) for values in (x, y)])))

    def centred(self, weight: Any, values: Any) -> Any:
        """What is left of each value without the weighted mean of its lane: ``[n]``."""
        xp = self.xp
        mean = xp.divide(self.floats(xp.multiply(weight, values)), xp.or_one(self.floats(weight)))
        return xp.subtract(values, self.of_samples(mean))

    def extreme(self, values: Any, keep: Any, reduction: str) -> Any:
        """The largest (``"max"``) or smallest value by lane, of those that are kept (None: all)."""
        return self.xp.extreme_by(self.index, values, keep, self.size, reduction)


class Replicates:
    """Each sample in every lane, so many times.

    Args:
        xp: the batch's namespace.
        times: how many times, int64 ``[n, lanes]``.
        size: how many lanes there are.
    """

    def __init__(self, xp: Any, times: Any, size: int) -> None:
        self.xp, self.times, self.size = xp, times, size

    def sum(self, amount: Any) -> Any:
        """An increment to a state ``[lanes]``; see `Groups.sum`."""
        xp = self.xp
        if amount is not None and xp.kind(amount) == "f":
            return self.floats(amount)
        if amount is None:
            # Whole numbers of less than 2**53 are exact as floats, whose product is much the faster one.
            return xp.cast(self.floats(xp.ones_like(self.times[:, 0])), "int64")
        return xp.sum_of_columns(xp.multiply(self.times, xp.reshape(amount, [-1, 1])))

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
        shares = xp.divide(weight, xp.or_one(xp.sum(weight)))
        near = [xp.subtract(values, xp.sum(xp.multiply(shares, values))) for values in (x, y)]
        return _about_the_means(self, weight, near, x is y)

    def extreme(self, values: Any, keep: Any, reduction: str) -> Any:
        """See `Groups.extreme`."""
        xp = self.xp
        members = xp.cast(self.times, "bool")
        if keep is not None:
            members = xp.logical_and(members, xp.reshape(keep, [-1, 1]))
        return xp.extreme_by_column(xp.reshape(values, [-1, 1]), members, reduction)

    @functools.cached_property
    def _factors(self) -> Any:
        return self.xp.cast(self.times, "float64")


class Nested:
    """Lanes of lanes: a state ``[groups, replicates, ...]``.

    Args:
        groups: each sample in one of them.
        replicates: within each group.
    """

    def __init__(self, groups: Groups, replicates: Replicates) -> None:
        self.xp, self.groups, self.replicates = groups.xp, groups, replicates
        self.size = groups.size * replicates.size

    def sum(self, amount: Any) -> Any:
        """An increment to a state ``[groups, replicates]``; see `Groups.sum`."""
        return self.scatter(Scattered((), amount))

    def scatter(self, increment: Scattered) -> Scattered:
        """An increment to ``[groups, replicates, ...]``; see `Groups.scatter`."""
        (replicate, group, *rest), amount = self.replicates.scatter(self.groups.scatter(increment))
        return Scattered((group, replicate, *rest), amount)

    def floats(self, amount: Any) -> Any:
        """The sums by lane themselves, float64 ``[groups, replicates]``."""
        xp = self.xp
        (group, replicate), amounts = self.sum(amount)
        place = xp.add(xp.multiply(group, xp.full_like(group, self.replicates.size)), replicate)
        return xp.reshape(xp.sum_by(place, amounts, self.size), [self.groups.size, self.replicates.size])

    def product_sum(self, weight: Any, x: Any, y: Any) -> Any:
        """See `Groups.product_sum`; about the mean of the group first."""
        return _about_the_means(self, weight, [self.groups.centred(weight, values) for values in (x, y)], x is y)

    def extreme(self, values: Any, keep: Any, reduction: str) -> Any:
        """See `Groups.extreme`."""
        xp = self.xp
        (group, replicate), times = self.sum(None)
        place = xp.add(xp.multiply(group, xp.full_like(group, self.replicates.size)), replicate)
        drawn = xp.cast(times, "bool")
        if keep is not None:
            drawn = xp.logical_and(drawn, xp.repeat(keep, self.replicates.size))
        found = xp.extreme_by(place, xp.repeat(values, self.replicates.size), drawn, self.size, reduction)
        return xp.reshape(found, [self.groups.size, self.replicates.size])


def _about_the_means(lanes: Any, weight: Any, near: list[Any], square: bool) -> Any:
    """The sums of products about the means of the lanes, of values whose means are near 0."""
    xp = lanes.xp
    sums = [lanes.floats(xp.multiply(weight, values)) for values in near]
    products = lanes.floats(xp.multiply(weight, xp.multiply(*near)))
    products = xp.subtract(products, xp.divide(xp.multiply(*sums), xp.or_one(lanes.floats(weight))))
    return xp.at_least(products, 0.0) if square else products
