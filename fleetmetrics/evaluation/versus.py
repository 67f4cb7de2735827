"""New against old, slice by slice: the verdict on each slice's delta, and the sources of the whole's delta.

Both sides keep, for each slice, the value, the contribution of each group of users, ids or rows to it, and the sums
behind it. A hash forms the groups, so that the common part of the sides cancels if both have the same ids, and nothing
cancels if they share none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.metric import Metric
from fleetmetrics.base.record_metric import GroupedMetric
from fleetmetrics.errors import BucketWarning, UndefinedMetricWarning
from fleetmetrics.evaluation.scarce import Scarce, at_least, counts_of, scarce_of
from fleetmetrics.formulas import contributions
from fleetmetrics.formulas.contributions import Contributions
from fleetmetrics.formulas.differences import Difference, even_around, spread_apart, spread_of_both
from fleetmetrics.formulas.sequences import always_valid
from fleetmetrics.formulas.slices import false_discovery_rates
from fleetmetrics.formulas.spreads import Largest, Spread, alike
from fleetmetrics.state.state import State
from fleetmetrics.support.warning import muted
from fleetmetrics.wrappers.interval import Interval

__all__ = [
    "ColumnDelta",
    "Compared",
    "Part",
    "SliceDelta",
    "Weighing",
    "compared_metric",
    "difference_of",
    "overall_metric",
    "versus",
]

#: How many groups what is independent falls into, in each slice: chance adds 2 % to a standard error.
_GROUPS = 1024
#: Sums of contributions that miss the delta by this part of their size miss it by rounding.
_ROUNDED = 1e-9


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


# -- what is found -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SliceDelta:
    """A slice of both sides; unknown numbers are nan.

    Attributes:
        key: the value of the column.
        rows: the number of rows of the new side.
        baseline_rows: the number of rows of the old side.
        metric: the metric that ranks the slices.
        value: its value on the new side.
        baseline: its value on the old side.
        delta: new minus old.
        low: lower end of an interval for it.
        high: its upper end.
        p: the p-value of the hypothesis of no difference.
        q: the share of false verdicts among all slices with at most this q-value.
        verdict: "worse", "different", "better", "within chance" or "too few", of new against old; None: no test.
        needs: the numbers of positives, rows or users needed, if there are too few.
        because: the reason, if a user has much of the data; see `Scarce`.
        mix: the slice's contribution to the whole's delta from the change of its share.
        within: its contribution from the change of its own value.
        deltas: new minus old for all metrics that are single numbers.
    """

    key: Any
    rows: int
    baseline_rows: int
    metric: str
    value: float = math.nan
    baseline: float = math.nan
    delta: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    q: float = math.nan
    verdict: str | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    because: Mapping[str, Any] = field(default_factory=dict)
    mix: float = math.nan
    within: float = math.nan
    deltas: Mapping[str, float] = field(default_factory=dict)

    @property
    def added(self) -> float:
        """The slice's contribution to the whole's delta."""
        return self.mix + self.within

    def plain(self) -> dict[str, Any]:
        """As the result's JSON has it."""
        return {**vars(self), "added": self.added}


@dataclass(frozen=True)
class ColumnDelta:
    """The slices of a column of both sides.

    Attributes:
        metric: the metric that ranks the slices.
        delta: the delta of the whole.
        mix: the part from changed shares of slices.
        within: the part from changed values within slices.
        remainder: the part of users with rows in several slices.
        made_of: the attribution: by "ranks" of the slices' rows among all, or by their own "sums"; "" without one.
        slices: by their contribution, first those that make the whole worse.
    """

    metric: str
    delta: float
    mix: float
    within: float
    remainder: float
    made_of: str
    slices: list[SliceDelta]

    def plain(self) -> dict[str, Any]:
        """As the result's JSON has it."""
        return {**vars(self), "slices": [each.plain() for each in self.slices]}


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


class Whole(NamedTuple):
    """The metric that ranks slices, without samples, and its values over all rows."""

    metric: Metric
    name: str
    new: float
    old: float
    unit: str  #: what is independent: "rows", "users", "queries"


class Halves(NamedTuple):
    """A column's slices of one side: by key, the number of rows, the kept parts, and the values of all metrics.

    ``sizes`` has the numbers of positives, users or queries that are known, by key.
    """

    rows: Mapping[Any, int]
    parts: Mapping[Any, Part]
    values: Mapping[str, Mapping[Any, Any]]
    sizes: Mapping[str, Mapping[Any, int]] = MappingProxyType({})

    def counts(self, key: Any) -> dict[str, int]:
        """What there is of a slice."""
        return counts_of(self.rows.get(key, 0), {name: each.get(key, 0) for name, each in self.sizes.items()})


