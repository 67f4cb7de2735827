"""The serializer's other half: values read back, one column after the other."""

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
from fleetmetrics.serial import Payload

__all__ = ["Reader"]

#: How many tensors are made of one copy.
_AT_ONCE = 4096
_MAKERS = {"list": list, "tuple": tuple, "dict": dict}
#: An array of shape, dtype, buffer and offset.
_view: Any = np.ndarray


class Reader(Payload):
    """Reads one column after the other, with a method for each kind."""

    def __init__(self, payload: Any, allow_pickle: bool) -> None:
        super().__init__(payload)
        self.allow_pickle = allow_pickle

    def read(self, column: Sequence[Any], count: int) -> list[Any]:
        values = _READERS[column[0]](self, count, *column[1:])
        if len(values) != count:
            raise RecordError(f"the payload holds {len(values)} values where its layout says {count}")
        return values

    def texts(self, count: int, size: int, lengths: Any) -> list[Any]:
        text = str(self.take(size).data, "utf-8", "surrogatepass")
        if lengths is None:
            return text.split("\0")
        ends = list(accumulate(self.read(lengths, count)))
        return list(map(text.__getitem__, map(slice, chain((0,), ends), ends)))

    def bytes(self, count: int, size: int, lengths: Sequence[Any]) -> list[Any]:
        read = io.BytesIO(self.take(size).tobytes()).read
        return list(map(read, self.read(lengths, count)))

    def arrays(self, count: int, dtype: str, shape: Sequence[int]) -> list[Any]:
        rows = self.array(dtype, (count, *shape))
        return list(rows) if shape else list(map(rows.__getitem__, zip(range(count), repeat(...))))

    def ragged(self, count: int, dtype: str, shapes: Any) -> list[Any]:
        given = self.read(shapes, count)
        sizes = list(map(math.prod, given))
        flat = self.array(dtype, (sum(sizes),))
        starts = map(mul, accumulate(chain((0,), sizes)), repeat(flat.itemsize))
        return list(map(_view, given, repeat(flat.dtype), repeat(flat.view(np.uint8)), starts))

    def tensors(self, count: int, dtype: str, column: Sequence[Any]) -> list[Any]:
        kind, of_array, shape = column
        if kind == "arrays":
            return _tensors_of([self.look(of_array, (count, *shape))], dtype)
        return _tensors_of(self.ragged(count, of_array, shape), dtype)

    def rows(self, count: int, columns: Sequence[Any]) -> Iterator[Any]:
        children = [self.read(column, count) for column in columns]
        return zip(*children) if children else repeat((), count)

    def dicts(self, count: int, keys: Sequence[str], *columns: Any) -> list[Any]:
        if len(keys) != len(columns):
            raise RecordError(f"a layout has {len(keys)} keys for {len(columns)} columns")
        values = list(map(dict.copy, repeat(dict.fromkeys(keys), count)))
        for key, column in zip(keys, columns):
            deque(map(setitem, values, repeat(key), self.read(column, count)), maxlen=0)
        return values

    def nested(self, count: int, kind: str, lengths: Any, elements: Any) -> list[Any]:
        sizes = self.read(lengths, count)
        parts = map(islice, repeat(iter(self.read(elements, sum(sizes)))), sizes)
        return list(map(_MAKERS[kind], parts))

    def optional(self, count: int, column: Sequence[Any]) -> list[Any]:
        places = np.flatnonzero(self.take(count)).tolist()
        values: list[Any] = [None] * count
        deque(map(setitem, repeat(values), places, self.read(column, len(places))), maxlen=0)
        return values

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


_READERS: dict[str, Any] = {
    "none": lambda reader, count: [None] * count,
    "constant": lambda reader, count, value: [value] * count,
    "number": lambda reader, count, dtype: reader.look(dtype, (count,)).tolist(),
    "big": lambda reader, count, texts: list(map(int, reader.read(texts, count), repeat(16))),
    "scalar": lambda reader, count, dtype: list(reader.look(dtype, (count,))),
    "numpy text": lambda reader, count, texts: list(map(np.str_, reader.read(texts, count))),
    "numpy bytes": lambda reader, count, texts: list(map(np.bytes_, reader.read(texts, count))),
    "tuple": lambda reader, count, *columns: list(reader.rows(count, columns)),
    "list": lambda reader, count, *columns: list(map(list, reader.rows(count, columns))),
    "optional": Reader.optional,  # column of those that are not None, placed by flags
    "text": Reader.texts,  # size in bytes, column of lengths; None: separated by zeros
    "bytes": Reader.bytes,  # size, column of lengths
    "arrays": Reader.arrays,  # dtype, common shape
    "ragged": Reader.ragged,  # dtype, column of shapes
    "tensors": Reader.tensors,  # Paddle's dtype, column of arrays
    "dict": Reader.dicts,  # keys, a column for each
    "nested": Reader.nested,  # kind of container, columns of lengths and elements; those of dicts are pairs
    "mixed": Reader.mixed,  # columns, interleaved by tags
    "pickle": Reader.pickle,  # size
}


def _tensors_of(arrays: Sequence[np.ndarray], dtype: str) -> list[Any]:
    """Tensors on the CPU: one per array, or per row of a single array."""
    import paddle

    # Static mode has no tensors, and a GPU build would put them on the GPU.
    with paddle.base.dygraph.guard(paddle.CPUPlace()):
        if len(arrays) > 1:
            tensors = list(map(paddle.to_tensor, arrays))
        else:
            block = arrays[0]
            parts = [block[start : start + _AT_ONCE] for start in range(0, len(block), _AT_ONCE)]
            tensors = [tensor for part in parts for tensor in paddle.unbind(paddle.to_tensor(part))]
        # Asking a tensor for its dtype takes longer than making it.
        if str(tensors[0].dtype) == dtype:
            return tensors
        return [tensor.view(dtype.split(".")[-1]) for tensor in tensors]
