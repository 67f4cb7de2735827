"""Conditions on a result, such as ``auc<0.77`` or ``any slices.slot.auc_delta.high<0``."""

from __future__ import annotations

import contextlib
import math
import operator
import re
from collections import Counter
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from fleetmetrics.errors import InvalidInputError, UndefinedMetricWarning
from fleetmetrics.evaluation.output.slice_frame import Cell, SliceFrame
from fleetmetrics.evaluation.question.tasks import task_and_rest
from fleetmetrics.support.checks import listed
from fleetmetrics.support.hints import did_you_mean, near
from fleetmetrics.support.vocabulary import agreeing, argument, in_shell
from fleetmetrics.support.warning import warn
from fleetmetrics.words import Words

__all__ = ["Checked", "ConditionError", "checked", "failed"]

#: The last sign counts: the key of a slice may hold others.
_CONDITION = re.compile(r"\s*(\S|\S.*?\S)\s*(<=|>=|==|!=|<|>)\s*([^\s<>=!]+)\s*")
#: The entries of a result that are not numbers.
_NOT_ASKED = ("asked.", "about.")
#: The first slice's q-value is ``slices.slot.0.q``, too.
_BY_PLACE = re.compile(r"slices\.[^\[]+\.\d+(\.|$)")
#: How conditions on slices are written.
_FORM = "'any slices.COLUMN.NAME<0' or 'slices.COLUMN[KEY].NAME<0'"
#: The number of slices that a message may name.
_NAMED = 3
_SIGNS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


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
        slices: the names of the slices in which it holds.
    """

    condition: str
    path: str
    value: float | None
    fails: bool
    said: str
    note: str = ""
    slices: Sequence[str] = ()


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
    outcomes = checked(texts, result, unfilled)
    for outcome in outcomes:
        if outcome.note:
            warn(outcome.note, UndefinedMetricWarning)
    return [outcome.said for outcome in outcomes if outcome.fails]


def checked(texts: Sequence[str], result: Mapping[str, Any], unfilled: Sequence[str] = ()) -> list[Checked]:
    """Each condition, and whether it holds; arguments and errors as for `failed`."""
    texts = [texts] if isinstance(texts, str) else listed("conditions", texts, "texts")
    if not texts:  # a result may have thousands of numbers
        return []
    numbers = _Numbers.of(result)
    outcomes = (_outcome(_Condition.of(text), numbers, unfilled) for text in texts)
    return [outcome for outcome in outcomes if outcome is not None]


# -- what all are made of ----------------------------------------------------------------------------------


class _Condition(NamedTuple):
    """A condition: its text, the name of it in messages, the path of the number, the sign, and the number beside it."""

    text: str
    name: str
    path: str
    sign: str
    bound: float

    @staticmethod
    def of(text: Any) -> _Condition:
        """The parsed text; ConditionError if it cannot be read."""
        match = _CONDITION.fullmatch(text) if isinstance(text, str) else None
        name, bound = f"{argument('fail_if') + ' ' if in_shell() else ''}{text!r:.80}", math.nan
        if match:
            with contextlib.suppress(ValueError):
                bound = float(match[3])
        if not match or math.isnan(bound):  # no number compares with it
            what = f"a name, one of {' '.join(_SIGNS)}, and a number"
            raise ConditionError(f"{name} must be {what}, like 'auc<0.77'")
        return _Condition(text, name, match[1], match[2], bound)

    def holds(self, value: float) -> bool:
        """Whether a number meets it."""
        holds: bool = _SIGNS[self.sign](value, self.bound)
        return holds

    def away(self, value: float) -> str:
        """A number in words, with its distance from the bound."""
        side = "below" if value < self.bound else "above"
        away = f", {abs(value - self.bound):.6g} {side}" if value != self.bound else ""
        return f"{value:.6g}{away}"


class _Numbers(NamedTuple):
    """The numbers of a result: by path, and those of slices in its parts, the result itself or those of tasks."""

    result: Mapping[str, Any]
    tasks: Mapping[str, Any]
    by_path: Mapping[str, Any]
    repeated: Mapping[str, int]

    @staticmethod
    def of(result: Mapping[str, Any]) -> _Numbers:
        tasks = result.get("tasks") or {}
        values = [*_by_path({name: entry for name, entry in result.items() if name != "tasks"}), *_by_path(tasks)]
        values = [(path, value) for path, value in values if _may_be_asked(task_and_rest(path, tasks)[1])]
        return _Numbers(result, tasks, dict(values), Counter(path for path, _ in values))

    def part(self, path: str) -> tuple[Mapping[str, Any], str]:
        """The part of the result that a path begins in, and the rest of the path."""
        task, rest = task_and_rest(path, self.tasks)
        return (self.tasks[task] if task else self.result), rest

    def below(self, start: str) -> dict[str, Any]:
        """The values at the paths with this beginning."""
        return {path[len(start) :]: value for path, value in self.by_path.items() if path.startswith(start)}


def _outcome(condition: _Condition, numbers: _Numbers, unfilled: Sequence[str]) -> Checked | None:
    """The outcome of a condition; None if the result is still empty there."""
    text, name, path, *_ = condition
    if numbers.repeated.get(path, 0) > 1:
        raise ConditionError(
            f"{name}: {numbers.repeated[path]} numbers have the name {path!r}; rename a column or stream"
        )
    part, rest = numbers.part(path)
    if path not in numbers.by_path and _is_of_slices(rest, part):
        wanted = _of_slices(name, rest, part)
        return None if unfilled else _of_values(condition, wanted)
    value = numbers.by_path.get(path, "")
    if value is None:
        start = path.rpartition(".")[0]
        needs, because = (numbers.below(f"{start}.{entry}.") for entry in ("needs", "because"))
        why = f": too few to tell, {Words('en').needed(needs, because)}" if needs else ""
        return Checked(text, path, None, True, f"{name} fails: {path} is undefined{why}")
    if _is_number(value):
        return Checked(text, path, value, condition.holds(value), f"{name} holds: {path} is {condition.away(value)}")
    if path.startswith(tuple(f"{start}." for start in unfilled)):
        return None
    raise _unknown(name, path, numbers)


def _may_be_asked(name: str) -> bool:
    """Whether a name may be that of a number."""
    return name != "baseline" and not name.startswith(_NOT_ASKED)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _by_path(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The value under each dotted path; for a delta, its value."""
    if not isinstance(value, (dict, list)):
        yield path, value
        return
    entries = value if isinstance(value, dict) else dict(enumerate(value))
    if "value" in entries:
        yield path, entries["value"]
    for key, entry in entries.items():
        yield from _by_path(entry, f"{path}.{key}" if path else str(key))


