"""Conditions on a result, such as ``auc<0.77`` or ``any slices.slot.auc_delta.high<0``."""

from __future__ import annotations

import contextlib
import difflib
import math
import operator
import re
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from fleetmetrics.arguments import listed
from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.vocabulary import SIZES, agreeing, argument, counted, in_shell
from fleetmetrics.warning import warn

__all__ = ["Checked", "ConditionError", "checked", "failed"]

#: The last sign counts: the key of a slice may hold others.
_CONDITION = re.compile(r"\s*(\S|\S.*?\S)\s*(<=|>=|==|!=|<|>)\s*([^\s<>=!]+)\s*")
#: The entries of a result that are not numbers.
_NOT_ASKED = ("asked.", "about.")
#: The entries of slices by key; ``slices.slot.0.q`` is the first one's.
_SLICES = re.compile(r"any |slices\.(?![^\[]+\.\d+(\.|$))")
#: The entries of a slice besides its metrics; further ones in a comparison.
_OF_SLICE = ("rows", "share", "difference", "harm", "p", "q")
_OF_BOTH = ("baseline_rows", "mix", "within", "added")
#: The entries that a slice with too few rows also has.
_ALWAYS = {"rows", "share", "baseline_rows", *SIZES, "mix", "within", "added"}
#: The number of slices that a message may name.
_NAMED = 3
_SIGNS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


class ConditionError(InvalidInputError):
    """A condition cannot be read, or the result has no number of that name."""


class Checked(NamedTuple):
    """A condition and its outcome.

    Args:
        condition: its text.
        path: the path of the number.
        value: the number; None if undefined.
        fails: whether the condition holds or the number is undefined: either blocks the release.
        said: the text of a condition that fails.
        note: names slices with too few rows for a verdict, if others had enough.
    """

    condition: str
    path: str
    value: float | None
    fails: bool
    said: str
    note: str = ""


def failed(texts: Sequence[str], result: Mapping[str, Any], unfilled: Sequence[str] = ()) -> list[str]:
    """Return a text for each condition that holds; an undefined number fails every condition.

    A warning names slices with too few rows for a verdict.

    Args:
        texts: the conditions, as strings.
        result: in its JSON form.
        unfilled: paths below which a result that is still empty may get more entries.

    Raises:
        ConditionError: a condition cannot be read, or the result has no number of that name.
    """
    found = checked(texts, result, unfilled)
    for each in found:
        if each.note:
            warn(each.note, UndefinedMetricWarning)
    return [each.said for each in found if each.fails]


def checked(texts: Sequence[str], result: Mapping[str, Any], unfilled: Sequence[str] = ()) -> list[Checked]:
    """Each condition, and whether it holds; arguments and errors as for `failed`."""
    texts = [texts] if isinstance(texts, str) else listed("conditions", texts, "texts")
    there = dict(_by_path(result)) if texts else {}
    there = {name: each for name, each in there.items() if name != "baseline" and not name.startswith(_NOT_ASKED)}
    found = []
    for text in texts:
        path, sign, number = _parsed(text)
        name, value = _quoted(text), there.get(path, "")
        if path not in there and _SLICES.match(path) and "slices" in result:
            wanted = _of_slices(name, path, result)
            if not unfilled:
                found.append(_of_values(text, path, wanted, sign, number, result))
        elif value is None:
            needs = {each: there[f"{path.rpartition('.')[0]}.needs.{each}"] for each in _units(path, there)}
            why = f": too few to tell, {_needs(needs)}" if needs else ""
            found.append(Checked(text, path, None, True, f"{name} fails: {path} is undefined{why}"))
        elif _is_number(value):
            fails = getattr(operator, _SIGNS[sign])(value, number)
            found.append(Checked(text, path, value, fails, f"{name} holds: {path} is {_away(value, number)}"))
        elif not path.startswith(tuple(f"{each}." for each in unfilled)):
            raise _unknown(name, path, there, result)
    return found