def versus(columns: Mapping[str, tuple[Halves, Halves]], whole: Whole, weighing: Weighing) -> dict[str, ColumnDelta]:
    """The deltas of the slices of each column, and the sources of the whole's delta.

    Args:
        columns: new and old by column.
        whole: the metric.
        weighing: the way to intervals.
    """
    tables = {column: _table(*halves, whole, weighing) for column, halves in columns.items()}
    rates = iter(false_discovery_rates([each.p for table in tables.values() for each in table]).tolist())
    found = {}
    for column, table in tables.items():
        table = [_called(each, next(rates), whole.metric.better, 1 - weighing.confidence) for each in table]
        added = [each.added for each in table if not math.isnan(each.added)]  # of all slices, or of none
        delta = whole.new - whole.old
        rest = delta - math.fsum(added) if added else math.nan
        rest = 0.0 if abs(rest) <= _ROUNDED * sum(map(abs, [*added, whole.new])) else rest
        mix, within = (math.fsum(getattr(each, name) for each in table) for name in ("mix", "within"))
        if added:
            sign = -1 if whole.metric.better == "lower" else 1
            table.sort(key=lambda each: (sign * each.added, str(each.key)))
            if not whole.metric.better:
                table.sort(key=lambda each: -abs(each.added))
        made_of = ("ranks" if whole.metric.ranked else "sums") if added else ""
        found[column] = ColumnDelta(whole.name, delta, mix, within, rest, made_of, table)
    return found


def _table(new: Halves, old: Halves, whole: Whole, weighing: Weighing) -> list[SliceDelta]:
    keys = [*new.rows, *(key for key in old.rows if key not in new.rows)]
    mix = within = np.full(len(keys), math.nan)
    if new.parts and old.parts:
        with np.errstate(all="ignore"):
            mix, within = _contributions(keys, new, old, whole.metric)
    found = []
    for place, key in enumerate(keys):
        values = [{name: each[key] for name, each in half.values.items() if key in each} for half in (new, old)]
        one, other = (each.get(whole.name, math.nan) for each in values)
        deltas = {name: value - values[1].get(name, math.nan) for name, value in values[0].items()}
        rows = new.rows.get(key, 0), old.rows.get(key, 0)
        each = SliceDelta(key, *rows, whole.name, one, other, one - other, deltas=deltas)
        each = replace(each, mix=float(mix[place]), within=float(within[place]))
        if key in new.parts and key in old.parts:
            counts = new.counts(key), old.counts(key)
            each = _tested(each, new.parts[key], old.parts[key], whole.unit, weighing, counts)
        found.append(each)
    return found


def _tested(
    each: SliceDelta, one: Part, other: Part, unit: str, weighing: Weighing, counts: Sequence[Mapping[str, int]]
) -> SliceDelta:
    """A slice with its test."""
    test, scarce = difference_of(one, other, each.delta, unit, weighing, counts)
    if math.isnan(test.low):
        scarce = scarce if scarce.needs else at_least(unit, counts)
        return replace(each, verdict="too few", needs=scarce.needs, because=scarce.because)
    return replace(each, low=test.low, high=test.high, p=test.p_value)


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
        found = spread_of_both(*sides)
    else:
        found = spread_apart(one.spread.groups, other.spread.groups)
    counts = [each.counts(its, unit) for each, its in zip((one, other), counts)]
    both = {name: max(each[name] for each in counts) for name in counts[0].keys() & counts[1].keys()}
    scarce = scarce_of(zip([*sides, found], [*counts, both]), [one.largest, other.largest], unit)
    std = math.nan if scarce.needs or not found.variance >= 0 else math.sqrt(found.variance)
    return weighing.of(delta, std, found.freedom), scarce


def _called(each: SliceDelta, rate: float, better: str, share: float) -> SliceDelta:
    """A slice with its verdict."""
    if math.isnan(rate):
        return each
    worse = (each.delta < 0) == (better == "higher")
    called = ("worse" if worse else "better") if better else "different"
    return replace(each, q=rate, verdict=called if rate <= share else "within chance")


def _contributions(keys: Sequence[Any], new: Halves, old: Halves, metric: Metric) -> Contributions:
    """What each slice adds to the whole's delta."""
    some = next(iter(new.parts.values())).sums
    one, other = (
        np.stack([half.parts[key].sums if key in half.parts else np.zeros_like(some) for key in keys])
        for half in (new, old)
    )
    if metric.ranked:
        return contributions.of_areas(one, other)
    if metric.quotient is not None:
        pairs = (one[:, 0], one[:, 1]), (other[:, 0], other[:, 1])
        return contributions.of_quotients(*pairs, value=metric.quotient.value, slope=metric.quotient.slope)
    assert metric.linear is not None
    rows, old_rows = ([half.rows.get(key, 0) for key in keys] for half in (new, old))
    return contributions.of_sums(one, other, rows, old_rows, metric.linear.slopes)
