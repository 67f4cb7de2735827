"""Data as people have them: labels that are texts, scores in percent, no line of names, rows that do not count."""

from __future__ import annotations

import bz2
import json
import lzma
import os
import pickle

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.files import Reading
from tests.pages import both

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pandas = pytest.importorskip("pandas")

COLUMNS = {"prediction": "p", "label": "y"}
FORMATS = ["a.parquet", "a.csv", "a.jsonl", "a.arrow", "a.npz"]


def write(path, table):
    """A dict of lists in the format that the name says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table(table), path)
    elif path.suffix == ".csv":
        pandas.DataFrame(table).to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        rows = zip(*table.values())
        path.write_text("".join(json.dumps(dict(zip(table, row))) + "\n" for row in rows))
    elif path.suffix == ".npz":
        np.savez(path, **{name: np.array(each) for name, each in table.items()})
    else:
        data = pa.table(table)
        with pa.ipc.new_file(path, data.schema) as writer:
            writer.write_table(data)
    return path


def evaluated(path, make=fm.LogLoss, columns=COLUMNS, **reading):
    more = {name: reading.pop(name) for name in ("skip_bad_rows", "format", "processes") if name in reading}
    metrics, read = files.evaluate(path, make, columns, reading=Reading(**reading), **more)
    return metrics.compute(), read


def refused(path, make=fm.LogLoss, columns=COLUMNS, **reading):
    with pytest.raises(DataError) as caught:
        evaluated(path, make, columns, **reading)
    return str(caught.value)


def slots():
    return fm.Sliced(fm.Count(), by="k", max_keys=None)


SCORES = [0.9, 0.2, 0.7, 0.4]
WANTED = fm.LogLoss()
WANTED.add(SCORES, [1, 0, 1, 0])


# -- labels and scores -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("label, positive", [(["click", "no", "click", "x"], "click"), ([1, -1, 1, -1], "1")])
def test_the_positive_label_is_1_and_every_other_is_0(tmp_path, name, label, positive):
    path = write(tmp_path / name, {"y": label, "p": SCORES})
    assert evaluated(path, positive=positive)[0] == WANTED.compute()


@pytest.mark.parametrize("label, positive", [([True, False, True, False], "true"), ([1.0, 0.0, 1.0, 2.0], "1")])
def test_bools_and_floats_have_a_positive_label_too(tmp_path, label, positive):
    for name in FORMATS:
        path = write(tmp_path / name, {"y": label, "p": SCORES})
        assert evaluated(path, positive="True" if (name, positive) == ("a.csv", "true") else positive)[0] == (
            WANTED.compute()
        )


def test_an_empty_label_is_not_a_negative_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("y,p\nclick,0.9\n,0.2\n")
    assert "row 1, column 'y': no value" in refused(path, positive="click")
    write(tmp_path / "a.parquet", {"y": ["click", ""], "p": [0.9, 0.2]})
    assert "row 1, column 'y': no value" in refused(tmp_path / "a.parquet", positive="click")


@pytest.mark.parametrize("name", FORMATS)
def test_names_of_classes_become_their_places_and_other_names_are_refused(tmp_path, name):
    scores = np.random.default_rng(0).random((6, 3))
    scores /= scores.sum(axis=1, keepdims=True)
    table = {f"p{place}": scores[:, place].tolist() for place in range(3)}
    label = ["dog", "cat", "bird", "cat", "dog", "bird"]
    columns = {"prediction": ["p0", "p1", "p2"], "label": "y"}
    path = write(tmp_path / name, {"y": label, **table})
    given = ["bird", "cat", "dog"]
    wanted = fm.Accuracy(task="multiclass", num_classes=3)
    wanted.add(scores, [given.index(each) for each in label])

    def make():
        return fm.Accuracy(task="multiclass", num_classes=3)

    assert evaluated(path, make, columns, classes=given)[0] == wanted.compute()
    write(path, {"y": [*label[:5], "cow"], **table})
    text = refused(path, make, columns, classes=given)
    assert "row 5, column 'y': 'cow' where the label must be one of classes, bird, cat, dog" in text
    assert evaluated(path, make, columns, classes=given, skip_bad_rows=True)[1].skipped == 1


def test_predictions_may_be_names_of_classes(tmp_path):
    path = write(tmp_path / "a.csv", {"y": ["a", "b", "b"], "p": ["a", "a", "b"]})
    value, _ = evaluated(path, lambda: fm.Accuracy(task="multiclass", num_classes=2), classes=["a", "b"])
    assert value == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", FORMATS)
def test_logits_become_probabilities_and_percent_shares(tmp_path, name):
    logits = np.log(np.array(SCORES) / (1 - np.array(SCORES)))
    path = write(tmp_path / name, {"y": [1, 0, 1, 0], "p": logits.tolist()})
    assert evaluated(path, from_logits=True)[0] == pytest.approx(WANTED.compute(), rel=1e-14)
    path = write(tmp_path / name, {"y": [1, 0, 1, 0], "p": [90, 20, 70, 40]})
    assert evaluated(path, scale=0.01)[0] == pytest.approx(WANTED.compute(), rel=1e-14)


def test_scores_are_scaled_in_float64_also_those_of_integers_and_of_fewer_bits():
    for scores in (np.array([63.7, 12.0], np.float32), np.array([63, 12], np.int8), np.array([True, False])):
        found = Reading(scale=0.01).scores(scores)
        assert found.dtype == np.float64 and found.tolist() == (scores.astype(np.float64) * 0.01).tolist()


def test_labels_of_bytes_have_names_too(tmp_path):
    table = pa.table({"y": [b"click", b"no", b"click", b"\xff"], "p": SCORES})
    pq.write_table(table, tmp_path / "a.parquet")
    found = evaluated(tmp_path / "a.parquet", positive="click")[0]
    with_texts = write(tmp_path / "b.parquet", {"y": ["click", "no", "click", "else"], "p": SCORES})
    assert found == evaluated(with_texts, positive="click")[0]


@pytest.mark.parametrize("text", ["y,p\n1,0.9\n0,0.2\n", '{"y": 1, "p": 0.9}\n{"y": 0, "p": 0.2}\n'])
def test_a_byte_order_mark_is_no_part_of_the_data(tmp_path, text):
    for name, mark in (("plain", b""), ("marked", b"\xef\xbb\xbf")):
        (tmp_path / name).write_bytes(mark + text.encode())
    assert evaluated(tmp_path / "marked")[0] == evaluated(tmp_path / "plain")[0]


def test_a_missing_value_in_a_column_of_the_condition_alone_is_not_counted(tmp_path):
    path = write(tmp_path / "a.parquet", {"y": [1, 0, 1], "p": [0.9, 0.2, 0.6], "day": ["mon", None, "tue"]})
    read = evaluated(path, where="day is null or day = 'mon'")[1]
    assert (read.rows, read.left_out, read.nulls) == (2, 1, {})


def test_a_text_of_a_condition_may_stay_a_text(tmp_path):
    (tmp_path / "a.csv").write_text("y,p,day\n1,0.9,007\n0,0.2,7\n1,0.6,007\n")
    found = fm.evaluate(tmp_path / "a.csv", label="y", score="p", metrics="log_loss", where="day = '007'", text="day")
    assert (found.new.rows, found.new.data.left_out) == (2, 1)


def test_logits_of_any_size_and_of_several_classes():
    found = Reading(from_logits=True).scores(np.array([-1e300, -745.0, 0.0, 800.0, np.nan]))
    np.testing.assert_array_equal(found[[0, 2, 3, 4]], [0, 0.5, 1, np.nan])
    assert 0 <= found[1] < 1e-300
    several = np.array([[1000.0, 1000.0], [0.0, np.log(3.0)]])
    np.testing.assert_allclose(Reading(from_logits=True).scores(several), [[0.5, 0.5], [0.25, 0.75]])


def test_a_score_at_fault_is_shown_as_the_data_have_it(tmp_path):
    path = write(tmp_path / "a.csv", {"y": [1, 0], "p": [90, 637]})
    text = refused(path, scale=0.01)
    assert "row 1, column 'p': 637.0, by scale=0.01 6.37, where prediction must be a probability" in text


# -- keys --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_text_is_not_a_value_in_any_format(tmp_path, name):
    path = write(tmp_path / name, {"y": [1, 0, 1], "p": [0.9, 0.2, 0.5], "k": ["a", "", "a"]})
    found, _ = evaluated(path, slots, {**COLUMNS, "k": "k"})
    assert found == {"a": 2.0, None: 1.0}
    assert "row 1, column 'k': no value" in refused(path, fm.GAUC, {**COLUMNS, "user": "k"})


def test_an_empty_text_in_a_frame_is_not_a_value_either():
    metric = slots()
    frame = pandas.DataFrame({"y": [1, 0, 1], "p": [0.9, 0.2, 0.5], "k": ["a", "", "a"]})
    metric.add_frame(frame, prediction="p", label="y", k="k")
    assert metric.compute() == {"a": 2.0, None: 1.0}


@pytest.mark.parametrize("name", [*FORMATS[:4], "frame"])
def test_whole_floats_are_integers_as_ids_of_pandas_are(tmp_path, name):
    table = {"y": [1, 0, 1, 0], "p": SCORES, "k": [1.0, 2.0, None, 1.0]}
    columns = {**COLUMNS, "k": "k"}
    if name == "frame":
        metric = slots()
        metric.add_frame(pandas.DataFrame(table), prediction="p", label="y", k="k")
        assert metric.compute() == {1: 2.0, 2: 1.0, None: 1.0}
        return
    path = write(tmp_path / name, table)
    assert evaluated(path, slots, columns)[0] == {1: 2.0, 2: 1.0, None: 1.0}


def test_floats_that_are_not_whole_are_no_keys_but_texts_in_text(tmp_path):
    table = {"y": [1, 0], "p": SCORES[:2], "k": [1.0, 2.5]}
    columns = {**COLUMNS, "k": "k"}
    text = refused(write(tmp_path / "a.parquet", table), slots, columns)
    assert "column 'k' must hold integers, strings, bools, dates or times, not double; a row has 2.5" in text
    assert evaluated(write(tmp_path / "a.csv", table), slots, columns)[0] == {"1.0": 1.0, "2.5": 1.0}
    table["k"] = [1.0, 2.0**60]
    assert "holds floats of 2**53 or more" in refused(write(tmp_path / "a.parquet", table), slots, columns)


def test_the_least_integer_is_refused_as_a_key_and_not_taken_for_none(tmp_path):
    path = write(tmp_path / "a.parquet", {"y": [1, 0], "p": SCORES[:2], "k": [1, -(2**63)]})
    text = refused(path, slots, {**COLUMNS, "k": "k"})
    assert "column 'k' holds -9223372036854775808, which stands for rows without a key" in text


@pytest.mark.parametrize("name", FORMATS[:4])
def test_keys_stay_texts_where_asked(tmp_path, name):
    keys = ["007", "7", "007", "1.0"] if name == "a.csv" else [7, 8, 7, 1]
    path = write(tmp_path / name, {"y": [1, 0, 1, 0], "p": SCORES, "k": keys})
    found, _ = evaluated(path, slots, {**COLUMNS, "k": "k"}, text=["k"])
    assert found == {str(key): float(keys.count(key)) for key in keys}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("column", ["a,b", "a.b", 'say "hi"', " 空 "])
def test_columns_may_be_called_anything(tmp_path, name, column):
    path = write(tmp_path / name, {"y": [1, 0, 1, 0], column: SCORES, "k": ["a"] * 4})
    assert evaluated(path, columns={"prediction": column, "label": "y"})[0] == WANTED.compute()


def test_a_name_that_two_columns_have_is_refused_where_it_is_asked_for(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("p,y,p,z,z\n0.9,1,0.5,1,1\n0.2,0,0.5,1,1\n")
    assert f"{path}: 2 columns are called 'p'; rename them until only one is" in refused(path)
    path.write_text("p,y,z,z\n0.9,1,1,1\n0.2,0,1,1\n")
    assert evaluated(path)[1].rows == 2


# -- lines ---------------------------------------------------------------------------------------------------


def test_a_file_like_criteos_has_no_names_forty_columns_and_empty_fields(tmp_path):
    names = ["label", *(f"I{place}" for place in range(1, 14)), *(f"C{place}" for place in range(1, 27))]
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(50):
        cells = [str(rng.integers(0, 2)), *("" if rng.random() < 0.3 else str(rng.integers(0, 99)) for _ in range(13))]
        cells += ["" if rng.random() < 0.2 else f"{rng.integers(0, 4):08x}" for _ in range(26)]
        cells[1] = f"{rng.random():.3f}"
        lines.append("\t".join(cells))
    path = tmp_path / "day_0"
    path.write_text("\n".join(lines) + "\n")
    frame = pandas.read_csv(path, sep="\t", names=names, dtype={"C1": str})
    columns = {"prediction": "I1", "label": "label", "k": "C1"}
    found, read = evaluated(path, slots, columns, header=names, text=["C1"])
    wanted = frame["C1"].astype(object).where(frame["C1"].notna(), None).value_counts(dropna=False)
    assert found == {None if pandas.isna(key) else key: float(n) for key, n in wanted.items()} and read.rows == 50
    assert "line 1 has 40 values; columns names 39" in refused(path, slots, columns, header=names[:-1])


def test_names_are_for_csv_and_for_all_of_its_lines(tmp_path):
    path = write(tmp_path / "a.parquet", {"y": [1, 0], "p": [0.9, 0.2]})
    text = refused(path, header=["y", "p"])
    assert text == f"{path}: columns names the columns of CSV without a header; this is Parquet"
    (tmp_path / "a.csv").write_text("1,0.9\n0,0.2,5\n")
    assert "line 2: 3 values; columns names 2: '0,0.2,5'" in refused(tmp_path / "a.csv", header=["y", "p"])


PACKED = {
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "utf-16": lambda data: data.decode().encode("utf-16"),
    "utf-16-be": lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be"),
    "utf-8-sig": lambda data: b"\xef\xbb\xbf" + data,
    "xz of utf-16": lambda data: lzma.compress(data.decode().encode("utf-16")),
}


@pytest.mark.parametrize("how", PACKED)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_texts_may_be_packed_and_in_utf_16(tmp_path, how, name, monkeypatch):
    from fleetmetrics.files import lines

    monkeypatch.setattr(lines, "_BLOCK", 1000)
    n = 400
    table = {"y": [1, 0] * (n // 2), "p": [0.9, 0.2] * (n // 2), "k": ["空", "b"] * (n // 2)}
    path = write(tmp_path / name, table)
    path.write_bytes(PACKED[how](path.read_bytes()))
    found, read = evaluated(path, slots, {**COLUMNS, "k": "k"})
    assert found == {"空": n / 2, "b": n / 2} and read.rows == n


@pytest.mark.parametrize("how", ["bz2", "xz"])
def test_a_packed_file_that_is_cut_off_is_refused(tmp_path, how):
    path = tmp_path / "a.csv"
    rng = np.random.default_rng(0)
    data = "y,p\n" + "".join(f"1,{each}\n" for each in rng.random(50_000))
    whole = PACKED[how](data.encode())
    path.write_bytes(whole[: len(whole) * 2 // 3])
    assert "it cannot be read" in refused(path, fm.MeanAbsoluteError)


FOREIGN = {
    "a.npy": (lambda path: np.save(path, np.zeros(3)), "it is a single array (.npy)"),
    "a.json": (lambda path: path.write_text('[\n {"y": 1, "p": 0.5}]'), "a JSON array, not JSON Lines"),
    "a.zip": (lambda path: path.write_bytes(zipped()), "a ZIP archive without arrays"),
    "a.orc": (lambda path: path.write_bytes(b"ORC\0\0\0"), "it is ORC"),
    "a.txt": (lambda path: path.write_bytes("y,p\n1,0.5\n".encode("utf-16-le") * 30), "UTF-16 without a byte order"),
}


def zipped():
    import io
    import zipfile

    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("a.csv", "y,p\n1,0.5\n")
    return held.getvalue()


@pytest.mark.parametrize("name", FOREIGN)
def test_an_unsupported_file_is_an_error_with_its_name_and_a_remedy(tmp_path, name):
    make, told = FOREIGN[name]
    make(tmp_path / name)
    assert told in refused(tmp_path / name)


# -- rows that count -------------------------------------------------------------------------------------------

TABLE = {
    "y": [1, 0, 1, 0, 1, 0],
    "p": [0.9, 0.2, 0.7, 0.4, 0.6, 0.1],
    "n": [1, 5, 7, 3, 9, 2],
    "day": ["mon", "tue", "tue", "wed", "it's", "mon"],
}
WHERE = {
    "day = 'tue' and n > 3": lambda t: (t.day == "tue") & (t.n > 3),
    "n in (1, 2, 9) or day='wed'": lambda t: t.n.isin([1, 2, 9]) | (t.day == "wed"),
    "NOT (n <= 3) And day <> 'tue'": lambda t: ~(t.n <= 3) & (t.day != "tue"),
    "n between 2 and 5": lambda t: t.n.between(2, 5),
    "n not between 2 and 5": lambda t: ~t.n.between(2, 5),
    "day not in ('mon', 'tue')": lambda t: ~t.day.isin(["mon", "tue"]),
    "day = 'it''s'": lambda t: t.day == "it's",
    "\"day\" >= 'tue' and p < 0.65": lambda t: (t.day >= "tue") & (t.p < 0.65),
    "p != 0.7 and `n` == 7 or n=-1": lambda t: t.n < 0,
    "day is not null": lambda t: t.n > 0,
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("where", WHERE)
def test_rows_that_a_condition_leaves_out_are_counted_and_the_others_are_those_of_pandas(tmp_path, name, where):
    path = write(tmp_path / name, TABLE)
    kept = pandas.DataFrame(TABLE)[WHERE[where]]
    columns = {**COLUMNS, "k": "day"}
    found, read = evaluated(path, slots, columns, where=where)
    assert found == {key: float(number) for key, number in kept.day.value_counts().items()}
    assert (read.rows, read.left_out) == (len(kept), 6 - len(kept))
    assert read.sources[0].rows == 6


def test_a_comparison_with_nothing_is_not_true_and_bad_rows_that_do_not_count_are_no_error(tmp_path):
    table = {"y": [1, 0, 7], "p": [0.9, 0.2, None], "n": [1, None, 3], "ok": [True, True, False]}
    path = write(tmp_path / "a.parquet", table)
    assert evaluated(path, fm.Count, where="n != 3")[1][1] == 1
    assert evaluated(path, fm.Count, where="n is null")[1][1] == 1
    _, read = evaluated(path, fm.LogLoss, where="ok = true")
    assert (read.rows, read.left_out, read.skipped) == (2, 1, 0)
    text = refused(path, fm.LogLoss, where="n is not null")
    assert "row 2, column 'p': no value" in text  # its place is that in the file


def test_dates_compare_with_texts_and_a_column_of_another_kind_is_refused(tmp_path):
    import datetime

    days = [datetime.date(2026, 11, day) for day in (1, 2, 3)]
    table = {"y": [1, 0, 1], "p": [0.9, 0.2, 0.7], "day": days, "n": [1, 2, 3], "t": ["a", "b", "c"]}
    path = write(tmp_path / "a.parquet", table)
    assert evaluated(path, where="day >= '2026-11-02'")[1].rows == 2
    for where, told in (
        ("n = '3'", "where compares column 'n', of int64, with '3'; write it as one"),
        ("t = 3", "where compares column 't', of string, with 3; write it as a string"),
        ("day > 'tomorrow'", "where compares column 'day', of date32[day], with 'tomorrow'"),
        ("nn > 3", "no column 'nn' for where; did you mean 'n'?"),
    ):
        assert told in refused(path, where=where)


def test_the_name_of_a_folder_is_decoded_and_that_of_no_value_is_null(tmp_path):
    for name in ("__HIVE_DEFAULT_PARTITION__", "a%20b%2Fc"):
        (tmp_path / f"slot={name}").mkdir()
        write(tmp_path / f"slot={name}" / "a.parquet", {"y": [1, 0], "p": [0.9, 0.2]})
    columns = {"prediction": "p", "label": "y", "slot": "slot"}
    metrics, read = files.evaluate(tmp_path, lambda: fm.Sliced(fm.Count(), "slot"), columns, processes=1)
    assert metrics.compute() == {"a b/c": 2, None: 2} and read.nulls == {"slot": 2}


def test_columns_of_folders_are_fit_for_a_condition(tmp_path):
    for day in ("2026-11-01", "2026-11-02"):
        (tmp_path / f"day={day}").mkdir()
        write(tmp_path / f"day={day}" / "a.parquet", {"y": [1, 0], "p": [0.9, 0.2]})
    _, read = evaluated(tmp_path, where="day='2026-11-01'")
    assert (read.rows, read.left_out) == (2, 2)


@pytest.mark.parametrize(
    "where, told",
    [
        ("", "where must be a condition"),
        ("n >", "at its end it should have a number, a string in single quotes"),
        ("n > 3 or", "at its end it should have the name of a column"),
        ("(n > 3", "at its end it should have ')'"),
        ("n > 3 4", "at '4' it should have 'and', 'or' or the end"),
        ("n ~ 3", "at '~ 3' it cannot be read"),
        ('day = "tue"', "at '\"tue\"' it should have a number, a string in single quotes"),
        ("n in 3", "at '3' it should have '('"),
        ("n is 3", "at '3' it should have 'null'"),
        ("__import__('os')", "it should have =, !="),
    ],
)
def test_a_condition_that_cannot_be_read_is_refused_at_once_with_its_place(where, told):
    with pytest.raises(InvalidInputError) as caught:
        Reading(where=where)
    assert told in str(caught.value)


def test_two_processes_read_as_one_does(tmp_path):
    for place in range(4):
        write(tmp_path / f"{place}.csv", {**TABLE, "y": ["click", "no"] * 3})
    given = {"where": "n > 2 and day != 'wed'", "positive": "click", "scale": 0.5}
    one, two = (evaluated(tmp_path, fm.LogLoss, processes=number, **given) for number in (1, 2))
    assert one == two and one[1].left_out == 12


def test_shares_of_users_leave_out_the_same_rows(tmp_path):
    path = write(tmp_path / "a.parquet", {**TABLE, "u": [1, 1, 2, 2, 3, 3]})
    columns = {**COLUMNS, "user": "u"}
    whole = files.evaluate(path, fm.GAUC, columns, reading=Reading(where="n > 1"))
    shares = files.evaluate(path, fm.GAUC, columns, reading=Reading(where="n > 1"), complete_by="user")
    assert whole.metrics.compute() == shares.metrics.compute() and whole.read == shares.read


def test_the_largest_slices_are_those_of_the_rows_that_count(tmp_path):
    path = write(tmp_path / "a.parquet", {"y": [1, 0] * 4, "p": [0.5] * 8, "k": list("aaaabbcc"), "n": range(8)})
    reading = Reading(where="n > 2")
    metrics, _ = files.evaluate(path, slots, {**COLUMNS, "k": "k"}, reading=reading, max_slices=2)
    assert metrics.compute() == {"b": 2.0, "c": 2.0, "other": 1.0}


@pytest.mark.parametrize(
    "given, told",
    [
        ({"positive": 1}, "positive must be a string"),
        ({"classes": ["a"]}, "classes must name two classes or more"),
        ({"classes": ["a", "a"]}, "classes has 'a' 2 times"),
        ({"header": "a,b"}, "columns must be a list of strings"),
        ({"scale": 0}, "scale must be a finite number above 0"),
        ({"from_logits": 1}, "from_logits must be True or False"),
    ],
)
def test_readings_that_cannot_be_are_refused(given, told):
    with pytest.raises(InvalidInputError, match=told):
        Reading(**given)


def test_a_reading_travels_to_other_processes():
    reading = Reading(where="a = 1 and not b in ('x')")
    assert pickle.loads(pickle.dumps(reading)) == reading
    with pytest.raises(InvalidInputError, match="reading must be a fleetmetrics"):
        files.evaluate("nothing", fm.AUC, COLUMNS, reading={"where": "a = 1"})


# -- what a pattern and a URL mean ------------------------------------------------------------------------------


def test_a_pattern_means_the_files_of_the_folders_that_it_matches_too(tmp_path):
    for name in ("a.csv", "day1/b.csv", "day1/_x/c.csv", "_tmp/d.csv", "day2.csv/part-0"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("y,p\n1,0.5\n")

    def found(pattern):
        return [os.path.relpath(each, tmp_path) for each in files.find(str(tmp_path / pattern))]

    assert found("*") == ["a.csv", "day1/b.csv", "day2.csv/part-0"]
    assert found("*.csv") == ["a.csv", "day2.csv/part-0"]
    assert found("day?") == ["day1/b.csv"]
    assert found("**/*.csv") == ["_tmp/d.csv", "a.csv", "day1/_x/c.csv", "day1/b.csv", "day2.csv/part-0"]


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl", "a.arrow", "a.npz", "b.csv.bz2"])
def test_what_is_elsewhere_is_read_as_a_file_is(tmp_path, name):
    fsspec = pytest.importorskip("fsspec")
    table = {"y": [1, 0, 1, 0], "p": SCORES}
    data = write(tmp_path / name.replace(".bz2", ""), table).read_bytes()
    url = f"memory://elsewhere-{name}"
    with fsspec.open(f"{url}/{name}", "wb") as file:
        file.write(bz2.compress(data) if name.endswith("bz2") else data)
    for given in (url, f"{url}/{name}", f"{url}/*", f"{url}/[ab].*"):
        value, read = evaluated(given)
        assert value == WANTED.compute() and read.files == (f"{url}/{name}",)
        assert read.sources[0].path == f"{url}/{name}"


def test_a_file_is_called_by_its_path_where_it_was_given_by_a_url_of_this_machine(tmp_path):
    path = write(tmp_path / "a b.csv", {"y": [1, 0, 1, 0], "p": SCORES})
    for given in (path.as_uri(), f"file://{path}"):
        value, read = evaluated(given)
        assert value == WANTED.compute() and read.files == (str(path),) == (read.sources[0].path,)
        assert files.evaluate_file(given, fm.LogLoss, COLUMNS).read.files == (str(path),)


def test_memory_is_read_by_fsspec():
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://preds/day=1/a.csv", "w") as file:
        file.write("y,p\n1,0.9\n0,0.2\n1,0.7\n0,0.4\n")
    with fsspec.open("memory://preds/_SUCCESS", "w") as file:
        file.write("")
    value, read = evaluated("memory://preds", where="day = '1'")
    assert value == WANTED.compute() and read.rows == 4


def test_a_url_that_nothing_opens_says_what_is_missing(monkeypatch):
    import sys

    from fleetmetrics.errors import MissingLibraryError

    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingLibraryError, match=r"memory://nobody/: pyarrow does not open it .* pip install fsspec"):
        files.find("memory://nobody/a.csv")
    with pytest.raises(DataError, match="is not a file, a folder with files"):
        files.find("file:///nowhere/at/all")


def test_help_and_the_guide_have_the_formats_of_the_table():

    from fleetmetrics.files.formats import FORMATS as table
    from fleetmetrics.files.formats import known_formats

    assert known_formats() == "Parquet, CSV, JSON Lines, LibSVM, NPZ and Arrow IPC"
    guide, chinese = (page.read_text() for page in both("reference/files"))
    for name, each in table.items():
        assert f'| {each.about} | `"{name}"` | {each.streams} |' in guide
        assert f'| `"{name}"` |' in chinese


def test_tasks_of_engines_read_as_files_are_read(tmp_path):
    from fleetmetrics.engines import Plan

    (tmp_path / "a.csv").write_text("click,63.7,mon\nno,12,mon\nno,99,tue\n")
    reading = files.Reading(header=["y", "p", "day"], where="day != 'tue'", positive="click", scale=0.01)
    columns = {"prediction": "p", "label": "y"}
    plan = pickle.loads(pickle.dumps(Plan(fm.AUC, columns, None, None, False, reading)))
    assert plan.names == ["p", "y", "day"] and plan.divided_by(["day", "y", "p", "more"]) == ""
    of_file = plan.result(plan.of_file(f"{tmp_path}/a.csv"))
    frame = pa.table({"p": [63.7, 12, 99], "y": ["click", "no", "no"], "day": ["mon", "mon", "tue"]})
    of_frame = plan.result(plan.of_batches(frame.to_batches()))
    for metrics, read in (of_file, of_frame):
        assert (metrics.compute_local(), read.rows, read.left_out) == (1.0, 2, 1)
    with pytest.raises(fm.InvalidInputError, match="complete_by='score' divides a frame by its raw scores"):
        Plan(fm.ExactAUC, columns, "score", None, False, reading)
    with pytest.raises(fm.InvalidInputError, match="reading must be a"):
        Plan(fm.AUC, columns, None, None, False, "day != 'tue'")
