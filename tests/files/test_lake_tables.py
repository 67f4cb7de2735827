"""Folders that are tables: only the current files count, read by the table's own library; else a named error."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.errors import DataError, MissingLibraryError
from tests.fakes import together

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

#: Right scores, and those of a version before.
RIGHT, WRONG = {"p": [0.1, 0.9, 0.2, 0.8], "y": [0, 1, 0, 1]}, {"p": [0.9, 0.1, 0.8, 0.2], "y": [0, 1, 0, 1]}


def delta(folder: Path) -> Path:
    """A table with partitions: the files of hour 8 are removed, and those of hour 9 were written a second time."""
    deltalake = pytest.importorskip("deltalake")
    for number, rows in enumerate((WRONG, RIGHT)):
        table = pa.table({**rows, "hour": [9, 9, 10 + number, 10 + number], "day": ["a b", "x/y", "c", "c"]})
        deltalake.write_deltalake(folder, table, mode="overwrite", partition_by=["hour", "day"])
    deltalake.write_deltalake(folder, pa.table({**WRONG, "hour": [8] * 4, "day": ["c"] * 4}), mode="append")
    deltalake.DeltaTable(folder).delete("hour = 8")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return delta(tmp_path_factory.mktemp("delta") / "t")


def evaluated(data: Any, score: str = "p", **more: Any) -> tuple[int, float]:
    """The number of rows, and the AUC."""
    result = fm.evaluate(data, label="y", score=score, metrics="auc", **more)
    return result.to_dict()["data"]["rows"], result["auc"]


@pytest.mark.parametrize("entry", ["", "*", "**", "hour=*", "*/*/*.parquet", "**/*.parquet", ".."])
def test_only_the_current_files_of_a_delta_table_count(made, entry):
    assert evaluated(str(made / entry), processes=1 if entry else 2) == (4, 1.0)


def test_a_part_of_a_delta_table_stands_for_its_current_files(made):
    assert evaluated(made / "hour=9") == (2, 1.0)
    (current,) = files.find(made / "hour=11")
    assert evaluated(current) == evaluated(str(current)) == (2, 1.0)
    metrics, read = files.evaluate_file(str(current), fm.AUC, {"prediction": "p", "label": "y"})
    assert (metrics.compute(), read.rows) == (1.0, 2)


@pytest.mark.parametrize("skip", [False, True])
def test_removed_files_of_a_delta_table_are_refused(made, skip):
    removed = next((made / "hour=8").rglob("*.parquet"))
    for entry in (made / "hour=8", removed, str(removed.parent / "*"), [removed]):
        with pytest.raises(DataError, match=r"is not one of the current files of the table of Delta Lake .*version 3"):
            evaluated(entry, skip_bad_files=skip)
    with pytest.raises(DataError, match="not one of the current files"):
        files.evaluate_file(removed, fm.AUC, {"prediction": "p", "label": "y"})


def test_columns_of_a_delta_table_have_the_types_of_its_schema(made):
    assert evaluated(made, where="hour >= 9 and hour < 100") == (4, 1.0)
    assert evaluated(made, where="hour = 11 and day = 'c'") == (2, 1.0)
    result = fm.evaluate(made, label="y", score="p", metrics="accuracy", by=["hour", "day"])
    assert {each.key: each.rows for each in result.slices["hour"]} == {9: 2, 11: 2}
    assert {each.key for each in result.slices["day"]} == {"a b", "x/y", "c"}


def test_a_column_that_older_files_of_a_delta_table_lack_is_null_there(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "t", pa.table(RIGHT))
    later = pa.table({**RIGHT, "slot": ["a", "b", "a", "b"]})
    deltalake.write_deltalake(tmp_path / "t", later, mode="append", schema_mode="merge")
    assert evaluated(tmp_path / "t", where="slot is null") == (4, 1.0)
    assert evaluated(tmp_path / "t", where="slot in ('a', 'b')") == (4, 1.0)


def test_a_found_file_keeps_its_version_in_other_processes(made):
    file = files.find(made)[0]
    again = pickle.loads(pickle.dumps(file))
    assert (again, again.table, again.types) == (file, file.table, file.types)


def test_a_found_file_is_read_as_of_its_version(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "t", pa.table(WRONG))
    found = files.find(tmp_path / "t")
    deltalake.write_deltalake(tmp_path / "t", pa.table(RIGHT), mode="overwrite")
    assert (evaluated(found), evaluated(tmp_path / "t")) == ((4, 0.0), (4, 1.0))


def test_a_comparison_reads_the_current_files_of_both_sides(made, tmp_path):
    frame = pa.table({**RIGHT, "id": [1, 2, 3, 4]})
    deltalake = pytest.importorskip("deltalake")
    for rows in (WRONG, RIGHT):
        deltalake.write_deltalake(tmp_path / "t", pa.table({**rows, "id": [1, 2, 3, 4]}), mode="overwrite")
    pq.write_table(frame, tmp_path / "new.parquet")
    for more in ({}, {"join_on": "id"}, {"join_on": "id", "join": "inner"}):
        result = fm.evaluate(
            tmp_path / "new.parquet", label="y", score="p", metrics="auc", baseline=tmp_path / "t", **more
        )
        assert result.baseline.values["auc"] == 1.0
    streams = fm.consistency({"a": tmp_path / "new.parquet", "b": tmp_path / "t"}, join_on="id", score="p")
    assert streams.departs is None


@pytest.mark.parametrize("feature", ["deletionVectors", "columnMapping"])
def test_features_that_the_library_of_delta_lake_does_not_know_are_named(tmp_path, feature):
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path / "t", pa.table(RIGHT))
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    for row in rows:
        if "protocol" in row:
            row["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature]}
            row["protocol"]["writerFeatures"] = [feature]
    log.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=rf"deltalake cannot read this table of Delta Lake: .*(?i:{feature}).*export"):
        evaluated(tmp_path / "t")


def test_without_the_library_a_file_counts_if_the_whole_log_says_so(made, monkeypatch):
    current, removed = files.find(made)[0], next((made / "hour=8").rglob("*.parquet"))
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert evaluated(str(current), where="hour >= 9") == (2, 1.0)
    for entry in (removed, made, made / "hour=9", f"{made}/hour=9/*/*.parquet"):
        with pytest.raises(MissingLibraryError, match="pip install deltalake"):
            evaluated(entry)


@pytest.mark.parametrize("change", ["mapped", "vector", "checkpoint"])
def test_without_the_library_no_file_counts_that_is_not_as_the_table_has_it(tmp_path, monkeypatch, change):
    monkeypatch.setitem(sys.modules, "deltalake", None)
    (tmp_path / "_delta_log").mkdir()
    pq.write_table(pa.table(RIGHT), tmp_path / "a.parquet")
    mode = {"configuration": {"delta.columnMapping.mode": "name" if change == "mapped" else "none"}}
    add = {"path": "a.parquet", **({"deletionVector": {"sizeInBytes": 1}} if change == "vector" else {})}
    log = tmp_path / "_delta_log" / f"{int(change == 'checkpoint'):020}.json"
    log.write_text(f"{json.dumps({'metaData': mode})}\n{json.dumps({'add': add})}\n")
    with pytest.raises(MissingLibraryError, match="pip install deltalake"):
        evaluated(tmp_path / "a.parquet")


def iceberg(folder: Path) -> Path:
    """A table with a removed file, a renamed column, and rows of both names."""
    memory = pytest.importorskip("pyiceberg.catalog.memory")
    catalog = memory.InMemoryCatalog("c", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    wrong, right = pa.table(WRONG), pa.table(RIGHT)
    table = catalog.create_table("n.t", schema=wrong.schema)
    table.append(wrong)
    table.overwrite(right)
    with table.update_schema() as update:
        update.rename_column("p", "score")
    table.append(right.rename_columns(["score", "y"]))
    return folder / "n" / "t"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return iceberg(tmp_path_factory.mktemp("iceberg"))


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("entry", ["", "data", "data/*", "**", "../.."])
def test_only_the_current_files_of_an_iceberg_table_count_by_the_ids_of_its_columns(written, entry):
    assert evaluated(str(written / entry), "score") == (8, 1.0)
    if not entry:
        assert evaluated(written, "score", processes=2, where="y = 1 or score < 0.5") == (8, 1.0)


def test_the_metadata_of_an_iceberg_table_stand_for_their_version(written):
    first = min((written / "metadata").glob("00001-*.metadata.json"))
    assert evaluated(first) == (4, 0.0)


def test_removed_files_of_an_iceberg_table_and_copies_of_it_are_refused(written, tmp_path):
    current = set(files.find(written))
    removed = next(path for path in (written / "data").glob("*.parquet") if str(path) not in current)
    with pytest.raises(DataError, match="not one of the current files of the table of Iceberg"):
        evaluated(removed)
    shutil.copytree(written, tmp_path / "copy")
    with pytest.raises(DataError, match="is a copy of the table of Iceberg"):
        evaluated(tmp_path / "copy", "score")
    newest = max((written / "metadata").glob("*.metadata.json"))
    shutil.copytree(written, tmp_path / "two")
    shutil.copy(newest, tmp_path / "two" / "metadata" / newest.name.replace("-", "-0", 1))
    with pytest.raises(DataError, match=r"are both the newest metadata of a table of Iceberg"):
        evaluated(tmp_path / "two", "score")


@pytest.mark.parametrize(
    ("mark", "format"),
    [(".hoodie", "Hudi"), ("snapshot", "Paimon"), ("_delta_log", "Delta Lake"), ("metadata", "Iceberg")],
)
@pytest.mark.parametrize("skip", [False, True])
def test_tables_that_cannot_be_read_are_named(tmp_path, monkeypatch, mark, format, skip):
    for library in ("deltalake", "pyiceberg"):
        monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / "t" / mark).mkdir(parents=True)
    (tmp_path / "t" / "day=1").mkdir()
    pq.write_table(pa.table(RIGHT), tmp_path / "t" / "day=1" / "a.parquet")
    if format == "Paimon":
        for name in ("manifest", "schema"):
            (tmp_path / "t" / name).mkdir()
        (tmp_path / "t" / "schema" / "schema-0").write_text("{}")
    if format == "Iceberg":
        (tmp_path / "t" / "metadata" / "v2.metadata.json").write_text("{}")
    known = format in ("Delta Lake", "Iceberg")
    how = rf"install it with pip install {'deltalake' if format == 'Delta Lake' else 'pyiceberg'}, or " if known else ""
    for entry in ("t", "t/day=1", "t/day=1/a.parquet", "t/*/*.parquet", ""):
        with pytest.raises(MissingLibraryError if known else DataError, match=f"table of {format}.*{how}export"):
            evaluated(tmp_path / entry, skip_bad_files=skip)


def test_a_table_elsewhere_is_refused(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    for name in ("t/_delta_log/0.json", "t/day=1/a.csv", "u/metadata/v1.metadata.json", "u/data/a.csv", "v/a.csv"):
        with fsspec.open(f"memory://tables/{name}", "w") as file:
            file.write("y,p\n1,0.9\n0,0.2\n")
    for entry in ("t", "t/day=1", "t/day=1/a.csv", "t/*/*.csv", "u"):
        with pytest.raises(DataError, match=r"is in a table of (Delta Lake|Iceberg), .*: mount it, or export"):
            evaluated(f"memory://tables/{entry}")
    assert evaluated("memory://tables/v") == (2, 1.0)


def test_folders_that_only_look_like_tables_are_read(tmp_path):
    (tmp_path / "metadata").mkdir()
    for name in ("metadata/a.parquet", "snapshot.parquet"):
        pq.write_table(pa.table(RIGHT), tmp_path / name)
    assert evaluated(tmp_path) == (8, 1.0)


def test_workers_share_the_current_files_and_see_one_version(made):
    work = lambda channel: evaluated(made, by="hour", communicator=channel)  # noqa: E731
    assert together([work] * 2) == [(4, 1.0)] * 2


def test_workers_that_see_different_versions_of_a_table_raise_the_same_error(tmp_path, monkeypatch):
    deltalake = pytest.importorskip("deltalake")
    for rows in (WRONG, RIGHT):
        deltalake.write_deltalake(tmp_path / "t", pa.table(rows), mode="overwrite")
    old = files.find(tmp_path / "t")
    deltalake.DeltaTable(tmp_path / "t").alter.set_table_description("a version with the same files")
    works = [lambda channel, data=data: evaluated(data, communicator=channel) for data in (old, tmp_path / "t")]
    for error in together(works):
        assert isinstance(error, DataError) and "the workers do not see the same files" in str(error)
