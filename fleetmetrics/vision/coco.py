"""COCO's average precision and recall of boxes and masks, which faster-coco-eval computes."""

from __future__ import annotations

import logging
import math
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.support.checks import choices_of, flag_of, listed, number_of, whole_number_of
from fleetmetrics.support.optional import library
from fleetmetrics.vision.images import BoxMetric, labels_of

__all__ = ["MeanAveragePrecision"]

IOUS: tuple[float, ...] = tuple(np.linspace(0.5, 0.95, 10).tolist())  # to the bits of COCO's own
AREAS = ("", "_small", "_medium", "_large")
#: COCO's own end at 10**10 pixels.
_RANGES = [[0, math.inf], [0, 32**2], [32**2, 96**2], [96**2, math.inf]]
#: Where an image has what is compared.
SHAPES = {"bbox": "boxes", "segm": "masks"}
_log = logging.getLogger("fleetmetrics").debug  # Paddle lets the library's info lines through


class Evaluated(NamedTuple):
    """The arrays of COCO's evaluation, -1 without true objects."""

    ious: tuple[float, ...]
    most: tuple[int, ...]  #: detections of an image and label
    labels: list[Any]
    precision: np.ndarray  #: ``[IoUs, recalls, labels, areas, most detections]``
    recall: np.ndarray  #: ``[IoUs, labels, areas, most detections]``

    def values(self, most: int = -1) -> dict[str, float]:
        """COCO's values, by the names of torchmetrics; ``map`` is that of the ``most`` th number of detections."""
        values = {"map": mean_of(self.precision[:, :, :, 0, most])}
        for number, area in enumerate(AREAS[1:], 1):
            values[f"map{area}"] = mean_of(self.precision[:, :, :, number, -1])
        for name, iou in (("map_50", 0.5), ("map_75", 0.75)):
            if iou in self.ious:
                values[name] = mean_of(self.precision[self.ious.index(iou), :, :, 0, -1])
        for number, count in enumerate(self.most):
            values[f"mar_{count}"] = mean_of(self.recall[:, :, 0, number])
        for number, area in enumerate(AREAS[1:], 1):
            values[f"mar{area}"] = mean_of(self.recall[:, :, number, -1])
        return values

    def by_label(self) -> dict[Any, float]:
        """The average precision of each label."""
        return {label: mean_of(self.precision[:, :, number, 0, -1]) for number, label in enumerate(self.labels)}


def evaluated(
    predictions: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
    ious: Sequence[float],
    most: Sequence[int],
    iou_type: str = "bbox",
    by_label: bool = True,
) -> Evaluated:
    """Evaluate the boxes of all images, by their corners, or their masks, with faster-coco-eval.

    Args:
        predictions: the predicted objects of each image, as `BoxMetric` keeps them.
        targets: the true objects.
        ious: the thresholds.
        most: how many detections of an image and label count, rising.
        iou_type: a key of `SHAPES`.
        by_label: whether labels must agree; otherwise all objects have one.
    """
    coco = library("faster_coco_eval")
    images = [_image(number, *sides) for number, sides in enumerate(zip(predictions, targets))]
    labels, *annotations = joined(predictions, targets, iou_type)
    both = []
    for rows in annotations:  # as `loadRes` would do it, which first makes a polygon of every predicted box
        data = coco.COCO()
        data.dataset = {"images": images, "annotations": rows, "categories": [{"id": n} for n in range(len(labels))]}
        data.createIndex()
        both.append(data)
    evaluation = coco.COCOeval_faster(*both, iou_type, print_function=_log)
    evaluation.params.iouThrs, evaluation.params.maxDets = np.array(ious), list(most)
    evaluation.params.areaRng, evaluation.params.useCats = _RANGES, int(by_label)
    evaluation.evaluate()
    evaluation.accumulate()
    arrays = (np.asarray(evaluation.eval[name]) for name in ("precision", "recall"))
    return Evaluated(tuple(ious), tuple(most), labels if by_label else ["all"], *arrays)


