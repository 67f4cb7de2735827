"""Lanes: one batch accumulated into many copies of a metric's states at once.

A state with lanes has an additional first axis: a lane per slice, or per bootstrap replicate. Metrics are unaware of
them: they leave sums over samples to their `fleetmetrics.batch.Batch`, which makes one sum per lane.
"""

from __future__ import annotations

import functools
from typing import Any, Sequence

from fleetmetrics.numbers.moments import two_sum
from fleetmetrics.xp import Scattered

__all__ = ["Each", "Groups", "Nested", "Replicates", "Whole"]


class Whole:
    """All samples in one lane, without an axis for it."""

    #: How often a mean is corrected by that of the deviations: sequential sums over a lane are less exact.
    corrections = 1
    #: Whether each sample is in one of several lanes.
    in_groups = False

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def floats(self, amount: Any) -> Any:
        """The sum, float64."""
        return self.xp.sum(amount)

    def of_samples(self, by_lane: Any) -> Any:
        """A number per lane, broadcast to samples."""
        return by_lane

    def dot(self, weight: Any, values: Any) -> Any:
        """The sum of products; None: weights of 1."""
        return self.floats(values if weight is None else self.xp.multiply(weight, values))

    def moments(self, weight: Any, total: Any, variables: Sequence[Any]) -> list[Any]:
        """The moments after the weight, see `fleetmetrics.numbers.moments`, of float64 variables x, or x and y.

        ``weight`` is a float64 ``[n]``, or None for 1 each without lanes; ``total`` is its sum by lane.
        """
        divisor = self.xp.or_one(total)
        means, rests, near = [], [], []
        for values in variables:
            middle, rest = self.dot(weight, values) / divisor, None
            values = values - self.of_samples(middle)
            for _ in range(self.corrections):
                step = self.dot(weight, values) / divisor
                values = values - self.of_samples(step)
                rest = step if rest is None else rest + step
            mean, rest = two_sum(middle, rest)
            means.append(mean)
            rests.append(rest)
            near.append(values)
        pairs = [(one, other) for i, one in enumerate(near) for other in near[i:]]
        return [*means, *[self.dot(weight, self.xp.multiply(*pair)) for pair in pairs], *rests]


class _Columns(Whole):
    """A lane in each column: weights ``[n, lanes]``, values of all lanes ``[n, 1]``."""

    corrections = 2

    def dot(self, weight: Any, values: Any) -> Any:
        return self.xp.dot_of_columns(weight, values)


class Groups(Whole):
    """Each sample in one of ``size`` lanes; ``index`` is an int64 ``[n]``, also valid for samples that do not count."""

    in_groups = True
    index: Any
    size: int

    corrections = 2

    def __init__(self, xp: Any, index: Any, size: int) -> None:
        super().__init__(xp)
        self.index, self.size = index, size

    def sum(self, amount: Any) -> Any:
        """An increment to a state ``[lanes]``: the sum of ``amount`` ``[n]`` (None: ones) by lane."""
        return Scattered((self.index,), amount)

    def scatter(self, increment: Scattered) -> Scattered:
        """An increment to ``[lanes, ...]`` from one to ``[...]`` with an entry per sample."""
        return Scattered((self.index, *increment.indices), increment.amount)

    def floats(self, amount: Any) -> Any:
        """The sums by lane themselves, float64 ``[lanes]``."""
        return self.xp.sum_by(self.index, amount, self.size)

    def of_samples(self, by_lane: Any) -> Any:
        """A number per lane, for each sample: ``[n]``."""
        return self.xp.take(by_lane, self.index)

    def extreme(self, values: Any, keep: Any, reduction: str) -> Any:
        """The largest (``"max"``) or smallest kept value (None: all) by lane."""
        return self.xp.extreme_by(self.index, values, keep, self.size, reduction)

    def of(self, places: Any) -> Groups:
        """The lanes of some of the samples; in NumPy."""
        return Groups(self.xp, self.index[places], self.size)

    def repeated(self, times: int) -> Groups:
        """The lanes of samples that are each repeated ``times`` times in a row."""
        return Groups(self.xp, self.xp.repeat(self.index, times), self.size)


