"""Checks of settings: each is looked at when a metric is made.

The error is an `InvalidInputError`, which names the argument, its value, and what is allowed.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import warnings
from typing import Any, Iterable, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.hints import hint_of_argument


class AllArguments:
    """A class's ``__signature__``: the arguments of its ``__init__``, and those of the bases that ``**`` goes on to."""

    def __get__(self, _: Any, owner: type) -> inspect.Signature:
        found: dict[str, inspect.Parameter] = {}
        for init in [vars(kind)["__init__"] for kind in owner.__mro__[:-1] if "__init__" in vars(kind)]:
            own = list(inspect.signature(init).parameters.values())[1:]
            if found:  # a derived class passes them on by keyword
                own = [
                    each.replace(kind=each.KEYWORD_ONLY) if each.kind < each.VAR_POSITIONAL else each for each in own
                ]
            named = [each for each in own if each.kind is not each.VAR_KEYWORD]
            found.update({each.name: each for each in named if each.name not in found})
            if named == own:
                break
        return inspect.Signature(sorted(found.values(), key=lambda each: each.kind))


def raise_if_positional(kind: type, given: Sequence[Any]) -> None:
    """Raise if a class is given a setting by position that it takes by keyword; the message guesses which."""
    parameters = inspect.signature(kind).parameters.values()
    taken = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(given) <= len(taken) or any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return
    value = given[len(taken)]
    fits = [each.name for each in parameters if isinstance(value, str) and repr(value) in str(each.annotation)]
    named = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    fits = fits or ["name"] * (isinstance(value, str) and "name" in named)
    raise InvalidInputError(
        f"{kind.__name__} takes {', '.join(named)} by keyword, and was given {value!r} without"
        + (f"; did you mean {fits[0]}={value!r}?" if fits else "")
    )


def raise_if_unknown(kind: type, given: Iterable[str]) -> None:
    """Raise if a class is given settings that it does not have."""
    for name in given:
        known = list(inspect.signature(kind).parameters)
        raise InvalidInputError(
            f"{kind.__name__} has no setting {name!r}{hint_of_argument(name, known)} It takes {', '.join(known)}"
        )


#: 8 GiB in entries of 8 bytes.
MOST_ENTRIES = 2**30


def flag_of(argument: str, value: Any) -> bool:
    """True or False. 0 and 1 are refused: they are more often a misplaced number than a flag."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise InvalidInputError(f"{argument} must be True or False, not {value!r}")


def raise_if_too_large(setting: str, shape: Sequence[int], state: str) -> None:
    """Raise if a setting would make a state too large, before anything of that size is allocated."""
    sizes = [int(size) for size in shape]
    if math.prod(sizes) > MOST_ENTRIES:
        raise InvalidInputError(
            f"{setting} is too large: {state} would have the shape {sizes}, and at most 2**30 entries (8 GiB) are "
            "allowed; give a smaller one"
        )


#: Bins and thresholds are also kept as tuples, at 32 bytes an entry.
MOST_EDGES = 2**24


def is_whole(value: Any) -> bool:
    """Whether a value is an integer, of Python or NumPy."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def whole_number_of(argument: str, value: Any, least: int, most: int | None = None) -> int:
    """An integer in a range."""
    if not is_whole(value) or value < least:
        raise InvalidInputError(f"{argument} must be an integer of at least {least}, not {value!r}")
    if most is not None and value > most:
        raise InvalidInputError(f"{argument} must be at most {most}, not {value!r}")
    return int(value)


def number_of(argument: str, value: Any, low: float = -math.inf, high: float = math.inf, allowed: str = "") -> float:
    """A finite number in a range as a float; ``allowed`` says in words what a range does not."""
    if _is_number(value) and low <= value <= high:
        return float(value)
    if not allowed:
        allowed = "a finite number" if math.isinf(low) else f"a number from {low:g} to {high:g}"
        allowed = f"a finite number of at least {low:g}" if math.isinf(high) and not math.isinf(low) else allowed
    raise InvalidInputError(f"{argument} must be {allowed}, not {value!r}")


