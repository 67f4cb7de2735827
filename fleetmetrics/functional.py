"""Drop-in functions with the signatures of ``paddle.distributed.fleet.metrics``.

Change the import, and the script prints global numbers under any launcher:

    from fleetmetrics import functional as metrics     # was: from paddle.distributed.fleet import metrics
    auc = metrics.auc(stat_pos, stat_neg, scope)

Each function costs one exchange; every worker gets the same result, or the same `FleetMetricsError`. ``input`` and
similar arguments may be NumPy arrays and scalars of any shape, Python numbers and lists, dynamic tensors, legacy
Variables, PIR values that have a name, and names. Integers are summed as integers, and an overflow is an error; the sum
of floats is correctly rounded.

In a launched job, ``util=fleet.util`` means the job's workers, as None does; otherwise the numbers go through it.

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
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.quotients import ratio, warn_if_small
from fleetmetrics.formulas.sums import root
from fleetmetrics.serial.descriptions import Block
from fleetmetrics.state.state import name_of, read
from fleetmetrics.support.checks import amount, check_part, knows_its_arguments, whole_number_of
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.support.warning import warn
from fleetmetrics.xp import is_static

__all__ = ["acc", "auc", "mae", "max", "min", "mse", "rmse", "sum"]

_Result = TypeVar("_Result")


@knows_its_arguments
def sum(
    input: Any, scope: Any = None, util: Any = None, *, group: Any = None, timeout: float | None = None
) -> np.ndarray:
    """Element-wise sum over all workers.

    Args:
        input: this worker's numbers: bools, integers or floats, of the same shape on every worker.
        scope: where a variable's name is looked up; None: ``paddle.static.global_scope()``.
        util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: the job's own channel.
        group: the workers that call it, see `fleetmetrics.Communicator.among`; None: all.
        timeout: the seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have
            met.

    Returns:
        An array of the input's shape: int64 for bools and integers, otherwise float64.

    Examples:
        >>> sum([16777216, 1])
        array([16777216,        1])
    """
    return _reduce("sum", input, scope, util, group, timeout)


@knows_its_arguments
def max(
    input: Any, scope: Any = None, util: Any = None, *, group: Any = None, timeout: float | None = None
) -> np.ndarray:
    """Element-wise maximum over all workers; an element is nan if any worker has nan.

    Args:
        input: this worker's numbers: bools, integers or floats, of the same shape on every worker.
        scope: where a variable's name is looked up; None: ``paddle.static.global_scope()``.
        util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: the job's own channel.
        group: the workers that call it, see `fleetmetrics.Communicator.among`; None: all.
        timeout: the seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have
            met.

    Returns:
        An array of the input's shape: int64 for bools and integers, otherwise float64.

    Examples:
        >>> max([-5.0, 3.0])
        array([-5.,  3.])
    """
    return _reduce("max", input, scope, util, group, timeout)


@knows_its_arguments
def min(
    input: Any, scope: Any = None, util: Any = None, *, group: Any = None, timeout: float | None = None
) -> np.ndarray:
    """Element-wise minimum over all workers; an element is nan if any worker has nan.

    Args:
        input: this worker's numbers: bools, integers or floats, of the same shape on every worker.
        scope: where a variable's name is looked up; None: ``paddle.static.global_scope()``.
        util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: the job's own channel.
        group: the workers that call it, see `fleetmetrics.Communicator.among`; None: all.
        timeout: the seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have
            met.

    Returns:
        An array of the input's shape: int64 for bools and integers, otherwise float64.

    Examples:
        >>> min([-5, 3])
        array([-5,  3])
    """
    return _reduce("min", input, scope, util, group, timeout)


@knows_its_arguments
def acc(
    correct: Any, total: Any, scope: Any = None, util: Any = None, *, group: Any = None, timeout: float | None = None
) -> float:
    """Global accuracy, ``sum(correct) / sum(total)`` over all workers.

    Args:
        correct: the number of this worker's samples that are predicted correctly: one number, in any shape.
        total: the number of this worker's samples, likewise.
        scope: where a variable's name is looked up; None: ``paddle.static.global_scope()``.
        util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: the job's own channel.
        group: the workers that call it, see `fleetmetrics.Communicator.among`; None: all.
        timeout: the seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have
            met.

    Raises:
        InvalidInputError: ``correct`` exceeds ``total``, both summed over all workers.

    Examples:
        >>> acc(3, 4)
        0.75
    """

    def formula(right: np.ndarray, number: np.ndarray) -> float:
        check_part("correct", right.item(), "total", number.item())
        return ratio.bare(right, number, "accuracy")

    return _of_totals("acc", formula, scope, util, group, timeout, correct=correct, total=total)


@knows_its_arguments
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

    Args:
        abserr: the sum of this worker's absolute errors: one number, in any shape.
        total_ins_num: the number of this worker's samples, likewise.
        scope: where a variable's name is looked up; None: ``paddle.static.global_scope()``.
        util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: the job's own channel.
        group: the workers that call it, see `fleetmetrics.Communicator.among`; None: all.
        timeout: the seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have
            met.

    Examples:
        >>> mae(6.0, 4)
        1.5
    """

    def formula(error: np.ndarray, number: np.ndarray) -> float:
        return ratio.bare(error, number, "mean_absolute_error")

    return _of_totals("mae", formula, scope, util, group, timeout, abserr=abserr, total_ins_num=total_ins_num)


