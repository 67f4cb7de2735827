"""PaddleVideo's validation while it trains and its test, by their call sequence, and with the lines of the page."""

from __future__ import annotations

from typing import Any

import paddle
from digits import Digits, dealt, gathered, network

from fleetmetrics import Accuracy, LogLoss, MetricCollection


def theirs(model: Any, valid_loader: Any) -> dict[str, float]:
    """The mean over the workers of each batch's accuracy, and of those a mean; the loss is this worker's."""
    workers = paddle.distributed.get_world_size()
    means: dict[str, list[float]] = {"loss": [], "top1": [], "top5": []}
    for clip, label in valid_loader:
        scores = model(clip, mode="test")
        means["loss"].append(float(paddle.nn.functional.cross_entropy(scores, label)))
        for name, k in (("top1", 1), ("top5", 5)):
            share = paddle.metric.accuracy(scores, label.reshape([-1, 1]), k=k)
            if workers > 1:
                paddle.distributed.all_reduce(share)
            means[name].append(float(share) / workers)
    return {name: sum(values) / len(values) for name, values in means.items()}  # a short batch counts as a whole one


def their_test(model: Any, loader: Any) -> dict[str, float]:
    """Every worker holds the scores of all workers' clips until the end."""
    left = len(loader.dataset)
    scores, labels = [], []
    for clip, label in loader:
        found = model(clip, mode="test"), label.reshape([-1, 1])
        both = [gathered(each) if paddle.distributed.get_world_size() > 1 else each for each in found]
        scores.append(both[0][:left])
        labels.append(both[1][:left])
        left -= len(labels[-1])
    everything, label = paddle.concat(scores), paddle.concat(labels)
    return {f"top{k}": float(paddle.metric.accuracy(everything, label, k=k)) for k in (1, 5)}


def ours(model: Any, valid_loader: Any) -> dict[str, float]:
    metrics = MetricCollection(
        {"loss": LogLoss(from_logits=True), "top1": Accuracy(), "top5": Accuracy(top_k=5)}, sampler=valid_loader
    )
    for data in valid_loader:
        metrics.add(model(data, mode="test"), data[1])
    return metrics.compute()


def passes() -> dict[str, Any]:
    """By several batch sizes."""
    layer = network()

    def model(data: Any, mode: str) -> Any:
        return layer(data[0] if isinstance(data, list) else data)

    evaluations = (theirs, their_test, ours)
    return {f"{size}": [each(model, dealt(Digits(), size)) for each in evaluations] for size in (1, 4, 8, 16)}
