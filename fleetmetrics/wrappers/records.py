"""Slices of metrics that keep every sample: what is kept gets a further column, and each slice is folded apart."""

from __future__ import annotations

import functools
from typing import Any, Mapping

import numpy as np

from fleetmetrics.record_metric import RecordMetric
from fleetmetrics.records.table import Kept, Records, Table, joined_records
from fleetmetrics.state import State
from fleetmetrics.wrappers.keys import found_in
from fleetmetrics.wrappers.slicing import Slicing

__all__ = ["SlicedRecords", "sliced_table"]

#: The further column; no column of a metric has a space in its name.
_KEY = "slice key"


def sliced_table(table: Table) -> Table:
    """A table that also says in which slice each sample is.

    Args:
        table: of the metric that is sliced; prepares the records of each slice.
    """
    key = None if table.key is None else (table.key, "in slices")
    own = None if table.only_sorts else functools.partial(_prepared, table)
    return Table(table.name, (*table.columns, _KEY), table.order, key, own)


def _prepared(table: Table, records: Records) -> Records:
    """Prepare the records of each slice on their own, and sort them together."""
    if not len(records[_KEY]):
        return records
    keys, place = np.unique(records[_KEY], return_inverse=True)
    parts = []
    for index, key in enumerate(keys):
        part = records.taken(np.flatnonzero(place.reshape(-1) == index))
        part.pop(_KEY)
        part = table.prepare(part)
        size = next(len(column) for column in part.values() if column is not None)
        parts.append({**part, _KEY: np.full(size, key)})
    joined = joined_records(table.name, parts)
    return joined if table.order is None else joined.taken(np.argsort(joined[table.order], kind="stable"))


def with_key(kept: Kept, column: Any) -> Kept:
    """What a batch leaves behind, with the further column.

    Args:
        kept: of the metric that is sliced.
        column: the keys.
    """
    return kept._replace(records={**kept.records, _KEY: column})


class SlicedRecords:
    """Stands for a metric that keeps every sample where records are folded, and folds each slice apart.

    Args:
        metric: the one that is sliced.
        slicing: which slices there are.
    """

    def __init__(self, metric: RecordMetric, slicing: Slicing) -> None:
        self.metric = metric
        self.name = metric.name
        self.slicing = slicing
        self.table = slicing.tables.setdefault(metric.table, sliced_table(metric.table))
        self._own = {name: slicing.state_of(state) for name, state in metric.states.items()}

    @property
    def states(self) -> Mapping[str, State]:
        """What `fold` asks for."""
        return {**{f"own {name}": state for name, state in self._own.items()}, **self._first}

    @property
    def _first(self) -> dict[str, State]:
        return {f"first {place}": state for place, state in enumerate(self.slicing.first_states())}

    def start(self) -> dict[str, Any]:
        """No slice has been met."""
        return {"slices": [], "carries": []}

    def fold(self, carry: dict[str, Any], records: Records, states: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Let the metric fold what each slice has of a piece."""
        carries = dict(zip(carry["slices"], carry["carries"]))
        keys = self.slicing.keys({state: states[name] for name, state in self._first.items()})
        for place, part in records.cached(("slices", self.slicing), lambda each: _parts(each, keys)):
            own = {name: states[f"own {name}"][place, ...] for name in self._own}
            before = carries.get(place)
            carries[place] = self.metric.fold(self.metric.start() if before is None else before, part, own)
        return {"slices": list(carries), "carries": list(carries.values())}

    def carry_of(self, carry: Mapping[str, Any], place: int) -> dict[str, Any]:
        """What was made of the records of a slice.

        Args:
            carry: what was made of all.
            place: of the slice's key; the number of keys for other keys.
        """
        found = dict(zip(carry["slices"], carry["carries"]))
        return found[place] if place in found else self.metric.start()


def _parts(records: Records, keys: np.ndarray) -> list[tuple[int, Records]]:
    """The slices that a piece has samples of, by the places of their keys, and these samples."""
    index = found_in(keys, records[_KEY])
    order = np.argsort(index, kind="stable")
    places, starts = np.unique(index[order], return_index=True)
    parts = []
    for place, chosen in zip(places.tolist(), np.split(order, starts[1:])):
        part = records.taken(chosen)
        part.pop(_KEY)
        parts.append((place, part))
    return parts
