"""What metrics of boxes keep of an image: its predicted and its true boxes, checked when they are added."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import keys_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.base_metric import BaseMetric
from fleetmetrics.support.checks import choice_of
from fleetmetrics.xp import numpy_ops

FORMATS = ("xyxy", "xywh", "cxcywh")


class ImageMetric(BaseMetric):
    """A metric whose images have ids or a sampler, by which an image that comes twice counts once."""

    def _add_images(self, ids: Any, **columns: Any) -> None:
        if ids is None and self.sampler is None:
            raise InvalidInputError(
                f"{self.name}: ids is missing; give an integer or string for each image, or give the metric sampler=: "
                "an image that comes twice, as padding does, then counts once"
            )
        super().add(**columns, ids=ids)


class BoxMetric(ImageMetric):
    """Keeps the boxes of each image."""

    #: The flags of a true box, and other numbers of it, that a target may have.
    extras: tuple[str, ...] = ()

    def __init__(self, box_format: str, categories: Sequence[int] | None, sampler: Any) -> None:
        super().__init__(sampler=sampler)
        self.box_format: str = choice_of("box_format", box_format, FORMATS)
        self.categories: list[Any] | None = (
            None if categories is None else sorted({*keys_of(categories, "categories").tolist()})
        )
        self.settle(categories=self.categories)

    def add(self, predictions: Any, targets: Any, *, ids: Any = None) -> None:
        """Add the images of a batch.

        Args:
            predictions: for each image a dict of ``boxes`` [n, 4], ``scores`` [n], any numbers, and ``labels`` [n],
                integers.
            targets: for each image a dict of ``boxes`` and ``labels``, and maybe more, see the class.
            ids: an integer or string for each image.

        Raises:
            InvalidInputError: an argument is invalid; the batch was not added.
        """
        for name, images in (("predictions", predictions), ("targets", targets)):
            if not isinstance(images, (list, tuple)):
                raise InvalidInputError(f"{self.name}: {name} must be a list with a dict for each image")
        wanted = ("boxes", "scores", "labels")
        predicted = [self.image(f"predictions[{place}]", image, wanted, ()) for place, image in enumerate(predictions)]
        true = [
            self.image(f"targets[{place}]", image, ("boxes", "labels"), self.extras)
            for place, image in enumerate(targets)
        ]
        self._add_images(ids, predictions=predicted, targets=true)

    def image(self, what: str, image: Any, wanted: Sequence[str], extras: Sequence[str]) -> dict[str, np.ndarray]:
        """An image's arrays, boxes as float64 ``[n, 4]`` by their corners."""
        if not isinstance(image, Mapping) or not all(name in image for name in wanted):
            raise InvalidInputError(f"{self.name}: {what} must be a dict with {', '.join(wanted)}, not {image!r:.80}")
        boxes = numpy_ops.asarray(image["boxes"], "boxes").astype(np.float64)
        boxes = boxes.reshape(-1, 4) if boxes.size == 0 else boxes
        arrays = {"boxes": boxes, "labels": keys_of(image["labels"], f"{self.name}: labels of {what}").reshape(-1)}
        for name in (*wanted, *extras):
            if name not in arrays and image.get(name) is not None:
                arrays[name] = numpy_ops.asarray(image[name], name).astype(np.float64).reshape(-1)
        if boxes.ndim != 2 or boxes.shape[1] != 4 or {*map(len, arrays.values())} != {len(boxes)}:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
            raise InvalidInputError(f"{self.name}: {what} has {shapes}; it must have boxes [n, 4], and n of the others")
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                place = np.argwhere(~np.isfinite(array))[0][0]
                raise InvalidInputError(f"{self.name}: {name} of {what} has {array[place]} at {place}; give numbers")
        arrays["boxes"] = self._corners(what, boxes)
        known = self.categories is None or np.isin(arrays["labels"], self.categories)
        if not np.all(known):
            wrong = arrays["labels"][~known][0]
            raise InvalidInputError(
                f"{self.name}: labels of {what} has {wrong.item()!r}, which is not one of the categories"
            )
        return arrays

    def _corners(self, what: str, boxes: np.ndarray) -> np.ndarray:
        start, other = boxes[:, :2], boxes[:, 2:]
        if self.box_format == "cxcywh":
            start = start - other / 2
        end = other if self.box_format == "xyxy" else start + other
        wrong = np.flatnonzero((end < start).any(axis=1))
        if wrong.size:
            how = "x2 < x1 or y2 < y1" if self.box_format == "xyxy" else "a negative width or height"
            raise InvalidInputError(
                f"{self.name}: box {wrong[0]} of {what}, {boxes[wrong[0]].tolist()}, has {how}; boxes are "
                f"{self.box_format}, of {', '.join(FORMATS)}"
            )
        return np.concatenate([start, end], axis=1)
