"""Tables: what the catalogue's metrics keep of every sample where sums do not suffice."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Callable, Dict, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.batch.hashing import integer_ids
from fleetmetrics.batch.keys import joined_arrays
from fleetmetrics.errors import InvalidInputError, RecordError
from fleetmetrics.formulas.groups import starts_of
from fleetmetrics.serial import MISFITS, small
from fleetmetrics.serial.serializer import pack, unpack
from fleetmetrics.xp import to_host, together_to_host

__all__ = ["Closed", "Kept", "Records", "Table", "joined_records"]


class Records(Dict[str, Any]):
    """Columns of equal length: NumPy arrays with integers as short as possible, or None for all ones."""

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

    def cached(self, key: Any, make: Callable[[Records], Any]) -> Any:
        """The value of ``make(records)``, computed once for all metrics."""
        if key not in self._memo:
            self._memo[key] = make(self)
        return self._memo[key]


class Kept(NamedTuple):
    """What is kept of one batch."""

    xp: Any  #: the batch's namespace
    keep: Any  #: flags of the samples that count; None: all
    records: Mapping[str, Any]  #: arrays or tensors ``[n]`` by column; None for a column of ones


class Closed(NamedTuple):
    """What is left of the samples of a part that has all of its users'."""

    carries: list[Any]  #: of the table's metrics, in their order
    members: np.ndarray  #: the users: int64, sorted, of texts a hash


