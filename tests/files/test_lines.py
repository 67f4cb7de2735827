"""Lines of CSV and JSON: a row holds the same values in blocks of any size, and beside any other rows."""

from __future__ import annotations

import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.errors import DataError
from fleetmetrics.files import lines

pytestmark = pytest.mark.numpy_only
pytest.importorskip("pyarrow")

COLUMNS = {"prediction": "p", "label": "y", "k": "k"}


def slots():
    return fm.Sliced(fm.Count(), by="k", max_keys=None)


def read(path, text, columns=COLUMNS, make=slots, **more):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return files.evaluate(path, make, columns, skip_bad_rows=True, **more)


def places(found):
    """What the examples name, without the file: "line 3", "row 1, column 'y'"."""
    return [each.split(": ")[1] for each in found.examples]


# -- CSV -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("before", ["", "\n", "\r\n\r\n"])
def test_the_first_line_with_something_in_it_says_what_is_between_values(tmp_path, delimiter, before):
    odd = "".join(each for each in ",;|" if each != delimiter) * 9  # more of these than of the delimiter
    rows = ["p,y,k", f"0.9,1,{odd}", "0.2,0,b"]
    text = before + "\n".join([rows[0].replace(",", delimiter), *rows[1:]]) + "\n"
    text = text.replace("0.9,1,", f"0.9{delimiter}1{delimiter}").replace("0.2,0,", f"0.2{delimiter}0{delimiter}")
    assert read(tmp_path / "a.csv", text)[0].compute() == {odd: 1.0, "b": 1.0}


@pytest.mark.parametrize("size", [10, 100, 1 << 20])
def test_a_line_at_fault_is_named_by_its_number_in_the_file(tmp_path, monkeypatch, size):
    """As an editor counts: lines without anything in them, and those within quotes, are lines."""
    monkeypatch.setattr(lines, "_BLOCK", size)
    rows = [*[""] * 11, "p,y,k", "", "", "0.5", "0.5,1,a", *[""] * 40, "0.4,0,b", "0.3", "\r", "0.3,1,b,c"]
    metrics, found = read(tmp_path / "a.csv", "\n".join(rows) + "\n")
    assert places(found) == [f"line {rows.index(each) + 1}" for each in ("0.5", "0.3", "0.3,1,b,c")]
    assert (metrics.compute(), found.rows, found.skipped) == ({"a": 1.0, "b": 1.0}, 5, 3)
    rows = ["0.5,1,a", "", '0.4,0,"two', 'lines"', "0.5"]
    reading = files.Reading(header=["p", "y", "k"])
    assert places(read(tmp_path / "a.csv", "\n".join(rows) + "\n", reading=reading)[1]) == ["line 5"]
    if size > 100:
        told = r"line 3 has 2 values; columns names 3"
        with pytest.raises(DataError, match=told):
            read(tmp_path / "a.csv", "\n\n0.5,1\n", reading=reading)


@pytest.mark.parametrize("size", [10, 64, 1 << 20])
def test_ends_of_lines_in_quotes_split_no_row_wherever_a_block_ends(tmp_path, monkeypatch, size):
    monkeypatch.setattr(lines, "_BLOCK", size)
    keys = [f"{n}" + "\n" * (n % 4) + 'a ""b""' * (n % 2) for n in range(60)]
    text = "p,y,k\n" + "".join(f'0.5,1,"{key}"\n' for key in keys)
    metrics, found = read(tmp_path / "a.csv", text)
    assert (found.rows, found.skipped) == (60, 0)
    assert set(metrics.compute()) == {key.replace('""', '"') for key in keys}


@pytest.mark.parametrize("size", [10, 64, 1 << 20])
@pytest.mark.parametrize("key", ['5" disk', 'a"b"', "it's", '5""', '" a', "'a"])
def test_a_quote_within_a_value_is_part_of_it(tmp_path, monkeypatch, size, key):
    monkeypatch.setattr(lines, "_BLOCK", size)
    metrics, found = read(tmp_path / "a.csv", f"p,y,k\n0.5,1, {key}\n" + "0.5,0,b\n" * 100)
    assert (found.rows, found.skipped) == (101, 0)
    assert metrics.compute() == {f" {key}": 1.0, "b": 100.0}


@pytest.mark.thorough
def test_many_rows_at_fault_take_no_longer_than_others(tmp_path):
    _, found = read(tmp_path / "a.csv", "p,y,k\n" + "0.5\n" * 300_000 + "0.5,1,a\n")
    assert (found.rows, found.skipped) == (300_001, 300_000)


