"""Adding: batches of arrays, tensors or static variables become increments of states and records."""

from __future__ import annotations

import _thread
import itertools
from typing import TYPE_CHECKING, Any, ClassVar, Iterable, Iterator, Mapping

from fleetmetrics import xp as namespaces
from fleetmetrics.base.nesting import Nestable
from fleetmetrics.batch import Batch
from fleetmetrics.batch.one_hot import Earlier
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
from fleetmetrics.state.state import State, accumulate_all
from fleetmetrics.state.state_dicts import HeldPass
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
from fleetmetrics.support.vocabulary import snake_case

if TYPE_CHECKING:
    pass

__all__ = ["Adding", "unnamed"]

_ordinals: dict[str, Iterator[int]] = {}


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


class _OwnLock(_thread.RLock):  # type: ignore[misc]  # which can be derived from
    """The lock of threads that add to one metric; a copy of the metric has its own."""

    def __reduce__(self) -> Any:
        return _OwnLock, ()


class Adding(Nestable):
    """An object that takes batches, with their states and records; for the arguments see `Metric`."""

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
        self._adding = _OwnLock()
        self.program: Any = None  # the static program that add was called in
        self.states: dict[str, State] = {}
        self._pass = Pass(sampler)
        self._held_pass = HeldPass(self._pass)

    if not TYPE_CHECKING:  # otherwise every attribute would seem to exist

        def __getattr__(self, name: str) -> Any:
            from fleetmetrics.support.hints import hint_of_method  # few make mistakes, and every metric is imported

            hint = hint_of_method(name)
            raise UnknownAttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

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
                accumulate_all(increments, look=self.validate and batch.xp is namespaces.numpy_ops)
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
            metric, further = folds.metrics[0], {name: None for leaf in self.leaf_metrics() for name in leaf.columns}
            columns = ["prediction"] if self.takes_label is False else ["prediction", "label"]
            arguments = ", ".join([*columns, *further])
            raise StaticProgramError(
                f"{metric.name} ({type(metric).__name__}) keeps every sample, but a static program has only variables "
                f"of a fixed size; fetch {arguments} with exe.run(fetch_list=...), and pass the arrays to add after "
                "each run"
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
