"""Quantiles of the sizes of errors, from a histogram."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Settings
from fleetmetrics.batch import Batch, statistic
from fleetmetrics.formulas.quotients import NO_SAMPLES, stand_in
from fleetmetrics.metrics.regression.differences import OfNumbers, absolute_errors
from fleetmetrics.metrics.regression.relative import relative_errors
from fleetmetrics.support.checks import choice_of, flag_of, number_of
from fleetmetrics.support.typed import Unpack

__all__ = ["QuantileError"]

#: The lower ends of the buckets: 0, and 64 in each doubling from 2**-64 to 2**64, all of them exact floats.
_LOW = np.append(0.0, np.ldexp(1 + np.arange(2**13 + 1) % 64 / 64, np.arange(2**13 + 1) // 64 - 64))
_HIGH = np.append(_LOW[1:], math.inf)


@statistic
def _by_size(batch: Batch, error: str) -> Any:
    xp, errors = batch.xp, (absolute_errors if error == "absolute" else relative_errors)(batch)
    return batch.histogram(xp.position(xp.constant(_LOW[1:]), errors, True))


class BoundedError(NamedTuple):
    """A quantile of errors, with its bounds.

    Args:
        value: the middle of the bounds.
        low: at most the quantile of the errors themselves.
        high: at least that quantile.
    """

    value: float
    low: float
    high: float


class QuantileError(OfNumbers[Value]):
    """A quantile of the sizes of errors: nine of ten errors are smaller than ``QuantileError(0.9)``.

    Formula: of the errors ``|p - y|`` by size, the one up to which the share ``quantile`` of the weight lies; the mean
    of that one and the next if it is exactly that share, as for a median (the averaged inverse of the
    distribution, Hyndman and Fan's definition 2).

    A histogram of 64 KiB counts the errors in 64 buckets per doubling (as DDSketch does): the value is surely within
    1/128 of the quantile of the errors themselves, if that is 2**-64 to 2**64. Smaller ones are bounded by 0, larger
    ones by inf. Inputs as for `MeanAbsoluteError`. Undefined without samples.

    Args:
        quantile: in [0, 1].
        error: "absolute", or "relative" for ``|p - y| / max(|y|, 2**-52)``.
        bounds: whether ``compute`` returns ``BoundedError(value, low, high)``.

    Examples:
        >>> metric = QuantileError(0.75, bounds=True)
        >>> metric.add([2.5, 0.0, 2.0, 80.0], [3.0, -0.5, 2.0, 78.0])
        >>> metric.compute()
        BoundedError(value=1.259765625, low=1.25, high=1.26953125)
    """

    better = "lower"
    cell_states: tuple[str, ...] = ("histogram",)
    bounds: bool
    error: str
    quantile: float

    @overload
    def __init__(
        self: QuantileError[float],
        quantile: float = 0.5,
        *,
        error: Literal["absolute", "relative"] = "absolute",
        bounds: Literal[False] = False,
        **settings: Unpack[Settings],
    ) -> None: ...
    @overload
    def __init__(
        self: QuantileError[BoundedError],
        quantile: float = 0.5,
        *,
        error: Literal["absolute", "relative"] = "absolute",
        bounds: Literal[True],
        **settings: Unpack[Settings],
    ) -> None: ...
    def __init__(
        self,
        quantile: float = 0.5,
        *,
        error: Literal["absolute", "relative"] = "absolute",
        bounds: bool = False,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.quantile = number_of("quantile", quantile, 0, 1)
        self.error = choice_of("error", error, ("absolute", "relative"))
        self.bounds = flag_of("bounds", bounds)
        self.declare("histogram", _LOW.shape, statistic=_by_size, settings=("error",))

    def formula(self, histogram: np.ndarray) -> Any:
        below = histogram.cumsum()
        if not math.isfinite(below[-1]):  # unchecked weights
            value = low = high = math.nan
        elif not below[-1]:
            value = low = high = stand_in(self._title, NO_SAMPLES, self.zero_division)
        else:
            share = self.quantile * below[-1]
            # Up to rounding: the weights 0.1 and 0.2 are half of 0.1, 0.2 and 0.3.
            ends = np.searchsorted(below, [share * (1 - 2**-40), share * (1 + 2**-40)])
            first, last = np.flatnonzero(histogram)[[0, -1]]
            ends = np.clip(ends, first, last)
            low, high = (float(limits[ends].mean()) for limits in (_LOW, _HIGH))
            value = low + (high - low) / 2 if low else 0.0
        return BoundedError(value, low, high) if self.bounds else value