class Table:
    """Columns with an entry per sample, merged by appending; the arguments are those of `RecordMetric.keep_records`."""

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
        self._batches: list[Kept] = []
        self.closed: Closed | None = None
        #: Those of whoever looked last that stand on it.
        self.metrics: Sequence[Any] = ()

    def __len__(self) -> int:
        return len(self._batches) + (self.closed is not None)

    def fresh(self) -> Table:
        """An empty table of the same kind."""
        return type(self)(self.name, self.columns, self.order, self.key, self._prepare)

    def accumulate(self, kept: Kept) -> None:
        """Append a batch, copied, since its owner may write into it; what is on a device stays there."""
        if self.closed is not None:
            raise InvalidInputError(f"{self.name} is closed, and takes no more samples; reset it, or add to a new one")
        here = [value for value in kept.records.values() if value is not None]
        if all(isinstance(value, np.ndarray) or kept.xp.is_eager(value) for value in here):
            kept = self.on_host(kept)
        else:
            given = (kept.keep, *kept.records.values())
            keep, *rest = [v if v is None else v.copy() if isinstance(v, np.ndarray) else v.clone() for v in given]
            kept = Kept(kept.xp, keep, dict(zip(kept.records, rest)))
        self._batches.append(kept)

    def on_host(self, kept: Kept) -> Kept:
        """A batch as it is kept in the host's memory; once more, it is as it was."""
        if kept.xp is None:
            return kept
        keep = None if kept.keep is None else to_host(kept.keep)
        records = {}
        for name, value in kept.records.items():
            if value is not None:
                value = to_host(value)
                value = small(value.copy() if keep is None else value[keep])
            records[name] = value
        return Kept(None, None, records)

    def mark(self) -> int:
        """The argument with which `back_to` returns to this point."""
        return len(self._batches)

    def back_to(self, mark: int) -> None:
        """Forget what was appended after a mark."""
        del self._batches[mark:]

    def raise_if_overflown(self) -> None:
        """Nothing is summed here."""

    def records(self) -> Records:
        """All that was kept, on the host."""
        if self._batches:
            here = together_to_host((kept.keep, *kept.records.values()) for kept in self._batches)
            both = zip(self._batches, here)
            batches = [Kept(kept.xp, keep, dict(zip(kept.records, rest))) for kept, (keep, *rest) in both]
            joined = self.joined([self.on_host(kept).records for kept in batches])
            self._batches = [Kept(None, None, joined)]
            return joined
        return Records({})

    def joined(self, parts: Sequence[Mapping[str, Any]]) -> Records:
        """What was kept of several batches, together."""
        return joined_records(self.name, parts)

    @property
    def only_sorts(self) -> bool:
        """Whether records are only sorted before they are sent."""
        return self._prepare is None

    def prepare(self, records: Records) -> Records:
        """Records as they are sent: sorted."""
        return self._prepare(records) if self._prepare else self.sorted(records)

    def prepared(self) -> Records:
        """All that was kept, prepared for sending."""
        records = self.records()
        return self.prepare(records) if records else records

    def sorted(self, records: Records) -> Records:
        """The records sorted by the order."""
        if self.order is None:
            return records
        keys = records[self.order]
        if (keys[1:] >= keys[:-1]).all():  # as in many a log
            return records
        return records.taken(_stable_order(keys))

    def reset(self) -> None:
        """Forget everything."""
        self.hold([], None)

    def hold(self, batches: list[Kept], closed: Closed | None) -> None:
        """Hold this and nothing else."""
        self._batches, self.closed = batches, closed

    def folded(self, values: Mapping[Any, np.ndarray], totals: Any) -> Closed:
        """What its metrics make of all that was kept; see `fleetmetrics.partial.Partial.close`."""
        if self.closed is not None:
            return self.closed
        records, members = Records(self.records()), np.empty(0, np.int64)
        carries = [metric.closed(records, own, totals) for metric, own in zip(self.metrics, self.known(values))]
        if records and self.order is not None and self.order in self.metrics[0].columns:
            column = records.cached("prepared", self.prepare)[self.order]
            members = np.unique(integer_ids(column[starts_of(column)]))
        return Closed(carries, members)

    def known(self, values: Mapping[Any, np.ndarray]) -> list[dict[str, np.ndarray]]:
        """The states of each of its metrics, by name."""
        return [{name: values[state] for name, state in metric.states.items()} for metric in self.metrics]

    def with_others(self, others: Sequence[Table]) -> tuple[list[Kept], Closed | None]:
        """What these hold together, for `hold`; they stay as they are."""
        filled = [each for each in (self, *others) if len(each)]
        closed = [each.closed for each in filled if each.closed is not None]
        if closed and len(closed) < len(filled):
            raise InvalidInputError(
                f"{self.name}: some parts are closed and others are not; close all of them, or none"
            )
        return [kept for each in filled for kept in each._batches], self.joined_closed(closed) if closed else None

    def joined_closed(self, parts: Sequence[Closed]) -> Closed:
        """Several as one; InvalidInputError if two have samples of one user."""
        members = np.sort(np.concatenate([part.members for part in parts]))
        twice = np.unique(members[1:][members[1:] == members[:-1]])
        if len(twice):
            raise InvalidInputError(
                f"{self.name}: {len(twice)} values of {self.order!r} are in two parts that are closed by it, "
                f"such as {twice[0]} (of a text, this is the hash); all samples of a value must be in one part"
            )
        carries = parts[0].carries
        for part in parts[1:]:
            carries = [metric.join_closed(*both) for metric, *both in zip(self.metrics, carries, part.carries)]
        return Closed(carries, members)

    def opened(self, closed: Closed, states: Sequence[Any]) -> list[Any]:
        """The carries, for the metrics' values."""
        if len(closed.carries) != len(self.metrics):
            raise InvalidInputError(f"{self.name} was closed in a collection; compute that")
        return [metric.of_closed(*both) for metric, *both in zip(self.metrics, closed.carries, states)]

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: no tensors."""
        return {**vars(self), "_batches": [self.on_host(kept) for kept in self._batches], "metrics": ()}

    # -- checkpoints: as for `fleetmetrics.state.State`

    dealt = True
    #: The column that stands for all others, in a table that packs them.
    packed = ""

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """Its columns but for those of all ones, copied; none without samples."""
        if self.closed is not None:
            return _packed(self.closed)
        return {name: column.copy() for name, column in self.records().items() if column is not None and len(column)}

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        """What several tables hold together, one after the other."""
        whole, *others = [self.fresh() for _ in range(1 + len(parts))]
        for other, part in zip(others, parts):
            other.load(part[self])
        whole.metrics = self.metrics
        whole.hold(*whole.with_others(others))
        return whole.saved()

    def check(self, held: Mapping[Any, Any], scope: Any = None) -> None:
        """Raise InvalidInputError if it cannot `load` this."""
        columns = held[self]
        if _LAYOUT in columns:
            self._check_closed(columns)
            return
        known = set(columns) == {self.packed} or set(columns) <= set(self.columns)
        shapes = {column.shape for column in columns.values()}
        if not known or len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
            told = ", ".join(f"{name} {list(column.shape)}" for name, column in columns.items())
            raise InvalidInputError(f"{self.name} must hold {', '.join(self.columns)} of equal length, not {told}")

    def load(self, held: Mapping[str, np.ndarray], scope: Any = None) -> None:
        """Hold what was `saved`."""
        if not held or _LAYOUT in held:
            self.hold([], _unpacked(held) if held else None)
        else:
            columns = held if self.packed in held else {**dict.fromkeys(self.columns), **held}
            self.hold([Kept(None, None, Records(columns))], None)

    def _check_closed(self, held: Mapping[str, np.ndarray]) -> None:
        empty = [metric.closed(Records({}), {}, None) for metric in self.metrics]
        with contextlib.suppress(*MISFITS, RecordError):
            carries, members = _unpacked(held)
            fits = members.dtype == np.int64 and members.ndim == 1 and (members[1:] > members[:-1]).all()
            if fits and [each.keys() for each in carries] == [each.keys() for each in empty]:
                return
        raise InvalidInputError(f"{self.name} is closed in the checkpoint, and what it was folded into is malformed")


#: What a closed table has instead of columns, whose names have no spaces.
_LAYOUT, _PAYLOAD = "closed layout", "closed payload"


def _packed(closed: Closed) -> dict[str, np.ndarray]:
    packed = pack([closed.carries, closed.members])
    layout = json.dumps(packed.layout).encode()
    return {_LAYOUT: np.frombuffer(layout, np.uint8), _PAYLOAD: np.frombuffer(b"".join(packed.buffers), np.uint8)}


def _unpacked(held: Mapping[str, np.ndarray]) -> Closed:
    carries, members = unpack(json.loads(held[_LAYOUT].tobytes()), held[_PAYLOAD].tobytes())
    return Closed(carries, members)


def _stable_order(keys: np.ndarray) -> np.ndarray:
    """The places of sorted keys; integers are sorted with their places in them, which is several times faster."""
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
                f"{name}: {column} holds texts in some batches and numbers in others; give one of the two throughout"
            )
        arrays = [array for array in arrays if len(array)] or arrays[:1]
        joined[column] = arrays[0] if len(arrays) == 1 else joined_arrays(arrays, f"{name}: {column}")
    return Records(joined)
