"""Values of any kind as bytes, with a layout for reading them back.

A list of values is a column, packed by the common type of its values: numbers as one array, texts as one text, arrays
of one shape as one block; tuples, lists and dicts as columns of their entries. So 100,000 records take a few passes in
C. Anything else is pickled.

A layout is a tree of lists, fit for JSON: ``[count, column]``, where a column is ``[kind, ...]``, with a kind of
`_READERS`. It holds dtypes, shapes, keys and sizes; the values are in the buffers, in the order of the tree.
"""

from __future__ import annotations

import contextlib
import gc
import io
import math
import pickle
import struct
from collections import deque
from functools import cached_property, partial
from itertools import accumulate, chain, compress, cycle, islice, repeat
from operator import attrgetter, countOf, eq, is_, is_not, itemgetter, methodcaller, mul, setitem
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence

import numpy as np

from fleetmetrics.errors import FleetMetricsError, RecordError
from fleetmetrics.records.arrays import Packed, Payload, bytes_of, is_plain, misfits_named, padded
from fleetmetrics.xp import is_eager_tensor

__all__ = ["pack", "unpack"]

#: The most columns that containers are split into altogether, to bound the layout.
_COLUMNS = 512
#: The deepest nesting of containers.
_DEPTH = 100
#: Arrays of this average size in bytes are sent without a copy, smaller ones as one block.
_LARGE = 4096
#: How many small arrays or tensors are copied at once.
_AT_ONCE = 4096
#: Tensors of more entries are moved one by one.
_FEW_ENTRIES = 1024
#: Python 3.8's highest.
_PICKLE_PROTOCOL = 5
_MAKERS = {"list": list, "tuple": tuple, "dict": dict}
_CONTAINERS = tuple(_MAKERS.values())
_DTYPE, _SHAPE, _NBYTES = attrgetter("dtype"), attrgetter("shape"), attrgetter("nbytes")
#: An array of shape, dtype, buffer and offset.
_view: Any = np.ndarray
_ALLOWED = (
    "records may hold None, bools, numbers, text, bytes, NumPy arrays and numbers, Paddle tensors,"
    " and tuples, lists and dicts of these"
)


def pack(values: Sequence[Any], allow_pickle: bool = True, what: str = "records") -> Packed:
    """Pack values of any kind; `unpack` returns equal ones of equal types.

    The values must not change before the buffers have been sent. Raises `RecordError`, which calls them ``what``, for
    one that has no array form and may not or cannot be pickled.

    Examples:
        >>> packed = pack([{"score": 0.5, "label": 1}, {"score": 0.25, "label": 0}])
        >>> packed.layout
        [2, ['dict', ['score', 'label'], ['number', '<f8'], ['number', '|i1']]]
        >>> packed.nbytes
        32
    """
    records = values if type(values) is list else list(values)
    packer = _Packer(records, allow_pickle, what)
    with _no_collection():
        return Packed([len(records), packer.column(records)], packer.buffers)


def unpack(layout: Any, payload: Any, allow_pickle: bool = True) -> list[Any]:
    """Return the values that `pack` packed; tensors are on the CPU, without a gradient.

    Arrays are writable, and views of the payload (the joined buffers) if that is writable and aligned. Raises
    `RecordError` if the payload does not match the layout, or holds a pickle that may not or cannot be read.

    Examples:
        >>> packed = pack([("cat", 0.5), ("dog", None)])
        >>> unpack(packed.layout, b"".join(packed.buffers))
        [('cat', 0.5), ('dog', None)]
    """
    with misfits_named(), _no_collection():
        count, column = layout
        return _Reader(payload, allow_pickle).read(column, count)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Pause garbage collection, which would walk over the growing values again and again for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Numbers(Dict[Any, int]):
    def __missing__(self, key: Any) -> int:
        self[key] = number = len(self)
        return number


def _numbered(keys: Iterable[Any]) -> tuple[list[Any], np.ndarray]:
    """The distinct keys in order of appearance, and the number of each key as a byte; empty if more than 256 differ."""
    numbers = _Numbers()
    try:
        codes = bytes(map(numbers.__getitem__, keys))
    except ValueError:  # does not fit into a byte
        return [], np.empty(0, np.uint8)
    return list(numbers), np.frombuffer(codes, np.uint8)


