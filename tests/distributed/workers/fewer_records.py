"""One worker of the tests of records that are not one to one with samples, as scripts for MMEval and MMEngine keep."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any, Callable

import numpy as np
import paddle
from cluster import arguments, report

import fleetmetrics as fm
from fleetmetrics.evaluator import BaseMetric, Evaluator
from fleetmetrics.migrate import migrated

rank = world = 0


class Filtering(BaseMetric):
    """It leaves out the samples that are divisible by three."""

    default_prefix = "filtering"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend(sample["n"] for sample in data_samples if sample["n"] % 3)

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        return {"records": [int(each) for each in results]}


class Batched(Filtering):
    """One record per batch, as MMEngine's documentation has it for large outputs."""

    default_prefix = "batched"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.append([sample["n"] for sample in data_samples])

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        return {"records": [int(n) for each in results for n in each]}


class Columns(BaseMetric):
    """The metric of MMEngine's first tutorial: what the model gives is (scores, labels)."""

    default_prefix = "columns"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        score, gt = data_samples
        self.results.append({"batch_size": len(gt), "correct": (score.argmax(1) == gt).sum()})

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        correct, size = (sum(int(each[name]) for each in results) for name in ("correct", "batch_size"))
        return {"correct": correct, "size": size}


class Doubling(Filtering):
    """Two records per sample."""

    default_prefix = "doubling"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend(n for sample in data_samples for n in (sample["n"], -sample["n"]))


class Tasks(BaseMetric):
    """As MMPretrain's ``MultiTasksMetric``: it hands what belongs to a task on to the metrics of this."""

    def __init__(self) -> None:
        super().__init__(prefix="tasks")
        self.odd, self.even = Batched(prefix="odd"), Filtering(prefix="even")

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.odd.process(data_batch, [sample for sample in data_samples if sample["n"] % 2])
        self.even.process(data_batch, [sample for sample in data_samples if sample["n"] % 2 == 0])

    def compute_metrics(self, results: list[Any]) -> dict[str, Any]:
        raise NotImplementedError

    def evaluate(self, size: Any = None) -> dict[str, Any]:  # type: ignore[override]
        return {**self.odd.evaluate(size), **self.even.evaluate(size)}


class Added(fm.BaseMetric):
    """As MMEval's docstring has it: one record per batch."""

    def add(self, predictions: Any, labels: Any) -> None:  # type: ignore[override]
        self._results.append((predictions, labels))

    def compute_metric(self, results: Any) -> Any:
        assert all((predictions == labels).all() for predictions, labels in results)
        return [int(n) for predictions, _ in results for n in predictions]


class Sifted(Added):
    def add(self, predictions: Any, labels: Any) -> None:
        for n in predictions:
            if n % 3:
                self._results.append((np.array([n]), np.array([n])))


class Unknown(Sifted):
    """How many samples a call brings is unknown."""

    def add(self, predictions: Any, names: Any) -> None:  # type: ignore[override]
        super().add(predictions, None)


class Pictures(Added):
    """It is given one sample at a time."""

    def compute_metric(self, results: Any) -> Any:
        return [int(picture[0, 0]) for picture, _ in results]


