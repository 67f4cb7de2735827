"""State variables in PIR, the program representation of Paddle 3.x."""

from __future__ import annotations

from typing import Any, Callable

import paddle

_HOLDERS = ("pd_op.data", "builtin.parameter")  # the operations that bring a named variable into a program


def find(program: Any, name: str) -> Any:
    """The persistable value of this name in the program; None if there is none."""
    for operation in program.global_block().ops:
        if operation.name() in _HOLDERS:
            for value in operation.results():
                if value.has_name and value.name == name:
                    return value
    return None


def store(value: Any, variable: Any) -> None:
    """Append the operation that puts a value into a variable."""
    paddle.assign(value, output=variable)


def create(name: str, shape: tuple[int, ...], dtype: str, fill: Callable[[], Any]) -> Any:
    """A persistable value of the main program that the startup program sets to what ``fill`` makes."""
    variable = paddle.pir.core.create_persistable_value(
        dtype=dtype, shape=list(shape), name=name, initializer=lambda meta, block: fill()
    )
    variable.stop_gradient = True
    return variable
