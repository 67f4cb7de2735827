"""Slicing: the slice of each sample, and the states with an entry for each slice; `Sliced` metrics share them.

The records of a metric that keeps every sample get the key as an additional column; each slice is folded separately.
"""

from __future__ import annotations

import functools
import sys
from abc import ABC, abstractmethod
from typing import Any, Callable, Mapping

import numpy as np

from fleetmetrics.base.shared import Shared
from fleetmetrics.batch import Batch
from fleetmetrics.batch.keys import NULL, Coded
from fleetmetrics.batch.lanes import Groups
from fleetmetrics.errors import InvalidInputError, StaticProgramError
from fleetmetrics.records.folding import Folding
from fleetmetrics.records.table import Records, Table, joined_records
from fleetmetrics.state.state import Lanes, State
from fleetmetrics.support.checks import raise_if_too_large
from fleetmetrics.support.warning import warn
from fleetmetrics.wrappers.keyed import KeyTable, Known, Plan, Rows, check_kind, found_in, host_keys
from fleetmetrics.xp import Directed, is_paddle, is_static, namespace, numpy_ops, to_host

__all__ = ["KEY", "FixedSlicing", "GrowingSlicing", "SlicedRecords", "Slicing"]

#: The additional column of records; no column of a metric has a space in its name.
KEY = "slice key"


class Slicing(ABC):
    """The parts that `Sliced` metrics of a collection with the same settings share.

    Args:
        by: the column of the keys.
        other: the name of the slice of all other keys.
        prefix: the prefix of the names of its states.
        kept: the slices, or the number of slices to keep of those in the data.
    """

    by: str
    kept: Any
    other: str
    prefix: str
    samples: State
    shared: Shared

    kind: tuple[Any, ...]
    #: The table of keys, if slices are found in the data.
    table: KeyTable | None = None

    def __init__(self, by: str, other: str, prefix: str, kept: Any) -> None:
        self.by, self.other, self.prefix, self.kept = by, other, prefix, kept
        #: Slicings of equal kind can replace each other.
        self.kind = ("sliced", by, other, tuple(kept.tolist()) if isinstance(kept, np.ndarray) else kept)
        self.shared = Shared()  # shared by the sliced metrics
        self.tables: dict[Table, Table] = {}
        self._entries: dict[State, State] = {}
        self.samples = self.state_of(State(f"{prefix}.samples", (), "int64", "sum", "samples of the slice"))

    @abstractmethod
    def _new_state(self, state: State) -> State:
        """The state with an entry for each slice of a state."""

    @abstractmethod
    def _enter(self, batch: Batch) -> tuple[Batch, Plan | None] | None:
        """A batch in lanes, as `enter` returns it."""

    @abstractmethod
    def keys(self, values: Mapping[State, np.ndarray]) -> np.ndarray:
        """The sorted keys of all workers, from the global states."""

    def named(self, keys: np.ndarray) -> list[Any]:
        """The keys in the form of the result."""
        return keys.tolist()

    def fresh(self, prefix: str) -> Slicing:
        """A slicing of the same settings, without states."""
        return type(self)(self.by, self.other, prefix, self.kept)

    def state_of(self, state: State) -> State:
        """The state with an entry for each slice of a state; the last entry is for other keys."""
        if state not in self._entries:
            self._entries[state] = self._new_state(state)
        return self._entries[state]

    def enter(self, batch: Batch) -> tuple[Batch, Plan | None] | None:
        """A batch in lanes, one for each slice of its samples, and any plan for the table; None if no sample counts."""
        return batch.cached(("in slices", self), lambda: self._enter(batch))

    def keep_largest(self, most: int) -> None:
        """Put all slices together except the largest ones."""
        raise NotImplementedError

    @abstractmethod
    def warn_of_the_rest(self, owner: str, values: Mapping[State, np.ndarray]) -> None:
        """Warn, in the name of the metric ``owner``, if there were too many keys to keep."""


class FixedSlicing(Slicing):
    """Slices that the user gives, sorted and unique; the states have a fixed size and work in all modes."""

    kept: np.ndarray

    def _new_state(self, state: State) -> State:
        shape = (len(self.kept) + 1, *state.shape)
        setting = f"keys, of which there are {len(self.kept)},"
        raise_if_too_large(setting, shape, f"{state.name!r} of all slices")
        return Lanes(state.name, shape, state.declared_dtype, state.reduction, (*self.kind, state.key))

    def _enter(self, batch: Batch) -> tuple[Batch, Plan | None] | None:
        if batch.xp.FILTERS and not len(batch.each):
            return None
        return batch.in_lanes(Groups(batch.xp, self._index(batch), len(self.kept) + 1)), None

    def _index(self, batch: Batch) -> Any:
        """The slice of each sample, int64 ``[n]``."""
        xp, column, size = batch.xp, batch.columns[self.by], len(self.kept)
        if is_paddle(column) and xp is not numpy_ops:
            column = namespace(column).asarray(column, self.by)
            if self.kept.dtype.kind == "U":
                raise InvalidInputError(
                    f"{self.by} must hold strings, as keys does, one per sample, not {column.dtype}"
                )
            keys = xp.integers(self.kept)
            place = xp.position(keys, xp.cast(column, "int64"))
            nearest = xp.minimum(place, xp.full_like(place, size - 1))
            return xp.where(xp.equal(xp.take(keys, nearest), column), place, xp.full_like(place, size))
        if is_static(batch.each):
            raise InvalidInputError(f"{self.by} must be a variable of the static program, not an array")
        keys = host_keys(column, self.by)
        check_kind(self.kept, keys, self.by)
        return xp.asarray(found_in(self.kept, keys), self.by)

    def keys(self, values: Mapping[State, np.ndarray]) -> np.ndarray:
        return self.kept

    def warn_of_the_rest(self, owner: str, values: Mapping[State, np.ndarray]) -> None:
        """Do nothing: it keeps all requested slices."""


