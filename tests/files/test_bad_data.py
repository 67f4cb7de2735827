"""What is wrong with data is refused with its file and row, or left out and counted; never dropped in silence."""

from __future__ import annotations

import gc
import gzip
import io
import os
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.errors import DataError
from fleetmetrics.files import row_pieces

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS = {"prediction": "p", "label": "y"}
FINE = {"p": [0.9, 0.2, 0.7, 0.4], "y": [1, 0, 1, 0], "w": [1.0, 2.0, 1.0, 1.0], "slot": ["a", "b", "a", "b"]}


def parquet(path, **columns):
    pq.write_table(pa.table({**FINE, **columns}), path)
    return path


def refused(path, columns=COLUMNS, make=fm.AUC, **more):
    with pytest.raises(DataError) as caught:
        files.evaluate(path, make, columns, **more)
    return str(caught.value)


def test_rows_without_a_value_are_counted_by_column_and_once_each(tmp_path):
    path = parquet(
        tmp_path / "it.parquet",
        p=[None, 0.2, None, 0.4, 0.9],
        y=[1, None, None, 0, 1],
        w=[1.0] * 5,
        slot=["a", "b", "a", "b", "a"],
    )
    metrics, read = files.evaluate(path, fm.Count, {**COLUMNS, "weight": "w"}, skip_bad_rows=True)
    assert metrics.compute() == 2
    assert (read.rows, read.skipped, read.nulls) == (5, 3, {"p": 2, "y": 2})
    assert read.examples == (f"{path}: row 0, column 'p': no value",)


def test_many_small_files_are_counted_whole_or_not_at_all_and_merge_without_rounding(tmp_path, monkeypatch):
    monkeypatch.setattr(row_pieces, "_ROWS", 2)  # so that the first rows of a bad file are added before its last
    rng = np.random.default_rng(0)
    for place in range(20):
        score = rng.random(5)
        label = (rng.random(5) < score).astype(int)
        parquet(tmp_path / f"{place:02}.parquet", p=score, y=label, w=[1.0] * 5, slot=["a"] * 5)
    parquet(tmp_path / "07.parquet", p=[0.5, 0.5, 0.5, 7.0])
    (tmp_path / "11.parquet").write_bytes((tmp_path / "12.parquet").read_bytes()[:200])

    def make():
        return fm.MetricCollection(
            {"auc": fm.AUC(), "loss": fm.LogLoss(), "mae": fm.MeanAbsoluteError(), "n": fm.Count()}
        )

    good = [path for path in sorted(tmp_path.iterdir()) if path.name[:2] not in ("07", "11")]
    expected = fm.merge_all([files.evaluate_file(path, make, COLUMNS).metrics for path in good])
    with pytest.raises(DataError, match=r"07.parquet: row 3, .* \(2 of 20 files cannot be used\)") as caught:
        files.evaluate(tmp_path, make, COLUMNS, processes=1)
    found = caught.value.evaluated
    assert found.metrics.compute() == expected.compute() and found.metrics.compute()["n"] == 90
    assert found.read.files == tuple(map(str, good))
    skipped = files.evaluate(tmp_path, make, COLUMNS, processes=1, skip_bad_rows=True, skip_bad_files=True)
    assert skipped.metrics.compute()["n"] == 93 and len(skipped.read.bad_files) == 1
    state, whole = found.metrics.state_dict(), expected.state_dict()
    assert {name: array.tobytes() for name, array in state.items()} == {
        name: array.tobytes() for name, array in whole.items()
    }


def test_a_row_of_several_values_is_judged_by_all_of_them(tmp_path):
    path = tmp_path / "it.parquet"
    label = pa.array([[1, 0, 1], [0, 1, 7], [0, 7, 0], [0, 0, 1]])
    score = pa.array([[0.9, 0.2, 0.8], [0.1] * 3, [0.1] * 3, [0.3, 0.4, 2.0]])
    pq.write_table(pa.table({"p": score, "y": label}), path)

    def make():
        return fm.Accuracy(task="multilabel", num_labels=3)

    metrics, read = files.evaluate(path, make, COLUMNS, skip_bad_rows=True)
    assert (read.rows, read.skipped) == (4, 3) and metrics.compute() == 1.0
    (first, *_) = sorted(read.examples)
    assert "row 1, column 'y': [0, 1, 7] where label must be" in " ".join(read.examples), (first, read.examples)


