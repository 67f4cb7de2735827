"""The first lines of a report: the verdict, and whether the model is better, by how much, and where it lost."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Iterator, Mapping, NamedTuple

from fleetmetrics.report.gate import condition_of, value_of
from fleetmetrics.support.vocabulary import RESULT_KEYS
from fleetmetrics.words import Words, digits_of
from fleetmetrics.words.catalogue import entries

__all__ = ["Headline", "best_of", "change_of", "headline", "worst_slice"]

#: The most reasons for not releasing a model that its verdict names.
_REASONS = 3


class Headline(NamedTuple):
    """What a report says first.

    Args:
        verdict: the first line; empty if the result has no metric that is a number.
        lead: the sentences below.
        tone: "good", "bad", or empty.
    """

    verdict: str
    lead: str = ""
    tone: str = ""


def headline(result: Mapping[str, Any], words: Words) -> Headline:
    """The verdict, and what leads to it.

    Args:
        result: as for `fleetmetrics.report.html`, with ``about``.
        words: of the language.
    """
    numbers, undefined = _metrics(result)
    if not numbers and not undefined:
        return Headline("")
    name = (numbers or undefined)[0]
    first = _against(result, name, words) if result["baseline"] else _alone(result, name, words)
    lost, change = _lost(result, words), _change(result, name) if result["baseline"] else ""
    missing = words.listed(words.metric(metric) for metric in undefined if metric != name)
    more = [words("headline.also_undefined", metrics=missing)] if missing else []
    more += [*_others(result, name, words), *_no_loss(result, words), *_where(result, words)]
    conditions = result.get("conditions") or []
    reasons = list(dict.fromkeys(_reasons(result, words)))
    if reasons:
        left = len(reasons) - _REASONS
        reasons = reasons[:_REASONS] + ([words("headline.more_reasons", number=left)] if left > 0 else [])
        verdict = words("headline.do_not_release", reasons=words("punctuation.semicolon").join(reasons))
        return Headline(verdict, _sentences([first, *more], words), "bad")
    but = words("headline.but", sentence=lost) if lost else ""
    if conditions:
        verdict = words("headline.release", number=len(conditions), but=but)
        return Headline(verdict, _sentences([first, *more], words), "good")
    tone = {"better": "good", "nearer": "good", "worse": "bad", "farther": "bad"}.get(change, "")
    return Headline(first + but, _sentences(more, words), "" if lost and tone == "good" else tone)


def _sentences(texts: list[str], words: Words) -> str:
    stop, blank = words("punctuation.stop"), "" if words.lang == "zh" else " "
    return blank.join(text + stop for text in texts)


def _metrics(result: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The metrics with a single number, defined or not."""
    beside = ("_interval", "_delta")
    names = result["asked"].get("metrics") or [
        name for name in result if name not in RESULT_KEYS and not name.endswith(beside)
    ]
    numbers = [name for name in names if isinstance(result.get(name), (int, float))]
    return numbers, [name for name in names if name in result and result[name] is None]


def best_of(about: Mapping[str, Any]) -> float | None:
    """The value of a perfect prediction, of a metric that has one between lower and higher ones, such as 1."""
    entry = entries().get(about.get("kind", ""))
    with contextlib.suppress(TypeError, ValueError):
        return float(entry.best) if entry else None
    return None


def change_of(delta: Mapping[str, Any], better: str, sides: Any = None, best: float | None = None) -> str:
    """The kind of a difference: "better", "higher", "chance", "few" (too few rows), ...; "seems ...": no interval.

    Args:
        delta: its value and its interval.
        better: which values are better: "higher", "lower", or "" for neither.
        sides: the new and the old value.
        best: the value of a perfect prediction, if neither is better.
    """
    value, low, high = (delta.get(end) for end in ("value", "low", "high"))
    if value is None:
        return ""
    if delta.get("needs"):
        return "few"
    if low is not None and high is not None and low <= 0 <= high:
        return "chance"
    if not value:
        return "same"
    change = "higher" if value > 0 else "lower"
    if better:
        change = "better" if change == better else "worse"
    elif best is not None and sides and None not in sides:
        new, old = (abs(side - best) for side in sides)
        if not math.isclose(new, old):
            change = "nearer" if new < old else "farther"
    return f"seems {change}" if low is None or high is None else change


