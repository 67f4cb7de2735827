"""PaddleOCR's metric of text recognition, by the call sequence of `eval`, and with the page's lines."""

from __future__ import annotations

from typing import Any

import paddle
from digits import dealt, network
from ocr_loop import MANY, Strips, TextMetric, post_process_class, theirs

from fleetmetrics import MetricCollection, NormalizedEditDistance, StringMatch


def ours(model: Any, valid_dataloader: Any) -> dict[str, float]:
    metrics = MetricCollection(
        {
            "acc": StringMatch(normalize="spaces"),
            "norm_edit_dis": 1 - NormalizedEditDistance(normalize="spaces"),
        },
        sampler=valid_dataloader,
    )
    for batch in valid_dataloader:
        read, true = post_process_class(model(batch[0]), batch[1])
        metrics.add([text for text, _ in read], [text for text, _ in true])
    return metrics.compute()


def passes() -> dict[str, Any]:
    """Theirs with all texts on each worker, and with its share of them; and ours."""
    model, lengths = network(slice(60)), MANY[:-2]
    whole = paddle.io.DataLoader(Strips(lengths, 5), batch_size=4)
    return {
        "all": theirs(model, whole, TextMetric()),
        "share": theirs(model, dealt(Strips(lengths, 5), 4), TextMetric()),
        "ours": ours(model, dealt(Strips(lengths, 5), 4)),
    }
