"""Tables: the records of the catalogue's metrics, where sums do not suffice."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.batch.keys import Coded, joined_arrays
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.serial import small
from fleetmetrics.xp import to_host, together_to_host

__all__ = ["Closed", "Kept", "Records", "Table", "joined_records"]


class Records(Dict[str, Any]):
    """Columns of equal length: NumPy arrays with integers as short as possible, or None for all ones.

    Strings of the keys of slices may be `Coded`; `plain` has arrays.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__(columns)
        self._memo: dict[Any, Any] = {}

    @property
    def length(self) -> int:
        """The number of samples."""
        return next((len(column) for column in self.values() if column is not None), 0)

    def taken(self, place: Any) -> Records:
        """Some of the samples."""
        return Records({name: None if column is None else column[place] for name, column in self.items()})

    def plain(self) -> Records:
        """The same, with arrays of strings, as they are sent and saved."""
        return Records({name: column.texts() if isinstance(column, Coded) else column for name, column in self.items()})

    def cached(self, key: Any, make: Callable[[Records], Any]) -> Any:
        """The value of ``make(records)``, computed once for all metrics."""
        if key not in self._memo:
            self._memo[key] = make(self)
        return self._memo[key]


class Kept(NamedTuple):
    """The records of one batch."""

    xp: Any  #: the batch's namespace
    keep: Any  #: flags of the samples that count; None: all
    records: Mapping[str, Any]  #: arrays or tensors ``[n]`` by column; None for a column of ones


class Closed(NamedTuple):
    """The result of closing a part that has all samples of its users."""

    carries: list[Any]  #: a carry of each of the table's metrics, in their order
    members: np.ndarray  #: the sorted users, int64; a hash replaces a string


