"""The conditions of a release as sentences, and why it is blocked."""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

from fleetmetrics.words import Words, digits_of

__all__ = ["Condition", "condition_of"]

#: The keys of the sentences by sign, and how conditions are written.
_SIGNS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_CONDITION = re.compile(r"\s*(.+?)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*")
#: Of conditions on the sign of a delta, by the better direction, the end of its interval, and the sign.
_FORMS = {
    ("higher", "", "<"): "not_worse",
    ("higher", ".low", "<"): "surely_not_worse",
    ("higher", ".high", "<"): "not_significantly_worse",
    ("lower", "", ">"): "not_worse",
    ("lower", ".high", ">"): "surely_not_worse",
    ("lower", ".low", ">"): "not_significantly_worse",
}
_OF_SLICES = re.compile(r"(any\s+)?slices\.(?P<rest>.+)")
_END = re.compile(r"\.(low|high)$")


class Condition(NamedTuple):
    """A condition in words.

    Args:
        sentence: what must be true.
        name: what it is about.
        column: of the slices that it is about; empty: of none.
        metric: whose value or delta it is about; empty: of none in the result.
        of_delta: whether it is about a delta.
    """

    sentence: str
    name: str
    column: str = ""
    metric: str = ""
    of_delta: bool = False


def condition_of(text: str, result: Mapping[str, Any], words: Words) -> Condition:
    """A condition in words.

    Args:
        text: such as ``"auc_delta.low<0"`` or ``"any slices.slot.auc<0.7"``.
        result: in its JSON form; its columns of slices and its metrics are known names.
        words: of the language.
    """
    match = _CONDITION.fullmatch(text)
    if not match:
        return Condition(text, text)
    path, sign, bound = match.groups()
    column, key, number = _parts(path, result)
    name, metric, of_delta = _named(number, result, words)
    better = (result.get("about") or {}).get(metric, {}).get("better", "") if of_delta and float(bound) == 0 else ""
    form = _FORMS.get((better, number[len(metric) + len("_delta") :], sign[0]), "")
    sentence = words(f"condition.{form or _SIGNS[sign]}", name=name, bound=bound, metric=words.metric(metric))
    if column and key:
        where = words.slice(column, key)
        sentence = words("condition.one", slice=where, sentence=sentence)
        name = words("condition.of_one", name=name, slice=where)
    elif column:
        sentence = words("condition.each", column=column, sentence=sentence)
        name = words("condition.of_each", name=name, column=column)
    if "." not in sentence.split()[0]:  # a path such as data.skipped keeps its case
        sentence = sentence[:1].upper() + sentence[1:]
    return Condition(sentence, name, column, metric, of_delta)


def _parts(path: str, result: Mapping[str, Any]) -> tuple[str, str, str]:
    """The column and the key of the slices that a path names, both may be empty, and the name of the number."""
    match = _OF_SLICES.fullmatch(path)
    columns = sorted(result.get("slices") or (), key=len, reverse=True)
    column = next((by for by in columns if match and match["rest"].startswith((f"{by}.", f"{by}["))), "")
    if not match or not column:
        return "", "", path
    rest = match["rest"][len(column) :]
    key, bracket, number = rest[1:].rpartition("].") if rest[0] == "[" else ("", "", rest[1:])
    return (column, key, number) if bracket or rest[0] == "." else ("", "", path)


def _named(number: str, result: Mapping[str, Any], words: Words) -> tuple[str, str, bool]:
    """A number in words, the metric that it is of, and whether it is a delta's."""
    end = _END.search(number)
    stem = number[: end.start()] if end else number
    stem = stem[: -len(".value")] if stem.endswith("_delta.value") else stem
    before, dot, own = stem.partition("baseline.")
    if not before and dot:
        return words("condition.baseline", name=words.metric(own)), "", False
    metric, of_delta = stem, stem.endswith("_delta")
    for suffix in ("_delta", "_interval"):
        metric = metric[: -len(suffix)] if metric.endswith(suffix) else metric
    if metric not in (result.get("about") or ()) and metric not in result:
        return number, "", False
    name = words.metric(metric)
    name = words("condition.delta", name=name) if of_delta else name
    return (words(f"condition.{end[1]}", name=name) if end else name), metric, of_delta


def value_of(value: Any, words: Words) -> str:
    """The number that a condition found."""
    return words.number(value, None if isinstance(value, int) or value is None else digits_of([], [value]) + 2)
