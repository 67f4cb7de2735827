"""COCO's average precision and recall of boxes, which faster-coco-eval computes."""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.support.checks import flag_of, number_of, whole_number_of
from fleetmetrics.support.optional import library
from fleetmetrics.vision.images import BoxMetric

__all__ = ["MeanAveragePrecision"]

IOUS: tuple[float, ...] = tuple(np.linspace(0.5, 0.95, 10).tolist())  # to the bits of COCO's own
AREAS = ("", "_small", "_medium", "_large")


class Evaluated(NamedTuple):
    """The arrays of COCO's evaluation, -1 without true boxes."""

    labels: list[Any]
    precision: np.ndarray  #: ``[IoUs, recalls, labels, areas, most detections]``
    recall: np.ndarray  #: ``[IoUs, labels, areas, most detections]``


def evaluated(
    predictions: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
    ious: Sequence[float],
    most: Sequence[int],
) -> Evaluated:
    """Evaluate the boxes of all images, by their corners, with faster-coco-eval."""
    coco = library("faster_coco_eval")
    labels, truth, predicted = joined(predictions, targets)
    data = coco.COCO()
    data.dataset = {"images": [{"id": number} for number in range(len(targets))], "annotations": truth}
    data.dataset["categories"] = [{"id": number} for number in range(len(labels))]
    data.createIndex()
    evaluation = coco.COCOeval_faster(data, data.loadRes(predicted), "bbox")
    evaluation.params.iouThrs, evaluation.params.maxDets = np.array(ious), list(most)
    evaluation.evaluate()
    evaluation.accumulate()
    return Evaluated(labels, *(np.asarray(evaluation.eval[name]) for name in ("precision", "recall")))


def joined(
    predictions: Sequence[Mapping[str, Any]], targets: Sequence[Mapping[str, Any]]
) -> tuple[list[Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """The labels, and the true and the predicted boxes of all images as in COCO's files, with numbers for labels."""
    truth, predicted = _columns(targets, ("iscrowd", "area")), _columns(predictions, ("scores",))
    labels, numbers = np.unique(np.concatenate([truth.pop("labels"), predicted.pop("labels")]), return_inverse=True)
    sizes = truth["boxes"][:, 2] * truth["boxes"][:, 3]
    truth["area"] = np.where(np.isnan(truth["area"]), sizes, truth["area"])
    truth["iscrowd"] = np.nan_to_num(truth["iscrowd"]).astype(np.int64)
    parts = np.split(numbers.reshape(-1), [len(sizes)])
    true, guessed = (
        [array.tolist() for array in (part, *side.values())] for part, side in zip(parts, (truth, predicted))
    )
    true_boxes = [
        {"id": n, "category_id": label, "image_id": image, "bbox": box, "iscrowd": crowd, "area": area}
        for n, (label, image, box, crowd, area) in enumerate(zip(*true), 1)
    ]
    found_boxes = [
        {"category_id": label, "image_id": image, "bbox": box, "score": score}
        for label, image, box, score in zip(*guessed)
    ]
    return labels.tolist(), true_boxes, found_boxes


def _columns(images: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, np.ndarray]:
    """The boxes of all images by left, top, width and height, with the number of the image; nan: it said nothing."""
    sizes = [len(image["boxes"]) for image in images]
    boxes = np.concatenate([image["boxes"] for image in images])
    boxes[:, 2:] -= boxes[:, :2]
    columns = {"labels": np.concatenate([image["labels"] for image in images])}
    columns.update(images=np.repeat(np.arange(len(images)), sizes), boxes=boxes)
    for name in names:
        columns[name] = np.concatenate([image.get(name, np.full(size, np.nan)) for image, size in zip(images, sizes)])
    return columns


def mean_of(values: np.ndarray) -> float:
    """The mean of the values that there are; nan without any."""
    there = values[values > -1]
    return float(there.mean()) if there.size else math.nan


class MeanAveragePrecision(BoxMetric):
    """Average precision and recall of detected boxes, as COCO computes them: `map`, `map_50`, `mar_100` and so on.

    Formula: the average precision at an IoU t is ``sum_r(max { precision(s) : s >= r }) / 101`` over the recalls r = 0,
    0.01, ..., 1; ``map`` is its mean over t = 0.5, 0.55, ..., 0.95 and over the labels that have true boxes.
    faster-coco-eval computes it; inputs and names are those of torchmetrics.

    ``add(predictions, targets, ids=)`` takes a dict for each image: ``boxes`` [n, 4], ``scores`` [n] and ``labels``
    [n]; targets without scores, and maybe with ``iscrowd`` [n] and ``area`` [n] (else that of the box). Rank 0 gathers
    all boxes, each image once, in the order of the ids, or of the sampler. Undefined without true boxes.

    Args:
        box_format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``.
        iou_thresholds: the IoUs; None: 0.5, 0.55, ..., 0.95.
        max_detection_thresholds: how many boxes of an image and label count; the last also for ``map``.
        class_metrics: whether to give ``map_per_class``, by label, too.
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
        categories: Sequence[int] | None = None,
        sampler: Any = None,
    ) -> None:
        super().__init__(box_format, categories, sampler)
        library("faster_coco_eval")  # before hours of evaluation
        ious = IOUS if iou_thresholds is None else iou_thresholds
        self.iou_thresholds: tuple[float, ...] = tuple(number_of("each of iou_thresholds", iou, 0, 1) for iou in ious)
        most = [whole_number_of("each of max_detection_thresholds", most, 1) for most in max_detection_thresholds]
        self.max_detection_thresholds: tuple[int, ...] = tuple(sorted(most))
        self.class_metrics: bool = flag_of("class_metrics", class_metrics)
        self.settle(max_detection_thresholds=self.max_detection_thresholds, iou_thresholds=self.iou_thresholds)

    def compute_metric(self, results: Any) -> dict[str, Any]:
        if not results or not sum(len(target["boxes"]) for target in results["targets"]):
            return {"map": undefined(self.name, "there are no true boxes")}
        evaluation = evaluated(
            results["predictions"], results["targets"], self.iou_thresholds, self.max_detection_thresholds
        )
        values: dict[str, Any] = {
            f"map{area}": mean_of(evaluation.precision[:, :, :, number, -1]) for number, area in enumerate(AREAS)
        }
        for name, iou in (("map_50", 0.5), ("map_75", 0.75)):
            if iou in self.iou_thresholds:
                values[name] = mean_of(evaluation.precision[self.iou_thresholds.index(iou), :, :, 0, -1])
        for number, most in enumerate(self.max_detection_thresholds):
            values[f"mar_{most}"] = mean_of(evaluation.recall[:, :, 0, number])
        values.update((f"mar{area}", mean_of(evaluation.recall[:, :, n, -1])) for n, area in enumerate(AREAS) if area)
        if self.class_metrics:
            means = (mean_of(evaluation.precision[:, :, number, 0, -1]) for number in range(len(evaluation.labels)))
            values["map_per_class"] = dict(zip(evaluation.labels, means))
        return values
