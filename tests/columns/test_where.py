"""Conditions on rows: what each part of the grammar means, also where a value is null."""

from __future__ import annotations

import datetime
import decimal

import pytest

import fleetmetrics as fm
from fleetmetrics import files
from fleetmetrics.columns.where import Condition
from fleetmetrics.errors import ConditionError, InvalidInputError

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TABLE = pa.table(
    {
        "n": [1, 2, 3, 4, None],
        "p": [0.1, 0.5, 0.5, 2.0, None],
        "day": ["mon", "Tue", "it's", "and", None],
        "ok": [True, False, True, False, None],
        'a "b"': [5, 6, 7, 8, None],
        "empty": pa.nulls(5),
    }
)


def rows(where, table=TABLE):
    """The numbers of the rows that count."""
    return [row for row, flag in enumerate(Condition(where).flags(table)) if flag]


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("n = 2", [1]),
        ("n == 2", [1]),
        ("n != 2", [0, 2, 3]),
        ("n <> 2", [0, 2, 3]),
        ("n < 2", [0]),
        ("n <= 2", [0, 1]),
        ("n > 2", [2, 3]),
        ("n >= 2", [1, 2, 3]),
        ("p = .5", [1, 2]),
        ("p >= +2e0", [3]),
        ("p < 5E-1", [0]),
        ("ok = true", [0, 2]),
        ("ok = FALSE", [1, 3]),
        ("ok in (true, false)", [0, 1, 2, 3]),
        ("n between 2 and 3", [1, 2]),
        ("n not between 2 and 3", [0, 3]),
        ("n BETWEEN 2 AND 3 AND p = 0.5", [1, 2]),
        ("n in (4, 1)", [0, 3]),
        ("n not in (4, 1)", [1, 2]),
        ("n is null", [4]),
        ("n Is Not Null", [0, 1, 2, 3]),
        ("day = 'and'", [3]),
        ("day = 'it''s'", [2]),
        ('"a ""b""" = 6', [1]),
        ('`a "b"` = 6', [1]),
    ],
)
def test_every_comparison_keeps_the_rows_that_it_says(where, kept):
    assert rows(where) == kept


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("n = 1 or n = 2 and p = 2.0", [0]),
        ("(n = 1 or n = 2) and p = 0.5", [1]),
        ("n = 2 and (p = 2.0 or n = 1 or n = 2)", [1]),
        ("(n = 4 or n = 2 and p = 2.0)", [3]),
        ("not n = 1 and n < 3", [1]),
        ("not (n = 1 and n < 3)", [1, 2, 3]),
        ("not not n = 1", [0]),
        ("not (not n = 1)", [0]),
        ("not n not in (1, 2)", [0, 1]),
    ],
)
def test_not_comes_before_and_and_that_before_or(where, kept):
    assert rows(where) == kept


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("not n = 1", [1, 2, 3]),
        ("not (n is null)", [0, 1, 2, 3]),
        ("n = 1 or n is null", [0, 4]),
        ("n is null or n = 1", [0, 4]),
        ("not (n = 1 and n is not null)", [1, 2, 3, 4]),
        ("empty = 1", []),
        ("empty = 'x' or n = 1", [0]),
        ("not empty = 'x'", []),
        ("empty is null", [0, 1, 2, 3, 4]),
    ],
)
def test_a_comparison_with_a_null_is_neither_true_nor_false(where, kept):
    assert rows(where) == kept


def test_a_file_whose_column_has_no_value_at_all_is_read_and_none_of_its_rows_count(tmp_path):
    pq.write_table(pa.table({"y": [1, 0], "p": [0.9, 0.2], "note": pa.nulls(2)}), tmp_path / "a.parquet")
    columns = {"prediction": "p", "label": "y"}
    for where, kept in (("note = 'x'", 0), ("note > 1", 0), ("note is null", 2), ("note != 'x' or y = 1", 1)):
        read = files.evaluate(tmp_path, fm.AUC, columns, reading=files.Reading(where=where)).read
        assert (read.rows, read.left_out) == (kept, 2 - kept)


