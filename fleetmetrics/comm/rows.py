"""States as rows with places: those of which a worker has some rows only, and those too large for one letter.

A state by key has a row for each key of the worker, and a last row for all other keys. Each worker has its own keys,
and sends them with its states. Rank 0 computes the union and keeps its smallest keys, so the result does not depend on
which worker has met which key. A row's place is that of its key among the kept ones; the rows of all other keys share
the last place.

Large states follow in pieces, letter by letter. A letter of pieces says itself what is in it, so that rank 0 keeps
nothing between two letters.
"""

from __future__ import annotations

import functools
import json
import math
import operator
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.comm import states
from fleetmetrics.comm.failures import by_rank
from fleetmetrics.comm.letters import read_each
from fleetmetrics.comm.states import Layout, combined, pack, read_packed, unpack, with_rows
from fleetmetrics.errors import AgreementError, IntegerOverflowError
from fleetmetrics.numbers.moments import WIDTHS
from fleetmetrics.numbers.reductions import combine, combine_exactly, distinct_of, identity
from fleetmetrics.serial import described_array, size_of
from fleetmetrics.serial.descriptions import BY, KEYS, Block, Buffer, Entry, Letter, RowKeys, joined

__all__ = [
    "Slab",
    "Union",
    "letter_bytes",
    "letter_of",
    "letter_of_part",
    "parts_of",
    "put",
    "reduce_pieces",
    "reduce_states",
    "result_of",
]

#: The number of bytes of rows, over all workers, to reduce at a time once all have arrived.
_AT_ONCE = 32 << 20
#: The most bytes of a letter of pieces, and of those of all workers together, which rank 0 keeps. Measured with 16 MB:
#: letters of 2 MiB take half to two thirds of the time of letters of 512 KiB; of 4 MiB, no less.
LETTER_BYTES, LETTERS_BYTES = 2**21, 2**23
#: Rows are cut at multiples of this number: moments, whose numbers belong together, have this number or half of it.
_UNIT = 8
_ALIGNMENT = 16


def spread(reduction: str, rows: np.ndarray, places: np.ndarray, start: int, stop: int) -> np.ndarray:
    """The rows with places from one to another, all different; missing rows are at the identity."""
    first, last = np.searchsorted(places, [start, stop]).tolist()
    if last - first == stop - start:  # the usual case
        return rows[first:last]
    if reduction == "sum":
        whole = np.zeros((stop - start, *rows.shape[1:]), rows.dtype)
    else:  # their identity is not narrow
        dtype = np.float64 if rows.dtype.kind == "f" else np.int64
        whole = np.full((stop - start, *rows.shape[1:]), identity(reduction, dtype))
    whole[places[first:last] - start] = rows[first:last]
    return whole


