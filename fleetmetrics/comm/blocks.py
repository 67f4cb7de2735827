"""Arrays on their way through the channel: what describes them, the check that all workers agree, and their bytes.

States of one reduction and dtype lie side by side, so that a program's many states are reduced at once. Integers are
sent in the narrowest type that holds them all, for counts are mostly small.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, Tuple, TypeVar

import numpy as np

from fleetmetrics.comm.failures import by_rank, ranks_text, readable
from fleetmetrics.comm.frames import JOINED, Buffer, joined
from fleetmetrics.errors import (
    AgreementError,
    CommunicatorError,
    FleetMetricsError,
    IntegerOverflowError,
    InvalidInputError,
    RecordError,
)
from fleetmetrics.numbers import REDUCTIONS, combine, combine_alike
from fleetmetrics.serial import WIDEST, described_array, is_plain, narrowest, size_of

_STATE_DTYPES = {np.dtype(name): name for name in ("int64", "float64")}  # NumPy takes 10 us to name a dtype
_NUMBERS = "biufc"
#: Below it takes longer to look for the narrowest type than to send the bytes.
_WORTH_NARROWING = 64
_TYPES: dict[str, np.dtype[Any]] = {**{str(size): np.dtype(f"i{size}") for size in (1, 2, 4, 8)}, "d": np.dtype("f8")}
_ALIGNMENT = 8
#: A letter on its way outside of a frame is a multiple of this number of bytes.
LETTER_UNIT = 16
#: What a layout says of keys in the place of a reduction, and between a reduction and the keys that rows belong to.
_KEYS, _BY = "keys", " by "


#: Of one state in a layout: name, reduction, dtype, shape.
Entry = Tuple[str, str, str, Tuple[int, ...]]
_Read = TypeVar("_Read")
_Given = TypeVar("_Given")


class Letter(NamedTuple):
    """What a worker brings to `Communicator.consult`, and what it gets back.

    Args:
        note: a description, fit for JSON; text is the cheapest.
        payload: bytes; one buffer or a list of them when it is sent, one buffer when it has arrived.
    """

    note: Any
    payload: Any = b""


#: Takes the workers' letters by rank and returns the answer; runs on rank 0 only.
Decide = Callable[[Sequence[Letter]], Letter]


class Block:
    """One state on its way through the channel.

    Args:
        name: how errors call it.
        reduction: "sum", "max" or "min".
        array: int64 or float64, of any shape.
        keys: the name of the `RowKeys` for each of which it has a row, and a last one for all other keys; empty: it has
            none, and the same shape on every worker.

    Raises:
        InvalidInputError: for another reduction or dtype.

    Examples:
        >>> Block("correct", "sum", np.array([3])).name
        'correct'
    """

    array: np.ndarray
    fresh: bool
    keys: str
    name: str
    reduction: str

    __slots__ = ("array", "entry", "fresh", "keys", "name", "reduction")

    def __init__(self, name: str, reduction: str, array: np.ndarray, keys: str = "") -> None:
        if reduction not in REDUCTIONS:
            allowed = ", ".join(REDUCTIONS)
            raise InvalidInputError(f"state {name!r}: reduction is {reduction!r}; allowed are {allowed}.")
        dtype = _STATE_DTYPES.get(array.dtype) if isinstance(array, np.ndarray) else None
        if dtype is None:
            kind = getattr(array, "dtype", type(array).__name__)
            raise InvalidInputError(f"state {name!r} is {kind}; a state is a NumPy array, int64 or float64.")
        self.name, self.reduction, self.array, self.keys = name, reduction, array, keys
        #: Whether nobody else holds the array.
        self.fresh = False
        #: What a layout says of it; of rows by key it describes one.
        self.entry: Entry = (name, reduction, dtype, array.shape)
        if keys:
            self.entry = (name, f"{reduction}{_BY}{keys}", dtype, array.shape[1:])


@dataclass
class RowKeys:
    """The keys of a worker for which some blocks have rows; all workers get the union.

    Args:
        name: how errors call them.
        array: integers or texts, sorted, each once.
        limit: how many are kept, the smallest.
    """

    name: str
    array: np.ndarray
    limit: int

    @property
    def entry(self) -> Entry:
        """What a layout says of it."""
        return self.name, _KEYS, "int64", (self.limit,)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each block lies."""

    text: str  #: what crosses the wire, JSON
    call: str  #: what is computed
    names: tuple[str, ...]  #: of the blocks, in the caller's order, as the next three
    reductions: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, int, int], ...]  #: of each block: group, first element there, one after the last
    groups: tuple[tuple[str, str, int, tuple[int, ...]], ...]  #: reduction, dtype, number of elements, blocks in it
    kinds: tuple[tuple[int, str], ...]  #: of each group: number of elements, dtype
    by_key: bool  #: whether some blocks may have rows by key
    nbytes: int  #: how many bytes the blocks have


