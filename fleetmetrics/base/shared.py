"""The common parts of a collection's members: each state, table or ring once, by the quantity that it counts."""

from __future__ import annotations

from typing import Any, Hashable, TypeVar

__all__ = ["Shared"]

_T = TypeVar("_T")


class Shared:
    """Things that several metrics use, by their class and a key."""

    def __init__(self) -> None:
        self._held: dict[tuple[type, Hashable], Any] = {}

    def first(self, key: Hashable, own: _T) -> _T:
        """The first object of this class with this key; the metric's own if there was no earlier one.

        Args:
            key: the counted quantity, and the settings.
            own: the object that the metric would use alone.
        """
        first: _T = self._held.setdefault((type(own), key), own)
        return first
