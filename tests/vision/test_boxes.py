"""Boxes of COCO and VOC: the libraries' own numbers, each image once, and what is refused."""

from __future__ import annotations

import copy
import json
import math
import sys
from typing import Any

import numpy as np
import pytest

import fleetmetrics as fm
from fleetmetrics import evaluator

pytestmark = pytest.mark.numpy_only
pytest.importorskip("faster_coco_eval", reason="faster-coco-eval is not installed")

NAMES = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large", "mar_1", "mar_10", "mar_100")
NAMES += ("mar_small", "mar_medium", "mar_large")


def images(count: int, labels: int = 6, seed: int = 0) -> tuple[list[Any], list[Any]]:
    """Predicted and true boxes, of any number; some scores are equal."""
    rng = np.random.default_rng(seed)
    found, true = [], []
    for _ in range(count):
        boxes, many = rng.integers(0, 7), rng.integers(0, 12)
        corners, sizes = rng.random((boxes, 2)) * 200, rng.random((boxes, 2)) * rng.choice([20, 60, 150]) + 4
        label, near = rng.integers(0, labels, boxes), rng.integers(0, max(boxes, 1), many if boxes else 0)
        shifted = corners[near] + rng.normal(size=(len(near), 2)) * 3
        scores, guess = rng.integers(0, 20, len(near)) / 20, np.where(rng.random(len(near)) < 0.8, label[near], 0)
        found.append({"boxes": np.hstack([shifted, shifted + sizes[near]]), "scores": scores, "labels": guess})
        flags = (rng.random(boxes) < 0.1).astype(int)
        true.append({"boxes": np.hstack([corners, corners + sizes]), "labels": label, "iscrowd": flags})
    return found, true


def of_coco(found: Any, true: Any, **params: Any) -> dict[str, float]:
    """The library's own number, from what would be in its files."""
    from faster_coco_eval import COCO, COCOeval_faster

    truth, answers = [], []
    for image, (mine, its) in enumerate(zip(found, true)):
        for (x1, y1, x2, y2), label, crowd in zip(its["boxes"].tolist(), its["labels"].tolist(), its["iscrowd"]):
            box = {"bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1), "iscrowd": int(crowd)}
            truth.append({"id": len(truth) + 1, "image_id": image, "category_id": label, **box})
        for (x1, y1, x2, y2), label, score in zip(mine["boxes"].tolist(), mine["labels"].tolist(), mine["scores"]):
            box = {"bbox": [x1, y1, x2 - x1, y2 - y1], "score": float(score)}
            answers.append({"image_id": image, "category_id": label, **box})
    data = COCO()
    data.dataset = {"images": [{"id": image} for image in range(len(true))], "annotations": truth}
    data.dataset["categories"] = [{"id": label} for label in range(6)]
    data.createIndex()
    evaluation = COCOeval_faster(data, data.loadRes(answers), "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return dict(zip(NAMES, evaluation.stats))


def fed(metric: Any, found: Any, true: Any, parts: int = 1, order: Any = None) -> Any:
    order = np.arange(len(true)) if order is None else order
    for places in np.array_split(order, parts):
        metric.add([found[n] for n in places], [true[n] for n in places], ids=places)
    return metric


def test_average_precision_is_the_librarys_own_in_any_order_of_the_images():
    found, true = images(80)
    value = fed(fm.MeanAveragePrecision(), found, true).compute()
    assert {name: value[name] for name in NAMES} == of_coco(found, true) and 0.1 < value["map"] < 0.9
    twice = np.concatenate([np.random.default_rng(1).permutation(80), np.arange(9)])
    assert fed(fm.MeanAveragePrecision(), found, true, 7, twice).compute() == value


def test_each_class_and_each_number_of_detections_has_its_value():
    found, true = images(40)
    value = fed(
        fm.MeanAveragePrecision(iou_thresholds=[0.5], max_detection_thresholds=[2, 1], class_metrics=True), found, true
    )
    value = value.compute()
    assert [*value] == ["map", *NAMES[3:6], "map_50", "mar_1", "mar_2", *NAMES[-3:], "map_per_class"]
    assert [*value["map_per_class"]] == [*range(6)] and value["map"] == value["map_50"]
    assert value["map"] == pytest.approx(np.mean([*value["map_per_class"].values()]))
    names = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])
    named = [[{**image, "labels": names[image["labels"]]} for image in side] for side in (found, true)]
    other = fm.MeanAveragePrecision(iou_thresholds=[0.5], max_detection_thresholds=[2, 1], class_metrics=True)
    assert fed(other, *named).compute()["map_per_class"] == dict(zip(names.tolist(), value["map_per_class"].values()))


