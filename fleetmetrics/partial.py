"""Partial results: what parts of the data have done, as values that are merged, in any order."""

from __future__ import annotations

import copy
from typing import Any, Iterable

from fleetmetrics.errors import InvalidInputError

__all__ = ["merge_all"]


def merge_all(parts: Iterable[Any]) -> Any:
    """What all parts hold, as a new metric or collection; the sums are rounded once, so their order does not matter.

    Args:
        parts: metrics, or collections, of one class with the same settings, at least one; they stay as they are.

    Returns:
        Another of that class, with the name of the first.

    Raises:
        InvalidInputError: there are no parts, or class, settings or states differ; it says which.

    Examples:
        >>> from fleetmetrics import Mean
        >>> parts = [Mean(), Mean(), Mean()]
        >>> for part, values in zip(parts, ([1.0, 2.0], [3.0], [])):
        ...     part.add(values)
        >>> merge_all(parts).compute()
        2.0
    """
    parts = list(parts)
    if not parts:
        raise InvalidInputError("parts is empty; give at least one metric or collection")
    if not hasattr(parts[0], "merge"):
        raise InvalidInputError(f"parts must hold metrics or collections, not {type(parts[0]).__name__}")
    merged = copy.deepcopy(parts[0])
    merged.merge(parts[1:])
    return merged
