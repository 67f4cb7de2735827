"""The two kinds of static programs: creating, finding and writing a named variable."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Type, Union

import paddle

__all__ = ["PIR", "Legacy", "Program", "kind_of", "kind_under_construction"]


class Legacy:
    """The legacy graph (Paddle 2.6)."""

    @staticmethod
    def variables(program: Any) -> Mapping[str, Any]:
        """The variables of the program's global block, by name."""
        return program.global_block().vars

    @staticmethod
    def store(value: Any, variable: Any) -> None:
        """Let the operation that made a value, the last one of the program, write it into a variable instead.

        It takes one operation less than `paddle.assign`, and no copy: a state of 2**20 buckets is updated in place.
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

    @staticmethod
    def auc(inputs: list[Any], positive: Any, negative: Any, settings: dict[str, Any]) -> Any:
        """Append Paddle's ``auc``, which adds a batch to two histograms, and return the area."""
        block = paddle.static.default_main_program().current_block()
        area = block.create_var(dtype="float64", stop_gradient=True)
        names = ("Predict", "Label", "InsTagWeight")
        arguments = {name: [value] for name, value in zip(names, inputs) if value is not None}
        arguments.update(StatPos=[positive], StatNeg=[negative])
        outputs = {"AUC": [area], "StatPosOut": [positive], "StatNegOut": [negative]}
        block.append_op(type="auc", inputs=arguments, outputs=outputs, attrs=settings)
        return area

    @staticmethod
    def sources(value: Any) -> list[str]:
        """The names of the fed and the persistable variables that a value of the program depends on."""
        program = paddle.static.default_main_program()
        sources = {variable.name for variable in program.list_vars() if variable.is_data or variable.persistable}
        needed = {value.name}
        for block in reversed(program.blocks):
            for operation in reversed(block.ops):
                if any(name in needed and name not in sources for name in operation.output_arg_names):
                    needed.update(operation.input_arg_names)
        return sorted(needed & sources)


class PIR:
    """PIR, the program representation of Paddle 3.x."""

    #: The operations that add a named variable to a program.
    HOLDERS = ("pd_op.data", "builtin.parameter")

    @staticmethod
    def variables(program: Any) -> Mapping[str, Any]:
        """The persistable values and the inputs of the program, by name."""
        holders = (operation for operation in program.global_block().ops if operation.name() in PIR.HOLDERS)
        return {value.name: value for holder in holders for value in holder.results() if value.has_name}

    @staticmethod
    def store(value: Any, variable: Any) -> None:
        """Append the operation that puts a value into a variable."""
        paddle.assign(value, output=variable)
        variable.stop_gradient = True  # the assignment changes it

    @staticmethod
    def create(name: str, shape: tuple[int, ...], dtype: str, fill: Callable[[], Any]) -> Any:
        """A persistable value of the main program that the startup program sets to what ``fill`` makes."""
        variable = paddle.pir.core.create_persistable_value(
            dtype=dtype, shape=list(shape), name=name, initializer=lambda meta, block: fill()
        )
        variable.stop_gradient = True
        return variable

    @staticmethod
    def auc(inputs: list[Any], positive: Any, negative: Any, settings: dict[str, Any]) -> Any:
        """Append Paddle's ``auc`` and the operations that put its histograms into two variables; return the area."""
        weight = paddle.full([1, 1], 1.0, "float32") if inputs[2] is None else inputs[2]
        area, *after = paddle._C_ops.auc(*inputs[:2], positive, negative, weight, *settings.values())
        for value, variable in zip(after, (positive, negative)):
            PIR.store(value, variable)
        return area

    @staticmethod
    def sources(value: Any) -> list[str]:
        """The names of the fed and the persistable values that a value of the program depends on."""
        names: set[str] = set()
        seen: set[int] = set()
        operations = [value.get_defining_op()]
        while operations:
            operation = operations.pop()
            if operation is None or operation.id() in seen:
                continue
            seen.add(operation.id())
            if operation.name() in PIR.HOLDERS:
                names.update(result.name for result in operation.results() if result.has_name)
            used = paddle.base.libpaddle.pir.get_used_external_value(operation)  # with what its branches capture
            operations += [operand.get_defining_op() for operand in used]
        return sorted(names)


Program = Union[Type[Legacy], Type[PIR]]


def kind_under_construction() -> Program:
    """The kind of the programs that are built now."""
    in_pir_mode = getattr(paddle.framework, "in_pir_mode", None)
    return PIR if in_pir_mode is not None and in_pir_mode() else Legacy


def kind_of(program: Any) -> Program:
    """The kind of a program."""
    return Legacy if hasattr(program, "list_vars") and hasattr(program.global_block(), "has_var") else PIR