def _better(result: Mapping[str, Any], name: str) -> str:
    return str(result["about"].get(name, {}).get("better", ""))


def _change(result: Mapping[str, Any], name: str) -> str:
    """The kind of a metric's delta."""
    sides = result.get(name), (result["baseline"] or {}).get(name)
    best = best_of(result["about"].get(name, {}))
    return change_of(result.get(f"{name}_delta") or {}, _better(result, name), sides, best)


def _interval(
    result: Mapping[str, Any], ends: Mapping[str, Any], digits: int, words: Words, *, sign: bool = False
) -> str:
    """An interval in brackets with its confidence, or the kind of data that is too scarce; empty without one."""
    if ends.get("needs") and not ends.get("verdict"):  # slices have verdicts instead
        return words("headline.too_few", needs=words.few(ends))
    span, percent = words.span(ends, digits, sign=sign), 100 * (result["asked"].get("ci") or 0.95)
    return words("headline.interval", percent=percent, span=span) if span else ""


def _signed_delta(result: Mapping[str, Any], name: str, words: Words) -> str:
    """The delta of a metric with its interval."""
    delta = result.get(f"{name}_delta") or {}
    digits = digits_of([], [delta.get("value"), *_width(delta)])
    return words.signed(delta.get("value"), digits) + _interval(result, delta, digits, words, sign=True)


def _against(result: Mapping[str, Any], name: str, words: Words) -> str:
    """The change of the first metric."""
    change = _change(result, name) or "undecided"
    return words(f"against.{change}", metric=words.metric(name), amount=_signed_delta(result, name, words))


def _width(ends: Mapping[str, Any]) -> list[float]:
    low, high = ends.get("low"), ends.get("high")
    return [] if low is None or high is None else [high - low]


def _alone(result: Mapping[str, Any], name: str, words: Words) -> str:
    """The sentence on a model without a baseline."""
    if result[name] is None:
        return words("headline.undefined", metric=words.metric(name), why=_why(result, words))
    ends = result.get(f"{name}_interval") or {}
    digits = digits_of([result[name]], _width(ends))
    value, interval = words.number(result[name], digits), _interval(result, ends, digits, words)
    score = result["asked"].get("columns", {}).get("prediction")
    model = f" {score}" if isinstance(score, str) else ""
    return words("headline.alone", model=model, metric=words.metric(name), value=value, interval=interval)


def _why(result: Mapping[str, Any], words: Words) -> str:
    """Why a metric is undefined, if the numbers of rows and positives show it."""
    data = result.get("data") or {}
    rows, positives = result.get("rows", data.get("rows")), data.get("positives")
    if rows == 0:
        return words("headline.no_rows")
    if positives == 0:
        return words("headline.no_positives")
    return words("headline.only_positives") if positives is not None and positives == rows else ""


def _others(result: Mapping[str, Any], name: str, words: Words) -> Iterator[str]:
    """The other metrics that are worse; one of them may decide."""
    if not result["baseline"]:
        return
    worse = [metric for metric in result["about"] if metric != name and _change(result, metric) in ("worse", "farther")]
    if worse:
        yield words("headline.worse_in", metrics=words.listed(map(words.metric, worse)))


# -- slices ------------------------------------------------------------------------------------------------


