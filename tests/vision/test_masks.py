"""Masks of COCO: the library's own numbers from booleans, run lengths and polygons, and what is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import evaluator
from fleetmetrics.vision.masks import run_lengths

pytestmark = pytest.mark.numpy_only
pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")

NAMES = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large", "mar_1", "mar_10", "mar_100")
NAMES += ("mar_small", "mar_medium", "mar_large")


def ellipse(center: Any, radii: Any, size: tuple[int, int]) -> np.ndarray:
    rows, columns = np.ogrid[: size[0], : size[1]]
    return ((rows - center[0]) / radii[0]) ** 2 + ((columns - center[1]) / radii[1]) ** 2 <= 1


def images(count: int, labels: int = 3) -> tuple[list[Any], list[Any]]:
    """Predicted and true masks in images of several sizes; some scores are equal, some predicted masks are empty."""
    rng = np.random.default_rng(0)
    found, true = [], []
    for _ in range(count):
        objects, size = int(rng.integers(0, 5)), (int(rng.integers(90, 150)), int(rng.integers(90, 200)))
        centers, radii = rng.random((objects, 2)) * 100, rng.random((objects, 2)) * rng.choice([10, 40, 120]) + 2
        masks = [ellipse(*form, size) for form in zip(centers, radii)]
        near = rng.integers(0, max(objects, 1), 2 * objects)
        guesses = [ellipse(centers[n] + rng.normal(size=2), radii[n] * rng.uniform(0.8, 1.2), size) for n in near]
        guesses += [np.zeros(size, bool)]
        label, scores = rng.integers(0, labels, objects), rng.integers(0, 8, len(guesses)) / 8
        found.append({"masks": np.array(guesses), "scores": scores, "labels": np.append(label[near], 0)})
        flags = (rng.random(objects) < 0.2).astype(int)
        true.append({"masks": np.array(masks).reshape(-1, *size), "labels": label, "iscrowd": flags})
    return found, true


def encoded(mask: np.ndarray) -> dict[str, Any]:
    """As pycocotools gives it."""
    from faster_coco_eval.core import mask as coder

    return dict(coder.encode(np.asfortranarray(mask.astype(np.uint8))))


def bounds(masks: Any) -> list[list[int]]:
    """The boxes of masks, by their corners."""
    sides = [(mask.any(axis=1).nonzero()[0], mask.any(axis=0).nonzero()[0]) for mask in masks]
    return [[int(c[0]), int(r[0]), int(c[-1]) + 1, int(r[-1]) + 1] if r.size else [0, 0, 0, 0] for r, c in sides]


def files(found: Any, true: Any, iou_type: str = "segm", area: str = "segm") -> tuple[dict[str, Any], list[Any]]:
    """What COCO's two files would hold: predicted boxes or masks, and the area of the true boxes or masks."""
    sides: list[list[Any]] = [[], []]
    for image, (mine, its) in enumerate(zip(found, true)):
        for side, objects in ((sides[0], its), (sides[1], mine)):
            masks = objects["masks"]
            for n, (mask, (x, y, x2, y2), label) in enumerate(zip(masks, bounds(masks), objects["labels"].tolist())):
                rle = {"size": list(mask.shape), "counts": encoded(mask)["counts"].decode()}
                forms = {"segmentation": rle, "bbox": [x, y, x2 - x, y2 - y]}
                one: dict[str, Any] = {"image_id": image, "category_id": label}
                if side is sides[0]:
                    size = int(mask.sum()) if area == "segm" else (x2 - x) * (y2 - y)
                    one.update(forms, id=len(side) + 1, area=size, iscrowd=int(objects["iscrowd"][n]))
                else:
                    form = "segmentation" if iou_type == "segm" else "bbox"
                    one.update({form: forms[form], "score": float(objects["scores"][n])})
                side.append(one)
    categories = [{"id": label, "name": f"class {label}"} for label in range(3)]
    pictures = [dict(zip(("id", "height", "width"), (n, *image["masks"].shape[1:]))) for n, image in enumerate(found)]
    return {"images": pictures, "annotations": sides[0], "categories": categories}, sides[1]