@functools.lru_cache(maxsize=256)
def _make_layout(call: str, blocks: tuple[Entry, ...]) -> Layout:
    places: dict[int, tuple[int, int, int]] = {}
    groups: list[tuple[str, str, int, tuple[int, ...]]] = []
    sizes = [int(np.prod(shape, dtype=np.int64)) for *_, shape in blocks]
    # one large number among the few must not widen the many
    kinds = [(how, dtype, size < _WORTH_NARROWING) for (_, how, dtype, _), size in zip(blocks, sizes)]
    for i in sorted(range(len(blocks)), key=kinds.__getitem__):
        reduction, dtype, _ = kinds[i]
        start, before = groups.pop()[2:] if groups and kinds[groups[-1][3][0]] == kinds[i] else (0, ())
        groups.append((reduction, dtype, start + sizes[i], (*before, i)))
        places[i] = len(groups) - 1, start, start + sizes[i]
    text = json.dumps([call, blocks], separators=(",", ":"))
    names, reductions, dtypes, shapes = zip(*blocks) if blocks else ((), (), (), ())
    in_order = tuple(places[i] for i in range(len(blocks)))
    sizes_of_groups = tuple((size, dtype) for _, dtype, size, _ in groups)
    by_key, nbytes = _KEYS in reductions, 8 * sum(sizes)
    return Layout(
        text, call, names, reductions, dtypes, shapes, in_order, tuple(groups), sizes_of_groups, by_key, nbytes
    )


@functools.lru_cache(maxsize=256)
def layout_of(text: str) -> Layout:
    """Return the layout that a peer's text describes; ValueError or TypeError if it describes none."""
    call, blocks = json.loads(text)
    for name, how, dtype, shape in blocks:
        if {type(name), type(how)} != {str} or dtype not in _STATE_DTYPES.values():
            raise ValueError(f"no state is {name!r}, {how!r}, {dtype!r}")
        size_of(shape)
    return _make_layout(call, tuple((name, how, dtype, tuple(shape)) for name, how, dtype, shape in blocks))


def describe(call: str, blocks: Sequence[Block | RowKeys]) -> Layout:
    """Return the layout of a caller's blocks; what has rows by key is described by one row."""
    return _make_layout(call, tuple([block.entry for block in blocks]))


def with_rows(layout: Layout, keys: Mapping[str, int]) -> Layout:
    """The layout without its keys, and how many keys there are: what has rows by key has one more."""
    found = []
    for name, how, dtype, shape in zip(layout.names, layout.reductions, layout.dtypes, layout.shapes):
        reduction, by, of = how.partition(_BY)
        if how != _KEYS:
            found.append((name, reduction, dtype, (keys[of] + 1, *shape) if by else shape))
    return _make_layout(layout.call, tuple(found))


# Bytes


def read_each(given: Iterable[_Given], read: Callable[[_Given], _Read]) -> list[_Read]:
    """Read what the workers have sent, and say whose cannot be read."""
    found = []
    for rank, one in enumerate(given):
        try:
            found.append(read(one))
        except RecordError as error:
            raise RecordError(f"what {ranks_text([rank])} sent cannot be read: {readable(str(error))}") from error
        except FleetMetricsError:
            raise
        except Exception as error:
            why = readable(f"{type(error).__name__}: {error}")
            raise CommunicatorError(
                f"what {ranks_text([rank])} sent cannot be read ({why}); do all workers run the same version of"
                " fleetmetrics?"
            ) from error
    return found


