"""PaddleSeg's `evaluate` of `core/val.py`, by its call sequence, and with the lines of the page in its place.

The pixels of the digits are background, faint or ink; the network sees them blurred.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from digits import Digits, dealt, gathered

from fleetmetrics import AUC, CohenKappa, Dice, MeanIoU, MetricCollection, PixelAccuracy


class Pixels(Digits):
    """Pictures [1, 8, 8] and the class of each pixel; or, where it is `ignored`, 255 at the edge of the picture."""

    def __init__(self, num_classes: int, ignored: bool) -> None:
        super().__init__()
        self.num_classes, self.ignored = num_classes, ignored

    def __getitem__(self, index: int) -> Any:
        picture = self.pictures[index].reshape(1, 8, 8)
        label = np.digitize(picture[0], [1, 8])
        if self.ignored:
            label[0] = 255
        return {"img": picture, "label": label}


def network(picture: Any, num_classes: int) -> Any:
    """Logits [n, classes, H, W], in numbers that are exact: how near each pixel's surroundings are to a class."""
    around = paddle.nn.functional.conv2d(picture, paddle.full([1, 1, 3, 3], 1 / 8), padding=1)
    typical = paddle.to_tensor([0.0, 5.0, 12.0, 40.0][:num_classes]).reshape([1, num_classes, 1, 1])
    return -paddle.square(around - typical) / 32


def theirs(model: Any, loader: Any, auc_roc: bool) -> dict[str, Any]:
    """Of each picture three areas by class, gathered; for `auc_roc` everything is kept, but on one worker only."""
    classes, pictures = loader.dataset.num_classes, len(loader.dataset)
    workers = paddle.distributed.get_world_size()
    areas = np.zeros((3, classes), int)
    scores: Any = None
    labels: Any = None
    for step, data in enumerate(loader):
        logits, label = model(data["img"]), data["label"]
        found, counts = logits.argmax(axis=1), label != 255
        of = [found == label, (found == found) & counts, counts]
        whose = [label, found, label]
        area = paddle.stack([(one & (cls == c)).sum() for one, cls in zip(of, whose) for c in range(classes)])
        if workers > 1:
            area = gathered(area.unsqueeze(0))[: max(0, pictures - step * workers)].sum(axis=0)
        elif auc_roc:
            part = paddle.nn.functional.softmax(logits, axis=1).numpy()
            scores = part if scores is None else np.concatenate([scores, part])
            labels = label.numpy() if labels is None else np.concatenate([labels, label.numpy()])
        areas += area.numpy().reshape(3, classes)
    both, predicted, true = areas
    union, total = predicted + true - both, true.sum()
    agreed, chance = both.sum() / total, (predicted * true).sum() / total**2
    values = {
        "iou": np.where(union, both / np.maximum(union, 1), 1),
        "acc": both.sum() / predicted.sum(),
        "kappa": (agreed - chance) / (1 - chance),
        "dice": 2 * both / np.maximum(predicted + true, 1),
    }
    if auc_roc:
        from sklearn.metrics import roc_auc_score

        rows = scores.transpose(0, 2, 3, 1).reshape(-1, classes)
        values["auc"] = roc_auc_score(labels.reshape(-1), rows, multi_class="ovr")
    return values


def ours(model: Any, loader: Any) -> dict[str, Any]:
    eval_dataset = loader.dataset
    pixels = {"num_classes": eval_dataset.num_classes, "ignore_index": 255}
    metrics = MetricCollection(
        {
            "miou": MeanIoU(absent=1, **pixels),
            "iou": MeanIoU(absent=1, average=None, **pixels),
            "acc": PixelAccuracy(**pixels),
            "kappa": CohenKappa(class_axis=1, **pixels),
            "dice": Dice(absent=0, average=None, **pixels),
            "auc": AUC(class_axis=1, from_logits=True, **pixels),
        },
        sampler=loader,
    )
    for data in loader:
        logits = model(data["img"])
        metrics.add(logits, data["label"])
    return metrics.compute()


def passes() -> dict[str, Any]:
    """Without and with labels that are ignored and a class that does not occur."""
    found = {}
    for name, num_classes, auc_roc in (("auc_roc", 3, True), ("ignored", 4, False)):
        loader = dealt(Pixels(num_classes, ignored=not auc_roc), 1)

        def model(picture: Any, num_classes: int = num_classes) -> Any:
            return network(picture, num_classes)

        try:
            value: Any = theirs(model, loader, auc_roc)
        except AttributeError as error:
            value = str(error)
        found[name] = [value, ours(model, loader)]
    return found
