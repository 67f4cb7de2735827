"""The keys of slices that a worker meets, and the states with a row for each.

A slice is the samples of one key. Its lane is its index in the increments of one batch, its row that in a state. A
state gets a row for each key as the worker meets it; row 0 is for the samples of all other keys, which are one slice.
`SlicedState.read` puts the rows in the order of the keys, and row 0 last: so they are saved and exchanged, and
`fleetmetrics.comm.rows` merges those of several workers.
"""

from __future__ import annotations

import functools
import hashlib
import math
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.batch.keys import Coded, indexed, keys_of, of_one_kind
from fleetmetrics.errors import IntegerOverflowError, InvalidInputError
from fleetmetrics.numbers.reductions import REST, combine, distinct_of, held_of, identity
from fleetmetrics.serial import small
from fleetmetrics.serial.descriptions import Block, RowKeys
from fleetmetrics.state.state import InPlace, State, most_at_once, read
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.xp import Directed, Scattered, numpy_ops, to_host

if TYPE_CHECKING:
    from fleetmetrics.comm.rows import Union

__all__ = [
    "EVERY_KEY",
    "KeyKindError",
    "KeyTable",
    "Plan",
    "SlicedState",
    "TooManyKeys",
    "check_kind",
    "host_keys",
    "positions_in",
]

#: The names, in saved states, of a table's chosen keys and of the number that they were chosen from.
_CHOSEN, _CHOSEN_OF = ":chosen", ":of"
#: The bytes of rows to copy at a time, which stay in the processor's cache.
_AT_ONCE = 1 << 19


# -- keys -----------------------------------------------------------------------------------------------------


class KeyKindError(InvalidInputError):
    """Some keys are strings, and some integers."""

    unnamed: str = ""  #: the message without the name of a metric


class TooManyKeys(Exception):
    """A column has more keys than the limit, and no keys were chosen."""


def host_keys(values: Any, argument: str) -> Any:
    """Keys on the host, as `keys_of` returns them, or `Coded`; a key of 2**63 or more raises InvalidInputError."""
    keys = keys_of(values, argument)
    if keys.dtype == np.uint64:
        raise InvalidInputError(
            f"{argument} must hold integers below 2**63 or strings, one per sample, not {keys.max()}"
        )
    return keys


def check_kind(known: np.ndarray, keys: Any, argument: str) -> None:
    """Raise KeyKindError if some keys are strings, and some integers."""
    if len(known) and len(keys) and (known.dtype.kind == "U") != (keys.dtype.kind == "U"):
        kinds = ["strings" if array.dtype.kind == "U" else "integers" for array in (keys, known)]
        error = KeyKindError(f"{argument} holds {kinds[0]}, but the keys so far are {kinds[1]}; use one of the two")
        error.unnamed = str(error)
        raise error


def positions_in(known: np.ndarray, keys: Any) -> np.ndarray:
    """The positions of keys among sorted ones of their kind, ``len(known)`` for a key that is not among them."""
    if isinstance(keys, Coded):
        return positions_in(known, keys.values)[keys.codes]
    if not len(known):
        return np.zeros(len(keys), np.int64)
    position = np.searchsorted(known, keys)
    return np.where(known[np.minimum(position, len(known) - 1)] == keys, position, len(known))


class Known(NamedTuple):
    """The sorted keys of a worker, and the row of each."""

    keys: np.ndarray
    rows: np.ndarray


_NO_KEYS = Known(np.empty(0, np.int64), np.empty(0, np.int64))


class Plan(NamedTuple):
    """The changes of a `KeyTable` and its `SlicedState` objects by a batch."""

    lanes: np.ndarray  #: the lane of each sample
    rows: np.ndarray  #: the row of each lane; all are different
    known: Known  #: the keys after the batch
    evicted: np.ndarray  #: rows to merge into row 0, to make room for other keys
    samples: np.ndarray | None = None  #: the number of samples of each lane; None: not counted yet

    @property
    def adjacent(self) -> bool:
        """Whether the rows follow each other."""
        return len(self.rows) > 0 and bool((self.rows[1:] - self.rows[:-1] == 1).all())


