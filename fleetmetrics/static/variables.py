"""Creating, updating, listing and resetting the state variables of a static program."""

from __future__ import annotations

import functools
import gc
import inspect
import weakref
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import paddle

from fleetmetrics.errors import DuplicateStateError, InvalidInputError, StateNotFoundError, StaticProgramError
from fleetmetrics.numbers.reductions import declared_shape, identity
from fleetmetrics.static.claims import claims_of, renew
from fleetmetrics.static.programs import Legacy, kind_of, kind_under_construction
from fleetmetrics.static.scopes import Glance
from fleetmetrics.static.threads import counters_beside, locked
from fleetmetrics.support.tensors import as_array
from fleetmetrics.support.vocabulary import with_article
from fleetmetrics.support.warning import warn
from fleetmetrics.xp import Scattered, is_static, paddle_ops

__all__ = ["StaticState", "accumulate", "create_state", "current_program", "load", "states"]


class _Known(NamedTuple):
    """The record of a state: without the variable, which on 2.6 would keep its program alive."""

    shape: tuple[int, ...]
    dtype: str
    reduction: str
    program: Any  # a weak reference


_registry: dict[str, _Known] = {}


class StaticState:
    """A state variable of a static program; `create_state` makes it.

    Attributes:
        name: the variable's name, for ``scope.find_var`` and `fleetmetrics.sum`.
        shape: its shape.
        dtype: ``"int64"`` or ``"float64"``.
        reduction: ``"sum"``, ``"max"`` or ``"min"``.
        variable: the legacy ``Variable`` or PIR ``Value``, to be used in the program.
    """

    dtype: str
    name: str
    reduction: str
    shape: tuple[int, ...]
    variable: Any

    is_fleetmetrics_state = True

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, reduction: str, variable: Any) -> None:
        self.name, self.shape, self.dtype, self.reduction, self.variable = name, shape, dtype, reduction, variable

    def __repr__(self) -> str:
        return f"StaticState({self.name!r}, shape={self.shape}, dtype={self.dtype!r}, reduction={self.reduction!r})"

    def read(self, scope: Any = None) -> np.ndarray:
        """A copy of the variable's array.

        Args:
            scope: None: the global scope.

        Raises:
            StateNotFoundError: the scope has no such variable, or it holds nothing yet.
        """
        return (scope if type(scope) is Glance else Glance(scope)).read(self.name)

    def write(self, value: np.ndarray, scope: Any = None) -> None:
        """Set the variable.

        Args:
            value: an array of the state's shape; the dtype must fit without loss.
            scope: None: the global scope.

        Raises:
            InvalidInputError: the shape differs, or floats are given for an int64 state.
        """
        array = as_array(value, "value")
        if array.shape != self.shape or (array.dtype.kind == "f" and self.dtype == "int64"):
            raise InvalidInputError(
                f"value for state {self.name!r} must have shape {list(self.shape)} and dtype {self.dtype}, not "
                f"{list(array.shape)} and {array.dtype}"
            )
        scope = paddle.static.global_scope() if scope is None else scope
        # Keep the dtype: Paddle's set() takes any dtype, and the next run would fail.
        scope.var(self.name).get_tensor().set(array.astype(self.dtype), paddle.CPUPlace())

    def reset(self, scope: Any = None) -> None:
        """Set the variable to the identity of its reduction, as the startup program does.

        Args:
            scope: None: the global scope.
        """
        scope = paddle.static.global_scope() if scope is None else scope
        self.write(np.full(self.shape, identity(self.reduction, self.dtype), self.dtype), scope)
        renew(self.name, scope)


def current_program() -> Any:
    """The static program that is being built.

    Raises:
        StaticProgramError: in dynamic mode.
    """
    if paddle.in_dynamic_mode():
        raise StaticProgramError(
            "no static program is being built; call paddle.enable_static() and work under paddle.static.program_guard"
        )
    return paddle.static.default_main_program()