def test_types_are_those_of_whole_lines(tmp_path, monkeypatch):
    """The first bytes decide; where they end is not the end of a value."""
    text = "p,k,y\n" + '0.25,"空,b",true\n' * 4
    for head in range(len("p,k,y\n") + 20, len(text.encode())):
        monkeypatch.setattr(lines, "HEAD", head)
        metrics, found = read(tmp_path / "a.csv", text)
        assert (metrics.compute(), found.skipped) == ({"空,b": 4.0}, 0)


def test_a_last_line_without_an_end_is_a_row_and_decides_types_too(tmp_path):
    assert read(tmp_path / "a.csv", "p,y,k\n0.9,1,3")[0].compute() == {3: 1.0}
    assert read(tmp_path / "a.csv", "p,y,k\n0.9,1,3.0\n0.2,0,2.5")[0].compute() == {"3.0": 1.0, "2.5": 1.0}


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
def test_a_header_alone_is_a_file_without_rows(tmp_path, end):
    (tmp_path / "a.csv").write_bytes(f"p,y,k{end}".encode())
    (tmp_path / "b.csv").write_text("p,y,k\n0.5,1,a")
    metrics, read = files.evaluate(tmp_path, fm.ClickThroughRate, {"prediction": "p", "label": "y"})
    assert (metrics.compute(), read.rows, len(read.files)) == (1.0, 1, 2)


def test_keys_that_are_not_finite_are_texts(tmp_path):
    assert read(tmp_path / "a.csv", "p,y,k\n0.9,1,3.0\n0.2,0,inf\n")[0].compute() == {"3.0": 1.0, "inf": 1.0}


@pytest.mark.parametrize("y", ["1", "x"])
def test_a_row_at_fault_changes_no_other_row(tmp_path, y):
    """Values that stand for nothing among numbers are texts among texts; other columns stay where they are."""
    text = f"late,k,y,p\n7,NA,1,0.5\n7,null,{y},0.5\n7,,0,NA\n7,NA,0,0.25\n"
    metrics, found = read(tmp_path / "a.csv", text)
    assert metrics.compute() == {"NA": 2.0, **({"null": 1.0} if y == "1" else {})}
    assert (found.rows, found.skipped, found.nulls) == (4, 1 + (y == "x"), {"k": 1, "p": 1})
    assert places(found) == ["row 1, column 'y'"] * (y == "x") + ["row 2, column 'p'"]


# -- JSON Lines ------------------------------------------------------------------------------------------------


def test_a_field_that_the_first_object_lacks_is_read(tmp_path):
    text = '\n  {"p": 0.9, "y": 1}\n{"k": "b", "p": 0.2, "y": 0}\n'
    assert read(tmp_path / "a.jsonl", text)[0].compute() == {None: 1.0, "b": 1.0}


def test_the_first_value_of_a_field_says_which_others_fit(tmp_path):
    rows = ['{"p": 0.9, "y": 1, "k": null}', '{"p": 0.9, "y": 1, "k": 3}', '{"p": 0.2, "y": 0, "k": "b"}']
    metrics, found = read(tmp_path / "a.jsonl", "\n".join(rows))
    assert (metrics.compute(), found.skipped, places(found)) == ({None: 1.0, 3: 1.0}, 1, ["row 2, column 'k'"])


def test_an_integer_of_more_than_64_bits_is_a_row_at_fault_and_not_a_file(tmp_path):
    text = '{"p": 0.9, "y": 1, "k": 3}\n' + f'{{"p": 0.2, "y": 0, "k": {2**70}}}\n'
    metrics, found = read(tmp_path / "a.jsonl", text)
    assert (metrics.compute(), found.skipped, places(found)) == ({3: 1.0}, 1, ["row 1, column 'k'"])


def test_rows_keep_their_numbers_in_every_block_with_lines_at_fault(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK", 200)
    rows = ['{"p": 0.5, "y": 1, "k": "a"}'] * 60
    for place in (3, 33):
        rows[place] = "no row"
    rows[36] = '{"p": null, "y": 1, "k": "a"}'
    _, found = read(tmp_path / "a.jsonl", "\n".join(rows))
    assert places(found) == ["row 3", "row 33", "row 36, column 'p'"]
    assert (found.rows, found.skipped) == (60, 3)
