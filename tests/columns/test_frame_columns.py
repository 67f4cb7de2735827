"""Columns of every type of pandas, polars and Arrow: read by what they mean, or a named error with a way out."""

from __future__ import annotations

import datetime
import decimal
import re
import uuid
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.errors import DataError, InvalidInputError

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

P, Y = [0.1, 0.9, 0.2, 0.8], [0, 1, 0, 1]
LARGE = 2**63 + 5


def evaluated(frame: Any, **more: Any) -> Any:
    return fm.evaluate(frame, **{"label": "y", "score": "p", "metrics": "auc", **more})


def keys(column: Any, **more: Any) -> set[Any]:
    return (
        {each.key for each in evaluated({"p": P, "y": Y}, by="x", **more).slices["x"]}
        if column is None
        else {each.key for each in evaluated(column, by="x", **more).slices["x"]}
    )


def arrow(values: Any, kind: Any = None) -> Any:
    return pa.table({"p": P, "y": Y, "x": values if isinstance(values, pa.Array) else pa.array(values, kind)})


def frame(values: Any) -> Any:
    found = pandas.DataFrame({"p": P, "y": Y})
    found["x"] = values
    return found


def named(values: Any) -> Any:
    return polars.DataFrame({"p": P, "y": Y}).with_columns(values.alias("x"))


ONE = decimal.Decimal(1)
# Those of polars are made in the tests: polars starts threads, and processes that share the tests are forked before.
READ = {
    "decimals": (arrow([ONE, ONE, ONE * 2, None], pa.decimal128(20, 0)), {1, 2, None}),
    "decimals with a scale": (arrow([ONE, ONE, ONE * 2, None], pa.decimal256(50, 5)), {1, 2, None}),
    "times": (
        arrow([datetime.time(18), datetime.time(1, 2, 3, 500_000), None, None]),
        {"18:00:00", "01:02:03.5", None},
    ),
    "times of seconds": (arrow([datetime.time(18)] * 4, pa.time32("s")), {"18:00:00"}),
    "half floats": (arrow(pa.array(np.array([1, 2, np.nan, 1], np.float16))), {1, 2, None}),
    "small unsigned": (arrow([5, None, 5, 7], pa.uint64()), {5, 7, None}),
    "bytes of one length": (arrow([b"ab", b"cd", None, b"ab"], pa.binary(2)), {"ab", "cd", None}),
    "categories of decimals": (arrow(pa.array([ONE] * 4).dictionary_encode()), {1}),
    "categories with nulls": (arrow(pa.array([5, None] * 2, pa.uint8()).dictionary_encode()), {5, None}),
    "uuids": (
        arrow(pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.UUID(int=1).bytes, None] * 2, pa.binary(16)))),
        {str(uuid.UUID(int=1)), None},
    ),
    "intervals": (frame(pandas.cut([1, 2, 3, 9], [0, 2, 4])), {"(0, 2]", "(2, 4]", None}),
    "a column of intervals": (
        frame(pandas.arrays.IntervalArray.from_breaks(range(5))),
        {f"({n}, {n + 1}]" for n in range(4)},
    ),
    "periods": (
        frame(pandas.PeriodIndex(["2026-01", "2026-02", None, "2026-01"], freq="M")),
        {"2026-01", "2026-02", None},
    ),
    "sparse": (frame(pandas.arrays.SparseArray([1, 0, 0, 1])), {0, 1}),
    "Int128": (lambda: named(polars.Series([1, 0, 2, 1]).cast(polars.Int128)), {0, 1, 2}),
    "categories of polars": (lambda: named(polars.Series(["a", "b"] * 2, dtype=polars.Categorical)), {"a", "b"}),
    "enums of polars": (lambda: named(polars.Series(["a", "b"] * 2, dtype=polars.Enum(["a", "b"]))), {"a", "b"}),
}


@pytest.mark.parametrize("name", READ)
def test_keys_of_any_type_are_read_by_what_they_mean(name):
    data, wanted = READ[name]
    data = data() if callable(data) else data
    assert keys(data) == wanted
    if None not in wanted:
        assert evaluated(data, user="x", metrics="gauc").values.keys() == {"gauc"}


