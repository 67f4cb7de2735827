"""States on their way through the channel: their description, the check that all workers agree, and their bytes.

States of one reduction and dtype lie side by side, so that a program's many states are reduced at once. Integers are
sent in the narrowest type that holds them all, because counts are mostly small. States of which a worker has some rows
only, and states that are too large for one letter, are in `rows`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import operator
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.comm.failures import by_rank, ranks_text
from fleetmetrics.comm.letters import read_each
from fleetmetrics.errors import AgreementError, IntegerOverflowError
from fleetmetrics.numbers.reductions import combine, combine_alike
from fleetmetrics.serial import narrowest_of, size_of
from fleetmetrics.serial.descriptions import BY, KEYS, STATE_DTYPES, Block, Buffer, Entry, Letter, RowKeys
from fleetmetrics.support.settings import difference

__all__ = [
    "CHUNK_BYTES",
    "SETTINGS_DIFFER",
    "Layout",
    "agree",
    "check_settings",
    "describe",
    "letter_of",
    "pack",
    "reduced",
    "result_of",
    "unpack",
]

#: States of at most these bytes are in one letter; of large arrays, a chunk of each worker has this size.
CHUNK_BYTES = 2**19
#: Below this size, finding the narrowest type takes longer than sending the bytes.
_WORTH_NARROWING = 64
_TYPES: dict[str, np.dtype[Any]] = {**{str(size): np.dtype(f"i{size}") for size in (1, 2, 4, 8)}, "d": np.dtype("f8")}
_NAMES = {dtype: name.encode() for name, dtype in _TYPES.items()}
_ALIGNMENT = 8
_array, _entry, _size = map(operator.attrgetter, ("array", "entry", "size"))
#: From this number of workers on, NumPy reads all small payloads at once; the bytes of a small payload.
_MANY, _SMALL = 64, 2**16
#: Hexadecimal digits of a digest of settings: 64 bits.
_DIGITS = 16
#: Rank 0's answer if only settings differ: each worker then sends its own. No layout has this text.
SETTINGS_DIFFER = "the settings differ"


class Group(NamedTuple):
    """States that lie side by side."""

    reduction: str
    dtype: str
    size: int  #: their number of elements


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each block lies."""

    text: str  #: what crosses the wire, JSON
    call: str  #: what is computed
    settings: str  #: the digest of what it is computed with; see `_digest_of`
    entries: tuple[Entry, ...]  #: of the blocks, in the caller's order
    groups: tuple[Group, ...]
    members: tuple[tuple[int, ...], ...]  #: of each group: the blocks, by their places among all
    kinds: tuple[tuple[int, str], ...]  #: of each group: number of elements, dtype
    places: tuple[tuple[int, int, int, tuple[int, ...]], ...]  #: of each block: group, first element, end, shape
    by_key: bool  #: whether some blocks may have rows by key
    nbytes: int  #: the size of the blocks in bytes

    @property
    def is_whole(self) -> bool:
        """Whether a letter has all states: none has rows by key, and they are small together. See `rows` for others."""
        return not self.by_key and self.nbytes <= CHUNK_BYTES


@functools.lru_cache(maxsize=256)
def _make_layout(call: str, entries: tuple[Entry, ...], settings: str = "") -> Layout:
    sizes = [int(np.prod(shape, dtype=np.int64)) for *_, shape in entries]
    alike: dict[tuple[str, str, bool], list[int]] = {}
    for i, (_, how, dtype, _) in enumerate(entries):  # one large number in a small state must not widen large states
        alike.setdefault((dtype, how, sizes[i] >= _WORTH_NARROWING), []).append(i)
    groups, places = [], {}
    for number, ((dtype, how, _), members) in enumerate(sorted(alike.items())):
        end = 0
        for i in members:
            places[i] = number, end, end + sizes[i], entries[i][3]
            end += sizes[i]
        groups.append(Group(how, dtype, end))
    return Layout(
        text=json.dumps([call, entries, settings], separators=(",", ":")),
        call=call,
        settings=settings,
        entries=entries,
        groups=tuple(groups),
        members=tuple(tuple(alike[kind]) for kind in sorted(alike)),
        kinds=tuple((group.size, group.dtype) for group in groups),
        places=tuple(places[i] for i in range(len(entries))),
        by_key=any(how == KEYS for _, how, *_ in entries),
        nbytes=8 * sum(sizes),
    )


