"""Pure functions from global statistics to the value: NumPy only, no Paddle, no communication.

Each name is imported at its first use.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import fleetmetrics
from fleetmetrics import _names

__all__ = sorted(_names.FORMULAS)
__dir__: Callable[[], list[str]] = functools.partial(sorted, __all__)


def __getattr__(name: str) -> Any:
    value = globals()[name] = fleetmetrics._first_use(__name__, name, _names.FORMULAS)
    return value
