"""Keys of slices, the rows of the states that belong to them, and the reduction of rows by key.

Each worker has its own keys. Rank 0 finds the union, reduces the rows of each key, and answers. If there are more keys
than the metric allows, the smallest are kept, and the rows of all others become one: so the result does not depend on
which worker has met which key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.batch.keys import Coded, keys_of
from fleetmetrics.comm import Block, Communicator
from fleetmetrics.comm.blocks import agree, layout_of
from fleetmetrics.comm.communicator import Letter
from fleetmetrics.comm.failures import by_rank
from fleetmetrics.errors import AgreementError, IntegerOverflowError, InvalidInputError
from fleetmetrics.numbers import REST, combine, combine_exactly, held_of, identity
from fleetmetrics.serial import pack_arrays, unpack_arrays
from fleetmetrics.state import InPlace, State, read
from fleetmetrics.xp import Directed, Scattered, numpy_ops, to_host

__all__ = ["KeyTable", "Known", "Plan", "Rows", "check_kind", "found_in", "host_keys"]

#: How many bytes of rows, over all workers, are reduced at a time.
_AT_ONCE = 32 << 20


def host_keys(values: Any, argument: str) -> Any:
    """Keys on the host, as `keys_of` has them, or `Coded`; InvalidInputError for one of 2**63 or more."""
    array = keys_of(values, argument)
    if array.dtype == np.uint64:
        raise InvalidInputError(
            f"{argument} must hold integers below 2**63 or texts, one per sample, not {array.max()}"
        )
    return array


def check_kind(keys: np.ndarray, values: Any, argument: str) -> None:
    """Raise InvalidInputError if some keys are texts, and some integers."""
    if len(keys) and len(values) and (keys.dtype.kind == "U") != (values.dtype.kind == "U"):
        kinds = ["texts" if each.dtype.kind == "U" else "integers" for each in (values, keys)]
        raise InvalidInputError(f"{argument} holds {kinds[0]}, and the keys so far are {kinds[1]}; give one of the two")


def found_in(keys: np.ndarray, values: Any) -> np.ndarray:
    """The places of values among sorted keys of their kind, ``len(keys)`` for those not found."""
    if isinstance(values, Coded):
        return found_in(keys, values.values)[values.codes]
    if not len(keys):
        return np.zeros(len(values), np.int64)
    place = np.searchsorted(keys, values)
    return np.where(keys[np.minimum(place, len(keys) - 1)] == values, place, len(keys))


class Known(NamedTuple):
    """The sorted keys of a worker, and the row of each in keyed states; row 0 is for all other keys."""

    keys: np.ndarray
    rows: np.ndarray


class Plan(NamedTuple):
    """What a batch will do to a `KeyTable` and its `Rows`."""

    lane: np.ndarray  #: of each sample
    lanes: np.ndarray  #: the row that each lane is merged into, all different
    known: Known  #: afterwards
    evicted: np.ndarray  #: rows of keys to make room for others, merged into row 0


_NOTHING = Known(np.empty(0, np.int64), np.empty(0, np.int64))


class Keys(NamedTuple):
    """The keys of the rows, sorted and unique; ``limit`` of them are kept."""

    name: str
    array: np.ndarray
    limit: int


@dataclass
class KeyedRows(Block):
    """A state with a row for each key, and a last one for all other keys; ``keys`` is the name of the `Keys`."""

    keys: str = ""


def reduce_keyed(
    channel: Communicator, call: str, make: Callable[[], Sequence[Any]], *, timeout: float | None = None
) -> list[np.ndarray]:
    """Reduce states, some of which have rows by key, in one exchange, as `Communicator.reduce_made` does.

    ``make`` returns `Block`, `Keys` and `KeyedRows`, the same on every worker except for the number of rows; the result
    has the array, or the keys, of all workers for each. AgreementError: also for text and integer keys together.
    """
    items: Sequence[Any] = []
    if channel.world_size == 1:
        items = make()
        blocks = [each for each in items if isinstance(each, Block)]
        arrays = iter(channel.reduce(call, blocks, timeout=timeout))
        return [next(arrays) if isinstance(each, Block) else each.array.copy() for each in items]
    letter, trouble = Letter(None), None
    try:
        items = make()
        packed = pack_arrays([each.array for each in items])
        letter = Letter([_header(call, items), packed.layout], packed.buffers)
    except Exception as error:  # of any kind: the others are waiting
        trouble = error

    def decide(letters: Sequence[Letter]) -> Letter:
        return Letter(*pack_arrays(_merged(call, items, letters)))

    return unpack_arrays(*channel.consult(call, decide, *letter, timeout=timeout, trouble=trouble))


def _header(call: str, items: Sequence[Any]) -> str:
    """What must be the same on every worker, as in `fleetmetrics.comm.blocks`, with the shape of a single row."""
    entries: list[list[Any]] = []
    for each in items:
        if isinstance(each, Keys):
            entries.append([each.name, "keys", "int64", [each.limit]])
        elif isinstance(each, KeyedRows):
            how = f"{each.reduction} by {each.keys}"
            entries.append([each.name, how, str(each.array.dtype), list(each.array.shape[1:])])
        else:
            entries.append([each.name, each.reduction, str(each.array.dtype), list(each.array.shape)])
    return json.dumps([call, entries], separators=(",", ":"))


def _merged(call: str, items: Sequence[Any], letters: Sequence[Letter]) -> list[np.ndarray]:
    agreed = agree([layout_of(letter.note[0]) for letter in letters])
    columns = list(zip(*[unpack_arrays(letter.note[1], letter.payload) for letter in letters]))
    unions = {
        each.name: _Union(f"{call}, {each.name}", column, each.limit)
        for each, column in zip(items, columns)
        if isinstance(each, Keys)
    }
    result = []
    for each, column, dtype in zip(items, columns, agreed.dtypes):
        if isinstance(each, Keys):
            result.append(unions[each.name].kept)
            continue
        arrays = [array.astype(dtype, copy=False) for array in column]
        try:
            if isinstance(each, KeyedRows):
                result.append(unions[each.keys].reduced(each.reduction, arrays, [None] * len(arrays))[0])
            else:
                result.append(combine(each.reduction, arrays))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{call}, state {each.name!r}: {error}") from None
    return result


class _Union:
    """The union of all workers' keys, given by rank and sorted, of which ``limit`` are kept."""

    def __init__(self, name: str, keys: Sequence[np.ndarray], limit: int) -> None:
        kinds = ["texts" if each.dtype.kind == "U" else "integers" for each in keys]
        here = [each for each in keys if len(each)]
        if len({kind for kind, each in zip(kinds, keys) if len(each)}) > 1:
            texts = [kind if len(each) else "none" for kind, each in zip(kinds, keys)]
            raise AgreementError(f"{name}: the workers' keys differ: {by_rank(texts)}.")
        union = np.unique(np.concatenate(here)) if here else np.empty(0, np.int64)
        self.kept = union[:limit]
        self._places = [np.searchsorted(union, each) if len(each) else np.empty(0, np.int64) for each in keys]

    def reduced(
        self, reduction: str, arrays: Sequence[np.ndarray], rests: Sequence[np.ndarray | None]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The rows of the kept keys, and a last one of all others, from arrays ``[keys + 1, ...]`` by rank; and a rest.

        See `combine_exactly`; the rests are ``[words, keys + 1, ...]``.
        """
        size = len(self.kept)
        result = np.empty((size + 1, *arrays[0].shape[1:]), np.result_type(*arrays))
        left: list[tuple[int, np.ndarray]] = []
        step = max(1, _AT_ONCE // max(1, len(arrays) * result[0].nbytes))
        for start in range(0, size, step):
            stop = min(start + step, size)
            parts, more = [], []
            for places, array, rest in zip(self._places, arrays, rests):
                first, last = np.searchsorted(places, [start, stop])
                if last - first == stop - start:  # as nearly always: it has all keys
                    parts.append(array[first:last])
                    more.append(None if rest is None else rest[:, first:last])
                    continue
                parts.append(np.full((stop - start, *array.shape[1:]), identity(reduction, array.dtype)))
                parts[-1][places[first:last] - start] = array[first:last]
                words = None if rest is None else np.zeros((len(rest), stop - start, *rest.shape[2:]))
                if rest is not None and words is not None:
                    words[:, places[first:last] - start] = rest[:, first:last]
                more.append(words)
            result[start:stop], found = combine_exactly(reduction, parts, more)
            left += [] if found is None else [(start, found)]
        # the rows of each worker for keys that are not kept, and its last one
        others = [range(int(np.searchsorted(places, size)), len(places) + 1) for places in self._places]
        parts = [array[place, ...] for array, beyond in zip(arrays, others) for place in beyond]
        more = [None if r is None else r[:, place, ...] for r, beyond in zip(rests, others) for place in beyond]
        result[size], found = combine_exactly(reduction, parts, more)
        left += [] if found is None else [(size, found[:, None])]
        if not left:
            return result, None
        whole = np.zeros((max(len(each) for _, each in left), size + 1, *left[0][1].shape[2:]))
        for start, each in left:
            whole[: len(each), start : start + each.shape[1]] = each
        return result, whole


class KeyTable(State):
    """The smallest keys, up to ``limit``, that a worker has met in the column ``by``.

    A key that is among the smallest of all workers is at any time among the smallest that any worker has met: it is
    never evicted anywhere, and its rows are complete.
    """

    reduce = staticmethod(reduce_keyed)

    def __init__(self, name: str, by: str, limit: int, key: Any) -> None:
        super().__init__(name, (), "int64", "sum", key)
        self.by, self.limit = by, limit

    @property
    def known(self) -> Known:
        """The keys and their rows."""
        return _NOTHING if self.value is None else self.value

    def plan(self, column: Any) -> Plan:
        """Find the rows for samples with these keys, from `host_keys`, without changing anything; at least one."""
        keys, rows = known = self.known
        check_kind(keys, column, self.by)
        if 0 < len(keys) < 16 * len(column) and keys.dtype.kind == "i":
            # Without new keys, as nearly always, there is no need to sort.
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
        """Carry out a plan."""
        self.value = plan.known

    def read(self, scope: Any = None) -> np.ndarray:
        """All keys, sorted."""
        return self.known.keys

    def block(self, scope: Any = None) -> Keys:
        """The keys, for the exchange."""
        return Keys(self.name, self.known.keys, self.limit)

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        return {"": self.known.keys.copy()} if len(self.known.keys) else {}

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        """The smallest keys of all."""
        kept = self.union([part[self] for part in parts]).kept
        return {"": kept} if len(kept) else {}

    def union(self, saved: Sequence[Mapping[str, np.ndarray]]) -> _Union:
        """The union of keys that were saved."""
        keys = [each.get("", _NOTHING.keys) for each in saved]
        for each in keys:
            check_kind(next(filter(len, keys), each), each, self.by)
        return _Union(self.name, keys, self.limit)

    def _check(self, held: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> None:
        array = held[""] if held.keys() == {""} else np.empty(0)
        fits = array.ndim == 1 and 0 < len(array) <= self.limit and (array.dtype == np.int64 or array.dtype.kind == "U")
        if not fits or not (array[1:] > array[:-1]).all():
            raise InvalidInputError(f"{self.name} must hold rising integers or texts, at most {self.limit}")

    def load(self, held: Mapping[str, np.ndarray], scope: Any = None) -> None:
        self.value = Known(held[""], np.arange(1, len(held[""]) + 1)) if held else None


def _distinct(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values, sorted, and the place of each entry among them."""
    if column.dtype.kind == "U":
        return Coded.of(column).distinct
    values, place = np.unique(column, return_inverse=True)
    return values, place.reshape(-1)


class Rows(InPlace):
    """A copy of the state ``of`` for each key of a table, on the host; row 0 is for the samples of all other keys."""

    reduce = staticmethod(reduce_keyed)

    def __init__(self, of: State, table: KeyTable, name: str, key: Any) -> None:
        super().__init__(name, of.shape, of.declared_dtype, of.reduction, key)
        self.table = table

    def accumulate(self, directed: Directed) -> None:
        """Merge what one batch adds (None: nothing), lane by lane of a `Plan`; other rows cost no time."""
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
        """At least ``size`` rows; their number doubles if it was too small."""
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
        """Merge evicted rows into row 0, and clear them."""
        value, rows = self.value, plan.evicted
        rows = rows[rows < len(value)] if value is not None else rows[:0]
        if len(rows):
            self.remember(value, np.append(rows, 0))
            if self.rest is not None:  # what it holds of these rows is rounded away, as by any add
                self.rest = self.rest.copy()
                self.rest[:, rows[rows < self.rest.shape[1]]] = 0
            value[0] = combine(self.reduction, [value[0, ...], *[value[row, ...] for row in rows]])
            value[rows] = identity(self.reduction, value.dtype)

    def read(self, scope: Any = None) -> np.ndarray:
        """The rows in the order of the keys, that of all other keys last."""
        order = np.append(self.table.known.rows, 0)
        return self._room(int(order.max()) + 1)[order]

    def block(self, scope: Any = None) -> KeyedRows:
        """The rows, for the exchange."""
        return KeyedRows(self.name, self.reduction, self.read(), self.table.name)

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """Its rows in the order of the keys, that of all other keys last."""
        rows, rest = self.table.known.rows, self.rest
        if self.value is None and not len(rows):
            return {}
        order = np.append(rows, 0)
        if rest is not None:  # which has no rows for keys that are new
            rest = np.concatenate([rest, np.zeros((len(rest), int(order.max()) + 1, *rest.shape[2:]))], 1)[:, order]
        return held_of(self.read(), rest)

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        filled = [part for part in parts if part[self]]
        if not filled:
            return {}
        union = self.table.union([part[self.table] for part in filled])
        both = [part[self][""] for part in filled], [part[self].get(REST) for part in filled]
        return held_of(*union.reduced(self.reduction, *both))

    def check(self, held: Mapping[Any, Any], scope: Any = None) -> None:
        keys = held[self.table].get("", _NOTHING.keys)
        if held[self]:
            self._check(held[self], (len(keys) + 1, *self.shape))
        if len(keys) and not held[self]:
            raise InvalidInputError(f"{self.name} has no rows for the {len(keys)} keys of {self.table.name}")

    def load(self, held: Mapping[str, np.ndarray], scope: Any = None) -> None:
        """Hold what was `saved`; after the table of the keys."""
        self.reset()
        if held:
            self.value = np.roll(held[""], 1, axis=0)
            self.rest = np.roll(held[REST], 1, axis=1) if REST in held else None
