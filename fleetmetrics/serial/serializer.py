"""Values of any kind as bytes, with a layout for reading them back.

A list of values is a column, packed by the common type of its values: numbers as one array, strings as one string,
arrays of one shape as one block; tuples, lists and dicts as columns of their entries. So 100,000 records take a few
passes in C. Anything else is pickled, if allowed. msgpack goes value by value: it takes 4 to 8 times as long for small
arrays, tensors and tuples (which it turns into lists), and a third of the time for uneven lists and for None.

A layout is a tree of lists, fit for JSON: ``[count, column]``, where a column is ``[kind, ...]``; the kinds are
those of `fleetmetrics.serial.reader`. It holds dtypes, shapes, keys and sizes; the values are in the buffers, in the
order of the tree.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import math
import pickle
import struct
import sys
import types
from collections import defaultdict
from functools import cached_property, partial
from itertools import chain, compress, count, cycle, repeat
from operator import attrgetter, countOf, eq, is_, is_not, itemgetter, methodcaller
from typing import Any, Callable, Iterable, Iterator, List, Mapping, Sequence

import numpy as np

from fleetmetrics.errors import RecordError
from fleetmetrics.serial import PICKLE_TERMS, Packed, bytes_of, is_plain, misfits_named, padded
from fleetmetrics.serial.reader import FREE, Reader
from fleetmetrics.support.tensors import as_array, native
from fleetmetrics.xp import is_eager_tensor

__all__ = ["pack", "portable", "unpack"]

#: The most columns that containers are split into altogether, to bound the layout.
_COLUMNS = 512
#: The deepest nesting of containers.
_DEPTH = 100
#: Arrays of this average size in bytes are sent without a copy, smaller ones as one block.
_LARGE = 4096
#: The number of small arrays or tensors to copy at once.
_AT_ONCE = 4096
#: Tensors of more entries are moved one by one.
_FEW_ENTRIES = 1024
#: The highest protocol that every supported Python has.
_PICKLE_PROTOCOL = 5
_CONTAINERS = (list, tuple, dict)
_DTYPE, _SHAPE, _NBYTES = attrgetter("dtype"), attrgetter("shape"), attrgetter("nbytes")
_ALLOWED = (
    "allowed are None, bools, numbers, strings, bytes, NumPy arrays and numbers, tensors of Paddle and torch, what "
    "has __array__, and tuples, lists and dicts of these"
)


def pack(values: Sequence[Any], allow_pickle: bool = False, what: str = "records") -> Packed:
    """Pack values of any kind; `unpack` returns equal ones of equal types.

    The values must not change before the buffers have been sent. Raises a `RecordError`, which calls the values
    ``what``, for a value without an array form that may not or cannot be pickled.

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


def unpack(layout: Any, payload: Any, allow_pickle: bool = False) -> list[Any]:
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
        return Reader(payload, allow_pickle).read(column, count)


def portable(values: list[Any]) -> list[Any]:
    """The values as another worker would get them, so that one worker alone computes from the same.

    Those that `pack` sends unchanged stay the same objects. Raises a `RecordError` for a value that could not be sent.
    """
    if all(map(_stays, _examples_in(values))):
        return values
    packed = pack(values)
    return unpack(packed.layout, bytearray(b"".join(packed.buffers)))


def _examples_in(values: list[Any]) -> list[Any]:
    """One value of each class in values and their containers; of arrays and tensors, each that needs a look."""
    examples: dict[Any, Any] = {}
    for _ in range(_DEPTH):
        kinds = set(map(type, values))
        for kind in kinds - _PACKERS.keys():
            examples.update((id(value), value) for value in values if type(value) is kind)
        if np.ndarray in kinds:
            examples.update((value.dtype, value) for value in values if type(value) is np.ndarray)
        inner = {id(value): value for value in values if type(value) in _CONTAINERS}  # each once: some hold themselves
        if not inner:
            return list(examples.values())
        parts = (
            chain.from_iterable(container.items()) if type(container) is dict else container
            for container in inner.values()
        )
        values = list(chain.from_iterable(parts))
    return [values]  # too deep: not to be sent as it is