@pytest.mark.parametrize("form", ["xywh", "cxcywh"])
def test_boxes_come_in_three_forms(form):
    found, true = images(20)
    value = fed(fm.MeanAveragePrecision(), found, true).compute()
    for image in (*found, *true):
        start, size = image["boxes"][:, :2], image["boxes"][:, 2:] - image["boxes"][:, :2]
        image["boxes"] = np.hstack([start + size / 2 * (form == "cxcywh"), size])
    assert fed(fm.MeanAveragePrecision(form), found, true).compute()["map"] == pytest.approx(value["map"], rel=1e-9)


def plain_voc(found: Any, true: Any, label: int, steps: bool, pixel: float) -> float:
    """By the definition, box by box."""
    boxes = [
        (score, n, k)
        for n, image in enumerate(found)
        for k, score in enumerate(image["scores"])
        if image["labels"][k] == label
    ]
    boxes.sort(key=lambda box: -box[0])
    taken, flags = set(), []
    total = sum(
        (image["labels"][k] == label and not image["difficult"][k])
        for image in true
        for k in range(len(image["labels"]))
    )
    for _, n, k in boxes:
        best, which = 0.0, None
        x1, y1, x2, y2 = found[n]["boxes"][k]
        for m, (a1, b1, a2, b2) in enumerate(true[n]["boxes"]):
            if true[n]["labels"][m] == label:
                both = max(0, min(x2, a2) - max(x1, a1) + pixel) * max(0, min(y2, b2) - max(y1, b1) + pixel)
                union = (x2 - x1 + pixel) * (y2 - y1 + pixel) + (a2 - a1 + pixel) * (b2 - b1 + pixel) - both
                if both / union > best:
                    best, which = both / union, m
        if best <= 0.5:
            flags.append(False)
        elif not true[n]["difficult"][which]:
            flags.append((n, which) not in taken)
            taken.add((n, which))
    points = [(sum(flags[: n + 1]) / total, sum(flags[: n + 1]) / (n + 1)) for n in range(len(flags))]
    if steps:
        return sum(max((p for r, p in points if r >= n / 10), default=0) for n in range(11)) / 11
    recalls = [0.0, *(r for r, _ in points)]
    return sum((r - before) * max(p for _, p in points[n:]) for n, ((r, _), before) in enumerate(zip(points, recalls)))


@pytest.mark.parametrize("settings", [("area", False), ("11 points", True)])
def test_vocs_average_precision_is_that_of_the_definition(settings):
    found, true = images(60, labels=3)
    for image in true:
        image["difficult"] = image.pop("iscrowd")
    metric = fm.VOCMeanAveragePrecision(0.5, *settings, class_metrics=True)
    each = [plain_voc(found, true, label, settings[0] != "area", float(settings[1])) for label in range(3)]
    value = fed(metric, found, true, 4, np.random.default_rng(2).permutation(60)).compute()
    assert list(value["map_per_class"].values()) == pytest.approx(each, rel=1e-12) and 0.1 < min(each) < max(each) < 1
    assert value["map"] == pytest.approx(np.mean(each), rel=1e-12)


