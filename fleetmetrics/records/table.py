"""A table: what the metrics of the catalogue keep of every sample, where they cannot be summed."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.batch.keys import joined_arrays
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.xp import to_host

__all__ = ["Kept", "Records", "Table", "joined_records"]


class Records(Dict[str, Any]):
    """NumPy arrays by column, equally long; None: 1 for each sample. Integers are as short as their values allow."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__(columns)
        self._memo: dict[Any, Any] = {}

    @property
    def length(self) -> int:
        """How many samples there are."""
        return next((len(column) for column in self.values() if column is not None), 0)

    def taken(self, place: Any) -> Records:
        """Some of the samples."""
        return Records({name: None if column is None else column[place] for name, column in self.items()})

    def cached(self, key: Any, make: Callable[[Records], Any]) -> Any:
        """The value of ``make(records)``, computed once: what several metrics need costs once."""
        if key not in self._memo:
            self._memo[key] = make(self)
        return self._memo[key]


class Kept(NamedTuple):
    """What one batch leaves behind.

    Args:
        xp: the batch's namespace.
        keep: flags of the samples that count; None: all.
        records: arrays or tensors ``[n]`` by column; None for a column of ones.
    """

    xp: Any
    keep: Any
    records: Mapping[str, Any]


class Table:
    """Columns with an entry per sample; merged by appending.

    Args:
        name: how errors call it.
        columns: their names.
        order: the column by whose values, rising, the samples are looked at; None: in no order.
        key: what they are, if metrics of one collection may share them; None: never shared.
        prepare: what is done with a worker's records before they are sent: takes them by column, and returns them
            sorted by the order. None: they are sorted.
    """

    def __init__(
        self,
        name: str,
        columns: tuple[str, ...],
        order: str | None,
        key: Any,
        prepare: Callable[[Records], Records] | None = None,
    ) -> None:
        self.name = name
        self.columns = columns
        self.order = order
        self.key = key
        self._prepare = prepare
        self._batches: list[Kept] = []

    @property
    def kind(self) -> tuple[Any, ...]:
        """What must be equal for one table to stand for another."""
        return (self.columns, self.order, self.key)

    def __len__(self) -> int:
        return len(self._batches)

    def fresh(self) -> Table:
        """An empty table of the same kind."""
        return Table(self.name, self.columns, self.order, self.key, self._prepare)

    def accumulate(self, kept: Kept) -> None:
        """Append what a batch leaves behind; what is on the host is copied, for its owner may write into it."""
        here = [value for value in kept.records.values() if value is not None]
        if all(isinstance(value, np.ndarray) or kept.xp.is_eager(value) for value in here):
            kept = _on_host(kept)
        self._batches.append(kept)

    def mark(self) -> int:
        """What `back_to` needs to return to where it is now."""
        return len(self._batches)

    def back_to(self, mark: int) -> None:
        """Forget what was appended after a mark."""
        del self._batches[mark:]

    def raise_if_overflown(self) -> None:
        """Nothing is summed here."""

    def records(self) -> Records:
        """All that was kept, on the host."""
        if self._batches:
            joined = joined_records(self.name, [_on_host(kept).records for kept in self._batches])
            self._batches = [Kept(None, None, joined)]
            return joined
        return Records({})

    @property
    def only_sorts(self) -> bool:
        """Whether nothing but sorting is done with the records before they are sent."""
        return self._prepare is None

    def prepare(self, records: Records) -> Records:
        """Do what is done with records before they are sent."""
        return self._prepare(records) if self._prepare else self.sorted(records)

    def prepared(self) -> Records:
        """All that was kept, as it is sent: sorted."""
        records = self.records()
        return self.prepare(records) if records else records

    def sorted(self, records: Records) -> Records:
        """The records, rising by the order; quick if they are a few runs that are sorted."""
        return records if self.order is None else records.taken(np.argsort(records[self.order], kind="stable"))

    def reset(self) -> None:
        """Forget everything."""
        self._batches = []

    def merge(self, other: Table) -> None:
        """Append what another table holds; it stays as it is."""
        self._batches = [*self._batches, *other._batches]


def _on_host(kept: Kept) -> Kept:
    if kept.xp is None:
        return kept
    keep = None if kept.keep is None else to_host(kept.keep)
    records = {}
    for name, value in kept.records.items():
        if value is not None:
            value = to_host(value)
            value = _small(value.copy() if keep is None else value[keep])
        records[name] = value
    return Kept(None, None, records)


def _small(column: np.ndarray) -> np.ndarray:
    """Integers in as few bytes as they need: labels, which come as int64, in one."""
    if column.dtype != np.int64 or not len(column):
        return column
    low, high = column.min(), column.max()
    for dtype in (np.int8, np.int16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return column.astype(dtype)
    return column


def joined_records(name: str, parts: Sequence[Mapping[str, Any]]) -> Records:
    """Put records one after the other."""
    joined: dict[str, Any] = {}
    for column in parts[0]:
        if all(part[column] is None for part in parts):
            joined[column] = None
            continue
        arrays = [np.ones(part.length) if part[column] is None else part[column] for part in map(Records, parts)]
        if len({array.dtype.kind in "SU" for array in arrays if len(array)}) > 1:
            raise InvalidInputError(
                f"{name}: {column} holds texts in some batches and numbers in others; give one of the two throughout"
            )
        arrays = [array for array in arrays if len(array)] or arrays[:1]
        joined[column] = arrays[0] if len(arrays) == 1 else joined_arrays(arrays, f"{name}: {column}")
    return Records(joined)
