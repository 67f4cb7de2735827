"""What is packed comes back: equal values of equal types, down to the bits, from few bytes and without copies."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import gc
import json
import math
import os
import pickle
import random
import struct
import subprocess
import sys
import threading
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fleetmetrics.errors import InvalidInputError, RecordError
from fleetmetrics.serial import Packed, described_array, pack_chunks, reader, serializer, unpack_arrays
from fleetmetrics.serial.serializer import pack, unpack
from tests.paddle_version import PIR

QUIET_NAN = math.nan
ODD_NAN = struct.unpack("d", struct.pack("Q", 0x7FF4_0000_DEAD_BEEF))[0]
NATIVE = [*"?bhiqlBHIQLefdgFDG", "M8[ns]", "M8[25s]", "M8", "m8[us]", "S3", "U2"]
DTYPES = [*NATIVE, ">i2", ">u4", ">f4", ">f8", ">c16", ">M8[D]", ">U5"]
Point = collections.namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Box:
    corners: Any
    label: str = "cat"


class Text(str):
    pass


class Number(float):
    pass


def wire(packed: Packed) -> tuple[Any, bytearray]:
    return json.loads(json.dumps(packed.layout)), bytearray().join(packed.buffers)


def round_trip(values: list[Any], **settings: Any) -> list[Any]:
    packed = pack(values, **settings)
    layout, payload = wire(packed)
    assert layout == packed.layout, "a layout is fit for JSON"
    assert packed.nbytes == len(payload)
    assert len(payload) % 16 == 0
    return unpack(layout, payload, **settings)


def is_tensor(value: Any) -> bool:
    return "paddle" in sys.modules and isinstance(value, sys.modules["paddle"].Tensor)


def check_same(one: Any, other: Any) -> None:
    """Equal types, dtypes, shapes and bits, all the way down."""
    if is_tensor(one):
        assert is_tensor(other)
        assert (one.dtype, list(one.shape)) == (other.dtype, list(other.shape))
        assert other.place.is_cpu_place()
        assert other.stop_gradient
        check_same(one.numpy(), other.numpy())
        return
    assert type(one) is type(other)
    if isinstance(one, (np.ndarray, np.generic)):
        assert one.dtype == other.dtype
        assert one.dtype.byteorder == other.dtype.byteorder
        assert one.shape == other.shape
        if one.dtype.char in "gG" or one.dtype.hasobject:  # with bytes that mean nothing
            assert repr(one) == repr(other)
        else:
            assert one.tobytes() == other.tobytes()
    elif type(one) is float:
        assert struct.pack("d", one) == struct.pack("d", other)
    elif type(one) is complex:
        assert struct.pack("dd", one.real, one.imag) == struct.pack("dd", other.real, other.imag)
    elif type(one) in (list, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other):
            check_same(a, b)
    elif type(one) is dict:
        check_same(list(one), list(other))
        check_same(list(one.values()), list(other.values()))
    else:
        assert one == other


def check_round_trip(values: list[Any], **settings: Any) -> None:
    check_same(values, round_trip(values, **settings))


def arrays_of(dtype: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Any bits that the dtype allows."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=int))
    if kind.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind.kind in "SU":
        return rng.choice(["", "a", "\u00e4b" if kind.kind == "U" else "ab"], shape).astype(kind)
    if kind.char in "gG":
        return np.asarray(rng.standard_normal(shape) / 3).astype(kind)
    return rng.integers(0, 256, size * kind.itemsize, np.uint8).view(kind).reshape(shape)


FLAT = [
    [],
    [None, None],
    [True, False, True],
    [0, 1, -1, 127, -128],
    [128, -129],
    [2**31 - 1, -(2**31)],
    [2**63 - 1, -(2**63)],
    [7] * 10,
    [2**63, -(2**63) - 1, 10**5000, -(10**40), 0],
    [0.0, -0.0, math.inf, -math.inf, QUIET_NAN, -QUIET_NAN, ODD_NAN, 5e-324],
    ["", "a", "\u00e4\u6f22\U0001f600"],
    ["\0"],
    ["a\0b", "\0", ""],
    ["a\0\x1fb", "\0", "", "\x1f"],
    ["\ud83d", "\ude00", "\ud800\udc00"],
    ["cat", "dog\0"] * 300,
    [b"", b"\0\xff", b"abc"],
    [1, 1.0, True, "1", b"1", None, 2**70],
    [(), (), ()],
    [[], [[]], [[], []]],
    [{}, {}],
    [{"b": 1, "a": 2.0}, {"b": 2, "a": 3.0}],
    [{"b": 1, "a": 2.0}, {"a": 3.0, "b": 2}],
    [{"a": 1}, {}, {"b": None, "a": "x"}],
    [{1: "x", None: 2, (3, "y"): [1], 2.5: {}, b"k": 0, True + 1: 1}],
    [{"\ud83d\ude00": 1, "a\nb": 2}, {"\ud83d\ude00": 1, "a\nb": 2}],
    [{"".join(["ke", "y"]): i} for i in range(3)],
    [{"a": 1}, {np.str_("a"): 1}],
    [(1, 2.0, "x"), (2, 3.0, "y")],
    [(1,), (1, 2), ()],
    [(1, [2, (3, {"a": [None]})])] * 3,
    [list(range(1000))],
    [tuple(range(300)), tuple(map(str, range(300)))],
    [{str(i): i for i in range(1000)}] * 2,
]


@pytest.mark.parametrize("values", FLAT, ids=range(len(FLAT)))
def test_builtin_values_come_back_without_a_pickle(values: list[Any]) -> None:
    check_round_trip(values)
    check_round_trip([values, values[::-1]])
    check_round_trip([*values, np.float32(1), None])


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_dtype_come_back(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shapes in ([(3,)] * 4, [()] * 3, [(0, 2)] * 2, [(2, 0, 3), (1, 1, 1), (0,), (), (4,), (2, 3)], [(2, 2)]):
        values = [arrays_of(dtype, rng, shape).astype(dtype) for shape in shapes]
        check_round_trip(values)
        for array in round_trip(values):
            assert array.flags.writeable
            assert array.flags.c_contiguous
            assert array.flags.aligned


@pytest.mark.parametrize("dtype", NATIVE[:-6])
def test_numpy_scalars_come_back(dtype: str) -> None:
    values = list(arrays_of(dtype, np.random.default_rng(1), (20,)))
    check_round_trip(values)
    check_round_trip([*values, 1.0, None])


def test_scalars_of_all_dtypes_at_once() -> None:
    rng = np.random.default_rng(2)
    values = [arrays_of(dtype, rng, (1,))[0] for dtype in NATIVE] * 2
    check_round_trip(values)
    check_round_trip([(value, None, {"a": value}) for value in values])
    check_round_trip([np.str_("a\0"), np.str_(""), np.bytes_(b"a\0"), np.bytes_(b"\0"), "a", b"a"])
    check_round_trip([1j, -0.0 - 0j, complex(QUIET_NAN, ODD_NAN), complex(-math.inf, 0)])
    assert type(round_trip([np.longlong(1), np.int64(1)])[0]) is np.longlong


def test_arrays_of_all_dtypes_at_once() -> None:
    rng = np.random.default_rng(3)
    values = [arrays_of(dtype, rng, (2, 3)).astype(dtype) for dtype in DTYPES]
    check_round_trip(values[:5] * 3)
    check_round_trip(values * 3)
    check_round_trip([np.array("x" * width) for width in range(1, 400)])


def test_arrays_in_every_order_of_memory_come_back_in_c_order() -> None:
    whole = np.arange(24.0).reshape(2, 3, 4)
    fixed = whole.copy()
    fixed.flags.writeable = False
    large = np.asfortranarray(np.arange(6000.0).reshape(60, 100))
    values = [whole.T, whole[::-1, ::2, 1:], np.asfortranarray(whole), fixed, np.broadcast_to(whole[0], (2, 3, 4))]
    check_round_trip(values)
    check_round_trip([large, large[::-1], large[:, ::-1]])


def test_other_objects_are_pickled_and_come_back() -> None:
    structured = np.array([(1, 2.0)], "i4,f8")
    objects = np.array([1, "a", None], object)
    values = [
        Point(1, 2), collections.OrderedDict(a=1), collections.Counter("ab"), {1, 2}, frozenset({3}), Color.RED,
        Level.HIGH, Box([1.0]), Text("x"), Number(2.0), Fraction(1, 3), bytearray(b"x"), range(3), structured,
        objects,
    ]  # fmt: skip
    check_round_trip(values, allow_pickle=True)
    check_round_trip([[value, 1.0, np.ones(2)] for value in values], allow_pickle=True)
    with pytest.warns(PendingDeprecationWarning):
        check_round_trip([np.matrix([[1]])], allow_pickle=True)
    masked = round_trip([np.ma.array([1, 2], mask=[True, False])], allow_pickle=True)[0]
    assert type(masked) is np.ma.MaskedArray
    assert masked.mask.tolist() == [True, False]


def test_arrays_among_objects_are_not_pickled() -> None:
    array = np.arange(1000.0)
    packed = pack([{"a": array, "b": Box(1)}, {"a": array, "b": None}], allow_pickle=True)
    assert [buffer.nbytes for buffer in packed.buffers[:2]] == [8000, 8000]
    assert json.dumps(packed.layout).count("pickle") == 1


def random_value(rng: random.Random, depth: int) -> Any:
    leaves = (
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.randrange(-(2 ** rng.randrange(1, 80)), 2 ** rng.randrange(1, 80)),
        lambda: rng.choice([rng.random(), ODD_NAN, -0.0, 1e300]),
        lambda: "".join(rng.choices("ab\0\x1f\u00e4\u6f22\ud800", k=rng.randrange(4))),
        lambda: bytes(rng.choices(range(256), k=rng.randrange(4))),
        lambda: np.array([rng.random()], rng.choice(["f2", "f4", "f8"]))[0],
        lambda: np.datetime64(rng.randrange(10**6), rng.choice(["s", "D"])),
        lambda: np.full([rng.randrange(3)] * rng.randrange(3), rng.randrange(100), rng.choice(["i1", ">f4", "U3"])),
        lambda: Color.RED,
    )
    containers = (
        lambda: [random_value(rng, depth - 1) for _ in range(rng.randrange(4))],
        lambda: tuple(random_value(rng, depth - 1) for _ in range(rng.randrange(4))),
        lambda: {rng.choice(["a", "b", 1, 2.5, (1, "a")]): random_value(rng, depth - 1) for _ in range(3)},
    )
    return rng.choice(containers if depth and rng.random() < 0.5 else leaves)()


def alike(rng: random.Random, value: Any) -> Any:
    """A value of the same structure, or nearly."""
    if rng.random() < 0.01:
        return random_value(rng, 1)
    if type(value) in (list, tuple):
        return type(value)(alike(rng, child) for child in value)
    if type(value) is dict:
        return {key: alike(rng, child) for key, child in value.items()}
    return rng.randrange(1000) if type(value) is int else value


@pytest.mark.parametrize("seed", range(8))
def test_random_nested_values_come_back(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        check_round_trip([random_value(rng, rng.randrange(6)) for _ in range(rng.randrange(20))], allow_pickle=True)
        pattern = random_value(rng, 4)
        check_round_trip([alike(rng, pattern) for _ in range(rng.randrange(1, 40))], allow_pickle=True)


def test_the_layout_does_not_grow_with_the_values() -> None:
    rng = random.Random(0)
    homogeneous = [{"id": f"{i}", "box": np.ones(4), "tags": [1] * (i % 3)} for i in range(3000)]
    assert len(json.dumps(pack(homogeneous).layout)) < 300
    assert len(json.dumps(pack([homogeneous]).layout)) < 400
    chaos = [random_value(rng, 9) for _ in range(4000)]
    assert pack(chaos, allow_pickle=True).nbytes > 150_000
    assert len(json.dumps(pack(chaos, allow_pickle=True).layout)) < 50_000
    assert len(json.dumps(pack([chaos], allow_pickle=True).layout)) < 50_000
    assert len(json.dumps(pack([{str(i): i for i in range(10_000)}]).layout)) < 300


def test_integers_travel_in_few_bytes() -> None:
    assert pack(list(range(-100, 100)) * 8).nbytes == 1600
    assert pack([300, -5] * 800).nbytes == 3200
    assert pack([5] * 1000).nbytes == 0
    assert pack(["cat", "dog"] * 800).nbytes == 6400


def test_a_view_leaves_its_batch_behind() -> None:
    batch = np.zeros((100_000, 10))
    for values in ([batch[5]], [batch[5], batch[7, :3]], [batch[5][::2]], [Box(batch[5])], [Point(batch[1:3], 1)]):
        assert pack(values, allow_pickle=True).nbytes < 1000
        assert len(pickle.dumps(round_trip(values, allow_pickle=True))) < 2000


def test_large_arrays_are_not_copied_on_the_way_out() -> None:
    arrays = [np.random.rand(1000) for _ in range(5)]
    packed = pack(arrays)
    views = [np.frombuffer(buffer, np.uint8) for buffer in packed.buffers]
    assert all(np.shares_memory(view, array) for view, array in zip(views, arrays))
    tracemalloc.start()
    pack(arrays * 1000)
    assert tracemalloc.get_traced_memory()[1] < 4_000_000  # of 40 MB
    tracemalloc.stop()


@pytest.mark.parametrize("size", [8, 100])
def test_serializer_holds_one_copy_of_small_arrays(size: int) -> None:
    values = [{"a": row, "b": float(i)} for i, row in enumerate(np.random.rand(20_000, size))]
    tracemalloc.start()
    packed = pack(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * packed.nbytes + 2_000_000


def test_arrays_are_views_of_a_payload_that_can_be_written_to() -> None:
    values = (
        [np.arange(3, dtype="f4")] * 3 + [np.arange(5.0, dtype="g")] + [np.arange(i, dtype="c16") for i in range(4)]
    )
    for given in (values[:3], values[4:], values, [(1, value) for value in values]):
        layout, payload = wire(pack(given))
        whole = np.frombuffer(payload, np.uint8)
        for buffer in (payload, memoryview(payload), whole):
            arrays = [entry[1] if type(entry) is tuple else entry for entry in unpack(layout, buffer)]
            assert all(np.shares_memory(array, whole) for array in arrays if array.size)
            assert all(array.flags.aligned for array in arrays)


def test_arrays_are_copies_of_a_payload_that_cannot() -> None:
    values = [np.arange(3.0), np.arange(4.0), np.arange(3.0).astype("g"), 1.5, 3, np.float32(2), None, "x", b"y"]
    layout, payload = wire(pack(values))
    odd = bytearray(b"x" + payload)
    for buffer in (bytes(payload), memoryview(bytes(payload)), memoryview(odd)[1:], memoryview(bytes(odd))[1:]):
        returned = unpack(layout, buffer)
        check_same(values, returned)
        for array in returned[:3]:
            assert array.flags.writeable
            assert array.flags.aligned
            assert not np.shares_memory(array, np.frombuffer(buffer, np.uint8))


def test_a_truncated_payload_is_refused() -> None:
    rng = random.Random(4)
    values = [(i, "ab" * i, np.ones(i), [None, rng.random()], b"x", {"k": i, 2: Color.RED}) for i in range(9)]
    layout, payload = wire(pack(values, allow_pickle=True))
    check_same(values, unpack(layout, payload, allow_pickle=True))
    for size in range(len(payload)):
        with pytest.raises(RecordError, match="bytes"):
            unpack(layout, payload[:size], allow_pickle=True)


def test_a_payload_of_another_layout_is_refused_or_read_but_never_crashes() -> None:
    rng = np.random.default_rng(5)
    values = [(i, "ab\0\x1f" * i, np.ones(i), [None, 1.5][: i % 3], b"x" * i, {"k": i, 2: 2**70 + i}) for i in range(9)]
    layout, payload = wire(pack(values))
    for _ in range(300):
        damaged = bytearray(payload)
        for position in rng.integers(0, len(payload), 3):
            damaged[position] = rng.integers(256)
        with contextlib.suppress(RecordError):
            assert len(unpack(layout, damaged)) == 9


@pytest.mark.parametrize(
    "layout",
    [
        None,
        [3],
        [1, []],
        [1, "x"],
        [1, ["nothing"]],
        [1, ["none"], 1],
        [1, ["mixed", ["none"]]],
        [1, ["dict", ["a"]]],
        [2, ["text", 0, "a"]],
        [1, ["scalar", "V8"]],
        [1, ["arrays", "O", [1]]],
        [1, ["arrays", "f8", [-1]]],
        [1, ["nested", "set", ["constant", 1], ["constant", 1]]],
        [1, ["nested", "dict", ["constant", 1], ["constant", 1]]],
    ],
)
def test_a_layout_that_no_one_packed_is_refused(layout: Any) -> None:
    with pytest.raises(RecordError):
        unpack(layout, b"O" * 64)


@pytest.mark.parametrize(
    "column",
    [
        ["none"],
        ["constant", 0],
        ["number", "<f8"],
        ["scalar", "<M8[s]"],
        ["tuple"],
        ["list", ["none"]],
        ["dict", []],
        ["dict", ["a"], ["none"]],
        ["arrays", "<f8", [0]],
        ["arrays", "<f8", [2**40, "a"]],
        ["ragged", "<f8", ["tuple", ["constant", 2**40], ["text", 0, None]]],
        ["tensors", "paddle.float32", ["arrays", "<f4", [0]]],
        ["text", 0, None],
        ["text", 0, ["constant", 0]],
        ["numpy bytes", ["constant", 2**40]],
        ["nested", "list", ["constant", 2**40], ["none"]],
        ["optional", ["none"]],
        ["mixed", ["none"]],
        ["pickle", 0, "a"],
    ],
)
def test_no_memory_is_taken_for_values_that_the_payload_does_not_have(column: list[Any]) -> None:
    for count in (2**60, 2**26, 2.0**26, "a", None):
        tracemalloc.start()
        try:
            with pytest.raises(RecordError):
                unpack([count, column], bytes(64))
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()


def test_texts_are_not_multiplied_by_lengths_that_go_back() -> None:
    lengths = np.array([2**20, -(2**20)] * 512, np.int32).tobytes()
    with pytest.raises(RecordError, match="lengths"):
        unpack([1024, ["text", 2**20, ["number", "<i4"]]], b"a" * 2**20 + lengths)


@pytest.mark.parametrize("value", [None, 7, (), [], {}, np.zeros((0, 2)), "", b""])
def test_many_values_without_bytes_come_back(value: Any, monkeypatch: Any) -> None:
    for module in (reader, serializer):
        monkeypatch.setattr(module, "FREE", 50)
    for count in (49, 50, 51):
        check_round_trip([value] * count)
    check_round_trip([[value] * 51, ([value] * 30, None)])


def check_terms(error: RecordError) -> None:
    """It says what a pickle takes."""
    for part in ("both allow_pickle=True and authenticated workers", "FLEETMETRICS_SECRET"):
        assert part in str(error)


class Trap:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("unpickled",))


def test_nothing_is_unpickled_unless_it_is_allowed() -> None:
    layout, payload = wire(pack([1, Trap()], allow_pickle=True))
    with pytest.raises(RecordError, match="holds a pickle, which may not be read here") as raised:
        unpack(layout, payload)
    check_terms(raised.value)


def test_only_pickles_that_the_layout_announces_are_loaded() -> None:
    """A payload may travel without a digest, the layout never does."""
    layout, payload = wire(pack([1, Box(1)], allow_pickle=True))
    trap = bytearray().join(pack([Trap()], allow_pickle=True).buffers)
    assert len(trap) <= len(payload)
    for place in (0, len(payload) - len(trap)):
        changed = payload[:place] + trap + payload[place + len(trap) :]
        with pytest.raises(RecordError, match="SHA-256 differs"):
            unpack(layout, changed, allow_pickle=True)
    count, column = json.loads(json.dumps(layout).replace(layout[1][2][2], "0" * 64))
    for other in ([count, column], [count, ["mixed", column[1], column[2][:2]]]):
        with pytest.raises(RecordError):
            unpack(other, payload, allow_pickle=True)
    check_same([1, Box(1)], unpack(layout, payload, allow_pickle=True))


class Unreadable:
    def __reduce__(self) -> Any:
        return (struct.unpack, ("q", b""))


def test_a_pickle_that_cannot_be_read_says_why() -> None:
    with pytest.raises(RecordError, match="importable on every worker"):
        round_trip([Unreadable()], allow_pickle=True)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, Box(1)], r"records\[1\] is .*test_serializer\.Box, which has no array form"),
        ([{"box": [0, {3}]}], r"records\[0\]\['box'\]\[1\] is builtins\.set"),
        ([(1, 2), (Color.RED, 3), (Color.RED, 4)], r"records\[1\]\[0\] is .*Color"),
        ([{(1, Color.RED): 2}], r"records\[0\]<key \(1, <Color.*>\[1\] is .*Color"),
        ([np.ones(2), np.array([None])], r"records\[1\] is numpy\.ndarray of dtype object"),
        ([np.zeros(1, "i4,i4")], r"records\[0\] is numpy\.ndarray of dtype \[\('f0'"),
        ([Point(1, 2)], r"records\[0\] is .*Point"),
        ([1, *[type(f"C{i}", (), {})() for i in range(300)], np.ones(2)], r"records\[1\] is .*C0"),
    ],
)
def test_without_pickle_an_object_is_named(values: list[Any], text: str) -> None:
    with pytest.raises(RecordError, match=text) as raised:
        pack(values)
    assert "Convert it to arrays: " in str(raised.value)
    check_terms(raised.value)
    with pytest.raises(TypeError, match=r"^answers"):
        pack(values, what="answers")


@pytest.mark.parametrize("value", [lambda: 1, threading.Lock(), (i for i in ())])
def test_an_object_that_cannot_be_pickled_is_named(value: Any) -> None:
    for values, path in (
        ([Color.RED, value], "[1]"),
        ([{"a": (1, Box(value))}], "[0]['a'][1]"),
        ([[0, value]], "[0][1]"),
    ):
        with pytest.raises(RecordError, match="cannot be pickled") as raised:
            pack(values, allow_pickle=True)
        assert str(raised.value).startswith(f"records{path} is ")
        assert raised.value.__cause__ is not None


def test_hundreds_of_classes_in_one_column_come_back() -> None:
    classes = [type(f"C{i}", (Box,), {"__module__": __name__}) for i in range(300)]
    with pytest.raises(RecordError, match="cannot be pickled"):
        pack([each(1) for each in classes], allow_pickle=True)
    for each in classes:
        globals()[each.__name__] = each
    values = [np.arange(9.0), 1.5, *[each(i) for i, each in enumerate(classes)], [1, [2]], None]
    check_round_trip(values, allow_pickle=True)


def test_endless_structures_are_pickled_or_refused() -> None:
    a: list[Any] = [1]
    a.append(a)
    b: dict[str, Any] = {}
    b["b"] = [({"x": b},)]
    c: list[Any] = []
    c += [c] * 1000
    deep: Any = []
    for _ in range(200):
        deep = (deep,)
    returned = round_trip([a, b, c], allow_pickle=True)
    assert returned[0][1][1][0] == 1
    assert list(returned[1]["b"][0][0]["x"]) == ["b"]
    assert returned[2][7] is returned[2][999][3]
    check_round_trip([deep], allow_pickle=True)
    for values in ([a], [0, b], [c, c], [[c, b], a], [deep]):
        with pytest.raises(RecordError, match=r"records\[.*nested too deeply or too unevenly, or in itself"):
            pack(values)
    c.append(lambda: 1)
    with pytest.raises(RecordError, match=r"cannot be pickled"):
        pack([c], allow_pickle=True)


def test_shared_values_without_cycles_come_back() -> None:
    shared = [1.0]
    check_round_trip([shared, [shared], [[shared]], {"a": shared, "b": [shared, {"c": shared}]}, ((), ((), ()))])
    deep: Any = 1
    for _ in range(99):
        deep = [deep]
    check_round_trip([deep, deep])


def test_garbage_collection_resumes_afterwards() -> None:
    round_trip([[1], [2]])
    with pytest.raises(RecordError):
        pack([{1}])
    assert gc.isenabled()
    gc.disable()
    try:
        round_trip([[1], [2]])
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", DTYPES)
def test_chunks_are_joined_along_the_first_axis(dtype: str) -> None:
    rng = np.random.default_rng(6)
    for shape in ((), (3,), (2, 0), (2, 3)):
        chunks = [arrays_of(dtype, rng, (size, *shape)).astype(dtype) for size in (4, 1, 0, 7)]
        layout, payload = wire(pack_chunks(chunks))
        expected = np.concatenate(chunks).astype(dtype)
        for buffer in (payload, bytes(payload)):
            joined = unpack_arrays(layout, buffer)[0]
            check_same(expected, joined)
            assert joined.flags.writeable
        (joined,) = unpack_arrays(layout, payload)
        assert np.shares_memory(joined, np.frombuffer(payload, np.uint8)) == bool(expected.size)


def test_chunks_are_not_copied_unless_they_must_be() -> None:
    base = np.arange(60.0).reshape(20, 3)
    chunks = [base[:5], base[5:6], base[10:20:2], base[:4, ::-1]]
    packed = pack_chunks(chunks)
    shared = [np.shares_memory(np.frombuffer(buffer, np.uint8), base) for buffer in packed.buffers]
    assert shared[:4] == [True, True, False, False]
    check_same(np.concatenate(chunks), unpack_arrays(*wire(packed))[0])
    assert [buffer.nbytes for buffer in packed.buffers] == [120, 24, 120, 96, 8]


def test_chunks_of_different_dtypes_are_promoted() -> None:
    for pair in ("f4 f8", "i8 f4", "u8 i8", "? i2", ">f4 <f4", "U2 U5", "M8[s] M8[ns]"):
        one, other = pair.split()
        chunks = [np.ones(2).astype(one), np.ones(3).astype(other)]
        joined = unpack_arrays(*wire(pack_chunks(chunks)))[0]
        assert joined.dtype == np.result_type(one, other)
        assert joined.tolist() == np.concatenate(chunks).tolist()


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([], r"\(none\)"),
        ([np.ones((2, 3)), np.ones((2, 4))], r"\[2, 3\], \[2, 4\]"),
        ([np.ones(2), np.ones((2, 1))], r"\[2\], \[2, 1\]"),
        ([np.array(1.0)], r"\[\]"),
        ([np.array([None])], "object"),
        ([np.ones(1, "M8[s]"), np.ones(1)], "times, float64"),
        ([np.ones(1, "i4,i4")], "records"),
    ],
)
def test_chunks_that_do_not_go_together_are_named(chunks: list[np.ndarray], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        pack_chunks(chunks)


def test_a_truncated_payload_of_chunks_is_refused() -> None:
    layout, payload = wire(pack_chunks([np.ones(3)]))
    for wrong in (payload[:-1], b""):
        with pytest.raises(RecordError, match="bytes"):
            unpack_arrays(layout, wrong)
    for other in ([["O", [4]]], [["f8", [-1]]], [["f8"]], [["nothing", [1]]], None, 7):
        with pytest.raises(RecordError):
            unpack_arrays(other, payload)


@pytest.mark.parametrize("shape", [[0], [4, 0], [0, 2**60], [2**61, 0], [2**30, 2**30], [True], [1.0], "1", None])
def test_a_described_array_of_wide_entries_takes_no_more_than_its_bytes(shape: Any) -> None:
    assert described_array("<U3", [2, 2]) == (np.dtype("<U3"), 48)
    assert described_array(f"S{2**25}", [1]) == (np.dtype(f"S{2**25}"), 2**25)
    with pytest.raises((TypeError, ValueError)):
        described_array(f"S{2**25}", shape)


@pytest.fixture(scope="module")
def paddle() -> Any:
    import paddle as module

    module.set_device("cpu")
    return module


TENSORS = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]


#: Paddle 2.6 does not have these.
FLOAT8 = ["float8_e4m3fn", "float8_e5m2"] if PIR else []


@pytest.mark.parametrize("dtype", [*TENSORS, "complex64", "complex128", *FLOAT8])
def test_tensors_come_back_as_tensors(paddle: Any, dtype: str) -> None:
    rng = np.random.default_rng(7)
    for shapes in ([[3]] * 4, [[]] * 3, [[0, 2]] * 2, [[2, 3], [0], [4], [1, 0], []], [[60, 70]] * 2):
        values = [paddle.to_tensor(rng.standard_normal(shape)).cast(dtype) for shape in shapes]
        check_round_trip(values)
        check_round_trip([(value, {"a": value}) for value in values[:50]])


def test_tensors_keep_odd_bits_and_every_order_of_memory(paddle: Any) -> None:
    odd = np.array([0x7FA00001, 0x80000000], np.uint32).view(np.float32)
    matrix = paddle.to_tensor(np.arange(6.0).reshape(2, 3))
    trained = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    values = [paddle.to_tensor(odd), matrix.t(), matrix[:, 1], trained, trained * 2, matrix[0], 1.0, None]
    check_round_trip(values)
    parameter = round_trip([paddle.create_parameter([2], "float32")])[0]
    assert type(parameter) is paddle.Tensor
    check_round_trip([paddle.to_tensor([1], dtype=dtype) for dtype in TENSORS] * 2)
    check_round_trip(list(paddle.arange(5000.0)))


def test_tensors_come_back_as_tensors_in_static_mode_too(paddle: Any) -> None:
    values = [paddle.ones([2]), paddle.zeros([2]), 1.0, *map(paddle.ones, ([], [3, 1], [0]))]
    paddle.enable_static()
    try:
        returned = round_trip(values)
        assert not paddle.in_dynamic_mode()
    finally:
        paddle.disable_static()
    check_same(values, returned)


def test_a_sparse_tensor_is_refused(paddle: Any) -> None:
    sparse = paddle.sparse.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 2.0], [3, 3])
    with pytest.raises(RecordError, match=r"records\[1\]\['a'\] is a sparse"):
        pack([{"a": paddle.ones([2])}, {"a": sparse}])
    check_round_trip([sparse.to_dense()])


def test_a_view_of_a_tensor_leaves_its_batch_behind(paddle: Any) -> None:
    batch = paddle.zeros([10_000, 10])
    assert pack([batch[5], batch[7]]).nbytes == 80


def test_no_paddle_is_needed_where_there_are_no_tensors() -> None:
    code = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "paddle":
            raise ModuleNotFoundError("No module named 'paddle'", name="paddle")
sys.meta_path.insert(0, Blocked())
import fractions, numpy as np
from fleetmetrics.serial import pack_chunks, unpack_arrays
from fleetmetrics.serial.serializer import pack, unpack
values = [{"a": np.ones(2), "b": [1, fractions.Fraction(1, 3), None]}] * 2
packed = pack(values, allow_pickle=True)
returned = unpack(packed.layout, b"".join(packed.buffers), allow_pickle=True)
chunks = pack_chunks([np.ones(2)])
print(returned[1]["b"] == values[1]["b"], unpack_arrays(chunks.layout, b"".join(chunks.buffers))[0])
print("paddle" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.stdout.split() == ["True", "[1.", "1.]", "False"], done.stderr


@pytest.mark.parametrize("table", [serializer._PACKERS, reader._READERS], ids=["packers", "readers"])
def test_the_kinds_of_values_are_fixed(table: Any) -> None:
    """Another worker would not know a kind that one of them adds."""
    with pytest.raises(TypeError):
        table[object] = None
