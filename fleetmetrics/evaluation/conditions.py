"""Conditions on a result, such as ``auc<0.77``: which of them hold."""

from __future__ import annotations

import contextlib
import difflib
import math
import operator
import re
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.vocabulary import argument, in_shell

__all__ = ["Checked", "ConditionError", "checked", "failed"]

_CONDITION = re.compile(r"\s*(.+?)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*")
#: What a result says beside numbers.
_NOT_ASKED = ("asked.", "about.")
_SIGNS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


class ConditionError(InvalidInputError):
    """A condition cannot be read, or the result has no number of that name."""


class Checked(NamedTuple):
    """A condition, and what became of it.

    Args:
        condition: its text.
        path: of the number.
        value: None: it is undefined.
        fails: whether the condition holds, or the number is undefined: then the result is not good enough.
        said: of one that fails.
    """

    condition: str
    path: str
    value: float | None
    fails: bool
    said: str


def failed(texts: Sequence[str], result: Mapping[str, Any], unfilled: Sequence[str] = ()) -> list[str]:
    """What to say of each condition that holds; an undefined number fails, whatever it is compared with.

    Args:
        texts: the conditions.
        result: as JSON has it.
        unfilled: paths below which a result that is still empty may get more.

    Raises:
        ConditionError: a condition cannot be read, or the result has no number of that name.
    """
    return [each.said for each in checked(texts, result, unfilled) if each.fails]


def checked(texts: Sequence[str], result: Mapping[str, Any], unfilled: Sequence[str] = ()) -> list[Checked]:
    """Each condition, and whether it holds; arguments and errors as for `failed`."""
    there = dict(_by_path(result)) if texts else {}
    there = {name: each for name, each in there.items() if name != "baseline" and not name.startswith(_NOT_ASKED)}
    found = []
    for text in texts:
        path, sign, number = _parsed(text)
        name, value = _quoted(text), there.get(path, "")
        if value is None:
            found.append(Checked(text, path, None, True, f"{name} fails: {path} is undefined"))
        elif _is_number(value):
            away = f", {abs(value - number):.6g} {'below' if value < number else 'above'}" if value != number else ""
            fails = getattr(operator, _SIGNS[sign])(value, number)
            found.append(Checked(text, path, value, fails, f"{name} holds: {path} is {value:.6g}{away}"))
        elif not path.startswith(tuple(f"{each}." for each in unfilled)):
            raise _unknown(name, path, there, result)
    return found


def _quoted(text: Any) -> str:
    return f"{argument('fail_if') + ' ' if in_shell() else ''}{text!r:.80}"


def _parsed(text: Any) -> tuple[str, str, float]:
    """The path, the sign and the number of a condition."""
    found = _CONDITION.fullmatch(text) if isinstance(text, str) else None
    number = math.nan
    if found:
        with contextlib.suppress(ValueError):
            number = float(found[3])
    if not found or math.isnan(number):  # with which nothing compares
        what = f"a name, one of {' '.join(_SIGNS)}, and a number"
        raise ConditionError(f"{_quoted(text)} must be {what}, like 'auc<0.77'")
    return found[1], found[2], number


def _unknown(name: str, path: str, there: Mapping[str, Any], result: Mapping[str, Any]) -> ConditionError:
    """The error for a path that is not there, with what may have been meant."""
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
    """What stands under each path with dots; a delta is its value."""
    if not isinstance(found, (dict, list)):
        yield path, found
        return
    entries = found if isinstance(found, dict) else dict(enumerate(found))
    if "value" in entries:
        yield path, entries["value"]
    for key, each in entries.items():
        yield from _by_path(each, f"{path}.{key}" if path else str(key))