#: The limit of a table that keeps all keys: a message that announced a longer array would be refused.
EVERY_KEY = 2**60 - 1


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
        return self.limit == EVERY_KEY

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
        return _NO_KEYS if self.value is None else self.value

    @property
    def nbytes(self) -> int:
        """The bytes of the keys and their rows."""
        return int(sum(array.nbytes for array in self.known))

    def choose(self, keys: np.ndarray, of: int) -> None:
        """Give rows to these keys alone, sorted; ``of`` is the number of all keys."""
        self.chosen, self.chosen_of = keys, of

    def _check_number(self, keys: int) -> None:
        if self.most is not None and keys > self.most:
            raise TooManyKeys(self.by)

    def plan(self, column: Any) -> Plan:
        """The plan for the keys of at least one sample, as `host_keys` returned them; changes nothing."""
        known, chosen = self.known, _NO_KEYS.keys if self.chosen is None else self.chosen
        (keys, column, chosen), rows = of_one_kind([known.keys, column, chosen]), known.rows
        check_kind(keys if len(keys) else chosen, column, self.by)
        wide = 0 < len(keys) < 16 * len(column) and keys.dtype.kind == "i" and keys[-1] - keys[0] >= 4 * len(column)
        if wide:  # there are usually no new keys, and no need to sort
            positions = positions_in(keys, column)
            met = np.zeros(len(keys) + 1, bool)
            met[positions] = True
            if not met[-1]:
                return Plan((np.cumsum(met) - 1)[positions], rows[met[:-1]], known, rows[:0])
        known, evicted = Known(keys, rows), rows[:0]
        values, place, codes = indexed(column)
        positions = positions_in(keys, values)
        new = values[positions == len(keys)]
        if self.chosen is not None:
            new = new[positions_in(chosen, new) < len(chosen)]
        elif len(keys) == self.limit:
            new = new[new < keys[-1]]
        if len(new):
            known, evicted = self._with(known, new)
            positions = positions_in(known.keys, values)
        row_of_lane, lanes = np.unique(np.append(known.rows, 0)[positions], return_inverse=True)
        lanes, samples = lanes.reshape(-1)[place], None
        if isinstance(column, Coded):
            samples = np.bincount(lanes, column.numbers, len(row_of_lane)).astype(np.int64)
        codes = codes.astype(np.int64, copy=False)  # NumPy takes twice the time for indices of 32 bits
        return Plan(lanes[codes], row_of_lane, known, evicted, samples)

    def _with(self, known: Known, new: np.ndarray) -> tuple[Known, np.ndarray]:
        """The keys with new ones among them, and the rows of those that are now beyond the limit."""
        keys, rows = known
        self._check_number(len(keys) + len(new))
        keys = np.concatenate([keys, new]) if len(keys) else new
        order = np.argsort(keys, kind="stable")
        rows = np.append(rows, np.full(len(new), -1))[order]
        keys, rows, evicted = keys[order][: self.limit], rows[: self.limit], rows[self.limit :]
        evicted = evicted[evicted >= 0]
        return Known(keys, _filled(rows, len(rows) + len(evicted))), evicted

    def accumulate(self, plan: Plan) -> None:
        """Carry out a plan."""
        self.value = plan.known

    def read(self, scope: Any = None) -> np.ndarray:
        """All keys, sorted."""
        return self.known.keys

    def block(self, scope: Any = None) -> RowKeys:
        """The keys; all workers get their union."""
        return RowKeys(self.called, self.known.keys, self.limit)

    def reset(self, scope: Any = None) -> None:
        super().reset(scope)
        self.chosen, self.chosen_of = None, 0

    # -- merging and checkpoints

    def extended(self, others: Sequence[KeyTable]) -> tuple[Known, list[np.ndarray]] | None:
        """The union with the keys of others, and the rows for theirs; its own rows stay. None: too many keys."""
        choices = [None if table.chosen is None else table.chosen.tolist() for table in (self, *others)]
        if any(choice != choices[0] for choice in choices):
            return None
        columns = of_one_kind([self.known.keys, *(other.known.keys for other in others)])
        if all(np.array_equal(keys, columns[0]) for keys in columns):  # the parts met the same keys
            return self.known, [self.known.rows for _ in others]
        if len({keys.dtype.kind for keys in columns if len(keys)}) > 1:
            return None
        union = distinct_of(np.concatenate([keys for keys in columns if len(keys)] or columns))
        self._check_number(len(union))
        if len(union) > self.limit:
            return None
        rows = np.full(len(union), -1)
        rows[positions_in(union, columns[0])] = self.known.rows
        rows = _filled(rows, len(union))
        return Known(union, rows), [rows[positions_in(union, keys)] for keys in columns[1:]]

    def taking_up(self, others: Sequence[Any]) -> Callable[[], None] | None:
        extended = self.extended(others)
        return None if extended is None else functools.partial(setattr, self, "value", extended[0])

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        keys = {"": self.known.keys.copy()} if len(self.known.keys) else {}
        return keys if self.chosen is None else {**keys, _CHOSEN: self.chosen, _CHOSEN_OF: np.array([self.chosen_of])}

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        """The smallest keys of all; of chosen keys, those chosen by all parts with a choice."""
        saved = [part[self] for part in parts]
        kept, chosen = self.union(saved).kept, _in_all(saved)
        self._check_number(len(kept))
        keys = {"": kept} if len(kept) else {}
        if chosen is None:
            return keys
        choices = [(held.get(_CHOSEN, chosen[:0]).tolist(), held.get(_CHOSEN_OF, [0])[0]) for held in saved]
        chosen_of = choices[0][1] if choices.count(choices[0]) == len(choices) else 0
        return {**keys, _CHOSEN: chosen, _CHOSEN_OF: np.array([chosen_of])}

    def union(self, saved: Sequence[Mapping[str, np.ndarray]]) -> Union:
        """The union of keys that were saved."""
        from fleetmetrics.comm.rows import Union

        columns = of_one_kind([held.get("", _NO_KEYS.keys) for held in saved])
        for keys in columns:
            check_kind(next(filter(len, columns), keys), keys, self.by)
        return Union(self.name, columns, self.limit, _in_all(saved))

    def _check(self, held: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> None:
        chosen_of = held.get(_CHOSEN_OF, np.zeros(1, np.int64))
        if chosen_of.shape != (1,) or chosen_of.dtype != np.int64:
            raise InvalidInputError(f"{self.name} must have the number of keys that they were chosen from")
        for name, keys in held.items():
            if name == _CHOSEN_OF:
                continue
            fits = keys.ndim == 1 and len(keys) <= self.limit and (keys.dtype == np.int64 or keys.dtype.kind == "U")
            fits = fits and name in ("", _CHOSEN) and (len(keys) > 0 or name == _CHOSEN)
            if not fits or not (keys[1:] > keys[:-1]).all():
                raise InvalidInputError(f"{self.name} must hold increasing integers or strings, at most {self.limit}")

    def load(self, held: Mapping[str, np.ndarray], scope: Any = None) -> None:
        keys = held.get("", _NO_KEYS.keys)
        self.value = Known(keys, np.arange(1, len(keys) + 1)) if len(keys) else None
        self.chosen, self.chosen_of = held.get(_CHOSEN), int(held.get(_CHOSEN_OF, [0])[0])


def _filled(rows: np.ndarray, most: int) -> np.ndarray:
    """The rows, with the first free ones of 1 to ``most`` in place of -1."""
    free = np.setdiff1d(np.arange(1, most + 1), rows)
    rows[rows < 0] = free[: np.count_nonzero(rows < 0)]
    return rows


def _in_all(saved: Sequence[Mapping[str, np.ndarray]]) -> np.ndarray | None:
    """The keys with rows in all parts; None: all keys. A part with chosen keys has merged all other rows."""
    chosen = of_one_kind([held[_CHOSEN] for held in saved if _CHOSEN in held])
    return functools.reduce(np.intersect1d, chosen) if chosen else None


# -- rows -----------------------------------------------------------------------------------------------------


class SlicedState(InPlace):
    """A copy of the state ``of`` for each key of a table, on the host, and for the samples of all other keys."""

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
            held["value"] = small(_wide(held["value"]))
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
        self._evict(plan.evicted)
        if increment is None:
            return
        if isinstance(increment, Scattered):
            self._scatter_into_rows(plan, increment)
            return
        rows = _wide(self._with_row(int(plan.rows.max(initial=0))))
        merged = numpy_ops.merge(self.reduction, rows[plan.rows], read(increment))
        rows = rows.astype(np.result_type(rows, merged), copy=False)
        self.remember(rows, plan.rows)
        rows[plan.rows] = merged
        self.value = rows

    def _scatter_into_rows(self, plan: Plan, increment: Scattered) -> None:
        amount = None if increment.amount is None else to_host(increment.amount)
        increment = Scattered(tuple(map(to_host, increment.indices)), amount)
        rows = self._counting(plan, increment)
        sums = self._by_lane(plan, increment)
        if sums is None:
            self.value = self._scattered(rows, plan, increment)
            return
        self.remember(rows, plan.rows)
        self.value = rows = rows.astype(np.result_type(rows, sums), copy=False) if amount is not None else rows
        rows[plan.rows] += sums

    def _counting(self, plan: Plan, increment: Scattered) -> np.ndarray:
        """The rows for a batch's increment: of 32 bits while they count few enough samples, each as 1."""
        if self.value is None and self.dtype == "int64" and self.reduction == "sum":
            self.value, self._most = np.zeros((0, *self.shape), np.int32), 0
        rows = self._with_row(int(plan.rows.max(initial=0)))
        if rows.dtype != np.int32:
            return rows
        self._most += increment.indices[0].size
        return rows if increment.amount is None and self._most < 2**31 else _wide(rows)

    def _scattered(self, rows: np.ndarray, plan: Plan, increment: Scattered) -> np.ndarray:
        """The rows after adding to a few of their entries."""
        (lanes, *inner), amount = increment
        if np.ndim(amount) == 2 or not plan.adjacent:
            if len(inner) == 1 < len(self.shape):
                inner = [*np.unravel_index(inner[0], self.shape)]
            return self.scatter(rows, Scattered((plan.rows[lanes], *inner), amount))
        rows = rows if amount is None else rows.astype(np.result_type(rows, amount), copy=False)
        touched = rows[plan.rows[0] : plan.rows[-1] + 1]
        if len(increment.indices) == 2:
            touched = touched.reshape(len(touched), -1)
        result = self.scatter(touched, increment)
        if result is not touched:
            self.remember(rows, plan.rows)
            rows[plan.rows] = result.reshape(len(plan.rows), *self.shape)
        return rows

    def _by_lane(self, plan: Plan, increment: Scattered) -> np.ndarray | None:
        """The increment of each lane; None if most of it would be zeros, or if it has replicates."""
        indices, amount = increment
        if amount is None and len(indices) == 1 and indices[0] is plan.lanes and plan.samples is not None:
            return plan.samples
        width = math.prod(self.shape)
        samples, size = indices[0].size, len(plan.rows) * width
        if any(index.ndim != 1 for index in indices) or np.ndim(amount) > 1 or size > most_at_once(samples, amount):
            return None
        flat: Any = indices[0]
        if len(indices) > 1:
            flat = flat * width
            for axis, index in enumerate(indices[1:], 1):
                stride = math.prod(self.shape[axis:]) if len(indices) > 2 else 1
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
        return sums.reshape(len(plan.rows), *self.shape)

    def _with_row(self, row: int) -> np.ndarray:
        """The rows up to this one, at least; their number doubles if it was too small."""
        value = self.value
        if value is not None and len(value) > row:
            return value
        size = max(row + 1, 8, 0 if value is None else 2 * len(value))
        dtype = np.dtype(self.dtype) if value is None else value.dtype
        nothing = 0 if self.reduction == "sum" else identity(self.reduction, dtype)
        rows = np.zeros((size, *self.shape), dtype) if not nothing else np.full((size, *self.shape), nothing)
        if value is not None:
            rows[: len(value)] = value
        return rows

    def _evict(self, evicted: np.ndarray) -> None:
        """Merge evicted rows into row 0, and clear them."""
        value = self.value
        evicted = evicted[evicted < len(value)] if value is not None else evicted[:0]
        if not len(evicted):
            return
        total = combine(self.reduction, [_wide(value[row, ...]) for row in (0, *evicted)], "all other keys")
        if value.dtype == np.int32:
            self._most = max(self._most, int(total.max(initial=0)))
            if self._most >= 2**31:
                self.value = value = _wide(value)
        self.remember(value, np.append(evicted, 0))
        if self.rest is not None:  # round the previous sums of these rows, as any add does
            self.rest = self.rest.copy()
            self.rest[:, evicted[evicted < self.rest.shape[1]]] = 0
        value[0] = total
        value[evicted] = identity(self.reduction, _wide(value[:0]).dtype)

    @property
    def _sorted_rows(self) -> np.ndarray:
        """The rows in the order of the keys, that of all other keys last."""
        return np.append(self.table.known.rows, 0)

    def read(self, scope: Any = None) -> np.ndarray:
        """The rows in the order of the keys, that of all other keys last."""
        order = self._sorted_rows
        rows = self._with_row(int(order.max()))
        result = np.empty((len(order), *self.shape), _wide(rows[:0]).dtype)
        step = max(1, _AT_ONCE * len(order) // max(1, result.nbytes))
        for start in range(0, len(order), step):  # widening all narrow rows at once would copy them first
            result[start : start + step] = rows[order[start : start + step]]
        return result

    def block(self, scope: Any = None) -> Block:
        """The rows, with the keys to which they belong."""
        block = Block(self.name, self.reduction, self.read(), self.table.called)
        block.fresh = True
        return block

    # -- merging and checkpoints

    def taking_up(self, others: Sequence[Any]) -> Callable[[], None] | None:
        arrays = [state.value for state in (self, *others) if state.value is not None]
        if self.reduction != "sum" or self.rest is not None or any(other.rest is not None for other in others):
            return None
        most = sum(int(rows.max(initial=0)) for rows in arrays)
        counts = all(rows.dtype == np.int32 or (rows.dtype.kind == "i" and rows.min(initial=0) >= 0) for rows in arrays)
        if not counts or most >= 2**31:
            return None
        extended = self.table.extended([other.table for other in others])
        if extended is None:
            return None
        known, rows_of_others = extended

        def take_up() -> None:
            rows = self._with_row(int(known.rows.max(initial=0)))
            self._most = most
            for other, into in zip(others, rows_of_others):
                if other.value is not None:
                    its = other.table.known.rows
                    if np.array_equal(its, into) and np.array_equal(its, np.arange(1, len(its) + 1)):
                        rows[1 : len(its) + 1] += other.value[1 : len(its) + 1]  # the parts met the same keys
                    else:
                        rows[into] += other.value[its]
                    rows[0] += other.value[0]
            self.value = rows

        return take_up if arrays else None

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """What `read` returns, with the rest."""
        order, rest = self._sorted_rows, self.rest
        if self.value is None and len(order) == 1:
            return {}
        if rest is not None:  # it has no rows for new keys
            rest = np.concatenate([rest, np.zeros((len(rest), int(order.max()) + 1, *rest.shape[2:]))], 1)[:, order]
        return held_of(self.read(), rest)

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        filled = [part for part in parts if part[self]]
        if not filled:
            return {}
        union = self.table.union([part[self.table] for part in filled])
        arrays, rests = [part[self][""] for part in filled], [part[self].get(REST) for part in filled]
        try:
            return held_of(*union.reduced(self.reduction, arrays, rests, "what is merged"))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{self.name}: {error}") from None

    def check(self, held: Mapping[Any, Any], scope: Any = None) -> None:
        keys = held[self.table].get("", _NO_KEYS.keys)
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
            position = np.empty(len(held[""]), np.int64)  # of each row among the saved ones
            position[self._sorted_rows] = np.arange(len(position))
            self.value = held[""][position]
            self.rest = held[REST][:, position] if REST in held else None


def _wide(rows: np.ndarray) -> np.ndarray:
    """Rows of 64 bits."""
    return rows.astype(np.int64) if rows.dtype == np.int32 else rows