BAD = {
    "null": ({"p": [0.9, None, 0.7, None]}, {}, "row 1, column 'p': no value"),
    "nan": ({"p": [0.9, 0.2, float("nan"), 0.4]}, {}, "row 2, column 'p': nan where prediction must be a probability"),
    "label": ({"y": [1, 0, 1, 7]}, {}, "row 3, column 'y': 7 where label must be a class"),
    "weight": ({"w": [1.0, -2.0, 1.0, 1.0]}, {"weight": "w"}, "row 1, column 'w': -2.0 where weight must be a finite"),
    "user": ({"slot": ["a", None, "a", "b"]}, {"user": "slot"}, "row 1, column 'slot': no value"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_row_is_refused_with_its_file_and_place(tmp_path, kind):
    given, more, told = BAD[kind]
    make = fm.GAUC if "user" in more else fm.AUC
    text = refused(parquet(tmp_path / "a.parquet", **given), {**COLUMNS, **more}, make)
    assert text.startswith(f"{tmp_path / 'a.parquet'}: {told}")
    assert "skip_bad_rows" in text


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_are_left_out_counted_and_described(tmp_path, kind):
    given, more, told = BAD[kind]
    make = fm.GAUC if "user" in more else fm.Count
    path = parquet(tmp_path / "a.parquet", **given)
    columns = {**COLUMNS, **more}
    if kind in ("nan", "label", "weight"):
        make = fm.AUC
    metrics, read = files.evaluate(path, make, columns, skip_bad_rows=True)
    wrong = 2 if kind == "null" else 1
    assert (read.rows, read.skipped) == (4, wrong)
    assert read.examples[0].startswith(f"{path}: {told}")
    assert read.nulls == ({"p": 2} if kind == "null" else {"slot": 1} if kind == "user" else {})
    if make is fm.Count:
        assert metrics.compute() == 4 - wrong


def test_rows_are_named_by_their_place_in_the_file_after_others_were_left_out(tmp_path):
    path = parquet(tmp_path / "a.parquet", p=[None, 0.2, 0.7, 3.0])
    _, read = files.evaluate(path, fm.AUC, COLUMNS, skip_bad_rows=True)
    assert [each.split(": ", 1)[1][:5] for each in read.examples] == ["row 0", "row 3"]


def test_each_bad_row_counts_once_even_with_several_bad_values(tmp_path):
    scores = [[0.9, 0.1], [np.nan, np.inf], [0.2, 0.8], [0.5, np.nan], [np.inf, np.inf]]
    pq.write_table(pa.table({"p": scores, "y": [0, 1, 1, 0, 1]}), tmp_path / "a.parquet")
    metrics, read = files.evaluate(tmp_path, lambda: fm.Accuracy(num_classes=2), COLUMNS, skip_bad_rows=True)
    assert (read.rows, read.skipped, metrics.compute()) == (5, 3, 1.0)
    assert [each.split(": ", 1)[1][:5] for each in read.examples] == ["row 1"]

    def of_labels():
        return fm.Accuracy(task="multilabel", num_labels=2)

    pq.write_table(pa.table({"p": scores, "y": [[0, 1], [1, 0], [0, 1], [1, 0], [0, 0]]}), tmp_path / "a.parquet")
    metrics, read = files.evaluate(tmp_path, of_labels, COLUMNS, skip_bad_rows=True)
    assert (read.rows, read.skipped) == (5, 3)
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "a.csv").write_text("p,y\n0.9,1\nx,z\n0.2,0\nx,1\n0.3,z\n,z\n")
    metrics, read = files.evaluate(tmp_path, fm.Accuracy, COLUMNS, skip_bad_rows=True)
    assert (read.rows, read.skipped, metrics.compute()) == (6, 4, 1.0)


def test_of_many_rows_at_fault_five_are_described(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"p": 0.5, "y": 1}\n' + "[]\n" * 7)
    one = files.evaluate_file(tmp_path / "a.jsonl", fm.AUC, COLUMNS, skip_bad_rows=True).read
    both = files.evaluate(tmp_path, fm.AUC, COLUMNS, skip_bad_rows=True).read
    assert (one.rows, one.skipped, len(one.examples)) == (8, 7, 5)
    assert (both.rows, both.skipped, len(both.examples)) == (16, 14, 5)


def test_the_place_counts_over_all_pieces(tmp_path, monkeypatch):
    from fleetmetrics.files import row_pieces

    monkeypatch.setattr(row_pieces, "_ROWS", 1000)
    score = np.full(5000, 0.5)
    score[4321] = np.nan
    pq.write_table(pa.table({"p": score, "y": np.arange(5000) % 2}), tmp_path / "a.parquet", row_group_size=700)
    assert "row 4321, column 'p': nan" in refused(tmp_path / "a.parquet")
    _, read = files.evaluate(tmp_path / "a.parquet", fm.AUC, COLUMNS, skip_bad_rows=True)
    assert (read.rows, read.skipped) == (5000, 1)


def test_invalid_lines_of_csv_are_refused_by_number_or_counted(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("p,y,slot\n0.9,1,a\n0.2,0\n0.7,x,b\n,1,c\n0.4,0,d\n")
    assert "line 3: 2 values; the header has 3: '0.2,0'" in refused(path)
    metrics, read = files.evaluate(path, fm.Count, COLUMNS, skip_bad_rows=True)
    assert metrics.compute() == 2
    assert (read.rows, read.skipped, read.nulls) == (5, 3, {"p": 1})
    assert [each.split(": ", 1)[1] for each in read.examples] == [
        "line 3: 2 values; the header has 3: '0.2,0'",
        "row 1, column 'y': 'x' is not a number",
        "row 2, column 'p': no value",
    ]


def test_lines_and_rows_of_csv_keep_their_numbers_over_blocks(tmp_path, monkeypatch):
    from fleetmetrics.files import lines

    monkeypatch.setattr(lines, "_BLOCK", 100)
    rows = ["0.5,1"] * 90
    rows[49], rows[80], rows[88] = "0.5", "7,1", "0.5,x"
    (tmp_path / "a.csv").write_text("\n".join(["p,y", *rows]) + "\n")
    _, read = files.evaluate(tmp_path, fm.AUC, COLUMNS, skip_bad_rows=True)
    assert [each.split(": ")[1].split(",")[0] for each in read.examples] == ["line 51", "row 79", "row 87"]
    assert (read.rows, read.skipped) == (90, 3)


@pytest.mark.parametrize("kind, ahead", [("csv", 20), ("jsonl", 8)])
def test_the_first_bad_row_of_the_file_is_named_even_if_the_reader_is_ahead(tmp_path, monkeypatch, kind, ahead):
    from fleetmetrics.files import lines, one_file

    class Late(one_file._Evaluation):
        def add(self, piece):
            time.sleep(0.1)  # the reader is two pieces ahead by then
            super().add(piece)

    monkeypatch.setattr(lines, "_BLOCK", 50)
    monkeypatch.setattr(one_file, "_FEW_BYTES", 0)
    monkeypatch.setattr(one_file, "_Evaluation", Late)
    rows = [("0.5", 1)] * 30
    rows[3], rows[ahead] = ("7", 1), ("0.5", "x")  # for JSON a line that cannot be parsed
    texts = [f"{p},{y}" if kind == "csv" else f'{{"p": {p}, "y": {y}}}' for p, y in rows]
    (tmp_path / "a").write_text("\n".join(["p,y"] * (kind == "csv") + texts) + "\n")
    assert "row 3, column 'p': 7.0" in refused(tmp_path / "a")
    _, read = files.evaluate(tmp_path / "a", fm.AUC, COLUMNS, skip_bad_rows=True)
    assert [each.split(": row ")[1].split(maxsplit=1)[0].strip(",:") for each in read.examples] == ["3", str(ahead)]
    assert (read.rows, read.skipped) == (30, 2)


def test_a_bad_row_is_refused_where_only_bad_files_may_be_skipped(tmp_path):
    (tmp_path / "a.csv").write_text("p,y\n0.9,1\n0.2,0\n")
    (tmp_path / "b.csv").write_text("p,y\n7,1\n0.2,0\n")
    with pytest.raises(fm.DataError, match=r"b\.csv: row 0, column 'p': 7\.0"):
        files.evaluate(tmp_path, fm.AUC, COLUMNS, skip_bad_files=True)
    metrics, read = files.evaluate(tmp_path, fm.AUC, COLUMNS, skip_bad_files=True, skip_bad_rows=True)
    assert metrics.compute() == 1.0 and (read.rows, read.skipped, read.bad_files) == (4, 1, ())


def test_where_no_file_is_left_skipping_bad_files_is_an_error(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("p,z\n0.9,1\n")
    with pytest.raises(fm.DataError, match=r"a\.csv: no column 'y'"):
        files.evaluate(tmp_path, fm.AUC, COLUMNS, skip_bad_files=True)


@pytest.mark.parametrize(
    "text, words",
    [
        ("maybe", "'maybe' is not a number. "),
        ('"0,75"', "'0,75' is not a number; numbers have no commas: 1234.5. "),
        ('"1,000"', "'1,000' is not a number; numbers have no commas: 1234.5. "),
        ('"1,000,000"', "'1,000,000' is not a number; numbers have no commas: 1234.5. "),
    ],
)
def test_a_non_number_in_csv_is_refused_with_row_and_column(tmp_path, text, words):
    path = tmp_path / "a.csv"
    path.write_text("p,y\n" + "0.9,1\n" * 100 + f"0.9,{text}\n")
    assert f"row 100, column 'y': {words}" in refused(path).replace(" (the first row is row 0)", "")


def test_a_text_among_keys_that_were_whole_numbers_at_the_head_of_the_file_is_refused(tmp_path):
    from fleetmetrics.files import lines

    path, rows = tmp_path / "a.csv", lines.HEAD // 8 + 1
    path.write_text("p,y,u\n" + "0.9,1,3\n" * rows + "0.9,1,x\n")
    with pytest.raises(fm.DataError, match=f"row {rows}, column 'u': 'x' is not a whole number"):
        files.evaluate(path, fm.GAUC, {**COLUMNS, "user": "u"})


def test_invalid_lines_of_json_are_refused_by_number_or_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"p": 0.9, "y": 1}\n{"p": 0.2, "y"\n\n{"p": "high", "y": 1}\n[1]\n{"p": 0.4, "y": 0}\n{"y": 1}')
    assert "row 1: JSON parse error: Missing a colon after a name of object member" in refused(path)
    metrics, read = files.evaluate(path, fm.Count, COLUMNS, skip_bad_rows=True)
    assert metrics.compute() == 2
    assert (read.rows, read.skipped, read.nulls) == (6, 4, {"p": 1})
    assert [each.split(": ")[1] for each in read.examples] == [
        "row 1",
        "row 2, column 'p'",
        "row 3",
        "row 5, column 'p'",
    ]


def test_rows_of_json_keep_their_numbers_after_a_block_with_lines_that_are_none(tmp_path, monkeypatch):
    from fleetmetrics.files import lines

    monkeypatch.setattr(lines, "_BLOCK", 200)
    lines = ['{"p": 0.5, "y": 1}'] * 60
    lines[3] = lines[4] = "no row"
    lines[40], lines[59] = '{"p": 7, "y": 1}', '{"p": 0.5, "y": null}'
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    _, read = files.evaluate(tmp_path, fm.AUC, COLUMNS, skip_bad_rows=True)
    assert [each.split(": ")[1].split(",")[0] for each in read.examples] == ["row 3", "row 4", "row 40", "row 59"]
    assert (read.rows, read.skipped) == (60, 4)


def test_arrays_of_other_lengths_are_refused_and_of_another_byte_order_read(tmp_path):
    score, label = np.array([0.9, 0.2, 0.7, 0.6]), np.array([1, 0, 1, 0])
    np.savez(tmp_path / "a.npz", p=score.astype(">f8"), y=label.astype(">i4"))
    assert files.evaluate(tmp_path / "a.npz", fm.AUC, COLUMNS).metrics.compute() == 1.0
    np.savez(tmp_path / "b.npz", p=score, y=label[:3])
    assert "the arrays differ in length: {'p': 4, 'y': 3}" in refused(tmp_path / "b.npz")


def test_a_field_of_json_that_is_not_asked_for_may_be_anything(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"p": 0.9, "y": 1, "x": [1, {"a": 2}]}\n{"p": 0.2, "y": 0, "x": "no", "late": {}}\n')
    metrics, read = files.evaluate(path, fm.AUC, COLUMNS)
    assert (metrics.compute(), read.rows, read.skipped) == (1.0, 2, 0)


def test_a_wrong_type_names_column_type_and_value(tmp_path):
    path = parquet(tmp_path / "a.parquet", p=["high", "low", "low", "low"])
    assert "column 'p' must hold numbers or bools, not string; the first row has 'high'" in refused(path)
    path = parquet(tmp_path / "a.parquet", slot=[0.5, 1.5, 0.5, 1.5])
    text = refused(path, {**COLUMNS, "slot": "slot"}, lambda: fm.Sliced(fm.AUC(), by="slot"))
    assert "column 'slot' must hold integers, strings, bools, dates or times, not double; a row has 0.5" in text


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_labels_that_are_names_lead_to_positive(tmp_path, kind):
    path = tmp_path / "a.csv"
    path.write_text("p,y\n0.9,yes\n0.2,no\n")
    if kind == "parquet":
        path = parquet(tmp_path / "a.parquet", y=["yes", "no", "no", "no"])
    assert "if labels are names, give positive=LABEL" in refused(path)


@pytest.mark.parametrize("column", ["p", "y", "w"])
def test_an_integer_of_64_bits_that_is_no_key_names_file_and_column(tmp_path, column):
    path = parquet(tmp_path / "a.parquet", **{column: pa.array([0, 1, 2**63, 1], pa.uint64())})
    told = refused(path, {**COLUMNS, "weight": "w"})
    assert f"a.parquet: column '{column}' holds 9223372036854775808; the largest integer allowed is 2**63 - 1" in told
    parquet(tmp_path / "b.parquet")
    columns, found = {**COLUMNS, "weight": "w"}, (tmp_path / "*.parquet").as_posix()
    assert files.evaluate(found, fm.Count, columns, skip_bad_files=True).read.rows == 4
    with pytest.raises(DataError, match=f"column '{column}' holds 9223372036854775808"):
        fm.evaluate(pq.read_table(path), label="y", score="p", weight="w", metrics="accuracy")


def test_a_pattern_without_matches_is_refused(tmp_path):
    assert "or a pattern that matches one" in refused(tmp_path / "*.parquet")
    assert "a folder with files" in refused(tmp_path)
    assert "files is empty" in refused([])


def test_a_path_that_does_not_exist_suggests_its_neighbor_of_a_similar_name(tmp_path):
    parquet(tmp_path / "predictions.parquet")
    assert refused(tmp_path / "prediction.parquet").endswith(f"; did you mean {tmp_path / 'predictions.parquet'}?")
    assert "did you mean" not in refused(tmp_path / "labels.csv") + refused(tmp_path / "absent" / "predictions.parquet")


def test_a_file_that_would_count_twice_is_refused(tmp_path):
    path = parquet(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to(path)
    for other in (tmp_path / "*.parquet", f"{tmp_path}/./a.parquet", tmp_path / "b.parquet", tmp_path):
        assert "would count twice" in refused([path, other])


def test_a_file_and_a_link_to_it_that_one_pattern_matches_count_once_by_the_files_own_name(tmp_path):
    path = parquet(tmp_path / "b.parquet")
    for name in ("a.parquet", "c.parquet"):
        (tmp_path / name).symlink_to(path)
    assert files.find(tmp_path / "*.parquet") == files.find(tmp_path) == [str(path)]


@pytest.mark.parametrize("name", ["a.parquet", "a.npz", "a.arrow", "a.arrows", "a.csv.gz", "a.csv.zst"])
def test_a_truncated_file_is_refused_in_one_line(tmp_path, name, capfd):
    path = tmp_path / name
    table = pa.table({"p": np.random.default_rng(0).random(20_000), "y": np.arange(20_000) % 2})
    if name.endswith("parquet"):
        pq.write_table(table, path)
    elif name.endswith("npz"):
        np.savez(path, p=table["p"].to_numpy(), y=table["y"].to_numpy())
    elif ".csv" in name:
        import pyarrow.csv

        with pa.output_stream(path, compression="detect") as file:
            pyarrow.csv.write_csv(table, file)
    else:
        with (pa.ipc.new_file if name.endswith("arrow") else pa.ipc.new_stream)(path, table.schema) as writer:
            writer.write_table(table, 5000)
    path.write_bytes(path.read_bytes()[: os.path.getsize(path) * 2 // 3])
    assert f"{path}: it cannot be read" in refused(path)
    gc.collect()
    assert capfd.readouterr().err == ""  # of Arrow, which closes what it reads from


KNOWN = "known formats are Parquet, CSV, JSON Lines, LibSVM, NPZ and Arrow IPC"
NO_DATA = [(b"", "it is empty"), (b"\x80\x04\x95\0\0", "it is a pickle"), (b"\x08\0\n", KNOWN)]


@pytest.mark.parametrize("data, told", NO_DATA)
def test_an_argument_that_is_not_data_is_refused(tmp_path, data, told):
    (tmp_path / "a.pkl").write_bytes(data)
    assert told in refused(tmp_path / "a.pkl")


def test_a_file_that_cannot_be_opened_is_refused(tmp_path):
    (tmp_path / "a.parquet").symlink_to(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a.parquet: it cannot be read: Too many levels"):
        files.evaluate_file(tmp_path / "a.parquet", fm.AUC, COLUMNS)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = parquet(tmp_path / "a.parquet")
    add = fm.AUC.add

    def add_and_touch(self, *args, **given):
        add(self, *args, **given)
        os.utime(path, (1, 1))

    monkeypatch.setattr(fm.AUC, "add", add_and_touch)
    assert refused(path) == f"{path}: it changed while it was read; evaluate complete files"


def test_what_was_made_of_other_files_is_kept(tmp_path):
    for place in range(4):
        parquet(tmp_path / f"{place}.parquet", **({"p": [None] * 4} if place == 2 else {}))
    with pytest.raises(DataError, match=r"2.parquet: row 0, column 'p'") as caught:
        files.evaluate(tmp_path, fm.Count, COLUMNS)
    metrics, read = caught.value.evaluated
    assert metrics.compute() == 12
    assert [os.path.basename(file) for file in read.files] == ["0.parquet", "1.parquet", "3.parquet"]


def test_no_thread_stays_when_a_file_is_refused(tmp_path, monkeypatch):
    from fleetmetrics.files import row_pieces

    monkeypatch.setattr(row_pieces, "_ROWS", 100)
    before = threading.active_count()
    pq.write_table(pa.table({"p": np.full(5000, 7.0), "y": np.zeros(5000)}), tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet")
    assert threading.active_count() == before


def test_a_compressed_parquet_file_says_what_to_do(tmp_path):
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(parquet(tmp_path / "a.parquet").read_bytes()))
    assert "parquet cannot be read from a pipe or a compressed stream" in refused(tmp_path / "a.parquet.gz")


def test_settings_that_cannot_be_are_refused(tmp_path):
    path = parquet(tmp_path / "a.parquet")
    for columns, told in (
        ({}, "columns is empty"),
        ({"prediction": 3}, "prediction must be the name of a column"),
        ({"prediction": []}, "prediction must be the name of a column, or a list"),
    ):
        with pytest.raises(fm.InvalidInputError, match=told):
            files.evaluate(path, fm.AUC, columns)
    with pytest.raises(fm.InvalidInputError, match="processes must be an integer of at least 1, not 0"):
        files.evaluate(path, fm.AUC, COLUMNS, processes=0)


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows"])
def test_rows_of_runs_and_views_are_read_and_left_out_as_others(tmp_path, name):
    pc = pytest.importorskip("pyarrow.compute")
    score = pc.run_end_encode(pa.array([0.9, 0.9, 7.0, 0.2, None]))
    keys = pa.array([b"a", b"b", b"a", b"b", b"a"]).cast(pa.binary_view())
    table = pa.table({"p": score, "y": [1, 0, 1, 0, 1], "k": keys})
    with (pa.ipc.new_file if name.endswith("arrow") else pa.ipc.new_stream)(tmp_path / name, table.schema) as writer:
        for start in range(0, 5, 2):
            writer.write_table(table.slice(start, 2))

    def make():
        return fm.Sliced(fm.Accuracy(), by="k")

    columns = {"prediction": "p", "label": "y", "k": "k"}
    metrics, read = files.evaluate(tmp_path, make, columns, skip_bad_rows=True)
    assert metrics.compute() == {"a": 1.0, "b": 0.5}
    assert (read.rows, read.skipped, read.nulls) == (5, 2, {"p": 1})  # 7 is no probability


@pytest.mark.parametrize("shape", ["(1000,) ", "(-1000,)", "(0,)    "])
@pytest.mark.parametrize("compressed", [False, True])
def test_an_array_that_says_fewer_rows_than_it_has_is_an_error(tmp_path: Path, shape: str, compressed: bool) -> None:
    path, held = str(tmp_path / "fewer.npz"), io.BytesIO()
    np.save(held, np.arange(20000.0))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        archive.writestr("x.npy", held.getvalue().replace(b"(20000,)", shape.encode()))
    with pytest.raises(fm.FleetMetricsError, match=r"fewer\.npz.*'x'"):
        fm.files.evaluate(path, fm.Mean, {"value": "x"}, processes=1)


@pytest.mark.parametrize("way", ["compression", "encrypted", "version", "lzma"])
def test_archives_that_zipfile_cannot_read_are_named(tmp_path: Path, way: str) -> None:
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA if way == "lzma" else zipfile.ZIP_STORED) as archive:
        held = io.BytesIO()
        np.save(held, np.arange(3.0))
        archive.writestr("x.npy", held.getvalue())
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    place, value = {"compression": (10, 77), "encrypted": (8, 1), "version": (6, 200), "lzma": (0, 0x50)}[way]
    data[entry + place] = value
    path.write_bytes(bytes(data))
    with pytest.raises(fm.FleetMetricsError, match=r"odd\.npz"):
        fm.files.evaluate(str(path), fm.Mean, {"value": "x"}, processes=1)


@pytest.mark.parametrize(
    ("column", "values", "hint"),
    [
        ("y", [1, 2, 1, 2], "; if 2 is the positive one, give positive=2 (the first"),
        ("y", [0.1, 0.2, 0.9, 0.5], "; are these the scores? (the first"),
        ("p", [90.0, 2.0, 30.0, 4.0], "; for logits give from_logits=True, for percent scale=0.01 (the first"),
        ("p", [-3.0, 2.0, 0.5, 4.0], "; for logits give from_logits=True (the first"),
    ],
)
def test_labels_of_one_and_two_swapped_columns_and_percent_are_told_their_way_out(column, values, hint):
    with pytest.raises(DataError) as caught:
        fm.evaluate({"y": [0, 1, 0, 1], "p": [0.1, 0.8, 0.4, 0.3], column: values}, label="y", score="p")
    assert hint in str(caught.value)
