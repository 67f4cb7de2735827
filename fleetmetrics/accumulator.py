"""What accumulates: a metric and a collection add batches, exchange once, and evaluate their members."""

from __future__ import annotations

import itertools
import re
import time
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping

import numpy as np

from fleetmetrics import xp as namespaces
from fleetmetrics.arguments import flag_of
from fleetmetrics.batch import Batch
from fleetmetrics.batch.rules import Check
from fleetmetrics.comm import Communicator, LocalCommunicator, communicator_for
from fleetmetrics.comm.base import DEFAULT_TIMEOUT, Deadline, resolve_timeout
from fleetmetrics.errors import DuplicateStateError, InvalidInputError, StaticProgramError
from fleetmetrics.exchange import exchange
from fleetmetrics.hints import hint_of_argument, hint_of_method
from fleetmetrics.records.fold import fold_in_order
from fleetmetrics.state import State

if TYPE_CHECKING:
    from fleetmetrics.metric import Metric

__all__ = ["Accumulator", "kind_of", "label_taken"]

_ordinals: dict[str, Iterator[int]] = {}


def _default_name(kind: type) -> str:
    """``accuracy_0``, ``accuracy_1``, ...: the same on every worker that runs the same script."""
    stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind.__name__).lower()
    return f"{stem}_{next(_ordinals.setdefault(stem, itertools.count()))}"