def of_coco(
    found: Any, true: Any, iou_type: str = "segm", area: str = "segm", by_label: bool = True
) -> dict[str, float]:
    """The library's own number, from what would be in its files."""
    from faster_coco_eval import COCO, COCOeval_faster

    data = COCO()
    data.dataset, answers = files(found, true, iou_type, area)
    data.createIndex()
    evaluation = COCOeval_faster(data, data.loadRes(answers), iou_type)
    evaluation.params.useCats = int(by_label)
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return dict(zip(NAMES, [value if value > -1 else math.nan for value in evaluation.stats.tolist()]))


def same(values: Any, expected: Any) -> bool:
    return repr({name: values[name] for name in expected}) == repr(expected)


FOUND, TRUE = images(12)


def in_form(image: dict[str, Any], form: str) -> dict[str, Any]:
    """The masks of an image as a list of dicts: compressed as bytes or text, or not."""
    rles = [encoded(mask) for mask in image["masks"]]
    for rle, mask in zip(rles, image["masks"]):
        if form == "text":
            rle["counts"] = rle["counts"].decode()
        if form == "runs":
            flat = np.concatenate([[0], mask.T.reshape(-1).astype(int), [-1]])
            rle["counts"] = np.diff(np.flatnonzero(np.diff(flat)), prepend=0).tolist()
    return {**image, "masks": rles if form != "booleans" else image["masks"]}


@pytest.mark.parametrize("form", ["booleans", "bytes", "text", "runs"])
def test_average_precision_of_masks_is_the_librarys_own(form):
    metric = fm.MeanAveragePrecision(iou_type="segm")
    for ids in np.array_split(np.append(np.random.default_rng(1).permutation(12), [3, 4]), 3):
        sides = [[in_form(side[n], form) for n in ids] for side in (FOUND, TRUE)]
        metric.add(*sides, ids=ids)
    values = metric.compute()
    assert same(values, of_coco(FOUND, TRUE)) and 0.1 < values["map"] < 0.9


def test_boxes_and_masks_together_have_the_values_of_each():
    boxes = [
        [{**image, "boxes": [[n, 0, n + 9, 9] for n in range(len(image["labels"]))]} for image in side]
        for side in (FOUND, TRUE)
    ]
    values = {}
    for iou_type in ("bbox", "segm", ["bbox", "segm"]):
        metric = fm.MeanAveragePrecision(iou_type=iou_type)
        metric.add(*boxes, ids=range(12))
        values[str(iou_type)] = metric.compute()
    both = {f"{kind}_{name}": value for kind in ("bbox", "segm") for name, value in values[kind].items()}
    assert repr(values["['bbox', 'segm']"]) == repr(both)


def test_masks_may_have_scores_of_their_own():
    found = [{**image, "scores": image["scores"][::-1], "mask_scores": image["scores"]} for image in FOUND]
    metric = fm.MeanAveragePrecision(iou_type="segm")
    metric.add(found, TRUE, ids=range(12))
    assert same(metric.compute(), of_coco(FOUND, TRUE))


def test_polygons_are_filled_as_the_library_does():
    from faster_coco_eval.core import mask as coder

    polygons = [[[10.5, 3, 60, 8, 33, 50]], [[5, 5, 20, 5, 20, 30, 5, 30], [40, 40, 70, 40, 70, 60]]]
    counts, size = run_lengths("", polygons, (80, 100))
    expected = [coder.merge(coder.frPyObjects(mask, 80, 100)) for mask in polygons]
    assert counts == [rle["counts"].decode() for rle in expected] and size == (80, 100)
    metric = fm.MeanAveragePrecision(iou_type="segm")
    found = {"masks": expected, "scores": [0.5, 0.25], "labels": [0, 1]}
    metric.add([found], [{"masks": polygons, "labels": [0, 1], "size": (80, 100)}], ids=["a.jpg"])
    assert metric.compute()["map"] == 1