def places_of(keys: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The places of a worker's rows among those of all: of its sorted keys, then of the row for all other keys."""
    places = np.full(len(keys) + 1, len(kept))
    if len(keys) and len(kept):
        nearest = np.searchsorted(kept, keys)
        places[:-1] = np.where(kept[np.minimum(nearest, len(kept) - 1)] == keys, nearest, len(kept))
    return places


class Union:
    """The union of all workers' keys, given by rank and sorted; only the ``limit`` smallest are kept.

    With ``allowed``, only these keys are kept.
    """

    sharing: int

    def __init__(self, name: str, keys: Sequence[np.ndarray], limit: int, allowed: np.ndarray | None = None) -> None:
        kinds = ["strings" if key.dtype.kind == "U" else "integers" for key in keys]
        here = [key for key in keys if len(key)]
        if len({kind for kind, key in zip(kinds, keys) if len(key)}) > 1:
            texts = [kind if len(key) else "none" for kind, key in zip(kinds, keys)]
            raise AgreementError(f"{name}: the workers' keys differ: {by_rank(texts)}")
        union = distinct_of(np.concatenate(here)) if here else np.empty(0, np.int64)
        #: For each worker, the order in which keys that are not kept come last; None if they already do.
        self._orders: list[Any] = [None] * len(keys)
        if allowed is not None:
            union = np.intersect1d(union, allowed) if len(union) and len(allowed) else union[:0]
            self._orders = [np.argsort(~np.isin(key, union), kind="stable") for key in keys]
        self.kept: np.ndarray = union[:limit]
        #: The places of each worker's rows, with the row for all other keys.
        self.places: list[np.ndarray] = [places_of(key, self.kept) for key in keys]
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
            result[start:stop], rest = merged(parts, [w if w is None else w.swapaxes(0, 1) for w in more])
            left += [] if rest is None else [(start, rest)]
        others = [(rank, row) for rank, end in enumerate(self._ends) for row in range(end, len(arrays[rank]))]
        parts = [arrays[rank][row, ...] for rank, row in others]
        more = [None if words[rank] is None else words[rank][row] for rank, row in others]
        result[size], rest = merged(parts, more)
        left += [] if rest is None else [(size, rest[:, None])]
        if not left:
            return result, None
        whole = np.zeros((max(len(block) for _, block in left), size + 1, *left[0][1].shape[2:]))
        for start, block in left:
            whole[: len(block), start : start + block.shape[1]] = block
        return result, whole


# One exchange: the keys of all workers, and the states unless these are large


def letter_of(layout: Layout, blocks: Sequence[Block | RowKeys]) -> Letter:
    """What a worker sends: the description of its states, its keys if there are any, and its states unless large.

    See `states.letter_of` where the layout is whole.
    """
    if not layout.by_key:
        return Letter(layout.text)
    arrays = [block.array for block in blocks if isinstance(block, Block)]
    keys = {block.name: block.array for block in blocks if isinstance(block, RowKeys)}
    whole = with_rows(layout, keys)
    large = whole.nbytes > states.CHUNK_BYTES
    return _letter_with(layout, keys, large, [] if large else pack(arrays, whole.members))


def reduce_states(letters: Sequence[Letter]) -> Letter:
    """Rank 0's answer to the workers' `letter_of`: the reduced states, unless they are large, and the kept keys."""
    if type(letters[0].note) is not str:
        return _reduce_by_key(letters)
    layouts = states.layouts_of([letter.note for letter in letters])
    agreed = states.agree(layouts)
    if agreed is None:
        return Letter(states.SETTINGS_DIFFER)
    whole = agreed.is_whole  # the shapes agree, so all workers have sent their states, or none has
    body = states.reduced(layouts, agreed, [letter.payload for letter in letters]) if whole else b""
    return Letter(None if len(layouts) == 1 else agreed.text, body)


def result_of(layout: Layout, blocks: Sequence[Block | RowKeys], answer: Letter) -> tuple[list[np.ndarray], list[Slab]]:
    """The states and keys in rank 0's answer, in the order of the blocks; large ones are empty until `put` fills them.

    Args:
        layout: this worker's.
        blocks: this worker's.
        answer: of `reduce_states`.

    Returns:
        The arrays, and the slabs that are still to be reduced.
    """
    if layout.by_key:
        return _result_by_key(blocks, answer)
    whole = layout if answer.note is None else states.layout_of(answer.note)
    slabs = [_slab(block, entry) for block, entry in zip(blocks, whole.entries)]
    return [slab.total.reshape(shape) for slab, (*_, shape) in zip(slabs, whole.entries)], slabs


def _result_by_key(blocks: Sequence[Block | RowKeys], answer: Letter) -> tuple[list[np.ndarray], list[Slab]]:
    layout, kept, (large, sharing), payload = _read(answer)
    size_of(list(sharing.values()))
    whole = with_rows(layout, kept)
    totals, entries = iter([] if large else unpack(whole, payload)), iter(whole.entries)
    arrays, slabs, places = [], [], {}
    for block in blocks if large else ():
        if isinstance(block, RowKeys) and sharing[block.name]:
            places[block.name] = places_of(block.array, kept[block.name])
    for block in blocks:
        if isinstance(block, RowKeys):
            arrays.append(kept[block.name])
            continue
        entry = next(entries)
        if large:
            slabs.append(_slab(block, entry, places.get(block.keys), sharing.get(block.keys, 0)))
        arrays.append((slabs[-1].total if large else next(totals)).reshape(entry[-1]))
    return arrays, slabs


def _reduce_by_key(letters: Sequence[Letter]) -> Letter:
    layouts, columns, large, payloads = zip(*read_each(letters, _read))
    agreed = states.agree(layouts)
    if agreed is None:
        return Letter(states.SETTINGS_DIFFER)
    unions = {
        name: Union(f"{agreed.call}, {name}", [keys[name] for keys in columns], limit)
        for name, limit in _limits_of(agreed).items()
    }
    mine = [with_rows(layout, keys) for layout, keys in zip(layouts, columns)]
    body = [] if any(large) else _reduced(agreed, unions, mine, payloads)
    sharing = {name: union.sharing for name, union in unions.items()}
    kept = {name: union.kept for name, union in unions.items()}
    return _letter_with(agreed, kept, [any(large), sharing], body)


def _letter_with(layout: Layout, keys: Mapping[str, np.ndarray], note: Any, body: Sequence[Buffer]) -> Letter:
    """Keys and states in one, for `_read`."""
    kinds, parts = [], []
    for array in keys.values():
        kinds.append([array.dtype.str, array.shape])
        parts += [array.tobytes(), bytes(-array.nbytes % _ALIGNMENT)]
    return Letter([layout.text, kinds, note], [*parts, *body])


def _read(letter: Letter) -> tuple[Layout, dict[str, np.ndarray], Any, Buffer]:
    """A worker's layout, its keys by name, its note, and its states; ValueError for anything that none sends."""
    text, kinds, note = letter.note
    layout, payload, start = states.layout_of(text), memoryview(joined(letter.payload)), 0
    limits, keys = _limits_of(layout), {}
    if len(kinds) != len(limits):
        raise ValueError(f"{len(kinds)} arrays of keys, but there are {len(limits)}")
    for (dtype, shape), (name, limit) in zip(kinds, limits.items()):
        kind, size = described_array(dtype, shape)
        keys[name] = array = np.frombuffer(payload[start : start + size], kind).copy()
        fits = (kind == np.int64 or kind.kind == "U") and [*shape] == [len(array)] and len(array) <= limit
        if not fits or not (array[1:] > array[:-1]).all():
            raise ValueError(f"{name} must hold increasing integers or strings, at most {limit}")
        start += size + -size % _ALIGNMENT
    return layout, keys, note, payload[start:]


def _limits_of(layout: Layout) -> dict[str, int]:
    """How many keys of each name are kept."""
    limits = {}
    for name, how, _, shape in layout.entries:
        if how == KEYS:
            [limits[name]] = shape
    return limits


def _reduced(
    agreed: Layout, unions: Mapping[str, Union], layouts: Sequence[Layout], payloads: Sequence[Buffer]
) -> list[Buffer]:
    """Reduce the states of all workers, some with rows by key."""
    whole = with_rows(agreed, {name: union.kept for name, union in unions.items()})
    if not any(union.sharing for union in unions.values()):
        return states.reduced(layouts, whole, payloads)
    columns = zip(*read_each(zip(layouts, payloads), lambda both: unpack(*both)))
    keys = [how.partition(BY)[2] for _, how, *_ in agreed.entries if how != KEYS]
    totals = []
    for (name, how, dtype, _), by, column in zip(whole.entries, keys, columns):
        arrays = [array.astype(dtype, copy=False) for array in column]
        try:
            totals.append(unions[by].reduced(how, arrays)[0] if by else combine(how, arrays))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{agreed.call}, state {name!r}: {error}") from None
    return pack(totals, whole.members)


# Large states, piece by piece


@dataclass(eq=False)
class Slab:
    """A large state as rows, some of which this worker has."""

    name: str
    reduction: str
    rows: np.ndarray  #: this worker's, int64 or float64, ``[rows, width]``
    total: np.ndarray  #: the reduced rows of all workers together, once all pieces have arrived
    places: np.ndarray | None  #: the places of this worker's rows, rising; None: it has all rows
    sharing: int  #: the most rows of one worker with the last place


def _slab(block: Any, entry: Entry, places: np.ndarray | None = None, sharing: int = 0) -> Slab:
    """The slab of a block; without sharing, all workers have all rows."""
    name, reduction, dtype, shape = entry
    array = block.array.astype(dtype, copy=False)
    rows = array.reshape(len(array) if sharing else -1, math.prod(shape[1:]) if sharing else WIDTHS.get(reduction, 1))
    size = shape[0] if sharing else len(rows)
    return Slab(name, reduction, rows, np.empty((size, rows.shape[1]), rows.dtype), places, max(1, sharing))


class Cut(NamedTuple):
    """What a letter says of a piece: some rows of a state, or some of the numbers of one row."""

    name: str
    reduction: str
    dtype: str
    rows: int  #: of all workers together
    width: int  #: the count of numbers of a row
    slots: int  #: how many rows a worker may have in it, with a bit for each; 0: every worker has all rows
    shared: bool  #: whether all these rows have the same place


class Piece(NamedTuple):
    """A piece, and where it lies in its slab."""

    slab: Slab
    first: int
    left: int
    cut: Cut


def letter_bytes(workers: int) -> int:
    """The most bytes of a letter of pieces, the fewer the more workers there are."""
    return min(LETTER_BYTES, max(states.CHUNK_BYTES, LETTERS_BYTES // workers))


def parts_of(slabs: Sequence[Slab], workers: int) -> Iterator[list[Piece]]:
    """The pieces of all slabs, by letter: a letter has at most `letter_bytes` per worker, and some bits."""
    room = most = letter_bytes(workers) // 8
    pieces: list[Piece] = []
    every = [piece for slab in slabs for piece in _cut(slab, most)]
    for piece, size in sorted(every, key=operator.itemgetter(1), reverse=True):  # the small ones fill the last letters
        if size > room and pieces:
            yield pieces
            pieces, room = [], most
        pieces.append(piece)
        room -= size
    if pieces:
        yield pieces


def _cut(slab: Slab, most: int) -> Iterator[tuple[Piece, int]]:
    """The pieces of a slab, each with the largest count of numbers that a worker has in it."""
    (size, width), dtype = slab.total.shape, str(slab.total.dtype)
    last = size - (slab.places is not None)
    for start, stop, sharing in ((0, last, 1), (last, size, slab.sharing)):
        longest = max(_UNIT, most // sharing // _UNIT * _UNIT)
        step = max(1, longest // max(1, width))
        for first in range(start, stop, step):
            rows, shared = min(step, stop - first), first == last
            slots = 0
            if slab.places is not None:
                slots = sharing if shared else rows
            for left in range(0, width, longest):
                cut = Cut(slab.name, slab.reduction, dtype, rows, min(longest, width - left), slots, shared)
                yield Piece(slab, first, left, cut), rows * cut.width * sharing


def letter_of_part(call: str, pieces: Sequence[Piece]) -> Letter:
    """This worker's rows of some pieces: which of the rows it has, a bit for each, and their numbers."""
    marks, numbers = b"", []
    for slab, first, left, cut in pieces:
        rows = slice(first, first + cut.rows)
        if slab.places is not None:
            rows = slice(*np.searchsorted(slab.places, [first, first + cut.rows]).tolist())
            has = np.zeros(cut.slots, bool)
            has[range(rows.stop - rows.start) if cut.shared else slab.places[rows] - first] = True
            marks += np.packbits(has).tobytes()
        numbers.append(slab.rows[rows, left : left + cut.width].reshape(-1))
    text = json.dumps([call, [piece.cut for piece in pieces]])
    return Letter(text, [marks + bytes(-len(marks) % _UNIT), *pack(numbers)])


@functools.lru_cache(maxsize=256)
def _cuts_in(text: str) -> tuple[str, list[Cut]]:
    """The call and the pieces of a letter; ValueError or TypeError for invalid text."""
    call, cuts = json.loads(text)
    read = [Cut(*cut) for cut in cuts]
    for cut in read:
        size_of([cut.rows, cut.width, cut.slots or 1])
    return call, read


def reduce_pieces(letters: Sequence[Letter]) -> Letter:
    """Rank 0's answer to letters of pieces: the reduced numbers."""
    texts = [letter.note for letter in letters]
    if texts.count(texts[0]) < len(texts):
        raise AgreementError(f"the workers disagree: pieces {by_rank(map(str, texts))}")
    [(call, cuts)] = read_each(texts[:1], _cuts_in)
    numbers = []
    for cut, column in zip(cuts, zip(*read_each(letters, functools.partial(_parts_in, cuts)))):
        try:
            numbers.append(combined(cut.reduction, _terms(cut, column)).reshape(-1))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{call}, state {cut.name!r}: {error}") from None
    return Letter(None, pack(numbers))


def _parts_in(cuts: Sequence[Cut], letter: Letter) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """A worker's rows of each piece, and their places in it; None: it has all."""
    payload, start = memoryview(joined(letter.payload)), 0
    places: list[np.ndarray | None] = []
    for cut in cuts:
        end = start + -(-cut.slots // 8)
        bits = np.frombuffer(payload[start:end], np.uint8)
        places.append(np.flatnonzero(np.unpackbits(bits, count=cut.slots)) if cut.slots else None)
        if cut.shared and places[-1] is not None and not len(places[-1]):
            raise ValueError(f"state {cut.name!r} has no row of all other keys")
        start = end
    rows = [cut.rows if at is None else len(at) for cut, at in zip(cuts, places)]
    kinds = tuple((count * cut.width, cut.dtype) for cut, count in zip(cuts, rows))
    arrays = read_packed(kinds, payload[start + -start % _UNIT :])
    return [(array.reshape(count, cut.width), at) for array, count, cut, at in zip(arrays, rows, cuts, places)]


def _terms(cut: Cut, column: Sequence[tuple[np.ndarray, Any]]) -> list[np.ndarray]:
    """The terms to reduce to a piece: each worker's rows in it."""
    if cut.shared:
        return [row for rows, _ in column for row in rows]
    return [rows if at is None else spread(cut.reduction, rows, at, 0, cut.rows) for rows, at in column]


def put(pieces: Sequence[Piece], payload: Buffer) -> None:
    """Store the reduced numbers of the pieces of a letter, as rank 0 sends them."""
    kinds = tuple((cut.rows * cut.width, cut.dtype) for *_, cut in pieces)
    for (slab, first, left, cut), numbers in zip(pieces, read_packed(kinds, payload)):
        slab.total[first : first + cut.rows, left : left + cut.width] = numbers.reshape(cut.rows, cut.width)
