"""A device that is not there: the CPU in its place, and a count of everything that would have to wait for it.

This is a stand-in. While it watches, fleetmetrics takes every tensor for one on a device, and each call is written down
by which a program asks the device for values, for a shape that depends on values, or gives it values from the host. It
sees what Python asks Paddle for, and which of Paddle's operations run; it does not see what a kernel does inside.
`make gpu` has the profiler count that, on a device.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from typing import Any, Callable

import paddle

from fleetmetrics.xp import paddle_ops
from tests.cases.base import Data

#: Methods of a tensor that bring its values to the host, or values from there.
METHODS = (
    *("numpy", "item", "tolist", "cpu", "cuda", "to", "pin_memory", "data_ptr", "set_value", "copy_", "_copy_to"),
    *("__array__", "__bool__", "__int__", "__long__", "__float__", "__index__", "__complex__", "__contains__"),
    *("__dlpack__", "__reduce_ex__", "__deepcopy__", "__repr__", "__str__", "__format__"),
)
#: Functions that do, or whose result has a shape that depends on values.
FUNCTIONS = (
    *("to_tensor", "tolist", "nonzero", "masked_select", "unique", "unique_consecutive", "bincount", "histogram"),
    *("linspace", "is_empty", "nanmedian", "median", "allclose", "equal_all", "numel"),
)
#: The same among the operations below the functions, by their names in either version of Paddle.
OPERATIONS = (
    *("nonzero", "where_index", "masked_select", "unique", "unique_consecutive", "bincount", "histogram", "numel"),
    *("linspace", "is_empty", "nanmedian", "allclose", "equal_all", "repeat_interleave_with_tensor_index"),
    *("memcpy", "memcpy_d2h", "memcpy_h2d", "copy_to", "set_value", "set_value_with_tensor", "index_put"),
)
#: What runs in `add`, of either version's operations: the shape of each one's result follows from shapes alone. Before
#: another one joins them, check whether its kernel waits for the device.
LOOKED_AT = frozenset(
    [
        *(
            "abs",
            "add",
            "all",
            "arange",
            "argmax",
            "argmin",
            "bitwise_and",
            "bitwise_xor",
            "cast",
            "clip",
            "concat",
            "cumsum",
        ),
        *("divide", "elementwise_pow", "equal", "exp", "expand", "expand_as", "floor_divide", "full", "full_like"),
        *("gather", "greater_equal", "greater_than", "isfinite", "less_than", "log", "log1p", "logical_and"),
        *("logical_not", "logical_or", "matmul", "max", "maximum", "min", "minimum", "multiply", "remainder"),
        *("reshape", "scale", "scatter_", "scatter_nd_add", "searchsorted", "sigmoid", "sinh", "sqrt", "square"),
        *("stack", "subtract", "sum", "take_along_axis", "tile", "transpose", "unsqueeze", "where"),
    ]
)
#: The cases of the contract whose `add` waits all the same, and for what; docs/howto/dynamic.md says why. What is
#: fixed goes from this list, and nothing comes to it.
WAITS = {
    # Sliced without keys: which slices there are is found on the host, and the states are there.
    "sliced auc": {"numpy", "to_tensor"},
    "sliced variance by text": {"numpy", "to_tensor"},
    "sliced gauc": {"numpy", "to_tensor"},
    # SciPy measures the distances, on the host.
    "boundary f": {"numpy", "to_tensor"},
    "hausdorff distance": {"numpy", "to_tensor"},
}
_MISSING = object()


def on_device(part: Data) -> Data:
    """A batch as tensors, columns too; texts stay where they are, and weights with them."""
    if part.prediction.dtype.kind == "O":
        return part

    columns = {
        name: column if column.dtype.kind == "U" else paddle.to_tensor(column) for name, column in part.columns.items()
    }
    return part.map(paddle.to_tensor)._replace(columns=columns)


#: The devices that watch now.
_WATCHING: list[Device] = []


@functools.lru_cache(maxsize=None)
def _operations() -> tuple[dict[str, Any], dict[str, Any]]:
    """Paddle's operations, and those in their places while a device watches: too many to make for each one."""
    operations = {
        name: operation
        for name, operation in vars(paddle._C_ops).items()
        if callable(operation) and not name.startswith("_")
    }
    return operations, {name: _counted(name, operation) for name, operation in operations.items()}


def _counted(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **named: Any) -> Any:
        _WATCHING[-1].ran(name)
        return operation(*args, **named)

    return counted


class Device:
    """Watches until the end of the block.

    Attributes:
        waits: how often each method, function or operation was called that would wait.
        places: where in fleetmetrics that was.
        operations: how often each of Paddle's operations ran.
    """

    def __init__(self) -> None:
        self.waits: Counter[str] = Counter()
        self.places: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self._inside = 0
        self._before: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Device:
        self._put(paddle_ops, "is_eager", lambda tensor: False)
        for name in METHODS:
            if hasattr(paddle.Tensor, name):
                self._put(paddle.Tensor, name, self._waiting(name, getattr(paddle.Tensor, name)))
        self._put(paddle.Tensor, "__getitem__", self._index(paddle.Tensor.__getitem__))
        for name in FUNCTIONS:
            if hasattr(paddle, name):
                self._put(paddle, name, self._waiting(name, getattr(paddle, name)))
        vars(paddle._C_ops).update(_operations()[1])
        _WATCHING.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _WATCHING.remove(self)
        if not _WATCHING:
            vars(paddle._C_ops).update(_operations()[0])
        for owner, name, before in reversed(self._before):
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        self._before.clear()

    def _put(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def _waiting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function, updated=())
        def counted(*args: Any, **named: Any) -> Any:
            self._count(name)
            return self._call(function, args, named)

        return counted

    def ran(self, name: str) -> None:
        """Count an operation, unless it is part of a call that is counted."""
        if not self._inside:
            self.operations[name] += 1
            if name in OPERATIONS:
                self._count(name)

    def _index(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(tensor: Any, index: Any) -> Any:
            if any(not isinstance(each, (int, slice, type(None), type(...))) for each in _each(index)):
                self._count("indexing by values")
            return self._call(function, (tensor, index), {})

        return counted

    def _count(self, name: str) -> None:
        if self._inside:  # one method that calls another is one wait
            return
        self.waits[name] += 1
        frame: Any = sys._getframe(2)
        while frame is not None and not frame.f_globals.get("__name__", "").startswith("fleetmetrics"):
            frame = frame.f_back
        if frame is not None:
            self.places[f"{frame.f_globals['__name__']}.{frame.f_code.co_name}: {name}"] += 1

    def _call(self, function: Callable[..., Any], args: Any, named: Any) -> Any:
        self._inside += 1
        try:
            return function(*args, **named)
        finally:
            self._inside -= 1


def _each(index: Any) -> Any:
    return index if isinstance(index, tuple) else (index,)
