"""Conditions keep the rows that DuckDB keeps: columns of every type, in a thousand conditions made by chance."""

from __future__ import annotations

import datetime
import decimal
import random
from typing import Any

import pytest

from fleetmetrics.columns.where import Condition
from fleetmetrics.errors import ConditionError

pytestmark = pytest.mark.numpy_only
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

_DAY, _TIME = datetime.date(2026, 11, 1), datetime.datetime(2026, 11, 1, 18, 30)
_UTC = datetime.timezone.utc
_NUMBERS = [*map(str, (0, 1, 2, -3, 7, 8, 127, 128, -128, -129, 255, 256, 2**53, 2**53 + 1, -1, 100))]
_NUMBERS += ["2.5", "0.1", "0.5", "1.50", "-0.25"]
_LARGE = [*map(str, (2**63 - 1, 2**63, 2**64 - 1, -(2**63))), "9007199254740992.5"]
_TEXTS = ["'a'", "'b'", "'it''s'", "''", "'B'", "'10'", "'9'", "'中文'", "'a '"]
_DATES = ["'2026-11-01'", "'2026-11-02'", "'2026-10-31'", "'1969-12-31'"]
_MOMENTS = [*_DATES, "'2026-11-01 18:30:00'", "'2026-11-01T18:30:00.5'", "'2026-11-02 00:00:00.000001'"]
_CLOCKS = ["'18:30:00'", "'00:00:00'", "'18:30:00.5'", "'23:59:59.999999'"]
_WHOLE = [0, 1, 2, 7, 8, 100, None, 1, 2, 127]


def _moments(unit: str, zone: str | None = None) -> Any:
    steps = [0, 1, -1, 30, 19_800, 43_200, None, 86_400, -43_200, 0.5]
    times = [None if each is None else _TIME + datetime.timedelta(seconds=each) for each in steps]
    if unit == "s":
        times = [each and each.replace(microsecond=0) for each in times]
    return pa.array([each and each.replace(tzinfo=_UTC if zone else None) for each in times], pa.timestamp(unit, zone))


#: A column of each type, with literals that fit it.
COLUMNS: dict[str, tuple[Any, list[str]]] = {
    "i8": (pa.array(_WHOLE, pa.int8()), _NUMBERS),
    "u8": (pa.array(_WHOLE, pa.uint8()), _NUMBERS),
    "i32": (pa.array([*_WHOLE[:8], -(2**31), 2**31 - 1], pa.int32()), _NUMBERS),
    "i64": (pa.array([2**53, 2**53 + 1, -1, None, 2**63 - 1, -(2**63), 8, 0, 1, 2]), [*_NUMBERS, *_LARGE]),
    "u64": (pa.array([2**53, 2**53 + 1, 1, None, 2**64 - 1, 2**63, 8, 0, 3, 2], pa.uint64()), [*_NUMBERS, *_LARGE]),
    "f32": (pa.array([0.1, 0.5, 2.5, None, -0.25, 1, 7, 100, -3, 0], pa.float32()), _NUMBERS),
    "f64": (pa.array([0.1, 0.5, 2.5, None, -0.25, 1, 7, 2.0**53, -3, 0]), _NUMBERS),
    "dec": (
        pa.array([*map(decimal.Decimal, ("0.10", "0.50", "2.50", "1.50", "-0.25", "1", "7", "-3", "100")), None]),
        _NUMBERS,
    ),
    "ok": (pa.array([True, False, None, True, False, True, False, None, True, True]), ["true", "false"]),
    "s": (pa.array(["a", "b", "it's", None, "B", "10", "9", "中文", "a ", "ab"]), _TEXTS[:3] + _TEXTS[4:]),
    "ls": (pa.array(["a", "b", "it's", None, "B", "10", "9", "中文", "a ", "ab"], pa.large_string()), _TEXTS),
    "ds": (pa.array(["a", "b", None, "a", "B", "10", "9", "中文", "a ", "ab"]).dictionary_encode(), _TEXTS),
    "di": (pa.array(_WHOLE, pa.int16()).dictionary_encode(), _NUMBERS),
    "bin": (pa.array([b"a", b"b", b"it's", None, b"B", b"10", b"9", b"", b"a ", b"ab"]), _TEXTS[:2]),
    "d": (pa.array([_DAY + datetime.timedelta(days=each) for each in range(-3, 6)] + [None]), _DATES),
    "ts": (_moments("s"), _MOMENTS[:5]),  # DuckDB cuts off what a type has no digits for
    "tms": (_moments("ms"), _MOMENTS[:6]),
    "tus": (_moments("us"), _MOMENTS),
    "tns": (_moments("ns"), _MOMENTS),
    "tz": (_moments("us", "UTC"), [*_MOMENTS, "'2026-11-01 18:30:00+00'", "'2026-11-02 02:30:00+08'"]),
    "t": (pa.array([*(datetime.time(each, 30 * (each == 18)) for each in range(12, 21)), None]), _CLOCKS),
}
TABLE = pa.table({name: array for name, (array, _) in COLUMNS.items()})


