"""The slices of a result: what each is worth, whether that is more than chance, and what it costs the whole.

A slice is worse, better or, of a metric that has no better values, different if that is beyond chance: if its q-value
is at most one less the confidence. So of all slices that are called so, in all columns together, no more than that
share is expected to be false.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.cli.evidence import Evidence
from fleetmetrics.formulas.slices import false_discovery_rates

__all__ = ["VERDICTS", "judged"]

#: What is said of a slice, the most important first.
VERDICTS = ("worse", "different", "better", "within chance", "too few")
#: The numbers of a slice, and of the whole, beside those of its rows.
SIZES = ("positives", "users", "queries")


def judged(
    values: Mapping[str, Any],
    keys: Sequence[str],
    by: Sequence[str],
    evidence: Evidence | None,
    better: str,
    confidence: float,
) -> dict[str, Any]:
    """What the result says of slices: ``slices`` by column, ``explained``, and ``verdicts``.

    Args:
        values: of the collection of `fleetmetrics.cli.choices`.
        keys: the metrics that were asked for.
        by: the columns.
        evidence: how the first metric is tested, if it is.
        better: which values of that metric are the better ones; see `Metric`.
        confidence: one less the share of the slices that are called beyond chance, and are not.
    """
    tables = [_table(values, place, keys, evidence, confidence) for place in range(len(by))]
    every = [each for table in tables for each in table]
    rates = false_discovery_rates([each["p"] for each in every])
    for each, rate in zip(every, rates.tolist()):
        each["q"] = rate
        each.update(_verdict(each, better, 1 - confidence))
    found = [(column, sorted(table, key=_weight), _explained(table)) for column, table in zip(by, tables)]
    found.sort(key=lambda each: -each[2] if each[2] == each[2] else math.inf)
    for each in every:
        del each["error"], each["score"]
    worst = [each["q"] for each in every if each["verdict"] in ("worse", "different")]
    counts = {name.replace(" ", "_"): sum(each["verdict"] == name for each in every) for name in VERDICTS}
    return {
        "slices": {column: table for column, table, _ in found},
        "explained": {column: spread for column, _, spread in found},
        "verdicts": {**counts, "least_q": min(worst, default=1.0)},
    }


def _table(
    values: Mapping[str, Any], place: int, keys: Sequence[str], evidence: Evidence | None, confidence: float
) -> list[dict[str, Any]]:
    """The slices of a column, each with its numbers and its test."""
    first = next((key for key in keys if np.ndim(values[key]) == 0), "")
    rows: Mapping[Any, int] = values[f"{place}  rows"]
    kept: Any = values.get(f"{place}  evidence")
    tested = (
        evidence.tested([kept[key] for key in rows], values.get(" evidence"), confidence) if evidence and rows else None
    )
    found = []
    for at, (key, number) in enumerate(rows.items()):
        metrics = {name: values[f"{place} {name}"][key] for name in keys if np.ndim(values[name]) == 0}
        value = metrics.get(first, math.nan)
        share, apart = number / values[" rows"], value - values[first] if first else math.nan
        sizes = {name: values[f"{place}  {name}"][key] for name in SIZES if f"{place}  {name}" in values}
        entry = {"key": key, "rows": number, **sizes, "share": share, "metric": first, "value": value}
        entry.update(low=math.nan, high=math.nan, difference=apart, harm=math.nan, p=math.nan, q=math.nan)
        entry.update(verdict=None, within_chance=None, needs={}, metrics=metrics, error=math.nan, score=math.nan)
        if tested:
            entry.update(low=tested.low[at], high=tested.high[at], p=tested.tests.p_value[at])
            entry.update(error=tested.tests.error[at], score=tested.tests.score[at], needs=tested.needs[at])
        found.append(entry)
    return found


def _verdict(entry: Mapping[str, Any], better: str, share: float) -> dict[str, Any]:
    """What is said of a slice, and the harm that it does: only what is worse than the whole does any."""
    apart, said = entry["difference"], None
    side = apart if math.isnan(entry["score"]) else entry["score"]  # by users, of the slices among each other
    worse = bool(side) and (side < 0) == (better == "higher")
    if not math.isnan(entry["q"]):
        called = ("worse" if worse else "better") if better else "different"
        said = called if entry["q"] <= share else "within chance"
    elif entry["needs"]:
        said = "too few"
    within = None if said in (None, "too few") else said == "within chance"
    unknown = not better or math.isnan(apart) or said in ("within chance", "too few")
    return {
        "harm": math.nan if unknown else entry["share"] * abs(apart) * worse,
        "verdict": said,
        "within_chance": within,
    }


def _weight(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """What is worst comes first; then what differs most for its size, and what has no value last."""
    rank = VERDICTS.index(entry["verdict"] or "within chance")
    effect = entry["share"] * abs(entry["difference"])
    return rank, -entry["harm"] if entry["harm"] > 0 else 0.0, math.isnan(effect), -effect, str(entry["key"])


def _explained(table: Sequence[Mapping[str, Any]]) -> float:
    """How far from the whole a row's slice lies beyond what chance explains: the root of the mean square over rows."""
    tested = [each for each in table if not math.isnan(each["p"])]
    rows = sum(each["rows"] for each in tested)
    if not rows:
        return math.nan
    square = sum(each["rows"] * (each["difference"] ** 2 - each["error"] ** 2) for each in tested) / rows
    return math.sqrt(max(square, 0.0))