PIXELS = np.zeros((1, 5, 7), bool)
PIXELS[0, 1:3, 2:5] = True
RLE = {"size": [5, 7], "counts": b";230009"}
ONE, TARGET = {"masks": PIXELS, "scores": [0.5], "labels": [1]}, {"masks": [RLE], "labels": [1]}


@pytest.mark.parametrize(
    ("found", "true", "told"),
    [
        ({"masks": PIXELS[:, :4]}, {}, r"predictions\[0\]: mask 0 has the size 4 x 7, but its image 5 x 7"),
        ({}, {"size": (6, 7)}, r"targets\[0\]: mask 0 has the size 5 x 7, but its image 6 x 7"),
        ({"size": (6, 7)}, {}, r"size of predictions\[0\] is \(6, 7\), but that of its image \[5 7\]"),
        ({"size": 5}, {}, r"size of predictions\[0\] must be \(height, width\), two positive integers, not 5"),
        ({}, {"masks": PIXELS & False}, r"targets\[0\]: mask 0 has no pixels; leave the object out"),
        ({}, {"masks": [{**RLE, "counts": b""}]}, r"targets\[0\]: mask 0 cannot be read: ''; give counts as pyco"),
        ({}, {"masks": [{**RLE, "counts": b";23000"}]}, r"mask 0 has runs of 23 pixels, not 5 x 7"),
        ({}, {"masks": [{**RLE, "counts": b";23000o"}]}, "mask 0 cannot be read: ';23000o'"),
        ({}, {"masks": [{**RLE, "counts": "\xff;230009"}]}, "mask 0 cannot be read"),
        ({}, {"masks": [{**RLE, "counts": "\u5b57;230009"}]}, "mask 0 cannot be read"),
        ({}, {"masks": [{**RLE, "counts": "\udc80;230009"}]}, "mask 0 cannot be read"),
        ({}, {"masks": [{**RLE, "counts": b";23K"}]}, "mask 0 cannot be read"),
        ({}, {"masks": [RLE, {**RLE, "counts": b";2300"}], "labels": [1, 1]}, "mask 1 has runs of 21 pixels"),
        ({}, {"masks": [{**RLE, "counts": b"o" * 20 + b"0"}]}, "mask 0 cannot be read"),
        ({}, {"masks": [{**RLE, "counts": [36, -1]}]}, r"counts of .*mask 0 must be a text, or integers of at least 0"),
        ({}, {"masks": [{**RLE, "counts": [11, 2]}]}, "mask 0 has runs of 13 pixels, not 5 x 7"),
        ({}, {"masks": [{**RLE, "counts": 3}]}, "counts of .*mask 0 must be a text, or integers"),
        ({}, {"masks": [{"counts": b";230009"}]}, "mask 0 is a dict with counts; it must have size and counts"),
        ({}, {"masks": [[[1, 1, 4, 1, 4, 3]]]}, r"polygons, which needs size: \(height, width\) of the image"),
        ({}, {"masks": [[[1, 1, 4, 1]]], "size": (5, 7)}, r"has the polygon \[1, 1, 4, 1\]; it must be \[x1, y1"),
        ({}, {"masks": [[[1, 1, 4, 1, math.nan, 3]]], "size": (5, 7)}, "has the polygon"),
        ({}, {"masks": [[[1, 1, 4, 1, 400, 3]]], "size": (5, 7)}, "has a polygon far outside of the image"),
        ({}, {"masks": [[]], "size": (5, 7)}, "mask 0 has no polygons"),
        ({"masks": [[[0, 1] * 4] * 8]}, {"masks": np.ones((1, 8, 8), bool)}, "mask 0 is a list with the rows of a"),
        ({"masks": PIXELS.tolist()}, {}, "mask 0 is a list with the rows of a mask, where polygons may be; make it an"),
        ({"masks": PIXELS * 0.7}, {}, r"shape \[5, 7\] and dtype float64; it must be booleans .*scores > 0\.5"),
        ({"masks": PIXELS * np.uint8(255)}, {}, r"and dtype uint8; it must be booleans \[height, width\]"),
        ({"masks": PIXELS[0]}, {}, r"masks has shape \[5, 7\]; it must be \[n, height, width\], or a list"),
        ({"masks": [*PIXELS, *PIXELS]}, {}, r"has labels \[1\], scores \[1\], masks \[2\]; it must have n of each"),
        ({"masks": None}, {}, "masks"),
        ({"mask_scores": [0.5, 0.5]}, {}, r"mask_scores \[2\]"),
    ],
)  # fmt: skip
def test_bad_masks_are_named_and_nothing_is_kept(found, true, told):
    metric = fm.MeanAveragePrecision(iou_type="segm")
    with pytest.raises(fm.InvalidInputError, match=told):
        metric.add([{**ONE, **found}], [{**TARGET, **true}], ids=[0])
    metric.add([ONE], [TARGET], ids=[7])
    assert metric.compute()["map"] == 1


