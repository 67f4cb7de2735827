"""Metrics with states: accumulate batch by batch, exchange once, evaluate a formula.

``Metric`` is what a metric of the catalogue derives from. It says three things, and inherits the rest:

    class MeanAbsoluteError(Metric):
        requirements = ("finite_prediction", "finite_label")

        def __init__(self, name=None, *, validate=True, share=False):
            super().__init__(name, validate=validate, share=share)
            self.declare("absolute_error", key="absolute_error")       # its states
            self.declare("total", key="total")

        def batch_statistics(self, batch):                             # what a batch adds to them
            return {"absolute_error": absolute_error(batch), "total": batch.total}

        def formula(self, absolute_error, total):                      # global states in, number out
            return mean_absolute_error(absolute_error, total)
"""

from __future__ import annotations

import itertools
import re
from typing import Any, Iterable, Iterator, Mapping

import numpy as np

from fleetmetrics import xp as namespaces
from fleetmetrics.batch import Batch
from fleetmetrics.check import Check
from fleetmetrics.comm import Block, Communicator
from fleetmetrics.errors import DuplicateStateError, InvalidInputError, StaticProgramError
from fleetmetrics.state import State
from fleetmetrics.sync import exchange

__all__ = ["Accumulator", "Metric", "MetricCollection"]

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
        validate: False skips the check of the inputs.
        share: in a static program, use the variables that an accumulator of the same name has made already,
            instead of raising `DuplicateStateError`.
    """

    def __init__(self, name: str | None = None, *, validate: bool = True, share: bool = False) -> None:
        if name is not None and (not isinstance(name, str) or not name):
            raise InvalidInputError(f"name must be a non-empty string or None, not {name!r}")
        self.name = name or _default_name(type(self))
        self.validate = validate
        self.share = share
        self.program: Any = None  # the static program that add was called in
        self._check = Check(self.name)

    def _members(self) -> Mapping[str, Metric]:
        raise NotImplementedError

    def _states(self) -> list[State]:
        """Every state once, the check's first."""
        states = [state for member in self._members().values() for state in member.states.values()]
        return list(dict.fromkeys(self._check.states + states))

    def add(self, prediction: Any, label: Any = None, weight: Any = None, mask: Any = None) -> None:
        """Accumulate one batch; inside a static program, append the operations that do so at every run.

        Args:
            prediction: what the model gives; see the class for shapes. NumPy arrays, numbers, lists, dynamic
                tensors (the states then stay on their device) or static variables.
            label: what is true.
            weight: one number of at least 0 per sample, or one for all; None: 1.
            mask: one flag per sample; a sample masked by False leaves no trace. None: all count.

        Raises:
            InvalidInputError: shapes or values are not what they should be; nothing of the batch was added.
                In a static program, and on a device other than the CPU, values are checked as the batches
                run, and ``compute`` reports it.
            StaticProgramError: called twice for one static program, or with arrays after static variables.
        """
        self._check_is_free()
        batch = Batch(prediction, label, weight, mask)
        if 0 in batch.xp.shape(batch.prediction):
            return  # an empty batch; on 2.6, Paddle cannot even sum it
        static = namespaces.is_static(batch.prediction)
        if static:
            program = self._enter_program()
        elif self.program is not None:
            raise StaticProgramError(
                f"{self.name} accumulates inside a static program and was given {type(prediction).__name__}; use a "
                "metric of its own for arrays"
            )
        members = self._members().values()
        batch.check(self.name, (r for member in members for r in member.requirements_of(batch)), self.validate)
        increments: dict[State, Any] = {}
        for member in members:
            for name, increment in member.batch_statistics(batch).items():
                increments.setdefault(member.states[name], increment)
        if static:
            dtypes = {state: batch.xp.state_dtype(increment) for state, increment in increments.items()}
            self._enter_states({**dict.fromkeys(self._check.states, "int64"), **dtypes})
        increments.update(self._check.statistics(batch))
        for state, increment in increments.items():
            state.accumulate(increment)
        if static:
            self.program = program  # and not before: an add that fails may be mended

    def _check_is_free(self) -> None:
        """Overridden where adding could change the states of others."""

    def _enter_program(self) -> Any:
        from fleetmetrics import static

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

    def _blocks(self, scope: Any) -> list[Block]:
        return [Block(state.name, state.reduction, state.read(scope)) for state in self._states()]

    def _evaluate(self, arrays: Iterable[np.ndarray]) -> dict[str, Any]:
        values = dict(zip(self._states(), arrays))
        if self.validate:
            self._check.raise_if_invalid(values, {r for m in self._members().values() for r in m.requirements})
        return {
            key: member.formula(**{name: values[state] for name, state in member.states.items()})
            for key, member in self._members().items()
        }

    def _compute(
        self, scope: Any, util: Any, communicator: Communicator | None, timeout: float | None
    ) -> dict[str, Any]:
        call = f"{type(self).__name__} {self.name}"
        arrays = exchange(call, lambda: self._blocks(scope), util=util, communicator=communicator, timeout=timeout)
        return self._evaluate(arrays)

    def _compute_local(self, scope: Any) -> dict[str, Any]:
        return self._evaluate(state.read(scope) for state in self._states())

    def reset(self, scope: Any = None) -> None:
        """Forget what was accumulated on this worker.

        Args:
            scope: where a static program's variables live; None: the global scope.
        """
        for state in self._states():
            state.reset(scope)

    def merge(self, other: Accumulator, scope: Any = None) -> None:
        """Add what another accumulator of the same kind holds; the other one stays as it is.

        Args:
            other: the same class with the same settings.
            scope: where a static program's variables live; None: the global scope.

        Raises:
            InvalidInputError: if the states differ.
        """
        mine, theirs = self._states(), other._states() if isinstance(other, Accumulator) else []
        if [_kind(s) for s in mine] != [_kind(s) for s in theirs]:
            raise InvalidInputError(
                f"other must be a {type(self).__name__} with the settings of {self.name}; it is "
                f"{getattr(other, 'name', other)!r} ({type(other).__name__})"
            )
        for one, another in zip(mine, theirs):
            one.merge(another, scope)


