"""What the members of a collection have in common: each state, table or ring once, by what it counts."""

from __future__ import annotations

from typing import Any, Hashable, TypeVar

__all__ = ["Shared"]

_T = TypeVar("_T")


class Shared:
    """Things that several metrics use, by their class and a key."""

    def __init__(self) -> None:
        self._held: dict[tuple[type, Hashable], Any] = {}

    def first(self, key: Hashable, own: _T) -> _T:
        """The one of its class that came first with this key; a metric's own, if none has.

        Args:
            key: what it counts, and by which settings.
            own: what the metric would use alone.
        """
        found: _T = self._held.setdefault((type(own), key), own)
        return found
