"""Every metric equals its reference library on random and on real data, on one, two and five workers.

Paddle's sampler deals padding, to some workers nothing else, or every second worker has nothing. All metrics share a
job.
"""

from __future__ import annotations

import functools
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import bundled
from tests.contract import CASES, Data, draw, expected, first_dtypes, is_exact_value, plain, same
from tests.distributed.cluster import run
from tests.exactness import NAMES

pytestmark = [pytest.mark.distributed, pytest.mark.thorough]
WORKER = Path(__file__).parent / "workers" / "equality.py"
WORKERS = (1, 2, 5)
SOURCES = ("random", "real")


# -- data of what is no case of the contract ---------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def images(source: str) -> list[Any]:
    """Predicted and true boxes and masks: ellipses, or the dark pixels of each digit in a row of four, and all."""
    from tests.vision import test_masks

    if source == "random":
        found, true = test_masks.images(13)
        found = [{name: column[:-1] for name, column in image.items()} for image in found]  # the last is empty
    else:
        pictures, score, label = bundled.digits(3, slice(32))
        found, true = [], []
        for four in np.arange(4 * 23).reshape(-1, 4):
            gray = np.kron(pictures[four].reshape(4, 8, 8), np.ones((5, 5)))
            places = np.arange(4)[:, None] == np.repeat(np.arange(4), 40)  # of which columns are of which digit
            row = places[:, None, :] * np.hstack([*gray])
            of = {"scores": pictures[four].mean(axis=1) / 16, "labels": score[four].argmax(axis=1)}
            found.append({"masks": row >= 11, **of})
            true.append({"masks": row > 0, "labels": label[four], "iscrowd": np.zeros(4, int)})
    for image in (*found, *true):
        image["boxes"] = np.reshape(test_masks.bounds(image["masks"]), (-1, 4))
    for image in true:
        image["area"], image["difficult"] = image["masks"].sum(axis=(1, 2)), image["iscrowd"]
    return [found, true]


