"""Text regions: PaddleOCR's number, by the definition, and what is refused."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import fleetmetrics as fm

pytestmark = pytest.mark.numpy_only
pytest.importorskip("shapely", reason="shapely is not installed")


def box(x: float, y: float, width: float, height: float = 1.0) -> list[tuple[float, float]]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def plain(found: list, true: list, ignored: list) -> tuple[int, int, int]:
    """Boxes of (x, y, width, height): matched, found and true, by the definition."""

    def both(one, other):
        return np.prod(
            [max(0, min(one[d] + one[d + 2], other[d] + other[d + 2]) - max(one[d], other[d])) for d in (0, 1)]
        )

    out = [any(both(mine, its) > 0.5 * mine[2] * mine[3] for its, flag in zip(true, ignored) if flag) for mine in found]
    free, matched = {n for n, flag in enumerate(out) if not flag}, 0
    for its, flag in zip(true, ignored):
        for n in sorted(free):
            union = its[2] * its[3] + found[n][2] * found[n][3] - both(its, found[n])
            if not flag and both(its, found[n]) / union > 0.5:
                free.discard(n)
                matched += 1
                break
    return matched, out.count(False), ignored.count(False)


def test_random_boxes_match_as_the_definition_says():
    rng = np.random.default_rng(0)
    metric, counts = fm.TextDetection(), np.zeros(3, int)
    for image in range(60):
        true = [tuple(rng.integers(0, 12, 2)) + tuple(rng.integers(1, 6, 2)) for _ in range(rng.integers(0, 9))]
        found = [
            tuple(np.add(one, rng.integers(-1, 2, 4).clip(-1, 1) * [1, 1, 0, 0])) for one in true if rng.random() < 0.8
        ]
        ignored = [bool(rng.random() < 0.2) for _ in true]
        counts += plain(found, true, ignored)
        metric.add([[box(*one) for one in found]], [[box(*one) for one in true]], [ignored], ids=[image])
    matched, found, true = counts.tolist()
    value = metric.compute()
    assert value["precision"] == matched / found and value["recall"] == matched / true and 0.2 < value["recall"] < 0.9
    assert value["hmean"] == pytest.approx(2 / (1 / value["precision"] + 1 / value["recall"]), rel=1e-12)


def test_polygons_of_any_number_of_points_and_an_image_that_came_twice():
    metric = fm.TextDetection()
    triangle = np.array([[0, 0], [4, 0], [0, 4]], np.float32)
    for _ in range(2):
        metric.add([[triangle], []], [[triangle + 0.1, box(9, 9, 1)], [box(0, 0, 2)]], ids=["a", "b"])
    assert metric.compute() == {"precision": 1.0, "recall": 1 / 3, "hmean": 0.5}


def test_a_polygon_that_crosses_itself_is_left_out_and_told_and_no_regions_are_undefined():
    metric = fm.TextDetection()
    metric.add([[box(0, 0, 2), [(0, 0), (1, 1), (1, 0), (0, 1)]]], [[box(0, 0, 2)]], ids=[0])
    with pytest.warns(UserWarning, match="1 polygon was left out: edges cross"):
        assert metric.compute()["precision"] == 1
    for found, true, told in (([], [box(0, 0, 2)], "no region was found"), ([box(0, 0, 2)], [], "no true region")):
        metric = fm.TextDetection()
        metric.add([found], [true], ids=[0])
        with pytest.warns(fm.UndefinedMetricWarning, match=told):
            value = metric.compute()
        assert value["hmean"] == 0 and [math.isnan(value["precision"]), math.isnan(value["recall"])].count(True) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([[]], [[], []]), "predictions and targets are of 1 and 2 images"),
        (([[]], [[]], [[], []]), "predictions, targets and ignored are of 1, 1 and 2 images"),
        ((None, [[]]), "predictions must be a list with an entry for each image, not None"),
        (([[]], [[box(0, 0, 1)]], [[0, 1]]), r"ignored\[0\] has 2 flags for 1 polygon"),
        (([[[(0, 0), (1, 1)]]], [[]]), r"predictions\[0\]: polygon 0 must be \[points, 2\], of at least 3 points"),
        (([[]], [[[(0, 0), (1, np.nan), (1, 0)]]]), r"targets\[0\]: polygon 0 must be"),
        (([[[1, 2, 3]]], [[]]), r"predictions\[0\]: polygon 0"),
        (([[box(0, 0, 1), "abc"]], [[]]), r"polygon 1 of predictions\[0\] must hold .*, not strings such as 'abc'"),
        (([None], [[]]), r"predictions\[0\] must be a list of polygons \[points, 2\], not None"),
        (([[]], [[box(0, 0, 1e200)]]), r"targets\[0\]: polygon 0 must be .* numbers below 1e\+100"),
        (([[]], [[box(0, 0, 1)]], [[2]]), r"ignored\[0\] is \[2\]; it must be 0 or 1 for each polygon"),
    ],
)
def test_bad_input_is_named(arguments, told, monkeypatch):
    metric = fm.TextDetection()
    with pytest.raises(fm.InvalidInputError, match=told):
        metric.add(*arguments, ids=[0])
    with pytest.raises(fm.InvalidInputError, match="ids is missing"):
        metric.add([[]], [[]])
    monkeypatch.setitem(sys.modules, "shapely", None)
    with pytest.raises(fm.MissingLibraryError, match="pip install shapely"):
        fm.TextDetection()
