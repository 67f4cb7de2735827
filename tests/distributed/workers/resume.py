"""One worker of a job that is broken off in the middle of a pass, of one that goes on, or of one without a break."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from cluster import arguments, error_text, report

import fleetmetrics as fm
from fleetmetrics.evaluator import Evaluator
from tests.contract import plain

SAMPLES, SIZE = 61, 3


class Samples(paddle.io.Dataset):
    def __getitem__(self, index: int) -> Any:
        score = np.float32((index * 37 % SAMPLES) / SAMPLES)
        return score, np.int64(index % 3 == 0), np.int64(index % 7), np.int64(index)

    def __len__(self) -> int:
        return SAMPLES


class Noting(fm.MeanSquaredError):
    """Stores what it likes with every batch; no worker stores what another one does."""

    def batch_statistics(self, batch: Any) -> Any:
        self.last_batch = len(batch.prediction)
        self.places = [*getattr(self, "places", ()), np.asarray(batch.prediction).tolist()]
        return super().batch_statistics(batch)


class InOrder(fm.BaseMetric):
    adds = 0

    def add(self, *args: Any, **kwargs: Any) -> None:
        self.adds += 1
        super().add(*args, **kwargs)

    def compute_metric(self, results: Any) -> Any:
        return results["index"].tolist()


class Scores(fm.evaluator.BaseMetric):
    default_prefix = "scores"

    def process(self, data_batch: Any, data_samples: Any) -> None:
        self.results.extend(float(sample["score"]) for sample in data_samples)

    def compute_metrics(self, results: Any) -> Any:
        return {"sum": float(np.sum(results)), "number": len(results)}


def job(sampler: Any) -> dict[str, Any]:
    metrics = fm.MetricCollection(
        {
            "auc": fm.AUC(),
            "exact": fm.ExactAUC(),
            "gauc": fm.GAUC(by="user"),
            "count": fm.Count(),
            "by user": fm.Sliced(fm.Accuracy(), "user"),
            "error": Noting(),
        },
        name="all",
    )
    return {"metrics": metrics, "order": InOrder(sampler=sampler), "evaluator": Evaluator(Scores(), sampler=sampler)}


def evaluate(metrics: dict[str, Any], dataset: Any, sampler: Any, until: int | None) -> None:
    keep, start = ~fm.padding_mask(sampler), 0
    for number, (score, label, user, index) in enumerate(paddle.io.DataLoader(dataset, batch_sampler=sampler)):
        if number == until:
            break
        mask = keep[start : start + len(score)]
        start += len(score)
        metrics["metrics"].add(score, label, mask=mask, user=user)
        metrics["order"].add(index=index)
        metrics["evaluator"].process({"score": score})


def main(rank: int, folder: str, phase: str) -> None:
    dataset = Samples()
    sampler = paddle.io.DistributedBatchSampler(dataset, SIZE, shuffle=True)
    metrics = job(sampler)
    if phase == "goes on":
        done = fm.load(folder, metrics)
        dataset = paddle.io.Subset(dataset, done.remaining.tolist())
        sampler = paddle.io.DistributedBatchSampler(dataset, SIZE, shuffle=True)
        metrics["order"].sampler = metrics["evaluator"].sampler = sampler
        report(loaded=repr(plain(metrics["metrics"].compute())), remaining=len(dataset))
    until = 1 + rank if phase == "is broken off" else None  # the workers are not equally far
    evaluate(metrics, dataset, sampler, until)
    values = metrics["metrics"].compute()
    report(count=values["count"], values=repr(plain(values)), error=values.pop("error"), exact=repr(plain(values)))
    if phase == "is broken off":
        fm.save(folder, metrics, sampler=sampler, batches=until)
    else:
        report(order=metrics["order"].compute(), evaluated=metrics["evaluator"].evaluate())


def go_on_otherwise(rank: int, folder: str) -> None:
    """What went on has gained a metric and lost others, in its collection and beside it."""
    sampler = paddle.io.DistributedBatchSampler(Samples(), SIZE, shuffle=True)
    members = {**job(sampler)["metrics"].metrics, "mean": fm.MeanAbsoluteError()}
    kept = {name: members[name].fresh() for name in ("mean", "exact", "auc", "count", "by user")}
    metrics = {"metrics": fm.MetricCollection(kept, name="all"), "new": fm.Count(name="new")}
    report(
        strict=error_text(lambda: fm.load(folder, metrics)),
        differing=error_text(lambda: fm.load(folder, metrics, strict=rank > 0)),
        held=[metrics["metrics"].holds_samples(), metrics["new"].holds_samples()],
    )
    done = fm.load(folder, metrics, strict=False)
    values = metrics["metrics"].compute()
    undefined = values.pop("mean")
    report(
        missing=list(done.missing),
        unexpected=list(done.unexpected),
        values=repr(plain(values)),
        undefined=undefined,
        new=metrics["new"].compute(),
    )


if __name__ == "__main__":
    communicator = fm.get_communicator()
    given = arguments()
    if given["phase"] == "goes on otherwise":
        go_on_otherwise(communicator.rank, given["folder"])
    else:
        main(communicator.rank, **given)
