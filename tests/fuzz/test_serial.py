"""Whatever layout and payload come, they are read or refused by name: nothing is executed, nothing taken on a word.

`make fuzz` tries many more of them: FUZZ is the number for each test.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import tracemalloc
from typing import Any, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetmetrics.errors import FleetMetricsError
from fleetmetrics.serial import unpack_arrays
from fleetmetrics.serial.serializer import pack, unpack

TRIES = int(os.environ.get("FUZZ", "0"))
fuzz = settings(
    max_examples=TRIES or 40,
    derandomize=not TRIES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
#: What may be taken beside a multiple of the payload.
MOST = 100 * 2**20

SIZES = st.one_of(st.integers(-2, 20), st.sampled_from([64, 255, 4096, 2**18, 2**26, 2**60, 2**63, 10**30]))
WORDS = st.sampled_from(
    [
        "none",
        "constant",
        "number",
        "big",
        "scalar",
        "text",
        "bytes",
        "tuple",
        "list",
        "optional",
        "arrays",
        "ragged",
        "tensors",
        "dict",
        "nested",
        "mixed",
        "pickle",
        "numpy text",
        "numpy bytes",
        "set",
        "a",
        "",
        "\x00",
        "paddle.float32",
    ]
)
DTYPES = st.one_of(
    st.sampled_from(
        [
            "|b1",
            "|i1",
            "<i2",
            ">i8",
            "<f4",
            "<f8",
            "g",
            "<c16",
            "<M8[s]",
            "<M8[25s]",
            "m8",
            "S3",
            "<U2",
            ">U5",
            "O",
            "V8",
            "S",
            "U0",
            "U4611686018427387904",
            "S2147483647",
            "i4,i4",
            "(9,)f8",
            "(1000000000,)f8",
            "float64",
            "bfloat16",
            "<M8[0s]",
            "<M8[99999999999s]",
            "|S99999999999999999999",
        ]
    ),
    st.text("<>|=biufcmMSUOVgqlp0123456789[]s,(){}:a", max_size=6),
)
TENSORS = st.sampled_from([f"paddle.{name}" for name in ("bool", "float16", "bfloat16", "float32", "int64", "nothing")])
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), SIZES, st.floats(), WORDS, DTYPES),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(WORDS, inner, max_size=2)),
    max_leaves=8,
)
SHAPES = st.one_of(st.lists(SIZES, max_size=3), st.lists(st.integers(0, 3), max_size=3), JSON)


def columns_of(inner: Any) -> Any:
    """A column over other columns: right in form, at the least."""
    kinds = [
        (st.just("optional"), inner), (st.just("text"), SIZES, inner), (st.just("bytes"), SIZES, inner),
        (st.just("ragged"), DTYPES, inner), (st.just("big"), inner), (st.just("numpy text"), inner),
        (st.just("numpy bytes"), inner), (st.just("tensors"), TENSORS, inner),
        (st.just("nested"), st.sampled_from(["list", "tuple", "dict"]), inner, inner),
    ]  # fmt: skip
    several = st.tuples(st.sampled_from(["tuple", "list", "mixed"]), st.lists(inner, max_size=4))
    dicts = st.lists(st.tuples(WORDS, inner), max_size=3).map(
        lambda items: ["dict", [key for key, _ in items], *(column for _, column in items)]
    )
    return st.one_of(
        *(st.tuples(*parts).map(list) for parts in kinds), several.map(lambda pair: [pair[0], *pair[1]]), dicts
    )


COLUMNS = st.recursive(
    st.one_of(
        st.just(["none"]),
        st.tuples(st.just("constant"), SIZES).map(list),
        st.tuples(st.sampled_from(["number", "scalar"]), DTYPES).map(list),
        st.tuples(st.just("text"), SIZES, st.none()).map(list),
        st.tuples(st.just("arrays"), DTYPES, SHAPES).map(list),
        st.tuples(st.just("pickle"), SIZES, WORDS).map(list),
        JSON,
    ),
    columns_of,
    max_leaves=8,
)
LAYOUTS = st.one_of(st.tuples(SIZES, COLUMNS).map(list), JSON)
PAYLOADS = st.one_of(
    st.binary(max_size=200), st.integers(0, 4096).map(bytes), st.integers(0, 300).map(lambda size: b"\1" * size)
)

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(),
    st.text(max_size=5), st.binary(max_size=5),
    st.sampled_from([np.ones(2), np.zeros((0, 2)), np.arange(3, dtype=">i2"), np.array(["a", "bc"]), np.array(1.5)]),
    st.sampled_from([np.float32(1), np.int8(3), np.str_("a\0"), np.bytes_(b"\0"), np.datetime64(5, "D")]),
)  # fmt: skip
VALUES = st.lists(
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.sampled_from(["a", "b", 1, (2, "c")]), inner, max_size=3),
        ),
        max_leaves=10,
    ),
    max_size=8,
)


@contextlib.contextmanager
def little_memory(payload: Any) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST + 1000 * len(payload)
    finally:
        tracemalloc.stop()


def read_or_refused(layout: Any, payload: Any, allow_pickle: bool = False) -> None:
    with little_memory(payload):
        try:
            values = unpack(layout, payload, allow_pickle)
        except FleetMetricsError:
            return
        assert len(values) == layout[0]


def nodes(tree: Any) -> Iterator[tuple[list[Any], int]]:
    """The places in a layout, each as a list and a position in it."""
    for place, child in enumerate(tree):
        yield tree, place
        if isinstance(child, list):
            yield from nodes(child)


@fuzz
@given(LAYOUTS, PAYLOADS)
def test_any_layout_is_read_or_refused(layout: Any, payload: bytes) -> None:
    read_or_refused(layout, payload)
    read_or_refused(layout, bytearray(payload), allow_pickle=True)  # none of these is a pickle with its digest


@fuzz
@given(st.one_of(st.lists(st.tuples(DTYPES, SHAPES).map(list), max_size=3), JSON), PAYLOADS)
def test_any_layout_of_arrays_is_read_or_refused(layout: Any, payload: bytes) -> None:
    with little_memory(payload), contextlib.suppress(FleetMetricsError):
        assert len(unpack_arrays(layout, payload)) == len(layout)


class Trap:
    def __reduce__(self) -> Any:
        return pytest.fail, ("unpickled",)


@fuzz
@given(VALUES, st.data())
def test_any_change_of_what_was_packed_is_read_or_refused(values: list[Any], data: st.DataObject) -> None:
    trapped = data.draw(st.booleans())
    packed = pack([*values, Trap()] if trapped else values, allow_pickle=trapped)
    layout, payload = json.loads(json.dumps(packed.layout)), bytearray().join(packed.buffers)
    if not trapped:
        read_or_refused(layout, payload)
    for _ in range(data.draw(st.integers(0, 3))):
        places = list(nodes(layout))
        tree, place = places[data.draw(st.integers(0, len(places) - 1))]
        others = st.sampled_from(places).map(lambda pair: copy.deepcopy(pair[0][pair[1]]))
        tree[place] = data.draw(st.one_of(SIZES, others, COLUMNS))
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, max(0, len(payload) - 1)))
        payload[position : position + 1] = data.draw(st.binary(max_size=2))
    if data.draw(st.booleans()):
        del payload[data.draw(st.integers(0, len(payload))) :]
    read_or_refused(layout, payload)
    if trapped and len(payload):  # the trap is the last value: its present value was not packed
        payload[:] = bytes(len(payload))
        read_or_refused(layout, payload, allow_pickle=True)


@fuzz
@given(VALUES)
def test_packed_values_come_back(values: list[Any]) -> None:
    packed = pack(values)
    assert repr(unpack(packed.layout, b"".join(packed.buffers))) == repr(values)
