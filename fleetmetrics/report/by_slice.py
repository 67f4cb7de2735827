"""The report's plots by slice: one line for each, with its old and its new value on one axis; and what is significant.

The template draws them of boxes and borders, so that text keeps its size on a phone, and colors are those of the page.
"""

from __future__ import annotations

import math
import statistics
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from fleetmetrics.report.headline import best_of, change_of
from fleetmetrics.support.vocabulary import VERDICTS
from fleetmetrics.words import Words, digits_of

__all__ = ["Line", "Plot", "ends_of", "plots", "significant"]

#: The most slices of a plot, and of a list of those that are significant.
_LINES, _LISTED = 20, 8
#: Values this many times the middle half's spread away from it may leave the axis, if that halves its length.
_FAR = 3
_VERDICTS = {"worse": "worse", "better": "better", "different": "different", "too few": "few"}


class Line(NamedTuple):
    """A slice of a plot; positions are shares of the axis, from 0 to 1.

    Args:
        key: of the slice.
        kind: "worse", "better", "different", "few" or "chance".
        text: its numbers.
        new: the position of the new value; None: it is undefined.
        old: that of the old value, or None.
        low: that of the lower end of an interval, or None.
        high: that of its upper end.
        beyond: "low" or "high" if a value is outside the axis.
    """

    key: Any
    kind: str
    text: str
    new: float | None
    old: float | None = None
    low: float | None = None
    high: float | None = None
    beyond: str = ""


class Plot(NamedTuple):
    """A plot by slice.

    Args:
        title: what it shows.
        lines: the slices.
        ticks: positions and numbers of the axis.
        whole: the position of the value of all rows, or of a perfect prediction; None: outside.
        reference: what is there.
        paired: whether there are old values.
        left_out: how many slices are not shown.
    """

    title: str
    lines: list[Line]
    ticks: list[tuple[float, str]]
    whole: float | None
    reference: str
    paired: bool
    left_out: int


class _Values(NamedTuple):
    """A slice before it has a place on the axis."""

    key: Any
    kind: str
    new: float | None
    old: float | None = None
    low: float | None = None
    high: float | None = None


def plots(result: Mapping[str, Any], words: Words) -> Iterator[Plot]:
    """For each column, a plot of the metric that ranks the slices, and one of each calibration that was asked for.

    Args:
        result: of one task, in its JSON form.
        words: of the language.
    """
    versus = result.get("versus") or {}
    for by, rows in result["slices"].items():
        if not rows:
            continue
        deltas = {_name(row["key"]): row for row in (versus.get(by) or {"slices": ()})["slices"]}
        rows = _in_order(rows, deltas)
        metric = rows[0].get("metric")
        if metric and best_of(result["about"].get(metric, {})) is None:
            whole = result.get("references", {}).get(by, result.get(metric))
            title = words("found.versus" if deltas else "found.value", metric=words.metric(metric), column=by)
            values = [_of_row(row, deltas.get(_name(row["key"]))) for row in rows]
            yield from _plot(title, values, whole, words("found.whole"), words)
        for name, about in result["about"].items():
            best = best_of(about)
            if best is not None and name in (rows[0].get("metrics") or {}):
                title = words("found.versus" if deltas else "found.value", metric=words.metric(name), column=by)
                calibrated = [_calibrated(row, name, deltas.get(_name(row["key"]))) for row in rows]
                yield from _plot(title, calibrated, best, words("found.perfect", best=f"{best:g}"), words)


def _name(key: Any) -> str:
    return repr(key)


