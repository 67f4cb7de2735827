"""Pure functions from global statistics to the value: NumPy only, no Paddle, no communication.

Each name is imported at its first use.
"""

from __future__ import annotations

from typing import Any

from fleetmetrics.formulas import _names
from fleetmetrics.support.lazy import first_use

__all__ = sorted(_names.MODULES)


def __getattr__(name: str) -> Any:
    value = globals()[name] = first_use(__name__, name, _names.MODULES)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
