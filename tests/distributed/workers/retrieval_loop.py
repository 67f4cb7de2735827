"""PaddleClas' `retrieval_eval`, by its call sequence, and with the lines of the page in its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import paddle
from digits import dealt, digits, gathered

from fleetmetrics import Retrieval


class Shown(paddle.io.Dataset):  # type: ignore[misc]
    """Some of the pictures, with what they show."""

    def __init__(self, places: slice) -> None:
        self.pictures, self.labels = (column[places] for column in digits())

    def __getitem__(self, index: int) -> Any:
        return self.pictures[index], self.labels[index]

    def __len__(self) -> int:
        return len(self.labels)


def model(pictures: Any) -> dict[str, Any]:
    """Features that err: the picture in four strips."""
    return {"features": pictures.reshape([-1, 8, 8])[:, 3:5].reshape([-1, 16])}


def features_of(loader: Any) -> tuple[Any, Any]:
    """Gather each batch, and cut off at the end what exceeds the data set."""
    found: list[list[Any]] = [[], []]
    for picture, label in loader:
        feature = paddle.nn.functional.normalize(model(picture)["features"], p=2)
        for column, tensor in zip(found, (feature, label.reshape([-1, 1]))):
            column.append(gathered(tensor) if paddle.distributed.get_world_size() > 1 else tensor)
    feature, label = (paddle.concat(column)[: len(loader.dataset)] for column in found)
    return feature, label


def theirs(engine: Any) -> dict[str, float]:
    """Blocks of queries; the values of a block count by the number of its queries."""
    gallery, gallery_label = features_of(engine.gallery_dataloader)
    query, query_label = features_of(engine.query_dataloader)
    sums = {"mAP": 0.0, "recall1": 0.0}
    for start in range(0, len(query), 64):
        label = query_label[start : start + 64]
        order = paddle.argsort(query[start : start + 64] @ gallery.t(), axis=1, descending=True).numpy()
        match = gallery_label.numpy()[order, 0] == label.numpy()
        match = match[match.any(axis=1)]
        precision = match.cumsum(axis=1) / (np.arange(match.shape[1]) + 1)
        sums["mAP"] += ((precision * match).sum(axis=1) / match.sum(axis=1)).mean() * len(label) / len(query)
        sums["recall1"] += match[:, 0].mean() * len(label) / len(query)
    return sums


def ours(engine: Any) -> dict[str, float]:
    metric = Retrieval(topk=(1, 5), sampler=engine.query_dataloader, gallery_sampler=engine.gallery_dataloader)
    for batch in engine.gallery_dataloader:
        metric.gallery.add(engine.model(batch[0])["features"], batch[1])
    for batch in engine.query_dataloader:
        metric.add(engine.model(batch[0])["features"], batch[1])
    return metric.compute()


def passes() -> dict[str, Any]:
    """In the order of the data sets, and shuffled."""
    gallery, query, found = Shown(slice(0, 200)), Shown(slice(814, 917)), {}
    for name, options in {"in order": {}, "shuffled": {"shuffle": True, "epoch": 3}}.items():
        engine = SimpleNamespace(
            model=model, gallery_dataloader=dealt(gallery, 8, **options), query_dataloader=dealt(query, 8, **options)
        )
        found[name] = [theirs(engine), ours(engine)]
    return found
