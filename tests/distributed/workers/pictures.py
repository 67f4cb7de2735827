"""One worker of the tests of metrics of pictures: some of the pictures, some of them twice, or none."""

from __future__ import annotations

import os
from typing import Any, Iterator

import numpy as np
from cluster import arguments, error_text, report

import fleetmetrics as fm

rank, workers = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS_NUM"])


def mine(count: int) -> Iterator[np.ndarray]:
    """The pictures in batches: the last worker has none, and the first has the beginning again at the end."""
    places = np.arange(count)[rank :: workers - 1] if rank < workers - 1 else np.arange(0)
    yield from np.array_split(np.append(places, np.arange(3)) if rank == 0 else places, 3)


def retrieval(queries: Any, gallery: Any) -> fm.Retrieval:
    """Everything by its id."""
    metric = fm.Retrieval(topk=(1, 5))
    for side, (features, labels, cameras) in ((metric, queries), (metric.gallery, gallery)):
        for places in filter(len, mine(len(labels))):
            side.add(features[places], labels[places], cameras[places], ids=places)
    return metric


def retrieval_errors() -> list[str]:
    """Only the first worker has another width, or a gallery."""
    wide, empty = fm.Retrieval(), fm.Retrieval()
    wide.gallery.add(np.ones((2, 3 if rank else 2)), [0, 1])
    wide.add(np.ones((1, 3)), [1])
    empty.add(np.ones((1, 3)), [1])
    return [error_text(wide.compute), error_text(empty.compute)]


def boxes(images: Any) -> dict[str, Any]:
    """COCO, VOC, and text regions: each box is its four corners, and a mask."""
    metrics = {"coco": fm.MeanAveragePrecision(), "voc": fm.VOCMeanAveragePrecision(), "text": fm.TextDetection()}
    metrics["masks"] = fm.MeanAveragePrecision(iou_type=["bbox", "segm"])
    found, true = images
    for places in filter(len, mine(len(true))):
        mine_, its = [found[n] for n in places], [true[n] for n in places]
        metrics["coco"].add(mine_, its, ids=places)
        metrics["voc"].add(mine_, its, ids=places)
        metrics["masks"].add(
            *([{**image, "masks": masks(image["boxes"])} for image in side] for side in (mine_, its)), ids=places
        )
        metrics["text"].add(*([list(map(quad, image["boxes"])) for image in side] for side in (mine_, its)), ids=places)
    return {name: metric.compute() for name, metric in metrics.items()}


def masks(boxes: Any) -> np.ndarray:
    """The lower triangle of each box."""
    rows, columns = np.ogrid[:110, :110]
    triangles = [
        (a <= columns) & (columns < c) & (b <= rows) & (rows < d) & (rows - b >= columns - a) for a, b, c, d in boxes
    ]
    return np.array(triangles, bool).reshape(-1, 110, 110)


def quad(box: Any) -> Any:
    left, top, right, bottom = box
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


if __name__ == "__main__":
    images = arguments()["images"]
    report(boxes=boxes(images))
    given = {
        name: [np.array(column) for column in columns] for name, columns in arguments().items() if name != "images"
    }
    report(retrieval=retrieval(given["queries"], given["gallery"]).compute(), retrieval_errors=retrieval_errors())
