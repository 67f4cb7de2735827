"""The slices of a result as tables, one for each column: against all rows and, with a baseline, against the old side.

A slice is worse, better or, for a metric without better values, different if its difference is beyond chance, that is,
if its q-value is at most one minus the confidence. So at most this share of all such verdicts, over all columns of a
table, is expected to be false.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.base.metric import Metric
from fleetmetrics.evaluation.question.evidence import Tested
from fleetmetrics.evaluation.question.probe import Probe, Slices
from fleetmetrics.evaluation.question.question import Question
from fleetmetrics.evaluation.question.scarce import at_least, counts_of
from fleetmetrics.evaluation.question.versus import Weighing, difference_of
from fleetmetrics.formulas import contributions
from fleetmetrics.formulas.contributions import Contributions
from fleetmetrics.formulas.slices import false_discovery_rates
from fleetmetrics.support.checks import is_number
from fleetmetrics.support.vocabulary import VERDICTS, Verdict

__all__ = ["ColumnDelta", "Judged", "Slice", "SliceDelta", "SliceResult", "Whole", "compared", "deltas", "judged"]

#: A relative difference that rounding explains: of the value of all slices together from that of all rows, and of sums
#: of contributions from the delta.
_ROUNDED = 1e-9


# -- the rows of the tables --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slice:
    """A row of a table of slices; unknown numbers are nan.

    Attributes:
        key: the value of the column.
        rows: the number of its rows, in a comparison those of the new side.
        metric: the metric that ranks the slices; empty if no metric is a single number.
        value: its value of that metric.
        low: lower end of an interval for the value, in a comparison for the delta.
        high: its upper end.
        p: the p-value of the hypothesis of no difference.
        q: the share of false verdicts among all slices with at most this q-value.
        verdict: "worse", "different", "better", "within chance" or "too few"; None: there is no test.
        needs: the numbers of positives, rows or users needed, if there are too few.
        because: the reason, if a user has much of the data; see `Scarce`.
    """

    key: Any
    rows: int
    metric: str = ""
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    q: float = math.nan
    verdict: Verdict | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    because: Mapping[str, Any] = field(default_factory=dict)

    #: The names of what JSON has of it, in this order.
    _entries: ClassVar[tuple[str, ...]] = ()

    def plain(self) -> dict[str, Any]:
        """As the result's JSON has it."""
        return {name: getattr(self, name) for name in self._entries}


@dataclass(frozen=True)
class SliceResult(Slice):
    """A slice against all rows: the hypothesis of its test is that it is a random sample of these; see `Slice`.

    Attributes:
        sizes: the numbers of positives, users or queries, if known.
        share: its share of all rows.
        difference: the value minus that of all rows; see `Judged.references`.
        harm: the share times the distance, if the slice is worse.
        metrics: the values of all metrics that are single numbers.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    share: float = math.nan
    difference: float = math.nan
    harm: float = math.nan
    metrics: Mapping[str, Any] = field(default_factory=dict)

    _entries = (
        *("share", "metric", "value", "low", "high", "difference", "harm", "p", "q", "verdict", "needs", "because"),
        *("metrics", "within_chance"),
    )

    @property
    def within_chance(self) -> bool | None:
        """Whether the difference may be chance; None: unknown."""
        return None if self.verdict in (None, "too few") else self.verdict == "within chance"

    def plain(self) -> dict[str, Any]:
        """As the result's JSON has it."""
        return {"key": self.key, "rows": self.rows, **self.sizes, **super().plain()}


@dataclass(frozen=True)
class SliceDelta(Slice):
    """A slice of both sides: its verdict is that of new against old; see `Slice`.

    Attributes:
        baseline_rows: the number of rows of the old side.
        baseline: the value of the metric on the old side.
        delta: new minus old.
        mix: the slice's contribution to the whole's delta from the change of its share.
        within: its contribution from the change of its own value.
        deltas: new minus old for all metrics that are single numbers.
    """

    baseline_rows: int = 0
    baseline: float = math.nan
    delta: float = math.nan
    mix: float = math.nan
    within: float = math.nan
    deltas: Mapping[str, float] = field(default_factory=dict)

    _entries = (
        *("key", "rows", "baseline_rows", "metric", "value", "baseline", "delta", "low", "high", "p", "q", "verdict"),
        *("needs", "because", "mix", "within", "deltas", "added"),
    )

    @property
    def added(self) -> float:
        """The slice's contribution to the whole's delta."""
        return self.mix + self.within

    def columns(self) -> dict[str, Any]:
        """The columns of a data frame beside those of the new side, by the names that conditions use."""
        ends = {f"{self.metric}_delta.{name}": getattr(self, name) for name in ("low", "high", "p", "q", "verdict")}
        sources = {name: getattr(self, name) for name in ("baseline_rows", "mix", "within", "added")}
        return {**{f"{metric}_delta": delta for metric, delta in self.deltas.items()}, **ends, **sources}