def _unknown(name: str, path: str, numbers: _Numbers) -> ConditionError:
    """The error for an unknown path, with suggestions."""
    result, tasks = numbers.result, numbers.tasks
    names = [known for known, value in numbers.by_path.items() if value is None or _is_number(value)]
    names = [known for known in names if known in result or not re.search(r"\.\d+(\.|$)", known)]
    of_tasks = ""
    if tasks:
        task = task_and_rest(path, tasks)[0] or next(iter(tasks))
        names = [known for known in names if task_and_rest(known, tasks)[0] == task]
        of_tasks = f"; the names of a task begin with it, here with {', '.join(tasks)}"
    hint = _what_it_needs(path, result) or did_you_mean(near(path, names)) or f"; there are {', '.join(names)}"
    return ConditionError(f"{name}: there is no {path!r}{of_tasks}{hint}")


def _what_it_needs(path: str, result: Mapping[str, Any]) -> str:
    """The argument without which a result has no such number."""
    if ("_delta" in path or path.startswith("baseline.")) and not result.get("baseline"):
        return f"; deltas need {argument('baseline')}"
    if path.endswith((".low", ".high")) and "ci" not in result.get("asked", {}):
        return f"; intervals need {argument('ci')}, or {argument('join_on')}"
    return ""


# -- of slices ---------------------------------------------------------------------------------------------


class _OfSlices(NamedTuple):
    """What a condition on slices names: the column, a key or None for any, the number, and the frame that has it."""

    column: str
    key: str | None
    number: str
    frame: SliceFrame

    @staticmethod
    def of(column: str, rest: str, result: Mapping[str, Any]) -> _OfSlices:
        """From what follows the name of a column: ``[KEY].NAME`` or ``.NAME``."""
        key, bracket, number = rest[1:].rpartition("].")
        if not (rest.startswith("[") and bracket):
            return _OfSlices(column, None, rest[1:], SliceFrame(result, column))
        return _OfSlices(column, key, number, SliceFrame(result, column))

    @property
    def has_key(self) -> bool:
        """Whether there is a slice with the key."""
        return any(cell.key == self.key for cell in self.frame["rows"])


def _is_of_slices(path: str, result: Mapping[str, Any]) -> bool:
    """Whether a path names a slice by its key, or any slice."""
    by_key = path.startswith(tuple(f"slices.{column}[" for column in result.get("slices", ())))
    by_key = by_key or (path.startswith("slices.") and not _BY_PLACE.match(path))
    return "slices" in result and (by_key or path.startswith("any "))


def _of_slices(name: str, path: str, result: Mapping[str, Any]) -> _OfSlices:
    """Parse a condition on slices; ConditionError if there is no such column or name."""
    some = path.startswith("any ")
    rest = path[4:].lstrip() if some else path
    if not rest.startswith("slices."):
        raise ConditionError(f"{name}: 'any' is for slices; write {_FORM}")
    readings = _readings(name, rest[len("slices.") :], some, result)
    known = [reading for reading in readings if reading.number in reading.frame]
    if not known:
        wanted, names = readings[0].number, [*readings[0].frame]
        hint = _why_unknown(wanted, result) or did_you_mean(near(wanted, names)) or f"; there are {', '.join(names)}"
        raise ConditionError(f"{name}: a slice has no {wanted!r}{hint}")
    return _the_one_meant(name, known) if any(result["slices"].values()) else known[0]