def test_half_of_a_box_is_not_above_an_iou_of_a_half():
    metric = fm.VOCMeanAveragePrecision()
    metric.add(
        [{"boxes": [[0, 0, 10, 5]], "scores": [1.0], "labels": [0]}],
        [{"boxes": [[0, 0, 10, 10]], "labels": [0]}],
        ids=[0],
    )
    assert metric.compute() == {"map": 0.0}


def test_without_true_boxes_the_value_is_nan_and_told():
    found, true = images(3)
    nothing = [{"boxes": [], "labels": []}] * 3
    for metric in (fm.MeanAveragePrecision(), fm.VOCMeanAveragePrecision()):
        for target in ([], nothing):
            metric.add(found[: len(target)], target, ids=range(len(target)))
            with pytest.warns(fm.UndefinedMetricWarning, match="there are no true boxes"):
                assert math.isnan(metric.compute()["map"])
    metric = fm.MeanAveragePrecision()
    metric.add([{"boxes": [], "scores": [], "labels": []}] * 3, true, ids=[0, 1, 2])
    assert metric.compute()["map"] == 0


def test_a_checkpoint_has_the_boxes():
    found, true = images(5)
    metric, other = fed(fm.MeanAveragePrecision(), found, true), fm.MeanAveragePrecision()
    other.set_state_dict(metric.state_dict())
    assert other.compute()["map"] == metric.compute()["map"] == copy.deepcopy(metric).compute()["map"]


BOX, TARGET = {"boxes": [[0, 0, 9, 9]], "scores": [0.5], "labels": [1]}, {"boxes": [[0, 0, 9, 9]], "labels": [1]}


@pytest.mark.parametrize(
    ("found", "true", "ids", "told"),
    [
        (
            {"boxes": [[9, 0, 0, 9]]},
            {},
            [0],
            r"box 0 of predictions\[0\], \[9\.0, 0\.0, 0\.0, 9\.0\], has x2 < x1 or y2",
        ),
        ({}, {"boxes": [[0, 9, 9, 0]]}, [0], r"box 0 of targets\[0\]"),
        ({}, {}, None, "ids is missing; give an integer or string for each image, or give the metric sampler="),
        ({"scores": [np.nan]}, {}, [0], r"scores of predictions\[0\] has nan at 0; give numbers"),
        ({"boxes": [[0, 0, 9, np.inf]]}, {}, [0], r"boxes of predictions\[0\] has .*inf"),
        ({"scores": ["high"]}, {}, [0], "scores"),
        ({"labels": [3]}, {}, [0], r"labels of predictions\[0\] has 3, which is not one of the categories"),
        ({"labels": [0.5]}, {}, [0], r"labels of predictions\[0\] must hold integers or strings"),
        ({"scores": [0.1, 0.2]}, {}, [0], r"has boxes \[1, 4\], labels \[1\], scores \[2\]"),
        ({"boxes": [[0, 0, 9]]}, {}, [0], r"it must have boxes \[n, 4\]"),
        ({"boxes": None}, {}, [0], "boxes"),
        (
            {"boxes": [[0, 0, 9, 1e200]]},
            {},
            [0],
            r"boxes of predictions\[0\] has 0, 0, 9, 1e\+200 at 0; give numbers up to 1e\+100",
        ),
        ({"labels": [1.0]}, {}, [0], r"not float64 \(given a list\); .*numpy\.asarray\(\.\.\., int\)"),
        ({}, {"iscrowd": [2]}, [0], r"iscrowd of targets\[0\] has 2 at 0; give 0 or 1"),
        ({}, {"is_crowd": [1]}, [0], r"targets\[0\] has 'is_crowd', which is not read; did you mean 'iscrowd'\?"),
        ({}, {"areas": [9]}, [0], r"targets\[0\] has 'areas', which is not read; did you mean 'area'\?"),
        ({}, {"area": [-1]}, [0], r"area of targets\[0\] has -1 at 0; give at least 0"),
        ({}, {}, [0, 1], "must have equal lengths"),
    ],
)
def test_bad_input_is_named_and_nothing_of_it_is_kept(found, true, ids, told):
    metric = fm.MeanAveragePrecision(categories=[1, 2])
    with pytest.raises(fm.InvalidInputError, match=told):
        metric.add([{**BOX, **found}], [{**TARGET, **true}], ids=ids)
    metric.add([BOX], [TARGET], ids=[7])
    assert metric.compute()["map"] == 1