@knows_its_arguments
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

    Args:
        sqrerr: the sum of this worker's squared errors: one number, in any shape.
        total_ins_num: the number of this worker's samples, likewise.
        scope: where a variable's name is looked up; None: ``paddle.static.global_scope()``.
        util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: the job's own channel.
        group: the workers that call it, see `fleetmetrics.Communicator.among`; None: all.
        timeout: the seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have
            met.

    Examples:
        >>> mse(16.0, 4)
        4.0
    """

    def formula(error: np.ndarray, number: np.ndarray) -> float:
        return _mean_of_squares(error, number, "mean_squared_error")

    return _of_totals("mse", formula, scope, util, group, timeout, sqrerr=sqrerr, total_ins_num=total_ins_num)


@knows_its_arguments
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

    Args:
        sqrerr: the sum of this worker's squared errors: one number, in any shape.
        total_ins_num: the number of this worker's samples, likewise.
        scope: where a variable's name is looked up; None: ``paddle.static.global_scope()``.
        util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: the job's own channel.
        group: the workers that call it, see `fleetmetrics.Communicator.among`; None: all.
        timeout: the seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have
            met.

    Examples:
        >>> rmse(16.0, 4)
        2.0
    """

    def formula(error: np.ndarray, number: np.ndarray) -> float:
        return root(_mean_of_squares(error, number, "root_mean_squared_error"))

    return _of_totals("rmse", formula, scope, util, group, timeout, sqrerr=sqrerr, total_ins_num=total_ins_num)


