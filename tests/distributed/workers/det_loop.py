"""PaddleOCR's `eval` of text detection: boxes, whose number may differ by picture.

A picture is a strip of one to five digits. True is the box around what of a digit is not blank, found the one around
its ink.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from digits import dealt
from ocr_loop import MANY, SLOTS, Strips

from fleetmetrics import BaseMetric


class Boxes(Strips):
    """With the true boxes in the places where PaddleOCR's batches have them, and the index at the end."""

    def __getitem__(self, index: int) -> Any:
        strip, label, index = super().__getitem__(index)
        real = np.flatnonzero(label >= 0)
        return strip, np.zeros(1), np.stack([_box(strip[n], n, 0) for n in real]), real % 4 == 3, index


def _box(picture: Any, slot: int, least: int) -> Any:
    """Left, top, right and bottom of what exceeds the least."""
    rows, columns = np.nonzero(picture.reshape(8, 8) > least)
    return np.array([columns.min() + 8 * slot, rows.min(), columns.max() + 8 * slot + 1, rows.max() + 1], "float32")


def detected(strips: Any) -> list[dict[str, Any]]:
    return [{"points": [_box(strip[n], n, 9) for n in range(SLOTS) if strip[n].max() > 9]} for strip in strips.numpy()]


class BoxMetric:
    """What PaddleOCR's is to its loop: called with what was found and the batch, asked and emptied at the end."""

    def __init__(self) -> None:
        self.both = self.found = self.true = 0

    def __call__(self, preds: Any, batch: Any) -> None:
        for pred, boxes, ignored in zip(preds, batch[2], batch[3]):
            wanted = [box for box, out in zip(boxes, ignored) if not out]
            near = [[_overlap(box, point) > 0.5 for box in wanted] for point in pred["points"]]
            self.both += sum(any(row) for row in near)
            self.found, self.true = self.found + len(pred["points"]), self.true + len(wanted)

    def get_metric(self) -> dict[str, float]:
        value = {"precision": self.both / self.found, "recall": self.both / self.true}
        self.__init__()  # type: ignore[misc]
        return value


def _overlap(one: Any, other: Any) -> float:
    """Intersection over union."""
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    both = np.maximum(sides, 0).prod()
    return float(both / ((one[2:] - one[:2]).prod() + (other[2:] - other[:2]).prod() - both))


def theirs(valid_dataloader: Any, eval_class: Any) -> dict[str, float]:
    """Every worker that evaluates reads everything, one picture at a time."""
    for batch in valid_dataloader:
        eval_class(detected(batch[0]), [each.numpy() for each in batch])
    return eval_class.get_metric()


def ours(valid_dataloader: Any, eval_class: Any) -> dict[str, float]:
    class Found(BaseMetric):
        def compute_metric(self, results):
            eval_class(results["preds"], [None, None, results["polygons"], results["ignored"]])
            return eval_class.get_metric()

    metric = Found()
    for batch in valid_dataloader:
        post_result = detected(batch[0])
        batch = [item.numpy() for item in batch]
        metric.add(preds=post_result, polygons=list(batch[2]), ignored=list(batch[3]), ids=batch[-1])
    return metric.compute(size=len(valid_dataloader.dataset))


def passes() -> dict[str, Any]:
    """In order and shuffled."""
    boxes, eval_class = Boxes(MANY, SLOTS, said=True), BoxMetric()
    whole = theirs(paddle.io.DataLoader(boxes, batch_size=1), eval_class)
    return {f"{shuffle}": [whole, ours(dealt(boxes, 1, shuffle), eval_class)] for shuffle in (False, True)}