def create_state(
    name: str, shape: Any = (), dtype: str = "int64", reduction: str = "sum", *, share: bool = False
) -> StaticState:
    """Make a persistable global variable that batches accumulate into.

    The startup program (the default one at this moment) sets it to the identity of its reduction: 0 for a sum,
    the lowest or highest number for max and min.

    Args:
        name: the variable's name, the same on every worker.
        shape: its shape: whole numbers of at least 0, all fixed.
        dtype: ``"int64"`` or ``"float64"``; a float32 counter would stop at 16,777,216.
        reduction: ``"sum"``, ``"max"`` or ``"min"``: how batches, and workers, are merged.
        share: True returns the state of that name if it exists, for a second program or input that
            accumulates into the same variable on purpose.

    Returns:
        The state, for `accumulate`.

    Raises:
        DuplicateStateError: the name is taken by another variable of the program, or by a state of a program
            that is still alive, and ``share`` is False; or the sharing state's shape, dtype or reduction differ.
        InvalidInputError: an argument is invalid.
        StaticProgramError: no static program is being built.

    Examples:
        >>> import numpy as np, paddle, fleetmetrics
        >>> paddle.enable_static()
        >>> main, startup = paddle.static.Program(), paddle.static.Program()
        >>> with paddle.static.program_guard(main, startup):
        ...     label = paddle.static.data("label", [-1, 1], "int64")
        ...     clicks = create_state("clicks")
        ...     accumulate(clicks, paddle.sum(label))
        >>> executor, scope = paddle.static.Executor(paddle.CPUPlace()), paddle.static.Scope()
        >>> with paddle.static.scope_guard(scope):
        ...     _ = executor.run(startup)
        ...     for _ in range(3):
        ...         _ = executor.run(main, feed={"label": np.ones([4, 1], "int64")})
        ...     int(fleetmetrics.sum("clicks"))
        12
        >>> paddle.disable_static()
    """
    program = current_program()
    shape = declared_shape(name, shape, dtype, reduction)
    _watch()
    known = _registry.get(name)
    variable = kind_under_construction().variables(program).get(name)
    if known is not None and known.program() is not None and variable is None and not share:
        gc.collect()  # a program of 2.6 is a reference cycle: this frees its name
    if known is not None and known.program() is not None:
        _check_sharing(name, known, (shape, dtype, reduction), share)
    elif variable is not None:
        raise DuplicateStateError(
            f"the program already has a variable {name!r} that is not a state of fleetmetrics; choose another name"
        )
    if variable is None:
        variable = kind_under_construction().create(
            name, shape, dtype, lambda: paddle_ops.identity(shape, dtype, reduction)
        )
        _registry[name] = _Known(shape, dtype, reduction, weakref.ref(program))
    return StaticState(name, shape, dtype, reduction, variable)


def _check_sharing(name: str, known: _Known, declared: tuple[Any, ...], share: bool) -> None:
    if not share:
        raise DuplicateStateError(
            f"a state {name!r} already exists, and two would accumulate into one variable; choose another name, or "
            "pass share=True to share it on purpose"
        )
    if known[:3] != declared:
        texts = ["shape={}, dtype={!r}, reduction={!r}".format(*three) for three in (declared, known[:3])]
        raise DuplicateStateError(f"state {name!r} cannot be shared as {texts[0]}: it is {texts[1]}")


def accumulate(state: StaticState, batch_value: Any) -> None:
    """Append the operations that merge a batch's value into a state, at every run of the program.

    Args:
        state: from `create_state`.
        batch_value: a variable of the program with the state's shape (a scalar may be ``[1]`` or ``[]``);
            bools and integers for an int64 state, floats too for a float64 one. Or `Scattered`.

    Raises:
        InvalidInputError: it is not a static variable, or its shape or dtype does not fit.
        StaticProgramError: no static program is being built.

    See `create_state` for an example.
    """
    current_program()
    if not isinstance(state, StaticState):
        raise InvalidInputError(f"state must come from create_state, not be {with_article(type(state).__name__)}")
    scattered = isinstance(batch_value, Scattered)
    amount = batch_value.amount if scattered else batch_value
    if not scattered:
        if not is_static(batch_value):
            raise InvalidInputError(
                f"batch_value for state {state.name!r} must be a variable of the static program, not "
                f"{type(batch_value).__name__}"
            )
        shape = tuple(batch_value.shape)
        if shape != state.shape and not {shape, state.shape} <= {(), (1,)}:
            raise InvalidInputError(
                f"batch_value has shape {list(shape)} but state {state.name!r} has {list(state.shape)}; they must be"
                " equal"
            )
    if amount is not None and paddle_ops.kind(amount) == "f" and state.dtype == "int64":
        raise InvalidInputError(
            f"batch_value has dtype {amount.dtype} but state {state.name!r} is int64; create it with dtype='float64'"
        )
    kind_under_construction().store(paddle_ops.merge(state.reduction, state.variable, batch_value), state.variable)