@functools.lru_cache(maxsize=256)
def layout_of(text: str) -> Layout:
    """Return the layout that a peer's text describes; ValueError or TypeError for invalid text."""
    call, entries, settings = json.loads(text)
    if type(settings) is not str:
        raise ValueError(f"no digest is {settings!r}")
    for name, how, dtype, shape in entries:
        if {type(name), type(how)} != {str} or dtype not in STATE_DTYPES.values():
            raise ValueError(f"no state is {name!r}, {how!r}, {dtype!r}")
        size_of(shape)
    return _make_layout(call, tuple((name, how, dtype, tuple(shape)) for name, how, dtype, shape in entries), settings)


def describe(call: str, blocks: Sequence[Block | RowKeys], settings: str = "") -> Layout:
    """Return the layout of a caller's blocks; a block with rows by key is described by one row."""
    return _make_layout(call, tuple(map(_entry, blocks)), settings and _digest_of(settings))


@functools.lru_cache(maxsize=256)
def _digest_of(settings: str) -> str:
    """The digest that a worker sends instead of its settings, which are nearly always equal on all workers."""
    return hashlib.sha256(settings.encode()).hexdigest()[:_DIGITS]


def with_rows(layout: Layout, keys: Mapping[str, np.ndarray]) -> Layout:
    """The layout of the states with these keys: a block with rows by key has one row more than keys."""
    entries = []
    for name, how, dtype, shape in layout.entries:
        reduction, by, of = how.partition(BY)
        if how != KEYS:
            entries.append((name, reduction, dtype, (len(keys[of]) + 1, *shape) if by else shape))
    return _make_layout(layout.call, tuple(entries))


# Whole states in a letter, and in the answer


def letter_of(layout: Layout, blocks: Sequence[Block | RowKeys]) -> Letter:
    """What a worker sends: the description of its states, and the states."""
    return Letter(layout.text, pack([*map(_array, blocks)], layout.members))


def result_of(layout: Layout, answer: Letter) -> list[np.ndarray]:
    """The reduced states in rank 0's answer, in the order of the blocks; ``layout``: this worker's."""
    return unpack(layout if answer.note is None else layout_of(answer.note), answer.payload)


# Bytes


def pack(arrays: Sequence[np.ndarray], groups: Iterable[Sequence[int]] = ()) -> list[Buffer]:
    """The bytes of arrays, for `read_packed`, after the names of their types; integers are narrow.

    Args:
        arrays: int64 or float64, or narrower.
        groups: the places of those that lie side by side; (): each lies alone.
    """
    names = b""
    parts: list[Buffer] = [b""]
    for places in groups or zip(range(len(arrays))):
        members = list(map(arrays.__getitem__, places))
        size = sum(map(_size, members))
        if len(members) > 1 and size < _WORTH_NARROWING * len(members):  # large ones are cast without joining them
            members = [np.concatenate(members, axis=None)]
        dtype = members[0].dtype
        if size >= _WORTH_NARROWING and dtype.kind == "i":
            dtype = narrowest_of(members)
        names += _NAMES[dtype]
        for array in members:
            small = size < _WORTH_NARROWING
            parts.append(array.tobytes() if small else np.ascontiguousarray(array, dtype).data.cast("B"))
        if size * dtype.itemsize % _ALIGNMENT:
            parts.append(bytes(-size * dtype.itemsize % _ALIGNMENT))
    parts[0] = names + bytes(-len(names) % _ALIGNMENT)
    return parts


