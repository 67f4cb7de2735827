"""The `evaluate` of PaddleNLP's examples, over `paddle.metric`, by its call sequence, and with the page's lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from digits import Digits, dealt, network

from fleetmetrics import Accuracy, LogLoss, MetricCollection


class Texts(Digits):
    """Batches are dicts there."""

    def __getitem__(self, index: int) -> Any:
        return {"input_ids": self.pictures[index], "labels": self.labels[index]}


def theirs(model: Any, criterion: Any, metric: Any, data_loader: Any) -> dict[str, float]:
    """Nothing crosses to another worker, and the loss is a mean of batch means."""
    metric.reset()
    losses = []
    for batch in data_loader:
        labels = batch.pop("labels")
        logits = model(**batch)
        losses.append(float(criterion(logits, labels)))
        metric.update(metric.compute(logits, labels.reshape([-1, 1])))
    return {"loss": float(np.mean(losses)), "accuracy": metric.accumulate()}


def ours(model: Any, data_loader: Any) -> dict[str, float]:
    metric = MetricCollection({"loss": LogLoss(from_logits=True), "accuracy": Accuracy()}, sampler=data_loader)
    for batch in data_loader:
        labels = batch.pop("labels")
        metric.add(model(**batch), labels)
    return metric.compute()


def passes() -> dict[str, Any]:
    """Theirs with all samples on each worker, and with its share of them."""
    layer, criterion, found = network(), paddle.nn.CrossEntropyLoss(), {}

    def model(input_ids: Any) -> Any:
        return layer(input_ids)

    for size in (4, 16):
        whole = paddle.io.DataLoader(Texts(), batch_size=size)
        found[f"{size}"] = [
            theirs(model, criterion, paddle.metric.Accuracy(), whole),
            theirs(model, criterion, paddle.metric.Accuracy(), dealt(Texts(), size)),
            ours(model, dealt(Texts(), size)),
        ]
    return found
