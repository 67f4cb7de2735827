"""Detection of text: which regions of an image were found, by the intersection of polygons."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from fleetmetrics.errors import InvalidInputError
from fleetmetrics.formulas.quotients import ratio
from fleetmetrics.support.checks import number_of
from fleetmetrics.support.optional import library
from fleetmetrics.support.vocabulary import counted
from fleetmetrics.support.warning import warn
from fleetmetrics.vision.images import LARGEST, ImageMetric
from fleetmetrics.xp import numpy_ops

__all__ = ["TextDetection"]


class TextDetection(ImageMetric):
    """Precision, recall and hmean of detected text regions, as ICDAR 2015 and PaddleOCR compute them.

    Formula: ``hmean = 2 * precision * recall / (precision + recall)`` with ``precision = matched / found`` and ``recall
    = matched / true`` over all images. In their order, a true region matches the first found one, neither of which is
    matched yet, with an IoU above the threshold. Regions to ignore do not count, nor do found ones of which more than
    half is in one of these.

    ``add(predictions, targets, ignored, ids=)`` takes a list of polygons for each image, each ``[points, 2]``; and a
    list of flags of the true regions to ignore. shapely computes the areas as the images come; workers exchange three
    counts for each. A polygon that crosses itself has no area, and is left out with a warning. Precision is undefined
    without found regions, recall without true ones; hmean is 0 if neither matches.

    Args:
        iou_threshold: the IoU.
        sampler: assigns the images, as for `BaseMetric`; None: `add` takes ids.

    Raises:
        MissingLibraryError: shapely is not installed.
        InvalidInputError: an argument is invalid.

    Examples:
        >>> metric = TextDetection()
        >>> true = [[(0, 0), (4, 0), (4, 1), (0, 1)], [(0, 2), (4, 2), (4, 3), (0, 3)]]
        >>> metric.add([[[(0, 0), (3, 0), (3, 1), (0, 1)]]], [true], ids=["img_1"])
        >>> metric.compute()
        {'precision': 1.0, 'recall': 0.5, 'hmean': 0.6666666666666666}
    """

    better = "higher"
    gives = "parts"

    def __init__(self, iou_threshold: float = 0.5, *, sampler: Any = None) -> None:
        super().__init__(sampler=sampler)
        library("shapely")  # before hours of evaluation
        self.iou_threshold: float = number_of("iou_threshold", iou_threshold, 0, 1)

    def add(self, predictions: Any, targets: Any, ignored: Any = None, *, ids: Any = None) -> None:
        """Add the images of a batch; see the class.

        Args:
            predictions: for each image the polygons that were found.
            targets: for each image the true polygons.
            ignored: for each image a flag for each true polygon; None: all count.
            ids: an integer or string for each image.

        Raises:
            InvalidInputError: an argument is invalid; the batch was not added.
        """
        flags = {} if ignored is None else {"ignored": ignored}
        self._add_images(ids, predictions=predictions, targets=targets, **flags)

    def _columns_of(self, predictions: Any, targets: Any, ignored: Any = None) -> dict[str, Any]:
        images = zip(predictions, targets, [None] * len(targets) if ignored is None else ignored)
        counts = [self._counts(f"[{place}]", *image) for place, image in enumerate(images)]
        return {"counts": np.array(counts, np.int64).reshape(-1, 4)}

    def _counts(self, place: str, predictions: Any, targets: Any, ignored: Any) -> tuple[int, int, int, int]:
        """Of an image: matched, found and true regions that count, and polygons that were left out."""
        shapely = library("shapely")
        predicted, true = _polygons(f"predictions{place}", predictions), _polygons(f"targets{place}", targets)
        flags = numpy_ops.asarray([False] * len(true) if ignored is None else ignored, f"ignored{place}").reshape(-1)
        if len(flags) != len(true):
            raise InvalidInputError(f"ignored{place} has {len(flags)} flags for {len(true)} polygons of targets")
        if not np.isin(flags, (0, 1)).all():
            raise InvalidInputError(f"ignored{place} is {flags.tolist()!r:.80}; it must be 0 or 1 for each polygon")
        sound = shapely.is_valid(true)
        out = flags.astype(bool)[sound]
        left_out, true, predicted = len(true) + len(predicted), true[sound], predicted[shapely.is_valid(predicted)]
        left_out -= len(true) + len(predicted)
        both = shapely.area(shapely.intersection(true[:, None], predicted[None, :]))
        sizes, predicted_sizes = shapely.area(true), shapely.area(predicted)
        in_ignored = (2 * both[out] > predicted_sizes).any(axis=0)
        union = sizes[:, None] + predicted_sizes - both
        near = (both > self.iou_threshold * union)[~out][:, ~in_ignored]
        return _matched(near), int(np.count_nonzero(~in_ignored)), int(np.count_nonzero(~out)), left_out

    def compute_metric(self, results: Any) -> dict[str, float]:
        counts = results["counts"].sum(axis=0).tolist() if results else [0] * 4
        matched, predicted, true, left_out = counts
        if left_out:
            warn(f"{self.name}: {counted(left_out, 'polygons', 'were')} left out: edges cross, or there is no area")
        precision = ratio.bare(matched, predicted, "precision", reason="no region was found")
        recall = ratio.bare(matched, true, "recall", reason="there is no true region")
        return {"precision": precision, "recall": recall, "hmean": 2 * matched / (predicted + true) if matched else 0.0}


def _polygons(what: str, polygons: Sequence[Any]) -> np.ndarray:
    """Polygons of shapely."""
    shapely, shapes = library("shapely"), []
    if not isinstance(polygons, (list, tuple)) and not getattr(polygons, "shape", ()):
        raise InvalidInputError(f"{what} must be a list of polygons [points, 2], not {polygons!r:.80}")
    for number, polygon in enumerate(polygons):
        points = np.asarray(numpy_ops.asarray(polygon, f"polygon {number} of {what}"), np.float64)
        if points.ndim != 2 or points.shape[1] != 2 or len(points) < 3 or not (np.abs(points) < LARGEST).all():
            raise InvalidInputError(
                f"{what}: polygon {number} must be [points, 2], of at least 3 points of numbers below {LARGEST:g}, not "
                f"{polygon!r:.80}"
            )
        shapes.append(shapely.Polygon(points))
    return np.array(shapes, object)


def _matched(near: np.ndarray) -> int:
    """How many rows match: each the first column that no row above has matched."""
    free, matched = np.ones(near.shape[1], bool), 0
    for row in near:
        columns = np.flatnonzero(row & free)
        if columns.size:
            free[columns[0]] = False
            matched += 1
    return matched