def _kind(state: State) -> tuple[Any, ...]:
    return (state.name.rpartition(".")[2], state.shape, state.reduction, state.key)


class Metric(Accumulator):
    """A metric with states; the catalogue derives from it, and so can yours.

    Args:
        name: prefix of the states' names; see `Accumulator`.
        validate: False skips the check of the inputs.
        share: in a static program, share the variables of an earlier metric of this name.
    """

    #: Keys of `fleetmetrics.batch.REQUIREMENTS` that every sample must meet.
    requirements: tuple[str, ...] = ()

    def __init__(self, name: str | None = None, *, validate: bool = True, share: bool = False) -> None:
        super().__init__(name, validate=validate, share=share)
        self.states: dict[str, State] = {}
        self.collection: str | None = None  # the name of the collection that has taken this metric over

    def declare(
        self, name: str, shape: tuple[int, ...] = (), dtype: str = "int64", reduction: str = "sum", key: Any = None
    ) -> None:
        """Declare a state; merge, reset, exchange and the identity element follow from it.

        Args:
            name: keyword under which `formula` gets it.
            shape: its shape.
            dtype: ``"int64"`` (becomes float64 when floats, such as weighted counts, are added) or ``"float64"``.
            reduction: ``"sum"``, ``"max"`` or ``"min"``.
            key: what it counts, if metrics of one collection may share it; None: never shared.
        """
        self.states[name] = State(f"{self.name}.{name}", shape, dtype, reduction, key)

    def _members(self) -> Mapping[str, Metric]:
        return {self.name: self}

    def _check_is_free(self) -> None:
        if self.collection is not None:
            raise InvalidInputError(
                f"{self.name} belongs to {self.collection}, whose members share states; add to the collection"
            )

    def requirements_of(self, batch: Batch) -> tuple[str, ...]:
        """The requirements for this batch, where they depend on its shapes."""
        return self.requirements

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        """What a batch adds to each state; written with ``batch.xp``, for all three modes.

        Args:
            batch: flat, checked, without masked samples.

        Returns:
            For each declared state an array of its shape, or `Scattered`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define batch_statistics")

    def formula(self, **states: np.ndarray) -> Any:
        """The value, from the global states; pure NumPy."""
        raise NotImplementedError(f"{type(self).__name__} must define formula")

    def compute(
        self,
        scope: Any = None,
        *,
        util: Any = None,
        communicator: Communicator | None = None,
        timeout: float | None = None,
    ) -> Any:
        """The value over the samples of all workers: the same number on every worker.

        Every worker must call it; nothing that was accumulated changes.

        Args:
            scope: where a static program's variables live; None: the global scope.
            util: an object with ``all_reduce(input, mode)``, such as ``fleet.util``; None: fleetmetrics' channel.
            communicator: None: the one that was set or is chosen automatically.
            timeout: seconds to wait for the others; None: ``FLEETMETRICS_TIMEOUT``, else 1,800.

        Returns:
            A float (an int for sums and extremes of integers).

        Raises:
            FleetMetricsError: the same error on every worker, by the deadline.
        """
        return self._compute(scope, util, communicator, timeout)[self.name]

    def compute_local(self, scope: Any = None) -> Any:
        """The value over this worker's samples only; no communication.

        Args:
            scope: where a static program's variables live; None: the global scope.
        """
        return self._compute_local(scope)[self.name]


class MetricCollection(Accumulator):
    """Several metrics over the same batches: one add, one exchange, a dict of values.

    States that members declare under the same key (the number of samples, say) are kept once.

    Args:
        metrics: metrics by the key that each has in the result; or a sequence of them, each keyed by its
            name. They must be new: the collection takes them over.
        name: as in `Accumulator`.
        validate: False skips the check. A sample that breaks a requirement of any member counts for none.
        share: as in `Accumulator`.

    Raises:
        InvalidInputError: if an entry is no metric, is used already, or a key comes twice.

    Examples:
        >>> import fleetmetrics
        >>> metrics = fleetmetrics.MetricCollection(
        ...     {"accuracy": fleetmetrics.Accuracy(), "mae": fleetmetrics.MeanAbsoluteError()})
        >>> metrics.add([0.75, 0.5, 0.25], [1, 1, 0])
        >>> metrics.compute()
        {'accuracy': 0.6666666666666666, 'mae': 0.3333333333333333}
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric] | Iterable[Metric],
        name: str | None = None,
        *,
        validate: bool = True,
        share: bool = False,
    ) -> None:
        super().__init__(name, validate=validate, share=share)
        entries = list(metrics.items()) if isinstance(metrics, Mapping) else [(_key(m), m) for m in metrics]
        self.metrics: dict[str, Metric] = {}
        shared: dict[tuple[Any, ...], State] = {}
        for key, metric in entries:
            self._take(key, metric, shared)

    def _take(self, key: str, metric: Metric, shared: dict[tuple[Any, ...], State]) -> None:
        if not isinstance(metric, Metric):
            raise InvalidInputError(f"metrics[{key!r}] must be a Metric, not {type(metric).__name__}")
        if metric.collection is not None:
            raise InvalidInputError(
                f"metrics[{key!r}] belongs to {metric.collection} already; make a metric of its own"
            )
        if key in self.metrics:
            raise InvalidInputError(f"metrics has two entries {key!r}; give each a key or a name of its own")
        if metric.program is not None or any(state.value is not None for state in metric.states.values()):
            raise InvalidInputError(f"metrics[{key!r}] holds samples already; a collection takes new metrics")
        self.metrics[key] = metric
        metric.collection = self.name
        for name, state in metric.states.items():
            state.name = f"{self.name}.{key}.{name}"
            if state.key is not None:
                metric.states[name] = shared.setdefault(_kind(state), state)

    def _members(self) -> Mapping[str, Metric]:
        return self.metrics

    def compute(
        self,
        scope: Any = None,
        *,
        util: Any = None,
        communicator: Communicator | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Every metric's global value, in one exchange; arguments and errors as in `Metric.compute`."""
        return self._compute(scope, util, communicator, timeout)

    def compute_local(self, scope: Any = None) -> dict[str, Any]:
        """Every metric's value over this worker's samples only; no communication."""
        return self._compute_local(scope)


def _key(metric: Any) -> str:
    if not isinstance(metric, Metric):
        raise InvalidInputError(f"metrics must hold Metric objects, not {type(metric).__name__}")
    return metric.name
