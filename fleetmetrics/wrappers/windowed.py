"""``Windowed``: a metric over the last batches, and over all of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Iterable, Literal, Mapping, NamedTuple, Sequence, overload

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Common, Metric
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.numbers.reductions import REST, combine_exactly, identity, widen
from fleetmetrics.state.state import InPlace, State, read, spread
from fleetmetrics.support.checks import flag_of, raise_if_too_large, whole_number_of
from fleetmetrics.support.typed import Unpack
from fleetmetrics.support.warning import part_named
from fleetmetrics.wrappers.wrapper import Wrapper, names_of
from fleetmetrics.xp import Directed, Scattered, is_paddle, is_static, namespace

__all__ = ["Windowed", "WindowedValue"]


class WindowedValue(NamedTuple):
    """The values of `Windowed`.

    Args:
        window: the value over the last batches.
        lifetime: the value over all batches.
    """

    window: Any
    lifetime: Any


class Windowed(Wrapper[Value]):
    """A metric over the last ``last`` calls of ``add`` on each worker, and over all calls.

    Each worker's window holds the samples of the last ``last`` calls of its ``add``, not counting batches that are
    empty or entirely masked. The value covers the windows of all workers. If the workers add the same number of batches
    in step, these are the last ``last`` steps of the job; a worker that has stopped earlier keeps its own last batches.
    Merged metrics act like two workers: each further ``add`` then pushes out the oldest batch of both.

    The states are kept once per batch in the window. ``compute`` exchanges two states for each of the metric's, for any
    ``last``, and recomputes the sum over the window: without subtraction, the sum does not drift.

    ``add`` takes the metric's arguments. ``compute`` returns a `WindowedValue`; both values have the metric's warnings.
    In a `MetricCollection`, an equal metric without a window shares the lifetime states.

    Args:
        metric: without samples, left unchanged; not one that keeps every sample.
        last: the number of calls of ``add``, at least 1.
        lifetime: False for the value over the window alone.
        **common: those of `Metric`; all but ``name`` are those of the metric unless given.

    Raises:
        InvalidInputError: an argument is invalid, or the metric's states have no fixed size.

    Examples:
        >>> from fleetmetrics import MeanAbsoluteError
        >>> metric = Windowed(MeanAbsoluteError(), last=2)
        >>> for prediction in ([8.0], [2.0], [4.0]):
        ...     metric.add(prediction, [0.0])
        >>> metric.compute()
        WindowedValue(window=3.0, lifetime=4.666666666666667)
    """

    last: int
    lifetime: bool

    refused: ClassVar[dict[str, str]] = {"Windowed": "one window is enough; make two metrics for two windows"}

    @overload
    def __init__(
        self: Windowed[WindowedValue],
        metric: Metric,
        last: int,
        *,
        lifetime: Literal[True] = True,
        **common: Unpack[Common],
    ) -> None: ...
    @overload
    def __init__(
        self, metric: Metric[Value], last: int, *, lifetime: Literal[False], **common: Unpack[Common]
    ) -> None: ...
    @overload  # for a bool known only at run time
    def __init__(
        self: Windowed[Any], metric: Metric, last: int, *, lifetime: bool, **common: Unpack[Common]
    ) -> None: ...
    def __init__(self, metric: Metric, last: int, *, lifetime: bool = True, **common: Unpack[Common]) -> None:
        self.last = whole_number_of("last", last, 1)
        self.lifetime = flag_of("lifetime", lifetime)
        super().__init__(metric, **common)

    def _fit(self) -> None:
        for metric in self.metric.record_metrics():
            raise self._keeps_samples(metric, "compute it at the end of each window, and reset it")
        self._refuse_growing("give Sliced keys=[...]")

    def _joined_states(self, prefix: str, shared: Shared) -> Iterable[State]:
        rings = shared.first(self.last, _Rings(Turn(f"{prefix}.turn", self.last)))
        self.metric.become_part(prefix, shared if self.lifetime else rings.alone)
        self._turn = rings.turn
        self._rings: dict[State, Ring] = {}
        own = list(self.metric.own_states())
        for state, name in zip(own, names_of(prefix, own, "_window")):
            raise_if_too_large(f"last={self.last}", (self.last, *state.shape), f"the window of {state.name!r}")
            ring = Ring(state, self._turn, name, ("window", self.last, state.key))
            self._rings[state] = rings.of.setdefault(state, ring)
        return (self._turn, *self._rings.values(), *(own if self.lifetime else ()))

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """The batch's increments of the metric, also in the rings."""
        increments = list(self.metric.increments_of(batch))
        whole = increments if self.lifetime else []
        step = batch.cached(("step", self._turn), lambda: self._step(batch))
        if step is None:
            return whole
        rings = [(self._rings[state], Directed(step, increment)) for state, increment in increments]
        return [(self._turn, Directed(step, step.counts)), *rings, *whole]

    def _step(self, batch: Batch) -> Step | None:
        """The place for the batch; None if none of its samples counts."""
        xp, one = batch.xp, np.int64(1)
        if batch.keep is None:
            if 0 in xp.shape(batch.each):
                return None
            return Step(self._turn, xp.asarray(one, "one") if is_static(batch.each) else one, None)
        if xp.is_eager(batch.keep):
            return Step(self._turn, one, None) if xp.host(batch.keep).any() else None
        counts = xp.cast(xp.cast(batch.number_of(batch.keep), "bool"), "int64")
        return Step(self._turn, counts, counts)

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """Both values, or only that over the window."""
        own = {state: values[ring] for state, ring in self._rings.items()}
        with part_named(f"the last {self.last} batches"):
            window = self.metric.value_from_states(own, carries)
        return WindowedValue(window, self.metric.value_from_states(values, carries)) if self.lifetime else window


