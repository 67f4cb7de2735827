"""Offline evaluation in one process: predictions that are there already."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import paddle
import pytest

import fleetmetrics as fm
from fleetmetrics.evaluator import Evaluator
from tests.evaluator.metrics_of_the_tests import Seen, Total


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("make", [list, tuple, iter, lambda parts: (part for part in parts), np.array])
def test_offline_evaluation_takes_any_iterable(make: Any, chunk_size: int) -> None:
    evaluator = Evaluator([Seen(), Total()])
    values = evaluator.offline_evaluate(make([3, 1, 2, 5, 4]), make([30, 10, 20, 50, 40]), chunk_size)
    assert values == {"seen/records": [3, 1, 2, 5, 4], "seen/n": 5, "total/sum": 15, "total/top": 5}
    batches = [list(range(5))[start : start + chunk_size] for start in range(0, 5, chunk_size)]
    samples = [3, 1, 2, 5, 4]
    expected = [([10 * samples[i] for i in batch], [samples[i] for i in batch]) for batch in batches]
    assert evaluator.metrics[0].batches == expected
    assert evaluator.metrics[0].results == []


def test_offline_data_are_collated_as_by_mmengine() -> None:
    Point = namedtuple("Point", "x y")
    evaluator = Evaluator(Seen())
    data = [dict(inputs=[i, i + 1], point=Point(i, -i), name=f"{i}", box=dict(w=i)) for i in range(3)]
    evaluator.offline_evaluate(data_samples=[1, 2, 3], data=data, chunk_size=2)
    first, second = [batch for batch, _ in evaluator.metrics[0].batches]
    assert first == {
        "inputs": [(0, 1), (1, 2)],
        "point": Point((0, 1), (0, -1)),
        "name": ["0", "1"],
        "box": {"w": [0, 1]},
    }
    assert isinstance(first["point"], Point)
    assert second["name"] == ["2"]
    with pytest.raises(RuntimeError, match="each data_itement in list of batch should be of equal size"):
        Evaluator(Seen()).offline_evaluate([1, 2], [[1], [1, 2]], 2)


def test_without_data_there_is_no_batch() -> None:
    evaluator = Evaluator(Seen())
    assert evaluator.offline_evaluate(data_samples=[1, 2], chunk_size=2)["seen/n"] == 2
    assert evaluator.metrics[0].batches == [(None, [1, 2])]
    assert Evaluator(Seen()).offline_evaluate([])["seen/n"] == 0


@pytest.mark.parametrize("make", [list, np.array, iter])
@pytest.mark.parametrize(("samples", "data"), [(3, 2), (2, 3), (3, 0), (0, 3), (4, 2)])
def test_data_and_samples_must_match_in_number_and_a_failure_leaves_nothing(make: Any, samples: int, data: int) -> None:
    evaluator = Evaluator([Seen(), Total()])
    text = "data_samples and data should have the same length, but got data_samples length: "
    with pytest.raises(AssertionError, match=text):
        evaluator.offline_evaluate(make(list(range(samples))), make(list(range(data))))
    # Whatever was processed before the difference came to light must not get into the next number.
    assert evaluator.offline_evaluate(list(range(10)))["seen/records"] == list(range(10))


def test_a_sample_that_cannot_be_processed_leaves_nothing() -> None:
    class Strict(Seen):
        def process(self, data_batch: Any, data_samples: Any) -> None:
            super().process(data_batch, [1 / sample for sample in data_samples])

    evaluator = Evaluator([Seen(), Strict(prefix="strict")])
    with pytest.raises(ZeroDivisionError):
        evaluator.offline_evaluate([1, 2, 0, 4])
    assert evaluator.offline_evaluate([2, 4])["strict/records"] == [0.5, 0.25]


@pytest.mark.parametrize("make", [list, iter])
@pytest.mark.parametrize("item", [{"inputs": [1.0]}, np.zeros(3), 7, SimpleNamespace(to_dict=lambda: {"img": 1})])
def test_samples_and_data_that_are_swapped_are_recognised(item: Any, make: Any) -> None:
    samples = [dict(pred_label=1, gt_label=1), dict(pred_label=0, gt_label=1)]
    evaluator = Evaluator(dict(type="Accuracy"))
    with pytest.raises(
        fm.InvalidInputError, match=r"data_samples and data look swapped: data\[0\] has 'pred_label', and"
    ):
        evaluator.offline_evaluate(make([item, item]), make(samples))
    assert evaluator.offline_evaluate(make(samples), make([item, item])) == {"accuracy/top1": 50.0}


def test_an_error_of_samples_in_their_place_is_their_own() -> None:
    with pytest.raises(fm.InvalidInputError, match="a data sample has no"):
        Evaluator(dict(type="Accuracy")).offline_evaluate([dict(score=1)], [dict(inputs=1)])


@pytest.mark.parametrize("chunk_size", [0, -1, 1.5, True, "2", None])
def test_a_chunk_has_samples(chunk_size: Any) -> None:
    with pytest.raises(fm.InvalidInputError, match=r"chunk_size must be an integer of at least 1, not "):
        Evaluator(Seen()).offline_evaluate([1, 2], chunk_size=chunk_size)


def test_offline_evaluation_needs_no_sampler() -> None:
    sampler = paddle.io.DistributedBatchSampler(range(7), 3, num_replicas=1, rank=0)
    evaluator = Evaluator(Seen(), sampler=sampler)
    assert evaluator.offline_evaluate([3, 1, 2])["seen/records"] == [3, 1, 2]