@knows_its_arguments
def auc(
    stat_pos: Any,
    stat_neg: Any,
    scope: Any = None,
    util: Any = None,
    *,
    group: Any = None,
    timeout: float | None = None,
    slide_steps: int | None = None,
) -> float:
    """Global area under the ROC curve from the workers' histograms; see `fleetmetrics.formulas.auc_from_histogram`.

    Args:
        stat_pos: this worker's histogram of the samples labeled 1, rising scores: a statistic of ``paddle.static.auc``
            in any of its shapes, or any array with one entry per bucket.
        stat_neg: the same for the samples labeled 0, of the same length.
        scope: where a variable's name is looked up; None: ``paddle.static.global_scope()``.
        util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: the job's own channel.
        group: the workers that call it, see `fleetmetrics.Communicator.among`; None: all.
        timeout: the seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or 300 until all have
            met.
        slide_steps: of ``paddle.static.auc``, if both are arrays of its batch statistics, the first two: the area is
            then that of the latest batches. 0: both are histograms. None: that of the program's own variables;
            arrays are histograms, with a warning if they could be batch statistics.

    Returns:
        A fraction; 0.5 with `UndefinedMetricWarning` if no worker has samples of one of the classes, as in Paddle.

    Raises:
        InvalidInputError: ``slide_steps`` does not fit the statistics.

    Examples:
        >>> auc([[0, 1, 1]], [[2, 0, 0]])
        1.0
        >>> auc([0, 1, 0, 1, 1], [1, 0, 1, 0, 1], slide_steps=1)  # a batch, its sum, one batch so far
        1.0
    """
    steps = slide_steps

    def collect() -> list[Block]:
        nonlocal steps
        window = None if slide_steps is None else whole_number_of("slide_steps", slide_steps, 0)
        steps = _window_of(stat_pos, stat_neg) if window is None else window
        positive, negative = _read(stat_pos, scope, "stat_pos"), _read(stat_neg, scope, "stat_neg")
        if positive.size != negative.size:
            raise InvalidInputError(
                f"stat_pos has {counted(positive.size, 'entries')} and stat_neg {negative.size:,}; "
                "both must have one per bucket"
            )
        if steps and (positive.size - 1) % (steps + 1):
            raise InvalidInputError(
                f"slide_steps is {steps}, but stat_pos has {counted(positive.size, 'entries')}: batch statistics have "
                "(slide_steps + 1) * (num_thresholds + 1) + 1"
            )
        for argument, histogram in (("stat_pos", positive), ("stat_neg", negative)):
            if histogram.size and not np.minimum.reduce(histogram, None) >= 0:  # nor nan
                first = int(np.argmin(np.ravel(histogram) >= 0))
                raise InvalidInputError(
                    f"{argument} must hold counts of at least 0; entry {first} is {np.ravel(histogram)[first]}"
                )
        return [Block("stat_pos", "sum", positive), Block("stat_neg", "sum", negative)]

    def formula(positive: np.ndarray, negative: np.ndarray) -> float:
        if steps:
            positive, negative = _window_in(positive, steps), _window_in(negative, steps)
        elif steps is None and _could_be_window(positive, negative):
            warn(
                "stat_pos and stat_neg count as histograms, but could be batch statistics of paddle.static.auc, whose "
                "entries count each sample twice; give slide_steps=0 for histograms, or that of static.auc"
            )
        return formulas.auc_from_histogram.bare(positive.ravel(), negative.ravel())

    call = "auc" if slide_steps is None else f"auc with slide_steps {slide_steps!r:.40}"
    return _computed(call, [stat_pos, stat_neg], collect, formula, util, group, timeout)


def _window_of(stat_pos: Any, stat_neg: Any) -> int | None:
    """The ``slide_steps`` of the program's operation that fills these variables; None if they are no such variables."""
    positive, negative = _slide_steps(stat_pos), _slide_steps(stat_neg)
    if (positive or 0) != (negative or 0):
        settings = ["none" if steps is None else f"slide_steps={steps}" for steps in (positive, negative)]
        raise InvalidInputError(
            f"stat_pos is a statistic of paddle.static.auc with {settings[0]}, stat_neg with {settings[1]}; give two "
            "statistics of one kind, or their arrays with slide_steps="
        )
    return negative if positive is None else positive


def _slide_steps(value: Any) -> int | None:
    if type(value) is np.ndarray or getattr(sys.modules.get("paddle"), "static", None) is None:
        return None
    if isinstance(value, str):
        from fleetmetrics.static.programs import kind_of

        program = sys.modules["paddle"].static.default_main_program()
        value = kind_of(program).variables(program).get(value)
    value = getattr(value, "variable", value)  # of a StaticState
    if not is_static(value):
        return None
    if hasattr(value, "all_used_ops"):  # in PIR
        of_auc = (op for op in value.all_used_ops() if op.name() == "pd_op.auc")
        return next((int(writer.attrs()["slide_steps"]) for writer in of_auc), None)
    of_auc = (op for op in value.block.ops if op.type == "auc" and value.name in op.output_arg_names)
    return next((int(writer.attr("slide_steps")) for writer in of_auc), None)


