"""What a comparison keeps of a value on both sides, and the difference of the two.

Both sides keep the value, the contribution of each group of users, ids or rows to it, and the sums behind it. A hash
forms the groups, so that the common part of the sides cancels if both have the same ids, and nothing cancels if they
share none.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.metric import Metric
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.errors import BucketWarning, UndefinedMetricWarning
from fleetmetrics.evaluation.question.scarce import Scarce, scarce_of
from fleetmetrics.formulas.differences import Difference, even_around, spread_apart, spread_of_both
from fleetmetrics.formulas.sequences import always_valid
from fleetmetrics.formulas.spreads import Largest, Spread, alike
from fleetmetrics.state.state import State
from fleetmetrics.support.warning import muted
from fleetmetrics.wrappers.interval import Interval

__all__ = ["Compared", "Part", "Weighing", "compared_metric", "difference_of", "overall_metric"]

#: How many groups what is independent falls into, in each slice: chance adds 2 % to a standard error.
_GROUPS = 1024


# -- what is kept of a slice -------------------------------------------------------------------------------


class Part(NamedTuple):
    """A slice of one side: the value, its spread, the sums behind it, a large user, and the number of users.

    The number is an estimate; inf: there are more than the groups show.
    """

    value: float
    spread: Spread
    sums: np.ndarray
    largest: Largest | None = None
    number: float | None = None

    def counts(self, counts: Mapping[str, float], unit: str) -> Mapping[str, float]:
        """What there is, with the number of its ``unit`` if only this part knows it."""
        return counts if self.number is None else {unit: self.number, **counts}


class Compared(Interval):
    """A metric whose value is a `Part`, for a comparison."""

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """A `Part`; the metric itself warns of undefined values."""
        with muted(UndefinedMetricWarning, BucketWarning):
            return Part(*self.measured(values, carries), *self.of_ids(values, carries))


class Overall(Compared):
    """The same over all rows, in bounded memory."""

    bounded = True


def overall_metric(metric: Metric, unit: str | None) -> Overall | None:
    """The metric to keep for the interval of a value over all rows, and of its delta; None if it has no formula.

    Args:
        metric: without samples.
        unit: as for `compared_metric`.
    """
    if not metric.ranked and metric.linear is None:
        return None
    more: dict[str, Any] = {"groups": _GROUPS} if metric.ranked else {}  # there is a histogram for each
    return Overall(metric, ids=None if isinstance(metric, GroupedMetric) else unit, name=metric.name, **more)


def compared_metric(metric: Metric, unit: str | None) -> Compared | None:
    """The metric to keep for each slice of a comparison; None if this metric has no comparison.

    Args:
        metric: without samples.
        unit: the argument of ``add`` that says which rows belong together; None: each is independent.
    """
    if not metric.ranked and metric.linear is None:
        return None
    return Compared(metric, ids=None if isinstance(metric, GroupedMetric) else unit, groups=_GROUPS, name=metric.name)


# -- the difference of both ---------------------------------------------------------------------------------


class Weighing(NamedTuple):
    """The way from differences to intervals.

    Args:
        confidence: the confidence of intervals, and one minus the share of false verdicts.
        rows: the number of rows of the new side.
        tightest: the number of rows at which intervals valid at every look are narrowest; None: intervals of one look.
    """

    confidence: float
    rows: int
    tightest: float | None = None

    def of(self, value: float, std: float, freedom: float) -> Difference:
        """A difference with its interval."""
        if self.tightest is None:
            return even_around(value, std, freedom, self.confidence)
        return always_valid.bare(value, std, self.rows, self.tightest, self.confidence)


def difference_of(
    one: Part,
    other: Part,
    delta: float,
    unit: str,
    weighing: Weighing,
    counts: Sequence[Mapping[str, float]] = ({}, {}),
) -> tuple[Difference, Scarce]:
    """The delta with its interval, nan if there is too little for one; and what it needs then.

    Args:
        one: the new side.
        other: the old side. What groups of the same users have in common cancels.
        delta: new minus old.
        unit: what independent samples, or groups of them, are called.
        weighing: the way to intervals.
        counts: what there is of each side, as `counts_of` has it.
    """
    sides = alike(one.spread, other.spread)
    if one.spread.groups is None or other.spread.groups is None:
        spread = spread_of_both(*sides)
    else:
        spread = spread_apart(one.spread.groups, other.spread.groups)
    own, its = (part.counts(of_side, unit) for part, of_side in zip((one, other), counts))
    both = {name: max(own[name], its[name]) for name in own.keys() & its.keys()}
    scarce = scarce_of(zip([*sides, spread], [own, its, both]), [one.largest, other.largest], unit)
    std = math.nan if scarce.needs or not spread.variance >= 0 else math.sqrt(spread.variance)
    return weighing.of(delta, std, spread.freedom), scarce
