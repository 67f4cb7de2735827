"""Slicing: which samples are in which slice, and the states that have an entry for each; shared by `Sliced` metrics."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.arguments import raise_if_too_large
from fleetmetrics.batch import Batch
from fleetmetrics.batch.lanes import Groups
from fleetmetrics.errors import InvalidInputError, StaticProgramError, warn
from fleetmetrics.records.table import Table
from fleetmetrics.state import State
from fleetmetrics.wrappers.keys import KeyTable, Rows, check_kind, found_in, host_keys
from fleetmetrics.wrappers.states import Lanes
from fleetmetrics.xp import is_paddle, is_static, namespace, numpy_ops, to_host

__all__ = ["FixedSlicing", "GrowingSlicing", "Slicing"]


class Slicing:
    """What the `Sliced` metrics of a collection share that have the same settings.

    Args:
        by: the column that holds the keys.
        other: what the slice of all other keys is called.
        prefix: what the names of its states begin with.
    """

    def __init__(self, by: str, other: str, prefix: str) -> None:
        self.by = by
        self.other = other
        self.prefix = prefix
        self.shared: dict[Any, Any] = {}  # states and tables of the metrics that are sliced, by what they count
        self.tables: dict[Table, Table] = {}
        self._entries: dict[State, State] = {}
        self.samples = self.state_of(State(f"{prefix}.samples", (), "int64", "sum", "samples of the slice"))

    @property
    def kind(self) -> tuple[Any, ...]:
        """What must be equal for one slicing to stand for another."""
        raise NotImplementedError

    def fresh(self, prefix: str) -> Slicing:
        """A slicing of the same settings, without states.

        Args:
            prefix: what the names of its states begin with.
        """
        raise NotImplementedError

    def state_of(self, state: State) -> State:
        """The state that has an entry for each slice; the last one is for other keys.

        Args:
            state: of the metric that is sliced.
        """
        if state not in self._entries:
            self._entries[state] = self._new_state(state)
        return self._entries[state]

    def _new_state(self, state: State) -> State:
        raise NotImplementedError

    def _check_size(self, setting: str, keys: int, state: State) -> None:
        raise_if_too_large(setting, (keys + 1, *state.shape), f"{state.name!r} of all slices")

    def first_states(self) -> Iterable[State]:
        """The states that must be accumulated before the others."""
        return ()

    def enter(self, batch: Batch) -> tuple[Batch | None, list[tuple[State, Any]]]:
        """A batch in lanes, one for each slice that it has samples of, and what it adds to the first states.

        Args:
            batch: flat, checked.

        Returns:
            None where no sample counts, and nothing is to be added.
        """
        return batch.cached(("in slices", self), lambda: self._enter(batch))

    def _enter(self, batch: Batch) -> tuple[Batch | None, list[tuple[State, Any]]]:
        raise NotImplementedError

    def keys(self, values: Mapping[State, np.ndarray]) -> np.ndarray:
        """The keys of all workers, sorted.

        Args:
            values: the global states.
        """
        raise NotImplementedError

    def warn_of_the_rest(self, owner: str, values: Mapping[State, np.ndarray]) -> None:
        """Warn if some keys are put together because there are too many.

        Args:
            owner: the metric's name.
            values: the global states.
        """


class FixedSlicing(Slicing):
    """The slices are known: states of a fixed size, in all modes.

    Args:
        by: the column that holds the keys.
        other: what the slice of all other keys is called.
        prefix: what the names of its states begin with.
        keys: integers or texts, sorted, each once.
    """

    def __init__(self, by: str, other: str, prefix: str, keys: np.ndarray) -> None:
        self._keys = keys
        super().__init__(by, other, prefix)

    @property
    def kind(self) -> tuple[Any, ...]:
        """See `Slicing.kind`."""
        return ("sliced", self.by, self.other, tuple(self._keys.tolist()))

    def fresh(self, prefix: str) -> Slicing:
        """See `Slicing.fresh`."""
        return FixedSlicing(self.by, self.other, prefix, self._keys)

    def _new_state(self, state: State) -> State:
        self._check_size(f"keys, of which there are {len(self._keys)},", len(self._keys), state)
        return Lanes(state, len(self._keys) + 1, state.name, (*self.kind, state.key))

    def _enter(self, batch: Batch) -> tuple[Batch | None, list[tuple[State, Any]]]:
        if batch.xp.FILTERS and not len(batch.prediction):
            return None, []
        return batch.in_lanes(Groups(batch.xp, self._index(batch), len(self._keys) + 1)), []

    def _index(self, batch: Batch) -> Any:
        """The slice of each sample, int64 ``[n]``."""
        xp, column, size = batch.xp, batch.column(self.by), len(self._keys)
        if is_paddle(column) and xp is not numpy_ops:
            column = namespace(column).asarray(column, self.by)
            if xp.kind(column) == "f" or self._keys.dtype.kind == "U":
                what = "texts" if self._keys.dtype.kind == "U" else "integers"
                raise InvalidInputError(f"{self.by} must hold {what}, as keys does, one per sample, not {column.dtype}")
            keys = xp.integers(self._keys)
            place = xp.position(keys, xp.cast(column, "int64"))
            nearest = xp.minimum(place, xp.full_like(place, size - 1))
            return xp.where(xp.equal(xp.take(keys, nearest), column), place, xp.full_like(place, size))
        if is_static(batch.prediction):
            raise InvalidInputError(f"{self.by} must be a variable of the static program, not an array")
        keys = host_keys(column, self.by)
        check_kind(self._keys, keys, self.by)
        return xp.asarray(found_in(self._keys, keys), self.by)

    def keys(self, values: Mapping[State, np.ndarray]) -> np.ndarray:
        """See `Slicing.keys`."""
        return self._keys


class GrowingSlicing(Slicing):
    """The slices are found as samples come; the states are on the host.

    Args:
        by: the column that holds the keys.
        other: what the slice of all other keys is called.
        prefix: what the names of its states begin with.
        limit: how many keys are kept.
    """

    def __init__(self, by: str, other: str, prefix: str, limit: int) -> None:
        self.limit = limit
        self.table = KeyTable(f"{prefix}.keys", by, limit, ("sliced", by, other, limit))
        super().__init__(by, other, prefix)

    @property
    def kind(self) -> tuple[Any, ...]:
        """See `Slicing.kind`."""
        return ("sliced", self.by, self.other, self.limit)

    def fresh(self, prefix: str) -> Slicing:
        """See `Slicing.fresh`."""
        return GrowingSlicing(self.by, self.other, prefix, self.limit)

    def _new_state(self, state: State) -> State:
        self._check_size(f"max_keys={self.limit}", self.limit, state)
        return Rows(state, self.table, state.name, (*self.kind, state.key))

    def first_states(self) -> Sequence[State]:
        """The table of the keys."""
        return (self.table,)

    def _enter(self, batch: Batch) -> tuple[Batch | None, list[tuple[State, Any]]]:
        if is_static(batch.prediction):
            raise StaticProgramError(
                f"{self.prefix}: states that grow with the keys of {self.by} cannot live in a static program; list the "
                "keys, Sliced(..., keys=[...]); or fetch what add takes, and give it the arrays after each run"
            )
        keys = host_keys(batch.column(self.by), self.by)
        keep = None if batch.keep is None else np.asarray(to_host(batch.keep))
        counted = keys if keep is None else keys[keep]
        if not len(counted):
            return None, []
        if counted.dtype.kind == "U" and (counted == self.other).any():
            raise InvalidInputError(
                f"{self.by} holds {self.other!r}, which stands for all other keys; give Sliced another other="
            )
        plan = self.table.plan(counted)
        index = plan.lane
        if keep is not None:
            index = np.zeros(len(keys), np.int64)
            index[keep] = plan.lane
        groups = Groups(batch.xp, batch.xp.asarray(index, self.by), len(plan.lanes))
        return batch.in_lanes(groups), [(self.table, plan)]

    def keys(self, values: Mapping[State, np.ndarray]) -> np.ndarray:
        """See `Slicing.keys`."""
        return values[self.table]

    def warn_of_the_rest(self, owner: str, values: Mapping[State, np.ndarray]) -> None:
        """See `Slicing.warn_of_the_rest`."""
        samples = values[self.samples]
        if samples[-1]:
            warn(
                f"{owner}: {self.by} has more than {self.limit} keys; the {len(samples) - 1} smallest are kept, and "
                f"{samples[-1]} of {samples.sum()} samples, those of all other keys, are in {self.other!r}. Give a "
                "larger max_keys=, or the keys that matter, keys=[...]"
            )
