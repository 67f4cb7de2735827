"""Rows in shares by their ids: each id is found once, whatever its type, on disk as in memory."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.evaluation.consistency.id_shares import IdPlaces, IdShares

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")

LARGE = 2**63 + np.arange(3, dtype=np.uint64)
TABLES = {
    "int64": pa.table({"id": pa.array([-5, 0, 5, 2**62]), "v": [0.0, 1.0, 2.0, 3.0]}),
    "large and small": pa.table({"id": pa.array([*LARGE.tolist(), 7], pa.uint64()), "v": [0.0, 1.0, 2.0, 3.0]}),
    "string": pa.table({"id": ["", "7", "行", "x" * 99], "v": [0.0, 1.0, 2.0, 3.0]}),
}


@pytest.mark.parametrize("where", ["memory", "disk"])
@pytest.mark.parametrize("number", [1, 3, 1000])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_each_row_is_in_one_share_and_equal_ids_are_in_the_same(tmp_path, table, number, where):
    folder = str(tmp_path) if where == "disk" else None
    one, other = (IdShares(number, folder, {"v": "double"}) for _ in range(2))
    one.add(table)
    one.add(table.slice(0, 0))
    other.add(table.slice(2))
    other.add(table.slice(0, 2))
    rows: list[dict[str, Any]] = []
    for kind in sorted(one.kinds | other.kinds):
        for share in range(number):
            here, there = (
                sorted(shares.take(kind, share).to_pylist(), key=lambda row: row["v"]) for shares in (one, other)
            )
            assert here == there
            rows += here
    assert sorted(rows, key=lambda row: row["v"]) == table.to_pylist()


def test_the_places_of_ids_are_those_in_each_column_and_ids_that_come_twice_are_counted():
    ids, places, counts = IdPlaces.of([pa.array(["a", "b", "c"]), pa.array([], pa.string()), pa.array(["c", "d", "c"])])
    by_id = dict(zip(ids.to_pylist(), zip(*(each.tolist() for each in (*places, *counts)))))
    assert by_id == {
        "a": (0, -1, -1, 1, 0, 0),
        "b": (1, -1, -1, 1, 0, 0),
        "c": (2, -1, 2, 1, 0, 2),
        "d": (-1, -1, 1, 0, 0, 1),
    }
    assert len(IdPlaces.of([pa.array([], pa.int64())] * 2).ids) == 0


def test_a_disk_that_takes_no_more_rows_is_an_error_with_two_ways_out(tmp_path):
    shares = IdShares(2, str(tmp_path / "gone"), {"v": "double"})
    with pytest.raises(fm.DataError, match=r"^rows that exceed memory go to .*gone.*more memory, or .*TMPDIR$"):
        shares.add(TABLES["int64"])


def streams(tmp_path: Path, *tables: Any) -> dict[str, str]:
    import pyarrow.parquet

    for place, files in enumerate(tables):
        (tmp_path / f"{place}").mkdir()
        for name, ids in enumerate(files):
            scores = pa.array(np.linspace(0.1, 0.9, len(ids)) + (0.01 * place if name == 0 else 0))
            pyarrow.parquet.write_table(pa.table({"id": ids, "p": scores}), tmp_path / f"{place}/{name}.parquet")
    return {f"stream {place}": str(tmp_path / f"{place}") for place in range(len(tables))}


@pytest.mark.parametrize("memory", [None, 1000], ids=["in memory", "on disk"])
def test_large_integers_and_strings_of_digits_are_ids_of_their_own(tmp_path, memory):
    large = pa.array([2**63, 2**64 - 1, 5], pa.uint64())
    mixed = [large, pa.array(["5", "18446744073709551615"])]
    (step,) = fm.consistency(streams(tmp_path, mixed, mixed), join_on="id", score="p", memory=memory).steps
    assert (step.rows, step.missing, step.added, step.differ) == (5, 0, 0, 3)
    assert step.example in (5, 2**63, 2**64 - 1)


@pytest.mark.parametrize(
    ("one", "other", "rows"),
    [
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["b", "a"], pa.large_string()), 2),
        (pa.array([1.0, 2.0]), pa.array([2, 1], pa.int32()), 2),
        (
            pa.array([datetime.date(2026, 11, 1), None]).fill_null(datetime.date(2026, 11, 2)),
            pa.array(["2026-11-01"]),
            1,
        ),
        (pa.array([True, False]), pa.array(["true", "x"]), 1),
    ],
    ids=["dictionary", "floats", "dates", "bools"],
)
def test_ids_of_other_types_are_the_integers_or_strings_that_they_say(tmp_path, one, other, rows):
    (step,) = fm.consistency(streams(tmp_path, [one], [other]), join_on="id", score="p").steps
    assert step.rows == rows


def test_ids_that_are_not_utf8_are_an_error_that_names_the_column(tmp_path):
    bad = pa.array([b"a", b"\xff"]).cast(pa.binary())
    with pytest.raises(fm.DataError, match=r"column 'id'.*UTF-8"):
        fm.consistency(streams(tmp_path, [bad], [bad]), join_on="id", score="p")


def test_the_mean_of_log_odds_has_the_same_bits_for_any_memory(tmp_path):
    paths = streams(tmp_path, [pa.array(np.arange(3000))], [pa.array(np.arange(3000)[::-1].copy())])
    means = {
        fm.consistency(paths, join_on="id", score="p", memory=memory).steps[0].mean_log_odds
        for memory in (None, 400_000, 50_000, 3_000)
    }
    assert len(means) == 1
