"""Batches of records, kept as columns: arrays, or lists, whose first axis is the sample."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np
from numpy import ndarray

from fleetmetrics.batch.keys import keys_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.arrangement import Positions
from fleetmetrics.serial.serializer import portable
from fleetmetrics.support.traced import raise_if_traced
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.xp import is_eager_tensor, is_on_device, to_host

__all__ = [
    "RECORDS",
    "Columns",
    "InOrder",
    "Kind",
    "are_alike",
    "as_results",
    "joint_kind",
    "number_of",
    "one_per_id",
    "part_of",
]

#: Repeated records may differ this much: a sample's scores differ in the last bits between batches.
_RELATIVE_TOLERANCE = 1e-3
_ABSOLUTE_TOLERANCE = 1e-6
_SHOWN = 5
_NUMBERS = (bool, int, float, np.generic)


def as_column(value: Any, name: str) -> Any:
    """Return a batch's column: an array or tensor with its own memory; a list for values without a shape."""
    if is_on_device(value) and value.shape:
        return value.clone()
    value = to_host(value)
    if isinstance(value, (list, tuple, range)):
        numbers = bool(value) and all(isinstance(entry, _NUMBERS) for entry in value)
        value = np.asarray(value) if numbers else list(value)
    elif not isinstance(value, np.ndarray) and hasattr(value, "__array__") and not is_eager_tensor(value):
        value = np.asarray(value)
    if isinstance(value, list):
        return value
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        raise_if_traced("add")
        raise InvalidInputError(
            f"{name} is {type(value).__name__} {value!r:.60}; a batch's column must be an array, a tensor or a list"
            " whose first axis is the sample"
        )
    if value.dtype == object:
        return list(value)
    base = value.base
    # A view would keep its whole batch alive.
    return value.copy() if isinstance(base, np.ndarray) and base.nbytes > 2 * value.nbytes else value


def as_ids(value: Any) -> np.ndarray:
    """Return a batch's sample ids."""
    ids = keys_of(value, "ids")
    if ids.size == 0 or (ids.ndim == 2 and ids.shape[1] == 1):
        ids = ids.reshape(-1)
    if ids.ndim != 1:
        raise InvalidInputError(f"ids has shape {list(ids.shape)}; it must hold one integer or string per sample")
    return np.asarray(as_column(ids, "ids"))


#: The names of columns that are a plain list of records.
RECORDS = "records"