def positive_of(argument: str, value: Any, least: float = 5e-324) -> float:
    """A finite number above 0, and at least the smallest float64 that is, or ``least``."""
    return number_of(argument, value, least, allowed="a finite number above 0")


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def choice_of(argument: str, value: Any, allowed: Sequence[str | None]) -> Any:
    """One of several texts, or None where that is among them."""
    if not any(value is None if each is None else isinstance(value, str) and value == each for each in allowed):
        raise InvalidInputError(f"{argument} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def column_of(argument: str, value: Any, taken: Sequence[str]) -> str:
    """The name of a further argument of ``add``, none of those ``taken``."""
    others = sorted({"prediction", "label", "weight", "mask", *taken})
    if not isinstance(value, str) or not value or value in others:
        raise InvalidInputError(f"{argument} must be a name other than {', '.join(others)}, not {value!r}")
    return value


def zero_division_of(value: Any) -> float:
    """``zero_division``: nan, or the value to use without a warning."""
    if _is_number(value) or (isinstance(value, (float, np.floating)) and math.isnan(value)):
        return float(value)
    raise InvalidInputError(f"zero_division must be nan or a finite number, not {value!r}")


def array_of(value: Any) -> np.ndarray:
    """An argument as an array; an empty one for ragged lists."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy before 1.24 makes object arrays of them, and warns
        try:
            return np.asarray(value)
        except ValueError:
            return np.empty(0)


def edges_of(bins: Any, low: float, high: float) -> tuple[float, ...]:
    """The edges of bins: ``bins`` of equal width between ``low`` and ``high``, or those that ``bins`` itself holds."""
    edges = array_of(bins)
    if edges.ndim == 0:
        number = whole_number_of("bins", bins, 1, MOST_EDGES)
        with np.errstate(over="ignore", invalid="ignore"):
            edges = np.linspace(low, high, number + 1)
        if not (edges[1:] > edges[:-1]).all():
            raise InvalidInputError(
                f"bins={number} do not fit between {low!r} and {high!r}: their edges would not be different numbers"
            )
        return tuple(edges.tolist())
    good = edges.ndim == 1 and edges.size > 1 and edges.dtype.kind in "iuf" and bool(np.isfinite(edges).all())
    edges = edges.astype(np.float64) if good else edges
    if not good or not (edges[1:] > edges[:-1]).all():
        raise InvalidInputError(
            f"bins must be an integer of at least 1, or the edges of the bins: two or more finite numbers, each larger "
            f"than the one before; not {bins!r}"
        )
    return tuple(edges.tolist())


def described(value: Any, depth: int = 0) -> Any:
    """A setting in a form fit for JSON, in which equal ones are equal in any process; long ones by a digest."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item() if value.dtype.kind in "biuf" else str(value)
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), described(value.ravel().tolist(), depth)]
    if isinstance(value, dict):
        return {str(key): described(each, depth + 1) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        entries = [described(each, depth + 1) for each in value]
        entries = sorted(entries, key=repr) if isinstance(value, (set, frozenset)) else entries
        return entries if len(entries) <= 64 else [len(entries), hashlib.sha256(repr(entries).encode()).hexdigest()]
    if isinstance(value, functools.partial):
        return [described(each, depth + 1) for each in (value.func, value.args, value.keywords)]
    named = getattr(value, "__qualname__", None) or type(value).__qualname__
    if (callable(value) and hasattr(value, "__qualname__")) or depth > 8:
        return named
    inside = value.settings() if hasattr(value, "settings") else getattr(value, "__dict__", {})
    return {"class": named, **described(inside, depth + 1)}


def difference(one: Any, other: Any, where: str = "") -> str:
    """The first setting in which two objects differ, in words; "" if there is none."""
    if one is other or (isinstance(one, str) and isinstance(other, str) and one == other):
        return ""  # as nearly always
    if type(one) is not type(other):
        pairs: Any = None
    elif hasattr(one, "settings"):
        mine, theirs = (getattr(each, "told", each.settings)() for each in (one, other))
        pairs = [(name, mine.get(name), theirs.get(name)) for name in {**mine, **theirs}]
    elif isinstance(one, dict):
        pairs = [(f"{key!r}", one.get(key), other.get(key)) for key in {**one, **other}]
    elif isinstance(one, (list, tuple)) and not hasattr(one, "_fields") and len(one) == len(other):
        pairs = [(where, *each) for each in zip(one, other)]
    else:
        pairs = None
    if pairs is not None:
        return next(filter(None, (difference(first, second, name) for name, first, second in pairs)), "")
    if np.array_equal(one, other) or (one != one and other != other):  # nan is equal to nan here
        return ""
    mine, theirs = (getattr(each, "name", f"{each!r:.80}") for each in (one, other))
    return f"{where} is {theirs}, here {mine}" if where else f"it is a {type(other).__name__}"
