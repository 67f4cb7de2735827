"""Functions that name the argument that was meant, where they are given one that they do not have."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, TypeVar, cast

from fleetmetrics.errors import UnknownArgumentError
from fleetmetrics.support.hints import hint_of_argument

__all__ = ["knows_its_arguments"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def knows_its_arguments(function: _Function) -> _Function:
    """A function that raises UnknownArgumentError for an argument that it does not have."""
    parameters = inspect.signature(function).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]

    @functools.wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        for name in named:
            if name not in known:
                hint = hint_of_argument(name, known)
                raise UnknownArgumentError(
                    f"{function.__name__} has no argument {name!r}{hint} It takes {', '.join(known)}"
                )
        return function(*values, **named)

    return cast(_Function, call)
