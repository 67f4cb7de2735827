"""Metrics of pictures among real workers: the number of one process, with padding and an empty worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from tests.distributed.cluster import run

pytestmark = [pytest.mark.distributed, pytest.mark.numpy_only]
WORKER = Path(__file__).parent / "workers" / "pictures.py"


def features(count: int, seed: int) -> list[Any]:
    """Features, many of which are equally near, labels and cameras."""
    rng = np.random.default_rng(seed)
    shapes = {"low": 0, "high": 3, "size": (count, 5)}
    return [
        (rng.integers(**shapes) + 0.5).tolist(),
        rng.integers(0, 6, count).tolist(),
        (np.arange(count) % 3).tolist(),
    ]


def images(count: int) -> list[Any]:
    """Predicted and true boxes, of any number; many have equal scores."""
    rng = np.random.default_rng(2)
    sides: list[Any] = [[], []]
    for _ in range(count):
        number = int(rng.integers(0, 5))
        corners, sizes = rng.integers(0, 60, (number, 2)), rng.integers(5, 40, (number, 2))
        near, labels = corners + rng.integers(-3, 4, corners.shape), rng.integers(0, 2, number).tolist()
        scores = (rng.integers(0, 5, number) / 4).tolist()
        sides[0].append({"boxes": np.hstack([near, near + sizes]).tolist(), "labels": labels, "scores": scores})
        sides[1].append({"boxes": np.hstack([corners, corners + sizes]).tolist(), "labels": labels})
    return sides


GIVEN = {"queries": features(23, 0), "gallery": features(61, 1), "images": images(37)}


@pytest.fixture(scope="module", params=[2, 5])
def reports(request: Any) -> list[dict[str, Any]]:
    return run(WORKER, request.param, args=GIVEN)


def test_retrieval_has_the_bits_of_one_process(reports):
    metric = fm.Retrieval(topk=(1, 5))
    metric.add(*GIVEN["queries"])
    metric.gallery.add(*GIVEN["gallery"])
    value = metric.compute()
    assert [report["retrieval"] for report in reports] == [value] * len(reports) and 0 < value["mAP"] < 1


def test_retrieval_over_features_of_two_widths_or_without_a_gallery_is_one_error_on_all(reports):
    for report in reports:
        assert report["retrieval_errors"] == reports[0]["retrieval_errors"]
        wide, empty = report["retrieval_errors"]
        assert "Retrieval.gallery: the features of some samples have 2 and of others 3 numbers" in wide
        assert "Retrieval: the gallery is empty" in empty


def test_boxes_have_the_bits_of_one_process(reports):
    found, true = GIVEN["images"]
    ids = range(len(true))
    for name, metric in (("coco", fm.MeanAveragePrecision()), ("voc", fm.VOCMeanAveragePrecision())):
        metric.add(found, true, ids=ids)
        value = metric.compute()
        assert [repr(report["boxes"][name]) for report in reports] == [repr(value)] * len(reports)
        assert 0.2 < value["map"] < 1
    masks = fm.MeanAveragePrecision(iou_type=["bbox", "segm"])
    masks.add(*([{**image, "masks": triangles(image["boxes"])} for image in side] for side in (found, true)), ids=ids)
    value = masks.compute()
    assert [repr(report["boxes"]["masks"]) for report in reports] == [repr(value)] * len(reports)
    assert 0.2 < value["segm_map"] < 1 and value["segm_map"] != value["bbox_map"]
    metric = fm.TextDetection()
    quads = [[[quad(box) for box in image["boxes"]] for image in side] for side in (found, true)]
    metric.add(*quads, ids=ids)
    assert [report["boxes"]["text"] for report in reports] == [metric.compute()] * len(reports)


def triangles(boxes: Any) -> list[Any]:
    """The lower triangle of each box, in the form of pycocotools."""
    from faster_coco_eval.core import mask as coder

    rows, columns = np.ogrid[:110, :110]
    masks = [
        (a <= columns) & (columns < c) & (b <= rows) & (rows < d) & (rows - b >= columns - a) for a, b, c, d in boxes
    ]
    return [coder.encode(np.asfortranarray(mask.astype(np.uint8))) for mask in masks]


def quad(box: Any) -> Any:
    left, top, right, bottom = box
    return [(left, top), (right, top), (right, bottom), (left, bottom)]
