"""Distance of the boundaries of predicted and true segments, image by image, over SciPy."""

from __future__ import annotations

import math
import operator
from typing import Any, ClassVar, Sequence

import numpy as np

from fleetmetrics.base.metric import Quotient
from fleetmetrics.batch import Batch, per_sample, statistic
from fleetmetrics.errors import InvalidInputError, StaticProgramError
from fleetmetrics.metrics.segmentation.pixels import OfPixels, PixelSettings, shape_of_images
from fleetmetrics.metrics.task import Task, counted, counted_rows, label_classes, predicted_classes
from fleetmetrics.support.checks import number_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.typed import Unpack
from fleetmetrics.xp import is_static

__all__ = ["BoundaryF", "HausdorffDistance"]


def _distances(prediction: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From each boundary pixel of one mask the distance to the other's boundary, both ways; empty without pixels."""
    ndimage = library("scipy.ndimage")
    place = tuple(
        slice(int(kept[0]), int(kept[-1]) + 1)
        for axis in range(truth.ndim)
        for kept in [np.flatnonzero((prediction | truth).any(axis=tuple({*range(truth.ndim)} - {axis})))]
    )
    edges = [mask[place] & ~ndimage.binary_erosion(mask[place]) for mask in (prediction, truth)]
    if not all(edge.any() for edge in edges):
        return np.empty(0), np.empty(0)
    one, other = edges
    return ndimage.distance_transform_edt(~other)[one], ndimage.distance_transform_edt(~one)[other]


@per_sample
def _of_images(
    batch: Batch, task: Task, classes: tuple[int, ...], measure: Any, argument: float, missed: float | None
) -> Any:
    """The mean over the classes of each image, at its first pixel, and flags of the images that have a class."""
    xp = batch.xp
    if is_static(batch.each):
        raise StaticProgramError("SciPy computes this of arrays: fetch prediction and label, and add them")
    shape = shape_of_images(batch)
    whole = xp.host(counted_rows(batch, task)).reshape(-1, batch.width)
    kept = counted(batch, task)
    both = []
    for array in (predicted_classes(batch, task), label_classes(batch, task)):
        array = xp.host(array) if kept is None else np.where(xp.host(kept), xp.host(array), -1)
        both.append(array.reshape(-1, *shape))
    values = np.zeros(whole.shape)
    for row, (prediction, truth) in enumerate(zip(*both)):
        masks = [(prediction == number, truth == number) for number in classes]
        pairs = [_distances(*pair) for pair in masks if pair[0].any() or pair[1].any()]
        far = math.dist(truth.shape, [1] * truth.ndim) if missed is None else missed
        whole[row, 0] &= bool(pairs)
        if whole[row, 0]:
            values[row, 0] = np.mean([measure(*pair, argument) if pair[0].size else far for pair in pairs])
    return xp.asarray(values.reshape(-1), "value"), xp.asarray(whole.reshape(-1), "flags")


@statistic
def _sum(batch: Batch, *settings: Any) -> Any:
    return batch.sum_of_rows(_of_images(batch, *settings)[0])


@statistic
def _images(batch: Batch, *settings: Any) -> Any:
    return batch.sum_of_rows(_of_images(batch, *settings)[1])


def _classes_of(classes: Any, num_classes: int) -> tuple[int, ...]:
    """The argument ``classes``, sorted."""
    try:
        numbers = sorted({operator.index(number) for number in classes})
    except TypeError:
        numbers = []
    if not numbers or not 0 <= numbers[0] <= numbers[-1] < num_classes:
        raise InvalidInputError(f"classes must be numbers from 0 to {num_classes - 1}, not {classes!r}")
    return tuple(numbers)


class BoundarySettings(PixelSettings, total=False):
    """Arguments of every metric of boundaries."""

    classes: Sequence[int] | None


class Boundaries(OfPixels[float]):
    """A metric of the boundaries of segments; arguments as for `BoundaryF`."""

    classes: tuple[int, ...]
    #: The attribute that `measure` gets.
    argument: ClassVar[str]
    #: The value of a class that is true or predicted only; None: the diagonal of the image.
    missed: float | None = 0.0

    def __init__(self, *, classes: Sequence[int] | None = None, **settings: Unpack[PixelSettings]) -> None:
        super().__init__(**settings)
        size = self.task.size
        self.classes = _classes_of(range(1, size) if classes is None else classes, size)
        self.settle(classes=self.classes)
        arguments = ("task", "classes", "measure", self.argument, "missed")
        self.declare("distance", dtype="float64", statistic=_sum, settings=arguments)
        self.declare("images", statistic=_images, settings=arguments)

    @staticmethod
    def measure(found: np.ndarray, true: np.ndarray, argument: float) -> float:
        """The value of a class, from the distance of each pixel of both boundaries to the other one."""
        raise NotImplementedError

    def formula(self, distance: np.ndarray, images: np.ndarray) -> float:
        return self._ratio(distance, images, "no image has a pixel of these classes")


class BoundaryF(Boundaries):
    """F score of the boundaries of segments: how much of them is near the other boundary; needs SciPy.

    Formula: ``2 * P * R / (P + R)``, where P is the share of the predicted boundary pixels of a class within
    ``tolerance`` of a true one, and R that of the true ones; the mean over the classes of an image that are true or
    predicted, then over the images. A class that is only one of both counts as 0. The boundary are the pixels of a
    class with a neighbor, by side, of another class or outside the image.

    Inputs as for `MeanIoU`, by image; tensors are copied to the host. Not for static programs. Undefined if no image
    has such a class.

    Args:
        num_classes: as for `MeanIoU`.
        tolerance: in pixels, at least 0.
        classes: those that count; None: all but 0, the background.
        ignore_index: as for `MeanIoU`; such pixels are of no class.
        class_axis: as for `MeanIoU`.

    Examples:
        >>> import numpy as np
        >>> metric = BoundaryF(num_classes=2, tolerance=1)
        >>> truth = np.zeros((1, 8, 8), int)
        >>> truth[0, 2:6, 2:6] = 1
        >>> metric.add(np.roll(truth, 1, axis=2), truth)
        >>> metric.compute()
        1.0
    """

    better = "higher"
    quotient: Quotient | None = Quotient({"distance": 1}, {"images": 1}, highest=1)
    argument: ClassVar[str] = "tolerance"

    tolerance: float

    def __init__(self, *, tolerance: float = 2.0, **settings: Unpack[BoundarySettings]) -> None:
        self.tolerance = number_of("tolerance", tolerance, 0)
        super().__init__(**settings)

    @staticmethod
    def measure(found: np.ndarray, true: np.ndarray, argument: float) -> float:
        near = [float((distances <= argument).mean()) for distances in (found, true)]
        return 2 * near[0] * near[1] / sum(near) if all(near) else 0.0


class HausdorffDistance(Boundaries):
    """Hausdorff distance of predicted and true segments, in pixels: the largest distance to the other boundary.

    Formula: ``max(max_p min_y |p - y|, max_y min_p |p - y|)`` over the boundary pixels of a class, the mean over the
    classes of an image that are true or predicted, then over the images. Otherwise like `BoundaryF`.

    Args:
        percentile: of the distances in place of the maximum, in [1, 100]; 95 for HD95.
        missed: the distance of a class that is true or predicted only, at least 0; None: the diagonal of the image, as
            no distance is larger. In MONAI it is infinite, and so is then the mean.
        **settings: as for `BoundaryF`, without ``tolerance``.

    Examples:
        >>> import numpy as np
        >>> metric = HausdorffDistance(num_classes=2)
        >>> truth = np.zeros((1, 8, 8), int)
        >>> truth[0, 2:6, 2:6] = 1
        >>> metric.add(np.roll(truth, 2, axis=2), truth)
        >>> metric.compute()
        2.0
    """

    better = "lower"
    argument: ClassVar[str] = "percentile"

    missed: float | None
    percentile: float

    def __init__(
        self, *, percentile: float = 100.0, missed: float | None = None, **settings: Unpack[BoundarySettings]
    ) -> None:
        self.percentile = number_of("percentile", percentile, 1, 100)
        self.missed = None if missed is None else number_of("missed", missed, 0)
        super().__init__(**settings)

    @staticmethod
    def measure(found: np.ndarray, true: np.ndarray, argument: float) -> float:
        return max(float(np.percentile(distances, argument)) for distances in (found, true))
