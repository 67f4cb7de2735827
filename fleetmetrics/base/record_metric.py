"""``RecordMetric``: the base of catalogue metrics that need the samples of all workers together.

A query's answers, and samples of equal score, may be on different workers. Such a metric defines the record of
a sample, the order of the records, the computation for a piece, and the join of two pieces' results:

    class UserMean(RecordMetric):
        columns = ("user",)

        def __init__(self, **common):
            super().__init__(**common)
            self.keep_records(("user", "score"), order="user", key="user and score")

        def batch_records(self, batch):                            # the records of a batch
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

import math
from typing import Any, Callable, Iterable, Mapping, NamedTuple

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Metric, Settings, Undefinable
from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.batch.hashing import integer_ids, poisson, salts, thresholds, words
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.groups import exact_parts, starts_of
from fleetmetrics.formulas.quotients import NO_SAMPLES, stand_in
from fleetmetrics.numbers.reductions import combine_exactly
from fleetmetrics.records.folding import Folding
from fleetmetrics.records.table import Kept, Records, Table
from fleetmetrics.state.state import State
from fleetmetrics.support.typed import Unpack
from fleetmetrics.xp import numpy_ops

__all__ = ["GroupedMetric", "InOnePiece", "OfAllSamples", "RecordMetric", "words_of"]

#: How many products of a replicate and a group's number to add at a time: few enough that BLAS starts no threads.
_AT_ONCE = 2**18


class RecordMetric(Metric[Value], Folding):
    """A metric that keeps a record of every sample; each worker needs memory for its own records.

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
        """Declare the record of a sample.

        Args:
            columns: names of the entries.
            order: the column to sort all samples by; equal values are in one piece. None: all samples are in one piece,
                in the order of the ranks.
            key: identifies the content, so that metrics of a collection can share it; None: never shared.
            prepare: each worker's treatment of its records before it sends them; returns them sorted by the order.
                None: sort them.
        """
        self.table = Table(self.name, columns, order, key, prepare)

    def batch_records(self, batch: Batch) -> Mapping[str, Any]:
        """The records of a batch: by column an array or tensor with an entry per sample, or None for all ones."""
        raise NotImplementedError(f"{type(self).__name__} must define batch_records")

    def start(self) -> dict[str, Any]:
        """The carry for the first piece, or for `formula` without samples."""
        raise NotImplementedError(f"{type(self).__name__} must define start")

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The carry of one piece of the records of all workers; any worker may make it.

        Args:
            before: the joined results of `ahead` for the pieces before; `start` if those are None.
            records: NumPy arrays by column, sorted by the order; None for a column of ones.
            states: the global states by name.
        """
        raise NotImplementedError(f"{type(self).__name__} must define piece and join, or fold")

    def join(self, carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        """Join the carry of all pieces so far with that of the next piece."""
        raise NotImplementedError(f"{type(self).__name__} must define join")

    def ahead(self, records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
        """A quick carry of an earlier piece with all data that `piece` needs; None if it needs none."""
        return None

    def fold(self, carry: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Fold one piece into the carry of the earlier ones. If it is defined, one worker folds all pieces."""
        return self.join(carry, self.piece(carry, records, states))

    def closed(self, records: Records, states: Mapping[str, np.ndarray], totals: Any) -> dict[str, Any]:
        """The carry of a part that has all samples of some values of the order.

        Args:
            records: of the part, as they were kept; without columns if there are no records.
            states: of the part.
            totals: the argument of `close`.

        Raises:
            InvalidInputError: pieces can only be folded in order; or the metric takes no totals.
        """
        if totals is not None or not self.spreads:
            what = "takes no totals" if self.spreads else "folds all samples in their order, and no part can be closed"
            raise InvalidInputError(f"{self.name} ({type(self).__name__}) {what}")
        return self.alone(records, states) if records else self.start()

    def join_closed(self, carry: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        """Join two closed parts, in any order."""
        return self.join(carry, other)

    def of_closed(self, carry: dict[str, Any], states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The carry for `formula`, from all closed parts together."""
        return carry

    @property
    def spreads(self) -> bool:
        """Whether each piece can be folded on another worker."""
        return type(self).fold is RecordMetric.fold

    def batch_statistics(self, batch: Batch) -> dict[str, Any]:
        """The increments of the states; most record metrics have no states."""
        return super().batch_statistics(batch) if self._filled_by else {}

    # Overridden to include the table.

    def increments_of(self, batch: Batch) -> Iterable[tuple[Any, Any]]:  # noqa: D102
        return [*super().increments_of(batch), (self.table, Kept(batch.xp, batch.keep, self.batch_records(batch)))]

    def record_metrics(self) -> Iterable[RecordMetric]:  # noqa: D102
        return (self,)

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:  # noqa: D102
        return self.formula(**{name: values[state] for name, state in self.states.items()}, **carries[self])

    def become_part(self, prefix: str, shared: Shared) -> None:  # noqa: D102
        super().become_part(prefix, shared)
        own = self.table.fresh(prefix)
        self.table = own if own.key is None else shared.first(own.kind, own)


class InOnePiece(Undefinable[Value], RecordMetric[Value]):
    """A metric that takes all samples at once. It declares `record`; a collection keeps equal records once."""

    #: The columns of a record, by names that say what they hold: metrics with the same names share the records.
    record: tuple[str, ...] = ()

    def __init__(self, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self.keep_records(self.record, key=f"{', '.join(self.record[:-1])} and {self.record[-1]}")

    def join(self, carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        """Return the later piece: there is one."""
        return later


class OfAllSamples(InOnePiece[float]):
    """A number that one worker computes from all samples at once, such as a median.

    It declares `record`, and defines ``batch_records`` and `value`.
    """

    def value(self, records: Records) -> float:
        """The value of all samples, of which there is at least one; a column of None is all ones."""
        raise NotImplementedError(f"{type(self).__name__} must define value")

    def start(self) -> dict[str, Any]:  # noqa: D102
        return {"value": math.nan}

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:  # noqa: D102
        return {"value": self.value(records)} if records.length else self.start()

    def formula(self, value: float) -> float:  # noqa: D102
        return stand_in(self._title, NO_SAMPLES, self.zero_division) if math.isnan(value) else value


class Draws(NamedTuple):
    """How often the groups of a `GroupedMetric` count in each replicate of a `fleetmetrics.Bootstrap`."""

    seed: int
    replicates: int

    def added(self, groups: np.ndarray, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Sum ``[..., groups]`` numbers once and, in further rows, as often as each replicate draws them.

        The returned numbers ``[n, 1 + replicates, ...]`` have these sums exactly, without rounding.
        """
        parts = {name: exact_parts(array, len(groups) * len(thresholds())) for name, array in values.items()}
        rows = [part.reshape(-1, len(groups)) for part in parts.values()]
        table = np.concatenate(rows)
        total = np.zeros((1 + self.replicates, len(table)))
        total[0] = table.sum(axis=1)
        if self.replicates:
            salt = salts(self.seed, self.replicates)
            one, two = words(numpy_ops, integer_ids(groups), self.seed)
            step = max(1, _AT_ONCE // total.size)
            for here in (slice(start, start + step) for start in range(0, len(groups), step)):
                times = poisson(numpy_ops, one[here], two[here], salt).T
                total[1:] += times.astype(np.float64) @ table[:, here].T
        totals = np.split(total, np.cumsum([len(part) for part in rows])[:-1], axis=1)
        return {
            name: np.moveaxis(sums.reshape(len(total), *part.shape[:-1]), 1, 0)
            for (name, part), sums in zip(parts.items(), totals)
        }


class GroupedMetric(RecordMetric[Value]):
    """A record metric that sums a value of each group, such as a user or a query with all its samples.

    It defines `sums`, `counts` and `of_groups` instead of ``start``, ``piece`` and ``join``; ``formula`` gets the sums
    by name, rounded once. `fleetmetrics.Bootstrap` takes it, and draws groups.
    """

    #: The names of the sums of bools or integers.
    counts: tuple[str, ...] = ()
    #: Those of a `Bootstrap`. The carry has a row for what was met, and one for each replicate; a sum is kept in
    #: float64 whose sum it is: without rounding, it does not depend on the order of the numbers.
    draws: Draws = Draws(0, 0)

    def sums(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the sums of floats by name."""
        return {}

    def of_groups(self, records: Records) -> dict[str, Any]:
        """The values of each group, in order: ``[..., groups]`` by the names of `sums` and `counts`.

        ``"exponent"``: of the power of two that the sums are yet to be multiplied with, where weights are large.

        Args:
            records: all samples of some groups, sorted by the order.
        """
        raise NotImplementedError(f"{type(self).__name__} must define of_groups")

    def start(self) -> dict[str, Any]:  # noqa: D102
        rows = 1 + self.draws.replicates
        sums = {name: np.zeros((1, rows, *shape)) for name, shape in self.sums().items()}
        return {**sums, "exponent": 0, **{name: np.zeros(rows, np.int64) for name in (*self.counts, "drawn")}}

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:  # noqa: D102
        group = records[self.table.order or ""]
        if not len(group):
            return self.start()
        terms = {"exponent": 0, **self.of_groups(records)}
        exponent = terms.pop("exponent")
        start = np.flatnonzero(starts_of(group))
        terms["drawn"] = np.diff(np.append(start, len(group)))
        added = self.draws.added(group[start], terms)
        counts = {name: added[name].sum(axis=0).astype(np.int64) for name in (*self.counts, "drawn")}
        return {"exponent": exponent, **counts, **{name: words_of(added[name]) for name in self.sums()}}

    def join(self, carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:  # noqa: D102
        exponent = max(carry["exponent"], later["exponent"])
        joined = {"exponent": exponent, **{name: carry[name] + later[name] for name in (*self.counts, "drawn")}}
        for name in self.sums():
            both = [np.ldexp(part[name], part["exponent"] - exponent) for part in (carry, later)]
            filled = [words for words in both if words.any()]
            joined[name] = words_of(np.concatenate(both)) if len(filled) > 1 else (filled or both)[0]
        return joined

    def value_from_states(self, values: Mapping[State, np.ndarray], carries: Mapping[Any, Any]) -> Any:  # noqa: D102
        carry = carries[self]
        row = carry.get("row", 0)
        sums = {name: carry[name][0, row] for name in self.sums()}
        counts = {name: carry[name][row].item() for name in self.counts}
        return self.formula(**{name: values[state] for name, state in self.states.items()}, **sums, **counts)


def words_of(terms: np.ndarray) -> np.ndarray:
    """The sum of terms ``[n, ...]``, exactly: float64 ``[words, ...]``, each of which is what those before lack."""
    if len(terms) == 1:
        return terms
    value, rest = combine_exactly("sum", list(terms), [None] * len(terms))
    return value[None] if rest is None else np.concatenate([value[None], rest])
