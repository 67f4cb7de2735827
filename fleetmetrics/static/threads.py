"""Right counts where several threads run one program: in ``train_from_dataset`` and ``infer_from_dataset``.

Paddle's threads share the persistable variables of a program and do not lock them: two threads read the same old count,
and one update is lost. In Paddle's design, each thread counts the strategy's ``stat_var_names`` separately, and Paddle
adds up the counts at the end. But on the CPU no thread gets its own copy, and Paddle adds the shared count to itself,
once for each thread except the first: with 16 threads, the count is 2**15 times too large.

So a lock guards the operations that update counters while the program runs. It is one of Paddle's blocking queues: it
holds one token, which a thread takes out and puts back.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from typing import Any, Iterable, Iterator

import numpy as np
import paddle
from paddle.base import core

from fleetmetrics.errors import StaticProgramError

__all__ = ["counters_beside", "locked", "stat_var_names"]

#: The operations that never fail, for any values of a batch.
_NEVER_FAIL = ("assign", "elementwise_add", "elementwise_max", "elementwise_min")

#: Each run has its own lock, with a name that is new in the scope.
_locks = itertools.count()
#: By program, the names that `locked` removed from its ``stat_var_names``: they stay counters in later runs.
_taken_off: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def stat_var_names(program: Any) -> list[str]:
    """The variables of a legacy program that its strategy lets Paddle merge over threads."""
    return list((getattr(program, "_fleet_opt", None) or {}).get("stat_var_names") or ())


def counters_beside(program: Any) -> list[str]:
    """The counters of a legacy program that are not states: those in ``stat_var_names``, and those removed."""
    return list(dict.fromkeys([*stat_var_names(program), *sorted(_taken_off.get(program, ()))]))


@contextlib.contextmanager
def locked(program: Any, counters: Iterable[str], scope: Any) -> Iterator[None]:
    """Let one thread at a time update counters of a legacy program, inside of the ``with`` statement.

    Args:
        program: the program that threads will run on the CPU.
        counters: names of its variables. Those in its ``stat_var_names`` are removed there, for good.
        scope: the scope of the run.

    Raises:
        StaticProgramError: a counter is updated inside of a branch or a loop, where there can be no lock.
    """
    counted = set(counters)
    original, changed = program.desc, core.ProgramDesc(program.desc)
    name = f"fleetmetrics.lock_{next(_locks)}"
    block = changed.block(0)
    for first, last in reversed(_sections(changed, counted)):
        _guard(block, first, last, name)
        _rehearse(block, first, last)
    merged = stat_var_names(program)
    if counted.intersection(merged):
        program._fleet_opt["stat_var_names"] = [name for name in merged if name not in counted]
        _taken_off.setdefault(program, set()).update(counted.intersection(merged))
    queue = core.init_lod_tensor_blocking_queue(scope.var(name), 1, False)
    token = core.LoDTensor()
    token.set(np.zeros(1), paddle.CPUPlace())
    tokens = core.LoDTensorArray()
    tokens.append(token)
    queue.push(tokens)
    program.desc = changed
    try:
        yield
        scope.erase([name])  # not after an error of one thread: others may still be waiting
    finally:
        program.desc = original


def _guard(block: Any, first: int, last: int, queue: str) -> None:
    """Let a section begin by taking the token out of the queue, and end by putting it back."""
    token = f"{queue}.token"
    block.var(token.encode()).set_type(core.VarDesc.VarType.LOD_TENSOR)
    for place, kind in ((last + 1, "enqueue"), (first, "dequeue")):
        operation = block._insert_op(place)
        operation.set_type(kind)
        operation._set_attr("queue_name", queue)
        if kind == "enqueue":
            operation.set_input("X", [token])
        else:
            operation.set_output("Out", [token])


def _rehearse(block: Any, first: int, last: int) -> None:
    """Let the operations of a section run before it, too, into variables of the thread, unless they cannot fail.

    An operation that fails, for example for a score over 1, then fails in a thread without the token; otherwise the
    others would wait for the token forever.
    """
    if all(block.op(place + 1).type() in _NEVER_FAIL for place in range(first, last + 1)):  # after the dequeue
        return
    renamed: dict[str, str] = {}
    for number in range(last + 1 - first):
        operation = block._insert_op(first + number)
        operation.copy_from(block.op(first + 2 * number + 2))
        for name in set(operation.input_arg_names()) & set(renamed):
            operation._rename_input(name, renamed[name])
        for name in operation.output_arg_names():
            renamed[name] = f"{name}@rehearsed"
            block.var(renamed[name].encode()).set_type(core.VarDesc.VarType.LOD_TENSOR)
            operation._rename_output(name, renamed[name])


def _sections(program: Any, counters: set[str]) -> list[tuple[int, int]]:
    """The sections of operations that update counters: the first and the last place of each, in order."""
    for number in range(1, program.num_blocks()):
        inside = program.block(number)
        for place in range(inside.op_size()):
            nested = counters.intersection(inside.op(place).output_arg_names())
            if nested:
                raise StaticProgramError(
                    f"this program updates {min(nested)} inside a branch or a loop, where threads cannot be kept "
                    "apart: some updates would be lost. Update it outside, with weights of 0 or 1, or give the "
                    "dataset thread_num=1"
                )
    block = program.block(0)
    read: dict[str, int] = {}  # the place of each counter's first read since its last update
    sections: list[tuple[int, int]] = []
    for place in range(block.op_size()):
        operation = block.op(place)
        for name in counters.intersection(operation.input_arg_names()):
            read.setdefault(name, place)
        for name in counters.intersection(operation.output_arg_names()):
            first, last = read.pop(name, place), place
            while sections and sections[-1][1] >= first - 1:  # they overlap or touch
                first = min(first, sections.pop()[0])
            sections.append((first, last))
    return sections
