"""Workers that all evaluate the whole data set are warned on each; workers with equal counts are not."""

from __future__ import annotations

import warnings
from typing import Any, Callable

import numpy as np
import pytest

import fleetmetrics as fm
from tests.distributed.cluster import free_ports
from tests.distributed.forks import member, run

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]


def data(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    score = rng.random(200)
    return score, (rng.random(200) < score).astype(int), np.arange(200) // 10


class Kept(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return len(results["score"])


class Appended(fm.BaseMetric):
    def add(self, score: Any, flag: Any) -> None:
        self._results.extend({"score": float(each), "flag": bool(more)} for each, more in zip(score, flag))

    def compute_metric(self, results: Any) -> Any:
        return len(results)


def auc(seed: int) -> Any:
    metric = fm.AUC(name="auc")
    metric.add(*data(seed)[:2])
    return metric


def errors(seed: int) -> Any:
    both = {"mae": fm.MeanAbsoluteError(), "mse": fm.MeanSquaredError(), "n": fm.Count()}
    metric = fm.MetricCollection(both, name="errors")
    metric.add(*data(seed)[:2])
    return metric


def large(seed: int) -> Any:
    metric, rng = fm.AUC(name="auc", buckets=2**17, spacing="linear"), np.random.default_rng(seed)
    metric.add(rng.integers(0, 500, 5000) / 500, rng.integers(0, 2, 5000))
    return metric


def ranking(seed: int) -> Any:
    metric = fm.MetricCollection({"ndcg": fm.NDCG(k=5), "recall": fm.RecallAtK(k=3)}, name="ranking")
    score, label, query = data(seed)
    metric.add(score, label, query=query)
    return metric


def exact(seed: int) -> Any:
    metric = fm.ExactAUC(name="exact")
    metric.add(*data(seed)[:2])
    return metric


def columns(seed: int) -> Any:
    metric = Kept()
    for part in np.split(data(seed)[0], 5):
        metric.add(score=part)
    return metric


def appended(seed: int) -> Any:
    metric = Appended()
    metric.add(*data(seed)[:2])
    return metric


def sliced(seed: int) -> Any:
    metric = fm.Sliced(fm.AUC(), by="query", name="by query")
    score, label, query = data(seed)
    metric.add(score, label, query=query % 4)
    return metric


def with_slices(seed: int) -> Any:
    metric = fm.MetricCollection({"all": fm.AUC(), "each": fm.Sliced(fm.AUC(), by="query")}, name="both")
    score, label, query = data(1)  # the same except for their slices
    metric.add(score, label, query=query % 4 + seed)
    return metric


def count(seed: int) -> Any:
    metric = fm.Count(name="n")
    metric.add(data(seed)[0])
    return metric


def accuracy(seed: int) -> Any:
    metric = fm.Accuracy(name="accuracy")
    metric.add([0.9, 0.2, 0.6], [1, 0, 0])
    return metric


def learning_rate(seed: int) -> Any:
    metric = fm.Mean(name="learning rate")
    metric.add([0.1, 0.03])
    return metric


def balanced(seed: int) -> Any:
    metric = fm.ConfusionMatrix(num_classes=20, name="matrix")
    metric.add(np.arange(200) % 20, np.arange(200) % 20)
    return metric


def all_right(seed: int) -> Any:
    metric = Kept()
    metric.add(score=np.ones(100, bool))
    return metric


def with_ids(seed: int) -> Any:
    metric = Kept()
    metric.add(score=data(0)[0], ids=np.arange(200))
    return metric


def empty(seed: int) -> Any:
    return fm.AUC(name="auc")


def told(make: Callable[[int], Any], seeds: list[int]) -> list[list[str]]:
    """The warnings of the same samples on each worker."""
    port = free_ports(1)[0]

    def work(rank: int) -> list[str]:
        metric = make(seeds[rank])
        with fm.set_communicator(member(rank, len(seeds), port)), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            metric.compute(timeout=20)
            metric.compute_local()
        return [text for text in map(str, (each.message for each in caught)) if "very same samples" in text]

    return run(len(seeds), work)


@pytest.mark.parametrize("make", [auc, errors, large, ranking, exact, columns, appended, sliced, with_slices])
def test_the_same_samples_on_all_workers_are_a_warning_on_each_and_others_are_none(make: Any) -> None:
    for texts in told(make, [1, 1, 1]):
        assert len(texts) == 1
        assert "all 3 workers have added the very same samples" in texts[0]
        assert "batch_sampler=paddle.io.DistributedBatchSampler(data, batch_size)" in texts[0]
    assert told(make, [1, 1, 2]) == [[], [], []]


@pytest.mark.parametrize("make", [count, accuracy, learning_rate, balanced, all_right, with_ids, empty])
def test_numbers_that_are_equal_by_nature_are_no_sign_of_it(make: Any) -> None:
    assert told(make, [1, 1]) == [[], []]


def test_one_worker_alone_is_not_warned() -> None:
    assert told(auc, [1]) == [[]]
