"""Values inside of columns: fields, items, entries of maps and Spark's vectors, for every argument and container."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.columns.nested import inside
from fleetmetrics.errors import DataError

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

P, Y = [0.1, 0.9, 0.8, 0.2], [0, 1, 0, 1]
ROWS = [
    {
        "pred": {"ctr": p, "both": [1 - p, p], "deep": {"x": p}},
        "label": {"click": y},
        "key": {"user": "ab"[p > 0.5]},
        "a.b": 1 - p,
    }
    for p, y in zip(P, Y)
]
VECTOR = pa.struct(
    [("type", pa.int8()), ("size", pa.int32()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float64()))]
)


def written(folder: Any, form: str, rows: Any = ROWS) -> Any:
    path = folder / f"a.{form}"
    table = pa.Table.from_pylist(rows)
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def auc(data: Any, score: Any, label: str = "label.click", **more: Any) -> float:
    return fm.evaluate(data, label=label, score=score, metrics="auc", **more)["auc"]


@pytest.fixture(params=["parquet", "arrow", "jsonl", "table", "pandas", "polars", "dict"])
def data(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    if request.param in ("parquet", "arrow", "jsonl"):
        return written(tmp_path, request.param)
    if request.param == "table":
        return pa.Table.from_pylist(ROWS)
    if request.param == "dict":
        return {name: [row[name] for row in ROWS] for name in ROWS[0]}
    return pytest.importorskip(request.param).DataFrame(ROWS)


def test_a_name_reaches_inside_of_a_column(data):
    assert (
        auc(data, "pred.ctr") == auc(data, "pred.both[1]") == auc(data, "pred.both") == auc(data, "pred.deep.x") == 0.75
    )
    assert auc(data, "pred.ctr", where="key.user = 'a'") == 1.0
    assert auc(data, "pred.ctr", where="pred.both[1] < 0.5") == 1.0
    assert auc(data, "pred.ctr", where='"pred.both[1]" > 0.5 and pred.deep.x > 0') == 1.0
    result = fm.evaluate(data, label="label.click", score="pred.ctr", metrics="auc", by="key.user", user="key.user")
    assert {each.key: each.value for each in result.slices["key.user"]} == {"a": 1.0, "b": 1.0}


def test_a_column_whose_name_has_a_dot_comes_first(data):
    assert auc(data, "a.b") == 0.25
    assert inside("a.b.c", ["a", "a.b"]) == ("a.b", ("c",))
    assert inside("p[3]", ["p"]) == ("p", (3,))
    assert [inside(name, ["p"]) for name in ("q.a", "p", "p.", "p[a]", "p[1", ".p")] == [None] * 6


def test_what_is_not_inside_is_named_with_what_is(data):
    with pytest.raises(DataError, match=r"column 'pred', of .*, has no \.ctrx; there is pred\.ctr"):
        auc(data, "pred.ctrx")
    with pytest.raises(DataError, match=r"column 'pred\.ctr', of double, has no \[0\]"):
        auc(data, "pred.ctr[0]")
    with pytest.raises(DataError, match=r"column 'pred' must hold numbers or bools, not struct.*such as pred\."):
        auc(data, "pred")
    with pytest.raises(DataError, match=r"column 'key' must hold integers, strings.*such as key\.user"):
        auc(data, "pred.ctr", by="key")
    with pytest.raises(DataError, match=r"row 0, column 'pred\.both\[2\]': no value"):
        auc(data, "pred.both[2]")
    with pytest.raises(DataError, match=r"no column 'nothing\.x'"):
        auc(data, "nothing.x")


def test_add_frame_reaches_inside_too():
    metric = fm.AUC()
    metric.add_frame(pa.Table.from_pylist(ROWS), prediction="pred.ctr", label="label.click")
    assert metric.compute() == 0.75


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_fields_of_json_have_the_types_of_all_lines(tmp_path, form):
    rows = [{"x": {"p": 0, "y": 1, "other": [1]}}, {"x": None}, {"x": {"p": 0.5, "y": 0}}, {"x": {"p": None, "y": 1}}]
    rows = rows[:1] * 2000 + rows
    path = written(tmp_path, form, rows)
    columns = {"prediction": "x.p", "label": "x.y"}
    _, read = files.evaluate(path, fm.AUC, columns, skip_bad_rows=True)
    assert (read.rows, read.skipped, read.nulls) == (2004, 2, {"x.p": 2, "x.y": 1})


def test_entries_of_maps_and_items_of_fixed_lists(tmp_path):
    table = pa.table(
        {
            "m": pa.array([[("p", p), ("q", 0.5)] for p in P], pa.map_(pa.string(), pa.float64())),
            "f": pa.array([[1 - p, p] for p in P], pa.list_(pa.float64(), 2)),
            "y": Y,
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert auc(tmp_path / "a.parquet", "m.p", "y") == auc(table.slice(0), "f[1]", "y") == 0.75
    assert auc(table.slice(0, 2), "f[1]", "y") == auc(table.slice(1, 2).combine_chunks(), "f[1]", "y") == 1.0
    np.savez(tmp_path / "a.npz", f=[[1 - p, p] for p in P], y=Y)
    assert auc(tmp_path / "a.npz", "f[1]", "y") == 0.75


def test_vectors_of_spark_are_read_with_their_zeros(tmp_path):
    def vector(values: Any, sparse: bool) -> Any:
        if not sparse:
            return {"type": 1, "size": None, "indices": None, "values": values}
        places = np.flatnonzero(values).tolist()
        return {"type": 0, "size": len(values), "indices": places, "values": [values[each] for each in places]}

    scores = [[1 - p, p] for p in (0.0, 0.25, 1.0, 0.5)]
    for name, sparse in (("dense", (0, 0, 0, 0)), ("mixed", (1, 0, 1, 0))):
        vectors = pa.array([vector(*each) for each in zip(scores, sparse)], VECTOR)
        pq.write_table(pa.table({"probability": vectors, "y": [0, 0, 1, 1]}), tmp_path / f"{name}.parquet")
        for score in ("probability", "probability[1]"):
            assert auc(tmp_path / f"{name}.parquet", score, "y") == 1.0
        assert auc(tmp_path / f"{name}.parquet", "probability[0]", "y") == 0.0
        result = fm.evaluate(
            tmp_path / f"{name}.parquet",
            label="y",
            score="probability",
            task="multiclass",
            classes=2,
            metrics="accuracy",
        )
        assert result["accuracy"] in (0.75, 1.0)
    assert auc(tmp_path / "dense.parquet", "probability.values[1]", "y") == 1.0
    with pytest.raises(DataError, match=r"'probability' has vectors without their zeros.*an item, probability\[1\]"):
        auc(tmp_path / "mixed.parquet", "probability.values[1]", "y")
    nothing = pa.table({"probability": pa.array([None, vector([0.5, 0.5], True)] * 2, VECTOR), "y": [0, 0, 1, 1]})
    with pytest.raises(DataError, match="row 0, column 'probability': no value"):
        auc(nothing, "probability", "y")
