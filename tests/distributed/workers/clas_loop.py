"""PaddleClas' `classification_eval`, by its call sequence, and with the lines of the page in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import paddle
from digits import Digits, dealt, gathered, network

from fleetmetrics import Accuracy, LogLoss, MetricCollection


def theirs(engine: Any) -> dict[str, float]:
    """Gather each batch, cut off at the end what exceeds the data set, and average by the number of samples."""
    workers = paddle.distributed.get_world_size()
    sums = {"loss": 0.0, "top1": 0.0, "top5": 0.0}
    samples = len(engine.eval_dataloader.dataset)
    left = samples
    for picture, label in engine.eval_dataloader:
        logits, label = engine.model(picture), label.reshape([-1, 1])
        if workers > 1:
            logits, label = gathered(logits)[:left], gathered(label)[:left]
        left -= len(label)
        values = {
            "loss": paddle.nn.functional.cross_entropy(logits, label),
            "top1": paddle.metric.accuracy(logits, label, k=1),
            "top5": paddle.metric.accuracy(logits, label, k=5),
        }
        for name, value in values.items():
            sums[name] += float(value) * len(label)
    return {name: value / samples for name, value in sums.items()}


def ours(engine: Any) -> dict[str, float]:
    metrics = MetricCollection(
        {"loss": LogLoss(from_logits=True), "top1": Accuracy(), "top5": Accuracy(top_k=5)},
        sampler=engine.eval_dataloader,
    )
    for batch in engine.eval_dataloader:
        metrics.add(engine.model(batch[0]), batch[1])
    return metrics.compute()


def passes() -> dict[str, Any]:
    """In the order of the data set, and shuffled again in each of several epochs."""
    found = {}
    for name, options in {"in order": {}, **{f"epoch {n}": {"shuffle": True, "epoch": n} for n in range(6)}}.items():
        found[name] = [
            evaluate(SimpleNamespace(model=network(), eval_dataloader=dealt(Digits(), 8, **options)))
            for evaluate in (theirs, ours)
        ]
    return found