@pytest.mark.parametrize(
    "make", [lambda values: arrow(values, pa.uint64()), lambda values: arrow([*map(decimal.Decimal, values)])]
)
def test_unsigned_ids_are_exact_users_and_slices_need_them_as_strings(make):
    data = make([LARGE, LARGE, LARGE + 1, LARGE + 1])
    assert evaluated(data, user="x", metrics="gauc")["gauc"] == 1.0
    with pytest.raises(DataError, match=f"column 'x' holds {LARGE + 1}; slices take integers below 2.*: text=x makes"):
        keys(data)
    assert keys(data, text="x") == {str(LARGE), str(LARGE + 1)}
    crossed = evaluated(data, by="x*y").slices["x*y"]
    assert {each.key for each in crossed} == {f"{LARGE + add}*{y}" for add in (0, 1) for y in (0, 1)}


REFUSED = {
    "fractions": (
        arrow([decimal.Decimal("1.5")] * 4),
        r"not decimal128\(2, 1\); a row has Decimal\('1.5'\); make them .*text",
    ),
    "floats": (arrow([0.5] * 4), r"not double; a row has 0.5; round them, cut them into ranges, or .*text"),
    "large decimals": (
        arrow([decimal.Decimal(2**70)] * 4),
        rf"integers of more than 64 bits, {2**70}; make them .*text",
    ),
    "unsigned and nulls": (arrow([LARGE, None] * 2, pa.uint64()), rf"holds nulls and {LARGE}, an integer of .*text"),
    "durations": (arrow([datetime.timedelta(1)] * 4), r"not duration\[us\]; .*; convert it to one of these"),
    "bytes": (arrow([b"\xff"] * 4), r"strings in UTF-8, not binary; a row has b'\\xff'"),
    "lists": (arrow([["a"]] * 4), r"not list<.*string>; the first row has \['a'\]; name a value in it, such as x\[0\]"),
    "mixed": (frame([1, "a", 2.5, None]), r"column 'x', of object, cannot be read \(.*\); convert it, .*astype\(str\)"),
    "objects": (frame([object()] * 4), r"column 'x', of object, cannot be read"),
    "complex": (frame(np.array([1j] * 4)), r"column 'x', of complex128, cannot be read"),
    "objects of polars": (
        lambda: named(polars.Series([object()] * 4, dtype=polars.Object)),
        r"column 'x', of Object.*, cannot be read",
    ),
    "mixed lists": ({"p": P, "y": Y, "x": [1, "1", 2, 3]}, r"column 'x' holds strings and 1, of int; give one kind"),
    "integers beyond 64 bits": ({"p": P, "y": Y, "x": [2**70] * 4}, r"column 'x' cannot be read: "),
    "ragged lists": ({"p": P, "y": Y, "x": [[1], [1, 2], [1], [2]]}, r"column 'x' has no rectangular array form"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_keys_are_a_named_error_with_a_way_out(name):
    data, told = REFUSED[name]
    data = data() if callable(data) else data
    with pytest.raises(InvalidInputError, match=told):
        keys(data)


def test_scores_of_sparse_columns_and_large_integers_of_polars_count():
    assert evaluated(frame(pandas.arrays.SparseArray([0.1, 0.9, 0, 0.8])), score="x")["auc"] == 1.0
    assert evaluated(named(polars.Series(Y).cast(polars.Int128)), label="x")["auc"] == 1.0


def test_two_columns_of_one_name_are_named_and_others_are_not_read():
    twice = pandas.DataFrame([[0.9, 1, 0.1], [0.2, 0, 0.3]], columns=["p", "y", "p"])
    with pytest.raises(DataError, match="data: 2 columns are called 'p'; rename them until only one is"):
        evaluated(twice)
    with pytest.raises(DataError, match=r"no column 'q' for score\. There are 'p', 'y'"):
        evaluated(twice, score="q", label="y")
    with pytest.raises(DataError, match="frame: 2 columns are called 'p'"):
        fm.AUC().add_frame(twice, prediction="p", label="y")
    odd = frame([object()] * 4)
    assert evaluated(odd)["auc"] == 1.0
    with pytest.raises(DataError, match=r"no column 'q' for score.*'p', 'y', 'x'"):
        evaluated(odd, score="q")


def test_columns_that_only_pandas_can_print_are_refused_in_files(tmp_path):
    frame(pandas.period_range("2026-01", periods=4, freq="M")).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(
        DataError, match=re.escape("column 'x' holds pandas periods, of which only pandas knows the text")
    ):
        keys(tmp_path / "a.parquet")
