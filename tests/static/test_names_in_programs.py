"""A static program takes metrics whose names the user chose, and says what to write if a counter chose one."""

from __future__ import annotations

import re
from typing import Any, Callable

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from tests.contract import Data, StaticFeed, new_programs
from tests.static.test_variables import fresh


def added(metric: Any) -> list[str]:
    """The names of the variables that adding to a metric puts into a new program."""
    with new_programs() as (main, _):
        score, label = paddle.static.data("score", [-1], "float32"), paddle.static.data("label", [-1], "int64")
        metric.add(score, label)
        return [state.name for state in fm.static.states(main)]


@pytest.mark.parametrize(
    "make, owner, write",
    [
        (fm.AUC, "auc", 'AUC(name="auc") or MetricCollection({"auc": AUC()})'),
        (lambda: fm.AUC(curve="PR"), "auc", 'AUC(..., name="auc") or MetricCollection({"auc": AUC(...)})'),
        (
            lambda: fm.Windowed(fm.AUC(name="auc"), 4),
            "windowed",
            'Windowed(..., name="windowed") or MetricCollection({"windowed": Windowed(...)})',
        ),
        (lambda: 2 * fm.AUC(name="a") - 1, "expression", 'MetricCollection({"value": ((2 * a) - 1)})'),
        (lambda: (fm.Recall() - fm.Precision(name="p")).rename("gap"), "recall", "MetricCollection({"),
        (lambda: fm.MetricCollection([fm.AUC()]), "auc", 'AUC(name="auc") or MetricCollection({"auc": AUC()})'),
        (lambda: fm.MetricCollection([fm.AUC()], name="all"), "auc", 'MetricCollection({"auc": AUC()})'),
        (lambda: fm.MetricCollection(iter([fm.AUC()])).fresh("all"), "auc", 'MetricCollection({"auc": AUC()})'),
    ],
)
def test_a_name_from_a_counter_is_an_error_that_says_what_to_write(
    make: Callable[[], Any], owner: str, write: str
) -> None:
    metric = make()
    with pytest.raises(fm.StaticProgramError, match=rf"{owner}\S* was named by a counter, .*{re.escape(write)}"):
        added(metric)
    metric.add([0.2, 0.7], [0, 1])  # nothing was added, and outside of programs no name is needed


def test_what_the_error_says_is_right() -> None:
    assert added(fm.AUC(name=fresh("auc")))
    gini = 2 * fm.AUC() - 1
    names = added(fm.MetricCollection({"auc": fm.AUC(), "gini": gini, "last": fm.Windowed(fm.Count(), 4)}))
    assert {"metric_collection.auc.histogram", "metric_collection.seen"} <= {*names}
    assert all(name.startswith("metric_collection.") for name in names)


def test_members_of_a_sequence_are_keyed_by_their_names() -> None:
    name = fresh("train")
    assert f"{name}.it.histogram" in added(fm.MetricCollection([fm.AUC(name="it")], name=name))


def test_a_key_may_look_like_a_generated_name() -> None:
    number = int(fm.AUC().name.rpartition("_")[2])
    metrics = fm.MetricCollection({f"auc_{number + 1}": fm.AUC()}, name=fresh("train"))
    assert metrics[f"auc_{number + 1}"].name == f"auc_{number + 1}" and added(metrics)


def test_a_second_collection_without_a_name_is_an_error_that_asks_for_one_until_the_first_is_gone() -> None:
    data = Data(np.array([0.25, 0.75]), np.array([0, 1]))
    with new_programs() as programs:
        score = paddle.static.data("score", [-1], "float32")
        fm.MetricCollection({"n": fm.Count()}).add(score)
        with pytest.raises(
            fm.DuplicateStateError, match=r"already exists.* Name it: MetricCollection\(\.\.\., name=\)"
        ):
            added(fm.MetricCollection({"n": fm.Count()}))
        named = fm.MetricCollection({"n": fm.Count()}, name=fresh("second"))
        assert named.compute(StaticFeed(named, data).run([data])) == {"n": 2}
    del score, programs
    assert "metric_collection.n.total" in added(fm.MetricCollection({"n": fm.Count()}))
