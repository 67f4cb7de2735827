"""One worker that evaluates what samplers deal to it through a data loader: every metric, collections and records."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import paddle
from cluster import arguments, error_text, report

import fleetmetrics as fm
from fleetmetrics.evaluator import BaseMetric, Evaluator
from tests.contract import CASES, draw, feed, first_dtypes, plain
from tests.exactness import taken
from tests.field_samplers import KINDS, DistributedBatchSampler

SAMPLES = 53


class Places(paddle.io.Dataset):
    """Each sample is its index."""

    def __getitem__(self, index: int) -> Any:
        return np.int64(index)

    def __len__(self) -> int:
        return SAMPLES


class InOrder(fm.BaseMetric):
    def compute_metric(self, results: Any) -> Any:
        return results["place"].tolist() if len(results) else []


class Seen(BaseMetric):
    default_prefix = "seen"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend(int(sample["place"]) for sample in data_samples)

    def compute_metrics(self, results: Any) -> Any:
        return {"places": sorted(results)}


def loader_of(kind: str, rank: int, workers: int) -> tuple[Any, Any]:
    """A sampler, and a loader with it."""
    sampler = KINDS[kind](Places(), rank, workers)
    return sampler, paddle.io.DataLoader(getattr(sampler, "dataset", Places()), batch_sampler=sampler, num_workers=0)


def every_case(channel: Any, kinds: dict[str, list[str]]) -> dict[str, Any]:
    """By case the value and by kind of sampler the samples that were dealt, each once."""
    values, dealt = {}, {}
    for kind, names in kinds.items():
        sampler, loader = loader_of(kind, channel.rank, channel.world_size)
        metrics = {name: CASES[name].make(name="metric", sampler=(sampler, loader)[len(name) % 2]) for name in names}
        data = {name: draw(name, first_dtypes(name), samples=SAMPLES) for name in names}
        seen = []
        for place in loader:
            batch = (place[0] if isinstance(place, (list, tuple)) else place).numpy()
            seen += batch.tolist()
            for name, metric in metrics.items():
                feed(metric, [taken(data[name], batch)], "dynamic")
        values.update({name: repr(plain(metric.compute())) for name, metric in metrics.items()})
        dealt[kind] = sorted(set().union(*channel.all_gather_object(seen)))
    return {"values": values, "dealt": dealt}


def together(channel: Any, kind: str) -> Any:
    """A collection, records and an evaluator in two passes; the second one shuffles again."""
    sampler, loader = loader_of(kind, channel.rank, channel.world_size)
    members = {"accuracy": fm.Accuracy(), "n": fm.Count(), "by": fm.Sliced(fm.Count(), by="slot"), "gauc": fm.GAUC()}
    collection = fm.MetricCollection(members, name="all", sampler=sampler)
    records, evaluator = InOrder(sampler=sampler), Evaluator(Seen(), sampler=loader)
    passes = []
    for epoch in (0, 1):
        sampler.set_epoch(epoch)
        collection.reset()
        records.reset()
        seen = []
        for place in loader:
            place = place[0] if isinstance(place, (list, tuple)) else place
            score, label = (place * 37 % SAMPLES).astype("float32") / SAMPLES, (place % 3 == 0).astype("int64")
            collection.add(score, label, slot=place % 5, user=place % 7)
            records.add(place=place)
            evaluator.process({"place": place})
            seen += place.tolist()
        dealt = np.array(sorted(set().union(*channel.all_gather_object(seen))))
        one = fm.MetricCollection({name: metric.fresh() for name, metric in members.items()})
        score, label = (dealt * 37 % SAMPLES).astype("float32") / np.float32(SAMPLES), (dealt % 3 == 0).astype("int64")
        one.add(score, label, slot=dealt % 5, user=dealt % 7)
        found, expected = collection.compute(), one.compute_local()
        passes.append(
            [repr(plain(found)), repr(plain(expected)), records.compute(), evaluator.evaluate()["seen/places"]]
        )
        passes[-1].append(dealt.tolist())
    return passes


def troubles(channel: Any) -> dict[str, str]:
    """The error that every worker raises if one of them has another sampler."""
    last, workers = channel.rank == channel.world_size - 1, channel.world_size
    paddles = paddle.io.DistributedBatchSampler

    def told(sampler: Any, add: int | None = None) -> str:
        metric = fm.Count(name="it", sampler=sampler)
        dealt = sum(len(batch) for batch in sampler) if add is None else add
        metric.add(paddle.zeros([dealt]))
        return error_text(lambda: metric.compute(timeout=20))

    def at(epoch: int) -> Any:
        sampler = paddles(Places(), 4, shuffle=True)
        sampler.set_epoch(epoch)
        return sampler

    return {
        "sampler": told(KINDS["own"](Places(), channel.rank, workers) if last else paddles(Places(), 4)),
        "epoch": told(at(3 + last)),
        "batch size": told(paddles(Places(), 3 if last else 4)),
        "another number": told(paddles(Places(), 4, workers + last, channel.rank)),
        "too few": told(paddles(Places(), 4), add=4 if last else None),
    }


def of_the_size(channel: Any) -> dict[str, Any]:
    """The warnings about samples that do not add up, by whether the metrics have the sampler, the mask, or neither."""
    sampler = paddle.io.DistributedBatchSampler(Places(), 4, shuffle=True)
    loader = paddle.io.DataLoader(Places(), batch_sampler=sampler)
    sampler.set_epoch(3)
    padding, found = fm.padding_mask(sampler), {}
    for way in ("neither", "sampler", "mask"):
        common = {"size": SAMPLES, "sampler": sampler if way == "sampler" else None}
        made = {
            "metric": fm.Accuracy(name="metric", **common),
            "collection": fm.MetricCollection({"n": fm.Count(), "gauc": fm.GAUC()}, name="collection", **common),
            "wrapper": fm.Sliced(fm.Accuracy(), by="user", name="wrapper", **common),
        }
        seen = 0
        sampler.set_epoch(3)
        for place in loader:
            place = place[0] if isinstance(place, (list, tuple)) else place
            flags = paddle.to_tensor(~padding[seen : seen + len(place)]) if way == "mask" else None
            seen += len(place)
            for metric in made.values():
                user = {"user": place % 7} if metric.columns else {}
                metric.add((place % 5).astype("float32") / 5, (place % 3 == 0).astype("int64"), mask=flags, **user)
        for name, metric in made.items():
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                metric.compute()
            found[f"{way}, {name}"] = [str(each.message) for each in told if each.category is fm.SizeWarning]
    return found


def random_state() -> bool:
    """Whether a sampler that seeds Paddle leaves the job's random state alone."""
    paddle.seed(5)
    expected = paddle.rand([8]).tolist()
    paddle.seed(5)
    sampler = DistributedBatchSampler(Places(), 4, 3, 1, shuffle=True, data_seed=9)
    fm.Count(sampler=sampler).add(paddle.zeros([4]))
    return bool(paddle.rand([8]).tolist() == expected)


def in_groups(channel: Any, kind: str) -> Any:
    """Two workers with each part of a model, who are dealt the same samples: data parallel 2, model parallel 2."""
    degree = channel.world_size // 2
    sampler, loader = loader_of(kind, channel.rank // degree, 2)
    metric = fm.Sum(name="it", sampler=sampler)
    for place in loader:
        metric.add((place[0] if isinstance(place, (list, tuple)) else place).astype("float64"))
    group = [channel.rank % degree, channel.rank % degree + degree]
    return metric.compute(group=group), error_text(lambda: metric.compute(timeout=20))


def main() -> None:
    given, channel = arguments(), fm.get_communicator()
    if given.get("groups"):
        report(groups={kind: in_groups(channel, kind) for kind in given["groups"]})
        return
    found = every_case(channel, given["kinds"])
    report(sizes=of_the_size(channel))
    report(**found, together={kind: together(channel, kind) for kind in KINDS}, random_state=random_state())
    if channel.world_size > 1:
        report(troubles=troubles(channel))


if __name__ == "__main__":
    main()