def features(source: str) -> list[Any]:
    """Queries and a gallery, each of features, labels and cameras; no two are equally near."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, 7, 170)
    rows = rng.random((170, 12)) + np.eye(12)[label] / 2
    if source == "real":
        pictures, _, label = bundled.digits(10)
        rows, label = bundled.softened(pictures[:170]).reshape(-1, 64), label[:170]
    columns = rows, label, np.arange(170) % 3
    return [tuple(column[part] for column in columns) for part in (slice(61), slice(61, None))]


def tasks(source: str) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    scores, click, buy = rng.random((77, 2)), rng.integers(0, 2, 77), rng.integers(0, 2, 77)
    if source == "real":
        table, click = bundled.tumors()
        scores, buy = table[:, [0, 7]], (table[:, 20] > 0.6).astype(int)
    return {"p_click": scores[:, 0], "p_buy": scores[:, 1], "click": click, "buy": buy}


def classes(source: str) -> list[Any]:
    """Data samples of MMEngine: scores of ten classes."""
    rng = np.random.default_rng(5)
    score, label = rng.dirichlet(np.ones(10), 83), rng.integers(0, 10, 83)
    if source == "real":
        score, label = bundled.softmax(10)[:2]
    return [{"pred_score": scores, "gt_label": its} for scores, its in zip(score, label.tolist())]


def labels(source: str) -> list[Any]:
    """Data samples of MMEngine: scores of labels of which a sample may have several."""
    rng = np.random.default_rng(6)
    score, flags = rng.random((83, 4)), rng.integers(0, 2, (83, 4))
    if source == "real":
        score, flags = bundled.traits()[:2]
    return [{"pred_score": scores, "gt_score": its} for scores, its in zip(score, flags) if its.any()]


def image_samples(source: str) -> list[Any]:
    """The images as data samples of MMDetection."""
    return [
        {
            "img_id": n,
            "pred_instances": {
                "bboxes": found["boxes"],
                **{name: found[name] for name in ("masks", "scores", "labels")},
            },
            "instances": [
                {"bbox": box, "mask": mask, "bbox_label": label, "ignore_flag": crowd}
                for box, mask, label, crowd in zip(*(true[name] for name in ("boxes", "masks", "labels", "iscrowd")))
            ],
        }
        for n, (found, true) in enumerate(zip(*images(source)))
    ]


# -- what libraries say of them --------------------------------------------------------------------------------


def of_coco(data: Any) -> dict[str, float]:
    """Those of faster-coco-eval."""
    from tests.vision.test_masks import of_coco

    return {f"{kind}_{name}": value for kind in ("bbox", "segm") for name, value in of_coco(*data, kind).items()}


def of_voc(data: Any) -> dict[str, float]:
    """By the definition, box by box."""
    from tests.vision.test_boxes import plain_voc

    return {"map": float(np.mean([plain_voc(*data, label, False, 0.0) for label in range(3)]))}


def of_regions(data: Any) -> dict[str, float]:
    """By the definition, box by box."""
    from tests.vision.test_text_regions import plain

    sides = [[[(x, y, x2 - x, y2 - y) for x, y, x2, y2 in image["boxes"].tolist()] for image in side] for side in data]
    matched, found, true = np.sum([plain(*pair, [False] * len(pair[1])) for pair in zip(*sides)], axis=0).tolist()
    return {"precision": matched / found, "recall": matched / true, "hmean": 2 * matched / (found + true)}


def of_features(data: Any) -> dict[str, float]:
    """Of each query scikit-learn's average precision, and the places of what matches."""
    from sklearn.metrics import average_precision_score

    (rows, labels, cameras), (items, its, their) = data
    found = []
    for row, label, camera in zip(rows, labels, cameras):
        kept = (its != label) | (their != camera)
        score, match = (items @ row / np.linalg.norm(items, axis=1))[kept], (its == label)[kept]
        places = np.flatnonzero(match[np.argsort(-score)]) + 1
        found.append((average_precision_score(match, score), len(places) / places[-1], places[0] <= 1, places[0] <= 5))
    return dict(zip(("mAP", "mINP", "recall@1", "recall@5"), np.mean(found, axis=0).tolist()))


def of_tasks(data: Any) -> dict[str, float]:
    from sklearn.metrics import log_loss, mean_squared_error, roc_auc_score

    functions = {"auc": roc_auc_score, "loss": log_loss, "error": mean_squared_error}
    return {
        f"{task}/{key}": function(data[task], data[f"p_{task}"])
        for task in ("click", "buy")
        for key, function in functions.items()
    }


def of_classes(data: Any) -> dict[str, Any]:
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, top_k_accuracy_score

    score, label = (np.array([sample[name] for sample in data]) for name in ("pred_score", "gt_label"))
    pair = label, score.argmax(axis=1)
    shares = precision_recall_fscore_support(*pair, average="macro", zero_division=0, labels=range(10))[:3]
    return {
        **{f"accuracy/top{k}": 100 * top_k_accuracy_score(label, score, k=k, labels=range(10)) for k in (1, 2)},
        **{f"single-label/{name}": 100 * share for name, share in zip(("precision", "recall", "f1-score"), shares)},
        "confusion_matrix/result": confusion_matrix(*pair, labels=range(10)),
    }


def of_labels(data: Any) -> dict[str, float]:
    from sklearn.metrics import average_precision_score, precision_recall_fscore_support

    score, flags = (np.array([sample[name] for sample in data]) for name in ("pred_score", "gt_score"))
    shares = precision_recall_fscore_support(flags, score >= 0.5, average="macro")[:3]
    return {
        **{f"multi-label/{name}": 100 * share for name, share in zip(("precision", "recall", "f1-score"), shares)},
        "multi-label/mAP": 100 * average_precision_score(flags, score, average="macro"),
        "retrieval/Recall@1": 100 * np.mean([its[scores.argmax()] for scores, its in zip(score, flags)]),
    }


