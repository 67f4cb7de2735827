"""Folding: metrics condense the records of a table piece by piece, and keep the result of a closed part."""

from __future__ import annotations

import contextlib
import contextvars
import json
from abc import ABC, abstractmethod
from typing import Any, Dict, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.hashing import integer_ids
from fleetmetrics.errors import InvalidInputError, RecordError
from fleetmetrics.formulas.groups import starts_of
from fleetmetrics.numbers.reductions import distinct_of
from fleetmetrics.records.table import Closed, Kept, Records, Table
from fleetmetrics.serial import MISFITS
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.state.state import State

__all__ = ["Carry", "Folding", "Folds"]

#: A metric's result for some records, by name; it goes to other workers and into checkpoints.
Carry = Dict[str, Any]

#: The approximate number of samples to fold at a time when a part is closed, because sorting takes several times their
#: memory; and the number of threads, because NumPy lets others run while it sorts.
AT_ONCE, THREADS = 1 << 19, 2


class Folding(ABC):
    """Folds the records of a table: a metric, or the slices of a metric.

    Methods are abstract unless all kinds share them, so that no kind misses a new one.
    """

    name: str
    table: Table
    columns: tuple[str, ...]  #: the further arguments of ``add`` that it needs
    states: dict[str, State]  #: the states that its methods get, by name

    @property
    @abstractmethod
    def spreads(self) -> bool:
        """Whether each piece can be folded on another worker."""

    @abstractmethod
    def start(self) -> Carry:
        """The carry for the first piece."""

    @abstractmethod
    def ahead(self, records: Records, states: Mapping[str, np.ndarray]) -> Carry | None:
        """Quickly compute the data that `piece` needs about an earlier piece; None if it needs no data."""

    @abstractmethod
    def piece(self, before: Carry, records: Records, states: Mapping[str, np.ndarray]) -> Carry:
        """The carry of one piece; ``before`` is the joined `ahead` of the pieces before."""

    @abstractmethod
    def join(self, carry: Carry, later: Carry) -> Carry:
        """Join the carry of all pieces so far with that of the next piece."""

    @abstractmethod
    def fold(self, carry: Carry, records: Records, states: Mapping[str, np.ndarray]) -> Carry:
        """Fold one piece into the carry of those before."""

    @abstractmethod
    def closed(self, records: Records, states: Mapping[str, np.ndarray], totals: Any) -> Carry:
        """The result of folding a part that has all samples of some values of the table's order."""

    @abstractmethod
    def join_closed(self, carry: Carry, other: Carry) -> Carry:
        """Join two closed parts, in any order."""

    @abstractmethod
    def of_closed(self, carry: Carry, states: Mapping[str, np.ndarray]) -> Carry:
        """The carry for the value, from all closed parts."""

    def alone(self, records: Records, states: Mapping[str, np.ndarray]) -> Carry:
        """The carry of all records of a single worker, in the order of its adds."""
        return self.fold(self.start(), records.cached("prepared", self.table.prepare), states)


