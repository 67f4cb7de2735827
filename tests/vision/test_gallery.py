"""Retrieval over features: the value of any split, by the definition, and what it refuses."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score

import fleetmetrics as fm
from fleetmetrics.formulas import gallery as formulas

pytestmark = pytest.mark.numpy_only


def digits() -> tuple[np.ndarray, np.ndarray]:
    pictures, labels = load_digits(return_X_y=True)
    return pictures[:300] + np.random.default_rng(0).random((300, 64)) / 64, labels[:300]  # no two are equally near


def found(queries: Any, gallery: Any, cuts: int = 1, **settings: Any) -> fm.Retrieval:
    """A metric that got features, labels and maybe cameras in this many batches."""
    metric = fm.Retrieval(**{"topk": (1, 5), **settings})
    for side, data in ((metric, queries), (metric.gallery, gallery)):
        for parts in zip(*(np.array_split(column, cuts) for column in data)):
            side.add(*parts)
    return metric


SIMILAR = {
    "dot": lambda q, g: g @ q,
    "cosine": lambda q, g: g @ q / np.linalg.norm(g, axis=1),
    "euclidean": lambda q, g: -np.linalg.norm(g - q, axis=1),
}


@pytest.mark.parametrize("similarity", SIMILAR)
def test_handwritten_digits_find_each_other_as_scikit_learn_says(similarity):
    pictures, labels = digits()
    cameras = np.arange(300) % 4
    metric = found(
        (pictures[:60], labels[:60], cameras[:60]), (pictures[60:], labels[60:], cameras[60:]), 3, similarity=similarity
    )
    precisions, penalties, first = [], [], []
    for query in range(60):
        kept = ~((labels[60:] == labels[query]) & (cameras[60:] == cameras[query]))
        score, match = SIMILAR[similarity](pictures[query], pictures[60:])[kept], (labels[60:] == labels[query])[kept]
        places = np.flatnonzero(match[np.argsort(-score)]) + 1
        precisions.append(average_precision_score(match, score))
        penalties.append(len(places) / places[-1])
        first.append(places[0])
    values = metric.compute()
    assert values["mAP"] == pytest.approx(np.mean(precisions), rel=1e-12) and 0.5 < values["mAP"] < 1
    assert values["mINP"] == pytest.approx(np.mean(penalties), rel=1e-12)
    assert values["recall@1"] == np.mean(np.array(first) <= 1) and values["recall@5"] == np.mean(np.array(first) <= 5)
    assert {type(value) for value in values.values()} == {float}


def test_neither_the_order_of_the_gallery_nor_the_blocks_change_a_bit(monkeypatch):
    rng = np.random.default_rng(1)
    gallery = rng.integers(0, 3, (400, 6)).astype(np.float32) + 1, rng.integers(0, 9, 400)  # many are equally near
    queries = rng.integers(0, 3, (50, 6)).astype(np.float32) + 1, rng.integers(0, 9, 50)
    values = found(queries, gallery).compute()
    monkeypatch.setattr(formulas, "_AT_ONCE", 400 * 4 * 7)
    monkeypatch.setattr(formulas, "_ITEMS", 33)
    shuffled = rng.permutation(400)
    assert found(queries, [column[shuffled] for column in gallery], 5).compute() == values
    monkeypatch.setattr(formulas, "_FEW", 0)
    assert found([column[::-1] for column in queries], gallery).compute() == values


def test_of_equally_near_items_those_that_match_come_last_so_that_a_constant_network_finds_nothing():
    metric = found(([[1.0, 2.0]], [7]), ([[1.0, 2.0]] * 10, [7, 7, *range(8)]), topk=[1, 8, 9])
    assert metric.compute() == {
        "mAP": (1 / 8 + 2 / 9 + 3 / 10) / 3, "mINP": 3 / 10, "recall@1": 0.0, "recall@8": 1.0, "recall@9": 1.0
    }  # fmt: skip


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("similarity", SIMILAR)
def test_the_size_of_features_changes_nothing_where_float32_or_float64_would_overflow(similarity, scale):
    pictures, labels = digits()
    values = [
        found((rows[:60], labels[:60]), (rows[60:], labels[60:]), similarity=similarity).compute()
        for rows in (pictures, pictures / pictures.max() * scale)
    ]
    assert values[1] == pytest.approx(values[0], rel=1e-12)
    tiny = np.concatenate([pictures[:1] * 1e-170, pictures[1:]])
    if similarity == "cosine":
        assert found((pictures[:60], labels[:60]), (tiny, labels)).compute()["recall@1"] == 1


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_neighbors_are_told_apart_however_far_they_are_from_the_origin(far):
    rng, labels = np.random.default_rng(0), np.arange(50)
    gallery = rng.normal(size=(50, 16)) + far
    metric = found((gallery + rng.normal(size=(50, 16)) / 10, labels), (gallery, labels), similarity="euclidean")
    assert metric.compute() == {"mAP": 1, "mINP": 1, "recall@1": 1, "recall@5": 1}


def test_a_query_without_a_match_is_left_out_and_told():
    metric = found(([[1.0, 0.0], [0.0, 1.0]], ["cat", "owl"]), ([[1.0, 0.1], [0.1, 1.0]], ["cat", "dog"]))
    with pytest.warns(fm.UndefinedMetricWarning, match="undefined for 1 query of 2, which nothing in the gallery"):
        assert metric.compute()["mAP"] == 1
    for queries, told in (([[1.0, 0.0]], "nothing in the gallery matches"), ([], "there are no queries")):
        metric = fm.Retrieval(topk=1)
        metric.gallery.add([[1.0, 0.1]], ["cat"])
        if queries:
            metric.add(queries, ["owl"])
        with pytest.warns(fm.UndefinedMetricWarning, match=told):
            value = metric.compute()
        assert list(value) == ["mAP", "mINP", "recall@1"] and all(map(math.isnan, value.values()))


def test_a_picture_that_came_twice_counts_once_by_its_id():
    metric = fm.Retrieval(topk=1)
    for ids in ([0, 1, 0], [1]):
        rows = np.array([[1.0, 0.0], [0.8, 0.6]])[ids]
        metric.gallery.add(rows, np.array(["cat", "dog"])[ids], ids=ids)
    metric.add([[0.9, 0.1]], ["dog"], ids=[0])
    assert metric.compute() == {"mAP": 0.5, "mINP": 0.5, "recall@1": 0.0}


def test_copies_pickles_and_checkpoints_have_queries_and_gallery_and_a_reset_neither():
    pictures, labels = digits()
    metric = found((pictures[:20], labels[:20]), (pictures[20:], labels[20:]))
    value, fresh = metric.compute(), fm.Retrieval(topk=(1, 5))
    fresh.set_state_dict(metric.state_dict())
    for other in (fresh, copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert other.compute() == value == other.compute_local()
    with pytest.raises(fm.InvalidInputError, match=r"different settings.*topk"):
        fm.Retrieval(topk=3).set_state_dict(metric.state_dict())
    metric.reset()
    metric.add(pictures[:20], labels[:20])
    with pytest.raises(fm.InvalidInputError, match=r"the gallery is empty.*gallery\.add"):
        metric.compute()


def test_features_may_be_written_to_after_they_were_added():
    rows, metric = np.array([[1.0, 0.0], [0.0, 1.0]]), fm.Retrieval(topk=1)
    metric.gallery.add(rows, [0, 1])
    metric.add(rows, [0, 1])
    rows[:] = rows[::-1].copy()
    metric.add(rows, [1, 0])
    assert metric.compute()["recall@1"] == 1


ROWS = np.eye(3)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda m: m.add([1.0, 2.0], [0, 1]), r"features has shape \[2\]; it must be \[n, d\]"),
        (lambda m: (m.add(ROWS, [0, 1, 2]), m.add(ROWS[:, :2], [0, 1, 2])), r"shape \[3, 2\]; it must be \[n, 3\]"),
        (lambda m: m.add(ROWS[:, :0], [0, 1, 2]), r"features has shape \[3, 0\]; it must be"),
        (lambda m: m.add(ROWS * np.nan, [0, 1, 2]), "Retrieval: row 0 of features has nan or inf"),
        (lambda m: m.gallery.add(ROWS - ROWS[1], [0, 1, 2]), r"Retrieval\.gallery: row 1 of features is all zeros"),
        (lambda m: m.add(ROWS, [0, 1]), "must have equal lengths.*features 3, labels 2"),
        (lambda m: m.add(ROWS, [0, 1, 2], ids=[0]), "must have equal lengths.*ids 1"),
        (lambda m: m.add(ROWS, [0.5, 1, 2]), r"labels must hold integers or strings.*0\.5"),
        (lambda m: m.add(ROWS, [[0, 1]] * 3), "labels has shape"),
        (lambda m: (m.add(ROWS, [0, 1, 2]), m.add(ROWS, [0, 1, 2], [0, 0, 0])), "same columns"),
        (lambda m: m.add(ROWS, [0, 1, 2], label=[0]), "label"),
        (
            lambda m: (m.add(ROWS, [0, 1, 2]), m.add(ROWS, ["a", "b", "c"])),
            "labels must hold integers or strings, not both",
        ),
        (lambda m: (m.add(ROWS, [0, 1, 2]), m.gallery.add(ROWS[:, :2] + 1, [0, 1, 2])), "have 3 numbers, and .* 2;"),
        (lambda m: (m.add(ROWS, [0, 1, 2]), m.gallery.add(ROWS, ["a", "b", "c"])), "labels are strings on one side"),
        (lambda m: (m.add(ROWS, [0, 1, 2], [0] * 3), m.gallery.add(ROWS, [0, 1, 2])), "only one .* came with cameras"),
        (lambda m: fm.Retrieval(topk=0), "topk, or each of several, must be an integer of at least 1, not 0"),
        (lambda m: fm.Retrieval(similarity="l2"), "similarity must be.*'euclidean'"),
        (lambda m: fm.Retrieval(top_k=1), "did you mean.*topk"),
    ],
)
def test_bad_input_is_named(call, told):
    metric = fm.Retrieval()
    with pytest.raises((fm.InvalidInputError, TypeError), match=told):
        call(metric)
        metric.compute()