@pytest.mark.parametrize("kind", [fm.MeanAveragePrecision, fm.VOCMeanAveragePrecision])
def test_labels_are_of_one_kind_and_any_size(kind):
    texts = [{**BOX, "labels": ["1"]}], [{**TARGET, "labels": ["1"]}]
    metric = kind()
    told = "labels are integers in some places and strings in others, such as 1 and '1'; use one kind"
    with pytest.raises(fm.InvalidInputError, match=told):
        metric.add([BOX], texts[1], ids=[0])
    metric.add([BOX], [TARGET], ids=[0])
    metric.add(*texts, ids=[1])
    with pytest.raises(fm.InvalidInputError, match=told):
        metric.compute()
    large = kind()
    for number, (found, true) in enumerate([(2**53 + 1, 2**53), (2**63, 2**63)]):
        large.add([{**BOX, "labels": [found]}], [{**TARGET, "labels": [true]}], ids=[number])
    assert large.compute()["map"] == 0.5


def test_boxes_of_any_size_count():
    for side in (1e-3, 1e5, 1e9):
        metric = fm.MeanAveragePrecision()
        metric.add([{**BOX, "boxes": [[0, 0, side, side]]}], [{**TARGET, "boxes": [[0, 0, side, side]]}], ids=[0])
        value = metric.compute()
        assert value["map"] == value["map_small" if side < 1 else "map_large"] == 1


def test_true_boxes_that_are_all_crowds_are_told():
    metric = fm.MeanAveragePrecision()
    metric.add([BOX], [{**TARGET, "iscrowd": [True]}], ids=[0])
    with pytest.warns(fm.UndefinedMetricWarning, match="all true boxes are crowds"):
        assert math.isnan(metric.compute()["map"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"categories": 5}, "categories must be a list of labels, not 5"),
        ({"iou_thresholds": 0.5}, r"iou_thresholds must be a list of numbers, not 0\.5"),
        ({"iou_thresholds": []}, "iou_thresholds is empty"),
        ({"max_detection_thresholds": 100}, "max_detection_thresholds must be a list of numbers, not 100"),
        ({"max_detection_thresholds": ()}, "max_detection_thresholds is empty"),
    ],
)
def test_settings_that_mean_nothing_are_errors(settings, told):
    with pytest.raises(fm.InvalidInputError, match=told):
        fm.MeanAveragePrecision(**settings)


def test_an_argument_of_another_name_is_named_with_the_one_that_is_meant():
    for wrong, meant in (({"preds": [BOX], "targets": [TARGET]}, "predictions"), ({"target": [TARGET]}, "targets")):
        with pytest.raises(fm.InvalidInputError, match=f"MeanAveragePrecision.add has no .*did you mean {meant}"):
            fm.MeanAveragePrecision().add(**wrong, ids=[0])


def test_a_metric_of_images_is_no_part_of_another_and_the_error_says_what_to_do():
    for make in (lambda metric: fm.Sliced(metric, by="k"), lambda metric: fm.MetricCollection([metric])):
        with pytest.raises(fm.InvalidInputError, match=r"not MeanAveragePrecision; .* stands alone: call its own add"):
            make(fm.MeanAveragePrecision())


