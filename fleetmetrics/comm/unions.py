"""The keys of all workers, and the states with a row for each key, reduced in one exchange.

Each worker has its own keys, and sends them first, with all states unless these are large. Rank 0 computes the union
and keeps its smallest keys, so the result does not depend on which worker has met which key. The rows of all other keys
become one row.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from fleetmetrics.comm import blocks as wire
from fleetmetrics.comm.blocks import Layout, divided, read_each
from fleetmetrics.comm.descriptions import Block, Letter, RowKeys
from fleetmetrics.comm.failures import by_rank
from fleetmetrics.comm.slabs import Slab, spread
from fleetmetrics.errors import AgreementError, IntegerOverflowError, RecordError
from fleetmetrics.numbers import combine, combine_exactly, distinct_of
from fleetmetrics.serial import pack_arrays, size_of, unpack_arrays

__all__ = ["ByKey", "Union"]

#: The number of bytes of rows, over all workers, to reduce at a time once all have arrived.
_AT_ONCE = 32 << 20


class Union:
    """The union of all workers' keys, given by rank and sorted; only the ``limit`` smallest are kept.

    With ``allowed``, only these keys are kept.
    """

    sharing: int

    def __init__(self, name: str, keys: Sequence[np.ndarray], limit: int, allowed: np.ndarray | None = None) -> None:
        kinds = ["strings" if each.dtype.kind == "U" else "integers" for each in keys]
        here = [each for each in keys if len(each)]
        if len({kind for kind, each in zip(kinds, keys) if len(each)}) > 1:
            texts = [kind if len(each) else "none" for kind, each in zip(kinds, keys)]
            raise AgreementError(f"{name}: the workers' keys differ: {by_rank(texts)}.")
        union = distinct_of(np.concatenate(here)) if here else np.empty(0, np.int64)
        #: For each worker, the order in which keys that are not kept come last; None if they already do.
        self._orders: list[Any] = [None] * len(keys)
        if allowed is not None:
            union = np.intersect1d(union, allowed) if len(union) and len(allowed) else union[:0]
            self._orders = [np.argsort(~np.isin(each, union), kind="stable") for each in keys]
        self.kept: np.ndarray = union[:limit]
        #: The places of each worker's rows, with the row for all other keys.
        self.places: list[np.ndarray] = [_places(self.kept, each) for each in keys]
        if allowed is not None:
            self.places = [np.sort(places) for places in self.places]
        #: For each worker, its first row with the last place; all later rows have it, too.
        self._ends = [int(np.searchsorted(places, len(self.kept))) for places in self.places]
        #: The most rows of one worker with the last place; 0: all workers have the same keys, and all are kept.
        self.sharing = max([len(places) - end for places, end in zip(self.places, self._ends)], default=0)
        if self.sharing == 1 and {len(places) for places in self.places} == {len(self.kept) + 1}:
            self.sharing = 0

    def reduced(
        self,
        reduction: str,
        arrays: Sequence[np.ndarray],
        rests: Sequence[np.ndarray | None] | None = None,
        over: str = "",
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The rows of the kept keys, and a last row of all others, from arrays ``[keys + 1, ...]`` by rank.

        With rests, ``[words, keys + 1, ...]`` or None, also the rest of the result; see `combine_exactly`. An
        `IntegerOverflowError` names ``over``, or if that is empty the number of workers.
        """

        def merged(parts: list[np.ndarray], more: list[Any]) -> tuple[np.ndarray, np.ndarray | None]:
            if rests is None:
                return combine(reduction, parts, over), None
            return combine_exactly(reduction, parts, more, over)

        size = len(self.kept)
        orders = [None if order is None else np.append(order, len(order)) for order in self._orders]
        arrays = [array if order is None else array[order] for array, order in zip(arrays, orders)]
        if rests is not None:
            rests = [w if w is None or order is None else w[:, order] for w, order in zip(rests, orders)]
        words: list[Any] = [rest if rest is None else rest.swapaxes(0, 1) for rest in rests or [None] * len(arrays)]
        result = np.empty((size + 1, *arrays[0].shape[1:]), np.result_type(*arrays))
        left: list[tuple[int, np.ndarray]] = []
        step = max(1, _AT_ONCE // max(1, len(arrays) * result[0].nbytes))
        for start in range(0, size, step):
            stop = min(start + step, size)
            parts = [spread(reduction, array, places, start, stop) for array, places in zip(arrays, self.places)]
            more = [w if w is None else spread("sum", w, at, start, stop) for w, at in zip(words, self.places)]
            result[start:stop], found = merged(parts, [w if w is None else w.swapaxes(0, 1) for w in more])
            left += [] if found is None else [(start, found)]
        others = [(rank, row) for rank, end in enumerate(self._ends) for row in range(end, len(arrays[rank]))]
        parts = [arrays[rank][row, ...] for rank, row in others]
        more = [None if words[rank] is None else words[rank][row] for rank, row in others]
        result[size], found = merged(parts, more)
        left += [] if found is None else [(size, found[:, None])]
        if not left:
            return result, None
        whole = np.zeros((max(len(each) for _, each in left), size + 1, *left[0][1].shape[2:]))
        for start, each in left:
            whole[: len(each), start : start + each.shape[1]] = each
        return result, whole


def _places(kept: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The places of a worker's rows among those of all: of its sorted keys, then of the row for all other keys."""
    found = np.full(len(keys) + 1, len(kept))
    if len(keys) and len(kept):
        place = np.searchsorted(kept, keys)
        found[:-1] = np.where(kept[np.minimum(place, len(kept) - 1)] == keys, place, len(kept))
    return found


class ByKey:
    """The blocks of one call, some with rows by key, on their way to rank 0 and back.

    Args:
        call: the name of the call.
        layout: the layout of the blocks.
        blocks: the keys, and the states, in any order.
        most: if any worker's states have more bytes than this, they do not travel with the keys.
    """

    def __init__(self, call: str, layout: Layout, blocks: Sequence[Block | RowKeys], most: int) -> None:
        self._call, self._layout, self._blocks, self._most = call, layout, blocks, most
        self._keys = {block.name: block for block in blocks if isinstance(block, RowKeys)}
        self._states = [block for block in blocks if isinstance(block, Block)]
        self._unions: dict[str, Union] = {}  # on rank 0
        self._kept: dict[str, np.ndarray] = {}

    def letter(self) -> Letter:
        """The keys, and the states unless they are large."""
        layout = wire.with_rows(self._layout, {name: len(keys.array) for name, keys in self._keys.items()})
        large = layout.nbytes > self._most
        states = [] if large else wire.pack(layout, [block.array for block in self._states])
        return _letter(self._layout, [keys.array for keys in self._keys.values()], large, states)

    def decide(self, letters: Sequence[Letter]) -> Letter:
        """The kept keys, and the states unless some worker's are large; on rank 0."""
        heads, bodies = zip(*read_each(letters, lambda letter: divided(letter, 2)))
        layouts = read_each(heads, lambda head: wire.layout_of(head.note[0]))
        agreed = wire.agree(layouts)
        if agreed is None:
            return Letter(wire.SETTINGS_DIFFER)
        given = read_each(heads, self._keys_in)
        for (name, keys), column in zip(self._keys.items(), zip(*given)):
            self._unions[name] = Union(f"{self._call}, {name}", column, keys.limit)
        kept = {name: union.kept for name, union in self._unions.items()}
        large = any(body.note for body in bodies)
        states: list[Any] = []
        if not large:
            mine = [wire.with_rows(each, dict(zip(kept, map(len, keys)))) for each, keys in zip(layouts, given)]
            states = self._reduced(mine, _with(agreed, kept), [body.payload for body in bodies])
        sharing = [union.sharing for union in self._unions.values()]
        return _letter(agreed, list(kept.values()), [large, sharing], states)

    def hear(self, told: Letter) -> tuple[list[np.ndarray], list[Slab]]:
        """The states in rank 0's answer; or the slabs to reduce, if they are large."""
        head, body = divided(told, 2)
        self._kept = dict(zip(self._keys, self._keys_in(head)))
        whole = _with(wire.layout_of(head.note[0]), self._kept)
        large, sharing = body.note
        if not large:
            return wire.unpack(whole, body.payload), []
        size_of(sharing)
        shared = dict(zip(self._keys, sharing))
        return [], [self._slab(block, dtype, shared) for block, dtype in zip(self._states, whole.dtypes)]

    def result(self, states: Iterable[np.ndarray]) -> list[np.ndarray]:
        """The reduced states, in any shape, and the keys, in the order of the blocks."""
        given, found = iter(states), []
        for block in self._blocks:
            if isinstance(block, RowKeys):
                found.append(self._kept[block.name])
                continue
            shape = block.array.shape
            rows = (len(self._kept[block.keys]) + 1, *shape[1:]) if block.keys else shape
            found.append(next(given).reshape(rows))
        return found

    def _keys_in(self, head: Letter) -> list[np.ndarray]:
        """The keys in a letter of a worker, or of rank 0; ValueError for anything else."""
        try:
            found = unpack_arrays(head.note[1], head.payload)
        except RecordError as error:
            raise ValueError(str(error)) from None
        if len(found) != len(self._keys):
            raise ValueError(f"{len(found)} arrays of keys, but there are {len(self._keys)}")
        for array, keys in zip(found, self._keys.values()):
            fits = array.ndim == 1 and len(array) <= keys.limit and (array.dtype == np.int64 or array.dtype.kind == "U")
            if not fits or not (array[1:] > array[:-1]).all():
                raise ValueError(f"{keys.name} must hold increasing integers or strings, at most {keys.limit}")
        return found

    def _reduced(self, mine: list[Layout], whole: Layout, payloads: Sequence[Any]) -> list[Any]:
        """Reduce the states of all workers."""
        if not any(union.sharing for union in self._unions.values()):
            return wire.reduced(mine, whole, payloads)
        columns = zip(*read_each(zip(mine, payloads), lambda both: wire.unpack(*both)))
        found = []
        for block, how, dtype, column in zip(self._states, whole.reductions, whole.dtypes, columns):
            arrays = [array.astype(dtype, copy=False) for array in column]
            try:
                found.append(self._unions[block.keys].reduced(how, arrays)[0] if block.keys else combine(how, arrays))
            except IntegerOverflowError as error:
                raise IntegerOverflowError(f"{self._call}, state {block.name!r}: {error}") from None
        return wire.pack(whole, found)

    def _slab(self, block: Block, dtype: str, sharing: Mapping[str, int]) -> Slab:
        array = block.array.astype(dtype, copy=False)
        if not sharing.get(block.keys):
            return Slab.of(block.name, block.reduction, array)
        rows = array.reshape(len(array), math.prod(array.shape[1:]))
        kept, union = self._kept[block.keys], self._unions.get(block.keys)
        return Slab(
            block.name, block.reduction, rows, len(kept) + 1, _places(kept, self._keys[block.keys].array),
            sharing[block.keys], None if union is None else union.places,
        )  # fmt: skip


def _with(layout: Layout, keys: Mapping[str, np.ndarray]) -> Layout:
    return wire.with_rows(layout, {name: len(each) for name, each in keys.items()})


def _letter(layout: Layout, keys: Sequence[np.ndarray], note: Any, states: Sequence[Any]) -> Letter:
    """RowKeys and states in one, for `divided`."""
    packed = pack_arrays(keys)
    sizes = packed.nbytes, sum(map(len, states))
    return Letter([[[layout.text, packed.layout], sizes[0]], [note, sizes[1]]], [*packed.buffers, *states])