def test_columns_compare_alike_whatever_holds_their_values():
    whole = [decimal.Decimal("1.50"), decimal.Decimal("2.50"), None]
    days = [datetime.date(2026, 11, 1), datetime.date(2026, 11, 2), None]
    assert rows("x > 2", pa.table({"x": whole})) == [1]
    assert rows("x > '2026-11-01'", pa.table({"x": days})) == [1]
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        assert rows("x in ('b', 'c')", pa.table({"x": pa.array(["a", "b", None], kind)})) == [1]
        assert rows("not x = 'a'", pa.table({"x": pa.array(["a", "b", None], kind)})) == [1]
        assert rows("x is null", pa.table({"x": pa.array(["a", "b", None], kind)})) == [2]


def test_integers_compare_as_integers_of_any_size():
    large = 2**53
    assert rows(f"x = {large + 1}", pa.table({"x": [large, large + 1]})) == [1]
    assert rows("x = -3", pa.table({"x": [3, -3]})) == [1]


def test_the_columns_of_a_condition_are_known_each_once_with_the_kind_of_their_literals():
    found = Condition("n is null or n > 2 and `day` = 'mon' or n < 5 or ok is not null")
    assert found.names == ["n", "day", "ok"]
    assert [found.kind(name) for name in (*found.names, "other")] == [int, str, None, None]


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("n > 3 n", "at 'n' it should have 'and', 'or' or the end"),
        ("n > 3x", "at '3x' it cannot be read"),
        ("n > 1.2.3", "at '1.2.3' it cannot be read"),
        ("n > day", "at 'day' it should have a number, a string in single quotes, true or false"),
        ("n > )", "at ')' it should have a number"),
        ("n not 3", "at '3' it should have 'in' or 'between'"),
        ("n not = 3", "at '= 3' it should have 'in' or 'between'"),
        ("n 3", "at '3' it should have =, !=, <, <=, >, >=, 'in', 'between' or 'is'"),
        ("and = 3", "at 'and = 3' it should have the name of a column"),
        ("between = 3", "at 'between = 3' it should have the name of a column"),
        ("'n' = 3", "at \"'n' = 3\" it should have the name of a column"),
        ("n between 2 or 3", "at 'or 3' it should have 'and'"),
        ("n is not 3", "at '3' it should have 'null'"),
        ("n in (1, 2", "at its end it should have ')'"),
        ("n in ()", "at ')' it should have a number"),
        ("n > 3)", "at ')' it should have 'and', 'or' or the end"),
        ("n = 3 '=' 4", "at \"'=' 4\" it should have 'and', 'or' or the end"),
        ("  ", "where must be a condition, not '  '"),
        (3, "where must be a condition, not 3"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(where, told):
    with pytest.raises(InvalidInputError) as caught:
        Condition(where)
    assert told in str(caught.value) and "write it like day = '2026-11-01'" in str(caught.value)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("n = 'x'", "compares column 'n', of int64, with 'x'; write it as one"),
        ("n = true", "compares column 'n', of int64, with true; write it as one"),
        ("day = 3", "compares column 'day', of string, with 3; write it as a string"),
        ("day in ('mon', false)", "compares column 'day', of string, with false; write it as a string"),
        ("ok = 1", "compares column 'ok', of bool, with 1; write it as true or false: ok = true"),
    ],
)
def test_a_literal_of_another_kind_than_its_column_is_refused(where, told):
    with pytest.raises(ConditionError) as caught:
        Condition(where).flags(TABLE)
    assert told in str(caught.value)


def test_texts_of_numbers_are_not_compared_as_texts_by_accident():
    hours = pa.table({"h": ["8", "9", "10", None], "day": ["20261101", "20261102", "20261103", None]})
    for where in ("h >= '9'", "h < '10'", "h between '8' and '10'", "h > 9"):
        with pytest.raises(
            ConditionError, match=r"of string, with .*; it holds strings, and as texts '10' is less than"
        ):
            Condition(where).flags(hours)
    assert rows("h = '9' or h in ('10')", hours) == [1, 2]
    assert rows("day >= '20261102'", hours) == [1, 2]  # texts and numbers have the same order
    assert rows("h < 'a'", hours) == [0, 1, 2]