def _in_order(rows: Sequence[Mapping[str, Any]], deltas: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The slices, most important first: by their deltas if they have these."""
    return sorted(rows, key=lambda row: _rank(deltas.get(_name(row["key"])) or row))


def _rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """The most important slices first: worse ones, then by what they add to the whole."""
    verdict = VERDICTS.index(row.get("verdict") or "within chance")
    effect = row.get("delta", row.get("difference"))
    return verdict, -abs(effect or 0) * row.get("rows", 0)


def _of_row(row: Mapping[str, Any], delta: Mapping[str, Any] | None) -> _Values:
    """A slice with its old value or, without one, its interval."""
    if delta is not None:
        return _Values(row["key"], _kind(delta), delta.get("value"), delta.get("baseline"))
    return _Values(row["key"], _kind(row), row.get("value"), None, row.get("low"), row.get("high"))


def _calibrated(row: Mapping[str, Any], name: str, delta: Mapping[str, Any] | None) -> _Values:
    new = row["metrics"].get(name)
    change = (delta or {}).get("deltas", {}).get(name)
    few = (delta or row).get("verdict") == "too few"
    old = new - change if new is not None and change is not None else None
    return _Values(row["key"], "few" if few else "chance", new, old)


def _kind(row: Mapping[str, Any]) -> str:
    return _VERDICTS.get(row.get("verdict") or "", "chance")


# -- the axis ----------------------------------------------------------------------------------------------


def _plot(title: str, values: Sequence[_Values], whole: Any, reference: str, words: Words) -> Iterator[Plot]:
    shown = values[:_LINES]
    known = [number for value in shown for number in (value.new, value.old) if number is not None]
    if not known:
        return
    known += [end for value in shown if value.kind != "few" for end in (value.low, value.high) if end is not None]
    whole = whole if isinstance(whole, (int, float)) else None
    least, most = ends_of([*known, *([whole] if whole is not None else [])], whole)
    room = (most - least) * 0.06 or abs(most) * 0.05 or 1.0
    low, high = least - room, most + room
    digits = digits_of([], [(high - low) / 20])
    lines = [_line(value, low, high, digits, words) for value in shown]
    paired = any(value.old is not None for value in shown)
    ticks = [(_share(tick, low, high), words.number(tick, decimals)) for tick, decimals in _ticks(low, high)]
    place = None if whole is None else _share(whole, low, high)
    place = None if place is None or not 0 <= place <= 1 else place
    yield Plot(title, lines, ticks, place, reference, paired, len(values) - len(shown))


def ends_of(numbers: Sequence[float], whole: float | None) -> tuple[float, float]:
    """The ends of an axis: of all numbers, or without those that are far from the others and would squeeze them.

    Args:
        numbers: on the axis.
        whole: a number that is always on it.
    """
    least, most = min(numbers), max(numbers)
    if len(numbers) >= 6:
        first, _, third = statistics.quantiles(numbers, n=4)
        room = _FAR * max(third - first, (most - least) / 100)
        near = [number for number in numbers if first - room <= number <= third + room or number == whole]
        if max(near) - min(near) < (most - least) / 2:
            least, most = min(near), max(near)
    return least, most


def _share(number: float, low: float, high: float) -> float:
    return (number - low) / (high - low)


def _ticks(low: float, high: float) -> Iterator[tuple[float, int]]:
    """At most five round numbers between the ends, and their digits after the point."""
    power = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(step * power for step in (1, 2, 5, 10) if (high - low) / (step * power) <= 5.5)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    place = math.ceil(low / step - 1e-9)
    while place * step <= high:
        yield place * step, decimals
        place += 1


def _line(value: _Values, low: float, high: float, digits: int, words: Words) -> Line:
    places = [None if end is None else _share(end, low, high) for end in value[2:]]
    outside = [place for place in places[:2] if place is not None and not 0 <= place <= 1]
    beyond = ""
    if outside:
        beyond = "low" if outside[0] < 0 else "high"
    new, old, *ends = [None if place is None else min(max(place, 0.0), 1.0) for place in places]
    numbers = [words.number(side, digits) if side is not None else "—" for side in (value.old, value.new)]
    text = " → ".join(numbers) if value.old is not None or old is not None else numbers[1]
    start, end = ends if None not in ends else (None, None)
    return Line(value.key, value.kind, text, new, old, start, end, beyond)


# -- what is significant -----------------------------------------------------------------------------------


def significant(result: Mapping[str, Any], words: Words) -> Iterator[tuple[str, list[tuple[Any, str, str]], int]]:
    """Groups of what is significant: a heading, entries of a name, its kind and a sentence, and how many more.

    Args:
        result: of one task, in its JSON form.
        words: of the language.
    """
    metrics = [entry for entry in _metrics(result, words) if entry]
    if metrics:
        yield words("found.metrics"), metrics, 0
    columns = {by: of_column["slices"] for by, of_column in (result.get("versus") or {}).items()}
    for prefix, slices, text in (("", columns, _delta), ("whole_", result["slices"], _difference)):
        for verdict in ("worse", "different", "better"):
            rows = [(by, row) for by, table in slices.items() for row in table if row.get("verdict") == verdict]
            rows.sort(key=lambda each: _rank(each[1]))
            if rows:
                several = len(slices) > 1
                entries = [
                    (row["key"], verdict, text(row, by if several else "", result, words)) for by, row in rows[:_LISTED]
                ]
                yield words(f"found.{prefix}{verdict}", number=len(rows)), entries, max(0, len(rows) - _LISTED)


def _metrics(result: Mapping[str, Any], words: Words) -> Iterator[tuple[Any, str, str] | None]:
    for name, about in result["about"].items():
        delta, old = result.get(f"{name}_delta") or {}, (result["baseline"] or {}).get(name)
        new, best = result.get(name), best_of(about)
        if not isinstance(new, (int, float)) or not isinstance(old, (int, float)):
            continue
        change = change_of(delta, about.get("better", ""), (new, old), best)
        if change in ("", "chance", "few", "same") or change.startswith("seems"):
            continue
        digits = digits_of([new, old], [delta["value"]])
        said = words(f"changes.{change}", best=f"{best:g}" if best is not None else "")
        numbers = f"{words.number(old, digits)} → {words.number(new, digits)}"
        kind = {"better": "better", "nearer": "better", "worse": "worse", "farther": "worse"}.get(change, "different")
        yield name, kind, words("punctuation.comma").join([numbers, said])


def _delta(row: Mapping[str, Any], by: str, result: Mapping[str, Any], words: Words) -> str:
    """The entry of a slice of both sides, with the interval of its delta."""
    digits = digits_of([], [row["delta"], *_width(row)])
    signed = words.signed(row["delta"], digits)
    span, percent = words.span(row, digits, sign=True), 100 * (result["asked"].get("ci") or 0.95)
    signed += words("headline.interval", percent=percent, span=span) if span else ""
    numbers = f"{words.number(row['baseline'], digits)} → {words.number(row['value'], digits)}"
    numbers += words("punctuation.comma") + signed
    return _joined(row, by, numbers, row["rows"] / (result.get("rows") or row["rows"]), words)


def _difference(row: Mapping[str, Any], by: str, result: Mapping[str, Any], words: Words) -> str:
    """The entry of a slice against all rows."""
    digits = digits_of([], [row["difference"], *_width(row)])
    numbers = [words.number(row["value"], digits), words.signed(row["difference"], digits)]
    return _joined(row, by, words("punctuation.comma").join(numbers), row["share"], words)


def _joined(row: Mapping[str, Any], by: str, numbers: str, share: float, words: Words) -> str:
    """The entry of a slice: its column if there are several, its numbers, and its size."""
    column = "" if str(row["key"]).startswith(by) else by
    parts = [column, f"{words.metric(row['metric'])} {numbers}", words("found.of_rows", percent=100 * share)]
    return words("punctuation.semicolon").join(filter(None, parts))


def _width(row: Mapping[str, Any]) -> list[float]:
    low, high = row.get("low"), row.get("high")
    return [] if low is None or high is None else [high - low]
