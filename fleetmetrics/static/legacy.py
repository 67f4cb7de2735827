"""State variables in the legacy graph (Paddle 2.6)."""

from __future__ import annotations

from typing import Any, Callable

import paddle


def find(program: Any, name: str) -> Any:
    """The variable of this name in the program's global block; None if there is none."""
    return program.global_block().vars.get(name)


def create(name: str, shape: tuple[int, ...], dtype: str, fill: Callable[[], Any]) -> Any:
    """A persistable variable of the main program that the startup program sets to what ``fill`` makes."""
    main, startup = paddle.static.default_main_program(), paddle.static.default_startup_program()
    settings = dict(name=name, shape=list(shape), dtype=dtype, persistable=True, stop_gradient=True)
    with paddle.static.program_guard(startup):
        paddle.assign(fill(), output=startup.global_block().create_var(**settings))
    return main.global_block().create_var(**settings)