def told(call: Callable[..., Any], *args: Any) -> tuple[Any, list[str]]:
    """The result or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = call(*args)
        except Exception as error:
            value = f"{type(error).__name__}: {error}"
    return value, [str(each.message) for each in caught]


def make_sampler(samples: int, batch_size: int, shuffle: bool) -> Any:
    return paddle.io.DistributedBatchSampler(range(samples), batch_size, world, rank, shuffle=shuffle, drop_last=False)


def evaluators() -> list[Any]:
    found = []
    for samples, batch_size, shuffle in arguments()["passes"]:
        sampler = make_sampler(samples, batch_size, shuffle)
        knowing = Evaluator([Filtering(), Batched(), Doubling(), Tasks()], sampler=sampler)
        plain = Evaluator([Filtering(), Batched(), Doubling(), Tasks()])
        columns = Evaluator(Columns(), sampler=sampler)
        for batch in sampler:
            for evaluator in (knowing, plain):
                evaluator.process([{"n": n} for n in batch])
            label = np.array(batch) % 2
            columns.process((np.eye(2)[label], label), (np.zeros([len(batch), 4]), label))
        made = (knowing, columns) if shuffle else (knowing, columns, plain)
        found.append([told(each.evaluate, samples) for each in made])
    return found


def metrics() -> list[Any]:
    """The same without an `Evaluator`."""
    found = []
    for samples, batch_size, shuffle in arguments()["passes"]:
        sampler = make_sampler(samples, batch_size, shuffle)
        made = [
            Added(sampler=sampler),
            Sifted(sampler=sampler),
            Added(dist_collect_mode="batch", batch_size=batch_size),
        ]
        made += [Sifted(dist_collect_mode="batch", batch_size=batch_size)]
        for batch in sampler:
            for metric in made:
                metric.add(np.array(batch), labels=np.array(batch))
        found.append([told(metric.compute, samples) for metric in made[: 2 if shuffle else 4]])
    return found


def interleaved() -> list[Any]:
    """What MMEngine's own sampler deals: sample by sample, so that the padding is the last of some workers."""
    found = []
    for samples, batch_size in product((1, 4, 7, 10), (1, 2, 3)):
        each = -(-samples // world)
        mine = [(world * i + rank) % samples for i in range(each)]
        evaluator, metric = Evaluator([Filtering(), Batched()], collect_mode="unzip"), Added(dist_collect_mode="unzip")
        by_itself = Batched()
        for start in range(0, each, batch_size):
            batch = mine[start : start + batch_size]
            by_itself.process(None, [{"n": n} for n in batch])
            evaluator.process([{"n": n} for n in batch])
            metric.add(np.array(batch), np.array(batch))
        found.append(
            [samples, *(told(call, samples) for call in (evaluator.evaluate, metric.compute, by_itself.evaluate))]
        )
    return found


def troubles() -> dict[str, Any]:
    """What is not as it should be on one worker, or cannot be known."""
    last = rank == world - 1
    lost, empty, unknown, nested = Evaluator(Filtering()), Evaluator(Filtering()), Unknown(), Evaluator(Tasks())
    some = Unknown(dist_collect_mode="cat")
    lost.process([{"n": n} for n in range(1 if last else 3)])
    empty.process([{"n": 3}, {"n": 6}])
    some.add(np.arange(3 - last), ["one", "two", "three", "four"])
    unknown.add(np.array([1, 2, 3]), ["one", "two"])
    late = Filtering()
    if rank == 0:  # it is fed by another metric, which keeps this back on most workers
        Feeding(late).process(None, [{"n": n} for n in (1, 2, 3)])
    found = {
        "a batch is lost": told(lost.evaluate, 3 * world),
        "no records": told(empty.evaluate, 2 * world),
        "not known": told(unknown.compute, 3 * world),
        "not known, and cut": told(some.compute, 2 * world - 2),
        "one image at a time": told(images),
        "kept back": told(late.evaluate, 3 * world),
        "no records, sampler": told(sampled),
    }
    nested.process([{"n": n} for n in (1, 2, 3)])
    return {**found, "nested": told(nested.evaluate, 3 * world)}


def images() -> Any:
    """The first axis of what `add` takes is no sample here; there are fewer samples than workers."""
    metric = Pictures(dist_collect_mode="batch", batch_size=1)
    metric.add(np.full([9, 4], rank % 2), np.full([9, 4], rank % 2))
    return sorted(metric.compute(min(world, 2)))


def sampled() -> Any:
    evaluator = Evaluator(Filtering(), sampler=make_sampler(2 * world, 2, False))
    evaluator.process([{"n": 3}, {"n": 6}])
    return evaluator.evaluate()


class Feeding(Filtering):
    def __init__(self, other: Any) -> None:
        super().__init__()
        self.other = other

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.other.process(data_batch, data_samples)


def script() -> Any:
    """A metric whose base comes from ``mmeval`` itself, after its imports were changed."""
    text = (
        "import mmeval\nfrom mmengine.registry import METRICS\nfrom mmeval import set_default_dist_backend\n"
        "class Words(mmeval.BaseMetric):\n"
        "    def add(self, predictions, labels):\n"
        "        self._results.append(sum(a == b for a, b in zip(predictions, labels)))\n"
        "    def compute_metric(self, results):\n"
        "        return {'right': sum(results)}\n"
        "set_default_dist_backend('torch_cuda')\n"
    )
    changed, notes = migrated(text)
    assert not notes
    names: dict[str, Any] = {}
    exec(changed, names)
    metric = names["Words"]()
    metric.add(["a", "b", "c"], ["a", "b", str(rank)])
    return metric.compute(size=3 * world)


if __name__ == "__main__":
    channel = fm.get_communicator()
    rank, world = channel.rank, channel.world_size
    report(evaluators=evaluators(), metrics=metrics(), interleaved=interleaved(), troubles=troubles())
    report(script=script())
