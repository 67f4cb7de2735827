"""Detection metrics: boxes of images, modeled on MMDetection 3.3.0."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.evaluator.engine_metric import BaseMetric, as_dicts
from fleetmetrics.evaluator.registry import PRETRAIN
from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.records.batches import one_per_id
from fleetmetrics.support.checks import choice_of, flag_of, path_of
from fleetmetrics.support.optional import library
from fleetmetrics.vision.coco import IOUS, Evaluated, MeanAveragePrecision, evaluated, mean_of

__all__ = ["CocoMetric"]

_ITEMS = ("mAP", "mAP_50", "mAP_75", "mAP_s", "mAP_m", "mAP_l")


@PRETRAIN.register_module(["CocoMetric", "mmdet.CocoMetric"])
class CocoMetric(BaseMetric):
    """COCO's average precision of boxes, modeled on MMDetection's; see `fleetmetrics.MeanAveragePrecision`.

    Data samples hold ``img_id``, and in ``pred_instances`` the ``bboxes`` [n, 4] by their corners, ``scores`` and
    ``labels``. Without ``ann_file`` they also hold ``instances``, a list of dicts with ``bbox``, ``bbox_label`` and
    maybe ``ignore_flag``. An image of the file without a sample counts as one without predictions.

    Differs from MMDetection's: only boxes, no masks and proposals; an image that comes twice counts once, and
    with other boxes is an error; values are not rounded; a value without true boxes is nan instead of -1.

    Args:
        ann_file: COCO's file of annotations; None: the data samples have them.
        metric: ``"bbox"``.
        classwise: whether to give ``{class}_precision``, too.
        proposal_nums: how many boxes of an image and label count. ``mAP`` is that of 100, the others that of the last.
        iou_thrs: the IoUs; None: 0.5, 0.55, ..., 0.95.
        metric_items: the results; None: all.
        collect_device: as in `BaseMetric`.
        prefix: of the results' names; None: ``"coco"``.

    Results:
        ``bbox_mAP``, ``bbox_mAP_50``, ``bbox_mAP_75``, ``bbox_mAP_s``, ``bbox_mAP_m``, ``bbox_mAP_l``.

    Raises:
        InvalidInputError: an argument, or a sample, is invalid.
        MissingLibraryError: faster-coco-eval is not installed.

    Examples:
        >>> metric = CocoMetric()
        >>> predicted = {"bboxes": [[0, 0, 9, 9]], "scores": [0.9], "labels": [0]}
        >>> true = [{"bbox": [0, 0, 9, 9], "bbox_label": 0}]
        >>> metric.process(None, [{"img_id": 3, "pred_instances": predicted, "instances": true}])
        >>> metric.evaluate(size=1)["coco/bbox_mAP"]
        1.0
    """

    default_prefix: str | None = "coco"

    def __init__(
        self,
        ann_file: str | None = None,
        metric: str | Sequence[str] = "bbox",
        classwise: bool = False,
        proposal_nums: Sequence[int] = (100, 300, 1000),
        iou_thrs: float | Sequence[float] | None = None,
        metric_items: Sequence[str] | None = None,
        collect_device: str = "cpu",
        prefix: str | None = None,
    ) -> None:
        super().__init__(collect_device=collect_device, prefix=prefix)
        self.ann_file: str | None = None if ann_file is None else path_of("ann_file", ann_file)
        named = metric[0] if not isinstance(metric, str) and len(metric) == 1 else metric
        self.metric: str = choice_of("metric", named, ("bbox",))
        self.classwise: bool = flag_of("classwise", classwise)
        ious = [iou_thrs] if isinstance(iou_thrs, (int, float)) else iou_thrs or IOUS
        self._boxes = MeanAveragePrecision(iou_thresholds=ious, max_detection_thresholds=proposal_nums)
        self.proposal_nums: tuple[int, ...] = self._boxes.max_detection_thresholds
        self.iou_thrs: tuple[float, ...] = self._boxes.iou_thresholds
        items = _ITEMS if metric_items is None else metric_items
        self.metric_items: list[str] = [choice_of("each of metric_items", item, _ITEMS) for item in items]

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        for sample in as_dicts(data_samples):
            if sample.get("img_id") is None:
                raise InvalidInputError("CocoMetric: a data sample has no img_id, by which an image counts once")
            image, pred = sample["img_id"], dict(sample["pred_instances"])
            pred["boxes"] = pred.pop("bboxes")
            record = {"img_id": image, "predictions": self._boxes.image(f"image {image!r}", pred, _PREDICTED, ())}
            if self.ann_file is None:
                record["targets"] = self._boxes.image(f"image {image!r}", _target(sample), ("boxes", "labels"), _EXTRAS)
            self.results.append(record)

    def compute_metrics(self, results: Sequence[Any]) -> dict[str, Any]:
        ids = np.array([record["img_id"] for record in results])
        boxes = [(record["predictions"], record.get("targets")) for record in results]
        images, kept = one_per_id([ids, boxes], ids)
        by_image = dict(zip(images.tolist(), kept))
        predicted = {image: boxes for image, (boxes, _) in by_image.items()}
        names: Mapping[Any, str] = dict(enumerate((self.dataset_meta or {}).get("classes", ())))
        if self.ann_file is None:
            true = {image: boxes for image, (_, boxes) in by_image.items()}
        else:
            true, names, predicted = self._of_file(predicted)
        images = sorted(true)
        if not sum(len(true[image]["boxes"]) for image in images):
            value = undefined("CocoMetric", "there are no true boxes")
            return {f"bbox_{item}": value for item in self.metric_items}
        nothing = {"boxes": np.zeros((0, 4)), "scores": np.zeros(0), "labels": np.zeros(0, np.int64)}
        arrays = evaluated(
            [predicted.get(image, nothing) for image in images],
            [true[image] for image in images],
            self.iou_thrs,
            self.proposal_nums,
        )
        return {**self._items(arrays), **(self._by_class(arrays, names) if self.classwise else {})}

    def _items(self, evaluation: Evaluated) -> dict[str, float]:
        hundred = self.proposal_nums.index(100) if 100 in self.proposal_nums else -1
        values = {"mAP": mean_of(evaluation.precision[:, :, :, 0, hundred])}
        for item, iou in (("mAP_50", 0.5), ("mAP_75", 0.75)):
            place = [number for number, threshold in enumerate(self.iou_thrs) if threshold == iou]
            values[item] = mean_of(evaluation.precision[place, :, :, 0, -1])
        for number, item in enumerate(("mAP_s", "mAP_m", "mAP_l"), 1):
            values[item] = mean_of(evaluation.precision[:, :, :, number, -1])
        return {f"bbox_{item}": values[item] for item in self.metric_items}

    def _by_class(self, evaluation: Evaluated, names: Mapping[Any, str]) -> dict[str, float]:
        return {
            f"{names.get(label, label)}_precision": mean_of(evaluation.precision[:, :, number, 0, -1])
            for number, label in enumerate(evaluation.labels)
        }

    def _of_file(self, predicted: Mapping[Any, Any]) -> tuple[dict[Any, Any], dict[Any, str], dict[Any, Any]]:
        """The true boxes by image and the names of categories in the file; and the predictions with its categories."""
        data = library("faster_coco_eval").COCO(self.ann_file)
        names = {category["id"]: category.get("name", str(category["id"])) for category in data.cats.values()}
        classes = (self.dataset_meta or {}).get("classes")
        numbers = {name: number for number, name in names.items()}
        if classes is not None and not {*classes} <= {*numbers}:
            missing = sorted({*classes} - {*numbers})[0]
            raise InvalidInputError(f"CocoMetric: {self.ann_file} has no category {missing!r}, one of the classes")
        ids = np.array(list(names) if classes is None else [numbers[name] for name in classes], np.int64)
        strange = sorted({*predicted} - {*data.imgs})
        if strange:
            raise InvalidInputError(f"CocoMetric: {self.ann_file} has no image {strange[0]!r}")
        true = {image: _of_annotations(data.imgToAnns.get(image, []), ids) for image in data.imgs}
        return true, names, {image: _in_ids(image, boxes, ids) for image, boxes in predicted.items()}


_PREDICTED, _EXTRAS = ("boxes", "scores", "labels"), ("iscrowd",)


def _target(sample: Mapping[str, Any]) -> dict[str, Any]:
    """The true boxes of a data sample."""
    if "instances" not in sample:
        raise InvalidInputError("CocoMetric: a data sample has no instances; give them, or ann_file=")
    instances = sample["instances"]
    columns = {"boxes": "bbox", "labels": "bbox_label"}
    target: dict[str, Any] = {name: [instance[key] for instance in instances] for name, key in columns.items()}
    return {**target, "iscrowd": [instance.get("ignore_flag", 0) for instance in instances]}


def _of_annotations(annotations: Sequence[Mapping[str, Any]], ids: np.ndarray) -> dict[str, np.ndarray]:
    kept = [annotation for annotation in annotations if annotation["category_id"] in ids]
    boxes = np.array([annotation["bbox"] for annotation in kept], np.float64).reshape(-1, 4)
    return {
        "boxes": np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1),
        "labels": np.array([annotation["category_id"] for annotation in kept], np.int64),
        "iscrowd": np.array([annotation.get("iscrowd", 0) for annotation in kept], np.float64),
        "area": np.array([annotation.get("area", np.nan) for annotation in kept], np.float64),
    }


def _in_ids(image: Any, boxes: Mapping[str, np.ndarray], ids: np.ndarray) -> dict[str, np.ndarray]:
    labels = boxes["labels"]
    wrong = labels[(labels < 0) | (labels >= len(ids))]
    if wrong.size:
        raise InvalidInputError(f"CocoMetric: image {image!r} has the label {wrong[0]} of {len(ids)} categories")
    return {**boxes, "labels": ids[labels]}