class Table:
    """Columns with an entry per sample, merged by appending; the arguments are those of `RecordMetric.keep_records`."""

    columns: tuple[str, ...]
    key: Any
    kind: tuple[tuple[str, ...], str | None, Any]
    name: str
    order: str | None

    #: The column that replaces all others, in a table that packs them.
    packed = ""

    def __init__(
        self,
        name: str,
        columns: tuple[str, ...],
        order: str | None,
        key: Any,
        prepare: Callable[[Records], Records] | None = None,
    ) -> None:
        self.name, self.columns, self.order, self.key = name, columns, order, key
        #: Tables of equal kind can replace each other.
        self.kind = (columns, order, key)
        self._prepare = prepare
        #: The records of each batch.
        self.batches: list[Kept] = []
        #: The carries of a closed table, which keeps no batches.
        self.closed: Closed | None = None

    def __len__(self) -> int:
        return len(self.batches) if self.closed is None else len(self.batches) + 1

    def fresh(self, name: str | None = None) -> Table:
        """An empty table of the same kind, under another name if it is given."""
        return type(self)(self.name if name is None else name, self.columns, self.order, self.key, self._prepare)

    def accumulate(self, kept: Kept) -> None:
        """Append a copy of a batch, since its owner may write into it; tensors stay on their device."""
        if self.closed is not None:
            raise InvalidInputError(
                f"{self.name} is closed, and takes no more samples; reset it, or add to a new metric"
            )
        here = [value for value in kept.records.values() if value is not None]
        if all(isinstance(value, (np.ndarray, Coded)) or kept.xp.is_eager(value) for value in here):
            kept = self.on_host(kept)
        else:
            records = {name: _copied(value) for name, value in kept.records.items()}
            kept = Kept(kept.xp, _copied(kept.keep), records)
        self.batches.append(kept)

    def on_host(self, kept: Kept) -> Kept:
        """A batch in the host's memory; unchanged if it is there already."""
        if kept.xp is None:
            return kept
        keep = None if kept.keep is None else to_host(kept.keep)
        records = {}
        for name, value in kept.records.items():
            if value is not None:
                there = to_host(value)
                own = small(there if keep is None else there[keep])
                value = own.copy() if own is there else own
            records[name] = value
        return Kept(None, None, records)

    def mark(self) -> int:
        """The argument with which `back_to` returns to this point."""
        return len(self.batches)

    def back_to(self, mark: int) -> None:
        """Forget the records appended after a mark."""
        del self.batches[mark:]

    def raise_if_overflown(self) -> None:
        """Do nothing: a table holds no sums."""

    def records(self) -> Records:
        """All records, on the host."""
        if self.batches:
            here = together_to_host((kept.keep, *kept.records.values()) for kept in self.batches)
            both = zip(self.batches, here)
            batches = [Kept(kept.xp, keep, dict(zip(kept.records, rest))) for kept, (keep, *rest) in both]
            joined = self.joined([self.on_host(kept).records for kept in batches])
            self.batches = [Kept(None, None, joined)]
            return joined
        return Records({})

    def pieces(self, rows: int) -> list[Records]:
        """All records, on the host: batches as they were added, joined to at least this many rows."""
        if any(kept.xp is not None for kept in self.batches):
            return [self.records()]
        pieces, parts = [], []
        for kept in self.batches:
            parts.append(Records(kept.records))
            if sum(part.length for part in parts) >= rows or kept is self.batches[-1]:
                pieces.append(self.joined(parts))
                parts = []
        return pieces

    def joined(self, parts: Sequence[Mapping[str, Any]]) -> Records:
        """The records of several batches, joined."""
        return joined_records(self.name, parts)

    @property
    def only_sorts(self) -> bool:
        """Whether records are only sorted before they are sent."""
        return self._prepare is None

    def prepare(self, records: Records) -> Records:
        """Records as they are sent: sorted."""
        return self._prepare(records) if self._prepare else self.sorted(records)

    def prepared(self) -> Records:
        """All records, prepared for sending."""
        records = self.records().plain()
        return self.prepare(records) if records else records

    def sorted(self, records: Records) -> Records:
        """The records sorted by the order."""
        if self.order is None:
            return records
        keys = records[self.order]
        if (keys[1:] >= keys[:-1]).all():  # as in many logs
            return records
        return records.taken(_stable_order(keys))

    def reset(self) -> None:
        """Forget everything."""
        self.hold([], None)

    def hold(self, batches: list[Kept], closed: Closed | None) -> None:
        """Hold this and nothing else."""
        self.batches, self.closed = batches, closed

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies, which get no tensors."""
        return {**vars(self), "batches": [self.on_host(kept) for kept in self.batches]}


def _stable_order(keys: np.ndarray) -> np.ndarray:
    """The places of sorted keys; integers are sorted together with their places, which is several times faster."""
    if keys.dtype.kind == "i" and len(keys):
        low, bits = int(keys.min()), len(keys).bit_length()
        if int(keys.max()) - low < 1 << (63 - bits):
            packed = (keys.astype(np.int64) - low) << bits | np.arange(len(keys))
            packed.sort()
            return packed & ((1 << bits) - 1)
    return np.argsort(keys, kind="stable")


def joined_records(name: str, parts: Sequence[Mapping[str, Any]]) -> Records:
    """Concatenate records."""
    joined: dict[str, Any] = {}
    for column in parts[0]:
        if all(part[column] is None for part in parts):
            joined[column] = None
            continue
        arrays = [np.ones(part.length) if part[column] is None else part[column] for part in map(Records, parts)]
        if len({array.dtype.kind in "SU" for array in arrays if len(array)}) > 1:
            raise InvalidInputError(
                f"{name}: {column} holds strings in some batches and numbers in others; use one of the two in all "
                "batches"
            )
        arrays = [array for array in arrays if len(array)] or arrays[:1]
        joined[column] = arrays[0] if len(arrays) == 1 else joined_arrays(arrays, f"{name}: {column}")
    return Records(joined)


def _copied(value: Any) -> Any:
    """A copy of an array or a tensor, whose owner may write to it later; None stays None."""
    if value is None:
        return None
    return value.copy() if isinstance(value, (np.ndarray, Coded)) else value.clone()