class Kind(NamedTuple):
    """The common properties of the arrays of a column."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]  #: the shape of an entry


class Columns:
    """The added records, batch by batch.

    ``names`` holds the keywords if the columns were given by name, otherwise their number, or `RECORDS` for plain
    records.
    """

    batches: list[tuple[Any, ...]]
    ids: list[np.ndarray]
    names: Any

    def __init__(
        self, names: Any = None, batches: Iterable[tuple[Any, ...]] = (), ids: Iterable[np.ndarray] = ()
    ) -> None:
        self.names = names  # None before the first batch
        self.batches = list(batches)
        self.ids = list(ids)  # empty if the batches have no ids

    @classmethod
    def of(cls, records: list[Any]) -> Columns:
        """Return a plain list of records as a column."""
        return cls(RECORDS, [(records,)]) if records else cls()

    def __len__(self) -> int:
        return sum(len(batch[0]) for batch in self.batches)

    def append(self, columns: tuple[Any, ...], named: Mapping[str, Any], ids: Any = None) -> None:
        """Add a batch as columns with or without names; an InvalidInputError adds nothing."""
        # The usual case first: the same columns as before, as arrays that own their memory.
        names: Any = tuple(named) if named else len(columns)
        if ids is None and names == self.names and not self.ids and not (columns and named):
            batch = columns or tuple(named.values())
            try:
                size = len(batch[0])
                for column in batch:
                    if type(column) is not ndarray or column.base is not None or len(column) != size:
                        break
                else:
                    self.batches.append(batch)
                    return
            except TypeError:  # it has no length
                pass
        batch = self._admitted(columns, named, ids is None)
        names = names if self.names is None else self.names
        titles = names if isinstance(names, tuple) else [f"column {i}" for i in range(names)]
        batch = tuple([as_column(column, title) for title, column in zip(titles, batch)])
        ids = None if ids is None else as_ids(ids)
        lengths = [(title, len(column)) for title, column in zip(titles, batch)]
        lengths += [] if ids is None else [("ids", len(ids))]
        if len({length for _, length in lengths}) > 1:
            lengths_text = ", ".join(f"{title} {length}" for title, length in lengths)
            raise InvalidInputError(
                f"the columns of a batch must have equal lengths, one entry per sample; given: {lengths_text}. "
                "None of this batch was added"
            )
        self.names = names
        self.batches.append(batch)
        self.ids += [] if ids is None else [ids]

    def _admitted(self, columns: tuple[Any, ...], named: Mapping[str, Any], no_ids: bool) -> tuple[Any, ...]:
        """The batch's columns in the order of the first batch."""
        if columns and named:
            raise InvalidInputError(
                f"add was given {counted(len(columns), 'columns')} without a name and "
                f"{', '.join(named)}; name all or none"
            )
        if not columns and not named:
            raise InvalidInputError("add was given nothing; give a batch's columns, such as add(score=..., label=...)")
        if self.names is None:
            return columns or tuple(named.values())
        if no_ids is bool(self.ids):
            had = "with" if no_ids else "without"
            raise InvalidInputError(f"ids: earlier batches came {had} them; give ids to every add, or to none")
        if not (named.keys() == set(self.names) if isinstance(self.names, tuple) else len(columns) == self.names):
            raise InvalidInputError(
                f"add was given {_names_text(tuple(named) or len(columns))}, and {_names_text(self.names)} before; "
                "every batch must have the same columns"
            )
        return tuple(named[name] for name in self.names) if named else columns

    def rows(self) -> list[tuple[Any, ...]]:
        """The non-empty batches, with any ids as the last column."""
        rows = [(*batch, ids) for batch, ids in zip(self.batches, self.ids)] if self.ids else self.batches
        return [row for row in rows if len(row[0])]

    def kinds(self) -> list[Kind | None]:
        """The kind of each column, and of any ids; None for a list. Without samples, the result is empty."""
        return list(map(kind_of, zip(*self.rows())))

    def blocks(self) -> list[int]:
        """The number of samples of each batch."""
        return [len(batch[0]) for batch in self.batches]

    def plain(self) -> list[Any]:
        """The whole content, for packing."""
        return [self.names, self.batches, self.ids]

    def portable(self) -> Columns:
        """These samples as another worker would get them; a `RecordError` for one that could not be sent."""
        batches = [
            tuple([portable(column) if type(column) is list else column for column in batch]) for batch in self.batches
        ]
        return Columns(self.names, batches, self.ids)

    def followed_by(self, other: Columns) -> Columns:
        """Return these samples followed by the other's."""
        if not self.batches or not other.batches:
            return self if self.batches else other
        if self.names != other.names or bool(self.ids) != bool(other.ids):
            which = [_names_text(columns.names) + (" and ids" if columns.ids else "") for columns in (self, other)]
            raise InvalidInputError(f"the records before the checkpoint have {which[0]}, those after it {which[1]}")
        return Columns(self.names, self.batches + other.batches, self.ids + other.ids)

    def select(self, keep: Any) -> Columns:
        """Return the first ``keep`` samples, or those with a flag; batches that are kept whole are not copied."""
        chosen, start = Columns(self.names), 0
        for i, batch in enumerate(self.batches):
            size = len(batch[0])
            first = isinstance(keep, int)
            part: Any = slice(0, max(0, keep - start)) if first else np.flatnonzero(keep[start : start + size])
            ids = self.ids[i : i + 1]
            if (part.stop if first else part.size) < size:
                batch = tuple(_taken(column, part) for column in batch)
                ids = [batch_ids[part] for batch_ids in ids]
            chosen.batches.append(batch)
            chosen.ids += ids
            start += size
        return chosen

    def joined(self) -> Any:
        """Copies of all batches, joined, as ``compute_metric`` gets them; an empty list without samples."""
        batches = [batch for batch in self.batches if len(batch[0])]
        if not batches:
            return []
        joined = [np.concatenate(parts) if are_alike(parts) else list(chain(*parts)) for parts in zip(*batches)]
        return as_results(self.names, joined)


def as_results(names: Any, columns: Sequence[Any]) -> Any:
    """Return joined columns as ``compute_metric`` gets them."""
    if names is None or names == RECORDS:
        return columns[0] if columns else []
    return dict(zip(names, columns)) if isinstance(names, tuple) else tuple(columns)


def kind_of(parts: Sequence[Any]) -> Kind | None:
    """The kind of array that holds the parts of a column unchanged; None if no array can, or a part is a list."""
    if not all(isinstance(part, ndarray) for part in parts):
        return None
    return joint_kind([Kind(*dtype_and_shape) for dtype_and_shape in {(part.dtype, part.shape[1:]) for part in parts}])


def joint_kind(kinds: Sequence[Kind | None]) -> Kind | None:
    """The kind of array that can hold the values of these arrays."""
    present = [kind for kind in kinds if kind is not None]
    letters = {kind.dtype.kind for kind in present}
    if len(present) < len(kinds) or len({kind.shape for kind in present}) != 1:
        return None
    if len(letters) > 1 and not letters <= set("biufc"):
        return None
    try:
        dtype = np.result_type(*[kind.dtype for kind in present])
    except TypeError:  # no dtype can hold both: years and seconds, or different fields
        return None
    # NumPy joins int64 and uint64 to float64
    return None if letters == {"i", "u"} and dtype.kind == "f" else Kind(dtype, present[0].shape)


def are_alike(parts: Sequence[Any]) -> bool:
    """Whether the parts of a column are arrays that one array can hold without changing a value."""
    return kind_of(parts) is not None


def _names_text(names: Any) -> str:
    return ", ".join(names) if isinstance(names, tuple) else f"{counted(names, 'columns')} without names"