class _Judgment(NamedTuple):
    """What is judged of a slice."""

    q: float
    verdict: str | None


def _judgments(
    tables: Sequence[Sequence[Slice]], differences: str, better: str, confidence: float
) -> list[list[_Judgment]]:
    """The q-values and verdicts of the rows of tables: false ones are counted over all tables together.

    Args:
        tables: the slices of each column.
        differences: the name of the number whose verdict it is.
        better: which values of the metric are better.
        confidence: one minus the share of false verdicts.
    """
    rates = iter(false_discovery_rates([row.p for table in tables for row in table]).tolist())
    return [
        [
            _Judgment(rate, _verdict(row, getattr(row, differences), rate, better, 1 - confidence))
            for row, rate in zip(table, rates)
        ]
        for table in tables
    ]


def _verdict(row: Slice, difference: float, rate: float, better: str, share: float) -> Verdict | None:
    if math.isnan(rate):
        return "too few" if row.needs else None
    if rate > share:
        return "within chance"
    if not better:
        return "different"
    return "worse" if difference and (difference < 0) == (better == "higher") else "better"


# -- against all rows --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """The slices of a result.

    Attributes:
        slices: by column, first the one that explains most; worst slices first.
        explained: by column, an estimate of the distance of slices from all rows, less what chance adds: the root of
            the mean square over rows. It is no test: of slices at random, half have more than 0.
        others: by column, the number of slices in "(other)"; None: unknown.
        references: by column, the value of all slices together, if it differs from that of all rows because users or
            queries have rows in several slices. Differences, harm and explained variation then refer to this value.
    """

    slices: dict[str, list[SliceResult]] = field(default_factory=dict)
    explained: dict[str, float] = field(default_factory=dict)
    others: dict[str, int | None] = field(default_factory=dict)
    references: dict[str, float] = field(default_factory=dict)

    @property
    def verdicts(self) -> dict[str, int]:
        """The number of slices with each verdict."""
        counts = Counter(row.verdict for table in self.slices.values() for row in table)
        return {verdict: counts[verdict] for verdict in VERDICTS}

    @property
    def least_q(self) -> float:
        """The smallest q-value of worse or different slices; 1 without any."""
        rows = (row for table in self.slices.values() for row in table)
        return min((row.q for row in rows if row.verdict in ("worse", "different")), default=1.0)

    def plain(self) -> dict[str, Any]:
        """As the result's JSON has it."""
        counts = {verdict.replace(" ", "_"): number for verdict, number in self.verdicts.items()}
        return {
            "slices": {by: [row.plain() for row in table] for by, table in self.slices.items()},
            "explained": self.explained,
            "others": self.others,
            "references": self.references,
            "verdicts": {**counts, "least_q": self.least_q},
        }


class _Column(NamedTuple):
    """The slices of a column, and the standard error of the difference of each.

    ``reference`` is the value that they are compared with if that is not the value of all rows.
    """

    slices: list[SliceResult]
    errors: list[float]
    reference: float | None


def judged(values: Probe[Any], asked: Question) -> Judged:
    """Judge the slices of a result.

    Args:
        values: the values of one side.
        asked: the arguments; ``ci`` is one minus the share of false verdicts.
    """
    better = asked.first.better
    columns = {by: _column(values, inside, asked) for by, inside in zip(asked.by, values.slices)}
    tables = [column.slices for column in columns.values()]
    slices = {
        by: [replace(row, harm=_harm(row, verdict, better), q=q, verdict=verdict) for row, (q, verdict) in zip(*table)]
        for by, *table in zip(columns, tables, _judgments(tables, "difference", better, asked.confidence))
    }
    explained = {by: _explained(table, columns[by].errors) for by, table in slices.items()}
    order = sorted(columns, key=lambda by: math.inf if math.isnan(explained[by]) else -explained[by])
    return Judged(
        {by: sorted(slices[by], key=_weight) for by in order},
        {by: explained[by] for by in order},
        references={by: column.reference for by, column in columns.items() if column.reference is not None},
    )


