"""Methods that ``paddle.jit.to_static`` must leave as they are: they use Python objects, which a program cannot hold.

Paddle would compile the code of ``add`` and ``compute``, and fail in it with errors of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from typing import Any

from fleetmetrics.errors import StaticProgramError

__all__ = ["keep_out_of_programs", "raise_if_traced"]

#: Where the code of functions is that the standard library makes.
_OF_DATACLASSES = "<string>"
_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
#: And that of the standard library which it calls, and Paddle 2.6 fails to compile.
_JSON = os.path.dirname(json.__file__) + os.sep
_kept_out: set[type] = set()


def keep_out_of_programs(kind: type, *names: str) -> None:
    """Let a class's methods, and those that they override, run as Python where ``to_static`` compiles their caller.

    It does nothing until Paddle is imported. Where Paddle compiles bytecode (``full_graph=False``), it divides the
    program there, and a method gets tensors; where it translates the source, the method sees a program being built.

    Args:
        kind: the class.
        names: of the methods.
    """
    paddle = sys.modules.get("paddle")
    if kind in _kept_out or not hasattr(paddle, "jit"):
        return
    _kept_out.add(kind)
    for method in {vars(base)[name] for base in kind.__mro__ for name in names if name in vars(base)}:
        with contextlib.suppress(Exception):  # a method that is no function, and a Paddle that is built differently
            paddle.jit.not_to_static(method)  # type: ignore[union-attr]
            _divide_at(method)


def _divide_at(method: Any) -> None:
    from paddle.jit.sot.opcode_translator import skip_files
    from paddle.jit.sot.utils import paddle_api_config as sot

    if _HERE not in skip_files.skip_file_names:
        importlib.import_module("fleetmetrics.xp.paddle_ops")  # not while Paddle compiles what runs: it would break
        skip_files.skip_file_names.update([_HERE, _JSON, _OF_DATACLASSES])  # or they would be compiled, each on its own
        skip_files.setup_skip_files()
    if hasattr(sot, "break_graph_functions"):
        sot.break_graph_functions.add(method)
    else:  # 2.6 asks only of what it takes for its own function
        sot.paddle_api_list.add(method)
        sot.break_graph_set.add(method)


def raise_if_traced(call: str) -> None:
    """Raise `StaticProgramError` if ``to_static`` is building a program, in which the call would get no values."""
    base = sys.modules.get("paddle.base.dygraph.base")
    if base is not None and base.in_to_static_mode():
        raise StaticProgramError(
            f"{call} was called in what paddle.jit.to_static makes a program of, in which it would run once, without "
            "values. Call it outside, with the outputs of the layer; or convert the layer with full_graph=False, and "
            "Paddle leaves the call out of the program"
        )