def _readings(name: str, rest: str, some: bool, result: Mapping[str, Any]) -> list[_OfSlices]:
    """What may follow ``slices.``, the longest column first: the name of a column may hold dots and brackets."""
    columns = [by for by in result["slices"] if rest.startswith((f"{by}.", f"{by}["))]
    if not columns:
        raise ConditionError(f"{name}: {_not_by(re.split('[.[]', rest)[0], result)}")
    columns.sort(key=len, reverse=True)
    readings = [_OfSlices.of(column, rest[len(column) :], result) for column in columns]
    readings = [reading for reading in readings if (reading.key is None) == some]
    if not readings:
        bracket = rest[len(columns[0])] == "["
        raise ConditionError(f"{name} must be {_FORM}" if bracket else f"{name}: name a slice: {_FORM}")
    return readings


def _the_one_meant(name: str, readings: list[_OfSlices]) -> _OfSlices:
    """The reading whose slice there is; ConditionError if there are several."""
    there = [reading for reading in readings if reading.key is None or reading.has_key] or readings
    if len(there) > 1:
        which = " or ".join(f"{reading.number!r} by {reading.column!r}" for reading in there)
        raise ConditionError(f"{name} may mean {which}; rename a column")
    return there[0]


def _not_by(column: str, result: Mapping[str, Any]) -> str:
    """What slices are by, instead of this column."""
    there = "there are no slices"
    if result["slices"]:
        there = f"slices are by {', '.join(map(repr, result['slices']))}"
    hint = did_you_mean(map(repr, near(column, result["slices"]))) or f"; give {argument('by', column)}"
    return f"{there}, not by {column!r}{hint}"


def _why_unknown(number: str, result: Mapping[str, Any]) -> str:
    """Why slices lack a number."""
    if "_delta" in number and not result.get("baseline"):
        return f"; deltas need {argument('baseline')}"
    if number.partition(".")[2]:
        metric = number.partition("_interval.")[0].partition("_delta.")[0]
        return f"; slices have intervals of one metric only, which {argument('rank_by', metric)} chooses"
    return ""


def _of_values(condition: _Condition, wanted: _OfSlices) -> Checked:
    """The outcome of a condition on slices."""
    text, name, path, *_ = condition
    column, key, number, frame = wanted
    cells = frame[number] if key is None else [_only(name, column, key, frame[number])]
    known = [cell for cell in cells if cell.value is not None]
    if not known:
        return Checked(text, path, None, True, f"{name} fails: {_undefined(wanted, cells)}")
    holding = [cell for cell in known if condition.holds(cell.value)]
    first, *others = holding or known
    more = f"; it also holds in {_listed([cell.key for cell in others], _NAMED)}" if holding and others else ""
    text_of_first = f"slices.{column}[{first.key}].{number} is {condition.away(first.value)}"
    note = _note(name, [cell.key for cell in cells if cell.value is None], len(cells))
    keys = [cell.key for cell in holding]
    return Checked(text, path, first.value, bool(holding), f"{name} holds: {text_of_first}{more}", note, keys)


def _undefined(wanted: _OfSlices, cells: Sequence[Cell]) -> str:
    """What is undefined of all these slices, and why."""
    column, key, number, _ = wanted
    if key is None:
        return f"{number} of every slice by {column} is undefined, or there are too few to tell"
    slice = cells[0].slice
    why = ", or there are too few to tell"
    if slice.get("needs"):
        why = f": too few to tell, {Words('en').needed(slice['needs'], slice.get('because'))}"
    return f"slices.{column}[{key}].{number} is undefined{why}"


def _note(name: str, keys: Sequence[str], number: int) -> str:
    """The note on slices without a number, if others have it; "" without such slices."""
    if not keys:
        return ""
    are, have, count = (agreeing(len(keys), verb) for verb in ("are", "have", "count"))
    return (
        f"{name}: {len(keys)} of {number} slices {are} undefined or {have} too few to tell, and {count} neither "
        f"way: {_listed(keys, _NAMED)}"
    )


def _only(name: str, column: str, key: str, cells: Sequence[Cell]) -> Cell:
    """The cell of the slice with this key; ConditionError without one, or with several."""
    fitting, keys = [cell for cell in cells if cell.key == key], [cell.key for cell in cells]
    if len(fitting) > 1:  # the words for rows without a key can be a key themselves
        raise ConditionError(f"{name}: {len(fitting)} slices by {column!r} are called {key!r}; rename a key")
    if not fitting:
        hint = did_you_mean(map(repr, near(key, keys))) or f"; there are {_listed(keys, 10)}"
        raise ConditionError(f"{name}: there is no slice {key!r} by {column!r}{hint}")
    return fitting[0]


def _listed(keys: Sequence[str], most: int) -> str:
    shown = ", ".join(map(repr, keys[:most])) or "none"
    return shown + (f" and {len(keys) - most:,} more" if len(keys) > most else "")
