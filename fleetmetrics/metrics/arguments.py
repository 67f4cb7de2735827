"""The arguments that many metrics have: each is checked when the metric is made."""

from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError

__all__ = ["choice_of", "edges_of", "number_of", "whole_number_of", "zero_division_of"]


def whole_number_of(argument: str, value: Any, least: int) -> int:
    """An integer.

    Raises:
        InvalidInputError: it is none, or below the least one allowed.
    """
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise InvalidInputError(f"{argument} must be an integer of at least {least}, not {value!r}")
    return int(value)


def number_of(argument: str, value: Any, low: float = -math.inf, high: float = math.inf, allowed: str = "") -> float:
    """A finite number as a float.

    Args:
        argument: its name, for the message.
        value: what was given.
        low: the least one allowed.
        high: the largest one allowed.
        allowed: what is allowed, in words, where that is more than a range.

    Raises:
        InvalidInputError: it is none, or outside of the range.
    """
    if _is_number(value) and low <= value <= high:
        return float(value)
    if not allowed:
        allowed = "a finite number" if math.isinf(low) else f"a number from {low:g} to {high:g}"
        allowed = f"a finite number of at least {low:g}" if math.isinf(high) and not math.isinf(low) else allowed
    raise InvalidInputError(f"{argument} must be {allowed}, not {value!r}")


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    )


def choice_of(argument: str, value: Any, allowed: Sequence[str]) -> str:
    """One of several texts.

    Raises:
        InvalidInputError: it is none of them.
    """
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInputError(f"{argument} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def zero_division_of(value: Any) -> float:
    """``zero_division``: nan, or what stands in without a warning.

    Raises:
        InvalidInputError: it is neither nan nor a finite number.
    """
    if _is_number(value) or (isinstance(value, (float, np.floating)) and math.isnan(value)):
        return float(value)
    raise InvalidInputError(f"zero_division must be nan or a finite number, not {value!r}")


def edges_of(bins: Any, low: float, high: float) -> tuple[float, ...]:
    """The edges of bins: ``bins`` of equal width between ``low`` and ``high``; or ``bins`` itself, if it holds edges.

    Raises:
        InvalidInputError: it is no whole number of at least 1, and holds no finite, rising numbers.
    """
    try:
        edges = np.asarray(bins)
    except ValueError:  # ragged lists
        edges = np.empty(0)
    if edges.ndim == 0:
        return tuple(np.linspace(low, high, whole_number_of("bins", bins, 1) + 1).tolist())
    good = edges.ndim == 1 and edges.size > 1 and edges.dtype.kind in "iuf" and bool(np.isfinite(edges).all())
    if not good or not (np.diff(edges.astype(np.float64)) > 0).all():
        raise InvalidInputError(
            f"bins must be an integer of at least 1, or the edges of the bins: two or more finite numbers, each larger "
            f"than the one before; not {bins!r}"
        )
    return tuple(edges.astype(np.float64).tolist())
