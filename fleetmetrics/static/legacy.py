"""State variables in the legacy graph (Paddle 2.6)."""

from __future__ import annotations

from typing import Any, Callable

import paddle


def find(program: Any, name: str) -> Any:
    """The variable of this name in the program's global block; None if there is none."""
    return program.global_block().vars.get(name)


def store(value: Any, variable: Any) -> None:
    """Let the operation that made a value, the last one of the program, write it into a variable instead.

    One operation less than `paddle.assign`, and no copy: a state of 2**20 buckets is updated where it lies.
    """
    operation = paddle.static.default_main_program().current_block().ops[-1]
    if operation.output_arg_names != [value.name]:
        paddle.assign(value, output=variable)
        return
    operation._rename_output(value.name, variable.name)
    value.block._remove_var(value.name)


def create(name: str, shape: tuple[int, ...], dtype: str, fill: Callable[[], Any]) -> Any:
    """A persistable variable of the main program that the startup program sets to what ``fill`` makes."""
    main, startup = paddle.static.default_main_program(), paddle.static.default_startup_program()
    settings = dict(name=name, shape=list(shape), dtype=dtype, persistable=True, stop_gradient=True)
    with paddle.static.program_guard(startup):
        paddle.assign(fill(), output=startup.global_block().create_var(**settings))
    return main.global_block().create_var(**settings)
