"""The base of metrics and of collections: add batches, exchange once, evaluate."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any, Generic, Iterator, Mapping, Sequence

import numpy as np

import fleetmetrics
from fleetmetrics.base.adding import Adding
from fleetmetrics.batch.one_hot import CLASSES, REFUSED
from fleetmetrics.errors import (
    InvalidInputError,
)
from fleetmetrics.state.state import State, blocks_of
from fleetmetrics.state.state_dicts import Holder
from fleetmetrics.support.checks import flag_of
from fleetmetrics.support.traced import raise_if_traced
from fleetmetrics.support.typed import Self

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    import fleetmetrics.comm
    import fleetmetrics.records.folding

    Value = TypeVar("Value", default=Any, covariant=True)
else:
    from typing import TypeVar

    Value = TypeVar("Value", covariant=True)

__all__ = ["FOR_USERS", "Accumulator", "Value"]

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

#: Seconds to wait for no one: a single worker reads no setting.
_NO_WAIT = 1.0


class Accumulator(Adding, Generic[Value]):
    """The base of a metric and of several: add batches, exchange once, evaluate; for the arguments see `Metric`."""

    def __dir__(self) -> list[str]:
        """List the members for users, and those that a class outside this package adds, for completion."""
        package = [kind for kind in type(self).__mro__ if kind.__module__.startswith("fleetmetrics.")]
        internal = {name for kind in package for name in (*vars(kind), *vars(kind).get("__annotations__", ()))}
        internal |= set() if type(self) not in package else {*vars(self)}
        internal -= {"name", *FOR_USERS, *inspect.signature(type(self)).parameters}
        return [name for name in super().__dir__() if name.startswith("_") or name not in internal]

    def _read(self) -> Mapping[State, np.ndarray]:
        values = {state: state.read() for state in self._states()}
        self._raise_if_invalid(values)
        return values

    def _called_of(self, metric: fleetmetrics.records.folding.Folding) -> str:
        return self.name_in_errors(next(leaf for leaf in self.leaf_metrics() if metric in leaf.record_metrics()))

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
