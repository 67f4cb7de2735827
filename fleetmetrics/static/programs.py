"""The two kinds of static programs: how a named variable is made in one, found, and written."""

from __future__ import annotations

from typing import Any, Callable, Type, Union

import paddle

__all__ = ["PIR", "Legacy", "Program", "kind_of", "kind_under_construction"]


class Legacy:
    """The legacy graph (Paddle 2.6)."""

    @staticmethod
    def find(program: Any, name: str) -> Any:
        """The variable of this name in the program's global block; None if there is none."""
        return program.global_block().vars.get(name)

    @staticmethod
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

    @staticmethod
    def create(name: str, shape: tuple[int, ...], dtype: str, fill: Callable[[], Any]) -> Any:
        """A persistable variable of the main program that the startup program sets to what ``fill`` makes."""
        main, startup = paddle.static.default_main_program(), paddle.static.default_startup_program()
        settings = dict(name=name, shape=list(shape), dtype=dtype, persistable=True, stop_gradient=True)
        with paddle.static.program_guard(startup):
            paddle.assign(fill(), output=startup.global_block().create_var(**settings))
        return main.global_block().create_var(**settings)


class PIR:
    """PIR, the program representation of Paddle 3.x."""

    #: The operations that bring a named variable into a program.
    HOLDERS = ("pd_op.data", "builtin.parameter")

    @staticmethod
    def find(program: Any, name: str) -> Any:
        """The persistable value of this name in the program; None if there is none."""
        for operation in program.global_block().ops:
            if operation.name() in PIR.HOLDERS:
                for value in operation.results():
                    if value.has_name and value.name == name:
                        return value
        return None

    @staticmethod
    def store(value: Any, variable: Any) -> None:
        """Append the operation that puts a value into a variable."""
        paddle.assign(value, output=variable)

    @staticmethod
    def create(name: str, shape: tuple[int, ...], dtype: str, fill: Callable[[], Any]) -> Any:
        """A persistable value of the main program that the startup program sets to what ``fill`` makes."""
        variable = paddle.pir.core.create_persistable_value(
            dtype=dtype, shape=list(shape), name=name, initializer=lambda meta, block: fill()
        )
        variable.stop_gradient = True
        return variable


Program = Union[Type[Legacy], Type[PIR]]


def kind_under_construction() -> Program:
    """The kind of the programs that are built now."""
    in_pir_mode = getattr(paddle.framework, "in_pir_mode", None)
    return PIR if in_pir_mode is not None and in_pir_mode() else Legacy


def kind_of(program: Any) -> Program:
    """The kind of a program."""
    return Legacy if hasattr(program, "list_vars") and hasattr(program.global_block(), "has_var") else PIR
