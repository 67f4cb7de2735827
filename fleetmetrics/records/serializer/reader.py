"""Bytes and the layout that tells how to read them -> values."""

from __future__ import annotations

import io
import math
import pickle
from collections import deque
from itertools import accumulate, chain, islice, repeat
from operator import mul, setitem
from typing import Any, Iterator, Sequence

import numpy as np

from fleetmetrics.errors import FleetMetricsError, RecordError
from fleetmetrics.records.serializer.layout import ALIGNMENT, is_plain, no_collection
from fleetmetrics.records.serializer.tensors import tensors_of_block, tensors_of_parts

__all__ = ["unpack", "unpack_array"]

#: What reading runs into where bytes and layout do not go together.
_MISFITS = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)
#: An array of shape, dtype, buffer and offset.
_view: Any = np.ndarray


def unpack(layout: Any, payload: Any, allow_pickle: bool = True) -> list[Any]:
    """Return the values that `pack` packed.

    Arrays are views of the payload if it is writable and aligned, else copies. All arrays are writable.

    Args:
        layout: from `pack`.
        payload: its buffers, joined: bytes, a bytearray, a memoryview or a uint8 array.
        allow_pickle: whether pickles in it may be read.

    Returns:
        A list of equal values of equal types; tensors are on the CPU, without a gradient.

    Raises:
        RecordError: if the payload is too short or of another layout, or holds a pickle that may not or cannot
            be read.

    Examples:
        >>> from fleetmetrics.records.serializer import pack
        >>> packed = pack([("cat", 0.5), ("dog", None)])
        >>> unpack(packed.layout, b"".join(packed.buffers))
        [('cat', 0.5), ('dog', None)]
    """
    try:
        count, column = layout
        with no_collection():
            return _Reader(payload, allow_pickle).read(column, count)
    except FleetMetricsError:
        raise
    except _MISFITS as error:
        raise RecordError(f"the payload does not belong to this layout: {type(error).__name__}: {error}") from error


def unpack_array(layout: Any, payload: Any) -> np.ndarray:
    """Return the joined array that `pack_chunks` packed.

    Args:
        layout: from `pack_chunks`.
        payload: its buffers, joined; the array is a view of it if it is writable and aligned, else a copy.

    Returns:
        An array [n, ...] that is writable.

    Raises:
        RecordError: if the payload is too short or of another layout.

    Examples:
        >>> import numpy as np
        >>> from fleetmetrics.records.serializer import pack_chunks
        >>> packed = pack_chunks([np.array([1, 2]), np.array([3])])
        >>> unpack_array(packed.layout, bytearray().join(packed.buffers))
        array([1, 2, 3])
    """
    try:
        dtype, shape = layout
        return _Reader(payload, allow_pickle=False).array(dtype, shape)
    except FleetMetricsError:
        raise
    except _MISFITS as error:
        raise RecordError(f"the payload does not belong to this layout: {type(error).__name__}: {error}") from error


