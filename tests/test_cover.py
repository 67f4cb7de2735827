"""`make test` runs every entry of every list of a test's arguments, and `make test-all` every combination."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

import fleetmetrics as fm
from tests import cover
from tests.contract import CASES
from tests.kinds import kind, one_of_each

pytestmark = pytest.mark.numpy_only


def combinations(marks: list[Any], **fixtures: list[Any]) -> list[Any]:
    """The items of a test with these marks and fixtures."""
    lists: list[list[dict[str, Any]]] = [[{name: value} for value in values] for name, values in fixtures.items()]
    for mark in marks:
        if mark.name == "parametrize":
            names = [name.strip() for name in mark.args[0].split(",")]
            lists.append([dict(zip(names, row if len(names) > 1 else [row])) for row in mark.args[1]])
    return [
        SimpleNamespace(
            nodeid=f"tests/test_it.py::test_it[{number}]",
            callspec=SimpleNamespace(params={name: value for part in parts for name, value in part.items()}),
            iter_markers=lambda name: [mark for mark in marks if mark.name == name],
            get_closest_marker=lambda name: next((mark for mark in marks if mark.name == name), None),
        )
        for number, parts in enumerate(itertools.product(*lists))
    ]


def kept(items: list[Any]) -> list[dict[str, Any]]:
    left_out = {id(item) for item in cover.left_out(items)}
    return [item.callspec.params for item in items if id(item) not in left_out]


def parametrize(names: str, *rows: Any) -> pytest.Mark:
    return pytest.mark.parametrize(names, rows).mark


def test_every_entry_of_every_list_is_kept_and_no_list_is_combined_in_full() -> None:
    params = kept(combinations([parametrize("a", *range(7)), parametrize("b", "x", "y", "z")], job=[1, True]))
    assert sorted(each["a"] for each in params) == list(range(7))
    assert {each["b"] for each in params} == set("xyz")
    assert {type(each["job"]) for each in params} == {int, bool}


def test_the_rows_of_one_table_are_all_kept_unless_it_is_a_product() -> None:
    table = parametrize("a, b, result", *[(a, b, a and b) for a in (False, True) for b in (False, True)])
    assert len(kept(combinations([table]))) == 4
    product = [parametrize("name, mode", *itertools.product("abcdef", ("numpy", "dynamic", "static")))]
    params = kept(combinations([*product, pytest.mark.product.mark]))
    assert [each["name"] for each in params] == list("abcdef")
    assert sorted(each["mode"] for each in params) == ["dynamic"] * 2 + ["numpy"] * 2 + ["static"] * 2


def test_values_that_cannot_be_hashed_are_told_apart() -> None:
    params = kept(combinations([parametrize("a", [1], [1], {}), parametrize("b", 1, 1.0)]))
    assert len(params) == 3 and {type(each["b"]) for each in params} == {int, float}


def test_of_a_halved_test_each_version_runs_what_the_other_does_not() -> None:
    lists = [parametrize("name", *map(str, range(40))), parametrize("mode", "numpy", "static")]
    items = combinations([*lists, pytest.mark.halved.mark])
    older, newer = (
        {item.callspec.params["name"] for item in items} - {item.callspec.params["name"] for item in left_out}
        for left_out in (cover.of_the_other(items, True), cover.of_the_other(items, False))
    )
    assert older | newer == set(map(str, range(40))) and not older & newer and min(len(older), len(newer)) > 12
    assert cover.of_the_other(combinations(lists), True) == []
    assert cover.of_the_other(combinations([*lists, pytest.mark.halved.mark, pytest.mark.numpy_only.mark]), True) == []


def test_a_test_that_stands_alone_is_no_combination() -> None:
    assert cover.left_out([SimpleNamespace(nodeid="tests/test_it.py::test_it")]) == []  # type: ignore[list-item]


def test_of_what_base_classes_do_one_case_of_each_kind_is_tried() -> None:
    items = combinations([parametrize("name", *CASES), pytest.mark.kinds.mark], mode=["numpy"])
    seen = {id(item) for item in cover.of_a_kind_seen(items)}
    kept_names = {item.callspec.params["name"] for item in items if id(item) not in seen}
    assert {"auc", "gauc", "exact auc", "sliced gauc", "bootstrap accuracy"} <= kept_names == one_of_each()
    assert "recall" not in kept_names and "precision" in kept_names  # which differ in their formulas only
    assert cover.of_a_kind_seen(combinations([parametrize("name", *CASES)])) == []


def test_a_metric_with_a_mechanism_of_its_own_is_of_a_kind_of_its_own() -> None:
    class OfItsOwn(fm.Precision):
        __module__ = "fleetmetrics.metrics.own"

        def merge(self, *others: Any) -> None:
            super().merge(*others)

    assert kind(OfItsOwn()) != kind(fm.Precision()) == kind(fm.Recall()) != kind(fm.Sliced(fm.Precision(), by="slot"))