def test_a_mask_is_named_by_its_image_among_those_of_a_batch():
    for counts, told in ((b";2300", "has runs of 21 pixels"), (b"S1", "has no pixels")):
        metric = fm.MeanAveragePrecision(iou_type="segm")
        wrong = {"masks": [RLE, {**RLE, "counts": counts}], "labels": [1, 1]}
        with pytest.raises(fm.InvalidInputError, match=rf"MeanAveragePrecision: targets\[2\]: mask 1 {told}"):
            metric.add([ONE] * 4, [TARGET, {"masks": [], "labels": []}, wrong, TARGET], ids=range(4))


def test_a_kind_that_there_is_not_and_images_without_masks_are_named():
    for iou_type, told in (("mask", "'segm'"), ([], "must be one of 'bbox', 'segm', not None"), (3, "list of strings")):
        with pytest.raises(fm.InvalidInputError, match=rf"iou_type.*{told}"):
            fm.MeanAveragePrecision(iou_type=iou_type)
    metric = fm.MeanAveragePrecision(iou_type="segm")
    with pytest.raises(fm.InvalidInputError, match="must be a dict with masks, scores, labels"):
        metric.add([{"boxes": [[0, 0, 9, 9]], "scores": [0.5], "labels": [1]}], [TARGET], ids=[0])
    with pytest.raises(fm.InvalidInputError, match="1 of 1 ids came with records that differ: 0"):
        metric.add([ONE] * 2, [TARGET, {**TARGET, "masks": ~PIXELS}], ids=[0, 0])
        metric.compute()


# -- MMDetection's


def samples(found: Any, true: Any) -> list[dict[str, Any]]:
    result = []
    for n, (mine, its) in enumerate(zip(found, true)):
        rows = zip(bounds(its["masks"]), its["labels"].tolist(), its["iscrowd"].tolist(), map(encoded, its["masks"]))
        instances = [dict(zip(("bbox", "bbox_label", "ignore_flag", "mask"), row)) for row in rows]
        sample = {"img_id": n, "ori_shape": mine["masks"].shape[1:], "instances": instances}
        result.append({**sample, "pred_instances": {**mine, "bboxes": bounds(mine["masks"])}})
    return result


ITEMS = ["mAP", "mAP_50", "mAP_75", "mAP_s", "mAP_m", "mAP_l", "AR@1", "AR@10", "AR@100"]
ITEMS += ["AR_s@100", "AR_m@100", "AR_l@100"]


def test_masks_and_proposals_of_mmdetections_configs_have_the_librarys_numbers(tmp_path):
    file = tmp_path / "instances.json"
    file.write_text(json.dumps(files(FOUND, TRUE)[0]))
    for ann_file, area in ((None, "bbox"), (str(file), "segm")):
        metric = evaluator.CocoMetric(
            ann_file, ["bbox", "segm", "proposal"], True, proposal_nums=(1, 10, 100), metric_items=ITEMS
        )
        metric.dataset_meta = {"classes": [f"class {label}" for label in range(3)]}
        metric.process(None, samples(FOUND, TRUE))
        values = metric.evaluate(size=12)
        expected = {"segm_": of_coco(FOUND, TRUE), "bbox_": of_coco(FOUND, TRUE, "bbox", area)}
        expected[""] = of_coco(FOUND, TRUE, "bbox", area, by_label=False)
        for prefix, each in expected.items():
            assert same(values, {f"coco/{prefix}{item}": each[name] for item, name in zip(ITEMS, NAMES)})
        assert "coco/segm_class 2_precision" in values and "coco/bbox_class 2_precision" in values