def test_missing_parts_other_boxes_for_an_id_and_a_missing_library_are_named(monkeypatch):
    metric = fm.MeanAveragePrecision()
    for found in ([{"boxes": []}], BOX, [[0]]):
        with pytest.raises(fm.InvalidInputError, match="dict"):
            metric.add(found, [TARGET], ids=[0])
    with pytest.raises(fm.InvalidInputError, match="box_format must be"):
        fm.MeanAveragePrecision("xyyx")
    metric.add([BOX, {**BOX, "scores": [0.25]}], [TARGET] * 2, ids=[0, 0])
    with pytest.raises(fm.InvalidInputError, match="1 of 1 ids came with records that differ: 0"):
        metric.compute()
    monkeypatch.setitem(sys.modules, "faster_coco_eval", None)
    with pytest.raises(fm.MissingLibraryError, match="pip install faster-coco-eval"):
        fm.MeanAveragePrecision()


# -- MMDetection's


def samples(found: Any, true: Any) -> list[dict[str, Any]]:
    return [
        {
            "img_id": 10 + n,
            "pred_instances": {"bboxes": mine["boxes"], "scores": mine["scores"], "labels": mine["labels"]},
            "instances": [
                {"bbox": box, "bbox_label": label, "ignore_flag": crowd}
                for box, label, crowd in zip(*(its[name].tolist() for name in ("boxes", "labels", "iscrowd")))
            ],
        }
        for n, (mine, its) in enumerate(zip(found, true))
    ]


def test_coco_metric_of_mmdetections_configs_has_the_librarys_number_from_samples_and_from_a_file(tmp_path):
    found, true = images(30)
    expected = of_coco(found, true)
    file = tmp_path / "instances.json"
    boxes = []
    for n, image in enumerate(true):
        for (x, y, x2, y2), label, crowd in zip(*(image[name].tolist() for name in ("boxes", "labels", "iscrowd"))):
            size = {"bbox": [x, y, x2 - x, y2 - y], "area": (x2 - x) * (y2 - y)}
            boxes.append({"image_id": 10 + n, "category_id": 3 * label, "iscrowd": crowd, **size})
    classes = [f"class {label}" for label in range(6)]
    categories = [{"id": 3 * label, "name": name} for label, name in reversed([*enumerate(classes)])]
    annotations = [{"id": 1 + n, **box} for n, box in enumerate(boxes)]
    pictures = [{"id": 10 + n} for n in range(30)]
    file.write_text(json.dumps({"images": pictures, "annotations": annotations, "categories": categories}))
    for settings in ({}, {"ann_file": str(file), "classwise": True}):
        config = {"type": "mmdet.CocoMetric", "metric": "bbox", **settings}
        judge = evaluator.Evaluator([config])
        judge.dataset_meta = {"classes": classes}
        for sample in samples(found, true):
            judge.process(data_samples=[sample])
        value = judge.evaluate(size=30)
        mine = [value[f"coco/bbox_{item}"] for item in ("mAP", "mAP_50", "mAP_75", "mAP_s", "mAP_m", "mAP_l")]
        assert mine == [expected[name] for name in NAMES[:6]]
    assert [name for name in value if name.endswith("_precision")] == [f"coco/{name}_precision" for name in classes]
    assert evaluator.METRICS.get("CocoMetric") is evaluator.CocoMetric


