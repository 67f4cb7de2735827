"""Overlap of predicted and true pixels, from one confusion matrix, or image by image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Sequence, overload

import numpy as np

from fleetmetrics import formulas
from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Quotient, Settings
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.batch.rules import Requirement
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.metrics.classification.averaged import OfConfusion
from fleetmetrics.metrics.task import (
    Task,
    class_axis_of,
    counted,
    counted_rows,
    label_classes,
    number_of_rows,
    predicted_classes,
    task_of,
)
from fleetmetrics.support.checks import choice_of, number_of
from fleetmetrics.support.typed import Required, Unpack

__all__ = ["Dice", "FrequencyWeightedIoU", "MeanIoU", "PixelAccuracy"]

#: For each measure the numerator and the denominator of a class, by its pixels that are right, true and predicted.
_PARTS: dict[str, Any] = {
    "iou": lambda right, true, predicted: (right, true + predicted - right),
    "dice": lambda right, true, predicted: (right + right, true + predicted),
    "accuracy": lambda right, true, predicted: (right, true),
}


def shape_of_images(batch: Batch) -> tuple[int, ...]:
    """The shape of each image of a batch; raises if it has none."""
    if batch.full is None or len(batch.full) < 3:
        shape = [batch.rows] if batch.full is None else list(batch.full)
        raise InvalidInputError(
            f"label must be images [n, height, width], or volumes, with an axis more, not of shape {shape}; of one "
            "image give label[None]"
        )
    return batch.full[1:]


@statistic
def _sum_of_images(batch: Batch, task: Task, measure: str, average: str, absent: float | None) -> Any:
    return batch.sum_of_rows(_of_images(batch, task, measure, average, absent))


@per_sample
def _of_images(batch: Batch, task: Task, measure: str, average: str, absent: float | None) -> Any:
    """The value of each image at its first pixel; 0 elsewhere."""
    shape_of_images(batch)
    xp, whole = batch.xp, counted_rows(batch, task)
    right, true, predicted = (xp.cast(count, "float64") for count in _pixels(batch, task))
    above, below = _PARTS[measure](right, true, predicted)
    if average == "micro":
        above, below = xp.sum_of_rows(above), xp.sum_of_rows(below)
    shares = xp.divide(above, xp.or_one(below))
    if average == "weighted":
        shares = xp.divide(xp.sum_of_rows(shares * true), xp.or_one(xp.sum_of_rows(true)))
    elif average == "macro":
        present = xp.sum_of_rows(xp.cast(xp.greater(below, 0), "float64"))
        total = xp.sum_of_rows(shares)
        if absent is None:
            shares = xp.divide(total, xp.or_one(present))
        else:
            shares = xp.scale(total + xp.scale(task.size - present, absent), 1 / task.size)
    values = xp.repeat(shares, batch.width)
    return xp.where(whole, values, xp.zeros_like(values))


def _pixels(batch: Batch, task: Task) -> list[Any]:
    """How many pixels of each image ``[images, classes]`` are of a class and predicted so, of it, or predicted so."""
    xp, size = batch.xp, task.size
    true, predicted = label_classes(batch, task), predicted_classes(batch, task)
    kept, agree = counted(batch, task), xp.equal(true, predicted)
    if not batch.checked:  # others are in no count
        valid = xp.logical_and(xp.is_class(true, size), xp.is_class(predicted, size))
        kept = valid if kept is None else xp.logical_and(valid, kept)
    counts = []
    for classes, flags in (
        (true, agree if kept is None else xp.logical_and(agree, kept)),
        (true, kept),
        (predicted, kept),
    ):
        index = classes if flags is None else xp.where(flags, classes, xp.full_like(classes, size))
        counts.append(xp.counts_of_rows(xp.reshape(index, [-1, batch.width]), size))
    return counts


class PixelSettings(Settings, total=False):
    """Arguments of every metric of pixels, besides ``num_classes``."""

    per: Literal["dataset", "image"]
    ignore_index: int | Sequence[int] | None
    class_axis: int | None


class OnePixelValue(PixelSettings, total=False):
    """Arguments of a metric of pixels whose value is one number."""

    num_classes: Required[int]
    absent: float | None
    average: Literal["auto", "micro", "macro", "weighted"]


class PixelValueEach(PixelSettings, total=False):
    """Arguments of a metric of pixels whose value has a number for each class."""

    num_classes: Required[int]
    absent: float | None
    average: Required[Literal["none"] | None]


class AllPixelSettings(PixelSettings, total=False):
    """Arguments of a metric of pixels that averages over classes."""

    num_classes: Required[int]
    absent: float | None
    average: Literal["auto", "micro", "macro", "weighted", "none"] | None


class Pixels(OfConfusion[Value]):
    """A metric of the pixels of each class; arguments as for `MeanIoU`."""

    better = "higher"
    average: str | None = "weighted"
    absent: float | None = None
    class_axis: int | None
    per: str
    pictures: tuple[str, ...] = OfConfusion.pictures
    requirements: tuple[str | Requirement, ...]
    task: Task
    #: The function of a confusion matrix, and its measure in `_PARTS`.
    function: ClassVar[Any]
    measure: ClassVar[str]

    def __init__(
        self,
        *,
        num_classes: int,
        per: Literal["dataset", "image"] = "dataset",
        ignore_index: int | Sequence[int] | None = None,
        class_axis: int | None = 1,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self.class_axis = class_axis_of(class_axis)
        self.per = choice_of("per", per, ("dataset", "image"))
        if per == "image" and self.average is None:
            raise InvalidInputError("average=None needs per='dataset': the value of an image is one number")
        self.task = task_of("multiclass", num_classes, ignore_index=ignore_index)
        self.settle(num_classes=self.task.size, ignore_index=self.task.ignore_index)
        self.requirements = self.task.rules
        self._declare_states()

    def _declare_states(self) -> None:
        if self.per == "dataset":
            super()._declare_states()
            return
        self.pictures = ()
        arguments = ("task", "measure", "average", "absent")
        self.declare("shares", dtype="float64", statistic=_sum_of_images, settings=arguments)
        self.declare("images", statistic=number_of_rows, settings=("task",))

    @property
    def cell_states(self) -> tuple[str, ...]:
        """See `Metric.cell_states`; an image is in no cell."""
        return super().cell_states if self.per == "dataset" else ()

    @property
    def quotient(self) -> Quotient | None:
        return Quotient({"shares": 1}, {"images": 1}, highest=1) if self.per == "image" else None

    def formula(self, **states: np.ndarray) -> Any:
        if "confusion" not in states:
            return self._ratio(states["shares"], states["images"])
        confusion, function = states["confusion"], type(self).function.bare
        if self.absent is None or self.average not in (None, "macro") or not confusion.any():
            return function(confusion, self.average, self.zero_division)
        values = function(confusion, None, self.absent)
        return values if self.average is None else float(values.mean())


class Overlap(Pixels[Value]):
    """A metric that averages over classes; arguments as for `MeanIoU`."""

    absent: float | None
    average: str | None
    #: The average if none is given.
    usual: ClassVar[str] = "macro"

    def __init__(
        self,
        *,
        num_classes: int,
        absent: float | None = None,
        average: Literal["auto", "micro", "macro", "weighted", "none"] | None = "auto",
        **settings: Unpack[PixelSettings],
    ) -> None:
        choice_of("average", average, ("auto", "micro", "macro", "weighted", "none", None))
        self.average = {"auto": type(self).usual, "none": None}.get(average, average)  # type: ignore[arg-type]
        self.absent = None if absent is None else number_of("absent", absent, 0, 1)
        super().__init__(num_classes=num_classes, **settings)
        self.settle(average=self.average or "none")


class MeanIoU(Overlap[Value]):
    """Mean intersection over union of the classes of segmented images: mIoU.

    Formula: ``tp / (tp + fp + fn)`` per class over the pixels of all images, then the mean over the classes. With
    ``per="image"`` both for each image, and then the mean over the images.

    ``add(prediction, label)`` takes predicted classes ``[n, height, width]`` or scores ``[n, num_classes, height,
    width]`` (the class of the highest is predicted), and labels ``[n, height, width]``; volumes have one axis more.
    Weights and masks are per image, ``[n]``, or with ``per="dataset"`` per pixel. Undefined without pixels.

    Args:
        num_classes: the number of classes, at least 2, with the background if that is one.
        per: ``"dataset"``: count the pixels of all images; ``"image"``: the mean of the images' values. An image whose
            pixels are all ignored does not count.
        absent: the value in [0, 1] of a class that is neither true nor predicted; None leaves it out of the mean, as
            MMSegmentation and torchmetrics do, and gives nan for it with ``average=None``. In PaddleSeg it is 1 for the
            IoU, in releases up to 2.9 and for Dice 0.
        average: ``"macro"``: the mean over the classes; ``"weighted"``: weighted by their pixels, see
            `FrequencyWeightedIoU`; ``"micro"``: of the summed counts of all classes; None (or ``"none"``): an array
            with a value per class.
        ignore_index: pixels with this label, or one of several in a list, do not count; often 255.
        class_axis: the axis of the scores that holds the classes; None: the last.

    Examples:
        >>> metric = MeanIoU(num_classes=3)
        >>> metric.add([[[0, 0], [1, 1]]], [[[0, 1], [1, 1]]])
        >>> round(metric.compute(), 6)
        0.583333
        >>> metric = MeanIoU(num_classes=3, average=None, absent=1)
        >>> metric.add([[[0, 0], [1, 1]]], [[[0, 1], [1, 1]]])
        >>> metric.compute().round(6).tolist()
        [0.5, 0.666667, 1.0]
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: MeanIoU[float], **settings: Unpack[OnePixelValue]) -> None: ...
        @overload
        def __init__(self: MeanIoU[np.ndarray], **settings: Unpack[PixelValueEach]) -> None: ...
        def __init__(self, **settings: Unpack[AllPixelSettings]) -> None: ...

    function = formulas.jaccard
    measure = "iou"


