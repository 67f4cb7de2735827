"""Checks of settings, made when a metric is created.

The error is an `InvalidInputError`, which names the argument, its value, and what is allowed.
"""

from __future__ import annotations

import math
import os
import warnings
from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.support.tensors import as_array

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
        raise InvalidInputError(f"{name} is {values!r}; it must hold integers of at least 0.")
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
    if not (value is None or isinstance(value, str)) or value not in allowed:
        raise InvalidInputError(f"{argument} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


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
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
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


def array_of(value: Any) -> np.ndarray:
    """An argument as an array; an empty one for ragged lists and masked arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy before 1.24 makes object arrays of ragged lists, and warns
        try:
            return np.empty(0) if np.ma.is_masked(value) else as_array(value, "value")
        except Exception:  # ragged lists, and whatever an object's __array__ raises
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