def _column(values: Probe[Any], inside: Slices[Any], asked: Question) -> _Column:
    """The slices of a column, each with its numbers and its test."""
    numbers = [name for name, value in values.values.items() if is_number(value)]
    first = asked.ranking if asked.ranking in numbers else next(iter(numbers), "")
    tested = _tests_of(values, inside, asked)
    whole = values.values[first] if first else math.nan
    reference = _reference(tested, whole)
    compared_with = whole if reference is None else reference
    slices = []
    for place, (key, number) in enumerate(inside.rows.items()):
        metrics = {name: inside.values[name][key] for name in numbers}
        sizes = {name: of_slices[key] for name, of_slices in inside.sizes.items()}
        value = metrics.get(first, math.nan)
        share, difference = number / values.rows, value - compared_with
        test = _test(tested, place, value, counts_of(number, sizes))
        row = SliceResult(
            key, number, first, value, sizes=sizes, share=share, difference=difference, metrics=metrics, **test
        )
        slices.append(_with_enough_positives(row, asked.min_positives))
    errors = [math.nan] * len(slices) if tested is None else list(tested.tests.error)
    return _Column(slices, errors, reference)


def _reference(tested: Tested | None, whole: float) -> float | None:
    """The value of all slices together, if it is not that of all rows."""
    together = None if tested is None else tested.together
    return together if together is not None and abs(together - whole) > _ROUNDED * abs(whole) else None


def _test(tested: Tested | None, place: int, value: float, counts: Mapping[str, int]) -> dict[str, Any]:
    """The numbers of the test of a slice; of an undefined value, the interval would be that of a limit, as 1 / 0."""
    test = {} if tested is None else tested.of(place, counts)
    return {**test, "low": math.nan, "high": math.nan} if math.isnan(value) else test


def _tests_of(values: Probe[Any], inside: Slices[Any], asked: Question) -> Tested | None:
    """The tests of the slices of a column, if the metric has one."""
    if not (asked.evidence and inside.evidence and inside.rows):
        return None
    with np.errstate(all="ignore"):  # what is beyond float64 has no test
        parts = [inside.evidence[key] for key in inside.rows]
        return asked.evidence.tested(parts, values.evidence, asked.confidence)


def _with_enough_positives(row: SliceResult, positives: int) -> SliceResult:
    """The slice, without its test if it has fewer positives than ``min_positives``."""
    if row.sizes.get("positives", positives) >= positives:
        return row
    needs = {**row.needs, "positives": max(positives, row.needs.get("positives", 0))}
    return replace(row, p=math.nan, needs=needs)


def _harm(row: SliceResult, verdict: str | None, better: str) -> float:
    """The share of a slice times its distance, if it is worse; nan without a verdict."""
    if not better or math.isnan(row.difference) or verdict in ("within chance", "too few"):
        return math.nan
    is_worse = bool(row.difference) and (row.difference < 0) == (better == "higher")
    return row.share * abs(row.difference) * is_worse


def _weight(row: SliceResult) -> tuple[Any, ...]:
    """The worst slices come first, then those that differ most for their size; slices without a value come last."""
    rank = VERDICTS.index(row.verdict or "within chance")
    effect = row.share * abs(row.difference)
    return rank, -row.harm if row.harm > 0 else 0.0, math.isnan(effect), -effect, str(row.key)


def _explained(table: Sequence[SliceResult], errors: Sequence[float]) -> float:
    """The distance of a row's slice from the whole, less what chance adds: the root of the mean square over rows."""
    tested = [(row, error) for row, error in zip(table, errors) if not math.isnan(row.p)]
    rows = sum(row.rows for row, _ in tested)
    if not rows:
        return math.nan
    square = sum(row.rows * (row.difference**2 - error**2) for row, error in tested) / rows
    return math.sqrt(max(square, 0.0))


# -- against a baseline ------------------------------------------------------------------------------------


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
        return {**vars(self), "slices": [row.plain() for row in self.slices]}


class Whole(NamedTuple):
    """The metric that ranks slices, without samples, and its values over all rows."""

    metric: Metric
    name: str
    new: float
    old: float
    unit: str  #: what is independent: "rows", "users", "queries"


def compared(new: Probe[Any], old: Probe[Any], asked: Question, weighing: Weighing) -> dict[str, ColumnDelta]:
    """The slices of both sides, by column.

    Args:
        new: the values of the new side.
        old: the values of the old side.
        asked: the arguments.
        weighing: the way to intervals.
    """
    numbers = {name for name, value in new.values.items() if is_number(value) and is_number(old.values[name])}
    name = asked.ranking
    if name not in numbers:
        return {}
    columns = {}
    for by, *sides in zip(asked.by, new.slices, old.slices):
        one, other = (
            replace(side, values={metric: values for metric, values in side.values.items() if metric in numbers})
            for side in sides
        )
        columns[by] = one, other
    return deltas(columns, Whole(asked.first, name, new.values[name], old.values[name], asked.counts(name)), weighing)