def by_pairs(found: Any, true: Any, iou: float, most: int) -> float:
    """The recall of boxes, by the definition: the nearest two are a pair, until none is left."""
    pairs = total = 0
    for mine, its in zip(found, true):
        order = np.argsort(-mine["scores"], kind="stable")[:most]
        boxes, others = np.array(bounds(mine["masks"]))[order], np.array(bounds(its["masks"])).reshape(-1, 4)
        others = others[its["iscrowd"] == 0]
        total += len(others)
        near = []
        for n, (x, y, x2, y2) in enumerate(boxes.tolist()):
            for m, (a, b, a2, b2) in enumerate(others.tolist()):
                both = max(0, min(x2, a2) - max(x, a)) * max(0, min(y2, b2) - max(y, b))
                union = (x2 - x) * (y2 - y) + (a2 - a) * (b2 - b) - both
                near.append((-both / max(union, 1e-6), m, n))
        used: set[tuple[str, int]] = set()
        for value, m, n in sorted(near):
            if not {("true", m), ("found", n)} & used:
                used |= {("true", m), ("found", n)}
                pairs += -value >= iou
    return pairs / total


def test_fast_proposals_have_the_recall_of_the_definition():
    metric = evaluator.CocoMetric(metric="proposal_fast", proposal_nums=(1, 3), iou_thrs=[0.5, 0.7])
    metric.process(None, samples(FOUND, TRUE))
    expected = [(by_pairs(FOUND, TRUE, 0.5, most) + by_pairs(FOUND, TRUE, 0.7, most)) / 2 for most in (1, 3)]
    assert [*metric.evaluate(size=12).items()] == [
        ("coco/AR@1", pytest.approx(expected[0], rel=1e-12)), ("coco/AR@3", pytest.approx(expected[1], rel=1e-12))
    ]  # fmt: skip
    assert 0.1 < expected[0] < expected[1] < 1


def test_samples_whose_masks_coco_metric_cannot_use_are_named(tmp_path):
    (sample,) = samples(FOUND[:1], TRUE[:1])
    height, width = sample["ori_shape"]
    metric = evaluator.CocoMetric(metric="segm")
    for change, told in (
        ({"ori_shape": (9, 9)}, r"image 0: mask 0 has the size .*, but its image 9 x 9"),
        ({"pred_instances": {"scores": [], "labels": []}}, "image 0 must be a dict with masks, scores, labels"),
        ({"instances": [{"bbox_label": 0}]}, "one of the instances of image 0 has no mask"),
        ({"pred_instances": None}, "CocoMetric: a data sample has no pred_instances"),
    ):
        with pytest.raises(fm.InvalidInputError, match=told):
            metric.process(None, [{**sample, **change}])
    with pytest.raises(fm.InvalidInputError, match="proposal and proposal_fast give values of the same names"):
        evaluator.CocoMetric(metric=["proposal", "proposal_fast"])
    data, file = files(FOUND[:1], TRUE[:1])[0], tmp_path / "instances.json"
    for size, told in (((9, 9), "image 0: mask 0 has the size"), ((None, 9), "height and width of .*image 0 must be")):
        data["images"][0].update(height=size[0], width=size[1])
        file.write_text(json.dumps(data))
        metric = evaluator.CocoMetric(str(file), metric="segm")
        metric.process(None, [sample])
        with pytest.raises(fm.InvalidInputError, match=told):
            metric.evaluate(size=1)
    data["images"][0].update(height=height + 1, width=width)
    file.write_text(json.dumps({**data, "annotations": []}))
    metric = evaluator.CocoMetric(str(file), metric="segm")
    metric.process(None, [sample])
    with pytest.raises(
        fm.InvalidInputError, match=f"masks of image 0 are {height} x {width}, but the image is {height + 1} x"
    ):
        metric.evaluate(size=1)
