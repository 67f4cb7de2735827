"""Arrays as bytes, with a layout that describes how to read them; and back, without a copy if possible.

Descriptions of arrays from peers and files are checked here, and nowhere else: `described_array`.

Every buffer is padded to a multiple of 16 bytes, so that arrays in an aligned payload are aligned.
"""

from __future__ import annotations

import functools
import math
import re
from contextlib import contextmanager
from itertools import accumulate
from operator import attrgetter
from typing import Any, Collection, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import FleetMetricsError, InvalidInputError, RecordError
from fleetmetrics.support.vocabulary import kind_in_words

#: The words of errors about pickles.
PICKLE_TERMS = (
    "a pickle needs both allow_pickle=True and authenticated workers (FLEETMETRICS_SECRET, if they are on several "
    "machines)"
)

_ALIGNMENT = 16
#: Even for an empty array, NumPy allocates an entry of the announced width.
WIDEST = 2**24
#: Every array has fewer entries than this.
_MOST = 2**60
_SIGNED = [(np.dtype(f"i{size}"), 2 ** (8 * size - 1) - 1) for size in (1, 2, 4, 8)]
#: The number of entries to scan at once for the narrowest type.
_GROUP = 2**17
_ZEROS = memoryview(bytes(_ALIGNMENT))
#: The dtypes of layouts, as NumPy writes them.
_DTYPES = re.compile(r"[<>|=]?([biufcSU]\d+|[mM]8(\[\w+\])?)|[?bhilqBHILQefdgFDG]")
#: The errors of reading if bytes and layout do not match.
MISFITS = (ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError)


class Packed(NamedTuple):
    """Values as bytes."""

    layout: Any  #: their types and sizes; fit for JSON, and small for any number of values
    buffers: list[memoryview]  #: their bytes, in order; views of large arrays

    @property
    def nbytes(self) -> int:
        """The size of all buffers."""
        return sum(map(attrgetter("nbytes"), self.buffers))


def narrowest(array: np.ndarray) -> np.ndarray:
    """Signed integers, at least one, in the narrowest type that holds all of them."""
    return array.astype(narrowest_of([array]), copy=False)


def narrowest_of(arrays: Sequence[np.ndarray]) -> np.dtype[Any]:
    """The narrowest type of all these signed integers; no array is empty."""
    low = high = 0
    for array in arrays:
        low = min(low, np.minimum.reduce(array, None).item())
        high = max(high, np.maximum.reduce(array, None).item())
    for dtype, most in _SIGNED:
        if ~most <= low and high <= most:
            return dtype
    return arrays[0].dtype


def small(array: np.ndarray) -> np.ndarray:
    """Integers of 64 bits in the narrowest type that holds all: most counts, and class labels, fit into a byte."""
    return narrowest(array) if array.dtype == np.int64 and array.size else array


def pack_arrays(arrays: Iterable[np.ndarray]) -> Packed:
    """Pack arrays; `unpack_arrays` returns them. They must not change before the buffers have been sent."""
    layout, buffers = [], []
    for array in arrays:
        if not is_plain(array.dtype):
            kind = kind_in_words(array.dtype)
            raise RecordError(f"an array of {kind} cannot be sent; allowed are numbers, bools and strings")
        layout.append([array.dtype.str, list(array.shape)])
        buffers += padded([bytes_of(array)])
    return Packed(layout, buffers)


def pack_chunks(chunks: Sequence[np.ndarray], narrow: bool = False) -> Packed:
    """Pack arrays that `unpack_arrays` returns as one, joined along the first axis; copies only what must be cast.

    ``narrow``: integers of 64 bits come back in the narrowest type that holds them all.

    Raises `InvalidInputError` without chunks, if the shapes differ beyond the first axis, or if no dtype fits all.
    """
    arrays = [np.asarray(chunk) for chunk in chunks]
    shapes = {array.shape[1:] if array.ndim else None for array in arrays}
    if len(shapes) != 1 or None in shapes:
        known = ", ".join(str(list(shape)) for shape in dict.fromkeys(array.shape for array in arrays))
        raise InvalidInputError(f"chunks have the shapes {known or '(none)'}; they may differ in the first axis only")
    dtypes = list(dict.fromkeys(array.dtype for array in arrays))
    try:
        common = dtypes[0] if len(dtypes) == 1 else np.result_type(*dtypes)
    except TypeError:
        common = np.dtype(object)
    if not is_plain(common):
        raise InvalidInputError(
            f"chunks are of {', '.join(map(kind_in_words, dtypes))}; allowed are numbers, booleans, times, and bytes "
            "or strings of fixed width, with a common dtype"
        )
    arrays = [array.astype(common, copy=False) for array in arrays]
    if narrow and common == np.int64:
        arrays = _narrowed(arrays)
    layout = [[arrays[0].dtype.str, [sum(map(len, arrays)), *arrays[0].shape[1:]]]]
    return Packed(layout, padded(map(bytes_of, arrays)))


