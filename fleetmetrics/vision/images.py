"""What metrics of boxes and masks keep of an image: the predicted and the true ones, checked when they are added."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import keys_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.base_metric import BaseMetric
from fleetmetrics.support.checks import choice_of
from fleetmetrics.vision.masks import Size, run_lengths, size_of
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
    """Keeps the boxes, or the masks, of each image."""

    #: Where an image has its objects: ``boxes``, ``masks``, or both.
    shapes: tuple[str, ...] = ("boxes",)
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
                integers or strings.
            targets: for each image a dict of ``boxes`` and ``labels``, and maybe more, see the class.
            ids: an integer or string for each image.

        Raises:
            InvalidInputError: an argument is invalid; the batch was not added.
        """
        for name, images in (("predictions", predictions), ("targets", targets)):
            if not isinstance(images, (list, tuple)):
                raise InvalidInputError(f"{self.name}: {name} must be a list with a dict for each image")
        true = [self.true(f"targets[{place}]", image) for place, image in enumerate(targets)]
        sizes = [image.get("size") for image in true] + [None] * len(predictions)
        predicted = [
            self.predicted(f"predictions[{place}]", image, size)
            for place, (image, size) in enumerate(zip(predictions, sizes))
        ]
        self._add_images(ids, predictions=predicted, targets=true)

    def true(self, what: str, image: Any) -> dict[str, Any]:
        """The true objects of an image; ``what`` names it in errors."""
        return self._objects(what, image, (*self.shapes, "labels"), self.extras)

    def predicted(self, what: str, image: Any, size: Any = None) -> dict[str, Any]:
        """The predicted objects of an image, which may be known to have a size."""
        extras = ("mask_scores",) if "masks" in self.shapes else ()
        return self._objects(what, image, (*self.shapes, "scores", "labels"), extras, size)

    def _objects(
        self, what: str, image: Any, wanted: Sequence[str], extras: Sequence[str], size: Any = None
    ) -> dict[str, Any]:
        """An image's arrays, boxes as float64 ``[n, 4]`` by their corners; masks are a list of run lengths."""
        if not isinstance(image, Mapping) or not all(name in image for name in wanted):
            raise InvalidInputError(f"{self.name}: {what} must be a dict with {', '.join(wanted)}, not {image!r:.80}")
        arrays: dict[str, Any] = {}
        if "boxes" in wanted:
            boxes = numpy_ops.asarray(image["boxes"], "boxes").astype(np.float64)
            arrays["boxes"] = boxes.reshape(-1, 4) if boxes.size == 0 else boxes
        arrays["labels"] = keys_of(image["labels"], f"{self.name}: labels of {what}").reshape(-1)
        for name in (*wanted, *extras):
            if name not in ("boxes", "labels", "masks") and image.get(name) is not None:
                arrays[name] = numpy_ops.asarray(image[name], name).astype(np.float64).reshape(-1)
        if "masks" in wanted:
            size = self._size(what, image, size)
            counts, size = run_lengths(f"{self.name}: {what}", image["masks"], size, may_be_empty="scores" in wanted)
            arrays["masks"] = np.array(counts, object)
        if len({*map(len, arrays.values())}) > 1 or arrays.get("boxes", np.empty((0, 4))).shape[1:] != (4,):
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
            needed = "boxes [n, 4], and n of the others" if "boxes" in arrays else "n of each"
            raise InvalidInputError(f"{self.name}: {what} has {shapes}; it must have {needed}")
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                place = np.argwhere(~np.isfinite(array))[0][0]
                raise InvalidInputError(f"{self.name}: {name} of {what} has {array[place]} at {place}; give numbers")
        known = self.categories is None or np.isin(arrays["labels"], self.categories)
        if not np.all(known):
            wrong = arrays["labels"][~known][0]
            raise InvalidInputError(
                f"{self.name}: labels of {what} has {wrong.item()!r}, which is not one of the categories"
            )
        if "boxes" in arrays:
            arrays["boxes"] = self._corners(what, arrays["boxes"])
        if "masks" in arrays:
            arrays["masks"] = arrays["masks"].tolist()
            arrays.update({} if size is None else {"size": np.array(size)})
        return arrays

    def _size(self, what: str, image: Mapping[str, Any], known: Any) -> Size | None:
        """The size that an image says it has, or is known to have."""
        sizes = {
            size_of(f"{self.name}: size of {what}", size) for size in (image.get("size"), known) if size is not None
        }
        if len(sizes) > 1:
            raise InvalidInputError(f"{self.name}: size of {what} is {image['size']}, but that of its image {known}")
        return sizes.pop() if sizes else None

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
