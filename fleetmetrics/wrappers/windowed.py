"""``Windowed``: a metric over the last batches, beside the one over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Iterable, Mapping, NamedTuple

import numpy as np

from fleetmetrics.arguments import flag_of, raise_if_too_large, whole_number_of
from fleetmetrics.batch import Batch
from fleetmetrics.formulas.ratio import part_named
from fleetmetrics.metric import Common, Metric
from fleetmetrics.state import State
from fleetmetrics.wrappers.base import Wrapper, names_of
from fleetmetrics.wrappers.states import Ring, Turn
from fleetmetrics.xp import is_static

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Windowed", "WindowedValue"]

_ONE = np.int64(1)


class WindowedValue(NamedTuple):
    """What `Windowed` computes.

    Args:
        window: the value over the last batches.
        lifetime: the value over all batches.
    """

    window: Any
    lifetime: Any


class Windowed(Wrapper):
    """A metric over the last ``last`` calls of ``add`` on each worker, beside the one over all of them.

    The window is counted by each worker on its own: it holds the samples of the last ``last`` calls of that worker's
    ``add`` that had a sample that counts (a batch that is empty, or masked as a whole, leaves no trace). The value is
    that of all workers' windows together. Where the workers add equally many batches, side by side, these are the last
    ``last`` steps of the job; a worker that has stopped earlier keeps its own last batches in. Two metrics that are
    merged are two workers: afterwards, each ``add`` pushes out the oldest batch of both.

    One more state for each of the last batches is kept: as many times the memory of the metric. ``compute`` exchanges
    two states for each of the metric's, whatever ``last`` is, and the sum over the window is made anew each time:
    nothing is subtracted, so nothing drifts.

    ``add`` is that of the metric. Returns a `WindowedValue`; both values have the metric's warnings. In a
    `MetricCollection`, the lifetime states are shared with the metric of the same settings itself.

    Source: torcheval's windowed metrics, whose ``max_num_updates`` is ``last``.

    Args:
        metric: whose values; it holds nothing yet, and stays as it is. Not one that keeps every sample.
        last: how many calls of ``add``, at least 1.
        lifetime: False for the value over the window alone.
        **common: those of `Metric`; ``validate`` and ``share`` are those of the metric unless given.

    Raises:
        InvalidInputError: an argument is not what it should be, or the metric has no states of a fixed size.

    Examples:
        >>> from fleetmetrics import MeanAbsoluteError
        >>> metric = Windowed(MeanAbsoluteError(), last=2)
        >>> for prediction in ([8.0], [2.0], [4.0]):
        ...     metric.add(prediction, [0.0])
        >>> metric.compute()
        WindowedValue(window=3.0, lifetime=4.666666666666667)
    """

    refused: ClassVar[dict[str, str]] = {"Windowed": "one window is enough; make two metrics for two windows"}

    def __init__(
        self,
        metric: Metric,
        last: int,
        *,
        lifetime: bool = True,
        **common: Unpack[Common],
    ) -> None:
        self.last = whole_number_of("last", last, 1)
        self.lifetime = flag_of("lifetime", lifetime)
        super().__init__(metric, **common)

    def _wrap(self, metric: Metric) -> None:
        super()._wrap(metric)
        self.refuse_records("compute it at the end of each window, and reset it")
        self.refuse_growing("give Sliced keys=[...]")
        self.adopt(self.name, {})

    def adopt(self, prefix: str, shared: dict[Any, Any]) -> None:
        """Become part of a collection; see `Metric.adopt`."""
        self.metric.collection = self.collection
        self.metric.adopt(prefix, shared if self.lifetime else shared.setdefault(("window alone", self.last), {}))
        rings = shared.setdefault(("window", self.last), {})
        self._turn: Turn = rings.setdefault("turn", Turn(f"{prefix}.turn", self.last))
        self._rings: dict[State, Ring] = {}
        own = list(self.metric.own_states())
        for state, name in zip(own, names_of(prefix, own, "_window")):
            raise_if_too_large(f"last={self.last}", (self.last, *state.shape), f"the window of {state.name!r}")
            ring = Ring(state, self._turn, name, ("window", self.last, state.key))
            self._rings[state] = rings.setdefault(state, ring)
        whole = own if self.lifetime else ()
        self.states = {state.name: state for state in (self._turn, *self._rings.values(), *whole)}

    def own_states(self) -> Iterable[State]:
        """Whose turn it is; the rings; the metric's states."""
        return self.states.values()

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:
        """What a batch adds to the metric's states is what it puts into the rings."""
        increments = list(self.metric.statistics(batch))
        whole = increments if self.lifetime else []
        xp = batch.xp
        self._turn.counts, one = None, _ONE
        if batch.keep is None:
            if 0 in xp.shape(batch.prediction):
                return whole
            one = xp.asarray(one, "one") if is_static(batch.prediction) else one
        elif xp.is_eager(batch.keep):
            if not xp.host(batch.keep).any():
                return whole
        else:
            self._turn.counts = one = xp.cast(xp.cast(batch.number_of(batch.keep), "bool"), "int64")
        return [(self._turn, one), *[(self._rings[state], increment) for state, increment in increments], *whole]

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:
        """Both values, or the one over the window alone."""
        own = {state: values[ring] for state, ring in self._rings.items()}
        with part_named(f"the last {self.last} batches"):
            window = self.metric.evaluate(own, carries)
        return WindowedValue(window, self.metric.evaluate(values, carries)) if self.lifetime else window