def replace(state: StaticState, place: Any, batch_value: Any, counts: Any) -> None:
    """Append the operations that put a batch's value at a place on a state's first axis, unless ``counts`` is 0."""
    if isinstance(batch_value, Scattered):
        nothing = paddle_ops.identity(state.shape[1:], state.dtype, state.reduction)
        batch_value = paddle_ops.merge(state.reduction, nothing, batch_value)
    kind_under_construction().store(paddle_ops.replaced(state.variable, place, batch_value, counts), state.variable)


def states(program: Any = None) -> list[StaticState]:
    """The state variables that a program holds, in the order of their creation.

    Args:
        program: a static program, or a clone of one; None: the default main program.

    Returns:
        The states; each has a ``name``, ``shape``, ``dtype`` and ``reduction``.
    """
    program = paddle.static.default_main_program() if program is None else program
    held = kind_of(program).variables(program)
    return [StaticState(name, *known[:3], held[name]) for name, known in _registry.items() if name in held]


def load(program: Any, path: str, executor: Any = None, *, scope: Any = None) -> None:
    """`paddle.static.load` for a program with metrics: also loads checkpoints of other metrics, or of none.

    It sets the variables of the checkpoint. States that the checkpoint lacks, or has with another class or other
    settings, start from zero, and a warning names them.

    Args:
        program: its startup program must have run.
        path: as for `paddle.static.save`; in the legacy graph also a folder of ``save_vars``.
        executor: accepted, as in `paddle.static.load`, but not needed.
        scope: None: the global scope.

    Raises:
        InvalidInputError: Paddle can read nothing there, or the third argument is not an executor.
    """
    if executor is not None and not isinstance(executor, paddle.static.Executor):
        raise InvalidInputError(
            f"executor, the third argument as in paddle.static.load, must be a paddle.static.Executor or None, not "
            f"{type(executor).__name__}; a scope goes by keyword, scope="
        )
    checkpoint = paddle.static.load_program_state(path)
    if not checkpoint:
        raise InvalidInputError(f"path: {path!r} holds no variable that paddle.static.load_program_state can read")
    own = states(program)
    missing = [state for state in own if state.name not in checkpoint]
    strange = _strange(own, checkpoint)
    for state in strange:
        del checkpoint[state.name]  # for another shape, Paddle loads a part and then raises an AssertionError
    scope = paddle.static.global_scope() if scope is None else scope
    with paddle.static.scope_guard(scope):
        paddle.static.set_program_state(program, checkpoint)
        for state in [*missing, *strange]:
            state.reset(scope)
    _say_what_begins_anew(path, missing, strange)


def _strange(own: Sequence[StaticState], checkpoint: Any) -> list[StaticState]:
    """The states that a checkpoint has for another metric, or in another form."""
    loaded = {state.name: np.asarray(checkpoint[state.name]) for state in own if state.name in checkpoint}
    strange = {state.name for state in own if state.name in loaded and not _has_form(loaded[state.name], state)}
    for owner in claims_of(state.name for state in own):
        names = {name for name, *_ in owner.states}
        if not owner.fits(checkpoint) or strange & names:
            strange |= names
    return [state for state in own if state.name in strange and state.name in loaded]


def _has_form(array: np.ndarray, state: StaticState) -> bool:
    return array.shape == tuple(state.shape) and array.dtype == state.dtype


