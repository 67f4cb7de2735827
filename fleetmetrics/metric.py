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

import copy
from typing import TYPE_CHECKING, Any, Iterable, Mapping

import numpy as np

from fleetmetrics.accumulator import Accumulator, kind_of
from fleetmetrics.batch import Batch
from fleetmetrics.comm import Communicator
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.requirements import Requirement
from fleetmetrics.state import State

if TYPE_CHECKING:
    from fleetmetrics.record_metric import RecordMetric

__all__ = ["Metric"]


class Metric(Accumulator):
    """A metric with states; the catalogue derives from it, and so can yours.

    Args:
        name: prefix of the states' names; see `Accumulator`.
        validate: False skips the check of the inputs.
        share: in a static program, share the variables of an earlier metric of this name.
    """

    #: Keys of `fleetmetrics.requirements.REQUIREMENTS` that every sample must meet, or requirements of its own.
    requirements: tuple[str | Requirement, ...] = ()
    #: Names of the further arguments that `add` takes, one value per sample.
    columns: tuple[str, ...] = ()

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
            reduction: ``"sum"``, ``"max"`` or ``"min"``; or ``"moments"`` of shape ``[..., 3]`` and ``"comoments"`` of
                shape ``[..., 6]``, float64, see `fleetmetrics.moments`.
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

    def fresh(self, name: str | None = None) -> Metric:
        """A metric of the same settings that holds nothing.

        Args:
            name: of the new metric; None: made up, in the order of creation.
        """
        copy_ = copy.copy(self)
        Accumulator.__init__(copy_, name, validate=self.validate, share=self.share)
        copy_.collection = None
        copy_.states = {}
        for key, state in self.states.items():
            copy_.declare(key, state.shape, state.declared_dtype, state.reduction, state.key)
        return copy_

    # -- what an accumulator asks of its members; metrics that are made of others answer for them ------------

    def own_states(self) -> Iterable[State]:
        """The states, in the order of their declaration."""
        return self.states.values()

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """What a batch adds to each state."""
        return [(self.states[name], increment) for name, increment in self.batch_statistics(batch).items()]

    def record_metrics(self) -> Iterable[RecordMetric]:
        """Those that keep something of every sample."""
        return ()

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """The value, from the global states and what was made of all records."""
        return self.formula(**{name: values[state] for name, state in self.states.items()})

    def adopt(self, prefix: str, shared: dict[Any, Any]) -> None:
        """Become part of a collection: take its names, and share the states that are there already.

        Args:
            prefix: what the states' names begin with.
            shared: states and tables by what they count.
        """
        for name, state in self.states.items():
            state.name = f"{prefix}.{name}"
            if state.key is not None:
                self.states[name] = shared.setdefault(kind_of(state), state)

    def requirements_of(self, batch: Batch) -> tuple[str | Requirement, ...]:
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