def _narrowed(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Arrays with the same entries, of the narrowest type that holds them all; longer, if these are short."""
    narrow: list[np.ndarray] = []
    group = 0
    for last, size in enumerate(accumulate(array.size for array in arrays), 1):
        if last == len(arrays) or size >= (len(narrow) + 1) * _GROUP:
            narrow.append(small(np.concatenate(arrays[group:last]) if last > group + 1 else arrays[group]))
            if narrow[-1].dtype == np.int64:
                return arrays
            group = last
    dtype = max((array.dtype for array in narrow), key=attrgetter("itemsize"))
    return [array.astype(dtype, copy=False) for array in narrow]


def unpack_arrays(layout: Any, payload: Any) -> list[np.ndarray]:
    """Return the packed arrays, all writable: views of the payload if it is writable and aligned, else copies."""
    with misfits_named():
        data = Payload(payload)
        return [data.array(dtype, shape) for dtype, shape in layout]


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether the entries of an array are bytes of a fixed size, without references or fields."""
    return dtype.kind in "biufcmMSU" and dtype.itemsize > 0 and dtype.num < 24  # other packages' begin at 24


def bytes_of(array: np.ndarray) -> memoryview:
    """The bytes of an array in C order; a view if it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def are_sizes(numbers: Collection[Any]) -> bool:
    """Whether these are whole numbers of at least 0: a layout may hold anything."""
    return {int}.issuperset(map(type, numbers)) and min(numbers, default=0) >= 0


def size_of(shape: Any) -> int:
    """The number of entries of an array of an unchecked shape; ValueError or TypeError if it is not a shape."""
    if not are_sizes(shape) or max(shape, default=0) >= _MOST or math.prod(shape) >= _MOST:
        raise ValueError(f"no array has the shape {shape!r:.40}")
    return math.prod(shape)


def described_array(dtype: Any, shape: Any) -> tuple[np.dtype[Any], int]:
    """The dtype and the bytes of an array from an unchecked description; ValueError or TypeError if it is invalid."""
    kind = _dtype_of(dtype) if type(dtype) is str else None
    if kind is None or not is_plain(kind):
        raise ValueError(f"no array of bytes is of {dtype!r:.40}")
    size = size_of(shape) * kind.itemsize
    if kind.itemsize > max(size, WIDEST):
        raise ValueError(f"an empty array is of {dtype!r:.40}, and NumPy makes room for an entry of it")
    return kind, size


@functools.lru_cache(maxsize=64)
def _dtype_of(text: str) -> np.dtype[Any] | None:
    return np.dtype(text) if _DTYPES.fullmatch(text) else None


def padded(buffers: Iterable[Any]) -> list[memoryview]:
    """Views of the buffers, followed by zeros up to a multiple of 16 bytes."""
    views = [memoryview(buffer) for buffer in buffers if len(buffer)]
    padding = -sum(map(len, views)) % _ALIGNMENT
    return [*views, _ZEROS[:padding]] if padding else views


@contextmanager
def misfits_named() -> Iterator[None]:
    """Turn errors from reading bytes into a `RecordError`."""
    try:
        yield
    except FleetMetricsError:
        raise
    except MISFITS as error:
        raise RecordError(f"the payload does not belong to this layout: {type(error).__name__}: {error}") from error


class Payload:
    """Bytes that are read one buffer after the other."""

    def __init__(self, payload: Any) -> None:
        self._payload = np.frombuffer(payload, np.uint8)
        self._position = 0

    def take(self, size: int) -> np.ndarray:
        """The next buffer."""
        if not are_sizes([size]):
            raise RecordError(f"a layout says that a buffer has {size!r:.40} bytes")
        start, self._position = self._position, self._position + size + -size % _ALIGNMENT
        if self._position > len(self._payload):
            raise RecordError(
                f"the payload has {len(self._payload)} bytes, and its layout says at least {self._position}"
            )
        return self._payload[start : start + size]

    def look(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """The next array in place in the payload: possibly read-only or not aligned."""
        kind, size = described_array(dtype, shape)
        return self.take(size).view(kind).reshape(shape)

    def array(self, dtype: str, shape: Sequence[int]) -> np.ndarray:
        """The next array, writable and aligned."""
        array = self.look(dtype, shape)
        return array if array.flags.writeable and array.flags.aligned else array.copy()