def _compared(result: Mapping[str, Any], column: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    """The slices of both sides, of one column or of all, each with its column."""
    versus = result.get("versus") or {}
    return [(by, row) for by, of_column in versus.items() if column in ("", by) for row in of_column["slices"]]


def _lost(result: Mapping[str, Any], words: Words, column: str = "", keys: Any = ()) -> str:
    """The slice with the largest loss against the baseline; empty if no slice has lost.

    Args:
        result: in its JSON form.
        words: of the language.
        column: of the slices; empty: any.
        keys: the slices to choose from; none: any.
    """
    lost = [(by, row) for by, row in _compared(result, column) if row.get("verdict") == "worse"]
    lost = [(by, row) for by, row in lost if str(row["key"]) in keys] or lost
    if not lost:
        return ""
    by, row = max(lost, key=lambda each: each[1]["rows"] * abs(each[1]["delta"]))
    amount = words.number(abs(row["delta"]), max(0, digits_of([], [row["delta"]])))
    rows = result.get("rows") or (result.get("data") or {}).get("rows") or row["rows"]
    text = words(
        "headline.lost" if row["delta"] < 0 else "headline.rose_in",
        slice=words.slice(by, row["key"]),
        amount=amount,
        metric=words.metric(row["metric"]),
        percent=100 * row["rows"] / max(rows, 1),
    )
    return text + (words("headline.more_are_worse", number=len(lost) - 1) if len(lost) > 1 else "")


def _no_loss(result: Mapping[str, Any], words: Words) -> Iterator[str]:
    """The statement that no slice has lost."""
    rows = [row for _, row in _compared(result)]
    tested = sum(row.get("verdict") not in (None, "too few", "different") for row in rows)
    if tested and not any(row.get("verdict") == "worse" for row in rows):
        yield words("headline.no_loss", number=tested)


def worst_slice(result: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The column and slice with the most harm that is significant; None without such a slice.

    For a metric without a better direction, it is the slice that differs most.
    """
    judged = [
        (by, row)
        for by, rows in result["slices"].items()
        for row in rows
        if row.get("verdict") in ("worse", "different")
    ]
    if not judged:
        return None
    return max(judged, key=lambda place: place[1].get("harm") or place[1]["share"] * abs(place[1]["difference"]))


def _where(result: Mapping[str, Any], words: Words) -> Iterator[str]:
    """The slice that does the most harm, or the statement that no slice does."""
    tested = [row for rows in result["slices"].values() for row in rows if row.get("within_chance") is not None]
    worst = worst_slice(result)
    if worst is None:
        if tested:
            yield words("headline.no_worse_slice", number=len(tested))
        return
    by, row = worst
    digits = digits_of([], [row["difference"]])
    against = words.number(row["value"] - row["difference"], digits)
    if by in result.get("references", {}):
        against = words("headline.of_all_slices", value=against)
    texts = {
        "slice": words.slice(by, row["key"]),
        "metric": words.metric(row["metric"]),
        "value": words.number(row["value"], digits),
        "against": against,
        "percent": 100 * row["share"],
    }
    if row["verdict"] == "different":
        yield words("headline.differs_most", **texts)
        return
    number = sum(row.get("verdict") == "worse" for row in tested)
    others = words("headline.others_that_are_worse", number=number) if number > 1 else ""
    yield words("headline.worst_slice", others=others, **texts)


# -- the gate ----------------------------------------------------------------------------------------------


def _reasons(result: Mapping[str, Any], words: Words) -> Iterator[str]:
    """Why a release is blocked, condition by condition."""
    for outcome in result.get("conditions") or ():
        if outcome["fails"]:
            yield _reason(outcome, result, words)


def _reason(outcome: Mapping[str, Any], result: Mapping[str, Any], words: Words) -> str:
    condition = condition_of(outcome["condition"], result, words)
    if outcome.get("value") is None:
        needs = (result.get(f"{condition.metric}_{'delta' if condition.of_delta else 'interval'}") or {}).get("needs")
        if needs and not condition.column:
            return words("headline.unknown_few", name=condition.name, needs=words.needed(needs))
        return words("headline.unknown", name=condition.name)
    if condition.of_delta and condition.column:
        lost = _lost(result, words, condition.column, outcome.get("slices") or ())
        if lost:
            return lost
    elif condition.of_delta and result.get(f"{condition.metric}_delta"):
        return _worsening(condition.metric, result, words)
    if condition.column and outcome.get("slices"):  # of any slices: name the first
        column, key = condition.column, outcome["slices"][0]
        of_one = outcome["condition"].replace(f"any slices.{column}.", f"slices.{column}[{key}].", 1)
        condition = condition_of(of_one, result, words)
    return words("headline.unmet", sentence=condition.sentence, value=value_of(outcome["value"], words))


def _worsening(name: str, result: Mapping[str, Any], words: Words) -> str:
    """That a metric got worse, or may have."""
    delta, change = result[f"{name}_delta"], _change(result, name)
    if change not in ("worse", "farther", "seems worse", "seems farther") or not delta.get("value"):
        return words("headline.may_be_worse", metric=words.metric(name), amount=_signed_delta(result, name, words))
    digits = digits_of([], [delta["value"], *_width(delta)])
    return words(
        "headline.fell" if delta["value"] < 0 else "headline.rose",
        metric=words.metric(name),
        amount=words.number(abs(delta["value"]), digits),
        interval=_interval(result, delta, digits, words, sign=True),
    )