@dataclass(eq=False)
class Step:
    """The place of a batch in the rings."""

    turn: Turn  #: the turn of the rings
    counts: Any  #: an int64: 1, or 0 if no sample counts: the next batch then gets the place
    doubt: Any  #: the same number; None if it is known to be 1

    @functools.cached_property
    def place(self) -> Any:
        """A number, tensor or variable; fixed before the turn moves on."""
        current = self.turn.current()
        return namespace(current).remainder(current, self.turn.size)


class _Rings:
    """The parts that windows of equal length share."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.of: dict[State, Ring] = {}
        self.alone = Shared()  #: shared by metrics without a lifetime value


class Turn(State):
    """The number of batches that a worker has added to rings of ``size`` places."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, (), "int64", "sum")
        self.size = size

    def accumulate(self, increment: Directed) -> None:
        """Move on by a `Step`."""
        _ = increment.to.place
        super().accumulate(increment.increment)

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        """The turn of the first: places of the others are matched to its places by age."""
        return dict(parts[0][self]) if parts else {}


class Ring(InPlace):
    """A copy of the state ``of`` for each of the last batches; its value is that over all of them."""

    rest: np.ndarray | None
    value: Any

    def __init__(self, of: State, turn: Turn, name: str, key: Any) -> None:
        super().__init__(name, of.shape, of.declared_dtype, of.reduction, key)
        self.turn = turn

    @property
    def full_shape(self) -> tuple[int, ...]:
        return (self.turn.size, *self.shape)

    def accumulate(self, directed: Directed) -> None:
        """Replace the oldest batch, as a `Step` directs."""
        step, increment = directed
        if self.static is not None:
            from fleetmetrics.static.variables import replace

            replace(self.static, step.place, increment, step.doubt)
            return
        parts = increment.indices if isinstance(increment, Scattered) else [increment]
        xp = namespace(self.value, step.doubt, *parts)
        nothing, ring = identity(self.reduction, self.dtype), self.value
        on_host = isinstance(increment, Scattered) and not any(map(is_paddle, increment.indices))
        batch = xp.merge(self.reduction, xp.filled(self.shape, nothing), spread(increment) if on_host else increment)
        ring = xp.filled(self.full_shape, nothing) if ring is None else ring
        self.remember(ring, step.place)
        if self.rest is not None and read(step.counts):  # the rest belongs to an older, merged batch
            self.rest = self.rest.copy()
            self.rest[:, int(read(step.place))] = 0
        self.value = xp.replaced(ring, step.place, batch, step.doubt)

    def read(self, scope: Any = None) -> np.ndarray:
        """The last batches, merged."""
        whole = self._whole(scope)
        rests = [None] * len(whole) if self.rest is None else [*self.rest.swapaxes(0, 1)]
        return combine_exactly(self.reduction, list(whole), rests)[0]

    def _whole(self, scope: Any) -> np.ndarray:
        """The content of each place: an array with one more axis in front."""
        if self.static is None and self.value is None:
            return np.full(self.full_shape, identity(self.reduction, self.dtype))
        whole = read(self.value) if self.static is None else widen(self.static.read(scope), self.name)
        return whole.reshape(self.full_shape)

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        """Merge place by place, the latest with the latest, as if the batches had been added in parallel."""
        turns = [part[self.turn][""].item() if part[self.turn] else 0 for part in parts]
        filled = [(part[self], turns[0] - turn) for part, turn in zip(parts, turns) if part[self]]
        return self._combined(
            [{name: np.roll(array, by, int(name == REST)) for name, array in part.items()} for part, by in filled]
        )
