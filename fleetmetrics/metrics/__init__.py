"""The catalogue of metrics: each one has states, batch statistics and a formula.

An undefined value is nan with `UndefinedMetricWarning`, or ``zero_division`` if that is given.
"""

from __future__ import annotations

from typing import Any

import fleetmetrics
from fleetmetrics._names import MODULES

__all__ = [name for name, module in MODULES.items() if module.startswith(f"{__name__}.")]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(fleetmetrics, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
