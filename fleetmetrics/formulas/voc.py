"""Average precision of boxes as in PASCAL VOC."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

__all__ = ["INTERPOLATIONS", "average_precisions", "overlaps"]

INTERPOLATIONS = ("area", "11 points")


def overlaps(boxes: np.ndarray, others: np.ndarray, pixel: float = 0.0) -> np.ndarray:
    """Intersection over union ``[n, m]`` of boxes by their corners, which are ``pixel`` wider and higher than that."""
    ends, starts = np.minimum(boxes[:, None, 2:], others[:, 2:]), np.maximum(boxes[:, None, :2], others[:, :2])
    both = np.maximum(ends - starts + pixel, 0).prod(axis=2)
    sizes, other_sizes = ((some[:, 2:] - some[:, :2] + pixel).prod(axis=1) for some in (boxes, others))
    union = sizes[:, None] + other_sizes - both
    return np.asarray(np.divide(both, union, out=np.zeros_like(both), where=union > 0))


def average_precisions(
    predictions: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
    iou: float,
    interpolation: str,
    pixel: float,
) -> dict[Any, float]:
    """The average precision by label, of those with a true box that is not difficult; the images are in one order.

    A predicted box takes the true box of its label that it overlaps most. It is right if they overlap by more than
    ``iou`` and no box of a higher score has taken that one; of equal scores the earlier one counts as higher.
    """
    scores: dict[Any, list[np.ndarray]] = {}
    right: dict[Any, list[np.ndarray]] = {}
    number: dict[Any, int] = {}
    for predicted, true in zip(predictions, targets):
        difficult = true.get("difficult", np.zeros(len(true["labels"]))) != 0
        for label in sorted({*predicted["labels"].tolist(), *true["labels"].tolist()}):
            mine, its = predicted["labels"] == label, true["labels"] == label
            order = np.argsort(-predicted["scores"][mine], kind="stable")
            flags, counts = _right(predicted["boxes"][mine][order], true["boxes"][its], difficult[its], iou, pixel)
            scores.setdefault(label, []).append(predicted["scores"][mine][order][counts])
            right.setdefault(label, []).append(flags[counts])
            number[label] = number.get(label, 0) + int(np.count_nonzero(~difficult[its]))
    return {
        label: _average_precision(np.concatenate(scores[label]), np.concatenate(right[label]), total, interpolation)
        for label, total in sorted(number.items())
        if total
    }


def _right(
    predicted: np.ndarray, true: np.ndarray, difficult: np.ndarray, iou: float, pixel: float
) -> tuple[np.ndarray, np.ndarray]:
    """Which boxes of an image and label, the best first, are right, and which count: not those on a difficult box."""
    flags, counts = np.zeros(len(predicted), bool), np.ones(len(predicted), bool)
    if len(true) and len(predicted):
        overlap = overlaps(predicted, true, pixel)
        best = overlap.argmax(axis=1)
        near = np.flatnonzero(overlap.max(axis=1) > iou)
        flags[near[np.unique(best[near], return_index=True)[1]]] = True
        counts[near[difficult[best[near]]]] = False
    return flags, counts


def _average_precision(scores: np.ndarray, right: np.ndarray, total: int, interpolation: str) -> float:
    hits = right[np.argsort(-scores, kind="stable")].cumsum()
    precision = np.maximum.accumulate((hits / np.arange(1, len(hits) + 1))[::-1])[::-1]  # the best from here on
    if interpolation == "11 points":
        reached = np.searchsorted(10 * hits, np.arange(11) * total)
        return float(np.append(precision, 0.0)[reached].sum() / 11)
    return float((np.diff(hits, prepend=0) * precision).sum() / total)