def unpack(layout: Layout, payload: Buffer) -> list[np.ndarray]:
    """Return the arrays of the blocks in the caller's order."""
    groups = read_packed(layout.kinds, payload)
    for place, (_, dtype) in enumerate(layout.kinds):
        groups[place] = groups[place].astype(dtype, copy=False)
    return [groups[group][start:end].reshape(shape) for group, start, end, shape in layout.places]


def read_packed(kinds: tuple[tuple[int, Any], ...], payload: Buffer) -> list[np.ndarray]:
    """The flat arrays of these sizes and dtypes, possibly still narrow; ValueError if the bytes hold others."""
    places, size = _places(kinds, bytes(payload[: len(kinds)]))
    if len(payload) != size:
        raise ValueError(f"{len(payload)} bytes, but the states take {size}")
    return [
        np.frombuffer(payload, dtype, count, start) if count else np.empty(0, dtype) for dtype, count, start in places
    ]


@functools.lru_cache(maxsize=256)
def _places(kinds: tuple[tuple[int, Any], ...], types: bytes) -> tuple[tuple[tuple[np.dtype[Any], int, int], ...], int]:
    """For each flat array with these type names: dtype, size, first byte; and the number of all bytes."""
    start, places = len(kinds) + -len(kinds) % _ALIGNMENT, []
    for name, (count, kind) in zip(types.decode(), kinds):
        dtype = _TYPES[name]
        if (dtype.kind == "f") != (kind == "float64"):  # a cast would change numbers
            raise ValueError(f"{name!r} numbers, but the state is {kind}")
        places.append((dtype, count, start))
        start += count * dtype.itemsize + -count * dtype.itemsize % _ALIGNMENT
    if len(places) < len(kinds):
        raise ValueError(f"{len(places)} arrays, but there are {len(kinds)} states")
    return tuple(places), start


# The reduction, on rank 0


def reduced(layouts: Sequence[Layout], agreed: Layout, payloads: Sequence[Any]) -> list[Buffer]:
    """Reduce the workers' blocks; there is one layout for all workers, or one for each."""
    if layouts.count(agreed) == len(layouts):
        groups = zip(agreed.groups, _columns(agreed, payloads))
        try:
            return pack([combined(group.reduction, arrays) for group, arrays in groups])
        except IntegerOverflowError:
            layouts = [agreed] * len(payloads)  # to name the state
    columns = zip(*read_each(zip(layouts, payloads), lambda both: unpack(*both)))
    arrays = []
    for (name, reduction, dtype, _), column in zip(agreed.entries, columns):
        try:
            arrays.append(combine(reduction, column).astype(dtype, copy=False))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{agreed.call}, state {name!r}: {error}") from None
    return pack(arrays, agreed.members)


def _columns(layout: Layout, payloads: Sequence[Buffer]) -> Iterable[Sequence[np.ndarray]]:
    """For each group the arrays of the workers; of many workers, some are already sums or extremes of several."""
    read = functools.partial(read_packed, layout.kinds)
    if len(payloads) < _MANY:
        return zip(*read_each(payloads, read))
    columns: list[list[np.ndarray]] = [[] for _ in layout.groups]
    for start in range(0, len(payloads), _MANY):
        some = payloads[start : start + _MANY]
        for column, part in zip(columns, _side_by_side(layout, some) or zip(*read_each(some, read, start))):
            column += part
    return columns


def _side_by_side(layout: Layout, payloads: Sequence[Buffer]) -> list[list[np.ndarray]]:
    """`_columns` of small payloads with the same types, and so of one size; nothing for others.

    NumPy reads them as the rows of one table, which fits into the processor's cache: a tenth of rank 0's time with a
    thousand workers.
    """
    size, types = len(payloads[0]), bytes(payloads[0][: len(layout.kinds)])
    if size > _SMALL or any([len(one) != size or one[: len(types)] != types for one in payloads]):
        return []
    places, whole = _places(layout.kinds, types)
    if whole != size:
        return []
    table, columns = b"".join(payloads), []
    for group, (dtype, count, start) in zip(layout.groups, places):
        rows = np.ndarray((len(payloads), count), dtype, table, start, (size, dtype.itemsize))
        if dtype.kind == "f" or (dtype.itemsize == 8 and group.reduction == "sum"):
            columns.append(list(rows.copy()))  # or the table would stay, and the next one needs new memory
        elif group.reduction == "sum":  # no sum of these is too large
            columns.append([rows.sum(axis=0, dtype=np.int32 if dtype.itemsize <= 2 else np.int64)])
        else:
            columns.append([rows.max(axis=0) if group.reduction == "max" else rows.min(axis=0)])
    return columns


