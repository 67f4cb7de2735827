"""What metrics of boxes and masks keep of an image: the predicted and the true ones, checked when they are added."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import joined_arrays, keys_of
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.records.base_metric import BaseMetric
from fleetmetrics.support.checks import choice_of
from fleetmetrics.support.hints import near
from fleetmetrics.vision.masks import Size, check_run_lengths, run_lengths, size_of
from fleetmetrics.xp import numpy_ops

FORMATS = ("xyxy", "xywh", "cxcywh")
#: The largest number whose square, an area, float64 holds many times over.
LARGEST = 1e100
_FLAG: Any = "0 or 1", lambda array: (array == 0) | (array == 1)
#: What the entries of an array of this name must be, and which of them are; others are finite numbers.
_ALLOWED: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "boxes": (f"numbers up to {LARGEST:g}", lambda array: np.abs(array) <= LARGEST),
    "area": ("at least 0, or nan for that of the object", lambda array: ~(array < 0) & (array != np.inf)),
    "iscrowd": _FLAG,
    "difficult": _FLAG,
}


class ImageMetric(BaseMetric):
    """A metric whose images have ids or a sampler, by which an image that comes twice counts once."""

    def _add_images(self, ids: Any, **lists: Any) -> None:
        """Add what `_columns_of` the lists keeps, of the same images each."""
        if ids is None and self.sampler is None:
            raise InvalidInputError(
                f"{self.name}: ids is missing; give an integer or string for each image, or give the metric sampler=: "
                "an image that comes twice, as padding does, then counts once"
            )
        try:
            _check_alike(lists)
            columns = self._columns_of(**lists)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self.name}: {error}") from None
        super().add(**columns, ids=ids)

    def _columns_of(self, *lists: Any, **named: Any) -> dict[str, Any]:
        """What is kept of the images, by the names of `compute_metric`; its errors get the metric's name."""
        raise NotImplementedError


def _check_alike(lists: Mapping[str, Any]) -> None:
    """Raise unless these are lists of the same images."""
    for name, images in lists.items():
        if not isinstance(images, (list, tuple)) and not getattr(images, "shape", ()):
            raise InvalidInputError(f"{name} must be a list with an entry for each image, not {images!r:.80}")
    *numbers, last = map(len, lists.values())
    if {*numbers} != {last}:
        *names, name = lists
        raise InvalidInputError(
            f"{', '.join(names)} and {name} are of {', '.join(map(str, numbers))} and {last} images; they must be of "
            "the same ones"
        )


class BoxMetric(ImageMetric):
    """Keeps the boxes, or the masks, of each image."""

    #: Where an image has its objects: ``boxes``, ``masks``, or both.
    shapes: tuple[str, ...] = ("boxes",)
    #: The flags of a true box, and other numbers of it, that a target may have.
    extras: tuple[str, ...] = ()

    def __init__(self, box_format: str, categories: Sequence[int] | None, sampler: Any) -> None:
        super().__init__(sampler=sampler)
        self.box_format: str = choice_of("box_format", box_format, FORMATS)
        known = None if categories is None else keys_of(categories, "categories")
        if known is not None and known.ndim != 1:
            raise InvalidInputError(f"categories must be a list of labels, not {categories!r:.80}")
        self.categories: list[Any] | None = None if known is None else sorted({*known.tolist()})
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
        self._add_images(ids, predictions=predictions, targets=targets)

    def _columns_of(self, predictions: Any, targets: Any) -> dict[str, Any]:
        true = self.true([f"targets[{place}]" for place in range(len(targets))], targets)
        names, sizes = [f"predictions[{place}]" for place in range(len(targets))], [image.get("size") for image in true]
        predicted = self.predicted(names, predictions, sizes)
        _check_kind([image["labels"] for image in (*predicted, *true)])
        return {"predictions": predicted, "targets": true}

    def compute_metric(self, results: Any) -> dict[str, Any]:
        predicted, true = (results["predictions"], results["targets"]) if results else ([], [])
        labels_of(predicted, true)  # of the images of all workers
        return self.values_of(predicted, true)

    def values_of(self, predicted: Sequence[Any], true: Sequence[Any]) -> dict[str, Any]:
        """The values, from the objects of all images."""
        raise NotImplementedError

    def true(self, whose: Sequence[str], images: Sequence[Any], may_be_empty: bool = False) -> list[dict[str, Any]]:
        """The true objects of images, which ``whose`` name in errors; masks without pixels are errors, or may be."""
        wanted = (*self.shapes, "labels")
        objects = [self._objects(what, image, wanted, self.extras) for what, image in zip(whose, images)]
        if "masks" in self.shapes:
            check_run_lengths(whose, objects, may_be_empty)
        return objects

    def predicted(self, whose: Sequence[str], images: Sequence[Any], sizes: Sequence[Any]) -> list[dict[str, Any]]:
        """The predicted objects of images, which may be known to have a size."""
        masks = "masks" in self.shapes
        wanted, extras = (*self.shapes, "scores", "labels"), ("mask_scores",) if masks else ()
        objects = [self._objects(what, image, wanted, extras, size) for what, image, size in zip(whose, images, sizes)]
        if masks:
            check_run_lengths(whose, objects, may_be_empty=True)
        return objects

    def _objects(
        self, what: str, image: Any, wanted: Sequence[str], extras: Sequence[str], size: Any = None
    ) -> dict[str, Any]:
        """An image's arrays, boxes as float64 ``[n, 4]`` by their corners; masks are a list of run lengths."""
        if not isinstance(image, Mapping) or not all(name in image for name in wanted):
            raise InvalidInputError(f"{what} must be a dict with {', '.join(wanted)}, not {image!r:.80}")
        for name in image.keys() - {*wanted, *extras}:
            meant = near(str(name), extras, 0.75)
            if meant:
                raise InvalidInputError(f"{what} has {name!r}, which is not read; did you mean {meant[0]!r}?")
        arrays: dict[str, Any] = {}
        if "boxes" in wanted:
            boxes = _numbers(what, image, "boxes")
            arrays["boxes"] = boxes if boxes.size else boxes.reshape(-1, 4)
        arrays["labels"] = keys_of(image["labels"], f"labels of {what}").reshape(-1)
        for name in (*wanted, *extras):
            if name not in ("boxes", "labels", "masks") and image.get(name) is not None:
                arrays[name] = _numbers(what, image, name).reshape(-1)
        if "masks" in wanted:
            arrays["masks"], size = run_lengths(what, image["masks"], _size(what, image, size))
        _check_lengths(what, arrays)
        if self.categories is not None:
            _check_labels(what, arrays["labels"], self.categories)
        if "boxes" in arrays:
            arrays["boxes"] = self._corners(what, arrays["boxes"])
        if "masks" in arrays and size is not None:
            arrays["size"] = np.array(size)
        return arrays

    def _corners(self, what: str, boxes: np.ndarray) -> np.ndarray:
        if self.box_format == "xyxy":
            corners = boxes
        else:
            start, sizes = boxes[:, :2], boxes[:, 2:]
            start = start - sizes / 2 if self.box_format == "cxcywh" else start
            corners = np.concatenate([start, start + sizes], axis=1)
        wrong = (corners[:, 2:] < corners[:, :2]).any(axis=1)
        if wrong.any():
            how = "x2 < x1 or y2 < y1" if self.box_format == "xyxy" else "a negative width or height"
            number = wrong.argmax()
            raise InvalidInputError(
                f"box {number} of {what}, {boxes[number].tolist()}, has {how}; boxes are {self.box_format}, of "
                f"{', '.join(FORMATS)}"
            )
        return corners