class Accumulator:
    """What a metric and a collection have in common: members, one check, one exchange.

    Args:
        name: prefix of the states' names, and how errors call it; the same on every worker. None: the class
            name and a number, in the order of creation.
        validate: False skips the check of the inputs. What an invalid sample counts for is then not defined; one of a
            class, bucket or bin that does not exist is left out of the states that would have a place for it.
        share: in a static program, use the variables that an accumulator of the same name has made already,
            instead of raising `DuplicateStateError`.
    """

    #: Whether ``add`` takes a label; None: it may be given one, and does not look at it. False: a label is an error,
    #: since the weights stand in its place in the metric's own ``add``.
    takes_label: bool | None = True
    #: What ``add`` takes beside columns.
    arguments: tuple[str, ...] = ("prediction", "label", "weight", "mask")
    _add_to: Any = None  # what gets the batches instead, where this says only which arguments add takes

    def __init__(self, name: str | None = None, *, validate: bool = True, share: bool = False) -> None:
        self._set_name(_default_name(type(self)) if name is None else name)
        self.validate, self.share = flag_of("validate", validate), flag_of("share", share)
        self.program: Any = None  # the static program that add was called in

    if not TYPE_CHECKING:  # where every attribute would seem to be there

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint_of_method(name)}")

    def _set_name(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"name must be a non-empty string or None, not {name!r}")
        self.name = name
        self._check = Check(name)

    def checks(self) -> list[Check]:
        """The checks of the batches that were added here, or to what this stands on."""
        return [self._check]

    def _members(self) -> Mapping[str, Metric]:
        raise NotImplementedError

    def _states(self) -> list[State]:
        """Every state once, those of the checks first."""
        states = [state for member in self._members().values() for state in member.own_states()]
        return list(dict.fromkeys([state for check in self.checks() for state in check.states] + states))

    def add(
        self, prediction: Any = None, label: Any = None, weight: Any = None, mask: Any = None, **columns: Any
    ) -> None:
        """Accumulate one batch; inside a static program, append the operations that do so at every run.

        Args:
            prediction: what the model gives; see the class for shapes. NumPy arrays, numbers, lists, dynamic
                tensors (the states then stay on their device) or static variables.
            label: what is true.
            weight: one number of at least 0 per sample, or one for all; None: 1.
            mask: one flag per sample; a sample masked by False leaves no trace. None: all count.
            **columns: what else a metric asks for, such as ``user=`` or ``query=``: one integer or text per sample.

        Raises:
            InvalidInputError: shapes or values are not what they should be; nothing of the batch was added.
                In a static program, and on a device other than the CPU, values are checked as the batches
                run, and ``compute`` reports it.
            StaticProgramError: called twice for one static program, or with arrays after static variables.
        """
        if self._add_to is not None:
            self._add_to(prediction, label, weight, mask, **columns)
            return
        self._check_is_free()
        if label is not None and self.takes_label is False:
            raise InvalidInputError(
                f"{self.name} was given a label, and its metrics take values without one; give weights by keyword, "
                "add(values, weight=...)"
            )
        members = self._members().values()
        for member in members:
            if columns or member.columns:
                self._check_columns(columns)
                break
        if prediction is None:
            raise InvalidInputError(f"{type(self).__name__}.add: {self.arguments[0]} is missing")
        batch = Batch(prediction, label, weight, mask, columns)
        if 0 in batch.xp.shape(batch.prediction):
            return  # an empty batch; on 2.6, Paddle cannot even sum it
        static = batch.xp is not namespaces.numpy_ops and namespaces.is_static(batch.prediction)
        if static:
            program = self._enter_program()
        elif self.program is not None:
            raise StaticProgramError(
                f"{self.name} accumulates inside a static program and was given {type(prediction).__name__}; use a "
                "metric of its own for arrays"
            )
        with batch.xp.quiet():
            requirements = [rule for member in members for rule in member.requirements_of(batch)]
            batch.check(self.name, requirements, self.validate)
            increments: dict[Any, Any] = {}
            for member in members:
                for state, increment in member.statistics(batch):
                    increments.setdefault(state, increment)
            if not self.validate:
                increments = {each: namespaces.without_strays(batch.xp, by, each) for each, by in increments.items()}
            if not static:
                increments.update(self._check.statistics(batch))
                self._accumulate(increments, look=self.validate and batch.xp is namespaces.numpy_ops)
        if static:
            dtypes = {state: batch.xp.state_dtype(increment) for state, increment in increments.items()}
            self._enter_states({**dict.fromkeys(self._check.states, "int64"), **dtypes})
            increments.update(self._check.statistics(batch))
            for state, increment in increments.items():
                state.accumulate(increment)
            self.program = program  # and not before: an add that fails may be mended

    def _accumulate(self, increments: Mapping[Any, Any], look: bool) -> None:
        """Merge what a batch adds into every state, or into none.

        Args:
            increments: by state.
            look: whether to look for sums that have overflowed.
        """
        marks = [state.mark() for state in increments]
        try:
            for state, increment in increments.items():
                state.accumulate(increment)
            if look:
                for state in increments:
                    state.raise_if_overflown()
        except Exception:
            for state, mark in zip(increments, marks):
                state.back_to(mark)
            raise

    def _check_columns(self, given: Mapping[str, Any]) -> None:
        wanted = sorted({name for member in self._members().values() for name in member.columns})
        for name in given:
            if name not in wanted:
                raise self._unknown(name, wanted)
        for name in wanted:
            if given.get(name) is None:
                raise InvalidInputError(f"{self.name}: {name} is missing; give add(..., {name}=) one per sample")

    def _unknown(self, argument: str, columns: Iterable[str] = ()) -> InvalidInputError:
        allowed = [*self.arguments, *columns]
        return InvalidInputError(
            f"{type(self).__name__}.add has no argument {argument!r}{hint_of_argument(argument, allowed)} Allowed are "
            f"{', '.join(allowed)}"
        )

    def holds_samples(self) -> bool:
        """Whether batches of arrays or tensors have been added since the last reset."""
        return any(state.value is not None for state in self._states()) or any(map(len, self._tables()))

    def _check_is_free(self) -> None:
        """Overridden where adding could change the states of others."""

    def _enter_program(self) -> Any:
        from fleetmetrics import static

        for table, metrics in self._tables().items():
            raise StaticProgramError(
                f"{metrics[0].name} ({type(metrics[0]).__name__}) keeps every sample, and a static program has "
                f"variables of a fixed size only; fetch {', '.join(table.columns)} with exe.run(fetch_list=...) and "
                "give the arrays to add, after each run"
            )
        if any(state.value is not None for state in self._states()):
            raise StaticProgramError(f"{self.name} holds arrays already; a static program needs a metric of its own")
        if self.program is not None:
            raise StaticProgramError(
                f"add of {self.name} was called in a static program before; its operations run with every batch of "
                "that program, so call it once. For a second program or a second input, make a second metric "
                "(the same name with share=True accumulates into the same variables)"
            )
        return static.current_program()

    def _enter_states(self, dtypes: Mapping[State, str]) -> None:
        for state, dtype in dtypes.items():
            try:
                state.enter_program(dtype, self.share)
            except DuplicateStateError as error:
                raise DuplicateStateError(f"{self.name}: {error}") from None

    def _blocks(self, scope: Any) -> list[Any]:
        return [state.block(scope) for state in self._states()]

    def _checked(self, arrays: Iterable[np.ndarray]) -> dict[State, np.ndarray]:
        """Values by state; raises if a worker met an invalid sample."""
        values = dict(zip(self._states(), arrays))
        if self.validate:
            for state, value in values.items():
                state.raise_if_overflown(value)
            rules = [rule for member in self._members().values() for rule in member.requirements]
            for check in self.checks():
                check.raise_if_invalid(values, rules)
        return values

    def _compute(
        self, scope: Any, util: Any, communicator: Communicator | None, timeout: float | None
    ) -> dict[str, Any]:
        call = f"{type(self).__name__} {self.name}"
        channel = communicator if communicator is not None else communicator_for(util)
        start = time.monotonic()
        keyed = any(state.keyed for state in self._states())
        blocks = exchange(call, lambda: self._blocks(scope), keyed=keyed, communicator=channel, timeout=timeout)
        values = self._checked(blocks)
        carries: dict[Any, Any] = {}
        tables = self._tables()
        if tables:
            deadline = Deadline(resolve_timeout(timeout) - (time.monotonic() - start))
            carries = fold_in_order(call, channel, tables, values, deadline)
        return {key: member.evaluate(values, carries) for key, member in self._members().items()}

    def _compute_local(self, scope: Any) -> dict[str, Any]:
        values = self._checked(state.read(scope) for state in self._states())
        carries = fold_in_order(self.name, LocalCommunicator(), self._tables(), values, Deadline(DEFAULT_TIMEOUT))
        return {key: member.evaluate(values, carries) for key, member in self._members().items()}

    def _tables(self) -> dict[Any, list[Any]]:
        """What is kept of every sample, with the metrics that stand on it."""
        tables: dict[Any, list[Any]] = {}
        for member in self._members().values():
            for metric in member.record_metrics():
                tables.setdefault(metric.table, []).append(metric)
        return tables

    def reset(self, scope: Any = None) -> None:
        """Forget what was accumulated on this worker.

        Args:
            scope: where a static program's variables live; None: the global scope.
        """
        for state in self._states():
            state.reset(scope)
        for table in self._tables():
            table.reset()

    def merge(self, other: Accumulator, scope: Any = None) -> None:
        """Add what another accumulator of the same kind holds; the other one stays as it is.

        Args:
            other: the same class with the same settings.
            scope: where a static program's variables live; None: the global scope.

        Raises:
            InvalidInputError: if the states differ.
        """
        mine, theirs = self._states(), other._states() if isinstance(other, Accumulator) else []
        own, given = self._tables(), other._tables() if isinstance(other, Accumulator) else {}
        kinds = (
            [*map(kind_of, mine), *[table.kind for table in own]],
            [*map(kind_of, theirs), *[t.kind for t in given]],
        )
        if type(self) is not type(other) or kinds[0] != kinds[1]:
            raise InvalidInputError(
                f"other must be a {type(self).__name__} with the settings of {self.name}; it is "
                f"{getattr(other, 'name', other)!r} ({type(other).__name__})"
            )
        for one, another in zip(mine, theirs):
            one.merge(another, scope)
        for table, more in zip(own, given):
            table.merge(more)


def label_taken(by: Iterable[Accumulator]) -> bool | None:
    """`Accumulator.takes_label` of what adds to several others.

    Args:
        by: those.
    """
    asked = {each.takes_label for each in by}
    return True if True in asked or not asked else False if False in asked else None


def kind_of(state: State) -> tuple[Any, ...]:
    """What must be equal for one state to stand for another."""
    return (state.name.rpartition(".")[2], state.shape, state.reduction, state.key)