def of_image_samples(data: Any) -> dict[str, float]:
    found = [dict(sample["pred_instances"], boxes=sample["pred_instances"]["bboxes"]) for sample in data]
    names = {"bbox": "boxes", "mask": "masks", "bbox_label": "labels", "ignore_flag": "iscrowd"}
    true = [
        {name: np.array([its[key] for its in sample["instances"]]) for key, name in names.items()} for sample in data
    ]
    values = of_coco([found, true])
    return {
        f"coco/{kind}_{name}": values[f"{kind}_{ours}"]
        for kind in ("bbox", "segm")
        for name, ours in zip(("mAP", "mAP_50", "mAP_75"), ("map", "map_50", "map_75"))
    }


OTHERS = {
    "coco": (images, of_coco),
    "voc": (images, of_voc),
    "regions of text": (images, of_regions),
    "retrieval": (features, of_features),
    "tasks": (tasks, of_tasks),
    "classes": (classes, of_classes),
    "labels": (labels, of_labels),
    "coco of data samples": (image_samples, of_image_samples),
}


# -- the jobs --------------------------------------------------------------------------------------------------


EVERY = (*NAMES, *OTHERS)


@functools.lru_cache(maxsize=None)
def samples() -> dict[tuple[str, str], Any]:
    """By source and name of a case or of one of the others."""
    found: dict[tuple[str, str], Any] = {("random", name): draw(name, first_dtypes(name)) for name in NAMES}
    found.update({("real", name): bundled.real(name) for name in NAMES})
    return {**found, **{(of, name): make(of) for of in SOURCES for name, (make, _) in OTHERS.items()}}


@functools.lru_cache(maxsize=None)
def reports_of(workers: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.pickle"
        path.write_bytes(pickle.dumps({key: crossing(data) for key, data in samples().items()}))
        return run(WORKER, workers, args={"samples": str(path)}, timeout=280)


def crossing(data: Any) -> Any:
    return data._replace(columns=dict(data.columns)) if isinstance(data, Data) else data


@functools.lru_cache(maxsize=None)
def of_library(source: str, name: str) -> Any:
    """The value that the reference library has."""
    data = samples()[source, name]
    return plain(OTHERS[name][1](data) if name in OTHERS else expected(name, data))


def equal(source: str, name: str, value: Any, reference: Any) -> bool:
    """Whether a value is the reference's: bit for bit, or as closely as the case promises."""
    if name in OTHERS:
        return same({key: value[key] for key in reference}, reference, name.startswith("coco"))
    return same(value, reference, is_exact_value(name, samples()[source, name], None), CASES[name].tolerance)


def value_of(workers: int, source: str, way: str, name: str) -> Any:
    values = reports_of(workers)[0]["values"]
    return eval(values[f"{source}, {way}: {name}"], {"nan": np.nan, "inf": np.inf})


@pytest.mark.parametrize("workers", WORKERS)
def test_every_worker_has_the_same_bits(workers):
    reports = reports_of(workers)
    assert [(report["rank"], report["world"]) for report in reports] == [(rank, workers) for rank in range(workers)]
    assert all(report["values"] == reports[0]["values"] for report in reports)


@pytest.mark.parametrize("way", ["padded", "empty"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("workers", WORKERS)
def test_every_value_is_the_librarys(workers, source, way):
    pairs = {name: (value_of(workers, source, way, name), of_library(source, name)) for name in EVERY}
    assert {name: pair for name, pair in pairs.items() if not equal(source, name, *pair)} == {}


@pytest.mark.parametrize("source", SOURCES)
def test_of_three_samples_five_workers_have_the_value_of_one(source):
    pairs = {name: [value_of(workers, source, "three", name) for workers in (5, 1)] for name in EVERY}
    assert {name: pair for name, pair in pairs.items() if not equal(source, name, *pair)} == {}
