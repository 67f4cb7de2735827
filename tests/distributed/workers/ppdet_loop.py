"""PaddleDetection's `_eval_with_loader`, by its call sequence, and with the lines of the page in its place.

A picture is a strip of one to five digits; its boxes are those of the digits, and of their ink.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from det_loop import Boxes
from digits import dealt
from ocr_loop import MANY, SLOTS

from fleetmetrics import MeanAveragePrecision


class Annotated(Boxes):
    """A dict for each picture, as PaddleDetection's data sets give it."""

    def __getitem__(self, index: int) -> Any:
        strip, _, quads, _, index = super().__getitem__(index)
        boxes = np.concatenate([quads[:, 0], quads[:, 2]], axis=1)
        label = boxes[:, 0].astype(int) // 8
        return {"image": strip, "gt_bbox": boxes, "gt_class": label, "im_id": np.array([int(index)])}


def collate(pictures: Any) -> dict[str, Any]:
    """The pictures of a batch; true boxes, of which each has its own number, stay lists."""
    batch = {name: [picture[name] for picture in pictures] for name in pictures[0]}
    return {**batch, "im_id": paddle.to_tensor(np.stack(batch["im_id"]))}


def model(batch: Any) -> dict[str, Any]:
    """Class, score and corners of all boxes of a batch, and how many are of each picture."""
    boxes, numbers = [], []
    for strip in map(np.asarray, batch["image"]):
        seen = [slot for slot in range(SLOTS) if strip[slot].max() > 9]
        for slot in seen:
            rows, columns = np.nonzero(strip[slot].reshape(8, 8) > 9)
            corners = [columns.min() + 8 * slot, rows.min(), columns.max() + 8 * slot + 1, rows.max() + 1]
            boxes.append([slot, strip[slot].max() / 17, *corners])
        numbers.append(len(seen))
    table = np.array(boxes, "float32").reshape(-1, 6)
    return {"bbox": paddle.to_tensor(table), "bbox_num": paddle.to_tensor(numbers)}


def ours(loader: Any) -> dict[str, float]:
    metric = MeanAveragePrecision()
    for data in loader:
        outs = model(data)
        boxes = np.split(outs["bbox"].numpy(), outs["bbox_num"].numpy().cumsum()[:-1])
        metric.add(
            [{"labels": each[:, 0].astype(int), "scores": each[:, 1], "boxes": each[:, 2:]} for each in boxes],
            [{"boxes": box, "labels": label} for box, label in zip(data["gt_bbox"], data["gt_class"])],
            ids=data["im_id"],
        )
    return metric.compute()


def passes() -> dict[str, Any]:
    """On every worker everything, with ids; and a share for each."""
    pictures, found = Annotated(MANY, SLOTS, said=True), {}
    alone = paddle.io.DataLoader(pictures, batch_size=4, collate_fn=collate)
    found["everything on every worker"] = ours(alone)
    for shuffle in (False, True):
        sampler = dealt(pictures, 4, shuffle).batch_sampler
        found[f"shared, shuffled {shuffle}"] = ours(
            paddle.io.DataLoader(pictures, batch_sampler=sampler, collate_fn=collate)
        )
    return found
