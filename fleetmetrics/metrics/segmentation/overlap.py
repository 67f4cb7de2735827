"""Overlap of predicted and true pixels, from one confusion matrix, or image by image."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np

from fleetmetrics.base.accumulator import Value
from fleetmetrics.base.metric import Quotient
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.confusion import Counts, averaged, counts_of
from fleetmetrics.metrics.classification.averaged import OfConfusion
from fleetmetrics.metrics.segmentation.pixels import OfPixels, PixelSettings, shape_of_images
from fleetmetrics.metrics.task import (
    Task,
    counted,
    counted_rows,
    label_classes,
    number_of_rows,
    predicted_classes,
)
from fleetmetrics.support.checks import choice_of, number_of
from fleetmetrics.support.typed import Required, Unpack

__all__ = ["Dice", "FrequencyWeightedIoU", "MeanIoU", "PixelAccuracy"]


@statistic
def _sum_of_images(batch: Batch, *settings: Any) -> Any:
    return batch.sum_of_rows(_of_images(batch, *settings))


@per_sample
def _of_images(batch: Batch, task: Task, parts: Any, average: str, absent: float | None) -> Any:
    """The value of each image at its first pixel; 0 elsewhere."""
    shape_of_images(batch)
    xp, whole = batch.xp, counted_rows(batch, task)
    right, true, predicted = (xp.cast(count, "float64") for count in _pixels(batch, task))
    above, below = parts(Counts(right, predicted - right, true - right, right, "class"))
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
    right = agree if kept is None else xp.logical_and(agree, kept)
    counts = []
    for classes, flags in ((true, right), (true, kept), (predicted, kept)):
        index = classes if flags is None else xp.where(flags, classes, xp.full_like(classes, size))
        counts.append(xp.counts_of_rows(xp.reshape(index, [-1, batch.width]), size))
    return counts


class OverlapSettings(PixelSettings, total=False):
    """Arguments of every metric of overlap."""

    per: Literal["dataset", "image"]


class OneOverlap(OverlapSettings, total=False):
    """Arguments of a metric of overlap whose value is one number."""

    absent: float | None
    average: Literal["auto", "micro", "macro", "weighted"]


class OverlapEach(OverlapSettings, total=False):
    """Arguments of a metric of overlap whose value has a number for each class."""

    absent: float | None
    average: Required[Literal["none"] | None]


class Overlap(OfPixels[Value], OfConfusion[Value]):
    """A metric of the overlap of each class; arguments as for `MeanIoU`."""

    better = "higher"
    average: str | None = "weighted"
    absent: float | None = None
    per: str
    pictures: tuple[str, ...] = OfConfusion.pictures
    #: What a class is that has no value.
    reason: ClassVar[str] = "neither true nor predicted"

    def __init__(self, *, per: Literal["dataset", "image"] = "dataset", **settings: Unpack[PixelSettings]) -> None:
        super().__init__(**settings)
        self.per = choice_of("per", per, ("dataset", "image"))
        if per == "dataset":
            self._declare_states()
            return
        if self.average is None:
            raise InvalidInputError("average=None needs per='dataset': the value of an image is one number")
        self.pictures = ()
        arguments = ("task", "parts", "average", "absent")
        self.declare("shares", dtype="float64", statistic=_sum_of_images, settings=arguments)
        self.declare("images", statistic=number_of_rows, settings=("task",))

    @property
    def quotient(self) -> Quotient | None:
        return Quotient({"shares": 1}, {"images": 1}, highest=1) if self.per == "image" else None

    @staticmethod
    def parts(counts: Counts) -> tuple[Any, Any]:
        """The numerators and the denominators of the classes, from their pixels of all images, or of each image."""
        raise NotImplementedError

    def formula(self, **states: np.ndarray) -> Any:
        if "confusion" not in states:
            return self._ratio(states["shares"], states["images"])
        counts = counts_of(states["confusion"])
        of = functools.partial(averaged, self._title, self.reason, counts, *self.parts(counts))
        if self.absent is None or self.average not in (None, "macro") or not states["confusion"].any():
            return of(self.average, self.zero_division)
        values = of(None, self.absent)
        return values if self.average is None else float(values.mean())


class AveragedOverlap(Overlap[Value]):
    """A metric of overlap that averages over classes; arguments as for `MeanIoU`."""

    absent: float | None
    average: str | None
    #: The average if none is given.
    usual: ClassVar[str] = "macro"

    def __init__(
        self,
        *,
        absent: float | None = None,
        average: Literal["auto", "micro", "macro", "weighted", "none"] | None = "auto",
        **settings: Unpack[OverlapSettings],
    ) -> None:
        choice_of("average", average, ("auto", "micro", "macro", "weighted", "none", None))
        self.average = {"auto": type(self).usual, "none": None}.get(average, average)  # type: ignore[arg-type]
        self.absent = None if absent is None else number_of("absent", absent, 0, 1)
        super().__init__(**settings)
        self.settle(average=self.average or "none")


class MeanIoU(AveragedOverlap[Value]):
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
        def __init__(self: MeanIoU[float], **settings: Unpack[OneOverlap]) -> None: ...
        @overload
        def __init__(self: MeanIoU[np.ndarray], **settings: Unpack[OverlapEach]) -> None: ...
        def __init__(self, **settings: Any) -> None: ...

    @staticmethod
    def parts(counts: Counts) -> tuple[Any, Any]:
        return counts.tp, counts.either


class Dice(AveragedOverlap[Value]):
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
        def __init__(self: Dice[float], **settings: Unpack[OneOverlap]) -> None: ...
        @overload
        def __init__(self: Dice[np.ndarray], **settings: Unpack[OverlapEach]) -> None: ...
        def __init__(self, **settings: Any) -> None: ...

    @staticmethod
    def parts(counts: Counts) -> tuple[Any, Any]:
        return 2.0 * counts.tp, counts.support + counts.predicted


class PixelAccuracy(AveragedOverlap[Value]):
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
        def __init__(self: PixelAccuracy[float], **settings: Unpack[OneOverlap]) -> None: ...
        @overload
        def __init__(self: PixelAccuracy[np.ndarray], **settings: Unpack[OverlapEach]) -> None: ...
        def __init__(self, **settings: Any) -> None: ...

    reason = "never true"
    usual = "micro"

    @staticmethod
    def parts(counts: Counts) -> tuple[Any, Any]:
        return counts.tp, counts.support

    def formula(self, **states: np.ndarray) -> Any:
        if self.average != "micro" or "confusion" not in states:
            return super().formula(**states)
        return self._ratio(states["confusion"].diagonal().sum(), states["confusion"].sum())


class FrequencyWeightedIoU(Overlap[float]):
    """Mean intersection over union in which each class has the weight of its true pixels.

    Formula: ``sum_k(t_k / n * iou_k)``, where ``t_k`` of ``n`` pixels are of class k. Otherwise like `MeanIoU`, without
    ``average`` and ``absent``: an absent class has no weight.

    Examples:
        >>> metric = FrequencyWeightedIoU(num_classes=3)
        >>> metric.add([[[0, 0], [1, 1]]], [[[0, 1], [1, 1]]])
        >>> metric.compute()
        0.625
    """

    @staticmethod
    def parts(counts: Counts) -> tuple[Any, Any]:
        return counts.tp, counts.either