def _test(made: random.Random) -> str:
    name = made.choice(list(COLUMNS))
    literals = COLUMNS[name][1]
    kind = made.randrange(8)
    if kind == 0:
        return f"{name} is {made.choice(['', 'not '])}null"
    if kind == 1:
        return f"{name} {made.choice(['', 'not '])}in ({', '.join(made.choices(literals, k=made.randint(1, 3)))})"
    if kind == 2:
        return f"{name} {made.choice(['', 'not '])}between {made.choice(literals)} and {made.choice(literals)}"
    return f"{name} {made.choice(['=', '!=', '<>', '<', '<=', '>', '>='])} {made.choice(literals)}"


def _condition(made: random.Random, depth: int = 0) -> str:
    kind = made.randrange(6) if depth < 3 else 5
    if kind == 0:
        return f"not {_condition(made, 3)}"
    if kind == 1:
        return f"({_condition(made, depth + 1)})"
    if kind in (2, 3):
        return f"{_condition(made, depth + 1)} {'and' if kind == 2 else 'or'} {_condition(made, depth + 1)}"
    return _test(made)


@pytest.fixture(scope="module")
def database() -> Any:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.register("arrow", TABLE)
    connection.execute("create table data as select * from arrow")
    return connection


def test_a_thousand_conditions_keep_the_rows_that_duckdb_keeps(database):
    made = random.Random(30)
    conditions = [_condition(made) for _ in range(1000)]
    columns = ", ".join(f"coalesce({each}, false)" for each in conditions)
    rows = database.execute(f"select {columns} from data").fetchall()
    differ = [
        (condition, kept, wanted)
        for condition, wanted in zip(conditions, map(list, zip(*rows)))
        if (kept := Condition(condition).flags(TABLE).tolist()) != wanted
    ]
    assert differ == []


def test_every_type_compares_with_every_sign_as_in_duckdb(database):
    signs = ("=", "!=", "<", "<=", ">", ">=")
    conditions = [f"{name} {sign} {each}" for name, (_, some) in COLUMNS.items() for sign in signs for each in some]
    columns = ", ".join(f"coalesce({each}, false)" for each in conditions)
    rows = database.execute(f"select {columns} from data").fetchall()
    for condition, wanted in zip(conditions, map(list, zip(*rows))):
        assert Condition(condition).flags(TABLE).tolist() == wanted, condition


@pytest.mark.parametrize("name", COLUMNS)
def test_a_literal_of_another_kind_is_an_error_with_one_that_works(name):
    array, fitting = COLUMNS[name]
    kind = getattr(array.type, "value_type", array.type)
    for literal in ("3", "'x y'", "true"):
        if literal in fitting or (literal[0] == "'" and fitting[0] == "'a'"):
            continue
        if literal == "3" and "2.5" in fitting:
            continue
        with pytest.raises(ConditionError) as caught:
            Condition(f"{name} = {literal}").flags(TABLE)
        assert f"compares column '{name}', of {kind}, with {literal}; write it as " in str(caught.value)
        Condition(str(caught.value).rpartition(": ")[2]).flags(TABLE)
