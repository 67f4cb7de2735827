"""Values of any kind -> bytes and a layout that tells how to read them.

A list of values is a column. A column is packed by what all of its values are: numbers as one array, texts as one
text, arrays of one shape as one block; tuples, lists and dicts as columns of what is in them. So 100,000 records
take a few passes in C. Pickle takes what is left.
"""

from __future__ import annotations

import pickle
import struct
from functools import partial
from itertools import chain, compress, repeat
from operator import attrgetter, countOf, is_not, itemgetter, methodcaller
from typing import Any, Callable, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.serializer.layout import CONTAINERS, Packed, bytes_of, is_plain, no_collection, padded
from fleetmetrics.records.serializer.passes import Level, have_keys, numbered
from fleetmetrics.records.serializer.refusal import (
    DEPTH,
    PICKLE_PROTOCOL,
    refuse_depth,
    refuse_pickle,
    refuse_tensor,
    refuse_unpicklable,
)
from fleetmetrics.records.serializer.tensors import arrays_of
from fleetmetrics.xp import is_eager_tensor

__all__ = ["Packed", "pack", "pack_chunks"]

#: A container's places or keys get a column of their own until there are so many; it bounds the layout.
_COLUMNS = 256
#: More dtypes than this among the arrays of a column are written beside each array.
_FEW_DTYPES = 16
#: Arrays of so many bytes on average are sent from where they are, not copied into one block.
_LARGE = 4096
#: So many small arrays are copied in one go: each is in memory once more meanwhile.
_AT_ONCE = 4096
_DTYPE, _SHAPE = attrgetter("dtype"), attrgetter("shape")


def pack(values: Sequence[Any], allow_pickle: bool = True, what: str = "records") -> Packed:
    """Pack values of any kind; `unpack` returns equal ones of equal types.

    Args:
        values: one per sample, say. They must not change before the buffers have been sent.
        allow_pickle: whether values without an array form may be pickled.
        what: their name, for errors.

    Returns:
        The layout and the buffers, each padded to a multiple of 16 bytes.

    Raises:
        RecordError: if a value has no array form and may not or cannot be pickled, or contains itself.

    Examples:
        >>> packed = pack([{"score": 0.5, "label": 1}, {"score": 0.25, "label": 0}])
        >>> packed.layout
        [2, ['dict', ['score', 'label'], ['number', '<f8'], ['number', '|i1']]]
        >>> packed.nbytes
        32
    """
    records = values if type(values) is list else list(values)
    packer = _Packer(records, allow_pickle, what)
    with no_collection():
        return Packed([len(records), packer.column(records)], packer.buffers)


def pack_chunks(chunks: Sequence[np.ndarray]) -> Packed:
    """Join arrays along the first axis on the wire; `unpack_array` returns the whole.

    Args:
        chunks: arrays of one shape but for the first axis, at least one. Those that are contiguous and of the common
            dtype are not copied.

    Raises:
        InvalidInputError: if the shapes differ beyond the first axis, or the dtypes have nothing in common.

    Examples:
        >>> pack_chunks([np.zeros((2, 3), np.float32), np.ones((1, 3), np.float32)]).layout
        ['<f4', [3, 3]]
    """
    arrays = [np.asarray(chunk) for chunk in chunks]
    shapes = {array.shape[1:] if array.ndim else None for array in arrays}
    if len(shapes) != 1 or None in shapes:
        given = ", ".join(str(list(shape)) for shape in dict.fromkeys(array.shape for array in arrays))
        raise InvalidInputError(f"chunks have the shapes {given or '(none)'}; they must agree but for the first axis")
    dtypes = list(dict.fromkeys(array.dtype for array in arrays))
    try:
        common = dtypes[0] if len(dtypes) == 1 else np.result_type(*dtypes)
    except TypeError:
        common = np.dtype(object)
    if not is_plain(common):
        raise InvalidInputError(
            f"chunks are of {', '.join(map(str, dtypes))}; allowed are numbers, booleans, times, and bytes or text of"
            " fixed width, with a common dtype"
        )
    layout = [common.str, [sum(map(len, arrays)), *arrays[0].shape[1:]]]
    return Packed(layout, padded(bytes_of(array.astype(common, copy=False)) for array in arrays))


