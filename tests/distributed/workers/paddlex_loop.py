"""`Classifier.evaluate` of PaddleX 2, by its call sequence, and with the lines of the page in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import paddle
from digits import Digits, dealt, network

from fleetmetrics import Accuracy, MetricCollection


def theirs(self: Any) -> dict[str, float]:
    """A mean of batch means; on several workers it divides what `all_reduce` returns, which is no tensor any more."""
    workers = paddle.distributed.get_world_size()
    means: dict[str, list[float]] = {"acc1": [], "acc5": []}
    for picture, label in self.eval_data_loader:
        scores = paddle.nn.functional.softmax(self.net(picture))
        for name, k in (("acc1", 1), ("acc5", 5)):
            share = paddle.metric.accuracy(scores, label.reshape([-1, 1]), k=k)
            if workers > 1:
                share = paddle.distributed.all_reduce(share) / workers
            means[name].append(float(share))
    return {name: sum(values) / len(values) for name, values in means.items()}


def ours(self: Any) -> dict[str, float]:
    metrics = MetricCollection({"acc1": Accuracy(), "acc5": Accuracy(top_k=5)}, sampler=self.eval_data_loader)
    for inputs in self.eval_data_loader:
        metrics.add(self.net(inputs[0]), inputs[1])
    return metrics.compute()


def passes() -> dict[str, Any]:
    """By several batch sizes of all workers together."""
    workers, found = paddle.distributed.get_world_size(), {}
    for size in (3, 30, 60, 90):
        classifier = SimpleNamespace(net=network(), eval_data_loader=dealt(Digits(), size // workers))
        try:
            value: Any = theirs(classifier)
        except TypeError as error:
            value = str(error)
        found[f"{size}"] = [value, ours(classifier)]
    return found
