"""Keys of slices, and the states with a row for each key: a worker finds keys, and evicts the largest.

`fleetmetrics.comm.rows` merges the keys and rows of several workers.
"""

from __future__ import annotations

import functools
import hashlib
import math
import sys
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.batch.keys import Coded, indexed, keys_of, of_one_kind
from fleetmetrics.comm.descriptions import Block, RowKeys
from fleetmetrics.errors import IntegerOverflowError, InvalidInputError
from fleetmetrics.numbers.reductions import REST, combine, distinct_of, held_of, identity
from fleetmetrics.serial import small
from fleetmetrics.state.state import InPlace, State, most_at_once, read
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.xp import Directed, Scattered, numpy_ops, to_host

if TYPE_CHECKING:
    from fleetmetrics.comm.rows import Union

__all__ = ["KeyKindError", "KeyTable", "Known", "Plan", "Rows", "TooManyKeys", "check_kind", "found_in", "host_keys"]


def host_keys(values: Any, argument: str) -> Any:
    """Keys on the host, as `keys_of` returns them, or `Coded`; a key of 2**63 or more raises InvalidInputError."""
    array = keys_of(values, argument)
    if array.dtype == np.uint64:
        raise InvalidInputError(
            f"{argument} must hold integers below 2**63 or strings, one per sample, not {array.max()}"
        )
    return array


class KeyKindError(InvalidInputError):
    """Some keys are strings, and some integers."""

    told: str = ""  #: the message without the name of a metric


def check_kind(keys: np.ndarray, values: Any, argument: str) -> None:
    """Raise KeyKindError if some keys are strings, and some integers."""
    if len(keys) and len(values) and (keys.dtype.kind == "U") != (values.dtype.kind == "U"):
        kinds = ["strings" if each.dtype.kind == "U" else "integers" for each in (values, keys)]
        error = KeyKindError(f"{argument} holds {kinds[0]}, but the keys so far are {kinds[1]}; use one of the two")
        error.told = str(error)
        raise error


def found_in(keys: np.ndarray, values: Any) -> np.ndarray:
    """The places of values among sorted keys of their kind, ``len(keys)`` for those not found."""
    if isinstance(values, Coded):
        return found_in(keys, values.values)[values.codes]
    if not len(keys):
        return np.zeros(len(values), np.int64)
    place = np.searchsorted(keys, values)
    return np.where(keys[np.minimum(place, len(keys) - 1)] == values, place, len(keys))


class TooManyKeys(Exception):
    """A column has more keys than the limit, and no keys were chosen."""


class Known(NamedTuple):
    """The sorted keys of a worker, and the row of each in keyed states; row 0 is for all other keys."""

    keys: np.ndarray
    rows: np.ndarray


class Plan(NamedTuple):
    """The changes of a `KeyTable` and its `Rows` by a batch."""

    lane: np.ndarray  #: the lane of each sample
    lanes: np.ndarray  #: the row for each lane; all are different
    known: Known  #: the keys after the batch
    evicted: np.ndarray  #: rows to merge into row 0, to make room for other keys
    samples: np.ndarray | None = None  #: the number of samples of each lane; None: not counted yet

    @property
    def adjacent(self) -> bool:
        """Whether the lanes are merged into rows that follow each other."""
        return len(self.lanes) > 0 and bool((self.lanes[1:] - self.lanes[:-1] == 1).all())


#: The names, in saved states, of a table's chosen keys and of the number that they were chosen from.
_CHOSEN, _OF = ":chosen", ":of"
#: The bytes of rows to copy at a time, which stay in the processor's cache.
_AT_ONCE = 1 << 19
_NOTHING = Known(np.empty(0, np.int64), np.empty(0, np.int64))


