"""What `pack` and `unpack` share: the words of a layout, padding, and the bytes of an array.

A layout is a tree of lists, fit for JSON: ``[count, column]``, where a column is ``[kind, ...]``. It names no more
than dtypes, shapes, keys and sizes; all that grows with the number of values is in the buffers, in the order of
the tree. Every buffer is padded to a multiple of 16 bytes, so that arrays in an aligned payload are aligned.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Iterable, Iterator, NamedTuple

import numpy as np

__all__ = ["ALIGNMENT", "CONTAINERS", "Packed", "bytes_of", "is_plain", "no_collection", "padded"]

#: Buffers are padded to a multiple of this many bytes: the largest alignment of a dtype.
ALIGNMENT = 16
#: The containers that are taken apart; a column of several kinds of them holds positions in this tuple.
CONTAINERS = (list, tuple, dict)
_ZEROS = memoryview(bytes(ALIGNMENT))


class Packed(NamedTuple):
    """Values as bytes.

    Args:
        layout: what they are; fit for JSON, and small whatever their number.
        buffers: their bytes, in order; without a copy where they lie in a large array.
    """

    layout: Any
    buffers: list[memoryview]

    @property
    def nbytes(self) -> int:
        """The size of all buffers."""
        return sum(map(attrgetter("nbytes"), self.buffers))


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether the entries of an array are bytes of a fixed size, without references or fields.

    Args:
        dtype: NumPy's; those of other packages are not plain.
    """
    return dtype.kind in "biufcmMSU" and dtype.itemsize > 0 and dtype.num < 24


def bytes_of(array: np.ndarray) -> memoryview:
    """The bytes of an array, in C order; without a copy if it is contiguous.

    Args:
        array: of any plain dtype.
    """
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def padded(buffers: Iterable[Any]) -> list[memoryview]:
    """Views of buffers, and zeros up to a multiple of 16 bytes.

    Args:
        buffers: bytes or views of bytes.
    """
    views = [memoryview(buffer) for buffer in buffers if len(buffer)]
    padding = -sum(map(len, views)) % ALIGNMENT
    return [*views, _ZEROS[:padding]] if padding else views


@contextmanager
def no_collection() -> Iterator[None]:
    """No search for garbage meanwhile: it would walk over the growing values again and again, and find none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
