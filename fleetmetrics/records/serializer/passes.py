"""Passes over many values that stay in C."""

from __future__ import annotations

from functools import cached_property
from itertools import chain, cycle
from operator import countOf, eq, is_
from typing import Any, Dict, Iterable

import numpy as np

__all__ = ["Level", "have_keys", "numbered"]


class Level:
    """The lists or dicts of one level in which values lie.

    Args:
        containers: all of them.
    """

    def __init__(self, containers: list[Any]) -> None:
        self._containers = containers

    @cached_property
    def _ids(self) -> set[int]:
        return set(map(id, self._containers))

    def holds_any(self, containers: list[Any]) -> bool:
        """Whether one of these is at this level too.

        Args:
            containers: of another level.
        """
        return bool(containers) and not self._ids.isdisjoint(map(id, containers))


class _Numbers(Dict[Any, int]):
    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def numbered(keys: Iterable[Any]) -> tuple[list[Any], np.ndarray]:
    """Number keys in the order in which they come.

    Args:
        keys: hashable.

    Returns:
        The distinct keys, and for each key its number as a byte; nothing at all if there are more than 256.

    Examples:
        >>> numbered("abca")
        (['a', 'b', 'c'], array([0, 1, 2, 0], dtype=uint8))
    """
    numbers = _Numbers()
    try:
        codes = bytes(map(numbers.__getitem__, keys))
    except ValueError:  # no byte
        return [], np.empty(0, np.uint8)
    return list(numbers), np.frombuffer(codes, np.uint8)


def have_keys(dicts: list[Any], keys: list[Any]) -> bool:
    """Whether all dicts have these keys in this order, and they are texts that JSON keeps.

    Args:
        dicts: many.
        keys: of one of them.
    """
    if countOf(map(len, dicts), len(keys)) < len(dicts) or not {str}.issuperset(map(type, keys)):
        return False
    if not "".join(keys).isprintable():  # JSON joins surrogates
        return False
    if all(map(is_, chain.from_iterable(dicts), cycle(keys))):
        return True
    of_one_type = {str}.issuperset(map(type, chain.from_iterable(dicts)))
    return of_one_type and all(map(eq, chain.from_iterable(dicts), cycle(keys)))
