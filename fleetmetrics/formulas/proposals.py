"""How many true boxes proposals of boxes find, whatever their labels."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from fleetmetrics.formulas.voc import overlaps

__all__ = ["recalls_of_proposals"]


def recalls_of_proposals(
    predictions: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
    ious: Sequence[float],
    most: Sequence[int],
) -> list[float]:
    """The recall of the best boxes of each image, as a mean over the IoUs; crowds do not count; nan without true boxes.

    In each image the box and the true box that overlap most are a pair, then the next two, and so on: other than in
    COCO's evaluation, the pairs do not depend on the scores or the IoU.

    Args:
        predictions: for each image a dict of ``boxes`` by their corners and ``scores``.
        targets: for each image a dict of ``boxes``, and maybe ``iscrowd``.
        ious: the thresholds, which a pair must reach.
        most: how many boxes of an image count.
    """
    pairs: list[list[np.ndarray]] = [[] for _ in most]
    for predicted, true in zip(predictions, targets):
        boxes = true["boxes"][true.get("iscrowd", np.zeros(len(true["boxes"]))) == 0]
        order = np.argsort(-predicted["scores"], kind="stable")
        overlap = overlaps(boxes, predicted["boxes"][order])
        for number, count in enumerate(most):
            pairs[number].append(_of_pairs(overlap[:, :count]))
    return [
        float(np.mean([np.count_nonzero(values >= iou) for iou in ious]) / len(values)) if len(values) else float("nan")
        for values in map(np.concatenate, pairs)
    ]


def _of_pairs(overlap: np.ndarray) -> np.ndarray:
    """The overlap of each pair, largest first, for as many as there are rows; -1 beyond the columns."""
    overlap, values = overlap.copy(), np.full(len(overlap), -1.0)
    for number in range(min(overlap.shape)):
        row, column = np.unravel_index(overlap.argmax(), overlap.shape)
        values[number] = overlap[row, column]
        overlap[row], overlap[:, column] = -1, -1
    return values
