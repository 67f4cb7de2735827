"""``RecordMetric``: the base of catalogue metrics that need the samples of all workers together.

A query's answers, and samples of equal score, may be on different workers. Such a metric defines what it keeps of each
sample, in which order it looks at all of them, what it makes of a piece, and how that of two pieces becomes one:

    class UserMean(RecordMetric):
        columns = ("user",)

        def __init__(self, **common):
            super().__init__(**common)
            self.keep_records(("user", "score"), order="user", key="user and score")

        def batch_records(self, batch):                            # what is kept of a batch
            return {"user": batch.column("user"), "score": batch.values}

        def start(self):                                           # before the first piece
            return {"total": 0.0, "users": 0}

        def piece(self, before, records, states):                  # all samples of some users
            user, place = np.unique(records["user"], return_inverse=True)
            means = np.bincount(place, records["score"]) / np.bincount(place)
            return {"total": means.sum(), "users": len(user)}

        def join(self, carry, later):
            return {name: carry[name] + later[name] for name in carry}

        def formula(self, total, users):
            return total / users
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

import numpy as np

from fleetmetrics.batch import Batch
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metric import Metric
from fleetmetrics.records.table import Kept, Records, Table
from fleetmetrics.state import State

__all__ = ["RecordMetric"]


class RecordMetric(Metric):
    """A metric that keeps something of every sample; a worker needs memory for its own.

    Not for static programs, whose variables have a fixed size: fetch the predictions, and add the arrays.
    """

    table: Table

    def keep_records(
        self,
        columns: tuple[str, ...],
        order: str | None = None,
        key: Any = None,
        prepare: Callable[[Records], Records] | None = None,
    ) -> None:
        """Declare what is kept of each sample.

        Args:
            columns: names of the entries.
            order: the column to sort all samples by; equal values are in one piece. None: all samples are in one piece,
                in the order of the ranks.
            key: identifies the content, so that metrics of a collection can share it; None: never shared.
            prepare: what each worker does with its records before sending them; returns them sorted by the order. None:
                it sorts them.
        """
        self.table = Table(self.name, columns, order, key, prepare)

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        """What is kept of a batch: by column an array or tensor with an entry per sample, or None for all ones."""
        raise NotImplementedError(f"{type(self).__name__} must define batch_records")

    def start(self) -> dict[str, Any]:
        """The carry for the first piece, or for `formula` without samples."""
        raise NotImplementedError(f"{type(self).__name__} must define start")

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The carry of one piece of the records of all workers; any worker may make it.

        Args:
            before: what `ahead` tells of the pieces before, joined; `start` if it tells nothing.
            records: NumPy arrays by column, sorted by the order; None for a column of ones.
            states: the global states by name.
        """
        raise NotImplementedError(f"{type(self).__name__} must define piece and join, or fold")

    def join(self, carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        """The carry of all pieces so far, and of the piece that follows, as one."""
        raise NotImplementedError(f"{type(self).__name__} must define join")

    def ahead(self, records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
        """A carry with what `piece` must know of an earlier piece, quickly found; None if that is nothing."""
        return None

    def fold(self, carry: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Fold one piece into the carry of those before. Where it is defined, one worker folds all pieces."""
        return self.join(carry, self.piece(carry, records, states))

    def alone(self, records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The carry of all records where there is one worker, in the order of its adds."""
        return self.fold(self.start(), records.cached("prepared", self.table.prepare), states)

    def closed(self, records: Records, states: Mapping[str, np.ndarray], totals: Any) -> dict[str, Any]:
        """What a part is folded into that has all samples of some values of the order.

        Args:
            records: of the part, as they were kept; without columns if there are none.
            states: of the part.
            totals: what was given to `close`.

        Raises:
            InvalidInputError: pieces are folded in their order; or it has no use for totals.
        """
        if totals is not None or not self.spreads:
            what = "takes no totals" if self.spreads else "folds all samples in their order, and no part can be closed"
            raise InvalidInputError(f"{self.name} ({type(self).__name__}) {what}")
        return self.alone(records, states) if records else self.start()

    def join_closed(self, carry: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        """Two closed parts, in any order, as one."""
        return self.join(carry, other)

    def of_closed(self, carry: dict[str, Any], states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The carry for `formula`, from all closed parts together."""
        return carry

    @property
    def spreads(self) -> bool:
        """Whether each piece can be folded on another worker."""
        return type(self).fold is RecordMetric.fold

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        """What a batch adds to the states, of which most have none."""
        return {}

    # Overridden to include the table.

    def statistics(self, batch: Batch) -> Iterable[tuple[Any, Any]]:  # noqa: D102
        return [*super().statistics(batch), (self.table, Kept(batch.xp, batch.keep, self.batch_records(batch)))]

    def record_metrics(self) -> Iterable[RecordMetric]:  # noqa: D102
        return (self,)

    def evaluate(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:  # noqa: D102
        return self.formula(**{name: values[state] for name, state in self.states.items()}, **carries[self])

    def adopt(self, prefix: str, shared: dict[Any, Any]) -> None:  # noqa: D102
        super().adopt(prefix, shared)
        self.table.name = prefix
        if self.table.key is not None:
            self.table = shared.setdefault(self.table.kind, self.table)

    def fresh(self, name: str | None = None) -> Metric:  # noqa: D102
        new: Any = super().fresh(name)
        new.table = self.table.fresh()
        new.table.name = new.name
        return new
