"""Intervals of values over all rows, and of their deltas; if there are too few rows, the number that is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping, Sequence

from fleetmetrics.errors import UndefinedMetricWarning
from fleetmetrics.evaluation.question.probe import Probe
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.evaluation.question.scarce import Scarce, at_least, because_of_uneven, counts_of, in_full, scarce_of
from fleetmetrics.evaluation.question.versus import Part, Weighing, difference_of
from fleetmetrics.formulas import intervals
from fleetmetrics.formulas.bootstrap import BootstrapResult, bootstrap_result
from fleetmetrics.formulas.spreads import LEAST
from fleetmetrics.support.checks import is_number
from fleetmetrics.support.warning import muted

__all__ = ["Delta", "Interval", "deltas_of", "intervals_of"]

#: The largest relative error due to fewer buckets: replicates over these then vary like the value.
_NEAR = 0.1


@dataclass(frozen=True)
class Interval:
    """The ends of an interval; nan if there are too few data for one.

    Attributes:
        low: the lower end.
        high: the upper end.
        needs: the required numbers of positives, negatives, rows, users or queries, where there are too few.
        because: the reason, if a user has much of the data; see `Scarce`.
    """

    low: float
    high: float
    needs: Mapping[str, int] = field(default_factory=dict)
    because: Mapping[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """As the result's JSON has it."""
        entries: dict[str, Any] = {"low": self.low, "high": self.high}
        for name in ("needs", "because"):
            if getattr(self, name):
                entries[name] = getattr(self, name)
        return entries


@dataclass(frozen=True)
class Delta:
    """New minus old, with an interval if there is one.

    Attributes:
        value: the difference.
        known_interval: its interval; None: it has none.
    """

    value: float
    known_interval: Interval | None = None

    def __repr__(self) -> str:
        return f"Delta(value={self.value!r}, interval={self.known_interval!r})"

    @property
    def interval(self) -> Interval:
        """Its interval; both ends are nan if it has none."""
        return self.known_interval or Interval(math.nan, math.nan)

    def plain(self) -> dict[str, Any]:
        """As the result's JSON has it."""
        return {"value": self.value, **(self.known_interval.plain() if self.known_interval else {})}


# -- of values ---------------------------------------------------------------------------------------------


def intervals_of(values: Probe[Any], asked: Question, warnings: list[str]) -> dict[str, Interval]:
    """The intervals, by metric.

    Args:
        values: of one side.
        asked: the arguments.
        warnings: those so far, to which those of metrics without an interval are added.
    """
    by_metric, counts = {}, counts_of(values.rows, values.sizes)
    for key, result in _numbers(values):
        if isinstance(result, Part):
            by_metric[key] = _of_part(result, key, asked, counts)
        elif _is_narrow(result, values.values[key]):
            warnings.append(
                f"{key} has no interval: over the few buckets that are resampled it is {result.value:.6g} and not "
                f"{values.values[key]:.6g}, because the scores lie close together"
            )
        else:
            scarce = _scarce_of_draws(result, asked.counts(key), counts, values)
            shift = math.nan if scarce.needs else values.values[key] - result.value
            by_metric[key] = Interval(result.low + shift, result.high + shift, *scarce)
    return by_metric


def _numbers(values: Probe[Any]) -> Iterator[tuple[str, Any]]:
    """The parts and replicates of metrics that are numbers."""
    for key, result in values.intervals.items():
        if isinstance(result, (Part, BootstrapResult)) and is_number(result.value):
            yield key, result


def _of_part(part: Part, key: str, asked: Question, counts: Mapping[str, int]) -> Interval:
    linear = asked.metric(key).linear
    bounds = (0.0, 1.0) if linear is None else (linear.lowest, linear.highest)
    with muted(UndefinedMetricWarning):  # the result names what is too scarce
        interval = intervals.interval(part.value, part.spread, *bounds, asked.confidence, key)
    few = math.isnan(interval.low) and not math.isnan(interval.value)
    return Interval(interval.low, interval.high, *(_scarce(part, asked.counts(key), counts) if few else ()))


