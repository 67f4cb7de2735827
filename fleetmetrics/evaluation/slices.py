"""The slices of a result: the value of each, its verdict, and its cost for the whole.

A slice is worse, better or, for a metric without better values, different if its difference is beyond chance, that is,
if its q-value is at most one minus the confidence. So at most this share of all such verdicts, over all columns, is
expected to be false.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.evaluation.probe import Probe, Slices
from fleetmetrics.evaluation.question import Question
from fleetmetrics.evaluation.scarce import counts_of
from fleetmetrics.formulas.slices import false_discovery_rates
from fleetmetrics.support.checks import is_number
from fleetmetrics.support.vocabulary import VERDICTS

__all__ = ["Judged", "SliceResult", "judged"]


@dataclass(frozen=True)
class SliceResult:
    """A slice; unknown numbers are nan.

    Attributes:
        key: the value of the column.
        rows: the number of its rows.
        sizes: the numbers of positives, users or queries, if known.
        share: its share of all rows.
        metric: the metric that ranks the slices; empty if no metric is a single number.
        value: its value of that metric.
        low: lower end of an interval for it.
        high: its upper end.
        difference: the value minus that of all rows; see `Judged.references`.
        harm: the share times the distance, if the slice is worse.
        p: the p-value of the hypothesis that the slice is a random sample of all rows.
        q: the share of false verdicts among all slices with at most this q-value.
        verdict: "worse", "different", "better", "within chance" or "too few"; None: there is no test.
        needs: the numbers of positives, rows or users needed, if there are too few.
        because: the reason, if a user has much of the data; see `Scarce`.
        metrics: the values of all metrics that are single numbers.
    """

    key: Any
    rows: int
    sizes: Mapping[str, int]
    share: float
    metric: str
    value: float
    low: float = math.nan
    high: float = math.nan
    difference: float = math.nan
    harm: float = math.nan
    p: float = math.nan
    q: float = math.nan
    verdict: str | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    because: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def within_chance(self) -> bool | None:
        """Whether the difference may be chance; None: unknown."""
        return None if self.verdict in (None, "too few") else self.verdict == "within chance"

    def plain(self) -> dict[str, Any]:
        """As the result's JSON has it."""
        found = {**vars(self), "within_chance": self.within_chance}
        return {"key": self.key, "rows": self.rows, **found.pop("sizes"), **found}


@dataclass(frozen=True)
class Judged:
    """The slices of a result.

    Attributes:
        slices: by column, first the one that explains most; worst slices first.
        explained: by column, an estimate of the distance of slices from all rows, less what chance adds: the root of
            the mean square over rows. It is no test: of slices at random, half have more than 0.
        verdicts: the number of slices with each verdict.
        least_q: the smallest q-value of worse or different slices; 1 without any.
        others: by column, the number of slices in "(other)"; None: unknown.
        references: by column, the value of all slices together, if it differs from that of all rows because users or
            queries have rows in several slices. Differences, harm and explained variation then refer to this value.
    """

    slices: dict[str, list[SliceResult]] = field(default_factory=dict)
    explained: dict[str, float] = field(default_factory=dict)
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))
    least_q: float = 1.0
    others: dict[str, int | None] = field(default_factory=dict)
    references: dict[str, float] = field(default_factory=dict)


#: A relative difference between the value of all slices together and that of all rows that rounding explains.
_ROUNDED = 1e-9


class _Tested(NamedTuple):
    """A slice with the standard error of its distance."""

    slice: SliceResult
    error: float


class _Column(NamedTuple):
    """The slices of a column, and the value that they are compared with if that is not the value of all rows."""

    slices: list[_Tested]
    reference: float | None