def _window_in(statistic: np.ndarray, steps: int) -> np.ndarray:
    """The sum over the latest batches, from a batch statistic of ``paddle.static.auc``.

    Paddle lays out a block for each of the ``slide_steps`` latest batches, a block with their sum, and the number of
    batches, all in one axis. Reading that as one histogram would count each sample twice.
    """
    blocks = statistic.ravel()[:-1].reshape(steps + 1, -1)
    if not np.array_equal(blocks[:-1].sum(axis=0), blocks[-1]):
        raise InvalidInputError(
            f"slide_steps is {steps}, but the statistics hold no such window: block {steps + 1} is not the sum of the "
            "blocks before it. Give the slide_steps of paddle.static.auc, or 0 for histograms"
        )
    return np.asarray(blocks[-1])


def _could_be_window(positive: np.ndarray, negative: np.ndarray) -> bool:
    """Whether two histograms of one axis are laid out as batch statistics of one ``paddle.static.auc``."""
    if positive.ndim != 1 or negative.ndim != 1 or positive.size % 2 == 0 or not 1 <= positive[-1] == negative[-1]:
        return False
    for steps in range(1, positive.size // 2):
        width, rest = divmod(positive.size - 1, steps + 1)
        if rest or width < 2:
            continue
        with contextlib.suppress(InvalidInputError):
            _window_in(positive, steps), _window_in(negative, steps)
            return True
    return False


def _reduce(reduction: str, value: Any, scope: Any, util: Any, group: Any, timeout: float | None) -> np.ndarray:
    def collect() -> list[Block]:
        return [Block("input", reduction, _read(value, scope, "input"))]

    def itself(state: np.ndarray) -> np.ndarray:
        return state

    return _computed(reduction, [value], collect, itself, util, group, timeout)


def _mean_of_squares(error: np.ndarray, number: np.ndarray, name: str) -> float:
    warn_if_small(name, "errors", number.item(), 0.0, error.item())
    return ratio.bare(error, number, name)


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
    from fleetmetrics.comm.choose import call_of

    with call_of(_call(function, *inputs), util=util, group=group, timeout=timeout) as call:
        totals = call.reduce(collect())
    return formula(*totals)


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
        writers = [op for op in value.block.ops if value.name in op.output_arg_names]
        if len(writers) > 1:
            warn(
                f"{argument}: {len(writers)} operations of the program write {value.name!r}, and count each batch "
                f"{len(writers)} times if all add to it: counters with one name are one variable. Give each its own "
                "name"
            )
        if value.name in _stat_var_names(value.block.program):
            _warn_of_threads(argument, value.name)
    state = read(value, scope, argument)
    if static is not None and type(value) is np.ndarray and not sys.modules["paddle"].in_dynamic_mode():
        name = _counter_with(state, scope or static.global_scope(), static)
        if name:
            _warn_of_threads(f"{argument} is what {name!r} holds", name)
    return state


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
    default = static.default_main_program()
    if not hasattr(default, "_fleet_opt"):  # PIR
        return
    yield default  # made when Paddle was imported: after gc.freeze(), no search would find it
    generated = dict(sys.modules["paddle"].base.unique_name.generator.ids)
    if _found[0] != generated:
        _found[:] = (
            generated,
            [weakref.ref(candidate) for candidate in gc.get_objects() if type(candidate) is static.Program],
        )
    yield from (program for program in (reference() for reference in _found[1]) if program is not None)


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
    thread_numbers = [
        int(descriptor.thread_num) for descriptor in gc.get_objects() if issubclass(type(descriptor), kind)
    ]
    return sorted([0, *thread_numbers])[-1]


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
            name = name_of(value)
            names += [_same_everywhere(name)] if name else []
    return f"{function} of {', '.join(names)}" if names else function
