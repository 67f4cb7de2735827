"""fleetmetrics: global metrics for Paddle's distributed jobs.

N workers print the number that one process would print over the whole data set, the same on every rank, or
they all raise the same clear error before the deadline.

Examples:
        >>> import fleetmetrics
        >>> auc = fleetmetrics.AUC()
        >>> auc.add(prediction=[0.1, 0.4, 0.35, 0.8], label=[0, 0, 1, 1])
        >>> auc.compute()                           # over all workers, wherever it runs
        0.75

Each name is imported at its first use. Only ``fleetmetrics.static`` imports Paddle; without Paddle
``hasattr(fleetmetrics, "static")`` is False, and ``import fleetmetrics.static`` says what to install.
"""

from __future__ import annotations

import importlib
from typing import Any

from fleetmetrics import _names

_modules = _names.MODULES
__all__ = sorted({*_modules}.difference(_names.NOT_STARRED))


def __getattr__(name: str) -> Any:
    if name in _modules:
        value = getattr(importlib.import_module(_modules[name]), name)
    elif name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        try:
            value = importlib.import_module(f"{__name__}.{name}")
        except ImportError as error:
            if error.name != f"{__name__}.{name}":  # `hasattr` takes only an AttributeError for a no
                raise AttributeError(f"module {__name__!r} has no attribute {name!r} here: {error}") from error
            from fleetmetrics.hints import hint_of_name

            hint = hint_of_name(name, {each: each for each in _modules})
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, and no module of Python's that this one imports."""
    return sorted({*(name for name in globals() if name.startswith("__")), *_modules, *_names.ROOMS})