def judged(values: Probe[Any], asked: Question) -> Judged:
    """Judge the slices of a result.

    Args:
        values: the values of one side.
        asked: the arguments; ``ci`` is one minus the share of false verdicts.
    """
    by, better, confidence = asked.by, asked.first.better, asked.ci or 0.95
    columns = [_column(values, inside, asked, confidence) for inside in values.slices]
    tables = [[_if_enough(each, asked.min_positives) for each in column.slices] for column in columns]
    every = [each for table in tables for each in table]
    rates = iter(false_discovery_rates([each.slice.p for each in every]).tolist())
    found = []
    for column, table in zip(by, tables):
        slices = [_called(each.slice, next(rates), better, 1 - confidence) for each in table]
        found.append((column, sorted(slices, key=_weight), _explained(table)))
    found.sort(key=lambda each: -each[2] if each[2] == each[2] else math.inf)
    called = [each for _, slices, _ in found for each in slices]
    return Judged(
        {column: slices for column, slices, _ in found},
        {column: spread for column, _, spread in found},
        {verdict: sum(each.verdict == verdict for each in called) for verdict in VERDICTS},
        min((each.q for each in called if each.verdict in ("worse", "different")), default=1.0),
        references={column: each.reference for column, each in zip(by, columns) if each.reference is not None},
    )


def _column(values: Probe[Any], inside: Slices[Any], asked: Question, confidence: float) -> _Column:
    """The slices of a column, each with its numbers and its test."""
    numbers = [name for name, value in values.values.items() if is_number(value)]
    first = asked.ranking if asked.ranking in numbers else numbers[0] if numbers else ""
    evidence, tested = asked.evidence, None
    if evidence and inside.evidence and inside.rows:
        with np.errstate(all="ignore"):  # what is beyond float64 has no test
            parts = [inside.evidence[key] for key in inside.rows]
            tested = evidence.tested(parts, values.evidence, confidence)
    whole = values.values[first] if first else math.nan
    reference = None if tested is None else tested.together
    if reference is not None and not abs(reference - whole) > _ROUNDED * abs(whole):
        reference = None
    found = []
    for at, (key, number) in enumerate(inside.rows.items()):
        metrics = {name: inside.values[name][key] for name in numbers}
        value = metrics.get(first, math.nan)
        sizes = {name: of_slices[key] for name, of_slices in inside.sizes.items()}
        each = SliceResult(
            key,
            number,
            sizes,
            number / values.rows,
            first,
            value,
            difference=value - (whole if reference is None else reference),
            metrics=metrics,
            **({} if tested is None else tested.of(at, counts_of(number, sizes))),
        )
        if math.isnan(value):  # the interval would be that of a limit, such as 1 / 0
            each = replace(each, low=math.nan, high=math.nan)
        found.append(_Tested(each, math.nan if tested is None else tested.tests.error[at]))
    return _Column(found, reference)


def _if_enough(tested: _Tested, positives: int) -> _Tested:
    """A slice with its test; without one if it has fewer positives than ``min_positives``."""
    each = tested.slice
    if each.sizes.get("positives", positives) >= positives:
        return tested
    needs = {**each.needs, "positives": max(positives, each.needs.get("positives", 0))}
    return tested._replace(slice=replace(each, p=math.nan, needs=needs))


def _called(each: SliceResult, rate: float, better: str, share: float) -> SliceResult:
    """A slice with its verdict, and with its harm if it is worse than the whole."""
    said, worse = None, bool(each.difference) and (each.difference < 0) == (better == "higher")
    if not math.isnan(rate):
        called = ("worse" if worse else "better") if better else "different"
        said = called if rate <= share else "within chance"
    elif each.needs:
        said = "too few"
    unknown = not better or math.isnan(each.difference) or said in ("within chance", "too few")
    harm = math.nan if unknown else each.share * abs(each.difference) * worse
    return replace(each, q=rate, verdict=said, harm=harm)


def _weight(each: SliceResult) -> tuple[Any, ...]:
    """The worst slices come first, then those that differ most for their size; slices without a value come last."""
    rank = VERDICTS.index(each.verdict or "within chance")
    effect = each.share * abs(each.difference)
    return rank, -each.harm if each.harm > 0 else 0.0, math.isnan(effect), -effect, str(each.key)


def _explained(table: Sequence[_Tested]) -> float:
    """The distance of a row's slice from the whole, less what chance adds: the root of the mean square over rows."""
    tested = [each for each in table if not math.isnan(each.slice.p)]
    rows = sum(each.slice.rows for each in tested)
    if not rows:
        return math.nan
    square = sum(each.slice.rows * (each.slice.difference**2 - each.error**2) for each in tested) / rows
    return math.sqrt(max(square, 0.0))