def _scarce(part: Part, unit: str, counts: Mapping[str, int]) -> Scarce:
    scarce = scarce_of([(part.spread, part.counts(counts, unit))], [part.largest], unit)
    return scarce if scarce.needs else at_least(unit, [counts])


def _is_narrow(draws: BootstrapResult, value: float) -> bool:
    """Whether few buckets give a different value, because the scores are close together."""
    return abs(draws.value - value) > _NEAR * abs(value)


def _scarce_of_draws(draws: BootstrapResult, unit: str, counts: Mapping[str, int], values: Probe[Any]) -> Scarce:
    """The data that are too scarce for an interval of replicates, as for intervals by a formula."""
    users = (part.number for part in values.intervals.values() if isinstance(part, Part) and part.number is not None)
    total: Any = counts.get(unit, next(users, math.inf))  # another metric may know the number of users
    have = {name: float(counts.get(name, math.inf)) for name in (unit, "positives", "negatives")}
    because = {}
    if unit != "rows" and draws.drawn is not None:  # their number varies like that of few users if few have most rows
        have[unit] = like = (draws.drawn.mean() ** 2 / max(draws.drawn.var(), 1e-300)).item()
        because = because_of_uneven(like, None if math.isinf(total) else total, unit)
    everything = {**counts, unit: total}
    needs = dict(_need(name, number, everything) for name, number in have.items() if number < LEAST)
    if not needs and not draws.std > 0 and not math.isnan(draws.value):
        return Scarce({unit: counts.get(unit, counts["rows"]) + 1}, {})
    return Scarce(needs, because if have[unit] < LEAST else {})


def _need(name: str, number: float, counts: Mapping[str, float]) -> tuple[str, int]:
    """What is needed of something too scarce: of rows, if its own number is unknown."""
    name = "rows" if math.isinf(counts[name]) else name
    return name, in_full(LEAST, number, counts[name])


# -- of deltas ---------------------------------------------------------------------------------------------


def deltas_of(
    new: Probe[Any], old: Probe[Any], asked: Question, weighing: Weighing, intervals: Sequence[Mapping[str, Interval]]
) -> dict[str, Delta]:
    """The deltas of metrics that are numbers.

    Args:
        new: the values of one side.
        old: the values of the other side.
        asked: the arguments.
        weighing: how intervals are computed.
        intervals: of both sides.
    """
    ones, others = dict(_numbers(new)), dict(_numbers(old))
    counts = [counts_of(side.rows, side.sizes) for side in (new, old)]
    deltas = {}
    for key, value in new.values.items():
        if is_number(value) and is_number(old.values[key]):
            both, delta, interval = (ones.get(key), others.get(key)), value - old.values[key], None
            if isinstance(both[0], Part) and isinstance(both[1], Part):
                unit = asked.counts(key)
                test, scarce = difference_of(both[0], both[1], delta, unit, weighing, counts)
                few = math.isnan(test.low) and not math.isnan(delta)
                scarce = at_least(unit, counts) if few and not scarce.needs else scarce
                interval = Interval(test.low, test.high, *scarce)
            elif all(key in by_metric for by_metric in intervals):
                interval = _between_draws(both, delta, [by_metric[key] for by_metric in intervals], weighing)
            deltas[key] = Delta(delta, interval)
    return deltas


def _between_draws(both: Any, delta: float, intervals: Sequence[Interval], weighing: Weighing) -> Interval:
    """The interval of replicates that draw the same users on both sides."""
    needs: dict[str, int] = {}
    for side in intervals:
        needs.update({name: max(number, needs.get(name, 0)) for name, number in side.needs.items()})
    if needs:
        return Interval(math.nan, math.nan, needs, next((side.because for side in intervals if side.because), {}))
    one, other = both
    differences = bootstrap_result.bare(math.nan, one.replicates - other.replicates, 0, None, weighing.confidence)
    if weighing.tightest is not None:
        difference = weighing.of(delta, differences.std, math.inf)
        return Interval(difference.low, difference.high)
    shift = delta - (one.value - other.value)
    return Interval(differences.low + shift, differences.high + shift)
