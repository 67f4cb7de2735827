"""Arrays on their way through the channel: their description, the check that all workers agree, and their bytes.

States of one reduction and dtype lie side by side, so that a program's many states are reduced at once; small states
need only share a dtype. Integers are sent in the narrowest type that holds them all, because counts are
mostly small.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, TypeVar

import numpy as np

from fleetmetrics.comm.descriptions import BY, KEYS, STATE_DTYPES, Block, Buffer, Decide, Entry, Letter, RowKeys, joined
from fleetmetrics.comm.failures import by_a_handler, by_rank, fit_cause, named_error, ranks_text, readable
from fleetmetrics.errors import (
    AgreementError,
    CommunicatorError,
    FleetMetricsError,
    IntegerOverflowError,
    InvalidInputError,
    RecordError,
)
from fleetmetrics.numbers import combine, combine_alike, combine_few
from fleetmetrics.serial import WIDEST, described_array, is_plain, narrowest_of, size_of
from fleetmetrics.settings import difference
from fleetmetrics.tensors import as_array

_NUMBERS = "biufc"
#: States of up to this number of elements lie side by side, with any reductions.
_FEW = 8
#: Up to this number of elements, over all workers, Python reduces such states sooner than NumPy.
_IN_PYTHON = 512
#: Below this size, finding the narrowest type takes longer than sending the bytes.
_WORTH_NARROWING = 64
_TYPES: dict[str, np.dtype[Any]] = {**{str(size): np.dtype(f"i{size}") for size in (1, 2, 4, 8)}, "d": np.dtype("f8")}
_NAMES = {dtype: name.encode() for name, dtype in _TYPES.items()}
_ALIGNMENT = 8
#: From this number of workers on, NumPy reads all small payloads at once.
_MANY = 64
#: Bytes of a payload that is small.
_SMALL = 2**16
_SUMMED = 2**63 // _MANY
#: The size of a letter outside a frame is a multiple of this number of bytes.
LETTER_UNIT = 16
#: Hexadecimal digits of a digest of settings: 64 bits.
_DIGITS = 16
#: Rank 0's answer if only settings differ: each worker then sends its own. No layout has this text.
SETTINGS_DIFFER = "the settings differ"


_Read = TypeVar("_Read")
_Given = TypeVar("_Given")


class Group(NamedTuple):
    """States that lie side by side."""

    dtype: str
    size: int  #: their number of elements
    members: tuple[int, ...]  #: the states, by their places among all
    parts: tuple[tuple[str, int, int], ...]  #: reduction, first element, one after the last


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each block lies."""

    text: str  #: what crosses the wire, JSON
    call: str  #: what is computed
    settings: str  #: the digest of what it is computed with; see `_digest_of`
    names: tuple[str, ...]  #: of the blocks, in the caller's order, as the next three
    reductions: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, int, int], ...]  #: of each block: group, first element there, one after the last
    groups: tuple[Group, ...]
    kinds: tuple[tuple[int, str], ...]  #: of each group: number of elements, dtype
    by_key: bool  #: whether some blocks may have rows by key
    nbytes: int  #: the size of the blocks in bytes


@functools.lru_cache(maxsize=256)
def _make_layout(call: str, blocks: tuple[Entry, ...], settings: str = "") -> Layout:
    places: dict[int, tuple[int, int, int]] = {}
    groups: list[Group] = []
    sizes = [int(np.prod(shape, dtype=np.int64)) for *_, shape in blocks]

    def kind(i: int) -> tuple[bool, str, bool, str]:
        _, how, dtype, _ = blocks[i]
        # one large number in a small state must not widen large states
        return sizes[i] > _FEW, dtype, sizes[i] < _WORTH_NARROWING, "" if sizes[i] <= _FEW else how

    def reduction(i: int) -> str:
        return blocks[i][1]

    in_order = sorted(range(len(blocks)), key=lambda i: (kind(i), reduction(i)))
    for (_, dtype, _, _), alike in itertools.groupby(in_order, kind):
        end, members, parts = 0, [], []
        for how, same in itertools.groupby(alike, reduction):
            start = end
            for i in same:
                places[i] = len(groups), end, end + sizes[i]
                members.append(i)
                end += sizes[i]
            parts += [(how, start, end)] if end > start else []
        groups.append(Group(dtype, end, tuple(members), tuple(parts)))
    text = json.dumps([call, blocks, settings], separators=(",", ":"))
    names, reductions, dtypes, shapes = zip(*blocks) if blocks else ((), (), (), ())
    where = tuple(places[i] for i in range(len(blocks)))
    sizes_of_groups = tuple((group.size, group.dtype) for group in groups)
    by_key, nbytes = KEYS in reductions, 8 * sum(sizes)
    columns = names, reductions, dtypes, shapes
    return Layout(text, call, settings, *columns, where, tuple(groups), sizes_of_groups, by_key, nbytes)


