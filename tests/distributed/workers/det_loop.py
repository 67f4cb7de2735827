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

from fleetmetrics import TextDetection


class Boxes(Strips):
    """With the true boxes in the places where PaddleOCR's batches have them, and the index at the end."""

    def __getitem__(self, index: int) -> Any:
        strip, label, index = super().__getitem__(index)
        real = np.flatnonzero(label >= 0)
        return strip, np.zeros(1), np.stack([_quad(strip[n], n, 0) for n in real]), real % 4 == 3, index


def _box(picture: Any, slot: int, least: int) -> Any:
    """Left, top, right and bottom of what exceeds the least."""
    rows, columns = np.nonzero(picture.reshape(8, 8) > least)
    return np.array([columns.min() + 8 * slot, rows.min(), columns.max() + 8 * slot + 1, rows.max() + 1], "float32")


def _quad(picture: Any, slot: int, least: int) -> Any:
    """The four corners of that box."""
    left, top, right, bottom = _box(picture, slot, least)
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]])


def detected(strips: Any) -> list[dict[str, Any]]:
    return [{"points": [_quad(strip[n], n, 9) for n in range(SLOTS) if strip[n].max() > 9]} for strip in strips.numpy()]


class BoxMetric:
    """What PaddleOCR's is to its loop: called with what was found and the batch, asked and emptied at the end."""

    def __init__(self) -> None:
        self.both = self.found = self.true = 0

    def __call__(self, preds: Any, batch: Any) -> None:
        for pred, boxes, ignored in zip(preds, batch[2], batch[3]):
            flags = [bool(flag) for flag in ignored]
            found = [
                point for point in pred["points"] if not _inside(point, [b for b, out in zip(boxes, flags) if out])
            ]
            wanted = [box for box, out in zip(boxes, flags) if not out]
            self.both += sum(any(_overlap(box, point) > 0.5 for point in found) for box in wanted)
            self.found, self.true = self.found + len(found), self.true + len(wanted)

    def get_metric(self) -> dict[str, float]:
        value = {"precision": self.both / self.found, "recall": self.both / self.true}
        value["hmean"] = 2 * self.both / (self.found + self.true)
        self.__init__()  # type: ignore[misc]
        return value


def _both(one: Any, other: Any) -> float:
    """The area that two boxes, none of which overlaps two, have in common."""
    return float(np.maximum(np.minimum(one[2], other[2]) - np.maximum(one[0], other[0]), 0).prod())


def _area(one: Any) -> float:
    return float((one[2] - one[0]).prod())


def _overlap(one: Any, other: Any) -> float:
    """Intersection over union."""
    return _both(one, other) / (_area(one) + _area(other) - _both(one, other))


def _inside(one: Any, others: Any) -> bool:
    """Whether more than half of a box is in one to be ignored."""
    return any(_both(one, other) > 0.5 * _area(one) for other in others)


def theirs(valid_dataloader: Any, eval_class: Any) -> dict[str, float]:
    """Every worker that evaluates reads everything, one picture at a time."""
    for batch in valid_dataloader:
        eval_class(detected(batch[0]), [each.numpy() for each in batch])
    return eval_class.get_metric()


def ours(valid_dataloader: Any) -> dict[str, float]:
    metric = TextDetection()
    for batch in valid_dataloader:
        post_result = detected(batch[0])
        batch = [item.numpy() for item in batch]
        metric.add([each["points"] for each in post_result], batch[2], batch[3], ids=batch[-1])
    return metric.compute(size=len(valid_dataloader.dataset))


def passes() -> dict[str, Any]:
    """In order and shuffled."""
    boxes, eval_class = Boxes(MANY, SLOTS, said=True), BoxMetric()
    whole = theirs(paddle.io.DataLoader(boxes, batch_size=1), eval_class)
    return {f"{shuffle}": [whole, ours(dealt(boxes, 1, shuffle))] for shuffle in (False, True)}
