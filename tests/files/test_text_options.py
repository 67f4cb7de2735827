"""Files of text as systems write them: separators, encodings, missing values, ids of 64 bits, other formats."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.cli import main
from fleetmetrics.errors import DataError, InvalidInputError
from fleetmetrics.files import cells, json_lines, lines

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")

COLUMNS = {"prediction": "p", "label": "y", "k": "k"}


def slots():
    return fm.Sliced(fm.Count(), by="k", max_keys=None)


def read(path, data, columns=COLUMNS, make=slots, skip=False, **options):
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return files.evaluate(path, make, columns, skip_bad_rows=skip, reading=files.Reading(**options))


def refused(path, data, **more):
    with pytest.raises(DataError) as caught:
        read(path, data, **more)
    return str(caught.value)


# -- separators ----------------------------------------------------------------------------------------------


SEPARATORS = [
    ("\1", None),
    ("\1", "^A"),
    ("\1", "\\x01"),
    ("\1", "\\001"),
    ("\1", "\1"),
    ("\2", "^B"),
    ("\x1f", "\\u001f"),
]
SEPARATORS += [("\t", "tab"), ("\t", "\\t"), (":", ":"), (" ", " "), ("~", "~"), ("§", "§"), ("，", "，")]


@pytest.mark.parametrize("separator, asked", SEPARATORS)
def test_any_character_separates_values(tmp_path, separator, asked):
    rows = ["p,y,k", "0.5,1,a;b|c", '0.25,0,"d,e"']
    text = "\n".join(row.replace(",", separator) for row in rows)
    metrics, found = read(tmp_path / "a.txt", text, separator=asked)
    assert metrics.compute() == {"a;b|c": 1, f"d{separator}e": 1}
    shown = {"\1": "^A", "\2": "^B", "\t": "tab", " ": "a blank", "\x1f": "^_"}.get(separator, separator)
    assert found.understood["separator"] == (shown,)


@pytest.mark.parametrize("quote", [None, "none", "'"])
def test_blanks_are_any_run_of_blanks_and_tabs(tmp_path, quote):
    text = " p y \t k\n0.5  1\ta \r\n\t0.25 0 'b c'\n0.25 0 \"b  c\"\n"
    text = text.replace("'b c'", "'bc'") if quote != "'" else text.replace('"b  c"', '"bc"')
    text = text.replace('"b  c"', "bc") if quote == "none" else text
    metrics, found = read(tmp_path / "a.txt", text, separator="blanks", quote=quote)
    expected = {None: {"a", "'bc'", "b  c"}, "none": {"a", "'bc'", "bc"}, "'": {"a", "b c", '"bc"'}}
    assert (set(metrics.compute()), found.rows) == (expected[quote], 3)
    assert found.understood["separator"] == ("blanks",)


BLANK = ("p y k\n1 1 a\n", "separator=blanks")


@pytest.mark.parametrize("text, hint", [BLANK, ("p~y~k\n1~1~a\n", "separator=CHARACTER")])
def test_a_file_with_another_separator_is_refused_with_the_option(tmp_path, text, hint):
    assert hint in refused(tmp_path / "a.txt", text)
    assert hint in refused(tmp_path / "a.txt", text.split("\n", 1)[1], header=["p", "y", "k"])


@pytest.mark.parametrize("separator", ["", "ab", "a", "7", ".", '"', "\n", "\\n", ",,", 7, "\0"])
def test_an_invalid_separator_is_refused(separator):
    with pytest.raises(InvalidInputError, match=r"separator must be one character between values.*tab, blanks"):
        files.Reading(separator=separator)


@pytest.mark.parametrize("given", [{"quote": "double"}, {"quote": 1}, {"encoding": "none"}, {"encoding": "hex"}])
def test_other_invalid_options_say_what_is_allowed(given):
    with pytest.raises(InvalidInputError, match=r"'none', '\"', \"'\"|utf-8, gb18030, gbk"):
        files.Reading(**given)


# -- encodings -----------------------------------------------------------------------------------------------


ENCODINGS = ["gbk", "gb18030", "utf-16", "utf-16-le", "utf-16-be", "big5", "utf-8"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_text_is_read_in_its_encoding(tmp_path, monkeypatch, encoding, name):
    from fleetmetrics.files import encodings

    monkeypatch.setattr(encodings, "_CHUNK", 7)
    text = "p,y,k\n" + "0.5,1,中文\n0.25,0,b\n" * 20
    if name == "a.jsonl":
        text = '{"p":0.5,"y":1,"k":"中文"}\n{"p":0.25,"y":0,"k":"b"}\n' * 20
    metrics, found = read(tmp_path / name, text.encode(encoding), encoding=encoding)
    assert metrics.compute() == {"中文": 20, "b": 20}
    assert found.understood.get("encoding") == (None if encoding == "utf-8" else (encoding,))


def test_a_header_in_its_encoding_has_its_names(tmp_path):
    data = "分数,标签\n0.5,1\n".encode("gbk")
    columns = {"prediction": "分数", "label": "标签"}
    assert read(tmp_path / "a.csv", data, columns, fm.Count, encoding="gbk")[0].compute() == 1
    told = refused(tmp_path / "a.csv", data, columns=columns)
    assert "the header b'" in told and "is not UTF-8; name the file's encoding: encoding=gb18030" in told


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_bytes_that_are_not_utf_8_are_a_row_at_fault_with_advice(tmp_path, name):
    rows = [b"0.5,1,\xd0\xc2\xce\xc5", b"0.25,0,b"]
    data = b"p,y,k\n" + b"\n".join(rows)
    if name == "a.jsonl":
        data = b'{"p":0.5,"y":1,"k":"\xd0\xc2\xce\xc5"}\n{"p":0.25,"y":0,"k":"b"}\n'
    assert "row 0" in (told := refused(tmp_path / name, data)) and "encoding=gb18030" in told
    metrics, found = read(tmp_path / name, data, skip=True)
    assert (metrics.compute(), found.rows, found.skipped) == ({"b": 1}, 2, 1)
    assert read(tmp_path / name, data, {"prediction": "p", "label": "y"}, fm.Count)[0].compute() == 2


def test_bytes_that_are_none_of_the_encoding_are_a_row_at_fault(tmp_path):
    data = "p,y,k\n0.5,1,中\n".encode("gbk") + b"0.25,0,\xff\xff\n0.25,0,b\n"
    assert "row 1, column 'k': b'\\xff\\xff' is not" in refused(tmp_path / "a.csv", data, encoding="gbk")
    metrics, found = read(tmp_path / "a.csv", data, encoding="gbk", skip=True)
    assert (metrics.compute(), found.rows, found.skipped) == ({"中": 1, "b": 1}, 3, 1)
    odd = "p,y,k\n0.5,1,a\n".encode("utf-16-le") + b"\x00\xd8\x41\x00"
    assert "line 3 holds b'" in refused(tmp_path / "a.csv", odd, encoding="utf-16-le")
    assert "encoding utf-16-le".replace(" ", "=") in refused(tmp_path / "a.csv", "p,y,k\n".encode("utf-16-le") * 50)


# -- names of missing values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("null", [["\\N", "none"], "\\N,none"])
@pytest.mark.parametrize("more", ["", "x,1,a\n"])
def test_names_of_missing_values_stand_for_none_in_numbers_and_keys(tmp_path, null, more):
    text = "p,y,k\n0.5,1,\\N\n\\N,0,b\n0.25,none,b\n0.25,NULL,b\n0.25,1,none\n0.25,0,NULL\n" + more
    metrics, found = read(tmp_path / "a.csv", text, null=null, skip=True)
    assert metrics.compute() == {None: 2, "NULL": 1}
    assert found.nulls == {"k": 2, "p": 1, "y": 2}
    assert (found.skipped, found.understood["null"]) == (3 + len(more) // 6, ("\\N, none",))


def test_a_name_of_a_missing_value_among_numbers_is_named_with_the_option(tmp_path, capsys):
    text = "p,y,k\n0.5,1,a\n\\N,0,b\n"
    assert "row 1, column 'p': '\\\\N' is not a number; if it stands for no value: null='\\\\N'" in refused(
        tmp_path / "a.csv", text
    )
    assert main(["evaluate", str(tmp_path / "a.csv"), "--label", "y", "--score", "p", "--metrics", "accuracy"]) == 3
    assert r"--null '\N'" in capsys.readouterr().err


def test_names_of_missing_values_are_those_of_json_too(tmp_path):
    text = '{"p":0.5,"y":1,"k":"a"}\n{"p":"\\\\N","y":1,"k":"NA"}\n{"p":0.5,"y":1,"k":"NA"}\n'
    metrics, found = read(tmp_path / "a.jsonl", text, null=["\\N", "NA"], skip=True)
    assert (metrics.compute(), found.nulls, found.skipped) == ({"a": 1, None: 1}, {"k": 2, "p": 1}, 1)


# -- ids of 64 bits ------------------------------------------------------------------------------------------

LARGE = 2**63 + 5


def written(path, ids, kind):
    rows = [(each, 0.9 if n % 2 else 0.1, n % 2) for n, each in enumerate(ids)]
    if kind == "csv":
        path.write_text("u,p,y\n" + "".join(f"{'' if u is None else u},{p},{y}\n" for u, p, y in rows))
    else:
        path.write_text("".join(json.dumps({"u": u, "p": p, "y": y}) + "\n" for u, p, y in rows))
    return path


@pytest.mark.parametrize("head", [1 << 20, 60])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("text", [(), ["u"]])
@pytest.mark.parametrize(
    "ids",
    [
        [1, 1, LARGE, LARGE, LARGE + 1, LARGE + 1],
        [2**64 - 1, 2**64 - 1, 2**64 - 2, 2**64 - 2],
        [-(2**63) + 1, -(2**63) + 1, -3, -3, 2**63 - 1, 2**63 - 1],
        [2**53, 2**53, 2**53 + 1, 2**53 + 1, 2**53 + 2, 2**53 + 2],
    ],
)
def test_users_of_64_bits_are_told_apart(tmp_path, monkeypatch, kind, ids, text, head):
    monkeypatch.setattr(lines, "HEAD", head)
    path = written(tmp_path / f"a.{kind}", ids, kind)
    columns = {"prediction": "p", "label": "y", "user": "u"}
    gauc = files.evaluate(path, fm.GAUC, columns, reading=files.Reading(text=text)).metrics
    assert gauc.compute() == 1.0
    del columns["user"]
    counts = files.evaluate(
        path, lambda: fm.Sliced(fm.Count(), by="u"), {**columns, "u": "u"}, reading=files.Reading(text=["u"])
    ).metrics.compute()
    assert counts == {str(each): 2 for each in ids}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_ids_beyond_63_bits_with_missing_ones_are_keys_of_slices_as_texts(tmp_path, kind):
    path = written(tmp_path / f"a.{kind}", [LARGE, None, LARGE + 1, 3], kind)
    columns = {"prediction": "p", "label": "y", "u": "u"}
    counts = files.evaluate(path, lambda: fm.Sliced(fm.Count(), by="u"), columns).metrics.compute()
    assert counts == {str(LARGE): 1, str(LARGE + 1): 1, "3": 1, None: 1}


def test_ids_beyond_63_bits_after_small_ones_are_an_error_that_names_the_option(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "HEAD", 30)
    path = written(tmp_path / "a.csv", [1, 2, 3, LARGE], "csv")
    with pytest.raises(DataError, match=r"holds 9223372036854775813; .* integers below 2.*63: text=u makes strings"):
        files.evaluate(path, slots, {"prediction": "p", "label": "y", "k": "u"})


def test_ids_of_both_signs_beyond_64_bits_together_are_rows_at_fault(tmp_path):
    path = written(tmp_path / "a.csv", [-1, 2, LARGE, 2**65], "csv")
    columns = {"prediction": "p", "label": "y", "user": "u"}
    read = files.evaluate(path, fm.GAUC, columns, skip_bad_rows=True, reading=files.Reading()).read
    assert [each.split(": ", 1)[1][:21] for each in read.examples] == ["row 2, column 'u': '9", "row 3, column 'u': '3"]
    assert "does not fit in 64 bits beside the others; text=u reads strings" in read.examples[0]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_conditions_tell_large_integers_apart(tmp_path, monkeypatch, kind):
    path = written(tmp_path / f"a.{kind}", [2**53, 2**53 + 1, 2**53 + 2, LARGE, LARGE + 1, None], kind)
    columns = {"prediction": "p", "label": "y"}
    for where, number in (
        (f"u = {2**53 + 1}", 1),
        (f"u = {LARGE}", 1),
        (f"u > {LARGE}", 1),
        (f"u in ({2**53}, {LARGE + 1})", 2),
        (f"u != {LARGE}", 4),
    ):
        read = files.evaluate(path, fm.Count, columns, reading=files.Reading(where=where)).read
        assert read.rows == number, where
    for ids, where, number in (([1, 2, None, 3.5], "u > 1", 2), ([2**53, 3.5], "u > 1", None)):
        monkeypatch.setattr(lines, "HEAD", 50 if kind == "jsonl" else 16)
        written(path, ids, kind)
        reading = files.Reading(where=where)
        if number is None:
            with pytest.raises(DataError, match=r"column 'u' holds integers of 2\*\*53 or more beside fractions"):
                files.evaluate(path, fm.Count, columns, reading=reading)
        else:
            assert files.evaluate(path, fm.Count, columns, reading=reading).read.rows == number


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("ids", [[0.5, LARGE, LARGE + 1, LARGE + 2], [2**65, 2**65 + 1, 2**65 + 2]])
def test_conditions_that_no_float_can_answer_are_refused_with_the_way_out(tmp_path, kind, ids):
    path, columns = written(tmp_path / f"a.{kind}", ids, kind), {"prediction": "p", "label": "y"}
    for where in (f"u = {ids[-1]}", f"u in (1, {ids[-1]})", f"not u <> {ids[-1]}"):
        with pytest.raises(DataError, match=rf"'u' holds no integers of 64 bits.*; .*text=u with u = '{ids[-1]}'"):
            files.evaluate(path, fm.Count, columns, reading=files.Reading(where=where))
    reading = files.Reading(where=f"u = '{ids[-1]}'", text=["u"])
    assert files.evaluate(path, fm.Count, columns, reading=reading).read.rows == 1
    assert files.evaluate(path, fm.Count, columns, reading=files.Reading(where="u > 1e15")).read.rows == 3


def test_integers_beside_fractions_are_their_own_texts_in_json(tmp_path):
    ids = [12.5, LARGE, LARGE + 1, -(2**53) - 1, -(2**53), 3]
    metrics, _ = read(tmp_path / "a.jsonl", "".join(f'{{"p":0.5,"y":1,"k":{each}}}\n' for each in ids), text=["k"])
    assert metrics.compute() == {str(each): 1 for each in ids}


@pytest.mark.parametrize("kinds", [("csv", "jsonl"), ("jsonl", "parquet"), ("parquet", "csv")])
def test_both_sides_are_joined_by_ids_of_64_bits(tmp_path, kinds):
    from pyarrow import parquet

    ids = [1, 2, LARGE, LARGE + 1, 2**64 - 1]
    for side, kind in zip("ab", kinds):
        if kind == "parquet":
            table = pa.table({"u": pa.array(ids, pa.uint64()), "p": [0.1, 0.9, 0.1, 0.9, 0.1], "y": [0, 1, 0, 1, 0]})
            parquet.write_table(table, tmp_path / side)
        else:
            written(tmp_path / side, ids, kind)
    for join in (None, "inner"):
        both = {"label": "y", "score": "p", "join_on": "u", "metrics": "accuracy", "join": join}
        result = fm.evaluate(tmp_path / "a", baseline=tmp_path / "b", **both)
        assert (result.new.data.rows, result.deltas["accuracy"].value) == (5, 0.0)


# -- bad columns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_column_without_a_number_is_read_once(tmp_path, monkeypatch, name, skip):
    described = []
    for module in (cells, json_lines):
        monkeypatch.setattr(module, "misfit", lambda *given: described.append(given) or "no number")
    text = "p;y;k\n" + "0,5;1;a\n" * 5000
    if name == "a.jsonl":
        text = '{"p":0.5,"y":1,"k":"a"}\n' + '{"p":"0,5","y":1,"k":"a"}\n' * 5000
    if skip:
        _, found = read(tmp_path / name, text, skip=True)
        assert (found.skipped, found.rows) == (5000, 5000 + (name == "a.jsonl"))
    else:
        assert f"row {int(name == 'a.jsonl')}, column 'p': no number" in refused(tmp_path / name, text)
    assert len(described) == 16


@pytest.mark.parametrize("more", ["", "x,1,a\n"])
def test_a_row_at_fault_changes_no_number_beside_it(tmp_path, more):
    spellings = ["1", "1.", ".5", "1e-3", "+1", " 0.5", "0.5\t", "1E+0", "0"]
    text = "p,y,k\n" + "".join(f"{each},1,{place}\n" for place, each in enumerate(spellings)) + more
    metrics, found = read(
        tmp_path / "a.csv", text, make=lambda: fm.Sliced(fm.Mean(), by="k"), columns={"value": "p", "k": "k"}, skip=True
    )
    assert found.skipped == bool(more)
    assert {int(k): v for k, v in metrics.compute().items()} == dict(enumerate([1, 1, 0.5, 0.001, 1, 0.5, 0.5, 1, 0]))


# -- other contents ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("nul", [b"\0", b"\0" * 5000])
@pytest.mark.parametrize("size", [8, 1 << 24])
def test_lines_of_nul_bytes_are_lines_at_fault(tmp_path, monkeypatch, name, nul, size):
    monkeypatch.setattr(lines, "_BLOCK", size)
    row, begin = b"0.5,1,a\n", b"p,y,k\n"
    if name == "a.jsonl":
        row, begin = b'{"p":0.5,"y":1,"k":"a"}\n', b""
    data = begin + row + nul + b"\n" + row + nul + row + row + nul + (b"\n" + nul) * 40
    first = 3 if begin else 2
    told = f"line {first}: it holds {len(nul):,} NUL byte"
    assert told in refused(tmp_path / name, data)
    metrics, found = read(tmp_path / name, data, skip=True)
    assert (metrics.compute(), found.rows, found.skipped) == ({"a": 3}, 46, 43)


@pytest.mark.parametrize("text", [(), ["k"]])
def test_lines_that_are_no_objects_are_rows_at_fault(tmp_path, text):
    rows = [
        '{"p":0.5,"y":1,"k":1}',
        "INFO started",
        "[1]",
        '"a"',
        "7",
        '{"p":0.5,"y":1,"k":"x"}',
        '{"p":0.5}',
        "{",
        "null",
    ]
    rows += ['{"p":0.5,"y":1,"k":2} {"p":0.5,"y":1,"k":3}', '{"p":1,"p":2,"y":1}', '{"p":true,"y":1,"k":1}']
    metrics, found = read(tmp_path / "a.jsonl", "\n".join(rows), skip=True, text=text)
    keys = [1, 2, 3, *(["x"] if text else [])]
    assert metrics.compute() == {(str(key) if text else key): 1 for key in keys}
    assert (found.rows, found.skipped) == (13, 13 - len(keys))


LEARNED = b"1 qid:3 1:0.5 7:0.25 # doc\n\n0 qid:3 1:0.25\n2 qid:18446744073709551615 7:1e-3\n"


@pytest.mark.parametrize("format", [None, "libsvm"])
def test_libsvm_has_columns_by_the_numbers_of_features(tmp_path, format):
    columns = {"value": "7", "k": "qid"}
    make = lambda: fm.Sliced(fm.Mean(), by="k")  # noqa: E731
    metrics, found = read(tmp_path / "a", LEARNED, columns, make, format=format)
    assert metrics.compute() == {"3": 0.125, "18446744073709551615": 0.001}
    assert (found.rows, found.understood["format"]) == (3, ("LibSVM",))
    ranked = fm.evaluate(tmp_path / "a", label="label", score="1", user="qid", task="ranking", metrics="ndcg@1")
    assert ranked.new.data.rows == 3
    told = refused(tmp_path / "a", LEARNED, columns={"prediction": "p", "label": "label"}, make=fm.AUC)
    assert "no column 'p'" in told and "'label', 'qid', '1', '7'; LibSVM has no names" in told
    metrics, found = read(tmp_path / "a", LEARNED + b"x 1:2\n1,2 1:3\n", {"value": "1"}, fm.Mean, skip=True)
    assert (metrics.compute(), found.rows, found.skipped) == (0.25, 5, 2)
    assert found.examples[0].endswith("line 5: 'x 1:2' is no row of LibSVM, such as 1 qid:7 1:0.5")


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0c", "\x1e"])
def test_a_comment_of_libsvm_ends_with_its_line(tmp_path, mark):
    text = f"1 1:0.5 # a{mark}0 1:0.25\r\n\r\n0 1:0.75 #{mark}\nx\n"
    metrics, found = read(tmp_path / "a", text, {"value": "1"}, fm.Mean, skip=True)
    assert (metrics.compute(), found.rows, found.skipped) == (0.625, 3, 1)
    assert "line 4: 'x' is no row" in found.examples[0]


def test_a_table_of_words_with_colons_is_no_libsvm(tmp_path):
    assert read(tmp_path / "a", "p,y,k:1\n0.5,1,3:4\n", {**COLUMNS, "k": "k:1"})[0].compute() == {"3:4": 1}


def records(*payloads):
    """A file of TFRecords, whose lengths have these masked checksums."""
    head = struct.pack("<Q", 5)
    return head + struct.pack("<I", 0xEAB2043E) + payloads[0]


FOREIGN = {
    "it is Avro": b"Obj\x01\x04\x14avro.codec\x08null",
    "it is ORC": b"ORC\x03\0\0",
    "it is HDF5": b"\x89HDF\r\n\x1a\n\0\0",
    "it is a single array": b"\x93NUMPY\x01\0v\0{'descr'",
    "it is a workbook of Excel": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0",
    "it is a database of SQLite": b"SQLite format 3\0",
    "it is a pickle": b"\x80\x04\x95\0\0\0",
    "it is a SequenceFile": b"SEQ\x06\x19org.apache",
    "it is HTML": b"\n<!DOCTYPE html>\n<html><body>404</body></html>",
    "it is XML": b"<?xml version='1.0'?>\n<rows/>",
    "it is a JSON array": b'[{"p": 1}]',
    "it is the metadata of an Iceberg table": b'{\n  "format-version" : 2,\n  "table-uuid" : "a"\n}',
    "it is packed with LZ4": b"\x04\x22\x4d\x18\0",
    "it is a tar archive": b"a.csv".ljust(257, b"\0") + b"ustar\x0000",
}


@pytest.mark.parametrize("told", FOREIGN)
def test_another_format_is_named(tmp_path, told):
    assert told in refused(tmp_path / "a", FOREIGN[told])


def test_a_workbook_is_no_archive_of_arrays(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    with pytest.raises(DataError, match=r"it is a workbook of Excel.*read_excel"):
        files.evaluate(tmp_path / "a.xlsx", slots, COLUMNS)


# -- on the command line, from a file of options, and in other functions -------------------------------------

OPTIONS = {"quote": "none", "separator": "^A", "encoding": "gbk", "null": ["\\N", "NA"], "format": "csv"}
DATA = 'y\1p\1新\n1\0010.9\1"a\n0\0010.1\1\\N\n1\1NA\1b\n'.encode("gbk")


def test_the_command_takes_the_options_and_says_them(tmp_path, capsys):
    (tmp_path / "a.txt").write_bytes(DATA)
    given = ["evaluate", str(tmp_path / "a.txt"), "--label", "y", "--score", "p", "--by", "新", "--metrics", "accuracy"]
    given += ["--skip-bad-rows", "--json"]
    options = [*(f"--{name}={value if isinstance(value, str) else ','.join(value)}" for name, value in OPTIONS.items())]
    (tmp_path / "options.toml").write_text(
        "\n".join(f"{name} = {json.dumps(value)}" for name, value in OPTIONS.items())
    )
    for more in (options, ["--config", str(tmp_path / "options.toml")]):
        assert main([*given, *more]) == 0
        found = json.loads(capsys.readouterr().out)
        assert {name: found["asked"][name] for name in OPTIONS} == OPTIONS
        assert found["data"]["rows"] == 3 and found["data"]["skipped"] == 1
        assert {each["key"] for each in found["slices"]["新"]} == {'"a', None}
        facts = {"quotes": "none", "separator": "^A", "encoding": "gbk", "null": "\\N, NA"}
        assert facts.items() <= found["data"]["understood"].items()
    assert main([*given[:-1]]) == 3
    assert "encoding gb18030" in capsys.readouterr().err
    assert main([*given, "--quote", "double"]) == 2
    assert "--quote must be one of" in capsys.readouterr().err
    assert main([*given, "--format", "xlsx"]) == 2
    assert "--format must be one of" in capsys.readouterr().err


def test_consistency_and_saved_states_take_them(tmp_path):
    (tmp_path / "a.txt").write_bytes("id\1p\n1\0010.5\n中\0010.25\n".encode("gbk"))
    (tmp_path / "b.txt").write_bytes("id\1p\n1\0010.5\n中\0010.25\n".encode("gbk"))
    streams = {"train": str(tmp_path / "a.txt"), "serving": str(tmp_path / "b.txt")}
    found = fm.consistency(streams, join_on="id", score="p", separator="^A", encoding="gbk", text="id")
    assert found.departs is None
    (tmp_path / "c.txt").write_bytes(DATA)
    (tmp_path / "d.csv").write_text("y,p\n1,0.9\n0,0.2\n")
    asked = {"label": "y", "score": "p", "metrics": "accuracy", "skip_bad_rows": True}
    fm.evaluate(tmp_path / "c.txt", **asked, **OPTIONS).save_state(tmp_path / "c.fms")
    fm.evaluate(tmp_path / "d.csv", **asked).save_state(tmp_path / "d.fms")
    from fleetmetrics.evaluation import merge

    assert merge([tmp_path / "c.fms", tmp_path / "d.fms"]).new.data.rows == 5


def test_frames_have_names_of_missing_values_too():
    frame = {"y": np.array([1, 0, 1]), "p": np.array([0.9, 0.1, 0.8]), "k": np.array(["a", "NA", "a"])}
    found = fm.evaluate(frame, label="y", score="p", by="k", metrics="accuracy", null="NA")
    assert {each["key"] for each in found.to_dict()["slices"]["k"]} == {"a", None}
