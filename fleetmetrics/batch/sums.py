"""Sums over the samples of a batch, all made here so that a batch in lanes can make one per lane."""

from __future__ import annotations

import copy
import functools
from typing import Any, Callable

import numpy as np

from fleetmetrics.xp import Scattered

__all__ = ["Sums", "per_sample", "statistic"]


def statistic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of a batch (and plain settings) compute once per batch for all metrics."""

    @functools.wraps(function)
    def memoised(batch: Any, *settings: Any) -> Any:
        memo, key = batch.memo, (function, settings) if settings else function
        value = memo.get(key, memo)  # the memo itself: there is no value yet; settings are hashed once
        if value is memo:
            value = memo[key] = function(batch, *settings)
        return value

    return memoised


def per_sample(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `statistic`, for a function that returns an entry for each sample: once for all lanes, too."""

    @functools.wraps(function)
    def memoised(batch: Any, *settings: Any) -> Any:
        memo, key = batch.of_samples, (function, settings) if settings else function
        value = memo.get(key, memo)
        if value is memo:
            value = memo[key] = function(batch, *settings)
        return value

    return memoised


class Sums:
    """The sums for batch statistics; `fleetmetrics.batch.Batch` provides the samples."""

    xp: Any
    memo: dict[Any, Any]
    of_samples: dict[Any, Any]  # as memo, of arrays with an entry per sample: the same in any lanes
    by_sample: dict[Any, Any]
    table: Any = None
    label: Any
    weight: Any = None
    keep: Any = None  # flags of the samples that count; None: all of these
    valid: Any = None  # flags of the samples that broke no requirement; None: checked at once, or not validated
    lanes: Any = None  # Groups, Replicates or Nested; None: each state once
    classes = 0

    @property
    def each(self) -> Any:
        """An array with an entry per sample."""
        return self.label if self.classes else self.prediction

    @functools.cached_property
    def prediction(self) -> Any:
        """``[n]``, or scores ``[n, classes]``; a copy of a `table`, for metrics that do not read it by `of_rows`."""
        return self.xp.concat([scores for _, scores in self.table.blocks()])

    def blocks(self) -> Any:
        """Pieces of the samples, and their scores ``[samples, classes]``."""
        return [(slice(None), self.prediction)] if self.table is None else self.table.blocks()

    def of_rows(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """``function(scores, *arrays)``, an entry per sample, of scores ``[samples, classes]`` and arrays.

        It is called block by block if the scores are too many to copy.
        """
        if self.table is None:
            return function(self.prediction, *arrays)
        parts = [function(scores, *[array[place] for array in arrays]) for place, scores in self.table.blocks()]
        return parts[0] if len(parts) == 1 else self.xp.concat(parts)

    def of_flagged_rows(self, flags: Any, function: Callable[..., Any], *arrays: Any) -> Any:
        """As `of_rows`, of the samples with a flag (None: all) alone; 0 for the others."""
        xp = self.xp
        if flags is None or (xp.FILTERS and flags.all()):
            return self.of_rows(function, *arrays)
        if not xp.FILTERS:
            return xp.zero_unless(flags, self.of_rows(function, *arrays))
        blocks = [(slice(None), self.prediction[flags])] if self.table is None else self.table.only(flags).blocks()
        arrays = tuple(array[flags] for array in arrays)
        flagged = np.concatenate([function(scores, *[array[place] for array in arrays]) for place, scores in blocks])
        values = np.zeros(len(flags), flagged.dtype)
        values[flags] = flagged
        return values

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """An array with an entry per sample, made once; unlike `cached` values it survives dropped samples."""
        if key not in self.by_sample:
            self.by_sample[key] = make()
        return self.by_sample[key]

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value of ``make()``, computed once per batch for all metrics."""
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def weighted_sum(self, values: Any, *, zero_at_zero: bool = False) -> Any:
        """``sum(w * values)`` over the samples that count: float64, or int64 for bools and integers without weights."""
        xp = self.xp
        if self.weight is not None:
            values = xp.multiply(xp.cast(values, "float64"), self.weight)
        elif self.keep is not None and not zero_at_zero:
            values = xp.zero_unless(self.keep, values)
        if self.lanes is None:
            return xp.sum(values)
        if xp.FILTERS and self.lanes.in_groups and xp.kind(values) == "b":
            return self.lanes.of(np.flatnonzero(values)).sum(None)
        return self.lanes.sum(xp.cast(values, "float64" if xp.kind(values) == "f" else "int64"))

    def sum_of_squares(self, values: Any) -> Any:
        """``sum(w * values**2)`` of float64 values, as `weighted_sum`; they are 0 for samples that do not count."""
        if self.weight is None and self.lanes is None:
            total = self.xp.dot(values, values)
            if not self.xp.known_zero(total):
                return total
        squares = self.xp.squares(values, self.weight)
        return self.xp.sum(squares) if self.lanes is None else self.lanes.sum(squares)

    def sum_of_logs(self, factors: Any) -> Any:
        """The sum of the logarithms of positive float64 values, of samples without weights or lanes."""
        return self.xp.sum_of_logs(factors)

    @property
    def total(self) -> Any:
        """The number (int64) or the weight (float64) of the samples that count."""
        return self.number if self.weight is None else self._total_weight()

    @statistic
    def _total_weight(self) -> Any:
        return self.xp.sum(self.weight) if self.lanes is None else self.lanes.sum(self.weight)

    @property
    @statistic
    def number(self) -> Any:
        """The number of the samples that count, of any weight: int64."""
        if self.lanes is not None:
            return self.lanes.sum(None if self.keep is None else self.ones_of(self.keep))
        return self.xp.count(self.each) if self.keep is None else self.number_of(self.keep)

    def histogram(self, *indices: Any, amount: Any = None) -> Scattered:
        """Add an amount (None: 1) times its weight to ``state[indices]`` for each sample.

        There is an int64 ``[n]`` for each axis of the state, with valid indices also for samples that do not count.
        """
        xp, weight = self.xp, self.weight
        if weight is None and self.keep is not None:
            weight = self.ones_of(self.keep)
        if amount is not None:
            amount = xp.cast(amount, "float64" if xp.kind(amount) == "f" or self.weight is not None else "int64")
            if weight is None:
                weight = amount
            elif self.weight is None:
                weight = xp.zero_unless(self.keep, amount)
            else:
                weight = xp.multiply(amount, weight)
        increment = Scattered(indices, weight)
        return increment if self.lanes is None else self.lanes.scatter(increment)

    def extreme(self, values: Any, reduction: str) -> Any:
        """The largest (``"max"``) or smallest of the values of the samples that count, int64 or float64."""
        xp = self.xp
        values = xp.cast(values, "float64" if xp.kind(values) == "f" else "int64")
        if self.classes:  # several scores of a sample count together
            values = xp.extreme(values, None, reduction, axis=1)
        if self.lanes is None:
            return xp.extreme(values, self.keep, reduction)
        return self.lanes.extreme(values, self.keep, reduction)

    def moments(self, x: Any, y: Any = None) -> Any:
        """A batch's increment to a state of reduction "moments" (float64 x) or "comoments" (x and y)."""
        xp = self.xp
        alike = self.weight is None and self.keep is None and self.lanes is None
        if alike and xp.moments:
            return xp.moments(x, y)
        from fleetmetrics.batch.lanes import Whole  # most metrics have no moments

        variables, lanes = [x] if y is None else [x, y], self.lanes or Whole(xp)
        if alike:
            weight, total = None, xp.cast(self.number, "float64")
        else:
            weight = self._weights()
            total = lanes.floats(weight)
        if self.keep is not None:
            variables = [xp.zero_unless(self.keep, variable) for variable in variables]
        return xp.stack_last([total, *lanes.moments(weight, total, variables)])

    @statistic
    def one_vs_rest(self) -> Any:
        """A batch with an element for each score, labeled by whether its class (`label_index`) is the true one."""
        xp, classes = self.xp, self.classes
        batch: Any = copy.copy(self)
        batch.memo, batch.of_samples, batch.by_sample, batch.columns = {}, {}, {}, {}
        batch._dropped = batch.table = None
        batch.classes, batch.width = 0, classes
        batch.prediction = xp.reshape(self.prediction, [-1])
        batch.label = xp.reshape(xp.equal(xp.arange(classes), xp.reshape(self.label, [-1, 1])), [-1])
        for name in ("weight", "keep"):
            array = getattr(self, name)
            setattr(batch, name, None if array is None else xp.repeat(array, classes))
        batch.lanes = None if self.lanes is None else self.lanes.repeated(classes)
        return batch

    def _weights(self) -> Any:
        """The weight of each sample, float64 ``[n]``."""
        if self.weight is not None:
            return self.weight
        return self.xp.cast(self.xp.ones_like(self.each) if self.keep is None else self.keep, "float64")

    def ones_of(self, flags: Any) -> Any:
        """Flags as an int64 of zeros and ones."""
        return self._once_if_own("ones", flags, lambda: self.xp.cast(flags, "int64"))

    def number_of(self, flags: Any) -> Any:
        """The number of true flags."""
        return self._once_if_own("number", flags, lambda: self.xp.sum(flags))

    def _once_if_own(self, what: str, flags: Any, make: Callable[[], Any]) -> Any:
        """The value of ``make()``, computed once for the batch's own flags: a caller's may change, or soon be gone."""
        if flags is self.keep:
            return self.cached((what, "keep"), make)
        return self.cached((what, "valid"), make) if flags is self.valid else make()
