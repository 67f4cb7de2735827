"""``patch_fleet``: fleetmetrics behind ``paddle.distributed.fleet.metrics``, for scripts that nobody may edit."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from fleetmetrics import functional
from fleetmetrics._version import __version__
from fleetmetrics.comm.launchers import is_server, rank_told

__all__ = ["patch_fleet"]

_THEIRS = "paddle.distributed.fleet.metrics.metric"

_active: list[patch_fleet] = []
_originals: dict[str, tuple[Any, Any, Any]] = {}


class patch_fleet:
    """Put fleetmetrics behind the eight functions of ``paddle.distributed.fleet.metrics``, until `undo`.

    `sum`, `max`, `min`, `acc`, `auc`, `mae`, `mse` and `rmse` answer as `fleetmetrics.functional` does, by whatever
    name a script reaches them, also by one that it has imported before. This imports nothing of Paddle: where Paddle is
    not there yet, it happens when it comes. Rank 0 then says so in one line on stderr. ``util=fleet.util``, which is
    local where Gloo is off, means fleetmetrics' channel; a ``util`` of your own is used.

    It is a context manager, too. Two at a time are as one, which ends with the last.

    Examples:
        >>> from paddle.distributed import fleet
        >>> import fleetmetrics, numpy as np
        >>> with fleetmetrics.patch_fleet():
        ...     fleet.metrics.sum(np.array([16777217.0])).dtype
        dtype('float64')
    """

    def __init__(self) -> None:
        _active.append(self)
        if _THEIRS in sys.modules:
            _exchange(sys.modules[_THEIRS])
        else:
            sys.meta_path.insert(0, self)

    def undo(self) -> None:
        """Give Paddle its functions back; a second call does nothing."""
        if self in _active:
            _active.remove(self)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if not _active and _originals:
            for name, original in _originals.items():
                function = getattr(sys.modules[_THEIRS], name)
                function.__code__, function.__defaults__, function.__kwdefaults__ = original
            _originals.clear()

    def __enter__(self) -> patch_fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find Paddle's module as Python does, once, and see to it that its functions are exchanged as it is loaded."""
        if name != _THEIRS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_exchange(module: ModuleType) -> None:
                load(module)
                if _active:
                    _exchange(module)

            spec.loader.exec_module = load_and_exchange  # type: ignore[method-assign]
        return spec


def _exchange(module: ModuleType) -> None:
    """Exchange the code of the functions, not their names in the module: then who has imported a name follows."""
    if _originals:
        return
    for name in functional.__all__:
        function = getattr(module, name)
        _originals[name] = function.__code__, function.__defaults__, function.__kwdefaults__
        function.__code__, function.__defaults__, function.__kwdefaults__ = _ours.__code__, None, {"_name": name}
    if rank_told(os.environ) == 0 and not is_server(os.environ):
        which = f"paddle.distributed.fleet.metrics: {', '.join(functional.__all__)}"
        print(f"fleetmetrics {__version__} answers for {which}", file=sys.stderr)


def _ours(*given: Any, _name: str, **named: Any) -> Any:
    from fleetmetrics import patch  # this code runs with the globals of Paddle's module

    return patch.answer(_name, given, named)


def answer(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What fleetmetrics gives for a call of one of Paddle's functions."""
    function = getattr(functional, name)
    call = inspect.signature(function).bind(*given, **named)
    if type(call.arguments.get("util")) is getattr(sys.modules["paddle.distributed.fleet"], "UtilBase", None):
        call.arguments["util"] = None
    return function(*call.args, **call.kwargs)