def _away(value: float, number: float) -> str:
    away = f", {abs(value - number):.6g} {'below' if value < number else 'above'}" if value != number else ""
    return f"{value:.6g}{away}"


# -- of slices ---------------------------------------------------------------------------------------------


class _Wanted(NamedTuple):
    """A parsed condition on slices: its text, the column, a key or None for any, and the entry."""

    name: str
    column: str
    key: str | None
    what: str


def _of_slices(name: str, path: str, result: Mapping[str, Any]) -> _Wanted:
    """Parse a condition on slices; ConditionError if there is no such column or name."""
    form = "'any slices.COLUMN.NAME<0' or 'slices.COLUMN[KEY].NAME<0'"
    some = path.startswith("any ")
    rest = path[4:].lstrip() if some else path
    if not rest.startswith("slices."):
        raise ConditionError(f"{name}: 'any' is for slices; write {form}")
    rest, columns = rest[len("slices.") :], sorted(result["slices"], key=len, reverse=True)
    column = next((each for each in columns if rest.startswith((f"{each}.", f"{each}["))), None)
    if column is None:
        given = re.split(r"[.\[]", rest)[0]
        known = f"slices are by {', '.join(map(repr, result['slices']))}" if columns else "there are no slices"
        raise ConditionError(f"{name}: {known}, not by {given!r}; give {argument('by', given)}")
    rest, key = rest[len(column) :], None
    if rest.startswith("["):
        key, bracket, rest = rest[1:].rpartition("].")
        if not bracket or some:
            raise ConditionError(f"{name} must be {form}")
    elif not some:
        raise ConditionError(f"{name}: name a slice: {form}")
    what, allowed = rest.lstrip("."), _names(result)
    if what not in allowed:
        why = ""
        if "_delta" in what and not result.get("baseline"):
            why = f"; deltas need {argument('baseline')}"
        elif what.partition(".")[2]:
            metric = what.partition("_interval.")[0].partition("_delta.")[0]
            why = f"; slices have intervals of one metric only, which {argument('rank_by', metric)} chooses"
        raise ConditionError(f"{name}: a slice has no {what!r}{why}; there are {', '.join(allowed)}")
    return _Wanted(name, column, key, what)


def _names(result: Mapping[str, Any]) -> list[str]:
    """The entries of a slice."""
    metrics = result["asked"]["metrics"]
    first = result["asked"]["rank_by"]
    found = [*metrics, *(f"{first}_interval.{end}" for end in ("low", "high")), *_OF_SLICE]
    some = [each for slices in result["slices"].values() for each in slices[:1]]
    found += [size for size in SIZES if not some or size in some[0]]
    if result.get("baseline"):
        ends = (f"{first}_delta.{end}" for end in ("low", "high", "p", "q"))
        found += [*(f"{each}_delta" for each in metrics), *ends, *_OF_BOTH]
    return found


def _value(entry: Mapping[str, Any], what: str) -> Any:
    """The value of a slice in the JSON; None if undefined, or with too few rows for a verdict."""
    told = entry["verdict"] != "too few" or what in _ALWAYS
    name, _, end = what.partition("_delta")
    if end or what.endswith("_delta"):
        return None if name == entry["metric"] and not told else entry[end[1:]] if end else entry["deltas"].get(name)
    name, _, end = what.partition("_interval.")
    if end:
        return entry[end] if told else None
    metrics = entry.get("metrics", {})
    if what in metrics:
        return None if what == entry["metric"] and not told else metrics[what]
    return entry.get(what) if told else None


