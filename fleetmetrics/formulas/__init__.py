"""Pure functions from global statistics to the value: NumPy only, no Paddle, no communication.

Each name is imported at its first use.
"""

from __future__ import annotations

from typing import Any

import fleetmetrics
from fleetmetrics import _names

__all__ = sorted(_names.FORMULAS)


def __getattr__(name: str) -> Any:
    value = globals()[name] = fleetmetrics._first_use(__name__, name, _names.FORMULAS)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
