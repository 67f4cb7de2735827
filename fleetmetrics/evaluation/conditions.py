"""Conditions on a result, such as ``auc<0.77`` or ``any slices.slot.auc_delta.high<0``."""

from __future__ import annotations

import contextlib
import difflib
import math
import operator
import re
from collections import Counter
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.evaluation.tasks import task_and_rest
from fleetmetrics.support.checks import listed
from fleetmetrics.support.vocabulary import SIZES, agreeing, argument, in_shell
from fleetmetrics.support.warning import warn
from fleetmetrics.words import Words

__all__ = ["Checked", "ConditionError", "checked", "failed"]

#: The last sign counts: the key of a slice may hold others.
_CONDITION = re.compile(r"\s*(\S|\S.*?\S)\s*(<=|>=|==|!=|<|>)\s*([^\s<>=!]+)\s*")
#: The entries of a result that are not numbers.
_NOT_ASKED = ("asked.", "about.")
#: The first slice's q-value is ``slices.slot.0.q``, too.
_BY_PLACE = re.compile(r"slices\.[^\[]+\.\d+(\.|$)")
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
    tasks = result.get("tasks") or {}
    paths = [*_by_path({name: each for name, each in result.items() if name != "tasks"}), *_by_path(tasks)]
    paths = [each for each in paths if _may_be_asked(task_and_rest(each[0], tasks)[1])]
    there, repeated = dict(paths), Counter(path for path, _ in paths)
    found = []
    for text in texts:
        path, sign, number = _parsed(text)
        name, value = _quoted(text), there.get(path, "")
        if repeated[path] > 1:
            raise ConditionError(f"{name}: {repeated[path]} numbers have the name {path!r}; rename a column or stream")
        task, rest = task_and_rest(path, tasks)
        part = tasks[task] if task else result
        if path not in there and _is_of_slices(rest, part):
            wanted = _of_slices(name, rest, part)
            if not unfilled:
                found.append(_of_values(text, path, wanted, sign, number, part))
        elif value is None:
            start = path.rpartition(".")[0]
            needs, because = (_below(f"{start}.{entry}.", there) for entry in ("needs", "because"))
            why = f": too few to tell, {Words('en').needed(needs, because)}" if needs else ""
            found.append(Checked(text, path, None, True, f"{name} fails: {path} is undefined{why}"))
        elif _is_number(value):
            fails = getattr(operator, _SIGNS[sign])(value, number)
            found.append(Checked(text, path, value, fails, f"{name} holds: {path} is {_away(value, number)}"))
        elif not path.startswith(tuple(f"{each}." for each in unfilled)):
            raise _unknown(name, path, there, result)
    return found


def _may_be_asked(name: str) -> bool:
    """Whether a name may be that of a number."""
    return name != "baseline" and not name.startswith(_NOT_ASKED)


def _away(value: float, number: float) -> str:
    away = f", {abs(value - number):.6g} {'below' if value < number else 'above'}" if value != number else ""
    return f"{value:.6g}{away}"


# -- of slices ---------------------------------------------------------------------------------------------


class _Number(NamedTuple):
    """The place of a number in the JSON of a slice.

    Args:
        path: the names of the entries that lead to it.
        of_both: whether it is in the slices of a comparison.
        always: whether a slice with too few rows for a verdict has it, too.
    """

    path: Sequence[str]
    of_both: bool = False
    always: bool = False

    def of(self, slice: Mapping[str, Any]) -> Any:
        """The number; None if undefined, or with too few rows for a verdict."""
        *path, last = self.path
        hidden = slice["verdict"] == "too few" and (not path or last == slice["metric"])
        if hidden and not self.always:
            return None
        for name in path:
            slice = slice.get(name, {})
        return slice.get(last)


class _Wanted(NamedTuple):
    """A parsed condition on slices: its text, the column, a key or None for any, and the name of the number."""

    name: str
    column: str
    key: str | None
    what: str


def _is_of_slices(path: str, result: Mapping[str, Any]) -> bool:
    """Whether a path names a slice by its key, or any slice."""
    by_key = path.startswith(tuple(f"slices.{column}[" for column in result.get("slices", ())))
    by_key = by_key or (path.startswith("slices.") and not _BY_PLACE.match(path))
    return "slices" in result and (by_key or path.startswith("any "))


def _of_slices(name: str, path: str, result: Mapping[str, Any]) -> _Wanted:
    """Parse a condition on slices; ConditionError if there is no such column or name."""
    form = "'any slices.COLUMN.NAME<0' or 'slices.COLUMN[KEY].NAME<0'"
    some = path.startswith("any ")
    rest = path[4:].lstrip() if some else path
    if not rest.startswith("slices."):
        raise ConditionError(f"{name}: 'any' is for slices; write {form}")
    rest, names = rest[len("slices.") :], _names(result)
    columns = sorted(result["slices"], key=len, reverse=True)
    columns = [each for each in columns if rest.startswith((f"{each}.", f"{each}["))]
    if not columns:
        given = re.split(r"[.\[]", rest)[0]
        all_of = (
            f"slices are by {', '.join(map(repr, result['slices']))}" if result["slices"] else "there are no slices"
        )
        raise ConditionError(f"{name}: {all_of}, not by {given!r}; give {argument('by', given)}")
    readings = [_Wanted(name, column, *_key_and_name(rest[len(column) :])) for column in columns]
    fitting = [each for each in readings if (each.key is None) == some]
    known = [each for each in fitting if each.what in names]
    if len(known) > 1 and any(result["slices"].values()):  # a dot or bracket in the name of a column
        known = [each for each in known if some or _called(each.key, result["slices"][each.column])] or known
        if len(known) > 1:
            which = " or ".join(f"{each.what!r} by {each.column!r}" for each in known)
            raise ConditionError(f"{name} may mean {which}; rename a column")
    if known:
        return known[0]
    if not fitting:
        bracket = rest[len(columns[0])] == "["
        raise ConditionError(f"{name} must be {form}" if bracket else f"{name}: name a slice: {form}")
    why = _why_unknown(fitting[0].what, result)
    raise ConditionError(f"{name}: a slice has no {fitting[0].what!r}{why}; there are {', '.join(names)}")


