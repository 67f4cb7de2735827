"""PASCAL VOC's average precision of boxes."""

from __future__ import annotations

import math
from typing import Any, Sequence

from fleetmetrics.formulas.quotients import undefined
from fleetmetrics.formulas.voc import INTERPOLATIONS, average_precisions
from fleetmetrics.support.checks import choice_of, flag_of, number_of
from fleetmetrics.vision.images import BoxMetric

__all__ = ["VOCMeanAveragePrecision"]


class VOCMeanAveragePrecision(BoxMetric):
    """Average precision of detected boxes, as PASCAL VOC computes it: at one IoU, without difficult boxes.

    Formula: of a label with m true boxes, ``sum_i(p_i) / m`` over those that are found, where p_i is the highest
    precision of the boxes down to a score at which the i-th one is found, or a lower score. For ``"11 points"`` the
    mean of the highest precisions from the recalls 0, 0.1, ..., 1 on. The value is the mean over the
    labels with true boxes.

    ``add(predictions, targets, ids=)`` takes the dicts of `MeanAveragePrecision`; targets may have ``difficult`` [n].
    A predicted box takes the true box of its label that it overlaps most. It is right if the IoU is above the
    threshold, and no box of a higher score has taken that one. Undefined without true boxes.

    Args:
        iou_threshold: the IoU.
        interpolation: ``"area"``, since 2010, or ``"11 points"``, as in 2007 and by default in PaddleDetection.
        inclusive: whether a box includes the pixel of its second corner, as in VOC's own program and PaddleDetection.
        box_format: ``"xyxy"``, ``"xywh"`` or ``"cxcywh"``.
        class_metrics: whether to give ``map_per_class``, by label, too.
        categories: the allowed labels; None: any.
        sampler: assigns the images, as for `BaseMetric`; None: `add` takes ids.

    Examples:
        >>> metric = VOCMeanAveragePrecision()
        >>> predicted = {"boxes": [[0, 0, 9, 9], [20, 20, 29, 29]], "scores": [0.9, 0.8], "labels": [1, 1]}
        >>> metric.add([predicted], [{"boxes": [[0, 0, 10, 10], [50, 50, 60, 60]], "labels": [1, 1]}], ids=[17])
        >>> metric.compute()
        {'map': 0.5}
    """

    better = "higher"
    gives = "parts"
    extras: tuple[str, ...] = ("difficult",)

    def __init__(
        self,
        iou_threshold: float = 0.5,
        interpolation: str = "area",
        inclusive: bool = False,
        *,
        box_format: str = "xyxy",
        class_metrics: bool = False,
        categories: Sequence[int] | None = None,
        sampler: Any = None,
    ) -> None:
        super().__init__(box_format, categories, sampler)
        self.iou_threshold: float = number_of("iou_threshold", iou_threshold, 0, 1)
        self.interpolation: str = choice_of("interpolation", interpolation, INTERPOLATIONS)
        self.inclusive: bool = flag_of("inclusive", inclusive)
        self.class_metrics: bool = flag_of("class_metrics", class_metrics)

    def values_of(self, predicted: Sequence[Any], true: Sequence[Any]) -> dict[str, Any]:
        by_label = average_precisions(predicted, true, self.iou_threshold, self.interpolation, float(self.inclusive))
        if not by_label:
            return {"map": undefined(self.name, "there are no true boxes, other than difficult ones")}
        value = {"map": math.fsum(by_label.values()) / len(by_label)}
        return {**value, "map_per_class": by_label} if self.class_metrics else value