def deltas(
    columns: Mapping[str, tuple[Slices[Any], Slices[Any]]], whole: Whole, weighing: Weighing
) -> dict[str, ColumnDelta]:
    """The deltas of the slices of each column, and the sources of the whole's delta.

    Args:
        columns: new and old by column; values are those of metrics that are single numbers.
        whole: the metric.
        weighing: the way to intervals.
    """
    tables = [_deltas_of(*sides, whole, weighing) for sides in columns.values()]
    judgments = _judgments(tables, "delta", whole.metric.better, weighing.confidence)
    tables = [[replace(row, **judgment._asdict()) for row, judgment in zip(*table)] for table in zip(tables, judgments)]
    return {by: _sources(table, whole) for by, table in zip(columns, tables)}


def _sources(table: list[SliceDelta], whole: Whole) -> ColumnDelta:
    """The slices of a column in the order of their contributions, and how these add up to the whole's delta."""
    delta, better = whole.new - whole.old, whole.metric.better
    mix, within = (math.fsum(getattr(row, name) for row in table) for name in ("mix", "within"))
    added = [row.added for row in table if not math.isnan(row.added)]  # of all slices, or of none
    if not added:
        return ColumnDelta(whole.name, delta, mix, within, math.nan, "", table)
    remainder = delta - math.fsum(added)
    if abs(remainder) <= _ROUNDED * sum(map(abs, [*added, whole.new])):
        remainder = 0.0
    sign = -1 if better == "lower" else 1
    table = sorted(table, key=lambda row: (sign * row.added, str(row.key)))
    if not better:
        table.sort(key=lambda row: -abs(row.added))
    made_of = "ranks" if whole.metric.ranked else "sums"
    return ColumnDelta(whole.name, delta, mix, within, remainder, made_of, table)


def _deltas_of(new: Slices[Any], old: Slices[Any], whole: Whole, weighing: Weighing) -> list[SliceDelta]:
    """The slices of a column, each with its deltas and its test."""
    keys = [*new.rows, *(key for key in old.rows if key not in new.rows)]
    mix = within = np.full(len(keys), math.nan)
    if new.compared and old.compared:
        with np.errstate(all="ignore"):
            mix, within = _contributions(keys, new, old, whole.metric)
    rows = [_delta_of(key, (new, old), whole, weighing) for key in keys]
    return [replace(row, mix=float(mix[place]), within=float(within[place])) for place, row in enumerate(rows)]


def _delta_of(key: Any, sides: Sequence[Slices[Any]], whole: Whole, weighing: Weighing) -> SliceDelta:
    """A slice with its deltas and its test."""
    rows, baseline_rows = (side.rows.get(key, 0) for side in sides)
    own, old = ({name: values[key] for name, values in side.values.items() if key in values} for side in sides)
    value, baseline = (metrics.get(whole.name, math.nan) for metrics in (own, old))
    deltas = {name: number - old.get(name, math.nan) for name, number in own.items()}
    row = SliceDelta(
        key,
        rows,
        whole.name,
        value,
        baseline_rows=baseline_rows,
        baseline=baseline,
        delta=value - baseline,
        deltas=deltas,
    )
    one, other = ((side.compared or {}).get(key) for side in sides)
    if one is None or other is None:
        return row
    counts = [
        counts_of(side.rows.get(key, 0), {name: sizes.get(key, 0) for name, sizes in side.sizes.items()})
        for side in sides
    ]
    test, scarce = difference_of(one, other, row.delta, whole.unit, weighing, counts)
    if math.isnan(test.low):
        scarce = scarce if scarce.needs else at_least(whole.unit, counts)
        return replace(row, needs=scarce.needs, because=scarce.because)
    return replace(row, low=test.low, high=test.high, p=test.p_value)


def _contributions(keys: Sequence[Any], new: Slices[Any], old: Slices[Any], metric: Metric) -> Contributions:
    """What each slice adds to the whole's delta."""
    parts, baseline_parts = new.compared or {}, old.compared or {}
    nothing = np.zeros_like(next(iter(parts.values())).sums)
    one, other = (
        np.stack([of_side[key].sums if key in of_side else nothing for key in keys])
        for of_side in (parts, baseline_parts)
    )
    if metric.ranked:
        if getattr(metric, "curve", "") != "ROC":  # the precision of one slice depends on the others
            return Contributions(*[np.full(len(keys), math.nan)] * 2)
        return contributions.of_areas(one, other)
    if metric.quotient is not None:
        pairs = (one[:, 0], one[:, 1]), (other[:, 0], other[:, 1])
        return contributions.of_quotients(*pairs, value=metric.quotient.value, slope=metric.quotient.slope)
    assert metric.linear is not None
    rows, old_rows = ([side.rows.get(key, 0) for key in keys] for side in (new, old))
    return contributions.of_sums(one, other, rows, old_rows, metric.linear.slopes)