def _say_what_begins_anew(path: str, missing: Sequence[StaticState], strange: Sequence[StaticState]) -> None:
    if missing:
        names = ", ".join(state.name for state in missing)
        warn(
            f"{path} was saved without these states of metrics, which start from zero: {names}. Everything else was "
            "loaded"
        )
    if strange:
        names = ", ".join(state.name for state in strange)
        warn(
            f"{path} has these states of different metrics (a different class or different settings), so they start "
            f"from zero: {names}"
        )


# -- checks before Paddle runs a program with states -----------------------------------------------------


def _watch() -> None:
    """Check the programs of executors from now on; a second call does nothing."""
    executor = paddle.static.Executor
    if hasattr(executor.run, "by_fleetmetrics"):
        return
    run = executor.run
    seen: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()

    @functools.wraps(run)
    def checked_run(self: Any, program: Any = None, *arguments: Any, **named: Any) -> Any:
        scope = named.get("scope") or (arguments[4] if len(arguments) > 4 else None) or paddle.static.global_scope()
        plain, as_seen = _plain(program), (id(scope), len(_registry))
        if seen.get(plain) != as_seen:
            _checked_states(plain, scope)
            seen[plain] = as_seen
        return run(self, program, *arguments, **named)

    checked_run.by_fleetmetrics = True  # type: ignore[attr-defined]
    executor.run = checked_run
    executor.train_from_dataset = _counting_right(executor.train_from_dataset)
    executor.infer_from_dataset = _counting_right(executor.infer_from_dataset)


def _plain(program: Any) -> Any:
    return getattr(program, "_program", program) or paddle.static.default_main_program()


def _checked_states(program: Any, scope: Any) -> list[str]:
    """The names of the states that a program reads.

    Raises:
        StateNotFoundError: the scope does not hold all of them.
        StaticProgramError: it holds those of another metric.
    """
    names = [state.name for state in states(program)]
    if names and kind_of(program) is Legacy:  # a startup program has them, too, but only writes them
        read = {name for operation in program.global_block().ops for name in operation.input_arg_names}
        names = [name for name in names if name in read]
    variables = {name: scope.find_var(name) for name in names}
    empty = [name for name, held in variables.items() if held is None or not held.get_tensor()._is_initialized()]
    if empty:
        raise StateNotFoundError(
            f"this program accumulates into {', '.join(empty[:3])}{', ...' if empty[3:] else ''}, which the scope "
            "does not hold yet: Paddle would crash with a segmentation fault. Run the startup program first; or, if "
            "that would reset parameters, call reset() of the metric or state, with the scope of the run"
        )
    for owner in claims_of(names):
        owner.check(scope)
    return names


def _counting_right(run_from_dataset: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run_from_dataset)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        call = inspect.signature(run_from_dataset).bind(self, *arguments, **named).arguments
        threads = max(call.get("thread", 0), getattr(call.get("dataset"), "thread_num", 1))
        program = _plain(call.get("program"))
        scope = call.get("scope") or paddle.static.global_scope()
        counted = _checked_states(program, scope)
        if counted and kind_of(program) is not Legacy:
            raise StaticProgramError(
                f"this program accumulates into {counted[0]}, but {run_from_dataset.__name__} does not run programs "
                "of Paddle 3 (PIR). Read the data in a loop, and give each batch to exe.run"
            )
        counted += [name for name in counters_beside(program) if name not in counted]
        if not counted or threads == 1:
            return run_from_dataset(self, *arguments, **named)
        if not isinstance(self.place, paddle.CPUPlace) or program._pipeline_opt or program._heter_pipeline_opt:
            raise StaticProgramError(
                f"this program accumulates into {counted[0]}, and {threads} threads would lose batches: two of them "
                "read the same old value, and one update is lost. fleetmetrics can prevent this only on the CPU, and "
                "not in a pipeline. Give the dataset thread_num=1 (thread=1 is not enough for a QueueDataset); or "
                "train a program without metrics, and count with a second program in a loop of exe.run"
            )
        with locked(program, counted, scope):
            return run_from_dataset(self, *arguments, **named)

    return checked
