"""The serializer's other half: values read back, one column after the other.

A layout may hold anything: the serializer need not have written it. So the reader only allocates memory for bytes that
the payload really holds; only `FREE` values need no bytes.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import math
import pickle
import types
from collections import deque
from itertools import accumulate, chain, islice, repeat
from operator import countOf, mul, setitem
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from fleetmetrics.errors import FleetMetricsError, RecordError
from fleetmetrics.serial import PICKLE_TERMS, Payload, are_sizes

__all__ = ["FREE", "Reader"]

#: The number of values of a payload that may take no bytes, such as None or an empty list.
FREE = 2**18
#: The number of tensors made from one copy.
_AT_ONCE = 4096
_MAKERS = {"list": list, "tuple": tuple, "dict": dict}
#: Make an array from shape, dtype, buffer and offset.
_view: Any = np.ndarray


class Reader(Payload):
    """Reads one column after the other, with a method for each kind."""

    def __init__(self, payload: Any, allow_pickle: bool) -> None:
        super().__init__(payload)
        self.allow_pickle = allow_pickle
        self._free = FREE

    def read(self, column: Sequence[Any], count: int) -> list[Any]:
        values = _READERS[column[0]](self, count, *column[1:])
        if len(values) != count:
            raise RecordError(f"the payload holds {len(values)} values, but its layout says {count!r:.40}")
        return values

    def only(self, kind: type, column: Sequence[Any], count: int) -> list[Any]:
        """Read values; raise an error unless all are of this type."""
        values = self.read(column, count)
        if not {kind}.issuperset(map(type, values)):
            raise RecordError(f"a layout has a column of {kind.__name__} that holds other values")
        return values

    def free(self, count: int) -> int:
        """Return the number of values without bytes; raise an error if it exceeds what is left of `FREE`."""
        if not are_sizes([count]) or count > self._free:
            raise RecordError(f"a layout has {count!r:.40} values without bytes; {self._free} more may be")
        self._free -= count
        return count

    def sizes(self, column: Sequence[Any], count: int, total: int | None = None) -> list[int]:
        """The lengths of values, which have this total."""
        kind, content = column
        sizes = np.full(self.free(count), content) if kind == "constant" else self.look(content, (count,))
        most = len(self._payload) + FREE
        if kind not in ("constant", "number") or sizes.dtype.kind != "i" or sizes.min() < 0 or sizes.max() > most:
            raise RecordError(f"a layout has invalid lengths for {count!r:.40} entries")
        if total not in (None, int(sizes.sum(dtype=np.int64))):
            raise RecordError(f"a layout has {count!r:.40} lengths that are not those of {total!r:.40} entries")
        return sizes.tolist()

    def constant(self, count: int, value: Any) -> list[Any]:
        if type(value) is not int:
            raise RecordError(f"a layout has {value!r:.40} where it may have an integer")
        return [value] * self.free(count)

    def texts(self, count: int, size: int, lengths: Any) -> list[Any]:
        text = str(self.take(size).data, "utf-8", "surrogatepass")
        if lengths is None:
            return text.split("\0")
        ends = list(accumulate(self.sizes(lengths, count, len(text))))
        return list(map(text.__getitem__, map(slice, chain((0,), ends), ends)))

    def bytes(self, count: int, size: int, lengths: Sequence[Any]) -> list[Any]:
        read = io.BytesIO(self.take(size).tobytes()).read
        return list(map(read, self.sizes(lengths, count, size)))

    def arrays(self, count: int, dtype: str, shape: Sequence[int]) -> list[Any]:
        rows = self.array(dtype, (count, *shape))
        self.free(0 if rows.nbytes else count)
        return list(rows) if shape else list(map(rows.__getitem__, zip(range(count), repeat(...))))

    def ragged(self, count: int, dtype: str, shapes: Any) -> list[Any]:
        shapes_ = self.read(shapes, count)
        if countOf(map(type, chain.from_iterable(shapes_)), int) < sum(map(len, shapes_)):
            raise RecordError("a payload has invalid shapes of arrays")
        sizes = list(map(math.prod, shapes_))
        flat = self.array(dtype, (sum(sizes),))
        starts = map(mul, accumulate(chain((0,), sizes)), repeat(flat.itemsize))
        return list(map(_view, shapes_, repeat(flat.dtype), repeat(flat.view(np.uint8)), starts))

    def tensors(self, count: int, dtype: str, column: Sequence[Any]) -> list[Any]:
        kind, of_array, shape = column
        if kind == "arrays":
            arrays = [self.look(of_array, (count, *shape))]
            self.free(0 if arrays[0].nbytes else count)
        else:
            arrays = self.ragged(count, of_array, shape)
        if arrays[0].dtype.kind not in "biufc":
            raise RecordError(f"a layout says that tensors are made of {arrays[0].dtype}")
        try:
            return _tensors_of(arrays, dtype)
        except Exception as error:  # Paddle may raise anything
            raise RecordError(f"tensors of {dtype!r:.40} cannot be made: {type(error).__name__}: {error}") from error

    def of_torch(self, count: int, dtype: str, column: Sequence[Any]) -> list[Any]:
        arrays = self.only(np.ndarray, column, count)
        try:
            torch = importlib.import_module("torch")

            kind = getattr(torch, dtype.rpartition(".")[2])
            if not isinstance(kind, torch.dtype):
                raise TypeError(f"{dtype!r:.40} is no dtype")
            tensors = [torch.from_numpy(array if array.flags.writeable else array.copy()) for array in arrays]
            return tensors if tensors[0].dtype == kind else [tensor.view(kind) for tensor in tensors]
        except Exception as error:  # torch may be missing here, and raise anything
            text = f"{type(error).__name__}: {error}"
            raise RecordError(f"torch tensors of {dtype!r:.40} cannot be made: {text}") from error

    def rows(self, count: int, columns: Sequence[Any]) -> Iterator[Any]:
        children = [self.read(column, count) for column in columns]
        return zip(*children) if children else repeat((), self.free(count))

    def dicts(self, count: int, keys: Sequence[str], *columns: Any) -> list[Any]:
        if len(keys) != len(columns):
            raise RecordError(f"a layout has {len(keys)} keys for {len(columns)} columns")
        children = map(self.read, columns, repeat(count))
        first = list(islice(children, 1))  # read one column before allocating that number of dicts
        values = list(map(dict.copy, repeat(dict.fromkeys(keys), count if first else self.free(count))))
        for key, child in zip(keys, chain(first, children)):
            deque(map(setitem, values, repeat(key), child), maxlen=0)
        return values

    def nested(self, count: int, kind: str, lengths: Any, elements: Any) -> list[Any]:
        sizes = self.sizes(lengths, count)
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

    def pickle(self, count: int, size: int, digest: str) -> list[Any]:
        if not self.allow_pickle:
            raise RecordError(f"this payload holds a pickle, which may not be read here: {PICKLE_TERMS}")
        data = self.take(size).data
        if hashlib.sha256(data).hexdigest() != digest:
            raise RecordError("a pickle is not the one that its layout describes: its SHA-256 differs; it was not read")
        try:
            return pickle.loads(data)
        except FleetMetricsError:
            raise
        except Exception as error:
            raise RecordError(
                f"pickled records cannot be read: {type(error).__name__}: {error}. Their classes must be importable on"
                " every worker, under the same name"
            ) from error


#: What reads a column, by the word that it begins with; fixed, as the kinds of values that can be packed.
_READERS: Mapping[str, Any] = types.MappingProxyType(
    {
        "none": lambda reader, count: [None] * reader.free(count),
        "constant": Reader.constant,  # an integer
        "number": lambda reader, count, dtype: reader.look(dtype, (count,)).tolist(),
        "big": lambda reader, count, texts: list(map(int, reader.only(str, texts, count), repeat(16))),
        "scalar": lambda reader, count, dtype: list(reader.look(dtype, (count,))),
        "numpy text": lambda reader, count, texts: list(map(np.str_, reader.only(str, texts, count))),
        "numpy bytes": lambda reader, count, texts: list(map(np.bytes_, reader.only(bytes, texts, count))),
        "tuple": lambda reader, count, *columns: list(reader.rows(count, columns)),
        "list": lambda reader, count, *columns: list(map(list, reader.rows(count, columns))),
        "optional": Reader.optional,  # column of those that are not None, placed by flags
        "text": Reader.texts,  # size in bytes, column of lengths; None: separated by zeros
        "bytes": Reader.bytes,  # size, column of lengths
        "arrays": Reader.arrays,  # dtype, common shape
        "ragged": Reader.ragged,  # dtype, column of shapes
        "tensors": Reader.tensors,  # Paddle's dtype, column of arrays
        "torch": Reader.of_torch,  # torch's dtype, column of arrays
        "dict": Reader.dicts,  # keys, a column for each
        "nested": Reader.nested,  # kind of container, columns of lengths and elements; those of dicts are pairs
        "mixed": Reader.mixed,  # columns, interleaved by tags
        "pickle": Reader.pickle,  # size, SHA-256
    }
)


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
