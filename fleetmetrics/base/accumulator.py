"""The base of metrics and of collections: add batches, exchange once, evaluate."""

from __future__ import annotations

import _thread
import copy
import inspect
import itertools
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Iterable, Iterator, Mapping, Sequence

import numpy as np

import fleetmetrics
from fleetmetrics import xp as namespaces
from fleetmetrics.base.nesting import Nestable
from fleetmetrics.batch import Batch
from fleetmetrics.batch.one_hot import CLASSES, REFUSED, Earlier
from fleetmetrics.batch.rules import Check, Requirement, applicable
from fleetmetrics.errors import (
    DuplicateStateError,
    FleetMetricsError,
    IntegerOverflowError,
    InvalidInputError,
    StaticProgramError,
    UnknownAttributeError,
)
from fleetmetrics.samplers.progress import Pass
from fleetmetrics.state.state import State, add_numbers, blocks_of
from fleetmetrics.state.state_dicts import HeldPass, Holder
from fleetmetrics.support.checks import flag_of
from fleetmetrics.support.launcher import notice
from fleetmetrics.support.settings import (
    AllArguments,
    described,
    raise_if_missing,
    raise_if_positional,
    raise_if_unknown,
)
from fleetmetrics.support.traced import keep_out_of_programs, raise_if_traced
from fleetmetrics.support.typed import Self
from fleetmetrics.support.vocabulary import snake_case

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    import fleetmetrics.comm
    import fleetmetrics.records.folding
    from fleetmetrics.records.table import Table

    Value = TypeVar("Value", default=Any, covariant=True)
else:
    from typing import TypeVar

    Value = TypeVar("Value", covariant=True)

__all__ = ["FOR_USERS", "Accumulator", "Value", "unnamed"]

#: The members for users, in the order in which they need them; `dir` of a metric lists these and its settings, and the
#: reference documents them. `dir` of a class lists the rest, for authors of metrics.
FOR_USERS: tuple[str, ...] = (
    "add",
    "add_frame",
    "compute",
    "compute_async",
    "compute_local",
    "reset",
    "merge",
    "fresh",
    "rename",
    "close",
    "state_dict",
    "set_state_dict",
    "settings",
    "plot",
    "sampler",
)

_ordinals: dict[str, Iterator[int]] = {}
#: Seconds to wait for no one: a single worker reads no setting.
_NO_WAIT = 1.0


def _default_name(kind: type) -> str:
    """``accuracy_0``, ``accuracy_1``, ...: the same on every worker that runs the same script."""
    stem = snake_case(kind.__name__)
    return f"{stem}_{next(_ordinals.setdefault(stem, itertools.count()))}"


def unnamed(name: str, call: str) -> StaticProgramError:
    """The error for a metric of a static program that a counter named; ``call``: what to write instead."""
    return StaticProgramError(
        f"{name} was named by a counter, but a static program needs names of your own: checkpoints have its variables "
        f"by name, and in a script with one metric fewer a different metric would get this one. Write {call}"
    )


class _Adding(_thread.RLock):  # type: ignore[misc]  # which can be derived from
    """The lock of threads that add to one metric; a copy of the metric has its own."""

    def __reduce__(self) -> Any:
        return _Adding, ()