class _Packer:
    """Writes one column after the other. A method returns the column's layout, and appends its buffers.

    ``room`` is how many columns a container may be split into, ``above`` what the values lie in.
    """

    def __init__(self, records: list[Any], allow_pickle: bool, what: str) -> None:
        self.buffers: list[memoryview] = []
        self.allow_pickle = allow_pickle
        self._records, self._what = records, what
        self._acyclic = False

    def column(self, values: list[Any], room: int = _COLUMNS, above: tuple[Level, ...] = ()) -> list[Any]:
        if not values:
            return ["none"]
        kind = type(values[0])
        if countOf(map(type, values), kind) == len(values):
            packer = _packer_of(kind, values, room)
            return packer(self, values, room=room, above=above)
        present = bytes(map(is_not, values, repeat(None)))
        if 0 in present:
            self.put(present)
            return ["optional", self.column(list(compress(values, present)), room, above)]
        kinds, tags = numbered(map(type, values))
        if not kinds:  # hundreds of classes
            known = list(map(_PACKERS.__contains__, map(type, values)))
            again = partial(self.column, room=room, above=above)
            return self.split(values, known, again) if any(known) else self.pickled(values)
        packers = [_packer_of(kind, values, room - len(kinds)) for kind in kinds]
        different = list(dict.fromkeys(packers))
        share = room // len(different)
        groups = [partial(packer, self, room=share, above=above) for packer in different]
        return self.mixed(values, np.array(list(map(different.index, packers)), np.uint8)[tags], groups)

    def mixed(self, values: list[Any], tags: np.ndarray, packers: Sequence[Callable[..., list[Any]]]) -> list[Any]:
        """Values of several kinds: the tags tell which, and there is a packer for each of them."""
        if len(packers) == 1:
            return packers[0](values)
        self.put(tags.data)
        groups = (list(compress(values, (tags == tag).tobytes())) for tag in range(len(packers)))
        return ["mixed", *(packer(group) for packer, group in zip(packers, groups))]

    def split(self, values: list[Any], keys: list[Any], packer: Callable[..., list[Any]]) -> list[Any]:
        """Values whose keys differ, by key."""
        distinct, tags = numbered(keys)
        return self.mixed(values, tags, [packer] * len(distinct)) if distinct else self.pickled(values)

    def put(self, *buffers: Any) -> int:
        self.buffers += padded(buffers)
        return sum(map(len, buffers))

    def nones(self, values: list[Any], **_: Any) -> list[Any]:
        return ["none"]

    def bools(self, values: list[Any], **_: Any) -> list[Any]:
        self.put(bytes(values))
        return ["number", "|b1"]

    def integers(self, values: list[Any], **_: Any) -> list[Any]:
        try:
            wide = np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64)
        except struct.error:  # beyond 64 bits
            return ["big", self.texts(list(map(hex, values)))]
        low, high = int(wide.min()), int(wide.max())
        if low == high:
            return ["constant", low]
        bits = max(high, ~low).bit_length() + 1
        size = next(size for size in (1, 2, 4, 8) if bits <= 8 * size)
        narrow = wide.astype(f"i{size}", copy=False)
        self.put(bytes_of(narrow))
        return ["number", narrow.dtype.str]

    def floats(self, values: list[Any], **_: Any) -> list[Any]:
        self.put(struct.pack(f"{len(values)}d", *values))
        return ["number", np.dtype(float).str]

    def complexes(self, values: list[Any], **_: Any) -> list[Any]:
        self.put(bytes_of(np.array(values, complex)))
        return ["number", np.dtype(complex).str]

    def texts(self, values: list[Any], **_: Any) -> list[Any]:
        if len(values) > 256 and len(set(values[:256])) < 64:
            distinct, codes = numbered(values)
            if distinct:
                self.put(codes.data)
                return ["repeated", len(distinct), self.texts(distinct)]
        for separator in "\0\x1f":
            text = separator.join(values)
            if text.count(separator) == len(values) - 1:
                return ["text", self.put(text.encode("utf-8", "surrogatepass")), separator]
        size = self.put("".join(values).encode("utf-8", "surrogatepass"))
        return ["text", size, self.integers(list(map(len, values)))]

    def bytes(self, values: list[Any], **_: Any) -> list[Any]:
        return ["bytes", self.put(b"".join(values)), self.integers(list(map(len, values)))]

    def numpy_texts(self, values: list[Any], **_: Any) -> list[Any]:
        return ["numpy text", self.texts(values)]

    def numpy_bytes(self, values: list[Any], **_: Any) -> list[Any]:
        return ["numpy bytes", self.bytes(values)]

    def scalars(self, values: list[Any], **_: Any) -> list[Any]:
        for key in (type, _DTYPE):
            keys = list(map(key, values))
            if countOf(keys, keys[0]) < len(keys):
                return self.split(values, keys, self.scalars)
        dtype = values[0].dtype
        self.put(bytes_of(np.array(values, dtype)))
        # long long is another type than int64, though its dtype is equal.
        return ["scalar", dtype.char if dtype.char in "qQ" else dtype.str]

    def arrays(self, values: list[Any], **_: Any) -> list[Any]:
        plain = {dtype: is_plain(dtype) for dtype in set(map(_DTYPE, values))}
        if not any(plain.values()):
            return self.pickled(values)
        if not all(plain.values()):
            return self.split(values, list(map(plain.__getitem__, map(_DTYPE, values))), self.arrays)
        if len(plain) > _FEW_DTYPES:
            return self.motley(values)
        if len(plain) > 1:
            return self.split(values, list(map(_DTYPE, values)), self.arrays)
        dtype, shape = values[0].dtype.str, values[0].shape
        if countOf(map(_SHAPE, values), shape) == len(values):
            layout = ["arrays", dtype, list(shape)]
        else:
            layout = ["ragged", dtype, self.column(list(map(_SHAPE, values)))]
        if sum(map(attrgetter("nbytes"), values)) >= _LARGE * len(values):
            self.put(*map(bytes_of, values))
        else:
            step = min(_AT_ONCE, 2**20 * len(values) // (sum(map(attrgetter("nbytes"), values)) + 1) + 1)
            pieces = (values[start : start + step] for start in range(0, len(values), step))
            self.put(*[b"".join(map(np.ndarray.tobytes, piece)) for piece in pieces])
        return layout

    def motley(self, values: list[Any]) -> list[Any]:
        """Arrays of many dtypes, such as texts of many widths."""
        dtypes = self.texts([array.dtype.str for array in values])
        shapes = self.column(list(map(_SHAPE, values)))
        return ["motley", dtypes, shapes, self.bytes(list(map(np.ndarray.tobytes, values)))]

    def tensors(self, values: list[Any], **_: Any) -> list[Any]:
        dense = list(map(methodcaller("is_dense"), values))
        if not all(dense):
            refuse_tensor(values[dense.index(False)], self._records, self._what)
        dtypes = list(map(_DTYPE, values))
        if len(set(dtypes)) > 1:
            return self.split(values, dtypes, self.tensors)
        blocks, arrays = arrays_of(values)
        if not blocks:
            return ["tensors", str(dtypes[0]), self.arrays(arrays)]
        self.put(*map(bytes_of, blocks))
        return ["tensors", str(dtypes[0]), ["arrays", blocks[0].dtype.str, list(blocks[0].shape[1:])]]

    def tuples(self, values: list[Any], room: int, above: tuple[Level, ...]) -> list[Any]:
        return self._sequences("tuple", values, room, self._inside([], above))

    def lists(self, values: list[Any], room: int, above: tuple[Level, ...]) -> list[Any]:
        return self._sequences("list", values, room, self._inside(values, above))

    def _sequences(self, kind: str, values: list[Any], room: int, above: tuple[Level, ...]) -> list[Any]:
        width = len(values[0])
        if width > min(room, 16 * len(values)) or countOf(map(len, values), width) < len(values):
            return self._flattened(values, room, above)
        columns = (list(map(itemgetter(place), values)) for place in range(width))
        return [kind, *(self.column(column, room // width, above) for column in columns)]

    def dicts(self, values: list[Any], room: int, above: tuple[Level, ...]) -> list[Any]:
        above = self._inside(values, above)
        keys = list(values[0])
        if len(keys) <= min(room, 16 * len(values)) and have_keys(values, keys):
            columns = (list(map(itemgetter(key), values)) for key in keys)
            return ["dict", keys, *(self.column(column, room // len(keys), above) for column in columns)]
        if room < 2:
            return self._flattened(values, room, above)
        lengths = self.integers(list(map(len, values)))
        entries = (chain.from_iterable(values), chain.from_iterable(map(dict.values, values)))
        return ["dicts", lengths, *(self.column(list(each), room // 2, above) for each in entries)]

    def nested(self, values: list[Any], room: int, above: tuple[Level, ...]) -> list[Any]:
        """Containers of all kinds, where the layout has no room for a column for each."""
        mutable = [value for value in values if type(value) is not tuple]
        return self._flattened(values, room, self._inside(mutable, above))

    def _flattened(self, values: list[Any], room: int, above: tuple[Level, ...]) -> list[Any]:
        """All that is in the containers in one column; the keys and values of a dict take turns."""
        kinds = list(map(type, values))
        places = self.integers(list(map(CONTAINERS.index, kinds)))
        if dict in kinds:
            values = [list(chain.from_iterable(value.items())) if type(value) is dict else value for value in values]
        lengths = self.integers(list(map(len, values)))
        return ["nested", places, lengths, self.column(list(chain.from_iterable(values)), room, above)]

    def _inside(self, mutable: list[Any], above: tuple[Level, ...]) -> tuple[Level, ...]:
        """What the children of these lists or dicts lie in. A container in itself, which takes one, has no end."""
        if len(above) == DEPTH or (not self._acyclic and any(level.holds_any(mutable) for level in above)):
            refuse_depth(self._records, self._what)
            self._acyclic = True
        return (*above, Level(mutable))

    def pickled(self, values: list[Any], **_: Any) -> list[Any]:
        if not self.allow_pickle:
            refuse_pickle(values, self._records, self._what)
        try:
            return ["pickle", self.put(pickle.dumps(values, PICKLE_PROTOCOL))]
        except Exception as error:  # whatever a class does
            refuse_unpicklable(values, self._records, self._what, error)


_PACKERS: dict[type, Callable[..., list[Any]]] = {
    type(None): _Packer.nones,
    bool: _Packer.bools,
    int: _Packer.integers,
    float: _Packer.floats,
    complex: _Packer.complexes,
    str: _Packer.texts,
    bytes: _Packer.bytes,
    np.str_: _Packer.numpy_texts,
    np.bytes_: _Packer.numpy_bytes,
    **dict.fromkeys((np.dtype(char).type for char in "?bhilqBHILQefdgFDGmM"), _Packer.scalars),
    np.ndarray: _Packer.arrays,
    tuple: _Packer.tuples,
    list: _Packer.lists,
    dict: _Packer.dicts,
}


def _packer_of(kind: type, values: list[Any], room: int) -> Callable[..., list[Any]]:
    if kind in CONTAINERS and room <= 0:
        return _Packer.nested
    if kind in _PACKERS:
        return _PACKERS[kind]
    example = next(value for value in values if type(value) is kind)
    return _Packer.tensors if is_eager_tensor(example) else _Packer.pickled
