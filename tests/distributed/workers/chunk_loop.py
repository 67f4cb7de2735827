"""PaddleNLP's `evaluate` of named entities with its `ChunkEvaluator`, by its call sequence, and with the page's lines.

The tokens are digits, whose classes are tags, so that the network errs on some of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from digits import dealt, network
from ocr_loop import MANY, Strips
from seqeval.metrics.sequence_labeling import get_entities

from fleetmetrics import EntityF1

TAGS = ["O", "B-PER", "I-PER", "I-PER", "B-LOC", "I-LOC", "I-LOC", "O", "B-ORG", "I-ORG"]


class Chunks:
    """What PaddleNLP's evaluator is to its loop: it gets the numbers of chunks of a batch, and adds them up."""

    def __init__(self, label_list: list[str]) -> None:
        self.label_list, self.sums = label_list, np.zeros(3)

    def compute(self, lengths: Any, predictions: Any, labels: Any) -> tuple[int, int, int]:
        found = []
        for rows in (predictions.numpy(), labels.numpy()):
            tags = [[self.label_list[n] for n in row[:length]] for row, length in zip(rows, lengths)]
            found.append(set(get_entities(tags)))
        return len(found[0]), len(found[1]), len(found[0] & found[1])

    def update(self, predicted: int, true: int, right: int) -> None:
        self.sums += predicted, true, right

    def accumulate(self) -> float:
        predicted, true, right = self.sums
        return float(2 * right / (predicted + true))


def lengths_of(labels: Any) -> list[int]:
    return (labels >= 0).sum(-1).tolist()


def theirs(model: Any, metric: Chunks, data_loader: Any) -> float:
    """Nothing crosses to another worker."""
    for inputs, labels in data_loader:
        preds = model(inputs).argmax(axis=-1)
        metric.update(*metric.compute(lengths_of(labels), preds, labels))
    return metric.accumulate()


def ours(model: Any, label_list: list[str], data_loader: Any) -> float:
    metric = EntityF1(sampler=data_loader)
    for inputs, labels in data_loader:
        lengths, preds = lengths_of(labels), model(inputs).argmax(axis=-1)
        tags = [
            [[label_list[n] for n in row[:length]] for row, length in zip(rows.tolist(), lengths)]
            for rows in (preds, labels)
        ]
        metric.add(*tags)
    return metric.compute()


def passes() -> dict[str, Any]:
    """Theirs with all sequences on each worker, and with its share of them; and ours."""
    model, lengths = network(), MANY[:-2]
    whole = paddle.io.DataLoader(Strips(lengths, 5), batch_size=4)
    return {
        "all": theirs(model, Chunks(TAGS), whole),
        "share": theirs(model, Chunks(TAGS), dealt(Strips(lengths, 5), 4)),
        "ours": ours(model, TAGS, dealt(Strips(lengths, 5), 4)),
    }
