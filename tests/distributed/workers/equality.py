"""One worker that evaluates its share of random and real samples with every metric, dealt in several ways."""

from __future__ import annotations

import functools
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from cluster import arguments, report

import fleetmetrics as fm
from fleetmetrics import evaluator
from tests.contract import CASES, feed, plain
from tests.exactness import taken

BATCH = 8


def dealt(samples: int, way: str) -> tuple[list[Any], Any]:
    """This worker's batches, and the sampler by which metrics know the padding.

    Args:
        samples: how many there are.
        way: "padded", by Paddle's sampler; "three", which it deals alone, so that further workers have nothing but
            padding; or "empty", where every second worker has nothing.
    """
    rank, workers = fm.get_communicator().rank, fm.get_communicator().world_size
    if way == "empty":
        own = np.array_split(np.arange(samples), -(-workers // 2))[rank // 2]
        return [own[start : start + BATCH] for start in range(0, len(own), BATCH)] if rank % 2 == 0 else [], None
    dataset = range(3 if way == "three" else samples)
    sampler = paddle.io.DistributedBatchSampler(dataset, BATCH, workers, rank, shuffle=True)
    return [np.array(batch) for batch in sampler], sampler


def of_case(name: str, data: Any, way: str) -> Any:
    parts, sampler = dealt(len(data.prediction), way)
    metric = CASES[name].make(name="metric", sampler=sampler)
    for places in parts:
        feed(metric, [taken(data, places)], "numpy")
    return metric.compute()


def of_images(make: Any, data: Any, way: str) -> Any:
    parts, sampler = dealt(len(data[0]), way)
    metric = make(sampler=sampler)
    for places in parts:
        metric.add(*([side[n] for n in places] for side in data), ids=places)
    return metric.compute()


def of_regions(data: Any, way: str) -> Any:
    """Each box is its four corners."""
    return of_images(fm.TextDetection, [[[*map(quad, image["boxes"])] for image in side] for side in data], way)


def quad(box: Any) -> Any:
    left, top, right, bottom = box
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def of_features(data: Any, way: str) -> Any:
    queries, gallery = data
    parts, sampler = dealt(len(queries[0]), way)
    items, other = dealt(len(gallery[0]), "padded" if way == "three" else way)
    metric = fm.Retrieval(topk=(1, 5), sampler=sampler, gallery_sampler=other)
    for side, columns, places in [(metric, queries, parts), (metric.gallery, gallery, items)]:
        for own in places:
            side.add(*(column[own] for column in columns))
    return metric.compute()


def of_tasks(data: Any, way: str) -> Any:
    parts, sampler = dealt(len(data["click"]), way)
    tasks = {name: {"prediction": f"p_{name}", "label": name} for name in ("click", "buy")}
    metrics = {"auc": fm.ExactAUC(), "loss": fm.LogLoss(), "error": fm.MeanSquaredError()}
    collection = fm.MetricCollection.of_tasks(tasks, metrics, sampler=sampler)
    for places in parts:
        collection.add({name: column[places] for name, column in data.items()})
    return collection.compute()


def of_samples(make: Any, data: Any, way: str) -> Any:
    """Metrics of MMEngine's configs, over data samples."""
    parts, sampler = dealt(len(data), way)
    judge = evaluator.Evaluator(make(), sampler=sampler)
    for places in parts:
        judge.process(data_samples=[data[n] for n in places])
    return judge.evaluate(len(data) if sampler is None else None)


def of_classes() -> list[Any]:
    return [evaluator.Accuracy(topk=(1, 2)), evaluator.SingleLabelMetric(), evaluator.ConfusionMatrix(10)]


def of_labels() -> list[Any]:
    return [evaluator.MultiLabelMetric(thr=0.5), evaluator.AveragePrecision(), evaluator.RetrievalRecall(topk=1)]


made = functools.partial
OTHERS: dict[str, Any] = {
    "coco": made(of_images, made(fm.MeanAveragePrecision, iou_type=["bbox", "segm"])),
    "voc": made(of_images, fm.VOCMeanAveragePrecision),
    "regions of text": of_regions,
    "retrieval": of_features,
    "tasks": of_tasks,
    "classes": made(of_samples, of_classes),
    "labels": made(of_samples, of_labels),
    "coco of data samples": made(of_samples, lambda: [evaluator.CocoMetric(metric=["bbox", "segm"])]),
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    values = {}
    for (source, name), data in pickle.loads(Path(arguments()["samples"]).read_bytes()).items():
        for way in ("padded", "three", "empty"):
            value = OTHERS[name](data, way) if name in OTHERS else of_case(name, data, way)
            values[f"{source}, {way}: {name}"] = repr(plain(value))
    channel = fm.get_communicator()
    report(rank=channel.rank, world=channel.world_size, values=values)
