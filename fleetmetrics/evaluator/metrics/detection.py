"""Detection metrics: boxes and masks of images, modeled on MMDetection 3.3.0."""

from __future__ import annotations

import math
from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.batch.keys import keys_of
from fleetmetrics.errors import FileAccessError, InvalidInputError
from fleetmetrics.evaluator.engine_metric import BaseMetric, as_dicts
from fleetmetrics.evaluator.registry import PRETRAIN
from fleetmetrics.formulas.proposals import recalls_of_proposals
from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.records.batches import one_per_id
from fleetmetrics.support.checks import choices_of, flag_of, path_of
from fleetmetrics.support.optional import library
from fleetmetrics.vision.coco import AREAS, MeanAveragePrecision, evaluated, without_objects
from fleetmetrics.vision.masks import size_of

__all__ = ["CocoMetric"]

_KEYS = {"boxes": "bbox", "masks": "mask"}
_NOTHING = {"boxes": np.zeros((0, 4)), "masks": [], "scores": np.zeros(0), "labels": np.zeros(0, np.int64)}
_METRICS = ("bbox", "segm", "proposal", "proposal_fast")
#: MMDetection's names, and those of `MeanAveragePrecision`.
_PRECISIONS = {"mAP": "map", "mAP_50": "map_50", "mAP_75": "map_75"}
_PRECISIONS.update({"mAP_s": "map_small", "mAP_m": "map_medium", "mAP_l": "map_large"})