def narrowed(array: np.ndarray) -> tuple[str, Buffer]:
    """The bytes of a flat array, integers in the narrowest type that holds them, and the type's name."""
    few = array.size < _WORTH_NARROWING
    if array.dtype.kind == "i":
        array = array if few else narrowest(array)
    name = "d" if array.dtype.kind == "f" else str(array.itemsize)
    return name, array.tobytes() if few else np.ascontiguousarray(array).data.cast("B")


def _type_of(name: str, dtype: Any) -> np.dtype[Any]:
    """The type that `narrowed` names; ValueError if no state of this dtype is sent so: a cast would change numbers."""
    found = _TYPES[name]
    if (found.kind == "f") != (dtype == "float64"):
        raise ValueError(f"{name!r} numbers, where the state is {dtype}")
    return found


def combined(reduction: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Combine arrays of the workers, narrow or not, as `numbers.combine` does."""
    sizes = [part.itemsize for part in parts]
    if reduction == "sum" and max(sizes) < 8:  # no sum of these is too large
        total = parts[0].astype(np.int32 if max(sizes) <= 2 and len(parts) <= 2**16 else np.int64)
        for part in parts[1:]:
            np.add(total, part, out=total)
        return total
    return combine_alike(reduction, [part if part.itemsize == 8 else part.astype(np.int64) for part in parts])


def pack(layout: Layout, arrays: Sequence[np.ndarray]) -> list[Buffer]:
    """Return the bytes of the blocks' arrays."""
    parts = [[arrays[i] for i in members] for *_, members in layout.groups]
    return packed([part[0].reshape(-1) if len(part) == 1 else np.concatenate(part, axis=None) for part in parts])


def packed(groups: Sequence[np.ndarray]) -> list[Buffer]:
    """The bytes of flat arrays, for `read_packed`; integers are narrow."""
    names = ""
    parts: list[Buffer] = [b""]
    for group in groups:
        name, data = narrowed(group)
        names += name
        parts.append(data)
        if len(data) % _ALIGNMENT:
            parts.append(bytes(-len(data) % _ALIGNMENT))
    parts[0] = names.encode() + bytes(-len(names) % _ALIGNMENT)
    return [b"".join(parts)] if sum(map(len, parts)) <= JOINED else parts


def read_packed(kinds: tuple[tuple[int, Any], ...], payload: Buffer) -> list[np.ndarray]:
    """The flat arrays whose sizes and dtypes these are, maybe narrow still; ValueError if it was not them."""
    return _reader_of(kinds)(payload)


def _reader_of(kinds: tuple[tuple[int, Any], ...]) -> Callable[[Buffer], list[np.ndarray]]:
    """`read_packed` of many payloads; mostly all name the same types, whose places are found once."""
    known: dict[bytes, Any] = {}

    def read(payload: Buffer) -> list[np.ndarray]:
        types = bytes(payload[: len(kinds)])
        if types not in known:
            known[types] = _places(kinds, types)
        places, size = known[types]
        if len(payload) != size:
            raise ValueError(f"{len(payload)} bytes, where the states take {size}")
        return [
            np.frombuffer(payload, dtype, count, start) if count else np.empty(0, dtype)
            for dtype, count, start in places
        ]

    return read


@functools.lru_cache(maxsize=256)
def _places(kinds: tuple[tuple[int, Any], ...], types: bytes) -> tuple[tuple[tuple[np.dtype[Any], int, int], ...], int]:
    """Of each flat array whose type is named so: dtype, size, first byte; and how many bytes there are."""
    start, found = len(kinds) + -len(kinds) % _ALIGNMENT, []
    for name, (count, kind) in zip(types.decode(), kinds):
        dtype = _type_of(name, kind)
        found.append((dtype, count, start))
        start += count * dtype.itemsize + -count * dtype.itemsize % _ALIGNMENT
    if len(found) < len(kinds):
        raise ValueError(f"{len(found)} arrays, where the states are {len(kinds)}")
    return tuple(found), start


def unpack(layout: Layout, payload: Buffer) -> list[np.ndarray]:
    """Return the arrays of the blocks in the caller's order."""
    found = zip(read_packed(layout.kinds, payload), layout.groups)
    groups = [
        group if _STATE_DTYPES.get(group.dtype) == dtype else group.astype(dtype) for group, (_, dtype, *_) in found
    ]
    return [groups[group][start:end].reshape(shape) for (group, start, end), shape in zip(layout.places, layout.shapes)]


def reduced(layouts: list[Layout], agreed: Layout, payloads: Sequence[Any]) -> list[Buffer]:
    """Reduce the workers' blocks."""
    if layouts.count(agreed) == len(layouts):  # they are kept by their text, so that equal ones are one
        found = read_each(payloads, _reader_of(agreed.kinds))
        try:
            return packed([combined(how, parts) for (how, *_), parts in zip(agreed.groups, zip(*found))])
        except IntegerOverflowError:
            pass  # the way below says in which state
    columns = zip(*read_each(zip(layouts, payloads), lambda both: unpack(*both)))
    blocks = []
    for name, reduction, dtype, column in zip(agreed.names, agreed.reductions, agreed.dtypes, columns):
        try:
            blocks.append(combine(reduction, column).astype(dtype, copy=False))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{agreed.call}, state {name!r}: {error}") from None
    return pack(agreed, blocks)


def split(data: Buffer, sizes: Sequence[int]) -> list[np.ndarray]:
    """Cut a buffer into parts of these sizes, in bytes; ValueError if it is not as long."""
    if any(size < 0 for size in sizes) or sum(sizes) != len(data):
        raise ValueError(f"{len(data)} bytes, where there are {sum(sizes)}")
    return np.split(np.frombuffer(data, np.uint8), np.cumsum(sizes)[:-1])


def divided(letter: Letter, number: int) -> list[Letter]:
    """The letters that a letter is made of, if its note has their notes and sizes; else ValueError."""
    notes, sizes = zip(*letter.note)
    if len(notes) != number:
        raise ValueError(f"{len(notes)} parts, where there are {number}")
    return [Letter(note, part.data) for note, part in zip(notes, split(joined(letter.payload), sizes))]


def written(letter: Letter) -> list[Buffer]:
    """A letter as bytes, a multiple of `LETTER_UNIT`; `letter_in` reads it."""
    note, payload = json.dumps(letter.note).encode(), letter.payload
    buffers = list(payload) if isinstance(payload, (list, tuple)) else [payload]
    size = sum(map(len, buffers))
    head = np.array([len(note), size]).tobytes()
    return [head, note, bytes(-len(note) % LETTER_UNIT), *buffers, bytes(-size % LETTER_UNIT)]


def letter_in(data: Buffer) -> Letter:
    """The letter that was written, its payload a view that may be written to; ValueError for anything else."""
    given = np.frombuffer(data if isinstance(data, memoryview) else bytearray(data), np.uint8)
    note, payload = given[:LETTER_UNIT].view(np.int64).tolist()
    start = LETTER_UNIT + note + -note % LETTER_UNIT
    if min(note, payload) < 0 or start + payload + -payload % LETTER_UNIT != len(given):
        raise ValueError(f"{len(given)} bytes, where a letter has {start + payload}")
    return Letter(json.loads(given[LETTER_UNIT : LETTER_UNIT + note].tobytes()), given[start : start + payload].data)


# Agreement


def layouts_of(notes: Sequence[Any]) -> list[Layout]:
    """The layouts that the workers' notes describe; mostly all are one, which is read once."""
    if notes.count(notes[0]) == len(notes):
        return read_each(notes[:1], layout_of) * len(notes)
    return read_each(notes, layout_of)


def agree(layouts: list[Layout]) -> Layout:
    """Check that all workers call the same, up to a dtype that NumPy promotes."""
    first = layouts[0]
    if layouts.count(first) == len(layouts):
        return first
    if len({(layout.call, layout.names, layout.reductions, layout.shapes) for layout in layouts}) > 1:
        raise AgreementError(f"the workers disagree: {_difference(layouts)}.")
    dtypes = [str(np.result_type(*column)) for column in zip(*[layout.dtypes for layout in layouts])]
    return _make_layout(first.call, tuple(zip(first.names, first.reductions, dtypes, first.shapes)))


def _difference(layouts: Sequence[Layout]) -> str:
    first = layouts[0]
    if len({(layout.call, layout.names) for layout in layouts}) == 1:
        differences = []
        for i, name in enumerate(first.names):
            for what in ("shapes", "reductions"):
                values = [getattr(layout, what)[i] for layout in layouts]
                values = [str(list(each) if isinstance(each, tuple) else each) for each in values]
                if len(set(values)) > 1:
                    differences.append(f"{first.call}, state {name!r}: {what[:-1]} {by_rank(values)}")
        return "; ".join(differences)
    return by_rank(map(_signature, layouts))


def answered(decide: Decide, number: int, calls: Sequence[str], letters: Sequence[Letter]) -> Letter:
    """What rank 0 makes of the letters; an `AgreementError` says at which exchange the workers disagree."""
    try:
        notes = [letter.note for letter in letters]
        if len(set(calls)) > 1 or len({isinstance(note, str) for note in notes if note is not None}) > 1:
            raise AgreementError(f"the workers disagree: {by_rank(map(spoken, calls, notes))}.")
        return decide(letters)
    except AgreementError as error:
        where = f"the workers disagree at exchange {number}:"
        raise AgreementError(readable(str(error).replace("the workers disagree:", where, 1))) from error


def spoken(call: str, note: Any) -> str:
    """Say what a worker calls, for an error: with the states if the note describes them."""
    try:
        return _signature(layout_of(note))
    except (TypeError, ValueError, RecursionError):
        return call


def _signature(layout: Layout) -> str:
    blocks = [
        f"{name} {dtype}{list(shape)}" + ("" if how == "sum" else f" {how}")
        for name, how, dtype, shape in zip(layout.names, layout.reductions, layout.dtypes, layout.shapes)
    ]
    return f"{layout.call}({', '.join(blocks)})"


# Arrays of any dtype, for all_gather and broadcast


def as_column(array: Any) -> np.ndarray:
    """Return a contiguous array of native byte order that can cross the wire as bytes."""
    given = np.asarray(array)
    if not is_plain(given.dtype) or given.dtype.kind not in _NUMBERS + "SU" or given.dtype.itemsize > WIDEST:
        raise InvalidInputError(
            f"array is of dtype {given.dtype}; allowed are numbers, booleans, and bytes or text of fixed width, up to"
            " 16 MiB an element."
        )
    return np.asarray(given, dtype=given.dtype.newbyteorder("="), order="C")


def column_in(letter: Letter, most: int) -> tuple[int | None, str, list[int]]:
    """The source, dtype and shape of a peer's array, whose bytes come with the letter unless there are more."""
    source, dtype, shape = letter.note
    size, found = described_array(dtype, shape)[1], len(joined(letter.payload))
    if found != (size if size <= most else 0):
        raise ValueError(f"{found} bytes, where {dtype} of shape {list(shape)} is announced")
    return source, dtype, shape


def join(source: int | None, parts: Sequence[tuple[str, Sequence[int]]]) -> tuple[str, list[int]]:
    """Check that the workers' arrays go together."""
    sizes = [described_array(dtype, shape)[1] for dtype, shape in parts]
    if source is not None:
        return parts[source][0], sizes
    dtypes = [np.dtype(dtype) for dtype, _ in parts]
    if len({"number" if dtype.kind in _NUMBERS else dtype.kind for dtype in dtypes}) > 1:
        raise AgreementError(f"the workers gather arrays that cannot be joined: {by_rank(map(str, dtypes))}.")
    if len({(len(shape), tuple(shape[1:])) for _, shape in parts}) > 1:
        what = by_rank(f"shape {list(shape)}" for _, shape in parts)
        raise AgreementError(f"the workers gather arrays that differ beyond the first axis: {what}.")
    # how wide the texts are that do not come is nothing but a word
    heard = [dtype for dtype, size in zip(dtypes, sizes) if size or dtype.kind in _NUMBERS] or dtypes[:1]
    return functools.reduce(np.promote_types, heard).str, sizes
