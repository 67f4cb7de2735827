"""State: a named array that a worker accumulates; and reading a value from arrays, tensors and variables."""

from __future__ import annotations

import functools
import math
import operator
import weakref
from typing import Any, Callable, ClassVar, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np
from numpy.lib import NumpyVersion

from fleetmetrics.errors import IntegerOverflowError, InvalidInputError, StaticProgramError
from fleetmetrics.numbers.moments import merged_floats
from fleetmetrics.numbers.reductions import REST, check_rest, combine_exactly, held_of, identity, sum_of_numbers, widen
from fleetmetrics.serial.descriptions import Block, RowKeys
from fleetmetrics.support.vocabulary import kind_in_words
from fleetmetrics.xp import Scattered, is_paddle, is_static, namespace, numpy_ops, together_to_host

__all__ = ["InPlace", "Lanes", "State", "accumulate_all", "blocks_of", "count_at", "most_at_once", "name_of", "read"]


#: A state of up to this number of entries is checked with every batch, a larger one when it is read.
_SHORT = 16
#: Sums of numbers below this fit into int64, or are finite.
_SAFE = 2**63
#: The number of entries to sort, to find repeated ones.
_SORTED = 2**16
#: Whether this NumPy adds quickly at repeated places: newer versions need a tenth of the time.
_QUICK_AT = NumpyVersion(np.__version__) >= "1.25.0"
#: Formulas sum the entries of histograms and matrices, and multiply them by small numbers.
_MOST_IN_ALL = 2.0**1014
#: A state of one number is Python's between batches, and moments are a list: a fifth of the time of NumPy's.
_NUMBERS = frozenset([float, int])
_ON_HOST = frozenset([*_NUMBERS, list, np.ndarray, np.float64, np.int64, type(None)])
#: Converts to a Python number: `item` of a NumPy scalar takes ten times as long.
_PLAIN = {np.float64: float, np.int64: int, float: float, int: int}


@functools.lru_cache(maxsize=256)
def _empty(shape: tuple[int, ...], dtype: str, reduction: str) -> np.ndarray:
    array = np.full(shape, identity(reduction, dtype), dtype)
    array.setflags(write=False)
    return array


