"""Segmented images: what scikit-learn computes from the pixels of all images, or of each."""

from __future__ import annotations

import functools
from typing import Any, Callable

import numpy as np

import fleetmetrics as fm
from tests.cases.base import Case, scores
from tests.cases.classification import positions, sklearn

Rng = np.random.Generator
SETTINGS: dict[str, Any] = {"num_classes": 6}


def masks(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Images of 3 x 4 predicted classes, in a few of which a class is absent; 77 is ignored."""
    label = rng.integers(0, rng.integers(1, 6, (samples, 1, 1)), (samples, 3, 4))
    prediction = np.where(rng.random(label.shape) < 0.6, label, rng.integers(0, 5, label.shape))
    return prediction.astype(dtype), np.where(rng.random(label.shape) < 0.2, 77, label).astype(label_dtype)


def of_pixels(name: str, **options: Any) -> Callable[..., Any]:
    """scikit-learn's function of all pixels that are not ignored, each with the weight of its image."""
    function = sklearn(name, ignored=77, **options)

    def reference(p: Any, y: Any, w: Any) -> Any:
        return function(p.reshape(-1), y.reshape(-1), None if w is None else np.repeat(w, y[0].size))

    return reference


def of_images(name: str, absent: float | None = None) -> Callable[..., Any]:
    """The weighted mean of the images' means over the classes that occur, or with a value for those that do not."""

    def reference(p: Any, y: Any, w: Any) -> float:
        from sklearn import metrics

        values, weights = [], []
        for image, truth, weight in zip(p, y.astype(int), np.ones(len(p)) if w is None else w):
            keep = truth != 77
            if keep.any():
                pair = truth[keep], image[keep].astype(int)
                occur = np.unique(pair)
                each = getattr(metrics, name)(*pair, average=None, labels=occur)
                values.append(each.mean() if absent is None else (each.sum() + absent * (6 - len(occur))) / 6)
                weights.append(weight)
        return float(np.average(values, weights=weights)) if np.sum(weights) else np.nan

    return reference


def by_pixel(measure: Callable[[Any, Any], float]) -> Callable[..., float]:
    """A measure of the distances between boundary pixels, of all pairs at once: the mean over classes, then images."""

    def edges(mask: Any) -> Any:
        padded = np.pad(mask, 1)
        inside = padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
        return np.argwhere(mask & ~inside)

    def reference(p: Any, y: Any, w: Any) -> float:
        from scipy.spatial.distance import cdist

        values, weights = [], []
        for image, truth, weight in zip(p, y, np.ones(len(p)) if w is None else w):
            image = np.where(truth == 77, 77, image)
            pairs = [[edges(x == c) for x in (image, truth)] for c in range(1, 6)]
            tables = [cdist(*pair) for pair in pairs if any(map(len, pair))]
            if tables:
                values.append(np.mean([measure(table.min(1), table.min(0)) if table.size else 0 for table in tables]))
                weights.append(weight)
        return float(np.average(values, weights=weights)) if np.sum(weights) else np.nan

    return reference


def near(found: Any, true: Any) -> float:
    shares = [np.mean(distances <= 1) for distances in (found, true)]
    return 2 * shares[0] * shares[1] / sum(shares) if all(shares) else 0.0


def squares(rng: Rng, samples: int, dtype: str, label_dtype: str) -> tuple[Any, Any]:
    """Images in which every class has pixels in prediction and label."""
    label = rng.permuted(np.tile(np.arange(24) % 6, (samples, 1)), axis=1)
    prediction = np.roll(label, 1, axis=1)
    return prediction.reshape(-1, 4, 6).astype(dtype), label.reshape(-1, 4, 6).astype(label_dtype)


IMAGES: dict[str, Any] = {"shapes": ("[n]",), "kinds": "i", "by_row": True}
CASES = {
    "mean iou": Case(
        functools.partial(fm.MeanIoU, **SETTINGS, ignore_index=77),
        masks,
        of_pixels("jaccard_score", average="macro"),
        **IMAGES,
    ),
    "mean iou of images of scores": Case(
        functools.partial(fm.MeanIoU, **SETTINGS, per="image", absent=1),
        positions(scores),
        lambda p, y, w: of_images("jaccard_score", 1)(p.argmax(axis=1), y, w),
        shapes=("[n]",),
        kinds="fi",
        by_row=True,
    ),
    "dice of images": Case(
        functools.partial(fm.Dice, **SETTINGS, ignore_index=77, per="image"), masks, of_images("f1_score"), **IMAGES
    ),
    "pixel accuracy": Case(
        functools.partial(fm.PixelAccuracy, **SETTINGS, ignore_index=77),
        masks,
        of_pixels("accuracy_score"),
        exact=True,
        **IMAGES,
    ),
    "frequency weighted iou": Case(
        functools.partial(fm.FrequencyWeightedIoU, **SETTINGS, ignore_index=77),
        masks,
        of_pixels("jaccard_score", average="weighted"),
        **IMAGES,
    ),
    "boundary f": Case(
        functools.partial(fm.BoundaryF, **SETTINGS, ignore_index=77, tolerance=1),
        masks,
        by_pixel(near),
        modes=("numpy", "dynamic"),
        **IMAGES,
    ),
    "hausdorff distance": Case(
        functools.partial(fm.HausdorffDistance, **SETTINGS, percentile=90),
        squares,
        by_pixel(lambda found, true: max(np.percentile(found, 90), np.percentile(true, 90))),
        modes=("numpy", "dynamic"),
        **IMAGES,
    ),
}
