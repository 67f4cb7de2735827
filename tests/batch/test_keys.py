"""Users, queries, slices and ids: what differs stays apart, or is refused with a word on what to do."""

from __future__ import annotations

import enum
from typing import Any, Callable

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.batch.keys import joined_arrays, keys_of


class Color(str, enum.Enum):
    RED = "red"


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "objects": lambda keys: np.array(keys, object),
    "column": lambda keys: np.array(keys, object)[:, None],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "keys, told",
    [
        (["a", b"a"], "among strings it holds b'a' of type bytes"),
        ([b"a", b"b"], r"not bytes such as b'a'.*numpy.char.decode\(user, 'utf-8'\)"),
        ([True, 1], "among integers it holds True of type bool"),
        ([True, False], r"not bool.*numpy.asarray\(user, int\)"),
        ([1, 1.0], "among integers it holds 1.0 of type float"),
        (["1", 1], "among strings it holds 1 of type int"),
        (["a", "a\0"], r"'a\\x00'.*NUL"),
        (["", "\0"], "NUL"),
        (["a", None], "among strings it holds None"),
        ([2**63, -1], r"not -1 and 9223372036854775808"),
        ([2**64, 0], r"below 2\*\*64"),
        ([1.5, 2.5], "not float64"),
    ],
)
def test_what_numpy_would_make_one_key_is_refused(form: str, keys: list[Any], told: str) -> None:
    if form in ("objects", "column") and told.startswith("not float64"):
        told = "not float64"
    with pytest.raises(fm.InvalidInputError, match=told):
        keys_of(FORMS[form](keys), "user")


@pytest.mark.parametrize(
    ("dtype", "told"),
    [
        ("timedelta64[h]", r"not durations .*count whole units of it: age // numpy.timedelta64\(1, 'D'\)"),
        ("datetime64[s]", r"not times .*write it as strings: numpy.asarray\(age\).astype\(str\)"),
    ],
)
def test_times_are_refused_with_what_to_write_in_their_place(dtype: str, told: str) -> None:
    with pytest.raises(fm.InvalidInputError, match=told):
        keys_of(np.array([1, 2], dtype), "age")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "keys, dtype",
    [
        (["a", "b", ""], "<U1"),
        (["a\0b", "\0b"], "<U3"),
        (["a", np.str_("b")], "<U1"),
        ([Color.RED, "blue"], "<U4"),
        ([1, -(2**63), 2**63 - 1], "int64"),
        ([2**64 - 1, 2**53, 2**53 + 1], "uint64"),
        ([np.int8(1), 2, np.uint64(3)], "int64"),
        ([], "int64"),
    ],
)
def test_keys_of_one_kind_are_what_they_were(form: str, keys: list[Any], dtype: str) -> None:
    found = keys_of(FORMS[form](keys), "user")
    assert found.dtype == dtype
    assert found.ravel().tolist() == [each.value if isinstance(each, Color) else each for each in keys]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_arrays_of_integers_are_int64(dtype: str) -> None:
    assert keys_of(np.array([1, 2], dtype), "user").dtype == np.int64


def test_a_masked_key_is_refused() -> None:
    with pytest.raises(fm.InvalidInputError, match="masked"):
        keys_of(np.ma.array([1, 2], mask=[True, False]), "user")


def test_large_integers_of_several_batches_are_not_rounded() -> None:
    large = np.array([2**64 - 1, 2**64 - 2], np.uint64)
    assert joined_arrays([np.array([2**53 + 1]), large], "user").tolist() == [2**53 + 1, *large.tolist()]


@pytest.mark.parametrize("make", [fm.GAUC, lambda: fm.NDCG(by="user"), lambda: fm.Sliced(fm.AUC(), "user"),
                                  lambda: fm.Sliced(fm.AUC(), "user", keys=["a", "b"]),
                                  lambda: fm.Bootstrap(fm.AUC(), 10, ids="user")])  # fmt: skip
@pytest.mark.parametrize("keys", [["a", b"a"], [True, 1], ["a", "a\0"], [1, "1"]])
@pytest.mark.parametrize("form", FORMS)
def test_every_column_of_keys_is_checked(make: Callable[[], Any], keys: list[Any], form: str) -> None:
    metric = make()
    with pytest.raises(fm.InvalidInputError, match="user"):
        metric.add([0.1, 0.9], [0, 1], user=FORMS[form](keys))


def test_users_of_different_batches_are_not_made_floats() -> None:
    metric = fm.GAUC()
    metric.add([0.1, 0.9], [0, 1], user=np.array([2**53, 2**53 + 1]))
    metric.add([0.2, 0.8], [1, 0], user=np.array([2**53, 2**63], np.uint64))
    assert metric.compute() == 1.0
    metric.add([0.2], [1], user=[-1])
    with pytest.raises(fm.InvalidInputError, match="user must hold integers below"):
        metric.compute()