def _have_keys(dicts: list[Any], keys: list[Any]) -> bool:
    """Whether all dicts have these keys in this order, and JSON preserves them."""
    if countOf(map(len, dicts), len(keys)) < len(dicts) or not {str}.issuperset(map(type, keys)):
        return False
    if not "".join(keys).isprintable():  # JSON joins surrogates
        return False
    if all(map(is_, chain.from_iterable(dicts), cycle(keys))):
        return True
    of_one_type = {str}.issuperset(map(type, chain.from_iterable(dicts)))
    return of_one_type and all(map(eq, chain.from_iterable(dicts), cycle(keys)))


class _Level(List[Any]):
    """The lists or dicts that contain the values of a column."""

    @cached_property
    def _ids(self) -> set[int]:
        return set(map(id, self))

    def holds_any(self, values: list[Any]) -> bool:
        return bool(self) and not self._ids.isdisjoint(map(id, values))


class _Packer:
    """Writes one column after the other: a method appends the buffers of a column and returns its layout.

    ``above`` holds the containers of the values, level by level.
    """

    def __init__(self, records: list[Any], allow_pickle: bool, what: str) -> None:
        self.buffers: list[memoryview] = []
        self.room = _COLUMNS
        self.allow_pickle = allow_pickle
        self._records, self._what = records, what

    def column(self, values: list[Any], above: tuple[_Level, ...] = ()) -> list[Any]:
        if not values:
            return ["none"]
        kind = type(values[0])
        if countOf(map(type, values), kind) == len(values):
            return self.packer_of(kind, values, above)(self, values, above)
        present = bytes(map(is_not, values, repeat(None)))
        if 0 in present:
            self.put(present)
            return ["optional", self.column(list(compress(values, present)), above)]
        kinds, tags = _numbered(map(type, values))
        if not kinds:  # hundreds of classes
            return self.pickled(values)
        packers = [self.packer_of(kind, values, above) for kind in kinds]
        different = list(dict.fromkeys(packers))
        tags = np.array(list(map(different.index, packers)), np.uint8)[tags]
        return self.mixed(values, tags, [partial(packer, self, above=above) for packer in different])

    def packer_of(self, kind: type, values: list[Any], above: tuple[_Level, ...]) -> Callable[..., list[Any]]:
        if kind in _CONTAINERS:
            endless = len(above) == _DEPTH or any(level.holds_any(values) for level in above)
            return _Packer.pickled if endless or self.room <= 0 else _PACKERS[kind]
        if kind in _PACKERS:
            return _PACKERS[kind]
        example = next(value for value in values if type(value) is kind)
        return _Packer.tensors if is_eager_tensor(example) else _Packer.pickled

    def mixed(self, values: list[Any], tags: np.ndarray, packers: Sequence[Callable[..., list[Any]]]) -> list[Any]:
        """Values of several kinds, as the tags say, with a packer for each."""
        if len(packers) == 1:
            return packers[0](values)
        self.put(tags.data)
        self.room -= len(packers)
        groups = (list(compress(values, (tags == tag).tobytes())) for tag in range(len(packers)))
        return ["mixed", *(packer(group) for packer, group in zip(packers, groups))]

    def split(self, values: list[Any], keys: list[Any], packer: Callable[..., list[Any]]) -> list[Any]:
        """Values grouped by key."""
        distinct, tags = _numbered(keys)
        return self.mixed(values, tags, [packer] * len(distinct)) if distinct else self.pickled(values)

    def put(self, *buffers: Any) -> int:
        self.buffers += padded(buffers)
        return sum(map(len, buffers))

    def integers(self, values: list[Any], above: Any = ()) -> list[Any]:
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

    def structs(self, values: list[Any], char: str) -> list[Any]:
        self.put(struct.pack(f"{len(values)}{char}", *values))
        return ["number", np.dtype(char).str]

    def texts(self, values: list[Any], above: Any = ()) -> list[Any]:
        text = "\0".join(values)
        if text.count("\0") == len(values) - 1:
            return ["text", self.put(text.encode("utf-8", "surrogatepass")), None]
        size = self.put("".join(values).encode("utf-8", "surrogatepass"))
        return ["text", size, self.lengths(values)]

    def bytes(self, values: list[Any], above: Any = ()) -> list[Any]:
        return ["bytes", self.put(b"".join(values)), self.lengths(values)]

    def lengths(self, values: list[Any]) -> list[Any]:
        return self.integers(list(map(len, values)))

    def scalars(self, values: list[Any], above: Any = ()) -> list[Any]:
        kinds = list(map(type, values))
        if countOf(kinds, kinds[0]) < len(kinds):
            return self.split(values, kinds, self.scalars)
        self.put(bytes_of(np.array(values, values[0].dtype)))
        return ["scalar", values[0].dtype.char]  # not str: long long is not int64, though the dtypes are equal

    def arrays(self, values: list[Any], above: Any = ()) -> list[Any]:
        dtypes = list(map(_DTYPE, values))
        if countOf(dtypes, dtypes[0]) < len(dtypes):
            return self.split(values, dtypes, self.arrays)
        if not is_plain(dtypes[0]):
            return self.pickled(values)
        dtype, shape, nbytes = dtypes[0].str, values[0].shape, sum(map(_NBYTES, values))
        if countOf(map(_SHAPE, values), shape) == len(values):
            layout = ["arrays", dtype, list(shape)]
        else:
            layout = ["ragged", dtype, self.tuples(list(map(_SHAPE, values)))]
        if nbytes >= _LARGE * len(values):
            self.put(*map(bytes_of, values))
        else:
            step = min(_AT_ONCE, 2**20 * len(values) // (nbytes + 1) + 1)
            pieces = (values[start : start + step] for start in range(0, len(values), step))
            self.put(*[b"".join(map(np.ndarray.tobytes, piece)) for piece in pieces])
        return layout

    def tensors(self, values: list[Any], above: Any = ()) -> list[Any]:
        dense = list(map(methodcaller("is_dense"), values))
        if not all(dense):
            where, _ = self.first([values[dense.index(False)]])
            raise RecordError(f"{where} is a sparse or distributed tensor; records may hold dense ones of one worker")
        dtypes = list(map(_DTYPE, values))
        if len(set(dtypes)) > 1:
            return self.split(values, dtypes, self.tensors)
        blocks, arrays = _arrays_of(values)
        if not blocks:
            return ["tensors", str(dtypes[0]), self.arrays(arrays)]
        self.put(*map(bytes_of, blocks))
        return ["tensors", str(dtypes[0]), ["arrays", blocks[0].dtype.str, list(blocks[0].shape[1:])]]

    def tuples(self, values: list[Any], above: tuple[_Level, ...] = ()) -> list[Any]:
        return self.sequences("tuple", values, (*above, _Level()))

    def lists(self, values: list[Any], above: tuple[_Level, ...]) -> list[Any]:
        return self.sequences("list", values, (*above, _Level(values)))

    def sequences(self, kind: str, values: list[Any], above: tuple[_Level, ...]) -> list[Any]:
        width = len(values[0])
        if width > min(self.room, 16 * len(values)) or countOf(map(len, values), width) < len(values):
            return ["nested", kind, self.lengths(values), self.column(list(chain.from_iterable(values)), above)]
        self.room -= width
        columns = (list(map(itemgetter(place), values)) for place in range(width))
        return [kind, *(self.column(column, above) for column in columns)]

    def dicts(self, values: list[Any], above: tuple[_Level, ...]) -> list[Any]:
        above = (*above, _Level(values))
        keys = list(values[0])
        if len(keys) <= min(self.room, 16 * len(values)) and _have_keys(values, keys):
            self.room -= len(keys)
            columns = (list(map(itemgetter(key), values)) for key in keys)
            return ["dict", keys, *(self.column(column, above) for column in columns)]
        items = list(chain.from_iterable(map(dict.items, values)))
        return ["nested", "dict", self.lengths(values), self.tuples(items, above) if items else ["none"]]

    def pickled(self, values: list[Any], above: Any = ()) -> list[Any]:
        if not self.allow_pickle:
            where, value = self.first([value for value in values if type(value) not in _PACKERS] or values)
            too = " (nested too deeply or too unevenly, or in itself)" if type(value) in _CONTAINERS else ""
            raise RecordError(
                f"{where} is {_kind_of(value)}{too}, which has no array form; {_ALLOWED}. Convert it to arrays, or"
                " allow pickle"
            )
        try:
            return ["pickle", self.put(pickle.dumps(values, _PICKLE_PROTOCOL))]
        except Exception as error:  # classes may raise anything
            where, value = self.first([value for value in values if not _can_be_pickled(value)] or values)
            raise RecordError(
                f"{where} is {_kind_of(value)}, which cannot be pickled ({type(error).__name__}: {error}); {_ALLOWED}."
                " Convert it to arrays"
            ) from error

    def first(self, values: list[Any]) -> tuple[str, Any]:
        """The path to the first of these values in the records, and the value; slow, for errors only."""
        wanted, seen = set(map(id, values)), set()
        found = [(f"{self._what}[{index}]", record) for index, record in enumerate(self._records)][::-1]
        while found:
            path, value = found.pop()
            if id(value) in wanted:
                return path, value
            if type(value) in _CONTAINERS and id(value) not in seen:
                seen.add(id(value))
                items = list(value.items() if type(value) is dict else enumerate(value))
                for key, child in items[::-1]:
                    found.append((f"{path}[{key!r:.40}]", child))
                    if type(value) is dict:
                        found.append((f"{path}<key {key!r:.40}>", key))
        return f"something in {self._what}", values[0]


def _kind_of(value: Any) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{name} of dtype {value.dtype}" if type(value) is np.ndarray else name


def _can_be_pickled(value: Any) -> bool:
    with contextlib.suppress(Exception):  # classes may raise anything
        return bool(pickle.dumps(value, _PICKLE_PROTOCOL))
    return False


_PACKERS: dict[type, Callable[..., list[Any]]] = {
    type(None): lambda packer, values, above: ["none"],
    bool: lambda packer, values, above: packer.structs(values, "?"),
    int: _Packer.integers,
    float: lambda packer, values, above: packer.structs(values, "d"),
    str: _Packer.texts,
    bytes: _Packer.bytes,
    # pickle would drop zeros at the end of these two
    np.str_: lambda packer, values, above: ["numpy text", packer.texts(values)],
    np.bytes_: lambda packer, values, above: ["numpy bytes", packer.bytes(values)],
    **dict.fromkeys((np.dtype(char).type for char in "?bhilqBHILQefdgFDG"), _Packer.scalars),
    np.ndarray: _Packer.arrays,
    tuple: _Packer.tuples,
    list: _Packer.lists,
    dict: _Packer.dicts,
}


class _Reader(Payload):
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
    "optional": _Reader.optional,  # column of those that are not None, placed by flags
    "text": _Reader.texts,  # size in bytes, column of lengths; None: separated by zeros
    "bytes": _Reader.bytes,  # size, column of lengths
    "arrays": _Reader.arrays,  # dtype, common shape
    "ragged": _Reader.ragged,  # dtype, column of shapes
    "tensors": _Reader.tensors,  # Paddle's dtype, column of arrays
    "dict": _Reader.dicts,  # keys, a column for each
    "nested": _Reader.nested,  # kind of container, columns of lengths and elements; those of dicts are pairs
    "mixed": _Reader.mixed,  # columns, interleaved by tags
    "pickle": _Reader.pickle,  # size
}


# Dynamic tensors of Paddle, many at a time: one by one, 100,000 of them take over a second


def _arrays_of(tensors: Sequence[Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Move dense tensors of one dtype to the host; as integers of the same bits where NumPy lacks the dtype."""
    shapes = set(map(tuple, map(attrgetter("shape"), tensors)))
    if len(shapes) == 1 and 0 < math.prod(shapes.pop()) <= _FEW_ENTRIES:
        import paddle

        starts = range(0, len(tensors), _AT_ONCE)
        try:
            # Static mode cannot stack tensors, and automatic mixed precision could cast them.
            with paddle.base.dygraph.guard(), paddle.no_grad():
                return [paddle.stack(tensors[start : start + _AT_ONCE]).numpy() for start in starts], []
        except Exception:  # not every dtype can be stacked
            pass
    return [], list(map(methodcaller("numpy"), tensors))


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