def _why_unknown(what: str, result: Mapping[str, Any]) -> str:
    """Why slices lack a number."""
    if "_delta" in what and not result.get("baseline"):
        return f"; deltas need {argument('baseline')}"
    if what.partition(".")[2]:
        metric = what.partition("_interval.")[0].partition("_delta.")[0]
        return f"; slices have intervals of one metric only, which {argument('rank_by', metric)} chooses"
    return ""


def _key_and_name(rest: str) -> tuple[str | None, str]:
    """The key in brackets, or None, and the name of the number, from what follows a column's name."""
    key, bracket, what = rest[1:].rpartition("].")
    return (key, what) if rest.startswith("[") and bracket else (None, rest[1:])


def _names(result: Mapping[str, Any]) -> dict[str, _Number]:
    """The numbers of a slice, by name."""
    metrics = result["asked"]["metrics"]
    first = result["asked"].get("rank_by", next(iter(metrics)))  # without slices no metric ranks them
    found = {each: _Number(("metrics", each)) for each in metrics}
    found.update({f"{first}_interval.{end}": _Number((end,)) for end in ("low", "high")})
    found.update({each: _Number((each,), always=each in _ALWAYS) for each in _OF_SLICE})
    some = [each for slices in result["slices"].values() for each in slices[:1]]
    sizes = [size for size in SIZES if not some or size in some[0]]
    found.update({size: _Number((size,), always=True) for size in sizes})
    if result.get("baseline"):
        found.update({f"{each}_delta": _Number(("deltas", each), of_both=True) for each in metrics})
        found.update({f"{first}_delta.{end}": _Number((end,), of_both=True) for end in ("low", "high", "p", "q")})
        found.update({each: _Number((each,), of_both=True, always=each in _ALWAYS) for each in _OF_BOTH})
    return found


def _keys(slices: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys of slices in words."""
    return ["(null)" if each["key"] is None else str(each["key"]) for each in slices]


def _called(key: str | None, slices: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The slices with this key in words."""
    return [each for each, name in zip(slices, _keys(slices)) if name == key]


def _of_values(text: str, path: str, wanted: _Wanted, sign: str, number: float, result: Mapping[str, Any]) -> Checked:
    """The outcome of a condition on slices."""
    name, column, key, what = wanted
    place = _names(result)[what]
    slices = result["versus"].get(column, {"slices": []})["slices"] if place.of_both else result["slices"][column]
    if key is not None:
        slices = [_only(name, column, key, slices)]
    keys = _keys(slices)
    values = [place.of(each) for each in slices]
    told = [(each, value) for each, value in zip(keys, values) if value is not None]
    held = [(each, value) for each, value in told if getattr(operator, _SIGNS[sign])(value, number)]
    untold = [each for each, value in zip(keys, values) if value is None]
    note = ""
    if told and untold:
        note = (
            f"{name}: {len(untold)} of {len(values)} slices {agreeing(len(untold), 'are')} undefined or "
            f"{agreeing(len(untold), 'have')} too few to tell, and {agreeing(len(untold), 'count')} neither "
            f"way: {_listed(untold, _NAMED)}"
        )
    if not told:
        whose = f"{what} of every slice by {column}" if key is None else f"slices.{column}[{key}].{what}"
        one = slices[0] if key is not None else {}
        few = one.get("needs") and Words("en").needed(one["needs"], one.get("because"))
        why = f": too few to tell, {few}" if few else ", or there are too few to tell"
        return Checked(text, path, None, True, f"{name} fails: {whose} is undefined{why}")
    first, value = (held or told)[0]
    more = f"; it also holds in {_listed([each for each, _ in held[1:]], _NAMED)}" if held[1:] else ""
    said = f"{name} holds: slices.{column}[{first}].{what} is {_away(value, number)}{more}"
    return Checked(text, path, value, bool(held), said, note)


def _only(name: str, column: str, key: str, slices: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The slice with this key; ConditionError without one, or with several."""
    found, known = _called(key, slices), _keys(slices)
    if len(found) > 1:  # the words for rows without a key can be a key themselves
        raise ConditionError(f"{name}: {len(found)} slices by {column!r} are called {key!r}; rename a key")
    if not found:
        near = difflib.get_close_matches(key, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {_listed(known, 10)}"
        raise ConditionError(f"{name}: there is no slice {key!r} by {column!r}; {hint}")
    return found[0]


def _below(start: str, there: Mapping[str, Any]) -> dict[str, Any]:
    """The values at the paths with this beginning."""
    return {path[len(start) :]: value for path, value in there.items() if path.startswith(start)}


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
    tasks = result.get("tasks") or {}
    if tasks:
        task = task_and_rest(path, tasks)[0] or next(iter(tasks))
        names = [each for each in names if task_and_rest(each, tasks)[0] == task]
        why += f"; the names of a task begin with it, here with {', '.join(tasks)}"
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
