"""Keys: which slice a sample is in, and which row of the states belongs to it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fleetmetrics.batch import keys_of
from fleetmetrics.comm import Block
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.exchange import KeyedRows, Keys
from fleetmetrics.numbers import combine, identity
from fleetmetrics.state import InPlace, State, read
from fleetmetrics.xp import Directed, Scattered, numpy_ops, to_host

__all__ = ["KeyTable", "Known", "Plan", "Rows", "check_kind", "found_in", "host_keys"]


def host_keys(values: Any, argument: str) -> np.ndarray:
    """Keys on the host, as `keys_of` has them, but below 2**63.

    Raises:
        InvalidInputError: if they are not.
    """
    array = keys_of(values, argument)
    if array.dtype == np.uint64:
        raise InvalidInputError(
            f"{argument} must hold integers below 2**63 or texts, one per sample, not {array.max()}"
        )
    return array


def check_kind(keys: np.ndarray, values: np.ndarray, argument: str) -> None:
    """Raise if some keys are texts, and some integers.

    Raises:
        InvalidInputError: if they are.
    """
    if len(keys) and len(values) and (keys.dtype.kind == "U") != (values.dtype.kind == "U"):
        kinds = ["texts" if each.dtype.kind == "U" else "integers" for each in (values, keys)]
        raise InvalidInputError(f"{argument} holds {kinds[0]}, and the keys so far are {kinds[1]}; give one of the two")


def found_in(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The places of values among sorted keys, ``len(keys)`` for those that are not there.

    Args:
        keys: sorted.
        values: of the same kind.
    """
    if not len(keys):
        return np.zeros(len(values), np.int64)
    place = np.searchsorted(keys, values)
    return np.where(keys[np.minimum(place, len(keys) - 1)] == values, place, len(keys))


class Known(NamedTuple):
    """The keys of a worker, sorted, and the row of each in the states that have one; row 0 is for all other keys."""

    keys: np.ndarray
    rows: np.ndarray


class Plan(NamedTuple):
    """What a batch does to a `KeyTable` and its `Rows`, before it is done.

    Args:
        lane: of each sample.
        lanes: the row that each lane merges into, each row once.
        known: afterwards.
        evicted: rows of keys that must make room; what they hold goes to row 0.
    """

    lane: np.ndarray
    lanes: np.ndarray
    known: Known
    evicted: np.ndarray


_NOTHING = Known(np.empty(0, np.int64), np.empty(0, np.int64))


class KeyTable(State):
    """The keys that a worker keeps: the smallest of all that it has met, up to a number.

    A key that is among the smallest of all workers is among the smallest of those that any worker has met, at any time:
    so it is never evicted anywhere, and its rows are complete.

    Args:
        name: its name.
        by: the column that holds the keys, for errors.
        limit: how many are kept.
        key: what they are; None: never shared.
    """

    keyed = True

    def __init__(self, name: str, by: str, limit: int, key: Any) -> None:
        super().__init__(name, (), "int64", "sum", key)
        self.by = by
        self.limit = limit

    @property
    def known(self) -> Known:
        """The keys and their rows."""
        return _NOTHING if self.value is None else self.value

    def plan(self, column: np.ndarray) -> Plan:
        """Find the rows for some samples; nothing changes.

        Args:
            column: their keys, from `host_keys`; at least one.

        Raises:
            InvalidInputError: if these are texts, and those so far integers, or the other way about.
        """
        return self.planned(self.known, column)

    def planned(self, known: Known, column: np.ndarray) -> Plan:
        """`plan` for other keys that are known already."""
        keys, rows = known
        check_kind(keys, column, self.by)
        if 0 < len(keys) < 16 * len(column) and keys.dtype.kind == "i":
            # Where nothing is new, as nearly always, there is no need to sort.
            where = found_in(keys, column)
            met = np.zeros(len(keys) + 1, bool)
            met[where] = True
            if not met[-1]:
                return Plan((np.cumsum(met) - 1)[where], rows[met[:-1]], known, rows[:0])
        values, place = _distinct(column)
        where = found_in(keys, values)
        new = values[where == len(keys)]
        if len(keys) == self.limit:
            new = new[new < keys[-1]]
        evicted = rows[:0]
        if len(new):
            keys = np.concatenate([keys, new]) if len(keys) else new
            order = np.argsort(keys, kind="stable")
            rows = np.append(rows, np.full(len(new), -1))[order]
            keys, rows, evicted = keys[order][: self.limit], rows[: self.limit], rows[self.limit :]
            evicted = evicted[evicted >= 0]
            free = np.setdiff1d(np.arange(1, len(rows) + len(evicted) + 1), rows)
            rows[rows < 0] = free[: np.count_nonzero(rows < 0)]
            where = found_in(keys, values)
        lanes, lane = np.unique(np.append(rows, 0)[where], return_inverse=True)
        return Plan(lane.reshape(-1)[place], lanes, Known(keys, rows), evicted)

    def accumulate(self, plan: Plan) -> None:
        """Do what was planned."""
        self.value = plan.known

    def read(self, scope: Any = None) -> np.ndarray:
        """All keys, sorted."""
        return self.known.keys

    def block(self, scope: Any = None) -> Keys:
        """The keys, for the exchange."""
        return Keys(self.name, self.known.keys, self.limit)

    def merge(self, other: State, scope: Any = None) -> None:
        """Take in another table's keys."""
        assert isinstance(other, KeyTable)
        if len(other.known.keys):
            self.accumulate(self.plan(other.known.keys))