def _image(number: int, *sides: Mapping[str, Any]) -> dict[str, int]:
    """An entry of the list of images; without masks, its size does not count."""
    height, width = next((side["size"].tolist() for side in sides if "size" in side), (0, 0))
    return {"id": number, "height": height, "width": width}


def joined(
    predictions: Sequence[Mapping[str, Any]], targets: Sequence[Mapping[str, Any]], iou_type: str
) -> tuple[list[Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """The labels, and the true and the predicted objects of all images as in COCO's files, with numbers for labels."""
    true, guessed = (_columns(images, iou_type) for images in (targets, predictions))
    labels, numbers = np.unique(labels_of(targets, predictions), return_inverse=True)
    true["category_id"], guessed["category_id"] = np.split(numbers.reshape(-1), [len(true["id"])])
    return labels.tolist(), _rows(true), _rows(guessed)


def _rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = (column if isinstance(column, list) else column.tolist() for column in columns.values())
    return [dict(zip(columns, row)) for row in zip(*lists)]


def _columns(images: Sequence[Mapping[str, Any]], iou_type: str) -> dict[str, Any]:
    """The objects of all images, with the number of their image."""
    sizes = [len(image["labels"]) for image in images]
    columns: dict[str, Any] = {"id": np.arange(1, sum(sizes) + 1), "image_id": np.repeat(np.arange(len(images)), sizes)}
    if iou_type == "segm":
        masks = [{"size": image["size"].tolist(), "counts": mask} for image in images for mask in image["masks"]]
        columns["segmentation"], pixels = masks, library("faster_coco_eval.core.mask").area(masks)
        images = [{**image, "scores": image["mask_scores"]} if "mask_scores" in image else image for image in images]
    else:
        columns["bbox"] = np.concatenate([image["boxes"] for image in images])
        columns["bbox"][:, 2:] -= columns["bbox"][:, :2]
        pixels = columns["bbox"][:, 2] * columns["bbox"][:, 3]
    crowds, areas = (
        np.concatenate([image.get(name, np.full(size, np.nan)) for image, size in zip(images, sizes)])
        for name in ("iscrowd", "area")
    )
    columns["iscrowd"] = np.nan_to_num(crowds).astype(np.int64)
    columns["area"] = np.where(np.isnan(areas), pixels, areas)
    if "scores" in images[0]:
        columns["score"] = np.concatenate([image["scores"] for image in images])
    return columns


def mean_of(values: np.ndarray) -> float:
    """The mean of the values that there are; nan without any."""
    there = values[values > -1]
    return float(there.mean()) if there.size else math.nan


def without_objects(true: Sequence[Mapping[str, Any]]) -> str:
    """Why the average precision of these true objects is undefined; "" if it is not."""
    count = sum(len(image["labels"]) for image in true)
    crowds = sum(np.count_nonzero(image["iscrowd"]) for image in true if "iscrowd" in image)
    if not count:
        return "there are no true boxes"
    return "all true boxes are crowds" if crowds == count else ""


def _some(argument: str, values: Any) -> list[Any]:
    """The numbers of an argument, of which there is at least one."""
    numbers = listed(argument, values, "numbers")
    if not numbers:
        raise InvalidInputError(f"{argument} is empty; give at least one number")
    return numbers


class MeanAveragePrecision(BoxMetric):
    """Average precision and recall of detected objects, as COCO computes them: `map`, `map_50`, `mar_100` and so on.

    Formula: the average precision at an IoU t is ``sum_r(max { precision(s) : s >= r }) / 101`` over the recalls r = 0,
    0.01, ..., 1; ``map`` is its mean over t = 0.5, 0.55, ..., 0.95 and over the labels that have true boxes.
    faster-coco-eval computes it; inputs and names are those of torchmetrics.

    ``add(predictions, targets, ids=)`` takes a dict for each image: ``boxes`` [n, 4], ``scores`` [n] and ``labels``
    [n]; targets without scores, and maybe with ``iscrowd`` [n] and ``area`` [n] (else, or where nan, that of the box).
    Rank 0 gathers all boxes, each image once, in the order of the ids, or of the sampler. Undefined without true boxes.

    For ``iou_type="segm"`` the dicts have ``masks`` in place of ``boxes``: booleans [n, height, width], or a list with
    a dict of pycocotools, of ``size`` and ``counts``, or with polygons ``[[x1, y1, x2, y2, ...], ...]`` for each
    object. Polygons need the ``size`` of the image, ``(height, width)``, beside the masks.

    Args:
        box_format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``.
        iou_thresholds: the IoUs; None: 0.5, 0.55, ..., 0.95.
        max_detection_thresholds: how many objects of an image and label count; the last also for ``map``.
        class_metrics: whether to give ``map_per_class``, by label, too.
        iou_type: ``"bbox"``, ``"segm"``, or both, by which the names then begin: ``bbox_map``, ``segm_map``, ...
        categories: the allowed labels; None: any.
        sampler: assigns the images, as for `BaseMetric`; None: `add` takes ids.

    Raises:
        MissingLibraryError: faster-coco-eval is not installed.
        InvalidInputError: an argument is invalid.

    Examples:
        >>> metric = MeanAveragePrecision()
        >>> predicted = {"boxes": [[258.0, 41.0, 606.0, 285.0]], "scores": [0.536], "labels": [0]}
        >>> metric.add([predicted], [{"boxes": [[214.0, 41.0, 562.0, 285.0]], "labels": [0]}], ids=[17])
        >>> values = metric.compute()
        >>> round(values["map"], 6), values["map_50"], values["map_75"], values["mar_100"]
        (0.6, 1.0, 1.0, 0.6)
    """

    better = "higher"
    gives = "parts"
    extras: tuple[str, ...] = ("iscrowd", "area")

    def __init__(
        self,
        box_format: str = "xyxy",
        iou_thresholds: Sequence[float] | None = None,
        max_detection_thresholds: Sequence[int] = (1, 10, 100),
        class_metrics: bool = False,
        *,
        iou_type: str | Sequence[str] = "bbox",
        categories: Sequence[int] | None = None,
        sampler: Any = None,
    ) -> None:
        super().__init__(box_format, categories, sampler)
        library("faster_coco_eval")  # before hours of evaluation
        ious = IOUS if iou_thresholds is None else _some("iou_thresholds", iou_thresholds)
        self.iou_thresholds: tuple[float, ...] = tuple(number_of("each of iou_thresholds", iou, 0, 1) for iou in ious)
        counts = _some("max_detection_thresholds", max_detection_thresholds)
        most = [whole_number_of("each of max_detection_thresholds", most, 1) for most in counts]
        self.max_detection_thresholds: tuple[int, ...] = tuple(sorted(most))
        self.class_metrics: bool = flag_of("class_metrics", class_metrics)
        self.iou_types: list[str] = choices_of("iou_type", iou_type, (*SHAPES,))
        self.shapes: tuple[str, ...] = tuple(SHAPES[one] for one in self.iou_types)
        self.settle(
            max_detection_thresholds=self.max_detection_thresholds,
            iou_thresholds=self.iou_thresholds,
            iou_type=self.iou_types,
        )

    def values_of(self, predicted: Sequence[Any], true: Sequence[Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for iou_type in self.iou_types:
            prefix = f"{iou_type}_" if len(self.iou_types) > 1 else ""
            values.update((prefix + name, value) for name, value in self._values(predicted, true, iou_type).items())
        return values

    def _values(self, predicted: Sequence[Any], true: Sequence[Any], iou_type: str) -> dict[str, Any]:
        reason = without_objects(true)
        values: dict[str, Any] = {"map": undefined(self.name, reason) if reason else 0.0}
        if any(len(target["labels"]) for target in true):
            evaluation = evaluated(predicted, true, self.iou_thresholds, self.max_detection_thresholds, iou_type)
            values.update(evaluation.values())
            values.update({"map_per_class": evaluation.by_label()} if self.class_metrics else {})
        return values