class Dice(Overlap[Value]):
    """Dice coefficient of the classes of segmented images: twice the intersection over the sum of the areas.

    Formula: ``2 * tp / (2 * tp + fp + fn)`` per class, then the mean over the classes. Otherwise like `MeanIoU`.

    Examples:
        >>> metric = Dice(num_classes=2, average=None)
        >>> metric.add([[[0, 0], [1, 1]]], [[[0, 1], [1, 1]]])
        >>> metric.compute().round(6).tolist()
        [0.666667, 0.8]
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: Dice[float], **settings: Unpack[OnePixelValue]) -> None: ...
        @overload
        def __init__(self: Dice[np.ndarray], **settings: Unpack[PixelValueEach]) -> None: ...
        def __init__(self, **settings: Unpack[AllPixelSettings]) -> None: ...

    function = formulas.f_beta
    measure = "dice"


class PixelAccuracy(Overlap[Value]):
    """Share of the pixels of segmented images whose class is predicted correctly.

    Formula: ``sum(tp) / n`` over all n pixels. ``average="macro"`` is the mean over the classes of ``tp / (tp + fn)``:
    mean class accuracy, mAcc; a class that is never true is absent. Otherwise like `MeanIoU`.

    Args:
        average: ``"micro"`` (the default), ``"macro"``, ``"weighted"`` or None, as for `MeanIoU`.
        **settings: as for `MeanIoU`.

    Examples:
        >>> metric = PixelAccuracy(num_classes=2)
        >>> metric.add([[[0, 0], [1, 1]]], [[[0, 1], [1, 1]]])
        >>> metric.compute()
        0.75
    """

    if TYPE_CHECKING:

        @overload
        def __init__(self: PixelAccuracy[float], **settings: Unpack[OnePixelValue]) -> None: ...
        @overload
        def __init__(self: PixelAccuracy[np.ndarray], **settings: Unpack[PixelValueEach]) -> None: ...
        def __init__(self, **settings: Unpack[AllPixelSettings]) -> None: ...

    function = formulas.confusion_accuracy
    measure = "accuracy"
    usual = "micro"


class FrequencyWeightedIoU(Pixels[float]):
    """Mean intersection over union in which each class has the weight of its true pixels.

    Formula: ``sum_k(t_k / n * iou_k)``, where ``t_k`` of ``n`` pixels are of class k. Otherwise like `MeanIoU`, without
    ``average`` and ``absent``: an absent class has no weight.

    Examples:
        >>> metric = FrequencyWeightedIoU(num_classes=3)
        >>> metric.add([[[0, 0], [1, 1]]], [[[0, 1], [1, 1]]])
        >>> metric.compute()
        0.625
    """

    function = formulas.jaccard
    measure = "iou"