def test_a_sample_that_coco_metric_cannot_use_is_named(tmp_path):
    found, true = images(1)
    (sample,) = samples(found, true)
    metric = evaluator.CocoMetric()
    for missing, told in (("img_id", "no img_id"), ("instances", "no instances; give them, or ann_file=")):
        with pytest.raises(fm.InvalidInputError, match=told):
            metric.process(None, [{name: part for name, part in sample.items() if name != missing}])
    with pytest.raises(fm.InvalidInputError, match=r"metric must be one of 'bbox', 'segm',.* did you mean.*'segm'"):
        evaluator.CocoMetric(metric=["bbox", "segmn"])
    for ids in ([1, "1"], [1.5, 2]):
        strange = evaluator.CocoMetric()
        strange.process(None, [{**sample, "img_id": image} for image in ids])
        with pytest.raises(fm.InvalidInputError, match="img_id must hold integers or strings"):
            strange.evaluate(size=2)
    file = tmp_path / "none.json"
    file.write_text(json.dumps({"images": [{"id": 1}], "annotations": [], "categories": [{"id": 1, "name": "cat"}]}))
    metric = evaluator.CocoMetric(ann_file=str(file))
    metric.process(None, [sample])
    with pytest.raises(fm.InvalidInputError, match="has no image 10"):
        metric.evaluate(size=1)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "ann_file cannot be read"),
        ("[", "is no file of COCO's annotations: JSONDecodeError"),
        ({"bbox": None}, r"json: image 10: an annotation has no bbox: \[x, y, width, height\]"),
        ({"bbox": [1, 2, 3]}, r"json: image 10: an annotation has no bbox: \[x, y, width, height\]"),
        ({"bbox": [5, 5, -3, 2]}, r"box 0 of .*json: image 10, \[5\.0, 5\.0, 2\.0, 7\.0\], has x2 < x1"),
        ({"area": -5}, "area of .*json: image 10 has -5 at 0; give at least 0"),
        ({"iscrowd": 3}, "iscrowd of .*json: image 10 has 3 at 0; give 0 or 1"),
    ],
)
def test_what_is_wrong_with_a_file_of_annotations_is_named(tmp_path, content, told):
    file = tmp_path / "instances.json"
    if isinstance(content, dict):
        one = {"id": 1, "image_id": 10, "category_id": 1, "bbox": [0, 0, 9, 9], **content}
        head = {"images": [{"id": 10}], "categories": [{"id": 1, "name": "cat"}]}
        content = json.dumps({**head, "annotations": [one]})
    if content is not None:
        file.write_text(content)
    found, true = images(1)
    metric = evaluator.CocoMetric(ann_file=str(file))
    metric.process(None, samples(found, true))
    with pytest.raises(fm.FileAccessError if content is None else fm.InvalidInputError, match=told):
        metric.evaluate(size=1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"instances": None}, "a data sample has no instances"),
        ({"pred_instances": [1]}, r"image 10 must be a dict with boxes, scores, labels, not \[1\]"),
        (None, "data_samples must be a list with a dict for each image"),
    ],
)
def test_samples_of_another_form_are_named(change, told):
    (sample,) = samples(*images(1))
    with pytest.raises(fm.InvalidInputError, match=f"CocoMetric: {told}"):
        evaluator.CocoMetric().process(None, [[1] if change is None else {**sample, **change}])


def test_true_boxes_that_are_all_crowds_leave_the_value_undefined_and_it_is_told():
    metric = evaluator.CocoMetric()
    found, true = images(9)
    for image in true:
        image["iscrowd"][:] = 1
    metric.process(None, samples(found, true))
    with pytest.warns(fm.UndefinedMetricWarning, match="all true boxes are crowds"):
        assert math.isnan(metric.evaluate(size=9)["coco/bbox_mAP"])


def test_an_area_that_is_nan_is_that_of_the_box():
    values = []
    for area in ({"area": [np.nan, 16.0]}, {"area": [100.0, 16.0]}):
        metric = fm.MeanAveragePrecision()
        boxes = [[0, 0, 10, 10], [50, 50, 90, 90]]
        sides = [{"boxes": boxes, "scores": [0.5, 0.4], "labels": [1, 1]}], [{"boxes": boxes, "labels": [1, 1], **area}]
        metric.add(*sides, ids=[0])
        values.append(repr(metric.compute()))
    assert values[0] == values[1]


def test_an_image_that_comes_twice_counts_once_and_with_other_boxes_is_an_error():
    found, true = images(3)
    first, second, third = samples(found, true)
    metric = evaluator.CocoMetric()
    metric.process(None, [first, second, third])
    once = metric.evaluate(size=3)
    metric.process(None, [first, second, first, third])
    assert metric.evaluate(size=4) == once
    metric.process(None, [first, {**second, "img_id": first["img_id"]}])
    with pytest.raises(fm.InvalidInputError, match="1 of 1 ids came with records that differ: 10"):
        metric.evaluate(size=2)