class State:
    """A named array that a worker accumulates, with the reduction that merges workers.

    A state begins at its identity element, on the device of its first batch: a NumPy array, a tensor on a Paddle
    device, or a variable in a static program's scope.

    Args:
        name: its name; unique in the process once it lives in a static program.
        shape: its shape, fixed.
        dtype: ``"int64"`` or ``"float64"``; an int64 state becomes float64 when floats are added to it.
        reduction: one of `fleetmetrics.numbers.reductions.REDUCTIONS`; or another, if the class reduces by itself.
        key: names the counted quantity. In a collection, states of equal name, shape, reduction and key are one; None
            never shares.
    """

    dtype: str

    #: Whether it grows with the samples: its shape then differs between workers.
    grows: ClassVar[bool] = False
    #: The exact total of merged states minus the value, see `combine_exactly`; no `accumulate` changes it.
    rest: np.ndarray | None = None

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, reduction: str, key: Any = None) -> None:
        self.name = name
        self.shape = shape
        self.declared_dtype = self.dtype = dtype
        self.reduction = reduction
        self.key = key
        self.value: Any = None  # None: the identity
        self.static: Any = None  # the static.StaticState, once a program holds it

    @property
    def full_shape(self) -> tuple[int, ...]:
        """The shape of the whole state."""
        return self.shape

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        return int(getattr(self.value, "nbytes", 0))

    def fresh(self, name: str) -> State:
        """An empty state of the same declaration, under another name."""
        return type(self)(name, self.shape, self.declared_dtype, self.reduction, self.key)

    @property
    def kind(self) -> tuple[Any, ...]:
        """The attributes that two states must share for one to replace the other."""
        return (self.name.rpartition(".")[2], self.shape, self.reduction, self.key)

    def current(self, xp: Any = numpy_ops) -> Any:
        """The value so far, for computing: an array, a tensor, or a program's variable; made by ``xp`` if missing."""
        if self.static is not None:
            return self.static.variable
        if self.value is None:
            return xp.filled(self.shape, identity(self.reduction, self.dtype))
        if type(self.value) in _NUMBERS or type(self.value) is list:
            return np.array(self.value, np.int64 if type(self.value) is int else np.float64)
        return self.value

    def accumulate(self, increment: Any) -> None:
        """Merge a batch's increment: an array of the state's shape, or `Scattered`; for moments also a list."""
        # Most states are one number, and most batches small: checking for Paddle's values would take half of the time.
        value = self.value
        if type(value) in _NUMBERS and type(increment) in _PLAIN:
            self.value = sum_of_numbers(value, _PLAIN[type(increment)](increment))
        elif type(value) is type(increment) is list:
            self.value = merged_floats(value, increment)
        elif self.static is not None:
            from fleetmetrics import static

            static.accumulate(self.static, increment)
        elif type(value) is type(increment) is np.ndarray:
            self.value = numpy_ops.merge(self.reduction, value, increment)
        else:
            xp = namespace(value, *(increment.indices if isinstance(increment, Scattered) else [increment]))
            self.value = xp.merge(self.reduction, self.current(xp), increment)

    def mark(self) -> Any:
        """The point to which `back_to` can return."""
        return self.value

    def back_to(self, mark: Any) -> None:
        """Undo the merges after a mark."""
        self.value = mark

    def raise_if_overflown(self, value: Any = None) -> None:
        """Raise if a sum of floats is no longer finite.

        Args:
            value: the value of all workers; None: the local value, a NumPy array, which is checked if it is short.

        Raises:
            InvalidInputError: naming the state.
        """
        if value is None:
            value = self.value
            if type(value) is np.ndarray and value.size > _SHORT:
                return
            if type(value) is int or (type(value) is float and math.isfinite(value)):
                return
            if type(value) is list and all(map(math.isfinite, value)):
                return
            value = self.current()
            if not isinstance(value, (np.ndarray, np.generic)) or value.size > _SHORT:
                return
        if value.dtype.kind != "f":
            return
        if self.reduction in ("max", "min"):  # without samples it is infinite, with the opposite sign
            wrong = math.inf if self.reduction == "max" else -math.inf
            finite = bool((value != wrong).all()) if value.ndim else value.item() != wrong
        elif value.ndim == 0:
            finite = math.isfinite(value)
        elif self.reduction == "sum":
            with np.errstate(over="ignore", invalid="ignore"):
                finite = bool(abs(value.sum()) < _MOST_IN_ALL)
        else:
            finite = bool(np.isfinite(value).all())
        if not finite:
            raise InvalidInputError(
                f"{self.name} would no longer be finite: the values or weights are too large for a sum in float64, "
                "whose largest number is 1.8e308. Scale them, or leave such samples out"
            )

    def enter_program(self, name: str, dtype: str, share: bool) -> None:
        """Become the variable of a name in the program that is being built; with ``share``, one that exists."""
        from fleetmetrics import static

        self.dtype = "float64" if "float64" in (self.dtype, dtype) else "int64"
        self.static = static.create_state(name, self.full_shape, self.dtype, self.reduction, share=share)

    def read(self, scope: Any = None) -> np.ndarray:
        """The local value as an int64 or float64 array of the state's shape.

        Args:
            scope: the scope of a static program's variables; None: the global scope.

        Raises:
            StateNotFoundError: the scope does not hold it.
        """
        value = self.value
        if self.static is not None:
            return widen(self.static.read(scope), self.name).reshape(self.shape)
        if type(value) is np.ndarray:
            return value
        if type(value) in _NUMBERS or type(value) is list:
            return self.current()
        if value is None and math.prod(self.shape) <= _SHORT:
            return _empty(self.shape, self.dtype, self.reduction)
        value = self.current()
        return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else read(value).reshape(self.shape)

    def block(self, scope: Any = None) -> Block | RowKeys:
        """The local value for the exchange."""
        return Block(self.name, self.reduction, self.read(scope))

    def write(self, value: np.ndarray, scope: Any = None) -> None:
        """Replace the local value by an int64 or float64 array of the state's shape."""
        if self.static is not None:
            self.static.write(value, scope)
        else:
            self.value = value

    def reset(self, scope: Any = None) -> None:
        """Return to the identity element."""
        if self.static is not None:
            self.static.reset(scope)
        self.value = self.rest = None

    # -- checkpoints and merging: its contents as arrays, none at the identity; see `fleetmetrics.state.state_dicts`

    #: Whether a job that resumes with a different number of workers distributes the parts instead of merging them.
    dealt: ClassVar[bool] = False

    def saved(self, scope: Any = None) -> dict[str, np.ndarray]:
        """A copy of its contents."""
        filled = self.value is not None or self.static is not None
        return held_of(np.array(self._whole(scope)), self.rest) if filled else {}

    def _whole(self, scope: Any) -> np.ndarray:
        return self.read(scope)

    def taking_up(self, others: Sequence[Any]) -> Callable[[], None] | None:
        """A function that adds other contents in place, and cannot fail; None: use `together`."""
        return None

    def together(self, parts: Sequence[Mapping[Any, Any]]) -> dict[str, np.ndarray]:
        """Merge what several states, with their neighbors, have `saved`; round once."""
        return self._combined([part[self] for part in parts if part[self]])

    def _combined(self, parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        both = [part[""] for part in parts], [part.get(REST) for part in parts]
        try:
            return held_of(*combine_exactly(self.reduction, *both, "what is merged")) if parts else {}
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{self.name}: {error}") from None

    def check(self, held: Mapping[Any, Any], scope: Any = None) -> None:
        """Raise InvalidInputError if it cannot `load` its part of this, StateNotFoundError if the scope lacks it."""
        if held[self]:
            self._check(held[self], self.full_shape)
            if self.static is not None and (self._whole(scope).dtype.kind, held[self][""].dtype.kind) == ("i", "f"):
                raise InvalidInputError(f"{self.name} is int64 in its static program, but the checkpoint has floats")

    def _check(self, held: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> None:
        array = held.get("", np.empty(0, bool))
        if array.dtype not in (np.int64, np.float64) or array.shape != shape:
            raise InvalidInputError(
                f"{self.name} must be int64 or float64 of shape {list(shape)}, not {kind_in_words(array.dtype)} "
                f"{list(array.shape)}"
            )
        check_rest(self.name, self.reduction, array, held.get(REST))

    def load(self, held: Mapping[str, np.ndarray], scope: Any = None) -> None:
        """Take over `saved` contents; a static program does not store the rest."""
        if not held:
            return self.reset(scope)
        self.write(held[""], scope)
        self.rest = held.get(REST) if self.static is None else None

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickles and copies: a tensor becomes an array; the next tensor moves it back to the device."""
        if self.static is not None:
            raise StaticProgramError(
                f"{self.name} is a variable of a static program, which cannot be pickled or copied; save its values "
                "with state_dict(scope) or fleetmetrics.save(path, metric, scope=)"
            )
        from fleetmetrics.serial import small

        value = self._whole(None) if is_paddle(self.value) else self.value
        held = {**vars(self), "value": small(value) if isinstance(value, np.ndarray) else value}
        held.pop("_before", None)
        return held

    def __setstate__(self, held: dict[str, Any]) -> None:
        value = held["value"]
        wide = isinstance(value, np.ndarray) and value.dtype.kind == "i"
        vars(self).update(held, value=value.astype(np.int64) if wide else value)


def blocks_of(states: Sequence[State], scope: Any = None) -> list[Block | RowKeys]:
    """The blocks of the states for the exchange; states on a device come to the host together."""
    if any(map(operator.attrgetter("static"), states)):
        from fleetmetrics.static.scopes import Glance

        scope = Glance(scope)
    held = list(map(operator.attrgetter("value"), states))
    elsewhere = set(map(type, held)) - _ON_HOST
    if not elsewhere or all(issubclass(kind, tuple) for kind in elsewhere):  # a tuple is of keys
        return [state.block(scope) for state in states]
    try:
        for state, value in zip(states, *together_to_host([held])):
            state.value = value
        return [state.block(scope) for state in states]
    finally:
        for state, value in zip(states, held):
            state.value = value


def accumulate_all(increments: Mapping[Any, Any], look: bool) -> None:
    """Merge a batch's increments into all states and tables, or into none.

    Args:
        increments: by state or table.
        look: whether to check for overflowed sums.
    """
    sums, others = [], {}
    for state, increment in increments.items():
        plain = _PLAIN.get(type(increment))
        if plain is not None and type(state.value) in _NUMBERS:  # like most: added as by `accumulate`, but at the end
            total = state.value + plain(increment)
            if -_SAFE <= total < _SAFE:  # of floats, far from an overflow; nan is not
                sums.append((state, total))
                continue
        others[state] = increment
    if others:
        _accumulate_marked(others, look)
    for state, total in sums:
        state.value = total


def _accumulate_marked(increments: Mapping[Any, Any], look: bool) -> None:
    marks = [(state, state.mark()) for state in increments]
    try:
        for state, increment in increments.items():
            state.accumulate(increment)
            if look:
                state.raise_if_overflown()
    except Exception as error:
        for marked, mark in marks:
            marked.back_to(mark)
        if isinstance(error, IntegerOverflowError):
            raise IntegerOverflowError(f"{state.name}: {error}") from None
        raise


class _Changes(List[Tuple[Any, Any, Any]]):
    """A change: array or tensor, the entries, and their old values, or what was `_Added` to them."""


class _Added(NamedTuple):
    """Integers that were added: subtracting them takes back the change, and no old value is read for it."""

    amount: Any


class InPlace(State):
    """A state that changes in place, and keeps the old entries until the last mark is gone."""

    rest: np.ndarray | None
    _before: Callable[[], _Changes | None] = staticmethod(lambda: None)

    def mark(self) -> Any:
        """See `State.mark`."""
        before = _Changes()
        self._before = weakref.ref(before)
        return super().mark(), self.rest, before

    def back_to(self, mark: Any) -> None:
        """See `State.back_to`."""
        value, self.rest, before = mark
        for array, place, entries in reversed(before):
            if isinstance(entries, _Added):
                np.subtract.at(array.reshape(-1), _flat(array.shape, place), entries.amount)
            elif is_paddle(array):
                namespace(array).replaced(array, place, entries, None)
            else:
                array[place] = entries
        before.clear()
        super().back_to(value)

    def remember(self, array: Any, place: Any) -> None:
        """Keep entries of an array that will change; of a tensor, along its first axis."""
        before = self._before()
        if before is None:
            return
        if is_paddle(array):
            xp = namespace(array)
            entries = xp.take(array, xp.reshape(xp.asarray(place, "place"), [1]))
        else:
            entries = array[place].copy()
        before.append((array, place, entries))

    def scatter(self, array: np.ndarray, increment: Scattered) -> np.ndarray:
        """Add to a few entries of an array in place; make another array for many entries."""
        amount = increment.amount
        if amount is not None and amount.ndim == 2:
            return self._scatter_replicates(array, increment)
        flat = _flat(array.shape, increment.indices)
        if array.size <= most_at_once(flat.size, amount):
            return numpy_ops.merge("sum", array.reshape(-1), Scattered((flat,), amount)).reshape(array.shape)
        array = array if amount is None else array.astype(np.result_type(array, amount), copy=False)
        entries = array.reshape(-1)
        if amount is not None and amount.dtype.kind == "f":
            self.remember(entries, flat)
            if flat.size <= _SORTED:
                touched, place = np.unique(flat, return_inverse=True)  # the sum of the batch first: fewer roundings
                entries[touched] += np.bincount(place, amount)
                return array
            np.add.at(entries, flat, amount)
            return array
        added = entries.dtype.type(1) if amount is None else amount  # a number of another dtype takes ten times as long
        before = self._before()
        if before is not None:
            before.append((array, increment.indices, _Added(added)))  # kept anyway; flat would be one more array
        np.add.at(entries, flat, added)
        return array

    def _scatter_replicates(self, array: np.ndarray, increment: Scattered) -> np.ndarray:
        """`scatter` if each sample counts in each replicate: the samples of a cell are summed first.

        One index array has an entry by replicate, ``[r]``; the others by sample, ``[n, 1]``; the amount is ``[n, r]``.
        """
        amount, width = increment.amount, array[0].size
        cells = _flat(array.shape, [0 if index.ndim == 1 else index[:, 0] for index in increment.indices])
        start = _flat(array.shape, [index if index.ndim == 1 else 0 for index in increment.indices])
        dense = increment.indices[0].ndim == 1 and width <= len(amount)
        distinct, size = cells, width
        if not dense:
            distinct, cells = np.unique(cells, return_inverse=True)
            size = len(distinct)
        sums = np.zeros((len(start), size), "float64" if amount.dtype.kind == "f" else "int64")
        # Whole numbers are exact as floats, whose sum is much the faster one, up to 2**53.
        small = amount.dtype.kind == "f" or float(np.abs(amount).max(initial=0)) * len(amount) < 2.0**53
        for row, amounts in zip(sums, amount.T):
            if small:
                row[:] = np.bincount(cells, amounts, size)
            else:
                np.add.at(row, cells, amounts)
        if dense:
            return np.asarray(array + sums.reshape(array.shape))
        array = array.astype(np.result_type(array, sums), copy=False)
        entries, index = array.reshape(-1), start[:, None] + distinct
        self.remember(entries, index)
        entries[index] += sums
        return array


class Lanes(InPlace):
    """A state that is large compared to an increment: on the host, increments merge in place."""

    value: Any

    def accumulate(self, increment: Any) -> None:
        """Merge a batch's increment; see `State.accumulate`."""
        on_host = isinstance(increment, Scattered) and not any(map(is_paddle, increment.indices))
        if self.static is None and on_host and not is_paddle(self.value):
            self.value = self.scatter(self.current(), increment)
        else:
            super().accumulate(spread(increment) if on_host else increment)

    def write(self, value: np.ndarray, scope: Any = None) -> None:
        """Replace the local value; the array becomes this state's own."""
        super().write(np.ascontiguousarray(value).reshape(self.shape), scope)


def most_at_once(samples: int, amount: Any) -> int:
    """The largest number of entries for which adding sums to all is faster than adding sample by sample."""
    counts = amount is None or amount.dtype.kind != "f"
    return samples if counts and _QUICK_AT else 4 * samples


def count_at(entries: np.ndarray, places: np.ndarray) -> None:
    """Add 1 to an entry of a one-axis array for each of its occurrences among the places."""
    if _QUICK_AT or entries.size > 4 * places.size:
        np.add.at(entries, places, entries.dtype.type(1))  # a number of another dtype takes ten times as long
    else:
        entries += np.bincount(places, minlength=entries.size)


def _flat(shape: tuple[int, ...], indices: Sequence[Any]) -> Any:
    """The index of entries in a flat array, from one index array per axis; these broadcast."""
    flat: Any = indices[0]
    for index, size in zip(indices[1:], shape[1:]):
        flat = flat * size
        if type(flat) is type(index) is np.ndarray and flat.shape == index.shape:
            flat += index
        else:
            flat = flat + index
    return flat


def spread(increment: Scattered) -> Scattered:
    """The same, with one-axis arrays of equal length, as Paddle needs them."""
    amount = increment.amount
    arrays = [array.reshape(-1) for array in np.broadcast_arrays(*increment.indices, 1 if amount is None else amount)]
    return Scattered(tuple(arrays[:-1]), None if amount is None else arrays[-1])


def read(value: Any, scope: Any = None, argument: str = "input") -> np.ndarray:
    """The NumPy array behind an argument of a metric function.

    Args:
        value: a NumPy array or scalar, a Python number or list, a dynamic tensor on any device, a legacy
            Variable, a PIR value that has a name, a `fleetmetrics.static.StaticState`, or the name of
            a variable.
        scope: where names are looked up; None: ``paddle.static.global_scope()``.
        argument: name of the argument, for messages.

    Returns:
        An int64 or float64 array of the value's shape.

    Raises:
        StateNotFoundError: the scope has no variable of that name, or the variable has no value yet.
        InvalidInputError: the value does not hold numbers.


    Examples:
        >>> read([1, 2])
        array([1, 2])
    """
    if type(value) is np.ndarray:
        return widen(value, argument)
    name = name_of(value, argument)
    if name is not None:
        from fleetmetrics.static.scopes import Glance  # of a package it takes ten times as long

        return widen(Glance(scope).read(name, argument), argument)
    return widen(value, argument)


def name_of(value: Any, argument: str = "input") -> str | None:
    """The name of a static value in the scope; None if the value is here already."""
    if isinstance(value, str):
        return value
    if type(value) is np.ndarray:
        return None
    if hasattr(value, "is_fleetmetrics_state"):
        return str(value.name)
    if not is_static(value):
        return None
    try:
        return str(value.name)
    except (ValueError, AttributeError):  # what PIR raises
        raise InvalidInputError(
            f"{argument} is an intermediate value of a PIR program and has no name; pass a persistable state "
            "(fleetmetrics.static.create_state), or fetch it with exe.run and pass the array"
        ) from None