def _distinct(column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values, sorted, and the place of each entry among them."""
    if column.dtype.kind != "U":
        values, place = np.unique(column, return_inverse=True)
        return values, place.reshape(-1)
    table: dict[str, int] = {}  # some ten times faster than to sort texts
    first = np.array([table.setdefault(text, len(table)) for text in column.tolist()])
    values = np.array(list(table))
    order = np.argsort(values)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return values[order], rank[first]


class Rows(InPlace):
    """A state with a row for each key of a table, on the host; row 0 is for the samples of all other keys.

    Args:
        of: the state of which each key has one.
        table: the keys.
        name: its name.
        key: what the rows are; None: never shared.
    """

    keyed = True

    def __init__(self, of: State, table: KeyTable, name: str, key: Any) -> None:
        super().__init__(name, of.shape, of.declared_dtype, of.reduction, key)
        self.table = table
        self.known = _NOTHING

    def mark(self) -> Any:
        """See `State.mark`."""
        return super().mark(), self.known

    def back_to(self, mark: Any) -> None:
        """See `State.back_to`."""
        value, self.known = mark
        super().back_to(value)

    def reset(self, scope: Any = None) -> None:
        """Return to no rows."""
        super().reset(scope)
        self.known = _NOTHING

    def accumulate(self, directed: Directed) -> None:
        """Merge what one batch adds; rows of other keys cost no time.

        Args:
            directed: to a `Plan`, of one lane more than the state's shape; None: nothing.
        """
        plan, increment = directed
        self._evict(plan)
        if increment is None:
            return
        rows = self._room(int(plan.lanes.max(initial=0)) + 1)
        if isinstance(increment, Scattered):
            first, *rest = [to_host(index) for index in increment.indices]
            self.value = self.scatter(rows, Scattered((plan.lanes[first], *rest), to_host(increment.amount)))
            return
        merged = numpy_ops.merge(self.reduction, rows[plan.lanes], read(increment))
        rows = rows.astype(np.result_type(rows, merged), copy=False)
        self.remember(rows, plan.lanes)
        rows[plan.lanes] = merged
        self.value = rows

    def _room(self, size: int) -> np.ndarray:
        """The rows, at least so many; twice as many as before if there were too few."""
        value = self.value
        if value is not None and len(value) >= size:
            return value
        size = max(size, 8, 0 if value is None else 2 * len(value))
        dtype = self.dtype if value is None else value.dtype
        rows = np.full((size, *self.shape), identity(self.reduction, dtype))
        if value is not None:
            rows[: len(value)] = value
        return rows

    def _evict(self, plan: Plan) -> None:
        """Let row 0 take what the rows hold that must make room, and empty them."""
        self.known, value, rows = plan.known, self.value, plan.evicted
        rows = rows[rows < len(value)] if value is not None else rows[:0]
        if len(rows):
            self.remember(value, np.append(rows, 0))
            value[0] = combine(self.reduction, [value[0, ...], *[value[row, ...] for row in rows]])
            value[rows] = identity(self.reduction, value.dtype)

    def read(self, scope: Any = None) -> np.ndarray:
        """The rows in the order of the keys; the one of other keys is the last."""
        order = np.append(self.known.rows, 0)
        return self._room(int(order.max()) + 1)[order]

    def block(self, scope: Any = None) -> KeyedRows:
        """The rows, for the exchange."""
        return KeyedRows(Block(self.name, self.reduction, self.read()), self.table.name)

    def merge(self, other: State, scope: Any = None) -> None:
        """Merge the rows of equal keys."""
        assert isinstance(other, Rows)
        theirs = other.read()
        lanes = np.zeros(1, np.int64)
        if len(other.known.keys):
            plan = self.table.planned(self.known, other.known.keys)
            self._evict(plan)
            lanes = np.append(plan.lanes[plan.lane], 0)
        rows = self._room(int(lanes.max()) + 1)
        dtype = np.result_type(rows, theirs)
        self.value, theirs = rows.astype(dtype, copy=False), theirs.astype(dtype, copy=False)
        beyond = lanes == 0
        rest = [self.value[0, ...], *[theirs[row, ...] for row in np.flatnonzero(beyond)]]
        self.value[0] = combine(self.reduction, rest)
        lanes = lanes[~beyond]
        self.value[lanes] = combine(self.reduction, [self.value[lanes], theirs[~beyond]])