def _stays(value: Any) -> bool:
    """Whether another worker would get this value of a class without a packer, or this array, as it is."""
    return is_plain(value.dtype) if type(value) is np.ndarray else is_eager_tensor(value) and bool(value.is_dense())


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Pause garbage collection, which would scan the growing values again and again in vain."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _numbered(keys: Iterable[Any]) -> tuple[list[Any], np.ndarray]:
    """The distinct keys in order of appearance, and the number of each key as a byte; empty if more than 256 differ."""
    numbers: dict[Any, int] = defaultdict(count().__next__)
    try:
        codes = bytes(map(numbers.__getitem__, keys))
    except ValueError:  # the number does not fit into a byte
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


def _in_themselves(values: list[Any]) -> bool:
    """Whether a container contains itself; slow, only used for containers that are seen twice."""
    path: set[int] = set()
    done: set[int] = set()
    stack = [(value, False) for value in values]
    while stack:
        value, left = stack.pop()
        if left:
            path.remove(id(value))
            done.add(id(value))
        elif type(value) in _CONTAINERS and id(value) not in done:
            if id(value) in path:
                return True
            path.add(id(value))
            children = chain.from_iterable(value.items()) if type(value) is dict else value
            stack += [(value, True), *((child, False) for child in children)]
    return False