class GrowingSlicing(Slicing):
    """Slices found in the data; the states are on the host."""

    kept: int | None
    table: KeyTable

    def __init__(self, by: str, other: str, prefix: str, kept: int | None) -> None:
        limit = sys.maxsize if kept is None else kept
        self.table = KeyTable(f"{prefix}.keys", by, limit, ("sliced", by, other, kept))
        super().__init__(by, other, prefix, kept)

    def _new_state(self, state: State) -> State:
        if self.kept is not None:
            raise_if_too_large(f"max_keys={self.kept}", (self.kept + 1, *state.shape), f"{state.name!r} of all slices")
        return Rows(state, self.table, state.name, (*self.kind, state.key))

    def _enter(self, batch: Batch) -> tuple[Batch, Plan | None] | None:
        if is_static(batch.each):
            raise StaticProgramError(
                f"{self.prefix}: states that grow with the keys of {self.by} cannot be in a static program; list the "
                "keys, Sliced(..., keys=[...]); or fetch the inputs of add, and pass it the arrays after each run"
            )
        keys = host_keys(batch.columns[self.by], self.by)
        keep = None if batch.keep is None else np.asarray(to_host(batch.keep))
        counted = keys if keep is None else keys[keep]
        if not len(counted):
            return None
        values = counted.indexed[0] if isinstance(counted, Coded) else counted
        if values.dtype.kind == "U" and (values == self.other).any():
            raise InvalidInputError(
                f"{self.by} holds {self.other!r}, which stands for all other keys; give Sliced a different other="
            )
        plan = self.table.plan(counted)
        index = plan.lane
        if keep is not None:
            index = np.zeros(len(keys), np.int64)
            index[keep] = plan.lane
        groups = Groups(batch.xp, batch.xp.asarray(index, self.by), len(plan.lanes))
        return batch.in_lanes(groups), plan

    def keep_largest(self, most: int) -> None:
        """Keep the slices with the most samples, of equal ones those with the smallest keys; merge the others."""
        keys, rows = self.table.known
        if len(keys) <= most:
            return
        order = np.argsort(-self.samples.read()[:-1], kind="stable")
        kept, nothing = np.sort(order[:most]), np.empty(0, np.int64)
        plan = Plan(nothing, nothing, Known(keys[kept], rows[kept]), rows[order[most:]])
        for state in self._entries.values():
            state.accumulate(Directed(plan, None))
        self.table.accumulate(plan)
        self.table.choose(keys[kept], len(keys) if self.table.chosen is None else self.table.chosen_of)

    def keys(self, values: Mapping[State, np.ndarray]) -> np.ndarray:
        return values[self.table]

    def named(self, keys: np.ndarray) -> list[Any]:
        return [None if key in NULL.values() else key for key in keys.tolist()]

    def warn_of_the_rest(self, owner: str, values: Mapping[State, np.ndarray]) -> None:
        samples = values[self.samples]
        if samples[-1] and self.kept is not None:
            warn(
                f"{owner}: {self.by} has more than {self.kept} keys; the {len(samples) - 1} smallest are kept, and "
                f"{samples[-1]} of {samples.sum()} samples, those of all other keys, are in {self.other!r}. Give a "
                "larger max_keys=, or the keys that matter, keys=[...]"
            )


def _sliced_table(table: Table) -> Table:
    """A table with the slice of each sample; prepares the records of each slice as ``table`` does."""
    own = None if table.only_sorts else functools.partial(_prepared, table)
    return Table(table.name, (*table.columns, KEY), table.order, table.key, own)


def _prepared(table: Table, records: Records) -> Records:
    """Prepare the records of each slice on their own, and sort them together."""
    if not len(records[KEY]):
        return records
    keys, index = np.unique(records[KEY], return_inverse=True)
    parts = [(keys[place], table.prepare(part)) for place, part in _parts(records, index.reshape(-1))]
    return table.sorted(joined_records(table.name, [{**part, KEY: np.full(part.length, key)} for key, part in parts]))