class Accumulator(Nestable, Generic[Value]):
    """The base of a metric and of several: add batches, exchange once, evaluate; for the arguments see `Metric`."""

    share: bool
    named_by_default: bool
    validate: bool

    #: Whether each label of a row is a task of its own, of which a row of a file or a data frame may lack some.
    labels_apart: ClassVar[bool] = False
    #: What rows of labels of the scores' shape were taken as since the last reset.
    earlier: Earlier = Earlier()
    incidental: ClassVar[tuple[str, ...]] = ("name", "validate", "share", "sampler", "class_axis")

    #: The name of a fresh copy (None: a generated one), whichever its class gives; `...` for any other object.
    _name_as_copy: Any = ...

    __signature__: AllArguments = AllArguments()

    if not TYPE_CHECKING:  # which should take the signature from __init__

        def __new__(cls, *arguments: Any, **settings: Any) -> Any:
            """Raise an error that names the missing keyword, where Python would only count the positional arguments."""
            if arguments:
                raise_if_positional(cls, arguments)
            raise_if_missing(cls, arguments, settings)
            settings.pop("sampler", None)  # it may be set and removed: see `sampler`
            return super().__new__(cls, *arguments, **settings)

    def __init__(
        self,
        *,
        name: str | None = None,
        validate: bool = True,
        share: bool = False,
        sampler: Any = None,
        size: int | None = None,
        **unknown: Any,
    ) -> None:
        raise_if_unknown(type(self), unknown)
        notice()
        keep_out_of_programs(type(self), "add", "compute", "compute_async", "compute_local")
        if self._name_as_copy is not ...:
            name = self._name_as_copy
        self._set_name(_default_name(type(self)) if name is None else name)
        self.named_by_default = name is None
        self._count_to(size)
        self.validate, self.share = flag_of("validate", validate), flag_of("share", share)
        self._adding = _Adding()
        self.program: Any = None  # the static program that add was called in
        self.states: dict[str, State] = {}
        self._pass = Pass(sampler)
        self._held_pass = HeldPass(self._pass)

    if not TYPE_CHECKING:  # otherwise every attribute would seem to exist

        def __getattr__(self, name: str) -> Any:
            from fleetmetrics.support.hints import hint_of_method  # few make mistakes, and every metric is imported

            hint = hint_of_method(name)
            raise UnknownAttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __dir__(self) -> list[str]:
        """List the members for users, and those that a class outside this package adds, for completion."""
        package = [kind for kind in type(self).__mro__ if kind.__module__.startswith("fleetmetrics.")]
        internal = {name for kind in package for name in (*vars(kind), *vars(kind).get("__annotations__", ()))}
        internal |= set() if type(self) not in package else {*vars(self)}
        internal -= {"name", *FOR_USERS, *inspect.signature(type(self)).parameters}
        return [name for name in super().__dir__() if name.startswith("_") or name not in internal]

    def _set_name(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"name must be a non-empty string or None, not {name!r}")
        self.name = name
        self._check = Check(name)
        if self._data_size is not None:
            self._count_to(self._data_size.size)

    def _count_to(self, size: int | None) -> None:
        """Count the samples, if the number of those of the data set is known."""
        if size is not None:
            from fleetmetrics.base.data_size import DataSize

            self._data_size = DataSize(self.name, size)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments by name, defaults included; ``size`` only if given."""
        return {name: value for name, value in super().settings().items() if name != "size" or value is not None}

    @property
    def sampler(self) -> Any:
        """The sampler that assigns the samples; setting it begins a new pass, and keeps the accumulated samples."""
        return self._pass.sampler

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self._check_is_free()
        self._pass.follow(sampler)

    def _told(self, error: FleetMetricsError, batch: Any = None) -> FleetMetricsError:
        """The error, with its subject as a prefix."""
        about, error.about = error.about, None
        if isinstance(about, Requirement):
            shared = about.argument in ("weight", "mask")
            asked = (
                (leaf, applicable(tuple(leaf.requirements_of(batch)), batch.classes)) for leaf in self.leaf_metrics()
            )
            about = None if shared else next((leaf for leaf, rules in asked if about in rules), None)
        text = str(error)
        for common, own in zip(("prediction", "label"), self.arguments):  # the metric may have a different name there
            if text.startswith(common):
                text = own + text[len(common) :]
        error.args = (f"{self.name_in_errors(about)}: {text}",)
        return error

    def batch_checks(self) -> list[Check]:  # noqa: D102
        return [self._check]

    def _states(self) -> list[State]:
        """All states, each once, those of the checks first."""
        checks = [state for check in self.batch_checks() for state in check.states]
        return list(dict.fromkeys([*checks, *self.own_states(), *self._counted()]))

    def _counted(self) -> Sequence[State]:
        """The state that counts samples, if the size of the data set is given."""
        return () if self._data_size is None else (self._data_size.added,)

    def record_folds(self) -> list[fleetmetrics.records.folding.Folds]:
        """The tables of records, each with all its folds."""
        tables: dict[Table, list[fleetmetrics.records.folding.Folding]] = {}
        for metric in self.record_metrics():
            tables.setdefault(metric.table, []).append(metric)
        if not tables:
            return []
        from fleetmetrics.records.folding import Folds

        return list(itertools.starmap(Folds, tables.items()))

    def _read(self) -> Mapping[State, np.ndarray]:
        values = {state: state.read() for state in self._states()}
        self._raise_if_invalid(values)
        return values

    def _called_of(self, metric: fleetmetrics.records.folding.Folding) -> str:
        return self.name_in_errors(next(leaf for leaf in self.leaf_metrics() if metric in leaf.record_metrics()))

    # -- add -----------------------------------------------------------------------------------------------

    def add(
        self, prediction: Any = None, label: Any = None, weight: Any = None, mask: Any = None, **columns: Any
    ) -> None:
        """Accumulate one batch; inside a static program, append the operations that do so at every run.

        Args:
            prediction: the model's output; see the class for shapes. NumPy arrays, numbers, lists, dynamic
                tensors (the states then stay on their device) or static variables.
            label: the truth.
            weight: one number of at least 0 per sample, or one for all; None: 1.
            mask: one flag per sample; a sample masked by False leaves no trace. None: all count.
            **columns: further arguments of the metric, such as ``user=`` or ``query=``: an integer or string a sample.

        Raises:
            InvalidInputError: shapes or values are invalid; the batch was not added.
                In a static program, and on a device other than the CPU, values are checked as the batches run, and
                ``compute`` raises the error.
            StaticProgramError: in a static program, the metric has no name of yours; or called twice for one static
                program, or with arrays after static variables.
        """
        self._check_is_free()
        if label is not None and self.takes_label is False:
            raise InvalidInputError(
                f"{self.name} got a label, but its metrics take only values; pass weights by keyword: add(values, "
                "weight=...)"
            )
        if columns or self.columns:
            self._check_columns(columns)
        if prediction is None:
            raise InvalidInputError(f"{type(self).__name__}.add: {self.arguments[0]} is missing")
        with self._adding:  # threads add one after the other
            its = self._pass
            alone = weight is mask is self._data_size is None and not columns and not its.counts
            if alone and self._add_plain(prediction, label):
                its.done += len(prediction)
                return
            try:
                batch = self._batch_of(prediction, label, weight, mask, columns)
            except (InvalidInputError, IntegerOverflowError) as error:
                raise self._told(error) from None
            if not its.counts or (batch.xp is namespaces.numpy_ops and its.all_count(batch.rows)):
                self._add(batch)
                its.done += batch.rows
                if (mask is not None or weight is not None) and not its.counts and not its.handled:
                    its.handled = batch.left_some_out
                return
            mark = its.mark()
            try:
                self._leave_padding_out(batch)
                self._add(batch)
            except BaseException:
                its.back_to(mark)
                raise

    def _batch_of(self, prediction: Any, label: Any, weight: Any, mask: Any, columns: Mapping[str, Any]) -> Batch:
        if self.samples in ("numbers", "any"):
            return Batch(prediction, label, weight, mask, columns, self.class_axis, self)
        from fleetmetrics.batch.text_batch import TextBatch  # few metrics take texts

        return TextBatch(prediction, label, weight, mask, columns)

    def _add_plain(self, prediction: Any, label: Any) -> bool:
        """Overridden if plain arrays have a fast path; False: they take the usual path, which finds their errors."""
        return False

    def _leave_padding_out(self, batch: Batch) -> None:
        if batch.xp is not namespaces.numpy_ops and namespaces.is_static(batch.each):
            raise StaticProgramError(
                f"{self.name} has a sampler, but a static program calls add once, not for every batch. Create it "
                "without a sampler, and feed flags of the samples that count: add(..., mask=flags); "
                "fleetmetrics.padding_mask(sampler) tells which of this worker's samples are padding"
            )
        try:
            flags = self._pass.take(batch.rows)
        except InvalidInputError as error:
            raise self._told(error) from None
        if flags is not None:
            batch.leave_out(flags)

    def _add(self, batch: Batch) -> None:
        """Accumulate a batch, whole or not at all."""
        if batch.empty:
            return
        static = batch.xp is not namespaces.numpy_ops and namespaces.is_static(batch.each)
        if static:
            program = self._enter_program()
        elif self.program is not None:
            raise StaticProgramError(
                f"{self.name} accumulates inside a static program and was given {type(batch.each).__name__}; use a "
                "separate metric for arrays"
            )
        with batch.xp.quiet():
            try:
                batch.check(self.requirements_of(batch), self.validate)
                increments = dict(self.increments_of(batch))
                counted = self._counted()
                if counted:
                    increments.update({state: batch.added for state in counted})
            except InvalidInputError as error:
                raise self._told(error, batch) from None
            if not self.validate:
                increments = {key: namespaces.without_strays(batch.xp, by, key) for key, by in increments.items()}
            if not static:
                if batch.valid is not None:
                    increments.update(self._check.statistics(batch))
                self._accumulate(increments, look=self.validate and batch.xp is namespaces.numpy_ops)
                if batch.earlier is not None:
                    self.earlier = batch.earlier
        if static:
            dtypes = {state: batch.xp.state_dtype(increment) for state, increment in increments.items()}
            self._enter_states({**dict.fromkeys(self._check.states, "int64"), **dtypes})
            increments.update(self._check.statistics(batch))
            for state, increment in increments.items():
                state.accumulate(increment)
            self.program = program  # not earlier: a caller may correct and repeat a failed add

    def add_frame(self, frame: Any, **columns: Any) -> None:
        """Accumulate a data frame, as one batch.

        Args:
            frame: of pandas, polars or pyarrow, or anything with ``__arrow_c_stream__``.
            **columns: the column of the frame for each argument of ``add``, ``prediction="p", label="y", user="uid"``;
                a list of columns, or a column of lists, gives several predictions or labels per sample. Keys
                (users, slots) may be integers, strings, categories, bools, dates and times; the latter become strings
                in ISO's form.

        Raises:
            InvalidInputError: a column is missing, has the wrong type or nulls; or as for `add`. Nothing was added.

        Examples:
            >>> import pyarrow
            >>> from fleetmetrics import Accuracy, Sliced
            >>> frame = pyarrow.table({"p": [0.9, 0.2, 0.7], "y": [1, 0, 0], "slot": ["a", "a", "b"]})
            >>> metric = Sliced(Accuracy(), by="slot")
            >>> metric.add_frame(frame, prediction="p", label="y", slot="slot")
            >>> metric.compute()
            {'a': 1.0, 'b': 0.0}
        """
        from fleetmetrics.columns.frames import arguments_of

        self.add(**arguments_of(self, frame, columns))

    def _accumulate(self, increments: Mapping[Any, Any], look: bool) -> None:
        """Merge a batch's increments into all states, or into none.

        Args:
            increments: by state.
            look: whether to check for overflowed sums.
        """
        if add_numbers(increments):  # like most metrics' states
            return
        marks = [(state, state.mark()) for state in increments]
        try:
            for state, increment in increments.items():
                state.accumulate(increment)
                if look:
                    state.raise_if_overflown()
        except Exception as error:
            for marked, mark in marks:
                marked.back_to(mark)
            if isinstance(error, IntegerOverflowError):
                raise IntegerOverflowError(f"{state.name}: {error}") from None
            raise

    def _check_columns(self, columns: Mapping[str, Any]) -> None:
        wanted = sorted({name for leaf in self.leaf_metrics() for name in leaf.columns})
        for name in columns:
            if name not in wanted:
                raise self._unknown(name, wanted)
        for leaf in self.leaf_metrics():
            for name in leaf.columns:
                if columns.get(name) is None:
                    raise InvalidInputError(
                        f"{self.name_in_errors(leaf)}: {name} is missing; pass add(..., {name}=), one entry per sample"
                    )

    def _unknown(self, argument: str, columns: Iterable[str] = ()) -> InvalidInputError:
        from fleetmetrics.support.hints import hint_of_argument

        allowed = [*self.arguments, *columns]
        return InvalidInputError(
            f"{type(self).__name__}.add has no argument {argument!r}{hint_of_argument(argument, allowed)} Allowed are "
            f"{', '.join(allowed)}"
        )

    def holds_samples(self) -> bool:
        """Whether batches of arrays or tensors have been added since the last reset."""
        tables = [folds.table for folds in self.record_folds()]
        return any(state.value is not None for state in self._states()) or any(map(len, tables))

    def _check_is_free(self) -> None:
        """Overridden where adding could change the states of others."""

    def _enter_program(self) -> Any:
        from fleetmetrics import static

        raise_if_traced(f"add of {self.name}")
        for folds in self.record_folds():
            metric, columns = folds.metrics[0], ", ".join(folds.table.columns)
            raise StaticProgramError(
                f"{metric.name} ({type(metric).__name__}) keeps every sample, but a static program has only variables "
                f"of a fixed size; fetch {columns} with exe.run(fetch_list=...) and pass the arrays to add after each "
                "run"
            )
        if any(state.value is not None for state in self._states()):
            raise StaticProgramError(f"{self.name} already holds arrays; create a separate metric for a static program")
        if self.program is not None:
            raise StaticProgramError(
                f"add of {self.name} was already called in a static program; its operations run with every batch of "
                "that program, so call it only once. For a second program or a second input, create a second metric "
                "(the same name with share=True accumulates into the same variables)"
            )
        self._raise_if_unnamed()
        return static.current_program()

    def _raise_if_unnamed(self) -> None:
        """Raise StaticProgramError if a counter generated a name with which variables would begin."""
        for metric in (self, *self.fed_metrics()):
            if metric.named_by_default:
                raise unnamed(metric.name, self.call_with_name())

    def call_with_name(self) -> str:
        """The constructor's calls that give it a name."""
        kind, name = type(self).__name__, snake_case(type(self).__name__)
        settings = [] if repr(self) == f"{kind}()" else ["..."]
        named = ", ".join([*settings, f'name="{name}"'])
        return f'{kind}({named}) or MetricCollection({{"{name}": {kind}({"".join(settings)})}})'

    def name_in_program(self) -> str:
        """The beginning of its variables' names."""
        return self.name

    def _enter_states(self, dtypes: Mapping[State, str]) -> None:
        owner, own = self.name_in_program(), f"{self.name}."
        for state, dtype in dtypes.items():
            name = f"{owner}.{state.name[len(own) :]}" if state.name.startswith(own) else state.name
            try:
                state.enter_program(name, dtype, self.share)
            except DuplicateStateError as error:
                way_out = f". Name it: {type(self).__name__}(..., name=)" if self.named_by_default else ""
                raise DuplicateStateError(f"{self.name}: {error}{way_out}") from None
        from fleetmetrics import static

        held = [state.static for state in dtypes]
        static.claim(owner, described(self, short=True), held, static.current_program())

    # -- compute -------------------------------------------------------------------------------------------

    def compute(
        self,
        scope: Any = None,
        *,
        util: Any = None,
        communicator: fleetmetrics.comm.Communicator | None = None,
        group: Any = None,
        timeout: float | None = None,
        partial: bool = False,
    ) -> Value:
        """The value over the samples of all workers, the same on every worker; of a collection, a dict of values.

        Every worker must call it; the accumulated samples stay.

        Args:
            scope: the scope of a static program's variables; None: the global scope.
            util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``: in a launched job it means the
                job's workers, as None does, and otherwise the numbers go through it.
            communicator: None: the one that was set or is chosen automatically.
            group: the workers to compute over; only these call it, see `fleetmetrics.Communicator.among`. None: all.
            timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800, or
                300 until all have met.
            partial: True if the job leaves a sampler's pass early: workers may then lack samples of the pass.

        Raises:
            FleetMetricsError: the same error on every worker, by the deadline.
        """
        from fleetmetrics.comm.choose import call_of

        raise_if_traced(f"compute of {self.name}")
        with call_of(f"{type(self).__name__} {self.name}", communicator, util, group, timeout) as call:
            *_, exchanged = self._exchange(call, scope, partial)
        return self._evaluated(*exchanged)

    def compute_async(
        self,
        scope: Any = None,
        *,
        util: Any = None,
        communicator: fleetmetrics.comm.Communicator | None = None,
        group: Any = None,
        timeout: float | None = None,
        partial: bool = False,
    ) -> fleetmetrics.comm.Answer[Value]:
        """Begin a `compute`, and return at once; the answer is that over the samples added before this call.

        Every worker must call it, and all workers must begin it at the same place among their calls. Later calls of
        ``add``, ``reset`` and ``compute`` do not change the answer. Ask for the result before the program ends.

        Args:
            scope: as for `compute`; the variables are read now.
            util: as for `compute`; an error where the numbers would go through it.
            communicator: as for `compute`.
            group: as for `compute`.
            timeout: as for `compute`, from now on.
            partial: as for `compute`.

        Returns:
            ``result(timeout=None)`` waits for the value, or raises the error that every worker gets; ``done()`` tells
            whether it would wait.

        Raises:
            CommunicatorError: the channel carries one call at a time, as MPI does, or is closed.

        Examples:
            >>> from fleetmetrics import Mean
            >>> metric = Mean()
            >>> metric.add([1.0, 2.0])
            >>> answer = metric.compute_async()
            >>> metric.add([9.0])
            >>> answer.result(), metric.compute()
            (1.5, 4.0)
        """
        from fleetmetrics.comm.answers import Answer
        from fleetmetrics.comm.choose import call_of

        raise_if_traced(f"compute of {self.name}")
        call = call_of(f"{type(self).__name__} {self.name}", communicator, util, group, timeout)
        exchange = self._exchange(call, scope, partial)

        def begin() -> None:
            with self._adding:  # other threads may add
                blocks, tables = next(exchange)
                for block in blocks:
                    if not getattr(block, "fresh", False):
                        block.array = block.array.copy()
                tables[:] = [type(folds)(copy.copy(folds.table), folds.metrics) for folds in tables]

        return Answer(call, begin, lambda: next(exchange), lambda exchanged: self._evaluated(*exchanged))

    def compute_local(self, scope: Any = None) -> Value:
        """The value over this worker's samples only; no communication.

        Args:
            scope: the scope of a static program's variables; None: the global scope.
        """
        from fleetmetrics.comm.local import LocalCommunicator

        raise_if_traced(f"compute of {self.name}")
        with LocalCommunicator().call(f"{type(self).__name__} {self.name}", _NO_WAIT) as call:
            *_, exchanged = self._exchange(call, scope, None)
        return self._evaluated(*exchanged)

    def _exchange(self, call: fleetmetrics.comm.Call, scope: Any, partial: bool | None) -> Iterator[Any]:
        """Exchange what has been added with the call's workers, which must agree: two steps, and a pause between them.

        Yields:
            What this worker sends, in two lists, whose entries may be replaced by copies; then the arguments of
            `_evaluated`.
        """
        channel, check = call.channel, self._check
        several = channel.world_size > 1
        whole = partial is not None and not flag_of("partial", partial)  # None: without a pass
        call.name += "" if partial is None else self._check_pass(channel, whole)
        repeats = self._repeats(channel) if whole and several else None
        states, tables = self._states(), self.record_folds()
        with self._adding:
            blocks = blocks_of(states, scope)
        if repeats is not None:
            place = states.index(check.seen)
            blocks[place] = check.flagged(blocks[place])
        yield blocks, tables
        totals = call.reduce(blocks, self._terms() if several else "")
        values = dict(zip(states, totals))
        if repeats is not None and check.flags_in(values) < channel.world_size:
            repeats = None
        carries: Mapping[Any, Any] = {}
        same = False
        if tables:
            from fleetmetrics.records.fold import fold_in_order

            self._raise_if_invalid(values)
            carries, same = fold_in_order(call, tables, values)
        elif several:
            from fleetmetrics.samplers.repeats import sums_are_equal

            first = len(check.states) * len(self.batch_checks())
            same = sums_are_equal(blocks[first:], totals[first:], channel.world_size)
        yield values, carries, repeats, channel.world_size if same else 0, whole

    def _evaluated(
        self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any], repeats: Any, same: int, whole: bool
    ) -> Any:
        """The value, with the warnings about the samples.

        Args:
            values: the global states.
            carries: of the records.
            repeats: the sampler whose repeated samples all workers have counted, if there is one.
            same: the number of workers, if all have added the same samples; else 0.
            whole: whether the pass of a sampler had to be complete.
        """
        if repeats is not None and self._pass.once():
            repeats.warn(self.name_in_errors(), type(self).__name__)
        self._raise_if_invalid(values)
        if same:
            from fleetmetrics.samplers.repeats import warn_of_same_samples

            warn_of_same_samples(self.name_in_errors(), same)
        if whole and self._data_size is not None:
            self._data_size.warn_unless_met(self.name_in_errors(), values)
        try:
            return self.value_from_states(values, carries)
        except InvalidInputError as error:
            raise self._told(error) from None

    def _check_pass(self, channel: fleetmetrics.comm.Communicator, whole: bool) -> str:
        """The note on pass and data, on which all workers must agree; `InvalidInputError` if its pass is incomplete."""
        for part in self.fed_metrics():
            if part.sampler is not None:
                raise InvalidInputError(
                    f"{self.name_in_errors(part)}: its sampler is ignored when {self.name} adds to it; set the sampler "
                    f"of {self.name} instead"
                )
        its = self._pass
        try:
            settings = its.check(channel.rank, channel.world_size, whole) if its.counts or its.held else None
        except InvalidInputError as error:
            raise self._told(error) from None
        pass_settings = ", ".join(f"{name} {value}" for name, value in settings.items()) if settings else ""
        size = f" of {self._data_size.size:,} samples" if self._data_size is not None else ""
        return size + (f" (a pass of a sampler with {pass_settings})" if pass_settings else "")

    def _repeats(self, channel: fleetmetrics.comm.Communicator) -> Any:
        """For a metric without a sampler: one of this process that dealt all of its samples, and repeated some."""
        its = self._pass
        if its.counts or its.handled or self._data_size is not None or self._check not in self.batch_checks():
            return None
        from fleetmetrics.samplers.repeats import repeats_of

        look, its.looked = not its.looked, its.looked or its.done > 0
        return repeats_of(its.done, channel.rank, channel.world_size, look)

    def _raise_if_invalid(self, values: Mapping[State, np.ndarray]) -> None:
        """Raise if a worker met an invalid sample, or a sum has overflowed."""
        if not self.validate:
            return
        for state, value in values.items():
            if value.dtype.kind == "f":
                state.raise_if_overflown(value)
        for check in self.batch_checks():
            if values[check.invalid]:
                owner = self.name_in_errors() if check is self._check else check.owner
                rules = {self.name_in_errors(leaf): leaf.requirements for leaf in self.leaf_metrics()}
                check.raise_if_invalid(values, owner, rules, self.meaning.of in (CLASSES, REFUSED))

    # -- reset -----------------------------------------------------------------------------------------

    def reset(self, scope: Any = None) -> None:
        """Forget everything accumulated on this worker.

        Args:
            scope: the scope of a static program's variables; None: the global scope.
        """
        for state in self._states():
            state.reset(scope)
        for folds in self.record_folds():
            folds.table.reset()
        self._pass.reset()
        self.earlier = Earlier()

    def fresh(self, name: str | None = None) -> Self:
        """Return an empty copy with the same arguments; you may set its ``sampler`` to a different one.

        Args:
            name: the copy's name; None: the class name and a number, in the order of creation.
        """
        return self.copied(name, {})

    def copied(self, name: str | None, copies: dict[Accumulator, Accumulator]) -> Any:
        """`fresh`; ``copies`` has the copy of each metric inside, so that a metric used twice stays one."""
        arguments, settings = (self._with_copies(kept, name, copies) for kept in self._made_with)
        copy: Any = type(self).__new__(type(self), *arguments, **settings)
        copy._name_as_copy = name
        copy.__init__(*arguments, **settings)
        copy.validate, copy.share = self.validate, self.share
        copy._pass.follow(self.sampler)
        copy._pass.counts = self._pass.counts
        return copy

    def _with_copies(self, argument: Any, name: str | None, copies: dict[Accumulator, Accumulator]) -> Any:
        """An argument of the constructor, with a copy of each metric in it; ``name`` is that of the whole."""
        if isinstance(argument, Accumulator):
            if argument not in copies:
                copies[argument] = argument.copied(self._part_name(argument, name), copies)
            return copies[argument]
        if type(argument) in (list, tuple, set):
            return type(argument)(self._with_copies(entry, name, copies) for entry in argument)
        if type(argument) is dict:
            return {key: self._with_copies(entry, name, copies) for key, entry in argument.items()}
        return argument

    def _part_name(self, part: Accumulator, name: str | None) -> str | None:
        """The name of the copy of a metric inside; ``name`` is that of the whole."""
        return None

    def holders(self) -> Sequence[Holder]:
        """All states, each once, the tables of records, and the pass."""
        return [*self._states(), *self.record_folds(), self._held_pass]
