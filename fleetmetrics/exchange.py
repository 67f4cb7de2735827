"""The exchange: local states in, global ones out, one packed message for everything that a call needs.

States that have a row for each key are special, since every worker has met other keys. Rank 0 finds the keys of all
workers, reduces the rows that are of one key, and answers everybody. As many keys are kept as the metric allows, the
smallest ones; the rows of the others become one. So the result does not depend on which worker has met which key.
"""

from __future__ import annotations

import json
from typing import Any, Callable, NamedTuple, Sequence, Union

import numpy as np

from fleetmetrics.comm import Block, Communicator
from fleetmetrics.comm.columns import by_rank
from fleetmetrics.comm.letters import Letter, joined
from fleetmetrics.comm.packing import agree, layout_of
from fleetmetrics.errors import AgreementError, IntegerOverflowError
from fleetmetrics.numbers import combine, identity
from fleetmetrics.records.arrays import pack_arrays, unpack_arrays

__all__ = ["Item", "KeyedRows", "Keys", "reduce_keyed"]

#: So many bytes of rows, of all workers together, are reduced at a time.
_AT_ONCE = 32 << 20


class Keys(NamedTuple):
    """The keys of the rows.

    Args:
        name: how errors call them.
        values: integers or texts, sorted, each once.
        limit: how many are kept.
    """

    name: str
    values: np.ndarray
    limit: int


class KeyedRows(NamedTuple):
    """A state with a row for each key, and one more, the last, for the samples of keys that were not kept.

    Args:
        block: name, reduction and array.
        keys: the name of its `Keys`.
    """

    block: Block
    keys: str


Item = Union[Block, Keys, KeyedRows]


def reduce_keyed(
    channel: Communicator, call: str, make: Callable[[], Sequence[Item]], *, timeout: float | None = None
) -> list[np.ndarray]:
    """Reduce states, some of which have rows by key, in one exchange; else as `Communicator.reduce_made`.

    Args:
        channel: the workers' communicator.
        call: what is computed, the same on every worker; errors quote it.
        make: returns the states; names, reductions and shapes must be the same on every worker, but for the number of
            rows.
        timeout: seconds to wait; None for FLEETMETRICS_TIMEOUT or half an hour.

    Returns:
        For every item the array, or the keys, of all workers.

    Raises:
        AgreementError: if the workers' calls or items differ, or some have texts and some integers as keys.
        FleetMetricsError: as `Communicator.reduce` does.
    """
    items: Sequence[Item] = []
    if channel.world_size == 1:
        items = make()
        blocks = [each if isinstance(each, Block) else each.block for each in items if not isinstance(each, Keys)]
        arrays = iter(channel.reduce(call, blocks, timeout=timeout))
        return [each.values.copy() if isinstance(each, Keys) else next(arrays) for each in items]
    trouble: Exception | None = None
    note: Any = None
    buffers: Any = b""
    try:
        items = make()
        packed = pack_arrays([_array(each) for each in items])
        note, buffers = [_header(call, items), packed.layout], packed.buffers
    except Exception as error:  # whatever it is: the others are waiting
        trouble = error

    def decide(letters: Sequence[Letter]) -> Letter:
        merged = pack_arrays(_merged(call, items, letters))
        return Letter(merged.layout, merged.buffers)

    answer = channel.consult(call, decide, note, buffers, timeout=timeout, trouble=trouble)
    return unpack_arrays(answer.note, joined(answer.payload))


def _array(item: Item) -> np.ndarray:
    return item.values if isinstance(item, Keys) else (item.block if isinstance(item, KeyedRows) else item).array


def _header(call: str, items: Sequence[Item]) -> str:
    """What must be the same on every worker, as in `fleetmetrics.comm.packing`; of rows the shape of one."""
    entries: list[list[Any]] = []
    for each in items:
        if isinstance(each, Keys):
            entries.append([each.name, "keys", "int64", [each.limit]])
        elif isinstance(each, KeyedRows):
            array, how = each.block.array, f"{each.block.reduction} by {each.keys}"
            entries.append([each.block.name, how, str(array.dtype), list(array.shape[1:])])
        else:
            entries.append([each.name, each.reduction, str(each.array.dtype), list(each.array.shape)])
    return json.dumps([call, entries], separators=(",", ":"))


def _merged(call: str, items: Sequence[Item], letters: Sequence[Letter]) -> list[np.ndarray]:
    agreed = agree([layout_of(letter.note[0].encode()) for letter in letters])
    columns = list(zip(*[unpack_arrays(letter.note[1], joined(letter.payload)) for letter in letters]))
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
        block = each.block if isinstance(each, KeyedRows) else each
        arrays = [array.astype(dtype, copy=False) for array in column]
        try:
            if isinstance(each, KeyedRows):
                result.append(unions[each.keys].reduced(block.reduction, arrays))
            else:
                result.append(combine(block.reduction, arrays))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{call}, state {block.name!r}: {error}") from None
    return result


class _Union:
    """The keys of all workers.

    Args:
        name: for errors.
        keys: by rank, each sorted.
        limit: how many are kept.
    """

    def __init__(self, name: str, keys: Sequence[np.ndarray], limit: int) -> None:
        kinds = ["texts" if each.dtype.kind == "U" else "integers" for each in keys]
        here = [each for each in keys if len(each)]
        if len({kind for kind, each in zip(kinds, keys) if len(each)}) > 1:
            texts = [kind if len(each) else "none" for kind, each in zip(kinds, keys)]
            raise AgreementError(f"{name}: the workers' keys differ: {by_rank(texts)}.")
        union = np.unique(np.concatenate(here)) if here else np.empty(0, np.int64)
        self.kept = union[:limit]
        self._places = [np.searchsorted(union, each) if len(each) else np.empty(0, np.int64) for each in keys]

    def reduced(self, reduction: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The rows of the kept keys, and a last one of all others.

        Args:
            reduction: as in `combine`.
            arrays: by rank, int64 or float64 ``[keys + 1, ...]``, all of one dtype.
        """
        size, shape, dtype = len(self.kept), arrays[0].shape[1:], arrays[0].dtype
        result = np.empty((size + 1, *shape), dtype)
        nothing = identity(reduction, dtype)
        step = max(1, _AT_ONCE // max(1, len(arrays) * result[0].nbytes))
        for start in range(0, size, step):
            stop = min(start + step, size)
            parts = []
            for places, array in zip(self._places, arrays):
                first, last = np.searchsorted(places, [start, stop])
                part = np.full((stop - start, *shape), nothing)
                part[places[first:last] - start] = array[first:last]
                parts.append(part)
            result[start:stop] = combine(reduction, parts)
        rest = [array[place, ...] for places, array in zip(self._places, arrays) for place in _beyond(places, size)]
        result[size] = combine(reduction, rest)
        return result


def _beyond(places: np.ndarray, size: int) -> range:
    """Which rows of a worker are of keys that are not kept; its last one among them."""
    return range(int(np.searchsorted(places, size)), len(places) + 1)