class KeyTable(State):
    """The smallest keys, up to ``limit``, that a worker has met in the column ``by``.

    A key among the smallest of all workers is always among the smallest that any worker has met. So no worker evicts
    it, and its rows are complete.
    """

    by: str
    limit: int
    value: Any

    grows = True
    #: The only keys that get rows, sorted, once `choose` has set them; another table may have other keys.
    chosen: np.ndarray | None = None
    #: The number of keys that these were chosen from; 0: unknown, because parts have chosen from different keys.
    chosen_of: int = 0
    #: More keys than this raise `TooManyKeys`; None: no limit.
    most: int | None = None

    def __init__(self, name: str, by: str, limit: int, key: Any) -> None:
        super().__init__(name, (), "int64", "union", key)
        self.by, self.limit = by, limit

    @property
    def keeps_all(self) -> bool:
        """Whether it has no limit."""
        return self.limit == sys.maxsize

    def choose(self, keys: np.ndarray, of: int) -> None:
        """Give rows to these keys alone, sorted; ``of`` is the number of all keys."""
        self.chosen, self.chosen_of = keys, of

    def _check_number(self, keys: int) -> None:
        if self.most is not None and keys > self.most:
            raise TooManyKeys(self.by)

    @property
    def called(self) -> str:
        """The name among workers; they must have chosen the same keys, because row 0 has all other keys."""
        if self.chosen is None:
            return self.name
        digest = hashlib.blake2b("\0".join(map(str, self.chosen.tolist())).encode(), digest_size=8).hexdigest()
        return f"{self.name} of {len(self.chosen)} chosen keys {digest}"

    @property
    def known(self) -> Known:
        """The keys and their rows."""
        return _NOTHING if self.value is None else self.value

    @property
    def nbytes(self) -> int:
        """The bytes of the keys and their rows."""
        return int(sum(each.nbytes for each in self.known))

    def plan(self, column: Any) -> Plan:
        """Find the rows for at least one sample, from keys that `host_keys` returned, without changing anything."""
        known, chosen = self.known, _NOTHING.keys if self.chosen is None else self.chosen
        (keys, column, chosen), rows = of_one_kind([known.keys, column, chosen]), known.rows
        check_kind(keys if len(keys) else chosen, column, self.by)
        wide = 0 < len(keys) < 16 * len(column) and keys.dtype.kind == "i" and keys[-1] - keys[0] >= 4 * len(column)
        if wide:  # there are usually no new keys, and no need to sort
            where = found_in(keys, column)
            met = np.zeros(len(keys) + 1, bool)
            met[where] = True
            if not met[-1]:
                return Plan((np.cumsum(met) - 1)[where], rows[met[:-1]], known, rows[:0])
        values, place, codes = indexed(column)
        where = found_in(keys, values)
        new = values[where == len(keys)]
        if self.chosen is not None:
            new = new[found_in(chosen, new) < len(chosen)]
        elif len(keys) == self.limit:
            new = new[new < keys[-1]]
        evicted = rows[:0]
        if len(new):
            self._check_number(len(keys) + len(new))
            keys = np.concatenate([keys, new]) if len(keys) else new
            order = np.argsort(keys, kind="stable")
            rows = np.append(rows, np.full(len(new), -1))[order]
            keys, rows, evicted = keys[order][: self.limit], rows[: self.limit], rows[self.limit :]
            evicted = evicted[evicted >= 0]
            free = np.setdiff1d(np.arange(1, len(rows) + len(evicted) + 1), rows)
            rows[rows < 0] = free[: np.count_nonzero(rows < 0)]
            where = found_in(keys, values)
        lanes, lane = np.unique(np.append(rows, 0)[where], return_inverse=True)
        lane, samples = lane.reshape(-1)[place], None
        if isinstance(column, Coded):
            samples = np.bincount(lane, column.numbers, len(lanes)).astype(np.int64)
        codes = codes.astype(np.int64, copy=False)  # NumPy takes twice the time for places of 32 bits
        return Plan(lane[codes], lanes, Known(keys, rows), evicted, samples)

    def accumulate(self, plan: Plan) -> None:
        """Carry out a plan."""
        self.value = plan.known

    def read(self, scope: Any = None) -> np.ndarray:
        """All keys, sorted."""
        return self.known.keys

    def extended(self, others: Sequence[KeyTable]) -> tuple[Known, list[np.ndarray]] | None:
        """The union with the keys of others, and the rows for theirs; its own rows stay. None: too many keys."""
        choices = [None if each.chosen is None else each.chosen.tolist() for each in (self, *others)]
        if any(each != choices[0] for each in choices):
            return None
        keys = of_one_kind([self.known.keys, *(other.known.keys for other in others)])
        if all(np.array_equal(each, keys[0]) for each in keys):  # the parts met the same keys
            return self.known, [self.known.rows for _ in others]
        if len({each.dtype.kind for each in keys if len(each)}) > 1:
            return None
        union = distinct_of(np.concatenate([each for each in keys if len(each)] or keys))
        self._check_number(len(union))
        if len(union) > self.limit:
            return None
        rows = np.full(len(union), -1)
        rows[found_in(union, keys[0])] = self.known.rows
        rows[rows < 0] = np.setdiff1d(np.arange(1, len(union) + 1), self.known.rows)[: np.count_nonzero(rows < 0)]
        return Known(union, rows), [rows[found_in(union, each)] for each in keys[1:]]

    def taking_up(self, others: Sequence[Any]) -> Callable[[], None] | None:
        found = self.extended(others)
        if found is None:
            return None
        return functools.partial(setattr, self, "value", found[0])

    def block(self, scope: Any = None) -> RowKeys:
        """The keys; all workers get their union."""
        return RowKeys(self.called, self.known.keys, self.limit)

    def reset(self, scope: Any = None) -> None:
        super().reset(scope)
        self.chosen, self.chosen_of = None, 0

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        keys = {"": self.known.keys.copy()} if len(self.known.keys) else {}
        return keys if self.chosen is None else {**keys, _CHOSEN: self.chosen, _OF: np.array([self.chosen_of])}

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        """The smallest keys of all; of chosen keys, those chosen by all parts with a choice."""
        saved = [part[self] for part in parts]
        kept, chosen = self.union(saved).kept, _in_all(saved)
        self._check_number(len(kept))
        keys = {"": kept} if len(kept) else {}
        if chosen is None:
            return keys
        choices = [(each.get(_CHOSEN, chosen[:0]).tolist(), each.get(_OF, [0])[0]) for each in saved]
        return {
            **keys,
            _CHOSEN: chosen,
            _OF: np.array([choices[0][1] if choices.count(choices[0]) == len(choices) else 0]),
        }

    def union(self, saved: Sequence[Mapping[str, np.ndarray]]) -> Union:
        """The union of keys that were saved."""
        from fleetmetrics.comm.rows import Union

        keys = of_one_kind([each.get("", _NOTHING.keys) for each in saved])
        for each in keys:
            check_kind(next(filter(len, keys), each), each, self.by)
        return Union(self.name, keys, self.limit, _in_all(saved))

    def _check(self, held: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> None:
        of = held.get(_OF, np.zeros(1, np.int64))
        if of.shape != (1,) or of.dtype != np.int64:
            raise InvalidInputError(f"{self.name} must have the number of keys that they were chosen from")
        for name, array in held.items():
            if name == _OF:
                continue
            fits = array.ndim == 1 and len(array) <= self.limit and (array.dtype == np.int64 or array.dtype.kind == "U")
            fits = fits and name in ("", _CHOSEN) and (len(array) > 0 or name == _CHOSEN)
            if not fits or not (array[1:] > array[:-1]).all():
                raise InvalidInputError(f"{self.name} must hold increasing integers or strings, at most {self.limit}")

    def load(self, held: Mapping[str, np.ndarray], scope: Any = None) -> None:
        keys = held.get("", _NOTHING.keys)
        self.value = Known(keys, np.arange(1, len(keys) + 1)) if len(keys) else None
        self.chosen, self.chosen_of = held.get(_CHOSEN), int(held.get(_OF, [0])[0])


def _in_all(saved: Sequence[Mapping[str, np.ndarray]]) -> np.ndarray | None:
    """The keys with rows in all parts; None: all keys. A part with chosen keys has merged all other rows."""
    chosen = of_one_kind([each[_CHOSEN] for each in saved if _CHOSEN in each])
    return functools.reduce(np.intersect1d, chosen) if chosen else None


class Rows(InPlace):
    """A copy of the state ``of`` for each key of a table, on the host; row 0 is for the samples of all other keys."""

    value: Any

    grows = True

    #: An upper bound of the entries of rows of 32 bits.
    _most = 0

    def __init__(self, of: State, table: KeyTable, name: str, key: Any) -> None:
        super().__init__(name, of.shape, of.declared_dtype, of.reduction, key)
        self.table = table

    def __getstate__(self) -> dict[str, Any]:
        held = super().__getstate__()
        if held["value"] is not None:
            held["value"] = small(self._wide(held["value"]))
        return held

    def __setstate__(self, held: dict[str, Any]) -> None:
        value = held["value"]
        super().__setstate__(held)
        counts = value is not None and self.reduction == "sum" and value.dtype.kind == "i" and value.dtype.itemsize <= 4
        if counts and value.min(initial=0) >= 0:  # as it was before it was packed
            self.value, self._most = value.astype(np.int32), int(value.max(initial=0))

    def accumulate(self, directed: Directed) -> None:
        """Merge a batch's increment (None: nothing), lane by lane of a `Plan`; other rows cost no time.

        An increment has an index for the lane, and one for each axis of the state, or a flat one for all axes.
        """
        plan, increment = directed
        self._evict(plan)
        if increment is None:
            return
        if isinstance(increment, Scattered):
            amount = None if increment.amount is None else to_host(increment.amount)
            increment = Scattered(tuple(to_host(index) for index in increment.indices), amount)
            rows = self._counting(plan, increment)
            sums = self._by_lane(plan, increment)
            if sums is None:
                self.value = self._scattered(rows, plan, increment)
                return
            self.remember(rows, plan.lanes)
            self.value = rows = rows.astype(np.result_type(rows, sums), copy=False) if amount is not None else rows
            rows[plan.lanes] += sums
            return
        rows = self._wide(self._room(int(plan.lanes.max(initial=0)) + 1))
        merged = numpy_ops.merge(self.reduction, rows[plan.lanes], read(increment))
        rows = rows.astype(np.result_type(rows, merged), copy=False)
        self.remember(rows, plan.lanes)
        rows[plan.lanes] = merged
        self.value = rows

    def _counting(self, plan: Plan, increment: Scattered) -> np.ndarray:
        """The rows for a batch's increment: of 32 bits while they count few enough samples, each as 1."""
        if self.value is None and self.dtype == "int64" and self.reduction == "sum":
            self.value, self._most = np.zeros((0, *self.shape), np.int32), 0
        rows = self._room(int(plan.lanes.max(initial=0)) + 1)
        if rows.dtype != np.int32:
            return rows
        self._most += increment.indices[0].size
        return rows if increment.amount is None and self._most < 2**31 else self._wide(rows)

    def _wide(self, rows: np.ndarray) -> np.ndarray:
        """Rows of 64 bits."""
        return rows.astype(np.int64) if rows.dtype == np.int32 else rows

    def _scattered(self, rows: np.ndarray, plan: Plan, increment: Scattered) -> np.ndarray:
        """The rows after adding to a few of their entries."""
        (first, *rest), amount = increment
        if np.ndim(amount) == 2 or not plan.adjacent:
            if len(rest) == 1 < len(self.shape):
                rest = [*np.unravel_index(rest[0], self.shape)]
            return self.scatter(rows, Scattered((plan.lanes[first], *rest), amount))
        rows = rows if amount is None else rows.astype(np.result_type(rows, amount), copy=False)
        part = rows[plan.lanes[0] : plan.lanes[-1] + 1]
        if len(increment.indices) == 2:
            part = part.reshape(len(part), -1)
        made = self.scatter(part, increment)
        if made is not part:
            self.remember(rows, plan.lanes)
            rows[plan.lanes] = made.reshape(len(plan.lanes), *self.shape)
        return rows

    def _by_lane(self, plan: Plan, increment: Scattered) -> np.ndarray | None:
        """The increment of each lane; None if most of it would be zeros, or if it has replicates."""
        indices, amount = increment
        lanes = len(plan.lanes)
        if amount is None and len(indices) == 1 and indices[0] is plan.lane and plan.samples is not None:
            return plan.samples
        samples, size = indices[0].size, lanes * math.prod(self.shape)
        if any(index.ndim != 1 for index in indices) or np.ndim(amount) > 1 or size > most_at_once(samples, amount):
            return None
        flat: Any = indices[0]
        if len(indices) > 1:
            flat = flat * math.prod(self.shape)
            for place, index in enumerate(indices[1:], 1):
                stride = math.prod(self.shape[place:]) if len(indices) > 2 else 1
                flat += index * stride if stride > 1 else index
        if amount is not None and amount.dtype.kind != "f":
            largest = int(amount.view(np.uint64).max(initial=0))  # one pass suffices: negative numbers become huge
            if largest * samples >= 2**53:
                largest = max(abs(int(amount.max())), abs(int(amount.min())))
            if largest * samples >= 2**53:  # a float is no longer exact
                return None
            sums = np.bincount(flat, amount, size).astype(np.int64)
        else:
            sums = np.bincount(flat, amount, size)
        return sums.reshape(lanes, *self.shape)

    def _room(self, size: int) -> np.ndarray:
        """At least ``size`` rows; their number doubles if it was too small."""
        value = self.value
        if value is not None and len(value) >= size:
            return value
        size = max(size, 8, 0 if value is None else 2 * len(value))
        dtype = np.dtype(self.dtype) if value is None else value.dtype
        nothing = 0 if self.reduction == "sum" else identity(self.reduction, dtype)
        rows = np.zeros((size, *self.shape), dtype) if not nothing else np.full((size, *self.shape), nothing)
        if value is not None:
            rows[: len(value)] = value
        return rows

    def _evict(self, plan: Plan) -> None:
        """Merge evicted rows into row 0, and clear them."""
        value, rows = self.value, plan.evicted
        rows = rows[rows < len(value)] if value is not None else rows[:0]
        if len(rows):
            total = combine(self.reduction, [self._wide(value[row, ...]) for row in (0, *rows)], "all other keys")
            if value.dtype == np.int32:
                self._most = max(self._most, int(total.max(initial=0)))
                if self._most >= 2**31:
                    self.value = value = self._wide(value)
            self.remember(value, np.append(rows, 0))
            if self.rest is not None:  # round the previous sums of these rows, as any add does
                self.rest = self.rest.copy()
                self.rest[:, rows[rows < self.rest.shape[1]]] = 0
            value[0] = total
            value[rows] = identity(self.reduction, self._wide(value[:0]).dtype)

    def read(self, scope: Any = None) -> np.ndarray:
        """The rows in the order of the keys, that of all other keys last."""
        order = np.append(self.table.known.rows, 0)
        rows = self._room(int(order.max()) + 1)
        found = np.empty((len(order), *self.shape), self._wide(rows[:0]).dtype)
        step = max(1, _AT_ONCE * len(order) // max(1, found.nbytes))
        for start in range(0, len(order), step):  # widening all narrow rows at once would copy them first
            found[start : start + step] = rows[order[start : start + step]]
        return found

    def block(self, scope: Any = None) -> Block:
        """The rows, with the keys to which they belong."""
        block = Block(self.name, self.reduction, self.read(), self.table.called)
        block.fresh = True
        return block

    def taking_up(self, others: Sequence[Any]) -> Callable[[], None] | None:
        mine, parts = self.value, [other.value for other in others if other.value is not None]
        arrays = [each for each in (mine, *parts) if each is not None]
        if self.reduction != "sum" or self.rest is not None or any(other.rest is not None for other in others):
            return None
        most = sum(int(each.max(initial=0)) for each in arrays)
        counts = all(each.dtype == np.int32 or (each.dtype.kind == "i" and each.min(initial=0) >= 0) for each in arrays)
        if not counts or most >= 2**31:
            return None
        found = self.table.extended([other.table for other in others])
        if found is None:
            return None
        size = int(found[0].rows.max(initial=0)) + 1

        def take_up() -> None:
            rows = self._room(size)
            self._most = most
            for other, into in zip(others, found[1]):
                if other.value is not None:
                    own = other.table.known.rows
                    if np.array_equal(own, into) and np.array_equal(own, np.arange(1, len(own) + 1)):
                        rows[1 : len(own) + 1] += other.value[1 : len(own) + 1]  # the parts met the same keys
                    else:
                        rows[into] += other.value[own]
                    rows[0] += other.value[0]
            self.value = rows

        return take_up if arrays else None

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """The rows in the order of the keys; the row of all other keys is the last."""
        rows, rest = self.table.known.rows, self.rest
        if self.value is None and not len(rows):
            return {}
        order = np.append(rows, 0)
        if rest is not None:  # it has no rows for new keys
            rest = np.concatenate([rest, np.zeros((len(rest), int(order.max()) + 1, *rest.shape[2:]))], 1)[:, order]
        return held_of(self.read(), rest)

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        filled = [part for part in parts if part[self]]
        if not filled:
            return {}
        union = self.table.union([part[self.table] for part in filled])
        both = [part[self][""] for part in filled], [part[self].get(REST) for part in filled]
        try:
            return held_of(*union.reduced(self.reduction, *both, "what is merged"))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{self.name}: {error}") from None

    def check(self, held: Mapping[Any, Any], scope: Any = None) -> None:
        keys = held[self.table].get("", _NOTHING.keys)
        if held[self]:
            self._check(held[self], (len(keys) + 1, *self.shape))
        if len(keys) and not held[self]:
            raise InvalidInputError(
                f"{self.name} has no rows for the {counted(len(keys), 'keys')} of {self.table.name}"
            )

    def load(self, held: Mapping[str, np.ndarray], scope: Any = None) -> None:
        """Hold `saved` contents; call this after loading the table of the keys."""
        self.reset()
        if held:
            place = np.empty(len(held[""]), np.int64)  # the place of each row among the saved ones
            place[np.append(self.table.known.rows, 0)] = np.arange(len(place))
            self.value = held[""][place]
            self.rest = held[REST][:, place] if REST in held else None
