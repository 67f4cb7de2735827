"""``patch_fleet``: fleetmetrics behind ``fleet.metrics`` and ``fleet.util``, for scripts that you cannot edit."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import Any, Callable

import numpy as np

from fleetmetrics import functional
from fleetmetrics._version import __version__
from fleetmetrics.comm import communicator_for
from fleetmetrics.comm.failures import Caught
from fleetmetrics.comm.launchers import rank_told
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers.reductions import REDUCTIONS
from fleetmetrics.state.state import read
from fleetmetrics.support.checks import choice_of, flag_of, knows_its_arguments
from fleetmetrics.support.launcher import other_role

__all__ = ["patch_fleet"]

_METRICS = "paddle.distributed.fleet.metrics.metric"
_UTIL = "paddle.distributed.fleet.base.util_factory"

_active: list[patch_fleet] = []
#: By module and function: code, defaults, keyword defaults.
_originals: dict[str, dict[str, tuple[CodeType, Any, Any]]] = {}


class patch_fleet:
    """Put fleetmetrics behind the eight functions of ``paddle.distributed.fleet.metrics``, until `undo`.

    `sum`, `max`, `min`, `acc`, `auc`, `mae`, `mse` and `rmse` behave like `fleetmetrics.functional` under every
    name, including names that the script imported earlier. This does not import Paddle: if Paddle is not imported
    yet, the patch waits for its import. Rank 0 then reports it in one line on stderr. ``util=fleet.util``, which is
    local without Gloo, means fleetmetrics' channel.

    It is also a context manager. Nested patches end with the outermost.

    Args:
        util: whether ``all_reduce``, ``all_gather`` and ``barrier`` of ``fleet.util`` also use the channel: choose this
            without Gloo and under the collective launcher. A sum is int64 or float64. Calls that include servers, by
            ``comm_world``, stay Paddle's.

    Examples:
        >>> from paddle.distributed import fleet
        >>> import fleetmetrics, numpy as np
        >>> with fleetmetrics.patch_fleet(util=True):
        ...     fleet.metrics.sum(np.array([16777217.0])).dtype, fleet.util.all_reduce([3, 4], "max")
        (dtype('float64'), array([3, 4]))
    """

    modules: list[str]

    @knows_its_arguments
    def __init__(self, *, util: bool = False) -> None:
        self.modules = [_METRICS, _UTIL] if flag_of("util", util) else [_METRICS]
        self._awaited = {name for name in self.modules if name not in sys.modules}
        _active.append(self)
        for name in self.modules:
            if name not in self._awaited:
                _exchange(sys.modules[name])
        if self._awaited:
            sys.meta_path.insert(0, self)

    def __repr__(self) -> str:
        return "patch_fleet(util=True)" if _UTIL in self.modules else "patch_fleet()"

    def undo(self) -> None:
        """Restore Paddle's functions; further calls do nothing."""
        if self in _active:
            _active.remove(self)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for module in [original for original in _originals if not any(original in other.modules for other in _active)]:
            functions = _functions(sys.modules[module])
            for name, original in _originals.pop(module).items():
                function = functions[name]
                function.__code__, function.__defaults__, function.__kwdefaults__ = original

    def __enter__(self) -> patch_fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find a module of Paddle as Python does, once; patch its functions as soon as it is loaded."""
        if name not in self._awaited:
            return None
        self._awaited.remove(name)
        if not self._awaited:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_exchange(module: ModuleType) -> None:
                load(module)
                if self in _active:
                    _exchange(module)

            spec.loader.exec_module = load_and_exchange  # type: ignore[method-assign]
        return spec


def _functions(module: ModuleType) -> dict[str, Any]:
    """The functions of a module of Paddle that are patched."""
    if module.__name__ == _UTIL:
        return {name: getattr(module.UtilBase, name) for name in _UTIL_ANSWERS}
    return {name: getattr(module, name) for name in functional.__all__}


def _exchange(module: ModuleType) -> None:
    """Replace the code of the functions, not their names in the module: then imported names follow."""
    if module.__name__ in _originals:
        return
    functions, ours = _functions(module), _ours_of_util if module.__name__ == _UTIL else _ours
    kept = _originals[module.__name__] = {}
    for name, function in functions.items():
        kept[name] = function.__code__, function.__defaults__, function.__kwdefaults__
        function.__code__, function.__defaults__, function.__kwdefaults__ = ours.__code__, None, {"_name": name}
    if rank_told(os.environ) == 0 and not other_role(os.environ):
        where = "fleet.util" if module.__name__ == _UTIL else "paddle.distributed.fleet.metrics"
        print(f"fleetmetrics {__version__} replaces functions of {where}: {', '.join(functions)}", file=sys.stderr)


def _ours(*arguments: Any, _name: str, **named: Any) -> Any:
    from fleetmetrics.integrations import patch  # this code runs with the globals of Paddle's module

    return patch.answer(_name, arguments, named)


def _ours_of_util(*arguments: Any, _name: str, **named: Any) -> Any:
    from fleetmetrics.integrations import patch

    return patch.answer_of_util(_name, arguments, named)


def answer(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Answer a call of one of Paddle's functions."""
    function = getattr(functional, name)
    call = _bound("fleet.metrics", name, function, arguments, named)
    if type(call.arguments.get("util")) is getattr(sys.modules["paddle.distributed.fleet"], "UtilBase", None):
        call.arguments["util"] = None
    return function(*call.args, **call.kwargs)


def _bound(
    where: str, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> inspect.BoundArguments:
    try:
        return inspect.signature(function).bind(*arguments, **named)
    except TypeError as error:
        raise TypeError(f"{where}.{name}: {error}") from None


def answers_util() -> bool:
    """Whether the methods of ``fleet.util`` are replaced at the moment."""
    return _UTIL in _originals


# -- fleet.util --------------------------------------------------------------------------------------------


def answer_of_util(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Answer a call of a method of ``fleet.util``; leave calls that include servers to Paddle."""
    function = _UTIL_ANSWERS[name]
    call = _bound("fleet.util", name, function, arguments, named)
    call.apply_defaults()
    if choice_of("comm_world", call.arguments["comm_world"], ("worker", "server", "all")) == "worker":
        return function(*call.args, **call.kwargs)
    code, defaults, by_name = _originals[_UTIL][name]
    theirs = FunctionType(code, vars(sys.modules[_UTIL]), name, defaults)
    theirs.__kwdefaults__ = by_name
    return theirs(*arguments, **named)


def _all_reduce(self: Any, input: Any, mode: str = "sum", comm_world: str = "worker") -> np.ndarray:
    reduced: np.ndarray = getattr(functional, choice_of("mode", mode, REDUCTIONS))(input)
    return reduced


def _all_gather(self: Any, input: Any, comm_world: str = "worker") -> list[Any]:
    number = np.empty(1)
    with Caught() as caught:
        number = read(input)
        if number.size != 1:
            raise InvalidInputError(
                f"input must be one number, as Paddle's all_gather takes, not {number.size} of them"
            )
    gathered = communicator_for(None).all_gather(number.reshape(-1), trouble=caught.error)
    return [array.item() for array in gathered]


def _barrier(self: Any, comm_world: str = "worker") -> None:
    communicator_for(None).barrier()


_UTIL_ANSWERS: dict[str, Callable[..., Any]] = {
    "all_gather": _all_gather,
    "all_reduce": _all_reduce,
    "barrier": _barrier,
}
