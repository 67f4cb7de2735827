"""Hostile calls: every public function with an example gets nonsense, one argument at a time.

What a function is called with otherwise is what the example in its docstring calls it with, so that a new function is
attacked as soon as it has one. `docs/scripts/hostile.py` counts the outcomes of the calls.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import decimal
import doctest
import fractions
import importlib
import inspect
import io
import types
import warnings
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np

from fleetmetrics import FleetMetricsError

#: Where public functions are.
MODULES = [
    *[f"formulas.{name}" for name in ("aggregation", "auc", "bootstrap", "calibration", "class_areas")],
    *[f"formulas.{name}" for name in ("classification", "click_through", "confusion", "correlation", "curves")],
    *[f"formulas.{name}" for name in ("exact_areas", "groups", "operating_points", "pairs", "quotients", "ranking")],
    *("functional", "numbers.reductions", "samplers.sampling"),
]


class Raises:
    """Whatever is asked of it is an error of its own."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")

    def __len__(self) -> int:
        raise RuntimeError("no length")

    __iter__ = __float__ = __index__ = __array__

    def __repr__(self) -> str:
        return "Raises()"


def circular() -> list[Any]:
    """A list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


def unequal() -> Any:
    """A masked array."""
    return np.ma.masked_array([0.25, 0.5, 0.75], [False, True, False])


#: Objects that no function takes, created for each call.
OBJECTS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "-1": lambda: -1,
    "-0.0": lambda: -0.0,
    "0": lambda: 0,
    "2": lambda: 2,
    "1.5": lambda: 1.5,
    "1e308": lambda: 1e308,
    "5e-324": lambda: 5e-324,
    "2**63": lambda: 2**63,
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "True": lambda: True,
    "complex": lambda: 1j,
    "Decimal": lambda: decimal.Decimal("0.5"),
    "Decimal nan": lambda: decimal.Decimal("nan"),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "text": lambda: "anything",
    "empty text": lambda: "",
    "number as text": lambda: "1",
    "surrogate": lambda: "\ud800",
    "bytes": lambda: b"abc",
    "list": lambda: [],
    "tuple": lambda: (),
    "dict": dict,
    "dict of numbers": lambda: {"a": 1.0},
    "set": lambda: {1, 2},
    "range": lambda: range(3),
    "generator": lambda: (each for each in (1, 2, 3)),
    "object": object,
    "class": lambda: int,
    "function": lambda: len,
    "module": lambda: np,
    "date": lambda: datetime.datetime(2020, 1, 1),
    "raises": Raises,
    "circular": circular,
    "ragged": lambda: [[1, 2], [3]],
    "ragged arrays": lambda: [np.zeros(2), np.zeros(3)],
    "list of None": lambda: [None, None],
    "list of strings": lambda: ["a", "b"],
    "list of dicts": lambda: [{}],
    "list with a huge integer": lambda: [10**400, 1],
    "list of huge and float": lambda: [10**400, 1.5],
    "list of nan": lambda: [float("nan")] * 3,
    "list of one": lambda: [0.5],
    "list of nine": lambda: [1] * 9,
    "falling": lambda: [3.0, 2.0, 1.0],
    "0-d": lambda: np.array(0.5),
    "5-d": lambda: np.ones((1, 2, 1, 2, 1)),
    "negative": lambda: np.array([-1.0, -2.0, -3.0]),
    "infinite": lambda: np.array([np.inf, -np.inf]),
    "complex array": lambda: np.array([1j, 2j]),
    "texts": lambda: np.array(["a", "b"]),
    "array of bytes": lambda: np.array([b"a", b"b"]),
    "objects": lambda: np.array([object(), None]),
    "dates": lambda: np.array(["2020-01-01", "NaT"], "datetime64[D]"),
    "durations": lambda: np.array([1, 2], "timedelta64[s]"),
    "records": lambda: np.zeros(2, [("a", int), ("b", float)]),
    "void": lambda: np.zeros(2, "V4"),
    "masked": unequal,
    "masked matrix": lambda: np.ma.masked_array([[3, 1], [2, 4]], [[False, True], [False, False]]),
    "long double": lambda: np.longdouble("1e4000"),
    "uint64": lambda: np.full(3, 2**64 - 1, np.uint64),
    "flags": lambda: np.array([True, False]),
    "int8": lambda: np.array([-128, 127], np.int8),
    "read-only": lambda: np.broadcast_to(np.float64(0.5), (3,)),
}


class Call(NamedTuple):
    """A call of a function, with one argument replaced."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    argument: str
    object: str

    def __str__(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}({self.argument}={self.object})"


class Seen(BaseException):
    """The call that an example makes; no example catches it."""


def functions(name: str) -> Iterator[Callable[..., Any]]:
    """The public functions of a module that have an example."""
    module = importlib.import_module(f"fleetmetrics.{name}")
    for key, found in sorted(vars(module).items()):
        own = isinstance(found, types.FunctionType) and found.__module__ == module.__name__
        if own and not key.startswith("_") and ">>>" in (found.__doc__ or ""):
            yield found


def example_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The arguments by name of the first call in the docstring's example."""
    names = dict(vars(importlib.import_module(function.__module__)))

    def stop(*args: Any, **named: Any) -> Any:
        raise Seen(args, named)

    names[function.__name__] = stop
    for example in doctest.DocTestParser().get_examples(inspect.getdoc(function) or ""):
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example.source, function.__name__, "single"), names)
        except Seen as seen:
            args, named = seen.args
            return dict(inspect.signature(function).bind(*args, **named).arguments)
    raise LookupError(f"no example of {function.__qualname__} calls it")


def calls(module: str) -> Iterator[Call]:
    """All calls of the functions of a module."""
    for function in functions(module):
        example = example_of(function)
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            for key, make in OBJECTS.items():
                yield Call(function, {**copy.deepcopy(example), name: make()}, name, key)


def outcome(call: Call) -> tuple[str, str]:
    """How a call ends: "accepted", "named" or "raw", and the value or the error in words."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "accepted", f"{call.function(**call.arguments)!r}"
        except FleetMetricsError as error:
            return "named", str(error)
        except Exception as error:
            return "raw", f"{type(error).__name__}: {error}"