# The records of all workers


def part_of(positions: Positions, start: int, count: int) -> Positions:
    """Return some of the positions."""
    if isinstance(positions, np.ndarray):
        return positions[start : start + count]
    step = positions.step
    first = positions.start + start * step
    return slice(first, first + count * step, step)


def number_of(positions: Positions) -> int:
    """The number of positions."""
    if isinstance(positions, ndarray):
        return len(positions)
    return len(range(positions.start, positions.stop, positions.step))


class InOrder:
    """The columns of all workers; each record goes to its place when it arrives.

    Args:
        kinds: the kinds of the columns; None for a list.
        total: the number of records.
    """

    def __init__(self, kinds: Sequence[Kind | None], total: int) -> None:
        self._kinds, self._total = kinds, total
        self._columns: list[Any] = []

    def put(self, columns: Sequence[Any], positions: Positions) -> None:
        """Place some records; raise ValueError or TypeError if they differ from the announced ones."""
        count = number_of(positions)
        if [len(column) for column in columns] != [count] * len(self._kinds):
            raise ValueError(f"{list(map(len, columns))} entries, but {len(self._kinds)} columns have {count}")
        self._columns = self._columns or [
            [None] * self._total if kind is None else np.empty((self._total, *kind.shape), kind.dtype)
            for kind in self._kinds
        ]
        for whole, column, kind in zip(self._columns, columns, self._kinds):
            if kind is None:
                _put_in_list(whole, column, positions)
            elif not isinstance(column, ndarray) or not np.can_cast(column.dtype, kind.dtype, "safe"):
                raise TypeError(f"{getattr(column, 'dtype', 'a list')}, but a column is {kind.dtype}")
            else:
                whole[positions] = column

    def taken(self) -> list[Any]:
        """Return the columns and release them."""
        columns, self._columns = self._columns, []
        return columns


def _put_in_list(whole: list[Any], column: Any, positions: Positions) -> None:
    if isinstance(positions, slice):
        whole[positions] = column if isinstance(column, list) else list(column)
    else:
        for position, record in zip(positions.tolist(), column):
            whole[position] = record


def one_per_id(columns: list[Any], ids: Any) -> list[Any]:
    """Keep the first record of every id, in the order of the ids."""
    if not isinstance(ids, np.ndarray):  # no array has int64 and uint64 as they are
        ids = np.array(ids, object)
        texts = np.array([isinstance(one, str) for one in ids])
        if texts.any() and not texts.all():
            shown = " and ".join(repr(ids[flags][0].item()) for flags in (~texts, texts))
            raise InvalidInputError(f"ids are integers in some batches and strings in others, {shown}; use one kind")
    distinct, first = np.unique(ids, return_index=True)
    if len(first) < len(ids):
        _check_repeated(columns, ids, distinct, first)
    del distinct
    return [_taken(columns.pop(0), first) for _ in range(len(columns))]


def _check_repeated(columns: Sequence[Any], ids: np.ndarray, distinct: np.ndarray, first: np.ndarray) -> None:
    """Raise unless repeated records equal the first ones of their ids."""
    again = np.delete(np.arange(len(ids)), first)
    before = first[np.searchsorted(distinct, ids[again])]
    agrees = np.ones(again.size, bool)
    for column in columns:
        agrees &= _agreement(column, again, before)
    if not agrees.all():
        wrong = np.unique(ids[again[~agrees]])
        shown = ", ".join(map(repr, wrong[:_SHOWN].tolist())) + (", ..." if wrong.size > _SHOWN else "")
        raise InvalidInputError(
            f"ids: {wrong.size} of {distinct.size} ids came with records that differ: {shown}. A sample that is "
            "evaluated twice must give the same record, up to rounding; do two samples share an id?"
        )


def _taken(column: Any, places: Any) -> Any:
    """Some entries of a column, by a slice or by integers."""
    if isinstance(column, np.ndarray) or isinstance(places, slice):
        return column[places]
    return [column[i] for i in places.tolist()]


def _agreement(column: Any, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Flags of the pairs of positions whose records are equal, up to rounding."""
    if not isinstance(column, np.ndarray):
        return np.array([_alike(column[i], column[j]) for i, j in zip(one.tolist(), other.tolist())], bool)
    a, b = column[one], column[other]
    return np.asarray(_close(a, b).reshape(len(one), -1).all(axis=1))


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "fc" or b.dtype.kind in "fc":
        return np.asarray(np.isclose(a, b, _RELATIVE_TOLERANCE, _ABSOLUTE_TOLERANCE, equal_nan=True))
    return np.asarray(a == b)


def _alike(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, float):
        return math.isclose(a, b, rel_tol=_RELATIVE_TOLERANCE, abs_tol=_ABSOLUTE_TOLERANCE) or (a != a and b != b)
    if hasattr(a, "numpy"):
        a, b = a.numpy(), b.numpy()
    if isinstance(a, np.ndarray):
        return bool(a.shape == b.shape and _close(a, b).all())
    return bool(a == b)