class _Packer:
    """Writes one column after the other: a method appends the buffers of a column and returns its layout.

    ``above`` holds the containers of the values, level by level.
    """

    def __init__(self, records: list[Any], allow_pickle: bool, what: str) -> None:
        self.buffers: list[memoryview] = []
        self.room = _COLUMNS
        self._free = FREE
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
        if not kinds:  # there are hundreds of classes
            return self.pickled(values)
        packers = [self.packer_of(kind, values, above) for kind in kinds]
        different = list(dict.fromkeys(packers))
        tags = np.array(list(map(different.index, packers)), np.uint8)[tags]
        return self.mixed(values, tags, [partial(packer, self, above=above) for packer in different])

    def packer_of(self, kind: type, values: list[Any], above: tuple[_Level, ...]) -> Callable[..., list[Any]]:
        if kind in _CONTAINERS:
            perhaps = any(level.holds_any(values) for level in above)
            endless = len(above) == _DEPTH or (perhaps and _in_themselves(values))
            return _Packer.pickled if endless or self.room <= 0 else _PACKERS[kind]
        if kind in _PACKERS:
            return _PACKERS[kind]
        example = next(value for value in values if type(value) is kind)
        if is_eager_tensor(example):
            return _Packer.tensors
        torch = sys.modules.get("torch")
        if torch is not None and issubclass(kind, torch.Tensor):
            return _Packer.of_torch
        return _Packer.with_array if hasattr(kind, "__array__") and not self.allow_pickle else _Packer.pickled

    def mixed(self, values: list[Any], tags: np.ndarray, packers: Sequence[Callable[..., list[Any]]]) -> list[Any]:
        """Values of several kinds, named by tags, with a packer for each."""
        if len(packers) == 1:
            return packers[0](values)
        self.put(tags.data)
        self.room -= len(packers)
        groups = (list(compress(values, (tags == tag).tobytes())) for tag in range(len(packers)))
        return ["mixed", *(packer(group) for packer, group in zip(packers, groups))]

    def split(self, values: list[Any], keys: list[Any], packer: Callable[..., list[Any]]) -> list[Any]:
        """Values grouped by key."""
        distinct, tags = _numbered(keys)
        if not distinct and self.room > 0:  # there are hundreds of keys: each half has fewer
            distinct, tags = [0, 1], np.repeat(np.array([0, 1], np.uint8), [len(values) // 2, -(-len(values) // 2)])
        return self.mixed(values, tags, [packer] * len(distinct)) if distinct else self.pickled(values)

    def free(self, count: int) -> bool:
        """Whether that number of values may still come without bytes; the reader counts likewise."""
        may = count <= self._free
        self._free -= count if may else 0
        return may

    def nones(self, values: list[Any], above: Any = ()) -> list[Any]:
        if self.free(len(values)):
            return ["none"]
        self.put(bytes(len(values)))
        return ["optional", ["none"]]

    def put(self, *buffers: Any) -> int:
        self.buffers += padded(buffers)
        return sum(map(len, buffers))

    def integers(self, values: list[Any], above: Any = ()) -> list[Any]:
        try:
            wide = np.frombuffer(struct.pack(f"{len(values)}q", *values), np.int64)
        except struct.error:  # the number exceeds 64 bits
            return ["big", self.texts(list(map(hex, values)))]
        low, high = int(wide.min()), int(wide.max())
        if low == high and self.free(len(values)):
            return ["constant", low]
        bits = max(high, ~low).bit_length() + 1
        size = next(size for size in (1, 2, 4, 8) if bits <= 8 * size)
        narrow = wide.astype(f"i{size}", copy=False)
        self.put(bytes_of(narrow))
        return ["number", narrow.dtype.str]

    def numbers(self, values: list[Any], above: Any = (), *, kind: type) -> list[Any]:
        array: np.ndarray = np.fromiter(values, kind, len(values))
        self.put(bytes_of(array))
        return ["number", array.dtype.str]

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
        dtype = values[0].dtype
        times = dtype.kind in "mM"
        kinds = list(map(_DTYPE if times else type, values))
        if countOf(kinds, kinds[0]) < len(kinds):
            return self.split(values, kinds, self.scalars)
        self.put(bytes_of(np.array(values, dtype)))
        return ["scalar", dtype.str if times else dtype.char]  # long long is not int64, though the dtypes are equal

    def arrays(self, values: list[Any], above: Any = ()) -> list[Any]:
        dtypes = list(map(_DTYPE, values))
        if countOf(dtypes, dtypes[0]) < len(dtypes):
            return self.split(values, dtypes, self.arrays)
        if not is_plain(dtypes[0]):
            wide = native(values[0]).dtype
            return self.pickled(values) if wide == dtypes[0] else self.arrays([value.astype(wide) for value in values])
        dtype, shape, nbytes = dtypes[0].str, values[0].shape, sum(map(_NBYTES, values))
        if countOf(map(_SHAPE, values), shape) == len(values) and (nbytes or self.free(len(values))):
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

    def of_torch(self, values: list[Any], above: Any = ()) -> list[Any]:
        """Tensors of torch; those of a dtype that NumPy lacks as integers of the same bits."""
        dtypes = list(map(_DTYPE, values))
        if len(set(dtypes)) > 1:
            return self.split(values, dtypes, self.of_torch)
        torch = sys.modules["torch"]
        bits = {1: torch.uint8, 2: torch.int16}.get(dtypes[0].itemsize) if _is_foreign(dtypes[0]) else None
        arrays = []
        for value in values:
            try:
                there = value.detach().cpu().contiguous()
                arrays.append((there if bits is None else there.view(bits)).numpy())
            except Exception as error:  # sparse ones, and those without values
                where, _ = self.first([value])
                text = str(error).partition("\n")[0]
                raise RecordError(f"{where} is a torch tensor without an array form: {text}") from None
        return ["torch", str(dtypes[0]), self.arrays(arrays)]

    def with_array(self, values: list[Any], above: Any = ()) -> list[Any]:
        """Objects that say what their array is, such as pandas' columns and images, as that array."""
        arrays = []
        for value in values:
            try:
                array = np.empty(0, object) if np.ma.is_masked(value) else as_array(value, "a record")
            except Exception:  # whatever __array__ raises
                array = np.empty(0, object)
            if array.dtype == object:
                return self.pickled([value])
            arrays.append(array)
        return self.arrays(arrays)

    def tuples(self, values: list[Any], above: tuple[_Level, ...] = ()) -> list[Any]:
        return self.sequences("tuple", values, (*above, _Level()))

    def lists(self, values: list[Any], above: tuple[_Level, ...]) -> list[Any]:
        return self.sequences("list", values, (*above, _Level(values)))

    def sequences(self, kind: str, values: list[Any], above: tuple[_Level, ...]) -> list[Any]:
        width = len(values[0])
        uneven = width > min(self.room, 16 * len(values)) or countOf(map(len, values), width) < len(values)
        if uneven or not (width or self.free(len(values))):
            return ["nested", kind, self.lengths(values), self.column(list(chain.from_iterable(values)), above)]
        self.room -= width
        columns = (list(map(itemgetter(place), values)) for place in range(width))
        return [kind, *(self.column(column, above) for column in columns)]

    def dicts(self, values: list[Any], above: tuple[_Level, ...]) -> list[Any]:
        above = (*above, _Level(values))
        keys = list(values[0])
        even = len(keys) <= min(self.room, 16 * len(values)) and _have_keys(values, keys)
        if even and (keys or self.free(len(values))):
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
                f"{where} is {_kind_of(value)}{too}, which has no array form; {_ALLOWED}. Convert it to arrays:"
                f" {PICKLE_TERMS}"
            )
        try:
            data = pickle.dumps(values, _PICKLE_PROTOCOL)
        except Exception as error:  # classes may raise anything
            where, value = self.first([value for value in values if not _can_be_pickled(value)] or values)
            raise RecordError(
                f"{where} is {_kind_of(value)}, which cannot be pickled ({type(error).__name__}: {error}); {_ALLOWED}"
                " Convert it to arrays"
            ) from error
        return ["pickle", self.put(data), hashlib.sha256(data).hexdigest()]

    def first(self, values: list[Any]) -> tuple[str, Any]:
        """The path to the first of these values in the records, and the value; slow, for errors only."""
        wanted, seen = set(map(id, values)), set()
        stack = [(f"{self._what}[{index}]", record) for index, record in enumerate(self._records)][::-1]
        while stack:
            path, value = stack.pop()
            if id(value) in wanted:
                return path, value
            if type(value) in _CONTAINERS and id(value) not in seen:
                seen.add(id(value))
                items = list(value.items() if type(value) is dict else enumerate(value))
                for key, child in items[::-1]:
                    stack.append((f"{path}[{key!r:.40}]", child))
                    if type(value) is dict:
                        stack.append((f"{path}<key {key!r:.40}>", key))
        return f"something in {self._what}", values[0]


def _is_foreign(dtype: Any) -> bool:
    """Whether NumPy lacks a floating dtype of torch."""
    return any(name in str(dtype) for name in ("bfloat16", "float8", "float4"))


def _kind_of(value: Any) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{name} of dtype {value.dtype}" if type(value) is np.ndarray else name


def _can_be_pickled(value: Any) -> bool:
    with contextlib.suppress(Exception):  # classes may raise anything
        return bool(pickle.dumps(value, _PICKLE_PROTOCOL))
    return False


#: What packs the values of a type; fixed, since the workers of a job must read what any of them packs.
_PACKERS: Mapping[type, Callable[..., list[Any]]] = types.MappingProxyType(
    {
        type(None): _Packer.nones,
        **{kind: partial(_Packer.numbers, kind=kind) for kind in (bool, float, complex)},
        int: _Packer.integers,
        str: _Packer.texts,
        bytes: _Packer.bytes,
        # pickle would drop zeros at the end of these two
        np.str_: lambda packer, values, above: ["numpy text", packer.texts(values)],
        np.bytes_: lambda packer, values, above: ["numpy bytes", packer.bytes(values)],
        **dict.fromkeys((np.dtype(char).type for char in "?bhilqBHILQefdgFDGmM"), _Packer.scalars),
        np.ndarray: _Packer.arrays,
        tuple: _Packer.tuples,
        list: _Packer.lists,
        dict: _Packer.dicts,
    }
)


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
