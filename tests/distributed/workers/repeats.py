"""One worker whose metrics are not told of the sampler that repeats samples, or need not be."""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any, Callable, Iterator

import numpy as np
import paddle
from cluster import arguments, report

import fleetmetrics as fm
from fleetmetrics.evaluator import BaseMetric, Evaluator
from tests.field_samplers import LastBatchPaddingSampler, WholeRest

SAMPLES = 53
rank = world = 0


class Sampler:
    """PyTorch's base class, in a module of its name."""


class DistributedSampler(Sampler):
    """PyTorch's."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, world, rank, 0
        self.num_samples = -(-len(dataset) // world)
        self.total_size = self.num_samples * world

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        order += order[: self.total_size - len(order)]
        yield from order[self.rank :: self.num_replicas]


class InOrder(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return {"n": len(results["place"])}


class Seen(BaseMetric):
    default_prefix = "seen"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend(int(sample["place"]) for sample in data_samples)

    def compute_metrics(self, results: Any) -> Any:
        return {"n": len(results)}


class Processed(Seen):
    """One record for each batch."""

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.append(len(data_samples))

    def compute_metrics(self, results: Any) -> Any:
        return {"n": sum(results)}


def paddles(samples: int = SAMPLES, **options: Any) -> Any:
    return paddle.io.DistributedBatchSampler(range(samples), 4, world, rank, **options)


def batches(sampler: Any) -> list[list[int]]:
    return [[each] if isinstance(each, int) else list(each) for each in sampler]


def fed(metric: Any, parts: Any, tensors: bool = False, **more: Any) -> Any:
    for part in parts:
        score = np.array(part) % 5 / 5
        given = {name: make(part) for name, make in more.items()}
        metric.add(paddle.to_tensor(score) if tensors else score, np.array(part) % 2, **given)
    return metric


def told(*calls: Callable[[], Any]) -> list[str]:
    """The warnings of calls."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in calls:
            call()
    return [str(each.message) for each in caught if each.category is fm.SizeWarning]


def recorded(metric: Any, parts: Any) -> Any:
    for part in parts:
        metric.add(place=np.array(part), **({"ids": np.array(part)} if metric.name == "ById" else {}))
    return metric


class ById(InOrder):
    pass


def processed(evaluator: Any, parts: Any) -> Any:
    for part in parts:
        evaluator.process([{"place": place} for place in part])
    return evaluator


def counting() -> dict[str, list[str]]:
    """Metrics that count repeats."""
    even, own = paddles(), batches(paddles(shuffle=True))
    found = {"in order": told(fed(fm.Accuracy(name="it"), batches(even)).compute)}
    metric = fed(fm.MetricCollection({"n": fm.Count()}, name="it"), own, tensors=True)
    found["a collection, twice"] = told(metric.compute, metric.compute)
    found["sliced"] = told(fed(fm.Sliced(fm.Accuracy(), by="user", name="it"), own, user=np.array).compute)
    found["a record metric"] = told(fed(fm.ExactAUC(name="it"), own).compute)
    found["weights"] = told(fed(fm.Accuracy(name="it"), own, weight=lambda part: np.array(part) + 1.0).compute)
    found["a mask of all"] = told(fed(fm.Accuracy(name="it"), own, mask=lambda part: np.array(part) >= 0).compute)
    last = LastBatchPaddingSampler(range(SAMPLES), 4, world, rank)
    found["last batch"] = told(fed(fm.Accuracy(name="it"), batches(last)).compute)
    rest = WholeRest(range(SAMPLES), 4, world, rank)
    found["whole rest"] = told(fed(fm.Accuracy(name="it"), batches(rest)).compute)
    data = types.ModuleType("torch.utils.data")
    data.Sampler = Sampler  # type: ignore[attr-defined]
    sys.modules["torch.utils.data"] = data
    torchs = DistributedSampler(range(SAMPLES))
    found["torch"] = told(fed(fm.Accuracy(name="it"), batches(torchs)).compute)
    sampler = paddles(100, drop_last=True)  # 34 each, of which 32 are dealt: none is repeated by three workers
    found[f"dropped {len(batches(sampler))}"] = told(fed(fm.Accuracy(name="it"), batches(sampler)).compute)
    found["records"] = told(recorded(InOrder(), own).compute)
    found["an evaluator"] = told(processed(Evaluator([Seen(), Processed(prefix="batches")]), own).evaluate)
    found["an evaluator's metric"] = told(processed(Evaluator(Seen()), own).metrics[0].evaluate)
    return {**found, "kept": [repr(len([even, last, rest, torchs, sampler]))]}


def not_counting() -> dict[str, list[str]]:
    """Metrics that count none, and those whose padding is unknown."""
    sampler, even, train = paddles(), paddles(18 * world), paddles(1001 * world + 1)
    own = batches(sampler)
    padding = fm.padding_mask(sampler)
    flags = iter(np.split(~padding, np.cumsum([len(part) for part in own])[:-1]))
    kept = [[place for place, keep in zip(part, next(flags)) if keep] for part in own]
    flags = iter(np.split(~padding, np.cumsum([len(part) for part in own])[:-1]))
    weights = iter(np.split(1.0 - padding, np.cumsum([len(part) for part in own])[:-1]))
    tensors = iter(np.split(1.0 - padding, np.cumsum([len(part) for part in own])[:-1]))
    found = {
        "sampler": told(fed(fm.Accuracy(sampler=sampler), own).compute),
        "mask": told(fed(fm.Accuracy(), own, mask=lambda _: next(flags)).compute),
        "weight": told(fed(fm.Accuracy(), own, weight=lambda _: next(weights)).compute),
        "weight of tensors": told(
            fed(fm.Accuracy(), own, True, weight=lambda _: paddle.to_tensor(next(tensors))).compute
        ),
        "cut by hand": told(fed(fm.Accuracy(), [part for part in kept if part]).compute),
        "a part": told(fed(fm.Accuracy(), own[:-1]).compute),
        "partial": told(lambda: fed(fm.Accuracy(), own).compute(partial=True)),
        "two passes": told(fed(fm.Accuracy(), own + own).compute),
        "all samples": told(fed(fm.Accuracy(), [range(SAMPLES)]).compute),
        "even": told(fed(fm.Accuracy(), batches(even)).compute),
        "training": told(fed(fm.Accuracy(), batches(train)[:20]).compute),
        "local": told(fed(fm.Accuracy(), own).compute_local),
        "records of a sampler": told(recorded(InOrder(sampler=sampler), own).compute),
        "records of a size": told(lambda: recorded(InOrder(dist_collect_mode="batch"), own).compute(SAMPLES)),
        "ids": told(recorded(ById(), own).compute),
        "an evaluator of a sampler": told(processed(Evaluator(Seen(), sampler=sampler), own).evaluate),
        "an evaluator of a size": told(lambda: processed(Evaluator(Seen()), own).evaluate(SAMPLES)),
    }
    return {**found, "kept": [repr(len([even, train]))]}


def main() -> None:
    global rank, world
    channel = fm.get_communicator()
    rank, world = channel.rank, channel.world_size
    report(
        counting=counting(),
        not_counting=not_counting(),
        of_size=told(fed(fm.Accuracy(name="it", size=SAMPLES), batches(paddles())).compute),
    )


if __name__ == "__main__":
    arguments()
    main()
