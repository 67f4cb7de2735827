"""Metrics are pickled and deep-copied, with what they have accumulated, and go on from there."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics.batch.rules import REQUIREMENTS, applicable
from tests.cases.regression import tweedie
from tests.contract import CASES, StaticFeed, batches, draw, feed, first_dtypes, same, state_bytes

pytestmark = pytest.mark.halved

WAYS = {
    "pickle": lambda metric: pickle.loads(pickle.dumps(metric)),
    "oldest protocol": lambda metric: pickle.loads(pickle.dumps(metric, 2)),
    "deepcopy": copy.deepcopy,
}

#: What the contract has with other settings, or not at all.
MORE = {
    "precision without some": lambda: fm.Precision(ignore_index=-1),
    "auc of classes": lambda: fm.AUC(task="multiclass", num_classes=3),
    "log loss without some": lambda: fm.LogLoss(task="multiclass", num_classes=3, ignore_index=-1),
    "calibration of classes": lambda: fm.ExpectedCalibrationError(task="multiclass"),
    "throughput": fm.Throughput,
    "expression": lambda: 2 * fm.MeanSquaredError() / (fm.Count() + 1) - abs(fm.Mean()) ** 2,
    "collection": lambda: fm.MetricCollection([fm.AUC(), fm.Precision(), fm.ExactAUC(), fm.GAUC()]),
    "sliced deviance": lambda: fm.Sliced(tweedie(1.5)()),
    "windowed precision": lambda: fm.Windowed(fm.Precision(ignore_index=-1), 10),
    "bootstrapped recall": lambda: fm.Bootstrap(fm.Recall(task="multiclass", num_classes=3)),
}


def value_of(metric):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a case has none of may be undefined
        return metric.compute_local()


def test_every_metric_of_the_catalogue_is_here():
    made = [case.make() for case in CASES.values()] + [make() for make in MORE.values()]
    kinds = {type(member).__name__ for metric in made for member in metric.leaf_metrics()}
    kinds |= {type(metric.metric).__name__ for metric in made if isinstance(metric, fm.Windowed)}
    assert set(fm.metrics.__all__) <= kinds


@pytest.mark.kinds
@pytest.mark.numpy_only
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "numpy" in case.modes])
def test_a_copy_has_the_value_and_goes_on_by_itself(name):
    metric = CASES[name].make()
    parts = batches(draw(name, first_dtypes(name)))
    for make in WAYS.values():
        copied = make(metric)
        feed(copied, parts[:2], "numpy")
        again = make(copied)
        value, states = value_of(copied), state_bytes(copied)
        assert state_bytes(again) == states and same(value_of(again), value, exact=True)
        feed(again, parts[2:], "numpy")
        assert state_bytes(copied) == states and same(value_of(copied), value, exact=True)
        feed(copied, parts[2:], "numpy")
        assert state_bytes(again) == state_bytes(copied) and same(value_of(again), value_of(copied), exact=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MORE)
def test_a_copy_of_other_settings_is_made(name, way):
    metric = MORE[name]()
    assert state_bytes(WAYS[way](metric)) == state_bytes(metric)


@pytest.mark.parametrize("way", WAYS)
def test_members_of_a_collection_share_their_states_afterwards(way):
    expression = fm.Precision(ignore_index=-1) * fm.Recall(ignore_index=-1)
    collection = WAYS[way](
        fm.MetricCollection(
            [fm.Precision(name="p", ignore_index=-1), fm.F1(name="f", ignore_index=-1), expression], name="it"
        )
    )
    collection.add([0.9, 0.2, 0.7, 0.1], [1, 1, 0, -1])
    again = WAYS[way](collection)
    again.add([0.9], [1])
    assert collection.compute()["p"] == 1 / 2 and again.compute()["p"] == 2 / 3
    members = again.leaf_metrics()
    assert len({id(state) for member in members for state in member.states.values()}) == 1
    table = WAYS[way](fm.MetricCollection([fm.XAUC(name="x"), fm.KendallCorrelation(name="k")])).metrics
    assert table["x"].table is table["k"].table


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_has_the_same_requirements_as_a_new_metric(way):
    """Equal rules are one: a collection looks once, for any caller."""
    made = [
        fm.Precision(ignore_index=-1),
        fm.Recall(task="multiclass", num_classes=3),
        tweedie(1.5)(),
        fm.NDCG(gains="exponential"),
    ]
    for metric in made:
        asked = tuple(metric.requirements)
        copied = tuple(WAYS[way](metric).requirements)
        assert copied == asked and applicable(asked + copied) == applicable(asked)
    assert WAYS[way](REQUIREMENTS) == REQUIREMENTS


TENSORS = [name for name, case in CASES.items() if "dynamic" in case.modes]


@pytest.mark.kinds
@pytest.mark.parametrize("name", TENSORS)
def test_what_tensors_have_left_is_copied_and_pickled_too(name):
    """On Paddle 2.6 a tensor cannot be pickled, and `paddle.save` makes a tuple of it."""
    metric = CASES[name].make()
    parts = batches(draw(name, first_dtypes(name)))
    feed(metric, parts[:2], "dynamic")
    for make in WAYS.values():
        again = make(metric)
        assert state_bytes(again) == state_bytes(metric) and same(value_of(again), value_of(metric), exact=True)
        again = make(again)
        one = make(metric)
        for each in (again, one):
            feed(each, parts[2:], "dynamic")
        assert state_bytes(again) == state_bytes(one)


@pytest.mark.parametrize("name", [*MORE, "windowed", "sliced", "bootstrapped"])
def test_paddle_saves_and_loads_the_metric_itself(name, tmp_path):
    paddle = pytest.importorskip("paddle")
    made = {
        "windowed": lambda: fm.Windowed(fm.MeanSquaredError(), 2),
        "sliced": lambda: fm.Sliced(fm.AUC(), "slot", keys=[0, 1]),
        "bootstrapped": lambda: fm.Bootstrap(fm.MeanSquaredError(), 5, ids="user"),
        **MORE,
    }
    metric = made[name]()
    if name in ("windowed", "sliced", "bootstrapped", "collection", "expression"):
        given = {"prediction": paddle.to_tensor([0.5, 0.25]), "label": paddle.to_tensor([1.0, 0.0])}
        columns = {column for leaf in metric.leaf_metrics() for column in leaf.columns}
        metric.add(**given, **{column: paddle.to_tensor([0, 1]) for column in columns})
    paddle.save(metric, str(tmp_path / "metric"))
    again = paddle.load(str(tmp_path / "metric"))
    assert type(again) is type(metric) and state_bytes(again) == state_bytes(metric)
    assert same(value_of(again), value_of(metric), exact=True)


class Things(fm.BaseMetric):
    def compute_metric(self, results):
        return [np.asarray(each).tolist() for each in (results["thing"] if isinstance(results, dict) else results)]


class Labels(fm.evaluator.Accuracy):
    pass


@pytest.mark.parametrize("way", [*WAYS, "paddle.save"])
def test_records_with_tensors_are_pickled_and_copied(way, tmp_path):
    paddle = pytest.importorskip("paddle")

    def through_paddle(metric):
        paddle.save(metric, str(tmp_path / "metric"))
        return paddle.load(str(tmp_path / "metric"))

    make = WAYS.get(way, through_paddle)
    columns, records, labels = Things(), Things(), Labels()
    columns.add(thing=[paddle.to_tensor([1, 2]), paddle.to_tensor([3])])
    records._results.extend([paddle.to_tensor([0.5]), 1])
    labels.process(None, [{"pred_label": paddle.to_tensor(1), "gt_label": paddle.to_tensor(1)}])
    assert make(columns).compute() == columns.compute() == [[1, 2], [3]]
    assert make(records).compute() == records.compute() == [[0.5], 1]
    again = make(columns)
    again.add(thing=[paddle.to_tensor([4])])
    assert again.compute() == [[1, 2], [3], [4]] and columns.compute() == [[1, 2], [3]]
    assert isinstance(make(columns)._columns.batches[0][0][0], paddle.Tensor)
    assert make(labels).evaluate(1) == labels.evaluate(1) == {"accuracy/top1": 100.0}


def test_a_metric_in_a_static_program_is_not_pickled_and_the_error_says_what_to_do():
    data = draw("auc", first_dtypes("auc"))
    metric = StaticFeed(fm.AUC(), data).metric
    for make in WAYS.values():
        with pytest.raises(
            fm.StaticProgramError, match=r"which cannot be pickled or copied; save its values with state_d"
        ):
            make(metric)


def test_copies_check_as_the_original_does():
    metric = pickle.loads(pickle.dumps(fm.Precision(task="multiclass", num_classes=3, ignore_index=-1)))
    metric.add(np.array([0, 1, 2]), np.array([0, 1, -1]))
    with pytest.raises(fm.InvalidInputError, match=r"label must be a class: .* or ignore_index=-1"):
        metric.add(np.array([0]), np.array([3]))
    assert metric.compute() == 1.0