def combined(reduction: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    """Combine arrays of the workers, narrow or not, as `numbers.combine` does."""
    sizes = {part.itemsize for part in parts}
    if sizes == {8}:
        return combine_alike(reduction, parts)
    if reduction == "sum" and 8 not in sizes:  # no sum of these is too large
        total = parts[0].astype(np.int32 if max(sizes) <= 2 and len(parts) <= 2**16 else np.int64)
        for part in parts[1:]:
            np.add(total, part, out=total)
        return total
    return combine_alike(reduction, [part.astype(np.int64, copy=False) for part in parts])


# Agreement


def layouts_of(notes: Sequence[Any]) -> list[Layout]:
    """The layouts that the workers' notes describe; a single one if all notes are equal, the usual case."""
    return read_each(notes[:1] if notes.count(notes[0]) == len(notes) else notes, layout_of)


def agree(layouts: Sequence[Layout]) -> Layout | None:
    """Check that the calls of all workers agree, except for dtypes that NumPy promotes; None: only settings differ."""
    first = layouts[0]
    if layouts.count(first) == len(layouts):
        return first
    if len({(layout.call, *_without_dtypes(layout)) for layout in layouts}) > 1:
        raise AgreementError(f"the workers disagree: {_difference(layouts)}")
    if len({layout.settings for layout in layouts}) > 1:
        return None
    columns = zip(*[layout.entries for layout in layouts])
    dtypes = [str(np.result_type(*[dtype for _, _, dtype, _ in column])) for column in columns]
    entries = tuple((name, how, dtype, shape) for (name, how, _, shape), dtype in zip(first.entries, dtypes))
    return _make_layout(first.call, entries, first.settings)


def _without_dtypes(layout: Layout) -> list[Any]:
    return [(name, how, shape) for name, how, _, shape in layout.entries]


def check_settings(name: str, settings: Sequence[str]) -> None:
    """Raise an `AgreementError` that names a setting and the ranks if these strings, one per worker, differ."""
    other = next((rank for rank, text in enumerate(settings) if text != settings[0]), None)
    if other is None:
        return
    first, its = read_each([settings[0], settings[other]], json.loads)
    ranks = [rank for rank, text in enumerate(settings) if text == settings[other]]
    words = difference(first, its, here=f"on {ranks_text([0])}") or "they are written differently"
    raise AgreementError(
        f"{name}: the workers disagree on its settings: on {ranks_text(ranks)}, {words}. Give all workers the same; a"
        " custom class may list in `incidental` the arguments that cannot change the result"
    )


def _difference(layouts: Sequence[Layout]) -> str:
    """How layouts differ, apart from dtypes, in words."""
    first = layouts[0]
    if len({(layout.call, *[name for name, *_ in layout.entries]) for layout in layouts}) > 1:
        return by_rank(map(signature, layouts))
    differences = []
    for column in zip(*[layout.entries for layout in layouts]):
        for what, values in (
            ("shape", [list(entry[3]) for entry in column]),
            ("reduction", [entry[1] for entry in column]),
        ):
            if values.count(values[0]) < len(values):
                differences.append(f"{first.call}, state {column[0][0]!r}: {what} {by_rank(map(str, values))}")
    return "; ".join(differences)


def signature(layout: Layout) -> str:
    """A call with its states, for an error."""
    blocks = [
        f"{name} {dtype}{list(shape)}" + ("" if how == "sum" else f" {how}")
        for name, how, dtype, shape in layout.entries
    ]
    return f"{layout.call}({', '.join(blocks)})"
