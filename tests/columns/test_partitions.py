"""Values in folders' names: one type for all files of a run, as DuckDB infers; compared as that, and keys of it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.columns.partitions import types_of, with_types
from fleetmetrics.errors import ConditionError, DataError
from tests.fakes import together

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(top: Path, *folders: str, rows: int = 4, **more: Any) -> Path:
    for folder in folders:
        (top / folder).mkdir(parents=True)
        table = pa.table({"p": [0.1, 0.9] * (rows // 2), "y": [0, 1] * (rows // 2), **more})
        pq.write_table(table, top / folder / "a.parquet")
    return top


def kept(data: Any, where: str | None = None, **more: Any) -> int:
    return int(fm.evaluate(data, label="y", score="p", metrics="auc", where=where, **more).to_dict()["data"]["rows"])


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["8", "9", "10"], "int64"),
        (["-3", "0"], "int64"),
        (["20261101"], "int64"),
        (["1", "__HIVE_DEFAULT_PARTITION__"], "int64"),
        (["9223372036854775807"], "int64"),
        (["9223372036854775808", "1"], "uint64"),
        (["9223372036854775808", "-1"], "numeral"),
        (["08", "9"], "numeral"),
        (["0.5", "1"], "numeral"),
        (["1.10"], "numeral"),
        (["1", "a"], "string"),
        (["1.2.3"], "string"),
        (["2026-11-01", "2026-12-31"], "date32"),
        (["2026-11-01", "2026-13-01"], "string"),
        (["2026-11-01", "1"], "string"),
        (["2026-11"], "string"),
        (["2026-11-01 10%3A00%3A00", "2026-11-02T00%3A00%3A00.5"], "timestamp[us]"),
        (["true", "false"], "string"),
        (["__HIVE_DEFAULT_PARTITION__"], "null"),
        ([""], "null"),
    ],
)
def test_the_values_of_all_folders_have_one_type(texts, kind):
    assert types_of([f"t/k={text}/a.parquet" for text in texts]) == {"k": kind}


def test_types_travel_with_the_paths_and_stay_when_some_are_given_again():
    paths = with_types(["k=1/a", "k=b/a"])
    assert [path.types for path in pickle.loads(pickle.dumps(paths))] == [{"k": "string"}] * 2
    assert with_types(paths[:1])[0].types == {"k": "string"}
    for one, other, both in (("1", "2", "int64"), ("1", "07", "numeral"), ("1", "b", "string"), ("1", "", "int64")):
        sides = [with_types([f"k={each}/a"]) for each in (one, other)]
        assert {path.types["k"] for path in with_types([*sides[0], *sides[1]])} == {both}


def test_both_sides_of_a_comparison_have_keys_of_one_type(tmp_path):
    write(tmp_path / "new", "hour=8", "hour=9")
    write(tmp_path / "old", "hour=8", "hour=late")
    result = fm.evaluate(
        tmp_path / "new", label="y", score="p", metrics="auc", by="hour", baseline=tmp_path / "old", where="hour != 'x'"
    )
    rows = {each.key: (each.rows, each.baseline_rows) for each in result.versus["hour"].slices}
    assert rows == {"8": (4, 4), "9": (4, 0), "late": (0, 4)}
    frame = {"p": [0.1, 0.9], "y": [0, 1], "hour": ["8", "9"]}
    with pytest.raises(DataError, match=r"by: keys of hour are integers here, but strings in the baseline; text=hour"):
        fm.evaluate(tmp_path / "new", label="y", score="p", metrics="auc", by="hour", baseline=frame)
    result = fm.evaluate(tmp_path / "new", label="y", score="p", metrics="auc", by="hour", baseline=frame, text="hour")
    assert {each.key for each in result.versus["hour"].slices} == {"8", "9"}


def test_hours_compare_as_numbers(tmp_path):
    write(tmp_path, *(f"hour={hour}" for hour in range(8, 13)), rows=200)
    for where in ("hour >= 9", "hour >= '9'", "hour in (9, 10, 11, 12)", "hour > 8.5", "not hour between 7 and 8"):
        assert kept(tmp_path, where) == 800, where
    assert kept(tmp_path, "hour = 10") == kept(tmp_path, "hour = '10'") == 200
    assert kept(tmp_path, "hour >= '9'", text="hour") == 200  # strings, as asked for
    with pytest.raises(ConditionError, match=r"compares column 'hour', of int64, from the folders' names, with 'x'"):
        kept(tmp_path, "hour > 'x'")
    with pytest.raises(ConditionError, match=r"of string, from the folders' names, with 9; it holds strings, and as"):
        kept(tmp_path, "hour >= 9", text="hour")


def test_hours_with_leading_zeros_compare_as_numbers_and_are_keys_as_written(tmp_path):
    write(tmp_path, *(f"hour={hour:02}" for hour in range(8, 13)), rows=200)
    for where in ("hour >= 9", "hour >= '9'", "hour >= '09'", "hour != '08'"):
        assert kept(tmp_path, where) == 800, where
    assert kept(tmp_path, "hour = 8") == kept(tmp_path, "hour = '08'") == 200
    result = fm.evaluate(tmp_path, label="y", score="p", metrics="auc", by="hour", where="hour < 10")
    assert sorted(each.key for each in result.slices["hour"]) == ["08", "09"]


def test_keys_of_folders_have_the_type_of_all_of_them(tmp_path):
    write(tmp_path / "n", "hour=8", "hour=10", "hour=__HIVE_DEFAULT_PARTITION__")
    write(tmp_path / "s", "hour=8", "hour=late")
    write(tmp_path / "d", "day=2026-11-01", "day=2026-11-02")

    def keys(data: Any, by: str, **more: Any) -> set[Any]:
        return {each.key for each in fm.evaluate(data, label="y", score="p", metrics="auc", by=by, **more).slices[by]}

    assert keys(tmp_path / "n", "hour") == {8, 10, None}
    assert keys(tmp_path / "n", "hour", text="hour") == {"8", "10", None}
    assert keys(tmp_path / "s", "hour", processes=2) == {"8", "late"}
    assert keys(tmp_path / "d", "day") == {"2026-11-01", "2026-11-02"}
    assert kept(tmp_path / "d", "day > '2026-11-01'") == 4
    with pytest.raises(ConditionError, match=r"with '2026-11'; write it as a date: day >= '2026-11-01'"):
        kept(tmp_path / "d", "day >= '2026-11'")


def test_ids_of_folders_join_with_integers_of_files(tmp_path):
    write(tmp_path / "new", *(f"user={user}" for user in (7, 8, 10)), rows=2)
    table = pa.table({"p": [0.1, 0.9] * 3, "y": [0, 1] * 3, "user": [7, 7, 8, 8, 10, 10]})
    pq.write_table(table, tmp_path / "old.parquet")
    result = fm.evaluate(
        tmp_path / "new", label="y", score="p", metrics="gauc", user="user", baseline=tmp_path / "old.parquet"
    )
    assert result["gauc"] == result.baseline.values["gauc"] == 1.0


def test_a_column_of_the_file_comes_before_the_folder_and_a_number_in_a_folder_may_be_a_label(tmp_path):
    write(tmp_path / "f", "hour=9", hour=[1, 2, 3, 4])
    assert kept(tmp_path / "f", "hour >= 2 and hour < 9") == 3
    for y in (0, 1):
        (tmp_path / f"l/click={y}").mkdir(parents=True)
        pq.write_table(pa.table({"p": [0.1 + 0.8 * y] * 2}), tmp_path / f"l/click={y}/a.parquet")
    assert fm.evaluate(tmp_path / "l", label="click", score="p", metrics="auc")["auc"] == 1.0


def test_no_condition_leaves_out_a_file(tmp_path):
    for name, kind in (("a", pa.uint64()), ("b", pa.string())):
        table = pa.table({"p": [0.1, 0.9], "y": [0, 1], "h": pa.array([1, 2], pa.int64()).cast(kind)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    for processes in (1, 2):
        with pytest.raises(ConditionError, match=r"b\.parquet: where compares column 'h', of string, with 1; "):
            kept(tmp_path, "h = 1", skip_bad_files=True, processes=processes)
    reading = files.Reading(where="h = 'x'")
    with pytest.raises(ConditionError, match=r"column 'h', of uint64, with 'x'; write it as one: h = 3"):
        files.evaluate_file(tmp_path / "a.parquet", fm.AUC, {"prediction": "p", "label": "y"}, reading=reading)
    with pytest.raises(ConditionError, match="data: where compares"):
        kept({"p": [0.1, 0.9], "y": [0, 1], "h": ["a", "b"]}, "h = 1")
    with pytest.raises(DataError, match="no column 'i' for where"):
        kept(tmp_path, "i = 1")


def test_a_result_says_what_values_of_folders_were_taken_as(tmp_path):
    write(tmp_path, "hour=08/day=2026-11-01/k=1/s=a")
    result = fm.evaluate(tmp_path, label="y", score="p", metrics="auc", by=["hour", "day", "k", "s"])
    said = result.to_dict()["data"]["understood"]
    assert {name: said[name] for name in ("hour", "day", "k", "s")} == {
        "hour": "numbers as written, from folders",
        "day": "dates, from folders",
        "k": "integers, from folders",
        "s": "strings, from folders",
    }


def test_workers_have_one_type_for_the_folders_of_all_of_them_and_the_same_error(tmp_path):
    write(tmp_path, "hour=8", "hour=late")  # one file for each worker

    def work(where: str) -> Any:
        return lambda channel: kept(tmp_path, where, by="hour", communicator=channel)

    assert together([work("hour = '8'")] * 2) == [4, 4]
    errors = together([work("hour >= 9")] * 2)
    assert {type(error) for error in errors} == {ConditionError} and len({str(error) for error in errors}) == 1
