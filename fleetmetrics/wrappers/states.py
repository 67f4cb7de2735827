"""States with lanes: one more axis in front, an entry of it per slice, per batch of a window, or per replicate."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.numbers import combine, identity
from fleetmetrics.state import State, read
from fleetmetrics.xp import Scattered, is_paddle, namespace, numpy_ops
from fleetmetrics.xp.in_place import add_at, flat_entries

__all__ = ["InPlace", "Lanes", "Place", "Ranks", "Ring", "Turn", "Undone"]


class Undone(State):
    """A state that changes in place, and remembers since the last mark what was there before."""

    _before: list[tuple[Any, Any, Any]] | None = None  # array or tensor, which entries, theirs; None: nobody has asked

    def mark(self) -> Any:
        """See `State.mark`."""
        self._before = []
        return super().mark()

    def back_to(self, mark: Any) -> None:
        """See `State.back_to`."""
        for array, place, entries in reversed(self._before or []):
            if is_paddle(array):
                namespace(array).replaced(array, place, entries, None)
            else:
                array[place] = entries
        self._before = None
        super().back_to(mark)

    def remember(self, array: Any, place: Any) -> None:
        """Remember entries that are going to change.

        Args:
            array: the one that changes in place.
            place: which entries; of a tensor one of its first axis.
        """
        if self._before is None:
            return
        if is_paddle(array):
            xp = namespace(array)
            entries = xp.take(array, xp.reshape(xp.asarray(place, "place"), [1]))
        else:
            entries = array[place].copy()
        self._before.append((array, place, entries))

    def scatter(self, array: np.ndarray, increment: Scattered) -> np.ndarray:
        """Merge an increment into an array where it lies, or make another one.

        Args:
            array: int64 or float64.
            increment: of the host; of a state that is a sum.
        """
        flat, amount = flat_entries(array.shape, increment)
        if array.size <= 4 * flat.size:
            return numpy_ops.merge("sum", array.reshape(-1), Scattered((flat,), amount)).reshape(array.shape)
        array = array if amount is None else array.astype(np.result_type(array, amount), copy=False)
        entries = array.reshape(-1)
        self.remember(entries, flat)
        add_at(entries, flat, amount)
        return array


class InPlace(Undone):
    """A state that is large against what a batch adds: on the host, an increment merges where it lies."""

    def accumulate(self, increment: Any) -> None:
        """Merge what one batch adds; see `State.accumulate`."""
        on_host = isinstance(increment, Scattered) and not any(map(is_paddle, increment.indices))
        if self.static is None and on_host and not is_paddle(self.value):
            self.value = self.scatter(self.current(), increment)
        else:
            super().accumulate(_spread(increment) if on_host else increment)

    def write(self, value: np.ndarray, scope: Any = None) -> None:
        """Replace the local value; the array becomes this state's own."""
        super().write(np.ascontiguousarray(value).reshape(self.shape), scope)


def _spread(increment: Scattered) -> Scattered:
    """The same, with arrays of one axis that are equally long, as Paddle wants them."""
    amount = increment.amount
    arrays = [each.reshape(-1) for each in np.broadcast_arrays(*increment.indices, 1 if amount is None else amount)]
    return Scattered(tuple(arrays[:-1]), None if amount is None else arrays[-1])


class Lanes(InPlace):
    """A state with a fixed number of lanes.

    Args:
        of: the state of which each lane has one.
        size: how many lanes there are.
        name: its name.
        key: what the lanes are; None: never shared.
    """

    def __init__(self, of: State, size: int, name: str, key: Any) -> None:
        super().__init__(name, (size, *of.shape), of.declared_dtype, of.reduction, key)