class SlicedRecords(Folding):
    """Replaces a metric that keeps every sample in the fold, and folds each slice separately."""

    columns: tuple[str, ...]
    metric: Folding
    name: str
    slicing: Slicing
    states: dict[str, State]
    table: Table

    def __init__(self, metric: Folding, slicing: Slicing) -> None:
        self.metric, self.name, self.slicing, self.columns = metric, metric.name, slicing, metric.columns
        self.table = slicing.tables.setdefault(metric.table, _sliced_table(metric.table))
        self.states = {f"own {name}": slicing.state_of(each) for name, each in metric.states.items()}
        if slicing.table is not None:
            self.states["keys"] = slicing.table

    def start(self) -> dict[str, Any]:
        """The empty carry; others have the metric's carry of each slice, by its place among the keys or its key."""
        return {"slices": {}}

    @property
    def spreads(self) -> bool:
        """Whether each piece can be folded on another worker."""
        return self.metric.spreads

    def fold(self, carry: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Let the metric fold each slice of a piece."""
        return {"slices": {**carry["slices"], **self._each(self.metric.fold, carry, records, states)}}

    def piece(self, before: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The metric's carry of each slice of a piece."""
        return {"slices": self._each(self.metric.piece, before, records, states)}

    def ahead(self, records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
        """The metric's `ahead` for each slice of a piece."""
        told = ((place, self.metric.ahead(*each)) for place, *each in self._slices(records, states))
        return {"slices": {place: each for place, each in told if each is not None}}

    def join(self, carry: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        """Let the metric join the carries of each slice."""
        known = self.known(carry)
        joined = {place: self.metric.join(known(place), each) for place, each in later["slices"].items()}
        return {"slices": {**carry["slices"], **joined}}

    def closed(self, records: Records, states: Mapping[str, np.ndarray], totals: Any) -> dict[str, Any]:
        """Let the metric close each slice, by its key; None stands for all other keys."""
        if not records:
            return self.start()
        names, known = [*self._keys(states).tolist(), None], totals["slices"] if totals else {}
        slices = [(names[at], *each) for at, *each in self._slices(records, states)]
        return {"slices": {name: self.metric.closed(part, own, known.get(name)) for name, part, own in slices}}

    def join_closed(self, carry: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        """Join the parts of each slice, in the order of the keys."""
        known, more = carry["slices"], other["slices"]
        both = {name: self.metric.join_closed(known[name], more[name]) for name in known if name in more}
        found = {**known, **more, **both}.items()
        return {"slices": dict(sorted(found, key=lambda each: (each[0] is None, each[0])))}

    def of_closed(self, carry: dict[str, Any], states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The carries by the place of a slice among the keys of all parts; InvalidInputError for one without place."""
        places = {name: place for place, name in enumerate([*self._keys(states).tolist(), None])}
        for name in carry["slices"]:
            if name not in places:
                raise InvalidInputError(
                    f"{self.name}: {self.slicing.by} has more than {self.slicing.kept} keys in all parts together, and "
                    f"{name!r} was closed as one of those that are kept; give a larger max_keys=, or keys=[...]"
                )
        found = [(places[name], each) for name, each in carry["slices"].items()]
        return {"slices": {at: self.metric.of_closed(each, self._states_at(states, at)) for at, each in found}}

    def _keys(self, states: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.asarray(states["keys"] if "keys" in states else self.slicing.keys({}))

    def _states_at(self, states: Mapping[str, np.ndarray], place: int) -> dict[str, np.ndarray]:
        return {name: states[f"own {name}"][place, ...] for name in self.metric.states}

    def _slices(self, records: Records, states: Mapping[str, np.ndarray]) -> list[tuple[int, Records, Any]]:
        """The slices in a piece: the place of each key, its samples, and the states of the metric."""
        keys = self._keys(states)
        parts = records.cached(("slices", self.slicing), lambda each: _parts(each, found_in(keys, each[KEY])))
        return [(place, part, self._states_at(states, place)) for place, part in parts]

    def _each(
        self, make: Callable[..., Any], carry: Mapping[str, Any], records: Records, states: Mapping[str, np.ndarray]
    ) -> dict[int, Any]:
        """Call a method of the metric for each slice of a piece and its carry."""
        known = self.known(carry)
        return {place: make(known(place), *each) for place, *each in self._slices(records, states)}

    def known(self, carry: Mapping[str, Any]) -> Callable[[int], dict[str, Any]]:
        """The metric's carry, by the place of a slice among the keys; the number of keys for other keys."""
        found = carry["slices"]
        return lambda place: found[place] if place in found else self.metric.start()


def _parts(records: Records, index: np.ndarray) -> list[tuple[int, Records]]:
    """The samples of each slice, by its index."""
    order = np.argsort(index, kind="stable")
    places, starts = np.unique(index[order], return_index=True)
    parts = [(place, records.taken(chosen)) for place, chosen in zip(places.tolist(), np.split(order, starts[1:]))]
    for _, part in parts:
        part.pop(KEY)
    return parts