@functools.lru_cache(maxsize=256)
def layout_of(text: str) -> Layout:
    """Return the layout that a peer's text describes; ValueError or TypeError for invalid text."""
    call, blocks, settings = json.loads(text)
    if type(settings) is not str:
        raise ValueError(f"no digest is {settings!r}")
    for name, how, dtype, shape in blocks:
        if {type(name), type(how)} != {str} or dtype not in STATE_DTYPES.values():
            raise ValueError(f"no state is {name!r}, {how!r}, {dtype!r}")
        size_of(shape)
    entries = tuple((name, how, dtype, tuple(shape)) for name, how, dtype, shape in blocks)
    return _make_layout(call, entries, settings)


def describe(call: str, blocks: Sequence[Block | RowKeys], settings: str = "") -> Layout:
    """Return the layout of a caller's blocks; a block with rows by key is described by one row."""
    return _make_layout(call, tuple([block.entry for block in blocks]), settings and _digest_of(settings))


@functools.lru_cache(maxsize=256)
def _digest_of(settings: str) -> str:
    """The digest that a worker sends instead of its settings, which are nearly always equal on all workers."""
    return hashlib.sha256(settings.encode()).hexdigest()[:_DIGITS]


def with_rows(layout: Layout, keys: Mapping[str, int]) -> Layout:
    """The layout without its keys, and the number of keys: a block with rows by key has one more row."""
    found = []
    for name, how, dtype, shape in zip(layout.names, layout.reductions, layout.dtypes, layout.shapes):
        reduction, by, of = how.partition(BY)
        if how != KEYS:
            found.append((name, reduction, dtype, (keys[of] + 1, *shape) if by else shape))
    return _make_layout(layout.call, tuple(found))


# Bytes


def read_each(given: Iterable[_Given], read: Callable[[_Given], _Read], first: int = 0) -> list[_Read]:
    """Read the letters of the workers, from this rank on, and name the worker whose letter cannot be read."""
    found = []
    for rank, one in enumerate(given, first):
        try:
            found.append(read(one))
        except RecordError as error:
            text = f"the message from {ranks_text([rank])} cannot be read: {readable(str(error))}"
            raise RecordError(text) from fit_cause(error)
        except FleetMetricsError:
            raise
        except Exception as error:
            if by_a_handler(error):
                raise
            why = readable(f"{type(error).__name__}: {error}")
            raise CommunicatorError(
                f"the message from {ranks_text([rank])} cannot be read ({why}); do all workers run the same version "
                "of fleetmetrics?"
            ) from fit_cause(error)
    return found


def _type_of(name: str, dtype: Any) -> np.dtype[Any]:
    """The type that `packed` names; ValueError if the state's dtype does not fit: a cast would change numbers."""
    found = _TYPES[name]
    if (found.kind == "f") != (dtype == "float64"):
        raise ValueError(f"{name!r} numbers, but the state is {dtype}")
    return found