class _Reader:
    """Reads one column after the other. Each method makes the values of one kind of column."""

    def __init__(self, payload: Any, allow_pickle: bool) -> None:
        self.payload = np.frombuffer(payload, np.uint8)
        self.allow_pickle = allow_pickle
        self.position = 0

    def read(self, column: Sequence[Any], count: int) -> list[Any]:
        values = _KINDS[column[0]](self, count, *column[1:])
        if len(values) != count:
            raise RecordError(f"the payload holds {len(values)} values where its layout says {count}")
        return values

    def take(self, size: int) -> np.ndarray:
        start, self.position = self.position, self.position + size + -size % ALIGNMENT
        if size < 0 or self.position > len(self.payload):
            raise RecordError(
                f"the payload has {len(self.payload)} bytes, and its layout says at least {self.position}"
            )
        return self.payload[start : start + size]

    def look(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """An array as it lies in the payload: perhaps read-only, perhaps not aligned."""
        kind = np.dtype(dtype)
        if not is_plain(kind):
            raise RecordError(f"a layout says that the payload holds {kind}, which is no array of bytes")
        return self.take(math.prod(shape) * kind.itemsize).view(kind).reshape(shape)

    def array(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        array = self.look(dtype, shape)
        return array if array.flags.writeable and array.flags.aligned else array.copy()

    def constants(self, count: int, value: Any = None) -> list[Any]:
        return [value] * count

    def optional(self, count: int, column: Sequence[Any]) -> list[Any]:
        present = np.flatnonzero(self.take(count)).tolist()
        values: list[Any] = [None] * count
        deque(map(setitem, repeat(values), present, self.read(column, len(present))), maxlen=0)
        return values

    def numbers(self, count: int, dtype: str) -> list[Any]:
        return self.look(dtype, (count,)).tolist()

    def big_integers(self, count: int, texts: Sequence[Any]) -> list[Any]:
        return list(map(int, self.read(texts, count), repeat(16)))

    def repeated(self, count: int, size: int, texts: Sequence[Any]) -> list[Any]:
        codes = self.take(count).tobytes()
        return list(map(self.read(texts, size).__getitem__, codes))

    def texts(self, count: int, size: int, parting: Any) -> list[Any]:
        text = str(self.take(size).data, "utf-8", "surrogatepass")
        if isinstance(parting, str):
            return text.split(parting)
        ends = list(accumulate(self.read(parting, count)))
        return list(map(text.__getitem__, map(slice, chain((0,), ends), ends)))

    def bytes(self, count: int, size: int, lengths: Sequence[Any]) -> list[Any]:
        read = io.BytesIO(self.take(size).tobytes()).read
        return list(map(read, self.read(lengths, count)))

    def numpy_texts(self, count: int, texts: Any) -> list[Any]:
        return list(map(np.str_, self.read(texts, count)))

    def numpy_bytes(self, count: int, texts: Any) -> list[Any]:
        return list(map(np.bytes_, self.read(texts, count)))

    def scalars(self, count: int, dtype: str) -> list[Any]:
        return list(self.look(dtype, (count,)))

    def arrays(self, count: int, dtype: str, shape: Sequence[int]) -> list[Any]:
        rows = self.array(dtype, (count, *shape))
        return list(rows) if shape else list(map(rows.__getitem__, zip(range(count), repeat(...))))

    def flat(self, count: int, dtype: str, shapes: Any) -> tuple[np.ndarray, list[Any], list[int]]:
        given = self.read(shapes, count)
        sizes = list(map(math.prod, given))
        return self.array(dtype, (sum(sizes),)), given, sizes

    def ragged(self, count: int, dtype: str, shapes: Any) -> list[Any]:
        flat, given, sizes = self.flat(count, dtype, shapes)
        starts = map(mul, accumulate(chain((0,), sizes)), repeat(flat.itemsize))
        return list(map(_view, given, repeat(flat.dtype), repeat(flat.view(np.uint8)), starts))

    def motley(self, count: int, dtypes: Any, shapes: Any, contents: Any) -> list[Any]:
        named = list(map(np.dtype, self.read(dtypes, count)))
        if not all(map(is_plain, set(named))):
            raise RecordError("the payload holds arrays that are no arrays of bytes")
        given = self.read(shapes, count)
        return list(map(_view, given, named, map(bytearray, self.read(contents, count))))

    def tensors(self, count: int, dtype: str, column: Sequence[Any]) -> list[Any]:
        kind, of_array, shapes = column
        if kind == "arrays":
            return tensors_of_block(self.look(of_array, (count, *shapes)), dtype)
        flat, given, _ = self.flat(count, of_array, shapes)
        return tensors_of_parts(flat, given, dtype)

    def rows(self, count: int, columns: Sequence[Any]) -> Iterator[Any]:
        children = [self.read(column, count) for column in columns]
        return zip(*children) if children else repeat((), count)

    def tuples(self, count: int, *columns: Any) -> list[Any]:
        return list(self.rows(count, columns))

    def lists(self, count: int, *columns: Any) -> list[Any]:
        return list(map(list, self.rows(count, columns)))

    def dicts(self, count: int, keys: Sequence[str], *columns: Any) -> list[Any]:
        if len(keys) != len(columns):
            raise RecordError(f"a layout has {len(keys)} keys for {len(columns)} columns")
        values = list(map(dict.copy, repeat(dict.fromkeys(keys), count)))
        for key, column in zip(keys, columns):
            deque(map(setitem, values, repeat(key), self.read(column, count)), maxlen=0)
        return values

    def ragged_dicts(self, count: int, lengths: Any, keys: Any, values: Any) -> list[Any]:
        sizes = self.read(lengths, count)
        parts = [map(islice, repeat(iter(self.read(column, sum(sizes)))), sizes) for column in (keys, values)]
        return list(map(dict, map(zip, *parts)))

    def nested(self, count: int, kinds: Any, lengths: Any, elements: Any) -> list[Any]:
        makers = map((list, tuple, _dict_of).__getitem__, self.read(kinds, count))
        sizes = self.read(lengths, count)
        parts = map(islice, repeat(iter(self.read(elements, sum(sizes)))), sizes)
        return [make(part) for make, part in zip(makers, parts)]

    def mixed(self, count: int, *columns: Any) -> list[Any]:
        tags = self.look("u1", (count,))
        counts = np.bincount(tags, minlength=len(columns)).tolist()
        children = [iter(self.read(column, size)) for column, size in zip(columns, counts)]
        return list(map(next, map(children.__getitem__, tags.tolist())))

    def pickle(self, count: int, size: int) -> list[Any]:
        if not self.allow_pickle:
            raise RecordError(
                "these records hold a pickle, and allow_pickle is False here; convert the records to arrays, or allow"
                " pickle on every worker"
            )
        try:
            return pickle.loads(self.take(size).data)
        except FleetMetricsError:
            raise
        except Exception as error:
            raise RecordError(
                f"pickled records cannot be read: {type(error).__name__}: {error}. Their classes must be importable on"
                " every worker, under the same name"
            ) from error


_KINDS: dict[str, Any] = {
    "none": _Reader.constants,  # no more
    "optional": _Reader.optional,  # column of those that are not None, among which flags choose
    "constant": _Reader.constants,  # value
    "number": _Reader.numbers,  # dtype: of Python's bools, ints, floats or complex numbers
    "big": _Reader.big_integers,  # column of hexadecimal texts
    "text": _Reader.texts,  # size in bytes, separator or column of lengths
    "repeated": _Reader.repeated,  # how many texts, column of texts
    "bytes": _Reader.bytes,  # size, column of lengths
    "numpy text": _Reader.numpy_texts,  # column of texts
    "numpy bytes": _Reader.numpy_bytes,  # column of bytes
    "scalar": _Reader.scalars,  # dtype: of NumPy's scalars
    "arrays": _Reader.arrays,  # dtype, common shape
    "ragged": _Reader.ragged,  # dtype, column of shapes
    "motley": _Reader.motley,  # columns of dtypes, shapes and bytes
    "tensors": _Reader.tensors,  # Paddle's dtype, column of arrays
    "tuple": _Reader.tuples,  # a column for each place
    "list": _Reader.lists,  # a column for each place
    "dict": _Reader.dicts,  # keys, a column for each
    "dicts": _Reader.ragged_dicts,  # columns of lengths, keys and values
    "nested": _Reader.nested,  # columns of positions in CONTAINERS, lengths and elements
    "mixed": _Reader.mixed,  # columns, among which tags choose
    "pickle": _Reader.pickle,  # size
}


def _dict_of(pairs: Iterator[Any]) -> dict[Any, Any]:
    return dict(zip(pairs, pairs))