class Place(State):
    """How many rows a worker has added, for rows that have no ids: it numbers them.

    Args:
        name: its name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, (), "int64", "sum")

    def enter_program(self, dtype: str = "int64", share: bool = False) -> None:
        """Move into the static program that is being built, if it is not there; it is needed before the others."""
        from fleetmetrics import static

        self.static = static.create_state(self.name, (), "int64", "sum", share=True)

    def merge(self, other: State, scope: Any = None) -> None:
        """Merge the other one, of which one of both is empty.

        Raises:
            InvalidInputError: if both have numbered rows, from the same number on.
        """
        if self.read(scope) and other.read(scope):
            raise InvalidInputError(
                f"{self.name}: samples without ids are numbered on each worker, and those of two metrics of one "
                "process have the same numbers; give Bootstrap ids= to merge them"
            )
        super().merge(other, scope)


class Ranks(State):
    """The worker's rank, by which `Place` tells its rows from those of others: whether all are different.

    Args:
        name: its name.
        place: of the rows.
    """

    def __init__(self, name: str, place: Place) -> None:
        super().__init__(name, (3,), "int64", "sum")
        self.place = place
        self.rank = 0

    def read(self, scope: Any = None) -> np.ndarray:
        """How many workers there are with rows, the sum of their ranks, and that of the squares."""
        here = int(self.place.read(scope) > 0)
        return np.array([here, here * self.rank, here * self.rank**2])

    def merge(self, other: State, scope: Any = None) -> None:
        """Nothing: the rank remains."""

    @staticmethod
    def are_one(values: np.ndarray) -> bool:
        """Whether there are several workers, all of one rank.

        Args:
            values: the global state.
        """
        workers, total, squares = values.tolist()
        return workers > 1 and total**2 == workers * squares  # Cauchy and Schwarz


class Turn(State):
    """Whose turn it is in rings: how many batches a worker has added. It goes before them, and they follow it.

    Args:
        name: its name.
        size: how many places a ring has.
    """

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name, (), "int64", "sum")
        self.size = size
        self.place: Any = 0  # where this batch goes: a number, tensor or variable
        self.counts: Any = None  # whether the batch has a sample that counts: an int64; None: it surely has

    def accumulate(self, increment: Any) -> None:
        """Take the next place.

        Args:
            increment: 1; 0 if the batch has no sample that counts: then the place remains the next one's.
        """
        current = self.current()
        self.place = namespace(current).remainder(current, self.size)
        super().accumulate(increment)

    def merge(self, other: State, scope: Any = None) -> None:
        """Nothing: a place of the other one's ring is as many batches ago as in one's own."""


class Ring(Undone):
    """A state for each of the last batches; as a whole, it is worth what they make together.

    Args:
        of: the state that each batch merges into.
        turn: whose turn it is.
        name: its name.
        key: what it counts; None: never shared.
    """

    def __init__(self, of: State, turn: Turn, name: str, key: Any) -> None:
        super().__init__(name, of.shape, of.declared_dtype, of.reduction, key)
        self.turn = turn

    def accumulate(self, increment: Any) -> None:
        """Put what one batch adds into the place of the oldest.

        Args:
            increment: as in `State.accumulate`.
        """
        turn = self.turn
        if self.static is not None:
            from fleetmetrics.static.variables import replace

            replace(self.static, turn.place, increment, turn.counts)
            return
        parts = increment.indices if isinstance(increment, Scattered) else [increment]
        xp = namespace(self.value, turn.counts, *parts)
        batch: Any = np.full(self.shape, identity(self.reduction, self.dtype))
        on_host = isinstance(increment, Scattered) and not any(map(is_paddle, increment.indices))
        batch = xp.merge(self.reduction, batch, _spread(increment) if on_host else increment)
        ring = self._empty() if self.value is None else self.value
        self.remember(ring, turn.place)
        self.value = xp.replaced(ring, turn.place, batch, turn.counts)

    def enter_program(self, dtype: str, share: bool) -> None:
        """Move into the static program that is being built; see `State.enter_program`."""
        from fleetmetrics import static

        self.dtype = "float64" if "float64" in (self.dtype, dtype) else "int64"
        shape = (self.turn.size, *self.shape)
        self.static = static.create_state(self.name, shape, self.dtype, self.reduction, share=share)

    def read(self, scope: Any = None) -> np.ndarray:
        """The last batches together.

        Args:
            scope: as in `State.read`.
        """
        return combine(self.reduction, list(self.places(scope)))

    def places(self, scope: Any = None) -> np.ndarray:
        """What each place holds: an array of one more axis, in front."""
        if self.static is not None:
            ring = read(self.name, scope, "scope")
        else:
            ring = self._empty() if self.value is None else read(self.value)
        return ring.reshape(self.turn.size, *self.shape)

    def merge(self, other: State, scope: Any = None) -> None:
        """Merge place by place, the latest with the latest: as if the batches had been added side by side."""
        assert isinstance(other, Ring)
        mine, theirs = self.places(scope), other.places(scope)
        shift = self.turn.read(scope).item() - other.turn.read(scope).item()
        dtype = np.result_type(mine, theirs)
        theirs = np.roll(theirs, shift, axis=0)
        self.write(combine(self.reduction, [mine.astype(dtype), theirs.astype(dtype)]), scope)

    def _empty(self) -> np.ndarray:
        return np.full((self.turn.size, *self.shape), identity(self.reduction, self.dtype))