def _numbers(what: str, image: Mapping[str, Any], name: str) -> np.ndarray:
    """A copy of what an image has by this name, as float64."""
    array = numpy_ops.asarray(image[name], f"{name} of {what}").astype(np.float64)
    allowed, holds = _ALLOWED.get(name, ("numbers", np.isfinite))
    fits = holds(array)
    if not fits.all():
        place = np.argwhere(~fits)[0][0]
        shown = ", ".join(f"{number:g}" for number in np.atleast_1d(array[place]).flat)
        raise InvalidInputError(f"{name} of {what} has {shown} at {place}; give {allowed}")
    return array


def labels_of(*sides: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """The labels of all objects of all images, side after side; raises for integers beside strings."""
    arrays = [image["labels"] for side in sides for image in side if image["labels"].size]
    _check_kind(arrays)
    return np.asarray(joined_arrays(arrays, "labels")) if arrays else np.empty(0, np.int64)


def _check_kind(labels: Sequence[np.ndarray]) -> None:
    kinds = {array.dtype.kind == "U": array for array in labels if array.size}
    if len(kinds) > 1:
        raise InvalidInputError(
            f"labels are integers in some places and strings in others, such as {kinds[False][0]} and "
            f"{str(kinds[True][0])!r}; use one kind in predictions and targets"
        )


def _check_labels(what: str, labels: np.ndarray, categories: list[Any]) -> None:
    unknown = labels[~np.isin(labels, categories)]
    if unknown.size:
        raise InvalidInputError(f"labels of {what} has {unknown[0].item()!r}, which is not one of the categories")


def _check_lengths(what: str, arrays: Mapping[str, Any]) -> None:
    """Raise unless an image has the same number of each, and boxes of four numbers."""
    shape = arrays["boxes"].shape if "boxes" in arrays else (len(arrays["masks"]), 4)
    if shape[1:] != (4,) or any(len(array) != shape[0] for array in arrays.values()):
        shapes = ", ".join(f"{name} {[*np.shape(array)]}" for name, array in arrays.items())
        needed = "boxes [n, 4], and n of the others" if "boxes" in arrays else "n of each"
        raise InvalidInputError(f"{what} has {shapes}; it must have {needed}")


def _size(what: str, image: Mapping[str, Any], known: Any) -> Size | None:
    """The size that an image says it has, or is known to have."""
    sizes = {size_of(f"size of {what}", size) for size in (image.get("size"), known) if size is not None}
    if len(sizes) > 1:
        raise InvalidInputError(f"size of {what} is {image['size']}, but that of its image {known}")
    return sizes.pop() if sizes else None