def _of_values(text: str, path: str, wanted: _Wanted, sign: str, number: float, result: Mapping[str, Any]) -> Checked:
    """The outcome of a condition on slices."""
    name, column, key, what = wanted
    of_both = "_delta" in what or what in _OF_BOTH
    entries = result["versus"].get(column, {"slices": []})["slices"] if of_both else result["slices"][column]
    known = {"(null)" if each["key"] is None else str(each["key"]): each for each in entries}
    if key is not None and key not in known:
        near = difflib.get_close_matches(key, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {_listed(list(known), 10)}"
        raise ConditionError(f"{name}: there is no slice {key!r} by {column!r}; {hint}")
    chosen = known if key is None else {key: known[key]}
    values = {each: _value(entry, what) for each, entry in chosen.items()}
    told = {each: value for each, value in values.items() if value is not None}
    held = [each for each, value in told.items() if getattr(operator, _SIGNS[sign])(value, number)]
    untold = [each for each in values if each not in told]
    note = ""
    if told and untold:
        note = (
            f"{name}: {len(untold)} of {len(values)} slices {agreeing(len(untold), 'are')} undefined or "
            f"{agreeing(len(untold), 'have')} too few to tell, and {agreeing(len(untold), 'count')} neither "
            f"way: {_listed(untold, _NAMED)}"
        )
    if not told:
        whose = f"{what} of every slice by {column}" if key is None else f"slices.{column}[{key}].{what}"
        needs = chosen[key]["needs"] if key is not None else {}
        why = f": too few to tell, {_needs(needs)}" if needs else ", or there are too few to tell"
        return Checked(text, path, None, True, f"{name} fails: {whose} is undefined{why}")
    first = (held or list(told))[0]
    more = f"; it also holds in {_listed(held[1:], _NAMED)}" if held[1:] else ""
    said = f"{name} holds: slices.{column}[{first}].{what} is {_away(told[first], number)}{more}"
    return Checked(text, path, told[first], bool(held), said, note)


def _units(path: str, there: Mapping[str, Any]) -> list[str]:
    """The kind of data that is too scarce for the interval whose end a path names."""
    start = f"{path.rpartition('.')[0]}.needs."
    return [each[len(start) :] for each in there if each.startswith(start)]


def _needs(needs: Mapping[str, int]) -> str:
    return "needs " + " and ".join(counted(number, name) for name, number in needs.items())


def _listed(keys: Sequence[str], most: int) -> str:
    shown = ", ".join(map(repr, keys[:most])) or "none"
    return shown + (f" and {len(keys) - most:,} more" if len(keys) > most else "")


# -- what all are made of ----------------------------------------------------------------------------------


def _quoted(text: Any) -> str:
    return f"{argument('fail_if') + ' ' if in_shell() else ''}{text!r:.80}"


def _parsed(text: Any) -> tuple[str, str, float]:
    """The path, the sign and the number of a condition."""
    found = _CONDITION.fullmatch(text) if isinstance(text, str) else None
    number = math.nan
    if found:
        with contextlib.suppress(ValueError):
            number = float(found[3])
    if not found or math.isnan(number):  # no number compares with it
        what = f"a name, one of {' '.join(_SIGNS)}, and a number"
        raise ConditionError(f"{_quoted(text)} must be {what}, like 'auc<0.77'")
    return found[1], found[2], number


def _unknown(name: str, path: str, there: Mapping[str, Any], result: Mapping[str, Any]) -> ConditionError:
    """The error for an unknown path, with suggestions."""
    names = [each for each in there if each in result or not re.search(r"\.\d+(\.|$)", each)]
    names = [each for each in names if there[each] is None or _is_number(there[each])]
    why = ""
    if ("_delta" in path or path.startswith("baseline.")) and not result.get("baseline"):
        why = f"; deltas need {argument('baseline')}"
    elif path.endswith((".low", ".high")) and "ci" not in result.get("asked", {}):
        why = f"; intervals need {argument('ci')}, or {argument('join_on')}"
    near = f"the nearest is {difflib.get_close_matches(path, names, 1, 0)[0]!r}"
    return ConditionError(f"{name}: there is no {path!r}{why}; {near}, of {', '.join(names)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _by_path(found: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The value under each dotted path; for a delta, its value."""
    if not isinstance(found, (dict, list)):
        yield path, found
        return
    entries = found if isinstance(found, dict) else dict(enumerate(found))
    if "value" in entries:
        yield path, entries["value"]
    for key, each in entries.items():
        yield from _by_path(each, f"{path}.{key}" if path else str(key))
