"""Checks of users' arguments: of settings, when a metric is created, and of what public functions take.

A function ending in ``_of`` checks one argument and returns it converted; the error is an `InvalidInputError`, which
names the argument, its value, and what is allowed. A public function declares the kinds of its arguments once:

    @checked(confusion=matrix(labels=True), zero_division=stand_in_value)
    def hamming_loss(confusion, zero_division=math.nan): ...

``hamming_loss(matrix)`` checks its arguments. ``hamming_loss.bare(matrix)`` does not: the package calls it with its own
statistics. A kind of argument also converts: the function gets a number, or an array; kinds of arrays are in
`fleetmetrics.formulas.arrays`.

>>> @checked(number=amount, power=at_least(1))
... def raised(number, power):
...     return number**power
>>> raised(np.array([2.5]), 2)
6.25
>>> raised(-2, 2)
Traceback (most recent call last):
    ...
fleetmetrics.errors.InvalidInputError: number must be a finite number of at least 0, not -2
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, Sequence, TypeVar, cast

import numpy as np

from fleetmetrics.errors import InvalidInputError, UnknownArgumentError
from fleetmetrics.support.tensors import as_array, refuse_masked
from fleetmetrics.support.vocabulary import entries_in_words

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Protocol

    P = ParamSpec("P")
    R = TypeVar("R")

    class Checked(Protocol[P, R]):
        """A function that checks its arguments, and the ``bare`` one that does not."""

        __name__: str
        bare: Callable[P, R]

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
            """Check the arguments, and call the function."""


_Function = TypeVar("_Function", bound=Callable[..., Any])


# -- settings ---------------------------------------------------------------------------------------------

#: 8 GiB in entries of 8 bytes.
MOST_ENTRIES = 2**30


def flag_of(argument: str, value: Any) -> bool:
    """True or False. 0 and 1 are rejected, because they are more often a misplaced number than a flag."""
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
    """Whether a value is an integer of Python or NumPy; durations, which NumPy derives from integers, do not count."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def is_number(value: Any) -> bool:
    """Whether a value is a number, of Python or NumPy, but not a bool."""
    return is_whole(value) or isinstance(value, (float, np.floating))


def whole_number_of(argument: str, value: Any, least: int, most: int | None = None) -> int:
    """An integer in a range."""
    if not is_whole(value) or value < least:
        raise InvalidInputError(f"{argument} must be an integer of at least {least}, not {value!r}")
    if most is not None and value > most:
        raise InvalidInputError(f"{argument} must be at most {most}, not {value!r}")
    return int(value)


def shape_of(argument: str, value: Any) -> tuple[int, ...]:
    """The shape of an array; one number is that of an array of one axis."""
    try:
        sizes = (value,) if is_whole(value) else tuple(value)
    except Exception:  # no iterable, an array without axes, and whatever an object's __iter__ raises
        sizes = (None,)
    for size in sizes:
        if not is_whole(size) or size < 0:
            raise InvalidInputError(f"{argument} must hold whole numbers of at least 0, not {value!r:.80}")
    return tuple(map(int, sizes))


def counts_of(name: str, values: Sequence[int]) -> np.ndarray:
    """Whole numbers of at least 0, int64 [n]."""
    try:
        array = as_array(values, name)
    except Exception:  # ragged lists, and whatever an object's __array__ raises
        array = np.empty((), object)
    if np.ma.is_masked(values) or array.ndim != 1 or (array.size and (array.dtype.kind not in "iu" or array.min() < 0)):
        raise InvalidInputError(f"{name} is {values!r}; it must hold integers of at least 0")
    return array.astype(np.int64)


def number_of(argument: str, value: Any, low: float = -math.inf, high: float = math.inf, allowed: str = "") -> float:
    """A finite number in a range as a float; ``allowed`` describes the range in words."""
    if _is_finite(value) and low <= value <= high:
        return float(value)
    if not allowed:
        allowed = "a finite number" if math.isinf(low) else f"a number from {low:g} to {high:g}"
        allowed = f"a finite number of at least {low:g}" if math.isinf(high) and not math.isinf(low) else allowed
    raise InvalidInputError(f"{argument} must be {allowed}, not {value!r}")