class Folds:
    """A table and everything that folds it; checkpoints save it, and merging joins it.

    It is a holder, like a `fleetmetrics.state.state.State`. Two with the same table are equal while both have the same
    metrics, because a closed table has a carry of each metric.
    """

    kind: tuple[tuple[str, ...], str | None, Any]
    metrics: Sequence[Folding]
    name: str
    table: Table

    dealt = True

    def __init__(self, table: Table, metrics: Sequence[Folding]) -> None:
        self.table, self.metrics = table, metrics
        self.name = table.name
        #: Holders of equal kind can replace each other.
        self.kind = table.kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Folds) and other.table is self.table

    def __hash__(self) -> int:
        return id(self.table)

    def known(self, values: Mapping[Any, np.ndarray]) -> list[dict[str, np.ndarray]]:
        """The states of each metric, by name."""
        return [{name: values[state] for name, state in metric.states.items()} for metric in self.metrics]

    # -- closing

    def close(self, values: Mapping[Any, np.ndarray], totals: Any) -> Closed:
        """Return the carries of everything kept, and change nothing; see `base.merging.Partial.close`."""
        table = self.table
        if table.closed is not None:
            return table.closed
        known, order = self.known(values), table.order or ""
        by_user = order in self.metrics[0].columns

        def closed(records: Records) -> Closed:
            carries = [metric.closed(records, own, totals) for metric, own in zip(self.metrics, known)]
            if not (by_user and records):
                return Closed(carries, np.empty(0, np.int64))
            column = records.cached("prepared", table.prepare)[order]
            return Closed(carries, distinct_of(integer_ids(column[starts_of(column)])))

        pieces = table.pieces(AT_ONCE) if by_user else []
        number = -(-sum(piece.length for piece in pieces) // AT_ONCE)
        if number < 2 or any(piece[order].dtype.kind != "i" for piece in pieces):
            return closed(Records(table.records()))
        places = [_places_by_group(piece[order], number) for piece in pieces]

        def closed_group(group: int) -> Closed:
            return closed(table.joined([piece.taken(its[group]) for piece, its in zip(pieces, places)]))

        from concurrent.futures import ThreadPoolExecutor

        inside = [contextvars.copy_context() for _ in range(number)]  # threads mute the same warnings
        with ThreadPoolExecutor(THREADS, "fleetmetrics folding") as threads:
            parts = threads.map(lambda group: inside[group].run(closed_group, group), range(number))
            return self.join_closed(list(parts))

    def join_closed(self, parts: Sequence[Closed]) -> Closed:
        """Join several closed parts; raise InvalidInputError if two have samples of one user."""
        members = np.sort(np.concatenate([part.members for part in parts]))
        twice = np.unique(members[1:][members[1:] == members[:-1]])
        if len(twice):
            more = f", as are {len(twice) - 1} others" if len(twice) > 1 else ""
            raise InvalidInputError(
                f"{self.name}: {self.table.order!r} {twice[0]} (for strings, the hash) is in two parts that are both "
                f"closed by {self.table.order}{more}; all samples of a value must be in one part"
            )
        carries = parts[0].carries
        for part in parts[1:]:
            carries = [metric.join_closed(*both) for metric, *both in zip(self.metrics, carries, part.carries)]
        return Closed(carries, members)

    def opened(self, closed: Closed, states: Sequence[Any]) -> list[Any]:
        """The carries, for the metrics' values."""
        if len(closed.carries) != len(self.metrics):
            raise InvalidInputError(f"{self.name} was closed in a collection; compute the collection")
        return [metric.of_closed(*both) for metric, *both in zip(self.metrics, closed.carries, states)]

    # -- merging

    def with_others(self, others: Sequence[Folds]) -> tuple[list[Kept], Closed | None]:
        """The joined content of these, for `Table.hold`; they do not change."""
        return self._joined([self.table, *(folds.table for folds in others)])

    def _joined(self, tables: Sequence[Table]) -> tuple[list[Kept], Closed | None]:
        filled = [table for table in tables if len(table)]
        closed = [table.closed for table in filled if table.closed is not None]
        if closed and len(closed) < len(filled):
            raise InvalidInputError(
                f"{self.name}: some parts are closed and others are not; close all of them, or none"
            )
        return [kept for table in filled for kept in table.batches], self.join_closed(closed) if closed else None

    # -- checkpoints: the methods of `fleetmetrics.state.state.State`

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """Copies of the table's columns, except for columns of ones; empty without samples."""
        table = self.table
        if table.closed is not None:
            return _packed(table.closed)
        columns = table.records().plain().items()
        return {name: column.copy() for name, column in columns if column is not None and len(column)}

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        """The joined content of several tables, one after the other."""
        whole, *others = [Folds(self.table.fresh(), self.metrics) for _ in range(1 + len(parts))]
        for other, part in zip(others, parts):
            other.load(part[self])
        whole.table.hold(*whole.with_others(others))
        return whole.saved()

    def check(self, held: Mapping[Any, Any], scope: Any = None) -> None:
        """Raise InvalidInputError if it cannot `load` this."""
        columns, table = held[self], self.table
        if _LAYOUT in columns:
            self._check_closed(columns)
            return
        known = set(columns) == {table.packed} or set(columns) <= set(table.columns)
        shapes = {column.shape for column in columns.values()}
        if not known or len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
            shapes_text = ", ".join(f"{name} {list(column.shape)}" for name, column in columns.items())
            raise InvalidInputError(
                f"{self.name} must hold {', '.join(table.columns)} of equal length, not {shapes_text}"
            )

    def load(self, held: Mapping[str, np.ndarray], scope: Any = None) -> None:
        """Hold `saved` contents."""
        table = self.table
        if not held or _LAYOUT in held:
            table.hold([], _unpacked(held) if held else None)
        else:
            columns = held if table.packed in held else {**dict.fromkeys(table.columns), **held}
            table.hold([Kept(None, None, Records(columns))], None)

    def _check_closed(self, held: Mapping[str, np.ndarray]) -> None:
        empty = [metric.closed(Records({}), {}, None) for metric in self.metrics]
        with contextlib.suppress(*MISFITS, RecordError):
            carries, members = _unpacked(held)
            fits = members.dtype == np.int64 and members.ndim == 1 and (members[1:] > members[:-1]).all()
            if fits and [carry.keys() for carry in carries] == [carry.keys() for carry in empty]:
                return
        raise InvalidInputError(f"{self.name} is closed in the checkpoint, but its folded values are malformed")


def _places_by_group(users: np.ndarray, number: int) -> list[np.ndarray]:
    """Divide users, which are integers, into this number of groups; return the places of each group's samples."""
    hashes = integer_ids(users).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    # Use the highest bits: passes over files choose users by lower ones. NumPy sorts numbers of 16 bits by digits.
    group = ((hashes >> np.uint64(48)) * np.uint64(number) >> np.uint64(16)).astype(np.uint16)
    ends = np.cumsum(np.bincount(group, minlength=number))
    return np.split(np.argsort(group, kind="stable").astype(np.uint32), ends[:-1])


#: A closed table is saved under these names instead of its columns; the names of columns have no spaces.
_LAYOUT, _PAYLOAD = "closed layout", "closed payload"


def _packed(closed: Closed) -> dict[str, np.ndarray]:
    packed = pack([closed.carries, closed.members])
    layout = json.dumps(packed.layout).encode()
    return {_LAYOUT: np.frombuffer(layout, np.uint8), _PAYLOAD: np.frombuffer(b"".join(packed.buffers), np.uint8)}


def _unpacked(held: Mapping[str, np.ndarray]) -> Closed:
    carries, members = unpack(json.loads(held[_LAYOUT].tobytes()), held[_PAYLOAD].tobytes())
    return Closed(carries, members)