class Replicates:
    """As `Groups`, but each sample is in every lane, ``times`` times: int64 or (in NumPy) uint8 ``[n, size]``."""

    in_groups = False
    size: int
    times: Any
    xp: Any

    def __init__(self, xp: Any, times: Any, size: int) -> None:
        self.xp, self.times, self.size = xp, times, size

    def sum(self, amount: Any) -> Any:
        xp = self.xp
        if amount is not None and xp.kind(amount) == "f":
            return self.floats(amount)
        if amount is None and xp.FILTERS:
            return xp.sum_of_columns(self.times)
        if amount is None:
            # Integers below 2**53 are exact as floats, whose product is much faster.
            return xp.cast(self.floats(xp.ones_like(self.times[:, 0])), "int64")
        return xp.sum_of_columns(xp.multiply(self.times, xp.reshape(amount, [-1, 1])))

    def scatter(self, increment: Scattered) -> Scattered:
        xp = self.xp
        indices = [xp.arange(self.size), *[xp.reshape(index, [-1, 1]) for index in increment.indices]]
        amount = self.times
        if increment.amount is not None:
            amounts = xp.reshape(increment.amount, [-1, 1])
            amount = xp.multiply(xp.cast(amount, "float64" if xp.kind(amounts) == "f" else "int64"), amounts)
        if xp.FILTERS:
            return Scattered(tuple(indices), amount)
        zeros = xp.zeros_like(self.times)
        spread = [xp.reshape(xp.add(zeros, index), [-1]) for index in indices]
        return Scattered(tuple(spread), xp.reshape(amount, [-1]))

    def floats(self, amount: Any) -> Any:
        return self.xp.matvec(self._factors, self.xp.cast(amount, "float64"))

    def moments(self, weight: Any, total: Any, variables: Sequence[Any]) -> list[Any]:
        xp = self.xp
        columns = [xp.reshape(column, [-1, 1]) for column in (weight, *variables)]
        return _Columns(xp).moments(xp.multiply(self._factors, columns[0]), total, columns[1:])

    def extreme(self, values: Any, keep: Any, reduction: str) -> Any:
        xp = self.xp
        members = xp.cast(self.times, "bool")
        if keep is not None:
            members = xp.logical_and(members, xp.reshape(keep, [-1, 1]))
        return xp.extreme_by_column(xp.reshape(values, [-1, 1]), members, reduction)

    def repeated(self, times: int) -> Replicates:
        return Replicates(self.xp, self.xp.repeat(self.times, times), self.size)

    @functools.cached_property
    def _factors(self) -> Any:
        return self.xp.cast(self.times, "float64")


class Each:
    """Each sample in a lane of its own: a sum is an array with an entry per sample, not an increment to a state.

    Args:
        like: an array ``[n]`` of the batch.
    """

    in_groups = False
    like: Any
    xp: Any

    def __init__(self, xp: Any, like: Any) -> None:
        self.xp, self.like = xp, like

    def sum(self, amount: Any) -> Any:
        return self.xp.cast(self.xp.ones_like(self.like), "int64") if amount is None else amount

    def scatter(self, increment: Scattered) -> Scattered:
        return increment

    def repeated(self, times: int) -> Each:
        return Each(self.xp, self.xp.repeat(self.like, times))


class Nested:
    """As `Groups`, for replicates within each group: a state ``[groups, replicates, ...]``."""

    in_groups = False
    groups: Groups
    replicates: Replicates
    size: int
    xp: Any

    def __init__(self, groups: Groups, replicates: Replicates) -> None:
        self.xp, self.groups, self.replicates = groups.xp, groups, replicates
        self.size = groups.size * replicates.size

    def sum(self, amount: Any) -> Any:
        return self.scatter(Scattered((), amount))

    def scatter(self, increment: Scattered) -> Scattered:
        (replicate, group, *rest), amount = self.replicates.scatter(self.groups.scatter(increment))
        return Scattered((group, replicate, *rest), amount)

    def floats(self, amount: Any) -> Any:
        sums = self.xp.sum_by(*self._flat(amount), self.size)
        return self.xp.reshape(sums, [self.groups.size, self.replicates.size])

    def moments(self, weight: Any, total: Any, variables: Sequence[Any]) -> list[Any]:
        xp, times = self.xp, self.replicates.size
        lane, weight = self._flat(weight)
        flat = Groups(xp, lane, self.size)
        moments = flat.moments(weight, xp.reshape(total, [-1]), [xp.repeat(variable, times) for variable in variables])
        return [xp.reshape(moment, [self.groups.size, times]) for moment in moments]

    def extreme(self, values: Any, keep: Any, reduction: str) -> Any:
        xp = self.xp
        place, times = self._flat(None)
        drawn = xp.cast(times, "bool")
        if keep is not None:
            drawn = xp.logical_and(drawn, xp.repeat(keep, self.replicates.size))
        extremes = xp.extreme_by(place, xp.repeat(values, self.replicates.size), drawn, self.size, reduction)
        return xp.reshape(extremes, [self.groups.size, self.replicates.size])

    def repeated(self, times: int) -> Nested:
        return Nested(self.groups.repeated(times), self.replicates.repeated(times))

    def _flat(self, amount: Any) -> tuple[Any, Any]:
        """The lane of each sample in each replicate, and the amount there: ``[n * replicates]``."""
        xp = self.xp
        (group, replicate), amounts = self.sum(amount)
        place = xp.add(xp.multiply(group, xp.full_like(group, self.replicates.size)), replicate)
        return xp.reshape(place, [-1]), xp.reshape(amounts, [-1])
