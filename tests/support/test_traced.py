"""Metrics in a layer that `paddle.jit.to_static` compiles: they get every batch, or one error says what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm


class Kept(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return float(np.mean(results["score"]))


class Appended(fm.BaseMetric):
    def add(self, score: Any, label: Any) -> None:
        self._results.extend(score.numpy())

    def compute_metric(self, results: Any) -> Any:
        return float(np.mean(results))


def in_order(metric: Any, score: Any, label: Any) -> None:
    metric.add(score, label)


def by_name(metric: Any, score: Any, label: Any) -> None:
    metric.add(score=score, label=label)


def by_slot(metric: Any, score: Any, label: Any) -> None:
    metric.add(score, label, slot=label)


def value_of(metric: Any, score: Any, label: Any) -> None:
    metric.compute()


METRICS: dict[str, Any] = {
    "auc": (lambda: fm.AUC(name="auc"), in_order),
    "records": (lambda: fm.ExactAUC(name="exact"), in_order),
    "collection": (
        lambda: fm.MetricCollection({"a": fm.AUC(), "b": fm.MeanAbsoluteError(), "n": fm.Count()}),
        in_order,
    ),
    "slices": (lambda: fm.Sliced(fm.MeanAbsoluteError(), by="slot"), by_slot),
    "window": (lambda: fm.Windowed(fm.MeanAbsoluteError(), last=3), in_order),
    "columns": (Kept, by_name),
    "appended": (Appended, in_order),
}


class Scores(paddle.nn.Layer):
    def __init__(self, metric: Any, add: Any) -> None:
        super().__init__()
        self.linear, self.metric, self.add = paddle.nn.Linear(4, 1), [metric], add

    def forward(self, x: Any, label: Any) -> Any:
        score = paddle.nn.functional.sigmoid(self.linear(x))
        self.add(self.metric[0], score, label)
        return score * 2


def run(full_graph: bool, name: str) -> tuple[Any, Any]:
    """The metric of a compiled layer, and one that got the outputs."""
    make, add = METRICS[name]
    inside, outside = make(), make().fresh() if hasattr(make(), "fresh") else make()
    layer = paddle.jit.to_static(Scores(inside, add), full_graph=full_graph)
    for seed in range(3):
        paddle.seed(seed)
        x, label = paddle.rand([8, 4]), paddle.randint(0, 2, [8, 1])
        add(outside, layer(x, label) / 2, label)
    return inside, outside


@pytest.mark.halved
@pytest.mark.parametrize("name", METRICS)
def test_a_layer_that_is_compiled_in_parts_adds_every_batch(name: str) -> None:
    inside, outside = run(False, name)
    assert str(inside.compute()) == str(outside.compute())


@pytest.mark.parametrize("name", METRICS)
def test_a_layer_that_is_compiled_as_a_whole_says_to_add_outside(name: str) -> None:
    with pytest.raises(fm.StaticProgramError, match=r"add.* was called in what paddle\.jit\.to_static .*outside"):
        run(True, name)


@pytest.mark.halved
@pytest.mark.parametrize("name", ["auc", "collection", "window", "columns"])
def test_a_value_in_a_compiled_function_is_that_of_each_call(name: str) -> None:
    make, add = METRICS[name]
    metric = make()

    def step(x: Any) -> Any:
        values.append(str(metric.compute()))
        return x * 2

    label = paddle.to_tensor([[1], [0], [0]])
    expected, values = [], []
    compiled = paddle.jit.to_static(step, full_graph=False)
    for score in (0.25, 0.75):
        add(metric, paddle.to_tensor([[score], [0.5], [0.125]]), label)
        compiled(paddle.ones([2]))
        expected.append(str(metric.compute()))
    assert values == expected


@pytest.mark.parametrize("name", ["auc", "collection", "window", "columns"])
def test_a_value_in_a_layer_that_is_compiled_as_a_whole_is_an_error(name: str) -> None:
    layer = paddle.jit.to_static(Scores(METRICS[name][0](), value_of), full_graph=True)
    with pytest.raises(fm.StaticProgramError, match=r"compute of .* was called in what paddle\.jit\.to_static"):
        layer(paddle.rand([8, 4]), paddle.randint(0, 2, [8, 1]))


def test_a_static_program_of_ones_own_is_none_of_that() -> None:
    paddle.enable_static()
    try:
        with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
            fm.AUC(name="of a program").add(paddle.static.data("p", [-1]), paddle.static.data("y", [-1], "int64"))
    finally:
        paddle.disable_static()
