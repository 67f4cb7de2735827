"""One file: which row is which, whatever is left out before it."""

from __future__ import annotations

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.columns.joining import CommonIds
from fleetmetrics.columns.reading import SideReading
from fleetmetrics.errors import DataError
from fleetmetrics.files import row_pieces
from fleetmetrics.files.one_file import of_tables

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS = {"prediction": "p", "label": "y"}


class Numbers(fm.Metric):
    """The numbers of the rows."""

    columns = ("row",)

    def add(self, prediction, row):
        self.seen = [*getattr(self, "seen", []), *row.tolist()]


def test_a_row_keeps_its_number_whatever_is_left_out_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr(row_pieces, "_ROWS", 4)
    table = pa.table({"p": [0.5, 0.5, None, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], "n": range(9)})
    pq.write_table(table, tmp_path / "a.parquet")
    reading = files.Reading(where="n != 6")
    metrics, _ = files.evaluate_file(
        tmp_path / "a.parquet", Numbers, {"prediction": "p", "row": files.ROW}, skip_bad_rows=True, reading=reading
    )
    assert [each - metrics.seen[0] for each in metrics.seen] == [0, 1, 3, 4, 5, 7, 8]


@pytest.mark.parametrize("how", ["where", "join"])
def test_rows_left_out_of_one_part_of_a_frame_count_in_the_numbers_of_the_next(how):
    reading = SideReading(id="n", common=CommonIds(np.array([0, 2, 3, 4]))) if how == "join" else None
    reading = reading or files.Reading(where="n != 1")
    parts = [pa.table({"p": [0.9, 0.2], "y": [1, 0], "n": [0, 1]})] * 2
    parts.append(pa.table({"p": [0.5, 7.0], "y": [1, 0], "n": [3, 4]}))
    with pytest.raises(DataError, match=r"part 3: row 5, column 'p': 7\.0"):
        of_tables(parts, fm.AUC(), COLUMNS, False, "part 3", reading=reading)
    read = of_tables(parts, fm.AUC(), COLUMNS, True, "part 3", reading=reading).read
    assert (read.rows, read.left_out + read.unmatched, read.skipped) == (4, 2, 1)


def test_a_file_has_as_many_rows_as_it_has_however_few_count(tmp_path):
    pq.write_table(pa.table({"p": [0.9, 0.2, 0.5, 7.0], "y": [1, 0, 1, 1], "n": range(4)}), tmp_path / "a.parquet")
    reading = SideReading(where="n != 0", id="n", common=CommonIds(np.array([1, 3])))
    read = files.evaluate(tmp_path, fm.AUC, COLUMNS, reading=reading, skip_bad_rows=True).read
    assert (read.rows, read.left_out, read.unmatched, read.skipped) == (2, 1, 1, 1)
    assert [source.rows for source in read.sources] == [4]


def test_a_score_at_fault_is_shown_as_its_row_has_it_in_a_pass_over_some_users(tmp_path):
    score = [10.0, 20.0, 30.0, 40.0, 50.0, 637.0]
    pq.write_table(pa.table({"p": score, "y": [1, 0] * 3, "u": range(6)}), tmp_path / "a.parquet")
    reading, columns = files.Reading(scale=0.01), {**COLUMNS, "user": "u"}

    def make():
        return fm.MetricCollection({"gauc": fm.GAUC(), "auc": fm.AUC()})

    with pytest.raises(DataError, match=r"row 5, column 'p': 637.0, by scale=0.01 6.37"):
        files.evaluate(tmp_path, make, columns, reading=reading, complete_by="user", processes=2, memory=1 << 31)


def test_files_that_begin_and_end_alike_are_told_apart_by_their_size(tmp_path):
    digests = []
    for pairs in 20_000, 20_001:  # 12 bytes each; the hash reads 64 KiB from both ends
        path = tmp_path / f"{pairs}.csv"
        path.write_text("p,y\n" + "0.5,1\n0.5,0\n" * pairs)
        (source,) = files.evaluate_file(path, fm.AUC, COLUMNS).read.sources
        digests.append(source.digest)
    assert digests[0] != digests[1]


def test_an_error_of_the_metric_that_no_row_causes_names_the_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("p,q,y\n0.9,0.1,1\n")
    columns = {"prediction": ["p", "q"], "label": "y"}
    for skip in (False, True):
        with pytest.raises(DataError, match=r"a\.csv: .* prediction has shape \[n, 2\]; .* it must be \[n, 3\] scores"):
            files.evaluate(path, lambda: fm.Accuracy(task="multiclass", num_classes=3), columns, skip_bad_rows=skip)


def test_tables_are_no_files_of_what_was_read():
    table = pa.table({"p": [0.5, 0.6], "y": [0, 1]})
    metrics, read = of_tables([table, table], fm.AUC(), COLUMNS, False, "frame")
    assert metrics.compute() == 1.0 and (read.files, read.rows) == ((), 4)


def test_json_lines_with_zero_bytes_are_refused_as_no_known_format(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes('{"p": 0.5, "y": 1}\n'.encode("utf-16-le") * 30)
    with pytest.raises(DataError, match="if it is UTF-16 without a byte order mark, write UTF-8"):
        files.evaluate(path, fm.AUC, COLUMNS)