def positive_of(argument: str, value: Any, least: float = 5e-324) -> float:
    """A finite number above 0, and at least ``least`` or the smallest positive float64."""
    return number_of(argument, value, least, allowed="a finite number above 0")


def _is_finite(value: Any) -> bool:
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def choice_of(argument: str, value: Any, allowed: Sequence[str | None]) -> Any:
    """One of several strings, or None if it is among them."""
    if (value is None or isinstance(value, str)) and value in allowed:
        return value
    from fleetmetrics.support.hints import did_you_mean, near  # few make mistakes, and every metric is imported

    names = [name for name in allowed if name is not None]
    shown = ", ".join(names if argument.startswith("--") else map(repr, allowed))
    hint = did_you_mean(map(repr, near(value, names))) if isinstance(value, str) else ""
    raise InvalidInputError(f"{argument} must be one of {shown}, not {value!r}{hint}")


def choices_of(argument: str, value: Any, allowed: Sequence[str]) -> list[str]:
    """One string of several, or a list of at least one of them, each once."""
    choices = listed(argument, [value] if isinstance(value, str) else value, "strings") or [None]
    return [choice_of(argument, choice, allowed) for choice in dict.fromkeys(choices)]


def path_of(argument: str, value: Any) -> str:
    """The path of a file or folder, as a string."""
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidInputError(f"{argument} must be a path, a string or an os.PathLike, not {value!r:.80}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        what = f"{argument} must be a path that the file system can hold, and {value!r:.80} has"
        raise InvalidInputError(f"{what} {path[error.start]!r}") from None
    return path


def texts_of(argument: str, value: Any) -> list[str]:
    """Several strings as a list; a single string is refused."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        raise InvalidInputError(f"{argument} must be a list of strings, not {value!r:.80}")
    return list(value)


def listed(argument: str, value: Any, of: str) -> list[Any]:
    """The entries of an iterable as a list; ``of`` describes them. A string is one entry, and no list."""
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError("a string of no characters would be an empty list")
        return list(value)
    except TypeError:
        raise InvalidInputError(f"{argument} must be a list of {of}, not {value!r:.80}") from None


def in_order(argument: str, value: Any, of: str) -> list[Any]:
    """As `listed`, of what has an order, which sets have not, and a dict for its keys alone."""
    if isinstance(value, (set, frozenset, Mapping)):
        raise InvalidInputError(f"{argument} must be a list of {of}, in their order, not {value!r:.80}")
    return listed(argument, value, of)


def column_of(argument: str, value: Any, taken: Sequence[str]) -> str:
    """The name of a further argument of ``add``, different from those ``taken``."""
    others = sorted({"prediction", "label", "weight", "mask", *taken})
    if not isinstance(value, str) or not value or value in others:
        raise InvalidInputError(f"{argument} must be a name other than {', '.join(others)}, not {value!r}")
    return value


def zero_division_of(value: Any) -> float:
    """``zero_division``: nan, or the value to use without a warning."""
    if _is_finite(value) or (isinstance(value, (float, np.floating)) and math.isnan(value)):
        return float(value)
    raise InvalidInputError(f"zero_division must be nan or a finite number, not {value!r}")


def array_or_empty(value: Any) -> np.ndarray:
    """An argument as an array; an empty one for ragged lists and masked arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy before 1.24 makes object arrays of ragged lists, and warns
        try:
            return np.empty(0) if np.ma.is_masked(value) else as_array(value, "value")
        except Exception:  # ragged lists, and whatever an object's __array__ raises
            return np.empty(0)


def edges_of(bins: Any, low: float, high: float) -> tuple[float, ...]:
    """The edges of bins: ``bins`` of equal width between ``low`` and ``high``, or those that ``bins`` itself holds."""
    edges = array_or_empty(bins)
    if edges.ndim == 0:
        number = whole_number_of("bins", bins, 1, MOST_EDGES)
        with np.errstate(over="ignore", invalid="ignore"):
            edges = np.linspace(low, high, number + 1)
        if not (edges[1:] > edges[:-1]).all():
            raise InvalidInputError(
                f"bins={number} do not fit between {low!r} and {high!r}: their edges would not be distinct numbers"
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


# -- declared arguments of public functions ------------------------------------------------------------

#: The named sizes of one call, such as "bins", each with the first argument that has it.
Sizes = Dict[str, "tuple[Any, str]"]
#: Among the sizes: the last `part`.
_PART = "part"
#: A kind of argument: from its name, its value and the sizes so far, the converted value; or `InvalidInputError`.
Kind = Callable[[str, Any, Sizes], Any]


def checked(**kinds: Kind) -> Callable[[Callable[P, R]], Checked[P, R]]:
    """Declare the kinds of a function's arguments by name, in the order of the checks.

    Omitted arguments are not checked.
    """

    def decorate(function: Callable[P, R]) -> Checked[P, R]:
        signature = inspect.signature(function)
        names = list(signature.parameters)
        if sorted(names) != sorted(kinds):
            raise TypeError(f"checked declares {sorted(kinds)}, and {function.__qualname__} takes {sorted(names)}")

        @functools.wraps(function)
        def with_checks(*args: Any, **named: Any) -> Any:
            try:
                arguments = signature.bind(*args, **named)
            except TypeError:
                raise_if_unknown_argument(function.__name__, names, named)
                return function(*args, **named)  # whose error names the function
            values, sizes = arguments.arguments, {}  # type: ignore[var-annotated]
            for name, kind in kinds.items():
                if name in values:
                    values[name] = kind(name, values[name], sizes)
            return function(*arguments.args, **arguments.kwargs)

        with_checks.bare = function  # type: ignore[attr-defined]
        return with_checks  # type: ignore[return-value]

    return decorate


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its checks; a function without checks, such as a user's, unchanged."""
    return getattr(function, "bare", function)


def knows_its_arguments(function: _Function) -> _Function:
    """A function that raises UnknownArgumentError for an argument that it does not have."""
    parameters = inspect.signature(function).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]
    name = function.__qualname__.replace(".__init__", "")  # of a constructor, that of its class

    @functools.wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        if named:
            raise_if_unknown_argument(name, known, named)
        return function(*values, **named)

    return cast(_Function, call)


def raise_if_unknown_argument(function: str, known: Sequence[str], named: Iterable[str]) -> None:
    """Raise UnknownArgumentError for the first name that is not known.

    Args:
        function: its name.
        known: its arguments.
        named: those that a call gives by name.
    """
    for name in named:
        if name not in known:
            from fleetmetrics.support.hints import hint_of_argument  # few make mistakes

            hint = hint_of_argument(name, known)
            raise UnknownArgumentError(f"{function} has no argument {name!r}{hint} It takes {', '.join(known)}")


# -- kinds of numbers and settings --------------------------------------------------------------------------------


def number(argument: str, value: Any, _: Any = None, least: float = -math.inf) -> Any:
    """A number of at least ``least``, as a Python number; also in an array or list. nan is valid, infinity is not."""
    if type(value) not in (int, float):
        array = array_of(argument, value)
        if array.size != 1:
            raise InvalidInputError(f"{argument} must be one number, not an array of shape {list(array.shape)}")
        value = array.item()
        value = int(value) if isinstance(value, int) else float(value)
    # nan is neither below nor above; integers above all floats have no float
    if value < least or value > sys.float_info.max or value < -sys.float_info.max:
        allowed = "a finite number" + (f" of at least {least:g}" if least > -math.inf else "")
        raise InvalidInputError(f"{argument} must be {allowed}, not {value!r:.60}")
    return value


def whole(argument: str, value: Any, _: Any = None) -> int:
    """A number of samples."""
    value = amount(argument, value)
    if not (math.isfinite(value) and value == int(value)):
        raise InvalidInputError(f"{argument} must be a whole number of at least 0, not {value!r}")
    return int(value)


def amount(argument: str, value: Any, _: Any = None) -> Any:
    """A count, a weight, or a sum of numbers that are never negative."""
    return number(argument, value, least=0)


def part(argument: str, value: Any, sizes: Sizes) -> Any:
    """An `amount` of some samples; declare the total next, as `total_of_part`."""
    value = amount(argument, value)
    sizes[_PART] = value, argument
    return value


def total_of_part(argument: str, value: Any, sizes: Sizes) -> Any:
    """An `amount` of all samples, no less than that of the `part`."""
    value = amount(argument, value)
    some, name = sizes[_PART]
    check_part(name, some, argument, value)
    return value


def check_part(part: str, some: float, total: str, all_of_them: float) -> None:
    """Raise `InvalidInputError` for a part larger than the total, beyond the rounding of sums of weights."""
    if some > all_of_them * (1 if isinstance(some, int) else 1 + 1e-6):
        raise InvalidInputError(f"{part} must be at most {total}, but {part} is {some!r} and {total} {all_of_them!r}")


def at_most_0(argument: str, value: Any, _: Any = None) -> Any:
    """A sum of numbers that are never positive, such as logarithms of probabilities."""
    value = number(argument, value)
    if value > 0:
        raise InvalidInputError(f"{argument} must be at most 0, not {value!r}")
    return value


def between(low: float, high: float, ends: bool = True) -> Kind:
    """A setting from ``low`` to ``high``, which may be infinite; ``ends``: whether the ends are valid, too."""

    def kind(argument: str, value: Any, _: Any = None) -> float:
        if is_number(value) and (low <= value <= high if ends else low < value < high):
            return float(value) if value <= sys.float_info.max else math.inf
        allowed = f"from {low:g} to {high:g}" if ends else f"between {low:g} and {high:g}"
        raise InvalidInputError(f"{argument} must be a number {allowed}, not {value!r:.60}")

    return kind


def _checked_by(check: Callable[..., Any], *allowed: Any) -> Kind:
    """The kind of argument that one of the functions above checks."""

    def kind(argument: str, value: Any, _: Any = None) -> Any:
        return check(argument, value, *allowed)

    return kind


#: A finite setting of at least 0.
not_negative: Kind = _checked_by(number_of, 0)
#: A finite setting above 0.
above_0: Kind = _checked_by(positive_of)
#: True or False.
flag: Kind = _checked_by(flag_of)


def at_least(least: int) -> Kind:
    """An integer of at least ``least``, and below 2**63."""
    return _checked_by(whole_number_of, least, 2**63 - 1)


def one_of(*allowed: str | None) -> Kind:
    """One of several strings, or None if it is among them."""
    return _checked_by(choice_of, allowed)


def made_by(function: str, kind: type) -> Kind:
    """The result of another function."""

    def check(argument: str, value: Any, _: Any = None) -> Any:
        if not isinstance(value, kind):
            raise InvalidInputError(f"{argument} must be a result of {function}, not {value!r:.60}")
        return value

    return check


def optional(kind: Kind) -> Kind:
    """The given kind of value, or None."""
    return lambda argument, value, sizes: None if value is None else kind(argument, value, sizes)


def text(argument: str, value: Any, _: Any = None) -> str:
    """A string."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{argument} must be a string, not {value!r:.60}")
    return value


def anything(argument: str, value: Any, _: Any = None) -> Any:
    """Any value, passed on unchanged."""
    return value


def stand_in_value(argument: str, value: Any, _: Any = None) -> float:
    """``zero_division``: nan, or the finite number to return without a warning."""
    return zero_division_of(value)


def array_of(argument: str, value: Any) -> np.ndarray:
    """An array of bools, integers or floats, or of Python's integers as objects; else `InvalidInputError`."""
    refuse_masked(argument, value)
    try:
        array = as_array(value, argument)
    except InvalidInputError:
        raise
    except Exception:  # ragged lists, integers beyond float64 among floats, and whatever an object's __array__ raises
        raise InvalidInputError(f"{argument} must be an array of numbers, not {value!r:.60}") from None
    if array.dtype.kind not in "biuf" and not _are_integers(array):
        shown = entries_in_words(array) if array.size else f"{value!r:.60}"
        raise InvalidInputError(f"{argument} must be an array of numbers, not {shown}")
    return array


def _are_integers(array: np.ndarray) -> bool:
    return array.dtype == object and all(type(value) is int for value in array.flat)