@PRETRAIN.register_module(["CocoMetric", "mmdet.CocoMetric"])
class CocoMetric(BaseMetric):
    """COCO's values of boxes, masks and proposals, modeled on MMDetection's; see `fleetmetrics.MeanAveragePrecision`.

    Data samples hold ``img_id``, and in ``pred_instances`` the ``bboxes`` [n, 4] by their corners, ``scores`` and
    ``labels``. For ``"segm"`` they have ``masks`` in place of ``bboxes``, and maybe ``mask_scores``: booleans
    [n, height, width], or dicts of pycocotools. Without ``ann_file`` they also hold ``instances``, a list of dicts with
    ``bbox``, ``bbox_label`` and maybe ``ignore_flag`` and ``mask``. ``ori_shape`` is the size of the image. An image of
    the file without a sample counts as one without predictions.

    Differs from MMDetection's: an image that comes twice counts once, and with other boxes is an error; values are not
    rounded; a value without true boxes is nan instead of -1. Without ``ann_file``, the area of a mask is that of its
    pixels. With ``"bbox"`` and ``"segm"``, ``{class}_precision`` begins with the metric, too. ``"proposal_fast"`` takes
    the boxes with the highest scores, whatever their order.

    Args:
        ann_file: COCO's file of annotations; None: the data samples have them.
        metric: ``"bbox"``, ``"segm"``, ``"proposal"``, the average recall of boxes whatever their labels,
            ``"proposal_fast"``, which pairs boxes by their IoUs alone, or several.
        classwise: whether to give ``{class}_precision``, of each ``"bbox"`` and ``"segm"``, too.
        proposal_nums: how many objects of an image and label count. ``mAP`` is that of 100, others that of the last.
        iou_thrs: the IoUs; None: 0.5, 0.55, ..., 0.95.
        metric_items: the results; None: those below.
        collect_device: as in `BaseMetric`.
        prefix: of the results' names; None: ``"coco"``.

    Results:
        ``bbox_mAP``, ``bbox_mAP_50``, ``bbox_mAP_75``, ``bbox_mAP_s``, ``bbox_mAP_m``, ``bbox_mAP_l``, and the same of
        ``segm``; of proposals ``AR@100``, ``AR@300``, ``AR@1000``, ``AR_s@1000``, ``AR_m@1000``, ``AR_l@1000``, of the
        fast ones the first three.

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
        self.metrics: list[str] = choices_of("metric", metric, _METRICS)
        if {"proposal", "proposal_fast"} <= {*self.metrics}:
            raise InvalidInputError(
                "CocoMetric: proposal and proposal_fast give values of the same names; give one of them"
            )
        self.classwise: bool = flag_of("classwise", classwise)
        self._objects = MeanAveragePrecision(
            iou_thresholds=[iou_thrs] if isinstance(iou_thrs, (int, float)) else iou_thrs,
            max_detection_thresholds=proposal_nums,
            iou_type=["segm" if one == "segm" else "bbox" for one in self.metrics],
        )
        self.proposal_nums: tuple[int, ...] = self._objects.max_detection_thresholds
        self.iou_thrs: tuple[float, ...] = self._objects.iou_thresholds
        last = self.proposal_nums[-1]
        self._fast: dict[str, str] = {f"AR@{count}": f"mar_{count}" for count in self.proposal_nums}
        areas = zip(("s", "m", "l"), AREAS[1:])
        self._recalls: dict[str, str] = {**self._fast, **{f"AR_{short}@{last}": f"mar{long}" for short, long in areas}}
        items = (*_PRECISIONS, *self._recalls)
        self.metric_items: list[str] | None = (
            None if metric_items is None else choices_of("metric_items", metric_items, items)
        )

    def process(self, data_batch: Any, data_samples: Sequence[Mapping[str, Any]]) -> None:
        try:
            self.results.extend(self._records(as_dicts(data_samples)))
        except InvalidInputError as error:
            raise InvalidInputError(f"CocoMetric: {error}") from None

    def _records(self, samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What is kept of each data sample."""
        if not all(isinstance(sample, Mapping) for sample in samples):
            raise InvalidInputError("data_samples must be a list with a dict for each image")
        for name, why in (("img_id", "by which an image counts once"), ("pred_instances", "the predicted objects")):
            if any(sample.get(name) is None for sample in samples):
                raise InvalidInputError(f"a data sample has no {name}, {why}")
        names = [f"image {sample['img_id']!r}" for sample in samples]
        predicted = [_with_boxes(sample["pred_instances"]) for sample in samples]
        sizes = [sample.get("ori_shape") for sample in samples]
        columns = {"img_id": [sample["img_id"] for sample in samples]}
        columns["predictions"] = self._objects.predicted(names, predicted, sizes)
        if self.ann_file is None:
            columns["targets"] = self._objects.true(names, [self._target(sample) for sample in samples])
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def _target(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The true objects of a data sample."""
        if sample.get("instances") is None:
            raise InvalidInputError("a data sample has no instances; give them, or ann_file=")
        target: dict[str, Any] = {"size": sample.get("ori_shape")}
        for name, key in (("labels", "bbox_label"), *((shape, _KEYS[shape]) for shape in self._objects.shapes)):
            if not all(key in instance for instance in sample["instances"]):
                raise InvalidInputError(f"one of the instances of image {sample['img_id']!r} has no {key}")
            target[name] = [instance[key] for instance in sample["instances"]]
        return {**target, "iscrowd": [instance.get("ignore_flag", 0) for instance in sample["instances"]]}

    def compute_metrics(self, results: Sequence[Any]) -> dict[str, Any]:
        ids = keys_of([record["img_id"] for record in results], "CocoMetric: img_id")
        objects = [(record["predictions"], record.get("targets")) for record in results]
        images, kept = one_per_id([ids, objects], ids)
        by_image = dict(zip(images.tolist(), kept))
        predicted = {image: its for image, (its, _) in by_image.items()}
        names: Mapping[Any, str] = dict(enumerate((self.dataset_meta or {}).get("classes", ())))
        if self.ann_file is None:
            true = {image: its for image, (_, its) in by_image.items()}
        else:
            true, names, predicted = self._of_file(predicted)
        sides = [predicted.get(image, _NOTHING) for image in sorted(true)], [true[image] for image in sorted(true)]
        values: dict[str, Any] = {}
        for metric in self.metrics:
            values.update(self._values(metric, *sides, names))
        return values

    def _values(
        self, metric: str, predicted: Sequence[Any], true: Sequence[Any], names: Mapping[Any, str]
    ) -> dict[str, Any]:
        """The values of one of the metrics."""
        proposals = metric.startswith("proposal")
        table = self._fast if metric == "proposal_fast" else {**_PRECISIONS, **self._recalls}
        usual = self._recalls if proposals else _PRECISIONS
        items = [item for item in self.metric_items or usual if item in table]
        prefix = "" if proposals else f"{metric}_"
        reason = without_objects(true)
        nothing = undefined("CocoMetric", reason) if reason else 0.0
        if not any(len(image["labels"]) for image in true):
            return dict.fromkeys([prefix + item for item in items], nothing)
        if metric == "proposal_fast":
            recalls = recalls_of_proposals(predicted, true, self.iou_thrs, self.proposal_nums)
            values = dict(zip(self._fast.values(), recalls))
        else:
            iou_type = "bbox" if proposals else metric
            arrays = evaluated(predicted, true, self.iou_thrs, self.proposal_nums, iou_type, by_label=not proposals)
            values = arrays.values(self.proposal_nums.index(100) if 100 in self.proposal_nums else -1)
        named = {prefix + item: values.get(table[item], math.nan) for item in items}
        if self.classwise and not proposals:
            prefix = prefix if len(self._objects.shapes) > 1 else ""
            named.update(
                (f"{prefix}{names.get(label, label)}_precision", value) for label, value in arrays.by_label().items()
            )
        return named

    def _of_file(self, predicted: Mapping[Any, Any]) -> tuple[dict[Any, Any], dict[Any, str], dict[Any, Any]]:
        """The true boxes by image and the names of categories in the file; and the predictions with its categories."""
        data = _read(self.ann_file)
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
        whose = [f"{self.ann_file}: image {image!r}" for image in data.imgs]
        targets = [self._annotated(what, image, data, ids) for what, image in zip(whose, data.imgs)]
        true = dict(zip(data.imgs, self._objects.true(whose, targets, may_be_empty=True)))  # a polygon within a pixel
        return true, names, {image: _in_ids(image, its, true[image], ids) for image, its in predicted.items()}

    def _annotated(self, what: str, image: Any, data: Any, ids: np.ndarray) -> dict[str, Any]:
        """The true objects of an image of the file, as a target of `MeanAveragePrecision`."""
        kept = [annotation for annotation in data.imgToAnns.get(image, []) if annotation["category_id"] in ids]
        target: dict[str, Any] = {"labels": [annotation["category_id"] for annotation in kept]}
        for name, missing in (("iscrowd", 0), ("area", np.nan)):
            target[name] = [annotation.get(name, missing) for annotation in kept]
        for shape in self._objects.shapes:
            key = {"boxes": "bbox", "masks": "segmentation"}[shape]
            target[shape] = [annotation.get(key) for annotation in kept]
            if any(one is None or (key == "bbox" and len(one) != 4) for one in target[shape]):
                form = ": [x, y, width, height]" if key == "bbox" else ""
                raise InvalidInputError(f"{what}: an annotation has no {key}{form}")
        if "boxes" in target:
            target["boxes"] = [[x, y, x + width, y + height] for x, y, width, height in target["boxes"]]
        if "masks" in target:
            sides = data.imgs[image].get("height"), data.imgs[image].get("width")
            target["size"] = size_of(f"height and width of {what}", sides)
        return target


def _read(ann_file: str | None) -> Any:
    """COCO's file of annotations."""
    coco = library("faster_coco_eval")
    try:
        return coco.COCO(ann_file)
    except OSError as error:
        raise FileAccessError(f"CocoMetric: ann_file cannot be read: {error}") from error
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"CocoMetric: {ann_file} is no file of COCO's annotations: {type(error).__name__}: {error}"
        ) from error


def _with_boxes(instances: Any) -> Any:
    """MMDetection's predicted objects, by the names of `MeanAveragePrecision`."""
    if not isinstance(instances, Mapping):
        return instances
    return {"boxes" if name == "bboxes" else name: value for name, value in instances.items()}


def _in_ids(image: Any, its: Mapping[str, Any], true: Mapping[str, Any], ids: np.ndarray) -> dict[str, Any]:
    """Predicted objects with the categories of the file."""
    labels = its["labels"]
    if labels.dtype.kind == "U":
        raise InvalidInputError(f"CocoMetric: image {image!r} has the label {labels[0]!r}; with ann_file= give numbers")
    wrong = labels[(labels < 0) | (labels >= len(ids))]
    if wrong.size:
        raise InvalidInputError(f"CocoMetric: image {image!r} has the label {wrong[0]} of {len(ids)} categories")
    if "size" in its and its["size"].tolist() != true["size"].tolist():
        sizes = " x ".join(map(str, its["size"])), " x ".join(map(str, true["size"]))
        raise InvalidInputError(f"CocoMetric: the masks of image {image!r} are {sizes[0]}, but the image is {sizes[1]}")
    return {**its, "labels": ids[labels]}