def combined_group(group: Group, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Combine the workers' arrays of a group."""
    if len(group.parts) == 1:
        return combined(group.parts[0][0], arrays)
    if group.size * len(arrays) > _IN_PYTHON:
        return np.concatenate(
            [combined(how, [array[start:end] for array in arrays]) for how, start, end in group.parts]
        )
    columns, found = [array.tolist() for array in arrays], []
    for how, start, end in group.parts:
        found += combine_few(how, [column[start:end] for column in columns])
    return np.array(found, group.dtype)


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


def pack(layout: Layout, arrays: Sequence[np.ndarray]) -> list[Buffer]:
    """Return the bytes of the blocks' arrays."""
    return _written([[arrays[i] for i in group.members] for group in layout.groups])


def packed(groups: Sequence[np.ndarray]) -> list[Buffer]:
    """The bytes of flat arrays, for `read_packed`, after the names of their types; integers are narrow."""
    return _written([[array] for array in groups])


def _written(groups: Sequence[Sequence[np.ndarray]]) -> list[Buffer]:
    """`packed` for groups whose members are still separate: cast large ones one by one, without joining them first."""
    names = b""
    parts: list[Buffer] = [b""]
    for members in groups:
        size = members[0].size
        if len(members) > 1:
            size = sum([array.size for array in members])
            members = members if size >= _WORTH_NARROWING * len(members) else [np.concatenate(members, axis=None)]
        dtype = members[0].dtype
        if size >= _WORTH_NARROWING and dtype.kind == "i":
            dtype = narrowest_of(members)
        names += _NAMES[dtype]
        if size < _WORTH_NARROWING:
            parts.append(members[0].tobytes())
        else:
            parts += [np.ascontiguousarray(array, dtype).data.cast("B") for array in members]
        if size * dtype.itemsize % _ALIGNMENT:
            parts.append(bytes(-size * dtype.itemsize % _ALIGNMENT))
    parts[0] = names + bytes(-len(names) % _ALIGNMENT)
    return parts


def read_packed(kinds: tuple[tuple[int, Any], ...], payload: Buffer) -> list[np.ndarray]:
    """The flat arrays of these sizes and dtypes, possibly still narrow; ValueError if the bytes hold others."""
    return _reader_of(kinds)(payload)


def _reader_of(kinds: tuple[tuple[int, Any], ...]) -> Callable[[Buffer], list[np.ndarray]]:
    """`read_packed` for many payloads; most name the same types, whose places are found once."""
    known: dict[bytes, Any] = {}

    def read(payload: Buffer) -> list[np.ndarray]:
        types = bytes(payload[: len(kinds)])
        if types not in known:
            known[types] = _places(kinds, types)
        places, size = known[types]
        if len(payload) != size:
            raise ValueError(f"{len(payload)} bytes, but the states take {size}")
        return [
            np.frombuffer(payload, dtype, count, start) if count else np.empty(0, dtype)
            for dtype, count, start in places
        ]

    return read


@functools.lru_cache(maxsize=256)
def _places(kinds: tuple[tuple[int, Any], ...], types: bytes) -> tuple[tuple[tuple[np.dtype[Any], int, int], ...], int]:
    """For each flat array with these type names: dtype, size, first byte; and the number of all bytes."""
    start, found = len(kinds) + -len(kinds) % _ALIGNMENT, []
    for name, (count, kind) in zip(types.decode(), kinds):
        dtype = _type_of(name, kind)
        found.append((dtype, count, start))
        start += count * dtype.itemsize + -count * dtype.itemsize % _ALIGNMENT
    if len(found) < len(kinds):
        raise ValueError(f"{len(found)} arrays, but there are {len(kinds)} states")
    return tuple(found), start


def unpack(layout: Layout, payload: Buffer) -> list[np.ndarray]:
    """Return the arrays of the blocks in the caller's order."""
    found = zip(read_packed(layout.kinds, payload), layout.groups)
    groups = [group if STATE_DTYPES.get(group.dtype) == dtype else group.astype(dtype) for group, (dtype, *_) in found]
    return [groups[group][start:end].reshape(shape) for (group, start, end), shape in zip(layout.places, layout.shapes)]


def reduced(layouts: Sequence[Layout], agreed: Layout, payloads: Sequence[Any]) -> list[Buffer]:
    """Reduce the workers' blocks; there is one layout for all workers, or one for each."""
    if layouts.count(agreed) == len(layouts):
        found = _columns(agreed, payloads)
        try:
            return packed([combined_group(group, arrays) for group, arrays in zip(agreed.groups, found)])
        except IntegerOverflowError:
            pass  # the code below names the state
    each = layouts if len(layouts) > 1 else itertools.repeat(agreed)
    columns = zip(*read_each(zip(each, payloads), lambda both: unpack(*both)))
    blocks = []
    for name, reduction, dtype, column in zip(agreed.names, agreed.reductions, agreed.dtypes, columns):
        try:
            blocks.append(combine(reduction, column).astype(dtype, copy=False))
        except IntegerOverflowError as error:
            raise IntegerOverflowError(f"{agreed.call}, state {name!r}: {error}") from None
    return pack(agreed, blocks)


def _columns(agreed: Layout, payloads: Sequence[Buffer]) -> list[list[np.ndarray]]:
    """For each group the arrays of all workers; if many send little data, narrow integers that are already summed."""
    found: list[list[np.ndarray]] = [[] for _ in agreed.groups]
    read, few = _reader_of(agreed.kinds), len(payloads) < _MANY
    for start in range(0, len(payloads), _MANY):
        some = payloads[start : start + _MANY]
        parts = None if few else _side_by_side(agreed, some)
        if parts is None:
            parts = [list(column) for column in zip(*read_each(some, read, start))]
        for column, part in zip(found, parts):
            column += part
    return found


def _side_by_side(agreed: Layout, payloads: Sequence[Buffer]) -> list[list[np.ndarray]] | None:
    """`_columns` for small payloads of the same types, and so of one size; None for others.

    NumPy reads them as the rows of one table, which fits into the processor's cache.
    """
    size, types = len(payloads[0]), bytes(payloads[0][: len(agreed.kinds)])
    if size > _SMALL or any([len(one) != size or one[: len(types)] != types for one in payloads]):
        return None
    places, whole = _places(agreed.kinds, types)
    if whole != size:
        return None
    table, rows = b"".join(payloads), len(payloads)
    return [
        _folded(group, np.ndarray((rows, count), dtype, table, start, (size, dtype.itemsize)))
        for group, (dtype, count, start) in zip(agreed.groups, places)
    ]


def _folded(group: Group, rows: np.ndarray) -> list[np.ndarray]:
    """A few arrays with the sums and extremes of these rows: one array of integers if no sum can overflow."""
    if rows.dtype.kind == "f" or not rows.size:
        return list(rows)
    found = []
    for how, start, end in group.parts:
        part = rows[:, start:end]
        if how != "sum":
            found.append(part.max(axis=0) if how == "max" else part.min(axis=0))
        elif rows.dtype.itemsize == 8 and not -_SUMMED < int(part.min()) <= int(part.max()) < _SUMMED:
            return list(rows)
        else:
            found.append(part.sum(axis=0, dtype=np.int32 if rows.dtype.itemsize <= 2 else np.int64))
    return [np.concatenate(found) if len(found) > 1 else found[0]]


def reduction(letters: Sequence[Letter]) -> Letter:
    """The answer to letters with states, which fit into one letter: they are reduced."""
    agreed, layouts = _agreed(letters)
    if agreed is None:
        return Letter(SETTINGS_DIFFER)
    note = None if len(layouts) == 1 else agreed.text
    return Letter(note, reduced(layouts, agreed, [letter.payload for letter in letters]))


def agreement(letters: Sequence[Letter]) -> Letter:
    """The answer to letters with layouts only: they agree, and the states follow."""
    agreed, layouts = _agreed(letters)
    if agreed is None:
        return Letter(SETTINGS_DIFFER)
    return Letter(None if len(layouts) == 1 else agreed.text)


def _agreed(letters: Sequence[Letter]) -> tuple[Layout | None, list[Layout]]:
    """The call of all workers, see `agree`, and `layouts_of` them."""
    layouts = layouts_of([letter.note for letter in letters])
    return agree(layouts), layouts


def split(data: Buffer, sizes: Sequence[int]) -> list[np.ndarray]:
    """Cut a buffer into parts of these sizes, in bytes; ValueError if it is not as long."""
    if any(size < 0 for size in sizes) or sum(sizes) != len(data):
        raise ValueError(f"{len(data)} bytes, but there are {sum(sizes)}")
    return np.split(np.frombuffer(data, np.uint8), np.cumsum(sizes)[:-1])


def divided(letter: Letter, number: int) -> list[Letter]:
    """The letters inside a letter whose note has their notes and sizes; otherwise ValueError."""
    notes, sizes = zip(*letter.note)
    if len(notes) != number:
        raise ValueError(f"{len(notes)} parts, but there are {number}")
    return [Letter(note, part.data) for note, part in zip(notes, split(joined(letter.payload), sizes))]


def written(letter: Letter) -> list[Buffer]:
    """A letter as bytes, a multiple of `LETTER_UNIT`; `letter_in` reads it."""
    note, payload = json.dumps(letter.note).encode(), letter.payload
    buffers = list(payload) if isinstance(payload, (list, tuple)) else [payload]
    size = sum(map(len, buffers))
    head = np.array([len(note), size]).tobytes()
    return [head, note, bytes(-len(note) % LETTER_UNIT), *buffers, bytes(-size % LETTER_UNIT)]


def letter_in(data: Buffer) -> Letter:
    """The letter in these bytes, with a writable view as payload; ValueError for anything else."""
    given = np.frombuffer(data if isinstance(data, memoryview) else bytearray(data), np.uint8)
    note, payload = given[:LETTER_UNIT].view(np.int64).tolist()
    start = LETTER_UNIT + note + -note % LETTER_UNIT
    if min(note, payload) < 0 or start + payload + -payload % LETTER_UNIT != len(given):
        raise ValueError(f"{len(given)} bytes, but a letter has {start + payload}")
    return Letter(json.loads(given[LETTER_UNIT : LETTER_UNIT + note].tobytes()), given[start : start + payload].data)


# Agreement


def layouts_of(notes: Sequence[Any]) -> list[Layout]:
    """The layouts that the workers' notes describe; a single one if all notes are equal, the usual case."""
    return read_each(notes[:1] if notes.count(notes[0]) == len(notes) else notes, layout_of)


def agree(layouts: Sequence[Layout]) -> Layout | None:
    """Check that the calls of all workers agree, except for dtypes that NumPy promotes; None: only settings differ."""
    first = layouts[0]
    if layouts.count(first) == len(layouts):
        return first
    if len({(layout.call, layout.names, layout.reductions, layout.shapes) for layout in layouts}) > 1:
        raise AgreementError(f"the workers disagree: {_difference(layouts)}.")
    if len({layout.settings for layout in layouts}) > 1:
        return None
    dtypes = [str(np.result_type(*column)) for column in zip(*[layout.dtypes for layout in layouts])]
    return _make_layout(first.call, tuple(zip(first.names, first.reductions, dtypes, first.shapes)), first.settings)


def check_settings(name: str, settings: Sequence[str]) -> None:
    """Raise an `AgreementError` that names a setting and the ranks if these strings, one per worker, differ."""
    other = next((rank for rank, text in enumerate(settings) if text != settings[0]), None)
    if other is None:
        return
    first, its = read_each([settings[0], settings[other]], json.loads)
    ranks = [rank for rank, text in enumerate(settings) if text == settings[other]]
    found = difference(first, its, here=f"on {ranks_text([0])}") or "they are written differently"
    raise AgreementError(
        f"{name}: the workers disagree on its settings: on {ranks_text(ranks)}, {found}. Give all workers the same; a"
        " custom class may list in `incidental` the arguments that cannot change the result."
    )


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
    """Merge the letters on rank 0; an `AgreementError` names the exchange in which workers disagree.

    Errors may quote the workers' letters, so their texts are escaped for a log.
    """
    try:
        notes = [letter.note for letter in letters]
        if len(set(calls)) > 1 or len({isinstance(note, str) for note in notes if note is not None}) > 1:
            raise AgreementError(f"the workers disagree: {by_rank(map(spoken, calls, notes))}.")
        return decide(letters)
    except FleetMetricsError as error:
        text = str(error)
        if isinstance(error, AgreementError):
            text = text.replace("the workers disagree:", f"the workers disagree at exchange {number}:", 1)
        if text == str(error) and fit_cause(error):
            raise
        raise named_error(type(error).__name__, text) from fit_cause(error)


def spoken(call: str, note: Any) -> str:
    """Describe a worker's call, for an error: with the states if the note describes them."""
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
    given = as_array(array, "array")
    if not is_plain(given.dtype) or given.dtype.kind not in _NUMBERS + "SU" or given.dtype.itemsize > WIDEST:
        raise InvalidInputError(
            f"array is of dtype {given.dtype}; allowed are numbers, booleans, and bytes or strings of fixed width, up "
            "to 16 MiB an element."
        )
    return np.asarray(given, dtype=given.dtype.newbyteorder("="), order="C")


def column_in(letter: Letter, most: int) -> tuple[int | None, str, list[int]]:
    """The source, dtype and shape of a peer's array; the letter holds its bytes unless they exceed ``most``."""
    source, dtype, shape = letter.note
    size, found = described_array(dtype, shape)[1], len(joined(letter.payload))
    if found != (size if size <= most else 0):
        raise ValueError(f"{found} bytes, but {dtype} of shape {list(shape)} was announced")
    return source, dtype, shape


def join(source: int | None, parts: Sequence[tuple[str, Sequence[int]]]) -> tuple[str, list[int]]:
    """Check that the workers' arrays can be joined; return their common dtype and sizes."""
    sizes = [described_array(dtype, shape)[1] for dtype, shape in parts]
    if source is not None:
        return parts[source][0], sizes
    dtypes = [np.dtype(dtype) for dtype, _ in parts]
    if len({"number" if dtype.kind in _NUMBERS else dtype.kind for dtype in dtypes}) > 1:
        raise AgreementError(f"the workers gather arrays that cannot be joined: {by_rank(map(str, dtypes))}.")
    if len({(len(shape), tuple(shape[1:])) for _, shape in parts}) > 1:
        what = by_rank(f"shape {list(shape)}" for _, shape in parts)
        raise AgreementError(f"the workers gather arrays that differ beyond the first axis: {what}.")
    # only the header gives the width of strings that never arrive
    heard = [dtype for dtype, size in zip(dtypes, sizes) if size or dtype.kind in _NUMBERS] or dtypes[:1]
    return functools.reduce(np.promote_types, heard).str, sizes
