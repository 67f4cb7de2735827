"""The first line of a report: whether the model is better, by how much, where it lost, and whether to release it."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from fleetmetrics.support.vocabulary import RESULT_KEYS
from fleetmetrics.words import Words, digits_of

__all__ = ["change_of", "headline", "worst_slice"]


def headline(result: Mapping[str, Any], words: Words) -> str:
    """The sentence; empty if the result has no metric that is a number.

    Args:
        result: as for `fleetmetrics.report.html`, with ``about``.
        words: of the language.
    """
    numbers, undefined = _metrics(result)
    if not numbers and not undefined:
        return ""
    name = (numbers or undefined)[0]
    parts = [_against(result, name, words) if result["baseline"] else _alone(result, name, words)]
    missing = words.listed(metric for metric in undefined if metric != name)
    parts += [words("headline.also_undefined", metrics=missing)] if missing else []
    parts += [*_others(result, name, words), *_lost(result, words), *_where(result, words), *_may_go(result, words)]
    return words("punctuation.semicolon").join(parts) + words("punctuation.stop")


def _metrics(result: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The metrics with a single number, defined or not."""
    beside = ("_interval", "_delta")
    names = result["asked"].get("metrics") or [
        name for name in result if name not in RESULT_KEYS and not name.endswith(beside)
    ]
    numbers = [name for name in names if isinstance(result.get(name), (int, float))]
    return numbers, [name for name in names if name in result and result[name] is None]


def change_of(delta: Mapping[str, Any], better: str) -> str:
    """The kind of a difference: "better", "higher", "chance", "few" (too few rows), ...; "seems ...": no interval."""
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
    return f"seems {change}" if low is None or high is None else change


def _better(result: Mapping[str, Any], name: str) -> str:
    return str(result["about"].get(name, {}).get("better", ""))


def _interval(
    result: Mapping[str, Any], ends: Mapping[str, Any], digits: int, words: Words, *, sign: bool = False
) -> str:
    """An interval in brackets with its confidence, or the kind of data that is too scarce; empty without one."""
    if ends.get("needs") and not ends.get("verdict"):  # slices have verdicts instead
        return words("headline.too_few", needs=words.few(ends))
    span, percent = words.span(ends, digits, sign=sign), 100 * (result["asked"].get("ci") or 0.95)
    return words("headline.interval", percent=percent, span=span) if span else ""


def _against(result: Mapping[str, Any], name: str, words: Words) -> str:
    """The change of the first metric."""
    delta = result.get(f"{name}_delta") or {}
    change = change_of(delta, _better(result, name)) or "undecided"
    digits = digits_of([], [delta.get("value"), *_width(delta)])
    value = words.signed(delta.get("value"), digits)
    amount = f"{name} {value}{_interval(result, delta, digits, words, sign=True)}"
    return words(f"against.{change}", metric=name, amount=amount)


def _width(ends: Mapping[str, Any]) -> list[float]:
    low, high = ends.get("low"), ends.get("high")
    return [] if low is None or high is None else [high - low]


def _alone(result: Mapping[str, Any], name: str, words: Words) -> str:
    """The sentence on a model without a baseline."""
    if result[name] is None:
        return words("headline.undefined", metric=name, why=_why(result, words))
    ends = result.get(f"{name}_interval") or {}
    digits = digits_of([result[name]], _width(ends))
    value, interval = words.number(result[name], digits), _interval(result, ends, digits, words)
    score = result["asked"].get("columns", {}).get("prediction")
    model = f" {score}" if isinstance(score, str) else ""
    return words("headline.alone", model=model, metric=name, value=value, interval=interval)


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
    worse = [
        metric
        for metric in result["about"]
        if metric != name and change_of(result.get(f"{metric}_delta") or {}, _better(result, metric)) == "worse"
    ]
    if worse:
        yield words("headline.worse_in", metrics=words.listed(worse))


def _lost(result: Mapping[str, Any], words: Words) -> Iterator[str]:
    """The slice with the largest loss against the baseline, or the statement that no slice has lost."""
    rows = [(by, row) for by, column in (result.get("versus") or {}).items() for row in column["slices"]]
    lost = [(by, row) for by, row in rows if row.get("verdict") == "worse"]
    if lost:
        by, row = max(lost, key=lambda place: place[1]["rows"] * abs(place[1]["delta"]))
        key, digits = words.key(row["key"]), digits_of([], [row["delta"], *_width(row)])
        value = words.signed(row["delta"], digits)
        interval = _interval(result, row, digits, words, sign=True)
        metric = row["metric"]
        yield words("headline.loses_most", column=by, key=key, metric=metric, value=value, interval=interval)
    tested = sum(row.get("verdict") not in (None, "too few", "different") for _, row in rows)
    if tested and not lost:
        yield words("headline.no_loss", number=tested)


def worst_slice(result: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """The column and slice with the most harm beyond chance; None without such a slice.

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
    digits = digits_of([row["value"]])
    against = "headline.against_all_slices" if by in result.get("references", {}) else "headline.against"
    texts = {
        "column": by,
        "key": words.key(row["key"]),
        "metric": row["metric"],
        "value": words.number(row["value"], digits),
        "against": words(against, value=words.number(row["value"] - row["difference"], digits)),
        "percent": 100 * row["share"],
    }
    if row["verdict"] == "different":
        yield words("headline.differs_most", **texts)
        return
    number = sum(row.get("verdict") == "worse" for row in tested)
    others = words("headline.others_that_are_worse", number=number) if number > 1 else ""
    yield words("headline.worst_slice", others=others, **texts)


def _may_go(result: Mapping[str, Any], words: Words) -> Iterator[str]:
    """The outcome of the conditions."""
    conditions = result.get("conditions") or []
    held = [condition["condition"] for condition in conditions if condition["fails"]]
    if held:
        yield words("headline.do_not_release", conditions=words.listed(held))
    elif conditions:
        yield words("headline.ready", number=len(conditions))
