"""Drop-in functions with the signatures of ``paddle.distributed.fleet.metrics``.

Change the import, and the script prints global numbers under any launcher:

    from fleetmetrics import functional as metrics     # was: from paddle.distributed.fleet import metrics
    auc = metrics.auc(stat_pos, stat_neg, scope)

Each function costs one exchange; every worker gets the same result, or the same `FleetMetricsError`. ``input`` and
similar arguments may be NumPy arrays and scalars of any shape, Python numbers and lists, dynamic tensors, legacy
Variables, PIR values that have a name, and names. Integers are summed as integers, and an overflow is an error; the sum
of floats is correctly rounded.

``scope`` is the scope in which to look up a variable's name (None: ``paddle.static.global_scope()``). ``util`` is an
object with ``all_reduce(input, mode)``, such as ``fleet.util`` (None: fleetmetrics' channel). ``group`` names the
workers that call the function: see `fleetmetrics.Communicator.among` (None: all). ``timeout`` is the number of seconds
to wait for the others (None: ``FLEETMETRICS_TIMEOUT``, else 1,800).

`acc`, `mae`, `mse` and `rmse` take a sum over this worker's samples and their number, each one number in any shape; as
in Paddle, they take the first entry of a longer array, with a warning. If no worker has samples, the result is nan,
with `UndefinedMetricWarning`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import re
import sys
import weakref
from typing import Any, Callable, Iterator, Sequence, TypeVar

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.comm import Block, Communicator
from fleetmetrics.comm.choose import on_channel
from fleetmetrics.comm.deadline import Deadline
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.given import amount, check_part
from fleetmetrics.state import name_of, read
from fleetmetrics.vocabulary import counted
from fleetmetrics.warning import warn

__all__ = ["acc", "auc", "mae", "max", "min", "mse", "rmse", "sum"]

_Result = TypeVar("_Result")


def sum(
    input: Any, scope: Any = None, util: Any = None, *, group: Any = None, timeout: float | None = None
) -> np.ndarray:
    """Element-wise sum over all workers.

    Args:
        input: this worker's numbers: bools, integers or floats, of the same shape on every worker.
        scope: see the module.
        util: see the module.
        group: see the module.
        timeout: see the module.

    Returns:
        An array of the input's shape: int64 for bools and integers, otherwise float64.

    Examples:
        >>> sum([16777216, 1])
        array([16777216,        1])
    """
    return _reduce("sum", input, scope, util, group, timeout)


def max(
    input: Any, scope: Any = None, util: Any = None, *, group: Any = None, timeout: float | None = None
) -> np.ndarray:
    """Element-wise maximum over all workers; an element is nan if any worker has nan. Arguments and result: see `sum`.

    Examples:
        >>> max([-5.0, 3.0])
        array([-5.,  3.])
    """
    return _reduce("max", input, scope, util, group, timeout)


def min(
    input: Any, scope: Any = None, util: Any = None, *, group: Any = None, timeout: float | None = None
) -> np.ndarray:
    """Element-wise minimum over all workers; an element is nan if any worker has nan. Arguments and result: see `sum`.

    Examples:
        >>> min([-5, 3])
        array([-5,  3])
    """
    return _reduce("min", input, scope, util, group, timeout)


def acc(
    correct: Any, total: Any, scope: Any = None, util: Any = None, *, group: Any = None, timeout: float | None = None
) -> float:
    """Global accuracy, ``sum(correct) / sum(total)`` over all workers.

    Raises:
        InvalidInputError: ``correct`` exceeds ``total``, both summed over all workers.

    Examples:
        >>> acc(3, 4)
        0.75
    """

    def formula(right: np.ndarray, number: np.ndarray) -> float:
        check_part("correct", right.item(), "total", number.item())
        return formulas.accuracy.bare(right, number)

    return _of_totals("acc", formula, scope, util, group, timeout, correct=correct, total=total)


def mae(
    abserr: Any,
    total_ins_num: Any,
    scope: Any = None,
    util: Any = None,
    *,
    group: Any = None,
    timeout: float | None = None,
) -> float:
    """Global mean absolute error, ``sum(abserr) / sum(total_ins_num)`` over all workers.

    Examples:
        >>> mae(6.0, 4)
        1.5
    """
    formula = formulas.mean_absolute_error.bare
    return _of_totals("mae", formula, scope, util, group, timeout, abserr=abserr, total_ins_num=total_ins_num)


def mse(
    sqrerr: Any,
    total_ins_num: Any,
    scope: Any = None,
    util: Any = None,
    *,
    group: Any = None,
    timeout: float | None = None,
) -> float:
    """Global mean squared error, ``sum(sqrerr) / sum(total_ins_num)`` over all workers.

    Examples:
        >>> mse(16.0, 4)
        4.0
    """
    formula = formulas.mean_squared_error.bare
    return _of_totals("mse", formula, scope, util, group, timeout, sqrerr=sqrerr, total_ins_num=total_ins_num)


def rmse(
    sqrerr: Any,
    total_ins_num: Any,
    scope: Any = None,
    util: Any = None,
    *,
    group: Any = None,
    timeout: float | None = None,
) -> float:
    """Global root mean squared error, ``sqrt(sum(sqrerr) / sum(total_ins_num))`` over all workers.

    Examples:
        >>> rmse(16.0, 4)
        2.0
    """
    formula = formulas.root_mean_squared_error.bare
    return _of_totals("rmse", formula, scope, util, group, timeout, sqrerr=sqrerr, total_ins_num=total_ins_num)


def auc(
    stat_pos: Any,
    stat_neg: Any,
    scope: Any = None,
    util: Any = None,
    *,
    group: Any = None,
    timeout: float | None = None,
) -> float:
    """Global area under the ROC curve from the workers' histograms; see `fleetmetrics.formulas.auc_from_histogram`.

    Args:
        stat_pos: this worker's histogram of the samples labeled 1, rising scores: a statistic of ``paddle.static.auc``
            in any of its shapes (``[1, buckets]``, or the flat sliding-window form of the batch statistics), or any
            array with one entry per bucket.
        stat_neg: the same for the samples labeled 0, of the same length.
        scope: see the module.
        util: see the module.
        group: see the module.
        timeout: see the module.

    Returns:
        A fraction; 0.5 with `UndefinedMetricWarning` if no worker has samples of one of the classes, as in Paddle.

    Examples:
        >>> auc([[0, 1, 1]], [[2, 0, 0]])
        1.0
    """

    def collect() -> list[Block]:
        positive, negative = _read(stat_pos, scope, "stat_pos"), _read(stat_neg, scope, "stat_neg")
        if positive.size != negative.size:
            raise InvalidInputError(
                f"stat_pos has {counted(positive.size, 'entries')} and stat_neg {negative.size:,}; "
                "both must have one per bucket"
            )
        for argument, histogram in (("stat_pos", positive), ("stat_neg", negative)):
            if histogram.size and not np.minimum.reduce(histogram, None) >= 0:  # nor nan
                first = int(np.argmin(np.ravel(histogram) >= 0))
                raise InvalidInputError(
                    f"{argument} must hold counts of at least 0; entry {first} is {np.ravel(histogram)[first]}"
                )
        return [Block("stat_pos", "sum", positive), Block("stat_neg", "sum", negative)]

    def formula(positive: np.ndarray, negative: np.ndarray) -> float:
        positive, negative = _newest_window(positive, negative)
        return formulas.auc_from_histogram.bare(positive.ravel(), negative.ravel())

    return _computed("auc", [stat_pos, stat_neg], collect, formula, util, group, timeout)


def _newest_window(positive: np.ndarray, negative: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The block with the sum of the window, from the flat batch statistics of ``paddle.static.auc``.

    With ``slide_steps = s`` Paddle lays out s blocks of the latest steps, a block with their sum, and a counter of
    steps, all in one axis. Reading that as one histogram would count each sample twice.
    """
    steps = positive[-1:] if positive.ndim == negative.ndim == 1 and positive.size % 2 == 1 else np.zeros(1)
    if steps[0] < 1 or steps[0] != negative[-1]:
        return positive, negative
    for blocks in range(2, positive.size // 2 + 1):
        width, rest = divmod(positive.size - 1, blocks)
        if rest or width < 2:
            continue
        tables = [histogram[:-1].reshape(blocks, width) for histogram in (positive, negative)]
        if all(np.array_equal(table[:-1].sum(axis=0), table[-1]) for table in tables):
            return tables[0][-1], tables[1][-1]
    return positive, negative


def _reduce(reduction: str, value: Any, scope: Any, util: Any, group: Any, timeout: float | None) -> np.ndarray:
    def collect() -> list[Block]:
        return [Block("input", reduction, _read(value, scope, "input"))]

    def itself(found: np.ndarray) -> np.ndarray:
        return found

    return _computed(reduction, [value], collect, itself, util, group, timeout)


def _of_totals(
    call: str, formula: Callable[..., float], scope: Any, util: Any, group: Any, timeout: float | None, **totals: Any
) -> float:
    def collect() -> list[Block]:
        return [Block(name, "sum", _one_number(name, value, scope)) for name, value in totals.items()]

    return _computed(call, list(totals.values()), collect, formula, util, group, timeout)


def _computed(
    function: str,
    inputs: Sequence[Any],
    collect: Callable[[], list[Block]],
    formula: Callable[..., _Result],
    util: Any,
    group: Any,
    timeout: float | None,
) -> _Result:
    """The formula of the states over all workers."""

    def computed(channel: Communicator, trouble: BaseException | None) -> _Result:
        call = _call(function, *inputs)

        def exchanged(deadline: Deadline, trouble: BaseException | None) -> list[np.ndarray]:
            return channel.reduce_made(call, collect, timeout=deadline.left, trouble=trouble)

        return channel.evaluated(call, exchanged, lambda found: formula(*found), timeout, trouble)

    return on_channel(function, computed, util=util, group=group)


def _one_number(argument: str, value: Any, scope: Any) -> np.ndarray:
    numbers = np.ravel(_read(value, scope, argument))
    if numbers.size == 0:
        raise InvalidInputError(f"{argument} is empty; it must hold one number")
    if numbers.size > 1:
        warn(
            f"{argument} holds {numbers.size} numbers; only the first is used, as in "
            "paddle.distributed.fleet.metrics. Sum them first if they belong together"
        )
    amount(argument, numbers[0])
    return numbers[:1]


def _read(value: Any, scope: Any, argument: str) -> np.ndarray:
    """The array behind an argument, with a warning where Paddle silently counts a variable too often."""
    static = getattr(sys.modules.get("paddle"), "static", None)
    if isinstance(value, str) and static is not None:
        value = getattr(static.default_main_program().global_block(), "vars", {}).get(value, value)
    here = type(value) in (str, np.ndarray)  # otherwise looking for a variable takes longer than reading it
    if static is not None and not here and isinstance(value, static.Variable) and hasattr(value, "block"):
        writers = [each for each in value.block.ops if value.name in each.output_arg_names]
        if len(writers) > 1:
            warn(
                f"{argument}: {len(writers)} operations of the program write {value.name!r}, and count each batch "
                f"{len(writers)} times if all add to it: counters with one name are one variable. Give each its own "
                "name"
            )
        if value.name in _stat_var_names(value.block.program):
            _warn_of_threads(argument, value.name)
    found = read(value, scope, argument)
    if static is not None and type(value) is np.ndarray and not sys.modules["paddle"].in_dynamic_mode():
        name = _counter_with(found, scope or static.global_scope(), static)
        if name:
            _warn_of_threads(f"{argument} is what {name!r} holds", name)
    return found


def _stat_var_names(program: Any) -> Sequence[str]:
    """The variables that the strategy of a program merges over threads; a PIR program has none."""
    return (getattr(program, "_fleet_opt", None) or {}).get("stat_var_names") or ()


def _counter_with(numbers: np.ndarray, scope: Any, static: Any) -> str:
    """The first of the programs' ``stat_var_names`` that holds these numbers; "" if none does.

    PaddleRec reduces ``np.array(scope.find_var(name).get_tensor())``, which has no name.
    """
    if numbers.dtype.kind not in "iu" or numbers.size < 2 or not numbers.any():
        return ""
    for name in sorted({name for program in _programs(static) for name in _stat_var_names(program)}):
        variable = scope.find_var(name)
        tensor = None if variable is None else variable.get_tensor()
        if tensor is not None and tensor._is_initialized() and np.array_equal(np.ravel(tensor), np.ravel(numbers)):
            return name
    return ""


#: The programs, and the numbers of Paddle's names when these were looked for.
_found: list[Any] = [None, ()]


def _programs(static: Any) -> Iterator[Any]:
    """The legacy programs of the process; it looks for them again once Paddle has made further names."""
    if not hasattr(static.default_main_program(), "_fleet_opt"):  # PIR
        return
    made = dict(sys.modules["paddle"].base.unique_name.generator.ids)
    if _found[0] != made:
        _found[:] = made, [weakref.ref(each) for each in gc.get_objects() if type(each) is static.Program]
    yield from (program for program in (each() for each in _found[1]) if program is not None)


def _warn_of_threads(what: str, name: str) -> None:
    threads = _threads()
    if threads != 1:
        much = f"{threads} threads count {2 ** (threads - 1)} times too much" if threads else "all count too much"
        warn(
            f"{what}: {name!r} is one of the strategy's stat_var_names, which train_from_dataset "
            f"doubles for each thread after the first: {much}. Train with one thread, or count with "
            "fleetmetrics.static.auc or a metric in the program"
        )


def _threads() -> int:
    """The number of Paddle's reading threads of data sets; it has one each per process. 0 if none is left."""
    kind = getattr(sys.modules.get("paddle.distributed.fleet.dataset"), "DatasetBase", ())
    found = [int(each.thread_num) for each in gc.get_objects() if issubclass(type(each), kind)]
    return sorted([0, *found])[-1]


#: Paddle numbers generated names per process, so workers of one program may differ.
_MADE_UP = re.compile(r"(_generated_var_|\btmp_|\.tmp_|\.[wb]_)\d+")


@functools.lru_cache(maxsize=256)
def _same_everywhere(name: str) -> str:
    return _MADE_UP.sub("#", name)


def _call(function: str, *inputs: Any) -> str:
    """The call for the agreement header, so that workers never sum two different variables."""
    names = []
    for value in inputs:
        with contextlib.suppress(InvalidInputError):  # the exchange raises it again, for all workers
            names += [_same_everywhere(name) for name in [name_of(value)] if name]
    return f"{function} of {', '.join(names)}" if names else function
